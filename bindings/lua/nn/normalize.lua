-- normalize.lua -- normalisation layers: batch, instance, layer, group, RMS
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'
local is_tensor = mt.is_tensor

local normalize = {}

-- ---- with running statistics --------------------------------------------------------------------

local running = {'running_mean', 'running_var', 'num_batches_tracked'}

--- Weight and bias if affine, and the running statistics if they are tracked.
local function channels(name, o)
  if o.momentum == true then core.fail('%s: momentum must be a number or false, got true', name) end
  local n, tracked = o.num_features, o.track_running_stats
  return o.affine and mt.ones(n), o.affine and mt.zeros(n), tracked and mt.zeros(n), tracked and mt.ones(n),
    tracked and mt.zeros({}, 'int64')
end

local function check_dims(self, x, low, high)
  local dims = is_tensor(x) and x:dim()
  if dims and dims >= low and dims <= high then return end
  core.fail('%s: the input is %s; expected %d%s dimensions, batch and channels first', self.__name,
    core.describe(x), low, low ~= high and (high > low + 1 and ' to ' or ' or ') .. high or '')
end

--- Counts a batch, and returns its weight in the running statistics: momentum, or equal weights for all batches, or 0
--- when mt.recompute runs forward a second time.
local function momentum_of(self, params)
  if core.is_rerun then return 0 end
  local momentum, batches = self.momentum, params.num_batches_tracked
  if not self.training or batches == nil then return momentum or 0 end
  batches:add_(1)
  return momentum or 1 / batches:item()
end

--- BatchNorm and InstanceNorm over `low` to `high` dimensions; `on` is the default of affine and
--- track_running_stats; apply(self, x, params, training, momentum) normalises.
local function with_statistics(name, low, high, on, doc, apply)
  normalize[name] = module.define{
    ('%s(num_features: int >= 1, eps: number >= 0 = 1e-5, momentum: number|bool = 0.1, affine: bool = %s, ' ..
      'track_running_stats: bool = %s)'):format(name, on, on), doc,
    parameters = {'weight', 'bias'}, buffers = running,
    init = function(o) return channels(name, o) end,
    forward = function(self, x)
      check_dims(self, x, low, high)
      local params = self.__params
      return apply(self, x, params, self.training or params.running_mean == nil)
    end,
    extra = '{num_features}, eps, momentum, affine, track_running_stats',
  }
end

for dims = 1, 3 do
  with_statistics(('BatchNorm%dd'):format(dims), dims == 1 and 2 or dims + 2, dims + 2, true,
    'Mean 0 and variance 1 of each channel (dimension 2), times weight, plus bias; in training by the batch, whose ' ..
      'statistics update the running ones by momentum (false: their mean over all batches), else by the running ones.',
    function(self, x, params, training)
      return mt.batch_norm(x, params.running_mean, params.running_var, params.weight, params.bias, training,
        momentum_of(self, params), self.eps)
    end)
  with_statistics(('InstanceNorm%dd'):format(dims), dims + 1, dims + 2, false,
    'Mean 0 and variance 1 of each channel of each image, times weight, plus bias. With track_running_stats the ' ..
      'running statistics, which training updates by momentum, are used in evaluation. The batch is optional.',
    function(self, x, params, training)
      local alone = x:dim() == dims + 1
      local y = mt.instance_norm(alone and x:unsqueeze(1) or x, params.running_mean, params.running_var, params.weight,
        params.bias, training, not core.is_rerun and self.momentum or 0, self.eps)
      return alone and y:squeeze(1) or y
    end)
end

--- The sum of a tensor over all processes; every process's result depends on it, so gradients are summed as well.
local function summed(x) return mt.dist.all_reduce_(x:clone()) end
local sum_of_processes = mt.Function{name = 'SyncBatchNorm', forward = function(_, x) return summed(x) end,
  backward = function(_, g) return summed(g) end}

with_statistics('SyncBatchNorm', 2, 5, true,
  'BatchNorm whose batch in training is that of all processes of mt.dist, which must make as many forward and ' ..
    'backward passes; their parts of the batch may differ in size. With one process it equals BatchNorm.',
  function(self, x, params, training)
    local mean, var, momentum = params.running_mean, params.running_var, momentum_of(self, params)
    if not training or mt.dist.size() == 1 then
      return mt.batch_norm(x, mean, var, params.weight, params.bias, training, momentum, self.eps)
    end
    local dims, shape = {1}, {1, self.num_features}
    for d = 3, x:dim() do dims[#dims + 1], shape[d] = d, 1 end
    local wide = x.dtype == 'float64' and x or x:float()
    local count = wide:new_full({1}, x:numel() / self.num_features)
    local sums = sum_of_processes(mt.cat{wide:sum(dims), count})
    local n = sums:detach():narrow(1, self.num_features + 1, 1):item()
    local centre = sums:narrow(1, 1, self.num_features) / n
    local far = wide - centre:view(shape)
    local spread = sum_of_processes((far * far):sum(dims)) / n
    if mean then
      mt.no_grad(function()
        mean:lerp_(centre:to(mean.dtype), momentum)
        var:lerp_((spread * (n / math.max(n - 1, 1))):to(var.dtype), momentum)
      end)
    end
    local y = far * (spread + self.eps):rsqrt():view(shape)
    if params.weight then y = y * params.weight:view(shape) + params.bias:view(shape) end
    return y:to(x.dtype)
  end)

-- ---- of each example alone ----------------------------------------------------------------------

--- Raises an error for a normalized_shape without sizes, or with sizes below 1.
local function check_shape(name, o)
  local shape = type(o.normalized_shape) == 'table' and o.normalized_shape or {o.normalized_shape}
  core.check(#shape > 0 and math.min(unpack(shape)) >= 1,
    '%s: normalized_shape is {%s}, expected one or more sizes from 1', name, table.concat(shape, ', '))
end

normalize.LayerNorm = module.define{
  'LayerNorm([normalized_shape]: int|ints, eps: number >= 0 = 1e-5, elementwise_affine: bool = true, ' ..
    'bias: bool = true)',
  'Mean 0 and variance 1 over the last dimensions, whose sizes are normalized_shape, times weight, plus bias.',
  parameters = {'weight', 'bias'},
  init = function(o)
    check_shape('LayerNorm', o)
    local affine = o.elementwise_affine
    return affine and mt.ones(o.normalized_shape), affine and o.bias and mt.zeros(o.normalized_shape)
  end,
  forward = mt.layer_norm,
}

normalize.RMSNorm = module.define{
  'RMSNorm([normalized_shape]: int|ints, eps: number >= 0 = nil, elementwise_affine: bool = true)',
  'The input over the root of its mean square (plus eps, the precision of its dtype) over the last dimensions, ' ..
    'times weight.',
  parameters = {'weight'},
  init = function(o)
    check_shape('RMSNorm', o)
    return o.elementwise_affine and mt.ones(o.normalized_shape)
  end,
  forward = mt.rms_norm,
}

normalize.GroupNorm = module.define{
  'GroupNorm(num_groups: int >= 1, num_channels: int >= 1, eps: number >= 0 = 1e-5, affine: bool = true)',
  'Mean 0 and variance 1 over each group of channels of each image, times weight, plus bias.',
  parameters = {'weight', 'bias'},
  init = function(o)
    core.check(o.num_channels % o.num_groups == 0,
      'GroupNorm: num_channels is %d, which %d groups do not divide', o.num_channels, o.num_groups)
    return o.affine and mt.ones(o.num_channels), o.affine and mt.zeros(o.num_channels)
  end,
  forward = mt.group_norm,
}

return normalize
