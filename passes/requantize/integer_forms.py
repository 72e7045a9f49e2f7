"""Float values as sums of scaled integers: x = Σ_j s_j·I_j + o, with s_j and o known numbers.

The arithmetic behind `requantize`; nothing here changes the program. Scales and offsets are f64
arrays that broadcast to the value: one number, or one for each position on one axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, prod
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, axes_behind, axis_index
from ...dialects.traits import SelectsElements, has
from ..adder_graph.graph import around
from ..analysis.compile_time import literal_value
from ..analysis.magnitude import magnitude

Numbers = NDArray[np.float64]

Mean = tensor.AvgPoolOp | tensor.GlobalAvgPoolOp | tensor.ReduceMeanOp

ACCUMULATOR_LIMIT = 2**31 - 1

BIAS_ERROR = 1 / 4
"""How far, in steps of the result, rounding a bias to the unit of an accumulator may move it."""

GUARD_BITS = 16
"""Sums of several integers are formed on a grid finer by up to so many bits."""

PART_BITS = 28
"""Of values on a grid of their own, before a sign and room for sums."""

SUM_BITS = 30
"""Of sums of several terms, before a sign."""

FACTOR_LIMIT = 2.0**30 - 1
"""The largest factor that a multiplier and a shift express."""

DEAD_FACTOR = 2.0**-16
"""The factor of a channel whose accumulators are always 0, so that its bias carries the value."""


class NotIntegerError(Exception):
    """A float value that has no integer form; it stays in float."""


@dataclass(frozen=True)
class Grid:
    """The integers that stand for x: clamp(round(x / scale) + zero_point, low, high)."""

    scale: float
    zero_point: int = 0
    low: int = -ACCUMULATOR_LIMIT
    high: int = ACCUMULATOR_LIMIT
    element: Attribute = i8

    def level(self, number: float) -> int:
        """The integer of one real number."""
        exact = float(np.rint(np.float32(number) / np.float32(self.scale))) + self.zero_point
        return int(np.clip(exact, self.low, self.high))

    def limited(self, low: float | None = None, high: float | None = None) -> Grid:
        """The grid of min(max(x, low), high)."""
        return Grid(
            self.scale,
            self.zero_point,
            self.low if low is None else self.level(low),
            self.high if high is None else self.level(high),
            self.element,
        )


@dataclass(frozen=True)
class Term:
    """scale·value, for an integer tensor `value`."""

    value: SSAValue
    scale: Numbers


@dataclass(frozen=True)
class Combination:
    """Σ scale·value + offset."""

    terms: tuple[Term, ...]
    offset: Numbers

    def plus(self, other: Combination) -> Combination:
        """The sum of two values; one term for each integer tensor."""
        scales: dict[SSAValue, Numbers] = {}
        for term in (*self.terms, *other.terms):
            scales[term.value] = scales.get(term.value, np.array(0.0)) + term.scale
        terms = tuple(Term(value, scale) for value, scale in scales.items())
        return Combination(terms, self.offset + other.offset)

    def reach(self) -> float:
        """A bound of the size of the value."""
        sizes = (np.max(np.abs(t.scale) * magnitude(t.value), initial=0.0) for t in self.terms)
        return float(np.max(np.abs(self.offset), initial=0.0) + sum(sizes))

    def times(self, factor: Numbers) -> Combination:
        """The value times a known number, or one an axis position."""
        terms = tuple(Term(term.value, term.scale * factor) for term in self.terms)
        return Combination(terms, self.offset * factor)


@dataclass(frozen=True)
class Rescaling:
    """round((value + bias)·factor): one term, and the offset in the unit of its integers."""

    factor: Numbers
    bias: NDArray[np.int64]


def rescaling(term: Term, offset: Numbers, grid: Grid, error: float = BIAS_ERROR) -> Rescaling:
    """How scale·value + offset goes on `grid` in one step.

    Channels whose integers are always 0 get a factor of their own. A bias too large for an i32 is
    cut where the result is at a bound of the grid for every value.

    Raises:
        NotIntegerError: the offset cannot be expressed within `error` steps of the grid.
    """
    scale, offset, bound = np.broadcast_arrays(term.scale, offset, magnitude(term.value))
    dead = bound == 0
    factor = np.where(dead, DEAD_FACTOR, scale / grid.scale)
    if np.any(np.abs(factor) > FACTOR_LIMIT) or np.any((factor == 0) & (offset != 0)):
        raise NotIntegerError
    exact = np.divide(offset, factor * grid.scale, out=np.zeros_like(factor), where=factor != 0)
    room = np.maximum(ACCUMULATOR_LIMIT - bound, 0)
    bias = np.clip(np.rint(exact), -room, room)
    cut = np.abs(exact) > room
    reach = max(abs(grid.low - grid.zero_point), abs(grid.high - grid.zero_point)) + 1
    if np.any(cut & ((room - bound) * np.abs(factor) < reach)):
        raise NotIntegerError
    if np.any(~cut & (np.abs(exact - bias) * np.abs(factor) > error)):
        raise NotIntegerError
    return Rescaling(factor, bias.astype(np.int64))


def common_grid(combination: Combination, grid: Grid) -> tuple[Grid, int]:
    """The grid that terms go on before they are summed, and by how many bits it is finer.

    The most bits up to 16 with which no sum of terms leaves 30 bits. Where not even `grid` itself
    has room, each term is cut to its share of an i32.
    """
    size = combination.reach()
    bits = min(GUARD_BITS, floor(SUM_BITS - log2(max(size / grid.scale, 1.0))))
    limit = ACCUMULATOR_LIMIT
    if bits < 0:
        bits, limit = 0, limit // (len(combination.terms) + 1)
    return Grid(grid.scale * 2.0**-bits, 0, -limit, limit, i32), bits


def shaped(values: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """A scalar or a vector along `axis`, shaped to broadcast to a tensor of `rank` axes."""
    return values.reshape(-1, *[1] * axes_behind(axis, rank)) if values.ndim else values


def along_axis(values: NDArray[Any], rank: int) -> tuple[NDArray[Any], int]:
    """An array that varies along one axis at most as a scalar or a vector, and its axis.

    Raises:
        NotIntegerError: it varies along several axes.
    """
    if values.size and np.all(values == values.reshape(-1)[0]):
        return values.reshape(-1)[0], 1
    long = [axis for axis, size in enumerate(values.shape) if size != 1]
    if len(long) != 1:
        raise NotIntegerError
    return values.reshape(-1), long[0] + rank - values.ndim


def scalar(value: SSAValue) -> float:
    """A known number.

    Raises:
        NotIntegerError: the value is not known, or no scalar.
    """
    known = literal_value(value)
    if known is None or known.ndim:
        raise NotIntegerError
    return float(known)


def on_grid(op: tensor.DequantizeOp, grid: Grid) -> bool:
    """Whether the integers that `op` reads have the scale, zero point and type of `grid`."""
    try:
        same = scalar(op.scale) == grid.scale and scalar(op.zero_point) == grid.zero_point
    except NotIntegerError:
        return False
    return same and tensor_type(op.input).element_type == grid.element


def dequantized(op: tensor.DequantizeOp) -> Combination:
    """What `op` computes, as one term and an offset.

    Raises:
        NotIntegerError: its scale or zero point is not known.
    """
    scale, zero = literal_value(op.scale), literal_value(op.zero_point)
    if scale is None or zero is None:
        raise NotIntegerError
    rank = tensor_type(op.input).get_num_dims()
    axis = axis_index(op.axis.value.data, rank) if scale.ndim or zero.ndim else 0
    factor = shaped(scale.astype(np.float64), axis, rank)
    return Combination(
        (Term(op.input, factor),), -factor * shaped(zero.astype(np.float64), axis, rank)
    )


def limits(op: Operation) -> tuple[float | None, float | None] | None:
    """The bounds that a clamping op puts on its operand."""
    if isinstance(op, tensor.ReluOp):
        return 0.0, None
    if isinstance(op, tensor.Relu6Op):
        return 0.0, 6.0
    if isinstance(op, tensor.HardTanhOp):
        return -1.0, 1.0
    if isinstance(op, tensor.ClampOp):
        return (
            None if op.min is None else op.min.value.data,
            None if op.max is None else op.max.value.data,
        )
    return None


def takes_integers(op: object) -> TypeGuard[Operation]:
    """Whether an op does the same with the integers of a grid as with what they stand for."""
    return has(op, SelectsElements) or isinstance(op, tensor.PadToOp)


def interval(value: SSAValue) -> tuple[int, int]:
    """Bounds of the integers in `value`."""
    op = value.owner
    if isinstance(op, tensor.QuantizeOp | tensor.RequantizeOp):
        return op.low.value.data, op.high.value.data
    if isinstance(op, ternary.FusedOp) and op.low is not None and op.high is not None:
        return op.low.value.data, op.high.value.data
    if has(op, SelectsElements):
        return around(interval(operand) for operand in op.operands)
    size = int(magnitude(value).max())
    most = 127 if tensor_type(value).element_type == i8 else ACCUMULATOR_LIMIT
    return -size, min(size, most)


def part_grid(reach: float, before: float, spare: int) -> Grid:
    """The finest grid for values within ±reach that leaves `spare` bits for sums of several.

    It is made for the values alone: what becomes of them may shrink or stretch them.

    Args:
        reach: a bound of the values.
        before: a bound of what they were before they were cut, for whose sums there is room too.
        spare: how many bits are left free.

    Raises:
        NotIntegerError: there are no bits left, or the values are too large for numbers.
    """
    bits = PART_BITS - spare
    if bits < 1 or not isfinite(before):
        raise NotIntegerError
    scale = max(reach * 2.0**-bits, before * 2.0**-SUM_BITS) or 1.0
    most = ceil(reach / scale)
    return Grid(scale, 0, -most, most, i32)


def mean_count(op: Mean) -> int:
    """How many elements a mean is taken of."""
    if isinstance(op, tensor.AvgPoolOp):
        return prod(op.kernel.get_values())
    shape = tensor_type(op.operand).get_shape()
    axes = list(range(2, len(shape)))
    if isinstance(op, tensor.ReduceMeanOp):
        axes = [axis_index(axis, len(shape)) for axis in op.axes.get_values()]
    sizes = [shape[axis] for axis in axes]
    if DYNAMIC in sizes or 0 in sizes:
        raise NotIntegerError
    return prod(sizes)
