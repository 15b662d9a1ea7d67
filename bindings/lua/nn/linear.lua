-- linear.lua -- products with a weight
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
  extra = function(self)
    return ('(%d -> %d%s)'):format(self.in_features, self.out_features, self.bias and '' or ', no bias')
  end,
}

return linear
