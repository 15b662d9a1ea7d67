-- scheduler.lua -- what all schedulers share: counting steps, setting the rates of an optimizer's groups, state
--
-- As torch.optim.lr_scheduler.LRScheduler (PyTorch 2.15): steps count from 0, the first is made with the scheduler, and
-- most rates follow from the rate before, so that schedulers can act on one optimizer together.
local core = require 'mtorch.core'

local shown = require 'mtorch.core.shown'

local scheduler = {}

-- ---- the optimizer and its groups ---------------------------------------------------------------

--- The groups of an optimizer of mt.optim.
local function groups_of(self)
  local optimizer = rawget(self, 'optimizer')
  local groups = type(optimizer) == 'table' and rawget(optimizer, 'param_groups')
  if type(groups) ~= 'table' then
    core.fail('%s: an optimizer is needed, got %s', self.name, core.describe(optimizer))
  end
  return groups
end
scheduler.groups_of = groups_of

--- A number or a list with one for each group, as a list.
function scheduler.per_group(self, name, value)
  local n, list = #groups_of(self), {}
  if type(value) == 'table' and #value ~= n then
    core.fail('%s: %s has %d numbers, the optimizer %d groups', self.name, name, #value, n)
  end
  for i = 1, n do
    list[i] = type(value) == 'table' and value[i] or value
    if type(list[i]) ~= 'number' then
      core.fail('%s: %s[%d] is %s, not a number', self.name, name, i, core.describe(list[i]))
    end
  end
  return list
end

--- Entry i of such a list.
function scheduler.of_group(self, name, i)
  local value = self[name][i]
  if value == nil then
    core.fail('%s: group %d of the optimizer was added later; %s has nothing for it', self.name, i, name)
  end
  return value
end

local function rates(self)
  local list = {}
  for i, group in ipairs(groups_of(self)) do list[i] = group.lr end
  return list
end
scheduler.rates = rates

--- The momentum, or the first of the betas, of each group; which of them the optimizer has.
function scheduler.momentum_option(self)
  local defaults = rawget(self.optimizer, 'defaults') or {}
  if defaults.betas then return 'betas' end
  if defaults.momentum == nil then
    core.fail('%s: %s has neither momentum nor betas; use {cycle_momentum = false}', self.name, self.optimizer.name)
  end
  return 'momentum'
end
function scheduler.set_momentum(group, option, value)
  group[option] = option == 'betas' and {value, group.betas[2]} or value
end

-- ---- steps --------------------------------------------------------------------------------------

local Scheduler = {}
scheduler.Scheduler = Scheduler

--- A method's own scheduler.
local function own(self, method)
  if type(self) ~= 'table' or rawget(self, 'optimizer') == nil then
    core.fail('%s: methods are called with a colon, sched:%s(..)', method, method)
  end
  if method == 'step' and core.step_recording then -- Lua is not replayed
    core.fail('%s: a schedule cannot step inside a compiled step; call sched:step() after it', self.name)
  end
end
scheduler.own = own

--- The rate that a group started with: the optimizer's, unless another scheduler had one before.
local function initial_rate(group)
  if rawget(group, 'initial_lr') == nil then group.initial_lr = group.lr end
  return group.initial_lr
end

--- Sets the rates of the next step, or of `epoch`, by the closed form where there is one.
function Scheduler:update(epoch)
  local form = epoch and self.closed or self.rate
  local groups, base_lrs, last = groups_of(self), self.base_lrs, {}
  self.last_epoch = epoch or self.last_epoch + 1
  if self.prepare then self:prepare() end
  for i = 1, #groups do
    local group = groups[i]
    if base_lrs[i] == nil then base_lrs[i] = initial_rate(group) end
    last[i] = form(self, group.lr, base_lrs[i], i, group)
  end
  for i = 1, #groups do groups[i].lr = last[i] end
  self._last_lr = last
end

--- One step; with a number, to that one.
function Scheduler:step(epoch)
  own(self, 'step')
  if epoch ~= nil and not (type(epoch) == 'number' and epoch >= 0 and epoch % 1 == 0) then
    core.fail('%s: step takes no argument, or the number of a step, got %s%s', self.name, core.describe(epoch),
      require('mtorch').is_tensor(epoch) and '; ReduceLROnPlateau takes a metric' or '')
  end
  self._step_count = self._step_count + 1
  self:update(epoch)
end

--- The step that belongs to the start of training.
function Scheduler:initial_step()
  self._step_count, self._is_initial = 0, true
  self:step()
  self._is_initial = nil
end

--- The rates of the groups after the last step, a list.
function Scheduler:get_last_lr()
  own(self, 'get_last_lr')
  return {unpack(self._last_lr)}
end

-- ---- state --------------------------------------------------------------------------------------

--- Numbers, text, booleans and lists of them; of functions nothing is saved.
local function plain(value)
  if type(value) == 'function' then return nil end
  if type(value) ~= 'table' then return value end
  local copy = {}
  for key, inner in pairs(value) do copy[key] = plain(inner) end
  return copy
end

--- Everything but the optimizer and functions.
function Scheduler:state_dict()
  own(self, 'state_dict')
  local state = {}
  for key, value in pairs(self) do
    if key == '_schedulers' then
      state[key] = {}
      for i, inner in ipairs(value) do state[key][i] = inner:state_dict() end
    elseif key ~= 'optimizer' and not self.unsaved[key] then
      state[key] = plain(value)
    end
  end
  return state
end

--- Whether a value is of the kind of another: lists, of entries of one kind.
local function alike(own_value, value)
  if type(value) ~= type(own_value) then return false end
  local _, entry = next(type(own_value) == 'table' and own_value or {})
  for _, inner in pairs(entry ~= nil and value or {}) do
    if not alike(entry, inner) then return false end
  end
  return true
end

--- Refuses what state_dict() of such a scheduler cannot have returned.
local function check_state(self, state)
  if type(state) ~= 'table' then core.fail('load_state_dict: a table is needed, got %s', core.describe(state)) end
  for key, value in pairs(self:state_dict()) do
    if key == '_schedulers' and type(state[key]) == 'table' and #state[key] ~= #value then
      core.fail('load_state_dict: the state is of %d schedulers, %s has %d', #state[key], self.name, #value)
    end
    if key ~= '_schedulers' and not alike(value, state[key]) or type(state[key]) ~= type(value) then
      core.fail("load_state_dict: the state's %s is %s; is it of a %s?", key, core.describe(state[key]), self.name)
    end
  end
  for i, inner in ipairs(rawget(self, '_schedulers') or {}) do
    check_state(inner, state._schedulers[i])
  end
end

--- Continues from what state_dict() of such a scheduler returned; the rates are the optimizer's own state. Where it
--- does not fit nothing is loaded.
function Scheduler:load_state_dict(state)
  own(self, 'load_state_dict')
  check_state(self, state)
  for key in pairs(self:state_dict()) do
    if key ~= '_schedulers' then self[key] = plain(state[key]) end
  end
  for i, inner in ipairs(rawget(self, '_schedulers') or {}) do inner:load_state_dict(state._schedulers[i]) end
  return self
end

local function rates_text(list)
  local parts = {}
  for i, rate in ipairs(list) do parts[i] = ('%.6g'):format(rate) end
  return table.concat(parts, ', ')
end

-- ---- declarations -------------------------------------------------------------------------------

-- Fields that may be absent.
local optional = {_is_initial = true, prepare = true, closed = true, start = true, started = true, make = true}

--- Methods and fields of a kind; others are errors, but for options that were not given.
local function index_of(kind, options)
  return function(self, key)
    local value = kind[key]
    if value ~= nil or options[key] or optional[key] then return value end
    local names = {}
    for _, of in ipairs{kind, Scheduler, self} do
      for name in pairs(of) do names[#names + 1] = name end
    end
    table.sort(names)
    core.fail("%s has no '%s'%s", kind.name, tostring(key), core.advice('scheduler', key, names))
  end
end

--- Declares a scheduler, the fields of which are its options:
---   define(signature, doc, {rate =, closed =, prepare =, start =, started =, unsaved =})
--- rate(self, lr, base, i, group) is the rate of group i after one that was lr and began as base; closed the same
--- from last_epoch alone. prepare(self) comes before, once a step; start and started(self) before and after the first
--- step. `unsaved` are fields that hold functions. A kind with make(self, last_epoch) does all of it itself.
function scheduler.define(signature, doc, kind)
  kind.name, kind.unsaved = signature:match('^[%w_]+'), kind.unsaved or {}
  setmetatable(kind, {__index = Scheduler})
  local params, options, meta = nil, {}, {}
  local made = core.declare(signature, doc, function(...)
    local self, last_epoch = {}, -1
    for i, p in ipairs(params) do
      if p.name == 'last_epoch' then last_epoch = select(i, ...) else self[p.name] = (select(i, ...)) end
    end
    setmetatable(self, meta)
    return (kind.make or scheduler.begin)(self, last_epoch)
  end)
  params = core.parameters(made)
  for _, p in ipairs(params) do options[p.name] = true end
  meta.__index = index_of(kind, options)
  meta.__tostring = function(self)
    local inner = rawget(self, '_schedulers')
    if inner then return shown.lines(kind.name, inner) end
    local text = shown.options(params, function(_, p)
      return p.name ~= 'optimizer' and p.name ~= 'last_epoch' and rawget(self, p.name) or nil
    end)
    return ('%s(%s) at step %d, lr %s'):format(kind.name, text, rawget(self, 'last_epoch') or 0,
      rates_text(rates(self)))
  end
  return made
end

--- The start of training, or of the step after last_epoch.
function scheduler.begin(self, last_epoch)
  local groups, base_lrs = groups_of(self), {}
  self.last_epoch = last_epoch
  if self.start then self:start() end
  for i, group in ipairs(groups) do
    if last_epoch >= 0 and rawget(group, 'initial_lr') == nil then
      core.fail('%s: last_epoch is %d, but param_groups[%d] has no initial_lr; load the state of the optimizer ' ..
        'first', self.name, last_epoch, i)
    end
    base_lrs[i] = initial_rate(group)
  end
  self.base_lrs = base_lrs
  self:initial_step()
  if self.started then self:started() end
  return self
end

return scheduler
