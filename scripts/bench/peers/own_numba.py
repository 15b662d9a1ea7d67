# own_numba.py -- the pointwise functions of scripts/bench/functions.lua as loops in Numba
"""njit(parallel=True, error_model="numpy"), float32; Numba has no gradients."""
import math

import numpy as np
from numba import njit, prange

f4 = np.float32
HALF, ONE, THREE, C1, C2 = f4(0.5), f4(1), f4(1.5), f4(0.7978845608), f4(0.044715)
A, ZERO = f4(2.5), f4(0)
compiled = njit(parallel=True, error_model="numpy")


@compiled
def gelu(out, x):
    for i in prange(x.size):
        v = x[i]
        out[i] = HALF * v * (ONE + math.tanh(C1 * (v + C2 * v * v * v)))


@compiled
def axb_relu_mul(out, x, y):
    for i in prange(x.size):
        out[i] = max(A * x[i] + THREE, ZERO) * y[i]


@compiled
def swish(out, x):
    for i in prange(x.size):
        out[i] = x[i] / (ONE + math.exp(-x[i]))


@compiled
def swish_mul_add(out, x, y, z):
    for i in prange(x.size):
        out[i] = x[i] / (ONE + math.exp(-x[i])) * y[i] + z[i]


@compiled
def triad(out, x, y):
    for i in prange(x.size):
        out[i] = x[i] + A * y[i]


@compiled
def exp_sin(out, x):
    for i in prange(x.size):
        v = x[i]
        out[i] = math.exp(-v * v) * math.sin(v) + HALF * v
