-- test_kernel_threads.lua -- grid kernels as scalar machine code, thread after thread, and without loops as rows of
-- vectors, against check mode, which interprets them in lanes
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local test, eq, raises = testing.test, testing.eq, testing.raises

--- Asserts that f(out, ...) has the same bits in both modes; `size`: of the launch, by default over `out`.
local function same(size, f, out, ...)
  local plain, checked = out:clone(), out:clone()
  local function launch(k, to, ...)
    if size then k[size](to, ...) else k:over(to)(to, ...) end
  end
  launch(mt.kernel(f), plain, ...)
  launch(mt.kernel(f, {check = true}), checked, ...)
  if out.dtype == 'int64' then return eq(plain:ne(checked):sum():item(), 0) end -- tolist ends at 2^53
  eq(testing.bits(plain:reshape(-1):tolist()), testing.bits(checked:reshape(-1):tolist()))
end

test('sums of one thread, every dtype', function()
  for _, dtype in ipairs {'float32', 'float64', 'int64', 'int32', 'int16', 'int8', 'uint8', 'float16', 'bfloat16'} do
    local x = mt.randint(dtype == 'uint8' and 0 or -60, 100, {50}):to(dtype)
    same({1, 1}, function(out, x)
      local sum = x[1] - x[1]
      for i = 1, #x do
        sum = sum + x[i]
        out[i] = sum
      end
    end, x:clone(), x)
  end
  same({1, 1}, function(out, x, y) -- float64 from float32, and bool
    for i = 1, #x do
      out[i] = x[i] > 0 and y[i] or -x[i]
    end
  end, mt.zeros(9, 'float64'), mt.randn(9), mt.randn(9, 'float64'))
  same({1, 1}, function(out, x)
    for i = 1, #x do out[i] = x[i] > 0 ~= out[i] end
  end, mt.randn(9):gt(0), mt.randn(9))
end)

test('rows of positions times a number, at steps that are in the code and at larger ones', function()
  local k = mt.kernel(function(x, step, start) local i = grid(1); if i <= #x then x[i] = i * step + start end end)
  for _, dtype in ipairs{'float32', 'float64', 'int64', 'int32'} do
    for _, step in ipairs{0, 1, -1, 3, 7, 8, -8, 9, -9, 127, 128, -128, 32767, 32768, -70000, 1000000} do
      for _, n in ipairs{1, 32, 1000} do
        local x = mt.zeros(n, dtype)
        k:over(x)(x, step, -5)
        eq(mt.equal(x, (mt.range(1, n):double() * step - 5):to(dtype)), true)
      end
    end
  end
end)

test('rows that are sorted in place', function()
  same({2, 16}, function(rows)
    local i = grid(1)
    if i <= rows.shape[1] then
      for k = 2, rows.shape[2] do
        local v, j = rows[i][k], k - 1
        while j >= 1 do
          if rows[i][j] <= v then break end
          rows[i][j + 1] = rows[i][j]
          j = j - 1
        end
        rows[i][j + 1] = v
      end
    end
  end, mt.randn(20, 17))
end)

test('whole numbers: quotients of all signs, large products, comparisons', function()
  local list = {-9223372036854775807, -4294967297, -4294967296, -100, -7, -2, -1, 0, 1, 2, 7, 100, 4294967295,
    4294967296, 9007199254740992, 9223372036854774784}
  local x = mt.tensor(list, 'int64')
  for _, by in ipairs {1, -1, 2, -2, 3, 7, -7, 1024, 4294967296} do
    local divisor = mt.tensor({by}, 'int64')
    same({1, 1}, function(out, x, divisor)
      for i = 1, #x do
        local d = divisor[1]
        out[i][1], out[i][2] = math.floor(x[i] / d), x[i] % d
        out[i][3], out[i][4] = math.floor(x[i] / 8) + x[i] % 8, math.floor(x[i] / 13) + x[i] % 13
        out[i][5], out[i][6] = x[i] * d - i, math.min(x[i], d) + math.max(x[i], d)
        out[i][7] = (x[i] < d and 1 or 0) + (x[i] <= d and 2 or 0) + (x[i] == d and 4 or 0) + (x[i] ~= d and 8 or 0)
        out[i][8] = math.abs(x[i]) - (-d)
      end
    end, mt.zeros(#list, 8, 'int64'), x, divisor)
  end
end)

test('floats: NaN, infinities, conversions to whole numbers, functions', function()
  local list = {0 / 0, 1 / 0, -1 / 0, 0, -0.0, 0.5, -0.5, 1e-40, 3.7, -3.7, 1e10, -1e10, 1e19, -1e19, 1e30}
  for _, dtype in ipairs {'float32', 'float64'} do
    same({1, 1}, function(out, x)
      for i = 1, #x do
        for j = 1, #x do
          local a, b = x[i], x[j]
          out[i][j][1] = math.min(a, b) - math.max(a, b) * 2
          out[i][j][2] = (a < b and 1 or 0) + (a <= b and 2 or 0) + (a == b and 4 or 0) + (a ~= b and 8 or 0)
          out[i][j][3] = a % b + math.floor(a)
          local taken = 0
          if a < b then taken = taken + 1 end
          if not (a <= b) then taken = taken + 2 end
          if a == b then taken = taken + 4 end
          if a ~= b then taken = taken + 8 end
          if not (a == b) and (a > b or a ~= a) then taken = taken + 16 end
          out[i][j][7] = taken
          out[i][j][4] = (a > b or a == 0) and math.exp(-math.abs(b)) or math.sqrt(math.abs(a)) / (b * b + 1)
          out[i][j][5] = math.ceil(b) + (not (a < b) and a ^ 3 or -b)
          out[i][j][6] = math.sin(a * 0.25) + math.log(math.abs(b) + 1) * (a - math.tanh(b) / (1 + math.cos(a) ^ 2))
        end
      end
    end, mt.zeros(#list, #list, 7, dtype), mt.tensor(list, dtype))
  end
end)

test('loops: steps of all signs and kinds, limits at the ends of int64', function()
  same({1, 1}, function(out, steps)
    for k = 1, 4 do
      local count = 0
      for i = 10, 1, -3 do count = count + i end
      for i = 1, 10, steps[k] do count = count * 2 + i end
      for i = 10, 1, steps[k] do
        count = count * 3 + i
        if count > 100000 then break end
      end
      for i = steps[5], steps[5], 2000 do count = count + 1 end
      for f = 0.5, 2, 0.25 do count = count + math.floor(f * 4) end
      for f = 2, 0.5, -0.25 do count = count + math.floor(f * 4) end
      out[k] = count
    end
  end, mt.zeros(4, 'int64'), mt.tensor({3, 1, -4, -1, 9223372036854774784}, 'int64'))
end)

test('deep expressions and many variables', function()
  local x = mt.randn(12)
  same({1, 1}, function(out, x, q)
    for i = 1, #x do
      local a, b, c, d, e, f, g, h = x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]
      local j, k, l, m, n, o, p, r = x[i], x[9], x[10], x[11], x[12], 1.5, 2.5, 3.5
      local s, t, u, v, w, y, z = q[1], q[2], q[3], q[4], q[5], q[6], q[7]
      out[i] = a + (b - (c * (d + (e - (f * (g + (h - (j * (k + (l - m * (n + o * math.exp(p - r * x[s])))))))))))) +
        x[(s + (t * (u - (v + (w * (y - (z + (q[q[q[s]]] * (t - (u + (v * i))))))))))) % #x + 1]
      s = s + t; t = u - v; u = w + y; v = z - s
      a = b + c; b = d * e; c = f - g; d = h + j; e = k * l; f = m - n; g = o * p; h = r - a
      out[i] = out[i] + a + b + c + d + e + f + g + h + s + t + u + v
    end
  end, mt.zeros(12), x, mt.tensor({3, 1, 2, 4, 5, 6, 7}, 'int64'))
end)

test('updates in the order of threads, with the old values', function()
  local x = mt.randint(1, 9, {1000})
  local places, counts = mt.zeros(1000, 'int64'), mt.zeros(9, 'int64')
  mt.kernel(function(x, places, counts)
    local i = grid(1)
    if i <= #x then places[i] = atomic_add(counts, x[i], 1) end
  end):over(x)(x, places, counts)
  local seen, expected = {}, {}
  for i, v in ipairs(x:tolist()) do
    expected[i] = seen[v] or 0
    seen[v] = expected[i] + 1
  end
  eq(places:tolist(), expected)
  same({4, 256}, function(sum, x)
    local i = grid(1)
    if i <= #x then atomic_add(sum, 1, x[i]) end
  end, mt.zeros(1), mt.randn(1000))
end)

test('updates of 16-bit floats', function()
  for _, dtype in ipairs {'float16', 'bfloat16'} do
    for _, columns in ipairs {1, 3} do
      same({2, 30}, function(out)
        local i = grid(1)
        atomic_add(out, i % 3 + 1, #out[1], 0.5)
        atomic_max(out, 4, 1, i % 7)
      end, mt.zeros(4, columns, dtype))
    end
  end
end)

test('positions of threads and blocks in two dimensions', function()
  same({{2, 3}, {3, 2}}, function(out)
    local i, j = grid(2)
    for k = 1, 2 do
      out[i][j][k] = thread_idx.x + 10 * thread_idx.y + 100 * block_idx.x + 1000 * block_idx.y + 10000 * block_dim.x +
        100000 * grid_dim.y
    end
  end, mt.zeros(6, 6, 2, 'int64'))
end)

test('views of any stride', function()
  local base = mt.randn(8, 10)
  same({1, 8}, function(out, x)
    local i, sum = grid(1), 0.0
    for j = 1, x.shape[2] do
      sum = sum + x[i][j]
      out[j][i] = sum
    end
  end, mt.zeros(10, 8):transpose(1, 2):clone():transpose(1, 2), base)
  local x = base:narrow(2, 3, 5)
  same({1, 5}, function(out, x)
    local j, sum = grid(1), 0.0
    for i = 1, x.shape[1] do
      sum = sum + x[i][j]
      out[i][j] = sum
    end
  end, mt.zeros(8, 5), x)
end)

test('faults name the line, the index and the thread', function()
  local x, out = mt.zeros(10), mt.zeros(5, 20)
  local walk = mt.kernel(function(x, out)
    local i = grid(1)
    for k = 1, 12 do
      out[i][k] = 1
      out[i][k] = x[k]
    end
  end)
  local text = raises(function() walk[{1, 5}](x, out) end,
    "index 11 is out of bounds in dimension 1 of 'x', which has the positions 1 to 10, in thread %(1, 1, 1%)")
  assert(text:find(':' .. debug.getinfo(1, 'l').currentline - 5 .. ':', 1, true), text)
  raises(function() walk[{1, 9}](mt.zeros(12), out) end, "index 6 .* dimension 1 of 'out'.*thread %(6, 1, 1%)")
  local divide = mt.kernel(function(a, out)
    for k = 1, #a do out[k] = 7 % a[k] end
  end)
  raises(function() divide[{1, 1}](mt.tensor({1, 2, 0}, 'int64'), mt.zeros(3, 'int64')) end,
    'a whole number is divided by zero, in thread %(1, 1, 1%)')
end)

test('a fault in an aliased row is named, and the threads after it run', function()
  local k = mt.kernel(function(m, z)
    for i = 1, 5 do
      local r = m[i + 0]
      r[1] = r[2] + r[3] * r[4]
      r[1] = z[i]
      r[2] = r[1] % 7
    end
  end)
  local text = raises(function() k[{1, 1}](mt.zeros(9, 9), mt.zeros(3)) end, "index 4 is out of bounds.*'z'")
  assert(text:find(':' .. debug.getinfo(1, 'l').currentline - 5 .. ':', 1, true), text)
  local x, out = mt.zeros(3), mt.zeros(8)
  raises(function()
    mt.kernel(function(x, out)
      local i = grid(1)
      for k = 1, 2 do out[i] = 1 + (i == 3 and x[i + 1] or 0) end
    end)[{1, 8}](x, out)
  end, 'index 4 .*thread %(3, 1, 1%)')
  eq(out:sum():item() >= 7, true)
end)

test('kernels that differ only in a shared array', function()
  local x, s = mt.zeros(4), mt.zeros(10)
  mt.kernel(function(x, s)
    for k = 1, 10 do s[k] = k end
    x[1] = s[3]
  end)[{1, 1}](x, s)
  mt.kernel(function(x)
    local s = shared(10)
    for k = 1, 10 do s[k] = k end
    x[2] = s[4]
  end)[{1, 1}](x)
  eq(x:tolist(), {3, 4, 0, 0})
  local all = mt.zeros(32)
  local few = all:narrow(1, 1, 8)
  mt.kernel(function(x)
    local t, s = thread_idx.x, shared(32)
    s[t] = x[t]
    barrier()
    all[t] = s[t]
  end)[{1, 32}](mt.zeros(32))
  raises(function()
    mt.kernel(function(x)
      local t = thread_idx.x
      few[t] = x[t]
      barrier()
      local s = shared(32)
      s[t] = few[t]
    end)[{1, 32}](mt.ones(32))
  end, "index 9 is out of bounds in dimension 1 of 'few'")
  eq(all:narrow(1, 9, 24):sum():item(), 0)
end)

test('sums of floats in loops do not depend on the layout', function()
  local w, sums = mt.randn(40, 40), {}
  for layout, x in ipairs {w, w:t():contiguous():t()} do
    sums[layout] = mt.zeros(1)
    mt.kernel(function(out, w)
      local i = grid(1)
      for k = 1, 40 do atomic_add(out, 1, w[i][k]) end
    end)[{1, 40}](sums[layout], x)
  end
  eq(sums[1]:item(), sums[2]:item())
end)

test('powers and powers of two', function()
  same({1, 9}, function(out, x)
    local i = grid(1)
    local n, h = i - 5, i
    for k = 1, 3 do
      out[i][k] = x[i] ^ 2 + (x[i] - 1) ^ 3 - n ^ 2 + 2 ^ k
      h = (h * 1103515245 + 12345) % 2147483648
      out[i][k] = out[i][k] + h % 4294967296 + math.floor((h - 2147483648) / 8589934592)
    end
  end, mt.zeros(9, 3, 'float64'), mt.randn(9, 'float64'))
end)

-- ---- rows of vectors: kernels without loops ----------------------------------------------------------

local whole = {'int64', 'int32', 'int16', 'int8', 'uint8'}
local real = {'float32', 'float64', 'float16', 'bfloat16'}
local function values(dtype, n) return mt.randint(dtype == 'uint8' and 0 or -100, 120, {n}):to(dtype) end
local function condition(x, kind) -- all lanes, none, some
  if kind == 'mixed' then return mt.randn(#x) end
  return mt.full({#x}, kind == 'all' and 1 or -1)
end

test('rows: every dtype, masks with all, no and some lanes, every number of lanes in the last vector', function()
  for _, list in ipairs {whole, real} do
    for a, from in ipairs(list) do
      local to = list[a % #list + 1]
      for k, n in ipairs {64, 65, 71, 79, 80, 95, 128, 257} do
        local kind = ({'all', 'none', 'mixed'})[k % 3 + 1]
        for _, into in ipairs {from, to} do
          same(nil, function(out, x, c)
            local i = grid(1)
            if i <= #x and c[i] > 0 then out[i] = x[i] + 3 end
          end, values(into, n), values(from, n), condition(values(from, n), kind))
          same(nil, function(out, x, c)
            local i = grid(1)
            if i > #x then return end
            if c[i] > 0 then out[i] = -x[i] elseif c[i] < -0.5 then out[i] = x[i] * 2 end
          end, values(into, n), values(from, n), condition(values(from, n), 'mixed'))
        end
      end
    end
  end
end)

test('rows: strides of every sign, in place, and columns of matrices', function()
  for _, dtype in ipairs {'float32', 'float64', 'int64', 'int32', 'int16', 'uint8', 'float16'} do
    local c = mt.randn(300)
    same({1, 130}, function(out, x, c)
      local i = grid(1)
      out[3 * i - 2] = x[301 - 2 * i] - x[2 * i]
      if c[i] > c[2 * i] then out[3 * i] = x[i] + 5 end
    end, values(dtype, 390), values(dtype, 300), c)
    same({1, 130}, function(out, c)
      local i = grid(1)
      out[2 * i] = out[2 * i] + 1
      if c[i] > 0 then out[2 * i] = 1 - out[2 * i - 1] end
    end, values(dtype, 260), c)
    same(nil, function(out, x)
      local i, j = grid(2)
      if i <= out.shape[1] and j <= out.shape[2] then out[i][j] = x[i][j][1] - x[i][j][3] + x[1][1][2] end
    end, values(dtype, 700):reshape(7, 100), values(dtype, 2100):reshape(7, 100, 3))
  end
  local flags = mt.randn(200):gt(0)
  same({1, 100}, function(out, x, flags)
    local i = grid(1)
    out[i] = flags[i] and not flags[2 * i] or x[i] > 1
    if flags[i] then out[101 - i + 100] = x[i] > 0 end
  end, mt.zeros(200):gt(0), mt.randn(100), flags)
end)

test('rows: whole numbers at the ends of int32 and int64, quotients, remainders, products', function()
  local list = {-9223372036854775807, 9223372036854774784, -2147483648, 2147483647, -2147483647, 4294967295, 16777217,
    -16777216, 65536, -65537, 1, 0, -1, 7, -7, 100}
  for _, dtype in ipairs {'int64', 'int32'} do
    for _, other in ipairs {'float32', 'float64'} do
      local n = 8 * #list
      local all = mt.tensor(list, 'int64')
      if dtype == 'int32' then all = all:clamp(-2147483648, 2147483647):to(dtype) end
      local x, y = all:tile(8), all:repeat_interleave(8)
      same({1, n}, function(out, x, y, real)
        local i = grid(1)
        local a, b = x[i], y[i]
        out[i][1], out[i][2], out[i][3] = a + b, a - b, a * b
        out[i][4], out[i][5] = math.min(a, b) - math.max(a, b), math.abs(a) + (-b)
        out[i][6], out[i][7] = math.floor(a / 8) + a % 8, math.floor(a / 9) + a % 9
        out[i][8] = (a < b and 1 or 0) + (a <= b and 2 or 0) + (a == b and 4 or 0) + (a ~= b and 8 or 0)
        out[i][9] = math.floor(a / (b % 5 + 1)) + a % (b % 5 + 1) + math.floor(real[i]) + math.ceil(real[i] * 3)
        out[i][10] = math.floor(a % 1000 - b % 7 * 0.75)
      end, mt.zeros(n, 10, 'int64'), x, y, mt.randn(n):to(other) * 1e9)
    end
  end
  same({1, 64}, function(out, m) -- the difference of 2^63 - 1 and -2^63 + i is beyond int64
    local i = grid(1)
    local least = m * 2048
    if least + i < -(least + 1) then out[i] = 1 else out[i] = 2 end
  end, mt.zeros(64), 2 ^ 52)
end)

test('rows: quotients and remainders by constants, of all numbers of 16 bits', function()
  local x = mt.range(-32768, 32767):to 'int16'
  same({256, 256}, function(out, x)
    local i = grid(1)
    local a = x[i]
    out[i][1], out[i][2], out[i][3] = math.floor(a / 3), math.floor(a / 7) * 10 + a % 7, math.floor(a / 49)
    out[i][4], out[i][5], out[i][6] = math.floor(a / 1000) + a % 1000, math.floor(a / 65535), a % 1048573
  end, mt.zeros(65536, 6, 'int64'), x)
end)

test('rows: positions, parities, returns, functions, borders of pictures', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    same(nil, function(out, x)
      local i = grid(1)
      local n = #x
      if i > n then return end
      if i % 2 == 0 then out[i] = x[i] * i else out[i] = x[n + 1 - i] - i * 0.25 end
      if i > n - 5 or i < 7 then
        out[i] = -1
        return
      end
      if x[i] > 1 then return end
      out[i] = i
    end, mt.zeros(333, dtype), mt.randn(333, dtype))
  end
  local function clamp(v, low, high)
    if v < low then return low end
    if v > high then return high end
    return v
  end
  same(nil, function(out, p)
    local i, j = grid(2)
    if i > 1 and i < p.shape[1] and j > 1 and j < p.shape[2] then
      local sum = 0
      for a = -1, 1 do for b = -1, 1 do sum = sum + p[i + a][j + b] end end
      out[i][j] = math.floor(sum / 9)
    elseif j <= i and i <= p.shape[1] then out[i][j] = clamp(p[i][j] * 2 - 30, 0, 255) end
  end, mt.zeros(40, 150):to 'uint8', mt.randint(0, 255, {40, 150}):to 'uint8')
  same({{2, 3}, {80, 4}}, function(out)
    local i = (block_idx.x - 1) * block_dim.x + thread_idx.x
    local j = (block_idx.y - 1) * block_dim.y + thread_idx.y
    if i <= out.shape[2] and j <= out.shape[1] and thread_idx.x % 3 ~= 0 then out[j][i] = thread_idx.x - block_idx.y end
  end, mt.zeros(10, 150))
  same(nil, function(out, x, q) -- indices that are not linear
    local i = grid(1)
    if i <= #x then out[i] = x[q[i]] + x[i % #x + 1] - x[(i - 2) % #x + 1] end
  end, mt.zeros(300), mt.randn(300), mt.randint(1, 300, {300}):long())
end)

test('rows that differ from their neighbours, or only from those far away', function()
  local x, bias, table = mt.randn(900, 40), mt.randn(900), mt.randint(1, 900, {900}):long()
  local function check(f, ...) same(nil, f, mt.zeros(900, 40), x, ...) end
  check(function(out, x)
    local i, j = grid(2)
    if i > 900 or j > 40 then return end
    if i > 308 and i < 315 then out[i][j] = x[i][j] + 1 else out[i][j] = x[901 - i][41 - j] end
    if i * 3 >= 1200 and i <= 777 then out[i][j] = out[i][j] - i * 0.5 end
  end)
  check(function(out, x, bias, table)
    local i, j = grid(2)
    if i > 900 or j > 40 then return end
    local k = i % 7
    if k == 3 then out[i][j] = bias[i] * x[i][j]
    elseif j <= i then out[i][j] = x[table[i]][j] + k
    elseif i == 33 then out[i][j] = 7 end
  end, bias, table)
  check(function(out, x)
    local i, j = grid(2)
    if i < 2 or i > 899 or j > 39 then return end
    local half = math.floor(i / 2)
    out[i][j] = x[half][j] + x[i - 1][j + 1] + (i > 600 and 1 or half)
    if x[i + 1][j] > 0.3 then out[i][j + 1 - 1] = i * j end
  end)
  check(function(out, x)
    local i, j = grid(2)
    if i <= 900 and j <= 40 then out[i][j] = x[i][j] * (i % 14 == 7 and 2 or 1) end
  end)
  same(nil, function(out, x) -- a row is stored where another one is read
    local i, j = grid(2)
    if i <= 450 and j <= 40 then out[2 * i][j] = out[2 * i - 1][j] + x[i][j] end
  end, mt.randn(900, 40), x)
end)

test('rows: faults name the line, the index and the first thread, and others run', function()
  local k = mt.kernel(function(out, x, c)
    local i = grid(1)
    if c[i] > 0 then
      out[i] = x[i + 1]
    end
  end)
  local out, x, c = mt.zeros(200), mt.ones(200), mt.ones(200)
  local text = raises(function() k[{1, 200}](out, x, c) end,
    "index 201 is out of bounds in dimension 1 of 'x', which has the positions 1 to 200, in thread %(200, 1, 1%)")
  assert(text:find(':' .. debug.getinfo(1, 'l').currentline - 6 .. ':', 1, true), text)
  eq(out:sum():item(), 199)
  raises(function() k[{2, 128}](out, mt.ones(300), mt.ones(300)) end, "index 201 .* 'out'.*thread %(201, 1, 1%)")
  c[200] = -1
  k[{1, 200}](out, x, c)
  local places = mt.ones(200):long()
  places[170], places[180] = 0, 201
  raises(function()
    mt.kernel(function(out, x, places)
      local i = grid(1)
      out[i] = x[places[i]]
    end)[{1, 200}](out, x, places)
  end, "index 0 is out of bounds in dimension 1 of 'x'.*thread %(170, 1, 1%)")
  local divide = mt.kernel(function(out, a)
    local i = grid(1)
    out[i] = 7 % a[i]
  end)
  local a = mt.ones(200):long()
  a[150] = 0
  raises(function() divide[{1, 200}](out, a) end, 'a whole number is divided by zero, in thread %(150, 1, 1%)')
end)

-- ---- barriers --------------------------------------------------------------------------------------

test('barriers: blocks of several sizes', function()
  for _, n in ipairs {20, 60, 8} do
    same({1, n}, function(out, limit)
      local t = thread_idx.x
      if t <= limit then out[t] = 1 end
      barrier()
      out[t] = out[t] + t
    end, mt.zeros(n), 5)
  end
end)

test('barriers: positions compared with floats', function()
  for _, last in ipairs {6.5, -1.5, 90.5} do
    same({1, 20}, function(out, q, limit)
      local t = thread_idx.x
      q[t] = 0
      barrier()
      if t <= limit then out[t] = 1 end
    end, mt.zeros(20), mt.zeros(20, 'int64'), last)
  end
end)

test('barriers: a fault in a row of a loop names the index', function()
  local k = mt.kernel(function(x, out, columns)
    local t = thread_idx.x
    local sum = 0.0
    for c = 1, columns do sum = sum + x[t][c] end
    out[t] = sum
    barrier()
    out[t] = out[t] + 1
  end)
  raises(function() k[{1, 8}](mt.ones(8, 5), mt.zeros(8), 6) end, "index 6 .* dimension 2 of 'x'.*thread %(1, 1, 1%)")
  raises(function() k[{1, 9}](mt.ones(8, 5), mt.zeros(9), 5) end, "index 9 .* dimension 1 of 'x'.*thread %(9, 1, 1%)")
end)

test('barriers: large offsets in indices of shared arrays', function()
  same({1, 3}, function(out)
    local s = shared(3, 1000)
    local far = thread_idx.x + 1000000
    s[far - 1000000][1] = far
    barrier()
    out[thread_idx.x] = s[far - 1000000][1]
  end, mt.zeros(3))
end)

--- The text of a random kernel without races, whose threads, up to `size`, exchange numbers through shared arrays.
local function text_with_barriers(seed, size)
  local state, lines, depth, names = seed * 7919 + 12345, {}, 1, 0
  local function random(n)
    state = (state * 48271) % 2147483647
    return state % n + 1
  end
  local function one(list) return list[random(#list)] end
  local function line(text, ...)
    lines[#lines + 1] = ('  '):rep(depth) .. (select('#', ...) > 0 and text:format(...) or text)
  end
  for _ = 1, 5 do random(2) end
  local uniform = {'u', 'b', 'n', '2', '5'}
  local whole, number
  function whole(level, same)
    if level > 2 or random(3) == 1 then return one(same and uniform or {'t', 'w', 'w2', one(uniform)}) end
    local a, b = whole(level + 1, same), whole(level + 1, same)
    return one {('(%s + %s)'):format(a, b), ('(%s - %s * 3)'):format(a, b), ('math.max(%s, %s)'):format(a, b),
      ('math.floor(%s / %d)'):format(a, random(9)), ('(%s %% %d)'):format(a, random(12))}
  end
  local function index(same) return ('%s %% n + 1'):format(whole(1, same)) end
  function number(level)
    if level > 2 or random(3) == 1 then return one {'v', 'v2', 'x[i]', '0.5', 'w'} end
    local a, b = number(level + 1), number(level + 1)
    return one {('(%s + %s)'):format(a, b), ('(%s - %s * 0.25)'):format(a, b), ('math.min(%s, %s)'):format(a, b),
      ('(%s < %s and %s or %s)'):format(a, b, b, a), ('math.exp(-math.abs(%s))'):format(a)}
  end
  local function assign() -- without barriers
    local choice = random(9)
    if choice == 1 then line('w = %s %% 13', whole(0))
    elseif choice == 2 then line('if %s > %s then %s = %s %% 16 end', whole(1), whole(1), one {'v', 'v2'}, number(0))
    elseif choice == 3 then
      line('for k = t %% 3, %d do', random(5))
      line('  %s = v * 0.5 + k', one {'v', 'v2'})
      if random(2) == 1 then line('  if v > %d then break end', random(4)) end
      line 'end'
    elseif choice == 4 then line('u = %s %% 7', whole(0, true))
    elseif choice == 5 then line('local f = %s; w2, v2 = w, f * 0.5', number(0))
    elseif choice == 7 then -- the same number of iterations in all threads
      line('for k = 1, %s %% 4 do %s = %s * 0.5 + x[k] * %s end', whole(1, true), one {'v', 'v2'}, one {'v', 'v2'},
        one {'x[i]', 'x[b * n + 1 - t]', 'k', 'w', 'y[t]', 'y[2 * t]'})
    elseif choice == 8 then -- one iteration less in some of them
      line('for k = %s, n, %s do v2 = (v2 + y[k]) %% 32 end', one {'t', '2 * t', 't + 3'}, one {'n', '5', 'b + 3'})
    elseif choice == 9 then
      line('if %s then %s = %s + 1 elseif %s > 0 then w2 = %s %% 17 end', one {'t > 3', 'v < v2', 'w == 1'},
        one {'v', 'v2'}, one {'v', 'v2'}, number(1), whole(1))
    else line('%s = %s %% 16 - 8', one {'v', 'v2'}, number(0)) end
  end
  local function block(level)
    depth = depth + 1
    for _ = 1, random(3) do
      local choice = random(level > 2 and 8 or 12)
      if choice <= 2 then assign()
      elseif choice == 3 then line('s[t] = %s; barrier(); v = s[%s]; barrier()', number(0), index())
      elseif choice == 4 then
        line('q[t] = %s %% 50; barrier()', whole(0))
        line('%s = q[%s] %% 9; barrier()', one {'w', 'w2'}, index())
      elseif choice == 5 then
        line('local old = atomic_add(h, %s %% 8 + 1, %s %% 5); barrier()', whole(1), whole(1))
        line('w2 = h[t %% 8 + 1] + %s; barrier()', one {'0', 'old'})
      elseif choice == 6 then line('q[t] = w; barrier(); u = q[%s] %% 7; barrier()', index(true))
      elseif choice == 7 then
        line('m[t %% 4 + 1][t] = %s; barrier(); v2 = m[%s %% 4 + 1][%s]; barrier()', number(1), whole(1), index())
      elseif choice == 8 then
        local step = one {'1', 'b', '5'}
        line('s[t] = %s; barrier()', number(1))
        line('if t > %s then v = v %% 8 + s[t - %s] end', step, step)
        line('if t + %s <= n then v2 = s[t + %s] - (t < 9 and s[n] or 1) end; barrier()', step, step)
      elseif choice == 12 then
        names = names + 1
        line('for c%d = %s, %s %% 4 + 1 do', names, one {'1', '0', 'u'}, whole(1, true))
        uniform[#uniform + 1] = 'c' .. names
        block(level + 1)
        if random(2) == 1 then line('  if %s == %s then break end', whole(1, true), whole(1, true)) end
        if random(2) == 1 then block(level + 1) end
        line 'end'
        uniform[#uniform] = nil
      elseif choice == 9 then
        names = names + 1
        local j = 'j' .. names
        line('local %s = n', j)
        line('while %s > 0 do', j)
        block(level + 1)
        line('  if t <= %s then v = v + 1 end', j)
        line('  %s = math.floor(%s / %d)', j, j, random(3) + 1)
        line 'end'
      else
        line('if %s %% 3 > 0 then', whole(0, true))
        block(level + 1)
        if random(2) == 1 then
          line 'else'
          block(level + 1)
        end
        line 'end'
      end
    end
    depth = depth - 1
  end
  local place = one {'local t, b, i = thread_idx.x, block_idx.x, grid(1)',
    'local t, b = thread_idx.x + (thread_idx.y - 1) * block_dim.x, block_idx.x\n' ..
    '  local i = t + (b - 1) * block_dim.x * block_dim.y'}
  line(place)
  line('local s, q, h, m = shared(%d%s), shared(%d%s), shared(8%s), shared(4, %d)', size, one {'', ", 'float64'"}, size,
    one {", 'int64'", ", 'int32'", ", 'uint8'"}, one {", 'int64'", ", 'int32'"}, size)
  line 'local n, u, w, w2, v, v2 = block_dim.x * block_dim.y, b % 3, t % 5, 1, x[i], 0.5'
  line 'for k = 1, 4 do m[k][t] = k end'
  line 'for k = t, 8, n do h[k] = k end'
  line 'barrier()'
  block(0)
  block(0)
  if random(3) == 1 then line('if t > %d then return end', random(9)) end
  line('out[i][1], out[i][2], out[i][3] = v, v2, w + 100 * w2')
  if random(2) == 1 then line('if t == 1 then out[i][4] = u end') end
  return 'return function(out, x, y)\n' .. table.concat(lines, '\n') .. '\nend'
end

test('a fault between barriers names the line, the index and the thread, and other blocks run', function()
  local x, out = mt.zeros(12), mt.zeros(3)
  local k = mt.kernel(function(x, out)
    local s, t = shared(4), thread_idx.x
    s[t] = t
    barrier()
    x[grid(1)] = s[t + (block_idx.x == 2 and 1 or 0)]
    barrier()
    if t == 1 then out[block_idx.x] = s[4] end
  end)
  local text = raises(function() k[{3, 4}](x, out) end,
    "index 5 is out of bounds in dimension 1 of 's', .* 1 to 4, in thread %(8, 1, 1%)")
  assert(text:find(':' .. debug.getinfo(1, 'l').currentline - 6 .. ':', 1, true), text)
  eq({out[1]:item(), out[3]:item()}, {4, 4})
end)

test('random kernels with barriers, shared arrays and updates', function()
  for seed = 1, tonumber(arg[1]) or 150 do
    local size = seed % 3 == 0 and 80 or 24
    local text = text_with_barriers(seed, size)
    local rows, columns = seed % 12 + 1, text:find('_idx.y', 1, true) and seed % 2 + 1 or 1
    if size == 80 then rows = ({16, 17, 33, 8, 40})[seed % 5 + 1] end
    local count = rows * columns * 3
    local dtype = seed % 2 == 0 and 'float32' or 'float64'
    local other = ({dtype, 'int32', 'float16', 'float32', 'uint8', 'bfloat16', 'int64'})[seed % 7 + 1]
    mt.manual_seed(seed)
    local ok, why = pcall(same, {3, {rows, columns}}, assert(loadstring(text))(), mt.zeros(count, 4, dtype),
      mt.randn(count):to(dtype), mt.randint(0, 90, {count * 2}):to(other))
    if not ok then error(('seed %d: %s\n%s'):format(seed, why, text), 0) end
  end
end)

test('Ctrl-C ends a loop', function()
  for _, head in ipairs {'while i >= 0 do', 'for k = 1, 1e15 do', 'while i >= 0 do barrier()'} do
    local text = testing.run('timeout 60', ([[
      local x = mt.zeros(1)
      local k = mt.kernel(function(x)
        local i = 0
        %s
          i = i * 1
          x[1] = i
        end
      end)
      os.execute '(sleep 0.5; kill -INT $PPID) &'
      print(pcall(k[{1, 1}], x))]]):format(head))
    assert(text:find 'interrupted', text)
  end
end)

test('rows that read bytes and 16-bit integers at computed positions, up to the first and the last element', function()
  local function look_up(out, x, at)
    local i = grid(1)
    if i <= #out then out[i] = x[at[i]] * 2 + (i > 40 and x[#x + 1 - at[i]] or 0) end
  end
  local function mirrored(out, x, at)
    local j, i = grid(2)
    if i <= #out and j <= out.shape[2] then
      local row, column = math.max(1, math.min(#x, at[j])), math.max(1, math.min(x.shape[2], at[j]))
      out[i][j] = x[i][column] - x[row][j % x.shape[2] + 1]
    end
  end
  for _, dtype in ipairs {'uint8', 'int8', 'int16'} do
    local low, high = dtype == 'uint8' and 0 or dtype == 'int8' and -128 or -32768, dtype == 'int16' and 32767 or 127
    for _, n in ipairs {1, 2, 3, 4, 5, 37, 300} do
      local x, at = mt.randint(low, high, {n}):to(dtype), mt.randint(1, n, {500}):long()
      same(nil, look_up, mt.zeros(500, 'int32'), x, at)
      same(nil, look_up, mt.zeros(500), x, at:int())
      if n > 4 then same(nil, look_up, mt.zeros(500), x:narrow(1, 3, n - 2), at:clamp(1, n - 2)) end
    end
    local image = mt.randint(low, high, {60, 70}):to(dtype)
    same({{4, 40}, {32, 1}}, mirrored, mt.zeros(40, 100), image, mt.randint(-5, 90, {100}):int())
    same({{4, 40}, {32, 1}}, mirrored, mt.zeros(40, 100), image:t(), mt.randint(-5, 90, {100}):int())
    local beyond = mt.zeros(64, 'int32') + 71
    raises(function() mt.kernel(look_up):over(beyond)(mt.zeros(64), image[1], beyond) end, 'index 71 is out')
  end
end)

test('a loop of 25 products between literals is unrolled outside of other loops', function()
  local function filter(out, x, w)
    local j, i = grid(2)
    if i <= #out and j <= out.shape[2] then
      local sum = 0
      for a = 1, 5 do
        for b = 1, 5 do sum = sum + x[i + a - 1][j + b - 1] * w[a][b] end
      end
      out[i][j] = sum
    end
  end
  local x, w, out = mt.randn(40, 104), mt.randn(5, 5), mt.zeros(36, 100)
  same({{4, 36}, {32, 1}}, filter, out, x, w)
  if not testing.has_machine_code() then return end
  eq(mt.explain(mt.kernel(filter)[{{4, 36}, {32, 1}}], out, x, w):find('along a row', 1, true) ~= nil, true)
end)

testing.finish()
