"""A graph of two-input additions and subtractions: its size, depth, widths and matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array

Node = tuple[int, int, int, int]
"""(a, b, sign, shift): the value v[a] + sign·(v[b] · 2^shift)."""


Term = tuple[int, int, int]
"""A value, its sign, and the power of two that it is multiplied by."""


@dataclass(frozen=True)
class InputRange:
    """The smallest and the largest value of an input."""

    low: int
    high: int

    @staticmethod
    def around(bounds: Iterable[tuple[int, int]]) -> InputRange:
        """The interval around some, of two numbers at least."""
        low, high = around(bounds)
        return InputRange(low, max(high, low + 1))

    @staticmethod
    def of_bits(bits: int, *, signed: bool = True) -> InputRange:
        """All values of `bits` bits, in two's complement or unsigned."""
        if signed:
            return InputRange(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return InputRange(0, (1 << bits) - 1)


def around(bounds: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The interval around some."""
    lows, highs = zip(*bounds, strict=True)
    return min(lows), max(highs)


def product_bounds(low: Array, high: Array, matrix: Array) -> tuple[Array, Array]:
    """The least and the largest x · M of each column, for x from `low` to `high`, [..., K]."""
    plus, minus = np.maximum(matrix, 0), np.maximum(-matrix, 0)
    return low @ plus - high @ minus, high @ plus - low @ minus


def width_of(low: int, high: int) -> int:
    """The bits that hold every integer in [low, high]; two's complement if `low` is negative."""
    if low >= 0:
        return max(high, 1).bit_length()
    return max(high if high > 0 else 0, -low - 1).bit_length() + 1


@dataclass(frozen=True)
class AdderGraph:
    """y = x · M as `ternary.adder_graph` states it: values 0 … inputs-1 are x, then the nodes."""

    inputs: int
    nodes: tuple[Node, ...]
    outputs: tuple[tuple[int, int], ...]
    """For each column of M the value and its sign; the sign 0 stands for a column of zeros."""

    @property
    def adders(self) -> int:
        """The number of additions and subtractions."""
        return len(self.nodes)

    def depths(self) -> list[int]:
        """For each value the most adders on a way to it from an input."""
        depths = [0] * self.inputs
        for a, b, _, _ in self.nodes:
            depths.append(1 + max(depths[a], depths[b]))
        return depths

    @property
    def depth(self) -> int:
        """The most adders on a way from an input to an output."""
        depths = self.depths()
        return max((depths[value] for value, sign in self.outputs if sign), default=0)

    def ranges(self, inputs: InputRange) -> list[tuple[int, int]]:
        """For each value the interval that it lies in, by interval arithmetic.

        Exact for the graphs of `optimize_matrix`, where no input reaches a node on two ways.
        """
        ranges = [(inputs.low, inputs.high)] * self.inputs
        for a, b, sign, shift in self.nodes:
            (low, high), (other_low, other_high) = ranges[a], ranges[b]
            if sign < 0:
                other_low, other_high = -other_high, -other_low
            ranges.append((low + (other_low << shift), high + (other_high << shift)))
        return ranges

    def bits(self, inputs: InputRange) -> int:
        """The sum of the widths of all adders: an estimate of the area (one LUT or so a bit)."""
        return sum(width_of(low, high) for low, high in self.ranges(inputs)[self.inputs :])

    def matrix(self) -> NDArray[np.int64]:
        """The matrix that the graph stands for, [inputs, outputs].

        Runs the graph on blocks of rows of the identity matrix, in at most 64 MB.
        """
        result = np.zeros((self.inputs, len(self.outputs)), np.int64)
        block = max(1, min(256, 2**24 // max(1, self.inputs + len(self.nodes))))
        for start in range(0, self.inputs, block):
            rows = np.eye(min(block, self.inputs - start), self.inputs, start, np.int32)
            result[start : start + block] = self.evaluate(rows)
        return result

    def evaluate(self, x: Array) -> Array:
        """x · M for x [batch, inputs], by the additions of the graph, in the type of x."""
        values = np.empty((self.inputs + len(self.nodes), len(x)), x.dtype)
        values[: self.inputs] = x.T
        for i, (a, b, sign, shift) in enumerate(self.nodes, self.inputs):
            values[i] = values[a] + sign * (values[b] << shift)
        result = np.zeros((len(x), len(self.outputs)), x.dtype)
        for j, (value, sign) in enumerate(self.outputs):
            if sign:
                result[:, j] = sign * values[value]
        return result


class Sums:
    """Adds terms, behind nodes that there are; what is added twice is added once."""

    def __init__(self, inputs: int, nodes: Iterable[Node] = ()) -> None:
        self.inputs = inputs
        self.nodes = list(nodes)
        self.known: dict[Node, int] = {}
        self.depths = AdderGraph(inputs, tuple(self.nodes), ()).depths()

    def narrow(self, terms: Iterable[Term]) -> Term:
        """The sum of terms, those of near places first; 0 of none."""
        terms = sorted(terms, key=_place)
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            rest = terms[-1:] if len(terms) % 2 else []
            terms = [self._pair(low, high) for low, high in pairs] + rest
        return terms[0] if terms else (0, 0, 0)

    def flat(self, terms: Iterable[Term]) -> Term:
        """The sum of terms, the least deep first; 0 of none."""
        heap = [(self.depths[term[0]], _place(term), term) for term in terms]
        heapify(heap)
        while len(heap) > 1:
            low, high = sorted((heappop(heap)[2], heappop(heap)[2]), key=_place)
            term = self._pair(low, high)
            heappush(heap, (self.depths[term[0]], _place(term), term))
        return heap[0][2] if heap else (0, 0, 0)

    def added(self, a: int, b: int, sign: int, shift: int) -> int:
        """The value of a node."""
        node = a, b, sign, shift
        if node not in self.known:
            self.known[node] = self.inputs + len(self.nodes)
            self.nodes.append(node)
            self.depths.append(1 + max(self.depths[a], self.depths[b]))
        return self.known[node]

    def _pair(self, low: Term, high: Term) -> Term:
        value = self.added(low[0], high[0], low[1] * high[1], high[2] - low[2])
        return value, low[1], low[2]


def _place(term: Term) -> int:
    return term[2]
