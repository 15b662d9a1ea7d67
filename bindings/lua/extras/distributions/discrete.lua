-- discrete.lua -- mt.distributions: Bernoulli, Binomial, Categorical, Poisson
local mt = require 'mtorch'
local extend = mt.extend
local base = require 'mtorch.extras.distributions.base'
local define, is = base.define, base.is

local discrete = {}

--- Probabilities away from 0 and 1, where logits would be infinite.
local function clamped(probs)
  local eps = base.epsilon[probs.dtype]
  return (probs:clamp(eps, 1 - eps))
end

--- Raises an error unless exactly one of probs and logits is given.
local function one_of(name, values)
  extend.check((values.probs == nil) ~= (values.logits == nil),
    '%s: give either probs or logits, as in {probs = p} or {logits = x}', name)
end

local either = 'probs: number|tensor = nil, logits: number|tensor = nil)'
local either_text = ' Give probs or logits = log(probs / (1 - probs)).'
-- Each is computed from the other, of which there is one.
local probs_and_logits = {
  probs = function(p) return rawget(p, 'logits'):sigmoid() end,
  logits = function(p)
    local probs = clamped(rawget(p, 'probs'))
    return probs:log() - (-probs):log1p()
  end,
}
local function with(fields) return extend.util.merged(fields, probs_and_logits) end

--- The mean of q's log_prob over samples of p, both of Bernoulli; logits may be infinite.
function discrete.mean_log_prob(p, q)
  return p.probs * q.logits:logsigmoid():clamp(-1e4) + (1 - p.probs) * (-q.logits):logsigmoid():clamp(-1e4)
end

discrete.Bernoulli = define{
  signature = 'Bernoulli(' .. either, doc = '1 with the probability probs, else 0.' .. either_text,
  rules = {probs = is.probability, logits = is.real}, support = is.binary,
  prepare = function(values) one_of('Bernoulli', values) end,
  draw = function(p, shape) return mt.bernoulli(p.probs:expand(shape)) end,
  log_prob = function(p, x)
    local logits = p.logits
    return x * logits + (-logits):logsigmoid()
  end,
  entropy = function(p) return -discrete.mean_log_prob(p, p) end,
  fields = with{mean = function(p) return p.probs end, mode = function(p) return p.probs:gt(0.5):type_as(p.probs) end,
    variance = function(p) return p.probs * (1 - p.probs) end},
}

local function binomial_log_prob(k, n, logits)
  return (n + 1):lgamma() - (k + 1):lgamma() - (n - k + 1):lgamma() + k * logits + n * (-logits):logsigmoid()
end
local function binomial_mode(n, logits) return ((n + 1) * logits:sigmoid()):floor():minimum(n) end
local propose_binomial = base.log_concave(binomial_log_prob, binomial_mode)

discrete.Binomial = define{
  signature = 'Binomial(total_count: number|tensor, ' .. either,
  doc = 'The number of ones among total_count draws of Bernoulli.' .. either_text,
  rules = {total_count = is.count, probs = is.probability, logits = is.real},
  support = base.rule(0, 'a whole number from 0 to total_count', function(x, p)
    return is.count.holds(x):logical_and(x:le(p.total_count))
  end),
  prepare = function(values) one_of('Binomial', values) end,
  draw = function(p, shape)
    return base.by_rejection(shape, propose_binomial, p.total_count, p.logits:clamp(-1e3, 1e3)):to(p.logits.dtype)
  end,
  log_prob = function(p, x) return binomial_log_prob(x, p.total_count, p.logits) end,
  entropy = function(p) -- a sum over all values; those above total_count have the probability 0
    local dims = extend.util.map(p.batch_shape, function() return 1 end)
    local n, logits = p.total_count, p.logits
    local k = mt.range(0, n:max():item()):to(logits.device):to(logits.dtype):reshape(-1, unpack(dims))
    local log_prob = binomial_log_prob(k, n, logits)
    return -(log_prob:exp() * log_prob:clamp(-1e4)):sum(1)
  end,
  fields = with{mean = function(p) return p.total_count * p.probs end,
    mode = function(p) return binomial_mode(p.total_count, p.logits) end,
    variance = function(p) return p.total_count * p.probs * (1 - p.probs) end},
}

discrete.Categorical = define{
  signature = 'Categorical(' .. either,
  doc = 'The positions 1..n, as int64, with probabilities in the last dimension: probs, which need not sum to 1, or ' ..
    'logits, their logarithms plus any constant.',
  rules = {probs = is.weights, logits = is.real_vector}, dtype = 'int64',
  support = base.rule(0, 'a position from 1 to the number of classes', function(x, p)
    return x:ge(1):logical_and(x:le(p.n))
  end),
  prepare = function(values) one_of('Categorical', values) end,
  ready = function(p)
    local x = rawget(p, 'logits')
    if x then p.logits = x - x:logsumexp(-1, true) else p.probs = p.probs / p.probs:sum(-1, true) end
    p.n = (x or p.probs):size(-1)
    if p.n == 0 then extend.fail 'Categorical: there are no classes' end
  end,
  draw = function(p, shape)
    local count = 1
    for i = 1, #shape - #p.batch_shape do count = count * shape[i] end
    if count == 0 then return mt.zeros(shape, {dtype = 'int64', device = p.like.device}) end
    return mt.multinomial(p.probs:reshape(-1, p.n), count, true):t():reshape(shape)
  end,
  log_prob = function(p, x)
    local shape = mt.broadcast_shapes(x.shape, p.batch_shape)
    local logits = p.logits:expand(base.joined(shape, {p.n}))
    return logits:gather(-1, x:expand(shape):unsqueeze(-1)):squeeze(-1)
  end,
  entropy = function(p) return -(p.probs * p.logits:clamp(-1e4)):sum(-1) end,
  fields = {probs = function(p) return p.logits:softmax(-1) end,
    logits = function(p) return clamped(p.probs):log() end, mode = function(p) return p.probs:argmax(-1) end},
}

local function poisson_log_prob(k, rate) return mt.xlogy(k, rate) - rate - (k + 1):lgamma() end
local propose_poisson = base.log_concave(function(k, rate)
  return mt.where(k:lt(0), -math.huge, poisson_log_prob(k, rate))
end, mt.floor)

discrete.Poisson = define{
  signature = 'Poisson(rate: number|tensor)', doc = 'The Poisson distribution, the number of events of this rate.',
  rules = {rate = is.nonnegative}, support = is.count,
  draw = function(p, shape) return base.by_rejection(shape, propose_poisson, p.rate):to(p.rate.dtype) end,
  log_prob = function(p, x) return poisson_log_prob(x, p.rate) end,
  cdf = function(p, x) return mt.igammac(x + 1, p.rate) end,
  fields = {mean = function(p) return p.rate end, mode = function(p) return p.rate:floor() end,
    variance = function(p) return p.rate end},
}

return discrete
