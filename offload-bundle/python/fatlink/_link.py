"""``link`` and ``Linker``: device code to an image and the object that registers it."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from fatlink._fatlink import Cancellation, Error, Linked, PreparedLinker, _link

if TYPE_CHECKING:
    _Path = Union[str, os.PathLike[str]]
    _Unit = Union[_Path, bytes, bytearray, memoryview, Any, tuple[str, Any]]


def _program() -> str:
    """The program of the wheel that this package came with."""
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    found = shutil.which("fatlink", path=os.pathsep.join(scripts))
    if found is None:
        raise Error(f"there is no program fatlink in {' or '.join(scripts)}; name it with program=")
    return os.path.abspath(found)


class Linker:
    """Runs links, each in a process of the program ``fatlink``. Threads may share one.

    ``cuda`` is the root of a CUDA toolkit, ``environment`` the variables of the program (none by default; ``os.environ`` passes on those
    of this process), ``temporary_folder`` the place of temporary files, of which links leave none, and ``ahead`` the number of processes
    that are kept ready, so that a link need not wait for the start of one.
    """

    def __init__(
        self,
        program: _Path | None = None,
        *,
        cuda: _Path | None = None,
        environment: Mapping[str, str] | None = None,
        temporary_folder: _Path | None = None,
        ahead: int = 0,
    ) -> None:
        self._prepared = PreparedLinker(
            os.path.abspath(program) if program is not None else _program(),
            cuda,
            list((environment or {}).items()),
            os.path.abspath(temporary_folder or "/tmp"),
            ahead,
        )

    def link(
        self,
        units: Iterable[_Unit],
        *,
        targets: Iterable[str] = (),
        ptx: str = "objects",
        libraries: Iterable[str] = (),
        library_paths: Iterable[_Path] = (),
        cache: _Path | None = None,
        options: Iterable[str] = (),
        image_only: bool = False,
        report: bool = False,
        observer: Callable[[int, int], object] | None = None,
        cancellation: Cancellation | None = None,
    ) -> Linked:
        """Links units, and returns what that has made.

        A unit is a path, an object with a buffer (``bytes``, ``memoryview``, an array of numpy), or a tuple of a name for diagnostics and
        such an object. It holds a host object with device code, an archive, or bare device code: bitcode, PTX, a cubin or a fatbin.
        Bitcode is code for each of ``targets``.

        ``observer`` is called with the numbers of jobs that are done and known. An exception that it raises cancels the link, as Ctrl-C
        does.

        A link that fails raises :class:`LinkError`, which has its diagnostics, and one that is cancelled :class:`Cancelled`.
        """
        settings = {
            "targets": list(targets),
            "ptx": ptx,
            "libraries": list(libraries),
            "library_paths": list(library_paths),
            "cache": cache,
            "options": list(options),
            "image_only": image_only,
            "report": report,
            "observer": observer,
            "cancellation": cancellation,
        }
        return _link(self._prepared, list(units), settings)


def link(
    units: Iterable[_Unit],
    *,
    program: _Path | None = None,
    cuda: _Path | None = None,
    targets: Iterable[str] = (),
    ptx: str = "objects",
    libraries: Iterable[str] = (),
    library_paths: Iterable[_Path] = (),
    cache: _Path | None = None,
    options: Iterable[str] = (),
    image_only: bool = False,
    report: bool = False,
    observer: Callable[[int, int], object] | None = None,
    cancellation: Cancellation | None = None,
) -> Linked:
    """Links units by a linker of its own: :meth:`Linker.link` has the arguments."""
    return Linker(program, cuda=cuda).link(
        units,
        targets=targets,
        ptx=ptx,
        libraries=libraries,
        library_paths=library_paths,
        cache=cache,
        options=options,
        image_only=image_only,
        report=report,
        observer=observer,
        cancellation=cancellation,
    )
