-- test_worker_setups.lua -- starts workers 60 times while a report is open, and checks the copied values; an argument
-- is the number of processes
--
-- The values that a loader copies into its workers are in tables whose order depends on addresses, so each process
-- compiles other loops; LuaJIT before September 2022 compiles some of them wrongly (`mtorch doctor` reports it).
local mt = require 'mtorch'
local t = require 'testing'
local data = mt.data

local processes, seed = tonumber(arg[1]) or 0, tonumber(arg[2]) or 1

-- Tables without metatables are sent unchanged; the test for them was wrong in one process of five.
t.test('no table with a metatable is sent as a plain one', function()
  local copy, T = require 'mtorch.data.copy', data.transforms
  local function find_wrong(value, path, seen)
    if type(value) ~= 'table' or seen[value] then return end
    seen[value] = true
    if getmetatable(value) then error(path .. ' has a metatable') end
    for key, inner in pairs(value) do find_wrong(inner, path .. '.' .. tostring(key), seen) end
  end
  jit.off(find_wrong)
  local draws = t.random_source()
  draws.seed(seed)
  for _ = 1, 2000 do
    local list = {T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize({0.5}, {0.25}),
      T.RandomCrop({8, 8}, {padding = 2}), T.ColorJitter(0.2)}
    for k = 5, draws.between(2, 6), -1 do list[k] = nil end
    local set = {paths = {}, y = mt.range(1, 5), classes = {'a', 'b'}, class_to_idx = {a = 1, b = 2},
      transform = T.Compose(list), options = {1, {2, {x = 1}}}, size = function() return 5 end}
    for k = 1, draws.below(30) do set.paths[k] = 'path' .. k end
    if draws.chance(50) then set.f = function() return list end end
    function set:get(i) return self.y[i] end
    find_wrong(copy.pack{set = set}, 'packed', {})
  end
end)

local function folder_of_images()
  local root = os.tmpname()
  os.remove(root)
  os.execute(('mkdir -p %s/even %s/odd'):format(root, root))
  for i = 1, 12 do
    data.save_image(('%s/%s/%d.png'):format(root, i % 2 == 0 and 'even' or 'odd', i),
      mt.full({3, 8, 8}, i * 10):to('uint8'))
  end
  return root
end

t.test('60 set-ups of workers under a report', function()
  local root, T = folder_of_images(), data.transforms
  local function train(workers)
    mt.manual_seed(3)
    local set = data.folder(root, {transform = T.Compose{T.RandomHorizontalFlip(), T.ToTensor(),
      T.Normalize({0.5, 0.5, 0.5}, {0.25, 0.25, 0.25})}})
    local loader = data.DataLoader(set, {batch_size = 6, shuffle = true, workers = workers, seed = 1})
    local net = mt.nn.Sequential(mt.nn.Conv2d(3, 4, 3), mt.nn.ReLU(), mt.nn.Flatten(), mt.nn.Linear(144, 2))
    local opt = mt.optim.Adam(net:parameters())
    local report = mt.Report{path = workers > 0 and root .. '/run.html' or nil, config = {workers = workers}}
    local losses = {}
    for epoch = 1, 60 do
      local sum = 0
      for x, y in loader:iter() do
        local loss = mt.cross_entropy(net(x), y)
        opt:zero_grad()
        loss:backward()
        opt:step()
        sum = sum + loss:item()
        report:scalar('loss/step', loss:item())
      end
      report:scalars({['loss/epoch'] = sum, accuracy = epoch}, epoch)
      report:row{epoch = epoch, loss = sum}
      losses[epoch] = sum
    end
    report:finish()
    return losses
  end
  t.eq(train(2), train(0))
  os.execute('rm -r ' .. root)
end)

for i = 1, processes do
  t.test('process ' .. i, function()
    t.eq(os.execute(('%s %s 0 %d'):format(arg[-1], arg[0], i)), 0)
  end)
end
t.finish()
