-- test_conv.lua -- convolutions, pooling, interpolation, patches: values, gradients, threads, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local torch, lin, is = values.functions, values.lin, values.is
local huge = 2 ^ 53

local function shape_is(x, ...) eq(x:tolist() and {unpack(x.shape)}, {...}) end
local im = lin{1, 2, 5, 6}
local small = im[{{}, {1}, {1, 2}, {1, 3}}]

--- The definition of conv2d, element by element.
local function slow_conv(x, w, stride, padding, dilation, groups)
  local function at(y, x_) return x[{{}, {}, y, x_}] end
  local n, h, wd = x:size(1), x:size(3), x:size(4)
  local out, per, kh, kw = w:size(1), w:size(2), w:size(3), w:size(4)
  local oh = math.floor((h + 2 * padding - dilation * (kh - 1) - 1) / stride) + 1
  local ow = math.floor((wd + 2 * padding - dilation * (kw - 1) - 1) / stride) + 1
  local y = mt.zeros({n, out, oh, ow}, 'float64')
  for o = 1, out do
    local first = math.floor((o - 1) / (out / groups)) * per
    for p = 1, oh do
      for q = 1, ow do
        local sum = mt.zeros({n}, 'float64')
        for i = 1, kh do
          for j = 1, kw do
            local r = (p - 1) * stride + (i - 1) * dilation - padding + 1
            local c = (q - 1) * stride + (j - 1) * dilation - padding + 1
            if r >= 1 and r <= h and c >= 1 and c <= wd then
              local place = at(r, c):double()
              for k = 1, per do
                sum = sum + place[{{}, first + k}] * w[{o, k, i, j}]:item()
              end
            end
          end
        end
        y[{{}, o, p, q}] = sum
      end
    end
  end
  return y
end

test('values of PyTorch', function()
  is('c2', mt.conv2d(im, lin{4, 1, 2, 3}, lin{4}, 2, {1, 2}, 1, 2))
  is('ct', mt.conv_transpose2d(im[{{}, {}, {1, 2}, {1, 2}}], lin{2, 2, 2, 2}, lin{2}, {2, 1}, {1,
    0}, {1, 0}))
  is('c1_same', mt.conv1d(im[{1, {}, {1}}]:reshape(1, 2, 6), lin{1, 2, 4}, {padding = 'same'}))
  is('mp', mt.max_pool2d(im, 3, 2, 1, 1, true))
  local _, where = mt.max_pool2d(im, 3, 2, 1, 1, true, true)
  eq(where:flatten():tolist(), torch.mpi)
  is('mp1', mt.max_pool1d(im[1], 2, 2, 1, 2))
  is('ap', mt.avg_pool2d(im, {3, 2}, 2, 1, true, false))
  is('ap2', mt.avg_pool2d(im, 3, 2, 1, true, true))
  is('ap_divisor', mt.avg_pool2d(im, {kernel_size = 2, divisor_override = 3}))
  is('ap1', mt.avg_pool1d(im[1], 3, 2, 1))
  is('ad', mt.adaptive_avg_pool2d(im, {3, 4}))
  is('ad1', mt.adaptive_avg_pool2d(im, 1))
  is('near', mt.interpolate(small, {3, 5}))
  is('near2', mt.interpolate(small, {scale_factor = 1.7}))
  is('bl', mt.interpolate(small, {size = {3, 5}, mode = 'bilinear'}))
  is('blc', mt.interpolate(small, {size = {3, 5}, mode = 'bilinear', align_corners = true}))
  is('bls', mt.interpolate(small, {scale_factor = 1.7, mode = 'bilinear'}))
  is('bc', mt.interpolate(small, {size = {3, 5}, mode = 'bicubic'}))
  is('li', mt.interpolate(im[{{1}, {}, 1, {1, 3}}], {size = 5, mode = 'linear'}))
  is('uf', mt.unfold(im[{{}, {}, {1, 3}, {1, 3}}], 2, 1, 1, 2))
  is('fo', mt.fold(lin{1, 8, 4}, {4, 3}, 2, 1, 0, {2, 1}))
end)

-- Every layout of the kernel: shared, one row for each tap, read in place, 1 x 1; many channels
-- (several chunks of taps), tall images (several blocks), strides and dilations.
for _, c in ipairs{
  {2, 3, 9, 11, 5, 3, 1, 1, 1, 1}, {1, 4, 7, 8, 6, 3, 2, 1, 1, 2}, {2, 2, 12, 9, 3, 2, 3, 2, 2, 1},
  {1, 1, 40, 70, 1, 3, 1, 0, 1, 1}, {1, 40, 4, 4, 30, 3, 1, 1, 1, 1}, {1, 1300, 3, 3, 2, 1, 1, 1, 1, 1},
  {2, 6, 5, 5, 7, 1, 1, 0, 1, 1}, {1, 2, 6, 20, 14, 5, 1, 2, 1, 2}, {1, 1, 300, 3, 2, 3, 1, 1, 1, 1},
  {3, 8, 6, 6, 8, 3, 1, 1, 1, 8}, {1, 1, 33, 33, 1, 32, 1, 0, 1, 1},
} do
  local n, inputs, h, w, outputs, k, stride, padding, dilation, groups = unpack(c)
  test('conv2d by definition: ' .. table.concat(c, ' '), function()
    mt.manual_seed(3)
    local x = mt.randn({n, inputs, h, w}, 'float64')
    local weight = mt.randn({outputs, math.floor(inputs / groups), k, k}, 'float64')
    local fast = mt.conv2d(x, weight, nil, stride, padding, dilation, groups)
    near((fast - slow_conv(x, weight, stride, padding, dilation, groups)):abs():max():item(), 0,
      1e-9)
    local float = mt.conv2d(x:float(), weight:float(), nil, stride, padding, dilation, groups)
    near((float - fast):abs():max():item(), 0, 1e-4)
  end)
end

test('threads do not change a bit', function()
  t.on_threads(function()
    mt.manual_seed(9)
    local out = {}
    for _, c in ipairs{{8, 16, 14, 14, 32, 3, 1}, {2, 1, 200, 150, 8, 5, 2}, {4, 64, 8, 8, 96, 1, 1},
      {1, 128, 7, 7, 128, 3, 1}} do
      local x = mt.randn(c[1], c[2], c[3], c[4]):requires_grad_()
      local w = mt.randn(c[5], c[2], c[6], c[6]):requires_grad_()
      local y = mt.conv2d(x, w, {stride = c[7], padding = 1})
      y:square():sum():backward()
      local pooled = mt.max_pool2d(y:detach(), 2)
      for _, r in ipairs{y:detach(), x.grad, w.grad, pooled} do out[#out + 1] = r end
    end
    return unpack(out)
  end)
end)

test('unbatched, empty and one-sided inputs', function()
  local w = lin{3, 2, 2, 2}
  eq(mt.conv2d(im[1], w):equal(mt.conv2d(im, w)[1]), true)
  shape_is(mt.conv2d(mt.zeros({0, 2, 4, 4}, 'float64'), w), 0, 3, 3, 3)
  eq(mt.conv2d(mt.ones(1, 0, 3, 3), mt.ones(2, 0, 2, 2), mt.tensor{1, 2}):sum():item(), 12)
  shape_is(mt.conv1d(mt.ones(2, 5), mt.ones(3, 2, 5)), 3, 1)
  local x = mt.zeros({0, 2, 4, 4}, 'float64'):requires_grad_()
  w:requires_grad_()
  mt.conv2d(x, w):sum():backward()
  eq(w.grad:abs():sum():item(), 0)
  raises(function() mt.conv2d(im:float(), w:detach()) end, 'conv2d: the input is float32, the weight float64; use x:to')
end)

test('NaN and infinity stay where they are', function()
  local x = mt.zeros(1, 1, 3, 3)
  x[{1, 1, 1, 1}] = math.huge
  local y = mt.adaptive_avg_pool2d(x, 2)
  eq(y:flatten():tolist(), {math.huge, 0, 0, 0})
  x[{1, 1, 1, 1}] = 0 / 0
  local m = mt.max_pool2d(x, 2, 1)
  eq(m:isnan():flatten():tolist(), {true, false, false, false})
  eq(mt.max_pool2d(mt.full({1, 1, 2, 2}, -math.huge), 2):item(), -math.huge)
end)

test('anchored convolutions of MiniTorch', function()
  local x, w = mt.tensor{{{0, 1, 2, 3}}}, mt.tensor{{{1, 2, 3}}}
  eq(mt.conv1d_anchored(x, w):tolist(), {{{8, 14, 8, 3}}})
  eq(mt.conv1d_anchored(x, w, {reverse = true}):tolist(), {{{0, 1, 4, 10}}})
  local grown = mt.conv1d_anchored(mt.ones(2, 3, 4), mt.ones(5, 3, 9))
  shape_is(grown, 2, 5, 4)
  eq(grown[1][1]:tolist(), {12, 9, 6, 3})
  local image = mt.tensor{{{{1, 2}, {3, 4}}}}
  local kernel = mt.tensor{{{{1, 10}, {100, 1000}}}}
  eq(mt.conv2d_anchored(image, kernel):flatten():tolist(), {4321, 402, 43, 4})
  eq(mt.conv2d_anchored(image, kernel, true):flatten():tolist(), {1, 12, 103, 1234})
  raises(function() mt.conv1d_anchored(x, mt.ones(1, 2, 3)) end, 'has 1 channels.*expects 2')
  raises(function() mt.conv2d_anchored(x, w) end, 'conv2d_anchored: the input is %(1 x 1 x 4%)')
end)

local rows = {
  {'conv2d', function(x, w, b) return mt.conv2d(x, w, b, 1, 1) end, {2, 2, 4, 3}, {3, 2, 3, 2}, {3}},
  {'conv2d, stride, dilation, groups', function(x, w, b)
    return mt.conv2d(x, w, b, {2, 1}, {1, 2}, {1, 2}, 2)
  end, {1, 4, 4, 4}, {2, 2, 2, 2}, {2}},
  {'conv2d, same', function(x, w) return mt.conv2d(x, w, {padding = 'same'}) end, {1, 1, 3, 4}, {2,
    1, 2, 3}},
  {'conv2d 1 x 1', function(x, w) return mt.conv2d(x, w) end, {2, 2, 2, 3}, {3, 2, 1, 1}},
  {'conv1d', function(x, w) return mt.conv1d(x, w, {stride = 2, padding = 1}) end, {2, 2, 5}, {2, 2,
    3}},
  {'conv_transpose2d', function(x, w, b) return mt.conv_transpose2d(x, w, b, 2, 1, 1) end, {1, 2, 2,
    3}, {2, 2, 3, 2}, {2}},
  {'conv_transpose1d', function(x, w) return mt.conv_transpose1d(x, w, {stride = 3, groups = 2}) end,
    {1, 2, 3}, {2, 1, 2}},
  {'conv1d_anchored', function(x, w) return mt.conv1d_anchored(x, w) end, {2, 2, 4}, {2, 2, 3}},
  {'conv2d_anchored', function(x, w) return mt.conv2d_anchored(x, w, true) end, {1, 2, 3, 3}, {2, 2,
    2, 2}},
  {'max_pool2d', function(x) return mt.max_pool2d(x, 2, 1, 1):sin() end, {1, 2, 3, 3}},
  {'avg_pool2d', function(x) return mt.avg_pool2d(x, 2, 2, 1, true, false):sin() end, {1, 2, 3, 4}},
  {'adaptive', function(x) return mt.adaptive_avg_pool2d(x, {2, 3}):sin() end, {1, 1, 5, 4}},
  {'bilinear', function(x) return mt.interpolate(x, {size = {3, 5}, mode = 'bilinear'}):sin() end,
    {1, 1, 2, 3}},
  {'nearest', function(x) return mt.interpolate(x, {scale_factor = 2}):sin() end, {1, 1, 2, 2}},
  {'unfold', function(x) return mt.unfold(x, 2, 1, 1, 2):sin() end, {1, 2, 3, 3}},
  {'fold', function(x) return mt.fold(x, {3, 4}, 2):sin() end, {1, 4, 6}},
}
for _, row in ipairs(rows) do t.gradients(unpack(row)) end

test('an expanded kernel and a strided image', function()
  local wide = mt.randn({2, 2, 6, 10}, 'float64')
  local x = wide[{{}, {}, {1, 6, 2}, {1, 10, 3}}]
  local w = mt.randn({1, 1, 2, 2}, 'float64'):expand(3, 2, 2, 2)
  eq(mt.conv2d(x, w):equal(mt.conv2d(x:clone(), w:clone())), true)
end)

test('refusals', function()
  local x, w = mt.ones(1, 2, 4, 4), mt.ones(3, 2, 3, 3)
  local function bad(pattern, f, ...)
    local args, n = {...}, select('#', ...)
    raises(function() f(unpack(args, 1, n)) end, pattern)
  end
  bad('stride is 0', mt.conv2d, x, w, nil, 0)
  bad('stride is %-1', mt.conv2d, x, w, nil, {1, -1})
  bad('padding is %-1', mt.conv2d, x, w, nil, 1, -1)
  bad('padding is ' .. ('%d'):format(huge), mt.conv2d, x, w, nil, 1, huge)
  bad('dilation 1073741824 spans 2147483649', mt.conv2d, x, w, nil, 1, 0, 2 ^ 30)
  bad('spans 3, more than the input of 2', mt.conv2d, mt.ones(1, 2, 2, 4), w)
  bad('kernel has size 0', mt.conv2d, x, mt.ones(3, 2, 0, 3))
  bad('groups is 0', mt.conv2d, x, w, nil, 1, 0, 1, 0)
  bad('groups is 2, which does not divide the 3', mt.conv2d, x, w, nil, 1, 0, 1, 2)
  bad('has 2 channels.*expects 1', mt.conv2d, x, mt.ones(3, 1, 3, 3))
  bad('bias is %(2%)', mt.conv2d, x, w, mt.ones(2))
  bad('input is %(4%)', mt.conv2d, mt.ones(4), w)
  bad('weight is %(3%)', mt.conv2d, x, mt.ones(3))
  bad('int64.*float', mt.conv2d, x:long(), w)
  bad("padding is 'some'", mt.conv2d, x, w, nil, 1, 'some')
  bad("'same' needs stride 1", mt.conv2d, x, w, nil, 2, 'same')
  bad("'same' would be", mt.conv2d, x, w, nil, 1, 'same', 2 ^ 31 - 1)
  bad('stride is %(1 x 2 x 3%)', mt.conv2d, x, w, nil, {1, 2, 3})
  bad('more elements than memory', mt.conv2d, mt.ones(1, 1, 1, 1), mt.ones(1, 1, 1, 1), nil, 1,
    2 ^ 31 - 1)
  bad('output_padding is 2', mt.conv_transpose2d, x, mt.ones(2, 1, 2, 2), nil, 2, 0, 2)
  bad('gives no output', mt.conv_transpose2d, x, mt.ones(2, 1, 2, 2), nil, 1, 9)
  bad('more elements', mt.conv_transpose2d, x, mt.ones(2, 1, 2, 2), nil, 2 ^ 31 - 1)
  bad('kernel_size is 0', mt.max_pool2d, x, 0)
  bad('kernel_size is 9, .* input of 4', mt.max_pool2d, x, 9)
  bad('padding is 2, at most half', mt.max_pool2d, x, 2, 1, 2)
  bad('no element', mt.max_pool2d, x, 2, 1, 1, 5)
  bad('divisor_override is 0', mt.avg_pool2d, x, 2, 1, 0, false, true, 0)
  bad('output_size is %-2', mt.adaptive_avg_pool2d, x, -2)
  bad('not both', mt.interpolate, x, 3, 2)
  bad('scale_factor is 0', mt.interpolate, x, nil, 0)
  bad('scale_factor is nan', mt.interpolate, x, nil, 0 / 0)
  bad('mode is', mt.interpolate, x, 3, nil, 'cubic')
  bad("mode 'linear' takes", mt.interpolate, x, 3, nil, 'linear')
  bad('size is 0', mt.interpolate, x, 0)
  bad('more elements', mt.interpolate, x, 2 ^ 31 - 1)
  bad('spans 5', mt.unfold, x, 5)
  bad('dilation is 0', mt.unfold, x, 2, 0)
  bad('has 3 patches', mt.fold, mt.ones(1, 4, 3), {3, 3}, 2)
  -- Strides whose products do not fit in 64 bits; each output depends on one element.
  local far = {stride = 2 ^ 30, padding = 2 ^ 30, dilation = 2 ^ 30}
  local y, v = mt.ones(1, 1, 5, 5), mt.tensor{{1, 2}, {3, 4}}:float():view(1, 1, 2, 2)
  eq(mt.conv2d(y, v, nil, far):tolist(), {{{{4, 3}, {2, 1}}}})
  bad('not a multiple', mt.fold, mt.ones(1, 5, 4), {3, 3}, 2)
  eq(x:sum():item(), 32)
end)

t.finish()
