-- whole_networks.lua -- rows step_* and net_*: training and inference of networks, and classical algorithms on the CPU
--
-- step_split/10, /100, /1000: an epoch of MiniTorch's job at that width, 50 points in batches of 10, SGD.
-- step_mlp/64x784x128x10; step_cnn/64x28x28: two convolutions (16, 32) with pooling, then 10 classes; SGD.
-- step_lstm/32x50x128 and step_gru: sequences (32 x 50 x 64), hidden 128, the last output to 10 classes, SGD.
-- step_transformer/16x64x128: two layers of 4 heads, causal, 65 tokens, AdamW.
-- The same with _compiled: through mt.compile; peers: torch.compile, jax.jit, and loops in C++.
--
-- net_<name>_train: forward, backward, update; net_<name>: inference; of gpt2 and llama: a prompt, and as _decode one
-- token after 128 others. _bf16: weights in bfloat16; training by autocast. _compiled: through mt.compile; PyTorch's
-- column is its eager step. _first: the first training step of a new process; _memory/MiB: the largest memory of a
-- process that trains three steps. net_kmeans .. net_solve: classical algorithms on 1000 to 50000 rows.
-- peers/whole_networks_torch.py has the same networks, made with the same numbers.
local is_program = (arg and arg[0] or ''):find 'whole_networks%.lua$'
if is_program then package.path = arg[0]:gsub('bench/whole_networks%.lua$', '?.lua;') .. package.path end
local mt = require 'mtorch'
local decoders = require 'decoders'
local nn, optim = mt.nn, mt.optim
local tools = require 'bench.tools'

-- A constructor returns {net=, x=, y=, loss=, optimizer = {name, options}, clip=, forward=, loss_of=, after=}: training
-- minimizes loss(forward(x), y), or loss_of(); forward is the network unless it is given; after() ends a step. With
-- batch= a step is an epoch, an update for each batch of that size.
local networks = {}

-- ---- images ----

local function classifier(net, x, optimizer)
  return {net = net, x = x, y = mt.randint(1, 10, {#x}), loss = mt.cross_entropy, optimizer = optimizer}
end

local function of_images(make, optimizer)
  return function(batch, side)
    return classifier(make(side), mt.randn(batch, 3, side, side), optimizer or {'SGD', {lr = 0.01, momentum = 0.9}})
  end
end

networks.resnet18 = of_images(function() return mt.models.resnet18(10) end)
networks.resnet18_cifar = of_images(function()
  local net = mt.models.resnet18(10)
  net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, {padding = 1, bias = false}), nn.Identity()
  return net
end)
networks.mobilenetv2 = of_images(function() return mt.models.mobilenet_v2(10) end)
networks.vit_tiny = of_images(function(side) return mt.models.vit_tiny_16(10, side) end, {'AdamW', {lr = 1e-3}})

local function two_convolutions(from, to)
  return nn.Sequential(nn.Conv2d(from, to, 3, {padding = 1, bias = false}), nn.BatchNorm2d(to), nn.ReLU(),
    nn.Conv2d(to, to, 3, {padding = 1, bias = false}), nn.BatchNorm2d(to), nn.ReLU())
end

local UNet = nn.class 'UNet'
function UNet:__init(width)
  local down, up, merge = {two_convolutions(3, width)}, {}, {}
  for i = 1, 3 do
    local w = width * 2 ^ (i - 1)
    down[i + 1], up[i] = two_convolutions(w, 2 * w), nn.ConvTranspose2d(2 * w, w, 2, {stride = 2})
    merge[i] = two_convolutions(2 * w, w)
  end
  self.down, self.up, self.merge = nn.ModuleList(down), nn.ModuleList(up), nn.ModuleList(merge)
  self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)
end
function UNet:forward(x)
  local kept = {self.down[1](x)}
  for i = 2, 4 do kept[i] = self.down[i](self.pool(kept[i - 1])) end
  local y = kept[4]
  for i = 3, 1, -1 do y = self.merge[i](mt.cat({self.up[i](y), kept[i]}, 2)) end
  return self.out(y)
end

function networks.unet(width, batch, side)
  return {net = UNet(width), x = mt.randn(batch, 3, side, side), y = mt.randint(1, 2, {batch, side, side}),
    loss = mt.cross_entropy, optimizer = {'Adam', {lr = 1e-3}}}
end

-- ---- language ----

--- The next token of each text is the target.
local function language_model(net, vocabulary, batch, length)
  return {net = net, x = mt.randint(1, vocabulary, {batch, length}), y = mt.randint(1, vocabulary, {batch * length}),
    loss = function(out, y) return mt.cross_entropy(out:flatten(1, 2), y) end, optimizer = {'AdamW', {lr = 1e-4}}}
end

--- The same with `past` tokens before the text, whose keys and values are buffers [1 x groups x past x width] of the
--- layers: the result is the likeliest next token.
local function decoder(net, layers, groups, width, past, ...)
  local n = language_model(net, ...)
  for i = 1, past > 0 and #layers or 0 do
    layers[i]:register_buffer('keys', mt.randn(1, groups, past, width))
    layers[i]:register_buffer('values', mt.randn(1, groups, past, width))
  end
  n.forward = past > 0 and function(x)
    local caches = {}
    for i = 1, #layers do caches[i] = {k = layers[i].keys, v = layers[i].values} end
    return net(x, caches):argmax(-1)
  end or nil
  return n
end

function networks.gpt2(layers, width, count, vocabulary, batch, length, past)
  local net = decoders.GPT2{n_layer = layers, n_embd = width, n_head = count, vocab_size = vocabulary,
    n_positions = 1024}
  local made = decoder(net, net.transformer.h, count, width / count, past, vocabulary, batch, length)
  made.clip = 1
  return made
end

function networks.llama(layers, width, count, groups, inner, vocabulary, batch, length, past)
  local net = decoders.Llama{num_hidden_layers = layers, hidden_size = width, num_attention_heads = count,
    num_key_value_heads = groups, intermediate_size = inner, vocab_size = vocabulary}
  return decoder(net, net.model.layers, groups, width / count, past, vocabulary, batch, length)
end

local LstmModel = nn.class 'LstmModel'
function LstmModel:__init(vocabulary, width)
  self.embed, self.layers, self.head = nn.Embedding(vocabulary, width), nn.LSTM(width, width, 2),
    nn.Linear(width, vocabulary)
end
function LstmModel:forward(ids) return self.head((self.layers(self.embed(ids)))) end

function networks.lstm_lm(vocabulary, width, batch, length)
  local made = language_model(LstmModel(vocabulary, width), vocabulary, length, batch)
  made.optimizer, made.clip = {'SGD', {lr = 0.1}}, 0.25
  return made
end

-- ---- tables, graphs, physics, control ----

local function perceptron(activation, ...)
  local layers, sizes = {}, {...}
  for i = 2, #sizes do
    layers[#layers + 1] = nn.Linear(sizes[i - 1], sizes[i])
    if i < #sizes then layers[#layers + 1] = activation() end
  end
  return nn.Sequential(layers)
end

function networks.mlp(batch, inputs, hidden)
  return classifier(perceptron(nn.ReLU, inputs, hidden, hidden, 10), mt.randn(batch, inputs), {'Adam', {lr = 1e-3}})
end

local Dlrm = nn.class 'Dlrm'
function Dlrm:__init(tables, rows, width)
  local list = {}
  for i = 1, tables do list[i] = nn.EmbeddingBag(rows, width, {mode = 'sum'}) end
  self.tables, self.bottom = nn.ModuleList(list), perceptron(nn.ReLU, 13, 512, 256, width)
  self.top = perceptron(nn.ReLU, width + (tables + 1) * tables / 2, 512, 256, 1)
  self.pairs = mt.tril_indices(tables + 1, tables + 1, -1)
end
function Dlrm:forward(dense, ids)
  local x = self.bottom(dense):relu()
  local all = {x}
  for i = 1, #self.tables do all[i + 1] = self.tables[i](ids[i]) end
  local vectors = mt.stack(all, 2)
  local products = vectors:matmul(vectors:transpose(2, 3))[{{}, self.pairs[1], self.pairs[2]}]
  return self.top(mt.cat({x, products}, 2)):squeeze(2)
end

function networks.dlrm(tables, rows, width, batch)
  local net, ids = Dlrm(tables, rows, width), mt.randint(1, rows, {tables, batch, 4})
  return {net = net, x = mt.randn(batch, 13), y = mt.randint(0, 1, {batch}):float(), optimizer = {'SGD', {lr = 0.1}},
    loss = mt.binary_cross_entropy_with_logits, forward = function(x) return net(x, ids) end}
end

local GraphLayer = nn.class 'GraphLayer'
function GraphLayer:__init(inputs, outputs)
  self.message, self.own = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)
end
function GraphLayer:forward(x, from, to)
  local messages = self.message(x):index_select(1, from)
  return self.own(x) + mt.zeros(x:size(1), messages:size(2)):index_add(1, to, messages)
end

function networks.gnn(nodes, edges)
  local net = nn.ModuleList{GraphLayer(64, 64), GraphLayer(64, 16)}
  local from, to = mt.randint(1, nodes, {edges}), mt.randint(1, nodes, {edges})
  return {net = net, x = mt.randn(nodes, 64), y = mt.randint(1, 16, {nodes}), loss = mt.cross_entropy,
    optimizer = {'Adam', {lr = 1e-2}}, forward = function(x) return net[2](net[1](x, from, to):relu(), from, to) end}
end

--- The heat equation, u_t = u_xx, with values on the border.
function networks.pinn(points)
  local net = perceptron(nn.Tanh, 2, 64, 64, 64, 1)
  local x, t = mt.rand(points, 1):requires_grad_(), mt.rand(points, 1):requires_grad_()
  local border, values = mt.rand(100, 2), mt.rand(100, 1)
  return {net = net, x = mt.rand(points, 2), optimizer = {'Adam', {lr = 1e-3}}, loss_of = function()
    local ux, ut = unpack(mt.grad(net(mt.cat({x, t}, 2)):sum(), {x, t}, {create_graph = true}))
    local uxx = mt.grad(ux:sum(), x, {create_graph = true})
    return (ut - uxx):square():mean() + mt.mse_loss(net(border), values)
  end}
end

function networks.vae(batch)
  local net = nn.ModuleList{nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20), perceptron(nn.ReLU, 20, 400,
    784)}
  local x = mt.rand(batch, 784)
  local function forward(x)
    local h = net[1](x):relu()
    local mean, log_variance = net[2](h), net[3](h)
    local z = mean + mt.randn_like(mean) * (0.5 * log_variance):exp()
    return net[4](z):sigmoid(), mean, log_variance
  end
  return {net = net, x = x, optimizer = {'Adam', {lr = 1e-3}}, forward = forward, loss_of = function()
    local y, mean, log_variance = forward(x)
    return mt.binary_cross_entropy(y, x, {reduction = 'sum'}) -
      0.5 * (1 + log_variance - mean:square() - log_variance:exp()):sum()
  end}
end

function networks.dqn(batch)
  local net, target = perceptron(nn.ReLU, 4, 64, 64, 2), perceptron(nn.ReLU, 4, 64, 64, 2)
  local state, next_state, action = mt.randn(batch, 4), mt.randn(batch, 4), mt.randint(1, 2, {batch, 1})
  local reward, done = mt.randn(batch), mt.randint(0, 1, {batch}):float()
  local from, to = net:parameters(), target:parameters()
  local function estimate() return reward + 0.99 * (1 - done) * target(next_state):amax(2) end
  local function follow() for i = 1, #to do to[i]:lerp_(from[i], 0.005) end end
  return {net = net, x = state, optimizer = {'Adam', {lr = 1e-3}}, clip = 10,
    forward = function(x) return net(x):argmax(2) end,
    loss_of = function()
      local best = mt.no_grad(estimate)
      return mt.smooth_l1_loss(net(state):gather(2, action):squeeze(2), best)
    end, after = function() mt.no_grad(follow) end}
end

-- ---- the rows step_* ----

local sgd = {'SGD', {lr = 0.05}}

function networks.step_split(hidden)
  local net = nn.Sequential(perceptron(nn.ReLU, 2, hidden, hidden, 1), nn.Sigmoid(), nn.Flatten(1))
  return {net = net, x = mt.rand(50, 2), y = mt.randint(0, 1, {50}):float(), loss = mt.binary_cross_entropy,
    optimizer = sgd, batch = 10}
end

function networks.step_mlp() return classifier(perceptron(nn.ReLU, 784, 128, 10), mt.randn(64, 784), sgd) end

function networks.step_cnn()
  return classifier(nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10)),
  mt.randn(64, 1, 28, 28), sgd)
end

local function recurrent(kind)
  local net = nn.ModuleList{nn[kind](64, 128, {batch_first = true}), nn.Linear(128, 10)}
  local made = classifier(net, mt.randn(32, 50, 64), {'SGD', {lr = 0.1}})
  made.forward = function(x) return net[2]((net[1](x)):select(2, -1)) end
  return made
end
function networks.step_lstm() return recurrent 'LSTM' end
function networks.step_gru() return recurrent 'GRU' end

function networks.step_transformer()
  local layer = nn.TransformerEncoderLayer(128, 4, {dim_feedforward = 512, dropout = 0, activation = 'gelu',
    batch_first = true, norm_first = true})
  local net = nn.ModuleList{nn.Embedding(65, 128), nn.Embedding(64, 128),
    nn.TransformerEncoder(layer, 2, nn.LayerNorm(128)), nn.Linear(128, 65)}
  local made = language_model(net, 65, 16, 64)
  made.optimizer = {'AdamW', {lr = 1e-3}}
  made.forward = function(x) return net[4]((net[3](net[1](x) + net[2].weight, {is_causal = true}))) end
  return made
end

-- ---- steps ----

local function training(n, half)
  local parameters, forward = n.net:parameters(), n.forward or n.net
  local opt = optim[n.optimizer[1]](parameters, n.optimizer[2])
  local loss_of, device = n.loss_of or function(x, y) return n.loss(forward(x), y) end, tools.device
  local function step(x, y)
    opt:zero_grad()
    local loss = half and mt.autocast{loss_of, x, y, dtype = 'bfloat16', device = device} or loss_of(x, y)
    loss:backward()
    if n.clip then nn.clip_grad_norm_(parameters, n.clip) end
    opt:step()
    if n.after then n.after() end
    return loss
  end
  return function()
    if not n.batch then return (step(n.x, n.y)) end
    local loss
    for first = 1, #n.x, n.batch do
      loss = step(n.x:narrow(1, first, n.batch), n.y:narrow(1, first, n.batch))
    end
    return loss
  end
end

local function inference(n, half)
  local x, forward = n.x, n.forward or n.net
  n.net:eval()
  if half then
    n.net:to('bfloat16')
    if x.dtype == 'float32' then x = x:bfloat16() end
  end
  return function() return mt.no_grad(forward, x) end
end

--- Returns a function without parameters, a step of networks[name](..). `mode` is train, or infer, and perhaps _bf16
--- and _compiled.
local function make(name, mode, ...)
  local step = (mode:find '^train' and training or inference)(networks[name](...), mode:find 'bf16')
  if not mode:find 'compiled' then return step end
  step = mt.compile(step)
  for _ = 1, 3 do step() end
  local facts = require('mtorch.compile.explain').text(step)
  if not facts:find 'replayed' then error(('net %s: %s'):format(name, facts), 0) end
  return step
end

-- ---- rows ----

local small = 'train train_compiled infer'
local halves = 'train train_bf16 infer infer_bf16'
-- The name of the row and of the network; sizes, those of --quick; modes.
local list = {
  {'resnet18', 'resnet18', '8, 128', '2, 32', halves .. ' train_compiled first memory'},
  {'resnet18_cifar', 'resnet18_cifar', '8, 32', '2, 8', 'train infer'},
  {'mobilenetv2', 'mobilenetv2', '8, 128', '2, 32', 'train infer'},
  {'unet', 'unet', '32, 2, 128', '2, 2, 16', 'train infer'},
  {'vit_tiny', 'vit_tiny', '4, 224', '1, 32', halves},
  {'gpt2', 'gpt2', '12, 768, 12, 50257, 1, 128, 0', '1, 16, 2, 50, 1, 8, 0', 'infer infer_bf16'},
  {'gpt2_decode', 'gpt2', '12, 768, 12, 50257, 1, 1, 128', '1, 16, 2, 50, 1, 1, 8', 'infer infer_bf16'},
  {'llama', 'llama', '6, 512, 8, 2, 1376, 8192, 2, 128, 0', '1, 16, 4, 2, 40, 50, 2, 8, 0',
    'train train_bf16 train_compiled first memory'},
  {'llama', 'llama', '6, 512, 8, 2, 1376, 8192, 1, 512, 0', '1, 16, 4, 2, 40, 50, 1, 8, 0', 'infer infer_bf16'},
  {'llama_decode', 'llama', '6, 512, 8, 2, 1376, 8192, 1, 1, 128', '1, 16, 4, 2, 40, 50, 1, 1, 8',
    'infer infer_compiled infer_bf16'},
  {'lstm_lm', 'lstm_lm', '10000, 650, 20, 35', '50, 8, 2, 4', halves},
  {'dlrm', 'dlrm', '20, 10000, 16, 2048', '3, 50, 4, 8', 'train infer'},
  {'gnn', 'gnn', '10000, 100000', '20, 50', small},
  {'mlp_b4096', 'mlp', '4096, 784, 1024', '16, 20, 20', halves},
  {'mlp_b1', 'mlp', '1, 784, 1024', '1, 20, 20', small},
  {'pinn', 'pinn', '1024', '16', small},
  {'vae', 'vae', '128', '4', small},
  {'dqn', 'dqn', '32', '4', 'train train_compiled'},
  {'dqn', 'dqn', '1', '1', 'infer'},
}

-- Name, inputs with N rows, those of --quick, ours and PyTorch's.
local algorithms = {
  {'kmeans', 'x=normal:Nx32 c=normal:64x32', 50000, 100, {'', 'local at = mt.cdist(x, c):argmin(2) ' ..
    'return mt.zeros(64, 32):index_add(1, at, x) / mt.bincount(at, {minlength = 64}):clamp_min(1):unsqueeze(2)'},
    '(lambda at: torch.zeros(64, 32).index_add(0, at, x) / torch.bincount(at, minlength=64).clamp_min(1)[:, None])(' ..
    'torch.cdist(x, c).argmin(1))'},
  {'pca', 'x=normal:Nx128', 20000, 200, {'', 'local y = x - x:mean(1, true) local _, v = ' ..
    'mt.linalg.eigh(y:t():matmul(y) / (#x - 1)) return y:matmul(v:narrow(2, 97, 32))'},
    '(lambda y: y @ torch.linalg.eigh(y.t() @ y / (len(x) - 1))[1][:, 96:])(x - x.mean(0, True))'},
  {'svd', 'x=normal:NxN', 1000, 20, {'', 'mt.linalg.svd(x, {full_matrices = false})'},
    'torch.linalg.svd(x, full_matrices=False)'},
  {'eigh', 'x=normal:NxN', 1000, 20, {'local s = x + x:t()', 'mt.linalg.eigh(s)'},
    {'s = x + x.t()', 'torch.linalg.eigh(s)'}},
  {'solve', 'x=normal:NxN b=normal:Nx100', 1000, 20, {'', 'mt.linalg.solve(x, b)'}, 'torch.linalg.solve(x, b)'},
}

--- The sides of a row whose value the programs of both sides report as `key`.
local function reported(key, unit, factor, name, sizes)
  return {reports = true, slow = true, unit = unit,
    ("%g * tools.script('%s', 'bench/whole_networks.lua', '--network', '%s', '--sizes', '%s', '--threads', " ..
      'tools.threads)'):format(factor, key, name, sizes),
    torch = ("%g * script('%s', 'whole_networks_torch.py', '%s', '%s', torch.get_num_threads())"):format(factor, key,
      name, sizes)}
end

--- The sides of a row that calls make(name, mode, ..).
local function made(name, mode, sizes)
  local function text(kind) return ("make('%s', '%s', %s)"):format(name, kind, sizes):gsub(', %)', ')') end
  local theirs = 'import whole_networks_torch\nstep = whole_networks_torch.' .. text((mode:gsub('_compiled', '')))
  return {{"local step = require('bench.whole_networks')." .. text(mode), 'step()'}, torch = {theirs, 'step()'},
    torch_compile = mode:find 'compiled' and {theirs .. '\nstep = made(step)', 'step()'} or nil}
end

-- Name, size, argument; peers beside PyTorch and JAX are of the compiled step.
local steps = {
  {'split', '10', 10}, {'split', '100', 100}, {'split', '1000', 1000}, {'mlp', '64x784x128x10'}, {'cnn', '64x28x28'},
  {'lstm', '32x50x128'}, {'gru', '32x50x128'}, {'transformer', '16x64x128'},
}

local function add_steps(row)
  for _, s in ipairs(steps) do
    local name, size, hidden = unpack(s)
    local function text_of(module) return {('import %s\nstep = %s.%s(%s)'):format(module, module, name, hidden or ''),
      'step()'} end
    row('training steps', ('step_%s/%s'):format(name, size), '', made('step_' .. name, 'train', hidden or ''))
    local sides = made('step_' .. name, 'train_compiled', hidden or '')
    sides.torch, sides.jax = nil, text_of 'networks_jax'
    if name == 'split' then sides.cpp = {'split.cpp', '-DHIDDEN=' .. hidden} end
    row('training steps', ('step_%s_compiled/%s'):format(name, size), '', sides)
  end
end

local function add(row, o)
  local group = 'whole networks'
  for _, r in ipairs(list) do
    local name, sizes = r[2], o.quick and r[4] or r[3]
    for mode in r[5]:gmatch '%S+' do
      local title = ('net_%s_%s'):format(r[1], mode):gsub('_infer', '')
      if mode == 'memory' then row(group, title .. '/MiB', '', reported('peak_mib', 'MiB', 1, name, sizes))
      elseif mode == 'first' then row(group, title, '', reported('first_ms', nil, 1e3, name, sizes))
      else row(group, title, '', made(name, mode, sizes)) end
    end
  end
  for _, a in ipairs(algorithms) do
    row(group, 'net_' .. a[1], (a[2]:gsub('N', o.quick and a[4] or a[3])), {a[5], torch = a[6]})
  end
end

-- ---- as a program ----

if is_program then
  local o = mt.args{{'network', 'resnet18'}, {'sizes', '8, 128'}}
  local step = make(o.network, 'train', unpack(loadstring(('return {%s}'):format(o.sizes))()))
  local first = mt.time(step, true).wall
  for _ = 1, 2 do step() end
  print(('first_ms=%.6f peak_mib=%.1f'):format(1e3 * first, tools.peak_mib()))
end

return {make = make, made = made, add = add, add_steps = add_steps}
