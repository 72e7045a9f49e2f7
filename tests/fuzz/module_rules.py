"""What makes each op of the dialects `tensor` and `ternary` in a random module."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.elements import element_of, numpy_dtype
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.tensor.elementwise import ArithmeticOp, UnaryOp
from triton_dsl.dialects.tensor.reduction import ReduceOp
from triton_dsl.dialects.ternary.types import TritType

from .cases import Case
from .modules import Builder, Maker


def is_float(v: SSAValue) -> bool:
    return numpy_dtype(tensor_type(v).element_type).kind == "f"


def is_trit(v: SSAValue) -> bool:
    return isinstance(tensor_type(v).element_type, TritType)


def is_truth(v: SSAValue) -> bool:
    return numpy_dtype(tensor_type(v).element_type).kind == "b"


def is_integer(v: SSAValue) -> bool:
    return not is_trit(v) and numpy_dtype(tensor_type(v).element_type).kind in "iu"


def is_number(v: SSAValue) -> bool:
    return is_float(v) or is_integer(v)


def rank(v: SSAValue) -> int:
    return tensor_type(v).get_num_dims()


POSITIVE = (
    *(tensor.LogOp, tensor.SqrtOp, tensor.RsqrtOp, tensor.ReciprocalOp),
    *(tensor.Log1pOp, tensor.Log2Op),
)
BOUNDED: dict[type[Operation], tuple[float, float | None]] = {
    tensor.AcosOp: (-1.0, 1.0),
    tensor.AsinOp: (-1.0, 1.0),
    tensor.AtanhOp: (-0.9, 0.9),
    tensor.AcoshOp: (1.0, None),
    tensor.TanOp: (-1.5, 1.5),
}
"""Where a function is defined, or does not become as steep as to lose all digits."""


def bounded(b: Builder, kind: type[Operation], x: SSAValue) -> SSAValue | None:
    """A value in the domain of an op."""
    low, high = BOUNDED[kind]
    clamp = b.add(lambda: tensor.ClampOp(x, min=low, max=high))
    return None if clamp is None else clamp.results[0]


def unary(kind: type[UnaryOp]) -> Maker:
    """An element-wise function of one operand, with its properties where it has some."""

    def make(b: Builder) -> Operation | None:
        fits = is_float if kind.FLOAT_ONLY else is_number
        x = b.pick((lambda v: is_truth(v) or is_integer(v)) if kind is tensor.NotOp else fits)
        if x is None:
            return None
        if kind in POSITIVE and not bool((b.values[x] > 0.05).all()):
            x = b.like(x, b.dims(x), positive=True)
        if kind in BOUNDED:
            inside = bounded(b, kind, x)
            return None if inside is None else b.add(lambda: kind(inside))
        if issubclass(kind, tensor.AlphaOp):
            alphas = [0.01, 0.25, -0.5] if kind is tensor.LeakyReluOp else [1.0, 0.25, 0.5]
            with_alpha: type[tensor.AlphaOp] = kind
            return b.add(lambda: with_alpha(x, b.random.choice(alphas)))
        if kind is tensor.GeluOp:
            return b.add(lambda: tensor.GeluOp(x, b.random.choice(["exact", "tanh"])))
        if kind is tensor.ClampOp:
            low, high = b.random.choice([(-1.0, 2.0), (None, 1.0), (0.0, None), (-3.0, -1.0)])
            return b.add(lambda: tensor.ClampOp(x, min=low, max=high))
        return b.add(lambda: kind(x))

    return make


def predicate(kind: type[tensor.PredicateOp]) -> Maker:
    """A test of floats."""

    def make(b: Builder) -> Operation | None:
        x = b.pick(is_float)
        return None if x is None else b.add(lambda: kind(x))

    return make


def soft(kind: type[tensor.SoftmaxOp | tensor.LogSoftmaxOp]) -> Maker:
    """A function of the floats along an axis."""

    def make(b: Builder) -> Operation | None:
        x = b.pick(is_float)
        if x is None or not rank(x):
            return None
        axis = b.random.randrange(-rank(x), rank(x))
        return b.add(lambda: kind(x, axis))

    return make


def prelu(b: Builder) -> Operation | None:
    x = b.pick(is_float)
    if x is None:
        return None
    dims = b.dims(x)
    slope = b.like(x, dims[b.random.randrange(len(dims) + 1) :])
    return b.add(lambda: tensor.PreluOp(x, slope))


def arithmetic(kind: type[ArithmeticOp]) -> Maker:
    """An element-wise function of two operands."""

    def make(b: Builder) -> Operation | None:
        x = b.pick(is_number)
        if x is None:
            return None
        y = b.other(x)
        if kind in (tensor.DivOp, tensor.ModOp) and bool((b.values[y].abs() < 0.4).any()):
            y = b.like(x, b.dims(y), positive=True)
            if bool((b.values[y].abs() < 0.4).any()):
                return None
        pair = (x, y) if b.random.random() < 0.7 or kind in (tensor.DivOp, tensor.ModOp) else (y, x)
        return b.add(lambda: kind(*pair))

    return make


def powers(b: Builder) -> Operation | None:
    x = b.pick(is_float)
    if x is None:
        return None
    base = b.like(x, b.dims(x), positive=True)
    return b.add(lambda: tensor.PowOp(base, x))


def logic(kind: Any, fits: Callable[[SSAValue], bool]) -> Maker:
    def make(b: Builder) -> Operation | None:
        x = b.pick(fits)
        return None if x is None else b.add(lambda: kind(x, b.other(x)))

    return make


def comparison(b: Builder) -> Operation | None:
    x = b.pick(lambda v: not is_trit(v))
    if x is None:
        return None
    predicate = b.random.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    if is_truth(x):
        predicate = b.random.choice(["eq", "ne"])
    return b.add(lambda: tensor.CompareOp(x, b.other(x), predicate))


def choice(b: Builder) -> Operation | None:
    condition, x = b.pick(is_truth), b.pick(is_number)
    if condition is None or x is None:
        return None
    return b.add(lambda: tensor.WhereOp(condition, x, b.other(x)))


def conversion(b: Builder) -> Operation | None:
    x = b.pick(lambda v: True)
    if x is None:
        return None
    name = b.random.choice(
        ["float32", "float32", "float64", "float16", "int8", "int16", "int32", "int64", "bool"]
    )
    return b.add(lambda: tensor.ConvertOp(x, element_of(np.dtype(name))))


def matmul(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    n, wide = b.dims(x)[-1], b.random.choice(b.sizes)
    kind = b.random.random()
    if kind < 0.2:
        return b.add(lambda: tensor.MatmulOp(x, b.like(x, (n,))))
    if kind < 0.4 and rank(x) == 3:
        return b.add(lambda: tensor.MatmulOp(x, b.like(x, (b.dims(x)[0], n, wide))))
    if kind < 0.6 and rank(x) >= 2:
        return b.add(lambda: tensor.MatmulOp(b.like(x, (wide, b.dims(x)[-2])), x))
    return b.add(lambda: tensor.MatmulOp(x, b.like(x, (n, wide))))


def linear(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    bias = b.like(x, (wide,)) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.LinearOp(x, b.like(x, (b.dims(x)[-1], wide)), bias))


def window(b: Builder, x: SSAValue, kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, padding and dilation of a convolution of an image."""
    axes = len(kernel)
    low = b.each(axes, 0, 0, 1, 2)
    return {
        "strides": b.each(axes, 1, 1, 2, 3),
        "padding": [*low, *(low if b.random.random() < 0.6 else b.each(axes, 0, 1, 2))],
        "dilation": b.each(axes, 1, 1, 2),
    }


def is_image(v: SSAValue) -> bool:
    return rank(v) in (3, 4)


def convolution(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and is_number(v))
    if x is None:
        return None
    channels = b.dims(x)[1]
    groups = b.random.choice([1, 1, channels])
    out = groups * b.random.choice([1, 2])
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    weight = b.like(x, (out, channels // groups, *kernel))
    bias = b.like(x, (out,)) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.ConvOp(x, weight, bias, groups=groups, **window(b, x, kernel)))


def einsum(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) in (2, 3))
    if x is None:
        return None
    dims = b.dims(x)
    if rank(x) == 2:
        equations: dict[str, Sequence[int]] = {
            "ij,jk->ik": (dims[1], 3), "ij,ij->i": dims, "ij,k->kij": (2,), "ij,ij->ji": dims,
            "ij,j->i": (dims[1],),
        }  # fmt: skip
    else:
        equations = {
            "bij,bjk->bik": (dims[0], dims[2], 3), "bij,kj->bki": (3, dims[2]),
            "bij,bij->bj": dims, "bij,j->bi": (dims[2],),
        }  # fmt: skip
    equation = b.random.choice(list(equations))
    return b.add(lambda: tensor.EinsumOp([x, b.like(x, equations[equation])], equation))


def attention(b: Builder) -> Operation | None:
    q = b.pick(lambda v: is_float(v) and rank(v) in (3, 4))
    if q is None:
        return None
    *batch, length, size = b.dims(q)
    keys, wide = b.random.choice(b.sizes), b.random.choice(b.sizes)
    causal = b.random.random() < 0.3
    if causal:
        keys = length
    k, v = b.like(q, (*batch, keys, size)), b.like(q, (*batch, keys, wide))
    mask = None
    if not causal and b.random.random() < 0.4:
        mask = b.like(q, (length, keys))
    scale = b.random.choice([None, 0.5])
    return b.add(
        lambda: tensor.ScaledDotProductAttentionOp(q, k, v, mask, scale=scale, is_causal=causal)
    )


def batch_norm(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_float(v) and rank(v) >= 2)
    if x is None:
        return None
    n = (b.dims(x)[1],)
    given = [b.like(x, n, positive=i == 3) for i in range(4)]
    return b.add(lambda: tensor.BatchNormOp(x, *given, epsilon=b.random.choice([1e-5, 0.1])))


def norm(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_float(v) and rank(v) >= 2)
    if x is None:
        return None
    shape = b.dims(x)[b.random.randrange(1, rank(x)) :]
    if b.random.random() < 0.5:
        return b.add(lambda: tensor.RmsNormOp(x, b.like(x, shape), b.random.choice([1e-6, 0.1])))
    bias = b.like(x, shape) if b.random.random() < 0.5 else None
    return b.add(lambda: tensor.LayerNormOp(x, b.like(x, shape), bias))


def scale_of(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """A scale: a scalar or one a channel; often a power of two, so that ties occur."""
    shape = () if b.random.random() < 0.5 or axis >= rank(x) else (b.dims(x)[axis],)
    if b.random.random() < 0.5:
        return b.given(np.full(shape, 0.5, np.float32))
    return b.given((b.numbers.random(shape) + 0.1).astype(np.float32))


def quantise(b: Builder) -> Operation | None:
    x = b.pick(lambda v: numpy_dtype(tensor_type(v).element_type).name == "float32")
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else 0
    name, low, high = b.random.choice(
        [("int8", -128, 127), ("int8", -8, 7), ("int8", 0, 15), ("int16", -300, 300)]
    )
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(name))
    axis_kept = axis if rank(x) else 1
    scale = scale_of(b, x, axis_kept)
    return b.add(lambda: tensor.QuantizeOp(x, scale, zero, axis=axis_kept, low=low, high=high))


def dequantise(b: Builder) -> Operation | None:
    x = b.pick(is_integer)
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else 1
    dtype = numpy_dtype(tensor_type(x).element_type)
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(dtype))
    scale = scale_of(b, x, axis)
    return b.add(lambda: tensor.DequantizeOp(x, scale, zero, axis=axis))


def rescaling(b: Builder, channels: int) -> tuple[SSAValue, SSAValue, SSAValue, int, int]:
    """Multiplier, shift, zero point and bounds."""
    shape = b.random.choice([(), (channels,)])
    multiplier = b.given(np.asarray(b.numbers.integers(-99, 200, shape)).astype(np.int32))
    shift = b.given(np.asarray(b.numbers.integers(1, 9, shape)).astype(np.int32))
    zero = b.given(np.asarray(b.numbers.integers(-3, 4)).astype(np.int8))
    low, high = b.random.choice([(-128, 127), (-8, 7), (0, 127)])
    return multiplier, shift, zero, low, high


def is_i32(v: SSAValue) -> bool:
    return not is_trit(v) and numpy_dtype(tensor_type(v).element_type).name == "int32"


def requantise(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_i32(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(rank(x))
    m, s, zero, low, high = rescaling(b, b.dims(x)[axis])
    return b.add(lambda: tensor.RequantizeOp(x, m, s, zero, axis=axis, low=low, high=high))


def steps_of(b: Builder, x: SSAValue, rows: int, dtype: np.dtype[Any]) -> SSAValue:
    """Ascending thresholds."""
    shape = (b.random.choice([1, rows]), b.random.choice([1, 3, 7]))
    return b.given(np.sort(b.array(shape, dtype.name), axis=1))


def thresholds(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(rank(x))
    dtype = numpy_dtype(tensor_type(x).element_type)
    steps = steps_of(b, x, b.dims(x)[axis], dtype)
    return b.add(lambda: tensor.MultiThresholdOp(x, steps, axis=axis))


def pooling(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and is_float(v))
    if x is None:
        return None
    kind = b.random.choice(["max", "avg", "global"])
    if kind == "global":
        return b.add(lambda: tensor.GlobalAvgPoolOp(x))
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    strides = b.each(rank(x) - 2, 1, 2, 3)
    padding = [b.random.randrange(k // 2 + 1) for _ in range(2) for k in kernel]
    if kind == "max":
        return b.add(lambda: tensor.MaxPoolOp(x, kernel, strides, padding))
    counted = b.random.random() < 0.5
    return b.add(lambda: tensor.AvgPoolOp(x, kernel, strides, padding, count_include_pad=counted))


def reduction(kind: type[ReduceOp]) -> Maker:
    def make(b: Builder) -> Operation | None:
        floats = kind in (tensor.ReduceMeanOp, tensor.ReduceVarianceOp)
        x = b.pick(lambda v: (is_float(v) if floats else is_number(v)) and rank(v) >= 1)
        if x is None:
            return None
        axes = b.random.sample(range(rank(x)), b.random.randint(1, rank(x)))
        axes = [a - rank(x) if b.random.random() < 0.4 else a for a in axes]
        keepdims = b.random.random() < 0.5
        if kind is not tensor.ReduceVarianceOp:
            return b.add(lambda: kind(x, axes, keepdims=keepdims))
        # Of so few elements that PyTorch divides by 0 it warns.
        count = prod(b.dims(x)[a] for a in axes)
        corrections = [c for c in (0, 0.5, 1) if c < count]
        if not corrections:
            return None
        correction, variance = b.random.choice(corrections), tensor.ReduceVarianceOp
        return b.add(lambda: variance(x, axes, keepdims=keepdims, correction=correction))

    return make


def argmax(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(-rank(x), rank(x))
    kind = b.random.choice([tensor.ArgmaxOp, tensor.ArgminOp])
    return b.add(lambda: kind(x, axis, keepdims=b.random.random() < 0.5))


def ordering(b: Builder) -> Operation | None:
    """Running sums and products, and the sorted first."""
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    axis = b.random.randrange(rank(x))
    kind = b.random.choice([tensor.CumsumOp, tensor.CumprodOp, tensor.TopKOp])
    if kind is not tensor.TopKOp:
        return b.add(lambda: kind(x, axis))
    k, largest = b.random.randrange(b.dims(x)[axis] + 1), b.random.random() < 0.5
    return b.add(lambda: tensor.TopKOp(x, k, axis, largest=largest))


def by_index(b: Builder) -> Operation | None:
    """Elements picked, or added, by index."""
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1 and min(b.dims(v)) > 0)
    if x is None:
        return None
    axis, dims = b.random.randrange(rank(x)), list(b.dims(x))
    size, dims[axis] = dims[axis], b.random.choice([1, 2, 3])
    if tensor_type(x).get_shape() != tuple(b.dims(x)):
        return None  # sizes of the indices must be those at run time
    places = np.array([b.random.randrange(size) for _ in range(prod(dims))]).reshape(dims)
    indices = b.given(places.astype(np.int64), i64)
    if b.random.random() < 0.5:
        return b.add(lambda: tensor.GatherElementsOp(x, indices, axis))
    return b.add(lambda: tensor.ScatterElementsOp(x, indices, b.like(x, dims), axis, "add"))


def joining(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    others = [v for v in b.values if v.type == x.type]
    parts = [x, *(b.random.choice(others) for _ in range(b.random.choice([0, 1, 2])))]
    return b.add(lambda: tensor.ConcatenateOp(parts, b.random.randrange(-rank(x), rank(x))))


def splitting(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 2)
    if x is None:
        return None
    axis = b.random.randrange(1, rank(x))
    n = b.dims(x)[axis]
    first = b.random.randrange(1, n + 1)
    return b.add(lambda: tensor.SplitOp(x, axis, [first, n - first] if first < n else [n]))


def expanding(b: Builder) -> Operation | None:
    x = b.pick(lambda v: True)
    if x is None:
        return None
    shape = [3 if n == 1 and b.random.random() < 0.6 else -1 for n in tensor_type(x).get_shape()]
    return b.add(lambda: tensor.ExpandOp(x, [*b.each(b.random.choice([0, 0, 1]), 1, 2), *shape]))


def flattening(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    start = b.random.randrange(rank(x))
    end = b.random.randrange(start, rank(x))
    return b.add(lambda: tensor.FlattenOp(x, start, end - rank(x)))


def unflattening(b: Builder) -> Operation | None:
    like = b.pick(lambda v: rank(v) >= 2)
    if like is None:
        return None
    count = b.random.randrange(2, rank(like) + 1)
    flat = b.add(lambda: tensor.FlattenOp(like, 0, count - 1))
    return flat and b.add(lambda: tensor.UnflattenOp(flat.results[0], like, count))


def gathering(b: Builder) -> Operation | None:
    indices = b.pick(lambda v: is_integer(v) and rank(v) >= 1)
    if indices is None or bool((b.values[indices] < 0).any()):
        return None
    rows = int(b.values[indices].max()) + 1 if b.values[indices].numel() else 1
    if rows > 50:
        return None
    table = b.given(b.array((rows, 3), "float32"))
    return b.add(lambda: tensor.GatherRowsOp(table, indices))


def one_hot(b: Builder) -> Operation | None:
    indices = b.pick(is_integer)
    like = b.pick(lambda v: not is_trit(v))
    if indices is None or like is None:
        return None
    on, off, depth = b.like(like, ()), b.like(like, ()), b.random.choice([1, 3, 5])
    axis = b.random.randrange(-rank(indices) - 1, rank(indices) + 1)
    return b.add(lambda: tensor.OneHotOp(indices, on, off, depth, axis))


def padding(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_number(v) and rank(v) >= 1)
    if x is None:
        return None
    low, high = ([0, *b.each(rank(x) - 1, 0, 1, 2)] for _ in range(2))
    value = float(b.random.choice([0, 0, 1, -2]))
    return b.add(lambda: tensor.PadToOp(x, low, high, value))


def permuting(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 2)
    if x is None:
        return None
    perm = list(range(rank(x)))
    b.random.shuffle(perm)
    return b.add(lambda: tensor.PermuteOp(x, perm))


def reshaping(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    shape = tensor_type(x).get_shape()
    rest = int(np.prod(b.dims(x)[1:]))
    if DYNAMIC in shape[1:]:
        return None
    first = b.random.choice([n for n in range(1, rest + 1) if rest % n == 0] or [0])
    if not first:
        return None
    targets = [[-2, first, rest // first], [-2, -1], [-1, first], [-2, 1, first, -1]]
    if DYNAMIC not in shape:
        targets += [[b.dims(x)[0] * rest], [first, -1]]
    return b.add(lambda: tensor.ReshapeToOp(x, b.random.choice(targets)))


def slicing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) >= 1)
    if x is None:
        return None
    shape = tensor_type(x).get_shape()
    starts, ends, steps = [], [], []
    for n in shape:
        low, high = (0, 0) if n == DYNAMIC else (-n, n)
        starts.append(b.random.randint(low, max(low, high - 1)))
        ends.append(b.random.choice([2**63 - 1, 2**63 - 1, b.random.randint(low, high)]))
        steps.append(b.random.choice([1, 1, 2, 3]))
        if n == DYNAMIC:
            ends[-1], steps[-1] = 2**63 - 1, 1
    op = b.add(lambda: tensor.SliceOp(x, starts, ends, steps))
    if op is not None and 0 in b.dims(op.results[0]):
        del b.values[op.results[0]]  # values without elements end many programs
        op.detach()
        op.erase()
        return None
    return op


def squeezing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: 1 in tensor_type(v).get_shape())
    if x is None:
        return None
    ones = [a for a, n in enumerate(tensor_type(x).get_shape()) if n == 1]
    axes = b.random.sample(ones, b.random.randint(1, len(ones)))
    axes = [a - rank(x) if b.random.random() < 0.4 else a for a in axes]
    return b.add(lambda: tensor.SqueezeOp(x, axes))


def unsqueezing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: rank(v) <= 4)
    if x is None:
        return None
    count = b.random.choice([1, 1, 2])
    axes = b.random.sample(range(rank(x) + count), count)
    return b.add(lambda: tensor.UnsqueezeOp(x, axes))


def trits(b: Builder, shape: Sequence[int]) -> SSAValue:
    """A new parameter of trits."""
    return b.given(b.array(shape, "trit"), TritType())


def ternary_input(v: SSAValue) -> bool:
    """Whether a product with trits takes it."""
    return is_trit(v) or is_float(v) or numpy_dtype(tensor_type(v).element_type).kind == "i"


def summed(v: SSAValue) -> str:
    """The type of sums of trits times integers."""
    return "int64" if numpy_dtype(tensor_type(v).element_type) == np.int64 else "int32"


def ternary_matmul(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    scale = None
    if is_float(x) and b.random.random() < 0.4:
        scale = b.like(x, b.random.choice([(), (wide,)]))
    return b.add(lambda: ternary.MatmulOp(x, trits(b, (b.dims(x)[-1], wide)), scale))


def optional_steps(b: Builder, x: SSAValue, channels: int) -> dict[str, Any]:
    """Random steps after a product, as `FusedOp` takes them."""
    options: dict[str, Any] = {}
    if is_float(x):
        if b.random.random() < 0.5:
            options["scale"] = b.like(x, b.random.choice([(), (channels,)]))
        if b.random.random() < 0.5:
            options["bias"] = b.like(x, (channels,))
        options["activation"] = b.random.choice(["none", "relu", "relu6"])
        if b.random.random() < 0.2:
            dtype = numpy_dtype(tensor_type(x).element_type)
            options["thresholds"] = steps_of(b, x, channels, dtype)
        return options
    if b.random.random() < 0.5:
        options["bias"] = b.given(b.array((channels,), summed(x)))
    options["activation"] = b.random.choice(["none", "relu"])
    after = b.random.random()
    if after < 0.25:
        options["thresholds"] = steps_of(b, x, channels, np.dtype(summed(x)))
    elif after < 0.6 and summed(x) == "int32":
        names = ("multiplier", "shift", "zero_point", "low", "high")
        options |= dict(zip(names, rescaling(b, channels), strict=True))
    return options


def ternary_linear(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and rank(v) >= 1)
    if x is None:
        return None
    wide = b.random.choice(b.sizes)
    weight = trits(b, (b.dims(x)[-1], wide))
    return b.add(lambda: ternary.LinearOp(x, weight, **optional_steps(b, x, wide)))


def ternary_convolution(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_image(v) and ternary_input(v))
    if x is None:
        return None
    channels = b.dims(x)[1]
    groups = b.random.choice([1, 1, channels])
    out = groups * b.random.choice([1, 2])
    kernel = b.each(rank(x) - 2, 1, 2, 3)
    weight = trits(b, (out, channels // groups, *kernel))
    options = {**optional_steps(b, x, out), **window(b, x, kernel)}
    return b.add(lambda: ternary.ConvOp(x, weight, groups=groups, **options))


def ternarising(b: Builder) -> Operation | None:
    x = b.pick(is_float)
    if x is None:
        return None
    rule = b.random.choice(["fixed", "fixed", "twn", "absmean"])
    threshold = b.random.choice([0.0, 0.5, 0.3]) if rule == "fixed" else None
    scale = b.random.choice(["none", "tensor", "channel"] if rank(x) else ["none", "tensor"])
    axis = b.random.randrange(-rank(x), rank(x)) if rank(x) else -1
    return b.add(
        lambda: ternary.TernarizeOp(x, rule=rule, threshold=threshold, scale=scale, axis=axis)
    )


def packing(b: Builder) -> Operation | None:
    x = b.pick(lambda v: is_trit(v) and DYNAMIC not in tensor_type(v).get_shape())
    if x is None:
        return None
    packed = b.add(lambda: ternary.PackOp(x))
    if packed is None or b.random.random() < 0.3:
        return packed
    return b.add(lambda: ternary.UnpackOp(packed.results[0], b.dims(x)))


def trits_as_floats(b: Builder) -> Operation | None:
    x = b.pick(is_trit)
    if x is None:
        return None
    axis = b.random.randrange(rank(x)) if rank(x) else -1
    scale = None if b.random.random() < 0.4 else scale_of(b, x, axis if rank(x) else 1)
    return b.add(lambda: ternary.DequantizeOp(x, scale, axis=axis))


def adder_graph(b: Builder) -> Operation | None:
    x = b.pick(lambda v: ternary_input(v) and not is_trit(v) and rank(v) >= 1)
    if x is None:
        return None
    inputs = b.dims(x)[-1]
    if not inputs:
        return None
    nodes: list[tuple[int, int, int, int]] = []
    for index in range(b.random.choice([0, 1, 3, 6])):
        first, second = (b.random.randrange(inputs + index) for _ in range(2))
        nodes.append((first, second, b.random.choice([1, -1]), b.random.choice([0, 0, 0, 1])))
    outputs = [
        (b.random.randrange(inputs + len(nodes)), b.random.choice([1, -1, 0]))
        for _ in range(b.random.choice(b.sizes))
    ]
    return b.add(lambda: ternary.AdderGraphOp(x, inputs, nodes, outputs))


_UNARY = [
    op for op in tensor.Tensor.operations if issubclass(op, UnaryOp)
]  # what a new element-wise op needs is its meaning
_ARITHMETIC = [op for op in tensor.Tensor.operations if issubclass(op, ArithmeticOp)]
_REDUCTIONS = [op for op in tensor.Tensor.operations if issubclass(op, ReduceOp)]

MADE: dict[type[Operation], Maker] = {
    **{kind: unary(kind) for kind in _UNARY},
    **{kind: arithmetic(kind) for kind in _ARITHMETIC},
    **{kind: reduction(kind) for kind in _REDUCTIONS},
    **{kind: predicate(kind) for kind in (tensor.IsInfOp, tensor.IsNanOp)},
    tensor.PreluOp: prelu,
    **{
        kind: logic(kind, lambda v: is_truth(v) or is_integer(v))
        for kind in (tensor.AndOp, tensor.OrOp, tensor.XorOp)
    },
    **{kind: logic(kind, is_integer) for kind in (tensor.ShiftLeftOp, tensor.ShiftRightOp)},
    **{kind: logic(kind, is_float) for kind in (tensor.Atan2Op, tensor.HypotOp)},
    **dict.fromkeys((tensor.CumprodOp, tensor.CumsumOp, tensor.TopKOp), ordering),
    **dict.fromkeys((tensor.GatherElementsOp, tensor.ScatterElementsOp), by_index),
    tensor.ArgminOp: argmax,
    tensor.ArgmaxOp: argmax,
    tensor.AvgPoolOp: pooling,
    tensor.BatchNormOp: batch_norm,
    tensor.CompareOp: comparison,
    tensor.ConcatenateOp: joining,
    tensor.ConvertOp: conversion,
    tensor.ConvOp: convolution,
    tensor.DequantizeOp: dequantise,
    tensor.EinsumOp: einsum,
    tensor.ExpandOp: expanding,
    tensor.FlattenOp: flattening,
    tensor.UnflattenOp: unflattening,
    tensor.GatherRowsOp: gathering,
    tensor.GlobalAvgPoolOp: pooling,
    tensor.LayerNormOp: norm,
    tensor.LinearOp: linear,
    tensor.LogSoftmaxOp: soft(tensor.LogSoftmaxOp),
    tensor.MatmulOp: matmul,
    tensor.MaxPoolOp: pooling,
    tensor.MultiThresholdOp: thresholds,
    tensor.OneHotOp: one_hot,
    tensor.PadToOp: padding,
    tensor.PermuteOp: permuting,
    tensor.PowOp: powers,
    tensor.QuantizeOp: quantise,
    tensor.RequantizeOp: requantise,
    tensor.SoftmaxOp: soft(tensor.SoftmaxOp),
    tensor.ReshapeToOp: reshaping,
    tensor.RmsNormOp: norm,
    tensor.ScaledDotProductAttentionOp: attention,
    tensor.SliceOp: slicing,
    tensor.SplitOp: splitting,
    tensor.SqueezeOp: squeezing,
    tensor.UnsqueezeOp: unsqueezing,
    tensor.WhereOp: choice,
    ternary.AdderGraphOp: adder_graph,
    ternary.ConvOp: ternary_convolution,
    ternary.DequantizeOp: trits_as_floats,
    ternary.LinearOp: ternary_linear,
    ternary.MatmulOp: ternary_matmul,
    ternary.PackOp: packing,
    ternary.TernarizeOp: ternarising,
    ternary.UnpackOp: packing,
}
"""What makes each op; parameters and constants come with the others."""

MAKERS = [*MADE.values(), *[ternary_linear, ternary_convolution, linear, convolution] * 3]


def generate(seed: int) -> Case:
    """The module of a seed."""
    steps = random.Random(seed).choice([1, 2, 2, 3, 4, 6, 10])
    return Builder(seed).build(seed, steps, MAKERS)
