"""entry_kind.py FILE SECTION KIND: gives the first entry of machine code in a section of fatbins another kind."""

import struct
import subprocess
import sys

file, section, kind = sys.argv[1:]
rows = subprocess.run(["llvm-readelf", "-SW", file], capture_output=True, text=True, check=True).stdout.splitlines()
offset = int(next(row for row in rows if f" {section} " in row).split("]", 1)[1].split()[3], 16)
data = bytearray(open(file, "rb").read())
entry = offset + 16
while struct.unpack_from("<H", data, entry)[0] == 1:
    _, _, header, size = struct.unpack_from("<HHIQ", data, entry)
    entry += header + size
struct.pack_into("<H", data, entry, int(kind))
open(file, "wb").write(data)
