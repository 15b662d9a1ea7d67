# notebooks.py -- the calls that the notebooks measure, in mtorch and in PyTorch, both on one thread
#
#   python3 scripts/bench/notebooks.py build/mtorch [NOTEBOOK ..]      such as 03; needs PyTorch
#
# The two take turns, ROUNDS runs each of at least 20 ms; the smallest time per call counts. Prints Markdown tables.
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

ROUNDS = 25
torch.set_num_threads(1)
torch.manual_seed(1)
head = """
package.path = 'SCRIPTS/?.lua;' .. package.path
local mt = require 'mtorch'
local nn, optim, time = mt.nn, mt.optim, require('mtorch.core').time
local trained, calls = require('bench.networks').step_of, {}
""".replace('SCRIPTS', os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tail = """
for line in io.lines() do
  local call, n = calls[tonumber(line)], 1
  while true do
    collectgarbage() -- outside of the measured time, as gc.disable() in timeit
    local began = time()
    for _ = 1, n do call() end
    local took = time() - began
    if took > 0.02 then print(took / n) break end
    n = math.max(2 * n, math.floor(n * 0.025 / took))
  end
  io.stdout:flush()
end
"""


def seconds(call):
    """The same for PyTorch."""
    n = 1
    while True:
        began = time.perf_counter()
        for _ in range(n):
            call()
        took = time.perf_counter() - began
        if took > 0.02:
            return took / n
        n = max(2 * n, int(n * 0.025 / took))


def matmul_ladder():
    x, w = torch.rand(2000, 784), torch.randn(784, 10)
    a = x[:5].contiguous()

    def elements():
        c = torch.zeros(5, 10)
        for i in range(5):
            for j in range(10):
                total = 0
                for k in range(784):
                    total = total + a[i, k].item() * w[k, j].item()
                c[i, j] = total

    def lists(n=5, inner=784, m=10):
        la, lb, c = a.tolist(), w.tolist(), torch.zeros(n, m)
        for i in range(n):
            for j in range(m):
                total = 0
                for k in range(inner):
                    total = total + la[i][k] * lb[k][j]
                c[i, j] = total

    def cells(cell):
        c = torch.zeros(5, 10)
        for i in range(5):
            for j in range(10):
                c[i, j] = cell(a[i], w[:, j])

    def broadcast(a):
        c = torch.zeros(len(a), 10)
        for i in range(len(a)):
            c[i] = (a[i].unsqueeze(1) * w).sum(0)

    setup = """
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
"""
    return setup, [
        ('three loops over tensors', 'cells(at)', elements),
        ('three loops over numbers (LuaJIT; Python lists)', 'pointers()', lists),
        ('row times column, then the sum', 'cells(function(i, j) return (a[i] * w[{{}, j}]):sum() end)',
         lambda: cells(lambda r, c: (r * c).sum())),
        ('dot of row and column', 'cells(function(i, j) return a[i]:dot(w[{{}, j}]) end)', lambda: cells(torch.dot)),
        ('a row times the matrix, by broadcasting', 'broadcast(a)', lambda: broadcast(a)),
        ('einsum', "mt.einsum('ik,kj->ij', a, w)", lambda: torch.einsum('ik,kj->ij', a, w)),
        ('x:matmul(y)', 'a:matmul(w)', lambda: a @ w),
        ('all 2000 pictures, x:matmul(y)', 'x:matmul(w)', lambda: x @ w),
        ('all 2000 pictures, by broadcasting', 'broadcast(x)', lambda: broadcast(x)),
    ]


def grid_kernels():
    x, w = torch.rand(1000, 784), torch.randn(784, 10)
    setup = """
local x, w, r = mt.rand(1000, 784), mt.randn(784, 10), mt.zeros(1000, 10)
local kernel = mt.kernel(function(a, b, c)
  local i, j = grid(2)
  if i <= c.shape[1] and j <= c.shape[2] then
    local sum = 0.0
    for k = 1, a.shape[2] do sum = sum + a[i][k] * b[k][j] end
    c[i][j] = sum
  end
end)
"""
    return setup, [
        ('the plain kernel, 16 x 16 threads', 'kernel[{ {63, 1}, {16, 16} }](x, w, r)', None),
        ('the product of the library', 'x:matmul(w)', lambda: x @ w),
    ]


def fusion_and_threads():
    x, y = torch.randn(1000000), torch.randn(1000000)
    rows = torch.randn(4096, 256, requires_grad=True)

    def chain(a, b):
        return ((a * b + 1).sigmoid() - 0.5) ** 2

    def huber(a, b):
        d = (a - b).abs()
        return torch.where(d < 1, 0.5 * d * d, d - 0.5)

    def layer_norm(v):
        centred = v - v.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    def step(f):
        return lambda: torch.autograd.grad(f(rows).square().sum(), rows)

    fused, fused_huber, fused_norm = torch.compile(chain), torch.compile(huber), torch.compile(layer_norm)
    setup = """
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
"""
    return setup, [
        ('the chain, operation by operation', 'chain(x, y)', lambda: chain(x, y)),
        ('the chain fused (`mt.fuse`; `torch.compile`)', 'fused(x, y)', lambda: fused(x, y)),
        ('huber (`mt.zip`; `torch.compile`)', 'huber(x, y)', lambda: fused_huber(x, y)),
        ('layer norm and its gradient', 'step(layer_norm)', step(layer_norm)),
        ('the same fused (`mt.fuse`; `torch.compile`)', 'step(fused_norm)', step(fused_norm)),
    ]


def convolution_kernels():
    conv, picture = nn.Conv2d(1, 1, 3, bias=False, padding=1), torch.rand(1, 400, 600)
    setup = """
local conv, picture = nn.Conv2d(1, 1, 3, {bias = false, padding = 1}), mt.rand(400, 600)
local f, out = conv.weight[1][1]:detach():contiguous(), mt.zeros(400, 600)
local conv2d = mt.kernel(function(m, f, out)
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
"""
    return setup, [
        ('the plain kernel', 'conv2d:over(out)(picture, f, out)', None),
        ('`nn.Conv2d`', 'mt.no_grad(conv, picture:unsqueeze(1))', torch.no_grad()(lambda: conv(picture))),
    ]


def trained(net, opt, loss):
    def step():
        opt.zero_grad()
        loss().backward()
        opt.step()
    return step


def minitorch_efficiency():
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
    setup = """
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
local opt = optim.SGD(net:parameters(), {lr = 0.5})
local step = mt.compile(trained(opt, function(x, y) return mt.binary_cross_entropy(net(x):squeeze(2), y) end))
"""
    return setup, [
        ('task 3.2, three loops (LuaJIT; Python lists)', 'loops()', lists),
        ('task 3.2, `a:matmul(b)`', 'a:matmul(b)', lambda: a @ b),
        ('task 3.5, an epoch (`mt.compile`; eager)', 'step(points.x, points.y)',
         trained(net, torch.optim.SGD(net.parameters(), lr=0.5),
                 lambda: F.binary_cross_entropy(net(x).squeeze(1), y))),
    ]


def digits():
    x, y = torch.rand(50, 1, 28, 28), torch.randint(10, (50,))
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
    setup = """
local x, y = mt.rand(50, 1, 28, 28), mt.randint(1, 10, {50})
local net = nn.Sequential(nn.Conv2d(1, 8, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(8, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10))
local opt = optim.AdamW(net:parameters(), {lr = 0.003})
local step = mt.compile(trained(opt, function(x, y) return mt.cross_entropy(net(x), y) end))
"""
    return setup, [
        ('a training step of 50 digits (`mt.compile`; eager)', 'step(x, y)',
         trained(net, torch.optim.AdamW(net.parameters(), lr=0.003), lambda: F.cross_entropy(net(x), y))),
        ('50 digits read', 'mt.no_grad(net, x)', torch.no_grad()(lambda: net(x))),
    ]


def text():
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
    setup = """
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
local opt = optim.AdamW(net:parameters(), {lr = 0.003})
local step = trained(opt, function() return mt.cross_entropy(net(x):flatten(1, 2), y:flatten()) end)
"""
    return setup, [
        ('a training step, 16 pieces of 32 characters', 'step()',
         trained(net, torch.optim.AdamW(net.parameters(), lr=0.003),
                 lambda: F.cross_entropy(net(x).flatten(0, 1), y.flatten()))),
        ('the scores of the next character', 'mt.no_grad(reader, x[{{1, 1}}])',
         torch.no_grad()(lambda: reader(x[:1]))),
    ]


def shown(seconds):
    if seconds is None:
        return '-'
    unit, factor = ('us', 1e6) if seconds < 1e-3 else ('ms', 1e3)
    return f'{seconds * factor:.{0 if seconds * factor >= 100 else 1 if seconds * factor >= 10 else 2}f} {unit}'


def measure(program, setup, cases):
    calls = ''.join(f'calls[{i}] = function() {call} end\n' for i, (_, call, _) in enumerate(cases))
    with tempfile.NamedTemporaryFile('w', suffix='.lua') as file:
        file.write(head + setup + calls + tail)
        file.flush()
        lua = subprocess.Popen([program, '--threads', '1', file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
        best = [[None, None] for _ in cases]
        for _ in range(ROUNDS):
            for i, (_, _, call) in enumerate(cases):
                print(i, file=lua.stdin, flush=True)
                for side, took in enumerate([float(lua.stdout.readline()), call and seconds(call)]):
                    if took:
                        best[i][side] = min(took, best[i][side] or took)
        lua.stdin.close()
        lua.wait()
    return best


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit('usage: python3 scripts/bench/notebooks.py build/mtorch [NOTEBOOK ..]')
    program, wanted = sys.argv[1], sys.argv[2:]
    for number, make in enumerate([matmul_ladder, grid_kernels, fusion_and_threads, convolution_kernels,
                                   minitorch_efficiency, digits, text], 1):
        if wanted and f'{number:02}' not in wanted:
            continue
        setup, cases = make()
        print(f'\n## {number:02} ({make.__name__}), PyTorch {torch.__version__}\n\n| | mtorch | PyTorch | ratio |\n'
              '|---|--:|--:|--:|')
        for (name, _, _), (ours, theirs) in zip(cases, measure(program, setup, cases)):
            ratio = '' if theirs is None else f'{theirs / ours:.{0 if theirs / ours >= 10 else 1}f}'
            print(f'| {name} | {shown(ours)} | {shown(theirs)} | {ratio} |', flush=True)
