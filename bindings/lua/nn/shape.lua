-- shape.lua -- modules that rearrange, pad, pool or resize
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local shape = {
  Flatten = module.of(mt.flatten, 1, {start_dim = 'int = 2'}), -- all dimensions except the batch
  PixelShuffle = module.of(mt.pixel_shuffle, 1),
  PixelUnshuffle = module.of(mt.pixel_unshuffle, 1),
  Unflatten = module.define{
    'Unflatten(dim: int, unflattened_size: ints)',
    'Dimension dim seen as several; -1 for one size that follows.',
    forward = function(self, x) return mt.unflatten(x, self.dim, self.unflattened_size) end,
  },
}

--- before and after of the last dimension, then of the one before it, ..; one number is used for all.
local function sides_of(name, padding, dims)
  if type(padding) == 'table' and #padding ~= 2 * dims then
    core.fail('%s: padding is one number or %d, before and after of %s; got %s', name, 2 * dims,
      dims == 1 and 'the last dimension' or 'the last dimension, then of the one before', core.describe(padding))
  end
  if type(padding) == 'table' then return padding end
  local sides = {}
  for i = 1, 2 * dims do sides[i] = padding end
  return sides
end

local function pads(prefix, mode, dims, doc, value)
  local name = ('%s%dd'):format(prefix, dims)
  shape[name] = module.define{
    ('%s([padding]: int|ints%s)'):format(name, value and ', value: number' or ''), doc,
    forward = function(self, x)
      return mt.pad(x, sides_of(name, self.padding, dims), mode, value and self.value or nil)
    end,
  }
end
for dims = 1, 3 do
  pads('ZeroPad', 'constant', dims, 'Zeros around the last dimensions; negative sides cut off.')
  pads('ConstantPad', 'constant', dims, 'value around the last dimensions; negative sides cut off.', true)
  pads('ReflectionPad', 'reflect', dims, 'The reflection of the last dimensions around their ends.')
  pads('ReplicationPad', 'replicate', dims, 'The outermost elements again, around the last dimensions.')
  pads('CircularPad', 'circular', dims, 'The other end again, around the last dimensions.')
end

-- ---- pooling and resizing -----------------------------------------------------------------------

for dims = 1, 3 do
  local d, kernel = dims .. 'd', dims == 1 and 'kernel_size' or '[kernel_size]'
  shape['MaxPool' .. d] = module.of(mt['max_pool' .. d], 1,
    {kernel, 'stride', 'padding', 'dilation', 'return_indices', 'ceil_mode'})
  shape['AvgPool' .. d] = module.of(mt['avg_pool' .. d], 1,
    {kernel, 'stride', 'padding', 'ceil_mode', 'count_include_pad', dims > 1 and 'divisor_override' or nil,
      divisor_override = 'int = nil'})
  shape['AdaptiveAvgPool' .. d] = module.of(mt['adaptive_avg_pool' .. d], 1, {'[output_size]'})
  if dims < 3 then
    shape['AdaptiveMaxPool' .. d] = module.of(mt['adaptive_max_pool' .. d], 1, {'[output_size]', 'return_indices'})
  end
end

shape.Upsample = module.define{
  "Upsample([size]: int|ints = nil, scale_factor: number|numbers = nil, mode: 'nearest'|'nearest-exact'|'area'|" ..
    "'linear'|'bilinear'|'bicubic'|'trilinear' = 'nearest', align_corners: bool = nil)",
  select(2, core.entry(mt.interpolate)),
  forward = mt.interpolate,
}
for name, mode in pairs{UpsamplingNearest2d = 'nearest', UpsamplingBilinear2d = 'bilinear'} do
  shape[name] = module.define{
    name .. '([size]: int|ints = nil, scale_factor: number|numbers = nil)',
    ("Upsample with mode '%s'%s."):format(mode, mode == 'bilinear' and ' and align_corners' or ''),
    forward = function(self, x)
      return mt.interpolate(x, self.size, self.scale_factor, mode, mode == 'bilinear' or nil)
    end,
  }
end

return shape
