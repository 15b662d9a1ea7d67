-- loss.lua -- losses as modules: called with scores and targets
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

return {
  BCELoss = module.of('BCELoss', mt.binary_cross_entropy, 2),
  BCEWithLogitsLoss = module.of('BCEWithLogitsLoss', mt.binary_cross_entropy_with_logits, 2),
  CrossEntropyLoss = module.of('CrossEntropyLoss', mt.cross_entropy, 2,
    {label_smoothing = 'number >= 0 <= 1 = 0'}),
  MSELoss = module.of('MSELoss', mt.mse_loss, 2),
}
