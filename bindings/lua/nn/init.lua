-- init.lua -- mt.nn: modules, in files by subject, each opened when a name is asked for that those before it lack
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'
require 'mtorch.nn.methods'
require 'mtorch.nn.state_dict'
require 'mtorch.nn.describe'

local subjects = {'linear', 'containers', 'activation', 'conv', 'pool', 'loss', 'shape', 'dropout', 'normalize',
  'embedding', 'distance', 'recurrent', 'packed'}

local nn = {Buffer = class.Buffer, Module = class.Module, Parameter = class.Parameter, class = class.class}

local opened = 0
return core.strict(nn, 'mt.nn', function(name)
  while opened < #subjects and (name == nil or rawget(nn, name) == nil) do
    opened = opened + 1
    for key, value in pairs(require('mtorch.nn.' .. subjects[opened])) do nn[key] = value end
  end
end)
