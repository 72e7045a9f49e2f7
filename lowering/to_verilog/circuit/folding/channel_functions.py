"""What follows a product, channel by channel, as one function of the sum.

Biases, relu, bounds, thresholds and rescaling are monotone functions of one number, with constants
a channel. A chain of them is either a sum with a bias between bounds (`Bounded`), or a staircase of
few steps (`Staircase`), whatever ops it was made of. Not here: how hardware computes either
(`activation`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from .....dialects import interpret, tensor
from .....dialects.elements import numpy_dtype
from .....dialects.inference import tensor_type
from .....dialects.traits import Elementwise, Increasing, has
from .....ir.arrays import Array
from .....passes.analysis.compile_time import literal_value
from .....passes.requantize.rescaling_fit import thresholds
from ..circuit_rules import holds_integers

MOST_STEPS = 255
"""Staircases with more steps are left to ordinary arithmetic."""

_FAR = 1 << 29
"""Sums that are as large in size as any whose function is asked, and still far from wrapping."""

_WIDE: dict[type[Operation], np.ufunc] = {
    tensor.AddOp: np.add,
    tensor.SubOp: np.subtract,
    tensor.MulOp: np.multiply,
    tensor.NegOp: np.negative,
}
"""Ops whose result could wrap around in its type."""


@dataclass(frozen=True)
class Bounded:
    """y = min(max(x + offset, low), high), with an offset a channel.

    Attributes:
        offsets: one a channel.
        low: the least result; `None` for no bound.
        high: the largest one.
    """

    offsets: tuple[int, ...]
    low: int | None = None
    high: int | None = None

    def bounds(self, low: Array, high: Array) -> list[tuple[int, int]]:
        """The least and the largest result of each channel, for sums in [low, high]."""
        ends = [np.clip(end + np.array(self.offsets), self.low, self.high) for end in (low, high)]
        return [(int(a), int(b)) for a, b in zip(*ends, strict=True)]


@dataclass(frozen=True)
class Staircase:
    """y = base + the number of thresholds ≤ sign·x.

    Attributes:
        base: for all channels.
        signs: 1 or -1 a channel; -1 where the function falls.
        thresholds: rising numbers, one row a channel; rows may be of different length.
        room: for so many thresholds a channel, where there are fewer.
    """

    base: int
    signs: tuple[int, ...]
    thresholds: tuple[tuple[int, ...], ...]
    room: int = 0

    @property
    def steps(self) -> int:
        """The most thresholds of a channel."""
        return max(self.room, *map(len, self.thresholds))

    def bounds(self, low: Array, high: Array) -> list[tuple[int, int]]:
        """The least and the largest result of each channel, for sums in [low, high]."""
        ends: list[tuple[int, int]] = []
        for sign, row, a, b in zip(self.signs, self.thresholds, low, high, strict=True):
            least, most = sorted((sign * int(a), sign * int(b)))
            ends.append((self.base + bisect_right(row, least), self.base + bisect_right(row, most)))
        return ends


ChannelFunction = Bounded | Staircase


def following(value: SSAValue) -> list[Operation]:
    """The monotone ops with constants that follow a product one after another, each alone."""
    ops: list[Operation] = []
    while (use := value.get_user_of_unique_use()) is not None and not isinstance(use, ReturnOp):
        if not _is_monotone(use) or not _takes_constants(use, value):
            break
        ops.append(use)
        (value,) = use.results
    return ops


def _is_monotone(op: Operation) -> bool:
    if has(op, Elementwise) and has(op, Increasing):
        return True
    return type(op) in _WIDE or isinstance(
        op,
        tensor.CompareOp | tensor.ConvertOp | tensor.MultiThresholdOp | tensor.RequantizeOp,
    )


def _takes_constants(op: Operation, value: SSAValue) -> bool:
    if isinstance(op, tensor.CompareOp) and op.predicate.data in ("eq", "ne"):
        return False
    others = [operand for operand in op.operands if operand is not value]
    ints = all(map(holds_integers, op.operands))
    known = all(literal_value(other) is not None for other in others)
    return ints and known and len(others) == len(op.operands) - 1


def channel_function(
    ops: Sequence[Operation], axis: int, low: Array, high: Array, *, whole: bool = False
) -> tuple[ChannelFunction, int]:
    """The longest beginning of `ops` that is one function a channel, and how many ops that is.

    Args:
        ops: as `following` finds them.
        axis: of the channels in what the first of them takes, not 0.
        low: the least sum of each channel, int64 [N].
        high: the largest one.
        whole: whether a staircase has all of its steps, also those that no such sum reaches.
    """
    chain = _Chain(axis, low, high)
    usable = chain.usable(ops)
    for count in range(len(usable), 0, -1):
        some = usable[:count]
        function = chain.bounded(some) or chain.staircase(some, whole=whole)
        if function is not None:
            return function, count
    return Bounded((0,) * len(low)), 0


class _Chain:
    def __init__(self, axis: int, low: Array, high: Array) -> None:
        self.axis = axis
        self.low, self.high = low.astype(np.int64), high.astype(np.int64)

    def usable(self, ops: Sequence[Operation]) -> list[Operation]:
        """The ops up to the first that mixes channels, or whose result could wrap around."""
        unmixed: list[Operation] = []
        ends = np.stack([self.low, self.high])
        for op in ops:
            after = self._once(op, ends)
            if after is None or self._wraps(op, ends, after):
                break
            unmixed.append(op)
            ends = after
        return unmixed

    def _operands(self, op: Operation, x: Array, *, wide: bool = False) -> list[Array]:
        """What `op` takes for numbers [rows, N], in its own types or in int64."""
        shape = [1] * max(tensor_type(v).get_num_dims() for v in (*op.operands, op.results[0]))
        shape[0], shape[self.axis] = x.shape
        operands: list[Array] = []
        for value in op.operands:
            known = literal_value(value)
            dtype = np.int64 if wide else numpy_dtype(tensor_type(value).element_type)
            own = x.reshape(shape) if known is None else known
            operands.append(own.astype(dtype, copy=False))
        return operands

    def _once(self, op: Operation, x: Array) -> Array | None:
        """`op` on numbers [rows, N]; `None` if it treats positions of a channel differently."""
        with np.errstate(all="ignore"):
            result = np.asarray(interpret.RULES[type(op)](op, *self._operands(op, x)))
        return result.reshape(x.shape).astype(np.int64) if result.size == x.size else None

    def _wraps(self, op: Operation, ends: Array, after: Array) -> bool:
        exact = ends if isinstance(op, tensor.ConvertOp) else after
        if type(op) in _WIDE:
            operands = self._operands(op, ends, wide=True)
            exact = _WIDE[type(op)](*operands).reshape(ends.shape)
        return bool((exact != after).any())

    def _all(self, ops: Sequence[Operation], x: Array) -> Array:
        for op in ops:
            after = self._once(op, x)
            assert after is not None
            x = after
        return x

    def bounded(self, ops: Sequence[Operation]) -> Bounded | None:
        """The ops as a sum with an offset a channel, between bounds that all channels share."""
        offsets = np.zeros(len(self.low), np.int64)
        low, high = -inf, inf
        for op in ops:
            change, bounds = self._offset(op), self._bounds(op)
            if change is not None:
                if (isfinite(low) or isfinite(high)) and len(set(change.tolist())) > 1:
                    return None
                offsets = offsets + change
                low, high = low + int(change[0]), high + int(change[0])
            elif bounds is not None:
                low, high = (min(max(end, bounds[0]), bounds[1]) for end in (low, high))
            else:
                return None
        ends = (int(end) if isfinite(end) else None for end in (low, high))
        return Bounded(tuple(offsets.tolist()), *ends)

    def _offset(self, op: Operation) -> Array | None:
        """What an op adds to each channel, if that is all it does."""
        if isinstance(op, tensor.ConvertOp):
            return np.zeros(len(self.low), np.int64)
        is_sum = isinstance(op, tensor.AddOp)
        if not is_sum and not (
            isinstance(op, tensor.SubOp) and literal_value(op.operands[0]) is None
        ):
            return None
        zero = self._once(op, np.zeros((1, len(self.low)), np.int64))
        return None if zero is None else zero[0]

    @staticmethod
    def _bounds(op: Operation) -> tuple[float, float] | None:
        """The bounds that an op sets, the same for all channels, if that is all it does."""
        if isinstance(op, tensor.ReluOp):
            return 0, inf
        if isinstance(op, tensor.ClampOp):
            low = -inf if op.min is None else np.ceil(op.min.value.data)
            return low, inf if op.max is None else np.floor(op.max.value.data)
        if not isinstance(op, tensor.MaximumOp | tensor.MinimumOp):
            return None
        known = next(v for v in map(literal_value, op.operands) if v is not None)
        if len(np.unique(known)) > 1:
            return None
        bound = int(known.reshape(-1)[0])
        return (bound, inf) if isinstance(op, tensor.MaximumOp) else (-inf, bound)

    def _furthest(self, ops: Sequence[Operation]) -> Array:
        """Sums at which each op is at an end of all that it gives; nearer ones where it wraps."""
        ends = x = np.stack([np.full_like(self.low, -_FAR), np.full_like(self.high, _FAR)])
        for op in ops:
            after = self._once(op, x)
            if after is None or self._wraps(op, x, after):
                return np.stack([self.low, self.high])
            x = after
        return ends

    def staircase(self, ops: Sequence[Operation], *, whole: bool) -> Staircase | None:
        """The ops as a staircase, if no channel has more than `MOST_STEPS`."""
        sums = self._furthest(ops) if whole else np.stack([self.low, self.high])
        ends = self._all(ops, sums)
        signs = np.where(ends[1] >= ends[0], 1, -1)
        low = (signs * sums).min(0)
        first, last = ends.min(0), ends.max(0)
        steps = last - first
        if steps.max(initial=0) > MOST_STEPS:
            return None
        span = _span(ops) if whole else None
        base, top = span or (int(first.min()), 0)
        bound = np.abs(sums).max(0)
        least = thresholds(lambda x: self._all(ops, np.clip(x, *sums)), bound, signs, first, last)
        rows = [
            (int(low[c]),) * int(first[c] - base) + tuple(least[: steps[c], c].tolist())
            for c in range(len(low))
        ]
        if max(len(row) for row in rows) > MOST_STEPS:
            return None
        return Staircase(base, tuple(signs.tolist()), tuple(rows), max(0, top - base))


def _span(ops: Sequence[Operation]) -> tuple[int, int] | None:
    """The least and the largest number that ops may give by their last one, whatever constants."""
    last = next((op for op in reversed(ops) if not isinstance(op, tensor.ConvertOp)), None)
    match last:
        case tensor.MultiThresholdOp():
            return 0, tensor_type(last.thresholds).get_shape()[-1]
        case tensor.RequantizeOp():
            return last.low.value.data, last.high.value.data
        case _:
            return None
