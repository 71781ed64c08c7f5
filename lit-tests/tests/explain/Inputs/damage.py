"""Damages packages in many ways, and prints how `offload-bundle list` and `check` answer: python damage.py OFFLOAD_BUNDLE FILE

FILE has device code. Each answer has to be one line with the package's name, and an exit code that is not 0.
"""

import io
import lzma
import pathlib
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import zstd_frame

LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"


def zip_of(name, content, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as package:
        package.writestr(name, content)
    return file.getvalue()


def tar_of(name, content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as package:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        package.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def deb_of(name, content):
    member = lambda name, data: b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name, 0, 0, 0, 0o644, len(data)) + data + b"\n" * (len(data) % 2)
    return b"!<arch>\n" + member(b"debian-binary", b"2.0\n") + member(b"data.tar.xz", lzma.compress(tar_of(name, content)))


def put(data, place, value):
    """The data with other bytes at a place; negative ones count from its end."""
    place %= len(data)
    return data[:place] + value + data[place + len(value):]


def damaged(content):
    """Each damage: the name of the package and its bytes."""
    whole, stored, tar = zip_of("a.so", content), zip_of("a.so", content, zipfile.ZIP_STORED), tar_of("a.so", content)
    compressed = whole.index(b"a.so") + 4
    central, end = whole.rindex(CENTRAL), whole.rindex(END)
    size = len(content).to_bytes(4, "little")
    yield "empty.whl", b""
    yield "cut-in-a-member.whl", whole[:compressed + 40]
    yield "cut-in-the-directory.whl", whole[:central + 20]
    yield "without-an-end.zip", whole[:end]
    yield "directory-behind-the-end.whl", put(whole, end + 16, struct.pack("<I", len(whole) + 1000))
    yield "damaged-data.whl", put(whole, compressed + 8, b"\xff" * 16)
    yield "other-checksum.whl", put(whole, central + 16, b"\0\0\0\0")
    yield "other-size.whl", put(whole, central + 24, struct.pack("<I", len(content) + 1))
    yield "goes-on-behind-the-end.whl", put(stored, stored.rindex(CENTRAL) + 20, b"\xff\xff\xff\x7f" * 2)
    yield "unknown-method.whl", put(whole, central + 10, struct.pack("<H", 97))
    yield "encrypted.whl", put(whole, central + 8, struct.pack("<H", 1))
    yield "no-local-header.whl", put(whole, 0, b"XX")
    yield "cut.tar", tar[:512 + len(content) // 2]
    yield "other-checksum.tar", put(tar, 148, b"0000001\0")
    yield "size-is-no-number.tar", put(tar, 124, b"not a size\0\0")
    yield "damaged.tar.gz", put(gzip_of(tar), 60, b"\xff" * 16)
    yield "cut.tar.xz", lzma.compress(tar)[:-60]
    yield "no-frame.tar.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 40
    yield "cut-frame.tar.zst", zstd_frame.stored(tar)[:-60]
    yield "cut-frame.conda", zip_of("pkg-a.tar.zst", zstd_frame.stored(tar)[:-60], zipfile.ZIP_STORED)
    deb = deb_of("a.so", content)
    yield "cut.deb", deb[:-60]
    yield "size-is-no-number.deb", put(deb, 8 + 48, b"no number ")
    assert size in whole


def gzip_of(data):
    compress = zlib.compressobj(wbits=31)
    return compress.compress(data) + compress.flush()


def main():
    program, content = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes()
    bad = kinds = 0
    for name, data in damaged(content):
        pathlib.Path(name).write_bytes(data)
        kinds += 1
        for command in (["list", name], ["check", name, "--gpus", "sm_90", "--driver", "580"]):
            done = subprocess.run([program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            lines = [line for line in (done.stderr + done.stdout).splitlines() if "error: " in line and "error: FB" not in line]
            print(f"{command[0]} {name}: exit code {done.returncode}: {'; '.join(lines)}")
            bad += done.returncode not in (1, 2) or len(lines) != 1 or name not in lines[0] or "panicked" in done.stderr
    print(f"{kinds} kinds of damage, {bad} answers that are not one sentence")


if __name__ == "__main__":
    main()
