-- compiled.lua -- what mt.map, mt.zip and mt.reduce compile: each operation of the program as it is alone
local core = require 'mtorch.core'
local native = require('mtorch.compile.trace').native
local Graph = require 'mtorch.onnx.graph'
local Size = require 'mtorch.onnx.size'

local operations
--- {[name] = how many operands} of the elementwise operations.
local function operands_of(name)
  if not operations then
    operations = {}
    for _, each in ipairs(core.operations()) do operations[each.name] = each.inputs end
  end
  return operations[name]
end
local places = {'x', 'y', 'z'}
local named = {where = {'condition', 'x', 'y'}, lerp = {'x', 'y', 'weight'}, prelu = {'x', 'weight'}}

--- One instruction of a program's text, "add %1, %2, alpha=1", by the entries of elementwise operations.
local function instruction(g, entries, text, values, dtype)
  local name, rest = text:match('^([%w_]+) ?(.*)$')
  local entry = operands_of(name) and entries[name]
  if not entry then core.fail('onnx.export: no ONNX form of %s, in a compiled function, is known', name) end
  local a, k, bools = {alpha = 1, decimals = 0}, 0, name == 'where'
  for operand in rest:gmatch('%%(%d+)') do
    k = k + 1
    local x = values[tonumber(operand)]
    a[(named[name] or places)[k]] = x
    if k > 1 then bools = bools and (type(x) == 'boolean' or Graph.is_handle(x) and x.dtype == 'bool') end
  end
  for key, value in rest:gmatch('([%w_]+)=([^,%s]+)') do a[key] = tonumber(value) end
  return (entry(g, a, {op = name, dtype = bools and 'bool' or dtype}))
end

--- run(program, name, numbers, tensors..)
local function run(g, a, call, lowering)
  local entries, values = lowering.entries, {}
  local dtype = call.dtype
  for i = 4, #call.args do
    if Graph.is_handle(a[i]) and a[i].dtype:find 'float' then dtype = a[i].dtype end
  end
  for line in native.text(a[1]):gmatch('[^\n]+') do
    local at, text = line:match('^%%(%d+) = ([^;]*)')
    if not at then
      local results = {}
      for output in line:gmatch('%%(%d+)') do
        local x = values[tonumber(output)]
        if not Graph.is_handle(x) then
          x = g:expand(g:cast(x, type(x) == 'boolean' and 'bool' or dtype), call.shape)
        end
        results[#results + 1] = x
      end
      return unpack(results)
    end
    text = text:gsub('%s+$', '')
    local input, number = text:match('^input (%d+)$'), text:match('^number (%d+)$')
    local x
    if input then x = a[3 + input]
    elseif number then x = a[3][tonumber(number)]
    elseif text == 'true' or text == 'false' then x = text == 'true'
    elseif tonumber(text) then x = tonumber(text)
    else x = instruction(g, entries, text, values, dtype) end
    values[tonumber(at)] = x
  end
end

--- reduce_pairs(program, numbers, x, dim): neighbours along dim joined until one is left.
local function reduce_pairs(g, a, _, lowering)
  local x, axis = a[3], a[4] - 1
  local n = x.shape[a[4]]
  if type(a[1]) == 'function' or Size.is(n) then
    core.fail('onnx.export: mt.reduce of a function that is not compiled, or along a dynamic axis, has no ONNX form')
  end
  while n > 1 do
    local even = n - n % 2
    local left, right = g:slice(x, {axis}, {0}, {even}, {2}), g:slice(x, {axis}, {1}, {even}, {2})
    local args = {a[1], 'reduce', a[2], left, right}
    local y = run(g, args, {args = args, dtype = x.dtype, shape = left.shape}, lowering)
    x, n = n > even and g:concat({y, g:slice(x, {axis}, {even}, {n})}, axis) or y, math.ceil(n / 2)
  end
  return x
end

return {run = run, reduce_pairs = reduce_pairs}
