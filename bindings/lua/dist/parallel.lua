-- parallel.lua -- dist.parallel: a net in every process, whose gradients are averaged
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'
local sharded = require 'mtorch.core.sharded_parameters'
local util = require 'mtorch.core.util'
local mt = require 'mtorch'
local dist = mt.dist
local parts = core.dist_parts

local parallel = {}
local averages = setmetatable({}, {__mode = 'k'}) -- of nets: the state of the averaging
parallel.averaged = setmetatable({}, {__mode = 'k'}) -- parameters whose gradients are averaged

--- Raises an error for a net whose gradients cannot be averaged, or are averaged already.
function parallel.check_net(operation, net)
  for _, module in ipairs(net:modules()) do
    core.check(module.sparse ~= true,
      '%s: an embedding has sparse gradients, which are not averaged; leave sparse out', operation)
  end
  core.check(not sharded.any(net:parameters()), '%s: the net is one of dist.shard, or holds one', operation)
end

--- Raises an error for a parameter of the net for which is_known(p) is false.
function parallel.check_parameters(operation, net, is_known)
  for name, p in net:named_parameters() do
    core.check(is_known(p), '%s: %s was added or given requires_grad later; build the whole net first', operation, name)
  end
end

--- Before each forward: takes the buffers of the first process, and refuses later parameters. A copy of the net (clone,
--- nn.quantize) is not averaged, and belongs to this process alone.
local function check_before_forward(net, sync_buffers)
  local function is_known(p) return parallel.averaged[p] or not p.requires_grad end
  net:register_forward_pre_hook(function(self)
    if self ~= net then return end
    parallel.check_parameters('dist.parallel', net, is_known)
    if not sync_buffers then return end
    local buffers = net:buffers()
    if #buffers > 0 then dist.broadcast_(buffers, 0) end
  end)
end

parallel.parallel = core.declare("parallel(net, bucket_mb: number > 0 = 25, buffers: bool = true, " ..
  "wire: 'float32'|'bfloat16' = 'float32', static: bool = false)",
  'The net, for training by all processes: parameters and buffers become those of rank 0, and each backward() ' ..
  'averages the gradients of its parameters over the processes before it adds them to .grad, so that equal steps ' ..
  "keep the processes equal. Each process reads its own part of the data (DataLoader's shard={rank, size}); all " ..
  'make as many backward passes. Gradients are sent in buffers of bucket_mb megabytes as soon as these are full, ' ..
  'while the pass goes on (on a GPU, and where each process has an idle core: MTORCH_DIST_THREAD); with hooks, ' ..
  'mt.Function or several such nets in a pass, at its end. buffers: each forward, after eval() as well, first takes ' ..
  "the buffers of rank 0 (BatchNorm's running statistics), so all processes make as many; false leaves them to each " ..
  "process. wire: 'bfloat16' sends half the bytes, and adds in float32. static: every pass uses the parameters that " ..
  "the first one used, in any process, which saves a message. Li et al. 2020 (PyTorch's DistributedDataParallel).",
  function(net, bucket_mb, sync_buffers, wire, static)
    class.check_module('dist.parallel', net)
    if averages[net] then return net end
    parallel.check_net('dist.parallel', net)
    local parameters = util.filter(net:parameters(), function(p) return p.requires_grad end)
    dist.broadcast_(util.append(net:buffers(), net:parameters()), 0)
    averages[net] = parts.average_gradients(parameters, bucket_mb, wire == 'bfloat16', static)
    if dist.size() > 1 then
      for _, p in ipairs(parameters) do parallel.averaged[p] = true end
      check_before_forward(net, sync_buffers)
    end
    return net
  end)

--- How many buffers of gradients a net has sent before the end of its backward passes.
function parallel.sent_early(net) return parts.sent_early(averages[net]) end

parallel.no_sync = core.declare('no_sync(net, fn: function, ..)',
  'fn(..), whose backward passes of a net of dist.parallel add to .grad without averages; the next pass outside ' ..
  'averages what has been added. For several small batches before a step: all but the last are in no_sync.',
  function(net, fn, ...)
    local state = averages[net]
    if not state then core.fail('dist.no_sync: a net of dist.parallel is needed, got %s', class.describe(net)) end
    parts.enable_average(state, false)
    return util.finally(function() parts.enable_average(state, true) end, fn, ...)
  end)

function parallel.any(condition)
  return dist.all_reduce_(mt.tensor({condition and 1 or 0}, {dtype = 'int32'}), 'max'):item() == 1
end

parallel.join = core.declare('join(batches, step: function)',
  'step(..) for each batch that a loader, a list or an iterator gives, where the processes have unequal numbers of ' ..
  'batches: one whose batches have ended repeats its last one until those of all have ended, and its backward() ' ..
  'starts from a gradient of 0 (mt.grad does not). So all make the same calls, and parameters and the state of the ' ..
  'optimizer stay equal. Averages are still divided by the number of processes. Ends in all if step returns false ' ..
  "in any. Returns the number of steps, and of batches of this process. PyTorch's Join.",
  function(batches, step)
    local next = util.batches('dist.join', batches)
    local batch, has_ended, steps, own = {}, false, 0, 0
    while true do
      local new = has_ended and {} or core.pack(next(nil, batch[1]))
      has_ended = new[1] == nil
      if not has_ended then
        batch, own = new, own + 1
      end
      if not parallel.any(not has_ended) then return steps, own end
      core.check(steps ~= 0 or not parallel.any(has_ended), 'dist.join: %s process has no batch at all, so it could ' ..
        'not repeat its last one', has_ended and 'this' or 'another')
      local before = parts.zero_gradients(has_ended)
      local result = util.finally(function() parts.zero_gradients(before) end, step, unpack(batch, 1, batch.n))
      steps = steps + 1
      if parallel.any(result == false) then return steps, own end
    end
  end)

return parallel
