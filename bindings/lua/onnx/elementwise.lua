-- elementwise.lua -- elementwise operations as ONNX operators
local core = require 'mtorch.core'
local mt = require 'mtorch'
local Graph = require 'mtorch.onnx.graph'
local Size = require 'mtorch.onnx.size'

local entries = {}
local is_handle = Graph.is_handle

--- A tensor of one element like the operand, or the number that it is.
local function sample(x)
  if is_handle(x) then return mt.ones(#(x.shape or {1}) == 0 and {} or {1}, {dtype = x.dtype}) end
  return Size.first(x)
end
--- The dtype in which two operands meet.
local function common(x, y) return mt.where(mt.tensor(true), sample(x), sample(y)).dtype end

-- ---- one operand ---------------------------------------------------------------------------------------

-- Functions of one operand, converted to the result's dtype before.
local unary = {}

for name, op in pairs{neg = 'Neg', abs = 'Abs', reciprocal = 'Reciprocal', sqrt = 'Sqrt', exp = 'Exp', log = 'Log',
    sin = 'Sin', cos = 'Cos', tanh = 'Tanh', sigmoid = 'Sigmoid', relu = 'Relu', softsign = 'Softsign',
    selu = 'Selu'} do
  unary[name] = function(g, x) return g[op](x) end
end
--- What onnxruntime has in float32 alone.
local function single(op)
  return function(g, x)
    if x.dtype == 'float32' then return g[op](x) end
    return g:cast(g[op](g:cast(x, 'float32')), x.dtype)
  end
end
local erf, sinh, atan = single 'Erf', single 'Sinh', single 'Atan'
for name, op in pairs{tan = 'Tan', asin = 'Asin', acos = 'Acos', cosh = 'Cosh', asinh = 'Asinh', acosh = 'Acosh',
    atanh = 'Atanh', erf = 'Erf', sinh = 'Sinh', atan = 'Atan'} do
  unary[name] = single(op)
end
function unary.sign(g, x) return x.dtype == 'bool' and x or g.Sign(x) end
for name, op in pairs{floor = 'Floor', ceil = 'Ceil'} do
  unary[name] = function(g, x) return x.dtype:find 'int' and x or g[op](x) end
end

local function truncated(g, x) return g.Sign(x) * g.Floor(g.Abs(x)) end
local function softplus(g, x) return g.Softplus(x) end
local function gelu(g, x) return x * 0.5 * (erf(g, x * math.sqrt(0.5)) + 1) end
local function gelu_tanh(g, x) return x * 0.5 * (g.Tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1) end
local function log1p(g, x) -- Kahan: exact where 1 + x rounds
  local u = x + 1
  return g.Where(g.Equal(u, 1), x, g.Log(u) * x / (u - 1))
end

function unary.square(_, x) return x * x end
function unary.rsqrt(g, x) return g.Reciprocal(g.Sqrt(x)) end
function unary.deg2rad(_, x) return x * (math.pi / 180) end
function unary.rad2deg(_, x) return x * (180 / math.pi) end
function unary.exp2(g, x) return g.Exp(x * math.log(2)) end
function unary.expm1(g, x) return g.Exp(x * 0.5) * sinh(g, x * 0.5) * 2 end
unary.log1p = log1p
function unary.log2(g, x) return g.Log(x) * (1 / math.log(2)) end
function unary.log10(g, x) return g.Log(x) * (1 / math.log(10)) end
function unary.trunc(g, x) return x.dtype:find 'int' and x or truncated(g, x) end
function unary.frac(g, x) return x.dtype:find 'int' and x - x or x - truncated(g, x) end
function unary.round(g, x, a)
  if x.dtype:find 'int' then return x end
  if a.decimals == 0 then return g.Round(x) end
  return g.Round(x * 10 ^ a.decimals) / 10 ^ a.decimals
end
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
function unary.hardtanh(g, x, a) return g.Clip(x, a.min_val, a.max_val) end
function unary.relu6(g, x) return g.Clip(x, 0, 6) end
function unary.hardsigmoid(g, x) return g.HardSigmoid(x, {alpha = 1 / 6, beta = 0.5}) end
function unary.hardswish(g, x) return x * g.HardSigmoid(x, {alpha = 1 / 6, beta = 0.5}) end
function unary.threshold(g, x, a) return g.Where(g.Greater(x, a.threshold), x, a.value) end
function unary.hardshrink(g, x, a) return g.Where(g.Greater(g.Abs(x), a.lambd), x, 0) end
function unary.softshrink(g, x, a) return g.Sign(x) * g.Relu(g.Abs(x) - a.lambd) end
function unary.leaky_relu(g, x, a) return g.LeakyRelu(x, {alpha = a.negative_slope}) end
function unary.elu(g, x, a) return g.Elu(x, {alpha = a.alpha}) end
function unary.celu(g, x, a) return g.Elu(x / a.alpha, {alpha = 1}) * a.alpha end
function unary.gelu(g, x, a) return (a.approximate == 'tanh' and gelu_tanh or gelu)(g, x) end
unary.gelu_tanh = gelu_tanh
function unary.rrelu(g, x, a) return g.LeakyRelu(x, {alpha = (a.lower + a.upper) / 2}) end
function unary.silu(g, x) return x * g.Sigmoid(x) end
function unary.softplus(g, x, a)
  local y = x * a.beta
  return g.Where(g.Greater(y, a.threshold), x, softplus(g, y) / a.beta)
end
function unary.logsigmoid(g, x) return -softplus(g, -x) end
function unary.mish(g, x) return x * g.Tanh(softplus(g, x)) end
function unary.tanhshrink(g, x) return x - g.Tanh(x) end
function unary.positive(_, x) return x end
function unary.entr(g, x)
  return g.Where(g.Less(x, 0), -math.huge, g.Where(g.Equal(x, 0), 0, -(x * g.Log(x))))
end
function unary.nan_to_num(g, x, a)
  local most = ({float32 = 3.4028234663852886e38, float64 = 1.7976931348623157e308, float16 = 65504})[x.dtype]
  if not most then return x end
  local high, low = g.IsInf(x, {detect_negative = 0}), g.IsInf(x, {detect_positive = 0})
  return g.Where(g.IsNaN(x), a.nan, g.Where(high, a.posinf or most, g.Where(low, a.neginf or -most, x)))
end
function unary.clamp(g, x, a)
  for _, bound in ipairs{{'min', 'Max'}, {'max', 'Min'}} do
    local limit = a[bound[1]]
    if limit ~= nil then x = g[bound[2]](x, g:cast(limit, x.dtype)) end
  end
  return x
end
unary.clamp_min, unary.clamp_max = unary.clamp, unary.clamp

for name, f in pairs{
  logical_not = function(g, x) return g.Not(g:cast(x, 'bool')) end,
  isnan = function(g, x) return g.IsNaN(x) end,
  isinf = function(g, x) return g.IsInf(x) end,
  isposinf = function(g, x) return g.IsInf(x, {detect_negative = 0}) end,
  isneginf = function(g, x) return g.IsInf(x, {detect_positive = 0}) end,
  isfinite = function(g, x) return g.Not(g.Or(g.IsInf(x), g.IsNaN(x))) end,
} do
  entries[name] = function(g, a)
    if a.x.dtype:find 'float' or name == 'logical_not' then return f(g, a.x) end
    local all = g.Equal(a.x, a.x) -- whole numbers and bools are finite
    return name == 'isfinite' and all or g.Not(all)
  end
end
function entries.signbit(g, a)
  local x = a.x.dtype == 'bool' and g:cast(a.x, 'int32') or a.x
  if not x.dtype:find 'float' then return g.Less(x, 0) end
  return g.Or(g.Less(x, 0), g.Less(g.Reciprocal(x), 0)) -- -0 is the one whose reciprocal is -inf
end

-- ---- two operands --------------------------------------------------------------------------------------

-- Functions of x and y in the result's dtype.
local binary = {}

local function is_int(x) return x.dtype:find 'int' ~= nil end

function binary.add(g, x, y, a)
  if x.dtype == 'bool' then return g.Or(x, y) end
  return x + y:times(a.alpha)
end
function binary.sub(_, x, y, a) return x - y:times(a.alpha) end
function binary.mul(g, x, y)
  if x.dtype == 'bool' then return g.And(x, y) end
  return x * y
end
local function remainder(g, x, y)
  if is_int(x) then return g.Mod(x, y) end
  return x - g.Floor(x / y) * y
end
local function floor_divided(g, x, y)
  if is_int(x) then return (x - g.Mod(x, y)) / y end
  return g.Floor(x / y)
end
local function trunc_divided(g, x, y) return is_int(x) and x / y or truncated(g, x / y) end
function binary.div(g, x, y, a)
  if a.rounding_mode == 'floor' then return floor_divided(g, x, y) end
  if a.rounding_mode == 'trunc' then return trunc_divided(g, x, y) end
  return x / y
end
binary.floor_divide = floor_divided
binary.trunc_divide = trunc_divided
binary.remainder = remainder
function binary.fmod(g, x, y) return g.Mod(x, y, {fmod = 1}) end
function binary.lerp(g, x, y, a) return x + g:cast(a.weight, x.dtype) * (y - x) end
function binary.pow(_, x, y) return x ^ y end
function binary.float_power(_, x, y) return x ^ y end
local function extreme(g, op, x, y)
  if x.dtype == 'bool' then return op == 'Min' and g.And(x, y) or g.Or(x, y) end
  return g[op](x, y)
end
function binary.minimum(g, x, y) return extreme(g, 'Min', x, y) end
function binary.maximum(g, x, y) return extreme(g, 'Max', x, y) end
for name, op in pairs{fmin = 'Min', fmax = 'Max'} do
  binary[name] = function(g, x, y)
    if not x.dtype:find 'float' then return extreme(g, op, x, y) end
    return g.Where(g.IsNaN(x), y, g.Where(g.IsNaN(y), x, g[op](x, y)))
  end
end
function binary.atan2(g, x, y) -- atan2(x, y): x is the ordinate
  local angle = atan(g, x / y)
  local turned = g.Where(g.Less(x, 0), angle - math.pi, angle + math.pi)
  return g.Where(g.And(g.Equal(x, 0), g.Equal(y, 0)), 0, g.Where(g.Less(y, 0), turned, angle))
end
function binary.hypot(g, x, y) return g.Sqrt(x * x + y * y) end
function binary.copysign(g, x, y) return g.Where(g.Less(y, 0), -g.Abs(x), g.Abs(x)) end
function binary.xlogy(g, x, y) return g.Where(g.Equal(x, 0), 0, x * g.Log(y)) end
function binary.xlog1py(g, x, y) return g.Where(g.Equal(x, 0), 0, x * log1p(g, y)) end
function binary.logaddexp(g, x, y) return g.Max(x, y) + log1p(g, g.Exp(-g.Abs(x - y))) end
function binary.logaddexp2(g, x, y)
  return g.Max(x, y) + log1p(g, g.Exp(-(g.Abs(x - y) * math.log(2)))) * (1 / math.log(2))
end
function binary.heaviside(g, x, y)
  if x.dtype == 'bool' then return g.Or(x, y) end
  return g.Where(g.Equal(x, 0), y, g:cast(g.Greater(x, 0), x.dtype))
end
function entries.prelu(g, a, call)
  local slope = g:cast(a.weight, call.dtype)
  if #slope.shape == 1 and slope.shape[1] ~= 1 then slope = g:per_channel(slope, #a.x.shape - 2) end
  return g.PRelu(g:cast(a.x, call.dtype), slope)
end

-- ---- comparisons and logic -----------------------------------------------------------------------------

--- A handle counted as the one that it is compared with: constants as positions, other positions as numbers. Negative
--- labels, which are ignored, are the same in both.
local function counted_as(g, other, x)
  if x.positions == other.positions then return x:bare() end
  if x.tensor then return g:constant(mt.where(x.tensor:ge(0), x.tensor - 1, x.tensor)) end
  return x.positions and not other.tensor and x:bare() + 1 or x:bare()
end
--- Both operands in one dtype.
local function compared(g, x, y)
  local dtype = common(x, y)
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
    if g.opset < 18 then core.fail('onnx.export: %s of whole numbers needs {opset=18}', name) end
    return g['Bitwise' .. op](x, y)
  end
end
--- x 2^y, and its inverse towards minus infinity, of whole numbers.
function binary.bitwise_left_shift(g, x, y) return x * g.Pow(g:cast(2, x.dtype), y) end
function binary.bitwise_right_shift(g, x, y) return floor_divided(g, x, g.Pow(g:cast(2, x.dtype), y)) end
function entries.bitwise_not(g, a)
  if a.x.dtype == 'bool' then return g.Not(a.x) end
  return -(a.x + 1)
end
function entries.isclose(g, a)
  local dtype = common(a.x, a.y)
  if not dtype:find 'float' then dtype = 'float64' end
  local x, y = g:cast(a.x, dtype), g:cast(a.y, dtype)
  return g.LessOrEqual(g.Abs(x - y), g.Abs(y) * a.rtol + a.atol)
end

for name, f in pairs(unary) do
  entries[name] = function(g, a, call) return f(g, g:cast(a.x, call.dtype), a) end
end
for name, f in pairs(binary) do
  entries[name] = function(g, a, call) return f(g, g:cast(a.x, call.dtype), g:cast(a.y, call.dtype), a) end
end

-- ---- three operands ------------------------------------------------------------------------------------

function entries.where(g, a, call)
  if a.x == nil or a.y == nil then
    core.fail('onnx.export: where(condition) alone has a size that depends on the data; give x and y')
  end
  return g.Where(g:cast(a.condition, 'bool'), g:cast(a.x, call.dtype), g:cast(a.y, call.dtype))
end
for name, op in pairs{addcmul = 'Mul', addcdiv = 'Div'} do
  entries[name] = function(g, a, call)
    local dtype = call.dtype
    return g:cast(a.x, dtype) + g[op](g:cast(a.y, dtype), g:cast(a.z, dtype)):times(a.value)
  end
end

return entries
