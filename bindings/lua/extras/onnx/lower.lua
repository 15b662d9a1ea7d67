-- lower.lua -- lowers a recorded program to an ONNX graph: each operation by its entry in the tables of onnx/
--
-- An entry is function(g, a, call): `a` has the arguments by the names of the signature, with handles for tensors, and
-- defaults for omitted ones. It returns a handle for each result, or nothing for an elementwise operation that is
-- lowered by its formula (formula.lua), like those without an entry. `g` is the graph (graph.lua); call.shape and
-- call.dtype are those of the first result.
local extend = require('mtorch').extend
local Graph = require 'mtorch.extras.onnx.graph'
local Size = require 'mtorch.extras.onnx.size'
local formula = require 'mtorch.extras.onnx.formula'
local util = extend.util
local Value, any_value = extend.recorder.Value, extend.recorder.any_value

local entries = util.merged(formula.entries)
for _, subject in ipairs{'elementwise', 'shape', 'indexing', 'reduction', 'product', 'convolution', 'neural', 'loss'} do
  for name, entry in pairs(require('mtorch.extras.onnx.' .. subject)) do entries[name] = entry end
end

-- Operations on a parameter that are not folded to a constant, so that the parameter keeps its name.
local rearranges = util.word_set('T mT t transpose permute movedim view reshape flatten unflatten squeeze unsqueeze ' ..
  'detach expand contiguous narrow select index split chunk unbind')

local function is_value(x) return getmetatable(x) == Value end

--- Whether a constant is computed in the file: its size or values depend on the dynamic axes, or it is a permuted
--- parameter.
local function is_calculated(value)
  if not value.tensor then return true end
  if not value.call then return false end
  if value.varies == nil then
    local source = rearranges[value.call.op] and value.call.args[1]
    value.varies = is_value(source) and (source.label ~= nil or is_calculated(source)) or false
  end
  return value.varies
end

--- Marks the calls on which the results depend.
local function mark(results)
  local stack = {}
  local function need(value) -- returns nothing, so that any_value goes on
    local call = value.call
    value.needed = true
    if call and is_calculated(value) and not call.needed then
      call.needed = true
      stack[#stack + 1] = call
    end
  end
  for _, value in ipairs(results) do need(value) end
  while #stack > 0 do
    local call = table.remove(stack)
    any_value(call.args, 5, need)
    if call.view then any_value(call.view.args, 5, need) end
  end
end

local Lowering = {}
Lowering.__index = Lowering

function Lowering:handle(value)
  if self.handles[value] then return self.handles[value] end
  if not value.tensor then extend.fail('onnx.export: a tensor was made where recording did not see it') end
  local h = self.graph:constant(value.tensor, value.label)
  self.handles[value] = h
  return h
end

function Lowering:converted(arg, levels)
  if is_value(arg) then return self:handle(arg) end
  if not Size.is_list(arg) or levels == 0 then return arg end
  local copy = {}
  for key, inner in pairs(arg) do copy[key] = self:converted(inner, levels - 1) end
  return copy
end

--- Returns the arguments by name, and those of '..' by position.
function Lowering:arguments(call)
  local a = {}
  for i, p in ipairs(call.params) do
    local arg = call.args[i]
    if arg ~= nil then a[p.name] = self:converted(arg, 4)
    elseif p.default then a[p.name] = loadstring('return ' .. p.default)() end
  end
  if call.params.open then
    for i = #call.params + 1, #call.args do a[i - #call.params] = self:converted(call.args[i], 4) end
  end
  return a
end

local function described(call) return call.op .. (call.line and ' at ' .. call.line or '') end

--- Returns the results of an entry. Entries that need numbers fail where they get sizes that follow the dynamic axes:
--- then the error says so.
function Lowering:entered(entry, a, call)
  local made = {pcall(entry, self.graph, a, call, self)}
  if table.remove(made, 1) then return made end
  if type(made[1]) ~= 'string' or extend.interrupted() or #self.graph.known_sizes == 0 or
    made[1]:find('onnx.export: ', 1, true) then
    error(made[1], 0)
  end
  extend.fail('onnx.export: %s has no ONNX form where its numbers or sizes follow the dynamic axes; leave ' ..
    'dynamic_axes out', described(call))
end

function Lowering:lower(call, a)
  local linear = call.params[1] and call.params[1].name == 'A' -- of mt.linalg
  local entry = entries[linear and 'linalg.' .. call.op or call.op]
  self.graph.under_way = described(call)
  call.shape, call.dtype = call.results[1].shape, call.results[1].dtype
  a = a or self:arguments(call)
  local made = entry and self:entered(entry, a, call) or {}
  made[1] = made[1] or not linear and formula.of_call(self.graph, call, a) or nil
  extend.check(made[1],
    'onnx.export: no ONNX form of %s is known%s', call.op, call.line and '; it was called at ' .. call.line or '')
  return made
end

function Lowering:call(call)
  local made = self:lower(call)
  for k, value in ipairs(call.results) do
    local h = made[k]
    if not h then extend.fail('onnx.export: result %d of %s has no ONNX form', k, described(call)) end
    h = self.graph:cast(h, value.dtype)
    local copy = self.graph:value(h.tensor and self.graph:reference(h) or h.name, value.dtype, value.shape)
    copy.positions, copy.origins, copy.tensor = h.positions, h.origins, h.tensor
    self.graph:note_sizes(copy)
    self.handles[value] = copy
  end
end

--- Writes the value at the elements of the view; their positions are computed by the call that created the view.
function entries.scatter_view(g, _, call, self)
  local base, value, view = self:handle(call.args[1]), self:handle(call.args[2]), call.view
  local a = self:arguments(view)
  a[view.params[call.view_arg].name] = g:numbered(base)
  return (g:write_places(base, self:lower(view, a)[call.view_index], value))
end
--- Returns the graph of a program, and its outputs as handles. inputs: {{name =, positions =}..}
local function lower(program, opset, inputs)
  local graph = Graph.new(opset)
  local self = setmetatable({graph = graph, handles = {}}, Lowering)
  graph.entries = entries
  for i, value in ipairs(program.inputs) do
    graph.taken[inputs[i].name] = true
    local h = graph:value(inputs[i].name, value.dtype, value.shape)
    h.positions = inputs[i].positions
    if value.dtype:find('int') then h.origins = {[i] = true} end
    graph:note_sizes(h)
    self.handles[value] = h
  end
  for _, place in ipairs(graph.known_sizes) do table.insert(graph.size_names, tostring(place[3])) end
  mark(program.results)
  for _, call in ipairs(program.calls) do
    if call.needed then self:call(call) end
  end
  return graph, util.map(program.results, function(value) return self:handle(value) end)
end

return {lower = lower}
