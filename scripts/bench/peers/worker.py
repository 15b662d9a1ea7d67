# worker.py -- measures the rows that scripts/bench.lua sends, in a Python library (scripts/bench/contender.lua)
"""worker.py --name NAME --threads N --device cpu

NAME: torch torch_compile jax numpy numba.

A row is inputs (x=1024x1024 ..), setup (statements) and call (an expression or statements). torch_compile and JAX
compile the expression as a function of the inputs; calls of JAX wait for their results."""
import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True


class Library:
    """NumPy, and the base class of the other libraries."""

    def __init__(self, args):
        import numpy as np

        self.np, self.version = np, f"numpy {np.__version__}"
        self.generator = np.random.default_rng(1)
        self.names = {"np": np, "generator": self.generator, "process": process, "script": script, "size_of": size_of}
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        self.wait = lambda: None

    def array(self, values, leaf):
        return values

    def tensor(self, kind, shape):
        """Values of a kind, as scripts/bench/rows.lua lists them; positions count from 0."""
        np, g = self.np, self.generator
        leaf, base, first, second = re.fullmatch(r"(leaf)?([a-z]*)(-?[\d.]*),?(-?[\d.]*)", kind).groups()
        if base == "normal":
            values = g.standard_normal(shape, dtype=np.float32)
        elif base in ("index", "int"):
            values = g.integers(int(first) + (base == "int"), size=shape)
        elif base == "bool":
            values = g.random(shape) < 0.5
        elif base == "zeros":
            values = np.zeros(shape, np.float32)
        else:
            lo, hi = float(first or 0.5), float(second or 1.5)
            values = (g.random(shape, dtype=np.float32) * np.float32(hi - lo) + np.float32(lo)).astype(np.float32)
        return self.array(values, bool(leaf))

    def function(self, inputs, setup, call):
        space = dict(self.names, **inputs)
        exec(setup.replace("\\n", "\n"), space)
        return self.compiled(space, list(inputs), call, setup)

    def compiled(self, space, names, call, setup):
        return body(space, "", call)


def body(space, parameters, call):
    """Returns the function (parameters) -> call, where call is an expression or statements."""
    try:
        return eval(f"lambda {parameters}: ({call})", space)
    except SyntaxError:
        exec(f"def call({parameters}): {call}", space)
        return space["call"]


class Torch(Library):
    def __init__(self, args, compiles=False):
        super().__init__(args)
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no idle worker processes
        import torch
        import torch.nn.functional as F

        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        self.torch, self.compiles, self.device = torch, compiles, args.device
        self.version = f"{'torch.compile' if compiles else 'torch'} {torch.__version__}"
        made = (lambda f: torch.compile(f, dynamic=False)) if compiles else (lambda f: f)
        self.names.update(torch=torch, F=F, nn=torch.nn, made=made, device=args.device, launching=launching(self))
        if args.device != "cpu":
            torch.set_default_device(args.device)
            torch.backends.cudnn.allow_tf32 = False
            self.wait = torch.cuda.synchronize

    def array(self, values, leaf):
        return self.torch.tensor(values, device=self.device).requires_grad_(leaf)

    def function(self, inputs, setup, call):
        self.torch.set_grad_enabled(bool(setup) or any(x.requires_grad for x in inputs.values()))
        return super().function(inputs, setup, call)

    def compiled(self, space, names, call, setup):
        if not self.compiles or setup:
            return body(space, "", call)
        f = space["made"](body(space, ", ".join(names), call))
        values = [space[name] for name in names]
        return lambda: f(*values)


class Jax(Library):
    def __init__(self, args):
        if args.threads == 1:
            os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # its pool uses all cores of the process
        os.environ["JAX_PLATFORMS"] = "cpu"
        super().__init__(args)
        import jax
        import jax.numpy as jnp

        self.jax, self.version = jax, f"jax {jax.__version__}"
        self.names.update(jax=jax, jnp=jnp, lax=jax.lax)

    def array(self, values, leaf):
        return self.jax.numpy.asarray(values)

    def compiled(self, space, names, call, setup):
        if setup:  # setup compiles and waits
            return body(space, "", call)
        f = self.jax.jit(body(space, ", ".join(names), call))
        values, wait = [space[name] for name in names], self.jax.block_until_ready
        return lambda: wait(f(*values))


class Numba(Library):
    def __init__(self, args):
        super().__init__(args)
        import numba

        numba.set_num_threads(args.threads)
        self.version = f"numba {numba.__version__}"
        compiled = numba.njit(parallel=True, error_model="numpy")
        space = {"F": self.np.float32, "math": math, "prange": numba.prange}

        def loop(names, element):
            """Returns a function of an array for the results and arrays, float32, where element is that of index i."""
            exec(f"def f(out, {names}):\n for i in prange(out.size): out[i] = {element}", space)
            return compiled(space["f"])

        self.names["loop"] = loop


LIBRARIES = {
    "numpy": Library, "torch": Torch, "torch_compile": lambda args: Torch(args, True), "jax": Jax, "numba": Numba,
}  # fmt: skip


def process(*command):
    """Returns the microseconds of a process of this Python interpreter."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True)
    return (time.perf_counter() - began) * 1e6


def script(key, name, *words):
    """Runs a script of this folder; returns the number after `key=` in its output."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    done = subprocess.run([sys.executable, path, *map(str, words)], capture_output=True, text=True)
    found = re.search(key + r"=([\d.]+)", done.stdout)
    if not found:
        raise RuntimeError(f"{name}: {(done.stderr.strip().splitlines() or ['no ' + key])[-1]}")
    return float(found[1])


def size_of(*packages):
    """Returns the MiB of installed packages, with the libraries that wheels install beside them."""
    import importlib.util

    total = 0
    for package in packages:
        folder = os.path.dirname(importlib.util.find_spec(package).origin)
        for place in (folder, folder + ".libs"):
            for root, _, files in os.walk(place):
                total += sum(os.lstat(os.path.join(root, f)).st_size for f in files if "__pycache__" not in root)
    return total / 2**20


def launching(library):
    def measure(call, loops=200):
        """Returns the microseconds of a call on the host while the device is still busy."""
        times = []
        for _ in range(10):
            library.wait()
            began = time.perf_counter()
            for _ in range(loops):
                call()
            times.append((time.perf_counter() - began) / loops)
        library.wait()
        return statistics.median(times) * 1e6

    return measure


class Worker:
    """Answers requests; contender.lua describes them."""

    def __init__(self, library):
        self.library, self.call = library, None

    def tensors(self, inputs):
        made = {}
        for item in inputs.split():
            variable, text = item.split("=", 1)
            kind, _, shape = text.rpartition(":")
            made[variable] = self.library.tensor(kind, tuple(map(int, shape.split("x"))))
        return made

    def load(self, inputs, setup, call):
        self.call = body(dict(self.library.names, **self.tensors(inputs)), "", call)
        return "ready", 0

    def report(self):
        return "time", self.call()

    def prepare(self, inputs, setup, call):
        self.call = None
        self.call = self.library.function(self.tensors(inputs), setup, call)
        return "ready", self.run(1)[1]

    def run(self, loops):
        call = self.call
        self.library.wait()
        began = time.perf_counter()
        for _ in range(int(loops)):
            call()
        self.library.wait()
        return "time", time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", choices=sorted(LIBRARIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries goes to stderr
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = str(args.threads)  # read once by the import
    try:
        library = LIBRARIES[args.name](args)
    except ImportError as error:
        print(f"none\t{error} ({sys.executable}): pip install {args.name.split('_')[0]}", file=answers)
        return
    worker = Worker(library)
    print(f"hello\t{library.version}, {args.threads} thread{'s' * (args.threads > 1)}", file=answers)
    for line in sys.stdin:
        word, *fields = line.rstrip("\n").split("\t")
        try:
            answer = getattr(worker, word)(*fields)
            print(answer[0], f"{answer[1]:.9f}", sep="\t", file=answers)
        except Exception as error:
            print("none", " ".join(f"{type(error).__name__}: {error}".split())[:300], sep="\t", file=answers)


if __name__ == "__main__":
    main()
