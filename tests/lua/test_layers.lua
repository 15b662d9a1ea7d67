-- test_layers.lua -- layers compared with PyTorch in float64: results, gradients of inputs and parameters, buffers
local mt = require 'mtorch'
local t = require 'testing'
local nn = mt.nn
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')
local cases = dofile(here .. '/data/layer_cases.lua')
local torch = require 'torch_values'
local values, lin = torch.load 'layers', torch.lin

--- Returns the tensors of the file whose names begin with the prefix, by the rest of the name.
local function of(prefix)
  local found = {}
  for name, value in pairs(values) do
    if name:sub(1, #prefix) == prefix then found[name:sub(#prefix + 1)] = value end
  end
  return found
end

local function close(got, wanted, what)
  assert(got, what .. ' is missing')
  t.eq(tostring(got.shape), tostring(wanted.shape))
  local off = got:numel() == 0 and 0 or (got:detach() - wanted):abs():max():item()
  assert(off <= 1e-9, ('%s is off by %g'):format(what, off))
end

for k, case in ipairs(cases) do
  local code, shapes = case[1], case[2]
  t.test(k .. ' ' .. code, function()
    local layer = setfenv(assert(loadstring('return ' .. code)), {nn = nn, f = case.after})():double()
    if case.wrap then case.wrap(layer) end
    layer:load_state_dict(of(k .. '.state.'))
    local function inputs(scale)
      local list = {}
      for i, shape in ipairs(shapes) do
        local ids = values[('%d.in.%d'):format(k, i - 1)]
        list[i] = ids and ids + 1 or (lin(shape, 0.37 + 0.2 * (i - 1), 1) * scale):requires_grad_()
      end
      return list
    end
    local function call(list)
      local all = {unpack(list)}
      for _, more in ipairs(case.more or {}) do all[#all + 1] = more end
      return layer(unpack(all))
    end
    for n = 1, (case.calls or 1) - 1 do call(inputs(1 + 0.3 * (n - 1))) end
    local x = inputs(1)
    if case.eval then layer:eval() end
    local y = call(x)
    close(y, values[k .. '.out'], 'the result')
    if y.requires_grad then (y * lin(y.shape, 1, 0.5)):sum():backward() end
    local parameters, state = {}, layer:state_dict()
    for name, p in layer:named_parameters() do parameters[name] = p end
    for name, grad in pairs(of(k .. '.grad.')) do
      local input, p = name:match('^in%.(%d+)$'), name:match('^p%.(.*)$')
      close(input and x[input + 1].grad or p and parameters[p].grad, grad, 'the gradient of ' .. name)
    end
    for name, value in pairs(of(k .. '.after.')) do close(state[name]:double(), value:double(), name) end
  end)
end

t.test('100 steps from the same start and in the same order have the losses of PyTorch', function()
  for dtype, most in pairs{float32 = 1e-4, float64 = 1e-11} do
    local net = nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1, bias = false}), nn.BatchNorm2d(4), nn.ReLU(),
      nn.MaxPool2d(2), nn.weight_norm(nn.Conv2d(4, 6, 3)), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
      nn.LayerNorm(24), nn.Linear(24, 3)):to(dtype)
    for _, p in ipairs(net:parameters()) do
      mt.no_grad(function() p:copy_(lin(p.shape, 0.71, 0.1 * p:dim()) * 0.5 + 0.1) end)
    end
    local opt = mt.optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9, weight_decay = 1e-3})
    local losses = {}
    for step = 0, 99 do
      local x = lin({8, 1, 8, 8}, 0.37 + 0.01 * (step % 7), 1)
      local y = mt.range(0, 7) * (step % 7 + 1) % 3
      opt:zero_grad()
      local loss = mt.cross_entropy(net((x + y:view(8, 1, 1, 1):double() * 0.3):to(dtype)), y + 1)
      loss:backward()
      nn.clip_grad_norm_(net:parameters(), 0.5)
      opt:step()
      losses[step + 1] = loss:item()
    end
    t.near(losses, values['curve.' .. dtype]:tolist(), most)
    assert(losses[100] < 0.5 * losses[1], losses[100])
  end
end)

t.finish()
