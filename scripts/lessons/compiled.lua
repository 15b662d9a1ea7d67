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

local options = mt.args{
  {'largest', 1048576, 'elements of the largest tensor', type = 'int', min = 1},
  {'runs', 5, 'runs of which the median counts', type = 'int', min = 1},
  {'plot', help = 'chart of the table (.svg, .png)', endings = {'svg', 'png'}},
}
mt.manual_seed(options.seed)

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

local function milliseconds(fn) return mt.time(fn, true).wall * 1e3 end
local one, thousand = mt.randn(1), mt.randn(1024)
local fresh = mt.map(function(x) return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x ^ 3))) end)
local stages = {
  {'first call, 1 element: trace, program, interpreter', milliseconds(function() fresh(one) end)},
  {'second call, 1 element', milliseconds(function() fresh(one) end)},
  {'first call, 1024 elements: machine code', milliseconds(function() fresh(thousand) end)},
  {'second call, 1024 elements', milliseconds(function() fresh(thousand) end)},
}
local leaf = mt.randn(1024):requires_grad_()
local out = fresh(leaf)
stages[5] = {'first backward: derivative, its machine code', milliseconds(function() out:sum():backward() end)}
out = fresh(leaf)
stages[6] = {'second backward', milliseconds(function() out:sum():backward() end)}
print '| where the time goes | ms |\n|---|---|'
for _, s in ipairs(stages) do print(('| %s | %.3f |'):format(s[1], s[2])) end

-- ---- warm calls by size --------------------------------------------------------------------------------

local function microseconds(fn)
  fn()
  local n = math.max(1, math.min(2000, math.floor(5 / math.max(milliseconds(fn), 1e-4))))
  local _, _, median = mt.timeit(fn, {n = n, runs = options.runs, quiet = true})
  return median * 1e6
end

local sizes = {}
for _, n in ipairs{4, 1024, 16384, 1048576} do
  if n <= options.largest then sizes[#sizes + 1] = n end
end
local titles = {}
for i, way in ipairs(ways) do titles[i] = way[1] .. ', us' end
print(('\n| elements | %s | map to operations |'):format(table.concat(titles, ' | ')))
print('|---|' .. ('---|'):rep(#ways + 1))
local curves = {}
for i, way in ipairs(ways) do curves[i] = {x = {}, y = {}, label = way[1]} end
for _, n in ipairs(sizes) do
  local x, cells, times, expected = mt.randn(n), {}, {}, nil
  for i, way in ipairs(ways) do
    if n > (way[3] or math.huge) then
      cells[i] = '-'
    else
      local y = way[2](x)
      expected = expected or y
      if not mt.allclose(y, expected, {rtol = 1e-4, atol = 1e-6}) then error(way[1] .. ' is wrong', 0) end
      times[i] = microseconds(function() way[2](x) end)
      cells[i] = ('%.2f'):format(times[i])
      table.insert(curves[i].x, n)
      table.insert(curves[i].y, times[i])
    end
  end
  print(('| %d | %s | %.2f |'):format(n, table.concat(cells, ' | '), times[4] / times[3]))
end

curves.title, curves.xlabel, curves.ylabel, curves.logx, curves.logy = 'gelu by hand', 'elements', 'us', true, true
if options.plot then
  curves.path = options.plot
  mt.plot.line(curves)
  print('chart: ' .. options.plot)
else
  print ''
  mt.plot.line(curves)
end
print 'right: all ways give the same numbers'
