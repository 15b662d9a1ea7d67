-- test_fuse.lua -- mt.fuse: fused functions of tensors compared with the same operations one by one
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

mt.manual_seed(5)
local fuse_from = require('mtorch.core').compile().fuse_from
local usual = fuse_from(0) -- small tensors wait too

local functions = {
  softmax = function(x) local e = (x - x:max(-1, true)):exp() return e / e:sum(-1, true) end,
  log_softmax = function(x) return x - x:logsumexp(-1, true) end,
  layer_norm = function(x)
    local d = x - x:mean(-1, true)
    return d / ((d * d):mean(-1, true) + 1e-5):sqrt()
  end,
  rms_norm = function(x) return x / ((x * x):mean(-1, true) + 1e-5):sqrt() end,
  loss = function(x) return (x:logsumexp(-1) - x:amax(-1)) * 2 end,
  chain = function(x) return (x * 2 + 1):relu() * x:sigmoid() end,
  compare = function(x) return mt.where(x:gt(0.5), x * x, x / 2) end,
  clamp = function(x) return x:clamp(-0.5, 0.5) + mt.leaky_relu(x, 0.2) end,
  standard = function(x) return (x - x:mean(-1, true)) / x:std(-1, true) end,
  variance = function(x) return x * x:var(-1, true, 0) end,
  least = function(x) return x - x:amin(-1, true) end,
}
local names = {}
for name in pairs(functions) do names[#names + 1] = name end
table.sort(names)

test('bits of the operations one by one, in any layout', function()
  for _, name in ipairs(names) do
    local f = functions[name]
    local g = mt.fuse(f)
    for _, x in ipairs {mt.randn(7, 5), mt.randn(2, 3, 33), mt.randn(40, 12):t(), mt.randn(3, 8, 10):narrow(2, 2, 4),
      mt.randn({6, 9}, {dtype = 'float64'}), mt.randn(9), mt.randn(3, 5000), mt.randn(300, 40)} do
      local a, b = f(x), g(x)
      eq(b.shape, a.shape)
      eq(b.dtype, a.dtype)
      assert(a:equal(b), name)
    end
  end
end)

test('gradients of both orders, weights and biases along the row', function()
  local w = mt.randn({5}, {dtype = 'float64'}):requires_grad_()
  local b = mt.randn({5}, {dtype = 'float64'}):requires_grad_()
  for _, name in ipairs(names) do
    local g = mt.fuse(function(x, weight, bias) return functions[name](x * weight + bias) * 3 end)
    local x = mt.randn({4, 5}, {dtype = 'float64'}):requires_grad_()
    assert(mt.gradcheck(g, {x, w, b}), name)
    assert(mt.gradgradcheck(g, {x, w, b}), name)
  end
end)

test('one element a row, 0-d tensors and numbers meet elements', function()
  local column = mt.randn({4, 1}, {dtype = 'float64'}):requires_grad_()
  local scale = mt.tensor(1.5, {dtype = 'float64', requires_grad = true})
  local x = mt.randn({4, 6}, {dtype = 'float64'}):requires_grad_()
  local function f(a, c, s) return (a * c + s):sum(-1, true) * c + a / s end
  eq(mt.fuse(f)(x, column, scale):equal(f(x, column, scale)), true)
  assert(mt.gradcheck(mt.fuse(f), {x, column, scale}))
end)

test('what meets values of rows is broadcast as it is for any tensor', function()
  local x = mt.randn(48, 48, 16, 'float64'):requires_grad_()
  local shapes = {{}, {1}, {48}, {48, 1}, {1, 48}, {48, 48}, {48, 1, 1}, {1, 48, 1}, {48, 48, 1}}
  for _, shape in ipairs(shapes) do
    local y = mt.randn(shape, 'float64'):requires_grad_()
    local function f(a, b)
      local squeezed = a:sum(3) * b
      local kept = a:amax(3, true) - b
      return squeezed + 1, kept * 2, kept:sum(3) - b
    end
    local function all(g)
      local results = {g(x, y)}
      local loss = 0
      for k, r in ipairs(results) do loss = loss + (r * k):square():mean() end
      local gx, gy = unpack(mt.grad(loss, {x, y}))
      results[4], results[5] = gx, gy
      return results
    end
    local fused, plain = all(mt.fuse(f)), all(f)
    for k = 1, 5 do
      eq(fused[k].shape, plain[k].shape)
      assert(mt.allclose(fused[k], plain[k]), table.concat(shape, ' x ') .. ': result ' .. k)
    end
  end
end)

test('rows of values that wait among rows of another space', function()
  local x, y = mt.randn(4, 5, 6), mt.randn(4, 5)
  local function f(a, b)
    local other = b * 2
    return other, (a + 1):sum(3):sum(2)
  end
  local _, sums = mt.fuse(f)(x, y)
  assert(mt.allclose(sums, select(2, f(x, y))))
end)

test('several results, tables, functions of functions', function()
  local f = mt.fuse(function(x)
    local m = x:mean(-1, true)
    return m, {centred = x - m}, (x - m):sigmoid()
  end)
  local x = mt.randn(4, 6)
  local m, list, s = f(x)
  eq(m:equal(x:mean(-1, true)), true)
  eq(list.centred:equal(x - m), true)
  eq(s:equal((x - m):sigmoid()), true)
  local inner = mt.fuse(functions.softmax)
  eq(mt.fuse(function(y) return inner(y * 2) + 1 end)(x):equal(functions.softmax(x * 2) + 1), true)
end)

test('an object that can be called is fused too', function()
  local double = setmetatable({}, {__call = function(_, x) return x * 2 + 1 end})
  local x = mt.randn(3000)
  eq(mt.fuse(double)(x):equal(double(x)), true)
  eq(mt.fuse(mt.nn.Softplus())(x):allclose(mt.softplus(x)), true)
end)

test('what cannot be fused runs as itself in between', function()
  local w = mt.randn(6, 3)
  local function f(x)
    local h = (x * 2):tanh():matmul(w)
    local y = (h - h:mean(-1, true)):relu()
    return (y:sort(-1)) + y:sum() + y:t():t()
  end
  local x = mt.randn(5, 6)
  near(mt.fuse(f)(x):tolist(), f(x):tolist(), 1e-6)
  local g = mt.fuse(function(a) return a:max(-1) end)
  local values, positions = g(x)
  local expected, places = x:max(-1)
  eq(values:equal(expected), true)
  eq(positions:tolist(), places:tolist())
end)

test('operations that are made of others, and changes in place of what has a gradient', function()
  local mask = mt.rand(4, 6):gt(0.5)
  for _, f in ipairs {function(a) return (a * 2):abs_() end, function(a) return (a * 2):std(-1) end,
    function(a) return mt.softmax(a * 2, -1) + (a * 3):norm(2, -1, true) end,
    function(a) return (a * 2)[mask] end, function(a) return (a * 2)[(a * 3):gt(1)] end,
    function(a) return mt.layer_norm(a * 2, {6}) + mt.cross_entropy(a * 3, (a * 2):argmax(-1)) end} do
    local x, y = mt.randn(4, 6):requires_grad_(), nil
    y = x:detach():clone():requires_grad_()
    local expected, found = f(x), mt.fuse(f)(y)
    near(found:tolist(), expected:tolist(), 1e-6)
    expected:square():sum():backward()
    found:square():sum():backward()
    near(y.grad:tolist(), x.grad:tolist(), 1e-5)
  end
end)

test('functions that are too large for one program', function()
  local list = {}
  for i = 1, 60 do list[i] = mt.rand(4, 6) + 0.5 end
  local function product(a)
    for i = 1, #list do a = a * list[i] end
    return a - a:sum(-1, true)
  end
  local function at_once(a)
    local waves, sum = {}, 0
    for i = 1, 150 do waves[i] = (a * (i + 0.5)):sin() end
    for i = 1, 150 do sum = sum + waves[i] * waves[151 - i]:sum(-1, true) end
    return sum
  end
  local function long(a)
    for i = 1, 20000 do a = a * 0.9 + i / 3e4 end
    return a
  end
  for _, f in ipairs {product, at_once, long} do
    local x, y = mt.randn(4, 6):requires_grad_(), nil
    y = x:detach():clone():requires_grad_()
    local expected, found = f(x), mt.fuse(f)(y)
    eq(found:equal(expected), true)
    expected:sum():backward()
    found:sum():backward()
    near(y.grad:tolist(), x.grad:tolist(), 1e-4)
  end
end)

test('changes in place inside a fused function come in their order', function()
  local x = mt.randn(4, 5)
  local function f(a)
    local b = a:clone()
    local doubled = b * 2
    b:add_(1)
    b[1] = 0
    return doubled + b
  end
  eq(mt.fuse(f)(x):equal(f(x)), true)
end)

test('16-bit floats are calculated in float32 and rounded once', function()
  local function layer_norm(x)
    local d = x - x:mean(-1, true)
    return d / ((d * d):mean(-1, true) + 1e-5):sqrt(), x:std(-1) * 2
  end
  local function verbs(f, x)
    local n = 0
    f(x) -- records
    for _, v in ipairs((require('mtorch.core').verbs_call(function() f(x) end))) do
      if not v.text:find 'copy' then n = n + 1 end
    end
    return n
  end
  for _, dtype in ipairs {'bfloat16', 'float16'} do
    local x = (mt.randn(40, 100) + 3):to(dtype)
    local a, b = mt.fuse(layer_norm)(x)
    local c, d = layer_norm(x:double())
    local ulp = dtype == 'float16' and 2 ^ -11 or 2 ^ -8
    assert(a:double():allclose(c, ulp, 1e-5) and b:double():allclose(d, ulp, 1e-5), dtype)
    eq({a.dtype, b.dtype, verbs(mt.fuse(layer_norm), x)}, {dtype, dtype, 1})
    local large = mt.full({4, 4000}, 1000, {dtype = 'float32'}):to(dtype) -- a sum that float16 does not have
    eq(mt.fuse(function(z) return z:mean(1) end)(large)[1]:item(), 1000)
    eq(mt.fuse(function(z) return z:mean(-1) end)(large)[1]:item(), 1000)
  end
end)

test('modules, other dtypes, no_grad, numbers that change', function()
  local net = mt.nn.Sequential(mt.nn.Linear(6, 4), mt.nn.ReLU(), mt.nn.Linear(4, 2))
  local x = mt.randn(3, 6)
  eq(mt.fuse(function(a) return net(a * 2) end)(x):equal(net(x * 2)), true)
  local integers = mt.range(1, 6)
  eq(mt.fuse(function(a) return a * 2 + 1 end)(integers):tolist(), (integers * 2 + 1):tolist())
  local k = 2
  local f = mt.fuse(function(a) return a * k end)
  eq(f(x):equal(x * 2), true)
  k = 0.3
  eq(f(x):equal(x * 0.3), true)
  local p = mt.randn(2, 3):requires_grad_()
  local y = mt.fuse(function(a) return mt.no_grad(function() return a * 2 end) + a end)(p)
  y:sum():backward()
  eq(p.grad:tolist(), {{1, 1, 1}, {1, 1, 1}})
  eq(mt.fuse(function(a) return a.shape, a:size(1), #a, (a * 2).dtype, (a * 2):dim() end)(x), x.shape)
end)

test('rows that are too long to be reduced meet values of rows', function()
  local function f(a, m) return (a - a:max(-1, true)):exp() * m + m end
  for _, n in ipairs {16384, 16385, 40000, 100000} do
    local a, m = mt.randn(2, n):requires_grad_(), mt.randn(2, 1):requires_grad_()
    local y, z = mt.fuse(f)(a, m), f(a, m)
    assert(y:equal(z), n)
    local g = mt.randn(2, n)
    local by_fused, by_each = mt.grad(y, {a, m}, g), mt.grad(z, {a, m}, g)
    assert(by_fused[1]:allclose(by_each[1], 1e-4, 1e-4) and by_fused[2]:allclose(by_each[2], 1e-4, 1e-2), n)
  end
end)

test('results in tables are those of the call', function()
  local x = mt.ones(2, 3)
  local list = mt.fuse(function(a) return {double = a * 2, {a * 3}} end)(x)
  x:add_(1)
  eq(list.double:tolist(), {{2, 2, 2}, {2, 2, 2}})
  eq(list[1][1]:tolist(), {{3, 3, 3}, {3, 3, 3}})
end)

test('a value that leaves the function by another way is computed when it is used', function()
  local kept
  local x = mt.randn(3, 4)
  mt.fuse(function(a) kept = a * 2 + 1 return a end)(x)
  eq(kept:equal(x * 2 + 1), true)
  local ok = pcall(mt.fuse(function(a) kept = a * 3 error 'stop' end), x)
  eq(ok, false)
  eq(kept:equal(x * 3), true)
end)

test('a function with other effects has them once, and may call fused functions', function()
  local x, total, calls = mt.randn(3, 4), mt.zeros(3, 4), 0
  local inner = mt.fuse(function(a) return (a * 2):relu() end)
  local f = mt.fuse(function(a)
    calls = calls + 1
    mt.no_grad(function() total:add_(a) end)
    return inner(a) + 1
  end)
  for k = 1, 3 do
    eq(f(x):equal((x * 2):relu() + 1), true)
    eq(calls, k)
    assert(total:allclose(x * k))
  end
  raises(function() mt.fuse(function(a) local b = a + 1 error 'stop here' return b end)(x) end, 'stop here')
  local g = mt.fuse(function(a) return a:add_(1) * 2 end)
  local y = x:clone()
  for k = 1, 3 do assert(g(y):allclose((x + k) * 2)) end
end)

test('a gradient that equals another is not overwritten', function()
  local x, y = mt.randn({3, 3, 4}, 'float64'):requires_grad_(), mt.randn({1, 3, 4}, 'float64'):requires_grad_()
  local function f(a, b)
    local d = -(b - a)
    return b * mt.maximum(b, d)
  end
  local g = mt.randn(3, 3, 4, 'float64')
  local by_fused = mt.grad(mt.fuse(f)(x, y), {x, y}, {grad_outputs = g})
  local by_each = mt.grad(f(x, y), {x, y}, {grad_outputs = g})
  assert(by_fused[1]:allclose(by_each[1]) and by_fused[2]:allclose(by_each[2]))
end)

test('products are not computed again for the gradient', function()
  local w = mt.randn(6, 6):requires_grad_()
  local function f(a) return ((a * 2):matmul(w) + 1):tanh():matmul(w):sin() * a end
  local x = mt.randn(5, 6):requires_grad_()
  local fused, g = mt.fuse(f), mt.randn(5, 6)
  local expected = mt.grad(f(x), {x, w}, {grad_outputs = g})
  for _ = 1, 3 do
    local y, z = fused(x), fused(x * 3) -- another call before the gradient of the first
    local by, products
    local verbs = require('mtorch.core').verbs_call(function() by = mt.grad(y, {x, w}, {grad_outputs = g}) end)
    products = 0
    for _, v in ipairs(verbs) do products = products + (v.text:find ' matmul ' and 1 or 0) end
    eq(products, 4)
    assert(by[1]:allclose(expected[1], 1e-5, 1e-5) and by[2]:allclose(expected[2], 1e-5, 1e-5))
    eq(z:equal(f(x * 3)), true)
  end
end)

test('dropout draws the same numbers forwards and backwards', function()
  local x = mt.randn(40, 50):requires_grad_()
  local f = mt.fuse(function(a) return mt.dropout(a * 2, 0.5, true) * 3 end)
  for _ = 1, 3 do
    local y = f(x)
    local g = mt.grad(y:sum(), x)
    eq(g:ne(0):equal(y:ne(0)), true)
    eq(y:equal(f(x)), false)
  end
end)

test('captured tensors have gradients, also through a graph', function()
  local w = mt.randn({5}, 'float64'):requires_grad_()
  local scale = (w * 2):exp()
  local f = mt.fuse(function(a) return (a * scale):tanh() * w end)
  local x = mt.randn({3, 5}, 'float64'):requires_grad_()
  for _ = 1, 2 do
    local by = mt.grad(f(x):sum(), {x, w}, {retain_graph = true})
    local expected = mt.grad(((x * scale):tanh() * w):sum(), {x, w}, {retain_graph = true})
    assert(by[1]:allclose(expected[1]) and by[2]:allclose(expected[2]))
  end
end)

test('numbers cannot be asked for', function()
  local x = mt.randn(3, 4)
  for _, f in ipairs {function(a) local n = a:sum(-1)[1]:item() return n end,
    function(a) local list = a:tolist() return list end, function(a) local n = a:at(1, 1) return n end,
    function(a) return a:gt(0):any() and a or -a end} do
    local message = raises(function() mt.fuse(f)(x) end, 'a fused function cannot ask for numbers')
    assert(message:find(':' .. debug.getinfo(f, 'S').linedefined .. ':', 1, true), message)
  end
  raises(function() -- also if the function catches the error
    mt.fuse(function(a) return a + (pcall(function() return (a * 2):sum():item() end) and 1 or 2) end)(x)
  end, 'a fused function cannot ask for numbers')
  raises(function() mt.fuse(3) end, 'fuse: f must be a function')
  raises(function() mt.fuse(function(a) return a + mt.ones(5) end)(x) end, 'add: .*%(3 x 4%).*%(5%)')
end)

test('quotients by what a row shares have the bits of the division', function()
  local f = mt.fuse(function(a, b) return a / b + 0 end)
  for k = -30, 30, 3 do
    local a, b = mt.randn(100, 300) * 2 ^ k, (mt.rand(100, 1) + 0.5) * (k % 2 == 0 and -1 or 1) * 2 ^ (k / 3)
    eq(f(a, b):equal(a / b + 0), true)
  end
  local ends = mt.tensor{0, -0.0, 1 / 0, -1 / 0, 1e-40, 1e38, 3, 1e-38, -7}:expand(200, 9):contiguous()
  local b = mt.randn(200, 1)
  local g = mt.fuse(function(p, q) return p / q end)
  eq((1 / g(ends, b)):equal(1 / (ends / b)), true)
end)

test('bits do not depend on threads', function()
  local x, threads = mt.randn(200, 700), mt.get_num_threads()
  local f = mt.fuse(functions.softmax)
  mt.set_num_threads(1)
  local one = f(x)
  mt.set_num_threads(2)
  eq(one:equal(f(x)), true)
  mt.set_num_threads(threads)
end)

test('in place, out= and composite functions on what waits', function()
  local x = mt.randn(6, 16):requires_grad_()
  for _, f in ipairs {
    function(a) local y = a * 2 y:add_(1) y:mul_(y) return y end,
    function(a) local y = a * 2 y[1] = 3 y:masked_fill_(y:gt(1), 0) y:relu_() return y + a end,
    function(a) local y = a * 2 mt.no_grad(function() mt.add(a, 1, {out = y:detach()}) end) return y * 3 end,
    function(a)
      local b = a:detach():clone()
      local y = b * 2
      mt.no_grad(function() b:zero_() end)
      return y + a + b
    end,
    function(a) return (a * 2):mean(-1, {dtype = 'float64'}) + (a + 1):sum(-1, {dtype = 'float64'}) end,
    function(a) return mt.cosine_similarity(a * 2, a + 1) + mt.mse_loss(a * 2, a - 1) end,
    function(a) return mt.grad((a * 2):sin():sum(), a) * 2 + a end,
    function(a) local y = a * 2 return y[{{2, 4}}] + (y[y:gt(0)]):sum() end,
  } do
    local a, b = f(x), mt.fuse(f)(x)
    eq(a:equal(b), true)
    eq(mt.grad(a:cos():sum(), x):allclose(mt.grad(b:cos():sum(), x)), true)
  end
end)

test('a result that is a step of its input has a gradient of zeros', function()
  for _, f in ipairs {function(a) return a * 0 + 1 end, function(a) return a:floor() end,
    function(a) return a:floor() - a:floor():mean(-1, true) end} do
    local x = mt.randn(3, 5):requires_grad_()
    mt.fuse(f)(x):sum():backward()
    eq(x.grad:equal(mt.zeros(3, 5)), true)
  end
end)

test('small tensors have the same bits', function()
  fuse_from(usual)
  for _, x in ipairs {mt.randn(4, 5), mt.randn(40, 60), mt.randn(100, 100)} do
    for _, name in ipairs(names) do
      local f, a, b = functions[name], x:clone():requires_grad_(), x:clone():requires_grad_()
      local y, z = f(a), mt.fuse(f)(b)
      eq(y:equal(z), true)
      y:sin():sum():backward()
      z:sin():sum():backward()
      eq(a.grad:allclose(b.grad, {rtol = 1e-4, atol = 1e-5}), true)
    end
  end
  raises(function() mt.fuse(function(a) return a:sum():item() end)(mt.ones(2)) end, 'cannot ask for numbers')
  fuse_from(0)
end)

test('gradients of rows far from 0 are as good as those of the operations', function()
  local functions = {
    function(x) local d = x - x:mean(-1, true) return (d * d * d):mean(-1, true) end,
    function(x) local d = x - x:mean(-1, true) return d / ((d * d):mean(-1, true) + 1e-5):sqrt() end,
    function(x) local e = (x - x:max(-1, true)):exp() return e / e:sum(-1, true) end,
  }
  for i, f in ipairs(functions) do
    local x = mt.randn(128, 512) + 1e4
    local g = mt.randn_like(f(x))
    local function gradient(fn, a)
      a = a:detach():requires_grad_()
      return mt.grad(fn(a), a, {grad_outputs = g:to(a.dtype)}):double()
    end
    local right = gradient(f, x:double())
    local function off(y) return ((y - right):abs():max() / right:abs():max()):item() end
    local eager, fused = off(gradient(f, x)), off(gradient(mt.fuse(f), x))
    assert(fused <= 8 * eager + 1e-6, ('function %d: off by %g, the operations by %g'):format(i, fused, eager))
  end
end)

test('the gradient of max and min at ties is at one position, for every size', function()
  for _, name in ipairs{'max', 'min', 'amax', 'amin'} do
    for _, rows in ipairs{4, 31, 32, 64} do
      local x = mt.zeros(rows, 1024)
      local function gradient(fn)
        local a = x:clone():requires_grad_()
        fn(a)[{{}, 1}]:sum():backward()
        return a.grad
      end
      local function f(a) local m = a[name](a, -1, true) return a - m end
      assert(mt.allclose(gradient(mt.fuse(f)), gradient(f)), name .. ' of ' .. rows .. ' rows')
    end
  end
end)

t.finish()
