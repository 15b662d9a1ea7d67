-- test_cuda_compile.lua -- mt.compile on a GPU: the features on the CPU, kernels of the user, graphs
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, told = t.test, t.eq, t.stderr_of
t.needs_cuda()

local gpu = {device = 'cuda'}
local function ramp(n) return mt.range(1, n):float():to('cuda') end
--- Asserts that calls of f and of its compiled form give the same; `change` is called before each.
local function alike(f, change)
  local compiled = mt.compile(f)
  return told(function()
    for i = 1, 8 do
      if change then change(i) end
      local x = ramp(5) * i
      eq(compiled(x):tolist(), f(x):tolist())
    end
  end)
end

test('constants made inside a step', function()
  eq(alike(function(x) return x * mt.tensor({1, 2, 3, 4, 5}, gpu) + mt.range(1, 5):float():to('cuda') * 2 end), '')
  eq(alike(function(x)
    local y = mt.tensor({1, 2, 3, 4, 5}, gpu) -- written after it was passed
    y:add_(x)
    return y * 2 + mt.eye(5):sum(1):to('cuda')
  end), '')
  eq(alike(function(x) return mt.tensor({1, 2, 3, 4, 5}, gpu), x end), '')
end)

test('numbers of the CPU beside tensors of the GPU are read at each call', function()
  local scale, list = mt.tensor(2), mt.ones(5)
  eq(alike(function(x) return x * scale end, function(i) scale:fill_(i) end), '')
  eq(alike(function(x) return mt.zeros(5, gpu):copy_(scale) + x end, function(i) scale:fill_(i) end), '')
  eq(alike(function(x) return x + list:to('cuda') end, function(i) list:fill_(i) end), '')
  eq(alike(function(x) return (x:cpu() * list + 1):to('cuda') * x end, function(i) list:fill_(i) end), '')
end)

test('what writes a GPU beside its verbs runs eagerly', function()
  local ok, double = pcall(function()
    local kernel = mt.cuda.kernel{name = 'twice', source = [[
      extern "C" __global__ void twice(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }]]}
    kernel(1, 32)(ramp(5), 5)
    return kernel
  end)
  if not ok then return end -- no compiler
  local text = alike(function(x)
    local y = x * 1
    double(1, 32)(y, 5)
    return y
  end)
  assert(text:find 'computes on the CPU outside of device functions', text)
end)

test('a program of mt.map is a call like others', function()
  local swish = mt.map(function(x) return x / (1 + math.exp(-x)) end)
  eq(alike(function(x) return swish(x) * 2 end), '')
end)

--- Returns the text of mt.explain for a compiled step.
local function explained(f)
  local print_before = print
  print = function() end -- luacheck: ignore 121
  local text = mt.explain(f)
  print = print_before -- luacheck: ignore 121
  return text
end
local waits = os.getenv 'MTORCH_CUDA_SYNC' ~= '1' -- with it, each kernel is synchronised, and there are no graphs
local function twins(batch, turns, after)
  local nets, steps, losses = {}, {}, {{}, {}}
  for k = 1, 2 do
    mt.manual_seed(3)
    local net = mt.nn.Sequential(mt.nn.Linear(6, 16), mt.nn.ReLU(), mt.nn.Dropout(0.3), mt.nn.Linear(16, 3)):to 'cuda'
    local opt = mt.optim.Adam(net:parameters(), {lr = 0.01})
    nets[k], steps[k] = net, function(x, y)
      opt:zero_grad()
      local scores = net(x) * mt.tensor({1, 2, 3}, gpu)
      local loss = mt.cross_entropy(scores, y)
      loss:backward()
      opt:step()
      return loss:detach(), scores:detach():t()
    end
  end
  steps[2] = mt.compile(steps[2])
  eq(told(function()
    for i = 1, turns do
      local x, y = batch(i)
      for k = 1, 2 do
        mt.manual_seed(100 + i)
        losses[k][i] = {steps[k](x, y)}
        losses[k][i].random = mt.get_rng_state()
        if after then after(nets[k], losses[k][i]) end
      end
    end
  end), '')
  for i = 1, turns do
    for name, x in pairs(losses[1][i]) do
      local same = mt.is_tensor(x) and mt.equal(x, losses[2][i][name]) or x == losses[2][i][name]
      assert(same, ('turn %d, %s'):format(i, name))
    end
  end
  for name, x in pairs(nets[1]:state_dict()) do assert(mt.equal(x, nets[2]:state_dict()[name]), name) end
  return explained(steps[2]), steps[2]
end
local function batch_of(i)
  mt.manual_seed(i)
  return mt.randn(8, 6):to 'cuda', mt.randint(1, 3, {8}):to 'cuda'
end

test('parts of a step are graphs: arguments that move, results and gradients that are kept', function()
  local x, y = batch_of(1)
  local text, step = twins(function() return x, y end, 9)
  assert(waits == (text:find 'CUDA graphs: 1' ~= nil), text)
  if waits then
    step(x, y * 0 + 7)
    t.raises(mt.cuda.synchronize, 'an earlier cross_entropy on cuda:0: a target is 7, expected 1..3')
  end
  text = twins(batch_of, 9)
  assert(waits == (text:find 'CUDA graphs: 1' ~= nil), text)
  local n = 0
  twins(batch_of, 16, function(net, list)
    n = n + 0.5 -- two networks in turn
    if math.ceil(n) % 6 > 3 then list.grad = net[1].weight.grad end
  end)
  local scaled = mt.compile(function(a, k) return ((a * k + 1):exp() - k) * a end)
  for i = 1, 40 do
    local k = 5 + (i < 6 and i or i < 12 and 6 or i < 18 and 7 or i % 2)
    eq(scaled(x, k):tolist(), (((x * k + 1):exp() - k) * x):tolist())
  end
  assert(waits == (explained(scaled):find 'CUDA graphs: 1' ~= nil))
  local kept = {}
  twins(function(i)
    kept[i] = {batch_of(i)}
    return unpack(kept[i])
  end, 12)
end)

test('arithmetic over one space is one kernel, with its gradient; functions, sums, float16 are not', function()
  local w, scale = mt.linspace(-1, 1, 64):to('cuda'):requires_grad_(), mt.tensor(3)
  local function made(f, make)
    local step = mt.compile(f)
    eq(told(function()
      for i = 1, 6 do
        local x = make(i)
        local expected, g = f(x), w.grad
        assert(mt.equal(step(x):detach(), expected:detach()) and (not g or mt.equal(w.grad, g)), i)
      end
    end), '')
    local text = explained(step)
    assert(not text:find 'not fused', text)
    return text
  end
  local function random(dtype) return function(i)
    mt.manual_seed(i)
    return mt.randn(64, 64):to('cuda'):to(dtype)
  end end
  local floats = random 'float32'
  local function has(text, ...) for _, part in ipairs {...} do assert(text:find(part, 1, true), text) end end
  local text = made(function(x)
    w.grad = nil
    local loss = ((x * w + 0.5):relu() - x):square():mean()
    loss:backward()
    return loss
  end, floats)
  if not t.has_nvrtc() then return assert(not text:find 'one program', text) end
  has(text, 'one program, float32 (64 x 64): mul, add, relu, sub, square', 'relu gradient, mul gradient')
  has(made(function(x) return (mt.where(x:gt(0), x, x:abs():sqrt()) / 3):exp() * 2 - x end, floats),
    'float32 (4096): gt, abs, sqrt, where, div; ', 'one program, float32 (4096): mul, sub; ')
  has(made(function(x) return (x:t() * 2 + x - 1):sum(2) end, floats), 'program, float32 (64 x 64): mul, add, sub; ')
  has(made(function(x) return x:neg() * scale + 1 end, floats), ': 3 verbs in 1 part,') -- a number that is read again
  has(made(function(x) return x * 2 + 1 end, random 'float16'), ': 2 verbs in 1 part,') -- each is rounded
end)

test('a compiled step that a graph records runs eagerly', function()
  local step = mt.compile(function(x) return x * 2 + 1 end)
  local x = ramp(3)
  local g = mt.cuda.graph(function() return step(x) end, 5)
  x:mul_(3)
  eq(g():tolist(), {7, 13, 19})
  eq(step(x):tolist(), {7, 13, 19})
end)

test('where new tensors are made, and in which floats, is a part of the key', function()
  local step = mt.compile(function(x) return x * 2, mt.ones(2) end)
  told(function()
    for i = 1, 10 do
      mt.set_default_device(i > 5 and 'cuda' or 'cpu')
      local _, ones = step(ramp(2))
      mt.set_default_device 'cpu'
      eq(ones.device, i > 5 and 'cuda:0' or 'cpu')
    end
  end)
  local w = mt.ones(4, 4, gpu)
  local product = mt.compile(function(x) return x:matmul(w) end)
  for _ = 1, 5 do
    for _, dtype in ipairs{'float16', 'bfloat16'} do
      eq(mt.autocast{product, mt.ones(4, 4, gpu), device = 'cuda', dtype = dtype}.dtype, dtype)
    end
  end
end)

t.finish()
