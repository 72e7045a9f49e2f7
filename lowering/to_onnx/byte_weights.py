"""How weights of integer products are stored, so that no processor saturates their sums.

ONNX Runtime multiplies UINT8 activations by INT8 weights with `vpmaddubsw` on x86 processors
without VNNI: two products are added in 16 bits, and saturate. (It makes UINT8 of pairs of INT8
activations first.) Which two is a matter of the kernel, the packing and the layout, so weights stay
INT8 only where any two of an output channel fit. Others become UINT8 with the zero point 128: the
kernels for these widen first, and are exact on every processor.

Not here: how the levels of weights are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph import Array, Element, Graph
from .onnx_writer import Writer

MOST = np.iinfo(np.int16).max // np.iinfo(np.uint8).max
"""128, the greatest sum of two weights of one sign whose products with any bytes fit 16 bits."""

SHIFT = 128
"""The zero point of UINT8 weights."""


@dataclass(frozen=True)
class ByteWeight:
    """A weight of 8 bits in a graph: the name of its levels, and the level that stands for 0."""

    levels: str
    zero_point: Array


def store(graph: Graph, name: str, levels: Array, axis: int) -> ByteWeight:
    """Put a weight into a graph, in the form that is exact on every processor that it is for.

    Args:
        graph: where to.
        name: of the weight.
        levels: INT8, 0 for 0.
        axis: that of the output channels.
    """
    zero = np.array(0, np.int8)
    if not (graph.may_saturate or fits(levels, axis)):
        zero = np.array(SHIFT, np.uint8)
        levels = (levels.astype(np.int16) + SHIFT).astype(np.uint8)
    return ByteWeight(graph.add_constant(levels, f"{name}.levels"), zero)


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
    if weight.zero_point:
        inputs.append(e.constant(weight.zero_point, "weight_zero_point"))
    return e.node("MatMulInteger", inputs, Element.INT32)
