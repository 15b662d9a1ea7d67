-- test_autograd.lua -- gradients: backward, no_grad, detach, the graph, gradcheck, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises = t.eq, t.near, t.raises
local function test(name, fn)
  mt.set_grad_enabled(true)  -- independent of earlier tests
  t.test(name, fn)
end

local function leaf(values) return mt.tensor(values, {requires_grad = true}) end
local function double(...) return mt.randn({...}, 'float64'):requires_grad_() end
local function is(x, values) eq(x and x:tolist(), values) end

-- This test is first: the first function of the process may be stored by a coroutine that ends.
test('the first hook is made in a coroutine that is garbage later', function()
  coroutine.wrap(function() leaf{1, 1}:register_hook(function() end) end)()
  collectgarbage()
  collectgarbage()
  local heap = {}
  for i = 1, 2e5 do heap[i % 5000] = {i, tostring(i)} end
  local calls = 0
  local function count() calls = calls + 1 end
  for i = 1, 100 do
    local x = leaf{1, 1}
    x:register_hook(count)
    mt.recompute(function(a) return a:exp() end, x):sum():backward()
    collectgarbage()
  end
  eq(calls, 100)
  -- The same from a coroutine that continues.
  local x = leaf{1, 1}
  local step = coroutine.wrap(function()
    for _ = 1, 3 do
      local y = x * 2
      y:register_hook(function(g) return g * 10 end)
      y:sum():backward()
      coroutine.yield()
    end
  end)
  for _ = 1, 3 do step() end
  is(x.grad, {60, 60})
end)

-- Backward ----------------------------------------------------------------------------------------

test('a chain', function()
  local x, w = leaf{1, 2, 3}, leaf{4, 5, 6}
  local y = (x * w + x):sum()
  eq({y.requires_grad, y.is_leaf, x.is_leaf, x.grad == nil}, {true, false, true, true})
  y:backward()
  is(x.grad, {5, 6, 7})
  is(w.grad, {1, 2, 3})
  eq(y.grad == nil, true)
  eq(x.grad.requires_grad, false)
end)

test('gradients add up until they are dropped', function()
  local x = leaf{1, 2}
  for i = 1, 3 do
    x:square():sum():backward()
    is(x.grad, {2 * i, 4 * i})
  end
  assert(x:zero_grad_() == x)
  eq(x.grad, nil)
  x:sum():backward()
  is(x.grad, {1, 1})
  x.grad = nil
  eq(x.grad, nil)
  x.grad = mt.tensor{5, 5}
  x:sum():backward()
  is(x.grad, {6, 6})
end)

test('one tensor used many times', function()
  local x = leaf(3)
  local y = x * x * x + x
  y:backward()
  eq(x.grad:item(), 28)
  local a = leaf{2}
  local b = a * 3
  local c = b + b * b
  c:backward(mt.tensor{1})
  is(a.grad, {3 + 2 * 6 * 3})
end)

test('a gradient can be handed in', function()
  local x = leaf{1, 2, 3}
  local y = x * 2
  y:backward(mt.tensor{1, 10, 100})
  is(x.grad, {2, 20, 200})
  local z = leaf{1}
  mt.mul(z, 2):backward{gradient = mt.tensor{4}}
  is(z.grad, {8})
  local d = leaf{1, 2}
  mt.mul(d, 2):backward(mt.ones({2}, 'float64'))
  eq(d.grad.dtype, 'float32')
end)

test('broadcasting sums the gradient', function()
  local row, column, one = leaf{1, 2, 3}, leaf{{1}, {2}}, leaf(2)
  local y = row * column * one
  y:sum():backward()
  is(row.grad, {6, 6, 6})
  is(column.grad, {{12}, {12}})
  eq(one.grad:item(), 18)
end)

test('conversions carry gradients back in the leaf\'s dtype', function()
  local x = leaf{1, 2}
  local y = x:double()
  eq({y.dtype, y.requires_grad}, {'float64', true})
  y:square():sum():backward()
  is(x.grad, {2, 4})
  eq(x.grad.dtype, 'float32')
  eq(x:long().requires_grad, false)
  local z = leaf{3}
  z:mul(mt.tensor({2}, 'float64')):backward(mt.ones(1))
  eq({z.grad.dtype, z.grad:item()}, {'float32', 2})
end)

test('backward of a leaf', function()
  local x = leaf(5)
  x:backward()
  eq(x.grad:item(), 1)
end)

test('gradient of branches and numbers that are not tensors', function()
  local x = leaf{1, -2}
  local y = mt.where(x:gt(0), x * 3, x * 5)
  y:sum():backward()
  is(x.grad, {3, 5})
  is(x:gt(0), {true, false})
  eq(x:gt(0).requires_grad, false)
  eq(x:argmax().requires_grad, false)
end)

test('kinks and ties have defined slopes', function()
  local function slope(f, values)
    local x = mt.tensor(values, 'float64'):requires_grad_()
    f(x):sum():backward()
    return x.grad:tolist()
  end
  eq(slope(function(x) return x:relu() end, {-1, 0, 1}), {0, 0, 1})
  eq(slope(function(x) return x:abs() end, {-1, 0, 1}), {-1, 0, 1})
  eq(slope(function(x) return x:max() end, {2, 2, 1}), {0.5, 0.5, 0})
  eq(slope(function(x) return (x:max(1)) end, {1, 3, 3}), {0, 1, 0})
  eq(slope(function(x) return x:clamp(0, 1) end, {-1, 0, 0.5, 1, 2}), {0, 0, 1, 0, 0})
  eq(slope(function(x) return mt.maximum(x, x * 1) end, {2}), {1})
  eq(slope(function(x) return x:sign() + x:floor() end, {0.5, -2.5}), {0, 0})
  eq(slope(function(x) return x:prod() end, {2, 0, 3}), {0, 6, 0})
  eq(slope(function(x) return x:prod() end, {0, 0, 3}), {0, 0, 0})
end)

test('max with a dimension sends the gradient to its position', function()
  local x = leaf{{1, 9, 3}, {7, 5, 8}}
  local values = x:max(2)
  values:sum():backward()
  is(x.grad, {{0, 1, 0}, {0, 0, 1}})
end)

-- Switching it off --------------------------------------------------------------------------------

test('no_grad passes arguments and results through', function()
  local x = leaf{1, 2}
  eq({mt.no_grad(function(...) return select('#', ...), ... end, 1, nil, 'a', nil)}, {4, 1, nil,
    'a', nil})
  eq(select('#', mt.no_grad(function() return nil, nil, nil end)), 3)
  eq(select('#', mt.no_grad(function() end)), 0)
  eq(mt.no_grad(function(o) return o.lr end, {lr = 3}), 3)
  eq(mt.no_grad(function(a, o) return a + o.lr end, 1, {lr = 3}), 4)
  eq(mt.no_grad(function(o) return o[1] end, {7}), 7)
  local y = mt.no_grad(function(z)
    eq(mt.is_grad_enabled(), false)
    return z * 2
  end, x)
  eq({y.requires_grad, mt.is_grad_enabled()}, {false, true})
  raises(function() mt.no_grad(3) end, "no_grad: argument 1 'fn' must be a function, got 3")
  raises(function() mt.no_grad() end, 'no_grad: .*missing')
end)

test('no_grad restores after an error, nests, and does not affect coroutines', function()
  local message = raises(function() mt.no_grad(function() error('inside') end) end, 'inside')
  assert(message:find('test_autograd.lua:%d+: inside'), message)
  eq(mt.is_grad_enabled(), true)
  local thrown = {}
  local ok, value = pcall(mt.no_grad, function() error(thrown) end)
  assert(not ok and value == thrown)
  eq(mt.is_grad_enabled(), true)
  mt.no_grad(function()
    mt.no_grad(function() end)
    eq(mt.is_grad_enabled(), false)
    pcall(mt.no_grad, error)
    eq(mt.is_grad_enabled(), false)
  end)
  eq(mt.is_grad_enabled(), true)
  raises(function() coroutine.wrap(function() mt.no_grad(coroutine.yield) end)() end, 'yield')
  eq(mt.is_grad_enabled(), true)
end)

test('set_grad_enabled returns the old state', function()
  eq(mt.set_grad_enabled(false), true)
  eq(mt.is_grad_enabled(), false)
  eq(mt.set_grad_enabled(true), false)
  eq(mt.is_grad_enabled(), true)
end)

test('errors leave recording on', function()
  for _, f in ipairs{
    function() mt.cross_entropy(mt.zeros(1, 3), 'foo') end, function() mt.cross_entropy(mt.zeros(1,
      3), mt.zeros(1)) end,
    function() mt.cross_entropy(mt.zeros(1, 3), mt.tensor({9}, 'int64')) end,
    function() mt.cross_entropy(mt.zeros(1, 3), mt.tensor({1}, 'int64'), 'x') end,
    function() mt.zeros(2):index_select(1, mt.tensor({9}, 'int64')) end,
    function() mt.gradcheck(function() error('x') end, {double(2)}) end,
    function() mt.binary_cross_entropy(mt.full({1}, 2), mt.zeros(1)) end,
    function() mt.test_close(mt.ones(1), mt.zeros(1)) end, function() mt.zeros(2):at(3) end,
    function() mt.zeros(2)[3] = 1 end} do
    assert(not pcall(f))
    eq(mt.set_grad_enabled(true), true)
  end
end)

test('detach leaves the graph and shares memory', function()
  local x = leaf{1, 2}
  local y = (x * 3):detach()
  eq({y.requires_grad, y.is_leaf}, {false, true})
  local z = x * x:detach()
  z:sum():backward()
  is(x.grad, {1, 2})
  local d = x:detach()
  d:fill_(9)
  is(x, {9, 9})
end)

test('requires_grad can be set on leaves of float type', function()
  local x = mt.ones(2)
  assert(x:requires_grad_() == x and x.requires_grad)
  x:requires_grad_(false)
  eq(x.requires_grad, false)
  x.requires_grad = true
  eq(x.requires_grad, true)
  raises(function() (x * 2).requires_grad = false end,
    'requires_grad_?: .*computed from others; use x:detach')
  raises(function() mt.ones({2}, 'int64'):requires_grad_() end,
    'only float tensors have gradients.*int64')
  raises(function() mt.tensor({1}, 'int64', 'cpu', true) end,
    'only float tensors have gradients.*int64')
  raises(function() x.requires_grad = 1 end, 'requires_grad must be true or false, got 1')
  raises(function() x.grad = mt.ones(3) end, 'grad: the tensor is %(2%), this gradient %(3%)')
  raises(function() x.grad = 3 end, 'grad must be a tensor or nil, got 3')
end)

-- The graph ---------------------------------------------------------------------------------------

test('the graph is used up, unless it is retained', function()
  local x = leaf{1, 2}
  local y = (x * x):sum()
  y:backward{retain_graph = true}
  y:backward(nil, true)
  y:backward()
  is(x.grad, {6, 12})
  raises(function() y:backward() end,
    'backward: the graph behind .* was freed.*retain_graph=true')
  is(x.grad, {6, 12})
end)

test('what backward cannot begin with', function()
  local x = leaf{1, 2}
  raises(function() (x * 2):backward() end, 'backward: the tensor is %(2%).*:sum%(%)')
  raises(function() mt.ones(1):backward() end, 'backward: this tensor does not depend')
  raises(function() mt.no_grad(function() return (x * 2):sum() end):backward() end,
    'does not depend')
  raises(function() (x * 2):backward(mt.ones(3)) end,
    'backward: the gradient is %(3%), the tensor %(2%)')
  raises(function() (x * 2):backward(1) end,
    "backward: argument 2 'gradient' must be a tensor, got 1")
  eq(x.grad, nil)
end)

test('a failure in the middle leaves no gradient behind', function()
  local x, w = leaf{1, 2}, leaf{3, 4}
  local y = x:exp()
  local z = (w * 2):sum() + y:sum()
  y:add_(1)
  raises(function() z:backward() end,
    'backward: exp needs a tensor %(2%) that was changed in place')
  eq({x.grad, w.grad}, {nil, nil})
  x:exp():sum():backward()
  near(x.grad:tolist(), {math.exp(1), math.exp(2)}, 1e-5)
end)

test('in-place changes of saved tensors are errors', function()
  local w = leaf{3, 4}
  local a = mt.tensor{1, 2}
  local y = (w * a):sum()
  a:add_(1)
  raises(function() y:backward() end, 'mul needs a tensor %(2%) that was changed in place')
  a = mt.tensor{1, 2}
  y = (w * a):sum()
  a[1] = 5
  raises(function() y:backward() end, 'changed in place')
  a = mt.tensor{1, 2}
  y = (w * a):sum()
  a:view(2, 1):mul_(2)
  raises(function() y:backward() end, 'changed in place')
  a = mt.tensor{1, 2}
  y = (w * a):sum()
  a:detach():zero_()
  raises(function() y:backward() end, 'changed in place')
  y = (w * w):sum()
  mt.no_grad(function() w:add_(1) end)
  raises(function() y:backward() end, 'changed in place')
  eq(w.grad, nil)
end)

test('elements are read through a pointer between forward and backward', t.on_cpu(function()
  local w = leaf{3, 4}
  local y = w * w
  eq(w:data()[1] + y:data()[0], 13)
  y:exp():sum():backward()
  near(w.grad:tolist(), {6 * math.exp(9), 8 * math.exp(16)}, 10)
end))

test('in-place changes of other tensors are allowed', function()
  local w = leaf{3, 4}
  local y = w + 1
  y:mul_(2)
  y:add_(5)
  y:sum():backward()
  is(w.grad, {2, 2})
  local x = leaf{1, 2}
  local z = x * 3
  z:copy_(x * x)
  z:sum():backward()
  is(x.grad, {2, 4})
  local u = leaf{1, 2}
  local v = mt.zeros(2)
  v:add_(u)
  assert(v.requires_grad)
  v:sum():backward()
  is(u.grad, {1, 1})
end)

test('leaves are not changed in place while recording', function()
  local x = leaf{1, 2}
  for _, f in ipairs{function() x:add_(1) end, function() x:mul_(2) end, function() x:fill_(0) end,
                     function() x:zero_() end, function() x:copy_(mt.ones(2)) end,
                       function() x:relu_() end} do
    raises(f, '_: this leaf requires a gradient.*no_grad')
  end
  is(x, {1, 2})
  mt.no_grad(function() x:add_(1) end)
  is(x, {2, 3})
  raises(function() x[1]:add_(1) end, 'view')
end)

-- Checks of whole functions -----------------------------------------------------------------------

local checked = {
  {'arithmetic', function(a, b) return (a * b - a / (b:square() + 1)) * 2 + 1 end, {{3, 4}, {3,
    4}}},
  {'broadcast', function(a, b) return a * b + b end, {{3, 1}, {4}}},
  {'functions', function(a) return a:tanh():exp():sigmoid():log():sin() end, {{5}}},
  {'powers', function(a) return (a:square() + 1) ^ 1.5 + 2 ^ a end, {{4}}},
  {'power of tensors', function(a, b) return (a:abs() + 0.5) ^ b end, {{4}, {4}}},
  {'sum', function(a) return a:sum(1):square() + a:sum(2):sum() end, {{3, 3}}},
  {'mean', function(a) return a:mean{1, 3}:square() end, {{2, 3, 4}}},
  {'prod', function(a) return a:prod(2) end, {{3, 4}}},
  {'max', function(a) return a:max(1):square() end, {{4, 3}}},
  {'amax', function(a) return a:amax{1, 2}:square() end, {{4, 3}}},
  {'matmul', function(a, b) return a:matmul(b):square() end, {{3, 4}, {4, 2}}},
  {'matmul of vectors', function(a, b) return a:matmul(b):square() end, {{4}, {4}}},
  {'matmul of batches', function(a, b) return a:matmul(b):sin() end, {{2, 1, 2, 3}, {4, 3, 2}}},
  {'matmul transposed', function(a, b) return a:t():matmul(b:t()) end, {{3, 2}, {4, 3}}},
  {'linear', function(x, w, b) return mt.linear(x, w, b):tanh() end, {{5, 3}, {2, 3}, {2}}},
  {'views', function(a) return a:view(6, 2):t():reshape(3, 4):permute(2,
    1):unsqueeze(1):square() end, {{3, 4}}},
  {'expand', function(a) return a:expand(4, 3):sin() end, {{1, 3}}},
  {'cat', function(a, b) return mt.cat{a, b, a, b, dim = 2}:square() end, {{2, 3}, {2, 1}}},
  {'stack', function(a, b) return mt.stack{a, b}:sin() end, {{2, 3}, {2, 3}}},
  {'clone', function(a) return a:clone():contiguous():square() end, {{3}}},
  {'where', function(a, b) return mt.where(a:detach():gt(0), a * b, b:sin()) end, {{6}, {6}}},
  {'mse', function(a, b) return mt.mse_loss(a, b) end, {{4}, {4}}},
  {'bce', function(a) return mt.binary_cross_entropy(a:sigmoid(), mt.tensor({0, 1, 0.3},
    'float64')) end, {{3}}},
  {'bce with logits', function(a)
    return mt.binary_cross_entropy_with_logits(a, mt.tensor({0, 1, 0.3}, 'float64'))
  end, {{3}}},
  {'cross entropy', function(a) return mt.cross_entropy(a, mt.tensor({2, 3, 1}, 'int64')) end, {{3,
    3}}},
  {'cross entropy, ignored', function(a) return mt.cross_entropy(a, mt.tensor({2, -100, 1},
    'int64')) end, {{3, 3}}},
  {'softmax', function(a) return mt.softmax(a, 2):square() end, {{2, 4}}},
  {'log_softmax', function(a) return mt.log_softmax(a, 1):square() end, {{3, 2}}},
}
for _, row in ipairs(checked) do
  test('gradcheck: ' .. row[1], function()
    mt.manual_seed(4)
    local inputs = {}
    for i, size in ipairs(row[3]) do inputs[i] = double(unpack(size)) end
    t.checks(row[2], unpack(inputs))
  end)
end

test('gradcheck finds a wrong gradient and names where', function()
  local x = mt.tensor({1, 2}, 'float64'):requires_grad_()
  raises(function() mt.gradcheck(function(v) return v * v:detach() end, {x}) end,
         'gradcheck: input 1, element 1, output 1: the gradient is 1, finite differences give 2')
  raises(function() mt.gradgradcheck(function(v) return v * v * (v.requires_grad and v:detach() or
    v) end, {x}) end, 'gradcheck')
  raises(function() mt.gradcheck(function(v) return v:sum() end,
    {mt.ones(2):requires_grad_()}) end, 'float64.*float32')
  raises(function() mt.gradcheck(function(v) return v:sum() end, {mt.ones({2}, 'float64')}) end,
    'no input requires')
  raises(function() mt.gradcheck(function() return 3 end, {x}) end,
    'must return a tensor, it returned 3')
  raises(function() mt.gradcheck(function() end, {x}) end, 'must return a tensor')
  raises(function() mt.gradcheck(function() error('own') end, {x}) end, 'own')
  raises(function() mt.gradcheck(3, {x}) end, 'gradcheck: .*function')
  eq(mt.gradcheck(function(v) return v * v end, x), true)
  is(x, {1, 2})
end)

test('a gradient with a graph is a separate tensor', function()
  local a, b, c = leaf{1, 2}, leaf{3, 4}, leaf{5, 6}
  b:sum():backward{create_graph = true} -- an expanded number
  local sum = (a * 2 + b * 2 + c * 2):sum()
  sum:backward()
  is(a.grad, {2, 2})
  is(b.grad, {3, 3})
  is(c.grad, {2, 2})
  b.grad:mul_(2)
  is(b.grad, {6, 6})
end)

test('create_graph gives gradients of gradients', function()
  local x = mt.tensor({2, 3}, 'float64'):requires_grad_()
  x:pow(3):sum():backward{create_graph = true}
  local g = x.grad
  assert(g.requires_grad)
  is(g, {12, 27})
  x.grad = nil
  g:sum():backward()
  t.near(x.grad:tolist(), {12, 18}, 1e-12)
end)

test('a training loop converges', function()
  mt.manual_seed(1)
  local x = mt.rand(64, 2)
  local y = x:matmul(mt.tensor{{2}, {-3}}) + 0.5
  local w, b = mt.zeros(2, 1, {requires_grad = true}), mt.zeros(1, {requires_grad = true})
  for _ = 1, 800 do
    local loss = mt.mse_loss(x:matmul(w) + b, y)
    loss:backward()
    mt.no_grad(function()
      w:sub_(w.grad * 0.5)
      b:sub_(b.grad * 0.5)
    end)
    w:zero_grad_()
    b:zero_grad_()
  end
  near(w:flatten():tolist(), {2, -3}, 1e-3)
  near(b:item(), 0.5, 1e-3)
end)

-- Parts of large tensors ----------------------------------------------------------------------------

--- Returns regions {first, length} of a dimension of n positions, some overlapping, in random order.
local function regions(n)
  local list, at = {}, 1
  while at <= n do
    local length = math.min(math.random(math.ceil(n / 5)), n - at + 1)
    if math.random(4) > 1 then list[#list + 1] = {at, length} end -- otherwise it is unused
    at = at + length - (math.random(6) == 1 and length > 1 and 1 or 0)
  end
  local order = math.random(3)
  for i = 1, #list do
    local j = order == 1 and i or order == 2 and #list + 1 - i or math.random(#list)
    if order == 3 or j > i then list[i], list[j] = list[j], list[i] end
  end
  return list
end

test('gradients of parts of a large tensor add up in any order', function()
  math.randomseed(7)
  local shapes = {{20000}, {250, 80}, {5, 50, 80}, {40, 16, 32}, {2, 10000}}
  for round = 1, 150 do
    local shape = shapes[math.random(#shapes)]
    local x = mt.zeros(shape):requires_grad_()
    local expected, terms = mt.zeros(shape), {}
    local base = math.random(2) == 1 and x or x:view(shape)
    local function use(y, region, weight) -- of y and `expected`
      terms[#terms + 1] = (y * weight):sum()
      region:add_(weight)
    end
    for _ = 1, math.random(2) do
      local d = math.random(#shape)
      for _, r in ipairs(regions(shape[d])) do
        local y, region = base:narrow(d, r[1], r[2]), expected:narrow(d, r[1], r[2])
        use(y, region, math.random(9))
        if math.random(5) == 1 then use(y, region, 10) end -- a second time
        if math.random(5) == 1 then use(y:select(d, 1), region:select(d, 1), 20) end
      end
      if math.random(4) == 1 then use(math.random(2) == 1 and x or base, expected, 100) end
    end
    local loss = (x * 0):sum()
    for _, term in ipairs(terms) do loss = loss + term end
    loss:backward()
    assert(mt.equal(x.grad, expected), 'round ' .. round)
  end
end)

t.finish()
