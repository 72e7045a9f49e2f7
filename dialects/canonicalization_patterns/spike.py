"""Canonicalisation patterns of the `spike` dialect: rewrites that keep every bit of the result.

Those that put a simpler neuron in the place of another stand in `spike_neurons`.
"""

from __future__ import annotations

from math import frexp
from typing import Any, TypeGuard

import numpy as np
from xdsl.dialects.builtin import f32, f64, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ...ir.arrays import Array
from .. import tensor
from ..elements import numpy_dtype
from ..inference import keep_result_types, replace_with, tensor_type
from ..parameters import constant_value, dense_constant
from ..shapes import DYNAMIC
from ..spike.coding import DecodeOp, EncodeOp, FromTensorOp, ToTensorOp
from ..spike.layer import LayerOp
from ..spike.neuron import NeuronOp
from ..spike.rebuild import rebuilt
from ..spike.synapses import AvgPoolOp, ConvOp, DelayOp, LinearOp, MaxPoolOp
from ..spike.types import is_train, number
from .spike_neurons import simpler_neurons

Synapse = LinearOp | ConvOp

SAFE = 2.0**50
"""Weights, scales and biases within [1/SAFE, SAFE] round alike when all are scaled by a power of
two: no sum or product of them overflows, and none is rounded as a denormal number."""


class TrainOfTensor(RewritePattern):
    """A train that became a tensor and a train again is the train."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FromTensorOp, rewriter: PatternRewriter) -> None:
        inner = op.operand.owner
        if isinstance(inner, ToTensorOp) and inner.operand.type == op.result.type:
            rewriter.replace(op, [], [inner.operand])


class TensorOfTrain(RewritePattern):
    """Truth values that became a train and truth values again are themselves."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ToTensorOp, rewriter: PatternRewriter) -> None:
        inner = op.operand.owner
        if (
            isinstance(inner, FromTensorOp)
            and inner.operand.type == op.result.type
            and tensor_type(op.result).element_type == i1
        ):
            rewriter.replace(op, [], [inner.operand])


class DecodedConstant(RewritePattern):
    """Numbers that became a constant current and are read out again are themselves.

    The last step and the largest are; the mean of many equal numbers may be rounded. The rate of
    truth values is 0 or 1.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DecodeOp, rewriter: PatternRewriter) -> None:
        inner = op.operand.owner
        if not isinstance(inner, EncodeOp) or inner.scheme.data != "direct":
            return
        assert inner.timesteps is not None
        if op.scheme.data == "rate":
            replace_with(op, tensor.ConvertOp(inner.operand, f32), rewriter)
        elif (
            op.readout is not None
            and (op.readout.data in ("last", "max") or inner.timesteps.value.data == 1)
            and inner.operand.type == op.result.type
        ):
            rewriter.replace(op, [], [inner.operand])


class NoDelay(RewritePattern):
    """A delay of 0 steps is its input, and what it holds back is nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DelayOp, rewriter: PatternRewriter) -> None:
        if (
            op.steps.value.data == 0
            and op.final is None
            and op.delays is None
            and op.input.type == op.output.type
        ):
            rewriter.replace(op, [], [op.input])


class MergeDelays(RewritePattern):
    """Two delays, one after the other and without states, become one of the sum."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DelayOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, DelayOp) and _is_plain(op) and _is_plain(inner):
            steps = op.steps.value.data + inner.steps.value.data
            replace_with(op, DelayOp(inner.input, steps), rewriter)


def _is_plain(op: DelayOp) -> bool:
    return op.delays is None and op.initial is None and op.final is None


class UnitWindows(RewritePattern):
    """A pool whose every window is one element is its operand."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (
            isinstance(op, AvgPoolOp | MaxPoolOp)
            and op.keeps_every_element()
            and op.operand.type == op.result.type
        ):
            rewriter.replace(op, [], [op.operand])


class FactorIntoGain(RewritePattern):
    """A neuron without gain takes a constant factor on its input as its gain."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, NeuronOp) or _gain(op) != 1:
            return
        product = op.input.owner
        if not isinstance(product, tensor.MulOp) or product.result.type != op.input.type:
            return
        for value, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            factor = _number(other)
            if factor is not None and value.type == op.input.type:
                _set_gain(op, factor, value, rewriter)
                return


class GainIntoSynapse(RewritePattern):
    """The gain of a neuron moves into the synapse that alone feeds it.

    Any gain becomes the scale of float weights that have neither scale nor bias, also one with a
    number a channel: the product is the same. A power of two also multiplies a constant scale and
    bias.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, NeuronOp):
            return
        gain, synapse = _gain(op), op.input.owner
        if not _gives_floats(synapse) or not op.input.has_one_use() or _in_layer(op):
            return
        if gain is None:
            _vector_into_synapse(op, synapse, rewriter)
            return
        if gain == 1:
            return
        element = tensor_type(op.input).element_type
        bare = synapse.scale is None and synapse.bias is None
        changes: dict[str, SSAValue] = {}
        if bare:
            scale = _scalar(gain, element)
            changes["scale"] = scale.result
        elif _is_power_of_two(gain) and _scales_exactly(synapse, gain):
            for name in ("scale", "bias"):
                value: SSAValue | None = getattr(synapse, name)
                if value is None:
                    continue
                scaled = _scaled_constant(value, gain)
                if scaled is None:
                    return
                changes[name] = scaled.result
            if synapse.scale is None:
                scale = _scalar(gain, element)
                changes["scale"] = scale.result
        else:
            return
        new = _rebuilt(synapse, changes)
        keep_result_types(new, synapse)
        for new_op in (*(value.owner for value in changes.values()), new):
            assert isinstance(new_op, Operation)
            new_op.location = synapse.location
            rewriter.insert(new_op)
        _set_gain(op, None, new.result, rewriter)


def _vector_into_synapse(op: NeuronOp, synapse: Synapse, rewriter: PatternRewriter) -> None:
    """Make gains with one number a channel the scale of a synapse that has none, and no bias."""
    values = op.parameter("gain")
    assert isinstance(values, SSAValue)
    shape, type = tensor_type(values).get_shape(), tensor_type(op.input)
    tail = type.get_num_dims() - synapse.CHANNEL_AXIS % type.get_num_dims()
    if synapse.scale is not None or synapse.bias is not None:
        return
    if len(shape) != tail or shape[0] == DYNAMIC or any(size != 1 for size in shape[1:]):
        return
    if shape[0] != type.get_shape()[synapse.CHANNEL_AXIS]:
        return
    if tail > 1:
        flat = tensor.ReshapeToOp(values, [shape[0]])
        flat.location = op.location
        rewriter.insert(flat)
        values = flat.result
    new = _rebuilt(synapse, {"scale": values})
    keep_result_types(new, synapse)
    new.location = synapse.location
    rewriter.insert(new)
    rewriter.replace(op, rebuilt(op, {"input": [new.result], "gain_values": []}))


class ScaleIntoWeights(RewritePattern):
    """A scale of powers of two moves into constant float weights."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, LinearOp | ConvOp) or op.scale is None or _in_layer(op):
            return
        factors = _powers_of_two(op.scale)
        if factors is None:
            return
        if factors.ndim and isinstance(op, ConvOp):
            factors = factors.reshape(-1, *[1] * (tensor_type(op.weight).get_num_dims() - 1))
        weight = _scaled_constant(op.weight, factors)
        # Graded spikes may be so small or large that a product is not exact.
        if weight is None or not is_train(op.input):
            return
        weight.location = op.location
        rewriter.insert(weight)
        replace_with(op, _rebuilt(op, {"weight": weight.result, "scale": None}), rewriter)


def _in_layer(op: Operation) -> bool:
    """Whether `op` stands in `spike.layer`, whose body takes no constants."""
    return isinstance(op.parent_op(), LayerOp)


def _gives_floats(op: object) -> TypeGuard[Synapse]:
    """Whether `op` is a synapse that gives f32 or f64."""
    return isinstance(op, LinearOp | ConvOp) and tensor_type(op.result).element_type in (f32, f64)


def _scales_exactly(op: Synapse, factor: float) -> bool:
    """Whether spikes times the weights times a power of two, bias and all, round as before.

    Sums of i8 and trit weights are integers below 2^31, far from the ends of f32.
    """
    if op.sum_element(tensor_type(op.weight)) == i32:
        return True
    return is_train(op.input) and _scaled_constant(op.weight, factor) is not None


def _gain(op: NeuronOp) -> float | None:
    """The gain of all neurons; `None` where each has its own."""
    gain = op.parameter("gain")
    return gain if isinstance(gain, float) else None


def _number(value: SSAValue) -> float | None:
    """The value of a scalar float constant."""
    if not isinstance(value.owner, tensor.ConstantOp) or value.owner.result.type.get_shape():
        return None
    array = constant_value(value.owner)
    if array is None or array.dtype.name not in ("float32", "float64") or not np.isfinite(array):
        return None
    return float(array)


def _scalar(value: float, element: Attribute) -> tensor.ConstantOp:
    with np.errstate(over="ignore"):
        return dense_constant(np.asarray(value, numpy_dtype(element)), element)


def _is_power_of_two(factor: float) -> bool:
    return factor != 0 and abs(frexp(factor)[0]) == 0.5


def _powers_of_two(value: SSAValue) -> Array | None:
    """The values of a float constant, all of them powers of two."""
    array = constant_value(value.owner) if isinstance(value.owner, tensor.ConstantOp) else None
    if array is None or array.dtype.name not in ("float32", "float64"):
        return None
    fractions = np.frexp(np.abs(array))[0]
    return array if bool((np.isfinite(array) & (fractions == 0.5)).all()) else None


def _scaled_constant(value: SSAValue, factor: float | Array) -> tensor.ConstantOp | None:
    """A float constant times powers of two, not inserted; `None` where that may round."""
    if not isinstance(value.owner, tensor.ConstantOp):
        return None
    array = constant_value(value.owner)
    if array is None or array.dtype.name not in ("float32", "float64"):
        return None
    with np.errstate(all="ignore"):
        scaled: Array = array * np.asarray(factor, array.dtype)
    sizes = np.abs(np.concatenate([array.reshape(-1), scaled.reshape(-1)]).astype(np.float64))
    if not ((sizes == 0) | ((sizes >= 1 / SAFE) & (sizes <= SAFE))).all():
        return None
    return dense_constant(scaled, tensor_type(value).element_type)


def _rebuilt(op: Synapse, changes: dict[str, Any]) -> Synapse:
    """A copy of a synapse with some operands changed."""
    fields: dict[str, Any] = {
        "input": op.input,
        "weight": op.weight,
        "scale": op.scale,
        "bias": op.bias,
        **changes,
    }
    if isinstance(op, LinearOp):
        return LinearOp(**fields)
    return ConvOp(
        **fields,
        **op.window,
    )


def _set_gain(op: NeuronOp, gain: float | None, input: SSAValue, rewriter: PatternRewriter) -> None:
    new = op.clone()
    new.properties.pop("gain", None)
    attribute = number(gain)
    if attribute is not None:
        new.properties["gain"] = attribute
    new.operands[0] = input
    new.location = op.location
    rewriter.replace(op, new)


def patterns_of(kind: type[Operation]) -> tuple[RewritePattern, ...]:
    """The patterns of one op."""
    if not issubclass(kind, NeuronOp):
        return _PATTERNS.get(kind, ())
    if kind.PARAMETERS.get("w_in") is not None:
        return simpler_neurons()  # its gain follows the synaptic current
    return (FactorIntoGain(), GainIntoSynapse(), *simpler_neurons())


_PATTERNS: dict[type[Operation], tuple[RewritePattern, ...]] = {
    AvgPoolOp: (UnitWindows(),),
    ConvOp: (ScaleIntoWeights(),),
    DecodeOp: (DecodedConstant(),),
    DelayOp: (NoDelay(), MergeDelays()),
    FromTensorOp: (TrainOfTensor(),),
    LinearOp: (ScaleIntoWeights(),),
    MaxPoolOp: (UnitWindows(),),
    ToTensorOp: (TensorOfTrain(),),
}
