-- class.lua -- classes of mt.data: sets, samplers, loaders, transforms
local core = require 'mtorch.core'
local mt = require 'mtorch'
local shown_as = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local getfenv = debug.getfenv

-- Lua asks a table itself for # and ipairs. What a user holds of a loader or set is a proxy userdata of the table of
-- its fields: # is its size, ipairs an error.

--- The fields of an object behind its proxy; nil for what has none.
local function unwrap(value)
  local meta = type(value) == 'userdata' and getmetatable(value)
  return type(meta) == 'table' and meta.__proxy and getfenv(value) or nil
end

local function proxy(of, fields)
  if not of.__proxy then
    local first = newproxy(true)
    local meta = getmetatable(first)
    meta.__proxy, meta.__name, meta.__call = first, of.__name, of.__call
    function meta:__index(key) return getfenv(self)[key] end
    function meta:__newindex(key, value) getfenv(self)[key] = value end
    function meta:__len() return self:size() end
    function meta:__tostring() return tostring(getfenv(self)) end
    of.__proxy = first
  end
  return debug.setfenv(newproxy(of.__proxy), fields)
end

--- Whether a value is a set: an object with size() and get(i).
local function is_set(value)
  return (type(value) == 'table' or unwrap(value) ~= nil) and core.is_callable(value.size) and
    core.is_callable(value.get)
end

--- Whether a value is a sampler or loader: an object with iter().
local function has_iter(value)
  return (type(value) == 'table' or unwrap(value) ~= nil) and core.is_callable(value.iter)
end

-- Methods of classes that `define` made.
local checked = setmetatable({}, {__mode = 'k'})

--- of[name] = value; a method refuses a call with a dot, by an object that errors call of.__shown.
local function define(of, name, value)
  local method = value
  if type(value) == 'function' and not checked[value] and not name:find '^__' then
    function method(self, ...)
      if type(self) == 'userdata' then self = unwrap(self) end
      if type(self) ~= 'table' or getmetatable(self) == nil then
        core.fail('%s: methods are called with a colon, %s:%s(..)', name, of.__shown, name)
      end
      return value(self, ...)
    end
    checked[method] = true
  end
  rawset(of, name, method)
end

-- What any set, sampler or loader may have (duck typing).
local duck_methods = util.word_set('size get get_batch batches_of iter order repeats generator fixed describe ' ..
  'transform target_transform tolist state_dict load_state_dict running resumed current team served indices dataset')

-- What objects of transforms and other plain classes were made of, for print.
local constructor_args = setmetatable({}, {__mode = 'k'})

--- Name(option=value, ..) of an object.
local function described(of, self)
  local list = constructor_args[self]
  if not list then return of.__name end
  return ('%s(%s)'):format(of.__name, shown_as.options(core.parameters(of.__signature), function(i) return list[i] end))
end

--- A class whose objects new(..) returns as tables of fields, behind a proxy where `iterated` has said so. Its fields
--- are the objects' methods. A set that is a plain table is not taken for options where it is the only argument. Errors
--- call an object `shown`, or set.
local function class(signature, doc, new, shown)
  local of = {__name = signature:match('^%w+'), __shown = shown or 'set'}
  local optional = setmetatable({}, {__index = duck_methods})
  of.__index = core.members(of, of.__name, of.__shown, optional)
  of.__tostring = function(self) return self.describe and self:describe() or described(of, self) end
  of.__signature = core.declare(signature, doc, function(...)
    local self = new(...)
    if not of.describe then constructor_args[self] = {...} end
    return self
  end)
  for _, p in ipairs(core.parameters(of.__signature)) do optional[p.name] = true end
  return setmetatable(of, {
    __call = function(_, ...)
      local alone = select('#', ...) == 1 and is_set(...)
      local self = setmetatable(alone and of.__signature((...), {}) or of.__signature(...), of)
      return of.__proxied and proxy(of, self) or self
    end,
    __newindex = define,
    __tostring = function() return of.__name end,
  })
end

--- What `for x in object do` says; # of such objects is their size, ipairs an error.
local function iterated(of)
  of.__proxied = true
  function of.__call()
    if of.iter then core.fail('%s: an iterator is needed, use %s:iter()', of.__name, of.__shown) end
    if of.token then core.fail('%s: for id = 1, tok:size() do .. tok:token(id) .. end', of.__name) end
    core.fail('%s: for i = 1, set:size() do .. set:get(i) .. end, or for .. in mt.data.DataLoader(set):iter() do',
      of.__name)
  end
end

--- Refuses what is not a set.
local function check_set(op, value, what)
  if is_set(value) then return value end
  core.fail('%s: %s must be a set, an object with size() and get(i)%s; got %s', op, what or 'set',
    mt.is_tensor(value) and ', mt.data.TensorDataset(x, y) makes one of tensors' or '', core.describe(value))
end

--- How many examples a set, or positions a sampler, says that it has.
local function size_of(object)
  local n = object:size()
  if type(n) ~= 'number' or n % 1 ~= 0 or n < 0 or n > 2 ^ 53 then
    core.fail('size() returned %s, a whole number from 0 is needed', core.describe(n))
  end
  return n
end

--- Whether a set's get_batch may stand for its get: it is the user's own; or no transform takes single examples, get
--- is that of the class which says so, and of a part of a set that set has batches.
local function has_batches(set)
  if not core.is_callable(set.get_batch) then return false end
  if set.batches_of == nil then return true end
  if set.batches_of ~= set.get or set.transform or set.target_transform then return false end
  return set.dataset == nil or has_batches(set.dataset)
end

--- The options transform and target_transform of a set, checked.
local function check_transforms(op, transform, target_transform)
  for name, fn in pairs{transform = transform, target_transform = target_transform} do
    if not core.is_callable(fn) then core.fail('%s: %s must be a function, got %s', op, name, core.describe(fn)) end
  end
end

--- x, y, .. of an example, the first through set.transform, the second through set.target_transform.
local function transformed(set, x, ...)
  if set.transform then x = set.transform(x) end
  if not set.target_transform then return x, ... end
  if select('#', ...) == 0 then core.fail('get: target_transform changes the second tensor, there is one') end
  return x, set.target_transform((...)), select(2, ...)
end

return {class = class, proxy = proxy, unwrap = unwrap, duck_methods = duck_methods, define = define,
  iterated = iterated, size_of = size_of, check_transforms = check_transforms, transformed = transformed,
  has_batches = has_batches, has_iter = has_iter, check_set = check_set, is_set = is_set}
