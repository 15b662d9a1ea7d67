-- test_kernel_loops.lua -- loops and basic blocks of grid kernels as machine code, against check mode, which
-- interprets them
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local test, eq = testing.test, testing.eq

--- Asserts that f has the same bits in both modes.
local function same(f, out, ...)
  local plain, checked = out:clone(), out:clone()
  mt.kernel(f):over(plain)(plain, ...)
  mt.kernel(f, {check = true}):over(checked)(checked, ...)
  eq(testing.bits(plain:reshape(-1):tolist()), testing.bits(checked:reshape(-1):tolist()))
end

for _, dtype in ipairs {'float32', 'float64'} do
  local sizes = {{3, 5, 4}, {7, 33, 50}, {2, 64, 130}, {5, 300, 9}, {16, 20, 16}, {32, 9, 48}}

  test('sums of differences, ' .. dtype, function()
    for _, s in ipairs(sizes) do
      same(function(out, a, b)
        local i, j = grid(2)
        if i <= out.shape[1] and j <= out.shape[2] then
          local sum, most = 0.0, -1.0
          for k = 1, a.shape[2] do
            local d = a[i][k] - b[k][j]
            sum = sum + d * d
            most = math.max(most, d / (1 + math.abs(d)))
          end
          out[i][j] = math.sqrt(sum) + most
        end
      end, mt.zeros(s[1], s[3], dtype), mt.randn(s[1], s[2], dtype), mt.randn(s[2], s[3], dtype))
    end
  end)

  test('several sums, choices and functions, ' .. dtype, function()
    for _, s in ipairs(sizes) do
      same(function(out, a, b, scale)
        local i, j = grid(2)
        if i <= out.shape[1] and j <= out.shape[2] then
          local sum, most, last = 0.5, -10.0, 0.0
          for k = 1, a.shape[2] do
            local x = a[i][k] * scale
            local y = math.exp(-math.abs(x - b[k][j]))
            most = math.max(most, y)
            if y > 0.3 then
              sum = sum + y * x
              if y < 0.6 then last = x end
            else
              sum = sum - x
            end
            last = most - last
          end
          out[i][j] = sum + most * last
        end
      end, mt.zeros(s[1], s[3], dtype), mt.randn(s[1], s[2], dtype), mt.randn(s[2], s[3], dtype), 1.25)
    end
  end)

  test('numbers that follow one another, ' .. dtype, function()
    same(function(out, a)
      local j = grid(1)
      if j <= #out then
        local before, now = 0.0, 1.0
        for k = 1, 40 do before, now = now, before * 0.5 + now * a[j] + a[k] end
        out[j] = now
      end
    end, mt.zeros(77, dtype), mt.randn(77, dtype))
  end)

  test('places: backwards, in steps, beside one another, kept whole numbers, ' .. dtype, function()
    same(function(out, a)
      local j = grid(1)
      if j <= #out then
        local sum, at = 0.0, 1
        for k = 60, 2, -3 do sum = sum + a[k + j] * a[2 * k - 1] end
        for k = 1, 30 do
          sum = sum * 0.5 + a[at + j]
          at = at + 2
        end
        for k = 1, 20 do sum = sum + a[k * k % 7 + j] end
        for k = 1, 25 do sum = sum * a[(k - 1) * 4 + 1] + a[j] end
        out[j] = sum
      end
    end, mt.zeros(90, dtype), mt.randn(200, dtype))
  end)
end

test('loops of some lanes of a tile: a box of them, ranges, holes; the others keep theirs', function()
  for _, s in ipairs {{16, 16, 9}, {20, 10, 30}, {33, 17, 8}, {5, 3, 40}, {64, 31, 12}} do
    for which = 1, 5 do
      same(function(out, a, b, mode)
        local i, j = grid(2)
        if i <= out.shape[1] and j <= out.shape[2] then
          local inside = i * j % 7 ~= 3 -- holes
          if mode == 1 then inside = i > 2 and j > 1 and i < 14 and j < 9 end -- a box
          if mode == 2 then inside = i * 100 + j > 507 end -- ragged
          if mode == 3 then inside = i == 2 and j == 3 end -- one lane
          if mode == 4 then inside = j == 2 end
          local sum, last, kept = a[i][1], b[1][j], out[i][j]
          if inside then
            for k = 1, a.shape[2] do sum = sum + a[i][k] * b[k][j] end
            for k = 1, a.shape[2] do
              last = last * 0.5 - math.abs(a[i][k] - b[k][j])
              kept = math.max(kept, last)
            end
          else
            sum = sum - 1
          end
          out[i][j] = sum + last * 10 + kept * 100
        end
      end, mt.randn(s[1], s[2]), mt.randn(s[1], s[3]), mt.randn(s[3], s[2]), which)
    end
  end
end)

test('an index outside the lanes of a loop is not a fault, but one of a lane is', function()
  local k = mt.kernel(function(out, a, b, limit)
    local i, j = grid(2)
    if i <= limit and j <= out.shape[2] then
      local sum = 0.0
      for n = 1, a.shape[2] do sum = sum + a[i][n] * b[n][j] end
      out[i][j] = sum
    end
  end)
  local a, b, out = mt.randn(37, 20), mt.randn(20, 10), mt.zeros(37, 10)
  k[{ {3, 1}, {16, 16} }](out, a, b, 37)
  eq(mt.allclose(out, a:matmul(b), {atol = 1e-4}), true)
  local ok, text = pcall(function() k[{ {3, 1}, {16, 16} }](out, a, b, 40) end)
  eq(ok, false)
  eq(text:find "index 38 is out of bounds in dimension 1 of 'a'" ~= nil, true)
end)

test('an index out of bounds in a late iteration is reported', function()
  local k = mt.kernel(function(out, a)
    local j = grid(1)
    if j <= #out then
      local sum = 0.0
      for n = 1, 50 do sum = sum + a[n] * a[n] - a[j] end
      out[j] = sum
    end
  end)
  local ok, text = pcall(function()
    local out = mt.zeros(32)
    k:over(out)(out, mt.randn(49))
  end)
  eq(ok, false)
  eq(tostring(text):match 'index 50 is out of bounds' ~= nil, true)
end)

-- Basic blocks: guarded boxes of lanes, rows with partial vectors, elements for all lanes.
for _, dtype in ipairs {'float32', 'float64'} do
  for _, s in ipairs {{3, 5}, {9, 16}, {40, 37}, {128, 128}, {5, 1300}} do
    local rows, columns = unpack(s)
    local x, y = mt.randn(rows, columns, dtype), mt.randn(rows, columns, dtype)
    local row, column = mt.randn(columns, dtype), mt.randn(rows, dtype)
    local name = ('%d x %d, %s'):format(rows, columns, dtype)

    test('a stencil, ' .. name, function()
      same(function(out, a)
        local i, j = grid(2)
        if i > 1 and i < a.shape[2] and j > 1 and j < #a then
          out[j][i] = 0.25 * (a[j][i - 1] + a[j][i + 1] + a[j - 1][i] + a[j + 1][i])
        end
      end, y, x)
    end)

    test('loops of a few turns, one in another, written out, ' .. name, function()
      same(function(out, a)
        local i, j = grid(2)
        if i > 2 and i < a.shape[2] - 1 and j > 1 and j < #a then
          local sum, last = 0, out[j][i]
          for dy = -1, 1 do
            for dx = 2, -2, -2 do
              local x = a[j + dy][i + dx] * (dx + 0.5)
              sum = sum + x
              if x > 0.5 then last = last * 0.5 + x end
            end
            for dx = -1, 0 do sum = sum * 1.25 - a[j - dy][i + dx] * dy end
            for none = 1, 0 do sum = none end
          end
          for k = 1, 2 do out[j][i] = out[j][i] * k + sum end
          out[j][i] = out[j][i] + last
        end
      end, y, x)
    end)

    test('positions, an element for all, two results, ' .. name, function()
      local second = mt.zeros(rows, columns, dtype)
      local function kernel(out, other, a, u, v, dx)
        local i, j = grid(2)
        if i > a.shape[2] or j > #a then return end
        local at, weight = (i - 1) * dx, u[i] * v[j] + j * dx
        out[j][i] = at * a[j][i] + weight
        other[j][i] = at - weight * out[j][i]
      end
      local function results(checked)
        local out = y:clone()
        mt.kernel(kernel, {check = checked}):over(y)(out, second, x, row, column, 0.37)
        return testing.bits(mt.cat {out, second}:reshape(-1):tolist())
      end
      eq(results(false), results(true))
    end)

    test('what is read behind a block, ' .. name, function()
      same(function(out, a)
        local i, j = grid(2)
        if i > a.shape[2] or j > #a then return end
        local sum, turn = a[j][i] * 0.5 + 1, 0
        if a[j][i] > 0 then sum = sum * sum - a[j][i] * 3 end
        while turn < 3 do
          local before = sum
          sum = sum * 0.75 + out[j][i] - before * 0.125
          turn = turn + 1
        end
        out[j][i] = sum + out[j][i] * 0.5 - a[j][i]
      end, y, x)
      same(function(out, a)
        local i, j = grid(2)
        if i > a.shape[2] or j > #a then return end
        local whole = i < 3 and 7 or 2
        local sum = a[j][i] * 2 + 1
        sum = sum * sum - 0.5
        if sum > 1 then sum = sum + whole end
        out[j][i] = sum
      end, y, x)
    end)

    test('in place, ' .. name, function()
      same(function(out, a)
        local i, j = grid(2)
        if i > 1 and i <= a.shape[2] and j <= #a then out[j][i] = out[j][i] * 1.5 + a[j][i] * 2 - 1 end
      end, y, x)
    end)
  end
end

-- Loops with different iteration counts per lane.
for _, dtype in ipairs {'float32', 'float64'} do
  local x = mt.randn(37, 70, dtype) * 2

  test('while, repeat, for with break: how many turns, ' .. dtype, function()
    same(function(out, a, most)
      local i, j = grid(2)
      if i > a.shape[2] or j > #a then return end
      local zr, zi, cr, ci, n = 0.0, 0.0, a[j][i], i * 0.01, 0
      while n < most and zr * zr + zi * zi < 4 do
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
        n = n + 1
      end
      local left, value = -1, a[j][i]
      for k = 1, most do
        if value > 3 then
          left = k
          break
        end
        local more = value * 0.25
        if k > 3 then more = more + 0.01 else more = more - 0.02 end
        value = value + ((most < 60) and more or a[j][i])
      end
      if j % 3 == 0 then
        local turn = 0
        repeat
          turn = turn + 2
          value = value * 0.5
          if value < -2 then break end
        until math.abs(value) < 0.125 or turn > most
        left = left + turn
      end
      out[j][i] = n * 1000 + left + value
    end, mt.zeros(37, 70, dtype), x, 50)
  end)

  test('whole numbers that no int32 and no float holds, ' .. dtype, function()
    local results = {}
    for _, checked in ipairs {false, true} do
      local out = mt.zeros(300, 4, 'int64')
      mt.kernel(function(to)
        local i = grid(1)
        if i > #to then return end
        local n, big, down, sum = i, i, -i, 0
        while n ~= 1 and sum < 500 do
          if n % 2 == 0 then n = math.floor(n / 2) else n = 3 * n + 1 end
          big, down = (big * 48271 + i) % 9007199254740881, down * 3 - i
          if big % 1000 == 7 then break end
          sum = sum + 1
        end
        local a, b, fall, rest, start = i, 1, 0, 0, i % 13
        for k = 1, 60 do
          if b == -7 then break end
          a, b = b, a + b
          if k > 30 then rest = rest + 1 else rest = rest - k end
        end
        for k = 1, 60 do
          if fall == 7 then break end
          fall = fall - 123456789 + k
        end
        down = down - a % 1000000007
        for k = 1, 100 do
          if rest == -7 then break end
          rest = rest + (50331777 + start * 7 - k) % (10007 + k)
        end
        sum, down = sum + rest, down - fall
        local power, steps = 1.5, 0
        repeat
          power, steps = power * power, steps + math.abs(down % 7) - math.min(steps, i)
          if steps < -40 then break end
        until power > 1e9
        to[i][1], to[i][2], to[i][3], to[i][4] = big, down % 1000003, sum, math.floor(power) + steps
      end, {check = checked})[{5, 64}](out)
      results[#results + 1] = testing.bits(out:reshape(-1):tolist())
    end
    eq(results[1], results[2])
  end)

  test('more turns than are done at once, ' .. dtype, function()
    same(function(out, turns)
      local i = grid(1)
      if i > #out then return end
      local value, n = out[i], 0
      while n < turns + i do value, n = value * 0.999 + 1, n + 1 end
      for k = 1, turns do
        if value < -1 then break end
        value = value * 0.5 + k
      end
      out[i] = value
    end, mt.randn({19}, dtype), 70000)
  end)
end

test('an in-place block stops before an integer that does not fit, and continues there', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    local start = mt.rand({700}, dtype)
    start[500] = 9
    same(function(out)
      local i = grid(1)
      if i > #out then return end
      local x = out[i] * 2 + 1
      local n = math.floor(x * 5e8)
      out[i] = x + (n - i) * 1e-9
    end, start)
  end
end)

test('a division by zero in a late iteration is reported', function()
  local k = mt.kernel(function(out, n)
    local i = grid(1)
    local left, sum = n - i, 0
    while left > -3 do
      sum, left = sum + 7 % left, left - 1
    end
    out[i] = sum
  end)
  testing.raises(function() k[{1, 8}](mt.zeros(8), 20) end, 'by zero')
end)

local functions = {
  {'sqrt', math.sqrt}, {'exp', math.exp}, {'log', math.log}, {'log10', math.log10}, {'tanh', math.tanh},
  {'asin', math.asin}, {'acos', math.acos}, {'atan', math.atan}, {'sin', math.sin}, {'cos', math.cos},
  {'tan', math.tan}, {'sinh', math.sinh}, {'cosh', math.cosh}, {'atan2', math.atan2}, {'fmod', math.fmod}}
test('functions of math have the bits of mt.map, whichever way a kernel runs', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    local x = mt.rand({1000}, dtype) * 2 - 1
    x:narrow(1, 300, 200):mul_(1e7) -- angles that need a longer reduction, next to others
    for _, row in ipairs(functions) do
      local name, f = row[1], row[2]
      local two = name == 'atan2' or name == 'fmod'
      local kernels = {function(v, out) out[grid(1)] = 2 * f(v[grid(1)]) end, function(v, out)
        local i, n, y = grid(1), 0, 0.0 -- a loop that lanes leave
        while n <= i % 3 do n = n + 1; y = f(v[i]) end
        out[i] = 2 * y
      end, function(v, out) -- a counting loop
        local i, turns, y = grid(1), 0.0, 0.0
        for _ = 1, 6 do turns, y = turns + 1, f(v[i]) end
        out[i] = 2 * y + (turns - 6)
      end}
      if two then
        kernels = {function(v, out) out[grid(1)] = 2 * f(v[grid(1)], 0.75) end}
      end
      for _, device in ipairs {'cpu', mt.cuda.is_available() and 'cuda' or nil} do
        for k, kernel in ipairs(kernels) do
          local there, out = x:to(device), mt.zeros_like(x):to(device)
          local expected = mt.map(function(v) return 2 * (two and mt[name](v, 0.75) or mt[name](v)) end)(there)
          mt.kernel(kernel)[{10, 100}](there, out)
          local function bits(t)
            return (testing.bits(t:cpu():tolist()):gsub('%-nan', 'nan'):gsub('%-0%f[%s}]', '0'))
          end
          if bits(out) ~= bits(expected) then
            error(('%s of %s, kernel %d on %s'):format(name, dtype, k, device))
          end
        end
      end
    end
  end
end)

testing.finish()
