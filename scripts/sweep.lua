-- sweep.lua -- hyperparameter search over the flags of a training script, with runs in parallel and one report
--
--   mtorch scripts/sweep.lua                                            sizes and rates of train_split.lua
--   mtorch scripts/sweep.lua --script scripts/train_mnist.lua --over 'batch=32,64,128 rate=0.001..0.1' --runs 12 \
--     --with '--model lenet --epochs 2' --metric accuracy --processes 4
--   mtorch scripts/sweep.lua --dry-run                                  a short run of every part
--
-- `--over` names flags of the script and their values: a list, hidden=10,50,100, or a range, rate=0.001..0.1. Without
-- --runs every combination is tried (grid search, lists only); --runs 12 samples 12 of them: ranges uniformly,
-- or log-uniformly if they span more than a factor of ten. --with has flags for all runs.
--
-- Each run is a process, whose output is parsed: the last line `final: name=number ..`, in which --metric names the
-- value to compare, and for the curves lines that begin with `epoch` and a number, such as
-- `epoch 3  loss 0.25  valid_loss 0.31`. The metric should be measured on data that the run was not trained with,
-- because the training loss rewards overfitting. Without --metric it is the first that exists of valid_loss, another
-- valid_.. or test_.., an accuracy, loss. Without --mode smaller losses and errors, but larger other values, win.
local mt = require 'mtorch'
local refuse = require 'refuse'
local util = mt.extend.util

local options = mt.args{
  {'script', help = 'the training script; default: train_split.lua', metavar = 'FILE'},
  {'over', help = "flags and their values, 'hidden=10,50 rate=0.01..0.5'", metavar = 'FLAGS'},
  {'with', '', 'flags for all runs', metavar = 'FLAGS'},
  {'runs', help = 'number of combinations to sample; default: all', type = 'int', min = 1},
  {'metric', help = "name in the line 'final:' by which runs are ranked (default: see above)", metavar = 'NAME'},
  {'mode', {'auto', 'min', 'max'}, 'whether smaller or larger values are better; auto: by the name of the metric'},
  {'processes', 2, 'runs at a time', type = 'int', min = 1},
  {'target', help = 'required value of the best run'},
  {'report', 'sweep.html', "HTML page with all results; '' writes none", type = 'output'},
  {'dry_run', false, 'a short run of every part'},
}

-- ---- the settings --------------------------------------------------------------------------------

local script = options.script or arg[0]:gsub('[^/]*$', 'train_split.lua', 1)
local over, with, metric, mode, target = options.over, options.with, options.metric, options.mode, options.target
if options.dry_run and not options.script then
  over, with = 'hidden=4,8', '--epochs 10'
elseif not over then
  if options.script then refuse("--over names the flags to search, --over 'hidden=10,50 rate=0.01..0.5'") end
  over = 'hidden=10,30,100 rate=0.05,0.2,0.5'
end

--- "hidden=10,50 rate=0.01..0.5" as a list of {name=, values={..}} or {name=, low=, high=, whole=}.
local function parameters_of(text)
  local list = {}
  for word in text:gmatch('%S+') do
    local name, values = word:match('^([%w_%-]+)=(.+)$')
    if not name then refuse("--over: '%s' is not name=value,value or name=low..high", word) end
    local low, high = values:match('^([^,]-)%.%.([^,]+)$')
    local parameter = {name = name, low = tonumber(low), high = tonumber(high), values = {}}
    if low and not (parameter.low and parameter.high and parameter.low < parameter.high) then
      refuse("--over: the range '%s' needs two numbers, the smaller first", values)
    end
    parameter.whole = low and not (low .. high):find('[.eE]')
    for value in (low and '' or values):gmatch('[^,]+') do table.insert(parameter.values, value) end
    list[#list + 1] = parameter
  end
  return list
end

--- Every combination of the values, as lists of texts in the order of the parameters.
local function grid(parameters, k)
  k = k or 1
  if k > #parameters then return {{}} end
  if parameters[k].low then refuse('a grid needs lists; --%s is a range, give --runs', parameters[k].name) end
  local all = {}
  for _, value in ipairs(parameters[k].values) do
    for _, rest in ipairs(grid(parameters, k + 1)) do all[#all + 1] = {value, unpack(rest)} end
  end
  return all
end

local function sample(parameters)
  local setting = {}
  for k, p in ipairs(parameters) do
    local u = mt.rand(1):item()
    if not p.low then
      setting[k] = p.values[math.min(math.floor(u * #p.values) + 1, #p.values)]
    elseif p.whole then
      setting[k] = tostring(math.min(p.low + math.floor(u * (p.high - p.low + 1)), p.high))
    else
      local by_factor = p.low > 0 and p.high > 10 * p.low
      setting[k] = ('%.4g'):format(by_factor and p.low * (p.high / p.low) ^ u or p.low + u * (p.high - p.low))
    end
  end
  return setting
end

local parameters = parameters_of(over)
local settings = {}
if options.runs then
  for i = 1, options.runs do settings[i] = sample(parameters) end
else
  settings = grid(parameters)
end

-- ---- the runs ------------------------------------------------------------------------------------

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local first = -1 -- the program precedes its own options
while arg[first - 1] do first = first - 1 end
local processes = math.min(options.processes, #settings)
local threads = math.max(math.floor(mt.get_num_threads() / processes), 1)
local function command(setting)
  local words = {quoted(arg[first]), quoted(script), with, '--threads', threads, '--seed', ('%d'):format(options.seed)}
  for k, p in ipairs(parameters) do table.insert(words, ('--%s %s'):format(p.name, quoted(setting[k]))) end
  return table.concat(words, ' ')
end

--- Waits for a run and parses its output into values and curves: run.final[name], run.curves[name] = {x=, y=}.
local function finish(run)
  local output = run.pipe:read '*a'
  run.pipe:close()
  run.final, run.curves, run.status = {}, {}, output:match 'status (%d+)\n$'
  for line in output:gsub('status %d+\n$', ''):gmatch '[^\n]+' do
    local final = line:match('^final: (.*)$')
    local epoch, rest = line:match('^%s*[Ee]poch%s+(%d+)%s*(.*)$')
    for name, value in (final or ''):gmatch('([%w_]+)=(%S+)') do run.final[name] = tonumber(value) end
    for name, value in (rest or ''):gmatch('(%a[%a_/ ]-)%s*[ =:]%s*(-?%d[%d.eE+-]*)') do
      local curve = run.curves[name] or {x = {}, y = {}}
      run.curves[name] = curve
      table.insert(curve.x, tonumber(epoch))
      table.insert(curve.y, tonumber(value) or 0 / 0)
    end
    run.last = line
  end
end

--- Runs all, `processes` at a time.
local function run_all(runs)
  local bar = mt.progress(#runs, {label = 'runs'})
  for i = 1, #runs + processes do
    if i > processes then
      finish(runs[i - processes])
      bar:update()
    end
    if runs[i] then runs[i].pipe = io.popen(command(runs[i].setting) .. ' 2>&1 </dev/null; echo status $?') end
  end
  bar:finish()
end

local runs = util.map(settings, function(setting)
  local label = util.map(parameters, function(p, k) return p.name .. '=' .. setting[k] end)
  return {setting = setting, label = table.concat(label, ' ')}
end)
print(('%d runs of %s, %d at a time'):format(#runs, script, processes))
run_all(runs)

-- ---- results -------------------------------------------------------------------------------------

--- Returns the default metric to rank by, and the names of all that were printed.
local function usual_metric()
  local names = util.sorted_keys(util.merged(unpack(util.map(runs, function(run) return run.final end))))
  for _, pattern in ipairs{'^valid_loss$', '^val', '^test', 'accuracy', '^loss$', ''} do
    for _, name in ipairs(names) do
      if name:find(pattern) then return name, names end
    end
  end
  return 'loss', names
end
local printed
if not metric then metric, printed = usual_metric() end
if mode == 'auto' then mode = util.larger_is_better(metric) and 'max' or 'min' end
if printed then
  print(('ranked by %s, the %s the better%s (--metric, --mode): the runs print %s'):format(metric,
    mode == 'max' and 'larger' or 'smaller', metric == 'loss' and ', in training' or '', table.concat(printed, ', ')))
end

--- Whether the value a is better than b; NaN and nil are the worst.
local function better(a, b)
  if a ~= a or a == nil then return false end
  if b ~= b or b == nil then return true end
  if mode == 'max' then return a > b end
  return a < b
end
local order = {unpack(runs)}
table.sort(order, function(a, b) return better(a.final[metric], b.final[metric]) end)

local head, rows = {'rank'}, {}
for k, p in ipairs(parameters) do head[k + 1] = p.name end
table.insert(head, metric)
rows[1] = head
for i, run in ipairs(order) do
  local row = {i, unpack(run.setting)}
  table.insert(row, run.final[metric] or ('no figure (status %s): %s'):format(tostring(run.status), run.last or ''))
  rows[i + 1] = row
  print(('%3d  %-50s %s=%s'):format(i, run.label, metric, tostring(row[#row])))
end

--- Returns one chart of each curve with the eight best runs, named by their ranks; that of the metric is first.
local function charts()
  local names, list = {}, {}
  for name in pairs(order[1].curves) do names[#names + 1] = name end
  table.sort(names, function(a, b) return (a == metric and '' or a) < (b == metric and '' or b) end)
  for k, name in ipairs(names) do
    list[k] = {title = name, xlabel = 'epoch'}
    for i = 1, math.min(#order, 8) do
      local curve = order[i].curves[name]
      if curve then table.insert(list[k], {x = curve.x, y = curve.y, label = tostring(i)}) end
    end
  end
  return list
end
if options.report ~= '' and not options.dry_run then
  mt.report{path = options.report, title = 'A search over ' .. table.concat(head, ', ', 2, #head - 1),
    curves = charts(), table = rows, config = {script = script, over = over, with = with, seed = options.seed,
      metric = metric, mode = mode}}
  print('report: ' .. options.report)
end

local best = order[1]
local figure = best.final[metric]
if figure == nil then
  refuse("no run printed a line 'final: %s=..'; the first one ended with: %s", metric, best.last or '')
end
print(('final: best_%s=%g runs=%d %s'):format(metric, figure, #runs, best.label))
local reached = not target or mode == 'max' and figure >= target or mode == 'min' and figure <= target
if not (options.dry_run or reached) then
  refuse('the best %s is %g, the target %g', metric, figure, target)
end
