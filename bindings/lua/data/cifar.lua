-- cifar.lua -- mt.data.cifar10: the pictures of CIFAR-10, from the binary version's archive or folder
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local classes = require 'mtorch.data.class'
local set_of = require('mtorch.data.sets').named
local from = require 'mtorch.data.sources'

local cifar = {}

local archive, md5 = 'cifar-10-binary.tar.gz', 'c32a1d4ab5d03f1284b67883e8d87530'
local mirrors, folder = {'https://www.cs.toronto.edu/~kriz/'}, 'cifar-10-batches-bin'
local names = {'airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck'}
local record = 1 + 3 * 32 * 32 -- bytes: a label and the pixels

local train_files = util.tabulate(5, function(i) return ('data_batch_%d.bin'):format(i) end)

-- ---- tar ---------------------------------------------------------------------------------------------

--- Returns the name, size and checksum in a tar header of 512 bytes, or nil.
local function header(block)
  local sum = 0
  for i = 1, 512 do sum = sum + ((i < 149 or i > 156) and block:byte(i) or 32) end
  local size, stated = block:sub(125, 136):match '^%s*([0-7]+)', block:sub(149, 156):match '^%s*([0-7]+)'
  if not (size and stated and tonumber(stated, 8) == sum) then return nil end
  return block:sub(1, 100):match '^[^%z]*', tonumber(size, 8)
end

--- The contents of the files in a tar archive that have one of these names, without their folders.
local function members(path, bytes, wanted)
  local found, at = {}, 1
  while at + 511 <= #bytes and bytes:find('[^%z]', at) do
    local name, size = header(bytes:sub(at, at + 511))
    if not name then core.fail("cifar10: '%s' is not a tar archive: the header at byte %d is wrong", path, at - 1) end
    local last = at + 511 + size
    if last > #bytes then core.fail("cifar10: '%s' ends inside of %s", path, core.describe(name)) end
    local short = name:match '[^/]*$'
    if wanted[short] then found[short] = bytes:sub(at + 512, last) end
    at = at + 512 + math.ceil(size / 512) * 512
  end
  return found
end

-- ---- sets --------------------------------------------------------------------------------------------

--- Returns pixels, uint8 [n x 3 x 32 x 32], and labels 1..10 of a file's contents.
local function parse(path, bytes)
  core.check(#bytes > 0 and #bytes % record == 0,
    "cifar10: '%s' has %d bytes; %d for each picture are expected", path, #bytes, record)
  local n = #bytes / record
  local rows = mt.frombuffer(bytes, {dtype = 'uint8', shape = {n, record}})
  local labels = rows[{{}, 1}]
  local highest = labels:max():item()
  if highest > 9 then core.fail("cifar10: '%s' has the label %d; labels are 0 to 9", path, highest) end
  return rows[{{}, {2, record}}]:reshape(n, 3, 32, 32), labels:long() + 1
end

--- The paths and contents of files in a folder or in its subfolder, else in the archive, which is downloaded if needed.
local function contents(root, list, download)
  local read = core.formats().read
  for _, base in ipairs{root, root .. '/' .. folder} do
    local paths = util.map(list, function(name) return base .. '/' .. name end)
    if #util.filter(paths, util.exists) == #paths then
      return util.map(paths, function(path) return {path, read('cifar10', path)} end)
    end
  end
  local path = root .. '/' .. archive
  if download and not util.exists(path) then from.fetch('cifar10', root, {{archive, md5}}, mirrors, download) end
  core.check(util.exists(path),
    "cifar10: '%s' has neither %s nor %s; download=true fetches the archive", root, table.concat(list, ', '), archive)
  local inner = members(path, read('cifar10', path), util.set(list))
  return util.map(list, function(name)
    if not inner[name] then core.fail("cifar10: '%s' has no %s", path, name) end
    return {path .. '/' .. name, inner[name]}
  end)
end

cifar.cifar10 = core.declare('cifar10(root: string = nil, download: bool|string = false, transform: function|table ' ..
  "= nil, target_transform: function|table = nil, train: bool = nil, dtype: 'float32'|'uint8' = 'float32')",
  'The pictures of CIFAR-10 as two sets, train and test, or with train=true or false as the one: .x float ' ..
  "[n x 3 x 32 x 32] from 0 to 1 (600 MB; or bytes, dtype='uint8'), .y the class, from 1 to 10, .classes the " ..
  'names. The binary version, ' .. archive .. ' or what it contains, is in root, $XDG_CACHE_HOME/mtorch/cifar10 or ' ..
  '~/.cache/mtorch/cifar10 by default; download=true, or the address of a mirror, downloads it and checks its md5. ' ..
  'transform is a function of an image, target_transform of a label.',
  function(root, download, transform, target_transform, train, dtype)
    classes.check_transforms('cifar10', transform, target_transform)
    if root and not download then from.check_folder('cifar10', root) end
    root = root or from.cache_folder 'cifar10'
    local list = train == false and {} or util.append({}, train_files)
    if train ~= true then list[#list + 1] = 'test_batch.bin' end
    local images, labels, sets = {}, {}, {}
    for i, file in ipairs(contents(root, list, download)) do
      images[#images + 1], labels[#labels + 1] = parse(unpack(file))
      if i == #train_files or i == #list then -- the end of a set
        local x = mt.cat(images, 1)
        local set = set_of('cifar10', dtype == 'uint8' and x or x:float():div_(255), mt.cat(labels, 1))
        set.classes, set.transform, set.target_transform = names, transform, target_transform
        sets[#sets + 1], images, labels = set, {}, {}
      end
    end
    return unpack(sets)
  end)

return cifar
