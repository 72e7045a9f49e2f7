"""A product with a known matrix in folds: its numbers, sizes and constants.

In a cycle SIMD inputs meet PE columns. A weight is two bits in a ROM. Inputs count as unsigned
numbers u of w bits (in two's complement with the top bit inverted): a weight of 1 adds u, of -1 the
inverted bits of u, which is 2^w - 1 - u. What that is too much is the same for every input, so that
a column's constant takes it in: no negation costs an adder, and no sign is extended.

Weights of several bits are digits of two's complement: a bit a weight in the ROM, the highest place
first, all inputs for each place. Between two places the accumulator is doubled. The highest place
of numbers that can be negative counts negative: there all inputs are inverted.

A convolution in groups is a product whose columns each take the inputs of their group alone. PE
columns are some of one group, or all of several: then each group has SIMD inputs of its own.

After Umuroglu et al. 2017 (FINN, arXiv 1612.07119), section 4.3, whose matrix-vector unit counts
for bits. Not here: the circuit (`folded_stage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .....ir.arrays import Array
from .....ir.errors import OptionError
from .....passes.adder_graph.graph import around, product_bounds, width_of
from .....passes.requantize.division import Division, division
from .channel_functions import ChannelFunction, Staircase

Bounds = tuple[int, int]

FEWEST_DIVIDED = 32
"""Staircases of fewer steps are not looked at as divisions: their thresholds take less."""


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
        matrix: integers [K, N].
        inputs: the least and the largest value of each input of a beat.
        function: of the sums.
        taken: int64 [G, K], for each of G groups of N / G columns the inputs that its columns take;
            by default one group that takes all in order.
        loadable: whether other weights can come into its memories: then all sizes are those for
            any weights of as many bits, and for any thresholds and offsets that meet them.
    """

    matrix: Array
    inputs: tuple[Bounds, ...]
    function: ChannelFunction
    taken: Array | None = None
    loadable: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """K and N."""
        k, n = self.matrix.shape
        return k, n

    @cached_property
    def places(self) -> Array:
        """For each group the inputs that its columns take, int64 [G, K]."""
        return np.arange(len(self.matrix))[None] if self.taken is None else self.taken

    @property
    def groups(self) -> int:
        """Of columns that take the same inputs."""
        return len(self.places)

    @cached_property
    def matrices(self) -> list[Array]:
        """The matrix of each group, [K, N / G]."""
        return np.split(self.matrix, self.groups, axis=1)

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The least and the largest sum of each column, int64 [N]."""
        if self.loadable:
            return widest_sums(self.matrix, self.inputs, self.places)
        return sum_bounds(self.matrix, self.inputs, self.places)

    @cached_property
    def outputs(self) -> list[Bounds]:
        """The least and the largest result of each column."""
        if not self.loadable:
            return self.function.bounds(*self.ends)
        if isinstance(self.function, Staircase):
            base = self.function.base
            return [(base, base + self.function.steps)] * self.shape[1]
        low, high = self.sums
        ends = np.clip([low, high], self.function.low, self.function.high).tolist()
        return [(ends[0], ends[1])] * self.shape[1]

    @cached_property
    def beat_width(self) -> int:
        """Bits of all inputs together."""
        return sum(width_of(*bounds) for bounds in self.inputs)

    @cached_property
    def width(self) -> int:
        """Bits of an input in the circuit, the same for all."""
        return width_of(*around(self.inputs))

    @cached_property
    def signed(self) -> bool:
        """Whether inputs are in two's complement."""
        return min(low for low, _ in self.inputs) < 0

    @cached_property
    def columns(self) -> Array:
        """The matrix with the signs of a staircase, so that its thresholds are asked of x · M."""
        matrix = self.matrix.astype(np.int64)
        if isinstance(self.function, Staircase):
            return matrix * np.array(self.function.signs, np.int64)
        return matrix

    @cached_property
    def is_ternary(self) -> bool:
        """Whether all weights are trits."""
        return bool(np.abs(self.matrix.astype(np.int64)).max(initial=0) <= 1)

    @cached_property
    def digits(self) -> int:
        """Digits of a weight: one trit, or the bits of the widest number."""
        if self.is_ternary:
            return 1
        most = int(np.abs(self.columns).max())
        ends = (-most, most) if self.loadable else (self.columns.min(), self.columns.max())
        return width_of(int(ends[0]), int(ends[1]))

    @cached_property
    def counts_negative(self) -> bool:
        """Whether the highest digit of weights of several counts negative."""
        return not self.is_ternary and (self.loadable or int(self.columns.min()) < 0)

    @cached_property
    def planes(self) -> Array:
        """The digits of weights, int64 [digits, K, N], the highest place first.

        Of trits one of -1, 0 and 1, otherwise bits of two's complement.
        """
        if self.is_ternary:
            return self.columns[None]
        places = np.arange(self.digits)[::-1]
        return self.columns[None] >> places[:, None, None] & 1

    @cached_property
    def _column_ends(self) -> tuple[Array, Array]:
        if self.loadable:
            # Either sign of a staircase has room.
            low, high = self.ends
            most = np.full(self.shape[1], max(int(-low.min()), int(high.max())))
            return -most, most
        return sum_bounds(self.columns, self.inputs, self.places)

    @cached_property
    def sums(self) -> tuple[int, int]:
        """The least and the largest number in an accumulator at the end, over all columns.

        A staircase needs no sign: accumulators start where the least sum is 0, and one number more
        than the largest stands for a threshold that nothing reaches.
        """
        low, high = self._column_ends
        if isinstance(self.function, Staircase):
            return 0, int((high - low).max()) + 1
        offsets = np.array(self.function.offsets)
        if self.loadable:
            largest = max(int(high.max()), int(np.abs(offsets).max(initial=0)))
            most = int(high.max()) + (1 << largest.bit_length()) - 1
            return -most, most
        return int((low + offsets).min()), int((high + offsets).max())

    @property
    def sum_width(self) -> int:
        """Bits of an accumulator."""
        return width_of(*self.sums)

    @cached_property
    def starts(self) -> Array:
        """What each accumulator starts from, int64 [N]."""
        zero, most = 1 << (self.width - 1) if self.signed else 0, (1 << self.width) - 1
        extra = zero * self.columns.sum(0)
        if self.is_ternary:
            extra = extra + most * (self.columns < 0).sum(0)
        elif self.counts_negative:
            extra = extra + (most << self.digits - 1) * self.planes[0].sum(0)
        if isinstance(self.function, Staircase):
            return -self._column_ends[0] - extra
        return np.array(self.function.offsets, np.int64) - extra

    def thresholds(self) -> list[list[int]]:
        """A staircase's thresholds as accumulators compare with them: 2^k - 1 rising numbers each.

        Thresholds that are always reached are 0; where there are too few, the last ones are never
        reached.
        """
        assert isinstance(self.function, Staircase)
        low, _ = self._column_ends
        count = (1 << self.function.steps.bit_length()) - 1
        never = (1 << self.sum_width) - 1
        rows: list[list[int]] = []
        for row, least in zip(self.function.thresholds, low.tolist(), strict=True):
            moved = [min(max(t - least, 0), never) for t in row]
            rows.append(moved + [never] * (count - len(moved)))
        return rows

    @cached_property
    def division(self) -> Division | None:
        """A staircase of many steps as a division, where it is one."""
        function = self.function
        if not isinstance(function, Staircase) or function.steps < FEWEST_DIVIDED:
            return None
        if self.loadable:
            return None
        low, high = self._column_ends
        rows = [
            [max(t - least, 0) for t in row]
            for row, least in zip(function.thresholds, low.tolist(), strict=True)
        ]
        return division(rows, (high - low).tolist())


@dataclass(frozen=True, eq=False)
class FoldedProduct:
    """A product, and how it is folded.

    Attributes:
        product: what is computed.
        folding: how much of it in a cycle; columns and inputs are filled up with zeros.

    Raises:
        OptionError: more columns or inputs than there are, none, or some of several groups.
    """

    product: Product
    folding: Folding

    def __post_init__(self) -> None:
        (k, n), own, folding = self.product.shape, self.own, self.folding
        whole = folding.pe <= own or folding.pe % own == 0
        if not (1 <= folding.simd <= k and 1 <= folding.pe <= n and whole):
            columns = f"pe in [1, {n}]"
            if own < n:
                columns = f"pe in [1, {own}] or a multiple of {own} up to {n}"
            raise OptionError(
                f"a product {k}x{n} takes {columns} and simd in [1, {k}], "
                f"got pe={folding.pe},simd={folding.simd}"
            )

    @property
    def lanes(self) -> int:
        """Groups of the product whose columns are done at once, each with inputs of its own."""
        return -(-self.folding.pe // self.own)

    @property
    def own(self) -> int:
        """Columns of a group of the product."""
        return self.product.shape[1] // self.product.groups

    @property
    def parts(self) -> int:
        """Groups of columns that one group of the product is done in, one where it is several."""
        return -(-self.own // self.folding.pe)

    @cached_property
    def folds(self) -> tuple[int, int]:
        """Groups of inputs and groups of columns."""
        return -(-self.product.shape[0] // self.folding.simd), len(self.columns)

    @cached_property
    def columns(self) -> Array:
        """The columns of the product in each group of PE, int64 [groups, PE]; -1 for none."""
        pe, own = self.folding.pe, self.own
        every = np.arange(self.product.shape[1])
        if self.lanes > 1:
            missing = -len(every) % pe
            return np.concatenate([every, np.full(missing, -1)]).reshape(-1, pe)
        filled = np.full((self.product.groups, self.parts * pe), -1)
        filled[:, :own] = every.reshape(-1, own)
        return filled.reshape(-1, pe)

    @cached_property
    def selections(self) -> Array:
        """The inputs that are chosen together, int64 [selections, lanes · SIMD]; -1 for none.

        Of a group of the product, or of as many as there are lanes, the groups of inputs in order.
        """
        simd, inputs = self.folding.simd, self.folds[0]
        filled = np.full((-(-self.product.groups // self.lanes) * self.lanes, inputs * simd), -1)
        filled[: self.product.groups, : self.product.shape[0]] = self.product.places
        words = filled.reshape(-1, self.lanes, inputs, simd).transpose(0, 2, 1, 3)
        return words.reshape(-1, self.lanes * simd)

    @property
    def steps(self) -> int:
        """Cycles of a group of columns: groups of inputs, for each digit of the weights."""
        return self.folds[0] * self.product.digits

    @property
    def cycles(self) -> int:
        """Cycles a beat."""
        return self.steps * self.folds[1]

    @property
    def weight_bits(self) -> int:
        """Bits of a weight in a word of the ROM."""
        return 2 if self.product.is_ternary else 1

    def weight_words(self) -> list[int]:
        """The ROM of weights, by group of columns, then digit, then group of inputs.

        The digit of column p and input i of the groups is bit p·SIMD + i; a trit is two bits at
        2·(p·SIMD + i), the lower one 1 unless it is 0, the upper one 1 if it is -1.
        """
        groups_in, groups_out = self.folds
        pe, simd = self.folding.pe, self.folding.simd
        places = self.columns.reshape(-1)
        digits = self.product.digits
        padded = np.zeros((digits, groups_in * simd, len(places)), np.int8)
        padded[:, : len(self.product.matrix), places >= 0] = self.product.planes
        split = padded.reshape(digits, groups_in, simd, groups_out, pe)
        blocks = split.transpose(3, 0, 1, 4, 2)
        if self.product.is_ternary:
            blocks = np.stack([blocks != 0, blocks < 0], axis=-1)
        bits = blocks.reshape(self.cycles, -1)
        packed = np.packbits(bits, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]

    def start_words(self) -> list[int]:
        """The ROM of what accumulators start from, a word a group of columns."""
        return self.packed(self.product.starts.tolist())

    def packed(self, values: list[int]) -> list[int]:
        """Numbers of the accumulators' width, one a column, as a word a group of columns."""
        width = self.product.sum_width
        words = [0] * self.folds[1]
        for value, (group, place) in zip(values, np.argwhere(self.columns >= 0), strict=True):
            words[group] |= (value % (1 << width)) << (int(place) * width)
        return words

    @cached_property
    def most_in_a_cycle(self) -> int:
        """The most weights that are not 0 among those of a column in a cycle."""
        if self.product.loadable:
            return self.folding.simd
        k, n = self.product.shape
        planes = self.product.planes
        padded = np.zeros((len(planes), self.folds[0] * self.folding.simd, n), bool)
        padded[:, :k] = planes != 0
        return int(padded.reshape(-1, self.folding.simd, n).sum(1).max())


def widest_sums(matrix: Array, inputs: tuple[Bounds, ...], places: Array) -> tuple[Array, Array]:
    """As `sum_bounds`, for any weights of as many bits as the largest of the matrix.

    The bound of either sign is the same, that of the largest column.
    """
    bits = int(np.abs(matrix.astype(np.int64)).max(initial=1)).bit_length()
    most = 1 if bits == 1 else 1 << bits
    reach = np.array([max(-low, high) for low, high in inputs], object)[places].sum(1).max()
    ends = np.full(matrix.shape[1], most * reach, _type_for(most * reach))
    return -ends, ends


def sum_bounds(matrix: Array, inputs: tuple[Bounds, ...], places: Array) -> tuple[Array, Array]:
    """The least and the largest sum of each column of [K, N], for inputs within their bounds.

    `places` are the inputs that each group of columns takes, [G, K].
    """
    widest = max((max(-low, high) for low, high in inputs), default=0)
    dtype = _type_for(widest * int(np.abs(matrix.astype(np.int64)).sum(0).max(initial=0)))
    columns = np.moveaxis(matrix.astype(dtype).reshape(len(matrix), len(places), -1), 1, 0)
    low, high = (
        np.array([ends[side] for ends in inputs], dtype)[places][:, None] for side in (0, 1)
    )
    ends = product_bounds(low, high, columns)
    return ends[0].reshape(-1), ends[1].reshape(-1)


def _type_for(most: int) -> type[np.int64] | type[object]:
    """What holds integers of at most this size: Python's own where int64 does not."""
    return np.int64 if most < 2**63 else object
