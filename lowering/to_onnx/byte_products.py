"""Layers on bytes in few operators: products with weights and of matrices, and their rescaling.

What `lowering.from_tflite` makes of a layer is a dozen ops on i32; `to_tflite.integer_patterns`
finds it, `rescaling` says which floats have the same steps, and where none are found the rules of
each op write it. Bit for bit the program on every processor: QLinearConv where the kernel's own
rounding is the program's, with weights of the type that `byte_weights` says; else Conv on whole
numbers, whose float32 sums are exact in any order, and one rounding an operator. Matrices are
images of one pixel, since QLinearMatMul has no bias.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ..to_tflite.integer_patterns import (
    WIDE,
    Rescaled,
    Scaled,
    Weighted,
    known,
    rescaled,
    scaled_in_floats,
    weighted,
)
from ..to_tflite.integer_patterns import centred as inside
from .byte_levels import centred, signed, unsigned
from .byte_neighbours import neighbours_of
from .byte_steps import (
    BYTES,
    floats_of,
    parts_of,
    rescaled_sums,
    stepped,
    within,
)
from .byte_weights import SHIFT, convolve, fits, store
from .graph import Array, Attributes, Element
from .linear import window_attributes
from .onnx_writer import Writer
from .rescaling import Line, Steps, scales_of, steps_of


def byte_product(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the layer that ends in `op`; whether it could be."""
    scaled = rescaled(op.result)
    layer = None if scaled is None else _layer(op, scaled.source)
    if scaled is None or layer is None or (scaled.multipliers < 0).any():
        return False
    channels = _channels(layer)
    if scaled.multipliers.size not in (1, channels):
        return False
    if scaled.multipliers.size == channels:
        layer, scaled = _settled(layer, scaled, channels)
    low, high = _reach(layer, channels)
    if max(-low.min(initial=0), high.max(initial=0)) >= 1 << 30:
        return False
    both = scales_of(_steps(scaled, low, high))
    if both is None:
        made = _in_floats(e, layer, scaled, low, high)
    else:
        made = _convolved(e, layer, *both, scaled, op.result)
    if made is None:
        return False
    e.bind(op.result, signed(e, made))
    return True


def float_product(e: Writer, op: tensor.QuantizeOp) -> bool:
    """Write the layer that ends in `op`, which rescales as QLinearConv does; whether it was one."""
    scaled = scaled_in_floats(op.result)
    layer = None if scaled is None or scaled.added else _layer(op, scaled.source)
    if scaled is None or layer is None:
        return False
    channels = _channels(layer)
    if scaled.scales.size not in (1, channels) or not _in_order(op, layer):
        return False
    scales = np.broadcast_to(scaled.scales, channels).astype(np.float32)
    made = _convolved(e, layer, scales, np.zeros(channels, np.int64), scaled, op.result)
    e.bind(op.result, signed(e, made))
    return True


def float_matmul(e: Writer, op: tensor.QuantizeOp) -> bool:
    """Write the product of rows of bytes that `op` rescales as QLinearMatMul does; whether it was.

    Its second operand are bytes, or known integers that one zero point makes bytes.
    """
    scaled = scaled_in_floats(op.result)
    product = None if scaled is None or scaled.added else scaled.source.owner
    if scaled is None or not isinstance(product, tensor.MatmulOp):
        return False
    rows, columns, stored = inside(product.lhs), inside(product.rhs), known(product.rhs)
    types = [tensor_type(v) for v in (op.result, *(part[0] for part in (rows, columns) if part))]
    shapes = [tensor_type(value).get_shape() for value in product.operands]
    if rows is None or any(type.element_type != i8 for type in types) or min(map(len, shapes)) < 2:
        return False
    factor, width = op.input.owner, shapes[1][-1]
    assert isinstance(factor, tensor.MulOp)
    each = scaled.scales.size != 1
    if each and {scaled.scales.size, tensor_type(factor.rhs).get_shape()[-1]} != {width}:
        return False
    if stored is not None:
        second = _bytes_of(e, stored, product.rhs.name_hint or "weight", each=each)
    else:
        second = columns and (unsigned(e, e.value(columns[0])), np.uint8(columns[1] + SHIFT))
    if second is None:
        return False
    one, zeros = e.scalar(1, Element.FLOAT), (rows[1] + SHIFT, scaled.zero + SHIFT)
    points = [e.constant(np.array(zero, np.uint8), "zero_point") for zero in zeros]
    scales = scaled.scales.astype(np.float32)
    scales = scales if each else scales.reshape(())
    right = e.constant(np.broadcast_to(second[1], scales.shape).copy(), "weight_zero_point")
    inputs = [unsigned(e, e.value(rows[0])), one, points[0], second[0],
              e.constant(scales, "scale"), right, one, points[1]]  # fmt: skip
    made = e.call("", "QLinearMatMul", inputs, Element.UINT8, {})
    e.bind(op.result, signed(e, within(e, made, scaled.bounds)))
    return True


def _bytes_of(e: Writer, stored: Array, name: str, *, each: bool) -> tuple[str, Array] | None:
    """Known integers as bytes whose sums no processor saturates, and their zero point.

    Args:
        each: whether columns may have zero points of their own.
    """
    if stored.ndim > 2:
        return None
    low, high = (end.reduce(stored, axis=0, initial=0) for end in (np.minimum, np.maximum))
    if low.min(initial=0) >= -SHIFT and high.max(initial=0) < SHIFT:
        if fits(stored.astype(np.int8), 1):
            return e.constant(stored.astype(np.int8), f"{name}.levels"), np.array(0, np.int8)
        low = np.full_like(low, -SHIFT)
    low = low if each else low.min(initial=0)
    if (high - low > 2 * SHIFT - 1).any():
        return None
    levels = e.constant((stored - low).astype(np.uint8), f"{name}.levels")
    return levels, np.asarray(-low).astype(np.uint8)


def _in_order(op: tensor.QuantizeOp, layer: Weighted) -> bool:
    """Whether the scales of a layer lie along its channels."""
    product = op.input.owner
    assert isinstance(product, tensor.MulOp)
    places = len(layer.weight.shape) - 2
    shape = tensor_type(product.rhs).get_shape()
    return np.prod(shape) == 1 or (
        shape[len(shape) - places - 1] == _channels(layer) and len(shape) > places
    )


def _layer(op: tensor.RequantizeOp | tensor.QuantizeOp, sums: SSAValue) -> Weighted | None:
    """The product of bytes that gives sums, where QLinearConv may have it."""
    layer = weighted(sums)
    if layer is None or tensor_type(op.result).element_type != i8:
        return None
    is_image = isinstance(layer.op, tensor.ConvOp)
    return layer if is_image or tensor_type(layer.x).get_num_dims() == 2 else None


def _channels(layer: Weighted) -> int:
    return layer.weight.shape[0 if isinstance(layer.op, tensor.ConvOp) else 1]


def _reach(layer: Weighted, channels: int) -> tuple[Array, Array]:
    """The least and the greatest sum of each channel."""
    weight = layer.weight.astype(np.int64)
    rows = weight.reshape(channels, -1) if isinstance(layer.op, tensor.ConvOp) else weight.T
    ends = [rows * (bound - layer.zero) for bound in BYTES]
    bias = np.zeros(channels, np.int64) if layer.bias is None else layer.bias.astype(np.int64)
    low, high = np.minimum(*ends).sum(axis=1) + bias, np.maximum(*ends).sum(axis=1) + bias
    return low, high


def _settled(layer: Weighted, scaled: Rescaled, channels: int) -> tuple[Weighted, Rescaled]:
    """The same results; one that all sums of a channel share is its bias, without weights.

    The scales of such channels may be as small as 0, their biases as large as i32.
    """
    low, high = _reach(layer, channels)
    least, most = (rescaled_sums(scaled, ends[:, None])[:, 0] for ends in (low, high))
    same = (least == most) & (low >= WIDE[0]) & (high <= WIDE[1])
    if not same.any():
        return layer, scaled
    along = (-1, 1, 1, 1) if isinstance(layer.op, tensor.ConvOp) else (1, -1)
    weight = np.where(same.reshape(along), 0, layer.weight).astype(np.int8)
    bias = 0 if layer.bias is None else layer.bias
    bias = np.where(same, least - scaled.zero, bias).astype(np.int32)
    numbers = [
        np.where(same, one, part)
        for part, one in ((scaled.multipliers, 1 << 30), (scaled.exponents, 1))
    ]
    return replace(layer, weight=weight, bias=bias), replace(
        scaled, multipliers=numbers[0], exponents=numbers[1]
    )


def _steps(scaled: Rescaled, low: Array, high: Array) -> Steps:
    """Of the sums that each channel may have."""
    return steps_of(lambda sums: rescaled_sums(scaled, sums), low, high, scaled.bounds, scaled.zero)


def _in_floats(e: Writer, layer: Weighted, scaled: Rescaled, low: Array, high: Array) -> str | None:
    """A product that float32 sums exactly, in any order, and QuantizeLinear.

    It has a scale a channel where ONNX Runtime's kernel does not take one number after the other.
    Pads of the zero point are zeros.
    """
    op, channels = layer.op, low.size
    bias = np.zeros(channels) if layer.bias is None else layer.bias.astype(np.float64)
    span, parts = np.maximum(bias - low, high - bias), parts_of(scaled)
    is_image, found = isinstance(op, tensor.ConvOp), None
    if parts[0].size == 1:
        shared = _steps(scaled, low.min(keepdims=True), high.max(keepdims=True))
        most = [part.max(keepdims=True) for part in (span, np.abs(bias))]
        found = floats_of(shared, parts, *most)
    if not isinstance(found, Line):
        factors, scales = (np.broadcast_to(part, channels) for part in parts)
        shape = tensor_type(op.results[0]).get_shape()
        few = 0 <= prod(shape) <= FEW and DYNAMIC not in shape
        found = floats_of(
            _steps(scaled, low, high), (factors, scales), span, bias, by_channel=is_image or few
        )
    if found is None:
        return None
    source, attributes = _unpadded(layer, op) if isinstance(op, tensor.ConvOp) else (layer.x, {})
    x = centred(e, e.value(source), layer.zero)
    name = op.operands[1].name_hint or "weight"
    bias = bias - found.centre if isinstance(found, Line) else bias
    inputs = [
        x, e.cast(e.constant(layer.weight, name), Element.FLOAT),
        e.constant(bias.astype(np.float32), f"{name}.bias"),
    ]  # fmt: skip
    sums = e.node("Conv" if is_image else "Gemm", inputs, Element.FLOAT, **attributes)
    return within(e, stepped(e, sums, found, layer.weight.ndim - 2), scaled.bounds)


FEW = 256
"""So many numbers QuantizeLinear takes with a scale each in the time of a few operators."""


POINT: Attributes = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
"""The window of a product of matrices."""


def _convolved(
    e: Writer, layer: Weighted, scales: Array, shifts: Array, scaled: Rescaled | Scaled,
    result: SSAValue,
) -> str:  # fmt: skip
    """QLinearConv in UINT8: scales, and what is added to the bias, one a channel."""
    op, weight, attributes, packed = layer.op, layer.weight, POINT, None
    bias = shifts if layer.bias is None else layer.bias.astype(np.int64) + shifts
    if isinstance(op, tensor.ConvOp):
        source, attributes = _unpadded(layer, op)
        x = unsigned(e, e.value(source))
        shape = tensor_type(source).get_shape()
        packed = neighbours_of(e, (x, shape), weight, attributes, result)
        if packed is not None:
            x, weight, attributes = packed.pack(e, x), packed.weight, packed.window
            scales, bias = packed.each(scales), packed.each(bias)
    else:
        x, weight = _pixels(e, layer.x), weight.T[:, :, None, None]
    name = op.operands[1].name_hint or "weight"
    stored = store(e.graph, name, np.ascontiguousarray(weight), 0)
    one = e.scalar(1, Element.FLOAT)
    zeros = [np.array(z + SHIFT, np.uint8) for z in (layer.zero, scaled.zero)]
    image = (x, one, e.constant(zeros[0], "zero_point"))
    given = (one, e.constant(zeros[1], "zero_point"))
    rest = (*given, e.constant(bias.astype(np.int32), f"{name}.bias"))
    alike = (scales == scales[0]).all()  # one number is as quick and takes less of a file
    factors = e.constant(scales[0].reshape(()) if alike else scales, f"{name}.scale")
    made = within(e, convolve(e, image, (stored, factors), rest, attributes), scaled.bounds)
    if isinstance(op, tensor.ConvOp):
        return made if packed is None else packed.unpack(e, made)
    rows = e.squeeze(e.apply("Transpose", [made], perm=(0, 2, 3, 1)), [1, 2])
    e.pixels[rows] = made
    return rows


def _pixels(e: Writer, rows: SSAValue) -> str:
    """Rows as images of one pixel, in UINT8: what they were before, where they were such images.

    Else with channels last, as the runtime's kernel has them.
    """
    moved, pixels = rows.owner, (*tensor_type(rows).get_shape(), 1, 1)
    flat = isinstance(moved, tensor.ReshapeToOp | tensor.FlattenOp | tensor.SqueezeOp)
    if flat and tensor_type(moved.operand).get_shape() == pixels:
        return unsigned(e, e.value(moved.operand))
    x = unsigned(e, e.value(rows))
    return e.pixels.get(x) or e.apply("Transpose", [e.unsqueeze(x, [1, 2])], perm=(0, 3, 1, 2))


def _unpadded(layer: Weighted, op: tensor.ConvOp) -> tuple[SSAValue, Attributes]:
    """The image and the window of a convolution; pads of zeros before it are the operator's own."""
    attributes, pad = window_attributes(op), layer.x.owner
    if not isinstance(pad, tensor.PadToOp) or pad.value.value.data != layer.zero:
        return layer.x, attributes
    low, high = (pads.get_values() for pads in (pad.low, pad.high))
    if any((*low[:2], *high[:2])):
        return layer.x, attributes
    pads = [a + b for a, b in zip(op.padding.get_values(), (*low[2:], *high[2:]), strict=True)]
    return pad.operand, {**attributes, "pads": pads}
