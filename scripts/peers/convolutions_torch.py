# convolutions_torch.py -- the rows of bench_convolutions.lua in PyTorch
import torch
from torch.nn import functional as F

SHAPES = (
    (1, 1, 1000, 2000, 1), (64, 1, 28, 28, 16), (64, 16, 14, 14, 32), (32, 64, 56, 56, 64),
    (16, 128, 28, 28, 128),
)  # fmt: skip


def gradient(bench, name, y, x):
    g = torch.randn_like(y)
    bench.row(name, lambda: torch.autograd.grad(y, x, g, retain_graph=True))


def measure(bench):
    for *s, outputs in SHAPES:
        label = "x".join(map(str, s)) + f"_{outputs}"
        if not any(bench.wants(f"conv_{part}/{label}") for part in ("forward", "data", "weights")):
            continue
        x, w = torch.randn(1 if bench.quick else s[0], *s[1:]), torch.randn(outputs, s[1], 3, 3)
        bench.row(f"conv_forward/{label}", lambda: F.conv2d(x, w, padding=1))
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        gradient(bench, f"conv_data/{label}", F.conv2d(a, w, padding=1), a)
        gradient(bench, f"conv_weights/{label}", F.conv2d(x, b, padding=1), b)
    for s in ((64, 16, 28, 28), (32, 64, 56, 56)):
        label = "x".join(map(str, s))
        for name, pool in (("max_pool", F.max_pool2d), ("avg_pool", F.avg_pool2d)):
            if bench.wants(f"{name}/{label}") or bench.wants(f"{name}_back/{label}"):
                x = torch.randn(1 if bench.quick else s[0], *s[1:])
                bench.row(f"{name}/{label}", lambda: pool(x, 2))
                a = x.clone().requires_grad_()
                gradient(bench, f"{name}_back/{label}", pool(a, 2), a)
