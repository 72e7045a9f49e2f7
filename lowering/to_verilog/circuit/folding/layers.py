"""The products of a program that can be folded, and what follows each as one function.

Not here: which form each takes (`choice`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from .....dialects import tensor
from .....dialects.inference import tensor_type
from .....dialects.shapes import is_float
from .....dialects.traits import MovesElements, has
from .....passes.adder_graph import InputRange
from .....passes.adder_graph.optimize_adder_graph import (
    WEIGHT_ATTRIBUTE,
    input_range,
    is_known_product,
    split_product,
)
from .....passes.adder_graph.optimize_adder_graph import Product as MatrixOp
from .....passes.analysis.compile_time import literal_value
from .....passes.analysis.layers import input_of, weight_of
from .....passes.quantize_activations.expose_integers import QUANTIZED
from ...estimate.areas import Areas, areas_of
from ..evaluation import check_range, layer_identifier
from ..pacing import DEVICE
from ..ports import quantized_range
from ..stages.products import ConvOp, convolution_matrix, convolution_places
from .channel_functions import Staircase, channel_function, following
from .choice import FoldableLayer
from .forms import Folded, ProductOp, Serial, noted_form
from .product import Array, Bounds, Product, sum_bounds, widest_sums


def split_products(function: FuncOp) -> None:
    """Put biases, activations, thresholds and requantisation behind products of integers."""
    for op in list(function.body.walk()):
        if isinstance(op, ConvOp) or (isinstance(op, MatrixOp) and is_known_product(op)):
            split_product(op)


def _is_known(op: ProductOp) -> bool:
    if isinstance(op, ConvOp):
        weight = literal_value(op.weight)
        return not is_float(tensor_type(op.input)) and weight is not None
    return is_known_product(op)


def products(
    function: FuncOp, input_bits: int | None = None, grade: str = DEVICE
) -> list[tuple[ProductOp, FoldableLayer]]:
    """The products of integers with known weights, in order; a name each.

    Args:
        input_bits: as for `nominal_bounds`.
        grade: of the devices that they are for.
    """
    layers: list[tuple[ProductOp, FoldableLayer]] = []
    counts: Counter[str] = Counter()
    for op in function.body.walk():
        if isinstance(op, ProductOp) and _is_known(op):
            name = _name(op)
            counts[name] += 1
            if counts[name] > 1:
                name += f"_{counts[name]}"
            layers.append((op, _layer(op, name, input_bits, areas_of(grade))))
    return layers


def _name(op: ProductOp) -> str:
    key = op.attributes.get(WEIGHT_ATTRIBUTE)
    text = key.data if isinstance(key, StringAttr) else op.results[0].name_hint or "product"
    return layer_identifier(text)


def _layer(op: ProductOp, name: str, input_bits: int | None, areas: Areas) -> FoldableLayer:
    shape = tensor_type(op.results[0]).get_shape()
    beats = prod(shape[2:]) if isinstance(op, ConvOp) else 1
    product, _ = product_of(op, nominal_bounds(op, input_bits))
    return FoldableLayer(name, product, beats, areas, can_fold(op))


def can_fold(op: ProductOp) -> bool:
    """Whether stages of several cycles a beat can compute an op."""
    return isinstance(op, ConvOp) or tensor_type(op.results[0]).get_num_dims() == 2


def product_matrix(op: ProductOp) -> Array:
    """The matrix int64 [K, N]."""
    if isinstance(op, ConvOp):
        return convolution_matrix(op)
    weight = literal_value(weight_of(op))
    assert weight is not None
    return weight.astype(np.int64)


def product_places(op: ProductOp) -> Array:
    """For each group of columns the inputs that its rows stand for, int64 [G, K]."""
    if isinstance(op, ConvOp):
        return convolution_places(op)
    return np.arange(len(product_matrix(op)))[None]


def nominal_bounds(op: ProductOp, input_bits: int | None = None) -> tuple[Bounds, ...]:
    """The bounds of the inputs by who made them, the same for all.

    Args:
        input_bits: of the program's own inputs, where less than their types have.
    """
    range_of_input = _argument_range(input_of(op), input_bits) or input_range(input_of(op))
    low, high = range_of_input.low, range_of_input.high
    if isinstance(op, ConvOp) and any(op.padding.get_values()):
        low, high = min(low, 0), max(high, 0)
    return ((low, high),) * product_places(op).size


def _argument_range(value: SSAValue, input_bits: int | None) -> InputRange | None:
    """What the program's input holds whose elements `value` has; `None` for any other value."""
    while isinstance(op := value.owner, Operation) and len(op.operands) == 1:
        widens = isinstance(op, tensor.ConvertOp) and not is_float(tensor_type(op.operand))
        if not (has(op, MovesElements) or widens):
            return None
        (value,) = op.operands
    function = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(function, FuncOp):
        return None
    assert isinstance(value, BlockArgument)
    if function.arg_attrs is not None:
        quantized = function.arg_attrs.data[value.index].data.get(QUANTIZED)
        if isinstance(quantized, DictionaryAttr):
            return quantized_range(quantized)
    if input_bits is None:
        return None
    return InputRange.of_bits(input_bits, signed=input_range(value).low < 0)


def product_of(
    op: ProductOp,
    inputs: tuple[Bounds, ...],
    at: Sequence[int] | None = None,
    most: int | None = None,
) -> tuple[Product, list[Operation]]:
    """A product with the function that follows it, and the ops that this function stands for.

    Args:
        at: the element that each input is; by default they are in order.
        most: the most ops that may follow.

    Raises:
        UnsupportedError: a sum leaves 64 bits.
    """
    matrix, places = product_matrix(op), product_places(op)
    if at is not None:
        places = np.array(at, np.int64)[places]
    ops, form = following(op.results[0])[:most], noted_form(op)
    loadable = isinstance(form, Folded) and form.loadable
    ends = (widest_sums if loadable else sum_bounds)(matrix, inputs, places)
    if ends[0].dtype == object:  # of bounds that may leave 64 bits
        check_range(op, op.results[0], zip(*ends, strict=True))
    function, count = channel_function(ops, 1, *ends, whole=loadable)
    return Product(matrix, inputs, function, places, loadable), ops[:count]


def absorbed(op: ProductOp) -> list[Operation]:
    """The ops behind a folded product that its stage computes.

    Digits show no sum before the last one: of those, only thresholds are asked on the way.
    """
    product, ops = product_of(op, nominal_bounds(op))
    if isinstance(noted_form(op), Serial) and not isinstance(product.function, Staircase):
        return []
    return ops
