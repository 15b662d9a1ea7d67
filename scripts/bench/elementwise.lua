-- elementwise.lua -- rows of every elementwise operation: <op>/<size>, and gradients <op>_back/<size>
--
-- mtorch's calls follow from the list of operations; a line here has a peer's call: a function of the inputs (x, y, z),
-- or an expression of them. JAX's calls are NumPy's by default.
local mt = require 'mtorch'
local core = require 'mtorch.core'

local peers = {}
for line in ([[
neg          torch.neg                 np.negative
abs          torch.abs                 np.abs
sign         torch.sign                np.sign
sqrt         torch.sqrt                np.sqrt
rsqrt        torch.rsqrt               -                  jax.lax.rsqrt
square       torch.square              np.square
reciprocal   torch.reciprocal          np.reciprocal
exp          torch.exp                 np.exp
log          torch.log                 np.log
log2         torch.log2                np.log2
log10        torch.log10               np.log10
log1p        torch.log1p               np.log1p
expm1        torch.expm1               np.expm1
sin          torch.sin                 np.sin
cos          torch.cos                 np.cos
tanh         torch.tanh                np.tanh
sigmoid      torch.sigmoid             -                  jax.nn.sigmoid
relu         torch.relu                -                  jax.nn.relu
leaky_relu   F.leaky_relu              -                  jax.nn.leaky_relu
elu          F.elu                     -                  jax.nn.elu
gelu         F.gelu                    -                  jax.nn.gelu(x,approximate=False)
silu         F.silu                    -                  jax.nn.silu
softplus     F.softplus                -                  jax.nn.softplus
erf          torch.erf                 -                  jax.lax.erf
erfc         torch.erfc                -                  jax.lax.erfc
floor        torch.floor               np.floor
ceil         torch.ceil                np.ceil
round        torch.round               np.rint
trunc        torch.trunc               np.trunc
exp2         torch.exp2                np.exp2
tan          torch.tan                 np.tan
atan         torch.atan                np.arctan
sinh         torch.sinh                np.sinh
cosh         torch.cosh                np.cosh
asinh        torch.asinh               np.arcsinh
lgamma       torch.lgamma              -                  jax.lax.lgamma
digamma      torch.digamma             -                  jax.lax.digamma
selu         torch.selu                -                  jax.nn.selu
celu         torch.celu                -                  jax.nn.celu
mish         F.mish                    -                  jax.nn.mish
hardtanh     F.hardtanh                -                  jax.nn.hard_tanh
relu6        F.relu6                   -                  jax.nn.relu6
hardsigmoid  F.hardsigmoid             -                  jax.nn.hard_sigmoid
hardswish    F.hardswish               -                  jax.nn.hard_swish
logsigmoid   F.logsigmoid              -                  jax.nn.log_sigmoid
isnan        torch.isnan               np.isnan
logical_not  torch.logical_not         np.logical_not
isposinf     torch.isposinf            np.isposinf
isneginf     torch.isneginf            np.isneginf
sinc         torch.sinc                np.sinc
tanhshrink   F.tanhshrink              -
entr         torch.special.entr        -                  jax.scipy.special.entr
i0           torch.i0                  -                  jax.scipy.special.i0
i1           torch.special.i1          -                  jax.scipy.special.i1
ndtr         torch.special.ndtr        -                  jax.scipy.special.ndtr
erfcx        torch.special.erfcx       -
clamp        torch.clamp(x,0.7,1.2)    np.clip(x,0.7,1.2)
add          torch.add                 np.add
sub          torch.sub                 np.subtract
mul          torch.mul                 np.multiply
div          torch.div                 np.divide
pow          torch.pow                 np.power
minimum      torch.minimum             np.minimum
maximum      torch.maximum             np.maximum
atan2        torch.atan2               np.arctan2
hypot        torch.hypot               np.hypot
copysign     torch.copysign            np.copysign
xlogy        torch.xlogy               -                  jax.scipy.special.xlogy
logaddexp    torch.logaddexp           np.logaddexp
lt           torch.lt                  np.less
le           torch.le                  np.less_equal
gt           torch.gt                  np.greater
ge           torch.ge                  np.greater_equal
eq           torch.eq                  np.equal
ne           torch.ne                  np.not_equal
logical_and  torch.logical_and         np.logical_and
logical_or   torch.logical_or          np.logical_or
fmod         torch.fmod                np.fmod
remainder    torch.remainder           np.remainder
floor_divide torch.floor_divide        np.floor_divide
fmin         torch.fmin                np.fmin
fmax         torch.fmax                np.fmax
xlog1py      torch.special.xlog1py     -                  jax.scipy.special.xlog1py
zeta         torch.special.zeta        -                  jax.scipy.special.zeta
igamma       torch.igamma              -                  jax.lax.igamma
igammac      torch.igammac             -                  jax.lax.igammac
where        torch.where               np.where
lerp         torch.lerp(x,y,0.3)       -
]]):gmatch('[^\n]+') do
  local name, torch, numpy, jax = line:match('^(%S+)%s+(%S+)%s+(%S+)%s*(%S*)')
  numpy = numpy ~= '-' and numpy or nil
  peers[name] = {torch = torch, numpy = numpy, jax = jax ~= '' and jax or numpy and numpy:gsub('^np%.', 'jnp.') or nil}
end

-- The calls as loops of C++, and as methods of tinygrad, for the graphs.
local cpp = {neg = '-x[i]', add = 'x[i] + y[i]', mul = 'x[i] * y[i]', div = 'x[i] / y[i]', exp = 'std::exp(x[i])',
  log = 'std::log(x[i])', tanh = 'std::tanh(x[i])', relu = 'std::max(x[i], 0.f)', sin = 'std::sin(x[i])',
  sqrt = 'std::sqrt(x[i])', sigmoid = '1 / (1 + std::exp(-x[i]))', silu = 'x[i] / (1 + std::exp(-x[i]))'}
local tinygrad = {neg = '-x', add = 'x + y', mul = 'x * y', div = 'x / y', exp = 'x.exp()', log = 'x.log()',
  tanh = 'x.tanh()', relu = 'x.relu()', sin = 'x.sin()', sqrt = 'x.sqrt()', sigmoid = 'x.sigmoid()',
  silu = 'x.silu()', gelu = 'x.gelu()'}

-- Gradients that have rows.
local differentiated = 'exp exp2 expm1 log log1p log2 log10 sin cos tan atan tanh erf erfc sigmoid silu gelu ' ..
                       'softplus logsigmoid mish elu rsqrt'

-- Arguments that are plain numbers, by position.
local numbers = {clamp = {[2] = 0.7, [3] = 1.2}, lerp = {[3] = 0.3}, polygamma = {[2] = 1}}

local function called(text, names)
  if not text or text:find('(', 1, true) then return text end
  return ('%s(%s)'):format(text, table.concat(names, ', '))
end

--- Returns the inputs of an operation as text without their shape, and the call.
local function described(op)
  local given, kinds, names, words = numbers[op.name] or {}, {}, {}, {}
  local lo, hi = math.max(op.lo, 0.5), math.min(op.hi, 1.5)
  if lo >= hi then lo, hi = op.lo, op.hi end
  local letters = op.mask_first and {'c', 'x', 'y'} or {'x', 'y', 'z'}
  for i = 1, op.inputs do
    local kind = op.accepts == 'integer' and 'int9' or ('uniform%g,%g'):format(lo, hi)
    if op.mask_first and i == 1 then kind = 'bool' end
    if op.name == 'prelu' and i == 2 then words[i] = 'w' else
      words[i] = given[i] and tostring(given[i]) or letters[i]
    end
    if not given[i] and words[i] ~= 'w' then names[#names + 1], kinds[#kinds + 1] = letters[i], kind end
  end
  for i = op.inputs + 1, op.inputs + #op.params do words[i] = given[i] and tostring(given[i]) end
  return names, kinds, words
end

--- Whether the operation requires its parameters, by a call with one element.
local function requires_parameters(op)
  local list = {}
  for i = 1, op.inputs do list[i] = op.accepts == 'integer' and mt.ones({1}, {dtype = 'int64'}) or mt.ones(1) end
  if op.mask_first then list[1] = mt.ones(1):bool() end
  return not pcall(mt[op.name], unpack(list))
end

local function inputs_text(names, kinds, n, leaf)
  local list = {}
  for i, name in ipairs(names) do list[i] = ('%s=%s%s:%d'):format(name, leaf or '', kinds[i], n) end
  return table.concat(list, ' ')
end

local function rows_of(row, op, sizes)
  local names, kinds, words = described(op)
  if #op.params > 0 and #words == op.inputs and requires_parameters(op) then
    for i = op.inputs + 1, op.inputs + #op.params do words[i] = '0.5' end
  end
  local call, peer = ('mt.%s(%s)'):format(op.name, table.concat(words, ', ')), peers[op.name] or {}
  local setup = op.name == 'prelu' and 'local w = mt.full({1}, 0.25)' or ''
  for _, size in ipairs(sizes) do
    row('elementwise, ' .. size[1], ('%s/%s'):format(op.name, size[1]), inputs_text(names, kinds, size[2]), {
      {setup, call}, torch = called(peer.torch, names), numpy = called(peer.numpy, names),
      jax = called(peer.jax, names), tinygrad = tinygrad[op.name], copies = true,
      cpp = cpp[op.name] and ('for (long i = 0; i < n; ++i) o[i] = %s;'):format(cpp[op.name])})
  end
end

local function gradient_rows(row)
  local group = 'functions and their gradients'
  for name in differentiated:gmatch('%S+') do
    local torch = called(peers[name].torch, {'x'})
    local numpy, jax = called(peers[name].numpy, {'x'}), called(peers[name].jax, {'x'})
    row(group, name .. '/64Ki', 'x=65536', {('mt.%s(x)'):format(name), torch = torch, numpy = numpy, jax = jax,
      copies = true})
    for _, size in ipairs {{'64Ki', 65536}, {'1Mi', 1048576}} do
      row(group, ('%s_back/%s'):format(name, size[1]), ('x=leaf:%d'):format(size[2]), {
        {('local call = tools.gradient(mt.%s(x), x)'):format(name), 'call()'},
        torch = {('y = %s; g = torch.randn_like(y)'):format(torch), 'torch.autograd.grad(y, x, g, retain_graph=True)'}})
    end
  end
end

return function(row, o)
  local operations = core.operations()
  for _, size in ipairs(o.sizes) do
    for _, op in ipairs(operations) do rows_of(row, op, {size}) end
  end
  gradient_rows(row)
end
