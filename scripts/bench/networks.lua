-- networks.lua -- rows of training steps of whole networks: forward, backward, update
--
-- step_split/10, /100, /1000: an epoch of MiniTorch's job at that width, 50 points in batches of 10, SGD.
-- step_mlp/64x784x128x10; step_cnn/64x28x28: two convolutions (16, 32) with pooling, then 10 classes; SGD.
-- step_lstm/32x50x128 and step_gru: sequences (32 x 50 x 64), hidden 128, the last output to 10 classes, SGD.
-- step_transformer/16x64x128: two layers of 4 heads, causal, 65 tokens, AdamW.
-- The same with _compiled: through mt.compile; peers: torch.compile, jax.jit, and loops in Numba and C++.
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim

local networks = {} -- the constructors of steps, with the names of those in peers/

--- Returns a training step, which returns its loss.
function networks.step_of(opt, loss_of)
  return function(x, y)
    opt:zero_grad()
    local loss = loss_of(x, y)
    loss:backward()
    opt:step()
    return loss
  end
end

local function sgd_step(net, loss_of)
  return networks.step_of(optim.SGD(net:parameters(), {lr = 0.05}), function(x, y) return loss_of(net(x), y) end)
end

function networks.split(hidden)
  local net = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1),
    nn.Sigmoid(), nn.Flatten(1))
  local step = sgd_step(net, mt.binary_cross_entropy)
  local function epoch(x, y)
    local loss
    for first = 1, 50, 10 do loss = step(x:narrow(1, first, 10), y:narrow(1, first, 10)) end
    return loss
  end
  return epoch, mt.rand(50, 2), mt.randint(0, 1, {50}):float()
end

function networks.mlp()
  local net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
  return sgd_step(net, mt.cross_entropy), mt.randn(64, 784), mt.randint(1, 10, {64})
end

function networks.cnn()
  local net = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10))
  return sgd_step(net, mt.cross_entropy), mt.randn(64, 1, 28, 28), mt.randint(1, 10, {64})
end

local function recurrent(kind)
  local layer, head = nn[kind](64, 128, {batch_first = true}), nn.Linear(128, 10)
  local opt = optim.SGD(nn.ModuleList{layer, head}:parameters(), {lr = 0.1})
  local step = networks.step_of(opt, function(x, y) return mt.cross_entropy(head((layer(x)):select(2, -1)), y) end)
  return step, mt.randn(32, 50, 64), mt.randint(1, 10, {32})
end

function networks.lstm() return recurrent 'LSTM' end
function networks.gru() return recurrent 'GRU' end

local Gpt = nn.class('Gpt')
function Gpt:__init(vocabulary, length, size)
  self.token, self.position = nn.Embedding(vocabulary, size), nn.Embedding(length, size)
  self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(size, 4, {dim_feedforward = 4 * size, dropout = 0,
    activation = 'gelu', batch_first = true, norm_first = true}), 2, nn.LayerNorm(size))
  self.head = nn.Linear(size, vocabulary)
end
function Gpt:forward(x)
  return (self.head(self.blocks(self.token(x) + self.position.weight, {is_causal = true})))
end

function networks.transformer()
  local net = Gpt(65, 64, 128)
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = networks.step_of(opt, function(x, y) return mt.cross_entropy(net(x):flatten(1, 2), y) end)
  return step, mt.randint(1, 65, {16, 64}), mt.randint(1, 65, {16 * 64})
end

-- name, size, argument; peers beside PyTorch and JAX are of the compiled step.
local steps = {
  {'split', '10', 10}, {'split', '100', 100}, {'split', '1000', 1000}, {'mlp', '64x784x128x10'}, {'cnn', '64x28x28'},
  {'lstm', '32x50x128'}, {'gru', '32x50x128'}, {'transformer', '16x64x128'},
}

function networks.add(row)
  for _, s in ipairs(steps) do
    local name, size, hidden = unpack(s)
    local made = ('%s(%s)'):format(name, hidden or '')
    local function side(module, text)
      return {('import %s\nstep = %s'):format(module, text or module .. '.' .. made), 'step()'}
    end
    local ours = "local step, x, y = require('bench.networks')." .. made
    row('training steps', ('step_%s/%s'):format(name, size), '', {{ours, 'step(x, y)'}, torch = side 'networks_torch'})
    local sides = {{ours .. ' step = mt.compile(step) for _ = 1, 3 do step(x, y) end', 'step(x, y)'},
      torch_compile = side('networks_torch', ('made(networks_torch.%s)'):format(made)), jax = side 'networks_jax'}
    if name == 'split' then sides.numba, sides.cpp = side 'split_numba', {'split.cpp', '-DHIDDEN=' .. hidden} end
    row('training steps', ('step_%s_compiled/%s'):format(name, size), '', sides)
  end
end

return networks
