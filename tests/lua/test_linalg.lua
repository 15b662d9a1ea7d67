-- test_linalg.lua -- mt.linalg: values of torch.linalg, residuals, gradients, threads, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, checks = t.test, t.eq, t.near, t.raises, t.checks
local la = mt.linalg
local inf, nan = math.huge, 0 / 0

local function d64(values) return mt.tensor(values, {dtype = 'float64'}) end
local function randn(first, ...)
  if type(first) ~= 'table' then return mt.randn({first, ...}, {dtype = 'float64'}) end
  local shape = {unpack(first)}
  for _, size in ipairs{...} do shape[#shape + 1] = size end
  return mt.randn(shape, {dtype = 'float64'})
end
local function leaf(...) return randn(...):requires_grad_() end
local function mT(x) return x:transpose(-2, -1) end
local function symmetric(x) return x:matmul(mT(x)) + mt.eye(x.shape[#x.shape - 1], {dtype = 'float64'}) * 2 end
local function largest(x) return x:numel() > 0 and x:abs():max():item() or 0 end
local function small(x, tolerance) assert(largest(x) <= (tolerance or 1e-12), 'off by ' .. largest(x)) end

local A = d64{{4, 1, 2}, {1, 3, 0.5}, {2, 0.5, 5}}
local N = d64{{2, -1, 0.5}, {1, 3, -2}, {0.25, 1, 4}}
local T = d64{{1, 2}, {3, 4}, {5, 7}}

test('values of torch.linalg', function()
  near(la.inv(N):tolist(), {{0.42911877394636017, 0.13793103448275862, 0.015325670498084289},
    {-0.1379310344827586, 0.24137931034482757, 0.13793103448275862},
    {0.007662835249042149, -0.06896551724137932, 0.21455938697318008}}, 1e-15)
  near(la.det(N):item(), 32.625, 1e-13)
  local sign, log = la.slogdet(-N)
  eq(sign:item(), -1)
  near(log:item(), 3.4850788656, 1e-9)
  near(la.cholesky(A):tolist(), {{2, 0, 0}, {0.5, 1.6583123951777, 0}, {1, 0, 2}}, 1e-15)
  local q, r = la.qr(T)
  near(q:tolist(), {{-0.16903085094570325, 0.9486832980505138}, {-0.50709255283711, -0.31622776601683833},
    {-0.8451542547285166, 0}}, 1e-14)
  near(r:tolist(), {{-5.916079783099615, -8.282511696339462}, {0, 0.632455532033676}}, 1e-14)
  near(la.svdvals(T):tolist(), {10.191428257097222, 0.3671376859438994}, 1e-14)
  near(la.eigvalsh(A):tolist(), {2.096521617296718, 3.072223952005075, 6.8312544306982055}, 1e-14)
  local x, residuals, rank, values = la.lstsq(T, d64{{1}, {2}, {4}}, {driver = 'gelsd'})
  near(x:tolist(), {{0.07142857142857}, {0.5}}, 1e-13)
  near(residuals:tolist(), {0.07142857142857144}, 1e-14)
  eq({rank:item(), rank.dtype}, {2, 'int64'})
  near(values:tolist(), {10.191428257097222, 0.36713768594389934}, 1e-13)
  eq(la.inv(mt.tensor{{1, 2, 3}, {0, 4, 0 / 0}, {0, 0, 5}}):isnan():all(), true)
  near(la.pinv(T):tolist(), {{-2.0714285714285716, 0.7857142857142867, 0.1428571428571424}, {1.5, -0.5, 0}}, 1e-14)
  near(la.matrix_power(N, -2):tolist()[1], {0.16523538996785136, 0.09142555159202008, 0.028889769674549693}, 1e-14)
end)

test('norms and conditions of torch.linalg', function()
  for order, value in pairs{fro = 6.025985396596975, nuc = 10.020226874916723, [inf] = 6, [-inf] = 3.5,
    [1] = 6.5, [-1] = 3.25, [2] = 4.570385800339367, [-2] = 2.189341520251482} do
    near(la.norm(N, order):item(), value, 1e-13)
    near(la.matrix_norm(N, order):item(), value, 1e-13)
    near(la.matrix_norm(N:unsqueeze(2), order, {1, 3}):tolist(), {value}, 1e-13)
    eq(la.matrix_norm(mt.zeros(2, 3, 4), order, {3, 1}, true):size() == mt.zeros(1, 3, 1):size(), true)
  end
  near(la.norm(N):item(), 6.025985396596975, 1e-14)
  local v = d64{1, -2, 3, 0}
  for order, value in pairs{[0] = 3, [1] = 6, [2] = 3.7416573867739413, [3] = 3.3019272488946263,
    [0.5] = 17.191508225450303, [-1] = 0, [inf] = 3, [-inf] = 0} do
    near(la.norm(v, order):item(), value, 1e-13)
    near(la.vector_norm(v:view(2, 2), order):item(), value, 1e-13)
    near(la.vector_norm(v:view(2, 1, 2), order, {1, 3}, true):view(-1):tolist(), {value}, 1e-13)
  end
  near(la.norm(N, 1, 2):tolist(), {3.5, 6, 5.25}, 1e-14)
  near(la.norm(N, {dim = {1, 2}}):item(), 6.025985396596975, 1e-14)
  for order, value in pairs{fro = 3.5679094331923094, nuc = 9.84246522833747, [inf] = 3.4942528735632186,
    [-inf] = 1.0191570881226055, [1] = 3.735632183908046, [-1] = 1.1954022988505746,
    [2] = 2.087561834489113, [-2] = 0.47902772673784255} do
    near(la.cond(N, order):item(), value, 1e-12)
  end
  near(la.cond(N):item(), 2.087561834489113, 1e-12)
  eq(la.cond(mt.zeros(2, 2), 1):item(), inf)
  eq(la.norm(mt.zeros(0)):item(), 0)
  eq(la.norm(d64{nan, 1}):item() ~= la.norm(d64{nan, 1}):item(), true)
end)

test('solutions solve, in every layout and batch', function()
  mt.manual_seed(1)
  local a, b = randn(2, 3, 4, 4), randn(2, 3, 4, 5)
  small(a:matmul(la.solve(a, b)) - b, 1e-10)
  small(mT(a):matmul(la.solve(mT(a), b)) - b, 1e-10)
  small(la.solve(a, mT(b), false):matmul(a) - mT(b), 1e-10)
  small(a:matmul(la.solve(a, b[{1, 1}])) - b[{1, 1}], 1e-10)
  small(a[{1, 1}]:matmul(la.solve(a[{1, 1}], b)) - b, 1e-10)
  local v = randn(4)
  small(a[{1, 1}]:mv(la.solve(a[{1, 1}], v)) - v, 1e-10)
  small((a * la.solve(a, b[{{}, {}, {}, 1}]):unsqueeze(-2)):sum(-1) - b[{{}, {}, {}, 1}], 1e-10)
  small(a:matmul(la.inv(a)) - mt.eye(4, {dtype = 'float64'}), 1e-10)
  small(la.inv(a:float()):double() - la.inv(a), 1e-2)
  small(la.det(a) - la.det(mT(a)), 1e-12)
  small(a:det() * la.det(la.inv(a)) - 1, 1e-10)
  local sign, log = a:slogdet()
  small(sign * log:exp() - la.det(a), 1e-11)
  local p = symmetric(a)
  small(p:logdet():exp() / la.det(p) - 1, 1e-10)
  local l, u = la.cholesky(p), la.cholesky(p, true)
  small(l:matmul(mT(l)) - p, 1e-11)
  small(mT(u):matmul(u) - p, 1e-11)
  small(p:matmul(b:cholesky_solve(l)) - b, 1e-9)
  small(p:matmul(b:cholesky_solve(u, true)) - b, 1e-9)
  small(l:matmul(la.solve_triangular(l, b, false)) - b, 1e-10)
  small(u:matmul(la.solve_triangular(u, b, true)) - b, 1e-10)
  small(la.solve_triangular(u, mT(b), true, false):matmul(u) - mT(b), 1e-10)
  small(la.solve_triangular(l, mT(b), {upper = false, left = false}):matmul(l) - mT(b), 1e-10)
  local unit = la.solve_triangular(d64{{9, 0}, {2, 9}}, d64{{1}, {5}}, false, true, true)
  eq(unit:tolist(), {{1}, {3}})
end)

test('factors multiply back and are orthogonal', function()
  mt.manual_seed(2)
  for _, shape in ipairs{{3, 3}, {5, 2}, {2, 5}, {2, 3, 4, 3}, {1, 1}, {0, 3}, {3, 0}, {0, 0}, {2, 0, 3}, {0, 2, 2}} do
    local x = randn(shape)
    local m, n = shape[#shape - 1], shape[#shape]
    local k = math.min(m, n)
    for _, mode in ipairs{'reduced', 'complete'} do
      local q, r = la.qr(x, mode)
      local columns = mode == 'reduced' and k or m
      eq({q.shape[#shape], r.shape[#shape - 1]}, {columns, columns})
      small(q:matmul(r) - x)
      small(mT(q):matmul(q) - mt.eye(columns, {dtype = 'float64'}))
      local empty, same = la.qr(x, 'r')
      eq(empty:numel(), 0)
      if mode == 'reduced' then small(same - r) end
    end
    local u, s, vh = la.svd(x)
    eq({u.shape[#shape], s.shape[#shape - 1], vh.shape[#shape - 1]}, {m, k, n})
    small(mT(u):matmul(u) - mt.eye(m, {dtype = 'float64'}))
    small(vh:matmul(mT(vh)) - mt.eye(n, {dtype = 'float64'}))
    u, s, vh = la.svd(x, false)
    small((u * s:unsqueeze(-2)):matmul(vh) - x)
    small(la.svdvals(x) - s)
    local p = la.pinv(x)
    small(x:matmul(p):matmul(x) - x, 1e-10)
    small(p:matmul(x):matmul(p) - p, 1e-10)
    if m == n then
      local a = x + mT(x)
      local w, v = la.eigh(a)
      small((v * w:unsqueeze(-2)):matmul(mT(v)) - a)
      small(la.eigvalsh(a, 'U') - w)
      small(la.pinv(a, {hermitian = true}) - la.pinv(a), 1e-8)
    end
  end
  local l = d64{{2, 99}, {1, 3}}  -- only one triangle is read
  near(la.eigvalsh(l):tolist(), la.eigvalsh(d64{{2, 1}, {1, 3}}):tolist(), 1e-15)
  near(la.cholesky(l):tolist(), la.cholesky(d64{{2, 1}, {1, 3}}):tolist(), 1e-15)
end)

test('small matrices, which LAPACK does not factor: residuals and the element that fails', function()
  for n = 1, 18 do
    local a, e = randn(5, n, n), mt.eye(n, {dtype = 'float64'})
    small(a:matmul(la.inv(a)) - e, 1e-6)
    for _, columns in ipairs{1, 3, 4, 33, 300} do
      local b = randn(5, n, columns)
      small(a:matmul(la.solve(a, b)) - b, 1e-6)
      small(la.solve(mT(a), b) - la.inv(mT(a)):matmul(b), 1e-6)
      local triangle = a:tril() + 3 * e
      small(triangle:matmul(la.solve_triangular(triangle, b, false)) - b, 1e-6)
      small(mT(triangle):matmul(la.solve_triangular(mT(triangle), b, true)) - b, 1e-6)
    end
    local _, l, u = la.lu(a)
    small(la.det(a):abs() / mt.diagonal(u, 0, -2, -1):prod(-1):abs() - 1, 1e-8)
    assert(l:abs():max():item() <= 1)
    local p = symmetric(a)
    local factor = la.cholesky(p)
    small(factor:matmul(mT(factor)) - p, 1e-10)
    small(factor:triu(1))
    local broken = p:clone()
    broken[{3, n, n}] = -1
    raises(function() la.cholesky(broken) end, ('matrix 3 of the batch .* order %d'):format(n))
    broken = a:clone()
    broken[{2, {}, n}] = 0
    raises(function() la.inv(broken) end, ('matrix 2 of the batch is singular %%(pivot %d is 0'):format(n))
    eq(la.det(broken)[2]:item(), 0)
    broken[{4, 1, 1}] = nan
    eq(la.det(broken):isnan():tolist(), {false, false, false, true, false})
  end
end)

test('least squares: shapes, ranks, drivers', function()
  mt.manual_seed(3)
  for _, driver in ipairs{'gelsy', 'gels', 'gelsd', 'gelss'} do
    for _, shape in ipairs{{5, 3}, {3, 5}, {3, 3}, {2, 4, 2}} do
      local a = randn(shape)
      local b = randn(2, shape[#shape - 1], 2)
      local x, residuals, rank, values = la.lstsq(a, b, {driver = driver})
      small(x - la.pinv(a):matmul(b), 1e-9)
      if shape[#shape - 1] > shape[#shape] then
        small(residuals - (a:matmul(x) - b):square():sum(-2), 1e-10)
      else
        eq(residuals:numel(), 0)
      end
      eq(rank:numel() > 0, driver ~= 'gels')
      eq(values:numel() > 0, driver == 'gelsd' or driver == 'gelss')
    end
  end
  eq((select(2, la.lstsq(mt.ones(3, 3, 0), mt.ones(3, 3, 2)))):numel() == 0, true)
  eq((select(2, la.lstsq(mt.ones(3, 3, 0), mt.ones(3, 3, 2)))):dim(), 1)
  local x, residuals, rank = la.lstsq(mt.ones(3, 2), mt.tensor{1, 2, 3})
  near(x:tolist(), {1, 1}, 1e-6)
  eq({residuals:numel(), rank:item()}, {0, 1})
  eq((la.lstsq(mt.zeros(3, 0), mt.ones(3, 2))):size() == mt.zeros(0, 2):size(), true)
  eq((la.lstsq(mt.zeros(0, 3), mt.ones(0, 2))):tolist(), {{0, 0}, {0, 0}, {0, 0}})
  eq(la.matrix_rank(mt.ones(3, 2)):item(), 1)
  eq(la.matrix_rank(mt.eye(3), {atol = 2}):item(), 0)
  eq(la.matrix_rank(mt.zeros(2, 0, 3)):tolist(), {0, 0})
end)

test('Hilbert\'s matrix', function()
  local rows = {}
  for i = 1, 8 do
    rows[i] = {}
    for j = 1, 8 do rows[i][j] = 1 / (i + j - 1) end
  end
  local h = d64(rows)
  local ones = mt.ones({8, 1}, {dtype = 'float64'})
  small(h:matmul(la.solve(h, ones)) - ones, 1e-8)
  near(la.cond(h):item() / 15257575252.823627, 1, 1e-5)
  near(la.det(h):item() / 2.7370501354463205e-33, 1, 1e-4)
  small(la.solve(h, h:matmul(ones)) - 1, 1e-5)
end)

-- Gradients ---------------------------------------------------------------------------------------

test('gradients of solutions', function()
  mt.manual_seed(4)
  checks(la.solve, leaf(3, 3), leaf(3, 2))
  checks(la.solve, leaf(2, 2, 2), leaf(2))
  checks(function(a, b) return la.solve(a, b, false) end, leaf(2, 2), leaf(2, 2, 2))
  checks(function(a, b) return la.solve(mT(a), b) end, leaf(2, 2), leaf(2))
  checks(la.inv, leaf(3, 3))
  checks(la.inv, leaf(2, 1, 1))
  checks(la.det, leaf(3, 3))
  checks(la.det, leaf(2, 2, 2))
  checks(function(a) return (select(2, la.slogdet(a))) end, leaf(2, 3, 3))
  checks(function(a) return la.cholesky(symmetric(a)) end, leaf(3, 3))
  checks(function(a) return la.cholesky(symmetric(a), true) end, leaf(2, 2, 2))
  for _, upper in ipairs{true, false} do
    for _, unit in ipairs{true, false} do
      checks(function(a, b) return la.solve_triangular(a, b, upper, true, unit) end, leaf(3, 3), leaf(3, 2))
      checks(function(a, b) return la.solve_triangular(a, b, upper, false, unit) end, leaf(2, 2), leaf(2, 2))
    end
  end
end)

test('the determinant\'s gradient is right for singular matrices too', function()
  local s = d64{{1, 2}, {2, 4}}:requires_grad_()
  la.det(s):backward()
  near(s.grad:tolist(), {{4, -2}, {-2, 1}}, 1e-12)
  checks(la.det, d64{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}:requires_grad_())
  checks(la.det, d64{{1, 0, 0}, {0, 0, 0}, {0, 0, 0}}:requires_grad_())
  checks(la.det, d64{{0}}:requires_grad_())
  local batch = mt.stack{mt.eye(2, {dtype = 'float64'}) * 3, s:detach(), d64{{0, 2}, {5, 1}}}:requires_grad_()
  la.det(batch):backward(d64{1, 10, 100})
  near(batch.grad:tolist(), {{{3, 0}, {0, 3}}, {{40, -20}, {-20, 10}}, {{100, -500}, {-200, 0}}}, 1e-10)
  local z = mt.zeros({3, 3}, {dtype = 'float64'}):requires_grad_()
  la.det(z):backward()
  eq(z.grad:tolist(), {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}})
  raises(function()
    local y = mt.zeros({2, 2}, {dtype = 'float64'}):requires_grad_()
    local _, log = la.slogdet(y)
    log:backward()
  end, 'slogdet.*singular')
end)

test('gradients of factors', function()
  mt.manual_seed(5)
  for _, shape in ipairs{{3, 3}, {4, 2}, {2, 4}, {2, 3, 2}} do
    checks(function(a) return (la.qr(a)) end, leaf(shape))
    checks(function(a) return (select(2, la.qr(a))) end, leaf(shape))
    checks(function(a) return (select(2, la.qr(a, 'r'))) end, leaf(shape))
    checks(la.svdvals, leaf(shape))
    checks(function(a)  -- independent of the vectors' signs
      local u, s, vh = la.svd(a, false)
      return (u * u * s:unsqueeze(-2)):matmul(vh * vh)
    end, leaf(shape))
    checks(function(a)
      local u, s = la.svd(a)
      return u[{mt.ellipsis, 1}]:square() * s[{mt.ellipsis, {1, 1}}]
    end, leaf(shape))
    checks(la.pinv, leaf(shape))
    checks(function(a) return la.norm(a, 'nuc', {-2, -1}) end, leaf(shape))
  end
  checks(function(a)
    local w, v = la.eigh(a + mT(a))
    return (v * v):matmul((v * w:unsqueeze(-2)):matmul(mT(v)))
  end, leaf(3, 3))
  checks(function(a) return la.eigvalsh(a + mT(a)) end, leaf(2, 2, 2))
  checks(function(a) return la.eigvalsh(a + mT(a), 'U') end, leaf(3, 3))
  for _, shape in ipairs{{4, 2}, {2, 4}, {3, 3}, {2, 3, 2}} do
    checks(function(a, b) return (la.lstsq(a, b)) end, leaf(shape), leaf(shape[#shape - 1], 2))
  end
  checks(function(a, b) return (select(2, la.lstsq(a, b))) end, leaf(4, 2), leaf(4))
end)

test('equal eigenvalues: gradients of the values are finite', function()
  local x = mt.eye(3, {dtype = 'float64'}):requires_grad_()
  la.eigvalsh(x):sum():backward()
  near(x.grad:tolist(), mt.eye(3):tolist(), 1e-14)
  x.grad = nil
  la.svdvals(x):sum():backward()
  near(x.grad:tolist(), mt.eye(3):tolist(), 1e-14)
end)

-- Values by PyTorch: of a square matrix whose halves differ, the gradient is symmetric too.
test('the gradient of eigenvectors is symmetric, and so is its gradient', function()
  local c = d64{1, 2, 3}
  local d = d64{{.3, -1.2, .7}, {1.1, .4, -.6}, {.2, .9, -1.5}}
  local m = d64{{2, .3, -.5}, {.1, -1, .7}, {.4, .2, .5}}
  local function loss(a, upper)
    local w, v = la.eigh(a, upper)
    return (v:square() * d):sum() + (w * c):sum()
  end
  local function gradient(a, upper)
    a = a:clone():requires_grad_()
    return mt.grad(loss(a, upper), a):view(-1):tolist()
  end
  near(gradient(m + mT(m)), {
    2.9941755822864122, 0.10912723262336534, -0.01643374347029796, 0.10912723262336528,
    1.0244197549852245, 0.1686697588917945, -0.01643374347029796, 0.16866975889179453,
    1.981404662728362}, 1e-12)
  near(gradient(m), {
    3.2340324033085177, 0.018653028302568736, -0.2968621630281467, 0.018653028302568736,
    0.9826967409948765, -0.02354943326694949, -0.29686216302814683, -0.02354943326694946,
    1.7832708556966035}, 1e-12)
  near(gradient(m, 'U'), {
    3.2608588188740013, 0.3260091460761618, 0.29281113896814426, 0.3260091460761618,
    1.0166065178032293, 0.16128975765081052, 0.2928111389681445, 0.1612897576508105,
    1.7225346633227705}, 1e-12)
  local a = m:clone():requires_grad_()
  local g = mt.grad(loss(a), a, {create_graph = true})
  ;(g:square() * mt.range(1, 9):double():view(3, 3)):sum():backward()
  near(a.grad:view(-1):tolist(), {
    7.824831057809499, -0.31309219850583575, -8.869859304179304, -0.3130921985058359,
    0.7921732607240453, 0.4391860703458844, -8.869859304179306, 0.4391860703458843,
    -8.617004318533546}, 1e-11)
end)

test('vectors of equal values have no gradient: it is nan', function()
  local d = d64{{.3, -1.2, .7}, {1.1, .4, -.6}, {.2, .9, -1.5}}
  local function all_nan(fn)
    local a = mt.eye(3, {dtype = 'float64'}):requires_grad_()
    ;(fn(a):square() * d):sum():backward()
    eq(a.grad:isnan():all(), true)
  end
  all_nan(function(a) return (select(2, la.eigh(a))) end)
  all_nan(function(a) return (la.svd(a)) end)
  all_nan(function(a) return (select(3, la.svd(a))) end)
  local a = mt.eye(3, {dtype = 'float64'}):requires_grad_()
  ;(select(2, la.svd(a)) * mt.tensor{1, 2, 3}):sum():backward()
  near(a.grad:tolist(), {{1, 0, 0}, {0, 2, 0}, {0, 0, 3}}, 1e-14)
end)

test('norms of matrices without rows or columns', function()
  for _, size in ipairs{{5, 0}, {0, 5}, {0, 0}} do
    for _, order in ipairs{'fro', 'nuc', 1, 2, inf} do
      eq(la.matrix_norm(mt.zeros(size), order):tolist(), 0)
      eq(la.matrix_norm(mt.zeros(2, size[1], size[2]), order):tolist(), {0, 0})
    end
    raises(function() la.matrix_norm(mt.zeros(size), -2) end, 'so it has no norm of order %-2')
  end
  eq(la.matrix_norm(mt.zeros(0, 5), -1):tolist(), 0) -- the sum of empty columns is 0
  eq(la.matrix_norm(mt.zeros(5, 0), -inf):tolist(), 0)
  raises(function() la.matrix_norm(mt.zeros(5, 0), -1) end, 'so it has no norm of order %-1')
  raises(function() la.matrix_norm(mt.zeros(2, 0, 5), -inf) end, 'so it has no norm of order %-inf')
  eq(la.matrix_norm(mt.zeros(0, 3, 3), -1):tolist(), {})
end)

test('gradients of norms', function()
  mt.manual_seed(6)
  for _, order in ipairs{0, 0.5, 1, 1.5, 2, 3, -1, inf, -inf} do
    local f = function(x) return la.vector_norm(x, order, 2) end
    local x = leaf(2, 3)
    if order ~= 0 then checks(f, x) end
    local zero = mt.zeros({1, 3}, {dtype = 'float64'}):requires_grad_()
    if order ~= 0 and order > 0 then
      f(zero):sum():backward()
      for _, g in ipairs(zero.grad:view(-1):tolist()) do eq(g == g and math.abs(g) <= 1, true) end
    end
  end
  for _, order in ipairs{'fro', 'nuc', 1, -1, 2, -2, inf, -inf} do
    checks(function(x) return la.norm(x, order) end, leaf(3, 3))
    checks(function(x) return la.cond(x, order) end, leaf(2, 2))
  end
end)

-- What must hold everywhere -----------------------------------------------------------------------

test('the bits do not depend on the number of threads', function()
  mt.manual_seed(7)
  local a, b = randn(130, 130), randn(6, 40, 40)
  local p = symmetric(a)
  local runs = {
    function() return la.solve(a, a:t()) end, function() return la.inv(b) end,
    function() return la.det(b) end, function() return la.cholesky(p) end,
    function() return (la.qr(a)) end, function() return (la.svd(a)) end,
    function() return select(2, la.eigh(p)) end, function() return (la.lstsq(a, a:t())) end,
    function() return la.pinv(b) end, function() return la.svdvals(b) end,
    function() return la.solve_triangular(p, a, true) end,
    function() return mt.einsum('bij,bjk,bkl->il', b, b, b) end, function() return mt.cdist(a, p) end,
  }
  local before = mt.get_num_threads()
  for i, run in ipairs(runs) do
    local first
    for _, threads in ipairs{1, 2, 3, 8} do
      mt.set_num_threads(threads)
      local y = run()
      eq(mt.get_num_threads(), threads)
      first = first or y
      assert(largest(y - first) == 0, 'run ' .. i .. ' differs at ' .. threads .. ' threads')
    end
  end
  mt.set_num_threads(before)
end)

test('large systems are factored in blocks: residuals, bits, the element that fails', function()
  if t.on_gpu() then return end -- its matrices are copied to the CPU
  mt.manual_seed(8)
  local before = mt.get_num_threads()
  for _, m in ipairs{256, 300, 513} do -- from 256 on; the last block is not whole
    local a, b, wide = randn(m, m), randn(m, 70), randn(m, m + 130)
    local p, triangle = symmetric(a), randn(m, m):tril() + mt.eye(m, {dtype = 'float64'}) * m
    local runs = {
      function() return la.solve(a, b) end, function() return (la.lu_factor(a)) end,
      function() return (la.lu_factor(wide)) end, function() return (la.lu_factor(wide:t())) end,
      function() return la.cholesky(p) end, function() return la.cholesky(p, true) end,
      function() return la.solve_triangular(triangle, b, false) end, function() return la.inv(a) end,
      function() return (la.solve(a:float(), b:float())) end,
    }
    for i, run in ipairs(runs) do
      mt.set_num_threads(1)
      local first = run()
      mt.set_num_threads(3)
      eq({i, run():equal(first)}, {i, true})
    end
    small(a:matmul(la.solve(a, b)) - b, 1e-9)
    small(triangle:matmul(la.solve_triangular(triangle, b, false)) - b)
    local l = la.cholesky(p)
    small(l:matmul(mT(l)) - p, 1e-10)
    eq(l:triu(1):abs():max():item(), 0)
    for _, x in ipairs{wide, mT(wide)} do
      local P, L, U = la.lu(x)
      small(P:matmul(L):matmul(U) - x, 1e-11)
      eq(largest(L) <= 1, true) -- pivots are the largest of their columns
    end
    -- The element that fails is in a later block.
    a[200] = 0
    raises(function() la.inv(a) end, 'inv: the matrix is singular %(pivot 200 is 0%)')
    p[{190, 190}] = -1
    raises(function() la.cholesky(p) end, 'its leading minor of order 190 is not positive')
  end
  mt.set_num_threads(before)
end)

test('NaN and infinity: NaN or an error, never an endless loop', function()
  for _, bad in ipairs{nan, inf, -inf} do
    local x = d64{{1, bad, 2}, {3, 4, 5}, {6, 7, 9}}
    local function all_nan(y) eq(y:isnan():all(), true) end
    all_nan(la.inv(x))
    all_nan(la.det(x))
    all_nan(la.solve(x, mt.ones({3}, {dtype = 'float64'})))
    all_nan((la.qr(x)))
    eq(la.solve(N, d64{bad, 1, 2}):isnan():any() or bad ~= nan, true)
    for _, f in ipairs{la.svd, la.svdvals, la.pinv, la.matrix_rank, la.cond} do
      raises(function() f(x) end, 'the matrix has NaN or infinite elements')
    end
    for _, f in ipairs{la.eigh, la.eigvalsh, la.cholesky} do
      raises(function() f(mT(x)) end, 'the matrix has NaN or infinite elements')
    end
    raises(function() la.lstsq(x, mt.ones({3}, {dtype = 'float64'})) end, 'lstsq: .*NaN or infinite')
    raises(function() la.lstsq(N, d64{1, bad, 2}) end, 'lstsq: .*NaN or infinite')
    local g = x:requires_grad_()
    la.det(g):backward()
    all_nan(g.grad)
  end
end)

test('singular matrices are named', function()
  local s = d64{{1, 2}, {2, 4}}
  local batch = mt.stack{mt.eye(2, {dtype = 'float64'}), s, s}
  raises(function() return (la.solve(s, s)) end, 'solve: the matrix is singular %(pivot 2 is 0%)')
  raises(function() return (la.inv(batch)) end, 'inv: matrix 2 of the batch is singular %(pivot 2 is 0%)')
  raises(function() return (la.inv(batch:view(1, 3, 2, 2))) end, 'inv: matrix %(1, 2%) of the batch')
  raises(function() return (s:inverse()) end, 'inverse: the matrix is singular')
  raises(function() return (la.cholesky(d64{{1, 2}, {2, 1}})) end,
    'cholesky: the matrix is not positive%-definite %(its leading minor of order 2')
  raises(function() return (la.solve_triangular(mt.zeros(1, 1), mt.ones(1, 1), true)) end,
    'solve_triangular: the matrix is singular %(element 1 of its diagonal is 0%)')
  raises(function() la.lstsq(mt.tensor{{1, 0}, {0, 0}, {0, 0}}, mt.ones(3), {driver = 'gels'}) end, 'lacks full rank')
  eq(la.det(s):item(), 0)
  local sign, log = la.slogdet(s)
  eq({sign:item(), log:item()}, {0, -inf})
end)

test('empty matrices', function()
  local e = mt.zeros(0, 0)
  eq({la.det(e):item(), la.inv(e):numel(), la.cholesky(e):numel()}, {1, 0, 0})
  local sign, log = la.slogdet(mt.zeros(2, 0, 0))
  eq({sign:tolist(), log:tolist()}, {{1, 1}, {0, 0}})
  eq(la.solve(e, mt.zeros(0, 3)):size() == mt.zeros(0, 3):size(), true)
  eq(la.solve(mt.eye(3), mt.zeros(3, 0)):size() == mt.zeros(3, 0):size(), true)
  eq(la.inv(mt.zeros(0, 3, 3)):size() == mt.zeros(0, 3, 3):size(), true)
  eq(la.eigvalsh(e):numel(), 0)
end)

test('refusals, and no crash for any argument', function()
  raises(function() return la.sovle end, "mt.linalg has no 'sovle' %(did you mean 'solve'%?%)")
  raises(function() return (la.inv(mt.zeros(2, 3))) end, 'inv: square matrices are needed, got %(2 x 3%)')
  raises(function() return (la.det(mt.zeros(3))) end, 'det: a matrix, or a batch of them, is needed, got %(3%)')
  raises(function() return (la.det(mt.zeros({2, 2}, {dtype = 'int64'}))) end, 'det: int64 matrices are not supported')
  raises(function() return (la.solve(N, mt.zeros(2, 2))) end,
    'solve: the matrix is %(3 x 3%), the right side %(2 x 2%); it needs 3 rows')
  raises(function() return (la.solve(N, mt.zeros(2, 2), false)) end, 'the left side %(2 x 2%); it needs 3 columns')
  raises(function() la.qr(N, 'full') end, "qr: the mode is 'full'")
  raises(function() la.lstsq(N, N, nil, 'fast') end, "the driver is 'fast'")
  raises(function() la.eigh(N, 'X') end, "use 'L' or 'U'")
  raises(function() return (la.norm(N, 'max')) end, "must be a number, 'fro' or 'nuc'")
  raises(function() return (la.norm(N, 3)) end, 'no norm of order 3')
  raises(function() return (la.norm(d64{1, 2}, 'fro')) end, "'fro' is the norm of a matrix")
  raises(function() return (la.norm(mt.zeros(2, 2, 2), 1)) end, 'give dim')
  raises(function() return (la.vector_norm(mt.zeros(0), inf)) end, 'no elements there')
  raises(function() return (la.norm(N, nan)) end, 'nan')
  raises(function() return (la.matrix_norm(N, 'fro', {1, 1})) end, 'named twice')
  raises(function() return (la.norm(mt.zeros({2}, {dtype = 'int64'}))) end, 'use x:float')
  raises(function() return (la.solve_triangular(N, N)) end, "'upper' is missing")
  local q = la.qr(leaf(3, 2), 'complete')
  raises(function() q:sum():backward() end, "use 'reduced'")
  local values = {mt.tensor(1), mt.zeros(0), mt.zeros(3), mt.zeros(0, 0), mt.zeros(2, 3), mt.eye(2),
    mt.full({2, 2}, nan), mt.zeros(3, 0, 2), mt.zeros({2, 2}, {dtype = 'bool'}), 2 ^ 31, -1, nan, 'x', true, {}, {1, 2}}
  for _, f in pairs(la) do
    pcall(f)
    for _, x in ipairs(values) do
      pcall(f, x)
      pcall(f, {x})
      for _, y in ipairs(t.on_gpu() and {} or values) do
        pcall(f, x, y); pcall(f, x, y, y); pcall(f, mt.eye(2), x, y)
      end
    end
  end
  raises(function() la.svd(mt.zeros({1, 1}, {device = 'cpu'}):expand(2 ^ 25, 1)) end, 'too large for LAPACK')
  raises(function() la.qr(mt.zeros({1, 1}, {device = 'cpu'}):expand(1, 2 ^ 31)) end, 'too large for LAPACK')
  raises(function() la.svdvals(mt.zeros({1, 1}, {device = 'cpu'}):expand(2 ^ 15, 2 ^ 15)) end, 'too large for LAPACK')
end)

test('the gradients of svd, eigh and eig do not read the input, which may change', function()
  for _, name in ipairs{'svd', 'eigh', 'eig'} do
    local x = (randn(4, 4) + mt.eye(4, {dtype = 'float64'}) * 9):requires_grad_()
    local a = (x + x:t()) * 1
    local results = {la[name](a)}
    a:zero_()
    results[name == 'svd' and 2 or 1]:sum():backward()
    eq(x.grad:isfinite():all(), true)
  end
end)

test('large matrices are reduced in blocks: residuals, values, bits', function()
  if t.on_gpu() then return end
  mt.manual_seed(9)
  local before = mt.get_num_threads()
  local function is_orthogonal(q) small(mT(q):matmul(q) - mt.eye(q:size(2), {dtype = 'float64'}), 1e-11) end
  local sizes = {{545, 545}, {300, 300}, {700, 300}, {300, 700}, {700, 530}, {530, 1100}, {1100, 530}}
  for _, size in ipairs(sizes) do
    local a, m, n = randn(size[1], size[2]), size[1], size[2]
    local k = math.min(m, n)
    for _, mode in ipairs{'reduced', 'complete'} do
      local q, r = la.qr(a, mode)
      small(q:matmul(r) - a, 1e-11)
      is_orthogonal(q)
      eq(largest(r:tril(-1)), 0)
    end
    for _, full in ipairs{false, true} do
      local u, s, vh = la.svd(a, {full_matrices = full})
      small((u:narrow(2, 1, k) * s):matmul(vh:narrow(1, 1, k)) - a, 1e-10)
      is_orthogonal(u)
      is_orthogonal(mT(vh))
      small(la.svdvals(a) - s, 1e-10)
      eq(s:sort(1, true):equal(s), true)
    end
    local runs = {function() return (la.qr(a)) end, function() return (la.svd(a)) end,
      function() return la.svdvals(a:float()) end}
    if m == n then
      local p = a + mT(a)
      for _, triangle in ipairs{'L', 'U'} do -- the other triangle is not read
        local w, v = la.eigh((triangle == 'L' and p:tril() or p:triu()) + (triangle == 'L' and a:triu(1) or a:tril(-1)),
          triangle)
        small((v * w):matmul(mT(v)) - p, 1e-10)
        is_orthogonal(v)
        small(la.eigvalsh(p) - w, 1e-10)
      end
      near((la.eigvalsh(p * 1e-200):narrow(1, 1, 3) * 1e200):tolist(), la.eigvalsh(p):narrow(1, 1, 3):tolist(), 1e-9)
      runs[4] = function() return select(2, la.eigh(p)) end
    end
    for i, run in ipairs(runs) do
      mt.set_num_threads(1)
      local first = run()
      mt.set_num_threads(3)
      eq({i, run():equal(first)}, {i, true})
    end
  end
  mt.set_num_threads(before)
end)

test('neither the choice of a triangle nor numbers in the unused one change method or bits', function()
  for _, case in ipairs{{3, 1}, {40, 1}, {40, 1e-200}, {520, 1}, {520, 1e-200}} do
    local n, scale = unpack(case)
    local a = randn(n, n) * scale
    local p = a + mT(a)
    local w, lower = la.eigvalsh(p), mt.ones(n, n):tril():bool()
    eq({n, (select(2, la.eigh(p, 'U')):equal(select(2, la.eigh(p))))}, {n, true})
    for _, other in ipairs{1 / 0, 1e200, 0 / 0} do
      local x = mt.where(lower, p, other)
      eq({n, other, la.eigvalsh(x):equal(w), la.eigvalsh(mT(x), 'U'):equal(w)}, {n, other, true, true})
    end
  end
end)

t.finish()
