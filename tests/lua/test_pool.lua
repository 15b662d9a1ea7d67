-- test_pool.lua -- max pooling compared with plain loops: ties, NaN, strides, edges, gradients, threads
local mt = require 'mtorch'
local t = require 'testing'
local eq, test = t.eq, t.test

--- The definition: the first of equal maxima in row-major order, or the last NaN, and its position.
local function slow_pool(x, n, d, kernel, stride, padding, dilation)
  local h, w = x:size(-2), x:size(-1)
  local function out(size) return math.floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1 end
  local all, values, places = x:reshape(n * d, h * w):tolist(), {}, {}
  for plane = 1, n * d do
    for p = 0, out(h) - 1 do
      for q = 0, out(w) - 1 do
        local best, at
        for i = 0, kernel - 1 do
          for j = 0, kernel - 1 do
            local r, c = p * stride + i * dilation - padding, q * stride + j * dilation - padding
            local v = r >= 0 and r < h and c >= 0 and c < w and all[plane][r * w + c + 1]
            if v and (not at or v > best or v ~= v) then best, at = v, r * w + c + 1 end
          end
        end
        values[#values + 1], places[#places + 1] = best, at
      end
    end
  end
  return values, places
end

local shapes = { -- batch, channels, height, width, kernel, stride, padding, dilation
  {2, 3, 28, 28, 2, 2, 0, 1}, {1, 2, 7, 37, 3, 2, 1, 1}, {1, 1, 5, 70, 3, 1, 1, 2}, {2, 1, 9, 64, 2, 3, 0, 3},
  {1, 2, 12, 12, 5, 4, 2, 1}, {1, 1, 3, 3, 3, 3, 1, 1}, {3, 1, 6, 33, 2, 2, 1, 1}, {1, 1, 40, 2, 2, 1, 0, 1},
}

test('values and positions of plain loops, with ties and NaN', function()
  mt.manual_seed(2)
  for _, dtype in ipairs{'float32', 'float64', 'bfloat16', 'float16'} do
    for _, s in ipairs(shapes) do
      for _, nan in ipairs{false, true} do
        local x = mt.randint(-3, 3, {s[1], s[2], s[3], s[4]}):to(dtype) -- few values: many ties
        if nan then x = mt.where(mt.rand(x:size()):lt(0.1), x * (0 / 0), x) end
        local y, index = mt.max_pool2d(x, s[5], s[6], s[7], s[8], false, true)
        local values, places = slow_pool(x, s[1], s[2], s[5], s[6], s[7], s[8])
        eq(y.dtype, dtype)
        eq(y:flatten():tolist(), values)
        eq(index:flatten():tolist(), places)
      end
    end
  end
end)

test('the gradient is added at those positions, once for each window', function()
  for _, s in ipairs(shapes) do
    local x = mt.randint(-3, 3, {s[1], s[2], s[3], s[4]}):float():requires_grad_()
    local y, index = mt.max_pool2d(x, s[5], s[6], s[7], s[8], false, true)
    local g = mt.randint(1, 9, y:size()):float()
    y:backward(g)
    local planes = s[1] * s[2]
    local expected = mt.zeros(planes, s[3] * s[4]):scatter_add(2, index:reshape(planes, -1), g:reshape(planes, -1))
    eq(x.grad:reshape(planes, -1):equal(expected), true)
  end
end)

test('parameters have gradients of 0 for an empty batch', function()
  local conv, rms, group = mt.nn.Conv1d(2, 2, 1), mt.nn.RMSNorm(4), mt.nn.GroupNorm(1, 2)
  local x = mt.zeros({0, 2, 4}, {requires_grad = true})
  local y = conv(x)
  local sum = mt.adaptive_avg_pool1d(y, 2):sum() + mt.adaptive_max_pool1d(y, 2):sum() + rms(x):sum() + group(x):sum()
  sum:backward()
  for _, p in ipairs{conv.weight, rms.weight, group.weight, group.bias} do
    eq(p.grad:equal(mt.zeros_like(p)), true)
  end
end)

test('second gradients, volumes, an empty batch', function()
  mt.manual_seed(4)
  local x = mt.randn({1, 2, 5, 6}, 'float64'):requires_grad_()
  eq(mt.gradgradcheck(function(a) return mt.max_pool2d(a:sin(), 3, 2, 1) end, {x}), true)
  local v = mt.randn({2, 1, 4, 5, 4}, 'float64'):requires_grad_()
  eq(mt.gradcheck(function(a) return mt.max_pool3d(a:sin(), 2, 1, 1) end, {v}), true)
  local none = mt.zeros(0, 3, 4, 4):requires_grad_()
  mt.max_pool2d(none, 2):sum():backward()
  eq({unpack(none.grad.shape)}, {0, 3, 4, 4})
end)

test('threads do not change a bit', function()
  mt.manual_seed(5)
  local x = mt.randn(8, 16, 30, 30)
  t.on_threads(function()
    local a = x:clone():requires_grad_()
    local y = mt.max_pool2d(a, 3, 2, 1)
    y:square():sum():backward()
    return y, a.grad
  end)
end)

t.finish()
