-- test_thin_products.lua -- products of a large matrix by a few rows or columns: values, gradients' layouts, bits
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq

local function operand(rows, columns, transposed, dtype)
  return transposed and mt.randn({columns, rows}, {dtype = dtype}):t() or mt.randn({rows, columns}, {dtype = dtype})
end

--- The product is compared with products of float64 halves of b: sums in another order.
local function check(dtype, m, k, n)
  local tolerance = (dtype == 'float32' and 3e-5 or 1e-12) * k ^ 0.5
  for layout = 0, 3 do
    local a, b = operand(m, k, layout % 2 == 1, dtype), operand(k, n, layout >= 2, dtype)
    local half = math.floor(k / 2)
    local x, y = a:double(), b:double()
    local exact = x:narrow(2, 1, half):matmul(y:narrow(1, 1, half)) +
      x:narrow(2, half + 1, k - half):matmul(y:narrow(1, half + 1, k - half))
    local start = mt.randn({m, n}, {dtype = dtype})
    mt.set_num_threads(1)
    local c, sum = a:matmul(b), mt.addmm(start, a, b)
    eq((c - exact):abs():max():item() < tolerance, true)
    eq((sum - start - exact):abs():max():item() < 2 * tolerance, true)
    mt.set_num_threads(({2, 3, 8})[m % 3 + 1])
    eq(mt.equal(a:matmul(b), c), true)
  end
end

test('sums of products: every length, single and in batches', function()
  for _, dtype in ipairs{'float32', 'float64'} do
    for _, k in ipairs{1, 7, 15, 16, 17, 31, 63, 64, 65, 127, 200, 1000, 70001} do
      local a, b = mt.randint(-8, 8, {3, k}):to(dtype), mt.randint(-8, 8, {3, k}):to(dtype) -- exact sums
      local exact = (a * b):double():sum(2)
      for row = 1, 3 do eq(mt.dot(a[row], b[row]):item(), exact[row]:item()) end
      eq(mt.bmm(a:view(3, 1, k), b:view(3, k, 1)):flatten():double():tolist(), exact:tolist())
      eq(mt.einsum('ij,ij->i', a, b):double():tolist(), exact:tolist())
    end
  end
end)

--- 16-bit products of every layout are sums of float32 that are rounded once, with the same bits on all threads.
local function check_half(dtype, m, k, n)
  local unit = dtype == 'bfloat16' and 2 ^ -8 or 2 ^ -11
  for layout = 0, 3 do
    local a, b = operand(m, k, layout % 2 == 1, dtype), operand(k, n, layout >= 2, dtype)
    local exact = a:double():matmul(b:double())
    mt.set_num_threads(1)
    local c = a:matmul(b)
    eq(((c:double() - exact):abs() - exact:abs() * unit):max():item() < 1e-5 * k ^ 0.5, true)
    mt.set_num_threads(({2, 3, 8})[m % 3 + 1])
    eq(mt.equal(a:matmul(b), c), true)
  end
end

local threads = mt.get_num_threads()
for _, dtype in ipairs{'bfloat16', 'float16'} do
  test('products of 16-bit floats, ' .. dtype, function()
    for m = 1, 13 do
      check_half(dtype, m, 260 + 3 * m, 700 - m)
      check_half(dtype, 800 + m, 250 - m, m)
    end
    check_half(dtype, 1, 77, 5000)
    check_half(dtype, 3, 9000, 515)
  end)
end
for _, dtype in ipairs{'float32', 'float64'} do
  test('a few rows by a large matrix, ' .. dtype, function()
    for m = 1, 13 do check(dtype, m, 260 + 3 * m, 700 - m) end
    check(dtype, 3, 40000, 257)
  end)
  test('a large matrix by a few columns, ' .. dtype, function()
    for n = 1, 13 do check(dtype, 800 + n, 250 - n, n) end
    check(dtype, 520, 9000, 11)
  end)
end
mt.set_num_threads(threads)

t.finish()
