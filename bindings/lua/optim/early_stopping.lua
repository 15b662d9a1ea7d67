-- early_stopping.lua -- optim.EarlyStopping: detects that a value has not improved for some time
local core = require 'mtorch.core'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

local EarlyStopping, method = object.class{called = 'stop', name = 'EarlyStopping'}

function EarlyStopping:describe()
  local best = self.steps == 0 and 'no value yet' or
    ('best %.6g at step %d of %d'):format(self.best, self.best_step, self.steps)
  return ("EarlyStopping(patience=%d, min_delta=%g, mode='%s'): %s%s"):format(self.patience, self.min_delta, self.mode,
    best, self.stopped and ', stopped' or '')
end

method('step(value)', 'Takes the value of an epoch, a number or a tensor of one; returns true when `patience` ' ..
  'values in a row were not better than the best by more than min_delta, else false. NaN is not better.',
  function(self, value)
    value = util.number_in(value, 'EarlyStopping: step needs a number or a tensor of one, got %s')
    self.steps = self.steps + 1
    local sign = self.mode == 'min' and -1 or 1
    self.improved = sign * value > sign * self.best + self.min_delta
    if self.improved then
      self.best, self.best_step, self.count = value, self.steps, 0
    else
      self.count = self.count + 1
    end
    self.stopped = self.count >= self.patience
    return self.stopped
  end)

local fields = {best = 'number', best_step = 'number', count = 'number', steps = 'number', stopped = 'boolean'}

method('state_dict()', 'The best value, its step, and the number of values since.', function(self)
  local state = {}
  for key in pairs(fields) do state[key] = self[key] end
  return state
end)

method('load_state_dict(state)', 'Restores the result of state_dict().', function(self, state)
  for key, kind in pairs(fields) do
    core.check(type(state) == 'table' and type(state[key]) == kind, 'load_state_dict: it is not what state_dict() ' ..
      'of an EarlyStopping returned, got %s', core.describe(type(state) == 'table' and state[key] or state))
  end
  for key in pairs(fields) do self[key] = state[key] end
  return self
end)

return object.constructor(EarlyStopping,
  "EarlyStopping(patience: int >= 1 = 10, min_delta: number >= 0 = 0, mode: 'min'|'max' = 'min')",
  'if stop:step(validation_loss) then break end: true when the value was not better than the best (stop.best, from ' ..
  'step stop.best_step; stop.improved: whether this one was) by more than min_delta, patience times in a row. ' ..
  'state_dict and load_state_dict as of optimizers.',
  function(self)
    self.steps, self.count, self.best_step, self.stopped, self.improved = 0, 0, 0, false, false
    self.best = self.mode == 'min' and math.huge or -math.huge
  end)
