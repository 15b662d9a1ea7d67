-- test_transforms.lua -- mt.data.transforms: torchvision's values, distributions, seeds, errors
local mt = require 'mtorch'
local t = require 'testing'
local values = require('torch_values').load 'transforms_values'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local T = mt.data.transforms

--- Returns the image of transforms_values.py.
local function image(c, h, w) return (mt.range(0, c * h * w - 1) * 37):remainder(256):to('uint8'):reshape(c, h, w) end

local function compare(name, fn)
  local seen = 0
  for _, kind in ipairs{'', ' uint8'} do
    local want = values[name .. kind]
    if want then
      seen = seen + 1
      local x = image(3, 6, 7)
      if kind == '' then x = x:float() / 255 end
      local y = fn(x)
      eq({name .. kind, unpack(y.shape)}, {name .. kind, unpack(want.shape)})
      if name ~= 'ToTensor' then eq(y.dtype, x.dtype) end
      local worst = (y:double() - want:double()):abs():max():item()
      -- If a float is between two integers, the last bit decides.
      assert(worst <= (kind == '' and 2e-5 or 1), ('%s%s: differs by %g'):format(name, kind, worst))
    end
  end
  assert(seen > 0, name)
end

--- Returns a range in which the random factor is always `value`.
local function fixed(value) return {value, value} end

local cases = {
  ToTensor = T.ToTensor(), Normalize = T.Normalize({0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}),
  Grayscale = T.Grayscale(), ['Grayscale 3'] = T.Grayscale(3),
  ['CenterCrop 3 4'] = T.CenterCrop({3, 4}), ['CenterCrop 9 4'] = T.CenterCrop({9, 4}),
  ['Pad 1'] = T.Pad(1, 7), ['Pad 1 2 edge'] = T.Pad({1, 2}, {padding_mode = 'edge'}),
  ['Pad 1 2 3 0 reflect'] = T.Pad({1, 2, 3, 0}, 0, 'reflect'),
  ['Pad 2 1 symmetric'] = T.Pad({2, 1}, {padding_mode = 'symmetric'}),
  ['Resize 4'] = T.Resize(4), ['Resize 4 max 4'] = T.Resize(3, {max_size = 4}),
  ['Resize nearest'] = T.Resize({4, 9}, 'nearest'),
  ['flip h'] = T.RandomHorizontalFlip(1), ['flip v'] = T.RandomVerticalFlip(1),
  ['hue 0.2'] = T.ColorJitter{hue = fixed(0.2)}, ['hue -0.35'] = T.ColorJitter{hue = fixed(-0.35)},
  blur = T.GaussianBlur({5, 3}, 0.8),
}
for _, antialias in ipairs{true, false} do
  for _, size in ipairs{{3, 4}, {9, 11}, {4, 10}} do
    cases[('Resize %d %d %s'):format(size[1], size[2], tostring(antialias))] = T.Resize(size, {antialias = antialias})
  end
end
for _, mode in ipairs{'nearest', 'bilinear'} do
  cases['rotate 30 ' .. mode] = T.RandomRotation(fixed(30), mode)
  cases['rotate -50 fill ' .. mode] = function(x)
    return T.RandomRotation(fixed(-50), {interpolation = mode, fill = x.dtype == 'uint8' and 9 or 0.5})(x)
  end
  cases['rotate expand ' .. mode] = T.RandomRotation(fixed(75), mode, true)
  cases['rotate center ' .. mode] = T.RandomRotation(fixed(20), {interpolation = mode, center = {1, 2}})
  local affine = require('mtorch.data.image').affine
  cases['affine ' .. mode] = function(x) return affine(x, 15, {1, -2}, 1.3, {5, 0}, mode, 0) end
  cases['affine center ' .. mode] = function(x) return affine(x, -25, {0, 1}, 0.8, {3, 9}, mode, 0, {2, 2}) end
end
for _, factor in ipairs{0.4, 1.7} do
  for _, what in ipairs{'brightness', 'contrast', 'saturation'} do
    cases[what .. ' ' .. factor] = T.ColorJitter{[what] = fixed(factor)}
  end
end
for name, fn in pairs(cases) do
  test('torchvision: ' .. name, function() compare(name, fn) end)
end
test('every value of torchvision is compared', function()
  for name in pairs(values) do
    assert(cases[name:gsub(' uint8$', '')], name)
  end
end)

test('a turn by multiples of 90 degrees moves pixels', function()
  local x = image(3, 5, 5)
  eq(T.RandomRotation(fixed(90))(x):tolist(), mt.rot90(x, 1, {2, 3}):tolist())
  eq(T.RandomRotation(fixed(180))(x):tolist(), x:flip{2, 3}:tolist())
  eq(T.RandomAffine(0)(x):tolist(), x:tolist())
  for h = 2, 12, 2 do
    x = image(1, h, 4)
    eq(T.RandomRotation(fixed(90), {expand = true})(x).shape, {1, 4, h})
    eq(T.RandomRotation(fixed(-90), {expand = true})(x).shape, {1, 4, h})
  end
end)

test('random ones by their distribution', function()
  mt.manual_seed(1)
  local x = image(1, 4, 4)
  local flips = 0
  local flip = T.RandomHorizontalFlip(0.3)
  for _ = 1, 2000 do flips = flips + (mt.equal(flip(x), x) and 0 or 1) end
  assert(math.abs(flips - 600) < 80, flips)
  -- Each of 9 places of a 2 x 2 part, of 16 pixels that differ.
  local seen, crop = {}, T.RandomCrop(2)
  for _ = 1, 1800 do
    local first = crop(x)[{1, 1, 1}]:item()
    seen[first] = (seen[first] or 0) + 1
  end
  local places = 0
  for _, n in pairs(seen) do
    places = places + 1
    assert(math.abs(n - 200) < 60, n)
  end
  eq(places, 9)
  eq(T.RandomCrop(4, 2)(x).shape, mt.zeros(1, 4, 4).shape)
  eq({unpack(T.RandomCrop({6, 3}, {pad_if_needed = true})(x).shape)}, {1, 6, 3})
  -- RandomErasing: the share of the area.
  local area, erase = 0, T.RandomErasing(1, {0.1, 0.2}, {1, 1}, -1)
  local big = mt.ones(1, 40, 40)
  for _ = 1, 200 do area = area + erase(big):lt(0):float():mean():item() / 200 end
  assert(math.abs(area - 0.15) < 0.01, area)
  eq(big:min():item(), 1)
  -- RandomAffine: shifts are uniform.
  local dot = mt.zeros(1, 21, 21)
  dot[{1, 11, 11}] = 1
  local shift, sum, most = T.RandomAffine(0, {0.2, 0}), 0, 0
  for _ = 1, 400 do
    local column = shift(dot):sum(2):argmax():item() - 11
    sum, most = sum + column, math.max(most, math.abs(column))
  end
  eq(most, 4)
  assert(math.abs(sum / 400) < 0.6, sum)
  -- ColorJitter: factors within bounds, in both directions.
  local gray, low, high = mt.full({3, 2, 2}, 0.5), 1, 0
  local jitter = T.ColorJitter(0.4)
  for _ = 1, 300 do
    local v = jitter(gray):mean():item()
    low, high = math.min(low, v), math.max(high, v)
  end
  assert(low > 0.299 and low < 0.33 and high < 0.701 and high > 0.67, low .. ' ' .. high)
  -- RandomResizedCrop: a part, at its new size.
  local part = T.RandomResizedCrop(8, {0.2, 0.5})(mt.rand(3, 20, 30))
  eq({unpack(part.shape)}, {3, 8, 8})
  -- RandomApply: all or none.
  local n, apply = 0, T.RandomApply({T.Lambda(function(y) return y + 1 end)}, 0.25)
  for _ = 1, 1000 do n = n + apply(mt.zeros(1, 1)):item() end
  assert(math.abs(n - 250) < 60, n)
end)

test('the same seed gives the same images, with and without a loader with workers', function()
  local augment = T.Compose{T.RandomCrop(5, 1), T.RandomHorizontalFlip(), T.ToTensor(),
    T.RandomAffine(10, {0.1, 0.1}, {0.9, 1.1}, 5, 'bilinear'), T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.RandomErasing(),
    T.Normalize({0.5, 0.5, 0.5}, {0.2, 0.2, 0.2})}
  local x = image(3, 6, 7)
  mt.manual_seed(3)
  local a, b = augment(x), augment(x)
  mt.manual_seed(3)
  assert(mt.equal(augment(x), a) and not mt.equal(a, b))
  local set = {size = function() return 12 end, get = function(_, i) return augment(x), i end}
  local function run(workers)
    local out = {}
    for y in mt.data.DataLoader(set, {batch_size = 4, workers = workers, seed = 1}):iter() do out[#out + 1] = y end
    return mt.cat(out)
  end
  local want = run(0)
  eq({unpack(want.shape)}, {12, 3, 5, 5})
  -- Workers compute on the CPU: tensors of Normalize must not be on a GPU.
  for workers = 1, want.device == 'cpu' and 2 or 0 do assert(mt.equal(run(workers), want)) end
  assert(not mt.equal(want[1], want[2]))
end)

test('transforms are called; Normalize in place; lists', function()
  local x = mt.ones(2, 2, 2)
  T.Normalize(1, 2, true)(x)
  eq(x:sum():item(), 0)
  eq(T.Normalize({0.1}, {0.3})(mt.tensor({{{0.7}}}, 'float64')):item(), (0.7 - 0.1) / 0.3)
  for dtype, most in pairs{int8 = 127, int16 = 32767, int32 = 65535, int64 = 65535} do
    local deep = mt.tensor({{{most}}, {{100}}, {{1}}}, dtype)
    for _, name in ipairs{'brightness', 'contrast', 'saturation'} do
      eq(T.ColorJitter{[name] = {1, 1}}(deep):tolist(), deep:tolist())
    end
    assert(T.ColorJitter{hue = {0, 0}}(deep):sub(deep):abs():max():item() <= 2)
  end
  eq(tostring(T.ToTensor()), 'ToTensor()')
  near(T.Compose{T.ToTensor()}(image(1, 1, 2)):tolist()[1][1], {0, 37 / 255})
end)

test('what they refuse', function()
  local x = image(3, 6, 7)
  raises(function() T.Normalize(0, 1)(x) end, 'Normalize: the image must be of floats')
  raises(function() T.Normalize(0, 0) end, 'std has a 0')
  raises(function() T.RandomCrop(9)(x) end, 'the image is 6 x 7, smaller than 9 x 9')
  raises(function() T.CenterCrop 'a' end, 'size must be')
  raises(function() T.GaussianBlur(4) end, 'must be odd')
  raises(function() T.Normalize({}, 1)(mt.ones(3, 2, 2)) end, 'mean has 0 numbers')
  raises(function() T.Normalize({1, 2}, 1)(mt.ones(2, 2)) end, 'mean has 2 numbers')
  raises(function() T.RandomErasing{p = 1, value = {1, 2}}(x) end, 'value has 2 numbers')
  raises(function() T.RandomRotation(math.huge) end, 'degrees must be finite')
  raises(function() T.Compose{T.ToTensor(), 3} end, 'entry 2 must be a function')
  raises(function() T.Compose{T.ToTensor(), nil, T.Grayscale()} end, 'entry 2 must be a function, got nil')
  eq(T.Resize(3, {max_size = 4})(mt.ones(1, 1, 6)).shape, {1, 1, 4})
  raises(function() T.Resize(3, {max_size = 3}) end, 'max_size must be above size')
  raises(function() T.Resize({3, 3}, {max_size = 4}) end, 'max_size must be above size')
  raises(function() T.Resize(3, {max_size = 0}) end, 'max_size must be a whole number from 1, got 0')
  raises(function() T.Resize(3)(7) end, 'Resize: an image is needed')
  raises(function() T.RandomHorizontalFlip(2) end, 'p must be')
  raises(function() T.Pad({1, 2, 3}) end, 'padding must be 1, 2 or 4 numbers')
  raises(function() T.Grayscale()(image(2, 3, 3)) end, '1 or 3 channels')
  raises(function() return T.RandomFlip end, "did you mean")
  raises(function() T.Resize(4)(mt.zeros(3, 0, 2)) end, 'has no pixels')
  raises(function() T.RandomErasing(1, {1}) end, 'scale must be {low, high}')
  raises(function() T.RandomAffine(0, {0.1}) end, 'translate must be {x, y}')
  raises(function() T.RandomAffine(0, {2, 0}) end, 'translate must be from 0 to 1, got 2')
  -- Lists of the wrong length.
  raises(function() T.ColorJitter{0.5, 0.5, 0.5} end, 'brightness must be a number or {low, high} with 0 <= low')
  raises(function() T.ColorJitter{-1, 2} end, 'got {%-1, 2}')
  raises(function() T.RandomRotation{1, 2, 3} end, 'degrees must be a number or {low, high} with low <= high, got')
  raises(function() T.RandomAffine{1, 2, 3} end, 'got {1, 2, 3}')
  for _, shear in ipairs{{}, {1}, {1, 2, 3}, {1, 2, 4, 3}, {1, 2, 3, 4, 5}} do
    raises(function() T.RandomAffine(0, {shear = shear}) end, 'shear must be a number or {low, high} or {x low')
  end
  eq(T.RandomAffine(0, {shear = {1, 2, 3, 4}})(x).shape, x.shape)
  raises(function() T.CenterCrop{1, 2, 3} end, 'or two of them, got {1, 2, 3}')
end)

test('the numbers of Normalize may be replaced', function()
  local normalize = T.Normalize(0, 1)
  normalize.mean, normalize.std = {1, 2}, 2
  eq(normalize(mt.ones(2, 1, 1)):tolist(), {{{0}}, {{-0.5}}})
end)

test('random arguments end in images or in sentences at the line', function()
  local core = require 'mtorch.core'
  core.set_memory_limit(2 ^ 28)
  math.randomseed(1)
  local values = {0, 1, 2, 3, -1, 0.5, 2 ^ 31, 1 / 0, 0 / 0, 'x', 'bilinear', 'edge', true, {}, {1}, {1, 2}, {0.1, 0.3},
    {3, 2}, {1, 2, 3, 4}, function(y) return y end, mt.ones(3), {T.ToTensor()}}
  local images = {image(3, 6, 7), image(1, 4, 4), mt.rand(3, 8, 8), mt.zeros(0), mt.rand({}), mt.zeros(3, 0, 2), 'x', 5,
    mt.rand(2, 3, 4, 4), mt.rand(3, 4, 4):lt(0.5), mt.rand({3, 5, 5}, 'float16'), mt.range(1, 5)}
  local names = core.names(T)
  for _ = 1, 1500 do
    local name = names[math.random(#names)]
    local given = {}
    for i = 1, math.random(0, 3) do given[i] = values[math.random(#values)] end
    local ok, made = pcall(function() return (T[name](unpack(given))) end)
    local message = not ok and made
    if ok then
      ok, message = pcall(function() return (made(images[math.random(#images)])) end)
    end
    if not ok then assert(message:find '^[^:]*test_transforms.lua:%d+: ' and not message:find 'attempt to', message) end
  end
  core.set_memory_limit(2 ^ 46)
end)

t.finish()
