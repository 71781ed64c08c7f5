"""The types of the native part; src/ of offload-bundle-python defines it."""

from os import PathLike
from typing import Any, Final, Literal, Union, final

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
    "Outcome",
    "PreparedLinker",
    "__version__",
    "_link",
    "check",
    "explain",
    "extract",
    "images",
]

__version__: Final[str]

_Source = Union[bytes, bytearray, str, PathLike[str]]

class Error(ValueError):
    """Bytes that are damaged, or a value that has no meaning."""

class FatbinError(Error):
    """An image that a fatbin cannot hold."""

    code: int
    """nvFatbin's number for it, from 1 to 17."""

class LinkError(Error):
    """A link that failed."""

    diagnostics: list[Diagnostic]
    """Why; at least one is an error."""

class Cancelled(Error):
    """A link that its caller cancelled."""

@final
class Diagnostic:
    """A message of a link."""

    @property
    def severity(self) -> Literal["note", "warning", "error"]:
        """How bad it is."""
    @property
    def message(self) -> str:
        """The whole text, of one line or more."""
    @property
    def file(self) -> str | None:
        """The input that it is about."""
    @property
    def member(self) -> str | None:
        """The member, if the input is an archive."""
    @property
    def offset(self) -> int | None:
        """The offset in the input, if it is about damage there."""

@final
class Linked:
    """What a link has made."""

    @property
    def image(self) -> bytes:
        """The container of the linked code: a fatbin for CUDA, a bundle for HIP."""
    @property
    def registration(self) -> bytes | None:
        """The host object that carries the image and registers it; none of ``image_only``."""
    @property
    def report(self) -> str | None:
        """The report as JSON, if it was requested."""
    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings and notes."""

@final
class Cancellation:
    """Cancels links from any thread."""

    def __new__(cls) -> Cancellation: ...
    def cancel(self) -> None:
        """Cancels the links that were started with this value, and those that will be."""
    @property
    def cancelled(self) -> bool:
        """Whether it was called."""

@final
class PreparedLinker:
    """What ``Linker`` runs links with."""

    def __new__(
        cls,
        program: str,
        cuda: str | PathLike[str] | None,
        environment: list[tuple[str, str]],
        temporary_folder: str,
        ahead: int,
    ) -> PreparedLinker: ...

def _link(linker: PreparedLinker, units: list[Any], settings: dict[str, Any]) -> Linked:
    """Links units: ``Linker.link`` has the settings."""

@final
class Image:
    """A device image: a row of ``offload-bundle list``."""

    @property
    def index(self) -> int:
        """Its place in the list, from 0."""
    @property
    def member(self) -> str | None:
        """The archive member that holds it."""
    @property
    def section(self) -> str | None:
        """The section of the object, library or program that holds it."""
    @property
    def offset(self) -> int:
        """Where its bytes start in the file."""
    @property
    def kind(self) -> str:
        """The programming models: ``cuda``, ``openmp+cuda``."""
    @property
    def triple(self) -> str | None:
        """The target triple, where the container records one."""
    @property
    def target(self) -> str:
        """``sm_90a``; empty if none is recorded."""
    @property
    def image(self) -> str:
        """``bitcode``, ``cubin``, ``ptx``, ``ltoir``, ``object`` and so on."""
    @property
    def relocatable(self) -> bool | None:
        """Of a cubin: whether it is an input of a device link."""
    @property
    def version(self) -> str | None:
        """The version of PTX or LTO-IR: ``8.8``."""
    @property
    def name(self) -> str | None:
        """The name of the source file, where recorded."""
    @property
    def size(self) -> int:
        """Size in bytes as stored."""
    @property
    def compression(self) -> str:
        """``none``, ``zstd``, ``lz4``, ``lz4 frame`` or ``zlib``."""
    @property
    def uncompressed_size(self) -> int | None:
        """Size in bytes before compression, if it is compressed."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Outcome:
    """What a runtime does with a container on one GPU."""

    @property
    def gpu(self) -> str:
        """``sm_90``."""
    @property
    def outcome(self) -> str:
        """What runs (``sass 90a``, ``ptx 80 #2``), or why nothing does (``no-binary``) or cannot fail (``no-kernels``)."""
    @property
    def runs(self) -> bool:
        """Whether a kernel can be launched, or there is none."""
    @property
    def error(self) -> str | None:
        """The driver's name for the error."""
    @property
    def entry(self) -> int | None:
        """The entry that the driver takes, from 1, whether it runs or not."""
    @property
    def reason(self) -> str:
        """A sentence."""
    @property
    def passed_over(self) -> list[tuple[int, str]]:
        """The other entries, from 1, each with why the driver does not take it."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Container:
    """What a runtime does with one fatbin or bundle."""

    @property
    def number(self) -> int:
        """Its place in the file, from 1."""
    @property
    def member(self) -> str | None:
        """The archive member that holds it."""
    @property
    def section(self) -> str | None:
        """The section that holds it."""
    @property
    def offset(self) -> int:
        """Where it starts in the file."""
    @property
    def platform(self) -> str:
        """``cuda`` or ``hip``."""
    @property
    def role(self) -> str:
        """``whole``, ``linked`` (by a device link of nvcc), ``object`` (a part of one) or ``data``."""
    @property
    def module(self) -> str | None:
        """Of an object: the name of its source file, if that is recorded."""
    @property
    def entries(self) -> list[str]:
        """``sass 90a``, ``ptx 80``."""
    @property
    def outcomes(self) -> list[Outcome]:
        """One for each GPU; none of a part of a device link, which no driver loads by itself."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Finding:
    """A fault or remark."""

    @property
    def code(self) -> str:
        """``FB001`` and so on; the codes do not change."""
    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``note``."""
    @property
    def entries(self) -> list[int]:
        """The entries concerned, from 1."""
    @property
    def gpus(self) -> list[str]:
        """The GPUs concerned, if not all."""
    @property
    def message(self) -> str:
        """What is the matter."""
    @property
    def advice(self) -> str:
        """What to do."""
    @property
    def bytes(self) -> int | None:
        """Bytes of the fatbin that following the advice saves, if it is about them."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class CheckedContainer:
    """What was found in one fatbin or bundle."""

    @property
    def number(self) -> int:
        """Its place in the file, from 1."""
    @property
    def member(self) -> str | None:
        """The archive member that holds it."""
    @property
    def section(self) -> str | None:
        """The section that holds it."""
    @property
    def offset(self) -> int:
        """Where it starts in the file."""
    @property
    def platform(self) -> str:
        """``cuda`` or ``hip``."""
    @property
    def findings(self) -> list[Finding]:
        """The worst first."""
    @property
    def driver_branch(self) -> int | None:
        """The first driver branch for which no entry is too new; None if any since CUDA 9 will do."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class FatbinBuilder:
    """A fatbin under construction: PTX, machine code and LTO-IR, each for one target such as ``sm_90``.

    The options are nvFatbin's, such as ``-compress-mode=size``.
    """

    def __new__(cls, *options: str) -> FatbinBuilder: ...
    def add_ptx(self, arch: str, text: str | bytes | bytearray, identifier: str = "", options: str = "") -> None:
        """Adds PTX; ``options`` are ptxas's, for the driver's compiler."""
    def add_cubin(self, arch: str, image: bytes | bytearray, identifier: str = "") -> None:
        """Adds machine code, relocatable or not."""
    def add_ltoir(self, arch: str, image: bytes | bytearray, identifier: str = "", options: str = "") -> None:
        """Adds NVVM IR for link-time optimization."""
    def add_relocatable(self, object: bytes | bytearray) -> int:
        """Adds the relocatable PTX of a host object of nvcc -rdc=true, and returns how many entries that are."""
    def build(self) -> bytes:
        """Returns the fatbin. More images can be added afterwards."""

def images(source: _Source, *, scan: bool = False) -> list[Image]:
    """Returns the device images of a file. With ``scan``, fatbins outside of the sections for device code count, too."""

def extract(source: _Source, image: Image | int, *, raw: bool = False, scan: bool = False) -> bytes:
    """Returns the bytes of one image: decompressed, or with ``raw`` as they are stored. ``scan`` as for ``images``."""

def explain(
    source: _Source,
    gpu: str | None = None,
    *,
    driver: str | None = None,
    ptx_jit: Literal["allowed", "forced", "disabled"] = "allowed",
    scan: bool = False,
) -> list[Container]:
    """Predicts what each GPU runs of each container: the one named (``sm_86``, ``gfx90a``), or all that are known.

    ``driver`` is its version, such as ``580``; by default, one that is new enough.
    """

def check(
    source: _Source, *, driver: str | None = None, toolkit: str | None = None, scan: bool = False
) -> tuple[list[Finding], list[CheckedContainer]]:
    """Returns what is wrong with the file itself, and what was found in each of its containers.

    ``driver`` is the oldest that shall load it, ``toolkit`` the CUDA release that it shall come from, such as ``12.9``.
    """
