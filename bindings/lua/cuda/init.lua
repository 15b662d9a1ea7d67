-- init.lua -- mt.cuda's events and graphs: a step recorded once on a GPU and replayed
local core = require 'mtorch.core'
local parts = core.cuda()

local cuda = {get_device_properties = parts.get_device_properties, memory_stats = parts.memory_stats,
  empty_cache = parts.empty_cache, reset_peak = parts.reset_peak}

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

--- The parameters that step together, as lists of their places in the order of core.adam_step, and
--- those that have no gradient. An optimizer that does not count steps has one list.
local function divide(group)
  local state = group.state
  if rawget(state, 'step') == nil then return {{1}}, {} end
  local lists, lags, absent = {}, {}, {}
  for i, p in ipairs(group.params) do
    local lag = state.missed and state.missed[i] or 0
    if not p.grad then
      absent[#absent + 1] = i
    elseif lists[lag] then
      table.insert(lists[lag], i)
    else
      lists[lag], lags[#lags + 1] = {i}, lag
    end
  end
  table.sort(lags)
  local ordered = {}
  for k, lag in ipairs(lags) do ordered[k] = lists[lag] end
  return ordered, absent
end

--- Every step of an optimizer in the recording: its group, whether a replay may bring another
--- learning rate, the options that it may not, as {table, key, value, name}, and who steps.
function core.record_group(optimizer, group)
  local free = optimizer.steps_on_device and group.params[1].device ~= 'cpu'
  local fixed = {}
  for key, value in pairs(group) do
    if type(value) == 'number' or type(value) == 'boolean' then
      if not (free and key == 'lr') then fixed[#fixed + 1] = {group, key, value, key} end
    elseif key == 'betas' then
      for i = 1, 2 do fixed[#fixed + 1] = {value, i, value[i], 'betas[' .. i .. ']'} end
    end
  end
  local together, absent = divide(group)
  local recorded = {group = group, free = free, fixed = fixed, name = optimizer.name, together = together,
    absent = absent}
  table.insert(core.recorded_groups, recorded)
  return recorded
end

--- `by` steps more for a group that counts them.
local function count_steps(recorded, by)
  local state = recorded.group.state
  if not state.step then return end
  state.step = state.step + by
  if #recorded.absent == 0 then return end
  local missed = state.missed or {}
  for i = 1, #recorded.group.params do missed[i] = missed[i] or 0 end
  for _, i in ipairs(recorded.absent) do missed[i] = missed[i] + by end
  state.missed = missed
end

local function check_fixed(recorded)
  local fixed = recorded.fixed
  for i = 1, #fixed do
    local f = fixed[i]
    local now = f[1][f[2]]
    if now ~= f[3] then
      core.fail('replay: %s of %s is %s, recorded was %s; record the graph again', f[4], recorded.name,
        tostring(now), tostring(f[3]))
    end
  end
  local missed = recorded.group.state.missed
  for _, list in ipairs(missed and recorded.together or {}) do
    for _, i in ipairs(list) do
      if missed[i] ~= missed[list[1]] then
        core.fail('replay: parameter %d of %s has had another number of steps than those that it was recorded ' ..
          'with; record the graph again', i, recorded.name)
      end
    end
  end
end

--- Queues what was recorded, and returns what the function returned then: the same tensors. The
--- optimizers' steps count, and take the learning rates of now.
function Graph:replay()
  if not self.handle then core.fail('replay: this graph was released') end
  local groups = self.groups
  for i = 1, #groups do check_fixed(groups[i]) end
  local rates, steps = {}, {}
  for i = 1, #groups do
    local recorded = groups[i]
    local state = recorded.group.state
    count_steps(recorded, 1)
    for _, list in ipairs(recorded.free and recorded.together or {}) do
      rates[#rates + 1] = recorded.group.lr
      steps[#steps + 1] = (state.step or 0) - (state.missed and state.missed[list[1]] or 0)
    end
  end
  parts.graph_replay(self.handle, rates, steps)
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
  local trouble = device == 'cpu' and "a GPU is needed, 'cuda' or 'cuda:0'" or core.device_unavailable_reason(device)
  if trouble ~= '' then core.fail('graph: ' .. trouble) end
  for _ = 1, warmup do fn() end
  collectgarbage()
  collectgarbage() -- what the runs left behind is freed now, not while the graph is recorded
  local groups = {}
  local handle = parts.graph_record(device)
  core.recorded_groups = groups
  local results = pack(pcall(fn))
  core.recorded_groups = false
  -- The recording did nothing yet: the first replay is the step that it counted.
  for _, recorded in ipairs(groups) do
    if recorded.counted then count_steps(recorded, -1) end
  end
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

return cuda
