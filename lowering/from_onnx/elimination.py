"""Elimination in f64, with the greatest of a column as the divisor: determinants and solutions.

Golub & Van Loan 2013, "Matrix Computations", sections 3.4 and 4.2, for roots.
Matrices have few rows: every row is ops.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.shape import SLICE_END
from ..ir_builder import padded
from ..problems import ProblemError, refuse
from .onnx_builder import Builder
from .sizes import static

MOST_ROWS = 64
"""Matrices with more rows are refused."""


def _eliminated(e: Builder, x: SSAValue, rows: int) -> tuple[list[SSAValue], SSAValue]:
    """The rows of the triangle that x [.., rows, columns], f64, becomes, from their divisors on.

    Beside them is the determinant of the first `rows` columns.
    """
    rank, found = e.rank(x), list[SSAValue]()
    determinant: SSAValue | None = None
    for size in range(rows, 0, -1):
        column = e.cut(x, rank - 1, 0, 1)
        place = e.add(tensor.ArgmaxOp(e.add(tensor.AbsOp(column)), rank - 2, keepdims=True))
        places = e.along(e.indices(np.arange(size)), rank - 2, rank)
        chosen = e.add(tensor.CompareOp(place, places, "eq"))
        picked = e.add(tensor.WhereOp(chosen, x, e.number(0, x)))
        row = e.add(tensor.ReduceSumOp(picked, [rank - 2], keepdims=True))
        found.append(row)
        pivot = e.cut(row, rank - 1, 0, 1)
        # Another row than the first one as the divisor is one exchange, which turns the sign.
        moved = e.add(tensor.CompareOp(place, e.number(0, place), "ne"))
        signed = e.add(tensor.WhereOp(moved, e.add(tensor.NegOp(pivot)), pivot))
        determinant = signed if determinant is None else e.add(tensor.MulOp(determinant, signed))
        x = e.add(tensor.WhereOp(chosen, e.cut(x, rank - 2, 0, 1), x))
        if size > 1:
            below, rest = e.cut(x, rank - 2, 1), e.cut(row, rank - 1, 1)
            none = e.add(tensor.CompareOp(pivot, e.number(0, pivot), "eq"))
            divisor = e.add(tensor.WhereOp(none, e.number(1, pivot), pivot))
            factor = e.add(tensor.DivOp(e.cut(below, rank - 1, 0, 1), divisor))
            multiple = e.add(tensor.MulOp(factor, rest))
            x = e.add(tensor.SubOp(e.cut(below, rank - 1, 1), multiple))
    if determinant is None:
        raise ProblemError("it takes matrices without rows")
    return found, determinant


def _rows(e: Builder, x: SSAValue) -> int:
    rows, columns = static(e.sizes(x)[-2:], "matrices")
    if rows != columns or rows > MOST_ROWS:
        raise ProblemError(
            f"it takes matrices of {rows}x{columns}; at most {MOST_ROWS} rows are read"
        )
    return rows


def determinant_of(e: Builder, x: SSAValue) -> SSAValue:
    """The determinants of x [.., n, n], of its type."""
    _, found = _eliminated(e, e.convert(x, f64), _rows(e, x))
    return e.convert(e.reshape(found, e.sizes(x)[:-2]), x)


def solution_of(e: Builder, x: SSAValue, y: SSAValue | None = None) -> SSAValue:
    """What x [.., n, n] takes to y [.., n, m], whose other axes are those of x; the inverse of x
    where there is no y."""
    rows, rank = _rows(e, x), e.rank(x)
    if y is None:
        unit = e.reshape(e.known(np.eye(rows)), [*[1] * (rank - 2), rows, rows])
        y = e.stretch(unit, e.sizes(x))
    both = e.add(tensor.ConcatenateOp([e.convert(x, f64), e.convert(y, f64)], rank - 1))
    solved: SSAValue | None = None
    for size, row in enumerate(reversed(_eliminated(e, both, rows)[0]), 1):
        value = Formula(e, e.cut(row, rank - 1, size))
        if solved is not None:
            known = e.add(tensor.MatmulOp(e.cut(row, rank - 1, 1, size), solved))
            value = value - Formula(e, known)
        value = (value / Formula(e, e.cut(row, rank - 1, 0, 1))).value
        solved = value if solved is None else e.add(tensor.ConcatenateOp([value, solved], rank - 2))
    assert solved is not None
    return e.convert(solved, x)


def root_of(e: Builder, x: SSAValue) -> SSAValue:
    """L, a lower triangle with L·Lᵀ = x, of whose values x [.., n, n] gives the lower triangle.

    A matrix that is not positive definite has NaN or ∞.
    """
    rows, rank, kind = _rows(e, x), e.rank(x), x
    x, columns = e.convert(x, f64), list[SSAValue]()
    for size in range(rows, 0, -1):
        column = Formula(e, e.cut(x, rank - 1, 0, 1))
        column = column / column.cut(rank - 2, 0, 1).of(tensor.SqrtOp)
        low = [0] * (rank - 2) + [rows - size, 0]
        columns.append(padded(e, column.value, low, [0] * rank, 0))
        if size > 1:
            below = column.cut(rank - 2, 1, SLICE_END)
            across = Formula(e, e.move_axis(below.value, rank - 1, rank - 2))
            rest = Formula(e, e.cut(e.cut(x, rank - 2, 1), rank - 1, 1))
            x = (rest - below * across).value
    refuse(not columns, "it takes matrices without rows")
    return e.convert(e.add(tensor.ConcatenateOp(columns, rank - 1)), kind)
