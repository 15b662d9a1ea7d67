-- test_cuda_half.lua -- float16 and bfloat16 on the GPU: everything as on the CPU
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim
local t = require 'testing'
t.needs_cuda()
local halves = {'float16', 'bfloat16'}

--- Asserts equality, with equal NaNs; with `near` within one unit in the last place of the larger values.
local function same(gpu, cpu, near)
  t.eq(gpu.device, 'cuda:0')
  t.eq(gpu.dtype, cpu.dtype)
  t.eq(tostring(gpu.shape), tostring(cpu.shape))
  local a, b = gpu:cpu(), cpu
  if near then
    local unit = cpu.dtype == 'float16' and 2 ^ -10 or 2 ^ -7
    if not mt.allclose(a, b, {rtol = unit, atol = unit * near, equal_nan = true}) then
      error('the results differ by ' .. (a:double() - b:double()):abs():amax():item(), 2)
    end
  elseif not mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}) then
    error('the results differ by ' .. (a:double() - b:double()):abs():amax():item(), 2)
  end
end

t.test('every pattern, there and back', function()
  local ffi = require 'ffi'
  local all = ffi.new('uint16_t[65536]')
  for i = 0, 65535 do all[i] = i end
  local bytes = ffi.string(all, 131072)
  for _, dtype in ipairs(halves) do
    local x = mt.frombuffer(bytes, {dtype = dtype})
    local g = x:to('cuda')
    same(g, x)
    same(g:float(), x:float())
    same(g:float():to(dtype), x)
    for _, other in ipairs {'float64', 'int64', 'int32', 'uint8', 'int8', 'int16', 'bool', 'float16', 'bfloat16'} do
      same(g:to(other), x:to(other))
    end
    same(g:double():to(dtype), x)
  end
  local wide = mt.randn(70001) * mt.tensor(10):pow(mt.randn(70001) * 4)
  for _, dtype in ipairs(halves) do same(wide:to('cuda'):to(dtype), wide:to(dtype)) end
  for _, dtype in ipairs {'int64', 'int32', 'uint8', 'int8', 'int16', 'bool'} do
    local n = mt.randint(1, 200, {1025}):to(dtype)
    for _, half in ipairs(halves) do same(n:to('cuda'):to(half), n:to(half)) end
  end
end)

t.test('movement at awkward sizes', function()
  mt.manual_seed(1)
  for _, dtype in ipairs(halves) do
    for _, size in ipairs {{0}, {}, {1}, {7}, {16}, {48}, {33, 17}, {500, 3}, {45, 33, 40}, {1025}, {2 ^ 20 + 1}} do
      local x = mt.randn(size):to(dtype)
      local g = x:to('cuda')
      same(g, x)
      same(g + g, x + x)
      same(g * 0.3, x * 0.3)
      if #size == 2 then
        same(g:t():contiguous(), x:t():contiguous())
        same(g:t() + g:t(), x:t() + x:t())
        same(g[{{}, {1, -1, 2}}]:clone(), x[{{}, {1, -1, 2}}]:clone())
        same(g + g[{{}, {1}}], x + x[{{}, {1}}])
        same(g + g[1], x + x[1])
        local at = mt.tensor({3, 1, 3}, {dtype = 'int64'})
        same(g[at:to('cuda')], x[at])
        same(g[g:gt(0)], x[x:gt(0)])
        same(mt.cat({g, g}, 2), mt.cat({x, x}, 2))
        local ones = mt.ones({3, size[2]}, dtype)
        same(mt.zeros_like(g):index_add(1, at:to('cuda'), ones:to('cuda')), mt.zeros_like(x):index_add(1, at, ones))
        local a, b = g:clone(), x:clone()
        a[at:to('cuda')], b[at] = 2, 2
        a[a:lt(0)], b[b:lt(0)] = 0, 0
        same(a, b)
      end
    end
  end
end)

t.test('elementwise operations and their gradients', function()
  mt.manual_seed(2)
  for _, dtype in ipairs(halves) do
    local x, y = (mt.rand(9, 35) * 3 + 0.1):to(dtype), (mt.rand(9, 35) * 2 + 0.1):to(dtype)
    for _, name in ipairs {'neg', 'abs', 'sqrt', 'exp', 'log', 'tanh', 'sigmoid', 'gelu', 'relu', 'floor', 'silu',
      'erf', 'isnan', 'softplus'} do
      same(mt[name](x:to('cuda')), mt[name](x), 1e-3)
      same(mt[name](x:to('cuda'):t()), mt[name](x:t()), 1e-3)
      if mt[name](x).dtype == dtype then
        local a, b = x:to('cuda'):requires_grad_(), x:clone():requires_grad_()
        mt[name](a):sum():backward()
        mt[name](b):sum():backward()
        same(a.grad, b.grad, 1e-3)
      end
    end
    for _, name in ipairs {'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'lt', 'eq', 'remainder'} do
      same(mt[name](x:to('cuda'), y:to('cuda')), mt[name](x, y), 1e-3)
      same(mt[name](x:to('cuda'), 0.7), mt[name](x, 0.7), 1e-3)
      same(mt[name](x:to('cuda'), y[3]:to('cuda')), mt[name](x, y[3]), 1e-3)
    end
    same(mt.where(x:to('cuda'):gt(1), x:to('cuda'), 0.1), mt.where(x:gt(1), x, 0.1))
    same(x:to('cuda'):clamp(0.2, 1.7), x:clamp(0.2, 1.7))
    same(x:to('cuda'):add_(1), x:clone():add_(1))
  end
end)

t.test('products', function()
  mt.manual_seed(3)
  for _, dtype in ipairs(halves) do
    for _, size in ipairs {{1, 1, 1}, {16, 16, 16}, {48, 48, 48}, {33, 33, 33}, {45, 33, 40}, {3, 500, 2},
      {70, 300, 65}, {2, 0, 3}} do
      local m, k, n = unpack(size)
      local a, b = (mt.randn(m, k) * 0.3):to(dtype), (mt.randn(k, n) * 0.3):to(dtype)
      same(a:to('cuda'):matmul(b:to('cuda')), a:matmul(b), 1)
      same(a:t():contiguous():t():to('cuda'):matmul(b:to('cuda')), a:matmul(b), 1)
      same(a:to('cuda'):t():contiguous():t():matmul(b:t():contiguous():to('cuda'):t()), a:matmul(b), 1)
    end
    local x, w, bias = mt.randn(50, 70):to(dtype), mt.randn(40, 70):to(dtype), mt.randn(40):to(dtype)
    local g = {}
    for i, v in ipairs {x, w, bias} do g[i] = v:to('cuda'):requires_grad_() v:requires_grad_() end
    local y, z = mt.linear(g[1], g[2], g[3]), mt.linear(x, w, bias)
    same(y:detach(), z:detach(), 8);
    y:sum():backward()
    z:sum():backward()
    for i, v in ipairs {x, w, bias} do same(g[i].grad, v.grad, 8) end
    same(mt.randn(3, 20, 30):to(dtype):to('cuda'):matmul(mt.ones({30, 5}, dtype):to('cuda')):mul(0),
      mt.zeros({3, 20, 5}, dtype))
    local image, kernel = mt.randn(2, 3, 9, 8):to(dtype), mt.randn(4, 3, 3, 3):to(dtype)
    same(mt.conv2d(image:to('cuda'), kernel:to('cuda')), mt.conv2d(image, kernel), 8)
    same(mt.max_pool2d(image:to('cuda'), 2), mt.max_pool2d(image, 2))
  end
end)

t.test('reductions, scans, sorts, normalisation, losses', function()
  mt.manual_seed(4)
  local label = mt.randint(1, 35, {9})
  for _, dtype in ipairs(halves) do
    local x = mt.randn(9, 35):to(dtype)
    local g = x:to('cuda')
    for i, f in ipairs {
      function(a) return a:sum() end, function(a) return a:sum(1) end, function(a) return a:mean(2) end,
      function(a) return a:std(2) end, function(a) return a:norm() end, function(a) return a:amax(1) end,
      function(a) return a:argmax(2) end, function(a) return a:cumsum(2) end, function(a) return (a:sort(2)) end,
      function(a) return a:softmax(2) end, function(a) return a:log_softmax(1) end,
      function(a) return a:logsumexp(2) end,
      function(a) return mt.layer_norm(a, {35}) end, function(a) return (a:topk(3)) end,
      function(a) return mt.mse_loss(a, mt.zeros_like(a)) end,
      function(a) return mt.cross_entropy(a, label:to(a.device)) end,
      function(a) return mt.searchsorted((a:sort(2)), a) end,
    } do
      local ok, why = pcall(same, f(g), f(x), 1)
      if not ok then error(('function %d in %s: %s'):format(i, dtype, why)) end
      local y = f(x)
      if y.dtype == dtype then
        local a, b = g:detach():clone():requires_grad_(), x:clone():requires_grad_()
        f(a):sum():backward()
        f(b):sum():backward()
        same(a.grad, b.grad, 1)
      end
    end
  end
end)

t.test('random numbers and optimizers', function()
  for _, dtype in ipairs(halves) do
    mt.manual_seed(5)
    local a = mt.rand({1000}, {dtype = dtype, device = 'cuda'})
    mt.manual_seed(5)
    same(a, mt.rand({1000}, {dtype = dtype}))
    for _, name in ipairs {'SGD', 'Adam'} do
      local p = mt.ones({5, 3}, dtype):requires_grad_()
      local q = mt.ones({5, 3}, {dtype = dtype, device = 'cuda'}):requires_grad_()
      for _, w in ipairs {p, q} do
        local opt = optim[name]({w}, {lr = 0.1})
        for _ = 1, 3 do
          opt:zero_grad();
          (w * w * 0.3):sum():backward()
          opt:step()
        end
      end
      same(q:detach(), p:detach(), 1e-3)
    end
  end
end)

t.test('masters go with their parameters to the GPU and back', function()
  for _, dtype in ipairs(halves) do
    local net = nn.Linear(2, 1, {bias = false}):to(dtype)
    net.weight:detach():fill_(1)
    local opt = optim.SGD(net:parameters(), {lr = 2 ^ -14, master_weights = true})
    for step, device in ipairs {'cpu', 'cuda', 'cuda', 'cpu'} do
      net:to(device)
      net.weight.grad = mt.ones({1, 2}, {dtype = dtype, device = device})
      opt:step()
      local master, wanted = opt.param_groups[1].state[1].master, mt.full({1, 2}, 1 - step * 2 ^ -14)
      t.eq({master.device, master:tolist(), net.weight:tolist()},
        {net.weight.device, wanted:tolist(), wanted:to(dtype):tolist()})
    end
  end
end)

t.test('autocast is float16 on the GPU, and a GradScaler skips infinite gradients', function()
  mt.manual_seed(6)
  local net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1)):to('cuda')
  local x = mt.randn(32, 2):to('cuda')
  local y = x:square():sum(2):lt(1.4):float():unsqueeze(2)
  local opt, scaler = optim.Adam(net:parameters(), {lr = 0.05}), mt.GradScaler()
  local first, last
  for step = 1, 40 do
    opt:zero_grad()
    local loss = mt.autocast(function()
      local out = net(x)
      t.eq(out.dtype, 'float16')
      return mt.binary_cross_entropy_with_logits(out, y)
    end)
    scaler:scale(loss):backward()
    if step == 5 then net[1].weight.grad:fill_(math.huge) end
    scaler:step(opt)
    scaler:update()
    first, last = first or loss:item(), loss:item()
  end
  t.eq(scaler:get_scale(), 32768)
  t.eq(last < first * 0.8, true)
  t.eq(mt.autocast{function() return mt.linear(x, net[1].weight).dtype end, device = 'cpu'}, 'float32')
  t.eq(mt.autocast{function() return mt.linear(x, net[1].weight).dtype end, dtype = 'bfloat16'}, 'bfloat16')
end)

t.finish()
