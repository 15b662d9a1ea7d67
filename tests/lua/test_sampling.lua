-- test_sampling.lua -- resampling of images: grid_sample, interpolate, unpooling, pixel shuffle
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local lin, is, slope = values.lin, values.is, values.slope
local inf, nan = math.huge, 0 / 0

local im, vol = lin{1, 2, 5, 6}, lin{1, 2, 4, 5, 3}
local grid, grid3 = lin({1, 3, 4, 2}, 1.3) * 1.6, lin({1, 2, 2, 3, 3}, 1.3) * 1.6

test('grid_sample', function()
  for _, mode in ipairs{'bilinear', 'nearest', 'bicubic'} do
    for _, beyond in ipairs{'zeros', 'border', 'reflection'} do
      for i, corners in ipairs{false, true} do
        slope(('gs_%s_%s_%d'):format(mode, beyond, i - 1), function(x, g)
          return mt.grid_sample(x, g, mode, beyond, corners)
        end, im[{{}, {1}}], grid)
      end
    end
    slope('gs3_' .. mode, function(x, g) return mt.grid_sample(x, g, mode, 'reflection') end, vol, grid3)
  end
  eq(mt.grid_sample(mt.ones(0, 2, 3, 3), mt.ones(0, 4, 4, 2)).shape, mt.zeros(0, 2, 4, 4).shape)
  eq(mt.grid_sample(mt.ones(2, 1, 3, 3), mt.ones(2, 0, 4, 2)).shape, mt.zeros(2, 1, 0, 4).shape)
end)

test('grid_sample: points that are NaN, or far outside', function()
  local x = mt.ones(1, 1, 3, 3)
  local far = mt.tensor{{{{nan, 0}, {inf, 0}, {-inf, 0}, {1e30, 0}, {0, -3e9}}}}
  for _, mode in ipairs{'bilinear', 'bicubic'} do
    local values = mt.grid_sample(x, far, mode):flatten()
    eq(values:isnan():tolist(), {true, false, false, false, false})
    eq(values[{{2, 5}}]:tolist(), {0, 0, 0, 0})
  end
  eq(mt.grid_sample(x, far, 'nearest'):flatten():tolist(), {0, 0, 0, 0, 0})
  eq(mt.grid_sample(x, far, 'bilinear', 'border'):flatten():tolist(), {1, 1, 1, 1, 1})
end)

test('points outside of an image contribute nothing, even if the image has NaN', function()
  local x = mt.full({1, 1, 3, 3}, nan)
  local out = mt.full({1, 2, 2, 2}, 5):requires_grad_()
  x:requires_grad_()
  for _, mode in ipairs{'bilinear', 'nearest', 'bicubic'} do
    local y = mt.grid_sample(x, out, mode)
    eq(y:flatten():tolist(), {0, 0, 0, 0})
    y:sum():backward()
    eq(x.grad:abs():sum():item(), 0)
    eq(out.grad:abs():sum():item(), 0)
  end
end)

test('samples of images have gradients of gradients', function()
  local x, g = im:clone():requires_grad_(), (grid * 0.5):clone():requires_grad_()
  for _, mode in ipairs{'bilinear', 'bicubic'} do
    local function sampled(a, b) return mt.grid_sample(a, b, mode) end
    assert(mt.gradcheck(sampled, {x, g}) and mt.gradgradcheck(sampled, {x, g}))
  end
  local function resized(a) return mt.interpolate(a, {size = {4, 9}, mode = 'bilinear'}):sin() end
  assert(mt.gradgradcheck(resized, {x}))
end)

test('affine_grid', function()
  for i, corners in ipairs{false, true} do
    is('ag_' .. i - 1, mt.affine_grid(lin{2, 2, 3}, {2, 1, 3, 2}, corners))
    is('ag3_' .. i - 1, mt.affine_grid(lin{1, 3, 4}, {1, 1, 3, 2, 1}, corners))
    local same = mt.affine_grid(mt.tensor({{{1, 0, 0}, {0, 1, 0}}}, 'float64'), {1, 1, 5, 6}, corners)
    near(mt.grid_sample(im, same, {align_corners = corners}):flatten():tolist(), im:flatten():tolist(), 1e-12)
  end
end)

test('interpolate', function()
  for _, mode in ipairs{'nearest-exact', 'area'} do
    is('in2_' .. mode:gsub('-', '_'), mt.interpolate(im, {size = {3, 8}, mode = mode}))
    is('in3_' .. mode:gsub('-', '_'), mt.interpolate(vol, {scale_factor = {1.5, 0.7, 2}, mode = mode}))
  end
  is('in3_tri', mt.interpolate(vol, {size = {3, 7, 2}, mode = 'trilinear'}))
  is('in3_tric', mt.interpolate(vol, {size = {3, 7, 2}, mode = 'trilinear', align_corners = true}))
  eq(mt.interpolate(mt.range(1, 4):reshape(1, 1, 4), {size = 2, mode = 'nearest-exact'}):flatten():tolist(), {2, 4})
  raises(function() mt.interpolate(im, {size = 3, mode = 'trilinear'}) end,
    "mode 'trilinear' takes %(batch x channels x depth x height x width%)")
  raises(function() mt.interpolate(vol, {size = 3, mode = 'bilinear'}) end, "mode 'bilinear' takes")
  raises(function() mt.interpolate(im, {size = 3, mode = 'exact'}) end, "mode is 'exact'; use 'nearest'")
  raises(function() mt.interpolate(im, {size = 3, mode = 'area', align_corners = true}) end,
    "align_corners is not for mode 'area'")
  raises(function() mt.interpolate(im:long(), {size = 3, mode = 'area'}) end, 'int64.*float')
end)

test('largest of parts', function()
  for _, size in ipairs{{3, 4}, {2, 2}, {7, 1}} do
    local values, index = mt.adaptive_max_pool2d(im, size, true)
    is(('am_%d%d'):format(unpack(size)), values, index - 1)
  end
  local values, index = mt.adaptive_max_pool1d(im[1], 4, {return_indices = true})
  is('am1', values, index - 1)
  eq(select('#', mt.adaptive_max_pool1d(im[1], 4)), 1)
  eq(mt.adaptive_max_pool2d(im, {-1, 1}).shape, mt.zeros(1, 2, 5, 1).shape)
  eq(mt.adaptive_max_pool2d(im, 0):numel(), 0)
  raises(function() mt.adaptive_max_pool2d(mt.ones(2, 0, 10, 10), 2) end,
    'adaptive_max_pool2d: the input %(2 x 0 x 10 x 10%) has no channels')
  raises(function() mt.adaptive_max_pool2d(im, -2) end, 'output_size is %-2')
  raises(function() mt.adaptive_max_pool2d(im, {1, 2, 3}) end, 'give one number, or 2')
  raises(function() mt.adaptive_max_pool2d(mt.ones(1, 0, 3), 2) end, 'size of 0')
end)

test('shuffles', function()
  is('pu', mt.pixel_unshuffle(im[{{}, {}, {1, 4}}], 2))
  eq(mt.pixel_shuffle(mt.pixel_unshuffle(im[{{}, {}, {1, 4}}], 2), 2):equal(im[{{}, {}, {1, 4}}]), true)
  raises(function() mt.pixel_unshuffle(im, 2) end, 'downscale_factor is 2, it does not divide.*5 x 6')
  raises(function() mt.pixel_unshuffle(im, 0) end, 'downscale_factor is 0')
end)

test('grids and maps that do not fit', function()
  local x, g = mt.ones(2, 1, 3, 3), mt.zeros(2, 2, 2, 2)
  raises(function() mt.grid_sample(x, g[{{1}}]) end, 'grid %(1 x 2 x 2 x 2%); expected %(2 x %.%. x 2%)')
  raises(function() mt.grid_sample(x, mt.zeros(2, 2, 2, 3)) end, 'expected %(2 x %.%. x 2%)')
  raises(function() mt.grid_sample(x[1], g) end, 'the input is %(1 x 3 x 3%)')
  raises(function() mt.grid_sample(x, g:double()) end, 'float32, the grid float64')
  raises(function() mt.grid_sample(mt.ones(2, 1, 0, 3), g) end, 'size of 0')
  raises(function() mt.grid_sample(x, g, 'cubic') end, "mode is 'cubic'; use")
  raises(function() mt.grid_sample(x, g, 'nearest', 'mirror') end, "padding_mode is 'mirror'; use")
  raises(function() mt.affine_grid(mt.ones(2, 2, 3), {2, 1, 3}) end, 'size is %(2 x 1 x 3%)')
  raises(function() mt.affine_grid(mt.ones(2, 2, 3), {1, 1, 3, 3}) end,
    'theta is %(2 x 2 x 3%); expected %(1 x 2 x 3%)')
  raises(function() mt.affine_grid(mt.ones(2, 2, 3), {2, 1, 0, 3}) end, 'at least 1')
  raises(function() mt.affine_grid(mt.ones(2, 2, 3), {2, 1, 2 ^ 31, 2 ^ 31}) end, 'more elements')
  raises(function() mt.affine_grid(mt.ones(2, 2, 3):long(), {2, 1, 2, 2}) end, 'theta:float')
end)

for _, row in ipairs{
  {'grid_sample', function(x, g) return mt.grid_sample(x, g * 0.7) end, {1, 2, 3, 4}, {1, 2, 2, 2}},
  {'grid_sample, bicubic', function(x, g) return mt.grid_sample(x, g * 0.7, 'bicubic', 'border', true) end,
    {1, 1, 3, 3}, {1, 2, 1, 2}},
  {'grid_sample, reflection', function(x, g) return mt.grid_sample(x, g * 2, 'bilinear', 'reflection') end,
    {1, 1, 3, 3}, {1, 2, 1, 2}},
  {'grid_sample of volumes', function(x, g) return mt.grid_sample(x, g * 0.7):sin() end, {1, 1, 2, 3, 2},
    {1, 1, 2, 1, 3}},
  {'affine_grid', function(theta) return mt.affine_grid(theta, {2, 1, 2, 3}):sin() end, {2, 2, 3}},
  {'trilinear', function(x) return mt.interpolate(x, {size = {2, 3, 1}, mode = 'trilinear'}):sin() end,
    {1, 1, 2, 2, 3}},
  {'area', function(x) return mt.interpolate(x, {size = 2, mode = 'area'}):sin() end, {1, 1, 5}},
  {'adaptive_max_pool2d', function(x) return mt.adaptive_max_pool2d(x, {2, 3}):sin() end, {1, 2, 3, 4}},
  {'pixel_unshuffle', function(x) return mt.pixel_unshuffle(x, 2):sin() end, {1, 2, 4, 2}},
} do t.gradients(unpack(row)) end

t.finish()
