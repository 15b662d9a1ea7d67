-- bench_gpu.lua -- the rows of bench.lua that only a GPU is asked for: launches, 64 Mi elements, networks' parts
local mt = require 'mtorch'
local core = require 'mtorch.core'

-- What bench.lua gives: see there.
local row, safe, bound, median, wait, options

--- The time that a call takes from Lua while the GPU is far from done with the earlier ones.
local function launching(call)
  local times, loops = {}, 200
  for i = 1, 10 do
    wait()
    local began = core.time()
    for _ = 1, loops do call() end
    times[i] = (core.time() - began) / loops
  end
  wait()
  return median(times)
end

local function add(x, y) return x + y end

local function launch_rows()
  local function launch(name, prepare)
    row('launch/' .. name, 'launches', function() return launching(prepare()) end)
  end
  launch('add', function() return bound(add, safe(4), safe(4)) end)
  launch('relu', function() return bound(mt.relu, safe(4)) end)
  launch('sum', function() return bound(mt.sum, safe(4)) end)
  launch('matmul', function() return bound(mt.matmul, safe(10, 10), safe(10, 10)) end)
end

local function large_rows()
  local n = options.quick and 2 ^ 16 or 2 ^ 26
  local side = math.sqrt(n)
  local function large(name, prepare) row(name .. '/64Mi', 'large', prepare) end
  large('device_copy', function() -- the bandwidth that others are measured by
    local x, y = safe(n), mt.empty(n)
    return function() y:copy_(x) end
  end)
  large('clone', function() return bound(function(x) return x:clone() end, safe(n)) end)
  large('add', function() return bound(add, safe(n), safe(n)) end)
  for _, name in ipairs {'relu', 'exp', 'gelu', 'sum'} do
    large(name, function() return bound(mt[name], safe(n)) end)
  end
  large('add_row', function() return bound(add, safe(side, side), safe(side)) end)
  large('add_channel', function() return bound(add, safe(side / 8, 8, side), safe(8, 1)) end)
  large('to_half', function() return bound(function(x) return x:half() end, safe(n)) end)
  large('from_half', function() return bound(function(x) return x:float() end, safe(n):half()) end)
  large('cumsum', function() return bound(mt.cumsum, safe(n), 1) end)
  large('sort', function() return bound(mt.sort, safe(n)) end)
  large('topk', function() return bound(mt.topk, safe(n), 100) end)
  large('softmax', function() return bound(mt.softmax, safe(n / 1024, 1024), 2) end)
  large('layer_norm', function()
    local x, weight, bias = safe(n / 1024, 1024), safe(1024), safe(1024)
    return function() return mt.layer_norm(x, {1024}, weight, bias) end
  end)
  large('batch_norm', function()
    local x, weight, bias = safe(n / 2 ^ 14, 64, 16, 16), safe(64), safe(64)
    return function() return mt.batch_norm(x, nil, nil, weight, bias, true) end
  end)
  row('upload/64Mi', 'large', function()
    local x = mt.rand(n, {device = 'cpu'})
    return function() return x:to(options.device) end
  end)
  row('download/64Mi', 'large', function()
    return bound(function(x) return x:cpu() end, safe(n))
  end)
end

local function product_rows()
  for _, n in ipairs(options.quick and {} or {2048, 4096, 8192}) do
    row(('matmul/%dx%dx%d'):format(n, n, n), 'products', function()
      return bound(mt.matmul, safe(n, n), safe(n, n))
    end)
    row(('matmul_bf16/%dx%dx%d'):format(n, n, n), 'products', function()
      return bound(mt.matmul, safe(n, n):bfloat16(), safe(n, n):bfloat16())
    end)
  end
  local batch = options.quick and 2 or 256
  row('bmm/256x128x64', 'products', function()
    return bound(mt.bmm, safe(batch, 128, 64), safe(batch, 64, 128))
  end)
  row('matmul_back/50000x784x10', 'products', function()
    local rows_of_a = options.quick and 500 or 50000
    return bound(function(a, b) return a:matmul(b):cpu() end, safe(rows_of_a, 784), safe(784, 10))
  end)
  row('conv2d/1000x2000', 'products', function()
    local high = options.quick and 10 or 1000
    return bound(mt.conv2d, safe(1, 1, high, 2000), safe(1, 1, 3, 3), nil, 1, 1)
  end)
end

--- Layers of ResNet-50, an embedding, attention, and whole steps.
local function network_rows()
  local images = options.quick and 1 or 32
  local function network(name, prepare) row('net_' .. name, 'networks', prepare) end
  for name, k in pairs {['conv1x1/256x64x56'] = 1, ['conv3x3/64x64x56'] = 3} do
    network(name, function()
      local inputs = k == 1 and 256 or 64
      local x, w = safe(images, inputs, 56, 56), safe(64, inputs, k, k)
      return function() return mt.conv2d(x, w, nil, 1, (k - 1) / 2) end
    end)
  end
  network('conv3x3_train/64x64x56', function()
    local x, w = safe(images, 64, 56, 56):requires_grad_(), safe(64, 64, 3, 3):requires_grad_()
    return function()
      x.grad, w.grad = nil, nil
      mt.conv2d(x, w, nil, 1, 1):sum():backward()
    end
  end)
  network('embedding_back/30000x512', function()
    local rows = options.quick and 300 or 30000
    local w, at = safe(rows, 512):requires_grad_(), mt.randint(1, rows, {16384 / (options.quick and 64 or 1)})
    return function()
      w.grad = nil
      mt.embedding(at, w):sum():backward()
    end
  end)
  network('attention/8x8x1024x64', function()
    local n = options.quick and 64 or 1024
    local q, k, v = safe(8, 8, n, 64), safe(8, 8, n, 64), safe(8, 8, n, 64)
    return function() return mt.scaled_dot_product_attention(q, k, v) end
  end)
  network('adam/100x64Ki', function()
    local parameters = {}
    for i = 1, options.quick and 4 or 100 do
      parameters[i] = safe(2 ^ 16):requires_grad_()
      parameters[i].grad = safe(2 ^ 16)
    end
    local opt = mt.optim.Adam(parameters, {lr = 1e-3})
    return function() opt:step() end
  end)
  network('graph_replay/mlp', function()
    local nn = mt.nn
    local net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    net:to(options.device)
    local opt = mt.optim.SGD(net:parameters(), {lr = 0.01})
    local x, y = safe(64, 256), safe(64, 10)
    local step = mt.cuda.graph(function()
      opt:zero_grad()
      mt.mse_loss(net(x), y):backward()
      opt:step()
    end)
    return function() step() end
  end)
end

--- Adds the rows by tools.row.
return function(tools)
  row, safe, bound, median, wait = tools.row, tools.safe, tools.bound, tools.median, tools.wait
  options = tools.options
  launch_rows()
  large_rows()
  product_rows()
  network_rows()
end
