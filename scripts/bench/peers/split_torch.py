# split_torch.py -- MiniTorch's training job (Module 3) in idiomatic PyTorch: split_torch.py EPOCHS THREADS DEVICE
"""The peer of scripts/train_split.lua: three linear layers, plain SGD, minibatches of 10 reshuffled every epoch.

The job is the one of minitorch/Module-3's project/run_fast_tensor.py: weights uniform in
(-0.5, 0.5), biases 0.1, prob = out*y + (out-1)*(y-1), loss = mean of -log(prob), which is
binary_cross_entropy where y is 0 or 1. Of the natural eager forms this is the fastest: the loss in
one call, SGD(fused=True), no item() in the loop.
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, POINTS, BATCH = 100, 50, 10


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(2, HIDDEN)
        self.layer2 = nn.Linear(HIDDEN, HIDDEN)
        self.layer3 = nn.Linear(HIDDEN, 1)
        for layer in (self.layer1, self.layer2, self.layer3):
            nn.init.uniform_(layer.weight, -0.5, 0.5)
            nn.init.constant_(layer.bias, 0.1)

    def forward(self, x):
        h = torch.relu(self.layer1(x))
        h = torch.relu(self.layer2(h))
        return torch.sigmoid(self.layer3(h)).view(-1)


def train(epochs, device):
    """Returns the seconds of every epoch."""
    torch.manual_seed(1)
    x = torch.rand(POINTS, 2, device=device)
    y = ((x[:, 0] < 0.2) | (x[:, 0] > 0.8)).float()
    net = Network().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, fused=True)
    seconds = []
    for _ in range(epochs):
        began = time.perf_counter()
        order = torch.randperm(POINTS, device=device)
        for xb, yb in zip(x[order].split(BATCH), y[order].split(BATCH)):
            optimizer.zero_grad()
            F.binary_cross_entropy(net(xb), yb).backward()
            optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    print(f"ms_per_epoch={statistics.median(train(int(sys.argv[1]), sys.argv[3])[1:]) * 1e3:.4f}")
