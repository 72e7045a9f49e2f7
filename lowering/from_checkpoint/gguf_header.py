"""What stands before the tensors of a GGUF file: metadata, and where each tensor is.

The reader of the package `gguf` makes two arrays of each word and each number: 10 s and 650 MB for
the words of Llama 3, 3 GB for a list of four million numbers; and it knows no types of forks. Here,
what a file says of its own sizes is believed as far as the file reaches. Not here: what metadata
mean (`gguf_file`), blocks (`gguf_trits`).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
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


class Header(NamedTuple):
    """What a file says of itself.

    Attributes:
        fields: numbers and texts; of lists of numbers `_KEPT` alone, as arrays.
        lists: of texts.
        places: of the tensors, by name.
    """

    fields: Mapping[str, object]
    lists: Mapping[str, Sequence[str]]
    places: Mapping[str, Place]


def read_header(path: Path) -> Header:
    """The header of a file.

    Raises:
        SourceError: the file cannot be read, or is damaged.
        BackendError: the package `gguf` is missing.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as problem:
        raise SourceError(f"'{path}': {problem.strerror}") from None
    except ValueError:
        raise SourceError(f"'{path}' is no GGUF file: it is empty") from None
    with content:
        return _Reader(content, f"'{path}'").header()


class _Reader:
    """Reads from the beginning of a file on."""

    def __init__(self, content: mmap.mmap, what: str) -> None:
        self.content, self.what, self.place = content, what, 4
        self.fields, self.lists = dict[str, object](), dict[str, Sequence[str]]()

    def damaged(self, how: str) -> NoReturn:
        raise SourceError(f"{self.what} is damaged: {how}")

    def header(self) -> Header:
        if self.content[:4] != b"GGUF":
            raise SourceError(f"{self.what} is no GGUF file")
        (version,) = self.numbers("I")
        if version not in _VERSIONS:
            raise SourceError(f"{self.what} is a GGUF file of version {version}; 2 and 3 are read")
        count, described = self.numbers("QQ")
        for _ in range(described):
            name = self.name()
            self.fields[name] = self.value(name)
        found: dict[str, Place] = {}
        for _ in range(count):
            name = self.name()
            if name in found:
                self.damaged(f"it holds '{name}' twice")
            found[name] = self.tensor(name)
        alignment = self.fields.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            self.damaged(f"tensors are aligned to {alignment!r}")
        start = -(-self.place // alignment) * alignment
        places = {name: place._replace(start=start + place.start) for name, place in found.items()}
        for name, place in places.items():
            if place.start + place.size > len(self.content):
                self.damaged(f"it ends within tensor '{name}'")
        return Header(self.fields, self.lists, places)

    def tensor(self, name: str) -> Place:
        """The entry of a tensor behind its name; the start is where tensors begin."""
        (axes,) = self.numbers("I")
        if not 0 < axes <= _MOST_AXES:
            self.damaged(f"tensor '{name}' has {axes} axes")
        *shape, kind, start = self.numbers(f"{axes}QIQ")
        if not 0 < prod(shape) <= _MOST_ELEMENTS:
            self.damaged(f"tensor '{name}' has the shape {shape[::-1]}")
        values, size, more = block_size(kind)
        if not values:
            raise SourceError(f"{self.what}: tensor '{name}' is of type {kind}, which is not known")
        if shape[0] % values:
            self.damaged(f"rows of tensor '{name}' are no whole blocks")
        return Place(tuple(shape[::-1]), kind, start, prod(shape) // values * size + more)

    def value(self, name: str) -> object:
        """A value of metadata; `None` for lists of texts, and of numbers that nobody asks for."""
        (kind,) = self.numbers("I")
        if kind == _TEXT:
            return self.text()
        if kind in _NUMBERS:
            return self.numbers(_NUMBERS[kind])[0]
        if kind != _LIST:
            self.damaged(f"'{name}' is of type {kind}")
        kind, count = self.numbers("IQ")
        if kind == _TEXT:
            self.lists[name] = [self.text() for _ in range(count)]
            return None
        if kind not in _NUMBERS:
            self.damaged(f"'{name}' is a list of type {kind}")
        content = self.skip(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        if name not in _KEPT:
            return None
        return np.frombuffer(self.content[content], f"<{_NUMBERS[kind]}")

    def name(self) -> str:
        """A text that is shown in messages."""
        name = self.text()
        if len(name) > _LONGEST_NAME or not name.isprintable():
            self.damaged("it holds a name that is none")
        return name

    def text(self) -> str:
        return self.content[self.skip(*self.numbers("Q"))].decode("utf-8", "replace")

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        """The next numbers, of types as `struct` calls them."""
        return struct.unpack(f"<{kinds}", self.content[self.skip(struct.calcsize(f"<{kinds}"))])

    def skip(self, size: int) -> slice:
        """Where the next bytes are, so many."""
        start, self.place = self.place, self.place + size
        if self.place > len(self.content):
            raise SourceError(f"{self.what} is damaged, or ends too soon")
        return slice(start, self.place)
