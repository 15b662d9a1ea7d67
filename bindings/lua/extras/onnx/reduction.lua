-- reduction.lua -- reductions, scans and sorting as ONNX operators
local mt = require 'mtorch'
local extend = mt.extend
local Graph = require 'mtorch.extras.onnx.graph'
local Size = require 'mtorch.extras.onnx.size'

local entries = {}

--- Returns the number of elements that are reduced along axes (empty: all): a number or a size.
local function count_of(x, axes)
  return Size.product(#axes > 0 and extend.util.map(axes, function(axis) return x.shape[axis + 1] end) or x.shape)
end

-- Reductions of x, which has the result's dtype.
local reduction = {}

for name, op in pairs{sum = 'ReduceSum', prod = 'ReduceProd', amax = 'ReduceMax', amin = 'ReduceMin',
    logsumexp = 'ReduceLogSumExp'} do
  reduction[name] = function(g, x, axes, keep) return g[op](x, axes, keep) end
end
local function mean(g, x, axes, keep)
  if count_of(x, axes) ~= 0 then return g.ReduceMean(x, axes, keep) end
  return g.ReduceSum(x, axes, keep) / 0 -- NaN, where onnxruntime has 0
end
reduction.mean = mean
local function zero_for_nan(g, x) return not x.dtype:find 'float' and x or g.Where(g.IsNaN(x), 0, x) end
function reduction.nansum(g, x, axes, keep) return g.ReduceSum(zero_for_nan(g, x), axes, keep) end
function reduction.nanmean(g, x, axes, keep)
  local n = g.ReduceSum(g:cast(g.Not(g.IsNaN(x)), x.dtype), axes, keep)
  return g.ReduceSum(zero_for_nan(g, x), axes, keep) / n
end
function entries.count_nonzero(g, a)
  return g.ReduceSum(g:cast(g:cast(a.x, 'bool'), 'int64'), a.x:axes(a.dim), a.keepdim)
end
local function all(g, mask, axes, keep)
  return g:cast(g.ReduceMin(g:cast(mask, 'int32'), axes, keep), 'bool')
end
function entries.all(g, a) return all(g, g:cast(a.x, 'bool'), a.x:axes(a.dim), a.keepdim) end
--- False for an empty x: ReduceMin of no elements counts as true.
function entries.any(g, a) return g.Not(all(g, g.Not(g:cast(a.x, 'bool')), a.x:axes(a.dim), a.keepdim)) end

-- ---- variance --------------------------------------------------------------------------------------------

local function variance(g, x, axes, a)
  local centre = mean(g, x, axes, true)
  local gap = x - centre
  local y = g.ReduceSum(gap * gap, axes, a.keepdim)
  local correction = a.correction
  if a.unbiased ~= nil then correction = a.unbiased and 1 or 0 end
  local divisor = count_of(x, axes) - correction
  local divided = y / (Size.is(divisor) and divisor or math.max(divisor, 0))
  if a.keepdim then return divided, centre end
  if #axes > 0 then return divided, g:squeeze(centre, axes) end
  return divided, g.Reshape(centre, g:ints{})
end
function reduction.var(g, x, axes, _, a) return (variance(g, x, axes, a)) end
function reduction.std(g, x, axes, _, a) return g.Sqrt((variance(g, x, axes, a))) end
function reduction.var_mean(g, x, axes, _, a) return variance(g, x, axes, a) end
function reduction.std_mean(g, x, axes, _, a)
  local spread, mean = variance(g, x, axes, a)
  return g.Sqrt(spread), mean
end
function reduction.norm(g, x, axes, keep, a) return g:norm(x, a.p == 'fro' and 2 or a.p, axes, keep) end

for name, f in pairs(reduction) do
  entries[name] = function(g, a, call)
    return f(g, g:cast(a.x, call.dtype == 'bool' and 'int32' or call.dtype), a.x:axes(a.dim), a.keepdim, a)
  end
end

-- ---- extremes and their positions ------------------------------------------------------------------------

local function place_of(g, op, x, dim, keep)
  if dim then return g[op](x, {axis = x:axis(dim), keepdims = keep and 1 or 0}) end
  local y = g[op](g:flat(x), {axis = 0, keepdims = 0})
  return keep and g:reshape(y, extend.util.map(x.shape, function() return 1 end)) or y
end
for name, op in pairs{argmax = 'ArgMax', argmin = 'ArgMin'} do
  entries[name] = function(g, a) return place_of(g, op, a.x, a.dim, a.keepdim) end
end
for name, ops in pairs{max = {'ReduceMax', 'ArgMax', 'Max'}, min = {'ReduceMin', 'ArgMin', 'Min'}} do
  entries[name] = function(g, a, call)
    if Graph.is_handle(a.dim) then
      return g[ops[3]](g:cast(a.x, call.dtype), g:cast(a.dim, call.dtype))
    end
    if a.dim == nil then return g[ops[1]](a.x, {}, a.keepdim) end
    return g[ops[1]](a.x, a.x:axes(a.dim), a.keepdim), place_of(g, ops[2], a.x, a.dim, a.keepdim)
  end
end
function entries.aminmax(g, a)
  local axes = a.x:axes(a.dim)
  return g.ReduceMin(a.x, axes, a.keepdim), g.ReduceMax(a.x, axes, a.keepdim)
end

-- ---- sorting ---------------------------------------------------------------------------------------------

--- Returns the first k elements in order and their positions; equal elements keep their order, as in a stable sort.
local function top(g, x, k, axis, largest)
  return g.TopK(x, g:size_list{k}, {axis = axis, largest = largest and 1 or 0, sorted = 1, outputs = 2})
end
function entries.topk(g, a) return top(g, a.x, a.k, a.x:axis(a.dim), a.largest) end
local function sorted(g, a)
  local axis = a.x:axis(a.dim)
  return top(g, a.x, a.x.shape[axis + 1], axis, a.descending)
end
entries.sort = sorted
function entries.argsort(g, a) return (select(2, sorted(g, a))) end
function entries.msort(g, a) return (top(g, a.x, a.x.shape[1], 0, false)) end

--- Returns the k-th smallest element along an axis, and its position.
local function ranked(g, x, k, axis, keep)
  local values, places = top(g, x, k, axis, false)
  local function last(h)
    local y = g.Gather(h, g:ints{-1}, {axis = axis})
    return keep and y or g:squeeze(y, {axis})
  end
  return last(values), last(places)
end
function entries.kthvalue(g, a) return ranked(g, a.x, a.k, a.x:axis(a.dim), a.keepdim) end
--- Returns x, flattened if no dimension is given; the axis and its size.
local function ranked_axis(g, a)
  local axes = a.x:axes(a.dim)
  return a.dim and a.x or g:flat(a.x), axes[1] or 0, count_of(a.x, axes)
end
function entries.median(g, a)
  local x, axis, n = ranked_axis(g, a)
  local value, place = ranked(g, x, math.floor((n + 1) / 2), axis, a.keepdim)
  if not a.dim then return value end
  return value, place
end
--- The element at a fraction of the sorted order, interpolated.
function entries.quantile(g, a)
  local x, axis, n = ranked_axis(g, a)
  extend.check(type(a.q) == 'number' and a.interpolation == 'linear',
    "onnx.export: quantile is known for one number q and interpolation='linear'")
  local values = top(g, x, n, axis, false)
  local at = a.q * (n - 1)
  local low = math.floor(at)
  local function pick(i) return g.Gather(values, g:ints{i}, {axis = axis}) end
  local y, weight = pick(low), at - low
  if weight >= 0.5 then y = pick(low + 1) - (pick(low + 1) - y) * (1 - weight)
  elseif weight > 0 then y = y + (pick(low + 1) - y) * weight end
  return a.dim and a.keepdim and y or g:squeeze(y, {axis})
end

--- Returns the count of each of `depth` positions, or the sum of its weights.
local function counted(g, places, depth, weights, dtype)
  local hot = g:one_hot(places, depth, 0, dtype)
  return g.ReduceSum(weights and hot * weights or hot, {1})
end
function entries.bincount(g, a, call)
  local places, dtype = g:to_positions(a.x), call.dtype
  local depth = g.ReduceMax(places) + 1
  if a.minlength > 0 then depth = g.Max(depth, a.minlength) end
  return counted(g, places, depth, a.weights and g:cast(a.weights, dtype), dtype)
end
function entries.histc(g, a)
  local x = g:flat(a.x)
  local low, high = a.min, a.max
  if low == high then
    low, high = g.ReduceMin(x), g.ReduceMax(x)
    local alone = g:cast(g.Equal(low, high), x.dtype)
    low, high = low - alone, high + alone
  end
  local inside = g.And(g.GreaterOrEqual(x, low), g.LessOrEqual(x, high))
  local place = g.Floor((x - low) / (high - low) * a.bins)
  place = g:cast(g.Where(inside, g.Min(place, a.bins - 1), 0), 'int64')
  return counted(g, place, a.bins, g:cast(inside, x.dtype), x.dtype)
end
function entries.unique(g, a, call)
  if a.dim or not a.sorted then extend.fail('onnx.export: unique is known for all elements, sorted') end
  local known = a.x.dtype == 'int64' or a.x.dtype:find 'float' -- to onnxruntime
  local values, _, inverse, counts = g.Unique(known and a.x or g:cast(a.x, 'int64'), {sorted = 1, outputs = 4})
  local results = {g:cast(values, a.x.dtype)}
  if a.return_inverse then results[2] = g:reshape(inverse, a.x.shape) end
  if a.return_counts then results[#results + 1] = counts end
  return unpack(results, 1, #call.results)
end

-- ---- scans -----------------------------------------------------------------------------------------------

function entries.cumsum(g, a, call)
  return g.CumSum(g:cast(a.x, call.dtype), g:cast(a.x:axis(a.dim), 'int64'))
end
--- Reduces every element with those before it along the axis; the others are `neutral`.
local function running(g, a, op, neutral)
  local rank, axis = #a.x.shape, a.x:axis(a.dim)
  local order = g.other_axes(rank, {axis})
  order[rank] = axis
  local list = g:arange(a.x.shape[axis + 1])
  local seen = g.LessOrEqual(g:unsqueeze(list, {0}), g:unsqueeze(list, {1}))
  local rows = g:unsqueeze(g:transpose(a.x, order), {rank - 1})
  rows = g.Where(seen, rows, g:cast(neutral, a.x.dtype))
  local last = op:find '^Arg' and g[op](rows, {axis = rank, keepdims = 0, select_last_index = 1})
  local y = last or g[op](rows, {rank})
  return g:transpose(y, mt.tensor(order):argsort():sub(1):tolist())
end
for name, how in pairs{cumprod = {'ReduceProd', 1}, logcumsumexp = {'ReduceLogSumExp', -math.huge}} do
  entries[name] = function(g, a, call)
    return running(g, {x = g:cast(a.x, call.dtype), dim = a.dim}, how[1], how[2])
  end
end

for name, how in pairs{cummax = {'ReduceMax', 'ArgMax', -1}, cummin = {'ReduceMin', 'ArgMin', 1}} do
  entries[name] = function(g, a)
    if not a.x.dtype:find 'float' then a.x = g:cast(a.x, 'float64') end
    return running(g, a, how[1], how[3] * math.huge), running(g, a, how[2], how[3] * math.huge)
  end
end
-- ---- differences -----------------------------------------------------------------------------------------

function entries.diff(g, a)
  local x, axis = a.x, a.x:axis(a.dim)
  if a.prepend then x = g.Concat(a.prepend, x, {axis = axis}) end
  if a.append then x = g.Concat(x, a.append, {axis = axis}) end
  for _ = 1, a.n do x = g:slice(x, {axis}, {1}, {2 ^ 31}) - g:slice(x, {axis}, {0}, {-1}) end
  return x
end

--- Wraps an entry: a 0-d tensor is reduced as a 1-d one; a bool tensor is compared as integers.
local function prepared(entry, name)
  return function(g, a, call, lowering)
    local x, single = a.x, false
    if x then
      single = #x.shape == 0
      if single then x = g:reshape(x, {1}) end
      a.x = x.dtype == 'bool' and name ~= 'all' and name ~= 'any' and g:cast(x, 'int32') or x
    end
    local made = {entry(g, a, call, lowering)}
    for k, result in ipairs(call.results) do
      if single and made[k] then made[k] = g:reshape(made[k], result.shape) end
    end
    return unpack(made)
  end
end
for name, entry in pairs(entries) do entries[name] = prepared(entry, name) end

return entries
