-- init.lua -- mt.plot: converts the user's lists and options to figures, which are drawn as SVG or as text
local extend = require('mtorch').extend
local util = extend.util
local scale = require 'mtorch.extras.plot.scale'
local png = require 'mtorch.extras.plot.png'
local svg = require 'mtorch.extras.plot.svg'
local term = require 'mtorch.extras.plot.term'
local data = require 'mtorch.extras.plot.data'
local figures = require 'mtorch.extras.plot.series'
local style = require 'mtorch.extras.plot.style'

local check, fail, is_tensor = extend.check, extend.fail, require('mtorch').is_tensor
local floor, min, ceil = math.floor, math.min, math.ceil

local plot, build = {}, figures.build

-- Options: name -> kind (see extend.check_options) --------------------------------------------------

local common = {path = 'text', id = 'text', title = 'text', xlabel = 'text', ylabel = 'text',
                width = 'number >= 10 <= 4000', height = 'number >= 10 <= 4000'}
local function options(...) return util.merged(common, ...) end

local legend = {legend = "bool|'top'|'right'|'inside top left'|'inside top right'|'inside bottom left'|" ..
                         "'inside bottom right'"}
local looks = util.merged(legend, {label = 'text', labels = 'list', color = 'any', style = 'any',
                                   linewidth = 'number > 0 <= 50', ylim = 'list'})
local axes = util.merged(looks, {logx = 'bool', logy = 'bool', aspect = 'text', xlim = 'list'})
local shades = {cmap = 'text', vmin = 'number', vmax = 'number'}

local known_options = {
  line = options(axes, {x = 'list', y = 'list', yerr = 'any', smooth = 'number >= 0 < 1'}),
  scatter = options(axes, {x = 'list', y = 'list', yerr = 'any', class = 'list'}),
  fill_between = options(axes),
  bar = options(looks, {yerr = 'any'}),
  hist = options(looks, {bins = 'number', xlim = 'list'}),
  heatmap = options(shades, {rows = 'list', cols = 'list'}),
  contour = options(legend, {xrange = 'list', yrange = 'list', levels = 'any', level = 'number', grid = 'number',
                             points = 'list', labels = 'list', cmap = 'text', aspect = 'text'}),
  image = options(shades),
  images = options(shades, {labels = 'list', cols = 'int >= 1'}),
  panels = options{rows = 'int >= 1', cols = 'int >= 1'},
}

local function is_options(value)
  return data.is_plain(value) and value[1] == nil and type(next(value)) == 'string'
end

--- Returns the list part and the options of f{...} or f(a, b, .., {options}).
local function arguments(op, kind, ...)
  local count, opts, list = select('#', ...), {}, {...}
  local last = count
  if count == 1 and data.is_plain(list[1]) then
    local only = list[1]
    list, last = {}, 0
    for key, value in pairs(only) do
      if type(key) == 'string' then opts[key] = value else list[key] = value end
      if type(key) == 'number' then last = math.max(last, key) end
    end
    local first = list[1]
    local flat = type(first) == 'number' or type(first) == 'boolean' or is_tensor(first) and first:dim() == 0
    local rows = (kind == 'heatmap' or kind == 'contour' or kind:find('^image')) and
                 (#list > 1 or (data.is_plain(first) and type(first[1]) == 'number'))
    if flat or rows then list, last = {list}, 1 end
  elseif count > 1 and is_options(list[count]) then
    opts, list[count], last = list[count], nil, count - 1
  end
  for i = 1, kind == 'panels' and 0 or last do
    if list[i] == nil then fail('%s: argument %d is nil', op, i) end
  end
  extend.check_options(op, opts, known_options[kind])
  return list, opts
end

local function figure(kind, op, list, opts)
  local fig = build[kind](op, list, opts)
  fig.op, fig.kind, fig.aspect = op, fig.kind or kind, opts.aspect
  check(not fig.aspect or fig.aspect == 'equal' or fig.aspect == 'auto',
    "%s: aspect is '%s', expected 'equal' or 'auto'", op, fig.aspect)
  if fig.aspect == 'equal' and (fig.logx or fig.logy) then
    fail(op .. ": aspect='equal' needs linear axes, without logx and logy")
  end
  for _, name in ipairs{'title', 'xlabel', 'ylabel', 'width', 'height'} do
    fig[name] = opts[name] or fig[name]
  end
  fig.legend = (opts.legend == nil or opts.legend == true) and 'top' or opts.legend
  return fig
end

--- Returns the colour map with a name, or nil without a name.
local function colour_map(op, name)
  return name and (scale.maps[name] or
    fail("%s: cmap '%s' is unknown%s", op, name, util.hint(name, util.sorted_keys(scale.maps))))
end

--- Sets the range of values of the colours: vmin..vmax, by default that of the data.
local function set_shades(op, fig, lists, opts, default)
  local lo, hi = figures.extent(fig, lists)
  lo, hi = opts.vmin or lo, opts.vmax or hi
  if (opts.vmin or opts.vmax) and lo and lo >= hi then
    fail('%s: vmin %s is not below vmax %s', op, util.number_text(lo), util.number_text(hi))
  end
  fig.z_lo, fig.z_hi = scale.widen(lo, hi, 0)
  fig.map = colour_map(op, opts.cmap) or scale.maps[default]
end

function build.heatmap(op, list, opts)
  local z = data.matrix(op, figures.single(op, list, 'a matrix'))
  local fig = {z = z, rows = data.texts(op, 'rows', opts.rows, #z, 'one per row'),
               cols = data.texts(op, 'cols', opts.cols, #z[1], 'one per column')}
  set_shades(op, fig, z, opts, 'viridis')
  fig.x_lo, fig.x_hi, fig.y_lo, fig.y_hi = 0.5, #z[1] + 0.5, #z + 0.5, 0.5
  return fig
end

--- Evaluates f on a grid of n x n points; row 1 has the lowest y.
local function sample(op, f, fig, n)
  local z = {}
  for i = 1, n do
    local y = fig.y_lo + (fig.y_hi - fig.y_lo) * (i - 1) / (n - 1)
    z[i] = {}
    for j = 1, n do
      local x = fig.x_lo + (fig.x_hi - fig.x_lo) * (j - 1) / (n - 1)
      z[i][j] = data.number(op, ('f(%.4g, %.4g)'):format(x, y), 1, (f(x, y)))
    end
  end
  return z
end

local function thresholds(op, levels, lo, hi)
  if type(levels) == 'table' or type(levels) == 'userdata' then
    local list = data.numbers(op, 'levels', levels)
    table.sort(list)
    return list
  end
  levels = levels or 10
  check(type(levels) == 'number' and levels >= 1 and levels <= 50,
    '%s: levels is %s, expected 1 to 50 or a list of values', op, tostring(levels))
  local out, step = {}, lo == 0 and hi == 1 and 1 / floor(levels) or scale.step(hi - lo, levels)
  for k = floor(lo / step + 1e-9) + 1, ceil(hi / step - 1e-9) - 1 do
    out[#out + 1] = k * step
  end
  return out
end

local point_options = {x = 'list', y = 'list', class = 'list'}

local function add_points(op, fig, source, opts)
  local p = opts.points
  if not p then return end
  local x, y
  if data.is_plain(p) and p[1] == nil then
    extend.check_options(op .. ': points', p, point_options)
    if not p.x then fail(op .. ': points has no x: give points={x=.., y=.., class=..}') end
    x, y = figures.pair(op .. ': points', p.x, p.y)
  else
    x, y = figures.pair(op .. ': points', p)
  end
  local classes = data.is_plain(p) and p.class and figures.classes(op .. ': points', x, y, p.class, opts.labels)
  fig.points = style.apply(op, classes or {{x = x, y = y, kind = 'scatter', color = 8}}, {})
  if type(source) ~= 'function' then return end
  local function cover(name, list, lo, hi)
    local p_lo, p_hi = scale.extent{list}
    if opts[name] or not p_lo or (p_lo >= lo and p_hi <= hi) then return lo, hi end
    return scale.widen(p_lo, p_hi, 0.06)
  end
  fig.x_lo, fig.x_hi = cover('xrange', x, fig.x_lo, fig.x_hi)
  fig.y_lo, fig.y_hi = cover('yrange', y, fig.y_lo, fig.y_hi)
end

function build.contour(op, list, opts)
  local source = figures.single(op, list, 'a matrix or a function f(x, y)')
  local fig = {}
  fig.x_lo, fig.x_hi = figures.range(op, 'xrange', opts.xrange or {0, 1})
  fig.y_lo, fig.y_hi = figures.range(op, 'yrange', opts.yrange or {0, 1})
  add_points(op, fig, source, opts)
  if type(source) == 'function' then
    local n = opts.grid or 60
    check(n >= 2 and n <= 500, '%s: grid is %s, expected 2 to 500', op, util.number_text(n))
    fig.z = sample(op, source, fig, floor(n))
  else
    fig.z = data.matrix(op, source)
    check(#fig.z >= 2 and #fig.z[1] >= 2, '%s: the matrix is %d x %d, expected 2 x 2 or larger', op, #fig.z, #fig.z[1])
  end
  local lo, hi = figures.extent(fig, fig.z)
  local is_fraction = not lo or (lo >= 0 and hi <= 1) -- such as a probability
  if is_fraction then lo, hi = 0, 1 else lo, hi = scale.widen(lo, hi, 0) end
  fig.z_lo, fig.z_hi, fig.level = lo, hi, opts.level or is_fraction and 0.5
  fig.middle = fig.level and fig.level > lo and fig.level < hi and fig.level or nil
  fig.map = colour_map(op, opts.cmap) or fig.middle and scale.maps.diverging or scale.maps.viridis
  local centre = fig.map == scale.maps.diverging and fig.middle or nil -- the value of the map's middle colour
  local limits = thresholds(op, opts.levels, lo, hi)
  fig.bands = {} -- each begins at lo and has the colour of its middle, 0..1 on the map
  for k = 0, #limits do
    local from, to = limits[k] or lo, limits[k + 1] or hi
    fig.bands[k + 1] = {lo = from, shade = scale.shade((from + to) / 2, lo, hi, centre)}
  end
  return fig
end

--- Returns a figure of images of one size in rows; three channels are red, green, blue, 0..1 or 0..255.
local function tiled(op, tiles, opts)
  local lists = {}
  for _, tile in ipairs(tiles) do
    for _, channel in ipairs(tile) do util.append(lists, channel) end
  end
  local fig, channels = {tiles = tiles, cols = 1}, #tiles[1]
  local most = select(2, scale.extent(lists))
  if channels == 3 and opts.cmap then fail(op .. ': cmap is for images of one channel, these have three') end
  local of_colours = channels == 3 and {vmin = opts.vmin or 0, vmax = opts.vmax or (most and most > 1 and 255 or 1)}
  set_shades(op, fig, lists, of_colours or opts, 'gray')
  return fig
end

function build.image(op, list, opts)
  return tiled(op, {data.image(op, figures.single(op, list, 'an image'))}, opts)
end

function build.images(op, list, opts)
  local tiles = data.images(op, #list == 1 and list[1] or list)
  local fig, cols = tiled(op, tiles, opts), opts.cols or ceil(math.sqrt(#tiles))
  fig.cols, fig.may_wrap = min(cols, #tiles), opts.cols == nil
  fig.labels = data.texts(op, 'labels', opts.labels, #tiles, 'one per image')
  return fig
end

--- Figures in rows: each panel has the arguments of a function, and its name as kind.
function build.panels(op, list, opts)
  local n = #list
  local cols = opts.cols or opts.rows and ceil(n / opts.rows) or ceil(math.sqrt(n))
  local fig = {panels = {}, cols = min(cols, n), rows = opts.rows or ceil(n / cols)}
  if n == 0 then fail(op .. ": no panels: give {kind='line', ..}, ..") end
  check(fig.rows * cols >= n,
    '%s: %d panels, expected at most %d (rows=%d times cols=%d)', op, n, fig.rows * cols, fig.rows, cols)
  for i = 1, n do
    local panel, where = list[i], ('%s: panel %d'):format(op, i)
    check(data.is_plain(panel), "%s is %s, expected a table such as {kind='line', ..}", where, extend.describe(panel))
    local args, kind = util.merged(panel), panel.kind
    check(type(kind) == 'string' and kind ~= 'panels' and known_options[kind],
      "%s: kind is %s, expected the name of a function of mt.plot, such as 'line'", where, extend.describe(kind))
    if args.path then fail('%s: path belongs to the whole picture: plot.panels{.., path=}', where) end
    args.kind = nil
    fig.panels[i] = figure(kind, where, arguments(where, kind, args))
  end
  return fig
end

-- The public functions ----------------------------------------------------------------------------

local function show(kind, ...)
  local op = 'plot.' .. kind
  local list, opts = arguments(op, kind, ...)
  local path = opts.path and data.check_path(op, opts.path, 'svg', 'png')
  local fig = figure(kind, op, list, opts)
  if path then return (util.write_file(op, path, svg.file(op, path, fig))) end
  local front_end = extend.front_end()
  if front_end then
    front_end.display({['image/svg+xml'] = svg.draw(fig), ['text/plain'] = fig.title or op}, opts.id)
    return
  end
  local inline = png.terminal_protocol()
  local drawn, file = pcall(inline and svg.file or error, op, 'inline.png', fig) -- without librsvg it fails
  io.stdout:write(drawn and inline(file) or term.draw(fig))
  io.stdout:flush()
end

for kind, doc in pairs{
  line = "line{x, y1, .., title=, xlabel=, ylabel=, labels={..}, color=, style=, linewidth=, yerr=, smooth=, " ..
    "xlim=, ylim=, logx=, logy=, aspect=, legend=, width=, height=, path=}: lines over x, over 1..n for one list. " ..
    "An entry {x=, y=, label=, color=, style=, ..} has its own x and looks, with low= and high= a band; " ..
    "kind='scatter' draws dots. color: a name, '#rrggbb' or a number of the palette. style: '-' '--' ':' '-.', a " ..
    "marker of . o x + * ^ v s d, or both as 'o-'. Either may be a list with one per series. yerr: a number, one " ..
    "per point, or {low, high}. smooth=0.9 draws the moving average as TensorBoard does, over the pale curve. " ..
    "xlim={low, high}. legend: 'top', 'right', 'inside top left', .. or false. With a path ('a.svg', 'a.png') a " ..
    "file, else text, or a picture in a notebook; with id='name' it replaces the picture of that name there.",
  scatter = "scatter{x, y, class={..}, labels={..}, color=, style=, yerr=, aspect=, ..}: dots coloured by class; " ..
    "[n x 2] is both. Other options and entries {x=, y=, label=, kind='line'} as in line; aspect='equal': one unit " ..
    "is as long on both axes.",
  fill_between = 'fill_between{x, low, high, label=, color=, style=, ..}: the band between two curves, with lines ' ..
    'at its ends if a style is given; options and entries as in line.',
  bar = "bar{values, labels={..}, color=, style=, yerr=, ylim=, ..}: one bar per value, as an outline with " ..
    "style='-'. Entries {y=, label=, color=, yerr=} are sets of bars side by side.",
  hist = "hist{values, .., bins=, labels={..}, color=, style=, xlim=, ..}: how often values occur (a tensor of any " ..
    "shape). Several lists, or entries {x=, label=, color=}, lie over each other, with style='-' as outlines; bins " ..
    "are chosen if nil; values beyond xlim are left out.",
  heatmap = "heatmap{matrix, rows={..}, cols={..}, cmap='viridis', vmin=, vmax=, ..}: row 1 on top, as a matrix is " ..
    'printed. cmap: viridis magma gray diverging.',
  contour = 'contour{matrix or f(x, y), xrange={0,1}, yrange={0,1}, levels=10, level=, grid=60, points={x=, y=, ' ..
    'class=}, cmap=, aspect=, ..}: filled bands and the line of `level`, 0.5 if all values are from 0 to 1; ' ..
    'matrix row 1 is low y.',
  image = "image{x, cmap='gray', vmin=, vmax=, ..}: pixels as they are, row 1 on top: [h x w], [1 x h x w], or " ..
    '[3 x h x w] in colour (0..1, or 0..255 where a value is above 1); with alpha [2 x h x w], [4 x h x w]. Gray ' ..
    'spans the values of the images.',
  images = 'images{x, cols=, labels={..}, cmap=, vmin=, vmax=, ..}: a list of images of one size, or [n x h x w], ' ..
    '[n x 1 x h x w], [n x 3 x h x w], side by side.',
  panels = "panels{{kind='line', ..}, {kind='heatmap', ..}, .., rows=, cols=, title=, width=, height=, path=}: " ..
    "figures in rows in one picture, in a terminal one under another. A panel has the arguments of the function " ..
    "that its kind names.",
} do
  plot[kind] = extend.declare(kind .. '(..)', doc, function(...) return show(kind, ...) end)
end

plot.graph = extend.declare('graph(loss: tensor, path: string = nil, params: table = nil, title: text = nil)',
  'The autograd graph of a tensor: operations with shapes, inputs above their users. params: a module, or {name = ' ..
    "tensor}, for the names of parameters. Without a path it is text. path='a.svg' or 'a.png' writes what Graphviz " ..
    "draws, 'a.dot' the text for Graphviz, as the others do where its program dot is not found; returns the path. " ..
    'Draw it before backward, which frees the graph.',
  function(...) return require('mtorch.extras.plot.graph').show(...) end)

--- svg_line(args, how) and others return the SVG text of one figure, and the figure. `how`: op= (for error messages),
--- inline=true (without style and background, for pages with plot.css), budget= (target size in bytes, default 150000).
for kind in pairs(known_options) do
  plot['svg_' .. kind] = function(args, how)
    local op = how and how.op or 'plot.svg_' .. kind
    local fig = figure(kind, op, arguments(op, kind, args))
    return svg.draw(fig, how), fig
  end
end

--- The style sheet of inline figures (class mtp), light and dark.
plot.css = svg.css

--- Text with the characters &, <, >, quotes made safe for XML and HTML.
plot.escape = svg.escape

return extend.strict(plot, 'mt.plot')
