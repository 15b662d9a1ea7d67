-- lr.lua -- mt.optim.lr: learning-rate schedulers, with PyTorch's names, options and formulas
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local scheduler = require 'mtorch.optim.scheduler'
local rates, groups_of = scheduler.rates, scheduler.groups_of
local per_group, of_group = scheduler.per_group, scheduler.of_group

local cos, floor, log, max, pi = math.cos, math.floor, math.log, math.max, math.pi

local lr = {}

--- Adds a scheduler, see scheduler.define; `options` are those between optimizer and last_epoch, or all in parentheses.
local function define(name, options, doc, kind)
  if options:sub(1, 1) ~= '(' then options = ('(optimizer, %s, last_epoch: int >= -1 = -1)'):format(options) end
  lr[name] = scheduler.define(name .. options, doc, kind)
end

-- ---- by the number of the step ------------------------------------------------------------------

define('StepLR', 'step_size: int >= 1, gamma: number = 0.1',
  'The rates times gamma every step_size steps.', function(self, rate)
    if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return rate end
    return rate * self.gamma
  end)

define('MultiStepLR', 'milestones: ints, gamma: number = 0.1',
  'The rates times gamma at each step of the list milestones.', function(self, rate)
    local n = #util.filter(self.milestones, function(m) return m == self.last_epoch end)
    return n == 0 and rate or rate * self.gamma ^ n
  end)

define('ExponentialLR', 'gamma: number', 'The rates times gamma at every step.',
  function(self, rate) return self._is_initial and rate or rate * self.gamma end)

define('ConstantLR', 'factor: number >= 0 <= 1 = 0.3333333333333333, total_iters: int >= 0 = 5',
  'The rates times factor until step total_iters, then unchanged.', function(self, rate)
    if self.last_epoch == 0 then return rate * self.factor end
    return self.last_epoch == self.total_iters and rate * (1 / self.factor) or rate
  end)

define('LinearLR', 'start_factor: number > 0 <= 1 = 0.3333333333333333, end_factor: number >= 0 <= 1 = 1, ' ..
  'total_iters: int >= 0 = 5',
  'The rates times a factor from start_factor to end_factor in total_iters steps: a linear warm-up.',
  function(self, rate)
    local t, first, change = self.last_epoch, self.start_factor, self.end_factor - self.start_factor
    if t == 0 then return rate * first end
    if self._is_initial or t > self.total_iters then return rate end
    return rate * max(0, 1 + change / (self.total_iters * first + (t - 1) * change)) -- rounded, it may be below 0
  end)

define('PolynomialLR', 'total_iters: int >= 1 = 5, power: number = 1',
  'The rates times (1 - step / total_iters)^power, to 0 at step total_iters.',
  function(self, rate)
    local t, n = self.last_epoch, self.total_iters
    if self._is_initial or t > n then return rate end
    return rate * ((1 - t / n) / (1 - (t - 1) / n)) ^ self.power
  end)

define('CosineAnnealingLR', 'T_max: number > 0, eta_min: number = 0',
  'Half a cosine from the rates to eta_min in T_max steps, and back in the next T_max (Loshchilov 2017).',
  function(self, rate, base)
    local t, n, least = self.last_epoch, self.T_max, self.eta_min
    if self._is_initial then return rate end
    if (t - 1 - n) % (2 * n) == 0 then return rate + (base - least) * (1 - cos(pi / n)) / 2 end
    return (1 + cos(pi * t / n)) / (1 + cos(pi * (t - 1) / n)) * (rate - least) + least
  end)

local restarts = {
  start = function(self) self.T_i, self.T_cur = self.T_0, self.last_epoch end,
  rate = function(self, _, base)
    return self.eta_min + (base - self.eta_min) * (1 + cos(pi * self.T_cur / self.T_i)) / 2
  end,
}
--- Advances by one step, or to the given step, which may be fractional (epoch + batch / batches).
function restarts:advance(epoch)
  if epoch ~= nil and not (type(epoch) == 'number' and epoch >= 0 and epoch < math.huge) then
    core.fail('%s: step takes no argument, or the number of a step from 0, got %s', self.__name, core.describe(epoch))
  end
  local first, times = self.T_0, self.T_mult
  if epoch == nil and self.last_epoch >= 0 then
    epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
    if self.T_cur >= self.T_i then self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * times end
  else
    epoch = epoch or 0
    if epoch < first then
      self.T_i, self.T_cur = first, epoch
    elseif times == 1 then
      self.T_cur = epoch % first
    else
      local n = floor(log(epoch / first * (times - 1) + 1) / log(times))
      self.T_cur, self.T_i = epoch - first * (times ^ n - 1) / (times - 1), first * times ^ n
    end
  end
  self.last_epoch = floor(epoch) - 1
  self:update()
end
define('CosineAnnealingWarmRestarts', 'T_0: int >= 1, T_mult: int >= 1 = 1, eta_min: number = 0',
  'Half a cosine from the rates to eta_min in T_0 steps, then again from the start, each time T_mult times as long ' ..
  '(SGDR, Loshchilov 2017). sched:step(epoch + batch / batches) may be a fraction.', restarts)

-- ---- cyclic, with the momentum in the opposite direction ---------------------------------------

--- Sets the momentum of a group, or the first of its betas.
local function move_momentum(self, group, value)
  if self.use_beta1 then group.betas = {value, group.betas[2]} else group.momentum = value end
end

--- The limits of the momentum in a cycle, as lists; the groups start with the larger value.
local function start_momentum(self)
  if not self.cycle_momentum then return end
  local defaults = rawget(self.optimizer, 'defaults') or {}
  self.use_beta1 = defaults.betas ~= nil
  core.check(self.use_beta1 or defaults.momentum ~= nil,
    '%s: %s has neither momentum nor betas; use {cycle_momentum = false}', self.__name, self.optimizer.name)
  self.base_momentums = per_group(self, 'base_momentum', self.base_momentum)
  self.max_momentums = per_group(self, 'max_momentum', self.max_momentum)
  if self.last_epoch >= 0 then return end
  for i, group in ipairs(groups_of(self)) do move_momentum(self, group, self.max_momentums[i]) end
end

local cyclic = {}

function cyclic:start()
  self.own_lrs = per_group(self, 'base_lr', self.base_lr)
  self.max_lrs = per_group(self, 'max_lr', self.max_lr)
  if self.last_epoch == -1 then
    for i, group in ipairs(groups_of(self)) do group.lr = self.own_lrs[i] end
  end
  local up, down = self.step_size_up, self.step_size_down or self.step_size_up
  self.total_size, self.step_ratio = up + down, up / (up + down)
  if not self.scale_fn then self.scale_mode = self.mode == 'exp_range' and 'iterations' or 'cycle' end
  start_momentum(self)
end
function cyclic:started() self.base_lrs, self.own_lrs = self.own_lrs, nil end

--- The fraction of the rise of the rate, times the scale of the cycle or of the step.
function cyclic:prepare()
  local cycle = floor(1 + self.last_epoch / self.total_size)
  local x = 1 + self.last_epoch / self.total_size - cycle
  self.height = x <= self.step_ratio and x / self.step_ratio or (x - 1) / (self.step_ratio - 1)
  local at = self.scale_mode == 'cycle' and cycle or self.last_epoch
  if self.scale_fn then self.scale = self.scale_fn(at)
  elseif self.mode == 'triangular2' then self.scale = 1 / 2 ^ (at - 1)
  else self.scale = self.mode == 'exp_range' and self.gamma ^ at or 1 end
  if type(self.scale) ~= 'number' then
    core.fail('CyclicLR: scale_fn must return a number, for %d it returned %s', at, core.describe(self.scale))
  end
end

function cyclic:rate(_, base, i, group)
  if self.cycle_momentum then
    local least, most = of_group(self, 'base_momentums', i), of_group(self, 'max_momentums', i)
    move_momentum(self, group, most - (most - least) * self.height * self.scale)
  end
  return base + (of_group(self, 'max_lrs', i) - base) * self.height * self.scale
end

define('CyclicLR', 'base_lr: number|numbers, max_lr: number|numbers, step_size_up: number > 0 = 2000, ' ..
  "step_size_down: number > 0 = nil, mode: 'triangular'|'triangular2'|'exp_range' = 'triangular', gamma: number = " ..
  "1, scale_fn: function = nil, scale_mode: 'cycle'|'iterations' = 'cycle', cycle_momentum: bool = true, " ..
  'base_momentum: number|numbers = 0.8, max_momentum: number|numbers = 0.9',
  'From base_lr to max_lr in step_size_up steps, back in step_size_down, cyclically (Smith 2017); momentum (or ' ..
  "the first beta) runs against it. 'triangular2' halves the height with each cycle, 'exp_range' scales it by " ..
  'gamma^step, scale_fn(cycle from 1, or step) by a function, which is not saved.', cyclic)

local once = {}

function once:start()
  if not self.total_steps then
    core.check(self.epochs and self.steps_per_epoch,
      'OneCycleLR: total_steps, or epochs and steps_per_epoch, are needed')
    self.total_steps = self.epochs * self.steps_per_epoch
  end
  local n, first = self.total_steps, self.pct_start
  -- the end of each phase, and the rates it interpolates: 1 initial, 2 max, 3 min; momenta: 1 max, 2 base
  if self.three_phase then
    self.phases = {{first * n - 1, 1, 2, 1, 2}, {2 * first * n - 2, 2, 1, 2, 1}, {n - 1, 1, 3, 1, 1}}
  else
    self.phases = {{first * n - 1, 1, 2, 1, 2}, {n - 1, 2, 3, 2, 1}}
  end
  self.max_lrs = per_group(self, 'max_lr', self.max_lr)
  self.min_lrs = {}
  for i, group in ipairs(groups_of(self)) do
    if self.last_epoch == -1 then group.initial_lr = self.max_lrs[i] / self.div_factor end
    self.min_lrs[i] = (rawget(group, 'initial_lr') or self.max_lrs[i] / self.div_factor) / self.final_div_factor
  end
  start_momentum(self)
end

local function anneal(self, from, to, share)
  if self.anneal_strategy == 'linear' then return (to - from) * share + from end
  return to + (from - to) / 2 * (cos(pi * share) + 1)
end

--- The phase of this step, and the fraction of it that is complete.
function once:prepare()
  local t, from = self.last_epoch, 0
  if t > self.total_steps then core.fail('OneCycleLR: step %d, but total_steps is %d', t, self.total_steps) end
  for k, phase in ipairs(self.phases) do
    if t <= phase[1] or k == #self.phases then
      self.phase, self.share = k, phase[1] == from and 1 or (t - from) / (phase[1] - from)
      return
    end
    from = phase[1]
  end
end

function once:rate(_, base, i, group)
  local phase = self.phases[self.phase]
  local levels = {base, of_group(self, 'max_lrs', i), of_group(self, 'min_lrs', i)}
  if self.cycle_momentum then
    local momenta = {of_group(self, 'max_momentums', i), of_group(self, 'base_momentums', i)}
    move_momentum(self, group, anneal(self, momenta[phase[4]], momenta[phase[5]], self.share))
  end
  return anneal(self, levels[phase[2]], levels[phase[3]], self.share)
end

define('OneCycleLR', 'max_lr: number|numbers, total_steps: int >= 1 = nil, epochs: int >= 1 = nil, steps_per_epoch: ' ..
  "int >= 1 = nil, pct_start: number >= 0 <= 1 = 0.3, anneal_strategy: 'cos'|'linear' = 'cos', cycle_momentum: bool " ..
  '= true, base_momentum: number|numbers = 0.85, max_momentum: number|numbers = 0.95, div_factor: number > 0 = 25, ' ..
  'final_div_factor: number > 0 = 10000, three_phase: bool = false',
  'One cycle in total_steps (or epochs * steps_per_epoch) steps: from max_lr / div_factor to max_lr in the fraction ' ..
  'pct_start, then down to the initial rate / final_div_factor (Smith 2018); three_phase: through the initial ' ..
  'rate. Momentum (or the first beta) changes inversely.', once)

-- ---- by functions -------------------------------------------------------------------------------

local function start_lambdas(self)
  self.lr_lambda = per_group(self, 'lr_lambda', self.lr_lambda, 'function')
end

local function factor(self, i)
  local value = of_group(self, 'lr_lambda', i)(self.last_epoch)
  if type(value) ~= 'number' then
    core.fail('%s: the function must return a number, for step %d it returned %s', self.__name, self.last_epoch,
      core.describe(value))
  end
  return value
end

define('LambdaLR', 'lr_lambda: function|list',
  'The first rates times lr_lambda(steps done), a function or a list of one for each group; functions are not saved.',
  {
    start = start_lambdas,
    rate = function(self, _, base, i) return base * factor(self, i) end,
  })

define('MultiplicativeLR', 'lr_lambda: function|list',
  'The rates times lr_lambda(steps done) at every step, a function or a list of one for each group; functions are ' ..
  'not saved.', {
    start = start_lambdas,
    rate = function(self, rate, _, i) return self._is_initial and rate or rate * factor(self, i) end,
  })

-- ---- several schedulers -------------------------------------------------------------------------

--- Checks that the schedulers of a combination belong to its optimizer.
local function checked_schedulers(self, list)
  core.check(type(list) == 'table' and #list > 0, '%s: a list of schedulers is needed, got %s', self.__name,
    type(list) == 'table' and 'an empty one' or core.describe(list))
  for i, inner in ipairs(list) do
    core.check(type(inner) == 'table' and rawget(inner, 'optimizer') ~= nil,
      '%s: entry %d is %s, not a scheduler', self.__name, i, core.describe(inner))
    core.check(inner.__name ~= 'ReduceLROnPlateau',
      '%s: entry %d is a ReduceLROnPlateau, whose steps need a metric; call its step(metric) yourself', self.__name, i)
    core.check(self.optimizer == nil or inner.optimizer == self.optimizer,
      '%s: entry %d is of another optimizer', self.__name, i)
  end
  return {unpack(list)}
end

--- Undoes the initial step of each scheduler.
local function undo(list)
  for _, inner in ipairs(list) do
    local within = rawget(inner, '_schedulers')
    if within then undo(within) else inner.last_epoch = inner.last_epoch - 1 end
  end
end

local sequential = {}
local function current(self)
  local before = #util.filter(self.milestones, function(m) return m <= self.last_epoch end)
  return self._schedulers[before + 1], self.milestones[before] or 0, before
end
function sequential:make()
  self._schedulers, self.schedulers = checked_schedulers(self, self.schedulers), nil
  core.check(#self.milestones == #self._schedulers - 1, 'SequentialLR: %d schedulers need %d milestones, got %d',
    #self._schedulers, #self._schedulers - 1, #self.milestones)
  for i, step in ipairs(self.milestones) do
    core.check(i <= 1 or step >= self.milestones[i - 1],
      'SequentialLR: milestones must grow, but %d follows %d', step, self.milestones[i - 1])
  end
  local step = self.last_epoch + 1
  self.last_epoch = 0
  local first = current(self)
  self.last_epoch = step
  for _, group in ipairs(groups_of(self)) do group.lr = group.initial_lr end
  undo(self._schedulers)
  first:initial_step()
  self._last_lr = first:get_last_lr()
end
function sequential:advance()
  self.last_epoch = self.last_epoch + 1
  local inner, from, before = current(self)
  if before > 0 and from == self.last_epoch then inner:update(0) else inner:step() end
  self._last_lr = inner:get_last_lr()
end
function sequential:update(epoch)
  self.last_epoch = epoch
  local inner, from = current(self)
  inner:update(epoch - from)
  self._last_lr = inner:get_last_lr()
end
define('SequentialLR', 'schedulers: list, milestones: ints',
  'One scheduler after another, each from its own start: milestones are the steps at which the second, third .. begin.',
  sequential)

local chained = {}
function chained:make()
  self._schedulers, self.schedulers = checked_schedulers(self, self.schedulers), nil
  self.optimizer = self._schedulers[1].optimizer
  checked_schedulers(self, self._schedulers)
  self._last_lr = rates(self)
end
local function step_all(self, method, ...)
  for _, inner in ipairs(self._schedulers) do inner[method](inner, ...) end
  self._last_lr = rates(self)
end
function chained:advance() step_all(self, 'step') end
function chained:update(epoch) step_all(self, 'update', epoch) end
define('ChainedScheduler', '([schedulers]: list, optimizer: table = nil)',
  'All schedulers of a list at every step, one after the other.', chained)

-- ---- by a metric --------------------------------------------------------------------------------

local plateau = {}
function plateau:make()
  self.min_lrs, self.min_lr = per_group(self, 'min_lr', self.min_lr), nil
  self.best = self.mode == 'min' and math.huge or -math.huge
  self.last_epoch, self.cooldown_counter, self.num_bad_epochs, self._last_lr = 0, 0, 0, rates(self)
end

local function better(self, value)
  local sign = self.mode == 'min' and -1 or 1
  local margin = sign * self.threshold
  return sign * value > sign * (self.threshold_mode == 'rel' and self.best * (1 + margin) or self.best + margin)
end

--- Advances by one step with a metric, a number or a tensor with one element.
function plateau:advance(metric)
  metric = util.number_in(metric, 'ReduceLROnPlateau: step needs the metric, a number or a tensor of one, got %s')
  self.last_epoch = self.last_epoch + 1
  local good = better(self, metric)
  if good then self.best = metric end
  self.num_bad_epochs = good and 0 or self.num_bad_epochs + 1
  if self.cooldown_counter > 0 then
    self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
  end
  if self.num_bad_epochs > self.patience then
    for i, before in ipairs(rates(self)) do
      local rate = max(before * self.factor, self.min_lrs[i] or self.min_lrs[1])
      if before - rate > self.eps then groups_of(self)[i].lr = rate end
    end
    self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
  end
  self._last_lr = rates(self)
end
define('ReduceLROnPlateau', "(optimizer, mode: 'min'|'max' = 'min', factor: number >= 0 < 1 = 0.1, patience: int >= " ..
  "0 = 10, threshold: number = 0.0001, threshold_mode: 'rel'|'abs' = 'rel', cooldown: int >= 0 = 0, min_lr: " ..
  'number|numbers = 0, eps: number = 1e-8)',
  'The rates times factor after more than patience steps without a better metric, sched:step(metric): better by the ' ..
  'fraction (rel) or the amount (abs) threshold. Then cooldown steps are not counted; min_lr is the lowest rate, or ' ..
  'one for each group; changes below eps are skipped.', plateau)

lr.find = require 'mtorch.optim.lr_find'

return lr
