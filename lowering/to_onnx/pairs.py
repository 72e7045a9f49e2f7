"""Programs that came in pairs of QuantizeLinear and DequantizeLinear leave in pairs.

ONNX Runtime joins what stands between pairs to operators on integers, and rounds there by its own
rules: where a result lies beside a half, that is a step away from the floats that the program says.
So pairs are written where a product of the program has them already: its weights are stored
integers, its activations are quantised in front of it. The result is then what the runtime makes of
the file that came in. Activations are UINT8, and weights what `byte_weights` says, so that no
processor saturates.

Not here: pairs on ranges from samples (`calibrated`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8, i16
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import is_float
from .byte_weights import SHIFT, ByteWeight, dequantized, store
from .graph import Array, Attributes, Element, element_type
from .onnx_writer import Writer

OF_16_BITS = 21
"""The opset from which on pairs may have 16 bits."""

PRODUCTS = (tensor.ConvOp, tensor.LinearOp, tensor.MatmulOp)
"""Ops whose second operand is a weight."""


def has_pairs(function: FuncOp, opset: int) -> bool:
    """Whether some product has quantised activations and weights of stored integers."""
    ops = function.body.block.ops
    if opset < OF_16_BITS and any(isinstance(op, tensor.QuantizeOp) and _is_fine(op) for op in ops):
        return False
    return any(
        isinstance(op, PRODUCTS) and _is_pair(op.operands[0]) and _is_stored(op.operands[1])
        for op in ops
    )


def write_levels(e: Writer, op: tensor.QuantizeOp) -> bool:
    """QuantizeLinear to UINT8 or INT16, if pairs are kept and their other halves alone read it."""
    if not e.keeps_pairs or not _is_whole(op) or _known(op.zero_point) is None:
        return False
    if not all(isinstance(use.operation, tensor.DequantizeOp) for use in op.result.uses):
        return False
    element = Element.INT16 if _is_fine(op) else Element.UINT8
    inputs, axis = _grid(e, op, e.value(op.input), element)
    attributes: Attributes = {} if axis is None else {"axis": axis}
    e.bind(op.result, e.call("", "QuantizeLinear", inputs, element, attributes))
    return True


def write_floats(e: Writer, op: tensor.DequantizeOp) -> bool:
    """DequantizeLinear, where pairs are kept."""
    if not e.keeps_pairs or _known(op.zero_point) is None:
        return False
    if _is_stored(op.result):
        if not all(map(_meets_pair, op.result.uses)):
            return False
        weight = _weight(e, op)
        name = e.value(op.input) if weight is None else weight.levels
        asks = weight is not None and weight.asks
    elif _is_pair(op.result):
        name, asks = e.value(op.input), False
    else:
        return False
    inputs, axis = _grid(e, op, name, e.element(name))
    wish = f"{e.hint}.dequantizelinear"
    e.bind(op.result, dequantized(e.graph, inputs, axis, wish, asks=asks))
    return True


def _grid(
    e: Writer, op: tensor.QuantizeOp | tensor.DequantizeOp, x: str, stored: Element
) -> tuple[list[str], int | None]:
    """What one half of a pair reads, and the axis of its channels.

    Args:
        x: what is put on the grid, or stands on it.
        stored: the type of the integers, which may be those of the op plus 128.
    """
    zero, scale = _known(op.zero_point), e.value(op.scale)
    assert zero is not None
    shift = SHIFT if stored is Element.UINT8 and zero.dtype == np.int8 else 0
    shape = tensor_type(op.scale).get_shape() or zero.shape
    laid = np.broadcast_to(zero.astype(np.int64) + shift, shape).astype(stored.dtype)
    if shape and not tensor_type(op.scale).get_shape():
        scale = e.constant(np.broadcast_to(e.graph.initializers[scale], shape), "scales")
    inputs = [x, scale, e.constant(laid, "zero_points" if shape else "zero_point")]
    return inputs, op.axis.value.data if shape else None


def _weight(e: Writer, op: tensor.DequantizeOp) -> ByteWeight | None:
    """An INT8 weight of a product; `None` for other stored integers."""
    value, axis = op.input, _channels(op)
    levels = _known(value)
    if levels is None or levels.dtype != np.int8 or axis is None:
        return None
    return store(e.graph, value.name_hint or "weight", levels, axis)


def _channels(op: tensor.DequantizeOp) -> int | None:
    """The axis of output channels of a weight; `None` for what is no product's weight."""
    for use in op.result.uses:
        if isinstance(use.operation, PRODUCTS) and use.index == 1:
            conv = isinstance(use.operation, tensor.ConvOp)
            return 0 if conv else tensor_type(op.input).get_num_dims() - 1
    return None


def _is_whole(op: tensor.QuantizeOp) -> bool:
    """Whether all integers of 8 or 16 bits are in the range."""
    bounds = (op.low.value.data, op.high.value.data)
    bits = 16 if _is_fine(op) else 8
    fits = bits == 16 or tensor_type(op.result).element_type == i8
    return fits and bounds == (-(1 << bits - 1), (1 << bits - 1) - 1)


def _is_fine(op: tensor.QuantizeOp) -> bool:
    """Whether the integers have 16 bits."""
    return tensor_type(op.result).element_type == i16


def _is_pair(value: SSAValue) -> bool:
    """Whether floats were restored from levels that stay in pairs."""
    op = value.owner
    quantized = op.input.owner if isinstance(op, tensor.DequantizeOp) else None
    if not isinstance(quantized, tensor.QuantizeOp) or _known(quantized.zero_point) is None:
        return False
    return _is_whole(quantized)


def _meets_pair(use: Use) -> bool:
    """Whether what reads stored integers is a product with quantised activations.

    Of other products with weights in pairs ONNX Runtime quantises the activations by itself.
    """
    op = use.operation
    return isinstance(op, PRODUCTS) and _is_pair(op.operands[0])


def _is_stored(value: SSAValue) -> bool:
    """Whether floats are made of stored integers."""
    op = value.owner
    if not isinstance(op, tensor.DequantizeOp) or is_float(tensor_type(op.input)):
        return False
    return element_type(tensor_type(op.input).element_type) in _STORED and (
        isinstance(op.input.owner, tensor.ParameterOp | tensor.ConstantOp)
    )


_STORED = (Element.INT8, Element.UINT8, Element.INT16, Element.INT32)


def _known(value: SSAValue) -> Array | None:
    return constant_value(value.owner) if isinstance(value.owner, Operation) else None
