-- run.lua -- mt.Report: a report that is updated during a run, in a page that a browser loads again and again
local extend = require('mtorch').extend
local util = extend.util
local object = extend.object
local report = require 'mtorch.extras.report'
local parts = require 'mtorch.extras.report.parts'
local pictures = require 'mtorch.extras.report.pictures'
local keep_extremes = parts.keep_extremes

local time = extend.time
local between, live_between = 10, 1 -- seconds between two pages
local reload_seconds = 2 -- of a browser that shows a live page
local share = 100 -- creating pages takes at most 1 / share of the time
local max_values = 4096 -- of a stored series; a chart shows fewer
local max_rows = 500

local Report, method = object.class{called = 'report', optional = {name = true}}

function Report:describe()
  if not self.on then return 'Report(off)' end
  return ("Report('%s'%s)"):format(self.state.path, self.name and ", run '" .. self.name .. "'" or '')
end

-- The page -----------------------------------------------------------------------------------------

--- Returns plot.line's arguments for each chart, in the order of creation.
local function charts(state)
  return util.map(state.names, function(name)
    local series = state.charts[name]
    local chart = util.map(series, function(s)
      return {x = s.x, y = s.y, label = (#series > 1 or s.named) and s.label or nil}
    end)
    chart.title, chart.xlabel = name, state.xlabel
    return chart
  end)
end

local function page(state)
  local args = util.merged(state.args, {curves = charts(state)})
  for _, part in ipairs{'table', 'images'} do args[part] = args[part][1] and args[part] or nil end
  return report.page(args, state.reload)
end

--- Returns the page; errors of figures must not end a training run, so they are shown instead.
local function safe_page(state)
  local ok, text = pcall(page, state)
  if ok then return text end
  return report.page({title = state.args.title, notes = 'This page could not be drawn: ' .. tostring(text)},
    state.reload)
end

--- Writes the page if enough time has passed.
local function tick(self)
  local state, now = self.state, time()
  if now < state.next then return end
  util.write_file('report', state.path, safe_page(state))
  state.next = now + math.max(state.reload and live_between or between, share * (time() - now))
end

-- Rows and values ------------------------------------------------------------------------------------

--- Returns the series with a name 'chart/series', created if it is new.
local function series_of(self, name)
  local state, key = self.state, (self.name or '') .. '\0' .. name
  local found = state.series[key]
  if found then return found end
  local chart, inner = name:match('^(.-)/(.*)$')
  chart = chart or name
  local label = self.name and (inner and self.name .. ' ' .. inner or self.name) or inner or name
  found = {x = {}, y = {}, pairs = 0, width = 2, label = label, named = self.name or inner}
  if not state.charts[chart] then
    state.charts[chart] = {}
    table.insert(state.names, chart)
  end
  table.insert(state.charts[chart], found)
  state.series[key] = found
  return found
end

--- Shortens a long series to pairs of extremes of `width` values each, followed by fewer unchanged values.
local function shorten(s)
  local n = #s.y
  if s.pairs + s.width > n then return end
  if s.width > 2 then keep_extremes(s, s.pairs + 1, n, s.pairs + 1) end
  s.pairs = s.pairs + 2
  if s.pairs >= max_values then
    for k = 1, s.pairs / 4 do keep_extremes(s, 4 * k - 3, 4 * k, 2 * k - 1) end
    s.pairs, s.width = s.pairs / 2, s.width * 2
  end
  for i = s.pairs + 1, n do s.x[i], s.y[i] = nil, nil end
end

local function add_value(self, op, name, value, step)
  local number = type(value) == 'number' and value or util.scalar(value)
  if type(number) ~= 'number' then
    extend.fail("%s: '%s' is %s, expected a number or a tensor of one element", op, name, extend.describe(value))
  end
  local s = series_of(self, name)
  shorten(s)
  local n = #s.y + 1
  s.x[n], s.y[n] = step or (s.x[n - 1] or 0) + 1, number
end

--- Defines a method that adds to the page; without a page it only checks its arguments.
local function adds(signature, doc, body)
  method(signature, doc, function(self, ...)
    if not self.on then return end
    body(self, ...)
    tick(self)
  end)
end

adds('scalar(name: string, value: any, step: number = nil)',
  "A value of a curve: 'loss', or 'loss/train' and 'loss/valid' in one chart. Steps count from 1 if none is given.",
  function(self, name, value, step) add_value(self, 'scalar', name, value, step) end)

local function check_named(op, values)
  extend.check(type(values) == 'table' and not getmetatable(values),
    '%s: %s is not a table {name = value}', op, extend.describe(values))
end

adds('scalars(values, step=nil)', 'Values of several curves by name: report:scalars({loss=l, accuracy=a}, epoch).',
  function(self, values, step)
    check_named('scalars', values)
    for _, name in ipairs(util.sorted_keys(values)) do
      add_value(self, 'scalars', tostring(name), values[name], step)
    end
  end)

adds('row(record)', 'A row of the table of results, {epoch=1, loss=l}.', function(self, record)
  check_named('row', record)
  local row = {}
  for key, value in pairs(record) do row[tostring(key)] = util.scalar(value) end
  if self.name then row.run = self.name end
  local args = self.state.args
  table.insert(args.table, row)
  if #args.table > max_rows then args.dropped_rows = (args.dropped_rows or 0) + parts.drop_middle(args.table) end
end)

adds('timing(name: string, seconds: number)', 'One more duration of that name: median, mean and a graph are shown.',
  function(self, name, seconds)
    local times = self.state.args.timing
    times[name] = times[name] or {}
    table.insert(times[name], seconds)
  end)

-- Pictures ---------------------------------------------------------------------------------------------

--- Sets the entry with a name in a list; an entry with a new name is first checked by shown().
local function replace(list, name, entry, shown)
  list.at = list.at or {}
  if not list.at[name] then shown() end -- raises errors at this line
  list.at[name] = list.at[name] or #list + 1
  list[list.at[name]] = entry
end

adds('image(name: string, x: any, labels: list = nil)', 'A picture or several, as mt.plot.image and images take ' ..
  'them, with a text under each; the last one with a name is shown.',
  function(self, name, x, labels)
    if require('mtorch').is_tensor(x) then x = x:detach():cpu():clone() end
    local entry = {x, title = name, labels = labels}
    replace(self.state.args.images, name, entry, function() pictures.images(entry) end)
  end)

method('plot(kind: string, args: table)', "A figure of mt.plot, report:plot('contour', {f, title='surface'}): the " ..
  'last of its title is shown. Functions in it are called again for each page.',
  function(self, kind, args)
    local draw = rawget(require 'mtorch.extras.plot', 'svg_' .. kind)
    if not draw then extend.fail("plot: mt.plot has no '%s'", kind) end
    if not self.on then return end
    replace(self.state.args.figures, kind .. tostring(args.title), {kind, args},
      function() draw(args, {op = 'report: ' .. kind, inline = true}) end)
    tick(self)
  end)

local function keep(self, name, value, check)
  if self.state.args[name] == nil and check then pictures[name](value) end
  self.state.args[name] = value
end

adds('confusion(matrix, classes=nil)', 'The confusion matrix (a tensor, lists, or mt.metrics.ConfusionMatrix), ' ..
  'with precision and recall of each class.',
  function(self, matrix, classes)
    keep(self, 'confusion', {matrix = matrix, classes = type(classes) == 'table' and classes.classes or classes}, true)
  end)
adds('filters(net)', 'The first layer whose weights are pictures, of a network; or weights themselves. They are ' ..
  'read again for each page.', function(self, net) keep(self, 'filters', net, true) end)
adds('network(net)', 'What print(net) shows.', function(self, net) keep(self, 'network', tostring(net)) end)
adds('config(values)', 'Rows of the configuration, {name = value}.', function(self, values)
  check_named('config', values)
  for key, value in pairs(values) do self.state.args.config[key] = value end
end)
adds('notes(text: string)', 'Paragraphs at the end.', function(self, text) keep(self, 'notes', text) end)

adds('graph(loss, params=nil)', 'The graph of a loss, before its backward: the first is kept, so ' ..
  'that the loop may call it.',
  function(self, loss, params)
    local args = self.state.args
    args.graph_card = args.graph_card or pictures.graph{loss, params = params}
  end)

method('run(name)', "The same report for one of several runs: their curves are drawn in the same charts, under the " ..
  "run's name.", function(self, name)
    return object.new(Report, {state = self.state, on = self.on, name = tostring(name)})
  end)

-- Ending -------------------------------------------------------------------------------------------------

method('write()', 'Writes the page as it is now; returns the path.', function(self)
  if not self.state.path then return nil end
  return (util.write_file('report', self.state.path, page(self.state)))
end)

method('finish()', 'Writes the page for the last time; returns the path.', function(self)
  local state = self.state
  if not self.on or state.done then return state.path end
  state.done, state.reload = true, nil
  return self:write()
end)

-- Making ---------------------------------------------------------------------------------------------------

local known = {path = 'text', title = 'text', config = 'list', live = 'bool', xlabel = 'text'}

-- Options out of a script's flags, which may have report= and live=.
local function from_flags(flags, options)
  local config = util.merged(flags)
  config.report, config.live = nil, nil
  return util.merged({path = flags.report, live = flags.live, config = config}, options)
end

local constructor = extend.declare('Report(..)', "A report that is updated during a run: mt.Report{path='run.html', " ..
  "title=, config={}, live=false, xlabel='step'}, or mt.Report(flags, {title=..}) of a script's " ..
  "mt.args{report='', live=false}, whose other flags are the configuration. report:scalar(name, value[, step]) " ..
  'scalars row image plot confusion filters network graph timing notes run; report:finish() writes the page. ' ..
  'live=true writes it each second, report.html without a path, and a browser that shows it loads it again until ' ..
  'finish. Without path and live the report does nothing; report.on is then false.',
  function(args, options)
    if type(args) ~= 'table' then extend.fail('Report: %s is not a table of options', extend.describe(args)) end
    if options or args.report ~= nil then args = from_flags(args, options) end
    extend.check_options('Report', args, known)
    local path = args.path ~= '' and args.path or args.live and 'report.html' or nil
    if path then extend.check_writable('report', report.check_path(path)) end
    local state = {args = {title = args.title, config = util.merged(args.config), table = {}, images = {},
      figures = {}, timing = {}}, path = path, xlabel = args.xlabel or 'step', names = {}, charts = {}, series = {},
      reload = args.live and reload_seconds or nil, next = time() + (args.live and 0 or 2)}
    return object.new(Report, {state = state, on = path ~= nil})
  end)

return {Report = constructor, methods = Report.__methods}
