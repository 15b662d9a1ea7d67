-- activation.lua -- activation functions and dropout as modules
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local p = {p = 'number >= 0 <= 1 = 0.5'}

return {
  AlphaDropout = module.of(mt.alpha_dropout, 1, p, true),
  CELU = module.of(mt.celu, 1, nil, mt.celu_),
  Dropout = module.of(mt.dropout, 1, p, mt.dropout_),
  Dropout1d = module.of(mt.dropout1d, 1, p, true),
  Dropout2d = module.of(mt.dropout2d, 1, p, true),
  Dropout3d = module.of(mt.dropout3d, 1, p, true),
  ELU = module.of(mt.elu, 1, nil, mt.elu_),
  GELU = module.of(mt.gelu, 1, {approximate = "'none'|'tanh' = 'none'"}),
  GLU = module.of(mt.glu, 1),
  Hardshrink = module.of(mt.hardshrink, 1),
  Hardsigmoid = module.of(mt.hardsigmoid, 1, nil, mt.hardsigmoid_),
  Hardswish = module.of(mt.hardswish, 1, nil, mt.hardswish_),
  Hardtanh = module.of(mt.hardtanh, 1, nil, mt.hardtanh_),
  Identity = module.define{'Identity(..)', 'x itself, whatever the arguments.', forward = function(_, x) return x end},
  LeakyReLU = module.of(mt.leaky_relu, 1, nil, mt.leaky_relu_),
  LogSigmoid = module.of(mt.logsigmoid, 1),
  LogSoftmax = module.of(mt.log_softmax, 1, {'dim'}),
  Mish = module.of(mt.mish, 1, nil, mt.mish_),
  PReLU = module.define{
    'PReLU(num_parameters: int >= 1 = 1, init: number = 0.25)',
    'x, or weight * x below 0: one slope, or one for each channel (dimension 2); they begin as init (He 2015).',
    parameters = {'weight'},
    init = function(o) return mt.full({o.num_parameters}, o.init) end,
    forward = mt.prelu,
  },
  RReLU = module.of(mt.rrelu, 1, nil, true),
  ReLU = module.of(mt.relu, 1, nil, mt.relu_),
  ReLU6 = module.of(mt.relu6, 1, nil, mt.relu6_),
  SELU = module.of(mt.selu, 1, nil, mt.selu_),
  SiLU = module.of(mt.silu, 1, nil, mt.silu_),
  Sigmoid = module.of(mt.sigmoid, 1),
  Softmax = module.of(mt.softmax, 1, {'dim'}),
  Softmax2d = module.define{'Softmax2d()', 'softmax over the channels of [n x c x h x w] or [c x h x w].',
    forward = function(_, x) return mt.softmax(x, -3) end},
  Softmin = module.of(mt.softmin, 1, {'dim'}),
  Softplus = module.of(mt.softplus, 1),
  Softshrink = module.of(mt.softshrink, 1),
  Softsign = module.of(mt.softsign, 1),
  Tanh = module.of(mt.tanh, 1),
  Tanhshrink = module.of(mt.tanhshrink, 1),
  Threshold = module.of(mt.threshold, 1, nil, mt.threshold_),
}
