"""Products with trit weights: `matmul`, and the fused `linear` and `conv`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.arrays import Array
from ...ir.definition import irdl_op_definition
from ...ir.errors import VerifyError
from ...ir.trits import accumulator_bits
from ..inference import InferredOp, fail, tensor_type
from ..shapes import (
    AnyTensor,
    Shape,
    bit_width,
    broadcasts_to,
    is_float,
    matmul_shape,
    with_element,
)
from ..tensor.interpret_linear import along_channels, convolve, integer_matmul
from ..tensor.linear import check_vector, linear_shape
from ..tensor.quantization import (
    check_range,
    check_thresholds,
    count_thresholds,
    rescale,
    threshold_element,
)
from ..tensor.window import Convolves, conv_shape
from ..traits import AddsUp, CanonicalizableOp, ChannelsFirst
from .sparsity import SparsityAttr, check_sparsity, reduction_matrix
from .types import is_trit, require_trit

ACTIVATIONS = ("none", "relu", "relu6")

OPTIONS = ("scale", "bias", "thresholds", "multiplier", "shift", "zero_point")
"""The operands of `FusedOp` that may be absent, in order."""

OPERANDS = ("input", "weight", *OPTIONS)
"""All of them."""

ValueT = TypeVar("ValueT")


def accumulator(input: AnyTensor) -> Attribute:
    """The element type of a product with trits: floats stay, integers and trits give i32 or i64.

    Sums of integers wrap around in it. i64 is for i64, ui32 and ui64; see `ir.trits`.
    """
    if is_float(input):
        return input.element_type
    if is_trit(input):
        return i32
    width = bit_width(input.element_type)
    if width is not None and width > 1:
        unsigned = input.element_type == IntegerType(width, Signedness.UNSIGNED)
        return IntegerType(accumulator_bits(width, unsigned=unsigned))
    fail(f"expects floats, integers or trits, got {input}")


@irdl_op_definition
class MatmulOp(InferredOp, CanonicalizableOp):
    """z = x · W with trits W, NumPy's `matmul`; optionally each column times a scale.

    Float x: products and sums in x's type, in no fixed order. Trits and integers of up to 32 bits
    with a sign: sums in i32, modulo 2^32. Wider ones (i64, ui32, ui64): in i64, modulo 2^64.
    A scale (one value a column, or a scalar) needs a float x.

        %z = ternary.matmul %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit>
             -> tensor<?x10xf32>
    """

    name = "ternary.matmul"

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())
    assembly_format = (
        "$input `,` $weight (`scale` `(` $scale^ `:` type($scale) `)`)? attr-dict "
        "`:` type($input) `,` type($weight) `->` type($result)"
    )

    def infer(self) -> Sequence[Attribute]:
        input, weight = tensor_type(self.input), tensor_type(self.weight)
        require_trit(weight, "weight")
        shape = matmul_shape(input.get_shape(), weight.get_shape())
        if self.scale is not None:
            check_output_scale(input, tensor_type(self.scale), shape[-1:])
        return [TensorType(accumulator(input), shape)]

    def compute(self, x: Array, weight: Array, *scale: Array) -> Array:
        result = product(x, weight)
        return result * scale[0] if scale else result


def check_output_scale(input: AnyTensor, scale: AnyTensor, channels: Shape) -> None:
    """Refuse a scale that is neither a scalar nor one value an output channel."""
    if not is_float(input) or scale.element_type != input.element_type:
        fail(f"expects a scale of the input's float type, got {scale} for {input}")
    if not broadcasts_to(scale.get_shape(), channels) or scale.get_shape() == (1,) != channels:
        fail(f"expects a scalar scale or one value a channel, got {scale}")


def product(x: Array, weight: Array) -> Array:
    """x · W: floats in x's type, integers and trits modulo the width of their accumulator."""
    if x.dtype.kind == "f":
        return np.matmul(x, weight.astype(x.dtype))
    return integer_matmul(x, weight).astype(sum_dtype(x.dtype))


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What trits times elements of `dtype` are summed in."""
    if dtype.kind not in "iub":
        return dtype
    bits = accumulator_bits(dtype.itemsize * 8, unsigned=dtype.kind == "u")
    return np.dtype(f"int{bits}")


class FusedOp(InferredOp, ABC):
    """A product with trits, in the type of `ternary.matmul`, and what follows it.

    In this order, each step optional:

    1. times `scale` (a scalar or one float a channel; float input only),
    2. plus `bias` (one value a channel, in the accumulator's type),
    3. `activation`: `none`, `relu`, `relu6` (relu6 on float input only),
    4. either `thresholds` [C, K] or [1, K]: the count of thresholds ≤ value, as
       `tensor.multi_threshold`;
       or, on i32, `multiplier`, `shift` and `zero_point` with `low` and `high`, as
       `tensor.requantize`.
    """

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    thresholds = opt_operand_def(TensorType)
    multiplier = opt_operand_def(TensorType)
    shift = opt_operand_def(TensorType)
    zero_point = opt_operand_def(TensorType)
    activation = prop_def(StringAttr, default_value=StringAttr("none"))
    low = opt_prop_def(IntegerAttr[IntegerType])
    high = opt_prop_def(IntegerAttr[IntegerType])
    sparsity = opt_prop_def(SparsityAttr)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weight (`scale` `(` $scale^ `:` type($scale) `)`)? "
        "(`bias` `(` $bias^ `:` type($bias) `)`)? "
        "(`thresholds` `(` $thresholds^ `:` type($thresholds) `)`)? "
        "(`multiplier` `(` $multiplier^ `:` type($multiplier) `)`)? "
        "(`shift` `(` $shift^ `:` type($shift) `)`)? "
        "(`zero_point` `(` $zero_point^ `:` type($zero_point) `)`)? "
        "attr-dict `:` type($input) `,` type($weight) `->` type($result)"
    )

    def rebuild(self, **changes: Any) -> Self:
        """A copy of the op, not inserted, with other arguments of its constructor."""
        others = {n: v for n, v in self.properties.items() if n != "operandSegmentSizes"}
        return type(self)(**{**{n: getattr(self, n) for n in OPERANDS}, **others, **changes})

    def named(self, values: Sequence[ValueT]) -> dict[str, ValueT]:
        """Values of the operands by the names of these; those left out are not there."""
        present = [name for name in OPERANDS if getattr(self, name) is not None]
        return dict(zip(present, values, strict=True))

    @abstractmethod
    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        """The shape of the product before the optional steps."""

    CHANNEL_AXIS: ClassVar[int] = -1
    """The axis of the result that holds the output channels."""

    def infer(self) -> Sequence[Attribute]:
        input, weight = tensor_type(self.input), tensor_type(self.weight)
        require_trit(weight, "weight")
        shape = self.product_shape(input.get_shape(), weight.get_shape())
        type = TensorType(accumulator(input), shape)
        channels = shape[self.CHANNEL_AXIS]
        if self.scale is not None:
            check_output_scale(input, tensor_type(self.scale), (channels,))
        if self.bias is not None:
            bias = tensor_type(self.bias)
            check_vector(bias, channels, "bias")
            if bias.element_type != type.element_type:
                fail(f"expects a bias of {type.element_type}, got {bias}")
        self._check_activation(type)
        return [self._after_quantization(type, channels)]

    def _check_activation(self, type: AnyTensor) -> None:
        if self.activation.data not in ACTIVATIONS:
            fail(
                f"expects activation one of {', '.join(ACTIVATIONS)}, got '{self.activation.data}'"
            )
        if self.activation.data == "relu6" and not is_float(type):
            fail("expects float input for the activation 'relu6'; use requantisation bounds")

    def _after_quantization(self, type: AnyTensor, channels: int) -> AnyTensor:
        rescaling = [self.multiplier, self.shift, self.zero_point]
        present = [v for v in rescaling if v is not None]
        bounds = [self.low, self.high]
        if self.thresholds is not None:
            if present:
                fail("expects thresholds or requantisation, got both")
            thresholds = tensor_type(self.thresholds)
            if thresholds.element_type != type.element_type:
                fail(f"expects thresholds of {type.element_type}, got {thresholds}")
            check_thresholds(type, thresholds, self.CHANNEL_AXIS)
            return with_element(type, threshold_element(thresholds))
        if len(present) not in (0, 3) or bounds.count(None) != (0 if present else 2):
            fail("expects multiplier, shift, zero_point, low and high together")
        if not present:
            return type
        if type.element_type != i32:
            fail(f"expects input whose sums are i32 to requantise, got {self.input.type}")
        for what in ("multiplier", "shift"):
            value = tensor_type(getattr(self, what))
            if value.element_type != i32:
                fail(f"expects an i32 {what}, got {value}")
            if value.get_shape():
                check_vector(value, channels, what)
        assert self.zero_point is not None and self.low is not None and self.high is not None
        zero = tensor_type(self.zero_point)
        if zero.get_shape():
            fail(f"expects a scalar zero point, got {zero}")
        check_range(zero, self.low.value.data, self.high.value.data)
        return with_element(type, zero.element_type)

    def finished(self, product: Array, values: Mapping[str, Array]) -> Array:
        """The optional steps of the op after the product, in their order."""
        rank, axis = product.ndim, self.CHANNEL_AXIS
        result = product
        if "scale" in values:
            result = result * along_channels(values["scale"], rank, axis)
        if "bias" in values:
            result = result + along_channels(values["bias"], rank, axis)
        if self.activation.data != "none":
            result = np.maximum(result, result.dtype.type(0))
        if self.activation.data == "relu6":
            result = np.minimum(result, result.dtype.type(6))
        if "thresholds" in values:
            return count_thresholds(result, values["thresholds"], axis)
        if self.low is not None and self.high is not None:
            return rescale(
                result,
                values["multiplier"],
                values["shift"],
                values["zero_point"],
                self.low.value.data,
                self.high.value.data,
                axis,
            )
        return result

    def check_facts(self, matrix: NDArray[np.int8]) -> None:
        if self.sparsity is None:
            return
        try:
            check_sparsity(self.name, self.sparsity, matrix)
        except VerifyException as error:
            raise VerifyError(str(error)) from None


@irdl_op_definition
class LinearOp(FusedOp):
    """y = f(s·(x · W) + b) with trits W [in, out]; the optional steps are those of `FusedOp`.

    %y = ternary.linear %x, %w bias(%b : tensor<10xf32>) {activation = "relu"}
         : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>
    """

    name = "ternary.linear"

    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        return linear_shape(input, weight)

    def compute(self, *operands: Array) -> Array:
        values = self.named(operands)
        x, weight = values["input"], values["weight"]
        self.check_facts(reduction_matrix(weight, conv=False))
        return self.finished(product(x, weight), values)


@irdl_op_definition
class ConvOp(Convolves, FusedOp):
    """A convolution with trits W [O, C/groups, …] and the optional steps of `FusedOp`.

    Window properties are those of `tensor.conv`.

        %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
             dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x3x32x32xf32>,
             tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xf32>
    """

    name = "ternary.conv"
    traits = traits_def(ChannelsFirst())

    CHANNEL_AXIS: ClassVar[int] = 1

    def product_shape(self, input: Shape, weight: Shape) -> Shape:
        return conv_shape(input, weight, **self.window)

    def compute(self, *operands: Array) -> Array:
        values = self.named(operands)
        x, weight = values["input"], values["weight"]
        self.check_facts(reduction_matrix(weight, conv=True))
        wide = weight.astype(x.dtype) if x.dtype.kind == "f" else weight
        result = convolve(x, wide, **self.window)
        return self.finished(result.astype(sum_dtype(x.dtype)), values)
