# gdb.py -- gdb pretty-printers of mt::Tensor and mt::Shape
#
#   gdb -x scripts/tools/gdb.py --args build-sanitize/mtorch script.lua      or, in gdb: source scripts/tools/gdb.py
#
#   (gdb) print x
#   $1 = (2 x 3) float32 cpu [1 2 3 4 5 6]
#
# The program needs debug information (`cmake --preset asan`, or -DCMAKE_BUILD_TYPE=RelWithDebInfo). Elements on a
# GPU are not printed.
import struct

import gdb
import gdb.printing

MAX_SHOWN = 12  # elements shown
NAMES = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
         "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16",
         "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}
CODES = {"b8": "?", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
         "f32": "f", "f64": "d", "f16": "e", "bf16": "H", "f8_e4m3fn": "B", "f8_e5m2": "B"}


def shape_text(sizes):
    return "(" + " x ".join(str(n) for n in sizes) + ")"


def positions(sizes, strides):
    """Yields the offsets of the elements in row-major order."""
    if 0 in sizes:
        return
    at = [0] * len(sizes)
    while True:
        yield sum(i * s for i, s in zip(at, strides))
        d = len(sizes) - 1
        while d >= 0 and at[d] == sizes[d] - 1:
            at[d] = 0
            d -= 1
        if d < 0:
            return
        at[d] += 1


def element(kind, memory):
    value = struct.unpack("<" + CODES[kind], memory)[0]
    if kind == "f8_e5m2":  # the upper half of a float16
        value = struct.unpack("<e", struct.pack("<H", value << 8))[0]
    if kind == "f8_e4m3fn":  # 4 bits of exponent instead of 5, no infinity
        half = struct.unpack("<e", struct.pack("<H", (value & 0x80) << 8 | (value & 0x7f) << 7))[0]
        value = half * 256 if value & 0x7f != 0x7f else float("nan")
    if kind == "bf16":
        value = struct.unpack("<f", struct.pack("<I", value << 16))[0]
    return "%g" % value if isinstance(value, float) else str(value).lower()


class ShapePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return shape_text(int(self.value["v_"][i]) for i in range(int(self.value["n_"])))


class TensorPrinter:
    def __init__(self, value):
        self.impl = value["impl_"]["p_"]

    def to_string(self):
        if not self.impl:
            return "undefined"
        impl, kind = self.impl.dereference(), str(self.impl["dtype"]).rsplit(":", 1)[-1]
        rank = int(impl["ndim"])
        sizes = [int(impl["size"][d]) for d in range(rank)]
        text = "%s %s" % (shape_text(sizes), NAMES.get(kind, kind))
        storage = impl["storage"]
        if not storage:
            return text + " without data"
        device = storage["device"]["name"].string()
        text += " " + device
        if device == "cpu" and kind in CODES:
            text += " " + self.elements(kind, sizes, [int(impl["stride"][d]) for d in range(rank)])
        if impl["node"]:
            text += " with a gradient"
        elif impl["requires_grad"]:
            text += " requires_grad"
        return text

    def elements(self, kind, sizes, strides):
        bytes_each = struct.calcsize(CODES[kind])
        start = int(self.impl["storage"]["data"]) + int(self.impl["offset"]) * bytes_each
        shown = []
        for at in positions(sizes, strides):
            if len(shown) == MAX_SHOWN:
                shown.append("..")
                break
            try:
                memory = gdb.selected_inferior().read_memory(start + at * bytes_each, bytes_each)
            except gdb.MemoryError:
                shown.append("?")
                break
            shown.append(element(kind, bytes(memory)))
        return "[" + " ".join(shown) + "]"


printers = gdb.printing.RegexpCollectionPrettyPrinter("mtorch")
printers.add_printer("Shape", "^mt::Shape$", ShapePrinter)
printers.add_printer("Tensor", "^mt::Tensor$", TensorPrinter)
gdb.printing.register_pretty_printer(None, printers, replace=True)
