-- shape.lua -- tensors that are made, and operations that move elements, as ONNX operators
local core = require 'mtorch.core'
local mt = require 'mtorch'
local Graph = require 'mtorch.onnx.graph'
local Size = require 'mtorch.onnx.size'

local entries = {}

--- Entries for several names.
local function define(names, f)
  for name in names:gmatch('%S+') do entries[name] = f end
end
local function result_shape(call) return call.results[1].shape end
--- A dimension of Lua's as an axis from 0.
local function axis_of(dim, rank) return dim > 0 and dim - 1 or dim + rank end

-- ---- copies and dtypes (the result's dtype is given by what calls the entry) ---------------------------------

define([[clone contiguous detach to type_as float double long int byte short char bool cpu half bfloat16 pin_memory
  custom_function]], function(_, a) return a.x end)
entries.copy = function(g, a) return g:expand(a.source, a.x.shape) end
entries.fill = function(g, a, call)
  return g:expand(g:cast(g:scalar(a.value, a.x.dtype), call.results[1].dtype), a.x.shape)
end
entries.zero = function(g, a, call) return g:expand(g:number(0, call.results[1].dtype), a.x.shape) end

-- ---- new tensors -----------------------------------------------------------------------------------------

local function filled(value)
  return function(g, a, call)
    local x = value
    if x == nil then x = a.value end
    return g:expand(g:scalar(x, call.results[1].dtype), result_shape(call))
  end
end
define('zeros zeros_like new_zeros empty empty_like new_empty', filled(0))
define('ones ones_like new_ones', filled(1))
define('full full_like new_full', filled(nil))

--- first, first + step .. of n numbers, n a size.
local function counted(g, n, dtype)
  local list = g.Range(g:number(0, 'int64'), g:scalar(n, 'int64'), g:number(1, 'int64'))
  return g:cast(list, dtype)
end
entries.range = function(g, a, call)
  local y = counted(g, result_shape(call)[1], call.results[1].dtype)
  if a.step ~= 1 then y = y * g:scalar(a.step, y.dtype) end
  return y + g:scalar(a.first, y.dtype)
end
entries.eye = function(g, _, call)
  local shape = result_shape(call)
  local rows, columns = counted(g, shape[1], 'int64'), counted(g, shape[2], 'int64')
  return g:cast(g.Equal(g:unsqueeze(rows, {1}), g:unsqueeze(columns, {0})), call.results[1].dtype)
end
entries.tensor = function(g, a, call)
  local data = a.data
  if Graph.is_handle(data) then return data end
  if Size.is(data) then return g:scalar(data, call.results[1].dtype) end
  for _, x in ipairs(data) do
    if type(x) == 'table' and not Size.is(x) then
      core.fail('onnx.export: a tensor of nested lists changes with the dynamic axes')
    end
  end
  return g:size_list(data)
end

-- ---- other shapes ------------------------------------------------------------------------------------------

define('view reshape view_as reshape_as flatten unflatten ravel atleast_1d atleast_2d atleast_3d', function(g, a, call)
  return g:reshape(a.x, result_shape(call))
end)
entries.squeeze = function(g, a, call)
  local rank, axes = #a.x.shape, {}
  local dims = a.dim
  if dims == nil then
    if #result_shape(call) == rank then return a.x end
    for i, size in ipairs(a.x.shape) do
      if size == 1 then axes[#axes + 1] = i - 1 end
    end
  else
    for _, dim in ipairs(type(dims) == 'table' and dims or {dims}) do
      local axis = axis_of(dim, rank)
      if a.x.shape[axis + 1] == 1 then axes[#axes + 1] = axis end
    end
  end
  return #axes > 0 and g:squeeze(a.x, axes) or a.x
end
entries.unsqueeze = function(g, a, call)
  local axes = {}
  for i, dim in ipairs(type(a.dim) == 'table' and a.dim or {a.dim}) do axes[i] = axis_of(dim, #result_shape(call)) end
  return g:unsqueeze(a.x, axes)
end
define('expand broadcast_to expand_as', function(g, a, call) return g:expand(a.x, result_shape(call)) end)
define('broadcast_tensors meshgrid', function(g, a, call)
  local list, made = type(a[1]) == 'table' and not Graph.is_handle(a[1]) and a[1] or a, {}
  local grid = call.op == 'meshgrid'
  local options = grid and (list.indexing or (type(a[#a]) == 'table' and a[#a].indexing) or a[#a])
  for k, result in ipairs(call.results) do
    local x, shape = list[k], result.shape
    if grid then
      local along = {}
      for i = 1, #shape do along[i] = 1 end
      local place = options == 'xy' and k <= 2 and 3 - k or k
      along[place] = shape[place]
      x = g:reshape(x, along)
    end
    made[k] = g:expand(x, shape)
  end
  return unpack(made)
end)

-- ---- order of dimensions ---------------------------------------------------------------------------------

local function swapped(g, x, i, j)
  local order = {}
  for k = 1, #x.shape do order[k] = k - 1 end
  order[i + 1], order[j + 1] = j, i
  return g:transpose(x, order)
end
define('transpose swapaxes swapdims', function(g, a)
  local rank = #a.x.shape
  return swapped(g, a.x, axis_of(a.dim1, rank), axis_of(a.dim2, rank))
end)
define('t T', function(g, a) return #a.x.shape == 2 and g:transpose(a.x, {1, 0}) or a.x end)
entries.mT = function(g, a) return swapped(g, a.x, #a.x.shape - 2, #a.x.shape - 1) end
entries.permute = function(g, a)
  local order = {}
  for i, dim in ipairs(a.dims) do order[i] = axis_of(dim, #a.x.shape) end
  return g:transpose(a.x, order)
end
entries.movedim = function(g, a)
  local rank = #a.x.shape
  local function list(dims)
    local out = {}
    for i, d in ipairs(type(dims) == 'table' and dims or {dims}) do out[i] = axis_of(d, rank) end
    return out
  end
  local from, to, order, taken, rest = list(a.source), list(a.destination), {}, {}, 1
  for i, place in ipairs(to) do order[place + 1], taken[from[i]] = from[i], true end
  for axis = 0, rank - 1 do
    if not taken[axis] then
      while order[rest] do rest = rest + 1 end
      order[rest] = axis
    end
  end
  return g:transpose(a.x, order)
end

-- ---- joining and cutting -----------------------------------------------------------------------------------

local function joined(g, list, axis, call)
  local parts = {}
  for i, x in ipairs(list) do parts[i] = g:cast(x, call.results[1].dtype) end
  parts[#parts + 1] = {axis = axis}
  return g.Concat(unpack(parts))
end
define('cat concat concatenate', function(g, a, call)
  local list = {}
  for _, x in ipairs(a.tensors) do
    if not (#x.shape == 1 and x.shape[1] == 0 and #result_shape(call) > 1) then list[#list + 1] = x end
  end
  return joined(g, list, axis_of(a.dim, #result_shape(call)), call)
end)
entries.stack = function(g, a, call)
  local list, axis = {}, axis_of(a.dim, #result_shape(call))
  for i, x in ipairs(a.tensors) do list[i] = g:unsqueeze(x, {axis}) end
  return joined(g, list, axis, call)
end
--- The operands, reshaped, along an axis.
local function stacked(axis_for, shape_for)
  return function(g, a, call)
    local list = {}
    for i, x in ipairs(a.tensors) do list[i] = g:reshape(x, shape_for(x.shape)) end
    return joined(g, list, axis_for(#result_shape(call)), call)
  end
end
local function rows(shape) return #shape == 0 and {1, 1} or #shape == 1 and {1, shape[1]} or shape end
entries.vstack = stacked(function() return 0 end, rows)
entries.hstack = stacked(function(rank) return rank == 1 and 0 or 1 end, function(s) return #s == 0 and {1} or s end)
entries.column_stack = stacked(function() return 1 end,
  function(shape) return #shape < 2 and {shape[1] or 1, 1} or shape end)
entries.dstack = stacked(function() return 2 end, function(shape)
  shape = rows(shape)
  return #shape == 2 and {shape[1], shape[2], 1} or shape
end)

--- Matrices along a diagonal.
entries.block_diag = function(g, a, call)
  local list, shape, parts, before = type(a[1]) == 'table' and not Graph.is_handle(a[1]) and a[1] or a,
    result_shape(call), {}, 0
  for i, x in ipairs(list) do
    local m = rows(x.shape)
    local after = shape[2] - before - m[2]
    local block = g:reshape(g:cast(x, call.results[1].dtype), m)
    parts[i] = g.Pad(block, g:size_list{0, before, 0, after}, {mode = 'constant'})
    before = before + m[2]
  end
  parts[#parts + 1] = {axis = 0}
  return g.Concat(unpack(parts))
end
entries.cartesian_prod = function(g, a, call)
  local list, parts, shape = type(a[1]) == 'table' and not Graph.is_handle(a[1]) and a[1] or a, {}, {}
  for i, x in ipairs(list) do shape[i] = x.shape[1] end
  for i, x in ipairs(list) do
    local along = {}
    for k = 1, #list do along[k] = k == i and shape[k] or 1 end
    parts[i] = g:reshape(g:expand(g:reshape(x, along), shape), {result_shape(call)[1], 1})
  end
  if #parts == 1 then return list[1] end
  parts[#parts + 1] = {axis = 1}
  return g.Concat(unpack(parts))
end

--- Which elements go together is found by the operation on their positions.
entries.combinations = function(g, a)
  local n = a.x.shape[1]
  if Size.is(n) then core.fail('onnx.export: combinations of a dynamic axis have no ONNX form') end
  local places = mt.combinations(mt.range(1, n, {dtype = 'int64'}), a.r, a.with_replacement)
  return g.Gather(a.x, g:constant(places - 1), {axis = 0})
end

--- x in parts along an axis, as large as the results, that begin one behind the other or at listed positions.
local function parted(g, x, axis, call, begins)
  local first, made = 0, {}
  for k, result in ipairs(call.results) do
    local size = result.shape[axis + 1]
    if k > 1 and type(begins) == 'table' and not Size.is(begins) then
      first = begins[k - 1] > 0 and begins[k - 1] - 1 or begins[k - 1] + x.shape[axis + 1]
    end
    made[k] = g:slice(x, {axis}, {first}, {first + size})
    first = first + size
  end
  return unpack(made)
end
define('split split_with_sizes tensor_split chunk', function(g, a, call)
  return parted(g, a.x, axis_of(a.dim, #a.x.shape), call, a.parts)
end)
entries.hsplit = function(g, a, call) return parted(g, a.x, #a.x.shape == 1 and 0 or 1, call, a.parts) end
entries.vsplit = function(g, a, call) return parted(g, a.x, 0, call, a.parts) end
entries.dsplit = function(g, a, call) return parted(g, a.x, 2, call, a.parts) end
entries.unbind = function(g, a, call)
  local made = {}
  for k in ipairs(call.results) do
    made[k] = g.Gather(a.x, g:number(k - 1, 'int64'), {axis = axis_of(a.dim, #a.x.shape)})
  end
  return unpack(made)
end

-- ---- repeated, turned, masked ------------------------------------------------------------------------------

define('tile repeat', function(g, a, call)
  local rank, repeats = #result_shape(call), {}
  local given = type(a.repeats) == 'table' and not Size.is(a.repeats) and a.repeats or {a.repeats}
  local shape = {}
  for i = 1, rank do
    repeats[i] = given[i - rank + #given] or 1
    shape[i] = a.x.shape[i - rank + #a.x.shape] or 1
  end
  return g.Tile(#a.x.shape == rank and a.x or g:reshape(a.x, shape), g:size_list(repeats))
end)
entries.repeat_interleave = function(g, a, call)
  if Graph.is_handle(a.repeats) then
    core.fail('onnx.export: repeat_interleave with a tensor of repeats has a size that depends on the data')
  end
  local x, shape = a.x, {}
  local axis = a.dim and axis_of(a.dim, #x.shape) or 0
  if type(a.repeats) == 'table' and #a.repeats == 1 then a.repeats = a.repeats[1] end
  if type(a.repeats) == 'table' and not Size.is(a.repeats) then
    local places = {}
    for i, times in ipairs(a.repeats) do
      for _ = 1, times do places[#places + 1] = i - 1 end
    end
    return g.Gather(a.dim and x or g.Reshape(x, g:ints{-1}), g:ints(places), {axis = axis})
  end
  if not a.dim then
    x = g.Reshape(x, g:ints{-1})
    x.shape = {result_shape(call)[1] / a.repeats}
  end
  for i, size in ipairs(x.shape) do
    shape[#shape + 1] = size
    if i == axis + 1 then shape[#shape + 1] = a.repeats end
  end
  return g:reshape(g:expand(g:unsqueeze(x, {axis + 1}), shape), result_shape(call))
end

local function flipped(g, x, axes)
  if #x.shape == 0 then return x end
  local first, last, step = {}, {}, {}
  for i in ipairs(axes) do first[i], last[i], step[i] = -1, -2 ^ 31, -1 end
  local y = g:slice(x, axes, first, last, step)
  y.shape = x.shape
  return y
end
entries.flip = function(g, a)
  local axes = {}
  for i, dim in ipairs(type(a.dims) == 'table' and a.dims or {a.dims}) do axes[i] = axis_of(dim, #a.x.shape) end
  return flipped(g, a.x, axes)
end
entries.fliplr = function(g, a) return flipped(g, a.x, {1}) end
entries.flipud = function(g, a) return flipped(g, a.x, {0}) end
entries.rot90 = function(g, a)
  local rank, dims, k = #a.x.shape, a.dims or {1, 2}, a.k % 4
  local i, j = axis_of(dims[1], rank), axis_of(dims[2], rank)
  if k == 0 then return a.x end
  if k == 2 then return flipped(g, a.x, {i, j}) end
  if k == 1 then return swapped(g, flipped(g, a.x, {j}), i, j) end
  return flipped(g, swapped(g, a.x, i, j), {j})
end
entries.roll = function(g, a, call)
  local x, rank = a.x, #a.x.shape
  local shifts = type(a.shifts) == 'table' and a.shifts or {a.shifts}
  local dims = a.dims and (type(a.dims) == 'table' and a.dims or {a.dims})
  if not dims then x = g.Reshape(x, g:ints{-1}) end
  for k, shift in ipairs(shifts) do
    local axis = dims and axis_of(dims[k], rank) or 0
    local size = dims and a.x.shape[axis + 1]
    local by = size and not Size.is(size) and shift % math.max(size, 1) or shift
    if by ~= 0 then
      x = g.Concat(g:slice(x, {axis}, {-by}, {2 ^ 31}), g:slice(x, {axis}, {0}, {-by}), {axis = axis})
    end
  end
  return dims and x or g:reshape(x, result_shape(call))
end
for name, upper in pairs{tril = 0, triu = 1} do
  entries[name] = function(g, a)
    local x = a.x
    if g.opset >= 14 and (x.dtype:find 'float' or x.dtype == 'int64') then
      return g.Trilu(x, g:scalar(a.diagonal, 'int64'), {upper = upper})
    end
    local rank = #x.shape
    local i, j = counted(g, x.shape[rank - 1], 'int64'), counted(g, x.shape[rank], 'int64')
    local gap = g:unsqueeze(j, {0}) - g:unsqueeze(i, {1})
    local kept = upper == 1 and g.GreaterOrEqual(gap, a.diagonal) or g.LessOrEqual(gap, a.diagonal)
    return x.dtype == 'bool' and g.And(x, kept) or g.Where(kept, x, g:number(0, x.dtype))
  end
end

--- The elements of two dimensions that lie on a diagonal, as the last dimension.
local function diagonal(g, x, offset, i, j)
  local rank, order = #x.shape, {}
  for axis = 0, rank - 1 do
    if axis ~= i and axis ~= j then order[#order + 1] = axis end
  end
  order[rank - 1], order[rank] = i, j
  local m, n = x.shape[i + 1], x.shape[j + 1]
  if Size.is(m) or Size.is(n) then
    core.fail('onnx.export: diagonal of dimensions whose sizes follow the dynamic axes has no ONNX form')
  end
  local shape = {}
  for k = 1, rank - 2 do shape[k] = x.shape[order[k] + 1] end
  shape[#shape + 1] = m * n
  local places = {}
  local length = math.max(math.min(m - math.max(-offset, 0), n - math.max(offset, 0)), 0)
  for k = 0, length - 1 do places[k + 1] = (k + math.max(-offset, 0)) * n + k + math.max(offset, 0) end
  return g.Gather(g:reshape(g:transpose(x, order), shape), g:ints(places), {axis = rank - 2})
end
--- The last dimension of x on a diagonal of two new last dimensions.
local function embedded(g, x, offset)
  local n = x.shape[#x.shape]
  local size = n + math.abs(offset)
  local places, on = mt.ones({size, size}, 'int64'), mt.zeros(size, size)
  for k = 1, n do
    local i, j = k + math.max(-offset, 0), k + math.max(offset, 0)
    places[{i, j}], on[{i, j}] = k, 1
  end
  return g.Gather(x, g:constant(places - 1), {axis = #x.shape - 1}) * g:constant(on:to(x.dtype))
end
entries.diagonal = function(g, a)
  local rank = #a.x.shape
  return diagonal(g, a.x, a.offset, axis_of(a.dim1, rank), axis_of(a.dim2, rank))
end
entries.diag = function(g, a)
  if #a.x.shape == 1 then return embedded(g, a.x, a.diagonal) end
  return diagonal(g, a.x, a.diagonal, 0, 1)
end
entries.diag_embed = function(g, a, call)
  local rank = #result_shape(call)
  if axis_of(a.dim1, rank) ~= rank - 2 or axis_of(a.dim2, rank) ~= rank - 1 then
    core.fail('onnx.export: diag_embed is known for the last two dimensions')
  end
  return embedded(g, a.x, a.offset)
end
entries.trace = function(g, a, call)
  return g:reduce('ReduceSum', g:cast(diagonal(g, a.x, 0, 0, 1), call.results[1].dtype), {}, false)
end

-- ---- borders and windows -----------------------------------------------------------------------------------

local modes = {constant = 'constant', reflect = 'reflect', replicate = 'edge'}
entries.pad = function(g, a)
  local rank, x, before, after = #a.x.shape, a.x, {}, {}
  for i = 1, rank do before[i], after[i] = 0, 0 end
  for k = 1, #a.sides, 2 do
    local axis = rank - (k - 1) / 2
    before[axis], after[axis] = a.sides[k], a.sides[k + 1]
  end
  if a.mode == 'circular' then
    for i = 1, rank do
      local parts = {}
      if before[i] > 0 then parts[#parts + 1] = g:slice(x, {i - 1}, {-before[i]}, {2 ^ 31}) end
      parts[#parts + 1] = x
      if after[i] > 0 then parts[#parts + 1] = g:slice(x, {i - 1}, {0}, {after[i]}) end
      if #parts > 1 then x = g.Concat(parts[1], parts[2], parts[3] or {axis = i - 1}, parts[3] and {axis = i - 1}) end
    end
    return x
  end
  for i = 1, rank do before[rank + i] = after[i] end
  return g.Pad(x, g:size_list(before), a.value and g:number(a.value, x.dtype) or false, {mode = modes[a.mode]})
end

--- Windows of x along a dimension, as a new last dimension; of [n x c x h x w] as columns (im2col).
entries.unfold = function(g, a, call)
  if a.input then return require('mtorch.onnx.convolution').im2col(g, a, call) end
  local rank, shape = #a.x.shape, result_shape(call)
  local axis = axis_of(a.dim, rank)
  local n = shape[axis + 1]
  local starts = g:unsqueeze(counted(g, n, 'int64') * a.step, {1})
  local y = g.Gather(a.x, starts + g:unsqueeze(counted(g, a.size, 'int64'), {0}), {axis = axis})
  local order = {}
  for i = 0, rank do
    if i ~= axis + 1 then order[#order + 1] = i end
  end
  order[#order + 1] = axis + 1
  return g:transpose(y, order)
end

return entries
