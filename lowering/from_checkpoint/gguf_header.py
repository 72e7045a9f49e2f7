"""What stands before the tensors of a GGUF file: metadata, and where each tensor is.

The reader of the package `gguf` makes two arrays of each word and each number: 10 s and 650 MB for
the words of Llama 3, 3 GB for a list of four million numbers; and it knows no types of forks. Here,
what a file says of its own sizes is believed as far as the file reaches. Not here: what metadata
mean (`gguf_file`), blocks (`gguf_trits`).
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...ir.errors import SourceError
from .gguf_trits import block_size

_NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""Numbers by the types of metadata, as `struct` calls them."""
_TEXT, _LIST = 8, 9

_KEPT = ("tokenizer.ggml.token_type",)
"""Lists of numbers that are read."""

_VERSIONS = (2, 3)
_ALIGNMENT = 32
_LONGEST_NAME = 256
_MOST_AXES, _MOST_ELEMENTS = 4, 1 << 40


class Place(NamedTuple):
    """Where a tensor is.

    Attributes:
        shape: the outermost axis first.
        kind: number of its type.
        start: of its first byte in the file.
        size: in bytes.
    """

    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


class Header:
    """What a file says of itself, read from its beginning on.

    Attributes:
        fields: numbers and texts; of lists of numbers `_KEPT` alone, as arrays.
        lists: of texts.
        places: of the tensors, by name.

    Raises:
        SourceError: the file cannot be read, or is damaged.
        BackendError: the package `gguf` is missing.
    """

    def __init__(self, path: Path) -> None:
        self._what, self._place = f"'{path}'", 4
        self.fields: dict[str, object] = {}
        self.lists: dict[str, list[str]] = {}
        self.places: dict[str, Place] = {}
        try:
            with path.open("rb") as file:
                self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise SourceError(f"{self._what}: {problem.strerror}") from None
        except ValueError:
            raise SourceError(f"{self._what} is no GGUF file: it is empty") from None
        with self._content:
            self._read()

    def _damaged(self, how: str) -> NoReturn:
        raise SourceError(f"{self._what} is damaged: {how}")

    def _read(self) -> None:
        if self._content[:4] != b"GGUF":
            raise SourceError(f"{self._what} is no GGUF file")
        (version,) = self._numbers("I")
        if version not in _VERSIONS:
            raise SourceError(f"{self._what} is a GGUF file of version {version}; 2 and 3 are read")
        count, described = self._numbers("QQ")
        for _ in range(described):
            name = self._name()
            self.fields[name] = self._value(name)
        for _ in range(count):
            name = self._name()
            if name in self.places:
                self._damaged(f"it holds '{name}' twice")
            self.places[name] = self._tensor(name)
        alignment = self.fields.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            self._damaged(f"tensors are aligned to {alignment!r}")
        start = -(-self._place // alignment) * alignment
        for name, place in self.places.items():
            self.places[name] = place._replace(start=start + place.start)
            if self.places[name].start + place.size > len(self._content):
                self._damaged(f"it ends within tensor '{name}'")

    def _tensor(self, name: str) -> Place:
        """The entry of a tensor behind its name; the start is where tensors begin."""
        (axes,) = self._numbers("I")
        if not 0 < axes <= _MOST_AXES:
            self._damaged(f"tensor '{name}' has {axes} axes")
        *shape, kind, start = self._numbers(f"{axes}QIQ")
        if not 0 < prod(shape) <= _MOST_ELEMENTS:
            self._damaged(f"tensor '{name}' has the shape {shape[::-1]}")
        values, size, more = block_size(kind)
        if not values:
            unknown = f"tensor '{name}' is of type {kind}, which is not known"
            raise SourceError(f"{self._what}: {unknown}")
        if shape[0] % values:
            self._damaged(f"rows of tensor '{name}' are no whole blocks")
        return Place(tuple(shape[::-1]), kind, start, prod(shape) // values * size + more)

    def _value(self, name: str) -> object:
        """A value of metadata; `None` for lists of texts, and of numbers that nobody asks for."""
        (kind,) = self._numbers("I")
        if kind == _TEXT:
            return self._text()
        if kind in _NUMBERS:
            return self._numbers(_NUMBERS[kind])[0]
        if kind != _LIST:
            self._damaged(f"'{name}' is of type {kind}")
        kind, count = self._numbers("IQ")
        if kind == _TEXT:
            self.lists[name] = [self._text() for _ in range(count)]
            return None
        if kind not in _NUMBERS:
            self._damaged(f"'{name}' is a list of type {kind}")
        content = self._skip(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        if name not in _KEPT:
            return None
        return np.frombuffer(self._content[content], f"<{_NUMBERS[kind]}")

    def _name(self) -> str:
        """A text that is shown in messages."""
        name = self._text()
        if len(name) > _LONGEST_NAME or not name.isprintable():
            self._damaged("it holds a name that is none")
        return name

    def _text(self) -> str:
        return self._content[self._skip(*self._numbers("Q"))].decode("utf-8", "replace")

    def _numbers(self, kinds: str) -> tuple[Any, ...]:
        """The next numbers, of types as `struct` calls them."""
        return struct.unpack(f"<{kinds}", self._content[self._skip(struct.calcsize(f"<{kinds}"))])

    def _skip(self, size: int) -> slice:
        """Where the next bytes are, so many."""
        start, self._place = self._place, self._place + size
        if self._place > len(self._content):
            raise SourceError(f"{self._what} is damaged, or ends too soon")
        return slice(start, self._place)
