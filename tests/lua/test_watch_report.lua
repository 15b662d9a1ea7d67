-- test_watch_report.lua -- tests of mt.Report: curves, tables, images, several runs, the page during a run
local mt = require 'mtorch'
local t = require 'testing'
local figures = require 'figures'
local nn, count, read = mt.nn, figures.count, t.read_file
local base = os.tmpname()
os.remove(base)
local path = base .. '.html'

local function network()
  mt.manual_seed(1)
  return nn.Sequential(nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 1))
end

t.test('a report that grows: curves by chart, rows, pictures, confusion, filters, graph, network, timing', function()
  local report = mt.Report({report = path, live = false, lr = 0.5, seed = 1}, {title = 'a <run>'})
  t.eq(report.on, true)
  local net = network()
  for epoch = 1, 5 do
    local loss = net(mt.ones(3, 16)):sum()
    report:graph(loss, net)
    loss:backward()
    report:scalar('loss/train', loss, epoch)
    report:scalar('loss/valid', 1 / epoch, epoch)
    report:scalars({accuracy = mt.tensor(0.25 * epoch)}, epoch)
    report:row{epoch = epoch, loss = 1 / epoch}
    report:timing('epoch', 0.001 * epoch)
    report:image('digits', mt.rand(4, 1, 6, 6), {'a', 'b', 'c', 'd'})
  end
  report:image('one', mt.rand(3, 4, 4))
  report:plot('bar', {{1, 2, 3}, title = 'bars'})
  report:confusion({{8, 2}, {1, 9}}, {'cat', 'dog'})
  report:filters(net)
  report:network(net)
  report:config{batch = 7}
  report:notes('some words')
  t.eq(report:finish(), path)
  t.eq(report:finish(), path)
  local html = read(path)
  local graphs = os.execute 'command -v dot >/dev/null' == 0 and 1 or 0 -- drawings by Graphviz
  t.eq({count(html, '<svg'), count(html, '<script'), count(html, '<image')}, {8 + graphs, 0, 11})
  t.eq({count(html, '>loss<'), count(html, '>train<'), count(html, '>valid<'), count(html, '>accuracy<')}, {3, 1, 1, 2})
  for _, text in ipairs{'a &lt;run&gt;', '>precision<', '>0.889<', '>cat<', '5 filters', '0.weight', 'ReLU', '>lr<',
    '>batch<', 'some words', '>3 ms<'} do
    assert(html:find(text, 1, true), text)
  end
  t.eq({html:find('>report<'), html:find('<body data%-state')}, {})
end)

t.test('several runs stand in the same charts; mt.report takes them too', function()
  local report = mt.Report{path = path}
  for seed = 1, 3 do
    local run = report:run('seed ' .. seed)
    for step = 1, 4 do run:scalar('loss', seed / step) end
    run:row{correct = seed}
  end
  report:finish()
  local html = read(path)
  t.eq({count(html, '<svg'), count(html, '>seed 2<'), count(html, '>run<')}, {1, 2, 1})
  mt.report{path = path, runs = {a = {loss = {3, 2}, accuracy = {1, 2}}, b = {loss = {x = {1, 5}, y = {4, 2}}}},
            confusion = mt.tensor{{1, 0}, {0, 1}}, images = mt.rand(5, 8, 8), filters = mt.rand(4, 3, 5, 5),
            network = network(), figures = {{'hist', {{1, 2, 2, 3}}}}}
  html = read(path)
  t.eq({count(html, '<svg'), count(html, '<image'), count(html, '>a</text>'), count(html, '>b</text>')}, {6, 10, 2, 1})
  t.raises(function() mt.report{path = path, runs = {a = 3}} end, 'report: runs.a is 3, expected a table')
  t.raises(function() mt.report{path = path, runs = mt.ones(2)} end, 'report: runs is a tensor')
  t.raises(function() mt.report{path = path, figures = {3}} end, 'report: figures%[1%] is 3, expected {kind, arg')
  t.raises(function() mt.report{path = path, table = {3}} end, 'report: table%[1%] is 3, expected a row')
  t.raises(function() mt.report{path = path, graph = 3} end, 'report: graph: 3 is not a tensor')
  t.raises(function() mt.report{path = path, confusion = {{1, 2, 3}, {1, 2, 3}}} end, 'expected a square matrix')
  t.raises(function() mt.report{path = path, filters = nn.Linear(2, 2)} end, 'no weights that are pictures')
end)

t.test('a long run is kept in little: extremes, gaps, the last value, the ends of the table', function()
  local report, n = mt.Report{path = path}, 100000
  for i = 1, n do
    report:scalar('loss', i == 777 and 50 or i == 60001 and -50 or i == 40000 and 0 / 0 or i / n)
    if i % 50 == 0 then report:row{step = i} end
  end
  local s = report.state.charts.loss[1]
  local low, high, gaps = math.huge, -math.huge, 0
  for i, v in ipairs(s.y) do
    if v ~= v then gaps = gaps + 1 else low, high = math.min(low, v), math.max(high, v) end
    assert(i == 1 or s.x[i] > s.x[i - 1] and s.x[i] < s.x[i - 1] + 129)
  end
  t.eq({low, high, gaps, s.x[#s.x], s.y[#s.y]}, {-50, 50, 1, n, 1})
  assert(s.x[1] < 65 and #s.y > 2000 and #s.y < 4200 and #s.y == #s.x and #report.state.args.table <= 500)
  report:finish()
  local html = read(path)
  t.eq(html:match '>(%d+ more rows)<', '1940 more rows')
  t.eq({count(html, '>1500<'), count(html, '>1550<'), count(html, '>98500<'), count(html, '>98550<')}, {1, 0, 0, 1})
end)

t.test('without a path nothing is done', function()
  local report = mt.Report{report = '', live = false}
  t.eq(report.on, false)
  report:scalar('a', 1)
  report:row{a = 1}
  report:graph(mt.ones(1))
  report:image('x', 3)
  t.eq(report:finish(), nil)
end)

t.test('errors at the user\'s line', function()
  local report = mt.Report{path = path}
  t.raises(function() report:scalar('loss', 'x') end,
    "test_watch_report.lua:%d+: scalar: 'loss' is the string 'x', expected a number or a tensor of one element")
  t.raises(function() report:scalar('loss', mt.ones(2)) end, 'expected a number or a tensor of one element')
  t.raises(function() report:image('x', mt.ones(2, 2, 2, 2, 2)) end, 'test_watch_report.lua:%d+: report: images')
  t.raises(function() report:plot('lines', {{1, 2}}) end, "plot: mt.plot has no 'lines'")
  t.raises(function() report:plot('line', {{1, 2}, titel = 1}) end, "report: line: unknown option 'titel'")
  t.raises(function() report.scalar('loss', 1) end, 'methods are called with a colon, report:scalar')
  t.raises(function() mt.Report{path = 'a.pdf'} end, "cannot write 'a.pdf': use a path ending in .html")
  t.raises(function() mt.Report{path = '/no/such/a.html'} end, "there is no folder '/no/such'")
  t.raises(function() mt.Report{pth = 'a.html'} end, "unknown option 'pth': did you mean 'path'")
end)

t.test('the file exists during the run, and a figure that fails later does not end it', function()
  local report, fails = mt.Report{path = path}, false
  report:plot('contour', {function(x) if fails then error('broken') end return x end, grid = 4})
  os.remove(path)
  fails, report.state.next = true, 0
  report:scalar('loss', 1)
  assert(read(path):find('could not be drawn: .*broken'))
  fails, report.state.next = false, 0
  report:scalar('loss', 1)
  t.eq(count(read(path), '<svg'), 2)
end)

t.test('a live page is loaded again by browsers until the run ends, and a scalar is cheap', function()
  local report, reloads = mt.Report{path = path, live = true}, '<meta http%-equiv="refresh" content="2">'
  report:scalar('loss', 0.125)
  local html = read(path)
  t.eq({count(html, reloads), count(html, 'running'), count(html, '>0.125<')}, {1, 1, 2})
  report:scalar('loss', 0.0625) -- too soon for another
  t.eq(read(path), html)
  local start = os.clock()
  for i = 1, 20000 do report:scalar('loss', 1 / i) end
  t.eq((os.clock() - start) / 20000 < 30e-6, true)
  report:finish()
  html = read(path)
  t.eq({count(html, reloads), count(html, 'running'), count(html, '<script>')}, {0, 0, 0})
end)

os.remove(path)
t.finish()
