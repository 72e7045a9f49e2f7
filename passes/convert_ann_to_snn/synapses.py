"""Products with constant weights, sums, and normalisation: what is linear stays so at each step.

What a spike is worth goes into the weights that read it, so that spikes stay spikes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC
from ..analysis.compile_time import literal_value
from ..analysis.layers import Layer, input_of, is_conv, is_ternary, options_of, weight_of
from . import neurons
from .signals import ONE, Conversion, NotConvertible, Signal, compact


def product(state: Conversion, op: Layer) -> Sequence[Signal]:
    """A layer as a synapse: worth into the weights, of ternary layers into the scale."""
    options = options_of(op)
    others = (weight_of(op), *options.values())
    if any(state.is_dynamic(value) for value in others) or weight_of(op) not in state.known:
        raise NotConvertible("both factors change with the input; only constant weights convert")
    if {"thresholds", "multiplier"} & set(options):
        raise NotConvertible("it is quantised; convert the float program before quantising")
    if not state.is_dynamic(input_of(op)):
        return [_first(state, op)]
    signal = state.signals[input_of(op)]
    if is_ternary(op):
        return [_ternary(state, op, signal)]
    worth = input_worth(op, signal)
    if worth is None:
        signal, worth = Signal(state.dense(signal), ONE, signal.type), ONE
    weight, bias = weight_of(op), options.get("bias")
    element = tensor_type(weight).element_type
    correction = state.correction
    better = None if correction is None else correction.weights(state, op, signal)
    name = weight.name_hint or "weight"
    if correction is not None and better is not None:
        weight = state.constant(better.weight * worth, element, f"{name}.fitted")
        bias = None if state.signed else state.constant(better.bias, element, f"{name}.bias")
    elif worth.ndim or float(worth) != 1.0:
        factor = state.constant(worth, element, "worth")
        weight = state.add(tensor.MulOp(weight, factor))
    current = state.add(_synapse(op, signal.steps, weight, bias=bias))
    if correction is not None and better is not None:
        if (better.shares != 1).any():
            shares = better.shares.reshape(-1, *[1] * (tensor_type(current).get_num_dims() - 1))
            current = state.add(tensor.MulOp(current, state.constant(shares, element, "shares")))
        if state.signed:
            current = correction.biased(state, op, current, better.bias, f"{name}.bias")
        state.exact.add(current)
    return [Signal(current, ONE, tensor_type(op.result))]


def _first(state: Conversion, op: Layer) -> Signal:
    """Neurons on a fused layer whose input does not change: its sums are computed once."""
    assert isinstance(op, ternary.FusedOp)
    once = state.add(op.rebuild(activation="none"))
    current = state.add(spike.EncodeOp(once, "direct", state.timesteps))
    return neurons.fire(state, op, op.result, current)


def input_worth(op: Layer, signal: Signal) -> Array | None:
    """What to multiply the weight of a layer with; `None` if worth changes along other axes."""
    worth = signal.worth
    if worth.ndim == 0:
        return worth
    if not is_conv(op):
        *others, last = worth.shape
        return worth.reshape(last, 1) if all(size == 1 for size in others) else None
    if any(size != 1 for size in worth.shape[1:]):
        return None
    weight = tensor_type(weight_of(op)).get_shape()
    groups: int = getattr(op, "groups").value.data  # noqa: B009
    spatial = [1] * (len(weight) - 2)
    if groups == 1:
        return worth.reshape(1, -1, *spatial)
    inputs = np.broadcast_to(worth, (weight[1] * groups, *worth.shape[1:])).reshape(groups, -1)
    return np.repeat(inputs, weight[0] // groups, axis=0).reshape(weight[0], -1, *spatial)


def _ternary(state: Conversion, op: Any, signal: Signal) -> Signal:
    if not signal.uniform:
        signal = Signal(state.dense(signal), ONE, signal.type)
    options = options_of(op)
    scale, bias = options.get("scale"), options.get("bias")
    element = tensor_type(op.result).element_type
    if float(signal.worth) != 1.0 or scale is None:
        worth = state.number(float(signal.worth), element)
        scale = worth if scale is None else state.add(tensor.MulOp(scale, worth))
    current = state.add(_synapse(op, signal.steps, weight_of(op), scale=scale, bias=bias))
    if neurons.is_activation(op):
        return neurons.fire(state, op, op.result, current)
    if isinstance(op, ternary.FusedOp) and op.activation.data != "none":
        raise NotConvertible(f"neurons cannot stand for the activation '{op.activation.data}'")
    return Signal(current, ONE, tensor_type(op.result))


def _synapse(
    op: Layer,
    steps: SSAValue,
    weight: SSAValue,
    *,
    scale: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> spike.SynapseOp:
    if not isinstance(op, tensor.ConvOp | ternary.ConvOp):
        return spike.LinearOp(steps, weight, scale=scale, bias=bias)
    return spike.ConvOp(
        steps,
        weight,
        scale=scale,
        bias=bias,
        **op.window,
    )


def addition(state: Conversion, op: tensor.AddOp | tensor.SubOp) -> Sequence[Signal]:
    """A residual sum, or a bias: currents add up; spikes become currents of what they are worth."""
    type = tensor_type(op.result)
    sides: list[SSAValue] = []
    for value in op.operands:
        if not state.is_dynamic(value):
            sides.append(value)
            continue
        _needs_rank(state.signals[value], type.get_num_dims())
        sides.append(state.dense(state.signals[value]))
    return [Signal(state.add(op.__class__(*sides)), ONE, type)]


def _needs_rank(signal: Signal, rank: int) -> None:
    """Refuse what would broadcast its time axis along another one."""
    if signal.type.get_num_dims() < rank:
        raise NotConvertible("what changes over time has fewer axes than the result")


def scaling(state: Conversion, op: tensor.MulOp | tensor.DivOp) -> Sequence[Signal]:
    """A product with what does not change over time; a constant goes into the worth."""
    lhs, rhs = op.operands
    type = tensor_type(op.result)
    if state.is_dynamic(rhs) and (state.is_dynamic(lhs) or isinstance(op, tensor.DivOp)):
        raise NotConvertible("it is no linear function of what changes over time")
    value, factor = (lhs, rhs) if state.is_dynamic(lhs) else (rhs, lhs)
    signal = state.signals[value]
    _needs_rank(signal, type.get_num_dims())
    shape = tensor_type(factor).get_shape()
    if factor in state.known and all(size == 1 for size in shape):
        numbers = literal_value(factor)
        if numbers is not None:
            number = float(numbers.reshape(()))
            worth = signal.worth / number if isinstance(op, tensor.DivOp) else signal.worth * number
            return [Signal(signal.steps, worth, type)]
    sides = [state.dense(signal) if v is value else v for v in op.operands]
    return [Signal(state.add(op.__class__(*sides)), ONE, type)]


def negation(state: Conversion, op: tensor.NegOp) -> Sequence[Signal]:
    """The same spikes, worth the opposite."""
    signal = state.signals[op.operand]
    return [Signal(signal.steps, -signal.worth, signal.type)]


def batch_norm(state: Conversion, op: tensor.BatchNormOp) -> Sequence[Signal]:
    """Normalisation of the current by constants; `fuse-linear` moves it into a product first."""
    if any(state.is_dynamic(value) for value in op.operands[1:]):
        raise NotConvertible("its statistics change with the input")
    current = state.dense(state.signals[op.input])
    constants = (op.scale, op.bias, op.mean, op.variance)
    new_op = spike.BatchNormOp(current, *constants, axis=2, epsilon=op.epsilon.value.data)
    return [Signal(state.add(new_op), ONE, tensor_type(op.result))]


def average(state: Conversion, op: tensor.AvgPoolOp) -> Sequence[Signal]:
    """The mean of the spikes of each window, a graded spike that is worth as much as they are."""
    counted = bool(op.count_include_pad.value.data)
    steps, worth = _averaged(state, state.signals[op.operand], op.window, counted)
    return [Signal(steps, worth, tensor_type(op.result))]


def _averaged(
    state: Conversion, signal: Signal, window: Sequence[Sequence[int]], counted: bool = True
) -> tuple[SSAValue, Array]:
    if any(size != 1 for size in signal.worth.shape[1:]):
        signal = Signal(state.dense(signal), ONE, signal.type)
    steps = state.floats(signal) if _wide(signal) else signal.steps
    return state.add(spike.AvgPoolOp(steps, *window, count_include_pad=counted)), signal.worth


def _wide(signal: Signal) -> bool:
    return signal.type.element_type != f32


def maximum(state: Conversion, op: tensor.MaxPoolOp) -> Sequence[Signal]:
    """A spike when the largest count of spikes in the window grows: the maximum of the rates.

    Counts grow by one a step at most, and so does their maximum.
    """
    signal = state.signals[op.operand]
    if not spike.is_train(signal.steps) or (signal.worth <= 0).any():
        plain = "convert without signed ones, and " if state.signed else ""
        reason = "the maximum over time is defined on spikes"
        raise NotConvertible(f"{reason}; {plain}put it after neurons")
    if any(size != 1 for size in signal.worth.shape[1:]):
        raise NotConvertible("the spikes of a window are not worth the same")
    element = signal.type.element_type
    counts = state.add(
        spike.LeakyIntegratorOp(state.add(spike.ToTensorOp(signal.steps, element)), 1.0)
    )
    train = state.add(spike.FromTensorOp(neurons.growth(state, op, counts)))
    return [Signal(train, signal.worth, tensor_type(op.result))]


def reduction(
    state: Conversion, op: tensor.ReduceMeanOp | tensor.ReduceSumOp | tensor.GlobalAvgPoolOp
) -> Sequence[Signal]:
    """A mean or a sum over axes other than the first, at each step.

    The mean of each channel of spikes is a pool of one window, which chips have in the weights.
    """
    signal = state.signals[op.operand]
    rank, sizes = signal.type.get_num_dims(), signal.type.get_shape()[2:]
    if isinstance(op, tensor.GlobalAvgPoolOp):
        axes, keep, kind = list(range(2, rank)), True, tensor.ReduceMeanOp
    else:
        axes = [axis % rank for axis in op.axes.get_values()]
        keep, kind = bool(op.keepdims.value.data), type(op)
    if 0 in axes:
        raise NotConvertible("it reduces the first axis, which counts the samples")
    if (
        kind is tensor.ReduceMeanOp
        and spike.is_train(signal.steps)
        and sorted(axes) == list(range(2, rank))
        and len(sizes) in (1, 2)
        and DYNAMIC not in sizes
    ):
        steps, worth = _averaged(state, signal, (sizes, sizes, [0] * 2 * len(sizes)))
        if not keep:
            steps = state.add(tensor.ReshapeToOp(steps, [-2, -3, -4]))
            worth = worth.reshape(worth.shape[:1])
        return [Signal(steps, worth, tensor_type(op.result))]
    worth = signal.worth
    if worth.ndim and any(worth.shape[axis - 1] != 1 for axis in axes):
        steps, worth = state.dense(signal), ONE
    else:
        steps = state.floats(signal)
    if worth.ndim and not keep:
        worth = compact(worth.squeeze(tuple(axis - 1 for axis in axes)))
    new_op = kind(steps, [axis + 1 for axis in axes], keepdims=keep)
    return [Signal(state.add(new_op), worth, tensor_type(op.result))]


RULES = {
    tensor.AddOp: addition,
    tensor.AvgPoolOp: average,
    tensor.BatchNormOp: batch_norm,
    tensor.ConvOp: product,
    tensor.DivOp: scaling,
    tensor.GlobalAvgPoolOp: reduction,
    tensor.LinearOp: product,
    tensor.MatmulOp: product,
    tensor.MaxPoolOp: maximum,
    tensor.MulOp: scaling,
    tensor.NegOp: negation,
    tensor.ReduceMeanOp: reduction,
    tensor.ReduceSumOp: reduction,
    tensor.SubOp: addition,
    ternary.ConvOp: product,
    ternary.LinearOp: product,
    ternary.MatmulOp: product,
}
