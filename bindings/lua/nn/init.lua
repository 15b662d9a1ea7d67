-- init.lua -- mt.nn: modules in files by subject, each loaded when a name is requested that the earlier ones lack
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'
local module = require 'mtorch.nn.module'
require 'mtorch.nn.methods'
require 'mtorch.nn.state_dict'
require 'mtorch.nn.describe'
require 'mtorch.nn.registration'

local subjects = {'linear', 'containers', 'activation', 'conv', 'shape', 'loss', 'normalize', 'embedding',
  'recurrent', 'packed', 'attention', 'transformer', 'tensor_parallel', 'quantize'}

local nn = {Buffer = class.Buffer, Module = class.Module, Parameter = class.Parameter, class = class.class,
  is = class.is}

local lazy = core.add_lazy({init = function() return require 'mtorch.nn.initialize' end}, 'mtorch.nn.', {
  functional = 'functional_call clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters',
  parametrize = 'weight_norm spectral_norm remove_parametrizations',
})

local opened = 0
return core.strict(nn, 'mt.nn', function(name)
  while opened < #subjects and (name == nil or rawget(nn, name) == nil and not lazy[name]) do
    opened = opened + 1
    for key, value in pairs(require('mtorch.nn.' .. subjects[opened])) do
      if module.is_later(value) then
        value.__name, lazy[key] = key, function() return module.now(value) end
      else
        nn[key] = value
      end
    end
  end
  if lazy[name] then nn[name] = lazy[name]() end
end, lazy)
