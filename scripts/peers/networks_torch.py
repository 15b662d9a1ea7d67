# networks_torch.py -- the rows of bench_networks.lua in PyTorch: training steps of whole networks
import torch
from torch import nn
from torch.nn import functional as F


def recurrent_step(kind):
    layer, head = kind(64, 128, batch_first=True), nn.Linear(128, 10)
    sgd = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    x, y = torch.randn(32, 50, 64), torch.randint(10, (32,))

    def step():
        sgd.zero_grad()
        out, _ = layer(x)
        F.cross_entropy(head(out[:, -1]), y).backward()
        sgd.step()

    return step


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


def transformer_step():
    net = Gpt(65, 64, 128)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    x, y = torch.randint(65, (16, 64)), torch.randint(65, (16 * 64,))

    def step():
        adam.zero_grad()
        F.cross_entropy(net(x).flatten(0, 1), y).backward()
        adam.step()

    return step


def measure(bench):
    for name, prepare in (
        ("step_lstm/32x50x128", lambda: recurrent_step(nn.LSTM)),
        ("step_gru/32x50x128", lambda: recurrent_step(nn.GRU)),
        ("step_transformer/16x64x128", transformer_step),
    ):
        if bench.wants(name):
            bench.row(name, prepare())
