"""newer_llvm.py FILE.bc [MAJOR]: makes bitcode of LLVM 22 say that LLVM 99, or another of two digits, wrote it.

The producer, "LLVM22.1.8", stands in the bitcode's identification block in characters of 6 bits, at no byte's edge.
"""

import pathlib
import string
import sys

CHARACTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits + "._"


def bits(text):
    return sum(CHARACTERS.index(character) << 6 * place for place, character in enumerate(text))


path = pathlib.Path(sys.argv[1])
data = path.read_bytes()
number = int.from_bytes(data, "little")
width = 6 * len("LLVM22")
start = next(bit for bit in range(1000) if number >> bit & (1 << width) - 1 == bits("LLVM22"))
other = sys.argv[2] if len(sys.argv) > 2 else "99"
number ^= (bits("LLVM22") ^ bits("LLVM" + other)) << start
path.write_bytes(number.to_bytes(len(data), "little"))
