-- test_samples.lua -- correlations, histograms, renorm: PyTorch's values
local mt = require 'mtorch'
local t = require 'testing'
local values = require 'torch_values'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local inf, nan = math.huge, 0 / 0

local env = values.env{
  a = mt.tensor{1, 4, 9, 16, 25}, p = mt.tensor{0, 1, 3, 4, 8},
  m = mt.tensor{{1, 2, 4}, {3, 1, 0}}, i = mt.tensor({1, 3, 1}, 'int64'),
  b = mt.tensor{{1, 2}, {3, 4}, {5, 6}}, w = mt.tensor{{3, -4, 0}, {0.6, 0.8, -1}, {0, 0, 0}},
}

-- Expression, {shape, elements} as PyTorch 2.15 gives them (positions counted from 1).
local cases = {
  {[[m:corrcoef()]], {{2, 2}, {1, -0.928571463, -0.928571463, 1}}},
  {[[m[1]:corrcoef()]], {{}, {1}}},
  {[[m:long():corrcoef()]], {{2, 2}, {1, -0.928571463, -0.928571463, 1}}},
  {[[mt.tensor(1):corrcoef()]], {{}, {nan}}},
  {[[{a:histogram(3)}]], {list = {{{3}, {2, 2, 1}}, {{4}, {1, 9, 17, 25}}}}},
  {[[{a:histogram(4, {0, 20})}]], {list = {{{4}, {2, 1, 0, 1}}, {{5}, {0, 5, 10, 15, 20}}}}},
  {[[{a:histogram(2, nil, p, true)}]], {list = {{{2}, {0.020833334, 0.0625}}, {{3}, {1, 13,
  25}}}}},
  {[[{a:histogram(mt.tensor{1, 4, 4, 16})}]], {list = {{{3}, {1, 0, 3}}, {{4}, {1, 4, 4,
  16}}}}},
  {[[{mt.full({3}, 2):histogram(2)}]], {list = {{{2}, {0, 3}}, {{3}, {1.5, 2, 2.5}}}}},
  {[[{mt.zeros(0):histogram(2)}]], {list = {{{2}, {0, 0}}, {{3}, {0, 0.5, 1}}}}},
  {[[{mt.tensor{1, 0 / 0, 3}:histogram(2, {1, 3})}]], {list = {{{2}, {1, 1}}, {{3}, {1, 2,
  3}}}}},
  {[[{mt.tensor{5, 7}:histogram(2, {0, 1}, nil, true)}]], {list = {{{2}, {nan, nan}}, {{3}, {0,
  0.5, 1}}}}},
  {[[{m:histogram(2)}]], {list = {{{2}, {3, 3}}, {{3}, {0, 2, 4}}}}},
  {[[a:dist(p)]], {{}, {21.8860683}}},
  {[[a:dist(x[{{1, 2}, {1, 1}}], 1)]], {{}, {90}}},
  {[[a:dist(p, math.huge)]], {{}, {17}}},
  {[[a:dist(p, 0)]], {{}, {5}}},
  {[[mt.zeros(0):dist(mt.zeros(0))]], {{}, {0}}},
  {[[w:renorm(2, 1, 2)]], {{3, 3}, {1.20000005, -1.60000002, 0, 0.600000024, 0.800000012, -1, 0,
  0, 0}}},
  {[[w:renorm(1, 2, 0.5)]], {{3, 3}, {0.416666687, -0.416666657, 0, 0.0833333433, 0.0833333358,
  -0.49999994, 0, 0, 0}}},
  {[[c:renorm(math.huge, -1, 3)]], {{2, 3, 4}, {0.142857149, 0.272727281, 0.391304344, 0.5,
  0.714285731, 0.818181872, 0.913043499, 1, 1.28571439, 1.36363637, 1.43478262, 1.5, 1.85714293,
  1.909091, 1.95652175, 2, 2.42857146, 2.4545455, 2.47826076, 2.5, 3.00000024, 3, 3, 3}}},
  {[[w:renorm(2, 1, 0)]], {{3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0}}},
  {[[mt.zeros(3, 0):renorm(2, 1, 1)]], {{3, 0}, {}}},
}
values.test_cases(cases, env)

t.gradients('corrcoef', function(x) return x:corrcoef()[{1, {2, 3}}] end, {3, 5})
t.gradients('dist', function(x, y) return x:dist(y, 3) end, {2, 3}, {3})
t.gradients('renorm', function(x) return x:renorm(2, 1, 0.1) end, {2, 3})

test('dtypes', function()
  local x = mt.tensor{1, 2, 4}
  for _, dtype in ipairs{'float16', 'bfloat16', 'float32', 'float64'} do
    local y = x:to(dtype)
    eq({y:corrcoef().dtype, y:dist(y).dtype,
      y:view(1, 3):renorm(2, 1, 1).dtype, y:histogram(2).dtype}, {dtype, dtype, dtype, dtype})
    eq(y:histogram(3):tolist(), {1, 1, 1})
  end
end)

test('renorm in place, a histogram of much', function()
  local x = env.w:clone()
  eq(x:renorm_(2, 1, 2) == x, true)
  near(x[1]:tolist(), {1.2, -1.6, 0}, 1e-5)
  mt.manual_seed(3)
  local y = mt.rand(100000)
  local counts, edges = y:histogram(10, {0, 1})
  eq({counts:sum():item(), edges.shape}, {100000, mt.zeros(11).shape})
  assert(mt.allclose(counts, y:histc(10, 0, 1)))
  local density = y:histogram{bins = 10, density = true}
  near((density * 0.1):sum():item(), 1, 1e-3)
end)

test('refusals', function()
  local x, a, p = env.x, env.a, env.p
  raises(function() env.c:corrcoef() end, 'corrcoef: %(2 x 3 x 4%) float32')
  raises(function() a:histogram(0) end, 'histogram: bins is 0; it must be 1 to')
  raises(function() a:histogram(2, {2, 1}) end, 'histogram: the range is 2 to 1')
  raises(function() a:histogram(2, {1}) end, "argument 3 'range' must be {min, max}")
  raises(function() mt.tensor{1, inf}:histogram(2) end, 'histogram: the range 1 to inf is not finite')
  raises(function() mt.tensor{1, nan}:histogram(2) end, 'is not finite')
  raises(function() a:long():histogram(2) end, 'histogram: the values are int64; use x:float%(%)')
  raises(function() a:histogram(mt.tensor{2, 1}) end, 'histogram: the edges are not sorted')
  raises(function() a:histogram(mt.tensor{2}) end, 'histogram: the edges are %(1%)')
  raises(function() a:histogram(p:double()) end, 'histogram: the edges are float64, the values float32')
  raises(function() a:histogram(p, {1, 2}) end, 'histogram: a range is for a number of bins')
  raises(function() a:histogram(2, {weight = mt.ones(2)}) end, 'histogram: the weights are %(2%), the values %(5%)')
  raises(function() x:renorm(0, 1, 1) end, 'renorm: p is 0; it must be above 0')
  raises(function() x:renorm(2, 1, -1) end, 'renorm: maxnorm is %-1')
  raises(function() a:renorm(2, 1, 1) end, 'renorm: %(5%) has no parts')
  raises(function() x:long():renorm(2, 1, 1) end, 'renorm: .* float tensor, got int64')
  raises(function() a:long():dist(a:long()) end, 'must be a float tensor, got int64')
  raises(function() a:dist(mt.ones(2)) end, '%(5%) and %(2%)')
end)

t.finish()
