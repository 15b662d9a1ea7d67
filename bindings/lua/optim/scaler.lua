-- scaler.lua -- mt.GradScaler: loss scaling, so that small gradients of float16 do not underflow
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local row_gradients = require 'mtorch.core.row_gradients'
local util = require 'mtorch.core.util'

local GradScaler, method = object.class{called = 's', name = 'GradScaler', word = 'scaler'}

function GradScaler:describe()
  if not self.enabled then return 'GradScaler(enabled=false)' end
  return ('GradScaler(scale=%.14g, growth_factor=%g, backoff_factor=%g, growth_interval=%d)'):format(self.factor,
    self.growth_factor, self.backoff_factor, self.growth_interval)
end

--- State that a compiled step with scaling does not depend on: `tracker`, the updates since the
--- scale changed, and `seen`, the state of each optimizer since the last update.
local books = setmetatable({}, {__mode = 'k'})
local function new_weak_table() return setmetatable({}, {__mode = 'k'}) end

local function record_of(self, opt)
  if type(opt) ~= 'table' or type(opt.param_groups) ~= 'table' then
    core.fail('GradScaler: an optimizer is needed, got ' .. core.describe(opt))
  end
  local seen = books[self].seen
  seen[opt] = seen[opt] or {}
  return seen[opt]
end

method('scale(x)', 'The loss (or a list of tensors) times the scale, which scales its gradients.',
  function(self, x)
    if not self.enabled then return x end
    if mt.is_tensor(x) then return (x * self.factor) end
    if type(x) ~= 'table' then core.fail('GradScaler: scale takes a tensor or a list, got ' .. core.describe(x)) end
    return util.map(x, function(entry) return self:scale(entry) end)
  end)

--- The gradients of an optimizer's parameters, dense and sparse; one of float16 is an error.
local function gradients_of(opt)
  local list = {}
  local function add(g, i)
    if g and g.dtype == 'float16' then
      core.fail('GradScaler: the gradient of parameter %d is float16; keep parameters in float32 and use ' ..
        'mt.autocast', i)
    end
    list[#list + 1] = g
  end
  for i, p in ipairs(opt:all_parameters()) do
    add(p.grad, i)
    add(row_gradients.values(p), i)
  end
  return list
end

--- Divides gradients by the scale; returns whether one of them is infinite or NaN in any process.
local function unscale(self, opt, gradients)
  local sizes = {} -- the largest element of each gradient, by device
  for _, g in ipairs(gradients) do
    if g:numel() > 0 then
      g:mul_(1 / self.factor)
      sizes[g.device] = sizes[g.device] or {}
      table.insert(sizes[g.device], g:norm(math.huge):float())
    end
  end
  local infinite = false
  for _, list in pairs(sizes) do
    local largest = mt.stack(list):amax():item()
    infinite = infinite or not (largest < math.huge)
  end
  return opt:any(infinite)
end

method('unscale_(opt)', "Divides the gradients of an optimizer's parameters by the scale, once, and checks whether " ..
  'all are finite.', function(self, opt)
    if not self.enabled then return end
    local record = record_of(self, opt)
    if record.stepped then core.fail('GradScaler: unscale_ after step; call update() first') end
    if record.unscaled then core.fail('GradScaler: unscale_ a second time since the last update()') end
    local gradients = gradients_of(opt)
    record.unscaled, record.infinite = true, mt.no_grad(unscale, self, opt, gradients)
  end)

method('step(opt, closure=nil)', "The optimizer's step, unless a gradient is infinite or NaN; unscales first if " ..
  'that was not done.', function(self, opt, closure)
    if closure ~= nil then core.fail('GradScaler: step takes no closure') end
    if not self.enabled then return opt:step() end
    local record = record_of(self, opt)
    if record.stepped then core.fail('GradScaler: step a second time since the last update()') end
    if not record.unscaled then self:unscale_(opt) end
    record.stepped = true
    if not record.infinite then return opt:step() end
  end)

method('update(new_scale: finite > 0 = nil)', 'After the steps: the scale shrinks if a gradient was not ' ..
  'finite, and grows after growth_interval updates without that. A number sets it.', function(self, new_scale)
    if not self.enabled then return end
    local book, looked, infinite = books[self], new_scale ~= nil, false
    for _, record in pairs(book.seen) do
      looked = looked or record.unscaled
      infinite = infinite or record.infinite
    end
    if not looked then core.fail('GradScaler: update before any step(opt) or unscale_(opt)') end
    if new_scale then
      self.factor = new_scale
    elseif infinite then
      self.factor, book.tracker = self.factor * self.backoff_factor, 0
    else
      book.tracker = book.tracker + 1
      if book.tracker >= self.growth_interval then
        local grown = self.factor * self.growth_factor
        self.factor, book.tracker = grown < 3e38 and grown or self.factor, 0 -- within float32
      end
    end
    book.seen = new_weak_table()
  end)

method('get_scale()', 'The scale, 1 if it is not enabled.',
  function(self) return self.enabled and self.factor or 1 end)
method('is_enabled()', 'Whether it scales.', function(self) return self.enabled end)

method('state_dict()', 'The scale and the options, for load_state_dict; {} if it is not enabled.', function(self)
  if not self.enabled then return {} end
  return {scale = self.factor, growth_factor = self.growth_factor, backoff_factor = self.backoff_factor,
          growth_interval = self.growth_interval, _growth_tracker = books[self].tracker}
end)

local saved = {scale = 'finite > 0', growth_factor = 'finite > 1', backoff_factor = 'number > 0 < 1',
  growth_interval = 'int >= 1', _growth_tracker = 'int >= 0'}

method('load_state_dict(state)', 'Restores the result of state_dict() of an enabled scaler.', function(self, state)
  if not self.enabled then return self end
  for key in pairs(saved) do
    core.check(type(state) == 'table' and state[key] ~= nil,
      'GradScaler: load_state_dict needs what state_dict() of an enabled one returned, got %s', core.describe(state))
  end
  core.check_options('GradScaler', state, saved)
  self.factor, books[self].tracker = state.scale, state._growth_tracker
  self.growth_factor, self.backoff_factor = state.growth_factor, state.backoff_factor
  self.growth_interval = state.growth_interval
  return self
end)

return {GradScaler = object.constructor(GradScaler, 'GradScaler(init_scale: finite > 0 = 65536, growth_factor: ' ..
  'finite > 1 = 2, backoff_factor: number > 0 < 1 = 0.5, growth_interval: int >= 1 = 2000, enabled: bool = true)',
  'Scales a loss so that small gradients of float16 do not become 0, as torch.amp.GradScaler: ' ..
  's:scale(loss):backward(), s:step(opt), s:update(); also s:unscale_(opt), s:get_scale(), s:state_dict(). Steps ' ..
  'with infinite or NaN gradients are skipped and shrink the scale.',
  function(self) self.factor, books[self] = self.init_scale, {tracker = 0, seen = new_weak_table()} end)}
