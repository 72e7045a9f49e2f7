"""Products on 8-bit integers that take float operands: weights with scales, rounded activations.

The writer's `precision` asks for them. In `dynamic-int8` a product rounds its activations to 8
bits in each run; ONNX Runtime joins the nodes to its own integer product. In `int8` trits become
weights with a scale, and `calibrated` does the rest on the finished graph.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ..integer_weights import symmetric
from .byte_weights import ByteWeight, multiply, multiply_signed, of_trits, restore, store
from .graph import Array, Element
from .onnx_writer import Writer

SMALLEST = 256
"""Weights of fewer elements stay floats: nothing is gained."""


def dynamic_product(e: Writer, input: SSAValue, weight: SSAValue) -> str | None:
    """x · W with activations rounded in each run; `None` where that is not wanted or not gained.

    The weight is a known matrix of floats, or trits.
    """
    owner = e.source(weight).owner
    if isinstance(owner, ternary.DequantizeOp) and owner.axis.value.data in (1, -1):
        return dynamic_trits(e, input, owner.operand, owner.scale)
    known = _known(owner)
    if e.precision != "dynamic-int8" or known is None or not _takes_floats(input):
        return None
    name = weight.name_hint or "weight"
    levels, scale = symmetric(known, 1, e.weight_bits)
    stored = store(e.graph, name, levels, 1)
    return _rounded_product(e, e.value(input), stored, e.constant(scale, f"{name}.scale"))


def byte_product(e: Writer, input: SSAValue, weight: SSAValue) -> str | None:
    """x · W in INT32 for bytes x that are widened; `None` where operands are something else.

    The weight is a known matrix of 8 bits.
    """
    widened, owner = input.owner, e.source(weight).owner
    if not isinstance(widened, tensor.ConvertOp) or not isinstance(owner, Operation):
        return None
    known = constant_value(owner)
    types = tensor_type(widened.operand).element_type, tensor_type(input).element_type
    if types != (i8, i32) or tensor_type(input).get_num_dims() < 2 or known is None:
        return None
    if known.ndim != 2 or not known.size or known.min() < -128 or known.max() > 127:
        return None
    stored = store(e.graph, weight.name_hint or "weight", known.astype(np.int8), 1)
    return multiply_signed(e, e.value(widened.operand), stored)


def dynamic_trits(
    e: Writer, input: SSAValue, weight: SSAValue, scale: SSAValue | None
) -> str | None:
    """The same for trits with a scale, one for all or one a column; they stay packed."""
    packed = e.packed(weight)
    type = tensor_type(weight)
    wanted = e.precision == "dynamic-int8" and packed is not None and _takes_floats(input)
    if not wanted or type.get_num_dims() != 2:
        return None
    step = e.scalar(1, Element.FLOAT) if scale is None else e.value(scale)
    return _rounded_product(e, e.value(input), of_trits(e.trits(weight, Element.INT8)), step)


def _rounded_product(e: Writer, x: str, weight: ByteWeight, scale: str) -> str:
    """x · (weight · scale) for x rounded to 8 bits."""
    rounded, step, zero = e.rounded(x)
    sums = multiply(e, rounded, zero, weight)
    factor = e.apply("Mul", [step, scale])
    return e.apply("Mul", [e.cast(sums, Element.FLOAT), factor])


def scaled_trits(e: Writer, weight: SSAValue, scale: SSAValue | None, axis: int) -> str:
    """Packed trits as floats by way of INT8, which the quantised operators of the runtime read.

    Args:
        weight: constant trits.
        scale: of each channel along `axis`, or of all; `None` for 1.
    """
    trits = of_trits(e.trits(weight, Element.INT8))
    step = e.scalar(1, Element.FLOAT) if scale is None else e.value(scale)
    shape = () if scale is None else tensor_type(scale).get_shape()
    return restore(e.graph, trits, (step, shape), axis, f"{e.hint}.restored")


def _known(owner: object) -> Array | None:
    """The values of a float matrix that is worth it."""
    values = constant_value(owner) if isinstance(owner, Operation) else None
    if values is None or values.dtype != np.float32 or values.ndim != 2:
        return None
    return values if values.size >= SMALLEST else None


def _takes_floats(value: SSAValue) -> bool:
    type = tensor_type(value)
    return type.element_type == f32 and type.get_num_dims() >= 2
