-- test_kernel_bounds.lua -- indices of grid kernels that machine code does not check, because conditions, loops and
-- dtypes keep them in bounds, and loops whose iterations threads share: all edges, against check mode, which interprets
-- and checks everything
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local test, eq = testing.test, testing.eq

--- Asserts that a launch gives the same elements, or the same error, in both modes; returns the index at fault.
local function agree(size, f, out, ...)
  local function run(k, ...)
    local given = {...}
    for n, x in ipairs(given) do given[n] = type(x) == 'number' and x or x:clone() end
    local ok, text = pcall(k[size], unpack(given))
    return not ok and tostring(text) or nil, given
  end
  local fault, plain = run(mt.kernel(f), out, ...)
  local expected, checked = run(mt.kernel(f, {check = true}), out, ...)
  eq(fault, expected)
  if fault then return tonumber(fault:match 'index (%-?%d+) is out of bounds' or error(fault)) end
  for n, x in ipairs(plain) do
    if type(x) ~= 'number' then eq(x:ne(checked[n]):sum():item(), 0) end
  end
end
local function counted(n, dtype) return mt.range(1, n):to(dtype or 'float32') end

--- 2^63 - 1 and -2^63, which no number of Lua is.
local function extremes()
  local half = mt.full({2}, 2 ^ 62, 'int64')
  local ends = half + (half - 1)
  ends[2] = (-ends - 1)[2]
  return ends
end

test('bounds beyond 2^53 are rounded outwards', function()
  local all = mt.zeros(128, {device = 'cpu'})
  local part = all[{{2, 65}}]
  local kernels = {
    mt.kernel(function(a, s, n) local t = s - 1 + 9007199254740992 + 1 if t <= n then a[t] = 7 end end),
    mt.kernel(function(a, s, n)
      local t = s - 1 - 1 - 1 + 9007199254740992 + 3
      if t <= n then atomic_add(a, t, 1) end
    end)}
  for _, k in ipairs(kernels) do
    for _, size in ipairs{{1, 1}, {1, 32}} do
      local ok, message = pcall(function() k[size](part, -2 ^ 53, 64) end)
      assert(not ok and message:find 'index 0 is out of bounds', message)
      eq(all:abs():sum():item(), 0)
    end
  end
end)

test('bytes as indices of tables of all sizes', function()
  for _, case in ipairs {{'uint8', 0, 255}, {'int8', -128, 127}, {'int16', -300, 300}, {'int32', 0, 256},
    {'int64', 0, 255}} do
    local dtype, low, high = unpack(case)
    for _, size in ipairs {255, 256, 257, 128} do
      for _, value in ipairs {low, 0, 127, high} do
        local x = mt.full({40}, 7, dtype)
        x[23] = value
        for _, kind in ipairs {'int32', 'float32'} do
          local index = agree({1, 40}, function(h, x)
            local i = grid(1)
            atomic_add(h, x[i] + 1, 1)
          end, mt.zeros({size}, kind), x)
          eq(index, (value < 0 or value >= size) and value + 1 or nil)
        end
        local after = agree({1, 40}, function(h, x)
          local i = grid(1)
          atomic_add(h, x[i] + 2, 1)
        end, mt.zeros({size}), x)
        eq(after, (value < -1 or value + 2 > size) and value + 2 or nil)
        local stored = agree({1, 40}, function(h, x)
          local i = grid(1)
          if i == 23 then h[x[i]] = 1 end
        end, mt.zeros({size}), x)
        eq(stored, (value < 1 or value > size) and value or nil)
        agree({2, 20}, function(h, x)
          local i, s = grid(1), shared(256)
          for k = thread_idx.x, 256, 20 do s[k] = i end
          barrier()
          atomic_add(s, x[i] + 1, 1)
          barrier()
          h[i] = s[thread_idx.x]
        end, mt.zeros({size}), x)
      end
    end
  end
  agree({1, 1}, function(h, x) h[2 * x[grid(1)] - 250] = 1 end, mt.zeros(260), mt.full({9}, 255, 'uint8'))
  eq(agree({1, 1}, function(h, x) h[2 * x[grid(1)] - 255] = 1 end, mt.zeros(256), mt.full({9}, 127, 'uint8')), -1)
  eq(agree({1, 1}, function(h) h[256] = 1 end, mt.zeros(255)), 256)
end)

test('conditions on the position: offsets, numbers that are smaller, equal and larger than the size', function()
  local x = counted(40)
  for _, last in ipairs {38, 39, 40, 41, 42, 0, -1} do
    local function over(f) return agree({3, 16}, f, mt.zeros(48), x, last) end
    eq(over(function(o, x, n) local i = grid(1) if i <= n then o[i] = x[i] end end), last > 40 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i < n then o[i] = x[i] end end), last > 41 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i < n then o[i] = x[i + 1] end end), last > 40 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i + 1 < n then o[i] = x[i + 2] end end), last > 40 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i <= n - 2 then o[i] = x[i + 3] end end), last > 39 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i > 1 and i <= n then o[i] = x[i - 1] end end),
      last > 41 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if i <= n then o[i] = x[i - 1] end end), last > 0 and 0 or nil)
    eq(over(function(o, x, n) local i = grid(1) if n >= i then o[i] = x[i] else o[i] = 5 end end),
      last > 40 and 41 or nil)
    eq(over(function(o, x, n) local i = grid(1) if n < i then o[i] = 5 else o[i] = x[i] end end),
      last > 40 and 41 or nil)
    eq(over(function(o, x, n)
      local i = grid(1)
      if i > n then return end
      o[i] = x[i]
    end), last > 40 and 41 or nil)
    eq(over(function(o, x, n)
      local i = grid(1)
      if i < 3 or i > n then return end
      o[i] = x[i - 2] + x[i]
    end), last > 40 and 41 or nil)
    eq(over(function(o, x, n)
      local i = grid(1)
      if not (i <= n) then o[i] = x[i] end
    end), last < 48 and math.max(41, last + 1) or nil)
    eq(over(function(o, x, n)
      local i = grid(1)
      if i <= n or i == 48 then o[i] = x[i] end
    end), last > 40 and 41 or 48)
    eq(over(function(o, x, n)
      local i = grid(1)
      if i <= n then o[i] = 1 end
      o[i] = o[i] + x[math.min(i, 40)]
      if i <= #x then o[i] = x[i] + x[math.max(math.min(i, n), 1)] end
    end), nil)
  end
end)

test('conditions on other values: reassigned, of other tensors, across loops', function()
  local x = counted(20)
  eq(agree({1, 24}, function(o, x, y) local i = grid(1) if i <= #y then o[i] = x[i] end end, mt.zeros(24), x,
    mt.zeros(20)), nil)
  eq(agree({1, 24}, function(o, x, y) local i = grid(1) if i <= #y then o[i] = x[i] end end, mt.zeros(24), x,
    mt.zeros(21)), 21)
  eq(agree({1, 24}, function(o, x)
    local i = grid(1)
    local j = i
    if j <= #x then j = j + 1 o[i] = x[j] end
  end, mt.zeros(24), x), 21)
  eq(agree({1, 24}, function(o, x)
    local i = grid(1)
    local j = i
    if j <= #x then
      for _ = 1, 3 do
        o[i] = x[j]
        j = j + (i == 9 and 5 or 0)
      end
    end
  end, mt.zeros(24), x), nil)
  eq(agree({1, 1}, function(o, x)
    local j = 1
    while j <= #x do o[j] = x[j] j = j + 3 end
    o[1] = x[j]
  end, mt.zeros(24), x), 22)
  eq(agree({1, 1}, function(o, x)
    local j = 1
    while true do
      if j > #x then break end
      j = j + 3
      o[j] = x[j]
    end
  end, mt.zeros(24), x), 22)
  eq(agree({1, 4}, function(o, x)
    local i = grid(1)
    for k = 1, 8 do
      local j = i + 4 * k
      if j <= #x then o[j] = x[j] end
      if k == 8 then o[i] = x[j - 8] end
    end
  end, mt.zeros(24), x), 25)
  eq(agree({1, 8}, function(o, x, q) -- an element that changes after the condition
    local i = grid(1)
    if q[i] <= #x then
      q[i] = q[i] + 15
      o[i] = x[q[i]]
    end
  end, mt.zeros(24), x, counted(8, 'int64')), 21)
  eq(agree({{2, 2}, {8, 8}}, function(o, x)
    local j, i = grid(2)
    if i > 1 and j > 1 and i < x.shape[1] and j < x.shape[2] then
      o[i][j] = x[i - 1][j + 1] + x[i + 1][j - 1]
    end
  end, mt.zeros(12, 14), mt.randn(12, 14)), nil)
  eq(agree({{2, 2}, {8, 8}}, function(o, x)
    local j, i = grid(2)
    if i > 1 and j > 1 and i < x.shape[2] and j < x.shape[1] then o[i][j] = x[i - 1][j + 1] + x[i + 1][j - 1] end
  end, mt.zeros(12, 14), mt.randn(12, 14)), 13)
  local wide = mt.randn(12, 28)
  eq(agree({{2, 2}, {8, 8}}, function(o, x) -- strides that are not 1
    local j, i = grid(2)
    if i <= #x and j <= x.shape[2] then o[i][j] = x[i][j] end
  end, mt.zeros(16, 16), wide:t():narrow(1, 1, 14):t()), nil)
end)

test('loops: ends beyond the size, steps of both signs, offsets', function()
  local x = counted(20)
  for _, last in ipairs {0, 19, 20, 21} do
    local function run(f) return agree({1, 1}, f, mt.zeros(30), x, last) end
    eq(run(function(o, x, n) for k = 1, n do o[k] = x[k] end end), last > 20 and 21 or nil)
    eq(run(function(o, x, n) for k = 0, n do o[k + 1] = x[k] end end), 0)
    eq(run(function(o, x, n) for k = 0, n - 1 do o[k + 1] = x[k + 1] end end), last > 20 and 21 or nil)
    eq(run(function(o, x, n) for k = 2, n, 3 do o[k] = x[k - 1] end end), nil)
    eq(run(function(o, x, n) for k = 2, n do o[k] = x[k + 1] end end), last > 19 and 21 or nil)
    eq(run(function(o, x, n) for k = n, 1, -1 do o[k] = x[k] end end), last > 20 and 21 or nil)
    eq(run(function(o, x, n) for k = n, -1, -1 do o[k + 2] = x[k] end end), last > 20 and 21 or 0)
    eq(run(function(o, x, n)
      for k = 1, n do
        for j = k, n - 1 do o[j] = o[j] + x[j + 1] end
      end
    end), last > 20 and 21 or nil)
  end
end)

test('sums that wrap around', function()
  local ends, x = extremes(), counted(9)
  for which = 1, 2 do
    for _, f in ipairs {
      function(o, x, q, e, n) local j = q[e] if j + 1 <= n then o[1] = x[j] end end,
      function(o, x, q, e, n) local j = q[e] if j + 1 <= n and j + 1 <= #x then o[1] = x[j] end end,
      function(o, x, q, e, n) local j = q[e] if j - 1 >= 0 and j + 1 < n then o[1] = x[j + 0] end end,
      function(o, x, q, e, n) local j = q[e] if j - 2 > 0 then o[1] = x[math.min(j, n)] end end,
      function(o, x, q, e, n) local j = q[e] if j <= n - 1 then o[1] = x[j + 1] end end,
      function(o, x, q, e, n) local j = q[e] o[1] = x[math.max(j - 1, 1)] end,
      function(o, x, q, e, n) local j = q[e] if j >= 1 then o[1] = x[j * 2 + 3] end end,
      function(o, x, q, e, n) local j = q[e] if j < 1 then o[1] = x[j - 1] end end,
    } do
      agree({1, 1}, f, mt.zeros(3), x, ends, which, 9)
    end
  end
end)

test('bits of numbers beyond 32 bits, and negative ones, as indices', function()
  local q = mt.tensor({-1, -300, 5, 2 ^ 31 + 7, 2 ^ 32 + 3, -2 ^ 31 - 2, 2 ^ 40 + 77, 255, 256}, 'int64')
  for _, size in ipairs {255, 256} do
    agree({1, #q}, function(o, q)
      local i = grid(1)
      atomic_add(o, bit.band(q[i], 255) + 1, i)
    end, mt.zeros(size), q)
    agree({1, #q}, function(o, q)
      local i = grid(1)
      if q[i] > 0 then atomic_add(o, bit.band(bit.bxor(q[i], 3), 127) + 1, i) end
    end, mt.zeros(size), q)
    agree({1, #q}, function(o, q)
      local i = grid(1)
      atomic_add(o, bit.bor(q[i] % 128, 64), i)
      atomic_add(o, q[i] % 256 + 1, 1)
    end, mt.zeros(size), q)
  end
  local wide = mt.randint(-2 ^ 40, 2 ^ 40, {64}):to('int64')
  agree({2, 32}, function(o, q) -- vectors of threads
    local t, i, s = thread_idx.x, grid(1), shared(32, 'int64')
    s[t] = q[i]
    barrier()
    local v = s[33 - t]
    local small = bit.band(t - 1, 12)
    o[i] = bit.bxor(v, t) + bit.arshift(v, 5) * 3 + bit.lshift(v, 7) + bit.band(v, 1023) + math.floor(v / 8)
      + math.floor(v / 2 ^ 33) + v % 64 + bit.arshift(v, 31) + bit.bor(small, 3) + bit.bnot(small)
  end, mt.zeros({64}, 'int64'), wide)
end)

test('vectors of threads: computed positions in some and all lanes, and updates of neighbours', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, n in ipairs {5, 8, 20, 32} do
      for _, bad in ipairs {1, 3, n, 0} do
        for _, value in ipairs {0, 33, -5, 1, 32} do
          local q = mt.randint(1, 32, {n}):to('int64')
          if bad > 0 then q[bad] = value end
          local x = mt.randn({32}, dtype)
          local function run(f) return agree({1, n}, f, mt.zeros({n}, dtype), x, q) end
          local outside = bad > 0 and (value < 1 or value > 32) and value or nil
          eq(run(function(o, x, q)
            local t, s = thread_idx.x, shared(32)
            for k = t, 32, block_dim.x do s[k] = x[k] end
            barrier()
            o[t] = s[q[t]] * 2 + s[t]
          end), outside)
          eq(run(function(o, x, q)
            local t, s = thread_idx.x, shared(32)
            s[t] = t
            barrier()
            o[t] = s[t] + x[q[t]]
          end), outside)
          eq(run(function(o, x, q)
            local t, s = thread_idx.x, shared(32)
            s[t] = t
            barrier()
            if q[t] >= 1 and q[t] <= 32 and x[t] > 0 then o[t] = s[t] - x[q[t]] + x[33 - q[t]] end
          end), nil)
        end
      end
    end
  end
  for _, dtype in ipairs {'float32', 'float64', 'int64', 'int32', 'int16', 'uint8'} do
    for _, n in ipairs {4, 21, 32} do
      agree({3, n}, function(h, g, q)
        local t, s = thread_idx.x, shared(32, 'int32')
        s[t] = q[t] * 3
        barrier()
        local v = s[block_dim.x + 1 - t]
        atomic_add(h, t, v)
        if v > 20 then atomic_add(g, t + 1, v + t) end
      end, mt.ones({n}):to(dtype), mt.ones({n + 1}):to(dtype), mt.randint(0, 20, {n}):to('int64'))
      eq(agree({1, n}, function(h, q)
        local t, s = thread_idx.x, shared(32, 'int32')
        s[t] = q[t] * 3
        barrier()
        atomic_add(h, t, s[block_dim.x + 1 - t])
      end, mt.ones({n - 1}):to(dtype), mt.randint(0, 20, {n}):to('int64')), n)
    end
  end
end)

test('random conditions and indices', function()
  local state = 1
  local function random(n)
    state = (state * 48271) % 2147483647
    return state % n + 1
  end
  local function one(list) return list[random(#list)] end
  local function shifted(v) return one {v, v, ('%s + %d'):format(v, random(3)), ('%s - %d'):format(v, random(3))} end
  local x, q = counted(30), mt.randint(-2, 34, {40}):to('int64')
  for round = 1, 150 do
    local value = one {'i', 'i', 'q[i]', 'q[i] + i', 'math.max(q[i], 1)', 'math.min(i, n)', 'i * 2', 'q[i] % 31'}
    local function condition()
      local a, b = shifted 'j', shifted(one {'n', '#x', '#x', '30', '#o', '1'})
      local text = ('%s %s %s'):format(a, one {'<', '<=', '>', '>='}, b)
      return one {text, text, ('not (%s)'):format(text)}
    end
    local conditions = condition() .. one {' and ', ' and ', ' or '} .. condition()
    local access = ('o[i] = o[i] + x[%s]'):format(shifted 'j')
    local form = one {'if %s then %s end', 'if %s then return end %s', 'while %s do %s break end',
      'for k = 1, n do if k == 3 and (%s) then %s end end', 'if %s then o[i] = 1 else %s end'}
    local text = ('return function(o, x, q, n) local i = grid(1) local j = %s ' .. form .. ' end')
      :format(value, conditions, access)
    local f = assert(loadstring(text))()
    local ok, why = pcall(agree, {1, 40}, f, mt.zeros(40), x, q, one {29, 30, 31})
    if not ok then error(('%d: %s\n%s'):format(round, text, tostring(why)), 0) end
  end
end)

-- luacheck: ignore 113
--- Loops over `for i = first, n, step` that the CPU may run with a thread for each iteration, and those it may not.
local strided = {
  map = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do o[i] = x[i] * 2 + q[i] end
  end,
  position = function(o, x, q, n)
    local step = grid_dim.x * block_dim.x
    for i = (block_idx.x - 1) * block_dim.x + thread_idx.x, n, step do
      local v = x[i]
      if v > 9 then v = v - 1 end
      o[i] = o[i] + v
    end
  end,
  count = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do atomic_add(q, x[i] % 7 + 1, 1) atomic_add(q, 1, 2) end
  end,
  inner = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do
      local sum = 0.0
      for k = 1, i do
        if k > 5 then break end
        sum = sum + x[k]
      end
      o[i] = sum
    end
  end,
  kept = function(o, x, q, n) -- a variable outside
    local sum = 0.0
    for i = grid(1), n, block_dim.x * grid_dim.x do sum = sum + x[i] o[i] = sum end
  end,
  ends = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do
      if x[i] > 20 then break end
      o[i] = i
    end
  end,
  chain = function(o, x, q, n) -- an element of the iteration before
    for i = grid(1), n, block_dim.x * grid_dim.x do
      local before = 0.0
      if i > block_dim.x * grid_dim.x then before = o[i - block_dim.x * grid_dim.x] end
      o[i] = before + x[i]
    end
  end,
  chain_of_12 = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do
      if i > 12 and block_dim.x == 12 then o[i] = o[i - 12] + x[i] end
    end
  end,
  same = function(o, x, q, n) -- elements of a thread
    local t = grid(1)
    for i = grid(1), n, block_dim.x * grid_dim.x do o[t] = o[t] + x[i] end
  end,
  steps = function(o, x, q, n)
    local step = block_dim.x * grid_dim.x
    for i = grid(1), n, step do o[i] = step + x[i] end
  end,
  old = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do
      local before = atomic_add(q, x[i] % 3 + 1, 1)
      if before >= 0 then o[i] = x[i] end
    end
  end,
  exchange = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do atomic_min(q, 2, x[i]) atomic_max(q, 3, x[i]) end
  end,
  after = function(o, x, q, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do o[i] = x[i] end
    o[grid(1)] = o[grid(1)] + 1
  end,
  less = function(o, x, q, n)
    for i = grid(1), n - 1, block_dim.x * grid_dim.x do o[i] = x[i + 1] end
  end,
  literal = function(o, x, q, n)
    for i = grid(1), 21, block_dim.x * grid_dim.x do o[i] = x[i] + n end
  end,
}

test('iterations that threads share: every form and size', function()
  for name, f in pairs(strided) do
    for _, size in ipairs {{1, 1}, {1, 12}, {3, 4}, {2, 16}, {4, 16}} do
      for _, last in ipairs {0, 1, 11, 12, 25, 30, -3} do
        local whole = name == 'count' or name == 'old' or name == 'exchange'
        local x = counted(30, whole and 'int64' or 'float32')
        local ok, why = pcall(agree, size, f, mt.zeros(64), x, mt.ones({30}, 'int64'), last)
        if not ok then error(('%s, n = %d, %s'):format(name, last, tostring(why))) end
      end
    end
  end
end)

test('iterations that threads share: floats are added in the order of threads', function()
  local o, sums = mt.zeros({3}, 'float64'), {0, 0, 0}
  local k = mt.kernel(function(o, n)
    for i = grid(1), n, block_dim.x * grid_dim.x do atomic_add(o, i % 3 + 1, 0.1 * i) end
  end)
  local said = mt.explain(k[{4, 5}], o:clone(), 99)
  if not said:find('thread after thread', 1, true) then return end -- lanes add in the order of iterations
  k[{4, 5}](o, 99)
  for t = 1, 20 do
    for i = t, 99, 20 do sums[i % 3 + 1] = sums[i % 3 + 1] + 0.1 * i end
  end
  eq(o:tolist(), sums)
end)

test('iterations that threads share: faults, tensors that share memory, two dimensions', function()
  local x = counted(20, 'float32')
  local _, text = pcall(function()
    mt.kernel(strided.map)[{2, 4}](mt.zeros(64), x, mt.ones({30}, 'int64'), 25)
  end)
  assert(text:find "index 21 is out of bounds in dimension 1 of 'x', .* in thread %(5, 1, 1%)", text)
  for _, at in ipairs {0, 3, 12} do
    local results = {}
    for k, check in ipairs {false, true} do
      local all = mt.range(1, 50)
      local out, given = all:narrow(1, 1, 30), all:narrow(1, 1 + at, 30)
      mt.kernel(strided.position, {check = check})[{1, 1}](out, given, mt.ones({30}, 'int64'), 30)
      results[k] = all:tolist()
    end
    eq(results[1], results[2])
  end
  for _, size in ipairs {{{2, 1}, {3, 2}}, {{2, 2}, {4, 1}}} do
    agree(size, function(o)
      local i = grid(1)
      for k = i, 20, block_dim.x * grid_dim.x do atomic_add(o, k, 1) end
    end, mt.zeros({20}, 'int32'))
  end
  if not testing.has_machine_code() then return end
  local k = mt.kernel(strided.map)
  local said = mt.explain(k[{4, 32}], mt.zeros(4000), mt.zeros(4000), mt.ones({4000}, 'int64'), 4000)
  assert(said:find('along a row', 1, true), said)
end)

testing.finish()
