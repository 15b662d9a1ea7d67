# timing.py -- how the peers' benchmarks take a time, choose their rows and print them
import argparse
import itertools
import re
import statistics
import subprocess
import sys
import time

SIZES = {"4": 4, "1Ki": 1024, "1Mi": 1024 * 1024}
MATMULS = (
    "10x2x100 10x100x100 10x100x1 32x32x32 64x64x64 128x128x128 256x256x256 512x512x512 "
    "1024x1024x1024 1x1024x1024 5x784x10 50000x784x10 64x784x128 "
    "nt_10x100x100 tn_10x100x100 tt_10x100x100 nt_64x784x128 tn_64x784x128 tt_64x784x128 "
    "nt_128x128x128 tn_128x128x128 tt_128x128x128 nt_512x512x512 tn_512x512x512 tt_512x512x512 "
    "nt_1024x1024x1024 tn_1024x1024x1024 tt_1024x1024x1024 "
    "nt_1x1024x1024 nt_50000x784x10 tn_784x50000x10"
).split()


def factors(name, safe):
    """The operands of matmul/NAME: of tn_ and tt_ the first is stored transposed, of nt_ and tt_ the second."""
    layout = name.split("_")[0] if "_" in name else "nn"
    m, k, n = map(int, name.split("_")[-1].split("x"))
    a = safe(k, m).T if layout[0] == "t" else safe(m, k)
    return a, safe(n, k).T if layout[1] == "t" else safe(k, n)


def options(purpose):
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    parser.add_argument("--device", default="cpu", help="where tensors are made")
    parser.add_argument("--quick", action="store_true", help="shorter, rougher runs")
    return parser.parse_args()


class Bench:
    """Prints rows `name<TAB>microseconds` as they are measured."""

    def __init__(self, args):
        self.only = re.compile(args.only)
        self.runs, self.least = (3, 1e-3) if args.quick else (7, 5e-3)
        self.quick = args.quick
        self.wait = lambda: None  # until the device has done what it was asked

    def wants(self, name):
        return self.only.search(name) is not None

    def row(self, name, call):
        """Measures one call: the median of runs that each last `least` seconds, after a warm-up."""
        if not self.wants(name):
            return
        self.run(call, 1)
        loops = 1
        while (taken := self.run(call, loops)) < self.least:
            loops = max(2 * loops, int(1.2 * loops * self.least / taken))
            loops = min(loops, 10_000_000)
        self.put(name, statistics.median(self.run(call, loops) / loops for _ in range(self.runs)))

    def run(self, call, loops):
        """The seconds that `loops` calls take, with what the device does for them."""
        turns = itertools.repeat(None, loops)
        self.wait()
        began = time.perf_counter()
        for _ in turns:
            call()
        self.wait()
        return time.perf_counter() - began

    def launch(self, name, call, loops=200):
        """Measures what a call costs the host while the device is far from done."""
        if not self.wants(name):
            return
        times = []
        for _ in range(10):
            self.wait()
            began = time.perf_counter()
            for _ in range(loops):
                call()
            times.append((time.perf_counter() - began) / loops)
        self.wait()
        self.put(name, statistics.median(times))

    def put(self, name, seconds):
        print(f"{name}\t{seconds * 1e6:.3f}", flush=True)

    def startup(self, code):
        """Measures a whole process of this Python that runs `code`."""
        if not self.wants("startup"):
            return
        command = [sys.executable, "-c", code]
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - began)
        self.put("startup", statistics.median(times))

