-- captured.lua -- what a step reads besides its arguments: captured values, fields of tables and modules
local core = require 'mtorch.core'
local mt = require 'mtorch'
local records = require('mtorch.compile.map').records
local getupvalue = debug.getupvalue

local captured = {}

-- Plain tables are looked into this deep, and at so many fields of each.
local deepest, most_fields = 3, 200

--- rawget(t, key) is what it is now.
local function add_field(list, t, key, name)
  local n = #list.tables + 1
  list.tables[n], list.keys[n], list.values[n], list.names[n] = t, key, rawget(t, key), name
end

local visit

--- The fields of a module, and of what it holds: parameters, buffers, hooks, the class.
local function visit_module(list, module, name, depth, seen)
  local fields, held = rawget(module, '__fields'), rawget(module, '__held')
  add_field(list, fields, #fields + 1, name .. "'s fields")
  for key in pairs(held) do add_field(list, held, key, ('%s.%s'):format(name, key)) end
  for _, key in ipairs{'__class', '__hooks', 'forward'} do add_field(list, module, key, ('%s.%s'):format(name, key)) end
  for key, value in pairs(module) do
    if type(key) == 'number' or not key:find '^__' then
      local inner = ('%s.%s'):format(name, key)
      add_field(list, module, key, inner)
      visit(list, value, inner, depth, seen)
    end
  end
  local hooks = rawget(module, '__hooks')
  for _, when in ipairs(hooks and {'before', 'after'} or {}) do
    add_field(list, hooks[when], #hooks[when] + 1, name .. "'s hooks")
  end
  local class = rawget(module, '__class')
  while class do -- forward may capture values too
    visit(list, rawget(class, 'forward'), class.__name .. '.forward', depth, seen)
    local meta = getmetatable(class)
    class = meta and meta.__index
    if type(class) ~= 'table' then break end
  end
end

local function visit_table(list, t, name, depth, seen)
  if depth > deepest then return end
  local n = 0
  for key, value in pairs(t) do
    n = n + 1
    if n > most_fields then return end
    if type(key) == 'string' or type(key) == 'number' then
      local inner = ('%s.%s'):format(name, key)
      add_field(list, t, key, inner)
      visit(list, value, inner, depth + 1, seen)
    end
  end
  add_field(list, t, #t + 1, name .. "'s entries")
end

local function visit_function(list, f, name, depth, seen)
  local compiled = records[f]
  if compiled then f = compiled.f end
  local info = debug.getinfo(f, 'S')
  if seen[f] or info.what == 'C' or info.source:find '^@mtorch/' then return end
  seen[f] = true
  for i = 1, 255 do
    local upvalue, value = getupvalue(f, i)
    if not upvalue then break end
    list.upvalues[#list.upvalues + 1] = {f = f, i = i, value = value, name = upvalue}
    visit(list, value, upvalue, depth, seen)
  end
end

function visit(list, value, name, depth, seen)
  if type(value) == 'function' then return visit_function(list, value, name, depth, seen) end
  if type(value) ~= 'table' or seen[value] or value == mt or value == _G then return end
  if rawget(value, 'param_groups') then return end -- an optimizer steps anew
  if rawget(value, '__fields') and rawget(value, '__held') then
    seen[value] = true
    visit_module(list, value, name, depth, seen)
  elseif not getmetatable(value) then
    seen[value] = true
    visit_table(list, value, name, depth, seen)
  end
end

--- What `f` captures, with the values of now.
function captured.of(f)
  local list = {tables = {}, keys = {}, values = {}, names = {}, upvalues = {}}
  visit_function(list, f, 'the step', 1, {})
  return list
end

--- How many values are compared.
function captured.count(list) return #list.tables + #list.upvalues end

local function shown(value)
  return (type(value) == 'number' or type(value) == 'boolean') and tostring(value) or core.describe(value)
end
local function difference(name, before, now)
  return ("'%s' was %s and is %s"):format(name, shown(before), shown(now))
end

--- "'scale' was 2 and is 3", of the first value that is another one now, or nil.
function captured.changed(list)
  local tables, keys, values = list.tables, list.keys, list.values
  for i = 1, #tables do
    local now, before = rawget(tables[i], keys[i]), values[i]
    if not rawequal(now, before) and (now == now or before == before) then
      return difference(list.names[i], before, now)
    end
  end
  local upvalues = list.upvalues
  for i = 1, #upvalues do
    local u = upvalues[i]
    local _, now = getupvalue(u.f, u.i)
    if not rawequal(now, u.value) and (now == now or u.value == u.value) then
      return difference(u.name, u.value, now)
    end
  end
end

return captured
