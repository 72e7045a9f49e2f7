"""Narrower arithmetic for a finished graph: float16 weights, or weights of 8 bits and less.

In `dynamic-int8` LiteRT rounds the activations of products to 8 bits in each run, and multiplies
integers. Which stored weights its kernels multiply rightly, `fitting` knows. Not here: activations
on the ranges of samples (`calibrated`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..integer_weights import symmetric
from .fusion import PRODUCTS
from .graph import Array, Element, Graph, Operator, Quantization, Tensor

SMALLEST = 256
"""Weights of fewer elements stay as they are: nothing is gained."""

_HALF_MOST = 65504.0


def to_float16(graph: Graph) -> None:
    """Store weights in half precision; LiteRT widens them once."""
    widened: dict[Tensor, Operator] = {}
    for op in graph.operators:
        place = 0 if op.kind == "GATHER" else 1
        if op.kind not in (*PRODUCTS, "GATHER") or op.exact:
            continue
        weight = op.inputs[place]
        if weight is None or not _is_large_float(weight):
            continue
        assert weight.data is not None
        if np.abs(weight.data).max(initial=0) > _HALF_MOST:
            continue
        if weight not in widened:
            half = Tensor(weight.name, Element.FLOAT16, weight.shape, weight.data.astype("float16"))
            wide = Tensor(f"{weight.name}.float32", Element.FLOAT32, weight.shape)
            widened[weight] = Operator("DEQUANTIZE", [half], [wide])
        op.inputs[place] = widened[weight].outputs[0]
    graph.operators = [*widened.values(), *graph.operators]


def _is_large_float(tensor: Tensor) -> bool:
    return (
        tensor.data is not None
        and tensor.element is Element.FLOAT32
        and tensor.data.size >= SMALLEST
    )


@dataclass(frozen=True)
class Arithmetic:
    """Integer arithmetic of LiteRT.

    Attributes:
        element: the type of activations.
        bias: that of biases, and of sums.
        symmetric: whether the zero point is always 0.
        fixed: the one grid that an operator's kernel has: scale and zero point.
    """

    element: Element
    bias: Element
    symmetric: bool
    fixed: Mapping[str, tuple[float, int]]


BITS_8 = Arithmetic(
    Element.INT8,
    Element.INT32,
    False,
    {"SOFTMAX": (1 / 256, -128), "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)},
)
BITS_16 = Arithmetic(
    Element.INT16,
    Element.INT64,
    True,
    dict.fromkeys(("SOFTMAX", "LOGISTIC", "TANH"), (1 / 32768, 0)),
)

_RIGHT: dict[str, Mapping[Element, frozenset[Element]]] = {
    "CONV_2D": dict.fromkeys(
        (Element.FLOAT32, Element.INT8, Element.INT16), frozenset({Element.INT8, Element.INT4})
    ),
    "DEPTHWISE_CONV_2D": {
        Element.FLOAT32: frozenset({Element.INT8}),
        Element.INT8: frozenset({Element.INT8, Element.INT4}),
        Element.INT16: frozenset({Element.INT8}),
    },
}
"""Stored weights that a product's kernel multiplies rightly, by the type of activations.

FULLY_CONNECTED takes all. With others LiteRT refuses the model, gives NaN or wrong numbers.
"""


def fitting(kind: str, activations: Element, weight: Tensor) -> Tensor:
    """A stored integer weight in a type that the product's kernel multiplies rightly."""
    right = _RIGHT.get(kind)
    if right is None or weight.element in right[activations]:
        return weight
    return Tensor(weight.name, Element.INT8, weight.shape, weight.data, weight.quantization)


def store_weights(graph: Graph, bits: int) -> None:
    """Store the dense weights of products as integers of 8 or 4 bits, a scale an output channel."""
    widened: dict[tuple[Tensor, int], Operator] = {}
    for op in graph.operators:
        weight = op.inputs[1] if op.kind in PRODUCTS and not op.exact else None
        if weight is None or not _is_large_float(weight):
            continue
        key = (weight, channel_axis(op))
        if key not in widened:
            stored = quantized_weight(*key, bits)
            wide = Tensor(f"{weight.name}.float32", Element.FLOAT32, weight.shape)
            widened[key] = Operator("DEQUANTIZE", [stored], [wide])
        op.inputs[1] = widened[key].outputs[0]
    graph.operators = [*widened.values(), *graph.operators]


def to_dynamic_int8(graph: Graph) -> None:
    """Give products integer weights, so that LiteRT rounds their activations to 8 bits."""
    producers = graph.producers()
    shared: dict[tuple[Tensor, int], Tensor] = {}
    for op in graph.operators:
        if op.kind not in PRODUCTS or op.exact or not _multiplies_plainly(op):
            continue
        weight = op.inputs[1]
        assert weight is not None
        axis = channel_axis(op)
        source = producers.get(weight)
        if source is not None and source.kind == "DEQUANTIZE":
            stored = source.inputs[0]
            assert stored is not None
            if stored.quantization is not None and stored.quantization.axis == axis:
                op.inputs[1] = fitting(op.kind, Element.FLOAT32, stored)
        elif _is_large_float(weight):
            if (weight, axis) not in shared:
                shared[weight, axis] = quantized_weight(weight, axis)
            op.inputs[1] = shared[weight, axis]
    graph.drop_unused()


def _multiplies_plainly(op: Operator) -> bool:
    """Whether a product has no groups: LiteRT has those for float weights alone."""
    first, weight = op.inputs[0], op.inputs[1]
    assert first is not None and weight is not None
    return op.kind != "CONV_2D" or first.shape[3] == weight.shape[3]


def channel_axis(op: Operator) -> int:
    """The axis of a product's weight that counts the outputs."""
    return 3 if op.kind == "DEPTHWISE_CONV_2D" else 0


def quantized_weight(
    weight: Tensor, axis: int, bits: int = 8, least: Array | float = 0.0
) -> Tensor:
    """A float32 weight as INT8 or INT4, symmetric, with a scale for each position on `axis`.

    No scale is below `least`.
    """
    assert weight.data is not None
    values, scale = symmetric(weight.data, axis, bits, least)
    element = Element.INT8 if bits == 8 else Element.INT4
    return Tensor(weight.name, element, weight.shape, values, Quantization(scale, 0, axis))
