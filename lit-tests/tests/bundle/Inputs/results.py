"""results.py FILE NUMBER...: writes a block of kept results, the content of a section `.fatlink.results`.

Python has no BLAKE3, so there are two entries, with the checksums that `offload_bundle::kept_results::write` computes.
"""

import pathlib
import struct
import sys

ENTRIES = {
    1: (b"one", "cd394a22a2e02559e777cea101eae3aaaab8b09e55e6a94276a8f2ba756065af"),
    2: (b"two", "42148d0caa49499e0bbceb7c12739f986dbcf5aff47dd75ba8031553216c8932"),
}

numbers = [int(word) for word in sys.argv[2:]]
table, stored = b"", b""
for number in numbers:
    content, checksum = ENTRIES[number]
    offset = 24 + 88 * len(numbers) + len(stored)
    table += bytes([number] * 32) + struct.pack("<QQQ", offset, len(content), len(content)) + bytes.fromhex(checksum)
    stored += content
size = (24 + len(table) + len(stored) + 15) // 16 * 16
block = b"FATLKEPT" + struct.pack("<IIQ", 1, len(numbers), size) + table + stored
pathlib.Path(sys.argv[1]).write_bytes(block.ljust(size, b"\0"))
