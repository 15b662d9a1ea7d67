-- init.lua -- mt.dist: training by several processes that mpirun starts
--
-- Operations on tensors are those of engine/dist: MPI or NCCL moves the data, after all processes of the group have
-- compared their calls. The rest is built of them here. dist.parallel averages gradients during each backward
-- pass; optim.Sharded keeps a part of each parameter's state in each process (it reduces and scatters gradients and
-- gathers parameters at each step), dist.shard a part of each parameter too, which each layer gathers for its forward
-- and backward. Both present their whole states in state_dict(), so that a checkpoint fits any number of processes.
local core = require 'mtorch.core'

local dist, parts = core.dist(), core.dist_parts()
core.dist_parts = parts

dist.print = core.declare('print(..)', 'print(..) in process 0 alone, for a line that all processes would print.',
  function(...)
    if dist.rank() ~= 0 then return end
    print(...)
    io.stdout:flush()
  end)

local lazy = core.add_lazy({
  checkpoint = function() return core.strict(require 'mtorch.dist.checkpoint', 'mt.dist.checkpoint') end,
}, 'mtorch.dist.', {parallel = 'parallel no_sync join', shard = 'shard'})

return core.strict(dist, 'mt.dist', nil, lazy)
