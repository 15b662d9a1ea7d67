-- sets.lua -- sets based on tensors and on other sets: TensorDataset, Subset, ConcatDataset, random_split
local core = require 'mtorch.core'
local mt = require 'mtorch'
local classes = require 'mtorch.data.class'
local class, check_set = classes.class, classes.check_set
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local sets = {}

--- "(3) float32" for each tensor, without the number of rows.
local function rows_text(tensors)
  return table.concat(util.map(tensors, function(x)
    return ('(%s) %s'):format(table.concat(x.shape, ', ', 2), x.dtype)
  end), ', ')
end

-- The interface that a loader needs: size(); get(i), the values of example i, from 1; and
-- optionally get_batch(positions), the values of many examples, for an int64 tensor of positions.

--- The position i among n, from 1; -1 is the last.
local function position_of(i, n)
  if type(i) ~= 'number' then core.fail('get: a position is needed, 1..%d, got %s', n, core.describe(i)) end
  local at = i < 0 and n + 1 + i or i
  if at >= 1 and at <= n and at % 1 == 0 then return at end
  core.fail('get: position %s is outside 1..%d', core.describe(i), n)
end
local transform_options = {transform = 'function|table', target_transform = 'function|table'}

local TensorDataset = class('TensorDataset(..)',
  'Examples that are rows of tensors, TensorDataset(x, y, .., {transform=, target_transform=}): get(i) gives x[i], ' ..
  'y[i], ..; transform(x[i]) and target_transform(y[i]) where there are such functions, which may also be assigned ' ..
  'later, set.transform = f. The tensors are in .tensors.',
  function(...)
    local n = select('#', ...)
    local tensors, options = {...}, {}
    local last = tensors[n]
    if type(last) == 'table' and getmetatable(last) == nil and (n == 1 or last[1] == nil) then
      tensors[n] = nil
      for key, value in pairs(last) do (type(key) == 'number' and tensors or options)[key] = value end
      n = #tensors
      core.check_options('TensorDataset', options, transform_options)
      classes.check_transforms('TensorDataset', options.transform, options.target_transform)
    end
    if n == 0 then core.fail 'TensorDataset: at least one tensor is needed' end
    for k = 1, n do
      local x = tensors[k]
      core.check(mt.is_tensor(x) and x:dim() > 0,
        'TensorDataset: argument %d must be a tensor with rows, got %s', k, core.describe(x))
      core.check(#x == #tensors[1], 'TensorDataset: tensor %d has %d rows, the first has %d', k, #x, #tensors[1])
    end
    return {tensors = tensors, transform = options.transform, target_transform = options.target_transform}
  end)
sets.TensorDataset = TensorDataset

function TensorDataset:size() return #self.tensors[1] end
local function rows(tensors, i, k)
  if k > #tensors then return end
  return tensors[k][i], rows(tensors, i, k + 1)
end
function TensorDataset:get(i)
  i = position_of(i, #self.tensors[1])
  if self.transform or self.target_transform then return classes.transformed(self, rows(self.tensors, i, 1)) end
  if #self.tensors == 2 then return self.tensors[1][i], self.tensors[2][i] end
  return rows(self.tensors, i, 1)
end
local function rows_at(x, positions)
  if x.device ~= 'cpu' then positions = positions:to(x.device) end
  return (x:index_select(1, positions))
end
local function selected(tensors, positions, k)
  if k > #tensors then return end
  return rows_at(tensors[k], positions), selected(tensors, positions, k + 1)
end
function TensorDataset:get_batch(positions) return selected(self.tensors, positions, 1) end
TensorDataset.__batches_of = TensorDataset.get
function TensorDataset:describe()
  local text = ''
  for _, name in ipairs{'transform', 'target_transform'} do
    if self[name] then text = ('%s, %s=%s'):format(text, name, shown.value(self[name])) end
  end
  return ('TensorDataset(%d examples of %s%s)'):format(self:size(), rows_text(self.tensors), text)
end

-- In a set with a name, .x and .y are its tensors, also for assignments.
local place = {x = 1, y = 2}
local members = TensorDataset.__index
function TensorDataset.__index(self, key)
  if place[key] and rawget(self, 'name') then return self.tensors[place[key]] end
  return members(self, key)
end
function TensorDataset.__newindex(self, key, value)
  if place[key] and rawget(self, 'name') then self.tensors[place[key]] = value else rawset(self, key, value) end
end

--- A set of inputs and targets, .x and .y, with a name.
function sets.named(name, x, y)
  local set = TensorDataset(x, y)
  set.name = name
  return set
end

-- Positions are on the CPU.
local whole = {dtype = 'int64', device = 'cpu'}

--- The positions of a list or an integer tensor, as an int64 tensor on the CPU; each is checked to be in 1..n, where
--- -1 is n.
local function positions_of(op, indices, n)
  local list = indices
  if not mt.is_tensor(list) then
    core.check(type(list) == 'table',
      '%s: indices must be a list or a tensor of positions, got %s', op, core.describe(list))
    list = #list == 0 and mt.zeros({0}, whole) or mt.tensor(list, whole)
  end
  core.check(list:dim() == 1 and list.dtype:find 'int',
    '%s: indices must be one row of whole numbers, got %s', op, core.describe(list))
  list = list:to('int64'):cpu()
  if #list > 0 then
    local least, most = list:min():item(), list:max():item()
    if n and least < 0 and least >= -n then
      list = mt.where(list:lt(0), list + (n + 1), list)
      least = list:min():item()
    end
    local bad = least < 1 and least or n and most > n and most
    core.check(not bad, '%s: position %d is outside 1..%s', op, bad, n and tostring(n) or 'n')
  end
  return list
end
sets.position_of, sets.positions_of = position_of, positions_of

local Subset = class('Subset(set: any, indices: ints|tensor)',
  'The examples of a set at these positions, a list or an integer tensor.',
  function(set, indices)
    check_set('Subset', set)
    local list = positions_of('Subset', indices, classes.size_of(set))
    return {dataset = set, indices = list}
  end)
sets.Subset = Subset
function Subset:size() return #self.indices end
function Subset:get(i)
  return self.dataset:get(self.indices:at(position_of(i, #self.indices)))
end
--- A set with get_batch also has batches of any of its parts.
function Subset:get_batch(positions) return self.dataset:get_batch(self.indices:index_select(1, positions)) end
Subset.__batches_of = Subset.get
function Subset:describe()
  return ('Subset(%d of %s)'):format(self:size(), shown.set(self.dataset))
end

local ConcatDataset = class('ConcatDataset([sets]: list)',
  'Sets one after another: ConcatDataset{a, b}. The sets are in .datasets, their ends in .cumulative_sizes.',
  function(list)
    core.check(not classes.is_set(list) and type(list) == 'table' and #list > 0,
      'ConcatDataset: a list of sets is needed, ConcatDataset{a, b}; got %s', core.describe(list))
    local self = {datasets = {}, cumulative_sizes = {}}
    local total = 0
    for k = 1, #list do
      total = total + classes.size_of(check_set('ConcatDataset', list[k], ('entry %d'):format(k)))
      self.datasets[k], self.cumulative_sizes[k] = list[k], total
    end
    return self
  end)
sets.ConcatDataset = ConcatDataset
function ConcatDataset:size() return self.cumulative_sizes[#self.cumulative_sizes] end
function ConcatDataset:get(i)
  local first, last = 1, #self.cumulative_sizes
  i = position_of(i, self:size())
  while first < last do -- the first end that is not before i
    local middle = math.floor((first + last) / 2)
    if self.cumulative_sizes[middle] < i then first = middle + 1 else last = middle end
  end
  return self.datasets[first]:get(i - (self.cumulative_sizes[first - 1] or 0))
end
function ConcatDataset:describe()
  return ('ConcatDataset(%d examples: %s)'):format(self:size(), table.concat(util.map(self.datasets, shown.set), ' + '))
end

--- PyTorch's rule: floor(n f) for each fraction; the remainder is distributed one by one from the first.
local function sizes_of(n, lengths)
  local sum, fractions = 0, true
  for k = 1, #lengths do
    local length = lengths[k]
    core.check(type(length) == 'number' and length >= 0,
      'random_split: length %d must be a number from 0, got %s', k, core.describe(length))
    sum, fractions = sum + length, fractions and length <= 1
  end
  if not (fractions and math.abs(sum - 1) < 1e-6) then
    for k, length in ipairs(lengths) do
      core.check(length % 1 == 0,
        'random_split: length %d is %s; lengths are whole, or fractions that sum to 1', k, tostring(length))
    end
    if sum ~= n then core.fail('random_split: the lengths sum to %d, the set has %d examples', sum, n) end
    return lengths
  end
  local sizes, left = {}, n
  for k, f in ipairs(lengths) do
    sizes[k] = math.floor(n * f / sum + 1e-9)
    left = left - sizes[k]
  end
  for k = 1, left do sizes[(k - 1) % #sizes + 1] = sizes[(k - 1) % #sizes + 1] + 1 end
  return sizes
end

--- The parts as several values; they are also fields of the first one, parts[1], parts[2], for a single variable.
sets.random_split = core.declare('random_split(set: any, lengths: numbers, generator: generator = nil)',
  'Parts of a set, drawn without replacement: local train, valid = mt.data.random_split(set, {0.8, 0.2}); lengths ' ..
  'are numbers of examples, or fractions that sum to 1.',
  function(set, lengths, generator)
    check_set('random_split', set)
    local n = classes.size_of(set)
    local sizes = sizes_of(n, lengths)
    local order = mt.randperm(n, {generator = generator, device = 'cpu'})
    local parts = util.map(order:split(sizes), function(part) return Subset(set, part) end)
    for k = 1, #parts do parts[1][k] = parts[k] end
    return unpack(parts)
  end)

return sets
