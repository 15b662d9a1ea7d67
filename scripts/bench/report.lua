-- report.lua -- the results of bench.lua: files, tables, means, comparison with an earlier run, a graph
local mt = require 'mtorch'

local report = {}

-- A row is {name=, group=, unit=, results = {contender = {us=, low=, high=, n=}}}: the median and the
-- quartiles of its turns. A column is {name=, title=}.

-- ---- files ----

--- Reads a saved run; returns nil and a sentence if it cannot.
function report.read(path)
  local ok, run = pcall(mt.data.json, path)
  if not ok then return nil, tostring(run) end
  if type(run) ~= 'table' or not run.rows or not run.columns then
    return nil, ("'%s' is not a file of bench.lua --save"):format(path)
  end
  return run
end

-- ---- tables ----

local Writer = {}
Writer.__index = Writer

--- Returns a writer of rows as markdown or plain text; the first of `columns` is the reference.
function report.writer(columns, markdown)
  return setmetatable({columns = columns, markdown = markdown}, Writer)
end

local function number(x)
  local digits = x >= 100 and 0 or x >= 10 and 1 or 2
  return ('%.' .. digits .. 'f'):format(x)
end

--- Formats a time with its unit and three digits.
function report.time_text(us)
  if us < 0.9995 then return number(us * 1e3) .. ' ns' end
  if us < 999.5 then return number(us) .. ' us' end
  if us < 999500 then return number(us / 1e3) .. ' ms' end
  return number(us / 1e6) .. ' s'
end

function Writer:cell(row, result)
  if not result then return '-' end
  if not self.markdown then return ('%.3f'):format(result.us) end
  return row.unit == 'MiB' and number(result.us) .. ' MiB' or report.time_text(result.us)
end

--- Returns the number that a label says: 16, 4Ki, 1Mi; nil for other texts.
function report.count_of(label)
  local number, factor = label:match('^(%d+)(%a*)$')
  factor = ({[''] = 1, Ki = 1024, Mi = 1024 ^ 2})[factor]
  return factor and number * factor
end

local function ratio(reference, other) return reference and other and other.us / reference.us end

--- Returns a line: the first cell, the reference time, and a pair of cells for each other column.
function Writer:line(first, reference, pair_of)
  local markdown = self.markdown
  local text = (markdown and '| %s | %s |' or '%-22s %12s'):format(first, reference)
  for i = 2, #self.columns do
    text = text .. (markdown and ' %s | %s |' or ' %14s %8s'):format(pair_of(self.columns[i]))
  end
  return text
end

function Writer:head()
  local unit = self.markdown and '' or ' us'
  local titles = self:line(self.markdown and 'row' or '', self.columns[1].name .. unit,
    function(c) return c.name .. unit, 'ratio' end)
  return self.markdown and titles .. '\n|---|--:|' .. ('--:|--:|'):rep(#self.columns - 1) or titles
end

function Writer:row(r)
  local reference = r.results[self.columns[1].name]
  if not self.markdown and #self.columns == 1 then return reference and ('%s\t%.3f'):format(r.name, reference.us) end
  return self:line(self.markdown and '`' .. r.name .. '`' or r.name, self:cell(r, reference), function(column)
    local other = r.results[column.name]
    local speedup = ratio(reference, other)
    return self:cell(r, other), speedup and ('%.2f'):format(speedup) or '-'
  end)
end

--- Returns a line with the geometric means of the ratios of these rows, or nil if there are none.
function Writer:mean(group, rows)
  local max_rows = 0
  local function pair(column)
    local sum, n = 0, 0
    for _, r in ipairs(rows) do
      local speedup = ratio(r.results[self.columns[1].name], r.results[column.name])
      if speedup then sum, n = sum + math.log(speedup), n + 1 end
    end
    max_rows = math.max(max_rows, n)
    local mean = n > 0 and ('%.2f'):format(math.exp(sum / n)) or '-'
    return n .. (n == 1 and ' row' or ' rows'), self.markdown and '**' .. mean .. '**' or mean
  end
  local text = self:line(self.markdown and '**' .. group .. ', geometric mean**' or 'mean: ' .. group, '', pair)
  return max_rows > 0 and text or nil
end

-- ---- comparison ----

--- Returns the results of mtorch by the names of rows.
function report.by_name(run)
  local results = {}
  for _, r in ipairs(run.rows) do results[r.name] = r.results.mtorch end
  return results
end

--- Returns by what factor the machine itself became slower, by the copy and loop of both runs; at least 1.
local function drift(old, new)
  local worst = 1
  for _, key in ipairs {'copy', 'loop'} do
    local a, b = (old.machine or {})[key], (new.machine or {})[key]
    if a and b then worst = math.max(worst, b.us / a.us) end
  end
  return worst
end

--- Returns the rows of `new` that are slower than in `old` beyond noise, as {name=, old=, new=, allowed=}. Noise
--- is a row's interquartile range in both runs: the lower quartile now must be above the upper one then, and the
--- median must have grown by more than both ranges and by more than the machine itself became slower.
function report.regressions(old, new)
  local before, slower, machine = report.by_name(old), {}, drift(old, new)
  for _, r in ipairs(new.rows) do
    local a, b = before[r.name], r.results.mtorch
    if a and b and a.low and b.low then
      local noise = (a.high - a.low) / a.us + (b.high - b.low) / b.us
      local allowed = machine * (1 + noise)
      if b.us > allowed * a.us and b.low > machine * a.high then
        slower[#slower + 1] = {name = r.name, old = a.us, new = b.us, allowed = allowed}
      end
    end
  end
  return slower
end

-- ---- the graph ----

--- Groups the rows by operation, in the order of their sizes: {{name=, {n=, results=}, ..}, ..}.
local function by_operation(run)
  local list, found = {}, {}
  for _, r in ipairs(run.rows) do
    local name, label = r.name:match('^([%w_]+)/(%d+%a*)$')
    local n = name and report.count_of(label)
    if n then
      if not found[name] then
        found[name] = {name = name}
        list[#list + 1] = found[name]
      end
      table.insert(found[name], {n = n, results = r.results})
    end
  end
  for _, rows in ipairs(list) do table.sort(rows, function(a, b) return a.n < b.n end) end
  return list
end

--- Draws time over size, with a log-log panel for each operation of three sizes or more; the memory copy is dashed.
function report.graph(path, run, columns)
  local m = run.machine or {}
  local panels = {title = ('Microseconds of a call over the number of elements (%s, %s, threads: %s, %s)'):format(
    m.processor or '?', m.isa or '?', m.threads or '?', m.date or '?'), path = path, cols = 3}
  for _, rows in ipairs(by_operation(run)) do
    local panel = {kind = 'line', title = rows.name, logx = true, logy = true, legend = #panels == 0}
    for k, column in ipairs(columns) do
      local line = {x = {}, y = {}, label = column.name, color = k, style = column.name == 'copy' and '--' or '-'}
      for _, row in ipairs(rows) do
        local result = row.results[column.name]
        if result then
          table.insert(line.x, row.n)
          table.insert(line.y, result.us)
        end
      end
      if #line.x > 0 then panel[#panel + 1] = line end
    end
    if #rows > 2 and #panel > 0 then panels[#panels + 1] = panel end
  end
  if #panels == 0 then return 'no operation has rows of three sizes' end
  mt.plot.panels(panels)
end

return report
