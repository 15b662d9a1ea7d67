-- recurrent.lua -- recurrent layers and cells, on mt.recurrent_layer: one fused layer in one direction
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
local module = require 'mtorch.nn.module'
require 'mtorch.nn.packed'

local recurrent = {}

--- The cell's name for mt.recurrent_layer.
local function mode_of(self)
  return self.nonlinearity and 'rnn_' .. self.nonlinearity or self.__class.mode
end

--- Adds the parameters of one direction of a layer, or of a cell if suffix is ''. Uniform in +-1/sqrt(hidden_size).
local function add_weights(self, suffix, gates, inputs, projection)
  local hidden, state = self.hidden_size, projection > 0 and projection or self.hidden_size
  local uniform = module.uniform(1 / math.sqrt(hidden))
  self['weight_ih' .. suffix] = class.Parameter(uniform(gates * hidden, inputs))
  self['weight_hh' .. suffix] = class.Parameter(uniform(gates * hidden, state))
  if self.bias then
    self['bias_ih' .. suffix] = class.Parameter(uniform(gates * hidden))
    self['bias_hh' .. suffix] = class.Parameter(uniform(gates * hidden))
  end
  if projection > 0 then self['weight_hr' .. suffix] = class.Parameter(uniform(projection, hidden)) end
end

--- Multiply-adds for net:summary: each matrix is used once for each row of x.
local function multiply_adds(self, x)
  local sum = 0
  for _, p in ipairs(class.own_parameters(self)) do sum = sum + (p:dim() > 1 and p:numel() or 0) end
  return sum * x:numel() / self.input_size
end

local function check_state(self, what, state, shape)
  if state == nil then return end
  if not mt.is_tensor(state) then
    core.fail('%s: %s must be a tensor, got %s%s', self.__name, what, core.describe(state),
      type(state) == 'table' and '; states are arguments of their own, lstm(x, h, c)' or '')
  end
  for d = 1, math.max(#shape, state:dim()) do
    if state.shape[d] ~= shape[d] then
      core.fail('%s: %s is %s, expected (%s)', self.__name, what, tostring(state.shape), table.concat(shape, ' x '))
    end
  end
end

--- Runs all layers on data [time x batch x in], or packed rows; returns the last one's results, and the last states.
local function layers(self, data, h, c, batch_sizes)
  local directions, mode, hs, cs = self.bidirectional and 2 or 1, mode_of(self), {}, {}
  for layer = 0, self.num_layers - 1 do
    local results = {}
    for direction = 1, directions do
      local k, s = layer * directions + direction, ('_l%d%s'):format(layer, direction == 2 and '_reverse' or '')
      results[direction], hs[k], cs[k] = mt.recurrent_layer(data, self['weight_ih' .. s], self['weight_hh' .. s],
        self['bias_ih' .. s], self['bias_hh' .. s], h and h[k], c and c[k], self['weight_hr' .. s], mode,
        direction == 2, batch_sizes)
    end
    data = directions == 2 and mt.cat(results, -1) or results[1]
    if self.dropout > 0 and layer < self.num_layers - 1 then data = mt.dropout(data, self.dropout, self.training) end
  end
  return data, mt.stack(hs, 1), #cs > 0 and mt.stack(cs, 1) or nil
end

local function forward(self, x, h, c)
  local packed = class.is_packed(x)
  local data = packed and x.data or x
  if not mt.is_tensor(data) then
    core.fail('%s: the input must be a tensor or a packed sequence, got %s', self.__name, core.describe(x))
  end
  local dims, unbatched = data:dim(), not packed and data:dim() == 2
  if data.shape[dims] ~= self.input_size or not (dims == 3 and not packed or dims == 2) then
    core.fail('%s: the input is %s, expected (%s x %d), or one sequence (time x %d)', self.__name,
      tostring(data.shape), self.batch_first and 'batch x time' or 'time x batch', self.input_size, self.input_size)
  end
  class.check_dtype(self, data, self.weight_ih_l0)
  if not packed and data.shape[self.batch_first and not unbatched and 2 or 1] == 0 then
    core.fail('%s: the input %s has no steps', self.__name, tostring(data.shape))
  end
  if unbatched then data = data:unsqueeze(2) elseif not packed and self.batch_first then data = data:transpose(1, 2) end
  local n = packed and x.batch_sizes:at(1) or data.shape[2]
  local count = self.num_layers * (self.bidirectional and 2 or 1)
  local function shape(columns) return unbatched and {count, columns} or {count, n, columns} end
  check_state(self, 'h', h, shape((self.proj_size or 0) > 0 and self.proj_size or self.hidden_size))
  check_state(self, 'c', c, shape(self.hidden_size))
  local function converted(t, with_batch, order) -- a state of one sequence, or in an order of packed ones
    if t and unbatched then return with_batch(t, 2) end
    return t and packed and x[order] and t:index_select(2, x[order]) or t
  end
  h, c = converted(h, mt.unsqueeze, 'sorted_indices'), converted(c, mt.unsqueeze, 'sorted_indices')
  local out, hn, cn = layers(self, data, h, c, packed and x.batch_sizes:tolist() or nil)
  if packed then out = x:with(out)
  elseif unbatched then out = out:squeeze(2)
  elseif self.batch_first then out = out:transpose(1, 2) end
  return out, converted(hn, mt.squeeze, 'unsorted_indices'), converted(cn, mt.squeeze, 'unsorted_indices')
end

local extra = '{input_size} -> {hidden_size}, num_layers, nonlinearity, proj_size, bias, dropout, bidirectional, ' ..
  'batch_first'

local options_of_all = 'bias: bool = true, batch_first: bool = false, dropout: number >= 0 <= 1 = 0, ' ..
  'bidirectional: bool = false'

--- A class whose objects begin with init(self), and whose forward(x[, h[, c]]) checks the number of its inputs.
local function define(name, options, doc, mode, init, body)
  local made, inputs = class.class(name), mode == 'lstm' and 3 or 2
  class.options_constructor(made, name .. '(input_size: int >= 1, hidden_size: int >= 1, ' .. options .. ')', doc, {},
    true, init)
  made.mode, made.extra, made.__macs = mode, class.extra(made, extra), multiply_adds
  function made:forward(x, h, c, more)
    if inputs == 2 then more = more or c end
    if x == nil or more ~= nil then class.refuse_inputs(self, inputs, more, x) end
    return body(self, x, h, c)
  end
  recurrent[name] = made
end

--- A class of layers with `gates` parts of hidden_size.
local function layered(name, options, doc, mode, gates)
  define(name, options, doc, mode, function(self)
    local projection = self.proj_size or 0
    core.check(projection < self.hidden_size,
      '%s: proj_size is %d, it must be smaller than hidden_size, %d', self.__name, projection, self.hidden_size)
    local state, directions = projection > 0 and projection or self.hidden_size, self.bidirectional and 2 or 1
    for layer = 0, self.num_layers - 1 do
      for direction = 1, directions do
        add_weights(self, ('_l%d%s'):format(layer, direction == 2 and '_reverse' or ''), gates,
          layer == 0 and self.input_size or state * directions, projection)
      end
    end
  end, forward)
end

layered('RNN', "num_layers: int >= 1 = 1, nonlinearity: 'tanh'|'relu' = 'tanh', " .. options_of_all,
  'out, h = rnn(x[, h]): h = f(weight_ih x + bias_ih + weight_hh h + bias_hh) for each step of x ' ..
  '[time x batch x in], of one sequence [time x in], or of a packed sequence. h is [layers * directions x batch ' ..
  'x hidden].', nil, 1)
layered('LSTM', ('num_layers: int >= 1 = 1, %s, proj_size: int >= 0 = 0'):format(options_of_all),
  'out, h, c = lstm(x[, h, c]): long short-term memory, gates in the order input, forget, cell, output. x is ' ..
  '[time x batch x in], one sequence [time x in], or packed; h and c are [layers * directions x batch x hidden].',
  'lstm', 4)
layered('GRU', 'num_layers: int >= 1 = 1, ' .. options_of_all,
  'out, h = gru(x[, h]): gated recurrent units, gates in the order reset, update, new; x and h as of nn.RNN.',
  'gru', 3)

--- A class of cells: one step of a layer.
local function cell(name, options, doc, mode, gates)
  define(name, options, doc, mode, function(self)
    add_weights(self, '', gates, self.input_size, 0)
  end, function(self, x, h, c)
    class.check_dtype(self, x, self.weight_ih)
    local single = mt.is_tensor(x) and x:dim() == 1
    if not mt.is_tensor(x) or x.shape[x:dim()] ~= self.input_size or x:dim() > 2 then
      core.fail('%s: the input is %s, expected (batch x %d) or (%d)', self.__name,
        mt.is_tensor(x) and tostring(x.shape) or core.describe(x), self.input_size, self.input_size)
    end
    local shape = single and {self.hidden_size} or {x.shape[1], self.hidden_size}
    check_state(self, 'h', h, shape)
    check_state(self, 'c', c, shape)
    if single then x, h, c = x:unsqueeze(1), h and h:unsqueeze(1), c and c:unsqueeze(1) end
    local _, hn, cn = mt.recurrent_layer(x:unsqueeze(1), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh,
      h, c, nil, mode_of(self))
    if single then return hn:squeeze(1), cn and cn:squeeze(1) end
    return hn, cn
  end)
end

cell('RNNCell', "bias: bool = true, nonlinearity: 'tanh'|'relu' = 'tanh'", 'h = cell(x[, h]): one step of nn.RNN.',
  nil, 1)
cell('LSTMCell', 'bias: bool = true', 'h, c = cell(x[, h, c]): one step of nn.LSTM.', 'lstm', 4)
cell('GRUCell', 'bias: bool = true', 'h = cell(x[, h]): one step of nn.GRU.', 'gru', 3)

return recurrent
