"""Pooling, reductions and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntElementsAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects import tensor
from ....dialects.shapes import bit_width
from .linalg_builder import (
    PARALLEL,
    REDUCTION,
    LinalgBuilder,
    Rule,
    Size,
    Step,
    dims,
    element,
    rank,
)
from .linear import window_sizes
from .reshaping import reduce, reshape
from .scalars import Number, Scalars, integer_range, signed_bits


def is_unsigned(builder: LinalgBuilder, x: SSAValue) -> bool:
    """Whether the elements order as unsigned numbers: truth values do."""
    return x in builder.unsigned or element(x) == i1


def ends(builder: LinalgBuilder, x: SSAValue) -> tuple[Number, Number]:
    """The least and the greatest number of the elements of `x`."""
    bits = bit_width(element(x))
    if bits is None:
        return -inf, inf
    low, high = integer_range(bits, unsigned=is_unsigned(builder, x))
    return low, high if bits == 1 else signed_bits(high, bits)


def addition(s: Scalars, x: SSAValue, total: SSAValue) -> SSAValue:
    """One step of a sum."""
    return s.add(total, x)


def maximum(builder: LinalgBuilder, x: SSAValue) -> Step:
    """One step of a maximum over elements of `x`."""
    unsigned = is_unsigned(builder, x)
    return lambda s, a, most: s.maximum(most, a, unsigned=unsigned)


def pool(
    builder: LinalgBuilder,
    op: tensor.MaxPoolOp | tensor.AvgPoolOp,
    x: SSAValue,
    step: Step,
    start: Number,
) -> SSAValue:
    """`step` over each window of `x`, pads filled with `start`."""
    kernel, strides = op.kernel.get_values(), op.strides.get_values()
    spatial = len(kernel)
    padded = _padded(builder, op, x, start)
    batch, channels, *image = builder.sizes(padded)
    positions = window_sizes(builder, image, list(kernel), strides, [1] * spatial)
    sizes = [batch, channels, *positions]
    result_dims = dims(len(sizes))
    taps = dims(spatial, len(sizes))
    places = [
        place * stride + tap
        for place, stride, tap in zip(result_dims[2:], strides, taps, strict=True)
    ]
    window = builder.empty(list(kernel), element(x))
    (result,) = builder.generic(
        [(padded, [*result_dims[:2], *places]), (window, taps)],
        [(builder.fill(sizes, start, element(x)), result_dims)],
        [PARALLEL] * len(sizes) + [REDUCTION] * spatial,
        lambda s, a, _, so_far: [step(s, a, so_far)],
    )
    return result


def _padded(
    builder: LinalgBuilder, op: tensor.MaxPoolOp | tensor.AvgPoolOp, x: SSAValue, fill: Number
) -> SSAValue:
    padding = op.padding.get_values()
    spatial = len(padding) // 2
    return builder.pad(x, [0, 0, *padding[:spatial]], [0, 0, *padding[spatial:]], fill)


def max_pool(builder: LinalgBuilder, op: tensor.MaxPoolOp, x: SSAValue) -> SSAValue:
    """`tensor.max_pool`; 2-d becomes the named op, which compares integers as signed ones."""
    start = ends(builder, x)[0]
    kernel, strides = op.kernel.get_values(), op.strides.get_values()
    if len(kernel) != 2 or is_unsigned(builder, x):
        return pool(builder, op, x, maximum(builder, x), start)
    padded = _padded(builder, op, x, start)
    batch, channels, *image = builder.sizes(padded)
    positions = window_sizes(builder, image, list(kernel), strides, [1, 1])
    init = builder.fill([batch, channels, *positions], start, element(x))
    pair: TensorType[Attribute] = TensorType(i64, [2])
    result = builder.insert(
        linalg.PoolingNchwMaxOp(
            [padded, builder.empty(list(kernel), element(x))],
            [init],
            [init.type],
            strides=DenseIntElementsAttr.from_list(pair, strides),
            dilations=DenseIntElementsAttr.from_list(pair, [1, 1]),
        )
    )
    return builder.with_sizes(result, builder.sizes(init))


def avg_pool(builder: LinalgBuilder, op: tensor.AvgPoolOp, x: SSAValue) -> SSAValue:
    """`tensor.avg_pool`: the sum of each window over the number of elements in it."""
    total = pool(builder, op, x, addition, 0)
    if op.count_include_pad.value.data or not any(op.padding.get_values()):
        count = builder.product(list(op.kernel.get_values()))
        return _divided(builder, total, count)
    ones = builder.fill([1, 1, *builder.sizes(x)[2:]], 1, element(x))
    counts = pool(builder, op, ones, addition, 0)
    return builder.map([total, counts], lambda s, a, b: s.div(a, b), element(x))


def _divided(builder: LinalgBuilder, x: SSAValue, count: Size) -> SSAValue:
    """x over a whole number."""

    def body(s: Scalars, a: SSAValue) -> SSAValue:
        number = s.constant(count, a.type) if isinstance(count, int) else s.convert(count, a.type)
        return s.div(a, number)

    return builder.map([x], body, element(x))


def mean(builder: LinalgBuilder, x: SSAValue, axes: Sequence[int], *, keepdims: bool) -> SSAValue:
    """The mean over `axes`."""
    total = reduce(builder, x, axes, addition, 0, keepdims=keepdims)
    return _divided(builder, total, builder.product([builder.size(x, axis) for axis in axes]))


def _reduced(choose: Callable[[LinalgBuilder, SSAValue], tuple[Step, Number]]) -> Rule:
    """The rule of a reduction over axes: `choose` says what a step does, and the start."""

    def rule(builder: LinalgBuilder, op: tensor.ReduceSumOp, x: SSAValue) -> SSAValue:
        step, start = choose(builder, x)
        keepdims = bool(op.keepdims.value.data)
        return reduce(builder, x, op.axes.get_values(), step, start, keepdims=keepdims)

    return rule


def reduce_mean(builder: LinalgBuilder, op: tensor.ReduceMeanOp, x: SSAValue) -> SSAValue:
    """`tensor.reduce_mean`."""
    return mean(builder, x, op.axes.get_values(), keepdims=bool(op.keepdims.value.data))


def multiplication(s: Scalars, x: SSAValue, total: SSAValue) -> SSAValue:
    """One step of a product."""
    return s.mul(total, x)


def minimum(builder: LinalgBuilder, x: SSAValue) -> Step:
    """One step of a minimum over elements of `x`."""
    unsigned = is_unsigned(builder, x)
    return lambda s, a, so_far: s.minimum(so_far, a, unsigned=unsigned)


def argmax(builder: LinalgBuilder, op: tensor.ArgmaxOp, x: SSAValue) -> SSAValue:
    """`tensor.argmax`: the first maximum; NaN counts as greater than all numbers.

    The least place of what equals the maximum: unlike places carried along with a maximum, both are
    reductions whose order does not matter, and so run in vectors.
    """
    count = rank(x)
    axis = op.axis.value.data % count
    sizes, every = builder.sizes(x), dims(count)
    remaining = [every[a] for a in range(count) if a != axis]
    most = builder.reduce(x, [axis], maximum(builder, x), ends(builder, x)[0])
    unsigned = is_unsigned(builder, x)
    last = integer_range(32, unsigned=False)[1]
    place = i32 if isinstance(size := sizes[axis], int) and size <= last else i64
    last = last if place == i32 else integer_range(64, unsigned=False)[1]

    def body(s: Scalars, a: SSAValue, most: SSAValue, first: SSAValue) -> list[SSAValue]:
        found = s.compare("ge", a, most, unsigned=unsigned)
        if isinstance(a.type, AnyFloat):
            # The maximum is NaN where an element is.
            found = s.either(found, s.is_nan(a))
        here = s.convert(s.index(axis), place)
        return [s.minimum(first, s.select(found, here, s.constant(last, place)))]

    (result,) = builder.generic(
        [(x, every), (most, remaining)],
        [(builder.fill(builder.sizes(most), last, place), remaining)],
        [REDUCTION if a == axis else PARALLEL for a in range(count)],
        body,
    )
    result = builder.map([result], lambda s, a: s.convert(a, i64), i64)
    if not op.keepdims.value.data:
        return result
    return reshape(builder, result, [1 if a == axis else n for a, n in enumerate(sizes)])


def cumulative(builder: LinalgBuilder, op: tensor.CumulativeOp, x: SSAValue) -> SSAValue:
    """`tensor.cumsum` and `tensor.cumprod` over a free axis: all elements before each are read.

    The sums of a number that fills a tensor, of which positions are made, are multiples of it. Over
    a known axis both are decomposed, which is quicker.
    """
    count, axis, sizes = rank(x), op.position, builder.sizes(x)
    type = element(x)
    if isinstance(op, tensor.CumsumOp) and not isinstance(type, AnyFloat) and _is_filled(x):
        return builder.map(
            [x], lambda s, a: s.mul(a, s.convert(s.add(s.index(axis), 1), type)), type
        )
    places = dims(count + 1)
    read = [places[count] if a == axis else places[a] for a in range(count)]

    def body(s: Scalars, a: SSAValue, so_far: SSAValue) -> list[SSAValue]:
        more = s.add(so_far, a) if isinstance(op, tensor.CumsumOp) else s.mul(so_far, a)
        return [s.select(s.compare("le", s.index(count), s.index(axis)), more, so_far)]

    init = builder.fill(sizes, op.START, element(x))
    kinds = [*[PARALLEL] * count, REDUCTION]
    return builder.generic([(x, read)], [(init, places[:count])], kinds, body)[0]


def _is_filled(x: SSAValue) -> bool:
    """Whether all elements are one number."""
    filling = x.owner
    return (
        isinstance(filling, linalg.GenericOp)
        and [rank(value) for value in filling.inputs] == [0]
        and not any(isinstance(op, linalg.IndexOp) for op in filling.body.walk())
    )


RULES: dict[type[Operation], Rule] = {
    tensor.MaxPoolOp: max_pool,
    tensor.AvgPoolOp: avg_pool,
    tensor.ReduceSumOp: _reduced(lambda builder, x: (addition, 0)),
    tensor.ReduceProdOp: _reduced(lambda builder, x: (multiplication, 1)),
    tensor.ReduceMeanOp: reduce_mean,
    tensor.ReduceMaxOp: _reduced(lambda b, x: (maximum(b, x), ends(b, x)[0])),
    tensor.ReduceMinOp: _reduced(lambda b, x: (minimum(b, x), ends(b, x)[1])),
    tensor.ArgmaxOp: argmax,
    tensor.CumsumOp: cumulative,
    tensor.CumprodOp: cumulative,
}
