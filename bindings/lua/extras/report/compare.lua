-- compare.lua -- mt.compare_runs: logs and reports of several runs side by side, as a table and as a page
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local report = require 'mtorch.extras.report'
local parts = require 'mtorch.extras.report.parts'

local compare = {}
local nan = 0 / 0
local most_columns = 5 -- more runs are rows
local steps = {'step', 'steps', 'epoch', 'epochs', 'iteration', 'iterations'} -- what curves are drawn over

-- Reading ------------------------------------------------------------------------------------------

--- Whether a value is a list of numbers only.
local function is_curve(value)
  if type(value) ~= 'table' or #value == 0 or not util.is_list(value) then return false end
  for _, v in ipairs(value) do
    if type(v) ~= 'number' then return false end
  end
  return true
end

local function is_series(value) return is_curve(value.y) end

local function text_of(value) return type(value) == 'table' and parts.text_of(value) or value end

--- Reads an object: numbers and texts are options, lists of numbers curves, over a list of steps of the same length.
local function add_object(run, object)
  local over
  for _, name in ipairs(steps) do over = over or is_curve(object[name]) and object[name] or nil end
  local names = {}
  parts.each_option(object, function(name, value)
    names[name:gsub('^config%.', ''):gsub('^curves%.', '')] = value
  end, is_series)
  for name, value in pairs(names) do
    local y = type(value) == 'table' and (is_curve(value.y) and value.y or is_curve(value) and value)
    if not y then
      run.options[name] = text_of(value)
    elseif y ~= over then
      local x = is_curve(value.x) and value.x or over
      run.curves[name] = {x = x and #x == #y and x or nil, y = y}
    end
  end
end

--- Reads records, one for each step: numbers that occur with a step, or more than once, are curves, others options.
local function add_records(run, records)
  local count, flat, over = {}, {}, nil
  for i, record in ipairs(records) do
    if type(record) ~= 'table' then extend.fail("compare_runs: '%s', record %d is not an object", run.path, i) end
    flat[i] = {}
    parts.each_option(record, function(name, value)
      flat[i][name] = value
      count[name] = (count[name] or 0) + 1
    end, is_series)
  end
  for _, name in ipairs(steps) do over = over or count[name] and name end
  for i, record in ipairs(flat) do
    local x = over and record[over] or not over and i
    for name, value in pairs(record) do
      if type(value) ~= 'number' or type(x) ~= 'number' or not over and count[name] == 1 then
        run.options[name] = text_of(value)
      elseif name ~= over then
        local curve = run.curves[name] or {x = {}, y = {}}
        run.curves[name] = curve
        table.insert(curve.x, x)
        table.insert(curve.y, value)
      end
    end
  end
end

--- Reads JSON, also with the bare NaN and Infinity that Python's json writes: both become NaN.
local function parsed(text)
  local ok, value = pcall(extend.parse_json, text, nan)
  if ok then return ok, value end
  local words = {NaN = 'null', Infinity = 'null'}
  text = text:gsub('([:,%[]%s*)%-?(%a+)', function(before, word) return words[word] and before .. words[word] end)
  return pcall(extend.parse_json, text, nan)
end

--- Reads one JSON object for each line; a last line that was cut off is left out.
local function lines_of(path, text)
  local records, number = {}, 0
  for line, ending in text:gmatch '([^\n]*)(\n?)' do
    number = number + 1
    local ok, value = parsed(line)
    if ok and type(value) == 'table' then
      records[#records + 1] = value
    elseif line:find '%S' and (ending ~= '' or #records == 0) then
      extend.fail("compare_runs: '%s', line %d is not a JSON object", path, number)
    end
  end
  return records
end

--- Reads a page of mt.Report, a JSON file, or a log of mt.JsonLines.
local function read(path)
  local run, text = {path = path, options = {}, curves = {}}, mt.data.text(path)
  local _, from = text:find('<!--mtorch-run ', 1, true)
  local inside = from and text:sub(from + 1, (text:find('-->', from, true) or 0) - 1)
  local ok, value = parsed(inside or text)
  if not ok and text:find '^%s*<' then
    extend.fail("compare_runs: the page '%s' has no data of a run; mt.Report writes such pages, with curves", path)
  end
  if ok and type(value) == 'table' and value[1] == nil and text:find '^%s*[{<]' and not text:find '}%s*\n%s*{' then
    add_object(run, value)
  else
    add_records(run, ok and type(value) == 'table' and type(value[1]) == 'table' and value or lines_of(path, text))
  end
  extend.check(next(run.options) or next(run.curves), "compare_runs: '%s' has no options and no curves", path)
  return run
end

--- Names each run by its file, or where files have equal names by the path.
local function add_names(runs)
  local count = {}
  local function short(run) return run.path:match('[^/]*$'):gsub('%.gz$', ''):gsub('%.%w+$', '') end
  for _, run in ipairs(runs) do count[short(run)] = (count[short(run)] or 0) + 1 end
  local taken = {}
  for i, run in ipairs(runs) do
    run.name = count[short(run)] == 1 and short(run) or taken[run.path] and ('%s (%d)'):format(run.path, i) or run.path
    taken[run.path] = true
  end
end

-- The table ----------------------------------------------------------------------------------------

--- Sets the last and the best value of each curve.
local function add_results(run)
  run.last, run.best = {}, {}
  for name, curve in pairs(run.curves) do
    local larger = util.larger_is_better(name)
    run.last[name] = curve.y[#curve.y]
    for _, v in ipairs(curve.y) do
      local best = run.best[name]
      if v == v and (not best or larger and v > best or not larger and v < best) then run.best[name] = v end
    end
    run.best[name] = run.best[name] or nan
  end
end

--- The names in a field of all runs, in order.
local function all_names(runs, field)
  return util.sorted_keys(util.merged(unpack(util.map(runs, function(run) return run[field] end))))
end

--- Returns rows with a value for each run, and the options that are the same everywhere.
local function table_of(runs)
  local rows, same = {{''}}, {}
  local function joined(row) return table.concat(util.map(row, tostring), ' ', 2) end
  for i, run in ipairs(runs) do rows[1][i + 1] = run.name end
  local function add(title, field, name)
    local row, differs = {title}, false
    for i, run in ipairs(runs) do
      local value = run[field][name]
      row[i + 1] = value == nil and '-' or value
      differs = differs or row[i + 1] ~= row[2]
    end
    return row, differs
  end
  for _, name in ipairs(all_names(runs, 'options')) do
    local row, differs = add(name, 'options', name)
    if differs then rows[#rows + 1] = row else same[name] = row[2] end
  end
  for _, name in ipairs(all_names(runs, 'curves')) do
    local last, best = add(name, 'last', name), add(name .. ', best', 'best', name)
    rows[#rows + 1] = last
    if joined(best) ~= joined(last) then rows[#rows + 1] = best end
  end
  if #runs <= most_columns then return rows, same end
  return util.map(rows[1], function(_, k) return util.map(rows, function(row) return row[k] end) end), same
end

local function print_table(rows)
  local function short(value)
    local text = type(value) == 'number' and util.number_text(value, 6) or tostring(value):gsub('%c', ' ')
    return util.truncate(text, 40)
  end
  local text = util.aligned(util.map(rows, function(row) return util.map(row, short) end), 1)
  text[#text] = nil
  print(table.concat(text, '\n'))
end

compare.compare_runs = extend.declare("compare_runs([files]: strings, path: string = '', title: string = 'Comparison')",
  'Prints the options in which runs differ and the last and best values of their curves, side by side: ' ..
    "mt.compare_runs{'a.jsonl', 'b.jsonl', path='compare.html'}. The files are logs of mt.JsonLines, JSON files, or " ..
    'pages of mt.Report. path: also a page with the curves over one another. Returns a list of {name=, options=, ' ..
    'curves=, last=, best=}. In a shell: mtorch compare runs/*.jsonl --report compare.html.',
  function(files, path, title)
    if #files == 0 then extend.fail "compare_runs: name the runs' files, as in compare_runs{'a.jsonl', 'b.jsonl'}" end
    if path ~= '' then report.check_path(path) end
    local runs, curves = util.map(files, read), {}
    add_names(runs)
    for _, run in ipairs(runs) do
      add_results(run)
      curves[run.name] = run.curves
    end
    local rows, same = table_of(runs)
    print_table(rows)
    if path ~= '' then
      report.report{path = path, title = title, runs = next(all_names(runs, 'curves')) and curves, table = rows,
        config = next(same) and same or nil}
    end
    return runs
  end)

local usage = 'compare: mtorch compare FILE.. [--report PAGE.html], of logs, JSON files and pages of mt.Report'

--- `mtorch compare`; returns a sentence if it is used wrongly.
function compare.start(words)
  local files, at = {}, 1
  while words[at] do
    local name, value = words[at]:match '^%-%-(%w+)=?(.*)$'
    if not name then
      files[#files + 1] = words[at]
    elseif name == 'report' and (value ~= '' or words[at + 1]) then
      if value == '' then at, value = at + 1, words[at + 1] end
      files.path = value
    else
      return usage
    end
    at = at + 1
  end
  if #files == 0 then return usage end
  compare.compare_runs(files)
  if files.path then print('report: ' .. files.path) end
end

return compare
