"""Products with a weight, float or ternary, seen alike: the layers of a network.

A *layer* is `ternary.linear`, `ternary.conv`, `tensor.linear` or `tensor.conv`, or a `matmul` by
one matrix, which is a `linear` without options. Batched products by several matrices are none. A
*synapse* is `spike.linear` or `spike.conv`, with time as one more axis in front; it is no layer,
but what is asked of layers here can be asked of it.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeGuard, cast

from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.spike import rebuild
from ...dialects.ternary.linear import OPTIONS
from ...ir.locations import location_name

Synapse: TypeAlias = spike.SynapseOp

PlainLayer: TypeAlias = tensor.LinearOp | tensor.MatmulOp | tensor.ConvOp
"""A product with a weight that may be of floats."""

TernaryLayer: TypeAlias = ternary.LinearOp | ternary.MatmulOp | ternary.ConvOp

Layer: TypeAlias = TernaryLayer | PlainLayer


def is_layer(op: object) -> TypeGuard[Layer]:
    """Whether `op` is a layer."""
    if isinstance(op, tensor.MatmulOp):
        return _is_linear(op.lhs, op.rhs)
    if isinstance(op, ternary.MatmulOp):
        return _is_linear(op.input, op.weight)
    return isinstance(op, ternary.FusedOp | tensor.LinearOp | tensor.ConvOp)


def _is_linear(input: SSAValue, weight: SSAValue) -> bool:
    return tensor_type(input).get_num_dims() >= 2 and tensor_type(weight).get_num_dims() == 2


def is_conv(op: Operation) -> bool:
    """Whether a layer or synapse is a convolution: weight [O, I, …]."""
    return isinstance(op, ternary.ConvOp | tensor.ConvOp | spike.ConvOp)


def is_ternary(op: Operation) -> bool:
    """Whether a layer has a weight of trits."""
    return isinstance(op, ternary.FusedOp | ternary.MatmulOp)


def input_of(op: Layer | Synapse) -> SSAValue:
    """The layer's input."""
    return op.lhs if isinstance(op, tensor.MatmulOp) else op.input


def weight_of(op: Layer | Synapse) -> SSAValue:
    """The layer's weight."""
    return op.rhs if isinstance(op, tensor.MatmulOp) else op.weight


def layer_name(op: Layer | Synapse) -> str:
    """What a layer is called: by its weight, or by the source where the weight's name is made up.

    Returns:
        The key or name of the weight, or the name of the op; empty where there is none.
    """
    weight = weight_of(op)
    owner = weight.owner
    keyed = isinstance(owner, tensor.ParameterOp | ternary.ParameterOp)
    name = owner.key.data if keyed else weight.name_hint or ""
    made_up = re.fullmatch(r"(constant|weight|_?\d+)?(\.\d+)?", name) is not None
    return (made_up and location_name(op)) or name


def options_of(op: Layer | Synapse) -> dict[str, SSAValue]:
    """The optional operands that the layer has, by name."""
    options = {name: getattr(op, name, None) for name in OPTIONS}
    return {name: value for name, value in options.items() if value is not None}


def channel_axis(op: Layer | Synapse) -> int:
    """The axis of the result that holds the output channels, counted from the front."""
    if isinstance(op, spike.ConvOp):
        return op.CHANNEL_AXIS
    return 1 if is_conv(op) else tensor_type(op.result).get_num_dims() - 1


def channel_count(op: Layer | Synapse) -> int:
    """The number of output channels; `DYNAMIC` where it is not known."""
    return tensor_type(weight_of(op)).get_shape()[0 if is_conv(op) else -1]


def rebuilt(op: Layer | Synapse, **changes: object) -> InferredOp:
    """A copy of the layer with other operands or options, not inserted.

    Args:
        op: the layer; a `matmul` becomes a `linear`.
        **changes: `input`, `weight`, `bias`; for ternary layers any argument of their constructor.
    """
    if isinstance(op, ternary.FusedOp):
        return op.rebuild(**changes)
    if isinstance(op, Synapse):
        replacements = {
            name: [value] for name, value in cast("dict[str, SSAValue]", changes).items()
        }
        return rebuild.rebuilt(op, replacements)
    fields: dict[str, object] = {"input": input_of(op), "weight": weight_of(op), **options_of(op)}
    fields.update(changes)
    return _build(op, fields)


def _build(op: Layer, fields: dict[str, Any]) -> InferredOp:
    if isinstance(op, ternary.MatmulOp):
        return ternary.LinearOp(**fields)
    if isinstance(op, tensor.ConvOp):
        return tensor.ConvOp(
            **fields,
            **op.window,
        )
    return tensor.LinearOp(**fields)


def as_ternary(
    op: PlainLayer,
    trits: SSAValue,
    scale: SSAValue | None = None,
    bias: SSAValue | None = None,
    input: SSAValue | None = None,
) -> TernaryLayer:
    """The op that computes what `op` does with trits for its weight, not inserted.

    Args:
        op: the layer.
        trits: in the shape of its weight.
        scale: one number, or one an output channel.
        bias: one number an output channel; only where the weight is one matrix.
        input: in the place of its own.
    """
    input = input_of(op) if input is None else input
    if isinstance(op, tensor.ConvOp):
        return ternary.ConvOp(
            input,
            trits,
            **op.window,
            scale=scale,
            bias=bias,
        )
    if isinstance(op, tensor.LinearOp) or _is_linear(op.lhs, op.rhs):
        return ternary.LinearOp(input, trits, scale=scale, bias=bias)
    return ternary.MatmulOp(input, trits, scale=scale)
