"""The rows that make a heap of weighted bits one number, or a shared heap smaller.

Not here: which heaps there are (`plan`), which ways to sum them are the cheapest (`search`), what a
row can do (`rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from .rows import FALSE_NET, TRUE, TRUE_NET, Nets, Row, RowWriter
from .search import MANY, Way

Heap = dict[int, list[int]]
"""For each weight the literals of its bits."""

Chain = list[tuple[bool, int]]
"""Positions of a row that is planned: whether it is an `A`, and its weight above the first one."""

_LONGEST = 64


@dataclass
class Sum:
    """A heap as one number.

    Attributes:
        rows: with their levels.
        word: its literals, the lowest first; 0 and 1 are constants.
    """

    rows: list[tuple[int, Row]] = field(default_factory=list[tuple[int, Row]])
    word: list[int] = field(default_factory=list[int])

    @cached_property
    def sites(self) -> int:
        """The look-up tables."""
        return sum(row.sites for _, row in self.rows)


def joined(*heaps: Heap) -> Heap:
    """All bits together."""
    result: Heap = {}
    for heap in heaps:
        for weight, bits in heap.items():
            if bits:
                result.setdefault(weight, []).extend(bits)
    return result


def negated(heap: Heap, constant: int) -> tuple[Heap, int]:
    """-(Σ bits + constant): all bits inverted, and another constant."""
    bits = {weight: [literal ^ 1 for literal in column] for weight, column in heap.items()}
    return bits, -constant - sum(len(column) << weight for weight, column in heap.items())


@lru_cache(maxsize=1 << 14)
def shapes(heights: tuple[int, ...], atoms: int) -> tuple[Chain, list[tuple[int, int]]]:
    """The longest row of full positions from the first weight on.

    Args:
        heights: bits of each weight that a position may have, at most `MANY`.
        atoms: 0 for `T` alone, 1 for `A` where the next weight has too few bits for a `T`, 2 for
            `A` at the start of a row in any case.

    Returns:
        The row; and for each of its beginnings, the last of which is all of it, the sites and the
        bits that it saves: 0 where it had better end with another position.
    """
    chain: Chain = []
    beginnings: list[tuple[int, int]] = []
    top, heights = len(heights), (*heights, 0, 0)
    linked, taken, weight, sites, saved = False, 0, 0, 0, 0
    while weight < top and len(chain) < _LONGEST:
        bits, above = heights[weight], heights[weight + 1]
        may_be_atom = bits > 4 and atoms and bits + linked >= 6 + (not chain) and weight + 1 < top
        if may_be_atom and (above < 3 or (atoms > 1 and not chain)):
            taken += 6 - linked + (not chain)
            chain.append((True, weight))
            linked, weight, sites = False, weight + 2, sites + 2
            saved = taken - sites - 1
            beginnings.append((sites, saved))
        elif bits >= 3:
            chain.append((False, weight))
            taken += 3 if linked or bits == 3 else 4
            linked, weight, sites = True, weight + 1, sites + 1
            # Three bits alone carry nothing.
            saved = taken - sites - 1 - (taken > 3)
            beginnings.append((sites, 0 if may_be_atom else saved))
        else:
            break
    if chain:
        beginnings[-1] = sites, saved
    return chain, beginnings


def _ordered(heap: Heap) -> None:
    """Put the inverted bits of each weight first, as `_take` wants them."""
    for bits in heap.values():
        bits[:] = [x for x in bits if x & 1] + [x for x in bits if not x & 1]


def _is_plain(literal: int) -> bool:
    return not literal & 1


def _take(bits: list[int], count: int, *, plain: bool) -> tuple[list[int], int | None]:
    """So many of ordered bits, the inverted ones; and before them one that is not, if wanted."""
    extra = bits.pop() if plain and bits and not bits[-1] & 1 else None
    taken = bits[:count]
    del bits[:count]
    return taken, extra


def apply(
    nets: Nets, level: int, heap: Heap, start: int, chain: Chain, given: Heap, constant: int
) -> Row:
    """Build a planned row of bits of the heap, which loses them; what comes out goes to `given`.

    A constant that has the bit of a first `T` enters as its carry.
    """
    writer = RowWriter(nets, level)
    extra = None
    for index, (is_atom, weight) in enumerate(chain):
        bits, linked = heap[start + weight], writer.has_majority
        if is_atom and not linked and bits[-1] & 1:
            # The sixth bit cannot be inverted.
            writer.ternary(_take(bits, 3, plain=False)[0])
            break
        if is_atom:
            if not index and len(bits) >= 7 and not bits[-2] & 1:
                seventh = _take(bits, 0, plain=True)[1]
                writer.carry_in = FALSE_NET if seventh is None else seventh >> 1
            writer.atom(*_take(bits, 5, plain=not linked))
        else:
            extra = bits.pop() if not linked and len(bits) >= 4 and not bits[-1] & 1 else None
            writer.ternary(bits[:3], extra)
            del bits[:3]
    # Three bits alone carry nothing.
    alone = len(writer) == 1 and extra is None
    if constant >> start & 1 and not chain[0][0] and not alone and not writer.carry_in:
        writer.carry_in = TRUE_NET
    row = writer.finished(carry=not alone)
    for weight, net in enumerate(row.sums, start):
        given.setdefault(weight, []).append(2 * net)
    for net in (row.majority, row.carry):
        if net is not None:
            given.setdefault(start + row.sites, []).append(2 * net)
    return row


def paired(nets: Nets, heap: Heap) -> tuple[Row, Heap]:
    """A row of two numbers; the heap has at most two bits of each weight."""
    twice = [weight for weight, bits in heap.items() if len(bits) == 2]
    low, high = min(twice), max(twice)
    taken = [heap.get(weight, []) for weight in range(low, high + 1)]
    writer = RowWriter(nets, 1 + nets.level([literal for bits in taken for literal in bits]))
    for bits in taken:
        writer.binary(bits)
    row = writer.finished(carry=True)
    assert row.carry is not None
    rest = {weight: list(bits) for weight, bits in heap.items() if not low <= weight <= high}
    given = {weight: [2 * net] for weight, net in enumerate((*row.sums, row.carry), low)}
    return row, joined(rest, given)


def squeezed(nets: Nets, heap: Heap) -> tuple[list[tuple[int, Row]], Heap]:
    """Rows as long as each saves three bits for two sites, and the heap that is left."""
    rows: list[tuple[int, Row]] = []
    while True:
        level = 1 + nets.level([literal for bits in heap.values() for literal in bits])
        given: Heap = {}
        _ordered(heap)
        for weight in sorted(heap):
            while True:
                heights = _heights(heap, max(heap) + 1)
                chain, beginnings = shapes(tuple(heights[weight:]), 0)
                if not chain or beginnings[-1][1] < 1.5 * beginnings[-1][0]:
                    break
                rows.append((level, apply(nets, level, heap, weight, chain, given, 0)))
        if not given:
            return rows, heap
        heap = joined(heap, given)


def _heights(heap: Heap, top: int) -> list[int]:
    """The bits of each weight below `top`, at most `MANY`."""
    heights = [0] * top
    for weight, bits in heap.items():
        heights[weight] = min(len(bits), MANY)
    return heights


@dataclass
class Summing:
    """A heap that becomes a number, level by level.

    Args:
        nets: numbers of new nets.
        constant: added to the bits.
        width: the bits of the result, which is right modulo 2^width.
    """

    nets: Nets
    constant: int
    width: int
    rows: list[tuple[int, Row]] = field(default_factory=list[tuple[int, Row]], init=False)

    def run(self, heap: Heap, way: Way) -> Sum:
        """The sum, by the rows of a way that was found for this heap."""
        heap = {weight: list(bits) for weight, bits in heap.items() if weight < self.width and bits}
        self.constant %= 1 << self.width
        first = len(self.nets.levels)
        planned: dict[int, list[tuple[int, int]]] = {}
        for level, start, positions in way.rows:
            planned.setdefault(level, []).append((start, positions))
        for level in range(way.start + 1, way.end):
            if level in planned:
                heap = self._one_level(heap, level, planned[level], way.atoms, first)
        word = self._final(heap, way.end)
        return Sum(self.rows, word)

    def _one_level(
        self, heap: Heap, level: int, planned: Sequence[tuple[int, int]], atoms: int, first: int
    ) -> Heap:
        """The heap behind the rows of one level."""
        late: Heap = {}
        ready: Heap = {}
        levels = self.nets.levels
        for weight, bits in heap.items():
            for bit in bits:
                part = ready if levels[bit >> 1] < level else late
                part.setdefault(weight, []).append(bit)
        for bits in ready.values():
            # Bits of rows go before others that are not inverted: each level costs a register.
            bits.sort(key=lambda x: (not x & 1, x < 2 * first))
        given: Heap = {}
        for start, positions in planned:
            heights = tuple(_heights(ready, self.width)[start:-1])
            chain = shapes(heights, atoms)[0][:positions]
            row = apply(self.nets, level, ready, start, chain, given, self.constant)
            self.rows.append((level, row))
            if row.carry_in == TRUE_NET:
                self.constant -= 1 << start
        return joined(ready, late, given)

    def _counts(self, heaps: Sequence[Heap]) -> list[int]:
        """The bits of each weight."""
        counts = [0] * self.width
        for heap in heaps:
            for weight, bits in heap.items():
                counts[weight] += len(bits)
        return counts

    def _lowest(self, counts: Sequence[int]) -> int:
        """The first weight whose bit of the result is not there already."""
        for weight, count in enumerate(counts):
            if count + (self.constant >> weight & 1) > 1:
                return weight
        return self.width

    def _final(self, heap: Heap, level: int) -> list[int]:
        """The number, by one row."""
        low = self._lowest(self._counts([heap]))
        word: list[int] = []
        for weight in range(low):
            bits = heap.get(weight, ())
            word.append(bits[0] if bits else self.constant >> weight & 1)
        if low == self.width:
            return word
        writer = RowWriter(self.nets, level)
        for weight in range(low, self.width):
            bits, constant = (
                sorted(heap.get(weight, ()), key=_is_plain),
                self.constant >> weight & 1,
            )
            if weight == low and constant:
                writer.carry_in, constant = TRUE_NET, 0
            linked = writer.has_majority
            bits += [TRUE] * constant
            if weight == self.width - 1:
                if not bits and not linked and len(writer):
                    row = writer.finished(carry=True)
                    self.rows.append((level, row))
                    assert row.carry is not None
                    return word + [2 * net for net in (*row.sums, row.carry)]
                writer.last(bits)
            elif len(bits) + linked <= 2:
                writer.binary(bits)
            else:
                extra = None
                if len(bits) > 3:
                    _, extra = _take(bits, 0, plain=True)
                writer.ternary(bits, extra)
        row = writer.finished(carry=False, majority=False)
        self.rows.append((level, row))
        return word + [2 * net for net in row.sums]


def waiting(
    rows: Iterable[tuple[int, Row]], word: Iterable[int], end: int, given: Iterable[int] = ()
) -> int:
    """The bits that rows give and that wait for others, or as a result for the level `end`.

    Args:
        rows: with their levels, which rise one after the other.
        word: the literals of the result.
        end: the level.
        given: nets that are there at the first level, and wait too.
    """
    made = dict.fromkeys(given, 1)
    read: dict[int, int] = {}
    for level, row in rows:
        made.update(dict.fromkeys(row.outputs(), level))
        read.update(dict.fromkeys(row.literals, level))
        read[2 * row.carry_in] = level
    read.update(dict.fromkeys(word, end + 1))
    last = read.get
    return sum([max(last(2 * n, lv), last(2 * n + 1, lv)) - lv for n, lv in made.items()])
