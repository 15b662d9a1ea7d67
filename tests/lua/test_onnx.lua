-- test_onnx.lua -- ONNX files: the content, by a small reader; errors; comparison with onnxruntime if it is installed
local t = require 'testing'
local mt = require 'mtorch'
local nn, fields = mt.nn, require('protobuf_fields').fields

local folder = os.tmpname()
os.remove(folder)
assert(os.execute('mkdir ' .. folder) == 0)
local path = folder .. '/net.onnx'

-- ---- a reader of the few fields that the tests look at ---------------------------------------------------------

local function values(list, number)
  local out = {}
  for i, text in ipairs(list or {}) do out[i] = (fields(text)[number] or {''})[1] end
  return out
end

--- Reads a file: {inputs, outputs, initializers (names), ops, nodes = {{op, inputs, outputs}..}, opset}.
local function read(file)
  local model = fields(t.read_file(file))
  local graph = fields(model[7][1])
  local nodes = {}
  for i, text in ipairs(graph[1] or {}) do
    local node = fields(text)
    nodes[i] = {op = node[4][1], inputs = node[1] or {}, outputs = node[2]}
  end
  return {inputs = values(graph[11], 1), outputs = values(graph[12], 1), initializers = values(graph[5], 8),
    ops = values(graph[1], 4), nodes = nodes, opset = fields(model[8][1])[2][1], format = model[1][1],
    dims = function(list, i)
      local shape = fields(fields(fields(fields(graph[list][i])[2][1])[1][1])[2][1])
      local out = {}
      for k, text in ipairs(shape[1] or {}) do
        local dim = fields(text)
        out[k] = dim[1] and dim[1][1] or dim[2][1]
      end
      return out
    end}
end
local function exported(net, inputs, options)
  mt.onnx.export(net, inputs, path, options or {})
  return read(path)
end

-- ---- what is written -------------------------------------------------------------------------------------------

t.test('a network: names of parameters, nodes, sizes', function()
  local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, false))
  net[1].training = true
  local model = exported(net, mt.randn(2, 3))
  t.eq(model.ops, {'Gemm', 'Relu', 'Gemm'})
  t.eq(model.initializers, {'0.weight', '0.bias', '2.weight'})
  t.eq({model.inputs, model.outputs}, {{'input'}, {'output'}})
  t.eq({model.dims(11, 1), model.dims(12, 1)}, {{2, 3}, {2, 2}})
  t.eq({model.opset, model.format}, {17, 8})
  t.eq(net[1].training, true)
end)

t.test('names, dynamic axes and the version are as asked for', function()
  local model = exported(nn.Linear(3, 4), mt.randn(2, 3), {input_names = {'x'}, output_names = {'y'}, opset = 13,
    dynamic_axes = {x = {[1] = 'rows'}}})
  t.eq({model.inputs, model.outputs, model.opset}, {{'x'}, {'y'}, 13})
  t.eq({model.dims(11, 1), model.dims(12, 1)}, {{'rows', 3}, {'rows', 4}})
  model = exported(nn.Linear(3, 4), mt.randn(2, 3), {output_names = {'weight'}})
  t.eq({model.outputs, model.initializers, model.nodes[1].inputs[2]}, {{'weight'}, {'weight_2', 'bias'}, 'weight_2'})
  t.eq(exported(nn.Linear(3, 4), mt.randn(2, 3), {dynamic_axes = {input = {1}}}).dims(12, 1), {'batch', 4})
end)

-- ---- elementwise operations ------------------------------------------------------------------------------------

--- Returns the node types of an elementwise operation with its default parameters.
local function nodes_of(op)
  local inputs, values = {}, {}
  for i = 1, op.inputs do
    local is_mask = op.mask_first and i == 1
    inputs[i] = mt.ones({1}, is_mask and 'bool' or op.accepts == 'integer' and 'int32' or 'float32')
  end
  for i, value in ipairs(op.values) do values[i] = value == value and value or nil end
  return exported(function(...)
    local arguments = {...}
    for i = 1, #op.values do arguments[op.inputs + i] = values[i] end
    return mt[op.name](unpack(arguments, 1, op.inputs + #op.values))
  end, inputs, {opset = 18}).ops
end

t.test('every elementwise operation has an ONNX form, but special functions', function()
  local without = {}
  for _, op in ipairs(mt.extend.operations()) do
    local ok, why = pcall(nodes_of, op)
    if not ok and why:find 'no ONNX form' then without[#without + 1] = op.name
    elseif not ok then error(why) end
  end
  t.eq(table.concat(without, ' '), require('onnx_networks').without)
end)

t.test('the formula of every operation gives what the operation gives, infinities and NaN included', function()
  local run = require('mtorch.core').compile().run
  local line = mt.tensor({0, -0.0, 1, -1, 0.5, -2.5, 3, -7, 40, 1e-30, 1e200, -1e200, math.huge, -math.huge, 0 / 0},
    'float64')
  local operands = {line:unsqueeze(2):expand(15, 15), line:expand(15, 15), line:flip{1}:expand(15, 15)}
  local seen, wrong = 0, {}
  for _, op in ipairs(mt.extend.operations()) do
    local program, arguments = mt.extend.formula(op.name, {}), {unpack(operands, 1, op.inputs)}
    if program then
      if op.name == 'prelu' then arguments[2] = line[{ {5}}]:expand(15) end
      local y = run(program, op.name, nil, unpack(arguments))
      for i, value in ipairs(op.values) do arguments[op.inputs + i] = value end
      local wanted = mt[op.name](unpack(arguments))
      local same = y.dtype == wanted.dtype and mt.allclose(y:double(), wanted:double(), {rtol = 1e-13, atol = 0,
        equal_nan = true})
      if not same then wrong[#wrong + 1] = op.name end
      seen = seen + 1
    end
  end
  t.eq({wrong, seen > 36}, {{}, true})
end)

t.test('an operation without an ONNX operator is its formula of kernels/ops.h', function()
  local y = mt.randn(2)
  t.eq(exported(mt.square, y).ops, {'Mul'})
  t.eq(exported(mt.hardswish, y).ops, {'Add', 'Clip', 'Mul', 'Mul'})
  t.eq(exported(mt.hardshrink, y).ops, {'Abs', 'LessOrEqual', 'Where'})
  t.eq(exported(mt.softsign, y).ops, {'Softsign'})
  t.eq(exported(mt.softsign, y:double()).ops, {'Abs', 'Add', 'Div'}) -- onnxruntime has the operator in float32
  t.eq(exported(function(v) return mt.addcmul(v, v, v, 1) end, y).ops, {'Mul', 'Add'})
  t.eq(exported(mt.map(function(v) return mt.hardshrink(v) + mt.square(v) end), y).ops,
    {'Abs', 'LessOrEqual', 'Where', 'Mul', 'Add'})
  t.eq(exported(mt.map(function(v) return mt.logit(v) * 2 end), y).ops, {'Sub', 'Div', 'Log', 'Mul'}) -- without eps
end)

t.test('16-bit floats are calculated in float32 by a formula, and small integers in int32', function()
  t.eq(exported(mt.hardshrink, mt.randn(2):half()).ops, {'Cast', 'Abs', 'LessOrEqual', 'Where', 'Cast'})
  t.eq(exported(mt.square, mt.ones({2}, 'uint8')).ops, {'Cast', 'Mul', 'Cast'})
  t.eq(exported(mt.isposinf, mt.ones({2}, 'int32')).ops, {'Cast', 'Equal'}) -- integers are never infinite
end)

t.test('a parameter that follows the size of the batch stays one', function()
  local model = exported(function(v) return mt.hardtanh(v, 0, v.shape[1]) end, mt.randn(2, 3),
    {dynamic_axes = {input = {1}}})
  t.eq(model.ops[3], 'Shape')
end)

t.test('a program as a list of instructions', function()
  local list, results = mt.extend.instructions(mt.extend.formula('leaky_relu', {negative_slope = 0.5}))
  local lines = {}
  for i, c in ipairs(list) do
    lines[i] = ('%s (%s) %s %s'):format(c.op, table.concat(c.inputs, ','), c.which or c.value or '-', c.is_bool)
  end
  -- Compilers differ in the order of the arguments of `where`.
  t.eq({#lines, lines[1], lines[2]}, {6, 'input () 1 false', 'constant () 0.5 false'})
  assert(lines[3] == 'mul (2,1) - false' and lines[6] == 'where (5,1,3) - false' or
    lines[4] == 'gt (1,3) - true' and lines[6] == 'where (4,1,5) - false', table.concat(lines, '\n'))
  t.eq(results, {#list})
  list = mt.extend.instructions(mt.extend.formula('hardtanh', {max_val = 3}))
  t.eq(list[#list].parameters, {min = -1, max = 3})
  t.eq({mt.extend.formula('tanh', {}), mt.extend.formula('add', {}), mt.extend.formula('nothing', {})}, {})
end)

t.test('several inputs and results keep their order; tables of results are spread', function()
  local function f(x, y) return {x + y, x - y}, x * y end
  local model = exported(f, {mt.randn(2), mt.randn(2)})
  t.eq({model.inputs, model.outputs}, {{'input_1', 'input_2'}, {'output_1', 'output_2', 'output_3'}})
  t.eq(model.ops, {'Add', 'Sub', 'Mul'})
end)

t.test('what depends on no input is calculated once', function()
  local w = mt.ones(3, 3)
  local model = exported(function(x) return x:matmul(mt.eye(3) * 2 + w) end, mt.randn(2, 3))
  t.eq({model.ops, #model.initializers}, {{'MatMul'}, 1})
  local net = nn.Linear(3, 2)
  model = exported(function(x) return net(x):matmul(w[{ {1, 2}}]) end, mt.randn(2, 3))
  t.eq(model.initializers[1], 'net.weight')
end)

t.test('operations in place make new values', function()
  local model = exported(function(x)
    local y = x:clone()
    y:add_(1)
    local z = y * 2
    y:mul_(3)
    return z, y
  end, mt.randn(2))
  t.eq(model.ops, {'Add', 'Mul', 'Mul'})
  t.eq({model.nodes[2].inputs[1], model.nodes[3].inputs[1]}, {model.nodes[1].outputs[1], model.nodes[1].outputs[1]})
end)

t.test('an input that is returned, and a result twice, become copies', function()
  local model = exported(function(x)
    local y = x + 1
    return x, y, y
  end, mt.randn(2), {output_names = {'a', 'b', 'c'}})
  t.eq(model.outputs, {'a', 'b', 'c'})
  t.eq(model.ops, {'Add', 'Identity', 'Identity'})
end)

t.test('nothing is left of an export that failed, and the file that was there stays', function()
  exported(nn.Linear(2, 2), mt.randn(1, 2))
  t.raises(function() mt.onnx.export(function(x) return mt.digamma(x) end, mt.randn(2), path) end, 'digamma')
  t.eq(#read(path).nodes, 1)
end)

-- ---- what is refused -------------------------------------------------------------------------------------------

local x = mt.randn(2, 3)
local function refuses(fn, pattern, inputs, options)
  local text = t.raises(function() mt.onnx.export(fn, inputs or x, path, options or {}) end, pattern)
  if not text:find('^[^\n]*test_onnx.lua:%d+: ') then error('not at the user\'s line: ' .. text, 2) end
end

t.test('Lua values of tensors that depend on an input', function()
  refuses(function(y) return y * y:sum():item() end, 'item makes Lua values of a tensor that depends on an input')
  refuses(function(y) return y:tolist() and y end, 'tolist makes Lua values')
  refuses(function(y) return y:gt(0):any() and y or -y end, 'any makes Lua values')
  refuses(function(y) return y * y:data()[0] end, 'data makes Lua values')
  mt.onnx.export(function(y) return y * mt.ones(2):sum():item() end, x, path)
end)

t.test('after a failure nothing is recorded any more, and nothing is kept', function()
  local core = require 'mtorch.core'
  local kept = setmetatable({}, {__mode = 'v'})
  pcall(mt.onnx.export, function(y)
    kept[1] = y * 2
    return y:sum():item()
  end, x, path)
  local calls = 0
  core.record(function() return x + 1 end, function() calls = calls + 1 end)
  local _ = x + 1
  t.eq(calls, 2)
  collectgarbage()
  collectgarbage()
  t.eq(kept[1], nil)
  local function again(y) return core.record(function() return y end, function() end) end
  t.raises(function() mt.onnx.export(again, x, path) end, 'recorded already')
end)

t.test('random numbers', function()
  refuses(function(y) return y + mt.randn(2, 3) end, 'randn draws random numbers')
  refuses(function(y) return mt.dropout(y, 0.5, true) end, 'dropout with training=true')
  local norm = nn.BatchNorm1d(3)
  refuses(function(y) return norm(y) end, 'batch_norm is in training mode')
  t.eq(norm.running_mean:tolist(), {0, 0, 0})
end)

t.test('operations without an ONNX form, by name and line', function()
  refuses(nn.LSTM(3, 4, {proj_size = 2}), 'proj_size has no ONNX form')
  refuses(function(y) return mt.lgamma(y) end, 'no ONNX form of lgamma is known; it was called at test_onnx.lua:%d+')
  refuses(mt.map(function(v) return mt.erfinv(v) end), 'no ONNX form of erfinv, in a compiled function')
  local double = mt.kernel(function(a, b)
    local i = grid(1)
    if i <= #b then b[i] = 2 * a[i] end
  end)
  refuses(function(y)
    local out = mt.zeros(6)
    double:over(out)(y:view(6), out)
    return out
  end, 'a kernel has no ONNX form')
end)

t.test('an input that is used as positions and as numbers', function()
  local w = mt.randn(5, 2)
  refuses(function(ids) return mt.embedding(ids, w), ids * 2 end,
    "'input' is used both as positions, .*embedding.* as numbers .*mul", mt.ones({3}, 'int64'))
end)

t.test('operations that follow the sizes', function()
  local function loop(y)
    local sum = y[1]
    for i = 2, y.shape[1] do sum = sum + y[i] end
    return sum
  end
  refuses(loop, 'with other sizes of the dynamic axes', x, {dynamic_axes = {input = {1}}})
  mt.onnx.export(loop, x, path)
  refuses(function(y) return y * math.sqrt(y.shape[1]) end, 'not a multiple', x, {dynamic_axes = {input = {1}}})
end)

t.test('choices by the sizes: of a tensor, a result, a flag, a dimension; a number that is an attribute', function()
  local v, w = mt.ones(3), mt.zeros(3)
  local function chosen(pattern, fn)
    refuses(function(y) return fn(y, y.shape[1] > 2, y + 1, y - 1) end, pattern, x, {dynamic_axes = {input = {1}}})
  end
  chosen('mul at [^\n]* has other arguments', function(_, more, a, b) return (more and a or b) * 2 end)
  chosen('add at [^\n]* has other arguments', function(y, more) return y + (more and v or w) end)
  chosen('sort at [^\n]* has other arguments', function(y, more) return y:sort(1, more) end)
  chosen('returns other tensors', function(_, more, a, b) return more and a or b end)
  chosen('returns other tensors', function(y) return y:unbind(1) end)
  chosen('sum at [^\n]* has another dim', function(y, more) return y:sum(more and 1 or 2, true) end)
  chosen('movedim at [^\n]* has another destination', function(y, more) return y:movedim(1, more and 1 or 2) end)
  chosen('max_pool1d at [^\n]* has no ONNX form where', function(y) return mt.max_pool1d(y, 1, y.shape[1]) end)
  mt.onnx.export(function(y) return y:masked_fill(y:gt(0), 0 / 0) end, x, path, {dynamic_axes = {input = {1}}})
end)

t.test('a reduction of the user is a tree of pairs', function()
  local largest = mt.reduce(function(v, w) return math.max(v, w) end, -math.huge)
  mt.onnx.export(function(y) return largest(y, 2) end, x, path)
  refuses(function(y) return largest(y, 1) end, 'where its numbers or sizes follow', x, {dynamic_axes = {input = {1}}})
end)

t.test('wrong arguments', function()
  local net = nn.Linear(3, 2)
  local function wrong(pattern, ...)
    local arguments = {...}
    t.raises(function() mt.onnx.export(unpack(arguments)) end, pattern)
  end
  wrong('a module or a function is needed', 5, x, path)
  wrong('inputs must be a tensor or a list', net, 'x', path)
  wrong('input 2 must be a tensor', net, {x, 3}, path)
  wrong('opset must be a whole number from 13 to 23', net, x, path, {opset = 9})
  wrong('2 input_names are given for 1 input', net, x, path, {input_names = {'a', 'b'}})
  wrong("'y' is not an input", net, x, path, {dynamic_axes = {y = {1}}})
  wrong("of 'input' has 0; dimensions count from 1", net, x, path, {dynamic_axes = {input = {[0] = 'batch'}}})
  wrong("'a' is the name of an input and of an output", net, x, path, {input_names = {'a'}, output_names = {'a'}})
  wrong("dimension 3 of 'input', which has 2", net, x, path, {dynamic_axes = {input = {3}}})
  wrong('result 1 is 3; results must be tensors', function() return 3 end, x, path)
  wrong('result 2 is a table; results', function(y) return y, {y = y} end, x, path)
  wrong('returned no tensor', function() end, x, path)
  wrong('onnx.export', net, x, folder .. '/nowhere/net.onnx')
end)

-- ---- onnxruntime -----------------------------------------------------------------------------------------------

t.test('all networks are exported, and onnxruntime gives the same outputs', function()
  assert(mt.map) -- without the compiler, which writes the formulas of elementwise operations, the test is skipped
  os.remove(path)
  t.eq(os.execute(('%s tests/lua/onnx_check.lua %s'):format(t.program(), folder)), 0)
  local python = os.getenv 'MTORCH_PEER_PYTHON'
  if not python then
    print('skipped: the comparison with onnxruntime; MTORCH_PEER_PYTHON names a Python that has onnx and onnxruntime')
    return
  end
  if os.execute(('%s tests/lua/onnx_check.py %s'):format(python, folder)) ~= 0 then error('outputs differ') end
end)

os.execute('rm -r ' .. folder)
t.finish()
