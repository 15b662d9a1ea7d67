-- train_parallel.lua -- data-parallel training: each process has a part of every batch, gradients are averaged
--
--   mtorch --processes 2 scripts/train_parallel.lua      two processes, half a batch each
--   mtorch scripts/train_parallel.lua                    one process, the whole batch
--
-- Every process has the same network: dist.parallel copies rank 0's parameters, and backward() averages gradients,
-- so that the parameters stay equal bit for bit, which the end of the script checks.
local mt = require 'mtorch'
local nn, optim, data, dist = mt.nn, mt.optim, mt.data, mt.dist

local options = mt.args{
  {'hidden', 64, 'units of the hidden layers', type = 'int', min = 1},
  {'epochs', 100, 'passes over the points', type = 'int', min = 1},
  {'batch', 64, 'batch size, of all processes together', type = 'int', min = 1},
  {'rate', 0.01, 'learning rate of Adam', min = 0},
}
local rank, size = dist.init()
mt.manual_seed(options.seed or 1) -- the same points in every process
local set = data.spiral(1024)

local net = dist.parallel(nn.Sequential(nn.Linear(2, options.hidden), nn.ReLU(),
  nn.Linear(options.hidden, options.hidden), nn.ReLU(), nn.Linear(options.hidden, 1)))
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local criterion = nn.BCEWithLogitsLoss()
local loader = data.DataLoader(data.TensorDataset(set.x, set.y),
  {batch_size = math.max(1, math.floor(options.batch / size)), shuffle = true, seed = 1, shard = {rank, size}})

for epoch = 1, options.epochs do
  local sum = mt.zeros(1)
  for x, y in loader:iter() do
    opt:zero_grad()
    local loss = criterion(net(x):squeeze(2), y)
    loss:backward()
    opt:step()
    sum = sum + loss:detach()
  end
  dist.all_reduce_(sum, {op = 'mean'})
  if epoch % 10 == 0 then dist.print(('epoch %3d  loss %.4f'):format(epoch, sum:item() / loader:size())) end
end

local right = mt.no_grad(function() return net(set.x):squeeze(2):gt(0):eq(set.y:gt(0.5)):sum():item() end)
local nets = dist.all_gather(nn.parameters_to_vector(net:parameters()):detach())
for _, other in ipairs(nets) do assert(other:equal(nets[1]), 'the processes ended with different nets') end
if rank == 0 then
  print(('%d of %d points right; %d process%s with equal nets'):format(right, set.x:size(1), size,
    size > 1 and 'es' or ''))
end
