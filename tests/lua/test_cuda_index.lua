-- test_cuda_index.lua -- positions and masks on a GPU: the same bits as on the CPU
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()

local kDtypes = {'bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float32', 'float64'}

--- Returns a tensor of this dtype with few distinct values, some of them NaN for floats.
local function values(shape, dtype)
  local x = mt.randint(-3, 4, shape, 'int64')
  if dtype == 'float32' or dtype == 'float64' then
    local y = (x:to(dtype) / 3):masked_fill(mt.randint(0, 9, shape, 'int64'):eq(0), 0 / 0)
    return y
  end
  return x:to(dtype)
end
local function positions(n, shape) return mt.randint(1, n, shape, 'int64') end
local function turned(x)
  local order = {}
  for d = 1, x:dim() do order[d] = x:dim() + 1 - d end
  return x:permute(order)
end

--- Compares fn with all arguments on the CPU and on the GPU.
local function same(fn, ...)
  local here, there = {...}, {}
  for i, x in ipairs(here) do
    there[i] = mt.is_tensor(x) and x:to('cuda') or x
    -- As the CPU's copy lies: a view of a transposed one.
    if mt.is_tensor(x) and x:dim() > 1 and not x:is_contiguous() then
      there[i] = turned(turned(x):contiguous():to('cuda'))
    end
  end
  local a, b = fn(unpack(here)), fn(unpack(there))
  t.eq(b.device, 'cuda:0')
  if not t.same_bits(a, b:cpu()) then error(('the GPU differs: %s and %s'):format(a, b), 2) end
end

-- Sizes of x, the dimension, the size of the index there: few lines and long ones, many and short.
local kCases = {{{5}, 1, 3}, {{7}, 1, 2000}, {{100000}, 1, 1025}, {{33, 16}, 1, 48}, {{33, 16}, 2, 500},
  {{45, 33, 40}, 2, 16}, {{3, 1, 5}, 2, 700}, {{2, 17}, 2, 1025}, {{2, 17}, 1, 1025}, {{1}, 1, 300},
  {{2100, 3}, 2, 300}, {{4, 3}, 1, 0}}
local function each_case(fn)
  mt.manual_seed(3)
  for _, case in ipairs(kCases) do
    local shape, d, n = case[1], case[2], case[3]
    local at = {}
    for k, size in ipairs(shape) do at[k] = k == d and n or size end
    fn(shape, d, n, at)
  end
end

t.test('gather: every dtype, shape and layout', function()
  each_case(function(shape, d, n, at)
    for _, dtype in ipairs(#shape == 2 and kDtypes or {'float32'}) do
      local x, index = values(shape, dtype), positions(shape[d], at)
      same(function(a, i) return a:gather(d, i) end, x, index)
      same(function(a, i) return a:gather(d, i - shape[d] - 1) end, x, index)
      if #shape == 2 then
        local back, turned_at = {shape[2], shape[1]}, {at[2], at[1]}
        same(function(a, i) return a:gather(d, i) end, turned(values(back, dtype)),
          turned(positions(shape[d], turned_at)))
      end
    end
  end)
  same(function(a, i) return a:gather(1, i) end, mt.tensor(3), mt.tensor(1, 'int64'))
end)

t.test('scatter: every way to join, in order', function()
  each_case(function(shape, d, n, at)
    for _, dtype in ipairs(#shape == 2 and kDtypes or {'float32', 'int32'}) do
      local x, index, source = values(shape, dtype), positions(shape[d], at), values(at, dtype)
      same(function(a, i, s) return a:scatter(d, i, s) end, x, index, source)
      for _, how in ipairs {'sum', 'prod', 'amax', 'amin'} do
        same(function(a, i, s) return a:scatter_reduce(d, i, s, how) end, x, index, source)
        if dtype:find '32' then
          same(function(a, i, s) return a:clone():scatter_reduce_(d, i, s, how, false) end, x, index, source)
        end
      end
    end
  end)
end)

t.test('scatter: sums of floats of every size come in the order of the positions', function()
  mt.manual_seed(5)
  for _, n in ipairs {1000, 2 ^ 17 + 1} do
    local source = mt.randn({n}) * mt.randn({n}):exp():pow(4)
    same(function(a, i, s) return a:scatter_add(1, i, s) end, mt.zeros(3), positions(3, {n}), source)
    same(function(a, i, s) return a:scatter_add(1, i, s) end, mt.zeros(n), positions(n, {n}), source)
    same(function(a, i, s) return a:index_put({i}, s) end, mt.zeros(50), positions(50, {n}), source)
  end
end)

t.test('scatter along rows: one kernel, which sorts whole lines in shared memory, in the order of positions', function()
  mt.manual_seed(7)
  -- lines, cells of a line, values of a line: several lines in a tile, one, tiles of every size
  for _, case in ipairs {{40, 50, 64}, {1, 9, 33}, {5, 1024, 1000}, {2, 20000, 300}, {2, 3, 4096}} do
    local lines, cells, n = unpack(case)
    local index = positions(cells, {lines, n})
    local x = mt.randn({lines, n}) * mt.randn({lines, n}):exp():pow(4)
    local function add(a, i, s) return a:scatter_add(2, i, s) end
    same(add, mt.zeros(lines, cells), index, x)
    same(add, mt.zeros(cells, lines):t(), index, x)
    same(add, mt.zeros(lines, 1):expand(lines, cells):clone(), index[{{}, {1, n}}], mt.cat({x, x}, 2)[{{}, {2, n + 1}}])
    for _, dtype in ipairs {'uint8', 'float16', 'float64'} do
      same(function(a, i, s) return a:scatter(2, i, s) end, mt.zeros({lines, cells}, {dtype = dtype}), index,
        x:clamp(-5, 5):abs():to(dtype))
    end
    local z, i, s = mt.zeros({lines, cells}, {device = 'cuda'}), index:to('cuda'), x:to('cuda')
    local calls
    for _, row in ipairs(mt.profile(function() z:scatter_add(2, i, s) end, {quiet = true})) do
      if row.name == 'cuda: scatter' then calls = row.calls end
    end
    t.eq(calls, 1)
    i[{lines, n}] = cells + 1
    t.raises(function()
      z:scatter_add(2, i, s)
      mt.cuda.synchronize()
    end, 'position ' .. cells + 1)
  end
end)

t.test('index_select, index_add, index_copy, index_fill, take', function()
  mt.manual_seed(4)
  for _, case in ipairs {{{6, 5}, 1, 4}, {{40, 64}, 1, 1000}, {{40, 33}, 2, 500}, {{3, 48, 17}, 2, 400}} do
    local shape, d, n = case[1], case[2], case[3]
    local index, at = positions(shape[d], {n}), {}
    for k, size in ipairs(shape) do at[k] = k == d and n or size end
    for _, dtype in ipairs {'bool', 'int64', 'float32', 'float64'} do
      local x, source = values(shape, dtype), values(at, dtype)
      same(function(a, i) return a:index_select(d, i) end, x, index)
      same(function(a, i) return a:transpose(1, 2):index_select(d == 1 and 2 or 1, i) end,
        values(shape, dtype), d <= 2 and index or index)
      same(function(a, i, s) return a:index_copy(d, i, s) end, x, index, source)
      same(function(a, i, s) return a:clone():index_add_(d, i, s) end, x, index, source)
      same(function(a, i) return a:index_fill(d, i, 1) end, x, index)
      same(function(a, i) return a:take(i) end, x, positions(x:numel(), {7, 3}))
    end
  end
end)

t.test('index tensors, several and with ranges, read and written', function()
  mt.manual_seed(6)
  local x = values({7, 16, 9}, 'float64')
  local i, j = positions(7, {5, 1}), positions(16, {3})
  same(function(a, p, q) return a[{p, q}] end, x, i, j)
  same(function(a, p, q, r) return a[{p, {}, r}] end, x:float(), i, j, positions(9, {5, 3}))
  same(function(a, p) return a[{{}, p, {2, 5}}] end, x, j)
  same(function(a, p) return a[{1, -p}] end, x, j)
  local many = positions(7, {600})
  same(function(a, p, q)
    local y = a:clone()
    y[{p, q}] = mt.range(1, 600):double():to(a.device):reshape({600, 1}):expand({600, 9})
    return y
  end, x, many, positions(16, {600}))
  same(function(a, p, q)
    return a:index_put({p, q}, mt.range(1, 600):double():to(a.device):reshape({600, 1}):expand({600, 9}), true)
  end, x, many, positions(16, {600}))
end)

t.test('an index or a mask on the CPU is moved to the device of the tensor', function()
  local x = mt.range(1, 12):reshape({3, 4})
  local y = x:to('cuda')
  local i, m = mt.tensor({3, 1}, 'int64'), x:gt(5)
  t.eq(y[i]:cpu():tolist(), x[i]:tolist())
  t.eq(y[m]:cpu():tolist(), x[m]:tolist())
  y[i] = 0
  t.eq(y:cpu():tolist(), {{0, 0, 0, 0}, {5, 6, 7, 8}, {0, 0, 0, 0}})
  y[m] = -1
  t.eq(y:cpu():tolist(), {{0, 0, 0, 0}, {5, -1, -1, -1}, {-1, -1, -1, -1}})
  t.raises(function() return x[i:to('cuda')] end, 'index: the tensors are on cpu and cuda:0')
  t.raises(function() return y:index_select(1, i) end, 'index_select: the tensors are on cuda:0 and cpu')
  t.raises(function() return y:gather(1, x:long()) end, 'gather: the tensors are on cuda:0 and cpu')
  t.raises(function() return y:take(i) end, 'take: the tensors are on')
  t.raises(function() return y:masked_select(m) end, 'masked_select: the tensors are on')
  t.raises(function() return y:scatter_add(1, y:long():clamp(1, 1), x) end,
    'scatter_add: the tensors are on')
  t.raises(function() return mt.searchsorted(y, x) end, 'searchsorted: the tensors are on')
  t.raises(function() return mt.isin(y, x) end, 'isin: the tensors are on')
end)

t.test('masks: select, scatter, fill, nonzero, of every dtype and length', function()
  mt.manual_seed(8)
  for _, n in ipairs {0, 1, 7, 8, 33, 500, 2048, 2049, 8192, 32769, 70001} do
    for k, share in ipairs(n < 3000 and {0, 1, 5, 10} or {1, 10}) do
      local mask = mt.randint(0, 10, {n}, 'int64'):lt(share)
      for d, dtype in ipairs(n < 3000 and kDtypes or {'uint8', 'int8', 'int16', 'float32'}) do
        if (d + k) % 2 == 0 then
          local x, source = values({n}, dtype), values({n}, dtype)
          same(function(a, m) return a:masked_select(m) end, x, mask)
          same(function(a, m, s) return a:masked_scatter(m, s) end, x, mask, source)
          same(function(a, m) return a:masked_fill(m, 1) end, x, mask)
          same(function(a) return a:nonzero() end, x)
        end
      end
      if n > 9 then  -- a mask that begins in the middle of eight bytes
        same(function(a, m) return a[{{3, n - 1}}]:masked_select(m[{{3, n - 1}}]) end,
          values({n}, 'float32'), mask)
      end
    end
  end
  local mask = mt.rand({45, 33, 40}):lt(0.3)
  same(function(m) return m:nonzero() end, mask)
  same(function(m) return turned(m):nonzero() end, mask)
  same(function(m) return m:any(3):nonzero() end, mask)
  same(function(a, m) return a[{{}, m}] end, values({5, 33, 7}, 'int32'), mt.rand({33, 7}):lt(0.5))
  same(function(a, m) return a[m] end, values({33, 7}, 'int32'), mt.rand({33}):lt(0.5))
  same(function(a) return a[a:gt(0)] end, mt.tensor(3))
  same(function(a) return a:nonzero() end, mt.tensor(3))
  same(function(a) local y = a:clone() y[y:gt(0)] = 5 return y end, values({33, 40}, 'float32'))
  same(function(a) local y = a:clone() y[y:gt(0)] = y[y:gt(0)] * 2 return y end, values({33, 40}, 'int64'))
end)

t.test('searchsorted, bucketize, isin', function()
  mt.manual_seed(9)
  for _, dtype in ipairs {'uint8', 'int8', 'int16', 'int32', 'int64', 'float32', 'float64'} do
    local row = mt.tensor({0, 1, 1, 2, 4}, dtype)
    local rows = mt.stack({row, row + 1, row + 2})
    for _, right in ipairs {false, true} do
      same(function(s, v) return mt.searchsorted(s, v, right) end, row, values({7, 33}, dtype):abs())
      same(function(s, v) return mt.searchsorted(s, v, right) end, rows, values({3, 40}, dtype):abs())
      same(function(s, v) return mt.bucketize(v, s, right) end, row, values({1025}, dtype):abs())
    end
    same(function(x, y) return mt.isin(x, y) end, values({9, 16}, dtype), row)
  end
  same(function(s, v) return mt.searchsorted(s, v) end, mt.tensor({}), mt.tensor({1, 2}))
  same(function(s) return mt.searchsorted(s, 2) end, mt.tensor({1, 2, 3}))
  same(function(x) return mt.isin(x, 2) end, mt.tensor({1, 2, 3}))
  same(function(x) return mt.isin(x, mt.tensor({0 / 0}):to(x.device), false, true) end, mt.tensor({1, 2, 3}))
end)

t.test('a position that is not there is refused, and nothing is written', function()
  local x = mt.zeros(3, 4):to('cuda')
  local function at(...) return mt.tensor({...}, 'int64'):to('cuda') end
  t.raises(function() return x:index_select(1, at(1, 4)) end,
    'index_select: position 4 is outside 1..3 %(dimension 1 of %(3 x 4%)%)')
  t.raises(function() return x:index_select(2, at(0)) end, '0 is not a position')
  t.raises(function() return x:gather(2, at(1, 5):reshape({2, 1})) end, 'gather: position 5')
  t.raises(function() return x:scatter(2, at(1, -5):reshape({2, 1}), 1) end, 'scatter: position %-5')
  t.raises(function() return x[{at(1), at(9)}] end, 'position 9 is outside 1..4')
  t.raises(function() return x:index_add_(1, at(1, 9), mt.ones(2, 4):to('cuda')) end, 'position 9')
  local long = mt.ones({1000}, 'int64'):to('cuda')
  long[1000] = 5
  t.raises(function() return x:index_add(1, long, mt.ones(1000, 4):to('cuda')) end, 'position 5')
  t.raises(function() return mt.zeros(4):to('cuda'):scatter_(1, long, 1) end, 'position 5')
  t.raises(function() return mt.zeros(0):to('cuda'):take(at(1)) end, 'position 1')
  t.eq(x:sum():item(), 0)
end)

--- Compares the gradients of sum(fn(x, y)^2) on the CPU and on the GPU.
local function same_gradients(fn, ...)
  local here, there = {}, {}
  for i, x in ipairs {...} do
    here[i] = x:clone():requires_grad_()
    there[i] = x:to('cuda'):detach():requires_grad_()
  end
  local function go(list, device)
    fn(device, unpack(list)):pow(2):sum():backward()
    local out = {}
    for i, x in ipairs(list) do out[i] = x.grad:cpu():tolist() end
    return out
  end
  t.near(go(there, 'cuda'), go(here, 'cpu'), 1e-9)
end

t.test('gradients', function()
  mt.manual_seed(10)
  local x, s = mt.randn({6, 5}, 'float64'), mt.randn({600, 5}, 'float64')
  local rows, cells = positions(6, {600}), positions(6, {600, 5})
  same_gradients(function(d, a) return a:index_select(1, rows:to(d)) end, x)
  same_gradients(function(d, a) return a:gather(1, cells:to(d)) end, x)
  local places = positions(30, {90})
  same_gradients(function(d, a) return a:take(places:to(d)) end, x)
  same_gradients(function(d, a) return a[{rows:to(d), 2}] end, x)
  same_gradients(function(d, a, b) return a:index_add(1, rows:to(d), b) end, x, s)
  same_gradients(function(d, a, b) return a:index_copy(1, rows:to(d), b) end, x, s)
  same_gradients(function(d, a, b) return a:scatter(1, cells:to(d), b) end, x, s)
  same_gradients(function(d, a, b) return a:scatter_add(1, cells:to(d), b) end, x, s)
  for _, how in ipairs {'prod', 'mean', 'amax', 'amin'} do
    local few = mt.randn({8, 5}, 'float64')
    few[{2, 3}] = 0
    local at = positions(6, {8, 5})
    same_gradients(function(d, a, b) return a:scatter_reduce(1, at:to(d), b, how) end, x, few)
  end
  local mask = x:gt(0)
  same_gradients(function(d, a) return a:masked_select(mask:to(d)) end, x)
  same_gradients(function(d, a) return a:masked_fill(mask:to(d), 2) end, x)
  same_gradients(function(d, a, b) return a:masked_scatter(mask:to(d), b) end, x, s)
  same_gradients(function(d, a, b) return a:index_put({rows:to(d)}, b) end, x, s)
  same_gradients(function(d, a) return a[{mask:to(d)}] end, x)
  local w = mt.randn({6, 5}, 'float64'):requires_grad_()  -- nudged on the CPU
  local few, twice = positions(6, {4, 5}):to('cuda'), mt.tensor({2, 2}, 'int64'):to('cuda')
  local function fn(a) return a:to('cuda'):gather(1, few):index_select(2, twice):pow(3) end
  t.checks(fn, w)
end)

t.test('repeat_interleave', function()
  same(function(x, n) return mt.repeat_interleave(x, n, 1) end, mt.range(1, 12):reshape({3, 4}),
    mt.tensor({2, 0, 1}, 'int64'))
  same(function(x) return mt.repeat_interleave(x, 3, 2) end, mt.range(1, 12):reshape({3, 4}))
end)

t.test('losses by class', function()
  mt.manual_seed(12)
  local target = positions(10, {40})
  target[3] = -100
  local x = mt.randn({40, 10}, 'float64')
  local loss = mt.nll_loss(x:to('cuda'), target:to('cuda'))
  t.near(loss:item(), mt.nll_loss(x, target):item(), 1e-14)  -- each sums in its own order
end)

t.test('embedding and one_hot', function()
  mt.manual_seed(11)
  local ids = positions(10, {4, 300})
  same(function(w, i) return mt.embedding(i, w) end, mt.randn(10, 48), ids)
  same(function(i) return mt.one_hot(i, 10) end, ids)
  same(function(i) return mt.one_hot(i) end, ids)
  same_gradients(function(d, w) return mt.embedding(ids:to(d), w) end, mt.randn({10, 16}, 'float64'))
  same_gradients(function(d, w) return mt.embedding(ids:to(d), w, 3) end, mt.randn({10, 16}, 'float64'))
  t.raises(function() return mt.one_hot((ids + 5):to('cuda'), 10) end, 'id 1%d .* outside 1..10')
end)

t.finish()
