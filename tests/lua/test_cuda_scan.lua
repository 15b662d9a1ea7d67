-- test_cuda_scan.lua -- scans on the GPU compared with the CPU
local mt = require 'mtorch'
local t = require 'testing'
local test = t.test
t.needs_cuda()

local function same(a, b, what, tol)
  if a.dtype ~= b.dtype then error(what .. ': ' .. a.dtype .. ' for ' .. b.dtype, 2) end
  a = a:cpu()
  local equal
  if tol then equal = mt.allclose(a, b, {rtol = tol, atol = tol, equal_nan = true})
  else equal = mt.allclose(a:to('float64'), b:to('float64'), {rtol = 0, atol = 0, equal_nan = true}) end
  if not equal then error(what .. ' differs', 2) end
end
local function random(shape, dtype)
  if dtype:find('float') then return mt.randn(shape, {dtype = dtype}) end
  if dtype == 'bool' then return mt.randint(0, 1, shape):to('bool') end
  return mt.randint(0, 9, shape):to(dtype)
end

local shapes = {{16}, {48}, {500}, {1025}, {5000}, {33, 3}, {15, 33, 40}, {3, 700, 2}, {2, 4097},
                {4097, 2}, {5, 1}, {9000, 2}, {0}, {0, 3}, {3, 0}}

test('cumsum, cumprod, logcumsumexp, cummax, cummin along every dimension', function()
  mt.manual_seed(1)
  for d, dtype in ipairs {'float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'int16', 'bool'} do
    for k, shape in ipairs(shapes) do
      if d > 1 and (d + k) % 2 == 0 then shape = {4, 33, 5} end -- all shapes in float32, half of them in the others
      local x = random(shape, dtype)
      local y = x:to('cuda')
      local float = dtype:find('float')
      for dim = 1, #shape do
        local what = ('%s %s along %d'):format(dtype, table.concat(shape, ' x '), dim)
        local tol = float and (dtype == 'float64' and 1e-11 or 1e-5)
        if float or dtype == 'int32' then
          same(mt.cumsum(y, dim), mt.cumsum(x, dim), 'cumsum ' .. what, tol)
          same(mt.cumprod(y, dim), mt.cumprod(x, dim), 'cumprod ' .. what, tol)
        end
        if float then
          same(mt.logcumsumexp(y, dim), mt.logcumsumexp(x, dim), 'logcumsumexp ' .. what, tol)
        end
        if dtype ~= 'float64' then
          local a, at = mt.cummax(y, dim)
          local b, place = mt.cummax(x, dim)
          same(a, b, 'cummax ' .. what)
          same(at, place, 'positions of cummax ' .. what)
          a, at = mt.cummin(y, dim)
          b, place = mt.cummin(x, dim)
          same(a, b, 'cummin ' .. what)
          same(at, place, 'positions of cummin ' .. what)
        end
      end
    end
  end
end)

test('long lines, cut into parts', function()
  mt.manual_seed(2)
  local x = mt.randint(-1000, 1000, {2 ^ 20 + 1})
  same(mt.cumsum(x:to('cuda'), 1), mt.cumsum(x, 1), 'cumsum of 2^20 + 1')
  local y = mt.randn(2 ^ 18 + 5)
  same(mt.cumsum(y:to('cuda'), 1), mt.cumsum(y, 1), 'cumsum of floats', 1e-5)
  local a, at = mt.cummin(y:to('cuda'), 1)
  local b, place = mt.cummin(y, 1)
  same(a, b, 'cummin')
  same(at, place, 'positions of cummin')
  local z = mt.randint(0, 4, {2, 9001}):to('float32')  -- ties; odd lines begin at odd addresses
  z[{{}, {7000}}] = 0 / 0
  for _, ties in ipairs {z, z:to('float64'), mt.randint(0, 4, {2, 9001}):to('uint8')} do
    a, at = mt.cummax(ties:to('cuda'), 2)
    b, place = mt.cummax(ties, 2)
    same(a, b, 'cummax with ties')
    same(at, place, 'positions of cummax with ties')
  end
  local w = mt.rand(2, 9001)  -- another order of additions would change the bits
  same(mt.discounted_cumsum(w:to('cuda'), 2, 0.9), mt.discounted_cumsum(w, 2, 0.9), 'discounted', 1e-6)
  local v = w:to('cuda')
  same(mt.cumsum(v[{{}, {2, 9001}}], 2), mt.cumsum(w[{{}, {2, 9001}}], 2), 'cumsum from an odd address', 1e-6)
  same(mt.cumsum(v[{{}, {1, 9001, 2}}], 2), mt.cumsum(w[{{}, {1, 9001, 2}}], 2), 'cumsum of every other', 1e-6)
end)

test('NaN, infinities, ties and views', function()
  local inf, nan = math.huge, 0 / 0
  local rows = {{1, nan, 2, nan, 3, 0, 7, 7}, {-inf, -inf, 0, inf, inf, 1, -inf, 0}, {2, 2, 1, 1, 3, 3, 3, -1}}
  for _, row in ipairs(rows) do
    for _, n in ipairs {1, 90, 1000} do
      local x = mt.tensor(row):expand(n, 8):reshape(-1)
      local y = x:to('cuda')
      for _, f in ipairs {'cummax', 'cummin'} do
        local a, at = mt[f](y, 1)
        local b, place = mt[f](x, 1)
        same(a, b, f)
        same(at, place, f)
      end
      same(mt.logcumsumexp(y, 1), mt.logcumsumexp(x, 1), 'logcumsumexp', 1e-5)
      same(mt.cumsum(y, 1), mt.cumsum(x, 1), 'cumsum', 1e-5)
    end
  end
  local x = mt.randn(9, 40, 6)
  local y = x:to('cuda')
  for dim = 1, 3 do
    same(y:transpose(1, 3):cumsum(dim), x:transpose(1, 3):cumsum(dim), 'transposed', 1e-5)
    same(y[{{}, {1, 40, 3}}]:cumsum(dim), x[{{}, {1, 40, 3}}]:cumsum(dim), 'strided', 1e-5)
  end
  same(mt.cumsum(mt.tensor(3, {device = 'cuda'}), 1), mt.cumsum(mt.tensor(3), 1), '0-d')
end)

test('gradients', function()
  mt.manual_seed(3)
  for _, shape in ipairs {{500}, {33, 7}, {2, 4, 300}, {2, 5000}} do
    for dim = 1, #shape do
      for _, f in ipairs {'cumsum', 'cumprod', 'logcumsumexp', 'cummax', 'cummin'} do
        local x = mt.rand(shape, {dtype = 'float64'}) * 0.1 + 0.95
        if f == 'cumprod' and dim == 1 then x:reshape(-1)[5] = 0 end
        local y = x:to('cuda'):requires_grad_()
        x:requires_grad_()
        local g = mt.rand(shape, {dtype = 'float64'})
        ;(mt[f](y, dim)):backward(g:to('cuda'))
        ;(mt[f](x, dim)):backward(g)
        same(y.grad, x.grad, f .. ' along ' .. dim, 1e-9)
      end
    end
  end
end)

t.finish()
