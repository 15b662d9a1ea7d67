-- advice.lua -- hints for errors about unknown names: the name here for a word of PyTorch, or the nearest name
local core = require 'mtorch.core'
local mt = require 'mtorch'

-- Other libraries' names of options.
local usual = {params = 'parameters', axis = 'dim', axes = 'dim', keepdims = 'keepdim', learning_rate = 'lr',
  learningRate = 'lr', rate = 'lr', sep = 'delimiter', hidden_dim = 'hidden_size', units = 'out_features', epsilon =
  'eps', filename = 'path', file = 'path'}

-- The modules that are searched for a name that mt lacks.
local places = {'nn', 'optim', 'data', 'metrics', 'linalg', 'fft', 'plot', 'optim.lr', 'nn.init', 'data.transforms',
  'dist', 'cuda'}

--- "mt.data.DataLoader", if one of the library's tables has the name.
local function name_elsewhere(owner, key)
  local modules = require 'mtorch.help.modules'
  if owner ~= 'mt' and not owner:find '^mt%.' then return nil end
  for _, name in ipairs(places) do
    local module = modules.at(name)
    if owner ~= 'mt.' .. name and type(module) == 'table' and core.name_set(module)[key] then
      return ('mt.%s.%s'):format(name, key)
    end
  end
  if owner ~= 'mt' and core.name_set(mt)[key] then return 'mt.' .. key end
end

--- The text after "OWNER has no 'KEY'": "; here it is ..", " (did you mean 'x'?)" or nothing.
--- `names` are the existing names.
return function(owner, key, names)
  key = tostring(key)
  local topics, full = require 'mtorch.help.topics', (owner .. '.' .. key):gsub('^mt%.', '')
  local general = owner == 'tensor' or owner == 'mt' or owner:find '^mt%.'
  local here = topics.renamed[full] or general and topics.renamed[key]
  if here then return '; ' .. ((here:find '^see ' or here:find '^not ') and '' or 'here it is ') .. here end
  local instead = topics.absent[full] or general and topics.absent[key]
  if instead then return '; ' .. instead end
  for _, name in ipairs(names) do
    if name == usual[key] then key = name end
  end
  local close = core.did_you_mean(names, key)
  local place = (owner == 'mt' or close == '') and name_elsewhere(owner, key)
  return place and '; it is ' .. place or close
end
