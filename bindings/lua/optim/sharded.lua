-- sharded.lua -- optim.Sharded: an optimizer of which each process keeps the states of 1/n of each parameter
--
-- The optimizer inside has, for each parameter, one slice of its elements, a view: process r has the r-th of n parts. A
-- step reduces and scatters the gradients, lets that optimizer change the slices, and gathers the parameters (ZeRO,
-- Rajbhandari et al. 2020, stage 1).
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'
local Optimizer = require 'mtorch.optim.optimizer'
local parallel = require 'mtorch.dist.parallel'
local dist = mt.dist

local Sharded, method = object.class{base = Optimizer, name = 'Sharded'}

--- The positions of a part of n elements: the size of a part, the first position, and how many it has.
local function part_of(n, rank)
  local size = math.ceil(n / dist.size())
  local first = math.min(size * rank, n)
  return size, first + 1, math.min(size, n - first)
end

--- The part of this process of a tensor's elements, a view.
local function own_part(x)
  local _, first, count = part_of(x:numel(), dist.rank())
  return x:reshape(-1):narrow(1, first, count)
end

--- A flat tensor with zeros at its end up to n elements.
local function padded(x, n)
  return x:numel() == n and x or mt.cat{x, x:new_zeros(n - x:numel())}
end

--- The tensor of such a shape whose parts the processes have.
local function whole(part, shape)
  local n = 1
  for _, k in ipairs(shape) do n = n * k end
  local size = part_of(n, 0)
  local all = part:new_empty(size * dist.size())
  return dist.all_gather_into_(all, padded(part, size)):narrow(1, 1, n):view(shape)
end

--- The parameters that have a gradient in any process, by dtype: {param=, slice=, size=}.
local function used(self)
  local flags = {}
  for i, entry in ipairs(self.entries) do flags[i] = entry.param.grad and 1 or 0 end
  flags = dist.all_reduce_(mt.tensor(flags, {dtype = 'int32'}), 'max'):tolist()
  local of, dtypes = {}, {}
  for i, entry in ipairs(self.entries) do
    local dtype = entry.param.dtype
    if flags[i] > 0 then
      if not of[dtype] then
        of[dtype] = {}
        dtypes[#dtypes + 1] = dtype
      end
      table.insert(of[dtype], entry)
    else
      entry.slice.grad = nil
    end
  end
  local lists = {}
  for i, dtype in ipairs(dtypes) do lists[i] = of[dtype] end
  return lists
end

--- Gives the slices their parts of the mean gradients.
local function scatter_gradients(list)
  local columns, size = {}, 0
  for i, entry in ipairs(list) do
    local g = entry.param.grad or mt.zeros_like(entry.param)
    columns[i] = padded(g:reshape(-1), entry.size * dist.size()):view(dist.size(), entry.size)
    size = size + entry.size
  end
  local mine = dist.reduce_scatter_(columns[1]:new_empty(size), mt.cat(columns, 2), 'mean')
  local at = 1
  for _, entry in ipairs(list) do
    entry.slice.grad = mine:narrow(1, at, entry.slice:numel())
    at = at + entry.size
  end
end

--- Gives all processes the slices of all.
local function gather_parameters(list)
  local parts, size = {}, 0
  for i, entry in ipairs(list) do
    parts[i] = padded(entry.slice:detach(), entry.size)
    size = size + entry.size
  end
  local all = dist.all_gather_into_(parts[1]:new_empty(dist.size(), size), mt.cat(parts))
  local at = 1
  for _, entry in ipairs(list) do
    local p = entry.param:detach()
    p:copy_(all:narrow(2, at, entry.size):reshape(-1):narrow(1, 1, p:numel()):view(p.shape))
    at = at + entry.size
  end
end

method('step(closure=nil)', 'One step of all processes from the mean of their gradients.', function(self, closure)
  local loss = closure and self.closure_loss(closure)
  mt.no_grad(function()
    local lists = used(self)
    for _, list in ipairs(lists) do
      if self.are_averaged then
        for _, entry in ipairs(list) do entry.slice.grad = own_part(entry.param.grad) end
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
  for _, entry in ipairs(self.entries) do entry.param.grad = nil end
end)

--- A copy of the state of groups, whose tensors of one dimension (of a slice) or of a parameter are replaced.
local function converted(self, groups, replace)
  local copy, n = {}, 0
  for i, saved in ipairs(groups) do
    copy[i] = {}
    for key, value in pairs(saved) do copy[i][key] = value end
    copy[i].state = {}
    for k = 1, #self.param_groups[i].params do
      n = n + 1
      local state, new = saved.state[k], nil
      if type(state) == 'table' then
        new = {}
        for _, key in ipairs(util.sorted_keys(state)) do
          local value = state[key]
          new[key] = mt.is_tensor(value) and replace(value, self.entries[n].param) or value
        end
      end
      copy[i].state[k] = new or state
    end
  end
  return copy
end

method('state_dict()', 'The whole state, which all processes gather: that of the optimizer without shards.',
  function(self)
    return converted(self, self.inner:state_dict(), function(value, p)
      return value:dim() == 1 and whole(value, p.shape) or value
    end)
  end)

method('load_state_dict(state)', 'Restores the result of state_dict() of such an optimizer, sharded or not.',
  function(self, state)
    local fits = type(state) == 'table' and #state == #self.param_groups
    for i = 1, fits and #state or 0 do fits = fits and type(state[i]) == 'table' and type(state[i].state) == 'table' end
    self.inner:load_state_dict(fits and converted(self, state, function(value, p)
      return value.shape == p.shape and own_part(value):clone() or value
    end) or state)
    return self
  end)

function Sharded:current() self.inner:current() end
function Sharded:describe() return ('Sharded(%s)'):format(self.inner:describe()) end

--- Replaces the parameters of an optimizer by the slices of this process; returns {param=, slice=, size=} for each.
local function shard(inner)
  local state, entries, params = inner:state_dict(), {}, {}
  for _, group in ipairs(inner.param_groups) do
    local slices = {}
    for k, p in ipairs(group.params) do
      if not p:is_contiguous() then core.fail('Sharded: a parameter of %s is not contiguous', tostring(p.shape)) end
      params[#params + 1] = p
      slices[k] = own_part(p:detach()):requires_grad_()
      entries[#entries + 1] = {param = p, slice = slices[k], size = (part_of(p:numel(), 0))}
    end
    rawset(group, 'params', slices)
  end
  dist.broadcast_(params, 0)
  inner:current()
  return entries, state
end

return core.declare('Sharded(opt)', 'An optimizer of all processes of mt.dist, each of which keeps the states of 1/n ' ..
  'of the elements: optim.Sharded(optim.Adam(net:parameters())). Parameters become those of rank 0; a step averages ' ..
  'the gradients, and gathers the parameters. With dist.parallel, which has averaged them, it only gathers. opt ' ..
  'itself is not used any more. state_dict() is that of opt, and fits any number of processes. ZeRO stage 1 ' ..
  '(Rajbhandari et al. 2020).',
  function(opt)
    if type(opt) ~= 'table' or not rawget(opt, 'param_groups') or not rawget(opt, 'handle') then
      core.fail('Sharded: an optimizer that changes each element by itself is needed, got %s',
        type(opt) == 'table' and rawget(opt, 'name') or core.describe(opt))
    end
    local entries, state = shard(opt)
    local averaged = dist.size() > 1
    for _, entry in ipairs(entries) do averaged = averaged and parallel.averaged[entry.param] or false end
    local self = object.new(Sharded, {inner = opt, name = opt.name, defaults = opt.defaults, entries = entries,
      param_groups = opt.param_groups, are_averaged = averaged})
    self:load_state_dict(state)
    return self
  end)
