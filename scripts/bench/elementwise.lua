-- elementwise.lua -- rows of every elementwise operation: <op>/<size>, and gradients <op>_back/<size>
--
-- mtorch's calls follow from the list of operations; the tables here have the peers' names: a call is a function of the
-- inputs (x, y, z), or an expression of them. JAX's calls are NumPy's by default.
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
  {'torch', 'jax.scipy.special', 'xlogy'},
  {'torch.special', 'jax.scipy.special', 'ndtr'},
}
local peers = {
  gelu = {torch = 'F.gelu', jax = 'jax.nn.gelu(x,approximate=False)'}, tanhshrink = {torch = 'F.tanhshrink'},
  lerp = {torch = 'torch.lerp(x,y,0.3)'},
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
local numbers = {clamp = {[2] = 0.7, [3] = 1.2}, lerp = {[3] = 0.3}, polygamma = {[2] = 1},
  threshold = {[2] = 0.5, [3] = 2}}

local function called(text, names)
  if not text or text:find('(', 1, true) then return text end
  return ('%s(%s)'):format(text, table.concat(names, ', '))
end

--- Returns the names of an operation's inputs, the inputs as text with N elements, and the arguments of a call.
local function described(op)
  local given, names, inputs, words = numbers[op.name] or {}, {}, {}, {}
  local lo, hi = math.max(op.lo, 0.5), math.min(op.hi, 1.5)
  if lo >= hi then lo, hi = op.lo, op.hi end
  local letters = op.mask_first and {'c', 'x', 'y'} or {'x', 'y', 'z'}
  for i = 1, op.inputs do
    local kind = op.accepts == 'integer' and 'int9' or ('uniform%g,%g'):format(lo, hi)
    if op.mask_first and i == 1 then kind = 'bool' end
    words[i] = op.name == 'prelu' and i == 2 and 'w' or given[i] or letters[i]
    if words[i] == letters[i] then
      names[#names + 1], inputs[#inputs + 1] = letters[i], ('%s=%s:N'):format(letters[i], kind)
    end
  end
  for i = op.inputs + 1, op.inputs + #op.params do words[i] = given[i] end
  return names, table.concat(inputs, ' '), table.concat(words, ', ')
end

local function add_row(row, op, size)
  local names, inputs, words = described(op)
  local label, peer, setup = size[1], peers[op.name] or {}, op.name == 'prelu' and 'local w = mt.full({1}, 0.25)' or ''
  row('elementwise, ' .. label, ('%s/%s'):format(op.name, label), (inputs:gsub('N', size[2])), {
    {setup, ('mt.%s(%s)'):format(op.name, words)}, torch = called(peer.torch, names),
    numpy = called(peer.numpy, names), jax = called(peer.jax, names), copies = true,
    cpp = cpp[op.name] and ('for (long i = 0; i < n; ++i) o[i] = %s;'):format(cpp[op.name])})
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
  for _, size in ipairs(o.sizes) do
    for _, op in ipairs(core.operations()) do add_row(row, op, size) end
  end
  gradient_rows(row)
end
