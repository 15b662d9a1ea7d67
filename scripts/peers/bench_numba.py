# bench_numba.py -- Numba's times for the rows own_* of scripts/bench.lua: name<TAB>microseconds
"""The pointwise functions of scripts/bench_functions.lua as njit(parallel=True, error_model="numpy") loops
of float32; Numba has no gradients."""
import math
import sys

sys.dont_write_bytecode = True
import numba
import numpy as np
from numba import njit, prange

from timing import Bench, options

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
def exp_sin(out, x):
    for i in prange(x.size):
        v = x[i]
        out[i] = math.exp(-v * v) * math.sin(v) + HALF * v


def main():
    args = options(__doc__)
    numba.set_num_threads(args.threads)
    print(f"numba {numba.__version__}, {args.threads} threads", file=sys.stderr)
    bench = Bench(args)
    random = np.random.default_rng(1)
    for f, inputs in {gelu: 1, axb_relu_mul: 2, swish: 1, exp_sin: 1}.items():
        for label, n in {"4": 4, "16Ki": 16384, "1Mi": 1048576}.items():
            name = f"own_{f.py_func.__name__}/{label}"
            if (bench.quick and n > 20000) or not bench.wants(name):
                continue
            arrays = [random.standard_normal(n, dtype=np.float32) for _ in range(inputs)]
            bench.row(name, lambda: f(np.empty_like(arrays[0]), *arrays))


if __name__ == "__main__":
    main()
