"""The fewest adders of products by few constants, each input or output alone, by exact search.

Each distinct odd multiple of an input, but 1, takes an adder at least, and most sets of numbers
take no more, or one or two. What one step reaches is made at once, as it has to be made somewhere;
where nothing is reached, another number is put in between: each of those that there are, a
level deeper after the other, so that the first graph found has the fewest adders (Dempster and
Macleod 1995, "Use of minimum-adder multiplier blocks in FIR digital filters"; Gustafsson 2007,
"Lower bounds for constant multiplication problems"). Sums may cancel, and digits of the numbers are
not fixed in advance. One output is the same network turned round: where a value had n readers, n
terms are summed.

A step shifts left, as in `AdderGraph`; steps that divide by powers of two are not looked for. Not
here: sums of inputs that several outputs share (`search`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .graph import AdderGraph, Node, Sums, Term


def constant_graph(matrix: NDArray[np.int64], fewer: int, budget: float) -> AdderGraph | None:
    """A graph that shares nothing but multiples, with the fewest adders that such a graph has.

    Where there are as many rows as columns or more, each column is a product of its own; else the
    multiples of each row are made, and then summed.

    Args:
        matrix: int64 [K, N], an odd number in each column that is not 0.
        fewer: the graph is to have fewer adders than so many.
        budget: units of work of about a microsecond, after which the search is given up.

    Returns:
        The graph; `None` where none was found.
    """
    inputs, outputs = matrix.shape
    by_columns = inputs >= outputs
    lines = matrix.T if by_columns else matrix
    searches = [_Search({_odd(abs(n)) for n in line.tolist() if n}) for line in lines]
    columns = int(np.count_nonzero(matrix.any(axis=0)))
    joined = int(np.count_nonzero(matrix)) - columns
    spare = fewer - joined - sum(len(search.numbers) for search in searches)
    for search in searches:
        search.left = budget
        if spare <= 0 or not search.run(len(search.numbers) + spare):
            return None
        budget = search.left
        spare -= len(search.steps) - len(search.numbers)
    sums = Sums(inputs)
    if by_columns:
        lists: list[list[int]] = matrix.T.tolist()
        totals = [
            _summed(sums, search, column) for search, column in zip(searches, lists, strict=True)
        ]
    else:
        terms: list[list[Term]] = [[] for _ in range(outputs)]
        for row, (search, numbers) in enumerate(zip(searches, matrix.tolist(), strict=True)):
            values = [row]
            for a, b, sign, shift in search.steps:
                values.append(sums.added(values[a], values[b], sign, shift))
            for column, number in enumerate(numbers):
                if number:
                    value, sign, place = search.term(number)
                    terms[column].append((values[value], sign, place))
        totals = [sums.flat(column) for column in terms]
    return AdderGraph(inputs, tuple(sums.nodes), tuple(total[:2] for total in totals))


def _summed(sums: Sums, search: _Search, column: list[int]) -> Term:
    """The sum of rows times numbers: the multiples turned round."""
    terms: list[list[Term]] = [[] for _ in search.values]
    for row, number in enumerate(column):
        if number:
            value, sign, place = search.term(number)
            terms[value].append((row, sign, place))
    for value in range(len(terms) - 1, 0, -1):
        a, b, sign, shift = search.steps[value - 1]
        total, own, place = sums.flat(terms[value])
        terms[a].append((total, own, place))
        terms[b].append((total, own * sign, place + shift))
    return sums.flat(terms[0])


def _odd(number: int) -> int:
    """A positive number without its powers of two."""
    return number >> (number & -number).bit_length() - 1


class _Search:
    """Multiples of one input.

    Attributes:
        numbers: those to be made, odd ones but 1.
        values: the numbers made, with their signs; the first is 1, the input.
        steps: how the others were.
        left: units of work that may still be done.
    """

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = sorted(numbers - {1})
        self.left = 0.0
        self.shifts = range(1, max(numbers, default=1).bit_length() + 2)
        self.limit = 1 << len(self.shifts)
        self.values = [1]
        self.steps: list[Node] = []
        self.known = {1: 0}
        self.depths = [0]

    def term(self, number: int) -> Term:
        """What a number, times a power of two, is made of."""
        odd = _odd(abs(number))
        value = self.known.get(odd, self.known.get(-odd, 0))
        factor = number // self.values[value]
        return value, 1 if factor > 0 else -1, abs(factor).bit_length() - 1

    def run(self, fewer: int) -> bool:
        """Whether all numbers are made in fewer steps than so many, and in the fewest."""
        return any(
            self._made(self.numbers, steps, frozenset())
            for steps in range(len(self.numbers), fewer)
        )

    def _made(self, wanted: list[int], steps: int, tried: frozenset[int]) -> bool:
        """Whether the numbers are made in so many steps; if not, everything is as it was.

        Args:
            wanted: those still to be made.
            steps: the most.
            tried: numbers that did not help before, and so need not be put in between.
        """
        start = len(self.steps)
        wanted = list(wanted)
        while step := min(filter(None, map(self._step, wanted)), default=None):
            self._take(step[1])
            wanted.remove(abs(self.values[-1]))
        spare = steps - (len(self.steps) - start) - len(wanted)
        if not wanted:
            return True
        if self.left >= 0 and spare > 0:
            between = self._reached()
            if spare == 1:
                helpful = set[int]().union(*map(self._before, wanted))
                between = {number: step for number, step in between.items() if number in helpful}
            for number in sorted(between.keys() - tried):
                self._take(between[number])
                if self._made(wanted, spare - 1 + len(wanted), tried):
                    return True
                self._take_back(1)
                tried |= {number}
        self._take_back(len(self.steps) - start)
        return False

    def _take(self, step: Node) -> None:
        a, b, sign, shift = step
        value = self.values[a] + sign * (self.values[b] << shift)
        self.known[value] = len(self.values)
        self.values.append(value)
        self.steps.append(step)
        self.depths.append(self._depth(a, b))

    def _take_back(self, count: int) -> None:
        for _ in range(count):
            self.steps.pop()
            self.depths.pop()
            del self.known[self.values.pop()]

    def _depth(self, a: int, b: int) -> int:
        return 1 + max(self.depths[a], self.depths[b])

    def _step(self, number: int) -> tuple[int, Node] | None:
        """The flattest step that makes a number or its negative, with its depth, if one does."""
        self.left -= len(self.values) * len(self.shifts)
        best: tuple[int, Node] | None = None
        for b, value in enumerate(self.values):
            for shift in self.shifts:
                other = value << shift
                for sign in (1, -1):
                    for total in (number, -number):
                        a = self.known.get(total - sign * other)
                        if a is not None:
                            step = self._depth(a, b), (a, b, sign, shift)
                            best = step if best is None else min(best, step)
        return best

    def _reached(self) -> dict[int, Node]:
        """The other numbers that a step makes, without their signs."""
        self.left -= len(self.values) ** 2 * len(self.shifts)
        made = {abs(value) for value in self.values}
        found: dict[int, Node] = {}
        for a, value in enumerate(self.values):
            for b, other in enumerate(self.values):
                for shift in self.shifts:
                    for sign in (1, -1):
                        number = abs(value + sign * (other << shift))
                        if number <= self.limit and number not in made:
                            found.setdefault(number, (a, b, sign, shift))
        return found

    def _before(self, number: int) -> set[int]:
        """The numbers with one of which a step makes this one."""
        self.left -= len(self.values) * len(self.shifts)
        found = set[int]()
        for value in map(abs, self.values):
            found |= {_odd(abs(number - value) or 1), _odd(number + value)}
            for shift in self.shifts:
                found |= {abs(number - (value << shift)), number + (value << shift)}
        for shift in self.shifts:
            for factor in ((1 << shift) - 1, (1 << shift) + 1):
                if not number % factor:
                    found.add(number // factor)
        return found
