-- test_distributions.lua -- mt.distributions: PyTorch's values, gradients, samples, errors
local mt = require 'mtorch'
local t = require 'testing'
local D = mt.distributions
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')
local cases = dofile(here .. '/data/distribution_values.lua')
mt.set_default_dtype 'float64'

--- Asserts that a tensor has these values, nested lists, to `tol` (relative above 1).
local function close(what, got, list, tol)
  local wanted = mt.tensor(list)
  t.eq(tostring(got.shape), tostring(wanted.shape))
  local ok = mt.allclose(got:double(), wanted, {rtol = tol or 1e-9, atol = tol or 1e-9, equal_nan = true})
  assert(ok, ('%s is %s, expected %s'):format(what, tostring(got), tostring(wanted)))
end

--- The parameters of a case as tensors, in reverse order if `reverse`.
local function tensors(parameters, reverse)
  local out = {}
  for name, list in pairs(parameters) do
    local x = mt.tensor(list)
    out[name] = reverse and x:flip(1) or x
  end
  return out
end

for i, case in ipairs(cases) do
  local name, parameters, x, expected = unpack(case)
  t.test(('%d %s: values of PyTorch'):format(i, name), function()
    local p = D[name](tensors(parameters))
    local value, first = mt.tensor(x), name == 'Categorical' and 1 or 0
    if first == 1 then value = value:long() + 1 end
    for what, list in pairs(expected) do
      local got
      if what == 'log_prob' or what == 'cdf' then got = p[what](p, value)
      elseif what == 'icdf' then got = p:icdf(mt.full({5}, 0.3))
      elseif what == 'entropy' then got = p:entropy()
      elseif what == 'kl' then got = D.kl_divergence(p, D[name](tensors(parameters, true)))
      else got = p[what] end
      if what == 'mode' then got = got - first end
      close(what, got, list)
    end
    if expected.variance then t.eq(mt.equal(p.stddev:nan_to_num(), p.variance:sqrt():nan_to_num()), true) end
  end)

  t.test(('%d %s: gradients of log_prob, entropy and kl'):format(i, name), function()
    local names, inputs = {}, {}
    for key, list in pairs(parameters) do
      if key ~= 'total_count' then
        names[#names + 1], inputs[#inputs + 1] = key, mt.tensor(list)[{{1, 3}}]:clone():requires_grad_()
      end
    end
    local value = mt.tensor(x)[{{1, 3}}]
    if name == 'Categorical' then value = value:long() + 1 end
    local function made(list)
      local given = {validate_args = false, total_count = parameters.total_count and mt.full({3}, 7)}
      for k, key in ipairs(names) do
        given[key] = key:find 'matrix' and (list[k] + list[k]:transpose(2, 3)) / 2 or list[k]
      end
      return D[name](given)
    end
    local edge = name == 'Bernoulli' and parameters.probs and parameters.probs[1] == 0
    if edge then return end
    t.eq(mt.gradcheck(function(...)
      local p, flipped = made{...}, {}
      for k, v in ipairs{...} do flipped[k] = v:flip(1) end
      local sum = p:log_prob(value):sum()
      if expected.entropy then sum = sum + p:entropy():sum() * 0.7 end
      if expected.kl and name ~= 'Uniform' then sum = sum + D.kl_divergence(p, made(flipped)):sum() end
      return sum
    end, inputs), true)
  end)
end

-- ---- samples -------------------------------------------------------------------------------------------

local many = t.on_gpu() and 3000 or 20000

--- Asserts that the largest distance between the empirical and the exact distribution is likely (Kolmogorov-Smirnov).
local function ks(what, x, cdf)
  local sorted = x:flatten():sort()
  local n = #sorted
  local gap = (cdf(sorted) - mt.range(1, n) / n):abs():max():item() * math.sqrt(n)
  assert(gap < 1.95, ('%s: %.3g'):format(what, gap)) -- 1.95: 1 in 1000
end

t.test('samples of continuous distributions have the distribution that cdf says', function()
  mt.manual_seed(1)
  for _, p in ipairs{D.Normal(-1, 2), D.LogNormal(0.5, 0.8), D.Uniform(-2, 3), D.Exponential(0.3), D.Laplace(1, 2),
    D.Gamma(0.1, 2), D.Gamma(0.9, 1), D.Gamma(1, 1), D.Gamma(3.5, 0.1), D.Gamma(500, 1)} do
    ks(tostring(p), p:sample(many), function(x) return p:cdf(x) end)
  end
  ks('Beta(3, 1)', D.Beta(3, 1):sample(many), function(x) return x ^ 3 end)
  ks('Beta(1, 0.2)', D.Beta(1, 0.2):sample(many), function(x) return 1 - (1 - x) ^ 0.2 end)
  ks('StudentT(1)', D.StudentT(1):sample(many), function(x) return 0.5 + x:atan() / math.pi end)
  ks('StudentT(2, 1, 3)', D.StudentT(2, 1, 3):sample(many), function(x)
    local z = (x - 1) / 3
    return 0.5 + z / (2 * (2 + z:square()):sqrt())
  end)
  local third = D.Dirichlet(mt.tensor{0.5, 1, 1.5}):sample(many)[{{}, 3}] -- Beta(1.5, 1.5)
  ks('Dirichlet', third, function(x)
    local angle = (2 * x - 1):asin()
    return 0.5 + (angle + (2 * x - 1) * angle:cos()) / math.pi
  end)
end)

--- Asserts that counts of values are likely (chi-square); values that are expected less than 10 times are joined.
local function chi_square(what, x, p, low, high)
  local n, statistic, cells, rest, seen = x:numel(), 0, 0, 1, 0
  for k = low, high do
    local share = p:log_prob(mt.tensor(k):type_as(x)):exp():item()
    if share * n >= 10 then
      local count = x:eq(k):sum():item()
      statistic, cells = statistic + (count - share * n) ^ 2 / (share * n), cells + 1
      rest, seen = rest - share, seen + count
    end
  end
  if rest * n >= 10 then statistic, cells = statistic + (n - seen - rest * n) ^ 2 / (rest * n), cells + 1 end
  local free = math.max(cells - 1, 1)
  assert(math.abs(rest * n) >= 10 or seen >= n - 40, what)
  local limit = free * (1 - 2 / (9 * free) + 3.1 * math.sqrt(2 / (9 * free))) ^ 3 -- Wilson & Hilferty, 1 in 1000
  assert(statistic < limit, ('%s: %.4g, at most %.4g'):format(what, statistic, limit))
end

t.test('samples of small concentrations are near the corners, in float32 too', function()
  mt.manual_seed(8)
  local a = mt.full({1000, 3}, 0.01, 'float32')
  assert(D.Dirichlet(a):sample():amax(-1):lt(0.4):sum():item() < 5)
  local x = D.Beta(a, 0.01):sample()
  assert((x - 0.5):abs():lt(0.01):sum():item() < 10 and x:gt(0):all())
  t.eq(D.Beta(a:half(), 0.01):sample().dtype, 'float16')
  local tiny = mt.full({1000, 3}, 1e-4)
  t.eq(D.Beta(tiny, 1e-4):sample():eq(0.5):any(), false) -- both gamma samples are below 1e-308
  t.eq(D.Dirichlet(tiny):sample():amax(-1):lt(0.4):any(), false)
  for _, dtype in ipairs{'bfloat16', 'float32', 'float64'} do -- a sample of 1 would have an infinite density
    local p = D.Beta(mt.full({1000}, 0.1, {dtype = dtype}), 0.1)
    assert(p:log_prob(p:sample()):isfinite():all())
  end
  for _, dtype in ipairs{'float16', 'bfloat16', 'float32'} do -- samples are values
    local p = D.Dirichlet(mt.ones({100, 5}, {dtype = dtype}))
    assert(p:log_prob(p:sample()):isfinite():all())
  end
end)

t.test('samples of Uniform are below high, also after rounding', function()
  mt.manual_seed(3)
  for _, case in ipairs{{'bfloat16', 1}, {'float16', 1}, {'float32', 1000}} do
    local p = D.Uniform(mt.tensor(case[2], case[1]), case[2] + 1)
    assert(p:log_prob(p:sample(10 * many)):isfinite():all(), case[1])
  end
end)

t.test('samples of whole numbers have the probabilities that log_prob says', function()
  mt.manual_seed(2)
  for _, rate in ipairs{0.01, 0.7, 1, 4.5, 10, 300} do
    chi_square('Poisson ' .. rate, D.Poisson(rate):sample(many), D.Poisson(rate), 0, 450)
  end
  for _, case in ipairs{{1, 0.3}, {5, 0.5}, {40, 0.02}, {40, 0.98}, {1000, 0.4}} do
    local p = D.Binomial(unpack(case))
    chi_square(tostring(p), p:sample(many), p, 0, case[1])
  end
  chi_square('Bernoulli', D.Bernoulli(0.2):sample(many), D.Bernoulli(0.2), 0, 1)
  local p = D.Categorical{logits = mt.tensor{0, 1, 2, -1}}
  chi_square('Categorical', p:sample(many), p, 1, 4)
  t.eq(D.Poisson(0):sample(3):tolist(), {0, 0, 0})
  t.eq(D.Binomial(9, mt.tensor{0, 1}):sample():tolist(), {0, 9})
  local large = D.Poisson(1e8):sample(1000)
  assert(math.abs(large:mean():item() - 1e8) < 2000 and math.abs(large:std():item() - 1e4) < 1000)
end)

t.test('samples of vectors have mean and covariance', function()
  mt.manual_seed(3)
  local tril = mt.tensor{{1, 0}, {-2, 0.5}}
  local p = D.MultivariateNormal(mt.tensor{1, 2}, {scale_tril = tril})
  local x = p:sample(40000)
  close('mean', x:mean(1), {1, 2}, 0.05)
  close('covariance', x:t():cov(), {{1, -2}, {-2, 4.25}}, 0.05)
  close('the same from the covariance', p.covariance_matrix, {{1, -2}, {-2, 4.25}})
  local rounded = mt.tensor({{1e4, 3}, {3.001, 1e4}}, 'float32') -- symmetric but for rounding errors of 1e4
  D.MultivariateNormal(mt.zeros(2), rounded)
  local q = D.MultivariateNormal(p.loc, p.covariance_matrix)
  close('its factor', q.scale_tril, tril:tolist())
end)

t.test('shapes: of samples, batches and events', function()
  local p = D.Normal(mt.zeros(2, 1), mt.ones(3))
  t.eq({tostring(p.batch_shape), tostring(p.event_shape)}, {'(2, 3)', '()'})
  t.eq({tostring(p:sample().shape), tostring(p:sample(4).shape), tostring(p:sample{4, 5}.shape)},
    {'(2, 3)', '(4, 2, 3)', '(4, 5, 2, 3)'})
  t.eq(tostring(p:log_prob(mt.zeros(7, 1, 1)).shape), '(7, 2, 3)')
  local d = D.Dirichlet(mt.ones(2, 4))
  t.eq({tostring(d.batch_shape), tostring(d.event_shape), tostring(d:sample(5).shape),
    tostring(d:log_prob(d:sample(5)).shape)}, {'(2)', '(4)', '(5, 2, 4)', '(5, 2)'})
  local c = D.Categorical(mt.ones(2, 4))
  t.eq({tostring(c:sample().shape), c:sample().dtype, tostring(c:sample{3, 5}.shape)}, {'(2)', 'int64', '(3, 5, 2)'})
  t.eq(tostring(c:log_prob(mt.tensor({1}, 'int64')).shape), '(2)')
  local m = D.MultivariateNormal(mt.zeros(3), {scale_tril = mt.eye(3):expand(2, 3, 3)})
  t.eq({tostring(m:sample(5).shape), tostring(m:log_prob(m:sample(5)).shape), tostring(m)},
    {'(5, 2, 3)', '(5, 2)', 'MultivariateNormal(loc=(2, 3), scale_tril=(2, 3, 3))'})
  t.eq(tostring(D.Gamma(mt.zeros(0) + 1, 1):sample(2).shape), '(2, 0)')
  t.eq(tostring(D.Categorical(mt.ones(2, 4)):sample{3, 0}.shape), '(3, 0, 2)')
  t.eq({D.Normal(mt.zeros(2, 'float32'), 1):sample().dtype, D.Gamma(mt.ones(2, 'float32'), 1):sample().dtype,
    D.Poisson(mt.ones(2, 'int64')):sample().dtype}, {'float32', 'float32', 'float64'})
end)

t.test('Independent sums over batch dimensions', function()
  local normal = D.Normal(mt.zeros(2, 3), mt.tensor{1, 2, 3})
  local p = D.Independent(normal, 1)
  local x = p:sample(4)
  t.eq({tostring(x.shape), tostring(p.event_shape), tostring(p.batch_shape)}, {'(4, 2, 3)', '(3)', '(2)'})
  assert(mt.equal(p:log_prob(x), normal:log_prob(x):sum(-1)) and mt.equal(p:entropy(), normal:entropy():sum(-1)))
  assert(mt.equal(p.mean, normal.mean) and p:rsample().shape == x[1].shape)
  local q = D.Independent(D.Normal(1, mt.ones(2, 3)), 1)
  close('kl', D.kl_divergence(p, q), D.kl_divergence(normal, q.base_dist):sum(-1):tolist())
  t.eq(tostring(D.Independent(D.Independent(normal, 1), 1):log_prob(x[1]).shape), '()')
  t.eq(D.Independent(D.Categorical(mt.ones(4)), 0):log_prob(1):item(), -math.log(4))
  t.eq(tostring(D.Independent(D.Bernoulli(0.3), 0)), 'Independent(Bernoulli(probs=0.3), 0)')
end)

t.test('kl of logits of -inf', function()
  local p, q = D.Categorical{logits = mt.tensor{0, -math.huge}}, D.Categorical(mt.ones(2))
  t.near(D.kl_divergence(p, q):item(), math.log(2))
  t.eq({D.kl_divergence(p, p):item(), D.kl_divergence(q, p):item()}, {0, math.huge})
  local logits = mt.tensor{0, -math.huge}:requires_grad_()
  t.eq(mt.grad(D.kl_divergence(D.Categorical{logits = logits}, q), logits):tolist(), {0, 0})
end)

t.test('infinite logits of Bernoulli and Binomial are certain', function()
  local sure = mt.tensor{-math.huge, math.huge}
  local p, q = D.Bernoulli{logits = sure}, D.Bernoulli(0.25)
  t.eq(p:entropy():tolist(), {0, 0})
  t.near(D.kl_divergence(p, q):tolist(), {math.log(4 / 3), math.log(4)})
  t.eq(D.kl_divergence(p, p):tolist(), {0, 0})
  t.eq(D.kl_divergence(q, p):tolist(), {math.huge, math.huge})
  t.eq(D.Binomial(10, {logits = sure}):sample(2):tolist(), {{0, 10}, {0, 10}})
end)

t.test('kl of Binomial broadcasts', function()
  local kl = D.kl_divergence(D.Binomial(3, 0.5), D.Binomial(mt.tensor{3, 3}, 0.2))
  t.near(kl:tolist(), {3 * math.log(1.25), 3 * math.log(1.25)})
end)

t.test('a seed gives the same samples; sample has no gradient', function()
  local p = D.Gamma(mt.full({50}, 0.7):requires_grad_(), 2)
  mt.manual_seed(5)
  local x, y = p:sample(3), D.Poisson(3):sample(50)
  mt.manual_seed(5)
  assert(mt.equal(p:sample(3), x) and mt.equal(D.Poisson(3):sample(50), y))
  t.eq({x.requires_grad, p:rsample().requires_grad}, {false, true})
end)

t.test('values may be integers and bools of any size', function()
  for _, dtype in ipairs{'uint8', 'int64'} do
    local x = mt.tensor({0, 1, 255}, dtype)
    for _, p in ipairs{D.Poisson(200), D.Binomial(300, 0.8), D.Normal(100, 50), D.Exponential(0.1)} do
      assert(mt.equal(p:log_prob(x), p:log_prob(x:double())), tostring(p) .. ' ' .. dtype)
    end
    assert(mt.equal(D.Poisson(200):cdf(x), D.Poisson(200):cdf(x:double())))
  end
  assert(mt.equal(D.Bernoulli(0.3):log_prob(mt.tensor{true, false}), D.Bernoulli(0.3):log_prob(mt.tensor{1, 0})))
end)

-- ---- gradients of samples ------------------------------------------------------------------------------

t.test('rsample: gradients with the same noise', function()
  local loc, scale = mt.tensor{0.5, -1}:requires_grad_(), mt.tensor{2, 0.3}:requires_grad_()
  for _, name in ipairs{'Normal', 'LogNormal', 'Laplace', 'Uniform'} do
    t.eq(mt.gradcheck(function(a, b)
      mt.manual_seed(4)
      return D[name](a, name == 'Uniform' and a + b or b):rsample(3)
    end, {loc, scale}), true)
  end
  t.eq(mt.gradcheck(function(b)
    mt.manual_seed(4)
    return D.Exponential(b):rsample(3)
  end, {scale}), true)
  t.eq(mt.gradcheck(function(mean, b)
    mt.manual_seed(4)
    return D.MultivariateNormal{loc = mean, scale_tril = (b + 3):diag() + mt.tensor{{0, 0}, {1, 0}}}:rsample(3)
  end, {loc, scale}), true)
end)

t.test('rsample of Gamma: the sample moves along its quantile', function()
  mt.manual_seed(6)
  for _, a in ipairs{0.02, 0.3, 1, 2.5, 40, 5000} do
    local concentration = mt.full({200}, a):requires_grad_()
    local x = D.Gamma(concentration, 1):rsample()
    x:sum():backward()
    x = x:detach()
    local log_x, h = x:log(), 1e-4 * math.min(a, math.sqrt(a))
    --- The logarithm of the number with the same quantile for a + step, by Newton's method.
    local function moved(step)
      local q, target, y = D.Gamma(a + step, 1), mt.igamma(mt.full_like(x, a), x), log_x
      local upper = mt.igammac(mt.full_like(x, a), x)
      for _ = 1, 8 do
        local z = y:exp()
        local lower = mt.where(x:lt(a), q:cdf(z) - target, upper - mt.igammac(mt.full_like(z, a + step), z))
        y = y - lower / (q:log_prob(z) + y):exp()
      end
      return y
    end
    local slope = x * (moved(h) - moved(-h)) / (2 * h)
    local off = ((concentration.grad - slope) / slope):abs():max():item()
    assert(off < 2e-5, ('a = %g: off by %g'):format(a, off))
  end
end)

t.test('rsample of Beta, Dirichlet and StudentT: the gradient of a mean', function()
  if t.on_gpu() then return end -- many samples
  mt.manual_seed(7)
  local a, b = mt.tensor(0.6):requires_grad_(), mt.tensor(2):requires_grad_()
  local got = mt.grad(D.Beta(a, b):rsample(10 * many):mean(), {a, b})
  local wanted = mt.grad(a / (a + b), {a, b})
  for i = 1, 2 do t.near(got[i]:item(), wanted[i]:item(), 3e-3) end
  local c = mt.tensor{0.5, 1, 3}:requires_grad_()
  local of = D.Dirichlet(c)
  close('Dirichlet', mt.grad(of:rsample(10 * many):square():sum(-1):mean(), c),
    mt.grad((of.variance + of.mean:square()):sum(), c):tolist(), 3e-3)
  local df = mt.tensor(9):requires_grad_()
  t.near(mt.grad(D.StudentT(df):rsample(400000):square():mean(), df):item(),
    mt.grad(D.StudentT(df).variance, df):item(), 6e-3)
end)

t.test('what has no gradient says so', function()
  for _, p in ipairs{D.Bernoulli(0.3), D.Categorical(mt.ones(2)), D.Poisson(1), D.Binomial(3, 0.1)} do
    t.raises(function() p:rsample() end, 'rsample: samples of ' .. p.name .. ' have no gradient; use sample and')
  end
  t.raises(function() D.Independent(D.Bernoulli(mt.ones(2) / 2), 1):rsample() end, 'samples of Bernoulli have no')
  t.raises(function()
    local a = mt.ones(2):requires_grad_()
    mt.grad(mt.grad(D.Gamma(a, 1):rsample():square():sum(), a, {create_graph = true}):sum(), a)
  end, 'has no gradient')
end)

-- ---- errors --------------------------------------------------------------------------------------------

t.test('wrong parameters and values', function()
  for text, f in pairs{
    ['Normal: scale must be above 0, got %-1$'] = function() D.Normal(0, -1) end,
    ['Normal: loc must be a number, not NaN, got %-?nan at %[2, 1%]'] =
      function() D.Normal(mt.tensor{{1}, {0 / 0}}, 1) end,
    ['Normal: the shapes do not broadcast: loc %(2%), scale %(3%)'] = function() D.Normal(mt.ones(2), mt.ones(3)) end,
    ['Bernoulli: give either probs or logits'] = function() D.Bernoulli{probs = 0.1, logits = 1} end,
    ['Categorical: give either probs or logits, as in {probs = p} or {logits = x}'] = function() D.Categorical() end,
    ['Categorical: probs needs 1 or more dimensions, got the shape %(%)'] = function() D.Categorical(0.3) end,
    ['probs must be numbers from 0 with a positive sum at %[2%]'] =
      function() D.Categorical(mt.tensor{{0, 1}, {0, 0}}) end,
    ['Uniform: high must be above low, got 1'] = function() D.Uniform(1, 1) end,
    ['log_prob: the value of Uniform must be between low and high, got 3'] =
      function() D.Uniform(0, 1):log_prob(3) end,
    ['log_prob: the value of Poisson must be a whole number from 0, got 0.5 at %[2%]'] =
      function() D.Poisson(1):log_prob(mt.tensor{1, 0.5}) end,
    ['a whole number from 0 to total_count, got 4'] = function() D.Binomial(3, 0.5):log_prob(4) end,
    ['log_prob: the value of Uniform must be between low and high, got 0.5 at %[2%]'] =
      function() D.Uniform(mt.tensor{0, 1}, 5):log_prob(mt.tensor{0.5}) end,
    ['log_prob: the shape of the value must end in the event shape %(3%) of Dirichlet, got %(1%)'] =
      function() D.Dirichlet(mt.ones(3)):log_prob(mt.ones(1)) end,
    ['the event shape %(2%) of MultivariateNormal, got %(%)'] =
      function() D.MultivariateNormal(mt.zeros(2), mt.eye(2)):log_prob(0) end,
    ['the event shape %(3%) of Independent, got %(1%)'] =
      function() D.Independent(D.Normal(mt.zeros(3), 1), 1):log_prob(mt.zeros(1)) end,
    ['Categorical: there are no classes'] = function() D.Categorical{logits = mt.zeros(2, 0)} end,
    ['a position from 1 to the number of classes, got 0'] = function() D.Categorical(mt.ones(3)):log_prob(0) end,
    ['scale_tril must be a lower triangular matrix with a positive diagonal'] =
      function() D.MultivariateNormal(mt.zeros(2), {scale_tril = mt.ones(2, 2)}) end,
    ['give one of covariance_matrix, precision_matrix, scale_tril, got none'] =
      function() D.MultivariateNormal(mt.zeros(2)) end,
    ['covariance_matrix must be %[.. x n x n%] for loc %[.. x n%], got %(3, 3%) for %(2%)'] =
      function() D.MultivariateNormal(mt.zeros(2), mt.eye(3)) end,
    ['covariance_matrix must be %[.. x n x n%] for loc %[.. x n%], got %(1, 1%) for %(%)'] =
      function() D.MultivariateNormal(mt.tensor(0), mt.eye(1)) end,
    ['MultivariateNormal: covariance_matrix must be a symmetric matrix at %[2%]'] =
      function() D.MultivariateNormal(mt.zeros(2), mt.tensor{{{1, 0}, {0, 1}}, {{1, 5}, {0, 1}}}) end,
    ['MultivariateNormal: precision_matrix must be a symmetric matrix'] =
      function() D.MultivariateNormal(mt.zeros(2), {precision_matrix = mt.tensor{{1, 5}, {0, 1}}}) end,
    ['Independent: 1 dimensions of the batch shape %(%) are asked for'] =
      function() D.Independent(D.Normal(0, 1), 1) end,
    ['Independent: base_distribution must be a distribution, got a table'] = function() D.Independent({}, 1) end,
    ['kl_divergence: q must be a distribution'] = function() D.kl_divergence(D.Normal(0, 1), {}) end,
    ['kl_divergence: the event shapes of p and q differ: %(2%) and %(1%)'] =
      function() D.kl_divergence(D.Dirichlet(mt.ones(2)), D.Dirichlet(mt.ones(1))) end,
    ['kl_divergence: p has 2 classes, q has 1'] =
      function() D.kl_divergence(D.Categorical(mt.ones(2)), D.Categorical(mt.ones(1))) end,
    ['kl_divergence: there is no formula for Normal and Laplace; an estimate is'] =
      function() D.kl_divergence(D.Normal(0, 1), D.Laplace(0, 1)) end,
    ['entropy: Poisson has no closed form here'] = function() D.Poisson(1):entropy() end,
    ["Normal has no 'means' %(did you mean 'mean'%?%)"] = function() return D.Normal(0, 1).means end,
  } do t.raises(f, text) end
  assert(D.Normal(0, -1, {validate_args = false}):log_prob(0):isnan():all())
  t.eq(D.Uniform(0, 1, {validate_args = false}):log_prob(3):item(), -math.huge)
  for _, dtype in ipairs{'float64', 'bfloat16'} do
    local uniform = D.Uniform(mt.tensor(0, dtype), mt.tensor(2, dtype))
    t.eq(uniform:log_prob(mt.tensor({1, 1.5}, dtype)).dtype, dtype)
  end
  t.eq(D.Gamma(mt.tensor(0 / 0), 1, {validate_args = false}):sample():isnan():all(), true)
end)

t.finish()
