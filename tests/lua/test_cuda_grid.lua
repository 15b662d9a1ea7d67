-- test_cuda_grid.lua -- grid kernels written in Lua, compiled as CUDA C by NVRTC, give the CPU's results
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local test, eq, raises = testing.test, testing.eq, testing.raises

local rate = 1.25
local function helper(v, n)
  if n > 2 then return v * rate end
  for k = 1, n do
    v = v + k
    if v > 3 then return v - 1 end
  end
  return v
end

-- {name, kernel, blocks, threads, arguments..}
local cases = {
  {'arithmetic', function(x, y, out)
    local i = grid(1)
    if i > #x then return end
    local a, b = x[i], y[i]
    out[i][1] = a + b * 2 - a / (math.abs(b) + 1)
    out[i][2] = math.floor(a) + math.ceil(b) + a % 3 - (b % -1.5)
    out[i][3] = math.max(a, b, 0) + math.min(a, b) + (a > b and a or b)
    out[i][4] = math.floor(i / 3) + i % 4 + (-i) % 3 + math.floor(i * 7 / (i + 1))
    out[i][5] = helper(a, i % 4) + #x + out.shape[2]
    out[i][6] = ((a > 0 and b > 0) or not (i < 5)) and 1 or 0
  end, 3, 8, mt.randn({20}, 'float64') * 3, mt.randn({20}, 'float64'), mt.zeros({20, 6}, 'float64')},
  {'loops', function(out)
    local i, j = grid(2)
    local sum, n = 0, 0
    for k = i, j + 3 do
      if k == 4 then break end
      sum = sum + k
    end
    while n < i do
      n = n + 1
      if n * j > 6 then break end
    end
    repeat sum = sum + 0.5 until sum > j
    for v = 2, 0.5, -0.5 do sum = sum + v end
    out[i][j] = sum * 10 + n
  end, {2, 2}, {3, 2}, mt.zeros({6, 4}, 'float64')},
  {'shared', function(x, out)
    local t, i = thread_idx.x, grid(1)
    local cells, flags = shared(8), shared(8, 2, 'int32')
    cells[t] = x[i]
    flags[t][1], flags[t][2] = t, i
    barrier()
    local step = 4
    while step >= 1 do
      if t <= step then cells[t] = cells[t] + cells[t + step] end
      barrier()
      step = math.floor(step / 2)
    end
    out[i] = cells[1] + flags[9 - t][2]
  end, 3, 8, mt.randn(24), mt.zeros(24)},
  {'private arrays', function(x, out)
    local i, own, pairs_of = grid(1), private(4), private(2, 3, 'int32')
    for k = 1, 4 do own[k] = x[(i + k) % #x + 1] end
    for k = 1, 3 do pairs_of[1][k], pairs_of[2][k] = k, i * k end
    for k = 2, 4 do
      local v, j = own[k], k - 1
      while j >= 1 do
        if own[j] <= v then break end
        own[j + 1] = own[j]
        j = j - 1
      end
      own[j + 1] = v
    end
    out[i] = own[2] - own[4] + pairs_of[2][i % 3 + 1]
  end, 3, 8, mt.randn(24), mt.zeros(24)},
  {'atomics and integers', function(x, counts, small)
    local i = grid(1)
    atomic_add(counts, x[i] % 5 + 1, i)
    small[i] = x[i] * 2 - 1
  end, 2, 16, mt.randint(1, 9, {32}):long(), mt.zeros(5, 'int64'), mt.zeros(32, 'int16')},
  {'warps', function(x, out)
    local i = grid(1)
    out[i][1], out[i][2], out[i][3] = warp_sum(x[i]), warp_max(x[i]), warp_min(x[i])
    out[i][4], out[i][5], out[i][6] = shuffle_down(x[i], 2), shuffle_xor(x[i], 3), lane()
  end, 1, 64, mt.randn(64), mt.zeros(64, 6)},
  {'warps, the last one in part', function(x, out)
    local i = grid(1)
    out[i][1], out[i][2], out[i][3] = warp_sum(x[i]), warp_max(x[i]), warp_min(x[i])
    out[i][4] = warp_sum(i)
  end, 1, 40, mt.randn(40), mt.zeros(40, 4)},
  {'rows, a warp for each', function(x, y) -- ptxas 13.0 had no registers for it on sm_90
    local r, t = block_idx.x, thread_idx.x
    local largest, sum = -math.huge, 0
    for c = t, x.shape[2], 32 do largest = math.max(largest, x[r][c]) end
    largest = warp_max(largest)
    for c = t, x.shape[2], 32 do sum = sum + math.sqrt(largest - x[r][c]) end
    sum = warp_sum(sum)
    for c = t, x.shape[2], 32 do y[r][c] = math.sqrt(largest - x[r][c]) / sum end
  end, 9, 32, mt.randn({9, 70}, 'float64'), mt.zeros({9, 70}, 'float64')},
  {'constant memory', function(x, f, g, y)
    local i = grid(1)
    local c, d = constant(f), constant(g)
    y[i] = x[i] * c[1][2] + x[i + 1] * c[2][3] + d[i % #d + 1]
  end, 1, 16, mt.randn(20), mt.randn(3, 3):t(), mt.range(1, 5), mt.zeros(16)},
  {'16-bit floats', function(x, y, z)
    local i = grid(1)
    y[i], z[i] = x[i] * 3, x[i] * 3
    x[i] = y[i] + z[i]
  end, 1, 64, mt.cat {mt.randn(40), mt.tensor {0, -0, 1e-8, 6e-8, -3e-6, 65504, 65520, 2e4, -1e5, 1 / 0, -1 / 0, 0 / 0},
    mt.randn(12) * 1e-5}, mt.zeros(64, 'float16'), mt.zeros(64, 'bfloat16')},
  {'bits and functions of mt', function(x, n, out)
    local i = grid(1)
    local a, k = x[i], n[i]
    out[i][1] = bit.band(k, 12) + bit.bor(k, i) * 2 + bit.bxor(k, -i) + bit.bnot(k) + bit.bswap(k)
    out[i][2] = bit.lshift(k, i) + bit.rshift(k, 3) + bit.arshift(-k, i) + mt.bitwise_left_shift(k, i)
    out[i][3] = mt.gcd(k, 12) + mt.lcm(k, 4) + mt.trunc(k / 3) + mt.trunc(-k / 3)
    out[i][4] = mt.relu(a) + mt.clamp(a, -0.5, 0.5) + mt.round(a) + mt.sign(a) + mt.frac(a)
    out[i][5] = mt.where(mt.isfinite(a) and not mt.signbit(a), a, -a) + mt.minimum(k, 3)
    out[i][6] = math.fmod(k, 3) + math.ldexp(a, 2) + mt.square(k)
  end, 2, 8, mt.randn({16}, 'float64'), mt.randint(1, 99, {16}):long(), mt.zeros({16, 6}, 'float64')},
  {'atomic updates', function(x, n, t, u)
    local i = grid(1)
    atomic_max(t, 1, x[i])
    atomic_min(t, 2, x[i])
    atomic_exchange(u, 1, 5)
    atomic_cas(u, 2, 0, 9)
    atomic_max(u, 3, n[i])
    local s = shared(2)
    if thread_idx.x == 1 then s[1], s[2] = -9, 9 end
    barrier()
    atomic_max(s, 1, x[i])
    atomic_min(s, 2, x[i])
    barrier()
    if i == 1 then t[3], t[4] = s[1], s[2] end
  end, 1, 32, mt.randn(32), mt.randint(1, 99, {32}):int(), mt.zeros(4), mt.zeros(3, 'int32')},
  {'loops that end at the largest integer', function(n, out)
    local i, count = grid(1), 0
    local last, first = n[1] * 1023 + (n[1] - 1), n[1] * -1024
    for _ = last - i, last do count = count + 1 end
    for _ = first + i, first, -1 do count = count + 1 end
    out[i] = count
  end, 1, 4, mt.tensor({2 ^ 53}, 'int64'), mt.zeros(4, 'int64')},
  {'bools and masks', function(x, mask)
    local i = grid(1)
    mask[i] = x[i] > 0 and not mask[i]
  end, 1, 16, mt.randn(16), mt.randn(16):gt(0)},
}

cases[#cases + 1] = {'negative literals are negated', function(x)
  local i = grid(1)
  x[i] = mt.neg(-5) + mt.neg(-math.huge)
end, 1, 16, mt.zeros(16)}

local nvrtc = testing.has_nvrtc()
local gpu = mt.cuda.is_available() and nvrtc

for _, case in ipairs(cases) do
  test(case[1], function()
    local k, here, there = mt.kernel(case[2]), {}, {}
    for n = 5, #case do here[n - 4], there[n - 4] = case[n]:clone(), gpu and case[n]:to 'cuda' end
    k[{case[3], case[4]}](unpack(here))
    if nvrtc then
      local source = k:cuda_source {compile = true}
      eq(source:find '#line %d+ "[^"]*test_cuda_grid.lua"' ~= nil, true)
    end
    if not gpu then return end
    k[{case[3], case[4]}](unpack(there))
    for n, x in ipairs(here) do eq(testing.bits(there[n]:cpu():tolist()), testing.bits(x:tolist())) end
  end)
end

if not gpu then
  print('the rest is skipped: there is no ' .. (nvrtc and 'GPU' or 'NVRTC'))
  testing.finish()
  return
end

test('numbers are read at every launch, and views are not copied', function()
  local k = mt.kernel(function(x, n) local i, j = grid(2); x[i][j] = x[i][j] * rate + n end)
  local x = mt.ones(6, 8):to 'cuda'
  local part = x[{{1, 6, 2}, {3, 5}}]:t()
  k[{1, {3, 3}}](part, 2)
  rate = 2
  k[{1, {3, 3}}](part, 0.5)
  rate = 1.25
  eq(part:cpu():sum():item(), 9 * 7)
  eq(x:cpu():sum():item(), 9 * 7 + 39)
end)

test('what a thread meets is raised at the next synchronisation, once', function()
  local x = mt.zeros(4):to 'cuda'
  local k = mt.kernel(function(x) local i = grid(1); x[i] = 1 end)
  k[{1, 4}](x)
  mt.cuda.synchronize()
  raises(function()
    k[{1, 6}](x)
    mt.cuda.synchronize()
  end, ":%d+: k: index 5 is out of bounds in dimension 1 of 'x', which .* 1 to 4, in thread %(%d, 1, 1%)")
  mt.cuda.synchronize()
  eq(x:cpu():sum():item(), 4)
  local divides = mt.kernel(function(x) x[1] = 5 % (grid(1) - 1) end, {check = true})
  raises(function() divides[{1, 2}](mt.zeros(1, 'int64'):to 'cuda') end, 'a whole number is divided by zero')
  local steps = mt.kernel(function(x, step) for k = 5, 1, step do x[1] = k end end)
  raises(function() steps[{1, 2}](mt.zeros(1):to 'cuda', 0) mt.cuda.synchronize() end, 'a for with a step of 0')
end)

test('check=true: races, barriers, uninitialised shared memory, indices; correct kernels give their results', function()
  local function fault(f, blocks, threads, ...)
    local ok, why = pcall(mt.kernel(f, {check = true})[{blocks, threads}], ...)
    return not ok and tostring(why) or ''
  end
  local x = mt.range(1, 8):float():to('cuda')
  local function has(text, word) assert(text:find(word, 1, true), text) end
  has(fault(function(a) local i = grid(1) if i < #a then a[i] = a[i + 1] end end, 1, 8, x), 'race')
  has(fault(function(a) local i = grid(1) if i < 4 then barrier() end a[i] = 1 end, 1, 8, x), 'divergent barrier')
  has(fault(function(a) local i, s = grid(1), shared(8) a[i] = s[i] end, 1, 8, x), 'uninitialised')
  has(fault(function(a) local i = grid(1) a[i + 1] = 1 end, 1, 8, x), 'out of bounds')
  eq(x:tolist(), {1, 2, 3, 4, 5, 6, 7, 8})
  local even, odd = x[{{1, 8, 2}}], x[{{2, 8, 2}}]
  mt.kernel(function(a, b) local i = grid(1) a[i] = b[i] * 10 end, {check = true})[{1, 4}](even, odd)
  eq(x:tolist(), {20, 2, 40, 4, 60, 6, 80, 8})
end)

test('one device', function()
  local k = mt.kernel(function(x, y) x[1] = y[1] end)
  raises(function() k[{1, 1}](mt.zeros(1):to 'cuda', mt.zeros(1)) end, 'a kernel runs on one device')
end)

testing.finish()
