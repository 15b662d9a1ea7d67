-- timeit.lua -- mt.timeit and mt.time: measures a function, in the format of IPython's %timeit and %time
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local function text(seconds) return util.in_units('%.3g %s', seconds, 1, 's', 1e-3, 'ms', 1e-6, 'us', 1e-9, 'ns') end

local timing = {}

timing.timeit = core.declare('timeit(fn: function, n: int >= 1 = nil, runs: int >= 1 = 7, quiet=false)',
  'Times fn(): prints "mean +- deviation per loop" of runs of n loops each (without n as many as take 0.05 s); ' ..
  'returns mean, deviation, median in seconds. Before and after each run it waits for the GPUs in use.',
function(fn, n, runs, quiet)
  local function run(loops)
    core.wait_for_gpus()
    local start = core.time()
    for _ = 1, loops do fn() end
    core.wait_for_gpus()
    return (core.time() - start) / loops
  end
  if not n then
    n = 1
    local took = run(1)
    while took * n < 0.05 and n < 1e8 do
      n = math.min(1e8, math.max(n * 2, math.ceil(0.06 / math.max(took, 1e-9))))
      took = run(n)
    end
  end
  local times = mt.tensor(util.tabulate(runs, function() return run(n) end), {dtype = 'float64', device = 'cpu'})
  local mean, deviation = times:mean():item(), times:std{correction = 0}:item()
  local median = times:quantile(0.5):item()
  if not quiet then
    print(('%s +- %s per loop (mean +- std. dev. of %d runs, %d loops each)'):format(text(mean),
      text(deviation), runs, n))
  end
  return mean, deviation, median
end)

timing.time = core.declare('time(fn: function, quiet=false)',
  'Times one call of fn: prints the time of the processor ' ..
  '(user, sys, total: all threads together) and of the clock (wall; it waits for the GPUs in use); returns ' ..
  '{user=, sys=, total=, wall=} in seconds, then what fn returned. The first call of a function may compile; ' ..
  'mt.timeit repeats. Changes by fn, also of the gradient mode, remain as after fn().',
function(fn, quiet)
  core.wait_for_gpus()
  local user, sys = core.cpu_times()
  local start = core.time()
  local function finish(...)
    core.wait_for_gpus()
    local taken = {wall = core.time() - start}
    local user_now, sys_now = core.cpu_times()
    taken.user, taken.sys = user_now - user, sys_now - sys
    taken.total = taken.user + taken.sys
    if not quiet then
      print(('CPU times: user %s, sys: %s, total: %s\nWall time: %s'):format(text(taken.user), text(taken.sys),
        text(taken.total), text(taken.wall)))
    end
    return taken, ...
  end
  return finish(fn())
end)

return timing
