"""A document that fits its lines to a width: Wadler's pretty printer, as small as it gets.

P. Wadler, "A prettier printer" (2003), with the lookahead of C. Lindig, "Strictly pretty" (2000).
A document is a list of pieces; a `Group` is printed on one line if it fits, else each `Line` that
stands directly in it breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Line:
    """A possible line break; `flat` is what it prints where the group stays on one line."""

    flat: str = " "


@dataclass(frozen=True)
class IfBroken:
    """Text that is printed only where the group is broken (a trailing comma)."""

    text: str


class Hard(Enum):
    """A line break that always breaks; every group around it must have `broken` set."""

    LINE = 0


@dataclass(frozen=True)
class Indent:
    """Pieces whose line breaks go four columns further in."""

    pieces: Document


@dataclass(frozen=True)
class Group:
    """Pieces that are printed on one line if they fit; never if `broken`."""

    pieces: Document
    broken: bool = False


Piece = str | Line | IfBroken | Hard | Indent | Group
Document = list[Piece]

_Task = tuple[int, bool, Piece]


def has_hard_line(pieces: Document) -> bool:
    """Whether the pieces cannot be printed on one line."""
    for piece in pieces:
        if isinstance(piece, Indent):
            if has_hard_line(piece.pieces):
                return True
        elif isinstance(piece, Group):
            if piece.broken:
                return True
        elif piece is Hard.LINE or (isinstance(piece, str) and "\n" in piece):
            return True
    return False


def layout(pieces: Document, indent: int, width: int) -> str:
    """The text of a document whose first line begins at column `indent` (not printed)."""
    output: list[str] = []
    column = indent
    tasks: list[_Task] = [(indent, True, piece) for piece in reversed(pieces)]
    while tasks:
        margin, broken, piece = tasks.pop()
        if isinstance(piece, str):
            output.append(piece)
            head, newline, tail = piece.rpartition("\n")
            column = len(tail) if newline else column + len(tail)
            del head
        elif isinstance(piece, IfBroken):
            if broken:
                output.append(piece.text)
                column += len(piece.text)
        elif isinstance(piece, Indent):
            tasks += [(margin + 4, broken, inner) for inner in reversed(piece.pieces)]
        elif isinstance(piece, Group):
            flat = not piece.broken and _fits(piece.pieces, tasks, width - column)
            tasks += [(margin, not flat, inner) for inner in reversed(piece.pieces)]
        elif isinstance(piece, Line) and not broken:
            output.append(piece.flat)
            column += len(piece.flat)
        else:
            output.append("\n" + " " * margin)
            column = margin
    return "".join(output)


def _fits(pieces: Document, rest: list[_Task], room: int) -> bool:
    """Whether `pieces` on one line, and what follows up to its first line break, fit in `room`."""
    tasks: list[tuple[bool, Piece]] = [(False, piece) for piece in reversed(pieces)]
    position = len(rest)
    while room >= 0:
        if not tasks:
            if position == 0:
                return True
            position -= 1
            _, broken, piece = rest[position]
        else:
            broken, piece = tasks.pop()
        if isinstance(piece, str):
            head, newline, _ = piece.partition("\n")
            room -= len(head)
            if newline:
                return room >= 0
        elif isinstance(piece, IfBroken):
            room -= len(piece.text) if broken else 0
        elif isinstance(piece, Indent):
            tasks += [(broken, inner) for inner in reversed(piece.pieces)]
        elif isinstance(piece, Group):
            tasks += [(broken or piece.broken, inner) for inner in reversed(piece.pieces)]
        elif isinstance(piece, Line) and not broken:
            room -= len(piece.flat)
        else:
            return True
    return False
