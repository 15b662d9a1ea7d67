-- test_dist.lua -- mt.dist with one process, and with mpirun the same file as two and three processes
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local dist, nn = mt.dist, mt.nn

local function perceptron()
  return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)):to 'float64'
end
--- Returns the losses and the parameters of 20 steps over the rows first, first + every, ..
local function trained(net, first, every, x, y)
  local rows = mt.range(first, 12, every)
  x, y = x:index_select(1, rows), y:index_select(1, rows)
  local opt = mt.optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
  for _ = 1, 20 do
    opt:zero_grad()
    local loss = (net(x) - y):pow(2):mean()
    loss:backward()
    opt:step()
  end
  local list = {}
  for i, p in ipairs(net:parameters()) do list[i] = p:detach():flatten() end
  return mt.cat(list)
end
local function task()
  mt.manual_seed(5)
  return perceptron(), mt.randn(12, 3, {dtype = 'float64'}), mt.randn(12, 1, {dtype = 'float64'})
end

if arg[1] == '--process' then -- this is one of several processes
  local rank, size = dist.init()
  assert(rank == dist.rank() and size == dist.size() and size == tonumber(arg[2]))
  local function ranks(f) -- f(0) + f(1) + ..
    local sum = 0
    for r = 0, size - 1 do sum = sum + f(r) end
    return sum
  end
  for _, dtype in ipairs{'float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8'} do
    local x = mt.tensor({{rank, 2, 3}, {4, 5, 6 + rank}}, {dtype = dtype})
    assert(rawequal(dist.all_reduce_(x), x))
    eq(x:tolist(), {{ranks(function(r) return r end), 2 * size, 3 * size}, {4 * size, 5 * size,
      ranks(function(r) return 6 + r end)}})
    eq(x.dtype, dtype)
    local turned = mt.tensor({{rank, 2}, {4, 5}}, {dtype = dtype}):t()
    dist.all_reduce_(turned, {op = 'max'})
    eq(turned:tolist(), {{size - 1, 4}, {2, 5}})
    eq(dist.all_reduce_(mt.tensor({rank + 1}, {dtype = dtype}), 'min'):tolist(), {1})
    eq(dist.broadcast_(mt.tensor({rank, 7}, {dtype = dtype}), size - 1):tolist(), {size - 1, 7})
    local all = dist.all_gather(mt.tensor({rank, 7}, {dtype = dtype}))
    eq(#all, size)
    for r = 1, size do eq({all[r]:tolist(), all[r].dtype}, {{r - 1, 7}, dtype}) end
  end
  eq(dist.all_reduce_(mt.tensor{rank == 0, true, false}, {op = 'max'}):tolist(), {true, true, false})
  eq(dist.all_reduce_(mt.tensor(rank + 1), {op = 'mean'}):item(), (size + 1) / 2)
  eq(dist.all_reduce_(mt.zeros(0, 3)):tolist(), mt.zeros(0, 3):tolist())
  local whole = mt.full({3, 2}, rank + 1) -- a contiguous view in the middle
  dist.all_reduce_(whole[2])
  dist.broadcast_(whole[3], size - 1)
  eq(whole:tolist(), {{rank + 1, rank + 1}, {size * (size + 1) / 2, size * (size + 1) / 2}, {size, size}})
  local a, b, c = mt.tensor{rank}, mt.tensor({rank, 1}, {dtype = 'int64'}), mt.ones(2, 2)
  dist.all_reduce_{a, b, c}
  eq({a:tolist(), b:tolist(), c:tolist()}, {{ranks(function(r) return r end)}, {ranks(function(r) return r end), size},
    {{size, size}, {size, size}}})
  dist.barrier()

  -- a call that differs is an error in all processes, and the next call works
  raises(function() dist.all_reduce_(mt.zeros(3 + rank)) end, 'all_reduce_: the processes call it differently')
  raises(function()
    if rank == 0 then dist.barrier() else dist.all_gather(mt.zeros(3)) end
  end, 'the processes call it differently')
  local one, two = dist.parallel(nn.Linear(3, 1)), dist.parallel(perceptron():to 'float32')
  local differing = 'the processes call it differently.*process ' .. rank .. ' calls '
  raises(function()
    if rank == 0 then one(mt.ones(1, 3)):sum():backward() else dist.all_reduce_(mt.ones(3)) end
  end, differing)
  raises(function() (rank == 0 and one or two)(mt.ones(1, 3)):sum():backward() end, differing)
  raises(function() dist.broadcast_(mt.zeros(1), {root = size}) end, 'root is ' .. size)
  raises(function() dist.all_reduce_(mt.ones(2, {dtype = 'int32'}), {op = 'mean'}) end, 'mean of int32')
  raises(function() dist.all_reduce_(mt.ones(1):expand(4)) end, 'all_reduce_')
  eq(dist.all_reduce_(mt.ones(1)):item(), size)

  -- the whole batch's gradient is the mean of those of equal parts
  local net, x, y = task()
  local whole = trained(net, 1, 1, x, y)
  local mine = task()
  for _, p in ipairs(mine:parameters()) do mt.no_grad(function() p:add_(rank) end) end -- rank 0's are used
  assert(rawequal(dist.parallel(dist.parallel(mine)), mine))
  local parts = trained(mine, rank + 1, size, x, y)
  assert((parts - whole):abs():max():item() < 1e-12)
  for _, other in ipairs(dist.all_gather(parts)) do assert(other:equal(parts)) end

  -- a parameter that only one process used, one that none did; gradients add up over passes
  local pair = nn.ModuleList{nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)}
  dist.parallel(pair)
  for _ = 1, 2 do
    local loss = pair[1](mt.ones(1, 2) * rank):sum()
    if rank == 1 then loss = loss + pair[2](mt.ones(1, 2)):sum() end
    loss:backward()
  end
  eq(pair[1].weight.grad:tolist(), {{size - 1, size - 1}})
  t.near(pair[2].weight.grad:tolist()[1], {2 / size, 2 / size})
  eq(pair[3].weight.grad, nil)

  -- each forward takes rank 0's running statistics; with buffers=false each process keeps its own
  for _, buffers in ipairs{true, false} do
    local norm = dist.parallel(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), {buffers = buffers})
    for i = 1, 3 do norm(mt.randn(6, 3) + rank * i):sum():backward() end
    norm:eval()
    norm(mt.ones(2, 3))
    local means = dist.all_gather(norm[2].running_mean)
    for r = 2, size do eq(means[r]:equal(means[1]), buffers) end
  end
  local grown = dist.parallel(nn.Sequential(nn.Linear(3, 3)))
  grown:append(nn.Linear(3, 1))
  raises(function() grown(mt.ones(1, 3)) end, 'dist.parallel: 1.weight was added or given requires_grad later')
  raises(function() dist.parallel(perceptron(), {bufers = true}) end, 'bufers')

  -- SyncBatchNorm of parts is BatchNorm of the whole, with its statistics and gradients
  mt.manual_seed(9)
  local rows, w = mt.randn(6, 3, 2, {dtype = 'float64'}), mt.randn(6, 3, 2, {dtype = 'float64'})
  local function normed(make, from, n)
    local norm = make(3):to 'float64'
    local part = rows:narrow(1, from, n):clone():requires_grad_()
    local out = norm(part)
    local loss = (out * w:narrow(1, from, n)):sum()
    loss:backward()
    return norm, out, part.grad
  end
  local first, n = rank == 0 and 1 or rank + 2, rank == 0 and 2 or rank == size - 1 and 5 - rank or 1
  local norm, out, gradient = normed(nn.BatchNorm1d, 1, 6)
  local sync, my_out, my_gradient = normed(nn.SyncBatchNorm, first, n)
  local function close(a, b) assert((a - b):abs():max():item() < 1e-12) end
  close(my_out, out:narrow(1, first, n))
  close(my_gradient, gradient:narrow(1, first, n))
  close(sync.running_mean, norm.running_mean)
  close(sync.running_var, norm.running_var)
  close(dist.all_reduce_(sync.weight.grad), norm.weight.grad)
  close(dist.all_reduce_(sync.bias.grad), norm.bias.grad)

  -- mt.grad does not average; a compiled step runs eagerly
  eq(mt.grad(pair[1](mt.ones(1, 2)):sum() * (rank + 1), pair[1].bias):tolist(), {rank + 1})
  local compiled = task()
  dist.parallel(compiled)
  local opt = mt.optim.SGD(compiled:parameters(), {lr = 0.1, momentum = 0.9})
  local rows = mt.range(rank + 1, 12, size)
  local step = mt.compile(function(a, b)
    opt:zero_grad()
    local loss = (compiled(a) - b):pow(2):mean()
    loss:backward()
    opt:step()
    return loss
  end)
  for _ = 1, 20 do step(x:index_select(1, rows), y:index_select(1, rows)) end
  local list = {}
  for i, p in ipairs(compiled:parameters()) do list[i] = p:detach():flatten() end
  assert(mt.cat(list):equal(parts), 'the compiled steps differ')

  if arg[3] == 'early' then -- the error is raised as often as the others call
    if rank == 0 then os.exit(0) end
    for _ = 1, 2 do raises(dist.barrier, 'barrier: process 0 has ended, but process ' .. rank .. ' calls barrier') end
    raises(function() one(mt.ones(1, 3)):sum():backward() end, 'backward: process 0 has ended')
  end
  if arg[3] == 'early' or arg[3] == 'stop' and rank ~= 1 then os.exit(0) end
  if arg[3] == 'fail' and rank == 1 then error 'on purpose' end
  if arg[3] == 'interrupt' then
    if rank == 1 then os.execute 'sleep 30' end
    if rank == 0 then os.execute '(sleep 0.3; kill -INT $PPID) &' end
  end
  if arg[3] == 'late' then -- all waiting processes name the late one; a longer deadline would avoid the error
    dist.init{timeout = 0.5}
    if rank == 1 then os.execute 'sleep 3' os.exit(0) end
    raises(dist.barrier, 'barrier: process ' .. rank .. ' has waited for %d%.%d s, but process 1 did not answer')
    raises(dist.barrier, 'since an earlier call waited for too long')
  end
  dist.barrier()
  eq(dist.local_rank(), rank)
  io.write('process ', rank, ' of ', size, ' is done\n')
  os.exit(0)
end

test('a world of one', function()
  eq({dist.init()}, {0, 1})
  eq({dist.rank(), dist.size(), dist.local_rank()}, {0, 1, 0})
  local x = mt.tensor{1, 2}
  eq(rawequal(dist.all_reduce_(x, {op = 'mean'}), x) and x:tolist(), {1, 2})
  eq(dist.broadcast_({x, mt.ones(1)}, 0)[1]:tolist(), {1, 2})
  local all = dist.all_gather(x)
  eq({#all, all[1]:tolist()}, {1, {1, 2}})
  all[1]:zero_()
  eq(x:tolist(), {1, 2})
  dist.barrier()
  local net = nn.Linear(2, 1)
  assert(rawequal(dist.parallel(net), net))
end)

test('SyncBatchNorm of one process is BatchNorm', function()
  local x = mt.randn(4, 3, 2, 2)
  assert(nn.SyncBatchNorm(3)(x):equal(nn.BatchNorm2d(3)(x)))
  raises(function() nn.SyncBatchNorm(3)(mt.ones(3)) end, 'expected 2 to 5 dimensions')
end)

test('errors', function()
  raises(function() dist.init{timeout = 0} end, 'init: timeout must be a number above 0, got 0')
  raises(function() dist.init(0 / 0) end, 'timeout must be a number above 0, got nan')
  raises(function() dist.broadcast_(mt.ones(1), 1) end, 'broadcast_: root is 1; the processes are 0 to 0')
  raises(function() dist.broadcast_(mt.ones(1), -1) end, 'root')
  raises(function() dist.broadcast_(mt.ones(1), 2 ^ 32) end, 'root is 4294967296')
  raises(function() dist.all_reduce_(mt.ones(1), {op = 'sun'}) end, "op.*'sum'")
  raises(function() dist.all_reduce_(mt.tensor{true}) end, 'bool has no sum')
  raises(function() dist.all_reduce_(mt.tensor({1}, {dtype = 'int64'}), 'mean') end, 'mean of int64')
  raises(function() dist.all_reduce_(3) end, 'all_reduce_')
  raises(function() dist.all_reduce_{1, 2} end, 'all_reduce_')
  raises(function() dist.all_gather() end, 'all_gather')
  raises(function() dist.parallel(mt.ones(1)) end, 'dist.parallel: a module is needed, got a tensor')
  raises(function() return dist.allreduce end, "mt.dist has no 'allreduce'.*all_reduce_")
end)

local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end
test('processes that another launcher started are refused', function()
  for _, name in ipairs{'WORLD_SIZE', 'PMI_SIZE', 'SLURM_STEP_NUM_TASKS'} do
    for n = 1, 2 do
      local pipe = io.popen(("%s=%d '%s' -e \"print(require('mtorch').dist.init())\" 2>&1"):format(name, n, program))
      local text = pipe:read '*a'
      pipe:close()
      assert(text:find(n == 1 and '^0%s1' or name .. '=2 means that 2 processes were not started by Open MPI'), text)
    end
  end
end)
--- Runs n processes of this file; returns their output and status. Open MPI's leaks are not reported.
local function processes(n, mode)
  local pipe = io.popen(('OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 ' ..
    'ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout 60 ' ..
    "mpirun --oversubscribe -n %d '%s' '%s' --process %d %s 2>&1; echo status $?"):format(n, program, arg[0], n, mode))
  local text = pipe:read '*a'
  pipe:close()
  return text
end
if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: there is no mpirun'
else
  for n = 2, 3 do
    test(n .. ' processes', function()
      local text = processes(n, '')
      for r = 0, n - 1 do assert(text:find(('process %d of %d is done'):format(r, n), 1, true), text) end
      assert(text:find 'status 0', text)
    end)
  end
  if t.device then return t.finish() end -- the rest does not depend on the device
  test('a process that ends early does not keep the others waiting', function()
    local refused = processes(2, 'early')
    assert(refused:find 'status 0', refused) -- the others caught the error and ended as well
    local text = processes(3, 'stop')
    assert(text:find 'barrier: process 2 has ended, but process 1 calls barrier', text)
    assert(not text:find 'status 0' and not text:find 'status 124', text)
  end)
  test('a process that fails ends the others', function()
    local text = processes(2, 'fail')
    assert(text:find 'process 1 of 2 has failed, which ends the others %(status 1%)', text)
    assert(text:find('on purpose', 1, true) and not text:find 'status 0' and not text:find 'status 124', text)
  end)
  test('a wait ends by Ctrl-C or after its deadline', function()
    local text = processes(3, 'interrupt')
    assert(text:find('process 0 of 3 has failed, which ends the others (status 130)', 1, true), text)
    assert(text:find 'interrupted!' and not text:find 'status 124', text)
    text = processes(3, 'late')
    assert(text:find 'which ends the others %(status 1%)', text)
    assert(not text:find 'status 0' and not text:find 'status 124', text)
  end)
end

t.finish()
