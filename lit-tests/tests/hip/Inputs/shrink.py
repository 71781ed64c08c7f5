"""Reduces a number of a kernel's descriptor, so that the checker has something to find: FILE KERNEL FIELD BY OUTPUT."""
import struct
import sys

from code_object import descriptors

file, kernel, field, by, out = sys.argv[1:]
descriptor = descriptors(file)[kernel]
# Bytes of LDS, or groups of vector registers.
offset, mask = {"lds": (0, 0xffffffff), "vgprs": (48, 0x3f)}[field]
word, = struct.unpack_from("<I", descriptor, offset)
number = (word & mask) - int(by)
assert number >= 0, "there is not so much"
changed = descriptor[:offset] + struct.pack("<I", word & ~mask | number) + descriptor[offset + 4:]
with open(file, "rb") as opened, open(out, "wb") as written:
    data = opened.read()
    assert data.count(descriptor) == 1, "another kernel has the same descriptor"
    written.write(data.replace(descriptor, changed))
