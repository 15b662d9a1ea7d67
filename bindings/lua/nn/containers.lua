-- containers.lua -- modules that contain modules
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'
local is_module = class.is_module

--- The entries of a container: the check of a value, and the name in messages.
local module = {fits = is_module, name = 'module'}
local tensor = {fits = mt.is_tensor, name = 'tensor'}

local function check(of, op, value, where)
  core.check(of.fits(value), '%s: %s must be a %s, got %s', op, where, of.name, class.describe(value))
  return value
end

--- Assigns n values to [from..].
local function fill(self, op, of, children, n, from)
  for i = 1, n do check(of, op, children[i], 'entry ' .. i) end
  for i = 1, n do self[(from or 1) + i - 1] = children[i] end
end

--- The length of a list, which must not have gaps or names.
local function list_length(op, of, list)
  core.check(type(list) ~= 'table' or not rawget(list, '__name'),
    '%s: a %s is needed, got %s', op, of.name, core.describe(list))
  core.check(type(list) == 'table' and not (is_module(list) and #list == 0),
    '%s: a list of %ss is needed, got %s', op, of.name, class.describe(list))
  if is_module(list) then return #list end
  local n = 0
  for key in pairs(list) do
    core.check(util.is_whole(key, 1), '%s: entries have no names, got the key %s', op, core.describe(key))
    n = math.max(n, key)
  end
  return n
end

--- Makes the functions with these names methods that raise an error if called with a dot.
local function with_colon(made, names)
  for name in names:gmatch '%S+' do made[name] = object.checked(name, 'net', is_module, made[name]) end
end

--- append, extend, insert, pop: the methods of lists of modules or parameters; all except pop return the list.
local function list_methods(made, of)
  function made.append(self, value)
    self[#self + 1] = check(of, 'append', value, 'the entry')
    return self
  end
  function made.extend(self, list)
    fill(self, 'extend', of, list, list_length('extend', of, list), #self + 1)
    return self
  end
  local function position(op, at, last)
    if type(at) == 'number' and at < 0 then at = last + 1 + at end
    core.check(util.is_whole(at, 1, last), '%s: the position is %s, expected 1..%d', op, core.describe(at), last)
    return at
  end
  function made.insert(self, at, value)
    at = position('insert', at, #self + 1)
    check(of, 'insert', value, 'argument 2')
    for i = #self, at, -1 do self[i + 1] = self[i] end
    self[at] = value
    return self
  end
  function made.pop(self, at)
    local n = #self
    at = position('pop', at == nil and n or at, n)
    local value = self[at]
    for i = at, n - 1 do self[i] = self[i + 1] end
    self[n] = nil
    return value
  end
  with_colon(made, 'append extend insert pop')
end

--- A class of lists: constructed from a list of modules or tensors, or, if `several`, also from modules as arguments.
local function listed(name, doc, of, several)
  local made = class.class(name)
  class.constructor(made, name .. '(..)', doc, function(self, ...)
    local n, first = select('#', ...), ...
    if several and (n ~= 1 or is_module(first)) then return fill(self, name, of, {...}, n) end
    if n > 1 then core.fail('%s: %d arguments given, it takes one list of %ss', name, n, of.name) end
    if n == 1 then fill(self, name, of, first, list_length(name, of, first)) end
  end)
  list_methods(made, of)
  function made.__entry(self, value, at) check(of, self.__name, value, 'entry ' .. at) end
  return made
end

local Sequential = listed('Sequential',
  "Modules one after another, nn.Sequential(a, b, c) or a list of them: each one's result is the next one's input. " ..
  'net[1] is the first, net[-1] the last.',
  module, true)
function Sequential:forward(x, more)
  if more ~= nil or type(self) ~= 'table' then class.refuse_inputs(self, 1, more, x) end
  local n = #self
  if self.__seen[n + 1] then class.check_entries(self) end -- entries were removed
  for i = 1, n do
    local layer = self[i]
    if not is_module(layer) then class.check_entries(self) end
    x = layer(x)
  end
  return x
end

local ParameterList = listed('ParameterList',
  'A list of parameters at [1..n], nn.ParameterList{a, b}; plain tensors become parameters.', tensor)
ParameterList.__lists = true

-- ---- by name ------------------------------------------------------------------------------------

--- {name, value} pairs: of such a list in its order, of a table sorted by name.
local function pairs_of(op, of, given)
  core.check(type(given) == 'table' and (not is_module(given) or given.items),
    '%s: a table of %ss by name is needed, got %s', op, of.name, class.describe(given))
  local list = {}
  if is_module(given) then
    for name, value in given:items() do list[#list + 1] = {name, value} end
  elseif given[1] ~= nil then
    for i, pair in ipairs(given) do
      core.check(type(pair) == 'table' and type(pair[1]) == 'string',
        "%s: entry %d must be {'name', %s}, got %s", op, i, of.name, class.describe(pair))
      list[i] = pair
    end
  else
    for i, name in ipairs(util.sorted_keys(given)) do
      if type(name) ~= 'string' then core.fail('%s: the name %s is not a string', op, core.describe(name)) end
      list[i] = {name, given[name]}
    end
  end
  for _, pair in ipairs(list) do check(of, op, pair[2], "'" .. pair[1] .. "'") end
  return list
end

--- A container of named entries, with keys, values, items, has, update, pop.
local function named(name, of, doc)
  local made = class.class(name)
  local function update(self, op, given)
    local list = pairs_of(op, of, given)
    for _, pair in ipairs(list) do
      class.check_name(self, op, pair[1])
      if made[pair[1]] ~= nil then core.fail("%s: '%s' is a name of %s's own", op, pair[1], name) end
    end
    for _, pair in ipairs(list) do
      local value = pair[2]
      self[pair[1]] = of == tensor and class.registry[value] ~= 'parameter' and class.Parameter(value) or value
    end
    return self
  end
  class.constructor(made, name .. '(..)', doc, function(self, ...)
    if select('#', ...) > 1 then core.fail('%s: %d arguments given, it takes one table', name, select('#', ...)) end
    if (...) ~= nil then update(self, name, (...)) end
  end)
  function made.update(self, given) return update(self, 'update', given) end
  function made.keys(self)
    local keys = {}
    for _, key in class.fields(self) do keys[#keys + 1] = key end
    return keys
  end
  function made.values(self) return util.map(self:keys(), function(key) return self[key] end) end
  function made.items(self) return util.values(self:keys(), self:values()) end
  function made.has(self, key) return rawget(self, '__seen')[key] ~= nil and class.get(self, key) ~= nil end
  function made.size(self) return #self:keys() end
  function made.pop(self, key)
    if not self:has(key) then core.fail("pop: %s has no entry '%s'", name, tostring(key)) end
    local value = self[key]
    self[key] = nil
    return value
  end
  with_colon(made, 'update keys values items has size pop')
  return made
end

return {
  ModuleDict = named('ModuleDict', module,
    "Modules by name, nn.ModuleDict{a = .., b = ..}, in the order of their names; a list {{'b', ..}, {'a', ..}} " ..
    'keeps its own. dict.a, dict[name]; keys, values, items, has, size, update, pop.'),
  ModuleList = listed('ModuleList',
    'A list whose modules are registered, nn.ModuleList{a, b}; it is indexed, not called. list[-1] is the last.',
    module),
  ParameterDict = named('ParameterDict', tensor,
    'Parameters by name, nn.ParameterDict{a = .., b = ..}; plain tensors become parameters. As ModuleDict.'),
  ParameterList = ParameterList,
  Sequential = Sequential,
}
