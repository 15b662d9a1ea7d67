-- optim.lua -- mt.optim: optimizers that change parameters by their gradients
local core = require 'mtorch.core'
local mt = require 'mtorch'

local optim = {}

-- ---- what all share ------------------------------------------------------------------------------

local Optimizer = {}
Optimizer.__index = Optimizer
core.recorded_groups = false -- a list while mt.cuda.graph records

local function check_parameters(name, list)
  if type(list) ~= 'table' or #list == 0 then
    core.fail(('%s: a list of parameters is needed, got %s'):format(name,
      type(list) == 'table' and 'an empty list' or core.describe(list)))
  end
  for i, p in ipairs(list) do
    if not mt.is_tensor(p) then core.fail(('%s: entry %d is %s, not a parameter'):format(name, i, core.describe(p))) end
    if not p.is_leaf then
      core.fail(('%s: entry %d was computed from others; only leaves can be optimized'):format(name, i))
    end
  end
end

local function check_numbers(name, group, least)
  for key, low in pairs(least) do
    local value = group[key]
    if type(value) ~= 'number' or value ~= value or value < low then
      core.fail(('%s: %s must be a number from %g, got %s'):format(name, key, low, core.describe(value)))
    end
  end
end

--- Groups of parameters with their options: a plain list is one group; {params=list, lr=..} entries
--- are several.
local function make(class, name, parameters, defaults, least)
  local groups = {}
  local grouped = type(parameters) == 'table' and type(parameters[1]) == 'table' and parameters[1].params
  for _, entry in ipairs(grouped and parameters or {{params = parameters}}) do
    local group = {}
    for key, value in pairs(defaults) do group[key] = value end
    for key, value in pairs(entry) do
      if key ~= 'params' and defaults[key] == nil then
        core.fail(("%s: unknown option '%s' in a group"):format(name, tostring(key)))
      end
      group[key] = value
    end
    check_parameters(name, group.params)
    check_numbers(name, group, least)
    group.state = {}
    groups[#groups + 1] = group
  end
  return setmetatable({param_groups = groups, name = name}, class)
end

local function class()
  local new = setmetatable({}, Optimizer)
  new.__index = new
  return new
end

--- Drops the gradients of all parameters.
function Optimizer:zero_grad()
  local groups = self.param_groups
  for i = 1, #groups do core.zero_grad(groups[i].params) end
end

--- One step from the gradients; a closure is called first, with recording on, and its loss
--- returned.
function Optimizer:step(closure)
  local loss
  if closure then loss = closure() end
  local groups = self.param_groups
  for i = 1, #groups do
    if core.recorded_groups then core.record_group(self, groups[i]) end
    self:update(groups[i])
  end
  return loss
end

--- A copy that shares no table and no tensor.
local function copied(value)
  if mt.is_tensor(value) then return (value:detach():clone()) end
  if type(value) ~= 'table' then return value end
  local copy = {}
  for k, v in pairs(value) do copy[k] = copied(v) end
  return copy
end

--- The options and the state of each group, for saving.
function Optimizer:state_dict()
  local state = {}
  for i, group in ipairs(self.param_groups) do
    local copy = {}
    for key, value in pairs(group) do
      if key ~= 'params' then copy[key] = value end
    end
    state[i] = copy
  end
  return state
end

function Optimizer:load_state_dict(state)
  if type(state) ~= 'table' or #state ~= #self.param_groups then
    core.fail(('load_state_dict: %s groups are needed, got %s'):format(#self.param_groups,
      type(state) == 'table' and #state or core.describe(state)))
  end
  for i, group in ipairs(self.param_groups) do
    for key, value in pairs(state[i]) do group[key] = copied(value) end
  end
  return self
end

-- ---- the optimizers ------------------------------------------------------------------------------

local SGD = class()
SGD.steps_on_device = true -- by a verb of its own, which in a graph asks for the learning rate
--- `optim.SGD(parameters, {lr=, momentum=0, dampening=0, weight_decay=0, nesterov=false})`, as
--- torch.optim.SGD.
optim.SGD = core.declare('SGD([parameters], lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=false)',
  'Stochastic gradient descent, as torch.optim.SGD.',
  function(parameters, lr, momentum, dampening, weight_decay, nesterov)
    local defaults = {lr = lr or 0.001, momentum = momentum or 0, dampening = dampening or 0,
      weight_decay = weight_decay or 0, nesterov = nesterov or false}
    if nesterov and (defaults.momentum == 0 or defaults.dampening ~= 0) then
      core.fail('SGD: nesterov needs a momentum and no dampening')
    end
    return make(SGD, 'SGD', parameters, defaults, {lr = 0, momentum = 0, weight_decay = 0})
  end)

function SGD:update(group)
  core.sgd_step(group.params, group.state, group.lr, group.momentum, group.dampening, group.weight_decay,
    group.nesterov)
end

local Adam = class()
Adam.steps_on_device = true

local function adam(name, decoupled, default_decay)
  return core.declare(name .. '([parameters], lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=' ..
    default_decay .. ')', 'Adaptive moments, as torch.optim.' .. name .. '.',
    function(parameters, lr, betas, eps, weight_decay)
      betas = betas or {0.9, 0.999}
      if type(betas) ~= 'table' or type(betas[1]) ~= 'number' or type(betas[2]) ~= 'number' or
          betas[1] < 0 or betas[1] >= 1 or betas[2] < 0 or betas[2] >= 1 then
        core.fail(name .. ': betas must be two numbers in [0, 1), such as {0.9, 0.999}')
      end
      local self = make(Adam, name, parameters, {lr = lr or 0.001, betas = betas, eps = eps or 1e-8,
        weight_decay = weight_decay or default_decay}, {lr = 0, eps = 0, weight_decay = 0})
      self.decoupled = decoupled
      for _, group in ipairs(self.param_groups) do group.state = {mean = {}, square = {}, step = 0} end
      return self
    end)
end
--- `optim.Adam(parameters, {lr=0.001, betas={0.9, 0.999}, eps=1e-8, weight_decay=0})` (Kingma
--- 2015).
optim.Adam = adam('Adam', false, 0)
--- As Adam, with the decay on the parameters themselves (Loshchilov 2019).
optim.AdamW = adam('AdamW', true, 0.01)

function Adam:update(group)
  local state = group.state
  state.step = state.step + 1
  core.adam_step(group.params, state.mean, state.square, group.lr, group.betas[1], group.betas[2], group.eps,
    group.weight_decay, self.decoupled, state.step)
end

local RMSprop = class()
--- `optim.RMSprop(parameters, {lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0,
--- centered=false})`, as torch.optim.RMSprop (Hinton 2012).
optim.RMSprop = core.declare(
  'RMSprop([parameters], lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=false)',
  'Steps divided by the root of a running mean of squared gradients, as torch.optim.RMSprop; centered: less ' ..
  'the square of their mean.',
  function(parameters, lr, alpha, eps, weight_decay, momentum, centered)
    if centered ~= nil and type(centered) ~= 'boolean' then
      core.fail('RMSprop: centered must be true or false, got ' .. core.describe(centered))
    end
    local self = make(RMSprop, 'RMSprop', parameters, {lr = lr or 0.01, alpha = alpha or 0.99, eps = eps or 1e-8,
      weight_decay = weight_decay or 0, momentum = momentum or 0, centered = centered or false},
      {lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0})
    for _, group in ipairs(self.param_groups) do group.state = {square = {}, mean = {}, buffer = {}} end
    return self
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

function RMSprop:update(group)
  mt.no_grad(function()
    for i, p in ipairs(group.params) do
      if p.grad then rmsprop_step(group, i, p, p.grad) end
    end
  end)
end

return optim
