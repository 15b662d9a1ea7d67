-- initialize.lua -- nn.init: in-place initialisation of parameters, with the formulas of torch.nn.init
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local init = {}

--- `name(tensor, ..)`: body(tensor, ..) without gradients; returns the tensor.
local function define(name, options, doc, body)
  init[name] = core.declare(('%s(tensor: tensor%s)'):format(name, options ~= '' and ', ' .. options or ''), doc,
    function(tensor, ...)
      mt.no_grad(body, tensor, ...)
      return tensor
    end)
end

--- fan_in and fan_out: the numbers of in and out channels times the kernel size.
local function fans(name, tensor)
  core.check(tensor:dim() >= 2, '%s: the tensor is %s; it needs 2 dimensions, out and in', name, tensor.shape)
  local kernel = tensor:numel() > 0 and tensor:numel() / (tensor:size(1) * tensor:size(2)) or 0
  return tensor:size(2) * kernel, tensor:size(1) * kernel
end

-- ---- gains --------------------------------------------------------------------------------------

local gains = {
  linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, conv_transpose1d = 1, conv_transpose2d = 1, conv_transpose3d = 1,
  sigmoid = 1, tanh = 5 / 3, relu = math.sqrt(2), selu = 3 / 4,
  leaky_relu = function(slope) return math.sqrt(2 / (1 + (slope or 0.01) ^ 2)) end,
}
local nonlinearity = "'" .. table.concat(util.sorted_keys(gains), "'|'") .. "'"

local function gain_of(name, param)
  local gain = gains[name]
  return type(gain) == 'function' and gain(param) or gain
end

init.calculate_gain = core.declare(('calculate_gain(nonlinearity: %s, param: number = nil)'):format(nonlinearity),
  'The gain that keeps the variance through a nonlinearity; param: the negative slope of leaky_relu.',
  gain_of)

-- ---- values -------------------------------------------------------------------------------------

define('uniform_', 'a: number = 0, b: number = 1, generator: generator = nil', 'Uniform from a to b.',
  function(tensor, a, b, generator)
    if a > b then core.fail('uniform_: a is %g and b %g; a must be at most b', a, b) end
    tensor:uniform_(a, b, generator)
  end)
define('normal_', 'mean: number = 0, std: number >= 0 = 1, generator: generator = nil',
  'Normal with this mean and standard deviation.',
  function(tensor, mean, std, generator) tensor:normal_(mean, std, generator) end)
define('constant_', 'val: number', 'The number everywhere.', function(tensor, val) tensor:fill_(val) end)
define('ones_', '', 'Ones.', function(tensor) tensor:fill_(1) end)
define('zeros_', '', 'Zeros.', function(tensor) tensor:zero_() end)

define('trunc_normal_', 'mean: number = 0, std: number > 0 = 1, a: number = -2, b: number = 2, generator: ' ..
  'generator = nil',
  'Truncated normal: this mean and standard deviation before the truncation to a..b.',
  function(tensor, mean, std, a, b, generator)
    if a >= b then core.fail('trunc_normal_: a is %g and b %g; a must be below b', a, b) end
    local ends = mt.tensor({(a - mean) / std, (b - mean) / std}, 'float64'):ndtr():tolist()
    local u = mt.empty(tensor.shape, {dtype = 'float64', device = tensor.device})
    u:uniform_(2 * ends[1] - 1, 2 * ends[2] - 1, generator)
    tensor:copy_((u:erfinv() * (std * math.sqrt(2)) + mean):clamp(a, b))
  end)

define('eye_', '', 'The identity: ones on the diagonal of a matrix, zeros elsewhere.', function(tensor)
  if tensor:dim() ~= 2 then core.fail('eye_: the tensor is %s; a matrix is needed', tostring(tensor.shape)) end
  tensor:copy_(mt.eye(tensor:size(1), tensor:size(2)))
end)

define('dirac_', 'groups: int >= 1 = 1',
  'The convolution [out x in x kernel] that is the identity for the first min(in, out) channels.',
  function(tensor, groups)
    local dims = tensor:dim()
    core.check(dims >= 3 and dims <= 5,
      'dirac_: the tensor is %s; it needs 3 to 5 dimensions, out x in x kernel', tensor.shape)
    core.check(tensor:size(1) % groups == 0,
      'dirac_: the first size is %d, which %d groups do not divide', tensor:size(1), groups)
    tensor:zero_()
    local out = tensor:size(1) / groups
    for g = 0, groups - 1 do
      for channel = 1, math.min(out, tensor:size(2)) do
        local at = {g * out + channel, channel}
        for d = 3, dims do at[d] = math.floor(tensor:size(d) / 2) + 1 end
        tensor[at] = 1
      end
    end
  end)

-- ---- by the sizes -------------------------------------------------------------------------------

--- NAME_normal_ with the standard deviation deviation(1, fan_in, fan_out, ..), and NAME_uniform_
--- with the same variance, in +-deviation(3, ..).
local function define_by_fans(name, options, docs, deviation)
  for form, doc in pairs(docs) do
    local full = name .. form
    define(full, options, doc, function(tensor, ...)
      local fan_in, fan_out = fans(full, tensor)
      if form == '_normal_' then return tensor:normal_(0, deviation(1, fan_in, fan_out, ...)) end
      local bound = deviation(3, fan_in, fan_out, ...)
      tensor:uniform_(-bound, bound)
    end)
  end
end

define_by_fans('xavier', 'gain: number = 1', {
  _uniform_ = 'Uniform in +-gain sqrt(6 / (fan_in + fan_out)) (Glorot 2010).',
  _normal_ = 'Normal with deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot 2010).',
}, function(k, fan_in, fan_out, gain) return gain * math.sqrt(2 * k / (fan_in + fan_out)) end)

define_by_fans('kaiming',
  ("a: number = 0, mode: 'fan_in'|'fan_out' = 'fan_in', nonlinearity: %s = 'leaky_relu'"):format(nonlinearity), {
    _uniform_ = 'Uniform in +-gain sqrt(3 / fan), the gain of nonlinearity; a: the slope of leaky_relu (He 2015).',
    _normal_ = 'Normal with deviation gain / sqrt(fan), the gain of nonlinearity; a: the slope of leaky_relu ' ..
      '(He 2015).',
  }, function(k, fan_in, fan_out, a, mode, kind)
    return math.sqrt(k) * (gain_of(kind, a) / math.sqrt(mode == 'fan_in' and fan_in or fan_out))
  end)

define('orthogonal_', 'gain: number = 1',
  'Orthogonal rows or columns of the tensor seen as [size 1 x rest], times gain (Saxe 2013).',
  function(tensor, gain)
    core.check(tensor:dim() >= 2, 'orthogonal_: the tensor is %s; it needs 2 dimensions', tensor.shape)
    if tensor:numel() == 0 then return end
    local rows = tensor:size(1)
    local columns = tensor:numel() / rows
    local drawn = mt.randn({math.max(rows, columns), math.min(rows, columns)}, 'float64')
    local q, r = mt.linalg.qr(drawn)
    q = q * r:diag():sign() -- uniformly distributed orthogonal matrices
    tensor:copy_(((rows < columns and q:t() or q) * gain):reshape(tensor.shape))
  end)

define('sparse_', 'sparsity: number >= 0 <= 1, std: number >= 0 = 0.01',
  'A matrix whose columns have this fraction of zeros, the others normal (Martens 2010).',
  function(tensor, sparsity, std)
    if tensor:dim() ~= 2 then core.fail('sparse_: the tensor is %s; a matrix is needed', tostring(tensor.shape)) end
    local rows, columns = tensor:size(1), tensor:size(2)
    tensor:normal_(0, std)
    local zeros = math.ceil(sparsity * rows)
    if zeros == 0 then return end
    local order = mt.rand(rows, columns):argsort(1)[{{1, zeros}}]
    tensor:scatter_(1, order:to(tensor.device), 0)
  end)

return core.strict(init, 'mt.nn.init')
