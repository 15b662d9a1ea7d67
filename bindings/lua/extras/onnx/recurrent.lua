-- recurrent.lua -- recurrent layers as ONNX's RNN, GRU and LSTM nodes
local extend = require('mtorch').extend
local map = extend.util.map

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

--- An LSTM with projections, unrolled over the time steps of the recorded call.
local function projected(g, a)
  local steps, hidden, state = a.input.shape[1], a.weight_hr.shape[2], a.weight_hr.shape[1]
  local n = a.input.shape[2]
  local function turned(weight) return g:transpose(weight, {1, 0}) end
  local h, c = a.h or g:full({n, state}, 0, a.input.dtype), a.c or g:full({n, hidden}, 0, a.input.dtype)
  local out = {}
  for k = 1, steps do
    local t = a.reverse and steps - k or k - 1
    local gates = g.MatMul(g.Gather(a.input, g:cast(t, 'int64'), {axis = 0}), turned(a.weight_ih)) +
      g.MatMul(h, turned(a.weight_hh))
    if a.bias_ih then gates = gates + a.bias_ih + a.bias_hh end
    local i, f, cell, o = g.Split(gates, g:ints{hidden, hidden, hidden, hidden}, {axis = 1, outputs = 4})
    c = g.Sigmoid(f) * c + g.Sigmoid(i) * g.Tanh(cell)
    h = g.MatMul(g.Sigmoid(o) * g.Tanh(c), turned(a.weight_hr))
    out[t + 1] = g:unsqueeze(h, {0})
  end
  return g:concat(out, 0), h, c
end

--- Maps input [time x batch x in] to results [time x batch x hidden] and the last states [batch x hidden].
local function recurrent_layer(g, a)
  if a.batch_sizes then extend.fail('onnx.export: packed sequences have no ONNX form; give padded ones') end
  if a.weight_hr then return projected(g, a) end
  local op, order, activations = unpack(modes[a.mode])
  local function one(h) return h and g:unsqueeze(h, {0}) or false end
  local bias = a.bias_ih and g:concat({reordered(g, a.bias_ih, order), reordered(g, a.bias_hh, order)}, 0)
  local out, h, c = g[op](a.input, one(reordered(g, a.weight_ih, order)), one(reordered(g, a.weight_hh, order)),
    one(bias), false, one(a.h), op == 'LSTM' and one(a.c), {hidden_size = a.weight_hh.shape[2],
    direction = a.reverse and 'reverse' or 'forward', linear_before_reset = op == 'GRU' and 1 or nil,
    activations = activations, outputs = op == 'LSTM' and 3 or 2})
  return g:squeeze(out, {1}), g:squeeze(h, {0}), c and g:squeeze(c, {0})
end

return {recurrent_layer = recurrent_layer}
