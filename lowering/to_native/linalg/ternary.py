"""The `ternary` dialect: trits are i8 in {-1, 0, 1}, and products add and subtract."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import IntegerType, Signedness, f32, f64, i8, i32
from xdsl.dialects.math import AbsFOp, RoundEvenOp
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects import ternary
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import bit_width, element_count, with_element
from ....dialects.ternary.linear import accumulator
from .linalg_builder import PARALLEL, REDUCTION, LinalgBuilder, Rule, Size, dims, element, rank
from .linear import add_along, along, convolution, matrix_product, multiply_along
from .quantization import count_thresholds, rescale
from .reduction import addition, maximum, mean
from .reshaping import reshape
from .scalars import Scalars
from .shape import extract

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


def ternarize(builder: LinalgBuilder, op: ternary.TernarizeOp, x: SSAValue) -> tuple[SSAValue, ...]:
    """`ternary.ternarize`, the deterministic rules. Means are taken in f64, then rounded."""
    type = element(x)
    count = rank(x)
    channel = op.axis.value.data % count if op.scaling.data == "channel" else None
    axes = [axis for axis in range(count) if axis != channel]
    magnitude = builder.map([x], lambda s, a: s.convert(s.insert(AbsFOp(a)), f64), f64)
    rule = op.rule.data

    def by_threshold(s: Scalars, a: SSAValue, bound: SSAValue) -> SSAValue:
        small = s.compare("le", s.insert(AbsFOp(a)), bound)
        positive = s.select(s.compare("gt", a, 0), s.constant(1, i8), 0)  # not so NaN
        sign = s.select(s.compare("lt", a, 0), -1, positive)
        return s.select(small, 0, sign)

    def by_mean(s: Scalars, a: SSAValue, average: SSAValue) -> SSAValue:
        steps = s.insert(RoundEvenOp(s.div(a, average)))
        positive = s.compare("gt", average, 0)
        return s.saturate(s.minimum(s.maximum(s.select(positive, steps, 0.0), -1), 1), i8)

    if rule == "fixed":
        assert op.threshold is not None
        bound = builder.fill([], op.threshold.value.data, type)
    else:
        factor = 0.7 if rule == "twn" else 1.0
        average = mean(builder, magnitude, axes, keepdims=True)
        bound = builder.map([average], lambda s, a: s.convert(s.mul(a, factor), type), type)
    body = by_mean if rule == "absmean" else by_threshold
    trits = builder.map([x, bound], body, i8)
    if op.scale is None:
        return (trits,)

    def kept(s: Scalars, m: SSAValue, t: SSAValue) -> SSAValue:
        return s.select(s.compare("ne", t, 0), m, 0.0)

    def one_if_kept(s: Scalars, t: SSAValue) -> SSAValue:
        return s.convert(s.compare("ne", t, 0), f64)

    total = builder.reduce(builder.map([magnitude, trits], kept, f64), axes, addition, 0)
    number = builder.reduce(builder.map([trits], one_if_kept, f64), axes, addition, 0)
    scale = builder.map(
        [total, number], lambda s, a, n: s.convert(s.div(a, s.maximum(n, 1)), type), type
    )
    return trits, scale


def pack(builder: LinalgBuilder, op: ternary.PackOp, trits: SSAValue) -> SSAValue:
    """`ternary.pack`: the sum of code·4^i over each four trits."""
    count = element_count(tensor_type(trits).get_shape()) or 0
    flat = reshape(builder, trits, [count])
    padded = builder.pad(flat, [0], [-count % 4], 0)
    quads = reshape(builder, padded, [-(-count // 4), 4])
    loops = dims(2)

    def body(s: Scalars, trit: SSAValue, byte: SSAValue) -> list[SSAValue]:
        code = s.select(s.compare("lt", trit, 0), 2, trit)
        return [s.either(byte, s.shift_left(code, _bit(s)))]

    (result,) = builder.generic(
        [(quads, loops)],
        [(builder.fill([-(-count // 4)], 0, i8), loops[:1])],
        [PARALLEL, REDUCTION],
        body,
    )
    return result


def _bit(s: Scalars) -> SSAValue:
    """The lowest bit of the trit that the second loop is at."""
    return s.convert(s.mul(s.index(1), 2), i8)


def unpack(builder: LinalgBuilder, op: ternary.UnpackOp, packed: SSAValue) -> SSAValue:
    """`ternary.unpack`; the reserved code is not looked for, and reads as 3."""
    shape = tensor_type(op.result).get_shape()
    count = element_count(shape) or 0
    loops = dims(2)
    bytes_count = -(-count // 4)
    sizes: list[Size] = [bytes_count, 4]

    def body(s: Scalars, byte: SSAValue, _: SSAValue) -> list[SSAValue]:
        shifted = s.shift_right(byte, _bit(s), unsigned=True)
        code = s.both(shifted, s.constant(3, i8))
        return [s.select(s.compare("eq", code, 2), -1, code)]

    (quads,) = builder.generic(
        [(packed, loops[:1])], [(builder.empty(sizes, i8), loops)], [PARALLEL, PARALLEL], body
    )
    flat = extract(builder, reshape(builder, quads, [bytes_count * 4]), [0], [count], [1])
    return reshape(builder, flat, list(shape))


def unsupported(op: Operation) -> str | None:
    """Why an op of this dialect cannot be lowered, although there is a rule for it."""
    if isinstance(op, ternary.TernarizeOp) and op.seed is not None:
        return "random draws have no counterpart; evaluate them first with 'fold-constants'"
    return None


RULES: dict[type[Operation], Rule] = {
    ternary.MatmulOp: matmul,
    ternary.LinearOp: linear,
    ternary.ConvOp: conv,
    ternary.AdderGraphOp: adder_graph,
    ternary.DequantizeOp: dequantize,
    ternary.TernarizeOp: ternarize,
    ternary.PackOp: pack,
    ternary.UnpackOp: unpack,
}
