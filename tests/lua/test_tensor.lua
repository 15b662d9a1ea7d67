-- test_tensor.lua -- creating tensors, dtypes, arithmetic, reductions, shapes, products, random
-- numbers
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, shape = t.test, t.eq, t.near, t.raises, t.shape
local inf, nan = math.huge, 0 / 0

--- Asserts the values and, if given, the dtype of a tensor.
local function is(x, values, dtype)
  assert(mt.is_tensor(x), 'not a tensor')
  eq(x:tolist(), values)
  if dtype then eq(x.dtype, dtype) end
end

-- Creation ----------------------------------------------------------------------------------------

test('tensor of a number, a boolean, nested lists', function()
  is(mt.tensor(2), 2, 'float32')
  is(mt.tensor(true), true, 'bool')
  is(mt.tensor{1, 2, 3}, {1, 2, 3}, 'float32')
  is(mt.tensor{{1, 2}, {3, 4}}, {{1, 2}, {3, 4}}, 'float32')
  is(mt.tensor{{true}, {false}}, {{true}, {false}}, 'bool')
  is(mt.tensor{{{1}}, {{2}}}, {{{1}}, {{2}}}, 'float32')
  is(mt.tensor{}, {}, 'float32')
  shape(mt.tensor{{}, {}}, 2, 0)
  shape(mt.tensor(7))
end)

test('options by position, by name, and in the list itself', function()
  is(mt.tensor({1, 2}, 'int64'), {1, 2}, 'int64')
  is(mt.tensor({1, 2}, {dtype = 'int64'}), {1, 2}, 'int64')
  is(mt.tensor{1, 2, dtype = 'int64'}, {1, 2}, 'int64')
  is(mt.zeros{2, 1, dtype = 'float64'}, {{0}, {0}}, 'float64')
  is(mt.zeros({2, 1}, 'float64'), {{0}, {0}}, 'float64')
  is(mt.zeros(2, 1, {dtype = 'float64'}), {{0}, {0}}, 'float64')
  is(mt.zeros({2}, nil, 'cpu', true), {0, 0}, 'float32')
  eq(mt.zeros({2}, nil, 'cpu', true).requires_grad, true)
  eq(mt.ones(2, {requires_grad = true}).requires_grad, true)
  eq(mt.ones(2).requires_grad, false)
  eq(mt.tensor{1, 2, requires_grad = true}.requires_grad, true)
  is(mt.ones{dtype = 'uint8'}, 1, 'uint8')
end)

test('a tensor made from a tensor is a copy', function()
  local a = mt.tensor{1, 2}
  local b = mt.tensor(a)
  b[1] = 9
  is(a, {1, 2})
  is(mt.tensor(a, 'float64'), {1, 2}, 'float64')
end)

test('constructors', function()
  is(mt.zeros(2, 2), {{0, 0}, {0, 0}}, 'float32')
  is(mt.ones({3}), {1, 1, 1}, 'float32')
  is(mt.zeros{}, 0, 'float32')
  is(mt.zeros(0), {})
  is(mt.full({2}, 7), {7, 7}, 'float32')
  is(mt.full({2}, true), {true, true}, 'bool')
  is(mt.full({}, 7), 7)
  is(mt.full{{2}, 7, dtype = 'int32'}, {7, 7}, 'int32')
  shape(mt.empty(4, 5), 4, 5)
  is(mt.eye(2), {{1, 0}, {0, 1}}, 'float32')
  is(mt.eye(2, 3), {{1, 0, 0}, {0, 1, 0}})
  is(mt.eye(3, 2, {dtype = 'int64'}), {{1, 0}, {0, 1}, {0, 0}}, 'int64')
  is(mt.linspace(0, 1, 5), {0, 0.25, 0.5, 0.75, 1}, 'float32')
  is(mt.linspace(3, 3, 1), {3})
  is(mt.linspace(0, 1, 0), {})
  is(mt.zeros_like(mt.ones({2}, 'int32')), {0, 0}, 'int32')
  is(mt.ones({2}, 'uint8'):ones_like{dtype = 'float64'}, {1, 1}, 'float64')
end)

test('range includes its end and is int64 for whole ends', function()
  is(mt.range(1, 4), {1, 2, 3, 4}, 'int64')
  is(mt.range(1, 6, 2), {1, 3, 5}, 'int64')
  is(mt.range(3, 1, -1), {3, 2, 1}, 'int64')
  is(mt.range(3, 1), {}, 'int64')
  is(mt.range(0, 1, 0.25), {0, 0.25, 0.5, 0.75, 1}, 'float32')
  is(mt.range(0.5, 2), {0.5, 1.5}, 'float32')
  eq(mt.range(0, 1, 0.1):numel(), 11)
  is(mt.range(1, 3, {dtype = 'float64'}), {1, 2, 3}, 'float64')
  is(mt.range{1, 3, dtype = 'int32'}, {1, 2, 3}, 'int32')
  raises(function() mt.arange(3) end, 'range%(first, last')
end)

test('numbers that do not fit are errors', function()
  for _, row in ipairs{{300, 'uint8'}, {-1, 'uint8'}, {2.5, 'int64'}, {3e9, 'int32'}, {1e30,
    'int64'}, {nan, 'int64'},
                       {inf, 'int32'}, {0.5, 'bool'}} do
    local value, dtype = unpack(row)
    raises(function() mt.tensor(value, dtype) end, 'does not fit into ' .. dtype)
    raises(function() mt.full({2}, value, dtype) end, 'does not fit into ' .. dtype)
    raises(function() mt.zeros({2}, dtype):fill_(value) end, 'does not fit into ' .. dtype)
    raises(function() mt.zeros({2}, dtype)[1] = value end, 'does not fit into ' .. dtype)
  end
  is(mt.tensor({0, 255}, 'uint8'), {0, 255})
  is(mt.tensor({-2 ^ 31 + 1, 2 ^ 31 - 1}, 'int32'), {-2 ^ 31 + 1, 2 ^ 31 - 1})
  raises(function() mt.range(1, 300, 1, {dtype = 'uint8'}) end, 'fit')
  raises(function() mt.tensor({1, 2}, 'uint8'):add(300) end, '300.*fit.*uint8')
end)

test('default dtype', function()
  mt.set_default_dtype('float64')
  local ok, message = pcall(function()
    eq(mt.zeros(1).dtype, 'float64')
    eq(mt.tensor(1).dtype, 'float64')
    eq((mt.tensor({1}, 'int64') + 0.5).dtype, 'float64')
  end)
  mt.set_default_dtype('float32')
  assert(ok, message)
  eq(mt.zeros(1).dtype, 'float32')
end)

-- Properties --------------------------------------------------------------------------------------

test('fields and queries', function()
  local x = mt.zeros(5, 784)
  eq(tostring(x.shape), '(5, 784)')
  eq(tostring(x:size()), '(5, 784)')
  eq(tostring(x:stride()), '(784, 1)')
  eq(tostring(mt.tensor(1).shape), '()')
  assert(x.shape == x:size())
  assert(x.shape == mt.ones(5, 784).shape)
  assert(x.shape ~= mt.ones(784, 5).shape)
  assert(x.shape ~= mt.ones(5).shape)
  eq({x:size(1), x:size(2), x:size(-1), x:size(-2)}, {5, 784, 784, 5})
  eq({x:stride(1), x:stride(-1)}, {784, 1})
  eq({x.shape[-1], x.shape[-2], x:size()[-1], x:stride()[-1], x.shape[-3] == nil, x.shape[3] == nil},
    {784, 5, 784, 1, true, true})
  raises(function() return x.shape[0] end, 'shape: 0 is not a position; dimensions count from 1, and from %-1')
  eq({x:dim(), x:numel(), #x, x.dtype}, {2, 3920, 5, 'float32'})
  eq({x:is_contiguous(), x:t():is_contiguous(), x[{2}]:storage_offset()}, {true, false, 784})
  eq({x.grad == nil, x.is_leaf, x.requires_grad}, {true, true, false})
  local list = x.shape
  list[1] = 77
  eq(x.shape[1], 5)
end)

test('item, at, tolist', function()
  local x = mt.tensor{{1, 2, 3}, {4, 5, 6}}
  eq({x:at(1, 1), x:at(2, 3), x:at(-1, -1), x:at(-2, 2)}, {1, 6, 6, 2})
  eq(x:t():at(3, 1), 3)
  eq(mt.tensor{5}:item(), 5)
  eq(mt.tensor{{{5}}}:item(), 5)
  eq(mt.tensor(true):item(), true)
  eq(mt.tensor{true, false}:at(2), false)
  eq(mt.tensor(5):at(), 5)
  eq(mt.tensor(5):tolist(), 5)
  eq(x:t():tolist(), {{1, 4}, {2, 5}, {3, 6}})
  eq(type(x:sum():item()), 'number')
  eq(mt.tensor(2 ^ 53, 'int64'):item(), 2 ^ 53)
  local big = mt.tensor(2 ^ 53, 'int64') + 1
  raises(function() big:item() end, '2^53')
  raises(function() big:tolist() end, '2^53')
  raises(function() mt.zeros(1000, 1000, 10, 0):tolist() end, 'tolist: %(1000 x 1000 x 10 x 0%) would be')
  raises(function() (big * 4):at() end, '2^53')
end)

test('data is a typed pointer from 0', t.on_cpu(function()
  local x = mt.tensor{{1, 2}, {3, 4}}
  local p = x:data()
  eq({p[0], p[3]}, {1, 4})
  p[1] = 7
  is(x, {{1, 7}, {3, 4}})
  for dtype, c_type in pairs{float32 = 'float *', float64 = 'double *', int64 = 'int64_t *',
    int32 = 'int *',
                             uint8 = 'unsigned char *', bool = 'bool *'} do
    local q = mt.ones({3}, dtype):data()
    assert(tostring(q):find(c_type, 1, true), tostring(q))
    eq(q[2] == true or tonumber(q[2]) == 1, true)
  end
  eq(x[2]:data()[0], 3)
  raises(function() x:t():data() end, 'data: the tensor is not contiguous')
end))

test('a == b is identity', function()
  local a, b = mt.ones(2), mt.ones(2)
  assert(a == a and a ~= b)
  assert(a:relu_() == a)
  assert(a:contiguous() == a, 'contiguous() of a contiguous tensor is the tensor')
  assert(a:float() == a, 'float() of a float32 tensor is the tensor')
  a.grad = b
  assert(a.grad == b and a.grad == a.grad, 'grad is the same tensor each time')
  assert(a:clone() ~= a and a:detach() ~= a and a:view(2) ~= a)
end)

test('unknown names are errors with the nearest', function()
  raises(function() return mt.storage end, "mt has no 'storage', which is a method: x:storage%(%.%.%)")
  raises(function() return mt.zeroes end, "mt has no 'zeroes' %(did you mean 'zeros'%?%)")
  raises(function() return mt.zeros(1).relux end,
    "no field or method 'relux' %(did you mean 'relu'%?%)")
  raises(function() return mt.zeros(1).shap end, "'shap' %(did you mean 'shape'%?%)")
  raises(function() return mt.cuda.is_availabel end, "did you mean 'is_available'")
  raises(function() mt.cuda.device_name('gpu') end, "%d: device_name: device 'gpu' is not known")
  for _, field in ipairs{'shape', 'dtype', 'device', 'is_leaf', 'something'} do
    raises(function() mt.zeros(1)[field] = 1 end, "'" .. field .. "' of a tensor cannot be set")
  end
  eq(getmetatable(mt.zeros(1)), false)
end)

test('is_tensor accepts any value', function()
  eq(mt.is_tensor(mt.ones(1)), true)
  for _, value in ipairs{1, 'a', true, {}, {1}, {a = 1}, print, io.stdout,
    coroutine.create(print)} do
    eq(mt.is_tensor(value), false)
  end
  eq(mt.is_tensor(nil), false)
end)

test('no global variables are set', function()
  for name in pairs(_G) do
    assert(name ~= 'mt' and name ~= 'nn' and name ~= 'torch' and name ~= 'optim', name)
  end
end)

-- Arguments ---------------------------------------------------------------------------------------

test('options by position or by name, never both', function()
  local x = mt.tensor{{1, 2}, {3, 4}}
  for _, y in ipairs{x:sum(2, true), x:sum(2, {keepdim = true}), x:sum{2, keepdim = true},
    x:sum{dim = 2, keepdim = true},
                     x:sum({dim = 2, keepdim = true}), mt.sum(x, 2, true), mt.sum(x, {dim = 2,
                       keepdim = true}),
                     x:sum({2}, {keepdim = true}), mt.sum{x, 2, keepdim = true}} do
    is(y, {{3}, {7}})
  end
  is(x:sum(nil, true), {{10}})
  is(x:sum{keepdim = true}, {{10}})
  is(x:sum({1, 2}, true), {{10}})
  is(x:sum{1, 2, keepdim = true}, {{10}})
  is(x:sum{1, 2}, 10)
  raises(function() x:sum(2, {dim = 2}) end, "sum: 'dim' is given twice, by position and by name")
  raises(function() x:sum(2, true, {keepdim = true}) end, "sum: 'keepdim' is given twice")
  raises(function() mt.zeros({2}, 'float32', {dtype = 'float32'}) end,
    "zeros: 'dtype' is given twice")
end)

test('unknown options name the nearest, too many arguments name the signature', function()
  local x = mt.ones(2, 2)
  raises(function() x:sum{keepdims = true} end,
    "sum: unknown option 'keepdims' %(did you mean 'keepdim'%?%)")
  raises(function() mt.zeros(2, {dtyp = 'int64'}) end,
    "zeros: unknown option 'dtyp' %(did you mean 'dtype'%?%)")
  raises(function() mt.zeros(2, {zzzzzzzzzz = 1}) end,
    "zeros: unknown option 'zzzzzzzzzz'; it takes zeros")
  raises(function() x:amax(1, true, 3) end, 'amax: 4 arguments given, it takes 3')
  raises(function() x:relu(1) end, 'relu: 2 arguments given, it takes 1: relu%(x, {out=}%)$')
  raises(function() mt.relu(x:max(1)) end, 'relu: 2 arguments .*; g%(x%) as the last argument passes all its results')
  raises(function() x:add(1, 2, 3) end, 'add: 4 arguments given, it takes 3')
  raises(function() mt.manual_seed(1, 2) end, 'manual_seed: 2 arguments given, it takes 1')
end)

test('strings are not numbers', function()
  local x = mt.ones(2, 2)
  raises(function() mt.zeros('2') end, "zeros: .*got the string '2'")
  raises(function() mt.zeros({2, '2'}) end, "zeros: .*got the string '2'")
  raises(function() x:sum('1') end, "sum: .*got the string '1'")
  raises(function() x:add('1') end, "add: .*got the string '1'")
  raises(function() return x * '1' end, "mul: .*got the string '1'")
  raises(function() return '1' - x end, "sub: .*got the string '1'")
  raises(function() mt.manual_seed('1') end, "manual_seed: .*got the string '1'")
  raises(function() mt.tensor{1, '2'} end, "%[2%] is the string '2'")
end)

test('an option table is not a list of numbers', function()
  shape(mt.zeros({2, 3}), 2, 3)
  shape(mt.zeros(mt.ones(4, 5).shape), 4, 5)
  shape(mt.zeros(mt.ones(4, 5).shape, {dtype = 'int64'}), 4, 5)
  shape(mt.ones(4, 5):reshape(mt.ones(5, 4).shape), 5, 4)
end)

-- Dtypes ------------------------------------------------------------------------------------------

local of = {}
for _, dtype in ipairs{'bool', 'uint8', 'int32', 'int64', 'float32',
  'float64'} do of[dtype] = mt.ones({2}, dtype) end

test('promotion between tensors, as in PyTorch', function()
  local table_ = {
    {'bool', 'uint8', 'uint8'}, {'bool', 'int64', 'int64'}, {'bool', 'float32', 'float32'},
      {'uint8', 'int32', 'int32'},
    {'uint8', 'int64', 'int64'}, {'int32', 'int64', 'int64'}, {'int64', 'float32', 'float32'},
    {'int32', 'float64', 'float64'}, {'float32', 'float64', 'float64'}, {'uint8', 'uint8', 'uint8'},
    {'bool', 'bool', 'bool'}}
  for _, row in ipairs(table_) do
    eq((of[row[1]] + of[row[2]]).dtype, row[3])
    eq((of[row[2]] * of[row[1]]).dtype, row[3])
    eq(mt.maximum(of[row[1]], of[row[2]]).dtype, row[3])
    eq(mt.cat{of[row[1]], of[row[2]]}.dtype, row[3])
  end
  eq((of.int32 / of.int32).dtype, 'float32')
  eq((of.uint8 / of.float64).dtype, 'float64')
  eq(of.int64:floor_divide(of.int32).dtype, 'int64')
end)

test('a 0-d tensor does not promote within its category', function()
  eq((of.uint8 + mt.tensor(2, 'int64')).dtype, 'uint8')
  eq((of.float32 + mt.tensor(2, 'float64')).dtype, 'float32')
  eq((of.int32 + mt.tensor(2.5, 'float64')).dtype, 'float64')
  eq((mt.tensor(2, 'uint8') + mt.tensor(2, 'int64')).dtype, 'int64')
end)

test('a number adopts the dtype of the tensor', function()
  for dtype, x in pairs(of) do
    local whole = dtype == 'bool' and 'int64' or dtype
    local broken = dtype:find('float') and dtype or 'float32'
    eq((x + 1).dtype, whole)
    eq((1 - x).dtype, whole)
    eq((x * 2.5).dtype, broken)
    eq((2.5 + x).dtype, broken)
    eq(mt.where(mt.tensor{true, false}, x, 0).dtype, dtype == 'bool' and 'int64' or dtype)
  end
  is(of.int64 + 0.5, {1.5, 1.5}, 'float32')
  is(of.bool + of.bool, {true, true}, 'bool')
  is(of.bool + 1, {2, 2}, 'int64')
end)

test('conversions', function()
  local x = mt.tensor{-1.7, 0, 2.7}
  is(x:long(), {-1, 0, 2}, 'int64')
  is(x:int(), {-1, 0, 2}, 'int32')
  is(x:bool(), {true, false, true}, 'bool')
  is(mt.tensor{0, 2, 255}:byte(), {0, 2, 255}, 'uint8')
  eq({x:double().dtype, x:float().dtype, x:to('float64').dtype, x:to('int32').dtype}, {'float64',
    'float32', 'float64',
                                                                                    'int32'})
  is(x:to('cpu', 'int64'), {-1, 0, 2}, 'int64')
  eq(x:type_as(of.float64).dtype, 'float64')
  near(x:double():tolist(), {-1.7, 0, 2.7})
  is(of.bool:float(), {1, 1}, 'float32')
  eq(x:cpu().device, 'cpu')
end)

-- Elementwise -------------------------------------------------------------------------------------

test('operators, with a number on either side', function()
  local x, y = mt.tensor{1, 2, 4}, mt.tensor{2, 2, 2}
  is(x + y, {3, 4, 6})
  is(x - y, {-1, 0, 2})
  is(x * y, {2, 4, 8})
  is(x / y, {0.5, 1, 2})
  is(x ^ y, {1, 4, 16})
  is(x % y, {1, 0, 0})
  is(-x, {-1, -2, -4})
  is(10 + x, {11, 12, 14})
  is(10 - x, {9, 8, 6})
  is(10 * x, {10, 20, 40})
  is(8 / x, {8, 4, 2})
  is(2 ^ x, {2, 4, 16})
  is(7 % x, {0, 1, 3})
  is(x - 1, {0, 1, 3})
  is(mt.tensor{-7, 7} % 3, {2, 1})
  is(mt.tensor{-7, 7}:fmod(3), {-1, 1})
  is(mt.tensor({-7, 7}, 'int64') % 3, {2, 1}, 'int64')
  is(mt.tensor({-7, 7}, 'int64'):floor_divide(2), {-4, 3}, 'int64')
  is(mt.tensor({7}, 'int64') / 2, {3.5}, 'float32')
  is(mt.tensor({2, 3}, 'int64') ^ 2, {4, 9}, 'int64')
  is(x:add(1), {2, 3, 5})
  is(mt.add(1, x), {2, 3, 5})
  is(mt.sub(10, x), {9, 8, 6})
end)

test('broadcasting', function()
  local column, row = mt.tensor{{10}, {20}}, mt.tensor{1, 2, 3}
  is(column + row, {{11, 12, 13}, {21, 22, 23}})
  is(mt.tensor(1) + row, {2, 3, 4})
  shape(mt.ones(2, 1, 4) * mt.ones(3, 1), 2, 3, 4)
  raises(function() return mt.ones(2, 3) + mt.ones(4) end,
    'add: shapes %(2 x 3%) and %(4%) do not broadcast')
  raises(function() return mt.ones(0) + mt.ones(2) end,
    'add: shapes %(0%) and %(2%) do not broadcast')
  raises(function() return mt.ones(2, 3) * mt.ones(3, 4) end, 'neither is 1; the matrix product is x:matmul%(y%)')
  raises(function() return mt.ones(2, 3) * mt.ones(4, 3) end, 'neither is 1$')
end)

test('comparisons are methods and give bool', function()
  local x, y = mt.tensor{1, 2, 3}, mt.tensor{2, 2, 2}
  is(x:lt(y), {true, false, false}, 'bool')
  is(x:le(y), {true, true, false}, 'bool')
  is(x:gt(y), {false, false, true}, 'bool')
  is(x:ge(y), {false, true, true}, 'bool')
  is(x:eq(y), {false, true, false}, 'bool')
  is(x:ne(y), {true, false, true}, 'bool')
  is(x:lt(2), {true, false, false})
  is(mt.gt(2, x), {true, false, false})
  is(mt.tensor{nan}:eq(nan), {false})
  is(mt.tensor({1, 2}, 'int64'):lt(1.5), {true, false})
  raises(function() return x < y end, "x:lt%(y%)")
  raises(function() return x <= y end, "x:le%(y%)")
  raises(function() return x > y end, "x:gt%(y%)")
  raises(function() return x < 0 end, 'compare')
end)

test('logic and masks', function()
  local a, b = mt.tensor{true, true, false}, mt.tensor{true, false, false}
  is(a:logical_and(b), {true, false, false})
  is(a:logical_or(b), {true, true, false})
  is(a:logical_xor(b), {false, true, false})
  is(a:logical_not(), {false, false, true})
  is(mt.where(a, mt.tensor{1, 2, 3}, mt.tensor{-1, -2, -3}), {1, 2, -3})
  is(mt.where(a, 1, 0), {1, 1, 0})
  raises(function() mt.where(mt.ones(3), 1, 0) end,
    'where: the condition must be a bool tensor, this one is float32')
  is(mt.tensor{nan, inf, 1}:isnan(), {true, false, false})
  is(mt.tensor{nan, inf, 1}:isinf(), {false, true, false})
  is(mt.tensor{nan, inf, 1}:isfinite(), {false, false, true})
end)

test('common functions against Lua\'s own', function()
  local list = {0.1, 0.5, 1, 1.7, 3}
  local x = mt.tensor(list, 'float64')
  local reference = {
    exp = math.exp, log = math.log, sin = math.sin, cos = math.cos, sqrt = math.sqrt,
      tanh = math.tanh, abs = math.abs,
    floor = math.floor, ceil = math.ceil, neg = function(v) return -v end,
      square = function(v) return v * v end,
    reciprocal = function(v) return 1 / v end, rsqrt = function(v) return 1 / math.sqrt(v) end,
    log2 = function(v) return math.log(v) / math.log(2) end, log10 = math.log10,
    expm1 = function(v) return math.exp(v) - 1 end, log1p = function(v) return math.log(1 + v) end,
    sigmoid = function(v) return 1 / (1 + math.exp(-v)) end, relu = function(v) return math.max(v,
      0) end,
    softplus = function(v) return math.log(1 + math.exp(v)) end,
      silu = function(v) return v / (1 + math.exp(-v)) end,
    sign = function(v) return v > 0 and 1 or v < 0 and -1 or 0 end}
  for name, f in pairs(reference) do
    for _, sign in ipairs(({log = 1, sqrt = 1, rsqrt = 1, log2 = 1, log10 = 1,
      log1p = 1})[name] and {1} or {1, -1}) do
      local wanted = {}
      for i, v in ipairs(list) do wanted[i] = f(sign * v) end
      near((x * sign)[name](x * sign):tolist(), wanted, 1e-12)
      near((x * sign):float()[name]((x * sign):float()):tolist(), wanted, 1e-5)
    end
  end
  near(x:atan2(2):tolist()[3], math.atan2(1, 2), 1e-12)
  near(mt.tensor(3):hypot(4):item(), 5)
  is(mt.tensor{-2, 0.5, 9}:clamp(0, 1), {0, 0.5, 1})
  is(mt.tensor{-2, 0.5, 9}:clamp{min = 0}, {0, 0.5, 9})
  is(mt.tensor{-2, 0.5, 9}:clamp{max = 1}, {-2, 0.5, 1})
  is(mt.minimum(mt.tensor{1, 5}, mt.tensor{3, 2}), {1, 2})
  is(mt.maximum(mt.tensor{1, 5}, 3), {3, 5})
  is(mt.tensor{0.5, 1.5, 2.5, -0.5}:round(), {0, 2, 2, 0})
  is(mt.tensor{-1.5, 1.5}:trunc(), {-1, 1})
  is(mt.tensor{-10, 10}:leaky_relu(0.1), {-1, 10})
  is(mt.lerp(mt.tensor{0}, mt.tensor{10}, 0.25), {2.5})
  is(mt.tensor({1, 4}, 'int64'):sqrt(), {1, 2}, 'float32')
end)

test('NaN and infinity propagate', function()
  is(mt.tensor{nan, 1}:relu(), {nan, 1})
  is(mt.maximum(mt.tensor{nan, 1}, 0), {nan, 1})
  is(mt.tensor{nan}:clamp(0, 1), {nan})
  is(mt.tensor{1, -1, 0} / 0, {inf, -inf, nan})
  is(mt.tensor{0}:log(), {-inf})
  is(mt.tensor{-1}:sqrt(), {nan})
  is(mt.tensor{nan, 1, 2}:max(), nan)
  is(mt.tensor{1, nan, 2}:argmax(), 2)
  eq(1 / (mt.tensor{0 / -1} * 1):item(), -inf)
end)

test('a trailing _ changes the tensor and returns it', function()
  local x = mt.tensor{1, 2}
  local y = x:view(2, 1)
  assert(x:add_(1) == x)
  is(x, {2, 3})
  is(y, {{2}, {3}})
  x:mul_(2):sub_(1)
  is(x, {3, 5})
  x:copy_(mt.tensor{7})
  is(x, {7, 7})
  x:fill_(3):zero_()
  is(x, {0, 0})
  x:add_(x:exp())
  is(x, {1, 1})
  raises(function() x:add_(mt.ones(2, 2)) end, 'add_: the result is %(2 x 2%), the tensor %(2%)')
  raises(function() mt.ones({2}, 'int64'):add_(0.5) end, 'add_: .*float32.*int64')
  raises(function() mt.ones(1):expand(3):add_(1) end, 'add_: the tensor is expanded in dimension 1')
end)

test('overlapping views in place', function()
  local x = mt.tensor{1, 2, 3, 4}
  x[{{2, 4}}]:add_(x[{{1, 3}}])
  is(x, {1, 3, 5, 7})
  local y = mt.tensor{{1, 2}, {3, 4}}
  y:add_(y:t())
  is(y, {{2, 5}, {5, 8}})
  y:copy_(y:t())
  is(y, {{2, 5}, {5, 8}})
end)

-- Reductions --------------------------------------------------------------------------------------

test('sum, mean, prod', function()
  local x = mt.tensor{{1, 2, 3}, {4, 5, 6}}
  is(x:sum(), 21)
  is(x:sum(1), {5, 7, 9})
  is(x:sum(2), {6, 15})
  is(x:sum(-1), {6, 15})
  is(x:sum(-1, true), {{6}, {15}})
  is(x:mean(), 3.5)
  is(x:mean(1), {2.5, 3.5, 4.5})
  is(x:prod(2), {6, 120})
  is(x:prod(), 720)
  is(x:t():sum(1), {6, 15})
  is(mt.tensor({1, 2}, 'int32'):sum(), 3, 'int64')
  is(mt.tensor{true, true, false}:sum(), 2, 'int64')
  is(mt.zeros(0):sum(), 0)
  is(mt.zeros(0):prod(), 1)
  is(mt.zeros(0):mean(), nan)
  is(mt.tensor(5):sum(), 5)
  shape(mt.ones(2, 3, 4):sum{1, 3}, 3)
  shape(mt.ones(2, 3, 4):mean({1, -1}, true), 1, 3, 1)
  raises(function() x:mean({1, 1}) end, 'mean: dimension 1 is named twice')
  raises(function() mt.ones({2}, 'int64'):mean() end, 'mean: .* float tensor, got int64.*:float%(%)')
end)

test('a long sum is accurate', function()
  local x = mt.full({2 ^ 20}, 0.1)
  near(x:sum():item() / 2 ^ 20, 0.1, 1e-7)
  eq(mt.full({300}, 255, 'uint8'):sum():item(), 76500)
end)

test('all and any are Lua booleans for the whole tensor', function()
  local x = mt.tensor{{true, false}, {true, true}}
  eq({x:all(), x:any(), x:logical_not():any(), mt.zeros(2):any()}, {false, true, true, false})
  eq({mt.zeros(0):all(), mt.zeros(0):any()}, {true, false})
  is(x:all(1), {true, false}, 'bool')
  is(x:any(2), {true, true}, 'bool')
  eq({mt.equal(x, x), mt.equal(x, x:t()), mt.equal(mt.ones(2), mt.ones(2, 1))}, {true, false,
    false})
  eq({mt.allclose(mt.ones(2), mt.ones(2) + 1e-7), mt.allclose(mt.ones(2), mt.full({2}, 1.1))},
    {true, false})
  eq({mt.allclose(mt.ones(2), mt.full({2}, 1.1), {atol = 0.2}), mt.ones(2):allclose(mt.ones(2))},
    {true, true})
  local n = mt.tensor{nan}
  eq({mt.allclose(n, n), mt.allclose(n, n, {equal_nan = true}), mt.allclose(mt.tensor{inf},
    mt.tensor{inf}),
      mt.allclose(mt.tensor{inf}, mt.tensor{-inf})}, {false, true, true, false})
  mt.test_close(mt.ones(2), mt.ones(2) + 1e-6)
  raises(function() mt.test_close(mt.tensor{1, 2}, mt.tensor{1, 3}) end,
    'test_close: 1 of 2 .*x:at%(2%): 2 and 3')
  raises(function() mt.test_close(n, n) end, 'test_close: 1 of 1')
  raises(function() mt.test_close(mt.tensor{1}, mt.tensor{1.05}, 0.01) end, 'by 0.01 or more')
end)

test('max and min: one tensor, or values and positions', function()
  local x = mt.tensor{{1, 9, 3}, {7, 5, 7}}
  is(x:max(), 9)
  is(x:min(), 1)
  local values, where = x:max(2)
  is(values, {9, 7}, 'float32')
  is(where, {2, 1}, 'int64')
  values, where = x:min(1)
  is(values, {1, 5, 3})
  is(where, {1, 2, 1})
  values, where = x:max{dim = -1, keepdim = true}
  is(values, {{9}, {7}})
  is(where, {{2}, {1}})
  is(x:max(mt.full({2, 3}, 6)), {{6, 9, 6}, {7, 6, 7}})
  is(mt.min(x, mt.tensor(6)), {{1, 6, 3}, {6, 5, 6}})
  is(x:argmax(), 2, 'int64')
  is(x:argmax(1), {2, 1, 2})
  is(x:argmin(2, true), {{1}, {2}})
  is(x:amax{1, 2}, 9)
  is(x:amin(1), {1, 5, 3})
  eq(select('#', x:max()), 1)
  eq(select('#', x:max(1)), 2)
  values, where = mt.tensor(5):max(1)
  eq({values:item(), where:item()}, {5, 1})
end)

-- Shapes ------------------------------------------------------------------------------------------

test('views share memory', function()
  local x = mt.range(1, 6)
  local views = {x:view(2, 3), x:view(2, 3):t(), x:view(2, -1):transpose(1, 2), x:unsqueeze(1),
    x:view(1, 6):squeeze(),
                 x:view(2, 3):permute(2, 1), x[{{3, 5}}], x:detach(), x:narrow(1, 1, 2), x:view(2,
                   3):flatten(),
                 x:view(2, 3):reshape(3, 2), x:contiguous(), x:expand(2, 6)}
  x:fill_(0)
  for i, v in ipairs(views) do assert(not v:any(), 'view ' .. i .. ' does not share') end
  for _, f in ipairs{function(y) return y:clone() end, function(y) return y:view(2,
    3):t():reshape(6) end,
                     function(y) return y:view(2, 3):t():contiguous() end,
                       function(y) return y:long():double() end,
                     function(y) return mt.cat{y} end} do
    local y = mt.range(1, 6)
    local copy = f(y)
    y:fill_(0)
    assert(copy:any(), 'should be a copy')
  end
end)

test('view, reshape, flatten', function()
  local x = mt.range(1, 6)
  is(x:view(2, 3), {{1, 2, 3}, {4, 5, 6}})
  is(x:view(-1, 2), {{1, 2}, {3, 4}, {5, 6}})
  is(x:view({3, 2}), {{1, 2}, {3, 4}, {5, 6}})
  is(x:view(2, 3):t():reshape(6), {1, 4, 2, 5, 3, 6})
  is(x:view(6, 1, 1):view(6), {1, 2, 3, 4, 5, 6})
  is(mt.ones(2, 3):flatten(), {1, 1, 1, 1, 1, 1})
  shape(mt.ones(2, 3, 4):flatten(2), 2, 12)
  shape(mt.ones(2, 3, 4):flatten(1, 2), 6, 4)
  shape(mt.ones(2, 3, 4):flatten(1, -2), 6, 4)
  shape(mt.tensor(5):flatten(), 1)
  shape(mt.tensor(5):view(1, 1), 1, 1)
  shape(mt.ones(1, 1):view({}))
end)

test('permute, transpose, squeeze, expand, narrow, select', function()
  local x = mt.ones(2, 3, 4)
  shape(x:permute(3, 1, 2), 4, 2, 3)
  shape(x:permute{3, 1, 2}, 4, 2, 3)
  shape(x:permute(-1, 1, -2), 4, 2, 3)
  shape(x:transpose(1, -1), 4, 3, 2)
  is(mt.tensor{{1, 2}, {3, 4}}:t(), {{1, 3}, {2, 4}})
  shape(mt.ones(3):t(), 3)
  shape(mt.ones(1, 2, 1):squeeze(), 2)
  shape(mt.ones(1, 2, 1):squeeze(1), 2, 1)
  shape(mt.ones(1, 2, 1):squeeze(-1), 1, 2)
  shape(mt.ones(1, 2, 1):squeeze(2), 1, 2, 1)
  shape(mt.ones(2, 3):unsqueeze(1), 1, 2, 3)
  shape(mt.ones(2, 3):unsqueeze(3), 2, 3, 1)
  shape(mt.ones(2, 3):unsqueeze(-1), 2, 3, 1)
  shape(mt.ones(2, 3):unsqueeze(-3), 1, 2, 3)
  is(mt.tensor{{1}, {2}}:expand(2, 3), {{1, 1, 1}, {2, 2, 2}})
  is(mt.tensor{1, 2}:expand(2, -1), {{1, 2}, {1, 2}})
  shape(mt.tensor(5):expand(2, 3), 2, 3)
  shape(mt.ones(1):expand_as(mt.ones(4, 5)), 4, 5)
  is(mt.range(1, 5):narrow(1, 2, 3), {2, 3, 4})
  is(mt.range(1, 5):narrow(1, -2, 2), {4, 5})
  is(mt.range(1, 6):view(2, 3):select(2, 3), {3, 6})
  is(mt.range(1, 6):view(2, 3):select(1, -1), {4, 5, 6})
end)

test('cat and stack', function()
  local a, b = mt.tensor{{1, 2}}, mt.tensor{{3, 4}}
  is(mt.cat{a, b}, {{1, 2}, {3, 4}})
  is(mt.cat({a, b}), {{1, 2}, {3, 4}})
  for _, y in ipairs{mt.cat({a, b}, 2), mt.cat({a, b}, {dim = 2}), mt.cat{a, b, dim = 2}, mt.cat{a,
    b, dim = -1}} do
    is(y, {{1, 2, 3, 4}})
  end
  is(mt.stack{mt.tensor(1), mt.tensor(2)}, {1, 2})
  shape(mt.stack{a, b}, 2, 1, 2)
  shape(mt.stack{a, b, dim = 3}, 1, 2, 2)
  shape(mt.stack{a, b, dim = -1}, 1, 2, 2)
  is(mt.cat{mt.zeros(0), mt.ones(2)}, {1, 1})
  is(mt.cat{a:t(), b:t(), dim = 2}, {{1, 3}, {2, 4}})
  raises(function() mt.cat{} end, 'cat: at least one tensor')
  raises(function() mt.cat{a, mt.ones(3)} end, 'cat: tensor 2 is %(3%)')
  raises(function() mt.cat{a, b, dim = 3} end, 'cat: dimension 3')
end)

-- Products and losses -----------------------------------------------------------------------------

test('matmul of vectors, matrices and batches', function()
  local m = mt.tensor{{1, 2}, {3, 4}}
  local v = mt.tensor{5, 6}
  is(m:matmul(m), {{7, 10}, {15, 22}})
  is(m:matmul(v), {17, 39})
  is(v:matmul(m), {23, 34})
  is(v:matmul(v), 61)
  is(v:dot(v), 61)
  is(m:mm(m:t()), {{5, 11}, {11, 25}})
  is(m:t():matmul(m), {{10, 14}, {14, 20}})
  shape(mt.ones(5, 2, 3):matmul(mt.ones(3, 4)), 5, 2, 4)
  shape(mt.ones(5, 1, 2, 3):matmul(mt.ones(7, 3, 4)), 5, 7, 2, 4)
  shape(mt.ones(5, 2, 3):matmul(mt.ones(3)), 5, 2)
  shape(mt.ones(3):matmul(mt.ones(5, 3, 2)), 5, 2)
  is(mt.tensor({{2}}, 'int64'):matmul(mt.tensor({{3}}, 'int64')), {{6}}, 'int64')
  eq(mt.ones(2, 2):matmul(mt.ones({2, 2}, 'float64')).dtype, 'float64')
  raises(function() mt.ones(2, 3):matmul(mt.ones(4, 3)) end,
    'inner sizes differ: %(2 x 3%) and %(4 x 3%).*w:t%(%)')
end)

test('matmul agrees with a loop, for many shapes and layouts', function()
  mt.manual_seed(3)
  for _, n in ipairs{{1, 1, 1}, {3, 5, 7}, {17, 1, 33}, {64, 64, 64}, {65, 31, 9}, {2, 300, 3},
    {130, 17, 70}} do
    local a, b = mt.randn({n[1], n[2]}, 'float64'), mt.randn({n[3], n[2]}, 'float64')
    local wanted = (a:unsqueeze(2) * b:unsqueeze(1)):sum(3)
    mt.test_close(a:matmul(b:t()), wanted, 1e-10)
    mt.test_close(a:t():contiguous():t():matmul(b:t():contiguous()), wanted, 1e-10)
    mt.test_close(a:float():matmul(b:float():t()), wanted:float(), 1e-3)
    mt.test_close(b:matmul(a:t()), wanted:t(), 1e-10)
  end
end)

test('zero-size tensors', function()
  shape(mt.zeros(2, 0), 2, 0)
  shape(mt.ones(0, 3), 0, 3)
  eq(mt.zeros(2, 0):tolist(), {{}, {}})
  is(mt.zeros(2, 0):fill_(1):add_(1):exp(), {{}, {}})
  is(mt.zeros(0, 3):sum(1), {0, 0, 0})
  is(mt.zeros(3, 0):sum(1), {})
  is(mt.zeros(0, 2):argmax(2), {})
  is(mt.ones(2, 0):matmul(mt.ones(0, 2)), {{0, 0}, {0, 0}})
  shape(mt.ones(0, 3):matmul(mt.ones(3, 2)), 0, 2)
  shape(mt.ones(0, 3) + mt.ones(3), 0, 3)
  shape(mt.ones(1, 3) + mt.ones(0, 3), 0, 3)
  shape(mt.zeros(0, 4):reshape(2, 0), 2, 0)
  shape(mt.zeros(0):view(0, 5), 0, 5)
  shape(mt.zeros(0):view(-1, 5), 0, 5)
  shape(mt.rand(2, 0, 3):permute(3, 1, 2), 3, 2, 0)
  raises(function() mt.zeros(0):max() end, 'max: .*%(0%)')
  raises(function() mt.zeros(2, 0):argmax(2) end, 'argmax: .*%(2 x 0%)')
  local x = mt.zeros(2, 0, {requires_grad = true})
  x:exp():sum():backward()
  eq(x.grad:tolist(), {{}, {}})
end)

test('losses', function()
  local x, y = mt.tensor{0.5, 0.25}, mt.tensor{1, 0}
  near(mt.mse_loss(x, y):item(), (0.25 + 0.0625) / 2)
  near(mt.mse_loss(x, y, 'sum'):item(), 0.3125)
  near(mt.mse_loss(x, y, {reduction = 'none'}):tolist(), {0.25, 0.0625})
  near(mt.binary_cross_entropy(x, y):item(), -(math.log(0.5) + math.log(0.75)) / 2)
  near(mt.binary_cross_entropy(mt.tensor{0, 1}, mt.tensor{1, 1}, nil, 'none'):tolist(), {100, 0})
  near(mt.binary_cross_entropy_with_logits(mt.tensor{0, 1000}, mt.tensor{1, 1}, nil, 'none'):tolist(),
    {math.log(2), 0})
  local logits = mt.tensor{{1, 2, 3}, {0, 0, 0}}
  local first = math.log(math.exp(1) + math.exp(2) + math.exp(3)) - 3
  near(mt.cross_entropy(logits, mt.tensor({3, 1}, 'int64')):item(), (first + math.log(3)) / 2)
  near(mt.cross_entropy(logits, mt.tensor({3, 1}, 'int64'), {reduction = 'none'}):tolist(), {first,
    math.log(3)})
  near(mt.cross_entropy(logits, mt.tensor({3, -100}, 'int64')):item(), first)
  near(mt.cross_entropy(logits, mt.tensor({3, 2}, 'int32'), {ignore_index = 2}):item(), first)
  near(mt.cross_entropy(mt.tensor{{1e4, 0}}, mt.tensor({2}, 'int64')):item(), 1e4)
  near(mt.softmax(logits, 2):sum(2):tolist(), {1, 1})
  near(mt.softmax(mt.tensor{1e4, 1e4 + 1, -1e4}, 1):tolist(), {0.268941, 0.731059, 0}, 1e-5)
  near(mt.log_softmax(mt.tensor{0, 0}, -1):tolist(), {-math.log(2), -math.log(2)})
  near(mt.cross_entropy(logits, mt.tensor({3, 3}, 'int64')):item(),
       -(mt.log_softmax(logits, 2)[{{}, 3}]:mean():item()))
end)

test('labels count from 1, and an error names a wrong one', function()
  local logits = mt.zeros(2, 3)
  for _, label in ipairs{0, -1, 4, -99, -101, 1000} do
    raises(function() mt.cross_entropy(logits, mt.tensor({1, label}, 'int64')) end,
           'cross_entropy: target 2 is ' .. (tostring(label):gsub('%-',
             '%%-')) .. ', expected 1%.%.3')
  end
  raises(function() mt.cross_entropy(logits, mt.tensor{1, 2}) end,
    'targets are class positions.*float32.*:long%(%)')
  raises(function() mt.cross_entropy(logits, 'foo') end,
    "cross_entropy: argument 2 'target' must be a tensor")
  eq(mt.is_grad_enabled(), true)
end)

-- Random numbers ----------------------------------------------------------------------------------

test('the seed determines the numbers', function()
  local function draw()
    return {mt.rand(3):tolist(), mt.randn(3):tolist(), mt.randint(1, 100, {5}):tolist(),
      mt.randperm(6):tolist()}
  end
  mt.manual_seed(5)
  local a, b = draw(), draw()
  mt.manual_seed(5)
  eq(draw(), a)
  eq(draw(), b)
  assert(a[1][1] ~= b[1][1])
  mt.manual_seed(6)
  assert(draw()[1][1] ~= a[1][1])
end)

test('distributions', function()
  mt.manual_seed(1)
  local n = 100000
  local u = mt.rand(n)
  assert(u:min():item() >= 0 and u:max():item() < 1)
  near(u:mean():item(), 0.5, 0.01)
  near((u * u):mean():item(), 1 / 3, 0.01)
  local g = mt.randn(n)
  near(g:mean():item(), 0, 0.02)
  near((g * g):mean():item(), 1, 0.03)
  near((g ^ 4):mean():item(), 3, 0.2)
  local d = mt.randint(1, 6, {n})
  eq({d.dtype, d:min():item(), d:max():item()}, {'int64', 1, 6})
  for side = 1, 6 do near(d:eq(side):sum():item() / n, 1 / 6, 0.01) end
  is(mt.randint(4, 4, {3}), {4, 4, 4})
  shape(mt.randint(1, 2, {2, 3}), 2, 3)
  local seen = {}
  local p = mt.randperm(50)
  eq(p.dtype, 'int64')
  for _, v in ipairs(p:tolist()) do seen[v] = true end
  for v = 1, 50 do assert(seen[v], v .. ' is missing') end
  is(mt.randperm(0), {})
  eq(mt.rand(2, {dtype = 'float64'}).dtype, 'float64')
  raises(function() mt.rand(2, {dtype = 'int64'}) end, 'rand: int64')
end)

test('threads do not change bits', function()
  t.on_threads(function()
    mt.manual_seed(9)
    local a = mt.randn(301, 257)
    local b = mt.randn(257, 129)
    local c = a:matmul(b)
    return mt.stack{c:sum(), a:sum(), a:exp():mean(), a:sum(1):max(), c:tanh():prod(),
      a:t():sum(2):min()}
  end)
end)

t.finish()
