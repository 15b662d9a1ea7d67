-- fuse.lua -- mt.fuse: a function of tensors, recorded for each kind of arguments, whose calls run as few programs
local core = require 'mtorch.core'
local mt = require 'mtorch'
local captured = require 'mtorch.compile.captured'
local gradient = core.gradient()
local records = require('mtorch.compile.map').records
local recording = require 'mtorch.compile.recording'
local util = require 'mtorch.core.util'
local native = require('mtorch.compile.trace').native

local max_recordings = 8 -- of one function
local max_unused = 24    -- recordings one after the other that were not used again
local pack, same_values = core.pack, recording.same_values

local function eagerly(self, ...) return native.function_eagerly(self.f, ...) end

-- ---- recording -------------------------------------------------------------------------------------------

--- An attached copy with the same layout: its gradient is that of x.
local function attached(x)
  local copy = recording.copy_of(x)
  if not x.requires_grad then return copy end
  if not mt.is_grad_enabled() then return copy:requires_grad_() end
  return gradient.custom_function('copy', {x}, 1, {copy}, {false}, {}, function(g) return g end)[1]
end

--- Inside a recording: what optimizers and functions that cannot be repeated call.
local Recorder = {}
Recorder.__index = Recorder
function Recorder:pause() self.why = self.why or 'it steps an optimizer' end
function Recorder.resume() end
function Recorder:refuse(...) self.why = self.why or (...):format(select(2, ...)) end

--- Runs fn(unpack(given)) while its calls are recorded, and then `after`. Returns the recorder and the results, or
--- nil and why fn was stopped.
local function run_recorded(fn, inputs, given, after)
  local recorder = setmetatable({handle = native.step_record(inputs, true)}, Recorder)
  local results, fail = recording.run(recorder, fn, given, 'fuse: a fused function')
  after()
  if results then return recorder, results end
  local why = native.step_drop(recorder.handle)
  if not why then fail() end
  return nil, why
end

--- The results that have a gradient.
local function without(plain, results) return util.filter(results, function(_, k) return not plain[k] end) end

--- Records the gradient: fn(arguments, gradients of results..) with copies of all.
local function record_gradient(self, entry, arguments, list, plain, wanted_captures)
  local incoming = {}
  local given, inputs = recording.with_copies(arguments, function(x)
    return recording.copy_of(x):requires_grad_(x.requires_grad)
  end)
  local tensors = #inputs
  for _, y in ipairs(without(plain, list)) do
    incoming[#incoming + 1] = mt.ones(y.shape, {dtype = y.dtype, device = y.device})
    inputs[#inputs + 1] = incoming[#incoming]
  end
  local wanted, places, n = {}, {}, 0
  for k = 1, tensors do
    if inputs[k].requires_grad then wanted[#wanted + 1], places[#places + 1] = inputs[k], k end
  end
  for k, x in ipairs(wanted_captures) do wanted[#wanted + 1], places[#places + 1] = x, tensors + k end
  local random = mt.get_rng_state()
  local recorder, found = run_recorded(function(...)
    local results = {}
    recording.describe(pack(self.f(...)), given, {}, results)
    native.function_gradient(core.step_recording.handle)
    return mt.grad(without(plain, results), wanted, {grad_outputs = incoming, allow_unused = true})
  end, inputs, given, function() mt.set_rng_state(random) end)
  if not recorder then return found end
  local results, kept = {}, {}
  for k, g in ipairs(found[1]) do
    if g then
      n = n + 1
      results[n], kept[n] = g, places[k]
    end
  end
  local made, why = native.function_finish(recorder.handle, results, true)
  if not made then return why end
  if not native.function_set_gradient(entry.recorded, made, wanted_captures, plain, kept) then
    return 'two runs of it make different calls'
  end
end

--- The tensors among the results of the function itself: for a call that a recording cannot make.
local function tensors_of(self, entry, ...)
  local out, list = pack(self.f(...)), {}
  if entry.results.only_tensors then return unpack(out, 1, out.n) end
  recording.describe(out, pack(...), {}, list)
  return unpack(list)
end

--- The gradients by operations, of inputs and captured tensors, which can be differentiated again.
local function gradients_by_operations(self, entry, captures, plain, inputs, incoming)
  local other = captured.changed(entry.captured)
  core.check(not other,
    'fuse: the gradient of a gradient runs the function again, but %s; pass it as an argument', other)
  local recorded = mt.set_grad_enabled(true)
  local given, wanted, next_input, list = {n = entry.n}, {}, 0, {}
  for i = 1, entry.n do
    local x = entry[i].value
    if entry[i].shape then
      next_input = next_input + 1
      x = inputs[next_input]
      if entry[i].requires_grad then x = recorded and x:clone() or x:detach():requires_grad_() end
      wanted[next_input] = entry[i].requires_grad and x or false
    end
    given[i] = x
  end
  util.append(wanted, captures)
  recording.describe(pack(self.f(unpack(given, 1, entry.n))), given, {}, list)
  local by, places, found = {}, {}, {}
  for k, x in ipairs(wanted) do
    found[k] = false
    if x then by[#by + 1], places[#places + 1] = x, k end
  end
  local options = {grad_outputs = incoming, create_graph = recorded, allow_unused = true}
  local gradients = mt.grad(without(plain, list), by, options)
  for k, g in ipairs(gradients) do found[places[k]] = g end
  mt.set_grad_enabled(recorded)
  return found
end

--- Records the function for such arguments. Returns the entry, or one with `eager`, the reason, and the results.
local function record(self, mode, arguments)
  local entry = recording.entry(mode, arguments)
  local given, inputs, tensors = recording.with_copies(arguments, attached)
  local random = mt.get_rng_state()
  local reads = captured.watch(self.f)
  if reads.why then
    captured.unwatch(reads)
    entry.eager = reads.why
    return entry
  end
  local recorder, out = run_recorded(self.f, inputs, given, function() captured.unwatch(reads) end)
  if not recorder then
    entry.eager = out
    return entry
  end
  local list = {}
  local results = recording.describe(out, given, captured.tensors(reads), list)
  local why = recorder.why or reads.why or results.why
  local wrote = captured.changed(reads)
  if wrote then why = why or 'it changes what it captures: ' .. wrote end
  if native.step_mode() ~= mode then why = why or 'it leaves another gradient mode, dtype or device behind' end
  local wanted = native.function_captured(recorder.handle)
  local has_gradient, plain = false, {} -- plain: results without a gradient
  for k, y in ipairs(list) do
    plain[k] = not y.requires_grad
    has_gradient = has_gradient or y.requires_grad
  end
  if why then native.step_drop(recorder.handle)
  else entry.recorded, why = native.function_finish(recorder.handle, list, has_gradient) end
  if not why and has_gradient then why = record_gradient(self, entry, arguments, list, plain, wanted) end
  if not why then
    mt.set_rng_state(random)
    entry.captured, entry.results = reads, results
    function entry.itself(...) return tensors_of(self, entry, ...) end
    function entry.differentiable(...) return gradients_by_operations(self, entry, wanted, plain, ...) end
    return entry
  end
  entry.eager, entry.recorded = why, nil
  recording.take_back(inputs, tensors)
  recording.put_back(out, results, list, arguments)
  return entry, out
end

-- ---- calls -----------------------------------------------------------------------------------------------

local function matches(entry, mode, n, ...)
  if entry.mode ~= mode or not same_values(entry, n, ...) then return false end
  if entry.eager then return recording.same_kinds(entry, ...) end
  local changed = captured.changed(entry.captured)
  return not changed and native.function_fits(entry.recorded, ...), changed
end

local function run(self, entry, ...)
  self.unused, self.why = 0, nil
  local results = entry.results
  if results.only_tensors then return native.function_call(entry.recorded, entry.differentiable, entry.itself, ...) end
  return recording.remake(results, {native.function_call(entry.recorded, entry.differentiable, entry.itself, ...)}, ...)
end

--- The first call with such arguments and captured values.
local function first_call(self, mode, changed, ...)
  local arguments = pack(...)
  for i = 1, arguments.n do
    local x = arguments[i]
    if not recording.is_plain(x) then
      self.why = ('argument %d is %s; pass tensors and numbers'):format(i, core.describe(x))
      return eagerly(self, ...)
    end
  end
  local entry, out = record(self, mode, arguments)
  table.insert(self.entries, 1, entry)
  self.entries[max_recordings + 1] = nil
  if entry.eager then
    self.why = entry.eager
    if out then return unpack(out, 1, out.n) end
    return eagerly(self, ...)
  end
  local unused = self.unused + 1
  if unused == max_unused then
    self.eager = 'its arguments or captured values change at every call' .. (changed and ': ' .. changed or '')
  end
  return (function(...)
    self.unused = unused
    return ...
  end)(run(self, entry, ...))
end

local function call(self, ...)
  local mode, n, entries = native.step_mode(), select('#', ...), self.entries
  if not mode then return self.f(...) end
  if self.eager then return eagerly(self, ...) end
  local changed
  for k = 1, #entries do
    local entry = entries[k]
    local ok, other = matches(entry, mode, n, ...)
    if ok then
      if k > 1 then table.insert(entries, 1, table.remove(entries, k)) end
      if entry.eager then return eagerly(self, ...) end
      return run(self, entry, ...)
    end
    changed = changed or other
  end
  if core.step_recording then return self.f(...) end
  return first_call(self, mode, changed, ...)
end

local fuse = core.declare('fuse(f: function)',
  'The function f of tensors with its elementwise operations, and reductions along the last dimension (sum, mean, ' ..
  'max, min, amax, amin, logsumexp, var, std), computed together: softmax or a layer norm by hand reads and writes ' ..
  'memory once. Other operations run as themselves in between, and so do those on less than 2048 elements (32768 ' ..
  'where rows are reduced); gradients of every order. 16-bit floats are calculated in float32 and rounded once. On ' ..
  'a GPU each part is a kernel, compiled when it first runs. It takes and returns what f does. f runs once for each ' ..
  'kind of arguments (shapes, dtypes, numbers), and again when a value that it captures has changed: a number that ' ..
  'changes at every call belongs in a 0-d tensor. A function that reads or changes anything but tensors and plain ' ..
  'values runs as itself, and mt.explain says why.',
  function(f)
    if records[f] then core.fail('fuse: this function is compiled already; call it') end
    local self = {f = type(f) == 'function' and f or function(...) return f(...) end, entries = {}, unused = 0}
    local function fused_function(...) return call(self, ...) end
    records[fused_function] = {f = f, name = 'fuse', fused = self}
    return fused_function
  end)

return {fuse = fuse}
