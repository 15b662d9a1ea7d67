# data_torch.py -- the rows of scripts/bench/loaders.lua in PyTorch: loaders and an epoch of a perceptron
import pathlib
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def batches(loader):
    it = iter(loader)

    def step():
        nonlocal it
        if next(it, None) is None:
            it = iter(loader)
            next(it)

    return step


def rows():
    return TensorDataset(torch.rand(8192, 784), torch.randint(10, (8192,)))


def row_batches():
    return batches(DataLoader(rows(), batch_size=64, shuffle=True, drop_last=True))


def picture_batches():
    from torchvision.datasets import ImageFolder
    from torchvision.io import write_png
    from torchvision.transforms import ToTensor

    root = tempfile.TemporaryDirectory()
    folder = pathlib.Path(root.name) / "a"
    folder.mkdir()
    for i in range(1024):
        write_png(torch.randint(256, (1, 28, 28), dtype=torch.uint8), str(folder / f"{i}.png"))
    images = ImageFolder(root.name, ToTensor())
    images.root_folder = root  # keeps the folder alive
    return batches(
        DataLoader(images, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
    )


def perceptron_epoch():
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(rows(), batch_size=64, shuffle=True)

    def epoch():
        for x, y in loader:
            sgd.zero_grad()
            F.cross_entropy(net(x), y).backward()
            sgd.step()

    return epoch
