-- init.lua -- mt.plot: converts the user's lists and options to figures, which are drawn as SVG or as text
local extend = require('mtorch').extend
local util = extend.util
local scale = require 'mtorch.extras.plot.scale'
local svg = require 'mtorch.extras.plot.svg'
local term = require 'mtorch.extras.plot.term'
local data = require 'mtorch.extras.plot.data'

local fail, plain, is_tensor = extend.fail, util.plain, require('mtorch').is_tensor
local floor, min, max = math.floor, math.min, math.max

local plot = {}

-- Options: name -> kind (see extend.check_options) --------------------------------------------------

local function options(extra)
  local known = {path = 'text', id = 'text', title = 'text', xlabel = 'text', ylabel = 'text',
                 width = 'number', height = 'number'}
  for name, kind in pairs(extra) do known[name] = kind end
  return known
end

local series_kinds = {line = true, scatter = true, fill_between = true}

local known_options = {
  line = options{x = 'list', y = 'list', label = 'text', labels = 'list', logx = 'bool',
                 logy = 'bool', aspect = 'text'},
  scatter = options{x = 'list', y = 'list', label = 'text', labels = 'list', class = 'list',
                    logx = 'bool', logy = 'bool', aspect = 'text'},
  fill_between = options{label = 'text', labels = 'list', logx = 'bool', logy = 'bool'},
  bar = options{labels = 'list'},
  hist = options{bins = 'number'},
  heatmap = options{rows = 'list', cols = 'list', cmap = 'text', vmin = 'number', vmax = 'number'},
  contour = options{xrange = 'list', yrange = 'list', levels = 'any', level = 'number',
                    grid = 'number', points = 'list', labels = 'list', cmap = 'text',
                    aspect = 'text'},
  image = options{cmap = 'text', vmin = 'number', vmax = 'number'},
  images = options{cmap = 'text', vmin = 'number', vmax = 'number', labels = 'list',
                   cols = 'number'},
}

local function is_options(value)
  return data.is_plain(value) and value[1] == nil and type(next(value)) == 'string'
end

--- Returns the list part and the options of f{...} or f(a, b, .., {options}).
local function arguments(op, kind, ...)
  local count, opts, list = select('#', ...), {}, {...}
  if count == 1 and data.is_plain(list[1]) then
    local only = list[1]
    list = {}
    for key, value in pairs(only) do
      if type(key) == 'string' then opts[key] = value else list[key] = value end
    end
    local first = list[1]
    local flat = type(first) == 'number' or type(first) == 'boolean' or is_tensor(first) and first:dim() == 0
    local rows = (kind == 'heatmap' or kind == 'contour' or kind:find('^image')) and
                 (#list > 1 or (data.is_plain(first) and type(first[1]) == 'number'))
    if flat or rows then list = {list} end
  elseif count > 1 and is_options(list[count]) then
    opts, list[count] = list[count], nil
  end
  extend.check_options(op, opts, known_options[kind])
  for _, name in ipairs{'width', 'height'} do
    local v = opts[name]
    if v and not (v >= 10 and v <= 4000) then
      fail('%s: %s is %s, expected 10 to 4000', op, name, util.number_text(v))
    end
  end
  return list, opts
end

local function single_argument(op, list, what)
  if #list == 0 then fail('%s: no data: give %s', op, what) end
  if #list > 1 then fail('%s: got %d lists, expected one: %s', op, #list, what) end
  return list[1]
end

-- Figures: op, kind, title, xlabel, ylabel, width, height, and what the kind draws ----------------

--- Returns the range of the values of lists; if there is none, the figure gets a note.
local function extent(fig, lists, log)
  local lo, hi = scale.extent(lists, log)
  if not lo then fig.note = 'no value can be drawn' end
  return lo, hi
end

local function set_ranges(fig, opts)
  local xs, ys, scatter = {}, {}, true
  for _, s in ipairs(fig.series) do
    xs[#xs + 1], ys[#ys + 1] = s.x, s.y or s.low
    if s.low then ys[#ys + 1], ys[#ys + 2] = s.low, s.high end
    s.kind = s.kind or (s.y and fig.kind or 'fill_between')
    scatter = scatter and s.kind == 'scatter'
  end
  fig.logx, fig.logy = opts.logx, opts.logy
  local x_lo, x_hi = extent(fig, xs, fig.logx)
  local y_lo, y_hi = extent(fig, ys, fig.logy)
  fig.whole = scale.whole(xs)
  fig.x_lo, fig.x_hi = scale.widen(x_lo, x_hi, scatter and 0.04 or 0, fig.logx)
  fig.y_lo, fig.y_hi = scale.widen(y_lo, y_hi, 0.04, fig.logy)
end

local function is_series(entry)
  return data.is_plain(entry) and (entry.y ~= nil or entry.low ~= nil or entry.high ~= nil)
end

local series_options = {x = 'list', y = 'list', low = 'list', high = 'list', label = 'text',
                        kind = 'text'}

--- Adds the numbers of one part of a series, as many as its x, which is 1..n by default.
local function add_part(op, s, name, key, value)
  s[key] = data.numbers(op, name, value)
  if not s.x then
    s.x = {}
    for i = 1, #s[key] do s.x[i] = i end
  end
  data.same_length(op, name, s[key], s.x)
end

local function add_one(op, series, entry, y)
  local name = 'series ' .. #series + 1
  local s = {label = entry.label, kind = entry.kind}
  if entry.x then s.x = data.numbers(op, 'x of ' .. name, entry.x) end
  if y then add_part(op, s, name, 'y', y) end
  if entry.low ~= nil or entry.high ~= nil then
    if entry.low == nil or entry.high == nil then
      fail('%s: %s has only one of low and high: give both ends of the band', op, name)
    end
    add_part(op, s, 'low of ' .. name, 'low', entry.low)
    add_part(op, s, 'high of ' .. name, 'high', entry.high)
  end
  series[#series + 1] = s
end

--- Adds the series of {x=, y=, low=, high=, label=, kind=}; y may be a list of lists or an [n x k] tensor.
local function add_entry(op, series, entry)
  if entry.kind and not series_kinds[entry.kind] then
    fail("%s: kind of series %d is '%s', expected 'line', 'scatter' or 'fill_between'", op,
         #series + 1, entry.kind)
  end
  if entry.y == nil then return add_one(op, series, entry) end
  local ys = {entry.y}
  if data.is_plain(entry.y) and type(plain(entry.y[1])) == 'table' then
    ys = entry.y
    if #plain(ys[1]) == 1 and #ys > 1 then ys = {ys} end -- n rows of one value are one series
  end
  for _, y in ipairs(ys) do
    for _, column in ipairs(not data.is_plain(y) and data.columns(op, y) or {y}) do
      add_one(op, series, entry, column)
    end
  end
end

--- Splits the list part into lists of numbers and {x=, y=, ..} entries.
local function split_list(list)
  local lists, entries = {}, {}
  for i = 1, #list do
    local to = is_series(list[i]) and entries or lists
    to[#to + 1] = list[i]
  end
  return lists, entries
end

--- Names the series: its own label, else the next of `labels`; numbers if none of several has a name.
local function finish_series(op, series, labels, x_given)
  local unnamed = 0
  for i, s in ipairs(series) do
    unnamed, s.colour = unnamed + (s.label and 0 or 1), i
  end
  local all = unnamed == #series
  labels = data.texts(op, 'labels', labels, unnamed,
                      x_given and 'one per series; of several lists the first is x' or
                      all and 'one per series' or 'one per series without a label of its own')
  local k = 0
  for i, s in ipairs(series) do
    if not s.label then
      k = k + 1
      s.label = labels and labels[k] or (all and #series > 1 and 'series ' .. i) or nil
    end
  end
  return series
end

local function add_entries(op, series, entries)
  for _, entry in ipairs(entries) do
    extend.check_options(op, entry, series_options)
    add_entry(op, series, entry)
  end
end

--- The series of several lists, the first of which is x if `with_x`.
local function series_of(op, lists, with_x)
  local series = {}
  local x = with_x and data.numbers(op, 'x', lists[1]) or nil
  for i = with_x and 2 or 1, #lists do add_entry(op, series, {x = x, y = lists[i]}) end
  return series, x
end

local function collect_series(op, list, opts)
  local lists, entries = split_list(list)
  local series, x = series_of(op, lists, #lists > 1)
  local labels = plain(opts.labels)
  if x and type(labels) == 'table' and #labels ~= #series and #labels == #lists then -- each list has a name
    series, x = series_of(op, lists, false)
  end
  add_entries(op, series, entries)
  if opts.y then add_entry(op, series, {x = opts.x, y = opts.y, label = opts.label}) end
  if #series == 0 then fail(op .. ': no data: give at least one list of numbers') end
  return finish_series(op, series, opts.labels, x ~= nil)
end

local build = {}

function build.line(op, list, opts)
  local fig = {kind = 'line', series = collect_series(op, list, opts)}
  set_ranges(fig, opts)
  return fig
end

function build.fill_between(op, list, opts)
  local lists, entries = split_list(list)
  if #lists ~= 3 and (#lists > 0 or #entries == 0) then
    fail('%s: got %d lists, expected x, low and high', op, #lists)
  end
  local series = {}
  if #lists == 3 then
    add_entry(op, series, {x = lists[1], low = lists[2], high = lists[3], label = opts.label})
  end
  add_entries(op, series, entries)
  local fig = {kind = 'line', series = finish_series(op, series, opts.labels)}
  set_ranges(fig, opts)
  return fig
end

--- Returns one series per distinct class, sorted, with numbers before texts.
local function by_class(op, x, y, class, labels)
  class = plain(class)
  if type(class) ~= 'table' then fail('%s: class is a %s, expected a list', op, type(class)) end
  data.same_length(op, 'class', class, x)
  local groups = {}
  for i = 1, #x do
    local c = util.scalar(class[i])
    if c == nil then fail('%s: class: value %d is empty', op, i) end
    local group = groups[c] or {x = {}, y = {}}
    groups[c] = group
    group.x[#group.x + 1], group.y[#group.y + 1] = x[i], y[i]
  end
  local keys, series = util.sorted_keys(groups), {}
  labels = data.texts(op, 'labels', labels, #keys, 'one per class')
  for k, key in ipairs(keys) do
    local s = groups[key]
    s.label, s.colour = labels and labels[k] or tostring(key), k
    series[k] = s
  end
  return series
end

--- Returns x and y of {x, y}, {[n x 2] tensor} or {x=, y=}.
local function pair(op, x, y)
  if y == nil then
    local both = data.columns(op, x, 2)
    if not both then fail(op .. ': y is missing: give x and y, or points as [n x 2]') end
    x, y = both[1], both[2]
  end
  x, y = data.numbers(op, 'x', x), data.numbers(op, 'y', y)
  data.same_length(op, 'y', y, x)
  return x, y
end

function build.scatter(op, list, opts)
  local lists, entries = split_list(list)
  local series = {}
  if #lists > 0 or opts.x then
    if #lists > 2 then fail('%s: got %d lists, expected x and y', op, #lists) end
    local x, y = pair(op, lists[1] or opts.x, lists[1] and lists[2] or opts.y)
    series = opts.class and by_class(op, x, y, opts.class, opts.labels) or
             {{x = x, y = y, label = opts.label}}
  end
  add_entries(op, series, entries)
  if #series == 0 then fail(op .. ': no data: give x and y') end
  local fig = {kind = 'scatter', series = finish_series(op, series, not opts.class and opts.labels or nil)}
  set_ranges(fig, opts)
  return fig
end

function build.bar(op, list, opts)
  local values = data.numbers(op, 'values', single_argument(op, list, 'a list of values'))
  local fig = {values = values, labels = data.texts(op, 'labels', opts.labels, #values, 'one per value')}
  local lo, hi = extent(fig, {values})
  fig.y_lo, fig.y_hi = min(lo or 0, 0), max(hi or 1, 0)
  if fig.y_hi - fig.y_lo < 1e-290 then fig.y_hi = 1 end
  local room = (fig.y_hi - fig.y_lo) * 0.06
  if fig.y_lo < 0 then fig.y_lo = fig.y_lo - room end
  if fig.y_hi > 0 then fig.y_hi = fig.y_hi + room end
  fig.x_lo, fig.x_hi = 0.5, #values + 0.5
  return fig
end

--- Returns range and number of bins: one bin per integer in a small range, else by Freedman and Diaconis' width.
local function hist_bins(values, lo, hi, bins)
  if not bins and hi - lo < 60 and math.abs(lo) < 1e9 and scale.whole{values} then
    return lo - 0.5, hi + 0.5, hi - lo + 1
  end
  if not bins then
    table.sort(values)
    local n = #values
    local quartiles = values[math.ceil(0.75 * n)] - values[math.ceil(0.25 * n)]
    local width = 2 * quartiles / n ^ (1 / 3)
    bins = width > 0 and (hi - lo) / width or math.sqrt(n)
    bins = min(max(math.ceil(bins), 5), 60)
  end
  lo, hi = scale.widen(lo, hi, 0)
  return lo, hi, bins
end

function build.hist(op, list, opts)
  local all = data.flatten(op, single_argument(op, list, 'a list of values'), {})
  if #all == 0 then fail(op .. ': the data is empty: give at least one value') end
  local bins = opts.bins
  if bins and not (bins >= 1 and bins <= 1000 and bins == floor(bins)) then
    fail('%s: bins is %s, expected a whole number from 1 to 1000', op, util.number_text(bins))
  end
  local values = {}
  for _, v in ipairs(all) do
    if scale.finite(v) then values[#values + 1] = v end
  end
  local fig = {}
  local lo, hi = extent(fig, {values})
  if not lo then lo, hi, bins = 0, 1, 1 end
  fig.x_lo, fig.x_hi, bins = hist_bins(values, lo, hi, bins)
  local counts, per_unit, most = {}, bins / (fig.x_hi - fig.x_lo), 1
  for b = 1, bins do counts[b] = 0 end
  for i = 1, #values do
    local b = min(max(floor((values[i] - fig.x_lo) * per_unit) + 1, 1), bins)
    counts[b] = counts[b] + 1
    most = max(most, counts[b])
  end
  fig.values, fig.y_lo, fig.y_hi = counts, 0, most * 1.06
  fig.ylabel = 'count'
  return fig
end

--- Returns the colour map with a name, or nil without a name.
local function colour_map(op, name)
  if name == nil then return nil end
  local map = scale.maps[name]
  if not map then
    local names = util.sorted_keys(scale.maps)
    fail("%s: cmap '%s' is unknown%s", op, name, util.hint(name, names))
  end
  return map
end

--- Sets the range of values of the colours: vmin..vmax, by default that of the data.
local function set_shades(op, fig, lists, opts, default)
  local lo, hi = extent(fig, lists)
  lo, hi = opts.vmin or lo, opts.vmax or hi
  if (opts.vmin or opts.vmax) and lo and lo >= hi then
    fail('%s: vmin %s is not below vmax %s', op, util.number_text(lo), util.number_text(hi))
  end
  fig.z_lo, fig.z_hi = scale.widen(lo, hi, 0)
  fig.map = colour_map(op, opts.cmap) or scale.maps[default]
end

function build.heatmap(op, list, opts)
  local z = data.matrix(op, single_argument(op, list, 'a matrix'))
  local fig = {z = z, rows = data.texts(op, 'rows', opts.rows, #z, 'one per row'),
               cols = data.texts(op, 'cols', opts.cols, #z[1], 'one per column')}
  set_shades(op, fig, z, opts, 'viridis')
  fig.x_lo, fig.x_hi, fig.y_lo, fig.y_hi = 0.5, #z[1] + 0.5, #z + 0.5, 0.5
  return fig
end

local function range(op, name, value)
  if value == nil then return 0, 1 end
  local r = data.numbers(op, name, value)
  if #r ~= 2 or not (scale.finite(r[1]) and scale.finite(r[2])) or r[1] >= r[2] then
    fail('%s: %s is not a range: give {low, high}', op, name)
  end
  return r[1], r[2]
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
  if type(levels) ~= 'number' or not (levels >= 1 and levels <= 50) then
    fail('%s: levels is %s, expected 1 to 50 or a list of values', op, tostring(levels))
  end
  local out, step = {}, lo == 0 and hi == 1 and 1 / floor(levels) or scale.step(hi - lo, levels)
  for k = floor(lo / step + 1e-9) + 1, math.ceil(hi / step - 1e-9) - 1 do
    out[#out + 1] = k * step
  end
  return out
end

local point_options = {x = 'list', y = 'list', class = 'list'}

local function add_points(op, fig, opts)
  local p = opts.points
  if not p then return end
  local x, y
  if data.is_plain(p) and p[1] == nil then
    extend.check_options(op .. ': points', p, point_options)
    if not p.x then fail(op .. ': points has no x: give points={x=.., y=.., class=..}') end
    x, y = pair(op .. ': points', p.x, p.y)
  else
    x, y = pair(op .. ': points', p)
  end
  fig.points = data.is_plain(p) and p.class and by_class(op .. ': points', x, y, p.class, opts.labels)
               or {{x = x, y = y, colour = 8}}
  if type(opts[1]) ~= 'function' then return end
  local function cover(name, list, lo, hi)
    local p_lo, p_hi = scale.extent{list}
    if opts[name] or not p_lo or (p_lo >= lo and p_hi <= hi) then return lo, hi end
    return scale.widen(p_lo, p_hi, 0.06)
  end
  fig.x_lo, fig.x_hi = cover('xrange', x, fig.x_lo, fig.x_hi)
  fig.y_lo, fig.y_hi = cover('yrange', y, fig.y_lo, fig.y_hi)
end

function build.contour(op, list, opts)
  local source = single_argument(op, list, 'a matrix or a function f(x, y)')
  local fig = {}
  fig.x_lo, fig.x_hi = range(op, 'xrange', opts.xrange)
  fig.y_lo, fig.y_hi = range(op, 'yrange', opts.yrange)
  opts[1] = source
  add_points(op, fig, opts)
  if type(source) == 'function' then
    local n = opts.grid or 60
    if not (n >= 2 and n <= 500) then
      fail('%s: grid is %s, expected 2 to 500', op, util.number_text(n))
    end
    fig.z = sample(op, source, fig, floor(n))
  else
    fig.z = data.matrix(op, source)
    if #fig.z < 2 or #fig.z[1] < 2 then
      fail('%s: the matrix is %d x %d, expected 2 x 2 or larger', op, #fig.z, #fig.z[1])
    end
  end
  local lo, hi = extent(fig, fig.z)
  local is_fraction = not lo or (lo >= 0 and hi <= 1) -- such as a probability
  if is_fraction then lo, hi = 0, 1 else lo, hi = scale.widen(lo, hi, 0) end
  fig.z_lo, fig.z_hi, fig.level = lo, hi, opts.level or is_fraction and 0.5
  fig.middle = fig.level and fig.level > lo and fig.level < hi and fig.level or nil
  fig.map = colour_map(op, opts.cmap) or fig.middle and scale.maps.diverging or scale.maps.viridis
  fig.centre = fig.map == scale.maps.diverging and fig.middle or nil -- the value of the map's middle colour
  fig.thresholds = thresholds(op, opts.levels, lo, hi)
  return fig
end

--- Returns a figure of images of one size in rows; three channels are red, green, blue, 0..1 or 0..255.
local function tiled(op, tiles, opts)
  local lists = {}
  for _, tile in ipairs(tiles) do
    for _, channel in ipairs(tile) do
      for _, row in ipairs(channel) do lists[#lists + 1] = row end
    end
  end
  local fig, channels = {tiles = tiles, cols = 1}, #tiles[1]
  local most = select(2, scale.extent(lists))
  local limits = channels == 1 and opts or
                 {vmin = opts.vmin or 0, vmax = opts.vmax or (most and most > 1 and 255 or 1)}
  if channels == 3 and opts.cmap then fail(op .. ': cmap is for images of one channel, these have three') end
  set_shades(op, fig, lists, {cmap = opts.cmap, vmin = limits.vmin, vmax = limits.vmax}, 'gray')
  return fig
end

function build.image(op, list, opts)
  return tiled(op, {data.image(op, single_argument(op, list, 'an image'))}, opts)
end

function build.images(op, list, opts)
  local tiles = data.images(op, #list == 1 and list[1] or list)
  local fig, cols = tiled(op, tiles, opts), opts.cols or math.ceil(math.sqrt(#tiles))
  if not (cols >= 1 and cols == floor(cols)) then
    fail('%s: cols is %s, expected a whole number from 1', op, util.number_text(cols))
  end
  fig.cols, fig.may_wrap = min(cols, #tiles), opts.cols == nil
  fig.labels = data.texts(op, 'labels', opts.labels, #tiles, 'one per image')
  return fig
end

-- The public functions ----------------------------------------------------------------------------

local function figure(kind, op, list, opts)
  local fig = build[kind](op, list, opts)
  fig.op, fig.kind, fig.aspect = op, fig.kind or kind, opts.aspect
  if fig.aspect and fig.aspect ~= 'equal' and fig.aspect ~= 'auto' then
    fail("%s: aspect is '%s', expected 'equal' or 'auto'", op, fig.aspect)
  end
  if fig.aspect == 'equal' and (fig.logx or fig.logy) then
    fail(op .. ": aspect='equal' needs linear axes, without logx and logy")
  end
  for _, name in ipairs{'title', 'xlabel', 'ylabel', 'width', 'height'} do
    fig[name] = opts[name] or fig[name]
  end
  return fig
end

local function check_path(op, path)
  path = tostring(path)
  local kind = path:lower():match('[^/]%.(%w+)$')
  if kind ~= 'svg' and kind ~= 'png' then
    fail("%s: cannot write '%s': use a path ending in .svg or .png", op, path)
  end
  return path
end

local function show(kind, ...)
  local op = 'plot.' .. kind
  local list, opts = arguments(op, kind, ...)
  local path = opts.path and check_path(op, opts.path)
  local fig = figure(kind, op, list, opts)
  if path then return (util.write_file(op, path, svg.file(op, path, fig))) end
  local front_end = extend.front_end()
  if front_end then
    front_end.display({['image/svg+xml'] = svg.draw(fig), ['text/plain'] = fig.title or op}, opts.id)
    return
  end
  local inline = term.inline()
  local drawn, png = pcall(inline and svg.file or error, op, 'inline.png', fig) -- without librsvg it fails
  io.stdout:write(drawn and inline(png) or term.draw(fig))
  io.stdout:flush()
end

--- Returns the SVG text of one figure, and the figure. `how`: op= (for error messages), inline=true
--- (without style and background, for a page with plot.css), budget= (target size in bytes, default 150000).
local function svg_text(kind, args, how)
  local op = how and how.op or 'plot.svg_' .. kind
  local list, opts = arguments(op, kind, args)
  local fig = figure(kind, op, list, opts)
  return svg.draw(fig, how), fig
end

for kind, doc in pairs{
  line = 'line{x, y1, .., title=, xlabel=, ylabel=, labels={..}, logx=, logy=, aspect=, width=, height=, path=}: ' ..
    'lines over x, over 1..n for one list. An entry {x=, y=, label=} has its own x, with low= and high= a band; ' ..
    "kind='scatter' draws dots. With a path ('a.svg', 'a.png') a file, else text, or a picture in a notebook; with " ..
    "id='name' it replaces the picture of that name there.",
  scatter = 'scatter{x, y, class={..}, labels={..}, aspect=, ..}: dots coloured by class; [n x 2] is both. ' ..
    "Entries {x=, y=, label=, kind='line'} as in line; aspect='equal': one unit is as long on both axes.",
  fill_between = 'fill_between{x, low, high, label=, ..}: the band between two curves; entries as in line.',
  bar = 'bar{values, labels={..}, ..}: one bar per value.',
  hist = 'hist{values, bins=, ..}: how often values occur (a tensor of any shape); bins are chosen if nil.',
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
} do
  plot[kind] = extend.declare(kind .. '(..)', doc, function(...)
    local path = show(kind, ...)
    if path then return path end
  end)
end

plot.graph = extend.declare('graph(loss: tensor, path: string = nil, params: table = nil, title: text = nil)',
  'The autograd graph of a tensor: operations with shapes, inputs above their users. params: a module, or {name = ' ..
    "tensor}, for the names of parameters. Without a path it is text. path='a.svg' or 'a.png' writes what Graphviz " ..
    "draws, 'a.dot' the text for Graphviz, as the others do where its program dot is not found; returns the path. " ..
    'Draw it before backward, which frees the graph.',
  function(...)
    local path = require('mtorch.extras.plot.graph').show(...)
    if path then return path end
  end)

for kind in pairs(known_options) do
  plot['svg_' .. kind] = function(args, how) return svg_text(kind, args, how) end
end

--- The style sheet of inline figures (class mtp), light and dark.
plot.css = svg.css

--- Text with the characters &, <, >, quotes made safe for XML and HTML.
plot.escape = svg.escape

return extend.strict(plot, 'mt.plot')
