-- dropout.lua -- dropout of elements or channels as modules
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local p = {p = 'number >= 0 <= 1 = 0.5'}

return {
  AlphaDropout = module.of(mt.alpha_dropout, 1, p, true),
  Dropout = module.of(mt.dropout, 1, p, mt.dropout_),
  Dropout1d = module.of(mt.dropout1d, 1, p, true),
  Dropout2d = module.of(mt.dropout2d, 1, p, true),
  Dropout3d = module.of(mt.dropout3d, 1, p, true),
  FeatureAlphaDropout = module.of(mt.feature_alpha_dropout, 1, p, true),
}
