# bench_torch_compile.py -- torch.compile's times for the rows own_* and step_*_compiled of scripts/bench.lua
"""The functions and steps of scripts/bench_*.lua, compiled by torch.compile (Inductor, g++); name<TAB>microseconds."""
import sys

sys.dont_write_bytecode = True
import torch

import functions_torch
import networks_torch
from timing import Bench, options


def main():
    args = options(__doc__)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print(f"torch.compile {torch.__version__}, {args.threads} threads", file=sys.stderr)
    bench = Bench(args)
    functions_torch.measure(bench, lambda f: torch.compile(f, dynamic=False))
    networks_torch.measure(bench, "_compiled", torch.compile)


if __name__ == "__main__":
    main()
