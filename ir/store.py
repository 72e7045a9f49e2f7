"""Weights outside the text: a safetensors file named with its hash, and entries made by passes.

A module names a `ParameterStore`; ops name its entries. The file is opened when the first entry is
read, its SHA-256 is checked once, and tensors are read from the memory map one at a time. Passes
add entries in memory (`add`); entries are never changed or removed, so clones of a module can share
one store. What an entry means (dtype, shape, trits) is the reader's business.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np

from .arrays import Array
from .errors import ParameterError, first_line
from .safe_read import accessing
from .safe_write import PendingFiles
from .seal import check_file


@dataclass(frozen=True)
class StoreReference:
    """A parameter file as named in the text: `path` is relative to the IR file's folder."""

    path: str
    sha256: str
    location: Path


@dataclass(eq=False)
class ParameterStore:
    """Named arrays: those of one safetensors file, and those added in memory."""

    reference: StoreReference | None = None
    _added: dict[str, Array] = field(default_factory=dict[str, Array])
    _file: Any = None
    _stored: frozenset[str] = frozenset()

    @staticmethod
    def unsaved() -> ParameterStore:
        """A store without a file."""
        return ParameterStore()

    @staticmethod
    def referenced(path: str, sha256: str, *, beside: str) -> ParameterStore:
        """The store that IR text names: `path` relative to the folder of the file `beside`.

        Nothing is opened yet.

        Raises:
            ParameterError: `path` is absolute or leaves the folder; text from strangers must not
                reach other files.
        """
        pure = PurePosixPath(path)
        if not path or pure.is_absolute() or ".." in pure.parts or "\\" in path or "\0" in path:
            raise ParameterError(
                f"parameter file '{path}' must be a relative path inside the folder of the IR file"
            )
        folder = Path(beside).parent if Path(beside).is_file() else Path()
        return ParameterStore(StoreReference(path, sha256.lower(), folder / path))

    @staticmethod
    def open(path: Path) -> ParameterStore:
        """A store over a file the user named, with the hash it has now.

        Raises:
            ParameterError: no such file.
        """
        return ParameterStore(StoreReference(path.name, file_sha256(path), path))

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> ParameterStore:
        """A store over arrays in memory."""
        store = ParameterStore()
        for name, array in arrays.items():
            store._added[name] = array
        return store

    @property
    def added_names(self) -> list[str]:
        """The entries that are in memory alone, sorted."""
        return sorted(self._added)

    def names(self) -> list[str]:
        """Every entry, sorted. Opens the file."""
        return sorted({*self._stored_names(), *self._added})

    def __contains__(self, name: str) -> bool:
        return name in self._added or name in self._stored_names()

    def read(self, name: str) -> Array:
        """The array named `name`.

        Raises:
            ParameterError: no file, wrong hash, or no such entry; the message names file and key.
        """
        if name in self._added:
            return self._added[name]
        if self.reference is None:
            raise ParameterError(
                f"parameter '{name}' is in no file: give weights (-w FILE, or --random-weights "
                "where a command has it), or write the module that made it with '-o FILE'"
            )
        if name not in self._stored_names():
            from difflib import get_close_matches

            close = get_close_matches(name, sorted(self._stored), 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ParameterError(
                f"parameter file '{self.reference.location}' has no entry '{name}'{hint}"
            )
        return read_tensor(self._file, name, self.reference.location)

    def add(self, name: str, array: Array) -> str:
        """Add an entry and give the name it got.

        A name that is taken by other content gets a numbered suffix (`name.1`, `name.2`, …).
        """
        candidate, number = name, 0
        while candidate in self:
            if _same_bits(self.read(candidate), array):
                return candidate
            number += 1
            candidate = f"{name}.{number}"
        self._added[candidate] = array
        return candidate

    def save(self, path: Path, names: Iterable[str]) -> str:
        """Write the entries `names` to a safetensors file; its SHA-256.

        The file is written beside its place and moved when whole.
        """
        return save_arrays(path, {name: self.read(name) for name in names})

    def _stored_names(self) -> frozenset[str]:
        """The entries of the file, which is opened for that."""
        if self._file is None and self.reference is not None:
            self._file = _open_checked(self.reference)
            self._stored = frozenset(self._file.keys())
        return self._stored


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays agree in type, shape and every bit, NaN and signed zeros included."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits, others = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return np.array_equal(bits, others)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in lower-case hexadecimal.

    Raises:
        ParameterError: the file cannot be read.
    """
    import hashlib  # it loads OpenSSL

    with accessing(f"parameter file '{path}'", ParameterError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_arrays(
    path: Path, arrays: Mapping[str, Array], pending: PendingFiles | None = None
) -> str:
    """Write `arrays` as one safetensors file, sorted by name, whole or not at all; its SHA-256.

    The file takes its place with those of `pending`, if these are given.
    """
    import safetensors.numpy

    save_file = cast(
        Callable[[dict[str, Array], Path], None],
        safetensors.numpy.save_file,  # pyright: ignore[reportUnknownMemberType]
    )
    contiguous = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    digest = ""

    def write(temporary: Path) -> None:
        nonlocal digest
        written_by(lambda: save_file(contiguous, temporary))
        digest = file_sha256(temporary)

    with PendingFiles() if pending is None else nullcontext(pending) as files:
        files.add_written(path, write)
    return digest


def written_by(save_file: Callable[[], None]) -> None:
    """Call what writes a safetensors file.

    Raises:
        OSError: it cannot be written; the library has an error of its own for that.
    """
    from safetensors import SafetensorError

    try:
        save_file()
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code) if number else str(error)) from None


def read_arrays(path: Path) -> dict[str, Array]:
    """Every tensor of a safetensors file.

    Raises:
        ParameterError: the file is missing or not safetensors.
        IntegrityError: it carries its SHA-256, and another one than it has.
    """
    check_file(path)
    file = open_tensors(path)
    return {name: read_tensor(file, name, path) for name in file.keys()}  # noqa: SIM118


def parse_arrays(data: bytes) -> dict[str, Array]:
    """Every tensor of the bytes of a safetensors file, read-only.

    Raises:
        ParameterError: they are not safetensors, or hold a type that NumPy has not.
    """
    import safetensors

    library: Any = safetensors
    arrays: dict[str, Array] = {}
    try:
        for name, entry in library.deserialize(data):
            flat = np.frombuffer(entry["data"], _numpy_type(entry["dtype"]))
            arrays[name] = flat.reshape(entry["shape"])
            arrays[name].flags.writeable = False
    except (library.SafetensorError, TypeError, ValueError) as error:
        raise ParameterError(f"the weights are not safetensors: {first_line(error)}") from None
    return arrays


def _numpy_type(kind: str) -> np.dtype[Any]:
    """The type that safetensors calls `F32`, `BF16` or `U8`."""
    if kind in ("BOOL", "BF16"):
        import ml_dtypes

        return np.dtype({"BOOL": np.bool_, "BF16": ml_dtypes.bfloat16}[kind])
    return np.dtype({"F": "float", "I": "int", "U": "uint"}[kind[0]] + kind[1:])


def _open_checked(reference: StoreReference) -> Any:
    digest = file_sha256(reference.location)
    if digest != reference.sha256:
        raise ParameterError(
            f"parameter file '{reference.location}' has SHA-256 {digest}, "
            f"the module expects {reference.sha256}; it is not the file the module was written with"
        )
    return open_tensors(reference.location)


def open_tensors(path: Path) -> Any:
    """A safetensors file by its memory map; `keys()` are its entries.

    Raises:
        ParameterError: it is missing, or another kind of file.
    """
    from safetensors import SafetensorError, safe_open

    import_module("ml_dtypes")  # NumPy knows bfloat16 from then on
    if path.is_dir():  # its own error names a device that is missing
        raise ParameterError(f"parameter file '{path}': Is a directory")
    try:
        return safe_open(str(path), framework="numpy")
    except FileNotFoundError:
        raise ParameterError(f"parameter file '{path}': No such file or directory") from None
    except (SafetensorError, OSError) as error:
        raise ParameterError(
            f"parameter file '{path}' is not safetensors: {str(error)[:300]}"
        ) from None


def read_tensor(file: Any, name: str, path: Path) -> Array:
    """An entry of an open file, read-only.

    Raises:
        ParameterError: it cannot be read.
    """
    from safetensors import SafetensorError

    try:
        array: Array = file.get_tensor(name)
    except (SafetensorError, AttributeError, TypeError, ValueError) as error:
        raise ParameterError(f"entry '{name}' of '{path}' cannot be read: {error}") from None
    array.flags.writeable = False
    return array
