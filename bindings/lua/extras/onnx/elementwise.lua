-- elementwise.lua -- elementwise operations that are ONNX operators, and those of kernels/math, which have no formula;
-- all others are derived from the formulas of kernels/ops.h (formula.lua)
local mt = require 'mtorch'
local extend = mt.extend
local Graph = require 'mtorch.extras.onnx.graph'
local formula = require 'mtorch.extras.onnx.formula'

local entries = {}

-- ---- one operand ---------------------------------------------------------------------------------------

-- Functions of one operand, which has the result's dtype. If they return nothing, the formula is used.
local unary = {}

for name, op in pairs{neg = 'Neg', abs = 'Abs', reciprocal = 'Reciprocal', sqrt = 'Sqrt', exp = 'Exp', log = 'Log',
    sin = 'Sin', cos = 'Cos', tanh = 'Tanh', sigmoid = 'Sigmoid'} do
  unary[name] = function(g, x) return g[op](x) end
end
--- Operators that onnxruntime has only in float32.
local function single(op)
  return function(g, x)
    if x.dtype == 'float32' then return g[op](x) end
    return g:cast(g[op](g:cast(x, 'float32')), x.dtype)
  end
end
for name, op in pairs{tan = 'Tan', asin = 'Asin', acos = 'Acos', asinh = 'Asinh', acosh = 'Acosh', atanh = 'Atanh',
    erf = 'Erf', atan = 'Atan'} do
  unary[name] = single(op)
end
local erf, atan, sinh, cosh = unary.erf, unary.atan, single 'Sinh', single 'Cosh'
local function is_float(x) return x.dtype:find 'float' ~= nil end
local function is_int(x) return x.dtype:find 'int' ~= nil end
function unary.cosh(g, x) return x.dtype == 'float64' and (g.Exp(x) + g.Exp(-x)) * 0.5 or cosh(g, x) end
function unary.sinh(g, x)
  if x.dtype ~= 'float64' then return sinh(g, x) end
  return g.Where(g.Less(g.Abs(x), 1), sinh(g, x), (g.Exp(x) - g.Exp(-x)) * 0.5)
end
function unary.relu(g, x) return is_float(x) and g.Relu(x) end
for name, op in pairs{floor = 'Floor', ceil = 'Ceil'} do
  unary[name] = function(g, x) return is_int(x) and x or g[op](x) end
end

local function truncated(g, x) return g.Sign(x) * g.Floor(g.Abs(x)) end
function unary.trunc(g, x) return is_int(x) and x or truncated(g, x) end
function unary.round(g, x, a)
  if is_int(x) then return x end
  if a.decimals == 0 then return g.Round(x) end
  return g.Round(x * 10 ^ a.decimals) / 10 ^ a.decimals
end
function unary.rsqrt(g, x) return g.Reciprocal(g.Sqrt(x)) end
function unary.exp2(g, x) return g.Exp(x * math.log(2)) end
function unary.expm1(g, x)
  return g.Where(g.Less(g.Abs(x), 1), g.Exp(x * 0.5) * sinh(g, x * 0.5) * 2, g.Exp(x) - 1)
end
function unary.log1p(g, x) return g:log1p(x) end
function unary.log2(g, x) return g.Log(x) * (1 / math.log(2)) end
function unary.log10(g, x) return g.Log(x) * (1 / math.log(10)) end
function unary.sinc(g, x)
  local angle = x * math.pi
  return g.Where(g.Equal(x, 0), 1, g.Sin(angle) / angle)
end
function unary.erfc(g, x) return 1 - erf(g, x) end
function unary.ndtr(g, x) return (erf(g, x * math.sqrt(0.5)) + 1) * 0.5 end
function unary.logit(g, x, a)
  if a.eps then x = g.Clip(x, a.eps, 1 - a.eps) end
  return g.Log(x / (1 - x))
end

--- Operators that onnxruntime does not have in float64, for which the formula is used.
local function shorter(op, attributes)
  return function(g, x, a)
    return x.dtype ~= 'float64' and g[op](x, attributes and attributes(a) or {})
  end
end
unary.softsign, unary.selu = shorter 'Softsign', shorter 'Selu'
unary.hardsigmoid = shorter('HardSigmoid', function() return {alpha = 1 / 6, beta = 0.5} end)
unary.elu = shorter('Elu', function(a) return {alpha = a.alpha} end)
unary.leaky_relu = shorter('LeakyRelu', function(a) return {alpha = a.negative_slope} end)
function unary.rrelu(g, x, a)
  local mean = {negative_slope = (a.lower + a.upper) / 2}
  return unary.leaky_relu(g, x, mean) or formula.apply(g, 'leaky_relu', {x}, mean, x.dtype)
end
-- Below -30 gelu is 0, below -1000 silu; at -inf they would be 0 * inf.
function unary.gelu(g, x, a)
  if a.approximate == 'tanh' then return formula.apply(g, 'gelu_tanh', {x}, {}, x.dtype) end
  x = g.Max(x, -30)
  return x * 0.5 * (erf(g, x * math.sqrt(0.5)) + 1)
end
function unary.silu(g, x)
  x = g.Max(x, -1000)
  return x * g.Sigmoid(x)
end
function unary.softplus(g, x, a)
  local y = x * a.beta
  return g.Where(g.Greater(y, a.threshold), x, g:softplus(y) / a.beta)
end
function unary.logsigmoid(g, x) return -g:softplus(-x) end
function unary.tanhshrink(g, x) return x - g.Tanh(x) end
function unary.nan_to_num(g, x, a)
  local max_value = ({float32 = 3.4028234663852886e38, float64 = 1.7976931348623157e308, float16 = 65504,
    bfloat16 = 3.3895313892515355e38})[x.dtype]
  if not max_value then return x end
  local low = g.Where(g.Equal(x, -math.huge), a.neginf or -max_value, x)
  return g.Where(g.IsNaN(x), a.nan, g.Where(g.Equal(x, math.huge), a.posinf or max_value, low))
end
function unary.clamp(g, x, a)
  local function finite(limit) return type(limit) == 'number' and math.abs(limit) < math.huge end
  if finite(a.min) and finite(a.max) then return g.Clip(x, a.min, a.max) end
  if a.min ~= nil and a.min ~= -math.huge then x = g.Max(x, g:cast(a.min, x.dtype)) end
  return a.max ~= nil and a.max ~= math.huge and g.Min(x, g:cast(a.max, x.dtype)) or x
end
unary.clamp_min, unary.clamp_max = unary.clamp, unary.clamp

function entries.logical_not(g, a) return g.Not(g:cast(a.x, 'bool')) end
--- Whether x is negative or -0, whose reciprocal is -inf.
local function has_minus(g, x) return g.Or(g.Less(x, 0), g.Less(g.Reciprocal(x), 0)) end
function entries.signbit(g, a)
  if is_float(a.x) then return has_minus(g, a.x) end
  return g.Less(g:cast(a.x, 'int64'), 0)
end

-- ---- two operands --------------------------------------------------------------------------------------

-- Functions of x and y in the result's dtype.
local binary = {}

function binary.add(g, x, y, a)
  if x.dtype == 'bool' then return g.Or(x, y) end
  return x + y:times(a.alpha)
end
function binary.sub(_, x, y, a) return x - y:times(a.alpha) end
function binary.mul(g, x, y)
  if x.dtype == 'bool' then return g.And(x, y) end
  return x * y
end
--- Returns the remainder of truncated division, and a mask where floor division is one less; for floats.
local function remainder_of(g, x, y)
  local rest = g.Mod(x, y, {fmod = 1})
  return rest, g.And(g.Not(g.Equal(rest, 0)), g.Xor(g.Less(rest, 0), g.Less(y, 0)))
end
function binary.remainder(g, x, y)
  if is_int(x) then return g.Mod(x, y) end
  local rest, less = remainder_of(g, x, y)
  return g.Where(less, rest + y, rest)
end
--- As in Python: from the exact remainder, because x / y may round up to an integer.
function binary.floor_divide(g, x, y)
  if is_int(x) then return (x - g.Mod(x, y)) / y end
  local rest, less = remainder_of(g, x, y)
  local quotient = (x - rest) / y
  quotient = g.Where(less, quotient - 1, quotient)
  return g.Where(g.Equal(y, 0), x / y, g.Floor(quotient + 0.5))
end
function binary.trunc_divide(g, x, y) return is_int(x) and x / y or truncated(g, x / y) end
function binary.div(g, x, y, a)
  if a.rounding_mode == 'floor' then return binary.floor_divide(g, x, y) end
  if a.rounding_mode == 'trunc' then return binary.trunc_divide(g, x, y) end
  return x / y
end
function binary.fmod(g, x, y) return g.Mod(x, y, {fmod = 1}) end
function binary.pow(g, x, y)
  if not is_int(x) then return x ^ y end
  return g:cast(g:cast(x, 'int64') ^ g:cast(y, 'int64'), x.dtype) -- large values wrap
end
function binary.float_power(_, x, y) return x ^ y end
function binary.minimum(g, x, y) return x.dtype ~= 'bool' and g.Min(x, y) end
function binary.maximum(g, x, y) return x.dtype ~= 'bool' and g.Max(x, y) end
local function with_sign_of(g, y, size) return g.Where(has_minus(g, y), -size, size) end
function binary.copysign(g, x, y) return with_sign_of(g, y, g.Abs(x)) end
function binary.atan2(g, x, y) -- atan2(x, y): x is the ordinate
  local high, wide = g.Abs(x), g.Abs(y)
  local ratio = g.Where(g.Equal(high, wide), g.Where(g.Equal(high, 0), high, 1), high / wide)
  local angle = atan(g, ratio)
  return with_sign_of(g, x, g.Where(has_minus(g, y), -(angle - math.pi), angle))
end
function binary.hypot(g, x, y)
  x, y = g.Abs(x), g.Abs(y)
  local long = g.Max(x, y)
  local ratio = g.Min(x, y) / g.Where(g.Equal(long, 0), 1, long)
  return g.Where(g.Or(g.Equal(x, math.huge), g.Equal(y, math.huge)), math.huge, long * g.Sqrt(ratio * ratio + 1))
end
function entries.prelu(g, a, call)
  local slope = g:cast(a.weight, call.dtype)
  if #slope.shape == 1 and slope.shape[1] ~= 1 then slope = g:per_channel(slope, #a.x.shape - 2) end
  return g.PRelu(g:cast(a.x, call.dtype), slope)
end

-- ---- comparisons and logic -----------------------------------------------------------------------------

--- Converts a handle for a comparison with another: constants to positions, other positions to numbers. Negative
--- labels, which are ignored, are equal in both.
local function counted_as(g, other, x)
  if x.positions == other.positions then return x:bare() end
  if x.tensor then return g:constant(mt.where(x.tensor:ge(0), x.tensor - 1, x.tensor)) end
  return x.positions and not other.tensor and x:bare() + 1 or x:bare()
end
--- Converts both operands to one dtype.
local function compared(g, x, y)
  local dtype = Graph.common_dtype(x, y)
  x, y = g:cast(x, dtype), g:cast(y, dtype)
  return counted_as(g, y, x), counted_as(g, x, y)
end

for name, op in pairs{lt = 'Less', le = 'LessOrEqual', gt = 'Greater', ge = 'GreaterOrEqual', eq = 'Equal'} do
  entries[name] = function(g, a)
    local x, y = compared(g, a.x, a.y)
    if x.dtype == 'bool' and op ~= 'Equal' then x, y = g:cast(x, 'int32'), g:cast(y, 'int32') end
    return g[op](x, y)
  end
end
function entries.ne(g, a)
  local x, y = compared(g, a.x, a.y)
  return g.Not(g.Equal(x, y))
end
for name, op in pairs{logical_and = 'And', logical_or = 'Or', logical_xor = 'Xor'} do
  entries[name] = function(g, a) return g[op](g:cast(a.x, 'bool'), g:cast(a.y, 'bool')) end
end
for name, op in pairs{bitwise_and = 'And', bitwise_or = 'Or', bitwise_xor = 'Xor'} do
  binary[name] = function(g, x, y)
    if x.dtype == 'bool' then return g[op](x, y) end
    if g.opset < 18 then extend.fail('onnx.export: %s of whole numbers needs {opset=18}', name) end
    return g['Bitwise' .. op](x, y)
  end
end
--- 2^y as an integer, for shifts.
local function power_of_2(g, y) return g.Pow(g:cast(2, 'int64'), g:cast(y, 'int64')) end
function binary.bitwise_left_shift(g, x, y) return g:cast(g:cast(x, 'int64') * power_of_2(g, y), x.dtype) end
function binary.bitwise_right_shift(g, x, y)
  return g:cast(binary.floor_divide(g, g:cast(x, 'int64'), power_of_2(g, y)), x.dtype)
end
function unary.bitwise_not(g, x) return x.dtype == 'bool' and g.Not(x) or -(x + 1) end
function entries.isclose(g, a)
  local dtype = Graph.common_dtype(a.x, a.y)
  if not dtype:find 'float' then dtype = 'float64' end
  local x, y = g:cast(a.x, dtype), g:cast(a.y, dtype)
  local gap = g.Abs(x - y)
  local close = g.And(g.Less(gap, math.huge), g.LessOrEqual(gap, g.Abs(y) * a.rtol + a.atol))
  close = g.Or(g.Equal(x, y), close) -- the difference of equal infinities is NaN
  return a.equal_nan and g.Or(close, g.And(g.IsNaN(x), g.IsNaN(y))) or close
end

-- 8-bit and 16-bit integers, which few operators support, are computed in int32 and wrap in the conversion back.
local wider = {int8 = 'int32', uint8 = 'int32', int16 = 'int32'}
for name, f in pairs(unary) do
  entries[name] = function(g, a, call)
    local y = f(g, g:cast(a.x, wider[call.dtype] or call.dtype), a)
    return y and g:cast(y, call.dtype)
  end
end
for name, f in pairs(binary) do
  entries[name] = function(g, a, call)
    local dtype = wider[call.dtype] or call.dtype
    local y = f(g, g:cast(a.x, dtype), g:cast(a.y, dtype), a)
    return y and g:cast(y, call.dtype)
  end
end

-- ---- three operands ------------------------------------------------------------------------------------

function entries.where(g, a, call)
  extend.check(a.x ~= nil and a.y ~= nil,
    'onnx.export: where(condition) alone has a size that depends on the data; give x and y')
  return g.Where(g:cast(a.condition, 'bool'), g:cast(a.x, call.dtype), g:cast(a.y, call.dtype))
end

return entries
