-- test_long_lines.lua -- blocks of long rows: logcumsumexp, argmax, all, any, entropy, scatter
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local inf, nan = math.huge, 0 / 0

--- Returns log(exp(a) + exp(b)) of numbers.
local function join(a, b)
  if a ~= a or b ~= b then return nan end
  local most, least = math.max(a, b), math.min(a, b)
  if most == inf or most == -inf then return most end
  return most + math.log(1 + math.exp(least - most))
end
--- Returns the logcumsumexp of a list, element by element.
local function sums(list)
  local out, before = {}, -inf
  for i, x in ipairs(list) do
    before = join(before, x)
    out[i] = before
  end
  return out
end
local function close(got, want, tol)
  eq(#got, #want)
  for i, w in ipairs(want) do
    local g = got[i]
    if w ~= w or math.abs(w) == inf then eq(g, w)
    else near(g, w, tol * math.max(1, math.abs(w))) end
  end
end

test('logcumsumexp of long lines, also with huge steps, infinities and NaN', function()
  mt.manual_seed(3)
  local lists = {mt.randn(1000):tolist(), (mt.rand(777) * 100):tolist(), mt.linspace(-3000, 3000, 600):tolist(),
    mt.linspace(3000, -3000, 600):tolist()}
  for i, value in ipairs{-inf, inf, nan, 900, -900} do
    local list = mt.randn(700):tolist()
    list[i == 1 and 1 or 300] = value
    lists[#lists + 1] = list
  end
  for _, list in ipairs(lists) do
    for dtype, tol in pairs{float32 = 3e-7, float64 = 1e-12} do
      local x = mt.tensor(list, dtype)
      local want = sums(x:tolist())
      close(x:logcumsumexp(1):tolist(), want, tol)
      close(mt.stack({x, x}, 1):logcumsumexp(2)[2]:tolist(), want, tol)
      close(mt.stack({x, x, x, x, x}, 2):logcumsumexp(1):select(2, 3):tolist(), want, tol)
    end
  end
end)

test('argmax and argmin find the first extreme, or the first NaN, at any position', function()
  for _, n in ipairs{1, 31, 32, 33, 600, 1500} do
    for _, at in ipairs{1, math.ceil(n / 2), n} do
      local x = mt.zeros(3, n)
      x[2][at] = 5
      x[2][n] = 5
      eq({x:argmax(2)[2]:item(), (-x):argmin(2)[2]:item()}, {at, at})
      x[2][at], x[2][n] = nan, nan
      eq({x:argmax(2)[2]:item(), x:argmin(2)[2]:item()}, {at, at})
    end
  end
  eq(mt.tensor{-0.0, 0.0}:argmax():item(), 1)
end)

test('all and any see every bool of a line', function()
  for _, n in ipairs{1, 63, 64, 65, 200, 5000} do
    for _, at in ipairs{1, math.ceil(n / 2), n} do
      local x = mt.zeros(n)
      x[at] = -0.5
      eq({x:any(), x:all(), x:eq(0):any(), x:eq(0):all(), mt.zeros(n):any(), mt.ones(n):all()},
         {true, n == 1, n > 1, false, false, true})
    end
  end
end)

test('entropy of long lines is that of double precision', function()
  mt.manual_seed(4)
  local x = mt.rand(3, 2000)
  x[1][7] = 0
  local p = x:double() / x:double():sum(2, true)
  near(x:entropy(2):tolist(), (-mt.xlogy(p, p)):sum(2):tolist(), 1e-6)
  near(x:double():entropy(2):tolist(), (-mt.xlogy(p, p)):sum(2):tolist(), 1e-12)
end)

test('columns whose rows are cut: the sums of double precision, with the bits of one thread', function()
  mt.manual_seed(6)
  for _, shape in ipairs{{1037, 70}, {517, 1100}, {3, 600, 90}} do
    local x = mt.rand(unpack(shape))
    local d = #shape - 1
    local want = {t.on_threads(function() return x:sum(d), x:amax(d), x:var(d), x:logsumexp(d) end)}
    local turned = x:transpose(d, d + 1):contiguous():double()
    for k, y in ipairs{turned:sum(d + 1), turned:amax(d + 1), turned:var(d + 1), turned:logsumexp(d + 1)} do
      assert(mt.allclose(want[k]:double(), y, 3e-7, 1e-7), ('%d of %d x %d'):format(k, unpack(shape)))
    end
  end
end)

test('scatter along long rows: positions from the end, ones that meet, ones that are not there', function()
  mt.manual_seed(5)
  local n = 300
  local at, source = mt.randint(1, n, {2, n}), mt.rand({2, n}, {dtype = 'float64'})
  for _, k in ipairs{0, 70, 299} do
    if k > 0 then at[1][k] = -1 end
    local want = {mt.zeros(n):tolist(), mt.zeros(n):tolist()}
    for row = 1, 2 do
      for i = 1, n do
        local to = at[row][i]:item()
        to = to < 0 and n + 1 + to or to
        want[row][to] = want[row][to] + source[row][i]:item()
      end
    end
    near(mt.zeros({2, n}, {dtype = 'float64'}):scatter_add(2, at, source):tolist(), want, 1e-12)
  end
  local kept = mt.ones(2, n)
  for _, wrong in ipairs{0, n + 1, -n - 1} do
    at[2][200] = wrong
    raises(function() kept:scatter_add_(2, at, source:float()) end, 'is outside 1%.%.300')
  end
  eq(kept:sum():item(), 2 * n)
end)

t.finish()
