"""Frames of Zstandard without compression (RFC 8878)."""


def stored(data):
    """One frame of raw blocks. The header has the size of the content."""
    header = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    step = 1 << 16
    blocks = [data[at:at + step] for at in range(0, len(data), step)] or [b""]
    last = len(blocks) - 1
    return header + b"".join((len(block) << 3 | (at == last)).to_bytes(3, "little") + block for at, block in enumerate(blocks))
