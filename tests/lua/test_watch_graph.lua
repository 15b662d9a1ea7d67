-- test_watch_graph.lua -- Tests of mt.plot.graph: nodes, shapes, names, layout, SVG, DOT, text
local mt = require 'mtorch'
local t = require 'testing'
local graph, layered = require 'mtorch.extras.plot.graph', require 'mtorch.extras.plot.layered'
local nn = mt.nn
local path = os.tmpname()

local function read(file)
  local f = assert(io.open(file, 'rb'))
  local text = f:read('*a')
  f:close()
  os.remove(file)
  return text
end

local function count(text, pattern) return select(2, text:gsub(pattern, '')) end

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

t.test('shapes are told only where they are known', function()
  local w = mt.ones(3, 4):requires_grad_()
  local entries = graph.collect('x', (w:sum(1):exp() + w:mean(1)):sum(), {w})
  local shapes = {}
  for _, e in ipairs(entries) do shapes[e.name] = tostring(e.shape) end
  t.eq(shapes, {sum = '(4)', add = '(4)', exp = '(4)', div = '(4)', ['1'] = '(3, 4)'})
end)

t.test('a leaf alone; a function of the user; what was changed in place', function()
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

t.test('SVG, DOT, text', function()
  local net, loss = network()
  t.eq(mt.plot.graph(loss, {path = path .. '.svg', params = net, title = 'a <b>'}), path .. '.svg')
  local svg = read(path .. '.svg')
  t.eq({count(svg, '<rect class="nd"'), count(svg, '<rect class="lf"'), count(svg, '<rect class="rt"')}, {5, 4, 1})
  t.eq({count(svg, '>2%.weight<'), count(svg, '>1 × 5<'), count(svg, 'a &lt;b&gt;')}, {1, 1, 2})
  t.eq(mt.plot.graph{loss, path = path .. '.dot', params = {['a"b\n'] = net[1].weight}}, path .. '.dot')
  local dot = read(path .. '.dot')
  t.eq({count(dot, '%->'), count(dot, 'a\\"b \\n5 x 2"')}, {9, 1})
end)

t.test('the layout: inputs above users, boxes of a layer apart, edges from box to box', function()
  mt.manual_seed(3)
  local nodes, edges = {}, {}
  for i = 1, 60 do nodes[i] = {width = 30 + i % 7 * 10, height = 20 + i % 3 * 10} end
  for i = 2, 60 do
    edges[#edges + 1] = {i, 1 + math.floor((i - 2) / 2)}
    if i > 9 then edges[#edges + 1] = {i, 1 + i % 8} end
  end
  local width, height = layered.lay_out(nodes, edges, 12, 20)
  for i, a in ipairs(nodes) do
    t.eq({a.x - a.width / 2 >= -1, a.x + a.width / 2 <= width + 1, a.y > 0, a.y < height}, {true, true, true, true})
    for k = i + 1, #nodes do
      local b = nodes[k]
      local apart = math.abs(a.x - b.x) >= (a.width + b.width) / 2 + 10 or
        math.abs(a.y - b.y) >= (a.height + b.height) / 2 + 10
      if not apart then error(('boxes %d and %d overlap'):format(i, k)) end
    end
  end
  for _, e in ipairs(edges) do
    local from, to, p = nodes[e[1]], nodes[e[2]], e.points
    t.eq({p[1], p[2], p[#p - 1], p[#p]}, {from.x, from.y + from.height / 2, to.x, to.y - to.height / 2})
    for i = 4, #p, 2 do t.eq(p[i] >= p[i - 2], true) end
  end
end)

t.test('a chain, and two crossing pairs are uncrossed', function()
  local nodes = {}
  for i = 1, 5 do nodes[i] = {width = 40, height = 20} end
  layered.lay_out(nodes, {{2, 1}, {3, 1}, {4, 3}, {5, 2}}, 10, 10)
  t.eq((nodes[2].x < nodes[3].x) == (nodes[5].x < nodes[4].x), true)
  layered.lay_out(nodes, {{2, 1}, {3, 2}, {4, 3}, {5, 4}}, 10, 10)
  for i = 2, 5 do t.eq({nodes[i].x, nodes[i].y < nodes[i - 1].y}, {nodes[1].x, true}) end
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
  t.raises(function() mt.plot.graph(loss) end, 'the graph was used up by a backward')
end)

os.remove(path)
t.finish()
