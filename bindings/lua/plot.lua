-- plot.lua -- mt.plot: turns the user's lists and options into figures, drawn as SVG or as text.
local util = require 'mtorch.util'
local scale = require 'mtorch.plot_scale'
local svg = require 'mtorch.plot_svg'
local term = require 'mtorch.plot_term'

local fail, plain = util.fail, util.plain
local floor, min, max = math.floor, math.min, math.max

local plot = {}

-- Options: name -> kind (see util.check_options) --------------------------------------------------

local function options(extra)
  local known = {path = 'text', title = 'text', xlabel = 'text', ylabel = 'text',
                 width = 'number', height = 'number'}
  for name, kind in pairs(extra) do known[name] = kind end
  return known
end

local known_options = {
  line = options{x = 'list', y = 'list', label = 'text', labels = 'list', logx = 'boolean',
                 logy = 'boolean'},
  scatter = options{x = 'list', y = 'list', label = 'text', labels = 'list', class = 'list',
                    logx = 'boolean', logy = 'boolean'},
  bar = options{labels = 'list'},
  hist = options{bins = 'number'},
  heatmap = options{rows = 'list', cols = 'list'},
  contour = options{xrange = 'list', yrange = 'list', levels = 'any', level = 'number',
                    grid = 'number', points = 'list', labels = 'list'},
}

-- Data: lists of numbers out of lists and tensors -------------------------------------------------

local function number(op, what, i, v)
  if type(v) == 'number' then return v end
  if type(v) == 'boolean' then return v and 1 or 0 end
  local got = util.scalar(v)
  if type(got) == 'number' then return got end
  if type(got) == 'boolean' then return got and 1 or 0 end
  local shown = type(v) == 'string' and ("the string '%s'"):format(v) or 'a ' .. type(v)
  fail('%s: %s: value %d is %s, expected a number', op, what, i, shown)
end

-- The numbers of a list, a 1-D tensor, or an [n x 1] one.
local function numbers(op, what, value)
  local list = plain(value)
  if type(list) ~= 'table' then
    fail('%s: %s is a %s, expected a list or a tensor', op, what, type(list))
  end
  if #list == 0 then fail('%s: %s is empty: give at least one value', op, what) end
  local out = {}
  for i = 1, #list do out[i] = number(op, what, i, list[i]) end
  return out
end

-- A list of equally long rows out of a nested list or a 2-D tensor.
local function matrix(op, value)
  local rows = plain(value)
  if type(rows) ~= 'table' then
    fail('%s: the matrix is a %s, expected rows of numbers', op, type(rows))
  end
  if #rows == 0 then fail(op .. ': the matrix is empty: give at least one row') end
  local out = {}
  for i = 1, #rows do
    local row = plain(rows[i])
    if type(row) ~= 'table' then
      fail(op .. ': the data has one dimension, expected a matrix (a list of rows)')
    end
    out[i] = numbers(op, 'row ' .. i, row)
    if #out[i] ~= #out[1] then
      fail('%s: row %d has %d values, expected %d (as many as row 1)', op, i, #out[i], #out[1])
    end
  end
  return out
end

-- All numbers of a list or tensor of any depth.
local function flatten(op, value, out)
  local list = plain(value)
  if type(list) ~= 'table' then
    fail('%s: the data is a %s, expected a list or a tensor', op, type(list))
  end
  for i = 1, #list do
    local v = list[i]
    if type(v) == 'table' then flatten(op, v, out) else
      out[#out + 1] = number(op, 'the data', i, v)
    end
  end
  return out
end

-- The columns of a 2-D tensor or nested list, nil where the rows are not lists of `width` numbers.
local function columns(op, value, width)
  local rows = plain(value)
  local first = type(rows) == 'table' and plain(rows[1])
  if type(first) ~= 'table' or #first < 2 or (width and #first ~= width) then return nil end
  rows = matrix(op, rows)
  local out = {}
  for c = 1, #rows[1] do
    out[c] = {}
    for r = 1, #rows do out[c][r] = rows[r][c] end
  end
  return out
end

local function texts(op, what, value, count, of)
  if value == nil then return nil end
  local list, out = plain(value), {}
  for i = 1, #list do out[i] = tostring(list[i]) end
  if count and #out ~= count then
    fail('%s: %s has %d values, expected %d (%s)', op, what, #out, count, of)
  end
  return out
end

local function same_length(op, what, list, x)
  if #list ~= #x then
    fail('%s: %s has %d values, expected %d (as many as x)', op, what, #list, #x)
  end
end

local function is_plain(value) return type(value) == 'table' and not getmetatable(value) end

local function is_options(value)
  return is_plain(value) and value[1] == nil and type(next(value)) == 'string'
end

-- The list part and the options of f{...} or f(a, b, .., {options}).
local function arguments(op, kind, ...)
  local count, opts, list = select('#', ...), {}, {...}
  if count == 1 and is_plain(list[1]) then
    local only = list[1]
    list = {}
    for key, value in pairs(only) do
      if type(key) == 'string' then opts[key] = value else list[key] = value end
    end
    local first = list[1]
    local flat = type(first) == 'number' or type(first) == 'boolean'
    local rows = (kind == 'heatmap' or kind == 'contour') and
                 (#list > 1 or (is_plain(first) and type(first[1]) == 'number'))
    if flat or rows then list = {list} end
  elseif count > 1 and is_options(list[count]) then
    opts, list[count] = list[count], nil
  end
  util.check_options(op, opts, known_options[kind])
  for _, name in ipairs{'width', 'height'} do
    local v = opts[name]
    if v and not (v >= 10 and v <= 4000) then
      fail('%s: %s is %s, expected 10 to 4000', op, name, util.number_text(v))
    end
  end
  return list, opts
end

local function one(op, list, what)
  if #list == 0 then fail('%s: no data: give %s', op, what) end
  if #list > 1 then fail('%s: got %d lists, expected one: %s', op, #list, what) end
  return list[1]
end

-- Figures: op, kind, title, xlabel, ylabel, width, height, and what the kind draws ----------------

local function set_ranges(fig, opts)
  local xs, ys = {}, {}
  for i, s in ipairs(fig.series) do xs[i], ys[i] = s.x, s.y end
  fig.logx, fig.logy = opts.logx, opts.logy
  local x_lo, x_hi = scale.extent(xs, fig.logx)
  local y_lo, y_hi = scale.extent(ys, fig.logy)
  fig.note = not (x_lo and y_lo) and 'no value can be drawn' or nil
  fig.whole = scale.whole(xs)
  fig.x_lo, fig.x_hi = scale.widen(x_lo, x_hi, fig.kind == 'scatter' and 0.04 or 0, fig.logx)
  fig.y_lo, fig.y_hi = scale.widen(y_lo, y_hi, 0.04, fig.logy)
end

local function is_series(entry) return is_plain(entry) and entry.y ~= nil end

local series_options = {x = 'list', y = 'list', label = 'text'}

-- The series of one {x=, y=, label=}; y may be a list of lists or an [n x k] tensor.
local function add_entry(op, series, entry)
  local ys = {entry.y}
  if is_plain(entry.y) and type(plain(entry.y[1])) == 'table' then
    ys = entry.y
    if #plain(ys[1]) == 1 and #ys > 1 then ys = {ys} end -- n rows of one value are one series
  end
  for _, y in ipairs(ys) do
    for _, column in ipairs(not is_plain(y) and columns(op, y) or {y}) do
      local name = 'series ' .. #series + 1
      local s = {y = numbers(op, name, column), label = entry.label}
      if entry.x then
        s.x = numbers(op, 'x of ' .. name, entry.x)
        same_length(op, name, s.y, s.x)
      else
        s.x = {}
        for i = 1, #s.y do s.x[i] = i end
      end
      series[#series + 1] = s
    end
  end
end

local function collect_series(op, list, opts)
  local data, series = {}, {}
  for i = 1, #list do
    if not is_series(list[i]) then data[#data + 1] = list[i] end
  end
  local x = #data > 1 and numbers(op, 'x', data[1]) or nil
  for i = #data > 1 and 2 or 1, #data do add_entry(op, series, {x = x, y = data[i]}) end
  for i = 1, #list do
    if is_series(list[i]) then
      util.check_options(op, list[i], series_options)
      add_entry(op, series, list[i])
    end
  end
  if opts.y then add_entry(op, series, opts) end
  if #series == 0 then fail(op .. ': no data: give at least one list of numbers') end
  local labels = texts(op, 'labels', opts.labels, #series, 'one per series')
  for i, s in ipairs(series) do
    s.colour = i
    s.label = labels and labels[i] or s.label or (#series > 1 and 'series ' .. i) or nil
  end
  return series
end

local build = {}

function build.line(op, list, opts)
  local fig = {series = collect_series(op, list, opts)}
  set_ranges(fig, opts)
  return fig
end

-- One series per distinct class, in order; numbers before texts.
local function by_class(op, x, y, class, labels)
  class = plain(class)
  if type(class) ~= 'table' then fail('%s: class is a %s, expected a list', op, type(class)) end
  same_length(op, 'class', class, x)
  local groups = {}
  for i = 1, #x do
    local c = util.scalar(class[i])
    if c == nil then fail('%s: class: value %d is empty', op, i) end
    local group = groups[c] or {x = {}, y = {}}
    groups[c] = group
    group.x[#group.x + 1], group.y[#group.y + 1] = x[i], y[i]
  end
  local keys, series = util.sorted_keys(groups), {}
  labels = texts(op, 'labels', labels, #keys, 'one per class')
  for k, key in ipairs(keys) do
    local s = groups[key]
    s.label, s.colour = labels and labels[k] or tostring(key), k
    series[k] = s
  end
  return series
end

-- x and y of {x, y}, {[n x 2] tensor} or {x=, y=}.
local function pair(op, x, y)
  if y == nil then
    local both = columns(op, x, 2)
    if not both then fail(op .. ': y is missing: give x and y, or points as [n x 2]') end
    x, y = both[1], both[2]
  end
  x, y = numbers(op, 'x', x), numbers(op, 'y', y)
  same_length(op, 'y', y, x)
  return x, y
end

function build.scatter(op, list, opts)
  local fig = {}
  if is_series(list[1]) then
    fig.series = collect_series(op, list, opts)
  else
    if #list > 2 then fail('%s: got %d lists, expected x and y', op, #list) end
    if #list == 0 and not opts.x then fail(op .. ': no data: give x and y') end
    local x, y = pair(op, list[1] or opts.x, list[1] and list[2] or opts.y)
    if opts.class then
      fig.series = by_class(op, x, y, opts.class, opts.labels)
    else
      local labels = texts(op, 'labels', opts.labels, 1, 'one series without class')
      fig.series = {{x = x, y = y, colour = 1, label = labels and labels[1] or opts.label}}
    end
  end
  fig.kind = 'scatter'
  set_ranges(fig, opts)
  return fig
end

function build.bar(op, list, opts)
  local values = numbers(op, 'values', one(op, list, 'a list of values'))
  local fig = {values = values, labels = texts(op, 'labels', opts.labels, #values, 'one per value')}
  local lo, hi = scale.extent{values}
  fig.note = not lo and 'no value can be drawn' or nil
  fig.y_lo, fig.y_hi = min(lo or 0, 0), max(hi or 1, 0)
  if fig.y_hi - fig.y_lo < 1e-290 then fig.y_hi = 1 end
  local room = (fig.y_hi - fig.y_lo) * 0.06
  if fig.y_lo < 0 then fig.y_lo = fig.y_lo - room end
  if fig.y_hi > 0 then fig.y_hi = fig.y_hi + room end
  fig.x_lo, fig.x_hi = 0.5, #values + 0.5
  return fig
end

-- Edges: whole numbers get a bin each where they are few; else Freedman and Diaconis' width.
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
  local all = flatten(op, one(op, list, 'a list of values'), {})
  if #all == 0 then fail(op .. ': the data is empty: give at least one value') end
  local bins = opts.bins
  if bins and not (bins >= 1 and bins <= 1000 and bins == floor(bins)) then
    fail('%s: bins is %s, expected a whole number from 1 to 1000', op, util.number_text(bins))
  end
  local values = {}
  for i = 1, #all do
    if scale.finite(all[i]) then values[#values + 1] = all[i] end
  end
  local lo, hi = scale.extent{values}
  local fig = {note = not lo and 'no value can be drawn' or nil}
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

function build.heatmap(op, list, opts)
  local z = matrix(op, one(op, list, 'a matrix'))
  local fig = {z = z, rows = texts(op, 'rows', opts.rows, #z, 'one per row'),
               cols = texts(op, 'cols', opts.cols, #z[1], 'one per column')}
  local lo, hi = scale.extent(z)
  fig.note = not lo and 'no value can be drawn' or nil
  fig.z_lo, fig.z_hi = scale.widen(lo, hi, 0)
  fig.x_lo, fig.x_hi, fig.y_lo, fig.y_hi = 0.5, #z[1] + 0.5, #z + 0.5, 0.5
  return fig
end

local function range(op, name, value)
  if value == nil then return 0, 1 end
  local r = numbers(op, name, value)
  if #r ~= 2 or not (scale.finite(r[1]) and scale.finite(r[2])) or r[1] >= r[2] then
    fail('%s: %s is not a range: give {low, high}', op, name)
  end
  return r[1], r[2]
end

-- f on a grid of n x n points, row 1 at the low end of y.
local function sample(op, f, fig, n)
  local z = {}
  for i = 1, n do
    local y = fig.y_lo + (fig.y_hi - fig.y_lo) * (i - 1) / (n - 1)
    z[i] = {}
    for j = 1, n do
      local x = fig.x_lo + (fig.x_hi - fig.x_lo) * (j - 1) / (n - 1)
      z[i][j] = number(op, ('f(%.4g, %.4g)'):format(x, y), 1, (f(x, y)))
    end
  end
  return z
end

local function thresholds(op, levels, lo, hi)
  if type(levels) == 'table' or type(levels) == 'userdata' then
    local list = numbers(op, 'levels', levels)
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
  if is_plain(p) and p[1] == nil then
    util.check_options(op .. ': points', p, point_options)
    if not p.x then fail(op .. ': points has no x: give points={x=.., y=.., class=..}') end
    x, y = pair(op .. ': points', p.x, p.y)
  else
    x, y = pair(op .. ': points', p)
  end
  fig.points = is_plain(p) and p.class and by_class(op .. ': points', x, y, p.class, opts.labels)
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
  local data = one(op, list, 'a matrix or a function f(x, y)')
  local fig = {}
  fig.x_lo, fig.x_hi = range(op, 'xrange', opts.xrange)
  fig.y_lo, fig.y_hi = range(op, 'yrange', opts.yrange)
  opts[1] = data
  add_points(op, fig, opts)
  if type(data) == 'function' then
    local n = opts.grid or 60
    if not (n >= 2 and n <= 500) then
      fail('%s: grid is %s, expected 2 to 500', op, util.number_text(n))
    end
    fig.z = sample(op, data, fig, floor(n))
  else
    fig.z = matrix(op, data)
    if #fig.z < 2 or #fig.z[1] < 2 then
      fail('%s: the matrix is %d x %d, expected 2 x 2 or larger', op, #fig.z, #fig.z[1])
    end
  end
  local lo, hi = scale.extent(fig.z)
  fig.note = not lo and 'no value can be drawn' or nil
  if not lo or (lo >= 0 and hi <= 1) then lo, hi = 0, 1 else lo, hi = scale.widen(lo, hi, 0) end
  fig.z_lo, fig.z_hi, fig.level = lo, hi, opts.level or 0.5
  fig.middle = fig.level > lo and fig.level < hi and fig.level or nil
  fig.thresholds = thresholds(op, opts.levels, lo, hi)
  return fig
end

-- The public functions ----------------------------------------------------------------------------

local function figure(kind, op, list, opts)
  local fig = build[kind](op, list, opts)
  fig.op, fig.kind = op, kind
  for _, name in ipairs{'title', 'xlabel', 'ylabel', 'width', 'height'} do
    fig[name] = opts[name] or fig[name]
  end
  return fig
end

local function check_path(op, path)
  path = tostring(path)
  if path:lower():find('%.png$') then
    fail("%s: cannot write '%s' yet: use a path ending in .svg", op, path)
  elseif not path:lower():find('[^/]%.svg$') then
    fail("%s: cannot write '%s': use a path ending in .svg", op, path)
  end
  return path
end

local function show(kind, ...)
  local op = 'plot.' .. kind
  local list, opts = arguments(op, kind, ...)
  local path = opts.path and check_path(op, opts.path)
  local fig = figure(kind, op, list, opts)
  if path then return (util.write_file(op, path, svg.draw(fig))) end
  io.stdout:write(term.draw(fig))
  io.stdout:flush()
end

-- The SVG text of one figure, and the figure. `how`: op= (for error texts), inline=true (no style,
-- no background: the page has plot.css), budget= (bytes to aim at, default 150000).
local function svg_text(kind, args, how)
  local op = how and how.op or 'plot.svg_' .. kind
  local list, opts = arguments(op, kind, args)
  local fig = figure(kind, op, list, opts)
  return svg.draw(fig, how), fig
end

local declare = util.host('declare') or function(_, _, fn) return fn end

for kind, doc in pairs{
  line = 'line{x, y1, .., title=, xlabel=, ylabel=, labels={..}, logx=, logy=, width=, height=, path=}: lines over ' ..
    'x, over 1..n for one list; an entry {x=, y=, label=} has its own x. With a path an SVG file, else text.',
  scatter = 'scatter{x, y, class={..}, labels={..}, ..}: dots coloured by class; an [n x 2] tensor is both.',
  bar = 'bar{values, labels={..}, ..}: one bar per value.',
  hist = 'hist{values, bins=, ..}: how often values occur (a tensor of any shape); bins are chosen if nil.',
  heatmap = 'heatmap{matrix, rows={..}, cols={..}, ..}: row 1 on top, as a matrix is printed.',
  contour = 'contour{matrix or f(x, y), xrange={0,1}, yrange={0,1}, levels=10, level=0.5, grid=60, points={x=, y=, ' ..
    'class=}, ..}: filled bands and the line of `level`; matrix row 1 is low y.',
} do
  plot[kind] = declare(kind .. '(..)', doc, function(...)
    local path = show(kind, ...)
    if path then return path end
  end)
end

for kind in pairs(known_options) do
  plot['svg_' .. kind] = function(args, how) return svg_text(kind, args, how) end
end

--- The style sheet of inline figures (class mtp), light and dark.
plot.css = svg.css

--- Text with the characters &, <, >, quotes made safe for XML and HTML.
plot.escape = svg.escape

return util.strict(plot, 'mt.plot')
