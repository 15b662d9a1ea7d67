-- scaler.lua -- mt.GradScaler: keeps the small gradients of float16 from becoming 0
local core = require 'mtorch.core'
local mt = require 'mtorch'

local GradScaler = {}
GradScaler.__index = core.members(GradScaler, 'GradScaler', 'scaler')

function GradScaler:__tostring()
  if not self.enabled then return 'GradScaler(enabled=false)' end
  return ('GradScaler(scale=%.14g, growth_factor=%g, backoff_factor=%g, growth_interval=%d)'):format(self.factor,
    self.growth_factor, self.backoff_factor, self.growth_interval)
end

local function check(name, value, low, open)
  if type(value) ~= 'number' or not (open and value > low or not open and value >= low) or value == math.huge then
    core.fail(('GradScaler: %s must be a number %s %g, got %s'):format(name, open and 'above' or 'from', low,
      core.describe(value)))
  end
  return value
end

--- What is known about an optimizer since the last update.
local function record_of(self, opt)
  if type(opt) ~= 'table' or type(opt.param_groups) ~= 'table' then
    core.fail('GradScaler: an optimizer is needed, got ' .. core.describe(opt))
  end
  local record = self.seen[opt]
  if not record then
    record = {}
    self.seen[opt] = record
  end
  return record
end

--- The loss (or a list of tensors) times the scale: its gradients are that much larger.
function GradScaler:scale(x)
  if not self.enabled then return x end
  if mt.is_tensor(x) then return (x * self.factor) end
  if type(x) ~= 'table' then core.fail('GradScaler: scale takes a tensor or a list, got ' .. core.describe(x)) end
  local scaled = {}
  for i, entry in ipairs(x) do scaled[i] = self:scale(entry) end
  return scaled
end

--- Divides the gradients of an optimizer's parameters by the scale, once, and looks whether all are finite.
function GradScaler:unscale_(opt)
  if not self.enabled then return end
  local record = record_of(self, opt)
  if record.stepped then core.fail('GradScaler: unscale_ after step; call update() first') end
  if record.unscaled then core.fail('GradScaler: unscale_ a second time since the last update()') end
  for _, group in ipairs(opt.param_groups) do
    for i, p in ipairs(group.params) do
      if p.grad and p.grad.dtype == 'float16' then
        core.fail(('GradScaler: the gradient of parameter %d is float16; keep parameters in float32 and ' ..
          'use mt.autocast'):format(i))
      end
    end
  end
  local sizes = {} -- the largest of each gradient, by device
  mt.no_grad(function()
    for _, group in ipairs(opt.param_groups) do
      for _, p in ipairs(group.params) do
        local g = p.grad
        if g and g:numel() > 0 then
          g:mul_(1 / self.factor)
          local on = sizes[g.device] or {}
          sizes[g.device] = on
          on[#on + 1] = g:norm(math.huge):float()
        end
      end
    end
  end)
  record.unscaled, record.infinite = true, false
  for _, list in pairs(sizes) do
    local most = mt.stack(list):amax():item()
    if most ~= most or most == math.huge then record.infinite = true end
  end
end

--- The optimizer's step, unless a gradient is infinite or NaN; unscales first where that was not done.
function GradScaler:step(opt, closure)
  if closure ~= nil then core.fail('GradScaler: step takes no closure') end
  if not self.enabled then return opt:step() end
  local record = record_of(self, opt)
  if record.stepped then core.fail('GradScaler: step a second time since the last update()') end
  if not record.unscaled then self:unscale_(opt) end
  record.stepped = true
  if not record.infinite then return opt:step() end
end

--- After the steps: the scale shrinks where a gradient was not finite, and grows after growth_interval
--- updates without. A number sets it.
function GradScaler:update(new_scale)
  if not self.enabled then return end
  if new_scale ~= nil then
    self.factor = check('the new scale', new_scale, 0, true)
  else
    local looked, infinite = false, false
    for _, record in pairs(self.seen) do
      looked = looked or record.unscaled
      infinite = infinite or record.infinite
    end
    if not looked then core.fail('GradScaler: update before any step(opt) or unscale_(opt)') end
    if infinite then
      self.factor, self.tracker = self.factor * self.backoff_factor, 0
    else
      self.tracker = self.tracker + 1
      if self.tracker >= self.growth_interval then
        local grown = self.factor * self.growth_factor
        self.factor, self.tracker = grown < 3e38 and grown or self.factor, 0 -- float32 holds it
      end
    end
  end
  self.seen = setmetatable({}, {__mode = 'k'})
end

--- The scale, 1 where it is not enabled.
function GradScaler:get_scale() return self.enabled and self.factor or 1 end
function GradScaler:is_enabled() return self.enabled end

function GradScaler:state_dict()
  if not self.enabled then return {} end
  return {scale = self.factor, growth_factor = self.growth_factor, backoff_factor = self.backoff_factor,
          growth_interval = self.growth_interval, _growth_tracker = self.tracker}
end

function GradScaler:load_state_dict(state)
  if not self.enabled then return self end
  if type(state) ~= 'table' or state.scale == nil then
    core.fail('GradScaler: load_state_dict needs what state_dict() of an enabled one returned, got ' ..
      core.describe(state))
  end
  self.factor = check('scale', state.scale, 0, true)
  self.growth_factor = check('growth_factor', state.growth_factor, 1, true)
  self.backoff_factor = check('backoff_factor', state.backoff_factor, 0, true)
  self.growth_interval = check('growth_interval', state.growth_interval, 1)
  self.tracker = check('_growth_tracker', state._growth_tracker, 0)
  return self
end

return {GradScaler = core.declare(
  'GradScaler(init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000, enabled=true)',
  'Scales a loss so that small gradients of float16 do not become 0, as torch.amp.GradScaler: ' ..
  's:scale(loss):backward(), s:step(opt), s:update(); also s:unscale_(opt), s:get_scale(), s:state_dict(). Steps ' ..
  'with infinite or NaN gradients are left out and shrink the scale.',
  function(init_scale, growth_factor, backoff_factor, growth_interval, enabled)
    local self = setmetatable({
      factor = check('init_scale', init_scale or 65536, 0, true),
      growth_factor = check('growth_factor', growth_factor or 2, 1, true),
      backoff_factor = check('backoff_factor', backoff_factor or 0.5, 0, true),
      growth_interval = check('growth_interval', growth_interval or 2000, 1),
      enabled = enabled ~= false,
      tracker = 0,
      seen = setmetatable({}, {__mode = 'k'}),
    }, GradScaler)
    if self.backoff_factor >= 1 then
      core.fail(('GradScaler: backoff_factor must be below 1, got %g'):format(self.backoff_factor))
    end
    return self
  end)}
