-- neural.lua -- softmax, normalisation, attention and embeddings as ONNX operators
local core = require 'mtorch.core'
local mt = require 'mtorch'

local entries = {}

local function axis_of(dim, rank) return dim > 0 and dim - 1 or dim + rank end

-- ---- softmax ---------------------------------------------------------------------------------------------

for name, op in pairs{softmax = 'Softmax', log_softmax = 'LogSoftmax'} do
  entries[name] = function(g, a, call)
    local x = g:cast(a.x, call.results[1].dtype)
    if #a.x.shape == 0 then return g:reshape(g[op](g:reshape(x, {1}), {axis = 0}), {}) end
    return g[op](x, {axis = axis_of(a.dim, #a.x.shape)})
  end
end
entries.softmin = function(g, a, call)
  return g.Softmax(-g:cast(a.x, call.results[1].dtype), {axis = axis_of(a.dim, #a.x.shape)})
end
entries.glu = function(g, a, call)
  local axis = axis_of(a.dim, #a.x.shape)
  local half = a.x.shape[axis + 1] / 2
  local x = g:cast(a.x, call.results[1].dtype)
  return g:slice(x, {axis}, {0}, {half}) * g.Sigmoid(g:slice(x, {axis}, {half}, {2 ^ 31}))
end
entries.normalize = function(g, a)
  local axis = axis_of(a.dim, #a.x.shape)
  local size
  if a.p == 2 then size = g:reduce('ReduceL2', a.x, {axis}, true)
  elseif a.p == 1 then size = g:reduce('ReduceL1', a.x, {axis}, true)
  else size = g:reduce('ReduceSum', g.Abs(a.x) ^ a.p, {axis}, true) ^ (1 / a.p) end
  return a.x / g.Max(size, a.eps)
end
entries.cosine_similarity = function(g, a, call)
  local dtype = call.results[1].dtype
  local x, y = g:cast(a.input1, dtype), g:cast(a.input2, dtype)
  x.shape, y.shape = a.input1.shape, a.input2.shape
  local axis = axis_of(a.dim, math.max(#x.shape, #y.shape)) - math.max(#x.shape, #y.shape)
  local function size(h)
    if #h.shape == 0 then return g.Max(g.Abs(h), a.eps) end
    return g.Max(g.Sqrt(g:reduce('ReduceSum', h * h, {axis})), a.eps)
  end
  return g:reduce('ReduceSum', x * y, {axis}) / (size(x) * size(y))
end
entries.pairwise_distance = function(g, a, call)
  local dtype = call.results[1].dtype
  local gap = g.Abs(g:cast(a.input1, dtype) - g:cast(a.input2, dtype) + a.eps)
  if a.p == 2 then return g:reduce('ReduceL2', gap, {-1}, a.keepdim) end
  if a.p == math.huge then return g:reduce('ReduceMax', gap, {-1}, a.keepdim) end
  return g:reduce('ReduceSum', gap ^ a.p, {-1}, a.keepdim) ^ (1 / a.p)
end

-- ---- normalisation ---------------------------------------------------------------------------------------

--- Makes x of mean 0 and variance 1 along axes.
local function standardised(g, x, axes, eps)
  local gap = x - g:reduce('ReduceMean', x, axes, true)
  return gap / g.Sqrt(g:reduce('ReduceMean', gap * gap, axes, true) + eps)
end
local function last_axes(a)
  local axes, n = {}, type(a.normalized_shape) == 'table' and #a.normalized_shape or 1
  for i = 1, n do axes[i] = i - n - 1 end
  return axes
end
entries.layer_norm = function(g, a)
  local axes, x = last_axes(a), a.input
  if g.opset >= 17 and a.weight then
    return (g.LayerNormalization(x, a.weight, a.bias or false, {axis = axes[1], epsilon = a.eps}))
  end
  local y = standardised(g, x, axes, a.eps)
  if a.weight then y = y * a.weight end
  return a.bias and y + a.bias or y
end
entries.rms_norm = function(g, a)
  local x = a.input
  local eps = a.eps or ({float64 = 2.220446049250313e-16, float16 = 0.0009765625, bfloat16 = 0.0078125})[x.dtype] or
    1.1920928955078125e-07
  local y = x / g.Sqrt(g:reduce('ReduceMean', x * x, last_axes(a), true) + eps)
  return a.weight and y * a.weight or y
end

--- A vector of one number for each channel, in the place of the channels of x.
local function channels(g, vector, rank)
  local shape = {vector.shape[1]}
  for i = 2, rank - 1 do shape[i] = 1 end
  return rank > 2 and g:reshape(vector, shape) or vector
end
local function scaled(g, y, a)
  local rank = #a.input.shape
  if a.weight then y = y * channels(g, a.weight, rank) end
  return a.bias and y + channels(g, a.bias, rank) or y
end
local function ones_for(g, x, value) return g:constant(mt.full({x.shape[2]}, value, {dtype = x.dtype})) end
local function with_running(g, a)
  local x = a.input
  return g.BatchNormalization(x, a.weight or ones_for(g, x, 1), a.bias or ones_for(g, x, 0), a.running_mean,
    a.running_var, {epsilon = a.eps})
end
entries.batch_norm = function(g, a)
  if a.running_mean and not a.training then return with_running(g, a) end
  local axes = {0}
  for i = 3, #a.input.shape do axes[#axes + 1] = i - 1 end
  return scaled(g, standardised(g, a.input, axes, a.eps), a)
end
entries.instance_norm = function(g, a)
  local x = a.input
  if a.running_mean and not a.use_input_stats then return with_running(g, a) end
  return g.InstanceNormalization(x, a.weight or ones_for(g, x, 1), a.bias or ones_for(g, x, 0), {epsilon = a.eps})
end
entries.group_norm = function(g, a)
  local x = a.input
  local size = x.shape[2] / a.num_groups
  for i = 3, #x.shape do size = size * x.shape[i] end
  local groups = g:reshape(x, {x.shape[1], a.num_groups, size})
  local y = g.InstanceNormalization(groups, g:constant(mt.ones({a.num_groups}, {dtype = x.dtype})),
    g:constant(mt.zeros({a.num_groups}, {dtype = x.dtype})), {epsilon = a.eps})
  return scaled(g, g:reshape(y, x.shape), a)
end

-- ---- dropout, which is nothing in eval mode ----------------------------------------------------------------

for _, name in ipairs{'dropout', 'dropout1d', 'dropout2d', 'dropout3d', 'alpha_dropout', 'feature_alpha_dropout'} do
  entries[name] = function(_, a) return a.x end
end

-- ---- embeddings --------------------------------------------------------------------------------------------

entries.embedding = function(g, a) return g.Gather(a.weight, g:to_positions(a.ids), {axis = 0}) end

--- Bags of different sizes: which of the ids [n] belong to each bag is a mask [bags x n].
local function ragged_bags(g, a)
  local ids, n = g:to_positions(a.ids), g.Size(a.ids)
  local from = g:to_positions(a.offsets)
  local to = g.Concat(g:slice(from, {0}, {1}, {2 ^ 31}), g:unsqueeze(n, {0}), {axis = 0})
  if a.include_last_offset then
    from, to = g:slice(from, {0}, {0}, {-1}), g:slice(from, {0}, {1}, {2 ^ 31})
  end
  local place = g:unsqueeze(g.Range(g:number(0, 'int64'), n, g:number(1, 'int64')), {0})
  local inside = g.And(g.GreaterOrEqual(place, g:unsqueeze(from, {1})), g.Less(place, g:unsqueeze(to, {1})))
  if a.padding_idx then inside = g.And(inside, g:unsqueeze(g.Not(g.Equal(ids, a.padding_idx - 1)), {0})) end
  local rows = g.Gather(a.weight, ids, {axis = 0})
  local member = g:cast(inside, rows.dtype)
  if a.mode == 'max' then
    local all = g.Where(g:unsqueeze(inside, {2}), g:unsqueeze(rows, {0}), g:number(-math.huge, rows.dtype))
    local most = g:reduce('ReduceMax', all, {1})
    return g.Where(g.IsInf(most), 0, most) -- empty bags
  end
  if a.per_sample_weights then rows = rows * g:unsqueeze(a.per_sample_weights, {1}) end
  local sum = g.MatMul(member, rows)
  if a.mode == 'sum' then return sum end
  return sum / g.Max(g:reduce('ReduceSum', member, {1}, true), 1)
end

entries.embedding_bag = function(g, a)
  if #a.ids.shape ~= 2 then return ragged_bags(g, a) end
  local ids = g:to_positions(a.ids)
  local rows = g.Gather(a.weight, ids, {axis = 0})
  local kept = a.padding_idx and g:unsqueeze(g.Not(g.Equal(ids, a.padding_idx - 1)), {2})
  if a.mode == 'max' then
    return g:reduce('ReduceMax', kept and g.Where(kept, rows, g:number(-math.huge, rows.dtype)) or rows, {1})
  end
  if a.per_sample_weights then rows = rows * g:unsqueeze(a.per_sample_weights, {2}) end
  if kept then rows = g.Where(kept, rows, 0) end
  if a.mode == 'sum' then return g:reduce('ReduceSum', rows, {1}) end
  if not kept then return g:reduce('ReduceMean', rows, {1}) end
  local count = g.Max(g:reduce('ReduceSum', g:cast(kept, rows.dtype), {1}), 1)
  return g:reduce('ReduceSum', rows, {1}) / count
end
entries.one_hot = function(g, a, call)
  local shape = call.results[1].shape
  return g.OneHot(g:to_positions(a.x), g:scalar(a.num_classes or shape[#shape], 'int64'),
    g:constant(mt.tensor({0, 1}, 'int64')), {axis = -1, dtype = call.results[1].dtype})
end

-- ---- attention ---------------------------------------------------------------------------------------------

--- Where a query may see a key: the lower triangle, as a bool [queries x keys].
local function causal(g, queries, keys)
  local function list(n) return g.Range(g:number(0, 'int64'), g:scalar(n, 'int64'), g:number(1, 'int64')) end
  return g.LessOrEqual(g:unsqueeze(list(keys), {0}), g:unsqueeze(list(queries), {1}))
end

--- softmax(q k' scale + mask) v; a bool mask is true where attention is allowed.
entries.scaled_dot_product_attention = function(g, a)
  local q, k, v = a.query, a.key, a.value
  local rank = #q.shape
  if a.dropout_p and a.dropout_p > 0 then
    core.fail('onnx.export: scaled_dot_product_attention with dropout draws random numbers')
  end
  local scale = a.scale or 1 / math.sqrt(q.shape[rank])
  local heads, shared = q.shape[rank - 2], k.shape[#k.shape - 2]
  if a.enable_gqa and heads ~= shared then
    local function repeated(h)
      local s = h.shape
      local shape = {s[1], s[2], heads / shared, s[3], s[4]}
      return g:reshape(g:expand(g:unsqueeze(h, {2}), shape), {s[1], heads, s[3], s[4]})
    end
    k, v = repeated(k), repeated(v)
  end
  local order = {}
  for i = 1, #k.shape do order[i] = i - 1 end
  order[#order], order[#order - 1] = order[#order - 1], order[#order]
  local scores = g.MatMul(q * scale, g:transpose(k, order))
  local allowed = a.is_causal and causal(g, q.shape[rank - 1], a.key.shape[#a.key.shape - 1])
  local mask = a.attn_mask
  if mask and mask.dtype == 'bool' then allowed, mask = allowed and g.And(allowed, mask) or mask, nil end
  if mask then scores = scores + mask end
  if not allowed then return g.MatMul(g.Softmax(scores, {axis = -1}), v) end
  local weights = g.Softmax(g.Where(allowed, scores, g:number(-math.huge, scores.dtype)), {axis = -1})
  if a.attn_mask then weights = g.Where(g.IsNaN(weights), 0, weights) end -- rows that see nothing
  return g.MatMul(weights, v)
end

return entries
