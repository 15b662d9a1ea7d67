-- folder.lua -- mt.data.folder: images in one folder per class, as torchvision's ImageFolder
local core = require 'mtorch.core'
local mt = require 'mtorch'
local classes = require 'mtorch.data.class'
local class = classes.class
local position_of = require('mtorch.data.sets').position_of
local native = core.formats()

local endings = {png = true, jpg = true, jpeg = true}

--- The images below a folder: folders sorted by path, and the images in each by name.
local function images_below(root)
  local folders, at, found = {root}, 1, {}
  while at <= #folders do
    local _, inner = native.list_folder('folder', folders[at])
    for _, name in ipairs(inner) do folders[#folders + 1] = folders[at] .. '/' .. name end
    at = at + 1
    if #folders > 100000 then core.fail("folder: '%s' has more than 100000 folders below it", root) end
  end
  table.sort(folders)
  for _, folder in ipairs(folders) do
    for _, name in ipairs((native.list_folder('folder', folder))) do
      if endings[(name:match('%.(%w+)$') or ''):lower()] then found[#found + 1] = folder .. '/' .. name end
    end
  end
  return found
end

local Folder = class('folder(root: string, transform: function|table = nil, channels: int >= 1 <= 4 = nil, ' ..
  'target_transform: function|table = nil)',
  'A set of the PNG and JPEG files below root, whose folders are the classes, in order, as in ' ..
  "torchvision's ImageFolder: get(i) gives an image, uint8 [channels x height x width], and its label, a 0-d int64 " ..
  'tensor from 1. .classes are the names, .class_to_idx their labels, .paths the files, .y all labels. transform: a ' ..
  'function of the image, target_transform of the label; channels converts images, 1 gray, 3 RGB.',
  nil, nil, function(self)
    local root = self.root
    classes.check_transforms('folder', self.transform, self.target_transform)
    local _, names = native.list_folder('folder', root)
    if #names == 0 then core.fail("folder: '%s' has no folders; each class has one", root) end
    self.classes, self.class_to_idx, self.paths, self.channels = names, {}, {}, self.channels or 0
    local labels = {}
    for label, name in ipairs(names) do
      local found = images_below(root .. '/' .. name)
      if #found == 0 then core.fail("folder: '%s/%s' has no .png, .jpg or .jpeg", root, name) end
      self.class_to_idx[name] = label
      for _, path in ipairs(found) do
        self.paths[#self.paths + 1], labels[#labels + 1] = path, label
      end
    end
    self.y = mt.tensor(labels, {dtype = 'int64', device = 'cpu'})
  end)

--- All threads decode the images of a batch.
function Folder:get_batch(positions)
  local paths = {}
  for k = 1, #positions do paths[k] = self.paths[positions:at(k)] end
  return native.images(paths, self.channels), self.y:index_select(1, positions)
end

function Folder:size() return #self.paths end

function Folder:get(i)
  i = position_of(i, #self.paths)
  local x = native.image(self.paths[i], self.channels)
  return classes.transformed(self, x, self.y[i])
end
Folder.__batches_of = Folder.get

function Folder:describe()
  return ('folder(%s): %d images, %d classes'):format(self.root, #self.paths, #self.classes)
end

return {folder = Folder}
