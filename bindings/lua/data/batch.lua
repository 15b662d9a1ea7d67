-- batch.lua -- the examples of one batch: read from the set and collated, with their own random numbers
local core = require 'mtorch.core'
local native = core.loader()
local default_collate = require('mtorch.data.collate').collate
local classes = require 'mtorch.data.class'

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

return maker
