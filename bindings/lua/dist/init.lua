-- init.lua -- mt.dist: training by several processes that mpirun starts
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'

local dist, parts = core.dist()
local joined = setmetatable({}, {__mode = 'k'}) -- nets whose gradients are averaged

dist.parallel = core.declare('parallel(net)',
  'The net, for training by all processes: parameters and buffers become those of rank 0, and each backward() ' ..
  'averages the gradients of its parameters over the processes before it adds them to .grad, so that equal steps ' ..
  'keep the processes equal. Each process reads its own part of the data (DataLoader\'s shard={rank, size}); all ' ..
  'make as many backward passes. Li et al. 2020 (PyTorch\'s DistributedDataParallel).',
  function(net)
    if not class.is_module(net) then core.fail('dist.parallel: a module is needed, got %s', class.describe(net)) end
    if joined[net] then return net end
    local tensors, parameters = {}, {}
    for _, p in net:named_parameters() do
      tensors[#tensors + 1] = p
      if p.requires_grad then parameters[#parameters + 1] = p end
    end
    for _, b in net:named_buffers() do tensors[#tensors + 1] = b end
    dist.broadcast_(tensors, 0)
    parts.average_gradients(parameters)
    joined[net] = true
    return net
  end)

return dist
