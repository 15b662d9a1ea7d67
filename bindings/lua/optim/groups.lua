-- groups.lua -- what optimizers share: lists of parameters, options of groups, and what is said where they are wrong
local core = require 'mtorch.core'
local mt = require 'mtorch'
local shown = require 'mtorch.core.shown'

local groups = {}

--- " (did you mean 'lr'?)", or nothing.
function groups.hint(names, key)
  table.sort(names)
  return core.advice('optimizer', key, names)
end

function groups.keys(...)
  local names = {}
  for i = 1, select('#', ...) do
    for key in pairs((select(i, ...))) do
      if type(key) == 'string' and not key:find('^_') then names[#names + 1] = key end
    end
  end
  return names
end

--- A copy of a list of parameters; `seen` has those of the groups before.
function groups.checked_parameters(name, list, seen)
  if type(list) == 'table' and rawget(list, '__fields') then
    core.fail('%s: a list of parameters is needed, got a module; pass net:parameters()', name)
  end
  if type(list) ~= 'table' or #list == 0 then
    core.fail('%s: a list of parameters is needed, got %s', name,
      type(list) == 'table' and 'an empty list' or core.describe(list))
  end
  local copy, before = {}, {}
  for i = 1, #list do
    local p = list[i]
    if not mt.is_tensor(p) then core.fail('%s: entry %d is %s, not a parameter', name, i, core.describe(p)) end
    if not p.is_leaf then
      core.fail('%s: entry %d was computed from others; only leaves can be optimized', name, i)
    end
    if before[p] then core.fail('%s: entry %d is the same parameter as entry %d', name, i, before[p]) end
    if seen[p] then core.fail('%s: entry %d is a parameter of group %d already', name, i, seen[p]) end
    copy[i], before[p] = p, i
  end
  return copy
end

--- The optimizer that a method is called on.
function groups.own(self, method)
  if type(self) ~= 'table' or rawget(self, 'param_groups') == nil then
    core.fail('%s: methods are called with a colon, opt:%s(..)', method, method)
  end
end

--- The metatable of param_groups: a group that is not there is an error.
groups.list_meta = {__index = function(list, key)
  if type(key) == 'number' and key ~= #list + 1 then
    core.fail('param_groups[%s]: groups count from 1, there %s', tostring(key),
      #list == 1 and 'is 1' or ('are %d'):format(#list))
  end
end, __tostring = function(list)
  local parts = {}
  for i, group in ipairs(list) do parts[i] = tostring(group) end
  return '{' .. table.concat(parts, '; ') .. '}'
end}

--- Name(lr=0.1, ..) of one group and how many tensors it has; on several lines where there are several.
function groups.described(self, group)
  local options = core.parameters(require('mtorch').optim[self.name])
  local text = shown.options(options, function(_, p) return p.name ~= 'parameters' and rawget(group, p.name) or nil end,
    true)
  return ('%d tensor%s, %s'):format(#group.params, #group.params == 1 and '' or 's', text)
end
function groups.print(self)
  local list = self.param_groups
  if #list == 1 then return ('%s(%s)'):format(self.name, groups.described(self, list[1])) end
  local lines = {}
  for i, group in ipairs(list) do lines[i] = ('  [%d]: %s'):format(i, groups.described(self, group)) end
  return ('%s(\n%s\n)'):format(self.name, table.concat(lines, '\n'))
end

function groups.copied(value) return type(value) == 'table' and {unpack(value)} or value end

-- What a group may have beside the options: the rate before any scheduler changed it.
groups.extra = {initial_lr = true}

return groups
