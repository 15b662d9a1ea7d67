# functions_torch.py -- the functions of scripts/bench_functions.lua in PyTorch, and how they are measured
import torch
import torch.nn.functional as F


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def axb_relu_mul(x, y):
    return torch.relu(2.5 * x + 1.5) * y


def swish(x):
    return x * torch.sigmoid(x)


def exp_sin(x):
    return torch.exp(-x * x) * torch.sin(x) + 0.5 * x


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def layer_norm(x):
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt((d * d).mean(-1, keepdim=True) + 1e-5)


def rms_norm(x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)


POINTWISE = {gelu: 1, axb_relu_mul: 2, swish: 1, exp_sin: 1}
ROWS = (softmax, layer_norm, rms_norm)
LIBRARY = (
    "exp exp2 expm1 log log1p log2 log10 sin cos tan atan tanh erf erfc sigmoid silu gelu softplus "
    "logsigmoid mish elu rsqrt"
).split()
SIZES = {"4": 4, "16Ki": 16384, "1Mi": 1048576}


def measure(bench, made=lambda f: f):
    """Rows own_<name>/<size> and own_<name>_back/<size> of each function, as `made` makes it."""
    for f in (*POINTWISE, *ROWS):
        for label, n in SIZES.items():
            names = [f"own_{f.__name__}{way}/{label}" for way in ("", "_back")]
            if (bench.quick and n > 20000) or (f in ROWS and n < 16384):
                continue
            if not any(map(bench.wants, names)):
                continue
            shape = (n // 1024, 1024) if f in ROWS else (n,)
            inputs = [torch.randn(shape) for _ in range(POINTWISE.get(f, 1))]
            function = made(f)
            with torch.no_grad():
                bench.row(names[0], lambda: function(*inputs))
            if not bench.wants(names[1]):
                continue
            leaves = [x.requires_grad_() for x in inputs]
            y = function(*leaves)
            g = torch.randn_like(y)
            bench.row(names[1], lambda: torch.autograd.grad(y, leaves, g, retain_graph=True))


def measure_library(bench):
    """Rows <name>/64Ki, <name>_back/64Ki and <name>_back/1Mi of PyTorch's own functions."""
    for name in LIBRARY:
        f = getattr(torch, name, None) or getattr(F, name)
        for label, n in {"64Ki": 65536, "1Mi": 1048576}.items():
            x = torch.rand(n) + 0.5
            if label == "64Ki":
                with torch.no_grad():
                    bench.row(f"{name}/{label}", lambda: f(x))
            if not bench.wants(f"{name}_back/{label}"):
                continue
            y = f(x.requires_grad_())
            g = torch.randn_like(y)
            bench.row(f"{name}_back/{label}", lambda: torch.autograd.grad(y, x, g, retain_graph=True))
