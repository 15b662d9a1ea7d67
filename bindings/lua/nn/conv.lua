-- conv.lua -- convolutions as modules, and patches as columns
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local conv = {Fold = module.of(mt.fold, 1, {'[output_size]', 'kernel_size', 'dilation', 'padding', 'stride'}),
  Unfold = module.of(mt.unfold, 1, {'[kernel_size]', 'dilation', 'padding', 'stride'})}

--- A number, which is at least `least`, for each of `dims` dimensions, from a number or a list.
local function each(name, option, given, dims, least)
  local list = {}
  for d = 1, dims do
    list[d] = type(given) == 'table' and (#given == 1 and given[1] or given[d]) or given
    if type(list[d]) ~= 'number' or type(given) == 'table' and #given > 1 and #given ~= dims then
      core.fail('%s: %s is a number or a list of %d, got %s', name, option, dims, core.describe(given))
    end
    if list[d] < (least or list[d]) then
      core.fail('%s: %s is %d, it must be at least %d', name, option, list[d], least)
    end
  end
  return list
end

--- Weight [rows x columns / groups x kernel] and bias [out], uniform in +-1/sqrt(columns / groups * kernel). Raises an
--- error for channels that groups do not divide, and for sizes that are too small.
local function draw(name, o, dims, rows, columns)
  for _, side in ipairs{'in_channels', 'out_channels'} do
    core.check(o[side] % o.groups == 0, '%s: %s is %d, which %d groups do not divide', name, side, o[side], o.groups)
  end
  local shape, fan = {rows, columns / o.groups}, columns / o.groups
  for option, least in pairs{stride = 1, padding = 0, dilation = 1, output_padding = 0} do
    if type(o[option]) ~= 'string' then each(name, option, o[option] or least, dims, least) end
  end
  for _, size in ipairs(each(name, 'kernel_size', o.kernel_size, dims, 1)) do
    shape[#shape + 1], fan = size, fan * size
  end
  for _, stride in ipairs(each(name, 'stride', o.stride, dims)) do
    core.check(stride == 1 or o.padding ~= 'same', "%s: padding 'same' needs stride 1, the stride is %d", name, stride)
  end
  local uniform = module.uniform(1 / math.sqrt(fan))
  return uniform(shape), o.bias and uniform(o.out_channels)
end

--- Padding before and after each dimension, the last one first, as mt.pad expects.
local function sides_of(self, dims)
  local sides = {}
  local kernel, dilation = each('Conv', 'kernel_size', self.kernel_size, dims), each('Conv', 'dilation', self.dilation,
    dims)
  local padding = type(self.padding) ~= 'string' and each('Conv', 'padding', self.padding, dims)
  for d = dims, 1, -1 do
    local total = padding and 2 * padding[d] or self.padding == 'same' and dilation[d] * (kernel[d] - 1) or 0
    sides[#sides + 1], sides[#sides + 2] = math.floor(total / 2), math.ceil(total / 2)
  end
  return sides
end

local extra = '{in_channels} -> {out_channels}, kernel {kernel_size}, stride, padding, output_padding, dilation, ' ..
  'groups, padding_mode, bias'

local options = "stride: int|ints = 1, padding: int|ints|'same'|'valid' = 0, dilation: int|ints = 1, " ..
  "groups: int >= 1 = 1, bias: bool = true, padding_mode: 'zeros'|'reflect'|'replicate'|'circular' = 'zeros'"

local function define(dims, apply)
  local name = ('Conv%dd'):format(dims)
  local made = module.define{
    ('%s(in_channels: int >= 1, out_channels: int >= 1, kernel_size: int|ints, %s)'):format(name, options),
    select(2, core.entry(apply)) .. '\nweight and bias uniform in +-1/sqrt(in_channels / groups * kernel); ' ..
      'padding_mode: the values beyond the edges.',
    parameters = {'weight', 'bias'},
    init = function(o) return draw(name, o, dims, o.out_channels, o.in_channels) end,
    forward = apply,
    extra = extra,
  }
  local zeros = made.forward
  function made.forward(self, x, more)
    if self.padding_mode == 'zeros' or x == nil or more ~= nil then return zeros(self, x, more) end
    local params = self.__params
    return apply(mt.pad(x, sides_of(self, dims), self.padding_mode), params.weight, params.bias, self.stride, 0,
      self.dilation, self.groups)
  end
  conv[name] = made
end
for dims = 1, 3 do define(dims, mt[('conv%dd'):format(dims)]) end

--- The output_padding for a result with the spatial sizes `asked` (or, with more entries, that shape).
local function padding_to(name, self, x, asked, dims)
  local first = x:dim() - dims
  if type(asked) ~= 'table' then asked = each(name, 'output_size', asked, dims) end
  core.check(#asked == dims or #asked == x:dim(),
    '%s: output_size has %d numbers; give %d, or %d', name, #asked, dims, x:dim())
  local numbers = {}
  for _, option in ipairs{'kernel_size', 'stride', 'padding', 'dilation'} do
    numbers[option] = each(name, option, self[option], dims)
  end
  local rest = {}
  for d = 1, dims do
    local stride = numbers.stride[d]
    local least = (x:size(first + d) - 1) * stride - 2 * numbers.padding[d] +
      numbers.dilation[d] * (numbers.kernel_size[d] - 1) + 1
    rest[d] = asked[#asked - dims + d] - least
    core.check(rest[d] >= 0 and rest[d] < stride, '%s: output_size %d of dimension %d is not possible, %d..%d are',
      name, asked[#asked - dims + d], first + d, least, least + stride - 1)
  end
  return rest
end

local function define_transposed(dims, apply)
  local name = ('ConvTranspose%dd'):format(dims)
  local bind = core.binder(name .. '(x: tensor, output_size: int|ints = nil)')
  conv[name] = module.define{
    ('%s(in_channels: int >= 1, out_channels: int >= 1, kernel_size: int|ints, stride: int|ints = 1, ' ..
      'padding: int|ints = 0, output_padding: int|ints = 0, groups: int >= 1 = 1, bias: bool = true, ' ..
      "dilation: int|ints = 1, padding_mode: 'zeros' = 'zeros')"):format(name),
    select(2, core.entry(apply)) .. '\nCalled with (x, output_size=nil): the size that the result is to have, where ' ..
      'strides allow several. weight and bias uniform in +-1/sqrt(out_channels / groups * kernel).',
    parameters = {'weight', 'bias'},
    init = function(o) return draw(name, o, dims, o.in_channels, o.out_channels) end,
    forward = function(self, x, output_size)
      local params, rest = self.__params, self.output_padding
      if type(output_size) == 'table' then x, output_size = bind(x, output_size) end
      if output_size ~= nil and mt.is_tensor(x) then rest = padding_to(name, self, x, output_size, dims) end
      return apply(x, params.weight, params.bias, self.stride, self.padding, rest, self.groups, self.dilation)
    end,
    extra = extra,
    macs = function(self, x) return x:numel() / self.in_channels * self.weight:numel() end,
  }
end
for dims = 1, 3 do define_transposed(dims, mt[('conv_transpose%dd'):format(dims)]) end

return conv
