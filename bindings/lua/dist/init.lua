-- init.lua -- mt.dist: training by several processes that mpirun starts
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'

local dist, parts = core.dist()
local parallel_nets = setmetatable({}, {__mode = 'k'}) -- nets whose gradients are averaged

dist.parallel = core.declare('parallel(net, buffers: bool = true)',
  'The net, for training by all processes: parameters and buffers become those of rank 0, and each backward() ' ..
  'averages the gradients of its parameters over the processes before it adds them to .grad, so that equal steps ' ..
  'keep the processes equal. Each process reads its own part of the data (DataLoader\'s shard={rank, size}); all ' ..
  'make as many backward passes. buffers: each forward, after eval() as well, first takes the buffers of rank 0 ' ..
  '(BatchNorm\'s running statistics), so all processes make as many; false leaves them to each process. Li ' ..
  'et al. 2020 (PyTorch\'s DistributedDataParallel).',
  function(net, sync_buffers)
    if not class.is_module(net) then core.fail('dist.parallel: a module is needed, got %s', class.describe(net)) end
    if parallel_nets[net] then return net end
    local tensors, parameters, buffers, averaged = {}, {}, {}, {}
    for _, p in net:named_parameters() do
      tensors[#tensors + 1] = p
      if p.requires_grad then
        parameters[#parameters + 1] = p
        averaged[p] = true
      end
    end
    for _, b in net:named_buffers() do
      tensors[#tensors + 1] = b
      buffers[#buffers + 1] = b
    end
    dist.broadcast_(tensors, 0)
    parts.average_gradients(parameters)
    if dist.size() > 1 then
      net:register_forward_pre_hook(function()
        for name, p in net:named_parameters() do
          if p.requires_grad and not averaged[p] then
            core.fail('dist.parallel: %s was added or given requires_grad later, so its gradient is not averaged; ' ..
              'build the whole net first', name)
          end
        end
        if sync_buffers and #buffers > 0 then dist.broadcast_(buffers, 0) end
      end)
    end
    parallel_nets[net] = true
    return net
  end)

return dist
