"""HDF5 files as nested dictionaries: reads those of strangers, writes equal bytes for equal ones.

Only numbers and strings that are in the file itself are read: no links to other files, no filters
beyond those built into HDF5 and h5py, no more bytes than the limit. Not here: what is in them
(`from_nir`, `from_netx` and their targets).
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..ir.errors import BackendError, SourceError
from ..ir.extras import install

if TYPE_CHECKING:
    import h5py

Tree = Mapping[str, object]
"""What is in a group: arrays, strings, lists of strings, and groups."""

BYTE_LIMIT = 4 << 30
"""The most bytes that the values of a file may take in memory."""

ENTRY_LIMIT = 1_000_000
"""The most groups and values in a file."""

_PACKED_FROM = 1024
"""Bytes from which on values are worth packing."""

_DEPTH_LIMIT = 100
_FILTERS = {1, 2, 3, 4, 32000}
"""deflate, shuffle, fletcher32, szip, lzf"""


def h5py_module() -> ModuleType:
    """The `h5py` package.

    Raises:
        BackendError: it is not installed.
    """
    from importlib import import_module

    try:
        return import_module("h5py")
    except ImportError:
        raise BackendError(f"HDF5 files need the h5py package: {install('neuromorphic')}") from None


def read_hdf5(path: Path, entry: str, kind: str, *, byte_limit: int = BYTE_LIMIT) -> Tree:
    """The group `entry` of a file: nested dictionaries of arrays, strings and lists of strings.

    Raises:
        SourceError: no such file, no HDF5, no such entry, so that it is no `kind`; links out of
            it, or too large.
        BackendError: the `h5py` package is missing.
    """
    h5py = h5py_module()
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    try:
        with h5py.File(path, "r") as file:
            if file.get(entry, getlink=True) is None:
                raise SourceError(f"{path}: no {kind}, it has no entry '{entry}'")
            tree = _Reader(h5py, path, byte_limit).child(file, entry, 0)
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise SourceError(f"{path}: not a readable HDF5 file: {error}") from None
    if not isinstance(tree, dict):
        raise SourceError(f"{path}: no {kind}, its entry '{entry}' is no group")
    return cast("Tree", tree)


def write_hdf5(content: Tree) -> bytes:
    """The bytes of a file with these groups and values; no times in it.

    Raises:
        BackendError: the `h5py` package is missing.
    """
    h5py = h5py_module()
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        _write(h5py, file, content)
    return buffer.getvalue()


def _write(h5py: ModuleType, group: h5py.Group, content: Tree) -> None:
    for name, value in content.items():
        if isinstance(value, Mapping):
            _write(h5py, group.create_group(name), cast("Tree", value))
            continue
        array = np.asarray(value)
        options: dict[str, object] = {"track_times": False}
        if isinstance(value, str) or array.dtype == object:
            options["dtype"] = h5py.string_dtype()
        elif array.nbytes >= _PACKED_FROM:
            options["compression"] = "gzip"
        group.create_dataset(name, data=value, **options)


class _Reader:
    """Counts what it reads."""

    def __init__(self, h5py: ModuleType, path: Path, byte_limit: int) -> None:
        self.h5py = h5py
        self.path = path
        self.bytes_left = byte_limit
        self.entries_left = ENTRY_LIMIT

    def child(self, group: Any, name: str, depth: int) -> object:
        where = f"{self.path}: {group.name.rstrip('/')}/{name}"
        self.entries_left -= 1
        if self.entries_left < 0 or depth > _DEPTH_LIMIT:
            raise SourceError(
                f"{where}: more than {ENTRY_LIMIT} entries, or deeper than {_DEPTH_LIMIT} levels"
            )
        if not isinstance(group.get(name, getlink=True), self.h5py.HardLink):
            raise SourceError(f"{where}: links are not followed; store the value itself")
        item = group[name]
        if isinstance(item, self.h5py.Group):
            return {key: self.child(item, key, depth + 1) for key in item}
        if not isinstance(item, self.h5py.Dataset):
            raise SourceError(f"{where}: expected a group or values")
        return self.values(item, where)

    def values(self, item: Any, where: str) -> object:
        plist = item.id.get_create_plist()
        filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
        if item.is_virtual or item.external or not filters <= _FILTERS:
            raise SourceError(
                f"{where}: its values are in another file, or packed by a filter other than gzip, "
                "lzf and szip"
            )
        text = self.h5py.check_string_dtype(item.dtype) is not None
        if item.shape is None or (not text and item.dtype.kind not in "biuf"):
            raise SourceError(f"{where}: expected numbers or strings, got {item.dtype}")
        self.bytes_left -= item.size * max(item.dtype.itemsize, 1)
        if self.bytes_left < 0:
            raise SourceError(f"{where}: the file holds more values than the limit allows")
        value = item[()]
        if text:
            return value.tolist() if item.shape else _text(value)
        return value


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
