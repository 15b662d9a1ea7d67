-- object.lua -- the class system: known fields, methods that check their arguments and have help, constructors
--
--   local Counter, method = object.class{name = 'Counter', called = 'c'}
--   method('add(n: int = 1)', 'Adds n.', function(self, n) self.sum = self.sum + n end)
--   local counter = object.constructor(Counter, 'Counter(sum: int = 0)', 'A sum.')
--
-- A class is the metatable of its objects, and inherits from its base. nn/class.lua adds the
-- registration of parameters, data/class.lua adds proxies for sets and loaders.
local core = require 'mtorch.core'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local getfenv, select, type = debug.getfenv, select, type
local object = {}

-- ---- proxies -------------------------------------------------------------------------------------------

--- The fields of an object behind its proxy; nil for other values.
function object.unwrap(value)
  local meta = type(value) == 'userdata' and getmetatable(value)
  return type(meta) == 'table' and meta.__proxy and getfenv(value) or nil
end
local unwrap = object.unwrap

--- A userdata as the proxy of an object, because Lua 5.1 does not call metamethods of tables for #
--- and ipairs: # is the object's size, ipairs is an error. Methods receive the object.
function object.proxy(of, fields)
  if not rawget(of, '__proxy') then
    of.__proxy = newproxy(true)
    local meta = getmetatable(of.__proxy)
    meta.__proxy, meta.__name, meta.__call = true, of.__name, of.__call
    function meta:__index(key) return getfenv(self)[key] end
    function meta:__newindex(key, value) getfenv(self)[key] = value end
    function meta:__len() return self:size() end
    function meta:__tostring() return tostring(getfenv(self)) end
  end
  return debug.setfenv(newproxy(of.__proxy), fields)
end

-- ---- methods -------------------------------------------------------------------------------------------

--- body(self, ..) as a method of an object with the name `called` in errors. It raises an error for a call with a dot,
--- where is_own(self) is false, for more than max_count arguments, and if check(..) does; the last two are optional.
function object.checked(name, called, is_own, body, max_count, check)
  return function(self, ...)
    if type(self) == 'userdata' then self = unwrap(self) end
    if not is_own(self) then core.fail('%s: methods are called with a colon, %s:%s(..)', name, called, name) end
    if max_count and select('#', ...) > max_count then
      local last = select(-1, ...)
      local option = type(last) == 'table' and not getmetatable(last) and next(last)
      if type(option) == 'string' then
        core.fail("%s: unknown option '%s'%s", name, option, core.advice(name, option, {}))
      end
      core.fail('%s: %d arguments given, it takes %d%s', name, select('#', ...), max_count,
        core.hint_of_surplus(last or (select(max_count, ...))))
    end
    if check then return body(self, check(...)) end
    return body(self, ...)
  end
end

--- The same with a signature for the arguments; also returns its name, and {signature, help} for mt.help.
local function declared(signature, doc, of, body)
  local check = core.binder(signature, doc)
  local entry, params = core.entry(check), core.parameters(check)
  local name, max_count, is_typed = entry:match '^[%w_]+', not params.open and #params, entry ~= signature
  return object.checked(name, of.__called, of.__is_own, body, max_count, is_typed and check), name, {entry, doc}
end

--- class[name] = value; a function becomes a method that raises an error if called with a dot.
local function define(of, name, value)
  local is_method = type(value) == 'function' and not name:find '^__'
  rawset(of, name, is_method and object.checked(name, of.__called, of.__is_own, value) or value)
end

-- ---- fields --------------------------------------------------------------------------------------------

--- The names in a class, its bases and other tables, sorted; without those that match the pattern `hidden`.
function object.names(of, hidden, ...)
  local set = {}
  local function add(source)
    for name in pairs(source) do
      if type(name) == 'string' and not name:find(hidden) then set[name] = true end
    end
  end
  for _, source in ipairs{...} do add(source) end
  while of do
    add(of)
    of = getmetatable(of).__index
  end
  return util.sorted_keys(set)
end

--- Raises the error for a name that an object lacks.
local function refuse(of, self, key)
  if type(key) ~= 'string' then
    core.fail('%s has nothing at [%s]%s', of.__name, tostring(key), of.get and ('; %s:get(i) is an example'):format(
      of.__word) or of.iter and ('; for .. in %s:iter() do'):format(of.__word) or '')
  end
  core.fail("%s has no '%s'%s", of.__name, key, of.__advice and of.__advice(self, key) or
    core.advice(of.__word, key, object.names(of, '^_', self, of.__optional)))
end

--- The __index and __newindex of objects: methods and known fields; other names are errors.
local function field_access(of, optional)
  local function get(self, key)
    local value = of[key]
    if value ~= nil or optional[key] then return value end
    refuse(of, self, key)
  end
  return get, function(self, key, value)
    if not optional[key] then get(self, key) end
    rawset(self, key, value)
  end
end

-- ---- classes -------------------------------------------------------------------------------------------

local function class_text(of) return of.__name end
local function object_text(self)
  local of = getmetatable(self)
  local describe = rawget(self, 'describe') or of.describe
  return describe and describe(self) or of.__name
end

--- Creates a class, in the table `of` if given. `spec` has
---   called     an object in messages, as in 'sched:step(..)'
---   name       of the class; word: what objects are, 'scheduler'; both are `called` if left out
---   base       a class whose methods are inherited
---   optional   the set of fields that may be nil; with `open` others may be added at any time
---   is_own     is_own(value): whether methods take it; if left out, objects of the base and of classes derived from it
---   define     true: a function that is put into the class becomes a method that refuses a call with a dot
---   call, get, set   functions for calls of an object, and for unknown fields of it
---   construct(class, ..)   is called by class(..)
---   keeps_args true: print shows the constructor's arguments, not the current fields
--- Also returns method(signature, doc, body), which adds a method; of.__methods: the base's, as help shows them.
function object.class(spec, of)
  of = of or {}
  local base = spec.base or {}
  local family, optional = base.__family or of, spec.optional or {}
  local called = spec.called or base.__called
  of.__called, of.__name, of.__word = called, spec.name or called, spec.word or base.__word or called
  of.__optional, of.__family, of.__keeps_args = optional, family, spec.keeps_args
  of.__is_own = spec.is_own or base.__is_own or function(self)
    local meta = getmetatable(self)
    return meta and meta.__family == family
  end
  of.__methods, of.__call, of.__tostring = base.__methods or {}, spec.call or base.__call, object_text
  of.__index, of.__newindex = spec.get, spec.set
  if not spec.get then of.__index, of.__newindex = field_access(of, optional) end
  of.__open = {__index = of.__index, __family = family} -- the metatable during construction
  if spec.open then of.__newindex = nil end
  setmetatable(of, {__index = spec.base, __newindex = spec.define and define, __call = spec.construct,
    __tostring = class_text})
  return of, function(signature, doc, body)
    local method, name, entry = declared(signature, doc, of, body)
    rawset(of, name, method)
    if of == family then table.insert(of.__methods, entry) end
  end
end

--- An object with these fields and those that init(self) adds; other fields added later are errors with a hint.
function object.new(of, fields, init)
  local self = setmetatable(fields, of.__open)
  if init then init(self) end
  return setmetatable(self, of)
end

local constructor_args = setmetatable({}, {__mode = 'k'}) -- by object, if its class keeps them

--- The function that creates an object from its arguments, which become fields unless new(..)
--- returns others; then calls init(self).
function object.constructor(of, signature, doc, init, new)
  local params, keeps_args = nil, of.__keeps_args
  of.__signature = core.declare(signature, doc, function(...)
    local fields = new and new(...) or {}
    if not new then
      for i, p in ipairs(params) do fields[p.name] = (select(i, ...)) end
    end
    if keeps_args and of.describe == object.described then constructor_args[fields] = {...} end
    return object.new(of, fields, init)
  end)
  params = core.parameters(of)
  for _, p in ipairs(params) do of.__optional[p.name] = true end
  rawset(of, 'describe', of.describe or object.described)
  return of.__signature
end

--- Name(option=value, ..), without the fields of the set `hidden`.
function object.described(self, hidden)
  local of, args = getmetatable(self), constructor_args[self]
  return ('%s(%s)'):format(of.__name, shown.options(core.parameters(of.__signature), function(i, p)
    if args then return args[i] end
    if not (hidden and hidden[p.name]) then return rawget(self, p.name) end
  end))
end

return object
