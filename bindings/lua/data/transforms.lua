-- transforms.lua -- mt.data.transforms: torchvision's transforms of images, tensors [.. x channels x height x width]
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require('mtorch.data.class').transform
local shown = require 'mtorch.core.shown'
local is_whole = require('mtorch.core.util').is_whole
local image = require 'mtorch.data.image'

local transforms = {}

--- A class of transforms with options as fields: check(self), if given, checks them, apply(self, x) changes images.
local function transform(name, signature, doc, check, apply)
  local of = class(name .. signature, doc, nil, nil, check)
  of.__index = of -- omitted options are nil fields
  function of.__call(self, x)
    if not mt.is_tensor(x) or x:dim() < 2 then
      core.fail('%s: an image is needed, a tensor [channels x height x width], got %s', name, core.describe(x))
    end
    return (apply(self, x))
  end
  transforms[name] = of
  return of
end

-- ---- random numbers: those of mt, so that in a loader they depend on the item -------------------

local function uniform(low, high) return low + (high - low) * mt.rand({}, 'float64'):item() end
local function chance(p) return p >= 1 or p > 0 and mt.rand({}):item() < p end
local function random_integer(low, high) return low >= high and low or mt.randint(low, high, {}):item() end

-- ---- options ---------------------------------------------------------------------------------------

--- Two values {height, width} from a number or a list of one or two.
local function height_and_width(op, what, value)
  local a, b = value, value
  if type(value) == 'table' then a, b = value[1], value[2] or value[1] end
  core.check(is_whole(a, 1, 2 ^ 31) and is_whole(b, 1, 2 ^ 31) and (type(value) ~= 'table' or #value <= 2),
    '%s: %s must be a whole number from 1 or two of them, got %s', op, what,
    type(value) == 'table' and ('{%s}'):format(table.concat(value, ', ')) or core.describe(value))
  return {a, b}
end

--- A range as in torchvision: a number r is -r to r (around `centre`, clamped to `least`), a list
--- is unchanged: {low, high}, or several such pairs if `pairs_taken` is 2.
local function range(op, what, value, centre, least, pairs_taken)
  if type(value) == 'number' then
    core.check(value >= 0 and value < math.huge, '%s: %s must be finite and not negative, got %g', op, what, value)
    return {math.max(centre - value, least or -math.huge), centre + value}
  end
  local n = type(value) == 'table' and #value or 0
  local good = n == 2 or n == 4 and pairs_taken == 2
  for i = 1, good and n or 0, 2 do
    local low, high = value[i], value[i + 1]
    good = good and low >= (least or -math.huge) and low <= high and high < math.huge
  end
  if not good then
    core.fail('%s: %s must be a number or {low, high}%s with %slow <= high, got %s', op, what,
      pairs_taken == 2 and ' or {x low, x high, y low, y high}' or '', least and least .. ' <= ' or '',
      type(value) == 'table' and ('{%s}'):format(table.concat(value, ', ')) or core.describe(value))
  end
  return value
end

--- A range {low, high} with 0 <= low <= high (above 0 if `positive`), or the default.
local function between(op, what, value, default, positive)
  if value == nil then return default end
  local low, high = value[1], value[2]
  if not (low and high and #value == 2 and low >= 0 and low <= high and high < math.huge) or positive and low == 0 then
    core.fail('%s: %s must be {low, high} with %s low <= high', op, what, positive and '0 <' or '0 <=')
  end
  return value
end
local function check_point(op, what, value)
  if value ~= nil and #value ~= 2 then core.fail('%s: %s must be {x, y}, got %d numbers', op, what, #value) end
end

-- ---- transforms of transforms ------------------------------------------------------------------------

local function check_list(op, list)
  core.check(type(list) == 'table' and not core.is_callable(list),
    '%s: a list of transforms is needed, %s{a, b}; got %s', op, op, core.describe(list))
  for k = 1, #list do
    local t = list[k]
    if not core.is_callable(t) then core.fail('%s: entry %d must be a function, got %s', op, k, core.describe(t)) end
  end
  return list
end

transforms.Compose = class('Compose([transforms]: list)', 'Transforms one after another: Compose{a, b}.',
  function(list) return {transforms = check_list('Compose', list)} end)
local function apply_all(self, x)
  for _, t in ipairs(self.transforms) do x = t(x) end
  return x
end
transforms.Compose.__call = apply_all

function transforms.Compose:describe() return shown.lines('Compose', self.transforms) end

transforms.Lambda = class('Lambda(lambd: function)', 'A function of the image.')
transforms.Lambda.__call = function(self, x) return self.lambd(x) end

transforms.RandomApply = class('RandomApply([transforms]: list, p: number >= 0 <= 1 = 0.5)',
  'Applies all of these transforms with probability p.',
  function(list, p) return {transforms = check_list('RandomApply', list), p = p} end)
transforms.RandomApply.__call = function(self, x) return chance(self.p) and apply_all(self, x) or x end

function transforms.RandomApply:describe()
  return shown.lines('RandomApply', self.transforms, 'p=' .. shown.value(self.p))
end

-- ---- values -----------------------------------------------------------------------------------------

transform('ToTensor', '()', 'uint8 from 0 to 255 becomes float from 0 to 1; floats stay.', nil,
  function(_, x) return x.dtype == 'uint8' and x:float() / 255 or x end)

--- Raises an error if there is neither one value nor one per channel.
local function check_channels(op, what, values, x)
  if #values ~= 1 and #values ~= (x:dim() > 2 and x:size(-3)) then
    core.fail('%s: %s has %d numbers, the image is %s', op, what, #values, core.describe(x))
  end
end

--- A number, a list or a tensor as a tensor with one number per channel, [channels x 1 x 1].
local function per_channel(values)
  if mt.is_tensor(values) then return values end
  return mt.tensor(type(values) == 'number' and {values} or values, {dtype = 'float64'}):reshape(-1, 1, 1)
end

transform('Normalize', '(mean: number|numbers, std: number|numbers, inplace: bool = false)',
  '(x - mean) / std, for each channel.',
  function(self)
    self.mean, self.std = per_channel(self.mean), per_channel(self.std)
    if self.std:eq(0):any() then core.fail 'Normalize: std has a 0' end
  end,
  function(self, x)
    if not x:is_floating_point() then
      core.fail('Normalize: the image must be of floats, got %s; use ToTensor() before', core.describe(x))
    end
    local mean, std = per_channel(self.mean), per_channel(self.std) -- the user may have assigned numbers
    for what, values in pairs{mean = mean, std = std} do check_channels('Normalize', what, values, x) end
    mean, std = mean:to(x.dtype), std:to(x.dtype)
    if self.inplace then return x:sub_(mean):div_(std) end
    return (x - mean) / std
  end)

transform('Grayscale', '(num_output_channels: int >= 1 <= 3 = 1)',
  '0.2989 red + 0.587 green + 0.114 blue, in so many equal channels.', nil,
  function(self, x)
    local gray, n = image.gray(x), self.num_output_channels
    return n == 1 and gray or mt.cat({gray, gray, gray}, -3):narrow(-3, 1, n)
  end)

transform('ColorJitter', '([brightness]: number|numbers = 0, contrast: number|numbers = 0, ' ..
  'saturation: number|numbers = 0, hue: number|numbers = 0)',
  'Each by a random factor from max(0, 1 - v) to 1 + v, the hue shifted by up to hue (at most 0.5), in random order.',
  function(self)
    for name, value in pairs{brightness = self.brightness, contrast = self.contrast, saturation = self.saturation} do
      self[name] = value ~= 0 and range('ColorJitter', name, value, 1, 0) or nil
    end
    self.hue = self.hue ~= 0 and range('ColorJitter', 'hue', self.hue, 0) or nil
    if self.hue and (self.hue[1] < -0.5 or self.hue[2] > 0.5) then core.fail 'ColorJitter: hue is at most 0.5' end
  end,
  function(self, x)
    local names = {'brightness', 'contrast', 'saturation', 'hue'}
    for last = 4, 1, -1 do
      local name = table.remove(names, random_integer(1, last))
      local r = self[name]
      if r then x = image[name](x, uniform(r[1], r[2])) end
    end
    return x
  end)

transform('GaussianBlur', '([kernel_size]: int|ints, sigma: number|numbers = nil)',
  'A blur by a Gaussian whose deviation is drawn from {low, high} ({0.1, 2}); kernel sizes are odd, {width, height}.',
  function(self)
    local size, sigma = height_and_width('GaussianBlur', 'kernel_size', self.kernel_size), self.sigma
    if size[1] % 2 ~= 1 or size[2] % 2 ~= 1 then core.fail 'GaussianBlur: kernel sizes must be odd' end
    if type(sigma) == 'number' then sigma = {sigma, sigma} end
    self.kernel_size, self.sigma = size, between('GaussianBlur', 'sigma', sigma, {0.1, 2}, true)
  end,
  function(self, x)
    return image.blur(x, self.kernel_size[1], self.kernel_size[2], uniform(self.sigma[1], self.sigma[2]))
  end)

transform('RandomErasing', '(p: number >= 0 <= 1 = 0.5, scale: numbers = nil, ratio: numbers = nil, ' ..
  "value: number|numbers|'random' = 0, inplace: bool = false)",
  'With probability p a rectangle, with a fraction of the area in scale ({0.02, 0.33}) and height / width in ratio ' ..
  '({0.3, 3.3}), becomes value.',
  function(self)
    self.scale = between('RandomErasing', 'scale', self.scale, {0.02, 0.33})
    self.ratio = between('RandomErasing', 'ratio', self.ratio, {0.3, 3.3}, true)
  end,
  function(self, x)
    local h, w, values = x:size(-2), x:size(-1), self.value
    if type(values) == 'table' then check_channels('RandomErasing', 'value', values, x) end
    if not chance(self.p) then return x end
    for _ = 1, 10 do
      local eh, ew = image.random_sides(x, self.scale, self.ratio, uniform)
      if eh < h and ew < w then
        return image.erase(x, random_integer(0, h - eh), random_integer(0, w - ew), eh, ew, values, self.inplace)
      end
    end
    return x
  end)

-- ---- parts of the image -----------------------------------------------------------------------------

transform('CenterCrop', '([size]: int|ints)', 'The middle, {height, width}; what lies outside is 0.',
  function(self) self.size = height_and_width('CenterCrop', 'size', self.size) end,
  function(self, x) return image.center_crop(x, self.size[1], self.size[2]) end)

transform('Pad', '([padding]: int|ints, fill: number = 0, ' ..
  "padding_mode: 'constant'|'edge'|'reflect'|'symmetric' = 'constant')",
  'A border: one width, {left and right, top and bottom} or {left, top, right, bottom}.',
  function(self) self.padding = image.sides('Pad', self.padding) end,
  function(self, x) return image.pad(x, self.padding, self.fill, self.padding_mode) end)

transform('RandomCrop', '([size]: int|ints, padding: int|ints = nil, pad_if_needed: bool = false, fill: number = 0, ' ..
  "padding_mode: 'constant'|'edge'|'reflect'|'symmetric' = 'constant')",
  'A crop of this size, {height, width}, at a random position, after padding.',
  function(self)
    self.size = height_and_width('RandomCrop', 'size', self.size)
    self.padding = self.padding and image.sides('RandomCrop', self.padding)
  end,
  function(self, x)
    if self.padding then x = image.pad(x, self.padding, self.fill, self.padding_mode) end
    local h, w = self.size[1], self.size[2]
    if self.pad_if_needed then
      local dw, dh = math.max(w - x:size(-1), 0), math.max(h - x:size(-2), 0)
      if dw + dh > 0 then x = image.pad(x, {dw, dh, dw, dh}, self.fill, self.padding_mode) end
    end
    if x:size(-2) < h or x:size(-1) < w then
      core.fail('RandomCrop: the image is %d x %d, smaller than %d x %d', x:size(-2), x:size(-1), h, w)
    end
    return image.crop(x, random_integer(0, x:size(-2) - h), random_integer(0, x:size(-1) - w), h, w)
  end)

transform('RandomHorizontalFlip', '(p: number >= 0 <= 1 = 0.5)', 'Left and right exchanged with probability p.', nil,
  function(self, x) return chance(self.p) and x:flip{-1} or x end)

transform('RandomVerticalFlip', '(p: number >= 0 <= 1 = 0.5)', 'Top and bottom exchanged with probability p.', nil,
  function(self, x) return chance(self.p) and x:flip{-2} or x end)

-- ---- other sizes, turned images ----------------------------------------------------------------------

transform('Resize', "([size]: int|ints, interpolation: 'bilinear'|'nearest' = 'bilinear', max_size: int >= 1 = nil, " ..
  'antialias: bool = true)',
  'To {height, width}; one number is the shorter side, the longer at most max_size. antialias: smaller images are ' ..
  'averages.',
  function(self)
    local size, pair = self.size, height_and_width('Resize', 'size', self.size)
    self.size = type(size) == 'table' and #size > 1 and pair or pair[1]
    if self.max_size and (self.size == pair or self.max_size <= self.size) then
      core.fail('Resize: max_size must be above size, a single number; got %d', self.max_size)
    end
  end,
  function(self, x)
    local h, w = image.resized_size(x, self.size, self.max_size)
    return image.resize(x, h, w, self.interpolation, self.antialias)
  end)

transform('RandomResizedCrop', '([size]: int|ints, scale: numbers = nil, ratio: numbers = nil, ' ..
  "interpolation: 'bilinear'|'nearest' = 'bilinear', antialias: bool = true)",
  'A random crop with a fraction of the area in scale ({0.08, 1}) and width / height in ratio ({3 / 4, 4 / 3}), ' ..
  'resized to a size.',
  function(self)
    local op = 'RandomResizedCrop'
    self.size, self.scale = height_and_width(op, 'size', self.size), between(op, 'scale', self.scale, {0.08, 1})
    self.ratio = between(op, 'ratio', self.ratio, {3 / 4, 4 / 3}, true)
  end,
  function(self, x)
    local top, left, h, w = image.part(x, self.scale, self.ratio, uniform, random_integer)
    return image.resize(image.crop(x, top, left, h, w), self.size[1], self.size[2], self.interpolation,
      self.antialias)
  end)

transform('RandomRotation', "([degrees]: number|numbers, interpolation: 'nearest'|'bilinear' = 'nearest', " ..
  'expand: bool = false, center: numbers = nil, fill: number = 0)',
  'A counter-clockwise rotation by a random angle from -degrees to degrees around center {x, y}; expand: the result ' ..
  'contains the whole image.',
  function(self)
    self.degrees = range('RandomRotation', 'degrees', self.degrees, 0)
    check_point('RandomRotation', 'center', self.center)
  end,
  function(self, x)
    local angle = uniform(self.degrees[1], self.degrees[2])
    return image.rotate(x, angle, self.interpolation, self.expand, self.center, self.fill)
  end)

transform('RandomAffine', '([degrees]: number|numbers, translate: numbers = nil, scale: numbers = nil, ' ..
  "shear: number|numbers = nil, interpolation: 'nearest'|'bilinear' = 'nearest', fill: number = 0, " ..
  'center: numbers = nil)',
  'A random rotation, translation (up to translate {x, y} of the sides), scaling and shear in degrees ({x low, ' ..
  'x high, y low, y high}).',
  function(self)
    local op = 'RandomAffine'
    check_point(op, 'translate', self.translate)
    for _, share in ipairs(self.translate or {}) do
      if not (share >= 0 and share <= 1) then core.fail('%s: translate must be from 0 to 1, got %g', op, share) end
    end
    check_point(op, 'center', self.center)
    self.degrees, self.scale = range(op, 'degrees', self.degrees, 0), between(op, 'scale', self.scale, nil, true)
    self.shear = self.shear and range(op, 'shear', self.shear, 0, nil, 2)
  end,
  function(self, x)
    local angle = uniform(self.degrees[1], self.degrees[2])
    local dx, dy, factor, shear_x, shear_y = 0, 0, 1, 0, 0
    if self.translate then
      local max_x, max_y = self.translate[1] * x:size(-1), self.translate[2] * x:size(-2)
      dx, dy = math.floor(uniform(-max_x, max_x) + 0.5), math.floor(uniform(-max_y, max_y) + 0.5)
    end
    if self.scale then factor = uniform(self.scale[1], self.scale[2]) end
    if self.shear then
      shear_x = uniform(self.shear[1], self.shear[2])
      if self.shear[3] then shear_y = uniform(self.shear[3], self.shear[4]) end
    end
    return image.affine(x, angle, {dx, dy}, factor, {shear_x, shear_y}, self.interpolation, self.fill,
      self.center)
  end)

return core.strict(transforms, 'mt.data.transforms')
