"""Counts the kernels among a program's offload entries of today's form, and their addresses."""

import struct
import subprocess
import sys

sections = subprocess.run(["llvm-readelf", "-SW", sys.argv[1]], capture_output=True, text=True, check=True).stdout
rows = [line.split("]", 1)[1].split()[2:5] for line in sections.splitlines() if " llvm_offload_entries " in line]
# mold adds an empty section of this name.
start, offset, size = next(row for row in ([int(field, 16) for field in row] for row in rows) if row[2])
relocations = subprocess.run(["llvm-readelf", "-rW", sys.argv[1]], capture_output=True, text=True, check=True).stdout
loaded = {}
for line in relocations.splitlines():
    fields = line.split()
    if len(fields) == 4 and fields[2] == "R_X86_64_RELATIVE":
        loaded[int(fields[0], 16)] = int(fields[3], 16)
data = open(sys.argv[1], "rb").read()
kernels = []
for at in range(0, size, 56):
    stored, _, bytes_of_variable = struct.unpack_from("<QQQ", data, offset + at + 16)
    if bytes_of_variable == 0:
        kernels.append(loaded.get(start + at + 16, stored))
print(len(kernels), "kernels,", len(set(kernels)), "addresses")
