-- test_elementwise.lua -- Options of elementwise operations, bits, gamma functions, comparisons.
-- The numbers are PyTorch 2.15's unless mpmath is named.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local inf, nan = math.huge, 0 / 0

local function f64(values) return mt.tensor(values, {dtype = 'float64'}) end
local function int(values, dtype) return mt.tensor(values, {dtype = dtype or 'int64'}) end
local function list(x) return x:reshape(-1):tolist() end

--- f's value and the gradients of its sum, each as a flat list.
local function gradients(f, ...)
  local inputs = {...}
  for _, x in ipairs(inputs) do x:requires_grad_() end
  local y = f(...)
  y:sum():backward()
  local g = {}
  for i, x in ipairs(inputs) do g[i] = list(x.grad) end
  return list(y:detach()), unpack(g)
end

test('add and sub take alpha', function()
  local x, y = f64 {1, 2}, f64 {3, 4}
  eq(list(x:add(y, {alpha = 0.5})), {2.5, 4})
  eq(list(mt.add(x, y, 0.5)), {2.5, 4})
  eq(list(mt.sub(int {1, 2}, int {3, 4}, {alpha = 2})), {-5, -6})
  eq(mt.sub(int {1, 2}, int {3, 4}, {alpha = 2}).dtype, 'int64')
  eq(list(x:sub(3, {alpha = 2})), {-5, -4})
  eq(list(x:clone():add_(y, {alpha = -1})), {-2, -2})
  local n = int {1, 2}
  raises(function() n:add_(n, {alpha = 0.5}) end, 'add_: the result is float32')
  eq(list(n), {1, 2})
  local _, gx, gy = gradients(function(a, b) return a:sub(b, {alpha = 3}) end, x, y)
  eq({gx, gy}, {{1, 1}, {-3, -3}})
  eq(list(x:detach() + y:detach()), {4, 6}) -- the operators take no option
end)

test('bools stay bools where PyTorch keeps them', function()
  local a, b = mt.tensor{true, false, true, false}, mt.tensor{true, true, false, false}
  local function is(x, values) eq({x.dtype, x:tolist()}, {'bool', values}) end
  is(a + b, {true, true, true, false})
  is(a * b, {true, false, false, false})
  is(a + true, {true, true, true, true})
  is(a:add(b, {alpha = 2}), {true, true, true, false})
  is(a:add(b, 0), {true, false, true, false})
  is(mt.minimum(a, b), {true, false, false, false})
  is(mt.maximum(a, b), {true, true, true, false})
  is(mt.maximum(a, mt.tensor(true)), {true, true, true, true})
  is(a:clamp(b), {true, true, true, false})
  is(a:clamp({max = b}), {true, false, false, false})
  is(a:clamp_min(b), {true, true, true, false})
  is(a:sign(), {true, false, true, false})
  is(a:nan_to_num(), {true, false, true, false})
  is(a:heaviside(b), {true, true, true, false})
  is(a:clone():add_(b), {true, true, true, false})
  is(a:clone():mul_(b), {true, false, false, false})
  is(a:view(2, 2):t() + b:view(2, 2), {{true, true}, {false, false}})
  is(mt.tensor{true, false}:outer(b), {{true, true, false, false}, {false, false, false, false}})
  is(mt.tensor{true, false}:kron(b), {true, true, false, false, false, false, false, false})
  is(mt.zeros(0, 'bool') + mt.zeros(0, 'bool'), {})
  local whole, byte = mt.ones(4):int(), mt.ones(4):byte()
  for dtype, x in pairs{int64 = a + 1, float32 = a * 0.5, int32 = a + whole, uint8 = a * byte} do
    eq(x.dtype, dtype)
  end
  eq((a:abs() + a:square() + a:clamp(0)).dtype, 'int64') -- PyTorch has none for the first
  raises(function() return a - b end, 'sub: .*logical_xor')
  local kept = a:clone()
  raises(function() kept:add_(1) end, 'add_: the result is int64, which this bool tensor cannot hold')
  is(kept, a:tolist())
end)

test('slopes at bounds, at infinity and at NaN', function()
  local points = {nan, inf, -inf, 0, 6, -1, 1}
  -- PyTorch's, as its vectorised loops give them: the ends have no slope, NaN passes elu but not clamp.
  for name, case in pairs{
    clamp = {function(x) return x:clamp(0, 6) end, {0, 0, 0, 0, 0, 0, 1}},
    clamp_min = {function(x) return x:clamp_min(0) end, {0, 1, 0, 0, 1, 0, 1}},
    clamp_max = {function(x) return x:clamp({max = 1}) end, {0, 0, 1, 1, 0, 1, 0}},
    to_inf = {function(x) return x:clamp(0, inf) end, {0, 0, 0, 0, 1, 0, 1}},
    hardtanh = {function(x) return x:hardtanh() end, {0, 0, 0, 1, 0, 0, 0}},
    relu6 = {function(x) return x:relu6() end, {0, 0, 0, 0, 0, 0, 1}},
    relu = {function(x) return x:relu() end, {1, 1, 0, 0, 1, 0, 1}},
    elu = {function(x) return x:elu() end, {nan, 1, 0, 1, 1, math.exp(-1), 1}},
    celu = {function(x) return x:celu() end, {nan, 1, 0, 1, 1, math.exp(-1), 1}},
    leaky_relu = {function(x) return x:leaky_relu(0.5) end, {.5, 1, .5, .5, 1, .5, 1}},
    copysign = {function(x) return x:copysign(f64(-1)) end, {nan, -1, 1, 0, -1, 1, -1}},
    to_zero = {function(x) return mt.pow(f64(0), x) end, {nan, 0, -inf, 0, 0, -inf, 0}},
  } do
    for _, recorded in ipairs{false, true} do
      local x = f64(points):requires_grad_()
      local y = case[1](x)
      local g = mt.grad(y, x, {grad_outputs = mt.ones_like(y), create_graph = recorded}):tolist()
      for i, expected in ipairs(case[2]) do
        local right = g[i] == expected or math.abs(g[i] - expected) < 1e-12 or g[i] ~= g[i] and expected ~= expected
        assert(right, ('%s at %g: %g, not %g'):format(name, points[i], g[i], expected))
      end
    end
  end
  eq(list(f64{1, 2}:clamp(nan)), {nan, nan}) -- an end that is NaN takes all along
  eq(list(f64{1, 2}:clamp(0, nan)), {nan, nan})
  eq(list(f64{1, 2}:clamp_max(nan)), {nan, nan})
  eq(int{-3, 2 ^ 53}:clamp_min(0):tolist(), {0, 2 ^ 53})
  eq(int({3, 200}, 'uint8'):clamp_max(9):tolist(), {3, 9})
  eq(int{-3, 3}:clamp{max = 0.5}:tolist(), {-3, 0.5})
end)

test('div rounds', function()
  local x, y = f64 {7, -7, 7.5, -7.5}, f64 {2, 2, -2, -2}
  eq(list(x:div(y, {rounding_mode = 'trunc'})), {3, -3, -3, 3})
  eq(list(mt.div(x, y, 'floor')), {3, -4, -4, 3})
  local a, b = int {7, -7, 7, -7}, int {2, 2, -2, -2}
  eq(list(a:div(b, {rounding_mode = 'trunc'})), {3, -3, -3, 3})
  eq(list(a:div(b, {rounding_mode = 'floor'})), {3, -4, -4, 3})
  eq(a:div(b, {rounding_mode = 'floor'}).dtype, 'int64')
  eq(a:div(b).dtype, 'float32')
  eq(list(a:clone():div_(b, {rounding_mode = 'trunc'})), {3, -3, -3, 3})
  local most = int {-2 ^ 31}:to('int32')
  eq(list(most:div(-1, {rounding_mode = 'trunc'})), {-2 ^ 31}) -- wraps
  raises(function() a:div(int {1, 0, 1, 1}, {rounding_mode = 'trunc'}) end,
    'integer is divided by 0')
  for _, f in ipairs{mt.floor_divide, mt.remainder, mt.fmod} do -- nothing is divided
    eq({f(mt.zeros({0}, 'int64'), int {0}).dtype, f(mt.zeros({2, 0}, 'int64'), 0):tolist()}, {'int64', {{}, {}}})
  end
  raises(function() x:div(y, {rounding_mode = 'up'}) end,
    "div: rounding_mode is 'up'; use 'floor', 'trunc' or nil")
end)

test('round takes decimals', function()
  near(list(f64 {1234.5678, -0.125, 2.5}:round({decimals = 2})), {1234.57, -0.12, 2.5}, 1e-12)
  eq(list(mt.tensor {1250, -150, 151}:round(-2)), {1200, -200, 200})
  eq(list(int {15, 26}:round({decimals = 1})), {15, 26})
  raises(function() int {15}:round(-1) end, 'tens of int64')
  raises(function() mt.ones(1):round(1000) end, 'between %-300 and 300')
  eq(list(f64 {1.26}:round_({decimals = 1})), {1.3})
end)

test('gelu approximates', function()
  near(list(f64 {-1, 0.5}:gelu({approximate = 'tanh'})),
    {-0.15880800939172324, 0.34571400982514394}, 1e-15)
  eq(list(f64 {-1}:gelu('none')), list(f64 {-1}:gelu()))
  raises(function() mt.ones(1):gelu('fast') end, "approximate is 'fast'")
end)

test('a row, a column or one element is repeated as if it were copied', function()
  for _, size in ipairs {{3, 33}, {40, 300}, {70, 1025}, {1, 2000}, {257, 511}} do
    local n, m = unpack(size)
    local x, row, column, one = mt.randn(n, m), mt.randn(m), mt.randn(n, 1), mt.randn(1, 1)
    local function full(y) return y:expand(n, m):clone() end
    assert(mt.equal(x + row, x + full(row)))
    assert(mt.equal(column * row, full(column) * full(row)))
    assert(mt.equal(x - one, x - full(one)))
    assert(mt.equal(one - x, full(one) - x))
    assert(mt.equal(column - x, full(column) - x))
    assert(mt.equal(x:lt(column), x:lt(full(column))))
    assert(mt.equal(x + mt.randn(m, n):t():zero_(), x)) -- laid out by columns
    local turned = mt.randn(m, n)
    assert(mt.equal(x - turned:t(), x - turned:t():clone()))
    assert(mt.equal(mt.lerp(column, row, x), mt.lerp(full(column), full(row), x)))
    assert(mt.equal(mt.where(column:gt(0), x, row), mt.where(full(column):gt(0), x, full(row))))
    local part = mt.randn(n, m + 9):narrow(2, 4, m)
    local sum = part:clone() + full(column)
    part:add_(column)
    assert(mt.equal(part, sum))
  end
end)

test('celu and selu of positive numbers do not depend on their neighbours', function()
  local x = mt.rand(3000) + 0.1
  for _, f in ipairs {mt.celu, mt.selu} do
    assert(mt.equal(f(x), f(mt.cat {x, -x}):narrow(1, 1, 3000)))
  end
end)

test('clamp takes tensors', function()
  local y, gx, glo, ghi = gradients(mt.clamp, f64 {-2, 0, 1, 5}, f64 {-1, 0, 2, 3},
    f64 {0, 1, 1, 4})
  eq(y, {-1, 0, 1, 4})
  eq({gx, glo, ghi}, {{0, 0.5, 0, 0}, {1, 0.5, 0, 0}, {0, 0, 1, 1}})
  eq(list(f64 {nan, 1}:clamp(f64 {0, nan}, f64 {1, 1})), {nan, nan})
  local x = f64 {-2, 0, 5}
  eq(list(x:clamp({max = 1})), {-2, 0, 1})
  eq(list(x:clamp(f64 {0, 1, 2}, 4)), {0, 1, 4})
  eq(list(x:clamp({max = f64 {1}})), {-2, 0, 1})
  eq(list(x:clamp_min(-1)), {-1, 0, 5})
  eq(list(x:clamp_max(f64 {1, -1, 1})), {-2, -1, 1})
  eq(list(x:clone():clamp_(f64 {0, 0, 0}, f64 {1, 1, 1})), {0, 0, 1})
  eq(list(x:clone():clamp_min_(0)), {0, 0, 5})
  local small = f64 {1}
  raises(function() small:clamp_(f64 {2, 3}) end, "clamp_: the result is %(2%) float64")
  raises(function() int {1, 2}:clamp_(f64 {1.5, 2}) end, 'clamp_: the result is')
  eq(list(small), {1})
end)

test('prelu has a slope for each channel', function()
  local x = {{-2, 1, 3}, {4, -5, 6}}
  local y, gx, gw = gradients(mt.prelu, f64(x), f64 {0.5, 0.25, 0.125})
  eq({y, gx, gw}, {{-1, 1, 3, 4, -1.25, 6}, {0.5, 1, 1, 1, 0.25, 1}, {-2, -5, 0}})
  y, gx, gw = gradients(mt.prelu, f64(x), f64 {0.5})
  eq({y, gx, gw}, {{-1, 1, 3, 4, -2.5, 6}, {0.5, 1, 1, 1, 0.5, 1}, {-7}})
  y, gx, gw = gradients(mt.prelu, f64 {{{-1, -2}, {3, -4}}}, f64 {0.5, 0.25})
  eq({y, gx, gw}, {{-0.5, -1, 3, -1}, {0.5, 0.5, 1, 0.25}, {-3, -4}})
  eq(list(f64 {-2, 2}:prelu(0.5)), {-1, 2})
  raises(function() mt.prelu(f64(x), f64 {1, 2}) end,
    'prelu: weight %(2%) does not fit x %(2 x 3%); give 1 slope, or a list of 3')
  raises(function() mt.prelu(f64 {1, 2}, f64 {1, 2}) end, 'prelu: weight')
end)

test('bits of integers and bools', function()
  eq(list(int {5, 6}:bitwise_and(int {12, -1})), {4, 6})
  eq(list(int {5, 6}:bitwise_or(8)), {13, 14})
  eq(list(mt.tensor {true, true}:bitwise_xor(mt.tensor {true, false})), {false, true})
  eq(list(mt.tensor {true, false}:bitwise_not()), {false, true})
  eq(list(int({0, 200}, 'uint8'):bitwise_not()), {255, 55})
  eq(int({5}, 'uint8'):bitwise_and(int {12}).dtype, 'int64')
  eq(list(int {12}:bitwise_and_(10)), {8})
  eq(list(int {5, -5}:bitwise_left_shift(70)), {0, 0})
  eq(list(int {5, -5}:bitwise_right_shift(-1)), {0, -1})
  eq(list(int({200}, 'uint8'):bitwise_left_shift(1)), {144})
  for _, name in ipairs {'and', 'or', 'xor', 'left_shift', 'right_shift'} do
    local f = mt['bitwise_' .. name]
    raises(function() f(mt.ones(2), mt.ones(2)) end, 'float32 numbers have no bits .*:long%(%)')
    raises(function() f(int {1}, 1.5) end, 'no bits')
  end
  raises(function() mt.ones(2):bitwise_not() end, 'bitwise_not: float32 .* no bits')
  raises(function() mt.ones(2):bitwise_and_(1) end, 'no bits')
  raises(function() mt.bitwise_and(2.5, int {1}) end, 'no bits')
end)

test('nan_to_num knows its dtype', function()
  local x = {nan, inf, -inf}
  eq(list(mt.tensor(x):nan_to_num()), {0, 3.4028234663852886e+38, -3.4028234663852886e+38})
  eq(list(f64(x):nan_to_num()), {0, 1.7976931348623157e+308, -1.7976931348623157e+308})
  eq(list(f64(x):nan_to_num(1, 2, 3)), {1, 2, 3})
  eq(list(f64(x):nan_to_num({posinf = 5})), {0, 5, -1.7976931348623157e+308})
  eq(list(int {1, 2}:nan_to_num()), {1, 2})
  local _, g = gradients(mt.nan_to_num, f64 {nan, inf, 1})
  eq(g, {0, 0, 1})
end)

test('logit and its eps', function()
  local y, g = gradients(function(x) return x:logit(0.25) end, f64 {0.1, 0.3, 0.9})
  near(y, {-1.0986122886681098, -0.8472978603872037, 1.0986122886681098}, 1e-15)
  near(g, {0, 4.761904761904762, 0}, 1e-14)
  y, g = gradients(mt.logit, f64 {0.25, 0.5, 1.5})
  near({y[1], y[2], g[1], g[2]}, {-1.0986122886681098, 0, 16 / 3, 4}, 1e-14)
  eq({y[3], g[3]}, {nan, nan})
  eq(list(f64 {0, 1}:logit()), {-inf, inf})
end)

test('xlogy at 0', function()
  local y, gx, gy = gradients(mt.xlogy, f64 {0, 0, 2, 0}, f64 {0, nan, 3, 2})
  near({y[1], y[3], y[4]}, {0, 2.1972245773362196, 0}, 1e-15)
  near({gx[1], gx[3], gx[4]}, {0, 1.0986122886681098, 0.6931471805599453}, 1e-15)
  near({gy[3], gy[4]}, {2 / 3, 0}, 1e-15)
  eq({y[2], gx[2], gy[1]}, {nan, nan, nan})
end)

test('gamma functions, against mpmath', function()
  near(list(f64 {1.5, 20, -2.5}:digamma()), {0.036489973978576521, 2.9705239922421496,
    1.1031566406452432}, 1e-13)
  eq(list(f64 {0, -1, inf, nan}:digamma()), {-inf, nan, inf, nan})
  near(list(f64 {1.5, -0.5}:polygamma(1)), {0.93480220054467931, 8.9348022005446793}, 1e-13)
  near(list(mt.polygamma(2, f64 {1.5})), {-0.82879664423431999}, 1e-14)
  near(list(f64 {0.5, 10.25, -3.25}:lgamma()), {0.57236494292470009, 13.368023671476046,
    -0.62315345132099865}, 1e-13)
  eq(list(f64 {0, -2, -inf}:lgamma()), {inf, inf, inf})
  near(list(f64 {0.5, -0.999}:erfinv()), {0.47693627620446987, -2.3267537655135247}, 1e-14)
  eq(list(f64 {1, -1, 2}:erfinv()), {inf, -inf, nan})
  raises(function() mt.ones(1):polygamma(-1) end, 'polygamma: the order is %-1')
  raises(function() mt.ones(1):polygamma(1.5) end, 'integer')
  raises(function() mt.ones(1):polygamma(31) end, 'between 0 and 30')
end)

test('a derivative that is taken again meets no 0 * inf', function()
  -- At these points an arm that is not taken is infinite.
  local function second(f, value)
    local x = f64 {value}:requires_grad_()
    f(x):sum():backward(nil, {create_graph = true})
    local g = x.grad
    x:zero_grad_()
    if g.requires_grad then g:sum():backward() end
    return x.grad and x.grad:item() or 0
  end
  eq(second(function(x) return x:pow(f64 {0}) end, 0), 0)
  eq(second(function(x) return x:logit(1e-6) end, 0), 0)
  eq(second(function(x) return x:logit(1e-6) end, 1), 0)
  eq(second(function(x) return x:copysign(f64 {-1}) end, 0), 0)
  eq(second(function(x) return x:gelu('tanh') end, 1e200), 0)
  eq(second(mt.relu6, 7), 0)
  near(second(mt.digamma, 1.5), -0.82879664423431999, 1e-13)
  near(second(mt.lgamma, 1.5), 0.93480220054467931, 1e-13)
end)

test('isclose, allclose and test_close', function()
  local a, b = mt.tensor {1, nan, inf, 1}, mt.tensor {1.000001, nan, inf, 2}
  eq(list(mt.isclose(a, b)), {true, false, true, false})
  eq(list(a:isclose(b, {equal_nan = true})), {true, true, true, false})
  eq(mt.isclose(a, b).dtype, 'bool')
  local big = 2 ^ 53
  local x, y = int {big}, int {big} + 1
  eq(list(x:isclose(y, 0, 0)), {false})
  eq({mt.allclose(x, y, 0, 0), mt.allclose(x, y), mt.allclose(x, x, 0, 0)}, {false, true, true})
  eq(list(int({250}, 'uint8'):isclose(int({5}, 'uint8'), 0, 20)), {false})
  raises(function() mt.isclose(a, b, -1) end, 'isclose: rtol is %-1')
  raises(function() mt.allclose(a, b, nan) end, 'allclose: rtol is')
  local p, q = mt.zeros(2, 3), mt.zeros(2, 3)
  q[{2, 3}] = 1
  raises(function() mt.test_close(p, q) end,
    'test_close: 1 of 6 elements differ by 1e%-05 or more; the first is x:at%(2, 3%): 0 and 1')
  raises(function() mt.test_close(mt.tensor(1), mt.tensor(2)) end, 'x:item%(%): 1 and 2')
  mt.test_close(mt.tensor {inf}, mt.tensor {inf})
end)

test("PyTorch's other names", function()
  local x = f64 {-1.5, 2}
  eq(list(x:absolute()), {1.5, 2})
  eq(list(mt.multiply(x, x)), {2.25, 4})
  eq(list(x:clone():subtract_(x)), {0, 0})
  eq(list(x:greater(0)), {false, true})
  eq(x:positive(), x)
end)

test('an alias says in its help whose name it is', function()
  local printed, real = {}, print
  rawset(_G, 'print', function(...) printed[#printed + 1] = table.concat({...}, ' ') end)
  local ok, trouble = pcall(function() mt.help('greater'); mt.help('x:clip_'); mt.help('gt') end)
  rawset(_G, 'print', real)
  assert(ok, trouble)
  eq(printed[1], "'greater' is another name of gt:")
  local text = table.concat(printed, '\n')
  assert(text:find("'clip_' is another name of clamp_:", 1, true))
  assert(not text:find("'gt' is another name", 1, true))
  -- the letters of the signature
  assert(text:find('mt.gt(x, y, {out=})   or   x:gt(y, {out=})\n  x > y.', 1, true), text)
end)

test('addcmul and addcdiv', function()
  local a, b, c = f64 {1, 2}, f64 {3, 4}, f64 {2, 8}
  eq(list(mt.addcmul(a, b, c)), {7, 34})
  eq(list(a:addcdiv(b, c, {value = 2})), {4, 3})
  eq(list(a:clone():addcmul_(b, c, {value = -1})), {-5, -30})
  eq(mt.addcmul(int {1}, int {2}, int {3}).dtype, 'int64')
end)

t.finish()
