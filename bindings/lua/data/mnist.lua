-- mnist.lua -- mt.data: MNIST and Fashion-MNIST by name, with downloads, and synthetic digits
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local classes = require 'mtorch.data.class'
local set_of = require('mtorch.data.sets').named
local files = require 'mtorch.data.files'
local from = require 'mtorch.data.sources'

local mnist = {}

-- The files with their checksums, as in torchvision, and their URLs.
local sources = {
  mnist = {
    raw = 'MNIST/raw',
    mirrors = {'https://ossci-datasets.s3.amazonaws.com/mnist/', 'https://storage.googleapis.com/cvdf-datasets/mnist/'},
    files = {
      {'train-images-idx3-ubyte', 'f68b3c2dcbeaaa9fbdd348bbdeb94873'},
      {'train-labels-idx1-ubyte', 'd53e105ee54ea40749a09fcbcd1e9432'},
      {'t10k-images-idx3-ubyte', '9fb629c4189551a2d022fa330f9573f3'},
      {'t10k-labels-idx1-ubyte', 'ec29112dd5afa0611ce80d1b7f02629c'},
    },
  },
  fashion_mnist = {
    raw = 'FashionMNIST/raw',
    mirrors = {'http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/',
      'https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/'},
    files = {
      {'train-images-idx3-ubyte', '8d4fb7e6c68d591d4c3dfef9ec88bf0d'},
      {'train-labels-idx1-ubyte', '25c81989df183df01b3e8a0aad5dffbe'},
      {'t10k-images-idx3-ubyte', 'bef4ecab320f06d8554ea6380940ec79'},
      {'t10k-labels-idx1-ubyte', 'bb300cfdad3c16e7a12a480ee83cd310'},
    },
  },
}

--- The path of a file in a folder, or in torchvision's subfolder, plain or compressed; or nil.
local function find(root, source, name)
  for _, folder in ipairs {root, root .. '/' .. source.raw} do
    for _, variant in ipairs {name, (name:gsub('%-idx', '.idx'))} do
      for _, ending in ipairs {'', '.gz'} do
        local path = folder .. '/' .. variant .. ending
        if util.exists(path) then return path end
      end
    end
  end
end

--- Images as floats [n x 1 x height x width] from 0 to 1, and labels 1..10.
local function read(name, images_path, labels_path)
  local images, labels = files.idx(images_path), files.idx(labels_path)
  core.check(images.dtype == 'uint8' and images:dim() == 3 and labels.dtype == 'uint8' and labels:dim() == 1 and
    #images == #labels, "%s: '%s' and '%s' are not images and as many labels: %s %s and %s %s", name, images_path,
    labels_path, images.shape, images.dtype, labels.shape, labels.dtype)
  if #labels > 0 and labels:max():item() > 9 then
    core.fail("%s: '%s' has the label %d; labels are 0 to 9", name, labels_path, labels:max():item())
  end
  return images:unsqueeze(2):float():div_(255), labels:long() + 1
end

local function part(name, x, y, first, last) return set_of(name, x[{{first, last}}], y[{{first, last}}]) end

local function fetch(name, source, root, download)
  local missing = util.filter(source.files, function(file) return not find(root, source, file[1]) end)
  missing = util.map(missing, function(file) return {file[1] .. '.gz', file[2]} end)
  from.fetch(name, root, missing, source.mirrors, download)
end

local function found_sets(name, root, download)
  local source = sources[name]
  local given = root ~= nil
  root = root or from.cache_folder(name)
  if download then fetch(name, source, root, download) end
  local path = util.map(source.files, function(file) return find(root, source, file[1]) or false end)
  local train, test = path[1] and path[2] and 1, path[3] and path[4] and 3
  if train and test then
    return set_of(name, read(name, path[1], path[2])), set_of(name, read(name, path[3], path[4]))
  end
  local only = train or test
  if only then
    local x, y = read(name, path[only], path[only + 1])
    local n = math.floor(#y * (train and 5 / 6 or 0.8))
    from.say(train and "%s: '%s' has no test images; of %d training images the first %d train, the last %d test" or
      "%s: '%s' has the %d test images only; the first %d train, the last %d test", name, root, #y, n, #y - n)
    return part(name, x, y, 1, n), part(name, x, y, n + 1, #y)
  end
  if given then from.check_folder(name, root) end
  from.say("%s: '%s' has no %s; drawn digits take their place (download=true fetches the real ones)", name, root,
    source.files[1][1] .. '(.gz)')
  return mnist.digits(8000, {seed = 1}), mnist.digits(2000, {seed = 2})
end

--- Both sets with the transforms, which may be nil.
local function sets(name, root, download, transform, target_transform)
  classes.check_transforms(name, transform, target_transform)
  local train, test = found_sets(name, root, download)
  for _, set in ipairs{train, test} do set.transform, set.target_transform = transform, target_transform end
  return train, test
end

local options = '(root: string = nil, download: bool|string = false, transform: function|table = nil, ' ..
  'target_transform: function|table = nil)'
local doc = ' as two sets, train and test: .x float [n x 1 x 28 x 28] from 0 to 1, .y the class + 1, from 1 to 10. ' ..
  'The IDX files (also .gz) are in root, $XDG_CACHE_HOME/mtorch or ~/.cache/mtorch by default; download=true, or ' ..
  'the address of a mirror, downloads missing files, checks their checksums, and resumes interrupted downloads. ' ..
  'If only the test images exist, the first four fifths are for training. Without files, generated digits are ' ..
  'used, with a message. ' ..
  'transform is a function of an image, target_transform of a label, for both sets; train.transform = f for one.'

mnist.mnist = core.declare('mnist' .. options, 'The handwritten digits of MNIST' .. doc,
  function(...) return sets('mnist', ...) end)

mnist.fashion_mnist = core.declare('fashion_mnist' .. options, 'The clothes of Fashion-MNIST' .. doc,
  function(...) return sets('fashion_mnist', ...) end)

mnist.download = core.declare("download(url: string, path: string, sha256: string = '', md5: string = '', " ..
  'progress: bool = true)', 'Downloads a file (http, https) and returns the path, if the checksum is right. ' ..
  'An interrupted download is kept as .part, and the next call resumes it.',
  function(url, path, sha256, md5, progress)
    core.formats().download(url, path, sha256, md5, progress, 2 ^ 40)
    return path
  end)

-- ---- drawn digits --------------------------------------------------------------------------------

--- An arc of an ellipse as points; angles are in turns, 0 is to the right, clockwise because y points down.
local function arc(points, cx, cy, rx, ry, from, to)
  for k = 0, 8 do
    local angle = 2 * math.pi * (from + (to - from) * k / 8)
    points[#points + 1] = {cx + rx * math.cos(angle), cy + ry * math.sin(angle)}
  end
  return points
end

--- The strokes of each digit in the square from -1 to 1, with y downwards: lists of points.
local function strokes()
  return {
    [0] = {arc({}, 0, 0, 0.55, 0.85, 0, 1)},
    {{{-0.3, -0.5}, {0.05, -0.85}, {0.05, 0.85}}},
    {arc({}, 0, -0.4, 0.5, 0.45, -0.5, 0.1), {{0.4, -0.13}, {-0.55, 0.85}, {0.6, 0.85}}},
    {arc({}, -0.05, -0.42, 0.5, 0.42, -0.42, 0.25), arc({}, -0.05, 0.42, 0.58, 0.44, -0.25, 0.42)},
    {{{0.1, -0.85}, {-0.55, 0.25}, {0.6, 0.25}}, {{0.3, -0.3}, {0.25, 0.85}}},
    {{{0.5, -0.85}, {-0.4, -0.85}, {-0.45, -0.1}}, arc({}, -0.05, 0.3, 0.58, 0.52, -0.36, 0.4)},
    {{{0.35, -0.85}, {-0.2, -0.3}, {-0.48, 0.3}}, arc({}, 0, 0.4, 0.48, 0.45, 0, 1)},
    {{{-0.55, -0.8}, {0.55, -0.8}, {-0.1, 0.85}}},
    {arc({}, 0, -0.42, 0.42, 0.4, 0, 1), arc({}, 0, 0.42, 0.52, 0.43, 0, 1)},
    {arc({}, 0, -0.38, 0.48, 0.45, 0, 1), {{0.48, -0.35}, {0.4, 0.3}, {0.15, 0.85}}},
  }
end

--- m images of one digit, [m x 28 x 28]: its segments are translated, rotated, sheared, scaled and
--- bent; the ink of each pixel depends on its distance to the nearest segment.
local function draw(lines, m, random)
  local from, to = {}, {}
  for _, line in ipairs(lines) do
    for k = 2, #line do from[#from + 1], to[#to + 1] = line[k - 1], line[k] end
  end
  local angle, shear = random(m) * 0.18, random(m) * 0.15
  local sx, sy = (random(m) * 0.09 + 1) * 8.6, (random(m) * 0.09 + 1) * 9.4
  local dx, dy = random(m) * 1.1 + 14.5, random(m) * 1.1 + 14.5
  local bend, phase = random(m) * 0.11, random(m) * 3
  local wide, ink = (random(m) * 0.28 + 1.15):clamp(0.6, 2.2), (random(m) * 0.1 + 0.95):clamp(0.6, 1)
  local function placed(points) -- x and y, [m x segments]
    local p = mt.tensor(points, {device = 'cpu'})
    local x, y = p[{{}, 1}]:unsqueeze(1), p[{{}, 2}]:unsqueeze(1)
    x = x + bend:unsqueeze(2) * (y * 2.5 + phase:unsqueeze(2)):sin() + shear:unsqueeze(2) * y
    x, y = x * sx:unsqueeze(2), y * sy:unsqueeze(2)
    local c, s = angle:cos():unsqueeze(2), angle:sin():unsqueeze(2)
    return x * c - y * s + dx:unsqueeze(2), x * s + y * c + dy:unsqueeze(2)
  end
  local x1, y1 = placed(from)
  local x2, y2 = placed(to)
  local vx, vy = x2 - x1, y2 - y1
  local length = (vx:square() + vy:square()):clamp(1e-6)
  local pixel = mt.range(1, 28):float():cpu()
  local px, py = pixel:view(1, 1, 28), pixel:view(1, 28, 1)
  local nearest
  for k = 1, #from do
    local function of(t) return t[{{}, {k}}]:unsqueeze(3) end
    local rx, ry = px - of(x1), py - of(y1)
    local along = ((rx * of(vx) + ry * of(vy)) / of(length)):clamp(0, 1)
    local square = (rx - along * of(vx)):square() + (ry - along * of(vy)):square()
    nearest = nearest and mt.minimum(nearest, square) or square
  end
  return ((wide:view(m, 1, 1) + 0.5 - nearest:sqrt()):clamp(0, 1) * ink:view(m, 1, 1))
end

mnist.digits = core.declare('digits(n: int >= 1 <= 1000000, seed: int >= 0 = nil)',
  'A set of n generated digits, like MNIST in shape: strokes, randomly translated, rotated, sheared, scaled and ' ..
  'bent. .x float [n x 1 x 28 x 28] from 0 to 1, .y the digit + 1. A seed gives always the same digits; without ' ..
  'it they depend on mt.manual_seed.',
  function(n, seed)
    return mt.no_grad(function()
      local generator = seed and mt.Generator('mt19937', seed)
      local function random(m) return (mt.randn({m}, {generator = generator, device = 'cpu'})) end
      local order = mt.rand({n}, {generator = generator, device = 'cpu'})
      local y = (order * 10):floor():long():clamp(0, 9) + 1
      local x, lines = mt.zeros({n, 28, 28}, {device = 'cpu'}), strokes()
      for digit = 0, 9 do
        local at = y:eq(digit + 1):nonzero():view(-1)
        for first = 1, #at, 1000 do
          local some = at[{{first, math.min(first + 999, #at)}}]
          x:index_copy_(1, some, draw(lines[digit], #some, random))
        end
      end
      return set_of('digits', x:unsqueeze(2), y)
    end)
  end)

return mnist
