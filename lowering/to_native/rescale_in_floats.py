"""The pass `rescale-in-floats`: sums of integers are rounded to few bits by floats, exactly.

Not here: which chains of steps there are (`merge-rescaling`), how floats are rounded (`linalg`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr, f32, i8, i16, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...passes.analysis.compile_time import literal, literal_value
from ...passes.analysis.replacement import insert_before, replace_results
from ...passes.requantize.merge_rescaling import Chain, Merging
from ...passes.requantize.rescaling_fit import thresholds
from .linalg.linalg_builder import MAY_FUSE

_DIGITS = 1 << 24
"""Integers up to it are float32."""
_MOST = 1 << 21
"""Floats up to it are rounded by adding 1.5·2²³."""
_MOST_LEVELS = 256
_ERROR = 1.01 * 2.0**-24
"""What a rounding adds, as a share of a result."""
_ROUNDS = 20
"""Of searches by halves."""
_ROOM = 2.0**-12
"""Room for the start of a line that is enough for any rounding."""


@dataclass(frozen=True)
class RescaleInFloatsPass(ModulePass):
    """Compute what stands between two products of bytes by floats, exactly.

    Rescaling by a multiplier and a shift takes products of 64 bits, of which a register holds half
    as many. Where it gives few bits, a factor and a sum in float32, rounded, do the same at
    every integer that the product can be, which is compared at every one where a result begins:
    there the floats are farther from the middle of two results than their rounding moves them,
    whether or not the processor fuses product and sum.

    %y = tensor.requantize %x, %m, %s, %z : (tensor<?x8xi32>, …) -> tensor<?x8xi8>
    // becomes
    %a = tensor.convert %x : (tensor<?x8xi32>) -> tensor<?x8xf32>
    %b = tensor.add (tensor.mul %a, %f), %g : …
    %y = tensor.quantize %b, %one, %zero : …
    """

    name = "rescale-in-floats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.walk()):
            if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
                for conv in list(function.body.block.ops):
                    if isinstance(conv, ternary.ConvOp) and conv.multiplier is not None:
                        _part(op, conv)
                _Floats(op, function).run()


def _part(module: ModuleOp, conv: ternary.ConvOp) -> None:
    """Let the bias and what follows it in a convolution be ops of their own, or the rescaling."""
    assert conv.multiplier is not None and conv.shift is not None
    assert conv.zero_point is not None and conv.low is not None and conv.high is not None
    known = None if conv.bias is None else literal_value(conv.bias)
    bare = conv.rebuild(
        bias=conv.bias if known is None else None,
        activation=conv.activation.data if known is None else "none",
        multiplier=None,
        shift=None,
        zero_point=None,
        low=None,
        high=None,
    )
    ops: list[Operation] = [bare]
    if known is not None:
        rank = tensor_type(conv.result).get_num_dims()
        shaped = known.reshape(-1, *[1] * (rank - 2))
        bias = literal(module, "bias", shaped, TensorType(i32, shaped.shape), buffer=True)
        ops += [bias, tensor.AddOp(bare.results[0], bias.results[0])]
        if conv.activation.data == "relu":
            ops.append(tensor.ReluOp(ops[-1].results[0]))
    rescaled = tensor.RequantizeOp(
        ops[-1].results[0],
        conv.multiplier,
        conv.shift,
        conv.zero_point,
        axis=1,
        low=conv.low.value.data,
        high=conv.high.value.data,
    )
    for op in (*ops, rescaled):
        insert_before(conv, op)
    rescaled.results[0].name_hint = conv.result.name_hint
    replace_results(conv, rescaled.results)


class _Line(NamedTuple):
    """y = x·factor + start, rounded to the nearest integer and cut to low … high, a channel."""

    factors: Array
    starts: Array
    low: int
    high: int


class _Floats(Merging):
    """Finds chains, and puts floats in their place."""

    def gains(self, ops: Sequence[Operation], first: tensor.RequantizeOp) -> bool:
        """All do."""
        return True

    def root(self, value: SSAValue) -> SSAValue:
        """What is rescaled and read by several ops stands in memory: a chain ends there."""
        shared = isinstance(value.owner, tensor.RequantizeOp) and not value.has_one_use()
        return value if shared else super().root(value)

    def replacement(self, value: SSAValue, chain: Chain, bound: Array) -> Callable[[], None] | None:
        """What puts floats in the place of a chain; see `Merging.replacement`."""
        line = fitting_line(chain, bound)
        if line is None:
            return None
        return lambda: self._put(value, line)

    def _put(self, value: SSAValue, line: _Line) -> None:
        element = i8 if line.low >= -128 and line.high < 128 else i16
        floats = self.add(value, tensor.ConvertOp(self.roots[value], f32))
        factors = self.known(value, "rescaling.factor", line.factors, shaped=True)
        starts = self.known(value, "rescaling.start", line.starts, shaped=True)
        scaled = self.add(value, tensor.MulOp(floats, factors))
        moved = self.add(value, tensor.AddOp(scaled, starts))
        one = self.known(value, "rescaling.one", np.array(1, np.float32))
        zero = self.known(value, "rescaling.zero", np.array(0, numpy_dtype(element)))
        quantize = tensor.QuantizeOp(moved, one, zero, low=line.low, high=line.high)
        for op in scaled, moved:
            assert isinstance(op.owner, Operation)
            op.owner.attributes[MAY_FUSE] = UnitAttr()
        result = self.add(value, quantize)
        wanted = tensor_type(value).element_type
        if element != wanted:
            result = self.add(value, tensor.ConvertOp(result, wanted))
        result.name_hint = value.name_hint
        value.replace_all_uses_with(result)


def fitting_line(function: Callable[[Array], Array], bound: Array) -> _Line | None:
    """The line in float32 that gives what a function gives for all integers within ±bound.

    Args:
        function: of integers [rows, channels]; each channel never falls or never rises.
        bound: the largest magnitude of each channel's integers, int64 [channels].
    """
    ends = function(np.stack([-bound, bound]))
    signs = np.where(ends[1] >= ends[0], 1, -1)
    first, last = ends.min(0), ends.max(0)
    low, high = int(first.min()), int(last.max())
    if high - low >= _MOST_LEVELS or max(-low, high) >= 1 << 15 or int(bound.max()) > _DIGITS:
        return None
    above, below = _sides(function, bound, signs, ends)
    factors = _slopes(above, below).astype(np.float32).astype(np.float64)
    least = (above.level - factors * above.x).max(0)
    most = (below.level - factors * below.x).min(0)
    begin = np.where(np.isfinite(least), least, np.where(np.isfinite(most), most - 1, low))
    end = np.where(np.isfinite(most), most, begin + 1)
    starts = ((begin + end) / 2).astype(np.float32).astype(np.float64)
    for (x, level), side in ((above, 1), (below, -1)):
        exact = x * factors + starts
        error = _ERROR * (np.abs(x * factors) + np.abs(exact))
        if (side * (exact - level) <= error).any():
            return None
    if (np.abs(factors) * bound + np.abs(starts)).max() > _MOST:
        return None
    return _Line((factors * signs).astype(np.float32), starts.astype(np.float32), low, high)


class _Side(NamedTuple):
    """Integers at which a line must lie above levels, or below them: [places, channels]."""

    x: Array
    level: Array


def _sides(
    function: Callable[[Array], Array], bound: Array, signs: Array, ends: Array
) -> tuple[_Side, _Side]:
    """What a line must lie above and below, of the integers times `signs`.

    Half a step below the level of a result where that begins, and at the least integer; under it
    one integer before, and at the largest one under half a step above its result. What is cut may
    be anywhere beyond the least and the largest result of all.
    """
    first, last = ends.min(0), ends.max(0)
    at = thresholds(function, bound, signs, first, last)
    levels = first + np.arange(1, len(at) + 1)[:, None]
    known = levels <= last
    least = np.where(first == first.min(), -np.inf, first - 0.5)[None]
    most = np.where(last == last.max(), np.inf, last + 0.5)[None]
    above = _Side(
        np.concatenate([np.where(known, at, -bound), -bound[None]]),
        np.concatenate([np.where(known, levels - 0.5, least), least]),
    )
    below = _Side(
        np.concatenate([np.where(known, at - 1, bound), bound[None]]),
        np.concatenate([np.where(known, levels - 0.5, most), most]),
    )
    return above, below


def _slopes(above: _Side, below: _Side) -> Array:
    """A slope for each channel that leaves a line room for its start, if one does.

    The gap between the bounds on the start, below 0 where there is room, is a convex function of
    the slope. It is followed downwards from between the slopes of the first and the last level.
    """
    # Levels that a channel has begin behind its least integer, which the last row has.
    channels = np.arange(above.x.shape[1], dtype=np.int64)
    count = (above.x > above.x[-1]).sum(0)
    rise = np.maximum(count - 1, 0)
    run = above.x[rise, channels] - above.x[0]
    left = np.where(count > 1, rise / (run + 1), 0.0)
    right = np.where(count > 1, rise / np.maximum(run - 1, 0.5), np.where(count, 0.5, 0.0))
    for _ in range(_ROUNDS):
        slopes = (left + right) / 2
        over, under = (level - slopes * x for x, level in (above, below))
        high, low = over.argmax(0), under.argmin(0)
        if (under[low, channels] - over[high, channels] > _ROOM).all():
            break
        falls = below.x[low, channels] < above.x[high, channels]
        left, right = np.where(falls, slopes, left), np.where(falls, right, slopes)
    return (left + right) / 2
