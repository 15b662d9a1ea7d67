-- test_random.lua -- generators, PyTorch's stream, distributions and the generator state
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

local function rounded(x)
  local list = {}
  for k, v in ipairs(x:tolist()) do list[k] = ('%.4f'):format(v) end
  return table.concat(list, ' ')
end

test('mt19937 gives the numbers of torch.manual_seed(1); torch.randn(784, 10)', function()
  local g = mt.Generator('mt19937', 1)
  local x = mt.randn({784, 10}, {generator = g})
  eq(rounded(x[1]),
     '-1.5256 -0.7502 -0.6540 -1.6095 -0.1002 -0.6092 -0.9798 -1.6091 -0.7121 0.3037')
  eq(rounded(x[-1]),
     '-1.4899 0.3898 -0.5454 0.5928 -0.2703 -1.3073 -0.4542 -0.1923 -0.5076 0.5439')
  near(x:double():sum():item(), -34.11044667901206, 1e-3)
  eq(rounded(mt.randn(3, {generator = g})), '-0.4190 0.1901 -0.3638')
  eq(rounded(mt.rand({2}, {generator = g})), '0.1556 0.6942')
end)

test('mt19937: tails, pairs that wait, doubles', function()
  local g = mt.Generator('mt19937', 1)
  eq(mt.rand({3}, {generator = g}):tolist(),
     {0x1.83e84ap-1, 0x1.1e03acp-2, 0x1.9cbe3p-2})
  g:manual_seed(1)
  near(mt.rand({3}, {dtype = 'float64', generator = g}):tolist(),
       {0.06105327471962363, 0.2245545065676504, 0.23425251394483937}, 0)
  g:manual_seed(1)
  near(mt.randn({3}, {generator = g}):tolist(),
       {0.6613521575927734, 0.266924113035202, 0.06167725846171379}, 1e-7)
  near(mt.randn({17}, {generator = g})[{{1, 4}}]:tolist(),
       {-1.1660346984863281, 1.1712007522583008, 1.7674273252487183, -0.09536188095808029}, 5e-7)
  near(mt.randn({2}, {generator = g}):tolist(), {0.6213173270225525, -0.11031314730644226}, 1e-7)
  g:manual_seed(5)
  near(mt.randn({18}, {dtype = 'float64', generator = g}):tolist(), {
    0.8235713931461853, -0.7421276044281208, 0.7631504315434021, 0.8166228687367919,
    -1.4026899148812593, 0.703788943525086, 0.050956472052993064, 0.8372184336887067,
    -0.3622047240956292, -0.7125441318799689, 1.5007376473394378, 0.8666017326817648,
    -0.4010886991989854, -0.7198743755133706, -0.2686318022053022, -0.3955216105396746,
    1.9172346797519741, 0.2521633133845829}, 1e-15)
end)

test('mt19937: multinomial as PyTorch 2.15 draws it', function()
  local g = mt.Generator('mt19937', 7)
  for _, dtype in ipairs{'float32', 'float64'} do
    local w = mt.tensor({.1, 0, 3, .4, .5, 1.5, .05}, dtype)
    local function single(...)
      local drawn = {}
      for i = 1, 12 do drawn[i] = w:multinomial(1, ...):item() end
      return drawn
    end
    local expected = {3, 5, 3, 3, 4, 3, 3, 3, 6, 3, 3, 3}
    g:manual_seed(7)
    eq(single(true, g), expected) -- one draw is one without replacement
    near(mt.rand(1, {generator = g}):item(), 0.8760198354721069, 1e-7)
    g:manual_seed(7)
    eq(single(false, g), expected)
    g:manual_seed(8)
    for _, three in ipairs{{3, 6, 4}, {1, 6, 3}, {3, 6, 1}, {6, 3, 5}} do
      eq(w:multinomial(3, {generator = g}):tolist(), three)
    end
    g:manual_seed(9)
    eq(w:multinomial(12, true, g):tolist(), {3, 6, 3, 3, 3, 4, 3, 3, 3, 4, 3, 3})
    g:manual_seed(10)
    local rows = mt.stack{w, w:flip(1)}
    eq(rows:multinomial(1, true, g):tolist(), {{6}, {5}})
    eq(rows:multinomial(4, true, g):tolist(), {{3, 3, 3, 6}, {5, 5, 2, 2}})
    eq(rows:multinomial(2, {generator = g}):tolist(), {{7, 5}, {2, 5}})
  end
  raises(function() mt.full({2}, 3e38):multinomial(1) end,
    'multinomial: the weights of row 1 sum to 6.*, more than float32 holds')
end)

test('mt19937: whole numbers, permutations, coins as PyTorch 2.15 draws them', function()
  local g = mt.Generator('mt19937', 3)
  eq(mt.randint(1, 6, {8}, {generator = g}):tolist(), {5, 3, 2, 4, 5, 1, 1, 6})
  eq(mt.randint(0, 2 ^ 40 - 1, {2}, {generator = g}):tolist(), {1088503892627, 867663915883})
  eq((mt.randperm(6, {generator = g}) - 1):tolist(), {5, 0, 4, 2, 1, 3})
  eq(mt.bernoulli(mt.full({6}, 0.5), {generator = g}):tolist(), {0, 0, 0, 0, 1, 0})
end)

test('a Philox generator equals manual_seed, and does not affect the other stream', function()
  for _, g in ipairs{mt.Generator(11), mt.Generator('philox', 11), mt.Generator{seed = 11}} do
    mt.manual_seed(11)
    local first = mt.randn(5)
    local ours = mt.randn({5}, {generator = g})
    eq(ours:tolist(), first:tolist())
    eq(mt.rand({3}, {generator = g}):tolist(), mt.rand(3):tolist())
  end
  mt.manual_seed(1)
  local a = mt.rand(2)
  mt.manual_seed(1)
  mt.rand({100}, {generator = mt.Generator(5)})
  eq(mt.rand(2):tolist(), a:tolist())
end)

test('states resume exactly, in the middle of a pair too', function()
  for _, kind in ipairs{'philox', 'mt19937'} do
    local g = mt.Generator(kind, 7)
    mt.randn({3}, {generator = g})
    local state = g:get_state()
    local first = mt.randn({5}, {generator = g}):tolist()
    mt.rand({1000}, {generator = g})
    eq(g:set_state(state), g)
    eq(mt.randn({5}, {generator = g}):tolist(), first)
    eq(g:initial_seed(), 7)
    local other = mt.Generator(kind)
    other:set_state(state)
    eq(mt.randn({5}, {generator = other}):tolist(), first)
    eq(tostring(g), ("Generator('%s')"):format(kind))
    assert(g:seed() ~= 7 and g:manual_seed(7) == g)
  end
  mt.manual_seed(3)
  mt.rand(5)
  local state = mt.get_rng_state()
  local first = mt.randn(5):tolist()
  mt.set_rng_state(state)
  eq(mt.randn(5):tolist(), first)
end)

test('broken states are refused and change nothing', function()
  local g = mt.Generator('mt19937', 7)
  local state = g:get_state()
  for _, broken in ipairs{'', 'mt19937', 'mt19937 ', 'philox 1 2', state:sub(1, -20), state .. ' 1',
                          state:gsub('mt19937 7 %d+', 'mt19937 7 900', 1),
                          (state:gsub('mt19937 7', 'mt19937 -7', 1)), state:gsub(' %x+$', ' zz')} do
    if type(broken) == 'string' then
      raises(function() g:set_state(broken) end, 'set_state: ')
    end
  end
  eq(g:get_state(), state)
  raises(function() mt.set_rng_state('philox 1') end, 'set_rng_state: ')
  raises(function() mt.set_rng_state('philox 99999999999999999999 1') end, 'set_rng_state: ')
  raises(function() mt.set_rng_state(12) end, 'must be a string')
end)

test('the same shape, drawn again', function()
  local x = mt.zeros({3, 4}, 'float64')
  for _, y in ipairs{mt.rand_like(x), x:randn_like(), mt.randint_like(x, 2, 5)} do
    eq(tostring(y.shape), '(3, 4)')
    eq(y.dtype, 'float64')
    assert(y:max():item() > 0)
  end
  eq(mt.rand_like(x, {dtype = 'float32'}).dtype, 'float32')
  mt.set_default_dtype('float64')
  local names = {mt.rand(1).dtype, mt.randn(1).dtype, mt.normal(0, 1, {1}).dtype,
                 mt.bernoulli(0.5, {1}).dtype}
  mt.set_default_dtype('float32')
  eq(names, {'float64', 'float64', 'float64', 'float64'})
end)

test('normal, uniform, exponential and whole numbers in place', function()
  mt.manual_seed(1)
  local x = mt.empty(20000)
  eq(x:normal_(3, 2), x)
  near(x:mean():item(), 3, 0.06)
  near((x - 3):square():mean():item(), 4, 0.2)
  x:uniform_(-1, 3)
  assert(x:min():item() >= -1 and x:max():item() < 3)
  near(x:mean():item(), 1, 0.04)
  x:exponential_(4)
  near(x:mean():item(), 0.25, 0.01)
  assert(x:min():item() >= 0)
  x:bernoulli_(0.25)
  near(x:mean():item(), 0.25, 0.02)
  x:random_(2, 4)
  near(x:mean():item(), 3, 0.03)
  eq(mt.zeros({5000}, 'bool'):random_():long():sum():item() > 2000, true)
  assert(mt.zeros({100}, 'int64'):random_():double():max():item() > 2 ^ 31)
  local m = mt.zeros(4, 4)
  for _, dtype in ipairs{'float32', 'bfloat16'} do -- numbers that are rounded to the end are not there
    local y = mt.zeros(100000, {dtype = dtype}):uniform_(100, 101)
    assert(not y:ge(101):any() and y:ge(100):all())
  end
  m:t()[2]:uniform_(5, 6)  -- through a view
  eq(m:gt(0):long():sum(1):tolist(), {0, 4, 0, 0})
  local p = mt.tensor{0, 1}
  eq(mt.zeros(3, 2):bernoulli_(p):tolist(), {{0, 1}, {0, 1}, {0, 1}})
end)

test('normal of tensors: every element has a mean and deviation', function()
  local mean, std = mt.tensor{{100}, {200}}, mt.tensor{0, 1e-3, 1}
  local x = mt.normal(mean, std)
  eq(tostring(x.shape), '(2, 3)')
  eq({x[{1, 1}]:item(), x[{2, 1}]:item()}, {100, 200})
  near(x[{2, 2}]:item(), 200, 0.01)
  near(mt.normal(mean, 1):flatten():tolist(), {100, 200}, 10)
  near(mt.normal(0, std)[1]:item(), 0)
end)

test('multinomial: weights decide, zeros are never drawn', function()
  mt.manual_seed(2)
  local w = mt.tensor{1, 0, 3}
  local x = mt.multinomial(w, 8000, true)
  eq(x.dtype, 'int64')
  eq(x:eq(2):any(), false)
  near(x:eq(3):double():mean():item(), 0.75, 0.03)
  local rows = mt.tensor{{1, 1, 0, 1}, {0, 2, 0, 1}}:multinomial(2)
  eq(tostring(rows.shape), '(2, 2)')
  eq(rows[2]:tolist()[1] ~= rows[2]:tolist()[2], true)
  for _ = 1, 50 do
    local drawn = w:multinomial(2):tolist()
    table.sort(drawn)
    eq(drawn, {1, 3})
  end
  local first = 0
  for _ = 1, 2000 do first = first + (w:multinomial(1):item() == 3 and 1 or 0) end
  near(first / 2000, 0.75, 0.06)
end)

test('bernoulli of probabilities, numbers and shapes', function()
  mt.manual_seed(4)
  eq(mt.bernoulli(mt.tensor{0, 1, 0, 1}):tolist(), {0, 1, 0, 1})
  near(mt.bernoulli(0.1, {20000}):mean():item(), 0.1, 0.015)
  eq(mt.bernoulli(1, {2, 2}, 'bool'):all(), true)
  eq(mt.zeros(3):bernoulli(1):tolist(), {1, 1, 1})
end)

test('errors', function()
  local x = mt.zeros(3)
  raises(function() mt.Generator('mersenne', 1) end, "unknown kind 'mersenne'")
  raises(function() mt.Generator(1.5) end, 'must be an integer, got 1.5')
  raises(function() mt.rand(2, {generator = 3}) end, 'must be a generator')
  raises(function() mt.rand(2, {generator = x}) end, 'must be a generator')
  raises(function() mt.multinomial(mt.tensor{1, -1}, 1) end, 'weight 2 of row 1 is %-1')
  raises(function() mt.multinomial(mt.tensor{1, 0 / 0}, 1) end, 'weight 2 of row 1 is nan')
  raises(function() mt.multinomial(mt.tensor{0, 0}, 1) end, 'all weights of row 1 are 0')
  raises(function() mt.multinomial(mt.tensor{1, 0}, 2) end, 'row 1 has 1 weights above 0')
  raises(function() mt.multinomial(x, 4) end, '4 of 3 cannot be drawn without replacement')
  raises(function() mt.multinomial(x, 0) end, '0 positions were requested')
  raises(function() mt.multinomial(mt.ones(3), 2 ^ 50, true) end, 'more elements than memory')
  raises(function() mt.multinomial(mt.tensor(1), 1) end, 'one row or a matrix')
  raises(function() mt.bernoulli(mt.tensor{1.5}) end, 'outside 0%.%.1')
  raises(function() mt.bernoulli(0.5) end, 'a number needs a shape')
  raises(function() mt.normal(0, -1, {2}) end, 'standard deviation is %-1')
  raises(function() mt.normal(0, mt.tensor{-1}) end, 'deviation is %-1; it must be 0 or more')
  raises(function() mt.normal(0, 1) end, 'two numbers need a shape')
  raises(function() x:uniform_(2, 1) end, '2 to 1 is not a range')
  raises(function() x:uniform_(0, math.huge) end, 'not a range')
  raises(function() mt.zeros(3, {dtype = 'float16'}):uniform_(-60000, 60000) end, 'not a range of float16')
  raises(function() x:long():normal_() end, 'int64 cannot hold fractions')
  raises(function() x:exponential_(0) end, 'the rate is 0')
  raises(function() x:byte():random_(0, 256) end, '256 does not fit into uint8')
  raises(function() x:random_(3) end, 'the last number is missing')
  raises(function() mt.randperm(-1) end, '%-1')
  raises(function() mt.randperm(2 ^ 52) end, 'more elements than memory')
  raises(function() mt.ones(2, {requires_grad = true}):normal_() end, 'normal_: ')
  raises(function() mt.zeros(1):expand(3):uniform_() end, 'expanded')
end)

t.finish()
