# whole_networks_torch.py -- the networks of scripts/bench/whole_networks.lua in PyTorch; those of images: torchvision's
import re
import statistics
import sys
import time
from types import SimpleNamespace as Made

import torch
from torch import nn
from torch.nn import functional as F

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


# ---- images ----


def classifier(net, x, optimizer):
    y = torch.randint(10, (len(x),))
    return Made(net=net, x=x, y=y, loss=F.cross_entropy, optimizer=optimizer)


def vision(name, **options):
    """A network of torchvision, which the other networks do not need."""
    from torchvision import models

    return getattr(models, name)(**options)


def resnet18_cifar():
    net = vision("resnet18", num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return net


def vit_tiny(side):
    return vision(
        "VisionTransformer", image_size=side, patch_size=16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768,
        num_classes=10,
    )  # fmt: skip


def conv(inputs, outputs):
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def two_convolutions(inputs, outputs):
    first = conv(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    return nn.Sequential(*first, conv(outputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList([two_convolutions(3, width), *(two_convolutions(w, 2 * w) for w in widths)])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths)
        self.merge = nn.ModuleList(two_convolutions(2 * w, w) for w in widths)
        self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = [self.down[0](x)]
        for i in range(1, 4):
            kept.append(self.down[i](self.pool(kept[i - 1])))
        y = kept[3]
        for i in (2, 1, 0):
            y = self.merge[i](torch.cat([self.up[i](y), kept[i]], 1))
        return self.out(y)


def on_gpu():
    return torch.get_default_device().type != "cpu"


def of_images(make, optimizer=(SGD, dict(lr=0.01, momentum=0.9))):
    form = torch.channels_last if on_gpu() else torch.contiguous_format
    return lambda batch, side: classifier(
        make(side).to(memory_format=form), torch.randn(batch, 3, side, side).to(memory_format=form), optimizer
    )


def unet(width, batch, side):
    x, y = torch.randn(batch, 3, side, side), torch.randint(2, (batch, side, side))
    return Made(net=UNet(width), x=x, y=y, loss=F.cross_entropy, optimizer=(ADAM, dict(lr=1e-3)))


# ---- language ----


def heads(x, count):
    return x.unflatten(-1, (count, x.shape[2] // count)).transpose(1, 2)


class Attending(nn.Module):
    """A block whose attention also sees `past` earlier tokens, as buffers."""

    def remember(self, count, past, width):
        self.register_buffer("keys", torch.randn(1, count, past, width) if past else None)
        self.register_buffer("values", torch.randn(1, count, past, width) if past else None)

    def attention(self, q, k, v):
        if self.keys is not None:
            k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        causal, shared = q.shape[2] > 1, k.shape[1] < q.shape[1]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)
        return y.transpose(1, 2).flatten(2, 3)


class GptBlock(Attending):
    def __init__(self, width, count, past):
        super().__init__()
        self.count, self.norm1, self.norm2 = count, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.remember(count, past, width // count)

    def forward(self, x):
        q, k, v = (heads(part, self.count) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.project(self.attention(q, k, v))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, count, vocabulary, past):
        super().__init__()
        self.token, self.position, self.past = nn.Embedding(vocabulary, width), nn.Embedding(1024, width), past
        self.blocks = nn.Sequential(*(GptBlock(width, count, past) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.token(ids) + self.position.weight[self.past : self.past + ids.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.token.weight)


def language_model(net, vocabulary, batch, length, past):
    """The next token of each text is the target; after a past, the likeliest next token is the result."""
    x, y = torch.randint(vocabulary, (batch, length)), torch.randint(vocabulary, (batch * length,))
    made = Made(net=net, x=x, y=y, optimizer=(ADAMW, dict(lr=1e-4)))
    made.loss = lambda out, y: F.cross_entropy(out.flatten(0, 1), y)
    if past:
        made.forward = lambda x: net(x).argmax(-1)
    return made


def gpt2(layers, width, count, vocabulary, batch, length, past):
    made = language_model(Gpt(layers, width, count, vocabulary, past), vocabulary, batch, length, past)
    made.clip = 1
    return made


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaBlock(Attending):
    def __init__(self, width, count, groups, inner, past):
        super().__init__()
        self.count, self.groups, self.norm1, self.norm2 = count, groups, nn.RMSNorm(width), nn.RMSNorm(width)
        shared = groups * width // count
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, shared, bias=False)
        self.v, self.o = nn.Linear(width, shared, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.remember(groups, past, width // count)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q, k, v = heads(self.q(y), self.count), heads(self.k(y), self.groups), heads(self.v(y), self.groups)
        x = x + self.o(self.attention(rotate(q, cos, sin), rotate(k, cos, sin), v))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, count, groups, inner, vocabulary, length, past):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(width, count, groups, inner, past) for _ in range(layers))
        half = width // count // 2
        angles = torch.arange(past, past + length)[:, None] * 10000 ** (torch.arange(half) / -half)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def llama(layers, width, count, groups, inner, vocabulary, batch, length, past):
    net = Llama(layers, width, count, groups, inner, vocabulary, length, past)
    return language_model(net, vocabulary, batch, length, past)


class LstmModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.layers = nn.Embedding(vocabulary, width), nn.LSTM(width, width, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids))[0])


def lstm_lm(vocabulary, width, batch, length):
    made = language_model(LstmModel(vocabulary, width), vocabulary, length, batch, 0)
    made.optimizer, made.clip = (SGD, dict(lr=0.1)), 0.25
    return made


# ---- tables, graphs, physics, control ----


def perceptron(activation, *sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def mlp(batch, inputs, hidden):
    net = perceptron(nn.ReLU, inputs, hidden, hidden, 10)
    return classifier(net, torch.randn(batch, inputs), (ADAM, dict(lr=1e-3)))


class Dlrm(nn.Module):
    def __init__(self, tables, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = perceptron(nn.ReLU, 13, 512, 256, width)
        self.top = perceptron(nn.ReLU, width + (tables + 1) * tables // 2, 512, 256, 1)
        self.pairs = torch.tril_indices(tables + 1, tables + 1, -1)

    def forward(self, dense, ids):
        x = self.bottom(dense).relu()
        vectors = torch.stack([x, *(table(i) for table, i in zip(self.tables, ids))], 1)
        products = vectors.matmul(vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


def dlrm(tables, rows, width, batch):
    net, ids = Dlrm(tables, rows, width), torch.randint(rows, (tables, batch, 4))
    return Made(
        net=net, x=torch.randn(batch, 13), y=torch.randint(2, (batch,)).float(), optimizer=(SGD, dict(lr=0.1)),
        loss=F.binary_cross_entropy_with_logits, forward=lambda x: net(x, ids),
    )  # fmt: skip


class GraphLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.message, self.own = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x, start, end):
        messages = self.message(x).index_select(0, start)
        return self.own(x) + torch.zeros(len(x), messages.shape[1]).index_add(0, end, messages)


def gnn(nodes, edges):
    net = nn.ModuleList([GraphLayer(64, 64), GraphLayer(64, 16)])
    start, end = torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
    return Made(
        net=net, x=torch.randn(nodes, 64), y=torch.randint(16, (nodes,)), loss=F.cross_entropy,
        optimizer=(ADAM, dict(lr=1e-2)), forward=lambda x: net[1](net[0](x, start, end).relu(), start, end),
    )  # fmt: skip


def pinn(points):
    net = perceptron(nn.Tanh, 2, 64, 64, 64, 1)
    x, t = torch.rand(points, 1, requires_grad=True), torch.rand(points, 1, requires_grad=True)
    border, values = torch.rand(100, 2), torch.rand(100, 1)

    def loss_of():
        u = net(torch.cat([x, t], 1))
        ux, ut = torch.autograd.grad(u.sum(), [x, t], create_graph=True)
        (uxx,) = torch.autograd.grad(ux.sum(), x, create_graph=True)
        return (ut - uxx).square().mean() + F.mse_loss(net(border), values)

    return Made(net=net, x=torch.rand(points, 2), optimizer=(ADAM, dict(lr=1e-3)), loss_of=loss_of)


def vae(batch):
    net = nn.ModuleList(
        [nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20), perceptron(nn.ReLU, 20, 400, 784)]
    )
    x = torch.rand(batch, 784)

    def forward(x):
        h = net[0](x).relu()
        mean, log_variance = net[1](h), net[2](h)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return net[3](z).sigmoid(), mean, log_variance

    def loss_of():
        y, mean, log_variance = forward(x)
        distance = 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return F.binary_cross_entropy(y, x, reduction="sum") - distance

    return Made(net=net, x=x, optimizer=(ADAM, dict(lr=1e-3)), forward=forward, loss_of=loss_of)


def dqn(batch):
    net, target = perceptron(nn.ReLU, 4, 64, 64, 2), perceptron(nn.ReLU, 4, 64, 64, 2)
    state, next_state, action = torch.randn(batch, 4), torch.randn(batch, 4), torch.randint(2, (batch, 1))
    reward, done = torch.randn(batch), torch.randint(2, (batch,)).float()
    pairs = list(zip(target.parameters(), net.parameters()))

    def loss_of():
        with torch.no_grad():
            best = reward + 0.99 * (1 - done) * target(next_state).amax(1)
        return F.smooth_l1_loss(net(state).gather(1, action).squeeze(1), best)

    @torch.no_grad()
    def after():
        for to, from_ in pairs:
            to.lerp_(from_, 0.005)

    return Made(
        net=net, x=state, optimizer=(ADAM, dict(lr=1e-3)), clip=10, loss_of=loss_of, after=after,
        forward=lambda x: net(x).argmax(1),
    )  # fmt: skip


# ---- the rows step_* ----

SMALL_SGD = (SGD, dict(lr=0.05))


def step_split(hidden):
    net = nn.Sequential(perceptron(nn.ReLU, 2, hidden, hidden, 1), nn.Sigmoid(), nn.Flatten(0))
    x, y = torch.rand(50, 2), torch.randint(2, (50,)).float()
    return Made(net=net, x=x, y=y, loss=F.binary_cross_entropy, optimizer=SMALL_SGD, batch=10)


def step_mlp():
    return classifier(perceptron(nn.ReLU, 784, 128, 10), torch.randn(64, 784), SMALL_SGD)


def step_cnn():
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip
    return classifier(net, torch.randn(64, 1, 28, 28), SMALL_SGD)


def recurrent(kind):
    net = nn.ModuleList([kind(64, 128, batch_first=True), nn.Linear(128, 10)])
    made = classifier(net, torch.randn(32, 50, 64), (SGD, dict(lr=0.1)))
    made.forward = lambda x: net[1](net[0](x)[0][:, -1])
    return made


def step_transformer():
    layer = nn.TransformerEncoderLayer(128, 4, 512, 0, "gelu", batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(128), enable_nested_tensor=False)
    net = nn.ModuleList([nn.Embedding(65, 128), nn.Embedding(64, 128), blocks, nn.Linear(128, 65)])
    mask = nn.Transformer.generate_square_subsequent_mask(64)
    made = language_model(net, 65, 16, 64, 0)
    made.optimizer = (ADAMW, dict(lr=1e-3))
    made.forward = lambda x: net[3](blocks(net[0](x) + net[1].weight, mask=mask, is_causal=True))
    return made


def train_split(epochs, device):
    """Returns the seconds of every epoch of MiniTorch's training job (Module 3), the peer of scripts/train_split.lua.

    Of the natural eager forms this is the fastest: the loss in one call, SGD(fused=True), no item() in the loop."""
    torch.manual_seed(1)
    x = torch.rand(50, 2, device=device)
    y = ((x[:, 0] < 0.2) | (x[:, 0] > 0.8)).float()
    net = nn.Sequential(perceptron(nn.ReLU, 2, 100, 100, 1), nn.Sigmoid(), nn.Flatten(0)).to(device)
    for layer in net[0][::2]:
        nn.init.uniform_(layer.weight, -0.5, 0.5)
        nn.init.constant_(layer.bias, 0.1)
    optimizer, seconds = SGD(net.parameters(), lr=0.05, fused=True), []
    for _ in range(epochs):
        began = time.perf_counter()
        order = torch.randperm(50, device=device)
        for xb, yb in zip(x[order].split(10), y[order].split(10)):
            optimizer.zero_grad()
            F.binary_cross_entropy(net(xb), yb).backward()
            optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds


NETWORKS = {
    "resnet18": of_images(lambda side: vision("resnet18", num_classes=10)),
    "resnet18_cifar": of_images(lambda side: resnet18_cifar()),
    "mobilenetv2": of_images(lambda side: vision("mobilenet_v2", num_classes=10)),
    "vit_tiny": of_images(vit_tiny, (ADAMW, dict(lr=1e-3))),
    "unet": unet, "gpt2": gpt2, "llama": llama, "lstm_lm": lstm_lm, "mlp": mlp, "dlrm": dlrm, "gnn": gnn,
    "pinn": pinn, "vae": vae, "dqn": dqn, "step_split": step_split, "step_mlp": step_mlp, "step_cnn": step_cnn,
    "step_lstm": lambda: recurrent(nn.LSTM), "step_gru": lambda: recurrent(nn.GRU),
    "step_transformer": step_transformer,
}  # fmt: skip


# ---- steps ----


def training(n, half):
    parameters, forward = list(n.net.parameters()), getattr(n, "forward", n.net)
    kind, options = n.optimizer
    opt = kind(parameters, **options, fused=on_gpu())
    clip, after = getattr(n, "clip", None), getattr(n, "after", lambda: None)
    loss_of = getattr(n, "loss_of", lambda x, y: n.loss(forward(x), y))
    whole = () if hasattr(n, "loss_of") else (n.x, n.y)

    def update(*batch):
        opt.zero_grad()
        if half:
            with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
                loss = loss_of(*batch)
        else:
            loss = loss_of(*batch)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        opt.step()
        after()
        return loss

    def epoch():
        for first in range(0, len(n.x), n.batch):
            update(*(part[first : first + n.batch] for part in whole))

    return epoch if hasattr(n, "batch") else lambda: update(*whole)


def inference(n, half):
    n.net.eval()
    x, forward = n.x, getattr(n, "forward", n.net)
    if half:
        n.net.to(torch.bfloat16)
        x = x.bfloat16() if x.dtype == torch.float32 else x

    def step():
        with torch.no_grad():
            return forward(x)

    return step


def make(name, mode, *sizes):
    """Returns a function without parameters, a step of the network; mode is train or infer, and perhaps _bf16."""
    return (training if mode.startswith("train") else inference)(NETWORKS[name](*sizes), "bf16" in mode)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    if sys.argv[1] == "train_split":
        print(f"ms_per_epoch={statistics.median(train_split(int(sys.argv[2]), sys.argv[4])[1:]) * 1e3:.4f}")
        sys.exit()
    call = make(sys.argv[1], "train", *map(int, sys.argv[2].split(",")))
    began = time.perf_counter()
    call()
    first = time.perf_counter() - began
    call(), call()
    with open("/proc/self/status") as status:  # getrusage would count the memory of the process that started this one
        peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])
    print(f"first_ms={first * 1e3:.6f} peak_mib={peak / 1024:.1f}")
