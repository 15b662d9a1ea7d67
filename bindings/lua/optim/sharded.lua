-- sharded.lua -- optim.Sharded: an optimizer of which each process keeps the states of 1/n of each parameter
--
-- The optimizer inside has, for each parameter, one slice of its elements, a view: process r has the r-th of n parts. A
-- step reduces and scatters the gradients, lets that optimizer change the slices, and gathers the parameters (ZeRO,
-- Rajbhandari et al. 2020, stage 1). Parameters of dist.shard are such slices, whose gradients are averaged already.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local row_gradients = require 'mtorch.core.row_gradients'
local util = require 'mtorch.core.util'
local Optimizer = require 'mtorch.optim.optimizer'
local parallel = require 'mtorch.dist.parallel'
local part_shapes = require('mtorch.core.sharded_parameters').shapes
local parts = require 'mtorch.dist.parts'
local dist, padded = mt.dist, parts.padded

local Sharded, method = object.class{base = Optimizer, name = 'Sharded'}

--- The parameters that have a gradient in any process, lists by dtype.
local function used(self)
  local flags = util.map(self.cut, function(entry) return entry.param.grad and 1 or 0 end)
  if #flags == 0 then return {} end
  flags = dist.all_reduce_(mt.tensor(flags, {dtype = 'int32'}), 'max'):tolist()
  local lists, of = {}, {}
  for i, entry in ipairs(self.cut) do
    local dtype = entry.param.dtype
    if flags[i] > 0 then
      if not of[dtype] then
        of[dtype] = {}
        lists[#lists + 1] = of[dtype]
      end
      table.insert(of[dtype], entry)
    else
      entry.slice.grad = nil
    end
  end
  return lists
end

--- Gives the slices their parts of the mean gradients.
local function scatter_gradients(list)
  local columns = mt.cat(util.map(list, function(entry)
    local g = entry.param.grad or mt.zeros_like(entry.param)
    return padded(g, entry.size * dist.size()):view(dist.size(), entry.size)
  end), 2)
  local mine = dist.reduce_scatter_(columns:new_empty(columns:size(2)), columns, 'mean')
  local at = 1
  for _, entry in ipairs(list) do
    entry.slice.grad = mine:narrow(1, at, entry.slice:numel())
    at = at + entry.size
  end
end

--- Gives all processes the slices of all.
local function gather_parameters(list)
  local mine = mt.cat(util.map(list, function(entry) return padded(entry.slice:detach(), entry.size) end))
  local all = dist.all_gather_into_(mine:new_empty(dist.size(), #mine), mine)
  local at = 1
  for _, entry in ipairs(list) do
    local p = entry.param:detach()
    p:copy_(all:narrow(2, at, entry.size):reshape(-1):narrow(1, 1, p:numel()):view(p.shape))
    at = at + entry.size
  end
end

method('step(closure=nil)', 'One step of all processes from the mean of their gradients.', function(self, closure)
  local loss = closure and self.closure_loss(closure)
  row_gradients.refuse('Sharded', self:all_parameters())
  mt.no_grad(function()
    local lists = used(self)
    for _, list in ipairs(lists) do
      if self.are_averaged then
        for _, entry in ipairs(list) do entry.slice.grad = parts.own(entry.param.grad) end
      else
        scatter_gradients(list)
      end
    end
    self.inner:step()
    for _, list in ipairs(lists) do gather_parameters(list) end
  end)
  return loss
end)

method('zero_grad()', 'Drops the gradients of all parameters.', function(self)
  core.zero_grad(self:all_parameters())
end)

--- A copy of the state of groups, whose tensors of one dimension (of a slice) or of a parameter are replaced.
local function converted(self, groups, replace)
  local copy, n = {}, 0
  for i, saved in ipairs(groups) do
    copy[i] = util.merged(saved, {state = {}})
    for k = 1, #self.param_groups[i].params do
      n = n + 1
      local state = saved.state[k]
      local new = type(state) == 'table' and {} or state
      for _, key in ipairs(type(state) == 'table' and util.sorted_keys(state) or {}) do
        new[key] = mt.is_tensor(state[key]) and replace(state[key], self.entries[n]) or state[key]
      end
      copy[i].state[k] = new
    end
  end
  return copy
end

method('state_dict()', 'The whole state, which all processes gather: that of the optimizer without shards.',
  function(self)
    return converted(self, self.inner:state_dict(), function(value, entry)
      return value:dim() == 1 and parts.whole(value, entry.shape) or value
    end)
  end)

method('load_state_dict(state)', 'Restores the result of state_dict() of such an optimizer, sharded or not.',
  function(self, state)
    local fits = type(state) == 'table' and #state == #self.param_groups
    for i = 1, fits and #state or 0 do fits = fits and type(state[i]) == 'table' and type(state[i].state) == 'table' end
    self.inner:load_state_dict(fits and converted(self, state, function(value, entry)
      return value.shape == entry.shape and padded(parts.own(value), entry.slice:numel()):clone() or value
    end) or state)
    return self
  end)

function Sharded:all_parameters() return util.map(self.entries, function(entry) return entry.param end) end
function Sharded:any(condition) return parallel.any(condition) end
function Sharded:current() self.inner:current() end
function Sharded:describe() return ('Sharded(%s)'):format(self.inner:describe()) end

--- The parameter of an optimizer and its slice in this process.
local function entry_of(p)
  if part_shapes[p] then return {param = p, slice = p, shape = part_shapes[p]} end
  if not p:is_contiguous() then core.fail('Sharded: a parameter of %s is not contiguous', tostring(p.shape)) end
  return {param = p, slice = parts.own(p:detach()):requires_grad_(), shape = p.shape, size = parts.size(p:numel())}
end

--- Replaces the parameters of an optimizer by slices; returns all entries, and those of parameters that are whole.
local function shard(inner)
  local entries, cut, params = {}, {}, {}
  for _, group in ipairs(inner.param_groups) do
    local slices = {}
    for k, p in ipairs(group.params) do
      local entry = entry_of(p)
      entries[#entries + 1], slices[k] = entry, entry.slice
      if entry.size then cut[#cut + 1], params[#params + 1] = entry, p end
    end
    rawset(group, 'params', slices)
  end
  if #params > 0 then dist.broadcast_(params, 0) end
  return entries, cut
end

return core.declare('Sharded(opt)',
  'An optimizer of all processes of mt.dist, each of which keeps the states of 1/n of the elements: ' ..
  'optim.Sharded(optim.Adam(net:parameters())). Parameters become those of rank 0; a step averages the gradients, ' ..
  'and gathers the parameters. With dist.parallel, which has averaged them, it only gathers. With dist.shard, whose ' ..
  'parameters are parts, it changes state_dict() alone, whose tensors are whole. opt itself is not used any more. ' ..
  'state_dict() is that of opt, and fits any number of processes. ZeRO stage 1 (Rajbhandari et al. 2020).',
  function(opt)
    core.check(type(opt) == 'table' and rawget(opt, 'param_groups') and rawget(opt, 'handle'),
      'Sharded: an optimizer that changes each element by itself is needed, got %s',
      type(opt) == 'table' and rawget(opt, 'name') or core.describe(opt))
    local state = opt:state_dict()
    local entries, cut = shard(opt)
    local averaged = dist.size() > 1
    for _, entry in ipairs(cut) do averaged = averaged and parallel.averaged[entry.param] or false end
    local self = object.new(Sharded, {inner = opt, name = opt.name, defaults = opt.defaults, entries = entries,
      cut = cut, param_groups = opt.param_groups, are_averaged = averaged})
    opt:current()
    self:load_state_dict(state)
    return self
  end)
