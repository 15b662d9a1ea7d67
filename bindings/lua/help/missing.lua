-- missing.lua -- hints for errors about nil globals: names of the library or of Python
local core = require 'mtorch.core'
local mt = require 'mtorch'
local modules = require 'mtorch.help.modules'

-- Python's names: their equivalents here, and in Lua.
local here = {torch = "here it is mt: local mt = require 'mtorch'", np = 'tensors replace arrays: mt.help()',
  numpy = 'tensors replace arrays: mt.help()', plt = 'plots are in mt.plot', F = 'functions are in mt'}
local lua = {len = '#x', range = 'for i = 1, n do .. end', enumerate = 'for i, value in ipairs(list) do .. end',
  str = 'tostring(x)', int = 'math.floor(x)', float = 'tonumber(x)', append = 'list[#list + 1] = value',
  input = 'io.read()', exit = 'os.exit()', isinstance = 'type(x), mt.is_tensor(x)', f = "('%d of %d'):format(a, b)",
  open = 'io.open(path)', max = 'math.max of numbers, mt.max of tensors',
  min = 'math.min of numbers, mt.min of tensors',
  abs = 'math.abs of numbers, mt.abs of tensors', round = 'math.floor(x + 0.5) of numbers, mt.round of tensors'}

--- Returns the text " (..)" after "attempt to call global 'NAME' (a nil value)", or nothing.
return function(name)
  local advice = name == 'mt' and "local mt = require 'mtorch' comes first" or nil
  for _, module in ipairs(modules.names) do
    if not advice and module == name then advice = ('it is mt.%s: local %s = mt.%s'):format(name, name, name) end
  end
  if not advice then advice = here[name] or lua[name] and 'Lua writes ' .. lua[name] end
  if not advice and core.name_set(mt)[name] then advice = 'it is mt.' .. name end
  for _, module in ipairs{'nn', 'optim', 'data'} do
    if not advice and core.name_set(mt[module])[name] then advice = ('it is mt.%s.%s'):format(module, name) end
  end
  return advice and (' (%s)'):format(advice)
end
