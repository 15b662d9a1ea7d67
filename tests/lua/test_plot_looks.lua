-- test_plot_looks.lua -- Colours, styles, limits, legends, error bars, smoothing and panels of mt.plot
local here = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
package.path = here .. '?.lua;' .. package.path
local mt = require 'mtorch'
local t = require 'testing'
local figures = require 'figures'
local scale, style = require 'mtorch.extras.plot.scale', require 'mtorch.extras.plot.style'
local captured, count, well_formed = figures.captured, figures.count, figures.well_formed

local plot, series = mt.plot, mt.extend.util.tabulate
local nan, inf = 0 / 0, math.huge
local plain = {LC_ALL = 'C.UTF-8', COLUMNS = '80'}
local terminal = {isatty = function() return true end}

local function drawn(kind, args)
  local svg, fig = plot['svg_' .. kind](args)
  return well_formed(svg), fig
end

--- Returns the lines of a figure in a terminal of 80 columns.
local function lines_of(environment, host, draw)
  local list = {}
  for line in captured(environment, host, draw):gmatch('([^\n]*)\n') do list[#list + 1] = line end
  return list
end

local function raises(fn, pattern)
  local message = t.raises(fn, pattern)
  if not message:find('test_plot_looks.lua:%d+: ') then error('no user line in: ' .. message, 2) end
end

t.test('colours: names, #rrggbb, numbers of the palette; of a figure and of a series', function()
  local x, y = {1, 2}, {3, 4}
  local svg = drawn('line', {{x = x, y = y, color = 'Crimson'}, {x = x, y = x, color = 2}, {x = x, y = {0, 0}},
    color = '#123456', legend = false})
  t.eq({count(svg, 'style="color:#dc143c"'), count(svg, 'class="c2"'), count(svg, 'style="color:#123456"')}, {1, 1, 1})
  svg = drawn('line', {x, y, {5, 6}, color = {'red', '3'}, legend = false})
  t.eq({count(svg, 'color:#ff0000'), count(svg, 'class="c3"'), count(svg, 'class="c1"')}, {1, 1, 0})
  t.eq(count(drawn('line', {x, y, color = {'k'}}), 'color:#000000'), 1)
  for kind, args in pairs{bar = {{1, 2}}, hist = {{1, 2}}, fill_between = {x, x, y}, scatter = {x, y}} do
    args.color = 'teal'
    t.eq({kind, count(drawn(kind, args), 'style="color:#008080"')}, {kind, 1})
  end
  raises(function() plot.line{y, color = 'gren'} end, "color 'gren' is neither .* a name: did you mean 'green'")
  raises(function() plot.line{y, color = '#12'} end, "color '#12' is neither '#rrggbb' nor a number")
  raises(function() plot.line{y, color = {'red', 'blue'}} end, 'color has 2 values, expected 1 %(one per series%)')
  raises(function() plot.bar{y, color = true} end, 'plot.bar: color is true, expected a text, or a list')
end)

t.test('styles: dashes of lines, markers, both; the width of lines', function()
  local y = {1, 3, 2}
  local function paths(args)
    args[1], args.legend = y, false
    local svg, list = drawn(args.kind or 'line', args), {}
    for path in svg:gmatch('<path class="c1"[^>]*>') do list[#list + 1] = path end
    return list
  end
  t.eq({paths{}[1]:find 'dash', paths{style = '-'}[1]:find 'dash'}, {})
  t.eq(paths{style = '--'}[1]:match 'stroke%-dasharray="([^"]*)"', '7.4 3.6')
  t.eq(paths{style = ':', linewidth = 4}[1]:match 'stroke%-width="4".*stroke%-dasharray="([^"]*)"', '4 6.6')
  t.eq(#paths{style = '-.'}[1]:match('stroke%-dasharray="([^"]*)"'):gsub('[^ ]', ''), 3)
  local both, dots = paths{style = 'o--'}, paths{style = 'o'}
  t.eq({#both, both[1]:find 'dash' ~= nil, count(both[2], 'h0')}, {2, true, 3})
  t.eq({#dots, count(dots[1], 'h0'), paths{style = '--o'}[2]}, {1, 3, both[2]})
  local signs = {x = 'l', ['+'] = 'v', ['^'] = 'z', v = 'z', d = 'z', ['*'] = 'h', s = 'square', ['.'] = 'h0'}
  for marker, text in pairs(signs) do
    local path = paths{style = marker}
    t.eq({marker, #path, path[1]:find(text) ~= nil}, {marker, 1, true})
  end
  local filled, outline = drawn('hist', {y, bins = 3}), drawn('hist', {y, bins = 3, style = '--'})
  local fill = 'fill="currentColor"'
  t.eq({count(filled, fill), count(outline, fill), count(outline, 'dasharray')}, {1, 0, 1})
  t.eq(count(drawn('fill_between', {y, {0, 0, 0}, y, style = '--'}), 'dasharray'), 2)
  raises(function() plot.line{y, style = 'r--'} end, "style 'r%-%-' is unknown: lines are .* a colour is color=")
  raises(function() plot.line{y, linewidth = 0} end, 'linewidth must be a number above 0')
end)

t.test('the palette has twelve colours; then dashes and markers differ', function()
  t.eq({#style.palette, #style.dark_palette}, {12, 12})
  local seen, ys = {}, series(30, function(i) return {i, i + 1} end)
  ys.labels = series(30, tostring)
  local svg, fig = drawn('line', ys)
  for _, s in ipairs(fig.series) do
    local look = style.place(s) .. s.dash
    t.eq({look, seen[look]}, {look})
    seen[look] = true
  end
  t.eq({count(svg, 'class="c12"'), count(svg, 'and 6 more')}, {4, 1})
  local xs = series(30, function(i) return i end)
  fig = select(2, drawn('scatter', {xs, xs, class = xs}))
  t.eq({fig.series[12].marker, fig.series[13].marker, fig.series[25].marker}, {'o', 'x', '^'})
end)

t.test('limits: what is beyond is clipped, lines keep their direction', function()
  local svg, fig = drawn('line', {{0, 1, 2, 3}, {0, 1, 101, 1}, xlim = {0.5, 2.5}, ylim = {0, 2}})
  t.eq({fig.x_lo, fig.x_hi, fig.y_lo, fig.y_hi}, {0.5, 2.5, 0, 2})
  local left, top, wide, high = svg:match '<rect x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"/></clipPath>'
  local d = {}
  for v in svg:match('class="c1" d="([^"]*)"'):gmatch('[-%d.]+') do d[#d + 1] = tonumber(v) end
  t.near({d[1], d[2]}, {left - wide / 4, top + high}, 0.2) -- the point before the first visible one
  t.near({d[5], d[6]}, {left + wide * 0.75, top + high - 50.5 * high}, 20)
  t.eq(count(svg, '<g clip%-path="url%(#clip'), 1)
  t.eq(count(plot.svg_line{{1, 2}}, 'clip'), 0)
  -- the range of y is that of the visible points, also behind a first outlier
  fig = select(2, drawn('line', {{900, 2, 1, 4}, xlim = {2, 4}}))
  t.near({fig.y_lo, fig.y_hi}, {1 - 0.12, 4 + 0.12}, 1e-9)
  t.eq(#fig.series[1].x, 4)
  fig = select(2, drawn('line', {series(1000, math.sqrt), xlim = {500, 501}}))
  t.eq(#fig.series[1].x, 4) -- with a neighbour on either side
  t.eq(count(drawn('line', {{1, 2, nan, inf}, xlim = {10, 20}}), 'no value can be drawn'), 1)
  drawn('line', {{1, 1e308, -1e308, inf, nan, 1}, ylim = {0, 1}})
  drawn('line', {{1, 1e300, 0}, logy = true, ylim = {0.5, 2}})
  raises(function() plot.line{{1, 2}, ylim = {2, 1}} end, 'plot.line: ylim is not a range: give {low, high}')
  raises(function() plot.line{{1, 2}, ylim = {0, 1}, logy = true} end, 'ylim begins at 0, but a logarithmic axis')
end)

t.test('limits of bars and histograms', function()
  local svg, fig = drawn('bar', {{0.95, 0.97, 0.5}, ylim = {0.9, 1}})
  t.eq({fig.y_lo, fig.y_hi}, {0.9, 1})
  local base, first = svg:match 'c1" d="M%S+ (%S+)V([%d.]+)h'
  local y, high = svg:match '<rect x="[^"]*" y="([^"]*)" width="[^"]*" height="([^"]*)"/></clipPath>'
  t.near({tonumber(base), tonumber(first)}, {y + high, y + high / 2}, 0.2)
  t.eq({count(svg, '>0.97<'), count(svg, '>0.5<')}, {1, 0})
  fig = select(2, drawn('hist', {{0, 1, 2, 3, 90}, bins = 2, xlim = {0, 4}}))
  t.eq({fig.values, fig.x_lo, fig.x_hi}, {{2, 2}, 0, 4})
  local lines = lines_of(plain, nil, function() plot.bar{{0.95, 1}, ylim = {0.9, 1}} end)
  t.eq(math.abs(count(lines[2], '█') - 2 * count(lines[1], '█')) <= 1, true)
end)

t.test('the legend: above, beside, inside, nowhere', function()
  local function places(legend, more)
    local args = {{1, 2}, {3, 4}, labels = {'first', 'second'}, legend = legend}
    for key, value in pairs(more or {}) do args[key] = value end
    local svg, at = drawn('line', args), {}
    for x, y, name in svg:gmatch '<text x="([%d.]+)" y="([%d.]+)" text%-anchor="start">(%a+)</text>' do
      at[#at + 1] = {tonumber(x), tonumber(y), name}
    end
    return at, svg
  end
  local top = places()
  t.eq({#top, top[1][2] == top[2][2], top[1][2] < 30}, {2, true, true})
  t.eq({places(true), places('top'), #places(false)}, {top, top, 0})
  local right, svg = places('right')
  local edge = tonumber(svg:match 'class="ax" d="M[%d.]+ [%d.]+H([%d.]+)')
  t.eq({right[1][1] == right[2][1], right[1][1] > edge, right[2][2] - right[1][2]}, {true, true, 20})
  local corner = places 'inside bottom right'
  t.eq({corner[2][1] < 618, corner[2][1] > 500, corner[2][2] > 300, corner[2][2] < 376}, {true, true, true, true})
  corner = places 'inside top left'
  t.eq({corner[1][1] < 100, corner[1][2] < 60}, {true, true})
  raises(function() plot.line{{1, 2}, legend = 'left'} end, "legend must be 'top', 'right', .* got the string 'left'")
  for wanted, shown in pairs{[true] = 2, [false] = 0} do
    local text = captured(plain, nil, function() plot.line{{x = {1}, y = {1}}, {x = {1}, y = {2}}, legend = wanted} end)
    t.eq(count(text, 'series'), shown)
  end
end)

t.test('the legend stays in the picture, also a narrow one', function()
  local xs, names = series(24, function(i) return i % 12 + 1 end), series(12, function(i) return 'class ' .. i end)
  for _, args in ipairs{{aspect = 'equal'}, {aspect = 'equal', width = 300, height = 200}, {width = 170}} do
    args[1], args[2], args.class, args.labels = xs, series(24, function(i) return i % 7 end), xs, names
    local svg, fig = drawn('scatter', args)
    local lowest = 0
    for x, y, name in svg:gmatch '<text x="([%d.]+)" y="([%d.]+)" text%-anchor="start">(class %d+)</text>' do
      t.eq(x + 6.2 * #name <= fig.width, true)
      lowest = math.max(lowest, tonumber(y))
    end
    t.eq({count(svg, '>class %d+<'), fig.height > lowest + 20}, {12, true})
  end
  for _, legend in ipairs{'top', 'right', 'inside top left'} do
    local svg = drawn('line', {{1, 2}, label = ('long '):rep(8), width = 200, legend = legend})
    t.eq({#svg:match '>(long[^<]*)<' < 36, svg:find('…<', 1, true) ~= nil}, {true, true})
  end
end)

t.test('error bars', function()
  local svg, fig = drawn('line', {{1, 2, 3}, {4, 5, 6}, yerr = 1, legend = false})
  t.eq({fig.series[1].error_low, fig.series[1].error_high}, {{3, 4, 5}, {5, 6, 7}})
  t.near({fig.y_lo, fig.y_hi}, {3 - 0.16, 7 + 0.16}, 1e-9)
  local path = svg:match('<path class="c1" stroke="currentColor" d="([^"]*)" fill="none" stroke%-width="1.5"')
  t.eq(count(path, 'M%S+ %S+h6m%-3 0V%S+m%-3 0h6'), 3)
  fig = select(2, drawn('scatter', {{1, 2, 3}, {4, 5, 6}, yerr = {{1, 1, 1}, mt.tensor{2, 2, 3}}}))
  t.eq({fig.series[1].error_low, fig.series[1].error_high}, {{3, 4, 5}, {6, 7, 9}})
  fig = select(2, drawn('line', {{x = {1, 2}, y = {4, 5}, yerr = {1, 2}}}))
  t.eq({fig.series[1].error_low, fig.series[1].error_high}, {{3, 3}, {5, 7}})
  svg, fig = drawn('bar', {{1, -2}, yerr = {0.5, 0.25}})
  t.eq({fig.series[1].error_low, count(svg, 'class="er"')}, {{0.5, -2.25}, 1})
  t.eq({fig.y_lo < -2.25, fig.y_hi > 1.5}, {true, true})
  t.eq(select(2, drawn('line', {{1, 2}, yerr = 1, logy = true})).series[1].error_low, {0, 1})
  local lines = lines_of(plain, nil, function() plot.bar{{1, 2}, yerr = {{0.5, 0.1}, {0.5, 0.2}}} end)
  t.eq({lines[1]:match '1 ±.*', lines[2]:match '2 %+.*'}, {'1 ±0.5', '2 +0.2 -0.1'})
  local function cells(args)
    return count(captured(plain, nil, function() plot.scatter(args) end), '[\226][\160-\163]')
  end
  t.eq(cells{{1, 2}, {1, 2}, yerr = 0.5} > cells{{1, 2}, {1, 2}} + 5, true)
  raises(function() plot.line{{1, 2}, yerr = {1, 2, 3}} end, 'yerr of series 1 has 3 values, expected 2')
  raises(function() plot.line{{1, 2}, yerr = -1} end, 'yerr of series 1: value 1 is %-1, expected no negative one')
  raises(function() plot.scatter{{1, 2}, {1, 2}, class = {1, 2}, yerr = 1} end, 'yerr does not go with class')
end)

t.test('several histograms with the same bins; bars side by side', function()
  local svg, fig = drawn('hist', {{0, 1, 1}, {1, 3}, labels = {'a', 'b'}})
  t.eq({fig.series[1].y, fig.series[2].y, fig.x_lo, fig.x_hi}, {{1, 2, 0, 0}, {0, 1, 0, 1}, -0.5, 3.5})
  t.eq({count(svg, '>a<'), count(svg, '>b<'), count(svg, 'class="c2"'), count(svg, 'fill%-opacity')}, {1, 1, 2, 4})
  fig = select(2, drawn('hist', {{x = mt.tensor{1, 2}, label = 'x', color = 'red'}, {x = {2}, style = '-'}}))
  t.eq({fig.series[1].label, fig.series[1].rgb, fig.series[2].dash}, {'x', '#ff0000', '-'})
  svg = drawn('bar', {{y = {1, 2}, label = 'u'}, {y = {2, 3}, label = 'w', color = 'gold'}, labels = {'one', 'two'}})
  t.eq({count(svg, '>u<'), count(svg, '>one<'), count(svg, '#ffd700')}, {1, 1, 2})
  local first, wide, second = svg:match 'c1" d="M(%S+) %S+V%S-h([%d.]+)V.-#ffd700" d="M(%S+)'
  t.near(tonumber(second), first + wide, 0.11)
  local lines = lines_of(plain, nil, function() plot.bar{{y = {1, 2}, label = 'u'}, {y = {2, 3}, label = 'w'}} end)
  t.eq({#lines, lines[2]:find '░' ~= nil, lines[5]}, {5, true, '█ u   ░ w'})
  raises(function() plot.bar{{y = {1, 2}}, {y = {1}}} end, 'series 2 has 1 values, expected 2')
  raises(function() plot.bar{{y = {1}, x = {2}}} end, "unknown option 'x'")
  raises(function() plot.bar{{1}, {2}} end, 'got 2 lists, expected one: a list of values, or entries')
end)

t.test('smoothing: the moving average of TensorBoard, over the pale curve', function()
  local svg, fig = drawn('line', {{4, 2, nan, 6}, smooth = 0.5, legend = false})
  local s = fig.series[1]
  t.near({s.y[1], s.y[2], s.y[4]}, {4, (0.25 * 4 + 0.5 * 2) / 0.75, (0.125 * 4 + 0.25 * 2 + 0.5 * 6) / 0.875}, 1e-12)
  t.eq({s.y[3] ~= s.y[3], s.raw[1], s.raw[4]}, {true, 4, 6})
  t.eq({count(svg, 'stroke%-opacity=".3"'), count(svg, '<path class="c1"')}, {2, 4}) -- lines and dots
  fig = select(2, drawn('line', {{x = {1, 2}, y = {1, 2}, smooth = 0.9}, {x = {1, 2}, y = {2, 3}}}))
  t.eq({fig.series[1].raw, fig.series[2].raw}, {{1, 2}})
  t.eq(plot.svg_line{{1, 3, 2}, smooth = 0}, (plot.svg_line{{1, 3, 2}}))
  local function cells(args) -- those of the curve, and the number of pale ones
    local text = captured({LC_ALL = 'C.UTF-8', COLUMNS = '80', COLORTERM = 'truecolor'}, terminal, function()
      plot.line(args)
    end)
    local list = {}
    for cell in text:gmatch '\27%[38;2;88;174;234m([^\27]*)' do list[#list + 1] = cell end
    return list, count(text, '\27%[38;2;39;78;105m')
  end
  local noise = series(50, function(i) return i % 7 end)
  local _, alone = drawn('line', {noise, smooth = 0.9})
  local over, pale = cells{noise, smooth = 0.9}
  t.eq({over, pale > 50}, {cells{alone.series[1].y, ylim = {alone.y_lo, alone.y_hi}}, true})
  raises(function() plot.line{{1, 2}, smooth = 1} end, 'plot.line: smooth must be a number from 0 and below 1, got 1')
end)

t.test('panels: figures in rows, one under another in a terminal', function()
  local curve, matrix = {kind = 'line', {1, 3, 2}, title = 'curve'}, {kind = 'heatmap', {{1, 2}, {3, 4}}}
  local svg, fig = drawn('panels', {curve, matrix, {kind = 'bar', {1, 2}}, title = 'all', cols = 2, width = 700})
  t.eq({fig.width, fig.rows, fig.cols, count(svg, '<svg'), count(svg, '<g transform')}, {700, 2, 2, 1, 3})
  local at = {}
  for x, y in svg:gmatch 'translate%(([%d.]+) ([%d.]+)%)' do at[#at + 1] = {tonumber(x), tonumber(y)} end
  t.eq({at[1], at[2][1], at[2][2], at[3][1], at[3][2] > 200}, {{0, 36}, 350, 36, 0, true})
  t.eq({count(svg, '>all<'), count(svg, '>curve<'), fig.height > at[3][2] + 200}, {2, 1, true})
  svg, fig = drawn('panels', {curve, matrix, rows = 1, height = 300})
  t.eq({fig.cols, fig.height, svg:match 'viewBox="([^"]*)"'}, {2, 300, '0 0 920 300'})
  svg, fig = drawn('panels', {curve, matrix, rows = 1, width = 100}) -- side by side as narrow as each can be
  t.eq({fig.width, svg:match '^.*translate%((%d+)'}, {320, '160'})
  local lines = lines_of(plain, nil, function() plot.panels{curve, {kind = 'bar', {1, 2}}, title = 'all'} end)
  local found = table.concat(lines, '\n'):gsub('\n+', '\n')
  t.eq({found:match '^ *(%a+\n) *curve\n', lines[#lines]:match '^2 █'}, {'all\n', '2 █'})
  local path = os.tmpname() .. '.svg'
  t.eq({plot.panels{curve, path = path}, t.read_file(path):match '^<svg'}, {path, '<svg'})
  os.remove(path)
  raises(function() plot.panels{nil, {kind = 'line', {1, 2}}} end, 'plot.panels: panel 1 is nil, expected a table')
  raises(function() plot.panels{} end, 'plot.panels: no panels: give')
  raises(function() plot.panels{{{1, 2}}} end, "plot.panels: panel 1: kind is nil, expected the name of a function")
  raises(function() plot.panels{{kind = 'lin', {1, 2}}} end, "panel 1: kind is the string 'lin'")
  raises(function() plot.panels{curve, {kind = 'line', {1, 'a'}}} end, "panel 2: series 1: value 2 is the string 'a'")
  raises(function() plot.panels{curve, curve, curve, rows = 1, cols = 2} end, '3 panels, expected at most 2')
  raises(function() plot.panels{{kind = 'line', {1}, path = 'a.svg'}} end, 'path belongs to the whole picture')
end)

t.test('terminal: dashes, markers, colours, limits', function()
  local function braille(args)
    return count(captured(plain, nil, function() plot.line(args) end), '[\226][\160-\163]')
  end
  local y = series(60, math.sqrt)
  t.eq(braille{y, style = ':'} < braille{y} and braille{y, style = '--'} < braille{y}, true)
  local ascii = {LC_ALL = 'C', COLUMNS = '80'}
  t.eq(count(captured(ascii, nil, function() plot.scatter{{1, 2, 3}, {1, 2, 3}, style = 'x'} end), 'x'), 3)
  local coloured = captured({LC_ALL = 'C.UTF-8', COLUMNS = '80', COLORTERM = 'truecolor'}, terminal, function()
    plot.line{y, color = 'red'}
  end)
  t.eq({count(coloured, '38;2;255;0;0m') > 20, count(coloured, '38;2;88;174;234m')}, {true, 0})
  -- a line to a point far away leaves upwards, in its direction
  local lines = lines_of(ascii, nil, function() plot.line{{0, 1, 2}, {0, 0, 1e9}, xlim = {0, 2}, ylim = {0, 1}} end)
  local column = lines[1]:find('*', 1, true)
  t.eq({column ~= nil, (lines[9]:find('*', 1, true))}, {true, column})
  for _, line in ipairs(lines) do t.eq(#line <= 80, true) end
end)

t.test('letters of two columns', function()
  t.eq({scale.columns '损失 loss', scale.columns 'あ한', scale.columns 'Ü█…⣀→'}, {9, 4, 5})
  t.eq({scale.cut('损失损失', 5, '~'), scale.cut('损失', 4), scale.cut('abcdef', 4, '~')}, {'损失~', '损失', 'abc~'})
  local lines = lines_of(plain, nil, function() plot.bar{{1, 2}, labels = {'猫', 'dogs'}} end)
  t.eq({lines[1]:match '^ *', (lines[1]:find('  猫 █', 1, true))}, {'  ', 1})
  lines = lines_of(plain, nil, function() plot.line{{1, 2}, title = ('损失'):rep(60)} end)
  for _, line in ipairs(lines) do t.eq(scale.columns(line) <= 80, true) end
  local svg = drawn('line', {{1, 2}, title = '损失', labels = {'训练'}})
  t.eq({count(svg, '>损失<'), count(svg, '>训练<')}, {2, 1})
end)

t.finish()
