-- parts.lua -- parts of a report's page as HTML: cards, tables, timing, notes
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local plot = require 'mtorch.extras.plot'

local concat = table.concat
local escape = plot.escape
local max_rows = 60 -- of a table; the middle of a longer one is left out

local parts = {}

--- Raises an error unless the value is a table; returns it.
function parts.need_table(where, value, expected)
  if type(value) ~= 'table' then extend.fail('%s is %s, expected %s', where, extend.describe(value), expected) end
  return value
end

--- Returns a value as a short text.
local function text_of(value, depth)
  value, depth = util.plain(value), depth or 0
  if type(value) == 'table' and depth > 4 then return '(…)' end
  if type(value) == 'number' then return util.number_text(value, 6) end
  if type(value) == 'table' then
    local texts = util.tabulate(math.min(#value, 20), function(i) return text_of(value[i], depth + 1) end)
    return '(' .. concat(texts, ', ') .. (#value > 20 and ', …)' or ')')
  end
  return util.truncate(tostring(value), 200)
end

--- Returns a cell, right-aligned if `like` is a number.
local function cell(tag, value, like)
  local class = type(like) == 'number' and ' class="n"' or ''
  return ('<%s%s>%s</%s>'):format(tag, class, escape(text_of(value)), tag)
end

parts.text_of = text_of

function parts.card(content) return '<div class="card">' .. content .. '</div>' end

--- Returns a card with a figure of mt.plot, for about `budget` bytes, and the figure.
function parts.figure(kind, args, op, budget)
  local text, fig = plot['svg_' .. kind](args, {op = op, inline = true, budget = budget})
  return parts.card(text), fig
end

--- Returns a table in a card. `rows` are HTML rows, of which a long table keeps the first and last ones; `dropped` is
--- the number of rows that were removed from its middle before.
function parts.table_card(head, rows, dropped)
  local out = {'<table>', head and '<thead>' .. head .. '</thead>' or '', '<tbody>'}
  local left_out = #rows - max_rows + (dropped or 0)
  for i = 1, #rows do
    if left_out > 0 and i == max_rows / 2 + 1 then
      out[#out + 1] = ('<tr class="cut"><td colspan="99">%d more rows</td></tr>'):format(left_out)
    end
    if left_out <= 0 or i <= max_rows / 2 or i > #rows - max_rows / 2 then out[#out + 1] = rows[i] end
  end
  out[#out + 1] = '</tbody></table>'
  return parts.card(concat(out, '\n'))
end

--- Calls found(name, value) for the values of nested tables, with dotted names: {model={hidden=100}} is model.hidden.
--- Lists are values, and tables for which is_value(table) is true.
function parts.each_option(config, found, is_value, prefix, depth)
  prefix, depth = prefix or '', depth or 0
  for _, key in ipairs(util.sorted_keys(config)) do
    local value, name = config[key], prefix .. tostring(key)
    local nested = type(value) == 'table' and type(util.plain(value)) == 'table' and value[1] == nil and
      next(value) ~= nil and depth < 5 and not (is_value and is_value(value))
    if nested then parts.each_option(value, found, is_value, name .. '.', depth + 1) else found(name, value) end
  end
end

-- Timing -----------------------------------------------------------------------------------------

--- Returns median, mean and 90th percentile (linearly interpolated) of the finite numbers.
local function statistics(where, times)
  local finite, all = {}, {}
  for i = 1, #times do
    local t = util.scalar(times[i])
    extend.check(type(t) == 'number',
      'report: %s[%d] is %s, expected a number of seconds', where, i, extend.describe(t))
    all[i] = t
    if math.abs(t) < math.huge then finite[#finite + 1] = t end
  end
  if not finite[1] then return nil end
  local options = {dtype = 'float64', device = 'cpu'}
  local x = mt.tensor(finite, options)
  local least, median, p90, most = unpack(x:quantile(mt.tensor({0, 0.5, 0.9, 1}, options)):tolist())
  return {n = #finite, median = median, mean = x:mean():item(), p90 = p90, first = finite[1], least = least,
    most = most, times = all}
end

--- Returns a chart of seconds over steps, with a logarithmic axis if a few are far above the rest.
local function times_figure(name, s, budget)
  local unit, factor = 's', 1
  if s.median < 1 then unit, factor = 'ms', 1e3 end
  if s.median < 1e-3 then unit, factor = 'µs', 1e6 end
  return parts.figure('line', {util.map(s.times, function(t) return t * factor end), title = name, xlabel = 'step',
    ylabel = unit, height = 240, logy = s.least > 0 and s.most > 5 * s.median}, 'report: timing.' .. name, budget)
end

local all_steps = 'all steps'

--- Converts timing to {name = seconds or a list}; a plain list has the times of all steps.
function parts.named_times(timing)
  local list = util.plain(timing)
  local first = type(list) == 'table' and util.scalar(list[1])
  return first ~= nil and type(first) ~= 'table' and {[all_steps] = list} or list
end

function parts.timing(timing, budget)
  local rows, figures, seconds = {}, {}, util.duration_text
  for _, key in ipairs(util.sorted_keys(timing)) do
    local value, name = util.plain(timing[key]), tostring(key)
    local where = name == all_steps and 'timing' or 'timing.' .. name
    extend.check(type(value) == 'table' or type(value) == 'number',
      'report: %s is %s, expected seconds or a list of them', where, extend.describe(value))
    local s = type(value) == 'table' and statistics(where, value)
    local columns = {type(value) == 'number' and seconds(value) or text_of(value), '', '', '', ''}
    if s then
      columns = {seconds(s.median), seconds(s.mean), seconds(s.p90), seconds(s.first), s.n}
      if s.n > 2 then figures[#figures + 1] = {name, s} end
    end
    for i, text in ipairs(columns) do columns[i] = cell('td', text, 0) end
    rows[#rows + 1] = '<tr>' .. cell('th', name) .. concat(columns) .. '</tr>'
  end
  local heads = {cell('th', '')}
  for i, name in ipairs{'median', 'mean', 'p90', 'first', 'count'} do
    heads[i + 1] = cell('th', name, 0)
  end
  local out = {parts.table_card('<tr>' .. concat(heads) .. '</tr>', rows)}
  for i = 1, math.min(#figures, 6) do
    out[i + 1] = times_figure(figures[i][1], figures[i][2], budget)
  end
  return concat(out, '\n')
end

-- Rows ------------------------------------------------------------------------------------------

--- Removes rows from the middle of a list, which a table does not show; returns their number.
function parts.drop_middle(rows)
  local dropped = math.max(0, #rows - max_rows)
  for i = max_rows / 2 + 1, #rows do rows[i] = rows[i + dropped] end
  return dropped
end

--- Returns a table of rows: lists, the first of which is the head, or records {name = value}.
function parts.rows(data, dropped)
  data = parts.need_table('report: table', util.plain(data), 'rows')
  for i = 1, #data do
    parts.need_table(('report: table[%d]'):format(i), data[i], 'a row: a list, or a table {name = value}')
  end
  local rows, head = {}, data[1] or {}
  if data[1] and data[1][1] == nil then
    local seen = {}
    for _, record in ipairs(data) do
      for key in pairs(record) do seen[key] = true end
    end
    head = util.sorted_keys(seen)
    rows = util.map(data, function(record)
      return util.map(head, function(key) return record[key] == nil and '' or record[key] end)
    end)
  else
    for i = 2, #data do rows[i - 1] = data[i] end
  end
  local html, heads = {}, util.map(head, function(name, c) return cell('th', name, rows[1] and rows[1][c]) end)
  for i, row in ipairs(rows) do
    local cells = util.tabulate(#head, function(c) return cell('td', row[c] == nil and '' or row[c], row[c]) end)
    html[i] = '<tr>' .. concat(cells) .. '</tr>'
  end
  return parts.table_card('<tr>' .. concat(heads) .. '</tr>', html, dropped)
end

-- Data ------------------------------------------------------------------------------------------

--- Replaces the values from..to of a series by the lowest and the highest one, stored at `at`, which a chart shows.
--- NaN, a gap, is the lowest.
function parts.keep_extremes(s, from, to, at)
  local x, y, low, high = s.x, s.y, from, from
  for i = from + 1, to do
    if y[low] == y[low] and not (y[i] >= y[low]) then low = i end
    if y[high] ~= y[high] or y[i] > y[high] then high = i end
  end
  if low == high then high = low == to and from or to end
  low, high = math.min(low, high), math.max(low, high)
  x[at], y[at], x[at + 1], y[at + 1] = x[low], y[low], x[high], y[high]
end

local max_points = 300 -- of a series in the page's data
local null = {}

--- Returns the numbers of a series for JSON, the lowest and highest ones of a long one.
local function points(s)
  local n, out = #s.y, {x = {}, y = {}}
  for i = 1, n do out.x[i], out.y[i] = s.x and s.x[i] or i, s.y[i] end
  if n > max_points then
    local width = math.ceil(2 * n / max_points)
    local groups = math.ceil(n / width)
    for k = 1, groups do parts.keep_extremes(out, (k - 1) * width + 1, math.min(k * width, n), 2 * k - 1) end
    for i = 2 * groups + 1, n do out.x[i], out.y[i] = nil, nil end
  end
  for _, list in pairs(out) do
    for i, v in ipairs(list) do
      local finite = v == v and math.abs(v) < math.huge
      list[i] = finite and tonumber(('%.6g'):format(v)) or null
    end
  end
  return out
end

--- Returns a comment with the configuration and the curves of a page, which compare.lua reads.
function parts.data(config, figures)
  local data = {config = {}, curves = {}}
  parts.each_option(config or {}, function(name, value)
    local kind = type(value)
    local keeps = kind == 'boolean' or kind == 'number' and math.abs(value) < math.huge
    if keeps then data.config[name] = value else data.config[name] = text_of(value) end
  end)
  for _, fig in ipairs(figures) do
    for i, s in ipairs(fig.series) do
      local name = tostring(fig.title or 'curve') .. (s.label and #fig.series > 1 and '/' .. tostring(s.label) or
        i > 1 and '/' .. i or '')
      if s.y and #s.y > 0 then data.curves[name] = points(s) end
    end
  end
  if not next(data.curves) then return '' end
  return '<!--mtorch-run ' .. extend.json_text(data, null):gsub('%-%-', '-\\u002d') .. '-->'
end

-- Text --------------------------------------------------------------------------------------------

function parts.config(config)
  local rows = {}
  parts.each_option(parts.need_table('report: config', config, '{name = value}'), function(name, value)
    rows[#rows + 1] = '<tr>' .. cell('th', name) .. cell('td', value) .. '</tr>'
  end)
  return parts.table_card(nil, rows)
end

--- Converts text to paragraphs, which are separated by empty lines.
function parts.notes(text)
  local out = {}
  for paragraph in (tostring(text or '') .. '\n\n'):gmatch('(.-)\n%s*\n') do
    if paragraph:find('%S') then out[#out + 1] = '<p>' .. escape(paragraph) .. '</p>' end
  end
  return out[1] and parts.card(concat(out)) or ''
end

--- Arranges cards side by side if they fit.
function parts.grid(cards)
  if #cards < 2 then return concat(cards) end
  return '<div class="grid">' .. concat(cards, '\n') .. '</div>'
end

--- Returns preformatted text, such as that of print(net).
function parts.text(text) return parts.card('<pre>' .. escape(text) .. '</pre>') end

return parts
