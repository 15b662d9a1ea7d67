-- formula.lua -- ONNX nodes of expression programs: of operations by their formulas in kernels/ops.h, and of the
-- functions of mt.map, mt.zip and mt.reduce
local mt = require 'mtorch'
local extend = mt.extend
local Graph = require 'mtorch.extras.onnx.graph'
local map = extend.util.map

local operations = {}
for _, each in ipairs(extend.operations()) do operations[each.name] = each end

local formula = {entries = {}}
-- Types that few operators support, or that round after each node: formulas are computed in another type.
local wider = {bool = 'int32', int8 = 'int32', uint8 = 'int32', int16 = 'int32', float16 = 'float32',
  bfloat16 = 'float32'}

--- Applies an elementwise operation to handles and numbers by its formula; nil if it cannot be traced.
function formula.apply(g, name, operands, parameters, dtype)
  local row = operations[name]
  local program = row and extend.formula(name, parameters)
  if not program then return end
  local calculated = row.answers_bool and Graph.common_dtype(operands[1], operands[2]) or dtype
  if row.accepts == 'real' and not calculated:find 'float' then calculated = 'float32' end
  calculated = wider[calculated] or calculated
  local inputs = map(operands, function(x) return g:cast(x, calculated) end)
  local numbers = map(row.params, function(parameter) return parameters[parameter] end)
  return g:cast(formula.evaluate(g, program, inputs, numbers, calculated, 'the formula of ' .. name)[1], dtype)
end

--- The same for a recorded call with its arguments by name.
function formula.of_call(g, call, a)
  local row, operands = operations[call.op], {}
  for k = 1, row and row.inputs or 0 do operands[k] = a[call.params[k].name] end
  return row and formula.apply(g, call.op, operands, a, call.dtype)
end

local places = {'x', 'y', 'z'}
local named = {where = {'condition', 'x', 'y'}, prelu = {'x', 'weight'}}
--- Adds an instruction of a program, by the operation's entry or by its formula.
local function instruction(g, name, operands, parameters, dtype, within)
  local a, entry = {alpha = 1, decimals = 0}, operations[name] and g.entries[name]
  for key, value in pairs(parameters) do
    if value == value then a[key] = value end -- NaN means not given
  end
  for k, x in ipairs(operands) do a[(named[name] or places)[k]] = x end
  local y = entry and entry(g, a, {op = name, dtype = dtype}) or formula.apply(g, name, operands, a, dtype)
  if not y then extend.fail('onnx.export: no ONNX form of %s, in %s, is known', name, within) end
  return y
end

--- Returns the list of results of a program in the dtype; results that do not depend on its inputs are Lua values.
function formula.evaluate(g, program, inputs, numbers, dtype, within)
  local list, outputs = extend.instructions(program)
  local values = {}
  local function value(place) return values[place] end
  for i, c in ipairs(list) do
    if c.op == 'input' then values[i] = inputs[c.which]
    elseif c.op == 'number' then values[i] = numbers[c.which]
    elseif c.op == 'constant' then values[i] = c.value
    else
      values[i] = instruction(g, c.op, map(c.inputs, value), c.parameters, c.is_bool and 'bool' or dtype,
        within or 'a compiled function')
    end
  end
  return map(outputs, value)
end

--- run(program, name, numbers, tensors..)
function formula.entries.run(g, a, call)
  local dtype, inputs = call.dtype, {}
  for i = 4, #call.args do
    inputs[i - 3] = a[i]
    if Graph.is_handle(a[i]) and a[i].dtype:find 'float' then dtype = a[i].dtype end
  end
  local results = formula.evaluate(g, a[1], inputs, a[3], dtype)
  for k, x in ipairs(results) do
    if not Graph.is_handle(x) then
      results[k] = g:expand(g:cast(x, type(x) == 'boolean' and 'bool' or dtype), call.shape)
    end
  end
  return unpack(results)
end

--- reduce_pairs(program, numbers, x, dim): combines adjacent elements along dim until one remains.
function formula.entries.reduce_pairs(g, a)
  local x, axis = a[3], a[4] - 1
  local n = x.shape[a[4]]
  extend.check(type(a[1]) ~= 'function', 'onnx.export: mt.reduce of a function that is not compiled has no ONNX form')
  while n > 1 do
    local even = n - n % 2
    local left, right = g:slice(x, {axis}, {0}, {even}, {2}), g:slice(x, {axis}, {1}, {even}, {2})
    local y = formula.evaluate(g, a[1], {left, right}, a[2], x.dtype)[1]
    x, n = n > even and g:concat({y, g:slice(x, {axis}, {even}, {n})}, axis) or y, math.ceil(n / 2)
  end
  return x
end

return formula
