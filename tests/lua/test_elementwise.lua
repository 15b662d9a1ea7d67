-- test_elementwise.lua -- options of elementwise operations, bits, gamma functions, comparisons
-- The numbers are PyTorch 2.15's unless mpmath is mentioned.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local inf, nan = math.huge, 0 / 0

local function f64(values) return mt.tensor(values, {dtype = 'float64'}) end
local function int(values, dtype) return mt.tensor(values, {dtype = dtype or 'int64'}) end
local function list(x) return x:reshape(-1):tolist() end

--- Returns f's value and the gradients of its sum, each as a flat list.
local function gradients(f, ...)
  local inputs = {...}
  for _, x in ipairs(inputs) do x:requires_grad_() end
  local y = f(...)
  y:sum():backward()
  local g = {}
  for i, x in ipairs(inputs) do g[i] = list(x.grad) end
  return list(y:detach()), unpack(g)
end

--- Returns the largest relative error of f over these arguments.
local function worst(f, values, ...)
  local got, most = list(f(...)), 0
  for k, v in ipairs(values) do
    most = math.max(most, math.abs(got[k] - v) / math.max(math.abs(v), 2 ^ -1022))
  end
  return most
end

test('special functions: values of mpmath in float64 and float32', function()
  for name, case in pairs{
    sinc = {{1e-09, 0.3, 0.9990234375, 1.5, -7.25, 1000.125}, {1, 0.85839369133413979, 0.0009775155730883348,
      -0.21220659078919379, -0.031045390212314002, 0.00012179669521365238}},
    tanhshrink = {{1e-09, -0.125, 0.5, 2.5, 40}, {3.3333333333333338e-28, -0.00064699822840379195,
      0.037882842739990243, 1.5133857018485697, 39}},
    ndtr = {{-37, -10, -1.5, 0.25, 3}, {5.7255712225245771e-300, 7.6198530241605255e-24, 0.066807201268858071,
      0.5987063256829237, 0.9986501019683699}},
  } do
    local e = worst(mt[name], case[2], f64(case[1]))
    assert(e < 2e-15, name .. ' ' .. e)
    local x = mt.tensor(case[1])
    if x:double():sub(f64(case[1])):abs():max():item() == 0 then -- exact in float32
      local y = mt[name](x)
      assert(mt.equal(y, mt[name](x:double()):float()), name)
    end
  end
  for name, case in pairs{
    igamma = {{0.5, 2.5, 3, 50, 600, 10000.0, 20}, {1e-10, 0.75, 40, 45, 590, 10300, 1e-05},
      {1.1283791670579e-05, 0.086930185455604533, 0.99999999999999645, 0.24680203440017026, 0.34571660947421318,
      0.99852950510361427, 4.1102784776168769e-119}},
    igammac = {{1e-08, 0.25, 2.5, 3, 50, 600, 10000.0}, {0.5, 1.05, 0.75, 40, 60, 590, 10300},
      {5.5977359770995867e-09, 0.063061961221012541, 0.91306981454439551, 3.5728659287002262e-15,
      0.084406681093691829, 0.65428339052578688, 0.0014704948963856813}},
  } do
    local e = worst(mt[name], case[3], f64(case[1]), f64(case[2]))
    assert(e < 4e-14, name .. ' ' .. e) -- PyTorch's are 1e-13 off for igammac(1e-8, 0.5)
  end
end)

test('special functions at their edges', function()
  local function at(f, ...)
    local args = {}
    for i, v in ipairs{...} do args[i] = f64(v) end
    return f(unpack(args)):item()
  end
  eq({at(mt.sinc, 0), at(mt.sinc, 1), at(mt.sinc, inf)}, {1, 0, nan})
  eq({at(mt.ndtr, -inf), at(mt.ndtr, inf), at(mt.ndtr, nan), at(mt.ndtr, -50)}, {0, 1, nan, 0})
  eq({at(mt.tanhshrink, inf), at(mt.tanhshrink, -inf), at(mt.tanhshrink, nan)}, {inf, -inf, nan})
  eq({at(mt.igamma, 0, 1), at(mt.igamma, 0, 0), at(mt.igamma, 2, 0), at(mt.igamma, 2, inf), at(mt.igamma, -1, 1),
    at(mt.igamma, inf, 2)}, {1, nan, 0, 1, nan, 0})
  eq({at(mt.igammac, 0, 1), at(mt.igammac, 2, 0), at(mt.igammac, 2, inf), at(mt.igammac, 2, -1)}, {0, 1, 0, nan})
  near(at(mt.igamma, 1e8, 1e8) + at(mt.igammac, 1e8, 1e8), 1, 1e-15)
end)

test('a missing gradient by an argument is an error', function()
  local x, y = f64{2, 3}, f64{1, 2}:requires_grad_()
  for _, name in ipairs{'igamma', 'igammac'} do
    raises(function() mt[name](y, x) end, name .. ': argument 1 has no gradient; pass x:detach%(%)')
    eq(mt.gradcheck(function(v) return mt[name](x, v) end, {y}), true)
    eq(mt.no_grad(mt[name], y, x).requires_grad, false)
  end
end)

test('fmin and fmax leave NaN out', function()
  local x, y = {nan, 1, nan, 2, 3}, {1, nan, nan, 2, -inf}
  local low, gx, gy = gradients(mt.fmin, f64(x), f64(y))
  eq({low, gx, gy}, {{1, 1, nan, 2, -inf}, {0, 1, 1, 0.5, 0}, {1, 0, 0, 0.5, 1}})
  local high
  high, gx, gy = gradients(mt.fmax, f64(x), f64(y))
  eq({high, gx, gy}, {{1, 1, nan, 2, 3}, {0, 1, 1, 0.5, 1}, {1, 0, 0, 0.5, 0}})
  eq({mt.fmin(int{1, 5}, int{2, 3}):tolist(), mt.tensor{true, false}:fmax(mt.tensor{true, true}):tolist()},
    {{1, 3}, {true, true}})
end)

test('isposinf, isneginf, gcd, lcm', function()
  eq(f64{inf, -inf, nan, 1}:isposinf():tolist(), {true, false, false, false})
  eq(f64{inf, -inf, nan, 1}:isneginf():tolist(), {false, true, false, false})
  eq(int{1}:isposinf():tolist(), {false})
  eq(int{-4, 6, 0, 12}:gcd(int{6, 0, 0, -18}):tolist(), {2, 6, 0, 6})
  eq(int{-4, 6, 0, 2 ^ 40}:lcm(int{6, 0, 0, 2 ^ 40}):tolist(), {12, 0, 0, 2 ^ 40})
  eq({int({200, 7}, 'uint8'):gcd(int({150, 7}, 'uint8')):tolist(), int{12}:gcd(8):tolist()}, {{50, 7}, {4}})
  eq(int({-2 ^ 31}, 'int32'):gcd(int({0}, 'int32')):tolist(), {-2 ^ 31}) -- its magnitude does not fit
  eq(int{12, 18}:gcd_(6):tolist(), {6, 6})
  raises(function() mt.threshold(f64{1}) end, "threshold: argument 2 'threshold' must be a number, got nothing")
  raises(function() mt.threshold(f64{1}, 1) end, "threshold: argument 3 'value' is missing")
  raises(function() f64{1}:gcd(f64{2}) end, 'gcd: float64 numbers have no common divisors and multiples; use integer')
end)

-- Special exponents (products, roots, quotients): LuaJIT's pow is the reference, and the bits are those of mixed
-- exponents, of the same exponents as a tensor, and of a function of mt.map.
test('powers by short ways', function()
  local function bits(v) return v ~= v and 'nan' or ('%a'):format(v) end
  for _, dtype in ipairs{'float32', 'float64'} do
    local x = mt.tensor({0, -0.0, 1, -1, inf, -inf, nan, 2.7, -0.3, 1e-30, 1e30, 1e-44, 1.1}, {dtype = dtype})
    local n, unit = x:numel(), dtype == 'float32' and 2 ^ -23 or 2 ^ -52
    for _, p in ipairs{1, 2, 3, 4, -1, -2, 0.5, -0.5, 0, 2.5, -3} do
      local y, same, truth = (x ^ p):tolist(), mt.full({n}, p, {dtype = dtype}), {}
      local mixed = (mt.cat({x, x}) ^ mt.cat({same, same + 0.25})):tolist()
      local equal, mapped = (x ^ same):tolist(), mt.map(function(v) return v ^ p end)(x):tolist()
      for i, v in ipairs(x:tolist()) do truth[i] = v ^ p end
      truth = mt.tensor(truth, {dtype = dtype}):tolist()
      for i, v in ipairs(truth) do
        local function close(got)
          return bits(v) == bits(got) or math.abs(got - v) <= 1.5 * unit * math.abs(v) + 2 ^ -149
        end
        local text = ('%s ^ %s'):format(x[i]:item(), p)
        eq(close(y[i]), true, text)
        for _, got in ipairs {mixed[i], equal[i], mapped[i]} do -- a GPU's library has no short ways
          eq(x.device ~= 'cpu' and close(got) or bits(got) == bits(y[i]), true, text)
        end
      end
    end
  end
  for _, p in ipairs{1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.5} do
    local _, g = gradients(function(x) return x ^ p end, f64{0.5, 2, 3})
    near(g, {p * 0.5 ^ (p - 1), p * 2 ^ (p - 1), p * 3 ^ (p - 1)}, 1e-14)
    local _, mixed = gradients(function(x) return x ^ f64{p, p, 1.75} end, f64{0.5, 2, 3})
    eq({mixed[1], mixed[2]}, {g[1], g[2]})
  end
  eq(select(2, gradients(function(x) return x ^ 0 end, f64{0, 2})), {0, 0})
  eq(select(2, gradients(function(x) return x ^ 0.5 end, f64{0, 4})), {inf, 0.25})
end)

test('float_power, mvlgamma and other names', function()
  local y = mt.float_power(int{2, 3}, 2)
  eq({y.dtype, y:tolist()}, {'float64', {4, 9}})
  t.near(mt.float_power(2, mt.tensor{-1, 0.5}):tolist(), {0.5, 2 ^ 0.5}, 1e-15)
  eq(mt.tensor{true}:float_power(2).dtype, 'float64')
  eq(list(f64{-8}:float_power(1 / 3)), {nan})
  eq(list(f64{2, 3}:float_power_(2)), {4, 9})
  raises(function() mt.float_power(2, 3) end, 'float_power: one of the two must be a tensor')
  near(list(f64{3, 1.75}:mvlgamma(2)), {1.5501949939575645, 0.38969198548240136}, 1e-14)
  near(mt.mvlgamma(f64(4), 3):item(), 5.402975080909175, 1e-14)
  eq({mt.tensor{3}:half():mvlgamma(2).dtype, int{3}:mvlgamma(2).dtype, mt.zeros(0):mvlgamma(2).shape},
    {'float16', 'float32', mt.zeros(0).shape})
  near(list(f64{3}:mvlgamma_(2)), {1.5501949939575645}, 1e-14)
  eq(mt.gradgradcheck(function(x) return x:mvlgamma(3) end, {f64{2.5, 4}:requires_grad_()}), true)
  raises(function() f64{3}:mvlgamma(0) end, 'mvlgamma: p is 0; it must be 1 or more')
  raises(function() f64{3}:mvlgamma(1.5) end, "argument 2 'p' must be an integer")
  for other, name in pairs{expit = 'sigmoid', gammaln = 'lgamma', psi = 'digamma'} do
    eq(list(mt[other](f64{0.5})), list(mt[name](f64{0.5})))
  end
  eq(list(mt.gammainc(f64{2}, f64{1})), list(mt.igamma(f64{2}, f64{1})))
end)

test('logit holds x at the lower end first', function()
  near(mt.logit(f64{0.1, 0.3, 0.5, 0.7, 0.9}, 0.6):tolist(),
    {0.4054651081081642, 0.4054651081081642, 0.4054651081081642, -0.4054651081081642, -0.4054651081081642}, 1e-15)
  local _, g = gradients(function(x) return x:logit(0.6) end, f64{0.1, 0.39, 0.5, 0.61, 0.9})
  eq(g, {0, 0, 0, 0, 0})
end)

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
  local small = mt.tensor({100}, {dtype = 'uint8'}) -- alpha is of the result's dtype
  eq(list(mt.add(mt.tensor {1}, small, 3)), {301})
  eq(list(mt.tensor {1}:sub_(small, -1)), {101})
  eq(list(mt.add(mt.tensor({1000}, {dtype = 'int32'}), small, 3)), {1300})
  eq(mt.add(mt.tensor {1}, mt.tensor(0.5, {dtype = 'float64'}), 3).dtype, 'float32')
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

test('operands that need no conversion allocate only the result', function()
  local a, b = mt.rand({1000}, {device = 'cpu'}), mt.rand({1000}, {device = 'cpu'})
  local mask, whole = a:lt(b), (a * 10):long()
  for _, row in ipairs{
    {1, function() return mt.logical_and(a, b) end}, {1, function() return mt.logical_xor(mask, mask) end},
    {1, function() return mt.logical_not(whole) end}, {1, function() return mt.where(mask, a, b) end},
    {2, function() return mt.where(mask, a, 0) end}, {2, function() return mt.lerp(a, b, 0.5) end}, -- and the number
  } do
    local before = mt.memory_stats().allocations
    local y = row[2]()
    t.eq({mt.memory_stats().allocations - before, y.shape[1]}, {row[1], 1000})
  end
end)

test('logic asks elements of any dtype whether they are 0', function()
  local x, y = mt.tensor{0, 0.25, -2, 0 / 0}, mt.tensor({0, 3, 0, 1}, 'int64')
  t.eq(mt.logical_and(x, y):tolist(), {false, true, false, true})
  t.eq(mt.logical_xor(x, y):tolist(), {false, false, true, false})
  t.eq(mt.logical_or(y, mt.tensor({1, 0, 0, 0}, 'uint8')):tolist(), {true, true, false, true})
  t.eq(mt.logical_not(x):tolist(), {true, false, false, false})
  t.eq(mt.logical_not(y):tolist(), {true, false, true, false})
  t.eq(mt.logical_and(x:half(), 0.5):tolist(), {false, true, true, true})
  local b = mt.tensor({true, false}, {device = 'cpu'})
  for _, truth in ipairs{2, 0.5, 256, -1, 0 / 0, true} do
    t.eq({b:logical_and(truth):tolist(), b:logical_xor(truth):tolist()}, {{true, false}, {false, true}})
  end
  t.eq(b:logical_or(0):tolist(), {true, false})
  local before = mt.memory_stats().allocations
  b:logical_and(3)
  t.eq(mt.memory_stats().allocations - before, 3) -- the result, the number, and as bool; b is not converted
  t.eq(x:clone():logical_not_():tolist(), {1, 0, 0, 0})
end)

test('a number among three operands, with gradients', function()
  local x, y = mt.tensor({{1, 2}, {3, 5}}, {dtype = 'float64', requires_grad = true}), mt.ones({2, 2}, 'float64')
  local mask = mt.tensor({{true, false}, {false, true}})
  for _, f in ipairs{
    function(a) return a:lerp(y, 0.25) end, function(a) return mt.lerp(y, a, 0.75) end,
    function(a) return mt.lerp(2, y, a) end, function(a) return mt.where(mask, a, 3) end,
    function(a) return mt.where(mask, 3, a) end, function(a) return mt.addcmul(a, 2, a) end,
  } do
    assert(mt.gradcheck(f, x) and mt.gradgradcheck(function(a) return f(a) ^ 2 end, x))
  end
  t.eq(mt.lerp(x:detach(), y, 0.25):tolist(), {{1, 1.75}, {2.5, 4}})
  t.eq(mt.where(mask, 7, x:detach()):tolist(), {{7, 2}, {3, 7}})
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
    "div: rounding_mode is 'up'; use 'floor' or 'trunc'")
end)

test('quotients of integers are exact: any sizes and signs, blocks of small numbers and of large ones', function()
  local function check(x, y)
    local found = {x:cpu(), y:cpu(), mt.floor_divide(x, y):cpu(), mt.remainder(x, y):cpu(), mt.fmod(x, y):cpu()}
    local a, b, q, r, f = found[1]:data(), found[2]:data(), found[3]:data(), found[4]:data(), found[5]:data()
    for i = 0, x:numel() - 1 do
      local u, v = 0LL + a[i], 0LL + b[i]
      local whole = v == -1 and -u or u / v
      local left = u - whole * v
      local below = left ~= 0 and (left < 0) ~= (v < 0)
      assert(f[i] == left and q[i] == (below and whole - 1 or whole) and r[i] == (below and left + v or left),
        tostring(u) .. ' by ' .. tostring(v))
    end
  end
  mt.manual_seed(5)
  check(mt.randint(0, 255, {5000}):to('uint8'), mt.randint(1, 255, {5000}):to('uint8'))
  for _, most in ipairs{9, 1000, 2 ^ 31 - 1} do
    local x, y = mt.randint(-most, most, {3000}), mt.randint(-most, most, {3000})
    y[y:eq(0)] = -1
    check(x:to('int32'), y:to('int32'))
    check(x, y)
    for _, by in ipairs{7, -3, -1} do check(x, mt.full({3000}, by, {dtype = 'int64'})) end
  end
  for bits = 50, 62 do -- about a whole quotient, one side or both beyond what a double holds
    local y = mt.randint(1, 2 ^ 26, {1500})
    local x = mt.randint(1, 2 ^ 24, {1500}) * y * 2 ^ (bits - 50) + mt.randint(-1, 1, {1500})
    check(x, y)
    check(x:neg(), y)
    check(x, x + mt.randint(1, 3, {1500}))
  end
end)

test('round takes decimals', function()
  near(list(f64 {1234.5678, -0.125, 2.5}:round({decimals = 2})), {1234.57, -0.12, 2.5}, 1e-12)
  eq(list(mt.tensor {1250, -150, 151}:round(-2)), {1200, -200, 200})
  eq(list(int {15, 26}:round({decimals = 1})), {15, 26})
  raises(function() int {15}:round(-1) end, 'decimals is negative, but x is int64')
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
    assert(mt.equal(x + mt.randn(m, n):t():zero_(), x)) -- column-major
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

test('celu with a negative alpha grows below 0', function()
  for _, alpha in ipairs {-1, -0.5, -0.01} do
    for i, x in ipairs {-2, -0.5, -0.001, -0.87, -44, -87, -100, -1e5, -1e30, -1 / 0, 3, 0} do
      local y, truth = mt.tensor({x}):celu(alpha):item(), x > 0 and x or alpha * (math.exp(x / alpha) - 1)
      truth = truth < -3.4e38 and -1 / 0 or truth
      assert(y == truth or math.abs(y / truth - 1) < 5e-6, alpha .. ' ' .. i .. ' ' .. y)
    end
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
    raises(function() f(mt.ones(2), mt.ones(2)) end, 'float32 numbers have no bitwise operations.*:long%(%)')
    raises(function() f(int {1}, 1.5) end, 'no bitwise operations')
  end
  raises(function() mt.ones(2):bitwise_not() end, 'bitwise_not: float32 .* no bitwise operations')
  raises(function() mt.ones(2):bitwise_and_(1) end, 'no bitwise operations')
  raises(function() mt.bitwise_and(2.5, int {1}) end, 'no bitwise operations')
end)

test('nan_to_num uses the limits of its dtype', function()
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

test('the help of an alias names the function', function()
  local printed, real = {}, print
  rawset(_G, 'print', function(...) printed[#printed + 1] = table.concat({...}, ' ') end)
  local ok, message = pcall(function() mt.help('greater'); mt.help('x:clip_'); mt.help('gt') end)
  rawset(_G, 'print', real)
  assert(ok, message)
  eq(printed[1]:match '^[^\n]+', "'greater' is another name of gt:")
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

test('powers that vanish take no longer than others', function() -- a product that underflows takes 150 cycles
  if os.getenv 'MTORCH_ISA' == 'base' then return end
  local function check(name, f, value)
    local inputs, least = {mt.full({16384}, value), mt.full({16384}, 0.5)}, {math.huge, math.huge}
    for _ = 1, 40 do -- in turns, so that other load affects both
      for i, x in ipairs(inputs) do
        local start = os.clock()
        for _ = 1, 4 do f(x) end
        least[i] = math.min(least[i], os.clock() - start)
      end
    end
    assert(least[1] < 8 * least[2], ('%s of %s: %.1f times'):format(name, value, least[1] / least[2]))
  end
  local mapped = mt.map(function(x) return math.exp(x) end)
  for _, value in ipairs {-math.huge, -200} do
    check('exp', mt.exp, value)
    check('exp2', mt.exp2, value)
    check('sigmoid', mt.sigmoid, value)
    check('silu', mt.silu, value)
    check('mapped exp', mapped, value)
  end
end)

test('operands in any order of their dimensions: as of contiguous copies', function()
  mt.manual_seed(3)
  local calls = {
    {'a + a2', function(a, a2) return a + a2 end}, {'a + c', function(a, _, c) return a + c end},
    {'a * 2', function(a) return a * 2 end}, {'a + row', function(a, _, c) return a + c:select(1, 1) end},
    {'a + column', function(a, _, c) return a + c:narrow(-1, 1, 1) end},
    {'a == a2', function(a, a2) return a:eq(a2) end}, {'float64', function(a) return a:to('float64') end},
    {'bfloat16', function(a) return a:to('bfloat16') end},
    {'where', function(a, a2, c) return mt.where(a:gt(1), a2, c) end},
    {'in place', function(a, a2) return a:clone():transpose(1, -1):add_(a2:transpose(1, -1)) end},
    {'into a part', function(a, a2)
      local out = mt.zeros(a.shape[1], a:numel() / a.shape[1] * 2, {dtype = a.dtype})
      out:view(a.shape[1], -1, 2)[{{}, {}, 2}]:view(a.shape):add_(a):mul_(a2)
      return out
    end},
  }
  for _, dtype in ipairs {'float32', 'float64', 'bfloat16', 'int64', 'uint8'} do
    for _, case in ipairs {{{130, 77}, 2, 1}, {{1100, 70}, 2, 1}, {{5, 4}, 2, 1}, {{64, 300}, 2, 1}, {{300, 4}, 2, 1},
      {{7, 9, 11, 13}, 1, 3, 4, 2}, {{7, 9, 11, 13}, 4, 3, 2, 1}, {{7, 9, 11, 13}, 3, 4, 1, 2}} do
      local function random() return mt.randint(0, 3, case[1]):to(dtype):permute(unpack(case, 2)) end
      local a, a2 = random(), random()
      local c = random():contiguous()
      for _, call in ipairs(calls) do
        local f = call[2]
        local got, want = f(a, a2, c), f(a:contiguous(), a2:contiguous(), c)
        assert(mt.equal(got, want), ('%s of %s, %s'):format(call[1], dtype, table.concat(case[1], ' x ')))
      end
    end
  end
end)

test('permuted operands with broadcasting, of more than a tile: as element by element', function()
  mt.manual_seed(4)
  local function random(n) return mt.randint(1, n + 1, {1}):item() end
  local function numbered(shape, dtype) -- the value of an element is its offset in memory, modulo 251
    local n = 1
    for _, size in ipairs(shape) do n = n * size end
    return mt.range(0, n - 1):remainder(251):to(dtype):view(shape)
  end
  local function offsets(x, shape) -- those of a tensor of this shape that x is expanded to, in row-major order
    local at, offset, place = {}, {}, 0
    for d = 1, #shape do at[d] = 0 end
    local step = x:expand(shape):stride()
    for i = 1, x:expand(shape):numel() do
      offset[i] = place
      local d = #shape
      at[d], place = at[d] + 1, place + step[d]
      while d > 1 and at[d] == shape[d] do
        place, at[d] = place - shape[d] * step[d] + step[d - 1], 0
        d = d - 1
        at[d] = at[d] + 1
      end
    end
    return offset
  end
  for case = 1, 40 do
    local dtype = ({'float32', 'float64', 'int64', 'uint8', 'bfloat16'})[case % 5 + 1]
    local sizes = ({{300, 310}, {1500, 67}, {9, 130, 70}, {3, 200, 2, 90}})[case % 4 + 1]
    local memory, order = {}, mt.randperm(#sizes):tolist()
    for d, size in ipairs(sizes) do memory[d] = size + random(3) end
    local x = numbered(memory, dtype):permute(unpack(order))
    local shape, narrow = x.shape, {}
    for d, size in ipairs(shape) do narrow[d] = random(3) == 1 and 1 or size end
    local y = numbered(narrow, dtype)
    local in_x, in_y = offsets(x, shape), offsets(y, shape)
    local copy, negative = x:contiguous():double():cpu():data(), (-x:to('float32')):cpu():data()
    local sum = (x:double() + y):cpu():data()
    for i = 1, #in_x do
      local a, b = in_x[i] % 251, in_y[i] % 251
      if copy[i - 1] ~= a or negative[i - 1] ~= -a or sum[i - 1] ~= a + b then
        error(('%s, case %d, element %d: %g %g %g'):format(dtype, case, i, copy[i - 1], negative[i - 1], sum[i - 1]))
      end
    end
  end
end)

t.finish()
