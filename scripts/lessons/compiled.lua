-- compiled.lua -- a function of numbers in three ways: a LuaJIT loop, operations of tensors, compiled by mt.map
--
--   mtorch scripts/lessons/compiled.lua                    a table by size, and the parts of the first call's time
--   mtorch scripts/lessons/compiled.lua --largest 1048576 --plot compiled.svg
--
-- Why Python is slow: calls, types, loops. Here the same function of numbers is called for each element by a Lua loop,
-- first through methods of tensors, then through a typed pointer, which LuaJIT compiles; then it is written as tensor
-- operations, each of which reads and writes memory; then mt.map traces it once and runs a program of all its
-- operations block by block, or as machine code.
local mt = require 'mtorch'
local lesson = require 'cuda_lesson'

local options = mt.args{
  {'largest', 1048576, 'elements of the largest tensor', type = 'int', min = 4},
  {'runs', 5, 'runs of which the median counts', type = 'int', min = 1},
  {'plot', help = 'chart of the table (.svg, .png)', endings = {'svg', 'png'}},
}

local function gelu(x) return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x ^ 3))) end

local ways = {
  {'x:at(i) in a loop', function(x)
    local y = mt.empty(x:size(1))
    for i = 1, x:size(1) do y[i] = gelu(x:at(i)) end
    return y
  end, 20000},
  {'a loop over x:data()', function(x)
    local y = mt.empty(x:size(1))
    local from, to = x:data(), y:data()
    for i = 0, x:size(1) - 1 do to[i] = gelu(from[i]) end
    return y
  end},
  {'operations on tensors', function(x) return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x ^ 3)):tanh()) end},
  {'mt.map', mt.map(gelu)},
}

-- ---- the first call ------------------------------------------------------------------------------------

local function microseconds(fn) return mt.time(fn, true).wall * 1e6 end
local one, thousand = mt.randn(1), mt.randn(1024)
local fresh = mt.map(function(x) return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x ^ 3))) end)
local stages = {
  {'first call, 1 element: trace, program, interpreter', microseconds(function() fresh(one) end)},
  {'second call, 1 element', microseconds(function() fresh(one) end)},
  {'first call, 1024 elements: machine code', microseconds(function() fresh(thousand) end)},
  {'second call, 1024 elements', microseconds(function() fresh(thousand) end)},
}
local leaf = mt.randn(1024):requires_grad_()
local out = fresh(leaf)
stages[5] = {'first backward: derivative, its machine code', microseconds(function() out:sum():backward() end)}
out = fresh(leaf)
stages[6] = {'second backward', microseconds(function() out:sum():backward() end)}
lesson.table({'where the time goes', 'us'}, stages)

-- ---- warm calls by size --------------------------------------------------------------------------------

local titles, rows = {'elements'}, {}
for i, way in ipairs(ways) do titles[i + 1] = way[1] .. ', us' end
for _, n in ipairs{4, 1024, 16384, 1048576} do
  if n <= options.largest then
    local x, row, expected = mt.randn(n), {n}, nil
    for i, way in ipairs(ways) do
      if n <= (way[3] or math.huge) then
        local y = way[2](x)
        expected = expected or y
        lesson.check(way[1], y, expected, 1e-4)
        row[i + 1] = lesson.microseconds(function() way[2](x) end, options.runs)
      end
    end
    row[6] = row[5] / row[4]
    rows[#rows + 1] = row
  end
end
print ''
lesson.table({titles[1], titles[2], titles[3], titles[4], titles[5], 'map to operations'}, rows)
print ''
lesson.graph(titles, rows, 'gelu by hand', 'elements', 'us', options.plot)
print 'right: all ways give the same numbers'
