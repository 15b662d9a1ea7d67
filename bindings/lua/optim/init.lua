-- init.lua -- mt.optim: optimizers that change parameters by their gradients
local core = require 'mtorch.core'
local mt = require 'mtorch'

local optim = {}

-- ---- what all share ------------------------------------------------------------------------------

local Optimizer = {steps_on_device = false}
core.recorded_groups = false -- a list while mt.cuda.graph records

--- " (did you mean 'lr'?)", or nothing.
local function hint(names, key)
  table.sort(names)
  local close = core.nearest(names, tostring(key))
  return close ~= '' and (" (did you mean '%s'?)"):format(close) or ''
end

local function keys(...)
  local names = {}
  for i = 1, select('#', ...) do
    for key in pairs((select(i, ...))) do
      if type(key) == 'string' and not key:find('^_') then names[#names + 1] = key end
    end
  end
  return names
end

--- A copy of a list of parameters; `seen` has those of the groups before.
local function checked_parameters(name, list, seen)
  if type(list) == 'table' and rawget(list, '__fields') then
    core.fail(('%s: a list of parameters is needed, got a module; pass net:parameters()'):format(name))
  end
  if type(list) ~= 'table' or #list == 0 then
    core.fail(('%s: a list of parameters is needed, got %s'):format(name,
      type(list) == 'table' and 'an empty list' or core.describe(list)))
  end
  local copy, before = {}, {}
  for i = 1, #list do
    local p = list[i]
    if not mt.is_tensor(p) then core.fail(('%s: entry %d is %s, not a parameter'):format(name, i, core.describe(p))) end
    if not p.is_leaf then
      core.fail(('%s: entry %d was computed from others; only leaves can be optimized'):format(name, i))
    end
    if before[p] then core.fail(('%s: entry %d is the same parameter as entry %d'):format(name, i, before[p])) end
    if seen[p] then core.fail(('%s: entry %d is a parameter of group %d already'):format(name, i, seen[p])) end
    copy[i], before[p] = p, i
  end
  return copy
end

local function check_options(class, name, group)
  local numbers, least = class.numbers, class.least
  for i = 1, #numbers do
    local key = numbers[i]
    local value, low = group[key], least[key]
    if type(value) ~= 'number' or not (value >= low) or math.abs(value) == math.huge then
      core.fail(('%s: %s must be a finite number%s, got %s'):format(name, key,
        low > -math.huge and (' from %g'):format(low) or '', core.describe(value)))
    end
  end
  class.check(group, name)
end

--- The optimizer that a method is called on.
local function own(self, method)
  if type(self) ~= 'table' or rawget(self, 'param_groups') == nil then
    core.fail(('%s: methods are called with a colon, opt:%s(..)'):format(method, method))
  end
end

--- The metatable of the groups: an option that the optimizer has not is an error.
local function group_meta(name, defaults)
  local function unknown(_, key)
    core.fail(("%s: a group has no option '%s'%s"):format(name, tostring(key), hint(keys(defaults), key)))
  end
  local function put(group, key, value) -- an option that was set to nil, again
    if defaults[key] == nil then unknown(group, key) end
    rawset(group, key, value)
  end
  return {__index = unknown, __newindex = put}
end

--- One more group, {params = a list, lr = ..}; what it does not say is the optimizer's.
local function add_group(self, entry)
  local name, defaults, class = self.name, self.defaults, self.class
  if type(entry) ~= 'table' then
    core.fail(('%s: a group {params = list, ..} is needed, got %s'):format(name, core.describe(entry)))
  end
  local options, seen = {}, {}
  for key, value in pairs(defaults) do options[key] = value end
  for key, value in pairs(entry) do
    if key ~= 'params' and defaults[key] == nil then
      core.fail(("%s: unknown option '%s' in a group%s"):format(name, tostring(key),
        hint(keys(defaults, {params = true}), key)))
    end
    options[key] = value
  end
  for i, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do seen[p] = i end
  end
  options.params = checked_parameters(name, mt.is_tensor(entry.params) and {entry.params} or entry.params, seen)
  check_options(class, name, options)
  if options.betas then options.betas = {options.betas[1], options.betas[2]} end
  options.state = class.new_state()
  self.param_groups[#self.param_groups + 1] = setmetatable(options, self.group_meta)
end

--- A plain list of parameters is one group; {params=list, lr=..} entries are several.
local function make(class, name, parameters, defaults, decoupled)
  local self = setmetatable({param_groups = {}, name = name, defaults = defaults, class = class,
    group_meta = group_meta(name, defaults), decoupled = decoupled}, class)
  local first = type(parameters) == 'table' and rawget(parameters, 1)
  local grouped = type(first) == 'table' and rawget(first, 'params') ~= nil
  if grouped then
    for i = 1, #parameters do add_group(self, parameters[i]) end
  else
    add_group(self, {params = checked_parameters(name, parameters, {})})
  end
  return self
end

--- A class of optimizers: the least values of its numbers, a check of the rest, the state of a group
--- and the lists of tensors in it (the state itself is the list where none is named).
local function class(least, check, new_state, lists)
  local new = setmetatable({least = least, check = check, new_state = new_state, lists = lists or false},
    {__index = Optimizer})
  new.numbers = keys(least)
  table.sort(new.numbers)
  local function unknown(self, key)
    local options = rawget(self, 'defaults')
    core.fail(("%s: an optimizer has no '%s'%s"):format(rawget(self, 'name'), tostring(key),
      options[key] ~= nil and ('; each group has its own: opt.param_groups[i].%s'):format(key) or
      hint(keys(new, Optimizer, self), key)))
  end
  new.__newindex = unknown
  function new.__index(self, key)
    local value = new[key]
    if value == nil then unknown(self, key) end
    return value
  end
  return new
end

--- One more group, {params = list, lr = ..}; what it does not say is as in the others.
function Optimizer:add_param_group(group)
  own(self, 'add_param_group')
  add_group(self, group)
end

--- Drops the gradients of all parameters.
function Optimizer:zero_grad(...)
  own(self, 'zero_grad')
  if select('#', ...) > 0 then core.fail('zero_grad: it takes no arguments') end
  local groups = self.param_groups
  for i = 1, #groups do core.zero_grad(groups[i].params) end
end

--- One step from the gradients; a closure is called first, with recording on, and its loss
--- returned.
function Optimizer:step(closure, ...)
  own(self, 'step')
  if select('#', ...) > 0 then core.fail('step: it takes one argument, a function that returns the loss') end
  local loss
  if closure ~= nil then
    if not core.is_callable(closure) then
      core.fail('step: a function that returns the loss is needed, got ' .. core.describe(closure))
    end
    loss = closure()
  end
  local groups = self.param_groups
  for i = 1, #groups do -- all of them before the first one is changed
    check_options(self.class, #groups == 1 and self.name or ('%s: param_groups[%d]'):format(self.name, i), groups[i])
  end
  for i = 1, #groups do
    local recorded = core.recorded_groups and core.record_group(self, groups[i])
    self:update(groups[i])
    if recorded then recorded.counted = true end
  end
  return loss
end

--- The options and the state of each group, for saving; `params` numbers the parameters.
function Optimizer:state_dict(...)
  own(self, 'state_dict')
  if select('#', ...) > 0 then core.fail('state_dict: it takes no arguments') end
  local state, n = {}, 0
  for i, group in ipairs(self.param_groups) do
    local copy = {optimizer = self.name}
    for key, value in pairs(group) do copy[key] = value end
    copy.params = {}
    for k = 1, #group.params do
      n = n + 1
      copy.params[k] = n
    end
    state[i] = copy
  end
  return state
end

--- A parameter's state as a tensor of its own, beside the parameter; float32 for 16-bit ones.
local function placed(value, p)
  return (value:detach():clone():to(p.device):to(p.dtype:find('float16') and 'float32' or p.dtype))
end

--- Copies a list of tensors, one for each parameter that has had a step.
local function loaded_list(list, params, where)
  if type(list) ~= 'table' then
    core.fail(('load_state_dict: %s must be a list of tensors, got %s'):format(where, core.describe(list)))
  end
  local copy = {}
  for i, value in pairs(list) do
    local p = params[i]
    if not p then core.fail(('load_state_dict: %s[%s] belongs to no parameter'):format(where, tostring(i))) end
    if value and (not mt.is_tensor(value) or value.shape ~= p.shape) then
      core.fail(('load_state_dict: %s[%d] is %s, the parameter %s'):format(where, i,
        mt.is_tensor(value) and tostring(value.shape) or core.describe(value), tostring(p.shape)))
    end
    copy[i] = value and placed(value, p) or nil
  end
  return copy
end

--- How many steps each parameter had no gradient for, or nil.
local function loaded_counts(list, n, step, where)
  if list == nil or not step then return nil end
  local copy = {}
  for i = 1, n do
    local count = type(list) == 'table' and list[i]
    if type(count) ~= 'number' or count < 0 or count > step or count % 1 ~= 0 then
      core.fail(('load_state_dict: %s.state.missed must be a list of %d counts up to %d'):format(where, n, step))
    end
    copy[i] = count
  end
  return copy
end

--- What a group becomes by a saved state, after all checks.
local function loaded_group(self, group, saved, i)
  local where, kind = ('group %d'):format(i), self.class
  if type(saved) ~= 'table' or type(saved.state) ~= 'table' or type(saved.params) ~= 'table' then
    core.fail(('load_state_dict: %s is not what state_dict() returned, got %s'):format(where, core.describe(saved)))
  end
  if saved.optimizer ~= self.name then
    core.fail(('load_state_dict: the state is of %s, this is %s'):format(tostring(saved.optimizer), self.name))
  end
  if #saved.params ~= #group.params then
    core.fail(('load_state_dict: %s has %d parameters, the state %d'):format(where, #group.params, #saved.params))
  end
  local new = {}
  for key, default in pairs(self.defaults) do
    local value = saved[key]
    if type(value) ~= type(default) then
      core.fail(('load_state_dict: %s: %s is %s'):format(where, key, core.describe(value)))
    end
    new[key] = type(value) == 'table' and {unpack(value)} or value
  end
  check_options(kind, 'load_state_dict', new)
  local state = kind.new_state()
  if not kind.lists then state = loaded_list(saved.state, group.params, where .. '.state') end
  for _, name in ipairs(kind.lists or {}) do
    state[name] = loaded_list(saved.state[name], group.params, ('%s.state.%s'):format(where, name))
  end
  if state.step then
    state.step = saved.state.step
    if type(state.step) ~= 'number' or state.step < 0 or state.step % 1 ~= 0 then
      core.fail(('load_state_dict: %s.state.step is %s'):format(where, core.describe(state.step)))
    end
  end
  state.missed = loaded_counts(saved.state.missed, #group.params, state.step, where)
  new.state = state
  return new
end

--- Continues from what state_dict() of such an optimizer returned. Where it does not fit, nothing is
--- loaded.
function Optimizer:load_state_dict(state, ...)
  own(self, 'load_state_dict')
  if select('#', ...) > 0 then core.fail('load_state_dict: it takes one argument, the state') end
  if type(state) ~= 'table' or #state ~= #self.param_groups then
    core.fail(('load_state_dict: %s groups are needed, got %s'):format(#self.param_groups,
      type(state) == 'table' and #state or core.describe(state)))
  end
  local new = {}
  for i, group in ipairs(self.param_groups) do new[i] = loaded_group(self, group, state[i], i) end
  for i, group in ipairs(self.param_groups) do
    for key, value in pairs(new[i]) do group[key] = value end
  end
  return self
end

-- ---- the optimizers ------------------------------------------------------------------------------

local SGD = class({lr = 0, momentum = 0, dampening = -math.huge, weight_decay = 0}, function(group, name)
  if type(group.nesterov) ~= 'boolean' then
    core.fail(('%s: nesterov must be true or false, got %s'):format(name, core.describe(group.nesterov)))
  end
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    core.fail(name .. ': nesterov needs a momentum and no dampening')
  end
end, function() return {} end)
SGD.steps_on_device = true -- by a verb of its own, which in a graph asks for the learning rate
--- `optim.SGD(parameters, {lr=, momentum=0, dampening=0, weight_decay=0, nesterov=false})`, as
--- torch.optim.SGD.
optim.SGD = core.declare('SGD([parameters], lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=false)',
  'Stochastic gradient descent, as torch.optim.SGD.',
  function(parameters, lr, momentum, dampening, weight_decay, nesterov)
    return make(SGD, 'SGD', parameters, {lr = lr or 0.001, momentum = momentum or 0, dampening = dampening or 0,
      weight_decay = weight_decay or 0, nesterov = nesterov or false})
  end)

function SGD:update(group)
  core.sgd_step(group.params, group.state, group.lr, group.momentum, group.dampening, group.weight_decay,
    group.nesterov)
end

local Adam = class({lr = 0, eps = 0, weight_decay = 0}, function(group, name)
  local betas = group.betas
  if type(betas) ~= 'table' or #betas ~= 2 or type(betas[1]) ~= 'number' or type(betas[2]) ~= 'number' or
      not (betas[1] >= 0 and betas[1] < 1 and betas[2] >= 0 and betas[2] < 1) then
    core.fail(name .. ': betas must be two numbers in [0, 1), such as {0.9, 0.999}')
  end
end, function() return {mean = {}, square = {}, step = 0} end, {'mean', 'square'})
Adam.steps_on_device = true

local function adam(name, decoupled, default_decay)
  return core.declare(name .. '([parameters], lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=' ..
    default_decay .. ')', 'Adaptive moments, as torch.optim.' .. name .. '.',
    function(parameters, lr, betas, eps, weight_decay)
      return make(Adam, name, parameters, {lr = lr or 0.001, betas = betas or {0.9, 0.999}, eps = eps or 1e-8,
        weight_decay = weight_decay or default_decay}, decoupled)
    end)
end
--- `optim.Adam(parameters, {lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=0})` (Kingma
--- 2015).
optim.Adam = adam('Adam', false, 0)
--- As Adam, with the decay on the parameters themselves (Loshchilov 2019).
optim.AdamW = adam('AdamW', true, 0.01)

function Adam:update(group)
  local state = group.state
  local step = state.step + 1
  state.missed = core.adam_step(group.params, state.mean, state.square, group.lr, group.betas[1], group.betas[2],
    group.eps, group.weight_decay, self.decoupled, step, state.missed)
  state.step = step
end

local RMSprop = class({lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0}, function(group, name)
  if type(group.centered) ~= 'boolean' then
    core.fail(('%s: centered must be true or false, got %s'):format(name, core.describe(group.centered)))
  end
end, function() return {square = {}, mean = {}, buffer = {}} end, {'square', 'mean', 'buffer'})
--- `optim.RMSprop(parameters, {lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0,
--- centered=false})`, as torch.optim.RMSprop (Hinton 2012).
optim.RMSprop = core.declare(
  'RMSprop([parameters], lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=false)',
  'Steps divided by the root of a running mean of squared gradients, as torch.optim.RMSprop; centered: less ' ..
  'the square of their mean.',
  function(parameters, lr, alpha, eps, weight_decay, momentum, centered)
    return make(RMSprop, 'RMSprop', parameters, {lr = lr or 0.01, alpha = alpha or 0.99, eps = eps or 1e-8,
      weight_decay = weight_decay or 0, momentum = momentum or 0, centered = centered or false})
  end)

--- One parameter's step. `i` is its place in the state, which is float32 for 16-bit parameters.
local function rmsprop_step(group, i, p, gradient)
  if p.dtype:find('float16') then gradient = gradient:float() end
  local square, mean, buffer = group.state.square, group.state.mean, group.state.buffer
  if group.weight_decay ~= 0 then gradient = gradient + p * group.weight_decay end
  square[i] = square[i] or mt.zeros_like(gradient)
  square[i]:mul_(group.alpha):addcmul_(gradient, gradient, 1 - group.alpha)
  local root = square[i]
  if group.centered then
    mean[i] = mean[i] or mt.zeros_like(gradient)
    mean[i]:lerp_(gradient, 1 - group.alpha)
    root = root - mean[i]:square()
  end
  root = root:sqrt():add_(group.eps)
  if group.momentum == 0 then
    p:addcdiv_(gradient, root, -group.lr)
  else
    buffer[i] = buffer[i] or mt.zeros_like(gradient)
    buffer[i]:mul_(group.momentum):addcdiv_(gradient, root)
    p:add_(buffer[i], -group.lr)
  end
end

local function rmsprop_steps(group)
  for i, p in ipairs(group.params) do
    if p.grad then rmsprop_step(group, i, p, p.grad) end
  end
end

--- Moments that decay into denormals would make a step several times slower.
function RMSprop:update(group)
  core.without_denormals(mt.no_grad, rmsprop_steps, group)
end

return optim
