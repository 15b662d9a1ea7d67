-- test_reduce.lua -- reductions, moments, norms, scans, sorting, counts: values of PyTorch 2.15
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local inf, nan = math.huge, 0 / 0

local function list(shape)
  local plain = {}
  for i, n in ipairs(shape) do plain[i] = n end
  return plain
end
local function is(x, values, dtype)
  eq(x:tolist(), values)
  if dtype then eq(x.dtype, dtype) end
end
--- Asserts the values and positions of a function such as max.
local function picks(values, index, v, i)
  is(values, v)
  is(index, i, 'int64')
end
local function shape(x, ...) eq(list(x.shape), {...}) end

local m = mt.tensor{{1, 2}, {3, 4}}

test('dtype of sums, means, products', function()
  is(mt.tensor({1, 2}, 'int64'):sum{dtype = 'float32'}, 3, 'float32')
  is(mt.tensor{1.5, 2}:sum{dtype = 'int64'}, 3, 'int64')
  is(mt.tensor({1, 2}, 'int64'):mean{dtype = 'float64'}, 1.5, 'float64')
  is(mt.tensor({1, 2}, 'int32'):prod(1, true, 'float32'), {2}, 'float32')
  is(mt.tensor({1, 2}, 'uint8'):cumsum(1), {1, 3}, 'int64')
  is(mt.tensor{true, true}:cumprod(1), {1, 1}, 'int64')
  is(mt.tensor({1, 2}, 'int64'):cumsum(1, 'float32'), {1, 3}, 'float32')
  raises(function() m:sum{dtype = 'complex'} end, "sum: 'complex' is not a dtype")
end)

test('rows of bools and bytes of any length', function()
  mt.manual_seed(2)
  for n = 0, 150 do
    local bools, bytes = mt.rand(5, n):gt(0.3), mt.randint(0, 255, {5, n}):to('uint8')
    for _, x in ipairs {bools, bytes} do
      local wide = x:to('int64')
      for _, name in ipairs {'sum', 'nansum', 'prod', 'count_nonzero'} do
        eq(mt.equal(mt[name](x, 2), mt[name](wide, 2)), true)
      end
      eq(mt.equal(x:any(2), wide:ne(0):sum(2):gt(0)), true)
      eq(mt.equal(x:all(2), wide:ne(0):sum(2):eq(n)), true)
    end
  end
end)

test('narrow integers are what was asked for, and wrap', function()
  local x = mt.tensor({100, 200, 3}, 'int64')
  is(x:sum{dtype = 'int32'}, 303, 'int32')
  is(x:sum{dtype = 'uint8'}, 47, 'uint8')
  is(x:sum(1, false, 'uint8'), 47, 'uint8')
  is(x:prod{dtype = 'int32'}, 60000, 'int32')
  is(x:prod{dtype = 'uint8'}, 96, 'uint8')
  is(x:cumsum(1, 'int32'), {100, 300, 303}, 'int32')
  is(x:cumsum(1, 'uint8'), {100, 44, 47}, 'uint8')
  is(x:cumprod(1, 'int32'), {100, 20000, 60000}, 'int32')
  is(x:cumprod(1, 'uint8'), {100, 32, 96}, 'uint8')
  is(x:clone():cumsum_(1, 'uint8'), {100, 44, 47}, 'int64')
  is(x:nansum{dtype = 'int32'}, 303, 'int32')
  is(mt.tensor{1.5, 2.7}:sum{dtype = 'int32'}, 3, 'int32')
  is(mt.tensor{1.5, 2.7}:sum{dtype = 'bool'}, true, 'bool')
  is(x:sum{dtype = 'float16'}, 303, 'float16')
  raises(function() x:mean{dtype = 'int32'} end, 'mean: the input must be a float tensor, got int32')
end)

test('var, std, var_mean, std_mean', function()
  near(m:var():item(), 5 / 3)
  near(m:var{correction = 0}:item(), 1.25)
  near(m:std{dim = 1, unbiased = false}:tolist(), {1, 1})
  near(m:std(2):tolist(), {0.70710678, 0.70710678})
  shape(m:var({1, 2}, true), 1, 1)
  local v, mean = m:var_mean(1)
  is(v, {2, 2})
  is(mean, {2, 3})
  v, mean = mt.std_mean(m, {dim = 2, keepdim = true})
  near(v:flatten():tolist(), {0.70710678, 0.70710678})
  is(mean, {{1.5}, {3.5}})
  is(mt.tensor{2}:var(), nan)
  is(mt.tensor(5):var(1), nan)
  is(mt.zeros(0):var(), nan)
  is(mt.zeros(2, 0):std(2), {nan, nan})
  is(mt.tensor{1, 2, 3}:var{correction = 5}, inf)
  near(mt.tensor({1e8 + 1, 1e8 + 2, 1e8 + 3}, 'float64'):var():item(), 1, 1e-9)
  near((mt.range(1, 1000):float() % 2 + 4096):var{correction = 0}:item(), 0.25, 1e-7)
  raises(function() mt.tensor({1, 2}, 'int64'):std() end, 'std: .* float tensor, got int64.*:float%(%)')
  raises(function() m:var{correction = 1, unbiased = true} end, 'var: give correction or unbiased')
  raises(function() m:var(3) end, 'var: dimension 3')
end)

test('cov', function()
  local x = mt.tensor({{1, 2, 4, 3}, {0, 5, -1, 2}}, 'float64')
  local times, weight = mt.tensor({1, 2, 3, 1}, 'int64'), mt.tensor({.5, 1, 2, .25}, 'float64')
  local function is_near(c, values) near(c:reshape(-1):tolist(), values, 1e-12) end
  is_near(mt.cov(mt.tensor({{0, 1, 2}, {2, 1, 0}}, 'float64')), {1, -1, -1, 1})
  is_near(mt.tensor({{0, 1, 2}, {2, 1, 0}}, 'float64'):cov{correction = 0}, {2 / 3, -2 / 3, -2 / 3, 2 / 3})
  is_near(x:cov{fweights = times}, {1.4761904761904763, -1.9523809523809523, -1.9523809523809523, 7.57142857142857})
  is_near(x:cov{aweights = weight}, {2.1428571428571432, -3, -3, 10.6})
  is_near(x:cov(0, times, weight), {1.02530612244898, -2.0048979591836735, -2.0048979591836735, 6.249795918367347})
  is_near(x:cov(1, times, weight), {1.2610441767068277, -2.4658634538152615, -2.4658634538152615, 7.686746987951809})
  near(mt.tensor{1, 2, 4}:cov():item(), 2.3333334922790527)
  is(mt.tensor({{1, 2}, {3, 5}}, 'int64'):cov(), {{.5, 1}, {1, 2}}, 'float32')
  shape(mt.tensor{{1, 2, 4}}:cov())
  shape(mt.zeros(0, 2):cov(), 0, 0)
  is(mt.tensor(3):cov(), nan)
  is(mt.zeros(2, 0):cov(), {{nan, nan}, {nan, nan}})
  is(mt.tensor{{1, 2}, {3, 5}}:cov(9), {{inf, inf}, {inf, inf}})
  local v = x:clone():requires_grad_()
  assert(mt.gradcheck(function(a, w) return a:cov(1, times, w) end, {v, weight:clone():requires_grad_()}))
  assert(mt.gradgradcheck(function(a) return a:t():cov() end, {v:t():detach():requires_grad_()}))
  raises(function() mt.zeros(2, 2, 2):cov() end, 'cov: %(2 x 2 x 2%) has more than two dimensions')
  raises(function() x:cov{fweights = weight} end, 'cov: fweights is float64; it must be of integers')
  raises(function() x:cov{aweights = times} end, 'cov: aweights is int64; it must be of floats')
  raises(function() x:cov{fweights = times[{{1, 2}}]} end, 'cov: fweights is %(2%); one for each of the 4')
  raises(function() x:cov{fweights = -times} end, 'cov: fweights has %-%d+; weights are 0 or more')
  raises(function() x:cov{fweights = times * 0} end, 'cov: the weights sum to 0')
  raises(function() x:gt(0):cov() end, 'cov: the input is bool')
end)

test('norm', function()
  local x = mt.tensor{0, 3, -4}
  local expected = {[0] = 2, [0.5] = 13.9282, [1] = 7, [1.5] = 5.5843, [2] = 5, [3] = 4.4979,
    [inf] = 4, [-inf] = 0}
  for p, value in pairs(expected) do near(x:norm(p):item(), value, 1e-4) end
  eq({x:norm():item(), x:norm('fro'):item(), x:norm('inf'):item()}, {5, 5, 4})
  is(mt.tensor{{3, 4}, {6, 8}}:norm(2, 2), {5, 10})
  is(mt.tensor{{3, 4}, {6, 8}}:norm{p = 1, dim = 1, keepdim = true}, {{9, 12}})
  is(mt.tensor{nan, 1}:norm(inf), nan)
  is(mt.zeros(0):norm(), 0)
  near(mt.tensor{3e20, 4e20}:norm():item() / 1e20, 5, 1e-6)
  is(mt.tensor(-5):norm(), 5)
  raises(function() mt.zeros(0):norm(inf) end, 'norm: %(0%) has no elements')
  raises(function() x:norm('nuc') end, "norm: p is 'nuc'")
  raises(function() x:norm(nan) end, 'norm: p is NaN')
  raises(function() x:long():norm() end, 'norm: .* float tensor, got int64')
end)

test('logsumexp', function()
  near(mt.tensor({1, 2}, 'int64'):logsumexp(1):item(), 2.3132617)
  is(mt.tensor{-inf, -inf}:logsumexp(1), -inf)
  is(mt.tensor{inf, 1}:logsumexp(1), inf)
  is(mt.tensor{nan, 1}:logsumexp(), nan)
  near(m:logsumexp{1, 2}:item(), 4.4401897)
  near(mt.tensor{1e4, 1e4}:logsumexp(1):item(), 1e4 + math.log(2), 1e-3)
  is(mt.zeros(2, 0):logsumexp(2), {-inf, -inf})
  near(mt.full({70000}, 3):logsumexp(1):item(), 3 + math.log(70000), 1e-5)
  near(mt.cat{mt.full({30000}, -200), mt.full({30000}, 100)}:logsumexp(1):item(),
    100 + math.log(30000), 1e-4)
  local x = mt.tensor({{-inf, -inf}, {1, 2}}):requires_grad_()
  x:logsumexp(2):sum():backward()
  near(x.grad:flatten():tolist(), {0, 0, 0.26894143, 0.73105857})
end)

test('nansum, nanmean, count_nonzero, aminmax', function()
  local x = mt.tensor{{1, nan}, {nan, nan}}
  is(x:nansum(), 1)
  is(x:nanmean(2), {1, nan})
  is(x:nansum(1), {1, 0})
  is(mt.tensor({1, 2}, 'int64'):nansum(), 3, 'int64')
  is(mt.tensor{{1, 0, nan}}:count_nonzero(1), {1, 0, 1}, 'int64')
  is(mt.tensor{true, false}:count_nonzero(), 1)
  for _, dtype in ipairs {'float16', 'float32', 'float64', 'int32'} do
    is(mt.full({1000}, 3):to(dtype):count_nonzero(), 1000, 'int64')
  end
  is(mt.full({1000}, 3):norm(0), 1000)
  local low, high = m:aminmax()
  eq({low:item(), high:item()}, {1, 4})
  low, high = m:aminmax(1)
  is(low, {1, 2})
  is(high, {3, 4})
  raises(function() mt.zeros(0):aminmax() end, 'aminmax: %(0%) is empty')
end)

test('max and min: the first of ties, NaN wins, on long lines too', function()
  local v, i = mt.tensor{{1, nan, 9, nan}}:max(2)
  picks(v, i, {nan}, {2})
  v, i = mt.tensor{{1}, {nan}, {9}, {nan}}:expand(4, 6):contiguous():min(1)
  picks(v, i, {nan, nan, nan, nan, nan, nan}, {2, 2, 2, 2, 2, 2})
  local x = mt.zeros(5000)
  x[1234], x[4321] = 7, 7
  v, i = x:max(1)
  eq({v:item(), i:item(), x:argmax():item(), x:argmin():item()}, {7, 1234, 1234, 1})
  v, i = mt.zeros(0, 3):max(2)
  eq({v:numel(), i:numel()}, {0, 0})
  raises(function() mt.zeros(2, 0):max(2) end, 'max: %(2 x 0%)')
end)

test('a long running sum where its parts meet', function()
  for _, n in ipairs {63, 64, 8319, 8320, 8321, 20000} do
    local x = mt.rand(n)
    local off = (x:cumsum(1):double() - x:double():cumsum(1)):abs():max():item()
    assert(off <= 6e-8 * n, off)
  end
end)

test('sums and products so far of every length, from either end', function()
  local special = {3, inf, 1, -inf, nan}
  for _, dtype in ipairs{'float32', 'float64', 'int32', 'int8', 'bfloat16'} do
    local float = dtype:find('float', 1, true)
    local x, sum, product = {}, {}, {}
    local total, factor = 0, 1
    for i = 1, t.on_gpu() and 26 or 40 do -- reciprocals show the signs of zeros
      x[i] = i == 7 and 0 or i == 11 and -2 or float and i > 24 and special[i % 5 + 1] or i % 9 == 2 and -1 or 1
      total, factor = total + x[i], factor * x[i]
      sum[i], product[i] = total, float and 1 / factor or factor
      local t = mt.tensor(x, dtype)
      local apart = mt.stack({t, t}, 2)
      for _, line in ipairs{t, apart[{{}, 2}], t:flip(1):contiguous():flip(1)} do
        is(line:cumsum(1), sum)
        is(float and 1 / line:cumprod(1) or line:cumprod(1), product)
      end
      local g = mt.zeros(i, {dtype = 'float64', requires_grad = true})
      local w = t:double():nan_to_num(0, 1, -1)
      g:cumsum(1):backward(w)
      is(g.grad, w:flip(1):cumsum(1):flip(1):tolist())
    end
  end
end)

test('cumsum, cumprod, logcumsumexp', function()
  is(mt.tensor{{1, 2}, {3, 4}}:cumsum(1), {{1, 2}, {4, 6}})
  is(mt.tensor{{1, 2}, {3, 4}}:cumprod(-1), {{1, 2}, {3, 12}})
  is(mt.tensor(5):cumsum(1), 5)
  is(mt.zeros(2, 0):cumsum(2), {{}, {}})
  local x = mt.tensor{-inf, -inf, 1, 2, inf, inf, 1}:logcumsumexp(1):tolist()
  near(x[4], 2.3132617)
  x[4] = 0
  eq(x, {-inf, -inf, 1, 0, inf, inf, inf})
  is(mt.tensor{1, nan, 2}:logcumsumexp(1), {1, nan, nan})
  local n = 20000
  local ones = mt.full({n}, 0.1):cumsum(1)
  near(ones[n]:item(), 2000, 1e-3)
  assert(ones:double():sub(mt.range(1, n):double() * 0.1):abs():max():item() < 2e-4)
  near(mt.full({n}, 2 ^ (1 / n), 'float64'):cumprod(1)[-1]:item(), 2, 1e-10)
  raises(function() m:cumsum() end, "cumsum: argument 2 'dim' is missing")
  raises(function() m:cumsum(0) end, 'cumsum: 0 is not a position')
  raises(function() m:cumsum(3) end, 'cumsum: dimension 3')
end)

test('cummax, cummin', function()
  local v, i = mt.tensor{1, 3, 3, 2, nan, 1, nan, inf}:cummax(1)
  picks(v, i, {1, 3, 3, 3, nan, nan, nan, nan}, {1, 2, 3, 3, 5, 5, 7, 7})
  v, i = mt.tensor{1, 3, 1, 2, nan, 1, nan, inf}:cummin(1)
  picks(v, i, {1, 1, 1, 1, nan, nan, nan, nan}, {1, 1, 3, 3, 5, 5, 7, 7})
  v, i = mt.tensor{{1, 5, 2, 0}, {4, 3, 2, 0}}:cummax(1)
  picks(v, i, {{1, 5, 2, 0}, {4, 5, 2, 0}}, {{1, 1, 1, 1}, {2, 1, 2, 2}})
  v, i = mt.tensor({3, 1, 2}, 'int32'):cummin(1)
  picks(v, i, {3, 1, 1}, {1, 2, 2})
  v, i = mt.tensor(5):cummax(1)
  picks(v, i, 5, 1)
end)

test('cummax and cummin of long lines, where blocks hold nothing new, an equal, or a NaN', function()
  for _, name in ipairs{'cummax', 'cummin'} do
    for _, place in ipairs{1, 32, 33, 64, 70, 96, 131} do
      for _, value in ipairs{9, -9, nan, 2} do
        local t = mt.zeros(131)
        t[1], t[40] = name == 'cummax' and 2 or -2, -1
        t[place] = value
        local list, best, at, values, positions = t:tolist(), nil, nil, {}, {}
        for k, x in ipairs(list) do
          if not best or x ~= x or (name == 'cummax' and x >= best) or
              (name == 'cummin' and x <= best) then
            best, at = x, k
          end
          values[k], positions[k] = best, at
        end
        local v, i = t[name](t, 1)
        picks(v, i, values, positions)
        v, i = mt.stack({t, t}, 2)[name](mt.stack({t, t}, 2), 1) -- strided rows
        picks(v:select(2, 2), i:select(2, 2), values, positions)
      end
    end
  end
end)

test('sums of long rows meet infinities and NaN, and stay within an ulp', function()
  for n = 100, 300, 40 do
    local x = mt.ones(3, n)
    x[{1, 70}], x[{2, 3}], x[{2, n}], x[{3, 81}] = inf, inf, -inf, nan
    is(x:sum(2), {inf, nan, nan})
    local y = mt.rand((t.on_gpu() and 100 or 1000) * n)
    near(y:sum():item() / y:double():sum():item(), 1, 2 ^ -23)
  end
end)

test('diff', function()
  is(mt.tensor({1, 4, 9}, 'int64'):diff{prepend = mt.tensor({0}, 'int64')}, {1, 3, 5})
  is(mt.tensor{1, 4, 9, 16}:diff(2), {2, 2})
  is(mt.tensor{1, 4, 9}:diff(5), {})
  is(mt.tensor{1, 4, 9}:diff(0), {1, 4, 9})
  is(mt.diff(mt.tensor{1, 4, 9}, 0, 1, mt.tensor{7}, mt.tensor{8}), {1, 4, 9})
  is(mt.tensor{true, false}:diff(), {true}, 'bool')
  is(m:diff(1, 1), {{2, 2}})
  local y = mt.tensor{1, 2, 4}
  mt.diff(y, 0):mul_(10) -- a copy
  is(y, {1, 2, 4})
  raises(function() mt.diff(mt.ones(2), 1, 1, mt.ones(2, 2)) end,
    'diff: x is %(2%), prepend %(2 x 2%); they may differ in the size of dimension 1 only')
  raises(function() mt.ones(2, 2):diff{append = mt.ones(3, 2)} end, 'diff: x is %(2 x 2%), append %(3 x 2%)')
  raises(function() mt.tensor(5):diff() end, 'diff: a 0%-d tensor')
  raises(function() m:diff(-1) end, 'diff: n is %-1')
end)

test('sort, argsort, msort', function()
  local v, i = mt.tensor{1, nan, 3, 3, 2, -0.0, 0}:sort{descending = true, stable = true}
  picks(v, i, {nan, 3, 3, 2, 1, 0, 0}, {2, 3, 4, 5, 1, 6, 7})
  eq(1 / v[6]:item(), -inf)
  v, i = mt.tensor{3, nan, -inf, inf, -1, nan}:sort()
  picks(v, i, {-inf, -1, 3, inf, nan, nan}, {3, 5, 1, 4, 2, 6})
  v, i = mt.tensor{{3, 1}, {2, 5}}:sort(1)
  picks(v, i, {{2, 1}, {3, 5}}, {{2, 1}, {1, 2}})
  v, i = mt.tensor{true, false, true}:sort()
  picks(v, i, {false, true, true}, {2, 1, 3})
  v, i = mt.tensor({5, -3, 2 ^ 40, -2 ^ 40}, 'int64'):sort()
  picks(v, i, {-2 ^ 40, -3, 5, 2 ^ 40}, {4, 2, 1, 3})
  v, i = mt.tensor(5):sort()
  picks(v, i, 5, 1)
  is(m:t():argsort(2, true), {{2, 1}, {2, 1}}, 'int64')
  is(mt.tensor{{3, 1}, {2, 5}}:msort(), {{2, 1}, {3, 5}})
  is(mt.zeros(2, 0):sort(), {{}, {}})
  for _, n in ipairs{41, 300, 5000, 70000} do
    for _, dtype in ipairs{'float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'int16'} do
      local x = (mt.rand(n) * 200):to(dtype)
      if dtype ~= 'uint8' then x = x - 100 end
      local s, at = x:sort()
      assert(s[{{2, n}}]:ge(s[{{1, n - 1}}]):all(), dtype .. n)
      assert(mt.equal(x:gather(1, at), s), dtype .. n)
      local ties = s[{{2, n}}]:eq(s[{{1, n - 1}}])
      assert(at:diff():gt(0):logical_or(ties:logical_not()):all(), 'stable ' .. dtype .. n)
      local k, kat = x:topk(7)
      local d, dat = x:sort(1, true)
      assert(mt.equal(k, d[{{1, 7}}]) and mt.equal(kat, dat[{{1, 7}}]), 'topk ' .. dtype .. n)
      local kth, kthat = x:kthvalue(n - 3)
      eq({kth:item(), kthat:item()}, {s[n - 3]:item(), at[n - 3]:item()})
    end
  end
end)

test('topk, kthvalue', function()
  local v, i = mt.tensor{1, nan, 3, 3, 2}:topk(3)
  picks(v, i, {nan, 3, 3}, {2, 3, 4})
  v, i = mt.tensor{1, nan, 3, 3, 2}:topk{3, largest = false}
  picks(v, i, {1, 2, 3}, {1, 5, 3})
  v, i = mt.tensor{{1, 5}, {7, 2}}:topk(1, 1)
  picks(v, i, {{7, 5}}, {{2, 1}})
  v, i = mt.zeros(2, 0):topk(0)
  shape(v, 2, 0)
  v, i = mt.tensor{2, 1, 2, 1, 2}:kthvalue(3)
  picks(v, i, 2, 1)
  v, i = mt.tensor{nan, 1, 2}:kthvalue(3, 1, true)
  picks(v, i, {nan}, {1})
  raises(function() mt.ones(3):topk(4) end, 'topk: k is 4, dimension 1 of %(3%) has 3 elements')
  raises(function() mt.ones(3):topk(-1) end, 'topk: k is %-1')
  raises(function() mt.ones(3):topk(nan) end, "topk: argument 2 'k' must be an integer")
  raises(function() mt.ones(3):kthvalue(0) end, 'kthvalue: k is 0')
  raises(function() mt.zeros(2, 0):kthvalue(1) end, 'kthvalue: k is 1.*has 0 elements')
end)

test('median, nanmedian, mode', function()
  is(mt.tensor{4, 1, 3, 2}:median(), 2)
  is(mt.tensor{4, nan}:median(), nan)
  is(mt.tensor{4, nan, 1}:nanmedian(), 1)
  is(mt.zeros(0):median(), nan)
  local v, i = mt.tensor{2, 1, 2, 1, 2}:median(1)
  picks(v, i, 2, 1)
  v, i = mt.tensor{{nan, 1, nan}, {3, 1, 2}}:median(2, true)
  picks(v, i, {{nan}, {2}}, {{1}, {3}})
  v, i = mt.tensor{{nan, 3, 1, nan}, {nan, nan, nan, nan}}:nanmedian(2)
  picks(v, i, {1, nan}, {3, 1})
  v, i = mt.tensor{3, 1, 3, 1, 2}:mode()
  picks(v, i, 1, 4)
  v, i = mt.tensor{{1, 1, 2}, {2, 2, 1}}:mode(1)
  picks(v, i, {1, 1, 1}, {1, 1, 2})
  v, i = mt.tensor{nan, nan, 1}:mode()
  picks(v, i, nan, 2)
  v, i = mt.tensor({7}, 'int64'):mode()
  picks(v, i, 7, 1)
  for _, name in ipairs{'median', 'nanmedian', 'mode', 'max'} do
    v, i = mt.zeros(0, 0)[name](mt.zeros(0, 0), 1)
    eq({v.shape, i.shape}, {{0}, {0}})
    eq(mt.zeros(0, 3, 0)[name](mt.zeros(0, 3, 0), 1, true).shape, {1, 3, 0})
  end
  raises(function() mt.zeros(2, 0):median(2) end, 'median: %(2 x 0%)')
  raises(function() mt.zeros(2, 0):mode(2) end, 'mode: %(2 x 0%)')
  is(mt.zeros(0, 2):median(2), {})
end)

test('quantile, nanquantile', function()
  local x = mt.tensor{1, 2, 4, 8}
  local q = mt.tensor{0.1, 0.5, 0.9}
  near(x:quantile(q):tolist(), {1.3, 3, 6.8}, 1e-5)
  for how, values in pairs{lower = {1, 2, 4}, higher = {2, 4, 8}, midpoint = {1.5, 3, 6},
      nearest = {1, 4, 8}} do
    near(x:quantile{q, interpolation = how}:tolist(), values, 1e-6)
  end
  near(x:quantile(0.5):item(), 3)
  local y = mt.range(0, 11):float():view(3, 4)
  near(y:quantile(mt.tensor{0.1, 0.6}, 2)[1]:tolist(), {0.3, 4.3, 8.3}, 1e-5)
  shape(y:quantile(mt.tensor{0.1, 0.6}, 2, true), 2, 3, 1)
  shape(y:quantile(0.5, nil, true), 1, 1)
  is(mt.tensor{1, nan, 3}:quantile(mt.tensor{0, 1}), {nan, nan})
  is(mt.tensor{1, nan, 3}:nanquantile(mt.tensor{0, 0.5, 1}), {1, 2, 3})
  is(mt.tensor{{1, nan, 3}, {nan, nan, nan}}:nanquantile(0.5, 2), {2, nan})
  is(mt.tensor{{1, nan}, {1, 3}}:quantile(0.5, 2), {nan, 2})
  is(mt.tensor(5):quantile(0.3, 1), 5)
  raises(function() x:quantile(1.5) end, 'quantile: q is 1.5; it must lie in 0..1')
  raises(function() x:quantile(nan) end, 'quantile: q is %-?nan')
  raises(function() x:quantile(0.5, 1, false, 'cubic') end, "interpolation is 'cubic'")
  raises(function() mt.zeros(0):quantile(0.5) end, 'quantile: %(0%) has no elements')
  raises(function() x:long():quantile(0.5) end, 'quantile: .* float tensor, got int64')
  raises(function() x:quantile('a') end, "quantile: argument 2 'q' must be a tensor or a number")
end)

test('quantile also has a gradient by q, between two positions', function()
  local function slopes(f, x, q)
    x, q = mt.tensor(x, 'float64'):requires_grad_(), mt.tensor(q, 'float64'):requires_grad_()
    f(x, q):sum():backward()
    return q.grad:tolist()
  end
  near(slopes(mt.quantile, {0, 1, 4, 9, 16, 25}, {0.1, 0.55, 0.9}), {5, 25, 45}, 1e-12)
  near(slopes(mt.quantile, {1, 4, 9}, {0, 0.5, 1}), {0, 0, 0})
  local x = {{1, nan, 5}, {2, 3, 9}}
  local function across(how)
    return function(v, q) return how(v, q, 2) end
  end
  near(slopes(across(mt.nanquantile), x, 0.55), 16)
  near(slopes(across(mt.quantile), x, 0.55), 12) -- the row with a NaN has none
  eq(pcall(slopes, function(v, q) return v:quantile{q, interpolation = 'lower'} end, {1, 2}, 0.5), false)
  local y = mt.tensor({3, 1, 4, 1.5, 9}, 'float64'):requires_grad_()
  local q = mt.tensor({0.1, 0.6, 0.8}, 'float64'):requires_grad_()
  t.checks(mt.quantile, y, q)
end)

test('unique, unique_consecutive', function()
  shape(mt.zeros(2, 0):unique(), 0) -- a list of values, as always
  local v, inverse, counts = mt.tensor{{3, 1}, {1, 3}, {7, -2}}:unique(true, true, true)
  is(v, {-2, 1, 3, 7})
  is(inverse, {{3, 2}, {2, 3}, {4, 1}}, 'int64')
  is(counts, {1, 2, 2, 1}, 'int64')
  v, counts = mt.tensor{3, nan, 1, nan, 3}:unique{return_counts = true}
  is(v, {1, 3, nan, nan})
  is(counts, {1, 2, 1, 1})
  eq(select('#', mt.tensor{1}:unique()), 1)
  v, inverse, counts = mt.tensor({{1, 2}, {0, 5}, {1, 2}}, 'int64'):unique{dim = 1,
    return_inverse = true, return_counts = true}
  is(v, {{0, 5}, {1, 2}})
  is(inverse, {2, 1, 2})
  is(counts, {1, 2})
  is(mt.tensor{{1, 0, 1}, {2, 5, 2}}:unique{dim = 2}, {{0, 1}, {5, 2}})
  v, inverse, counts = mt.tensor{{1, 1, 2}, {2, 1, 1}}:unique_consecutive(true, true)
  is(v, {1, 2, 1})
  is(inverse, {{1, 1, 2}, {2, 3, 3}})
  is(counts, {2, 2, 2})
  v, inverse, counts = mt.tensor{{1, 2}, {1, 2}, {0, 1}}:unique_consecutive(true, true, 1)
  is(v, {{1, 2}, {0, 1}})
  is(inverse, {1, 1, 2})
  is(counts, {2, 1})
  is(mt.zeros(0):unique(), {})
  is(mt.tensor(5):unique(), {5})
  is(mt.tensor{true, false, true}:unique(), {false, true}, 'bool')
  raises(function() m:unique{dim = 3} end, 'unique: dimension 3')
end)

test('bincount counts positions from 1', function()
  is(mt.tensor({2, 2, 4}, 'int64'):bincount(), {0, 2, 0, 1}, 'int64')
  is(mt.tensor({2, 2, 4}, 'int64'):bincount(mt.tensor{0.5, 1, 2}), {0, 1.5, 0, 2}, 'float32')
  is(mt.tensor({2}, 'uint8'):bincount(mt.tensor({3}, 'int64'), 4), {0, 3, 0, 0}, 'float64')
  is(mt.zeros({0}, {dtype = 'int64'}):bincount{minlength = 2}, {0, 0})
  raises(function() mt.tensor({0, 1}, 'int64'):bincount() end, 'bincount: 0 is below 1')
  raises(function() mt.tensor({2 ^ 62}, 'int64'):bincount() end, 'bincount: 4611686018427387904')
  raises(function() mt.tensor{1, 2}:bincount() end, 'bincount: .*float32')
  raises(function() m:long():bincount() end, 'bincount: .*%(2 x 2%)')
  raises(function() mt.tensor({1}, 'int64'):bincount(nil, -1) end, 'minlength is %-1')
  raises(function() mt.tensor({1}, 'int64'):bincount(mt.ones(2)) end, 'the weights are %(2%)')
end)

test('histc', function()
  is(mt.tensor{1, 2, 2, 5}:histc(4, 0, 4), {0, 1, 2, 0}, 'float32')
  is(mt.tensor{1, 2, 2, 5}:histc(4), {1, 2, 0, 1})
  is(mt.tensor{2, 2}:histc(4), {0, 0, 2, 0})
  is(mt.tensor{1, nan, 2}:histc(2, 0, 2), {0, 2})
  is(mt.zeros(0):histc(3), {0, 0, 0})
  raises(function() mt.tensor{1, inf}:histc(4) end, 'histc: the range 1 to inf')
  raises(function() m:histc(0) end, 'histc: bins is 0')
  raises(function() m:histc(2, 4, 1) end, 'histc: min is 4 and max 1')
  raises(function() m:histc(2 ^ 50) end, 'histc: bins is 1125899906842624')
end)

test('softmax of odd shapes and infinities', function()
  is(mt.tensor{inf, 1}:softmax(1), {nan, nan})
  is(mt.tensor{-inf, -inf}:log_softmax(1), {nan, nan})
  is(mt.tensor{-inf, 0}:softmax(1), {0, 1})
  is(mt.tensor(3):softmax(1), 1)
  is(mt.zeros(2, 0):softmax(2), {{}, {}})
  local x = mt.randn(5, 300, 7)
  for d = 1, 3 do
    local e = (x:double() - x:double():amax(d, true)):exp()
    local p = e / e:sum(d, true)
    assert(mt.allclose(x:softmax(d):double(), p, {rtol = 1e-5, atol = 1e-8}), 'softmax ' .. d)
    assert(mt.allclose(x:log_softmax(d):double(), p:log(), {rtol = 1e-5, atol = 1e-6}),
      'log_softmax ' .. d)
  end
end)

-- Gradients ---------------------------------------------------------------------------------------

local scans = {
  cumsum = function(x, d) return x:cumsum(d) end,
  cumprod = function(x, d) return x:cumprod(d) end,
  logcumsumexp = function(x, d) return x:logcumsumexp(d) end,
  cummax = function(x, d) return (x:cummax(d)) end,
  cummin = function(x, d) return (x:cummin(d)) end,
  sort = function(x, d) return (x:sort(d, true)) end,
  topk = function(x, d) return (x:topk(2, d)) end,
  kthvalue = function(x, d) return (x:kthvalue(2, d)) end,
  median = function(x, d) return (x:median(d)) end,
  median_of_all = function(x) return x:median() end,
  mode = function(x, d) return (x:mode(d)) end,
  max = function(x, d) return (x:max(d, true)) end,
  min = function(x, d) return (x:min(d)) end,
  quantile = function(x, d) return x:quantile(mt.tensor({0.3, 0.9}, 'float64'), d) end,
  nanquantile = function(x, d) return x:nanquantile(0.3, d) end,
  var = function(x, d) return x:var(d) end,
  std = function(x, d) return x:std(d, true) end,
  var_mean = function(x, d)
    local v, mean = x:var_mean(d)
    return v * mean
  end,
  var_of_all = function(x) return x:var{correction = 0} end,
  logsumexp = function(x, d) return x:logsumexp(d) end,
  logsumexp_of_all = function(x) return x:logsumexp() end,
  norm = function(x, d) return x:norm(2, d) end,
  norm1 = function(x, d) return x:norm(1, d) end,
  norm3 = function(x, d) return x:norm(3, d, true) end,
  norm15 = function(x) return x:norm(1.5) end,
  norm_inf = function(x, d) return x:norm(inf, d) end,
  norm_least = function(x, d) return x:norm(-inf, d) end,
  nansum = function(x, d) return x:nansum(d) end,
  nanmean = function(x, d) return x:nanmean(d) end,
  diff = function(x, d) return x:diff(2, d) end,
  softmax = function(x, d) return x:softmax(d) end,
  log_softmax = function(x, d) return x:log_softmax(d) end,
  prod = function(x, d) return x:prod(d) end,
}
local layouts = {
  contiguous = {{3, 4}, function(x) return x end},
  transposed = {{4, 3}, function(x) return x:t() end},
  strided = {{7, 9}, function(x) return x[{{2, 6, 2}, {2, 8, 2}}] end},
}
local names = {}
for name in pairs(scans) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  for layout, how in pairs(layouts) do
    test(('gradients of %s, %s'):format(name, layout), function()
      mt.manual_seed(7)
      local x = (mt.randn(how[1], {dtype = 'float64'})):requires_grad_()
      for d = 1, 2 do
        local function f(v) return scans[name](how[2](v), d) end
        t.checks(f, x)
      end
    end)
  end
end

test('gradients of 0-d and size-1 tensors', function()
  for _, name in ipairs(names) do
    if not ({topk = 1, kthvalue = 1, diff = 1, var = 1, std = 1, var_mean = 1})[name] then
      local x = mt.tensor(1.5, 'float64'):requires_grad_()
      local ok, message = pcall(mt.gradcheck, function(v) return scans[name](v, 1) end, {x})
      assert(ok, name .. ': ' .. tostring(message))
      x = mt.tensor({1.5}, 'float64'):requires_grad_()
      ok, message = pcall(mt.gradcheck, function(v) return scans[name](v, 1) end, {x})
      assert(ok, name .. ': ' .. tostring(message))
    end
  end
end)

test('cumprod and prod know zeros, to the second order', function()
  for _, row in ipairs{{2, 3, 4}, {2, 0, 4}, {0, 3, 4}, {0, 0, 4}, {2, 0, 0}} do
    local x = mt.tensor({row, {1, 2, 3}}, 'float64'):requires_grad_()
    for d = 1, 2 do
      for _, f in ipairs{function(v) return v:cumprod(d) end, function(v) return v:prod(d) end} do
        t.checks(f, x)
      end
    end
  end
end)

test('equal float64 elements have the deviation 0, and so a gradient of 0', function()
  mt.manual_seed(1)
  for _, n in ipairs{3, 7, 10, 33, 1000} do
    local x = mt.randn(n == 1000 and 40 or 200, 1, {dtype = 'float64'}):expand(-1, n)
    for _, y in ipairs{x:contiguous(), x:t():contiguous():t()} do
      eq(y:std(2):count_nonzero():item(), 0)
      y = y:detach():requires_grad_()
      y:std(2):sum():backward()
      eq(y.grad:count_nonzero():item(), 0)
    end
  end
end)

test('gradients where there is none: norm, std, var at 0', function()
  for _, p in ipairs{0.5, 1, 1.5, 2, 3, inf} do
    local x = mt.zeros(3):requires_grad_()
    x:norm(p):backward()
    is(x.grad, {0, 0, 0})
    x = mt.tensor{0, 3, -4}:requires_grad_()
    x:norm(p):backward()
    assert(x.grad:isfinite():all(), 'norm ' .. p)
  end
  local x = mt.tensor{2, 2, 2}:requires_grad_()
  x:std():backward()
  is(x.grad, {0, 0, 0})
  x = mt.tensor{2}:requires_grad_()
  x:var():backward()
  is(x.grad, {nan})
  x = mt.tensor{1, 2, 2, 5, 2}:requires_grad_()
  x:median():backward()
  near(x.grad:tolist(), {0, 1 / 3, 1 / 3, 0, 1 / 3})
end)

test('the same bits for every number of threads', function()
  local x = mt.randn(300, 301)
  local wide = mt.randn(200003)
  local calls = {
    function() return x:softmax(1), x:softmax(2), x:log_softmax(1), x:logsumexp(1) end,
    function() return wide:logsumexp(1), wide:var(), x:std(1), x:var(2) end,
    function() return x:cumsum(1), x:cumsum(2), wide:cumsum(1), x:logcumsumexp(2) end,
    function() return x:sort(1) end,
    function() return x:topk(9, 2) end,
    function() return x:cummax(2) end,
    function() return wide:sort() end,
  }
  for _, call in ipairs(calls) do t.on_threads(call) end
end)

test('no argument crashes', function()
  local bad = {0, 7, -9, nan, inf, -inf, 2 ^ 31, 2 ^ 53, 2.5, 'x', {}, {0}, {1, 1}, {nan}, true}
  local tensors = {mt.tensor(1), mt.zeros(0), mt.zeros(2, 0), mt.ones(2, 3), mt.tensor{true},
    mt.ones({3}, {dtype = 'int64'}), mt.tensor{nan, inf, -inf}}
  for _, name in ipairs{'sum', 'mean', 'prod', 'max', 'min', 'amax', 'amin', 'aminmax', 'argmax',
    'argmin', 'var', 'std', 'var_mean', 'norm', 'logsumexp', 'median', 'nanmedian', 'mode',
    'quantile', 'nanquantile', 'nansum', 'nanmean', 'all', 'any', 'count_nonzero', 'cumsum',
    'cumprod', 'cummax', 'cummin', 'logcumsumexp', 'diff', 'sort', 'argsort', 'msort', 'topk',
    'kthvalue', 'unique', 'unique_consecutive', 'bincount', 'softmax', 'log_softmax'} do
    for _, x in ipairs(tensors) do
      pcall(x[name], x)
      for _, b in ipairs(bad) do
        if not (name == 'bincount') then pcall(x[name], x, b) end
        pcall(x[name], x, 1, b)
        pcall(x[name], x, b, 1)
      end
    end
  end
end)

test('large permuted tensors are reduced in the order of memory', function()
  mt.manual_seed(1)
  local x = mt.randn(40, 60, 50)
  local whole = (x * 50):to 'int32'
  for _, order in ipairs{{1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} do
    local place = {}
    for k, d in ipairs(order) do place[d] = k end
    local y = x:permute(unpack(order))
    for _, name in ipairs{'sum', 'mean', 'amax', 'norm'} do eq(y[name](y):equal(x[name](x)), true) end -- the same bits
    eq(whole:permute(unpack(order)):argmax():item(), whole:permute(unpack(order)):contiguous():argmax():item())
    for _, dims in ipairs{{1}, {2}, {3}, {1, 2}, {1, 3}, {2, 3}} do
      local there = {}
      for k, d in ipairs(dims) do there[k] = place[d] end
      for _, name in ipairs{'sum', 'amin', 'logsumexp', 'var'} do
        local expected = x[name](x, dims, {keepdim = true}):permute(unpack(order))
        local got = y[name](y, there, {keepdim = true})
        eq(got.shape, expected.shape)
        assert(mt.allclose(got, expected, {rtol = 1e-5, atol = 1e-4}), name)
        eq(y[name](y, there):numel(), expected:numel())
      end
    end
  end
  local part = x['::2, 3:, :']:transpose(1, 2)
  assert(mt.allclose(part:sum{1, 2}, part:contiguous():sum{1, 2}, {rtol = 1e-5, atol = 1e-4}))
  assert(mt.allclose(part:expand(3, 58, 20, 50):sum{1, 3}, part:sum(2) * 3, {rtol = 1e-5, atol = 1e-4}))
end)

test('long columns, wide and few', function()
  mt.manual_seed(1)
  for _, shape in ipairs {{9001, 1}, {9001, 3}, {5003, 7}, {t.on_gpu() and 70 or 700, 300}, {3, 2051, 5}} do
    local d = #shape - 1
    local x = mt.randn(shape)
    local exact, half = x:double(), x:bfloat16()
    local bound = exact:abs():sum(d) * 2 ^ -24
    assert(((x:sum(d):double() - exact:sum(d)):abs() - bound):max():item() <= 0)
    assert(half:sum(d):equal(half:float():sum(d):bfloat16()))
    local whole = (x * 50):to('int32')
    assert((exact:sum(d) - exact:transpose(d, -1):contiguous():sum(-1)):abs():max():item() < 1e-9)
    eq(whole:sum(d):equal(whole:transpose(d, -1):contiguous():sum(-1)), true)
    eq(x:amax(d):equal(x:transpose(d, -1):contiguous():amax(-1)), true)
    eq(x:gt(3):any(d):equal(x:gt(3):transpose(d, -1):contiguous():any(-1)), true)
  end
end)

t.finish()
