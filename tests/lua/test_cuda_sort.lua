-- test_cuda_sort.lua -- sorting, and functions that use it, on the GPU compared with the CPU
local mt = require 'mtorch'
local t = require 'testing'
local test = t.test
t.needs_cuda()

--- Asserts that f's results on both devices are equal bit for bit (all NaNs are equal).
local function compare(what, f, x)
  local a, b = {f(x:to('cuda'))}, {f(x)}
  t.eq(#a, #b)
  for i = 1, #b do
    if a[i].dtype ~= b[i].dtype then error(what .. ': ' .. a[i].dtype .. ' for ' .. b[i].dtype, 2) end
    if not tostring(a[i].device):find('cuda') then error(what .. ' came back on the CPU', 2) end
    local p, q = a[i]:cpu(), b[i]
    t.eq({unpack(p.shape)}, {unpack(q.shape)})
    if not mt.allclose(p:to('float64'), q:to('float64'), {rtol = 0, atol = 0, equal_nan = true}) then
      error(('%s: answer %d differs'):format(what, i), 2)
    end
  end
end
local function random(shape, dtype)
  if dtype == 'bool' then return mt.randint(0, 1, shape):to('bool') end
  if dtype == 'int64' then return mt.randint(-2 ^ 40, 2 ^ 40, shape) end
  if dtype:match('^int') then return mt.randint(-20, 20, shape):to(dtype) end
  if dtype == 'uint8' then return mt.randint(0, 255, shape):to(dtype) end
  return mt.randn(shape, {dtype = dtype})
end

local shapes = {{1}, {16}, {48}, {500}, {1025}, {2048}, {3000}, {33, 3}, {4, 3, 5}, {2, 70, 2},
                {2, 1100}, {2, 3000}, {3000, 2}, {5, 1}, {0}, {0, 3}, {3, 0}}

test('sort along every dimension, both ways, stable', function()
  mt.manual_seed(1)
  for d, dtype in ipairs {'float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'int16', 'bool'} do
    for k, shape in ipairs(dtype:find '^int[183]' and {{48}, {1025}, {4, 3, 5}, {2, 1100}} or shapes) do
      local x = random(shape, dtype)
      for dim = 1, (d == 1 or (d + k) % 2 == 0) and #shape or 0 do -- of float32 all shapes, of others half of them
        for _, descending in ipairs(d == 1 and shape[1] < 2000 and {false, true} or {(d + k + dim) % 2 == 0}) do
          local what = ('%s %s along %d'):format(dtype, table.concat(shape, ' x '), dim)
          compare('sort ' .. what, function(y) return mt.sort(y, dim, descending) end, x)
        end
      end
    end
  end
end)

test('topk and kthvalue: few of many, and many', function()
  mt.manual_seed(2)
  for d, dtype in ipairs {'float32', 'int64', 'uint8', 'int8', 'int16'} do
    for _, n in ipairs {7, 1025, 5000} do
      local x = random({2, n}, dtype)
      for i, k in ipairs {0, 1, 7, 512, 513, 1500} do
        if k <= n and (d == 1 or i % 2 == d % 2) then
          local what = ('%d of %d %s'):format(k, n, dtype)
          compare('topk ' .. what, function(y) return mt.topk(y, k, 2) end, x)
          if k > 0 then
            compare('kthvalue ' .. what, function(y) return mt.kthvalue(y, k, 2) end, x)
            compare('smallest ' .. what, function(y) return mt.topk(y, k, 2, false) end, x)
          end
        end
      end
    end
  end
end)

test('NaN is the largest, zeros are alike, equal ones stay in order', function()
  local inf, nan = math.huge, 0 / 0
  for _, n in ipairs {1, 120} do
    local x = mt.tensor({1, nan, -0.0, 0, -inf, inf, nan, 1, -1, 0}):expand(n, 10):reshape(-1)
    for _, dtype in ipairs {'float32', 'float64'} do
      for _, descending in ipairs {false, true} do
        compare('sort', function(y) return mt.sort(y, 1, descending) end, x:to(dtype))
        compare('topk', function(y) return mt.topk(y, 6, 1, descending) end, x:to(dtype))
        -- the sign of a zero goes with its position
        compare('zeros', function(y) return 1 / (mt.sort(y, 1, descending)) end, x:to(dtype))
      end
      compare('nanmedian', function(y) return mt.nanmedian(y, 1) end, x:to(dtype))
      compare('median', function(y) return mt.median(y, 1) end, x:to(dtype))
    end
  end
end)

test('few places, and one, of long lines: ties, NaN, infinities', function()
  mt.manual_seed(6)
  local n, inf, nan = 33003, math.huge, 0 / 0
  local few = mt.tensor({1, nan, -0.0, 0, -inf, inf, 2, -1}):expand(5001, 8):reshape(-1)
  local lines = {
    random({2, n}, 'float32'), mt.stack({few[{{1, n}}], few[{{6, n + 5}}]}), random({2, n}, 'int64'),
    random({2, n}, 'uint8'), mt.zeros({2, n}), random({2, n}, 'float64'),
  }
  for i, x in ipairs(lines) do
    for _, k in ipairs(i < 3 and {1, 9, 512} or {9}) do
      compare(('topk %d of lines %d'):format(k, i), function(y) return mt.topk(y, k, 2, (i + k) % 2 == 0) end, x)
    end
    local k = ({20, 10000, n})[i % 3 + 1]
    compare(('kthvalue %d of lines %d'):format(k, i), function(y) return mt.kthvalue(y, k, 2) end, x)
    if i < 3 then compare('median', function(y) return mt.median(y, 2) end, x) end
    if i == 1 or i == 6 then
      compare('from an odd address', function(y) return mt.topk(y[{{}, {2, n}}], 9, 2) end, x)
      compare('from an odd address', function(y) return mt.kthvalue(y[{{}, {2, n}}], 10000, 2) end, x)
    end
  end
end)

test('views and 0-d tensors', function()
  local x = mt.randn(9, 40, 6)
  for dim = 1, 3 do
    compare('transposed', function(y) return mt.sort(y:transpose(1, 3), dim) end, x)
    compare('strided', function(y) return mt.sort(y[{{}, {1, 40, 3}}], dim) end, x)
    compare('expanded', function(y) return mt.sort(y[{{1}}]:expand(3, 40, 6), dim) end, x)
  end
  compare('a long line', function(y) return mt.sort(y, 1) end, mt.randn(40001))
  compare('few of a long line', function(y) return mt.topk(y, 100, 1) end, mt.randn(100001))
  compare('0-d', function(y) return mt.sort(y) end, mt.tensor(3))
end)

test('functions that use sorting', function()
  mt.manual_seed(3)
  local x = mt.randint(0, 9, {40, 33})
  for dim = 1, 2 do
    compare('mode', function(y) return mt.mode(y, dim) end, x)
    compare('mode', function(y) return mt.mode(y, dim) end, x:to('float32'))
    compare('median', function(y) return mt.median(y, dim) end, x:to('float32'))
    compare('unique', function(y) return mt.unique(y, {dim = dim, return_inverse = true, return_counts = true}) end, x)
  end
  compare('median', function(y) return mt.median(y) end, x:to('float32'))
  compare('argsort', function(y) return mt.argsort(y) end, x)
  local whole = {return_inverse = true, return_counts = true}
  compare('unique', function(y) return mt.unique(y, whole) end, x)
  compare('unique', function(y) return mt.unique(y, whole) end, x + 2 ^ 60)
  compare('unique', function(y) return mt.unique(y, whole) end, x:to('float32'))
  compare('unique_consecutive', function(y) return mt.unique_consecutive(y, whole) end, x:reshape(-1))
  compare('bincount', function(y) return mt.bincount(y) end, x:reshape(-1) + 1)
  compare('bincount', function(y) return mt.bincount(y, y:to('float64')) end, x:reshape(-1) + 1)
  compare('histc', function(y) return mt.histc(y, 7) end, x:to('float32'))
  for _, q in ipairs {0, 0.25, 0.3, 1} do
    compare('quantile', function(y) return mt.quantile(y, q, 2) end, x:to('float64'))
    compare('quantile', function(y) return mt.quantile(y, q) end, x:to('float64'))
  end
  compare('nanquantile', function(y) return mt.nanquantile(y, 0.5, 1) end,
          mt.where(x:eq(3), mt.tensor(0 / 0, {dtype = 'float64'}), x:to('float64')))
end)

test('gradients', function()
  mt.manual_seed(4)
  local x = mt.randn(33, 40)
  local y = x:to('cuda'):requires_grad_()
  x:requires_grad_()
  for _, f in ipairs {
    function(z) return (mt.sort(z, 1)) end, function(z) return (mt.topk(z, 5, 2)) end,
    function(z) return (mt.median(z, 1)) end, function(z) return mt.median(z) end,
    function(z) return mt.quantile(z, 0.3, 2) end, function(z) return (mt.mode(z, 2)) end,
  } do
    x.grad, y.grad = nil, nil
    local a, b = f(y), f(x)
    local g = mt.rand(b.shape)
    a:backward(g:to('cuda'))
    b:backward(g)
    t.eq(mt.allclose(y.grad:cpu(), x.grad), true)
  end
end)

test('long lines and what scatters by a sort: in a graph too', function()
  mt.manual_seed(3)
  local where, values = mt.randint(1, 700, {5000}), mt.randn(5000)
  local function scattered(x, at) return mt.zeros({700}, {device = x.device}):scatter_add(1, at, x) end
  t.eq(mt.equal(scattered(values:to('cuda'), where:to('cuda')):cpu(), scattered(values, where)), true)
  local x, at = mt.randn(5000):to('cuda'), where:to('cuda')
  local step = mt.cuda.graph(function()
    local sorted, places = mt.sort(x)
    return sorted, places, scattered(x, at)
  end)
  step()
  x:copy_(values)
  local sorted, places, sums = step()
  local wanted, there = mt.sort(values)
  t.eq({mt.equal(sorted:cpu(), wanted), mt.equal(places:cpu(), there)}, {true, true})
  t.eq(mt.equal(sums:cpu(), scattered(values, where)), true)
end)

test('long lines sorted together: keys that do not fit beside their position, ties in their upper half', function()
  mt.manual_seed(5)
  local high, low = mt.randint(-3, 3, {20, 1100}), mt.randint(0, 2 ^ 30, {20, 1100})
  local x = high * 2 ^ 58 + low * 2 ^ 20 + low
  for _, descending in ipairs {false, true} do
    compare('int64', function(y) return mt.sort(y, 2, descending) end, x)
    compare('int64', function(y) return mt.topk(y, 600, 2, descending) end, x)
    compare('float64', function(y) return mt.sort(y, 2, descending) end, x:to('float64'))
    compare('float32', function(y) return mt.sort(y, 2, descending) end, mt.randn(49, 1025))
  end
  compare('float64 in columns', function(y) return mt.sort(y, 1) end, mt.randn({1030, 7}, {dtype = 'float64'}))
end)

test('rows of up to 4096 are sorted by one kernel: tiles of every size, whole and not, ties, NaN', function()
  mt.manual_seed(6)
  local launches = {}
  local few = mt.tensor({1, 0 / 0, -0.0, 0, -math.huge, math.huge, 2, -1}):expand(600, 8):reshape(-1)
  for i, n in ipairs {100, 129, 512, 1000, 1024, 1025, 2048, 2049, 4096} do
    local x = mt.randn(2, n):to('cuda')
    local before = mt.cuda.memory_stats().launches
    local _ = mt.sort(x, 2)
    launches[i] = mt.cuda.memory_stats().launches - before
    local lines = mt.stack({few[{{1, n}}], mt.randn(n)})
    for _, descending in ipairs {false, true} do
      compare('float32', function(y) return mt.sort(y, 2, descending) end, lines)
      compare('zeros', function(y) return 1 / (mt.sort(y, 2, descending)) end, lines)
      compare('int16', function(y) return mt.sort(y, 2, descending) end, random({2, n}, 'int16'))
      compare('some', function(y) return mt.topk(y, n - 9, 2, descending) end, lines)
    end
    compare('one', function(y) return mt.kthvalue(y, n - 9, 2) end, lines)
  end
  for _, count in ipairs(launches) do t.eq(count, launches[1]) end
end)

test('a long line takes no more passes than one half as long', function()
  local launches = {}
  for i, n in ipairs {70000, 140000} do
    local x, before = mt.randn(n):to('cuda'), mt.cuda.memory_stats().launches
    local _ = mt.sort(x)
    launches[i] = mt.cuda.memory_stats().launches - before
  end
  t.eq(launches[1], launches[2])
end)

t.finish()
