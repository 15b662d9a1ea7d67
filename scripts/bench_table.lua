-- bench_table.lua -- what bench.lua reads and writes: saved times, tables, means, the chart
local mt = require 'mtorch'

local bench_table = {}

-- A column is {title = text, times = {name = microseconds}, names = {name, ..}}.

local function new_column(title) return {title = title, times = {}, names = {}} end

--- Adds the row `name<TAB>microseconds` of a file or a peer; returns whether the line is one.
local function add_line(column, line)
  local name, us = line:match('^([%w_/]+)\t([%d.]+)')
  if not name then return false end
  if not column.times[name] then column.names[#column.names + 1] = name end
  column.times[name] = tonumber(us)
  return true
end

--- The column of a file that --save wrote; nil and a sentence where there is none.
function bench_table.read(path)
  local column, file = new_column(path:match('[^/]*$')), io.open(path)
  local text = file and file:read('*a')
  if not text then return nil, ("cannot read '%s'"):format(path) end
  file:close()
  for line in text:gmatch('[^\n]+') do add_line(column, line) end
  if #column.names == 0 then return nil, ("'%s' has no rows name<TAB>microseconds"):format(path) end
  return column
end

--- Runs a program; each line that it prints goes to `each`. Returns success, and its last words.
function bench_table.run_program(words, each)
  for i, word in ipairs(words) do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local pipe = io.popen(table.concat(words, ' ') .. ' 2>&1; echo "status $?"')
  local status, last = nil, ''
  for line in pipe:lines() do
    status = line:match('^status (%d+)$')
    if not status and line:match('^%S') and line ~= 'stack traceback:' then last = line end
    if not status and each then each(line) end
  end
  pipe:close()
  return status == '0', last
end

--- The column that a program prints, with a progress bar; nil and its last words where it fails.
function bench_table.from_program(title, words, total)
  local column, bar = new_column(title), mt.progress(total, {label = title})
  local ok, last = bench_table.run_program(words, function(line)
    if add_line(column, line) then bar:update() end
  end)
  mt.progress.close()
  return ok and column or nil, last
end

function bench_table.write(path, header, measured)
  local lines = {'# ' .. header}
  for i, r in ipairs(measured) do lines[i + 1] = ('%s\t%.3f'):format(r.name, r.us) end
  require('mtorch.core.util').write_file('bench.lua', path, table.concat(lines, '\n') .. '\n')
end

local function ratio(ours, theirs) return ours and theirs and theirs / ours end

local Writer = {}
Writer.__index = Writer

--- Writes rows with the columns `others` beside ours, as markdown or as plain text.
function bench_table.writer(others, markdown)
  return setmetatable({others = others, markdown = markdown}, Writer)
end

local function cell(value, digits) return value and ('%.' .. digits .. 'f'):format(value) or '-' end

-- One line: the first cell, ours, and a pair of cells for each other column.
function Writer:line(first, ours, pair_of)
  local markdown = self.markdown
  local text = (markdown and '| %s | %s |' or '%-22s %12s'):format(first, ours)
  for _, column in ipairs(self.others) do
    text = text .. (markdown and ' %s | %s |' or ' %14s %8s'):format(pair_of(column))
  end
  return text
end

function Writer:head()
  local unit = self.markdown and ', µs' or ' us'
  local titles = self:line('', 'mtorch' .. unit, function(c) return c.title .. unit, 'ratio' end)
  if not self.markdown then return titles end
  return titles .. '\n|---|--:|' .. ('--:|--:|'):rep(#self.others)
end

--- A row; `us` is nil where only another column has it.
function Writer:row(name, us)
  local plain = not self.markdown
  if plain and #self.others == 0 then return ('%s\t%.3f'):format(name, us) end
  local digits = plain and 3 or 2
  return self:line(plain and name or '`' .. name .. '`', cell(us, digits), function(column)
    local theirs = column.times[name]
    return cell(theirs, digits), cell(ratio(us, theirs), 2)
  end)
end

--- The names that only other columns have.
function Writer:missing(measured)
  local seen, names = {}, {}
  for _, r in ipairs(measured) do seen[r.name] = true end
  for _, column in ipairs(self.others) do
    for _, name in ipairs(column.names) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
  end
  return names
end

--- The geometric means of the ratios of these rows; nil where there are none.
function Writer:mean(group, measured)
  local most = 0
  local function pair(column)
    local sum, n = 0, 0
    for _, r in ipairs(measured) do
      local times = ratio(r.us, column.times[r.name])
      if times then sum, n = sum + math.log(times), n + 1 end
    end
    most = math.max(most, n)
    local mean = n > 0 and ('%.2f'):format(math.exp(sum / n)) or '-'
    return n .. (n == 1 and ' row' or ' rows'), self.markdown and '**' .. mean .. '**' or mean
  end
  local title = self.markdown and '**' .. group .. ', geometric mean**' or 'mean: ' .. group
  local text = self:line(title, '', pair)
  return most > 0 and text or nil
end

--- A chart of the ratios to the first other column; bars upwards are rows where we are faster.
function bench_table.plot(path, measured, column)
  local values, labels = {}, {}
  for _, r in ipairs(measured) do
    local times = ratio(r.us, column.times[r.name])
    if times then
      values[#values + 1], labels[#labels + 1] = math.log(times) / math.log(2), r.name
    end
  end
  mt.plot.bar {values, labels = labels, title = 'Time of ' .. column.title .. ' / time of mtorch',
               ylabel = 'log2 of the ratio', path = path,
               width = math.min(math.max(30 * #values, 640), 4000)}
end

return bench_table
