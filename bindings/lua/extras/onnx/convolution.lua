-- convolution.lua -- convolution, pooling and resampling as ONNX operators
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local Size = require 'mtorch.extras.onnx.size'

local entries = {}

local function to_list(x, n)
  if Size.is_list(x) then return #x == n and x or to_list(x[1], n) end
  return util.tabulate(n, function() return x end)
end
local function repeat_twice(list) return util.append({unpack(list)}, list) end

--- Wraps f for inputs with a batch dimension; an input without one gets it for the call.
local function batched(n, f)
  return function(g, a, call)
    if #a.input.shape == n + 2 then return f(g, a, call) end
    local shape = {1, unpack(a.input.shape)}
    a.input = g:unsqueeze(a.input, {0})
    a.input.shape = shape
    local made = {f(g, a, call)}
    for k, h in ipairs(made) do made[k] = g:squeeze(h, {0}) end
    return unpack(made)
  end
end

--- Defines the entry of an operation in n dimensions.
local function define(name, n, f) entries[name:format(n)] = batched(n, f) end

--- Returns how many elements the last window of pooling extends beyond the input in dimension i.
local function beyond_input(a, call, how, i)
  local length = (how.dilations and how.dilations[i] or 1) * (how.kernel_shape[i] - 1) + 1
  local first = (call.shape[#call.shape - #how.strides + i] - 1) * how.strides[i] - how.pads[i]
  return first + length - a.input.shape[i + 2]
end

--- Whether, with ceil_mode, a last window extends (or may extend) beyond the padded input.
local function exceeds_input(a, call, how)
  local n = #how.strides
  for i = 1, a.ceil_mode and n or 0 do
    local beyond = beyond_input(a, call, how, i) - how.pads[i + n]
    if Size.is(beyond) or beyond > 0 then return true end
  end
  return false
end

for n = 1, 3 do
  define('conv%dd', n, function(g, a)
    local dilation, stride = to_list(a.dilation, n), to_list(a.stride, n)
    local pads = repeat_twice(to_list(a.padding == 'valid' and 0 or a.padding, n))
    for i = 1, a.padding == 'same' and n or 0 do
      local all = dilation[i] * (a.weight.shape[i + 2] - 1)
      pads[i], pads[i + n] = math.floor(all / 2), all - math.floor(all / 2)
    end
    return g.Conv(a.input, a.weight, a.bias or false,
      {strides = stride, pads = pads, dilations = dilation, group = a.groups})
  end)
  define('conv_transpose%dd', n, function(g, a)
    return g.ConvTranspose(a.input, a.weight, a.bias or false, {strides = to_list(a.stride, n),
      pads = repeat_twice(to_list(a.padding, n)), output_padding = to_list(a.output_padding, n),
      dilations = to_list(a.dilation, n), group = a.groups})
  end)
  define('max_pool%dd', n, function(g, a, call)
    local options = {kernel_shape = to_list(a.kernel_size, n), strides = to_list(a.stride or a.kernel_size, n),
      pads = repeat_twice(to_list(a.padding, n)), dilations = to_list(a.dilation, n)}
    options.ceil_mode = exceeds_input(a, call, options) and 1 or 0
    if not a.return_indices then return g.MaxPool(a.input, options) end
    options.outputs = 2
    local values, places = g.MaxPool(a.input, options)
    places = g.Mod(places:bare(), Size.product{unpack(a.input.shape, 3)})
    places.positions = true
    return values, places
  end)
  define('avg_pool%dd', n, function(g, a, call)
    local kernel, pads = to_list(a.kernel_size, n), repeat_twice(to_list(a.padding, n))
    local options = {kernel_shape = kernel, strides = to_list(a.stride or kernel, n), pads = pads}
    local ceil = exceeds_input(a, call, options)
    if ceil and a.divisor_override then -- pads to the end of the last window, so that each mean is over a whole kernel
      ceil = false
      for i = 1, n do pads[i + n] = math.max(beyond_input(a, call, options, i), 0) end
    end
    options.ceil_mode = ceil and 1 or 0
    options.count_include_pad = (a.count_include_pad or a.divisor_override) and 1 or 0
    local y = g.AveragePool(a.input, options)
    return a.divisor_override and y * (Size.product(kernel) / a.divisor_override) or y
  end)
end

--- Returns the beginning and end of window k of `out` in n positions, from 0, as in PyTorch.
local function window(k, n, out) return math.floor(k * n / out), math.ceil((k + 1) * n / out) end

--- Returns the input and output sizes of adaptive pooling, and the window sizes if all are equal; an output size that
--- is not given is the input's.
local function adaptive_sizes(a, n)
  local from, to, windows, even = {}, to_list(a.output_size, n), {}, true
  for i = 1, n do
    from[i] = a.input.shape[i + 2]
    to[i] = to[i] or from[i]
    windows[i], even = from[i] / to[i], even and from[i] % to[i] == 0
  end
  return from, to, even and windows
end

--- Adaptive pooling: the operator `pool` if windows are equal, else along(g, y, axis, from, to, rank) for each axis.
local function adaptive(name, pool, along)
  for n = 1, 3 do
    define(name, n, function(g, a)
      local from, to, windows = adaptive_sizes(a, n)
      if a.return_indices then extend.fail('onnx.export: adaptive_max_pool with return_indices has no ONNX form') end
      if Size.product(to) == 1 then return g['Global' .. pool](a.input) end
      if windows then return g[pool](a.input, {kernel_shape = windows, strides = windows}) end
      local y = a.input
      for i = 1, n do y = along(g, y, i + 1, from[i], to[i], n + 2) end
      return y
    end)
  end
end
adaptive('adaptive_avg_pool%dd', 'AveragePool', function(g, y, axis, from, to, rank) -- matrix products
  local means = mt.zeros(from, to)
  for k = 0, to - 1 do
    local first, last = window(k, from, to)
    means[{{first + 1, last}, k + 1}] = 1 / (last - first)
  end
  return g:swap(g.MatMul(g:swap(y, axis, rank - 1, rank), g:constant(means:to(y.dtype))), axis, rank - 1, rank)
end)
adaptive('adaptive_max_pool%dd', 'MaxPool', function(g, y, axis, from, to)
  local parts = {}
  for k = 0, to - 1 do
    local first, last = window(k, from, to)
    parts[k + 1] = g.ReduceMax(g:slice(y, {axis}, {first}, {last}), {axis}, true)
  end
  return g:concat(parts, axis)
end)

-- ---- resampling ------------------------------------------------------------------------------------------

-- The attributes of Resize by mode; linear, bilinear and trilinear have none of their own.
local resizing = {bicubic = {mode = 'cubic', cubic_coeff_a = -0.75},
  nearest = {mode = 'nearest', coordinate_transformation_mode = 'asymmetric', nearest_mode = 'floor'},
  ['nearest-exact'] = {mode = 'nearest', nearest_mode = 'round_prefer_ceil'}}
function entries.interpolate(g, a, call)
  local x, shape, n = a.input, call.shape, #a.input.shape - 2
  if a.mode == 'area' then
    return entries[('adaptive_avg_pool%dd'):format(n)](g, {input = x, output_size = {unpack(shape, 3)}}, call)
  end
  local options = util.merged({mode = 'linear',
    coordinate_transformation_mode = a.align_corners and 'align_corners' or 'half_pixel'}, resizing[a.mode])
  if a.scale_factor and not a.align_corners then
    local scales = {1, 1, unpack(to_list(a.scale_factor, n))}
    return g.Resize(x, false, g:constant(mt.tensor(scales)), options)
  end
  return g.Resize(x, false, false, g:size_list(shape), options)
end
function entries.pixel_shuffle(g, a, call)
  local x, options = a.input, {blocksize = a.upscale_factor, mode = 'CRD'}
  if #x.shape == 4 then return g.DepthToSpace(x, options) end
  return g:reshape(g.DepthToSpace(g:reshape(x, {1, unpack(x.shape)}), options), call.shape)
end
function entries.pixel_unshuffle(g, a, call)
  local s, r = a.input.shape, a.downscale_factor
  local n = #s == 4 and s[1] or 1
  local c, h, w = s[#s - 2], s[#s - 1], s[#s]
  local y = g:reshape(a.input, {n, c, h / r, r, w / r, r})
  return g:reshape(g:transpose(y, {0, 1, 3, 5, 2, 4}), call.shape)
end

--- [n x c x h x w] to columns [n x (c kh kw) x positions]: a slice for each element of the kernel.
entries.im2col = batched(2, function(g, a, call)
  local kernel, dilation, stride = to_list(a.kernel_size, 2), to_list(a.dilation, 2), to_list(a.stride, 2)
  local padding, x, shape = to_list(a.padding, 2), a.input, {unpack(a.input.shape)}
  if padding[1] > 0 or padding[2] > 0 then
    x = g.Pad(x, g:ints{0, 0, padding[1], padding[2], 0, 0, padding[1], padding[2]}, {mode = 'constant'})
  end
  local out = {}
  for i = 1, 2 do
    shape[i + 2] = shape[i + 2] + 2 * padding[i]
    out[i] = math.floor((shape[i + 2] - dilation[i] * (kernel[i] - 1) - 1) / stride[i]) + 1
  end
  local parts = {}
  for i = 0, kernel[1] - 1 do
    for j = 0, kernel[2] - 1 do
      local first = {i * dilation[1], j * dilation[2]}
      local last = {first[1] + (out[1] - 1) * stride[1] + 1, first[2] + (out[2] - 1) * stride[2] + 1}
      parts[#parts + 1] = g:unsqueeze(g:slice(x, {2, 3}, first, last, stride), {2})
    end
  end
  return g:reshape(g:concat(parts, 2), {shape[1], call.shape[#call.shape - 1], call.shape[#call.shape]})
end)
--- Adds the columns at their origins, which are computed by im2col of a plane of positions.
local function folded(g, a)
  local kernel, padding, size = to_list(a.kernel_size, 2), to_list(a.padding, 2), to_list(a.output_size, 2)
  local h, w = size[1] + 2 * padding[1], size[2] + 2 * padding[2]
  local plane = mt.range(1, h * w):reshape(1, 1, h, w)
  local places = mt.unfold(plane, {kernel_size = kernel, dilation = to_list(a.dilation, 2),
    stride = to_list(a.stride, 2)})
  local count, shape = places:numel(), a.input.shape
  if g.opset < 16 then extend.fail('onnx.export: fold needs {opset=16}') end
  local n, channels = shape[1], shape[2] / (kernel[1] * kernel[2])
  local columns = g:reshape(a.input, {n, channels, count})
  local index = g:expand(g:constant((places - 1):long():reshape(1, 1, count)), {n, channels, count})
  local empty = g:full({n, channels, h * w}, 0, a.input.dtype)
  local y = g:reshape(g.ScatterElements(empty, index, columns, {axis = 2, reduction = 'add'}), {n, channels, h, w})
  return g:slice(y, {2, 3}, padding, {padding[1] + size[1], padding[2] + size[2]})
end
define('fold', 1, function(g, a)
  if g.opset < 18 then return folded(g, a) end
  return g.Col2Im(a.input, g:ints(to_list(a.output_size, 2)), g:ints(to_list(a.kernel_size, 2)),
    {dilations = to_list(a.dilation, 2), pads = repeat_twice(to_list(a.padding, 2)), strides = to_list(a.stride, 2)})
end)
--- MiniTorch's convolution: y[i] = sum over k of w[k] x[i + k], zeros beyond the end; with reverse x[i - k].
for n = 1, 2 do
  entries[('conv%dd_anchored'):format(n)] = function(g, a)
    local weight, pads = a.weight, {}
    for i = 1, n do
      local room = weight.shape[i + 2] - 1
      pads[i], pads[i + n] = a.reverse and room or 0, a.reverse and 0 or room
    end
    if a.reverse then weight = g:flip(weight, g.other_axes(n + 2, {0, 1})) end
    return g.Conv(a.input, weight, {pads = pads})
  end
end
--- The grid of positions in -1..1, mapped by theta [n x 2 x 3].
function entries.affine_grid(g, a)
  local size = a.size
  if #size ~= 4 then extend.fail('onnx.export: affine_grid is known for images, [n x c x h x w]') end
  local function line(n)
    local x = n > 1 and mt.linspace(-1, 1, n) or mt.zeros(1)
    return a.align_corners and x or x * ((n - 1) / n)
  end
  local h, w = size[3], size[4]
  local base = mt.stack({line(w):reshape(1, w):expand(h, w), line(h):reshape(h, 1):expand(h, w), mt.ones(h, w)}, 3)
  local y = g.MatMul(g:constant(base:reshape(1, h * w, 3):to(a.theta.dtype)), g:transpose(a.theta, {0, 2, 1}))
  return g:reshape(y, {size[1], h, w, 2})
end
function entries.grid_sample(g, a)
  if g.opset < 16 then extend.fail('onnx.export: grid_sample needs {opset=16}') end
  local mode = a.mode
  if g.opset >= 20 then mode = ({bilinear = 'linear', bicubic = 'cubic'})[mode] or mode end
  return g.GridSample(a.input, a.grid, {mode = mode, padding_mode = a.padding_mode,
    align_corners = a.align_corners and 1 or 0})
end

return entries
