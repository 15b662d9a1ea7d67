-- loader.lua -- DataLoader: batches of a set in an order that a seed determines, prefetched by workers
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local native = core.loader()
local classes = require 'mtorch.data.class'
local copy = require 'mtorch.data.copy'
local maker = require('mtorch.data.batch').maker
local samplers = require 'mtorch.data.samplers'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'
local whole = util.is_whole
local positions_of = require('mtorch.data.sets').positions_of

-- ---- the options ---------------------------------------------------------------------------------

--- The given sampler: one of ours, an object with iter(), or positions in a list or a tensor; for
--- batches a list of these.
local function sampler_of(what, given, n)
  if classes.has_iter(given) then return given end
  if what == 'sampler' and (mt.is_tensor(given) or type(given) == 'table' and #given > 0) then
    return {fixed = positions_of('DataLoader', given, n)}
  end
  if what == 'batch_sampler' and type(given) == 'table' and (type(given[1]) == 'table' or mt.is_tensor(given[1])) then
    return {size = function() return #given end, iter = function() return util.batches('DataLoader', given) end}
  end
  core.fail('DataLoader: %s must be %s or an object with iter(), got %s', what,
    what == 'sampler' and 'a list of positions' or 'a list of lists of positions', core.describe(given))
end

local function check_shard(shard)
  if shard == nil then return end
  local rank, size = shard.rank or shard[1], shard.size or shard[2]
  core.check(whole(rank, 0) and whole(size, 0) and rank < size, 'DataLoader: shard must be {rank, size} with a rank ' ..
    'from 0 to size - 1, got {%s, %s}', tostring(rank), tostring(size))
  return {rank = rank, size = size}
end

local function refuse_together(a, b)
  core.fail('DataLoader: %s says the order, which %s says too; give one of them', a, b)
end

--- The seed of the order if none is given: drawn from the sampler's own generator, or from the default one.
local function drawn_seed(sampler)
  local generator = rawget(object.unwrap(sampler) or sampler, 'generator')
  return mt.randint(0, 2 ^ 53 - 1, {1}, {generator = generator, device = 'cpu'}):item()
end

local Loader, method = classes.class('DataLoader(set: any, batch_size: int >= 1 = nil, shuffle: bool = nil, ' ..
  'sampler: any = nil, batch_sampler: any = nil, workers: int >= 0 <= 256 = 0, collate: function|table = nil, ' ..
  'drop_last: bool = false, seed: int = nil, shard: table = nil, prefetch: int >= 1 = 2, device: device = nil)',
  'Batches of a set, for x, y in loader:iter() do; loader:size() of them an epoch. The order follows from seed and ' ..
  'epoch (without a seed one is drawn now). workers: threads that prefetch batches on the CPU, `prefetch` each; ' ..
  'a set, its transforms and collate are copied into them, random numbers in them depend on seed, epoch and item. ' ..
  'collate(examples) makes a batch of the results of get(i); shard={rank, size} selects one of size equal parts; ' ..
  'device: batches are moved there. state_dict() and load_state_dict(state) save and restore the position.',
  function(set, batch_size, shuffle, sampler, batch_sampler, worker_count, collate, drop_last, seed, shard, prefetch,
      device)
    classes.check_set('DataLoader', set)
    if sampler ~= nil and shuffle then refuse_together('sampler', 'shuffle') end
    if batch_sampler ~= nil and (batch_size or shuffle or sampler ~= nil or drop_last) then
      refuse_together('batch_sampler', batch_size and 'batch_size' or shuffle and 'shuffle' or sampler ~= nil and
        'sampler' or 'drop_last')
    end
    if batch_sampler ~= nil and shard then core.fail 'DataLoader: shard needs batch_size, not a batch_sampler' end
    core.check(collate == nil or core.is_callable(collate),
      'DataLoader: collate must be a function of a list of examples, got %s', core.describe(collate))
    local from = batch_sampler ~= nil and sampler_of('batch_sampler', batch_sampler) or
      sampler ~= nil and sampler_of('sampler', sampler, classes.size_of(set)) or
      (shuffle and samplers.RandomSampler or samplers.SequentialSampler)(set)
    return {
      dataset = set, batch_size = batch_sampler == nil and (batch_size or 1) or nil, drop_last = drop_last,
      sampler = batch_sampler == nil and from or nil, batch_sampler = batch_sampler ~= nil and from or nil,
      collate = collate, workers = worker_count, prefetch = prefetch, shard = check_shard(shard),
      seed = seed or drawn_seed(from), epoch = 1, batch = 0, device = device,
    }
  end, 'loader')

-- ---- the order -----------------------------------------------------------------------------------

--- All values of an iterator, at most `most`.
local function collect(iterator, most)
  local list = {}
  for value in iterator do
    list[#list + 1] = value
    if #list == most then break end
  end
  return list
end

--- Calls fn() with its own random numbers, which belong to an epoch.
local function with_random(seed, epoch, fn)
  local source, random = native.item_random(), math.random
  native.enter(source, random)
  math.randomseed(native.seed(source, seed, epoch))
  return util.finally(function() native.leave(source, random) end, fn)
end

local function reported_size(object) return object.size and classes.size_of(object) or nil end

--- The number of examples of a shard, out of n: equal for all shards, so some examples occur twice.
local function shard_size(shard, n) return shard and math.ceil(n / shard.size) or n end

--- A shard's part of an order: every size-th position from rank + 1; the order is continued cyclically.
local function part_of(shard, order)
  if not shard or #order == 0 then return order end
  local at = mt.range(shard.rank, shard.rank + (shard_size(shard, #order) - 1) * shard.size, shard.size,
    {device = 'cpu'})
  return (order:index_select(1, at:remainder(#order) + 1))
end

local function order_of(self, epoch)
  local sampler, n = self.sampler, classes.size_of(self.dataset)
  if sampler.fixed then return sampler.fixed end
  local key = native.key(self.seed, epoch)
  if sampler.order then return sampler:order(mt.Generator('philox', key)) end
  return with_random(self.seed, epoch, function()
    return positions_of('DataLoader', collect(sampler:iter(), reported_size(sampler)), n)
  end)
end

--- The positions of an epoch, and a function that returns where batch k begins and ends; and the number of batches.
local function batches_of(self, epoch)
  if self.batch_sampler then
    local n, lists, ends = classes.size_of(self.dataset), {}, {[0] = 0}
    local given = with_random(self.seed, epoch, function()
      return collect(self.batch_sampler:iter(), reported_size(self.batch_sampler))
    end)
    for k, list in ipairs(given) do
      lists[k] = positions_of('DataLoader', list, n)
      ends[k] = ends[k - 1] + #lists[k]
    end
    return #lists > 0 and mt.cat(lists) or nil, function(k) return ends[k - 1] + 1, ends[k] end, #lists
  end
  local order, size = part_of(self.shard, order_of(self, epoch)), self.batch_size
  local n = #order
  return order, function(k) return (k - 1) * size + 1, math.min(k * size, n) end,
    self.drop_last and math.floor(n / size) or math.ceil(n / size)
end

--- How often each position has occurred before, at each place, if repeats are possible; otherwise nothing.
local function occurrences_of(self, order)
  local sampler = self.sampler
  if not order or classes.has_batches(self.dataset) then return end
  if sampler and sampler.order and not sampler.repeats and not self.shard then return end
  local seen, list = {}, order:tolist()
  for k, i in ipairs(list) do
    seen[i] = (seen[i] or 0) + 1
    list[k] = seen[i]
  end
  return list
end

--- The batches of an epoch: their number, and a function that returns the job of batch k.
local function plan_of(self, epoch)
  local order, span, n = batches_of(self, epoch)
  local occurrences = occurrences_of(self, order)
  return n, function(k)
    local first, last = span(k)
    local counts = occurrences and {}
    for i = first, counts and last or 0 do counts[i - first + 1] = occurrences[i] end
    return {positions = order:narrow(1, first, last - first + 1), seed = self.seed, epoch = epoch,
      occurrences = counts or nil}
  end
end

-- ---- workers, each with its own Lua state -------------------------------------------------------

-- Unused loaders keep their threads until they are garbage-collected.
local teams = setmetatable({}, {__mode = 'k'})
local max_teams = 8

local function start(n)
  if util.count_keys(teams) >= max_teams then collectgarbage() end
  local team = native.start(n)
  teams[team] = true
  return team
end

--- A function that returns batch k of an iteration, and keeps `prefetch` further ones per worker in progress. A
--- loader's workers serve one iteration at a time: requests of another one are cancelled.
local function fetcher(loader, iteration, job)
  local ok, setup = pcall(copy.pack, {set = loader.dataset, ['collate function'] = loader.collate})
  if not ok then core.fail(setup) end
  local tickets, posted, ahead = {}, 0, loader.workers * loader.prefetch
  local function received(k, good, ...)
    loader.served, tickets[k] = iteration, nil
    if good then return ... end
    local message = ...
    if core.interrupted() then error(message, 0) end
    core.fail(message)
  end
  return function(k)
    if not loader.team or not native.works(loader.team) then loader.team, loader.served = start(loader.workers), nil end
    if loader.served ~= iteration then
      native.set_up(setup, loader.team)
      native.give_up(loader.team)
      tickets, posted = {}, k - 1
    end
    for i = posted + 1, math.min(iteration.n, k - 1 + ahead) do
      tickets[i], posted = native.post(job(i), loader.team), i
    end
    loader.served = nil -- so that all jobs are posted again if take is interrupted
    return received(k, native.take(loader.team, tickets[k]))
  end
end

-- ---- iteration -----------------------------------------------------------------------------------

--- The values of a batch on a device: tensors, and those in tables.
local function on_device(device, ...)
  local function moved(x) return mt.is_tensor(x) and x:to(device) or x end
  local values, n = {...}, select('#', ...)
  for i = 1, n do values[i] = util.map_leaves(values[i], moved) end
  return unpack(values, 1, n)
end

local function values_of(self, k, ...)
  if (...) == nil then core.fail('DataLoader: collate returned %s', select('#', ...) == 0 and 'nothing' or 'nil') end
  if self.current then self.loader.batch = k end
  if self.loader.device then return on_device(self.loader.device, ...) end
  return ...
end

--- The next batch, or nothing after the last one: then the epoch has ended.
local function advance(self)
  local loader = self.loader
  local k = self.at + 1
  if k > self.n then
    if self.current and not self.over then
      loader.epoch, loader.batch, loader.running = self.epoch + 1, 0, nil
    end
    self.over = true
    return
  end
  self.at = k
  return values_of(self, k, self.fetch(k))
end

method('iter()', 'An iterator over the batches of one epoch, for x, y in loader:iter() do; after load_state_dict ' ..
  'over the rest of one.', function(self)
    if self.running and not self.resumed then self.epoch, self.batch = self.epoch + 1, 0 end
    if self.running then self.running.current = nil end
    local n, job = plan_of(self, self.epoch)
    local iteration = {loader = self, epoch = self.epoch, at = self.batch, n = n, current = true}
    self.running, self.resumed = iteration, nil
    if self.workers > 0 then
      iteration.fetch = fetcher(self, iteration, job)
    else
      local make = maker(self.dataset, self.collate)
      iteration.fetch = function(k) return make(job(k)) end
    end
    return function() return advance(iteration) end
  end)

method('size()', 'The number of batches of an epoch.', function(self)
  if self.batch_sampler then
    local n = reported_size(self.batch_sampler)
    return n or (plan_of(self, self.epoch))
  end
  local sampler = self.sampler
  local n = sampler.fixed and #sampler.fixed or reported_size(sampler) or #order_of(self, self.epoch)
  n = shard_size(self.shard, n) / self.batch_size
  return self.drop_last and math.floor(n) or math.ceil(n)
end)

method('state_dict()', 'The position of the returned batches, without prefetched ones: {seed, epoch, batch, batches}.',
  function(self) return {seed = self.seed, epoch = self.epoch, batch = self.batch, batches = self:size()} end)

method('load_state_dict(state)', 'The next iter() resumes where state_dict() was called.', function(self, state)
  core.check(type(state) == 'table' and whole(state.seed, -2 ^ 53) and whole(state.epoch, 1) and whole(state.batch, 0),
    'DataLoader: load_state_dict needs what state_dict returned, got %s', core.describe(state))
  local seed, epoch = self.seed, self.epoch
  self.seed, self.epoch = state.seed, state.epoch -- the size of a sampler may depend on them
  local n = self:size()
  if state.batches and state.batches ~= n then
    self.seed, self.epoch = seed, epoch
    core.fail('DataLoader: the saved position is of %d batches an epoch, this loader has %d', state.batches, n)
  end
  self.batch, self.resumed = state.batch, true
end)

function Loader:describe()
  local words = {('%d batches of %s'):format(self:size(), tostring(self.batch_size or 'a sampler'))}
  if self.sampler and self.sampler.order ~= samplers.SequentialSampler.order then
    words[2] = self.sampler.order == samplers.RandomSampler.order and 'shuffled' or 'a sampler'
  end
  if self.drop_last then words[#words + 1] = 'drop_last' end
  if self.workers > 0 then words[#words + 1] = ('%d workers'):format(self.workers) end
  return ('DataLoader(%s; %s)'):format(table.concat(words, ', '), shown.set(self.dataset))
end

return Loader
