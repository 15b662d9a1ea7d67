-- methods.lua -- methods of all modules: parameters, training, other dtypes and devices, copies
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local row_gradients = require 'mtorch.core.row_gradients'
local class = require 'mtorch.nn.class'
local method, registry, is_module = class.method, class.registry, class.is_module

local function is_plain(value) return type(value) == 'table' and getmetatable(value) == nil end

--- Raises an error for a module or parameter inside a plain table, {owner, key, table}, that no field registers.
local function check_plain(plain, seen, inside)
  for _, at in ipairs(plain) do
    for _, value in next, at[3] do
      local kind = class.kind(value)
      if (kind == 'module' or kind == 'parameter') and not seen[value] then class.refuse_plain(at[1], at[2], kind) end
      if not inside and is_plain(value) then check_plain({{at[1], at[2], value}}, seen, true) end
    end
  end
end

local function visit_inside(module, prefix, visit, met, above, plain)
  for _, key, value, kind in class.fields(module) do
    if kind and not (above or met)[value] then
      met[value] = true
      local name = prefix .. class.field_name(key)
      visit(name, value, kind, module, key)
      if kind == 'module' then
        if above then above[value] = true end
        visit_inside(value, name .. '.', visit, met, above, plain)
        if above then above[value] = nil end
      end
    elseif not kind and is_plain(value) then
      plain[#plain + 1] = {module, key, value}
    end
  end
end

--- Calls visit(name, value, kind, owner, key) for every parameter, buffer and module, depth first,
--- each once, or with `all` under each of its names.
local function walk(self, visit, all)
  local met, plain = {[self] = true}, {}
  visit_inside(self, '', visit, met, all and {[self] = true}, plain)
  check_plain(plain, met)
end
class.walk = walk

local function collect(self, wanted)
  local list, names = {}, {}
  walk(self, function(name, value, kind)
    if kind == wanted then list[#list + 1], names[#names + 1] = value, name end
  end)
  return list, names
end

local function iterate_named(list, names) return util.values(names, list) end

method('parameters()',
  'A list of all parameters of the module and of those inside, each once, for an optimizer.',
  function(self) return (collect(self, 'parameter')) end)
method('named_parameters()',
  "An iterator: for name, p in net:named_parameters() do. Names are PyTorch's, '0.weight'.",
  function(self) return iterate_named(collect(self, 'parameter')) end)
method('buffers()', 'All buffers, as a list.', function(self) return (collect(self, 'buffer')) end)
method('named_buffers()', 'An iterator over names and buffers.',
  function(self) return iterate_named(collect(self, 'buffer')) end)
--- The modules that are direct fields, each once, and their names.
local function children(self)
  local list, names, seen = {}, {}, {}
  for _, key, value, kind in class.fields(self) do
    if kind == 'module' and not seen[value] then
      list[#list + 1], names[#names + 1], seen[value] = value, class.field_name(key), true
    end
  end
  return list, names
end
method('children()', 'The modules that are direct fields, as a list.', function(self) return (children(self)) end)
method('named_children()', 'An iterator over names and the modules that are direct fields.',
  function(self) return iterate_named(children(self)) end)
local function modules(self)
  local list, names = collect(self, 'module')
  table.insert(list, 1, self)
  table.insert(names, 1, '')
  return list, names
end
method('modules()', 'The module itself and all inside, as a list.', function(self) return (modules(self)) end)
method('named_modules()', "An iterator over names and modules, first '' and the module itself.",
  function(self) return iterate_named(modules(self)) end)
method('apply(fn: function)', 'Calls fn(module) for every module inside, then for this one; returns it.',
  function(self, fn)
    for _, child in ipairs((children(self))) do child:apply(fn) end
    fn(self)
    return self
  end)
method('train(mode: bool = true)',
  'Sets training mode (net.training), which dropout and normalisations use; returns the module.',
  function(self, mode)
    for _, module in ipairs(class.Module.modules(self)) do rawset(module, 'training', mode) end
    return self
  end)
method('eval()', 'The same as train(false).', function(self) return self:train(false) end)
--- fn() while a module is in evaluation mode.
function class.in_eval(net, fn)
  local training = {}
  for _, module in ipairs(net:modules()) do training[module] = module.training end
  net:eval()
  return util.finally(function()
    for module, mode in pairs(training) do rawset(module, 'training', mode) end
  end, fn)
end
method('requires_grad_(on: bool = true)',
  'Whether the parameters have gradients: false freezes them; returns it.',
  function(self, on)
    for _, p in ipairs((collect(self, 'parameter'))) do p:requires_grad_(on) end
    return self
  end)
method('zero_grad()',
  'Drops the gradients of all parameters; otherwise the next backward adds to them.',
  function(self)
    local list = collect(self, 'parameter')
    core.zero_grad(list)
    row_gradients.drop(list)
  end)

--- Moves the data to another dtype or device, with the gradient.
local function convert(value, ...)
  local data, gradient = value:detach():to(...), value.grad
  if data.dtype == value.dtype and data.device == value.device then return end
  core.set_data(value, data)
  value.grad = gradient and gradient:to(...) or nil
end

--- Tensors of integers and booleans change only their device.
method('to(target, ..)', "Parameters and buffers to another dtype or device, in place, net:to('cuda'); returns it. " ..
  'float double half bfloat16 cpu cuda are short for it.',
  function(self, ...)
    local dtype = mt.empty({0}, 'float32'):to(...).dtype
    local asked = dtype == mt.empty({0}, 'float64'):to(...).dtype
    core.check(not asked or dtype:find('float'),
      "to: parameters need a float dtype ('float32', 'float64', 'float16', 'bfloat16'), got '%s'", dtype)
    local given, n = {...}, select('#', ...)
    walk(self, function(_, value, kind, owner, key)
      if kind == 'module' then return end
      if not value.is_leaf then -- a computed buffer; its data cannot be replaced
        value = class.Buffer(value, not class.transient[value])
        owner.__params[key] = value
      end
      if not asked or value:is_floating_point() then return convert(value, unpack(given, 1, n)) end
      local on = mt.empty({0}, {dtype = 'float32', device = value.device}):to(unpack(given, 1, n)).device
      convert(value, on)
    end)
    return self
  end)
for _, short in ipairs{{'float', 'float32'}, {'double', 'float64'}, {'half', 'float16'}, {'bfloat16', 'bfloat16'},
    {'cpu', 'cpu'}, {'cuda', 'cuda'}} do
  local name, target = unpack(short)
  method(name .. '()', ("The same as to('%s')."):format(target), function(self) return self:to(target) end)
end

--- A copy of a value inside a module; `made` has the copies so far, so that shared values stay shared.
local function copied(value, made)
  if made[value] ~= nil then return made[value] end
  local copy = value
  if mt.is_tensor(value) then
    copy = value:detach():clone()
    if value.is_leaf and value.requires_grad then copy:requires_grad_() end
    registry[copy], class.transient[copy] = registry[value], class.transient[value]
    made[value] = copy
  elseif type(value) == 'table' and (is_module(value) or not getmetatable(value) or
      getmetatable(value) == class.computed) then
    copy = setmetatable({}, getmetatable(value))
    made[value] = copy
    for key, inner in pairs(value) do rawset(copy, key, copied(inner, made)) end
  end
  return copy
end
class.copied = copied

method('clone()', 'A copy with new parameters; shared values inside remain shared.',
  function(self) return copied(self, {}) end)
