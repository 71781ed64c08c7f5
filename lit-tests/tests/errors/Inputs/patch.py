"""patch.py FILE EDIT...: damages a file in place.

An EDIT is OFFSET=VALUE (one byte), OFFSET=VALUE:WIDTH (a little-endian number of so many bytes) or :SIZE (cut off there).
"""

import pathlib
import sys

path = pathlib.Path(sys.argv[1])
data = bytearray(path.read_bytes())
for edit in sys.argv[2:]:
    if edit.startswith(":"):
        del data[int(edit[1:], 0) :]
        continue
    offset, value = edit.split("=")
    value, _, width = value.partition(":")
    start, width = int(offset, 0), int(width or 1)
    data[start : start + width] = int(value, 0).to_bytes(width, "little")
path.write_bytes(data)
