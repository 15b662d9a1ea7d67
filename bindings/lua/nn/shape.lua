-- shape.lua -- modules that rearrange or pad elements
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local shape = {
  ChannelShuffle = module.of(mt.channel_shuffle, 1),
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

return shape
