-- test_plot.lua -- Tests of mt.plot, mt.report, mt.progress and the helpers they share (util.lua).
local here = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
package.path = here .. '?.lua;' .. package.path
local t = require 'testing'

local plot, report, progress, util, scale, contour = require 'mtorch.extras.plot',
  require('mtorch.extras.report').report, require 'mtorch.script.progress',
  require 'mtorch.core.util', require 'mtorch.extras.plot.scale',
  require 'mtorch.extras.plot.contour'

local core = require 'mtorch.core'
local figures = require 'figures'
local captured, count, well_formed = figures.captured, figures.count, figures.well_formed
local nan, inf = 0 / 0, math.huge
local folder = os.tmpname()
os.remove(folder)

local read, series, tensor = t.read_file, util.tabulate, require('mtorch').tensor

local plain_utf8 = {LC_ALL = 'C.UTF-8', COLUMNS = '80'}
local no_terminal = {isatty = function() return false end}

t.test('nearest names', function()
  t.eq(core.nearest({'tilt', 'title', 'tile'}, 'titel'), 'title')
  t.eq(core.nearest({'kitten'}, 'sitting'), '') -- 3 edits are too many for 7 letters
  t.eq(core.nearest({'xlabel', 'ylabel', 'path'}, 'Ylabl'), 'ylabel')
  t.eq(core.nearest({'xlabel', 'path'}, 'zzzzzz'), '')
end)

t.test('texts', function()
  t.eq(util.truncate('αβγδ', 3), 'αβ…')
  t.eq(util.length('αβγδ'), 4)
  t.eq(util.number_text(1e-5), '1e-5')
  t.eq(util.duration_text(125), '2m 05s')
  t.eq(util.duration_text(0.0034), '3.4 ms')
  t.eq(plot.escape([[<a & 'b'>]]), '&lt;a &amp; &#39;b&#39;&gt;')
end)

t.test('ticks are 1-2-5', function()
  local values, texts = scale.ticks(0, 1, 6)
  t.near(values, {0, 0.2, 0.4, 0.6, 0.8, 1}, 1e-12)
  t.eq(texts, {'0', '0.2', '0.4', '0.6', '0.8', '1.0'})
  t.eq(select(2, scale.ticks(-2e7, 2e7, 4)), {'-2e7', '-1e7', '0', '1e7', '2e7'})
  t.eq(select(2, scale.ticks(0.001, 1000, 9, true)),
       {'0.001', '0.01', '0.1', '1', '10', '100', '1000'})
  t.eq(select(2, scale.ticks(1, 3, 9, false, true)), {'1', '2', '3'})
  t.eq(select(2, scale.ticks(0.0010000000474975, 1, 4, true)), {'0.001', '0.01', '0.1', '1'}) -- a float32
  t.eq(select(2, scale.ticks(1000000.01, 1000000.03, 3)), {'1000000.01', '1000000.02', '1000000.03'})
  t.eq(select(2, scale.ticks(1.7e9, 1.7e9 + 2000, 3)), {'1700000000', '1700001000', '1700002000'})
end)

t.test('line writes a file and returns its path', function()
  local path = folder .. '.svg'
  t.eq(plot.line{{1, 2, 3}, {4, 5, 6}, {6, 5, 4}, title = 'a <b> & c', labels = {'up', 'down'},
                 path = path}, path)
  local svg = well_formed(read(path))
  t.eq(io.open(path .. '.tmp'), nil)
  os.remove(path)
  t.eq(count(svg, '<path class="c1"'), 2) -- the line and its legend mark
  t.eq(count(svg, '<path class="c2"'), 2)
  t.eq(count(svg, 'a &lt;b&gt; &amp; c'), 2)
  t.eq(count(svg, '>down</text>'), 1)
  t.eq(count(svg, 'https?://'), 1) -- the name space alone
end)

t.test('the same figure has the same text; options may come last', function()
  local mt = require 'mtorch'
  local losses = {mt.tensor(3), mt.tensor(1), mt.tensor(2)} -- a list from a training loop
  t.eq(plot.svg_line(losses), (plot.svg_line{{3, 1, 2}}))
  local svg = plot.svg_line{{1, 2, 4}, {1, 2, 3}}
  t.eq(plot.svg_line{{1, 2, 4}, {1, 2, 3}}, svg)
  t.eq(plot.svg_line{tensor{1, 2, 4}, tensor{{1}, {2}, {3}}}, svg)
  t.eq(plot.svg_line{x = {1, 2, 4}, y = {1, 2, 3}}, svg)
  t.eq(plot.svg_line{{x = {1, 2, 4}, y = {1, 2, 3}}}, svg)
  t.eq(plot.svg_line{5, 6, 7}, plot.svg_line{{1, 2, 3}, {5, 6, 7}})
  local path = folder .. '.svg'
  t.eq(plot.line({1, 2, 4}, {1, 2, 3}, {path = path}), path)
  t.eq(read(path), svg)
  os.remove(path)
end)

t.test('coordinates: the ends of the data are the corners', function()
  local svg, fig = plot.svg_line{{0, 10}, {0, 1}, width = 640, height = 400}
  local x1, y1, x2, y2 = svg:match('<path class="c1" d="M([%d.]+) ([%d.]+)L([%d.]+) ([%d.]+)"')
  t.near({fig.x_lo, fig.x_hi, fig.y_lo, fig.y_hi}, {0, 10, -0.04, 1.04}, 1e-12)
  t.near(tonumber(x2), 618, 0.11)
  t.eq(tonumber(x1) < tonumber(x2) and tonumber(y1) > tonumber(y2), true)
end)

t.test('gaps: NaN and inf break the line and nothing else', function()
  local svg = well_formed((plot.svg_line{{1, 2, nan, 4, inf, 6, 7}}))
  local d, dots = svg:match('<path class="c1" d="([^"]*)".-<path class="c1" d="([^"]*)"')
  t.eq({count(d, 'M'), count(d, 'L'), count(d, 'h0'), count(dots, 'M'), count(dots, 'h0')}, {2, 2, 0, 1, 1})
  t.eq(count(well_formed((plot.svg_line{{nan, nan}})), 'no value can be drawn'), 1)
  t.eq(count((plot.svg_line{{1, 0, 10}, logy = true}):match('c1" d="([^"]*)"'), 'M%S+ %S+h0'), 2)
  for _, kind in ipairs{'line', 'bar', 'hist'} do
    for _, data in ipairs{{1e308, -1e308}, {1e300, -1e300}, {5e-324, 0}, {inf, 1, -inf}, {0, 0},
                          {1, 1 + 1e-15}, {1e16, 1e16 + 2}, {nan}} do
      well_formed((plot['svg_' .. kind]{data}))
    end
  end
end)

t.test('large series stay small', function()
  local noise = series(200000, function(i) return (i * 7919) % 1000 end)
  local svg = plot.svg_line{noise}
  t.eq(#svg < 30000 and #svg > 5000, true)
  local many = series(40, function() return noise end)
  t.eq(#plot.svg_line(many) < 200000, true)
  local other = series(200000, function(i) return (i * 104729) % 997 end)
  t.eq(#plot.svg_scatter{noise, other} < 200000, true)
  local function cell(i) return function(j) return (i * j * 7919) % 101 end end
  local z = series(300, function(i) return series(300, cell(i)) end)
  t.eq(#plot.svg_heatmap{z} < 200000, true)
  t.eq(#plot.svg_contour{z} < 200000, true)
end)

t.test('thinning keeps the extremes', function()
  local ys = series(10000, function() return 0 end)
  ys[5003], ys[7001] = 9, -9
  local id = function(v) return v end
  local _, py = scale.polyline(series(10000, id), ys, function(v) return v / 20 end, id, 1, 1200)
  t.eq({math.max(unpack(py)), math.min(unpack(py)), #py < 1100}, {9, -9, true})
end)

t.test('scatter colours by class', function()
  local svg = well_formed((plot.svg_scatter{{1, 2, 3}, {1, 2, 3}, class = {1, 0, 1}}))
  t.eq({count(svg, 'class="c1"'), count(svg, 'class="c2"')}, {2, 2})
  t.eq(count(svg:match('<path class="c2" d="([^"]*)"'), 'h0'), 2)
  t.eq(plot.svg_scatter{tensor{{1, 4}, {2, 5}}}, plot.svg_scatter{{1, 2}, {4, 5}})
end)

t.test('bar and hist', function()
  local svg = well_formed((plot.svg_bar{{3, -1}, labels = {'one', 'two'}}))
  t.eq({count(svg, '>one<'), count(svg:match('c1" d="([^"]*)"'), 'M')}, {1, 2})
  local _, fig = plot.svg_hist{{0, 0.1, 0.2, 0.9, 1, nan}, bins = 2}
  t.eq(fig.values, {3, 2})
  _, fig = plot.svg_hist{tensor{{1, 2}, {2, 3}}}
  t.eq(fig.values, {1, 2, 1})
end)

t.test('marching squares', function()
  t.eq(contour.lines({{0, 0}, {1, 1}}, 0.25), {{1, 1.25, 2, 1.25}})
  t.eq(#contour.lines({{0, nan}, {1, 1}}, 0.25), 0)
  local ring = contour.lines({{0, 0, 0}, {0, 1, 0}, {0, 0, 0}}, 0.5)
  t.eq(#ring, 1)
  t.eq({#ring[1], ring[1][1], ring[1][2]}, {10, ring[1][9], ring[1][10]})
  local all = contour.lines({{1, 1}, {1, 1}}, 0, true)[1]
  local lo, hi = math.min(unpack(all)), math.max(unpack(all))
  t.eq({lo, hi}, {1, 2})
end)

t.test('marching squares: every point is on a cell edge, at the level', function()
  local z = series(15, function(i)
    return series(15, function(j) return (i * i * 7919 + j * j * j * 104729) % 101 end)
  end)
  local points = 0
  for _, line in ipairs(contour.lines(z, 50.5)) do
    for k = 1, #line, 2 do
      local x, y = line[k], line[k + 1]
      local j, i = math.min(math.floor(x), 14), math.min(math.floor(y), 14)
      local u, v = x - j, y - i
      local low = z[i][j] + (z[i][j + 1] - z[i][j]) * u
      local high = z[i + 1][j] + (z[i + 1][j + 1] - z[i + 1][j]) * u
      t.near(low + (high - low) * v, 50.5, 1e-9)
      t.eq(u * v * (1 - u) * (1 - v) < 1e-12, true)
      if k > 1 then -- both ends of a piece belong to one cell
        t.eq(math.max(math.abs(x - line[k - 2]), math.abs(y - line[k - 1])) <= 1, true)
      end
      points = points + 1
    end
  end
  t.eq(points > 100, true)
end)

t.test('contour and heatmap', function()
  local svg, fig = plot.svg_contour{function(x, y) return x * y end, grid = 20, levels = 4,
                                    points = {x = {0, 1}, y = {0, 1}, class = {0, 1}}}
  well_formed(svg)
  local edges = {}
  for k, band in ipairs(fig.bands) do edges[k] = band.lo end
  t.near(edges, {0, 0.25, 0.5, 0.75})
  -- the middle of probabilities is 0.5; other values have no special middle
  local function middle(args) return select(2, plot.svg_contour(args)).middle end
  t.eq({middle{{{-3, 0}, {1, 9}}}, middle{{{-3, 0}, {1, 9}}, level = 2}, middle{{{0, 1}, {1, 0}}}}, {nil, 2, 0.5})
  t.eq({count(svg, 'evenodd'), count(svg, 'class="p2"'), fig.middle}, {4, 2, 0.5})
  t.eq(plot.svg_contour{{{0, 1}, {1, 0}}}, (plot.svg_contour{tensor{{0, 1}, {1, 0}}}))
  svg = well_formed((plot.svg_heatmap{{{1, 2}, {3, nan}}, rows = {'a', 'b'}}))
  t.eq({count(svg, '>3<'), count(svg, '>nan<'), count(svg, '>b<')}, {1, 1, 1})
  fig = select(2, plot.svg_contour{function(x) return x end, points = {x = {-3, 3}, y = {0, 1}}})
  t.eq({fig.x_lo < -3, fig.x_hi > 3, fig.y_lo, fig.y_hi}, {true, true, 0, 1})
end)

t.test('one figure of bands, lines and dots', function()
  local x, y, lo, hi = {1, 2, 3}, {2, 3, 4}, {1, 2, 3}, {3, 4, 5}
  local svg, fig = plot.svg_line{{x = x, y = y, low = lo, high = hi, label = 'mean'},
                                 {x = x, y = hi, kind = 'scatter', label = 'one'}}
  well_formed(svg)
  t.eq({count(svg, 'fill%-opacity'), count(svg, 'h0M'), count(svg, '>mean<'), count(svg, '<circle')}, {1, 2, 1, 1})
  t.near({fig.y_lo, fig.y_hi}, {1 - 0.16, 5 + 0.16}, 1e-9) -- the band is included in the range
  local band = plot.svg_fill_between{x, lo, hi, label = 'b'}
  t.eq({count(band, 'z" fill="currentColor" fill%-opacity=".2"'), count(band, 'stroke%-linejoin')}, {1, 0})
  local gap = plot.svg_fill_between{{1, 2, 3, 4, 5}, {0, 0, nan, 0, 0}, {1, 1, 1, 1, 1}}
  t.eq(count(gap:match('d="(M[^"]*z)"'), 'M'), 2)
  local both = well_formed((plot.svg_scatter{x, y, class = {'a', 'b', 'a'},
                                             {x = x, y = y, kind = 'line', label = 'f'}}))
  t.eq({count(both, '<circle'), count(both, '>f<'), count(both, '>series')}, {2, 1, 0})
end)

t.test('labels are for series without one of their own', function()
  local x = {1, 2}
  local svg = plot.svg_line{{x = x, y = x, label = 'own'}, {x = x, y = x}, labels = {'given'}}
  t.eq({count(svg, '>own<'), count(svg, '>given<')}, {1, 1})
  t.raises(function() plot.line{{x = x, y = x, label = 'own'}, {x = x, y = x}, labels = {'a', 'b'}} end,
           'labels has 2 values, expected 1 %(one per series without a label of its own%)')
  svg = plot.svg_line{{1, 2}, {3, 4}, labels = {'a', 'b'}} -- a label for each list: none is x
  t.eq({count(svg, '>a<'), count(svg, '>b<')}, {1, 1})
  t.raises(function() plot.line{{1, 2}, {3, 4}, labels = {'a', 'b', 'c'}} end,
           'labels has 3 values, expected 1 %(one per series; of several lists the first is x%)')
  t.raises(function() plot.line{{x = x, y = x, kind = 'dots'}} end, "kind of series 1 is 'dots', expected 'line'")
  t.raises(function() plot.line{{x = x, low = x}} end, 'only one of low and high')
  t.raises(function() plot.fill_between{x, x} end, 'got 2 lists, expected x, low and high')
end)

t.test('aspect: one unit takes as many pixels on both axes', function()
  local svg = plot.svg_line{{0, 10}, {0, 5}, aspect = 'equal'}
  local x1, y1, x2, y2 = svg:match('<path class="c1" d="M([%d.]+) ([%d.]+)L([%d.]+) ([%d.]+)"')
  t.near((x2 - x1) / 10, (y1 - y2) / 5, 0.05)
  t.raises(function() plot.line{{1, 2}, aspect = 'square'} end, "aspect is 'square', expected 'equal' or 'auto'")
  t.raises(function() plot.line{{1, 2}, aspect = 'equal', logy = true} end, 'needs linear axes')
end)

t.test('images are the pixels, exactly', function()
  local function pixels(svg) -- of the first PNG
    local text, out, bits, n = svg:match('base64,([^"]*)"'), {}, 0, 0
    for ch in text:gmatch('[%w+/]') do
      local at = ('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'):find(ch, 1, true) - 1
      bits, n = bits * 64 + at, n + 6
      if n >= 8 then
        n = n - 8
        out[#out + 1] = string.char(math.floor(bits / 2 ^ n))
        bits = bits % 2 ^ n
      end
    end
    local path = os.tmpname()
    local file = assert(io.open(path, 'wb'))
    file:write(table.concat(out))
    file:close()
    local x = require('mtorch').data.image(path):tolist()
    os.remove(path)
    return x
  end
  t.eq(pixels(well_formed((plot.svg_image{{{0, 1}, {0.5, nan}}}))), {{{0, 255}, {128, 0}}})
  t.eq(pixels((plot.svg_image{tensor{{{255}}, {{0}}, {{128}}}})), {{{255}}, {{0}}, {{128}}})
  local svg = plot.svg_images{{{{1}}, {{2}}, {{3}}}, labels = {'a', 'b', 'c'}, cols = 2}
  t.eq({count(svg, '<image'), count(svg, '>c<')}, {3, 1})
  local seen = select(2, plot.svg_image{{{{255, 0}}, {{128, 0}}, {{0, 0}}, {{255, 0}}}}).tiles[1] -- RGBA upon white
  t.eq({seen[1][1], seen[2][1], seen[3][1], seen[4]}, {{255, 255}, {128, 255}, {0, 255}})
  t.raises(function() plot.image{require('mtorch').zeros(5, 2, 2)} end, 'an image has 5 channels, expected 1')
  t.raises(function() plot.image{5, 6} end, 'an image has 1 dimension, expected %[h x w%] or')
  t.raises(function() plot.image{require('mtorch').zeros(0, 3)} end, 'plot.image: the image is empty')
  t.raises(function() plot.images{{{{1}}, {{1, 2}}}} end, 'image 2 is 1 x 1 x 2, expected the size of the first')
  t.raises(function() plot.heatmap{{1, 2}, {3, 4}, cmap = 'viridus'} end,
           "cmap 'viridus' is unknown: did you mean 'viridis'")
  t.raises(function() plot.heatmap{{1, 2}, {3, 4}, vmin = 5, vmax = 1} end, 'vmin 5 is not below vmax 1')
  -- cells of a heatmap are pixels, too; cells without a value are transparent
  local function corner(args) -- of the last cell: red, green, blue, alpha where some have no value
    local out = {}
    for k, channel in ipairs(pixels((plot.svg_heatmap(args)))) do out[k] = channel[#channel][#channel[1]] end
    return out
  end
  t.eq(corner{{1, 2}, {3, 4}, cmap = 'magma'}, {252, 253, 191})
  t.eq({corner{{1, 2}, {3, 4}}, corner{{1, 2}, {nan, 4}}}, {{253, 231, 37}, {253, 231, 37, 255}})
  t.eq(corner{{1, 2}, {4, nan}}[4], 0)
end)

t.test('terminal: pictures by half blocks, in their colours', function()
  local tty = {isatty = function() return true end}
  local environment = {LC_ALL = 'C.UTF-8', COLORTERM = 'truecolor', COLUMNS = '80'}
  local function row(v) return series(60, function() return v end) end
  local text = captured(environment, tty, function()
    plot.image{{{row(1), row(0)}, {row(0), row(0.5)}, {row(0), row(0)}}}
  end)
  t.eq(count(text, '\27%[48;2;0;128;0m\27%[38;2;255;0;0m▀'), 80)
  text = captured(environment, tty, function() plot.image{{row(0), row(1)}} end)
  t.eq(count(text, '\27%[48;2;255;255;255m\27%[38;2;0;0;0m▀'), 80)
  text = captured(plain_utf8, no_terminal, function() plot.image{{{row(1)}, {row(1)}, {row(1)}}} end)
  t.eq({text:find('\27'), text:find('█', 1, true) ~= nil}, {nil, true})
end)

t.test('terminal: images fit the screen, unless they are told how to stand', function()
  local function row() return series(28, function(j) return j end) end
  local digits = series(16, function() return series(28, row) end)
  local function lines(rows, options)
    local environment = {LC_ALL = 'C.UTF-8', COLUMNS = '80', LINES = rows}
    return count(captured(environment, no_terminal, function() plot.images{digits, cols = options} end), '\n')
  end
  t.eq({lines('60'), lines('24'), lines('24', 4), lines('5')}, {40, 18, 40, 15})
end)

t.test('terminal: pictures where it shows them, by the protocols of kitty and iTerm2', function()
  local tty = {isatty = function() return true end}
  local function shown(name, value)
    local environment = {LC_ALL = 'C.UTF-8', COLUMNS = '80', [name] = value}
    return captured(environment, tty, function() plot.line{{1, 2, 3}} end)
  end
  local iterm = shown('TERM_PROGRAM', 'iTerm.app')
  if iterm:find('^\27%]1337') then -- there is librsvg
    t.eq(iterm:match('^\27%]1337;File=inline=1:(iVBORw0KGgo)'), 'iVBORw0KGgo') -- a PNG's first bytes
    local kitty, parts = shown('KITTY_WINDOW_ID', '1'), {}
    for more, part in kitty:gmatch('\27_G[^;]*m=(%d);([^\27]*)\27\\') do parts[#parts + 1] = {more, #part} end
    t.eq(kitty:find('^\27_Gf=100,a=T,m=1;iVBORw0KGgo') ~= nil, true)
    t.eq({parts[1], parts[#parts][1]}, {{'1', 4096}, '0'})
    t.eq(shown('MTORCH_PICTURES', 'iterm2'), iterm)
    t.eq(shown('MTORCH_PICTURES', 'text'):find '\27[_%]]', nil)
  end
  t.eq(shown('TERM', 'xterm'):find('\27[_%]]'), nil)
end)

t.test('a PNG without librsvg: one sentence at the user\'s line, and no file', function()
  assert(os.execute('mkdir ' .. folder) == 0)
  t.write_file(folder .. '/librsvg-2.so.2', 'no library')
  local said = t.run(('LD_LIBRARY_PATH=%s'):format(folder), ("mt.plot.line{{1, 2}, path = '%s/a.png'}"):format(folder))
  local sentence = 'plot.line: pictures of figures as PNG: librsvg-2.so.2 cannot be loaded; on Debian: ' ..
    'apt-get install librsvg2-2; a .svg needs no library\n'
  t.eq({said:find(':2: ' .. sentence, 1, true) ~= nil, count(said, '\n'), (io.open(folder .. '/a.png'))}, {true, 1})
  os.execute('rm -r ' .. folder)
end)

t.test('a list that holds itself is refused', function()
  local loop = {}
  loop[1] = loop
  t.raises(function() plot.line(loop) end, 'plot.line: ')
  t.raises(function() plot.hist{loop} end, 'the data.* is nested deeper than 16 levels')
  t.raises(function() plot.heatmap{loop} end, 'plot.heatmap: ')
end)

t.test('errors name the operation, the values, the cure and this line', function()
  local function raises(fn, pattern)
    local message = t.raises(fn, pattern)
    if not message:find('test_plot.lua:%d+: ') then error('no user line in: ' .. message, 2) end
  end
  local ten, five = series(10, tostring), {1, 2, 3, 4, 5}
  for i = 1, 10 do ten[i] = i end
  raises(function() plot.line{ten, ten, five, path = 'a.svg'} end,
         'plot.line: series 2 has 5 values, expected 10 %(as many as x%)')
  raises(function() plot.line{five, titel = 'x'} end,
         "plot.line: unknown option 'titel': did you mean 'title'%?")
  raises(function() plot.line{{}} end, 'plot.line: series 1 is empty: give at least one value')
  raises(function() plot.line{} end, 'plot.line: no data')
  raises(function() plot.line{{1, 'a'}} end,
         "plot.line: series 1: value 2 is the string 'a', expected a number")
  raises(function() plot.line{five, path = 'a.pdf'} end,
         "plot.line: cannot write 'a.pdf': use a path ending in .svg or .png")
  raises(function() plot.line{five, path = '/no/such/x.svg'} end,
         "plot.line: cannot write '/no/such/x.svg': there is no folder '/no/such'")
  raises(function() plot.line{five, title = {}} end, 'title must be a string or a number, got a table')
  raises(function() plot.scatter{{1, 2}, {1, 2}, class = {1, 0 / 0}} end, 'plot.scatter: class: value 2 is NaN')
  raises(function() plot.scatter{five, five, class = {1}} end, 'class has 1 values, expected 5')
  raises(function() plot.scatter{five} end, 'plot.scatter: y is missing')
  raises(function() plot.heatmap{{1, 2}, {3}} end,
         'plot.heatmap: the data%[2%] has 1 entries, the others at its level 2')
  raises(function() plot.contour{function() end} end, 'f%(0, 0%): value 1 is a nil')
  raises(function() plot.contour{{{1, 2}, {3, 4}}, xrange = {1, 0}} end, 'xrange is not a range')
  raises(function() plot.hist{five, bins = 0.5} end, 'bins is 0.5, expected a whole number')
  raises(function() return plot.lines end, "mt.plot has no 'lines' %(did you mean 'line'%?%)")
  raises(function() report{curvs = {}} end, "report: unknown option 'curvs': did you mean 'curves'")
  local circle = {1}
  circle[2] = circle
  local made = os.tmpname()
  local path = made .. '.html'
  t.eq(report{path = path, config = {{'circle', circle}}}, path)
  os.remove(path)
  os.remove(made)
  raises(function() report{path = 'a.pdf'} end, "cannot write 'a.pdf': use a path ending in .html")
  raises(function() report{curves = {{{1, 2}, {1}}}} end,
         'report: curves%[1%]: series 1 has 1 values')
  raises(function() progress('9') end, 'progress: total must be a whole number from 0, got')
  raises(function() progress(9, {evry = 2}) end, "unknown option 'evry': did you mean 'every'%?")
end)

t.test('terminal: braille, ASCII, no escapes without a terminal', function()
  local function draw() t.eq(select('#', plot.line{{1, 3, 2}, title = 'T', width = 60}), 0) end
  local text = captured(plain_utf8, no_terminal, draw)
  t.eq({text:find('[\226][\160-\163]') ~= nil, text:find('\27') == nil}, {true, true})
  text = captured({LANG = 'C'}, nil, draw)
  t.eq({text:find('[\128-\255]') == nil, text:find('%*') ~= nil}, {true, true})
  local tty = {isatty = function() return true end}
  t.eq(captured(plain_utf8, tty, draw):find('\27%[38;5;') ~= nil, true)
  local quiet = {LC_ALL = 'C.UTF-8', NO_COLOR = '1'}
  t.eq(captured(quiet, tty, draw):find('\27'), nil)
end)

t.test('terminal: every kind, width kept, nothing printed beyond', function()
  local text = captured(plain_utf8, no_terminal, function()
    plot.scatter{{1, 2, 3}, {1, 2, nan}, class = {'a', 'b', 'a'}}
    plot.bar{{1, -2, nan}, labels = {'x', 'y', 'z'}}
    plot.hist{series(100, function(i) return i % 7 end)}
    plot.heatmap{{{1, 2}, {3, nan}}}
    plot.heatmap{series(40, function(i) return series(90, function(j) return i * j end) end)}
    plot.contour{function(x) return x end, points = {x = {0.5}, y = {0.5}}}
    plot.line{{nan}}
    plot.line{series(9, math.sqrt), series(9, math.exp), series(9, math.sin), logy = true}
  end)
  for line in text:gmatch('[^\n]+') do
    if util.length(line) > 80 then error('too wide: ' .. line) end
  end
  t.eq({text:find('█') ~= nil, text:find('no value can be drawn') ~= nil}, {true, true})
end)

t.test('terminal: 256 colours, the nearest; one row a line without UTF-8', function()
  local tty = {isatty = function() return true end}
  local function code(v, environment)
    local text = captured(environment, tty, function() plot.image{{{v}}, vmin = 0, vmax = 255} end)
    return tonumber(text:match('48;5;(%d+)m'))
  end
  local ascii = {LC_ALL = 'C', COLUMNS = '80'}
  t.eq({code(0, ascii), code(95, ascii), code(100, ascii), code(128, ascii), code(255, ascii)}, {16, 59, 241, 244, 231})
  local rows = series(40, function(i) return series(40, function() return i end) end)
  local text, lines = captured(ascii, tty, function() plot.heatmap{rows, cmap = 'gray'} end), {}
  local cube = {[16] = 0, [59] = 95, [102] = 135, [145] = 175, [188] = 215, [231] = 255}
  for line in text:gmatch('[|+]\27[^\n]*') do
    local number = tonumber(line:match('48;5;(%d+)m'))
    lines[#lines + 1] = cube[number] or 8 + 10 * (number - 232)
  end
  for i = 2, #lines do t.eq(lines[i] >= lines[i - 1], true) end
  t.eq({#lines, lines[1], lines[#lines]}, {24, 0, 255})
end)

t.test('terminal: tables, names and axes', function()
  local function lines_of(draw)
    local list = {}
    for line in captured(plain_utf8, no_terminal, draw):gmatch('[^\n]+') do list[#list + 1] = line end
    return list
  end
  -- ten classes fit into 80 columns, with equal decimals
  local rows = series(10, function(i) return series(10, function(j) return i == j and 0.9732 or 0.003 * j end) end)
  local lines = lines_of(function() plot.heatmap{rows} end)
  t.eq({#lines, lines[1]:match('^ 1  (%S+) (%S+) (%S+)')}, {11, '0.973█', '0.006·', '0.009·'})
  t.eq(lines_of(function() plot.heatmap{{{12, 0}, {3, 900}}} end)[2]:match('%S+ +(%S+) +(%S+)'), '3·')
  lines = lines_of(function() plot.heatmap{series(9, function() return series(70, math.sin) end),
    rows = series(9, function(i) return 'name ' .. i end)} end)
  for i = 1, 9 do t.eq(lines[i]:find('name ' .. i .. ' ┤', 1, true), 1) end
  -- integers have no decimals; the axes are swapped
  lines = lines_of(function() plot.hist{{1, 2, 2, 3}, xlabel = 'dice'} end)
  t.eq({lines[1], lines[2]:match('^1 █'), lines[5]:match('%S+')}, {'dice', '1 █', 'count'})
  lines = lines_of(function() plot.line{{4}} end)
  t.eq(lines[#lines]:match('^ *(.*)$'), '1')
  -- a single point has four dots, many have one each; dots are drawn over lines
  local function dots(draw)
    local n = 0
    for high, low in captured(plain_utf8, no_terminal, draw):gmatch('\226([\160-\163])([\128-\191])') do
      local bits = (high:byte() - 160) * 64 + low:byte() - 128
      while bits > 0 do n, bits = n + bits % 2, math.floor(bits / 2) end
    end
    return n
  end
  t.eq({dots(function() plot.line{{4}} end), dots(function() plot.scatter{{1}, {1}} end)}, {4, 4})
  local same = series(500, function() return 1 end)
  t.eq(dots(function() plot.scatter{same, same} end), 1)
  local text = table.concat(lines_of(function()
    plot.scatter{{1, 2, 3}, {1, 2, 3}, {x = {1, 3}, y = {1, 3}, kind = 'line'}}
  end), '\n')
  t.eq(count(text, '%*'), 3 + 1) -- and the legend
  -- pixels of a file are not columns
  for _, line in ipairs(lines_of(function() plot.line{{1, 2, 3}, width = 640} end)) do
    t.eq(util.length(line) <= 80, true)
  end
  -- a circle is as high as it is wide: a cell is twice as high
  local angle = series(90, function(i) return i / 90 * 2 * math.pi end)
  lines = lines_of(function()
    plot.scatter{series(90, function(i) return math.cos(angle[i]) end),
      series(90, function(i) return math.sin(angle[i]) end), aspect = 'equal'}
  end)
  t.eq(util.length(lines[19]:match('└(.*)$')), 36)
end)

t.test('report is one small page', function()
  local path = folder .. '.html'
  local times = series(201, function(i) return i == 1 and 5 or 0.001 * (i - 1) end)
  t.eq(report{path = path, title = 'A <run>', config = {b = 1, a = {c = '<x>'}},
              curves = {{title = 'Loss', x = {1, 2, 3}, y = {3, 2, 1.5}}, {{1, 2}, {3, 4}, {5, 6}}},
              surface = {function(x, y) return x * y end}, timing = {epoch = times, total = 2},
              table = {{'epoch', 'loss'}, {1, 0.25}}, notes = 'one\n\ntwo & three'}, path)
  local html = read(path)
  os.remove(path)
  t.eq({count(html, '<svg'), count(html, '<script'), count(html, '<link'), count(html, 'src=')},
       {4, 0, 0, 0})
  html = html:gsub('<!%-%-mtorch%-run .-%-%->', '') -- the data of mt.compare_runs
  t.eq({count(html, 'a%.c'), count(html, '&lt;x&gt;'), count(html, '<p>two &amp; three</p>')},
       {1, 1, 1})
  t.eq({count(html, '>101 ms<'), count(html, '>5 s<'), count(html, '<b>1.5</b>')}, {1, 1, 1})
  t.eq({html:find('prefers%-color%-scheme:dark') ~= nil, #html < 200000}, {true, true})
  t.eq(html:find('a%.c') < html:find('<th>b</th>'), true)
  for svg in html:gmatch('<svg.-</svg>') do well_formed(svg) end
end)

t.test('report: forms of curves and timing', function()
  local path = folder .. '.html'
  local function page(args)
    args.path = path
    report(args)
    local html = read(path)
    os.remove(path)
    return html
  end
  local html = page{curves = {loss = {train = {3, 2}, valid = {4, 3}}, accuracy = {1, 2, 3}},
                    timing = series(20, function(i) return i / 1000 end)}
  t.eq({count(html, '<svg'), count(html, '<b>'), count(html, '>train<'), count(html, 'all steps</th>')}, {3, 3, 1, 1})
  t.eq(count(html, '<tr>'), 2) -- the head and one row
  t.eq({count(page{curves = {3, 2, 1}}, '<svg'), count(page{curves = {{3, 2, 1}}}, '<svg')}, {1, 1})
  t.eq(count(page{curves = {loss = {{1, 2}, {5, 6}, xlabel = 'epoch'}}}, '>epoch<'), 1)
  t.eq(count(page{curves = {require('mtorch').tensor{3, 2, 1}}}, '<svg'), 1)
  t.raises(function() page{timing = {1, 2, 'x'}} end, "report: timing%[3%] is the string 'x', expected a number")
  t.raises(function() page{timing = {'x'}} end, "report: timing%[1%] is the string 'x'")
  t.raises(function() page{timing = {epoch = {1, 'x'}}} end, 'report: timing.epoch%[2%] is the string')
  t.raises(function() page{timing = {epoch = 'x'}} end, 'report: timing.epoch is the string .* expected seconds')
  t.raises(function() page{curves = {loss = 'x'}} end,
    "report: curves.loss is the string 'x', expected a list of numbers")
  t.raises(function() page{curves = {loss = {}}} end, 'report: curves.loss: no data')
end)

--- Returns a host whose clock advances by `step` at every call.
local function host(live, step)
  local now = 0
  return {isatty = function() return live end, columns = function() return 60 end,
          time = function() now = now + step return now end}
end

t.test('progress: nothing without a terminal, lines when asked', function()
  local _, err = captured(plain_utf8, host(false, 1), function()
    for _ in progress(1000) do end -- luacheck: ignore
  end)
  t.eq(err, '')
  _, err = captured(plain_utf8, host(false, 1), function()
    local bar = progress(10, {label = 'train', every = 4})
    for i = 1, 10 do bar:update(i, {loss = tensor(0.5), acc = i}) end
    bar:finish()
  end)
  t.eq({count(err, '\n'), err:find('[\r\27]'), err:match('train  40%% 4/10') ~= nil},
       {3, nil, true})
  t.eq(err:match('acc 10  loss 0.5\n$') ~= nil, true)
end)

t.test('progress: a live line, at most ten a second, within the width', function()
  local out, err = captured(plain_utf8, host(true, 0.02), function()
    local seen = 0
    for i in progress(100, {label = 'x'}) do seen = seen + i end
    t.eq(seen, 5050)
    local bar = progress(3)
    bar:update(1)
    bar:print('a line')
    bar:update()
    bar:update({loss = 1})
    bar:finish()
  end)
  local draws = count(err, '\r')
  t.eq({draws > 10, draws < 40, out, count(err, '\n')}, {true, true, 'a line\n', 2})
  for line in err:gmatch('\27%[K([^\r\n]*)') do t.eq(util.length(line) <= 59, true) end
  t.eq({err:find('100%%') ~= nil, err:find('ETA') ~= nil, err:find('loss 1\n') ~= nil},
       {true, true, true})
end)

t.test('progress: bars inside bars, unknown totals, rates, iterators, values that are set', function()
  local out, err = captured(plain_utf8, host(true, 0.05), function()
    local outer = progress(2, {label = 'epoch'})
    for e = 1, 2 do
      local inner = progress(4, {label = 'batch'})
      for i in inner do inner:set{loss = i} end
      outer:print('epoch ' .. e)
      outer:update(e)
    end
  end)
  t.eq({out, count(err, 'loss 4')}, {'epoch 1\nepoch 2\n', 2})
  local line, most = 0, 0 -- the cursor stays within the two lines, and ends below one
  for mark in err:gmatch('[\n\27]%[?A?') do
    if mark == '\n' then line = line + 1 elseif mark == '\27[A' then line = line - 1 end
    if line < 0 then error('above the first line') end
    most = math.max(most, line)
  end
  t.eq({line, most, err:match('epoch 100%%[^\n]*\n$') ~= nil}, {1, 1, true})
  local _
  _, err = captured(plain_utf8, host(true, 0.05), function()
    local n, seen = 0, {}
    local bar = progress(function() n = n + 1 if n < 6 then return n, 2 * n end end,
                         {label = 'stream', unit = 'images', per_step = 8})
    for a, b in bar do seen[a] = b end
    t.eq(seen, {2, 4, 6, 8, 10})
  end)
  t.eq({err:find('%%'), err:find('ETA')}, {})
  t.eq({err:find('stream 5  ', 1, true) ~= nil, err:find('[%d.]+ images/s') ~= nil, err:sub(-1)}, {true, true, '\n'})
  local loader = {size = function() return 3 end, iter = function(self)
    return function(s, k) t.eq(s, self) if k < 3 then return k + 1, k * 10 end end, self, 0
  end}
  captured(plain_utf8, host(true, 0.05), function()
    local seen = {}
    for k, v in progress(loader, {label = 'x'}) do seen[k] = v end
    t.eq(seen, {0, 10, 20})
    for k, v in progress(pairs{x = 7, y = 8}) do seen[k] = v end
    for k, v in progress(ipairs{1, 2, 3}) do seen[k] = v end
    t.eq(seen, {1, 2, 3, x = 7, y = 8})
    local bar = progress(loader)
    t.eq(bar.total, 3)
    bar:finish()
  end)
  t.raises(function() progress(3):set(2) end, 'progress: set takes a table, got 2')
  t.raises(function() progress(3):updat(2) end, "a progress bar has no 'updat' %(did you mean 'update'")
end)

t.test('labels that are not UTF-8 are read as Latin-1; a nil among the data is named', function()
  local text = plot.svg_line{{1, 2}, title = 'caf\233 \255', labels = {'\195\169'}, legend = 'right'}
  assert(text:find('caf\195\169 \195\191', 1, true) and text:find('>\195\169<', 1, true))
  for _, args in ipairs{{nil, {1, 2}}, {{1, 2}, nil, {3, 4}}} do
    t.raises(function() plot.line(args) end, 'plot.line: argument %d is nil')
  end
  t.raises(function() plot.line(nil, {1, 2}) end, 'plot.line: argument 1 is nil')
end)

t.test('progress: an update costs little', function()
  captured(plain_utf8, {isatty = function() return true end}, function()
    local bar, stats = progress(1e6), {loss = 1}
    local start = os.clock()
    for i = 1, 1e6 do bar:update(i, stats) end
    t.eq(os.clock() - start < 0.3, true)
  end)
end)

t.finish()
