-- test_errors.lua -- wrong calls: one sentence at the user's line, and nothing is changed
local mt = require 'mtorch'
local t = require 'testing'
local memory = require('mtorch.core').memory
local eq, raises = t.eq, t.raises
local nan, inf = 0 / 0, math.huge

local here = debug.getinfo(1, 'S').short_src

--- Returns the tensors of the rows below, created again for each.
local function fixture()
  local f = {
    x = mt.range(1, 6):float():view(2, 3), y = mt.range(1, 20):float():view(4, 5), v = mt.tensor{1,
      2, 3},
    one = mt.tensor(5), none = mt.tensor{}, i = mt.tensor({1, 2, 3}, 'int64'),
      zeros = mt.tensor({1, 0, 3}, 'int64'),
    b = mt.tensor{true, false, true}, u = mt.tensor({1, 2}, 'uint8'), big = mt.tensor({2 ^ 53, 1},
      'int64'),
    batch = mt.range(1, 24):float():view(2, 3, 4), leaf = mt.tensor({1, 2, 3},
      {requires_grad = true}),
    probability = mt.tensor{0.5, 1.5}, logits = mt.tensor{{1, 2, 3}, {4, 5, 6}},
      double = mt.tensor({1, 2}, 'float64'),
    other = mt.tensor({1, 2, 3}, 'float64', 'cpu', true)}
  f.result = f.leaf * 2
  f.total = (f.leaf * f.leaf):sum()
  f.wide = mt.tensor{{1}, {2}}:expand(2, 3)
  return f
end

local rows, calls = 0, 0

--- Adds a wrong call: the function, the beginning of the message, and texts that it must contain.
local function row(call, operation, ...)
  local pieces, line = {...}, debug.getinfo(call, 'S').linedefined
  rows = rows + 1
  t.test(('row %d (line %d)'):format(rows, line), function()
    mt.set_grad_enabled(true)
    local f, before, after = fixture(), {}, {}
    for name, x in pairs(f) do before[name] = t.state(x) end
    mt.manual_seed(11)
    collectgarbage()
    collectgarbage()
    local live = memory()
    local ok, message = pcall(call, f)
    calls = calls + 1
    collectgarbage()
    collectgarbage()
    local left = memory()

    assert(not ok, 'no error')
    eq(type(message), 'string')
    local place = ('%s:%d: '):format(here, line)
    eq(message:sub(1, #place), place)
    local sentence = message:sub(#place + 1)
    assert(not sentence:find('\n'), 'more than one line: ' .. sentence)
    assert(sentence:sub(1, #operation) == operation,
      ('"%s" does not begin with "%s"'):format(sentence, operation))
    for _, piece in ipairs(pieces) do
      assert(sentence:find(piece, 1, true), ('"%s" does not contain "%s"'):format(sentence, piece))
    end
    assert(not sentence:find('%-nan') and not sentence:find('C%+%+') and not sentence:find('0x'),
      sentence)

    for name, x in pairs(f) do after[name] = t.state(x) end
    eq(after, before)
    eq(left, live)
    eq(mt.is_grad_enabled(), true)
    local drawn = mt.rand(4):tolist()
    mt.manual_seed(11)
    eq(drawn, mt.rand(4):tolist())
    eq((f.x + 1):sum():item(), 27)
  end)
end

-- A1..A6: shapes
row(function(f) local _ = f.x + f.y end, 'add', '(2 x 3)', '(4 x 5)', 'sizes 2 and 4',
  'dimension 1')
row(function(f) local _ = f.x * mt.tensor{1, 2} end, 'mul', '(2 x 3)', '(2)')
row(function(f) f.x:lt(f.y) end, 'lt', '(2 x 3)', '(4 x 5)')
row(function(f) mt.where(f.b, f.x, f.y) end, 'where', '(2 x 3)', '(4 x 5)')
row(function(f) f.x:add_(f.batch) end, 'add', '(2 x 3)', '(2 x 3 x 4)')
row(function(f) f.v:add_(f.x) end, 'add_', '(2 x 3)', '(3)', 'keeps the shape')
row(function(f) f.x:matmul(f.y) end, 'matmul', '(2 x 3)', '(4 x 5)')
row(function(f) f.x:matmul(f.x) end, 'matmul', '(2 x 3)', ':t()')
row(function(f) f.x:matmul(f.one) end, 'matmul', '(2 x 3)', '()', '0-d')
row(function(f) f.v:matmul(f.y) end, 'matmul', '(3)', '(4 x 5)')
row(function(f) f.batch:matmul(mt.ones(3, 4, 5)) end, 'matmul', '2', '3')
row(function(f) f.x:mm(f.v) end, 'mm', '(2 x 3)', '(3)', 'matmul')
row(function(f) f.x:dot(f.v) end, 'dot', '(2 x 3)', '(3)')
row(function(f) mt.linear(f.x, f.y) end, 'linear', '(2 x 3)', '(4 x 5)')
row(function(f) mt.linear(f.x, f.x, f.v) end, 'linear', '(3)', '(2 x 3)')
row(function(f) f.x:view(4) end, 'view', '(2 x 3)', '6', '(4)')
row(function(f) f.x:view(-1, -1) end, 'view', 'only one', '(-1 x -1)')
row(function(f) f.x:view(-2, 3) end, 'view', '-2')
row(function(f) f.x:view(4, -1) end, 'view', '6', '(4 x -1)')
row(function(f) f.none:view(-1, 0) end, 'view', '-1', '(-1 x 0)')
row(function(f) f.x:view(2 ^ 40, 2 ^ 40) end, 'view', '1099511627776')
row(function(f) f.x:t():view(6) end, 'view', '(3 x 2)', '(6)', 'reshape')
row(function(f) f.x:reshape(7) end, 'reshape', '(2 x 3)', '(7)')
row(function(f) f.x:flatten(2, 1) end, 'flatten', '2', '1')
row(function(f) f.x:permute(1) end, 'permute', '1', '(2 x 3)')
row(function(f) f.x:permute(1, 1) end, 'permute', '1', 'twice')
row(function(f) f.x:transpose(1, 3) end, 'transpose', '3', '1..2')
row(function(f) f.batch:t() end, 't:', '(2 x 3 x 4)')
row(function(f) f.x:expand(4, 3) end, 'expand', '(2 x 3)', '(4 x 3)')
row(function(f) f.x:expand(3) end, 'expand', '(2 x 3)', '(3)')
row(function(f) f.v:expand(-1, 3) end, 'expand', '-1')
row(function(f) f.v:expand(2 ^ 50, 3) end, 'expand', '1125899906842624')
row(function(f) f.x:squeeze(3) end, 'squeeze', '3', '1..2')
row(function(f) f.x:unsqueeze(4) end, 'unsqueeze', '4', '1..3')
row(function(f) f.x:narrow(2, 3, 2) end, 'narrow', '3', '2')
row(function(f) f.x:narrow(1, 1, -1) end, 'narrow', '-1')
row(function(f) f.x:select(1, 3) end, 'select', '3', '1..2')
row(function() mt.cat{} end, 'cat', 'at least one')
row(function(f) mt.cat{f.x, f.y} end, 'cat', 'tensor 2', '(4 x 5)', '(2 x 3)')
row(function(f) mt.cat{f.x, f.v} end, 'cat', 'tensor 2', '(3)', '(2 x 3)')
row(function(f) mt.cat{f.x, 3} end, 'cat', 'entry 2', '3')
row(function(f) mt.cat(f.x, f.x) end, 'cat', 'tensor (2 x 3)')
row(function(f) mt.cat{f.one, f.one} end, 'cat', '0-d', 'stack')
row(function(f) mt.stack{f.x, f.y} end, 'stack', 'tensor 2', '(4 x 5)')
row(function(f) mt.stack{f.x, f.x, dim = 4} end, 'stack', '4', '1..3')

-- Positions
row(function(f) f.x:sum(3) end, 'sum', '3', '1..2')
row(function(f) f.x:sum(-3) end, 'sum', '-3', '1..2')
row(function(f) f.x:sum(0) end, 'sum', '0 is not a position')
row(function(f) f.x:mean({1, 1}) end, 'mean', '1', 'twice')
row(function(f) f.x:max(3) end, 'max', '3', '1..2')
row(function(f) f.x:min(0) end, 'min', '0 is not a position')
row(function(f) f.x:argmax(2.7) end, 'argmax', '2.7')
row(function(f) f.none:max() end, 'max', '(0)')
row(function(f) f.none:argmin() end, 'argmin', '(0)')
row(function(f) f.x:softmax(3) end, 'softmax', '3', '1..2')
row(function(f) f.x:size(3) end, 'size', '3', '1..2')
row(function(f) f.one:size(1) end, 'size', '0-d')
row(function(f) local _ = f.x[0] end, 'index', '0 is not a position')
row(function(f) local _ = f.x[3] end, 'index', '3', '1..2', 'dimension 1')
row(function(f) local _ = f.x[{1, 4}] end, 'index', '4', '1..3', 'dimension 2')
row(function(f) local _ = f.x[{{2, 4}}] end, 'index', '2..4', '1..2')
row(function(f) local _ = f.x[{{1, 2, 0}}] end, 'index', 'step', '0')
row(function(f) local _ = f.x[1.5] end, 'index', '1.5')
row(function(f) local _ = f.x[nan] end, 'index', 'nan')
row(function(f) local _ = f.x[true] end, 'index', 'true')
row(function(f) local _ = f.x[{1, 2, 3}] end, 'index', '3', '(2 x 3)')
row(function(f) local _ = f.x[{'1'}] end, 'index', "'1'")
row(function(f) local _ = #f.one end, '#', '0-d')
row(function(f) f.x:at(1) end, 'at', '1', '2', '(2 x 3)')
row(function(f) f.x:at(1, 4) end, '', '4', '1..3')
row(function(f) f.x:item() end, 'item', '(2 x 3)')
row(function(f) (f.big + 1):tolist() end, '', '2^53')
row(function(f) f.x:index_select(1, mt.tensor({3}, 'int64')) end, 'index_select', '3', '1..2')
row(function(f) f.x:index_select(1, f.v) end, 'index_select', 'float32', ':long()')
row(function(f) f.x:index_select(1, f.x:long()) end, 'index_select', '(2 x 3)')
row(function(f) f.x:gather(1, f.i) end, 'gather', '(3)', '(2 x 3)')
row(function(f) f.x:gather(2, mt.tensor({{4}}, 'int64')) end, 'gather', '4', '1..3')

-- Writing
row(function(f) f.x[1] = f.y end, 'assignment', '(4 x 5)', '(3)')
row(function(f) f.x[1] = 'a' end, 'assignment', "'a'")
row(function(f) f.x[1] = nil end, 'assignment', 'nil')
row(function(f) f.i[1] = 2.5 end, 'assignment', '2.5', 'int64')
row(function(f) f.u[1] = 300 end, 'assignment', '300', 'uint8')
row(function(f) f.i[1] = nan end, 'assignment', 'nan', 'int64')
row(function(f) f.leaf[1] = 3 end, 'assignment', 'leaf', 'no_grad')
row(function(f) f.wide[1] = 3 end, '', 'expanded', 'clone()')
row(function(f) f.x.shape = 3 end, '', "'shape'", 'cannot be set')
row(function(f) f.x.grad = f.y end, 'grad', '(2 x 3)', '(4 x 5)')
row(function(f) f.x.requires_grad = 'yes' end, 'requires_grad', "'yes'")
row(function(f) f.i.requires_grad = true end, 'requires_grad', 'int64')
row(function(f) f.leaf:add_(1) end, 'add_', 'leaf', 'no_grad')
row(function(f) f.leaf:zero_() end, 'zero_', 'leaf', 'no_grad')
row(function(f) f.leaf:copy_(f.v) end, 'copy_', 'leaf', 'no_grad')
row(function(f) f.wide:add_(1) end, 'add_', 'expanded', 'dimension 2', 'clone()')
row(function(f) f.i:add_(0.5) end, 'add_', 'float32', 'int64')
row(function(f) f.i:mul_(f.v) end, 'mul_', 'float32', 'int64')
row(function(f) f.x:copy_(f.y) end, 'copy_', '(4 x 5)', '(2 x 3)')
row(function(f) f.x:fill_('1') end, 'fill_', "'1'")
row(function(f) f.i:fill_(2.5) end, 'fill_', '2.5', 'int64')

-- A8: integers
row(function(f) local _ = f.i % 0 end, 'remainder', '0')
row(function(f) local _ = f.i % f.zeros end, 'remainder', '0', ':float()')
row(function(f) f.i:floor_divide(0) end, 'floor_divide', '0', ':float()')
row(function(f) f.i:fmod(f.zeros) end, 'fmod', '0')
row(function(f) local _ = f.i ^ -1 end, 'pow', 'negative')
row(function(f) f.i:mean() end, 'mean', 'int64', ':float()')
row(function(f) local _ = f.u + 300 end, 'add', '300', 'uint8')

-- A9, A10: sizes
row(function() mt.zeros(-1) end, 'zeros', '-1', 'negative')
row(function() mt.full({2, -3}, 1) end, 'full', '-3', 'negative')
row(function() mt.rand(-1) end, 'rand', '-1', 'negative')
row(function() mt.eye(-2) end, 'eye', '-2', 'negative')
row(function() mt.zeros(2.7) end, 'zeros', 'integer', '2.7')
row(function() mt.zeros(-2.7) end, 'zeros', 'integer', '-2.7')
row(function() mt.zeros(nan) end, 'zeros', 'integer', 'nan')
row(function() mt.zeros(inf) end, 'zeros', 'inf')
row(function() mt.zeros(1e300) end, 'zeros', '1e+300')
row(function() mt.zeros('12') end, 'zeros', "the string '12'")
row(function() mt.zeros(2, '3') end, 'zeros', "'3'")
row(function() mt.zeros({2, '3'}) end, 'zeros', "the string '3'")
row(function() mt.zeros({2, {3}}) end, 'zeros', 'a table')
row(function() mt.zeros(10LL) end, 'zeros', 'cdata')
row(function() mt.zeros({2 ^ 45}, {device = 'cpu'}) end, '', '131072.00 GiB')
row(function() mt.empty(2 ^ 40, 2 ^ 40) end, 'empty', '1099511627776')
row(function() mt.zeros(2 ^ 31, 2 ^ 31) end, 'zeros', '2147483648')
row(function() mt.ones(2 ^ 62) end, 'ones', '4.6')
row(function(f) local _ = f.v:expand(2 ^ 43, 3) + 1 end, '', 'bytes')
row(function() mt.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) end, 'zeros', '17',
  'at most 16')
row(function() mt.linspace(0, 1, -1) end, 'linspace', '-1')
row(function() mt.linspace(0, 1, 2.5) end, 'linspace', '2.5')
row(function() mt.range(1, 3, 0) end, 'range', '0')
row(function() mt.range(1, inf) end, 'range', 'inf')
row(function() mt.range(1, nan) end, 'range', 'nan')
row(function() mt.range(inf, 1) end, 'range', 'inf')
row(function() mt.range(1) end, 'range', "'last'")
row(function() mt.randint(3, 1, {2}) end, 'randint', '3', '1')
row(function() mt.randint(1, 3) end, 'randint', "'shape'", 'missing')
row(function() mt.randint(1.5, 3, {2}) end, 'randint', '1.5')
row(function() mt.randint(1, 300, {3}, 'uint8') end, 'randint', '300', 'uint8')
row(function() mt.randperm(-1) end, 'randperm', '-1')
row(function() mt.rand({2}, 'int64') end, 'rand', 'int64')
row(function() mt.full({2}, 300, 'uint8') end, 'full', '300', 'uint8')
row(function() mt.full({2}, 0.5, 'int64') end, 'full', '0.5', 'int64')
row(function() mt.linspace(0, 1, 3, 'int64') end, 'linspace', 'int64')
row(function() mt.manual_seed(1.5) end, 'manual_seed', '1.5')
row(function() mt.manual_seed('a') end, 'manual_seed', "'a'")
row(function() mt.set_num_threads(0) end, 'set_num_threads', '0')
row(function() mt.set_num_threads(2.5) end, 'set_num_threads', '2.5')
row(function() mt.set_default_dtype('int64') end, 'set_default_dtype', 'int64')

-- A11: arguments
row(function(f) f.x.sum() end, 'sum', 'x:sum(..)')
row(function(f) f.x.sum(2) end, 'sum', 'got 2', 'x:sum(..)')
row(function(f) f.x.view(2, 3) end, 'view', 'got 2', 'x:view(..)')
row(function(f) f.x.relu() end, 'relu', 'x:relu(..)')
row(function(f) f.x:amax(1, true, 3) end, 'amax', '4 arguments', 'takes 3')
row(function(f) f.x:relu(1) end, 'relu', '2 arguments', 'takes 1')
row(function(f) f.x:transpose(1) end, 'transpose', "'dim2'", 'missing')
row(function(f) f.x:matmul() end, 'matmul', "'y'", 'missing')
row(function(f) f.x:matmul(3) end, 'matmul', 'a tensor', 'got 3')
row(function(f) f.x:matmul({1}) end, 'matmul', 'got a table')
row(function(f) f.x:matmul(print) end, 'matmul', 'got a function')
row(function(f) f.x:matmul(io.stdout) end, 'matmul', 'got a userdata')
row(function(f) local _ = f.x + nil end, 'add', 'got nil')
row(function(f) local _ = f.x * {} end, 'mul', 'got a table')
row(function(f) local _ = f.x - 'a' end, 'sub', "'a'")
row(function(f) local _ = '2' ^ f.x end, 'pow', "'2'")
row(function(f) local _ = f.x .. 'a' end, "'..'", 'cat')
row(function(f) local _ = f.x < f.x end, "'<'", 'x:lt(y)')
row(function(f) f.x:lt('a') end, 'lt', "'a'")
row(function(f) f.x:clamp('a') end, 'clamp', "'min'", "'a'")
row(function(f) f.x:sum{keepdims = true} end, 'sum', "'keepdims'", "'keepdim'")
row(function(f) f.x:sum(1, {dim = 2}) end, 'sum', "'dim'", 'twice')
row(function(f) f.x:sum{keepdim = 1} end, 'sum', 'true or false', 'got 1')
row(function() mt.zeros({2}, {dtyp = 'int64'}) end, 'zeros', "'dtyp'", "'dtype'")
row(function() mt.zeros({2}, 'float23') end, 'zeros', "'float23'", "'float32'")
row(function() mt.zeros({2}, 3) end, 'zeros', "'dtype'", 'got 3')
row(function() mt.zeros({2}, nil, 'gpu') end, 'zeros', "'gpu'", "'cuda'")
row(function() mt.cuda.get_device_properties(0) end, 'get_device_properties', "'cpu', 'cuda' or 'cuda:0', got 0")
row(function() mt.cuda.get_device_properties('cuda:77') end, 'get_device_properties', 'cuda:77')
row(function() mt.unravel_index(6, {3, 4}) end, 'unravel_index', "mt.tensor({6}, 'int64') for 6")
row(function() mt.zeros() end, 'zeros', "'shape'", 'missing')
row(function() mt.zeros(nil) end, 'zeros', "'shape'", 'missing')
row(function() mt.zeros(print) end, 'zeros', 'got a function')
row(function() mt.full({2}) end, 'full', "'value'", 'missing')
row(function() mt.full({2}, 'a') end, 'full', "'a'")
row(function(f) f.x:to('gpu') end, 'to', "'gpu'")
row(function(f) f.x:to() end, 'to', 'missing')
row(function(f) f.x:foo() end, '', "'foo'")
row(function(f) local _ = f.x.shap end, '', "'shap'", "'shape'")
row(function() mt.zeroes(2) end, '', "'zeroes'", "'zeros'")
row(function() mt.arange(3) end, 'mt.arange', 'mt.range')
row(function(f) mt.where(f.x, 1, 0) end, 'where', 'bool', 'float32')
row(function(f) f.x:t():data() end, 'data', 'contiguous')
row(function() mt.no_grad(3) end, 'no_grad', "'fn'", 'got 3')
row(function(f) mt.gradcheck(3, {f.other}) end, 'gradcheck', 'function', 'got 3')
row(function(f) mt.gradcheck(function(x) return x end, {f.leaf}) end, 'gradcheck', 'float32',
  'float64')
row(function(f) mt.gradcheck(function(x) return x * x:detach() end, {f.other}) end, 'gradcheck',
  'input 1', 'element 1')
row(function(f) mt.allclose(f.x, f.y) end, 'allclose', '(2 x 3)', '(4 x 5)')
row(function(f) mt.test_close(f.v, f.v * 2) end, 'test_close', '3 of 3', '1', '2')

-- A12: nested tables
row(function() mt.tensor() end, 'tensor', 'missing')
row(function() mt.tensor('a') end, 'tensor', "'a'")
row(function() mt.tensor(print) end, 'tensor', 'a function')
row(function() mt.tensor{{1, 2}, {3}} end, 'tensor', '[2]', '1', '2')
row(function() mt.tensor{1, {2}} end, 'tensor', '[2]')
row(function() mt.tensor{{1}, 2} end, 'tensor', '[2]')
row(function() mt.tensor{{1, 2}, {3, {4}}} end, 'tensor', '[2][2]')
row(function() mt.tensor{{1, 2}, {3, 'x'}} end, 'tensor', '[2][2]', "'x'")
row(function() mt.tensor{true, 1} end, 'tensor', '[2]', 'booleans')
row(function() mt.tensor{1, nil, 3} end, 'tensor', '[2]')
row(function() mt.tensor{1, 2, [5] = 3} end, 'tensor', '')
row(function() mt.tensor{{1, 2, x = 3}} end, 'tensor', "x")
row(function() local c = {} c[1] = c mt.tensor(c) end, 'tensor', '[1][1][1]', 'deeper')
row(function() local c = {1} for _ = 1, 1e4 do c = {c} end mt.tensor(c) end, 'tensor', 'deeper')
row(function() mt.tensor({1, 2.5}, 'int64') end, 'tensor', '2.5', 'int64')
row(function() mt.tensor({nan}, 'int64') end, 'tensor', 'nan', 'int64')
row(function(f) mt.tensor{f.one, f.one} end, 'tensor', '[1]', 'a tensor')

-- Losses
row(function(f) mt.mse_loss(f.x, f.v) end, 'mse_loss', '(2 x 3)', '(3)')
row(function(f) mt.mse_loss(f.v, f.v, 'avg') end, 'mse_loss', "'avg'", "'mean'")
row(function(f) mt.binary_cross_entropy(f.probability, f.probability) end, 'binary_cross_entropy',
  '1.5', '0..1')
row(function(f) mt.binary_cross_entropy(f.v, f.x) end, 'binary_cross_entropy', '(3)', '(2 x 3)')
row(function(f) mt.cross_entropy(f.logits, mt.tensor({1, 4}, 'int64')) end, 'cross_entropy',
  'target 2', '4', '1..3')
row(function(f) mt.cross_entropy(f.logits, mt.tensor({0, 1}, 'int64')) end, 'cross_entropy',
  'target 1', '0', '1..3')
row(function(f) mt.cross_entropy(f.logits, mt.tensor({1, -99}, 'int64')) end, 'cross_entropy',
  'target 2', '-99')
row(function(f) mt.cross_entropy(f.logits, f.double) end, 'cross_entropy', 'float64', ':long()')
row(function(f) mt.cross_entropy(f.logits, f.i) end, 'cross_entropy', '(2 x 3)', '(3)')
row(function(f) mt.cross_entropy(f.v, f.i) end, 'cross_entropy', '(3)')
row(function(f) mt.cross_entropy(f.logits, 'a') end, 'cross_entropy', "'a'")
row(function(f) mt.cross_entropy(f.logits, f.u, nil, -100, 'avg') end, 'cross_entropy', "'avg'")

-- C: gradients
row(function(f) f.result:backward() end, 'backward', '(3)', ':sum()')
row(function(f) f.x:backward() end, 'backward', 'requires')
row(function(f) f.result:backward(f.x) end, 'backward', '(2 x 3)', '(3)')
row(function(f) f.result:backward(1) end, 'backward', "'gradient'", 'got 1')
row(function(f) f.total:backward{retain = true} end, 'backward', "'retain'")
row(function(f) f.i:requires_grad_() end, 'requires_grad_', 'int64')
row(function(f) f.result:requires_grad_(false) end, 'requires_grad_', 'detach()')
row(function(f) f.leaf[1]:add_(1) end, 'add_', 'view of a leaf')
row(function() mt.zeros({2}, 'int64', 'cpu', true) end, '', 'int64')

-- These change their arguments before they fail, so they are not in the table.
t.test('backward twice', function()
  local x = mt.ones(2, {requires_grad = true})
  local y = (x * x):sum()
  y:backward()
  raises(function() y:backward() end,
    '^[^\n]*: backward: the graph behind .* was freed [^\n]*retain_graph=true[^\n]*$')
  eq(x.grad:tolist(), {2, 2})
end)

t.test('a size that memory cannot hold', t.on_cpu(function()
  collectgarbage()
  collectgarbage()
  local live = memory()
  raises(function() mt.empty(2 ^ 44) end,
    'out of memory: 65536.00 GiB requested on cpu, .* live')
  collectgarbage()
  eq(memory(), live)
  eq(mt.ones(3):sum():item(), 3)
end))

-- Rule 11: lines ----------------------------------------------------------------------------------

local function line_of(level) return debug.getinfo(level or 2, 'l').currentline end
local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, 'no error')
  return message
end

local function inner(x) return x:view(7) end
local function outer(x) return inner(x) end
local line_inner = debug.getinfo(inner, 'S').linedefined

t.test('a tail call has lost its line: the next one up the stack is named', function()
  local x, here_line = mt.zeros(3), nil
  local message = message_of(function()
    here_line = line_of() + 1
    local y = outer(x)
    return y
  end)
  eq(message:match('^(.-): '), here .. ':' .. here_line)
end)

t.test('parentheses keep it', function()
  local function kept(x) return (x:view(7)) end
  local message = message_of(function() local y = kept(mt.zeros(3)) return y end)
  eq(message:match('^(.-): '), here .. ':' .. debug.getinfo(kept, 'S').linedefined)
  message = message_of(function() local y = inner(mt.zeros(3)) return y end)
  assert(not message:find(':' .. line_inner .. ':'), message)
end)

t.test('other frames: coroutines, metamethods, callbacks, loaded code', function()
  local x = mt.zeros(3)
  local co = coroutine.create(function()
    local y = x:view(7)
    return y
  end)
  local _, message = coroutine.resume(co)
  assert(message:find('^' .. here:gsub('%W', '%%%0') .. ':%d+: view: '), message)
  local line
  message = message_of(function() mt.no_grad(function()
    line = line_of() + 1
    local _ = x + mt.zeros(4)
  end) end)
  eq(message:match('^(.-): '), here .. ':' .. line)
  local code = assert(loadstring('local x = ...\n\nlocal y = x:view(7)', '=piece.lua'))
  eq(message_of(code, x):match('^(.-): '), 'piece.lua:3')
  local object = setmetatable({}, {__index = function(_, key)
    line = line_of() + 1
    local y = x:view(key)
    return y
  end})
  eq(message_of(function() return object[7] end):match('^(.-): '), here .. ':' .. line)
  message = message_of(function()
    table.sort({2, 1}, function(a, b)
      line = line_of() + 1
      local _ = x:view(7)
      return a < b
    end)
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
end)

t.test('an error of the Lua library names the user\'s line, not the library\'s', function()
  local line
  local message = message_of(function()
    line = line_of() + 1
    mt.args{3}
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
end)

t.test('errors are strings that pcall, error and xpcall hand on', function()
  local ok, message = xpcall(function() mt.zeros(2):view(7) end,
    function(m) return 'handled ' .. m end)
  assert(not ok and message:find('^handled .*view'), message)
  local again = message_of(function() error(message, 0) end)
  eq(again, message)
end)

t.test('deep recursion of Lua is an error, not a crash', function()
  local function deep(n) return 1 + deep(n) end
  raises(function() deep(1) end, 'stack overflow')
  raises(function() mt.no_grad(deep, 1) end, 'stack overflow')
  local function nested(n) return mt.no_grad(nested, n) + 1 end
  raises(function() nested(1) end, 'overflow')
  eq(mt.is_grad_enabled(), true)
  eq(mt.ones(2):sum():item(), 2)
end)

t.test('what scripts can do to the userdata', function()
  local x = mt.ones(2)
  eq(getmetatable(x), false)
  raises(function() setmetatable(x, {}) end, 'setmetatable')
  local meta = debug.getmetatable(x)
  local fake = newproxy(true)
  debug.setmetatable(fake, {})
  raises(function() mt.relu(fake) end, 'relu: .*a userdata')
  raises(function() meta.__len(fake) end, '.')
  raises(function() meta.__index(fake, 1) end, '.')
  raises(function() meta.__newindex(fake, 1, 1) end, '.')
  eq(type(meta.__tostring(fake)), 'string')
  meta.__gc(fake)
  raises(function() meta.__add(fake, fake) end, 'add')
  local y = mt.ones(3)
  meta.__gc(y)
  raises(function() y:sum() end, '.')
  raises(function() local _ = y[1] end, '.')
  raises(function() local _ = y.shape end, '.')
  raises(function() local _ = y + 1 end, '.')
  raises(function() local _ = #y end, '.')
  meta.__gc(y)
  pcall(tostring, y)
  eq(mt.ones(2):sum():item(), 2)
end)

t.test('the handle of a hook, collected again and again', function()
  local w, calls = mt.ones(2):requires_grad_(), 0
  for _ = 1, 100 do
    local h = w:register_hook(function() calls = calls + 1 end)
    local gc = debug.getmetatable(h).__gc
    gc(h)
    gc(h)
    h:remove() -- of nothing
    gc(h)
    gc(newproxy()) -- another userdata
  end
  w:sum():backward()
  eq(calls, 100)
end)

-- Modules (rule 11) -------------------------------------------------------------------------------

local nn = mt.nn
local Net = nn.class 'Net'
function Net.__init(self) self.weight = nn.Parameter(mt.ones(3, 2)) end
function Net.forward(self, x) return x:matmul(self.weight) end
local forward_line = debug.getinfo(Net.forward, 'S').linedefined

t.test('a module whose forward ends in a tail call adds its name', function()
  local net, line = Net(), nil
  local message = message_of(function()
    line = line_of() + 1
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message, ('%s:%d: (in Net.forward, %s:%d) matmul: inner sizes differ: (4 x 5) and (3 x 2)'):format(
    here, line, here, forward_line))
end)

t.test('an error in a longer forward has the range of its lines', function()
  local Long = nn.class 'Long'
  function Long:__init() self.inner = Net() end
  function Long:forward(x)
    x = x * 2
    return self.inner(x)
  end
  local net = Long()
  local message = message_of(function()
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message:match('%b()'), ('(in Net.forward, %s:%d)'):format(here, forward_line))
  function Long:forward(x)
    x = x * 2
    return x:matmul(x)
  end
  local info = debug.getinfo(Long.forward, 'S')
  message = message_of(function()
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message:match('%b()'), ('(in Long.forward, %s:%d-%d)'):format(here, info.linedefined, info.lastlinedefined))
end)

t.test('an error in a forward without a tail call has its line', function()
  local Other, line = nn.class 'Other', nil
  function Other.forward(_, x)
    line = line_of() + 1
    local y = x:view(7)
    return y
  end
  local message = message_of(function()
    local y = Other()(mt.ones(3))
    return y
  end)
  eq(message, ('%s:%d: view: (3) has 3 elements, (7) cannot hold exactly these'):format(here, line))
end)

t.test('the library\'s own modules: the user\'s line', function()
  local net, line = nn.Sequential{nn.Linear(4, 3), nn.ReLU()}, nil
  local message = message_of(function()
    line = line_of() + 1
    local y = net(mt.ones(2, 5))
    return y
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
  assert(message:find('linear: the input is (2 x 5), the weight (3 x 4)', 1, true), message)
end)

print(('%d wrong calls'):format(calls))
t.test('very long values are cut in the message, and looked up fast', function()
  local long, began = ('x'):rep(2e5), os.clock()
  for _, fn in ipairs{function() return mt[long] end, function() mt.help(long) end,
      function() mt.ones{2, [long] = 1} end, function() return mt.ones(1)[long] end,
      function() mt.einsum(long, mt.ones(1)) end,
      function() mt.plot.line{{1, 2}, path = long .. '.svg'} end, function() mt.plot.line{{1, 2}, [long] = 1} end,
      function() return mt.nn.Linear(1, 1)[long] end} do
    local ok, message = pcall(fn)
    if ok ~= nil and not ok then
      t.eq(#message < 2000, true)
      t.eq(message:find('%d+ bytes') ~= nil, true)
    end
  end
  t.eq(os.clock() - began < 5, true)
  local _, message = pcall(function() mt.ones{2, [('\195\169'):rep(3000)] = 1} end)
  t.eq(message:gsub('\195\169', ''):find('[\128-\255]'), nil) -- no character is cut in two
end)

t.test('a dot for a colon, a module for its parameters, a base that was not called: the cure', function()
  local x = mt.ones(1):requires_grad_()
  local hook, net = (x * 2):register_hook(print), nn.Linear(2, 1)
  local opt = mt.optim.SGD(net:parameters())
  local Bare = nn.class('Bare', nn.Linear)
  function Bare:__init() end
  for _, case in ipairs{
    {function() hook.remove(x) end, 'remove: no hook is given; methods are called with a colon, h:remove()'},
    {function() nn.Linear.forward() end, 'forward: it is called with a colon, net:forward(x), or as net(x)'},
    {function() net.forward(x) end, 'forward: it is called with a colon, net:forward(x), or as net(x)'},
    {function() net.describe() end, 'describe: methods are called with a colon, net:describe(..)'},
    {function() opt.step() end, 'step: methods are called with a colon, opt:step(..)'},
    {function() opt.zero_grad() end, 'zero_grad: methods are called with a colon, opt:zero_grad(..)'},
    {function() mt.optim.Adam(net) end, 'Adam: a list of parameters is needed, got a module; pass net:parameters()'},
    {function() mt.optim.Adam(nn.Sequential(net)) end, 'got a module; pass net:parameters()'},
    {function() mt.args({a = 1}, 3) end, 'args: a list of words is needed, got 3'},
  } do
    local message = message_of(case[1])
    eq(message:find(here:gsub('%W', '%%%0') .. ':%d+: ') ~= nil, true)
    eq(message:sub(-#case[2]), case[2])
  end
  eq(tostring(Bare()), 'Bare (its __init has not called the __init of its base)')
  eq(tostring(nn.class('Ids', nn.Embedding)(3, 4)), 'Ids(3 -> 4)  12 parameters')
  local global = arg
  arg = 3
  local ok, values = pcall(mt.args, {a = 1})
  arg = global
  eq({ok, ok and values.a}, {true, 1})
end)

t.test('of several wrong keys always the same one is reported', function()
  local x = mt.ones(2, 2)
  --- A table with these keys, whose order another size of the table changes.
  local function with(n, keys)
    local t = {}
    for i = 1, n do t['k' .. i] = true end
    for i = 1, n do t['k' .. i] = nil end
    for _, key in ipairs(keys) do t[key] = 1 end
    return t
  end
  for n = 0, 70, 5 do
    local keys = n % 2 == 0 and {'zeta', 'alpha', 'mid'} or {'mid', 'alpha', 'zeta'}
    raises(function() mt.sum(x, with(n, keys)) end, "sum: unknown option 'alpha'")
    raises(function() mt.Report(with(n, keys)) end, "Report: unknown option 'alpha'")
    raises(function() return x[with(n, keys)] end, "index: the table has the key the string 'alpha'")
  end
end)

t.finish()
