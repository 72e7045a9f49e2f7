"""Rules for synapses, pools, delays and normalisation; each gives what takes an op's place."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, f64, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ...dialects.tensor.shape import SLICE_END
from ...dialects.ternary.types import is_trit
from .tensor_builder import Builder, Values


def linear(builder: Builder, op: spike.LinearOp) -> Values:
    """`spike.linear`: one product over all steps."""
    x, weight = _operands(builder, op)
    if is_trit(tensor_type(weight)):
        sums = builder.add(ternary.MatmulOp(x, weight))
    else:
        sums = builder.add(tensor.MatmulOp(x, weight))
    return [_finish(builder, op, sums)]


def summed(builder: Builder, op: spike.LinearOp) -> Values:
    """`spike.linear` without scale and bias, and these behind it."""
    sums = spike.LinearOp(op.input, op.weight)
    return [_finish(builder, op, builder.add(sums))]


def conv(builder: Builder, op: spike.ConvOp) -> Values:
    """`spike.conv`: one convolution of all steps of all samples."""
    x, weight = _operands(builder, op)
    kind = ternary.ConvOp if is_trit(tensor_type(weight)) else tensor.ConvOp
    product = kind(
        builder.merged(x),
        weight,
        **op.window,
    )
    sums = builder.add(product)
    return [_finish(builder, op, builder.parted(sums, op.input))]


def _operands(builder: Builder, op: spike.SynapseOp) -> tuple[SSAValue, SSAValue]:
    """Spikes and weights with elements that a product takes; exact sums are i32."""
    weight = tensor_type(op.weight)
    sums = builder.widened(op.sum_element(weight))
    if builder.floats and is_train(op.input) and sums == i32:
        sizes = weight.get_shape()
        terms = prod(sizes[1:] if isinstance(op, spike.ConvOp) else sizes[:1])
        known = DYNAMIC not in sizes
        sums = _holding(terms * (1 if is_trit(weight) else 128)) if known else f64
    if is_trit(weight):
        spikes = i8 if is_train(op.input) else None
        return builder.dense(op.input, spikes if sums == i32 else sums), op.weight
    return builder.dense(op.input, sums), builder.converted(op.weight, sums)


def _holding(bound: int) -> Attribute:
    """The floats that hold every whole number up to a bound."""
    return f32 if bound <= 1 << 24 else f64


def _finish(builder: Builder, op: spike.SynapseOp, sums: SSAValue) -> SSAValue:
    """Scale and bias, in this order."""
    rank = tensor_type(sums).get_num_dims()
    result = sums
    for kind, value in ((tensor.MulOp, op.scale), (tensor.AddOp, op.bias)):
        if value is not None:
            wide = builder.widened(tensor_type(value).element_type)
            vector = builder.converted(builder.along(value, rank, op.CHANNEL_AXIS), wide)
            result = builder.add(kind(builder.converted(result, wide), vector))
    return builder.converted(result, tensor_type(op.result).element_type)


def avg_pool(builder: Builder, op: spike.AvgPoolOp) -> Values:
    """`spike.avg_pool`."""
    images = builder.merged(builder.dense(op.operand, f32 if is_train(op.operand) else None))
    counted = bool(op.count_include_pad.value.data)
    pooled = tensor.AvgPoolOp(images, *op.window, count_include_pad=counted)
    return [builder.parted(builder.add(pooled), op.operand)]


def max_pool(builder: Builder, op: spike.MaxPoolOp) -> Values:
    """`spike.max_pool`: a spike where a window has one."""
    images = builder.merged(builder.dense(op.operand, builder.spike))
    pooled = builder.parted(builder.add(tensor.MaxPoolOp(images, *op.window)), op.operand)
    return [builder.train(pooled)]


def delay(builder: Builder, op: spike.DelayOp) -> Values | None:
    """`spike.delay`: what came before the first step, and the input, cut.

    One of each neuron stays where an engine gathers by it (`spikes=floats`).
    """
    steps = op.steps.value.data
    if op.delays is not None and builder.floats:
        return None
    if not steps:
        return [op.input] if op.final is None else [op.input, _none(builder, op)]
    whole = _whole(builder, op, steps)
    if op.delays is None:
        output = builder.cut(whole, 0, -steps)
    else:
        output = _by_delay(builder, op.delays, whole, steps)
    results = [builder.like(output, op.output)]
    if op.final is not None:
        results.append(builder.like(builder.cut(whole, -steps, SLICE_END, steps), op.final))
    return results


def _none(builder: Builder, op: spike.DelayOp) -> SSAValue:
    """No steps of the input."""
    assert op.final is not None
    return builder.like(builder.cut(builder.dense(op.input), 0, 0, 0), op.final)


def _whole(builder: Builder, op: spike.DelayOp, steps: int) -> SSAValue:
    x = builder.dense(op.input)
    if op.initial is not None:
        return builder.add(tensor.ConcatenateOp([builder.dense(op.initial), x], 0))
    rank = tensor_type(x).get_num_dims()
    return builder.add(tensor.PadToOp(x, [steps, *[0] * (rank - 1)], [0] * rank))


def _by_delay(builder: Builder, delays: SSAValue, whole: SSAValue, steps: int) -> SSAValue:
    """Each neuron with its own delay: one cut for each, chosen between."""
    places = builder.converted(delays, i64)
    output = builder.cut(whole, 0, -steps)
    for late in range(steps):
        end = -late if late else SLICE_END
        shifted = builder.cut(whole, steps - late, end)
        number = builder.constant(np.asarray(late, np.int64), i64)
        here = builder.add(tensor.CompareOp(places, number, "eq"))
        output = builder.add(tensor.WhereOp(here, shifted, output))
    return output


def batch_norm(builder: Builder, op: spike.BatchNormOp) -> Values:
    """`spike.batch_norm`, operation for operation."""
    type = tensor_type(op.input)
    rank, axis = type.get_num_dims(), op.axis.value.data
    wide = builder.widened(type.element_type)
    scale, bias, mean, variance = (
        builder.converted(builder.along(value, rank, axis), wide)
        for value in (op.scale, op.bias, op.mean, op.variance)
    )

    def number(value: float) -> SSAValue:
        return builder.constant(np.asarray(value, numpy_dtype(wide)), wide)

    centred = builder.add(tensor.SubOp(builder.converted(op.input, wide), mean))
    spread = builder.add(tensor.AddOp(variance, number(op.epsilon.value.data)))
    result = builder.add(tensor.DivOp(centred, builder.add(tensor.SqrtOp(spread))))
    if op.kind.data == "tdbn":
        result = builder.add(tensor.MulOp(result, number(op.factor())))
    result = builder.add(tensor.AddOp(builder.add(tensor.MulOp(result, scale)), bias))
    return [builder.converted(result, type.element_type)]


def attention(builder: Builder, op: spike.AttentionOp) -> Values:
    """`spike.attention`: exact sums, then a leaky neuron."""
    element = _exact_element(builder, op)
    q, k, v = (builder.dense(value, element) for value in (op.query, op.key, op.value))
    scale, tau, threshold = op.numbers()
    if op.kind.data == "ssa":
        sums = _heads(builder, op.heads.value.data, dense_type(op.query).get_shape()[3], q, k, v)
    else:
        both = builder.add(tensor.MulOp(k, v))
        sums = builder.add(tensor.ReduceSumOp(both, [2], keepdims=True))
    currents = builder.converted(sums, f32)
    for kind, value in ((tensor.MulOp, scale), (tensor.DivOp, tau)):
        number = builder.constant(np.asarray(value, np.float32), f32)
        currents = builder.add(kind(currents, number))
    neuron = spike.LifOp(
        currents,
        1 - 1 / tau,
        threshold=threshold,
        compare=op.compare.data,
        reset=op.reset.data,
        initial=[] if op.initial is None else [op.initial],
        final=op.final is not None,
    )
    spikes = builder.add(neuron)
    if op.kind.data == "sdsa":
        both = tensor.MulOp if builder.floats else tensor.AndOp
        masked = builder.add(both(builder.dense(spikes), builder.dense(op.query)))
        spikes = builder.train(masked)
    return [spikes, *neuron.final]


def _exact_element(builder: Builder, op: spike.AttentionOp) -> Attribute:
    """f32 where it holds every sum, of tokens times channels of a head; else i32."""
    tokens, channels = dense_type(op.key).get_shape()[2:]
    terms = tokens * (channels if op.kind.data == "ssa" else 1)
    known = tokens != DYNAMIC and channels != DYNAMIC
    if builder.floats:
        return _holding(terms) if known else f32
    return f32 if known and terms <= 1 << 24 else i32


def _heads(
    builder: Builder, heads: int, channels: int, q: SSAValue, k: SSAValue, v: SSAValue
) -> SSAValue:
    """Q Kᵀ V of each head, side by side again."""
    size = DYNAMIC if channels == DYNAMIC else channels // heads

    def split(x: SSAValue, perm: list[int]) -> SSAValue:
        parted = builder.add(tensor.ReshapeToOp(x, [-2, -3, -4, heads, size]))
        return builder.add(tensor.PermuteOp(parted, perm))

    rows, columns = [0, 1, 3, 2, 4], [0, 1, 3, 4, 2]
    scores = builder.add(tensor.MatmulOp(split(q, rows), split(k, columns)))
    mixed = builder.add(tensor.MatmulOp(scores, split(v, rows)))
    together = builder.add(tensor.PermuteOp(mixed, rows))
    return builder.add(tensor.ReshapeToOp(together, [-2, -3, -4, channels]))
