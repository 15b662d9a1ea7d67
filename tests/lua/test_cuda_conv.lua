-- test_cuda_conv.lua -- convolutions and pooling on a GPU, with gradients, compared with the CPU
local mt = require 'mtorch'
local T = require 'testing'
T.needs_cuda()
mt.manual_seed(7)

local function same(got, wanted, tol)
  T.eq(got.device, 'cuda:0')
  T.eq(tostring(got.shape), tostring(wanted.shape))
  if wanted:numel() == 0 then return end
  local off = (got:cpu() - wanted):abs():max():item()
  if not (off <= tol * math.max(1, wanted:abs():max():item())) then
    error('off by ' .. off, 2)
  end
end

--- Compares f's values and gradients on both devices; f takes only tensors.
local function compare(f, tol, ...)
  local out = {}
  for _, device in ipairs{'cpu', 'cuda'} do
    local x = {}
    for i, t in ipairs{...} do x[i] = t:to(device):detach():clone():requires_grad_() end
    local y = f(unpack(x))
    y:square():div(64):sum():backward() -- within float16
    out[device] = {y:detach()}
    for i, t in ipairs(x) do out[device][i + 1] = t.grad end
  end
  for i, wanted in ipairs(out.cpu) do same(out.cuda[i], wanted, tol) end
end

local function merged(...)
  local all = {}
  for _, t in ipairs{...} do
    for k, v in pairs(t) do all[k] = v end
  end
  return all
end

-- Channels in and out, groups, height, width, kernel: one channel (the filters), depthwise, few
-- channels, enough of them for tiles, kernels as large as the image.
local layers = {
  {1, 1, 1, 45, 70, 3}, {1, 1, 1, 33, 40, 5}, {1, 1, 1, 9, 9, 7}, {4, 4, 4, 20, 21, 3},
  {3, 8, 1, 16, 17, 3}, {3, 20, 1, 16, 17, 3}, {20, 3, 1, 16, 17, 3}, {18, 33, 1, 9, 10, 3},
  {36, 34, 2, 9, 10, 3}, {18, 16, 1, 7, 8, 1}, {1, 1, 1, 3, 3, 3}, {1, 1, 1, 2, 2, 5},
}
local ways = {
  {}, {padding = 1}, {stride = 2}, {stride = 3, padding = 2}, {dilation = 2, padding = 2},
  {padding = {2, 0}, stride = {1, 2}}, {padding = 'same'},
}

-- All combinations in float32, a third of them in each other dtype.
for d, row in ipairs{{'float32', 3e-5}, {'float64', 1e-11}, {'float16', 4e-3}, {'bfloat16', 3e-2}} do
  local dtype, tol = unpack(row)
  local function R(...) return mt.randn(...):to(dtype) end
  T.test('conv2d and conv_transpose2d of ' .. dtype, function()
    for i, l in ipairs(layers) do
      local cin, cout, groups, h, w, k = unpack(l)
      for j, way in ipairs(ways) do
        local pad = way.padding == 'same' and k or tonumber(way.padding) or 0
        local fits = (k - 1) * (way.dilation or 1) + 1 <= math.min(h, w) + 2 * pad
        if fits and (d == 1 or (i + j + d) % 3 == 0) then
          local x, bias = R(2, cin, h, w), R(cout)
          compare(function(a, b, c)
            return mt.conv2d(merged({a, b, bias = c, groups = groups}, way))
          end, tol, x, R(cout, cin / groups, k, k), bias)
          if way.padding ~= 'same' then
            compare(function(a, b, c)
              return mt.conv_transpose2d(merged({a, b, bias = c, groups = groups}, way))
            end, tol, x, R(cin, cout / groups, k, k), bias)
          end
        end
      end
    end
  end)
end

for dtype, tol in pairs{float32 = 3e-5, float64 = 1e-11} do
  local function R(...) return mt.randn({...}, {dtype = dtype}) end
  T.test('other convolutions of ' .. dtype, function()
    compare(mt.conv1d, tol, R(3, 4, 50), R(5, 4, 7))
    compare(function(x, w) return mt.conv1d{x, w, padding = 3, dilation = 2} end, tol,
            R(3, 20, 50), R(17, 20, 4))
    compare(function(x) return mt.unfold(x, 3) end, tol, R(2, 3, 12, 16))
    same(mt.conv2d(R(0, 3, 8, 8):to('cuda'), R(2, 3, 3, 3):to('cuda')),
         mt.zeros({0, 2, 6, 6}, {dtype = dtype}), 0)
    local x, w = R(2, 3, 20, 20), R(4, 3, 3, 3)
    same(mt.conv2d(x:to('cuda'):transpose(3, 4), w:to('cuda'):flip({3})),
         mt.conv2d(x:transpose(3, 4), w:flip({3})), tol)
  end)

  T.test('pooling of ' .. dtype, function()
    local x = R(3, 4, 20, 21)
    compare(function(a) return mt.avg_pool2d{a, 3, stride = 2, padding = 1} end, tol, x)
    compare(function(a)
      return mt.avg_pool2d{a, 3, stride = 1, padding = 1, count_include_pad = false}
    end, tol, x)
    compare(function(a) return mt.max_pool2d{a, 3, stride = 2, padding = 1} end, 0, x)
    compare(function(a)
      return mt.max_pool2d{a, {2, 3}, stride = 1, dilation = 2, padding = 1}
    end, 0, x)
    compare(function(a) return mt.max_pool1d(a, 4) end, 0, R(3, 4, 21))
    compare(function(a) return mt.adaptive_avg_pool2d(a, {5, 7}) end, tol, R(2, 3, 12, 16))
    for _, mode in ipairs{'nearest', 'bilinear', 'bicubic'} do
      compare(function(a) return mt.interpolate{a, size = {20, 30}, mode = mode} end, tol,
              R(2, 3, 12, 16))
    end
  end)
end

T.test('max_pool2d: the first of equals, the last NaN', function()
  local x = mt.tensor{{1, 3, 3, 0 / 0}, {3, 2, 0 / 0, 1}, {5, 5, 5, 5}, {5, 5, 5, 5}}
  local y, at = mt.max_pool2d{x:view(1, 1, 4, 4):to('cuda'), 2, return_indices = true}
  local wanted, there = mt.max_pool2d{x:view(1, 1, 4, 4), 2, return_indices = true}
  assert(mt.equal(at:cpu(), there))
  T.eq(y:view(-1):cpu():tolist(), wanted:view(-1):tolist())
end)

T.test('an image of 500 x 1000 under a filter of 3 x 3', function()
  local x, w = mt.randn(1, 1, 500, 1000), mt.randn(1, 1, 3, 3)
  same(mt.conv2d{x:to('cuda'), w:to('cuda'), padding = 1}, mt.conv2d{x, w, padding = 1}, 1e-5)
end)

T.test('long sums keep their digits, and their bits from run to run', function()
  local x, g = mt.randn(4, 2, 120, 130), mt.randn(4, 3, 118, 128)
  local function gradient(device, dtype)
    local w = mt.zeros({3, 2, 3, 3}, {device = device, dtype = dtype}):requires_grad_()
    mt.conv2d(x:to(dtype):to(device), w):backward(g:to(dtype):to(device))
    return w.grad
  end
  local first = gradient('cuda', 'float32')
  local library = os.getenv 'MTORCH_CUBLAS' or os.getenv 'MTORCH_CUDNN' -- they sum in float32
  same(first, gradient('cpu', 'float64'):float(), library and 3e-5 or 2e-6)
  assert(mt.equal(gradient('cuda', 'float32'), first))
end)

T.finish()
