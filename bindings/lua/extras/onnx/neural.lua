-- neural.lua -- softmax, normalisation, embeddings, attention and recurrent layers as ONNX operators
local mt = require 'mtorch'
local extend = mt.extend
local Graph = require 'mtorch.extras.onnx.graph'
local Size = require 'mtorch.extras.onnx.size'
local map = extend.util.map

local entries = {}

-- ---- softmax ---------------------------------------------------------------------------------------------

for name, op in pairs{softmax = 'Softmax', log_softmax = 'LogSoftmax', softmin = 'Softmax'} do
  entries[name] = function(g, a, call)
    local x = g:cast(a.x, call.dtype)
    if name == 'softmin' then x = -x end
    if #a.x.shape == 0 then return g:reshape(g[op](g:reshape(x, {1}), {axis = 0}), {}) end
    return g[op](x, {axis = a.x:axis(a.dim)})
  end
end
function entries.glu(g, a, call)
  local axis = a.x:axis(a.dim)
  local half = a.x.shape[axis + 1] / 2
  local x = g:cast(a.x, call.dtype)
  return g:slice(x, {axis}, {0}, {half}) * g.Sigmoid(g:slice(x, {axis}, {half}, {2 ^ 31}))
end
--- Divides x by its p-norm along an axis, clamped to eps, and above 0 in float16; a 0-d x by its magnitude.
local function normalized(g, x, p, axis, eps)
  local size = #x.shape == 0 and g.Abs(x) or g:norm(x, p, {axis}, true)
  return x / g.Max(size, x.dtype == 'float16' and math.max(eps, 2 ^ -24) or eps)
end
function entries.normalize(g, a) return normalized(g, a.x, a.p, g.axis(a.dim, #a.x.shape), a.eps) end
function entries.cosine_similarity(g, a, call)
  local x, y = g:cast(a.input1, call.dtype), g:cast(a.input2, call.dtype)
  local rank = math.max(#x.shape, #y.shape)
  local axis = g.axis(a.dim, rank) - rank
  local product = normalized(g, x, 2, axis, a.eps) * normalized(g, y, 2, axis, a.eps)
  return rank == 0 and product or g.ReduceSum(product, {axis})
end
function entries.pairwise_distance(g, a, call)
  local gap = g:cast(a.input1, call.dtype) - g:cast(a.input2, call.dtype) + a.eps
  return #a.input1.shape + #a.input2.shape == 0 and g.Abs(gap) or g:norm(gap, a.p, {-1}, a.keepdim)
end

-- ---- normalisation ---------------------------------------------------------------------------------------

--- Normalises x to mean 0 and variance 1 along axes.
local function standardised(g, x, axes, eps)
  local gap = x - g.ReduceMean(x, axes, true)
  return gap / g.Sqrt(g.ReduceMean(gap * gap, axes, true) + eps)
end
local function last_axes(a)
  return Graph.axes_from(Size.is_list(a.normalized_shape) and -#a.normalized_shape or -1, 0)
end
function entries.layer_norm(g, a)
  local axes, x = last_axes(a), a.input
  if g.opset >= 17 and a.weight then
    return (g.LayerNormalization(x, a.weight, a.bias or false, {axis = axes[1], epsilon = a.eps}))
  end
  local y = standardised(g, x, axes, a.eps)
  if a.weight then y = y * a.weight end
  return a.bias and y + a.bias or y
end
function entries.rms_norm(g, a)
  local x = a.input.dtype == 'float16' and g:cast(a.input, 'float32') or a.input -- small squares would underflow
  local eps = a.eps or (x.dtype == 'float64' and 2.220446049250313e-16 or 1.1920928955078125e-07)
  local y = g:cast(x / g.Sqrt(g.ReduceMean(x * x, last_axes(a), true) + eps), a.input.dtype)
  return a.weight and y * a.weight or y
end

local function scaled(g, y, a)
  local after = #a.input.shape - 2
  if a.weight then y = y * g:per_channel(a.weight, after) end
  return a.bias and y + g:per_channel(a.bias, after) or y
end
local function filled(g, n, value, dtype) return g:constant(mt.full({n}, value, {dtype = dtype})) end
--- Returns weight and bias of each channel.
local function weight_and_bias(g, a)
  local n, dtype = a.input.shape[2], a.input.dtype
  return a.weight or filled(g, n, 1, dtype), a.bias or filled(g, n, 0, dtype)
end
local function with_running(g, a)
  local weight, bias = weight_and_bias(g, a)
  return g.BatchNormalization(a.input, weight, bias, a.running_mean, a.running_var, {epsilon = a.eps})
end
function entries.batch_norm(g, a)
  if a.running_mean and not a.training then return with_running(g, a) end
  return scaled(g, standardised(g, a.input, {0, unpack(g.axes_from(2, #a.input.shape))}, a.eps), a)
end
function entries.instance_norm(g, a)
  if a.running_mean and not a.use_input_stats then return with_running(g, a) end
  if a.input.dtype == 'float64' then
    return scaled(g, standardised(g, a.input, g.axes_from(2, #a.input.shape), a.eps), a)
  end
  local weight, bias = weight_and_bias(g, a)
  return g.InstanceNormalization(a.input, weight, bias, {epsilon = a.eps})
end
function entries.group_norm(g, a)
  local x, n = a.input, a.num_groups
  local groups = g:reshape(x, {x.shape[1], n, Size.product{unpack(x.shape, 2)} / n})
  local y = x.dtype == 'float64' and standardised(g, groups, {2}, a.eps) or
    g.InstanceNormalization(groups, filled(g, n, 1, x.dtype), filled(g, n, 0, x.dtype), {epsilon = a.eps})
  return scaled(g, g:reshape(y, x.shape), a)
end

-- ---- embeddings --------------------------------------------------------------------------------------------

function entries.embedding(g, a) return g.Gather(a.weight, g:to_positions(a.ids), {axis = 0}) end

--- The maxima of the rows of bags that a mask selects; of none it is 0.
local function maxima(g, mask, rows)
  local most = g.ReduceMax(g.Where(mask, rows, -math.huge), {1})
  return g.Where(g.IsInf(most, {detect_positive = 0}), 0, most)
end

--- Bags of different sizes: a mask [bags x n] selects the ids [n] of each bag.
local function ragged_bags(g, a)
  local ids, n = g:to_positions(a.ids), g.Size(a.ids)
  local from = g:to_positions(a.offsets)
  local to = g:concat({g:slice(from, {0}, {1}, {2 ^ 31}), g:unsqueeze(n, {0})}, 0)
  if a.include_last_offset then
    from, to = g:slice(from, {0}, {0}, {-1}), g:slice(from, {0}, {1}, {2 ^ 31})
  end
  local place = g:unsqueeze(g:arange(n), {0})
  local inside = g.And(g.GreaterOrEqual(place, g:unsqueeze(from, {1})), g.Less(place, g:unsqueeze(to, {1})))
  if a.padding_idx then inside = g.And(inside, g:unsqueeze(g.Not(g.Equal(ids, a.padding_idx - 1)), {0})) end
  local rows = g.Gather(a.weight, ids, {axis = 0})
  local member = g:cast(inside, rows.dtype)
  if a.mode == 'max' then return maxima(g, g:unsqueeze(inside, {2}), g:unsqueeze(rows, {0})) end
  if a.per_sample_weights then rows = rows * g:unsqueeze(a.per_sample_weights, {1}) end
  local sum = g.MatMul(member, rows)
  if a.mode == 'sum' then return sum end
  return sum / g.Max(g.ReduceSum(member, {1}, true), 1)
end

function entries.embedding_bag(g, a)
  if #a.ids.shape ~= 2 then return ragged_bags(g, a) end
  local ids = g:to_positions(a.ids)
  local rows = g.Gather(a.weight, ids, {axis = 0})
  local kept = a.padding_idx and g:unsqueeze(g.Not(g.Equal(ids, a.padding_idx - 1)), {2})
  if a.mode == 'max' then return kept and maxima(g, kept, rows) or g.ReduceMax(rows, {1}) end
  if a.per_sample_weights then rows = rows * g:unsqueeze(a.per_sample_weights, {2}) end
  if kept then rows = g.Where(kept, rows, 0) end
  if a.mode == 'sum' then return g.ReduceSum(rows, {1}) end
  if not kept then return g.ReduceMean(rows, {1}) end
  local count = g.Max(g.ReduceSum(g:cast(kept, rows.dtype), {1}), 1)
  return g.ReduceSum(rows, {1}) / count
end
function entries.one_hot(g, a, call)
  local places, single = g:to_positions(a.x), #a.x.shape == 0
  if single then places = g:reshape(places, {1}) end
  local y = g:one_hot(places, a.num_classes or call.shape[#call.shape], -1, 'int64')
  return single and g:squeeze(y, {0}) or y
end

-- ---- attention ---------------------------------------------------------------------------------------------

--- Returns the causal mask: the lower triangle, as a bool [queries x keys].
local function causal(g, queries, keys)
  return g.LessOrEqual(g:unsqueeze(g:arange(keys), {0}), g:unsqueeze(g:arange(queries), {1}))
end

--- softmax(q k' scale + mask) v; a bool mask is true where attention is allowed.
function entries.scaled_dot_product_attention(g, a)
  local q, k, v = a.query, a.key, a.value
  local rank = #q.shape
  if a.dropout_p and a.dropout_p > 0 then
    extend.fail('onnx.export: scaled_dot_product_attention with dropout draws random numbers')
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
  local scores = g.MatMul(q * scale, g:swap(k, #k.shape - 2, #k.shape - 1))
  local allowed = a.is_causal and causal(g, q.shape[rank - 1], a.key.shape[#a.key.shape - 1])
  local mask = a.attn_mask
  if mask and mask.dtype == 'bool' then allowed, mask = allowed and g.And(allowed, mask) or mask, nil end
  if mask then scores = scores + mask end
  if allowed then scores = g.Where(allowed, scores, -math.huge) end
  local weights = g.Softmax(scores, {axis = -1})
  if a.attn_mask then -- rows without an allowed key
    local nowhere = g.Equal(g.ReduceMax(scores, {-1}, true), -math.huge)
    weights = g.Where(nowhere, 0, weights)
  end
  return g.MatMul(weights, v)
end

-- ---- recurrent layers: ONNX's RNN, GRU and LSTM ---------------------------------------------------------------

-- The operator and its order of the gates, as indices of mtorch's (input forget cell output; reset update new).
local modes = {rnn_tanh = {'RNN', {1}, {'Tanh'}}, rnn_relu = {'RNN', {1}, {'Relu'}}, lstm = {'LSTM', {1, 4, 2, 3}},
  gru = {'GRU', {2, 1, 3}}}

--- Permutes the blocks of rows of a weight or bias.
local function reordered(g, weight, order)
  if #order == 1 then return weight end
  local sizes = map(order, function() return weight.shape[1] / #order end)
  local blocks = {g.Split(weight, g:ints(sizes), {axis = 0, outputs = #order})}
  return g:concat(map(order, function(from) return blocks[from] end), 0)
end

--- Maps input [time x batch x in] to results [time x batch x hidden] and the last states [batch x hidden].
function entries.recurrent_layer(g, a)
  if a.batch_sizes then extend.fail('onnx.export: packed sequences have no ONNX form; give padded ones') end
  if a.weight_hr then extend.fail('onnx.export: proj_size has no ONNX form') end
  local op, order, activations = unpack(modes[a.mode])
  local function one(h) return h and g:unsqueeze(h, {0}) or false end
  local bias = a.bias_ih and g:concat({reordered(g, a.bias_ih, order), reordered(g, a.bias_hh, order)}, 0)
  local out, h, c = g[op](a.input, one(reordered(g, a.weight_ih, order)), one(reordered(g, a.weight_hh, order)),
    one(bias), false, one(a.h), op == 'LSTM' and one(a.c), {hidden_size = a.weight_hh.shape[2],
    direction = a.reverse and 'reverse' or 'forward', linear_before_reset = op == 'GRU' and 1 or nil,
    activations = activations, outputs = op == 'LSTM' and 3 or 2})
  return g:squeeze(out, {1}), g:squeeze(h, {0}), c and g:squeeze(c, {0})
end

return entries
