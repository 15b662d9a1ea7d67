-- linear.lua -- linear layers
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local linear = {}

linear.Linear = module.define{
  'Linear(in_features: int >= 1, out_features: int >= 1, bias: bool = true)',
  "x . weight' + bias; weight [out x in] and bias uniform in +-1/sqrt(in).",
  parameters = {'weight', 'bias'},
  init = function(o)
    local uniform = module.uniform(1 / math.sqrt(o.in_features))
    return uniform(o.out_features, o.in_features), o.bias and uniform(o.out_features)
  end,
  forward = mt.linear,
  extra = '{in_features} -> {out_features}, bias',
}

linear.Bilinear = module.define{
  'Bilinear(in1_features: int >= 1, in2_features: int >= 1, out_features: int >= 1, bias: bool = true)',
  "x1 . weight[o] . x2 + bias for each output o; weight [out x in1 x in2] and bias uniform in +-1/sqrt(in1).",
  parameters = {'weight', 'bias'},
  init = function(o)
    local uniform = module.uniform(1 / math.sqrt(o.in1_features))
    return uniform(o.out_features, o.in1_features, o.in2_features), o.bias and uniform(o.out_features)
  end,
  forward = mt.bilinear,
}

return linear
