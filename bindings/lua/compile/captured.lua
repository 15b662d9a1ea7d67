-- captured.lua -- what a step reads besides its arguments: captured values, globals, fields of tables and objects
--
-- All that can be reached from the step is compared at each call: upvalues and globals of its functions, fields of
-- tables, with the metatables of objects and the functions there. What is too much, or cannot be compared, is a reason
-- not to compile the step.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local records = require('mtorch.compile.map').records
local getupvalue = debug.getupvalue
local each_upvalue = require('mtorch.core.util').upvalues

local captured = {}

local most_values = 32768
local flow = require 'mtorch.compile.flow'
local global_get = 54 -- LuaJIT 2.1's GGET

local libraries = {[mt] = true, [_G] = true}
for _, name in ipairs{'math', 'string', 'table', 'os', 'io', 'bit', 'coroutine', 'debug', 'package', 'jit', 'ffi'} do
  libraries[_G[name] or package.loaded[name] or name] = true
end

local function refuse(list, ...) list.why = list.why or (...):format(select(2, ...)) end

local function is_own(f) return type(f) == 'function' and debug.getinfo(f, 'S').source:find '^@mtorch/' end

--- A key for a field of a table, which lasts as long as the table.
local ids = setmetatable({}, {__mode = 'k'})
local function id_of(t, key)
  local of_table = ids[t] or {}
  ids[t] = of_table
  of_table[key] = of_table[key] or {}
  return of_table[key]
end

--- rawget(t, key) is what it is now. Numbers in tables of the user's may become parameters.
local function add_field(list, t, key, name)
  local n = #list.tables + 1
  if n > most_values then
    return refuse(list, "'%s' belongs to more than %d values that would have to be compared at each call", name,
      most_values)
  end
  list.tables[n], list.keys[n], list.values[n], list.names[n] = t, key, rawget(t, key), name
  if list.values[n] == 0 then list.zeros[#list.zeros + 1] = n end
  if not list.library and type(key) == 'string' and type(list.values[n]) == 'number' then list.own[n] = true end
end

--- Nothing was added to the table: of a long list what follows its last value is asked, else its keys are counted.
local function add_keys(list, t, name)
  local count, last, in_order = 0, nil, true
  for key in next, t do
    count, last = count + 1, key
    in_order = in_order and key == count
  end
  local long = in_order and count > 32
  list.sets[#list.sets + 1] = {t = t, name = name, last = long and last or nil, count = count}
end

local function key_name(key)
  return (type(key) == 'string' or type(key) == 'number') and key or core.describe(key)
end

local visit

--- What belongs to an object of the library's, which reads it as it likes.
local function in_library(list, is_library, f, ...)
  local before = list.library
  list.library = before or is_library
  f(list, ...)
  list.library = before
end
local function has_own_functions(t)
  for _, value in next, t do
    if is_own(value) then return true end
  end
  return false
end

--- The fields of a module's class: functions, which may capture values too, and defaults that modules share.
local function visit_class(list, class, seen)
  for key, value in next, class do
    local is_function = type(value) == 'function'
    local is_default = not is_function and type(key) == 'string' and not key:find '^__'
    if is_default or is_function and not is_own(value) then
      local name = ('%s.%s'):format(class.__name, tostring(key))
      add_field(list, class, key, name)
      if is_function then list.constructors[value] = key == '__init' or nil end
      visit(list, value, name, seen)
    end
  end
end

--- The fields of a module, and of what it holds: parameters, buffers, hooks, the class.
local function visit_module(list, module, name, seen)
  local fields, held = rawget(module, '__fields'), rawget(module, '__held')
  add_field(list, fields, #fields + 1, name .. "'s fields")
  for key in pairs(held) do add_field(list, held, key, ('%s.%s'):format(name, key)) end
  for _, key in ipairs{'__class', '__hooks', 'forward'} do add_field(list, module, key, ('%s.%s'):format(name, key)) end
  for key, value in pairs(module) do
    if type(key) ~= 'string' or not key:find '^__' then
      local inner = ('%s.%s'):format(name, key_name(key))
      add_field(list, module, key, inner)
      visit(list, value, inner, seen)
    end
  end
  local hooks = rawget(module, '__hooks')
  for _, when in ipairs(hooks and {'before', 'after'} or {}) do
    for k, hook in ipairs(hooks[when]) do
      add_field(list, hooks[when], k, name .. "'s hooks")
      visit(list, hook, name .. "'s hook", seen)
    end
    add_field(list, hooks[when], #hooks[when] + 1, name .. "'s hooks")
  end
  local class = rawget(module, '__class')
  if class and not is_own(class.forward) then add_keys(list, module, name) end
  while class do
    visit_class(list, class, seen)
    local meta = getmetatable(class)
    class = meta and meta.__index
    if type(class) ~= 'table' then break end
  end
end

local function visit_table(list, t, name, seen)
  for key, value in next, t do
    if list.why then return end
    local inner = ('%s.%s'):format(name, key_name(key))
    add_field(list, t, key, inner)
    visit(list, key, inner, seen)
    visit(list, value, inner, seen)
  end
  add_keys(list, t, name)
end

local function is_list_of_numbers(t)
  for _, value in next, t do
    if type(value) ~= 'number' then return false end
  end
  return true
end

--- An object: its fields, and the class that its metatable is. A shape hides it, a grid kernel too.
local function visit_object(list, t, name, seen)
  local meta = getmetatable(t)
  if type(meta) ~= 'table' then
    if is_list_of_numbers(t) then return visit_table(list, t, name, seen) end
    return refuse(list, "'%s' (%s) cannot be recorded; call it outside", name, tostring(t))
  end
  list.objects[#list.objects + 1] = {t = t, meta = meta, name = name}
  in_library(list, has_own_functions(meta), visit_table, t, name, seen)
  visit(list, meta, name .. "'s class", seen)
end

local function is_builtin(value)
  return libraries[value] or type(value) == 'function' and debug.getinfo(value, 'S').what == 'C'
end
local function add_read(list, t, name, seen)
  local value = rawget(t, name)
  if is_builtin(value) or is_own(value) then return end
  add_field(list, t, name, name)
  visit(list, value, name, seen)
end

--- What a function's code names, or that of a function inside it: globals; fields that the user gave to a library's
--- table (`_G.rate`, `math.rate`); modules of `require`; and whether it reads an optimizer's options.
local function visit_code(list, code, env, seen)
  local util = require 'jit.util'
  local info = util.funcinfo(code)
  for pc = 1, info.bytecodes - 1 do
    local ins = util.funcbc(code, pc)
    if bit.band(ins, 255) == global_get then
      add_read(list, env, util.funck(code, -bit.rshift(ins, 16) - 1), seen)
    end
  end
  for k = 1, info.gcconsts do
    local constant = util.funck(code, -k)
    if type(constant) == 'proto' then visit_code(list, constant, env, seen)
    elseif type(constant) == 'string' then
      list.reads_options = list.reads_options or constant == 'param_groups'
      for library in pairs(libraries) do
        local value = type(library) == 'table' and rawget(library, constant)
        if value and not is_builtin(value) and not is_own(value) and type(value) ~= 'table' then
          add_read(list, library, constant, seen)
        end
      end
      local module = package.loaded[constant]
      if type(module) == 'table' and not constant:find '^mtorch' then visit(list, module, constant, seen) end
    end
  end
end
local function visit_globals(list, f, seen)
  if flow.usable then visit_code(list, f, getfenv(f), seen) end
end

--- The user's function in one of the library's, as in a compiled step.
local function visit_wrapped(list, f, name, seen)
  for _, _, value in each_upvalue(f) do
    if type(value) == 'table' then value = rawget(value, 'f') end
    if type(value) == 'function' and not is_own(value) then visit(list, value, name, seen) end
  end
end

local function visit_function(list, f, name, seen)
  local compiled = records[f]
  if compiled then f = compiled.f end
  if seen[f] or debug.getinfo(f, 'S').what == 'C' then return end
  seen[f] = true
  if is_own(f) then return visit_wrapped(list, f, name, seen) end
  list.functions[#list.functions + 1] = f
  for i, upvalue, value in each_upvalue(f) do
    list.upvalues[#list.upvalues + 1] = {f = f, i = i, value = value, name = upvalue, id = debug.upvalueid(f, i)}
    visit(list, value, upvalue, seen)
  end
  visit_globals(list, f, seen)
end

--- Which parameters an optimizer has, as zero_grad was recorded; it steps anew, with the options and states of then.
local function visit_optimizer(list, optimizer, name)
  local groups = optimizer.param_groups
  for i, group in ipairs(groups) do
    local inner = ('%s.param_groups.%d.params'):format(name, i)
    add_field(list, group, 'params', inner)
    for k in ipairs(group.params) do add_field(list, group.params, k, ('%s.%d'):format(inner, k)) end
    add_keys(list, group.params, inner)
  end
  add_keys(list, groups, name .. '.param_groups')
  list.optimizers[optimizer] = name
end
--- The options of its groups, where the step itself reads them.
local function add_options(list, optimizer, name)
  for i, group in ipairs(optimizer.param_groups) do
    for key in next, group do
      if key ~= 'params' then add_field(list, group, key, ('%s.param_groups.%d.%s'):format(name, i, key_name(key))) end
    end
  end
end

function visit(list, value, name, seen)
  local kind = type(value)
  if kind == 'function' then return visit_function(list, value, name, seen) end
  if kind == 'cdata' and not tostring(value):find '^ctype<' then
    return refuse(list, "'%s' is cdata, whose contents cannot be compared", name)
  end
  if kind ~= 'table' or seen[value] or libraries[value] or list.why then return end
  seen[value] = true
  if rawget(value, 'param_groups') and rawget(value, 'handle') then return visit_optimizer(list, value, name) end
  if rawget(value, '__fields') and rawget(value, '__held') then
    local class = rawget(value, '__class')
    in_library(list, not class or is_own(class.forward), visit_module, value, name, seen)
  elseif getmetatable(value) ~= nil then visit_object(list, value, name, seen)
  else visit_table(list, value, name, seen) end
end

--- What `f` captures, with the values of now; `why` says what cannot be compared.
function captured.of(f)
  local list = {tables = {}, keys = {}, values = {}, names = {}, upvalues = {}, objects = {}, sets = {}, zeros = {},
    own = {}, functions = {}, constructors = {}, optimizers = {}}
  visit(list, f, 'the step', {})
  if list.reads_options then
    for optimizer, name in pairs(list.optimizers) do add_options(list, optimizer, name) end
  end
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

--- What a captured variable, or a field, is now.
function captured.read(u)
  if u.t then return rawget(u.t, u.key) end
  local _, now = getupvalue(u.f, u.i)
  return now
end
local function is_moved(u)
  local now = captured.read(u)
  return type(now) == 'number' and type(u.value) == 'number' and now ~= u.value
end
--- Captured variables and fields that were numbers and are others now, by their identity; nil where something else
--- has changed.
function captured.moved_numbers(list)
  local moved = {}
  for _, u in ipairs(list.upvalues) do
    if is_moved(u) then moved[u.id] = u end
  end
  for i in pairs(list.own) do
    local t, key = list.tables[i], list.keys[i]
    local u = {t = t, key = key, value = list.values[i], name = list.names[i], id = id_of(t, key)}
    if is_moved(u) then moved[u.id] = u end
  end
  return not captured.changed(captured.without(list, moved)) and moved or nil
end
--- The list without some variables and fields.
function captured.without(list, moved)
  local kept = setmetatable({upvalues = {}, tables = {}, keys = {}, values = {}, names = {}, zeros = {}, own = {}},
    {__index = list})
  for _, u in ipairs(list.upvalues) do
    if not moved[u.id] then kept.upvalues[#kept.upvalues + 1] = u end
  end
  for i, t in ipairs(list.tables) do
    if not (list.own[i] and moved[id_of(t, list.keys[i])]) then
      local n = #kept.tables + 1
      kept.tables[n], kept.keys[n], kept.values[n], kept.names[n] = t, list.keys[i], list.values[i], list.names[i]
      kept.own[n] = list.own[i]
      if list.values[i] == 0 then kept.zeros[#kept.zeros + 1] = n end
    end
  end
  return kept
end

--- What was added to a table, or nil.
local function added(sets)
  for _, set in ipairs(sets) do
    local t, n = set.t, 0
    if set.last then
      if next(t, set.last) ~= nil then return ("'%s' has more entries"):format(set.name) end
    else
      for _ in next, t do n = n + 1 end
      if n ~= set.count then return ("'%s' has other fields"):format(set.name) end
    end
  end
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
  for _, o in ipairs(list.objects) do
    if getmetatable(o.t) ~= o.meta then return ("'%s' has another metatable"):format(o.name) end
  end
  local upvalues = list.upvalues
  for i = 1, #upvalues do
    local u = upvalues[i]
    local _, now = getupvalue(u.f, u.i)
    if not rawequal(now, u.value) and (now == now or u.value == u.value) then
      return difference(u.name, u.value, now)
    end
    if now == 0 and 1 / now ~= 1 / u.value then return difference(u.name, u.value, now) end
  end
  for _, i in ipairs(list.zeros) do -- rawequal knows no -0
    local now, before = rawget(tables[i], keys[i]), values[i]
    if 1 / now ~= 1 / before then return difference(list.names[i], before, now) end
  end
  return added(list.sets)
end

--- Names under which functions of the user can be reached from the step: methods and metamethods.
function captured.method_names(list)
  local names = {}
  for i, key in ipairs(list.keys) do
    local value = list.values[i]
    if type(value) == 'function' and not is_own(value) then names[key] = true end
  end
  return names
end

return captured
