-- object.lua -- classes of the library's objects: methods that check their arguments and have help, known fields
local core = require 'mtorch.core'
local shown = require 'mtorch.core.shown'

local object = {}

local function results(...) return ... end

--- body(self, ..) as a method, its name, and {signature, help} as help shows it. It refuses what is_own(self) does not
--- hold of (a call with a dot; `called` is the object in that message), more arguments than the signature takes, and
--- what does not fit the types that it states.
function object.method(signature, doc, called, is_own, body)
  local check = core.declare(signature, doc, results)
  local entry, params = core.entry(check), core.parameters(check)
  local name, most = entry:match('^[%w_]+'), params.open and math.huge or #params
  local typed = entry ~= signature
  return function(self, ...)
    if not is_own(self) then core.fail('%s: methods are called with a colon, %s:%s(..)', name, called, name) end
    local n = select('#', ...)
    if n > most then core.fail('%s: %d arguments given, it takes %d', name, n, most) end
    if typed then return body(self, check(...)) end
    return body(self, ...)
  end, name, {entry, doc}
end

--- A class, the metatable of its objects: `of`, if given, with what objects need. `spec` has called: an object in
--- messages, as in 'sched:step(..)'; name: of the class, word: what objects are, 'scheduler' (both `called` if left
--- out); base: a class whose methods are this one's too; optional: the set of fields that may be nil. Also returns
--- method(signature, doc, body), which adds a method; of.__methods are those of the base, {signature, help}.
function object.class(spec, of)
  of = of or {}
  for key, value in pairs(spec.base or {}) do
    if of[key] == nil then of[key] = value end
  end
  local called, family, optional = spec.called or of.__called, of.__family or of, spec.optional or {}
  of.__called, of.__word, of.__name = called, spec.word or of.__word or called, spec.name or called
  of.__optional, of.__family, of.__methods = optional, family, of.__methods or {}
  of.__index = core.members(of, of.__name, of.__word, optional)
  of.__open = {__index = of.__index, __family = family}
  function of.__newindex(self, key, value)
    if not optional[key] then of.__index(self, key) end
    rawset(self, key, value)
  end
  function of.__tostring(self) return of.describe and of.describe(self) or of.__name end

  local function is_own(self)
    local meta = getmetatable(self)
    return meta and meta.__family == family
  end
  return of, function(signature, doc, body)
    local method, name, entry = object.method(signature, doc, called, is_own, body)
    of[name] = method
    if of == family then table.insert(of.__methods, entry) end
  end
end

--- An object with these fields and those that init(self) adds; later others are errors that name the nearest.
function object.new(of, fields, init)
  local self = setmetatable(fields, of.__open)
  if init then init(self) end
  return setmetatable(self, of)
end

--- The function that makes an object of its arguments, which become fields.
function object.constructor(of, signature, doc, init)
  local made = core.declare(signature, doc, function(...)
    local fields = {}
    for i, p in ipairs(of.__params) do fields[p.name] = (select(i, ...)) end
    return object.new(of, fields, init)
  end)
  of.__params = core.parameters(made)
  for _, p in ipairs(of.__params) do of.__optional[p.name] = true end
  of.describe = of.describe or object.described
  return made
end

--- Name(option=value, ..), without the fields of the set `hidden`.
function object.described(self, hidden)
  return ('%s(%s)'):format(self.__name, shown.options(self.__params, function(_, p)
    if not (hidden and hidden[p.name]) then return rawget(self, p.name) end
  end))
end

return object
