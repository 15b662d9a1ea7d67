-- shape.lua -- creation of tensors, and operations that move elements, as ONNX operators
local mt = require 'mtorch'
local extend = mt.extend
local Graph = require 'mtorch.extras.onnx.graph'
local Size = require 'mtorch.extras.onnx.size'

local entries = {}
local filter, map, tabulate = extend.util.filter, extend.util.map, extend.util.tabulate

--- Defines an entry for several names.
local function define(names, f)
  for name in names:gmatch('%S+') do entries[name] = f end
end

-- ---- copies and dtypes (the caller converts to the result's dtype) -------------------------------------------

define('clone contiguous detach to type_as float double long int byte short char bool cpu half bfloat16 pin_memory',
  function(_, a) return a.x end)
function entries.copy(g, a) return g:expand(a.source, a.x.shape) end

-- ---- tensors of one value --------------------------------------------------------------------------------

define('zeros zeros_like new_zeros empty empty_like new_empty zero', function(g, _, call)
  return g:full(call.shape, 0, call.dtype)
end)
define('ones ones_like new_ones', function(g, _, call) return g:full(call.shape, 1, call.dtype) end)
define('full full_like new_full fill', function(g, a, call) return g:full(call.shape, a.value, call.dtype) end)

--- n numbers first, first + step, .., where n may be a size.
function entries.range(g, a, call)
  local y = g:cast(g:arange(call.shape[1]), call.dtype)
  if a.step ~= 1 then y = y * g:cast(a.step, y.dtype) end
  return y + g:cast(a.first, y.dtype)
end
function entries.eye(g, _, call)
  local rows, columns = g:arange(call.shape[1]), g:arange(call.shape[2])
  return g:cast(g.Equal(g:unsqueeze(rows, {1}), g:unsqueeze(columns, {0})), call.dtype)
end
function entries.tensor(g, a, call)
  local data = a.data
  if Graph.is_handle(data) then return data end
  if Size.is(data) then return g:cast(data, call.dtype) end
  return g:size_list(data)
end

-- ---- reshaping ---------------------------------------------------------------------------------------------

define('view reshape view_as reshape_as flatten unflatten ravel atleast_1d atleast_2d atleast_3d', function(g, a, call)
  return g:reshape(a.x, call.shape)
end)
function entries.squeeze(g, a, call)
  local wanted = a.dim == nil and g.axes_from(0, #a.x.shape) or a.x:axes(a.dim)
  local axes = filter(wanted, function(axis) return a.x.shape[axis + 1] == 1 end)
  return #axes > 0 and g:squeeze(a.x, axes) or a.x
end
function entries.unsqueeze(g, a, call) return g:unsqueeze(a.x, Graph.axes(call, a.dim)) end
define('expand broadcast_to expand_as', function(g, a, call) return g:expand(a.x, call.shape) end)
define('broadcast_tensors meshgrid', function(g, a, call)
  local list, made, grid = a.tensors, {}, call.op == 'meshgrid'
  for k, result in ipairs(call.results) do
    local x, shape = list[k], result.shape
    if grid then
      local place = a.indexing == 'xy' and k <= 2 and 3 - k or k
      x = g:reshape(x, tabulate(#shape, function(i) return i == place and shape[i] or 1 end))
    end
    made[k] = g:expand(x, shape)
  end
  return unpack(made)
end)

-- ---- order of dimensions ---------------------------------------------------------------------------------

define('transpose swapaxes swapdims', function(g, a) return g:swap(a.x, a.x:axis(a.dim1), a.x:axis(a.dim2)) end)
define('t T', function(g, a) return #a.x.shape == 2 and g:swap(a.x, 0, 1) or a.x end)
function entries.mT(g, a) return g:swap(a.x, #a.x.shape - 2, #a.x.shape - 1) end
function entries.permute(g, a) return g:transpose(a.x, a.x:axes(a.dims)) end
function entries.movedim(g, a)
  local from, to, order, free = a.x:axes(a.source), a.x:axes(a.destination), {}, 1
  for i, place in ipairs(to) do order[place + 1] = from[i] end
  for _, axis in ipairs(g.other_axes(#a.x.shape, from)) do
    while order[free] do free = free + 1 end
    order[free] = axis
  end
  return g:transpose(a.x, order)
end

-- ---- concatenation and splitting ---------------------------------------------------------------------------

local function joined(g, list, axis, call)
  return g:concat(map(list, function(x) return g:cast(x, call.dtype) end), axis)
end
define('cat concat concatenate', function(g, a, call)
  local list = filter(a.tensors, function(x) return #x.shape ~= 1 or x.shape[1] ~= 0 or #call.shape == 1 end)
  return joined(g, list, g.axis(a.dim, #call.shape), call)
end)
function entries.stack(g, a, call)
  local axis = g.axis(a.dim, #call.shape)
  return joined(g, map(a.tensors, function(x) return g:unsqueeze(x, {axis}) end), axis, call)
end
--- Concatenates the reshaped operands along an axis.
local function stacked(axis_for, shape_for)
  return function(g, a, call)
    local list = map(a.tensors, function(x) return g:reshape(x, shape_for(x.shape)) end)
    return joined(g, list, axis_for(#call.shape), call)
  end
end
local function rows(shape) return #shape == 0 and {1, 1} or #shape == 1 and {1, shape[1]} or shape end
entries.vstack = stacked(function() return 0 end, rows)
entries.hstack = stacked(function(rank) return rank == 1 and 0 or 1 end, function(s) return #s == 0 and {1} or s end)
--- Splits x along an axis into parts of the results' sizes, one after the other or at the positions `begins`.
local function split_parts(g, x, axis, call, begins)
  local first, made = 0, {}
  for k, result in ipairs(call.results) do
    local size = result.shape[axis + 1]
    if k > 1 and Size.is_list(begins) then
      first = begins[k - 1] > 0 and begins[k - 1] - 1 or begins[k - 1] + x.shape[axis + 1]
    end
    made[k] = g:slice(x, {axis}, {first}, {first + size})
    first = first + size
  end
  return unpack(made)
end
define('split split_with_sizes chunk', function(g, a, call)
  return split_parts(g, a.x, a.x:axis(a.dim), call, a.parts)
end)
function entries.unbind(g, a, call)
  return unpack(map(call.results, function(_, k)
    return g.Gather(a.x, g:cast(k - 1, 'int64'), {axis = a.x:axis(a.dim)})
  end))
end

-- ---- repeating, rotating, masking --------------------------------------------------------------------------

define('tile repeat', function(g, a, call)
  local rank, repeats = #call.shape, {}
  local given = Size.is_list(a.repeats) and a.repeats or {a.repeats}
  local shape = {}
  for i = 1, rank do
    repeats[i] = given[i - rank + #given] or 1
    shape[i] = a.x.shape[i - rank + #a.x.shape] or 1
  end
  return g.Tile(#a.x.shape == rank and a.x or g:reshape(a.x, shape), g:size_list(repeats))
end)
function entries.repeat_interleave(g, a, call)
  extend.check(not Graph.is_handle(a.repeats),
    'onnx.export: repeat_interleave with a tensor of repeats has a size that depends on the data')
  local x, shape = a.x, {}
  local axis = a.dim and x:axis(a.dim) or 0
  if type(a.repeats) == 'table' and #a.repeats == 1 then a.repeats = a.repeats[1] end
  if Size.is_list(a.repeats) then
    local places = {}
    for i, times in ipairs(a.repeats) do
      for _ = 1, times do places[#places + 1] = i - 1 end
    end
    return g.Gather(a.dim and x or g:flat(x), g:ints(places), {axis = axis})
  end
  if not a.dim then
    x = g:flat(x)
    x.shape = {call.shape[1] / a.repeats}
  end
  for i, size in ipairs(x.shape) do
    shape[#shape + 1] = size
    if i == axis + 1 then shape[#shape + 1] = a.repeats end
  end
  return g:reshape(g:expand(g:unsqueeze(x, {axis + 1}), shape), call.shape)
end

function entries.flip(g, a) return g:flip(a.x, a.x:axes(a.dims)) end
function entries.fliplr(g, a) return g:flip(a.x, {1}) end
function entries.flipud(g, a) return g:flip(a.x, {0}) end
function entries.roll(g, a, call)
  local x, axes = a.dims and a.x or g:flat(a.x), a.x:axes(a.dims)
  for k, shift in ipairs(Size.is_list(a.shifts) and a.shifts or {a.shifts}) do
    local axis = axes[k] or 0
    local size = a.dims and a.x.shape[axis + 1] or Size.product(a.x.shape)
    local n = Size.is(size) and g.Gather(g.Shape(x), g:ints{axis}, {axis = 0}) or g:ints{size}
    local first = n - g.Mod(g:size_list{shift}, g.Max(n, 1))
    x = g:concat({g.Slice(x, first, n, g:ints{axis}), g.Slice(x, g:ints{0}, first, g:ints{axis})}, axis)
  end
  return a.dims and x or g:reshape(x, call.shape)
end
for name, upper in pairs{tril = 0, triu = 1} do
  entries[name] = function(g, a)
    local x = a.x
    if g.opset >= 14 and (x.dtype:find 'float' or x.dtype == 'int64') then
      return g.Trilu(x, g:cast(a.diagonal, 'int64'), {upper = upper})
    end
    local rank = #x.shape
    local gap = g:unsqueeze(g:arange(x.shape[rank]), {0}) - g:unsqueeze(g:arange(x.shape[rank - 1]), {1})
    local kept = upper == 1 and g.GreaterOrEqual(gap, a.diagonal) or g.LessOrEqual(gap, a.diagonal)
    return x.dtype == 'bool' and g.And(x, kept) or g.Where(kept, x, 0)
  end
end

--- Returns the elements on a diagonal of two dimensions as the last dimension.
local function diagonal(g, x, offset, i, j)
  local rank = #x.shape
  local order = g.other_axes(rank, {i, j})
  order[rank - 1], order[rank] = i, j
  local m, n = x.shape[i + 1], x.shape[j + 1]
  local shape = tabulate(rank - 2, function(k) return x.shape[order[k] + 1] end)
  shape[#shape + 1] = m * n
  local row, column = math.max(-offset, 0), math.max(offset, 0)
  local places = tabulate(math.min(m - row, n - column), function(k) return (k - 1 + row) * n + k - 1 + column end)
  return g.Gather(g:reshape(g:transpose(x, order), shape), g:ints(places), {axis = rank - 2})
end
--- Writes the last dimension of x to a diagonal of two new last dimensions.
local function diagonal_embed(g, x, offset)
  local n = x.shape[#x.shape]
  local size = n + math.abs(offset)
  local places, on = mt.ones({size, size}, 'int64'), mt.zeros({size, size}, 'bool')
  for k = 1, n do
    local i, j = k + math.max(-offset, 0), k + math.max(offset, 0)
    places[{i, j}], on[{i, j}] = k, true
  end
  return g.Where(g:constant(on), g.Gather(x, g:constant(places - 1), {axis = #x.shape - 1}), 0)
end
function entries.diagonal(g, a)
  return diagonal(g, a.x, a.offset, a.x:axis(a.dim1), a.x:axis(a.dim2))
end
function entries.diag(g, a)
  if #a.x.shape == 1 then return diagonal_embed(g, a.x, a.diagonal) end
  return diagonal(g, a.x, a.diagonal, 0, 1)
end
function entries.diag_embed(g, a, call)
  local rank = #call.shape
  extend.check(g.axis(a.dim1, rank) == rank - 2 and g.axis(a.dim2, rank) == rank - 1,
    'onnx.export: diag_embed is known for the last two dimensions')
  return diagonal_embed(g, a.x, a.offset)
end
function entries.trace(g, a, call)
  return g.ReduceSum(g:cast(diagonal(g, a.x, 0, 0, 1), call.dtype))
end

-- ---- padding and windows -----------------------------------------------------------------------------------

local modes = {constant = 'constant', reflect = 'reflect', replicate = 'edge'}
function entries.pad(g, a)
  local rank, x, before, after = #a.x.shape, a.x, {}, {}
  for i = 1, rank do before[i], after[i] = 0, 0 end
  for k = 1, #a.sides, 2 do
    local axis = rank - (k - 1) / 2
    before[axis], after[axis] = a.sides[k], a.sides[k + 1]
  end
  if a.mode == 'circular' then
    for i = 1, rank do
      local parts = {}
      if before[i] < 0 or after[i] < 0 then -- cropped first
        x = g:slice(x, {i - 1}, {math.max(-before[i], 0)}, {after[i] < 0 and after[i] or 2 ^ 31})
      end
      if before[i] > 0 then parts[#parts + 1] = g:slice(x, {i - 1}, {-before[i]}, {2 ^ 31}) end
      parts[#parts + 1] = x
      if after[i] > 0 then parts[#parts + 1] = g:slice(x, {i - 1}, {0}, {after[i]}) end
      if #parts > 1 then x = g:concat(parts, i - 1) end
    end
    return x
  end
  for i = 1, rank do before[rank + i] = after[i] end
  return g.Pad(x, g:size_list(before), a.value and g:cast(a.value, x.dtype) or false, {mode = modes[a.mode]})
end

--- Windows of x along a dimension, in a new last dimension; for [n x c x h x w] columns (im2col).
function entries.unfold(g, a, call)
  if a.input then return require('mtorch.extras.onnx.convolution').im2col(g, a, call) end
  local axis = a.x:axis(a.dim)
  local order = g.other_axes(#a.x.shape + 1, {axis + 1})
  local starts = g:unsqueeze(g:arange(call.shape[axis + 1]) * a.step, {1})
  local y = g.Gather(a.x, starts + g:unsqueeze(g:arange(a.size), {0}), {axis = axis})
  order[#order + 1] = axis + 1
  return g:transpose(y, order)
end

return entries
