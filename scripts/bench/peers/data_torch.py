# data_torch.py -- the rows of scripts/bench/loaders.lua in PyTorch: batches of rows and of image files
import pathlib
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset


def batches(loader):
    it = iter(loader)

    def step():
        nonlocal it
        if next(it, None) is None:
            it = iter(loader)
            next(it)

    return step


def row_batches():
    rows = TensorDataset(torch.rand(8192, 784), torch.randint(10, (8192,)))
    return batches(DataLoader(rows, batch_size=64, shuffle=True, drop_last=True))


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
