-- gpu.lua -- rows for GPUs only: launches, 64 Mi elements, larger products, layers and steps of networks
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

-- ---- typical work of models: 16-bit attention, convolutions and losses, steps of GPT-2 and ResNet-18 ----

-- Both sides have the same shapes and dtypes; PyTorch is eager, with its fused attention and AdamW, as in its guides.
-- Inputs are created by the setup, so that a row's memory is freed with it.

--- Replaces `@name` in the texts by its value.
local function filled(texts, values)
  local list = {}
  for i, text in ipairs(texts) do list[i] = text:gsub('@(%w+)', function(name) return tostring(values[name]) end) end
  return list
end

local function attention_and_losses(model, o)
  for _, s in ipairs{{16, 12, 1024, 64}, {1, 16, 8192, 128}} do
    if o.quick then s = {1, 2, 40, s[4]} end
    local of = {shape = table.concat(s, ', ')}
    local name = table.concat(s, 'x')
    local texts = {
      'local function new() return mt.randn(@shape):bfloat16() end local q, k, v, g = new(), new(), new(), new()',
      'q, k, v, g = [torch.randn(@shape).bfloat16() for _ in range(4)]'}
    model('sdpa_bf16_causal/' .. name, texts, of, 'mt.scaled_dot_product_attention(q, k, v, {is_causal = true})',
      'F.scaled_dot_product_attention(q, k, v, is_causal=True)')
    model('sdpa_bf16_causal_train/' .. name, {texts[1] .. ' q:requires_grad_() k:requires_grad_() v:requires_grad_()',
      texts[2] .. '\nfor x in (q, k, v): x.requires_grad_()'}, of,
    'mt.grad(mt.scaled_dot_product_attention(q, k, v, {is_causal = true}), {q, k, v}, {grad_outputs = g})',
      'torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), g)')
  end
  for _, dtype in ipairs{'float32', 'bfloat16'} do
    model('cross_entropy_' .. dtype .. '/8192x50257', {
      "local x = mt.randn(@n, @v):to('@dtype'):requires_grad_() local to = mt.randint(1, @v, {@n})",
      'x = torch.randn(@n, @v).to(torch.@dtype).requires_grad_(); to = torch.randint(@v, (@n,))'},
    {n = o.quick and 8 or 8192, v = o.quick and 50 or 50257, dtype = dtype}, 'mt.grad(mt.cross_entropy(x, to), {x})',
      'torch.autograd.grad(F.cross_entropy(x, to), x)')
  end
end

local function convolutions(model, o)
  local images = o.quick and 1 or 32
  for _, c in ipairs{{64, 56, 3, 1, 1}, {256, 14, 3, 1, 1}, {128, 56, 3, 2, 1}} do
    local of = {n = images, c = c[1], s = o.quick and 8 or c[2], k = c[3], stride = c[4], pad = c[5]}
    local texts = {
      'local x, w = mt.randn(@n, @c, @s, @s):bfloat16(), (mt.randn(@c, @c, @k, @k) / 24):bfloat16() ' ..
        'local g = mt.ones_like(mt.conv2d(x, w, nil, @stride, @pad)) x:requires_grad_() w:requires_grad_()',
      'x = torch.randn(@n, @c, @s, @s).bfloat16().to(memory_format=torch.channels_last).requires_grad_()\n' ..
        'w = (torch.randn(@c, @c, @k, @k) / 24).bfloat16().to(memory_format=torch.channels_last).requires_grad_()\n' ..
        'g = torch.ones_like(F.conv2d(x, w, None, @stride, @pad))'}
    local calls = filled({'mt.grad(mt.conv2d(x, w, nil, @stride, @pad), {x, w}, {grad_outputs = g})',
      'torch.autograd.grad(F.conv2d(x, w, None, @stride, @pad), (x, w), g)'}, of)
    model(('conv%dx%ds%d_bf16_train/%dx%dx%d'):format(c[3], c[3], c[4], images, c[1], c[2]), texts, of, calls[1],
      calls[2])
  end
end

local function norms(model, o)
  for _, of in ipairs{{'layer_norm', 'mt.layer_norm(x, {1024}, w, b)', 'F.layer_norm(x, (1024,), w, b)'},
    {'rms_norm', 'mt.rms_norm(x, {1024}, w)', 'F.rms_norm(x, (1024,), w)'}, {'gelu', 'mt.gelu(x)', 'F.gelu(x)'}} do
    local leaves = of[1] == 'gelu' and 'x' or of[1] == 'rms_norm' and 'x, w' or 'x, w, b'
    model(of[1] .. '_train/65536x1024', {
      'local x, w, b = mt.randn(@n, 1024):requires_grad_(), mt.ones(1024):requires_grad_(), ' ..
      'mt.zeros(1024):requires_grad_() local g = mt.ones_like(x)',
      'x = torch.randn(@n, 1024).requires_grad_(); w = torch.ones(1024).requires_grad_(); ' ..
        'b = torch.zeros(1024).requires_grad_(); g = torch.ones_like(x)'}, {n = o.quick and 4 or 65536},
    ('mt.grad(%s, {%s}, {grad_outputs = g})'):format(of[2], leaves),
      ('torch.autograd.grad(%s, (%s,), g)'):format(of[3], leaves))
  end
  model('lstm_train/64x128x512x2', {
    'local net = mt.nn.LSTM(@d, @d, {num_layers = 2, batch_first = true}):to(tools.device) ' ..
      'local x = mt.randn(@b, @t, @d)',
    'net = nn.LSTM(@d, @d, num_layers=2, batch_first=True).to(device); x = torch.randn(@b, @t, @d)'},
  {d = o.quick and 8 or 512, b = o.quick and 2 or 64, t = o.quick and 4 or 128},
    'net:zero_grad(); net(x):sum():backward()', 'net.zero_grad(); net(x)[0].sum().backward()')
end

local function models(row, o)
  local function model(name, texts, values, call, call_of_torch)
    local list = filled(texts, values)
    row('models', 'model_' .. name, '', {{list[1], call}, torch = {list[2], call_of_torch or call}})
  end
  attention_and_losses(model, o)
  convolutions(model, o)
  norms(model, o)
  local step_of = require('bench.whole_networks').made
  for mode, name in pairs{train = 'float32', train_bf16 = 'bf16'} do
    row('models', ('model_resnet18_train_%s/64x224'):format(name), '',
      step_of('resnet18', mode, o.quick and '2, 32' or '64, 224'))
  end
  row('models', 'model_gpt2_124m_train_bf16/8x1024', '',
    step_of('gpt2', 'train_bf16', o.quick and '1, 16, 2, 50, 2, 8, 0' or '12, 768, 12, 50257, 8, 1024, 0'))
end

return function(row, o)
  launches_and_large(row, o)
  products(row, o)
  networks(row, o)
  models(row, o)
end
