-- test_plot_libraries.lua -- Figures as PNG files, by librsvg; graphs as SVG and PNG, by Graphviz
local mt = require 'mtorch'
local t = require 'testing'
local plot, count = mt.plot, require('figures').count
local to_png = mt.extend.svg_to_png
local path = os.tmpname()
local png = path .. '.png'

local page = '<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s">%s</svg>'
local ok, why = pcall(to_png, 'x', page:format(1, 1, ''), 1)
if not ok or os.execute 'command -v dot >/dev/null' ~= 0 then
  print('skipped: ' .. (ok and 'Graphviz is missing: apt-get install graphviz' or why))
  os.exit(0)
end

local function drawn(kind, args)
  args.path = png
  t.eq(plot[kind](args), png)
  local x = mt.data.image(png)
  os.remove(png)
  return x
end
local function colour(x, i, j) return ('#%02x%02x%02x'):format(unpack(x[{{}, i, j}]:tolist())) end
local function darkest(x, rows, columns) return x[{{}, rows, columns}]:min():item() end

t.test('two pixels for each of the figure: the page, bars, the numbers under them', function()
  local x = drawn('bar', {{1, 1}, width = 300, height = 200})
  t.shape(x, 3, 400, 600)
  t.eq({colour(x, 300, 180), colour(x, 8, 8)}, {'#0072b2', '#ffffff'})
  t.eq({darkest(x, {370, 400}, {100, 260}) < 120, darkest(x, {390, 400}, {1, 600})}, {true, 255})
end)

t.test('a line, its title and the names of its axes', function()
  local x = drawn('line', {{1, 2, 3}, {3, 2, 1}, title = '<T> & Ü', labels = {'one'}, width = 300, height = 200,
    xlabel = 'x', ylabel = 'y'})
  local svg = plot.svg_line{{1, 2, 3}, {3, 2, 1}, title = '<T> & Ü', labels = {'one'}, width = 300, height = 200,
    xlabel = 'x', ylabel = 'y'}
  local across, down = svg:match 'L([%d.]+) ([%d.]+)L' -- of three points the second
  across, down = math.floor(across * 2), math.floor(down * 2)
  t.eq({colour(x, down, across), colour(x, down - 20, across + 40)}, {'#0072b2', '#ffffff'})
  t.eq({darkest(x, {25, 60}, {50, 300}) < 40, darkest(x, {1, 20}, {1, 600})}, {true, 255}) -- the title
  t.eq({darkest(x, {360, 390}, {250, 400}) < 120, darkest(x, {150, 290}, {10, 45}) < 120}, {true, true})
end)

t.test('pictures within a figure keep the edges of their pixels', function()
  local x = drawn('heatmap', {{{0, 1}, {1, 0}}, rows = {'a', 'b'}, width = 300, height = 300})
  t.eq({colour(x, 60, 120), colour(x, 60, 360)}, {'#440154', '#fde725'})
  x = drawn('image', {mt.tensor{{0, 255}, {255, 0}}:byte(), width = 224, height = 224})
  t.eq({colour(x, 100, 216), colour(x, 100, 217), colour(x, 216, 100), colour(x, 217, 100)},
    {'#000000', '#ffffff', '#000000', '#ffffff'})
  x = drawn('images', {mt.tensor{{{255, 0}}, {{0, 255}}}:byte():reshape(2, 1, 1, 2), labels = {'x', 'y'}})
  t.eq({x[{1, {}, {}}]:eq(0):any(), x[{1, 60, 60}]:item()}, {true, 255})
end)

t.test('every other kind', function()
  for kind, data in pairs{scatter = {{1, 2}, {2, 1}, class = {1, 2}}, hist = {{1, 2, 2}}, contour = {{{0, 1}, {1, 0}}},
                          fill_between = {{1, 2}, {0, 1}, {2, 3}}} do
    local y = drawn(kind, data)
    t.eq({#y, y:float():std():item() > 1, colour(y, 2, 2)}, {3, true, '#ffffff'})
  end
end)

t.test('invalid SVG, and invalid sizes', function()
  local function refused(svg, pattern)
    assert(not t.raises(function() to_png('plot.line', svg, 2) end, pattern):find '\n', 'more than one line')
  end
  refused('<svg', ': plot.line: librsvg cannot draw it: .+; a .svg needs no library$')
  refused('', ': plot.line: librsvg cannot draw it: ')
  refused(page:format(8193, 10, ''), 'plot.line: a picture of 16386 x 20 pixels; from 1 x 1 to 16384 x 16384 are drawn')
  refused(page:format(10, 1e9, ''), 'a picture of 20 x 2000000000 pixels')
  refused(page:format('100%', '100%', ''), 'the SVG drawing has no size in pixels')
  local long = mt.ones(1):requires_grad_()
  for _ = 1, 300 do long = long:sin() end
  t.raises(function() plot.graph(long, {path = png}) end,
    'test_plot_libraries.lua:%d+: plot.graph: a picture of %d+ x %d+ pixels; .*a .svg needs no library$')
  t.eq(io.open(png), nil)
  t.write_file(png, to_png('x', page:format(3, 2, '<g class="' .. ('x'):rep(11e6) .. '"/>'), 1)) -- most have 1e7
  t.eq({#mt.data.image(png)[1], mt.data.image(png):min():item()}, {2, 255})
  os.remove(png)
end)

t.test('graphs: boxes by kind, names, shapes, a title', function()
  local net = mt.nn.Sequential(mt.nn.Linear(2, 5), mt.nn.ReLU(), mt.nn.Linear(5, 1))
  local loss = (net(mt.ones(7, 2)):tanh() ^ 2):sum()
  t.eq(plot.graph(loss, {path = path .. '.svg', params = net, title = 'a <b> &amp; "c\\n"'}), path .. '.svg')
  local svg = t.read_file(path .. '.svg')
  os.remove(path .. '.svg')
  t.eq({count(svg, 'class="node"'), count(svg, 'class="edge"'), count(svg, '>2%.weight<'), count(svg, '>1 x 5<')},
    {10, 9, 1, 1})
  t.eq({count(svg, 'a &lt;b&gt; &amp;amp; &quot;c\\n&quot;'), svg:sub(1, 5), svg:sub(-7)}, {1, '<svg ', '</svg>\n'})
  t.eq(plot.graph(loss, {path = png, params = net}), png)
  t.eq(plot.graph(loss, {path = path .. '.svg', params = net}), path .. '.svg')
  local wide, high = t.read_file(path .. '.svg'):match 'width="(%d+)pt" height="(%d+)pt"'
  os.remove(path .. '.svg')
  local x = mt.data.image(png)
  os.remove(png)
  t.shape(x, 3, 2 * high, 2 * wide)
  local function has(red, green, blue)
    return x[1]:eq(red):logical_and(x[2]:eq(green)):logical_and(x[3]:eq(blue)):any()
  end
  t.eq({#x, colour(x, 2, 2), has(0xdb, 0xea, 0xfe), has(0xdc, 0xfc, 0xe7), has(0xf3, 0xf4, 0xf6), has(1, 2, 3)},
    {3, '#ffffff', true, true, true, false})
end)

t.test('a graph of hundreds of operations with shared inputs is drawn in seconds', function()
  local w, chains = mt.ones(2):requires_grad_(), {}
  for i = 1, 20 do
    chains[i] = w:sin()
    for _ = 1, 15 do chains[i] = chains[i] * chains[math.max(1, i - 1)]:cos() end
  end
  local began = os.time()
  plot.graph(mt.cat(chains):sum(), {path = path .. '.svg'})
  t.eq({count(t.read_file(path .. '.svg'), 'class="node"'), os.time() - began < 60}, {623, true})
  os.remove(path .. '.svg')
end)

os.remove(path)
t.finish()
