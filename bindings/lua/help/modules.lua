-- modules.lua -- the library's tables of functions, by their names after mt: for help, the prompt and the reference
local mt = require 'mtorch'

local modules = {names = {'linalg', 'fft', 'nn', 'nn.init', 'optim', 'optim.lr', 'optim.swa', 'data', 'data.transforms',
  'metrics', 'checkpoint', 'distributions', 'plot', 'models', 'onnx', 'dist',
  'dist.checkpoint', 'cuda'}}

--- The table with a name, or nil: modules.at('optim.lr'); `get` reads a field.
function modules.at(name, get)
  local value = mt
  for word in name:gmatch('[^.]+') do
    if type(value) ~= 'table' then return nil end
    local from = value
    local ok, field = pcall(get or function(of, key) return of[key] end, from, word)
    if not ok then return nil end
    value = field
  end
  return value
end

return modules
