-- test_indexing.lua -- index tensors, masks, strings as indices, and gather and scatter functions
--
-- The expected values are PyTorch's.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, shape = t.test, t.eq, t.near, t.raises, t.shape

local function is(x, values)
  assert(mt.is_tensor(x), 'not a tensor')
  eq(x:tolist(), values)
end
local function long(v) return mt.tensor(v, {dtype = 'int64'}) end
local function flat(x) return x:reshape(-1):tolist() end
local function cube() return mt.range(1, 60):view(3, 4, 5) end
local nan, inf = 0 / 0, 1 / 0

-- The index tensors of the keys below, which count from 1.
local names = {
  mt = mt, i = long{3, 1}, j = long{{2, 4}, {1, 3}}, k = long{{2}, {1}}, n = long{-1, 2},
  m = mt.tensor{{true, false, true, false}, {false, false, true, true},
                {true, false, false, false}},
  m1 = mt.tensor{true, false, true}, m4 = mt.tensor{false, true, true, false},
  m3 = cube():remainder(7):eq(0), on = mt.tensor(true), off = mt.tensor(false), z = long(2),
  none = mt.zeros({0}, {dtype = 'int64'}),
}
-- {key, shape, values} for x = 1..60 as (3 x 4 x 5).
local cases = {
  {'i', {2, 4, 5}, {41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59,
    60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
  {'j3', {2, 2, 4, 5}, {21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
    39, 40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 1, 2, 3, 4, 5,
    6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 41, 42, 43, 44, 45, 46, 47, 48, 49,
    50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60}},
  {'{{}, j}', {3, 2, 2, 5}, {6, 7, 8, 9, 10, 16, 17, 18, 19, 20, 1, 2, 3, 4, 5, 11, 12, 13, 14,
    15, 26, 27, 28, 29, 30, 36, 37, 38, 39, 40, 21, 22, 23, 24, 25, 31, 32, 33, 34, 35, 46, 47,
    48, 49, 50, 56, 57, 58, 59, 60, 41, 42, 43, 44, 45, 51, 52, 53, 54, 55}},
  {'{i, {}, i}', {2, 4}, {43, 48, 53, 58, 1, 6, 11, 16}},
  {'{i, i}', {2, 5}, {51, 52, 53, 54, 55, 1, 2, 3, 4, 5}},
  {'{{}, i, i}', {3, 2}, {13, 1, 33, 21, 53, 41}},
  {'{1, {}, i}', {4, 2}, {3, 1, 8, 6, 13, 11, 18, 16}},
  {'{i, mt.newaxis, i}', {2, 1, 5}, {51, 52, 53, 54, 55, 1, 2, 3, 4, 5}},
  {'{mt.newaxis, i}', {1, 2, 4, 5}, {41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
    56, 57, 58, 59, 60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
  {'{i, mt.newaxis, {}, 1}', {2, 1, 4}, {41, 46, 51, 56, 1, 6, 11, 16}},
  {'m', {5, 5}, {1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,
    42, 43, 44, 45}},
  {'{m, 2}', {5}, {2, 12, 32, 37, 42}},
  {'{i, m[1]}', {2, 5}, {41, 42, 43, 44, 45, 11, 12, 13, 14, 15}},
  {'{mt.ellipsis, i}', {3, 4, 2}, {3, 1, 8, 6, 13, 11, 18, 16, 23, 21, 28, 26, 33, 31, 38, 36,
    43, 41, 48, 46, 53, 51, 58, 56}},
  {'on', {1, 3, 4, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60}},
  {'off', {0, 3, 4, 5}, {}},
  {'{{}, on, 1, 1}', {3, 1}, {1, 21, 41}},
  {'{2, on, i}', {2, 5}, {31, 32, 33, 34, 35, 21, 22, 23, 24, 25}},
  {'{j3, {1, 2}, i}', {2, 2, 2}, {23, 28, 1, 6, 3, 8, 41, 46}},
  {'{{}, n, 1}', {3, 2}, {16, 6, 36, 26, 56, 46}},
  {'{m1, m4}', {2, 5}, {6, 7, 8, 9, 10, 51, 52, 53, 54, 55}},
  {'{m1, {}, {1, 5, 2}}', {2, 4, 3}, {1, 3, 5, 6, 8, 10, 11, 13, 15, 16, 18, 20, 41, 43, 45, 46,
    48, 50, 51, 53, 55, 56, 58, 60}},
  {'{{}, m4}', {3, 2, 5}, {6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 26, 27, 28, 29, 30, 31, 32, 33,
    34, 35, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55}},
  {'m3', {8}, {7, 14, 21, 28, 35, 42, 49, 56}},
  {'{z, {}, 3}', {4}, {23, 28, 33, 38}},
  {'z', {4, 5}, {21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}},
  {'{i, z}', {2, 5}, {46, 47, 48, 49, 50, 6, 7, 8, 9, 10}},
  {'{k, i}', {2, 2, 5}, {31, 32, 33, 34, 35, 21, 22, 23, 24, 25, 11, 12, 13, 14, 15, 1, 2, 3, 4,
    5}},
  {'{k, i, j5}', {2, 2}, {32, 24, 11, 3}},
  {'{i, mt.ellipsis}', {2, 4, 5}, {41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
    56, 57, 58, 59, 60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
  {'{mt.ellipsis, m4, {}}', {3, 2, 5}, {6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 26, 27, 28, 29, 30,
    31, 32, 33, 34, 35, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55}},
  {'{{2, 3}, k, {2, 4}}', {2, 2, 1, 3}, {27, 28, 29, 22, 23, 24, 47, 48, 49, 42, 43, 44}},
  {'{mt.ellipsis, mt.newaxis, i, i}', {3, 1, 2}, {13, 1, 33, 21, 53, 41}},
  {'{i, 1, i}', {2}, {43, 1}},
  {'{i, {2}, i}', {2, 1}, {48, 6}},
  {'{none}', {0, 4, 5}, {}},
  {'{{}, none, i[{{1}}]}', {3, 0}, {}},}
names.j3 = long{{2, 1}, {1, 3}}
names.j5 = long{{2, 4}, {1, 3}}

local function key_of(text)
  return setfenv(assert(loadstring('return ' .. text)), names)()
end

test('index tensors and masks read what PyTorch reads', function()
  for _, case in ipairs(cases) do
    local ok, message = pcall(function()
      local key = key_of(case[1])
      for _, x in ipairs{cube(), cube():permute(3, 1, 2):contiguous():permute(2, 3, 1)} do
        local y = x[key]
        eq({unpack(y.shape)}, case[2])
        eq(flat(y), case[3])
      end
    end)
    if not ok then error(case[1] .. ': ' .. message, 0) end
  end
end)

-- Finds the elements of a key and their order by indexing a tensor of numbers.
test('assignment writes where reading reads, and the last value stays', function()
  for _, case in ipairs(cases) do
    local key = key_of(case[1])
    for _, layout in ipairs{1, 2, 3} do
      local whole = layout == 3 and mt.zeros(4, 4, 7) or mt.zeros(3, 4, 5)
      local x = layout == 1 and whole or layout == 2 and mt.zeros(5, 4, 3):permute(3, 2, 1) or
        whole[{{2, 4}, {}, {2, 6}}]
      local places = cube()[key]
      local v = mt.range(1, places:numel()):view(unpack(places.shape)) + 1000
      local wanted = flat(x)
      for at, place in ipairs(flat(places)) do wanted[place] = 1000 + at end
      x[key] = v
      eq(flat(x), wanted)
      x[key] = -1
      for _, place in ipairs(flat(places)) do wanted[place] = -1 end
      eq(flat(x), wanted)
    end
  end
end)

test('gradients of reading and writing at positions, twice', function()
  for _, text in ipairs{'i', '{{}, j}', '{i, {}, i}', '{{}, i, i}', 'm', '{i, m[1]}', '{k, i}',
                        'm3', 'on', '{1, {}, i}', '{i, mt.newaxis, i}'} do
    local key = key_of(text)
    mt.manual_seed(3)
    local x = mt.randn({3, 4, 5}, {dtype = 'float64', requires_grad = true})
    mt.gradcheck(function(a) return (a[key]:square()) end, {x})
    mt.gradgradcheck(function(a) return (a[key]:exp()) end, {x})
    local v = mt.randn(x[key].shape, {dtype = 'float64', requires_grad = true})
    local function put(a, b)
      local y = a * 2
      y[key] = b * b
      return y:sin()
    end
    mt.gradcheck(put, {x, v})
    mt.gradgradcheck(put, {x, v})
    local s = mt.tensor(0.7, {dtype = 'float64', requires_grad = true})
    mt.gradcheck(put, {x, s})
  end
end)

test('of values that meet only the one that stays gets the gradient', function()
  local v = mt.tensor({1, 2, 3, 4}, {requires_grad = true})
  local y = mt.zeros(3)
  y[long{1, 3, 1, 3}] = v
  is(y, {3, 0, 4})
  y:sum():backward()
  is(v.grad, {0, 0, 1, 1})
  local x = mt.zeros(2, 2):scatter(1, long{{1, 2}, {1, 1}}, v:view(2, 2))
  is(x, {{3, 4}, {0, 2}})
end)

test('assignment keeps the dtype, drops leading sizes of 1, and checks shapes', function()
  local x = mt.zeros({3, 4}, {dtype = 'int64'})
  x[long{1, 3}] = 7
  is(x, {{7, 7, 7, 7}, {0, 0, 0, 0}, {7, 7, 7, 7}})
  x[long{2}] = mt.ones(1, 1, 4)
  is(x[2], {1, 1, 1, 1})
  x[x:eq(7)] = long{1, 2, 3, 4, 5, 6, 7, 8}
  is(x, {{1, 2, 3, 4}, {1, 1, 1, 1}, {5, 6, 7, 8}})
  x[x:gt(4)] = 0
  is(x[3], {0, 0, 0, 0})
  local before = x:tolist()
  raises(function() x[long{1, 2}] = 2.5 end, 'assignment: 2.5 does not fit into int64')
  raises(function() x[x:eq(1)] = mt.ones(2) end, 'assignment: .*%(2%)')
  raises(function() x[long{1, 2}] = mt.ones(3) end, 'assignment: shapes %(2 x 4%) and %(3%)')
  raises(function() x[long{1, 4}] = 1 end, 'position 4 is outside 1%.%.3 %(dimension 1')
  raises(function() x[{{}, long{1, 0}}] = 1 end,
    'position 0 is outside 1%.%.4 %(dimension 2 .*0 is not a position')
  raises(function() x[{long{1, 2, 3}, long{1, 5, 1}}] = 1 end, 'position 5 is outside 1%.%.4')
  raises(function() x[{long{1, 2, 3}, long{1, 2}}] = 1 end, 'do not broadcast')
  raises(function() mt.ones(1):expand(3)[long{1}] = 2 end, 'expanded in dimension 1')
  is(x, before)
  local leaf = mt.ones(3, {requires_grad = true})
  raises(function() leaf[long{1}] = 2 end, 'assignment: this leaf requires a gradient')
  raises(function() leaf[leaf:gt(0)] = 2 end, 'assignment: this leaf requires a gradient')
  is(leaf, {1, 1, 1})
end)

test('assignment from an overlapping view', function()
  local x = mt.range(1, 5)
  x[long{1, 2, 3, 4, 5}] = x[long{5, 4, 3, 2, 1}]
  is(x, {5, 4, 3, 2, 1})
  local p = long{2, 3, 1}
  p[p] = p
  is(p, {1, 2, 3})
  local y = mt.range(1, 4)
  y[y:gt(2)] = y[{{1, 2}}]
  is(y, {1, 2, 1, 2})
  local s = mt.range(1, 4)
  s:scatter_(1, long{2, 3, 4}, s[{{1, 3}}])
  is(s, {1, 1, 2, 3})
  local q = long{1, 2, 3}
  q:index_copy_(1, q, q + 1)
  is(q, {2, 3, 4})
end)

test('index tensors of every integer dtype, and of no other', function()
  local x = mt.range(1, 6):view(3, 2)
  for _, dtype in ipairs{'uint8', 'int8', 'int16', 'int32', 'int64'} do
    is(x[mt.tensor({3, 1}, {dtype = dtype})], {{5, 6}, {1, 2}})
    is(x:index_select(1, mt.tensor({2}, {dtype = dtype})), {{3, 4}})
  end
  raises(function() return x[mt.tensor{1, 2}] end, 'index: positions must be integers.*float32.*:long%(%)')
  raises(function() return x[{{}, mt.tensor{1}}] end, ':long%(%)')
  raises(function() return x[mt.tensor{true, false}] end,
    'index: the mask is %(2%), but dimension 1 has size 3')
  raises(function() return x[{{}, mt.tensor{true, false, true}}] end, 'dimension 2 has size 2')
  raises(function() return x[long{4}] end, 'index: position 4 is outside 1%.%.3 %(dimension 1 of %(3 x 2%)%)')
  raises(function() return x[{1, long{3}}] end, 'position 3 is outside 1%.%.2 %(dimension 2 of %(3 x 2%)%)')
  raises(function() return x[long{-4}] end, 'position %-4 is outside')
  raises(function() return x[{long{1}, long{1}, long{1}}] end, '3 positions for a tensor of 2')
  raises(function() return x[{{1, 2, 3, 1}}] end, 'a list of positions must be a tensor')
  for _, far in ipairs{2 ^ 31, 2 ^ 53, -2 ^ 53} do
    raises(function() return x[long{far}] end, 'is outside 1%.%.3')
    raises(function() x[long{far}] = 1 end, 'is outside 1%.%.3')
    raises(function() x:scatter_(1, long{{far, 1}}, 1) end, 'is outside 1%.%.3')
    raises(function() x:take(long{far}) end, 'is outside 1%.%.6')
  end
  is(x, {{1, 2}, {3, 4}, {5, 6}})
  raises(function() return mt.zeros(0)[long{1}] end, 'position 1 is outside')
  shape(mt.zeros(0, 3)[names.none], 0, 3)
  shape(mt.zeros(3, 0):index_select(1, long{2, 2}), 2, 0)
end)

test('0-d tensors', function()
  local x = mt.tensor(5)
  is(x[mt.tensor(true)], {5})
  is(x[mt.tensor(false)], {})
  is(x[mt.newaxis], {5})
  is(mt.tensor{4, 5}[{mt.tensor{false, true}, mt.tensor(true)}], {5})
  is(x[mt.ellipsis], 5)
  raises(function() return x[long(1)] end, '0%-d')
  is(x:gather(1, long(1)), 5)
  is(x:index_select(1, long{1}), 5)
  is(x:scatter(1, long{1}, 2), 2)
  is(x:index_fill(1, long{1}, 1), 1)
  is(x:take(long{{1}}), {{5}})
  is(x:masked_select(mt.tensor(true)), {5})
  is(x:masked_fill(mt.tensor(true), 2), 2)
  x:scatter_(1, long{1}, 7)
  is(x, 7)
end)

-- Strings -----------------------------------------------------------------------------------------

test('a string means what the table means', function()
  local x = cube()
  for text, key in pairs{
    ['1:3, :, -1'] = {{1, 3}, {}, -1}, ['1:2'] = {{1, 2}}, [':'] = {}, ['2:'] = {{2, -1}},
    [':2'] = {{1, 2}}, ['::2'] = {{1, -1, 2}}, ['1:3:2,2'] = {{1, 3, 2}, 2},
    ['...'] = {mt.ellipsis}, ['..., 2'] = {mt.ellipsis, 2}, ['2, ...'] = {2, mt.ellipsis},
    ['2,3,4'] = {2, 3, 4}, ['None, 2, ...'] = {mt.newaxis, 2, mt.ellipsis},
    [':, newaxis'] = {{}, mt.newaxis}, ['-2:-1, 2:2'] = {{-2, -1}, {2, 2}}, ['3:2'] = {{3, 2}},
    ['4:'] = {{4, 3}}, [' 1 : 2 , : '] = {{1, 2}, {}}, ['2,'] = {2}, [':, :, 1:5:9'] =
    {{}, {}, {1, 5, 9}},
  } do
    local a, b = x[text], x[key]
    eq({unpack(a.shape)}, {unpack(b.shape)})
    eq({unpack(a:stride())}, {unpack(b:stride())})
    eq(a:storage_offset(), b:storage_offset())
    eq(flat(a), flat(b))
    local y, z = cube(), cube()
    y[text], z[key] = 0, 0
    eq(flat(y), flat(z))
  end
  shape(mt.zeros(0, 3)[':, 1:2'], 0, 2)
  shape(mt.zeros(0, 3)['1:'], 0, 3)
end)

test('invalid index strings are errors that show the position', function()
  local x = cube()
  raises(function() return x['1:a'] end, "index: '1:a' cannot be read at character 3, 'a'")
  raises(function() return x[':, x'] end, "cannot be read at character 4, 'x'")
  raises(function() return x['1:2:3:4'] end, "cannot be read at character 6, ':4'")
  raises(function() return x['1,,2'] end, "cannot be read at character 3, ',2'")
  raises(function() return x[','] end, "cannot be read at character 1")
  raises(function() return x['1.5:2'] end, "cannot be read at character 2, '.5:2'")
  raises(function() return x['1:--2'] end, "cannot be read at character 3")
  raises(function() return x['1 2:'] end, "cannot be read at character 3, '2:'")
  raises(function() return x['12345678901234567890:'] end, 'cannot be read at character 1')
  for _, key in ipairs{'0:2', '2:0', {{0, 2}}, {{0, 3, 2}}} do
    raises(function() return x[key] end, 'does not lie inside 1%.%.3.*; 0 is not a position: they count from 1')
  end
  raises(function() x['0:2'] = 1 end, 'assignment: the range 0%.%.2 .*count from 1')
  raises(function() return x['1:4'] end, '%(dimension 1%)$')
  raises(function() return x['1:4'] end, 'range 1%.%.4 does not lie inside 1%.%.3 %(dimension 1%)')
  raises(function() return x['1:3:0'] end, 'step is 0')
  raises(function() return x[':, :, :, :'] end, '4 positions for a tensor of 3')
  raises(function() return x['..., ...'] end, 'only one')
  raises(function() return x[':, 6, 1'] end, 'position 6 is outside 1%.%.4 %(dimension 2%)')
  raises(function() x['1:a'] = 1 end, "cannot be read at character 3")
  raises(function() return x.shap end, "no field or method 'shap' %(did you mean 'shape'%?%)")
  raises(function() x.foo = 1 end, "the field 'foo' of a tensor cannot be set")
end)

test('views where PyTorch gives views', function()
  local x = cube()
  for _, case in ipairs{
    {'1:1:2', {40, 5, 1}, 0}, {':, None', {20, 20, 5, 1}, 0}, {'..., None', {20, 5, 1, 1}, 0},
    {':, 3', {20, 1}, 10}, {'2:, ::2, 2', {20, 10}, 21}, {'4:3', {20, 5, 1}, 60},
  } do
    local y = x[case[1]]
    eq({unpack(y:stride())}, case[2])
    eq(y:storage_offset(), case[3])
  end
  x['2:, ::2, 2'] = 0
  eq(x:at(2, 1, 2), 0)
  eq(x:at(3, 3, 2), 0)
  eq(x:at(3, 4, 2), 57)
  local row = x[long(3)]
  row[1][1] = -5
  eq(x:at(3, 1, 1), -5)
  x[{2, 1}][{{2, 3}}]:fill_(9)
  is(x[{2, 1, {1, 4}}], {21, 9, 9, 24})
  local copy = x[long{1}]
  copy:fill_(0)
  eq(x:at(1, 1, 1), 1)
  local s = x:slice(2, 2, 4, 2)
  eq({unpack(s:stride())}, {20, 10, 1})
  eq(s:storage_offset(), 5)
  s:fill_(1)
  eq(x:at(3, 4, 5), 1)
  shape(x:slice(1, 2), 2, 4, 5)
  raises(function() x:slice(1, 2, 4) end, 'slice: the range 2%.%.4 does not lie inside 1%.%.3')
end)

-- Functions ---------------------------------------------------------------------------------------

local function square3() return mt.tensor{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}} end
local at = long{{1, 3, 1}, {2, 2, 3}}
local source = mt.tensor{{10, 20, 30}, {40, 50, 60}}

test('gather, take, take_along_dim, index_select', function()
  local s = square3()
  is(s:gather(1, at), {{1, 8, 3}, {4, 5, 9}})
  is(s:gather(2, at), {{1, 3, 1}, {5, 5, 6}})
  is(s:gather(2, long{{-1}, {-3}}), {{3}, {4}})
  is(s:take(long{{1, 9}, {5, 3}}), {{1, 9}, {5, 3}})
  is(s:t():take(long{2, -1}), {4, 9})
  is(s:take_along_dim(long{{9, 1, 5}}), {9, 1, 5})
  is(s:take_along_dim(long{{3}, {1}, {2}}, 2), {{3}, {4}, {8}})
  is(s:take_along_dim(long{{3, 1, 1}}, {dim = 1}), {{7, 2, 3}})
  is(s:index_select(1, long(2)), {{4, 5, 6}})
  raises(function() s:take(long{10}) end, 'take: position 10 is outside 1%.%.9')
  raises(function() s:take_along_dim(long{1}, 1) end, 'same number of dimensions')
  raises(function() s:gather(1, long{{4}}) end, 'gather: position 4 is outside 1%.%.3')
  raises(function() s:gather(2, long{{1}, {0}}) end, 'position 0 .*0 is not a position')
end)

test('scatter in all its forms', function()
  local s = square3()
  is(s:scatter(1, at, source), {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}})
  is(s:scatter(2, at, source), {{30, 2, 20}, {4, 50, 60}, {7, 8, 9}})
  is(s:scatter(1, at, 7), {{7, 2, 7}, {7, 7, 6}, {7, 7, 7}})
  is(s:scatter(1, at, source, 'add'), {{11, 2, 33}, {44, 55, 6}, {7, 28, 69}})
  is(s:scatter(1, at, source, {reduce = 'multiply'}), {{10, 2, 90}, {160, 250, 6}, {7, 160, 540}})
  is(s:scatter_add(1, at, source), {{11, 2, 33}, {44, 55, 6}, {7, 28, 69}})
  is(s:scatter_add(2, at, source), {{41, 2, 23}, {4, 95, 66}, {7, 8, 9}})
  is(s, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})
  local y = square3()
  assert(y:scatter_(1, at, source) == y)
  is(y, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}})
  y = square3():t()
  is(y:scatter_add_(2, at, source), y:tolist())
  is(y, {{41, 4, 27}, {2, 95, 68}, {3, 6, 9}})
  is(square3():scatter(2, long{{1}}, source), {{10, 2, 3}, {4, 5, 6}, {7, 8, 9}})
  local before = y:tolist()
  raises(function() y:scatter_(1, long{{1}, {4}}, 5) end, 'scatter_: position 4')
  raises(function() y:scatter_add_(1, at, source:double()) end, 'scatter_add_: the source is float64')
  raises(function() y:scatter_(1, at, mt.ones(1, 3)) end, 'larger than the source')
  raises(function() y:scatter_(1, at, mt.ones(3)) end, 'scatter_: the source is %(3%)')
  raises(function() y:scatter(1, at, source, 'mean') end, "reduce is 'mean'; use 'add'")
  raises(function() y:scatter(3, at, source) end, 'dimension 3 is out of range')
  is(y, before)
end)

local reduced = {
  {'sum', true, {{11, 2, 33}, {44, 55, 6}, {7, 28, 69}}, {{-9, 2, -27}, {-36, -45, 6}, {7, -12,
    -51}}},
  {'sum', false, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{-10, 2, -30}, {-40, -50, 6}, {7,
    -20, -60}}},
  {'prod', true, {{10, 2, 90}, {160, 250, 6}, {7, 160, 540}},
    {{-10, 2, -90}, {-160, -250, 6}, {7, -160, -540}}},
  {'prod', false, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{-10, 2, -30}, {-40, -50, 6}, {7,
    -20, -60}}},
  {'mean', true, {{5.5, 2, 16.5}, {22, 27.5, 6}, {7, 14, 34.5}},
    {{-5, 2, -14}, {-18, -23, 6}, {7, -6, -26}}},
  {'mean', false, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{-10, 2, -30}, {-40, -50, 6}, {7,
    -20, -60}}},
  {'amax', true, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}},
  {'amax', false, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{-10, 2, -30}, {-40, -50, 6}, {7,
    -20, -60}}},
  {'amin', true, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, {{-10, 2, -30}, {-40, -50, 6}, {7, -20, -60}}},
  {'amin', false, {{10, 2, 30}, {40, 50, 6}, {7, 20, 60}}, {{-10, 2, -30}, {-40, -50, 6}, {7,
    -20, -60}}},
}

test('scatter_reduce', function()
  for _, r in ipairs(reduced) do
    is(square3():scatter_reduce(1, at, source, r[1], r[2]), r[3])
    is(square3():long():scatter_reduce(1, at, (-source):long(), r[1], {include_self = r[2]}), r[4])
    local y = square3()
    assert(y:scatter_reduce_(1, at, source, r[1], r[2]) == y)
    is(y, r[3])
  end
  is(mt.tensor{1, nan, 3}:scatter_reduce(1, long{1, 2, 3, 3}, mt.tensor{nan, 5, 2, 4}, 'amax'),
    {nan, nan, 4})
  raises(function() square3():scatter_reduce(1, at, source, 'max') end, "unknown reduction 'max'")
end)

test('gradients of scatter_reduce where values tie and are zero', function()
  local weights = mt.range(1, 9):view(3, 3):double()
  for _, r in ipairs{
    {'prod', true, {{1, 2, 0}, {0, 25, 6}, {7, 0, 54}}, {{1, 64, 9}, {16, 25, 81}}},
    {'prod', false, {{0, 2, 0}, {0, 0, 6}, {7, 0, 0}}, {{1, 8, 3}, {4, 5, 9}}},
    {'amax', true, {{.5, 2, 3}, {4, 2.5, 6}, {7, 8, 9}}, {{.5, 0, 0}, {0, 2.5, 0}}},
    -- PyTorch counts x as a tie here, although it is not included.
    {'amax', false, {{0, 2, 0}, {0, 0, 6}, {7, 0, 0}}, {{1, 8, 3}, {4, 5, 9}}},
    {'amin', true, {{.5, 2, 0}, {0, 2.5, 6}, {7, 0, 0}}, {{.5, 8, 3}, {4, 2.5, 9}}},
    {'mean', true, {{.5, 2, 1.5}, {2, 2.5, 6}, {7, 4, 4.5}}, {{.5, 4, 1.5}, {2, 2.5, 4.5}}},
    {'mean', false, {{0, 2, 0}, {0, 0, 6}, {7, 0, 0}}, {{1, 8, 3}, {4, 5, 9}}},
    {'sum', false, {{0, 2, 0}, {0, 0, 6}, {7, 0, 0}}, {{1, 8, 3}, {4, 5, 9}}},
  } do
    local a = square3():double():requires_grad_()
    local b = mt.tensor({{1, 0, 0}, {0, 5, 6}}, {dtype = 'float64', requires_grad = true})
    local y = a:scatter_reduce(1, at, b, r[1], r[2]);
    (y * weights):sum():backward()
    near(a.grad:tolist(), r[3])
    near(b.grad:tolist(), r[4])
  end
end)

test('a product of several zeros has no second derivative, which is an error', function()
  local function slope(values, create)
    local a, b = mt.tensor({2, 3}, 'float64'):requires_grad_(), mt.tensor(values, 'float64'):requires_grad_()
    local y = a:scatter_reduce(1, long{1, 1, 1}, b, 'prod')
    return mt.grad(y:sum(), b, {create_graph = create}), b
  end
  is(slope({0, 0, 5}), {0, 0, 0})
  raises(function() slope({0, 0, 5}, true) end, 'scatter_reduce: two zeros of the source go to one position')
  local g, b = slope({0, 4, 5}, true)
  is(g, {40, 0, 0})
  is(mt.grad(g:sum(), b), {18, 10, 8})
end)

test('index_add, index_copy, index_fill, index_put', function()
  local s = square3()
  is(s:index_add(1, long{3, 1, 3}, s, 2), {{9, 12, 15}, {4, 5, 6}, {23, 28, 33}})
  is(s:index_add(2, long{1, 1}, s[{{}, {1, 2}}]), {{4, 2, 3}, {13, 5, 6}, {22, 8, 9}})
  is(s:index_copy(1, long{3, 1}, source), {{40, 50, 60}, {4, 5, 6}, {10, 20, 30}})
  is(s:index_fill(2, long{1, 3}, -1), {{-1, 2, -1}, {-1, 5, -1}, {-1, 8, -1}})
  is(s:index_put({long{1, 1, 3}, long{2, 2, 1}}, mt.tensor{10, 20, 30}, true),
    {{1, 32, 3}, {4, 5, 6}, {37, 8, 9}})
  is(s:index_put({long{3, 1}}, mt.tensor{5}), {{5, 5, 5}, {4, 5, 6}, {5, 5, 5}})
  is(s:index_put({s:gt(4)}, 1, {accumulate = true}), {{1, 2, 3}, {4, 6, 7}, {8, 9, 10}})
  is(s, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})
  s:index_add_(1, long{3}, mt.ones(1, 3)):index_fill_(2, long{-1}, 0):index_put_({long{1}}, 2)
  is(s, {{2, 2, 2}, {4, 5, 0}, {8, 9, 0}})
  is(s:index_copy_(2, long{1}, mt.ones(3, 1)), {{1, 2, 2}, {1, 5, 0}, {1, 9, 0}})
  raises(function() s:index_add(1, long{1, 2}, mt.ones(3, 3)) end, 'index_add: the source is %(3 x 3%)')
  raises(function() s:index_fill(1, long{1}, mt.ones(2)) end, 'index_fill: the value is %(2%)')
  is(mt.zeros(2):index_fill(1, long{2}, mt.tensor(3, 'int64')), {0, 3})
  raises(function() s:long():index_fill(1, long{1}, mt.tensor(1.5)) end,
    'index_fill: the value is float32, which this int64 tensor cannot hold')
  raises(function() s:index_fill(1, long{{1}}, 1) end, 'must have one dimension')
  raises(function() s:long():index_fill(1, long{1}, 1.5) end, '1.5 does not fit into int64')
  raises(function() s:index_put({long{1}}, long{1}) end, 'index_put: the values are int64')
  raises(function() s:index_copy_(1, long{9}, mt.ones(1, 3)) end, 'index_copy_: position 9')
end)

test('masks', function()
  local s = square3()
  is(s:masked_select(s:gt(4)), {5, 6, 7, 8, 9})
  is(s:masked_select(mt.tensor{true, false, true}), {1, 3, 4, 6, 7, 9})
  is(s[s:gt(4)], {5, 6, 7, 8, 9})
  is(s:masked_fill(s:gt(4), 0), {{1, 2, 3}, {4, 0, 0}, {0, 0, 0}})
  is(s:masked_fill(mt.tensor{true, false, true}, 0), {{0, 2, 0}, {0, 5, 0}, {0, 8, 0}})
  is(s:masked_scatter(s:gt(4), source), {{1, 2, 3}, {4, 10, 20}, {30, 40, 50}})
  local y = square3():t()
  y:masked_fill_(y:gt(6), mt.tensor(-1)):masked_scatter_(y:lt(3), source)
  is(y, {{10, 4, 20}, {30, 5, 40}, {3, 6, 50}})
  eq(s:long():masked_fill(s:gt(4), 2).dtype, 'int64')
  raises(function() s:long():masked_fill(s:gt(4), 2.5) end, 'masked_fill: 2.5 does not fit')
  raises(function() s:long():masked_fill(s:gt(4), mt.tensor(2.5)) end, 'cannot hold')
  raises(function() s:masked_fill(s, 2) end, 'masked_fill: the mask must be a bool tensor.*float32')
  raises(function() s:masked_fill_(mt.ones(2, 3, 3):gt(0), 2) end, 'masked_fill_: the mask %(2 x 3 x 3%)')
  raises(function() s:masked_scatter(s:gt(0), source) end, 'sets 9 elements, the source has 6')
  raises(function() s:masked_select(mt.ones(2):gt(0)) end, 'do not broadcast')
  mt.manual_seed(5)
  local big = mt.rand(70001)
  local mask, list, found = big:gt(0.5), big:tolist(), {}
  for _, v in ipairs(list) do if v > 0.5 then found[#found + 1] = v end end
  is(big[mask], found)
  is(big:masked_scatter(mask, big[mask]), list)
end)

test('nonzero, argwhere, where', function()
  local x = mt.tensor{{0, 1, -0}, {nan, 0, 2}}
  is(x:nonzero(), {{1, 2}, {2, 1}, {2, 3}})
  eq({unpack(x:nonzero():stride())}, {1, 3})
  is(mt.argwhere(x), {{1, 2}, {2, 1}, {2, 3}})
  for _, list in ipairs{x:nonzero(true), x:nonzero{as_tuple = true}, mt.where(x:ne(0))} do
    eq(#list, 2)
    eq(x[list]:tolist(), x[x:ne(0)]:tolist()) -- a list, as long as x has dimensions, is an index
    is(list[1], {1, 2, 2})
    is(list[2], {2, 1, 3})
  end
  shape(mt.tensor(3):nonzero(), 1, 0)
  shape(mt.tensor(0):nonzero(), 0, 0)
  is(mt.tensor(3):nonzero(true)[1], {1})
  shape(mt.zeros(0, 3):nonzero(), 0, 2)
  eq(x:nonzero().dtype, 'int64')
  is(x[x:nonzero(true)], {1, nan, 2})
  local c = mt.tensor{true, false}
  is(mt.where(c, 1, 0), {1, 0})
  is(mt.tensor{5, 6}:where(c, 0), {5, 0})
  is(c:where(mt.tensor{5, 6}, 0), {5, 0})
  raises(function() mt.where(c, 1) end, "where: argument 3 'y' must be a tensor or a number")
  local big = mt.range(1, 200000):remainder(3):eq(0):view(2, 50, 2000)
  local rows, n = big:nonzero(), 0
  for i = 3, 200000, 3 do
    n = n + 1
    if n % 997 == 1 then
      eq({rows:at(n, 1), rows:at(n, 2), rows:at(n, 3)},
        {math.floor((i - 1) / 100000) + 1, math.floor((i - 1) / 2000) % 50 + 1, (i - 1) % 2000 + 1})
    end
  end
  eq(#rows, n)
end)

test('searchsorted, bucketize, isin', function()
  local s, v = mt.tensor{1, 3, 3, 5, 7}, mt.tensor{{0, 1, 3}, {4, 7, 8}}
  is(mt.searchsorted(s, v), {{1, 1, 2}, {4, 5, 6}})
  is(mt.searchsorted(s, v, true), {{1, 2, 4}, {4, 6, 6}})
  is(mt.searchsorted(s, v, {side = 'right'}), {{1, 2, 4}, {4, 6, 6}})
  is(mt.searchsorted(s, 3), 2)
  local odd = mt.tensor{nan, 2, inf}
  is(mt.searchsorted(mt.tensor{1, 2, nan}, odd), {4, 2, 4})
  is(mt.searchsorted(mt.tensor{1, 2, nan}, odd, {right = true}), {4, 4, 4})
  is(mt.searchsorted(mt.tensor{{1, 3, 5}, {2, 4, 6}}, mt.tensor{{3, 6}, {3, 6}}), {{2, 4}, {2, 3}})
  is(mt.searchsorted(mt.zeros(0), v), {{1, 1, 1}, {1, 1, 1}})
  is(mt.searchsorted(mt.tensor{3, 1, 2}, mt.tensor{2, 2.5}, {sorter = long{2, 3, 1}}), {2, 3})
  is(v:bucketize(s), {{1, 1, 2}, {4, 5, 6}})
  is(v:bucketize(s, {right = true}), {{1, 2, 4}, {4, 6, 6}})
  raises(function() mt.searchsorted(s, v:long()) end, 'the sequence is float32, the values int64')
  raises(function() mt.searchsorted(mt.tensor(1), v) end, '0%-d')
  raises(function() mt.searchsorted(mt.ones(3, 2), v) end, 'last dimension only')
  raises(function() mt.searchsorted(s, v, {side = 'top'}) end, "'left' or 'right'")
  raises(function() v:bucketize(mt.ones(2, 2)) end, 'bucketize: the boundaries')
  local e = long{{1, 2}, {3, 4}}
  is(mt.isin(e, long{2, 4, 9}), {{false, true}, {false, true}})
  is(e:isin(long{2, 4}, {invert = true}), {{true, false}, {true, false}})
  is(mt.isin(mt.tensor{1, nan}, mt.tensor{nan, 1, -nan, 2}), {true, false})
  is(mt.isin(e, 2), {{false, true}, {false, false}})
  is(mt.isin(e, names.none), {{false, false}, {false, false}})
end)

test('gradients of the functions, twice, on several layouts', function()
  local f64 = {dtype = 'float64'}
  mt.manual_seed(7)
  local base = mt.randn({3, 3}, f64)
  local mask = square3():gt(4)
  local functions = {
    function(x) return x:gather(2, at) end, function(x) return x:take(long{{1, 9}, {1, 3}}) end,
    function(x) return x:take_along_dim(long{{3, 1, 1}}, 1) end,
    function(x) return x:index_select(2, long{3, 3, 1}) end,
    function(x) return x:masked_select(mask) end, function(x) return x:masked_fill(mask, 2) end,
    function(x) return x:masked_fill(mask, x[{1, 1}]) end,
    function(x) return x:index_fill(1, long{2}, x[{1, 1}]) end,
    function(x) return x[x:detach():gt(0)] end,
  }
  local pairs_of = {
    function(x, y) return x:scatter(1, at, y) end, function(x, y) return x:scatter_add(2, at, y) end,
    function(x, y) return (x * 1):scatter_(2, at, y) end,
    function(x, y) return (x * 1):scatter_add_(1, at, y) end,
    function(x, y) return x:index_add(1, long{2, 2}, y, 3) end,
    function(x, y) return x:index_copy(1, long{2, 2}, y) end,
    function(x, y) return x:index_put({long{1, 1}}, y, true) end,
    function(x, y) return x:index_put({long{1, 1}}, y) end,
    function(x, y) return x:masked_scatter(mask, y) end,
    function(x, y) return (x * 1):masked_scatter_(mask, y) end,
  }
  for _, how in ipairs{'sum', 'prod', 'mean', 'amax', 'amin'} do
    for _, self in ipairs{true, false} do
      pairs_of[#pairs_of + 1] = function(x, y) return x:scatter_reduce(1, at, y, how, self) end
    end
  end
  for _, view in ipairs{
    function(x) return x end, function(x) return x:t() end,
    function(x) return mt.cat({x, x}, 2)[{{}, {1, 6, 2}}] end,
    function(x) return x[{{}, {2}}]:expand(3, 3) end,
  } do
    for _, f in ipairs(functions) do
      local x = base:clone():requires_grad_()
      mt.gradcheck(function(a) return f(view(a)):square() end, {x})
      mt.gradgradcheck(function(a) return f(view(a)):exp() end, {x})
    end
    for _, f in ipairs(pairs_of) do
      local x = base:clone():requires_grad_()
      local y = (mt.randn({3, 3}, f64) + 0.1):requires_grad_()
      local function g(a, b) return f(view(a), view(b)[{{1, 2}}]):square() end
      mt.gradcheck(g, {x, y})
      mt.gradgradcheck(g, {x, y})
    end
  end
end)

test('one element, read and written without more than it needs', function()
  local memory = require('mtorch.core').memory
  local function made(fn) -- storages
    local before = select(5, memory())
    fn()
    return select(5, memory()) - before
  end
  for _, dtype in ipairs{'float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'int16', 'float16'} do
    local x = mt.zeros({3, 4}, {dtype = dtype, device = 'cpu'})
    local column, seven = x:t(), mt.tensor(7, {dtype = dtype, device = 'cpu'})
    eq(made(function()
      x[{2, 3}] = 5
      x[{2, 3}] = x[{2, 3}]
      column[{-1, 1}] = seven
    end), 0)
    eq(x:tolist(), {{0, 0, 0, 7}, {0, 0, 5, 0}, {0, 0, 0, 0}})
    eq({x[{2, 3}]:dim(), x[{2, 3}].dtype, x[{2, 3}]:storage_offset()}, {0, dtype, 6})
    x[{2, 3}]:fill_(2) -- a view
    eq(x:at(2, 3), 2)
  end
  local x = mt.zeros(3, 4)
  x[{1, 1}] = mt.tensor(2, 'int64') -- of another type
  x[{1, 2}] = mt.tensor{3}
  eq({x:at(1, 1), x:at(1, 2)}, {2, 3})
  raises(function() x[{4, 1}] = 1 end, 'position 4 is outside 1..3')
  raises(function() x[{1, 0}] = 1 end, '0 is not a position')
  raises(function() x[{1, 2.5}] = 1 end, 'must be an integer')
  raises(function() return x[{1, 2, k = 1}] end, "the key the string 'k'")
  raises(function() return x[{1, nil, 3}] end, 'nil at %[2%]')
  raises(function() x:long()[{1, 1}] = 2.5 end, 'assignment: .*2.5')
  raises(function() mt.zeros(1):expand(3)[{1}] = 2 end, 'expanded in dimension 1')
  local w = mt.ones(2, 2):requires_grad_()
  raises(function() w[{1, 1}] = 2 end, 'leaf')
  local y = w * 1
  local v = y[{1, 1}]
  y[{1, 1}] = v * 3 -- recorded
  y:sum():backward()
  eq(w.grad:tolist(), {{3, 1}, {1, 1}})
  local saved = mt.ones(2)
  local loss = (w[1] * saved):sum()
  saved[{1}] = 4
  raises(function() loss:backward() end, 'changed in place')
end)

test('one word of index text', function()
  local x = mt.range(1, 6):view(2, 3)
  eq({x['2']:tolist(), x['-2']:tolist(), x['None'].shape, x['newaxis'].shape, x[' 2,']:tolist()},
    {{4, 5, 6}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {4, 5, 6}})
  x['-1'] = 0
  eq(x:tolist(), {{1, 2, 3}, {0, 0, 0}})
  raises(function() return x['0'] end, '0 is not a position')
  raises(function() return x['2x'] end, "'2x' cannot be read at character 2")
  raises(function() return x['none'] end, "no field or method 'none'")
end)

test('the bits do not depend on the number of threads', function()
  mt.manual_seed(9)
  local x, src = mt.randn(400, 300), mt.randn(400, 300)
  local rows, cells = mt.randint(1, 400, {400}), mt.randint(1, 300, {400, 300})
  t.on_threads(function()
    return x:gather(2, cells), x:gather(1, cells), x:scatter_add(2, cells, src),
      x:scatter_add(1, cells, src), x:index_add(1, rows, src), x:scatter(1, cells, src),
      x[{rows, cells[1][1]:view(1)}], x:masked_select(x:gt(0)), x:masked_scatter(x:gt(0), src),
      x:gt(0):nonzero(), x:index_select(1, rows), x:scatter_reduce(2, cells, src, 'prod'),
      mt.searchsorted(mt.range(-3, 3):float(), x), x[{{}, rows:remainder(300) + 1}],
      x:view(-1):scatter_add(1, cells:view(-1), src:view(-1))
  end)
end)

t.finish()
