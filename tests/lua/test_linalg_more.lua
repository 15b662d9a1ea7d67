-- test_linalg_more.lua -- complex eigenvalues, LU factors, matrix_exp, tensor systems: values, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, checks = t.test, t.eq, t.near, t.raises, t.checks
local la = mt.linalg
local inf, nan = math.huge, 0 / 0

local function d64(values) return mt.tensor(values, {dtype = 'float64'}) end
local function randn(...) return mt.randn({...}, {dtype = 'float64'}) end
local function leaf(...) return randn(...):requires_grad_() end
local function mT(x) return x:transpose(-2, -1) end
local function largest(x) return x:numel() > 0 and x:abs():max():item() or 0 end
local function small(x, tolerance) assert(largest(x) <= (tolerance or 1e-12), 'off by ' .. largest(x)) end
local function flat(x) return x:flatten():tolist() end

local N = d64{{2, -1, 0.5}, {1, 3, -2}, {0.25, 1, 4}}
local C = d64{{0, 1, 0.3}, {-1, 0, 0.2}, {0.5, 0.1, 1}}
local T = d64{{1, 2}, {3, 4}, {5, 7}}
local S = d64{{1, 2}, {2, 4}}

test('eig: values and gradient of torch.linalg', function()
  local a = C:clone():requires_grad_()
  local wr, wi, vr, vi = la.eig(a)
  near(flat(wr:detach()), {-0.0578386843093925, -0.0578386843093925, 1.11567736861878}, 1e-13)
  near(flat(wi:detach()), {0.977605906706128, -0.977605906706128, 0}, 1e-13)
  local size = vr:square() + vi:square()
  near(flat(size:detach()), {0.442562524327853, 0.442562524327853, 0.0536345917672215, 0.501614367563531,
    0.501614367563531, 0.00110833565755318, 0.0558231081086158, 0.0558231081086158, 0.945257072575225}, 1e-13)
  ;((size * mt.range(1, 9):double():view(3, 3)):sum() + wr:dot(d64{1, 2, 3}) + wi:dot(d64{0.5, -1, 2})):backward()
  near(flat(a.grad), {1.44576895784474, -0.700930095911651, -0.834107353478171, -1.72068905832724, 1.8378115666006,
    -0.348505160608366, 2.38752172255623, 0.29918851904131, 2.71641947555466}, 1e-12)
end)

test('eig: A V = V diag(w), in every batch', function()
  mt.manual_seed(1)
  for _, a in ipairs{randn(5, 5), randn(2, 3, 4, 4), mT(randn(2, 3, 3)), randn(1, 1), randn(0, 0), randn(0, 2, 2)} do
    local wr, wi, vr, vi = la.eig(a)
    small(a:matmul(vr) - (vr * wr:unsqueeze(-2) - vi * wi:unsqueeze(-2)), 1e-12)
    small(a:matmul(vi) - (vr * wi:unsqueeze(-2) + vi * wr:unsqueeze(-2)), 1e-12)
    small((vr:square() + vi:square()):sum(-2) - 1, 1e-12)
    local r, i = la.eigvals(a)
    small(r - wr, 1e-12)
    small(i - wi, 1e-12)
  end
  local wr = la.eig(C:float())
  eq(wr.dtype, 'float32')
  eq(select('#', la.eigvals(C)), 2)
end)

test('gradients of eigenvalues and vectors', function()
  mt.manual_seed(2)
  local c = d64{1, 2, 3}
  local function sizes(a) -- independent of the phase
    local wr, wi, vr, vi = la.eig(a)
    local function cosine(re, im) return re:select(-2, 1) * im:select(-2, 2) - re:select(-2, 2) * im:select(-2, 1) end
    return (vr:square() + vi:square()):matmul(c) + (wr * wi):sum() + cosine(vr, vi)
  end
  checks(sizes, C:clone():requires_grad_())
  checks(function(a) return (la.eigvals(a)) end, leaf(2, 3, 3))
  checks(function(a) return select(2, la.eigvals(a)):square() end, C:clone():requires_grad_())
  checks(function(a) return select(3, la.eig(a)):square() end, (N + mT(N)):requires_grad_())
  local one = mt.eye(3, {dtype = 'float64'}):requires_grad_()
  la.eigvals(one):sum():backward() -- equal values
  near(one.grad:tolist(), mt.eye(3):tolist(), 1e-14)
  raises(function() local _, _, vr = la.eig(C:clone():requires_grad_()); vr:sum():backward() end,
    'eig: the result depends on the phase of the eigenvectors')
end)

test('lu: P L U of every shape', function()
  mt.manual_seed(3)
  local packed, pivots = la.lu_factor(T)
  eq({pivots:tolist(), pivots.dtype}, {{3, 3}, 'int32'})
  near(packed:tolist(), {{5, 7}, {0.2, 0.6}, {0.6, -1 / 3}}, 1e-13)
  for _, a in ipairs{randn(4, 4), randn(5, 2), randn(2, 5), randn(2, 3, 4, 3), mT(randn(2, 3, 3)), randn(0, 0),
    randn(3, 0), randn(0, 3), randn(0, 2, 2), S} do
    local m, n = a:size(-2), a:size(-1)
    local p, l, u = la.lu(a)
    eq({p:size(-2), p:size(-1), l:size(-2), l:size(-1), u:size(-2), u:size(-1)},
      {m, m, m, math.min(m, n), math.min(m, n), n})
    small(p:matmul(l):matmul(u) - a)
    small(l:triu(1))
    small(u:tril(-1))
  end
  for _, shape in ipairs{{3, 3}, {4, 2}, {2, 4}, {2, 3, 2}} do
    checks(function(a) local _, l, u = la.lu(a); return l:square():sum(-2):sum(-1) + u:sin():sum(-2):sum(-1) end,
      leaf(unpack(shape)))
    checks(function(a) return (la.lu_factor(a)) end, leaf(unpack(shape)))
  end
  raises(function() la.lu_factor(mt.stack{mt.eye(2), S:float()}) end,
    'lu_factor: matrix 2 of the batch is singular %(pivot 2 is 0%)')
  raises(function() la.lu(N, false) end, 'lu: pivot=false is not supported on the CPU')
  raises(function() la.lu(mt.ones(3)) end, 'lu: a matrix, or a batch of them')
  raises(function() la.lu_factor(mt.ones(2, 2):long()) end, 'lu_factor: int64 matrices are not supported')
end)

test('lu_solve', function()
  mt.manual_seed(4)
  local a, b = randn(2, 1, 3, 3), randn(4, 3, 2)
  local packed, pivots = la.lu_factor(a)
  small(a:matmul(la.lu_solve(packed, pivots, b)) - b, 1e-10)
  small(mT(a):matmul(la.lu_solve(packed, pivots, b, {adjoint = true})) - b, 1e-10)
  small(la.lu_solve(packed, pivots, mT(b), false):matmul(a) - mT(b), 1e-10)
  small(la.lu_solve(packed, pivots, mT(b), false, true):matmul(mT(a)) - mT(b), 1e-10)
  for _, left in ipairs{true, false} do
    for _, adjoint in ipairs{true, false} do
      checks(function(x, y)
        local f, p = la.lu_factor(x)
        return la.lu_solve(f, p, y, left, adjoint)
      end, leaf(2, 2), leaf(2, 2))
    end
  end
  local packed1, pivots1 = la.lu_factor(N)
  raises(function() la.lu_solve(packed1, pivots1 - 1, N) end, 'lu_solve: a pivot is 0, outside 1%.%.3')
  raises(function() la.lu_solve(packed1, pivots1 + 9, N) end, 'lu_solve: a pivot is 1%d, outside 1%.%.3')
  raises(function() la.lu_solve(packed1, pivots1:double(), N) end, 'the pivots must be integers, these are float64')
  raises(function() la.lu_solve(packed1, pivots1[{{1, 2}}], N) end, 'pivots %(2%); expected %(3%)')
  raises(function() la.lu_solve(packed1, pivots1, mt.ones({2, 2}, 'float64')) end,
    'the right side %(2 x 2%); it needs 3 rows')
  raises(function() la.lu_solve(T, pivots1, N) end, 'square matrices')
  raises(function() la.lu_solve(packed1, pivots1, mt.ones({3}, 'float64')) end, 'lu_solve: a matrix')
end)

test('matrix_exp', function()
  mt.manual_seed(1)
  local batch5 = mt.randn(5, 5, 5)
  local exact = la.matrix_exp(batch5:double())
  near(((la.matrix_exp(batch5):double() - exact) / exact):abs():amax():item(), 0, 1e-5)
  -- Each norm has another polynomial; the last one is also squared.
  local singles, all = {}, {}
  for i, norm in ipairs{1e-9, 1e-4, 2e-3, 0.03, 0.2, 0.5, 1, 2.5, 20} do
    local a = mt.randn({9, 9}, 'float64')
    all[i] = a * (norm / a:abs():sum(1):max():item())
    local e, single = la.matrix_exp(all[i]), la.matrix_exp(all[i]:float())
    small(e:matmul(la.matrix_exp(-all[i])) - mt.eye(9, {dtype = 'float64'}), 1e-14 * math.exp(norm))
    small((single:double() - e) / e:abs():max(), 1e-6 * math.max(1, norm))
    singles[i] = single
  end
  eq(la.matrix_exp(mt.stack(all):float()):equal(mt.stack(singles)), true) -- in a batch as alone
  near(flat(la.matrix_exp(N)), {6.78493947478667, -1.518987602, 24.322713493802, 1.518987602, -5.61979365077813,
    -41.5959710649487, 12.161356746901, 20.7979855324744, 26.9598017280973}, 1e-12)
  local a = N:clone():requires_grad_()
  ;(a:matrix_exp() * mt.range(1, 9):double():view(3, 3)):sum():backward()
  near(flat(a.grad), {72.2751765880987, -32.5190916224648, 186.685966107917, 118.749008956362, -57.9334238670714,
    291.974330293582, 113.553392315848, -90.8729582157791, 284.926104836558}, 1e-10)
  local batch = la.matrix_exp(mt.stack{N * 1e-9, N, N * 0, N * -5})
  small(batch[2] - la.matrix_exp(N), 1e-12)
  small(batch[1] - mt.eye(3, {dtype = 'float64'}) - N * 1e-9, 1e-15)
  eq(batch[3]:equal(mt.eye(3, {dtype = 'float64'})), true)
  small(batch[4]:matmul(la.matrix_exp(N * 5)) - mt.eye(3, {dtype = 'float64'}), 1e-6)
  near((la.matrix_exp(d64{{0, 1e6}, {0, 0}}) / d64{{1, 1e6}, {1, 1}}):tolist(), {{1, 1}, {0, 1}}, 1e-9)
  near(la.matrix_exp(d64{{-700}}):item() * 1e304, math.exp(-700) * 1e304, 1e-10)
  eq(la.matrix_exp(d64{{nan}}):isnan():item(), true)
  eq(la.matrix_exp(d64{{800}}):item(), inf)
  eq({la.matrix_exp(mt.zeros(0, 0)):numel(), la.matrix_exp(N:float()).dtype}, {0, 'float32'})
  eq(la.matrix_exp(mt.zeros(0, 3, 3)).shape, mt.zeros(0, 3, 3).shape)
  checks(la.matrix_exp, leaf(2, 2))
  checks(la.matrix_exp, leaf(2, 3, 3))
  raises(function() return (la.matrix_exp(T)) end, 'matrix_exp: square matrices are needed')
end)

test('tensor systems, powers and products', function()
  mt.manual_seed(5)
  local a, b = randn(2, 3, 6), randn(2, 3)
  small(mt.tensordot(a, la.tensorsolve(a, b), 1) - b, 1e-10)
  local wide = randn(3, 2, 3, 2)
  small(mt.tensordot(wide, la.tensorsolve(wide, randn(3, 2) * 0 + b:t()), 2) - b:t(), 1e-10)
  small(la.tensorsolve(a:permute(3, 1, 2), b, {1}) - la.tensorsolve(a, b), 1e-12)
  eq(la.tensorinv(a).shape, mt.zeros(6, 2, 3).shape)
  small(mt.tensordot(la.tensorinv(a), b, 2) - la.tensorsolve(a, b), 1e-10)
  eq(la.tensorinv(randn(6, 2, 3), 1).shape, mt.zeros(2, 3, 6).shape)
  eq(la.vander(d64{2, 3, 5}, 4):tolist(), {{1, 2, 4, 8}, {1, 3, 9, 27}, {1, 5, 25, 125}})
  eq(la.vander(mt.tensor({1, 2}, 'int32')):tolist(), {{1, 1}, {1, 2}})
  eq({la.vander(mt.tensor({1, 2}, 'int32')).dtype, la.vander(randn(2, 3), 1):numel()}, {'int64', 6})
  eq(la.vecdot(d64{{1, 2}, {3, 4}}, d64{1, 10}):tolist(), {21, 43})
  eq(la.vecdot(d64{{1, 2}, {3, 4}}, d64{{1, 2}, {3, 4}}, 1):tolist(), {10, 20})
  checks(la.tensorsolve, leaf(2, 2, 4), leaf(2, 2))
  checks(la.tensorinv, leaf(2, 2, 4))
  checks(function(x) return la.vander(x, 4) end, leaf(2, 2))
  checks(la.vecdot, leaf(2, 3), leaf(3))
  raises(function() la.tensorsolve(randn(2, 3, 5), b) end, '6 x 5 for 6 numbers')
  raises(function() la.tensorsolve(randn(6), randn(2, 3)) end, 'fewer dimensions')
  raises(function() la.tensorinv(a, 0) end, 'ind is 0, it must lie in 1%.%.3')
  raises(function() la.tensorinv(a, 1) end, 'the first 1 sizes make 2, the others 18')
  raises(function() la.vander(mt.tensor(1)) end, 'vander: a vector is needed')
  raises(function() la.vander(randn(3), 0) end, 'N is 0')
  raises(function() la.vander(randn(3), 2 ^ 52) end, 'more elements')
  raises(function() la.vecdot(mt.tensor(1), mt.tensor(2)) end, 'vecdot: a vector is needed')
  raises(function() la.vecdot(randn(2), randn(3)) end, 'vecdot: .*broadcast')
end)

test('cholesky_inverse, solve_ex, inv_ex', function()
  local p = N:matmul(mT(N))
  local l = la.cholesky(p)
  near(flat(la.cholesky_inverse(l)), flat(la.inv(p)), 1e-12)
  near(flat(mT(l):cholesky_inverse(true)), flat(la.inv(p)), 1e-12)
  eq(la.cholesky_inverse(mt.zeros(2, 0, 0)).shape, mt.zeros(2, 0, 0).shape)
  checks(la.cholesky_inverse, (l + mt.eye(3, {dtype = 'float64'})):detach():requires_grad_())
  raises(function() return (la.cholesky_inverse(T)) end, 'cholesky_inverse: square')

  local batch = mt.stack{mt.eye(2, {dtype = 'float64'}), S, mT(S) + mt.eye(2, {dtype = 'float64'})}
  local inverse, info = la.inv_ex(batch)
  eq({info:tolist(), info.dtype}, {{0, 2, 0}, 'int32'})
  eq(inverse[2]:isnan():all(), true)
  small(inverse[3] - la.inv(batch[3]))
  local x, told = la.solve_ex(batch, d64{{1}, {2}})
  eq(told:tolist(), {0, 2, 0})
  eq({x[2]:isnan():all(), x[1]:tolist()}, {true, {{1}, {2}}})
  small(x[3] - la.solve(batch[3], d64{{1}, {2}}))
  local y, fine = la.solve_ex(N, d64{1, 2, 3}, true, true)
  small(y - la.solve(N, d64{1, 2, 3}))
  eq({fine:item(), fine:dim()}, {0, 0})
  small((la.solve_ex(N, mT(T), false)) - la.solve(N, mT(T), false))
  checks(function(u, v) return (la.solve_ex(u, v)) end, leaf(3, 3), leaf(3, 2))
  checks(function(u) return (la.inv_ex(u)) end, leaf(2, 2, 2))
  raises(function() la.solve_ex(batch, d64{{1}, {2}}, {check_errors = true}) end,
    'solve_ex: matrix 2 of the batch is singular')
  raises(function() la.inv_ex(S, true) end, 'inv_ex: the matrix is singular')
  raises(function() la.inv_ex(T) end, 'inv_ex: square')
  raises(function()
    la.solve_ex(batch:clone():requires_grad_(), d64{{1}, {2}}):sum():backward()
  end, 'solve.*: matrix 2 of the batch is singular')
end)

test('NaN and infinity: NaN or a sentence', function()
  for _, bad in ipairs{nan, inf} do
    local x = d64{{1, bad, 2}, {3, 4, 5}, {6, 7, 9}}
    raises(function() la.eig(x) end, 'eig: the matrix has NaN or infinite elements')
    raises(function() la.eigvals(x) end, 'eigvals: the matrix has NaN or infinite elements')
    eq((la.lu_factor(x)):isnan():all(), true)
    eq((la.inv_ex(x)):isnan():all(), true)
  end
end)

test('the bits do not depend on the number of threads', function()
  mt.manual_seed(7)
  local a, b = randn(90, 90), randn(6, 30, 30)
  local runs = {
    function() return select(3, la.eig(a)) end, function() return (la.eigvals(b)) end,
    function() return (la.lu_factor(a)) end, function() return la.matrix_exp(b) end,
    function() return (la.inv_ex(b)) end,
  }
  for _, run in ipairs(runs) do t.on_threads(run) end
end)

test('svd_lowrank and pca_lowrank', function()
  mt.manual_seed(8)
  local a = randn(40, 5):matmul(randn(5, 30))
  for _, x in ipairs{a, a:t(), mt.stack{a, 2 * a}, mt.zeros({0, 4, 3}, 'float64')} do
    local u, s, v = la.svd_lowrank(x, 5)
    small(u:matmul(s:unsqueeze(-1) * mT(v)) - x, 1e-12)
    small(mT(v):matmul(v) - mt.eye(s:size(-1), {dtype = 'float64'}), 1e-12)
    if x:numel() > 0 then small(s - la.svdvals(x):narrow(-1, 1, 5), 1e-12) end
  end
  local x = randn(50, 4) + 7
  local centred = x - x:mean(1, true)
  local u, s, v = la.pca_lowrank(x)
  small(s - la.svdvals(centred), 1e-12)
  small(u:matmul(s:unsqueeze(-1) * mT(v)) - centred, 1e-12)
  eq(select(2, la.pca_lowrank(x, 2, {center = false})).shape, {2})
  small(select(2, la.svd_lowrank(x, 4, {M = x:mean(1, true)})) - s, 1e-12)
  local function drawn(seed) return (la.svd_lowrank(randn(20, 20) * 0 + a:narrow(1, 1, 20):narrow(2, 1, 20), 2,
    {niter = 0, generator = mt.Generator(seed)})) end
  small(drawn(1) - drawn(1), 0)
  assert(largest(drawn(1) - drawn(2)) > 0)
  checks(function(y) return (select(2, la.svd_lowrank(y, 3, {generator = mt.Generator(1)}))) end, leaf(6, 3))
  raises(function() la.pca_lowrank(x, 5) end, 'pca_lowrank: q is 5, %(50 x 4%) has at most 4 components')
  raises(function() la.svd_lowrank(x, 0) end, 'svd_lowrank: q is 0, it must be at least 1')
  raises(function() la.svd_lowrank(x, 2, -1) end, 'svd_lowrank: niter is %-1, it must be from 0 to 1000')
  eq(select(2, la.svd_lowrank(x, 2 ^ 40)).shape, {4})
  raises(function() la.svd_lowrank(randn(3)) end, 'svd_lowrank: a matrix, or a batch of them, is needed, got %(3%)')
end)

test('lu of a matrix whose triangle has a large inverse', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    local n = 300
    local lower = mt.tril(mt.full({n, n}, -0.7), -1):to(dtype) + mt.eye(n):to(dtype)
    local upper = mt.triu(mt.randn(n, n):to(dtype), 1) * 0.3 + mt.eye(n):to(dtype)
    local a = lower:mm(upper)
    local p, l, u = mt.linalg.lu(a)
    local bound = dtype == 'float32' and 1e-6 or 2e-15
    local rest = ((a - p:mm(l):mm(u)):norm() / a:norm()):item()
    assert(rest < bound, rest)
  end
end)

test('large eigenproblems with equal, close and graded eigenvalues', function()
  local n = 520
  local function matrices(dtype)
    local q = mt.linalg.qr(mt.randn(n, n):to(dtype))
    local function with_eigenvalues(w) return (q * w):mm(q:t()) end
    local index = mt.range(1, n):to(dtype)
    local half = mt.randn(n / 2, n / 2):to(dtype)
    return {
      normal = with_eigenvalues(mt.randn(n):to(dtype)), identity = mt.eye(n):to(dtype), one = mt.ones(n, n):to(dtype),
      graded = with_eigenvalues((index * -0.05):exp()), few = with_eigenvalues(index:remainder(3)),
      second_differences = mt.diag(mt.ones(n - 1), 1):to(dtype) + mt.diag(mt.ones(n - 1), -1):to(dtype),
      two_equal_blocks = mt.kron(mt.eye(2):to(dtype), half + half:t()),
      large = with_eigenvalues(index) * (dtype == 'float32' and 1e9 or 1e140),
      small = with_eigenvalues(index) * (dtype == 'float32' and 1e-11 or 1e-140)}
  end
  for _, dtype in ipairs {'float32', 'float64'} do
    local epsilon = dtype == 'float32' and 2 ^ -23 or 2 ^ -52
    for name, a in pairs(matrices(dtype)) do
      local w, v = mt.linalg.eigh(a)
      local scale = w:abs():max():item()
      local function small_beside(x, size, what)
        local error = x:abs():max():item() / (size * epsilon)
        assert(error < 60, ('%s of %s %s: %g'):format(what, dtype, name, error))
      end
      small_beside((a:mm(v) - v * w) / scale, 1, 'residual')
      small_beside(v:t():mm(v) - mt.eye(n):to(dtype), 1, 'angle')
      small_beside((w - mt.linalg.eigvalsh(a)) / scale, 4, 'eigenvalues')
      assert((w:narrow(1, 2, n - 1) - w:narrow(1, 1, n - 1)):min():item() >= 0, name .. ': not in order')
    end
  end
end)

t.finish()
