-- quantize.lua -- linear layers with int8 weights, for inference
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
local module = require 'mtorch.nn.module'

local quantize = {}

quantize.QuantizedLinear = module.define{
  'QuantizedLinear(in_features: int >= 1, out_features: int >= 1, bias: bool = true)',
  "Linear with an int8 weight [out x in] and a scale for each output, made by nn.quantize: " ..
    "x . (weight * scale)' + bias. They are buffers: saved and moved, not trained.",
  buffers = {'weight', 'scale', 'bias'},
  init = function(o)
    return mt.zeros(o.out_features, o.in_features, {dtype = 'int8'}), mt.ones(o.out_features),
      o.bias and mt.zeros(o.out_features)
  end,
  forward = mt.linear_int8,
  macs = function(self, _, y) return self.in_features * y:numel() end,
  extra = '{in_features} -> {out_features}, int8 weight, bias',
}

--- The layer with its weight rounded to multiples of the largest of each row / 127.
local function quantized(layer, name)
  local weight, bias = layer.weight:detach(), layer.bias and layer.bias:detach():clone() or nil
  local largest = weight:abs():amax(2):float()
  core.check(largest:isfinite():all(), 'quantize: %s.weight has values that are not finite', name)
  local scale = mt.where(largest:eq(0), 1, largest / 127)
  local made = quantize.QuantizedLinear(layer.in_features, layer.out_features, {bias = bias ~= nil})
  made.weight = class.Buffer((weight:float() / scale:unsqueeze(2)):round():clamp(-127, 127):to 'int8')
  made.scale = class.Buffer(scale)
  if bias then made.bias = class.Buffer(bias) end
  for key, value in pairs(layer) do -- the user's own
    if type(key) == 'string' and not key:find '^__' and rawget(made, key) == nil then rawset(made, key, value) end
  end
  return made:train(layer.training)
end

--- Whether a module computes what Linear computes, and nothing else.
local function is_linear(m) return m.__class == mt.nn.Linear and not rawget(m, 'forward') end

quantize.quantize = core.declare('quantize(net, bits: int = 8)',
  'A copy of the net for inference whose Linear layers have int8 weights, a quarter of the memory: each output has ' ..
  'a scale, the largest weight / 127, and the inputs stay floats. Products of few rows, as in decoding, read the ' ..
  'int8 weights directly. Layers of derived classes, with hooks or a forward of their own, and the output layer of ' ..
  'MultiheadAttention stay as they are. bits: 8.',
  function(net, bits)
    class.check_module('quantize', net)
    if bits ~= 8 then core.fail('quantize: bits is %s; only 8 is supported', tostring(bits)) end
    if is_linear(net) then return quantized(net, 'net') end
    local made = {}
    class.walk(net, function(name, value, kind, owner)
      if kind == 'module' and is_linear(value) and owner.__class ~= mt.nn.MultiheadAttention then
        made[value] = quantized(value, name)
      end
    end)
    if next(made) == nil then core.fail('quantize: %s has no Linear layers to quantize', net.__name) end
    return class.copied(net, made)
  end)

return quantize
