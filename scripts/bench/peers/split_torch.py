# split_torch.py -- MiniTorch's training job (Module 3) in idiomatic PyTorch, the peer of scripts/train_split.lua
"""Three linear layers, plain SGD, minibatches of 10 reshuffled every epoch, 500 epochs.

The job is the one of minitorch/Module-3's project/run_fast_tensor.py: weights uniform in
(-0.5, 0.5), biases 0.1, prob = out*y + (out-1)*(y-1), loss = mean of -log(prob), which is
binary_cross_entropy where y is 0 or 1. Of the natural eager forms this is the fastest: the loss in
one call, SGD(fused=True), no item() in the loop.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

DATASETS = {
    "simple": lambda x: x[:, 0] < 0.5,
    "diag": lambda x: x.sum(1) < 0.5,
    "split": lambda x: (x[:, 0] < 0.2) | (x[:, 0] > 0.8),
    "xor": lambda x: (x[:, 0] < 0.5) ^ (x[:, 1] < 0.5),
    "circle": lambda x: ((x - 0.5) ** 2).sum(1) > 0.1,
}


class Network(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layer1 = nn.Linear(2, hidden)
        self.layer2 = nn.Linear(hidden, hidden)
        self.layer3 = nn.Linear(hidden, 1)
        for layer in (self.layer1, self.layer2, self.layer3):
            nn.init.uniform_(layer.weight, -0.5, 0.5)
            nn.init.constant_(layer.bias, 0.1)

    def forward(self, x):
        h = torch.relu(self.layer1(x))
        h = torch.relu(self.layer2(h))
        return torch.sigmoid(self.layer3(h)).view(-1)


def train(dataset="split", hidden=100, rate=0.05, epochs=500, seed=1, pts=50, batch=10, device="cpu"):
    """Trains; returns (seconds of every epoch, correct, mean loss over all points)."""
    torch.manual_seed(seed)
    x = torch.rand(pts, 2, device=device)
    y = DATASETS[dataset](x).float()
    net = Network(hidden).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, fused=True)
    seconds = []
    for _ in range(epochs):
        began = time.perf_counter()
        order = torch.randperm(pts, device=device)
        for xb, yb in zip(x[order].split(batch), y[order].split(batch)):
            optimizer.zero_grad()
            F.binary_cross_entropy(net(xb), yb).backward()
            optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    with torch.no_grad():
        out = net(x)
        correct = ((out > 0.5) == (y > 0.5)).sum().item()
        loss = F.binary_cross_entropy(out, y).item()
    return seconds, correct, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="split", choices=sorted(DATASETS))
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pts", type=int, default=50)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    began = time.perf_counter()
    seconds, correct, loss = train(a.dataset, a.hidden, a.rate, a.epochs, a.seed, a.pts, a.batch, a.device)
    total = time.perf_counter() - began
    typical = statistics.median(seconds[1:] or seconds)
    print(
        f"final: dataset={a.dataset} hidden={a.hidden} rate={a.rate:g} epochs={a.epochs} "
        f"seed={a.seed} device={a.device} threads={a.threads} correct={correct}/{a.pts} loss={loss:.4f} "
        f"ms_per_epoch={typical * 1e3:.4f} first_epoch_ms={seconds[0] * 1e3:.1f} "
        f"total_s={total:.2f}"
    )


if __name__ == "__main__":
    main()
