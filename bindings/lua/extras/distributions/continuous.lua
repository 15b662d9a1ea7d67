-- continuous.lua -- mt.distributions: Normal, LogNormal, Uniform, Exponential, Laplace, Gamma, StudentT
local mt = require 'mtorch'
local base = require 'mtorch.extras.distributions.base'
local define, is, like = base.define, base.is, base.like

local continuous = {}
local half_log_2pi = 0.5 * math.log(2 * math.pi)
local location_scale = {loc = is.real, scale = is.positive}

local function loc(p) return p.loc end

local function normal_noise(x, shape) return mt.randn(shape, like(x)) end
--- Exponential noise of rate 1.
local function exponential_noise(x, shape) return -(-mt.rand(shape, like(x))):log1p() end

local normal = {
  signature = 'Normal(loc: number|tensor, scale: number|tensor)',
  doc = 'The normal distribution with the mean loc and the standard deviation scale.',
  rules = location_scale, support = is.real, reparametrised = true,
  draw = function(p, shape) return p.loc + p.scale * normal_noise(p.loc, shape) end,
  log_prob = function(p, x) return ((x - p.loc) / p.scale):square() / -2 - p.scale:log() - half_log_2pi end,
  cdf = function(p, x) return ((p.loc - x) / (p.scale * math.sqrt(2))):erfc() / 2 end,
  icdf = function(p, u) return p.loc + p.scale * math.sqrt(2) * (2 * u - 1):erfinv() end,
  entropy = function(p) return p.scale:log() + (0.5 + half_log_2pi) end,
  fields = {mean = loc, mode = loc, variance = function(p) return p.scale:square() end},
}
continuous.Normal = define(normal)

continuous.LogNormal = define{
  signature = 'LogNormal(loc: number|tensor, scale: number|tensor)',
  doc = 'The distribution of exp(x) for x of Normal(loc, scale).',
  rules = location_scale, support = is.positive, reparametrised = true,
  draw = function(p, shape) return normal.draw(p, shape):exp() end,
  log_prob = function(p, x) return normal.log_prob(p, x:log()) - x:log() end,
  cdf = function(p, x) return normal.cdf(p, x:log()) end,
  icdf = function(p, u) return normal.icdf(p, u):exp() end,
  entropy = function(p) return normal.entropy(p) + p.loc end,
  fields = {
    mean = function(p) return (p.loc + p.scale:square() / 2):exp() end,
    mode = function(p) return (p.loc - p.scale:square()):exp() end,
    variance = function(p) return p.scale:square():expm1() * (2 * p.loc + p.scale:square()):exp() end,
  },
}

local function inside(x, p) return x:ge(p.low):logical_and(x:le(p.high)) end
continuous.Uniform = define{
  signature = 'Uniform(low: number|tensor, high: number|tensor)',
  doc = 'The uniform distribution from low to high, which has a density of 0 at high itself.',
  rules = {low = is.real, high = is.real}, support = base.rule(0, 'between low and high', inside),
  reparametrised = true,
  valid = function(p)
    base.check('Uniform: high', p.high, base.rule(0, 'above low', function(x) return x:gt(p.low) end))
  end,
  draw = function(p, shape)
    local x = p.low + (p.high - p.low) * mt.rand(shape, like(p.low))
    return mt.where(x:eq(p.high), p.low, x) -- the sum may be rounded to high
  end,
  log_prob = function(p, x)
    local width = p.high - p.low
    return x:ge(p.low):logical_and(x:lt(p.high)):to(width.dtype):log() - width:log()
  end,
  cdf = function(p, x) return ((x - p.low) / (p.high - p.low)):clamp(0, 1) end,
  icdf = function(p, u) return p.low + (p.high - p.low) * u end,
  entropy = function(p) return (p.high - p.low):log() end,
  fields = {mean = function(p) return (p.low + p.high) / 2 end,
    variance = function(p) return (p.high - p.low):square() / 12 end},
}

continuous.Exponential = define{
  signature = 'Exponential(rate: number|tensor)', doc = 'The exponential distribution with the mean 1 / rate.',
  rules = {rate = is.positive}, support = is.nonnegative, reparametrised = true,
  draw = function(p, shape) return exponential_noise(p.rate, shape) / p.rate end,
  log_prob = function(p, x) return p.rate:log() - p.rate * x end,
  cdf = function(p, x) return -(-p.rate * x):expm1() end,
  icdf = function(p, u) return -(-u):log1p() / p.rate end,
  entropy = function(p) return 1 - p.rate:log() end,
  fields = {mean = function(p) return 1 / p.rate end, mode = function(p) return mt.zeros_like(p.rate) end,
    variance = function(p) return 1 / p.rate:square() end,
    concentration = function(p) return mt.ones_like(p.rate) end}, -- as of Gamma
}

continuous.Laplace = define{
  signature = 'Laplace(loc: number|tensor, scale: number|tensor)',
  doc = 'The Laplace distribution, with the density exp(-|x - loc| / scale) / (2 scale).',
  rules = location_scale, support = is.real, reparametrised = true,
  draw = function(p, shape)
    return p.loc + p.scale * (exponential_noise(p.loc, shape) - exponential_noise(p.loc, shape))
  end,
  log_prob = function(p, x) return -(x - p.loc):abs() / p.scale - (2 * p.scale):log() end,
  cdf = function(p, x)
    local z = (x - p.loc) / p.scale
    return 0.5 - 0.5 * z:sign() * (-z:abs()):expm1()
  end,
  icdf = function(p, u)
    local centred = u - 0.5
    return p.loc - p.scale * centred:sign() * (-2 * centred:abs()):log1p()
  end,
  entropy = function(p) return 1 + (2 * p.scale):log() end,
  fields = {mean = loc, mode = loc, variance = function(p) return 2 * p.scale:square() end},
}

continuous.Gamma = define{
  signature = 'Gamma(concentration: number|tensor, rate: number|tensor)',
  doc = 'The gamma distribution with the mean concentration / rate. The gradient of rsample for the concentration ' ..
    'is implicit (Figurnov et al. 2018); cdf has none for it.',
  rules = {concentration = is.positive, rate = is.positive}, support = is.nonnegative, reparametrised = true,
  draw = function(p, shape) return base.standard_gamma(p.concentration, shape) / p.rate end,
  log_prob = function(p, x)
    local a, b = p.concentration, p.rate
    return a * b:log() + mt.xlogy(a - 1, x) - b * x - a:lgamma()
  end,
  cdf = function(p, x) return mt.igamma(p.concentration, p.rate * x) end,
  entropy = function(p)
    local a = p.concentration
    return a - p.rate:log() + a:lgamma() + (1 - a) * a:digamma()
  end,
  fields = {mean = function(p) return p.concentration / p.rate end,
    mode = function(p) return (p.concentration - 1):clamp(0) / p.rate end,
    variance = function(p) return p.concentration / p.rate:square() end},
}

continuous.StudentT = define{
  signature = 'StudentT(df: number|tensor, loc: number|tensor = 0, scale: number|tensor = 1)',
  doc = "Student's t distribution with df degrees of freedom.",
  rules = {df = is.positive, loc = is.real, scale = is.positive}, support = is.real, reparametrised = true,
  draw = function(p, shape)
    local chi2 = 2 * base.standard_gamma(p.df / 2, shape)
    return p.loc + p.scale * normal_noise(p.loc, shape) * (p.df / chi2):sqrt()
  end,
  log_prob = function(p, x)
    local z = (x - p.loc) / p.scale
    return ((p.df + 1) / 2):lgamma() - (p.df / 2):lgamma() - (p.df * math.pi):log() / 2 - p.scale:log() -
      (p.df + 1) / 2 * (z:square() / p.df):log1p()
  end,
  entropy = function(p)
    local half = p.df / 2
    return (half + 0.5) * ((half + 0.5):digamma() - half:digamma()) + p.df:log() / 2 + half:lgamma() +
      math.log(math.pi) / 2 - (half + 0.5):lgamma() + p.scale:log()
  end,
  fields = {mode = loc, mean = function(p) return mt.where(p.df:gt(1), p.loc, 0 / 0) end,
    variance = function(p)
      local finite = p.scale:square() * p.df / (p.df - 2)
      return mt.where(p.df:gt(2), finite, mt.where(p.df:gt(1), math.huge, 0 / 0))
    end},
}

return continuous
