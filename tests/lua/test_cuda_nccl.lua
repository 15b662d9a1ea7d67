-- test_cuda_nccl.lua -- collectives between the GPUs of processes by NCCL, which the emulation replaces
local mt = require 'mtorch'
local t = require 'testing'
local eq, raises = t.eq, t.raises
local dist = mt.dist
t.needs_cuda()

local function words() return mt.cuda.memory_stats().collectives end
local function collectives() return tonumber((words() or ''):match '(%d+) collectives' or 0) end
local function on_gpu(list, dtype) return mt.tensor(list, {dtype = dtype or 'float32', device = 'cuda'}) end

if arg[1] ~= '--process' then
  local plugin = os.getenv 'MTORCH_CUDA_PLUGIN' or ''
  local emulated = plugin:find 'emulated' ~= nil
  local library = emulated and 'MTORCH_NCCL=' .. plugin or ''

  t.test('a group of one GPU', function()
    local text = t.run(library, [[
assert(mt.dist)
local reduce = require('mtorch.core').dist_parts.reduce_alone
local x = mt.range(0, 999):to 'cuda'
if not pcall(reduce, x) then return print('no NCCL') end
print(x:sum():item(), (mt.cuda.memory_stats().collectives:match '^NCCL .*'))
local step = mt.cuda.graph(function()
  local y = x * 2
  reduce(y)
  return y + 1
end)
x:add_(1)
print(step():sum():item())
print(pcall(reduce, x, true))
print(pcall(reduce, x))
print(x:sum():item())]])
    if text == 'no NCCL\n' and not emulated then return print 'skipped: NCCL was not found' end
    local reason = 'false\t.*reduce_alone: process 0: it was aborted\n'
    assert(text:find('^499500\tNCCL 2[^\n]*, 1 collectives\n1002000\n' .. reason .. reason .. '500500\n$'), text)
  end)
  if not emulated or os.execute 'command -v mpirun >/dev/null' ~= 0 then
    print 'the rest is skipped: it needs the emulation and mpirun'
    return t.finish()
  end

  --- Starts n processes; returns a function that checks that all get to their end, and returns what they print.
  local function start(n, mode, settings, fails)
    local wait = t.start_processes(n, library .. ' MTORCH_EMULATED_GPU=eight ' .. (settings or ''), mode)
    return function()
      local text = wait()
      local _, done = text:gsub('process %d is done', '')
      assert(done == n and (text:find 'status 0' == nil) == (fails or false), text)
      return text
    end
  end
  local function passes(...) return start(...)() end
  t.test('no tensor goes through the CPU', function() passes(4, 'collectives') end)
  t.test('calls that are in progress, and late work', function()
    passes(3, 'collectives', 'MTORCH_EMULATED_NCCL=progress=3,us=500')
  end)
  t.test('dist.parallel and send', function() passes(3, 'training') end)
  t.test('graphs', function()
    passes(2, 'graph')
    passes(2, 'graph_of_step')
  end)
  t.test('processes without a GPU of their own, or without NCCL', function()
    local slow = "the GPUs' tensors go through the CPU's memory\n"
    local text = passes(3, 'through_cpu', 'MTORCH_EMULATED_GPU=')
    assert(text:find('mt.dist: processes 0 and 2 use the same GPU: ' .. slow, 1, true), text)
    text = passes(2, 'through_cpu', 'MTORCH_EMULATED_NCCL=fail_join=1')
    assert(text:find('mt.dist: process 1: NCCL: unhandled system error (ordered by MTORCH_EMULATED_NCCL); ' .. slow, 1,
      true), text)
    text = passes(2, 'through_cpu', 'MTORCH_NCCL=/nowhere.so')
    local _, times = text:gsub('mt.dist: no NCCL %(/nowhere.so: [^\n]*%): processes exchange GPU tensors through', '')
    eq(times, 1)
    text = passes(2, 'through_cpu', 'MTORCH_NCCL=0')
    assert(not text:find 'NCCL', text)
  end)
  t.test('errors of NCCL', function()
    local stuck = 'MTORCH_EMULATED_NCCL=stuck_rank=1,stuck_at=2'
    local running = {start(2, 'interrupted', stuck, true), start(2, 'stuck', stuck, true),
      start(2, 'never', 'MTORCH_EMULATED_NCCL=progress=100000000', true),
      start(3, 'fails', 'MTORCH_EMULATED_NCCL=fail_at=2', true)}
    for _, wait in ipairs(running) do wait() end
  end)
  return t.finish()
end

local rank, size = dist.init{timeout = 20}
local function everyone(f) -- f(0) + f(1) + ..
  local sum = 0
  for r = 0, size - 1 do sum = sum + f(r) end
  return sum
end
local function wrapped(n) return (n + 2 ^ 15) % 2 ^ 16 - 2 ^ 15 end

local modes = {}

--- Every collective runs on the GPU, without copies to and from the CPU, and without waiting.
function modes.collectives()
  local dtypes = {'float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8'}
  local x, parts, all, whole = {}, {}, {}, {}
  for _, dtype in ipairs(dtypes) do
    x[dtype], parts[dtype] = on_gpu({rank, 2, 3 + rank}, dtype), on_gpu({0}, dtype)
    all[dtype], whole[dtype] = on_gpu({0, 0, 0}, dtype), mt.zeros(size * 3, {dtype = dtype, device = 'cuda'})
  end
  local halves = on_gpu({rank == 0 and 2048 or 1}, 'float16') -- 2048 + 1 is 2048 in float16
  local wraps = on_gpu({30000 + rank}, 'int16')
  local flags = on_gpu({rank == 0, true, false}, 'bool')
  local turned = on_gpu{{1, 2}, {3, 4}}:t()
  local none = mt.zeros(0, 3, {device = 'cuda'})
  local big = mt.full({2 ^ 17 + 3}, rank, {device = 'cuda'}) -- its memory is freed at once, when this is done
  dist.all_reduce_(on_gpu{1})
  local before, used = mt.cuda.memory_stats(), collectives()
  local listed
  for _, dtype in ipairs(dtypes) do
    dist.all_reduce_(all[dtype]:copy_(x[dtype]))
    dist.broadcast_(parts[dtype]:copy_(x[dtype]:narrow(1, 3, 1)), size - 1)
    dist.all_gather_into_(whole[dtype], x[dtype])
    listed = dist.all_gather(x[dtype])
  end
  dist.all_reduce_{halves, wraps, turned, flags:int()}
  dist.all_reduce_(flags, 'max')
  dist.all_reduce_(none)
  do
    local copy = big * 2
    dist.all_reduce_(copy, 'mean')
    big:copy_(copy)
  end
  local scattered = mt.zeros(3, {dtype = 'float16', device = 'cuda'})
  dist.reduce_scatter_(scattered, whole.float16:clone())
  local gathered = dist.gather(x.int64, size - 1)
  local exchanged = {}
  for r = 1, size do exchanged[r] = x.float32 + r end
  exchanged = dist.all_to_all(exchanged)
  local after = mt.cuda.memory_stats()
  eq({after.copies, after.waits}, {before.copies, before.waits})
  eq(collectives() - used, 4 * #dtypes + 9)

  local r1 = everyone(function(r) return r end)
  local rows = {}
  for r = 0, size - 1 do
    rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = r, 2, 3 + r
    eq(listed[r + 1]:tolist(), {r, 2, 3 + r})
    eq(exchanged[r + 1]:tolist(), {r + rank + 1, 3 + rank, 4 + r + rank})
  end
  for _, dtype in ipairs(dtypes) do
    eq(all[dtype]:tolist(), {r1, 2 * size, 3 * size + r1})
    eq(parts[dtype]:tolist(), {size + 2})
    eq(whole[dtype]:tolist(), rows)
  end
  eq({halves:item(), wraps:item()}, {size == 4 and 2052 or 2050, wrapped(30000 * size + r1)})
  eq({turned:tolist(), flags:tolist()}, {{{size, 3 * size}, {2 * size, 4 * size}}, {true, true, false}})
  t.near(big:min():item(), 2 * r1 / size, 1e-5)
  t.near(big:max():item(), 2 * r1 / size, 1e-5)
  eq(scattered:tolist(), {size * rank, size * 2, size * (3 + rank)})
  eq(gathered and gathered[2]:tolist(), rank == size - 1 and {1, 2, 4} or nil)
  mt.set_default_device 'cuda'
  local mine = dist.scatter(rank == 1 and listed or nil, 1)
  eq({mine:tolist(), mine.device:match '^cuda'}, {{rank, 2, 3 + rank}, 'cuda'})
  mt.set_default_device 'cpu'
  -- CPU tensors in one process, or in the list: through the CPU's memory
  used = collectives()
  eq(dist.all_reduce_(rank == 0 and mt.ones(1) or on_gpu{1}):item(), size)
  local a, b = mt.ones(1), on_gpu{2}
  dist.all_reduce_{a, b}
  eq({a:item(), b:item(), collectives() - used}, {size, 2 * size, 0})
  -- the profiler measures how long the GPU waits for a collective
  local found = {}
  for _, row in ipairs(mt.profile(function() dist.all_reduce_(on_gpu{1}) end, {quiet = true})) do
    if row.name == 'cuda: all_reduce' then found = {row.calls, row.self_cuda > 0} end
  end
  eq(found, {1, true})
  -- calls that differ are refused before
  raises(function() dist.all_reduce_(on_gpu{1}, rank == 0 and 'max' or 'min') end, 'the processes call it differently')
  -- another group has a connection of its own
  local pair = dist.group{0, size - 1}
  if dist.rank(pair) >= 0 then eq(dist.all_reduce_(on_gpu{rank}, {group = pair}):item(), size - 1) end
end

--- Gradients are averaged as on the CPU, and sent tensors arrive.
function modes.training()
  local function gradients(device, options)
    mt.manual_seed(3)
    local net = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.Tanh(), mt.nn.Linear(5, 2)):to(device)
    dist.parallel(net, options)
    local x = mt.randn(4, 3):to(device) * (rank + 1)
    local used = collectives()
    for _ = 1, 2 do net(x):pow(2):mean():backward() end
    local list = {}
    for i, p in ipairs(net:parameters()) do list[i] = p.grad:cpu():flatten() end
    return mt.cat(list), collectives() - used
  end
  for _, options in ipairs{{}, {bucket_mb = 1e-5}, {wire = 'bfloat16'}} do
    local on_cpu, none = gradients('cpu', options)
    local there, some = gradients('cuda', options)
    assert((on_cpu - there):abs():max():item() < 1e-5, tostring(on_cpu) .. tostring(there))
    eq({none, some}, {0, 2 * (options.wire and 2 or options.bucket_mb and 3 or 1)})
  end
  local used = collectives()
  for i = 1, 3 do
    local x = mt.full({1000, 400}, i, {device = 'cuda'}) -- more than one part of the emulation's messages
    if rank == 0 then
      dist.send(x:t(), 1)
      eq(dist.recv(x, 1, {tag = 5}):sum():item(), 400000 * (i + 1))
    elseif rank == 1 then
      local got = dist.recv(mt.zeros(400, 1000, {device = 'cuda'}), 0)
      dist.send((got + 1):t(), 0, 5)
    end
  end
  eq(collectives() - used, rank < 2 and 6 or 0)
  if rank == 2 then dist.send(on_gpu{5}, 0) end -- to a CPU tensor
  if rank == 0 then eq({dist.recv({1}, 2):item(), collectives() - used}, {5, 6}) end
end

function modes.graph()
  local x = on_gpu{1, 2}
  local function step()
    local y = x * (rank + 1)
    dist.all_reduce_(y)
    return y + 0.5
  end
  local graph = mt.cuda.graph(step)
  for i = 1, 3 do
    x:fill_(i)
    eq(graph():tolist(), {3 * i + 0.5, 3 * i + 0.5})
  end
  -- memory that only the collective uses is kept for replays
  local big = mt.ones({2 ^ 19}, {device = 'cuda'})
  local last = mt.cuda.graph(function()
    dist.all_reduce_(big)
    return x + 1
  end)
  big = nil
  collectgarbage()
  eq(last():tolist(), {4, 4})
end

--- A whole step of training as a graph has the parameters of one that is not, and nothing goes to the CPU.
function modes.graph_of_step()
  local function train(graphed)
    mt.manual_seed(1)
    local net = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.Tanh(), mt.nn.Linear(5, 1)):to 'cuda'
    dist.parallel(net)
    local opt = mt.optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
    local x, y = (mt.randn(6, 3) + rank):to 'cuda', mt.randn(6, 1):to 'cuda'
    local function step()
      opt:zero_grad()
      local loss = (net(x) - y):pow(2):mean()
      loss:backward()
      opt:step()
      return loss
    end
    step()
    local run = graphed and mt.cuda.graph(step, 0) or step
    local before = mt.cuda.memory_stats()
    for _ = 1, 5 do run() end
    local after = mt.cuda.memory_stats()
    eq({after.copies, after.waits}, {before.copies, before.waits})
    return mt.nn.parameters_to_vector(net:parameters()):detach():cpu()
  end
  local eager = train(false)
  assert(train(true):equal(eager))
  for _, other in ipairs(dist.all_gather(eager)) do assert(other:equal(eager)) end
end

function modes.through_cpu()
  for i = 1, 3 do
    eq(dist.all_reduce_(on_gpu{i}):tolist(), {i * size})
    eq(dist.all_gather(on_gpu{rank})[size]:tolist(), {size - 1})
  end
  if rank == 0 then dist.send(on_gpu{7}, 1) end
  if rank == 1 then eq(dist.recv(on_gpu{0}, 0):item(), 7) end
end

function modes.fails()
  eq(dist.all_reduce_(on_gpu{1}):item(), size)
  raises(function() dist.all_reduce_(on_gpu{1}) end,
    'all_reduce_: process ' .. rank .. ': NCCL: unhandled system error %(ordered by MTORCH_EMULATED_NCCL%)')
  raises(function() dist.all_reduce_(on_gpu{1}) end, 'cannot work together any more, since NCCL: unhandled system')
  eq(on_gpu{1}:item(), 1)
end

--- The work of one process never begins: all find it when they wait for their GPU.
function modes.stuck()
  local x = on_gpu{1}
  eq(dist.all_reduce_(x):item(), size)
  dist.barrier()
  dist.init{timeout = 1}
  dist.all_reduce_(x)
  local y = x + 1
  raises(function() y:item() end, 'a collective failed: it waited for the other processes for')
  raises(function() dist.all_reduce_(x) end, 'all_reduce_: process %d: it waited for the other processes')
  eq(on_gpu{1}:item(), 1)
end

function modes.interrupted()
  local x = dist.all_reduce_(on_gpu{1})
  dist.all_reduce_(x)
  os.execute '(sleep 1; kill -INT $PPID) &'
  raises(function() x:item() end, 'interrupted!')
end

--- Connecting never ends.
function modes.never()
  local x = on_gpu{1}
  dist.barrier()
  dist.init{timeout = 1}
  raises(function() dist.all_reduce_(x) end, 'all_reduce_: process %d has waited for %d%.%d s')
  raises(dist.barrier, 'cannot work together any more')
end

modes[arg[2]]()
io.write('process ', rank, ' is done\n')
io.flush()
if not pcall(dist.barrier) then os.execute 'sleep 0.3' end -- until all have come here: one that cannot end ends all
os.exit(0)
