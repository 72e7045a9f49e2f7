"""Narrower arithmetic for a finished graph: float16 weights, or weights of 8 bits and less.

In `dynamic-int8` LiteRT rounds the activations of products to 8 bits in each run, and multiplies
integers. Weights of trits keep their 2 bits in FULLY_CONNECTED; nothing else does: CONV_2D gives
NaN with INT2, DEPTHWISE_CONV_2D refuses it.
"""

from __future__ import annotations

import numpy as np

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


def to_dynamic_int8(graph: Graph) -> None:
    """Give products integer weights, so that LiteRT rounds their activations to 8 bits."""
    producers = graph.producers()
    made: dict[tuple[Tensor, int], Tensor] = {}
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
                op.inputs[1] = stored
        elif _is_large_float(weight):
            if (weight, axis) not in made:
                made[weight, axis] = quantized_weight(weight, axis)
            op.inputs[1] = made[weight, axis]
    graph.drop_unused()


def _multiplies_plainly(op: Operator) -> bool:
    """Whether a product has no groups: LiteRT has those for float weights alone."""
    first, weight = op.inputs[0], op.inputs[1]
    assert first is not None and weight is not None
    return op.kind != "CONV_2D" or first.shape[3] == weight.shape[3]


def channel_axis(op: Operator) -> int:
    """The axis of a product's weight that counts the outputs."""
    return 3 if op.kind == "DEPTHWISE_CONV_2D" else 0


def quantized_weight(weight: Tensor, axis: int) -> Tensor:
    """A float32 weight as INT8, symmetric, with a scale for each position on `axis`."""
    assert weight.data is not None
    values, scale = symmetric(weight.data, axis)
    return Tensor(weight.name, Element.INT8, weight.shape, values, Quantization(scale, 0, axis))


def symmetric(values: Array, axis: int) -> tuple[Array, Array]:
    """Levels from -127 to 127, and the scale of each position on `axis`."""
    others = tuple(a for a in range(values.ndim) if a != axis)
    most = np.abs(values).max(axis=others, initial=0.0)
    scale = np.where(most > 0, most / 127, 1.0).astype(np.float32)
    shape = [-1 if a == axis else 1 for a in range(values.ndim)]
    levels = np.rint(values / scale.reshape(shape))
    return np.clip(levels, -127, 127).astype(np.int8), scale
