# memory_torch.py -- the program of scripts/bench/memory.lua in PyTorch: memory_torch.py COUNT
import re
import sys

import networks_torch
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
count = int(sys.argv[1])
x, y = torch.rand(count, 1, 28, 28), torch.randint(10, (count,))
net = networks_torch.cnn_network()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
    opt.zero_grad()
    F.cross_entropy(net(a), b).backward()
    opt.step()
with open("/proc/self/status") as status:  # getrusage would count the memory of the process that started this one
    peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])
print(f"peak_mib={peak / 1024:.1f}")
