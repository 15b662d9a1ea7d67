-- test_master_weights.lua -- optimizers with master_weights: 16-bit parameters that are trained in float32
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn, optim = mt.nn, mt.optim
local halves = {'bfloat16', 'float16'}

--- Options for steps of about 1e-4, less than half of the spacing of 16-bit floats from 1 on.
local tiny = {SGD = {lr = 2e-5, momentum = 0.9}, Adam = {lr = 1e-4, amsgrad = true}, AdamW = {lr = 1e-4},
  RMSprop = {lr = 2e-5, centered = true}, Adagrad = {lr = 2.4e-4}, Adadelta = {lr = 0.03}, Adamax = {lr = 1e-4},
  NAdam = {lr = 1e-4}, RAdam = {lr = 2e-4, betas = {0.9, 0.99}}, Lion = {lr = 1e-4}, SparseAdam = {lr = 1e-4}}

--- Returns the options with master_weights, by default true.
local function masters(options, on)
  local all = {master_weights = on ~= false}
  for key, value in pairs(options or {}) do all[key] = value end
  return all
end

local function same(a, b)
  eq({a.dtype, tostring(a.shape)}, {b.dtype, tostring(b.shape)})
  eq(t.bits(a:reshape(-1):tolist()), t.bits(b:reshape(-1):tolist()))
end
local function moved(a, b) return a:detach():ne(b):sum():item() end

--- Returns 16-bit leaves with values from 1 on, in several shapes and layouts.
local function weights(dtype)
  local function from_one(...) return (mt.randint(0, 100, {...}):float() / 128 + 1):to(dtype) end
  return {from_one(40):requires_grad_(), from_one(5, 3):t():requires_grad_(), mt.ones({}, dtype):requires_grad_(),
    mt.zeros({0}, dtype):requires_grad_()}
end
local function copies(list, dtype)
  local all = {}
  for i, p in ipairs(list) do all[i] = p:detach():clone():to(dtype or p.dtype):requires_grad_() end
  return all
end

--- Sets positive gradients, rounded to `dtype`, which are equal for all lists.
local function set_gradients(step, dtype, ...)
  mt.manual_seed(step)
  local lists = {...}
  for i = 1, #lists[1] do
    local g = (mt.rand(lists[1][i].shape) * 0.5 + 0.5):to(dtype)
    for _, list in ipairs(lists) do list[i].grad = g:to(list[i].dtype) end
  end
end

local function master(opt, i, group) return opt.param_groups[group or 1].state[i].master end

for _, info in ipairs(require('mtorch.core').optimizers()) do
  local options = tiny[info.name]
  test(info.name .. ': the master is what float32 parameters would be, the parameter is it, rounded', function()
    for _, dtype in ipairs(halves) do
      mt.manual_seed(1)
      local with = weights(dtype)
      local start, float, without = copies(with), copies(with, 'float32'), copies(with)
      local opt = optim[info.name](with, masters(options))
      local in_float, plain = optim[info.name](float, options), optim[info.name](without, options)
      for step = 1, 100 do
        set_gradients(step, dtype, with, float, without)
        opt:step()
        in_float:step()
        plain:step()
      end
      for i, p in ipairs(with) do
        same(master(opt, i), float[i]:detach())
        same(p:detach(), float[i]:detach():to(dtype))
        eq({p.dtype, p.is_leaf, p.requires_grad}, {dtype, true, true})
        eq(moved(without[i], start[i]), 0)
        eq(plain.param_groups[1].state[i].master, nil)
        if i < 4 then assert(moved(p, start[i]) > 0, info.name .. ' moved nothing in ' .. dtype) end
      end
    end
  end)

  test(info.name .. ': what was saved goes on with the same bits', function()
    for _, dtype in ipairs(halves) do
      mt.manual_seed(2)
      local list = weights(dtype)
      local opt = optim[info.name](list, masters(options))
      local other, other_opt
      for step = 1, 40 do
        if step == 21 then
          local path = os.tmpname()
          mt.save(path, {opt = opt:state_dict()})
          other, other_opt = copies(list), nil
          other_opt = optim[info.name](other, {lr = 5}):load_state_dict(mt.load(path).opt)
          os.remove(path)
          eq(other_opt.param_groups[1].master_weights, true)
        end
        set_gradients(step, dtype, list, other or list)
        opt:step()
        if other then other_opt:step() end
      end
      for i, p in ipairs(list) do
        same(p:detach(), other[i]:detach())
        same(master(opt, i), master(other_opt, i))
        assert(p:numel() == 0 or moved(master(opt, i), p:detach():float()) > 0)
      end
    end
  end)
end

test('a state without masters: they are made from the parameters', function()
  local list = weights('bfloat16')
  local opt = optim.Adam(list, {lr = 1e-4})
  set_gradients(1, 'bfloat16', list)
  opt:step()
  local former = opt:state_dict()
  former[1].master_weights = nil -- saved before there was this option
  local other = optim.Adam(list, masters()):load_state_dict(former)
  eq(other.param_groups[1].master_weights, true)
  local float = copies(list, 'float32')
  local in_float = optim.Adam(float):load_state_dict(former)
  set_gradients(2, 'bfloat16', list, float)
  other:step()
  in_float:step()
  for i in ipairs(list) do same(master(other, i), float[i]:detach()) end
  local state = other:state_dict()
  state[1].state[1].master = mt.ones(3)
  raises(function() other:load_state_dict(state) end, 'state%[1%].master is %(3%), the parameter %(40%)')
  state[1].state[1].master = 5
  raises(function() other:load_state_dict(state) end, 'state%[1%].master is 5, the parameter %(40%)')
end)

--- Returns a parameter and its optimizer after a few steps, when the master weight differs from it.
local function trained(dtype)
  local p = mt.ones(6):to(dtype):requires_grad_()
  local opt = optim.SGD({p}, {lr = 1, master_weights = true})
  local function step(gradient)
    p.grad = mt.full({6}, gradient):to(dtype)
    opt:step()
  end
  for _ = 1, 3 do step(2 ^ -14) end
  local wanted = 1 - 3 * 2 ^ -14
  eq({p:tolist()[1], master(opt, 1):tolist()[1]}, {1, wanted})
  return p, opt, step, wanted
end

test('the master follows a parameter that another has written', function()
  for _, dtype in ipairs(halves) do
    local net = nn.Linear(3, 2):to(dtype)
    local opt = optim.SGD(net:parameters(), {lr = 2 ^ -14, master_weights = true})
    local x = mt.ones({1, 3}, dtype)
    for _ = 1, 3 do
      opt:zero_grad()
      net(x):sum():backward()
      opt:step()
    end
    local state, before = net:state_dict(), master(opt, 1):clone()
    local loaded = {weight = state.weight:clone(), bias = state.bias * 2 + 1}
    loaded.weight[{1, 2}] = 3
    local expected = before
    expected[{1, 2}] = 3
    net:load_state_dict(loaded)
    opt:step()
    same(master(opt, 1), expected - mt.full({2, 3}, 2 ^ -14)) -- the others go on from their masters
    same(master(opt, 2), loaded.bias:float() - 2 ^ -14)
    same(net.weight:detach(), master(opt, 1):to(dtype))

    local ways = {
      function(p) mt.no_grad(function() p:copy_(mt.full({6}, 3)) end) end,
      function(p) mt.no_grad(function() p[2] = 3 end) end,
      function(p) p:detach():narrow(1, 2, 3):fill_(3) end,
      function(p) p:detach():mul_(3) end,
    }
    if mt.ones(1).device == 'cpu' then -- no counter of changes sees this
      ways[5] = function(p) p:detach():data()[1] = mt.full({1}, 3):to(dtype):data()[0] end
    end
    for _, write in ipairs(ways) do
      local p, own, step, wanted = trained(dtype)
      write(p)
      local written = p:tolist()
      step(2 ^ -14)
      for i, value in ipairs(master(own, 1):tolist()) do
        eq(value, (written[i] == 1 and wanted or written[i]) - 2 ^ -14)
      end
    end
  end
end)

test('the master follows its parameter to other dtypes and back', function()
  local net = nn.Linear(2, 1, {bias = false}):bfloat16()
  net.weight:detach():fill_(1)
  local opt = optim.SGD(net:parameters(), {lr = 1, master_weights = true})
  local function step(size)
    net.weight.grad = mt.full({1, 2}, size):to(net.weight.dtype)
    opt:step()
  end
  step(2 ^ -12)
  step(2 ^ -12)
  net:half()
  eq(net.weight:tolist()[1][1], 1)
  step(2 ^ -12)
  eq({master(opt, 1):tolist()[1][1], net.weight:tolist()[1][1]}, {1 - 2 ^ -12, 1 - 2 ^ -11 + 2 ^ -11})
  net:float()
  step(2 ^ -3)
  eq(net.weight:tolist(), {{0.875, 0.875}})
  net:bfloat16()
  step(2 ^ -12)
  eq(master(opt, 1):tolist()[1][1], 0.875 - 2 ^ -12)
  local state = opt:state_dict()
  state[1].state[1].master = state[1].state[1].master:clone()
  net:double()
  opt:load_state_dict(state)
  net:bfloat16()
  step(2 ^ -12)
  eq({master(opt, 1).dtype, master(opt, 1):tolist()[1][1]}, {'float32', 0.875 - 2 ^ -11})
end)

test('numbers that are none in 16 bits', function()
  local p = mt.tensor({65504, 0 / 0, 1}, 'float16'):requires_grad_()
  local opt = optim.SGD({p}, {lr = 64, master_weights = true})
  p.grad = mt.full({3}, -1):to('float16')
  opt:step()
  eq(t.bits(p:tolist()), t.bits{1 / 0, 0 / 0, 65})
  p.grad = mt.ones({3}, 'float16')
  opt:step() -- values beyond the range of float16 return to it
  eq(t.bits(p:tolist()), t.bits{65504, 0 / 0, 1})
end)

test('groups with and without masters, of several dtypes', function()
  local function world(with)
    mt.manual_seed(5)
    local start = {}
    for i, dtype in ipairs{'float32', 'bfloat16', 'float64', 'float16', 'bfloat16', 'float32'} do
      start[i] = mt.ones({4, 2}, dtype):t():requires_grad_()
    end
    local opt = optim.AdamW({{params = {start[1], start[2], start[3]}}, {params = {start[4]}, lr = 2e-4},
      {params = {start[5], start[6]}, master_weights = false}}, masters({lr = 1e-4}, with))
    for step = 1, 50 do
      set_gradients(step, 'bfloat16', start)
      if step % 7 == 0 then start[2].grad = nil end
      opt:step()
    end
    return start, opt
  end
  local with, opt = world(true)
  local without = world(false)
  for i, has in ipairs{false, true, false, true, false, false} do
    eq({i, moved(with[i], without[i]:detach()) > 0}, {i, has})
    local group, k = i < 4 and 1 or i == 4 and 2 or 3, i < 4 and i or i == 4 and 1 or i - 4
    eq({i, master(opt, k, group) ~= nil}, {i, has})
    if has then same(with[i]:detach(), master(opt, k, group):to(with[i].dtype)) end
  end
  eq(opt.param_groups[1].state[2].step, 43)

  -- Switched on later: masters begin at the parameters, and the state goes on
  local late, late_opt = world(false)
  for _, group in ipairs(late_opt.param_groups) do group.master_weights = true end
  local float = copies(late, 'float32')
  local float_opt = optim.AdamW({{params = {float[1], float[2], float[3]}}, {params = {float[4]}},
    {params = {float[5], float[6]}}}):load_state_dict(late_opt:state_dict())
  for step = 1, 3 do
    set_gradients(step, 'bfloat16', late, float)
    late_opt:step()
    float_opt:step()
  end
  same(master(late_opt, 2), float[2]:detach())
  same(master(late_opt, 1, 2), float[4]:detach())
  same(master(late_opt, 1, 3), float[5]:detach())
end)

test('SGD keeps its momentum if master weights are turned on', function()
  local p = mt.ones({3}, 'bfloat16'):requires_grad_()
  local opt = optim.SGD({p}, {lr = 2 ^ -12, momentum = 0.5, dampening = 0.5})
  p.grad = mt.ones({3}, 'bfloat16')
  opt:step()
  opt.param_groups[1].master_weights = true
  p.grad = p.grad * 2
  opt:step()
  eq({opt.param_groups[1].state[1].momentum_buffer:tolist()[1], master(opt, 1):tolist()[1]}, {1.5, 1 - 1.5 * 2 ^ -12})
end)

test('a bfloat16 network is trained by steps below its precision', function()
  local function loss_after(options)
    mt.manual_seed(6)
    local net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)):bfloat16()
    local opt = optim.Adam(net:parameters(), options)
    local x = mt.randn(64, 8):bfloat16()
    local y = x:narrow(2, 1, 1) + x:narrow(2, 2, 1)
    local first, loss
    for _ = 1, 200 do
      opt:zero_grad()
      loss = mt.mse_loss(net(x), y)
      loss:backward()
      opt:step()
      first = first or loss:item()
    end
    return loss:item() / first
  end
  local with, without = loss_after{lr = 1e-4, master_weights = true}, loss_after{lr = 1e-4}
  assert(with < 0.8 * without, with .. ' with masters, ' .. without .. ' without')
end)

test('a compiled step has the bits of the step itself', function()
  for _, case in ipairs{{'SGD', {lr = 1e-3, momentum = 0.9}}, {'Adam', {lr = 1e-4}}, {'Lion', {lr = 1e-4}}} do
    for _, dtype in ipairs(halves) do
      local made = {}
      for k = 1, 2 do
        mt.manual_seed(7)
        local net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)):to(dtype)
        local opt = optim[case[1]](net:parameters(), masters(case[2]))
        local function step(x, y)
          opt:zero_grad()
          local loss = mt.mse_loss(net(x), y)
          loss:backward()
          opt:step()
          return loss
        end
        made[k] = {net = net, opt = opt, step = k == 1 and step or mt.compile(step, {verify = 2})}
      end
      for i = 1, 8 do
        local x, y = mt.randn(8, 6):to(dtype), mt.randn(8, 3):to(dtype)
        eq(t.stderr_of(function() same(made[1].step(x, y):detach(), made[2].step(x, y):detach()) end), '')
        if i == 5 then
          for _, of in ipairs(made) do
            local state = of.net:state_dict()
            for name, x in pairs(state) do state[name] = name:find 'bias' and x + 1 or x end
            of.net:load_state_dict(state)
          end
        end
      end
      for i, p in ipairs(made[1].net:parameters()) do
        same(p:detach(), made[2].net:parameters()[i]:detach())
        same(master(made[1].opt, i), master(made[2].opt, i))
        assert(moved(master(made[1].opt, i), p:detach():float()) > 0)
      end
    end
  end
end)

test('LBFGS has no master weights; errors', function()
  raises(function() optim.LBFGS({mt.ones(1):requires_grad_()}, {master_weights = true}) end,
    "LBFGS: unknown option 'master_weights'")
  raises(function() optim.Adam({mt.ones(1):requires_grad_()}, {master_weights = 1}) end,
    'Adam: master_weights must be true or false, got 1')
end)

t.finish()
