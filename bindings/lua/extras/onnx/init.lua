-- init.lua -- mt.onnx: export of networks and functions of tensors to ONNX files
local mt = require 'mtorch'
local extend = mt.extend
local axes = require 'mtorch.extras.onnx.axes'
local lower = require('mtorch.extras.onnx.lower').lower
local messages = require 'mtorch.extras.onnx.messages'
local protobuf = require 'mtorch.extras.protobuf'
local record = extend.recorder.record
local Size = require 'mtorch.extras.onnx.size'
local util = extend.util

local onnx = {}

local words = util.word_set
local takes_numbers = words 'item at tolist equal allclose data_address all any'
local launches = words 'grid_launch cuda_launch'
local random = words [[rand randn randint randperm normal rand_like randn_like randint_like bernoulli multinomial
  uniform exponential random alpha_dropout]]

--- Raises an error for calls whose result would become a constant in the file.
local function check(call)
  if random[call.op] and not (call.op == 'alpha_dropout' and call.args[3] ~= true) then
    extend.fail('onnx.export: %s draws random numbers, which the file would repeat; draw them outside and give them ' ..
      'as an input', call.op)
  end
  local drops = call.op:find('^dropout%d?d?$') and call.args[3] ~= false and call.args[2] ~= 0
  if drops or (call.op == 'rrelu' and call.args[4]) then
    extend.fail('onnx.export: %s with training=true draws random numbers; export what is in eval mode', call.op)
  end
  if call.op == 'batch_norm' and call.args[6] == true and call.args[2] then
    extend.fail('onnx.export: batch_norm is in training mode and changes its running statistics; call net:eval() first')
  end
  if call.depends and launches[call.op] then
    extend.fail('onnx.export: a kernel has no ONNX form; write it with operations of tensors')
  end
  local full = not (call.op == 'all' or call.op == 'any') or call.args[2] == nil
  if call.depends and takes_numbers[call.op] and full then
    extend.fail('onnx.export: %s makes Lua values of a tensor that depends on an input; the file would keep those ' ..
      'of this call for every input: calculate with tensors instead', call.op == 'data_address' and 'data' or call.op)
  end
end

local function check_inputs(inputs)
  if mt.is_tensor(inputs) then inputs = {inputs} end
  extend.check(type(inputs) == 'table' and #inputs > 0,
    'onnx.export: inputs must be a tensor or a list of tensors, got %s', extend.describe(inputs))
  for i, x in ipairs(inputs) do
    extend.check(mt.is_tensor(x), 'onnx.export: input %d must be a tensor, got %s', i, extend.describe(x))
  end
  return inputs
end

--- Returns names for `count` inputs or outputs: those given, else 'input', or 'input_1' if there are several.
local function names_of(given, count, word)
  given = given or {}
  extend.check(#given <= count,
    'onnx.export: %d %s_names are given for %d %s%s', #given, word, count, word, count == 1 and '' or 's')
  local names, seen = {}, {}
  for i = 1, count do
    names[i] = given[i] or (count == 1 and word or ('%s_%d'):format(word, i))
    if seen[names[i]] then extend.fail("onnx.export: two %ss have the name '%s'", word, names[i]) end
    seen[names[i]] = true
  end
  return names
end

--- Returns the names of a module's parameters and buffers by identity; for a function those in its upvalues.
local function labels_of(net)
  local labels = {}
  local function add(module, prefix)
    for _, each in ipairs{'named_parameters', 'named_buffers'} do
      for name, tensor in module[each](module) do labels[extend.identity(tensor)] = prefix .. name end
    end
  end
  if extend.is_module(net) then add(net, '') end
  if type(net) ~= 'function' then return labels end
  for _, name, value in util.upvalues(net) do
    if extend.is_module(value) then add(value, name .. '.') end
    if name ~= '' and mt.is_tensor(value) then labels[extend.identity(value)] = name end
  end
  return labels
end

--- Returns the recorded program, with sizes for numbers that depend on the dynamic axes.
local function recorded(net, inputs, found)
  local fn = net
  if extend.is_module(net) then fn = function(...) return net(...) end end
  local labels, names = labels_of(net), util.sorted_keys(found)
  local function attempt(step)
    local programs, points = {record(fn, inputs, labels, check)}, #names > 0 and axes.points(found, step) or {}
    for _, point in ipairs(points) do
      programs[#programs + 1] = record(fn, axes.resized(inputs, found, point), labels, check)
    end
    for seed = 1, axes.picks_by_value(programs[1]) and 2 or 0 do
      programs[#programs + 1] = record(fn, axes.shuffled(inputs, seed), labels, check)
      points[#points + 1] = {}
    end
    axes.merge(programs)
    return {program = programs[1], names = names, points = points}
  end
  local function run_all()
    if #names == 0 then return attempt(1) end
    local message
    for _, step in ipairs{1, 2, 4, 8, 16, 32} do -- a network may accept only multiples of a power of two
      local ok, run = pcall(attempt, step)
      if ok then return run end
      message = message or run
    end
    error(message, 0)
  end
  return extend.is_module(net) and extend.in_eval(net, run_all) or run_all()
end

--- Lowers again if inputs are positions, which the first time determines.
local function lowered(program, opset, names)
  local inputs = util.map(names, function(name) return {name = name} end)
  local graph, outputs = lower(program, opset, inputs)
  local again = false
  for i, uses in pairs(graph.uses) do
    extend.check(not uses.positions or not uses.numbers, "onnx.export: the input '%s' is used both as positions, " ..
      "which count from 0 in the file (%s), and as numbers (%s); give it twice", names[i], uses.positions, uses.numbers)
    if uses.positions then inputs[i].positions, again = true, true end
  end
  if again then graph, outputs = lower(program, opset, inputs) end
  return graph, outputs
end

--- Returns a function that replaces sizes in shapes by the names of axes; other variable sizes get new names.
local function shape_namer(found, run)
  local known, count = {}, 0
  for _, name in ipairs(run.names) do
    local samples = {found[name].size}
    for i, point in ipairs(run.points) do samples[i + 1] = point[name] or found[name].size end
    local size = Size.of(samples)
    known[size.key] = name
  end
  return function(shape, own)
    return util.map(shape, function(size, d)
      if not Size.is(size) then return size end
      if not known[size.key] then
        count = count + 1
        known[size.key] = own and own[d] or 'size_' .. count
      end
      return known[size.key]
    end)
  end
end

--- Renames the outputs, in the nodes that compute them, or by copies if a name is used.
local function name_outputs(graph, outputs, names)
  local rename, made = {}, {}
  for _, node in ipairs(graph.nodes) do
    for _, name in ipairs(node.output) do made[name] = true end
  end
  for i, h in ipairs(outputs) do
    local from = graph:reference(h)
    if not made[from] or rename[from] or (graph.taken[names[i]] and from ~= names[i]) then
      local copy = graph:unique('output_copy')
      table.insert(graph.nodes, {input = {from}, output = {copy}, name = copy, op_type = 'Identity', attribute = {}})
      made[copy] = true
      from = copy
    end
    if graph.taken[names[i]] and from ~= names[i] then
      local moved = graph:unique(names[i])
      rename[names[i]] = rename[names[i]] or moved
    end
    rename[from] = names[i]
  end
  for _, tensor in ipairs(graph.initializers) do tensor.name = rename[tensor.name] or tensor.name end
  for _, node in ipairs(graph.nodes) do
    for _, list in ipairs{node.input, node.output} do
      for k, name in ipairs(list) do list[k] = rename[name] or name end
    end
  end
end

-- The IR version of each opset version.
local formats = {[13] = 7, [14] = 7, [15] = 8, [16] = 8, [17] = 8, [18] = 8, [19] = 9, [20] = 9, [21] = 10, [22] = 10,
  [23] = 11}

local function export(net, inputs, path, input_names, output_names, opset, dynamic_axes)
  extend.check(extend.is_callable(net), 'onnx.export: a module or a function is needed, got %s', extend.describe(net))
  inputs = check_inputs(inputs)
  local names = names_of(input_names, #inputs, 'input')
  extend.check_writable('onnx.export', path)
  local found, output_axes = axes.read(dynamic_axes, inputs, names, output_names)
  local run = recorded(net, inputs, found)
  local program = run.program
  for i = 1, program.returned.n do
    local value = program.returned[i]
    if value ~= nil and not mt.is_tensor(value) and (type(value) ~= 'table' or #value == 0) then
      extend.fail('onnx.export: result %d is %s; results must be tensors or lists of tensors', i,
        extend.describe(value))
    end
  end
  if #program.results == 0 then extend.fail('onnx.export: the call returned no tensor') end
  local outputs_named = names_of(output_names, #program.results, 'output')
  for _, input in ipairs(names) do
    for _, output in ipairs(outputs_named) do
      if input == output then extend.fail("onnx.export: '%s' is the name of an input and of an output", input) end
    end
  end
  local graph, outputs = lowered(program, opset, names)
  name_outputs(graph, outputs, outputs_named)
  local shape_names = shape_namer(found, run)
  local function infos(values, names_of_values, axis_names)
    return util.map(values, function(value, i)
      local name = names_of_values[i]
      return messages.value_info(name, value.dtype, shape_names(value.shape, axis_names[name]))
    end)
  end
  local pieces, size = protobuf.pieces(messages.Model, {
    ir_version = formats[opset], producer_name = 'mtorch', opset_import = {{version = opset}},
    graph = {name = 'main', node = graph.nodes, initializer = graph.initializers,
      input = infos(program.inputs, names, {}), output = infos(program.results, outputs_named, output_axes)}})
  extend.check(size < 2 ^ 31, 'onnx.export: the file would have %.1f GB; a file of this format holds 2', size / 2 ^ 30)
  extend.write_pieces('onnx.export', path, pieces)
end

onnx.export = extend.declare('export(net, inputs, path: string, input_names: strings = nil, ' ..
  'output_names: strings = nil, opset: int >= 13 <= 23 = 17, dynamic_axes: table = nil)',
  'Writes the ONNX file of a module (in eval mode) or of a function of tensors by recording one call with `inputs`, ' ..
  'a tensor or a list. Parameters and buffers have the names of state_dict; results become outputs in their order. ' ..
  "dynamic_axes = {x = {[1] = 'batch'}} (or {x = {1}}) leaves sizes open: then it is called again with other sizes. " ..
  'Positions count from 0 in the file.', export)

return onnx
