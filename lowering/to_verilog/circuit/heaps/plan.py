"""A product with a constant matrix of trits as rows of look-up tables: shared sums, then outputs.

Not here: in which cycle a row works (`retiming`), a circuit of it (`emission`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .....dialects.fabric import INPUTS
from .....passes.adder_graph.graph import product_bounds, width_of
from .....passes.adder_graph.retiming import Step, calm_cycles
from ...estimate.areas import Areas
from .rows import FALSE_NET, Nets, Row
from .search import NoSumError, Problem, Way, ways
from .sharing import Heights, Sharing, shared_rows
from .summing import Heap, Summing, joined, negated, waiting
from .triples import shared_triples

TRIES, _TRIES_WITHIN = 256, 96
"""Ways to sum each output, where there are few bits; the second one within a network, whose layers
take their time one after the other."""

_BITS_OF_TRIES, _BITS_OF_MANY = 800_000, 160_000
"""Bits that are summed in all ways together, about; where so few bits are summed that it is quick,
the second one by the root of the ways. Three ways at least."""

_IDLE = 0.2
"""What a register of a bit that waits counts, beside others: a site of a slice has two flip-flops,
of which a row's bits take little more than one."""

FEWEST_BITS, MOST_BITS = 500, 150_000
"""Bits of all outputs that are planned: with fewer there is little to save, and a circuit of plain
arithmetic is what people read; with more it would take minutes."""

_AGAIN = 4
"""How often more ways are tried for the few outputs that take the most levels."""

_SHARING_LEVELS = 2
"""Levels that shared sums may take."""

_MORE_LEVELS = 3
"""Levels beyond those needed that are tried."""


@dataclass(frozen=True)
class Input:
    """A number that goes in, times a power of two.

    Attributes:
        low: the least that it can be; negative for two's complement.
        high: the largest.
        shift: the power of two.
    """

    low: int
    high: int
    shift: int = 0

    @property
    def width(self) -> int:
        """Its bits."""
        return width_of(self.low, self.high)

    @property
    def heights(self) -> Heights:
        """The bits of each weight."""
        return (0,) * self.shift + (1,) * self.width


@dataclass(frozen=True)
class Word:
    """One output: a number of so many bits, and an offset.

    Attributes:
        literals: the lowest first; 0 and 1 are constants.
        low: the least that the number of the literals can be; negative for two's complement.
        high: the largest.
        offset: what is to be added to that number.
    """

    literals: tuple[int, ...]
    low: int
    high: int
    offset: int

    @property
    def is_inverted(self) -> bool:
        """Whether some bit is the inverse of one that a row gives."""
        return any(literal & 1 for literal in self.literals)


@dataclass(frozen=True)
class HeapPlan:
    """Rows in an order in which each comes after those that it reads.

    Attributes:
        inputs: the numbers that go in.
        nets: of each input's bits, the lowest first.
        rows: with their levels, from 1 on.
        words: the outputs.
    """

    inputs: tuple[Input, ...]
    nets: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, Row], ...]
    words: tuple[Word, ...]

    @cached_property
    def sites(self) -> int:
        """The look-up tables."""
        return sum(row.sites for _, row in self.rows)

    @cached_property
    def levels(self) -> int:
        """The rows on the longest way."""
        return max((level for level, _ in self.rows), default=0)

    @cached_property
    def readers(self) -> int:
        """The most rows that read one bit."""
        counts = Counter(net for _, row in self.rows for net in row.reads())
        return max(counts.values(), default=1)

    @cached_property
    def registers(self) -> int:
        """The flip-flops, with a register behind each level."""
        given = [net for nets in self.nets for net in nets]
        literals = [literal for word in self.words for literal in word.literals]
        return waiting(self.rows, literals, self.levels, given)


def is_worth_planning(matrix: NDArray[np.int8], inputs: Sequence[Input], *, exact: bool) -> bool:
    """Whether rows may take less than other forms, and are found in a time that can be waited for.

    Sums of a few bits that thresholds follow are look-up tables of theirs.
    """
    bits = np.array([given.width for given in inputs]) @ (matrix != 0)
    single = not exact and bits.max(initial=0) <= INPUTS
    return bool(not single and FEWEST_BITS <= bits.sum() <= MOST_BITS)


def heap_plan(
    matrix: NDArray[np.int8],
    inputs: Sequence[Input],
    areas: Areas,
    *,
    exact: bool = True,
    tries: int | None = None,
) -> HeapPlan:
    """Rows for x · M.

    Args:
        matrix: [K, N] of trits.
        inputs: what each of the K numbers is.
        areas: of the family, by which sums are compared.
        exact: whether an output is wanted as it is; else it is a number without a sign and an
            offset.
        tries: ways to sum each output; by default as many as there is time for.

    Raises:
        NoSumError: an output is summed in none of the ways that are tried, or may leave 64 bits.
    """
    if tries is None:
        bits = int((np.array([given.width for given in inputs]) @ (matrix != 0)).sum())
        tries = max(3, _BITS_OF_TRIES // max(bits, 1), (_BITS_OF_MANY // max(bits, 1)) ** 2)
        tries = min(TRIES if exact else _TRIES_WITHIN, tries)
    return _Planner(matrix, inputs, areas, exact, tries).plan()


@dataclass(frozen=True)
class _Task:
    """An output: bits, a constant that is added to them, and the bounds of that sum."""

    heap: Heap
    constant: int
    low: int
    high: int
    offset: int

    @property
    def width(self) -> int:
        """The bits of the sum."""
        return width_of(self.low, self.high)


class _Planner:
    def __init__(
        self,
        matrix: NDArray[np.int8],
        inputs: Sequence[Input],
        areas: Areas,
        exact: bool,
        tries: int,
    ) -> None:
        self.inputs, self.areas, self.exact, self.tries = inputs, areas, exact, tries
        self.matrix = matrix
        ends = [(given.low << given.shift, given.high << given.shift) for given in inputs]
        if 128 * sum(abs(end) for pair in ends for end in pair) >= 2**63:
            raise NoSumError("its sums may have more than 64 bits")
        low, high = np.array(ends, np.int64).T
        lows, highs = product_bounds(low, high, matrix.astype(np.int64))
        self.bounds: list[tuple[int, int]] = list(zip(lows.tolist(), highs.tolist(), strict=True))
        self.nets = Nets()
        self.rows: list[tuple[int, Row]] = []
        self.input_nets: list[tuple[int, ...]] = []
        self.heaps: list[tuple[Heap, int]] = []
        for given in inputs:
            nets = tuple(self.nets.new(0) for _ in range(given.width))
            self.input_nets.append(nets)
            self.heaps.append(_heap_of(given, nets))
        self.extra: list[Heap] = [{} for _ in matrix.T]
        self.left = matrix
        sharing_levels = _SHARING_LEVELS
        if all(given == Input(0, 1) for given in inputs):
            triples = shared_triples(matrix, self.nets, [nets[0] for nets in self.input_nets])
            self.rows += [(1, row) for row in triples.rows]
            self.extra, self.left, sharing_levels = triples.heaps, triples.left, 0
        heights = [given.heights for given in inputs]
        self.sharing = Sharing(self.left, heights, sharing_levels)

    def plan(self) -> HeapPlan:
        for terms in self.sharing.nodes:
            heap, constant = self._gathered(terms)
            parts = [self.sharing.heights[source] for source, _ in terms]
            rows, heap = shared_rows(self.nets, heap, parts)
            self.rows += rows
            self.heaps.append((heap, constant))
        tasks = [self._task(output) for output in range(len(self.sharing.sums))]
        problems = [self._problem(task) for task in tasks]
        options = ways(problems, self.tries, 0)
        if not all(options):
            raise NoSumError
        least = self._flattened(problems, options)
        widths = [task.width for task in tasks]
        choices = [self._ending(least + more, options, widths) for more in range(_MORE_LEVELS)]
        _, _, chosen = min(choices, key=lambda choice: choice[:2])
        return self._placed(tasks, chosen)

    def _flattened(self, problems: Sequence[Problem], options: list[list[Way]]) -> int:
        """Try more ways for the outputs that all others would wait for; the levels needed then."""
        for again in range(1, _AGAIN + 1):
            fewest = [min(option.level for option in sums) for sums in options]
            slow = [output for output, level in enumerate(fewest) if level == max(fewest)]
            if len(slow) * 4 > len(options):
                break
            more = ways([problems[output] for output in slow], self.tries, again)
            for output, found in zip(slow, more, strict=True):
                options[output] += found
        return max(min(option.level for option in sums) for sums in options)

    def _ending(
        self, end: int, options: Sequence[Sequence[Way]], widths: Sequence[int]
    ) -> tuple[float, int, list[Way]]:
        """About what the cheapest sums of at most so many levels cost, the levels, and the sums."""
        chosen = [min((o for o in found if o.level <= end), key=self._cost) for found in options]
        waiting = sum((end - way.level) * width for way, width in zip(chosen, widths, strict=True))
        return sum(map(self._cost, chosen)) + self.areas.kept(0, _IDLE * waiting), end, chosen

    def _cost(self, way: Way) -> float:
        return self.areas.kept(way.sites, _IDLE * way.waiting)

    def _placed(self, tasks: Sequence[_Task], chosen: Sequence[Way]) -> HeapPlan:
        """The plan with these ways."""
        words: list[Word] = []
        rows, base = list(self.rows), len(self.nets.levels)
        for way, task in zip(chosen, tasks, strict=True):
            summed = Summing(self.nets, task.constant, task.width).run(task.heap, way)
            rows += summed.rows
            words.append(Word(tuple(summed.word), task.low, task.high, task.offset))
        steps = [Step(tuple(row.reads()), tuple(row.outputs())) for _, row in rows]
        ready = [0] * (1 + max((net for nets in self.input_nets for net in nets), default=0))
        results = {literal >> 1 for word in words for literal in word.literals} - {FALSE_NET}
        levels = calm_cycles(steps, [1] * len(self.nets.levels), ready, results, held=True)
        del self.nets.levels[base:]
        ordered = sorted(zip(levels, (row for _, row in rows), strict=True), key=lambda r: r[0])
        return HeapPlan(tuple(self.inputs), tuple(self.input_nets), tuple(ordered), tuple(words))

    def _gathered(self, terms: Iterable[tuple[int, int]]) -> tuple[Heap, int]:
        heaps: list[Heap] = []
        total = 0
        for source, sign in terms:
            heap, constant = self.heaps[source]
            if sign < 0:
                heap, constant = negated(heap, constant)
            heaps.append(heap)
            total += constant
        return joined(*heaps), total

    def _task(self, output: int) -> _Task:
        heap, constant = self._gathered(self.sharing.sums[output].items())
        heap = joined(heap, self.extra[output])
        # A subtracted bit that is counted in a shared triple: -b = ~b - 1.
        column = self.matrix[:, output]
        constant -= int((column[self.left[:, output] == 0] < 0).sum())
        low, high = self.bounds[output]
        if self.exact:
            return _Task(heap, constant, low, high, 0)
        # The bits alone are never negative, but may reach further than the numbers do.
        width = width_of(0, high - low)
        offset = constant if width_of(0, high - constant) <= width else low
        return _Task(heap, constant - offset, low - offset, high - offset, offset)

    def _problem(self, task: _Task) -> Problem:
        """The bits of an output by level and weight."""
        levels = self.nets.levels
        latest = self.nets.level([literal for bits in task.heap.values() for literal in bits])
        counts = np.zeros((2, latest + 1, task.width), np.int32)
        for weight, bits in task.heap.items():
            for literal in bits if weight < task.width else ():
                counts[1 - (literal & 1), levels[literal >> 1], weight] += 1
        return Problem(counts[0], counts[1], task.constant, task.width)


def _heap_of(given: Input, nets: Sequence[int]) -> tuple[Heap, int]:
    """A number as bits and a constant; a sign bit goes in inverted: -b = ~b - 1."""
    heap: Heap = {given.shift + place: [2 * net] for place, net in enumerate(nets)}
    if given.low >= 0:
        return heap, 0
    top = given.shift + given.width - 1
    heap[top] = [2 * nets[-1] + 1]
    return heap, -1 << top
