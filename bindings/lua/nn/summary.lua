-- summary.lua -- net:summary{..}: shapes, parameters, multiply-adds and memory of a network, measured in one call
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'

-- ---- one call with hooks ------------------------------------------------------------------------

--- The tensors in the inputs or results of a module, in order.
local function tensors_in(values, list)
  list = list or {}
  if class.is_packed and class.is_packed(values) then values = values.data end
  if mt.is_tensor(values) then list[#list + 1] = values end
  for i = 1, type(values) == 'table' and not class.is_module(values) and (values.n or #values) or 0 do
    tensors_in(values[i], list)
  end
  return list
end

local function bytes_in(values)
  local sum = 0
  for _, x in ipairs(tensors_in(values)) do sum = sum + x:numel() * x:element_size() end
  return sum
end

--- Multiply-adds of a call: the class's __macs, or those of its own parameters. A matrix or kernel
--- is used once for each position of the result, which has a feature for each of its rows; a
--- vector, as in a normalisation, once for each element.
local function multiply_adds(module, inputs, output)
  local x, y = tensors_in(inputs)[1], tensors_in(output)[1]
  if not y then return 0 end
  if module.__class.__macs then return module.__class.__macs(module, x, y, inputs) end
  local sum, vector = 0, true
  for _, p in ipairs(class.own_parameters(module)) do
    if p:dim() > 1 then
      sum, vector = sum + p:numel() * y:numel() / p:size(1), false
    end
  end
  if vector and mt.is_tensor(module.weight) then sum = y:numel() end
  return sum
end

--- Calls the module once, in evaluation mode without gradients; returns {input, output, macs,
--- calls, bytes} of each module inside.
local function watch(net, inputs)
  local seen, hooks = {}, {}
  for _, module in ipairs(class.Module.modules(net)) do
    hooks[#hooks + 1] = module:register_forward_hook(function(self, given, output)
      local row = seen[self] or {calls = 0, macs = 0, bytes = 0}
      seen[self] = row
      row.input, row.output = row.input or tensors_in(given)[1], row.output or tensors_in(output)[1]
      row.calls, row.macs = row.calls + 1, row.macs + multiply_adds(self, given, output)
      row.bytes = row.bytes + bytes_in(output)
    end)
  end
  local ok, message = pcall(class.in_eval, net, function() return mt.no_grad(net, unpack(inputs, 1, inputs.n)) end)
  for _, hook in ipairs(hooks) do hook:remove() end
  if ok then return seen end
  return nil, message
end

--- Calls watch with the first inputs that the network accepts, each created by a function; also returns them.
local function watch_first(net, attempts)
  local failure
  for _, make in ipairs(attempts) do
    local inputs = make()
    local seen, message = watch(net, inputs)
    if seen then return seen, inputs end
    local shapes = util.map(inputs, function(x) return tostring(x.shape) end)
    failure = failure or ('summary: the network refuses an input of %s: %s'):format(table.concat(shapes, ', '),
      (tostring(message):gsub('^[^%s]+:%d+: ', '')))
  end
  core.fail('%s', failure)
end

-- ---- inputs -------------------------------------------------------------------------------------

--- An input of these sizes: zeros, or the first index if the dtype is an integer.
local function input_of(sizes, dtype, device)
  return util.attempt('summary', dtype:find('float') and mt.zeros or mt.ones, sizes, {dtype = dtype, device = device})
end

--- Functions that create the requested inputs, given as sizes or tensors: for the sizes of one
--- input also with a batch of 1, and, if no dtype is given, also as indices.
local function attempts_of(given, options, net)
  local first = class.Module.parameters(net)[1]
  local device = options.device or first and first.device or nil
  local dtypes = type(options.dtype) == 'table' and options.dtype or {}
  local function dtype(i)
    return dtypes[i] or type(options.dtype) == 'string' and options.dtype or first and first.dtype or
      mt.get_default_dtype()
  end
  if type(given[1]) == 'number' then
    local attempts = {}
    for _, of in ipairs{dtype(1), options.dtype == nil and 'int64' or nil} do
      for _, sizes in ipairs{given, {1, unpack(given)}} do
        attempts[#attempts + 1] = function() return {n = 1, input_of(sizes, of, device)} end
      end
    end
    return attempts
  end
  local inputs = {n = #given}
  for i, one in ipairs(given) do
    core.check(mt.is_tensor(one) or type(one) == 'table',
      'summary: inputs are sizes or tensors, net:summary{64, 1, 28, 28}; got %s', core.describe(one))
    inputs[i] = mt.is_tensor(one) and one or input_of(one, dtype(i), device)
  end
  return {function() return inputs end}
end

-- ---- the table ----------------------------------------------------------------------------------

local function sizes_text(x) return x and tostring(x.shape) or '-' end

local function count_text(n)
  return n < 1e6 and util.thousands(n) or util.in_units('%.2f %s', n, 1e12, 'T', 1e9, 'G', 1e6, 'M')
end
local function bytes_text(n)
  return n < 1024 and ('%d B'):format(n) or util.in_units('%.2f %s', n, 2 ^ 30, 'GiB', 2 ^ 20, 'MiB', 2 ^ 10, 'KiB')
end

--- A row for each module, depth first; `counted` are parameters that a row above has included.
local function rows_of(net, seen, depth)
  local rows, counted = {}, {}
  local function own_parameters(module)
    local n = 0
    for _, _, p, kind in class.fields(module) do
      if kind == 'parameter' and not counted[p] then n, counted[p] = n + p:numel(), true end
    end
    return n
  end
  local listed = {}
  local function visit(module, name, level)
    local again, row = listed[module], seen[module] or {}
    listed[module] = true
    local shown = {name = (name ~= '' and name .. ': ' or '') .. module.__name .. module.__class.extra(module),
      level = level, input = row.input, output = row.output, macs = row.macs or 0, again = again}
    if level <= depth then rows[#rows + 1] = shown end
    shown.parameters = again and 0 or own_parameters(module)
    if again then
      shown.macs = 0
      return shown
    end
    for _, key, child, kind in class.fields(module) do
      if kind == 'module' then
        local below = visit(child, type(key) == 'number' and ('[%d]'):format(key) or key, level + 1)
        shown.below = (shown.below or 0) + below.parameters + (below.below or 0)
        shown.macs = shown.macs + below.macs
      end
    end
    return shown
  end
  visit(net, '', 1)
  return rows
end

local function table_text(rows)
  local lines = {{'Layer', 'Input', 'Output', 'Parameters', 'Multiply-adds'}}
  for i, row in ipairs(rows) do
    local parameters = row.parameters + (row.below or 0)
    lines[i + 1] = {('  '):rep(row.level - 1) .. row.name .. (row.again and ' (again)' or ''), sizes_text(row.input),
      sizes_text(row.output), parameters > 0 and util.thousands(parameters) or '-',
      row.macs > 0 and count_text(row.macs) or '-'}
  end
  return util.aligned(lines, 3)
end

--- The numbers that net:summary returns: of the whole network.
local function totals(net, inputs, seen)
  local all = class.Module.parameters(net)
  local f = {parameters = 0, trainable = 0, macs = 0, input_bytes = bytes_in(inputs), activation_bytes = 0,
    parameter_bytes = bytes_in(all) + bytes_in(class.Module.buffers(net))}
  for _, p in ipairs(all) do
    f.parameters, f.trainable = f.parameters + p:numel(), f.trainable + (p.requires_grad and p:numel() or 0)
  end
  for module, row in pairs(seen) do
    f.macs = f.macs + row.macs
    local whole = true -- otherwise its results are those of the inner modules
    for _, child in ipairs(class.Module.modules(module)) do whole = whole and (child == module or not seen[child]) end
    f.activation_bytes = f.activation_bytes + (whole and row.bytes or 0)
  end
  f.total_bytes = f.input_bytes + f.parameter_bytes + f.activation_bytes
  return f
end

local known = {dtype = 'dtype|strings', device = 'device', depth = 'int >= 1', print = 'bool'}

--- net:summary(..), as declared in describe.lua.
return function(self, ...)
  local given, options = {...}, {}
  local last = given[#given]
  if type(last) == 'table' and not class.is_module(last) and not getmetatable(last) then
    local list = {}
    for key, value in pairs(last) do (type(key) == 'string' and options or list)[key] = value end
    if #given == 1 then given = list elseif next(list) == nil then given[#given] = nil end
  end
  core.check_options('summary', options, known)
  local seen, inputs = {}, nil
  if given[1] ~= nil then seen, inputs = watch_first(self, attempts_of(given, options, self)) end
  local rows, figures = rows_of(self, seen, options.depth or math.huge), totals(self, inputs, seen)
  local out = table_text(rows)
  out[#out + 1] = ('parameters: %s (%s trainable)'):format(util.thousands(figures.parameters),
    util.thousands(figures.trainable))
  if inputs then
    out[#out + 1] = 'multiply-adds: ' .. count_text(figures.macs)
    out[#out + 1] = ('memory: %s (input %s, parameters and buffers %s, results %s)'):format(
      bytes_text(figures.total_bytes), bytes_text(figures.input_bytes), bytes_text(figures.parameter_bytes),
      bytes_text(figures.activation_bytes))
  end
  local text = table.concat(out, '\n')
  if options.print ~= false then print(text) end
  return text, figures
end
