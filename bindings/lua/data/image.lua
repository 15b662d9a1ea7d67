-- image.lua -- building blocks of transforms: functions of images [.. x channels x height x width],
-- with torchvision's formulas for tensors
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local image = {}


--- Applies fn to the image as floats of at least 32 bits, and converts the result back to the
--- image's dtype, rounded if `rounds`, otherwise truncated.
local function in_floats(x, rounds, fn)
  if x.dtype == 'float32' or x.dtype == 'float64' then return fn(x) end
  local y = fn(x:float())
  if x:is_floating_point() then return y:to(x.dtype) end
  if rounds then y = y:round() end
  if x.dtype == 'uint8' then y = y:clamp(0, 255) end
  return y:to(x.dtype)
end

-- ---- colours -------------------------------------------------------------------------------------------

local function check_rgb(op, x)
  local n = x:dim() >= 3 and x:size(-3) or 0
  if n ~= 1 and n ~= 3 then core.fail('%s: the image must have 1 or 3 channels, got %s', op, core.describe(x)) end
  return n
end

--- One channel: 0.2989 red + 0.587 green + 0.114 blue.
function image.gray(x)
  if check_rgb('Grayscale', x) == 1 then return x end
  return in_floats(x, false, function(y)
    return y:narrow(-3, 1, 1) * 0.2989 + y:narrow(-3, 2, 1) * 0.587 + y:narrow(-3, 3, 1) * 0.114
  end)
end

-- The largest values of images: those of the dtypes, as far as float32 has them.
local largest = {uint8 = 255, int8 = 127, int16 = 32767, int32 = 2 ^ 31 - 128, int64 = 2 ^ 63 - 2 ^ 39}

--- factor x + (1 - factor) other, clamped to the range of the dtype's images.
local function blend(x, other, factor)
  local bound = largest[x.dtype] or 1
  return in_floats(x, false, function(y) return (y * factor + other * (1 - factor)):clamp(0, bound) end)
end

function image.brightness(x, factor) return blend(x, 0, factor) end
function image.contrast(x, factor)
  local gray = check_rgb('ColorJitter', x) == 3 and image.gray(x) or x
  if not gray:is_floating_point() then gray = gray:float() end
  return blend(x, gray:mean({-3, -2, -1}, true), factor)
end
function image.saturation(x, factor)
  if check_rgb('ColorJitter', x) == 1 then return x end
  local gray = image.gray(x)
  return blend(x, gray:is_floating_point() and gray or gray:float(), factor)
end

--- Hue, saturation and value of colours from 0 to 1 (A. R. Smith 1978).
local function to_hsv(x)
  local r, g, b = x:select(-3, 1), x:select(-3, 2), x:select(-3, 3)
  local most, least = mt.maximum(mt.maximum(r, g), b), mt.minimum(mt.minimum(r, g), b)
  local range = most - least
  local gray = most:eq(least)
  local s, divisor = range / mt.where(gray, 1, most), mt.where(gray, 1, range)
  local rc, gc, bc = (most - r) / divisor, (most - g) / divisor, (most - b) / divisor
  local is_r, is_g = most:eq(r), most:eq(g):logical_and(most:ne(r))
  local neither = most:ne(g):logical_and(most:ne(r))
  local h = (bc - gc) * is_r:to(x.dtype) + (2 + rc - bc) * is_g:to(x.dtype) + (4 + gc - rc) * neither:to(x.dtype)
  return (h / 6 + 1):fmod(1), s, most
end

--- Each channel is v less what its distance from the hue takes.
local function to_rgb(h, s, v)
  return (mt.stack(util.map({5, 3, 1}, function(n)
    local k = (h * 6 + n):remainder(6)
    return v - v * s * mt.minimum(k, 4 - k):clamp(0, 1)
  end), -3))
end

function image.hue(x, shift)
  if check_rgb('ColorJitter', x) == 1 then return x end
  local bound = largest[x.dtype]
  return in_floats(x, false, function(y)
    local h, s, v = to_hsv(bound and y / bound or y)
    y = to_rgb((h + shift):remainder(1), s, v)
    return bound and y * (bound + 1 - 1e-3) or y
  end)
end

-- ---- parts and borders -----------------------------------------------------------------------------------

--- The h x w pixels from row `top` and column `left`, which count from 0.
function image.crop(x, top, left, h, w) return (x:narrow(-2, top + 1, h):narrow(-1, left + 1, w)) end

--- Converts a padding in torchvision's form to {left, top, right, bottom}.
function image.sides(op, padding)
  if type(padding) == 'number' then padding = {padding} end
  if #padding == 1 then return {padding[1], padding[1], padding[1], padding[1]} end
  if #padding == 2 then return {padding[1], padding[2], padding[1], padding[2]} end
  if #padding == 4 then return padding end
  core.fail('%s: padding must be 1, 2 or 4 numbers, got %d', op, #padding)
end

--- Positions -before .. n - 1 + after reflected into 1 .. n, with the edge pixel repeated.
local function mirrored(x, dim, before, after)
  local n = x:size(dim)
  local i = mt.range(-before, n - 1 + after):remainder(2 * n)
  return (x:index_select(dim, mt.minimum(i, (2 * n - 1) - i) + 1))
end

function image.pad(x, sides, fill, mode)
  local left, top, right, bottom = unpack(sides)
  if mode == 'symmetric' then return mirrored(mirrored(x, -1, left, right), -2, top, bottom) end
  if mode == 'constant' then return (x:pad({left, right, top, bottom}, 'constant', fill or 0)) end
  return in_floats(x, true, function(y)
    local flat = y:reshape(-1, y:size(-2), y:size(-1))
    local z = flat:pad({left, right, top, bottom}, mode == 'edge' and 'replicate' or mode)
    local shape = y.shape
    shape[#shape - 1], shape[#shape] = z:size(-2), z:size(-1)
    return z:reshape(shape)
  end)
end

--- Python's round: half to even.
local function round(v)
  local below = math.floor(v)
  local rest = v - below
  if rest == 0.5 then return below % 2 == 0 and below or below + 1 end
  return rest < 0.5 and below or below + 1
end

function image.center_crop(x, h, w)
  local dh, dw = math.max(h - x:size(-2), 0), math.max(w - x:size(-1), 0)
  if dh + dw > 0 then
    x = image.pad(x, {math.floor(dw / 2), math.floor(dh / 2), math.floor((dw + 1) / 2), math.floor((dh + 1) / 2)}, 0,
      'constant')
  end
  return image.crop(x, round((x:size(-2) - h) / 2), round((x:size(-1) - w) / 2), h, w)
end

function image.erase(x, top, left, h, w, value, inplace)
  if not inplace then x = x:clone() end
  local part = image.crop(x, top, left, h, w)
  if value == 'random' then part:copy_(mt.randn(part.shape):to(x.dtype))
  elseif type(value) == 'number' then part:fill_(value)
  else part:copy_(mt.tensor(value, {dtype = x.dtype}):reshape(-1, 1, 1):expand_as(part)) end
  return x
end

--- The sides of a random rectangle: its share of the area in `scale`, its aspect ratio in `ratio`.
function image.random_sides(x, scale, ratio, uniform)
  local area = x:size(-2) * x:size(-1) * uniform(scale[1], scale[2])
  local aspect = math.exp(uniform(math.log(ratio[1]), math.log(ratio[2])))
  return round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
end

--- The region of RandomResizedCrop: ten draws, then the centre.
function image.part(x, scale, ratio, uniform, whole)
  local h, w = x:size(-2), x:size(-1)
  for _ = 1, 10 do
    local pw, ph = image.random_sides(x, scale, ratio, uniform)
    if pw > 0 and pw <= w and ph > 0 and ph <= h then return whole(0, h - ph), whole(0, w - pw), ph, pw end
  end
  local pw, ph = w, h
  if w / h < ratio[1] then ph = round(w / ratio[1])
  elseif w / h > ratio[2] then pw = round(h * ratio[2]) end
  return math.floor((h - ph) / 2), math.floor((w - pw) / 2), ph, pw
end

-- ---- other sizes -----------------------------------------------------------------------------------------

function image.resized_size(x, size, max_size)
  if type(size) == 'table' then return size[1], size[2] end
  local h, w = x:size(-2), x:size(-1)
  local short, long = math.min(h, w), math.max(h, w)
  if short == 0 then core.fail('Resize: the image %s has no pixels', tostring(x.shape)) end
  local new_short, new_long = size, math.floor(size * long / short)
  if max_size and new_long > max_size then
    new_short, new_long = math.max(1, math.floor(max_size * new_short / new_long)), max_size
  end
  if w <= h then return new_long, new_short end
  return new_short, new_long
end

--- The matrix that resizes n pixels to `wanted`, [wanted x n]: its weights are a triangle with the
--- width of a new pixel, or of an old one if new pixels are smaller or without antialias.
local function resizer(n, wanted, antialias, like)
  local options = {dtype = 'float64', device = like.device}
  local step = n / wanted
  local reach = antialias and math.max(step, 1) or 1
  local centre = (mt.range(0, wanted - 1, 1, options) + 0.5) * step
  if not antialias then centre = centre:clamp(0.5, n - 0.5) end
  local pixel = mt.range(0, n - 1, 1, options) + 0.5
  local weights = (1 - (pixel - centre:unsqueeze(2)):abs() / reach):clamp(0)
  return (weights / weights:sum(2, true)):to(like.dtype)
end

function image.resize(x, h, w, mode, antialias)
  local from_h, from_w = x:size(-2), x:size(-1)
  if from_h == h and from_w == w then return x end
  if from_h * from_w == 0 then core.fail('Resize: the image %s has no pixels', tostring(x.shape)) end
  if mode == 'nearest' then
    local function picked(n, wanted) return (mt.range(0, wanted - 1):double() * (n / wanted)):floor():long() + 1 end
    return (x:index_select(-2, picked(from_h, h)):index_select(-1, picked(from_w, w)))
  end
  return in_floats(x, true, function(y)
    if from_w ~= w then y = y:matmul(resizer(from_w, w, antialias, y):t()) end
    if from_h ~= h then y = resizer(from_h, h, antialias, y):matmul(y) end
    return y
  end)
end

--- Gaussian blur with reflection padding.
function image.blur(x, kernel_w, kernel_h, sigma)
  local function kernel(n)
    local i = mt.linspace(-(n - 1) / 2, (n - 1) / 2, n, {dtype = 'float64'})
    local k = (i / sigma):square():mul(-0.5):exp()
    return k / k:sum()
  end
  local ky, kx = kernel(kernel_h), kernel(kernel_w)
  return in_floats(x, true, function(y)
    local h, w = y:size(-2), y:size(-1)
    local top, left = (kernel_h - 1) / 2, (kernel_w - 1) / 2
    local flat = y:reshape(-1, 1, h, w):pad({left, left, top, top}, 'reflect')
    local weight = ky:reshape(-1, 1):matmul(kx:reshape(1, -1)):to(y.dtype):reshape(1, 1, kernel_h, kernel_w)
    return mt.conv2d(flat, weight):reshape(y.shape)
  end)
end

-- ---- affine transforms --------------------------------------------------------------------------

--- The map from pixels of the result to pixels of the image, both relative to their centres, as the six numbers of
--- a 2 x 3 matrix: the inverse of rotation, shear, scaling and translation around a centre.
local function inverse_matrix(center, angle, shift, factor, shear)
  local turn, sx, sy = math.rad(angle), math.rad(shear[1]), math.rad(shear[2])
  local a = math.cos(turn - sy) / math.cos(sy)
  local b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
  local c = math.sin(turn - sy) / math.cos(sy)
  local d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
  local m = {d / factor, -b / factor, 0, -c / factor, a / factor, 0}
  local cx, cy, tx, ty = center[1], center[2], shift[1], shift[2]
  m[3] = m[1] * (-cx - tx) + m[2] * (-cy - ty) + cx
  m[6] = m[4] * (-cx - tx) + m[5] * (-cy - ty) + cy
  return m
end

local function sampled(x, m, h, w, mode, fill)
  return in_floats(x, mode ~= 'nearest', function(y)
    local from_h, from_w = y:size(-2), y:size(-1)
    local map = mt.tensor({{{m[1] * w / from_w, m[2] * h / from_w, m[3] * 2 / from_w},
      {m[4] * w / from_h, m[5] * h / from_h, m[6] * 2 / from_h}}}, {dtype = y.dtype, device = y.device})
    local grid = mt.affine_grid(map, {1, 1, h, w})
    local shape = y.shape
    local flat = y:reshape(1, -1, from_h, from_w)
    shape[#shape - 1], shape[#shape] = h, w
    if fill == 0 and mode == 'nearest' then return mt.grid_sample(flat, grid, {mode = mode}):reshape(shape) end
    local both = mt.cat({flat, mt.ones(1, 1, from_h, from_w, {dtype = y.dtype, device = y.device})}, 2)
    both = mt.grid_sample(both, grid, {mode = mode})
    local n = flat:size(2)
    local inside, z = both:narrow(2, n + 1, 1), both:narrow(2, 1, n)
    if mode == 'nearest' then z = mt.where(inside:lt(0.5), fill, z)
    else z = z * inside + (1 - inside) * fill end
    return z:reshape(shape)
  end)
end

--- Converts a point in pixels from the top left corner to coordinates relative to the centre.
local function from_middle(x, center)
  if not center then return {0, 0} end
  return {center[1] - x:size(-1) / 2, center[2] - x:size(-2) / 2}
end

function image.affine(x, angle, shift, factor, shear, mode, fill, center)
  local m = inverse_matrix(from_middle(x, center), angle, shift, factor, shear)
  return sampled(x, m, x:size(-2), x:size(-1), mode, fill)
end

--- The size that contains the whole rotated image.
local function turned_size(m, h, w)
  local min_x, max_x, min_y, max_y = math.huge, -math.huge, math.huge, -math.huge
  for _, corner in ipairs{{-w / 2, -h / 2}, {-w / 2, h / 2}, {w / 2, h / 2}, {w / 2, -h / 2}} do
    local px, py = m[1] * corner[1] + m[2] * corner[2] + m[3], m[4] * corner[1] + m[5] * corner[2] + m[6]
    min_x, max_x = math.min(min_x, px), math.max(max_x, px)
    min_y, max_y = math.min(min_y, py), math.max(max_y, py)
  end
  local function cut(v) return (math.modf(math.floor(v * 1e8 + 0.5) / 1e4)) / 1e4 end -- rounding must not add a pixel
  local function span(least, most, half)
    return math.ceil(cut(most + half)) - math.floor(cut(least + half))
  end
  return span(min_y, max_y, h / 2), span(min_x, max_x, w / 2)
end

function image.rotate(x, angle, mode, expand, center, fill)
  local m = inverse_matrix(from_middle(x, center), -angle, {0, 0}, 1, {0, 0})
  local h, w = x:size(-2), x:size(-1)
  if expand then h, w = turned_size(m, h, w) end
  return sampled(x, m, h, w, mode, fill)
end

return image
