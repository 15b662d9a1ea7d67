-- loops.lua -- mt.map of functions whose loops depend on an element: a grid kernel with a thread for each element
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local loops = {}

-- A kernel of floats computes in float32, or float64 if one of its tensors has it, with Lua's numbers. If all tensors
-- are of integers it computes in int64 like their operations, and its results are integers or floats as it turns out.
local rank = setmetatable({float32 = 1, float64 = 2}, {__index = function() return 0 end})
local is_whole = {uint8 = true, int8 = true, int16 = true, int32 = true, int64 = true}

--- Whether this error of a trace is LuaJIT's own about a loop from, to or by a value that is not a number.
function loops.is_bound(message) return message:find "'for' [%a ]+ must be a number$" ~= nil end

--- Raises the error of the kernel's compiler at the function's own line, which is the last position in it.
function loops.refuse(name, err)
  local place, message = tostring(err):match '.*%f[%S](%S+:%d+): (.*)$'
  error(place and ('%s: %s: %s'):format(place, name, message) or err, 0)
end

local max_results = 8

--- A kernel that calls f for each element, receives `count` values from it and writes those of `written` to
--- tensors. `kinds`: 'tensor' or 'number' for each argument; `whole`: its tensors are of integers; `by`: it writes
--- derivatives by these tensors.
local function kernel_of(f, kinds, count, written, whole, by)
  local parameters, arguments, values, writes, tangents = {}, {}, {}, {}, by and {}
  for k = 1, count do values[k] = 'v' .. k end
  for k, value in ipairs(written) do
    parameters[k], writes[k] = 'result' .. k, ('result%d[i] = v%d'):format(k, value)
    if by then tangents[2 * k - 1], tangents[2 * k] = k, #written + by[k] end
  end
  for i, kind in ipairs(kinds) do
    parameters[#written + i] = 'a' .. i
    arguments[i] = kind == 'tensor' and ('a%d[i]'):format(i) or 'a' .. i
  end
  local text = ('local f = ...\nreturn function(%s)\n  local i = grid(1)\n  if i <= #result1 then\n' ..
    '    local %s = f(%s)\n    %s\n  end\nend\n'):format(table.concat(parameters, ', '), table.concat(values, ', '),
    table.concat(arguments, ', '), table.concat(writes, '\n    '))
  return require('mtorch.compile.kernel').make(assert(loadstring(text))(f), false, not whole, tangents)
end
local function all_of(count)
  return util.tabulate(count, function(k) return k end)
end

local function new_kernel(f, kinds, whole)
  local count = max_results + 1 -- the compiler determines the number of results at the first launch
  return {f = f, count = count, whole = whole, is_bool = {}, is_real = {}, gradient_kernels = {},
    kernel = kernel_of(f, kinds, count, all_of(count), whole)}
end

--- The kernels of f: .real and, from its first launch on, .whole.
function loops.kernel(f, kinds) return {real = new_kernel(f, kinds, false)} end

local function call(kernel, results, arguments)
  local flat = util.append(util.map(results, function(y) return y:view(-1) end), arguments)
  kernel[{math.max(math.ceil(flat[1]:numel() / 256), 1), 256}](unpack(flat))
end

--- Launches the kernel over all elements and returns the results. They have the dtype of `options`, or bool, or float64
--- for floats that a kernel of integers computes. A failed launch says which results must have another dtype.
local function launch(name, k, kinds, shape, options, arguments)
  local results = {}
  for r = 1, k.count do
    local dtype = k.is_bool[r] and 'bool' or k.is_real[r] and 'float64' or options.dtype
    results[r] = mt.empty(shape, {dtype = dtype, device = options.device})
  end
  local ok, err = pcall(call, k.kernel, results, arguments)
  if ok then return results end
  k.gradient_kernels = {}
  local count, boolean, real = require('mtorch.compile.kernel').misfit(k.kernel)
  if count and k.count > max_results and count > 0 then
    k.count = count
    k.kernel = kernel_of(k.f, kinds, k.count, all_of(k.count), k.whole)
  elseif boolean and not k.is_bool[boolean] then k.is_bool[boolean] = true
  elseif real and k.whole and not k.is_real[real] then k.is_real[real] = true
  else loops.refuse(name, err) end
  return launch(name, k, kinds, shape, options, arguments)
end

--- Records the results as an operation of these tensors: the derivative kernel computes the derivatives of each
--- number by each tensor of `wanted`, and backward multiplies them by the gradients.
local function recorded(name, k, kinds, results, arguments, tensors, wanted)
  local values, by, tangents, bools = {}, {}, {}, {}
  for r, y in ipairs(results) do
    if k.is_bool[r] then bools[#bools + 1] = y end
    for _, w in ipairs(k.is_bool[r] and {} or wanted) do
      values[#values + 1], by[#by + 1], tangents[#tangents + 1] = r, w, mt.empty_like(y)
    end
  end
  if #values == 0 then return results end
  local key = table.concat(wanted, ' ')
  k.gradient_kernels[key] = k.gradient_kernels[key] or kernel_of(k.f, kinds, k.count, values, false, by)
  local ok, err = pcall(call, k.gradient_kernels[key], tangents, arguments)
  if not ok then loops.refuse(name, err) end
  return {mt.Function{name = name, forward = function(ctx)
    ctx:save_for_backward(unpack(tangents))
    ctx:mark_non_differentiable(unpack(bools))
    return unpack(results)
  end, backward = function(ctx, ...)
    core.check(not mt.is_grad_enabled(),
      '%s: a function with a loop whose end depends on an element has no second derivatives', name)
    local saved, dx = {ctx:saved_tensors()}, {}
    for s, r in ipairs(values) do
      local g = select(r, ...)
      if g then
        local part = (g * saved[s]):view(-1)
        dx[by[s]] = dx[by[s]] and dx[by[s]] + part or part
      end
    end
    return unpack(dx, 1, #tensors)
  end}(unpack(tensors))}
end

--- The dtype of the kernel of these tensors, that of its results, and whether all are of integers.
local function dtypes_of(tensors)
  local promoted, dtype, whole = tensors[1].dtype, tensors[1].dtype, true
  for _, x in ipairs(tensors) do
    if x.dtype ~= promoted then promoted = (mt.empty(0, {dtype = promoted}) + mt.empty(0, {dtype = x.dtype})).dtype end
    if rank[x.dtype] > rank[dtype] then dtype = x.dtype end
    whole = whole and is_whole[x.dtype]
  end
  if whole then return promoted, promoted, true end
  if rank[dtype] == 0 then dtype = mt.get_default_dtype() end
  return dtype, promoted:find 'float' and promoted or dtype, false
end

--- Runs the kernel for these tensors and numbers, in the order of `kinds`, and returns its results.
function loops.run(name, kernels, kinds, tensors, numbers, out)
  local dtype, promoted, whole = dtypes_of(tensors)
  if whole and not kernels.whole then kernels.whole = new_kernel(kernels.real.f, kinds, true) end
  local k = whole and kernels.whole or kernels.real
  local all = util.attempt(name, function() return {mt.broadcast_tensors(unpack(tensors))} end)
  local shape, arguments, flat, wanted, n = all[1].shape, {}, {}, {}, 0
  for i, kind in ipairs(kinds) do
    if kind == 'tensor' then
      local t = #flat + 1
      flat[t] = (whole and all[t] or all[t]:to(dtype)):reshape(-1)
      arguments[i] = flat[t]:detach()
      if flat[t].requires_grad and mt.is_grad_enabled() then wanted[#wanted + 1] = t end
    else
      n = n + 1
      arguments[i] = numbers[n]
    end
  end
  local results = launch(name, k, kinds, shape, {dtype = dtype, device = all[1].device}, arguments)
  if #wanted > 0 then results = recorded(name, k, kinds, results, arguments, flat, wanted) end
  for r, y in ipairs(results) do
    if k.is_real[r] then results[r] = y:to(mt.get_default_dtype())
    elseif not k.is_bool[r] then results[r] = y:to(promoted) end
  end
  if out == nil then return unpack(results) end
  if #results > 1 then core.fail('%s: it has several results; out= takes one', name) end
  local ok, message = pcall(mt.maximum, results[1], results[1], {out = out}) -- a copy, with the checks of operations
  if not ok then core.fail('%s: %s', name, (tostring(message):gsub('^.-maximum: ', ''))) end
  return out
end

return loops
