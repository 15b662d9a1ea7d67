-- test_conv_shapes.lua -- convolutions of many shapes and their gradients, compared with im2col products in float64
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, test = t.eq, t.near, t.test

--- Computes conv2d by unfold (im2col) and a matrix product, differentiably and without the verb.
local function by_columns(x, w, bias, stride, padding, dilation, groups)
  local n, outputs, kh, kw = x:size(1), w:size(1), w:size(3), w:size(4)
  local function out(size, k) return math.floor((size + 2 * padding - dilation * (k - 1) - 1) / stride) + 1 end
  local parts = {}
  for g, chunk in ipairs(x:chunk(groups, 2)) do
    local per = outputs / groups
    local columns = mt.unfold(chunk, {kh, kw}, dilation, padding, stride)
    parts[g] = mt.matmul(w:narrow(1, (g - 1) * per + 1, per):reshape(1, per, -1), columns)
  end
  local y = mt.cat(parts, 2):reshape(n, outputs, out(x:size(3), kh), out(x:size(4), kw))
  return y + bias:reshape(1, outputs, 1, 1)
end

-- batch, groups, inputs, outputs (of all groups), height, width, kernel, stride, padding, dilation
local shapes = {
  {16, 1, 16, 32, 14, 14, {3, 3}, 1, 1, 1}, -- the CNN of MNIST
  {29, 1, 17, 19, 13, 11, {3, 3}, 1, 1, 1}, -- a prime batch size, channels that do not fill registers
  {2, 1, 64, 64, 32, 28, {3, 3}, 1, 1, 1},
  {3, 1, 70, 65, 30, 27, {3, 3}, 1, 0, 1},
  {23, 2, 32, 48, 15, 15, {3, 3}, 2, 1, 1}, -- groups, a stride
  {3, 1, 32, 32, 20, 20, {5, 3}, 1, 2, 2}, -- dilation
  {300, 1, 32, 32, 2, 2, {3, 3}, 1, 1, 1}, -- an image smaller than the kernel
  {3, 1, 40, 48, 9, 9, {3, 3}, 1, 4, 1}, -- more padding than the kernel
  {12, 1, 64, 48, 33, 33, {1, 1}, 2, 0, 1}, {20, 1, 64, 32, 16, 16, {1, 1}, 1, 0, 1},
  {2, 1, 3, 32, 40, 40, {7, 7}, 2, 3, 1}, {1, 1, 4, 5, 6, 7, {3, 2}, 3, 1, 1},
  {20, 64, 64, 64, 30, 30, {3, 3}, 1, 1, 1}, {9, 1, 1, 16, 28, 28, {3, 3}, 1, 1, 1},
  {1, 1, 64, 64, 56, 56, {3, 3}, 1, 1, 1}, -- Winograd, and few images: channels are cut
  {2, 1, 32, 64, 40, 40, {3, 3}, 1, 1, 1},
  {1, 1, 32, 96, 44, 40, {3, 3}, 2, 1, 1},
  {8, 1, 3, 64, 96, 90, {8, 8}, 8, 0, 1}, {8, 1, 3, 64, 64, 67, {8, 8}, 4, 3, 1}, -- the stride divides the kernel
  {6, 2, 32, 64, 21, 23, {4, 4}, 2, 1, 1}, {8, 1, 32, 48, 20, 20, {2, 6}, 2, 0, 1},
  {4, 1, 256, 256, 9, 9, {2, 2}, 1, 0, 1}, -- a heavy weight, which is cut into 16 pieces
  {1, 1, 100, 24, 18, 300, {3, 3}, 1, 1, 1}, {1, 1, 200, 24, 7, 7, {3, 3}, 3, 1, 1},
}

-- Depthwise: planes of all widths up to 40, groups that do not fill a chunk of planes, rows of several registers and of
-- several strips, and what other kernels compute.
for width = 1, 40 do
  for _, k in ipairs{3, 5} do
    for stride = 1, 2 do
      local padding, height = (3 * width + stride) % k, 1 + (7 * width + 5 * k + 3 * stride) % 23
      if math.min(width, height) + 2 * padding >= k then
        shapes[#shapes + 1] = {3, 5, 5, 5, height, width, {k, k}, stride, padding, 1}
      end
    end
  end
end
for _, s in ipairs{{9, 40, 31, 33, 3, 1, 1, 1}, {70, 70, 8, 8, 3, 1, 1, 1}, {70, 70, 4, 4, 5, 1, 2, 1},
  {5, 33, 40, 36, 5, 2, 2, 1}, {4, 90, 17, 16, 3, 2, 1, 1}, {2, 3, 4, 5500, 5, 1, 2, 1}, {2, 3, 5, 5500, 3, 2, 1, 1},
  {2, 16, 20, 20, 3, 1, 2, 2}, {2, 16, 20, 20, 3, 3, 0, 1}, {2, 16, 20, 20, 4, 2, 1, 1}} do
  local n, channels, height, width, k, stride, padding, dilation = unpack(s)
  shapes[#shapes + 1] = {n, channels, channels, channels, height, width, {k, k}, stride, padding, dilation}
end

local function inputs(s, dtype)
  local n, groups, channels, outputs, h, w, kernel, stride, padding, dilation = unpack(s)
  mt.manual_seed(3)
  local weight = mt.randn(outputs, channels / groups, kernel[1], kernel[2])
  local all = {mt.randn(n, channels, h, w), weight, mt.randn(outputs)}
  for i, x in ipairs(all) do all[i] = x:to(dtype):requires_grad_() end
  return all, {stride, padding, dilation, groups}
end

--- Returns the result and the gradients of input, weight and bias.
local function results_of(s, dtype, conv)
  local all, options = inputs(s, dtype)
  local y = conv(all[1], all[2], all[3], unpack(options))
  local g = mt.randn(y:size(), {generator = mt.Generator(5)}):to(dtype)
  y:backward(g)
  return {y:detach(), all[1].grad, all[2].grad, all[3].grad}
end

test('values and gradients of products of columns', function()
  for i, s in ipairs(shapes) do
    local expected = results_of(s, 'float64', by_columns)
    for dtype, tolerance in pairs{float32 = 1e-5, float64 = 1e-13} do
      for k, r in ipairs(results_of(s, dtype, mt.conv2d)) do
        eq({i, k, unpack(r.shape)}, {i, k, unpack(expected[k].shape)})
        local off = ((r:double() - expected[k]):abs():max() / expected[k]:abs():max()):item()
        if off > tolerance then error(('shape %d, result %d, %s: off by %g'):format(i, k, dtype, off)) end
      end
    end
  end
end)

test('threads do not change a bit', function()
  for i, s in ipairs(shapes) do
    local one
    for _, threads in ipairs{1, 2, 3, 8} do
      mt.set_num_threads(threads)
      local all = results_of(s, 'float32', mt.conv2d)
      one = one or all
      for k = 1, 4 do eq({i, threads, k, all[k]:equal(one[k])}, {i, threads, k, true}) end
    end
  end
  mt.set_num_threads(2)
end)

test('one and three dimensions, and transposed', function()
  mt.manual_seed(6)
  local x, w = mt.randn(8, 32, 200), mt.randn(48, 32, 5)
  local y = mt.conv1d(x, w, {padding = 2})
  near((y - mt.conv1d(x:double(), w:double(), {padding = 2})):abs():max():item(), 0, 3e-4)
  local v, k = mt.randn(2, 16, 6, 12, 12), mt.randn(24, 16, 3, 3, 3)
  local z = mt.conv3d(v, k, {padding = 1})
  near((z - mt.conv3d(v:double(), k:double(), {padding = 1})):abs():max():item(), 0, 5e-4)
  local a, b = mt.randn(8, 32, 14, 14), mt.randn(32, 24, 4, 4)
  local options = {stride = 2, padding = 1, output_padding = 1}
  local up = mt.conv_transpose2d(a, b, options)
  near((up - mt.conv_transpose2d(a:double(), b:double(), options)):abs():max():item(), 0, 3e-4)
  local one = mt.randn(32, 1, 3, 3)
  options.groups = 32
  up = mt.conv_transpose2d(a, one, options)
  near((up - mt.conv_transpose2d(a:double(), one:double(), options)):abs():max():item(), 0, 3e-5)
end)

test('gradients are those of differences, and their gradients', function()
  mt.manual_seed(7)
  local function leaf(...) return mt.randn({...}, 'float64'):requires_grad_() end
  local function f(x, w) return mt.conv2d(x, w, {stride = 2, padding = 1, groups = 2}) end
  local x, w = leaf(2, 8, 5, 4), leaf(4, 4, 3, 3)
  eq(mt.gradcheck(f, {x, w}), true)
  eq(mt.gradgradcheck(f, {leaf(1, 6, 4, 4), leaf(2, 3, 3, 3)}), true)
end)

test('an empty batch, and NaN where it belongs', function()
  local w = mt.randn(32, 32, 3, 3):requires_grad_()
  local none = mt.conv2d(mt.zeros(0, 32, 14, 14), w, {padding = 1})
  eq({unpack(none.shape)}, {0, 32, 14, 14})
  none:sum():backward()
  eq(w.grad:abs():max():item(), 0)
  local x = mt.ones(8, 32, 14, 14)
  x[{3, 5, 7, 7}] = 0 / 0
  local y = mt.conv2d(x, w:detach(), {padding = 1})
  eq(y:isnan():sum():item(), 32 * 9)
  for _, side in ipairs{14, 18} do -- rows shorter and longer than a register
    local z = mt.ones(8, 32, side, side)
    z[{3, 5, 7, side}] = 0 / 0
    eq(mt.conv2d(z, w:detach():narrow(2, 1, 1), {padding = 1, groups = 32}):isnan():sum():item(), 6)
  end
end)

t.finish()
