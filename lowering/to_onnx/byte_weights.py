"""How weights of integer products are stored, so that no processor saturates their sums.

ONNX Runtime multiplies UINT8 activations by INT8 weights with `vpmaddubsw` on x86 processors
without VNNI: two products are added in 16 bits, and saturate. (It makes UINT8 of pairs of INT8
activations first.) Which two is a matter of the kernel, the packing and the layout, so weights are
INT8 on every processor only where any two of an output channel fit. The file asks the processor
about others (`byte_functions`): where sums are wrong they become UINT8 with the zero point 128,
whose kernels widen first, and are exact everywhere, and slower.

Not here: how the levels of weights are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...dialects.shapes import Shape
from .byte_functions import LEAST_OPSET, asked
from .graph import DOMAIN, Array, Attributes, Element, Graph
from .onnx_writer import Writer

MOST = np.iinfo(np.int16).max // np.iinfo(np.uint8).max
"""128, the greatest sum of two weights of one sign whose products with any bytes fit 16 bits."""

SHIFT = 128
"""The zero point of UINT8 weights."""


@dataclass(frozen=True)
class ByteWeight:
    """A weight of 8 bits in a graph.

    Attributes:
        levels: their name.
        zero_point: the level that stands for 0.
        asks: whether the processor says if they stay INT8.
    """

    levels: str
    zero_point: Array
    asks: bool = False


def store(graph: Graph, name: str, levels: Array, axis: int) -> ByteWeight:
    """Put a weight into a graph, in the form that is exact on every processor that it is for.

    Args:
        graph: where to.
        name: of the weight.
        levels: INT8, 0 for 0.
        axis: that of the output channels.
    """
    zero = np.array(0, np.int8)
    doubtful = graph.int8_weights != "always" and not fits(levels, axis)
    asks = doubtful and graph.int8_weights == "asked" and graph.opset >= LEAST_OPSET
    if doubtful and not asks:
        zero = np.array(SHIFT, np.uint8)
        levels = (levels.astype(np.int16) + SHIFT).astype(np.uint8)
    return ByteWeight(graph.add_constant(levels, f"{name}.levels"), zero, asks)


def of_trits(levels: str) -> ByteWeight:
    """Trits as INT8 in a graph: the sum of two products is 510 at most."""
    return ByteWeight(levels, np.array(0, np.int8))


def fits(levels: Array, axis: int) -> bool:
    """Whether the products of bytes with any two weights of an output channel add in 16 bits."""
    others = tuple(a for a in range(levels.ndim) if a != axis)
    wide = levels.astype(np.int16)
    for signed in (wide, -wide):  # products of opposite signs never add up
        largest = signed.max(axis=others, keepdims=True, initial=0)
        if ((signed > MOST - largest).sum(axis=others) > 1).any():
            return False
    return True


def multiply(e: Writer, x: str, zero_point: str, weight: ByteWeight) -> str:
    """x · W in INT32 for x in UINT8: ONNX Runtime's kernels for INT8 x are far slower."""
    inputs = [x, weight.levels, zero_point]
    if weight.asks:
        return e.call(DOMAIN, "int8.matmul", [*inputs, asked(e.graph)], Element.INT32, {})
    if weight.zero_point:
        inputs.append(e.constant(weight.zero_point, "weight_zero_point"))
    return e.node("MatMulInteger", inputs, Element.INT32)


def multiply_signed(e: Writer, x: str, weight: ByteWeight) -> str:
    """x · W in INT32 for x in INT8, on x + 128 as UINT8."""
    shifted = e.apply("Add", [e.cast(x, Element.INT32), e.scalar(128, Element.INT32)])
    levels = e.cast(shifted, Element.UINT8)
    return multiply(e, levels, e.scalar(128, Element.UINT8), weight)


def convolve(
    e: Writer,
    x: tuple[str, str, str],
    weight: tuple[ByteWeight, str],
    rest: Sequence[str],
    window: Attributes,
) -> str:
    """QLinearConv of UINT8.

    Args:
        x: the image, its scale and its zero point.
        weight: with its scale.
        rest: scale and zero point of the result, and the bias.
        window: the attributes, all of them where the processor is asked.
    """
    stored, scale = weight
    if stored.asks:
        inputs = [*x, stored.levels, scale, *rest, asked(e.graph)]
        return e.call(DOMAIN, "int8.conv", inputs, Element.UINT8, window)
    zero = e.constant(stored.zero_point, "weight_zero_point")
    inputs = [*x, stored.levels, scale, zero, *rest]
    return e.call("", "QLinearConv", inputs, Element.UINT8, window)


def restore(
    graph: Graph, weight: ByteWeight, scale: tuple[str, Shape], axis: int, wish: str
) -> str:
    """A weight as FLOAT, for products that the runtime makes integer ones of.

    Args:
        scale: the name and the shape of the factors, one a channel or one alone.
        axis: that of the channels.
        wish: what the result is called.
    """
    factors, shape = scale
    zeros = graph.add_constant(np.broadcast_to(weight.zero_point, shape), "zero_points")
    inputs = [weight.levels, factors, zeros]
    return dequantized(graph, inputs, axis if shape else None, wish, asks=weight.asks)


def dequantized(
    graph: Graph, inputs: Sequence[str], axis: int | None, wish: str, *, asks: bool
) -> str:
    """DequantizeLinear, or its form that asks the processor.

    Args:
        inputs: levels, scale and zero point, which is INT8 where the processor is asked.
        axis: that of the channels, where they have numbers of their own.
    """
    attributes: Attributes = {} if axis is None else {"axis": axis}
    if not asks:
        elements = [Element.FLOAT]
        return graph.add_node("DequantizeLinear", inputs, elements, [wish], attributes)[0]
    attributes = {"axis": 0 if axis is None else axis}
    inputs = [*inputs, asked(graph)]
    return graph.add_node("int8.weight", inputs, [Element.FLOAT], [wish], attributes, DOMAIN)[0]
