"""wheel.py -- writes a Python wheel from the .tar.gz package: python3 cmake/wheel.py dist/mtorch-VERSION-linux-MACHINE.tar.gz

A wheel is a zip archive. pip puts what lies under NAME.data/scripts into bin/ and what lies under NAME.data/data beside
it, so that an environment gets the same tree as the package, and starts the program without Python. The tag
names the newest glibc that a file asks for.
"""
import base64
import hashlib
import pathlib
import re
import sys
import tarfile
import zipfile

archive = pathlib.Path(sys.argv[1])
version, machine = re.fullmatch(r"mtorch-(.+)-linux-(\w+)\.tar\.gz", archive.name).groups()
name = f"mtorch-{version}"
files, newest = {}, 17  # manylinux2014
with tarfile.open(archive) as packed:
    for member in packed:
        if not member.isfile():
            continue
        place = member.name.split("/", 1)[1]
        data = packed.extractfile(member).read()
        if data[:4] == b"\x7fELF":
            newest = max([newest] + [int(n) for n in re.findall(rb"\0GLIBC_2\.(\d+)\b", data)])
        folder = "scripts" if place.startswith("bin/") else "data"
        files[f"{name}.data/{folder}/{place.removeprefix('bin/')}"] = data, member.mode

tag = f"py3-none-manylinux_2_{newest}_{machine}"
readme = files[f"{name}.data/data/share/doc/mtorch/README.md"][0].decode()
info = {
    "METADATA": f"Metadata-Version: 2.1\nName: mtorch\nVersion: {version}\nSummary: tensors with gradients in LuaJIT\n"
                f"License: MIT\nDescription-Content-Type: text/markdown\n\n{readme}",
    "WHEEL": f"Wheel-Version: 1.0\nGenerator: mtorch\nRoot-Is-Purelib: false\nTag: {tag}\n",
}
for file, text in info.items():
    files[f"{name}.dist-info/{file}"] = text.encode(), 0o644


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


record = "".join(f"{place},sha256={digest(data)},{len(data)}\n" for place, (data, _) in files.items())
files[f"{name}.dist-info/RECORD"] = f"{record}{name}.dist-info/RECORD,,\n".encode(), 0o644
wheel = archive.with_name(f"{name}-{tag}.whl")
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
    for place, (data, mode) in files.items():
        entry = zipfile.ZipInfo(place)
        entry.external_attr = (0o100000 | mode) << 16
        out.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
print(wheel)
