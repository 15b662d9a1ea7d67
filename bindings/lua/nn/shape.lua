-- shape.lua -- modules that arrange elements anew
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

return {
  Flatten = module.of('Flatten', mt.flatten, 1, {first = 'int = 2'}), -- all but the batch
  PixelShuffle = module.of('PixelShuffle', mt.pixel_shuffle, 1),
}
