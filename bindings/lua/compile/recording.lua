-- recording.lua -- what mt.compile and mt.fuse share: arguments that represent those of later calls, and their kinds
local core = require 'mtorch.core'
local mt = require 'mtorch'

local recording = {}

-- ---- running a function that is recorded --------------------------------------------------------------

function recording.same(a, b)
  if a.shape ~= b.shape or a.dtype ~= b.dtype then return false end
  return (a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b)))):all()
end

--- The strides of a non-contiguous tensor as text: the order of sums depends on them.
local function layout_of(x)
  return not x:is_contiguous() and table.concat(x:stride(), ' ') or nil
end
--- A copy with the same layout.
function recording.copy_of(x)
  x = x:detach()
  if x:is_contiguous() then return x:clone() end
  local strides, last = x:stride(), 1
  for d, n in ipairs(x.shape) do last = last + (n - 1) * strides[d] end
  return x:as_strided({last}, {1}):clone():as_strided(x.shape, strides, 0)
end

--- The arguments with each tensor x replaced by f(x).
function recording.map_tensors(arguments, f)
  local mapped = {n = arguments.n}
  for i = 1, arguments.n do
    local x = arguments[i]
    mapped[i] = mt.is_tensor(x) and f(x, i) or x
  end
  return mapped
end

--- Copies changes of the arguments' copies back to the arguments.
function recording.take_back(copies, arguments)
  mt.no_grad(function()
    for i, x in ipairs(copies) do
      if not recording.same(x, arguments[i]) then arguments[i]:copy_(x) end
    end
  end)
  for i, x in ipairs(copies) do
    if x.requires_grad then arguments[i]:requires_grad_() end
    if x.grad then arguments[i].grad = x.grad end
  end
end

--- Raises the error that ended the coroutine. A tail call removes the step's frame, and there is no
--- frame above it: then the position is that of the step's call, as without a coroutine.
local function raise(routine, message)
  local level, frame = 0, debug.getinfo(routine, 0, 'Sl')
  while frame and (frame.currentline <= 0 or frame.source:find '^@mtorch/') do
    level = level + 1
    frame = debug.getinfo(routine, level, 'Sl')
  end
  if frame or type(message) ~= 'string' then error(message, 0) end
  core.fail('%s', message)
end

--- Runs fn(unpack(given)) while `recorder` is notified of optimizers' steps and of what cannot be repeated. Returns the
--- results, or nil and a function that raises what ended it; `what` runs.
function recording.run(recorder, fn, given, what)
  core.step_recording = recorder
  local routine = coroutine.create(fn) -- a yield would leave the recording active
  local results = core.pack(coroutine.resume(routine, unpack(given, 1, given.n)))
  core.step_recording = false
  if results[1] and coroutine.status(routine) ~= 'suspended' then
    return {n = results.n - 1, unpack(results, 2, results.n)}
  end
  return nil, function()
    if not results[1] then raise(routine, results[2]) end
    core.fail('%s cannot yield', what)
  end
end

-- ---- kinds of arguments ---------------------------------------------------------------------------------

--- Whether a recording can have such an argument or result.
function recording.is_plain(x)
  local kind = type(x)
  return mt.is_tensor(x) or kind == 'number' or kind == 'boolean' or kind == 'string' or kind == 'nil'
end

--- Whether the non-tensor arguments are equal to those of the entry.
function recording.same_values(entry, n, ...)
  if entry.n ~= n then return false end
  if entry.plain == 0 then return true end
  local given = {...} -- compiled loops over select(i, ...) went wrong in LuaJIT 2.1.0-beta3
  for i = 1, n do
    local kept = entry[i]
    local x, before = given[i], kept.value
    if not kept.shape and not (rawequal(x, before) and (x ~= 0 or 1 / x == 1 / before)) then return false end
  end
  return true
end

--- The entry for calls with such arguments: the properties of each that a program depends on.
function recording.entry(mode, arguments)
  local entry = {n = arguments.n, mode = mode, plain = 0}
  for i = 1, arguments.n do
    local x = arguments[i]
    if mt.is_tensor(x) then
      entry[i] = {dtype = x.dtype, shape = x.shape, requires_grad = x.requires_grad, device = x.device,
        layout = layout_of(x)}
    else
      entry[i], entry.plain = {value = x}, entry.plain + 1
    end
  end
  return entry
end

function recording.same_kinds(entry, ...)
  local given = {...}
  for i = 1, entry.n do
    local x, kept = given[i], entry[i]
    if kept.shape and not (mt.is_tensor(x) and kept.shape == x.shape and kept.dtype == x.dtype and
      kept.requires_grad == x.requires_grad and kept.device == x.device and kept.layout == layout_of(x)) then
      return false
    end
  end
  return true
end

return recording
