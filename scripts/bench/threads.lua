-- threads.lua -- measures the speed-up by threads on an idle machine, and their cost on a busy one
--
--   mtorch scripts/bench/threads.lua                 200 runs of each, with 0, 1 and 2 busy cores
--   mtorch scripts/bench/threads.lua --runs 20 --busy 0
--
-- One row per operation and number of busy cores (programs that compute endlessly): median and 99th
-- percentile in ms of runs with one thread and with all threads, 20 in turns, and the speed-up. A row
-- is "ok" if the median of all threads is at most 1.15 times that of one thread and the 99th percentile
-- at most 10 ms more; without busy cores the speed-up must also be at least `min_speedup`. The status is 1 if
-- a row is not ok.
local mt = require 'mtorch'
local core = require 'mtorch.core'
package.path = arg[0]:gsub('bench/threads%.lua$', '?.lua;') .. package.path
local tools = require 'bench.tools'

local options = mt.args {
  {'runs', 200, 'runs of each operation', type = 'int', min = 1},
  {'busy', '0,1,2', 'how many cores other programs keep busy', metavar = 'LIST'},
  {'threads', 2, 'threads that are compared with one', min = 1},
}

local x, rows, square = mt.randn(1024 * 1024), mt.randn(1024, 1024), mt.randn(512, 512)
local jobs = {
  {name = 'exp', min_speedup = 1.3, run = function() return x:exp() end},
  {name = 'softmax', min_speedup = 1.7, run = function() return rows:softmax(2) end},
  {name = 'sum', min_speedup = 1.7, run = function() return x:sum() end},
  {name = 'sort', min_speedup = 1.5, run = function() return x:sort() end},
  {name = '512^3', min_speedup = 1.3, run = function() return square:matmul(square) end},
}

-- Keeps a core busy until it is killed, or for ten minutes.
local busy_code = 'local stop = os.time() + 600 while os.time() < stop do for i = 1, 1e7 do end end'

--- Returns the milliseconds of one run.
local function time(job)
  local began = core.time()
  job.run()
  return (core.time() - began) * 1e3
end

--- Returns median and 99th percentile.
local function summary(times)
  return tools.median(times), times[math.ceil(0.99 * #times)]
end

local missed = 0
local function measure(job, busy)
  local one, all = {}, {}
  local function turn(times, threads)
    mt.set_num_threads(threads)
    for _ = 1, 5 do job.run() end -- to warm up
    for _ = 1, math.min(20, options.runs - #times) do times[#times + 1] = time(job) end
    collectgarbage()
  end
  while #all < options.runs do
    turn(one, 1)
    turn(all, options.threads)
  end
  local m1, p1 = summary(one)
  local m2, p2 = summary(all)
  local ok = m2 <= 1.15 * m1 and p2 <= p1 + 10 and (busy > 0 or m1 / m2 >= job.min_speedup)
  missed = missed + (ok and 0 or 1)
  print(('%-8s %4d   %9.3f %9.3f   %9.3f %9.3f   %6.2f %5s   %s'):format(job.name, busy, m1, p1, m2,
    p2, m1 / m2, busy > 0 and '' or job.min_speedup, ok and 'ok' or 'missed'))
end

print(('%-8s %4s   %9s %9s   %9s %9s   %6s %5s'):format('', 'busy', '1 thread', '99 %',
  options.threads .. ' threads', '99 %', 'faster', 'least'))
for count in options.busy:gmatch('%d+') do
  local pids = {}
  local ok, message = pcall(function()
    for i = 1, tonumber(count) do pids[i] = tools.start(tools.program, '-e', busy_code) end
    for _, job in ipairs(jobs) do measure(job, tonumber(count)) end
  end)
  for _, pid in ipairs(pids) do tools.kill(pid) end
  if not ok then error(message, 0) end
end
os.exit(missed == 0 and 0 or 1)
