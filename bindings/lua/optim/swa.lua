-- swa.lua -- mt.optim.swa: averages of a network's parameters, as torch.optim.swa_utils
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'

local swa = {}

-- ---- the averaged network -----------------------------------------------------------------------

local AveragedModel = class.class 'AveragedModel'
swa.AveragedModel = AveragedModel

class.options_constructor(AveragedModel, 'AveragedModel(model: any, device: device = nil, avg_fn: function = nil, ' ..
  'use_buffers: bool = false, ema: number >= 0 <= 1 = nil)',
  'A copy of a network whose parameters are averages over calls of avg:update_parameters(net): the mean ' ..
  '(SWA, Izmailov 2018), with ema = 0.999 an exponential moving average, or the result of ' ..
  'avg_fn(averaged, current, n_averaged). Buffers are copied, or averaged too with use_buffers.',
  {model = true, device = true}, false,
  function(self, o)
    class.check_module('AveragedModel', o.model)
    if o.avg_fn and o.ema then core.fail('AveragedModel: avg_fn or ema, not both') end
    self.module = o.model:clone()
    if o.device then self.module:to(o.device) end
    self.n_averaged = class.Buffer(mt.zeros({}, 'int64'))
  end)

function AveragedModel:forward(...) return self.module(...) end

--- Averages floats with the current value, and copies counters.
local function average(self, averaged, current, n)
  local to, from = averaged:detach(), current:detach():to(averaged.device)
  if n == 0 or not to:is_floating_point() then to:copy_(from)
  elseif self.avg_fn then to:copy_(self.avg_fn(to, from, n))
  else to:lerp_(from, self.ema and 1 - self.ema or 1 / (n + 1)) end
end

local function check_alike(mine, theirs, what)
  core.check(#mine == #theirs, 'update_parameters: the network has %d %s, the averaged one %d', #theirs, what, #mine)
  for i, p in ipairs(mine) do
    if p.shape ~= theirs[i].shape then
      core.fail('update_parameters: %s %d is %s, in the averaged network %s', what:sub(1, -2), i,
        tostring(theirs[i].shape), tostring(p.shape))
    end
  end
end

--- Includes the parameters of a network in the mean; the first call copies them.
function AveragedModel:update_parameters(model)
  class.check_module('update_parameters', model)
  if core.step_recording then -- Lua code is not replayed
    core.step_recording:refuse('update_parameters: an average cannot count inside a compiled step; call it after it')
  end
  local n = self.n_averaged:item()
  local mine, theirs = self.module:parameters(), model:parameters()
  check_alike(mine, theirs, 'parameters')
  local buffers, current = self.module:buffers(), model:buffers()
  check_alike(buffers, current, 'buffers')
  mt.no_grad(function()
    for i, p in ipairs(mine) do average(self, p, theirs[i], n) end
    for i, b in ipairs(buffers) do average(self, b, current[i], self.use_buffers and n or 0) end
    self.n_averaged:add_(1)
  end)
end

-- ---- statistics of normalisations ---------------------------------------------------------------

swa.update_bn = core.declare('update_bn(loader, model: table, device: device = nil)',
  "The running means and variances of a network's batch normalisations, recomputed in one pass over a loader (the " ..
  'first value of each batch), a list of batches or an iterator, because averaged parameters change them.',
  function(loader, model, device)
    class.check_module('update_bn', model)
    local norms, was_training = {}, model.training
    local function is_instance_norm(m) -- whose statistics are not means over batches
      return class.is(m, 'InstanceNorm1d') or class.is(m, 'InstanceNorm2d') or class.is(m, 'InstanceNorm3d')
    end
    for _, inner in ipairs(model:modules()) do
      if inner.running_mean and inner.running_var and inner.num_batches_tracked and not is_instance_norm(inner) then
        norms[#norms + 1] = {inner, inner.momentum}
      end
    end
    if #norms == 0 then return end
    local batches = util.batches('update_bn', loader)
    for _, norm in ipairs(norms) do
      local inner = norm[1]
      inner.running_mean:zero_()
      inner.running_var:fill_(1)
      inner.num_batches_tracked:zero_()
      inner.momentum = false -- averages over all batches
    end
    model:train()
    util.finally(function()
      for _, norm in ipairs(norms) do norm[1].momentum = norm[2] end
      model:train(was_training)
    end, mt.no_grad, function()
      for x in batches do
        if type(x) == 'table' then x = x[1] end
        model(device and x:to(device) or x)
      end
    end)
  end)

return swa
