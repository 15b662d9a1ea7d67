-- init.lua -- mt.distributions: probability distributions with torch.distributions' names, and divergences
local mt = require 'mtorch'
local extend = mt.extend
local base = require 'mtorch.extras.distributions.base'
local discrete = require 'mtorch.extras.distributions.discrete'
local multivariate = require 'mtorch.extras.distributions.multivariate'

local distributions = {}
for _, file in ipairs{'discrete', 'multivariate', 'continuous'} do
  for name, value in pairs(require('mtorch.extras.distributions.' .. file)) do
    if name:find '^%u' then distributions[name] = value end
  end
end

-- ---- Kullback-Leibler divergences, by the names of p and q -------------------------------------------------

local kl = {}

function kl.Normal_Normal(p, q)
  local ratio = (p.scale / q.scale):square()
  return (ratio + ((p.loc - q.loc) / q.scale):square() - 1 - ratio:log()) / 2
end
kl.LogNormal_LogNormal = kl.Normal_Normal

function kl.Laplace_Laplace(p, q)
  local ratio, distance = p.scale / q.scale, (p.loc - q.loc):abs()
  return distance / q.scale + ratio * (-distance / p.scale):exp() - ratio:log() - 1
end

function kl.Gamma_Gamma(p, q)
  local a, b = p.concentration, q.concentration
  return b * (p.rate / q.rate):log() + b:lgamma() - a:lgamma() + (a - b) * a:digamma() + (q.rate - p.rate) * a / p.rate
end
kl.Exponential_Exponential, kl.Exponential_Gamma, kl.Gamma_Exponential = kl.Gamma_Gamma, kl.Gamma_Gamma, kl.Gamma_Gamma

function kl.Dirichlet_Dirichlet(p, q)
  local a, b = p.concentration, q.concentration
  return multivariate.log_beta(b) - multivariate.log_beta(a) +
    ((a - b) * (a:digamma() - a:sum(-1, true):digamma())):sum(-1)
end
kl.Beta_Beta = kl.Dirichlet_Dirichlet

--- The value, or infinity where p gives a probability to what q excludes.
local function unless(excluded, value) return mt.where(excluded, math.huge, value) end

function kl.Bernoulli_Bernoulli(p, q)
  local excluded = q.probs:eq(0):logical_and(p.probs:gt(0)):logical_or(q.probs:eq(1):logical_and(p.probs:lt(1)))
  return unless(excluded, discrete.mean_log_prob(p, p) - discrete.mean_log_prob(p, q))
end
function kl.Binomial_Binomial(p, q)
  extend.check(not p.total_count:ne(q.total_count):any(),
    'kl_divergence: the two distributions Binomial need the same total_count')
  return p.total_count * kl.Bernoulli_Bernoulli(p, q)
end
function kl.Categorical_Categorical(p, q)
  if p.n ~= q.n then extend.fail('kl_divergence: p has %d classes, q has %d', p.n, q.n) end
  local excluded = q.probs:eq(0):logical_and(p.probs:gt(0)):any(-1)
  return unless(excluded, (p.probs * (p.logits:clamp(-1e4) - q.logits:clamp(-1e4))):sum(-1))
end
function kl.Poisson_Poisson(p, q) return mt.xlogy(p.rate, p.rate / q.rate) + q.rate - p.rate end

function kl.Uniform_Uniform(p, q)
  return unless(q.low:gt(p.low):logical_or(q.high:lt(p.high)), ((q.high - q.low) / (p.high - p.low)):log())
end

function kl.MultivariateNormal_MultivariateNormal(p, q)
  local ratio = mt.linalg.solve_triangular(q.scale_tril, p.scale_tril, false)
  local shift = mt.linalg.solve_triangular(q.scale_tril, (q.loc - p.loc):unsqueeze(-1), false)
  return multivariate.log_diagonal(q.scale_tril) - multivariate.log_diagonal(p.scale_tril) +
    (ratio:square():sum{-2, -1} + shift:square():sum{-2, -1} - p.loc:size(-1)) / 2
end

function kl.Independent_Independent(p, q)
  extend.check(p.reinterpreted_batch_ndims == q.reinterpreted_batch_ndims,
    'kl_divergence: both distributions Independent need the same reinterpreted_batch_ndims, got %d and %d',
    p.reinterpreted_batch_ndims, q.reinterpreted_batch_ndims)
  return multivariate.summed(distributions.kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
end

distributions.kl_divergence = extend.declare('kl_divergence(p: table, q: table)',
  'The Kullback-Leibler divergence of q from p, the mean of log p(x) - log q(x) over x of p, in nats: of two of the ' ..
    'same kind (but StudentT), and between Exponential and Gamma.',
  function(p, q)
    for name, x in pairs{p = p, q = q} do
      extend.check(base.is_distribution(x),
        'kl_divergence: %s must be a distribution, got %s', name, extend.describe(x))
    end
    extend.check(p.event_shape == q.event_shape,
      'kl_divergence: the event shapes of p and q differ: %s and %s', tostring(p.event_shape), tostring(q.event_shape))
    local formula = kl[p.name .. '_' .. q.name] or extend.fail('kl_divergence: there is no formula for %s and %s; ' ..
      'an estimate is (p:log_prob(x) - q:log_prob(x)):mean(1) with x = p:sample(1000)', p.name, q.name)
    return (formula(p, q))
  end)

return extend.strict(distributions, 'mt.distributions')
