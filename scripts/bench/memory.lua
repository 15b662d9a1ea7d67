-- memory.lua -- trains a small CNN on generated digits for one epoch and prints the largest memory of the process
--
--   mtorch scripts/bench/memory.lua --count 8192      peers/memory_torch.py does the same
local mt = require 'mtorch'
local nn = mt.nn
local options = mt.args {{'count', 8192, 'digits', type = 'int', min = 64}}
local x, y = mt.rand(options.count, 1, 28, 28), mt.randint(1, 10, {options.count})
local net = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10))
local opt = mt.optim.SGD(net:parameters(), {lr = 0.05})
for a, b in mt.data.DataLoader(mt.data.TensorDataset(x, y), {batch_size = 64, shuffle = true}):iter() do
  opt:zero_grad()
  mt.cross_entropy(net(a), b):backward()
  opt:step()
end
for line in io.lines('/proc/self/status') do
  local kib = line:match('^VmHWM:%s+(%d+)')
  if kib then print(('peak_mib=%.1f'):format(kib / 1024)) end
end
