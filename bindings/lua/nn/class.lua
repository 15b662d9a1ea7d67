-- class.lua -- classes of modules: registration of parameters, buffers and modules as fields, and construction
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

local class = {}

-- The role of a tensor in modules: 'parameter' or 'buffer'. Weak, so that it does not keep tensors alive.
local registry = setmetatable({}, {__mode = 'k'})
class.registry = registry

local function registered(tensor, kind)
  local t = tensor:detach()
  registry[t] = kind
  return t
end

class.Parameter = core.declare('Parameter(tensor: tensor, requires_grad: bool = true)',
  'A tensor that modules register and optimizers change.',
  function(tensor, requires_grad)
    core.check(not requires_grad or tensor:is_floating_point(),
      'Parameter: a tensor of floats is needed, got %s; use x:float(), or {requires_grad=false}', core.describe(tensor))
    return registered(tensor, 'parameter'):requires_grad_(requires_grad)
  end)

-- Non-persistent buffers, which are not in a state_dict.
local transient = setmetatable({}, {__mode = 'k'})
class.transient = transient

class.Buffer = core.declare('Buffer(tensor: tensor, persistent: bool = true)',
  'A tensor that is moved with the module but not trained; persistent: it is saved with the module too.',
  function(tensor, persistent)
    local buffer = registered(tensor, 'buffer')
    transient[buffer] = not persistent or nil
    return buffer
  end)

-- ---- fields ------------------------------------------------------------------------------------

local function is_module(value) return type(value) == 'table' and rawget(value, '__fields') ~= nil end
class.is_module = is_module

--- The text of a value in errors: a module by its class.
function class.describe(value) return is_module(value) and value.__name or core.describe(value) end

function class.check_module(op, value)
  if not is_module(value) then core.fail('%s: a module is needed, got %s', op, core.describe(value)) end
end

--- The value of a field. Parameters and buffers are in __params instead of the module itself, so that assignments call
--- `assign`; in lists of parameters (__lists) they are in the module, so that `#` and ipairs include them.
function class.get(self, key)
  local params, value = rawget(self, '__params'), rawget(self, key)
  if value == nil then return params[key] end
  if self.__class.__lists then
    if not registry[value] and mt.is_tensor(value) then
      value = class.Parameter(value)
      rawset(self, key, value)
    end
    return value
  end
  if not registry[value] then return value end
  params[key] = value -- it replaces a plain value
  rawset(self, key, nil)
  return value
end

--- The kind of a value for modules: 'module', 'parameter' or 'buffer'; nil for a plain value.
function class.kind(value) return is_module(value) and 'module' or value ~= nil and registry[value] or nil end

local function next_field(self, i)
  local keys = rawget(self, '__fields')
  for k = i + 1, #keys do
    local value = class.get(self, keys[k])
    if value ~= nil then return k, keys[k], value, class.kind(value) end
  end
end

--- Registers the entries of a list that table.insert added, which assigns without `assign`. Raises an error for an
--- entry of another kind and for a gap, which such assignments may leave too.
function class.check_entries(self)
  local fields, seen = rawget(self, '__fields'), rawget(self, '__seen')
  for i = 1, #self do
    if not seen[i] then fields[#fields + 1], seen[i] = i, true end
  end
  for _, key in ipairs(fields) do
    local value = type(key) == 'number' and rawget(self, key) or nil
    if value ~= nil then self.__class.__entry(self, value, key) end
    if value ~= nil and key > 1 and rawget(self, key - 1) == nil then
      core.fail('%s: entry %d is nil, but entry %d exists; pop(%d) removes an entry', self.__name, key - 1, key,
        key - 1)
    end
  end
end

--- An iterator over the existing fields of a module: for _, key, value, kind in class.fields(self) do. `unchecked`:
--- does not check lists, as for printing.
function class.fields(self, unchecked)
  if self.__class.__entry and not unchecked then class.check_entries(self) end
  return next_field, self, 0
end

--- PyTorch's name of a field: children of a Sequential count from 0.
function class.field_name(key) return type(key) == 'number' and tostring(key - 1) or key end

--- Replaces the tensor of a field by another one, which is not registered.
function class.set_raw(self, key, value)
  if self.__class.__lists then rawset(self, key, value) else rawget(self, '__params')[key] = value end
end

--- fn(..) while the tensors at places, {owner, key}, are those that tensor_at(place) returns.
function class.with_tensors(places, tensor_at, fn, ...)
  local before = {}
  for i, place in ipairs(places) do
    before[i] = class.get(place[1], place[2])
    class.set_raw(place[1], place[2], tensor_at(place))
  end
  return util.finally(function()
    for i, place in ipairs(places) do class.set_raw(place[1], place[2], before[i]) end
  end, fn, ...)
end

--- The metatable of __params with computed fields: those for which params.__computed has a module, at every access.
class.computed = {__index = function(params, key)
  local of = rawget(params, '__computed')
  local computed = of and rawget(of, key)
  return computed and computed:forward()
end}

--- The parameters that are fields of a module; for a computed one its original of the same shape.
function class.own_parameters(self)
  local list, params = {}, rawget(self, '__params')
  for _, _, p, kind in class.fields(self) do
    if kind == 'parameter' then list[#list + 1] = p end
  end
  local computed = params and rawget(params, '__computed')
  if not computed then return list end
  for _, _, of in class.fields(computed) do
    local originals = rawget(of, '__params')
    list[#list + 1] = originals.original or originals.original1
  end
  return list
end

--- Raises an error if a value may not replace a parameter or buffer; returns whether a plain tensor becomes a buffer.
local function replaces(self, key, old, value)
  if value == nil or registry[value] or is_module(value) then return false end
  core.check(registry[old] ~= 'parameter', '%s.%s is a parameter: assign nn.Parameter(..) (or nil, which removes ' ..
    'it), or write into it with mt.no_grad and copy_; got %s', self.__name, tostring(key), core.describe(value))
  core.check(mt.is_tensor(value), '%s.%s is a buffer: assign a tensor (or nil, which removes it), got %s', self.__name,
    tostring(key), core.describe(value))
  return true
end

--- The error for modules or parameters that parameters() and state_dict() would not find.
function class.refuse_plain(self, key, kind)
  local list = kind == 'module' and 'Module' or 'Parameter'
  core.fail('%s.%s: a plain table of %ss is not registered; use nn.%sList{..} or nn.%sDict{..}', self.__name,
    tostring(key), kind, list, list)
end

--- The position of list[key] in a module that is a list; negative ones count from the end. Raises
--- an error for impossible positions, and for assignments (`set`) of other entries and those that would leave a gap.
local function place_of(self, key, set, value)
  local n = #self
  local at = key < 0 and n + 1 + key or key
  if key == 0 then core.fail('%s: 0 is not a position; positions count from 1, and from -1 at the end', self.__name) end
  if value ~= nil and (at < 1 or at > n + 1 or at % 1 ~= 0) then
    core.fail('%s: position %s is outside 1..%d; append(..) adds at the end', self.__name, tostring(key), n)
  end
  if value ~= nil then self.__class.__entry(self, value, at) end
  if set and value == nil and at < n then
    core.fail('%s: nil at position %d of %d would leave a gap; pop(%d) removes an entry', self.__name, at, n, at)
  end
  return at
end

local function letters(name)
  local list = {name:byte(1, -1)}
  table.sort(list)
  return table.concat(list, ' ')
end

--- Hints at a new field for a tensor whose name has the letters of a parameter in another order: net.wieght.
local function look_for_misspelling(self, key)
  if type(key) ~= 'string' or #key < 5 then return end
  for _, other in ipairs(rawget(self, '__fields')) do
    if type(other) == 'string' and #other == #key and letters(other) == letters(key) and mt.is_tensor(self[other]) then
      core.hint(("%s had no '%s' so far; did you mean '%s'?"):format(self.__name, key, other))
    end
  end
end

--- Raises an error for a name that cannot be registered. Assigned modules may have the names of other methods than
--- forward, since those of the library do not rely on their names.
function class.check_name(self, op, name, is_assigned_module)
  core.check(name ~= '' and not name:find('.', 1, true),
    "%s: '%s' is not a field name; it must have characters and no '.'", op, name)
  if name:find('^__') or class.Module[name] ~= nil and not (is_assigned_module and name ~= 'forward') then
    core.fail("%s: '%s' is a name of %s's own", op, name, self.__name)
  end
end

--- Fields keep the order of their first assignment; the kind of each is determined when it is read.
local function assign(self, key, value)
  if type(key) == 'number' and self.__class.__entry then
    local at = place_of(self, key, true, value)
    if at ~= key and rawget(self, at) ~= nil then return rawset(self, at, value) end
    key = at
  end
  if type(value) == 'table' and not is_module(value) and is_module(rawget(value, 1)) then
    class.refuse_plain(self, key, 'module')
  end
  local fields, params, seen = rawget(self, '__fields'), rawget(self, '__params'), rawget(self, '__seen')
  if rawget(params, '__computed') and rawget(params.__computed, key) then
    core.fail('%s.%s is computed from parametrizations.%s: change its originals, or ' ..
      'nn.remove_parametrizations(net, %q)',
      self.__name, key, key, key)
  end
  if params[key] ~= nil and replaces(self, key, params[key], value) then
    registry[value], transient[value] = 'buffer', transient[params[key]]
  elseif type(seen[key]) == 'string' and mt.is_tensor(value) and not registry[value] then -- register_buffer(key, nil)
    registry[value], transient[value] = 'buffer', seen[key] == 'transient' or nil
  end
  local is_registered = value ~= nil and registry[value]
  if type(key) == 'string' and (is_registered or is_module(value)) then
    class.check_name(self, self.__name, key, not is_registered)
  end
  if not seen[key] then
    if mt.is_tensor(value) then look_for_misspelling(self, key) end
    fields[#fields + 1], seen[key] = key, true
  end
  if self.__class.__lists and mt.is_tensor(value) then
    return rawset(self, key, registry[value] and value or class.Parameter(value))
  end
  params[key] = is_registered and value or nil
  if not is_registered then rawset(self, key, value) end
end

-- The last missing field that was read. It is nil, so that `if self.bias then` and `self.h or
-- zeros` work, but if Lua then raises an error for that nil, the message lists the module's fields.
local last_missing = setmetatable({}, {__mode = 'v'})

--- " (Net has no 'wieght'; did you mean 'weight'?)", or nothing.
function core.missing_field(key)
  local self = last_missing.module
  if not self or last_missing.key ~= key then return nil end
  local names = object.names(self.__class, '^__', rawget(self, '__seen'))
  local advice = core.advice('module', key, names):gsub('^ %((.*)%)$', '; %1')
  return (" (%s has no '%s'%s)"):format(self.__name, key, advice)
end

--- Raises an error for an input with another dtype than the weights.
function class.check_dtype(self, x, weight)
  if mt.is_tensor(x) and x.dtype ~= weight.dtype and not mt.is_autocast_enabled() then
    core.fail("%s: the input is %s, its weights %s; use x:to('%s')%s", self.__name, x.dtype, weight.dtype, weight.dtype,
      x:is_floating_point() and (", or net:to('%s')"):format(x.dtype) or '')
  end
end

-- ---- construction and calls --------------------------------------------------------------------

local function results(...) return ... end

--- `net(...)`. The call of forward is not a tail call, so that errors can name the module.
local function call(self, ...) -- forward of the object, or of its class: without __index
  return results((rawget(self, 'forward') or self.__class.forward)(self, ...))
end
core.call_module = call -- for core/position.lua

local function construct(of, ...)
  local self = setmetatable({__fields = {}, __params = {}, __seen = {}, __class = of, training = true}, of)
  of.__init(self, ...)
  return self
end

--- The error for nn.MSELoss(x, y) with a call's tensors: a tensor among the arguments that is not an option.
local function check_options(of, ...)
  for i = 1, select('#', ...) do
    local value, params = select(i, ...), nil
    if mt.is_tensor(value) then params = core.parameters(of) end
    local option = params and params[i]
    local fits = option and (not option.type or option.type == 'any' or option.type:find 'tensor')
    if params and not params.open and not fits then
      core.fail('%s: argument %d is %s; nn.%s(..) makes a module of options, nn.%s(..)(x, ..) calls it', of.__name, i,
        core.describe(value), of.__name, of.__name)
    end
  end
end

--- Adds the constructor `init(self, ..)` to a class: arguments are checked by the signature.
function class.constructor(of, signature, doc, init)
  of.__signature = core.binder(signature, doc)
  of.__init = function(self, ...)
    check_options(of, ...)
    return init(self, of.__signature(...))
  end
end

--- The same with options as arguments: they become fields, except those in the set `apart` and those that begin with _;
--- then init(self, options) is called. placed: its last options are the device and dtype of its tensors, as in PyTorch.
function class.options_constructor(of, signature, doc, apart, placed, init)
  if placed then signature = signature:gsub('%)$', ', device: device = nil, dtype: dtype = nil)') end
  local params, n
  class.constructor(of, signature, doc, function(self, ...)
    local o = {}
    for i, p in ipairs(params) do
      local value = (select(i, ...))
      o[p.name] = value
      if i <= n and not apart[p.name] and not p.name:find '^_' then
        self[p.name] = mt.is_tensor(value) and class.Buffer(value) or value
      end
    end
    init(self, o)
    core.check(not placed or not o.dtype or o.dtype:find 'float',
      "%s: dtype must be one of floats, 'float32', 'float64', 'float16' or 'bfloat16', got '%s'", of.__name, o.dtype)
    if placed and (o.device or o.dtype) then class.Module.to(self, {device = o.device, dtype = o.dtype}) end
  end)
  params = core.parameters(of)
  of.__layer, n = placed, placed and #params - 2 or #params
end

--- The error for a forward that is called without a module.
function class.check_self(self)
  if not is_module(self) then core.fail('forward: it is called with a colon, net:forward(x), or as net(x)') end
end

--- The error for a forward that receives `more` than its inputs, or is called without a module.
function class.refuse_inputs(self, inputs, more, first)
  class.check_self(self)
  if more == nil and first == nil then core.fail('%s: the input is nil', self.__name) end
  if more ~= nil then
    core.fail('%s: too many arguments given, it is called with %d%s', self.__name, inputs, core.hint_of_surplus(more))
  end
end

local function text(self) return class.Module.describe(self) end

local function make_class(name, base)
  local of, method
  local function get(self, key)
    if key == '__params' then return nil end -- a table that is not a module
    local value = self.__params[key]
    if value == nil then value = of[key] end
    if value == nil and type(key) == 'number' and key <= 0 and of.__entry then
      return rawget(self, place_of(self, key))
    end
    if value == nil then last_missing.module, last_missing.key = self, key end
    return value
  end
  of, method = object.class{name = name, called = 'net', base = base, is_own = is_module, get = get, set = assign,
    call = call, construct = construct}
  of.__tostring = text
  return of, method
end

-- class.method(signature, doc, body) adds a method to all modules.
class.Module, class.method = make_class 'Module'
class.constructor(class.Module, 'Module(..)', 'The base of all modules; see nn.class.', function(self, ...)
  local of = self.__class
  if of.__init ~= class.Module.__init then return end -- called by the constructor of the class
  local other = of.__init__ and '__init__' or of._init and '_init'
  core.check(not other and select('#', ...) == 0, '%s: the class has no __init%s; define function %s:__init(..)',
    of.__name, other and ', its ' .. other .. ' is not called' or ' that takes arguments', of.__name)
end)

class.class = core.declare('class(name: string, base=nil)',
  'A class of modules: define __init and forward, then call it.',
  function(name, base)
    if base ~= nil and (type(base) ~= 'table' or rawget(base, '__family') ~= class.Module) then
      core.fail('class: the base must be a class of modules, got ' ..
        (is_module(base) and 'a module of the class ' .. base.__name or core.describe(base)))
    end
    return (make_class(name, base or class.Module))
  end)

class.is = core.declare('is(m: any, class: table|string)', 'Whether m is a module of a class, nn.Linear, or of ' ..
  "one derived from it; the class may be a name, 'Linear'. Other values than modules are of none.",
  function(m, wanted)
    if type(wanted) == 'table' and (rawget(wanted, '__family') ~= class.Module or is_module(wanted)) then
      core.fail('is: a class of modules is needed, nn.Linear, got %s', class.describe(wanted))
    end
    local of = is_module(m) and m.__class or nil
    while of and of ~= wanted and of.__name ~= wanted do of = getmetatable(of).__index end
    return of ~= nil
  end)
class.method('is(class: table|string)',
  'Whether the module is of a class, net:is(nn.Linear), or of one derived from it.', class.is)

return class
