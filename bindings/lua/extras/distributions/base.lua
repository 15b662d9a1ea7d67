-- base.lua -- the class of distributions: parameters and their checks, shapes, methods
local mt = require 'mtorch'
local extend = mt.extend
local object, util = extend.object, extend.util

local base = {}

--- Options for a new tensor of the dtype and on the device of x.
function base.like(x) return {dtype = x.dtype, device = x.device} end

-- ---- constraints ---------------------------------------------------------------------------------------

local function rule(dims, text, holds) return {dims = dims, text = text, holds = holds} end

--- Rules for parameters and values: holds(x, p) is a bool tensor, in which the last `dims` dimensions are one event.
local is = {
  real = rule(0, 'a number, not NaN', function(x) return x:isnan():logical_not() end),
  positive = rule(0, 'above 0', function(x) return x:gt(0) end),
  nonnegative = rule(0, 'at least 0', function(x) return x:ge(0) end),
  probability = rule(0, 'between 0 and 1', function(x) return x:ge(0):logical_and(x:le(1)) end),
  binary = rule(0, '0 or 1', function(x) return x:eq(0):logical_or(x:eq(1)) end),
  count = rule(0, 'a whole number from 0', function(x) return x:ge(0):logical_and(x:eq(x:floor())) end),
  simplex = rule(1, 'probabilities with the sum 1', function(x)
    return x:ge(0):all(-1):logical_and((x:sum(-1) - 1):abs():lt(x.dtype:find '16' and 0.02 or 1e-5))
  end),
  weights = rule(1, 'numbers from 0 with a positive sum', function(x)
    return x:ge(0):all(-1):logical_and(x:sum(-1):gt(0))
  end),
  symmetric = rule(2, 'a symmetric matrix', function(x)
    local size = x:diagonal(0, -2, -1):abs():sqrt() -- rounding errors are in proportion to rows and columns
    local most = 1e-4 * size:unsqueeze(-1) * size:unsqueeze(-2)
    return (x - x:transpose(-2, -1)):abs():gt(most):any(-1):any(-1):logical_not()
  end),
  lower_cholesky = rule(2, 'a lower triangular matrix with a positive diagonal', function(x)
    return x:tril():eq(x):all(-1):all(-1):logical_and(x:diagonal(0, -2, -1):gt(0):all(-1))
  end),
}
is.real_vector, is.positive_vector = rule(1, is.real.text, is.real.holds), rule(1, is.positive.text, is.positive.holds)
base.is, base.rule = is, rule

--- Raises an error that names the first element that breaks a rule.
local function check(where, x, of, p)
  extend.run_eagerly 'a distribution checks its numbers; {validate_args = false} leaves the checks out'
  local ok = of.holds(x, p)
  if ok:all() then return end
  local at = ok:logical_not():nonzero()[1]:tolist()
  local value = ok:dim() >= x:dim() and x:expand(ok.shape):at(unpack(at)) or nil
  local got = type(value) == 'number' and ', got ' .. util.number_text(value, 6) or ''
  extend.fail('%s must be %s%s%s', where, of.text, got,
    at[1] and (' at [%s]'):format(table.concat(at, ', ')) or '')
end

-- ---- parameters and shapes -----------------------------------------------------------------------------

local function joined(...)
  local shape = {}
  for part in util.values{...} do util.append(shape, part) end
  return shape
end

--- Splits a shape before its last `dims` sizes.
local function split(shape, dims)
  local at = #shape - dims
  return {unpack(shape, 1, at)}, {unpack(shape, at + 1)}
end

--- The numbers and tensors as float tensors; numbers and integers become the dtype of the first float tensor.
local function as_tensors(list)
  local like
  for _, x in ipairs(list) do
    like = like or mt.is_tensor(x) and x:is_floating_point() and x or nil
  end
  local options = like and base.like(like) or {}
  for i, x in ipairs(list) do
    if not mt.is_tensor(x) then list[i] = mt.full({}, x, options)
    elseif not x:is_floating_point() then list[i] = x:to(options.dtype or mt.zeros(1).dtype) end
  end
  return list
end

--- Checks the parameters by their rules, and broadcasts them to one batch shape, in which their own events stand.
local function add_parameters(p, names, list, rules)
  local shapes = {}
  for i, x in ipairs(as_tensors(list)) do
    local name = names[i]
    if x:dim() < rules[name].dims then
      extend.fail('%s: %s needs %d or more dimensions, got the shape %s', p.name, name, rules[name].dims,
        tostring(x.shape))
    end
    if p.validate_args then check(('%s: %s'):format(p.name, name), x, rules[name]) end
    shapes[i] = split(x.shape, rules[name].dims)
  end
  local ok, shape = pcall(mt.broadcast_shapes, unpack(shapes))
  if not ok then
    for i, x in ipairs(list) do shapes[i] = names[i] .. ' ' .. tostring(x.shape) end
    extend.fail('%s: the shapes do not broadcast: %s', p.name, table.concat(shapes, ', '))
  end
  p.batch_shape = shape
  for i, x in ipairs(list) do
    local _, event = split(x.shape, rules[names[i]].dims)
    p[names[i]] = x:expand(joined(shape, event))
  end
  p.like = p[names[1]]
end

-- ---- the class -----------------------------------------------------------------------------------------

local Distribution, method = object.class{called = 'p', name = 'Distribution', word = 'distribution'}
base.methods = Distribution.__methods

function Distribution:describe()
  if self.of.describe then return self.of.describe(self) end
  local parts = {}
  for i, name in ipairs(self.of.parameters) do
    local x = rawget(self, name)
    parts[#parts + 1] = x and ('%s=%s'):format(self.of.parameters[i],
      mt.is_tensor(x) and x:dim() > 0 and tostring(x.shape) or tostring(mt.is_tensor(x) and x:item() or x)) or nil
  end
  return ('%s(%s)'):format(self.name, table.concat(parts, ', '))
end

--- The function of a distribution, or an error that says that it has none.
local function need(p, name)
  return p.of[name] or extend.fail('%s: %s has no closed form here', name, p.name)
end

--- The distribution that draws: Independent is only another view of it.
local function source(p)
  local of = rawget(p, 'base_dist')
  return of and source(of) or p
end

--- A value as a tensor, checked to be in the support (that of Independent is checked by its base_dist).
local function value_of(op, p, x)
  local dtype = source(p).of.dtype
  if not dtype then x = as_tensors{p.like, x}[2] -- of integers, x + 1 could overflow
  elseif not mt.is_tensor(x) then x = mt.full({}, x, {dtype = dtype, device = p.like.device}) end
  if not p.validate_args then return x end
  local _, event = split(x.shape, math.min(#p.event_shape, x:dim()))
  if mt.broadcast_shapes(event) ~= p.event_shape then
    extend.fail('%s: the shape of the value must end in the event shape %s of %s, got %s', op, tostring(p.event_shape),
      p.name, tostring(x.shape))
  end
  if p.of.support then check(('%s: the value of %s'):format(op, p.name), x, p.of.support, p) end
  return x
end

local function drawn(p, draw, shape)
  shape = type(shape) == 'number' and {shape} or shape or {}
  return (draw(p, joined(shape, p.batch_shape, p.event_shape)))
end

method('sample([shape..]: int|ints = nil)', 'Random values [shape x batch_shape x event_shape], without gradients, ' ..
  'from the generator of mt.manual_seed: p:sample(), p:sample(5), p:sample{5, 3}.',
  function(self, shape) return mt.no_grad(drawn, self, need(self, 'draw'), shape) end)

method('rsample([shape..]: int|ints = nil)', 'The same with gradients for the parameters (reparametrisation).',
  function(self, shape)
    extend.check(source(self).of.reparametrised, 'rsample: samples of %s have no gradient; use sample and log_prob, ' ..
      'as in loss = -(p:log_prob(x) * reward):mean()', source(self).name)
    return (drawn(self, self.of.draw, shape))
  end)

method('log_prob(value: number|tensor)', 'The logarithm of the density, or of the probability of whole values.',
  function(self, x) return (need(self, 'log_prob')(self, value_of('log_prob', self, x))) end)
method('cdf(value: number|tensor)', 'The probability of values up to this one.',
  function(self, x) return (need(self, 'cdf')(self, value_of('cdf', self, x))) end)
method('icdf(value: number|tensor)', 'The value up to which there is this probability: the inverse of cdf.',
  function(self, x)
    x = as_tensors{self.like, x}[2]
    if self.validate_args then check('icdf: a probability', x, is.probability) end
    return (need(self, 'icdf')(self, x))
  end)
method('entropy()', 'The entropy in nats, of the shape batch_shape.',
  function(self) return (need(self, 'entropy')(self)) end)

-- ---- definitions ---------------------------------------------------------------------------------------

--- The fields that follow from others are functions of the distribution.
local common = {stddev = function(p) return p.variance:sqrt() end}

--- Returns the class of a spec, see define.
function base.subclass(spec)
  spec.name = spec.signature:match '^%w+'
  local fields = util.merged(common, spec.fields)
  local class = object.class{name = spec.name, base = Distribution, optional = fields}
  local stored = class.__index
  function class.__index(self, key)
    if fields[key] then return fields[key](self) end
    return stored(self, key)
  end
  return class
end

--- Defines a distribution and returns its constructor. `spec` has
---   signature, doc   of the constructor; validate_args is added
---   rules            {parameter = rule}; parameters that are nil are left out
---   support          the rule for values
---   prepare(values, p), ready(p)   may replace parameters before and after they are checked by rules; valid(p)
---                    checks them together
---   draw(p, shape)   samples of the whole shape; with reparametrised = true gradients flow through it
---   log_prob(p, x), cdf(p, x), icdf(p, u), entropy(p)
---   fields           {mean =, variance =, mode =, ..}, functions of the distribution
function base.define(spec)
  local class, parameters = base.subclass(spec), {}
  for name in spec.signature:gmatch '([%w_]+):' do parameters[#parameters + 1] = name end
  spec.parameters = parameters
  local signature = spec.signature:gsub('%)$', ', validate_args: bool = true)')
  return extend.declare(signature, spec.doc, function(...)
    local p, values = {of = spec, name = spec.name, validate_args = (select(#parameters + 1, ...))}, {}
    for i, name in ipairs(parameters) do values[name] = (select(i, ...)) end
    if spec.prepare then spec.prepare(values, p) end
    local names, list = {}, {}
    for _, name in ipairs(parameters) do
      if values[name] ~= nil then names[#names + 1], list[#list + 1] = name, values[name] end
    end
    add_parameters(p, names, list, spec.rules)
    local _, event = split(p.like.shape, spec.support.dims)
    p.event_shape = mt.broadcast_shapes(event)
    if spec.ready then spec.ready(p) end
    if p.validate_args and spec.valid then spec.valid(p) end
    return object.new(class, p)
  end)
end

function base.is_distribution(value) return type(value) == 'table' and Distribution.__is_own(value) end

base.split, base.joined, base.check = split, joined, check

-- ---- samples -------------------------------------------------------------------------------------------

--- Draws by rejection, in float64: propose(..) gets flat parameters and returns candidates, and which of them to draw
--- again (false for NaN, so that the loop ends).
function base.by_rejection(shape, propose, ...)
  local flat = util.map({...}, function(x) return x:detach():double():expand(shape):reshape(-1) end)
  local out = mt.empty_like(flat[1])
  local left = #out > 0 and mt.range(1, #out):to(out.device)
  while left do
    local x, rejected = propose(unpack(flat))
    out:index_copy_(1, left, x)
    if not rejected:any() then break end
    left = left[rejected]
    for i, x_i in ipairs(flat) do flat[i] = x_i[rejected] end
  end
  return out:reshape(shape)
end

--- Proposes from a log-concave distribution on whole numbers with this mode (Devroye 1987, "A simple generator for
--- discrete log-concave distributions"): less than five proposals on average, for any parameters.
function base.log_concave(log_prob, mode)
  return function(...)
    local m = mode(...)
    local top = log_prob(m, ...)
    local p, u = top:exp(), mt.rand_like(top)
    local w = p / 2 + 1
    local tail = w - (1 - mt.rand_like(top)):log()
    local y = mt.where(u:le(w / (w + 1)), mt.rand_like(top) * w, tail) / p
    local x = m + mt.where(mt.rand_like(top):lt(0.5), -1, 1) * y:round()
    local bound = mt.rand_like(top):log() + (w - p * y):clamp_max(0)
    return x, bound:gt(log_prob(x, ...) - top)
  end
end

--- Proposes from the gamma distribution with rate 1 (Marsaglia & Tsang 2000).
local function propose_gamma(a)
  local small = a:lt(1)
  local d = mt.where(small, a + 1, a) - 1 / 3
  local z, u = mt.randn_like(a), 1 - mt.rand_like(a)
  local v = (1 + z / (9 * d):sqrt()) ^ 3
  local x = d * v * mt.where(small, ((1 - mt.rand_like(a)):log() / a):exp(), 1)
  return x, v:le(0):logical_or(u:log():gt(z:square() / 2 + d * (1 - v + v:log())))
end

--- The derivative by a of samples x of the gamma distribution, -(dP(a, x) / da) / p(x) (Figurnov et al. 2018). The
--- derivative of P, below the mean, or of Q = 1 - P, above it, is a difference of fourth order, exact to about 1e-9.
local function gamma_slope(a, x)
  local h = 1e-3 * a:minimum(a:sqrt())
  local function slope(of)
    return (8 * (of(a + h, x) - of(a - h, x)) - of(a + 2 * h, x) + of(a - 2 * h, x)) / (12 * h)
  end
  local density = mt.xlogy(a - 1, x) - x - a:lgamma()
  return mt.where(x:lt(a), -slope(mt.igamma), slope(mt.igammac)) / density:exp()
end

local smallest = {float64 = 2.2250738585072014e-308, float16 = 6.104e-5}
base.epsilon = {float64 = 2 ^ -52, float32 = 2 ^ -23, float16 = 2 ^ -10, bfloat16 = 2 ^ -7} -- from 1 to the next number

--- x, at least the smallest normal number of its dtype.
function base.above_0(x) return (x:clamp(smallest[x.dtype] or 1.1754944e-38)) end

local standard_gamma = mt.Function{
  forward = function(ctx, a)
    local x = base.above_0(base.by_rejection(a.shape, propose_gamma, a))
    ctx:save_for_backward(a, x)
    return base.above_0(x:to(a.dtype))
  end,
  backward = function(ctx, g)
    local a, x = ctx:saved_tensors()
    return ((g:double() * gamma_slope(a:double(), x)):to(g.dtype))
  end,
}

--- Samples of the gamma distribution with rate 1, above 0, with gradients.
function base.standard_gamma(concentration, shape) return (standard_gamma(concentration:expand(shape))) end

return base
