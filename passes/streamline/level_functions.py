"""Float values that are a known function of one integer: what `streamline` reasons with.

A `LevelFunction` says which ops of the program lead from an integer (or a float argument) to a
value, element by element, and evaluates them at any points by the reference interpreter. A
`LevelGrid` is the special case scale·integer + offset. Nothing here changes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import Array
from ...dialects.traits import Elementwise, WorksAlong, has
from ...ir.errors import TritonError
from ..analysis.compile_time import evaluate, literal_value

Bounds = tuple[int, int]

LEVELS = 256
"""The most values that an activation may take; more are no quantisation."""

MOST_POINTS = 1 << 30
"""A function with more integers times channels is not evaluated at all of them."""

_PIECE = 1 << 20
"""So many integers times channels are evaluated at a time."""

_CLOSE = 1e-6
"""How far, relatively, floats may lie from the grid that they stand for."""

_ROUNDED = 2.0**-22
"""How far a multiple of a step may lie from it, for its size, by the roundings that made it."""


def is_step(op: Operation) -> bool:
    """Whether each element of the result of `op` depends on one element of each operand."""
    if isinstance(op, ternary.TernarizeOp):  # other rules and scales take means
        return op.threshold is not None and op.seed is None and op.scale is None
    return has(op, Elementwise) or isinstance(
        op, tensor.BatchNormOp | tensor.DequantizeOp | tensor.MultiThresholdOp | tensor.QuantizeOp
    )


@dataclass(frozen=True)
class LevelGrid:
    """scale·root + offset, with integers of `bounds` in `root`.

    Attributes:
        exactly: integers [n] to the floats that they stand for, where those were rounded.
    """

    root: SSAValue
    scale: float
    offset: float
    bounds: Bounds
    exactly: Callable[[Array], Array] | None = None

    def real(self, points: Array) -> Array:
        """What integers [n] stand for."""
        if self.exactly is not None:
            return self.exactly(points)
        return points.astype(np.float64) * self.scale + self.offset


@dataclass(frozen=True)
class LevelFunction:
    """A value as a function of each element of `root`.

    Attributes:
        root: integers, or a float argument.
        bounds: of the integers; `None` for floats.
        entry: the value of the program that `lift` gives.
        lift: points [n] to an array of the rank of `entry`, the points on axis 0 and one value
            for each channel, or one for all, on the others.
        steps: ops that lead from `entry` to `value`, in program order.
        value: the value of the program.
    """

    root: SSAValue
    bounds: Bounds | None
    entry: SSAValue
    lift: Callable[[Array], Array]
    value: SSAValue
    steps: tuple[Operation, ...] = ()

    def at(self, points: Array) -> Array:
        """The values at points of the root, as `lift` lays them out.

        Raises:
            NoFunctionError: an op does not work on values laid out so.
        """
        known: dict[SSAValue, Array] = {self.entry: self.lift(points)}
        for op in self.steps:
            assert isinstance(op, InferredOp)
            operands = _by_channel(op, [_operand(value, known) for value in op.operands])
            try:
                with np.errstate(all="ignore"):
                    results = evaluate(op, operands)
            except (TritonError, ValueError, VerifyException) as error:
                raise NoFunctionError(str(error)) from None
            known.update(zip(op.results, results, strict=True))
        return known[self.value]

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """The integers of the root in order and the values there, [points, channels], in pieces.

        Raises:
            NoFunctionError: the root holds floats, or too many integers.
        """
        if self.bounds is None:
            raise NoFunctionError("its input is no integer")
        low, high = self.bounds
        channels = self.lift(np.array([low])).size
        if (high - low + 1) * channels > MOST_POINTS:
            raise NoFunctionError(
                f"its input has {high - low + 1} values in each of {channels} channels, which is "
                "too many; quantise its weights or what it takes to fewer bits"
            )
        count = max(_PIECE // channels, 1)
        for first in range(low, high + 1, count):
            points = np.arange(first, min(first + count, high + 1))
            yield points, columns(self.at(points))

    def changes(self) -> Iterator[tuple[Array, Array]]:
        """As `pieces`, with what each value is above that of the integer before; 0 for the first.

        Raises:
            NoFunctionError: as `pieces`.
        """
        before = None
        for _, values in self.pieces():
            wide = values.astype(np.float64)
            yield values, np.diff(wide, axis=0, prepend=wide[:1] if before is None else before)
            before = wide[-1:]

    def then(self, op: Operation, others: Sequence[LevelFunction]) -> LevelFunction:
        """The function of the result of `op`, whose operands have this function and `others`."""
        steps = {step: None for each in (self, *others) for step in each.steps}
        ordered = sorted([*steps, op], key=_position)
        return LevelFunction(
            self.root, self.bounds, self.entry, self.lift, op.results[0], tuple(ordered)
        )


class NoFunctionError(Exception):
    """A value that is no function of one integer; it stays as it is."""


def _operand(value: SSAValue, known: dict[SSAValue, Array]) -> Array:
    if value in known:
        return known[value]
    array = literal_value(value)
    if array is None:
        raise NoFunctionError("an operand is not known")
    return array


def _by_channel(op: Operation, operands: list[Array]) -> list[Array]:
    """Operands of a step, values that are the same in all channels repeated for its parameters."""
    if has(op, Elementwise):
        return operands
    along = op.get_trait(WorksAlong)
    axis = 1 if along is None else along.axes(op)[0]
    first, *parameters = operands
    counts = [len(parameter) for parameter in parameters if parameter.ndim]
    if first.shape[axis] == 1 and max(counts, default=1) > 1:
        first = np.repeat(first, max(counts), axis)
    return [first, *parameters]


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)


def columns(values: Array) -> Array:
    """Values laid out by `lift`, as [points, channels].

    Raises:
        NoFunctionError: they vary along two axes, or not along the points.
    """
    if sum(size != 1 for size in values.shape[1:]) > 1:
        raise NoFunctionError("values vary along several axes")
    if not np.isfinite(values.astype(np.float64)).all():
        raise NoFunctionError("values are not finite")
    return values.reshape(len(values), -1)


def of_type(value: SSAValue, numbers: Array) -> Array:
    """Numbers, f64, as elements of the type of `value`."""
    dtype = numpy_dtype(tensor_type(value).element_type)
    return (np.rint(numbers) if dtype.kind in "iu" else numbers).astype(dtype)


def channels_on(values: SSAValue, axis: int, vector: Array) -> Array:
    """A vector of channels, laid out as `lift` does for one point."""
    shape = [1] * tensor_type(values).get_num_dims()
    shape[axis] = vector.size
    return vector.reshape(shape)


def affine(function: LevelFunction) -> tuple[Array, Array] | None:
    """Scale and offset of each channel, if values are scale·integer + offset; scales are not 0.

    Raises:
        NoFunctionError: as `LevelFunction.pieces`.
    """
    if function.bounds is None or function.bounds[0] == function.bounds[1]:
        return None
    low, high = function.bounds
    ends = columns(function.at(np.array([low, high]))).astype(np.float64)
    scale = (ends[1] - ends[0]) / (high - low)
    if not (scale != 0).all():
        return None
    offset = ends[0] - scale * low
    near = _CLOSE * np.abs(ends).max() + np.abs(scale) * 1e-3
    for points, values in function.pieces():
        if not (np.abs(scale * points[:, None] + offset - values) <= near).all():
            return None
    return scale, offset


def is_order(function: LevelFunction) -> bool:
    """Whether larger integers stand for larger values, the same ones in all channels.

    Raises:
        NoFunctionError: as `LevelFunction.pieces`.
    """
    for index, (values, steps) in enumerate(function.changes()):
        others = steps if index else steps[1:]
        if not ((values == values[:, :1]).all() and (others > 0).all()):
            return False
    return True


def levels_of(function: LevelFunction) -> NDArray[Any] | None:
    """The values that a function takes; `None` for more than `LEVELS`.

    Raises:
        NoFunctionError: as `LevelFunction.pieces`.
    """
    found = np.zeros(0)
    for values, steps in function.changes():
        found = np.unique(np.concatenate([found, values[0], values[steps != 0]]))
        if len(found) > LEVELS:
            return None
    return found


def channel_levels(function: LevelFunction) -> list[NDArray[Any]] | None:
    """The values that a function takes in each channel; `None` for more than `LEVELS` in one.

    Raises:
        NoFunctionError: as `LevelFunction.pieces`.
    """
    found: list[NDArray[Any]] = []
    for values, steps in function.changes():
        found = found or [np.zeros(0)] * values.shape[1]
        for channel, known in enumerate(found):
            column = values[:, channel]
            new = np.concatenate([known, column[:1], column[steps[:, channel] != 0]])
            found[channel] = np.unique(new)
            if len(found[channel]) > LEVELS:
                return None
    return found


def with_common_step(
    grids: Sequence[LevelGrid], *, offsets: bool
) -> tuple[float, list[int], list[int]]:
    """A step that all grids are whole multiples of.

    Args:
        grids: with scales above 0.
        offsets: whether their offsets must become that of the first one.

    Returns:
        The step; what to multiply the integers of each grid by; what to add to them then.

    Raises:
        NoFunctionError: there is none that is at most `LEVELS` times finer.
    """
    scales = np.array([grid.scale for grid in grids])
    apart = np.array([grid.offset - grids[0].offset if offsets else 0.0 for grid in grids])
    for divisor in range(1, LEVELS + 1):
        step = float(scales.min()) / divisor
        factors, shifts = np.rint(scales / step), np.rint(apart / step)
        if factors.max() > LEVELS or np.abs(shifts).max() >= 2**24:
            break
        close = np.abs(factors * step - scales) <= _CLOSE * scales
        if close.all() and (np.abs(shifts * step - apart) <= 1e-4 * step).all():
            return step, factors.astype(int).tolist(), shifts.astype(int).tolist()
    raise NoFunctionError("its operands have scales or offsets without a common step")


def tabled(levels: Array, step: float, lowest: float, first: int) -> Callable[[Array], Array]:
    """Integers from `first` on to the levels lowest + n·step, each as it was rounded."""
    places = np.rint((levels - lowest) / step).astype(np.int64)
    table: Array = lowest + step * np.arange(max(int(places.max()), 1) + 1)
    table[places] = levels
    return lambda points: table[np.clip(points - first, 0, len(table) - 1)]


def uniform_levels(values: NDArray[Any]) -> tuple[float, float, int] | None:
    """Step, lowest value and number of steps of evenly spaced levels that values are some of.

    A single level gets a step above it that no value takes.
    """
    levels = np.unique(values.astype(np.float64))
    if len(levels) == 1:
        return abs(float(levels[0])) or 1.0, float(levels[0]), 1
    if len(levels) > LEVELS:
        return None
    span, least = float(levels[-1] - levels[0]), float(np.diff(levels).min())
    rounded = _ROUNDED * float(np.abs(levels).max())
    for divisor in range(1, LEVELS):
        # Levels that nobody takes may lie between any two neighbours. Two of these alone are too
        # near for their distance: each was rounded to a float.
        number = round(span * divisor / least)
        if number >= LEVELS:
            break
        step = span / number
        counts = (levels - levels[0]) / step
        near = 1e-3 if divisor == 1 else rounded / step
        if np.abs(counts - np.rint(counts)).max() <= near:
            return step, float(levels[0]), number
    return None
