"""Three single bits that many outputs count, with any signs, as look-up tables that they share.

A sign only inverts the parity of three bits, so that one serves all outputs that count them; their
majority serves those whose signs are equal, all alike or all opposite. Two functions share a site.
Not here: numbers of several bits (`sharing`), whose signs do not come off.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .rows import Nets, Row, RowWriter
from .summing import Heap

_AT_ONCE = 64
"""Rows that are compared with all others in one step."""

_WORTH = 0.55
"""The sites that an output saves by a shared triple."""


@dataclass
class Triples:
    """Shared triples of single bits.

    Attributes:
        rows: of a site each.
        left: int8 [K, N], what is still to be counted.
        heaps: for each output the bits that it gets instead.
    """

    rows: list[Row] = field(default_factory=list[Row])
    left: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 0), np.int8))
    heaps: list[Heap] = field(default_factory=list[Heap])


def shared_triples(matrix: NDArray[np.int8], nets: Nets, given: list[int]) -> Triples:
    """Triples of the rows of a matrix of trits, the most common first.

    Args:
        matrix: [K, N].
        nets: for new ones.
        given: the net of each input.
    """
    result = Triples(left=matrix.copy(), heaps=[{} for _ in matrix.T])
    # For each first row about the most columns that it shares with two others: never too few.
    bounds = np.full(len(matrix), len(matrix.T))
    while True:
        count, rows = _most_common(packed(result.left != 0), bounds)
        if not count:
            return result
        outputs: list[int] = np.flatnonzero((result.left[rows] != 0).all(axis=0)).tolist()
        relations: dict[tuple[int, int], list[int]] = {}
        signs = result.left[np.ix_(rows, outputs)].T.tolist()
        for output, (first, *others) in zip(outputs, signs, strict=True):
            relations.setdefault((first * others[0], first * others[1]), []).append(output)
        if count * _WORTH <= (2 + len(relations)) // 2:
            return result
        _share(result, rows, relations, nets, [given[row] for row in rows])


def packed(present: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The columns of each row as bits of numbers."""
    padded = np.pad(present, ((0, 0), (0, -present.shape[1] % 64)))
    return np.packbits(padded, axis=1).view(np.uint64)


def _most_common(present: NDArray[np.uint64], bounds: NDArray[np.int_]) -> tuple[int, list[int]]:
    """The three rows that meet in most columns, and in how many; the bounds become exact."""
    exact: dict[int, list[int]] = {}
    while True:
        first = int(bounds.argmax())
        if first in exact or not bounds[first]:
            return int(bounds[first]), exact.get(first, [])
        beside = present[first + 1 :] & present[first]
        sizes = ones(beside)
        largest = np.argsort(sizes.max(initial=0) - sizes, kind="stable")[:_AT_ONCE]
        # Rows of fewer columns than two others have in common are none of those that meet most.
        least, *_ = _most_alike(beside[largest], bounds[first])
        places = np.flatnonzero(sizes >= least)
        bounds[first], *pair = _most_alike(beside[places], bounds[first])
        if bounds[first]:
            exact[first] = [first, *(first + 1 + places[pair]).tolist()]


def _most_alike(rows: NDArray[np.uint64], bound: int) -> tuple[int, int, int]:
    """The most columns that two rows have in common, at most `bound`, and the first two that do."""
    most, place = 0, (0, 0)
    for start in range(0, len(rows), _AT_ONCE):
        both = rows[start : start + _AT_ONCE, None] & rows[start:]
        meet = ones(both)
        np.fill_diagonal(meet, 0)  # symmetric: the first largest is above it
        here = int(meet.argmax())
        if meet.flat[here] > most:
            most = int(meet.flat[here])
            a, b = divmod(here, meet.shape[1])
            place = (start + a, start + b)
        if most == bound:
            break  # no other two meet more often
    return most, *place


def ones(bits: NDArray[np.uint64]) -> NDArray[np.integer]:
    """How many bits of the numbers along the last axis are set; of one number in a byte."""
    counts = np.bitwise_count(bits)
    return counts[..., 0] if bits.shape[-1] == 1 else counts.sum(axis=-1, dtype=np.int32)


def _share(
    result: Triples,
    rows: list[int],
    relations: dict[tuple[int, int], list[int]],
    nets: Nets,
    bits: list[int],
) -> None:
    """Put the parity and the majorities of three bits in their place."""
    functions: list[tuple[int, ...]] = [()]
    functions += [(0, int(a < 0), int(b < 0)) for a, b in relations]
    made: list[int] = []
    for start in range(0, len(functions), 2):
        writer = RowWriter(nets, 1)
        writer.shared(bits, functions[start : start + 2])
        row = writer.finished(carry=False, majority=len(functions) > start + 1)
        result.rows.append(row)
        made += row.outputs()
    for (_, outputs), majority in zip(relations.items(), made[1:], strict=True):
        signs = result.left[np.ix_(rows, outputs)] < 0
        odd = (signs.sum(axis=0) & 1).tolist()
        for output, parity, inverted in zip(outputs, odd, signs[0].tolist(), strict=True):
            heap = result.heaps[output]
            heap.setdefault(0, []).append(2 * made[0] + parity)
            heap.setdefault(1, []).append(2 * majority + inverted)
    result.left[np.ix_(rows, [j for outputs in relations.values() for j in outputs])] = 0
