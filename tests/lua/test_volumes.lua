-- test_volumes.lua -- convolution and pooling over three dimensions: PyTorch's values, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local lin, is, slope = values.lin, values.is, values.slope

local vol = lin{1, 2, 4, 5, 3}

test('values of PyTorch', function()
  slope('c3', function(x, w, b)
    return mt.conv3d(x, w, b, {1, 2, 1}, {1, 2, 0}, {2, 1, 1}, 2)
  end, vol, lin{4, 1, 2, 3, 2}, lin{4})
  is('c3s', mt.conv3d(vol, lin{1, 2, 2, 3, 4}, {padding = 'same'}))
  slope('ct3', function(x, w, b)
    return mt.conv_transpose3d(x, w, b, {2, 1, 2}, {1, 0, 1}, {1, 0, 0}, 2, {2, 1, 1})
  end, vol, lin{2, 2, 2, 1, 3}, lin{4})
  local values, index = mt.max_pool3d(vol, {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, 1, true, true)
  is('mp3', values, index - 1)
  values, index = mt.max_pool3d(vol, 2, 1, 0, {2, 3, 1}, false, true)
  is('mp3d', values, index - 1)
  is('ap3', mt.avg_pool3d(vol, {2, 3, 2}, 2, {1, 1, 0}, true, false))
  is('ap3i', mt.avg_pool3d(vol, {2, 3, 2}, 2, {1, 1, 0}, true))
  is('ap3d', mt.avg_pool3d(vol, {kernel_size = 2, divisor_override = 3}))
  is('ad3', mt.adaptive_avg_pool3d(vol, {3, 2, -1}))
end)

test('slices of depth 1 are conv2d', function()
  local x, w, b = lin{2, 3, 1, 5, 4}, lin({4, 3, 1, 2, 3}, 0.9), lin{4}
  near((mt.conv3d(x, w, b, 1, {0, 1, 1}) - mt.conv2d(x:squeeze(3), w:squeeze(3), b, 1, 1):unsqueeze(3)):abs()
    :max():item(), 0, 1e-14)
  eq(mt.max_pool3d(x, {1, 2, 2}):squeeze(3):equal(mt.max_pool2d(x:squeeze(3), 2)), true)
end)

test('without a batch, of nothing, and in float32', function()
  local w = lin{3, 2, 2, 2, 2}
  eq(mt.conv3d(vol[1], w):equal(mt.conv3d(vol, w)[1]), true)
  eq(mt.conv_transpose3d(vol[1], lin{2, 3, 2, 2, 2}):dim(), 4)
  eq(mt.max_pool3d(vol[1], 2):equal(mt.max_pool3d(vol, 2)[1]), true)
  eq(mt.conv3d(mt.zeros({0, 2, 4, 4, 4}, 'float64'), w).shape, mt.zeros(0, 3, 3, 3, 3).shape)
  eq(mt.conv_transpose3d(mt.zeros({0, 2, 2, 2, 2}, 'float64'), lin{2, 1, 2, 2, 2}).shape, mt.zeros(0, 1, 3, 3, 3).shape)
  near((mt.conv3d(vol:float(), w:float()):double() - mt.conv3d(vol, w)):abs():max():item(), 0, 1e-5)
  eq(mt.conv3d(vol, w):is_contiguous(), true)
  local turned = vol:permute(1, 2, 5, 3, 4)
  eq(mt.conv3d(turned, w:float():double()):equal(mt.conv3d(turned:clone(), w:float():double())), true)
end)

test('threads do not change a bit', function()
  t.on_threads(function()
    local x, w = lin{2, 8, 6, 14, 14}:float():requires_grad_(), lin({12, 8, 3, 3, 3}, 0.9):float():requires_grad_()
    local y = mt.conv3d(x, w, {padding = 1})
    y:square():sum():backward()
    return y:detach(), x.grad, w.grad, mt.conv_transpose3d(y:detach(), w:detach()), mt.avg_pool3d(y:detach(), 2)
  end)
end)

for _, row in ipairs{
  {'conv3d', function(x, w, b) return mt.conv3d(x, w, b, {2, 1, 1}, {1, 0, 1}) end, {2, 2, 3, 2, 3},
    {2, 2, 2, 2, 2}, {2}},
  {'conv3d, groups and dilation', function(x, w) return mt.conv3d(x, w, nil, 1, {1, 1, 0}, {2, 1, 1}, 2) end,
    {1, 2, 3, 2, 2}, {2, 1, 2, 2, 1}},
  {'conv_transpose3d', function(x, w, b) return mt.conv_transpose3d(x, w, b, {2, 1, 1}, {1, 0, 0}, {1, 0, 0}) end,
    {1, 2, 2, 2, 2}, {2, 1, 2, 1, 2}, {1}},
  {'max_pool3d', function(x) return mt.max_pool3d(x, 2, 1, {1, 0, 1}):sin() end, {1, 1, 2, 3, 2}},
  {'avg_pool3d', function(x) return mt.avg_pool3d(x, 2, 2, 1, true, false):sin() end, {1, 2, 3, 2, 3}},
  {'adaptive_avg_pool3d', function(x) return mt.adaptive_avg_pool3d(x, {2, 1, 3}):sin() end, {1, 1, 3, 2, 4}},
} do t.gradients(unpack(row)) end

test('refusals', function()
  local x, w = mt.ones(1, 2, 4, 4, 4), mt.ones(3, 2, 3, 3, 3)
  local function bad(pattern, f, ...)
    local args, n = {...}, select('#', ...)
    raises(function() f(unpack(args, 1, n)) end, pattern)
  end
  bad('conv3d: the input is %(1 x 4 x 4%); expected %(batch x channels x depth x height x width%)', mt.conv3d,
    mt.ones(1, 4, 4), w)
  bad('conv3d: the weight is %(3 x 2 x 3 x 3%); expected 5 dimensions', mt.conv3d, x, w[{{}, {}, 1}])
  bad('conv3d: .* has 2 channels.*expects 1', mt.conv3d, x, mt.ones(3, 1, 3, 3, 3))
  bad('conv3d: groups is 2, which does not divide the 3', mt.conv3d, x, w, nil, 1, 0, 1, 2)
  bad('conv3d: stride is %(1 x 2%); give one number, or 3', mt.conv3d, x, w, nil, {1, 2})
  bad('conv3d: the kernel of 3 with dilation 2 spans 5, more than the input of 4', mt.conv3d, x, w, nil, 1, 0, 2)
  bad('conv3d: the bias is %(2%)', mt.conv3d, x, w, mt.ones(2))
  bad("'same' needs stride 1", mt.conv3d, x, w, nil, 2, 'same')
  bad('conv3d: .*more elements', mt.conv3d, mt.ones(1, 1, 1, 1, 1), mt.ones(1, 1, 1, 1, 1), nil, 1, 2 ^ 31 - 1)
  bad('int64.*float', mt.conv3d, x:long(), w)
  bad('conv_transpose3d: output_padding is 2', mt.conv_transpose3d, x, mt.ones(2, 1, 2, 2, 2), nil, 2, 0, 2)
  bad('conv_transpose3d: .* gives no output', mt.conv_transpose3d, x, mt.ones(2, 1, 2, 2, 2), nil, 1, 9)
  bad('conv_transpose3d: .*more elements', mt.conv_transpose3d, x, mt.ones(2, 1, 2, 2, 2), nil, 2 ^ 31 - 1)
  bad('max_pool3d: kernel_size is 9, .* input of 4', mt.max_pool3d, x, 9)
  bad('max_pool3d: padding is 2, at most half', mt.max_pool3d, x, 2, 1, 2)
  bad('max_pool3d: .*no element', mt.max_pool3d, x, 2, 1, 1, {5, 1, 1})
  bad('avg_pool3d: divisor_override is 0', mt.avg_pool3d, x, 2, 1, 0, false, true, 0)
  bad('adaptive_avg_pool3d: output_size is %(1 x 2%); give one number, or 3', mt.adaptive_avg_pool3d, x, {1, 2})
end)

t.finish()
