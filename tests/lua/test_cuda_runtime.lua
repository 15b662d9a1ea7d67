-- test_cuda_runtime.lua -- the number of CUDA runtime calls, memory, page-locked tensors, events
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()

local stats = mt.cuda.memory_stats
--- Counts allocations, kernel launches, copies and waits in fn().
local function asked(fn)
  local before = stats()
  local keep = fn()
  local after = stats()
  local counts = {}
  for i, key in ipairs {'allocations', 'launches', 'copies', 'waits'} do counts[i] = after[key] - before[key] end
  return counts, keep
end

t.test('a number beside a tensor costs one launch and one allocation', function()
  local x = mt.rand(3, 4):to('cuda')
  local point = mt.tensor(2.5)
  for name, fn in pairs {
    add = function() return x + 1 end,
    rsub = function() return 1 - x end,
    mul = function() return x:mul(0.5) end,
    turned = function() return x:t() * 3 end,
    integer = function() return x:ge(0.5) end,
    point = function() return x * point end,
    lerp = function() return x:lerp(x, 0.5) end,
    masked = function() return x:where(x:gt(2), 0) end,
  } do
    local counts = asked(fn)
    local calls = name == 'masked' and 2 or 1
    t.eq({name, counts}, {name, {calls, calls, 0, 0}})
  end
  t.eq(asked(function() return x:add_(1) end), {0, 1, 0, 0})
  t.eq(asked(function() return x:fill_(3) end), {0, 1, 0, 0})
  t.eq(asked(function() return mt.zeros({5, 5}, {device = 'cuda'}) end), {1, 1, 0, 0})
  t.eq(asked(function() x[2] = 7 return x end), {0, 1, 0, 0})
  t.eq(x:cpu():tolist(), {{3, 3, 3, 3}, {7, 7, 7, 7}, {3, 3, 3, 3}})
end)

t.test('numbers by value: the answers of the CPU', function()
  mt.manual_seed(3)
  local a = mt.randn(5, 7)
  a[1][1], a[1][2], a[1][3] = 0 / 0, 0 / -1, 1 / 0
  local cases = {
    function(x) return x + 1 end, function(x) return 1 - x end, function(x) return x / 3 end,
    function(x) return 3 / x end,
    function(x) return x:t() * 0.1 end, function(x) return x:pow(2) end, function(x) return x:clamp(-1, 1) end,
    function(x) return x:maximum(mt.tensor(0.25)) end, function(x) return x:double() * mt.tensor(0.1) end,
    function(x) return (x * 4):nan_to_num(0):long():bitwise_and(3) end,
    function(x) return x:masked_fill(x:gt(0), 0 / -1) end,
    function(x) return x:gt(0):where(x, 1) end, function(x) return x:gt(0):where(2, x) end,
    function(x) return x:nan_to_num(0):long() * 2 ^ 40 + 1 end,
    function(x) return (x:gt(0)):logical_or(true) end,
    function(x) return x:narrow(2, 2, 3):lerp(1, 0.3) end, function(x) return x:eq(0) end,
    function(x) return x[{{}, 1}] * mt.tensor(3, {dtype = 'int64'}) end, function(x) return x:addcmul(x, x, 0.5) end,
    function(x) return mt.full_like(x, 0 / -1) end, function(x) return mt.full_like(x:gt(0), 1) end,
    function(x) return mt.zeros_like(x, {dtype = 'float64'}):fill_(0.1) end,
  }
  for i, case in ipairs(cases) do
    local host, device = case(a), case(a:to('cuda'))
    t.eq({i, device.device, device.dtype}, {i, 'cuda:0', host.dtype})
    t.eq({i, device:cpu():tolist()}, {i, host:tolist()})
  end
  t.eq(tostring(1 / mt.full({1}, 0 / -1, {device = 'cuda'}):item()), '-inf')
end)

t.test('gradients through numbers and CPU points', function()
  local w = mt.tensor({1, 2.5, 3}, {dtype = 'float64'}):to('cuda'):requires_grad_()
  t.eq(mt.gradcheck(function(x) return (x * 3 + 1) / (2 - x) end, {w}), true)
  t.eq(mt.gradgradcheck(function(x) return (x * 3):pow(2) / 5 + x:clamp(-10, 2.7) * 2 end, {w}), true)
  local point = mt.tensor(2, {dtype = 'float64', requires_grad = true})
  ;(w * point):sum():backward()
  t.eq({point.grad.device, point.grad:item(), w.grad.device}, {'cpu', 6.5, 'cuda:0'})
  t.eq(w.grad:cpu():tolist(), {2, 2, 2})
  local y = mt.zeros(3, {dtype = 'float64'}):to('cuda')
  local p2 = mt.tensor(4, {dtype = 'float64', requires_grad = true})
  y:copy_(p2)
  y:sum():backward()
  t.eq(p2.grad:item(), 3)
end)

t.test('copy_ between devices', function()
  local x, y = mt.zeros(2, 3), mt.ones({2, 3}, {device = 'cuda'})
  t.eq(x:copy_(y):tolist(), {{1, 1, 1}, {1, 1, 1}})
  t.eq(y:copy_(mt.tensor {1, 2, 3}):cpu():tolist(), {{1, 2, 3}, {1, 2, 3}})
  t.raises(function() mt.tensor(1.5):add_(y:sum()) end, 'add_: the tensors are on cpu and cuda:0')
end)

t.test('memory_stats', function()
  collectgarbage()
  collectgarbage()
  local before = stats()
  local x = mt.zeros({1024, 256}, {device = 'cuda'})
  local after = stats('cuda:0')
  t.eq(after.allocated - before.allocated, 1048576)
  t.eq(after.allocations - before.allocations, 1)
  assert(after.peak >= after.allocated and after.reserved >= after.allocated and after.free <= after.total)
  x = nil
  collectgarbage()
  collectgarbage()
  t.eq(stats().allocated, before.allocated)
  assert(stats().peak >= after.allocated)
  mt.cuda.reset_peak()
  t.eq(stats().peak, before.allocated)
  mt.cuda.empty_cache()
  assert(stats().reserved < after.reserved)
  t.raises(function() stats('cpu') end, 'memory_stats: a GPU is needed')
  t.raises(function() stats('cuda:9') end, "device 'cuda:9' cannot be used")
end)

t.test('the collector is pressed by what a GPU holds', function()
  collectgarbage()
  local most = 0
  for _ = 1, 1500 do
    local _ = mt.zeros({512, 512}, {device = 'cuda'})
    most = math.max(most, stats().allocated)
  end
  assert(most < 600 * 2 ^ 20, most) -- of 1.5 GiB
end)

t.test('page-locked tensors', function()
  local x = mt.range(1, 12):view(3, 4):t()
  t.eq(x:is_pinned(), false)
  local p = x:pin_memory()
  t.eq({p:is_pinned(), p.device, p.shape, p:tolist()}, {true, 'cpu', x.shape, x:tolist()})
  t.eq(rawequal(p:pin_memory():data(), nil), false)
  t.eq(p:to('cuda'):cpu():tolist(), x:tolist())
  local counts, y = asked(function() return p:to('cuda', {non_blocking = true}) end)
  t.eq(counts, {1, 0, 1, 0})
  mt.cuda.synchronize()
  t.eq(y:cpu():tolist(), x:tolist())
  t.eq(p:narrow(1, 2, 2):is_pinned(), true)
  t.eq((p + 1):is_pinned(), false)
  t.raises(function() return y:pin_memory() end, "pin_memory: the tensor is on cuda:0; only the CPU's can be pinned")
  t.eq(mt.zeros(0):pin_memory().shape, {0})
end)

t.test('page-locked memory is used again, without a wait', function()
  local counts, places = {}, {}
  for i = 1, 6 do
    counts = asked(function()
      local p = mt.full({100, 3000 + i}, i):pin_memory()
      places[tostring(p:data())] = true
      local y = p:to('cuda', {non_blocking = true})
      t.eq(counts[4] or 0, 0)
      return y
    end)
    collectgarbage()
    collectgarbage()
  end
  local n = 0
  for _ in pairs(places) do n = n + 1 end
  if n > 2 then error(n .. ' blocks for six tensors that were dropped one after the other') end
  mt.cuda.empty_cache()
  t.eq(mt.full({100, 3000}, 2):pin_memory():sum():item(), 600000)
end)

t.test('events', function()
  local a, b = mt.cuda.Event(), mt.cuda.Event()
  t.raises(function() a:synchronize() end, 'synchronize: the event has not been recorded; use e:record%(%)')
  t.raises(function() a:elapsed_time(b) end, 'elapsed_time: the first event has not been recorded')
  a:record()
  local x = mt.rand(200, 200):to('cuda')
  for _ = 1, 3 do x = x + 1 end
  b:record()
  b:synchronize()
  t.eq({a:query(), b:query()}, {true, true})
  local ms = a:elapsed_time(b)
  assert(ms > 0 and ms < 60000, ms)
  t.near(b:elapsed_time(a), -ms)
  t.raises(function() a:elapsed_time(3) end, 'elapsed_time: an event of mt.cuda.Event is needed, got 3')
  t.raises(function() a.record(nil) end, 'record: an event of mt.cuda.Event is needed')
  if mt.cuda.device_count() > 1 then
    t.raises(function() a:elapsed_time(mt.cuda.Event('cuda:1'):record()) end, 'the events are of cuda:0 and cuda:1')
  end
  t.raises(function() mt.cuda.Event('cpu') end, 'Event: a GPU is needed')
end)

t.test('properties of a GPU', function()
  local p = mt.cuda.get_device_properties()
  t.eq(p.name, mt.cuda.device_name())
  t.eq(p.total_memory, stats().total)
  t.eq({p.warp_size, p.max_threads_per_block}, {32, 1024})
  for _, key in ipairs {'major', 'multi_processor_count', 'max_threads_per_multi_processor', 'regs_per_multiprocessor',
                        'shared_memory_per_block', 'L2_cache_size'} do
    assert(p[key] > 0, key)
  end
  t.raises(function() mt.cuda.get_device_properties('cpu') end, 'a GPU is needed')
end)

t.finish()
