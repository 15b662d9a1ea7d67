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

--- The arguments with copies of their tensors, the list of these, and the list of the tensors.
function recording.with_copies(arguments, copy)
  local given, copies, tensors = {n = arguments.n}, {}, {}
  for i = 1, arguments.n do
    local x = arguments[i]
    given[i] = x
    if mt.is_tensor(x) then
      given[i] = copy(x)
      copies[#copies + 1], tensors[#tensors + 1] = given[i], x
    end
  end
  return given, copies, tensors
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

-- ---- results ---------------------------------------------------------------------------------------------

--- A description of a result, from which each call makes the same with other tensors; adds tensors that the function
--- computed to `list`, and sets results.why for what cannot be made again.
local function describe(x, given, captures, list, results)
  if mt.is_tensor(x) then
    for k = 1, given.n do
      if rawequal(x, given[k]) then return {argument = k} end
    end
    if captures[x] then return {value = x} end
    list[#list + 1] = x
    return {tensor = #list}
  end
  if type(x) == 'table' and getmetatable(x) == nil then
    local fields = {}
    for k, value in pairs(x) do fields[k] = describe(value, given, captures, list, results) end
    return {fields = fields}
  end
  local is_shape = type(x) == 'table' and getmetatable(x) == false
  if not recording.is_plain(x) and not is_shape then
    local format = 'it returns %s; tensors, numbers, strings and tables of these can be recorded'
    results.why = results.why or format:format(core.describe(x))
  end
  return {value = x}
end
--- The descriptions of all results; `only_tensors`: they are the tensors that the function computed, in order.
function recording.describe(out, given, captures, list)
  local results = {n = out.n, only_tensors = true}
  for i = 1, out.n do
    results[i] = describe(out[i], given, captures, list, results)
    results.only_tensors = results.only_tensors and results[i].tensor == i
  end
  return results
end

local function remade(description, tensors, ...)
  if description.tensor then return tensors[description.tensor] end
  if description.argument then return (select(description.argument, ...)) end
  if not description.fields then return description.value end
  local t = {}
  for key, inner in pairs(description.fields) do t[key] = remade(inner, tensors, ...) end
  return t
end
--- The described results, with these tensors and arguments.
function recording.remake(results, tensors, ...)
  local out = {}
  for i = 1, results.n do
    local k = results[i].tensor
    if k then out[i] = tensors[k] else out[i] = remade(results[i], tensors, ...) end
  end
  return unpack(out, 1, results.n)
end

--- Replaces results of the recorded call itself, which got copies, by these tensors and arguments.
function recording.put_back(out, results, tensors, arguments)
  for i = 1, out.n do
    local d = results[i]
    out[i] = d.tensor and tensors[d.tensor] or d.argument and arguments[d.argument] or out[i]
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
