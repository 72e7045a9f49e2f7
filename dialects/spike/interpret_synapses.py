"""Reference semantics of synapses, delays, attention and batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from ...ir.arrays import Array
from ...ir.neurons.arithmetic import Options
from ..elements import numpy_dtype
from ..inference import tensor_type
from ..meaning import Rule
from ..tensor.interpret_linear import along_channels, convolve, product
from . import attention, normalization, synapses
from .interpret_neurons import NumpyArithmetic, named_operands


def _sum_type(op: synapses.LinearOp | synapses.ConvOp, weight: Array) -> np.dtype[Any]:
    """The dtype to sum in: i32 sums are exact in i64 before they wrap; halves were widened."""
    element = op.sum_element(tensor_type(op.weight))
    if element == i32:
        return np.dtype(np.int64)
    return weight.dtype if weight.dtype.kind == "f" else _widened(numpy_dtype(element))


def _widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def _finish(op: synapses.LinearOp | synapses.ConvOp, sums: Array, *operands: Array) -> Array:
    """Scale and bias, in this order."""
    values = named_operands(op, operands)
    result = sums.astype(np.int32) if sums.dtype == np.int64 else sums
    if op.scale is not None:
        scale = values[op.scale]
        result = result.astype(scale.dtype) * along_channels(scale, sums.ndim, op.CHANNEL_AXIS)
    if op.bias is not None:
        result = result + along_channels(values[op.bias], sums.ndim, op.CHANNEL_AXIS)
    return result


def linear(op: synapses.LinearOp, *operands: Array) -> Array:
    """See `spike.linear`."""
    s, weight = operands[:2]
    kind = _sum_type(op, weight)
    return _finish(op, product(s.astype(kind), weight.astype(kind)), *operands)


def conv(op: synapses.ConvOp, *operands: Array) -> Array:
    """See `spike.conv`."""
    s, weight = operands[:2]
    kind = _sum_type(op, weight)
    images = s.reshape(-1, *s.shape[2:]).astype(kind)
    sums = convolve(images, weight.astype(kind), **op.window)
    return _finish(op, sums.reshape(*s.shape[:2], *sums.shape[1:]), *operands)


def delay(op: synapses.DelayOp, *operands: Array) -> tuple[Array, ...]:
    """See `spike.delay`."""
    values = named_operands(op, operands)
    x, steps = values[op.input], op.steps.value.data
    before = np.zeros((steps, *x.shape[1:]), x.dtype) if op.initial is None else values[op.initial]
    whole = np.concatenate([before, x])
    if op.delays is None:
        output = whole[: x.shape[0]]
    else:
        delays = np.broadcast_to(values[op.delays], x.shape[1:]).astype(np.int64)
        if delays.size and not 0 <= delays.min() <= delays.max() <= steps:
            raise ValueError(f"delays from {delays.min()} to {delays.max()}, expected 0 to {steps}")
        t = np.arange(x.shape[0], dtype=np.int64)[(slice(None), *[None] * delays.ndim)]
        output = np.take_along_axis(whole, t + steps - delays, axis=0)
    return (output,) if op.final is None else (output, whole[x.shape[0] :])


def attend(op: attention.AttentionOp, *operands: Array) -> tuple[Array, ...]:
    """See `spike.attention`."""
    q, k, v = (operand.astype(np.int64) for operand in operands[:3])
    scale, tau, threshold, zero = (np.asarray(n, np.float32) for n in (*op.numbers(), 0.0))
    is_ssa = op.kind.data == "ssa"
    sums = _heads(op, q, k, v) if is_ssa else (k * v).sum(axis=2, keepdims=True)
    currents = sums.astype(np.float32) * scale
    beta = np.float32(1 - 1 / op.numbers()[1])
    potential: Array = (
        operands[3] if op.initial is not None else np.zeros(currents.shape[1:], np.float32)
    )
    spikes = np.zeros(currents.shape, np.bool_)
    neuron = NumpyArithmetic(Options(op.compare.data, op.reset.data), {"v_reset": zero})
    for t, current in enumerate(currents):
        spikes[t], potential = neuron.fired(beta * potential + current / tau, threshold)
    output: Array = spikes if is_ssa else spikes & operands[0]
    return (output,) if op.final is None else (output, potential)


def heads_of(op: attention.AttentionOp, x: Array) -> Array:
    """[T, N, tokens, D] as [T, N, heads, tokens, D / heads]."""
    heads = op.heads.value.data
    return x.reshape(*x.shape[:3], heads, x.shape[-1] // heads).swapaxes(2, 3)


def _heads(op: attention.AttentionOp, q: Array, k: Array, v: Array) -> Array:
    """Q Kᵀ V of each head, side by side again: [T, N, L, D]."""
    split = [heads_of(op, x) for x in (q, k, v)]
    scores = product(split[0], split[1].swapaxes(-1, -2))
    return product(scores, split[2]).swapaxes(2, 3).reshape(q.shape)


def batch_norm(
    op: normalization.BatchNormOp, x: Array, scale: Array, bias: Array, mean: Array, var: Array
) -> Array:
    """See `spike.batch_norm`."""
    axis = op.axis.value.data
    scale, bias, mean, var = (along_channels(v, x.ndim, axis) for v in (scale, bias, mean, var))
    normalised = (x - mean) / np.sqrt(var + x.dtype.type(op.epsilon.value.data))
    if op.kind.data == "tdbn":
        normalised = normalised * x.dtype.type(op.factor())
    return normalised * scale + bias


RULES: dict[type[Operation], Rule] = {
    synapses.LinearOp: linear,
    synapses.ConvOp: conv,
    synapses.DelayOp: delay,
    attention.AttentionOp: attend,
    normalization.BatchNormOp: batch_norm,
}
