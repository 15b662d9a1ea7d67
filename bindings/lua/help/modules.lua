-- modules.lua -- the library's tables of functions, by their names after mt: for help, the prompt and the reference
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local modules = {names = {'linalg', 'fft', 'nn', 'nn.init', 'optim', 'optim.lr', 'optim.swa', 'data', 'data.transforms',
  'metrics', 'checkpoint', 'distributions', 'plot', 'models', 'onnx', 'dist',
  'dist.checkpoint', 'cuda'}}

--- The table with a name, or nil: modules.at('optim.lr'); `get` reads a field.
function modules.at(name, get)
  local value = mt
  for word in name:gmatch('[^.]+') do
    if type(value) ~= 'table' then return nil end
    value = (get or util.field)(value, word)
  end
  return value
end

--- The name of one of these tables, or nil; loads none of them.
function modules.name_of(value)
  for _, name in ipairs(modules.names) do
    if type(value) == 'table' and modules.at(name, rawget) == value then return name end
  end
end

return modules
