-- notebooks.lua -- rows of what the notebooks measure: mtorch scripts/bench.lua --group 'notebook 03' --peer torch
--
-- A notebook has the setups of mtorch and of PyTorch, and rows {name, call, PyTorch's call}.
local mt = require 'mtorch'
local parts = {}
local notebooks = {} -- the kernels, which are made from the source of a file, and add(row)

notebooks.product = mt.kernel(function(a, b, c)
  local i, j = grid(2)
  if i <= c.shape[1] and j <= c.shape[2] then
    local sum = 0.0
    for k = 1, a.shape[2] do sum = sum + a[i][k] * b[k][j] end
    c[i][j] = sum
  end
end)

notebooks.conv2d = mt.kernel(function(m, f, out)
  local row, col = grid(2)
  local r = math.floor(f.shape[1] / 2)
  if row <= out.shape[1] and col <= out.shape[2] then
    local sum = 0.0
    for i = 1, f.shape[1] do
      for j = 1, f.shape[2] do
        local y, x = row - r + i - 1, col - r + j - 1
        if y >= 1 and y <= m.shape[1] and x >= 1 and x <= m.shape[2] then sum = sum + m[y][x] * f[i][j] end
      end
    end
    out[row][col] = sum
  end
end)

--- Returns a training step.
function notebooks.trained(opt, loss_of)
  return function(x, y)
    opt:zero_grad()
    local loss = loss_of(x, y)
    loss:backward()
    opt:step()
    return loss
  end
end

parts['01'] = {[[
local x, w = mt.rand(2000, 784), mt.randn(784, 10)
local a = x[{{1, 5}}]
local function cells(cell)
  local c = mt.zeros(5, 10)
  for i = 1, 5 do for j = 1, 10 do c[{i, j}] = cell(i, j) end end
end
local function at(i, j)
  local sum = 0
  for k = 1, 784 do sum = sum + a:at(i, k) * w:at(k, j) end
  return sum
end
local function pointers()
  local c = mt.zeros(5, 10)
  local pa, pb, pc = a:data(), w:data(), c:data()
  for i = 0, 4 do
    for j = 0, 9 do
      local sum = 0
      for k = 0, 783 do sum = sum + pa[i * 784 + k] * pb[k * 10 + j] end
      pc[i * 10 + j] = sum
    end
  end
end
local function broadcast(a)
  local c = mt.zeros(a:size(1), 10)
  for i = 1, a:size(1) do c[i] = (a[i]:unsqueeze(2) * w):sum(1) end
end
]], [[
x, w = torch.rand(2000, 784), torch.randn(784, 10)
a = x[:5].contiguous()
def cells(cell):
    c = torch.zeros(5, 10)
    for i in range(5):
        for j in range(10):
            c[i, j] = cell(i, j)
def at(i, j):
    total = 0
    for k in range(784):
        total = total + a[i, k].item() * w[k, j].item()
    return total
def lists():
    la, lb, c = a.tolist(), w.tolist(), torch.zeros(5, 10)
    for i in range(5):
        for j in range(10):
            total = 0
            for k in range(784):
                total = total + la[i][k] * lb[k][j]
            c[i, j] = total
def broadcast(a):
    c = torch.zeros(len(a), 10)
    for i in range(len(a)):
        c[i] = (a[i].unsqueeze(1) * w).sum(0)
]],
  {'loops_over_tensors', 'cells(at)', 'cells(at)'},
  {'loops_over_numbers', 'pointers()', 'lists()'}, -- LuaJIT; Python lists
  {'products_then_sum', 'cells(function(i, j) return (a[i] * w[{{}, j}]):sum() end)',
    'cells(lambda i, j: (a[i] * w[:, j]).sum())'},
  {'dot', 'cells(function(i, j) return a[i]:dot(w[{{}, j}]) end)', 'cells(lambda i, j: a[i].dot(w[:, j]))'},
  {'broadcasting', 'broadcast(a)', 'broadcast(a)'},
  {'einsum', "mt.einsum('ik,kj->ij', a, w)", "torch.einsum('ik,kj->ij', a, w)"},
  {'matmul', 'a:matmul(w)', 'a @ w'},
  {'matmul_of_2000', 'x:matmul(w)', 'x @ w'},
  {'broadcasting_of_2000', 'broadcast(x)', 'broadcast(x)'},
}

parts['02'] = {[[
local x, w, r = mt.rand(1000, 784), mt.randn(784, 10), mt.zeros(1000, 10)
local kernel = require('bench.notebooks').product
]], 'x, w = torch.rand(1000, 784), torch.randn(784, 10)',
  {'kernel', 'kernel[{ {63, 1}, {16, 16} }](x, w, r)'},
  {'matmul', 'x:matmul(w)', 'x @ w'},
}

parts['03'] = {[[
local x, y, rows = mt.randn(1000000), mt.randn(1000000), mt.randn(4096, 256):requires_grad_()
local function chain(a, b) return ((a * b + 1):sigmoid() - 0.5) ^ 2 end
local fused = mt.fuse(chain)
local huber = mt.zip(function(a, b)
  local d = math.abs(a - b)
  if d < 1 then return 0.5 * d * d end
  return d - 0.5
end)
local function layer_norm(v)
  local centred = v - v:mean(-1, true)
  return centred / (centred:square():mean(-1, true) + 1e-5):sqrt()
end
local fused_norm = mt.fuse(layer_norm)
local function step(f) mt.grad(f(rows):square():sum(), rows) end
]], [[
x, y, rows = torch.randn(1000000), torch.randn(1000000), torch.randn(4096, 256, requires_grad=True)
def chain(a, b):
    return ((a * b + 1).sigmoid() - 0.5) ** 2
def huber(a, b):
    d = (a - b).abs()
    return torch.where(d < 1, 0.5 * d * d, d - 0.5)
def layer_norm(v):
    centred = v - v.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
def step(f):
    return torch.autograd.grad(f(rows).square().sum(), rows)
fused, huber, fused_norm = torch.compile(chain), torch.compile(huber), torch.compile(layer_norm)
]],
  {'chain', 'chain(x, y)', 'chain(x, y)'},
  {'chain_fused', 'fused(x, y)', 'fused(x, y)'}, -- mt.fuse; torch.compile
  {'huber', 'huber(x, y)', 'huber(x, y)'}, -- mt.zip; torch.compile
  {'layer_norm', 'step(layer_norm)', 'step(layer_norm)'}, -- and its gradient
  {'layer_norm_fused', 'step(fused_norm)', 'step(fused_norm)'},
}

parts['04'] = {[[
local conv, picture = mt.nn.Conv2d(1, 1, 3, {bias = false, padding = 1}), mt.rand(400, 600)
local f, out = conv.weight[1][1]:detach():contiguous(), mt.zeros(400, 600)
local conv2d = require('bench.notebooks').conv2d
]], [[
conv, picture = nn.Conv2d(1, 1, 3, bias=False, padding=1), torch.rand(1, 400, 600)
without_gradient = torch.no_grad()(lambda: conv(picture))
]],
  {'kernel', 'conv2d:over(out)(picture, f, out)'},
  {'conv2d', 'mt.no_grad(conv, picture:unsqueeze(1))', 'without_gradient()'},
}

-- Steps of PyTorch are eager, ours compiled where the notebook does so.
local trained = [[
def trained(net, opt, loss):
    def step():
        opt.zero_grad()
        loss().backward()
        opt.step()
    return step
]]

parts['05'] = {[[
local nn, trained = mt.nn, require('bench.notebooks').trained
local a, b = mt.randn(100, 80), mt.randn(80, 60)
local function loops()
  local out = mt.zeros(100, 60)
  local pa, pb, po = a:data(), b:data(), out:data()
  for i = 0, 99 do
    for j = 0, 59 do
      local sum, at, bt = 0, i * 80, j
      for _ = 1, 80 do
        sum = sum + pa[at] * pb[bt]
        at, bt = at + 1, bt + 60
      end
      po[i * 60 + j] = sum
    end
  end
end
local points = mt.data.split(50)
local net = nn.Sequential(nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid())
local opt = mt.optim.SGD(net:parameters(), {lr = 0.5})
local step = mt.compile(trained(opt, function(x, y) return mt.binary_cross_entropy(net(x):squeeze(2), y) end))
]], trained .. [[
a, b = torch.randn(100, 80), torch.randn(80, 60)
def lists():
    la, lb, c = a.tolist(), list(zip(*b.tolist())), torch.zeros(100, 60)
    for i, row in enumerate(la):
        for j, column in enumerate(lb):
            total = 0
            for u, v in zip(row, column):
                total = total + u * v
            c[i, j] = total
x = torch.rand(50, 2)
y = ((x[:, 0] < 0.2) | (x[:, 0] > 0.8)).float()
net = nn.Sequential(nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid())
step = trained(net, torch.optim.SGD(net.parameters(), lr=0.5), lambda: F.binary_cross_entropy(net(x).squeeze(1), y))
]],
  {'loops', 'loops()', 'lists()'}, -- task 3.2; LuaJIT, Python lists
  {'matmul', 'a:matmul(b)', 'a @ b'},
  {'epoch', 'step(points.x, points.y)', 'step()'}, -- task 3.5
}

parts['06'] = {[[
local nn, trained = mt.nn, require('bench.notebooks').trained
local x, y = mt.rand(50, 1, 28, 28), mt.randint(1, 10, {50})
local net = nn.Sequential(nn.Conv2d(1, 8, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(8, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
local opt = mt.optim.AdamW(net:parameters(), {lr = 0.003})
local step = mt.compile(trained(opt, function(x, y) return mt.cross_entropy(net(x), y) end))
]], trained .. [[
x, y = torch.rand(50, 1, 28, 28), torch.randint(10, (50,))
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
step = trained(net, torch.optim.AdamW(net.parameters(), lr=0.003), lambda: F.cross_entropy(net(x), y))
without_gradient = torch.no_grad()(lambda: net(x))
]],
  {'step', 'step(x, y)', 'step()'},
  {'inference', 'mt.no_grad(net, x)', 'without_gradient()'},
}

parts['07'] = {[[
local nn, trained = mt.nn, require('bench.notebooks').trained
local Model = nn.class 'Model'
function Model:__init(width)
  self.character, self.position = nn.Embedding(22, width), nn.Embedding(32, width)
  self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, {dim_feedforward = 2 * width, dropout = 0,
    batch_first = true, norm_first = true}), 2)
  self.score = nn.Linear(width, 22)
  self.mask = nn.Buffer(mt.ones(32, 32):bool():triu(1))
end
function Model:forward(x)
  local n = x:size(2)
  local h = self.character(x) + self.position(mt.range(1, n))
  return self.score(self.layers(h, {mask = self.mask[{{1, n}, {1, n}}]}))
end
local net, x, y = Model(32), mt.randint(1, 22, {16, 32}), mt.randint(1, 22, {16, 32})
local reader = Model(32):eval()
local opt = mt.optim.AdamW(net:parameters(), {lr = 0.003})
local step = trained(opt, function() return mt.cross_entropy(net(x):flatten(1, 2), y:flatten()) end)
]], trained .. [[
class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.character, self.position = nn.Embedding(22, width), nn.Embedding(32, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.score = nn.Linear(width, 22)
        self.mask = torch.ones(32, 32, dtype=torch.bool).triu(1)
    def forward(self, x):
        n = x.size(1)
        return self.score(self.layers(self.character(x) + self.position(torch.arange(n)), self.mask[:n, :n]))
net, x, y = Model(), torch.randint(22, (16, 32)), torch.randint(22, (16, 32))
reader = Model().eval()
step = trained(net, torch.optim.AdamW(net.parameters(), lr=0.003),
               lambda: F.cross_entropy(net(x).flatten(0, 1), y.flatten()))
without_gradient = torch.no_grad()(lambda: reader(x[:1]))
]],
  {'step', 'step()', 'step()'}, -- 16 pieces of 32 characters
  {'scores', 'mt.no_grad(reader, x[{{1, 1}}])', 'without_gradient()'}, -- of the next character
}

function notebooks.add(row)
  for number = 1, 7 do
    local name = ('%02d'):format(number)
    local ours, theirs = unpack(parts[name], 1, 2)
    for k = 3, #parts[name] do
      local title, call, torch_call = unpack(parts[name][k])
      row('notebook ' .. name, ('notebook_%s/%s'):format(name, title), '',
        {{ours, call}, torch = torch_call and {theirs, torch_call}})
    end
  end
end

return notebooks
