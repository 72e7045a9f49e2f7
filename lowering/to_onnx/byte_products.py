"""Layers on bytes in few operators: products and sums of two tensors, each with its rescaling.

What `lowering.from_tflite` makes of a layer is a dozen ops on i32; `to_tflite.integer_patterns`
finds it, `rescaling` says which floats have the same steps, and where none are found the rules of
each op write it. Bit for bit the program on every processor: QLinearConv where the kernel's own
rounding is the program's, with weights of the type that `byte_weights` says; else Conv on whole
numbers, whose float32 sums are exact in any order, and one rounding an operator. Matrices are
images of one pixel, since QLinearMatMul has no bias.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ..to_tflite.integer_patterns import Rescaled, Weighted, rescaled, times, weighted
from .byte_levels import centred, levels, signed, unsigned
from .byte_weights import SHIFT, store
from .graph import Array, Element
from .integer import FLOAT_EXACT
from .linear import window_attributes
from .onnx_writer import Writer
from .rescaling import Steps, factors_of, offsets_of, scales_of, steps_of

FINE = 1 << 20
"""What LiteRT multiplies the operands of a sum by, so that rounding them does not show."""

BYTES = (-128, 127)
"""The bounds of the levels."""


def byte_product(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the layer that ends in `op`; whether it could be."""
    if tensor_type(op.result).element_type != i8:
        return False
    scaled = rescaled(op.result)
    layer = None if scaled is None else weighted(scaled.source)
    if scaled is None or layer is None or (scaled.multipliers <= 0).any():
        return False
    rank = tensor_type(layer.x).get_num_dims()
    if not isinstance(layer.op, tensor.ConvOp) and rank != 2:
        return False
    channels = layer.weight.shape[0 if isinstance(layer.op, tensor.ConvOp) else 1]
    if scaled.multipliers.size not in (1, channels):
        return False
    low, high = _reach(layer, channels)
    if max(-low.min(initial=0), high.max(initial=0)) >= 1 << 30:
        return False
    steps = steps_of(lambda sums: _rescaled(scaled, sums), low, high, scaled.bounds, scaled.zero)
    made = _in_bytes(e, layer, steps) or _in_floats(
        e, layer, steps, scaled, max(-low.min(), high.max())
    )
    if made is None:
        return False
    e.bind(op.result, signed(e, _clipped(e, made, scaled)))
    return True


def _rescaled(scaled: Rescaled, sums: Array) -> Array:
    """The arithmetic of a rescaling, sums [channels, n]."""
    m = scaled.multipliers.reshape(-1, 1).astype(np.int64)
    exponent = scaled.exponents.reshape(-1, 1).astype(np.int64)
    if scaled.twice:
        left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
        part = (sums * m + (np.int64(1) << (30 - left))) >> (31 - left)
        part = np.clip(part, -(1 << 31), (1 << 31) - 1)
        moved = part - ((part < 0) & (right > 0))
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        steps = (moved + half) >> right
    else:
        shift = 31 - exponent
        steps = (sums * m + (np.int64(1) << (shift - 1))) >> shift
    return np.clip(steps + scaled.zero, *scaled.bounds)


def _reach(layer: Weighted, channels: int) -> tuple[Array, Array]:
    """The least and the greatest sum of each channel."""
    weight = layer.weight.astype(np.int64)
    rows = weight.reshape(channels, -1) if isinstance(layer.op, tensor.ConvOp) else weight.T
    ends = [rows * (bound - layer.zero) for bound in BYTES]
    bias = np.zeros(channels, np.int64) if layer.bias is None else layer.bias.astype(np.int64)
    low, high = np.minimum(*ends).sum(axis=1) + bias, np.maximum(*ends).sum(axis=1) + bias
    return low, high


def _in_floats(
    e: Writer, layer: Weighted, steps: Steps, scaled: Rescaled, reach: int
) -> str | None:
    """A product that float32 sums exactly, and QuantizeLinear with a scale a channel.

    The offset is subtracted: ONNX Runtime would make a sum a part of the product.
    """
    op, channels = layer.op, len(steps.sums)
    if not isinstance(op, tensor.ConvOp) or reach > FLOAT_EXACT:
        return None
    found = offsets_of(steps, np.broadcast_to(_factors(scaled), channels))
    if found is None or reach + np.abs(found.centre).max() > FLOAT_EXACT:
        return None
    x = centred(e, e.value(layer.x), layer.zero)
    name = op.weight.name_hint or "weight"
    bias = (0 if layer.bias is None else layer.bias.astype(np.int64)) - found.centre
    inputs = [
        x, e.cast(e.constant(layer.weight, name), Element.FLOAT),
        e.constant(bias.astype(np.float32), f"{name}.bias"),
    ]  # fmt: skip
    sums = e.node("Conv", inputs, Element.FLOAT, **window_attributes(op))
    zero = np.array(found.zero + SHIFT, np.uint8)
    exact = Element.DOUBLE if found.scale.dtype == np.float64 else Element.FLOAT
    places = [1] * (layer.weight.ndim - 2)
    less = e.constant(-found.offset.reshape(-1, *places), f"{name}.offset")
    sums = e.cast(sums, exact)
    if found.of_sign:
        less = e.apply("Mul", [e.apply("Sign", [sums]), less])
    steps_away = e.apply("Sub", [sums, less])
    if exact is Element.DOUBLE:
        scale = e.constant(found.scale.reshape(-1, *places), f"{name}.scale")
        rounded = e.apply("Round", [e.apply("Div", [steps_away, scale])])
        return levels(e, e.cast(rounded, Element.FLOAT), zero)
    zeros = e.constant(np.full(channels, zero), "zero_points")
    inputs = [steps_away, e.constant(found.scale, f"{name}.scale"), zeros]
    return e.call("", "QuantizeLinear", inputs, Element.UINT8, {"axis": 1})


def byte_sum(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the sum of two tensors of bytes that ends in `op`; whether it could be."""
    if tensor_type(op.result).element_type != i8:
        return False
    scaled = rescaled(op.result)
    added = None if scaled is None else scaled.source.owner
    if scaled is None or not isinstance(added, tensor.AddOp | tensor.SubOp):
        return False
    sides: list[tuple[Rescaled, SSAValue, int]] = []
    for value in (added.lhs, added.rhs):
        part = rescaled(value)
        inner = None if part is None or part.zero else times(part.source, FINE)
        if part is None or inner is None or tensor_type(inner[0]).element_type != i8:
            return False
        sides.append((part, *inner))
    if any(part.multipliers.size != 1 for part in (scaled, sides[0][0], sides[1][0])):
        return False
    sign = 1 if isinstance(added, tensor.AddOp) else -1
    parts = [
        _rescaled(part, (np.arange(-128, 128) - zero)[None, :] * FINE) for part, _, zero in sides
    ]
    table = _rescaled(scaled, parts[0].reshape(-1, 1) + sign * parts[1])
    real = [float(_factors(part)[0]) * FINE for part in (scaled, sides[0][0], sides[1][0])]
    about = np.array([real[1], sign * real[2]]) * real[0] / FINE
    found = factors_of(table, scaled.zero, (sides[0][2], sides[1][2]), about)
    if found is None:
        return False
    terms = [
        e.apply("Mul", [centred(e, e.value(x), zero), e.scalar(factor, Element.FLOAT)])
        for (_, x, zero), factor in zip(sides, found, strict=True)
    ]
    sums = levels(e, e.apply("Add", terms), np.array(scaled.zero + SHIFT, np.uint8))
    e.bind(op.result, signed(e, _clipped(e, sums, scaled)))
    return True


def _factors(scaled: Rescaled) -> Array:
    """What a rescaling multiplies by, about."""
    return np.ldexp(scaled.multipliers.astype(np.float64), scaled.exponents - 31)


def _clipped(e: Writer, name: str, scaled: Rescaled) -> str:
    """UINT8 levels within bounds."""
    if scaled.bounds == BYTES:
        return name
    low, high = (e.constant(np.array(b + SHIFT, np.uint8), "bound") for b in scaled.bounds)
    return e.node("Clip", [name, low, high], Element.UINT8)


def _in_bytes(e: Writer, layer: Weighted, steps: Steps) -> str | None:
    """QLinearConv in UINT8."""
    both = scales_of(steps)
    if both is None:
        return None
    scales, shifts = both
    x, op = unsigned(e, e.value(layer.x)), layer.op
    weight, attributes = layer.weight, {}
    if isinstance(op, tensor.ConvOp):
        attributes = window_attributes(op)
    else:
        x, weight = e.unsqueeze(x, [2, 3]), weight.T[:, :, None, None]
    name = op.operands[1].name_hint or "weight"
    stored = store(e.graph, name, np.ascontiguousarray(weight), 0)
    bias = shifts if layer.bias is None else layer.bias.astype(np.int64) + shifts
    one = e.scalar(1, Element.FLOAT)
    zeros = [np.array(zero + SHIFT, np.uint8) for zero in (layer.zero, steps.zero)]
    inputs = [
        x, one, e.constant(zeros[0], "zero_point"),
        stored.levels, e.constant(scales, f"{name}.scale"),
        e.constant(stored.zero_point, "weight_zero_point"),
        one, e.constant(zeros[1], "zero_point"), e.constant(bias.astype(np.int32), f"{name}.bias"),
    ]  # fmt: skip
    made = e.call("", "QLinearConv", inputs, Element.UINT8, attributes)
    if isinstance(op, tensor.ConvOp):
        return made
    return e.apply("Squeeze", [made], rest=[e.indices([2, 3], "axes")])
