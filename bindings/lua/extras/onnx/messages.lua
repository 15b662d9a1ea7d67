-- messages.lua -- the messages of an ONNX file as tables of field numbers (onnx.proto3), and tensors as such messages
local ffi = require 'ffi'
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util

local messages = {}

-- Element types, TensorProto.DataType.
messages.types = {float32 = 1, uint8 = 2, int8 = 3, int16 = 5, int32 = 6, int64 = 7, bool = 9, float16 = 10,
  float64 = 11, bfloat16 = 16}
setmetatable(messages.types, {__index = function(_, dtype)
  extend.fail('onnx.export: tensors of %s are not exported, since few ONNX operators take them; use x:float()', dtype)
end})

local Tensor = {dims = {1, 'int', 'list'}, data_type = {2, 'int'}, name = {8, 'bytes'}, raw_data = {9, 'bytes'}}
local Attribute = {name = {1, 'bytes'}, f = {2, 'float'}, i = {3, 'int'}, s = {4, 'bytes'},
  ints = {8, 'int', 'list'}, strings = {9, 'bytes', 'list'}, type = {20, 'int'}}
local Node = {input = {1, 'bytes', 'list'}, output = {2, 'bytes', 'list'}, name = {3, 'bytes'}, op_type = {4, 'bytes'},
  attribute = {5, Attribute, 'list'}}
local Dimension = {dim_value = {1, 'int'}, dim_param = {2, 'bytes'}}
local TensorType = {elem_type = {1, 'int'}, shape = {2, {dim = {1, Dimension, 'list'}}}}
local ValueInfo = {name = {1, 'bytes'}, type = {2, {tensor_type = {1, TensorType}}}}
local Graph = {node = {1, Node, 'list'}, name = {2, 'bytes'}, initializer = {5, Tensor, 'list'},
  input = {11, ValueInfo, 'list'}, output = {12, ValueInfo, 'list'}}
messages.Model = {ir_version = {1, 'int'}, producer_name = {2, 'bytes'}, producer_version = {3, 'bytes'},
  graph = {7, Graph}, opset_import = {8, {domain = {1, 'bytes'}, version = {2, 'int'}}, 'list'}}

--- Returns the message of a tensor of any layout and device; a large one is written as a separate piece.
function messages.tensor(x, name)
  local shape = x:size()
  local plain = x:detach():cpu():contiguous()
  local size = plain:numel() * plain:element_size()
  local data = size > 4096 and {piece = plain, bytes = size} or size > 0 and ffi.string(plain:data(), size) or ''
  return {dims = shape, data_type = messages.types[x.dtype], name = name, raw_data = data}
end

-- Attributes that are floats; all other numbers are integers.
local real = util.word_set 'alpha beta gamma lambd epsilon bias cubic_coeff_a extrapolation_value'

--- Returns the message of an attribute: a number, a string, or a list of integers or strings.
function messages.attribute(name, value)
  if type(value) == 'number' and real[name] then return {name = name, f = value, type = 1} end
  if type(value) == 'number' then return {name = name, i = value, type = 2} end
  if type(value) == 'string' then return {name = name, s = value, type = 3} end
  if type(value[1]) == 'string' then return {name = name, strings = value, type = 8} end
  return {name = name, ints = value, type = 7}
end

--- Returns the message of an input or output; a dimension is a size or a name.
function messages.value_info(name, dtype, shape)
  local dims = util.map(shape, function(size)
    return {[type(size) == 'number' and 'dim_value' or 'dim_param'] = size}
  end)
  return {name = name, type = {tensor_type = {elem_type = messages.types[dtype], shape = {dim = dims}}}}
end

return messages
