-- loaders.lua -- rows of loaders: batches of rows and of image files
--
-- loader_rows/64: a shuffled batch of 64 rows of 784 floats. loader_png/64: one of 64 pictures of 28 x 28 in PNG files,
-- read by two workers.
local mt = require 'mtorch'

--- Returns a function that returns the next batch, epoch after epoch.
local function batches(loader)
  local next_batch = loader:iter()
  return function()
    if next_batch() == nil then
      next_batch = loader:iter()
      next_batch()
    end
  end
end

local function row_batches()
  local rows = mt.data.TensorDataset(mt.rand(8192, 784), mt.randint(1, 10, {8192}))
  return batches(mt.data.DataLoader(rows, {batch_size = 64, shuffle = true, drop_last = true}))
end

local kept -- the folder of the pictures, removed when the program ends
local function picture_batches()
  local data = mt.data
  local root = os.tmpname()
  os.remove(root)
  mt.extend.make_folders('bench', root .. '/a')
  kept = newproxy(true)
  getmetatable(kept).__gc = function() os.execute(("rm -r '%s'"):format(root)) end
  for i = 1, 1024 do
    data.save_image(('%s/a/%d.png'):format(root, i), mt.randint(0, 255, {1, 28, 28}):to('uint8'))
  end
  local set = data.folder(root, {transform = data.transforms.ToTensor(), channels = 3})
  return batches(data.DataLoader(set, {batch_size = 64, shuffle = true, workers = 2}))
end

return {
  row_batches = row_batches, picture_batches = picture_batches,
  add = function(row)
    for name, make in pairs {['loader_rows/64'] = 'row_batches', ['loader_png/64'] = 'picture_batches'} do
      row('loaders', name, '', {{"local call = require('bench.loaders')." .. make .. '()', 'call()'},
        torch = {('import data_torch\ncall = data_torch.%s()'):format(make), 'call()'}})
    end
  end,
}
