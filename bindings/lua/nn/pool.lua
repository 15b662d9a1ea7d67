-- pool.lua -- pooling and resizing as modules
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'

local pool = {}

for dims = 1, 3 do
  local d, kernel = dims .. 'd', dims == 1 and 'kernel_size' or '[kernel_size]'
  pool['MaxPool' .. d] = module.of(mt['max_pool' .. d], 1,
    {kernel, 'stride', 'padding', 'dilation', 'return_indices', 'ceil_mode'})
  pool['AvgPool' .. d] = module.of(mt['avg_pool' .. d], 1,
    {kernel, 'stride', 'padding', 'ceil_mode', 'count_include_pad', dims > 1 and 'divisor_override' or nil,
      divisor_override = 'int = nil'})
  pool['AdaptiveAvgPool' .. d] = module.of(mt['adaptive_avg_pool' .. d], 1, {'[output_size]'})
  if dims < 3 then
    pool['AdaptiveMaxPool' .. d] = module.of(mt['adaptive_max_pool' .. d], 1, {'[output_size]', 'return_indices'})
  end
end

pool.MaxUnpool2d = module.define{
  'MaxUnpool2d([kernel_size]: int|ints, stride: int|ints = nil, padding: int|ints = 0)',
  select(2, core.entry(mt.max_unpool2d)) .. ' Called with (x, indices, output_size=nil).',
  forward = function(self, x, indices, output_size)
    return mt.max_unpool2d(x, indices, self.kernel_size, self.stride, self.padding, output_size)
  end,
}

pool.Upsample = module.define{
  "Upsample([size]: int|ints = nil, scale_factor: number|numbers = nil, mode: 'nearest'|'nearest-exact'|'area'|" ..
    "'linear'|'bilinear'|'bicubic'|'trilinear' = 'nearest', align_corners: bool = nil)",
  select(2, core.entry(mt.interpolate)),
  forward = mt.interpolate,
}
for name, mode in pairs{UpsamplingNearest2d = 'nearest', UpsamplingBilinear2d = 'bilinear'} do
  pool[name] = module.define{
    name .. '([size]: int|ints = nil, scale_factor: number|numbers = nil)',
    ("Upsample with mode '%s'%s."):format(mode, mode == 'bilinear' and ' and align_corners' or ''),
    forward = function(self, x)
      return mt.interpolate(x, self.size, self.scale_factor, mode, mode == 'bilinear' or nil)
    end,
  }
end

return pool
