-- methods.lua -- what every module can do: its parameters, training, other dtypes and devices, copies
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
local Module, role, field, is_module = class.Module, class.role, class.field, class.is_module

function Module:forward(...)
  core.fail('%s has no forward: define function %s:forward(x)', self.__name, self.__name)
end

--- PyTorch's name of a field: children of a Sequential count from 0.
function class.field_name(key) return type(key) == 'number' and tostring(key - 1) or key end

--- Calls visit(name, value, owner, key) for every parameter, buffer and module, depth first, each
--- once.
local function walk(self, visit, prefix, seen)
  prefix, seen = prefix or '', seen or {[self] = true}
  for _, key in ipairs(rawget(self, '__fields')) do
    local value = field(self, key)
    if value ~= nil and not seen[value] and (is_module(value) or role[value]) then
      seen[value] = true
      local name = prefix .. class.field_name(key)
      visit(name, value, self, key)
      if is_module(value) then walk(value, visit, name .. '.', seen) end
    end
  end
end

local function collect(self, wanted)
  local list, names = {}, {}
  walk(self, function(name, value)
    if (is_module(value) and 'module' or role[value]) == wanted then
      list[#list + 1], names[#names + 1] = value, name
    end
  end)
  return list, names
end

local function named(list, names)
  local i = 0
  return function()
    i = i + 1
    return names[i], list[i]
  end
end

--- All parameters, as a list.
function Module:parameters() return (collect(self, 'parameter')) end
--- Iterates name, parameter.
function Module:named_parameters() return named(collect(self, 'parameter')) end
--- Iterates name, buffer.
function Module:named_buffers() return named(collect(self, 'buffer')) end
--- Iterates name, module, without the module itself.
function Module:named_modules() return named(collect(self, 'module')) end
--- All buffers, as a list.
function Module:buffers() return (collect(self, 'buffer')) end
--- The module itself and all modules inside, as a list.
function Module:modules()
  local list = collect(self, 'module')
  table.insert(list, 1, self)
  return list
end
--- The modules that are direct fields, as a list.
function Module:children()
  local list, seen = {}, {}
  for _, key in ipairs(rawget(self, '__fields')) do
    local value = field(self, key)
    if is_module(value) and not seen[value] then list[#list + 1], seen[value] = value, true end
  end
  return list
end

--- Calls fn for every module inside, then for this one; returns self.
function Module:apply(fn)
  if not core.is_callable(fn) then
    core.fail('apply: a function of a module is needed, got ' .. core.describe(fn))
  end
  for _, child in ipairs(self:children()) do child:apply(fn) end
  fn(self)
  return self
end

function class.check_boolean(where, value)
  if type(value) ~= 'boolean' then
    core.fail('%s must be true or false, got %s', where, core.describe(value))
  end
  return value
end

--- Switches to training (or not); returns self.
function Module:train(mode)
  if mode == nil then mode = true end
  class.check_boolean('train: the mode', mode)
  for _, module in ipairs(self:modules()) do rawset(module, 'training', mode) end
  return self
end
function Module:eval() return self:train(false) end

--- Freezes (false) or frees all parameters; returns self.
function Module:requires_grad_(on)
  if on == nil then on = true end
  class.check_boolean('requires_grad_: the argument', on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on) end
  return self
end

--- Drops all gradients.
function Module:zero_grad() core.zero_grad(self:parameters()) end

--- The same data elsewhere or of another dtype; the gradient goes with it.
local function convert(value, ...)
  local data, gradient = value:detach():to(...), value.grad
  if data.dtype == value.dtype and data.device == value.device then return end
  core.set_data(value, data)
  value.grad = gradient and gradient:to(...) or nil
end

--- Another dtype or device, for all parameters and buffers in place; returns self. Only the device
--- is for tensors of integers and booleans too.
function Module:to(...)
  local dtype = mt.empty({0}, 'float32'):to(...).dtype
  local asked = dtype == mt.empty({0}, 'float64'):to(...).dtype
  if asked and not dtype:find('float') then
    core.fail("to: parameters need a float dtype ('float32', 'float64', 'float16', 'bfloat16'), got '%s'", dtype)
  end
  local given, n = {...}, select('#', ...)
  walk(self, function(_, value, owner, key)
    if not role[value] then return end
    if not value.is_leaf then -- a buffer that was computed; its data cannot be replaced
      value = class.Buffer(value)
      owner.__held[key] = value
    end
    if not asked or value.dtype:find('float') then return convert(value, unpack(given, 1, n)) end
    local on = mt.empty({0}, {dtype = 'float32', device = value.device}):to(unpack(given, 1, n)).device
    convert(value, on)
  end)
  return self
end

function Module:float() return self:to('float32') end
function Module:double() return self:to('float64') end
function Module:half() return self:to('float16') end
function Module:bfloat16() return self:to('bfloat16') end
function Module:cpu() return self:to('cpu') end
function Module:cuda() return self:to('cuda') end

--- A copy of a value inside a module; `made` holds the copies so far, so that what was shared stays
--- shared.
local function copied(value, made)
  if made[value] ~= nil then return made[value] end
  local copy = value
  if mt.is_tensor(value) then
    copy = value:detach():clone()
    if value.is_leaf and value.requires_grad then copy:requires_grad_() end
    role[copy] = role[value]
    made[value] = copy
  elseif type(value) == 'table' and (is_module(value) or not getmetatable(value)) then
    copy = setmetatable({}, getmetatable(value))
    made[value] = copy
    for key, inner in pairs(value) do rawset(copy, key, copied(inner, made)) end
  end
  return copy
end

--- A copy with tensors, modules and lists of its own, as Python's deepcopy: what is shared inside is
--- shared inside the copy, what is frozen stays frozen.
function Module:clone() return copied(self, {}) end
