-- test_product.lua -- functions related to the matrix product: values, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, checks = t.test, t.eq, t.near, t.raises, t.checks

local function range(...)
  local n = 1
  for _, size in ipairs{...} do n = n * size end
  return mt.range(1, n):float():view(...)
end
local function double(...) return mt.randn({...}, {dtype = 'float64'}):requires_grad_() end

test('products of two: values', function()
  local x, y = range(2, 3), range(3, 2)
  eq(mt.mm(x, y):tolist(), {{22, 28}, {49, 64}})
  eq(x:mv(mt.tensor{1, 0, 2}):tolist(), {7, 16})
  eq(range(2, 1, 2):bmm(range(2, 2, 1)):tolist(), {{{5}}, {{25}}})
  eq(mt.dot(mt.tensor{1, 2}, mt.tensor{3, 4}):item(), 11)
  eq(mt.vdot(mt.tensor{1, 2}, mt.tensor{3, 4}):item(), 11)
  eq(mt.outer(mt.tensor{1, 2}, mt.tensor{3, 4, 5}):tolist(), {{3, 4, 5}, {6, 8, 10}})
  eq(mt.tensor{1, 2}:ger(mt.tensor{3}):tolist(), {{3}, {6}})
  eq(mt.inner(x, x):tolist(), {{14, 32}, {32, 77}})
  eq(mt.inner(mt.tensor(2), x):tolist(), {{2, 4, 6}, {8, 10, 12}})
  eq(mt.inner(mt.tensor{1, 2}, mt.tensor{3, 4}):item(), 11)
  eq(mt.kron(mt.tensor{{1, 2}, {3, 4}}, mt.tensor{0, 5, 6}):tolist(),
    {{0, 5, 6, 0, 10, 12}, {0, 15, 18, 0, 20, 24}})
  eq(mt.kron(mt.tensor{1, 2}, mt.tensor(3)):tolist(), {3, 6})
  eq(mt.trace(range(2, 3)):item(), 6)
  eq(mt.trace(mt.tensor({{1, 2}, {3, 4}}, {dtype = 'int32'})).dtype, 'int64')
  eq(mt.trace(mt.zeros(0, 3)):item(), 0)
  eq(mt.cross(mt.tensor{1, 0, 0}, mt.tensor{0, 1, 0}):tolist(), {0, 0, 1})
  eq(mt.cross(range(3, 2), range(3, 2) * range(3, 2)):tolist(), {{30, 48}, {-20, -48}, {6, 16}})
  eq(mt.linalg.cross(range(2, 3), mt.tensor{{1, 0, 0}}):tolist(), {{0, 3, -2}, {0, 6, -5}})
end)

test('sums with a product', function()
  local x, a, b = range(2, 2), range(2, 3), range(3, 2)
  eq(mt.addmm(x, a, b):tolist(), {{23, 30}, {52, 68}})
  eq(x:addmm(a, b, {beta = 2, alpha = 0.5}):tolist(), {{13, 18}, {30.5, 40}})
  eq(mt.addmm(mt.tensor{0, 1}, a, b, 0.5):tolist(), {{22, 28.5}, {49, 64.5}})
  eq(mt.addmm(mt.full({2, 2}, 0 / 0), a, b, 0):tolist(), {{22, 28}, {49, 64}})
  eq(mt.addmv(mt.tensor{1, 1}, a, mt.tensor{1, 0, 2}):tolist(), {8, 17})
  eq(mt.baddbmm(mt.tensor(1), range(2, 1, 2), range(2, 2, 1)):tolist(), {{{6}}, {{26}}})
  eq(mt.addbmm(mt.tensor(1), range(2, 1, 2), range(2, 2, 1)):tolist(), {{31}})
  local i = mt.tensor({{1, 2}, {3, 4}}, {dtype = 'int64'})
  eq(i:addmm(i, i, {alpha = 2}):tolist(), {{15, 22}, {33, 48}})
  raises(function() return (i:addmm(i, i, {alpha = 0.5})) end, 'addmm: 0.5 does not fit into int64')
  raises(function() return (mt.addmm(mt.zeros(3), a, b)) end, 'addmm: .*do not broadcast')
  raises(function() return (mt.addmm(mt.zeros(1, 2, 2), a, b)) end, 'does not broadcast to the product')
end)

test('gradients of products', function()
  mt.manual_seed(3)
  checks(mt.mv, double(2, 3), double(3))
  checks(mt.bmm, double(2, 2, 3), double(2, 3, 2))
  checks(mt.outer, double(2), double(3))
  checks(mt.inner, double(2, 3), double(2, 3))
  checks(mt.kron, double(2, 2), double(3))
  checks(mt.trace, double(3, 2))
  checks(function(x) return mt.trace(x:t()) end, double(3, 3))
  checks(function(x, y) return (mt.cross(x, y)) end, double(2, 3), double(2, 3))
  checks(function(x, y) return (mt.linalg.cross(x, y, 1)) end, double(3, 1), double(3, 2))
  checks(function(x, a, b) return mt.addmm(x, a, b, 0.5, 2) end, double(2), double(2, 3), double(3, 2))
  checks(function(x, a, b) return mt.addbmm(x, a, b) end, double(2, 2), double(2, 2, 3), double(2, 3, 2))
  checks(function(x) return mt.matrix_power(x, 3) end, double(2, 2))
  checks(function(x) return mt.matrix_power(x, -2) end, double(2, 2))
end)

test('powers of matrices', function()
  local x = mt.tensor{{1, 1}, {0, 2}}
  eq(mt.matrix_power(x, 0):tolist(), {{1, 0}, {0, 1}})
  eq(mt.matrix_power(x, 1):tolist(), {{1, 1}, {0, 2}})
  eq(mt.matrix_power(x, 5):tolist(), {{1, 31}, {0, 32}})
  eq(x:matrix_power(-1):tolist(), {{1, -0.5}, {0, 0.5}})
  eq(mt.matrix_power(x:long(), 50):tolist(), {{1, 2 ^ 50 - 1}, {0, 2 ^ 50}})
  raises(function() return (mt.matrix_power(mt.zeros(2, 3), 2)) end, 'square matrices are needed, got %(2 x 3%)')
  raises(function() return (mt.matrix_power(mt.zeros(2, 2), -1)) end, 'matrix_power: the matrix is singular')
  raises(function() return (mt.matrix_power(x:long(), -1)) end, 'use x:float')
end)

test('ranks and sizes are checked, and a transposition is named where it would fit', function()
  local x, y = mt.zeros(2, 3), mt.zeros(4, 5)
  raises(function() return (mt.mm(x, mt.zeros(4, 3))) end,
    'mm: inner sizes differ: %(2 x 3%) and %(4 x 3%); did you mean the second transposed, w:t%(%)%?')
  raises(function() return (mt.mm(x, mt.zeros(2, 5))) end, 'did you mean the first transposed, x:t%(%)%?')
  raises(function() return (mt.bmm(mt.zeros(1, 2, 3), mt.zeros(1, 4, 3))) end,
    "did you mean the second's :transpose%(%-2, %-1%)")
  raises(function() return (mt.mm(x, y)) end, 'mm: inner sizes differ: %(2 x 3%) and %(4 x 5%)$')
  raises(function() return (mt.mm(x, mt.zeros(3))) end, 'mm: two matrices are needed')
  raises(function() return (mt.bmm(x, y)) end, 'bmm: two batches of matrices are needed')
  raises(function() return (mt.bmm(mt.zeros(2, 1, 1), mt.zeros(3, 1, 1))) end, '2 and 3 matrices')
  raises(function() return (mt.mv(x, mt.zeros(2))) end, 'mv: inner sizes differ: %(2 x 3%) and %(2%)')
  raises(function() return (mt.mv(x, x)) end, 'a matrix and a vector are needed')
  raises(function() return (mt.dot(x, x)) end, 'dot: two vectors are needed')
  raises(function() return (mt.vdot(mt.zeros(2), mt.zeros(3))) end, 'vdot: inner sizes differ')
  raises(function() return (mt.outer(x, x)) end, 'outer: two vectors')
  raises(function() return (mt.inner(x, y)) end, 'inner: the last sizes differ')
  raises(function() return (mt.trace(mt.zeros(3))) end, 'trace: a matrix is needed')
  raises(function() return (mt.cross(x, y)) end, 'cross: shapes .* do not broadcast')
  raises(function() return (mt.cross(mt.zeros(2), mt.zeros(2))) end, 'no dimension of %(2%) has 3')
  raises(function() return (mt.linalg.cross(mt.zeros(3), mt.zeros(2, 3))) end, 'the same number of dimensions')
  raises(function() return (mt.cross(mt.tensor(1), mt.tensor(1), 1)) end, 'cross: ')
  raises(function() return (mt.kron(mt.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1), x)) end, 'at most 8 dimensions')
  raises(function() return (mt.mm(mt.tensor{{true}}, mt.tensor{{true}})) end, 'mm: bool tensors')
  for _, name in ipairs{'mm', 'mv', 'bmm', 'dot', 'outer', 'inner', 'kron', 'cross', 'cdist', 'tensordot'} do
    for _, z in ipairs{mt.tensor(1), mt.zeros(0), mt.zeros(0, 0), mt.zeros(3, 0, 3), 5, 'a', false} do
      for _, w in ipairs{mt.tensor(1), mt.zeros(0), mt.zeros(0, 0), mt.zeros(3, 0, 3), {}} do
        pcall(mt[name], z, w)  -- a result or an error, never a crash
      end
    end
  end
end)

-- Distances ---------------------------------------------------------------------------------------

local function d64(values) return mt.tensor(values, {dtype = 'float64'}) end
local points = {
  [0] = {{2, 2}, {1, 0}, {2, 2}}, [0.5] = {{4, 5.82842712474619}, {1, 0}, {8, 9.898979485566358}},
  [1] = {{2, 3}, {1, 0}, {4, 5}},
  [1.5] = {{1.5874010519681994, 2.4472608147714756}, {1, 0}, {3.1748021039363987, 4.008188992688178}},
  [2] = {{1.4142135623730951, 2.23606797749979}, {1, 0}, {2.8284271247461903, 3.605551275463989}},
  [3] = {{1.2599210498948732, 2.080083823051904}, {1, 0}, {2.5198420997897464, 3.2710663101885897}},
  [math.huge] = {{1, 2}, {1, 0}, {2, 3}},
}

test('cdist: values of torch.cdist', function()
  local x, y = d64{{0, 0}, {1, 2}, {3, -1}}, d64{{1, 1}, {1, 2}}
  for p, expected in pairs(points) do near(mt.cdist(x, y, p):tolist(), expected, 1e-12) end
  mt.manual_seed(4)
  local a, b = mt.randn({2, 30, 3}, {dtype = 'float64'}), mt.randn({40, 3}, {dtype = 'float64'})
  local direct = mt.linalg.vector_norm(a:unsqueeze(3) - b, 2, 4)
  eq(mt.allclose and mt.allclose(mt.cdist(a, b), direct) or
    (mt.cdist(a, b) - direct):abs():max():item() < 1e-12, true)
  eq(mt.cdist(mt.zeros(0, 3), mt.zeros(2, 3)).shape == mt.zeros(0, 2).shape, true)
  eq(mt.cdist(mt.zeros(2, 0), mt.zeros(1, 0)):tolist(), {{0}, {0}})
  raises(function() return (mt.cdist(mt.zeros(2, 3), mt.zeros(2, 4))) end, 'rows of equal length')
  raises(function() return (mt.cdist(x, y, -1)) end, 'p is %-1')
  raises(function() return (mt.cdist(x, y, 0 / 0)) end, 'p is nan')
  raises(function() return (mt.cdist(x:long(), y:long())) end, 'use x:float')
end)

test('cdist: close rows far from 0 have the same distances and gradients for few rows and for many', function()
  local far = mt.ones(40, 2) * 10000
  far[2][1], far[3][2] = 10000.01, 10003
  local x, few = far:requires_grad_(), far:detach():narrow(1, 1, 3):clone():requires_grad_()
  local all, some = mt.cdist(x, x:detach()), mt.cdist(few, few:detach())
  eq((all[{{1, 3}, {1, 3}}] - some):abs():max():item() < 1e-4, true)
  mt.cdist(x, few:detach()):sum():backward()
  mt.cdist(few, few:detach()):sum():backward()
  eq((x.grad:narrow(1, 1, 3) - few.grad):abs():max():item() < 1e-3, true)
  local y = mt.ones(30, 2)
  y[1][1] = math.huge -- a row of infinity does not affect others
  eq(mt.cdist(y, y)[{{2, 30}, {2, 30}}]:abs():max():item(), 0)
end)

test('cdist of nothing has gradients of gradients', function()
  for _, sizes in ipairs{{{0, 3, 2}, {0, 4, 2}}, {{0, 3}, {4, 3}}, {{2, 0, 3}, {2, 4, 3}}, {{2, 3}, {0, 3}}} do
    for _, p in ipairs{1, 2, 3, math.huge} do
      local x, y = mt.zeros(sizes[1], 'float64'):requires_grad_(), mt.zeros(sizes[2], 'float64'):requires_grad_()
      local g = mt.grad(mt.cdist(x, y, p):sum(), {x, y}, {create_graph = true})
      local h = mt.grad(g[1]:sum() + g[2]:sum(), {x, y}, {allow_unused = true})
      if h[1] then eq(h[1].shape, x.shape) end
    end
  end
  local nothing = mt.zeros(0, 1):expand(0, 3)
  eq(nothing:add_(mt.zeros(0, 3)):numel(), 0) -- no two elements share memory
end)

test('linear with a vector as weight', function()
  local x, w = d64{{1, 2, 3}, {4, 5, 6}}, d64{1, 0, -1}
  eq(mt.linear(x, w):tolist(), {-2, -2})
  eq(mt.linear(x[1], w):tolist(), -2)
  eq(mt.linear(x:view(2, 1, 3), w, d64(10)):tolist(), {{8}, {8}})
  checks(mt.linear, double(2, 3), double(3))
  raises(function() return (mt.linear(x, w, d64{1})) end, 'linear: the bias is %(1%), the weight %(3%); .*0%-d')
  raises(function() return (mt.linear(x, d64{1, 2})) end, 'linear: the input is %(2 x 3%), the weight %(2%)')
end)

test('cdist: gradients, 0 at distance 0', function()
  mt.manual_seed(6)
  for _, p in ipairs{1, 1.5, 2, 3, math.huge} do
    local f = function(x, y) return mt.cdist(x, y, p) end
    checks(f, double(3, 2), double(2, 2))
    checks(f, double(2, 2, 2), double(1, 2))
    local x = d64{{1, 2}, {3, 4}}:requires_grad_()
    mt.cdist(x, x:detach(), p):sum():backward()
    for _, g in ipairs(x.grad:view(-1):tolist()) do eq(g == g and math.abs(g) < 10, true) end
    local z = d64{{1, 2}}:requires_grad_()
    mt.cdist(z, z:detach(), p):sum():backward()
    eq(z.grad:tolist(), {{0, 0}})
  end
  local x, y = double(27, 2), double(2, 2)  -- by a product
  eq(mt.gradcheck(function(a, b) return mt.cdist(a, b):sum(1) end, {x, y}, 1e-6, 1e-4), true)
  local z = mt.randn({30, 2}, {dtype = 'float64'}):requires_grad_()
  mt.cdist(z, z):sum():backward()
  eq(z.grad:isfinite():all(), true)
end)

test('alpha 0 ignores the product and beta 0 ignores x, also where they are NaN', function()
  local function bad(...) return mt.full({...}, 0 / 0) end
  for name, of in pairs{addmm = {{2, 2}, {2, 3}, {3, 2}}, addmv = {{2}, {2, 3}, {3}},
    baddbmm = {{4, 2, 2}, {4, 2, 3}, {4, 3, 2}}, addbmm = {{2, 2}, {4, 2, 3}, {4, 3, 2}}} do
    local x, a, b = mt.ones(of[1]):requires_grad_(), bad(unpack(of[2])), mt.ones(of[3])
    local y = mt[name](x, a, b, 2, 0)
    eq(mt.equal(y, mt.ones(of[1]) * 2), true)
    y:sum():backward()
    eq(mt.equal(x.grad, mt.ones(of[1]) * 2), true)
    eq(mt.equal(mt[name](bad(unpack(of[1])), mt.ones(of[2]), b, 0, 1), mt.ones(of[1]) * (name == 'addbmm' and 12 or 3)),
      true)
  end
end)

t.finish()
