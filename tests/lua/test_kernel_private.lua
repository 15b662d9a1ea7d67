-- test_kernel_private.lua -- private arrays of grid kernels: in every way to run them, beside plain Lua
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local reference = require 'grid_reference'
local test, eq, raises = testing.test, testing.eq, testing.raises

--- Asserts that f gives the bits of plain Lua, also in check mode; returns how it ran.
local function same(f, blocks, threads, ...)
  local expected, how = reference.run(f, blocks, threads, ...), nil
  for _, check in ipairs {true, false} do
    local given = {...}
    for k, x in ipairs(given) do given[k] = mt.is_tensor(x) and x:clone() or x end
    local k = mt.kernel(f, {check = check})[{blocks, threads}]
    k(unpack(given))
    for i, x in ipairs(given) do
      if mt.is_tensor(x) then eq(testing.bits(x:tolist()), testing.bits(expected[i])) end
    end
    how = mt.explain(k, unpack(given))
  end
  return how
end

test('a median of each thread, thread after thread, in blocks of one to three dimensions', function()
  local function median(x, out)
    local i, j, k = grid(3)
    local own = private(9)
    for n = 1, #own do own[n] = x[(i * 7 + j * 3 + k + n * n) % #x + 1] end
    for n = 2, 9 do
      local v, at = own[n], n - 1
      while at >= 1 do
        if own[at] <= v then break end
        own[at + 1] = own[at]
        at = at - 1
      end
      own[at + 1] = v
    end
    out[i][j][k] = own[5] + own[1] * own[9]
  end
  for _, dtype in ipairs {'float64', 'int64'} do
    local x = (mt.randn(50, 'float64') * 10):to(dtype)
    for _, threads in ipairs {{1, 1, 1}, {5, 1, 1}, {4, 3, 1}, {3, 2, 2}, {1, 1, 6}} do
      local blocks = {2, 1, 3}
      local sizes = {}
      for d = 1, 3 do sizes[d] = blocks[d] * threads[d] end
      same(median, blocks, threads, x, mt.zeros(sizes, 'float64'))
    end
  end
  local x, out = mt.randn(50), mt.zeros(48, 32, 8)
  local how = mt.explain(mt.kernel(median):over(out), x, out)
  if testing.has_machine_code() then eq(how:find('thread after thread', 1, true) ~= nil, true) end
end)

test('arrays that are kept at barriers, in vectors of neighbouring threads', function()
  for _, threads in ipairs {{32}, {13}, {16, 3}, {1, 8}} do
    local count = threads[1] * (threads[2] or 1)
    local how = same(function(x, out)
      local i, j = grid(2)
      local t, u, cells, own, flags = thread_idx.x, thread_idx.y, shared(8, 32), private(2, 3), private(4, 'bool')
      for n = 1, 3 do own[1][n], own[2][n] = x[i] * n, x[i] - n end
      for n = 1, 4 do flags[n] = x[i] > n - 2 end
      cells[u][t] = own[1][2]
      barrier()
      local at = i % 3 + 1
      own[1][at] = own[2][at] + cells[u][block_dim.x + 1 - t]
      barrier()
      local sum = 0.0
      for n = 1, 3 do sum = sum + own[1][n] * own[2][n] end
      if flags[j % 4 + 1] then sum = sum + 1 end
      out[i][j] = sum
    end, {2, 2}, threads, mt.randn(2 * threads[1], 'float64'),
      mt.zeros({2 * threads[1], 2 * (threads[2] or 1)}, 'float64'))
    if count >= 32 and threads[1] >= 16 and testing.has_machine_code() then
      eq(how:find('barriers', 1, true) ~= nil, true)
    end
  end
end)

test('in lockstep, beside functions of warps', function()
  local x, out = mt.randn(64), mt.zeros(64, 2)
  mt.kernel(function(x, out)
    local i, own = grid(1), private(4)
    for n = 1, 4 do own[n] = x[i] * n end
    own[i % 4 + 1] = 10
    out[i][1] = warp_sum(own[2])
    out[i][2] = own[1] + own[2] + own[3] + own[4]
  end)[{2, 32}](x, out)
  for i = 1, 64 do
    local sum = 0
    for n = 1, 4 do sum = sum + (n == i % 4 + 1 and 10 or x[i]:item() * n) end
    testing.near(out[i][2]:item(), sum, 1e-5)
  end
  local first = 0
  for i = 1, 32 do first = first + (i % 4 == 1 and 10 or 2 * x[i]:item()) end
  testing.near(out[5][1]:item(), first, 1e-4)
end)

local function edit_distance(a, b, row)
  for j = 1, #row do row[j] = j - 1 end
  for i = 1, #a do
    local before = row[1]
    row[1] = i
    for j = 1, #b do
      local above = row[j + 1]
      row[j + 1] = math.min(above + 1, row[j] + 1, before + (a[i] == b[j] and 0 or 1))
      before = above
    end
  end
  return row[#b + 1]
end
local function largest(x, n)
  local best = private(2, 'int32')
  best[1], best[2] = x[1], 1
  for k = 2, n do
    if x[k] > best[1] then best[1], best[2] = x[k], k end
  end
  return best[2]
end

test('arrays are arguments of helpers, which may have their own; any number of threads gives the same bits', function()
  local function f(a, b, out)
    local i = grid(1)
    if i > #out then return end
    local row = private(11, 'int32')
    out[i][1] = edit_distance(a[i], b[i], row)
    local sum = 0
    for k = 1, 3 do sum = sum + largest(row, 8 + k) end
    out[i][2], out[i][3] = sum, row.shape[1] + row.ndim
  end
  local a, b = mt.randint(1, 3, {200, 12}):long(), mt.randint(1, 3, {200, 10}):long()
  local out = mt.zeros(200, 3, 'int64')
  local before = mt.get_num_threads()
  local results = {}
  for k, threads in ipairs {1, 2, 3} do
    mt.set_num_threads(threads)
    results[k] = out:clone()
    mt.kernel(f)[{8, 32}](a, b, results[k])
  end
  mt.set_num_threads(before)
  eq(mt.equal(results[1], results[2]) and mt.equal(results[1], results[3]), true)
  local expected = out:clone()
  mt.kernel(f, {check = true})[{8, 32}](a, b, expected)
  eq(mt.equal(results[1], expected), true)
  eq(expected[1][3]:item(), 12)
end)

test('an index out of bounds is an error in every way, and touches no other memory', function()
  local function plain(out, n)
    local own = private(4)
    for k = 1, 4 do own[k] = k end
    own[n + grid(1) - grid(1)] = 7
    out[grid(1)] = own[1]
  end
  local function waits(out, n)
    local own, cells = private(4), shared(64)
    for k = 1, 4 do own[k] = k end
    cells[thread_idx.x] = own[1]
    barrier()
    out[grid(1)] = own[n] + cells[65 - thread_idx.x]
  end
  local function warps(out, n)
    local own = private(4)
    own[1] = 1
    out[grid(1)] = warp_sum(own[n])
  end
  for _, f in ipairs {plain, waits, warps} do
    for _, check in ipairs {false, true} do
      for _, n in ipairs {0, 5, 2 ^ 40} do
        raises(function() mt.kernel(f, {check = check})[{2, 64}](mt.zeros(128), n) end,
          ("index %d is out of bounds in dimension 1 of 'own', which has the positions 1 to 4"):format(n))
      end
    end
    mt.kernel(f)[{2, 64}](mt.zeros(128), 1)
  end
end)

test('what check mode finds, and what is refused', function()
  local function launched(f, check, ...) mt.kernel(f, {check = check})[{1, 8}](...) end
  local function reads(x)
    local own = private(3)
    own[1] = 1
    x[grid(1)] = own[2]
  end
  raises(function() launched(reads, true, mt.zeros(8)) end,
    "uninitialised: thread %(1, 1, 1%) of the grid reads an element of 'own'")
  local refused = {
    {function(x) local own = private(0); x[1] = own[1] end, 'a size of private memory must be 1 or more, got 0'},
    {function(x) local own = private(4, 'complex'); x[1] = own[1] end, "private: 'complex' is not a dtype for private"},
    {function(x) local own = private(60000); x[1] = own[1] end, '60000 elements do not fit into 16 KiB of private'},
    {function(x) local own = private(4096, 'float64'); x[1] = own[1] end,
      '32768 bytes of private memory; a thread has at most 16384'},
    {function(x) local own = private(4); x[1] = atomic_add(own, 1, 1) end,
      "atomic_add: 'own' is private, and no other thread writes to it"},
    {function(x) local own = private(#x); x[1] = own[1] end, 'a size of private memory must be a whole literal'},
    {function(x) local own = {}; x[1] = own end, 'use a local for each value, a tensor or private%(n%)'},
  }
  for _, r in ipairs(refused) do raises(function() launched(r[1], false, mt.zeros(8)) end, r[2]) end
  local x = mt.zeros(256) -- the largest array, beside a full block of shared memory
  mt.kernel(function(x)
    local own, cells, i = private(4096, 'float32'), shared(12288, 'float32'), grid(1)
    own[4096], cells[i] = i, i
    barrier()
    x[i] = own[4096] + cells[257 - i]
  end)[{1, 256}](x)
  eq(x:eq(257):all(), true)
end)

testing.finish()
