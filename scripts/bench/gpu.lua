-- gpu.lua -- rows for GPUs only: launches, 64 Mi elements, larger products, layers of networks
local function launches_and_large(row, o)
  local n = o.quick and 2 ^ 16 or 2 ^ 26
  local side = math.sqrt(n)
  local function sized(text) return (text:gsub('N', ('%d'):format(n)):gsub('S', ('%d'):format(side))) end

  for name, sides in pairs {add = {'x + y', 'x + y'}, relu = {'mt.relu(x)', 'torch.relu(x)'},
    sum = {'x:sum()', 'x.sum()'}, matmul = {'mt.matmul(a, b)', 'torch.matmul(a, b)'}} do
    row('launches', 'launch/' .. name, 'x=4 y=4 a=10x10 b=10x10', {
      ('tools.launching(function() return %s end)'):format(sides[1]),
      torch = ('launching(lambda: %s)'):format(sides[2]), reports = true})
  end

  -- name, inputs, ours, PyTorch's
  for _, r in ipairs {
    {'device_copy', 'x=N y=N', 'y:copy_(x)', 'y.copy_(x)'}, -- the reference for bandwidths
    {'clone', 'x=N', 'x:clone()', 'x.clone()'}, {'add', 'x=N y=N', 'x + y', 'x + y'},
    {'relu', 'x=N', 'mt.relu(x)', 'torch.relu(x)'}, {'exp', 'x=N', 'mt.exp(x)', 'torch.exp(x)'},
    {'gelu', 'x=N', 'mt.gelu(x)', 'F.gelu(x)'}, {'sum', 'x=N', 'mt.sum(x)', 'torch.sum(x)'},
    {'add_row', 'x=SxS y=S', 'x + y', 'x + y'},
    {'add_channel', ('x=%dx8x%d y=8x1'):format(side / 8, side), 'x + y', 'x + y'},
    {'to_half', 'x=N', 'x:half()', 'x.half()'},
    {'from_half', 'x=N', {'local h = x:half() x = nil', 'h:float()'}, {'h = x.half(); del x', 'h.float()'}},
    {'cumsum', 'x=N', 'mt.cumsum(x, 1)', 'torch.cumsum(x, 0)'}, {'sort', 'x=N', 'mt.sort(x)', 'torch.sort(x)'},
    {'topk', 'x=N', 'mt.topk(x, 100)', 'torch.topk(x, 100)'},
    {'softmax', ('x=%dx1024'):format(n / 1024), 'mt.softmax(x, 2)', 'torch.softmax(x, 1)'},
    {'layer_norm', ('x=%dx1024 w=1024 b=1024'):format(n / 1024), 'mt.layer_norm(x, {1024}, w, b)',
      'F.layer_norm(x, (1024,), w, b)'},
    {'batch_norm', ('x=%dx64x16x16 w=64 b=64'):format(n / 2 ^ 14), 'mt.batch_norm(x, nil, nil, w, b, true)',
      'F.batch_norm(x, None, None, w, b, training=True)'},
    {'upload', '', {sized "local x = mt.rand(N, {device = 'cpu'})", 'x:to(tools.device)'},
      {sized "x = torch.rand(N, device='cpu')", 'x.to(device)'}},
    {'download', 'x=N', 'x:cpu()', 'x.cpu()'},
  } do row('large', r[1] .. '/64Mi', sized(r[2]), {r[3], torch = r[4]}) end
end

local function products(row, o)
  for _, k in ipairs(o.quick and {} or {2048, 4096, 8192}) do
    local name, inputs = ('%dx%dx%d'):format(k, k, k), ('a=%dx%d b=%dx%d'):format(k, k, k, k)
    row('products', 'matmul/' .. name, inputs, {'mt.matmul(a, b)', torch = 'torch.matmul(a, b)'})
    row('products', 'matmul_bf16/' .. name, inputs, {
      {'local c, d = a:bfloat16(), b:bfloat16()', 'mt.matmul(c, d)'},
      torch = {'c = a.bfloat16(); d = b.bfloat16()', 'torch.matmul(c, d)'}})
  end
  local batch, long, high = o.quick and 2 or 256, o.quick and 500 or 50000, o.quick and 10 or 1000
  row('products', 'bmm/256x128x64', ('a=%dx128x64 b=%dx64x128'):format(batch, batch), {'mt.bmm(a, b)',
    torch = 'torch.bmm(a, b)'})
  row('products', 'matmul_back/50000x784x10', ('a=%dx784 b=784x10'):format(long), {'a:matmul(b):cpu()',
    torch = 'torch.matmul(a, b).cpu()'})
  row('products', 'conv2d/1000x2000', ('x=1x1x%dx2000 w=1x1x3x3'):format(high), {'mt.conv2d(x, w, nil, 1, 1)',
    torch = 'F.conv2d(x, w, padding=1)'})
end

--- Adds rows with layers of ResNet-50, an embedding, attention, and whole steps.
local function networks(row, o)
  local function network(name, ...) row('networks', 'net_' .. name, ...) end
  local images, words, rows = o.quick and 1 or 32, o.quick and 256 or 16384, o.quick and 300 or 30000
  network('conv1x1/256x64x56', ('x=%dx256x56x56 w=64x256x1x1'):format(images), {'mt.conv2d(x, w, nil, 1, 0)',
    torch = 'F.conv2d(x, w)'})
  network('conv3x3/64x64x56', ('x=%dx64x56x56 w=64x64x3x3'):format(images), {'mt.conv2d(x, w, nil, 1, 1)',
    torch = 'F.conv2d(x, w, padding=1)'})
  network('conv3x3_train/64x64x56', ('x=leaf:%dx64x56x56 w=leaf:64x64x3x3'):format(images), {
    'x.grad, w.grad = nil, nil; mt.conv2d(x, w, nil, 1, 1):sum():backward()',
    torch = 'x.grad = w.grad = None; F.conv2d(x, w, padding=1).sum().backward()'})
  network('embedding_back/30000x512', ('w=leaf:%dx512 i=index%d:%d'):format(rows, rows, words), {
    'w.grad = nil; mt.embedding(i, w):sum():backward()', torch = 'w.grad = None; F.embedding(i, w).sum().backward()'})
  network('attention/8x8x1024x64', ('q=8x8x%dx64 k=8x8x%dx64 v=8x8x%dx64'):gsub('%%d', o.quick and 64 or 1024), {
    'mt.scaled_dot_product_attention(q, k, v)', torch = 'F.scaled_dot_product_attention(q, k, v)'})
  local many = o.quick and 4 or 100
  network('adam/100x64Ki', '', {
    {('local p = {} for i = 1, %d do p[i] = mt.rand(65536):requires_grad_() p[i].grad = mt.rand(65536) end ' ..
      'local opt = mt.optim.Adam(p, {lr = 1e-3})'):format(many), 'opt:step()'},
    torch = {('ps = [torch.rand(65536).requires_grad_() for _ in range(%d)]\nfor p in ps:' ..
      ' p.grad = torch.rand(65536)\nopt = torch.optim.Adam(ps, lr=1e-3)'):format(many), 'opt.step()'}})
  network('graph_replay/mlp', 'x=64x256 y=64x10', {{[[local nn = mt.nn
    local net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    net:to(tools.device)
    local opt = mt.optim.SGD(net:parameters(), {lr = 0.01})
    local step = mt.cuda.graph(function()
      opt:zero_grad()
      mt.mse_loss(net(x), y):backward()
      opt:step()
    end)]], 'step()'}})
end

return function(row, o)
  launches_and_large(row, o)
  products(row, o)
  networks(row, o)
end
