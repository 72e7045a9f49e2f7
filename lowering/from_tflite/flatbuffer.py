"""Reads flatbuffers from strangers: every offset, length and string is checked against the file.

A table is a signed offset to a list of slots, each slot an offset from the table or 0 where the
field is absent (https://flatbuffers.dev/internals). Nothing is copied but text; vectors of numbers
are views. Not here: which field stands in which slot (`schema`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError

READS = 16
"""How often each byte of a file may be referred to, on average; honest files refer to it once."""

LONGEST_TEXT = 1 << 16
"""No name has more bytes."""


@dataclass
class Buffer:
    """The bytes of a file and what messages call it.

    Attributes:
        left: how many more bytes may be referred to: tables that share bytes cannot grow a small
            file without bounds.
    """

    data: bytes
    where: str
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = READS * len(self.data) + (1 << 16)

    def fail(self, position: int, what: str) -> SourceError:
        """The error for a defect at a byte."""
        return SourceError(f"{self.where}: a broken file: {what} at byte {position}")

    def number(self, position: int, kind: str) -> int | float:
        """One little-endian number, `kind` as in `struct`."""
        size = struct.calcsize(f"<{kind}")
        if not 0 <= position <= len(self.data) - size:
            raise self.fail(position, "a number outside the file")
        return struct.unpack_from(f"<{kind}", self.data, position)[0]

    def behind(self, position: int) -> int:
        """Where the offset at `position` leads."""
        return position + int(self.number(position, "I"))

    def vector(self, position: int, size: int) -> tuple[int, int]:
        """First byte and length of the vector at `position` with elements of `size` bytes."""
        count = int(self.number(position, "I"))
        if count * size > len(self.data) - position - 4:
            raise self.fail(position, f"a list of {count} elements outside the file")
        self.left -= count * size + 4
        if self.left < 0:
            raise self.fail(position, "lists that overlap too often")
        return position + 4, count

    def root(self) -> Table:
        """The table that the file begins with."""
        return Table(self, self.behind(0))


class Table:
    """One table; a field is named by its slot, and absent fields have defaults."""

    def __init__(self, buffer: Buffer, position: int) -> None:
        self.buffer, self.position = buffer, position
        self.slots = position - int(buffer.number(position, "i"))
        self.size = int(buffer.number(self.slots, "H"))
        if self.size < 4 or self.size % 2:
            raise buffer.fail(self.slots, f"a table with {self.size} bytes of slots")
        buffer.left -= 8
        if buffer.left < 0:
            raise buffer.fail(position, "tables that overlap too often")

    def place(self, slot: int) -> int | None:
        """Where a field stands; `None` where it is absent."""
        at = 4 + 2 * slot
        offset = int(self.buffer.number(self.slots + at, "H")) if at + 2 <= self.size else 0
        return self.position + offset if offset else None

    def scalar(self, slot: int, kind: str, default: int = 0) -> int | float:
        """A number, `kind` as in `struct`."""
        place = self.place(slot)
        return default if place is None else self.buffer.number(place, kind)

    def table(self, slot: int) -> Table | None:
        """A table."""
        place = self.place(slot)
        return None if place is None else Table(self.buffer, self.buffer.behind(place))

    def tables(self, slot: int) -> list[Table]:
        """The tables of a list."""
        place = self.place(slot)
        if place is None:
            return []
        start, count = self.buffer.vector(self.buffer.behind(place), 4)
        return [Table(self.buffer, self.buffer.behind(start + 4 * index)) for index in range(count)]

    def numbers(self, slot: int, dtype: str) -> Array | None:
        """A list of numbers as a view; `None` where it is absent."""
        place = self.place(slot)
        if place is None:
            return None
        little = np.dtype(dtype).newbyteorder("<")
        start, count = self.buffer.vector(self.buffer.behind(place), little.itemsize)
        return np.frombuffer(self.buffer.data, little, count, start)

    def text(self, slot: int) -> str:
        """A string; empty where it is absent.

        Raises:
            SourceError: it is long or not UTF-8.
        """
        place = self.place(slot)
        if place is None:
            return ""
        start, count = self.buffer.vector(self.buffer.behind(place), 1)
        if count > LONGEST_TEXT:
            raise self.buffer.fail(start, f"a name of {count} bytes")
        try:
            return self.buffer.data[start : start + count].decode("utf-8")
        except UnicodeDecodeError:
            raise self.buffer.fail(start, "a name that is not UTF-8 text") from None
