-- test_compile_fused.lua -- fused calls of recorded steps: the bits of eager calls, written tensors, memory
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, told = t.test, t.eq, t.stderr_of
local fuses = mt.ones(1).device == 'cpu' -- on a GPU only arithmetic calls are fused: test_cuda_compile.lua

local function same(a, b, what)
  assert(mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}), (what or '') .. ': other bits')
end
local function explained(f)
  local print_before = print
  print = function() end -- luacheck: ignore 121
  local text = mt.explain(f)
  print = print_before -- luacheck: ignore 121
  return text
end
--- Compares f with its compiled form on five inputs; returns the text of mt.explain for the latter.
local function alike(name, f, make, leaves)
  local compiled = mt.compile(f)
  eq(told(function()
    for i = 1, 5 do
      local x = make(i)
      local grads = {}
      local a = f(x)
      for k, w in ipairs(leaves or {}) do grads[k] = w.grad end
      same(a:detach(), compiled(x):detach(), name)
      for k, w in ipairs(leaves or {}) do same(grads[k], w.grad, name .. "'s gradient") end
    end
  end), '', name)
  local text = explained(compiled)
  assert(not text:find 'not fused', name .. text) -- a replay had other bits
  return text
end
local function random(...)
  local shape = {...}
  return function(i)
    mt.manual_seed(i)
    return mt.randn(shape)
  end
end

test('chains, reductions of rows and what follows them are one program', function()
  local w, b = mt.randn(96), mt.randn(96)
  for name, case in pairs{
    chain = {1, function(x) return ((x * 2 + 1):tanh() * x - 0.5):abs() end},
    softmax = {1, function(x)
      local e = (x - x:amax(2, true)):exp()
      return e / e:sum(2, true)
    end},
    layer_norm = {1, function(x)
      local d = x - x:mean(2, true)
      return d * (d:square():mean(2, true) + 1e-5):rsqrt() * w + b
    end},
    log_softmax = {1, function(x)
      local z = x - x:logsumexp(2, true)
      return (z * z:exp()):sum(2)
    end},
    variance = {1, function(x) return (x - x:amin(2, true)) / (x:var(2, {keepdim = true}) + 1):sqrt() end},
    where = {1, function(x) return mt.where(x:gt(0), x * 2, x * 0.1) + 1 end},
    in_place = {1, function(x)
      local y = x * 2
      y:add_(1):mul_(x)
      y:relu_()
      return y + x
    end},
    then_columns = {2, function(x) return ((x * w + b):sigmoid() * x):sum(1) end},
    then_product = {2, function(x) return (x * w + 1):relu():matmul(w) end},
  } do
    local text = alike(name, case[2], random(fuses and 640 or 64, 96))
    assert(not fuses or text:find((': %d verbs? in 1 part,'):format(case[1])), name .. text)
    assert(not fuses or text:find 'one program, float32 %(', name .. text)
  end
  local text = alike('lines', function(x)
    local y = x * 2
    return y:exp() + 1
  end, random(50, 50))
  assert(not fuses or
    text:find 'one program, float32 %(2500%): mul, exp, add; 2 of 3 results are not written %(.*:%d+, %d+%)', text)
  local function has_memory(on_cpu, on_gpu)
    assert(text:find('memory of its own: ' .. (fuses and on_cpu or on_gpu), 1, true), text)
  end
  text = alike('planned', function(x) return (x:matmul(x):matmul(x):matmul(x):matmul(x)) end, random(64, 64))
  has_memory('3 buffers, 48.0 KiB; planned: 32.6 KiB', '3 buffers, 48.0 KiB; planned: 32.0 KiB')
  text = alike('in place', function(x) return ((x * 2 + 1):exp() - x):abs() * 3 end, random(200))
  has_memory('5 buffers, 4.1 KiB; planned: 832 bytes', '5 buffers, 5.0 KiB; planned: 1.0 KiB')
  text = alike('not in place', function(x)
    local y = x * 2
    return y + y:t() * 3
  end, random(14, 14))
  has_memory('2 buffers, 1.6 KiB; planned: 1.6 KiB', '2 buffers, 2.0 KiB; planned: 2.0 KiB')
end)

test('forward and backward', function()
  local w, b = mt.randn(64):requires_grad_(), mt.randn(64):requires_grad_()
  for name, f in pairs{
    linear = function(x) return ((x * w + b):relu() ^ 2):mean() end,
    sigmoid = function(x) return mt.binary_cross_entropy((x * w + b):sigmoid(), x:sigmoid()) end,
    gelu = function(x) return ((x * w):gelu() + b):square():sum() end,
    rows = function(x)
      local y = x * w
      local e = (y - y:amax(2, true)):exp()
      return ((e / e:sum(2, true)) * (x + b)):sum()
    end,
    shared = function(x)
      local y = (x * w):tanh()
      return (y * y + y * b - y):mean() + (y:sum(2) ^ 2):mean()
    end,
  } do
    alike(name, function(x)
      w.grad, b.grad = nil, nil
      local loss = f(x)
      loss:backward()
      return loss
    end, random(fuses and 600 or 60, 64), {w, b})
  end
end)

test('a read with another layout ends a program', function()
  alike('transposed', function(x) return (x * 2):t() + x * 3 end, random(80, 80))
  alike('shifted', function(x)
    local y = x * 2
    return y:narrow(1, 1, 4000) + y:narrow(1, 2, 4000) * 3
  end, random(4100))
  alike('parts', function(x)
    local y = mt.zeros(4096)
    y:narrow(1, 1, 2048):copy_(x * 2)
    y:narrow(1, 1, 2048):add_(1)
    y:narrow(1, 2049, 2048):copy_(x + 1)
    return y * y
  end, random(2048))
  alike('itself', function(x)
    local y = x * 2
    y:narrow(1, 2, 4000):add_(y:narrow(1, 1, 4000) * 2)
    return y + 1
  end, random(4100))
  alike('broadcast of its own', function(x)
    local y = x:exp()
    return y * y:narrow(2, 1, 1) + y:narrow(1, 1, 1)
  end, random(64, 64))
end)

test('tensors that are written after a program has read them', function()
  local w = mt.zeros(4000)
  alike('by another verb', function(x)
    w:fill_(1)
    local y = w * 2
    w:copy_(x)
    return y + 1
  end, random(4000))
  alike('by the program itself', function(x)
    local z = x:sort()
    local y = z:narrow(1, 1, 4000) * 2
    z:narrow(1, 2, 4000):add_(y)
    return y + z:narrow(1, 2, 4000)
  end, random(4001))
  alike('its own results', function(x)
    local y = x * 2
    local z = y + 1
    y:copy_((x:sort()))
    return z * 3 + y
  end, random(4000))
end)

test('captured tensors that change in place', function()
  local one, two = mt.zeros(50, 50), mt.zeros(50, 50)
  local function step_of(mean)
    return function(x)
      local before = mean * 2
      mean:mul_(0.9):add_(x * 0.1)
      return mean - before + x
    end
  end
  local step, compiled = step_of(one), mt.compile(step_of(two))
  for i = 1, 7 do
    local x = random(50, 50)(i)
    same(step(x), compiled(x))
    same(one, two)
  end
end)

test('random steps', function()
  local unary = {'neg', 'abs', 'square', 'exp', 'tanh', 'sigmoid', 'relu', 'gelu', 'sin', 'floor', 'softplus', 'erf'}
  local binary = {'add', 'sub', 'mul', 'div', 'maximum', 'minimum'}
  local rows = {'sum', 'amax', 'amin', 'logsumexp', 'mean'}
  local state = 12345
  local function pick(n)
    state = (state * 1103515245 + 12345) % 2 ^ 31
    return math.floor(state / 2 ^ 31 * n) + 1
  end
  for round = 1, fuses and 60 or 6 do -- on a GPU each program is compiled
    local plan = {}
    for k = 1, 3 + pick(9) do plan[k] = {pick(9), pick(k), pick(k), pick(100)} end
    local dtype, backward = pick(4) == 1 and 'float64' or 'float32', pick(3) == 1
    local h, n = 20 + pick(60), 30 + pick(70)
    local w = mt.randn(n):to(dtype):requires_grad_()
    local bias = mt.randn(h, 1):to(dtype)
    local function f(x)
      local v = {x * w}
      for k, p in ipairs(plan) do
        local a, b = v[p[2]], v[p[3]]
        local y
        if p[1] <= 3 then y = a[unary[p[4] % #unary + 1]](a)
        elseif p[1] <= 5 then y = a[binary[p[4] % #binary + 1]](a, b)
        elseif p[1] == 6 then y = a * (p[4] / 50) + bias
        elseif p[1] == 7 then
          local name = rows[p[4] % #rows + 1]
          y = a - a[name](a, 2, true)
        elseif p[1] == 8 then y = mt.where(a:lt(b), a, b * 0.5)
        else
          y = a:detach():clone()
          y:add_(b:detach())
          if p[4] > 50 then y:narrow(2, 1, n - 3):mul_(2) end
        end
        v[k + 1] = y
      end
      local all = v[1]
      for k = math.max(2, #v - 3), #v do all = all + v[k] end
      if not backward then return all:detach() end
      w.grad = nil
      local loss = (all * 0.01):tanh():mean()
      loss:backward()
      return loss
    end
    alike('round ' .. round, f, function(i)
      mt.manual_seed(i)
      local x = mt.randn(h, n):to(dtype)
      return pick(3) == 1 and mt.randn(n, h):to(dtype):t() or x
    end, backward and {w} or {})
  end
end)

t.finish()
