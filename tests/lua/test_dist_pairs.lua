-- test_dist_pairs.lua -- mt.dist: if one process makes another call than the others, all end soon with an error
--
--   mtorch tests/lua/test_dist_pairs.lua [PAIRS [SEED]]    random pairs of 2 to 4 processes instead of the fixed ones
local mt = require 'mtorch'
local t = require 'testing'
local dist, nn = mt.dist, mt.nn

local calls = {'all_reduce', 'all_reduce of 3', 'max', 'broadcast', 'all_gather', 'barrier', 'backward',
  'backward of 2', 'reduce_scatter', 'gather', 'scatter', 'all_to_all', 'in a group'}
local actions = {'exit', 'error', 'kill', 'stop', unpack(calls)}
local is_call = {}
for _, name in ipairs(calls) do is_call[name] = true end
local deadline, most = 1, 5 -- seconds

if arg[1] == '--process' then
  local rank = dist.init{timeout = deadline}
  local one, two = dist.parallel(nn.Linear(3, 1)), dist.parallel(nn.Linear(2, 2))
  local ranks, tensors = {}, {}
  for i = 1, dist.size() do ranks[i], tensors[i] = i - 1, mt.ones(2) end
  local everyone = dist.group(ranks)
  local action = arg[rank == tonumber(arg[2]) and 4 or 3]
  local does = {
    all_reduce = function() dist.all_reduce_(mt.ones(2)) end,
    ['all_reduce of 3'] = function() dist.all_reduce_(mt.ones(3)) end,
    max = function() dist.all_reduce_(mt.ones(2), 'max') end,
    broadcast = function() dist.broadcast_(mt.ones(2)) end,
    all_gather = function() dist.all_gather(mt.ones(2)) end,
    barrier = dist.barrier,
    reduce_scatter = function() dist.reduce_scatter_(mt.ones(1), mt.ones(dist.size())) end,
    gather = function() dist.gather(mt.ones(2), 0) end,
    scatter = function() dist.scatter(rank == 0 and tensors or nil) end,
    all_to_all = function() dist.all_to_all(tensors) end,
    ['in a group'] = function() dist.all_reduce_(mt.ones(2), {group = everyone}) end,
    backward = function() one(mt.ones(1, 3)):sum():backward() end,
    ['backward of 2'] = function() two(mt.ones(1, 2)):sum():backward() end,
    exit = function() os.exit(0) end,
    error = function() io.stderr:write('process ', rank, ' fails on purpose\n') os.exit(1) end,
    kill = function() os.execute 'kill -KILL $PPID' end,
    stop = function() os.execute 'kill -STOP $PPID' end,
  }
  dist.barrier()
  io.stderr:write('begin ', os.time(), '\n')
  local good, message = pcall(does[action])
  if not good then
    io.stderr:write(message, '\n')
    pcall(dist.barrier) -- so that each process has printed its error before one ends all
  end
  os.exit(good and 0 or 1)
end

local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end

--- Process `odd` of n calls `second`, the others call `first`.
local function pair(n, odd, first, second)
  local pipe = io.popen(('OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 ' ..
    'ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout -k 1 60 ' ..
    "mpirun --oversubscribe -n %d '%s' '%s' --process %d '%s' '%s' 2>&1; echo status $?"):format(n, program, arg[0],
    odd, first, second))
  local text = pipe:read '*a'
  pipe:close()
  local begin = 0
  for at in text:gmatch 'begin (%d+)' do begin = math.max(begin, tonumber(at)) end
  local stopped = first == 'stop' or second == 'stop'
  text = ('%d processes, %s; process %d: %s\n%s'):format(n, first, odd, second, text)
  assert(begin > 0 and os.time() - begin <= most + (stopped and deadline + 1 or 0), text)
  local fine = first == second and is_call[first] or first == 'exit' and second == 'exit'
  assert((text:find '\nstatus 0\n' ~= nil) == fine and not text:find '\nstatus 124\n', text)
  local said = 0
  for _ in text:gmatch '\n[^\n]*process r?a?n?k? ?%d[^\n]*' do said = said + 1 end
  assert(fine or said >= (is_call[first] and is_call[second] and n or 1), text)
end
--- Whether another process remains that can report that the others have ended.
local function is_told(first, second)
  return not ((first == 'stop' or first == 'exit') and (second == 'stop' or second == 'exit')) or
    first == 'exit' and second == 'exit'
end

if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'skipped: there is no mpirun'
elseif arg[1] then
  local seed = tonumber(arg[2]) or os.time()
  print('seed ' .. seed)
  math.randomseed(seed)
  local done = 0
  while done < tonumber(arg[1]) do
    local n, first, second = math.random(2, 4), actions[math.random(#actions)], actions[math.random(#actions)]
    local odd = math.random(0, n - 1)
    if is_told(first, second) then
      done = done + 1
      t.test(('%d: %d x %s, process %d %s'):format(done, n, first, odd, second),
        function() pair(n, odd, first, second) end)
    end
  end
else
  for _, case in ipairs{{3, 1, 'barrier', 'stop'}, {2, 0, 'backward', 'all_reduce of 3'}, {2, 1, 'backward', 'kill'},
    {3, 0, 'exit', 'error'}, {2, 0, 'all_gather', 'exit'},
    {3, 1, 'in a group', 'exit'}} do
    t.test(('%d x %s, process %d %s'):format(case[1], case[3], case[2], case[4]), function() pair(unpack(case)) end)
  end
end
t.finish()
