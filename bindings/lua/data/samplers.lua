-- samplers.lua -- orders in which a loader takes examples; samplers of other kinds are objects with
-- size() and iter()
local core = require 'mtorch.core'
local mt = require 'mtorch'
local classes = require 'mtorch.data.class'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'
local positions_of = require('mtorch.data.sets').positions_of
local class, check_set = classes.class, classes.check_set

local samplers = {}
local whole = {dtype = 'int64', device = 'cpu'} -- positions are on the CPU

-- These samplers draw a whole epoch at once: order(generator) is an int64 tensor of positions.
-- `repeats` means that a position may occur twice.

--- An iterator over the positions, drawn from the sampler's generator.
local function positions(self)
  local order, i = self:order(self.generator), 0
  return function()
    i = i + 1
    if i <= #order then return order:at(i) end
  end
end

local function sampler(name, signature, doc, new, init)
  local of = class(name .. signature, doc, new, 'sampler', init)
  samplers[name], of.iter = of, positions
  function of:describe() return ('%s(%d positions)'):format(name, self:size()) end
  return of
end

local Sequential = sampler('SequentialSampler', '(set: any)', 'The positions 1..n in order.', function(set)
  return {dataset = check_set('SequentialSampler', set)}
end)
function Sequential:size() return classes.size_of(self.dataset) end
function Sequential:order()
  local n = self:size()
  return n == 0 and mt.zeros({0}, whole) or mt.range(1, n, 1, {device = 'cpu'})
end

local Random = sampler('RandomSampler',
  '(set: any, replacement: bool = false, num_samples: int >= 1 = nil, generator: generator = nil)',
  'The positions 1..n in random order; num_samples of them, with replacement if asked.',
  function(set, replacement, num_samples, generator)
    check_set('RandomSampler', set)
    return {dataset = set, replacement = replacement, num_samples = num_samples, generator = generator,
      repeats = replacement or (num_samples or 0) > classes.size_of(set)}
  end)
function Random:size() return self.num_samples or classes.size_of(self.dataset) end
function Random:order(generator)
  local n, wanted = classes.size_of(self.dataset), self:size()
  if n == 0 then return mt.zeros({0}, whole) end
  if self.replacement then return mt.randint(1, n, {wanted}, {generator = generator, device = 'cpu'}) end
  local options = {generator = generator, device = 'cpu'}
  if wanted == n then return (mt.randperm(n, options)) end
  local order = mt.empty({wanted}, whole)
  for first = 1, wanted, n do
    local size = math.min(n, wanted - first + 1)
    order:narrow(1, first, size):copy_(mt.randperm(n, options):narrow(1, 1, size))
  end
  return order
end

local SubsetRandom = sampler('SubsetRandomSampler', '([indices]: ints|tensor, generator: generator = nil)',
  'These positions in random order.',
  function(indices, generator)
    local list = positions_of('SubsetRandomSampler', indices)
    return {indices = list, generator = generator, repeats = #list:unique() < #list}
  end)
function SubsetRandom:size() return #self.indices end
function SubsetRandom:order(generator)
  return (self.indices:index_select(1, mt.randperm(#self.indices, {generator = generator, device = 'cpu'})))
end

local Weighted = sampler('WeightedRandomSampler',
  '([weights]: numbers|tensor, num_samples: int >= 1, replacement: bool = true, generator: generator = nil)',
  'num_samples positions, each drawn with the probability weights[i] / sum(weights).',
  nil, function(self)
    local weights = self.weights
    if not mt.is_tensor(weights) then weights = mt.tensor(weights, {dtype = 'float64'}) end
    core.check(weights:dim() == 1, 'WeightedRandomSampler: weights must be one row, got %s', core.describe(weights))
    self.weights, self.repeats = weights:detach():cpu():double(), self.replacement
    util.attempt('WeightedRandomSampler', self.order, self, mt.Generator('philox', 0)) -- it checks the weights
  end)
function Weighted:size() return self.num_samples end
function Weighted:order(generator)
  return (mt.multinomial(self.weights, self.num_samples, {replacement = self.replacement, generator = generator}))
end

local Batch = class('BatchSampler(sampler: any, batch_size: int >= 1, drop_last: bool = false)',
  'Lists of batch_size positions of a sampler; the last may be shorter, and is dropped with drop_last.',
  nil, 'sampler', function(self)
    if classes.has_iter(self.sampler) and core.is_callable(self.sampler.size) then return end
    core.fail('BatchSampler: a sampler is needed, an object with size() and iter(); got %s',
      core.describe(self.sampler))
  end)
samplers.BatchSampler = Batch
function Batch:describe()
  return ('BatchSampler(%d batches of %d, %s)'):format(self:size(), self.batch_size, shown.set(self.sampler))
end
function Batch:size()
  local n = classes.size_of(self.sampler) / self.batch_size
  return self.drop_last and math.floor(n) or math.ceil(n)
end
function Batch:iter()
  local next_position = self.sampler:iter()
  return function()
    local list = {}
    for i = 1, self.batch_size do
      list[i] = next_position()
      if list[i] == nil then break end
    end
    if #list > 0 and (#list == self.batch_size or not self.drop_last) then return list end
  end
end

return samplers
