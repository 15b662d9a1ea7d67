-- test_watch_graph.lua -- tests of mt.plot.graph: nodes, shapes, names, DOT, text
local mt = require 'mtorch'
local t = require 'testing'
local graph = require 'mtorch.extras.plot.graph'
local nn, count = mt.nn, require('figures').count
local path = os.tmpname()

local function read(file)
  local text = t.read_file(file)
  os.remove(file)
  return text
end

local function network()
  local net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 1))
  return net, (net(mt.ones(7, 2)):tanh() ^ 2):sum()
end

t.test('operations, parameters, shapes', function()
  local net, loss = network()
  local found = {}
  for i, e in ipairs(graph.collect('x', loss, net)) do
    found[i] = e.name .. ' ' .. tostring(e.shape) .. (e.leaf and ' leaf' or '') .. ' < ' .. table.concat(e.inputs, ' ')
  end
  t.eq(found, {'sum () < 2', 'pow (7, 1) < 3', 'tanh (7, 1) < 4', 'linear (7, 1) < 5 6 7', 'relu (7, 5) < 8',
    '2.weight (1, 5) leaf < ', '2.bias (1) leaf < ', 'linear (7, 5) < 9 10', '0.weight (5, 2) leaf < ',
    '0.bias (5) leaf < '})
end)

t.test('shapes are shown only if they are known', function()
  local w = mt.ones(3, 4):requires_grad_()
  local entries = graph.collect('x', (w:sum(1):exp() + w:mean(1)):sum(), {w})
  local shapes = {}
  for _, e in ipairs(entries) do shapes[e.name] = tostring(e.shape) end
  t.eq(shapes, {sum = '(4)', add = '(4)', exp = '(4)', div = '(4)', ['1'] = '(3, 4)'})
end)

t.test('a single leaf; a function of the user; in-place changes', function()
  local w = mt.ones(2):requires_grad_()
  t.eq(#graph.collect('x', w), 1)
  local twice = mt.Function{name = 'twice', forward = function(_, x) return x * 2 end,
                            backward = function(_, g) return g * 2 end}
  local y = twice(w)
  local entries = graph.collect('x', y)
  t.eq({#entries, entries[1].name, entries[2].name, entries[3].leaf == w}, {3, 'result', 'twice', true})
  y:mul_(3)
  t.eq(#graph.collect('x', y) > 2, true)
end)

t.test('DOT', function()
  local net, loss = network()
  t.eq(mt.plot.graph{loss, path = path .. '.dot', params = {['a"b\n&'] = net[1].weight}}, path .. '.dot')
  local dot = read(path .. '.dot')
  t.eq({count(dot, '%->'), count(dot, 'a\\"b &amp;\\n5 x 2"'), count(dot, '#dcfce7'), count(dot, '#dbeafe')},
    {9, 1, 1, 4})
end)

t.test('without Graphviz: DOT text in the place of SVG and PNG, text in a report', function()
  for _, ending in ipairs{'svg', 'png'} do
    local said = t.run('PATH=/nowhere', ([[
      local w = mt.ones(2):requires_grad_()
      print(mt.plot.graph((w * w):sum(), {path = '%s.%s', params = {weight = w}}))
      mt.report{path = '%s.html', graph = {(w * w):sum(), params = {weight = w}}}]]):format(path, ending, path))
    t.eq(said, ("plot.graph: '%s.dot' has DOT text in the place of '%s.%s': Graphviz' program dot was not found; on " ..
      'Debian: apt-get install graphviz\n%s.dot\n'):format(path, path, ending, path))
    t.eq({count(read(path .. '.dot'), 'weight\\n2'), (io.open(path .. '.' .. ending))}, {1})
    local page = read(path .. '.html')
    t.eq({count(page, '<svg'), count(page, 'mul %(2%)  ← weight %(2%)')}, {0, 1})
  end
end)

t.test('errors', function()
  local net, loss = network()
  t.raises(function() mt.plot.graph(mt.ones(2)) end, 'test_watch_graph.lua:%d+: plot.graph: the tensor has no graph')
  t.raises(function() mt.plot.graph(3) end, 'graph: loss must be a tensor, got 3')
  t.raises(function() mt.plot.graph(loss, {path = 'a.pdf'}) end, "cannot write 'a.pdf': use a path ending in .svg")
  t.raises(function() mt.plot.graph(loss, {params = {w = 1}}) end, 'params.w is 1, expected a tensor')
  t.raises(function() mt.plot.graph(loss, {params = 'w'}) end, 'graph: params must be a table')
  local long = net[1].weight:sum()
  for _ = 1, 1200 do long = long:sin() end
  t.raises(function() mt.plot.graph(long) end, 'more than 1000 operations and parameters')
  loss:backward()
  t.raises(function() mt.plot.graph(loss) end, 'the backward pass freed the graph')
end)

os.remove(path)
t.finish()
