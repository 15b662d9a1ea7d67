# bench_numpy.py -- NumPy's times for those rows of scripts/bench.lua that NumPy has: name<TAB>microseconds
"""The rows are those of bench_torch.py; what NumPy does not have as one call is left out."""
import os
import sys

sys.dont_write_bytecode = True
from timing import MATMULS, SIZES, Bench, factors, options

args = options(__doc__)
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(args.threads)  # read once, by the import
import numpy as np

UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "logical_not": np.logical_not,
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
}
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "argmax": np.argmax,
}
generator = np.random.default_rng(1)


def safe(*shape):
    return generator.random(shape, dtype=np.float32) + np.float32(0.5)


def elementwise(bench):
    for size, n in SIZES.items():
        x, y, mask = safe(n), safe(n), generator.random(n) < 0.5
        for name, f in UNARY.items():
            bench.row(f"{name}/{size}", lambda: f(x))
        for name, f in BINARY.items():
            bench.row(f"{name}/{size}", lambda: f(x, y))
        bench.row(f"where/{size}", lambda: np.where(mask, x, y))
        bench.row(f"clamp/{size}", lambda: np.clip(x, 0.7, 1.2))


def reductions(bench):
    for size, n in SIZES.items():
        x = safe(n)
        for name, f in REDUCTIONS.items():
            bench.row(f"{name}/{size}", lambda: f(x))
    x = safe(1024, 1024)
    for name in ("sum", "max", "argmax"):
        f = REDUCTIONS[name]
        bench.row(f"{name}_rows/1Mi", lambda: f(x, 1))
        bench.row(f"{name}_cols/1Mi", lambda: f(x, 0))


def movement(bench):
    n = 1024
    x, row, column = safe(n, n), safe(n), safe(n, 1)
    index = generator.integers(n, size=(n, n))
    top, bottom = safe(n // 2, n), safe(n // 2, n)
    bench.row("copy_t/1Mi", lambda: np.ascontiguousarray(x.T))
    bench.row("add_row/1Mi", lambda: x + row)
    bench.row("add_col/1Mi", lambda: x + column)
    bench.row("gather/1Mi", lambda: np.take_along_axis(x, index, 1))
    bench.row("cat/1Mi", lambda: np.concatenate((top, bottom)))
    bench.row("rand/1Mi", lambda: generator.random(n * n, dtype=np.float32))
    bench.row("randn/1Mi", lambda: generator.standard_normal(n * n, dtype=np.float32))


def products(bench):
    for name in MATMULS:
        a, b = factors(name, safe)
        bench.row(f"matmul/{name}", lambda: np.matmul(a, b))


def main():
    print(f"numpy {np.__version__}, {args.threads} threads", file=sys.stderr)
    bench = Bench(args)
    for part in (elementwise, reductions, movement, products):
        part(bench)
    bench.startup("import numpy")


if __name__ == "__main__":
    main()
