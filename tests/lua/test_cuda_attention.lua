-- test_cuda_attention.lua -- attention of 16-bit floats by the GPU's own kernels, against the composition in float64
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()
local attend = mt.scaled_dot_product_attention

--- A tensor on the GPU, and what it was rounded to in float64.
local function both(dtype, ...)
  local given = mt.randn({...}, {dtype = 'float64'}):to(dtype)
  return given:cuda():requires_grad_(), given:double():requires_grad_()
end
--- What ran on the GPU.
local function kernels_of(f)
  local report = mt.profile(f)
  return tostring(report)
end
local tolerance = {bfloat16 = 2e-2, float16 = 3e-3}

local function near(got, wanted, dtype, what)
  t.eq(got.dtype, dtype)
  t.eq(tostring(got.shape), tostring(wanted.shape))
  local worst = (got:cpu():double() - wanted):abs():max():item()
  local size = math.max(wanted:abs():max():item(), 0.05)
  assert(worst <= tolerance[dtype] * size, ('%s: %g of %g'):format(what, worst, size))
end

--- Result and gradients agree; sizes: batch, heads, shared heads, queries, keys, features, of values.
local function compare(dtype, sizes, options)
  local b, h, s, l, n, e, f = unpack(sizes)
  options.enable_gqa = h ~= s
  local q, q64 = both(dtype, b, h, l, e)
  local k, k64 = both(dtype, b, s, n, e)
  local v, v64 = both(dtype, b, s, n, f or e)
  local y, y64 = attend(q, k, v, options), attend(q64, k64, v64, options)
  near(y, y64:detach(), dtype, 'result')
  local g, g64 = both(dtype, b, h, l, f or e)
  y:backward(g:detach())
  y64:backward(g64:detach())
  for i, pair in ipairs{{q, q64}, {k, k64}, {v, v64}} do near(pair[1].grad, pair[2].grad, dtype, 'gradient ' .. i) end
end

t.test('lengths that fill no tile, features, both dtypes', function()
  mt.manual_seed(1)
  for i, e in ipairs{32, 64, 96, 128} do
    local dtype = i % 2 == 0 and 'bfloat16' or 'float16'
    compare(dtype, {1, 2, 2, 130, 70, e}, {is_causal = true})
    compare(dtype, {2, 1, 1, 33, 140, e}, {})
  end
  compare('float16', {1, 1, 1, 1, 1, 64}, {is_causal = true})
  compare('bfloat16', {1, 1, 1, 40, 1, 64}, {})
  compare('bfloat16', {1, 1, 1, 20, 20, 8, 24}, {is_causal = true, scale = 0.7}) -- of values: others
  compare('float16', {1, 1, 1, 20, 20, 104, 72}, {})
end)
