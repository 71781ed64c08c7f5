"""Containers of device code: reads, explains, checks and builds them.

A *source* is the content of a file, as bytes, or the path of one: an object, archive, library or program with device code, a fatbin, a
cubin, an offload binary or a HIP bundle. Damaged bytes raise :class:`Error`; no input ends the interpreter.
"""

from fatlink._fatlink import (
    CheckedContainer,
    Container,
    Error,
    FatbinBuilder,
    FatbinError,
    Finding,
    Image,
    Outcome,
    __version__,
    check,
    explain,
    extract,
    images,
)

__all__ = [
    "CheckedContainer",
    "Container",
    "Error",
    "FatbinBuilder",
    "FatbinError",
    "Finding",
    "Image",
    "Outcome",
    "__version__",
    "check",
    "explain",
    "extract",
    "images",
]
