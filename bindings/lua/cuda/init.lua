-- init.lua -- mt.cuda's events and graphs: a step recorded once on a GPU and replayed
local core = require 'mtorch.core'
local mt = require 'mtorch'
local native = core.cuda()

local cuda = {get_device_properties = native.get_device_properties, memory_stats = native.memory_stats,
  empty_cache = native.empty_cache, reset_peak = native.reset_peak}

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

--- Records the event after the work that the GPU has received so far; it may be recorded again.
function Event:record()
  native.event_record(mark(self, 'record'))
  return self
end
--- Waits until the GPU has reached the event.
function Event:synchronize() native.event_wait(mark(self, 'synchronize')) end
--- Whether the GPU has reached the event.
function Event:query() return native.event_done(mark(self, 'query')) end
--- Returns the milliseconds from this event to another; the GPU must have reached both.
function Event:elapsed_time(other)
  return native.elapsed_time(mark(self, 'elapsed_time'), mark(other, 'elapsed_time'))
end

function cuda.Event(device)
  local event = setmetatable({}, Event)
  marks[event] = native.Event(device)
  return event
end

-- ---- graphs --------------------------------------------------------------------------------------

local Graph = {}
Graph.__index = Graph
Graph.__tostring = function(self) return ('a graph of mt.cuda.graph, replayed %d times'):format(self.replays) end

local pack = core.pack

--- Queues the recorded work, and returns the tensors that the function returned. Optimizers count
--- their steps and use their current options.
function Graph:replay()
  if not self.handle then core.fail('replay: this graph was released') end
  local precision = mt.get_float32_matmul_precision()
  if precision ~= self.precision then
    core.fail("replay: this graph was recorded with mt.set_float32_matmul_precision('%s'), which is '%s' now; " ..
      'record it again, or set it back', self.precision, precision)
  end
  for optimizer in pairs(self.optimizers) do core.optimizer_options(optimizer.handle, optimizer.param_groups) end
  native.graph_replay(self.handle)
  self.replays = self.replays + 1
  return unpack(self.results, 1, self.results.n)
end
Graph.__call = Graph.replay

--- Releases the graph now; its memory is freed with the last tensor in it.
function Graph:release()
  if self.handle then native.graph_drop(self.handle) end
  self.handle, self.results = nil, {n = 0}
end

--- Runs fn `warmup` times, records it once more, and returns the graph.
function cuda.graph(fn, warmup, device)
  local reason = device == 'cpu' and "a GPU is needed, 'cuda' or 'cuda:0'" or core.device_unavailable_reason(device)
  if reason ~= '' then core.fail('graph: ' .. reason) end
  for _ = 1, warmup do fn() end
  collectgarbage()
  collectgarbage() -- garbage of the warm-up must not be freed while the graph is recorded
  local optimizers = {}
  local handle = native.graph_record(device)
  core.stepped = optimizers
  local precision, results = mt.get_float32_matmul_precision(), pack(pcall(fn))
  core.stepped = false
  local finished, why = pcall(native.graph_finish, handle, results[1])
  if not results[1] or not finished then
    handle = nil -- after an interrupt the finalizer ends the recording
    collectgarbage('restart')
    collectgarbage()
    error(results[1] and why or results[2], 0)
  end
  return setmetatable({handle = handle, optimizers = optimizers, replays = 0, fn = fn, precision = precision,
    results = {n = results.n - 1, unpack(results, 2, results.n)}}, Graph)
end

return cuda
