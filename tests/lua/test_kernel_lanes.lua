-- test_kernel_lanes.lua -- grid kernels with barriers whose neighbouring threads are lanes of vectors, against check
-- mode, which interprets them
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local test, eq = testing.test, testing.eq

local has_code = testing.has_machine_code()

--- Asserts that f(out, ...) has the same bits in both modes, and ran in vectors where there is machine code.
local function same(size, f, out, ...)
  local plain, checked = out:clone(), out:clone()
  local k = mt.kernel(f)
  k[size](plain, ...)
  if has_code then eq(k:path(), 'machine code, with vectors of neighbouring threads between barriers') end
  mt.kernel(f, {check = true})[size](checked, ...)
  eq(testing.bits(plain:double():reshape(-1):tolist()), testing.bits(checked:double():reshape(-1):tolist()))
end

local reals, wholes = {'float32', 'float64', 'float16', 'bfloat16'}, {'int64', 'int32', 'int16', 'int8', 'uint8'}

test('sums of blocks of every size', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, n in ipairs {4, 5, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 256} do
      same({3, n}, function(out, x)
        local s, t, b, all = shared(256), thread_idx.x, block_idx.x, block_dim.x
        s[t] = x[(b - 1) * all + t]
        barrier()
        local count = all
        while count > 1 do
          local half = math.floor((count + 1) / 2)
          if t <= count - half then s[t] = s[t] + s[t + half] end
          barrier()
          count = half
        end
        if t == 1 then out[b] = s[1] end
        out[3 + (b - 1) * all + t] = s[t]
      end, mt.zeros(3 + 3 * n, dtype), mt.randn(3 * n, dtype))
    end
  end
end)

test('scans of blocks', function()
  for _, n in ipairs {20, 64, 100} do
    same({2, n}, function(out, x)
      local s, t, all = shared(128), thread_idx.x, block_dim.x
      local i = (block_idx.x - 1) * all + t
      s[t] = x[i]
      barrier()
      local d = 1
      while d < all do
        local v = s[t]
        if t > d then v = v + s[t - d] end
        barrier()
        s[t] = v
        barrier()
        d = d * 2
      end
      out[i] = s[t]
    end, mt.zeros(2 * n), mt.randn(2 * n))
  end
end)

test('products by tiles, of blocks of several widths', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, width in ipairs {4, 8, 16} do
      same({{2, 3}, {width, width}}, function(out, x, y)
        local a, b, tx, ty = shared(16, 16), shared(16, 16), thread_idx.x, thread_idx.y
        local w = block_dim.x
        local row, column, sum = (block_idx.y - 1) * w + ty, (block_idx.x - 1) * w + tx, 0.0
        for m = 0, 1 do
          a[ty][tx] = x[row][m * w + tx]
          b[ty][tx] = y[m * w + ty][column]
          barrier()
          for k = 1, w do sum = sum + a[ty][k] * b[k][tx] end
          barrier()
        end
        out[row][column] = sum
      end, mt.zeros(3 * width, 2 * width, dtype), mt.randn(3 * width, 2 * width, dtype),
        mt.randn(2 * width, 2 * width, dtype))
    end
  end
end)

test('every dtype, in whole vectors and in part of one, everywhere and where a condition holds', function()
  for _, kind in ipairs {reals, wholes} do
    for _, dtype in ipairs(kind) do
      for _, n in ipairs {16, 23} do
        local x = mt.randint(dtype == 'uint8' and 0 or -100, 120, {2 * n}):to(dtype)
        for _, other in ipairs {'float32', 'float64'} do
          same({2, n}, function(out, x, c)
            local s, t, i = shared(32), thread_idx.x, grid(1)
            s[t] = c[i]
            local v = x[i] + 1
            barrier()
            out[i] = v
            if s[t] > 0 then out[i] = v + x[i] end
            if s[#x + 1 - i > 16 and 1 or t] < -0.5 then v = x[#x + 1 - i] else v = -v end
            out[#x + i] = v
          end, mt.zeros(4 * n):to(dtype), x, mt.randn(2 * n):to(other))
        end
      end
    end
  end
  same({2, 20}, function(out, x)
    local s, flags, t, i = shared(32), shared(32, 'bool'), thread_idx.x, grid(1)
    flags[t] = x[i] > 0
    s[t] = x[i] * 2
    barrier()
    local on = flags[t]
    out[i] = on and s[t] < 1 or not on and flags[21 - t]
    barrier()
    if on ~= (s[t] > 0.5) then out[i] = on == flags[1] end
  end, mt.zeros(40):gt(0), mt.randn(40))
end)

test('elements that are equally far apart, in every direction', function()
  for _, real in ipairs {'float32', 'float64'} do
    for _, list in ipairs {reals, wholes} do
      for _, dtype in ipairs(list) do
        local m, x = (mt.rand(20, 5) * 90):to(dtype), (mt.rand(60) * 90):to(dtype)
        same({2, 20}, function(out, m, x)
          local s, t, b = shared(20, 3), thread_idx.x, block_idx.x
          s[t][2] = t * 0.5
          barrier()
          local sum = m[t][b] * 2 + m[21 - t][5] + x[3 * t - 2] + x[60 - 2 * t]
          if t > 7 then sum = sum + m[t][3] end
          out[(b - 1) * 20 + t] = sum + s[t][2] * 4 + s[21 - t][2]
        end, mt.zeros(40, real), m:t():contiguous():t(), x)
      end
    end
  end
end)

test('integers that vary: quotients, conversions, indices of elements, limits of int64', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    local list = {-9223372036854775807, -4294967297, -100, -7, -1, 0, 1, 2, 7, 100, 4294967295, 9223372036854774784}
    local x = mt.tensor(list, 'int64'):tile(3)
    same({2, 18}, function(out, x, real)
      local s, t, i = shared(32, 'int64'), thread_idx.x, grid(1)
      s[t] = x[i]
      barrier()
      local a, b = s[t], s[(t * 5) % 18 + 1]
      out[i][1], out[i][2] = a + b, a - b * 3
      out[i][3], out[i][4] = math.min(a, b), math.max(a, b)
      out[i][5], out[i][6] = math.floor(a / 8) + a % 16, math.floor(a / 7) - a % 13
      out[i][7] = (a < b and 1 or 0) + (a <= b and 2 or 0) + (a == b and 4 or 0) + (a ~= b and 8 or 0)
      out[i][8] = math.floor(real[i] * 100) + math.ceil(real[i] * 1e12)
      out[i][9] = math.floor(real[i] + (a % 1000) * 0.5 + t * 0.25)
    end, mt.zeros(36, 9, 'int64'), x, mt.randn(36):to(dtype))
  end
end)

test('loops that threads leave one by one, returns, calls of functions', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, n in ipairs {16, 21} do
      same({2, n}, function(out, x)
        local s, t, i = shared(32), thread_idx.x, grid(1)
        s[t] = math.exp(-math.abs(x[i])) + math.sin(x[i])
        barrier()
        local sum, turns = 0.0, 0
        for k = t, #x, block_dim.x do sum = sum + x[k] end
        for k = 2 * t, 40, 3 do
          sum = sum * 0.5 + s[k % block_dim.x + 1]
          for j = 1, 3 do if sum > j then sum = sum - j end end
        end
        for k = 40 - t, 3, -5 do sum = sum + k end
        local v = math.abs(s[t])
        while v < 3 do
          turns, v = turns + 1, v * 1.5 + 0.1
          if turns > 4 and t > 5 then break end
          for j = 1, 5 do
            if v > j then v = v + 0.01 else break end
          end
        end
        out[i][1], out[i][2], out[i][3] = sum, turns, v
        if v > 3.2 then return end
        out[i][4] = 1
        if t == 3 then return end
        out[i][5] = s[1]
      end, mt.zeros(2 * n, 5, dtype), mt.randn(2 * n, dtype))
    end
  end
end)

test('updates by neighbouring threads', function()
  same({3, 40}, function(out, x, q)
    local h, t, i = shared(8, 'int32'), thread_idx.x, grid(1)
    if t <= 8 then h[t] = t end
    barrier()
    local k = q[i] % 8 + 1
    atomic_add(h, k, 2)
    if x[i] > 0 then atomic_add(h, k % 8 + 1, t) end
    barrier()
    if x[i] > 0 then atomic_max(h, k, t) end
    barrier()
    local sum = 0.0
    for j = 1, 8 do sum = sum + h[j] * x[i] end
    out[i] = sum
    atomic_add(out, 121, x[i])
  end, mt.zeros(121), mt.randn(120), mt.randint(0, 100, {120}))
end)

test('updates of one element by several statements keep the order of threads', function()
  if not has_code then return end -- the interpreter runs statement after statement
  local n = 40
  local x, sums, counts = mt.randn(n, 'float64'), mt.zeros(1, 'float64'), mt.zeros(1, 'int64')
  mt.kernel(function(x, sums, counts)
    local s, t = shared(64), thread_idx.x
    s[t] = x[t]
    barrier()
    atomic_add(sums, 1, s[t] * 3)
    atomic_add(sums, 1, s[#x + 1 - t] * 0.7)
    atomic_add(counts, 1, t % 7)
    atomic_max(counts, 1, t * 2)
  end)[{1, n}](x, sums, counts)
  local sum, count, list = 0, 0, x:tolist()
  for t = 1, n do
    sum = sum + list[t] * 3 + list[n + 1 - t] * 0.7
    count = math.max(count + t % 7, t * 2)
  end
  eq(testing.bits {sums[1]:item(), counts[1]:item()}, testing.bits {sum, count})
end)

test('statements after a loop in which all threads return are left out', function()
  local x = mt.ones(20)
  mt.kernel(function(x)
    local s, t = shared(32), thread_idx.x
    s[t] = x[t]
    barrier()
    for _ = 1, 3 do
      for k = 1, 2 do
        x[t] = x[t] + s[t]
        if s[t] * k > 0.5 then return end
      end
      x[t] = x[40] -- out of bounds
    end
  end)[{1, 20}](x)
  eq(x:tolist(), mt.full({20}, 2):tolist())
end)

test('faults name the line, the index and the first thread', function()
  --- The message of a launch in both modes is `text`, with the line `after` that of the function.
  local function fault(f, n, after, text, ...)
    for _, check in ipairs {false, true} do
      local ok, why = pcall(function(...) mt.kernel(f, {check = check})[{2, n}](...) end, ...)
      eq(ok, false)
      assert(why:find(text, 1, true), why)
      assert(why:find(':' .. debug.getinfo(f, 'S').linedefined + after .. ':', 1, true), why)
    end
  end
  for _, dtype in ipairs {'float32', 'float64'} do
    local x, out = mt.ones(50, dtype), mt.zeros(70, dtype)
    fault(function(out, x)
      local s, t, i = shared(40), thread_idx.x, grid(1)
      s[t] = 1
      barrier()
      out[i] = s[t] + x[i] * 2 -- past the end
    end, 35, 4,
      "index 51 is out of bounds in dimension 1 of 'x', which has the positions 1 to 50, in thread (51, 1, 1)", out, x)
    fault(function(out, x)
      local s, t, i = shared(40), thread_idx.x, grid(1)
      s[t] = x[t] * 2
      barrier()
      if s[t] > 1 and t < 30 and t > 3 then out[i] = s[t - 9] * 3 + s[t] end -- before the beginning, of some threads
    end, 32, 4,
      "index -5 is out of bounds in dimension 1 of 's', which has the positions 1 to 40, in thread (4, 1, 1)", out, x)
    fault(function(out, x)
      local s, t, i = shared(40), thread_idx.x, grid(1)
      s[t] = x[t] * 2
      barrier()
      local v = s[t] * 2 + x[t]
      if t > 18 then out[3 * i] = v * s[t] end -- elements far apart
    end, 32, 5,
      "index 72 is out of bounds in dimension 1 of 'out', which has the positions 1 to 70, in thread (24, 1, 1)",
      out, x)
    fault(function(out, x)
      local s, t = shared(40), thread_idx.x
      s[t] = 1
      barrier()
      out[t] = s[t] * 2 + x[45 - 3 * t] * s[t] -- elements far apart, backwards
    end, 32, 4, "index 0 is out of bounds in dimension 1 of 'x', which has the positions 1 to 50, in thread (15, 1, 1)",
      out, x)
    fault(function(out, x)
      local s, t, i = shared(40), thread_idx.x, grid(1)
      s[t] = x[t] * 2
      barrier()
      local v = s[t] * 2 + x[t]
      if t > 18 then v = v * s[t] + x[block_dim.x + 20] end -- the same element in all threads
      out[i] = v
    end, 32, 5,
      "index 52 is out of bounds in dimension 1 of 'x', which has the positions 1 to 50, in thread (19, 1, 1)", out, x)
  end
end)

testing.finish()
