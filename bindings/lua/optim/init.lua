-- init.lua -- mt.optim: optimizers that change parameters by their gradients
local core = require 'mtorch.core'
local mt = require 'mtorch'
local groups = require 'mtorch.optim.groups'
local checked_parameters, copied, extra = groups.checked_parameters, groups.copied, groups.extra
local hint, keys, own = groups.hint, groups.keys, groups.own

local shown = require 'mtorch.core.shown'

local optim = {}

-- ---- what all share ------------------------------------------------------------------------------

local Optimizer = {}
core.step_recording = false
core.stepped = false -- while mt.cuda.graph records: the optimizers that step

--- The optimizer takes `param_groups` over where its lists have changed; parameters keep their state.
local function adopt(self)
  local seen = {}
  if type(self.param_groups) ~= 'table' then
    core.fail('%s: param_groups must be the list of groups, got %s', self.name, core.describe(self.param_groups))
  end
  for i, group in ipairs(self.param_groups) do
    local name = ('%s: param_groups[%d]'):format(self.name, i)
    if type(group) ~= 'table' or getmetatable(group) ~= self.group_meta then
      core.fail('%s is no group of this optimizer but %s; opt:add_param_group{params = list, ..} adds one', name,
        core.describe(group))
    end
    for _, p in ipairs(checked_parameters(name .. '.params', rawget(group, 'params'), seen)) do seen[p] = i end
  end
  core.optimizer_take(self.handle, self.param_groups)
end
local function current(self)
  if not core.optimizer_has(self.handle, self.param_groups) then adopt(self) end
end

--- The metatable of the groups: an option that the optimizer has not is an error; `state` is a list
--- of {step=, exp_avg=, ..}, one for each parameter that has had a step.
local function group_meta(self)
  local function unknown(_, key)
    core.fail("%s: a group has no option '%s'%s", self.name, tostring(key),
      hint(keys(self.defaults, {state = true}), key))
  end
  local function put(group, key, value) -- an option that was set to nil, again
    if key == 'state' then
      core.fail('%s: the state of a group is read-only; opt:load_state_dict(state) sets it', self.name)
    end
    if key ~= 'params' and self.defaults[key] == nil and not extra[key] then unknown(group, key) end
    rawset(group, key, value)
  end
  local function get(group, key)
    if extra[key] then return nil end
    if key ~= 'state' then unknown(group, key) end
    current(self)
    for i, other in ipairs(self.param_groups) do
      if rawequal(other, group) then return core.optimizer_state(self.handle, i) end
    end
  end
  return {__index = get, __newindex = put, __tostring = function(group) return groups.described(self, group) end}
end

--- One more group, {params = a list, lr = ..}; what it does not say is the optimizer's.
local function add_group(self, entry)
  local name, defaults = self.name, self.defaults
  if type(entry) ~= 'table' then
    core.fail('%s: a group {params = list, ..} is needed, got %s', name, core.describe(entry))
  end
  current(self)
  local options, seen = {}, {}
  for key, value in pairs(defaults) do options[key] = copied(value) end
  for key, value in pairs(entry) do
    if key ~= 'params' and defaults[key] == nil and not extra[key] then
      core.fail("%s: unknown option '%s' in a group%s", name, tostring(key),
        hint(keys(defaults, {params = true}), key))
    end
    options[key] = copied(value)
  end
  for i, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do seen[p] = i end
  end
  options.params = checked_parameters(name, mt.is_tensor(entry.params) and {entry.params} or entry.params, seen)
  core.optimizer_add(self.handle, options, options.params)
  self.param_groups[#self.param_groups + 1] = setmetatable(options, self.group_meta)
end

local function unknown(self, key)
  local options = rawget(self, 'defaults')
  core.fail("%s: an optimizer has no '%s'%s", rawget(self, 'name'), tostring(key),
    options[key] ~= nil and ('; each group has its own: opt.param_groups[i].%s'):format(key) or
    hint(keys(Optimizer, self), key))
end
local meta = {__newindex = unknown, __tostring = groups.print}
function meta.__index(self, key)
  local value = Optimizer[key]
  if value == nil then unknown(self, key) end
  return value
end

--- A plain list of parameters is one group; {params=list, lr=..} entries are several.
local function make(info, parameters, defaults)
  local self = {param_groups = setmetatable({}, groups.list_meta), name = info.name, defaults = defaults,
    class = Optimizer, handle = core.optimizer(info.rule)}
  self.group_meta = group_meta(self)
  setmetatable(self, meta)
  local first = type(parameters) == 'table' and rawget(parameters, 1)
  local grouped = type(first) == 'table' and rawget(first, 'params') ~= nil
  if grouped then
    for i = 1, #parameters do add_group(self, parameters[i]) end
  else
    add_group(self, {params = checked_parameters(info.name, parameters, {})})
  end
  return self
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
  local list = self.param_groups
  for i = 1, #list do core.zero_grad(list[i].params) end
end

--- One step from the gradients; a closure is called first, with recording on, and its loss
--- returned.
function Optimizer:step(closure, ...)
  own(self, 'step')
  if select('#', ...) > 0 then core.fail('step: it takes one argument, a function that returns the loss') end
  local loss
  if closure ~= nil then
    if not core.is_callable(closure) then
      core.fail('step: a function that returns the loss is needed, got %s', core.describe(closure))
    end
    if mt.is_grad_enabled() then loss = closure() else loss = mt.enable_grad(closure) end
  end
  local recording = core.step_recording -- of mt.compile: a replay steps anew
  if recording then recording:pause(self) end
  if not core.optimizer_step(self.handle, self.param_groups) then
    adopt(self)
    core.optimizer_step(self.handle, self.param_groups)
  end
  if recording then recording:resume() end
  if core.stepped then core.stepped[self] = true end
  return loss
end

--- The options and the state of each group, for saving; `params` numbers the parameters.
function Optimizer:state_dict(...)
  own(self, 'state_dict')
  if select('#', ...) > 0 then core.fail('state_dict: it takes no arguments') end
  current(self)
  local state, n = {}, 0
  for i, group in ipairs(self.param_groups) do
    local copy = {optimizer = self.name, state = group.state}
    for key, value in pairs(group) do copy[key] = copied(value) end
    copy.params = {}
    for k = 1, #group.params do
      n = n + 1
      copy.params[k] = n
    end
    state[i] = copy
  end
  return state
end

-- What the lists of a group's state were called before each parameter had its own.
local former = {mean = {Adam = 'exp_avg', AdamW = 'exp_avg', RMSprop = 'grad_avg'},
  square = {Adam = 'exp_avg_sq', AdamW = 'exp_avg_sq', RMSprop = 'square_avg'}, buffer = {RMSprop = 'momentum_buffer'}}

--- The state by parameter, where it was saved in such lists: step of the group less what each missed.
local function by_parameter(state, name, n)
  local lists = {}
  for key, of in pairs(former) do lists[of[name] or key] = state[key] end
  for i, entry in pairs(state) do
    if type(i) == 'number' and mt.is_tensor(entry) then lists.momentum_buffer = state end
  end
  if next(lists) == nil then return state end
  local new = {}
  for i = 1, n do
    for key, list in pairs(lists) do
      if list[i] then
        new[i] = new[i] or {step = (state.step or 1) - (state.missed and state.missed[i] or 0)}
        new[i][key] = list[i]
      end
    end
  end
  return new
end

--- The options and the state of a group by what was saved.
local function loaded_group(self, group, saved, i)
  local where = ('group %d'):format(i)
  if type(saved) ~= 'table' or type(saved.state) ~= 'table' or type(saved.params) ~= 'table' then
    core.fail('load_state_dict: %s is not what state_dict() returned, got %s', where, core.describe(saved))
  end
  if saved.optimizer ~= self.name then
    core.fail('load_state_dict: the state is of %s, this is %s', tostring(saved.optimizer), self.name)
  end
  if #saved.params ~= #group.params then
    core.fail('load_state_dict: %s has %d parameters, the state %d', where, #group.params, #saved.params)
  end
  local new = {}
  for key, default in pairs(self.defaults) do
    local value = saved[key]
    if value == nil and type(default) == 'boolean' and not (key == 'nesterov' or key == 'centered') then
      value = default -- not in former states
    end
    if type(value) ~= type(default) then
      core.fail('load_state_dict: %s: %s is %s', where, key, core.describe(value))
    end
    new[key] = copied(value)
  end
  core.optimizer_check(self.handle, new, 'load_state_dict')
  for key in pairs(extra) do new[key] = saved[key] end
  return new, by_parameter(saved.state, self.name, #group.params)
end

--- Continues from what state_dict() of such an optimizer returned. Where it does not fit, nothing is
--- loaded.
function Optimizer:load_state_dict(state, ...)
  own(self, 'load_state_dict')
  if select('#', ...) > 0 then core.fail('load_state_dict: it takes one argument, the state') end
  if type(state) ~= 'table' or #state ~= #self.param_groups then
    core.fail('load_state_dict: %s groups are needed, got %s', #self.param_groups,
      type(state) == 'table' and #state or core.describe(state))
  end
  current(self)
  local new, states = {}, {}
  for i, group in ipairs(self.param_groups) do new[i], states[i] = loaded_group(self, group, state[i], i) end
  core.optimizer_load(self.handle, states)
  for i, group in ipairs(self.param_groups) do
    for key, value in pairs(new[i]) do group[key] = value end
  end
  return self
end

-- ---- the optimizers ------------------------------------------------------------------------------

for _, info in ipairs(core.optimizers()) do
  local parts = {'[parameters]'}
  for i, option in ipairs(info.options) do parts[i + 1] = option.name .. '=' .. shown.value(option.default) end
  optim[info.name] = core.declare(('%s(%s)'):format(info.name, table.concat(parts, ', ')), info.doc,
    function(parameters, ...)
      local defaults = {}
      for i, option in ipairs(info.options) do
        local value = select(i, ...)
        if value == nil then value = option.default end
        defaults[option.name] = value
      end
      return make(info, parameters, defaults)
    end)
end

return core.strict(optim, 'mt.optim', nil, {
  LBFGS = function() return require 'mtorch.optim.lbfgs' end,
  EarlyStopping = function() return require 'mtorch.optim.early_stopping' end,
  swa = function() return core.strict(require 'mtorch.optim.swa', 'mt.optim.swa') end,
  lr = function() return core.strict(require 'mtorch.optim.lr', 'mt.optim.lr') end,
})
