-- test_create.lua -- creating tensors: like others, from bytes, strided; default dtype; conversions
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

test('logspace and linspace', function()
  near(mt.logspace(0, 3, 4):tolist(), {1, 10, 100, 1000}, 1e-4)
  near(mt.logspace(-1, 1, 3, 2):tolist(), {0.5, 1, 2})
  near(mt.logspace(0, 1, 3, {base = 2, dtype = 'float64'}):tolist(), {1, math.sqrt(2), 2}, 1e-15)
  eq(mt.logspace(0, 1, 0):numel(), 0)
  eq(mt.linspace(0, 1, 5):tolist(), {0, 0.25, 0.5, 0.75, 1})
  eq(mt.linspace(3, 9, 1):tolist(), {3})
end)

test('the conversions make tensors of lists too', function()
  for name, dtype in pairs{float = 'float32', double = 'float64', long = 'int64', int = 'int32', short = 'int16',
      char = 'int8', byte = 'uint8', half = 'float16', bfloat16 = 'bfloat16'} do
    local x = mt[name]{{1, 2}, {3, 4}}
    eq({x.dtype, x:tolist()}, {dtype, {{1, 2}, {3, 4}}})
    eq({mt[name](5).dtype, mt[name](mt.ones(1)).dtype, mt.ones(1)[name](mt.ones(1)).dtype}, {dtype, dtype, dtype})
  end
  eq(mt.bool{true, false}:tolist(), {true, false})
  eq(mt.randn(3)[mt.long{1, 3}].shape[1], 2)
  raises(function() return (mt.long{1, 2.5}) end, 'long: ')
  raises(function() return (mt.long()) end, 'long: argument 1 ')
end)

test('positions of triangles', function()
  local function check(rows, columns, offset)
    for _, name in ipairs{'tril', 'triu'} do
      local wanted = mt.ones(rows, columns)[name](mt.ones(rows, columns), offset):nonzero():t()
      eq(mt.equal(mt[name .. '_indices'](rows, columns, offset), wanted), true)
    end
  end
  for rows = 1, 4 do
    for columns = 1, 4 do
      for offset = -5, 5 do check(rows, columns, offset) end
    end
  end
  for _, offset in ipairs{-300, -1, 0, 170, 390} do check(500, 400, offset) end -- in several strips
  -- Computed by a formula, without a loop over the rows.
  eq(mt.tril_indices(2 ^ 40, 1, -2 ^ 41).shape, {2, 0})
  eq(mt.tril_indices(2 ^ 31, 0).shape, {2, 0})
  eq(mt.tril_indices(2 ^ 40, 3, 2 - 2 ^ 40):tolist(), {{2 ^ 40 - 1, 2 ^ 40, 2 ^ 40}, {1, 1, 2}})
  eq(mt.triu_indices(2 ^ 40, 2, 0):tolist(), {{1, 1, 2}, {1, 2, 2}})
end)

test('like another tensor', function()
  local x = mt.zeros({2, 3}, 'int32')
  eq(mt.full_like(x, 7):tolist(), {{7, 7, 7}, {7, 7, 7}})
  eq(x:full_like(2.5, {dtype = 'float64'}):tolist()[1], {2.5, 2.5, 2.5})
  eq({x:empty_like().dtype, tostring(x:empty_like().shape)}, {'int32', '(2, 3)'})
  eq({x:new_zeros(2, 2).dtype, x:new_ones({3}):tolist()}, {'int32', {1, 1, 1}})
  eq(x:new_full({2}, 5):tolist(), {5, 5})
  eq(x:new_tensor{1, 2}.dtype, 'int32')
  eq(x:new_tensor({1, 2}, {dtype = 'bool'}):tolist(), {true, true})
  eq({x:new_empty(0, 4).dtype, x:new_zeros{4, dtype = 'float64'}.dtype}, {'int32', 'float64'})
  eq(mt.zeros(2):new_ones(2, {requires_grad = true}).requires_grad, true)
end)

test('from the bytes of a string', function()
  eq(mt.frombuffer('\1\2\255', {dtype = 'uint8'}):tolist(), {1, 2, 255})
  eq(mt.frombuffer('\1\0\0\0\255\255\255\255', {dtype = 'int32'}):tolist(), {1, -1})
  eq(mt.frombuffer('\0\0\128\63', {shape = {1, 1}}):tolist(), {{1}})
  eq(mt.frombuffer('\0\2', {dtype = 'bool'}):tolist(), {false, true})
  eq(mt.frombuffer('', {dtype = 'int64'}):numel(), 0)
  eq(mt.frombuffer('', {dtype = 'int64', shape = {0, 3}}).shape[2], 3)
  eq(mt.frombuffer('a', {dtype = 'uint8', shape = {}}):item(), 97)
  raises(function() mt.frombuffer('abc') end, '3 bytes are not a whole number of float32 elements')
  raises(function() mt.frombuffer('abcd', {shape = {2}}) end, 'needs 8 bytes, the string has 4')
  raises(function() mt.frombuffer('abcd', {shape = {2 ^ 50}}) end, 'more elements than memory')
  raises(function() mt.frombuffer('abcd', {shape = {-1}}) end, 'negative')
  raises(function() mt.frombuffer({1}) end, 'must be a string')
end)

test('NaNs of every kind are numbers in data()', function()
  for _, bytes in ipairs{'\255\255\255\255', '\1\0\192\255', '\1\0\128\127'} do
    local value = mt.frombuffer('\0\0\128\63' .. bytes):cpu():data()
    eq({value[0], type(value[1]), value[1] ~= value[1]}, {1, 'number', true})
  end
  for _, bytes in ipairs{'\0\0\0\0\0\0\250\255', '\65\65\65\65\0\0\250\255', '\0\0\0\0\0\0\249\127'} do
    local value = mt.frombuffer(bytes, {dtype = 'float64'}):cpu():data()[0]
    eq({type(value), value ~= value}, {'number', true})
  end
  eq(mt.tensor{-math.huge}:cpu():data()[0], -math.huge)
end)

test('ranges and numbers of int64 beyond 2^53', function()
  eq((mt.range(2 ^ 53, 2 ^ 53 + 4) - 2 ^ 53):tolist(), {0, 1, 2, 3, 4})
  eq((mt.range(2 ^ 62, 2 ^ 62 + 1024, 512) - 2 ^ 62):tolist(), {0, 512, 1024})
  eq(mt.range(3, 3, 1e19):tolist(), {3})
  eq(mt.tensor({-2 ^ 63 + 4096}, 'int64'):eq(-2 ^ 63):tolist(), {false})
  local difference = mt.tensor({2 ^ 63 - 1024}, 'int64') - (2 ^ 63 - 2048)
  eq({difference:item(), difference.dtype}, {1024, 'int64'})
end)

test('the default dtype is honoured everywhere', function()
  eq(mt.get_default_dtype(), 'float32')
  mt.set_default_dtype('float64')
  local made = {mt.tensor{1}, mt.zeros(1), mt.ones(1), mt.empty(1), mt.full({1}, 2), mt.eye(1),
    mt.linspace(0, 1, 2), mt.logspace(0, 1, 2), mt.range(0, 1, 0.5),
    mt.frombuffer('12345678'), mt.tensor({1}, 'int64') / 2, mt.tensor({1}, 'int64') + 0.5,
    mt.tensor({1}, 'int64'):exp()}
  local name = mt.get_default_dtype()
  mt.set_default_dtype('float32')
  eq(name, 'float64')
  for _, x in ipairs(made) do eq(x.dtype, 'float64') end
  eq(mt.range(1, 3).dtype, 'int64')
  raises(function() mt.set_default_dtype('int64') end, 'not a float type')
end)

test('moves between dtypes', function()
  local x, y = mt.tensor{1.5, -2}, mt.zeros({1}, 'int64')
  eq(x:to(y):tolist(), {1, -2})
  eq(x:to(y).dtype, 'int64')
  eq(x:to{dtype = 'float64', device = 'cpu'}.dtype, 'float64')
  eq(x:to('cpu', 'int32').dtype, 'int32')
  eq(x:to{device = 'cpu'}.dtype, 'float32')
  eq({x:half().dtype, x:to('bfloat16').dtype, x:to('cpu', 'float16').dtype}, {'float16', 'bfloat16', 'float16'})
  if not mt.cuda.is_available() then raises(function() x:cuda() end, "cuda: device 'cuda' cannot be used") end
  eq({mt.numel(x), mt.detach(x).requires_grad}, {x:numel(), false})
  raises(function() x:to('flaot') end, "neither a dtype")
  raises(function() x:to() end, 'missing')
end)

test('copies of every layout hold the same elements', function()
  mt.manual_seed(1)
  local function slow(x) return mt.tensor(x:tolist()):to(x.dtype) end
  for _, dtype in ipairs{'float32', 'float64', 'uint8', 'int8', 'int16'} do
    local function whole(...) return mt.randint(0, 200, {...}):to(dtype) end
    for _, n in ipairs{1, 3, 15, 16, 17, 33, 64, 65, 130} do
      for _, m in ipairs{1, 5, 16, 31, 48, 129} do
        local x = whole(n, m)
        for _, y in ipairs{x:t(), x:flip(1):t(), x[{{1, -1, 2}}]:t(), x[{{}, {1, -1, 2}}]} do
          eq(y:contiguous():tolist(), y:tolist())
        end
      end
    end
    local x = whole(3, 20, 5, 17)
    for _, dims in ipairs{{1, 3, 4, 2}, {4, 3, 2, 1}, {2, 1, 4, 3}, {3, 1, 2, 4}, {1, 4, 2, 3}} do
      local y = x:permute(dims)
      eq(y:contiguous():tolist(), y:tolist())
    end
    eq(x:flip(4, 1):tolist(), slow(x:flip(4):flip(1)):tolist())
  end
end)

test('large copies are the same on any number of threads', function()
  local x = mt.randn(3, 300, 301)
  local y = {t.on_threads(function()
    return x:permute(3, 1, 2):contiguous(), x:flip(3, 1), x:roll({5, 7}, {2, 3}), x:tile(1, 2, 1),
      mt.cat{x, x, dim = 3}, x:flatten():flip(1), x:expand(2, 3, 300, 301):clone()
  end)}
  eq(y[1]:permute(2, 3, 1):eq(x):all(), true)
  eq(y[2]:flip(1):flip(3):eq(x):all(), true)
  eq(y[3]:roll({-5, -7}, {2, 3}):eq(x):all(), true)
  eq(y[5][{{}, {}, {302, 602}}]:eq(x):all(), true)
  eq(y[6]:flip(1):eq(x:flatten()):all(), true)
end)

test('bools are never unset', function()
  for _ = 1, 20 do
    mt.frombuffer(('\171'):rep(64), {dtype = 'uint8'})
    eq(mt.empty({64}, {dtype = 'bool'}):any() or mt.zeros(64):empty_like{dtype = 'bool'}:any(), false)
    eq(mt.zeros(3):new_empty(64, {dtype = 'bool'}):any(), false)
    eq(mt.frombuffer('\2\255\0', {dtype = 'bool'}):long():tolist(), {1, 1, 0})
  end
end)

test('a list of any length with options', function()
  local values = {dtype = 'float64'}
  for i = 1, 20000 do values[i] = i end
  eq(mt.tensor(values):sum():item(), 200010000)
  raises(function() return (mt.eye(values)) end, ':%d+: eye: 20000 arguments given, it takes ')
end)

test('a single table: options, and the list if the first argument is one, else the arguments', function()
  local a, b = mt.tensor{1, 2}, mt.tensor{3, 4}
  eq(mt.range{1, 5}:tolist(), {1, 2, 3, 4, 5})
  eq(mt.range{1, 5, 2, dtype = 'float64'}:tolist(), {1, 3, 5})
  eq(mt.linspace{0, 1, 3}:tolist(), {0, 0.5, 1})
  eq(mt.full{{2}, 7}:tolist(), {7, 7})
  eq(mt.where{a:gt(1), a, 0}:tolist(), {0, 2})
  eq(mt.einsum{'i,i', a, b}:item(), 11)
  eq(mt.softmax{a, 1}:tolist(), mt.softmax(a, 1):tolist())
  eq(mt.cat{a, b}:tolist(), {1, 2, 3, 4})
  eq(tostring(mt.nn.Linear{3, 4}), tostring(mt.nn.Linear(3, 4)))
  eq(mt.nn.Softplus{2}(mt.zeros(1)):item(), mt.softplus(mt.zeros(1), 2):item())
  eq(mt.zeros{shape = {2, 3}}.shape, {2, 3})
  eq(a:view{shape = {2, 1}}.shape, {2, 1})
  eq(mt.ones(2, 3):permute{dims = {2, 1}}.shape, {3, 2})
  eq(#a:split{1, 1}, 2) -- one argument, of a tensor
  raises(function() return (mt.zeros{shape = {2}, 3}) end, "zeros: 'shape' is given twice")
  raises(function() return (mt.range{1, 2, 3, 4, 5, 6, 7}) end, 'range: 7 arguments given, it takes 6')
  raises(function() return (mt.range{{1, 2}}) end, "range: argument 2 'last' is missing")
end)

test('a list with a hole', function()
  raises(function() return (mt.zeros{2, nil, 3}) end,
    "zeros: argument 1 'shape' has an entry at %[3%] but nil at %[2%]")
  raises(function() return (mt.zeros{[2] = 3}) end, "zeros: argument 1 'shape' has an entry at %[2%] but nil at %[1%]")
end)

t.finish()
