# split_numba.py -- an epoch of split (scripts/bench/whole_networks.lua) as one loop nest in Numba, fastmath
import numba
import numpy as np

f4 = np.float32


@numba.njit(fastmath=True)
def run(x, y, w1, b1, w2, b2, w3, b3, t, h1, h2, g1, g2):
    points, batch, width, rate = x.shape[0], 10, b1.size, f4(0.05)
    out, zero, one = np.empty(batch, np.float32), f4(0), f4(1)
    for first in range(0, points, batch):
        for b in range(batch):
            x0, x1 = x[first + b, 0], x[first + b, 1]
            for j in range(width):
                h1[b, j] = max(b1[j] + x0 * w1[0, j] + x1 * w1[1, j], zero)
                h2[b, j] = b2[j]
            for k in range(width):
                a = h1[b, k]
                for j in range(width):
                    h2[b, j] += a * w2[k, j]
            o = b3[0]
            for j in range(width):
                h2[b, j] = max(h2[b, j], zero)
                o += h2[b, j] * w3[j]
            out[b] = (one / (one + np.exp(-o)) - y[first + b]) / f4(batch)
        for j in range(width):
            for k in range(width):
                t[j, k] = w2[k, j]
        for b in range(batch):
            for j in range(width):
                g2[b, j] = out[b] * w3[j] if h2[b, j] > zero else zero
                g1[b, j] = zero
            for j in range(width):
                a = g2[b, j]
                for k in range(width):
                    g1[b, k] += a * t[j, k]
            for k in range(width):
                g1[b, k] = g1[b, k] if h1[b, k] > zero else zero
        for b in range(batch):
            x0, x1 = x[first + b, 0], x[first + b, 1]
            b3[0] -= rate * out[b]
            for j in range(width):
                w3[j] -= rate * out[b] * h2[b, j]
                b2[j] -= rate * g2[b, j]
                b1[j] -= rate * g1[b, j]
                w1[0, j] -= rate * x0 * g1[b, j]
                w1[1, j] -= rate * x1 * g1[b, j]
        for k in range(width):
            for b in range(batch):
                a = rate * h1[b, k]
                for j in range(width):
                    w2[k, j] -= a * g2[b, j]


def split(width):
    random = np.random.RandomState(1)

    def u(*shape):
        return (random.rand(*shape) - 0.5).astype(f4) * f4(width**-0.5)

    x, y = random.rand(50, 2).astype(f4), random.randint(0, 2, 50).astype(f4)
    weights = (u(2, width), u(width), u(width, width), u(width), u(width), u(1))
    memory = (u(width, width), u(10, width), u(10, width), u(10, width), u(10, width))
    return lambda: run(x, y, *weights, *memory)
