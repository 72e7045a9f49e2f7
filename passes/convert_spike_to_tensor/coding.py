"""Rules for encoders, decoders and conversions; each gives what takes an op's place."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, f64, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, with_element
from ...dialects.spike.types import dense_type
from ...dialects.tensor.shape import SLICE_END
from ...dialects.traits import MovesElements, has
from .tensor_builder import Builder, Values

_INLINE = 64
"""Numbers that fit an inline constant."""


def to_tensor(builder: Builder, op: spike.ToTensorOp) -> Values | None:
    """`spike.to_tensor`: truth values, converted."""
    element = tensor_type(op.result).element_type
    return None if builder.floats or element == i1 else [builder.dense(op.operand, element)]


def from_tensor(builder: Builder, op: spike.FromTensorOp) -> Values | None:
    """`spike.from_tensor`: what is not 0."""
    spikes = _moved(builder, op.operand) if builder.floats else None
    if spikes is not None:
        return [builder.train(spikes)]
    if tensor_type(op.operand).element_type == i1:
        return None
    return [builder.train(builder.converted(op.operand, i1))]


def _moved(builder: Builder, value: SSAValue) -> SSAValue | None:
    """What is moved about between trains as numbers of f32; `None` for what is no spikes."""
    op = value.owner
    if isinstance(op, spike.ToTensorOp):
        return builder.dense(op.operand, f32)
    if not has(op, MovesElements):
        return None
    operands = {operand: _moved(builder, operand) for operand in op.operands}
    known = {operand: spikes for operand, spikes in operands.items() if spikes is not None}
    if len(known) < len(operands):
        return None
    copy = op.clone(dict(known))
    builder.add(copy)
    results = [
        Rewriter.replace_value_with_new_type(result, with_element(tensor_type(result), f32))
        for result in copy.results
    ]
    return next(new for old, new in zip(op.results, results, strict=True) if old is value)


def decode(builder: Builder, op: spike.DecodeOp) -> Values:
    """`spike.decode`."""
    scheme, steps = op.scheme.data, dense_type(op.operand).get_shape()[0]
    if scheme == "membrane":
        assert op.readout is not None
        return [_readout(builder, op.readout.data, op.operand)]
    known = None if steps == DYNAMIC else builder.constant(np.asarray(steps, np.float32), f32)
    spikes = builder.dense(op.operand, f32)
    count = builder.add(tensor.ReduceSumOp(_ones(builder, spikes), [0])) if known is None else known
    if scheme == "rate":
        total = builder.add(tensor.ReduceSumOp(spikes, [0]))
    else:  # the first has the most steps left
        left = builder.add(tensor.SubOp(count, _times_of(builder, spikes)))
        total = builder.add(tensor.ReduceMaxOp(builder.add(tensor.MulOp(spikes, left)), [0]))
    return [builder.add(tensor.DivOp(total, count))]


def _ones(builder: Builder, run: SSAValue) -> SSAValue:
    """A one for each step of a run, f32 [T, 1, …]."""
    rank = tensor_type(run).get_num_dims()
    ends = [SLICE_END, *[1] * (rank - 1)]
    first = builder.add(tensor.SliceOp(run, [0] * rank, ends, [1] * rank))
    return builder.converted(builder.add(tensor.CompareOp(first, first, "eq")), f32)


def _times_of(builder: Builder, run: SSAValue) -> SSAValue:
    """The numbers of the steps of a run, f32 [T, 1, …]."""
    steps, *rest = tensor_type(run).get_shape()
    if steps == DYNAMIC:
        ones = _ones(builder, run)
        return builder.add(tensor.SubOp(builder.add(tensor.CumsumOp(ones, 0)), ones))
    return builder.along(builder.converted(_numbers(builder, 0, steps), f32), 1 + len(rest), 0)


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
        return [_phase(builder, op, x, t)]
    now = builder.along(builder.converted(t, f64), rank + 1, 0)
    return [_regular(builder, x, now) if scheme == "regular" else _latency(builder, op, x, now)]


def _times(builder: Builder, op: spike.EncodeOp, steps: int) -> SSAValue:
    """The numbers of the steps, i64 [T]."""
    t = _numbers(builder, op.start.value.data, steps)
    return t if op.elapsed is None else builder.add(tensor.AddOp(t, op.elapsed))


def _numbers(builder: Builder, start: int, count: int) -> SSAValue:
    """The whole numbers from `start` on, i64 [count]."""
    if count <= _INLINE:
        return builder.constant(np.arange(start, start + count, dtype=np.int64), i64)
    ones = builder.constant(np.ones(1, np.int64), i64)
    numbers = builder.add(tensor.CumsumOp(builder.add(tensor.ExpandOp(ones, [count])), 0))
    first = builder.constant(np.asarray(start - 1, np.int64), i64)
    return builder.add(tensor.AddOp(numbers, first))


def _number(builder: Builder, value: float) -> SSAValue:
    return builder.constant(np.asarray(value, np.float64), f64)


def _regular(builder: Builder, x: SSAValue, t: SSAValue) -> SSAValue:
    """⌊(t+1)·x⌋ > ⌊t·x⌋."""
    following = builder.add(tensor.AddOp(t, _number(builder, 1.0)))
    after, before = (
        builder.add(tensor.FloorOp(builder.add(tensor.MulOp(time, x)))) for time in (following, t)
    )
    return builder.train(builder.add(tensor.CompareOp(after, before, "gt")))


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


def _phase(builder: Builder, op: spike.EncodeOp, x: SSAValue, t: SSAValue) -> SSAValue:
    """Bit P-1-(t mod P) of ⌊x·2^P⌋: what a power of two a step leaves of it is 1/2 at least."""
    period = op.steps_in_period()
    assert period is not None
    levels = 2.0**period
    scaled = builder.add(tensor.FloorOp(builder.add(tensor.MulOp(x, _number(builder, levels)))))
    digits = builder.add(tensor.MinimumOp(scaled, _number(builder, levels - 1)))
    exact = f32 if period <= 24 else f64  # which holds all digits
    weights = _weights(builder, period, t, exact)
    spread = builder.along(weights, tensor_type(digits).get_num_dims(), 0)
    parts = builder.add(tensor.MulOp(builder.converted(digits, exact), spread))
    rest = builder.add(tensor.SubOp(parts, builder.add(tensor.FloorOp(parts))))
    half = builder.constant(np.asarray(0.5, numpy_dtype(exact)), exact)
    return builder.train(builder.add(tensor.CompareOp(rest, half, "ge")))


def _weights(builder: Builder, period: int, t: SSAValue, element: Attribute) -> SSAValue:
    """2^-(P-(t mod P)) of each step, [T]: one of P numbers, picked by a sum with zeros."""
    places = np.arange(period, dtype=np.int64)
    length = builder.constant(np.asarray(period, np.int64), i64)
    phases = builder.add(tensor.UnsqueezeOp(builder.add(tensor.ModOp(t, length)), [1]))
    here = builder.add(tensor.CompareOp(phases, builder.constant(places, i64), "eq"))
    powers = builder.constant((2.0 ** (places - period)).astype(numpy_dtype(element)), element)
    chosen = builder.add(tensor.MulOp(builder.converted(here, element), powers))
    return builder.add(tensor.ReduceSumOp(chosen, [1]))


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
