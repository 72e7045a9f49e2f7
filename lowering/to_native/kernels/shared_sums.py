"""Which additions make sums by trits of the same inputs, with terms of two and four inputs shared.

Inputs are taken by twos that most outputs leave out. An output takes of a and b nothing, one of
them, a + b or a - b, or what is that but for its sign; whatever several take is made once. Of two
twos, what several outputs take of all four is made once as well. Twos go together by how many
additions that saves. With 21 outputs, of trits of which a fourth is 0 a weight costs 0.38
additions, 0.46 by twos alone; of those of which half are 0, 0.32 and 0.36.

Graphs without a bound on what is kept (`passes.adder_graph`) need fewer still, but more registers
than there are. Not here: instructions of a processor (`additions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from ....ir.arrays import Array

TWOS, FOURS = 3, 8
"""Registers beside those of the sums, for terms of two inputs, and of four."""
_GONE = -1
"""In the place of how many outputs leave two inputs out: one of them is taken."""
_FIRST, _SECOND, _SUM, _DIFFERENCE = 3, 1, 4, 2
"""What an output takes of a and b, as 3 for the first and 1 for the second with their signs."""
_TERMS = 9
"""What there may be of one two, each with its sign: numbers from -4 to 4."""


_OF_BOTH = np.array(
    [1 << n if n > _TERMS // 2 and n % _TERMS else 0 for n in range(_TERMS**2 // 2 + 1)], np.int64
)
"""A bit for each term of two twos, but for sign; none for those of one."""


class Instruction(NamedTuple):
    """`clear` a register, `load` input `a` into it, or `add` or `sub` registers `a` and `b`."""

    name: Literal["clear", "load", "add", "sub"]
    to: int
    a: int = 0
    b: int = 0


class _Two(NamedTuple):
    """Two inputs, or one; and what outputs take of them, int64 [outs] from -4 to 4."""

    inputs: tuple[int, ...]
    taken: Array


def instructions_of(trits: Array, registers: int) -> Iterator[Instruction]:
    """What makes all sums.

    Args:
        trits: int8 [outs, inputs].
        registers: beside those of the sums, which are the first: `TWOS` at least; with `FOURS`
            terms of four inputs are shared.
    """
    outs = len(trits)
    yield from (Instruction("clear", out) for out in range(outs))
    twos = [*_twos(trits)]
    for first, second in _fours(twos) if registers >= FOURS else [(two, None) for two in twos]:
        yield from _Four(first, second, outs).instructions()


def _twos(trits: Array) -> Iterator[_Two]:
    """All inputs that are taken, by twos that most outputs leave out."""
    void = (trits == 0).T.astype(np.float32)
    shared = void @ void.T
    shared[:, void.all(axis=1)] = _GONE
    for a in map(int, np.argsort(-void.sum(axis=1), kind="stable")):
        if shared[a, a] == _GONE:
            continue
        shared[:, a] = _GONE
        taken = _FIRST * trits[:, a].astype(np.int64)
        b = int(np.argmax(shared[a]))
        if shared[a, b] == _GONE:
            yield _Two((a,), taken)
            continue
        shared[:, b] = _GONE
        yield _Two((a, b), taken + _SECOND * trits[:, b])


def _fours(twos: list[_Two]) -> Iterator[tuple[_Two, _Two | None]]:
    """Twos by two as far as that saves additions, those first that save most."""
    if not twos:
        return
    taken = np.stack([two.taken for two in twos]).astype(np.int8)
    terms = np.abs(taken[:, None] * np.int8(_TERMS) + taken[None])
    made = np.bitwise_or.reduce(_OF_BOTH[terms], axis=2)
    some = (taken != 0).astype(np.float32)
    saved = some @ some.T - np.bitwise_count(made)
    rows, columns = np.nonzero(np.triu(saved, 1) > 0)
    order = np.argsort(-saved[rows, columns], kind="stable")
    left = dict(enumerate(twos))
    for a, b in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if a in left and b in left:
            yield left.pop(a), left.pop(b)
    yield from ((two, None) for two in left.values())


class _Four:
    """The additions for two twos, or one.

    Inputs are kept; of the first two its sum and difference as well, of the second one of them.
    """

    def __init__(self, first: _Two, second: _Two | None, outs: int) -> None:
        self._first, self._second, self._outs = first, second, outs
        self._common = np.zeros(outs, np.int64)
        if second is not None:
            terms = np.where(second.taken, first.taken, 0) * _TERMS
            terms += np.where(first.taken, second.taken, 0)
            found, counts = np.unique(np.abs(terms), return_counts=True)
            self._common = np.where(np.isin(np.abs(terms), found[counts > 1]), terms, 0)

    def instructions(self) -> Iterator[Instruction]:
        """All of them."""
        first, second, start = self._first, self._second, self._outs
        kept = _places(start, start + (2 if second is None else 3))
        for term, made in _made(first, kept):
            yield from made
            yield from self._added(first.taken, term, kept[term], self._common == 0)
        if second is None:
            return
        here, spare = _places(start + 4, start + 6), start + 7
        for term, made in _made(second, here):
            yield from made
            yield from self._added(second.taken, term, here[term], self._common == 0)
            for four in _terms(np.where(np.abs(second.taken) == term, self._common, 0)):
                out = int(np.argmax(np.abs(self._common) == four))
                other = int(first.taken[out])
                alike = bool(other * second.taken[out] > 0)
                yield _joined(alike, spare, kept[abs(other)], here[term])
                yield from self._added(self._common, four, spare)

    def _added(
        self, taken: Array, term: int, register: int, where: Array | None = None
    ) -> Iterator[Instruction]:
        """One term to or from each sum that has it."""
        found = np.abs(taken) == term
        for out in map(int, np.flatnonzero(found if where is None else found & where)):
            yield _joined(bool(taken[out] > 0), out, out, register)


def _places(first: int, last: int) -> dict[int, int]:
    """Registers of two inputs, their sum and, in the last, their difference."""
    return {_FIRST: first, _SECOND: first + 1, _SUM: first + 2, _DIFFERENCE: last}


def _made(two: _Two, places: dict[int, int]) -> Iterator[tuple[int, list[Instruction]]]:
    """Each term that is taken, and what makes it."""
    a, b = places[_FIRST], places[_SECOND]
    made = [Instruction("load", to, tap) for to, tap in zip((a, b), two.inputs, strict=False)]
    for term in _terms(two.taken):
        if term in (_SUM, _DIFFERENCE):
            made.append(_joined(term == _SUM, places[term], a, b))
        yield term, made
        made = []


def _terms(taken: Array) -> list[int]:
    """What is taken, but for signs."""
    return [int(term) for term in np.unique(np.abs(taken)) if term]


def _joined(add: bool, to: int, a: int, b: int) -> Instruction:
    return Instruction("add" if add else "sub", to, a, b)
