-- init.lua -- mt.cuda: properties of GPUs, events, and graphs: a step recorded once on a GPU and replayed
local core = require 'mtorch.core'
local mt = require 'mtorch'
local native = core.cuda()

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

local function new_event(device)
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
local function new_graph(fn, warmup, device)
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

-- ---- the module -----------------------------------------------------------------------------------

return {
  is_available = function()
    local reason = core.cuda_unavailable_reason()
    if reason == '' then return true end
    return false, reason
  end,
  device_count = core.declare('device_count()', 'The number of usable GPUs.', core.cuda_devices),
  device_name = core.declare("device_name(device: device = 'cuda')", 'The product name of a GPU.', core.device_name),
  kernel = core.declare('kernel(source: string, name: string = nil, options: strings = nil, ' ..
    "defines: table = nil, rank: table = nil, device: device = 'cuda')",
    'A kernel in CUDA C, compiled by NVRTC and cached on disk; k[{blocks, threads}](..) launches it, k[{ {gx, gy}, ' ..
    "{bx, by}, bytes}](..) too. name may be 'scale<float>'; options are NVRTC's; defines = {TILE = 16}; rank = " ..
    "{m = 2} says how many dimensions a tensor must have; k:set_constant('name', x) fills a __constant__.",
    function(...) return require('mtorch.cuda.kernel')(...) end),
  synchronize = core.declare("synchronize(device: device = 'cuda')", 'Waits until a GPU has finished its work.',
    core.synchronize),
  get_device_properties = core.declare("get_device_properties(device: device = 'cuda')",
    'The properties of a GPU: name, major, minor (compute capability), multi_processor_count, warp_size, ' ..
    'max_threads_per_block, max_threads_per_multi_processor, regs_per_multiprocessor, total_memory, ' ..
    'shared_memory_per_block and L2_cache_size in bytes.',
    native.get_device_properties),
  memory_stats = core.declare("memory_stats(device: device = 'cuda')",
    'Bytes of a GPU: allocated (in tensors), peak, ' ..
    'reserved (from the driver, in use or kept for reuse), free, total; and the numbers of allocations, launches, ' ..
    'copies and waits; products, convolutions and collectives name the libraries of large ones.',
    native.memory_stats),
  empty_cache = core.declare("empty_cache(device: device = 'cuda')",
    'Returns memory that is kept for reuse to the driver.', native.empty_cache),
  reset_peak = core.declare("reset_peak(device: device = 'cuda')",
    'memory_stats().peak begins again at what is allocated.', native.reset_peak),
  Event = core.declare("Event(device: device = 'cuda')", 'A mark in the order of a GPU\'s work: e:record(), ' ..
    'e:synchronize(), e:query(), and e1:elapsed_time(e2) in milliseconds.',
    new_event),
  graph = core.declare("graph(fn: function, warmup: int >= 0 = 2, device: device = 'cuda')",
    'Runs fn warmup times, then records its GPU work without executing it. g() replays the work with the memory, ' ..
    'the numbers and the shapes of the recording, and returns the tensors that fn returned. Inputs are tensors that ' ..
    'are written before: x:copy_(batch). fn may not wait for the GPU (item, tolist, printing, x:cpu()) and begins ' ..
    'with zero_grad; its random numbers continue from replay to replay. Optimizers use their current options; one ' ..
    'that needs other state than was recorded is an error. g:release() frees the graph.',
    new_graph),
}
