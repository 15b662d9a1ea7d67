-- test_float8.lua -- float8_e4m3fn and float8_e5m2: every code, rounding, arithmetic, gradients, files
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim
local t = require 'testing'
local inf, nan = math.huge, 0 / 0
local e4, e5 = 'float8_e4m3fn', 'float8_e5m2'
local both = {e4, e5}
local here = arg[0]:match '^(.*/)' or './'

local function list(x) return x:reshape(-1):tolist() end
--- Equal in dtype and elements, also where both are NaN.
local function is(x, values, dtype)
  t.eq(x.dtype, dtype)
  local got = list(x)
  t.eq(#got, #values)
  for i, want in ipairs(values) do
    if got[i] ~= want and (got[i] == got[i] or want == want) then
      error(('entry %d is %.9g, expected %.9g'):format(i, got[i], want), 2)
    end
  end
end
local codes = {}
for i = 0, 255 do codes[i + 1] = string.char(i) end
local every_code = table.concat(codes)

--- The number of a code by its fields, as in the paper of Micikevicius et al. (2022).
local function value_of(code, dtype)
  local m = dtype == e4 and 3 or 2
  local sign, body = code >= 128 and -1 or 1, code % 128
  local exponent, fraction, bias = math.floor(body / 2 ^ m), body % 2 ^ m / 2 ^ m, dtype == e4 and 7 or 15
  if dtype == e4 and body == 127 then return nan end
  if dtype == e5 and exponent == 31 then return fraction == 0 and sign * inf or nan end
  if exponent == 0 then return sign * fraction * 2 ^ (1 - bias) end
  return sign * (1 + fraction) * 2 ^ (exponent - bias)
end

t.test('all 256 codes', function()
  for _, dtype in ipairs(both) do
    local values = {}
    for code = 0, 255 do values[code + 1] = value_of(code, dtype) end
    local x = mt.frombuffer(every_code, {dtype = dtype})
    is(x, values, dtype)
    is(x:float(), values, 'float32')
    is(x:float():to(dtype), values, dtype)
    is(x:double():to(dtype), values, dtype)
    is(x:bfloat16():to(dtype), values, dtype) -- both hold all of them
    is(x:half():to(dtype), values, dtype)
    is(-x, mt.tensor(values):neg():tolist(), dtype)
    is(x:abs(), mt.tensor(values):abs():tolist(), dtype)
    local bits = x:float():to(dtype):cpu():data()
    for code = 0, 255 do
      if values[code + 1] == values[code + 1] then t.eq(bits[code], code) end
    end
    t.eq(x:element_size(), 1)
  end
end)

t.test('casts round to nearest, ties to even; beyond the range as PyTorch', function()
  local function cast(numbers, dtype, values) is(mt.tensor(numbers):to(dtype), values, dtype) end
  cast({1.0625, 1.0626, 1.1875, 1.125, -1.0625, -1.1875}, e4, {1, 1.125, 1.25, 1.125, -1, -1.25})
  cast({448, 463.9, 464, 464.1, 480, 1e9, -464, -465}, e4, {448, 448, 448, nan, nan, nan, -448, nan})
  cast({inf, -inf, nan}, e4, {nan, nan, nan})
  cast({2 ^ -9, 2 ^ -10, 2 ^ -10 * 1.001, 2 ^ -9 * 1.5, 2 ^ -9 * 2.5, 2 ^ -6 * 0.9375, 2 ^ -149}, e4,
    {2 ^ -9, 0, 2 ^ -9, 2 ^ -8, 2 ^ -8, 2 ^ -6, 0})
  cast({1.125, 1.126, 1.375, -1.125}, e5, {1, 1.25, 1.5, -1})
  cast({57344, 61439, 61440, -61440, 1e9, inf, -inf, nan}, e5, {57344, 57344, inf, -inf, inf, inf, -inf, nan})
  cast({2 ^ -16, 2 ^ -17, 2 ^ -17 * 1.001, 2 ^ -16 * 1.5, 2 ^ -16 * 2.5, 2 ^ -14 * 0.875}, e5,
    {2 ^ -16, 0, 2 ^ -16, 2 ^ -15, 2 ^ -15, 2 ^ -14})
  is(mt.tensor({17, 19, 300, -21, 500}, 'int64'):to(e4), {16, 20, 288, -20, nan}, e4)
  is(mt.tensor({true, false}):to(e5), {1, 0}, e5)
  is(mt.tensor({1.75, -1.75, 0, nan}):to(e4):int(), {1, -1, 0, 0}, 'int32')
  is(mt.tensor({448, 1, 0}):to(e4):byte(), {255, 1, 0}, 'uint8')
  is(mt.tensor({2 ^ -9, 0, nan}):to(e4):bool(), {true, false, true}, 'bool')
  t.eq(1 / mt.tensor(0 / -1):to(e4):item(), -inf)
  -- lengths around pieces and registers; strides
  mt.manual_seed(3)
  for _, dtype in ipairs(both) do
    for _, n in ipairs{0, 1, 7, 15, 16, 17, 511, 513, 1025, 40000, 70001} do
      local y = mt.randn(n) * 30
      local z = y:to(dtype)
      t.eq(mt.equal(z:float():to(dtype), z), true)
      t.eq(mt.equal(z:half():to(dtype), z), true)
      t.eq(mt.equal((z + z):float(), (z:float() * 2):to(dtype):float()), true)
      t.eq(n < 2 or (z:float() - y):abs():amax():item() <= 2 ^ (dtype == e4 and 3 or 4), true)
    end
    local x = mt.randn(37, 65)
    local h = x:to(dtype)
    t.eq(mt.equal(h:t():to('float32'), h:to('float32'):t()), true)
    t.eq(mt.equal(h:t():contiguous():t(), h), true)
    t.eq(mt.equal(x:t():to(dtype), h:t()), true)
    t.eq(mt.equal(h[{{}, {1, 65, 2}}]:to('float64'), h:to('float64')[{{}, {1, 65, 2}}]), true)
  end
end)

t.test('made, shown and changed', function()
  for _, dtype in ipairs(both) do
    local x = mt.tensor({{1, 2.5}, {-0.25, 0}}, {dtype = dtype})
    t.eq(list(x), {1, 2.5, -0.25, 0})
    t.eq(mt.full({2}, 1.5, {dtype = dtype}):tolist(), {1.5, 1.5})
    t.eq(mt.range(1, 3, {dtype = dtype}):tolist(), {1, 2, 3})
    t.eq(mt.eye(2, {dtype = dtype}):tolist(), {{1, 0}, {0, 1}})
    t.eq(tostring(mt.tensor({1, 2.5}, {dtype = dtype, device = 'cpu'})),
      '  1.0000  2.5000\n[(2) ' .. dtype .. ' cpu]')
    t.eq(mt.tensor(3, {dtype = dtype}):item(), 3)
    t.eq(x:at(1, 2), 2.5)
    x[2][2] = 1.05
    x[1][1] = 1e6
    is(x, {dtype == e4 and nan or inf, 2.5, -0.25, 1}, dtype)
    t.eq(mt.ones(1):to(dtype):new_zeros(2).dtype, dtype)
    local r = mt.rand({1000}, {dtype = dtype})
    t.eq(r.dtype, dtype)
    t.eq(r:max():item() < 1 and r:min():item() >= 0, true)
  end
  is(mt.tensor({1e5, -1e5, nan}):nan_to_num():to(e5), {inf, -inf, 0}, e5)
  is(mt.tensor({1e5, -1e5, nan}):to(e5):nan_to_num(), {57344, -57344, 0}, e5)
  t.raises(function() mt.tensor({1}, {dtype = 'float8'}) end, "'float8' is not a dtype; use 'bool', .* 'float8_e4m3fn'")
end)

t.test('promotion', function()
  local function gives(a, b, expected)
    local x, y = mt.ones({1}, a), mt.ones({1}, b)
    t.eq((x + y).dtype, expected)
    t.eq((y * x).dtype, expected)
    t.eq(mt.cat({x, y}).dtype, expected)
  end
  for _, dtype in ipairs(both) do
    for _, d in ipairs{'bool', 'uint8', 'int8', 'int16', 'int32', 'int64'} do gives(dtype, d, dtype) end
    for _, d in ipairs{'float16', 'bfloat16', 'float32', 'float64'} do gives(dtype, d, d) end
    t.eq((mt.ones({1}, dtype) + 1.5).dtype, dtype)
    t.eq(mt.ones({1}, dtype):lt(2).dtype, 'bool')
  end
  gives(e4, e5, 'float16') -- the smallest that holds both
end)

t.test('operations are calculated in float32 and rounded once', function()
  mt.manual_seed(5)
  for _, dtype in ipairs(both) do
    local function same(f, ...)
      local wide = {}
      for i, x in ipairs{...} do wide[i] = x:float() end
      local y, z = f(...), f(unpack(wide))
      t.eq(y.dtype, z.dtype == 'float32' and dtype or z.dtype)
      is(y, list(z:to(y.dtype)), y.dtype)
    end
    local x, y = mt.randn(33, 17):to(dtype), mt.randn(33, 17):to(dtype)
    for _, f in ipairs{mt.add, mt.mul, mt.div, mt.maximum, mt.lt} do same(f, x, y) end
    for _, f in ipairs{mt.exp, mt.tanh, mt.relu, mt.sigmoid, mt.square} do same(f, x) end
    same(function(a) return a * 0.3 end, x) -- the number is not rounded before
    same(function(a) return a:sum(1) end, x)
    same(function(a) return a:amax(2) end, x)
    same(function(a) return a:argmax(2) end, x)
    same(function(a) return a:softmax(2) end, x)
    same(function(a) return a:cumsum(1) end, x)
    same(function(a) return (a:sort(2)) end, x)
    same(function(a, b) return a:matmul(b:t()) end, x, y)
    same(function(a) return a:norm() end, x)
    same(function(a) return mt.layer_norm(a, {17}) end, x)
    same(function(a) return a:index_select(1, mt.tensor({3, 1, 3}, 'int64')) end, x)
    same(function(a, b) return mt.where(a:gt(0), a, b) end, x, y)
    same(function(a) return mt.map(function(v) return v * v + 1 end)(a) end, x)
    local function step(u, v) return (u * v + u):exp():sum(2) end
    t.eq(mt.equal(mt.fuse(step)(x, y), step(x, y)), true)
    local image, weight = mt.randn(2, 3, 9, 9):to(dtype), mt.randn(4, 3, 3, 3):to(dtype)
    same(function(a, b) return mt.conv2d(a, b) end, image, weight)
    same(function(a) return mt.max_pool2d(a, 2) end, image)
    local to, at = mt.zeros({5}, dtype), mt.tensor({2, 2, 5}, 'int64')
    local most = to:scatter_reduce(1, at, mt.tensor({-3, -7, 2}, dtype), 'amax', {include_self = false})
    is(most, {0, -3, 0, 0, 2}, dtype)
  end
  t.raises(function() mt.linalg.inv(mt.eye(2, {dtype = e4, device = 'cpu'})) end,
    'float8_e4m3fn matrices are not supported')
end)

t.test('gradients', function()
  for _, dtype in ipairs(both) do
    local x = mt.tensor({1, -2, 3}, {dtype = dtype, requires_grad = true})
    ;(x * x * 0.5):sum():backward()
    is(x.grad, {1, -2, 3}, dtype)
    local w = mt.tensor({{1, 2}, {3, 4}}, {dtype = 'float32', requires_grad = true})
    w:to(dtype):matmul(mt.tensor({{1}, {2}}, dtype)):sum():backward()
    is(w.grad, {1, 2, 1, 2}, 'float32')
    local net = nn.Linear(4, 2):to(dtype)
    t.eq(net.weight.dtype, dtype)
    local step = optim.SGD(net:parameters(), {lr = 0.5})
    net(mt.ones({3, 4}, dtype)):sum():backward()
    is(net.bias.grad, {3, 3}, dtype)
    local before = net.bias:float()
    step:step()
    is(net.bias, list((before - 1.5):to(dtype)), dtype)
  end
end)

t.test('files', function()
  local path = os.tmpname()
  local saved = {}
  for _, dtype in ipairs(both) do saved[dtype] = mt.frombuffer(every_code, {dtype = dtype}) end
  saved.other = mt.ones(3)
  mt.save(path, saved)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  t.eq(text:find('"dtype":"F8_E4M3"', 1, true) ~= nil, true)
  t.eq(text:find('"dtype":"F8_E5M2"', 1, true) ~= nil, true)
  t.eq(text:find(every_code, 1, true) ~= nil, true)
  local back = mt.load(path)
  for _, dtype in ipairs(both) do is(back[dtype], list(saved[dtype]), dtype) end
  os.remove(path)
  is(mt.load(here .. '../data/files/float8.safetensors').x, {0, 0}, e4) -- by PyTorch
  t.raises(function() mt.data.save_npy(path, mt.ones(1):to(e4)) end, 'save_npy: NumPy has no float8_e4m3fn')
end)

t.test('grid kernels read and round them', function()
  if mt.ones(1).device ~= 'cpu' and not t.has_nvrtc() then return print 'skipped: kernels on a GPU need NVRTC' end
  local double = mt.kernel(function(a) local i = grid(1); a[i] = a[i] * 2.2 end) -- luacheck: ignore
  for _, dtype in ipairs(both) do
    local x = mt.tensor({1, 2.5, -0.25, 0}, {dtype = dtype})
    double[{1, 4}](x)
    is(x, list(mt.tensor({2.2, 5.5, -0.55, 0}):to(dtype)), dtype)
  end
end)

t.finish()
