"""A product with a known ternary matrix in folds: its numbers, sizes and constants.

In a cycle SIMD inputs meet PE columns. A weight is two bits in a ROM. Inputs count as unsigned
numbers u of w bits (in two's complement with the top bit inverted): a weight of 1 adds u, of -1 the
inverted bits of u, which is 2^w - 1 - u. What that is too much is the same for every input, so that
a column's constant takes it in: no negation costs an adder, and no sign is extended.

After Umuroglu et al. 2017 (FINN, arXiv 1612.07119), section 4.3, whose matrix-vector unit counts
for bits. Not here: the circuit (`folded_stage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ir.errors import OptionError
from ...adder_graph.graph import width_of
from .channel_functions import ChannelFunction, Staircase

Array = NDArray[Any]
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Folding:
    """How much of a product is done in a cycle.

    Attributes:
        pe: columns.
        simd: inputs of each.
    """

    pe: int
    simd: int


@dataclass(frozen=True, eq=False)
class Product:
    """x · M, and a function of each column's sum.

    Attributes:
        matrix: int8 [K, N] of trits.
        inputs: the least and the largest value of each input.
        function: of the sums.
    """

    matrix: Array
    inputs: tuple[Bounds, ...]
    function: ChannelFunction

    @property
    def shape(self) -> tuple[int, int]:
        """K and N."""
        k, n = self.matrix.shape
        return k, n

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The least and the largest sum of each column, int64 [N]."""
        return sum_bounds(self.matrix, self.inputs)

    @cached_property
    def outputs(self) -> list[Bounds]:
        """The least and the largest result of each column."""
        return self.function.bounds(*self.ends)

    @cached_property
    def beat_width(self) -> int:
        """Bits of all inputs together."""
        return sum(width_of(*bounds) for bounds in self.inputs)

    @cached_property
    def width(self) -> int:
        """Bits of an input in the circuit, the same for all."""
        lows, highs = zip(*self.inputs, strict=True)
        return width_of(min(lows), max(highs))

    @cached_property
    def signed(self) -> bool:
        """Whether inputs are in two's complement."""
        return min(low for low, _ in self.inputs) < 0

    @cached_property
    def columns(self) -> Array:
        """The matrix with the signs of a staircase, so that its thresholds are asked of x · M."""
        if isinstance(self.function, Staircase):
            return self.matrix * np.array(self.function.signs, np.int8)
        return self.matrix

    @cached_property
    def sums(self) -> tuple[int, int]:
        """The least and the largest number in an accumulator at the end, over all columns.

        A staircase needs no sign: accumulators start where the least sum is 0, and one number more
        than the largest stands for a threshold that nothing reaches.
        """
        low, high = sum_bounds(self.columns, self.inputs)
        if isinstance(self.function, Staircase):
            return 0, int((high - low).max()) + 1
        offsets = np.array(self.function.offsets)
        return int((low + offsets).min()), int((high + offsets).max())

    @property
    def sum_width(self) -> int:
        """Bits of an accumulator."""
        return width_of(*self.sums)

    @cached_property
    def starts(self) -> Array:
        """What each accumulator starts from, int64 [N]."""
        plus, minus = (self.columns > 0).sum(0), (self.columns < 0).sum(0)
        zero = 1 << (self.width - 1) if self.signed else 0
        extra = zero * plus + ((1 << self.width) - 1 - zero) * minus
        if isinstance(self.function, Staircase):
            return -sum_bounds(self.columns, self.inputs)[0] - extra
        return np.array(self.function.offsets, np.int64) - extra

    def thresholds(self) -> list[list[int]]:
        """A staircase's thresholds as accumulators compare with them: 2^k - 1 rising numbers each.

        Thresholds that are always reached are 0; where there are too few, the last ones are never
        reached.
        """
        assert isinstance(self.function, Staircase)
        low, _ = sum_bounds(self.columns, self.inputs)
        count = (1 << self.function.steps.bit_length()) - 1
        never = (1 << self.sum_width) - 1
        rows: list[list[int]] = []
        for row, least in zip(self.function.thresholds, low.tolist(), strict=True):
            moved = [min(max(t - least, 0), never) for t in row]
            rows.append(moved + [never] * (count - len(moved)))
        return rows


@dataclass(frozen=True, eq=False)
class FoldedProduct:
    """A product, and how it is folded.

    Attributes:
        product: what is computed.
        folding: how much of it in a cycle; columns and inputs are filled up with zeros.

    Raises:
        OptionError: more columns or inputs than there are, or none.
    """

    product: Product
    folding: Folding

    def __post_init__(self) -> None:
        k, n = self.product.shape
        pe, simd = self.folding.pe, self.folding.simd
        if not (1 <= pe <= n and 1 <= simd <= k):
            raise OptionError(
                f"a product {k}x{n} is folded by pe in [1, {n}] and simd in [1, {k}], "
                f"got pe={pe} and simd={simd}"
            )

    @property
    def folds(self) -> tuple[int, int]:
        """Groups of inputs and groups of columns."""
        k, n = self.product.shape
        return -(-k // self.folding.simd), -(-n // self.folding.pe)

    @property
    def cycles(self) -> int:
        """Cycles a beat."""
        inputs, columns = self.folds
        return inputs * columns

    def weight_words(self) -> list[int]:
        """The ROM of weights, [group of columns · groups of inputs + group of inputs].

        The weight of column p and input i of the groups is bits 2·(p·SIMD + i), 1 unless it is 0,
        and the next one, 1 if it is -1.
        """
        groups_in, groups_out = self.folds
        pe, simd = self.folding.pe, self.folding.simd
        k, n = self.product.shape
        padded = np.zeros((groups_in * simd, groups_out * pe), np.int8)
        padded[:k, :n] = self.product.columns
        blocks = padded.reshape(groups_in, simd, groups_out, pe).transpose(2, 0, 3, 1)
        bits = np.stack([blocks != 0, blocks < 0], axis=-1).reshape(self.cycles, -1)
        packed = np.packbits(bits, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]

    def start_words(self) -> list[int]:
        """The ROM of what accumulators start from, a word a group of columns."""
        return self.packed(self.product.starts.tolist())

    def packed(self, values: list[int]) -> list[int]:
        """Numbers of the accumulators' width, one a column, as a word a group of columns."""
        pe, width = self.folding.pe, self.product.sum_width
        words = [0] * self.folds[1]
        for column, value in enumerate(values):
            words[column // pe] |= (value % (1 << width)) << (column % pe * width)
        return words

    @cached_property
    def most_in_a_cycle(self) -> int:
        """The most weights that are not 0 among those of a column in a cycle."""
        k, n = self.product.shape
        padded = np.zeros((self.folds[0] * self.folding.simd, n), bool)
        padded[:k] = self.product.matrix != 0
        return int(padded.reshape(self.folds[0], self.folding.simd, n).sum(1).max())


def sum_bounds(matrix: Array, inputs: tuple[Bounds, ...]) -> tuple[Array, Array]:
    """The least and the largest sum of each column of [K, N], for inputs within their bounds."""
    low, high = np.array(inputs, np.int64).reshape(-1, 2).T
    plus, minus = (matrix > 0).astype(np.int64), (matrix < 0).astype(np.int64)
    return low @ plus - high @ minus, high @ plus - low @ minus
