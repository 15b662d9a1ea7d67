-- batch.lua -- the examples of one batch: read from the set and collated, with their own random numbers
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local classes = require 'mtorch.data.class'
local native = core.loader()

-- ---- collation, with the rules of torch.utils.data.default_collate ---------------------------------

local collate

--- An error without a position, which the caller adds.
local function fail(message, ...) error(message:format(...), 0) end

--- Collates tables by key, and lists by index.
local function collate_tables(values, path)
  local first, out = values[1], {}
  for i, value in ipairs(values) do
    for key in pairs(value) do
      if first[key] == nil then
        fail('example %d of the batch has %s[%s], the first has not', i, path, tostring(key))
      end
    end
  end
  for key in pairs(first) do
    local column = util.map(values, function(value, i)
      if value[key] == nil then fail('example %d of the batch has no %s[%s], the first has', i, path, tostring(key)) end
      return value[key]
    end)
    out[key] = collate(column, ('%s[%s]'):format(path, tostring(key)))
  end
  return out
end

local function kind_of(value) return mt.is_tensor(value) and 'tensor' or type(value) end

function collate(values, path)
  local first = values[1]
  local kind = kind_of(first)
  for i = 2, #values do
    local value = values[i]
    if kind_of(value) ~= kind then
      fail('%s is %s in example 1 of the batch and %s in example %d', path, core.describe(first),
        core.describe(value), i)
    end
    if kind == 'tensor' and (value.shape ~= first.shape or value.dtype ~= first.dtype) then
      fail('%s is %s in example 1 of the batch and %s in example %d; bring them to one size, or give ' ..
        'the loader a collate function', path, core.describe(first), core.describe(value), i)
    end
  end
  if kind == 'tensor' then return (mt.stack(values)) end
  if kind == 'number' or kind == 'boolean' then return (mt.tensor(values)) end
  if kind == 'string' then return values end
  if kind == 'table' then return collate_tables(values, path) end
  fail('%s is a %s; examples are tensors, numbers, booleans, strings and tables of them', path, kind)
end

local function default_collate(examples)
  if type(examples) ~= 'table' or #examples == 0 then
    fail('a list of examples is needed, got %s', core.describe(examples))
  end
  return collate(examples, 'a value')
end

-- ---- examples --------------------------------------------------------------------------------------

local random, randomseed = math.random, math.randomseed

-- The second part of an item's key: its 1st, 2nd .. occurrence in the epoch, or 0 for a collate function.
local for_collate = 0

--- The values that get(i) returned, in the form for a collate function: a single one unchanged, several as a list,
--- with their number.
local function example(i, ...)
  local n = select('#', ...)
  if n == 0 or (...) == nil then error(('get(%d) returned %s'):format(i, n == 0 and 'nothing' or 'nil'), 0) end
  if n == 1 then return (...), false end
  return {...}, n
end

--- The batch of the positions, as several values; at.item is the current item. job: {seed, epoch, occurrences}.
local function build(set, collate, source, positions, job, at)
  local examples, several = {}, nil
  for k = 1, #positions do
    local i = positions:at(k)
    at.item = i
    randomseed(native.seed(source, job.seed, job.epoch, i, job.occurrences and job.occurrences[k] or 1))
    local value, many = example(i, set:get(i))
    if several == nil then several = many end
    examples[k] = value
  end
  at.item = nil
  randomseed(native.seed(source, job.seed, job.epoch, positions:at(1), for_collate))
  if collate then return collate(examples) end
  local batch = default_collate(examples)
  if several then return unpack(batch, 1, several) end
  return batch
end

--- The batch of a set that returns many examples at once.
local function get_batch(set, _, source, positions, job)
  randomseed(native.seed(source, job.seed, job.epoch, positions:at(1), for_collate))
  return set:get_batch(positions)
end

--- A function of a job {positions, seed, epoch, occurrences}: gives the batch as several values. Errors name the item.
local function maker(set, collate)
  local whole = classes.has_batches(set) and not collate
  if whole and set.__batches_of then -- a set of the library does not draw random numbers
    return function(job) return set:get_batch(job.positions) end
  end
  local make, source = whole and get_batch or build, native.item_random()
  local function finish(at, ok, ...)
    native.leave(source, random)
    if ok then return ... end
    local message = ...
    if type(message) ~= 'string' or core.interrupted() then error(message, 0) end
    core.fail('DataLoader: %s: %s', at.item and ('item %d'):format(at.item) or whole and 'get_batch' or 'collate',
      message)
  end
  return function(job)
    local at = {}
    native.enter(source, random)
    return finish(at, pcall(make, set, collate, source, job.positions, job, at))
  end
end

return {
  maker = maker,
  default_collate = core.declare('default_collate([examples]: list)',
    'The default collate function of loaders: tensors are stacked, numbers and booleans become a tensor, ' ..
    'strings a list, tables a table of these by key.',
    function(examples) return (util.attempt('default_collate', default_collate, examples)) end),
}
