"""Rules for encoders, decoders and conversions; each gives what takes an op's place."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, f64, i1, i8, i64
from xdsl.ir import SSAValue

from ...dialects import spike, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...dialects.tensor.shape import SLICE_END
from .emitter import Emitter, Values

_INLINE = 64
"""Numbers that fit an inline constant."""

_MOST_STEPS = _INLINE**2
"""Steps whose numbers are sums of two such constants."""


def to_tensor(emitter: Emitter, op: spike.ToTensorOp) -> Values | None:
    """`spike.to_tensor`: truth values, converted."""
    element = tensor_type(op.result).element_type
    return None if element == i1 else [emitter.dense(op.operand, element)]


def from_tensor(emitter: Emitter, op: spike.FromTensorOp) -> Values | None:
    """`spike.from_tensor`: compared with 0."""
    element = tensor_type(op.operand).element_type
    if element == i1:
        return None
    zero = emitter.constant(np.asarray(0, numpy_dtype(element)), element)
    return [emitter.train(emitter.add(tensor.CompareOp(op.operand, zero, "ne")))]


def decode(emitter: Emitter, op: spike.DecodeOp) -> Values | None:
    """`spike.decode`."""
    scheme, steps = op.scheme.data, dense_type(op.operand).get_shape()[0]
    if scheme == "membrane":
        assert op.readout is not None
        return [_readout(emitter, op.readout.data, op.operand)]
    if steps == DYNAMIC:
        return None
    count = emitter.constant(np.asarray(steps, np.float32), f32)
    if scheme == "rate":
        total = emitter.add(tensor.ReduceSumOp(emitter.dense(op.operand, f32), [0]))
    else:
        spikes = emitter.dense(op.operand, i8)
        first = emitter.add(tensor.ArgmaxOp(spikes, 0))
        left = emitter.add(tensor.SubOp(emitter.constant(np.asarray(steps, np.int64), i64), first))
        most = emitter.converted(emitter.add(tensor.ReduceMaxOp(spikes, [0])), i64)
        total = emitter.converted(emitter.add(tensor.MulOp(left, most)), f32)
    return [emitter.add(tensor.DivOp(total, count))]


def _readout(emitter: Emitter, readout: str, trace: SSAValue) -> SSAValue:
    if readout == "last":
        return emitter.add(tensor.SqueezeOp(emitter.cut(trace, -1, SLICE_END), [0]))
    kind = tensor.ReduceMaxOp if readout == "max" else tensor.ReduceMeanOp
    return emitter.add(kind(trace, [0]))


def encode(emitter: Emitter, op: spike.EncodeOp) -> Values | None:
    """`spike.encode`, but for random spikes."""
    scheme = op.scheme.data
    if scheme == "delta":
        return [_delta(emitter, op)]
    assert op.timesteps is not None
    steps = op.timesteps.value.data
    if scheme == "direct":
        shape = tensor_type(op.operand).get_shape()
        lifted = emitter.add(tensor.UnsqueezeOp(op.operand, [0]))
        repeated = emitter.add(tensor.ExpandOp(lifted, [steps, *[-1] * len(shape)]))
        return [emitter.like(repeated, op.result)]
    if scheme == "rate" or steps > _MOST_STEPS:
        return None
    rank = tensor_type(op.operand).get_num_dims()
    lifted = emitter.add(tensor.UnsqueezeOp(emitter.converted(op.operand, f64), [0]))
    x = emitter.add(tensor.ClampOp(lifted, min=0.0, max=1.0))
    t = _times(emitter, op, steps)
    if scheme == "phase":
        weights = _weights(emitter, op, t)
        return [_phase(emitter, op, x, emitter.along(weights, rank + 1, 0))]
    now = emitter.along(emitter.converted(t, f64), rank + 1, 0)
    return [_regular(emitter, x, now) if scheme == "regular" else _latency(emitter, op, x, now)]


def _times(emitter: Emitter, op: spike.EncodeOp, steps: int) -> SSAValue:
    """The numbers of the steps, i64 [T]."""
    start = op.start.value.data
    if steps <= _INLINE:
        t = emitter.constant(np.arange(start, start + steps, dtype=np.int64), i64)
    else:
        tens = np.arange(-(-steps // _INLINE), dtype=np.int64)[:, None] * _INLINE + start
        ones = emitter.constant(np.arange(_INLINE, dtype=np.int64), i64)
        table = emitter.add(tensor.AddOp(emitter.constant(tens, i64), ones))
        t = emitter.cut(emitter.add(tensor.ReshapeToOp(table, [-1])), 0, steps)
    return t if op.elapsed is None else emitter.add(tensor.AddOp(t, op.elapsed))


def _weights(emitter: Emitter, op: spike.EncodeOp, t: SSAValue) -> SSAValue:
    """2^-(P-1-(t mod P)) of each step, f64 [T]: one of P numbers, picked by a sum with zeros."""
    period = op.steps_in_period()
    assert period is not None
    places = np.arange(period, dtype=np.int64)
    length = emitter.constant(np.asarray(period, np.int64), i64)
    phases = emitter.add(tensor.UnsqueezeOp(emitter.add(tensor.ModOp(t, length)), [1]))
    here = emitter.add(tensor.CompareOp(phases, emitter.constant(places, i64), "eq"))
    powers = emitter.constant(2.0 ** (places - (period - 1)), f64)
    chosen = emitter.add(tensor.MulOp(emitter.converted(here, f64), powers))
    return emitter.add(tensor.ReduceSumOp(chosen, [1]))


def _number(emitter: Emitter, value: float) -> SSAValue:
    return emitter.constant(np.asarray(value, np.float64), f64)


def _regular(emitter: Emitter, x: SSAValue, t: SSAValue) -> SSAValue:
    """⌊(t+1)·x⌋ > ⌊t·x⌋."""
    following = emitter.add(tensor.AddOp(t, _number(emitter, 1.0)))
    after, before = (
        emitter.add(tensor.FloorOp(emitter.add(tensor.MulOp(time, x)))) for time in (following, t)
    )
    rise = emitter.add(tensor.SubOp(after, before))
    return emitter.train(emitter.add(tensor.CompareOp(rise, _number(emitter, 0.0), "gt")))


def _latency(emitter: Emitter, op: spike.EncodeOp, x: SSAValue, t: SSAValue) -> SSAValue:
    """t = round((P-1)·(1-x)), where x reaches the threshold."""
    period = op.steps_in_period()
    assert period is not None
    late = emitter.add(tensor.SubOp(_number(emitter, 1.0), x))
    place = emitter.add(tensor.MulOp(_number(emitter, period - 1), late))
    spikes = emitter.add(tensor.CompareOp(t, emitter.add(tensor.RoundOp(place)), "eq"))
    if op.threshold is not None:
        type = tensor_type(op.operand)
        level = np.asarray(op.threshold.value.data, numpy_dtype(type.element_type))
        limit = emitter.constant(level, type.element_type)
        strong = emitter.add(tensor.CompareOp(op.operand, limit, "ge"))
        spikes = emitter.add(tensor.AndOp(spikes, strong))
    return emitter.train(spikes)


def _phase(emitter: Emitter, op: spike.EncodeOp, x: SSAValue, weights: SSAValue) -> SSAValue:
    """Bit P-1-(t mod P) of ⌊x·2^P⌋, by exact products with powers of two, one a step."""
    period = op.steps_in_period()
    assert period is not None
    levels = 2.0**period
    scaled = emitter.add(tensor.FloorOp(emitter.add(tensor.MulOp(x, _number(emitter, levels)))))
    digits = emitter.add(tensor.MinimumOp(scaled, _number(emitter, levels - 1)))
    shifted = emitter.add(tensor.FloorOp(emitter.add(tensor.MulOp(digits, weights))))
    halves = emitter.add(tensor.FloorOp(emitter.add(tensor.MulOp(shifted, _number(emitter, 0.5)))))
    even = emitter.add(tensor.MulOp(halves, _number(emitter, 2.0)))
    return emitter.train(emitter.add(tensor.CompareOp(shifted, even, "gt")))


def _delta(emitter: Emitter, op: spike.EncodeOp) -> SSAValue:
    """x[t] - x[t-1] ≥ threshold."""
    assert op.threshold is not None
    type = tensor_type(op.operand)
    rank = type.get_num_dims()
    if op.previous is not None:
        lifted = emitter.add(tensor.UnsqueezeOp(op.previous, [0]))
        whole = emitter.add(tensor.ConcatenateOp([lifted, op.operand], 0))
    else:
        whole = emitter.add(tensor.PadToOp(op.operand, [1, *[0] * (rank - 1)], [0] * rank))
    rise = emitter.add(tensor.SubOp(op.operand, emitter.cut(whole, 0, -1)))
    level = np.asarray(op.threshold.value.data, numpy_dtype(type.element_type))
    limit = emitter.constant(level, type.element_type)
    return emitter.train(emitter.add(tensor.CompareOp(rise, limit, "ge")))
