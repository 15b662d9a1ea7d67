# bench_torch.py -- PyTorch's times for the rows of scripts/bench.lua: name<TAB>microseconds, one core unless --threads
"""Rows: <op>/<size> with sizes 4, 1Ki, 1Mi (1-D, float32, values in 0.5..1.5), reductions of a
1024 x 1024 matrix over its rows' elements (_rows, the last dimension) or columns' (_cols, the
first), matmul/MxKxN, views_<kind>/<n>, chain/4, split_epoch/100, startup. Forward only, except for
views and the last three.
With --device=cuda the tensors are there, and the rows are more: see bench.lua.
"""
import statistics
import sys

sys.dont_write_bytecode = True
import torch
import torch.nn.functional as F

import convolutions_torch
import data_torch
import functions_torch
import networks_torch
import split_torch
from timing import MATMULS, SIZES, Bench, factors, options

UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "exp2": torch.exp2,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "selu": torch.selu,
    "celu": torch.celu,
    "mish": F.mish,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "logsigmoid": F.logsigmoid,
    "isnan": torch.isnan,
    "logical_not": torch.logical_not,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "sinc": torch.sinc,
    "tanhshrink": F.tanhshrink,
    "entr": torch.special.entr,
    "i0": torch.i0,
    "i1": torch.special.i1,
    "ndtr": torch.special.ndtr,
    "erfcx": torch.special.erfcx,
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "xlogy": torch.xlogy,
    "logaddexp": torch.logaddexp,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "xlog1py": torch.special.xlog1py,
    "zeta": torch.special.zeta,
    "igamma": torch.igamma,
    "igammac": torch.igammac,
}
REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.max,
    "min": torch.min,
    "prod": torch.prod,
    "argmax": torch.argmax,
}


def safe(*shape):
    return torch.rand(*shape) + 0.5


def elementwise(bench):
    for size, n in SIZES.items():
        x, y, mask = safe(n), safe(n), torch.rand(n) < 0.5
        for name, f in UNARY.items():
            bench.row(f"{name}/{size}", lambda: f(x))
        for name, f in BINARY.items():
            bench.row(f"{name}/{size}", lambda: f(x, y))
        bench.row(f"where/{size}", lambda: torch.where(mask, x, y))
        bench.row(f"lerp/{size}", lambda: torch.lerp(x, y, 0.3))
        bench.row(f"clamp/{size}", lambda: torch.clamp(x, 0.7, 1.2))


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
    line = safe(1024 * 1024)
    for name in ("var", "norm", "median", "sort"):
        f = getattr(torch, name)
        bench.row(f"{name}/1Mi", lambda: f(line))
    for name in ("logsumexp", "cumsum", "cumprod"):
        f = getattr(torch, name)
        bench.row(f"{name}/1Mi", lambda: f(line, 0))
    names = "prod amax var logsumexp cumsum cumprod cummax sort median softmax log_softmax"
    for name in names.split():
        f = getattr(torch, name)
        bench.row(f"{name}_cols/1Mi", lambda: f(x, 0))
        bench.row(f"{name}_rows/1Mi", lambda: f(x, 1))
    bench.row("topk/1Mi", lambda: torch.topk(line, 100))
    bench.row("topk_rows/1Mi", lambda: torch.topk(x, 10, 1))


def movement(bench):
    n = 1024
    x, row, column = safe(n, n), safe(n), safe(n, 1)
    index = torch.randint(n, (n, n))
    top, bottom = safe(n // 2, n), safe(n // 2, n)
    bench.row("softmax/1Mi", lambda: torch.softmax(x, 1))
    bench.row("copy_t/1Mi", lambda: x.t().contiguous())
    bench.row("add_row/1Mi", lambda: x + row)
    bench.row("add_col/1Mi", lambda: x + column)
    bench.row("gather/1Mi", lambda: torch.gather(x, 1, index))
    zeros, which, mask = torch.zeros(n, n), torch.randint(n, (n,)), torch.rand(n, n) < 0.5
    few, weight, bias = torch.randint(1, n + 1, (n * n,)), safe(n), safe(n)
    bench.row("scatter_add/1Mi", lambda: torch.scatter_add(zeros, 1, index, x))
    bench.row("index_select/1Mi", lambda: torch.index_select(x, 0, which))
    bench.row("index_add/1Mi", lambda: torch.index_add(zeros, 0, which, x))
    bench.row("masked_select/1Mi", lambda: torch.masked_select(x, mask))
    bench.row("bincount/1Mi", lambda: torch.bincount(few))
    bench.row("layer_norm/1Mi", lambda: F.layer_norm(x, (n,), weight, bias))
    images, channels = safe(16, 64, 32, 32), [safe(64) for _ in range(4)]
    bench.row("batch_norm/1Mi", lambda: F.batch_norm(images, *channels, training=True))
    bench.row("batch_norm_eval/1Mi", lambda: F.batch_norm(images, *channels))
    bench.row("cat/1Mi", lambda: torch.cat((top, bottom)))
    bench.row("rand/1Mi", lambda: torch.rand(n * n))
    bench.row("randn/1Mi", lambda: torch.randn(n * n))


def products(bench):
    for name in MATMULS:
        a, b = factors(name, safe)
        bench.row(f"matmul/{name}", lambda: torch.matmul(a, b))


def optimizers(bench):
    """A step of every optimizer that has no closure, of one parameter and of six small ones."""
    for size, shapes in (("4", (4, 64, 8, 64, 16, 4)), ("64Ki", (65536,))):
        parameters = [safe(n).requires_grad_() for n in shapes]
        for p in parameters:
            p.grad = torch.rand_like(p) * 2 - 1
        for name, kind in vars(torch.optim).items():
            if isinstance(kind, type) and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon"):
                bench.row(f"{name}/{size}", kind(parameters, lr=1e-6).step)


def gpu(bench):
    x, y, a, b = safe(4), safe(4), safe(10, 10), safe(10, 10)
    bench.launch("launch/add", lambda: x + y)
    bench.launch("launch/relu", lambda: torch.relu(x))
    bench.launch("launch/sum", lambda: torch.sum(x))
    bench.launch("launch/matmul", lambda: torch.matmul(a, b))
    n = 2**16 if bench.quick else 2**26
    x, y, z = safe(n), safe(n), torch.empty(n)
    bench.row("device_copy/64Mi", lambda: z.copy_(x))
    bench.row("clone/64Mi", lambda: x.clone())
    bench.row("add/64Mi", lambda: x + y)
    for name, f in (("relu", torch.relu), ("exp", torch.exp), ("gelu", F.gelu), ("sum", torch.sum)):
        bench.row(f"{name}/64Mi", lambda: f(x))
    side = int(n**0.5)
    square, row = x.view(side, side), safe(side)
    bench.row("add_row/64Mi", lambda: square + row)
    channels, channel = x.view(side // 8, 8, side), safe(8, 1)
    bench.row("add_channel/64Mi", lambda: channels + channel)
    half = x.half()
    bench.row("to_half/64Mi", lambda: x.half())
    bench.row("from_half/64Mi", lambda: half.float())
    bench.row("cumsum/64Mi", lambda: torch.cumsum(x, 0))
    bench.row("sort/64Mi", lambda: torch.sort(x))
    bench.row("topk/64Mi", lambda: torch.topk(x, 100))
    lines, weight, bias = x.view(-1, 1024), safe(1024), safe(1024)
    bench.row("softmax/64Mi", lambda: torch.softmax(lines, 1))
    bench.row("layer_norm/64Mi", lambda: F.layer_norm(lines, (1024,), weight, bias))
    images, weight, bias = x.view(-1, 64, 16, 16), safe(64), safe(64)
    bench.row(
        "batch_norm/64Mi", lambda: F.batch_norm(images, None, None, weight, bias, training=True)
    )
    del square, row, channels, channel, half, lines, images
    host = torch.rand(n, device="cpu")
    bench.row("upload/64Mi", lambda: host.to(x.device))
    bench.row("download/64Mi", lambda: x.cpu())
    del x, y, z, host
    for n in () if bench.quick else (2048, 4096, 8192):
        if bench.wants(f"matmul/{n}x{n}x{n}"):
            a, b = safe(n, n), safe(n, n)
            bench.row(f"matmul/{n}x{n}x{n}", lambda: torch.matmul(a, b))
            c, d = a.bfloat16(), b.bfloat16()
            bench.row(f"matmul_bf16/{n}x{n}x{n}", lambda: torch.matmul(c, d))
    batch = 2 if bench.quick else 256
    a, b = safe(batch, 128, 64), safe(batch, 64, 128)
    bench.row("bmm/256x128x64", lambda: torch.bmm(a, b))
    a, b = safe(500 if bench.quick else 50000, 784), safe(784, 10)
    bench.row("matmul_back/50000x784x10", lambda: torch.matmul(a, b).cpu())
    image, weight = safe(1, 1, 10 if bench.quick else 1000, 2000), safe(1, 1, 3, 3)
    bench.row("conv2d/1000x2000", lambda: F.conv2d(image, weight, padding=1))


def networks(bench):
    """Layers of ResNet-50, an embedding, attention, and whole steps; float32 as it says, no TF32."""
    torch.backends.cudnn.allow_tf32 = False
    n = 1 if bench.quick else 32
    for name, inputs, k in (("conv1x1/256x64x56", 256, 1), ("conv3x3/64x64x56", 64, 3)):
        x, w = safe(n, inputs, 56, 56), safe(64, inputs, k, k)
        bench.row(f"net_{name}", lambda: F.conv2d(x, w, padding=k // 2))
    x, w = safe(n, 64, 56, 56).requires_grad_(), safe(64, 64, 3, 3).requires_grad_()

    def train():
        x.grad = w.grad = None
        with torch.enable_grad():
            F.conv2d(x, w, padding=1).sum().backward()

    bench.row("net_conv3x3_train/64x64x56", train)
    rows = 300 if bench.quick else 30000
    table = safe(rows, 512).requires_grad_()
    at = torch.randint(rows, (256 if bench.quick else 16384,))

    def embed():
        table.grad = None
        with torch.enable_grad():
            F.embedding(at, table).sum().backward()

    bench.row("net_embedding_back/30000x512", embed)
    q, k, v = (safe(8, 8, 64 if bench.quick else 1024, 64) for _ in range(3))
    bench.row("net_attention/8x8x1024x64", lambda: F.scaled_dot_product_attention(q, k, v))
    parameters = [safe(2**16).requires_grad_() for _ in range(4 if bench.quick else 100)]
    for p in parameters:
        p.grad = safe(2**16)
    adam = torch.optim.Adam(parameters, lr=1e-3)
    bench.row("net_adam/100x64Ki", adam.step)


def chain(bench):
    x, y = safe(4).requires_grad_(), safe(4)

    def call():
        x.grad = None
        (x + y).relu().sum().backward()

    bench.row("chain/4", call)


VIEWS = {
    "select": lambda x, n: [x.view(n, 16, 512).select(0, i) for i in range(n)],
    "narrow": lambda x, n: [x.narrow(0, 16 * i, 16) for i in range(n)],
    "index": lambda x, n: [x.view(16, n, 512)[:, i] for i in range(n)],
    "unbind": lambda x, n: x.view(n, 16, 512).unbind(),
    "chunk": lambda x, n: x.chunk(n),
}


def views(bench):
    for kind, parts in VIEWS.items():
        for n in [16] if bench.quick else [16, 256, 4096]:
            if not bench.wants(f"views_{kind}/{n}"):
                continue
            if n == 4096 and kind not in ("unbind", "chunk"):  # a tensor of zeros for each: minutes
                continue
            x = safe(16 * n, 512).requires_grad_()

            def call():
                total = 0
                for i, part in enumerate(parts(x, n), 1):
                    total = total + part * (i / n)
                x.grad = None
                total.sum().backward()

            bench.row(f"views_{kind}/{n}", call)


def split(bench, device):
    if bench.wants("split_epoch/100"):
        seconds, _, _ = split_torch.train(epochs=50 if bench.quick else 500, device=device)
        bench.put("split_epoch/100", statistics.median(seconds[1:]))


def main():
    args = options(__doc__)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print(f"torch {torch.__version__}, {args.threads} threads", file=sys.stderr)
    bench = Bench(args)
    parts = [elementwise, reductions, movement, products, optimizers]
    if args.device != "cpu":
        torch.set_default_device(args.device)
        bench.wait = torch.cuda.synchronize
        parts += [gpu, networks]
    with torch.no_grad():
        for part in parts:
            part(bench)
    views(bench)
    if args.device == "cpu":
        functions_torch.measure_library(bench)
        functions_torch.measure(bench)
        convolutions_torch.measure(bench)
        data_torch.measure(bench)
    networks_torch.measure(bench)
    chain(bench)
    split(bench, args.device)
    bench.startup("import torch")


if __name__ == "__main__":
    main()
