-- reduction.lua -- reductions, scans and sorting as ONNX operators
local core = require 'mtorch.core'
local mt = require 'mtorch'
local Graph = require 'mtorch.onnx.graph'
local Size = require 'mtorch.onnx.size'

local entries = {}

local function axis_of(dim, rank) return dim > 0 and dim - 1 or dim + rank end
--- The axes of dims, from 0; empty: all.
local function axes_of(a)
  local axes = {}
  if a.dim == nil then return axes end
  for i, dim in ipairs(type(a.dim) == 'table' and a.dim or {a.dim}) do axes[i] = axis_of(dim, #a.x.shape) end
  return axes
end
--- How many elements become one: a number or a size.
local function count_of(x, axes)
  local n = 1
  for _, axis in ipairs(axes) do n = n * x.shape[axis + 1] end
  if #axes == 0 then
    for _, size in ipairs(x.shape) do n = n * size end
  end
  return n
end

--- Entries of reductions of x, converted to the result's dtype before.
local function reduction(name, f)
  entries[name] = function(g, a, call)
    local dtype = call.results[1].dtype
    local x = g:cast(a.x, dtype == 'bool' and 'int32' or dtype)
    x.shape = a.x.shape
    return f(g, x, axes_of(a), a.keepdim, a)
  end
end

for name, op in pairs{sum = 'ReduceSum', prod = 'ReduceProd', mean = 'ReduceMean', amax = 'ReduceMax',
    amin = 'ReduceMin', logsumexp = 'ReduceLogSumExp'} do
  reduction(name, function(g, x, axes, keep) return g:reduce(op, x, axes, keep) end)
end
local function zero_for_nan(g, x) return not x.dtype:find 'float' and x or g.Where(g.IsNaN(x), 0, x) end
reduction('nansum', function(g, x, axes, keep) return g:reduce('ReduceSum', zero_for_nan(g, x), axes, keep) end)
reduction('nanmean', function(g, x, axes, keep)
  local n = g:reduce('ReduceSum', g:cast(g.Not(g.IsNaN(x)), x.dtype), axes, keep)
  return g:reduce('ReduceSum', zero_for_nan(g, x), axes, keep) / n
end)
entries.count_nonzero = function(g, a)
  return g:reduce('ReduceSum', g:cast(g:cast(a.x, 'bool'), 'int64'), axes_of(a), a.keepdim)
end
for name, op in pairs{all = 'ReduceMin', any = 'ReduceMax'} do
  entries[name] = function(g, a)
    return g:cast(g:reduce(op, g:cast(g:cast(a.x, 'bool'), 'int32'), axes_of(a), a.keepdim), 'bool')
  end
end

-- ---- spread ----------------------------------------------------------------------------------------------

local function variance(g, x, axes, a)
  local mean = g:reduce('ReduceMean', x, axes, true)
  local gap = x - mean
  local y = g:reduce('ReduceSum', gap * gap, axes, a.keepdim)
  local correction = a.correction
  if a.unbiased ~= nil then correction = a.unbiased and 1 or 0 end
  local n = count_of(x, axes) - correction
  local divided = y / (Size.is(n) and g:scalar(n, x.dtype) or n)
  if a.keepdim then return divided, mean end
  if #axes > 0 then return divided, g:squeeze(mean, axes) end
  return divided, g.Reshape(mean, g:ints{})
end
reduction('var', function(g, x, axes, _, a) return (variance(g, x, axes, a)) end)
reduction('std', function(g, x, axes, _, a) return g.Sqrt((variance(g, x, axes, a))) end)
reduction('var_mean', function(g, x, axes, _, a) return variance(g, x, axes, a) end)
reduction('std_mean', function(g, x, axes, _, a)
  local spread, mean = variance(g, x, axes, a)
  return g.Sqrt(spread), mean
end)
reduction('norm', function(g, x, axes, keep, a)
  local p = a.p
  if p == 'fro' or p == 2 then return g:reduce('ReduceL2', x, axes, keep) end
  if p == 1 then return g:reduce('ReduceL1', x, axes, keep) end
  if p == math.huge then return g:reduce('ReduceMax', g.Abs(x), axes, keep) end
  if p == -math.huge then return g:reduce('ReduceMin', g.Abs(x), axes, keep) end
  if p == 0 then return g:reduce('ReduceSum', g:cast(g:cast(x, 'bool'), x.dtype), axes, keep) end
  return g:reduce('ReduceSum', g.Abs(x) ^ p, axes, keep) ^ (1 / p)
end)
reduction('entropy', function(g, x, axes, keep)
  local sum = g:reduce('ReduceSum', x, axes, keep)
  return g.Log(sum) - g:reduce('ReduceSum', g.Where(g.Equal(x, 0), 0, x * g.Log(x)), axes, keep) / sum
end)

-- ---- extremes and their positions ------------------------------------------------------------------------

local function place_of(g, op, x, dim, keep, rank)
  if dim == nil then
    local y = g[op](g.Reshape(x, g:ints{-1}), {axis = 0, keepdims = 0})
    if keep then
      local shape = {}
      for i = 1, rank do shape[i] = 1 end
      y = g:reshape(y, shape)
    end
    y.positions = true
    return y
  end
  local y = g[op](x, {axis = axis_of(dim, rank), keepdims = keep and 1 or 0})
  y.positions = true
  return y
end
for name, op in pairs{argmax = 'ArgMax', argmin = 'ArgMin'} do
  entries[name] = function(g, a) return place_of(g, op, a.x, a.dim, a.keepdim, #a.x.shape) end
end
for name, ops in pairs{max = {'ReduceMax', 'ArgMax', 'Max'}, min = {'ReduceMin', 'ArgMin', 'Min'}} do
  entries[name] = function(g, a, call)
    if Graph.is_handle(a.dim) then
      return g[ops[3]](g:cast(a.x, call.results[1].dtype), g:cast(a.dim, call.results[1].dtype))
    end
    if a.dim == nil then return g:reduce(ops[1], a.x, {}, a.keepdim) end
    return g:reduce(ops[1], a.x, axes_of(a), a.keepdim), place_of(g, ops[2], a.x, a.dim, a.keepdim, #a.x.shape)
  end
end
entries.aminmax = function(g, a)
  return g:reduce('ReduceMin', a.x, axes_of(a), a.keepdim), g:reduce('ReduceMax', a.x, axes_of(a), a.keepdim)
end

-- ---- sorting ---------------------------------------------------------------------------------------------

--- The k first elements in order and their positions; of equal ones the first comes first, as in a stable sort.
local function top(g, x, k, axis, largest)
  local values, places = g.TopK(x, g:size_list{k}, {axis = axis, largest = largest and 1 or 0, sorted = 1, outputs = 2})
  places = g:value(places.name, 'int64')
  places.positions = true
  return values, places
end
entries.topk = function(g, a) return top(g, a.x, a.k, axis_of(a.dim, #a.x.shape), a.largest) end
local function sorted(g, a)
  local axis = axis_of(a.dim, #a.x.shape)
  return top(g, a.x, a.x.shape[axis + 1], axis, a.descending)
end
entries.sort = sorted
entries.argsort = function(g, a) return (select(2, sorted(g, a))) end
entries.msort = function(g, a) return (top(g, a.x, a.x.shape[1], 0, false)) end

--- The k-th smallest along an axis, and its position.
local function ranked(g, x, k, axis, keep)
  local values, places = top(g, x, k, axis, false)
  local function last(h)
    local y = g.Gather(h, g:ints{-1}, {axis = axis})
    return keep and y or g:squeeze(y, {axis})
  end
  return last(values), last(places)
end
entries.kthvalue = function(g, a) return ranked(g, a.x, a.k, axis_of(a.dim, #a.x.shape), a.keepdim) end
entries.median = function(g, a)
  local x, axis, n = a.x, 0, count_of(a.x, axes_of(a))
  if Size.is(n) then
    core.fail('onnx.export: median along an axis whose size follows the dynamic axes has no ONNX form')
  end
  if a.dim then axis = axis_of(a.dim, #x.shape) else x = g.Reshape(x, g:ints{-1}) end
  local value, place = ranked(g, x, math.floor((n + 1) / 2), axis, a.keepdim)
  if not a.dim then return value end
  return value, place
end
--- The element at a fraction of the order, between its neighbours.
entries.quantile = function(g, a)
  local x, axis, n = a.x, 0, count_of(a.x, axes_of(a))
  if type(a.q) ~= 'number' or a.interpolation ~= 'linear' or Size.is(n) then
    core.fail("onnx.export: quantile is known for one number q, interpolation='linear', and sizes that are known")
  end
  if a.dim then axis = axis_of(a.dim, #x.shape) else x = g.Reshape(x, g:ints{-1}) end
  local values = top(g, x, n, axis, false)
  local at = a.q * (n - 1)
  local low = math.floor(at)
  local function pick(i) return g.Gather(values, g:ints{math.min(i, n - 1)}, {axis = axis}) end
  local y = pick(low) * (1 - (at - low)) + pick(low + 1) * (at - low)
  return a.dim and a.keepdim and y or g:squeeze(y, {axis})
end

--- How often each of `depth` positions stands, or the sum of its weights.
local function counted(g, places, depth, weights, dtype)
  local hot = g.OneHot(places, depth, g:constant(mt.tensor({0, 1}, dtype)), {axis = 0, dtype = dtype})
  return g:reduce('ReduceSum', weights and hot * weights or hot, {1}, false)
end
entries.bincount = function(g, a, call)
  local places, dtype = g:to_positions(a.x), call.results[1].dtype
  local depth = g:reduce('ReduceMax', places, {}, false) + 1
  if a.minlength > 0 then depth = g.Max(depth, a.minlength) end
  return counted(g, places, depth, a.weights and g:cast(a.weights, dtype), dtype)
end
entries.histc = function(g, a)
  local x = g.Reshape(a.x, g:ints{-1})
  local low, high = a.min, a.max
  if low == high then low, high = g:reduce('ReduceMin', x, {}, false), g:reduce('ReduceMax', x, {}, false) end
  local inside = g.And(g.GreaterOrEqual(x, low), g.LessOrEqual(x, high))
  local place = g.Floor((x - low) / (high - low) * a.bins)
  place = g:cast(g.Where(inside, g.Min(place, a.bins - 1), 0), 'int64')
  return counted(g, place, g:number(a.bins, 'int64'), g:cast(inside, x.dtype), x.dtype)
end
entries.unique = function(g, a, call)
  if a.dim or not a.sorted then core.fail('onnx.export: unique is known for all elements, sorted') end
  local values, _, inverse, counts = g.Unique(a.x, {sorted = 1, outputs = 4})
  local results = {values}
  if a.return_inverse then
    results[2] = g:reshape(g:value(inverse.name, 'int64'), a.x.shape)
    results[2].positions = true
  end
  if a.return_counts then results[#results + 1] = g:value(counts.name, 'int64') end
  return unpack(results, 1, #call.results)
end

-- ---- scans -----------------------------------------------------------------------------------------------

entries.cumsum = function(g, a, call)
  return g.CumSum(g:cast(a.x, call.results[1].dtype), g:number(axis_of(a.dim, #a.x.shape), 'int64'))
end
--- Every element with those before it along the axis, in a new last dimension; the others are `neutral`.
local function running(g, a, op, neutral)
  local rank = #a.x.shape
  local axis = axis_of(a.dim, rank)
  local n = a.x.shape[axis + 1]
  local order = {}
  for i = 0, rank - 1 do
    if i ~= axis then order[#order + 1] = i end
  end
  order[rank] = axis
  local list = g.Range(g:number(0, 'int64'), g:scalar(n, 'int64'), g:number(1, 'int64'))
  local seen = g.LessOrEqual(g:unsqueeze(list, {0}), g:unsqueeze(list, {1}))
  local rows = g:unsqueeze(g:transpose(a.x, order), {rank - 1})
  rows = g.Where(seen, rows, g:number(neutral, a.x.dtype))
  local last = op:find '^Arg' and g[op](rows, {axis = rank, keepdims = 0, select_last_index = 1})
  local y = last or g:reduce(op, rows, {rank}, false)
  local back = {}
  for i, from in ipairs(order) do back[from + 1] = i - 1 end
  return g:transpose(y, back)
end
for name, how in pairs{cumprod = {'ReduceProd', 1}, logcumsumexp = {'ReduceLogSumExp', -math.huge}} do
  entries[name] = function(g, a, call)
    local x = g:cast(a.x, call.results[1].dtype)
    x.shape = a.x.shape
    return running(g, {x = x, dim = a.dim}, how[1], how[2])
  end
end

for name, how in pairs{cummax = {'ReduceMax', 'ArgMax', -1}, cummin = {'ReduceMin', 'ArgMin', 1}} do
  entries[name] = function(g, a)
    local shape = a.x.shape
    if not a.x.dtype:find 'float' then a.x = g:cast(a.x, 'float64') end
    a.x.shape = shape
    local places = running(g, a, how[2], how[3] * math.huge)
    places.positions = true
    return running(g, a, how[1], how[3] * math.huge), places
  end
end
entries.discounted_cumsum = function(g, a, call)
  local axis, rank = axis_of(a.dim, #a.x.shape), #a.x.shape
  local n = a.x.shape[axis + 1]
  if Size.is(n) then core.fail('onnx.export: discounted_cumsum along a dynamic axis has no ONNX form') end
  local i = mt.range(1, n):to(a.x.dtype)
  local gap = i:unsqueeze(1) - i:unsqueeze(2)
  local weights = mt.where(gap:ge(0), mt.full({}, a.discount, {dtype = a.x.dtype}) ^ gap:clamp(0), 0)
  local order = {}
  for k = 0, rank - 1 do order[k + 1] = k end
  order[axis + 1], order[rank] = rank - 1, axis
  return g:transpose(g.MatMul(g:transpose(a.x, order), g:constant(weights)), order), call
end

-- ---- differences -----------------------------------------------------------------------------------------

entries.diff = function(g, a)
  local x, axis = a.x, axis_of(a.dim, #a.x.shape)
  if a.prepend then x = g.Concat(a.prepend, x, {axis = axis}) end
  if a.append then x = g.Concat(x, a.append, {axis = axis}) end
  for _ = 1, a.n do x = g:slice(x, {axis}, {1}, {2 ^ 31}) - g:slice(x, {axis}, {0}, {-1}) end
  return x
end
entries.cov = function(g, a, call)
  if a.fweights or a.aweights or #a.x.shape ~= 2 or Size.is(a.x.shape[2]) then
    core.fail('onnx.export: cov is known for [n x m] without weights')
  end
  local gap = a.x - g:reduce('ReduceMean', a.x, {1}, true)
  local y = g.MatMul(gap, g:transpose(gap, {1, 0}))
  if call.op == 'cov' then return y / (a.x.shape[2] - a.correction) end
  local size = g:reduce('ReduceL2', gap, {1}, true)
  return g.Clip(y / size / g:transpose(size, {1, 0}), -1, 1)
end
entries.corrcoef = entries.cov
entries.trapezoid = function(g, a, call)
  local axis = axis_of(a.dim, #a.y.shape)
  local function pairs_of(h, along)
    return g:slice(h, {along}, {1}, {2 ^ 31}), g:slice(h, {along}, {0}, {-1})
  end
  local dtype = call.results[1].dtype
  local right, left = pairs_of(g:cast(a.y, dtype), axis)
  local mean, width = (right + left) * 0.5, a.dx
  if a.x then
    local last, first = pairs_of(g:cast(a.x, dtype), #a.x.shape == 1 and #a.y.shape == 1 and 0 or
      #a.x.shape == 1 and 0 or axis)
    width = last - first
    if #a.x.shape == 1 and axis < #a.y.shape - 1 then
      local shape = {a.x.shape[1] - 1}
      for i = axis + 2, #a.y.shape do shape[i - axis] = 1 end
      width = g:reshape(width, shape)
    end
  end
  if call.op == 'cumulative_trapezoid' then return g.CumSum(mean * width, g:number(axis, 'int64')) end
  return g:reduce('ReduceSum', mean * width, {axis})
end
entries.cumulative_trapezoid = entries.trapezoid
--- A 0-d tensor is reduced as one of one element; a bool one is compared as whole numbers.
local function prepared(entry, name)
  return function(g, a, call, lowering)
    local x, single = a.x, false
    if x then
      single = #x.shape == 0
      if single then x = g:reshape(x, {1}) end
      if x.dtype == 'bool' and name ~= 'all' and name ~= 'any' then
        local shape = x.shape
        x = g:cast(x, 'int32')
        x.shape = shape
      end
      a.x = x
    end
    local made = {entry(g, a, call, lowering)}
    for k, result in ipairs(call.results) do
      if single and made[k] then
        local kind = made[k].positions
        made[k] = g:reshape(made[k], result.shape)
        made[k].positions = kind
      end
    end
    return unpack(made)
  end
end
for name, entry in pairs(entries) do entries[name] = prepared(entry, name) end

entries.dist = function(g, a, call)
  local dtype = call.results[1].dtype
  local gap = g.Abs(g:cast(a.x, dtype) - g:cast(a.y, dtype))
  if a.p == math.huge then return g:reduce('ReduceMax', gap, {}) end
  return g:reduce('ReduceSum', gap ^ a.p, {}) ^ (1 / a.p)
end

return entries
