"""Writes an ELF file of 128 MiB, nearly all zeros, gzipped, in a wheel and as a sparse member of a tar file."""

import gzip
import struct
import zipfile

SIZE = 128 << 20
HEAD = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(492)
DATA = HEAD + bytes(SIZE - len(HEAD))

with gzip.open("x.so.gz", "wb", compresslevel=1) as file:
    file.write(DATA)

with zipfile.ZipFile("x.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
    wheel.writestr("x.so", DATA)
    wheel.writestr("x-1.dist-info/RECORD", "x.so,,\nx-1.dist-info/RECORD,,\n")


def octal(number, width):
    return b"%0*o\0" % (width - 1, number)


# The header of GNU's sparse files (type S): where the data is, and the size with the holes.
header = bytearray(512)
header[0:4] = b"x.so"
header[100:136] = octal(0o644, 8) + octal(0, 8) + octal(0, 8) + octal(512, 12)
header[136:148] = octal(0, 12)
header[156:157] = b"S"
header[257:265] = b"ustar  \0"
header[386:410] = octal(0, 12) + octal(512, 12)
header[410:434] = octal(SIZE, 12) + octal(0, 12)
header[483:495] = octal(SIZE, 12)
header[148:156] = b" " * 8
header[148:156] = b"%06o\0 " % sum(header)
with open("x.tar", "wb") as file:
    file.write(bytes(header) + HEAD + bytes(1024))
