-- test_data.lua -- mt.data: MiniTorch's point sets, checked point by point against their rules.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local data = mt.data

local rules = {
  simple = function(a) return a < 0.5 end,
  diag = function(a, b) return a + b < 0.5 end,
  split = function(a) return a < 0.2 or a > 0.8 end,
  xor = function(a, b) return (a < 0.5 and b > 0.5) or (a > 0.5 and b < 0.5) end,
  circle = function(a, b) return (a - 0.5) ^ 2 + (b - 0.5) ^ 2 > 0.1 end,
}

for name, rule in pairs(rules) do
  test(name, function()
    mt.manual_seed(1)
    local set = data[name](500)
    eq({set:size(), tostring(set.x.shape), tostring(set.y.shape)}, {500, '(500, 2)', '(500)'})
    eq({set.x.dtype, set.y.dtype, set.x.requires_grad}, {'float32', 'float32', false})
    local x, y, ones = set.x:tolist(), set.y:tolist(), 0
    for i = 1, 500 do
      local a, b = x[i][1], x[i][2]
      assert(a >= 0 and a < 1 and b >= 0 and b < 1)
      local margin = math.min(math.abs(a - 0.5), math.abs(a - 0.2), math.abs(a - 0.8),
        math.abs(b - 0.5),
                              math.abs(a + b - 0.5), math.abs((a - 0.5) ^ 2 + (b - 0.5) ^ 2 - 0.1))
      if margin > 1e-6 then eq({i, y[i]}, {i, rule(a, b) and 1 or 0}) end
      ones = ones + y[i]
    end
    assert(ones > 25 and ones < 475, ones .. ' of class 1')
    local input, target = set:get(3)
    eq(input:tolist(), x[3])
    eq(target:item(), y[3])
    mt.manual_seed(1)
    assert(mt.equal(data[name](500).x, set.x))
    assert(not mt.equal(data[name](500).x, set.x))
  end)
end

test('the inputs and targets of a point set may be assigned', function()
  local set = data.xor(6)
  set.x = mt.ones(6, 3)
  eq({set.x.shape[2], #{set:get(1)}, (set:get(2)):tolist()}, {3, 2, {1, 1, 1}})
  for x in data.DataLoader(set, {batch_size = 6}):iter() do eq(x.shape[2], 3) end
end)

test('spiral', function()
  local set = data.spiral(10)
  eq({set:size(), tostring(set.x.shape)}, {10, '(10, 2)'})
  eq(set.y:tolist(), {0, 0, 0, 0, 0, 1, 1, 1, 1, 1})
  local x = set.x:tolist()
  for i = 5, 9 do
    local angle = 10 * i / 5
    near(x[i - 4], {angle * math.cos(angle) / 20 + 0.5, angle * math.sin(angle) / 20 + 0.5}, 1e-6)
    near(x[i + 1], {-angle * math.sin(-angle) / 20 + 0.5, -angle * math.cos(-angle) / 20 + 0.5},
      1e-6)
  end
  eq(data.spiral(11):size(), 10)
end)

test('errors', function()
  for _, bad in ipairs{0, -1, 2.5, 0 / 0, 'a', '10', {{1}}} do
    for _, name in ipairs{'simple', 'split', 'spiral'} do
      raises(function() data[name](bad) end, name .. ': ')
    end
  end
  raises(function() data.simple() end, 'simple: ')
  raises(function() data.spiral(1) end, 'spiral: n must be a whole number from 2 to')
  raises(function() return data.spirl end, "did you mean 'spiral'")
  raises(function() data.simple(5):get(6) end, 'position 6')
end)

t.test('idx gives the values of a file, or an error', function()
  local path = os.tmpname()
  local function write(text)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
  end
  write('\0\0\8\2\0\0\0\2\0\0\0\3' .. '\0\1\2\253\254\255')
  local x = mt.data.idx(path)
  t.eq(x.dtype, 'uint8')
  t.eq(x:tolist(), {{0, 1, 2}, {253, 254, 255}})
  write('\0\0\8\2\0\0\0\2\0\0\0\3' .. '\0\1\2\253\254')
  t.raises(function() return (mt.data.idx(path)) end, "test_data.lua:%d+: idx: '.*' is not a valid IDX file: its shape")
  os.remove(path)
  t.raises(function() return (mt.data.idx(path)) end, 'No such file')
  t.raises(function() return (mt.data.idx(7)) end, 'a string')
end)

t.test('launch_kernel calls once for each cell, in order', function()
  local cells = {}
  mt.launch_kernel(function(i, j, list, mark) list[#list + 1] = i .. mark .. j end, 2, 3, cells, ',')
  t.eq(cells, {'1,1', '1,2', '1,3', '2,1', '2,2', '2,3'})
  mt.launch_kernel(error, 0, 5)
  t.raises(function() mt.launch_kernel(function() end, 2.5, 1) end, 'grid_x must be a whole number from 0 .* got 2.5')
  t.raises(function() mt.launch_kernel('f', 2, 1) end, 'fn must be a function')
end)

t.test('launch_kernel in 1, 2 and 3 dimensions, and by blocks and threads', function()
  local cells = {}
  mt.launch_kernel(function(i, mark) cells[#cells + 1] = mark .. i end, {3}, 'c')
  t.eq(cells, {'c1', 'c2', 'c3'})
  cells = {}
  mt.launch_kernel(function(i, j, k, list, nothing, last) list[#list + 1] = i .. j .. k .. last end, {1, 2, 3}, cells,
    nil, '!')
  t.eq(cells, {'111!', '112!', '113!', '121!', '122!', '123!'})
  -- The lecture's guarded map: 2 blocks of 4 threads for 6 elements.
  local a, out, seen = mt.range(1, 6):float(), mt.zeros(6), 0
  mt.launch_kernel(function(block_idx, thread_idx, block_dim, to, from)
    seen = seen + 1
    local x = (block_idx.x - 1) * block_dim.x + thread_idx.x
    if x <= #from then to[x] = from[x] + 10 end
  end, {{2}, {4}}, out, a)
  t.eq({seen, out:tolist()}, {8, {11, 12, 13, 14, 15, 16}})
  local names, dims = {}, nil
  mt.launch_kernel(function(block, thread, dim)
    names[#names + 1] = table.concat({block.x, block.y, block.z, thread.x, thread.y, thread.z}, ' ')
    dims = dim
  end, {{2, 1, 2}, {2, 2}})
  t.eq(#names, 16)
  t.eq({names[1], names[2], names[3], names[5], names[16]},
    {'1 1 1 1 1 1', '1 1 1 2 1 1', '1 1 1 1 2 1', '2 1 1 1 1 1', '2 1 2 2 2 1'})
  t.eq(dims, {x = 2, y = 2, z = 1})
  local nothing = function() end
  t.raises(function() mt.launch_kernel(nothing, {1, 2, 3, 4}) end, 'grid must be a whole number from 0 or {x')
  t.raises(function() mt.launch_kernel(nothing, {{1}, {2, 'x'}}) end, 'threads must be a whole number from 0')
  t.raises(function() mt.launch_kernel(nothing, {{1}, 2000}) end, '2000 threads in a block; a GPU takes at most 1024')
  t.raises(function() mt.launch_kernel(nothing, {{1}, {4, 0}}) end, '0 threads in a block; a GPU takes at least 1')
  mt.launch_kernel(error, {{2, 0}, {4, 1}})
  t.raises(function() mt.launch_kernel(nothing, {{1}, {1}, {1}}) end, 'a list of two, got 3')
  t.raises(function() mt.launch_kernel(nothing, {}) end, 'the grid must be')
end)

t.finish()
