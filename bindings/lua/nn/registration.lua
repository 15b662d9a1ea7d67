-- registration.lua -- fields by name: registration, look-up, freezing; hooks before and after forward
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local object = require 'mtorch.core.object'
local class = require 'mtorch.nn.class'
local method, registry, is_module, check_name = class.method, class.registry, class.is_module, class.check_name

-- ---- by name ------------------------------------------------------------------------------------

--- Refuses a name that cannot be a field, and one whose field holds something of another kind.
local function check_free(self, op, name, kind)
  check_name(self, op, name)
  local held = self[name]
  core.check(held == nil or class.kind(held) == kind, '%s: %s.%s exists and is not a %s; take another name, or ' ..
    'assign nil to it first', op, self.__name, name, kind)
end

method('register_buffer(name: string, tensor: tensor = nil, persistent: bool = true)',
  'The same as net.name = nn.Buffer(tensor, persistent): saved (unless persistent=false) and moved, not trained. ' ..
  'nil: no buffer, until a tensor is assigned to the field.',
  function(self, name, tensor, persistent)
    check_free(self, 'register_buffer', name, 'buffer')
    self[name] = tensor and class.Buffer(tensor, persistent)
    if not tensor then rawget(self, '__seen')[name] = persistent and 'buffer' or 'transient' end
  end)
method('register_parameter(name: string, param: tensor = nil)', 'The same as net.name = nn.Parameter(param); ' ..
  'nil: no parameter.',
  function(self, name, param)
    check_free(self, 'register_parameter', name, 'parameter')
    self[name] = param and (registry[param] == 'parameter' and param or class.Parameter(param))
  end)
method('add_module(name: string, module)', 'The same as net.name = module.', function(self, name, module)
  check_free(self, 'add_module', name, 'module')
  class.check_module('add_module', module)
  self[name] = module
end)

--- The value with a name such as '0.weight', of this kind: a module, 'parameter' or 'buffer'.
local function look_up(self, op, kind, name)
  if kind == 'module' and name == '' then return self end
  local known = {}
  class.walk(self, function(inner_name, value, inner_kind)
    if inner_kind == kind then known[inner_name] = value end
  end, true)
  if known[name] then return known[name] end
  core.fail("%s: %s has no %s '%s'%s", op, self.__name, kind, name, core.did_you_mean(util.sorted_keys(known), name))
end
method('get_parameter(name: string)', "The parameter with state_dict's name, '0.weight'.",
  function(self, name) return look_up(self, 'get_parameter', 'parameter', name) end)
method('get_buffer(name: string)', "The buffer with state_dict's name, '1.running_mean'.",
  function(self, name) return look_up(self, 'get_buffer', 'buffer', name) end)
method('get_submodule(name: string)', "The module with state_dict's name, 'encoder.0'; '' is this one.",
  function(self, name) return look_up(self, 'get_submodule', 'module', name) end)

-- ---- freezing -----------------------------------------------------------------------------------

--- Switches requires_grad of the parameters whose names match one of the Lua patterns.
local function switch(self, op, on, patterns)
  for _, pattern in ipairs(patterns) do
    local fits, message = pcall(string.find, '', pattern)
    if not fits then core.fail("%s: '%s' is not a Lua pattern: %s", op, pattern, (message:gsub('^.-: ', ''))) end
  end
  local used, names = {}, {}
  for name, p in class.Module.named_parameters(self) do
    names[#names + 1] = name
    for _, pattern in ipairs(patterns) do
      if name:find(pattern) then
        used[pattern] = true
        p:requires_grad_(on)
      end
    end
  end
  for _, pattern in ipairs(patterns) do
    core.check(used[pattern], "%s: no parameter's name fits '%s'; there are %s%s", op, pattern,
      table.concat(names, ', ', 1, math.min(#names, 8)), #names > 8 and ', ..' or '')
  end
  return self
end
for _, of in ipairs{
  {'freeze', "Turns off the gradients of parameters whose names (state_dict's) match one of the Lua patterns: " ..
    "net:freeze{'^encoder%.', 'bias$'}, or a pattern alone; without patterns all. Returns the module."},
  {'unfreeze', 'The opposite of freeze.'},
} do
  local op, doc = unpack(of)
  method(op .. '([patterns]: string|strings = nil)', doc, function(self, patterns)
    if not patterns then return class.Module.requires_grad_(self, op == 'unfreeze') end
    return switch(self, op, op == 'unfreeze', type(patterns) == 'string' and {patterns} or patterns)
  end)
end

-- ---- hooks --------------------------------------------------------------------------------------

--- One result unchanged, several as a list with n.
local function pack_results(...)
  if select('#', ...) == 1 then return (...) end
  return core.pack(...)
end

--- The values for the result of a hook.
local function unpack_result(value)
  if type(value) == 'table' and not is_module(value) then return unpack(value, 1, value.n or #value) end
  return value
end

--- The forward of a module with hooks, which is stored in the module and overrides its class's. A hook may remove and
--- register hooks: that shows at the next call.
local function hooked(self, ...)
  class.check_self(self)
  local hooks = rawget(self, '__hooks')
  local inputs = core.pack(...)
  for _, hook in ipairs{unpack(hooks.before)} do
    local other = hook.fn(self, inputs)
    if other ~= nil then inputs = core.pack(unpack_result(other)) end
  end
  local output = pack_results((hooks.forward or self.__class.forward)(self, unpack(inputs, 1, inputs.n)))
  for _, hook in ipairs{unpack(hooks.after)} do
    local other = hook.fn(self, inputs, output)
    if other ~= nil then output = other end
  end
  return unpack_result(output)
end

local Hook, hook_method = object.class{called = 'h', name = 'hook'}
function Hook:describe() return ('hook of %s, h:remove() ends it'):format(self.module.__name) end
hook_method('remove()', 'Removes the hook.', function(self)
  local hooks = rawget(self.module, '__hooks')
  for _, list in ipairs(hooks and {hooks.before, hooks.after} or {}) do
    for i = #list, 1, -1 do
      if list[i] == self then table.remove(list, i) end
    end
  end
  if hooks and #hooks.before + #hooks.after == 0 then
    rawset(self.module, 'forward', hooks.forward)
    rawset(self.module, '__hooks', nil)
  end
end)

local function register(self, when, fn)
  if not rawget(self, '__hooks') then
    rawset(self, '__hooks', {before = {}, after = {}, forward = rawget(self, 'forward')})
    rawset(self, 'forward', hooked)
  end
  local list = rawget(self, '__hooks')[when]
  list[#list + 1] = object.new(Hook, {module = self, fn = fn})
  return list[#list]
end
method('register_forward_hook(fn: function)',
  'Calls fn(module, inputs, output) after forward: inputs a list, output the result, or a list of several; its ' ..
  'result, unless nil, replaces output. hook:remove() removes the hook.',
  function(self, fn) return register(self, 'after', fn) end)
method('register_forward_pre_hook(fn: function)',
  'Calls fn(module, inputs) before forward: its result, unless nil, a value or a list, replaces the inputs. ' ..
  'hook:remove() removes the hook.',
  function(self, fn) return register(self, 'before', fn) end)

return {}
