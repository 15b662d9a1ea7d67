-- init.lua -- mt.report: one self-contained HTML page of a run, with figures and tables, without scripts
local extend = require('mtorch').extend
local util = extend.util
local plot = require 'mtorch.extras.plot'
local data = require 'mtorch.extras.plot.data'
local parts = require 'mtorch.extras.report.parts'
local pictures = require 'mtorch.extras.report.pictures'
local style = require 'mtorch.extras.report.style'

local concat = table.concat
local escape, need_table = plot.escape, parts.need_table

local report = {}

local known = {path = 'text', title = 'text', config = 'list', curves = 'list', runs = 'list', surface = 'list',
               figures = 'list', timing = 'list', table = 'list', notes = 'text', images = 'any', filters = 'any',
               confusion = 'any', network = 'any', graph = 'any'}
local total_bytes = 150000 -- the size of all figures together

-- Curves -----------------------------------------------------------------------------------------

--- Adds tiles with the last finite value of each series of a figure.
local function add_tiles(tiles, fig)
  for _, s in ipairs(fig.series) do
    local last
    for i = #(s.y or {}), 1, -1 do
      last = last or (s.y[i] == s.y[i] and math.abs(s.y[i]) < math.huge) and s.y[i] or nil
    end
    local name = s.label or fig.title
    if s.label and fig.title and #fig.series > 1 then name = fig.title .. ' ' .. s.label end
    if last and name and #tiles < 8 then
      tiles[#tiles + 1] = ('<div class="tile"><b>%s</b><span>%s, last</span></div>'):format(util.number_text(last, 4),
        escape(name))
    end
  end
end

local line_options = util.word_set 'x y label labels title xlabel ylabel logx logy aspect width height'

--- Converts a named curve, a list, plot.line's arguments, or {name = list, ..}, to plot.line's arguments.
local function named_chart(name, value)
  local list = need_table('report: curves.' .. name, util.plain(value),
    'a list of numbers or a table of arguments for plot.line')
  if list[1] ~= nil and type(util.scalar(list[1])) == 'number' and util.is_list(list) then
    return {y = list, title = name}
  end
  local chart, series = {title = name}, {}
  for _, key in ipairs(util.sorted_keys(list)) do
    if type(key) == 'number' or line_options[key] then chart[key] = list[key]
    else series[#series + 1] = {y = list[key], label = key} end
  end
  return util.append(chart, series)
end

--- Returns all charts as {op=, args=}: first those of the list, then the named ones, sorted.
local function charts_of(curves)
  local list = need_table('report: curves', util.plain(curves), 'a table')
  if list.y ~= nil then return {{op = 'report: curves', args = list}} end
  if type(util.scalar(list[1])) == 'number' then return {{op = 'report: curves', args = {y = list}}} end
  local charts = {}
  for _, key in ipairs(util.sorted_keys(list)) do
    local value, op = list[key], ('report: curves[%s]'):format(key)
    if type(key) ~= 'number' then
      op, value = 'report: curves.' .. tostring(key), named_chart(tostring(key), value)
    else
      need_table(op, util.plain(value), 'a table of arguments for plot.line')
    end
    charts[#charts + 1] = {op = op, args = type(value) == 'table' and value or {y = value}}
  end
  return charts
end

--- Converts {run = {curve = list or {x=, y=}}} to charts: one for each curve, with a series for each run.
local function add_runs(charts, runs)
  local by_name, names = {}, {}
  for _, run in ipairs(util.sorted_keys(need_table('report: runs', runs, 'tables by name'))) do
    local where = 'report: runs.' .. tostring(run)
    for _, curve in ipairs(util.sorted_keys(need_table(where, runs[run], 'a table {curve = list}'))) do
      local value = runs[run][curve]
      local list = need_table(('%s.%s'):format(where, tostring(curve)), util.plain(value), 'a list of numbers')
      if not by_name[curve] then
        by_name[curve], names[#names + 1] = {title = tostring(curve)}, curve
      end
      table.insert(by_name[curve], {x = list.x, y = list.y or value, label = tostring(run)})
    end
  end
  for _, curve in ipairs(names) do charts[#charts + 1] = {op = 'report: runs', args = by_name[curve]} end
end

local function curve_cards(charts, budget, tiles, figures)
  local cards = {}
  for i, chart in ipairs(charts) do
    if #charts > 1 then chart.args = util.merged({width = 500, height = 310}, chart.args) end -- half of the page
    cards[i], figures[i] = parts.figure('line', chart.args, chart.op, budget)
    add_tiles(tiles, figures[i])
  end
  return parts.grid(cards)
end

-- The page ---------------------------------------------------------------------------------------

local function section(out, title, content)
  if content == '' then return end
  out[#out + 1] = ('<section id="%s"><h2>%s</h2>%s</section>'):format(title:lower():gsub('%W', '-'), title, content)
end

--- Draws figures {kind, arguments of plot.kind}; one that fails shows the error.
local function figure_cards(figures, budget)
  local cards = {}
  for i, figure in ipairs(need_table('report: figures', figures, 'a list')) do
    extend.check(type(figure) == 'table' and type(figure[2]) == 'table',
      "report: figures[%d] is %s, expected {kind, arguments}, such as {'bar', {values}}", i, extend.describe(figure))
    extend.check(rawget(plot, 'svg_' .. tostring(figure[1])),
      "report: figures[%d]: mt.plot has no '%s'", i, tostring(figure[1]))
    cards[i] = parts.figure(figure[1], figure[2], 'report: ' .. figure[1], budget)
  end
  return parts.grid(cards)
end

local function sections(args, tiles, figures)
  local charts, timing, out = charts_of(args.curves or {}), parts.named_times(args.timing or {}), {}
  if args.runs then add_runs(charts, args.runs) end
  local count = #charts + (args.surface and 2 or 0) + #(args.figures or {})
  for _, value in pairs(timing) do count = count + (type(value) == 'number' and 0 or 1) end
  local budget = total_bytes / math.max(count, 3)
  section(out, 'Curves', curve_cards(charts, budget, tiles, figures))
  if args.surface then
    section(out, 'Surface', (parts.figure('contour', args.surface, 'report: surface', 2 * budget)))
  end
  section(out, 'Figures', figure_cards(args.figures or {}, budget))
  if args.table then section(out, 'Results', parts.rows(args.table, args.dropped_rows)) end
  if args.confusion then section(out, 'Confusion', pictures.confusion(args.confusion)) end
  if args.images then section(out, 'Pictures', pictures.images(args.images)) end
  if args.filters then section(out, 'Filters', pictures.filters(args.filters)) end
  if next(timing) ~= nil then section(out, 'Timing', parts.timing(timing, budget)) end
  if args.network then section(out, 'Network', pictures.network(args.network)) end
  local graph = args.graph_card or args.graph and pictures.graph(args.graph)
  if graph then section(out, 'Graph', graph) end
  if args.config then section(out, 'Configuration', parts.config(args.config)) end
  section(out, 'Notes', parts.notes(args.notes))
  return out
end

--- Returns the page of a report's parts (graph_card: a graph that was drawn before). seconds: for a run that is not
--- finished, the time after which a browser reloads the page.
function report.page(args, seconds)
  local tiles, figures = {}, {}
  local body = concat(sections(args, tiles, figures), '\n')
  local title = escape(args.title or 'Report')
  return concat({'<!doctype html>', '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width,initial-scale=1">' ..
      (seconds and ('<meta http-equiv="refresh" content="%d">'):format(seconds) or ''),
    '<title>' .. title .. '</title>', '<style>' .. style .. plot.css .. '</style></head>',
    '<body><main>', '<h1>' .. title .. '</h1>',
    '<p class="when">mtorch, ' .. os.date('%Y-%m-%d %H:%M') .. (seconds and ', running' or '') .. '</p>',
    tiles[1] and '<div class="tiles">' .. concat(tiles) .. '</div>' or '', body,
    parts.data(args.config, figures), '</main></body></html>', ''}, '\n')
end

--- Checks that the path of a report ends in .html; returns it.
function report.check_path(path) return (data.check_path('report', path, 'html', 'htm')) end

--- mt.report{path='report.html', ..} writes a self-contained HTML page and returns its path.
report.report = extend.declare('report(..)', 'Writes one HTML page that needs nothing else and returns its path: ' ..
  "mt.report{path='report.html', title=, notes=, config={name=value}, curves={..}, runs={name={..}}, timing={..}, " ..
  'surface={arguments of plot.contour}, figures={{kind, arguments}}, table={rows}, images=, filters=net, ' ..
  "confusion=, network=net, graph={loss, params=net}}. mt.help('reports') shows the forms of each. A page that " ..
  'is updated during a run: mt.Report.',
function(args)
  extend.check_options('report', args, known)
  extend.check(args[1] == nil, 'report: takes named parts only: report{title=.., curves=..}')
  local path = report.check_path(args.path or 'report.html')
  return (util.write_file('report', path, report.page(args)))
end)

return report
