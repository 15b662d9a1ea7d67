-- activation.lua -- elementwise functions as modules
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

return {
  GELU = module.of('GELU', mt.gelu, 1, {approximate = "'none'|'tanh' = 'none'"}),
  Identity = module.define{'Identity()', 'x itself.', forward = function(_, x) return x end},
  ReLU = module.of('ReLU', mt.relu, 1),
  SiLU = module.of('SiLU', mt.silu, 1),
  Sigmoid = module.of('Sigmoid', mt.sigmoid, 1),
  Softplus = module.of('Softplus', mt.softplus, 1),
  Tanh = module.of('Tanh', mt.tanh, 1),
}
