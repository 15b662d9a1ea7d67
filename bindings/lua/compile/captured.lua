-- captured.lua -- what a step reads in addition to its arguments, compared at each call; or why that is not possible
--
-- The list of supported values is closed: numbers, strings, booleans and nil, tensors, plain tables
-- and objects with their metatables, modules with their classes, optimizers, functions with their
-- upvalues and the globals that they read (a watching environment collects them while the step is
-- recorded), functions of the library, and those of Lua that read only their arguments. A step that
-- can reach any other value, or that changes what it captures, is run eagerly.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local records = require('mtorch.compile.map').records
local getupvalue = debug.getupvalue
local util = require 'mtorch.core.util'
local each_upvalue, sorted_keys = util.upvalues, util.sorted_keys

local captured = {}

local max_values = 32768

-- ---- what Lua itself has ---------------------------------------------------------------------------------

--- Functions whose results depend only on their arguments, tables of such functions, and those of mtorch. A step that
--- captures one of mtorch's reads from it only what it names.
local pure, libraries, own = {}, {[mt] = true}, {[mt] = true}
for _, name in ipairs{'assert', 'error', 'getmetatable', 'ipairs', 'next', 'pairs', 'pcall', 'rawequal', 'rawget',
  'rawlen', 'rawset', 'select', 'setmetatable', 'tonumber', 'tostring', 'type', 'unpack', 'xpcall'} do
  if _G[name] then pure[_G[name]] = true end
end
for _, name in ipairs{'math', 'string', 'table', 'bit'} do
  libraries[_G[name]] = true
  for _, f in pairs(_G[name]) do pure[f] = type(f) == 'function' or nil end
end
pure[math.random], pure[math.randomseed], pure[string.dump] = nil, nil, nil

--- The other functions and tables of Lua: files, time, threads, loaded modules, other functions' variables.
local impure = {}
local function add_impure(name, value)
  if value ~= nil and not pure[value] then impure[value] = impure[value] or name end
end
for _, name in ipairs{'_G', 'collectgarbage', 'dofile', 'gcinfo', 'getfenv', 'load', 'loadfile', 'loadstring', 'module',
  'newproxy', 'print', 'require', 'setfenv'} do add_impure(name, _G[name]) end
for _, name in ipairs{'math', 'string', 'os', 'io', 'debug', 'coroutine', 'package', 'jit', 'ffi'} do
  local library = package.loaded[name] or {}
  if not libraries[library] then add_impure(name, library) end
  for key, f in pairs(library) do
    if type(f) == 'function' then add_impure(('%s.%s'):format(name, key), f) end
  end
end

--- The metatables that all values of a type share: debug.setmetatable may replace their methods.
local function metatables_of_kinds()
  return getmetatable '', getmetatable(0), getmetatable(true), getmetatable(nil), getmetatable(print)
end
local of_strings, of_numbers, of_booleans, of_nil, of_functions = metatables_of_kinds()

-- ---- the list --------------------------------------------------------------------------------------------

local function refuse(list, ...) list.why = list.why or (...):format(select(2, ...)) end

local function is_own(f) return type(f) == 'function' and debug.getinfo(f, 'S').source:find '^@mtorch/' end

--- Adds the condition that rawget(t, key) keeps its current value.
local function add_field(list, t, key, name)
  local n = #list.tables + 1
  if n > max_values then
    return refuse(list, "'%s' belongs to more than %d values that would have to be compared at each call", name,
      max_values)
  end
  list.tables[n], list.keys[n], list.values[n], list.names[n] = t, key, rawget(t, key), name
  if list.values[n] == 0 then list.zeros[#list.zeros + 1] = n end
end

--- Adds the condition that the table gets no new keys.
local function add_keys(list, t, name) list.sets[#list.sets + 1] = {t = t, name = name, count = util.count_keys(t)} end

local function key_name(key)
  return (type(key) == 'string' or type(key) == 'number') and key or core.describe(key)
end

local visit

--- The fields of a module's class: functions, which may also capture values, and defaults that modules share; a new
--- field may hide one of a base class.
local function visit_class(list, class)
  if list.seen[class] then return end
  list.seen[class] = true
  for _, key in ipairs(sorted_keys(class)) do
    local value = rawget(class, key)
    if type(value) == 'function' or type(key) ~= 'string' or not key:find '^__' then
      local name = ('%s.%s'):format(class.__name, tostring(key))
      add_field(list, class, key, name)
      if not is_own(value) then visit(list, value, name) end
    end
  end
  local nn = package.loaded['mtorch.nn']
  if not nn or rawget(nn, class.__name) ~= class then add_keys(list, class, class.__name) end -- one of the user
end

--- The fields of a module and of its parts: parameters, buffers, hooks, the class.
local function visit_module(list, module, name)
  local fields, params = rawget(module, '__fields'), rawget(module, '__params')
  add_field(list, fields, #fields + 1, name .. "'s fields")
  for _, key in ipairs(sorted_keys(params)) do add_field(list, params, key, ('%s.%s'):format(name, key)) end
  for _, key in ipairs(fields) do -- those that are nil: a tensor is assigned to params
    local is_nil = rawget(params, key) == nil and rawget(module, key) == nil
    if is_nil then add_field(list, params, key, ('%s.%s'):format(name, key_name(key))) end
  end
  for _, key in ipairs{'__class', '__hooks', 'forward'} do add_field(list, module, key, ('%s.%s'):format(name, key)) end
  local keys = sorted_keys(module)
  for k = #keys, 1, -1 do -- its own fields before those of its children
    local key = keys[k]
    if type(key) ~= 'string' or not key:find '^__' then
      local inner = ('%s.%s'):format(name, key_name(key))
      add_field(list, module, key, inner)
      visit(list, rawget(module, key), inner)
    end
  end
  local hooks = rawget(module, '__hooks')
  for _, when in ipairs(hooks and {'before', 'after'} or {}) do
    for k, hook in ipairs(hooks[when]) do
      add_field(list, hooks[when], k, name .. "'s hooks")
      visit(list, hook, name .. "'s hook")
    end
    add_field(list, hooks[when], #hooks[when] + 1, name .. "'s hooks")
  end
  local class = rawget(module, '__class')
  if class and not is_own(class.forward) then add_keys(list, module, name) end
  while class do
    visit_class(list, class)
    local meta = getmetatable(class)
    class = meta and meta.__index
    if type(class) ~= 'table' then break end
  end
end

local function visit_fields(list, t, name)
  for _, key in ipairs(sorted_keys(t)) do
    if list.why then return end
    local value = rawget(t, key)
    local inner = ('%s.%s'):format(name, key_name(key))
    add_field(list, t, key, inner)
    visit(list, key, inner)
    visit(list, value, inner)
  end
  add_keys(list, t, name)
end

local function is_list_of_numbers(t)
  for _, value in next, t do
    if type(value) ~= 'number' then return false end
  end
  return true
end

--- Visits a table: its fields, and its metatable if it has one. A shape hides its metatable, as does a grid kernel.
local function visit_table(list, t, name)
  local meta = getmetatable(t)
  if meta ~= nil and type(meta) ~= 'table' then
    if is_list_of_numbers(t) then return visit_fields(list, t, name) end
    return refuse(list, "'%s' (%s) cannot be recorded; call it outside", name, tostring(t))
  end
  list.objects[#list.objects + 1] = {t = t, meta = meta, name = name}
  visit_fields(list, t, name)
  if meta then visit(list, meta, name .. "'s class") end
end

--- Adds the condition that fields of the library and of Lua that a function may read by name are unchanged: the user
--- may replace them, and add others. Also notes whether it may read an optimizer's options or states.
local function visit_names(list, f)
  util.each_string(f, function(name)
    if list.named[name] then return end
    list.named[name] = true
    if name == 'param_groups' or name == 'state' or name == 'state_dict' then list.reads[name] = true end
    for library in pairs(libraries) do
      local value = rawget(library, name)
      if value ~= nil then
        add_field(list, library, name, name)
        if not is_own(value) and not pure[value] then visit(list, value, name) end
      elseif not own[library] then add_field(list, library, name, name)
      end
    end
  end)
end

--- Visits the user's function, module or optimizer inside a function of the library, as in a compiled step.
local function visit_wrapped(list, f, name)
  for _, _, value in each_upvalue(f) do
    if type(value) == 'table' then
      local is_object = rawget(value, '__params') or rawget(value, 'param_groups')
      value = is_object and value or rawget(value, 'step') or rawget(value, 'f')
    end
    if type(value) == 'table' or type(value) == 'function' and not is_own(value) then visit(list, value, name) end
  end
end

local watched_envs = setmetatable({}, {__mode = 'k'}) -- the replacement of an environment -> the environment

--- Replaces a function's globals while the step is recorded: every global that is read is added to the list.
local function watched(list, env)
  local seen, replacement = {}, {}
  watched_envs[replacement] = env
  return setmetatable(replacement, {
    __index = function(_, key)
      local value = env[key]
      if not seen[key] then
        seen[key] = true
        add_field(list, env, key, key_name(key))
        visit(list, value, key_name(key))
      end
      return value
    end,
    __newindex = function(_, key, value)
      refuse(list, "it sets the global '%s'; make it local, or return it", key_name(key))
      env[key] = value
    end,
  })
end
local function watch_globals(list, f, name)
  local env = getfenv(f)
  local meta = getmetatable(env)
  if meta ~= nil and meta ~= core.globals_metatable then
    return refuse(list, "'%s' has an environment with a metatable, whose globals cannot be compared", name)
  end
  list.watched[env] = list.watched[env] or watched(list, env)
  list.functions[#list.functions + 1] = {f = f, env = env, name = name}
  if list.watches then setfenv(f, list.watched[env]) end
end

local function visit_function(list, f, name)
  local compiled = records[f]
  if compiled then f = compiled.f end
  if pure[f] or list.seen[f] then return end
  list.seen[f] = true
  if debug.getinfo(f, 'S').what == 'C' then
    if core.entry(f) then return end
    return refuse(list, "'%s' is a function of another library, which may read what cannot be compared", name)
  end
  if is_own(f) then return visit_wrapped(list, f, name) end
  for i, upvalue, value in each_upvalue(f) do
    list.upvalues[#list.upvalues + 1] = {f = f, i = i, value = value, name = upvalue}
    visit(list, value, upvalue)
  end
  visit_names(list, f)
  watch_globals(list, f, name)
end

--- The parameters of an optimizer as zero_grad recorded them; its step uses the options and states of the replay.
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
--- The options of its groups, if the step itself reads them.
local function add_options(list, optimizer, name)
  for i, group in ipairs(optimizer.param_groups) do
    for _, key in ipairs(sorted_keys(group)) do
      if key ~= 'params' then add_field(list, group, key, ('%s.param_groups.%d.%s'):format(name, i, key_name(key))) end
    end
  end
end

--- The user's functions and classes in a table of mtorch: a name in a variable may be read from it.
local function visit_additions(list, library, name)
  if list.seen[library] then return end
  list.seen[library] = true
  for _, key in ipairs(sorted_keys(library)) do
    local value = rawget(library, key)
    local code = type(value) == 'table' and rawget(value, 'forward') or value
    if type(code) == 'function' and not is_own(code) and not core.entry(code) then
      local inner = ('%s.%s'):format(name, key_name(key))
      add_field(list, library, key, inner)
      visit(list, value, inner)
    end
  end
end

function visit(list, value, name)
  local kind = type(value)
  if list.why or kind == 'string' or kind == 'number' or kind == 'boolean' or kind == 'nil' then
    return
  end
  if own[value] then return visit_additions(list, value, name) end
  if libraries[value] then -- a name in a variable may be read from it
    if list.seen[value] then return end
    list.seen[value] = true
    for _, key in ipairs(sorted_keys(value)) do add_field(list, value, key, ('%s.%s'):format(name, key_name(key))) end
    return add_keys(list, value, name)
  end
  if impure[value] then
    return refuse(list, "it uses '%s', which a replay would not repeat", impure[value])
  end
  if kind == 'function' then return visit_function(list, value, name) end
  if kind == 'cdata' and tostring(value):find '^ctype<' or mt.is_tensor(value) then return end
  if value == mt.newaxis or value == mt.ellipsis then return end
  if kind ~= 'table' then
    return refuse(list, "'%s' is %s, whose contents cannot be compared", name,
      kind == 'cdata' and 'cdata' or core.describe(value))
  end
  if list.seen[value] then return end
  list.seen[value] = true
  if rawget(value, 'param_groups') and rawget(value, 'handle') then return visit_optimizer(list, value, name) end
  if rawget(value, '__fields') and rawget(value, '__params') then return visit_module(list, value, name) end
  visit_table(list, value, name)
end

--- The values that `f` captures; `why` is the reason if some cannot be compared. Until
--- captured.unwatch(list), globals that its functions read are added.
function captured.watch(f)
  for _, name in ipairs{'nn', 'optim', 'linalg', 'fft'} do -- loaded at their first use
    local library = rawget(mt, name)
    if type(library) == 'table' and library == package.loaded['mtorch.' .. name] then
      own[library], libraries[library] = true, true
    end
  end
  local list = {tables = {}, keys = {}, values = {}, names = {}, upvalues = {}, objects = {}, sets = {}, zeros = {},
    optimizers = {}, functions = {}, named = {}, reads = {}, watched = {}, seen = {}}
  visit(list, f, 'the step')
  list.watches = not list.why
  if list.watches then
    for _, record in ipairs(list.functions) do setfenv(record.f, list.watched[record.env]) end
  end
  return list
end
function captured.unwatch(list)
  if list.watches then
    for _, record in ipairs(list.functions) do setfenv(record.f, record.env) end
  end
  local reads = list.reads
  for optimizer, name in pairs(list.optimizers) do
    if reads.param_groups then add_options(list, optimizer, name) end
    if reads.state_dict or reads.param_groups and reads.state then
      refuse(list, "it may read the state of '%s', whose tensors are replaced when it is loaded", name)
    end
  end
  list.named, list.watched, list.seen, list.watches = nil, nil, nil, nil
end

function captured.tensors(list)
  local set = {}
  for i = 1, #list.tables do
    if mt.is_tensor(list.values[i]) then set[list.values[i]] = true end
  end
  for _, u in ipairs(list.upvalues) do
    if mt.is_tensor(u.value) then set[u.value] = true end
  end
  return set
end

function captured.count(list) return #list.tables + #list.upvalues end

-- ---- comparing -------------------------------------------------------------------------------------------

local function shown(value)
  return (type(value) == 'number' or type(value) == 'boolean') and tostring(value) or core.describe(value)
end
local function difference(name, before, now)
  local was, is = shown(before), shown(now)
  if was ~= is then return ("'%s' was %s and is %s"):format(name, was, is) end
  if type(now) == 'number' then return ("'%s' was %.17g and is %.17g"):format(name, before, now) end
  return ("'%s' is another object than before, %s"):format(name, is)
end

--- "'scale' was 2 and is 3" for the first value that has changed, or nil.
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
  for _, i in ipairs(list.zeros) do -- rawequal does not distinguish -0
    local now, before = rawget(tables[i], keys[i]), values[i]
    if 1 / now ~= 1 / before then return difference(list.names[i], before, now) end
  end
  local s, n, b, none, f = metatables_of_kinds()
  if s ~= of_strings or n ~= of_numbers or b ~= of_booleans or none ~= of_nil or f ~= of_functions then
    return 'strings, numbers, booleans, nil or functions have another metatable'
  end
  for _, record in ipairs(list.functions) do
    local env = getfenv(record.f) -- while another function is recorded, its replacement
    if (watched_envs[env] or env) ~= record.env then return ("'%s' has another environment"):format(record.name) end
  end
  for _, set in ipairs(list.sets) do
    if util.count_keys(set.t) ~= set.count then return ("'%s' has other fields"):format(set.name) end
  end
end

return captured
