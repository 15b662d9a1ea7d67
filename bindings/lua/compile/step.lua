-- step.lua -- mt.compile: a step that is recorded once and replayed, without Lua and without allocation
local core = require 'mtorch.core'
local mt = require 'mtorch'
local captured = require 'mtorch.compile.captured'
local explain = require 'mtorch.compile.explain'
local shared = require 'mtorch.compile.recording'
local util = require 'mtorch.core.util'
local native = require('mtorch.compile.trace').native

local max_programs = 8
local moved_away = 'a parameter or gradient has other memory, or requires_grad has changed'

local pack = core.pack
local same, copy_of, is_plain = shared.same, shared.copy_of, shared.is_plain
local take_back, same_values, same_kinds = shared.take_back, shared.same_values, shared.same_kinds
local function tell(format, ...) io.stderr:write('compile: ', format:format(...), '\n') end

--- Collects all garbage, including what finalizers release.
local function collect()
  collectgarbage()
  collectgarbage()
end

-- ---- recording ---------------------------------------------------------------------------------------

--- Called when an optimizer steps: a replay runs its Lua code again, with its current options.
local Recorder = {}
Recorder.__index = Recorder
function Recorder:pause(optimizer)
  native.step_pause(self.handle)
  self.optimizers[#self.optimizers + 1] = optimizer
end
function Recorder:resume() native.step_resume(self.handle) end
--- Raises an error, which is effective even if the step catches it.
function Recorder:refuse(...)
  self.refused = (...):format(select(2, ...))
  core.fail('%s', self.refused)
end

local function is_expanded(x)
  local strides = x:stride()
  for d, n in ipairs(x.shape) do
    if strides[d] == 0 and n > 1 then return true end
  end
  return false
end

--- The reason why results cannot be recorded: a table, whose tensors a replay would not fill, or another object.
local function object_among(results)
  for i = 1, results.n do
    local x = results[i]
    if type(x) == 'table' then return ('result %d is a table; return its tensors as several results'):format(i) end
    if not is_plain(x) then
      return ('result %d is %s; a compiled step returns tensors, numbers and strings'):format(i, core.describe(x))
    end
  end
end

--- Whether two arguments, or an argument and a captured tensor or its gradient, share memory: a
--- recording works on separate copies.
local function share_memory(tensors, captures)
  local seen, shared = {}, false
  local function look(x, is_argument)
    if not x or x:numel() == 0 then return end
    local at = native.step_memory(x)
    shared = shared or seen[at]
    if is_argument then seen[at] = true end
  end
  for _, x in ipairs(tensors) do look(x, true) end
  for x in pairs(captures) do
    look(x)
    look(x.grad)
  end
  return shared
end

--- Records self.f with copies of its arguments. Returns the handle, what it reads, and its results;
--- an error of the step is raised.
local function run_recorded(self, reads, inputs, given, tensors)
  local recording = setmetatable({optimizers = {}, handle = native.step_record(inputs)}, Recorder)
  local results, fail = shared.run(recording, self.f, given, 'compile: a compiled step')
  captured.unwatch(reads)
  if results and not recording.refused then return recording, results end
  native.step_drop(recording.handle)
  take_back(inputs, tensors)
  if fail then fail() end
  core.fail('%s', recording.refused) -- the step caught the error
end

local function parameters_of(optimizers, list)
  for _, optimizer in ipairs(optimizers) do util.append(list, optimizer:all_parameters()) end
  return list
end

--- Runs the step once on copies of its inputs. Returns its results, and a program, or nil and the
--- reason; then which captured values the step changes.
local function record(self, arguments)
  local given, inputs, tensors = shared.with_copies(arguments, copy_of)
  collect() -- before the recording, because garbage must not be freed during it
  local reads, mode = captured.watch(self.step), native.step_mode()
  local captures = captured.tensors(reads)
  if reads.why or share_memory(tensors, captures) then
    captured.unwatch(reads)
    return pack(self.f(unpack(arguments, 1, arguments.n))), nil, reads.why
  end
  local exchanges = native.step_exchanges()
  local recording, out = run_recorded(self, reads, inputs, given, tensors)
  exchanges = native.step_exchanges() - exchanges
  local list = {}
  local results = shared.describe(out, given, captures, list)
  local step, why, wrote = nil, recording.why or reads.why or object_among(out), captured.changed(reads)
  if wrote then why = why or 'it changes what it captures, which a replay would not repeat: ' .. wrote end
  if native.step_mode() ~= mode then
    why = why or 'it leaves another gradient mode, default dtype, device or precision behind'
  end
  if why then native.step_drop(recording.handle)
  else step, why = native.step_finish(recording.handle, list, parameters_of(recording.optimizers, {})) end
  if not step then take_back(inputs, tensors) end
  shared.put_back(out, results, native.step_on_arguments(list, inputs, tensors), arguments)
  if not step then return out, nil, why, wrote end
  return out, {step = step, optimizers = recording.optimizers, parts = (native.step_facts(step)), results = results,
    has_exchanges = exchanges > 0, captured = reads}
end

-- ---- replaying ---------------------------------------------------------------------------------------

--- Runs the recording. Returns false if an index is out of bounds: the step itself then raises the error.
local function replay(program)
  local step, optimizers = program.step, program.optimizers
  for part = 1, program.parts do
    if not native.step_run(step, part - 1) then return false end
    if optimizers[part] then optimizers[part]:step() end
  end
  return true
end

local function results_of(program, ...)
  local results = program.results
  if results.only_tensors then return native.step_end(program.step) end
  return shared.remake(results, {native.step_end(program.step)}, ...)
end

-- ---- trying a replay against the step ----------------------------------------------------------------

local function copied(x) return x:detach():clone() end
--- The optimizers' states with copies of their tensors, because the user may keep a state_dict() that shares them.
local function state_of(optimizers)
  local all = {}
  for _, optimizer in ipairs(optimizers) do
    if not all[optimizer] then
      local saved = {state = optimizer:state_dict(), copies = {}}
      for _, group in ipairs(saved.state) do
        for _, entry in pairs(group.state) do
          for _, value in pairs(entry) do
            if mt.is_tensor(value) then saved.copies[value] = copied(value) end
          end
        end
      end
      all[optimizer] = saved
    end
  end
  return all
end
local function restore_states(all)
  for optimizer, saved in pairs(all) do
    mt.no_grad(function()
      for x, copy in pairs(saved.copies) do x:copy_(copy) end
    end)
    optimizer:load_state_dict(saved.state)
  end
end
local function grads_of(leaves) return util.map(leaves, function(x) return x.grad and copied(x.grad) or false end) end
--- How results, changed tensors or gradients differ from those of a replay, or nil.
local function difference(first, results, changed, after, leaves, grads)
  for i = 1, math.max(results.n, first.n) do
    local a, b = first[i], results[i]
    local equal = a == b
    if mt.is_tensor(a) and mt.is_tensor(b) then equal = same(a, b) end
    if not equal then return ('result %d'):format(i) end
  end
  for i, x in ipairs(changed) do
    if not same(x, after[i]) then
      return ('a tensor (%s) that the step changes'):format(table.concat(x.shape, ' x '))
    end
  end
  for i, grad in ipairs(grads_of(leaves)) do
    if (not grad) ~= (not grads[i]) or grad and not same(grad, grads[i]) then
      return ('the gradient of a tensor (%s)'):format(table.concat(leaves[i].shape, ' x '))
    end
  end
end

--- Replays, restores the state, runs the step, and compares. Returns the step's results, and the difference.
--- `is_alone`: exchanges with other processes are skipped; then the state is restored again, and there are no results.
local function compare(self, program, arguments, is_alone)
  local changed = parameters_of(program.optimizers, native.step_changes(program.step))
  local before, states, random = util.map(changed, copied), state_of(program.optimizers), mt.get_rng_state()
  local function restore()
    mt.no_grad(function()
      for i, x in ipairs(changed) do x:copy_(before[i]) end
    end)
    native.step_restore(program.step)
    restore_states(states)
    mt.set_rng_state(random)
  end
  native.step_hold(program.step, changed)
  local done = replay(program)
  local first = done and pack(results_of(program, unpack(arguments, 1, arguments.n)))
  local after, leaves = util.map(changed, copied), native.step_leaves(program.step)
  local grads = grads_of(leaves)
  restore()
  if is_alone then native.step_hold(program.step, changed) end
  local results = pack(self.f(unpack(arguments, 1, arguments.n)))
  local differs = done and difference(first, results, changed, after, leaves, grads)
  if is_alone then restore() end
  return results, differs or nil
end

local compares_alone = false -- without the other processes: compiled steps inside run eagerly

--- Compares a replay with the step. If other processes take part, they make no calls for the comparison.
local function try(self, program, arguments)
  if not program.has_exchanges then return compare(self, program, arguments) end
  native.step_skip_exchanges(true)
  compares_alone = true
  local _, differs = util.finally(function()
    native.step_skip_exchanges(false)
    compares_alone = false
  end, compare, self, program, arguments, true)
  return pack(self.f(unpack(arguments, 1, arguments.n))), differs
end

-- ---- the compiled function -----------------------------------------------------------------------------

--- Stops recording, because it costs more than replays gain.
local function end_recording(self, changed)
  self.eager = ('its arguments or captured values change too often%s; a number that changes at every call ' ..
    'belongs in a 0-d tensor'):format(changed and (': %s'):format(changed) or '')
  tell('%s runs eagerly: %s', self.place, self.eager)
end

local function drop_oldest(self, changed)
  local oldest = table.remove(self.entries)
  self.dropped = self.dropped + 1
  if oldest.program and not self.has_dropped then
    self.has_dropped = true
    tell('%s was called with more than %d kinds of arguments and captured values; the oldest programs are dropped',
      self.place, max_programs)
  end
  if self.dropped == 3 * max_programs then end_recording(self, changed) end
end

--- The entry for these arguments and captured values, moved to the front of the list, and the result of
--- `step_start` for its program: the one of the two, with and without gradients, that matches.
local function entry_for(self, mode, n, ...)
  local entries, changed, misfits, last = self.entries, nil, 0, nil
  for k = 1, #entries do
    local entry = entries[k]
    if entry.mode == mode and same_values(entry, n, ...) and same_kinds(entry, ...) then
      local other = entry.program and captured.changed(entry.program.captured)
      if not other then
        local fits, changes_argument = true, false
        if entry.program then fits, changes_argument = native.step_start(entry.program.step, ...) end
        if fits or changes_argument then
          table.insert(entries, 1, table.remove(entries, k))
          return entry, fits, changes_argument
        end
        misfits, last = misfits + 1, k
      end
      changed = changed or other
    end
  end
  if misfits > 1 then
    table.insert(entries, 1, table.remove(entries, last))
    return entries[1], false
  end
  if misfits == 1 then changed = moved_away end
  local given = pack(...)
  for i = 1, n do
    core.check(is_plain(given[i]),
      'compile: argument %d of a compiled step must be a tensor or a number, got %s', i, core.describe(given[i]))
  end
  local entry = shared.entry(mode, given)
  entry.calls, entry.replays, entry.moved, entry.changed = 0, 0, 0, changed
  table.insert(entries, 1, entry)
  if #entries > max_programs then drop_oldest(self, changed) end
  return entry
end

--- Reports why the step is recorded again. `unused`: the number of such programs since the last replay.
local function tell_changed(self, why)
  self.unused = self.unused + 1
  if self.unused == max_programs then return end_recording(self, why) end
  tell('%s is recorded again: %s', self.place, why)
end

local function give_up(self, entry, why)
  entry.eager = why
  tell('%s runs eagerly: %s', self.place, why)
end

--- A call other than a plain replay: the first one, the recorded one, and those of `verify`.
local function slow_call(self, entry, ...)
  entry.calls = entry.calls + 1
  local arguments, why_not = pack(...), nil
  for i = 1, arguments.n do
    local x = mt.is_tensor(arguments[i]) and arguments[i]
    why_not = why_not or x and (x.requires_grad and
      ('argument %d requires a gradient; in the step x:clone():requires_grad_() may have one'):format(i) or
      is_expanded(x) and ('argument %d is expanded; pass its :contiguous()'):format(i)) or nil
  end
  if not why_not and entry.calls == 1 then return self.f(...) end
  if why_not then
    give_up(self, entry, why_not)
    return self.f(...)
  end
  if not entry.program then
    local results, program, why, wrote = record(self, arguments)
    entry.program = program
    if program then
      if entry.changed then tell_changed(self, entry.changed) end
    elseif why and not (wrote and entry.calls == 2) then -- objects created at the first use may be written then
      give_up(self, entry, why)
    end
    return unpack(results, 1, results.n)
  end
  local results, differs = try(self, entry.program, arguments)
  collect() -- gradients held by garbage would have to be moved
  if differs then
    entry.program = nil
    give_up(self, entry, ('%s differs between the step and its replay; the step reads something that changes ' ..
      'between calls'):format(differs))
  end
  return unpack(results, 1, results.n)
end

--- Whether the program runs without a comparison with the step.
local function runs_alone(self, entry)
  return self.verify == 0 or entry.replays % self.verify ~= self.verify - 1
end
local function run(self, entry, ...)
  entry.replays, self.unused = entry.replays + 1, 0
  if not replay(entry.program) then return self.f(...) end
  return results_of(entry.program, ...)
end

local function call(self, ...)
  if self.eager or core.step_recording or compares_alone then return self.f(...) end
  local mode, n, entry = native.step_mode(), select('#', ...), self.entries[1]
  if not mode then return self.f(...) end
  local program = entry and entry.program
  if program and entry.mode == mode and same_values(entry, n, ...) and
    not captured.changed(program.captured) and runs_alone(self, entry) and native.step_start(program.step, ...) then
    return run(self, entry, ...)
  end
  local fits, changes_argument
  entry, fits, changes_argument = entry_for(self, mode, n, ...)
  if entry.eager then return self.f(...) end
  program = entry.program
  if program then
    if changes_argument then return self.f(...) end
    if not fits then
      tell_changed(self, moved_away)
      entry.program, entry.moved = nil, entry.moved + 1
      for i = 1, n do
        if not entry[i].shape then entry[i].value = (select(i, ...)) end
      end
      if entry.moved > max_programs then
        give_up(self, entry, 'that changes too often')
        return self.f(...)
      end
    elseif runs_alone(self, entry) then
      return run(self, entry, ...)
    end
    entry.replays = entry.replays + 1
  end
  return slow_call(self, entry, ...)
end

local steps = setmetatable({}, {__mode = 'k'})

local compile = core.declare('compile(step: function, verify: int >= 0 = 0)',
  'The step, a function of tensors and numbers that returns tensors, recorded at its second call and replayed from ' ..
  'the third on: forward, backward and optimizers without Lua, graph and allocation, with the same bits. Captured ' ..
  'parameters, gradients, running statistics, optimizers and random numbers advance as in eager execution. Other ' ..
  'shapes, dtypes, numbers, captured values, and train or eval, lead to a new recording (8 programs are kept); a ' ..
  'number that changes at every call belongs in a 0-d tensor. item() or a decision by a tensor inside is an ' ..
  'error. A step that reads what cannot be compared (files, the clock, other libraries), prints, counts or fills ' ..
  'a list runs eagerly, and one line says why. verify=N runs the step beside its replay every N calls and compares ' ..
  'them. It may work on the CPU and one GPU, where its parts become CUDA graphs. In several processes each replay ' ..
  'repeats the averages of dist.parallel and the calls of mt.dist that write into a given tensor. Elementwise calls ' ..
  'on 2048 elements and more are joined, rows\' reductions too; on a GPU those that are arithmetic alone, whose ' ..
  'kernels are compiled while the step is recorded.',
  function(f, verify)
    if steps[f] then core.fail('compile: this function is compiled already') end
    local is_function = type(f) == 'function'
    local self = {step = f, f = is_function and f or function(...) return f(...) end, verify = verify, entries = {},
      dropped = 0, unused = 0, place = is_function and core.place_of(f) or core.describe(f)}
    local function compiled_step(...) return call(self, ...) end
    steps[compiled_step] = self
    return compiled_step
  end)

local plural = explain.plural
local function describe_program(text, entry)
  local step = entry.program.step
  local _, _, buffers, own, planned, graphs = native.step_facts(step)
  text:line('    memory of its own: %s, %s; planned: %s', plural(buffers, 'buffer'), explain.bytes_text(own),
    explain.bytes_text(planned))
  if graphs > 0 then text:line('    CUDA graphs: %d', graphs) end
  for _, line in ipairs(native.step_fused(step)) do text:line('    one program, %s', line) end
end

explain.describers[#explain.describers + 1] = function(f, text, _, ...)
  local self = steps[f]
  if not self then return end
  text:line('compiled step, %s%s', type(self.step) == 'function' and 'the function at ' or '', self.place)
  local entry_now = self.entries[1]
  for _ = 1, select('#', ...) > 0 and not (entry_now and entry_now.program) and 2 or 0 do f(...) end
  for _, entry in ipairs(self.entries) do
    local kinds = {}
    for i = 1, entry.n do
      local kept = entry[i]
      kinds[i] = kept.shape and
        ('%s (%s)'):format(kept.dtype, table.concat(kept.shape, ' x ')) or tostring(kept.value)
    end
    local program, how = entry.program, 'not recorded yet'
    if entry.eager then how = 'runs eagerly: ' .. entry.eager
    elseif program then
      local count, calls = native.step_facts(program.step)
      how = ('%s in %s, compares %s at each call; replayed %s'):format(plural(calls, 'verb'), plural(count, 'part'),
        plural(captured.count(program.captured), 'captured value'), plural(entry.replays, 'time'))
    end
    text:line('  of %s%s: %s', table.concat(kinds, ', '), entry.mode % 2 == 1 and '' or ' in no_grad', how)
    if program then describe_program(text, entry) end
  end
  if select('#', ...) == 0 then return true end
  text:run(f, ...)
  return true
end

return compile
