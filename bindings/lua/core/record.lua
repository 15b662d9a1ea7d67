-- record.lua -- one call of a function of tensors as a list of operations in SSA form
--
--   program = record(fn, inputs, names)
--   program = {inputs = {value..}, results = {value..}, calls = {call..}, returned = {n =, ..}}
--   call    = {op =, args = {..}, params = {..}, results = {value..}, line = 'net.lua:12'}
--   value   = {shape =, dtype =, call =, index =, input = i, tensor =, label =}
--
-- `args` are the arguments of `op`, with values instead of tensors, in the positions of `params` (core.parameters). A
-- value that depends on no input is a constant and has its tensor. An in-place operation makes a new value, under the
-- name without _ (add_ is add). A write through a view is a separate operation, scatter_view {base, value}, whose
-- `view` is the call that made the view; other views of the base are recomputed.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local Value, Recorder = {}, {}
Value.__index, Recorder.__index = Value, Recorder

-- Functions that do not write elements, although some of their names end in _.
local writes_nothing = {requires_grad_ = true, zero_grad_ = true, backward = true, retain_grad = true}

local parameters = {} -- of signatures, which are parsed once

--- "net.lua:12": the innermost line outside the library.
local function user_line()
  local frame = util.user_frame()
  return frame and ('%s:%d'):format(frame.short_src:match '[^/]*$', frame.currentline)
end

local function new_value(tensor, fields)
  local value = setmetatable(fields or {}, Value)
  value.shape, value.dtype = tensor:size(), tensor.dtype
  return value
end

--- The entry of a tensor. A tensor that no recorded call has created is a constant.
function Recorder:entry(tensor)
  local id, storage = core.identity(tensor)
  local entry = self.entries[id]
  if not entry then
    entry = {tensor = tensor, version = 0, value = new_value(tensor, {tensor = tensor, label = self.labels[id]})}
    self:keep(entry, id, storage)
  end
  return entry
end

function Recorder:keep(entry, id, storage)
  self.entries[id] = entry
  entry.storage = self.storages[storage] or {}
  self.storages[storage] = entry.storage
  table.insert(entry.storage, entry)
end

--- Adds a call whose results are tensors; returns its values. They are constants if all its arguments are.
function Recorder:append(call, tensors)
  call.results = {}
  for k, tensor in ipairs(tensors) do
    local value = new_value(tensor, {call = call, index = k})
    if not call.depends then value.tensor = tensor end
    call.results[k] = value
  end
  table.insert(self.program.calls, call)
  return call.results
end

--- Whether `holds` is true for a value in an argument, or in lists inside it.
local function any_value(arg, levels, holds)
  if getmetatable(arg) == Value then return holds(arg) end
  if type(arg) ~= 'table' or levels == 0 then return false end
  for _, inner in pairs(arg) do
    if any_value(inner, levels - 1, holds) then return true end
  end
  return false
end
local function depends(arg, levels)
  return any_value(arg, levels, function(value) return value.tensor == nil end)
end

--- The current value of a tensor: views of a base that has been written are recomputed.
function Recorder:current(entry)
  local base = entry.base
  if not base then return entry.value end
  local of = self:current(base)
  if entry.seen ~= base.version then
    local made = entry.view
    local args = util.merged(made.args, {[entry.view_arg] = of})
    local call = {op = made.op, params = made.params, args = args, line = made.line, depends = depends(args, 3)}
    local tensors = util.tabulate(entry.view_index, function() return entry.tensor end)
    entry.value = self:append(call, tensors)[entry.view_index]
    entry.seen, entry.version = base.version, entry.version + 1
  end
  return entry.value
end

--- Sets a new value of the tensor, and of the base that it is a view of.
function Recorder:write(entry, value)
  entry.value, entry.version = value, entry.version + 1
  local base = entry.base
  if not base then return end
  local args = {base.value, value}
  local call = {op = 'scatter_view', args = args, params = {}, view = entry.view, view_arg = entry.view_arg,
    view_index = entry.view_index, line = entry.view.line, depends = depends(args, 1)}
  self:write(base, self:append(call, {base.tensor})[1])
  entry.seen = base.version
end

--- Saves the current data of constants in memory that is about to be written.
local function save_constants(entry)
  for _, other in ipairs(entry.storage) do
    local value = other.value
    if value.tensor and not value.saved then value.tensor, value.saved = value.tensor:clone(), true end
  end
end

--- An argument with values instead of tensors, also in lists.
function Recorder:freeze(arg, levels)
  if mt.is_tensor(arg) then return self:current(self:entry(arg)) end
  if type(arg) ~= 'table' or levels == 0 or rawget(arg, '__fields') then return arg end
  local copy = {}
  for key, inner in pairs(arg) do copy[key] = self:freeze(inner, levels - 1) end
  return copy
end

--- Called before a call: saves its arguments, and which tensor it will write.
function Recorder:before(depth, name, signature, list, n)
  local params, call = parameters[signature] or core.parameters(signature), {op = name, args = {}, sources = {}}
  parameters[signature] = params
  for i = 1, n do
    call.args[i] = self:freeze(list[i], 4)
    if mt.is_tensor(list[i]) then call.sources[i] = self:entry(list[i]) end
  end
  call.params, call.depends = params, depends(call.args, 5)
  local target = (name == 'assign' or (name:find('[^_]_$') and not writes_nothing[name])) and list[1]
  if not target and params.out and n > #params then target, call.out = list[n], true end
  if target and mt.is_tensor(target) then
    call.target = self:entry(target)
    call.version = call.target.version
    save_constants(call.target)
    call.op = name:gsub('([^_])_$', '%1')
  end
  if call.depends then call.line = user_line() end
  self.check(call)
  self.pending[depth] = call
end

local function flatten(list, n, out)
  for i = 1, n do
    local value = list[i]
    if mt.is_tensor(value) then out[#out + 1] = value
    elseif type(value) == 'table' and not getmetatable(value) then flatten(value, #value, out) end
  end
  return out
end

--- Registers a new tensor: as a result of the call, or as a view if an argument shares its memory.
function Recorder:made(tensor, call, k, value)
  local id, storage = core.identity(tensor)
  if self.entries[id] then return end
  local entry = {tensor = tensor, version = 0, value = value}
  for i = 1, #call.params do
    local source = call.sources[i]
    if source and source.storage == self.storages[storage] then
      entry.base, entry.seen = source, source.version
      entry.view, entry.view_arg, entry.view_index = call, i, k
      break
    end
  end
  self:keep(entry, id, storage)
end

--- Called after a call: its results become values. Results of inner calls are already registered.
function Recorder:after(depth, list, n)
  local call, tensors = self.pending[depth], flatten(list, n, {})
  self.pending[depth] = nil
  if call.target then
    if call.target.version == call.version then
      local value = self:append(call, {call.target.tensor})[1]
      self:write(call.target, value)
    end
    return
  end
  local known = true
  for _, tensor in ipairs(tensors) do known = known and self.entries[core.identity(tensor)] ~= nil end
  if known then return end
  for k, value in ipairs(self:append(call, tensors)) do self:made(tensors[k], call, k, value) end
end

--- Records fn(unpack(inputs)). labels: {[core.identity(tensor)] = name}; check(call) may raise an
--- error before a call runs (call.depends: whether it depends on an input).
local function record(fn, inputs, labels, check)
  local self = setmetatable({entries = {}, storages = {}, labels = labels or {}, pending = {},
    check = check or function() end, program = {inputs = {}, calls = {}}}, Recorder)
  local copies = {}
  for i, input in ipairs(inputs) do
    copies[i] = input:detach():clone()
    local entry = {tensor = copies[i], version = 0, value = new_value(copies[i], {input = i})}
    self:keep(entry, core.identity(copies[i]))
    self.program.inputs[i] = entry.value
  end
  -- Lists, because LuaJIT 2.1.0-beta3 has compiled select(i, ...) of a vararg in a loop here to a wrong argument.
  local function watch(depth, name, signature, ...)
    local list, n = {...}, select('#', ...)
    if name then return self:before(depth, name, signature, list, n) end
    return self:after(depth, list, n)
  end
  local function take(...)
    self.program.results, self.program.returned = {}, {n = select('#', ...), ...}
    for i, tensor in ipairs(flatten(self.program.returned, select('#', ...), {})) do
      self.program.results[i] = self:current(self:entry(tensor))
    end
    return self.program
  end
  return take(mt.no_grad(core.record, fn, watch, unpack(copies)))
end

return {record = record, Value = Value, any_value = any_value}
