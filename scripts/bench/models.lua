-- models.lua -- rows of typical GPU work: 16-bit attention, convolutions and losses, GPT-2 and ResNet-18 steps
--
-- Both sides have the same shapes and dtypes; PyTorch is eager, with its fused attention and AdamW, as in its guides.
-- Inputs are created by the setup, so that a row's memory is freed with it.
local setups = {}

setups.gpt = {[[
local nn = mt.nn
local D, H, L, V, T, B = @D, @H, @L, @V, @T, @B
local Block = nn.class 'BenchBlock'
function Block:__init()
  self.n1, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
  self.n2, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
end
function Block:forward(x)
  local h = self.qkv(self.n1(x)):reshape(B, T, 3, H, D / H):permute(3, 1, 4, 2, 5)
  local a = mt.scaled_dot_product_attention(h[1], h[2], h[3], {is_causal = true})
  x = x + self.o(a:transpose(2, 3):reshape(B, T, D))
  return x + self.down(mt.gelu(self.up(self.n2(x))))
end
local GPT = nn.class 'BenchGPT'
function GPT:__init()
  self.wte, self.wpe, self.norm = nn.Embedding(V, D), nn.Embedding(T, D), nn.LayerNorm(D)
  self.blocks, self.head = nn.ModuleList{}, nn.Linear(D, V, {bias = false})
  for _ = 1, L do self.blocks:append(Block()) end
end
function GPT:forward(ids, places)
  local x = self.wte(ids) + self.wpe(places)
  for i = 1, L do x = self.blocks[i](x) end
  return self.head(self.norm(x))
end
local net = GPT():to(tools.device)
local opt = mt.optim.AdamW(net:parameters(), {lr = 1e-4})
local ids, to = mt.randint(1, V, {B, T}), mt.randint(1, V, {B * T})
local places = mt.range(1, T):long()
local function step()
  opt:zero_grad()
  local loss = mt.autocast{function() return mt.cross_entropy(net(ids, places):reshape(B * T, V), to) end,
    dtype = 'bfloat16', device = 'cuda'}
  loss:backward()
  nn.clip_grad_norm_(net:parameters(), 1)
  opt:step()
end
]], [[
D, H, L, V, T, B = @D, @H, @L, @V, @T, @B
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.n1, s.qkv, s.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        s.n2, s.up, s.down = nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x):
        h = s.qkv(s.n1(x)).reshape(B, T, 3, H, D // H).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(h[0], h[1], h[2], is_causal=True)
        x = x + s.o(a.transpose(1, 2).reshape(B, T, D))
        return x + s.down(F.gelu(s.up(s.n2(x))))
class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.wte, s.wpe, s.norm = nn.Embedding(V, D), nn.Embedding(T, D), nn.LayerNorm(D)
        s.blocks = nn.ModuleList([Block() for _ in range(L)])
        s.head = nn.Linear(D, V, bias=False)
    def forward(s, ids, places):
        x = s.wte(ids) + s.wpe(places)
        for b in s.blocks:
            x = b(x)
        return s.head(s.norm(x))
net = GPT().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=device != 'cpu')
ids, to, places = torch.randint(V, (B, T)), torch.randint(V, (B * T,)), torch.arange(T)
def step():
    opt.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = F.cross_entropy(net(ids, places).reshape(B * T, V), to)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1)
    opt.step()
]]}

setups.resnet = {[[
local nn = mt.nn
local Basic = nn.class 'BenchBasic'
function Basic:__init(i, o, stride)
  self.c1, self.b1 = nn.Conv2d(i, o, 3, {stride = stride, padding = 1, bias = false}), nn.BatchNorm2d(o)
  self.c2, self.b2 = nn.Conv2d(o, o, 3, {padding = 1, bias = false}), nn.BatchNorm2d(o)
  if stride > 1 then
    self.down = nn.Sequential(nn.Conv2d(i, o, 1, {stride = stride, bias = false}), nn.BatchNorm2d(o))
  end
end
function Basic:forward(x)
  local y = self.b2(self.c2(self.b1(self.c1(x)):relu()))
  return (y + (self.down and self.down(x) or x)):relu()
end
local net = nn.Sequential(nn.Conv2d(3, 64, 7, {stride = 2, padding = 3, bias = false}), nn.BatchNorm2d(64), nn.ReLU(),
  nn.MaxPool2d(3, {stride = 2, padding = 1}), Basic(64, 64, 1), Basic(64, 64, 1), Basic(64, 128, 2), Basic(128, 128, 1),
  Basic(128, 256, 2), Basic(256, 256, 1), Basic(256, 512, 2), Basic(512, 512, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
  nn.Linear(512, 1000)):to(tools.device)
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
class Basic(nn.Module):
    def __init__(s, i, o, stride):
        super().__init__()
        s.c1, s.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        s.c2, s.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        s.down = down if stride > 1 else nn.Identity()
    def forward(s, x):
        return F.relu(s.b2(s.c2(F.relu(s.b1(s.c1(x))))) + s.down(x))
net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    Basic(64, 64, 1), Basic(64, 64, 1), Basic(64, 128, 2), Basic(128, 128, 1), Basic(128, 256, 2), Basic(256, 256, 1),
    Basic(256, 512, 2), Basic(512, 512, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).to(device)
net = net.to(memory_format=torch.channels_last)
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
