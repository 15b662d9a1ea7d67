-- test_sort.lua -- sorting of rows near the length from which several threads are used
local mt = require 'mtorch'
local ffi = require 'ffi'
local t = require 'testing'
local inf, nan = math.huge, 0 / 0

ffi.cdef 'int memcmp(const void *, const void *, size_t);'
local bytes = {float32 = 4, float64 = 8, int64 = 8, int32 = 4, uint8 = 1}
local function same(a, b)
  local p, q = a:cpu(), b:cpu()
  return #p == #q and ffi.C.memcmp(p:data(), q:data(), #p * bytes[p.dtype]) == 0
end
local function need(what, yes, message) if not yes then error(what .. ': ' .. message, 0) end end

--- Asserts that `sorted` is x in order, with NaN the largest, and that equal elements keep their order.
local function in_order(what, x, sorted, at, descending)
  local n = #x
  need(what, mt.bincount(at, nil, n):eq(1):all(), 'a position is missing')
  need(what, same(x:gather(1, at), sorted), 'values are not those at the positions')
  local bad = x.dtype:find('float') and sorted:isnan() or mt.zeros({n}, {dtype = 'bool'})
  local a, b, bad_a, bad_b = sorted[{{1, n - 1}}], sorted[{{2, n}}], bad[{{1, n - 1}}], bad[{{2, n}}]
  local ordered = descending and b:le(a):logical_or(bad_a) or b:ge(a):logical_or(bad_b)
  need(what, ordered:all(), 'not in order')
  local ties = a:eq(b):logical_or(bad_a:logical_and(bad_b))
  need(what, at:diff():gt(0):logical_or(ties:logical_not()):all(), 'not stable')
end

--- Checks sort and similar functions of x for each number of threads.
local function check(what, x)
  local n, first = #x, nil
  local up, up_at, down, down_at
  for _, threads in ipairs {1, 2, 3, 8} do
    mt.set_num_threads(threads)
    local answers = {x:sort()}
    answers[3], answers[4] = x:sort(1, true)
    if not first then
      first, up, up_at, down, down_at = answers, unpack(answers)
      in_order(what, x, up, up_at, false)
      in_order(what .. ', descending', x, down, down_at, true)
    end
    for i = 1, 4 do need(what, same(answers[i], first[i]), threads .. ' threads, other bits') end
    for _, k in ipairs {1, 32, 33, 3000, math.floor(n / 2)} do
      local values, at = x:topk(k)
      need(what, same(values, down[{{1, k}}]) and same(at, down_at[{{1, k}}]), 'topk of ' .. k)
      values, at = x:topk {k, largest = false}
      need(what, same(values, up[{{1, k}}]) and same(at, up_at[{{1, k}}]), 'the smallest ' .. k)
      values, at = x:kthvalue(n - k, 1, true)
      need(what, same(values, up[{{n - k, n - k}}]) and same(at, up_at[{{n - k, n - k}}]), 'kthvalue')
    end
  end
end

local function test(name, fn)
  t.test(name, function()
    local before = mt.get_num_threads()
    mt.manual_seed(1)
    fn()
    mt.set_num_threads(before)
  end)
end

test('lengths around those that change the way', function()
  for _, n in ipairs {2 ^ 16 - 1, 2 ^ 16, 2 ^ 16 + 1, 3 * 2 ^ 15 + 1, 2 ^ 18 + 77} do
    check('float32 ' .. n, mt.randn(n))
  end
  check('float64', mt.randn({2 ^ 17 + 3}, {dtype = 'float64'}))
end)

test('every dtype', function()
  local n = 70001
  for dtype in pairs(bytes) do
    check(dtype, (mt.rand(n) * 250):to(dtype))
    if dtype ~= 'uint8' then check(dtype .. ', wide', (mt.randn({n}, {dtype = 'float64'}) * 2 ^ 29):to(dtype)) end
  end
  check('int64, to its ends', mt.randint(-2 ^ 52, 2 ^ 52, {n}) * 2047)
end)

test('data that parts unevenly', function()
  local n = 200000
  local r = mt.rand(n)
  local ones = mt.ones(n)
  local cases = {
    ordered = mt.range(1, n):float(), reversed = -mt.range(1, n):float(), equal = mt.full({n}, 2.5),
    two = r:gt(0.5):float(), ten = (r * 10):floor() / 10, close = 1 + r * 1e-3,
    powers = (r * 60 - 30):exp2(), saw = mt.range(1, n):remainder(1000):float(), -- samples are alike
  }
  cases.outliers = cases.close:clone()
  cases.outliers[7], cases.outliers[n - 7] = -1e30, 1e30
  cases.one_other = ones:clone()
  cases.one_other[n] = 0
  cases.special = mt.randn(n)
  for i, value in ipairs {nan, inf, -inf, 0, -0.0, -nan} do cases.special[{{i, n, 7}}] = value end
  for what, x in pairs(cases) do check(what, x) end
  local few = mt.randint(0, 200, {n - 100}) -- and values that a sample does not contain
  check('outliers of int64', mt.cat({few, mt.randint(-2000, 3000, {100})}, 1))
  check('far outliers of int64', mt.cat({few, mt.randint(-2 ^ 52, 2 ^ 52, {100})}, 1))
end)

test('several long lines, along either dimension', function()
  local x = mt.randn(3, 70000)
  for _, threads in ipairs {1, 2, 8} do
    mt.set_num_threads(threads)
    for _, y in ipairs {x, x:t():contiguous():t()} do
      local values, at = y:sort(2)
      local across, across_at = y:t():sort(1)
      local middle, middle_at = y:median(2)
      for i = 1, 3 do
        in_order('line ' .. i, x[i], values[i], at[i], false)
        t.eq({middle[i]:item(), middle_at[i]:item()}, {values[{i, 35000}]:item(), at[{i, 35000}]:item()})
      end
      t.eq({mt.equal(across:t(), values), mt.equal(across_at:t(), at)}, {true, true})
    end
  end
end)

t.test('unique rows: in order from their first element on, NaN the largest', function()
  local function before(a, b)
    for k = 1, #a do
      local less = a[k] < b[k] or (b[k] ~= b[k] and a[k] == a[k])
      if less then return true end
      if a[k] ~= b[k] and (a[k] == a[k] or b[k] == b[k]) then return false end
    end
    return false
  end
  mt.manual_seed(2)
  for _, dtype in ipairs {'int64', 'uint8', 'float32', 'bfloat16', 'bool'} do
    for _, width in ipairs {2, 7} do
      local x = mt.randint(0, 2, {300, width})
      local holes = x:eq(2)
      x = x:to(dtype)
      if dtype == 'float32' then x[holes] = nan end
      local rows, inverse, counts = x:unique {dim = 1, return_inverse = true, return_counts = true}
      t.eq(rows:index_select(1, inverse):tolist(), x:tolist())
      t.eq(mt.equal(mt.bincount(inverse), counts), true)
      local list = rows:to(dtype == 'bool' and 'uint8' or dtype):tolist()
      for k = 2, #list do t.eq(before(list[k], list[k - 1]), false) end -- rows with a NaN stay apart
    end
  end
end)

test('slices along the last of three dimensions come in the order of their elements, row by row', function()
  local x = mt.tensor {{{1, 1}, {1, 0}}, {{0, 1}, {0, 0}}}
  t.eq(x:unique {dim = 3}:tolist(), {{{1, 1}, {0, 1}}, {{1, 0}, {0, 0}}})
end)

t.finish()
