-- scheduler.lua -- the base of all schedulers: counting steps, setting the rates of an optimizer's groups, state
--
-- As torch.optim.lr_scheduler.LRScheduler (PyTorch 2.15): steps count from 0, the constructor makes the first one, and
-- most rates are computed from the previous rate, so that several schedulers can act on one optimizer.
local core = require 'mtorch.core'
local object = require 'mtorch.core.object'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local scheduler = {}

-- ---- the optimizer and its groups ---------------------------------------------------------------

--- The groups of the optimizer, which must be one of mt.optim.
local function groups_of(self)
  local optimizer = rawget(self, 'optimizer')
  local groups = type(optimizer) == 'table' and rawget(optimizer, 'param_groups')
  if type(groups) ~= 'table' then
    core.fail('%s: an optimizer is needed, got %s', self.__name, core.describe(optimizer))
  end
  return groups
end
scheduler.groups_of = groups_of

--- A list with an entry per group, from one for all or such a list, of numbers or functions.
function scheduler.per_group(self, name, value, kind)
  kind = kind or 'number'
  local function fits(x) return type(x) == kind or kind == 'function' and core.is_callable(x) end
  local n, is_list = #groups_of(self), type(value) == 'table' and not fits(value)
  if is_list and #value ~= n then
    core.fail('%s: %s has %d %ss, the optimizer %d groups', self.__name, name, #value, kind, n)
  end
  return util.tabulate(n, function(i)
    local entry = is_list and value[i] or value
    core.check(fits(entry), '%s: %s[%d] is %s, not a %s', self.__name, name, i, core.describe(entry), kind)
    return entry
  end)
end

--- Entry i of such a list.
function scheduler.of_group(self, name, i)
  local value = self[name][i]
  if value == nil then
    core.fail('%s: group %d of the optimizer was added later; %s has nothing for it', self.__name, i, name)
  end
  return value
end

--- The field `key` of group i, a rate.
local function rate_of(self, i, key)
  local rate = groups_of(self)[i][key]
  if type(rate) ~= 'number' then
    core.fail('%s: param_groups[%d].%s must be a number, got %s', self.__name, i, key, core.describe(rate))
  end
  return rate
end

local function rates(self)
  return util.map(groups_of(self), function(_, i) return rate_of(self, i, 'lr') end)
end
scheduler.rates = rates

-- ---- steps --------------------------------------------------------------------------------------

local Scheduler, method = object.class{called = 'sched', word = 'scheduler'}
scheduler.methods = Scheduler.__methods

--- The initial rate of group i: the optimizer's, unless another scheduler has stored one.
local function initial_rate(self, i)
  local group = groups_of(self)[i]
  if group.initial_lr == nil then group.initial_lr = rate_of(self, i, 'lr') end
  return rate_of(self, i, 'initial_lr')
end

-- Defaults of methods that a kind may override.
function Scheduler.prepare() end
function Scheduler.start() end
function Scheduler.started() end

--- Sets the rates of the next step, or of step `epoch`, before which the steps from 0 on are made again.
function Scheduler:update(epoch)
  local again = epoch == 0 or epoch ~= nil and epoch ~= self.last_epoch + 1
  local groups, base_lrs, last = groups_of(self), self.base_lrs, rates(self)
  self.last_epoch = again and 0 or self.last_epoch + 1
  if again then self._is_initial = true end
  self:prepare()
  for i = 1, #groups do
    if base_lrs[i] == nil then base_lrs[i] = initial_rate(self, i) end
    last[i] = self:rate(again and base_lrs[i] or last[i], base_lrs[i], i, groups[i])
  end
  for i = 1, #groups do groups[i].lr = last[i] end
  self._last_lr = last
  if not again then return end
  self._is_initial = nil
  for _ = 1, epoch do self:update() end
end

--- Advances by one step, or to the given step.
function Scheduler:advance(epoch)
  if epoch ~= nil and not util.is_whole(epoch, 0) then
    core.fail('%s: step takes no argument, or the number of a step, got %s%s', self.__name, core.describe(epoch),
      require('mtorch').is_tensor(epoch) and '; ReduceLROnPlateau takes a metric' or '')
  end
  self:update(epoch)
end

--- The step at the start of training.
function Scheduler:initial_step()
  self._is_initial = true
  self:step()
  self._is_initial = nil
end

method('step(metric=nil)', 'One step, after opt:step(): sets the rates of the groups. ReduceLROnPlateau takes ' ..
  'the metric; the others optionally take the number of the step, counted from 0.', function(self, given)
    if core.step_recording then -- Lua code is not replayed
      core.step_recording:refuse('%s: a schedule cannot step inside a compiled step; call sched:step() after it',
        self.__name)
    end
    if given ~= nil and rawget(self, '_schedulers') then
      core.fail('%s: step takes no argument, got %s', self.__name, core.describe(given))
    end
    self:advance(given)
  end)
method('get_last_lr()', 'The current rates of the groups, a list.',
  function(self) return {unpack(self._last_lr)} end)

-- ---- state --------------------------------------------------------------------------------------

--- Keeps numbers, strings, booleans and lists of them; functions are not saved.
local function plain(value)
  return util.map_leaves(value, function(x) if type(x) ~= 'function' then return x end end)
end

local unsaved = {optimizer = true, lr_lambda = true}

method('state_dict()', 'Its state, for load_state_dict, without functions and the optimizer.',
  function(self)
    local state = {}
    for key, value in pairs(self) do
      if key == '_schedulers' then
        state[key] = util.map(value, function(inner) return inner:state_dict() end)
      elseif not unsaved[key] then
        state[key] = plain(value)
      end
    end
    return state
  end)

--- Whether a value has the same type as another; for lists, also their entries.
local function alike(own_value, value)
  if type(value) ~= type(own_value) then return false end
  local _, entry = next(type(own_value) == 'table' and own_value or {})
  for _, inner in pairs(entry ~= nil and value or {}) do
    if not alike(entry, inner) then return false end
  end
  return true
end

--- Raises an error for a table that state_dict() of such a scheduler cannot have returned.
local function check_state(self, state)
  if type(state) ~= 'table' then core.fail('load_state_dict: a table is needed, got %s', core.describe(state)) end
  for key, value in pairs(self:state_dict()) do
    if key == '_schedulers' and type(state[key]) == 'table' and #state[key] ~= #value then
      core.fail('load_state_dict: the state is of %d schedulers, %s has %d', #state[key], self.__name, #value)
    end
    core.check((key == '_schedulers' or alike(value, state[key])) and type(state[key]) == type(value),
      "load_state_dict: the state's %s is %s; is it of a %s?", key, core.describe(state[key]), self.__name)
  end
  for i, inner in ipairs(rawget(self, '_schedulers') or {}) do
    check_state(inner, state._schedulers[i])
  end
end

method('load_state_dict(state)', 'Restores the result of state_dict() of such a scheduler; if it does ' ..
  "not fit nothing is loaded. The rates themselves are in the optimizer's state.", function(self, state)
    check_state(self, state)
    for key in pairs(self:state_dict()) do
      if key ~= '_schedulers' then self[key] = plain(state[key]) end
    end
    for i, inner in ipairs(rawget(self, '_schedulers') or {}) do inner:load_state_dict(state._schedulers[i]) end
    return self
  end)
table.insert(scheduler.methods, {'last_epoch', 'A field: the number of the step, from 0.'})

-- ---- declarations -------------------------------------------------------------------------------

local hidden = {optimizer = true, last_epoch = true}
function Scheduler:describe()
  local inner = rawget(self, '_schedulers')
  if inner then return shown.lines(self.__name, inner) end
  local parts = util.map(rates(self), function(rate) return ('%.6g'):format(rate) end)
  return ('%s at step %d, lr %s'):format(object.described(self, hidden), self.last_epoch, table.concat(parts, ', '))
end

--- Declares a scheduler, whose fields are its options (one that is a list of functions is named in `unsaved`):
---   define(signature, doc, {rate =, prepare =, start =, started =})
--- rate(self, lr, base, i, group) is the rate of group i, from the previous rate lr and the initial rate base; a kind
--- may be this function alone. prepare(self) is called first in each step; start and started(self) before and after
--- the first step. A kind with make(self) implements all of it, one with advance(self, epoch) a step.
function scheduler.define(signature, doc, kind)
  kind = type(kind) == 'function' and {rate = kind} or kind
  kind.name = signature:match('^[%w_]+')
  object.class({base = Scheduler, name = kind.name, optional = {_is_initial = true}}, kind)
  return object.constructor(kind, signature, doc, kind.make)
end

--- The start of training, or of the step after last_epoch.
function Scheduler:make()
  local groups, base_lrs = groups_of(self), {}
  self:start()
  for i, group in ipairs(groups) do
    core.check(self.last_epoch < 0 or rawget(group, 'initial_lr') ~= nil, '%s: last_epoch is %d, but ' ..
      'param_groups[%d] has no initial_lr; load the state of the optimizer first', self.__name, self.last_epoch, i)
    base_lrs[i] = initial_rate(self, i)
  end
  self.base_lrs = base_lrs
  self:initial_step()
  self:started()
end

return scheduler
