-- test_cuda_product.lua -- matrix products and linear algebra on a GPU, compared with the CPU
local mt = require 'mtorch'
local T = require 'testing'
T.needs_cuda()
mt.manual_seed(7)

local exact = {int32 = true, int64 = true, uint8 = true}
local function made(dtype, ...)
  local x = mt.randn(...)
  return exact[dtype] and (x * 50):abs():to(dtype) or x:to(dtype)
end

--- Whether `got` from the GPU equals `wanted`, bit for bit or within `tol` of the largest value.
local function same(got, wanted, tol)
  T.eq(got.device, 'cuda:0')
  T.eq(got.dtype, wanted.dtype)
  T.eq(tostring(got.shape), tostring(wanted.shape))
  got = got:cpu()
  if not tol then return assert(mt.equal(got, wanted), 'other numbers') end
  if wanted:numel() == 0 then return end
  local off = (got - wanted):abs():max():item()
  if not (off <= tol * math.max(1, wanted:abs():max():item())) then
    error('off by ' .. off, 2)
  end
end
local tolerance = {float32 = 2e-5, float64 = 1e-12}

local sizes = {
  {1, 1, 1}, {16, 48, 5}, {33, 45, 40}, {1, 500, 1}, {1, 1, 5000}, {500, 1, 33}, {1, 500, 33},
  {65, 64, 63}, {64, 64, 64}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {130, 70, 300}, {7, 9, 1025},
}

T.test('few elements that are long sums: one kernel, the same bits each time', function()
  for _, s in ipairs {{5, 784, 10}, {1, 128, 1}, {3, 4096, 17}, {40, 200, 100}} do
    for _, dtype in ipairs {'float32', 'int32'} do
      local a, b = made(dtype, s[1], s[2]), made(dtype, s[2], s[3])
      local x, y = a:to('cuda'), b:to('cuda')
      if s[3] > 32 then y = y:t():contiguous():t() end
      local before = mt.cuda.memory_stats().launches
      local z = x:matmul(y)
      T.eq(mt.cuda.memory_stats().launches - before, 1)
      same(z, a:matmul(b), tolerance[dtype])
      T.eq(mt.equal(x:matmul(y):cpu(), z:cpu()), true)
    end
  end
end)

for _, dtype in ipairs{'float32', 'float64', 'int32', 'int64', 'uint8', 'int8', 'int16'} do
  local tol = tolerance[dtype]
  T.test('matmul of ' .. dtype .. ', plain and transposed', function()
    for _, s in ipairs(sizes) do
      local m, n, k = s[1], s[2], s[3]
      local a, b = made(dtype, m, k), made(dtype, k, n)
      local A, B = a:to('cuda'), b:to('cuda')
      local At, Bt = A:t():contiguous():t(), B:t():contiguous():t()
      local wanted = a:matmul(b)
      same(A:matmul(B), wanted, tol)
      same(At:matmul(B), wanted, tol)
      same(A:matmul(Bt), wanted, tol)
      same(At:matmul(Bt), wanted, tol)
      if m > 0 and k > 0 then
        local wide = made(dtype, 2 * m, 3 * k)
        local function every(x) return x:slice(1, 1, nil, 2):slice(2, 1, nil, 3) end
        same(every(wide:to('cuda')):matmul(B), every(wide):matmul(b), tol)
      end
    end
  end)

  T.test('matmul of ' .. dtype .. ', batches', function()
    local a, b, shared = made(dtype, 3, 1, 20, 70), made(dtype, 4, 70, 33), made(dtype, 70, 33)
    same(a:to('cuda'):matmul(b:to('cuda')), a:matmul(b), tol)
    same(a:to('cuda'):expand(3, 4, 20, 70):matmul(b:to('cuda')), a:matmul(b), tol)
    same(a:to('cuda'):matmul(shared:to('cuda')), a:matmul(shared), tol)
    same(mt.matmul(shared:t():to('cuda'), a:transpose(3, 4):to('cuda')),
         mt.matmul(shared:t(), a:transpose(3, 4)), tol)
    local v = made(dtype, 70)
    same(a:to('cuda'):matmul(v:to('cuda')), a:matmul(v), tol)
    same(mt.dot(v:to('cuda'), v:to('cuda')), mt.dot(v, v), tol)
    local p, q = made(dtype, 5, 6, 7, 40), made(dtype, 5, 7, 6, 40)
    same(p:to('cuda'):transpose(2, 3):matmul(q:to('cuda'):transpose(3, 4)),
         p:transpose(2, 3):matmul(q:transpose(3, 4)), tol)
    same(made(dtype, 0, 3, 4):to('cuda'):matmul(made(dtype, 4, 5):to('cuda')),
         mt.zeros({0, 3, 5}, {dtype = dtype}))
  end)
end

T.test('the same bits on every run', function()
  local a, b = mt.randn(70, 5000):to('cuda'), mt.randn(5000, 30):to('cuda')
  local first = a:matmul(b)
  for _ = 1, 3 do assert(mt.equal(a:matmul(b), first)) end
end)

T.test('infinities and NaN stay in their rows', function()
  local a, b = mt.ones(70, 70), mt.ones(70, 70)
  a[3][5], a[66][69] = 1 / 0, 0 / 0
  local y = a:to('cuda'):matmul(b:to('cuda')):cpu()
  T.eq(y[3][1]:item(), 1 / 0)
  T.eq(y[66][70]:item(), 0 / 0)
  T.eq(y[4]:sum():item(), 4900)
end)

--- Returns the values of f and the gradients of its tensors on a device.
local function with_gradients(device, f, given)
  local x = {}
  for i, t in ipairs(given) do x[i] = t:to(device):detach():clone():requires_grad_() end
  local y = f(unpack(x))
  y:square():sum():backward()
  local out = {y:detach()}
  for i, t in ipairs(x) do out[i + 1] = t.grad end
  return out
end
local function compare(f, tol, ...)
  local wanted = with_gradients('cpu', f, {...})
  local got = with_gradients('cuda', f, {...})
  for i = 1, #wanted do same(got[i], wanted[i], tol) end
end

T.test('linear and its gradients', function()
  compare(mt.linear, 2e-5, mt.randn(65, 300), mt.randn(70, 300), mt.randn(70))
  compare(mt.linear, 1e-12, mt.randn(5, 3):double(), mt.randn(4, 3):double(), mt.randn(4):double())
  compare(mt.matmul, 2e-5, mt.randn(3, 1, 17, 40), mt.randn(2, 40, 18))
end)

T.test('relatives of the product', function()
  local d = function(...) return mt.randn(...):double() end
  compare(function(x, a, b) return mt.addmm(x, a, b, {beta = 0.5, alpha = 2}) end, 1e-12, d(6, 5),
          d(6, 9), d(9, 5))
  compare(mt.kron, 1e-12, d(3, 4), d(2, 5))
  compare(mt.cross, 1e-12, d(5, 3), d(5, 3))
  compare(mt.cdist, 1e-8, d(40, 6), d(30, 6))
  compare(function(x) return mt.linalg.matrix_power(x, 5) end, 1e-12, d(4, 4))
  compare(function(x, y) return mt.einsum('bij,bkj->ik', x, y) end, 1e-12, d(3, 4, 5), d(3, 6, 5))
end)

T.test('linear algebra goes by way of the CPU', function()
  local L = mt.linalg
  local d = function(...) return mt.randn(...):double() end
  local a = d(2, 5, 5)
  local positive = a:matmul(a.mT) + mt.eye(5):double() * 5
  compare(L.solve, 1e-10, positive, d(2, 5, 3))
  compare(L.inv, 1e-10, positive)
  compare(L.det, 1e-10, positive)
  compare(L.cholesky, 1e-10, positive)
  compare(function(x) return (select(2, L.slogdet(x))) end, 1e-10, positive)
  compare(function(x) local q, r = L.qr(x) return q + r end, 1e-10, positive)
  compare(L.svdvals, 1e-10, a)
  compare(L.eigvalsh, 1e-10, positive)
  compare(L.pinv, 1e-10, d(6, 4))
  compare(function(x, y) return (L.lstsq(x, y)) end, 1e-10, d(6, 4), d(6, 2))
  compare(function(x, b) return L.solve_triangular(x, b, {upper = true}) end, 1e-10,
          positive:triu(), d(2, 5, 3))
  compare(L.cond, 1e-8, positive)
  T.eq(L.matrix_rank(mt.ones(4, 4):to('cuda')):item(), 1)
  local u, s, vh = L.svd(a:to('cuda'))
  same(u:matmul(mt.diag_embed(s)):matmul(vh), a,
       1e-10)
end)

T.test('devices are not mixed', function()
  T.raises(function() mt.matmul(mt.ones(2, 2), mt.ones(2, 2):to('cuda')) end, 'cuda:0')
  T.raises(function() mt.linalg.solve(mt.eye(2):to('cuda'), mt.ones(2)) end, 'cuda:0')
  T.raises(function() mt.linalg.solve(mt.eye(2), mt.ones(2):to('cuda')) end, 'cuda:0')
end)

T.finish()
