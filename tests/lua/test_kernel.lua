-- test_kernel.lua -- grid kernels written in Lua compared with the same functions run as plain Lua
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local reference = require 'grid_reference'
local test, eq, near, raises = testing.test, testing.eq, testing.near, testing.raises

local program = -1 -- the program's name is before its options
while arg[program - 1] do program = program - 1 end
program = arg[program] or 'mtorch'

local function counting(...)
  local n = 1
  for _, size in ipairs {...} do n = n * size end
  return mt.range(1, n):double():reshape(...)
end

--- Launches f on copies of the arguments and runs it as Lua; asserts equal results (within `tol`).
local function same(f, blocks, threads, arguments, tol)
  local copies = {}
  for k, x in ipairs(arguments) do copies[k] = mt.is_tensor(x) and x:clone() or x end
  local expected = reference.run(f, blocks, threads, unpack(arguments))
  mt.kernel(f)[{blocks, threads}](unpack(copies))
  for k, x in ipairs(copies) do
    if mt.is_tensor(x) then
      if tol then
        local given, wanted = x:reshape(-1), mt.tensor(expected[k], x.dtype):reshape(-1)
        near(given:tolist(), wanted:tolist(), tol)
      else
        eq(testing.bits(x:tolist()), testing.bits(expected[k]))
      end
    end
  end
end

-- ---- constructs ----------------------------------------------------------------------------------

test('matmul, as in the seeds', function()
  local function matmul(a, b, c)
    local i, j = grid(2)
    if i <= c.shape[1] and j <= c.shape[2] then
      local acc = 0
      for k = 1, a.shape[2] do acc = acc + a[i][k] * b[k][j] end
      c[i][j] = acc
    end
  end
  for _, n in ipairs {{1, 1, 1}, {5, 7, 3}, {33, 20, 40}} do
    local a, b = mt.randn(n[1], n[2], 'float64'), mt.randn(n[2], n[3], 'float64')
    same(matmul, {mt.cdiv(n[1], 16), mt.cdiv(n[3], 16)}, {16, 16}, {a, b, mt.zeros(n[1], n[3], 'float64')})
  end
  local a, b, c = mt.randn(40, 30), mt.randn(30, 50), mt.zeros(40, 50)
  mt.kernel(matmul):over(c)(a, b, c)
  near((c - a:matmul(b)):abs():max():item(), 0, 1e-5)
  local d = mt.zeros(50, 40):t() -- a result and an input that are transposed
  mt.kernel(matmul):over(d)(a:t():contiguous():t(), b, d)
  eq(mt.equal(c, d), true)
end)

test('sums of products, whose loops run at once where all accesses are inside', function()
  local function convolution(x, w, y, first, last, step)
    local i = grid(1)
    if i > #y then return end
    local a, b, c, d = 0.5, 0, 0, 0
    for k = first, last, step do a = a + x[i + k - 1] * w[k] end
    for k = 1, #w do b = b + w[#w + 1 - k] * x[k + i - 1] end
    for k = 1, #w do c = c + x[2 * k] * w[k] end
    for k = 1, #w do d = d + x[i] * x[i + 1] end
    y[i] = a * 1000 + b - c / 3 + d
  end
  for _, n in ipairs {1, 5, 16, 100, 131, 300} do
    local x, w = mt.randn({n + 10}, 'float64'), mt.randn({5}, 'float64')
    for _, range in ipairs {{1, 5, 1}, {5, 1, -1}, {1, 5, 2}, {2, 2, 1}, {4, 1, 1}, {5, 2, -2}} do
      same(convolution, mt.cdiv(n, 64), 64, {x, w, mt.zeros({n}, 'float64'), unpack(range)})
    end
  end
  same(function(a, b, c)
    local i, j = grid(2)
    if i > c.shape[1] or j > c.shape[2] then return end
    local s, t = 0, 0
    for k = 1, a.shape[1] do
      s = s + a[k][i] * b[k][j]
      for l = 1, 3 do t = t + a[k][l] * b[l][j] end
    end
    c[i][j] = s + t
  end, {2, 5}, {4, 40}, {mt.randn(9, 7, 'float64'), mt.randn(200, 9, 'float64'):t(), mt.zeros(7, 200, 'float64')})
  local x, y = mt.randn(200), mt.zeros(200)
  for _, bad in ipairs {{0, 9}, {1, 10}, {-3, 20}} do
    raises(function()
      mt.kernel(function(x, y, first, last)
        local i = grid(1)
        local s = 0
        for k = first, last do s = s + x[i] * x[k * 21] end
        y[i] = s
      end)[{1, 200}](x, y, bad[1], bad[2])
    end, 'is out of bounds')
  end
  for _, dtype in ipairs {'float16', 'int32', 'float32'} do
    local w, out = mt.range(1, 4):to(dtype), mt.zeros(200)
    mt.kernel(function(x, w, out)
      local i = grid(1)
      local s = 0
      for k = 1, 4 do s = s + x[i] * w[k] end
      out[i] = s
    end)[{1, 200}](x, w, out)
    near((out - x * 10):abs():max():item(), 0, 1e-5)
  end
end)

test('grid in 1, 2 and 3 dimensions, and indices and sizes of blocks', function()
  same(function(x)
    local i = grid(1)
    if i <= #x then x[i] = i * 10 end
  end, 3, 4, {counting(10)})
  same(function(x)
    local i, j, k = grid(3)
    if i <= x.shape[1] and j <= x.shape[2] and k <= x.shape[3] then x[i][j][k] = i * 100 + j * 10 + k end
  end, {2, 3, 2}, {2, 1, 3}, {counting(4, 3, 5)})
  same(function(x, y)
    local t = (thread_idx.y - 1) * block_dim.x + thread_idx.x
    local b = (block_idx.y - 1) * grid_dim.x + block_idx.x
    x[b][t] = block_idx.x * 1000 + block_idx.y * 100 + thread_idx.x * 10 + thread_idx.y
    y[b][t] = block_dim.x * block_dim.y * block_dim.z + grid_dim.x * grid_dim.y * grid_dim.z
  end, {2, 3}, {4, 2}, {counting(6, 8), counting(6, 8)})
  same(function(x)
    local i = (block_idx.x - 1) * block_dim.x + thread_idx.x
    local tx, bx = thread_idx.x, block_idx.x
    if i <= #x then x[i] = x[i] + tx * 100 + bx end
  end, 3, 5, {counting(13)})
end)

test('arithmetic is that of Lua', function()
  same(function(x, y, z)
    local i = grid(1)
    local a, b = x[i], y[i]
    z[i][1] = a + b - a * b
    z[i][2] = a / b
    z[i][3] = a % b
    z[i][4] = -a
    z[i][5] = math.floor(a) + math.ceil(b)
    z[i][6] = math.max(a, b, 0) + math.min(a, b)
    z[i][7] = math.abs(a) - math.sqrt(math.abs(b))
    z[i][8] = (a > b and a or b) + (a <= 0 and 1 or 2)
  end, 5, 8, {mt.randn(40, 'float64') * 5, mt.randn(40, 'float64') * 5, mt.zeros(40, 8, 'float64')})
  same(function(x, y, z)
    local i = grid(1)
    local a, b = x[i], y[i]
    z[i][1] = math.exp(a / 4) + math.log(math.abs(b) + 1)
    z[i][2] = math.sin(a) + math.cos(b) + math.tan(a)
    z[i][3] = math.tanh(a) + math.sinh(b) + math.cosh(a)
    z[i][4] = math.atan2(a, b) + math.atan(a)
    z[i][5] = math.asin(a / 100) + math.acos(b / 100)
    z[i][6] = math.abs(a) ^ 1.5 + math.pow(2, b) + math.log10(math.abs(a) + 1)
    z[i][7] = math.fmod(a, b) + math.deg(a) + math.rad(b)
    z[i][8] = math.pi * a + 1 / math.huge
  end, 5, 8, {mt.randn(40, 'float64') * 5, mt.randn(40, 'float64') * 5, mt.zeros(40, 8, 'float64')}, 1e-9)
end)

test('the functions of bit have the results of LuaJIT, those of mt 64 bits', function()
  local list = {0, 1, -1, 5, 12345, -12345, 2147483647, -2147483648, 4294967295, 305419896, 1099511627776 + 77}
  same(function(x, out)
    local i, j = grid(2)
    if i > #x or j > #x then return end
    local a, b = x[i], x[j]
    out[i][j][1] = bit.band(a, b) + bit.bor(a, b) * 2 + bit.bxor(a, b) * 3 + bit.bnot(a)
    out[i][j][2] = bit.lshift(a, b) + bit.rshift(a, b) * 2 + bit.arshift(a, b) * 3
    out[i][j][3] = bit.lshift(a, 7) + bit.rshift(a, 3) * 2 + bit.arshift(a, 31) * 3 + bit.rshift(a, 0)
    out[i][j][4] = bit.rol(a, b) + bit.ror(a, 13) * 2 + bit.bswap(a) * 3 + bit.tobit(b)
    out[i][j][5] = bit.band(a, b, 255) + bit.bor(a, 1, b, 8) + bit.bxor(b)
  end, {3, 3}, {4, 4}, {mt.tensor(list, 'int64'), mt.zeros(#list, #list, 5, 'int64')})
  for _, dtype in ipairs {'int64', 'int32'} do -- hashes in a loop
    same(function(x, out)
      local i = grid(1)
      local h = 0
      for k = 1, #x do
        h = bit.bxor(h, bit.tobit(x[k] + i))
        h = bit.bxor(bit.lshift(h, 5), bit.rshift(h, 2))
        if bit.band(h, 7) == 3 then h = bit.bnot(h) end
      end
      out[i] = h
    end, 2, 20, {mt.tensor(list, 'int64'):to(dtype), mt.zeros(40, 'int64')})
  end
  local out = mt.zeros(6, 'int64')
  mt.kernel(function(out, n)
    out[1] = mt.bitwise_and(n, 1099511627775) + mt.bitwise_or(n, 1) + mt.bitwise_xor(n, 3)
    out[2] = mt.bitwise_left_shift(3, 40) + mt.bitwise_right_shift(n, 3) + mt.bitwise_not(n)
    out[3] = mt.gcd(n, 24) + mt.lcm(6, 4) * 100
    out[4] = mt.bitwise_left_shift(n, 64 + grid(1)) + mt.bitwise_right_shift(-n, grid(1) * 70)
  end)[{1, 1}](out, 2 ^ 40 + 12)
  eq(out:tolist(), {12 + (2 ^ 40 + 13) + (2 ^ 40 + 15), 3 * 2 ^ 40 + 2 ^ 37 + 1 - 2 ^ 40 - 13, 1204, -1, 0, 0})
end)

test('log to a base, modf, fmod, ldexp, pow; rounding gives whole numbers', function()
  same(function(x, z)
    local i = grid(1)
    local a = x[i]
    local whole, part = math.modf(a)
    z[i][1], z[i][2] = whole, part
    z[i][3] = math.log(math.abs(a) + 1, 2) + math.log(math.abs(a) + 1)
    z[i][4] = math.fmod(a, 1.5) + math.fmod(i, 7) + math.pow(2, a)
    z[i][5] = math.ldexp(a, 3) + math.deg(a) - math.rad(a)
  end, 4, 5, {mt.cat {mt.randn(16, 'float64') * 5, mt.tensor({2, -3, 0, 99}, 'float64')}, mt.zeros(20, 5, 'float64')},
    1e-12)
  local ends, by = mt.tensor({0, 1 / 0, -1 / 0, 3}, 'float64'), mt.tensor({2000, -2000, 5, 3}, 'float64')
  local scaled = mt.zeros(4, 'float64')
  mt.kernel(function(x, e, out) out[grid(1)] = math.ldexp(x[grid(1)], e[grid(1)]) end)[{1, 4}](ends, by, scaled)
  eq(scaled:tolist(), {0, 1 / 0, -1 / 0, 24})
  eq(mt.map(function(m, e) return math.ldexp(m, e) end)(ends, by):tolist(), {0, 1 / 0, -1 / 0, 24})
  local x, out = mt.tensor {1.5, 2.5, -0.5, -1.7}, mt.zeros(4, 4)
  mt.kernel(function(x, names, out)
    local i = grid(1)
    out[i][1], out[i][2] = names[mt.round(x[i]) + 5], names[mt.trunc(x[i]) + 5]
    out[i][3], out[i][4] = names[mt.floor(x[i]) + 5], mt.trunc(-i / 3)
  end)[{1, 4}](x, mt.range(-4, 4):float(), out)
  eq(out:tolist(), {{2, 1, 1, 0}, {2, 2, 2, 0}, {0, 0, -1, -1}, {-2, -1, -2, -1}})
end)

test('the elementwise functions of mt have the values that they have for tensors', function()
  local core = require 'mtorch.core'
  local count = 0
  local skipped = {where = true, logical_and = true, logical_or = true, logical_xor = true, logical_not = true,
    softplus = true, nan_to_num = true, logit = true, polygamma = true}
  for _, name in ipairs(core.grid_kernel().grid_operations()) do
    local _, inputs, parameters = core.compile().operation(name)
    local of_tensors = not skipped[name] and rawget(mt, name)
    local names = ({'x[i]', 'x[i], y[i]', 'x[i], y[i], w[i]'})[inputs]
    for _, dtype in ipairs {'float32', 'float64', 'int64'} do
      local whole = dtype == 'int64'
      local function values(low, high)
        if whole then return mt.randint(1, 9, {200}) end
        return mt.rand(200, dtype) * (high - low) + low
      end
      local x, y, w = values(-0.9, 0.9), values(0.3, 2), values(0, 1)
      if name == 'acosh' or name:find 'gamma' then x = x:abs() + 1.25 end
      local ok, expected = pcall(function()
        if inputs == 1 then return of_tensors(x) end
        return inputs == 2 and of_tensors(x, y) or of_tensors(x, y, w)
      end)
      if of_tensors and ok then
        count = count + 1
        local is_bool = expected.dtype == 'bool'
        local value = is_bool and '(mt.%s(%s) and 1 or 0)' or 'mt.%s(%s)'
        local text = ('local mt = ...\nreturn function(out, x, y, w)\nlocal i = grid(1)\nout[i][1] = %s\n' ..
          'for _ = 1, 3 do out[i][2] = %s end\nend'):format(value:format(name, names), value:format(name, names))
        local out = mt.zeros(200, 2, 'float64')
        mt.kernel(loadstring(text)(mt))[{8, 25}](out, whole and x or x:double(), whole and y or y:double(),
          whole and w or w:double())
        local close = mt.allclose(out[{{}, 1}], expected:double(), {rtol = 1e-5, atol = 1e-6, equal_nan = true})
        if not close or testing.bits(out[{{}, 1}]:tolist()) ~= testing.bits(out[{{}, 2}]:tolist()) then
          error(('%s of %s, %d parameters'):format(name, dtype, parameters))
        end
      end
    end
  end
  eq(count > 200, true, count)
  local out = mt.zeros(6, 4)
  mt.kernel(function(x, low, out)
    local i = grid(1)
    out[i][1], out[i][2] = mt.clamp(x[i], low[i], 2), mt.clamp(i, 2, 4)
    out[i][3], out[i][4] = mt.leaky_relu(x[i], 0.5), mt.where(mt.isnan(x[i]) or x[i] > 2, -1, x[i])
  end)[{1, 6}](mt.tensor {-3, -1, 0 / 0, 1, 3, 5}, mt.tensor {-2, 0, 0, 0, 0, 0}, out)
  eq(testing.bits(out:tolist()), testing.bits {{-2, 2, -1.5, -3}, {0, 2, -0.5, -1}, {0 / 0, 3, 0 / 0, -1},
    {1, 4, 1, 1}, {2, 4, 3, -1}, {2, 4, 5, -1}})
end)

test('a local that gets 1.0 is a float; without floats the default dtype is the kernel\'s', function()
  local out = mt.zeros(4, 'float64')
  mt.kernel(function(out)
    local s, t, whole = 1.0, 1e0, 1
    for k = 1, 25 do s, t, whole = s * k, -t * k, whole * k end -- 25! exceeds int64
    out[1], out[2], out[3] = s, t, whole % 10
    out[4] = 7.0 / 2 + 0x10
  end)[{1, 1}](out)
  eq(out[1]:item() / 15511210043330985984000000, 1)
  eq(out[2]:item() / 15511210043330985984000000, -1)
  eq(out[4]:item(), 19.5)
  local n = mt.zeros(3, 'int64')
  mt.kernel(function(n)
    n[1], n[2 + 0.0] = 1e3, n[1] * 2.0 + 3
    for k = 1.0, 3 do n[3] = math.max(n[3], k) end
  end)[{1, 1}](n)
  eq(n:tolist(), {1000, 3, 3})
  raises(function()
    mt.kernel(function(n)
      local i = grid(1)
      local s = i > 2 and 1.0 or 0
      n[i] = s
    end)[{1, 3}](n)
  end, "'n' is a tensor of int64 and takes whole numbers")
  n = mt.zeros(2, 'int64')
  local k = mt.kernel(function(n) n[grid(1)] = math.floor(1 / 3 * 1e12) end)
  mt.set_default_dtype 'float64'
  local ok, why = pcall(k[{1, 2}], n)
  mt.set_default_dtype 'float32'
  if not ok then error(why) end
  eq(n[1]:item(), 333333333333)
  k[{1, 2}](n)
  eq(n[1]:item() == 333333333333, false)
end)

test('comparisons and loops at the ends of int64', function()
  local function ends(out, x)
    local i = grid(1)
    local big, low = x[1] + i - 4, x[2] + 4 - i
    out[i][1] = (big > low and 1 or 0) + (low < i and 2 or 0) + (x[1] - 5 + i > -5 - i and 4 or 0)
    out[i][2] = (x[2] + i <= x[1] - i and 1 or 0) + (i - 9 < x[1] and 2 or 0)
    local count = 0
    for _ = x[1] - i, x[1] do count = count + 1 end
    for _ = x[2] + i, x[2], -1 do count = count + 10 end
    for k = x[1] - 3 * i, x[1] - i % 2, i do
      count = count + 100
      if k < 0 then break end
    end
    out[i][3] = count
  end
  local x = mt.tensor({9223372036854774784, -9223372036854775808}, 'int64')
  x[1] = x[1] + 1023
  for _, check in ipairs {false, true} do
    local out = mt.zeros(4, 3, 'int64')
    mt.kernel(ends, {check = check})[{1, 4}](out, x)
    eq(out:tolist(), {{7, 3, 322}, {7, 3, 433}, {7, 3, 344}, {7, 3, 455}})
  end
end)

test('whole numbers stay whole', function()
  same(function(x, n)
    local i = grid(1)
    local half = math.floor(i / 2)
    x[i][1] = math.floor(-i / 3) * 10 + math.ceil(i / 3)
    x[i][2] = i % 3 + (-i) % 3 + i % -4
    x[i][3] = half * half + math.max(i, n) - math.min(i, 3)
    x[i][4] = math.floor((i * 7919 + 17) / n) % 1000
    x[i][5] = math.abs(i - 7)
    x[i][6] = math.floor(i / n * 100)
  end, 4, 5, {mt.zeros(20, 6, 'int64'), 13})
  -- beyond the 24 bits of a float32
  local x = mt.zeros(4, 'int64')
  mt.kernel(function(x)
    local i = grid(1)
    x[i] = math.floor((i * 1000000007 + 1) / 3)
  end)[{1, 4}](x)
  eq(x:tolist(), {333333336, 666666671, 1000000007, 1333333343})
end)

test('if, while, repeat, for, break, return', function()
  same(function(x, y)
    local i = grid(1)
    if i > #x then return end
    local v = x[i]
    if v > 20 then v = v - 20 elseif v > 10 then v = v * 2 else v = -v end
    local n = 0
    while v > 1 do
      v = v / 2
      n = n + 1
      if n == 3 then break end
    end
    repeat
      local step = n + 1
      v = v + step
    until v > 30 or step > 100
    y[i][1] = v
    y[i][2] = n
  end, 3, 12, {counting(30), mt.zeros(30, 2, 'float64')})
  same(function(x)
    local i = grid(1)
    local sum = 0
    for k = 1, i do sum = sum + k end
    for k = 10, 1, -3 do sum = sum + k * 100 end
    for k = i, 40, 7 do sum = sum + k * 10000 end
    for k = 0.5, 2, 0.25 do sum = sum + k end
    for k = 1, i / 2 do
      if k == 3 then break end
      sum = sum + 0.125
    end
    for k = 5, 1 do sum = -k end
    x[i] = sum
  end, 2, 10, {counting(20)})
  same(function(x)
    local i = grid(1)
    for k = 1, 5 do
      for l = 1, 5 do
        if k * l > i then break end
        if k == 4 and l == i then return end
        x[i] = x[i] + k * 10 + l
      end
      if x[i] > 500 then break end
    end
    x[i] = -x[i]
  end, 2, 10, {counting(20)})
end)

test('lanes that leave keep their values', function()
  same(function(x, y)
    local i = grid(1)
    local k, sum = 0, 0
    while true do
      k = k + 1
      if k > i then break end
      if k % 4 == 0 then sum = sum - 1 else sum = sum + x[k] end
      local again = k
      while again > 0 do
        again = again - 3
        if again == 1 then break end
      end
      sum = sum + again
    end
    y[i][1], y[i][2] = k, sum
  end, 3, 7, {counting(21), mt.zeros(21, 2, 'float64')})
end)

test('and, or, not do not read what they skip', function()
  same(function(x, y)
    local i = grid(1)
    local before = i > 1 and x[i - 1] or 0
    local after = i < #x and x[i + 1] or -1
    local both = i > 2 and x[i - 2] > 3 and i % 2 == 0
    local either = i < 3 or x[i - 2] == 5
    local neither = not (both or either)
    y[i][1] = before + after
    y[i][2] = both and 1 or 0
    y[i][3] = either and 1 or 0
    y[i][4] = (neither and i ~= 7) and 1 or 0
    y[i][4] = y[i][4] + ((i > 4 and (i > 5 and i < 9) or x[i] == 3) and 10 or 0)
    while i > 1 and x[i - 1] > 4 do i = i - 1 end
    y[grid(1)][5] = i
  end, 1, 16, {counting(16), mt.zeros(16, 5, 'float64')})
end)

test('helpers are inlined, with several results, early returns and helpers of their own', function()
  local scale = 3
  local function square(v) return v * v end
  local function clamp(v, lo, hi)
    if v < lo then return lo end
    if v > hi then return hi end
    return v
  end
  local function both(a, b)
    local s = square(a) + scale
    return s, clamp(b, -2, 2)
  end
  local function row_sum(m, row)
    local sum = 0
    for j = 1, m.shape[2] do sum = sum + m[row][j] end
    return sum
  end
  local function set(m, i, j, v) m[i][j] = v end
  same(function(x, y)
    local i = grid(1)
    local s, c = both(x[i][1], x[i][2])
    y[i][1] = s
    y[i][2] = c
    y[i][3] = row_sum(x, i) + square(clamp(s, 0, 5))
    set(y, i, 4, (both(i, 0)))
  end, 2, 6, {mt.randn(12, 3, 'float64') * 3, mt.zeros(12, 4, 'float64')})
end)

test('an element is read where it stands, whatever is written later', function()
  local function bump(x, i)
    x[i] = x[i] + 1
    return x[i]
  end
  local size = {mt.randn(8, 'float64')}
  same(function(x)
    local i = grid(1)
    if i <= 4 then
      local kept = x[i]
      x[i] = x[i + 4]
      x[i + 4] = kept
    end
  end, 1, 8, size)
  same(function(x)
    local i = grid(1)
    local step = x[i]
    for _ = 1, 3 do x[i] = x[i] + step end
  end, 1, 8, size)
  same(function(x)
    local i = grid(1)
    local sum = x[i] + bump(x, i)
    local product = (x[i] * 2) * bump(x, i)
    local first, second = x[i], bump(x, i)
    x[i] = sum + 10 * product + 100 * math.max(x[i], bump(x, i)) + 1000 * (first - second)
  end, 1, 8, size, 1e-12)
end)

test('a choice among several: p and a or q and b or c', function()
  same(function(x, y)
    local i = grid(1)
    local v = x[i]
    y[i] = v > 1 and x[i] * 2 or v > 0 and -x[i] or v > -1 and 5 or 7
    if i == 1 or i == 2 and v > 0 or v < -1 then y[i] = y[i] + 100 end
  end, 1, 8, {mt.randn(8, 'float64'), mt.zeros(8, 'float64')})
end)

test('indices of targets are computed before the values, and all before the first store', function()
  local function bump(n, i)
    n[i] = n[i] + 1
    return n[i]
  end
  same(function(x)
    local k = 1
    k, x[k] = k + 1, 20
    x[k + 2] = k
    x[k], x[k] = 7, 8 -- LuaJIT stores the last one first
  end, 1, 1, {mt.zeros(6, 'float64')})
  same(function(x, n)
    local i = grid(1)
    n[i], x[n[i]] = 1, i
  end, 1, 4, {mt.zeros(4, 'float64'), mt.tensor({4, 3, 2, 1}, 'int64')})
  same(function(x, n)
    x[bump(n, 1)] = bump(n, 1)
    x[n[1] + 1] = bump(n, 1) * 10
  end, 1, 1, {mt.zeros(8, 'float64'), mt.ones({1}, 'int64')})
end)

test('targets that are read by the values of others, and results of calls in locals', function()
  local function both(a, b) return a + b, a - b end
  local function twice(a) return (both(a, a)) end
  same(function(x, y)
    local i = grid(1)
    local a, b, c = x[i], x[i] * 2, i
    a, b, c = b + a, c + a, a + b
    x[i], y[i], a = y[i] + a, x[i] - b, a + c
    y[i], y[i + 4] = y[i + 4], y[i]
    local p, q = both(a, b)
    local r = twice(p)
    for k = 1, 2 do
      local s, t = both(p, k)
      if k == 2 then p, r = s, t end
      q = q + s * t
    end
    y[i + 8], y[i + 12] = p + q, r
  end, 1, 4, {mt.randn(4, 'float64'), mt.randn(16, 'float64')})
end)

test('conditions whose right side would be out of bounds', function()
  same(function(x, y)
    local i = grid(1)
    local n = i
    if i < #x and x[i + 1] > x[i] and x[i + 1] > 0 then y[i] = y[i] + 1 end
    if i == 1 or x[i - 1] > 0 then y[i] = y[i] + 2 else y[i] = y[i] + 4 end
    if i > 1 and x[i - 1] > 0 then y[i] = y[i] + 8 elseif i < #x and x[i + 1] > 0 then y[i] = y[i] + 16 end
    while n <= #x and x[n] < 1 do n = n + 1 end
    y[i] = y[i] + 32 * n
    repeat n = n - 1 until n < 1 or x[n] > 0.5 or n < #x and x[n + 1] > 2
    y[i] = y[i] + 1024 * n
    repeat n = n + 1 until n > 3 and (n > #x or x[n] > 0)
    while not (n > #x) and (n < 6 or x[n] > 0) do n = n + 1 end
    y[i] = y[i] + 65536 * n
  end, 1, 40, {mt.randn(40, 'float64'), mt.zeros(40, 'float64')})
end)

test('several targets, blocks, shadowed names, rows and shapes in locals', function()
  same(function(x, y)
    local i = grid(1)
    local row, shape = x[i], x.shape
    local a, b = row[1], row[2]
    a, b = b, a
    do
      local a = a * 100
      b = b + a
    end
    y[i][1], y[i][2] = a, b
    local n = #row
    for k = 1, n do
      local n = k * 2
      y[i][3] = y[i][3] + n + shape[1]
    end
    i = i + 1
    y[i - 1][4] = row[3] + n
  end, 1, 6, {mt.randn(6, 3, 'float64'), mt.zeros(6, 4, 'float64')})
end)

test('dtypes: integers, bools, mixtures, 16 bits', function()
  same(function(x, y, z, w)
    local i = grid(1)
    y[i] = x[i] * 2 - 1
    z[i] = x[i] > 3 and i ~= 5
    if z[i] then w[i] = x[i] / 4 end
  end, 1, 8, {mt.range(1, 8):int(), mt.zeros(8, 'int64'), mt.zeros(8):bool(), mt.zeros(8, 'float64')})
  local x = mt.tensor({1.5, 2.5, -3.5}, 'bfloat16')
  mt.kernel(function(x) local i = grid(1); x[i] = x[i] * 2 end)[{1, 3}](x)
  eq(x:float():tolist(), {3, 5, -7})
  for _, dtype in ipairs {'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64'} do
    local t = mt.range(1, 5):to(dtype)
    mt.kernel(function(t, k) local i = grid(1); t[i] = t[i] * k + i end)[{1, 5}](t, 3)
    eq(t:double():tolist(), {4, 8, 12, 16, 20})
  end
  local single, twice = mt.tensor {1}, mt.tensor({1}, 'float64') -- the widest float is the kernel's
  mt.kernel(function(a, b) b[1] = a[1] / 3 end)[{1, 1}](single, twice)
  eq(twice:item(), 1 / 3)
end)

test('strided, transposed, expanded and 0-d arguments', function()
  local function add(x, y)
    local i, j = grid(2)
    if i <= x.shape[1] and j <= x.shape[2] then y[i][j] = y[i][j] + x[i][j] * 2 end
  end
  local k = mt.kernel(add)
  local x, y = mt.randn(30, 20), mt.zeros(60, 50)
  local part = y[{{1, 60, 2}, {11, 30}}]
  k:over(x)(x, part)
  eq(mt.equal(part, x * 2), true)
  local turned = mt.zeros(20, 30):t()
  k:over(x)(x, turned)
  eq(mt.equal(turned, x * 2), true)
  local whole = mt.zeros(30, 20)
  k:over(x)(mt.randn(20):expand(30, 20), whole)
  eq(mt.equal(whole[1], whole[30]), true)
  local cell = mt.tensor(4)
  mt.kernel(function(c, t) t[1] = #t + 1 end)[{1, 1}](cell, whole[1])
  eq(whole[1][1]:item(), 21)
end)

-- ---- captured values -----------------------------------------------------------------------------

local rate = 2
test('captured numbers are read again at every launch', function()
  local options = {scale = 10, list = {1, 2}}
  local flag, table_of_weights = true, mt.tensor {1, 2, 3}
  local k = mt.kernel(function(x)
    local i = grid(1)
    x[i] = i * rate + options.scale + options.list[2] + (flag and 0.5 or 0) + table_of_weights[i]
  end)
  local x = mt.zeros(3)
  k[{1, 3}](x)
  eq(x:tolist(), {15.5, 18.5, 21.5})
  rate, options.scale, flag = 3, 0.25, false
  k[{1, 3}](x)
  eq(x:tolist(), {6.25, 10.25, 14.25})
  rate, options.list[2], table_of_weights = 2, 0, mt.zeros(3)
  k[{1, 3}](x)
  eq(x:tolist(), {2.25, 4.25, 6.25})
end)

test('a captured field may have any name', function()
  local fields = {['[2]'] = 5, [2] = 7, [''] = 3}
  local k = mt.kernel(function(x)
    x[1], x[2], x[3] = fields['[2]'], fields[2], fields['']
  end)
  local x = mt.zeros(3)
  k[{1, 1}](x)
  eq(x:tolist(), {5, 7, 3})
end)

function square_of_global(v) return v * v end -- luacheck: ignore
test('captured and global helpers may change', function()
  local function helper(v) return v + 1 end
  local k = mt.kernel(function(x) local i = grid(1); x[i] = helper(i) + square_of_global(2) end) -- luacheck: ignore
  local x = mt.zeros(2)
  k[{1, 2}](x)
  eq(x:tolist(), {6, 7})
  helper = function(v) return v * 100 end
  k[{1, 2}](x)
  eq(x:tolist(), {104, 204})
end)

test('two functions on one line; source in strings, -e, standard input', function()
  local a, b = mt.kernel(function(x) x[grid(1)] = 1 end), mt.kernel(function(x) x[grid(1)] = 2 end)
  local x = mt.zeros(1)
  a[{1, 1}](x); eq(x:item(), 1)
  b[{1, 1}](x); eq(x:item(), 2)
  local f = loadstring 'local mt = require "mtorch"\nlocal n = 7\nreturn mt.kernel(function(x) x[grid(1)] = n end)'
  f()[{1, 1}](x); eq(x:item(), 7)
  local code = "local k = mt.kernel(function(x) local i = grid(1); x[i] = 5 end) local x = mt.zeros(2) " ..
    'k[{1, 2}](x) print(x:sum():item())'
  local lines = "%s -e '%s' 2>&1; echo '#!x\nlocal mt = require \"mtorch\" %s' | %s - 2>&1"
  local pipe = io.popen(lines:format(program, code, code, program))
  eq(pipe:read '*a', '10\n10\n')
  pipe:close()
end)

test('a file that has changed', function()
  local path = os.tmpname()
  local function write(text)
    local file = io.open(path, 'w')
    file:write(text)
    file:close()
  end
  write 'local mt = require "mtorch"\nreturn function(x) x[grid(1)] = 1 end'
  local f = dofile(path)
  write 'local mt = require "mtorch"\nreturn function(x) x[grid(1)] = 2 end'
  raises(function() mt.kernel(f) end, 'has changed since')
  os.remove(path)
  raises(function() mt.kernel(f) end, 'cannot be read')
end)

-- ---- wrong programs ------------------------------------------------------------------------------

-- {body of function(x, y, n), line in it, pattern of the message}; x is (4) float32, y (4 x 5) int64, n = 3.
local wrong = {
  {'goto done\n::done::', 1, 'goto is not supported in kernels; use while, break or return'},
  {'x[{1, 2}] = 1', 1, 'a table is no index in kernels; an element is x%[i%]%[j%]'},
  {'local t = {1, 2}', 1, 'a table is not supported in kernels; use a local for each value, a tensor or private%(n%)'},
  {'local i = grid(1)\nlocal f = function() end', 2, 'a kernel defines no functions; define it outside'},
  {'local function f() end', 1, 'a kernel defines no functions; define it outside'},
  {'for k, v in pairs(x) do end', 1, 'a for over an iterator is not supported in kernels; use for i = 1, n do'},
  {'local s = "a" .. "b"', 1, "'%.%.' joins strings, which kernels do not have"},
  {'local s = "a"', 1, 'kernels cannot calculate with strings'},
  {'local i = x:size(1)', 1, 'kernels have no methods; sizes are x%.shape%[d%] and #x'},
  {'x[1, 2] = 3', 1, nil},
  {'total = 1', 1, "'total' is not a local of the kernel and cannot be set; write local total = %.%., or a tensor"},
  {'\n\nx[1] = nothing', 3, "'nothing' is nil: no local, captured value, global or word of kernels has this name"},
  {'x[1] = math.nothing(2)', 1, "'math%.nothing' is nil: .*kernels know the functions of math"},
  {'x[1] = math.random()', 1, "kernels do not have math%.random; random numbers are drawn before: give the kernel a"},
  {'x[1] = math.frexp(2)', 1, "kernels do not have math%.frexp; math%.floor%(math%.log%(x, 2%)%) is the exponent"},
  {'x[1] = bit.tohex(2)', 1, "kernels do not have bit%.tohex; a kernel has no strings"},
  {'x[1] = mt.softplus(2)', 1, "kernels do not have mt%.softplus; mt%.logaddexp%(x, 0%) is the same"},
  {'x[1] = tonumber("1")', 1, "'tonumber' is a function of tensors or of a library, which kernels cannot use"},
  {'x[1] = string.len("a")', 1, "'string%.len' is a function of tensors or of a library, which kernels cannot use"},
  {'x[1] = mt.max(1, 2)', 1, "kernels do not have mt%.max; math%.max%(a, b%) is the larger one"},
  {'x[1] = mt.matmul(x, x)', 1, "kernels do not have mt%.matmul; of mt they know mt.cdiv and the elementwise"},
  {'x[1] = mt.erff(2)', 1, "kernels do not have mt%.erff; of mt they know mt.cdiv and the elementwise"},
  {'local s = shared(4)\ns = 3', 1, "'s' is a tensor here and is set to something else below; use another local"},
  {'shared[1] = 3', 1, "'shared' is a function of kernels: shared%(%.%.%)"},
  {'x[thread_idx[1]] = 3', 1, "thread_idx has %.x, %.y and %.z, not '%[%.%.%]'"},
  {'atomic_cas(x, 1, true, 1)', 1, "atomic_cas compares with a boolean"},
  {'x[i] = 1', 1, "'i' is nil: .*; local i = grid%(1%) is the position of the thread"},
  {'x[1] = mt.clamp()', 1, "mt%.clamp takes 1 to 3 arguments, got 0"},
  {'x[1] = math.log(1, 2, 3)', 1, "math%.log takes 1 to 2 arguments, got 3"},
  {'x[1] = math.max()', 1, "math%.max takes at least 1 argument, got 0"},
  {'x[1] = bit.lshift(1)', 1, "bit%.lshift takes 2 arguments, got 1"},
  {'x[1] = bit.band(n, 0.5)', 1, "bitwise_and of a float; bits and divisors are those of whole numbers"},
  {'x[1] = math.modf(true)', 1, "arithmetic with a boolean"},
  {'x[1] = 9007199254740993', 1, "the whole number 9007199254740993 exceeds 2%^53"},
  {'atomicMax(x, 1, 2)', 1, "'atomicMax' is nil: .*; kernels have atomic_max%(t, i, v%)"},
  {'atomic_cas(x, 1, 2)', 1, "atomic_cas: 'x' has 1 dimension, got 0 indices"},
  {'atomic_max(x)', 1, "atomic_max takes a tensor, its indices and a number: atomic_max%(t, i, j, v%)"},
  {'atomic_cas(y, 1, 1, 0.5, 1)', 1, "atomic_cas: 'y' is a tensor of int64 and is compared with whole numbers"},
  {'local s = 1.0 s = s + 1 x[s] = 2', 1, "an index into 'x' is a float"},
  {'n(1)', 1, "a number is called, but is not a function; kernels call math%.%*"},
  {'x[threadIdx.x] = 1', 1, "'threadIdx' is nil: .*; kernels have thread_idx.x, from 1"},
  {'local i = cuda.grid(1)', 1, "'cuda' is nil: .*; kernels have grid%(n%)"},
  {'syncthreads()', 1, "'syncthreads' is nil: .*; kernels have barrier%(%)"},
  {'x[1] = mt.cdiv(2)', 1, 'mt.cdiv takes 2 arguments, got 1'},
  {'x[1] = mt', 1, "'mt' is not a number"},
  {'x[1] = io.stdout', 1, "'io%.stdout' is a userdata, which kernels cannot use"},
  {'x = 1', 1, "'x' is a tensor or function and cannot be set; use another local"},
  {'x[1.5] = 1', 1, "an index into 'x' is a float; positions are whole numbers from 1: use math%.floor"},
  {'local i = grid(1)\nx[i / 2] = 1', 2, "an index into 'x' is a float"},
  {'x[true] = 1', 1, "an index into 'x' is a boolean"},
  {'x[1][2] = 1', 1, "'x' has 1 dimension, here is one index more"},
  {'y[1] = 1', 1, "cannot write to 'y', a tensor of 2 dimensions with 1 index; an element is y%[i%]%[j%]"},
  {'x[1] = y[1]', 1, "cannot read 'y', a tensor of 2 dimensions with 1 index; an element is y%[i%]%[j%]"},
  {'x[1] = x', 1, "cannot read 'x', a tensor of 1 dimension; an element is x%[i%]"},
  {'x[1] = n[1]', 1, "'n' is a number, which has no elements or fields"},
  {'x[thread_id.x] = 1', 1, "'thread_id' is nil: .*; kernels have thread_idx.x, from 1"},
  {'x[1] = x[1][1]', 1, 'one index more'},
  {'y[1][1] = 0.5', 1, "'y' is a tensor of int64 and takes whole numbers, not a float: use math%.floor"},
  {'y[1][1] = n / 2', 1, 'takes whole numbers, not a float: use math%.floor'},
  {'x[1] = x[1] > 2', 1, "'x' is a tensor of float32 and takes a number, not a boolean: write x and 1 or 0"},
  {'x[1] = true + 1', 1, 'arithmetic with a boolean; kernels calculate with numbers: write x and 1 or 0'},
  {'x[1] = -(n > 2)', 1, 'arithmetic with a boolean'},
  {'if n then x[1] = 1 end', 1, 'the condition is a number, which is always true in Lua; compare it, as in x ~= 0'},
  {'while x[1] do end', 1, 'is a number, which is always true in Lua; compare it'},
  {'x[1] = not n and 1 or 0', 1, "the operand of 'not' is a number, which is always true in Lua"},
  {'local b = n > 1 and n\nx[1] = 0', 1, "an operand of 'and' or 'or' is a number, which is always true"},
  {'local b = n > 1\nb = 5', 2, "'b' is a number here and a boolean elsewhere; a local has one type in a kernel"},
  {'x[1] = n > 1 and true or 5', 1, 'x and y or z gives a boolean or a number; a value has one type'},
  {'x[1] = n == true and 1 or 0', 1, 'a comparison of a boolean with a number'},
  {'x[1] = (n > 1) < (n > 2) and 1 or 0', 1, 'a comparison of a boolean by order'},
  {'x[1] = nil', 1, 'a kernel cannot use nil as a value; use a number or a boolean'},
  {'local a = nil', 1, 'a kernel cannot use nil as a value; local a alone declares it'},
  {'if n == nil then x[1] = 1 end', 1, 'nothing is nil in a kernel'},
  {'local a\nx[1] = a', 2, "'a' is read, but no value was ever given to it"},
  {'return 1', 1, 'a kernel returns nothing; it writes into a tensor that it was given'},
  {'local i, j = grid()', 1, 'grid takes the number of dimensions, grid%(1%) to grid%(3%)'},
  {'local i = grid(4)', 1, 'grid takes the number of dimensions'},
  {'local i, j = grid(1)', 1, '2 names, but the call gives 1 value'},
  {'x[1] = thread_idx', 1, "'thread_idx' is not a number; write thread_idx%.x"},
  {'x[1] = thread_idx.w', 1, "thread_idx has %.x, %.y and %.z, not '%.w'"},
  {'x[1] = block_dim()', 1, "'block_dim' is not a function; write block_dim%.x"},
  {'x[1] = grid', 1, "'grid' is not a number"},
  {'x[1] = x.size', 1, "a tensor in a kernel has elements, #x, x%.shape%[d%] and x%.ndim, not 'size'"},
  {'x[1] = x.shape[2]', 1, "'x' has 1 dimension; there is no shape%[2%]"},
  {'x[1] = x.shape[n]', 1, 'the dimension must be a whole literal or a captured whole number'},
  {'x[1] = #n', 1, '# is the first size of a tensor, not of a number'},
  {'local s = shared(n)', 1, 'a size of shared memory must be a whole literal or a captured whole number'},
  {'local s = shared(20000)\ns[1] = 1', 1, '^80000 bytes of shared memory; a block has at most 49152'},
  {'local s = shared(100000)', 1, '100000 elements do not fit into 48 KiB of shared memory'},
  {"local s = shared(4, 'complex')", 1, "'complex' is not a dtype for shared memory; use float32"},
  {'if n > 1 then local s = shared(4) end', 1, 'shared%(%.%.%) must be called at the top level of a kernel'},
  {'barrier(1)', 1, 'barrier%(%) takes no arguments'},
  {'atomic_add(x, 1)', 1, "atomic_add: 'x' has 1 dimension, got 0 indices"},
  {'atomic_add(y, 1, 2)', 1, "atomic_add: 'y' has 2 dimensions, got 1 index"},
  {'atomic_add(n, 1, 2)', 1, 'the first argument of atomic_add is a tensor'},
  {'x[1] = warp_sum()', 1, 'warp_sum%(v%) takes one number'},
  {'x[1] = shuffle_down(1)', 1, 'shuffle_down%(v, n%) takes a number and a distance'},
  {'x[1] = math.sqrt(1, 2)', 1, 'math%.sqrt takes 1 argument, got 2'},
  {'x[1] = math.atan2(1)', 1, 'math%.atan2 takes 2 arguments, got 1'},
  {'x[1] = recursive(3)', 1, "'recursive' calls itself; kernels have no recursion, use a loop"},
  {'x[1] = two(1)', 1, "'two' takes 2 arguments, got 1"},
  {'x[1] = nothing_back(1)', 1, 'this call gives no value'},
  {'x[1] = sometimes(n)', nil, "'sometimes' returns 1 value here and 2 elsewhere"},
  {'for i = 1, 10, 0 do x[1] = i end', 1, 'a for with a step of 0 never ends'},
  {'for i = 1, n / 2, n do x[1] = i end', 1, 'the end of this for is a float and its step no literal'},
  {'for i = true, 3 do end', 1, "'for' limit must be a number"},
  {'x[1] = 5LL', 1, 'the number 5LL is not supported in kernels; whole numbers are 64%-bit without a suffix'},
  {'x[1] = ...', 1, nil},
  {'x[1], x[2] = 1', 1, '2 targets, but 1 value'},
  {'for i = 1, 3 do break end\nlocal i = cfg[n]', 2, "the table 'cfg' is read through names or whole literals"},
  {'cfg.k = 3', 1, 'only locals and elements of tensors can be set'},
  {'local v = constant(n)', 1, 'constant%(t%) takes a tensor that was captured or passed'},
  {"print 'x'", 1, 'a call in a kernel needs parentheses and numbers'},
}
local outer = "local mt = require 'mtorch' local cfg = {k = 2} " ..
  [[local function recursive(n) return recursive(n - 1) end ]] ..
  [[local function two(a, b) return a + b end local function nothing_back(a) end ]] ..
  [[local function sometimes(a) if a > 1 then return 1, 2 end return 1 end return mt.kernel(function(x, y, n) ]]

test('mt.cdiv is that of launches', function()
  local k = mt.kernel(function(x, n)
    local i = grid(1)
    x[i] = mt.cdiv(n + i, 3)
  end)
  local x = mt.zeros(8, {dtype = 'int64'})
  k[{1, 8}](x, 9007199254740980)
  for i = 1, 8 do eq(x[i]:item(), mt.cdiv(9007199254740980 + i, 3)) end
end)

test('wrong programs are refused by one sentence with their line', function()
  local count = 0
  for _, case in ipairs(wrong) do
    local chunk = loadstring(outer .. case[1] .. '\nend)')
    if not chunk then
      eq(case[3], nil) -- invalid Lua, an error of Lua's compiler
    else
      count = count + 1
      local ok, message = pcall(function() chunk()[{1, 1}](mt.zeros(4), mt.zeros({4, 5}, 'int64'), 3) end)
      if ok then error('no error: ' .. case[1]) end
      local line, text = message:match '^.-kernel: [^\n]-%.%.%."%]:(%d+): (.*)$'
      if not line or not text:find(case[3]) or (case[2] and tonumber(line) ~= case[2]) or text:find '\n' then
        error(('%s\ngives: %s\nexpected line %s: %s'):format(case[1], message, tostring(case[2]), case[3]))
      end
    end
  end
  eq(count >= 40, true)
end)

test('a kernel that grows without end is refused', function()
  local lines = {'local mt = require "mtorch"', 'local function f0(x) return x + 1 end'}
  for k = 1, 25 do lines[#lines + 1] = ('local function f%d(x) return f%d(x) + f%d(x) end'):format(k, k - 1, k - 1) end
  lines[#lines + 1] = 'return mt.kernel(function(x) x[1] = f25(1) end)'
  raises(function() loadstring(table.concat(lines, '\n'))()[{1, 1}](mt.zeros(1)) end, 'more than 10000 statements')
  local deep = 'local mt = require "mtorch" return mt.kernel(function(x) x[1] = ' .. ('('):rep(160) .. '1' ..
    (')'):rep(160) .. ' end)'
  raises(function() loadstring(deep)() end, 'an expression is nested too deeply')
end)

test('arguments and launches are checked', function()
  local function add(x, n) local i = grid(1); x[i] = x[i] + n end
  local k = mt.kernel(add)
  local x = mt.zeros(4)
  raises(function() k(x, 1) end, 'how many threads')
  raises(function() k[{1}](x, 1) end, 'got 1 entry')
  raises(function() k[{1, 4}](x) end, '1 argument given, it takes 2: add%(x, n%)')
  raises(function() k[{1, 4}](x, 'a') end, "argument 2 'n' must be a tensor, a number or a boolean, got the string 'a'")
  raises(function() k[{1, 4}](x, nil) end, "argument 2 'n' must be .*, got nil")
  raises(function() k[{1, 4}]({}, 1) end, "argument 1 'x' must be .*, got a table")
  raises(function() k[{1, 4}](1, 1) end, "'x' is a number, which has no elements or fields")
  raises(function() k[{1, 1025}](x, 1) end, '1025 threads in x of a block; 1 to 1024')
  raises(function() k[{1, {64, 32}}](x, 1) end, '64 x 32 x 1 = 2048 threads in a block; at most 1024')
  raises(function() k[{ {2 ^ 31 - 1, 65535, 65535}, {32, 8, 4} }](x, 1) end, '9.44e%+21 threads in the grid')
  raises(function() k[{-1, 4}](x, 1) end, '%-1 blocks in x')
  raises(function() k[{1, 1.5}](x, 1) end, 'must be a whole number')
  raises(function() k:over(mt.zeros(2, 2, 2, 2)) end, 'over takes a tensor of 1 to 3 dimensions, got 4')
  raises(function() k[{1, 4}](mt.zeros(4):requires_grad_(), 1) end,
    "'x' requires a gradient, .*mt.no_grad.*mt.Function")
  raises(function() k[{1, 4}](mt.zeros(1):expand(4), 1) end, 'add: ')
  raises(function() print(k.speed) end, "a kernel has no 'speed'")
  raises(function() k.speed = 1 end, 'cannot be set')
  raises(function() mt.kernel(print) end, '^[^:]+:%d+: kernel: a Lua function is needed, got one of the library')
  raises(function() mt.kernel(loadstring 'return 1') end, '^[^:]+:%d+: kernel: a Lua function is needed, got a chunk')
  raises(function() mt.kernel(3) end, 'function')
  eq(tostring(k), 'kernel add')
  k[{0, 4}](x, 1)
  eq(x:sum():item(), 0)
  local w = mt.ones(4):requires_grad_()
  mt.no_grad(function() k[{1, 4}](w, 1) end)
  eq(w:tolist(), {2, 2, 2, 2})
end)

test('what a kernel writes is noticed by backward', function()
  local x = mt.ones(3):requires_grad_()
  local y = x * 1
  local z = (y * y):sum()
  local d = y:detach()
  mt.kernel(function(d) d[grid(1)] = 0 end)[{1, 3}](d)
  raises(function() z:backward() end, 'changed in place')
end)

-- ---- bounds --------------------------------------------------------------------------------------

test('nothing outside of a tensor is touched; the first access there is named', function()
  local whole = mt.zeros(10)
  local x = whole[{{3, 6}}]
  local k = mt.kernel(function(x, from)
    local i = grid(1) + from
    x[i] = i
  end)
  local text = raises(function() k[{1, 8}](x, 0) end,
    ":%d+: k: index 5 is out of bounds in dimension 1 of 'x', which has the positions 1 to 4, in thread %(5, 1, 1%) " ..
    'of the grid; threads beyond the end need a guard, if i <= x.shape%[1%]')
  eq(select(2, text:gsub('\n', '')), 0)
  eq(whole:tolist(), {0, 0, 1, 2, 3, 4, 0, 0, 0, 0})
  raises(function() k[{1, 2}](x, -1) end, 'index 0 is out of bounds')
  raises(function() k[{1, 2}](x, 2 ^ 52) end, 'out of bounds')
  eq(whole[1]:item() + whole[2]:item() + whole[7]:item(), 0)
  raises(function()
    mt.kernel(function(x, y) -- every kind of index
      local i, j = grid(2)
      y[i][j] = x[x[i] + i] + x[j * j] + x[3 * i - 2]
    end)[{1, {4, 4}}](mt.range(1, 4):long(), mt.zeros({4, 4}, 'int64'))
  end, 'out of bounds')
  raises(function() mt.kernel(function(x) x[1] = x[7] end)[{1, 2}](x) end, 'index 7 is out of bounds')
  raises(function() mt.kernel(function(x) x[9] = 1 end)[{1, 2}](x) end, 'index 9 is out of bounds')
  raises(function() mt.kernel(function(x) x[1] = x[1] end)[{1, 2}](mt.zeros(0)) end, 'index 1 is out of bounds')
  -- an access behind a false guard is not a fault
  mt.kernel(function(x)
    local i = grid(1)
    if i > 1 and i < #x then x[i] = x[i - 1] * 0 + x[i + 1] * 0 end
  end)[{4, 4}](x)
end)

test('whole numbers divided by zero', function()
  local x = mt.zeros(4, 'int64')
  local k = mt.kernel(function(x)
    local i = grid(1)
    if i ~= 3 then x[i] = math.floor(12 / (i - 3)) + 7 % (i - 3) end
  end)
  k[{1, 4}](x)
  eq(x:tolist(), {-7, -12, 0, 12})
  raises(function() mt.kernel(function() if 5 % (grid(1) - 1) > 9 then return end end)[{1, 1}]() end, 'by zero')
  raises(function() mt.kernel(function(x) x[1] = 5 % (grid(1) - 1) end)[{1, 2}](x) end,
    ':%d+: a whole number is divided by zero, in thread %(1, 1, 1%)')
end)

-- ---- threads together ----------------------------------------------------------------------------

test('a for whose step is 0 when it runs is an error, up and down, in every way to run it', function()
  local function uniform(x, out, first, last, step)
    local sum = 0.0
    for _ = first, last, step do sum = sum + x[grid(1)] end
    out[grid(1)] = sum
  end
  local function own(x, out, first, last, step)
    local i = grid(1)
    for k = first + i - i % 2, last, step do out[i] = out[i] + x[k] end
  end
  local function waits(x, out, first, last, step)
    barrier()
    for k = first, last, step do out[grid(1)] = out[grid(1)] + x[k] end
  end
  for _, f in ipairs {uniform, own, waits} do
    for _, check in ipairs {false, true} do
      local k, x, out = mt.kernel(f, {check = check}), mt.ones(64), mt.zeros(64)
      for _, bounds in ipairs {{1, 5}, {5, 1}, {3, 3}} do
        raises(function() k[{1, 64}](x, out, bounds[1], bounds[2], 0) end, 'a for with a step of 0 never ends, in')
      end
      k[{1, 64}](x, out:zero_(), 1, 2, 5)
      k[{1, 64}](x, out, 5, 1, 1)
    end
  end
end)

test('shared memory and barriers: tiles of a matrix product', function()
  local TILE = 4
  same(function(a, b, c)
    local i, j = grid(2)
    local ti, tj = thread_idx.x, thread_idx.y
    local left, right = shared(TILE, TILE), shared(TILE, TILE)
    local acc = 0
    for t = 0, math.ceil(a.shape[2] / TILE) - 1 do
      local k = t * TILE
      left[ti][tj] = (i <= a.shape[1] and k + tj <= a.shape[2]) and a[i][k + tj] or 0
      right[ti][tj] = (k + ti <= b.shape[1] and j <= b.shape[2]) and b[k + ti][j] or 0
      barrier()
      for l = 1, TILE do acc = acc + left[ti][l] * right[l][tj] end
      barrier()
    end
    if i <= c.shape[1] and j <= c.shape[2] then c[i][j] = acc end
  end, {3, 4}, {4, 4}, {mt.randn(10, 7, 'float64'), mt.randn(7, 13, 'float64'), mt.zeros(10, 13, 'float64')})
end)

test('sizes of shared memory that were captured follow them', function()
  local size = 4
  local k = mt.kernel(function(x)
    local cells = shared(size)
    cells[size + 1 - thread_idx.x] = x[thread_idx.x]
    barrier()
    x[thread_idx.x] = cells[thread_idx.x] + #cells * 10
  end)
  local x = mt.range(1, 4):float()
  k[{1, 4}](x)
  eq(x:tolist(), {44, 43, 42, 41})
  size = 2
  x = mt.range(1, 2):float()
  k[{1, 2}](x)
  eq(x:tolist(), {22, 21})
end)

test('shared memory: sums of blocks, prefix sums, reversal', function()
  same(function(x, out)
    local i, t = grid(1), thread_idx.x
    local cells = shared(8)
    cells[t] = i <= #x and x[i] or 0
    barrier()
    local step = 4
    while step >= 1 do
      if t <= step then cells[t] = cells[t] + cells[t + step] end
      step = math.floor(step / 2)
      barrier()
    end
    if t == 1 then out[block_idx.x] = cells[1] end
  end, 4, 8, {mt.randn(30, 'float64'), mt.zeros(4, 'float64')})
  same(function(x)
    local i, t = grid(1), thread_idx.x
    local cells = shared(2, 6)
    cells[1][t] = x[i]
    local from = 1
    local step = 1
    while step < 6 do
      barrier()
      local to = 3 - from
      cells[to][t] = t > step and cells[from][t] + cells[from][t - step] or cells[from][t]
      from = to
      step = step * 2
    end
    x[i] = cells[from][t]
  end, 3, 6, {mt.randn(18, 'float64')})
  local x = mt.range(1, 6):int()
  mt.kernel(function(x)
    local t = thread_idx.x
    local cells = shared(6, 'int32')
    cells[t] = x[t]
    barrier()
    x[t] = cells[7 - t]
  end)[{1, 6}](x)
  eq(x:tolist(), {6, 5, 4, 3, 2, 1})
end)

test('atomic_add: histograms, float sums in thread order, what was there before', function()
  same(function(x, counts, sum)
    local i = grid(1)
    if i <= #x then
      atomic_add(counts, x[i], 1)
      atomic_add(sum, 1, 1, 1 / i)
    end
  end, 5, 8, {mt.randint(1, 5, {37}):long(), mt.zeros(5, 'int64'), mt.zeros(1, 1, 'float64')})
  local x, counter = mt.zeros(20, 'int64'), mt.zeros(1, 'int64')
  mt.kernel(function(x, counter)
    local i = grid(1)
    if i % 2 == 0 then x[atomic_add(counter, 1, 1) + 1] = i end
  end)[{4, 5}](x, counter)
  eq(counter:item(), 10)
  eq(x:tolist(), {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
  local bins = mt.zeros(3, 4, 'int64')
  mt.kernel(function(bins)
    local own = shared(4, 'int64')
    if thread_idx.x <= 4 then own[thread_idx.x] = 0 end
    barrier()
    atomic_add(own, thread_idx.x % 4 + 1, thread_idx.x)
    barrier()
    if thread_idx.x <= 4 then bins[block_idx.x][thread_idx.x] = own[thread_idx.x] end
  end)[{3, 16}](bins)
  eq(bins[2]:tolist(), {40, 28, 32, 36})
end)

test('atomic_min, atomic_max, atomic_exchange, atomic_cas give the old value', function()
  for _, dtype in ipairs {'int64', 'int32', 'float64', 'uint8'} do
    same(function(x, t, old)
      local i = grid(1)
      if i > #x then return end
      old[i][1] = atomic_min(t, 1, 1, x[i])
      old[i][2] = atomic_max(t, 1, 2, x[i])
      old[i][3] = atomic_exchange(t, 1, 3, x[i])
      for k = 1, 3 do
        atomic_max(t, 2, k, x[i] + k)
        atomic_min(t, 3, k, x[i])
      end
    end, 5, 8, {mt.randint(1, 99, {37}):to(dtype), mt.full({3, 3}, 50):to(dtype), mt.zeros(37, 3, 'float64')})
    same(function(x, t, old)
      local i = grid(1)
      old[i] = atomic_cas(t, 1, i - 1, i % 5)
      if x[i] > 50 then atomic_cas(t, i % 3 + 1, x[i], 7) end
    end, 5, 8, {mt.randint(1, 99, {40}):to(dtype), mt.zeros(3):to(dtype), mt.zeros(40, 'float64')})
  end
  same(function(x, out)
    local least = shared(2)
    if thread_idx.x == 1 then least[1], least[2] = 1000, -1000 end
    barrier()
    atomic_min(least, 1, x[grid(1)])
    atomic_max(least, 2, x[grid(1)])
    barrier()
    if thread_idx.x == 1 then out[block_idx.x] = least[1] * 100 + least[2] end
  end, 3, 16, {mt.randn(48, 'float64'), mt.zeros(3, 'float64')})
end)

test('k:over a matrix with a kernel of rows: the threads of a row do the same', function()
  local k = mt.kernel(function(x, out) local i = grid(1); if i <= #x then out[i] = x[i][1] * i end end)
  local x, out = mt.range(1, 20):view(5, 4), mt.zeros(5, 'int64')
  k:over(x)(x, out)
  eq(out:tolist(), {1, 10, 27, 52, 85})
end)

test('a launch says how it ran', function()
  local x = mt.randn(64, 64)
  local scan = mt.kernel(function(x)
    local i = grid(1)
    if i <= #x then for k = 2, x.shape[2] do x[i][k] = x[i][k] + x[i][k - 1] end end
  end)
  eq(mt.explain(scan, {}):find('was not launched yet', 1, true) ~= nil, true)
  eq(mt.explain(scan[{0, 64}], x):find('\nit ran as nothing', 1, true) ~= nil, true)
  local text = mt.explain(scan[{1, 64}], x)
  local has_code = testing.has_machine_code()
  eq(text:find(has_code and '\nit ran as scalar machine code, thread after' or '\nit ran as ', 1, true) ~= nil, true)
  local tiles = mt.kernel(function(x)
    local s = shared(64)
    s[thread_idx.x] = x[block_idx.x][thread_idx.x]
    barrier()
    x[block_idx.x][65 - thread_idx.x] = warp_sum(s[thread_idx.x])
  end)
  tiles[{64, 64}](x)
  eq(tiles:path():find 'vectors of up to 64 threads.*; no scalar machine code, because of warp functions' ~= nil, true)
end)

test('warps', function()
  local n = 80 -- the last warp is half full
  local x, out = mt.range(1, n):double(), mt.zeros(n, 8, 'float64')
  mt.kernel(function(x, out)
    local i = grid(1)
    local v = x[i]
    out[i][1], out[i][2], out[i][3] = warp_sum(v), warp_max(v), warp_min(v)
    out[i][4] = shuffle_down(v, 3)
    out[i][5] = shuffle_xor(v, 1)
    out[i][6] = lane()
    if i % 2 == 0 then out[i][7] = warp_sum(i) end
    out[i][8] = shuffle_down(i, i % 2)
  end)[{1, n}](x, out)
  local o = out:tolist()
  for i = 1, n do
    local first = math.floor((i - 1) / 32) * 32 + 1
    local last = math.min(first + 31, n)
    local even = 0
    for k = first, last do even = even + (k % 2 == 0 and k or 0) end
    eq(o[i], {(first + last) * (last - first + 1) / 2, last, first, i + 3 <= last and i + 3 or i,
      (i % 2 == 1 and i + 1 or i - 1), i - first + 1, i % 2 == 0 and even or 0, i + i % 2})
  end
end)

test('constant memory', function()
  local filter = mt.tensor {1, 2, 3}
  local x, out = mt.range(1, 10), mt.zeros(8)
  local k = mt.kernel(function(x, f, out)
    local i = grid(1)
    local c, d = constant(f), constant(filter)
    out[i] = x[i] * c[1] + x[i + 1] * d[2] + x[i + 2] * c[3]
  end)
  k[{1, 8}](x, filter, out)
  eq(out:tolist(), {14, 20, 26, 32, 38, 44, 50, 56})
  local writes = mt.kernel(function(f) local c = constant(f); f[1] = c[2] end)
  raises(function() writes[{1, 1}](filter) end, "the kernel writes to 'f', which it asks for as constant%('f'%)")
  raises(function() k[{1, 8}](x, mt.zeros(20000), out) end, "constant%('f'%) has 80000 bytes; .* holds 65536")
end)

test('print shows the output of threads in order', function()
  local code = "local k = mt.kernel(function(x) local i, j = grid(2) " ..
    "if i > 1 then print('at', i, j, x[i] / 2, i == j) end end) k[{2, {1, 2}}](mt.range(1, 2))"
  local pipe = io.popen(('%s -e "%s"'):format(program, code))
  eq(pipe:read '*a', 'at\t2\t1\t1\tfalse\nat\t2\t2\t1\ttrue\n')
  pipe:close()
  local text = [[\65\0662\x43\z
    d\a\b\f\v\27\"\\]]
  local name = os.tmpname()
  local file = io.open(name, 'w')
  file:write((('local k = require "mtorch".kernel(function() print("TEXT") end) k[{1, 1}]() print("TEXT")')
    :gsub('TEXT', function() return text end)))
  file:close()
  pipe = io.popen(('%s %s'):format(program, name))
  local first, second = pipe:read '*l', pipe:read '*l'
  pipe:close()
  os.remove(name)
  eq(first, second)
end)

-- ---- check=true ----------------------------------------------------------------------------------

--- Asserts that f launched with check=true raises such an error.
local function faulty(what, f, blocks, threads, ...)
  local arguments = {...}
  local k = mt.kernel(f, {check = true})
  return raises(function() k[{blocks, threads}](unpack(arguments)) end, what)
end

test('check: out of bounds', function()
  local x = mt.zeros(8)
  faulty(":%d+: index 9 is out of bounds in dimension 1 of 'x', which .* 1 to 8, in thread %(9, 1, 1%)",
    function(x) x[grid(1)] = 1 end, 3, 4, x)
  eq(x:sum():item(), 8)
end)

test('check: races', function()
  faulty("race: thread %(2, 1, 1%) of the grid writes an element of 'x' that thread %(1, 1, 1%) wrote, with no barrier",
    function(x) x[1] = grid(1) end, 1, 4, mt.zeros(4))
  faulty("race: .* reads an element of 'x' that thread %(%d, 1, 1%) wrote", function(x)
    local i = grid(1)
    x[i] = i
    if i < 4 then x[i] = x[i + 1] end
  end, 1, 4, mt.zeros(4))
  faulty("race: .* writes an element of 'x' that thread %(%d, 1, 1%) read", function(x)
    local i = grid(1)
    local v = x[i % 4 + 1]
    x[i] = v
  end, 1, 4, mt.zeros(4))
  faulty('race', function(x) -- a barrier does not order threads of different blocks
    local i = grid(1)
    x[i] = 1
    barrier()
    if i < 8 then x[i] = x[i + 1] end
  end, 2, 4, mt.zeros(8))
  faulty('race', function(x) -- the barrier after the loads is missing
    local t = thread_idx.x
    local cells = shared(8)
    cells[t] = x[t]
    barrier()
    cells[t] = cells[9 - t]
    x[t] = cells[t]
  end, 1, 8, mt.zeros(8))
  faulty('race', function(x)
    local i = grid(1)
    if i == 1 then x[1] = 5 end
    atomic_add(x, 1, 1)
  end, 1, 4, mt.zeros(1))
  local x = mt.zeros(6) -- two arguments of one memory
  faulty('race', function(x, y)
    local i = grid(1)
    y[i] = x[i] + 1
  end, 1, 5, x[{{1, 5}}], x[{{2, 6}}])
end)

test('check: divergent barriers and uninitialised shared memory', function()
  faulty(':%d+: divergent barrier: thread %(4, 1, 1%) of the grid does not reach it, other threads of its block do',
    function(x)
      local t = thread_idx.x
      if t < 4 then barrier() end
      x[t] = t
    end, 1, 4, mt.zeros(4))
  faulty('divergent barrier', function(x)
    local t = thread_idx.x
    for k = 1, t do barrier() end -- luacheck: ignore
    x[t] = t
  end, 1, 4, mt.zeros(4))
  faulty("uninitialised: thread %(8, 1, 1%) .* reads an element of 'cells' that no thread has written", function(x)
    local t = thread_idx.x
    local cells = shared(8)
    if t < 8 then cells[t] = t end
    barrier()
    x[t] = cells[t]
  end, 1, 8, mt.zeros(8))
  faulty('uninitialised', function(x) -- shared memory of another block is not visible
    local t = thread_idx.x
    local cells = shared(4)
    if block_idx.x == 1 then cells[t] = t end
    x[grid(1)] = cells[t]
  end, 2, 4, mt.zeros(8))
end)

test('check: correct kernels have no reports', function()
  local k = mt.kernel(function(x, sum, out)
    local i, t = grid(1), thread_idx.x
    local cells = shared(8)
    cells[t] = x[i]
    barrier()
    local step = 4
    while step >= 1 do
      if t <= step then cells[t] = cells[t] + cells[t + step] end
      step = math.floor(step / 2)
      barrier()
    end
    if t == 1 then atomic_add(sum, 1, cells[1]) end
    x[i] = x[i] * 2
    barrier()
    out[i] = x[(block_idx.x - 1) * 8 + t % 8 + 1]
  end, {check = true})
  local x, sum, out = mt.range(1, 32), mt.zeros(1), mt.zeros(32)
  k[{4, 8}](x, sum, out)
  eq(sum:item(), 528)
  eq(out[8]:item(), 2)
end)

-- ---- gradients -----------------------------------------------------------------------------------

test('mt.Function gives a kernel a gradient', function()
  local forward = mt.kernel(function(x, y)
    local i = grid(1)
    if i <= #x then y[i] = x[i] * x[i] * x[i] end
  end)
  local backward = mt.kernel(function(x, g, dx)
    local i = grid(1)
    if i <= #x then dx[i] = 3 * x[i] * x[i] * g[i] end
  end)
  local cube = mt.Function {
    forward = function(ctx, x)
      ctx:save_for_backward(x)
      local y = mt.zeros_like(x)
      forward:over(x)(x, y)
      return y
    end,
    backward = function(ctx, g)
      local x, dx = ctx:saved_tensors(), mt.zeros_like(g)
      mt.no_grad(function() backward:over(g)(x, g, dx) end)
      return dx
    end,
  }
  eq(mt.gradcheck(function(x) return cube(x) end, {mt.randn(20, 'float64'):requires_grad_()}), true)
end)

test('the same bits for every number of threads', function()
  local k = mt.kernel(function(a, b, c)
    local i, j = grid(2)
    local acc = 0
    for k = 1, a.shape[2] do acc = acc + a[i][k] * b[k][j] end
    c[i][j] = acc + math.exp(-acc)
  end)
  local a, b = mt.randn(96, 64), mt.randn(64, 96)
  local before, first = mt.get_num_threads(), nil
  for _, n in ipairs {1, 2, 3, 5} do
    mt.set_num_threads(n)
    local c = mt.zeros(96, 96)
    k:over(c)(a, b, c)
    first = first or c
    eq(mt.equal(c, first), true)
  end
  mt.set_num_threads(before)
end)

test('guards of several coordinates, at widths of one row and of several rows in a tile', function()
  local stencil = mt.kernel(function(a, b)
    local i, j, k = grid(3)
    local nz, ny, nx = a.shape[1], a.shape[2], a.shape[3]
    if i > 1 and i < nx and j > 1 and j < ny and k <= nz then
      b[k][j][i] = a[k][j][i - 1] + a[k][j][i + 1] * 2 + a[k][j - 1][i] * 3 + a[k][j + 1][i] * 4
    elseif i % 3 == 0 and i <= nx and j <= ny and k <= nz then
      b[k][j][i] = i + 100 * j
    end
  end)
  for _, dtype in ipairs{'float32', 'float64', 'int32', 'float16'} do
    for _, size in ipairs{{1, 5, 7}, {3, 20, 64}, {2, 9, 100}, {1, 4, 300}, {1, 3, 1100}, {5, 12, 11}} do
      local nz, ny, nx = unpack(size)
      local a = mt.randint(-5, 5, size):to(dtype)
      local b = mt.full(size, 7, {dtype = dtype})
      local expected = b:clone()
      for j = 1, ny do
        for i = 3, nx, 3 do expected[{{}, j, i}] = i + 100 * j end
      end
      expected[{{}, {2, ny - 1}, {2, nx - 1}}] = a[{{}, {2, ny - 1}, {1, nx - 2}}] + a[{{}, {2, ny - 1}, {3, nx}}] * 2 +
        a[{{}, {1, ny - 2}, {2, nx - 1}}] * 3 + a[{{}, {3, ny}, {2, nx - 1}}] * 4
      local blocks = {mt.cdiv(nx, 16), mt.cdiv(ny, 8), nz}
      stencil[{blocks, {16, 8, 1}}](a, b)
      eq(b:tolist(), expected:tolist())
      local turned = mt.full({nx, ny, nz}, 7, {dtype = dtype}):permute(3, 2, 1)
      stencil[{blocks, {16, 8, 1}}](a:transpose(2, 3):contiguous():transpose(2, 3), turned)
      eq(turned:tolist(), expected:tolist())
    end
  end
end)

test('whole numbers divided by one number for all lanes: small ones, large ones, negative ones', function()
  local k = mt.kernel(function(x, by, out)
    local i = grid(1)
    if i <= #x then out[i][1], out[i][2] = x[i] % by, math.floor(x[i] / by) end
  end)
  local small = mt.cat {mt.range(-70, 70), mt.randint(-1000000, 1000000, {200})}
  local large = mt.cat {mt.range(2 ^ 52 - 40, 2 ^ 52 + 40), -mt.range(2 ^ 52 - 40, 2 ^ 52 + 40), small}
  local longest = mt.cat {mt.range(2 ^ 52 - 90, 2 ^ 52 - 1), -mt.range(2 ^ 52 - 90, 2 ^ 52 - 1)}
  for _, x in ipairs{small, longest, large} do
    for _, by in ipairs{1, 2, 3, 7, 10, 641, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 40 + 1, -3} do
      local out = mt.zeros({#x, 2}, 'int64')
      k:over(x)(x, by, out)
      eq(out:tolist(), mt.stack({x:remainder(by), x:floor_divide(by)}, 2):tolist(), by)
    end
  end
end)

test('rows whose index is computed once are read several times', function()
  local function ends(row, n) return row[1] * 2 + row[n], row[n - 1] end
  same(function(a, out)
    local i = grid(1)
    if i < #a then
      local n = a.shape[2]
      local x, y = ends(a[i % 3 + 1], n)
      out[i][1], out[i][2] = x - y, ends(a[#a - i], n - 1)
    end
  end, {2}, {16}, {counting(20, 5), mt.zeros(20, 2, 'float64')})
end)

test('one kernel with tiles of different shapes in turn, whose positions vary or not', function()
  local function mixed(a, out)
    local i, j = grid(2)
    if i <= out.shape[1] and j <= out.shape[2] then
      local s, last = i - j, 0
      for k = 1, 3 do
        if k + i > j then last = a[i][j] * k + i end
        s = s + last * (k - j)
      end
      if s > i then s = j end
      out[i][j] = s + last
    end
  end
  local k = mt.kernel(mixed)
  for _, size in ipairs{{1, 1}, {1, 9}, {9, 1}, {6, 7}, {1, 9}, {6, 7}, {1, 1}, {9, 1}} do
    local a, out = counting(unpack(size)), mt.zeros(size, 'float64')
    local expected = reference.run(mixed, {2, 2}, {5, 5}, a, out:clone())
    k:over(out)(a, out)
    eq(testing.bits(out:tolist()), testing.bits(expected[2]))
    out:zero_()
    k[{ {2, 2}, {5, 5} }](a, out)
    eq(testing.bits(out:tolist()), testing.bits(expected[2]))
  end
end)

test('numbers that change between the accesses of a block', function()
  for _, dtype in ipairs{'float32', 'float64', 'int32', 'uint8'} do
    same(function(a, out)
      local i = grid(1)
      local j, w = i, a[1]
      if i <= #a then
        out[j][1] = a[j] * w + 1
        j = #a + 1 - i
        out[i][2] = a[j] * 2 - w
        w = a[2]
        out[i][3] = a[j] + w * 3 + j
      end
    end, {2}, {10}, {counting(17):to(dtype), mt.zeros({17, 3}, dtype == 'uint8' and 'int32' or dtype)})
  end
end)

testing.finish()
