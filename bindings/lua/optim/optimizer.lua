-- optimizer.lua -- the base of all optimizers: groups of parameters with options, state, saving
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local row_gradients = require 'mtorch.core.row_gradients'
local sharded = require 'mtorch.core.sharded_parameters'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local Optimizer, method = object.class{called = 'opt', word = 'optimizer'}

core.step_recording = false
core.stepped = false -- the optimizers that step while mt.cuda.graph records

--- The advice in errors about a field that is an option of the groups.
function Optimizer:__advice(key)
  return self.defaults[key] ~= nil and ('; each group has its own: opt.param_groups[i].%s'):format(key)
end

-- Additional keys of groups: the rate before any scheduler changed it.
Optimizer.extra, Optimizer.max_groups = {initial_lr = true}, math.huge

-- ---- lists of parameters ------------------------------------------------------------------------

--- A copy of a group's list of parameters, which may be empty in one of several; `seen` has those of earlier groups.
local function checked_parameters(name, list, seen, of_group)
  local is_table = type(list) == 'table'
  if is_table and rawget(list, '__fields') then
    core.fail('%s: a list of parameters is needed, got a module; pass net:parameters()', name)
  elseif not is_table or #list == 0 and (next(list) ~= nil or not of_group) then
    core.fail('%s: a list of parameters is needed, got %s; pass net:parameters()', name,
      not is_table and core.describe(list) or next(list) == nil and 'an empty list' or 'a table of names')
  end
  local copy, before = {}, {}
  for i = 1, #list do
    local p = list[i]
    if not mt.is_tensor(p) then core.fail('%s: entry %d is %s, not a parameter', name, i, core.describe(p)) end
    core.check(p.is_leaf, '%s: entry %d was computed from others; only leaves can be optimized', name, i)
    if before[p] then core.fail('%s: entry %d is the same parameter as entry %d', name, i, before[p]) end
    if seen[p] then core.fail('%s: entry %d is a parameter of group %d already', name, i, seen[p]) end
    copy[i], before[p] = p, i
  end
  return copy
end

local function copied(value) return type(value) == 'table' and util.append({}, value) or value end

-- ---- groups -------------------------------------------------------------------------------------

--- Updates the optimizer if the lists of `param_groups` have changed; parameters keep their state.
local function adopt(self)
  local seen = {}
  if type(self.param_groups) ~= 'table' then
    core.fail('%s: param_groups must be the list of groups, got %s', self.name, core.describe(self.param_groups))
  end
  for i, group in ipairs(self.param_groups) do
    local name = ('%s: param_groups[%d]'):format(self.name, i)
    if type(group) ~= 'table' or getmetatable(group) ~= self.group_meta then
      core.fail('%s is not a group of this optimizer but %s; opt:add_param_group{params = list, ..} adds one', name,
        core.describe(group))
    end
    local list = checked_parameters(name .. '.params', rawget(group, 'params'), seen, #self.param_groups > 1)
    for _, p in ipairs(list) do seen[p] = i end
  end
  core.optimizer_take(self.handle, self.param_groups)
end

--- Implemented in C++ for the optimizers of kernels/optimizers.h; LBFGS has its own.
function Optimizer:current()
  if not core.optimizer_has(self.handle, self.param_groups) then adopt(self) end
end
function Optimizer:add(group) core.optimizer_add(self.handle, group, group.params) end
function Optimizer:check(options, where) core.optimizer_check(self.handle, options, where) end
function Optimizer:state_of(i) return core.optimizer_state(self.handle, i) end
function Optimizer:load(states) core.optimizer_load(self.handle, states) end

--- Raises an error for an option that groups do not have; `what` is the beginning of the message.
local function check_option(self, key, what, more)
  if self.defaults[key] ~= nil or self.extra[key] or key == more then return end
  core.fail(what .. '%s', self.name, tostring(key),
    core.advice('optimizer', key, util.append({more}, util.sorted_keys(self.defaults))))
end

--- Name(lr=0.1, ..) of one group, and the number of its tensors.
local function described(self, group)
  local text = shown.options(core.parameters(mt.optim[self.name]), function(_, p)
    return p.name ~= 'parameters' and rawget(group, p.name) or nil
  end, true)
  return ('%d tensor%s, %s'):format(#group.params, #group.params == 1 and '' or 's', text)
end

--- The metatable of the groups: an unknown option is an error; `state` is a list of {step=,
--- exp_avg=, ..}, one for each parameter that has had a step.
local function group_meta(self)
  local unknown = "%s: a group has no option '%s'"
  local function put(group, key, value) -- also for an option that was set to nil before
    core.check(key ~= 'state', '%s: the state of a group is read-only; opt:load_state_dict(state) sets it', self.name)
    if key ~= 'params' then check_option(self, key, unknown) end
    rawset(group, key, value)
  end
  local function get(group, key)
    if key ~= 'state' then return check_option(self, key, unknown, 'state') end
    self:current()
    for i, other in ipairs(self.param_groups) do
      if rawequal(other, group) then return self:state_of(i) end
    end
  end
  return {__index = get, __newindex = put, __tostring = function(group) return described(self, group) end}
end

--- The metatable of param_groups: -1 is the last group, a missing one is an error.
local list_meta = {__index = function(list, key)
  if type(key) == 'number' and key ~= #list + 1 then
    local group = key < 0 and rawget(list, #list + 1 + key)
    if group then return group end
    core.fail('param_groups[%s]: groups count from 1, there %s', tostring(key),
      #list == 1 and 'is 1' or ('are %d'):format(#list))
  end
end, __tostring = function(list) return '{' .. table.concat(util.map(list, tostring), '; ') .. '}' end}

function Optimizer:describe()
  local list = self.param_groups
  if #list == 1 then return ('%s(%s)'):format(self.name, described(self, list[1])) end
  local lines = util.map(list, function(group, i) return ('  [%d]: %s'):format(i, described(self, group)) end)
  return ('%s(\n%s\n)'):format(self.name, table.concat(lines, '\n'))
end

method('add_param_group(group)', 'Adds a group, {params = list, lr = ..}; omitted options are those of the optimizer.',
  function(self, entry)
    local name, options, seen = self.name, {}, {}
    core.check(type(entry) == 'table', '%s: a group {params = list, ..} is needed, got %s', name, core.describe(entry))
    if #self.param_groups == self.max_groups then core.fail('%s: it takes one group, this is a second', name) end
    self:current()
    for key, value in pairs(self.defaults) do options[key] = copied(value) end
    for key, value in pairs(entry) do
      check_option(self, key, "%s: unknown option '%s' in a group", 'params')
      options[key] = copied(value)
    end
    for i, group in ipairs(self.param_groups) do
      for _, p in ipairs(group.params) do seen[p] = i end
    end
    options.params = checked_parameters(name, mt.is_tensor(entry.params) and {entry.params} or entry.params, seen, true)
    for _, p in ipairs(options.params) do sharded.optimizers[p] = self end
    self:add(options)
    self.param_groups[#self.param_groups + 1] = setmetatable(options, self.group_meta)
  end)

function Optimizer.class(name)
  local of, add = object.class{base = Optimizer, name = name}
  of.name = name
  return of, add
end

--- Creates an optimizer of such a class, with the field defaults: a plain list of parameters is one
--- group; entries {params=list, lr=..} are several.
function Optimizer.make(of, fields, parameters)
  return object.new(of, fields, function(self)
    self.param_groups, self.group_meta = setmetatable({}, list_meta), group_meta(self)
    local first = type(parameters) == 'table' and rawget(parameters, 1)
    if type(first) == 'table' and rawget(first, 'params') ~= nil then
      local n = 0
      for i = 1, #parameters do
        self:add_param_group(parameters[i])
        n = n + #self.param_groups[i].params
      end
      if n == 0 then checked_parameters(self.name, {}, {}) end
    else
      self:add_param_group{params = checked_parameters(self.name, parameters, {})}
    end
  end)
end

-- ---- steps --------------------------------------------------------------------------------------

--- The loss that a closure returns, called with recording enabled.
function Optimizer.closure_loss(closure)
  if mt.is_grad_enabled() then return (closure()) end
  return (mt.enable_grad(closure))
end

method('step(closure=nil)', 'One step from the gradients; a closure is called before, and its loss returned.',
  function(self, closure)
    local loss
    if closure ~= nil then
      if not core.is_callable(closure) then
        core.fail('step: a function that returns the loss is needed, got %s', core.describe(closure))
      end
      loss = self.closure_loss(closure)
    end
    local recording = core.step_recording -- for mt.compile: a replay steps again
    if recording then recording:pause(self) end
    local sparse = row_gradients.of(self.param_groups)
    if not core.optimizer_step(self.handle, self.param_groups, sparse) then
      adopt(self)
      core.optimizer_step(self.handle, self.param_groups, sparse)
    end
    if recording then recording:resume() end
    if core.stepped then core.stepped[self] = true end
    return loss
  end)

--- The parameters whose gradients a step uses.
function Optimizer:all_parameters()
  local list = {}
  for _, group in ipairs(self.param_groups) do util.append(list, group.params) end
  return list
end

--- Whether a condition is true in any process that steps together with this one.
function Optimizer:any(condition)
  return sharded.any(self:all_parameters()) and require('mtorch.dist.parallel').any(condition) or condition
end

method('zero_grad()', 'Drops the gradients of all parameters; otherwise the next backward adds to them.',
  function(self)
    local list = self.param_groups
    for i = 1, #list do
      core.zero_grad(list[i].params)
      row_gradients.drop(list[i].params)
    end
  end)

-- ---- state --------------------------------------------------------------------------------------

method('state_dict()', 'Options and state of each group, for load_state_dict.', function(self)
  self:current()
  local state, n = {}, 0
  for i, group in ipairs(self.param_groups) do
    local copy = {optimizer = self.name, state = group.state}
    for key, value in pairs(group) do copy[key] = copied(value) end
    copy.params = util.tabulate(#group.params, function(k) return n + k end)
    state[i], n = copy, n + #group.params
  end
  return state
end)

--- The state of a group from a saved one; LBFGS has its own.
function Optimizer.saved_state(_, state) return state end

--- The options and the state of a group from a saved one.
local function loaded_group(self, group, saved, i)
  local where = ('group %d'):format(i)
  core.check(type(saved) == 'table' and type(saved.state) == 'table' and type(saved.params) == 'table',
    'load_state_dict: %s is not what state_dict() returned, got %s', where, core.describe(saved))
  core.check(saved.optimizer == self.name,
    'load_state_dict: the state is of %s, this is %s', tostring(saved.optimizer), self.name)
  core.check(#saved.params == #group.params,
    'load_state_dict: %s has %d parameters, the state %d', where, #group.params, #saved.params)
  local new = {}
  for key, default in pairs(self.defaults) do
    local value = saved[key]
    if value == nil and type(default) == 'boolean' then value = default end -- not in older states
    new[key] = copied(value)
  end
  for key in pairs(self.extra) do new[key] = saved[key] end
  self:check(new, 'load_state_dict: ' .. where)
  return new, self:saved_state(saved.state)
end

method('load_state_dict(state)', 'Restores the result of state_dict() of such an optimizer; if it does not ' ..
  'fit, nothing is loaded.', function(self, state)
    if type(state) == 'table' and rawget(state, 'param_groups') then
      core.fail("load_state_dict: this is the state of an optimizer of PyTorch, which is not read; load the " ..
        "network's state, net:load_state_dict, and begin with a new state here")
    end
    core.check(type(state) == 'table' and #state == #self.param_groups,
      'load_state_dict: the state of an optimizer with %d group%s of parameters is needed, got %s', #self.param_groups,
      #self.param_groups == 1 and '' or 's', type(state) == 'table' and 'one with ' .. #state or core.describe(state))
    self:current()
    local new, states = {}, {}
    for i, group in ipairs(self.param_groups) do new[i], states[i] = loaded_group(self, group, state[i], i) end
    self:load(states)
    for i, group in ipairs(self.param_groups) do
      for key, value in pairs(new[i]) do group[key] = value end
    end
    return self
  end)

table.insert(Optimizer.__methods, {'param_groups', 'A field: the groups, each with params and options that may be ' ..
  'changed between steps, opt.param_groups[1].lr = 0.01.'})

return Optimizer
