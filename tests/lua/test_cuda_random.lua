-- test_cuda_random.lua -- random numbers and optimizers on the GPU compared with the CPU
local mt = require 'mtorch'
local t = require 'testing'
local test = t.test
t.needs_cuda()

--- Compares make(options) on both devices with the same seed.
local function drawn(make, dtype)
  mt.manual_seed(7)
  local b = make {dtype = dtype}
  mt.manual_seed(7)
  local a = make {dtype = dtype, device = 'cuda'}
  t.eq(a.dtype, b.dtype)
  assert(tostring(a.device):find('cuda'))
  return a:cpu(), b
end

test('uniform numbers and integers are the same on every device', function()
  for _, n in ipairs {0, 1, 2, 3, 5, 500, 1025, 2 ^ 20 + 1} do
    for _, dtype in ipairs {'float32', 'float64'} do
      t.eq(mt.equal(drawn(function(o) return mt.rand(n, o) end, dtype)), true)
    end
    for _, dtype in ipairs {'int64', 'int32', 'uint8', 'int8', 'int16', 'float32', 'float64'} do
      t.eq(mt.equal(drawn(function(o) return mt.randint(0, 120, {n}, o) end, dtype)), true)
    end
  end
  local a, b = drawn(function(o) return mt.rand(3, {dtype = o.dtype, device = o.device}) end, 'float32')
  t.eq(a:tolist(), b:tolist())
end)

test('normal numbers agree within a few units in the last place', function()
  for _, n in ipairs {1, 3, 500, 2 ^ 18 + 1} do
    for dtype, unit in pairs {float32 = 2 ^ -23, float64 = 2 ^ -52} do
      local a, b = drawn(function(o) return mt.randn(n, o) end, dtype)
      t.eq(mt.allclose(a, b, {rtol = 4 * unit, atol = 1e-30}), true)
    end
  end
end)

test('the stream continues from one draw to the next', function()
  for _, device in ipairs {'cpu', 'cuda'} do
    mt.manual_seed(3)
    local a, b = mt.rand(100, {device = device}), mt.rand(100, {device = device})
    t.eq(mt.equal(a, b), false)
    mt.manual_seed(3)
    t.eq(mt.equal(mt.rand(100, {device = device}), a), true)
    t.eq(mt.equal(mt.rand(100, {device = device}), b), true)
  end
end)

test('in place: normal_, uniform_, random views', function()
  for _, f in ipairs {'normal_', 'uniform_'} do
    mt.manual_seed(5)
    local b = mt.zeros(40, 3)
    b[{{2, 40}}][f](b[{{2, 40}}])
    mt.manual_seed(5)
    local a = mt.zeros({40, 3}, {device = 'cuda'})
    a[{{2, 40}}][f](a[{{2, 40}}])
    t.eq(mt.allclose(a:cpu(), b, {rtol = 1e-6, atol = 1e-30}), true)
  end
end)

test('optimizers step as on the CPU', function()
  local optim = mt.optim
  local cases = {
    function(p) return optim.SGD(p, {lr = 0.1}) end,
    function(p) return optim.SGD(p, {lr = 0.1, weight_decay = 0.01}) end,
    function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9, dampening = 0.1}) end,
    function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9, nesterov = true}) end,
    function(p) return optim.Adam(p, {lr = 0.1, weight_decay = 0.01}) end,
    function(p) return optim.AdamW(p, {lr = 0.1, weight_decay = 0.1}) end,
    function(p) return optim.RMSprop(p, {lr = 0.1, weight_decay = 0.1, momentum = 0.5, centered = true}) end,
  }
  for _, info in ipairs(require('mtorch.core').optimizers()) do
    cases[#cases + 1] = function(p) return optim[info.name](p, {lr = 0.1}) end
  end
  for number, make in ipairs(cases) do
    for _, dtype in ipairs {'float32', 'float64'} do
      for _, shape in ipairs {{}, {0}, {3}, {33, 45}, {1025}} do
        mt.manual_seed(number)
        local start = mt.randn(shape, {dtype = dtype})
        local all = {}
        for i, device in ipairs {'cpu', 'cuda'} do
          local p = start:to(device):clone():requires_grad_()
          local opt = make {p}
          for step = 1, 4 do
            opt:zero_grad()
            local loss = ((p - step) * (p + 1) * 0.5):sum()
            loss:backward()
            opt:step()
          end
          all[i] = p:detach():cpu()
        end
        local tol = dtype == 'float64' and 1e-13 or 1e-5
        if not mt.allclose(all[2], all[1], {rtol = tol, atol = tol}) then
          error(('case %d, %s: %s'):format(number, dtype, (all[2] - all[1]):abs():max():item()))
        end
      end
    end
  end
end)

test('moments below the smallest normal number become 0', function()
  for _, name in ipairs{'Adam', 'RMSprop'} do
    local p = mt.ones({1000}, {device = 'cuda'}):requires_grad_()
    local opt = mt.optim[name]({p})
    p.grad = mt.full({1000}, name == 'Adam' and 2e-38 or 1e-19, {device = 'cuda'})
    opt:step()
    p.grad = mt.zeros({1000}, {device = 'cuda'})
    for _ = 1, 200 do opt:step() end
    local state = opt.param_groups[1].state[1]
    for _, moment in ipairs{state.exp_avg or state.square_avg, state.exp_avg_sq} do
      t.eq(moment:ne(0):mul(moment:abs():lt(1.17e-38)):sum():item(), 0)
    end
  end
end)

test('a gradient on another device is refused', function()
  local p = mt.ones({3}, {device = 'cuda'}):requires_grad_()
  local done, message = pcall(function()
    p.grad = mt.ones(3)
    mt.optim.SGD({p}, {lr = 0.1}):step()
  end)
  t.eq(done, false)
  assert(tostring(message):find('cuda'), message)
end)

t.test('positions are made where they are asked for', function()
  mt.manual_seed(3)
  local there = mt.randperm(100, {device = 'cuda'})
  mt.manual_seed(3)
  t.eq(there.device, 'cuda:0')
  t.eq(there:tolist(), mt.randperm(100):tolist())
  t.eq(mt.tril_indices(3, 3, {device = 'cuda'}).device, 'cuda:0')
  t.eq(mt.triu_indices(3, 3, 1, 'cuda'):tolist(), mt.triu_indices(3, 3, 1):tolist())
end)

t.finish()
