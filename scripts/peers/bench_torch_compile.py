# bench_torch_compile.py -- torch.compile's times for the rows own_* of scripts/bench.lua: name<TAB>microseconds
"""The functions of scripts/bench_functions.lua, compiled by torch.compile (Inductor, g++)."""
import sys

sys.dont_write_bytecode = True
import torch

from functions_torch import measure
from timing import Bench, options


def main():
    args = options(__doc__)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print(f"torch.compile {torch.__version__}, {args.threads} threads", file=sys.stderr)
    measure(Bench(args), lambda f: torch.compile(f, dynamic=False))


if __name__ == "__main__":
    main()
