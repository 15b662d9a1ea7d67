-- indexing.lua -- x[key], gather, scatter and masks as ONNX operators
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local Graph = require 'mtorch.extras.onnx.graph'
local Size = require 'mtorch.extras.onnx.size'

local entries = {}
local is_handle = Graph.is_handle

--- Converts a position in Lua to one from 0; negative ones are unchanged.
local function from_zero(p) return Size.first(p) > 0 and p - 1 or p end
--- Returns the exclusive end of a range that includes `last`, for Slice.
local function exclusive_end(last)
  return Size.first(last) > 0 and last or last == -1 and 2 ^ 31 or last + 1
end

-- ---- x[key] --------------------------------------------------------------------------------------------

--- Parses '1:3, :, -1' to the entries of a table.
local function read_text(text)
  local key = {}
  for part in (text .. ','):gmatch('([^,]*),') do
    part = part:gsub('%s', '')
    local first, last, step = part:match('^(-?%d*):(-?%d*):?(-?%d*)$')
    if part == '...' then key[#key + 1] = mt.ellipsis
    elseif part == 'None' or part == 'newaxis' then key[#key + 1] = mt.newaxis
    elseif first then key[#key + 1] = {tonumber(first) or 1, tonumber(last) or -1, tonumber(step)}
    elseif part ~= '' then key[#key + 1] = tonumber(part) end
  end
  return key
end

--- Returns the entries for the dimensions of x, {kind =, ..}, with the ellipsis expanded.
local function read_key(key, rank)
  if type(key) == 'string' then key = read_text(key) end
  if type(key) ~= 'table' or is_handle(key) or Size.is(key) then key = {key} end
  local taken = 0
  for _, e in ipairs(key) do
    if is_handle(e) and e.dtype == 'bool' then taken = taken + #e.shape
    elseif e ~= mt.newaxis and e ~= mt.ellipsis then taken = taken + 1 end
  end
  local out = {}
  for _, e in ipairs(key) do
    if e == mt.newaxis then out[#out + 1] = {kind = 'new'}
    elseif e == mt.ellipsis then
      for _ = 1, rank - taken do out[#out + 1] = {kind = 'all'} end
    elseif is_handle(e) then out[#out + 1] = {kind = e.dtype == 'bool' and 'mask' or 'positions', at = e}
    elseif type(e) == 'number' or Size.is(e) then out[#out + 1] = {kind = 'number', first = e}
    elseif #e == 0 then out[#out + 1] = {kind = 'all'}
    else out[#out + 1] = {kind = 'range', first = e[1], last = e[2] or e[1], step = e[3]} end
  end
  return out
end

--- Indexes axes of x by tensors of positions; the new dimensions are at the first axis or at the front.
local function index_by_tensors(g, x, rank, axes, tensors)
  if #axes == 1 then return g.Gather(x, tensors[1], {axis = axes[1]}) end
  local adjacent, max_rank, index, sum = true, 0, {}, nil
  local order = util.append({unpack(axes)}, g.other_axes(rank, axes))
  for i = 2, #axes do adjacent = adjacent and axes[i] == axes[i - 1] + 1 end
  for _, t in ipairs(tensors) do
    max_rank = math.max(max_rank, #t.shape)
    sum = sum and sum + t * 0 or t * 0
  end
  for i, t in ipairs(tensors) do index[i] = g:unsqueeze(t + sum, {max_rank}) end
  local y = g.GatherND(g:transpose(x, order), g:concat(index, max_rank))
  if not adjacent or axes[1] == 0 then return y end
  local middle = max_rank + axes[1] -- the new dimensions, which are the first ones, come before it
  local back = util.append(g.axes_from(max_rank, middle), g.axes_from(0, max_rank))
  return g:transpose(y, util.append(back, g.axes_from(middle, max_rank + rank - #axes)))
end

--- Returns the positions from 0 where a mask is true, as a list of 1-d handles.
local function set_positions(g, mask)
  local found, list = g.NonZero(mask):bare(), {}
  for i = 1, #mask.shape do
    list[i] = g.Gather(found, g:cast(i - 1, 'int64'), {axis = 0})
    list[i].shape = {1}
  end
  return list
end

function entries.index(g, a)
  local x, dim = a.x, 0
  local axes, first, last, step, drop, new, advanced = {}, {}, {}, {}, {}, {}, {}
  local key, kept = read_key(a.key, #x.shape), 0 -- kept: dimensions of the result before indexing by tensors
  for _, e in ipairs(key) do
    if e.kind == 'new' then
      new[#new + 1], kept = kept, kept + 1
    elseif e.kind == 'number' or e.kind == 'range' then
      local n = #axes + 1
      axes[n], first[n], last[n], step[n] = dim, from_zero(e.first), exclusive_end(e.last or e.first), e.step or 1
      if e.kind == 'number' then drop[#drop + 1] = dim else kept = kept + 1 end
      dim = dim + 1
    elseif e.kind == 'all' then
      dim, kept = dim + 1, kept + 1
    else
      advanced[#advanced + 1] = {e, kept}
      local taken = e.kind == 'mask' and #e.at.shape or 1
      dim, kept = dim + taken, kept + taken
    end
  end
  if #drop == 1 and #axes == 1 and drop[1] == axes[1] and not Size.is(first[1]) then
    x = g.Gather(x, g:cast(first[1], 'int64'), {axis = axes[1]})
  else
    if #axes > 0 then x = g:slice(x, axes, first, last, step) end
    if #drop > 0 then x = g:squeeze(x, drop) end
  end
  if #new > 0 then x = g:unsqueeze(x, new) end
  if #advanced == 0 then return x end
  local picked, tensors = {}, {}
  for _, each in ipairs(advanced) do
    local e, axis = each[1], each[2]
    local list = e.kind == 'mask' and set_positions(g, e.at) or {g:to_positions(e.at)}
    for i, t in ipairs(list) do
      t.shape = t.shape or e.at.shape
      picked[#picked + 1], tensors[#tensors + 1] = axis + i - 1, t
    end
  end
  return index_by_tensors(g, x, kept + #a.x.shape - dim, picked, tensors)
end

-- ---- parts along a dimension ---------------------------------------------------------------------------

function entries.select(g, a)
  return g.Gather(a.x, g:cast(from_zero(a.index), 'int64'), {axis = a.x:axis(a.dim)})
end
function entries.narrow(g, a)
  local axis = a.x:axis(a.dim)
  local first = from_zero(a.first)
  if not Size.is(first) and first < 0 then first = a.x.shape[axis + 1] + first end
  return g:slice(a.x, {axis}, {first}, {first + a.length})
end
function entries.slice(g, a)
  return g:slice(a.x, {a.x:axis(a.dim)}, {from_zero(a.first)}, {exclusive_end(a.last)}, {a.step})
end

-- ---- gather ----------------------------------------------------------------------------------------------

function entries.index_select(g, a)
  local index = g:to_positions(a.index)
  if #a.index.shape == 0 then index = g:unsqueeze(index, {0}) end
  return g.Gather(a.x, index, {axis = a.x:axis(a.dim)})
end

--- Slices x to the sizes of the index except along the axis, as GatherElements requires.
local function cut_to(g, x, shape, axis)
  local axes, first, last = {}, {}, {}
  for i, size in ipairs(shape) do
    if i ~= axis + 1 and not Size.equal(size, x.shape[i]) then
      axes[#axes + 1], first[#first + 1], last[#last + 1] = i - 1, 0, size
    end
  end
  return #axes > 0 and g:slice(x, axes, first, last) or x
end
function entries.gather(g, a)
  local axis = a.x:axis(a.dim)
  return g.GatherElements(cut_to(g, a.x, a.index.shape, axis), g:to_positions(a.index), {axis = axis})
end
function entries.take(g, a)
  return g.Gather(g:flat(a.x), g:to_positions(a.index), {axis = 0})
end
function entries.take_along_dim(g, a, call)
  local index, x = g:to_positions(a.index), a.x
  if not a.dim then return g.Gather(g:flat(x), g:flat(index), {axis = 0}) end
  local axis, shape, index_shape = x:axis(a.dim), {}, {}
  for i, size in ipairs(call.shape) do
    shape[i], index_shape[i] = i == axis + 1 and x.shape[i] or size, size
  end
  return g.GatherElements(g:expand(x, shape), g:expand(index, index_shape), {axis = axis})
end

-- ---- scatter ---------------------------------------------------------------------------------------------

local reductions = {add = 'add', sum = 'add', multiply = 'mul', prod = 'mul', amax = 'max', amin = 'min'}

--- Writes src to x at index along an axis; from opset 16 (max and min 18) it can also reduce with the old elements.
local function scatter(g, a, src, reduce)
  local x, index = a.x, g:to_positions(a.index)
  local axis = x:axis(a.dim)
  if is_handle(src) and #src.shape > 0 then
    local axes = g.axes_from(0, #a.index.shape)
    src = g:slice(src, axes, util.map(axes, function() return 0 end), a.index.shape)
  else src = g:expand(g:cast(src, x.dtype), a.index.shape) end
  local needed = reduce and ((reduce == 'max' or reduce == 'min') and 18 or 16) or 13
  if g.opset < needed then extend.fail('onnx.export: scatter that joins by %s needs {opset=%d}', reduce, needed) end
  return g.ScatterElements(x, index, g:cast(src, x.dtype), {axis = axis, reduction = reduce})
end
function entries.scatter(g, a) return scatter(g, a, a.src, a.reduce and reductions[a.reduce]) end
function entries.scatter_add(g, a) return scatter(g, a, a.src, 'add') end
function entries.scatter_reduce(g, a)
  extend.check(a.reduce ~= 'mean' and a.include_self,
    'onnx.export: scatter_reduce is known with include_self and sum, prod, amax, amin')
  return scatter(g, a, a.src, reductions[a.reduce])
end

--- Writes slices of x at positions along a dimension; the index is expanded to the shape of the source.
local function scatter_slices(g, a, source, reduce)
  local axis, n = a.x:axis(a.dim), a.index.shape[1]
  local shape = util.map(a.x.shape, function(size, i) return i == axis + 1 and n or size end)
  local index = util.map(shape, function(_, i) return i == axis + 1 and n or 1 end)
  index = g:reshape(g:to_positions(a.index), index)
  source = g:expand(g:cast(source, a.x.dtype), shape)
  if reduce and g.opset < 16 then extend.fail('onnx.export: index_add needs {opset=16}') end
  return g.ScatterElements(a.x, g:expand(index, shape), source, {axis = axis, reduction = reduce})
end
function entries.index_add(g, a)
  return scatter_slices(g, a, a.alpha ~= 1 and a.source * a.alpha or a.source, 'add')
end
function entries.index_copy(g, a) return scatter_slices(g, a, a.source) end
function entries.index_fill(g, a) return scatter_slices(g, a, a.value) end

--- Returns a.x with `value` written to a part; the entry `part` is applied to the flat indices to find it.
local function write_part(g, a, part, value, reduce)
  local base = a.x
  a.x = g:numbered(base)
  return g:write_places(base, (part(g, a)), value, reduce)
end
function entries.index_put(g, a)
  a.key = a.indices
  return write_part(g, a, entries.index, a.values, a.accumulate and 'add' or nil)
end
function entries.assign(g, a)
  local mask, value = a.key, g:cast(a.value, a.x.dtype)
  if type(mask) == 'table' and not is_handle(mask) and #mask == 1 then mask = mask[1] end
  if is_handle(mask) and mask.dtype == 'bool' and value.shape and #value.shape == 0 then
    local axes = g.axes_from(#mask.shape, #a.x.shape)
    return g.Where(#axes > 0 and g:unsqueeze(mask, axes) or mask, value, a.x)
  end
  return write_part(g, a, entries.index, value)
end
function entries.masked_scatter(g, a)
  local mask = g:flat(g:expand(a.mask, a.x.shape))
  local place = g.CumSum(g:cast(mask, 'int64'), g:cast(0, 'int64')) - 1
  local source = g.Gather(g:flat(a.source), g.Max(place, 0), {axis = 0})
  return g:reshape(g.Where(mask, source, g:flat(a.x)), a.x.shape)
end

-- ---- masks -----------------------------------------------------------------------------------------------

function entries.masked_fill(g, a) return g.Where(a.mask, g:cast(a.value, a.x.dtype), a.x) end
function entries.masked_select(g, a)
  local shape = #a.x.shape >= #a.mask.shape and a.x.shape or a.mask.shape
  return g.Compress(g:flat(g:expand(a.x, shape)), g:flat(g:expand(a.mask, shape)), {axis = 0})
end
function entries.nonzero(g, a)
  if a.as_tuple then extend.fail('onnx.export: nonzero is known without as_tuple') end
  return g:transpose(g.NonZero(g:cast(a.x, 'bool')), {1, 0})
end
entries.argwhere = entries.nonzero

--- Returns the number of elements of a sorted sequence before each value, a position from 0.
local function searched(g, sequence, values, right)
  local rank = #values.shape
  local column = g:unsqueeze(values, {rank})
  if #sequence.shape > 1 then sequence = g:unsqueeze(sequence, {#sequence.shape - 1}) end
  local before = right and g.LessOrEqual(sequence, column) or g.Less(sequence, column)
  local y = g.ReduceSum(g:cast(before, 'int64'), {-1})
  y.positions = true
  return y
end
function entries.searchsorted(g, a)
  if a.sorter then extend.fail('onnx.export: searchsorted with a sorter has no ONNX form') end
  local values = is_handle(a.values) and a.values or g:cast(a.values, a.sorted_sequence.dtype)
  return searched(g, a.sorted_sequence, values, a.right or a.side == 'right')
end
function entries.bucketize(g, a) return searched(g, a.boundaries, a.x, a.right) end
function entries.isin(g, a)
  local x, tests = a.elements, a.test_elements
  if not is_handle(x) then x = g:cast(x, tests.dtype) end
  if not is_handle(tests) then tests = g:cast(tests, x.dtype) end
  if x.positions then tests = g:to_positions(tests) end
  x = x:bare()
  if x.dtype:find 'float' then tests = g:cast(tests, x.dtype) else x = g:cast(x, tests.dtype) end
  local same = g.Equal(g:unsqueeze(x, {is_handle(a.elements) and #a.elements.shape or 0}), g:flat(tests))
  local none = g:cast(g.ReduceMin(g:cast(g.Not(same), 'int32'), {-1}), 'bool') -- also without test elements
  return a.invert and none or g.Not(none)
end

return entries
