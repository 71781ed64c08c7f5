"""Links device code, and reads, explains, checks and builds the containers that hold it.

A *source* is the content of a file, as bytes, or the path of one: an object, archive, library or program with device code, a fatbin, a
cubin, an offload binary or a HIP bundle. Damaged bytes raise :class:`Error`; no input ends the interpreter.
"""

from fatlink._fatlink import (
    Cancellation,
    Cancelled,
    CheckedContainer,
    Container,
    Diagnostic,
    Error,
    FatbinBuilder,
    FatbinError,
    Finding,
    Image,
    Linked,
    LinkError,
    Outcome,
    __version__,
    check,
    explain,
    extract,
    images,
)
from fatlink._link import Linker, link

__all__ = [
    "Cancellation",
    "Cancelled",
    "CheckedContainer",
    "Container",
    "Diagnostic",
    "Error",
    "FatbinBuilder",
    "FatbinError",
    "Finding",
    "Image",
    "LinkError",
    "Linked",
    "Linker",
    "Outcome",
    "__version__",
    "check",
    "explain",
    "extract",
    "images",
    "link",
]
