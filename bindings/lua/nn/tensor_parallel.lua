-- tensor_parallel.lua -- linear layers whose weight is cut between the processes of mt.dist
--
-- As in Megatron-LM (Shoeybi et al. 2019): a column parallel layer computes a part of the outputs in each process, a
-- row parallel one takes a part of the inputs. Each collective operation of the forward pass has its counterpart in the
-- backward pass: copy and sum, cut and gather.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local module = require 'mtorch.nn.module'
local dist = mt.dist

local parallel = {}

local function own_part(x, dim, group)
  local size = x:size(dim) / dist.size(group)
  return x:narrow(dim, dist.rank(group) * size + 1, size)
end
local function sum(x, group) return dist.all_reduce_(x:clone(), {group = group}) end
local function cut(x, group) return own_part(x, -1, group):clone() end
local function gather(x, group) return mt.cat(dist.all_gather(x, group), -1) end
local function copy(x) return x:view_as(x) end

--- The function of a tensor and a group whose gradient is `backward` of that of the result.
local function pair(name, forward, backward)
  return mt.Function{name = name, forward = function(ctx, x, group)
    ctx.group = group
    return forward(x, group)
  end, backward = function(ctx, g) return backward(g, ctx.group), nil end}
end
local copied, summed = pair('copied', copy, sum), pair('summed', sum, copy)
local gathered, cut_up = pair('gathered', gather, cut), pair('cut', cut, gather)

--- Raises an error for a number of features that the processes do not divide, or a process outside of the group.
local function check(name, features, group)
  if dist.rank(group) < 0 then core.fail('%s: process %d is not in the group', name, dist.rank()) end
  core.check(features % dist.size(group) == 0,
    '%s: %d features, which %d processes do not divide', name, features, dist.size(group))
end

parallel.ColumnParallelLinear = module.define{
  'ColumnParallelLinear(in_features: int >= 1, out_features: int >= 1, bias: bool = true, ' ..
    'gather_output: bool = true, group: any = nil)',
  'Linear whose outputs the processes of mt.dist (of a group) share: weight [out/n x in] and bias [out/n] are parts ' ..
    'of those of Linear, drawn with the same numbers. All call it with the same input and get the whole output, or ' ..
    'their part without gather_output, for RowParallelLinear.',
  parameters = {'weight', 'bias'},
  init = function(o)
    check('ColumnParallelLinear', o.out_features, o.group)
    local uniform = module.uniform(1 / math.sqrt(o.in_features))
    return own_part(uniform(o.out_features, o.in_features), 1, o.group):clone(),
      o.bias and own_part(uniform(o.out_features), 1, o.group):clone()
  end,
  forward = function(self, x)
    local y = mt.linear(copied(x, self.group), self.weight, self.bias)
    return self.gather_output and gathered(y, self.group) or y
  end,
}

parallel.RowParallelLinear = module.define{
  'RowParallelLinear(in_features: int >= 1, out_features: int >= 1, bias: bool = true, ' ..
    'input_is_parallel: bool = false, group: any = nil)',
  'Linear whose inputs the processes of mt.dist (of a group) share: weight [out x in/n] is a part of Linear\'s, ' ..
    'drawn with the same numbers; bias is whole. All call it with the same input, or with input_is_parallel with ' ..
    'their part of its last dimension, and get the whole output.',
  parameters = {'weight', 'bias'},
  init = function(o)
    check('RowParallelLinear', o.in_features, o.group)
    local uniform = module.uniform(1 / math.sqrt(o.in_features))
    return own_part(uniform(o.out_features, o.in_features), 2, o.group):clone(), o.bias and uniform(o.out_features)
  end,
  forward = function(self, x)
    local part = self.input_is_parallel and x or cut_up(x, self.group)
    local y = summed(mt.linear(part, self.weight), self.group)
    return self.bias and y + self.bias or y
  end,
}

return parallel
