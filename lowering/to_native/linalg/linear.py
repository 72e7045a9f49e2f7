"""Matrix products, convolution, Einstein sums and attention.

A product of two matrices and a plain 2-d convolution become the named ops `linalg.matmul` and
`linalg.conv_2d_nchw_fchw`; all others a `linalg.generic` that multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntElementsAttr, TensorType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from ....dialects import tensor, ternary
from ....dialects.inference import tensor_type
from ....dialects.shapes import axes_behind
from .linalg_builder import (
    PARALLEL,
    REDUCTION,
    LinalgBuilder,
    Rule,
    Size,
    broadcast_exprs,
    dims,
    element,
    rank,
)
from .reshaping import reshape
from .scalars import Scalars


def multiply_add(s: Scalars, *elements: SSAValue) -> list[SSAValue]:
    """The last element plus the product of the others, in the type of the last."""
    *factors, total = elements
    product = s.convert(factors[0], total.type)
    for factor in factors[1:]:
        product = s.mul(product, s.convert(factor, total.type))
    return [s.add(total, product)]


def matrix_product(builder: LinalgBuilder, x: SSAValue, y: SSAValue, type: Attribute) -> SSAValue:
    """NumPy's `matmul`, sums in `type`."""
    x_sizes, y_sizes = builder.sizes(x), builder.sizes(y)
    if rank(x) == rank(y) == 2 and element(x) == element(y) == type:
        start = builder.fill([x_sizes[0], y_sizes[1]], 0, type)
        product = builder.insert(linalg.MatmulOp([x, y], [start]))
        return builder.with_sizes(product, builder.sizes(start))

    x_shape, y_shape = tensor_type(x).get_shape(), tensor_type(y).get_shape()
    batch = _batch_sizes(builder, x, y)
    row_count, column_count = int(rank(x) > 1), int(rank(y) > 1)
    result = dims(len(batch) + row_count + column_count)
    inner = AffineExpr.dimension(len(result))
    rows = result[len(batch) : len(batch) + row_count]
    columns = result[len(batch) + row_count :]
    sizes = [*batch, *x_sizes[-2:-1], *(y_sizes[-1:] if column_count else [])]
    shared = result[: len(batch)]
    x_batch = broadcast_exprs(x_shape[:-2], shared, batch)
    y_batch = broadcast_exprs(y_shape[:-2], shared, batch)
    (product,) = builder.generic(
        [(x, [*x_batch, *rows, inner]), (y, [*y_batch, inner, *columns])],
        [(builder.fill(sizes, 0, type), result)],
        [PARALLEL] * len(result) + [REDUCTION],
        multiply_add,
    )
    return product


def _batch_sizes(builder: LinalgBuilder, *values: SSAValue) -> list[Size]:
    """The sizes of all axes but the last two, broadcast."""
    count = max(0, *(rank(value) - 2 for value in values))
    result: list[Size] = []
    for axis in range(-2 - count, -2):
        sizes = [builder.size(v, axis) for v in values if rank(v) >= -axis]
        known = [size for size in sizes if isinstance(size, int) and size != 1]
        free = [size for size in sizes if isinstance(size, SSAValue)]
        result.append(known[0] if known else free[0] if free else 1)
    return result


def matmul(builder: LinalgBuilder, op: tensor.MatmulOp, x: SSAValue, y: SSAValue) -> SSAValue:
    """`tensor.matmul`."""
    return matrix_product(builder, x, y, element(x))


def linear(
    builder: LinalgBuilder, op: tensor.LinearOp, x: SSAValue, weight: SSAValue, *bias: SSAValue
) -> SSAValue:
    """`tensor.linear`."""
    result = matrix_product(builder, x, weight, element(x))
    for values in bias:
        result = add_along(builder, result, values, -1)
    return result


def along(builder: LinalgBuilder, vector: SSAValue, count: int, axis: int) -> SSAValue:
    """`vector` shaped to broadcast along `axis` of a tensor of rank `count`; a scalar stays."""
    if rank(vector) == 0:
        return vector
    return reshape(builder, vector, [builder.size(vector, 0), *[1] * axes_behind(axis, count)])


def add_along(builder: LinalgBuilder, x: SSAValue, vector: SSAValue, axis: int) -> SSAValue:
    """x plus one number for each position on `axis`."""
    shaped = along(builder, vector, rank(x), axis)
    return builder.map([x, shaped], lambda s, a, b: s.add(a, b), element(x))


def multiply_along(builder: LinalgBuilder, x: SSAValue, vector: SSAValue, axis: int) -> SSAValue:
    """x times one number for each position on `axis`."""
    shaped = along(builder, vector, rank(x), axis)
    return builder.map([x, shaped], lambda s, a, b: s.mul(a, b), element(x))


def window_sizes(
    builder: LinalgBuilder,
    padded: Sequence[Size],
    kernel: Sequence[Size],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[Size]:
    """The sizes of the result of a sliding window: ⌊(n - d·(k - 1) - 1) / s⌋ + 1."""
    result: list[Size] = []
    for size, taps, stride, step in zip(padded, kernel, strides, dilation, strict=True):
        reach = builder.times(builder.plus(taps, -1), -step)
        room = builder.plus(size, builder.plus(reach, -1))
        result.append(builder.plus(builder.over(room, stride), 1))
    return result


def convolution(
    builder: LinalgBuilder,
    x: SSAValue,
    weight: SSAValue,
    op: tensor.ConvOp | ternary.ConvOp,
    type: Attribute,
) -> SSAValue:
    """`tensor.conv` without its bias, sums in `type`; `op` has the properties of a window."""
    strides, dilation = op.strides.get_values(), op.dilation.get_values()
    padding, groups = op.padding.get_values(), op.groups.value.data
    spatial = len(strides)
    padded = builder.pad(x, [0, 0, *padding[:spatial]], [0, 0, *padding[spatial:]], 0)
    batch, channels, *image = builder.sizes(padded)
    outputs, inputs, *kernel = builder.sizes(weight)
    positions = window_sizes(builder, image, kernel, strides, dilation)
    if groups == 1 and spatial == 2 and element(x) == element(weight) == type:
        start = builder.fill([batch, outputs, *positions], 0, type)
        pair: TensorType[Attribute] = TensorType(i64, [2])
        result = builder.insert(
            linalg.Conv2DNchwFchwOp(
                [padded, weight],
                [start],
                [start.type],
                strides=DenseIntElementsAttr.from_list(pair, strides),
                dilations=DenseIntElementsAttr.from_list(pair, dilation),
            )
        )
        return builder.with_sizes(result, builder.sizes(start))

    grouped = groups > 1
    cut = [groups] if grouped else []
    each_output = builder.over(outputs, groups)
    if grouped:
        each_input = builder.over(channels, groups)
        padded = reshape(builder, padded, [batch, groups, each_input, *image])
        weight = reshape(builder, weight, [groups, each_output, inputs, *kernel])
    sizes = [batch, *cut, each_output, *positions]
    result_dims = dims(len(sizes))
    channel, *taps = dims(1 + spatial, len(sizes))
    places = [
        place * stride + tap * step
        for place, stride, tap, step in zip(
            result_dims[-spatial:], strides, taps, dilation, strict=True
        )
    ]
    group = result_dims[1:2] if grouped else []
    output = result_dims[len(sizes) - spatial - 1]
    (result,) = builder.generic(
        [
            (padded, [result_dims[0], *group, channel, *places]),
            (weight, [*group, output, channel, *taps]),
        ],
        [(builder.fill(sizes, 0, type), result_dims)],
        [PARALLEL] * len(sizes) + [REDUCTION] * (1 + spatial),
        multiply_add,
    )
    return reshape(builder, result, [batch, outputs, *positions]) if grouped else result


def conv(
    builder: LinalgBuilder, op: tensor.ConvOp, x: SSAValue, weight: SSAValue, *bias: SSAValue
) -> SSAValue:
    """`tensor.conv`."""
    result = convolution(builder, x, weight, op, element(x))
    for values in bias:
        result = add_along(builder, result, values, 1)
    return result


def einsum(builder: LinalgBuilder, op: tensor.EinsumOp, *inputs: SSAValue) -> SSAValue:
    """`tensor.einsum`: a loop for each letter, those of the result first."""
    terms, _, output = op.equation.data.partition("->")
    subscripts = terms.split(",")
    letters = [*output, *sorted(set(terms) - {",", *output})]
    loops = dict(zip(letters, dims(len(letters)), strict=True))
    sizes: dict[str, Size] = {}
    for value, subscript in zip(inputs, subscripts, strict=True):
        for letter, size in zip(subscript, builder.sizes(value), strict=True):
            if isinstance(size, int) or letter not in sizes:
                sizes[letter] = size
    start = builder.fill([sizes[letter] for letter in output], 0, element(inputs[0]))
    (result,) = builder.generic(
        [
            (value, [loops[letter] for letter in subscript])
            for value, subscript in zip(inputs, subscripts, strict=True)
        ],
        [(start, [loops[letter] for letter in output])],
        [PARALLEL if letter in output else REDUCTION for letter in letters],
        multiply_add,
    )
    return result


RULES: dict[type[Operation], Rule] = {
    tensor.MatmulOp: matmul,
    tensor.LinearOp: linear,
    tensor.ConvOp: conv,
    tensor.EinsumOp: einsum,
}
