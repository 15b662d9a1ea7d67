-- bench_networks.lua -- the rows of bench.lua for training steps of whole networks: forward, backward, update
--
-- step_lstm/32x50x128 and step_gru: sequences (32 x 50 x 64), hidden 128, the last output to 10 classes, SGD.
-- step_transformer/16x64x128: two layers of 4 heads, causal, 65 tokens, AdamW.
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim

local function recurrent_step(kind)
  local layer, head = nn[kind](64, 128, {batch_first = true}), nn.Linear(128, 10)
  local opt = optim.SGD(nn.ModuleList{layer, head}:parameters(), {lr = 0.1})
  local x, y = mt.randn(32, 50, 64), mt.randint(1, 10, {32})
  return function()
    opt:zero_grad()
    local out = layer(x)
    mt.cross_entropy(head(out:select(2, -1)), y):backward()
    opt:step()
  end
end

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

local function transformer_step()
  local net = Gpt(65, 64, 128)
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local x, y = mt.randint(1, 65, {16, 64}), mt.randint(1, 65, {16 * 64})
  return function()
    opt:zero_grad()
    mt.cross_entropy(net(x):flatten(1, 2), y):backward()
    opt:step()
  end
end

--- Adds the rows: row(name, group, function that makes the function to time).
return function(row)
  row('step_lstm/32x50x128', 'training steps', function() return recurrent_step('LSTM') end)
  row('step_gru/32x50x128', 'training steps', function() return recurrent_step('GRU') end)
  row('step_transformer/16x64x128', 'training steps', transformer_step)
end
