"""The `ternary` dialect: trits are i8 in {-1, 0, 1}, and products add and subtract."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i32
from xdsl.dialects.math import AbsFOp
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects import ternary
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import bit_width, with_element
from ....dialects.ternary.linear import accumulator
from .linalg_builder import LinalgBuilder, Rule, Size, element, rank
from .linear import add_along, along, convolution, matrix_product, multiply_along
from .quantization import count_thresholds, rescale
from .reduction import maximum
from .reshaping import reshape
from .scalars import Scalars

_LEAST = 2.0**-118
"""127 divided by less may overflow."""
_MAGIC = 1.5 * 2**23


def _sum_type(builder: LinalgBuilder, x: SSAValue) -> Attribute:
    """The accumulator of products with x, whose own type does not say any more who has no sign."""
    type = tensor_type(x)
    if x in builder.unsigned:
        width = bit_width(type.element_type)
        type = with_element(type, IntegerType(width or 0, Signedness.UNSIGNED))
    return accumulator(type)


def product(builder: LinalgBuilder, x: SSAValue, weight: SSAValue) -> SSAValue:
    """x · W, summed in the accumulator."""
    type = _sum_type(builder, x)
    if (x, type) not in builder.widened:
        builder.widened[x, type] = builder.convert_elements(x, type)
    return matrix_product(builder, builder.widened[x, type], weight, type)


def matmul(
    builder: LinalgBuilder, op: ternary.MatmulOp, x: SSAValue, weight: SSAValue, *scale: SSAValue
) -> SSAValue:
    """`ternary.matmul`."""
    result = product(builder, x, weight)
    for factor in scale:
        result = builder.map([result, factor], lambda s, a, b: s.mul(a, b), element(result))
    return result


def linear(builder: LinalgBuilder, op: ternary.LinearOp, *operands: SSAValue) -> SSAValue:
    """`ternary.linear`."""
    values = op.named(operands)
    return finish(builder, op, product(builder, values["input"], values["weight"]), values)


def conv(builder: LinalgBuilder, op: ternary.ConvOp, *operands: SSAValue) -> SSAValue:
    """`ternary.conv`."""
    values = op.named(operands)
    x = values["input"]
    type = _sum_type(builder, x)
    if x in builder.unsigned or not isinstance(element(x), IntegerType):
        # Else what multiplies widens integers, as trits.
        x = builder.convert_elements(x, type)
    return finish(builder, op, convolution(builder, x, values["weight"], op, type), values)


def is_rounded(op: Operation) -> bool:
    """Whether an op is a convolution of float images that may be rounded, and worth it."""
    if not isinstance(op, ternary.ConvOp):
        return False
    each = tensor_type(op.weight).get_shape()[1]
    return tensor_type(op.input).element_type == f32 and each != 1


def rounded_conv(builder: LinalgBuilder, op: Operation, *operands: SSAValue) -> SSAValue:
    """`ternary.conv` of float images in int8: round(x·127 / max|x|), ties to even, and exact sums.

    Images below 2^-118 count as zero; one with an infinity or NaN gives NaN.
    """
    assert isinstance(op, ternary.ConvOp)
    values = op.named(operands)
    x = values["input"]
    if x not in builder.rounded:
        builder.rounded[x] = _rounded(builder, x)
    image, scale = builder.rounded[x]
    sums = convolution(builder, image, values["weight"], op, i32)
    result = builder.map([sums, scale], lambda s, a, b: s.mul(s.convert(a, f32), b), f32)
    return finish(builder, op, result, values)


def _rounded(builder: LinalgBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Images as bytes, and the scale of each."""
    count = rank(x)
    sizes: list[Size] = [builder.size(x, 0), *[1] * (count - 1)]
    magnitude = builder.map([x], lambda s, a: s.insert(AbsFOp(a)), f32)
    most = builder.reduce(magnitude, range(1, count), maximum(builder, magnitude), 0)
    most = reshape(builder, most, sizes)

    def scaled(s: Scalars, a: SSAValue) -> SSAValue:
        scale = s.select(s.compare("lt", a, inf), s.div(a, 127), nan)
        return s.select(s.compare("lt", a, _LEAST), 0, scale)

    def inverted(s: Scalars, a: SSAValue) -> SSAValue:
        return s.select(s.compare("lt", a, _LEAST), 0, s.div(s.constant(127, f32), a))

    def to_byte(s: Scalars, a: SSAValue, factor: SSAValue) -> SSAValue:
        # The sum has the nearest integer in its low bits; any byte does for what is no number.
        near = s.add(s.mul(a, factor), _MAGIC)
        return s.convert(s.insert(BitcastOp(near, i32)), i8)

    scale, inverse = (builder.map([most], body, f32) for body in (scaled, inverted))
    return builder.map([x, inverse], to_byte, i8), scale


def finish(
    builder: LinalgBuilder, op: ternary.FusedOp, result: SSAValue, values: Mapping[str, SSAValue]
) -> SSAValue:
    """The optional steps of `FusedOp` after the product, in their order."""
    axis = op.CHANNEL_AXIS
    if "scale" in values:
        result = multiply_along(builder, result, values["scale"], axis)
    if "bias" in values:
        result = add_along(builder, result, values["bias"], axis)
    activation = op.activation.data
    if activation != "none":

        def activate(s: Scalars, x: SSAValue) -> SSAValue:
            positive = s.maximum(x, 0)
            return s.minimum(positive, 6) if activation == "relu6" else positive

        result = builder.map([result], activate, element(result))
    if "thresholds" in values:
        return count_thresholds(builder, result, values["thresholds"], axis)
    if op.low is not None and op.high is not None:
        low, high = op.low.value.data, op.high.value.data
        multiplier, shift = values["multiplier"], values["shift"]
        zero_point = values["zero_point"]
        return rescale(builder, op, result, multiplier, shift, zero_point, low, high, axis)
    return result


def adder_graph(builder: LinalgBuilder, op: ternary.AdderGraphOp, x: SSAValue) -> SSAValue:
    """`ternary.adder_graph`, as a product with the matrix that it stands for."""
    type = _sum_type(builder, x)
    weight = builder.dense(op.matrix().astype(numpy_dtype(type)), type)
    return matrix_product(builder, builder.convert_elements(x, type), weight, type)


def dequantize(
    builder: LinalgBuilder, op: ternary.DequantizeOp, trits: SSAValue, *scale: SSAValue
) -> SSAValue:
    """`ternary.dequantize`."""
    if not scale:
        return builder.convert_elements(trits, f32)
    type = element(scale[0])
    factor = along(builder, scale[0], rank(trits), op.axis.value.data)
    return builder.map([trits, factor], lambda s, t, f: s.mul(s.convert(t, type), f), type)


RULES: dict[type[Operation], Rule] = {
    ternary.MatmulOp: matmul,
    ternary.LinearOp: linear,
    ternary.ConvOp: conv,
    ternary.AdderGraphOp: adder_graph,
    ternary.DequantizeOp: dequantize,
}
