-- graph.lua -- the ONNX graph under construction: nodes, constants, sizes that depend on the inputs
--
-- A handle represents one value of the file: {name =, dtype =, shape = (if known), tensor = (of a constant),
-- positions = true (integers that count from 0 in the file, and from 1 in Lua)}. `g.Relu(x)` adds a node; numbers
-- among the inputs become constants of the first handle's dtype. The last argument may have attributes,
-- `dtype` (of the result, by default the first input's) and `outputs` (their number).
local mt = require 'mtorch'
local extend = mt.extend
local messages = require 'mtorch.extras.onnx.messages'
local Size = require 'mtorch.extras.onnx.size'
local util = extend.util

local Handle = {}
Handle.__index = Handle
local Graph = {}

local results = {Shape = 'int64', ArgMax = 'int64', ArgMin = 'int64', NonZero = 'int64', Size = 'int64'}
for name in ('Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Not IsNaN IsInf'):gmatch('%S+') do
  results[name] = 'bool'
end

-- The index of an operator's result that has positions.
local finds = {ArgMax = 1, ArgMin = 1, NonZero = 1, TopK = 2, MaxPool = 2, Unique = 3}

local function is_handle(x) return getmetatable(x) == Handle end
Graph.is_handle = is_handle

function Graph:unique(name) return util.unused_name(self.taken, name, '%s_%d') end

--- Returns the name of a handle as an input; a constant is added to the file now.
function Graph:reference(h)
  if h.name then return h.name end
  local key, text = h.key
  if not key and h.tensor:numel() <= 64 then
    text = messages.tensor(h.tensor)
    key = text.data_type .. ':' .. table.concat(text.dims, ',') .. ':' .. text.raw_data
  end
  if key and not h.label and self.constants[key] then
    h.name = self.constants[key]
    return h.name
  end
  h.name = self:unique(h.label or 'constant')
  if key and not h.label then self.constants[key] = h.name end
  table.insert(self.initializers, messages.tensor(h.tensor, h.name))
  return h.name
end

local function handle(self, fields)
  fields.graph = self
  return setmetatable(fields, Handle)
end

--- Returns a constant for a tensor, with the name `label` if given.
function Graph:constant(tensor, label)
  return handle(self, {tensor = tensor, label = label, dtype = tensor.dtype, shape = tensor:size()})
end
--- Returns a handle for an input or a result.
function Graph:value(name, dtype, shape) return handle(self, {name = name, dtype = dtype, shape = shape}) end

--- Returns the input names of a node, from handles, numbers (constants), or false for an omitted optional input.
local function input_names(self, inputs)
  local names, first = {}, nil
  for _, x in ipairs(inputs) do first = first or (is_handle(x) and x) end
  for i, x in ipairs(inputs) do
    names[i] = x and self:reference(is_handle(x) and x or self:cast(x, first.dtype)) or ''
  end
  while names[#names] == '' do names[#names] = nil end
  return names, first
end

-- ---- positions -----------------------------------------------------------------------------------------

-- Operators that move elements without changing them, with the inputs that contain them.
local moves = {Where = {2, 3}, ScatterElements = {1, 3}, ScatterND = {1, 3}, Concat = 'all', Max = 'all', Min = 'all'}
for name in ('Reshape Transpose Squeeze Unsqueeze Slice Gather GatherElements GatherND Expand Split Tile Identity ' ..
    'Pad Flatten Compress TopK ReduceMax ReduceMin Unique'):gmatch('%S+') do
  moves[name] = {1}
end
local neutral = {Shape = true, Size = true}

local function is_whole(dtype) return dtype:find('int') ~= nil end

--- Returns the same value as plain integers.
function Handle:bare()
  if not self.positions and not self.origins then return self end
  local copy = util.merged(self)
  copy.positions, copy.origins = nil, nil
  return setmetatable(copy, Handle)
end

--- Records that an input's integers are used as positions or as numbers.
function Graph:used(h, as)
  for input in pairs(h.origins or {}) do
    local uses = self.uses[input] or {}
    self.uses[input] = uses
    uses[as] = uses[as] or self.under_way
  end
end

--- Converts integers from 1 (negative ones are unchanged) to positions from 0.
function Graph:to_positions(x)
  self:used(x, 'positions')
  if x.positions then return x:bare() end
  if x.tensor then return self:constant(mt.where(x.tensor:gt(0), x.tensor - 1, x.tensor)) end
  local y = x:bare()
  return self.Where(self.Greater(y, 0), y - 1, y)
end
--- Converts positions to Lua's numbers from 1.
function Graph:to_numbers(x)
  self:used(x, 'numbers')
  return x.positions and x:bare() + 1 or x:bare()
end

--- Converts the inputs of an operator; also returns the kind of its result: {positions =, origins =}.
local function sort_kinds(self, op, inputs)
  local moved, is_data, kind, sorted = moves[op], {}, {}, {}
  for i = 1, #inputs do is_data[i] = moved == 'all' end
  for _, i in ipairs(moved ~= 'all' and moved or {}) do is_data[i] = true end
  for i, x in ipairs(inputs) do
    if is_data[i] and is_handle(x) and is_whole(x.dtype) then
      kind.positions = kind.positions or x.positions
      for input in pairs(x.origins or {}) do
        kind.origins = kind.origins or {}
        kind.origins[input] = true
      end
    end
  end
  for i, x in ipairs(inputs) do
    sorted[i] = x
    if is_handle(x) and is_whole(x.dtype) then
      if is_data[i] and kind.positions then sorted[i] = self:to_positions(x)
      elseif is_data[i] or neutral[op] then sorted[i] = x:bare()
      elseif x.positions or x.origins then sorted[i] = self:to_numbers(x) end
    elseif is_data[i] and kind.positions and type(x) == 'number' and x > 0 then
      sorted[i] = x - 1
    end
  end
  return sorted, kind
end

--- Adds a node, or reuses an equal one; returns its results.
function Graph:node(op, inputs, attributes, dtype, count)
  local kind
  inputs, kind = sort_kinds(self, op, inputs)
  local names, first = input_names(self, inputs)
  local list, text = {}, {op, table.concat(names, ','), dtype or '', count}
  for i, name in ipairs(util.sorted_keys(attributes)) do
    local value = attributes[name]
    if Size.is(value) then error 'an attribute is fixed' end
    list[i] = messages.attribute(name, value)
    text[#text + 1] = name .. '=' .. (type(value) == 'table' and table.concat(value, ',') or tostring(value))
  end
  local key = table.concat(text, ';')
  local made = self.nodes_by_key[key]
  if not made then
    made = {}
    for k = 1, count do
      made[k] = handle(self, {name = self:unique(op:lower()),
        dtype = k > 1 and finds[op] and 'int64' or dtype or results[op] or first.dtype})
    end
    local outputs = util.map(made, function(h) return h.name end)
    self.nodes_by_key[key] = made
    table.insert(self.nodes, {input = names, output = outputs, name = made[1].name, op_type = op, attribute = list})
  end
  local copies = {}
  for k, h in ipairs(made) do
    copies[k] = handle(self, {name = h.name, dtype = h.dtype, positions = finds[op] == k or nil})
    if k == 1 and kind.positions then copies[k].positions = true end
    if k == 1 then copies[k].origins = kind.origins end
  end
  return unpack(copies)
end

--- Returns the function that `g.Softmax(x, {axis = 1})` calls. `g.ReduceSum(x, axes, keep)` reduces along axes, a list
--- that counts from 0; empty or nil: all.
local function operator(self, op)
  if op:find '^Reduce' then
    return function(x, axes, keep)
      local inputs, attributes = {x}, {keepdims = keep and 1 or 0}
      if axes and axes[1] then
        if op == 'ReduceSum' or self.opset >= 18 then inputs[2] = self:ints(axes) else attributes.axes = axes end
      end
      return self:node(op, inputs, attributes, nil, 1)
    end
  end
  return function(...)
    local inputs, n, attributes = {...}, select('#', ...), {}
    if Size.is_list(inputs[n]) and not is_handle(inputs[n]) then
      attributes, inputs[n] = util.merged(inputs[n]), nil
    end
    local dtype, outputs = attributes.dtype, attributes.outputs or 1
    attributes.dtype, attributes.outputs = nil, nil
    if op == 'Where' then
      dtype = (is_handle(inputs[2]) and inputs[2] or inputs[3]).dtype
      for i = 2, 3 do inputs[i] = self:cast(inputs[i], dtype) end
      if dtype == 'bool' then -- which onnxruntime lacks
        local mask, x, y = unpack(inputs)
        return self.Or(self.And(mask, x), self.And(self.Not(mask), y))
      end
    end
    return self:node(op, inputs, attributes, dtype, outputs)
  end
end

-- ---- arithmetic of handles -----------------------------------------------------------------------------

for event, op in pairs{__add = 'Add', __sub = 'Sub', __mul = 'Mul', __div = 'Div', __pow = 'Pow'} do
  Handle[event] = function(x, y)
    local g = (is_handle(x) and x or y).graph
    return g[op](x, y)
  end
end
function Handle:__unm() return self.graph.Neg(self) end
function Handle:times(factor) return factor == 1 and self or self * factor end

local largest = {int8 = 2 ^ 7, uint8 = 2 ^ 8, int16 = 2 ^ 15, int32 = 2 ^ 31, int64 = 2 ^ 63}
--- Converts floats to integers: saturated at the limits, NaN to 0, which ONNX does not define.
local function to_whole(self, x, dtype)
  local most = largest[dtype]
  x = x.dtype == 'float16' and self:cast(x, 'float32') or x
  local function cast(h) return self:node('Cast', {h}, {to = messages.types[dtype]}, dtype, 1) end
  if most < 2 ^ 31 then return cast(self.Clip(x, dtype == 'uint8' and 0 or -most, most - 1)) end
  local last = self:constant(mt.tensor(math.huge, 'float64'):to(dtype)) -- processors saturate below the range
  return self.Where(self.GreaterOrEqual(x, most), last, self.Where(self.IsNaN(x), 0, cast(x)))
end

--- Converts a handle, number, boolean or size to a handle of the dtype; values other than handles are 0-d.
function Graph:cast(x, dtype)
  if Size.is(x) then x = self.Squeeze(self:size(x), self:ints{0}) end
  if type(x) == 'boolean' or type(x) == 'number' and dtype == 'bool' then
    return self:constant(mt.tensor(x and x ~= 0, {dtype = 'bool'}):to(dtype))
  end
  if type(x) == 'number' then return self:constant(mt.full({}, x, {dtype = dtype})) end
  if x.dtype == dtype then return x end
  if x.tensor then return self:constant(x.tensor:to(dtype)) end
  local whole = is_whole(dtype) and is_whole(x.dtype)
  local y = is_whole(dtype) and x.dtype:find 'float' and to_whole(self, x, dtype) or
    self:node('Cast', {whole and x:bare() or x}, {to = messages.types[dtype]}, dtype, 1)
  y.shape = x.shape
  if whole then y.positions, y.origins = x.positions, x.origins end
  return y
end

--- Returns a tensor with an operand's dtype and kind of shape, or the number itself.
local function sample(x)
  if is_handle(x) then return mt.ones(#(x.shape or {1}) == 0 and {} or {1}, {dtype = x.dtype}) end
  return Size.first(x)
end
--- Returns the common dtype of two operands, handles or numbers, or the dtype of the first.
function Graph.common_dtype(x, y)
  return y == nil and x.dtype or mt.where(mt.tensor(true), sample(x), sample(y)).dtype
end

-- ---- axes and sizes ------------------------------------------------------------------------------------

--- Converts a dimension in Lua to an axis from 0.
function Graph.axis(dim, rank) return dim > 0 and dim - 1 or dim + rank end
function Handle:axis(dim) return Graph.axis(dim, #self.shape) end
--- Returns the axes of a dimension or list of dimensions of a handle or result; for nil an empty list.
function Graph.axes(x, dims)
  return util.map(type(dims) == 'table' and dims or {dims}, function(dim) return Graph.axis(dim, #x.shape) end)
end
Handle.axes = Graph.axes
--- Returns the axes from `first` to the last one of a rank.
function Graph.axes_from(first, rank)
  return util.tabulate(rank - first, function(i) return first + i - 1 end)
end
--- Returns the axes of a rank that are not in a list.
function Graph.other_axes(rank, axes)
  local taken = util.set(axes)
  return util.filter(Graph.axes_from(0, rank), function(axis) return not taken[axis] end)
end

--- Returns a constant list of int64.
function Graph:ints(list)
  return self:constant(mt.tensor(#list > 0 and list or mt.empty({0}), {dtype = 'int64'}))
end

--- Records that the unknown sizes of a handle can be read from it at run time.
function Graph:note_sizes(h)
  for axis, size in ipairs(h.shape) do
    if Size.is(size) and not self.sizes[size.key] then
      local place = {h, axis - 1, size}
      self.sizes[size.key] = place
      table.insert(self.known_sizes, place)
    end
  end
end

local function size_at(self, place)
  if self.opset >= 15 then return self.Shape(place[1], {start = place[2], ['end'] = place[2] + 1}) end
  return self.Gather(self.Shape(place[1]), self:ints{place[2]}, {axis = 0})
end

--- Returns a size that depends on the inputs as an int64: read from a value, or computed from such sizes.
function Graph:size(x)
  if not Size.is(x) then return self:ints{x} end
  local place = self.sizes[x.key]
  if place then return size_at(self, place) end
  for _, known in ipairs(self.known_sizes) do
    local scale, offset = x:linear_in(known[3])
    if scale and scale % 1 == 0 then
      local y = scale == 1 and size_at(self, known) or size_at(self, known) * scale
      return offset == 0 and y or y + offset
    end
    if scale and (1 / scale) % 1 == 0 and offset == 0 then return size_at(self, known) / (1 / scale) end
  end
  for _, a in ipairs(self.known_sizes) do
    for _, b in ipairs(self.known_sizes) do
      local scale = x:product_of(a[3], b[3])
      if scale and scale % 1 == 0 then return size_at(self, a) * size_at(self, b) * scale end
    end
  end
  extend.fail("onnx.export: %s is %s for sizes %s of the dynamic axes, which is not a multiple of them; leave " ..
    "dynamic_axes out, or take the number from a shape", self.under_way, tostring(x),
    table.concat(self.size_names, ', '))
end

--- Returns a list of sizes as an int64 tensor.
function Graph:size_list(list)
  local parts, run = {}, {}
  for _, x in ipairs(list) do
    if Size.is(x) then
      if #run > 0 then parts[#parts + 1] = self:ints(run) end
      parts[#parts + 1], run = self:size(x), {}
    else
      run[#run + 1] = x
    end
  end
  if #run > 0 or #parts == 0 then parts[#parts + 1] = self:ints(run) end
  return #parts == 1 and parts[1] or self:concat(parts, 0)
end
--- Returns the numbers from 0 to n - 1, where n is a number, a size or an int64 handle.
function Graph:arange(n) return self.Range(self:cast(0, 'int64'), self:cast(n, 'int64'), self:cast(1, 'int64')) end

-- ---- common operators ------------------------------------------------------------------------------------

--- Reshapes x; one unknown size becomes -1.
function Graph:reshape(x, shape)
  local varying, zero, list = 0, false, {}
  for i, size in ipairs(shape) do
    if Size.is(size) then varying = varying + 1 end
    zero = zero or size == 0
    list[i] = Size.is(size) and -1 or size
  end
  local target = (varying > 1 or zero and varying > 0) and self:size_list(shape) or self:ints(list)
  local y = self.Reshape(x, target, {allowzero = zero and 1 or nil})
  y.shape = shape
  return y
end

function Graph:flat(x) return self.Reshape(x, self:ints{-1}) end
--- Reshapes a vector with a number per channel to broadcast before `after` other dimensions.
function Graph:per_channel(x, after)
  return after > 0 and self:reshape(x, {x.shape[1], unpack(util.tabulate(after, function() return 1 end))}) or x
end

function Graph:expand(x, shape)
  local y = self.Expand(x, self:size_list(shape))
  y.shape = shape
  return y
end

--- Returns a tensor of the shape that has one value, a number or a 0-d handle, everywhere.
function Graph:full(shape, value, dtype) return self:expand(self:cast(value, dtype), shape) end

--- Slices x along axes: first, first + step, .. before `last`, all lists that count from 0.
function Graph:slice(x, axes, first, last, step)
  return self.Slice(x, self:size_list(first), self:size_list(last), self:ints(axes), step and self:ints(step) or false)
end

function Graph:flip(x, axes)
  local function all(value) return util.map(axes, function() return value end) end
  return #axes > 0 and self:slice(x, axes, all(-1), all(-2 ^ 31), all(-1)) or x
end

--- Permutes the dimensions, which count from 0.
function Graph:transpose(x, order) return self.Transpose(x, {perm = order}) end
--- Swaps two axes; the rank is needed only if the shape is unknown.
function Graph:swap(x, i, j, rank)
  local order = Graph.axes_from(0, rank or #x.shape)
  order[i + 1], order[j + 1] = j, i
  return self:transpose(x, order)
end
function Graph:squeeze(x, axes) return self.Squeeze(x, self:ints(axes)) end
function Graph:unsqueeze(x, axes) return self.Unsqueeze(x, self:ints(axes)) end
function Graph:concat(list, axis) return self:node('Concat', list, {axis = axis}, nil, 1) end

function Graph:norm(x, p, axes, keep)
  if p == 2 then return self.ReduceL2(x, axes, keep) end
  if p == 1 then return self.ReduceL1(x, axes, keep) end
  if p == math.huge then return self.ReduceMax(self.Abs(x), axes, keep) end
  if p == -math.huge then return self.ReduceMin(self.Abs(x), axes, keep) end
  if p == 0 then return self.ReduceSum(self:cast(self:cast(x, 'bool'), x.dtype), axes, keep) end
  return self.ReduceSum(self.Abs(x) ^ p, axes, keep) ^ (1 / p)
end
--- Returns log(1 + x), accurate for small x (Kahan).
function Graph:log1p(x)
  local u = x + 1
  local gap = u - 1
  local exact = self.Where(self.Equal(gap, x), self.Log(u), self.Log(u) * (x / gap)) -- gap == x also if both are inf
  return self.Where(self.Equal(gap, 0), x, exact)
end
--- Returns log(1 + exp(x)); onnxruntime has the operator only in float32.
function Graph:softplus(x)
  if x.dtype ~= 'float64' then return self.Softplus(x) end
  return self.Max(x, 0) + self:log1p(self.Exp(-self.Abs(x)))
end
--- Returns 1 where the index of a new dimension is the position, else 0.
function Graph:one_hot(places, depth, axis, dtype)
  local known = (dtype == 'int64' or dtype == 'float32') and dtype or 'float32' -- onnxruntime supports these
  local y = self.OneHot(self:cast(places, 'int64'), self:cast(depth, 'int64'),
    self:constant(mt.tensor({0, 1}, known)), {axis = axis, dtype = known})
  return self:cast(y, dtype)
end

--- Returns the flat indices of x's elements from 0, as int64 in the shape of x.
function Graph:numbered(x)
  local count = Size.product(x.shape)
  local flat = Size.is(count) and self:arange(self.Size(x)) or
    self:constant(mt.range(1, count, {dtype = 'int64'}) - 1)
  return self:reshape(flat, x.shape)
end

--- Returns base with `value`, broadcast to the shape of `places`, written at `places`, which are flat indices of base;
--- with `reduce` ('add') it is added to the old elements.
function Graph:write_places(base, places, value, reduce)
  local spread = self:flat(self.Expand(self:cast(value, base.dtype), self.Shape(places)))
  local flat = self.ScatterElements(self:flat(base), self:flat(places), spread, {axis = 0, reduction = reduce})
  return self:reshape(flat, base.shape)
end

--- Creates an empty graph; g has methods in lower case, and ONNX's operators by name.
function Graph.new(opset)
  return setmetatable({opset = opset, taken = {}, constants = {}, nodes = {}, nodes_by_key = {}, initializers = {},
    sizes = {}, uses = {}, known_sizes = {}, size_names = {}}, {__index = function(self, key)
      local method = Graph[key]
      if method ~= nil or not key:find('^%u') then return method end
      local made = operator(self, key)
      rawset(self, key, made)
      return made
    end})
end

return Graph
