-- test_inplace.lua -- in-place changes while gradients are recorded: through views, of bases, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises = t.eq, t.near, t.raises
local function test(name, fn)
  mt.set_grad_enabled(true)
  t.test(name, fn)
end

local function leaf(values, dtype) return (mt.tensor(values, {dtype = dtype, requires_grad = true})) end
local function is(x, values) eq(x and x:tolist(), values) end
local function count(rows, columns) return (mt.range(0, rows * columns - 1):view(rows, columns):float()) end

-- The numbers are PyTorch's.
test('a change through a view reaches the base', function()
  local x = leaf{1, 2, 3}
  local y = x * 2
  local v = y[1]
  v:mul_(3)
  is(y, {6, 4, 6});
  (y * y):sum():backward()
  is(x.grad, {72, 16, 24})
end)

test('a quotient may change in place: its derivative reads what was divided', function()
  local x, s = leaf{-2, 1, 4}, leaf{2, 4, 8}
  local y = x / s
  y:relu_();
  (y * 2):sum():backward()
  is(x.grad, {0, 0.5, 0.25})
  is(s.grad, {0, -0.125, -0.125})
end)

test('a column of a plain tensor takes the gradient in', function()
  local w, z = leaf{1, 2, 3}, mt.zeros(3, 4)
  local v = z[{{}, 2}]
  v:copy_(w)
  eq({z.requires_grad, z.is_leaf, v.requires_grad, v.is_leaf}, {true, false, true, false});
  (z * count(3, 4)):sum():backward()
  is(w.grad, {1, 5, 9})
end)

test('assignment to plain, recorded and view tensors', function()
  local w, z = leaf{1, 2, 3, 4}, mt.ones(3, 4)
  z[2] = w * 2;
  (z * z):sum():backward()
  is(w.grad, {8, 16, 24, 32})
  w, z = leaf{1, 2, 3}, mt.ones(3, 4)
  z:t()[1] = w;
  (z * z):sum():backward()
  is(w.grad, {2, 4, 6})
  local x = leaf{{1, 2}, {3, 4}}
  w = leaf{5, 6}
  local y = x * x
  y[{{}, 2}] = w * 10
  y[2][1] = 7
  y:sum():backward()
  is(x.grad, {{2, 0}, {0, 0}})
  is(w.grad, {10, 10})
end)

test('views taken earlier see the new history', function()
  local x = leaf{1, 2, 3, 4}
  local y = x * 1
  local a, b = y[{{1, 2}}], y:view(2, 2)
  y:mul_(3);
  ((a * a):sum() + (b * b):sum()):backward()
  is(x.grad, {36, 72, 54, 72})
  x = leaf{1, 2, 3, 4}
  y = x * 1
  a, b = y[{{1, 2}}], y:view(2, 2)
  a:mul_(b[2]:clone());
  (b * b):sum():backward()
  is(x.grad, {18, 64, 12, 40})
  x = leaf{1, 2, 3, 4}
  local z = mt.zeros(4)
  local e = z:view(4, 1):expand(4, 3) -- overlaps itself, so its gradient is summed
  z:copy_(x * x);
  (e * count(4, 3)):sum():backward()
  is(x.grad, {6, 48, 126, 240})
end)

test('views of views, and a region set to a number', function()
  local x = leaf{1, 2, 3, 4}
  local y = x * 1
  local v = y[{{2, 4}}][{{2, 3}}]
  v:add_(y[1]:clone())
  v:mul_(v:clone())
  y[1] = 5;
  (y * y):sum():backward()
  is(x.grad, {756, 4, 256, 500})
end)

test('a detached, strided base', function()
  local x, w = leaf{1, 2, 3, 4}, leaf{5, 6}
  local y = (x * 1):view(2, 2):t():detach()
  y[2] = w
  eq({y.requires_grad, y:is_contiguous()}, {true, false});
  (y * y):sum():backward()
  eq(x.grad, nil)
  is(w.grad, {10, 12})
  local z = mt.zeros(3, 4):t()[{{1, 4, 2}}]:detach() -- every second column of 3 x 4
  local u = leaf{1, 2, 3}
  z[2] = u;
  (z * count(2, 3)):sum():backward()
  is(u.grad, {3, 4, 5})
end)

test('gradients of the second order through changes in place', function()
  local x = leaf({1, 2, 3}, 'float64')
  local y = x * x
  y[2] = x[1] * y[3]:clone();
  (y:clone() ^ 2):sum():backward{create_graph = true}
  local g = x.grad
  x.grad = nil
  g:sum():backward()
  is(g, {166, 0, 216})
  is(x.grad, {390, 0, 432})
end)

local layouts = {
  {'a row', function(z) return z[2] end, {3}},
  {'a column', function(z) return z[{{}, 2}] end, {2}},
  {'transposed', function(z) return z:t() end, {3, 2}},
  {'strided', function(z) return z[{{}, {1, 3, 2}}] end, {2, 2}},
  {'a view of a view', function(z) return z:t():unsqueeze(1)[{1, {2, 3}}] end, {2, 2}},
  {'one element', function(z) return z[{2, 3}] end, {}},
  {'size 1', function(z) return z[{{1}, {2}}] end, {1, 1}},
  {'nothing', function(z) return z[{{1, 0}}] end, {0, 3}},
  {'all of it', function(z) return z:view(6) end, {6}},
}
for _, row in ipairs(layouts) do
  test('gradcheck of a write into ' .. row[1], function()
    mt.manual_seed(3)
    local function inputs()
      return {mt.randn({2, 3}, 'float64'):requires_grad_(), mt.randn(row[3], 'float64'):requires_grad_()}
    end
    local function copied(x, w)
      local z = x * 1
      local other = z:view(3, 2)
      row[2](z):copy_(w:sin())
      return z:square():sum() + other[1]:prod()
    end
    local function scaled(x, w)
      local z = x:sin()
      row[2](z):mul_(w)
      row[2](z):add_(w)
      return z:square()
    end
    local function plain(_, w)
      local z = mt.ones({2, 3}, 'float64')
      local v = row[2](z)
      v:copy_(w)
      return v:square() + z:sum()
    end
    local in_ = inputs()
    for i, f in ipairs{copied, scaled, plain} do
      if i < 3 then
        t.checks(f, unpack(in_))
      else
        local function alone(w) return plain(nil, w) end
        t.checks(alone, in_[2])
      end
    end
  end)
end

-- Each takes a view that may be older than the change, another tensor, and both in either order.
local functions = {
  add = function(v, w) return w + v end, sub = function(v, w) return w - v end,
  mul = function(v, w) return w * v end, div = function(v, w) return w / (v + 9) end,
  twice = function(v, w) return w * v + v end, pow = function(v, w) return (v:square() + 1) ^ w end,
  exp = function(v, w) return w + (v / 9):exp() end, maximum = function(v, w) return mt.maximum(w, v) end,
  where = function(v, w) return mt.where(w:gt(0), w, v) end, lerp = function(v, w) return mt.lerp(w, v, w) end,
  addcmul = function(v, w) return mt.addcmul(w, v, w) end, clamp = function(v, w) return w + v:clamp(-2, 3) end,
  sum = function(v, w) return w + v:sum(1, true) end, prod = function(v, w) return w + v:prod(2, true) end,
  mean = function(v, w) return w - v:mean() end, amax = function(v, w) return w * v:amax(1, true) end,
  var = function(v, w) return w + v:var() end, norm = function(v, w) return w * v:norm() end,
  logsumexp = function(v, w) return w + v:logsumexp(1) end, cumsum = function(v, w) return w * v:cumsum(2) end,
  cumprod = function(v, w) return w + v:cumprod(1) end, softmax = function(v, w) return w * v:softmax(2) end,
  matmul = function(v, w) return w:matmul(v) end, addmm = function(v, w) return mt.addmm(w, w, v) end,
  linear = function(v, w) return mt.linear(w, v) end, outer = function(v, w) return w[1]:outer(v[2]) end,
  einsum = function(v, w) return mt.einsum('ij,kj->ik', w, v) end, trace = function(v, w) return w + v:trace() end,
  det = function(v, w) return w + mt.linalg.det(v + 9 * mt.eye(3, {dtype = 'float64'})) end,
  solve = function(v, w) return mt.linalg.solve(v + 9 * mt.eye(3, {dtype = 'float64'}), w) end,
  cat = function(v, w) return mt.cat({w, v, w}, 1) end, stack = function(v, w) return mt.stack{w, v} end,
  five = function(v, w) return mt.cat({w, v, w, v, w}, 2) end, flip = function(v, w) return w + v:flip(1) end,
  gather = function(v, w) return w * v:gather(1, mt.tensor{{1, 3, 2}, {2, 2, 1}, {3, 1, 1}}:long()) end,
  masked = function(v, w) return v[w:gt(0)] * 2 + w[w:gt(0)] end, sort = function(v, w) return w * v:sort(2) end,
  index = function(v, w) return w:index_add(1, mt.tensor{2, 2, 1}:long(), v) end,
  tril = function(v, w) return w + v:tril() end,
  conv = function(v, w) return mt.conv2d(w:view(1, 1, 3, 3), v[{{1, 2}, {1, 2}}]:reshape(1, 1, 2, 2)) end,
  pad = function(v, w) return mt.pad(v, {1, 0}) * mt.pad(w, {0, 1}) end,
  layer_norm = function(v, w)
    return mt.layer_norm(w, {3}, v[1], v[2]) end, mse = function(v, w) return mt.mse_loss(w, v) end,
  cross_entropy = function(v, w) return mt.cross_entropy(v, mt.tensor{1, 3, 2}:long()) + w:sum() end,
  expand = function(v, w) return w + v[1]:expand(3, 3) end,
  unfold = function(v, w) return v:unfold(1, 2, 1) * w[1][1] end,
  written = function(v, w) return w:clone():copy_(v) * w end, added = function(v, w) return (w * 1):add_(v) end,
  custom = function(v, w)
    local Times = mt.Function{forward = function(ctx, a, b) ctx:save_for_backward(a, b) return a * b end,
      backward = function(ctx, g) local a, b = ctx:saved_tensors() return g * b, g * a end}
    return Times(w, v)
  end,
  recompute = function(v, w) return mt.recompute(function(a, b) return a * b end, w, v) end,
}

-- The change is made through the base or a view; the view that is used is created before, at, or after it.
local changes = {
  before = function(y) local v = y:view(3, 3) y:mul_(3) return v end,
  turned = function(y) local v = y:view(3, 3):t() y[2]:mul_(3) return v end,
  at = function(y) local v = y:view(3, 3) v:mul_(3) return v end,
  after = function(y) y:mul_(3) return y:view(3, 3) end,
  between = function(y) local v = y:view(3, 3) y:mul_(2) y:add_(v:t():reshape(9)) return v end,
}
local plain = {
  before = function(y) return (y * 3):view(3, 3) end, at = function(y) return (y * 3):view(3, 3) end,
  turned = function(y) return (y * mt.tensor({1, 3, 1, 1, 1, 1, 1, 1, 1}, 'float64')):view(3, 3):t() end,
  after = function(y) return (y * 3):view(3, 3) end,
  between = function(y) return (y * 2 + (y * 2):view(3, 3):t():reshape(9)):view(3, 3) end,
}
for name, f in pairs(functions) do
  test('views older than a change, and what is made of them: ' .. name, function()
    mt.manual_seed(5)
    local x = mt.randn({9}, 'float64'):requires_grad_()
    local w = mt.randn({3, 3}, 'float64'):requires_grad_()
    for when, change in pairs(changes) do
      local function through(view)
        return function(a, b)
          local y = a * 1
          local out = f(view(y), b)
          return out:square():sum() + (a * b:view(9)):sum()
        end
      end
      local changed = through(change)
      local function all(g)
        local first = mt.grad(g(x, w), {x, w}, {create_graph = true})
        local second = mt.grad((first[1] * first[2]:view(9)):sum(), {x, w})
        x.grad, w.grad = nil, nil
        g(x, w):backward()
        return {first[1]:tolist(), first[2]:view(9):tolist(), x.grad:tolist(), w.grad:view(9):tolist(),
          second[1]:tolist(), second[2]:view(9):tolist()}
      end
      near(all(changed), all(through(plain[when])), 1e-8)
      if when == 'before' then
        eq(mt.gradcheck(changed, {x, w}, {rtol = 1e-4}), true)
        eq(mt.gradgradcheck(changed, {x, w}, {atol = 1e-3, rtol = 1e-3}), true)
      end
    end
  end)
end

test('a whole tensor that is overwritten stays one that is computed, and takes its views along', function()
  for name, write in pairs{
    copy_ = function(y) y:copy_(mt.tensor{7, 8}) end,
    fill_ = function(y) y:fill_(7) end,
    zero_ = function(y) y:zero_() end,
  } do
    local x = leaf{1, 2}
    local y = x * 2
    write(y)
    assert(y.requires_grad and not y.is_leaf, name)
    mt.sum(y * y):backward()
    eq(x.grad, nil)
  end
  local x = leaf{1, 2}
  local y = x * 2
  local v = y[1]
  y:copy_(mt.tensor{7, 8})
  eq({y.requires_grad, v.requires_grad, v.is_leaf}, {true, true, false})
  v:fill_(3)
  is(y, {3, 8})
  local w = leaf(4)
  v:copy_(w)
  eq(y.requires_grad, true)
  y:sum():backward()
  eq({w.grad:item(), x.grad}, {1})
end)

test('comparisons and logic in place keep the dtype', function()
  local x, y = mt.tensor{1, 2, 3}, mt.tensor{2, 2, 2}
  for name, expected in pairs{lt = {1, 0, 0}, le = {1, 1, 0}, gt = {0, 0, 1}, ge = {0, 1, 1}, eq = {0, 1, 0},
                              ne = {1, 0, 1}, less = {1, 0, 0}, greater_equal = {0, 1, 1}, not_equal = {1, 0, 1}} do
    local z = x:clone()
    assert(z[name .. '_'](z, y) == z)
    eq({z.dtype, z:tolist()}, {'float32', expected})
    z = x:clone()
    z[name .. '_'](z, 2)
    is(z, expected)
  end
  local bits = {and_ = {0, 0, 1}, or_ = {1, 1, 1}, xor_ = {1, 1, 0}}
  for name, expected in pairs(bits) do
    for _, dtype in ipairs{'float64', 'int32', 'uint8', 'int8', 'int16'} do
      local z = mt.tensor({0, 2, 3}, dtype)
      z['logical_' .. name](z, mt.tensor({5, 0, 7}, dtype))
      eq({z.dtype, z:tolist()}, {dtype, expected})
    end
  end
  local b = mt.tensor{true, false}
  eq(b:logical_not_():tolist(), {false, true})
  eq(b:eq_(mt.tensor{0.5, 1}):tolist(), {false, true})
  is(mt.tensor{0, 2}:logical_not_(), {1, 0})
  local whole = mt.range(1, 6):view(2, 3):float() -- every second column of a transposed tensor
  whole:t()[{{1, 3, 2}}]:gt_(3)
  is(whole, {{0, 2, 0}, {1, 5, 1}})
  raises(function() mt.tensor{1, 2}:lt_(mt.zeros(2, 2)) end, 'lt_: the result is %(2 x 2%), the tensor %(2%)')
  raises(function() leaf{1, 2}:lt_(1) end, 'lt_: this leaf requires a gradient')
  local w = leaf{1, 2}
  local v = w * 3;
  v:gt_(4);
  (v + w):sum():backward() -- comparisons have no gradient
  is(w.grad, {1, 1})
  raises(function() return mt.tensor{1}.isnan_ end, "no field or method 'isnan_'") -- as in PyTorch
end)

test('sums so far, triangles and products written into a tensor', function()
  local x = mt.tensor{{1, 2}, {3, 4}}
  assert(x:cumsum_(1) == x)
  is(x, {{1, 2}, {4, 6}})
  is(x:cumprod_(2), {{1, 2}, {4, 24}})
  is(x:clone():tril_(), {{1, 0}, {4, 24}})
  is(x:triu_(1), {{0, 2}, {0, 0}})
  local m, v = mt.tensor{{1, 2}, {3, 4}}, mt.tensor{1, 1}
  is(mt.ones(2, 2):addmm_(m, m, {beta = 2}), {{9, 12}, {17, 24}})
  is(mt.ones(2):addmv_(m, v), {4, 8})
  is(mt.ones(1, 2, 2):baddbmm_(m:view(1, 2, 2), m:view(1, 2, 2)), {{{8, 11}, {16, 23}}})
  is(mt.ones(2, 2):addbmm_(m:view(1, 2, 2), m:view(1, 2, 2), {alpha = 0}), {{1, 1}, {1, 1}})
  raises(function() v:addmm_(m, m) end, "addmm_: the result is %(2 x 2%) float32, the tensor %(2%) float32")
  is(v, {1, 1})
  raises(function() mt.tensor{true}:cumsum_(1) end, 'cumsum_: the result is %(1%) int64')
  local w = leaf{{1, 2}, {3, 4}}
  local y = w * 1
  y:cumprod_(1):tril_():sum():backward() -- the tensor saved by cumprod is preserved
  is(w.grad, {{4, 4}, {1, 2}})
end)

test('operations in place that need the old values, or have no gradient', function()
  local x = leaf({-1, 0.5, 2}, 'float64')
  local function slope(change)
    local y = x * 1
    change(y)
    return mt.grad(y:sum(), x, {allow_unused = true})
  end
  is(slope(function(y) y:clamp_(mt.zeros(3, {dtype = 'float64'}), 1) end), {0, 1, 0})
  eq(slope(function(y) y:heaviside_(mt.ones(1, {dtype = 'float64'})) end), false)
  is(slope(function(y) y[{ {1, 2}}]:heaviside_(mt.ones(1, {dtype = 'float64'})) end), {0, 0, 1})
  local index, source = mt.tensor({1, 3}, 'int64'), mt.tensor({5, 1}, 'float64')
  for reduce, values in pairs{prod = {5, 1, 1}, amax = {0, 1, 1}, amin = {1, 1, 0}} do
    is(slope(function(y) y:scatter_reduce_(1, index, source, reduce) end), values)
  end
  local rows = leaf({{3, 4}, {0, 1}}, 'float64')
  local y = rows * 1
  y:renorm_(2, 1, 1)
  eq(mt.grad(y:sum(), rows):tolist(), mt.grad(rows:renorm(2, 1, 1):sum(), rows):tolist())
end)

test('fill_ takes a 0-d tensor', function()
  local w = leaf(2)
  local x = mt.zeros(2, 3)
  assert(x[1]:fill_(w * 3) ~= x)
  is(x, {{6, 6, 6}, {0, 0, 0}})
  x:sum():backward()
  eq(w.grad:item(), 9)
  is(mt.ones(2, 'int64'):fill_(mt.tensor(4, 'uint8')), {4, 4})
  raises(function() mt.ones(2):fill_(mt.ones(2)) end, 'fill_: the value is %(2%); one number or a 0%-d tensor')
  raises(function() mt.ones(2, 'int64'):fill_(mt.tensor(2.5)) end, 'fill_: the value is float32')
  raises(function() mt.ones(2):fill_('a') end, "fill_: argument 2 'value' must be a number")
end)

test('a tensor written into itself stays what it is', function()
  local x = leaf{1, 2}
  local y = x * 2
  y:copy_(y)
  y:sum():backward()
  is(x.grad, {2, 2})
end)

test('an infinite gradient outside the region stays there', function()
  local x = leaf{1, 2}
  local y = x * 1
  y[1] = 0
  y:backward{gradient = mt.tensor{math.huge, 1}, create_graph = true}
  is(x.grad, {0, 1})
end)

test('leaves and their views are not changed while recording', function()
  local x = leaf{1, 2}
  local taken = mt.no_grad(function() return x[1] end)
  for _, f in ipairs{function() x:add_(1) end, function() x[1] = 5 end, function() x:fill_(0) end} do
    raises(f, 'this leaf requires a gradient.*mt.no_grad')
  end
  for _, f in ipairs{function() x[1]:add_(1) end, function() x:view(2, 1):mul_(2) end,
                     function() x[{{1}}]:copy_(mt.ones(1)) end, function() x:t()[1] = 3 end} do
    raises(f, 'leaf.* requires a gradient.*mt.no_grad')
  end
  is(x, {1, 2})
  raises(function() taken:copy_(leaf(3)) end, 'made without recording.*both inside mt.no_grad')
  mt.no_grad(function()
    x[1] = 5
    x[{{2}}]:add_(1)
  end)
  is(x, {5, 3})
end)

test('a view made without recording stays outside the graph', function()
  local x = leaf{1, 2}
  local y = x * 2
  local v = mt.no_grad(function() return y[1] end)
  eq(v.requires_grad, false)
  raises(function() v:mul_(leaf(2)) end, 'mul_: this view was made without recording')
  y:mul_(3)
  eq({v.requires_grad, v:item()}, {false, 6})
  y:sum():backward()
  is(x.grad, {6, 6})
end)

test('a view made without recording is not changed while its base has a gradient', function()
  local x = leaf{1, 2, 3, 4}
  local y = x * 1
  local v, rows = mt.no_grad(function() return y[{{1, 2}}], y:view(2, 2) end)
  local inside = rows[1]  -- of what was made without recording
  local writes = {
    function() v:mul_(3) end, function() v:fill_(0) end, function() v:copy_(mt.ones(2)) end,
    function() v[1] = 5 end, function() v:normal_() end, function() inside:add_(1) end,
    function() v:index_fill_(1, mt.tensor{1}, 0) end,
    function() mt.no_grad(function() return x[{{1, 2}}] end):mul_(3) end,
  }
  for _, f in ipairs(writes) do
    raises(f, ': this view was made without recording, and is changed while gradients are')
  end
  is(y, {1, 2, 3, 4})
  y:sum():backward()
  is(x.grad, {1, 1, 1, 1})
  -- Both without recording, or of a tensor without gradients, or of one detached.
  mt.no_grad(function()
    v:mul_(3)
    v[2] = 7
    x[{{1, 2}}]:zero_()
  end)
  is(y, {3, 7, 3, 4})
  is(x, {0, 0, 3, 4})
  local plain = mt.ones(3)
  mt.no_grad(function() return plain[{{1, 2}}] end):mul_(3)
  is(plain, {3, 3, 1})
  mt.no_grad(function() return y:detach()[{{1, 2}}] end):mul_(2)
  is(y, {6, 14, 3, 4})
end)

test('a view that becomes a leaf is one', function()
  local z = mt.zeros(3)
  local v = z[{{1, 2}}]
  v:requires_grad_()
  z:copy_(leaf{1, 2, 3})
  eq({v.is_leaf, v.requires_grad}, {true, true})
  raises(function() v:add_(1) end, 'leaf requires a gradient')
  raises(function() v[1] = 1 end, 'leaf')
end)

test('saved tensors notice a change through base and view', function()
  local function refused(change)
    local x = leaf{1, 2}
    local y = x * 1
    local v = y[{{1}}]
    local loss = (v:exp() * v):sum() + y:square():sum()
    change(x, y, v)
    raises(function() loss:backward() end, 'changed in place')
    eq(x.grad, nil)
  end
  refused(function(_, y) y:mul_(2) end)
  refused(function(_, _, v) v:mul_(2) end)
  refused(function(_, y) y[2] = 1 end)
  refused(function(_, y) mt.no_grad(function() y:add_(1) end) end)
  refused(function(_, y) mt.no_grad(function() y[1] = 2 end) end)
  refused(function(_, y) y:detach():zero_() end)
  local w = leaf{1, 2}
  local loss = w:square():sum()
  w.grad = mt.ones(2)
  mt.optim.SGD({w}, {lr = 1}):step()
  raises(function() loss:backward() end, 'changed in place')
end)

test('views, bases and their histories are freed', function()
  collectgarbage() collectgarbage()
  local core = require 'mtorch.core'
  local before = core.memory()
  for _ = 1, 50 do
    local x = mt.ones(1000):requires_grad_()
    local y = x * 2
    local v, u = y[{{1, 500}}], y:view(10, 100)
    v:mul_(u:view(1000)[{{501, 1000}}]:clone())
    local z = u:sum() + v:sum()
    if x:size(1) == 3 then z:backward() end
  end
  collectgarbage() collectgarbage()
  eq(core.memory(), before)
end)

test('windows that overlap are not written into', function()
  local x = leaf{1, 2, 3}
  local y = x * 1
  raises(function() y:unfold(1, 2, 1):mul_(10) end, 'mul_: elements of this view share memory')
  raises(function() y:unfold(1, 2, 1):zero_() end, 'zero_: elements of this view share memory')
  raises(function() mt.zeros(9):as_strided({2, 2, 2}, {1, 2, 3}):fill_(1) end, 'share memory')
  is(y, {1, 2, 3})
  y:unfold(1, 1, 2):mul_(10) -- windows beside each other
  is(mt.grad(y:sum(), x), {10, 1, 10})
  -- interleaved dimensions without overlap: 0 2 4 and 3 5 7
  is(mt.zeros(8):as_strided({3, 2}, {2, 3}):fill_(1):sum(), 6)
end)

test('a view keeps its elements when the base is gone', function()
  local v
  do
    local base = mt.range(1, 6):float():view(2, 3) * 2
    v = base[2]
  end
  collectgarbage() collectgarbage()
  is(v, {8, 10, 12})
  local x = leaf{1, 2, 3}
  do
    local base = x * 2
    v = base[{{2, 3}}]
    base:mul_(5)
  end
  collectgarbage() collectgarbage()
  v:sum():backward()
  is(x.grad, {0, 10, 10})
end)

test('a recorded operation in place copies nothing unless backward needs the old values', function()
  local function copies(code)
    local text = t.run('MTORCH_LOG=verbs', 'local x = mt.rand(40, 50):requires_grad_() local y = x * 2 ' .. code)
    return select(2, text:gsub('cpu copy', ''))
  end
  if arg[-1] then -- not with a GPU as the default device: on_device.lua runs this file
    eq(copies 'y:relu_() y:add_(x) y:sigmoid_()', 0)
    eq(copies 'y:sin_()', 2) -- of the old values, and of the result
  end
  local x = mt.randn(3, 4):requires_grad_()
  local y = x * 2
  y:add_(x):relu_()
  y:sum():backward()
  eq(mt.equal(x.grad, 3 * x:gt(0):float()), true)
  y = x * 2
  y:relu_()
  y:mul_(3)
  t.raises(function() y:sum():backward() end, 'relu needs a tensor .* changed in place')
end)

t.finish()
