-- axes.lua -- dynamic axes: records a program with other input sizes, and finds the numbers that depend on them
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local Size = require 'mtorch.extras.onnx.size'
local record = extend.recorder
local Value = record.Value

local axes = {}

local function wrong(...) extend.fail('onnx.export: dynamic_axes: ' .. select(1, ...), select(2, ...)) end

--- Converts the user's {x = {[1] = 'batch'}} or {x = {1}} to {batch = {size =, places = {{input, dim}..}}..}. Axes
--- without a name are the same if dimension and size are equal. Also returns the names of outputs' axes.
function axes.read(dynamic_axes, inputs, input_names, output_names)
  local found, named_outputs, index = {}, {}, {}
  for i, name in ipairs(input_names) do index[name] = i end
  for name, list in pairs(dynamic_axes or {}) do
    local i = index[name]
    if type(name) ~= 'string' then
      wrong("dimensions stand under the name of their input, {%s = {1}}, got the key %s", input_names[1],
        extend.describe(name))
    end
    if type(list) ~= 'table' then wrong("'%s' must have a table of dimensions, got %s", name, extend.describe(list)) end
    for key, value in pairs(list) do
      local dim, axis = key, value
      if type(value) == 'number' then dim, axis = value, nil end
      if dim == 0 then wrong("of '%s' has 0; dimensions count from 1, and from -1 at the end", name) end
      if type(dim) ~= 'number' or dim % 1 ~= 0 or (axis ~= nil and type(axis) ~= 'string') then
        wrong("of '%s' must be a list of dimensions, {1}, or {[1] = 'batch'}", name)
      end
      if i then
        local x = inputs[i]
        if math.abs(dim) > x:dim() then wrong("dimension %d of '%s', which has %d", dim, name, x:dim()) end
        if dim < 0 then dim = dim + x:dim() + 1 end
        axis = axis or (dim == 1 and 'batch' or 'axis_' .. dim)
        local known = found[axis]
        if known and known.size ~= x:size(dim) and type(value) == 'number' then
          axis = ('%s_%d'):format(name, dim)
          known = nil
        end
        found[axis] = known or {size = x:size(dim), places = {}}
        if found[axis].size ~= x:size(dim) then
          wrong("'%s' is %d and %d; axes of one name have one size", axis, found[axis].size, x:size(dim))
        end
        table.insert(found[axis].places, {i, dim})
      else
        named_outputs[name] = named_outputs[name] or {}
        if axis then named_outputs[name][dim] = axis end
      end
    end
    local known = i or name:find '^output'
    for _, output in ipairs(output_names or {}) do known = known or output == name end
    if not known then wrong("'%s' is not an input; they are %s", name, table.concat(input_names, ', ')) end
  end
  return found, named_outputs
end

--- Returns the sizes to record with, which differ by multiples of `step`: of each axis alone, then of all at once.
--- They are smaller if positions may be limited.
function axes.points(found, step)
  local points, all = {}, {}
  local function other(size, by) return size > by + 2 and size - by or size + by end
  for k, name in ipairs(util.sorted_keys(found)) do
    points[k] = {[name] = other(found[name].size, step)}
    all[name] = other(found[name].size, (1 + k) * step)
  end
  points[#points + 1] = all
  return points
end

--- Returns the inputs with other sizes, filled with repeated values.
function axes.resized(inputs, found, point)
  local made = {unpack(inputs)}
  for name, size in pairs(point) do
    for _, place in ipairs(found[name].places) do
      local i, dim = place[1], place[2]
      local n = math.max(made[i]:size(dim), 1)
      local index = (mt.range(1, size, {dtype = 'int64'}) - 1) % n + 1
      made[i] = made[i]:index_select(dim, index:to(made[i].device))
    end
  end
  return made
end

--- Returns the inputs permuted and partly negated, so that sizes that depend on values change.
function axes.shuffled(inputs, seed)
  return util.map(inputs, function(x)
    local n = x:numel()
    local k = mt.range(1, n, {dtype = 'int64', device = x.device})
    local y = x:reshape(-1)[(k * (2 * seed + 1) + seed) % math.max(n, 1) + 1]:reshape(x.shape)
    return x.dtype:find 'float' and mt.where((k % (seed + 1)):eq(0):reshape(x.shape), -y, y) or y
  end)
end

-- Operations whose result size depends on values.
local picks = {masked_select = true, nonzero = true, argwhere = true, unique = true, bincount = true}

--- Whether the program has sizes that depend on values of the inputs.
function axes.picks_by_value(program)
  local function is_mask(value) return value.dtype == 'bool' and value.tensor == nil end
  for _, call in ipairs(program.calls) do
    local indexes = call.op == 'index' or call.op == 'assign' or call.op == 'index_put'
    if call.depends and (picks[call.op] or indexes and record.any_value(call.args[2], 2, is_mask)) then return true end
  end
  return false
end

local function differ(call, what)
  extend.fail('onnx.export: with other sizes of the dynamic axes %s at %s %s; leave dynamic_axes out, or write it ' ..
    'so that the operations are the same for all sizes', call.op, call.line or '?', what)
end

--- Whether constants have the same elements.
local function equal(x, y)
  return x:size() == y:size() and mt.allclose(x:double(), y:double(), {rtol = 0, atol = 0, equal_nan = true})
end

--- Whether arguments or results of two programs are the same: inputs, results of the same call, or constants.
local function same(a, b)
  if getmetatable(a) ~= Value then return type(a) == 'function' or type(a) == 'userdata' or rawequal(a, b) end
  if a.call or b.call or a.input or b.input then
    return a.input == b.input and a.index == b.index and (a.call or a).number == (b.call or b).number
  end
  return extend.identity(a.tensor) == extend.identity(b.tensor) or a.dtype == b.dtype and equal(a.tensor, b.tensor)
end

--- Replaces the numbers of an argument of n programs that depend on the axes by sizes.
local function merged(call, args, n)
  local first = args[1]
  local single = type(first) ~= 'table' or getmetatable(first) == Value
  for i = 2, n do
    local fits = type(args[i]) == type(first) and (not single or type(first) == 'number' or same(first, args[i]))
    if not fits then differ(call, 'has other arguments') end
  end
  if type(first) == 'number' then return Size.of(args) end
  if single then return first end
  local out = {}
  for key in pairs(util.merged(unpack(args))) do
    out[key] = merged(call, util.map(args, function(arg) return arg[key] end), n)
  end
  return out
end

local function merge_value(values, call)
  local first, shape = values[1], {}
  for i = 2, #values do
    if #values[i].shape ~= #first.shape then differ(call, 'has a result of another rank') end
  end
  for d = 1, #first.shape do
    shape[d] = Size.of(util.map(values, function(value) return value.shape[d] end))
  end
  first.shape = shape
  for i = 2, #values do
    local other = values[i]
    if first.call and first.tensor and not first.varies and not rawequal(first.tensor, other.tensor) then
      if not (other.tensor and equal(first.tensor, other.tensor)) then first.varies = true end
    end
  end
end

--- Compares several programs of one function, and replaces numbers of the first that depend on the axes by sizes.
function axes.merge(programs)
  local first = programs[1]
  for i = 2, #programs do
    local n = math.min(#first.calls, #programs[i].calls)
    for k = 1, n do
      if first.calls[k].op ~= programs[i].calls[k].op then
        differ(first.calls[k], 'is ' .. programs[i].calls[k].op)
      end
    end
    if #first.calls ~= #programs[i].calls then
      local more = #first.calls > n and first or programs[i]
      differ(more.calls[n + 1], 'is called another number of times')
    end
  end
  for _, program in ipairs(programs) do
    for k, call in ipairs(program.calls) do call.number = k end
    local fits = #program.results == #first.results
    for i, value in ipairs(first.results) do fits = fits and same(value, program.results[i]) end
    extend.check(fits, 'onnx.export: with other sizes of the dynamic axes the function returns other tensors; leave ' ..
      'dynamic_axes out, or return the same for all sizes')
  end
  for k, call in ipairs(first.calls) do
    call.args = merged(call, util.map(programs, function(program) return program.calls[k].args end), #programs)
    for i, parameter in ipairs(call.params) do
      local dims = (parameter.name:find '^dim' or call.op == 'movedim') and call.args[i]
      for _, dim in ipairs(Size.is_list(dims) and dims or {dims}) do
        if Size.is(dim) then differ(call, 'has another ' .. parameter.name) end
      end
    end
    for j in ipairs(call.results) do
      merge_value(util.map(programs, function(program)
        return program.calls[k].results[j] or differ(call, 'has another number of results')
      end), call)
    end
  end
  for j in ipairs(first.inputs) do
    merge_value(util.map(programs, function(program) return program.inputs[j] end))
  end
end

return axes
