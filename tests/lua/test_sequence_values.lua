-- test_sequence_values.lua -- recurrent layers, attention and transformer layers against PyTorch's values in float64
local t = require 'testing'
local mt = require 'mtorch'
local nn = mt.nn

local folder = arg[0]:match('^(.*/)') or ''
local stored = mt.data.safetensors(folder .. '../data/sequence_values.safetensors')
mt.set_default_dtype('float64')

--- Computes the values of sequence_values.py.
local function values(name, shape)
  local n, sum = 1, 0
  for _, size in ipairs(shape) do n = n * size end
  for k = 1, #name do sum = sum + name:byte(k) end
  return ((mt.range(1, n):double() * 0.7 + sum):sin() * 0.6):reshape(shape)
end
local function slopes(y) return (mt.range(1, y:numel()):double() * 0.3):cos():reshape(y.shape) end

local function parsed(text)
  local positional, named = {}, {}
  for word in text:gmatch('%S+') do
    local key, value = word:match('^(.-)=(.*)$')
    value = value or word
    if value == 'true' then value = true elseif value == 'false' then value = false
    else value = tonumber(value) or value end
    if key then named[key] = value else positional[#positional + 1] = value end
  end
  return positional, named
end

local configurations, expected = {}, {}
for name, value in pairs(stored) do
  local config, what = name:match('^(.*)/(.-)$')
  if not expected[config] then
    configurations[#configurations + 1], expected[config] = config, {}
  end
  expected[config][what] = value
end
table.sort(configurations)

local function close(config, what, x)
  local wanted = expected[config][what]
  if not wanted then error(('%s: PyTorch has no %s'):format(config, what)) end
  expected[config][what] = nil
  if x.shape ~= wanted.shape then
    error(('%s: %s is %s, expected %s'):format(config, what, tostring(x.shape), tostring(wanted.shape)))
  end
  local off = x:numel() > 0 and (x - wanted:to(x.device)):abs():max():item() or 0
  if not (off <= 1e-9) then error(('%s: %s is off by %g'):format(config, what, off)) end
end

--- Creates the module of a configuration, and loads PyTorch's parameters by name.
local function made(config)
  local head, how = config:match('^(.-);(.*)$')
  local positional, options = parsed(head)
  local class = nn[table.remove(positional, 1)]
  local given = {unpack(positional)}
  given[#given + 1] = options
  local module = class(unpack(given))
  local _, o = parsed(how)
  if o.stack then
    local name = head:match('%w+')
    module = nn[name:gsub('Layer', '')](module, o.stack, o.norm and nn.LayerNorm(positional[1]) or nil)
  end
  local state = {}
  for name, p in module:named_parameters() do state[name] = values(name, p.shape) end
  for what in pairs(expected[config]) do
    local name = what:match('^grad%.([%w_.]*_[%w_.]*)$') or what:match('^grad%.(.*%..*)$')
    if name and not state[name] then error(config .. ': there is no parameter ' .. name) end
  end
  module:load_state_dict(state)
  return module, positional, options, select(2, parsed(how))
end

local function keep(config, module, inputs, outputs)
  local loss = 0
  for _, y in ipairs(outputs) do loss = (y * slopes(y)):sum() + loss end
  loss:backward()
  for k, y in ipairs(outputs) do close(config, 'out' .. k, y) end
  for name, x in pairs(inputs) do close(config, 'grad.' .. name, x.grad) end
  for name, p in module:named_parameters() do
    if p.grad then close(config, 'grad.' .. name, p.grad) end
  end
  for what in pairs(expected[config]) do error(('%s: %s was not computed'):format(config, what)) end
end

local function leaf(name, ...) return values(name, {...}):requires_grad_() end

local check = {}

function check.recurrent(config)
  local module, sizes, o, how = made(config)
  local cell, time, n = config:find('Cell') ~= nil, 4, 3
  local inputs = {}
  local function shaped(name, first, ...) -- without a batch `first` is the only size
    if how.unbatched then return first and leaf(name, first, (select(2, ...))) or leaf(name, (select(2, ...))) end
    return first and leaf(name, first, ...) or leaf(name, ...)
  end
  local layers = (o.num_layers or 1) * (o.bidirectional and 2 or 1)
  if cell then inputs.x = shaped('x', nil, n, sizes[1])
  elseif o.batch_first and not how.unbatched then inputs.x = leaf('x', n, time, sizes[1])
  else inputs.x = shaped('x', time, n, sizes[1]) end
  if how.states then
    inputs.h = shaped('h', not cell and layers or nil, n, o.proj_size or sizes[2])
    if config:find('^LSTM') then inputs.c = shaped('c', not cell and layers or nil, n, sizes[2]) end
  end
  local x = inputs.x
  if how.packed then
    x = nn.pack_padded_sequence(x, how.packed == 'any' and {2, 4, 1} or {4, 2, 2},
      {batch_first = o.batch_first or false, enforce_sorted = how.packed ~= 'any'})
  end
  local outputs = {module(x, inputs.h, inputs.c)}
  if how.packed then
    local lengths
    outputs[1], lengths = nn.pad_packed_sequence(outputs[1], o.batch_first or false)
    t.eq(lengths:tolist(), how.packed == 'any' and {2, 4, 1} or {4, 2, 2})
  end
  keep(config, module, inputs, outputs)
end

local function score_mask(kind, queries, keys, batch)
  local shape = batch and {batch, queries, keys} or {queries, keys}
  if kind == 'float' then return leaf('mask', unpack(shape)) end
  if kind == 'causal' then return mt.ones(shape, {dtype = 'bool'}):triu(1) end
  local b, i, j = mt.range(0, (batch or 1) - 1):view(-1, 1, 1), mt.range(0, queries - 1):view(-1, 1),
    mt.range(0, keys - 1)
  return ((b * 3 + i * 7 + j * 5) % 4):eq(0):logical_and(j:ne(1)):reshape(shape)
end

local function key_mask(kind, batch, keys)
  if kind == 'float' then return values('padding', {batch, keys}) end
  local mask = mt.zeros({batch, keys}, {dtype = 'bool'})
  mask[{1, keys}] = true
  if kind ~= 'last' then mask[{2, 1}] = true end
  return mask
end

local function sequences(o, how)
  return function(name, length, size)
    if how.unbatched then return leaf(name, length, size) end
    if o.batch_first then return leaf(name, 2, length, size) end
    return leaf(name, length, 2, size)
  end
end

function check.attention(config)
  local module, sizes, o, how = made(config)
  local n, queries, sequence = 2, 3, sequences(o, how)
  local keys, e, inputs = how.call == 'self' and queries or 4, sizes[1], {}
  inputs.q = sequence('q', queries, e)
  if how.call ~= 'self' then inputs.k = sequence('k', keys, o.kdim or e) end
  if how.call == 'three' then inputs.v = sequence('v', keys, o.vdim or e) end
  local options = {need_weights = how.weights ~= nil, average_attn_weights = how.weights == 'mean'}
  if how.mask3 then options.attn_mask = score_mask(how.mask3, queries, keys, n * sizes[2]) end
  if how.mask then options.attn_mask = score_mask(how.mask, queries, keys) end
  if how.mask == 'float' or how.mask3 == 'float' then inputs.mask = options.attn_mask end
  if how.padding then options.key_padding_mask = key_mask(how.padding, n, keys) end
  local outputs = {module(inputs.q, inputs.k, inputs.v, options)}
  if how.mask == 'causal' and not how.weights then -- is_causal instead of a mask
    local said = {is_causal = true, key_padding_mask = options.key_padding_mask}
    assert(mt.allclose(outputs[1], module(inputs.q, inputs.k, inputs.v, said), {rtol = 1e-12}))
  end
  keep(config, module, inputs, outputs)
end

function check.transformer(config)
  local module, sizes, o, how = made(config)
  local sequence, length, whole = sequences(o, how), 3, config:find('^Transformer ') ~= nil
  local inputs, options = {src = sequence('src', length, sizes[1])}, {}
  if whole or config:find('^TransformerDecoder') then inputs.other = sequence('other', 4, sizes[1]) end
  if whole then
    options = {tgt_is_causal = true, src_key_padding_mask = key_mask('any', 2, length),
      memory_key_padding_mask = key_mask('any', 2, length)}
  elseif inputs.other then
    if how.mask then
      options.tgt_mask, options.memory_mask = score_mask(how.mask, length, length), score_mask('bool', length, 4)
    end
    if how.padding then
      options.tgt_key_padding_mask, options.memory_key_padding_mask = key_mask('last', 2, length), key_mask('any', 2, 4)
    end
  else
    if how.mask then options[how.stack and 'mask' or 'src_mask'] = score_mask(how.mask, length, length) end
    if how.padding then options.src_key_padding_mask = key_mask(how.padding, 2, length) end
  end
  local y = inputs.other and module(inputs.src, inputs.other, options) or module(inputs.src, options)
  keep(config, module, inputs, {y})
end

for _, config in ipairs(configurations) do
  local kind = config:find('^Multihead') and 'attention' or config:find('^Transformer') and 'transformer' or 'recurrent'
  t.test(config, function() check[kind](config) end)
end
t.test('there are many configurations', function() assert(#configurations >= 130, #configurations) end)

t.finish()
