"""Matrix products and convolution of the `tensor` dialect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, fail, tensor_type
from ..meaning import Array
from ..shapes import (
    DYNAMIC,
    AnyTensor,
    Shape,
    matmul_shape,
    merge_dim,
    show_shape,
    with_shape,
)
from ..traits import AddsUp, ChannelsFirst
from .elementwise import require_number
from .interpret_linear import along_channels, convolve, product
from .window import Convolves, conv_shape


@irdl_op_definition
class MatmulOp(InferredOp):
    """z = x · y, NumPy's `matmul`: the last two axes contract, the others broadcast.

        %z = tensor.matmul %x, %y : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>

    Integer operands accumulate with wrap-around in their own element type.
    """

    name = "tensor.matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        lhs, rhs = tensor_type(self.lhs), tensor_type(self.rhs)
        same_elements(lhs, rhs)
        require_number(lhs)
        return [with_shape(lhs, matmul_shape(lhs.get_shape(), rhs.get_shape()))]

    def compute(self, x: Array, y: Array) -> Array:
        return product(x, y).astype(x.dtype)


@irdl_op_definition
class LinearOp(InferredOp):
    """y = x · W + b, with W of shape [in, out] and an optional bias of shape [out].

    %y = tensor.linear %x, %w, %b
         : (tensor<?x8xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    """

    name = "tensor.linear"

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        input, weight = tensor_type(self.input), tensor_type(self.weight)
        same_elements(input, weight)
        require_number(input)
        shape = linear_shape(input.get_shape(), weight.get_shape())
        if self.bias is not None:
            same_elements(input, tensor_type(self.bias))
            check_vector(tensor_type(self.bias), shape[-1], "bias")
        return [with_shape(input, shape)]

    def compute(self, x: Array, weight: Array, *bias: Array) -> Array:
        return sum(bias, product(x, weight).astype(x.dtype))


def same_elements(a: AnyTensor, b: AnyTensor) -> None:
    """Refuse operands of different element types."""
    if a.element_type != b.element_type:
        fail(f"expects equal element types, got {a} and {b}")


def check_vector(type: AnyTensor, size: int, what: str) -> None:
    """Refuse anything but a vector of `size` elements."""
    shape = type.get_shape()
    if len(shape) != 1 or (DYNAMIC not in (shape[0], size) and shape[0] != size):
        fail(f"expects {what} of {show_shape((size,))} elements, got {type}")


def linear_shape(input: Shape, weight: Shape) -> Shape:
    """The result shape of `linear`: the weight has rank 2."""
    if len(weight) != 2:
        fail(f"expects a weight of rank 2, got rank {len(weight)}")
    return matmul_shape(input, weight)


@irdl_op_definition
class ConvOp(Convolves):
    """Cross-correlation of an image [N, C, …] with a weight [O, C/groups, …], 1-d or 2-d.

        y[n, o, p] = b[o] + Σ_{c, k} x[n, c, s·p + d·k - low] · W[o, c, k]

    `padding` holds the low pads of all spatial axes, then the high pads; pads are zeros.

        %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
             dilation = array<i64: 1, 1>, groups = 1 : i64}
             : (tensor<?x3x32x32xf32>, tensor<8x3x3x3xf32>) -> tensor<?x8x32x32xf32>
    """

    name = "tensor.conv"

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(AddsUp(), ChannelsFirst())

    def infer(self) -> Sequence[Attribute]:
        input, weight = tensor_type(self.input), tensor_type(self.weight)
        same_elements(input, weight)
        require_number(input)
        shape = conv_shape(input.get_shape(), weight.get_shape(), **self.window)
        if self.bias is not None:
            same_elements(input, tensor_type(self.bias))
            check_vector(tensor_type(self.bias), shape[1], "bias")
        return [with_shape(input, shape)]

    def compute(self, x: Array, weight: Array, *bias: Array) -> Array:
        result = convolve(x, weight, **self.window).astype(x.dtype)
        return sum((along_channels(b, x.ndim) for b in bias), result)


@irdl_op_definition
class EinsumOp(InferredOp):
    """Einstein summation in NumPy's explicit form: lower-case letters, no ellipsis.

    %z = tensor.einsum %x, %y {equation = "bij,bjk->bik"}
         : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    """

    name = "tensor.einsum"

    inputs = var_operand_def(TensorType)
    equation = prop_def(StringAttr)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        types = [tensor_type(v) for v in self.inputs]
        for other in types[1:]:
            same_elements(types[0], other)
        terms, arrow, output = self.equation.data.partition("->")
        subscripts = terms.split(",")
        letters = terms.replace(",", "") + output
        legal = not letters or (letters.isascii() and letters.isalpha() and letters.islower())
        if not arrow or len(subscripts) != len(types) or not legal:
            fail(
                f"expects an equation such as 'ij,jk->ik' for {len(types)} operands, "
                f"got '{self.equation.data}'"
            )
        require_number(types[0])
        sizes: dict[str, int] = {}
        for subscript, type in zip(subscripts, types, strict=True):
            if len(subscript) != type.get_num_dims():
                fail(f"expects rank {len(subscript)} for '{subscript}', got {type}")
            for letter, size in zip(subscript, type.get_shape(), strict=True):
                sizes[letter] = merge_dim(sizes.get(letter, DYNAMIC), size, f"sizes of '{letter}'")
        if len(set(output)) != len(output) or not set(output) <= set(sizes):
            fail(f"expects distinct result letters that occur in operands, got '{output}'")
        return [with_shape(types[0], [sizes[letter] for letter in output])]

    def compute(self, *inputs: Array) -> Array:
        return np.einsum(self.equation.data, *inputs, optimize=len(inputs) > 1)
