# gdb.py -- gdb pretty-printers of mt::Tensor and mt::Shape
#
#   gdb -x scripts/tools/gdb.py --args build-sanitize/mtorch script.lua      or, in gdb: source scripts/tools/gdb.py
#
#   (gdb) print x
#   $1 = (2 x 3) float32 cpu [1 2 3 4 5 6]
#
# The program needs debug information (`cmake --preset asan`, or -DCMAKE_BUILD_TYPE=RelWithDebInfo). Elements on a
# GPU are not printed.
import math
import struct

import gdb
import gdb.printing

MAX_SHOWN = 12  # elements shown
# Names, and formats of the module struct.
DTYPES = {"b8": ("bool", "?"), "u8": ("uint8", "B"), "i8": ("int8", "b"), "i16": ("int16", "h"), "i32": ("int32", "i"),
          "i64": ("int64", "q"), "f32": ("float32", "f"), "f64": ("float64", "d"), "f16": ("float16", "e"),
          "bf16": ("bfloat16", "H"), "f8_e4m3fn": ("float8_e4m3fn", "B"), "f8_e5m2": ("float8_e5m2", "B")}


def shape_text(sizes):
    return "(" + " x ".join(str(n) for n in sizes) + ")"


def positions(sizes, strides):
    """Yields the offsets of the elements in row-major order."""
    for k in range(math.prod(sizes)):
        offset = 0
        for size, stride in zip(reversed(sizes), reversed(strides)):
            k, at = divmod(k, size)
            offset += at * stride
        yield offset


def element(kind, memory):
    value = struct.unpack("<" + DTYPES[kind][1], memory)[0]
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
        text = "%s %s" % (shape_text(sizes), DTYPES.get(kind, (kind, ""))[0])
        storage = impl["storage"]
        if not storage:
            return text + " without data"
        device = storage["device"]["name"].string()
        text += " " + device
        if device == "cpu" and kind in DTYPES:
            text += " " + self.elements(kind, sizes, [int(impl["stride"][d]) for d in range(rank)])
        if impl["node"]:
            text += " with a gradient"
        elif impl["requires_grad"]:
            text += " requires_grad"
        return text

    def elements(self, kind, sizes, strides):
        bytes_each = struct.calcsize(DTYPES[kind][1])
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
