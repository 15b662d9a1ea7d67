-- networks.lua -- rows of training steps of whole networks: forward, backward, update
--
-- step_split/10, /100, /1000: an epoch of MiniTorch's job at that width, 50 points in batches of 10, SGD.
-- step_mlp/64x784x128x10; step_cnn/64x28x28: two convolutions (16, 32) with pooling, then 10 classes; SGD.
-- step_lstm/32x50x128 and step_gru: sequences (32 x 50 x 64), hidden 128, the last output to 10 classes, SGD.
-- step_transformer/16x64x128: two layers of 4 heads, causal, 65 tokens, AdamW.
-- The same with _compiled: through mt.compile; peers: torch.compile, jax.jit, TinyJit, and loops in Numba and C++.
local mt = require 'mtorch'

local function step_of(opt, loss_of)
  return function(x, y)
    opt:zero_grad()
    local loss = loss_of(x, y)
    loss:backward()
    opt:step()
    return loss
  end
end

local function sgd_step(net, loss_of)
  return step_of(mt.optim.SGD(net:parameters(), {lr = 0.05}), function(x, y) return loss_of(net(x), y) end)
end

local function split_epoch(hidden)
  local nn = mt.nn
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

local function mlp_step()
  local nn = mt.nn
  local net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
  return sgd_step(net, mt.cross_entropy), mt.randn(64, 784), mt.randint(1, 10, {64})
end

local function cnn_step()
  local nn = mt.nn
  local net = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10))
  return sgd_step(net, mt.cross_entropy), mt.randn(64, 1, 28, 28), mt.randint(1, 10, {64})
end

local function recurrent_step(kind)
  local nn, optim = mt.nn, mt.optim
  local layer, head = nn[kind](64, 128, {batch_first = true}), nn.Linear(128, 10)
  local opt = optim.SGD(nn.ModuleList{layer, head}:parameters(), {lr = 0.1})
  local step = step_of(opt, function(x, y) return mt.cross_entropy(head((layer(x)):select(2, -1)), y) end)
  return step, mt.randn(32, 50, 64), mt.randint(1, 10, {32})
end

local function gpt_class()
  local nn = mt.nn
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
  return Gpt
end

local function transformer_step()
  local net = gpt_class()(65, 64, 128)
  local opt = mt.optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = step_of(opt, function(x, y) return mt.cross_entropy(net(x):flatten(1, 2), y) end)
  return step, mt.randint(1, 65, {16, 64}), mt.randint(1, 65, {16 * 64})
end

-- The function, and its constructors here and in peers/networks_torch.py and peers/networks_jax.py.
local makers = {
  split = split_epoch, mlp = mlp_step, cnn = cnn_step, transformer = transformer_step,
  lstm = function() return recurrent_step('LSTM') end, gru = function() return recurrent_step('GRU') end,
}

local function split_peers(hidden)
  return {
    numba = {('import split_numba\nstep = split_numba.epoch(%d)'):format(hidden), 'step()'},
    cpp = {'split.cpp', '-DHIDDEN=' .. hidden},
    tinygrad = {('import networks_tinygrad\nstep = networks_tinygrad.split_epoch(%d)'):format(hidden), 'step()'},
  }
end

-- name, size, argument, whether JAX and tinygrad have it.
local steps = {
  {'split', '10', 10, jax = true}, {'split', '100', 100, jax = true}, {'split', '1000', 1000, jax = true},
  {'mlp', '64x784x128x10', jax = true, tinygrad = true}, {'cnn', '64x28x28', jax = true},
  {'lstm', '32x50x128', jax = true}, {'gru', '32x50x128', jax = true}, {'transformer', '16x64x128', jax = true},
}

local function add(row)
  for _, s in ipairs(steps) do
    local name, size, argument = s[1], s[2], s[3] or ''
    local function side(module, made)
      return {('import %s\nstep = %s'):format(module, made), 'step()'}
    end
    local torch = ("networks_torch.STEPS['%s', '%s']()"):format(name, size)
    local jax = s.jax and side('networks_jax', ('networks_jax.%s(%s)'):format(name, argument))
    local ours = ("local step, x, y = require('bench.networks').%s(%s)"):format(name, argument)
    row('training steps', ('step_%s/%s'):format(name, size), '', {{ours, 'step(x, y)'},
      torch = side('networks_torch', torch)})
    local sides = argument ~= '' and split_peers(argument) or {}
    sides[1] = {ours .. ' step = mt.compile(step) for _ = 1, 3 do step(x, y) end', 'step(x, y)'}
    sides.torch_compile, sides.jax = side('networks_torch', ('made(%s)'):format(torch)), jax
    sides.tinygrad = sides.tinygrad or s.tinygrad and side('networks_tinygrad', 'networks_tinygrad.mlp_step()')
    row('training steps', ('step_%s_compiled/%s'):format(name, size), '', sides)
  end
end

makers.add = add
return makers
