-- cuda.lua -- mt.cuda's events and graphs: a step recorded once on a GPU and replayed
local core = require 'mtorch.core'
local mt = require 'mtorch'
local parts = core.cuda()

local cuda = {memory_stats = parts.memory_stats, empty_cache = parts.empty_cache, reset_peak = parts.reset_peak}

-- ---- events --------------------------------------------------------------------------------------

local Event = {}
Event.__index = Event
Event.__tostring = function() return 'an event of mt.cuda.Event' end

local marks = setmetatable({}, {__mode = 'k'})
local function mark(event, name)
  local found = marks[event]
  if not found then core.fail(name .. ': an event of mt.cuda.Event is needed, got ' .. core.describe(event)) end
  return found
end

--- Puts the event behind what the GPU was asked so far; again: behind what it was asked until now.
function Event:record()
  parts.event_record(mark(self, 'record'))
  return self
end
--- Waits until the GPU has come to the event.
function Event:synchronize() parts.event_wait(mark(self, 'synchronize')) end
--- Whether the GPU has come to the event.
function Event:query() return parts.event_done(mark(self, 'query')) end
--- Milliseconds from this event to another; the GPU must have come to both.
function Event:elapsed_time(other)
  return parts.elapsed_time(mark(self, 'elapsed_time'), mark(other, 'elapsed_time'))
end

function cuda.Event(device)
  local event = setmetatable({}, Event)
  marks[event] = parts.Event(device)
  return event
end

-- ---- graphs --------------------------------------------------------------------------------------

local Graph = {}
Graph.__index = Graph
Graph.__tostring = function(self) return ('a graph of mt.cuda.graph, replayed %d times'):format(self.replays) end

local function pack(...) return {n = select('#', ...), ...} end

--- Queues what was recorded, and returns what the function returned then: the same tensors.
function Graph:replay()
  if not self.handle then core.fail('replay: this graph was released') end
  local steps = {}
  for i, group in ipairs(self.groups) do
    group.state.step = group.state.step + 1
    steps[i] = group.state.step
  end
  parts.graph_replay(self.handle, steps)
  self.replays = self.replays + 1
  return unpack(self.results, 1, self.results.n)
end
Graph.__call = Graph.replay

--- Ends the graph at once; its memory goes with the last tensor in it.
function Graph:release()
  if self.handle then parts.graph_drop(self.handle) end
  self.handle, self.results = nil, {n = 0}
end

--- Runs fn `warmup` times, records it once more, and returns the graph.
function cuda.graph(fn, warmup, device)
  local meta = type(fn) == 'table' and getmetatable(fn)
  if type(fn) ~= 'function' and not (type(meta) == 'table' and meta.__call) then
    core.fail('graph: argument 1 must be a function, got ' .. core.describe(fn))
  end
  warmup = warmup or 2
  if type(warmup) ~= 'number' or warmup % 1 ~= 0 or warmup < 0 then
    core.fail('graph: warmup must be a whole number from 0, got ' .. core.describe(warmup))
  end
  local trouble = device == 'cpu' and "a GPU is needed, 'cuda' or 'cuda:0'" or core.device_trouble(device)
  if trouble ~= '' then core.fail('graph: ' .. trouble) end
  for _ = 1, warmup do fn() end
  collectgarbage()
  collectgarbage() -- what the runs left behind is freed now, not while the graph is recorded
  local groups = {}
  local handle = parts.graph_record(device)
  core.recorded_steps = groups
  local results = pack(pcall(fn))
  core.recorded_steps = nil
  -- The recording did nothing yet: the first replay is the step that it counted.
  for _, group in ipairs(groups) do group.state.step = group.state.step - 1 end
  local finished, why = pcall(parts.graph_finish, handle, results[1])
  if not results[1] or not finished then
    handle = nil -- where an interrupt came between, its finalizer ends the recording
    collectgarbage('restart')
    collectgarbage()
    error(results[1] and why or results[2], 0)
  end
  return setmetatable({handle = handle, groups = groups, replays = 0, fn = fn,
    results = {n = results.n - 1, unpack(results, 2, results.n)}}, Graph)
end

--- Optimizers whose step counts: a replay counts too.
function core.counts_step(group)
  local list = rawget(core, 'recorded_steps')
  if list then list[#list + 1] = group end
end

return cuda
