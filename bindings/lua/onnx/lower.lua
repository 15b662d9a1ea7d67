-- lower.lua -- a recorded program as an ONNX graph: each operation by its entry in the tables of onnx/
--
-- An entry is function(g, a, call): `a` has the arguments by the names of the signature, tensors as handles, what is
-- left out as its default; it returns a handle for each result. `g` is the graph (graph.lua).
local core = require 'mtorch.core'
local mt = require 'mtorch'
local Graph = require 'mtorch.onnx.graph'
local Size = require 'mtorch.onnx.size'
local Value = require('mtorch.core.record').Value

local entries = {}
for _, subject in ipairs{'elementwise', 'shape', 'indexing', 'reduction', 'product', 'convolution', 'neural', 'loss',
    'recurrent', 'compiled'} do
  for name, entry in pairs(require('mtorch.onnx.' .. subject)) do entries[name] = entry end
end

-- Operations whose result of a parameter is written as an operation, so that the parameter keeps its name.
local rearranges = {}
for name in ('T mT t transpose permute movedim view reshape flatten unflatten squeeze unsqueeze detach expand ' ..
    'contiguous narrow select index split chunk unbind'):gmatch('%S+') do
  rearranges[name] = true
end

local function is_value(x) return getmetatable(x) == Value end

--- Calls visit(value) for each value among the arguments.
local function each_value(arg, visit, levels)
  if is_value(arg) then return visit(arg) end
  if type(arg) ~= 'table' or Size.is(arg) or levels == 0 then return end
  for _, inner in pairs(arg) do each_value(inner, visit, levels - 1) end
end

--- Whether a constant is calculated in the file: its size or values depend on the dynamic axes, or it is a parameter in
--- another order.
local function is_calculated(value)
  if not value.tensor then return true end
  if not value.call then return false end
  if value.varies == nil then
    local source = rearranges[value.call.op] and value.call.args[1]
    value.varies = is_value(source) and (source.label ~= nil or is_calculated(source)) or false
  end
  return value.varies
end

--- Marks the calls that the results need.
local function mark(results)
  local stack = {}
  local function need(value)
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
    each_value(call.args, need, 5)
    if call.view then each_value(call.view.args, need, 5) end
  end
end

--- A default as the signature writes it.
local function default_of(p)
  local text = p.default
  if text == nil or text == 'nil' then return nil end
  if text == 'true' or text == 'false' then return text == 'true' end
  if tonumber(text) then return tonumber(text) end
  if text:find("^'") then return text:sub(2, -2) end
  return loadstring('return ' .. text)()
end

local Lowering = {}
Lowering.__index = Lowering

function Lowering:handle(value)
  if self.handles[value] then return self.handles[value] end
  if not value.tensor then core.fail('onnx.export: a tensor was made where recording did not see it') end
  local h = self.graph:constant(value.tensor, value.label)
  self.handles[value] = h
  return h
end

function Lowering:converted(arg, levels)
  if is_value(arg) then return self:handle(arg) end
  if type(arg) ~= 'table' or Size.is(arg) or levels == 0 then return arg end
  local copy = {}
  for key, inner in pairs(arg) do copy[key] = self:converted(inner, levels - 1) end
  return copy
end

--- The arguments by name; those after '..' by position.
function Lowering:arguments(call)
  local a = {}
  for i, p in ipairs(call.params) do
    local arg = call.args[i]
    if arg == nil then a[p.name] = default_of(p) else a[p.name] = self:converted(arg, 4) end
  end
  if call.params.open then
    for i = #call.params + 1, #call.args do a[i - #call.params] = self:converted(call.args[i], 4) end
  end
  return a
end

local function described(call) return call.op .. (call.line and ' at ' .. call.line or '') end

--- The nodes of one call.
function Lowering:lower(call, a)
  local linear = call.params[1] and call.params[1].name == 'A' -- of mt.linalg
  local entry = entries[linear and 'linalg.' .. call.op or call.op]
  if not entry then
    core.fail('onnx.export: no ONNX form of %s is known; it was called at %s', call.op, call.line or '?')
  end
  self.graph.under_way = described(call)
  return {entry(self.graph, a or self:arguments(call), call, self)}
end

function Lowering:call(call)
  local made = self:lower(call)
  for k, value in ipairs(call.results) do
    local h = made[k]
    if not h then core.fail('onnx.export: result %d of %s has no ONNX form', k, described(call)) end
    h = self.graph:cast(h, value.dtype)
    local copy = self.graph:value(h.tensor and self.graph:reference(h) or h.name, value.dtype, value.shape)
    copy.positions, copy.origins, copy.tensor = h.positions, h.origins, h.tensor
    self.graph:note_sizes(copy)
    self.handles[value] = copy
  end
end

--- The positions, from 0, of a view's elements among those of its base, as an int64 handle of the view's shape.
function Lowering:places(base, call, parameter, index)
  local g = self.graph
  local count, varies = 1, false
  for _, size in ipairs(base.shape) do count, varies = count * size, varies or Size.is(size) end
  local flat
  if varies then flat = g.Range(g:scalar(0, 'int64'), g.Size(base), g:scalar(1, 'int64'))
  else flat = g:constant(mt.range(1, count, {dtype = 'int64'}) - 1) end
  local a = self:arguments(call)
  local places = g:reshape(flat, base.shape)
  a[call.params[parameter].name] = places
  return self:lower(call, a)[index]
end

entries.scatter_view = function(g, _, call, self)
  local base, value = self:handle(call.args[1]), self:handle(call.args[2])
  local places = self:places(base, call.view, call.view_arg, call.view_index)
  return (g:write_places(base, places, g:cast(value, base.dtype)))
end

entries.assign = function(g, a, call, self)
  local mask, value = a.key, a.value
  if not Graph.is_handle(value) then value = g:scalar(value, a.x.dtype) end
  value = g:cast(value, a.x.dtype)
  if type(mask) == 'table' and not Graph.is_handle(mask) and #mask == 1 then mask = mask[1] end
  if Graph.is_handle(mask) and mask.dtype == 'bool' and value.shape and #value.shape == 0 then
    local axes = {}
    for i = #mask.shape, #a.x.shape - 1 do axes[#axes + 1] = i end
    return g.Where(#axes > 0 and g:unsqueeze(mask, axes) or mask, value, a.x)
  end
  local index = {op = 'index', args = {call.args[1], call.args[2]}, params = {{name = 'x'}, {name = 'key'}},
    line = call.line}
  return (g:write_places(a.x, self:places(a.x, index, 1, 1), value))
end

--- The graph of a program: outputs as handles. inputs: {{name =, positions =}..}
local function lower(program, opset, inputs)
  local graph = Graph.new(opset)
  local self = setmetatable({graph = graph, handles = {}, entries = entries}, Lowering)
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
  local outputs = {}
  for i, value in ipairs(program.results) do outputs[i] = self:handle(value) end
  return graph, outputs
end

return {lower = lower, entries = entries, each_value = each_value, is_value = is_value}
