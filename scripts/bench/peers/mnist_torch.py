# mnist_torch.py -- repeats the steps of scripts/train_mnist.lua --record FILE in PyTorch and compares the losses
#
#   mtorch scripts/train_mnist.lua --data DIR --model lenet --epochs 1 --target 1 --record steps.safetensors
#   python3 scripts/bench/peers/mnist_torch.py lenet steps.safetensors
import json
import sys

import torch
from safetensors import safe_open
from torch import nn

TOLERANCE = 1e-4


def block(inputs, outputs, kernel):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=(kernel - 1) // 2, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))


def network(model):
    """The networks of train_mnist.lua, with dropout off."""
    if model == "module4":
        return nn.Sequential(nn.ZeroPad2d((0, 2, 0, 2)), nn.Conv2d(1, 4, 3), nn.ReLU(),
                             nn.ZeroPad2d((0, 2, 0, 2)), nn.Conv2d(4, 8, 3), nn.ReLU(),
                             nn.AvgPool2d(4), nn.Flatten(), nn.Linear(392, 64), nn.ReLU(), nn.Dropout(0.0),
                             nn.Linear(64, 10))
    if model == "lenet":
        return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(block(1, 24, 5), block(24, 48, 3), block(48, 96, 3), nn.Flatten(),
                         nn.Dropout(0.0), nn.Linear(96 * 9, 10))


def main():
    model, path = sys.argv[1:3]
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        plain = json.loads(file.metadata()["mtorch"])["value"]
    start = {name[len("start."):]: t for name, t in tensors.items() if name.startswith("start.")}
    x, y, wanted = tensors["x"], tensors["y"].long(), tensors["loss"]
    net = network(model).double()
    net.load_state_dict(start)
    sched, rate = None, plain["rate"]
    if model == "module4":
        opt = torch.optim.SGD(net.parameters(), lr=rate)
    elif model == "lenet":
        opt = torch.optim.Adam(net.parameters(), lr=rate)
    else:
        opt = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=rate, total_steps=plain["total_steps"], pct_start=0.2)
    worst = 0.0
    for k in range(len(wanted)):
        loss = nn.functional.cross_entropy(net(x[k]), y[k])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if sched:
            sched.step()
        worst = max(worst, abs(loss.item() - wanted[k].item()))
    print(f"{model}: {len(wanted)} steps, last loss {wanted[-1].item():.4f}, largest difference {worst:.2e}")
    sys.exit(0 if worst <= TOLERANCE else 1)


main()
