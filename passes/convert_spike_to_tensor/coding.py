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
from .tensor_builder import Builder, Values

_INLINE = 64
"""Numbers that fit an inline constant."""


def to_tensor(builder: Builder, op: spike.ToTensorOp) -> Values | None:
    """`spike.to_tensor`: truth values, converted."""
    element = tensor_type(op.result).element_type
    return None if element == i1 else [builder.dense(op.operand, element)]


def from_tensor(builder: Builder, op: spike.FromTensorOp) -> Values | None:
    """`spike.from_tensor`: what is not 0."""
    element = tensor_type(op.operand).element_type
    if element == i1:
        return None
    return [builder.train(builder.converted(op.operand, i1))]


def decode(builder: Builder, op: spike.DecodeOp) -> Values:
    """`spike.decode`."""
    scheme, steps = op.scheme.data, dense_type(op.operand).get_shape()[0]
    if scheme == "membrane":
        assert op.readout is not None
        return [_readout(builder, op.readout.data, op.operand)]
    if steps == DYNAMIC:  # counted: one for each step
        spikes = builder.dense(op.operand, f32)
        ones = builder.add(tensor.CompareOp(spikes, spikes, "eq"))
        count = builder.add(tensor.ReduceSumOp(builder.converted(ones, f32), [0]))
    else:
        count = builder.constant(np.asarray(steps, np.float32), f32)
    if scheme == "rate":
        total = builder.add(tensor.ReduceSumOp(builder.dense(op.operand, f32), [0]))
    else:
        spikes = builder.dense(op.operand, i8)
        first = builder.converted(builder.add(tensor.ArgmaxOp(spikes, 0)), f32)
        left = builder.add(tensor.SubOp(count, first))
        most = builder.converted(builder.add(tensor.ReduceMaxOp(spikes, [0])), f32)
        total = builder.add(tensor.MulOp(left, most))
    return [builder.add(tensor.DivOp(total, count))]


def _readout(builder: Builder, readout: str, trace: SSAValue) -> SSAValue:
    if readout == "last":
        return builder.add(tensor.SqueezeOp(builder.cut(trace, -1, SLICE_END), [0]))
    kind = tensor.ReduceMaxOp if readout == "max" else tensor.ReduceMeanOp
    return builder.add(kind(trace, [0]))


def encode(builder: Builder, op: spike.EncodeOp) -> Values | None:
    """`spike.encode`, but for random spikes."""
    scheme = op.scheme.data
    if scheme == "delta":
        return [_delta(builder, op)]
    assert op.timesteps is not None
    steps = op.timesteps.value.data
    if scheme == "direct":
        shape = tensor_type(op.operand).get_shape()
        lifted = builder.add(tensor.UnsqueezeOp(op.operand, [0]))
        repeated = builder.add(tensor.ExpandOp(lifted, [steps, *[-1] * len(shape)]))
        return [builder.like(repeated, op.result)]
    if scheme == "rate":
        return None
    rank = tensor_type(op.operand).get_num_dims()
    lifted = builder.add(tensor.UnsqueezeOp(builder.converted(op.operand, f64), [0]))
    x = builder.add(tensor.ClampOp(lifted, min=0.0, max=1.0))
    t = _times(builder, op, steps)
    if scheme == "phase":
        weights = _weights(builder, op, t)
        return [_phase(builder, op, x, builder.along(weights, rank + 1, 0))]
    now = builder.along(builder.converted(t, f64), rank + 1, 0)
    return [_regular(builder, x, now) if scheme == "regular" else _latency(builder, op, x, now)]


def _times(builder: Builder, op: spike.EncodeOp, steps: int) -> SSAValue:
    """The numbers of the steps, i64 [T]."""
    start = op.start.value.data
    if steps <= _INLINE:
        t = builder.constant(np.arange(start, start + steps, dtype=np.int64), i64)
    else:
        ones = builder.constant(np.ones(1, np.int64), i64)
        numbers = builder.add(tensor.CumsumOp(builder.add(tensor.ExpandOp(ones, [steps])), 0))
        first = builder.constant(np.asarray(start - 1, np.int64), i64)
        t = builder.add(tensor.AddOp(numbers, first))
    return t if op.elapsed is None else builder.add(tensor.AddOp(t, op.elapsed))


def _weights(builder: Builder, op: spike.EncodeOp, t: SSAValue) -> SSAValue:
    """2^-(P-1-(t mod P)) of each step, f64 [T]: one of P numbers, picked by a sum with zeros."""
    period = op.steps_in_period()
    assert period is not None
    places = np.arange(period, dtype=np.int64)
    length = builder.constant(np.asarray(period, np.int64), i64)
    phases = builder.add(tensor.UnsqueezeOp(builder.add(tensor.ModOp(t, length)), [1]))
    here = builder.add(tensor.CompareOp(phases, builder.constant(places, i64), "eq"))
    powers = builder.constant(2.0 ** (places - (period - 1)), f64)
    chosen = builder.add(tensor.MulOp(builder.converted(here, f64), powers))
    return builder.add(tensor.ReduceSumOp(chosen, [1]))


def _number(builder: Builder, value: float) -> SSAValue:
    return builder.constant(np.asarray(value, np.float64), f64)


def _regular(builder: Builder, x: SSAValue, t: SSAValue) -> SSAValue:
    """⌊(t+1)·x⌋ > ⌊t·x⌋."""
    following = builder.add(tensor.AddOp(t, _number(builder, 1.0)))
    after, before = (
        builder.add(tensor.FloorOp(builder.add(tensor.MulOp(time, x)))) for time in (following, t)
    )
    rise = builder.add(tensor.SubOp(after, before))
    return builder.train(builder.add(tensor.CompareOp(rise, _number(builder, 0.0), "gt")))


def _latency(builder: Builder, op: spike.EncodeOp, x: SSAValue, t: SSAValue) -> SSAValue:
    """t = round((P-1)·(1-x)), where x reaches the threshold."""
    period = op.steps_in_period()
    assert period is not None
    late = builder.add(tensor.SubOp(_number(builder, 1.0), x))
    place = builder.add(tensor.MulOp(_number(builder, period - 1), late))
    spikes = builder.add(tensor.CompareOp(t, builder.add(tensor.RoundOp(place)), "eq"))
    if op.threshold is not None:
        type = tensor_type(op.operand)
        level = np.asarray(op.threshold.value.data, numpy_dtype(type.element_type))
        limit = builder.constant(level, type.element_type)
        strong = builder.add(tensor.CompareOp(op.operand, limit, "ge"))
        spikes = builder.add(tensor.AndOp(spikes, strong))
    return builder.train(spikes)


def _phase(builder: Builder, op: spike.EncodeOp, x: SSAValue, weights: SSAValue) -> SSAValue:
    """Bit P-1-(t mod P) of ⌊x·2^P⌋, by exact products with powers of two, one a step."""
    period = op.steps_in_period()
    assert period is not None
    levels = 2.0**period
    scaled = builder.add(tensor.FloorOp(builder.add(tensor.MulOp(x, _number(builder, levels)))))
    digits = builder.add(tensor.MinimumOp(scaled, _number(builder, levels - 1)))
    shifted = builder.add(tensor.FloorOp(builder.add(tensor.MulOp(digits, weights))))
    halves = builder.add(tensor.FloorOp(builder.add(tensor.MulOp(shifted, _number(builder, 0.5)))))
    even = builder.add(tensor.MulOp(halves, _number(builder, 2.0)))
    return builder.train(builder.add(tensor.CompareOp(shifted, even, "gt")))


def _delta(builder: Builder, op: spike.EncodeOp) -> SSAValue:
    """x[t] - x[t-1] ≥ threshold."""
    assert op.threshold is not None
    type = tensor_type(op.operand)
    rank = type.get_num_dims()
    if op.previous is not None:
        lifted = builder.add(tensor.UnsqueezeOp(op.previous, [0]))
        whole = builder.add(tensor.ConcatenateOp([lifted, op.operand], 0))
    else:
        whole = builder.add(tensor.PadToOp(op.operand, [1, *[0] * (rank - 1)], [0] * rank))
    rise = builder.add(tensor.SubOp(op.operand, builder.cut(whole, 0, -1)))
    level = np.asarray(op.threshold.value.data, numpy_dtype(type.element_type))
    limit = builder.constant(level, type.element_type)
    return builder.train(builder.add(tensor.CompareOp(rise, limit, "ge")))
