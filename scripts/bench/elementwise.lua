-- elementwise.lua -- rows of every elementwise operation: <op>/<size>, and gradients <op>_back/<size>
--
-- mtorch's calls follow from the list of operations; the tables here have the peers' names: a call is a function of the
-- inputs (x, y, z), or an expression of them. JAX's calls are NumPy's by default.
local mt = require 'mtorch'
local core = require 'mtorch.core'

-- PyTorch's module and the other peer's (NumPy's, else JAX's), with the operations that are in both, under the second
-- name in the other peer if there is one.
local names = {
  {'torch', 'np', [[neg:negative abs sign sqrt square reciprocal exp log log2 log10 log1p expm1 sin cos tanh floor ceil
    round:rint trunc exp2 tan atan:arctan sinh cosh asinh:arcsinh isnan logical_not isposinf isneginf sinc add
    sub:subtract mul:multiply div:divide pow:power minimum maximum atan2:arctan2 hypot copysign lt:less le:less_equal
    gt:greater ge:greater_equal eq:equal ne:not_equal logical_and logical_or fmod remainder floor_divide fmin fmax
    where logaddexp]]},
  {'torch', 'jax.lax', 'rsqrt erf erfc lgamma digamma igamma igammac'},
  {'torch', 'jax.nn', 'sigmoid relu selu celu'},
  {'F', 'jax.nn', 'leaky_relu elu silu softplus mish hardtanh:hard_tanh relu6 hardsigmoid:hard_sigmoid ' ..
    'hardswish:hard_swish logsigmoid:log_sigmoid'},
  {'torch', 'jax.scipy.special', 'i0 xlogy'},
  {'torch.special', 'jax.scipy.special', 'entr i1 ndtr xlog1py zeta'},
}
local peers = {
  gelu = {torch = 'F.gelu', jax = 'jax.nn.gelu(x,approximate=False)'}, tanhshrink = {torch = 'F.tanhshrink'},
  erfcx = {torch = 'torch.special.erfcx'}, lerp = {torch = 'torch.lerp(x,y,0.3)'},
  clamp = {torch = 'torch.clamp(x,0.7,1.2)', numpy = 'np.clip(x,0.7,1.2)', jax = 'jnp.clip(x,0.7,1.2)'},
}
for _, group in ipairs(names) do
  local torch, other, list = unpack(group)
  for name, renamed in list:gmatch('([%w_]+):?([%w_]*)') do
    local call = ('%s.%s'):format(other, renamed ~= '' and renamed or name)
    peers[name] = {torch = ('%s.%s'):format(torch, name), numpy = other == 'np' and call or nil,
      jax = call:gsub('^np%.', 'jnp.')}
  end
end

-- The calls as loops of C++, for the graphs.
local cpp = {neg = '-x[i]', add = 'x[i] + y[i]', mul = 'x[i] * y[i]', div = 'x[i] / y[i]', exp = 'std::exp(x[i])',
  log = 'std::log(x[i])', tanh = 'std::tanh(x[i])', relu = 'std::max(x[i], 0.f)', sin = 'std::sin(x[i])',
  sqrt = 'std::sqrt(x[i])', sigmoid = '1 / (1 + std::exp(-x[i]))', silu = 'x[i] / (1 + std::exp(-x[i]))'}

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

local function inputs_text(names, kinds, n)
  local list = {}
  for i, name in ipairs(names) do list[i] = ('%s=%s:%d'):format(name, kinds[i], n) end
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
      jax = called(peer.jax, names), copies = true,
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
