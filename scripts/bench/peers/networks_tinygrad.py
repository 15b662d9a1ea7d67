# networks_tinygrad.py -- two of the steps of scripts/bench/networks.lua in tinygrad, each through TinyJit
import numpy as np
from tinygrad import Context, Tensor, TinyJit, nn

random = np.random.RandomState(1)


def u(*shape):
    return Tensor((random.rand(*shape) - 0.5).astype("f") * 0.2).realize()


def parameters(*shapes):
    list_ = [u(*shape) for shape in shapes]
    for p in list_:
        p.requires_grad = True
    return list_


def split(hidden):
    p = parameters((2, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 1), (1,))
    opt = nn.optim.SGD(p, lr=0.05)
    batches = [(u(10, 2), Tensor(random.randint(0, 2, 10).astype("f")).realize()) for _ in range(5)]

    @TinyJit
    def step(x, y):
        with Context(TRAINING=1):
            opt.zero_grad()
            h = ((x @ p[0] + p[1]).relu() @ p[2] + p[3]).relu()
            out = (h @ p[4] + p[5]).reshape(-1).sigmoid()
            loss = -(y * out.log() + (1 - y) * (1 - out).log()).mean()
            loss.backward()
            opt.step()
            return loss.realize()

    def epoch():
        for x, y in batches:
            loss = step(x, y)
        return loss.item()

    return epoch


def mlp():
    p = parameters((784, 128), (128,), (128, 10), (10,))
    opt = nn.optim.SGD(p, lr=0.05)
    x, y = u(64, 784), Tensor(random.randint(0, 10, 64).astype("i")).realize()

    @TinyJit
    def step(x, y):
        with Context(TRAINING=1):
            opt.zero_grad()
            loss = ((x @ p[0] + p[1]).relu() @ p[2] + p[3]).sparse_categorical_crossentropy(y)
            loss.backward()
            opt.step()
            return loss.realize()

    return lambda: step(x, y).item()
