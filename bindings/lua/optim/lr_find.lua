-- lr_find.lua -- optim.lr.find: training steps with increasing rates, to find the rate that learns fastest
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local function copied(value) return mt.is_tensor(value) and value:detach():clone() or value end

--- Saves parameters and the optimizer's state; returns a function that restores them.
local function remember(opt)
  local values = util.map(opt:all_parameters(), function(p) return {p, copied(p)} end)
  local state = util.map_leaves(opt:state_dict(), copied)
  return function()
    for _, pair in ipairs(values) do pair[1]:detach():copy_(pair[2]) end
    opt:load_state_dict(state)
    opt:zero_grad()
  end
end

--- The rate at which the smoothed loss decreases fastest over the logarithm of the rate; nil if it never decreases.
local function steepest(smooth, rates)
  local best, at = 0, nil
  for i = 2, #smooth - 1 do
    local slope = (smooth[i + 1] - smooth[i - 1]) / math.log(rates[i + 1] / rates[i - 1])
    if slope < best then best, at = slope, rates[i] end
  end
  return at
end

return core.declare('find(step: function, opt: table, from: number > 0 = 1e-7, to: number > 0 = 10, ' ..
  'n: int >= 3 = 100, beta: number >= 0 < 1 = 0.9)',
  'A range test of rates (Smith 2017): runs step(), a whole training step that returns its loss, n times with rates ' ..
  'that grow exponentially; ends early if the loss is four times its minimum or not finite. Returns the list ' ..
  'of rates, that of losses, and the rate where the running mean (with beta) of the loss falls fastest, or nil. ' ..
  'Parameters and the state of the optimizer are as before.',
  function(step, opt, from, to, n, beta)
    if rawget(opt, 'param_groups') == nil then core.fail('find: an optimizer is needed, got %s', core.describe(opt)) end
    if from >= to then core.fail('find: from is %g, to %g; from must be the smaller', from, to) end
    local restore = remember(opt)
    local rates, losses, smooth, mean, least = {}, {}, {}, 0, math.huge
    util.finally(restore, function()
      for i = 1, n do
        local rate = from * (to / from) ^ ((i - 1) / (n - 1))
        for _, group in ipairs(opt.param_groups) do group.lr = rate end
        local loss = util.number_in(step(), 'find: step must return its loss, it returned %s')
        mean = beta * mean + (1 - beta) * loss
        rates[i], losses[i], smooth[i] = rate, loss, mean / (1 - beta ^ i)
        least = math.min(least, smooth[i])
        if loss ~= loss or math.abs(loss) == math.huge or i > 1 and smooth[i] > 4 * math.abs(least) then break end
      end
    end)
    return rates, losses, steepest(smooth, rates)
  end)
