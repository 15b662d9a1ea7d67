-- lr.lua -- mt.optim.lr: learning-rate schedulers, with PyTorch's names, options and formulas
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local scheduler = require 'mtorch.optim.scheduler'
local define, rates, groups_of = scheduler.define, scheduler.rates, scheduler.groups_of

local cos, floor, log, max, pi = math.cos, math.floor, math.log, math.max, math.pi

local lr = {}

-- ---- by the number of the step ------------------------------------------------------------------

lr.StepLR = define('StepLR(optimizer, step_size: int >= 1, gamma: number = 0.1, last_epoch: int >= -1 = -1)',
  'The rates times gamma every step_size steps.', function(self, rate)
    if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return rate end
    return rate * self.gamma
  end)

lr.MultiStepLR = define('MultiStepLR(optimizer, milestones: ints, gamma: number = 0.1, last_epoch: int >= -1 = -1)',
  'The rates times gamma at each step of the list milestones.', function(self, rate)
    local n = #util.filter(self.milestones, function(m) return m == self.last_epoch end)
    return n == 0 and rate or rate * self.gamma ^ n
  end)

lr.ExponentialLR = define('ExponentialLR(optimizer, gamma: number, last_epoch: int >= -1 = -1)',
  'The rates times gamma at every step.',
  function(self, rate) return self._is_initial and rate or rate * self.gamma end)

lr.ConstantLR = define('ConstantLR(optimizer, factor: number >= 0 <= 1 = 0.3333333333333333, ' ..
  'total_iters: int >= 0 = 5, last_epoch: int >= -1 = -1)',
  'The rates times factor until step total_iters, then unchanged.', function(self, rate)
    if self.last_epoch == 0 then return rate * self.factor end
    return self.last_epoch == self.total_iters and rate * (1 / self.factor) or rate
  end)

lr.LinearLR = define('LinearLR(optimizer, start_factor: number > 0 <= 1 = 0.3333333333333333, ' ..
  'end_factor: number >= 0 <= 1 = 1, total_iters: int >= 0 = 5, last_epoch: int >= -1 = -1)',
  'The rates times a factor from start_factor to end_factor in total_iters steps: a linear warm-up.',
  function(self, rate)
    local t, first, change = self.last_epoch, self.start_factor, self.end_factor - self.start_factor
    if t == 0 then return rate * first end
    if self._is_initial or t > self.total_iters then return rate end
    return rate * max(0, 1 + change / (self.total_iters * first + (t - 1) * change)) -- rounded, it may be below 0
  end)

lr.PolynomialLR = define('PolynomialLR(optimizer, total_iters: int >= 1 = 5, power: number = 1, ' ..
  'last_epoch: int >= -1 = -1)', 'The rates times (1 - step / total_iters)^power, to 0 at step total_iters.',
  function(self, rate)
    local t, n = self.last_epoch, self.total_iters
    if self._is_initial or t > n then return rate end
    return rate * ((1 - t / n) / (1 - (t - 1) / n)) ^ self.power
  end)

lr.CosineAnnealingLR = define('CosineAnnealingLR(optimizer, T_max: number > 0, eta_min: number = 0, ' ..
  'last_epoch: int >= -1 = -1)',
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
lr.CosineAnnealingWarmRestarts = define('CosineAnnealingWarmRestarts(optimizer, T_0: int >= 1, ' ..
  'T_mult: int >= 1 = 1, eta_min: number = 0, last_epoch: int >= -1 = -1)',
  'Half a cosine from the rates to eta_min in T_0 steps, then again from the start, each time T_mult times as long ' ..
  '(SGDR, Loshchilov 2017). sched:step(epoch + batch / batches) may be a fraction.', restarts)

-- ---- by functions -------------------------------------------------------------------------------

local function start_lambdas(self)
  self.lr_lambda = scheduler.per_group(self, 'lr_lambda', self.lr_lambda, 'function')
end

local function factor(self, i)
  local value = scheduler.of_group(self, 'lr_lambda', i)(self.last_epoch)
  if type(value) ~= 'number' then
    core.fail('%s: the function must return a number, for step %d it returned %s', self.__name, self.last_epoch,
      core.describe(value))
  end
  return value
end

lr.LambdaLR = define('LambdaLR(optimizer, lr_lambda: function|list, last_epoch: int >= -1 = -1)',
  'The first rates times lr_lambda(steps done), a function or a list of one for each group; functions are not saved.',
  {
    start = start_lambdas,
    rate = function(self, _, base, i) return base * factor(self, i) end,
  })

lr.MultiplicativeLR = define('MultiplicativeLR(optimizer, lr_lambda: function|list, last_epoch: int >= -1 = -1)',
  'The rates times lr_lambda(steps done) at every step, a function or a list of one for each group; functions are ' ..
  'not saved.', {
    start = start_lambdas,
    rate = function(self, rate, _, i) return self._is_initial and rate or rate * factor(self, i) end,
  })

-- ---- several schedulers -------------------------------------------------------------------------

--- Checks that the schedulers of a combination belong to its optimizer.
local function checked_schedulers(self, list)
  if #list == 0 then core.fail('%s: a list of schedulers is needed, got an empty one', self.__name) end
  for i, inner in ipairs(list) do
    if type(inner) ~= 'table' or rawget(inner, 'optimizer') == nil then
      core.fail('%s: entry %d is %s, not a scheduler', self.__name, i, core.describe(inner))
    end
    if inner.__name == 'ReduceLROnPlateau' then
      core.fail('%s: entry %d is a ReduceLROnPlateau, whose steps need a metric; call its step(metric) yourself',
        self.__name, i)
    end
    if self.optimizer ~= nil and inner.optimizer ~= self.optimizer then
      core.fail('%s: entry %d is of another optimizer', self.__name, i)
    end
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
  if #self.milestones ~= #self._schedulers - 1 then
    core.fail('SequentialLR: %d schedulers need %d milestones, got %d', #self._schedulers, #self._schedulers - 1,
      #self.milestones)
  end
  for i, step in ipairs(self.milestones) do
    if i > 1 and step < self.milestones[i - 1] then
      core.fail('SequentialLR: milestones must grow, but %d follows %d', step, self.milestones[i - 1])
    end
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
lr.SequentialLR = define('SequentialLR(optimizer, schedulers: list, milestones: ints, last_epoch: int >= -1 = -1)',
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
lr.ChainedScheduler = define('ChainedScheduler([schedulers]: list, optimizer: table = nil)',
  'All schedulers of a list at every step, one after the other.', chained)

-- ---- by a metric --------------------------------------------------------------------------------

local plateau = {}
function plateau:make()
  if self.factor >= 1 then core.fail('ReduceLROnPlateau: factor must be below 1, got %g', self.factor) end
  self.min_lrs, self.min_lr = scheduler.per_group(self, 'min_lr', self.min_lr), nil
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
lr.ReduceLROnPlateau = define("ReduceLROnPlateau(optimizer, mode: 'min'|'max' = 'min', factor: number >= 0 = 0.1, " ..
  "patience: int >= 0 = 10, threshold: number = 0.0001, threshold_mode: 'rel'|'abs' = 'rel', " ..
  'cooldown: int >= 0 = 0, min_lr: number|numbers = 0, eps: number = 1e-8)',
  'The rates times factor after more than patience steps without a better metric, sched:step(metric): better by the ' ..
  'fraction (rel) or the amount (abs) threshold. Then cooldown steps are not counted; min_lr is the lowest rate, or ' ..
  'one for each group; changes below eps are skipped.', plateau)

for name, made in pairs(require 'mtorch.optim.cyclic') do lr[name] = made end
lr.find = require 'mtorch.optim.lr_find'

return lr
