-- help.lua -- mt.help: what a function takes and does, from the declaration that also checks its
-- arguments
local core = require 'mtorch.core'
local mt = require 'mtorch'

local function find(name)
  local value = mt
  for part in name:gsub('^mt%.', ''):gmatch('[^.:]+') do
    local ok, inner = pcall(function() return value[part] end)
    if not ok then return nil end
    value = inner
  end
  return value
end

--- `mt.help('matmul')` prints the signature and the help of a function; `mt.help()` lists the
--- names.
return function(name)
  if name == nil then
    local names = {}
    for key, value in pairs(mt) do
      if type(value) == 'function' then names[#names + 1] = key end
    end
    table.sort(names)
    print(table.concat(names, ' '))
    return
  end
  if type(name) ~= 'string' then core.fail('help: a name is needed, got ' .. core.describe(name)) end
  local found = find(name) or core.methods[name] or find('nn.' .. name) or find('optim.' .. name) or
    find('data.' .. name) or find('linalg.' .. name)
  if not found then
    local names = {}
    for key in pairs(core.methods) do names[#names + 1] = key end
    for key in pairs(mt) do names[#names + 1] = tostring(key) end
    table.sort(names)
    local close = core.nearest(names, name)
    local hint = close ~= '' and (" (did you mean '%s'?)"):format(close) or ''
    core.fail(("help: nothing is called '%s'%s"):format(name, hint))
  end
  local init = type(found) == 'table' and rawget(found, '__init')
  local signature, doc = core.entry(init or found or name)
  print(signature and (signature .. '\n  ' .. doc) or tostring(name) .. ' is a ' .. type(found))
end
