# file_samples.py -- writes file_samples.lua: small files of Pillow and of the wave module, and the values
# that they read from them
#
#   python3 tests/data/file_samples.py > tests/data/file_samples.lua     (pillow, numpy)
import io
import struct
import wave

import numpy as np
from PIL import Image

random = np.random.RandomState(3)
small = random.randint(0, 256, (5, 7, 4), dtype=np.uint8)
smooth = (np.indices((19, 23)).sum(0)[..., None] * [5, 3, 1] % 256).astype(np.uint8)


def planes(image):
    x = np.asarray(image)
    return x[None] if x.ndim == 2 else x.transpose(2, 0, 1)


def picture(image, form, read=None, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    back = Image.open(io.BytesIO(out.getvalue()))
    return out.getvalue(), planes(read(back) if read else back)


rgba = Image.fromarray(small, "RGBA")
rgb = Image.fromarray(smooth, "RGB")
sixteen = random.randint(0, 65536, (3, 4), dtype=np.uint16)
pictures = {
    "gray.png": picture(rgba.convert("L"), "PNG"),
    "gray_alpha.png": picture(rgba.convert("LA"), "PNG"),
    "rgb.png": picture(rgba.convert("RGB"), "PNG"),
    "rgba.png": picture(rgba, "PNG"),
    "bits.png": picture(rgba.convert("1"), "PNG", lambda i: i.convert("L")),
    "palette.png": picture(rgba.convert("RGB").quantize(11), "PNG", lambda i: i.convert("RGB")),
    "sixteen.png": (picture(Image.fromarray(sixteen), "PNG")[0],
                    (sixteen >> 8).astype(np.uint8)[None]),
    "rgb.jpg": picture(rgb, "JPEG"),
    "fine.jpg": picture(rgb, "JPEG", quality=97, subsampling=0),
    "gray.jpg": picture(rgb.convert("L"), "JPEG"),
    "progressive.jpg": picture(rgb, "JPEG", progressive=True),
}


def sound(width, channels, rate):
    n = 6
    limit = 1 << (8 * width - 1)
    values = [-limit, limit - 1, 0, 1, -1]
    values += [int(v) for v in random.randint(-limit, limit, n * channels - 5)]
    raw = b"".join((v + 128).to_bytes(1, "little") if width == 1 else
                   v.to_bytes(width, "little", signed=True) for v in values)
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(channels), w.setsampwidth(width), w.setframerate(rate)
        w.writeframes(raw)
    return out.getvalue(), np.array(values).reshape(-1, channels).T / limit, rate


def floats(size):
    values = random.randn(2, 5)
    code = "<%d%s" % (values.size, "f" if size == 4 else "d")
    data = struct.pack(code, *values.T.reshape(-1))
    form = struct.pack("<HHIIHH", 3, 2, 8000, 16000 * size, 2 * size, 8 * size)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"LIST\x03\0\0\0abc\0data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body, values.astype(np.float32), 8000


forms = ((1, 1, 8000), (2, 2, 44100), (3, 3, 48000), (4, 1, 16000))
sounds = {"pcm%d.wav" % (8 * w): sound(w, c, r) for w, c, r in forms}
sounds.update({"float%d.wav" % (8 * s): floats(s) for s in (4, 8)})

def lines(data):
    text = data.hex()
    return "\n".join(text[i:i + 96] for i in range(0, len(text), 96))


print("-- file_samples.lua -- files that other programs made, as hexadecimal text; by file_samples.py")
print("return {")
print("  pictures = {")
for name, (data, x) in pictures.items():
    print("    ['%s'] = {shape = {%s}," % (name, ", ".join(map(str, x.shape))))
    print("      file = [[%s]]," % lines(data))
    print("      pixels = [[%s]]}," % lines(x.astype(np.uint8).tobytes()))
print("  },\n  sounds = {")
for name, (data, x, rate) in sounds.items():
    print("    ['%s'] = {rate = %d, file = [[\n%s]]," % (name, rate, lines(data)))
    print("      samples = {")
    for row in x:
        parts = [", ".join("%.9g" % v for v in row[i:i + 6]) for i in range(0, len(row), 6)]
        print("        {%s}," % ",\n          ".join(parts))
    print("      }},")
print("  },\n}")
