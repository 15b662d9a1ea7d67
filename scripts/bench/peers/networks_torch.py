# networks_torch.py -- the steps of scripts/bench/networks.lua in PyTorch, by the same names
import torch
from torch import nn
from torch.nn import functional as F


def step_of(opt, loss_of):
    def step():
        opt.zero_grad()
        loss_of().backward()
        opt.step()

    return step


def sgd_step(net, loss_of, x, y):
    return step_of(torch.optim.SGD(net.parameters(), lr=0.05), lambda: loss_of(net(x), y))


def split(hidden):
    net = nn.Sequential(
        nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1),
        nn.Sigmoid(), nn.Flatten(0),
    )  # fmt: skip
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)
    x, y = torch.rand(50, 2), torch.randint(2, (50,)).float()

    def epoch():
        for first in range(0, 50, 10):
            sgd.zero_grad()
            F.binary_cross_entropy(net(x[first : first + 10]), y[first : first + 10]).backward()
            sgd.step()

    return epoch


def mlp():
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return sgd_step(net, F.cross_entropy, torch.randn(64, 784), torch.randint(10, (64,)))


def cnn_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip


def cnn():
    return sgd_step(cnn_network(), F.cross_entropy, torch.randn(64, 1, 28, 28), torch.randint(10, (64,)))


def recurrent(kind):
    layer, head = kind(64, 128, batch_first=True), nn.Linear(128, 10)
    sgd = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    x, y = torch.randn(32, 50, 64), torch.randint(10, (32,))
    return step_of(sgd, lambda: F.cross_entropy(head(layer(x)[0][:, -1]), y))


def lstm():
    return recurrent(nn.LSTM)


def gru():
    return recurrent(nn.GRU)


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, size):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, size), nn.Embedding(length, size)
        layer = nn.TransformerEncoderLayer(
            size, 4, 4 * size, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(
            layer, 2, nn.LayerNorm(size), enable_nested_tensor=False
        )
        self.head = nn.Linear(size, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        return self.head(
            self.blocks(self.token(x) + self.position.weight, mask=self.mask, is_causal=True)
        )


def transformer():
    net = Gpt(65, 64, 128)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    x, y = torch.randint(65, (16, 64)), torch.randint(65, (16 * 64,))
    return step_of(adam, lambda: F.cross_entropy(net(x).flatten(0, 1), y))
