"""patch.py IN OUT OFFSET=VALUE...: changes 16-bit numbers in the first entry of the fatbin in an object."""
import sys

source, target, *changes = sys.argv[1:]
data = bytearray(open(source, "rb").read())
entry = data.index(bytes.fromhex("50ed55ba01001000")) + 16
for change in changes:
    at, value = change.split("=")
    data[entry + int(at, 0):entry + int(at, 0) + 2] = int(value, 0).to_bytes(2, "little")
open(target, "wb").write(data)
