-- test_index.lua -- indexing and assignment: numbers, tables, views
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises, shape = t.test, t.eq, t.raises, t.shape

local function grid(dtype) return mt.range(1, 12):view(3, 4):to(dtype or 'float32') end
local function is(x, values)
  assert(mt.is_tensor(x), 'not a tensor')
  eq(x:tolist(), values)
end

-- Reading -----------------------------------------------------------------------------------------

test('a number selects, from 1 or from the end', function()
  local x = grid()
  is(x[1], {1, 2, 3, 4})
  is(x[3], {9, 10, 11, 12})
  is(x[-1], {9, 10, 11, 12})
  is(x[-3], {1, 2, 3, 4})
  is(x[2][3], 7)
  is(x:t()[1], {1, 5, 9})
  eq(x[2][3]:item(), 7)
end)

test('a table of numbers is one element', function()
  local x = grid()
  is(x[{2, 3}], 7)
  is(x[{-1, -1}], 12)
  is(x[{2}], {5, 6, 7, 8})
  shape(x[{2, 3}])
end)

test('{} is all, {k} keeps the dimension, ranges include their end', function()
  local x = grid()
  is(x[{}], x:tolist())
  is(x[{{}}], x:tolist())
  is(x[{{}, 2}], {2, 6, 10})
  is(x[{{}, {2}}], {{2}, {6}, {10}})
  is(x[{{2}, {2}}], {{6}})
  is(x[{{2, 3}}], {{5, 6, 7, 8}, {9, 10, 11, 12}})
  is(x[{{1, 2}, {2, 3}}], {{2, 3}, {6, 7}})
  is(x[{{}, {1, 4, 2}}], {{1, 3}, {5, 7}, {9, 11}})
  is(x[{{}, {1, 4, 3}}], {{1, 4}, {5, 8}, {9, 12}})
  is(x[{{}, {2, 4, 9}}], {{2}, {6}, {10}})
  is(x[{{-2, -1}, -1}], {8, 12})
  is(x[{{1, -1}, {-1}}], {{4}, {8}, {12}})
  is(x[{3, {2, 2}}], {10})
end)

test('{k + 1, k} is empty', function()
  local x = grid()
  for k = 0, 3 do
    shape(x[{{k + 1, k}}], 0, 4)
    shape(x[{{}, {k + 1, k}}], 3, 0)
  end
  shape(x[{{}, {5, 4}}], 3, 0)
  eq(x[{{2, 1}}]:sum():item(), 0)
end)

test('newaxis and ellipsis', function()
  local x = mt.range(1, 24):view(2, 3, 4)
  shape(x[{mt.newaxis}], 1, 2, 3, 4)
  shape(x[{{}, mt.newaxis, 1}], 2, 1, 4)
  shape(x[{mt.ellipsis, mt.newaxis}], 2, 3, 4, 1)
  is(x[{mt.ellipsis, 1}], x[{{}, {}, 1}]:tolist())
  is(x[{2, mt.ellipsis}], x[2]:tolist())
  is(x[{2, mt.ellipsis, 4}], x[{2, {}, 4}]:tolist())
  is(x[{1, 1, mt.ellipsis, 1}], 1)
  shape(x[{mt.ellipsis}], 2, 3, 4)
  is(x[{mt.newaxis, 2, 3, 4}], {24})
end)

test('every kind of index agrees with a loop', function()
  local x = mt.range(1, 60):view(3, 4, 5)
  local y = x:permute(3, 1, 2)
  for _, source in ipairs{x, y} do
    local list, n = source:tolist(), source.shape
    for i = 1, n[1] do
      for j = -n[2], n[2] do
        if j ~= 0 then
          local row = list[i][j > 0 and j or j + n[2] + 1]
          is(source[{i, j}], row)
          local first, last = 2, n[3]
          local wanted = {}
          for k = first, last, 2 do wanted[#wanted + 1] = row[k] end
          is(source[{i, j, {first, last, 2}}], wanted)
        end
      end
    end
  end
end)

test('positions outside are errors that say the range', function()
  local x = grid()
  raises(function() return x[0] end, 'index: 0 is not a position; positions count from 1')
  raises(function() return x[4] end, 'index: position 4 is outside 1%.%.3 %(dimension 1%)')
  raises(function() return x[-4] end, 'index: position %-4 is outside 1%.%.3 %(dimension 1%)')
  raises(function() return x[{1, 5}] end, 'index: position 5 is outside 1%.%.4 %(dimension 2%)')
  raises(function() return x[{{}, 0}] end, 'index: 0 is not a position')
  raises(function() return x[{{0}}] end, 'index: 0 is not a position')
  raises(function() return x[{{0, 2}}] end, '0')
  raises(function() return x[{{1, 4}}] end,
    'range 1%.%.4 does not lie inside 1%.%.3 %(dimension 1%)')
  raises(function() return x[{{}, {3, 1}}] end,
    'range 3%.%.1 does not lie inside 1%.%.4 %(dimension 2%)')
  raises(function() return x[{{5, 4}}] end, 'range 5%.%.4 does not lie inside 1%.%.3')
  raises(function() return x[{{1, 3, 0}}] end, 'step is 0')
  raises(function() return x[{{3, 1, -1}}] end, 'step is %-1')
  raises(function() return x[{{1, 2, 3, 4}}] end, 'this one has 4')
  raises(function() return x[{1, 2, 3}] end, '3 positions for a tensor of 2 dimensions, %(3 x 4%)')
  raises(function() return x[{mt.ellipsis, mt.ellipsis}] end, 'one mt.ellipsis')
  raises(function() return mt.tensor(1)[1] end, '0%-d tensor')
  raises(function() return x:at(1) end, 'at: 1 position for a tensor of 2 dimensions')
  raises(function() return x:at(1, 5) end, 'position 5 is outside 1%.%.4 %(dimension 2%)')
  raises(function() return x:at(1, 0) end, '0 is not a position')
end)

test('an invalid index is reported', function()
  local x = grid()
  local key = {}
  key.foo, key[1] = 5, 2 -- both in the hash part of the table
  raises(function() return x[key] end, "the table has the key the string 'foo'")
  raises(function() return x[''] end, "no field or method ''")
  raises(function() return x[1.5] end, 'integer, got 1.5')
  raises(function() return x[0 / 0] end, 'integer, got nan')
  raises(function() return x[1 / 0] end, 'integer, got inf')
  raises(function() return x[2 ^ 60] end, 'index: .*1%.15')
  raises(function() return x[true] end, 'true is not an index')
  raises(function() return x[nil] end, 'nil is not an index')
  raises(function() return x[print] end, 'a function is not an index')
  raises(function() return x[{1.5}] end, 'integer, got 1.5')
  raises(function() return x[{{1, 2.5}}] end, 'integer, got 2.5')
  raises(function() return x[{{1, '2'}}] end, "integer, got the string '2'")
  raises(function() return x[{'1'}] end, "integer, got the string '1'")
  raises(function() return x[{true}] end, 'integer, got true')
  raises(function() return x[{print}] end, 'integer, got a function')
  raises(function() return x:at(1, '1') end, "integer, got the string '1'")
end)

test('a hole or a name in an index is an error', function()
  local x = grid()
  raises(function() return x[{1, nil, 2}] end, 'at %[2%]')
  raises(function() return x[{dim = 2}] end, 'dim')
  raises(function() return x[{{first = 1}}] end, 'first')
end)

-- Views -------------------------------------------------------------------------------------------

test('indexing gives a view', function()
  for _, key in ipairs{1, -1, {2, 3}, {{1, 2}}, {{}, 2}, {{}, {1, 4, 3}}, {mt.newaxis, {2}},
    {mt.ellipsis, 1}} do
    local x = grid()
    x[key]:fill_(100)
    assert(x:max():item() == 100, 'index is a copy')
    local y = grid()
    local part = y[key]
    y:fill_(100)
    assert(part:eq(100):all(), 'index is a copy')
  end
end)

test('views of views', function()
  local x = grid()
  local inner = x[{{2, 3}, {2, 4}}]
  inner[{{}, {2, 3}}][1]:zero_()
  is(x, {{1, 2, 3, 4}, {5, 6, 0, 0}, {9, 10, 11, 12}})
  inner:t()[1] = 7
  is(x, {{1, 2, 3, 4}, {5, 7, 0, 0}, {9, 7, 11, 12}})
end)

test('a view outlives its base', function()
  local part
  do
    local x = grid()
    part = x[{{2, 3}, 1}]
  end
  collectgarbage()
  collectgarbage()
  local noise = {}
  for i = 1, 50 do noise[i] = mt.full({12}, -1) end
  is(part, {5, 9})
end)

-- Writing -----------------------------------------------------------------------------------------

test('a number is written everywhere', function()
  local x = grid()
  x[1] = 0
  x[{3, 4}] = -1
  x[{2, {2, 3}}] = 8
  is(x, {{0, 0, 0, 0}, {5, 8, 8, 8}, {9, 10, 11, -1}})
  x[{{}, {1, 4, 3}}] = 5
  is(x, {{5, 0, 0, 5}, {5, 8, 8, 5}, {5, 10, 11, 5}})
  x[{}] = 2
  assert(x:eq(2):all())
  x[{mt.ellipsis, -1}] = 3
  is(x:sum(1), {6, 6, 6, 9})
  local one = mt.tensor(1)
  one[{}] = 6
  eq(one:item(), 6)
end)

test('a tensor is broadcast and converted', function()
  local x = grid()
  x[1] = mt.tensor{4, 3, 2, 1}
  x[{{2, 3}, {1, 2}}] = mt.tensor{{100}, {200}}
  x[{{}, 4}] = mt.tensor(7)
  is(x, {{4, 3, 2, 7}, {100, 100, 7, 7}, {200, 200, 11, 7}})
  x[2] = mt.tensor({1, 2, 3, 4}, 'int64')
  eq(x.dtype, 'float32')
  is(x[2], {1, 2, 3, 4})
  local whole = grid('int64')
  whole[1] = mt.tensor{1.9, -1.9, 0, 1}
  is(whole[1], {1, -1, 0, 1})
  local b = mt.tensor{true, true}
  b[1] = false
  is(b, {false, true})
  x[{{2, 1}}] = 5
  is(x[2], {1, 2, 3, 4})
end)

test('writing what overlaps reads first', function()
  local x = mt.range(1, 6)
  x[{{2, 6}}] = x[{{1, 5}}]
  is(x, {1, 1, 2, 3, 4, 5})
  x[{{1, 5}}] = x[{{2, 6}}]
  is(x, {1, 2, 3, 4, 5, 5})
  local m = mt.tensor{{1, 2}, {3, 4}}
  m[{}] = m:t()
  is(m, {{1, 3}, {2, 4}})
  m[1] = m[{{}, 2}]
  is(m, {{3, 4}, {2, 4}})
end)

test('writes that are refused change nothing', function()
  local x = grid()
  local before = x:tolist()
  raises(function() x[1] = mt.ones(3) end, 'assignment: .*%(4%).*%(3%)')
  raises(function() x[{1, 1}] = mt.ones(2) end, 'assignment: .*%(2%)')
  raises(function() x[1] = mt.ones(2, 1, 4) end, 'assignment: .*%(2 x 1 x 4%)')
  raises(function() x[0] = 1 end, '0 is not a position')
  raises(function() x[4] = 1 end, 'position 4 is outside 1%.%.3')
  raises(function() x[{{2, 4}}] = 1 end, 'range 2%.%.4')
  raises(function() x[1] = 'a' end, "assignment: .*the string 'a'")
  raises(function() x[1] = nil end, 'assignment: .*nil')
  raises(function() x[1] = {1, 2, 3, 4} end, 'assignment: .*table')
  raises(function() x[1.5] = 1 end, 'integer, got 1.5')
  is(x, before)
  local whole = grid('int64')
  raises(function() whole[1] = 2.5 end, 'assignment: 2.5 does not fit into int64')
  raises(function() whole[1] = 0 / 0 end, 'nan does not fit into int64')
  raises(function() mt.zeros({2}, 'uint8')[1] = 256 end, '256 does not fit into uint8')
  is(whole, before)
  raises(function() mt.ones(1):expand(3)[1] = 2 end, 'expanded in dimension 1')
end)

-- Gradients ---------------------------------------------------------------------------------------

test('gradients flow through every kind of index', function()
  for _, key in ipairs{1, -1, {2, 3}, {{1, 2}}, {{}, 2}, {{}, {1, 4, 3}}, {{2, 3}, {-1}},
    {mt.newaxis, {2}}} do
    local x = mt.randn({3, 4}, 'float64'):requires_grad_()
    mt.gradcheck(function(v) return v[key] * v[key] end, {x})
    mt.gradgradcheck(function(v) return v[key]:exp() end, {x})
    x.grad = nil
    x[key]:sum():backward()
    local wanted = mt.zeros({3, 4}, 'float64')
    wanted[key] = 1
    is(x.grad, wanted:tolist())
  end
end)

test('gradients flow through assignment, to both sides', function()
  for _, key in ipairs{1, {2, 3}, {{1, 2}}, {{}, 2}, {{}, {1, 4, 3}}} do
    mt.manual_seed(2)
    local x = mt.randn({3, 4}, 'float64'):requires_grad_()
    local v = mt.randn(mt.zeros(3, 4)[key].shape, 'float64'):requires_grad_()
    mt.gradcheck(function(a, b)
      local y = a * 2
      y[key] = b * b
      return y:sin()
    end, {x, v})
  end
  local s = mt.tensor(3, {requires_grad = true})
  local y = mt.zeros(2, 2)
  y[1] = s
  assert(y.requires_grad and not y.is_leaf)
  y:square():sum():backward()
  eq(s.grad:item(), 12)
end)

test('what was overwritten gets no gradient', function()
  local x = mt.ones(3, {requires_grad = true})
  local y = x * 2
  y[2] = 0
  y:sum():backward()
  is(x.grad, {2, 0, 2})
end)

test('assignments one after another', function()
  local x = mt.tensor({1, 2, 3, 4}, {requires_grad = true})
  local y = mt.zeros(4)
  for i = 1, 4 do y[i] = x[i] * i end
  y:sum():backward()
  is(x.grad, {1, 2, 3, 4})
end)

test('a leaf that requires a gradient is not written, except without recording', function()
  local x = mt.ones(3, {requires_grad = true})
  raises(function() x[1] = 2 end, 'assignment: this leaf requires a gradient')
  raises(function() x[{{1, 2}}] = mt.zeros(2) end, 'assignment: this leaf requires a gradient')
  mt.no_grad(function() x[1] = 2 end)
  is(x, {2, 1, 1})
  assert(x.is_leaf and x.requires_grad)
end)

test('index_select and gather count from 1', function()
  local x = grid()
  local two = mt.tensor({3, 1}, 'int64')
  is(x:index_select(1, two), {{9, 10, 11, 12}, {1, 2, 3, 4}})
  is(x:index_select(-1, two), {{3, 1}, {7, 5}, {11, 9}})
  is(x:gather(2, mt.tensor({{1}, {4}, {2}}, 'int64')), {{1}, {8}, {10}})
  is(x:gather(1, mt.tensor({{3, 2, 1, 1}}, 'int32')), {{9, 6, 3, 4}})
  raises(function() x:index_select(1, mt.tensor({1, 4}, 'int64')) end,
    'position 4 is outside 1%.%.3')
  raises(function() x:index_select(1, mt.tensor({1, 0}, 'int64')) end,
    'position 0 is outside 1%.%.3')
  raises(function() x:index_select(1, mt.tensor{1, 2}) end, 'index_select: .*float32.*:long%(%)')
  raises(function() x:gather(1, mt.tensor{{1, 2}}) end, 'gather: .*float32.*:long%(%)')
  mt.gradcheck(function(v) return v:index_select(2, mt.tensor({1, 1, 2}, 'int64')):sin() end,
               {mt.randn({2, 3}, 'float64'):requires_grad_()})
  mt.gradcheck(function(v) return v:gather(2, mt.tensor({{1, 1}, {3, 1}}, 'int64')):sin() end,
               {mt.randn({2, 3}, 'float64'):requires_grad_()})
end)

test('index_add keeps the dtype of its source', function()
  local places = mt.tensor({1}, {dtype = 'int64'})
  eq(mt.index_add(mt.tensor{false, false}, 1, places, mt.tensor{true}, 2):tolist(), {true, false})
end)

t.finish()
