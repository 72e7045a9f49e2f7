"""Which axis of a value holds its channels."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Operation, SSAValue

from ...dialects.inference import tensor_type
from ..analysis.layers import Synapse, is_conv, is_layer

_REACH = 32
"""How many ops to look back for the product that a value comes from."""


def channel_axis(value: SSAValue) -> int:
    """The axis of the channels of a value [N, …] of a float program.

    Axis 1 after a convolution, the last after a product with a matrix; else 1 for images.
    """
    current = value
    for _ in range(_REACH):
        owner = current.owner
        if is_layer(owner):
            return 1 if is_conv(owner) else tensor_type(value).get_num_dims() - 1
        if not isinstance(owner, Operation) or not owner.operands:
            break
        if tensor_type(owner.results[0]).get_num_dims() != tensor_type(value).get_num_dims():
            break
        current = owner.operands[0]
    rank = tensor_type(value).get_num_dims()
    return 1 if rank > 3 else rank - 1


def is_synapse(op: object) -> TypeGuard[Synapse]:
    """Whether `op` is a synapse with weights."""
    return isinstance(op, Synapse)
