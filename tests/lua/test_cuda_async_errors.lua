-- test_cuda_async_errors.lua -- asynchronous errors of a GPU, and errors after which it is unusable
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()

local x = mt.rand(3, 4):to('cuda')
local function at(...) return mt.tensor({...}, {dtype = 'int64'}):to('cuda') end

t.test('a wrong position is reported at a wait', function()
  local y = x:index_select(1, at(1, 4, 2))
  t.eq(y.shape, {3, 4})
  local text = t.raises(mt.cuda.synchronize, 'an earlier index_select on cuda:0: position 4 is outside 1..3')
  assert(text:find('%(dimension 1 of %(3 x 4%)%); MTORCH_CUDA_SYNC=1 stops at its line'), text)
  mt.cuda.synchronize() -- the error is reported once
  t.eq(x:index_select(1, at(3)):cpu():tolist(), x:cpu():narrow(1, 3, 1):tolist()) -- and the GPU still works
end)

t.test('the first verb is reported, with its smallest wrong position', function()
  local _ = x:gather(2, at(1, 2):view(2, 1))
  local bad = at(5, 9, -7):view(3, 1)
  local _ = x:gather(2, bad)
  local _ = x:index_select(1, at(8))
  t.raises(function() return x:sum():item() end, 'item: an earlier gather on cuda:0: position %-7 is outside 1..4')
  mt.cuda.synchronize()
end)

t.test('every kind of wait reports it', function()
  for _, wait in ipairs {function(y) return y:cpu() end, function(y) return y:tolist() end,
                         function(y) return tostring(y) end, function(y) return y[1][1]:item() end,
                         function() mt.cuda.synchronize('cuda:0') end} do
    local y = x:index_select(2, at(0))
    t.raises(function() return wait(y) end, 'position 0 is outside 1..4 .*; 0 is not a position, they count from 1')
  end
end)

t.test('scatters skip wrong positions', function()
  local y = mt.zeros(4):to('cuda')
  y:index_add_(1, at(2, 9, 4), mt.ones(3):to('cuda'))
  t.raises(function() return y:cpu() end, 'index_add_ on cuda:0: position 9 is outside 1..4')
  t.eq(y:cpu():tolist(), {0, 1, 0, 1})
  local many = mt.ones(1000):long()
  many[500] = 7
  local z = mt.zeros(4):to('cuda'):scatter_add(1, many:to('cuda'), mt.ones(1000):to('cuda'))
  t.raises(function() return z:cpu() end, 'scatter_add on cuda:0: position 7 is outside 1..4')
  t.eq(z:cpu():tolist(), {999, 0, 0, 0})
  local w = x:clone()
  w[{at(1, 3), at(2, 6)}] = 0
  t.raises(function() return w:cpu() end, 'position 6 is outside 1..4')
end)

t.test('labels, ids, and gradients', function()
  local logits = mt.rand(3, 5):to('cuda'):requires_grad_()
  local l = mt.cross_entropy(logits, at(1, 6, 2))
  l:backward()
  t.raises(function() return l:item() end,
    'cross_entropy on cuda:0: a target is 6, expected 1..5 %(labels count from 1 here%)')
  mt.cuda.synchronize()
  local out = mt.embedding(at(1, 6), mt.rand(5, 2):to('cuda'))
  t.raises(function() return out:cpu() end, 'id 6 is outside 1..5; ids count from 1')
end)

t.test('many positions between two waits', function()
  local i = at(2)
  local bad = at(44)
  local ok, why = pcall(function()
    for k = 1, 700 do local _ = x:index_select(1, k == 3 and bad or i) end
  end)
  t.eq(ok, false)
  assert(why:find('an earlier index_select on cuda:0: position 44 is outside 1..3', 1, true), why)
  mt.cuda.synchronize()
end)

-- ---- failures, ordered from the emulation --------------------------------------------------------

local plugin = os.getenv('MTORCH_CUDA_PLUGIN') or ''
if not plugin:find('emulated') then
  print('skipped: failures are ordered from the emulation only')
  t.finish()
  return
end

local script = os.tmpname()
--- Runs a program with an emulated GPU that fails; returns its output.
local function run(settings, code)
  local file = assert(io.open(script, 'w'))
  file:write("local mt = require 'mtorch'\nlocal function try(...) print(select(2, pcall(...))) end\n", code)
  file:close()
  local pipe = io.popen(settings .. ' ' .. arg[-1] .. ' ' .. script .. ' 2>&1')
  local text = pipe:read('*a'):gsub(script:gsub('%p', '%%%0'), 'x.lua')
  pipe:close()
  return text
end
local function has(text, pattern)
  if not text:find(pattern) then error(('%q is not like %q'):format(text, pattern), 2) end
end

local work = [[
local x = mt.ones({8}, {device = 'cuda'})
try(function()
  local y = (x + 1):exp() * 2
  y = y * 3
  return y:sum():item()
end)
try(function() return x + 1 end)
try(function() return x:add_(1) end)
try(function() return x:cpu() end)
try(function() return mt.zeros({2}, {device = 'cuda'}) end)
try(mt.cuda.memory_stats)
print((mt.ones(2) + 1):tolist()[1])
]]

t.test('a failure that ends the use of the GPU', function()
  local text = run('MTORCH_EMULATED_FAULT=3:700', work)
  has(text, '^x.lua:5: mul: cuda:0: an illegal memory access was encountered %(cudaErrorIllegalAddress%) in one of ' ..
    'the operations since the last synchronisation: fill, add, exp; MTORCH_CUDA_SYNC=1 shows which; the GPU ' ..
    'cannot be used any more by this program, the CPU can; called from x.lua:3 %(ones%), x.lua:5 %(add%), ' ..
    'x.lua:5 %(exp%)\n')
  local _, n = text:gsub('cuda:0: the GPU cannot be used any more since an operation failed ' ..
    '%(cudaErrorIllegalAddress%); start the program again, or go on with the CPU\n', '')
  t.eq(n, 5)
  has(text, '\n2\n$')
end)

t.test('MTORCH_CUDA_SYNC names the operation at its line', function()
  local text = run('MTORCH_CUDA_SYNC=1 MTORCH_EMULATED_FAULT=3:719', work)
  has(text, '^x.lua:5: cuda:0: exp failed: unspecified launch failure %(cudaErrorLaunchFailure%); the GPU')
  text = run('MTORCH_CUDA_SYNC=1 MTORCH_EMULATED_FAULT=3:9', work)
  has(text, '^x.lua:5: cuda:0: exp failed: invalid configuration argument %(cudaErrorInvalidConf')
  has(text, 'float32 cuda:0') -- and the GPU still works
  text = run('MTORCH_CUDA_SYNC=1', "local i = mt.tensor{1, 9}:to('cuda'):long()\ntry(function() return mt.ones{3, " ..
    "device='cuda'}:index_select(1, i) end)")
  has(text, 'index_select: position 9 is outside 1..3')
end)

t.test('a failure that does not', function()
  local text = run('MTORCH_EMULATED_FAULT=2:9', work)
  has(text, '^x.lua:%d+: item: cuda:0: add failed: invalid configuration argument %(cudaErrorInvalidConf')
  has(text, 'float32 cuda:0')
end)

t.test('out of memory: collection, trimming, a second try, then the error', function()
  local text = run('MTORCH_EMULATED_MEMORY=9000000', [[
    for i = 1, 40 do local x = mt.zeros({1024, 1024}, {device = 'cuda'}) end
    print('went on')
    local keep = mt.zeros({1024, 1024}, {device = 'cuda'})
    try(function() return mt.zeros({1024, 1024, 2}, {device = 'cuda'}) end)
    print((keep + 1):sum():item())
  ]])
  has(text, '^went on\n')
  has(text, 'out of memory: 8.0 MiB requested on cuda:0; 4.0 MiB live in tensors, 4.%d MiB reserved, 4.%d MiB ' ..
    'free of 8.6 MiB; use smaller batches or drop references\n1048576\n$')
end)

t.test('an unknown error ends the use of the GPU too', function()
  has(run('MTORCH_EMULATED_FAULT=3:999', work), 'cudaErrorUnknown.* the GPU cannot be used any more')
end)

t.test('an absurd size is reported once, as too large', function()
  local text = run('', [[
    try(function() return mt.empty({2 ^ 44}, {device = 'cuda'}) end)
    mt.cuda.synchronize()
    print(mt.ones({2}, {device = 'cuda'}):sum():item())]])
  has(text, '^[^\n]*out of memory: 65536.00 GiB requested on cuda:0[^\n]*\n2\n$')
end)

t.test('a GPU without memory pools, and one that reads pageable memory', function()
  local text = run('MTORCH_EMULATED_GPU=nopools,pageable', [[
    local x = mt.range(1, 1000):to('cuda')
    for _ = 1, 20 do x = x * 1 end
    mt.cuda.empty_cache()
    print(x:sum():item(), mt.cuda.memory_stats().waits > 0, mt.cuda.memory_stats().reserved >= 4000)]])
  has(text, '^500500\ttrue\ttrue\n$')
end)

t.test('the reason if there is no GPU', function()
  local code = 'print(select(2, mt.cuda.is_available()))\ntry(mt.zeros, {2}, {device = "cuda"})\n' ..
    'print(mt.ones(1):item())'
  local function reason(count, pattern)
    local text = run('MTORCH_EMULATED_COUNT=' .. count, code)
    has(text, '^' .. pattern .. '\n')
    has(text, "device 'cuda' cannot be used: " .. pattern .. '\n')
    has(text, '\n1\n$')
  end
  reason('35:0', 'there is no NVIDIA driver on this machine')
  reason('35:12040', 'the NVIDIA driver is for CUDA 12.4, mtorch was built with CUDA 13.0, which needs driver 580 ' ..
    'or newer; install that, or on data%-centre GPUs the package cuda%-compat%-13, or build mtorch with CUDA 12')
  -- a toolkit of the same major version runs on older drivers
  reason('100:12020 MTORCH_EMULATED_RUNTIME=12080', 'there is an NVIDIA driver, but no NVIDIA GPU that it can .*')
  reason('35:11080 MTORCH_EMULATED_RUNTIME=12080', 'the NVIDIA driver is for CUDA 11.8, mtorch was built with CUDA ' ..
    '12.8, which needs driver 525 or newer; install that, or on data%-centre GPUs the package cuda%-compat%-12, or ' ..
    'build mtorch with CUDA 11')
  reason('100:13000', 'there is an NVIDIA driver, but no NVIDIA GPU that it can use')
  reason('100:13000 CUDA_VISIBLE_DEVICES=', "there is no NVIDIA GPU among CUDA_VISIBLE_DEVICES=''")
  reason('802:13000', 'the NVIDIA driver does not work: an error of the emulation %(cudaErrorUnknown%); ' ..
    '.*systemctl start .*')
  reason('803:13000', 'the NVIDIA driver does not work: .* restart the machine, .*')
end)

t.test("'cuda' is the GPU of the local rank, modulo their number", function()
  for rank, index in pairs{[0] = 0, 1, 0} do
    local text = run('OMPI_COMM_WORLD_LOCAL_RANK=' .. rank, "print(mt.ones(1):cuda().device, mt.dist.local_rank())")
    has(text, ('^cuda:%d\t%d\n$'):format(index, rank))
  end
  has(run('MTORCH_DEVICE_INDEX=1', "print(mt.ones(1, {device = 'cuda'}).device)"), '^cuda:1\n$')
  has(run('MTORCH_DEVICE_INDEX=1x', "try(function() return mt.ones(1, {device = 'cuda'}) end)"),
    "device 'cuda': MTORCH_DEVICE_INDEX=1x is not an index of a GPU; set 0, 1, ..")
  has(run('SLURM_LOCALID=1', "print(mt.ones(1, {device = 'cuda'}).device)"), '^cuda:1\n$')
end)

t.test('a worker and a process that was forked cannot use the GPU', function()
  has(run('', [[
    local set = {size = function() return 2 end, get = function() return mt.ones(1, {device = 'cuda'}) end}
    for _, workers in ipairs{0, 1} do
      local loader = mt.data.DataLoader(set, {batch_size = 1, workers = workers})
      try(function() for b in loader:iter() do print(b.device) end end)
    end]]), "^cuda:0\ncuda:0\n.*device 'cuda' cannot be used by a worker of a DataLoader")
  has(run('', [[
    local ffi = require 'ffi'
    ffi.cdef 'int fork(); int wait(int*); void _exit(int);'
    local x = mt.ones({2}, {device = 'cuda'})
    if ffi.C.fork() == 0 then
      try(function() return (x + 1):sum():item() end)
      io.stdout:flush()
      ffi.C._exit(0)
    end
    ffi.C.wait(nil)
    print(x:sum():item())]]), '^[^\n]*a forked process cannot use the GPU of its parent process.*\n2\n$')
end)

os.remove(script)
t.finish()
