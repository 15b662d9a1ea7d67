-- multivariate.lua -- mt.distributions: Dirichlet and Beta, MultivariateNormal, Independent
local mt = require 'mtorch'
local extend = mt.extend
local base = require 'mtorch.extras.distributions.base'
local define, is = base.define, base.is

local multivariate = {}

-- ---- Dirichlet, and Beta, its first component of two ------------------------------------------------------

local function log_beta(a) return a:lgamma():sum(-1) - a:sum(-1):lgamma() end

local dirichlet = {
  signature = 'Dirichlet(concentration: tensor)',
  doc = 'The Dirichlet distribution of probabilities with the sum 1, in the last dimension.',
  rules = {concentration = is.positive_vector}, support = is.simplex, reparametrised = true,
  draw = function(p, shape) -- by logarithms of gamma samples, because those of small concentrations would be 0
    local a, dtype = p.concentration:double():expand(shape), p.concentration.dtype
    local small = a:lt(0.1) -- there a sample for a is one for a + 1, times u^(1 / a)
    local power = mt.where(small, (1 - mt.rand(shape, base.like(a))):log() / a, 0)
    local x = (base.standard_gamma(mt.where(small, a + 1, a), shape):log() + power):softmax(-1)
    return (base.above_0(x:to(dtype)):clamp_max(1 - base.epsilon[dtype]))
  end,
  log_prob = function(p, x) return mt.xlogy(p.concentration - 1, x):sum(-1) - log_beta(p.concentration) end,
  entropy = function(p)
    local a = p.concentration
    local sum = a:sum(-1)
    return log_beta(a) + (sum - a:size(-1)) * sum:digamma() - ((a - 1) * a:digamma()):sum(-1)
  end,
  fields = {
    mean = function(p) return p.concentration / p.concentration:sum(-1, true) end,
    variance = function(p) return p.mean * (1 - p.mean) / (p.concentration:sum(-1, true) + 1) end,
  },
}
multivariate.Dirichlet = define(dirichlet)

local function first(x) return (x:select(-1, 1)) end

multivariate.Beta = define{
  signature = 'Beta(concentration1: number|tensor, concentration0: number|tensor)',
  doc = 'The beta distribution on 0..1, with the density x^(concentration1 - 1) (1 - x)^(concentration0 - 1), scaled.',
  rules = {concentration1 = is.positive, concentration0 = is.positive}, support = is.probability, reparametrised = true,
  draw = function(p, shape) return first(dirichlet.draw(p, base.joined(shape, {2}))) end,
  log_prob = function(p, x) return dirichlet.log_prob(p, mt.stack({x, 1 - x}, -1)) end,
  entropy = dirichlet.entropy,
  fields = {
    concentration = function(p) return mt.stack({p.concentration1, p.concentration0}, -1) end,
    mean = function(p) return first(dirichlet.fields.mean(p)) end,
    variance = function(p)
      local sum = p.concentration1 + p.concentration0
      return p.concentration1 * p.concentration0 / (sum:square() * (sum + 1))
    end,
  },
}

-- ---- MultivariateNormal -----------------------------------------------------------------------------------

local forms = {'covariance_matrix', 'precision_matrix', 'scale_tril'}

--- Replaces the matrix that is given by its Cholesky factor.
local function prepare(values, p)
  local given, cholesky = {}, mt.linalg.cholesky
  for _, name in ipairs(forms) do given[#given + 1] = values[name] and name end
  extend.check(#given == 1, 'MultivariateNormal: give one of %s, got %s', table.concat(forms, ', '),
    given[1] and table.concat(given, ' and ') or 'none')
  local matrix = values[given[1]]
  values[given[1]] = nil
  local dims, n = matrix:dim(), values.loc:dim() > 0 and values.loc:size(-1)
  extend.check(dims >= 2 and matrix:size(-1) == n and matrix:size(-2) == n,
    'MultivariateNormal: %s must be [.. x n x n] for loc [.. x n], got %s for %s', given[1], matrix.shape,
    values.loc.shape)
  if given[1] ~= 'scale_tril' and p.validate_args then
    base.check('MultivariateNormal: ' .. given[1], matrix, is.symmetric)
  end
  if given[1] == 'precision_matrix' then matrix = mt.linalg.inv(matrix) end
  values.scale_tril = given[1] == 'scale_tril' and matrix or cholesky(matrix)
end

local function log_diagonal(tril) return tril:diagonal(0, -2, -1):log():sum(-1) end

multivariate.MultivariateNormal = define{
  signature = 'MultivariateNormal(loc: tensor, covariance_matrix: tensor = nil, precision_matrix: tensor = nil, ' ..
    'scale_tril: tensor = nil)',
  doc = 'The normal distribution of vectors with the mean loc and one of: the covariance, its inverse, its lower ' ..
    'triangular Cholesky factor, with which all is computed.',
  rules = {loc = is.real_vector, scale_tril = is.lower_cholesky}, support = is.real_vector, reparametrised = true,
  prepare = prepare,
  draw = function(p, shape)
    return p.loc + p.scale_tril:matmul(mt.randn(shape, base.like(p.loc)):unsqueeze(-1)):squeeze(-1)
  end,
  log_prob = function(p, x)
    local z = mt.linalg.solve_triangular(p.scale_tril, (x - p.loc):unsqueeze(-1), false):squeeze(-1)
    return z:square():sum(-1) / -2 - log_diagonal(p.scale_tril) - p.loc:size(-1) * math.log(2 * math.pi) / 2
  end,
  entropy = function(p) return log_diagonal(p.scale_tril) + p.loc:size(-1) * (1 + math.log(2 * math.pi)) / 2 end,
  fields = {
    mean = function(p) return p.loc end, mode = function(p) return p.loc end,
    variance = function(p) return p.scale_tril:square():sum(-1) end,
    covariance_matrix = function(p) return p.scale_tril:matmul(p.scale_tril:transpose(-2, -1)) end,
    precision_matrix = function(p) return mt.linalg.cholesky_inverse(p.scale_tril) end,
  },
}
multivariate.log_beta, multivariate.log_diagonal = log_beta, log_diagonal

-- ---- Independent --------------------------------------------------------------------------------------------

--- The sum over the last n dimensions.
local function summed(x, n)
  if n == 0 then return x end
  return (x:sum(extend.util.tabulate(n, function(i) return -i end)))
end
multivariate.summed = summed

local function inner(name) return function(p) return p.base_dist[name] end end

local independent = {
  signature = 'Independent(base_distribution: table, reinterpreted_batch_ndims: int >= 0)',
  doc = 'A distribution whose last batch dimensions become one event: log_prob and entropy are sums over them.',
  draw = function(p, shape) return p.base_dist.of.draw(p.base_dist, shape) end,
  log_prob = function(p, x) return summed(p.base_dist:log_prob(x), p.reinterpreted_batch_ndims) end,
  entropy = function(p) return summed(p.base_dist:entropy(), p.reinterpreted_batch_ndims) end,
  fields = {mean = inner 'mean', mode = inner 'mode', variance = inner 'variance'},
  describe = function(p) return ('Independent(%s, %d)'):format(tostring(p.base_dist), p.reinterpreted_batch_ndims) end,
}
local class = base.subclass(independent)
multivariate.Independent = extend.declare(independent.signature, independent.doc, function(of, n)
  extend.check(base.is_distribution(of),
    'Independent: base_distribution must be a distribution, got %s', extend.describe(of))
  extend.check(n <= #of.batch_shape, 'Independent: %d dimensions of the batch shape %s are asked for, it has %d', n,
    tostring(of.batch_shape), #of.batch_shape)
  local batch, event = base.split(of.batch_shape, n)
  return extend.object.new(class, {of = independent, name = 'Independent', base_dist = of,
    reinterpreted_batch_ndims = n, batch_shape = mt.broadcast_shapes(batch), like = of.like,
    event_shape = mt.broadcast_shapes(base.joined(event, of.event_shape)), validate_args = of.validate_args})
end)

return multivariate
