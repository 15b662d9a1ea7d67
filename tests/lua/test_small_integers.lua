-- test_small_integers.lua -- int8 and int16, which are stored in one and two bytes and calculated in int32
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'

local a = mt.tensor({-128, -100, -7, -1, 0, 3, 100, 127}, 'int8')
local b = mt.tensor({-1, 100, 3, -5, 7, 2, 100, -128}, 'int8')
local function is(x, values, dtype) t.eq({x.dtype, x:tolist()}, {dtype or 'int8', values}) end

t.test('arithmetic is modulo 2^8 and 2^16, as in PyTorch', function()
  is(a + b, {127, 0, -4, -6, 7, 5, -56, -1})
  is(a * b, {-128, -16, -21, 5, 0, 6, 16, -128})
  is(-a, {-128, 100, 7, 1, 0, -3, -100, -127})
  is(a:abs(), {-128, 100, 7, 1, 0, 3, 100, 127})
  is(a:floor_divide(b), {-128, -1, -3, 0, 0, 1, 1, -1})
  is(a:remainder(b), {0, 0, 2, -1, 0, 1, 0, -1})
  is(a:fmod(b), {0, 0, -1, -1, 0, 1, 0, 127})
  is(a ^ 2, {0, 16, 49, 1, 0, 9, 16, 1})
  is(a:pow(3), {0, -64, -87, -1, 0, 27, 64, 127})
  is(a:bitwise_and(b), {-128, 4, 1, -5, 0, 2, 100, 0})
  is(a:bitwise_xor(b), {127, -8, -6, 4, 7, 1, 0, -1})
  is(a:bitwise_not(), {127, 99, 6, 0, -1, -4, -101, -128})
  is(a:bitwise_left_shift(2), {0, 112, -28, -4, 0, 12, -112, -4})
  is(a:bitwise_right_shift(2), {-32, -25, -2, -1, 0, 0, 25, 31})
  is(a:maximum(b), {-1, 100, 3, -1, 7, 3, 100, 127})
  is(a:sign(), {-1, -1, -1, -1, 0, 1, 1, 1})
  is(a:clamp(-5, 5), {-5, -5, -5, -1, 0, 3, 5, 5})
  is(a:lt(b), {true, true, true, false, true, false, false, false}, 'bool')
  is(a + 1.5, {-126.5, -98.5, -5.5, 0.5, 1.5, 4.5, 101.5, 128.5}, 'float32')
  local s = mt.tensor({-32768, 300, -300, 255}, 'int16')
  is(s * s, {0, 24464, 24464, -511}, 'int16')
  is(a:view(2, 4):matmul(b:view(4, 2)), {{-65, 102}, {97, 57}})
  t.raises(function() return a + 200 end, '200 does not fit into int8')
  t.raises(function() return mt.tensor({40000}, 'int16') end, '40000 does not fit into int16')
  t.raises(function() return mt.tensor({-129}, 'int8') end, '%-129 does not fit into int8')
  t.raises(function() return a:floor_divide(0) end, 'divided by 0')
end)

t.test('every operation gives what int32 gives, cut to the width', function()
  for _, dtype in ipairs{'int8', 'int16'} do
    local x = mt.randint(-120, 121, {7, 9}):to(dtype)
    local y = mt.randint(1, 100, {7, 9}):to(dtype)
    for _, o in ipairs(core.operations()) do
      local f = mt[o.name]
      local inputs = {{x, y, x}, {x:t(), y:t(), x:t()}, {x[{{1, 7, 2}}], y[{{1, 7, 2}}], x[{{1, 7, 2}}]},
        {x[1], y:narrow(1, 2, 1):expand(7, 9), x}}
      for _, tensors in ipairs(inputs) do
        local small, wide = {}, {}
        for i = 1, o.inputs do
          small[i], wide[i] = tensors[i], tensors[i]:int()
          if o.name == 'where' and i == 1 then small[i] = small[i]:gt(0) wide[i] = small[i] end
        end
        local ok, expected = pcall(f, unpack(wide))
        local fine, found = pcall(f, unpack(small))
        t.eq(fine, ok)
        if ok and fine then
          local name = ('%s of %s'):format(o.name, dtype)
          t.eq({name, found.dtype}, {name, expected.dtype == 'int32' and dtype or expected.dtype})
          expected = expected:to(found.dtype)
          local same = found:eq(expected):logical_or(found:ne(found):logical_and(expected:ne(expected)))
          if not same:all() then error(name .. ' differs') end
        end
      end
    end
  end
end)

t.test('sums, orders, places', function()
  is(a:sum(), -6, 'int64')
  is(a:prod(), 0, 'int64')
  is(a:cumsum(1), {-128, -228, -235, -236, -236, -233, -133, -6}, 'int64')
  is(a:cummax(1), {-128, -100, -7, -1, 0, 3, 100, 127})
  is(b:sort(), {-128, -5, -1, 2, 3, 7, 100, 100})
  is(b:amin(), -128)
  is(a:max(), 127)
  is(a:argmax(), 8, 'int64')
  is(b:unique(), {-128, -5, -1, 2, 3, 7, 100})
  is(a:median(), -1)
  is(b:isin(a), {true, true, true, false, false, false, true, true}, 'bool')
  is(mt.searchsorted(a, b), {4, 7, 6, 4, 7, 6, 7, 1}, 'int64')
  is(mt.zeros({3}, 'int8'):scatter_add(1, mt.tensor({1, 1, 2}, 'int64'), mt.tensor({100, 100, 5}, 'int8')), {-56, 5, 0})
  is(a[b:gt(2)], {-100, -7, 0, 100})
  is(a:gather(1, mt.tensor({8, 1}, 'int64')), {127, -128})
  is(mt.cat{a[{{1, 2}}], mt.tensor({300}, 'int16')}, {-128, -100, 300}, 'int16')
  local c = a:clone()
  c:add_(b)
  is(c, {127, 0, -4, -6, 7, 5, -56, -1})
  c[{{1, 3}}] = 9
  is(c, {9, 9, 9, -6, 7, 5, -56, -1})
  is(mt.randint(-3, 3, {500}, {dtype = 'int8'}):unique(), {-3, -2, -1, 0, 1, 2, 3})
  is(mt.zeros({2}, 'int16'):random_(5, 6), {5, 5}, 'int16')
end)

t.test('promotion and conversion', function()
  local of = {}
  for _, d in ipairs{'bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64'} do
    of[d] = mt.ones({1}, d)
  end
  for _, row in ipairs{{'bool', 'int8', 'int16'}, {'uint8', 'int16', 'int16'}, {'int8', 'int8', 'int16'},
    {'int16', 'int16', 'int16'}, {'int32', 'int32', 'int32'}, {'int64', 'int64', 'int64'},
    {'float16', 'float16', 'float16'}, {'bfloat16', 'bfloat16', 'bfloat16'}, {'float32', 'float32', 'float32'}} do
    for i, d in ipairs{'int8', 'int16'} do
      t.eq((of[d] + of[row[1]]).dtype, row[i + 1])
      t.eq((of[row[1]] * of[d]).dtype, row[i + 1])
    end
  end
  is(mt.tensor{-1e9, -129, -128.5, -1.5, 0 / 0, 1.9, 127.9, 128, 1 / 0}:char(),
    {-128, -128, -128, -1, 0, 1, 127, 127, 127})
  is(mt.tensor{-1e9, -32769, 32767.5, 4e4}:short(), {-32768, -32768, 32767, 32767}, 'int16')
  is(mt.tensor({300, -300, 127, 128}, 'int32'):char(), {44, -44, 127, -128})
  is(mt.tensor({70000, -1}, 'int64'):short(), {4464, -1}, 'int16')
  is(a:byte(), {128, 156, 249, 255, 0, 3, 100, 127}, 'uint8')
  is(a:bool(), {true, true, true, true, false, true, true, true}, 'bool')
  is(a:half():char(), a:tolist())
  is(mt.tensor({1e30, -1e30}, 'float64'):bfloat16():char(), {127, -128})
  local p = a:data()
  t.eq({p[0], p[7], a:element_size(), a:short():data()[1]}, {-128, 127, 1, -100})
  t.eq(tostring(a):gsub(' +', ' '), ' -128 -100 -7 -1 0 3 100 127\n[(8) int8 cpu]')
  is(mt.frombuffer('\255\127\1', 'int8'), {-1, 127, 1})
  t.raises(function() return mt.zeros({1}, 'int7') end, "'int7' is not a dtype; use 'bool', 'uint8', .* or '")
end)

t.finish()
