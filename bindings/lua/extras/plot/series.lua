-- series.lua -- figures of series: lines, dots, bands, bars and histograms, from the user's lists and entries
local extend = require('mtorch').extend
local util = extend.util
local data = require 'mtorch.extras.plot.data'
local scale = require 'mtorch.extras.plot.scale'
local style = require 'mtorch.extras.plot.style'

local check, fail, plain = extend.check, extend.fail, util.plain
local floor, min, max = math.floor, math.min, math.max

local figures = {} -- what init.lua uses of this module: build, the figures by kind, and helpers
local build = {}

-- Options: name -> kind (see extend.check_options).
local series_kinds = {line = true, scatter = true, fill_between = true}
local looks = {label = 'text', color = 'text', style = 'text', linewidth = 'number > 0 <= 50'}
local series_options = util.merged(looks, {x = 'list', y = 'list', low = 'list', high = 'list', kind = 'text',
                                           yerr = 'any', smooth = 'number >= 0 < 1'})
local bar_options = util.merged(looks, {y = 'list', yerr = 'any'})
local hist_options = util.merged(looks, {x = 'list'})

-- Ranges --------------------------------------------------------------------------------------------

--- Returns the range of the values of lists; if there is none, the figure gets a note.
local function extent(fig, lists, log)
  local lo, hi = scale.extent(lists, log)
  if not lo then fig.note = 'no value can be drawn' end
  return lo, hi
end

--- Returns the ends of an option {low, high}, or nothing if it is nil.
local function range(op, name, value, log)
  if value == nil then return nil end
  local r = data.numbers(op, name, value)
  check(#r == 2 and scale.finite(r[1]) and scale.finite(r[2]) and r[1] < r[2],
    '%s: %s is not a range: give {low, high}', op, name)
  check(not log or r[1] > 0,
    '%s: %s begins at %s, but a logarithmic axis needs values above 0', op, name, util.number_text(r[1]))
  return r[1], r[2]
end

local parts = {'y', 'low', 'high', 'raw', 'error_low', 'error_high'} -- the lists of a series beside x

--- Returns the values whose x is inside lo..hi.
local function inside(xs, values, lo, hi)
  local out = {}
  for i = 1, #xs do
    if xs[i] >= lo and xs[i] <= hi then out[#out + 1] = values[i] end
  end
  return out
end

--- Drops the points of a series beyond lo..hi of x, without those that a line to the visible part needs.
local function crop(s, lo, hi)
  local function side(i) return s.x[i] < lo and -1 or s.x[i] > hi and 1 or 0 end
  local kept, n = {}, #s.x
  for i = 1, n do
    local at = side(i)
    if at == 0 or i > 1 and side(i - 1) ~= at or i < n and side(i + 1) ~= at then kept[#kept + 1] = i end
  end
  local function pick(list) return util.map(kept, function(i) return list[i] end) end
  for _, key in ipairs(parts) do s[key] = s[key] and pick(s[key]) end
  s.x = pick(s.x)
end

--- Gives the figure the range ylim=, if there is one.
local function limit_y(op, fig, opts)
  local lo, hi = range(op, 'ylim', opts.ylim, opts.logy)
  if lo then fig.y_lo, fig.y_hi, fig.ylim = lo, hi, true end
  return fig
end

local function set_ranges(op, fig, opts)
  local xs, ys, scatter = {}, {}, true
  fig.logx, fig.logy = opts.logx, opts.logy
  local x_lo, x_hi = range(op, 'xlim', opts.xlim, opts.logx)
  fig.xlim = x_lo ~= nil
  for i, s in ipairs(fig.series) do
    xs[i] = s.x
    for _, key in ipairs(parts) do
      ys[#ys + 1] = s[key] and x_lo and inside(s.x, s[key], x_lo, x_hi) or s[key]
    end
    scatter = scatter and s.kind == 'scatter'
  end
  fig.whole = scale.whole(xs)
  local lo, hi = extent(fig, xs, fig.logx)
  local lowest, highest = extent(fig, ys, fig.logy)
  fig.x_lo, fig.x_hi = scale.widen(lo, hi, scatter and 0.04 or 0, fig.logx)
  fig.y_lo, fig.y_hi = scale.widen(lowest, highest, 0.04, fig.logy)
  if x_lo then
    fig.x_lo, fig.x_hi = x_lo, x_hi
    for _, s in ipairs(fig.series) do crop(s, x_lo, x_hi) end
  end
  return limit_y(op, fig, opts)
end

-- Series: x, and y or low and high, with label, kind and what style.apply sets ---------------------------

local function is_series(entry)
  return data.is_plain(entry) and (entry.y ~= nil or entry.low ~= nil or entry.high ~= nil)
end

--- Adds the numbers of one part of a series, as many as its x, which is 1..n by default.
local function add_part(op, s, name, key, value)
  s[key] = data.numbers(op, name, value)
  s.x = s.x or util.map(s[key], function(_, i) return i end)
  data.same_length(op, name, s[key], s.x)
end

--- Adds the ends of error bars: yerr is a number, a list with one per point, or {low, high}, two such lists.
local function add_errors(op, s, name, yerr)
  local list = plain(yerr)
  if type(list) == 'number' then list = util.map(s.y, function() return yerr end) end
  local first = type(list) == 'table' and #list == 2 and plain(list[1])
  local ends = type(first) == 'table' and #first == #s.y and list or {list, list}
  for k, key in ipairs{'error_low', 'error_high'} do
    add_part(op, s, 'yerr of ' .. name, key, ends[k])
    for i, e in ipairs(s[key]) do
      if e < 0 then
        fail('%s: yerr of %s: value %d is %s, expected no negative one', op, name, i, util.number_text(e))
      end
      s[key][i] = s.y[i] + (k == 1 and -e or e)
    end
  end
end

--- Replaces y by its exponential moving average with bias correction, as TensorBoard draws it; raw is what it was.
local function smoothen(s, weight)
  local sum, share, out = 0, 1, {}
  for i, y in ipairs(s.y) do
    out[i] = y
    if scale.finite(y) then
      sum, share = weight * sum + (1 - weight) * y, share * weight
      out[i] = sum / (1 - share)
    end
  end
  s.raw, s.y = s.y, out
end

local function add_one(op, series, entry, y)
  local name = 'series ' .. #series + 1
  local s = {label = entry.label, kind = entry.kind, color = entry.color, style = entry.style,
             linewidth = entry.linewidth, smooth = entry.smooth}
  if entry.x then s.x = data.numbers(op, 'x of ' .. name, entry.x) end
  if y then add_part(op, s, name, 'y', y) end
  if y and entry.yerr ~= nil then add_errors(op, s, name, entry.yerr) end
  if entry.low ~= nil or entry.high ~= nil then
    check(entry.low ~= nil and entry.high ~= nil,
      '%s: %s has only one of low and high: give both ends of the band', op, name)
    add_part(op, s, 'low of ' .. name, 'low', entry.low)
    add_part(op, s, 'high of ' .. name, 'high', entry.high)
  end
  series[#series + 1] = s
end

--- Adds the series of {x=, y=, low=, high=, label=, kind=, ..}; y may be a list of lists or an [n x k] tensor.
local function add_entry(op, series, entry)
  check(not entry.kind or series_kinds[entry.kind],
    "%s: kind of series %d is '%s', expected 'line', 'scatter' or 'fill_between'", op, #series + 1, entry.kind)
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
local function split_list(list, is_entry)
  local lists, entries = {}, {}
  for i = 1, #list do
    local to = (is_entry or is_series)(list[i]) and entries or lists
    to[#to + 1] = list[i]
  end
  return lists, entries
end

--- Names the series: its own label, else the next of `labels`; numbers if none of several has a name. Smoothes lines,
--- and sets what the series look like.
local function finish_series(op, series, kind, opts, labels, x_given)
  local unnamed = 0
  for _, s in ipairs(series) do
    unnamed, s.kind = unnamed + (s.label and 0 or 1), s.kind or (s.y and kind or 'fill_between')
    local weight = s.smooth or s.kind == 'line' and opts.smooth or 0
    if s.y and weight > 0 then smoothen(s, weight) end
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
  return style.apply(op, series, opts)
end

local function add_entries(op, series, entries, known)
  for _, entry in ipairs(entries) do
    extend.check_options(op, entry, known or series_options)
    add_entry(op, series, entry)
  end
end

--- The series of several lists, the first of which is x if `with_x`.
local function series_of(op, lists, with_x, opts)
  local series = {}
  local x = with_x and data.numbers(op, 'x', lists[1]) or nil
  for i = with_x and 2 or 1, #lists do
    add_entry(op, series, {x = x, y = lists[i], yerr = opts.yerr})
  end
  return series, x
end

function build.line(op, list, opts)
  local lists, entries = split_list(list)
  local series, x = series_of(op, lists, #lists > 1, opts)
  local labels = plain(opts.labels)
  if x and type(labels) == 'table' and #labels ~= #series and #labels == #lists then -- each list has a name
    series, x = series_of(op, lists, false, opts)
  end
  add_entries(op, series, entries)
  if opts.y then add_entry(op, series, {x = opts.x, y = opts.y, label = opts.label, yerr = opts.yerr}) end
  if #series == 0 then fail(op .. ': no data: give at least one list of numbers') end
  if #series == 1 then series[1].label = series[1].label or opts.label end
  finish_series(op, series, 'line', opts, opts.labels, x ~= nil)
  return set_ranges(op, {kind = 'line', series = series}, opts)
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
  finish_series(op, series, 'line', opts, opts.labels)
  return set_ranges(op, {kind = 'line', series = series}, opts)
end

--- Returns one series per distinct class, sorted, with numbers before texts.
function figures.classes(op, x, y, class, labels)
  class = plain(class)
  if type(class) ~= 'table' then fail('%s: class is a %s, expected a list', op, type(class)) end
  data.same_length(op, 'class', class, x)
  local groups = {}
  for i = 1, #x do
    local c = util.scalar(class[i])
    if c == nil or c ~= c then fail('%s: class: value %d is %s', op, i, c and 'NaN' or 'empty') end
    local group = groups[c] or {x = {}, y = {}, kind = 'scatter'}
    groups[c] = group
    group.x[#group.x + 1], group.y[#group.y + 1] = x[i], y[i]
  end
  local keys, series = util.sorted_keys(groups), {}
  labels = data.texts(op, 'labels', labels, #keys, 'one per class')
  for k, key in ipairs(keys) do
    series[k] = groups[key]
    series[k].label = labels and labels[k] or tostring(key)
  end
  return series
end

--- Returns x and y of {x, y}, {[n x 2] tensor} or {x=, y=}.
function figures.pair(op, x, y)
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
    local x, y = figures.pair(op, lists[1] or opts.x, lists[1] and lists[2] or opts.y)
    if opts.class then
      if opts.yerr ~= nil then fail(op .. ': yerr does not go with class: give an entry {x=, y=, yerr=} per class') end
      series = figures.classes(op, x, y, opts.class, opts.labels)
    else
      add_one(op, series, {x = x, label = opts.label, yerr = opts.yerr}, y)
    end
  end
  add_entries(op, series, entries)
  if #series == 0 then fail(op .. ': no data: give x and y') end
  finish_series(op, series, 'scatter', opts, not opts.class and opts.labels or nil)
  return set_ranges(op, {kind = 'scatter', series = series}, opts)
end

-- Bars ------------------------------------------------------------------------------------------------

function figures.single(op, list, what)
  if #list == 0 then fail('%s: no data: give %s', op, what) end
  if #list > 1 then fail('%s: got %d lists, expected one: %s', op, #list, what) end
  return list[1]
end

--- One set of bars, or one for each entry {y=, label=, ..}, side by side.
function build.bar(op, list, opts)
  local lists, entries = split_list(list)
  local series = {}
  if #entries == 0 or #lists > 0 then
    local y = figures.single(op, lists, 'a list of values, or entries {y=, label=}')
    add_one(op, series, {label = opts.label, yerr = opts.yerr}, y)
  end
  add_entries(op, series, entries, bar_options)
  local fig, ends = {series = series}, {}
  for i, s in ipairs(finish_series(op, series, 'bar', opts)) do
    data.same_length(op, 'series ' .. i, s.y, series[1].y)
    for _, key in ipairs(parts) do ends[#ends + 1] = s[key] end
  end
  local count = #series[1].y
  fig.labels = data.texts(op, 'labels', opts.labels, count, 'one per value')
  local lo, hi = extent(fig, ends)
  fig.y_lo, fig.y_hi = min(lo or 0, 0), max(hi or 1, 0)
  if fig.y_hi - fig.y_lo < 1e-290 then fig.y_hi = 1 end
  local room = (fig.y_hi - fig.y_lo) * 0.06
  if fig.y_lo < 0 then fig.y_lo = fig.y_lo - room end
  if fig.y_hi > 0 then fig.y_hi = fig.y_hi + room end
  fig.x_lo, fig.x_hi, fig.values = 0.5, count + 0.5, series[1].y
  return limit_y(op, fig, opts)
end

--- Returns range and number of bins: one bin per integer in a small range, else by Freedman and Diaconis' width.
local function hist_bins(values, lo, hi, bins, limited)
  if not bins and not limited and hi - lo < 60 and math.abs(lo) < 1e9 and scale.whole{values} then
    return lo - 0.5, hi + 0.5, hi - lo + 1
  end
  if not bins then
    table.sort(values)
    local n = #values
    local quartiles = n > 0 and values[math.ceil(0.75 * n)] - values[math.ceil(0.25 * n)] or 0
    local width = 2 * quartiles / n ^ (1 / 3)
    bins = width > 0 and (hi - lo) / width or math.sqrt(n)
    bins = min(max(math.ceil(bins), 5), 60)
  end
  if not limited then lo, hi = scale.widen(lo, hi, 0) end
  return lo, hi, bins
end

--- One histogram, or several of the same bins; xlim= leaves out the values beyond it.
function build.hist(op, list, opts)
  local lists, entries = split_list(list, function(entry) return data.is_plain(entry) and entry.x ~= nil end)
  if #lists + #entries == 0 then figures.single(op, lists, 'a list of values') end
  local bins, series, pool, sets, fig = opts.bins, {}, {}, {}, {}
  if bins and not (bins >= 1 and bins <= 1000 and bins == floor(bins)) then
    fail('%s: bins is %s, expected a whole number from 1 to 1000', op, util.number_text(bins))
  end
  for i, x in ipairs(lists) do series[i] = {x = x, label = #lists == 1 and opts.label or nil} end
  for _, entry in ipairs(entries) do
    extend.check_options(op, entry, hist_options)
    series[#series + 1] = entry
  end
  local x_lo, x_hi = range(op, 'xlim', opts.xlim)
  for k, s in ipairs(series) do
    local all = data.tensor(op, s.x):flatten():tolist()
    if #all == 0 then fail(op .. ': the data is empty: give at least one value') end
    sets[k] = util.filter(all, function(v)
      return scale.finite(v) and (not x_lo or v >= x_lo and v <= x_hi)
    end)
    util.append(pool, sets[k])
    series[k] = {label = s.label, color = s.color, style = s.style, linewidth = s.linewidth, kind = 'hist'}
  end
  local lo, hi = extent(fig, {pool})
  if not lo then lo, hi, bins = 0, 1, bins or 1 end
  fig.x_lo, fig.x_hi, bins = hist_bins(pool, x_lo or lo, x_hi or hi, bins, x_lo)
  local per_unit, most = bins / (fig.x_hi - fig.x_lo), 1
  for k, s in ipairs(series) do
    s.y = util.tabulate(bins, function() return 0 end)
    for _, v in ipairs(sets[k]) do
      local b = min(max(floor((v - fig.x_lo) * per_unit) + 1, 1), bins)
      s.y[b] = s.y[b] + 1
      most = max(most, s.y[b])
    end
  end
  fig.y_lo, fig.y_hi, fig.ylabel = 0, most * 1.06, 'count'
  fig.series, fig.values = finish_series(op, series, 'hist', opts, opts.labels), series[1].y
  return limit_y(op, fig, opts)
end

figures.build, figures.extent, figures.range = build, extent, range

return figures
