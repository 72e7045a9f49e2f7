"""Which products with trits native kernels take.

`convert-tensor-to-linalg{keep=ternary}` leaves those as they are, and `convert-ternary-to-llvm`
calls a kernel for them. A new kind of product is a line in `_TAKEN`. Not here: the kernels
(`to_native.kernels`), their calls (`to_native.program.products`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import (
    Float32Type,
    IntegerType,
    Signedness,
    f32,
)
from xdsl.ir import Attribute, Operation

from ...dialects import ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import DYNAMIC
from ...passes.analysis.compile_time import defining_literal
from ...runtime.native.abi.linear import (
    KIND_NAMED,
    MAX_INS,
    PRECISIONS,
    Activations,
    Kind,
    Precision,
)
from ...runtime.native.abi.sparse import kept_blocks, worthwhile

_INTEGERS: dict[tuple[int, Signedness], Activations] = {
    (8, Signedness.SIGNLESS): "i8",
    (8, Signedness.UNSIGNED): "u8",
    (16, Signedness.SIGNLESS): "i16",
    (32, Signedness.SIGNLESS): "i32",
}
_WIDTHS = (8, 16, 32)
_MOST_WEIGHTS = 1 << 21
"""Of a product that may be code, with two bytes or more for each."""
_FEW_ROWS, _NEAR_TRITS, _TRITS_A_ROW = 4, 1 << 18, 12 << 10
"""Rows, and trits of a matrix, from which on and up to which products of floats are quicker than
those of three bytes each; and how many more trits each row makes up for."""
_SPARSE = 0.6
"""Share of blocks with trits that are not 0, below which kernels that leave others out are."""
_LEAST_OUTPUTS = 4
"""Channels of a group from which on tables of sums are less work than products."""


def kernel_takes(op: Operation) -> bool:
    """Whether a native kernel computes `op`, a product with trits, all that is fused included.

    Convolutions are none of them: loops are quicker.
    """
    takes = _TAKEN.get(type(op))
    return takes is not None and takes(op)


def is_long(op: Operation, rows: int) -> bool:
    """Whether a product of trits with integers of 8 bits has at least so many rows, for certain.

    Matrices for which code would be too long are none: kernels have them packed, loops as bytes.
    """
    if not isinstance(op, ternary.LinearOp | ternary.MatmulOp):
        return False
    if prod(tensor_type(op.weight).get_shape()) > _MOST_WEIGHTS:
        return False
    kind = kind_of(tensor_type(op.input).element_type)
    return kind is not None and kind.activations in ("i8", "u8") and _rows(op) >= rows


def is_quick_in_floats(op: Operation) -> bool:
    """Whether a product of trits with floats is quicker with floats for its trits, on processors
    for which a product of three bytes is not: with enough rows, and weights that are not too many.
    """
    if not isinstance(op, ternary.LinearOp | ternary.MatmulOp):
        return False
    weight, rows = defining_literal(op.weight), _rows(op)
    if weight is None or tensor_type(op.input).element_type != f32 or rows < _FEW_ROWS:
        return False
    if prod(tensor_type(op.weight).get_shape()) > max(_NEAR_TRITS, rows * _TRITS_A_ROW):
        return False
    values = constant_value(weight)
    if values is None or not worthwhile(values.T, rows):
        return values is not None
    return float(kept_blocks(values.T).mean()) >= _SPARSE


def _rows(op: ternary.LinearOp | ternary.MatmulOp) -> int:
    """At least how many rows of activations a product has."""
    return prod(size for size in tensor_type(op.input).get_shape()[:-1] if size != DYNAMIC)


def product_takes(op: Operation) -> bool:
    """Whether `op` is a product with trits that C code computes, and nothing behind it.

    Depthwise convolutions and the like, of few outputs from each input, are loops there.
    """
    if not (_takes_conv(op) if isinstance(op, ternary.ConvOp) else kernel_takes(op)):
        return False
    if isinstance(op, ternary.MatmulOp):
        return op.scale is None
    if isinstance(op, ternary.ConvOp):
        outputs = tensor_type(op.weight).get_shape()[0]
        if outputs < _LEAST_OUTPUTS * op.groups.value.data:
            return False
    if not isinstance(op, ternary.FusedOp) or op.activation.data != "none":
        return False
    steps = (op.scale, op.bias, op.thresholds, op.multiplier)
    return all(step is None for step in steps)


def kind_of(element: Attribute, precision: Precision = "float32") -> Kind | None:
    """How kernels take activations of an element type, if they do.

    Args:
        element: as in the `ternary` op.
        precision: of float activations; whether they are taken does not depend on it.
    """
    name: Activations | None = None
    if isinstance(element, Float32Type):
        name = PRECISIONS[precision]
    elif isinstance(element, ternary.TritType):
        name = "i8"
    elif isinstance(element, IntegerType):
        integer = cast("IntegerType", element)
        name = _INTEGERS.get((integer.width.data, integer.signedness.data))
    return None if name is None else KIND_NAMED[name]


def takes_epilogue(op: ternary.FusedOp) -> bool:
    """Whether the steps after a product are known when it is compiled, and fit a kernel."""
    values = (op.scale, op.bias, op.thresholds, op.multiplier, op.shift, op.zero_point)
    if any(value is not None and defining_literal(value) is None for value in values):
        return False
    result = tensor_type(op.result).element_type
    if isinstance(result, IntegerType):
        return cast("IntegerType", result).width.data in _WIDTHS
    return isinstance(result, Float32Type)


def _takes_product(op: ternary.MatmulOp | ternary.LinearOp) -> bool:
    input, weight = tensor_type(op.input), tensor_type(op.weight)
    shape = weight.get_shape()
    if (
        len(shape) != 2
        or defining_literal(op.weight) is None
        or kind_of(input.element_type) is None
    ):
        return False
    ins, outs = shape
    inner = input.get_shape()[-1]
    return 0 < ins <= MAX_INS and outs > 0 and inner in (ins, DYNAMIC)


def _takes_matmul(op: ternary.MatmulOp) -> bool:
    return _takes_product(op) and (op.scale is None or defining_literal(op.scale) is not None)


def _takes_linear(op: ternary.LinearOp) -> bool:
    return _takes_product(op) and takes_epilogue(op)


def window_is_known(op: ternary.ConvOp) -> bool:
    """Whether all sizes of a convolution but the batch are known, and its sums are exact."""
    outs, *window = tensor_type(op.weight).get_shape()
    if DYNAMIC in (*tensor_type(op.input).get_shape()[1:], outs, *window):
        return False
    return outs > 0 and 0 < prod(window) <= MAX_INS


def _takes_conv(op: ternary.ConvOp) -> bool:
    if defining_literal(op.weight) is None or kind_of(tensor_type(op.input).element_type) is None:
        return False
    return window_is_known(op) and takes_epilogue(op)


_TAKEN: dict[type[Operation], Callable[[Any], bool]] = {
    ternary.MatmulOp: _takes_matmul,
    ternary.LinearOp: _takes_linear,
}
