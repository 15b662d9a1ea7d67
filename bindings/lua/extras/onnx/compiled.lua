-- compiled.lua -- functions of mt.map, mt.zip and mt.reduce, operation by operation
local extend = require('mtorch').extend
local Graph = require 'mtorch.extras.onnx.graph'
local formula = require 'mtorch.extras.onnx.formula'

--- run(program, name, numbers, tensors..)
local function run(g, a, call)
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
local function reduce_pairs(g, a)
  local x, axis = a[3], a[4] - 1
  local n = x.shape[a[4]]
  if type(a[1]) == 'function' then
    extend.fail('onnx.export: mt.reduce of a function that is not compiled has no ONNX form')
  end
  while n > 1 do
    local even = n - n % 2
    local left, right = g:slice(x, {axis}, {0}, {even}, {2}), g:slice(x, {axis}, {1}, {even}, {2})
    local y = formula.evaluate(g, a[1], {left, right}, a[2], x.dtype)[1]
    x, n = n > even and g:concat({y, g:slice(x, {axis}, {even}, {n})}, axis) or y, math.ceil(n / 2)
  end
  return x
end

return {run = run, reduce_pairs = reduce_pairs}
