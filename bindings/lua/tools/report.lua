-- report.lua -- mt.report: one self-contained HTML page of a run: figures, tables, no scripts.
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local plot = require 'mtorch.plot'
local style = require 'mtorch.tools.report_style'

local floor, concat = math.floor, table.concat
local escape = plot.escape

local known = {path = 'text', title = 'text', config = 'list', curves = 'list', surface = 'list',
               timing = 'list', table = 'list', notes = 'text'}
local total_bytes = 150000 -- what all figures may take together
local most_rows = 60       -- of a table; the middle of a longer one is left out

local function text_of(value, depth)
  value, depth = util.plain(value), depth or 0
  if type(value) == 'table' and depth > 4 then return '(…)' end
  if type(value) == 'number' then return util.number_text(value, 6) end
  if type(value) == 'table' then
    local parts = {}
    for i = 1, math.min(#value, 20) do parts[i] = text_of(value[i], depth + 1) end
    return '(' .. concat(parts, ', ') .. (#value > 20 and ', …)' or ')')
  end
  return util.truncate(tostring(value), 200)
end

-- A cell, set to the right where `like` is a number.
local function cell(tag, value, like)
  local class = type(like) == 'number' and ' class="n"' or ''
  return ('<%s%s>%s</%s>'):format(tag, class, escape(text_of(value)), tag)
end

local function card(content) return '<div class="card">' .. content .. '</div>' end

-- A table in a card. `rows` are HTML rows; a long table keeps its first and last ones.
local function table_card(head, rows)
  local out = {'<table>', head and '<thead>' .. head .. '</thead>' or '', '<tbody>'}
  local left_out = #rows - most_rows
  for i = 1, #rows do
    if left_out <= 0 or i <= most_rows / 2 or i > #rows - most_rows / 2 then
      out[#out + 1] = rows[i]
    elseif i == most_rows / 2 + 1 then
      out[#out + 1] = ('<tr class="cut"><td colspan="99">%d more rows</td></tr>'):format(left_out)
    end
  end
  out[#out + 1] = '</tbody></table>'
  return card(concat(out, '\n'))
end

-- Keys of nested tables as dotted names: {model={hidden=100}} is model.hidden.
local function config_rows(config, prefix, rows, depth)
  for _, key in ipairs(util.sorted_keys(config)) do
    local value, name = config[key], prefix .. tostring(key)
    local plain = util.plain(value)
    local nested = type(plain) == 'table' and plain[1] == nil and next(plain) ~= nil
    if nested and depth < 5 and type(value) == 'table' then
      config_rows(value, name .. '.', rows, depth + 1)
    else
      rows[#rows + 1] = '<tr>' .. cell('th', name) .. cell('td', value) .. '</tr>'
    end
  end
  return rows
end

-- Timing -----------------------------------------------------------------------------------------

-- Median, mean, 90th percentile (between neighbours by their distance) of the finite numbers.
local function statistics(where, times)
  local sorted, sum, first, all = {}, 0, nil, {}
  for i = 1, #times do
    local t = util.scalar(times[i])
    if type(t) ~= 'number' then
      core.fail('report: %s[%d] is %s, expected a number of seconds', where, i, core.describe(t))
    end
    all[i] = t
    if t == t and math.abs(t) < math.huge then
      first = first or t
      sorted[#sorted + 1], sum = t, sum + t
    end
  end
  if not first then return nil end
  table.sort(sorted)
  local function quantile(q)
    local at = 1 + q * (#sorted - 1)
    local k = floor(at)
    return sorted[k] + ((sorted[k + 1] or sorted[k]) - sorted[k]) * (at - k)
  end
  return {n = #sorted, median = quantile(0.5), mean = sum / #sorted, p90 = quantile(0.9),
          first = first, sorted = sorted, times = all}
end

-- A list of seconds over the steps that took them; on a logarithmic axis where a few are far above the rest.
local function times_figure(name, s, budget)
  local unit, factor = 's', 1
  if s.median < 1 then unit, factor = 'ms', 1e3 end
  if s.median < 1e-3 then unit, factor = 'µs', 1e6 end
  local shown = {}
  for i, t in ipairs(s.times) do shown[i] = t * factor end
  return card((plot.svg_line({shown, title = name, xlabel = 'step', ylabel = unit, height = 240,
                              logy = s.sorted[1] > 0 and s.sorted[s.n] > 5 * s.median},
                             {op = 'report: timing.' .. name, inline = true, budget = budget})))
end

local all_steps = 'all steps'

-- timing as {name = seconds or a list}: a list alone is the times of all steps.
local function named_times(timing)
  local list = util.plain(timing)
  local first = type(list) == 'table' and util.scalar(list[1])
  return first ~= nil and type(first) ~= 'table' and {[all_steps] = list} or list
end

local function timing_section(timing, budget)
  local rows, figures, seconds = {}, {}, util.duration_text
  for _, key in ipairs(util.sorted_keys(timing)) do
    local value, name = util.plain(timing[key]), tostring(key)
    local where = name == all_steps and 'timing' or 'timing.' .. name
    if type(value) ~= 'table' and type(value) ~= 'number' then
      core.fail('report: %s is %s, expected seconds or a list of them', where, core.describe(value))
    end
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
  local out = {table_card('<tr>' .. concat(heads) .. '</tr>', rows)}
  for i = 1, math.min(#figures, 6) do
    out[i + 1] = times_figure(figures[i][1], figures[i][2], budget)
  end
  return concat(out, '\n')
end

-- Rows ------------------------------------------------------------------------------------------

-- Rows are lists, the first of which is the head, or records {name = value}.
local function rows_section(data)
  local rows, head = {}, data[1] or {}
  if data[1] and data[1][1] == nil then
    local seen = {}
    for _, record in ipairs(data) do
      for key in pairs(record) do seen[key] = true end
    end
    head = util.sorted_keys(seen)
    for i, record in ipairs(data) do
      rows[i] = {}
      for c, key in ipairs(head) do rows[i][c] = record[key] == nil and '' or record[key] end
    end
  else
    for i = 2, #data do rows[i - 1] = data[i] end
  end
  local html, heads = {}, {}
  for c, name in ipairs(head) do heads[c] = cell('th', name, rows[1] and rows[1][c]) end
  for i, row in ipairs(rows) do
    local cells = {}
    for c = 1, #head do cells[c] = cell('td', row[c] == nil and '' or row[c], row[c]) end
    html[i] = '<tr>' .. concat(cells) .. '</tr>'
  end
  return table_card('<tr>' .. concat(heads) .. '</tr>', html)
end

-- The page ---------------------------------------------------------------------------------------

local function tile(value, name)
  return ('<div class="tile"><b>%s</b><span>%s</span></div>'):format(escape(value), escape(name))
end

-- The last drawable value of each series of a figure, as tiles.
local function add_tiles(tiles, fig)
  for _, s in ipairs(fig.series) do
    local last
    for i = #s.y, 1, -1 do
      last = last or (s.y[i] == s.y[i] and math.abs(s.y[i]) < math.huge) and s.y[i] or nil
    end
    local name = s.label or fig.title
    if last and name and #tiles < 6 then
      tiles[#tiles + 1] = tile(util.number_text(last, 4), tostring(name) .. ', last')
    end
  end
end

local line_options = {x = true, y = true, label = true, labels = true, title = true, xlabel = true,
                      ylabel = true, logx = true, logy = true, aspect = true, width = true, height = true}

-- A chart of plot.line's arguments out of a named curve: a list, plot.line's arguments, or {name = list, ..}.
local function named_chart(name, value)
  local list = util.plain(value)
  if type(list) ~= 'table' then
    core.fail('report: curves.%s is a %s, expected a list of numbers or a table of arguments for plot.line',
              name, type(list))
  end
  if list[1] ~= nil and type(util.scalar(list[1])) == 'number' and next(list, #list) == nil then
    return {y = list, title = name}
  end
  local chart, series = {title = name}, {}
  for _, key in ipairs(util.sorted_keys(list)) do
    if type(key) == 'number' or line_options[key] then chart[key] = list[key]
    else series[#series + 1] = {y = list[key], label = key} end
  end
  for _, entry in ipairs(series) do chart[#chart + 1] = entry end
  return chart
end

-- All charts as {op=, args=}: those of the list first, then the named ones in order of their names.
local function charts_of(curves)
  local list = util.plain(curves)
  if type(list) ~= 'table' then core.fail('report: curves is a %s, expected a table', type(list)) end
  if list.y ~= nil then return {{op = 'report: curves', args = list}} end
  if type(util.scalar(list[1])) == 'number' then return {{op = 'report: curves', args = {y = list}}} end
  local charts = {}
  for _, key in ipairs(util.sorted_keys(list)) do
    local value, op = list[key], ('report: curves[%s]'):format(key)
    if type(key) ~= 'number' then
      op, value = 'report: curves.' .. tostring(key), named_chart(tostring(key), value)
    elseif type(util.plain(value)) ~= 'table' then
      core.fail('%s is a %s, expected a table of arguments for plot.line', op, type(value))
    end
    charts[#charts + 1] = {op = op, args = type(value) == 'table' and value or {y = value}}
  end
  return charts
end

local function curve_cards(charts, budget, tiles)
  local cards = {}
  for i, chart in ipairs(charts) do
    local figure, fig = plot.svg_line(chart.args, {op = chart.op, inline = true, budget = budget})
    add_tiles(tiles, fig)
    cards[i] = card(figure)
  end
  return concat(cards, '\n')
end

local function section(out, title, content)
  if content == '' then return end
  out[#out + 1] = '<section><h2>' .. title .. '</h2>' .. content .. '</section>'
end

local function page(args)
  local charts, timing = charts_of(args.curves or {}), named_times(args.timing or {})
  local count = #charts + (args.surface and 2 or 0)
  for _, value in pairs(timing) do count = count + (type(value) == 'number' and 0 or 1) end
  local budget, tiles, parts = total_bytes / math.max(count, 3), {}, {}
  section(parts, 'Curves', curve_cards(charts, budget, tiles))
  if args.surface then
    local how = {op = 'report: surface', inline = true, budget = 2 * budget}
    section(parts, 'Surface', card((plot.svg_contour(args.surface, how))))
  end
  if next(timing) ~= nil then section(parts, 'Timing', timing_section(timing, budget)) end
  if args.table then section(parts, 'Results', rows_section(args.table)) end
  if args.config then
    section(parts, 'Configuration', table_card(nil, config_rows(args.config, '', {}, 0)))
  end
  local notes = {}
  for paragraph in (tostring(args.notes or '') .. '\n\n'):gmatch('(.-)\n%s*\n') do
    if paragraph:find('%S') then notes[#notes + 1] = '<p>' .. escape(paragraph) .. '</p>' end
  end
  if notes[1] then section(parts, 'Notes', card(concat(notes))) end
  local title = escape(args.title or 'Report')
  return concat({'<!doctype html>', '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width,initial-scale=1">',
    '<title>' .. title .. '</title>', '<style>' .. style .. plot.css .. '</style></head>',
    '<body><main>', '<h1>' .. title .. '</h1>',
    '<p class="when">mtorch, ' .. os.date('%Y-%m-%d %H:%M') .. '</p>',
    tiles[1] and '<div class="tiles">' .. concat(tiles) .. '</div>' or '', concat(parts, '\n'),
    '</main></body></html>', ''}, '\n')
end

--- mt.report{path='report.html', ..} writes one HTML page that needs nothing else; returns its path.
return core.declare('report(..)', 'Writes one HTML page that needs nothing else and returns its path: ' ..
  "mt.report{path='report.html', title=, notes=, config={name=value}, curves={..}, timing={..}, " ..
  "surface={arguments of plot.contour}, table={rows}}. mt.help('reports') shows the forms of each.",
function(args)
  core.check_options('report', args, known)
  if args[1] ~= nil then
    core.fail('report: takes named parts only: report{title=.., curves=..}')
  end
  local path = tostring(args.path or 'report.html')
  if not path:lower():find('[^/]%.html?$') then
    core.fail("report: cannot write '%s': use a path ending in .html", path)
  end
  return (util.write_file('report', path, page(args)))
end)
