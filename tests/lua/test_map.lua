-- test_map.lua -- mt.map, mt.zip, mt.reduce: compiled functions compared with plain Lua, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local trace = require 'mtorch.compile.trace'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

mt.manual_seed(3)

--- Applies f to every element in plain Lua.
local function plainly(f, ...)
  local lists, out = {...}, {}
  for k, x in ipairs(lists) do lists[k] = x:reshape(-1):tolist() end
  for i = 1, #lists[1] do
    local at = {}
    for k, list in ipairs(lists) do at[k] = list[i] end
    out[i] = f(unpack(at))
  end
  return out
end
local function agrees(f, tolerance, ...)
  local y = (select('#', ...) == 1 and mt.map or mt.zip)(f)(...)
  near(y:reshape(-1):tolist(), plainly(f, ...), tolerance)
  return y
end

local x = mt.randn({4, 5}, {dtype = 'float64'}) * 2
local y = mt.randn({4, 5}, {dtype = 'float64'}) * 2

test('arithmetic, functions of math and operators', function()
  agrees(function(a) return 2 * a + 1 end, 0, x)
  agrees(function(a) return -a / 3 - a % 1.5 + 7 % a end, 1e-12, x)
  agrees(function(a) return a ^ 2 + a ^ 3 + 2 ^ a + a ^ -1 + a ^ 4 end, 1e-10, x)
  agrees(function(a) return math.exp(a) + math.sin(a) * math.cos(a) - math.tanh(a) end, 1e-12, x)
  agrees(function(a) return math.floor(a) + math.ceil(a) + math.abs(a) end, 0, x)
  agrees(function(a) return math.log(math.abs(a) + 1) + math.sqrt(a * a) + math.log10(a * a) end, 1e-12, x)
  agrees(function(a) return math.atan(a) + math.sinh(a) + math.cosh(a) + math.deg(a) + math.rad(a) end, 1e-10, x)
  agrees(function(a) local whole, part = math.modf(a) return whole * 10 + part end, 1e-12, x)
  agrees(function(a, b) return math.atan2(a, b) + math.fmod(a, b) + math.pow(math.abs(a), b) end, 1e-9, x, y)
  agrees(function(a, b) return math.max(a, b, 0.25) - math.min(a, b) end, 0, x, y)
end)

test('mt functions of one element, by name and as methods', function()
  local z = mt.map(function(a) return mt.relu(a) + mt.sigmoid(a) + mt.leaky_relu(a, 0.1) end)(x)
  near(z:reshape(-1):tolist(), (x:relu() + x:sigmoid() + mt.leaky_relu(x, 0.1)):reshape(-1):tolist(), 1e-12)
  local zero, minus_zero = mt.map(function(a) return mt.leaky_relu(a, 0), mt.leaky_relu(a, -0.0) end)(mt.tensor{-1})
  eq({1 / zero:item(), 1 / minus_zero:item()}, {-math.huge, math.huge})
  local relu = mt.relu
  eq(mt.map(function(a) return relu(a) end)(x):tolist(), x:relu():tolist())
  eq(mt.map(function(a) return a:relu() end)(x):tolist(), x:relu():tolist())
end)

test('comparisons choose: if, and, or, elseif, early return, nested', function()
  agrees(function(a) if a > 0 then return a end return 0.01 * a end, 0, x)
  agrees(function(a) return a < 0 and -a or a * 2 end, 0, x)
  agrees(function(a)
    if a < -1 then return -1 elseif a <= 0 then return a / 2 elseif a >= 2 then return 2 end
    local b = a
    if b > 1 then b = b * b end
    return b
  end, 0, x)
  agrees(function(a, b)
    local s = 0
    for i = 1, 4 do if a * i > b then s = s + i end end
    return s
  end, 0, x, y)
  agrees(function(a) return a == a and 1 or 0 end, 0, x)
  agrees(function(a) if a ~= 0 and not (a > 1) then return 1 end return 2 end, 0, x)
end)

test('NaN, -0 and ties as LuaJIT has them', function()
  local nan, inf = 0 / 0, math.huge
  local s = mt.tensor({nan, -inf, -1, -0.0, 0, 1, inf, nan}, {dtype = 'float64'})
  local a, b = s:reshape(8, 1):expand(8, 8):contiguous(), s:reshape(1, 8):expand(8, 8):contiguous()
  local function same(f)
    local found, expected = mt.zip(f)(a, b):reshape(-1):tolist(), plainly(f, a, b)
    for i = 1, 64 do
      local p, q = found[i], expected[i]
      assert(p == q and 1 / p == 1 / q or p ~= p and q ~= q, ('%d: %s, not %s'):format(i, p, q))
    end
  end
  jit.off(plainly, true) -- LuaJIT's compiled math.max handles NaN differently
  same(function(p, q) return math.max(p, q) end)
  same(function(p, q) return math.min(p, q) end)
  same(function(p, q) return p % q end)
  same(function(p, q) return p < q and p or q end)
  same(function(p, q) return p <= q and p or q end)
  same(function(p, q) return p == q and p or q end)
end)

test('several results, comparisons as results', function()
  local sum, less, half = mt.zip(function(a, b) return a + b, a < b, a / 2 end)(x, y)
  eq(sum:tolist(), (x + y):tolist())
  eq(less.dtype, 'bool')
  eq(less:tolist(), x:lt(y):tolist())
  eq(half:tolist(), (x / 2):tolist())
end)

test('any layout, broadcasting, dtypes', function()
  local f = mt.zip(function(a, b) return a * 2 + b end)
  eq(f(x:t(), y:t()):tolist(), (x:t() * 2 + y:t()):tolist())
  eq(f(x:narrow(2, 2, 3), y:select(2, 1):unsqueeze(2)):tolist(), (x:narrow(2, 2, 3) * 2 + y:narrow(2, 1, 1)):tolist())
  eq(f(mt.zeros(0, 3), mt.zeros(3)).shape, mt.zeros(0, 3).shape)
  eq(f(mt.tensor(1), mt.tensor(2)):item(), 4)
  local large, column = mt.randn(300, 700), mt.randn(300, 1)
  eq(f(large, column):equal(large * 2 + column), true)
  eq(f(large:t(), mt.randn(1):expand(700, 300)).shape, large:t().shape)
  eq(f(large:t(), large:t():double()):equal(large:t() * 2 + large:t():double()), true)
  local leaf = large:t():requires_grad_()
  f(leaf, large:t()):sum():backward()
  eq(leaf.grad:equal(mt.full({700, 300}, 2)), true)
  local i = mt.tensor({1, 2, 3}, {dtype = 'int64'})
  eq(f(i, i).dtype, 'int64')
  eq(f(i, i):tolist(), {3, 6, 9})
  eq(mt.map(function(a) return a / 2 end)(i).dtype, 'float32')
  eq(mt.map(function(a) return a + 0.5 end)(i):tolist(), {1.5, 2.5, 3.5})
  eq(mt.map(function(a) return math.max(a, 2) end)(i).dtype, 'int64')
  for _, k in ipairs {1 / 0, -1 / 0, 1e30, 2 ^ 63} do -- integers cannot be these
    eq(mt.map(function(a) return a + k end)(i):tolist(), (i:float() + k):tolist())
  end
  eq(mt.map(function(a) return a * 1e30 end)(i):tolist(), (i:float() * 1e30):tolist())
  eq(mt.map(function(a) return a + 300 end)(i:to('uint8')):tolist(), {301, 302, 303})
  eq(mt.map(function(a) return a + 200 end)(i:to('uint8')).dtype, 'uint8')
  eq(f(mt.ones(2), mt.ones({2}, {dtype = 'float64'})).dtype, 'float64')
  eq(f(mt.ones(2), mt.tensor(1, {dtype = 'float64'})).dtype, 'float32')
  eq(f(mt.ones({2}, {dtype = 'float16'}), i:narrow(1, 1, 2)).dtype, 'float16')
  eq(f(x, 3):tolist(), (x * 2 + 3):tolist())
  eq(f(3, x):tolist(), (x + 6):tolist())
end)

test('rows of every width that repeat, beside others', function()
  local f = mt.zip(function(a, b, c, d) return a * b + c * d - b, d > 0.5 and a or c end)
  for _, dtype in ipairs{'float32', 'float64'} do
    for _, width in ipairs{2, 3, 7, 20, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257} do
      local a, b = mt.randn({1500, width}, dtype), mt.randn({width}, dtype)
      local c, d = mt.randn({width}, dtype), mt.rand({1500, 1}, dtype)
      local y, z = f(a, b, c, d)
      assert(mt.equal(y, a * b + c * d - b) and mt.equal(z, mt.where(d:gt(0.5), a, c)), dtype .. ' ' .. width)
    end
  end
end)

test('out writes into a given tensor, also one that is read', function()
  local f = mt.map(function(a) return a * a + 1 end)
  local into = mt.zeros({4, 5}, {dtype = 'float64'})
  local got = f(x, {out = into})
  eq(got == into, true)
  near(into:tolist()[1], (x * x + 1):tolist()[1], 1e-12)
  local own = x:clone()
  f(own, {out = own})
  eq(own:tolist(), (x * x + 1):tolist())
  raises(function() f(x, {out = mt.zeros(3)}) end, 'out is %(3%), the result %(4 x 5%)')
  raises(function() f(x, {into = own}) end, "map: unknown option 'into'")
end)

test('captured numbers, tables, globals and functions are read at every call', function()
  local k, cfg, list = 2, {a = {b = 10}, on = true}, {1, 2, 3}
  local function helper(a) return a * k end
  local f = mt.map(function(a)
    local s = helper(a) + cfg.a.b
    if cfg.on then s = s + 1 end
    for _, v in ipairs(list) do s = s + v end
    return s + #list
  end)
  local one = mt.tensor{1}
  eq(f(one):item(), 2 + 10 + 1 + 6 + 3)
  k = 3
  eq(f(one):item(), 3 + 10 + 1 + 6 + 3)
  cfg.a = {b = 20}
  eq(f(one):item(), 3 + 20 + 1 + 6 + 3)
  cfg.on = false
  eq(f(one):item(), 3 + 20 + 6 + 3)
  list[2] = 5
  eq(f(one):item(), 3 + 20 + 9 + 3)
  list[4] = 1
  eq(f(one):item(), 3 + 20 + 10 + 4)
  helper = function(a) return -a end
  eq(f(one):item(), -1 + 20 + 10 + 4)
end)

test('numbers of the call beside captured ones', function()
  local k, unread, c = 2, 5, 10
  local f = mt.zip(function(a, s, b, r) return a * s + b * r * k + c + (unread - unread) end)
  local a, b = mt.tensor{1, 2}, mt.tensor{3, 4}
  eq(f(a, 10, b, 100):tolist(), {620, 830})
  k, c = 3, 0
  eq(f(a, 1, b, 2):tolist(), {19, 26})
  eq(f(1, 10, b, 100):tolist(), {910, 1210})
end)

test('a captured value may become one of another kind', function()
  local scale, cfg, one = nil, {on = false}, mt.tensor{1, 2}
  local f = mt.map(function(a) return scale and a * scale or a end)
  eq(f(one):tolist(), {1, 2})
  scale = 3
  eq(f(one):tolist(), {3, 6})
  scale = mt.tensor(5)
  eq(f(one):tolist(), {5, 10})
  scale = nil
  eq(f(one):tolist(), {1, 2})
  local flag = 1
  local g = mt.map(function(a) if flag then return a end return -a end)
  eq(g(one):tolist(), {1, 2})
  flag = nil
  eq(g(one):tolist(), {-1, -2})
  scale = 'big'
  raises(function() f(one) end, "arithmetic on the string 'big'")
  local h = mt.map(function(a) return cfg.on and a or -a end)
  h(one)
  local made, compile = 0, trace.compile
  trace.compile = function(...) made = made + 1 return compile(...) end
  h(one)
  trace.compile = compile
  eq(made, 0)
end)

test('functions that are constant in pieces have gradients of zeros', function()
  for _, f in ipairs {math.floor, function() return 3 end, function(a) return a > 0 and 1 or 0 end} do
    local a = mt.tensor{-1.5, 0.5}:requires_grad_()
    mt.map(function(v) return f(v) end)(a):sum():backward()
    eq(a.grad:tolist(), {0, 0})
  end
  local a, b = mt.tensor{1, 2}:requires_grad_(), mt.tensor{3, 1}:requires_grad_()
  mt.zip(function(p, q) return (p < q and 1 or 0) + q end)(a, b):sum():backward()
  eq({a.grad:tolist(), b.grad:tolist()}, {{0, 0}, {1, 1}})
end)

test('a captured number that ends a loop is a guard', function()
  local n, c = 3, 0.5
  local f = mt.map(function(a)
    local s = 0
    for i = 1, n do s = s + a * i * c end
    return s
  end)
  eq(f(mt.tensor{1}):item(), 3)
  n = 4
  eq(f(mt.tensor{1}):item(), 5)
  c = 1
  eq(f(mt.tensor{1}):item(), 10)
end)

test('a captured number that no result reads', function()
  local unread = 0.5
  local f = mt.map(function(a)
    local _ = a * unread
    return a + 1
  end)
  eq(f(mt.tensor{1, 2}):tolist(), {2, 3})
  eq(f(mt.tensor{1, 2}):tolist(), {2, 3})
end)

test('modf of whole and infinite numbers', function()
  local list = {-2, -0.0, math.huge, -math.huge, 2, -1.5}
  local _, part = mt.map(function(a) return math.modf(a) end)(mt.tensor(list, {dtype = 'float64'}))
  for i, v in ipairs(list) do eq(1 / part[i]:item(), 1 / select(2, math.modf(v))) end
end)

test('a captured 0-d tensor is an operand with a gradient', function()
  local slope = mt.tensor(0.25, {requires_grad = true})
  local f = mt.map(function(a) return a > 0 and a or a * slope end)
  local z = f(mt.tensor{-2, 1, -4})
  eq(z:tolist(), {-0.5, 1, -1})
  z:sum():backward()
  eq(slope.grad:item(), -6)
end)

test('a gradient that is that of a result is passed on, and leaves share no memory', function()
  local x, y, z = mt.randn(5):requires_grad_(), mt.randn(5):requires_grad_(), mt.randn(5):requires_grad_()
  local f, g = mt.zip(function(a, b, c) return a + b * b + c end), mt.randn(5)
  local by = mt.grad(f(x, y, z), {x, y, z}, {grad_outputs = g})
  eq(by[2]:equal(g * 2 * y:detach()), true)
  g:mul_(3)
  eq({by[1]:equal(g), by[3]:equal(g)}, {true, true})
  f(x, y, z):backward(g)
  x.grad:mul_(3)
  assert(z.grad:equal(g) and x.grad:equal(g * 3))
  local sum, product = mt.zip(function(a, b) return a + b + 1, a * b end)(x, y)
  by = mt.grad(sum + product, {x, y}, {grad_outputs = g})
  near(by[1]:tolist(), (g + g * y:detach()):tolist(), 1e-6)
  eq(mt.explain(f, x, y, z, {show = 'program'}):find('the gradient by input 3: that of result 1', 1, true) ~= nil, true)
  local small = {}
  for k = 1, 3 do small[k] = mt.randn({3}, {dtype = 'float64'}):requires_grad_() end
  for _, h in ipairs {f, mt.zip(function(a, b, c) return a + b + c end)} do
    assert(mt.gradcheck(h, small) and mt.gradgradcheck(h, small))
  end
end)

test('gradients of every order', function()
  local functions = {
    function(a, b) return a * b + math.tanh(a) end,
    function(a, b) return math.exp(-a * a) * math.sin(b) + 0.5 * a end,
    function(a, b) return a > b and a * a * b or b ^ 3 end,
    function(a, b) return math.max(a * 2, b) * math.min(a, b * b) end,
    function(a, b) return mt.gelu(a) * mt.sigmoid(b) + mt.softplus(a * b) end,
    function(a, b) return a % (b * b + 1) end,
    function(a, b) return math.atan2(a, b * b + 1) / (1 + a * a) end,
    function(a, b) return a * b, a - b * b end,
  }
  for i, f in ipairs(functions) do
    local z = mt.zip(f)
    local function joined(a, b)
      local p, q = z(a, b)
      return q and p * 2 + q * q or p
    end
    local a = mt.randn({3, 4}, {dtype = 'float64'}):requires_grad_()
    local b = mt.randn({4}, {dtype = 'float64'}):requires_grad_()
    assert(mt.gradcheck(joined, {a, b}), i)
    assert(mt.gradgradcheck(joined, {a, b}), i)
  end
end)

test('a branch that is not taken does no harm', function()
  local f = mt.map(function(a) return a > 0 and math.log(a) or 0 end)
  local z = mt.tensor({-1, 0, 2}, {requires_grad = true})
  f(z):sum():backward()
  eq(z.grad:tolist(), {0, 0, 0.5})
end)

test('a compiled function calls another, and what mt answers chooses the way', function()
  local square = mt.map(function(a) return a * a end)
  agrees(function(a) return a * a + 1 end, 0, x)
  eq(mt.map(function(a) return square(a) + 1 end)(x):tolist(), (x * x + 1):tolist())
  local f = mt.map(function(a) if mt.isnan(a) then return 0 end return a end)
  eq(f(mt.tensor{1, 0 / 0, 2}):tolist(), {1, 0, 2})
  eq(mt.map(function(a) return a:isnan() end)(mt.tensor{1, 0 / 0}):tolist(), {false, true})
end)

test('many tensors', function()
  local f = mt.zip(function(a, b, c, d, e, g) return a * b * c + d * e * g end)
  local list = {}
  for k = 1, 6 do list[k] = mt.randn({3}, {dtype = 'float64'}):requires_grad_() end
  assert(mt.gradcheck(function(...) return f(...) end, list))
end)

test('bits do not depend on threads', function()
  local f = mt.map(function(a) return math.exp(-a * a) * math.sin(a) + 0.5 * a end)
  local z, threads = mt.randn(200000), mt.get_num_threads()
  mt.set_num_threads(1)
  local one = f(z)
  mt.set_num_threads(2)
  eq(one:equal(f(z)), true)
  mt.set_num_threads(threads)
end)

test('loops whose end depends on an element run as grid kernels', function()
  local scale = 2
  local function collatz(a)
    local n = 0
    while a > 1 do
      if a % 2 == 0 then a = a / 2 else a = 3 * a + 1 end
      n = n + 1
    end
    return n * scale
  end
  local f, z = mt.map(collatz), mt.range(1, 12):view(3, 4):t()
  eq(f(z):reshape(-1):tolist(), plainly(collatz, z))
  scale = 1
  eq(f(z):reshape(-1):tolist(), plainly(collatz, z))
  local function escape(a, b)
    local p, q = 0, 0
    for i = 1, 50 do
      if p * p + q * q > 4 then return i end
      p, q = p * p - q * q + a, 2 * p * q + b
    end
    return 50
  end
  local a, b = mt.linspace(-2, 1, 5), mt.linspace(-1, 1, 3):unsqueeze(2)
  local found = mt.zip(escape)(a, b)
  eq(found.shape, mt.zeros(3, 5).shape)
  eq(found:reshape(-1):tolist(), plainly(escape, a:expand(3, 5), b:expand(3, 5)))
  local into = mt.zeros(3, 5)
  eq(mt.zip(escape)(a, b, {out = into}) == into, true)
  local halve = mt.map(function(v)
    local n = 0
    while v > 1 do v, n = v / 2, n + 1 end
    return n, v, v > 0.7
  end)
  local n, rest, large = halve(mt.tensor{3, 8, 0.5})
  eq({n:tolist(), rest:tolist(), large:tolist()}, {{2, 3, 0}, {0.75, 1, 0.5}, {true, true, false}})
  eq(halve(mt.empty(0)).shape, mt.empty(0).shape)
  raises(function() halve(z:float(), {out = mt.zeros(4, 3)}) end, 'map: it has several results; out= takes one')
  local unread = loadstring('return function(v) local n = 0 while v > n do n = n + 1 end return n end', '=no file')()
  raises(function() mt.map(unread)(a) end, 'no file:1: map: .*a loop must not end where an element says so')
end)

test('gradients of loops whose end depends on an element', function()
  local function newton(a)
    local x = a
    while math.abs(x * x - a) > 1e-13 * a do x = 0.5 * (x + a / x) end
    return x
  end
  local x = (mt.rand(3, 4, 'float64') + 0.5):t():requires_grad_()
  mt.map(newton)(x):sum():backward()
  eq(x.grad:allclose(0.5 / x:detach():sqrt()), true)
  local scale = 1.5
  local function inner(u, v) return u > v and u * v or u - v * scale end
  local function walk(a, b, k)
    local sum, steps, large = 0, 0, false
    for t = a, 4, 0.75 do
      if t * t > 9 + b then break end
      sum, steps = sum + inner(t, b) * k + math.max(a, t - b) - math.min(b, 0.3 * t) + t % b, steps + 1
    end
    repeat
      local low = sum
      sum = -low / 3 + b
      large = sum > 1
    until math.abs(sum) < 2
    return sum * steps, steps, large, a
  end
  local a, b = (mt.rand(6, 'float64') * 2 - 1):requires_grad_(), (mt.rand(2, 1, 'float64') + 0.4):requires_grad_()
  local f = mt.zip(walk)
  assert(mt.gradcheck(function(p, q) return (f(p, q, 2)) end, {a, b}))
  assert(mt.gradcheck(function(p) return select(4, f(p, b:detach(), 2)) end, {a}))
  local _, steps, large = f(a, b, 2)
  eq(steps.requires_grad and mt.grad(steps:sum(), a):equal(mt.zeros(6, 'float64')), true)
  eq({large.dtype, large.requires_grad}, {'bool', false})
  eq(mt.no_grad(function() return f(a, b, 2) end).requires_grad, false)
  local y = mt.map(newton)(x)
  raises(function() mt.grad(y:sum(), x, {create_graph = true}) end, 'map: .* has no second derivatives')
end)

test('% of integers is an integer', function()
  local x, y = mt.range(-7, 7):long(), mt.range(1, 15):long() + 2 ^ 40
  local f = mt.map(function(a) return (a * 3 + 2 ^ 40) % 7 - a % -4 end)
  for _, dtype in ipairs {'int64', 'float64', 'int32'} do
    local big = dtype == 'int32' and 0 or 2 ^ 40
    local z = mt.map(function(a) return (a * 3 + big) % 7 - a % -4 end)(x:to(dtype))
    eq(z.dtype, dtype)
    for i, a in ipairs(x:tolist()) do eq(z[i]:item(), (a * 3 + big) % 7 - a % -4) end
  end
  eq(f(x:double()).dtype, 'float64')
  eq(f(x).dtype, 'int64')
  local rest = mt.zip(function(a, b) return a % b end)
  eq(rest(y, x:abs() + 2):tolist(), y:remainder(x:abs() + 2):tolist())
  eq(rest(y, x).dtype, 'float32') -- a divisor is 0: it has no integer
  eq(mt.map(function(a) return a % (a - a) end)(x).dtype, 'float32')
  eq(mt.zip(function(a, n) return a % n end)(x, 0.5).dtype, 'float32')
end)

test('derivatives of every function that such a loop may call', function()
  local names = {'abs', 'sqrt', 'exp', 'log', 'log10', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh',
    'tanh'}
  local x = (mt.rand(4, 'float64') * 0.4 + 0.3):requires_grad_()
  local y = (mt.rand(4, 'float64') * 0.4 + 0.8):requires_grad_()
  for _, name in ipairs(names) do
    local of = math[name]
    assert(mt.gradcheck(mt.map(function(a)
      while a > 0.9 do a = a - 1 end
      return of(a) + math.floor(a * 3)
    end), {x}), name)
  end
  for _, name in ipairs {'erf', 'erfc', 'log1p', 'expm1', 'exp2', 'sigmoid', 'gelu', 'silu', 'relu', 'square', 'rsqrt',
    'reciprocal', 'elu', 'celu', 'selu', 'leaky_relu', 'softsign', 'hardswish', 'clamp', 'frac', 'deg2rad'} do
    local of = mt[name]
    assert(mt.gradcheck(mt.map(function(a)
      while a > 0.9 do a = a - 1 end
      return of(a) * a + mt.round(a)
    end), {x}), name)
  end
  assert(mt.gradcheck(mt.zip(function(a, b)
    while a > 2 do a = a - 1 end
    local whole, part = math.modf(a * 3)
    return mt.clamp(a, 0.4, 0.6) * mt.lerp(a, b, 0.25) + math.log(b, 3) * part + mt.xlogy(a, b) + whole +
      math.ldexp(a, 2) * mt.logaddexp(a, b) + mt.addcmul(a, b, b, 0.5) + mt.maximum(a, b) + mt.where(a > b, b, a)
  end), {x, y}))
  raises(function()
    mt.map(function(a)
      while a > 0.9 do a = a - 1 end
      return mt.clamp(0.5, a, 2)
    end)(x)
  end, 'mt.clamp has no gradient by its argument 2')
  for name, of in pairs {atan2 = math.atan2, fmod = math.fmod, pow = math.pow, modulo = function(a, b) return a % b end,
    least = math.min, most = math.max} do
    for _, order in ipairs {{x, y}, {y, x}} do
      assert(mt.gradcheck(mt.zip(function(a, b)
        while a > 2 do a = a - 1 end
        return of(a, b) * (a > b and a or b)
      end), order), name)
    end
  end
end)

test('reduce: trees of any associative function', function()
  local largest = mt.reduce(function(a, b) return math.max(a, b) end, -math.huge)
  for _, n in ipairs {1, 2, 3, 7, 8, 100} do
    local z = mt.randn({n, 3}, {dtype = 'float64'})
    eq(largest(z):item(), z:max():item())
    eq(largest(z, 1):tolist(), (z:max(1)):tolist())
    eq(largest(z, -1, true):tolist(), (z:max(2, true)):tolist())
  end
  eq(largest(mt.zeros(0)):item(), -math.huge)
  eq(largest(mt.zeros(0, 2), 1):tolist(), {-math.huge, -math.huge})
  near(mt.reduce(function(a, b) return a + b end, 0)(x, 1):tolist(), x:sum(1):tolist(), 1e-12)
  near(mt.reduce(function(a, b) return a * b end, 1)(x):item(), x:prod():item(), 1e-12)
  local function logaddexp(a, b)
    local m = math.max(a, b)
    if m == -math.huge then return m end
    return m + math.log(math.exp(a - m) + math.exp(b - m))
  end
  local total = mt.reduce(logaddexp, -math.huge)
  near(total(x, 2):tolist(), x:logsumexp(2):tolist(), 1e-12)
  local z = mt.randn({5, 3}, {dtype = 'float64'}):requires_grad_()
  assert(mt.gradcheck(function(a) return total(a, 1) end, {z}))
  assert(mt.gradcheck(function(a) return largest(a, 1) end, {z}))
end)

--- The tree of a reduction as operations on adjacent elements; an unpaired one is passed on.
local function tree_of(f, z, dim)
  while z:size(dim) > 1 do
    local n = z:size(dim)
    local half = math.floor(n / 2)
    local pairs_of = z:narrow(dim, 1, 2 * half):unflatten(dim, {half, 2})
    local y = f(pairs_of:select(dim + 1, 1), pairs_of:select(dim + 1, 2))
    z = n % 2 == 1 and mt.cat({y, z:narrow(dim, n, 1)}, dim) or y
  end
  return z
end
local function same_bits(a, b) return mt.equal(a, b) and mt.equal(a:reciprocal(), b:reciprocal()) end

test('reduce: the tree in blocks has the bits of the tree level by level, and so has its gradient', function()
  local k = 0.25
  local function either(a, b) return a + b - a * b * (4 * k) end
  local reduction, pair = mt.reduce(either, 0), mt.zip(either)
  local threads = mt.get_num_threads()
  for _, case in ipairs {{{1}, 1}, {{2}, 1}, {{3}, 1}, {{127}, 1}, {{128}, 1}, {{129}, 1}, {{8191}, 1}, {{8192}, 1},
    {{8193}, 1}, {{100000}, 1}, {{40, 1000}, 2}, {{3, 20000}, 2}, {{40, 1000}, 1}, {{300, 3}, 1}, {{9000, 5}, 1},
    {{5, 130, 7}, 2}, {{2, 129, 300}, 2}, {{3, 2, 9001}, 2}} do
    for _, dtype in ipairs {'float32', 'float64'} do
      local z, dim = mt.rand(case[1], {dtype = dtype}), case[2]
      local one, other = z:clone():requires_grad_(), z:clone():requires_grad_()
      local expected = tree_of(pair, one, dim)
      local g = mt.rand(expected.shape, {dtype = dtype})
      expected:backward(g)
      for _, n in ipairs {1, 2, 3} do
        mt.set_num_threads(n)
        local y = reduction(other, dim, true)
        other.grad = nil
        y:backward(g)
        assert(same_bits(y, expected), ('%s along %d'):format(tostring(z.shape), dim))
        assert(same_bits(other.grad, one.grad), ('gradient of %s along %d'):format(tostring(z.shape), dim))
      end
      mt.set_num_threads(threads)
    end
  end
end)

test('reduce: in a compiled step', function()
  local reduction = mt.reduce(function(a, b) return a + b - a * b end, 0)
  local function step(z)
    local w = z:clone():requires_grad_()
    local y = reduction(w, 1)
    y:sum():backward()
    return y:detach(), w.grad
  end
  local compiled, kept = mt.compile(step), io.stderr
  io.stderr = {write = function(_, ...) error(table.concat{...}) end} -- luacheck: ignore 122
  for _ = 1, 5 do
    local z = mt.rand(300, 40)
    local y, g = compiled(z)
    local expected, slope = step(z)
    assert(mt.equal(y, expected) and mt.equal(g, slope))
  end
  io.stderr = kept -- luacheck: ignore 122
end)

test('reduce: neighbours stay in order, dtypes and layouts, no result shares memory', function()
  local first = mt.reduce(function(a, b)
    if a ~= 0 then return a end
    return b
  end, 0)
  for _, n in ipairs {1, 5, 128, 8193, 20000} do
    local z = mt.zeros(n, {dtype = 'int32'})
    for _, at in ipairs {n, math.ceil(n / 2), math.ceil(n / 3)} do
      z[at] = at
      eq({first(z):item(), first(z).dtype}, {at, 'int32'})
    end
  end
  for _, n in ipairs {2, 7, 31, 127, 128, 515} do -- columns whose rows are combined in place
    local z = mt.zeros(n, 300)
    z[math.ceil(n / 3)], z[n] = 1, 2
    eq(first(z, 1):sum():item(), 300 * z[math.ceil(n / 3)][1]:item())
  end
  local largest = mt.reduce(function(a, b) return math.max(a, b) end, -math.huge)
  local z = mt.randn(60, 70)
  assert(mt.equal(largest(z:t(), 1), (z:max(2))))
  local every = z[{{}, {1, 70, 3}}]
  assert(mt.equal(largest(every, 2), (every:max(2))))
  local half = z:to('bfloat16')
  assert(mt.equal(largest(half, 2), (half:max(2))))
  local one = mt.ones(1, 3)
  largest(one, 1):zero_()
  eq(one:tolist(), {{1, 1, 1}})
  local gcd = mt.reduce(function(a, b)
    while b ~= 0 do a, b = b, a - b * math.floor(a / b) end
    return math.abs(a)
  end, 0)
  eq(pcall(gcd, mt.tensor{12, 18, 30}), false) -- of -2.5 and -1 it is not associative
  local product = mt.reduce(function(a, b) return a + b - a * b end, 0)
  local inputs = {mt.rand({9}, {dtype = 'float64'}):requires_grad_()}
  assert(mt.gradgradcheck(function(a) return product(a) end, inputs))
end)

test('reduce: functions of mt', function()
  local z = mt.randn({40, 30}, {dtype = 'float64'})
  assert(mt.equal(mt.reduce(function(a, b) return mt.maximum(a, b) end, -math.huge)(z, 1), z:amax(1)))
  local total = mt.reduce(function(a, b)
    local m = math.max(a, b)
    if m == -math.huge then return m end
    return m + mt.log1p(mt.exp(math.min(a, b) - m))
  end, -math.huge)
  near(total(z):item(), z:reshape(-1):logsumexp(1):item(), 1e-12)
  raises(function() mt.reduce(function(a, b) return mt.maximum(a, -b) end, -math.huge)(z) end,
    'test_map.lua:%d+: reduce: the identity %-inf is not neutral')
  raises(function() mt.reduce(function(a, b) return math.log1p(a) + b end, 0)(z) end, -- luacheck: ignore 143
    "test_map.lua:%d+: reduce: 'log1p' is nil, not a function; mt.log1p is one")
end)

test('reduce: functions that are not associative, and wrong identities, are errors', function()
  raises(function() mt.reduce(function(a, b) return a - b end, 0)(x) end,
    'test_map.lua:%d+: reduce: the identity 0 is not neutral: f%(0, %-2.5%) is 2.5')
  raises(function() mt.reduce(function(a, b) return a + b + a * b / 2 + a * a * b * b end, 0)(x) end,
    'reduce: f is not associative: f%(f%(')
  local add = mt.reduce(function(a, b) return a + b + 0 * a * b end, 0)
  for what, message in pairs {x = "dim must be a whole number, got the string 'x'", [1.5] = 'got 1.5',
    [0] = 'dimension 0 is not there', [3] = 'dimension 3 is not there; the tensor has 2'} do
    raises(function() add(x, what) end, 'test_map.lua:%d+: reduce: .*' .. message)
  end
  raises(function() add(x, 1, 2) end, 'reduce: keepdim must be true or false, got 2')
end)

test('built-in functions of numbers are compiled as Lua functions are', function()
  local y = mt.tensor{{1, -2}, {3, 4}}
  assert(mt.equal(mt.map(math.exp)(y), y:exp()) and mt.equal(mt.zip(math.max)(y, 0), y:clamp(0)))
  assert(mt.equal(mt.reduce(math.max, -math.huge)(y, 2), (y:max(2))))
end)

test('wrong arguments', function()
  local f = mt.map(function(a) return a end)
  raises(function() mt.map(function(a) return a + nowhere end)(x) end, -- luacheck: ignore
    "arithmetic on nil; .*'nowhere' is nil")
  raises(function() mt.map(3) end, 'map: f must be a function, got 3')
  raises(function() mt.map(math.random)(x) end, 'test_map.lua:%d+: map: math.random in a compiled function')
  raises(function() mt.map(f) end, 'compiled already')
  raises(function() f(2) end, 'none of the arguments is a tensor')
  raises(function() f() end, 'argument 1 must be a tensor or a number, got nil')
  raises(function() f('x') end, "argument 1 must be a tensor or a number, got the string 'x'")
  raises(function() f(mt.ones(2), mt.ones(3, 2)) end, 'map: the function takes 1 argument and got 2')
  raises(function() mt.zip(function(a, b) return a + b end)(x, 2, x) end, 'zip: the function takes 2 .* and got 3')
  eq(mt.zip(function(...) return (select(2, ...)) end)(mt.ones(2), mt.zeros(2)):tolist(), {0, 0})
  raises(function() mt.zip(function(a, b) return a + b end)(mt.ones(2), mt.ones(3)) end, 'zip: .*%(2%).*%(3%)')
end)

test('functions whose loops depend on an element calculate as Lua, in the dtypes of other functions', function()
  local functions = {
    {function(x) local f = 1 for i = 1, x do f = f * i end return f end, 25, 3},
    {function(x) local n = 1 while n < x do n = n * 10 end return n end, 5e18, 7, 1e30},
    {function(x) local n = 0 while n < x do n = n + 1 end return math.floor(math.sqrt(x)) end, -1, 10},
    {function(x) local n = 0 while n < x do n = n + 1 end return math.floor(x * 1e30) end, -1, 3},
    -- On Arm LuaJIT's numbers may be integers, whose -0 is 0.
    {function(x) local n = 0 while n < x do n = n + 1 end return 1 / -n end, jit.arch == 'arm64' and 1 or 0, 2},
    {function(x) local n = 0 while n < x do n = n + 1 end return 5 % n end, -1, 3},
    {function(x) local a, b = 0, 1 for _ = 1, x do a, b = b, a + b end return a end, 100, 10},
  }
  for _, case in ipairs(functions) do
    local f, values, expected = case[1], {}, {}
    for i = 2, #case do values[i - 1], expected[i - 1] = case[i], f(case[i]) end
    local y, wanted = mt.map(f)(mt.tensor(values, {dtype = 'float64'})), mt.tensor(expected, {dtype = 'float64'})
    eq(y:eq(wanted):logical_or(y:isnan():logical_and(wanted:isnan())):all(), true)
    eq((1 / y):nan_to_num():equal((1 / wanted):nan_to_num()), true) -- -0
  end
  local function sum(x) local s = 0 for i = 1, x do s = s + i end return s, s / 2, s > 6 end
  for dtype, float in pairs{int64 = 'float32', uint8 = 'float32', float16 = 'float16', float64 = 'float64'} do
    local s, half, more = mt.map(sum)(mt.tensor({3, 4}, {dtype = dtype}))
    eq({s.dtype, half.dtype, more.dtype}, {dtype, float, 'bool'})
    eq({s:tolist(), half:tolist(), more:tolist()}, {{6, 10}, {3, 5}, {false, true}})
  end
  local many = function(x) local n = 0 while n < 3 do n = n + 1 if x < 0 then break end end return x + n end
  eq(mt.map(many)(mt.tensor({2 ^ 40 + 5}, {dtype = 'int64'})):item(), 2 ^ 40 + 8)
  eq(mt.map(function(x) return math.ldexp(1, x) end)(mt.tensor{2.5, -1.5}):tolist(), {4, 0.5})
  local r = mt.reduce(function(a, b) return a + b end, 0)
  eq(r(mt.ones(2, 3), {dim = 2, keepdim = true}):tolist(), {{3}, {3}})
  raises(function() r(mt.ones(2), {dims = 1}) end, "reduce: unknown option 'dims' %(did you mean 'dim'%?%)")
end)

test('as many tensors, numbers and operations as there may be', function()
  local names, list = {}, {}
  for i = 1, 24 do names[i], list[i] = 'a' .. i, (mt.rand(3, 4) + 0.5):requires_grad_() end
  local f = loadstring(('local %s = ...\nreturn %s'):format(table.concat(names, ', '), table.concat(names, ' * ')))
  local y = mt.zip(f)(unpack(list))
  eq(y:equal(f(unpack(list))), true)
  y:sum():backward()
  near(list[7].grad:tolist(), (y / list[7]):tolist(), 1e-4)
  local k = {}
  for i = 1, 120 do k[i] = i / 7 end
  local function polynomial(x)
    local value = 0
    for i = 1, 120 do value = value * x + k[i] end
    return value
  end
  local x = (mt.rand(50) - 0.5):requires_grad_()
  eq(mt.map(polynomial)(x):equal(polynomial(x)), true)
  eq(mt.grad(mt.map(polynomial)(x):sum(), x):allclose(mt.grad(polynomial(x):sum(), x)), true)
end)

test('captured values of one name in several functions are different values', function()
  local k = 2
  local function doubled(a) return a * k end
  do
    local k = 3 -- luacheck: ignore 431
    eq(mt.map(function(a) return doubled(a) + k end)(mt.tensor{1, 2}):tolist(), {5, 7})
  end
  local function scaled(by) return function(a) return a * by.factor end end
  local two, three = scaled{factor = 2}, scaled{factor = 3}
  eq(mt.map(function(a) return two(a) * 10 + three(a) end)(mt.tensor{1, 2}):tolist(), {23, 46})
  local function signed(negative) return function(a) if negative then return -a end return a end end
  local minus, plus = signed(true), signed(false)
  eq(mt.map(function(a) return minus(a) * 10 + plus(a) end)(mt.tensor{1, 2}):tolist(), {-9, -18})
  local t = {['a.b'] = 3, a = {b = 4}}
  eq(mt.map(function(a) return a * t['a.b'] * 10 + t.a.b end)(mt.tensor{1, 2}):tolist(), {34, 64})
end)

test('keys that a captured table gains or loses, a captured table replaced by nil, other globals', function()
  local weights = {a = 1, b = 2}
  local total = mt.map(function(a)
    local s = 0
    for _, w in pairs(weights) do s = s + w * a end
    return s
  end)
  eq(total(mt.ones(2)):tolist(), {3, 3})
  weights.c = 10
  eq(total(mt.ones(2)):tolist(), {13, 13})
  weights.a = nil
  eq(total(mt.ones(2)):tolist(), {12, 12})
  weights = {}
  eq(total(mt.ones(2)):tolist(), {0, 0})
  weights.z = 4
  eq(total(mt.ones(2)):tolist(), {4, 4})
  local options = {}
  local chosen = mt.map(function(a) if options then return 2 * a end return a end)
  eq(chosen(mt.ones(2)):tolist(), {2, 2})
  options = nil
  eq(chosen(mt.ones(2)):tolist(), {1, 1})
  local tripled = setfenv(loadstring 'return function(a) return a * factor end', {factor = 3})()
  local f = mt.map(tripled)
  eq(f(mt.ones(2)):tolist(), {3, 3})
  setfenv(tripled, {factor = 4})
  eq(f(mt.ones(2)):tolist(), {4, 4})
end)

test('out= of a function with a loop whose end depends on an element: checked as without a loop', function()
  local f = mt.map(function(a)
    while a < 10 do a = 2 * a + 1 end
    return a
  end)
  local z = mt.tensor{1, 12}
  eq(f(z, {out = mt.zeros(2)}):tolist(), {15, 12})
  eq(f(z, {out = z}):tolist(), {15, 12})
  raises(function() f(z, {out = mt.zeros({2}, 'int64')}) end, 'map: out is int64, which cannot hold')
  raises(function() f(z, {out = mt.zeros(3)}) end, 'map: out is %(3%), the result %(2%)')
  raises(function() f(z, {out = 3}) end, 'map: .*out must be a tensor, got 3')
  raises(function() f(mt.ones(2):requires_grad_(), {out = mt.zeros(2)}) end, 'requires a gradient')
end)

t.test('a function may make tables, and index them by what is no element', function()
  local weights = {0.5, 2, 4}
  local f = mt.map(function(x)
    local powers, names, sum = {x}, {[true] = 3, [false] = 4}, 0
    for i = 2, #weights do powers[i] = powers[i - 1] * x end
    for i, w in ipairs(weights) do sum = sum + w * powers[i] end
    return sum * names[x > 1]
  end)
  eq(f(mt.tensor{1, 2, -1}):tolist(), {26, 123, -10})
end)

t.finish()
