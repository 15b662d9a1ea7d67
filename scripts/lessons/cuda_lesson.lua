-- cuda_lesson.lua -- functions of the lessons: flags, compiling, timing, checking, tables, graphs
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local lesson = {}

--- Prints why the script is skipped and exits with status 0.
local function skip(why)
  print('skipped: ' .. why)
  os.exit(0)
end

--- Returns the values of the flags of the script `name`: its own, as for mt.args, and those of all lessons. If there is
--- no GPU, the script is skipped, unless the kernels are only to be compiled.
function lesson.start(name, own)
  local options = mt.args(util.append(own, {
    {'runs', 5, 'timed runs; the median is shown', type = 'int', min = 1},
    {'compile', false, 'only compile the kernels; needs no GPU'},
    {'csv', name .. '.csv', "file for the table; '' for none", type = 'output'},
    {'plot', name .. '.svg', "file for the graph; '' for none", endings = {'svg', 'png'}},
  }))
  local usable, why = mt.cuda.is_available()
  if not usable and not options.compile then
    skip(('this script runs its kernels on an NVIDIA GPU, and %s (--compile only compiles them)'):format(why))
  end
  if usable then print(('GPU: %s'):format(mt.cuda.device_name())) end
  return options
end

--- Compiles {{source =, name =, ..}, ..} and returns the kernels by name; with --compile the script ends
--- then. The first run takes about 50 ms for each; later runs use the cache on disk.
function lesson.kernels(options, list)
  local kernels = {}
  for _, spec in ipairs(list) do
    local ok, k = pcall(mt.cuda.kernel, spec)
    if not ok and tostring(k):find('NVRTC, CUDA\'s compiler library', 1, true) then skip(tostring(k)) end
    if not ok then error(k, 0) end
    kernels[k.name] = k
    local how = k.cached and 'found on disk' or 'compiled'
    print(('%-14s in %6.1f ms for sm_%d%s: %s'):format(how, k.milliseconds, k.arch,
      k.registers and (', %d registers'):format(k.registers) or '', k.signature))
  end
  if options.compile then
    print(('%d kernels compiled'):format(#list))
    os.exit(0)
  end
  return kernels
end

--- Returns the microseconds of one call of fn, on the GPU until its kernels have ended: the median of `runs` runs, with
--- many calls of a short fn in each.
function lesson.microseconds(fn, runs)
  fn() -- the first call also loads modules or compiles
  local once = mt.time(fn, true).wall
  local n = runs > 1 and math.max(1, math.min(1000, math.floor(0.02 / math.max(once, 1e-7)))) or 1
  local _, _, median = mt.timeit(fn, {n = n, runs = runs, quiet = true})
  return median * 1e6
end

--- Runs fn, which must raise an error, and prints its message.
function lesson.fails(title, fn)
  local ok, message = pcall(fn)
  if ok then error(title .. ' was not found', 0) end
  print(('%s: %s'):format(title, (tostring(message):gsub('^[^\n]-:%d+: ', ''))))
end

--- Raises an error if a result on any device differs from the expected one.
function lesson.check(what, got, wanted, tolerance)
  got, wanted = got:cpu(), wanted:cpu()
  if not mt.allclose(got, wanted, {rtol = tolerance, atol = tolerance}) then
    local worst = (got - wanted):abs():max():item()
    error(('%s is wrong: off by up to %g'):format(what, worst), 0)
  end
end

local function number(value)
  if type(value) ~= 'number' then return tostring(value or '-') end
  if value % 1 == 0 and math.abs(value) < 1e9 then return ('%d'):format(value) end
  return (value >= 100 and '%.0f' or value >= 10 and '%.1f' or '%.2f'):format(value)
end

--- Prints rows as a table, and writes them to a CSV file if `path` is not ''.
function lesson.table(columns, rows, path)
  local lines = util.map(util.append({columns}, rows), function(row)
    return util.tabulate(#columns, function(c) return number(row[c]) end)
  end)
  print(table.concat(util.aligned(lines, 1), '\n'))
  if not path or path == '' then return end
  local lists = {names = columns}
  for c, name in ipairs(columns) do
    lists[name] = util.map(rows, function(row) return row[c] == nil and '' or row[c] end)
  end
  print('table: ' .. mt.data.save_csv(path, lists))
end

--- Draws a log-log plot into the file `path`, unless that is '': a line for each of `columns` from 2 on, over column 1.
function lesson.graph(columns, rows, title, xlabel, ylabel, path)
  if path == '' then return end
  local series = {}
  for c = 2, #columns do
    local x, y = {}, {}
    for _, row in ipairs(rows) do
      if row[c] then x[#x + 1], y[#y + 1] = row[1], row[c] end
    end
    if #x > 0 then series[#series + 1] = {x = x, y = y, label = columns[c]} end
  end
  series.title, series.xlabel, series.ylabel, series.path = title, xlabel, ylabel, path
  series.logx, series.logy = true, true
  mt.plot.line(series)
  print('graph: ' .. path)
end

return lesson
