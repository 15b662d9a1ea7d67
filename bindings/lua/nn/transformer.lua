-- transformer.lua -- transformer layers (Vaswani 2017) and stacks of them
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
local module = require 'mtorch.nn.module'

local transformer = {}

local bind_forward = module.bind_forward

local kFeedForward = 'dim_feedforward: int >= 1 = 2048, dropout: number >= 0 <= 1 = 0.1, ' ..
  "activation: 'relu'|'gelu'|function = 'relu'"
local kForm = 'layer_norm_eps: number >= 0 = 1e-5, batch_first: bool = false, norm_first: bool = false, ' ..
  'bias: bool = true'
local kLayer = ('d_model: int >= 1, nhead: int >= 1, %s, %s'):format(kFeedForward, kForm)
local kOptions = core.parameters(('f(%s)'):format(kLayer))

--- The constructor of a layer: options, attentions by name, the two linear maps, norms and dropouts.
local function layer(name, doc, attentions)
  local made = class.class(name)
  class.options_constructor(made, ('%s(%s)'):format(name, kLayer), doc, {dropout = true, bias = true}, true,
    function(self, o)
      core.check(o.d_model % o.nhead == 0, '%s: d_model, %d, must be a multiple of nhead, %d', name, o.d_model, o.nhead)
      for _, field in ipairs(attentions) do
        self[field] = mt.nn.MultiheadAttention(o.d_model, o.nhead,
          {dropout = o.dropout, bias = o.bias, batch_first = o.batch_first})
      end
      self.linear1 = mt.nn.Linear(o.d_model, o.dim_feedforward, o.bias)
      self.dropout = mt.nn.Dropout(o.dropout)
      self.linear2 = mt.nn.Linear(o.dim_feedforward, o.d_model, o.bias)
      for k = 1, #attentions + 1 do
        self['norm' .. k] = mt.nn.LayerNorm(o.d_model, {eps = o.layer_norm_eps, bias = o.bias})
      end
      for k = 1, #attentions + 1 do self['dropout' .. k] = mt.nn.Dropout(o.dropout) end
    end)
  made.extra = class.extra(made, '{d_model}, {nhead} heads, {dim_feedforward}, norm_first, batch_first')
  return made
end

local function feed_forward(self, x)
  local f = self.activation
  return self.linear2(self.dropout((type(f) == 'string' and mt[f] or f)(self.linear1(x))))
end

--- x + dropout(f(x)), with normalisation before f or after the sum.
local function residual(self, k, x, f, ...)
  local norm, drop = self['norm' .. k], self['dropout' .. k]
  if self.norm_first then return x + drop((f(self, norm(x), ...))) end
  return norm(x + drop((f(self, x, ...))))
end

local function self_attention(self, x, mask, padding, causal)
  return self.self_attn(x, {attn_mask = mask, key_padding_mask = padding, is_causal = causal})
end
local function cross_attention(self, x, memory, mask, padding, causal)
  return self.multihead_attn(x, memory, {attn_mask = mask, key_padding_mask = padding, is_causal = causal})
end

transformer.TransformerEncoderLayer = layer('TransformerEncoderLayer',
  'y = layer(src, {src_mask=, src_key_padding_mask=, is_causal=false}): self-attention and two linear maps, each ' ..
  'with a residual and layer normalisation, over [length x batch x d_model]. Masks as of nn.MultiheadAttention.',
  {'self_attn'})
bind_forward(transformer.TransformerEncoderLayer, 'src: tensor, src_mask: tensor = nil, ' ..
  'src_key_padding_mask: tensor = nil, is_causal: bool = false', function(self, x, mask, padding, causal)
    return residual(self, 2, residual(self, 1, x, self_attention, mask, padding, causal), feed_forward)
  end)

transformer.TransformerDecoderLayer = layer('TransformerDecoderLayer',
  'y = layer(tgt, memory, {tgt_mask=, memory_mask=, tgt_key_padding_mask=, memory_key_padding_mask=, ' ..
  'tgt_is_causal=false, memory_is_causal=false}): self-attention, attention to memory and two linear maps.',
  {'self_attn', 'multihead_attn'})
local kDecoder = 'tgt: tensor, memory: tensor, tgt_mask: tensor = nil, memory_mask: tensor = nil, ' ..
  'tgt_key_padding_mask: tensor = nil, memory_key_padding_mask: tensor = nil, tgt_is_causal: bool = false, ' ..
  'memory_is_causal: bool = false'
bind_forward(transformer.TransformerDecoderLayer, kDecoder,
  function(self, x, memory, mask, memory_mask, padding, memory_padding, causal, memory_causal)
    x = residual(self, 1, x, self_attention, mask, padding, causal)
    x = residual(self, 2, x, cross_attention, memory, memory_mask, memory_padding, memory_causal)
    return residual(self, 3, x, feed_forward)
  end)

--- A stack of copies of one layer.
local function stack(name, doc)
  local made = class.class(name)
  class.constructor(made, name .. '(layer: table, num_layers: int >= 1, norm: table = nil)', doc,
    function(self, one, num_layers, norm)
      for _, given in ipairs{one, norm} do class.check_module(name, given) end
      local list = {}
      for k = 1, num_layers do list[k] = one:clone() end
      self.layers = mt.nn.ModuleList(list)
      self.num_layers, self.norm = num_layers, norm
    end)
  return made
end

--- Applies all layers to x, each with the other arguments, and the norm.
local function through_layers(self, x, ...)
  for k = 1, #self.layers do x = self.layers[k](x, ...) end
  return self.norm and self.norm(x) or x
end

transformer.TransformerEncoder = stack('TransformerEncoder',
  'y = encoder(src, {mask=, src_key_padding_mask=, is_causal=false}): num_layers copies of the layer, then norm.')
bind_forward(transformer.TransformerEncoder, 'src: tensor, mask: tensor = nil, src_key_padding_mask: tensor = nil, ' ..
  'is_causal: bool = false', through_layers)

transformer.TransformerDecoder = stack('TransformerDecoder',
  'y = decoder(tgt, memory, {..}), options as of nn.TransformerDecoderLayer: num_layers copies of it, then norm.')
bind_forward(transformer.TransformerDecoder, kDecoder, through_layers)

local Transformer = class.class('Transformer')
class.options_constructor(Transformer, 'Transformer(d_model: int >= 1 = 512, nhead: int >= 1 = 8, ' ..
  'num_encoder_layers: int >= 1 = 6, num_decoder_layers: int >= 1 = 6, ' .. kFeedForward ..
  ', custom_encoder: table = nil, custom_decoder: table = nil, ' .. kForm .. ')',
  'y = net(src, tgt, {src_mask=, tgt_mask=, memory_mask=, src_key_padding_mask=, tgt_key_padding_mask=, ' ..
  'memory_key_padding_mask=, src_is_causal=, tgt_is_causal=, memory_is_causal=}): encoder and decoder.',
  {custom_encoder = true, custom_decoder = true}, true,
  function(self, o)
    for _, option in ipairs{'custom_encoder', 'custom_decoder'} do
      if o[option] then class.check_module('Transformer: ' .. option, o[option]) end
    end
    local options = {}
    for _, p in ipairs(kOptions) do options[p.name] = o[p.name] end
    local function norm() return mt.nn.LayerNorm(o.d_model, {eps = o.layer_norm_eps, bias = o.bias}) end
    self.encoder = o.custom_encoder or
      transformer.TransformerEncoder(transformer.TransformerEncoderLayer(options), o.num_encoder_layers, norm())
    self.decoder = o.custom_decoder or
      transformer.TransformerDecoder(transformer.TransformerDecoderLayer(options), o.num_decoder_layers, norm())
    for _, weight in ipairs(self:parameters()) do
      if weight:dim() == 2 then
        mt.no_grad(function() weight:copy_(module.xavier_uniform(weight.shape[1], weight.shape[2])) end)
      end
    end
  end)
bind_forward(Transformer, 'src: tensor, tgt: tensor, src_mask: tensor = nil, tgt_mask: tensor = nil, memory_mask: ' ..
  'tensor = nil, src_key_padding_mask: tensor = nil, tgt_key_padding_mask: tensor = nil, memory_key_padding_mask: ' ..
  'tensor = nil, src_is_causal: bool = false, tgt_is_causal: bool = false, memory_is_causal: bool = false',
  function(self, src, tgt, src_mask, tgt_mask, memory_mask, src_padding, tgt_padding, memory_padding, src_causal,
      tgt_causal, memory_causal)
    local memory = self.encoder(src, src_mask, src_padding, src_causal)
    return (self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_padding, memory_padding, tgt_causal, memory_causal))
  end)
Transformer.generate_square_subsequent_mask = core.declare('generate_square_subsequent_mask(n: int >= 1)',
  'A float mask [n x n]: -inf where a key comes after the query, else 0.',
  function(n) return mt.full({n, n}, -math.huge):triu(1) end)
transformer.Transformer = Transformer

return transformer
