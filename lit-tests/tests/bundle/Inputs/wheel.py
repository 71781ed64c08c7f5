"""wheel.py pack FOLDER WHEEL [UNRECORDED]: packs a folder with metadata of the package x 1; a file may be left out of RECORD.

wheel.py check BEFORE AFTER CHANGED: the entries are the same in their order, times and permissions, all but CHANGED and RECORD have the same
compressed bytes, and RECORD is right.
"""

import base64
import hashlib
import os
import pathlib
import sys
import zipfile

RECORD = "x-1.dist-info/RECORD"


def pack(folder, wheel, unrecorded=""):
    info = pathlib.Path(folder, "x-1.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    names = sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.is_file())
    names = [name for name in names if name != RECORD and "fatbin." not in name]
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name in names:
            data = pathlib.Path(folder, name).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if name != unrecorded:
                lines.append(f"{name},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2))
            entry.external_attr = 0o100755 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
        out.writestr(RECORD, "".join(lines) + f"{RECORD},,\n")


def raw(path, entry):
    with open(path, "rb") as file:
        file.seek(entry.header_offset + 26)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(name + extra, os.SEEK_CUR)
        return file.read(entry.compress_size)


def check(before, after, changed):
    old, new = zipfile.ZipFile(before), zipfile.ZipFile(after)
    assert new.testzip() is None
    for a, b in zip(old.infolist(), new.infolist(), strict=True):
        for field in ("filename", "date_time", "external_attr", "compress_type"):
            assert getattr(a, field) == getattr(b, field), (a.filename, field, getattr(a, field), getattr(b, field))
        if a.filename not in (changed, RECORD):
            assert raw(before, a) == raw(after, b), a.filename
    for line in new.read(RECORD).decode().splitlines():
        name, digest, size = line.rsplit(",", 2)
        if name != RECORD:
            data = new.read(name)
            assert int(size) == len(data), name
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name


{"pack": pack, "check": check}[sys.argv[1]](*sys.argv[2:])
