"""What stands before the tensors of a GGUF file: metadata, and where each tensor is.

The package `gguf` makes arrays of every word of a vocabulary, which takes longer than all weights
do, and knows no types of forks. Here, what a file says of its own sizes is believed as far as the
file reaches. Not here: what metadata mean (`gguf_file`), blocks (`gguf_trits`).
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...ir.errors import SourceError

_NUMBERS = {
    kind: Struct(f"<{code}")
    for kind, code in {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}.items()
} | {10: Struct("<Q"), 11: Struct("<q"), 12: Struct("<d")}
"""Numbers by the types of metadata."""
_TEXT, _LIST = 8, 9
_KIND, _COUNT = _NUMBERS[4], _NUMBERS[10]

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
    """

    shape: tuple[int, ...]
    kind: int
    start: int


class Header(NamedTuple):
    """What a file says of itself.

    Attributes:
        fields: numbers, texts, and lists of texts; of lists of numbers `_KEPT` alone, as arrays.
        places: of the tensors, by name.
        size: bytes of the file.
    """

    fields: Mapping[str, object]
    places: Mapping[str, Place]
    size: int


def read_header(path: Path) -> Header:
    """The header of a file.

    Raises:
        SourceError: the file cannot be read, or is damaged.
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


class Texts(NamedTuple):
    """A list of so many texts as a file has it."""

    content: bytes
    number: int

    def texts(self) -> list[str]:
        """The texts."""
        place, found = 0, list[str]()
        for _ in range(self.number):
            start = place + _COUNT.size
            place = start + _COUNT.unpack_from(self.content, place)[0]
            found.append(self.content[start:place].decode("utf-8", "replace"))
        return found


class _Reader:
    """Reads from the beginning of a file on."""

    def __init__(self, content: mmap.mmap, what: str) -> None:
        self.content, self.what, self.place = content, what, 0

    def damaged(self, how: str) -> NoReturn:
        raise SourceError(f"{self.what} is damaged: {how}")

    def header(self) -> Header:
        if self.content[:4] != b"GGUF":
            raise SourceError(f"{self.what} is no GGUF file")
        self.place = 4
        version = self.number(_KIND)
        if version not in _VERSIONS:
            raise SourceError(f"{self.what} is a GGUF file of version {version}; 2 and 3 are read")
        count, described = self.number(_COUNT), self.number(_COUNT)
        fields: dict[str, object] = {}
        for _ in range(described):
            name = self.name()
            value = self.value(self.number(_KIND), name)
            if value is not None:
                fields[name] = value
        found: dict[str, Place] = {}
        for _ in range(count):
            name = self.name()
            if name in found:
                self.damaged(f"it holds '{name}' twice")
            found[name] = self.tensor(name)
        alignment = fields.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            self.damaged(f"tensors are aligned to {alignment!r}")
        start = -(-self.place // alignment) * alignment
        places = {name: place._replace(start=start + place.start) for name, place in found.items()}
        return Header(fields, places, len(self.content))

    def tensor(self, name: str) -> Place:
        """The entry of a tensor behind its name; the start is where tensors begin."""
        axes = self.number(_KIND)
        if not 0 < axes <= _MOST_AXES:
            self.damaged(f"tensor '{name}' has {axes} axes")
        shape = tuple(self.number(_COUNT) for _ in range(axes))[::-1]
        if not 0 < prod(shape) <= _MOST_ELEMENTS:
            self.damaged(f"tensor '{name}' has the shape {list(shape)}")
        return Place(shape, self.number(_KIND), self.number(_COUNT))

    def value(self, kind: int, name: str) -> object:
        """A value of metadata; `None` for a list of numbers that nobody asks for."""
        if kind == _TEXT:
            return self.text()
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind != _LIST:
            self.damaged(f"'{name}' is of type {kind}")
        kind, count = self.number(_KIND), self.number(_COUNT)
        start = self.place
        if kind in _NUMBERS:
            self.skip(count * _NUMBERS[kind].size)
            content = self.content[start : self.place] if name in _KEPT else None
            return None if content is None else np.frombuffer(content, _NUMBERS[kind].format)
        if kind != _TEXT:
            self.damaged(f"'{name}' is a list of type {kind}")
        for _ in range(count):
            self.skip(self.number(_COUNT))
        return Texts(self.content[start : self.place], count)

    def name(self) -> str:
        """A text that is shown in messages."""
        name = self.text()
        if len(name) > _LONGEST_NAME or not name.isprintable():
            self.damaged("it holds a name that is none")
        return name

    def text(self) -> str:
        size = self.number(_COUNT)
        self.skip(size)
        return self.content[self.place - size : self.place].decode("utf-8", "replace")

    def number(self, kind: Struct) -> Any:
        self.skip(kind.size)
        return kind.unpack_from(self.content, self.place - kind.size)[0]

    def skip(self, size: int) -> None:
        self.place += size
        if self.place > len(self.content):
            raise SourceError(f"{self.what} is damaged, or ends too soon")
