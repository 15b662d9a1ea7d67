-- models.lua -- rows of typical GPU work: 16-bit attention, convolutions and losses, GPT-2 and ResNet-18 steps
--
-- Both sides have the same shapes and dtypes; PyTorch is eager, with its fused attention and AdamW, as in its guides.
-- Inputs are created by the setup, so that a row's memory is freed with it.
local setups = {}

setups.gpt = {[[
local nn = mt.nn
local V, T, B = @V, @T, @B
local net = require('decoders').GPT2{n_layer = @L, n_embd = @D, n_head = @H, vocab_size = V,
  n_positions = 1024}:to(tools.device)
local opt = mt.optim.AdamW(net:parameters(), {lr = 1e-4})
local ids, to = mt.randint(1, V, {B, T}), mt.randint(1, V, {B * T})
local function step()
  opt:zero_grad()
  local loss = mt.autocast{function() return mt.cross_entropy(net(ids):reshape(B * T, V), to) end,
    dtype = 'bfloat16', device = 'cuda'}
  loss:backward()
  nn.clip_grad_norm_(net:parameters(), 1)
  opt:step()
end
]], [[
from whole_networks_torch import Gpt
V, T, B = @V, @T, @B
net = Gpt(@L, @D, @H, V, 0).to(device)
opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=device != 'cpu')
ids, to = torch.randint(V, (B, T)), torch.randint(V, (B * T,))
def step():
    opt.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = F.cross_entropy(net(ids).reshape(B * T, V), to)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1)
    opt.step()
]]}

setups.resnet = {[[
local net = mt.models.resnet18(1000):to(tools.device)
local opt = mt.optim.SGD(net:parameters(), {lr = 0.01, momentum = 0.9})
local x, to = mt.randn(@B, 3, @S, @S), mt.randint(1, 1000, {@B})
local function step()
  opt:zero_grad()
  local loss = mt.autocast{function() return mt.cross_entropy(net(x), to) end, dtype = 'bfloat16', device = 'cuda',
    enabled = @half}
  loss:backward()
  opt:step()
end
]], [[
import torchvision
net = torchvision.models.resnet18().to(device, memory_format=torch.channels_last)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(@B, 3, @S, @S).to(memory_format=torch.channels_last)
to = torch.randint(1000, (@B,))
def step():
    opt.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16, enabled='@half' == 'true'):
        loss = F.cross_entropy(net(x), to)
    loss.backward()
    opt.step()
]]}

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

local function norms_and_networks(model, o)
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
  for _, half in ipairs{false, true} do
    model('resnet18_train_' .. (half and 'bf16' or 'float32') .. '/64x224', setups.resnet,
      {B = o.quick and 2 or 64, S = o.quick and 32 or 224, half = half}, 'step()')
  end
  model('gpt2_124m_train_bf16/8x1024', setups.gpt, o.quick and {D = 16, H = 2, L = 1, V = 50, T = 8, B = 2} or
    {D = 768, H = 12, L = 12, V = 50257, T = 1024, B = 8}, 'step()')
end

return function(row, o)
  local function model(name, texts, values, call, call_of_torch)
    local list = filled(texts, values)
    row('models', 'model_' .. name, '', {{list[1], call}, torch = {list[2], call_of_torch or call}})
  end
  attention_and_losses(model, o)
  convolutions(model, o)
  norms_and_networks(model, o)
end
