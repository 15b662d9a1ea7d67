-- bench.lua -- benchmarks every operation and whole jobs, alone or against other libraries
--
--   mtorch scripts/bench.lua --peer torch --save now.json
--   mtorch scripts/bench.lua --only '^relu/,^add/' --compare before.json
--   mtorch scripts/bench.lua --only '^exp/' --sizes 4,1Ki,64Ki,1Mi --peer torch,copy --plot exp.svg
--   mtorch scripts/bench.lua --device cuda --peer torch
--
-- Prints `name<TAB>microseconds`. With peers the columns are: name, mtorch's time, and for each peer its time and the
-- ratio, the peer's time / mtorch's. Every contender is a process (bench/worker.lua, peers/worker.py) that creates a
-- row's inputs and warms up; then they take turns, seven runs each of at least 5 ms or four calls; the median is used.
-- A peer that is not installed is reported and left out; MTORCH_PEER_PYTHON is the Python interpreter with the peers.
-- Peers: torch, torch_compile, jax, numpy, numba; cpp (loops, g++ -O3), cblas (the BLAS called directly), copy (a
-- memory copy of as many bytes); mtorch itself as no_onednn (products, convolutions and steps without oneDNN), avx2
-- (that instruction set), two_threads; all: every peer except those of mtorch itself. bench/rows.lua describes rows.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local ffi = require 'ffi'
local Contender = require 'bench.contender'
local report = require 'bench.report'
local rows = require 'bench.rows'
local tools = require 'bench.tools'
local util = require 'mtorch.core.util'

local options = mt.args {
  {'only', '', 'rows that match one of these Lua patterns', metavar = 'PATTERN,..'},
  {'group', '', 'rows whose group matches, such as reductions', metavar = 'PATTERN,..'},
  {'quick', false, 'short runs of fewer rows, as a test'},
  {'threads', 1, 'CPU threads, also of the peers', min = 1},
  {'peer', 'none', 'peers to compare with, separated by commas, or all', metavar = 'NAME,..'},
  {'sizes', '4,1Ki,1Mi', 'numbers of elements of elementwise rows and reductions', metavar = 'N,..'},
  {'alone', false, 'measure the peer only, not mtorch'},
  {'save', '', 'file for the rows (.json)', metavar = 'FILE'},
  {'from', '', 'show saved rows instead of measuring (.json)', metavar = 'FILE'},
  {'compare', '', 'file of earlier rows (.json); status 1 if a row is slower beyond noise', metavar = 'FILE'},
  {'plot', '', 'file for a graph of time over size (.svg)', metavar = 'FILE'},
  {'format', {'plain', 'markdown'}, 'how the table is written'},
}
local python_peers = {torch = true, torch_compile = true, jax = true, numpy = true, numba = true}
local all_peers = {'torch', 'torch_compile', 'jax', 'numpy', 'numba', 'cpp', 'cblas', 'copy'}
local known = util.merged(rows.own, util.set(all_peers))

local function say(sentence, ...)
  mt.progress.close()
  io.stderr:write('mtorch: bench.lua: ', sentence:format(...), '\n')
end

local function quit(...)
  say(...)
  os.exit(1)
end

-- ---- contenders ----

local function names_of_contenders()
  local list = options.alone and {} or {'mtorch'}
  local text = options.peer == 'all' and table.concat(all_peers, ',') or options.peer == 'none' and '' or options.peer
  for name in text:gmatch('[^,%s]+') do
    if not known[name] then
      quit("no peer is called '%s'; there are %s, no_onednn, avx2, two_threads", name, table.concat(all_peers, ', '))
    end
    list[#list + 1] = name
  end
  if #list == 0 then quit('--alone needs a --peer') end
  return list
end

local function start(name)
  local threads = tostring(name == 'two_threads' and 2 or options.threads)
  local program, script = tools.program, 'bench/worker.lua'
  if python_peers[name] then program, script = tools.python(), 'bench/peers/worker.py' end
  return Contender.start(name, {program, tools.folder .. script, '--name', name, '--threads', threads, '--device',
    options.device}, ('OMP_NUM_THREADS=%s %s'):format(threads, rows.own[name] or ''))
end

--- Starts the contenders; returns those that can be measured and reports the others.
local function start_all(names)
  return util.filter(util.map(names, start), function(c)
    local word, text = c:answer()
    if word == 'hello' then
      c.title = text
      return true
    end
    say('%s is left out: %s', c.name, text)
    c:stop()
  end)
end

-- ---- taking turns ----

--- Prepares a row of a contender; returns the microseconds of the first call.
local function prepare(row, c)
  local setup, call = rows.side(row, c.name)
  if row.sides.reports then return c:number('load', row.inputs, setup, call) end
  local first = c:number('prepare', row.inputs, setup, call)
  if not row.sides.fresh then
    c:warm_up(first, options.quick and 1e-3 or 5e-3, options.quick and 2e-3 or 5e-2)
  end
  return first * 1e6
end

--- Returns the figure of a turn: the first call in a new process, what the call reports, or the microseconds of a call.
local function take_turn(row, c)
  if not row.sides.fresh then return row.sides.reports and c:number 'report' or c:run() end
  local new = start(c.name)
  new:answer()
  local ok, us = pcall(prepare, row, new)
  new:stop()
  return ok and us or error(us, 0)
end

--- Adds the turns of a row to row.turns[contender]. The contenders take turns; one that fails is reported and left out.
local function measure(row, contenders)
  row.turns = row.turns or {}
  local failed = {}
  local function try(c, fn)
    local ok, us = pcall(fn, row, c)
    if not ok then say('skipped %s of %s: %s', row.name, c.name, us) end
    failed[c] = not ok
    return ok and us
  end
  local ready = util.filter(contenders, function(c) return select(2, rows.side(row, c.name)) end)
  for _, c in ipairs(row.sides.fresh and {} or ready) do try(c, prepare) end
  for turn = 1, options.quick and 3 or 7 do
    for _, c in ipairs(ready) do
      local list = row.turns[c.name] or {}
      local slow = row.sides.unit or row.sides.slow or row.sides.fresh or list[1] and list[1] > 0.3e6
      if not failed[c] and not (slow and turn > (options.quick and 1 or 3)) then
        list[#list + 1] = try(c, take_turn) or nil
        row.turns[c.name] = #list > 0 and list or nil
      end
    end
  end
end

local function summary(times)
  local parts = mt.tensor({0.25, 0.5, 0.75}, {dtype = 'float64'})
  local low, us, high = unpack(mt.tensor(times, {dtype = 'float64'}):quantile(parts):tolist())
  return {us = us, low = low, high = high, n = #times}
end

--- Returns the row in the form of report.lua.
local function finished(row)
  local results = {}
  for name, times in pairs(row.turns) do results[name] = summary(times) end
  return {name = row.name, group = row.group, unit = row.sides.unit, results = results}
end

-- ---- the machine ----

--- Returns name, vendor, family and model of the processor, and the number of cores, from /proc/cpuinfo.
local function processor()
  local facts = {cores = 0}
  for line in io.lines('/proc/cpuinfo') do
    local key, value = line:match('^([%l_ ]-)%s*:%s*(.+)$')
    if key == 'processor' then facts.cores = facts.cores + 1 end
    if key then facts[key] = value end
  end
  return {processor = facts['model name'] or 'unknown processor', vendor = facts.vendor_id or '?',
    family = facts['cpu family'] or '?', model = facts.model or '?', cores = facts.cores}
end

--- Returns facts about the machine, and its speed without mtorch: a copy of 4 MiB and a loop that LuaJIT compiles.
local function machine()
  local function time_call(call)
    local times = {}
    call()
    for i = 1, 15 do
      local began = core.time()
      call()
      times[i] = (core.time() - began) * 1e6
    end
    return summary(times)
  end
  local cells = ffi.new('double[1024]')
  local facts = processor()
  facts.isa, facts.date, facts.threads, facts.quick = core.isa(), os.date('!%Y-%m-%d'), options.threads, options.quick
  facts.command, facts.copy = table.concat(arg, ' '), time_call(tools.memory_copy(2 ^ 22))
  facts.loop = time_call(function()
    for _ = 1, 500 do
      for i = 0, 1023 do cells[i] = cells[i] * 0.5 + 1 end
    end
  end)
  return facts
end

-- ---- from the options to the table ----

--- Whether one of the comma-separated patterns or prefixes matches the text.
local function matches(patterns, text)
  for part in (patterns .. ','):gmatch('([^,]*),') do
    local ok, at = pcall(string.find, text, part) -- a prefix may be an invalid pattern
    if ok and at or text:sub(1, #part) == part then return true end
  end
  return false
end

--- Whether --only and --group select this row.
local function selected(name, group) return matches(options.only, name) and matches(options.group, group or '') end

local function sizes()
  local list = {}
  for label in options.sizes:gmatch('[^,%s]+') do
    local n = report.count_of(label)
    if not n then quit("--sizes takes numbers such as 4, 16Ki and 1Mi, got '%s'", label) end
    list[#list + 1] = {label, n}
  end
  if #list == 0 then quit('--sizes is empty') end
  if options.quick and options.sizes == '4,1Ki,1Mi' then table.remove(list, 2) end
  return list
end

local function check_options()
  if options.plot ~= '' and not options.plot:match('%.svg$') then
    quit("--plot writes SVG, so '%s' must end in .svg", options.plot)
  end
  for _, path in ipairs {options.save, options.plot} do
    if path ~= '' then core.check_writable('bench', path) end
  end
end

local function columns_of(contenders)
  return util.map(contenders, function(c) return {name = c.name, title = c.title} end)
end

--- Measures all rows; prints each one when it is done, with the times of an earlier file.
local function measure_all(list, contenders, shown)
  local run = {rows = {}, columns = columns_of(contenders), machine = machine()}
  local bar = mt.progress(#list, {label = 'rows'})
  for _, row in ipairs(list) do
    measure(row, contenders)
    bar:update()
    if next(row.turns) then
      local r = finished(row)
      run.rows[#run.rows + 1] = r
      bar:print(shown(r))
    end
  end
  return run
end

local function groups_of(list)
  local groups = {}
  for _, r in ipairs(list) do
    local group = r.group or ''
    if not groups[group] then groups[#groups + 1], groups[group] = group, {} end
    table.insert(groups[group], r)
  end
  return groups
end

--- Measures rows that seem slower again, up to twice, and adds the turns; returns the rows that are still slower.
local function confirmed(old, run, list, contenders)
  local slower = report.regressions(old, run)
  for _ = 1, list and 2 or 0 do
    local again = util.set(util.map(slower, function(s) return s.name end))
    for i, r in ipairs(run.rows) do
      for _, row in ipairs(again[r.name] and list or {}) do
        if row.name == r.name then
          measure(row, {contenders[1]})
          run.rows[i] = finished(row)
        end
      end
    end
    run.machine = machine()
    slower = report.regressions(old, run)
  end
  return slower
end

local function compare(old, run, list, contenders)
  local slower = confirmed(old, run, list, contenders)
  for _, s in ipairs(slower) do
    say('%s is slower: %.3f, was %.3f (%.2f times; noise allows %.2f)', s.name, s.new, s.old, s.new / s.old, s.allowed)
  end
  return #slower == 0
end

local function read(path)
  local run, message = report.read(path)
  return run or quit('%s', message)
end

--- Returns the columns, and a function that measures or reads the rows and shows them.
local function gather()
  if options.from ~= '' then
    local run = read(options.from)
    run.rows = util.filter(run.rows, function(r) return selected(r.name, r.group) end)
    return run.columns, function(shown)
      for _, r in ipairs(run.rows) do print(shown(r)) end
      return run
    end
  end
  local names = names_of_contenders()
  local list = rows.all({quick = options.quick, device = options.device, sizes = sizes()}, selected)
  if #list == 0 then quit("no row's name matches '%s'", options.only) end
  local contenders = start_all(names)
  if #contenders == 0 then quit('nothing is left to measure') end
  return columns_of(contenders), function(shown) return measure_all(list, contenders, shown), list, contenders end
end

local function main()
  check_options()
  local old = options.compare ~= '' and read(options.compare)
  local columns, produce = gather()
  local before = report.by_name(old or {rows = {}})
  if old then columns[#columns + 1] = {name = 'before', title = options.compare} end
  local markdown = options.format == 'markdown'
  local writer = report.writer(columns, markdown)
  if #columns > 1 or markdown then print(writer:head()) end
  local run, list, contenders = produce(function(r)
    r.results.before = before[r.name]
    return writer:row(r)
  end)
  local groups = groups_of(run.rows)
  for _, group in ipairs(groups) do
    local mean = #columns > 1 and writer:mean(group, groups[group])
    if mean then print(mean) end
  end
  if options.save ~= '' then mt.data.save_json(options.save, run) end
  local fault = options.plot ~= '' and report.graph(options.plot, run, columns)
  if fault then quit('%s', fault) end
  if old and not compare(old, run, list, contenders) then os.exit(1) end
  for _, c in ipairs(contenders or {}) do c:stop() end
end

main()
