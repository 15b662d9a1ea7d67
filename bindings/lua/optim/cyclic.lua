-- cyclic.lua -- CyclicLR and OneCycleLR: cyclic learning rates, with the momentum in the opposite direction
local core = require 'mtorch.core'
local scheduler = require 'mtorch.optim.scheduler'
local per_group, of_group, groups_of = scheduler.per_group, scheduler.of_group, scheduler.groups_of

local cos, floor, pi = math.cos, math.floor, math.pi

local made = {}

--- Sets the momentum of a group, or the first of its betas.
local function move_momentum(self, group, value)
  if self.use_beta1 then group.betas = {value, group.betas[2]} else group.momentum = value end
end

--- The limits of the momentum in a cycle, as lists; the groups start with the larger value.
local function start_momentum(self)
  if not self.cycle_momentum then return end
  local defaults = rawget(self.optimizer, 'defaults') or {}
  self.use_beta1 = defaults.betas ~= nil
  if not self.use_beta1 and defaults.momentum == nil then
    core.fail('%s: %s has neither momentum nor betas; use {cycle_momentum = false}', self.__name, self.optimizer.name)
  end
  self.base_momentums = per_group(self, 'base_momentum', self.base_momentum)
  self.max_momentums = per_group(self, 'max_momentum', self.max_momentum)
  if self.last_epoch >= 0 then return end
  for i, group in ipairs(groups_of(self)) do move_momentum(self, group, self.max_momentums[i]) end
end

-- ---- CyclicLR -----------------------------------------------------------------------------------

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

made.CyclicLR = scheduler.define('CyclicLR(optimizer, base_lr: number|numbers, max_lr: number|numbers, ' ..
  "step_size_up: number > 0 = 2000, step_size_down: number > 0 = nil, mode: 'triangular'|'triangular2'|'exp_range' " ..
  "= 'triangular', gamma: number = 1, scale_fn: function = nil, scale_mode: 'cycle'|'iterations' = 'cycle', " ..
  'cycle_momentum: bool = true, base_momentum: number|numbers = 0.8, max_momentum: number|numbers = 0.9, ' ..
  'last_epoch: int >= -1 = -1)',
  'From base_lr to max_lr in step_size_up steps, back in step_size_down, cyclically (Smith 2017); momentum (or ' ..
  "the first beta) runs against it. 'triangular2' halves the height with each cycle, 'exp_range' scales it by " ..
  'gamma^step, scale_fn(cycle from 1, or step) by a function, which is not saved.', cyclic)

-- ---- OneCycleLR ---------------------------------------------------------------------------------

local once = {}

function once:start()
  if not self.total_steps then
    if not (self.epochs and self.steps_per_epoch) then
      core.fail('OneCycleLR: total_steps, or epochs and steps_per_epoch, are needed')
    end
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
  if t > self.total_steps then
    core.fail('OneCycleLR: step %d, but total_steps is %d', t, self.total_steps)
  end
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

made.OneCycleLR = scheduler.define('OneCycleLR(optimizer, max_lr: number|numbers, total_steps: int >= 1 = nil, ' ..
  'epochs: int >= 1 = nil, steps_per_epoch: int >= 1 = nil, pct_start: number >= 0 <= 1 = 0.3, ' ..
  "anneal_strategy: 'cos'|'linear' = 'cos', cycle_momentum: bool = true, base_momentum: number|numbers = 0.85, " ..
  'max_momentum: number|numbers = 0.95, div_factor: number > 0 = 25, final_div_factor: number > 0 = 10000, ' ..
  'three_phase: bool = false, last_epoch: int >= -1 = -1)',
  'One cycle in total_steps (or epochs * steps_per_epoch) steps: from max_lr / div_factor to max_lr in the fraction ' ..
  'pct_start, then down to the initial rate / final_div_factor (Smith 2018); three_phase: through the initial ' ..
  'rate. Momentum (or the first beta) changes inversely.', once)

return made
