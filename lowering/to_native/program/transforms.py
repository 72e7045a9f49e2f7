"""The matrices of Winograd's convolutions with windows of 3×3, and code that multiplies by them.

Lavin and Gray 2016 (arXiv 1509.09308), sections 4.1 and 4.3. A tile d of places and a window g
become BᵀdB and GgGᵀ, which are multiplied place by place and summed over the channels; AᵀmA of a
sum m are places of the result. Not here: where tiles stand, loops around them (`tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i16, i32
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import width

Matrix = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Form:
    """One kind of tiles.

    Attributes:
        step: places of the result in a tile, on each axis.
        there, windows, back: Bᵀ, G and Aᵀ, as whole numbers.
        factors: what each row of G is multiplied by.
        kind: of sums, and of what windows are made of.
        element: of tiles and windows that are transformed.
        doubled: how often sums of the convolution are doubled in what comes out, which is 9 times
            as much besides.
    """

    step: int
    there: Matrix
    windows: Matrix
    back: Matrix
    factors: Sequence[float]
    kind: Attribute
    element: Attribute
    doubled: int = 0

    @property
    def side(self) -> int:
        """Places of the image in a tile, on each axis."""
        return len(self.there)

    @property
    def places(self) -> int:
        """Products in the place of those of a tile."""
        return self.side * self.side

    @property
    def reach(self) -> int:
        """The most that BᵀdB can be, by the difference of the most and the least of d, where one of
        them is above 0 and one below."""
        rows = [(sum(max(x, 0) for x in row), sum(max(-x, 0) for x in row)) for row in self.there]
        above = max(p * q + m * n for p, m in rows for q, n in rows)
        below = max(p * n + m * q for p, m in rows for q, n in rows)
        return max(above, below)


FLOATS = Form(
    2,
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    ((1, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 1)),
    ((1, 1, 1, 0), (0, 1, -1, -1)),
    (1.0, 0.5, 0.5, 1.0),
    f32,
    f32,
)
"""F(2×2, 3×3): 16 products for 36."""

INTEGERS = Form(
    4,
    (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    ((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 6)),
    ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 4)),
    (1.0,) * 6,
    i32,
    i16,
    6,
)
"""F(4×4, 3×3): 36 products for 144, 24·G in the place of G, but for a last row that is a quarter of
it, so that 16 bits hold windows of bytes; the last column of Aᵀ is 4 times as much. All is exact
modulo 2³²; 576 = 64 · 9 times the sums of the convolution come out."""

_INVERSE = pow(9, -1, 1 << 32)
"""By which multiples of 9 are divided modulo 2³²."""


def both(builder: Builder, matrix: Matrix, values: Sequence[SSAValue]) -> list[SSAValue]:
    """M v Mᵀ, for v row by row."""
    side = len(matrix[0])
    columns = [once(builder, matrix, values[n::side]) for n in range(side)]
    rows = [[column[n] for column in columns] for n in range(len(matrix))]
    return [value for row in rows for value in once(builder, matrix, row)]


def divided(builder: Builder, form: Form, value: SSAValue) -> SSAValue:
    """A sum of a convolution, of what comes out."""
    if not form.doubled:
        return value
    # By 9 first, modulo 2³², so that 32 bits need not hold 9 times as much.
    inverse = IntegerAttr(_INVERSE - (1 << 32 if _INVERSE >> 31 else 0), 32)
    factor = builder.insert(arith.ConstantOp(inverse)).result
    doubled = builder.insert(arith.MuliOp(value, factor)).result
    shift = builder.insert(arith.ConstantOp(IntegerAttr(form.doubled, 32))).result
    return builder.insert(arith.ShRSIOp(doubled, shift)).result


def scaled(builder: Builder, value: SSAValue, factor: float) -> SSAValue:
    """A value times a number, which is whole for integers."""
    if factor == 1:
        return value
    if value.type == f32:
        number = builder.insert(arith.ConstantOp(FloatAttr(factor, f32))).result
        return builder.insert(arith.MulfOp(value, number)).result
    number = IntegerAttr(int(factor), width(value.type))
    constant = builder.insert(arith.ConstantOp(number)).result
    return builder.insert(arith.MuliOp(value, constant)).result


def once(builder: Builder, matrix: Matrix, values: Sequence[SSAValue]) -> list[SSAValue]:
    """M v, of a matrix of small integers."""
    if values[0].type == f32:
        return [_row(builder, row, values) for row in matrix]
    matrix, values = _by_pairs(builder, matrix, values)
    results: list[SSAValue] = []
    while len(results) < len(matrix):
        row, *more = matrix[len(results) :]
        even, odd = _halves(row, more[0]) if more else ((), ())
        if any(even) and any(odd):
            half, other = (_row(builder, part, values) for part in (even, odd))
            results += [_sum(builder, half, other, minus=minus) for minus in (False, True)]
        else:
            results.append(_row(builder, row, values))
    return results


def _halves(row: Sequence[int], other: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """What two rows are the sum and the difference of, if every column is in one of both."""
    if any(abs(x) != abs(y) for x, y in zip(row, other, strict=True)):
        return (), ()
    even = [x if x == y else 0 for x, y in zip(row, other, strict=True)]
    return even, [x - y for x, y in zip(row, even, strict=True)]


def _by_pairs(
    builder: Builder, matrix: Matrix, values: Sequence[SSAValue]
) -> tuple[Matrix, Sequence[SSAValue]]:
    """The same product, with the sum and the difference of neighbours that rows take together."""
    rows, known = [[*row] for row in matrix], [*values]
    for k in range(len(values) - 1):
        pairs = [(row[k], row[k + 1]) for row in rows]
        if all(abs(x) == abs(y) for x, y in pairs) and len({x == y for x, y in pairs if x}) == 2:
            known += [_sum(builder, *values[k : k + 2], minus=minus) for minus in (False, True)]
            for row, (x, y) in zip(rows, pairs, strict=True):
                row[k : k + 2] = 0, 0
                row += [x, 0] if x == y else [0, x]
    return rows, known


def _row(builder: Builder, row: Sequence[int], values: Sequence[SSAValue]) -> SSAValue:
    """The sum of values times small integers."""
    common = gcd(*row)
    row = [factor // common for factor in row]
    best = max(row)
    first = row.index(1 if 1 in row else best) if best > 0 else row.index(min(row))
    total = scaled(builder, values[first], row[first])
    for place, factor in enumerate(row):
        if factor and place != first:
            term = scaled(builder, values[place], abs(factor))
            total = _sum(builder, total, term, minus=factor < 0)
    return scaled(builder, total, common)


def _sum(builder: Builder, x: SSAValue, y: SSAValue, *, minus: bool) -> SSAValue:
    """x + y, or x - y."""
    if x.type == f32:
        return builder.insert((arith.SubfOp if minus else arith.AddfOp)(x, y)).result
    return builder.insert((arith.SubiOp if minus else arith.AddiOp)(x, y)).result
