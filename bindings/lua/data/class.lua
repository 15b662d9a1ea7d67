-- class.lua -- classes of mt.data: sets, samplers, loaders, transforms; and the requirements for any set or sampler
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

--- Whether a value is an object with such a method.
local function has(value, name)
  return (type(value) == 'table' or object.unwrap(value) ~= nil) and core.is_callable(value[name])
end
--- Whether a value is a set, and whether it is a sampler or loader.
local function is_set(value) return has(value, 'size') and has(value, 'get') end
local function has_iter(value) return has(value, 'iter') end

-- ---- classes -------------------------------------------------------------------------------------------

-- The names that loaders read from any set or sampler; nil if a class lacks them.
local duck_methods = util.word_set('size get get_batch __batches_of iter order repeats generator fixed describe ' ..
  'transform target_transform tolist state_dict load_state_dict running resumed current team served indices dataset')

-- A method may be called with an object of a user's class.
local function is_own(self) return type(self) == 'table' and getmetatable(self) ~= nil end

--- A single argument that is a set is not parsed as options, even if it is a plain table.
local function construct(of, ...)
  local is_alone = select('#', ...) == 1 and is_set(...)
  local self = is_alone and of.__signature((...), {}) or of.__signature(...)
  return of.__has_proxy and object.proxy(of, self) or self
end

--- A class of transforms: new(..) returns the fields of an object; without new the arguments become the fields, and
--- init(self) checks them.
local function transform(signature, doc, new, called, init)
  local of, method = object.class{name = signature:match '^%w+', called = called or 'set', is_own = is_own,
    define = true, open = true, keeps_args = true, optional = setmetatable({}, {__index = duck_methods}),
    construct = construct}
  object.constructor(of, signature, doc, init, new)
  return of, method
end

--- The same for sets, samplers and others with positions: # of an object is its size, and ipairs and calls are errors.
--- `called` is the name of an object in errors, default 'set'.
local function class(...)
  local of, method = transform(...)
  of.__has_proxy = true
  function of.__call()
    if of.iter then core.fail('%s: an iterator is needed, use %s:iter()', of.__name, of.__called) end
    if of.token then core.fail('%s: for id = 1, tok:size() do .. tok:token(id) .. end', of.__name) end
    core.fail('%s: for i = 1, set:size() do .. set:get(i) .. end, or for .. in mt.data.DataLoader(set):iter() do',
      of.__name)
  end
  return of, method
end

local function check_set(op, value, what)
  if is_set(value) then return value end
  core.fail('%s: %s must be a set, an object with size() and get(i)%s; got %s', op, what or 'set',
    mt.is_tensor(value) and ', mt.data.TensorDataset(x, y) makes one of tensors' or '', core.describe(value))
end

--- The number of examples of a set, or of positions of a sampler, from its size().
local function size_of(set)
  local n = set:size()
  core.check(util.is_whole(n, 0, 2 ^ 53), 'size() returned %s, a whole number from 0 is needed', core.describe(n))
  return n
end

--- Whether a set's get_batch can replace its get: it is the user's own; or there are no transforms of single
--- examples, get is that of the class with this property, and, for a part of a set, the whole set has batches.
local function has_batches(set)
  if not core.is_callable(set.get_batch) then return false end
  if set.__batches_of == nil then return true end
  if set.__batches_of ~= set.get or set.transform or set.target_transform then return false end
  return set.dataset == nil or has_batches(set.dataset)
end

local function check_transforms(op, transform, target_transform)
  for name, fn in pairs{transform = transform, target_transform = target_transform} do
    if not core.is_callable(fn) then core.fail('%s: %s must be a function, got %s', op, name, core.describe(fn)) end
  end
end

--- x, y, .. of an example, with set.transform applied to the first and set.target_transform to the second.
local function transformed(set, x, ...)
  if set.transform then x = set.transform(x) end
  if not set.target_transform then return x, ... end
  if select('#', ...) == 0 then core.fail('get: target_transform changes the second tensor, there is one') end
  return x, set.target_transform((...)), select(2, ...)
end

return {class = class, transform = transform, size_of = size_of, check_transforms = check_transforms,
  transformed = transformed, has_batches = has_batches, has_iter = has_iter, check_set = check_set, is_set = is_set}
