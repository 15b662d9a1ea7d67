-- test_dist_faults.lua -- random faults of a training in four processes: it ends with the same bits
--
--   mtorch tests/lua/test_dist_faults.lua [COUNT [SEED | today]]      so many faults (3), of each kind in turn
--
-- Each run is started with --restarts 3 and has one fault at a random moment. A process that is killed is named within
-- five seconds; after a run, no process is left.
local mt = require 'mtorch'
local t = require 'testing'
local ffi = require 'ffi'
local nn, optim, data, dist = mt.nn, mt.optim, mt.data, mt.dist
ffi.cdef [[int getpid(void); int usleep(unsigned); struct mt_limit {unsigned long now, most;};
  int setrlimit(int, const struct mt_limit *); struct mt_time {long s, us;};
  int gettimeofday(struct mt_time *, void *);]]
local size, steps = 4, 40

-- ---- the training: --process FOLDER FAULT RANK STEP TIMEOUT --------------------------------------------

local function own_fault(fault)
  if fault == 'exit' then os.exit(3) end
  if fault == 'early' then os.exit(0) end
  if fault == 'error' then error 'on purpose' end
  if fault == 'disk' then ffi.C.setrlimit(1, ffi.new('struct mt_limit', 1024, 1024)) end -- RLIMIT_FSIZE
end

local function train(folder, fault, victim, fault_step, timeout)
  local rank = dist.init{timeout = tonumber(timeout)}
  local file = assert(io.open(('%s/pid.%d'):format(folder, rank), 'w'))
  file:write(ffi.C.getpid())
  file:close()
  mt.manual_seed(3)
  local x = mt.rand(48, 6)
  local net = dist.parallel(nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.2), nn.Tanh(), nn.Linear(32, 1)))
  local opt = optim.Sharded(optim.Adam(net:parameters(), {lr = 0.05}))
  local loader = data.DataLoader(data.TensorDataset(x, x:prod(2, true)), {batch_size = 4, shuffle = true, seed = 5,
    shard = {rank, size}})
  mt.manual_seed(rank) -- of dropout
  local objects = {model = net, optim = opt, loader = loader}
  local step = (dist.checkpoint.resume(folder .. '/state', objects) or {step = 0}).step
  while step < steps do
    for input, target in loader:iter() do
      opt:zero_grad()
      mt.mse_loss(net(input), target):backward()
      opt:step()
      step = step + 1
      if os.getenv 'MTORCH_RESTART' == '0' and rank == tonumber(victim) and step == tonumber(fault_step) then
        own_fault(fault)
      end
      ffi.C.usleep(fault == 'slow' and 200000 or 5000)
      objects.step = step
      if step % 5 == 0 then dist.checkpoint.save(folder .. '/state', objects) end
      if step == steps then break end
    end
  end
  if rank == 0 then mt.save(folder .. '/end', {net:state_dict(), opt:state_dict()}) else opt:state_dict() end
end
if arg[1] == '--process' then
  train(unpack(arg, 2))
  os.exit(0)
end

-- ---- runs with faults ----------------------------------------------------------------------------------

local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end
if os.execute 'command -v mpirun >/dev/null && command -v pgrep >/dev/null' ~= 0 then
  print 'skipped: there is no mpirun or no pgrep'
  return
end
local count, seed = tonumber(arg[1] or 3), arg[2] == 'today' and math.floor(os.time() / 86400) or tonumber(arg[2] or 1)
math.randomseed(seed)
local folder = os.tmpname()
os.remove(folder)
os.execute(("mkdir '%s'"):format(folder))

local function now()
  local time = ffi.new 'struct mt_time'
  ffi.C.gettimeofday(time, nil)
  return tonumber(time.s) + tonumber(time.us) / 1e6
end
local function read(name)
  local file = io.open(folder .. '/' .. name, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end
--- Waits until the function returns something true, for at most so many seconds; returns that.
local function await(seconds, fn)
  local start = now()
  repeat
    local result = fn()
    if result then return result, now() - start end
    ffi.C.usleep(10000)
  until now() - start > seconds
end
local function output_of(command)
  local pipe = io.popen(command)
  local text = pipe:read '*a'
  pipe:close()
  return text
end
--- The processes of runs: the launcher, mpirun, and two for each rank.
local function left() return output_of(("pgrep -f -- '[-]-process %s '"):format(folder)):gsub('%s+', ' ') end

--- Starts a run; returns the process of the launcher.
local function start(fault, victim, fault_step, timeout)
  os.execute(("rm -f '%s'/pid.* '%s/status' '%s/end'"):format(folder, folder, folder))
  local file = assert(io.open(folder .. '/run', 'w')) -- so that no other command line has --process in it
  file:write(('export OMP_NUM_THREADS=1 ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0\n' .. -- Open MPI's leaks
    "'%s' --processes %d --restarts 3 '%s' --process %s %s %d %d %d >%s/out 2>&1 &\n" ..
    'echo $! >%s/launcher\nwait $!\necho $? >%s/status\n'):format(program, size, arg[0], folder, fault, victim,
    fault_step, timeout, folder, folder, folder))
  file:close()
  os.execute(("sh '%s/run' &"):format(folder))
  return await(5, function() return tonumber(read 'launcher') end)
end
local function status_of_run(seconds)
  return (await(seconds, function() return tonumber(read 'status') end))
end
local function finish(name)
  local status = status_of_run(100)
  local text = read 'out' or ''
  assert(status, name .. ' does not end: ' .. text)
  assert(await(3, function() return left() == '' end), name .. ' leaves processes')
  return status, text
end
local whole
local function check_end(name, status, text)
  if status ~= 0 or read 'end' ~= whole then error(('%s: status %d, other bits: %s'):format(name, status, text)) end
end
local function forget() os.execute(("rm -f '%s'/state*"):format(folder)) end

-- Each returns the sentence that names the process within `limit` seconds, if one must be there.
local outside = {}
function outside.kill(pid, victim)
  os.execute(('kill -9 %d 2>/dev/null'):format(pid))
  return ('process %d of 4 on [^ ]+ was killed by signal 9 %%(Killed%%).-; restart 1 of 3\n'):format(victim), 5
end
function outside.stop(pid, victim)
  os.execute(('kill -STOP %d 2>/dev/null'):format(pid))
  return ('process [%%d, es]*%d did not answer.-; restart 1 of 3\n'):format(victim), 2 + 1 + 5
end
function outside.any()
  local list = {}
  for pid in left():gmatch '%d+' do list[#list + 1] = pid end
  if #list > 0 then os.execute(('kill -9 %s 2>/dev/null'):format(list[math.random(#list)])) end
end
function outside.interrupt(_, _, launcher) os.execute(('kill -INT %d 2>/dev/null'):format(launcher)) end
function outside.launcher(_, _, launcher) os.execute(('kill -9 %d 2>/dev/null'):format(launcher)) end

local inside = {exit = 'process %d of 4 on [^ ]+ ended with status 3; its last call .-; restart 1 of 3\n',
  error = 'process %d of 4 on [^ ]+ ended with status 1; its last call .-; restart 1 of 3\n',
  early = 'process %d has ended.-; restart 1 of 3\n', disk = 'cannot write.-; restart 1 of 3\n'}
local kinds = {'kill', 'interrupt', 'disk', 'exit', 'error', 'stop', 'any', 'early', 'launcher'}

local function run_fault(i)
  local kind = kinds[(i - 1) % #kinds + 1]
  local victim, step, delay = math.random(0, size - 1), math.random(steps), math.random(0, 300)
  local name = ('fault %d of seed %d: %s of process %d, step %d, %d ms'):format(i, seed, kind, victim, step, delay)
  forget()
  local launcher = start(kind, victim, step, kind == 'stop' and 2 or 30)
  if outside[kind] then
    -- 'any' also before the processes run Lua
    local pid = kind ~= 'any' and await(20, function() return tonumber(read('pid.' .. victim)) end)
    ffi.C.usleep(1000 * (kind == 'any' and 4 or 1) * delay)
    local sentence, limit = outside[kind](pid, victim, launcher)
    if sentence and not read 'end' then
      local said = await(limit, function() return (read 'out'):find(sentence) or read 'end' end)
      assert(said, ('%s: not said within %d s: %s'):format(name, limit, read 'out'))
    end
  end
  local status, text = finish(name)
  if inside[kind] then assert(text:find(inside[kind]:format(victim)), name .. ': ' .. text) end
  if kind == 'interrupt' or kind == 'launcher' or kind == 'any' and status == 137 then
    if kind == 'interrupt' and status ~= 0 then
      assert(status == 130 and text:find 'ended by signal 2' and not text:find 'restart', name .. ': ' .. text)
    end
    start('none', 0, 0, 30)
    status, text = finish(name .. ', again')
  end
  check_end(name, status, text)
end

t.test('an undisturbed run', function()
  start('none', 0, 0, 30)
  local status, text = finish 'the run'
  assert(status == 0 and text == '', text)
  whole = assert(read 'end')
end)
for i = 1, count do
  t.test('fault ' .. i, function()
    local ok, message = pcall(run_fault, i)
    local processes = left()
    if processes ~= '' then os.execute('kill -9 ' .. processes) end
    if not ok then error(message, 0) end
  end)
end

-- A disk that stays full: the run ends with a sentence.
os.execute(("mkdir '%s/small'"):format(folder))
if count <= 6 then
  print 'a full disk is part of longer runs'
elseif os.execute(("mount -t tmpfs -o size=24k none '%s/small' 2>/dev/null"):format(folder)) ~= 0 then
  print 'skipped: a full disk, as nothing can be mounted here'
else
  t.test('a disk that stays full', function()
    local text = output_of(("OMP_NUM_THREADS=1 '%s' --processes 4 --restarts 1 '%s' --process '%s/small' none 0 0 " ..
      '30 2>&1; echo status $?'):format(program, arg[0], folder))
    assert(text:find "checkpoint.save: cannot write '[^']*': No space left on device", text)
    assert(text:find 'process %d of 4 on [^ ]+ ended with status 1.-; no restarts are left %(1 of 1 are used%)', text)
    assert(text:find 'status 1\n$', text)
  end)
  os.execute(("umount '%s/small'"):format(folder))
end
os.execute(("rm -r '%s'"):format(folder))
t.finish()
