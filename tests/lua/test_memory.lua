-- test_memory.lua -- garbage tensors without collectgarbage, graphs, loops, a chain of a million
-- nodes
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq
local memory = require('mtorch.core').memory

local function status(field)
  for line in io.lines('/proc/self/status') do
    local kilobytes = line:match('^' .. field .. ':%s+(%d+) kB')
    if kilobytes then return tonumber(kilobytes) * 1024 end
  end
  error('no ' .. field .. ' in /proc/self/status')
end

local function collect()
  collectgarbage()
  collectgarbage()
end

local mebibyte = 2 ^ 20

--- Returns a tensor of 1 MiB whose pages are all resident.
local function touched()
  local x = mt.empty({2 ^ 18}, {device = 'cpu'})
  local p = x:data()
  for i = 0, 2 ^ 18 - 1, 1024 do p[i] = 1 end
  return x
end

-- The address sanitizer keeps freed memory for a while; then only live bytes can be judged.
local max_growth = os.getenv 'MTORCH_SANITIZED' and 4096 or 64

--- Runs `iterations` that drop two tensors each; the peak may grow by 64 MiB, or by 8 times Lua's heap more if that is
--- larger than 8 MiB.
local function drop(iterations)
  if os.getenv 'MTORCH_SANITIZED' then iterations = math.ceil(iterations / 50) end
  collect()
  local start, most = status 'VmHWM', max_growth
  if collectgarbage 'count' > 8192 then most = most + 8 * collectgarbage 'count' / 1024 end
  for i = 1, iterations do
    local a, b = touched(), touched()
    if i % 500 == 0 then
      local grown = (status 'VmHWM' - start) / mebibyte
      assert(grown <= most, ('the peak grew by %.0f MiB in %d iterations'):format(grown, i))
    end
    a, b = b, a
  end
end

test('2,000 iterations that drop two tensors of 1 MiB', function() drop(2000) end)

test('the same beside 200,000 tables', function()
  local heap = {}
  for i = 1, 200000 do heap[i] = {i} end
  drop(1000)
  eq(#heap, 200000)
end)

-- Memory allocated by one thread and freed by another must not fill the free lists of the second.
test('batches that workers make leave nothing behind', function()
  if os.getenv 'MTORCH_SANITIZED' then return end
  local loader = mt.data.DataLoader(mt.data.TensorDataset(mt.ones({8, 3}, {device = 'cpu'}), mt.range(1, 8)),
    {batch_size = 4, workers = 2})
  local function epochs(n)
    for _ = 1, n do
      for x in loader:iter() do assert(x:size(1) == 4) end
    end
    collect()
    return status 'VmRSS'
  end
  local before = epochs(200)
  local grown = (epochs(800) - before) / mebibyte
  assert(grown < 1, ('%.1f MiB more after 800 epochs'):format(grown))
end)

test('live bytes count storages, not views', function()
  collect()
  local live = memory()
  local x = mt.zeros(256, 1024)
  eq(memory() - live, mebibyte)
  local views = {x:t(), x[1], x:view(-1), x:detach(), x:expand(2, 256, 1024)}
  eq(memory() - live, mebibyte)
  x = nil
  collect()
  eq(memory() - live, mebibyte)
  views = nil
  collect()
  eq({views, memory() - live}, {nil, 0})
end)

test('what only a graph keeps is freed with it', function()
  collect()
  local live = memory()
  local w = mt.ones(2 ^ 18, {requires_grad = true})
  local y = w
  for _ = 1, 20 do y = (y * 1.5):exp():sin() end
  collect()
  assert(memory() - live > 20 * mebibyte, 'the graph should keep what it needs')
  y = y:detach()
  collect()
  eq((memory() - live) / mebibyte, 2)
  y, w = nil, nil
  collect()
  eq({y, w, memory() - live}, {nil, nil, 0})
end)

test('backward frees the graph while the loss is still held', function()
  collect()
  local live = memory()
  local w = mt.ones(2 ^ 18, {requires_grad = true})
  local loss = w
  for _ = 1, 20 do loss = (loss * 1.01):sin() end
  loss = loss:sum()
  loss:backward()
  collect()
  assert(memory() - live <= 2 * mebibyte + 4096,
    ('%.1f MiB are left'):format((memory() - live) / mebibyte))
  eq(loss.requires_grad, true)
end)

test('backward frees what the last operation saved', function()
  collect()
  local live = memory()
  local w = mt.ones(2 ^ 18, {requires_grad = true})
  local y = (w * 2):sin()
  y:backward(mt.ones(2 ^ 18))
  collect()
  eq((memory() - live) / mebibyte, 3)
  eq(w.grad:numel() + y:numel(), 2 ^ 19)
end)

test("parts' gradients do not wait for one another", function()
  local x = mt.ones(64, 65536):requires_grad_() -- 16 MiB
  local parts, sum, then_live = x:unbind(), 0, nil
  for i, part in ipairs(parts) do sum = sum + part * i end
  parts[32]:register_hook(function() then_live = memory() end) -- when half of them have had their turn
  local loss = sum:sum()
  sum = nil
  collect()
  local live = memory()
  loss:backward()
  eq(x.grad:select(2, 1):tolist(), mt.range(1, 64):tolist())
  assert(then_live - live < 18 * mebibyte, ('%.1f MiB'):format((then_live - live) / mebibyte))
end)

test('an output needs its node only, not itself', function()
  collect()
  local live = memory()
  for _ = 1, 10 do
    local x = mt.ones(1000, {requires_grad = true})
    local y = x:exp():sigmoid():tanh():sqrt()
    eq(y.is_leaf, false)
  end
  collect()
  eq(memory() - live, 0)
end)

test('gradients of gradients leave nothing behind', function()
  collect()
  local live = memory()
  for _ = 1, 5 do
    local x = mt.ones(1000, {requires_grad = true})
    x:exp():sum():backward{create_graph = true}
    local g = x.grad
    x.grad = nil
    g:square():sum():backward()
    x.grad = nil
  end
  collect()
  eq(memory() - live, 0)
end)

test('a training loop keeps live bytes and resident memory constant', function()
  mt.manual_seed(1)
  local x, y = mt.randn(256, 64), mt.randn(256, 1)
  local w, v = mt.randn(64, 64):requires_grad_(), mt.randn(64, 1):requires_grad_()
  local function step()
    local loss = mt.mse_loss(x:matmul(w):tanh():matmul(v), y)
    loss:backward()
    mt.no_grad(function()
      w:sub_(w.grad * 0.01)
      v:sub_(v.grad * 0.01)
    end)
    w:zero_grad_()
    v:zero_grad_()
  end
  local function run(n)
    for _ = 1, n do step() end
    collect()
    return memory()
  end
  local live = run(500)
  local resident = status 'VmRSS'
  for _ = 1, 3 do eq(run(500), live) end
  assert(status 'VmRSS' - resident < max_growth / 4 * mebibyte, 'resident memory grows')
end)

-- A replay has memory of its own: blocks that only the eager step used are returned before.
test('a compiled step takes little more memory than an eager one', function()
  if os.getenv 'MTORCH_SANITIZED' or t.on_gpu() then return end
  local w, x = mt.ones({1024}, {requires_grad = true}), mt.rand(2048, 1024)
  local function step()
    local y = x
    for _ = 1, 8 do y = (y * w):tanh() end
    w.grad = nil
    local loss = y:sum()
    loss:backward()
    return loss:detach()
  end
  for _ = 1, 3 do step() end
  collect()
  local eager, compiled = status 'VmHWM', mt.compile(step)
  for _ = 1, 4 do compiled() end
  local more = (status 'VmHWM' - eager) / mebibyte
  assert(more < 40, ('%.0f MiB more than %.0f'):format(more, eager / mebibyte))
end)

test('errors in a loop leak nothing', function()
  local x, y = mt.ones(100, 100, {requires_grad = true}), mt.ones(3)
  local wrong = {function() return x:matmul(y) end, function() return x + y end,
    function() return mt.cat{x, y} end,
                 function() return mt.tensor{{1, 2}, {3}} end, function() x:add_(1) end,
                   function() return x:view(7) end,
                 function() return x[{1, 101}] end, function() (x * 2):backward() end,
                 function() mt.no_grad(function() local z = x * 2 error(z) end) end,
                 function() mt.gradcheck(function(z) return z end, {x}) end}
  local function run()
    for _, f in ipairs(wrong) do assert(not pcall(f)) end
  end
  run()
  collect()
  local live = memory()
  for _ = 1, 1000 do run() end
  collect()
  eq(memory(), live)
end)

test('cycles through Lua are collected', function()
  collect()
  local live = memory()
  for _ = 1, 10 do
    local net = {weight = mt.ones(1000, {requires_grad = true})}
    net.loss = (net.weight * 2):sum()
    net.step = function() return net.loss end
    net.self = net
  end
  collect()
  collect()
  eq(memory() - live, 0)
end)

test('a chain of a million nodes: built, walked backwards, freed', function()
  collect()
  local live = memory()
  local x = mt.tensor(1, {requires_grad = true})
  local function chain()
    local y = x
    for _ = 1, 1000000 do y = y + 1 end
    return y
  end
  local y = chain()
  eq(y:item(), 1000001)
  y:backward()
  eq(x.grad:item(), 1)
  y = nil
  collect()
  y = chain() * 2
  collect()
  y = nil
  collect()
  x.grad = nil
  eq({y, memory() - live}, {nil, 4})
end)

test('a chain in which every node has a sibling', function()
  collect()
  local live = memory()
  do
    local x = mt.tensor(1, {requires_grad = true})
    local y = x
    for _ = 1, 100000 do y = y * 0.5 + y * 0.5 end
    y:backward{retain_graph = true}
    eq(x.grad:item(), 1)
  end
  collect()
  eq(memory() - live, 0)
end)

test('the collector may be stopped', function()
  collect()
  collectgarbage 'stop'
  for _ = 1, 200 do mt.zeros(1000) end
  collectgarbage 'restart'
  local live = memory()
  collect()
  assert(memory() <= live)
end)

test('a large heap is collected seldom', function()
  local words = {}
  for i = 1, 400000 do words[i] = 'word ' .. i end
  collect()
  local cycles = 0
  local function count()
    getmetatable(newproxy(true)).__gc = function()
      cycles = cycles + 1
      count()
    end
  end
  count()
  for _ = 1, 256 do mt.zeros(2 ^ 18) end -- 256 MiB
  assert(cycles <= 3, cycles .. ' cycles')
  eq(#words, 400000)
end)

test('peak and cached bytes', function()
  collect()
  local live, host, peak, cached = memory()
  assert(peak >= host and live >= host and host >= 0 and cached >= 0, 'unreasonable')
  assert(cached <= 2 * 48 * mebibyte + (peak - host) * 5 / 4, 'more is kept than lived at once')
  local x = mt.zeros({2 ^ 24}, {device = 'cpu'})
  local _, _, higher = memory()
  assert(higher >= host + 64 * mebibyte and x:numel() == 2 ^ 24)
end)

test('no temporary copies in gradients of gathers, losses, pooling and normalization', function()
  local n = 2 ^ 20
  --- The memory that f needs beyond what lives, in tensors of n floats.
  local function needs(f)
    collect()
    local live, _, peak = memory()
    local fill = mt.empty({math.max(0, (peak - live) / 4)}, {device = 'cpu'}) -- the peak is that of the process
    local _, _, before = memory()
    local result = f()
    local _, _, after = memory()
    assert(fill and result)
    return (after - before) / (4 * n)
  end
  local function at_most(expected, f)
    local used = needs(f)
    assert(used < expected + 0.1, ('%.2f tensors'):format(used))
  end
  local x = mt.randn({1024, n / 1024}, {device = 'cpu'})
  local leaf = x:clone():requires_grad_()
  local function gradient(f)
    local y = f(leaf)
    local g = mt.ones_like(y)
    return function() return mt.grad(y, leaf, g) end
  end
  at_most(1, gradient(function(a) return (a:max(2)) end))
  at_most(1, gradient(function(a) return (a:topk(5)) end))
  at_most(1, gradient(function(a) return a:index_select(1, mt.tensor({1, 5}, 'int64')) end))
  local rows = mt.range(1, 1024)
  at_most(0.01, gradient(function(a) return mt.index_put(a, {rows, rows}, x[1], true) end))
  at_most(2, function() return mt.huber_loss(x, leaf:detach()) end)
  at_most(0.5, function() return mt.max_pool1d(x:view(1, 1024, -1), 2) end)
  at_most(1, function() return mt.batch_norm(x, nil, nil, nil, nil, true) end)
  at_most(1, gradient(function(a) return mt.batch_norm(a, nil, nil, nil, nil, true) end))
end)

test('mt.memory_stats counts the bytes of the CPU', function()
  collect()
  local before = mt.memory_stats()
  local x = mt.empty({1024, 1024}, {device = 'cpu'})
  local now = mt.memory_stats()
  eq({now.allocated - before.allocated, now.allocations - before.allocations}, {4 * mebibyte, 1})
  assert(now.peak >= now.allocated and now.reserved >= now.allocated)
  x = nil
  collect()
  local after = mt.memory_stats()
  eq(after.allocated, before.allocated)
  assert(after.peak >= now.allocated and after.reserved >= after.allocated)
end)

test('blocks that are used again move to huge pages and keep their contents', function()
  local count, last = 2 ^ 20, nil
  local function on_huge_pages(x)
    local address, inside = tonumber(require 'ffi'.cast('uintptr_t', x:data())), false
    for line in io.lines '/proc/self/smaps' do
      local first, after = line:match '^(%x+)%-(%x+) '
      if first then inside = tonumber(first, 16) <= address and address < tonumber(after, 16) end
      if inside and line:find '^VmFlags' then return line:find ' hg' ~= nil end
    end
  end
  for use = 1, 40 do
    local x = mt.full({count}, use, {device = 'cpu'})
    local view = x:narrow(1, count / 2, 5)
    x = x + 1
    eq({x:min():item(), x:max():item(), view:sum():item()}, {use + 1, use + 1, 5 * use})
    last = x
    view = nil
    collect()
  end
  local modes = io.open '/sys/kernel/mm/transparent_hugepage/enabled'
  if not modes or max_growth > 64 then return end
  modes:close()
  assert(on_huge_pages(last), 'small pages')
end)

test('more than the machine has is refused before the system kills who takes it', function()
  local meminfo = assert(io.open '/proc/meminfo'):read '*a'
  local kib = tonumber(meminfo:match 'MemTotal: *(%d+)') + tonumber(meminfo:match 'SwapTotal: *(%d+)')
  local most = math.floor(kib * 1024 * 0.6) -- never touched
  local function take() return mt.empty({most}, {dtype = 'uint8', device = 'cpu'}) end
  local first = take()
  t.raises(take, 'out of memory: .* GiB requested on cpu')
  eq(first:numel(), most)
end)

t.finish()
