"""What the ops of integer programs compute, from docs/dialects.md and the docstrings of the ops.

Written a second time on purpose, element by element over an `Algebra`, and without
`dialects/*/interpret*`: a proof that used the reference interpreter would repeat its faults.
Tensors are NumPy arrays of elements. Ops that no proof needs are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.parameters import constant_value
from triton_dsl.passes.analysis.compile_time import has_value, is_literal

from .algebra import BOOL, I64, Algebra, DType, Element

Elements = NDArray[Any]

I8, I32, F32 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.float32)


@dataclass(frozen=True)
class Value:
    """A tensor or train: its element type, and its elements, an array of objects."""

    dtype: DType
    elements: Elements

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape


def dtype_of(type: Attribute) -> DType:
    """The NumPy type of the elements of a tensor or train; trits are held in i8."""
    if isinstance(type, spike.TrainType):
        return BOOL
    assert isinstance(type, TensorType)
    element: Any = type.element_type
    if isinstance(element, ternary.TritType):
        return I8
    if isinstance(element, Float32Type | Float64Type):
        return np.dtype(np.float32 if isinstance(element, Float32Type) else np.float64)
    assert isinstance(element, IntegerType)
    if element.width.data == 1:
        return BOOL
    sign = "u" if element.signedness.data == Signedness.UNSIGNED else "i"
    return np.dtype(f"{sign}{element.width.data // 8}")


def filled(shape: Sequence[int], of: Callable[[tuple[int, ...]], Element]) -> Elements:
    """An array of objects by index. NumPy would take apart elements that are arrays."""
    result = np.empty(tuple(shape), object)
    for index in np.ndindex(*result.shape):
        result[index] = of(index)
    return result


class Meaning:
    """Evaluates functions over an algebra.

    Attributes:
        algebra: of the elements.
        parameters: what parameters without values are, by key.
    """

    def __init__(self, algebra: Algebra, parameters: Mapping[str, Value] | None = None) -> None:
        self.algebra = algebra
        self.parameters = dict(parameters or {})

    def run(self, module: ModuleOp, arguments: Sequence[Value]) -> list[Value]:
        """The results of the only function of a module."""
        (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        known: dict[SSAValue, Value] = dict(zip(function.args, arguments, strict=True))
        for op in function.body.block.ops:
            if isinstance(op, ReturnOp):
                return [known[value] for value in op.operands]
            for result, value in zip(op.results, self.of(op, known), strict=True):
                known[result] = value
        raise AssertionError("a function without return")

    def of(self, op: Operation, known: Mapping[SSAValue, Value]) -> Sequence[Value]:
        """The results of one op."""
        if is_literal(op):
            return [self._literal(op)]
        rule = RULES.get(op.name)
        if rule is None:
            raise NotImplementedError(f"no meaning is written down for '{op.name}'")
        results = rule(self, op, *(known[value] for value in op.operands))
        found = [results] if isinstance(results, Value) else results
        for value, result in zip(found, op.results, strict=True):
            declared: Any = result.type
            sizes = zip(value.shape, declared.get_shape(), strict=True)
            assert all(size < 0 or size == own for own, size in sizes), op
            assert value.dtype == dtype_of(result.type), op
        return found

    def _literal(self, op: Any) -> Value:
        dtype = dtype_of(op.result.type)
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp) and not has_value(op):
            return self.parameters[op.key.data]
        array = constant_value(op)
        assert array is not None
        return self.known(array, dtype)

    def known(self, array: NDArray[Any], dtype: DType) -> Value:
        """A tensor of known numbers."""
        literal = self.algebra.literal
        return Value(dtype, filled(array.shape, lambda i: literal(array[i], dtype)))

    # Arithmetic on whole tensors.

    def each(self, f: Callable[..., Element], dtype: DType, *values: Value) -> Value:
        """f of the elements, broadcast."""
        shape = np.broadcast_shapes(*(v.shape for v in values))
        spread = [np.broadcast_to(v.elements, shape) for v in values]
        return Value(dtype, filled(shape, lambda i: f(*(e[i] for e in spread))))

    def scalar(self, number: float, dtype: DType) -> Value:
        """One known number."""
        return self.known(np.array(number), dtype)

    def binary(self, what: str, a: Value, b: Value) -> Value:
        """An arithmetic op on two tensors of a type."""
        assert a.dtype == b.dtype
        return self.each(lambda x, y: self.algebra.binary(what, x, y, a.dtype), a.dtype, a, b)

    def convert(self, a: Value, dtype: DType) -> Value:
        """`tensor.convert`."""
        return self.each(lambda x: self.algebra.convert(x, a.dtype, dtype), dtype, a)

    def clamp(self, a: Value, low: float | None, high: float | None) -> Value:
        """min(max(x, low), high)."""
        algebra, dtype = self.algebra, a.dtype

        def one(x: Element) -> Element:
            if low is not None:
                x = algebra.maximum(x, algebra.literal(low, dtype), dtype)
            return x if high is None else algebra.minimum(x, algebra.literal(high, dtype), dtype)

        return self.each(one, dtype, a)

    def total(self, elements: Sequence[Element], dtype: DType) -> Element:
        """The sum, from left to right."""
        add = self.algebra.binary
        zero = self.algebra.literal(0, dtype)
        return (
            reduce(lambda x, y: add("add", x, y, dtype), elements[1:], elements[0])
            if len(elements)
            else zero
        )

    def along(self, values: Value, axis: int, rank: int) -> Value:
        """One number, or one for each position on an axis, so that it broadcasts."""
        if not values.shape:
            return values
        return Value(values.dtype, values.elements.reshape(-1, *[1] * (rank - 1 - axis % rank)))


Rule = Callable[..., "Value | Sequence[Value]"]


def _arithmetic(what: str) -> Rule:
    return lambda m, op, a, b: m.binary(what, a, b)


def _choice(what: str) -> Rule:
    def rule(m: Meaning, op: Any, a: Value, b: Value) -> Value:
        choose = m.algebra.maximum if what == "max" else m.algebra.minimum
        return m.each(lambda x, y: choose(x, y, a.dtype), a.dtype, a, b)

    return rule


def _compare(m: Meaning, op: Any, a: Value, b: Value) -> Value:
    what = op.predicate.data
    return m.each(lambda x, y: m.algebra.compare(what, x, y, a.dtype), BOOL, a, b)


def _where(m: Meaning, op: Any, condition: Value, a: Value, b: Value) -> Value:
    return m.each(m.algebra.where, a.dtype, condition, a, b)


def _neg(m: Meaning, op: Any, a: Value) -> Value:
    return m.binary("sub", m.scalar(-0.0 if a.dtype.kind == "f" else 0, a.dtype), a)


def _abs(m: Meaning, op: Any, a: Value) -> Value:
    negative = _compare_with(m, "lt", a, 0)
    return m.each(m.algebra.where, a.dtype, negative, _neg(m, op, a), a)


def _compare_with(m: Meaning, what: str, a: Value, number: float) -> Value:
    other = m.algebra.literal(number, a.dtype)
    return m.each(lambda x: m.algebra.compare(what, x, other, a.dtype), BOOL, a)


def _sign(m: Meaning, op: Any, a: Value) -> Value:
    one, zero, minus = (m.scalar(n, a.dtype) for n in (1, 0, -1))
    below = m.each(m.algebra.where, a.dtype, _compare_with(m, "lt", a, 0), minus, zero)
    return m.each(m.algebra.where, a.dtype, _compare_with(m, "gt", a, 0), one, below)


def _clamp(m: Meaning, op: Any, a: Value) -> Value:
    bounds = [None if b is None else b.value.data for b in (op.min, op.max)]
    info: Any = np.iinfo(a.dtype) if a.dtype.kind != "f" else None

    def held(bound: float | None) -> float | None:
        # A bound beyond the type does not limit, or limits to its end.
        return bound if bound is None or info is None else min(max(bound, info.min), info.max)

    return m.clamp(a, held(bounds[0]), held(bounds[1]))


# Shapes: what is where, and no arithmetic.


def _moved(change: Callable[[Any, Elements], Elements]) -> Rule:
    return lambda m, op, a: Value(a.dtype, change(op, a.elements))


def _reshape(op: Any, a: Elements) -> Elements:
    sizes = [a.shape[-2 - size] if size <= -2 else size for size in op.shape.get_values()]
    return a.reshape(sizes)


def _flatten(op: Any, a: Elements) -> Elements:
    start, end = (p.value.data % a.ndim for p in (op.start, op.end))
    merged = int(np.prod(a.shape[start : end + 1]))
    return a.reshape(*a.shape[:start], merged, *a.shape[end + 1 :])


def _slice(op: Any, a: Elements) -> Elements:
    bounds = zip(*(p.get_values() for p in (op.starts, op.ends, op.steps)), strict=True)
    return a[(*(slice(*each) for each in bounds), ...)]


def _unsqueeze(op: Any, a: Elements) -> Elements:
    axes = op.axes.get_values()
    rank = a.ndim + len(axes)
    return np.expand_dims(a, tuple(axis % rank for axis in axes))


def _expand(op: Any, a: Elements) -> Elements:
    sizes = op.shape.get_values()
    lead = len(sizes) - a.ndim
    shape = [a.shape[i - lead] if size == -1 else size for i, size in enumerate(sizes)]
    return np.broadcast_to(a, shape)


def _pad(m: Meaning, op: Any, a: Value) -> Value:
    pads = list(zip(op.low.get_values(), op.high.get_values(), strict=True))
    return _padded(m, a, pads, m.algebra.literal(op.value.value.data, a.dtype))


def _padded(m: Meaning, a: Value, pads: Sequence[tuple[int, int]], value: Element) -> Value:
    inside = [range(low, low + size) for (low, _), size in zip(pads, a.shape, strict=True)]
    shape = [low + size + high for (low, high), size in zip(pads, a.shape, strict=True)]

    def at(index: tuple[int, ...]) -> Element:
        if not all(i in axis for i, axis in zip(index, inside, strict=True)):
            return value
        return a.elements[tuple(i - axis.start for i, axis in zip(index, inside, strict=True))]

    return Value(a.dtype, filled(shape, at))


def _concatenate(m: Meaning, op: Any, *parts: Value) -> Value:
    return Value(parts[0].dtype, np.concatenate([p.elements for p in parts], op.axis.value.data))


def _split(m: Meaning, op: Any, a: Value) -> list[Value]:
    ends = np.cumsum(op.sizes.get_values())[:-1]
    return [Value(a.dtype, e) for e in np.split(a.elements, ends, op.axis.value.data)]


# Reductions and windows.


def _reduced(m: Meaning, op: Any, a: Value, f: Callable[[list[Element]], Element]) -> Value:
    axes = tuple(axis % len(a.shape) for axis in op.axes.get_values())
    shape = [1 if i in axes else size for i, size in enumerate(a.shape)]

    def at(index: tuple[int, ...]) -> Element:
        ranges = [range(a.shape[i]) if i in axes else [index[i]] for i in range(len(a.shape))]
        return f([a.elements[place] for place in product(*ranges)])

    result = filled(shape, at)
    if not op.keepdims.value.data:
        result = result.reshape([size for i, size in enumerate(a.shape) if i not in axes])
    return Value(a.dtype, result)


def _reduce_sum(m: Meaning, op: Any, a: Value) -> Value:
    return _reduced(m, op, a, lambda e: m.total(e, a.dtype))


def _reduce_mean(m: Meaning, op: Any, a: Value) -> Value:
    return _reduced(m, op, a, lambda e: _mean(m, e, len(e), a.dtype))


def _mean(m: Meaning, elements: list[Element], count: int, dtype: DType) -> Element:
    return m.algebra.binary("div", m.total(elements, dtype), m.algebra.literal(count, dtype), dtype)


def _extreme(choose: str) -> Rule:
    def rule(m: Meaning, op: Any, a: Value) -> Value:
        pick = m.algebra.maximum if choose == "max" else m.algebra.minimum
        return _reduced(m, op, a, lambda e: reduce(lambda x, y: pick(x, y, a.dtype), e))

    return rule


def _argmax(m: Meaning, op: Any, a: Value) -> Value:
    axis = op.axis.value.data % len(a.shape)
    moved = np.moveaxis(a.elements, axis, -1)

    def at(index: tuple[int, ...]) -> Element:
        row = moved[index]
        best, place = row[0], m.algebra.literal(0, I64)
        for i in range(1, len(row)):
            larger = m.algebra.compare("gt", row[i], best, a.dtype)
            place = m.algebra.where(larger, m.algebra.literal(i, I64), place)
            best = m.algebra.where(larger, row[i], best)
        return place

    result = filled(moved.shape[:-1], at)
    return Value(I64, np.expand_dims(result, axis) if op.keepdims.value.data else result)


def _windows(op: Any, a: Value, kernel: Sequence[int], dilation: Sequence[int], first: int) -> Any:
    """For each place of a result the places in the spatial axes, pads (`None`) among them."""
    spatial = len(kernel)
    strides, padding = op.strides.get_values(), op.padding.get_values()
    sizes = a.shape[first:]
    counts = [
        (sizes[i] + padding[i] + padding[spatial + i] - dilation[i] * (kernel[i] - 1) - 1)
        // strides[i] + 1
        for i in range(spatial)
    ]  # fmt: skip

    def places(at: Sequence[int]) -> list[tuple[int, ...] | None]:
        found: list[tuple[int, ...] | None] = []
        for tap in np.ndindex(*kernel):
            place = tuple(
                at[i] * strides[i] + tap[i] * dilation[i] - padding[i] for i in range(spatial)
            )
            inside = all(0 <= p < size for p, size in zip(place, sizes, strict=True))
            found.append(place if inside else None)
        return found

    return counts, places


def _pooled(m: Meaning, op: Any, a: Value, first: int, f: Callable[[Any], Element]) -> Elements:
    kernel = op.kernel.get_values()
    counts, places = _windows(op, a, kernel, [1] * len(kernel), first)

    def at(index: tuple[int, ...]) -> Element:
        head, place = index[:first], index[first:]
        return f([None if p is None else a.elements[(*head, *p)] for p in places(place)])

    return filled((*a.shape[:first], *counts), at)


def _max_pool(m: Meaning, op: Any, a: Value) -> Value:
    def largest(window: list[Any]) -> Element:
        held = [e for e in window if e is not None]
        return reduce(lambda x, y: m.algebra.maximum(x, y, a.dtype), held)

    return Value(a.dtype, _pooled(m, op, a, 2, largest))


def _avg_pool(m: Meaning, op: Any, a: Value) -> Value:
    def mean(window: list[Any]) -> Element:
        held = [e for e in window if e is not None]
        count = len(window) if op.count_include_pad.value.data else len(held)
        return _mean(m, held, count, a.dtype)

    return Value(a.dtype, _pooled(m, op, a, 2, mean))


def _global_avg_pool(m: Meaning, op: Any, a: Value) -> Value:
    def at(index: tuple[int, ...]) -> Element:
        elements = list(a.elements[index[:2]].reshape(-1))
        return _mean(m, elements, len(elements), a.dtype)

    return Value(a.dtype, filled((*a.shape[:2], *[1] * (len(a.shape) - 2)), at))


# Products.


def _matrix_product(m: Meaning, a: Value, w: Value, dtype: DType) -> Value:
    """x · W for W [in, out], or NumPy's `matmul` of stacks of matrices."""
    x, y = m.convert(a, dtype).elements, m.convert(w, dtype).elements
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    y = np.broadcast_to(y, (*batch, *y.shape[-2:]))
    times = m.algebra.binary

    def at(index: tuple[int, ...]) -> Element:
        *head, row, column = index
        left, right = x[(*head, row)], y[(*head, slice(None), column)]
        pairs = zip(left, right, strict=True)
        return m.total([times("mul", p, q, dtype) for p, q in pairs], dtype)

    return Value(dtype, filled((*batch, x.shape[-2], y.shape[-1]), at))


def _convolution(m: Meaning, op: Any, a: Value, w: Value, dtype: DType) -> Value:
    """Σ x·W over channels of a group and window places; pads are zeros. Images [N, C, …]."""
    a, w = m.convert(a, dtype), m.convert(w, dtype)
    groups, kernel = op.groups.value.data, w.shape[2:]
    counts, places = _windows(op, a, kernel, op.dilation.get_values(), 2)
    width, share = w.shape[1], w.shape[0] // groups
    times = m.algebra.binary

    def at(index: tuple[int, ...]) -> Element:
        image, channel, *place = index
        first = channel // share * width
        found = places(place)
        terms = [
            times("mul", a.elements[(image, first + c, *p)], w.elements[(channel, c, *tap)], dtype)
            for c in range(width)
            for tap, p in zip(np.ndindex(*kernel), found, strict=True)
            if p is not None
        ]
        return m.total(terms, dtype)

    return Value(dtype, filled((a.shape[0], w.shape[0], *counts), at))


def _linear(m: Meaning, op: Any, a: Value, w: Value, *bias: Value) -> Value:
    result = _matrix_product(m, a, w, a.dtype)
    return m.binary("add", result, bias[0]) if bias else result


def _matmul(m: Meaning, op: Any, a: Value, b: Value) -> Value:
    return _matrix_product(m, a, b, a.dtype)


def _conv(m: Meaning, op: Any, a: Value, w: Value, *bias: Value) -> Value:
    result = _convolution(m, op, a, w, a.dtype)
    return m.binary("add", result, m.along(bias[0], 1, len(result.shape))) if bias else result


def _accumulator(a: Value) -> DType:
    """Of products with trits: i64 for i64, ui32 and ui64, i32 for other integers and trits."""
    if a.dtype.kind == "f":
        return a.dtype
    return I64 if a.dtype.name in ("int64", "uint32", "uint64") else I32


def _ternary_matmul(m: Meaning, op: Any, a: Value, w: Value, *scale: Value) -> Value:
    result = _matrix_product(m, a, w, _accumulator(a))
    return m.binary("mul", result, scale[0]) if scale else result


def _fused(m: Meaning, op: Any, *operands: Value) -> Value:
    """`ternary.linear` and `ternary.conv`: product, scale, bias, activation, quantisation."""
    given = dict(zip(op.operands, operands, strict=True))
    a, w = given[op.input], given[op.weight]
    conv = isinstance(op, ternary.ConvOp)
    product_of = _convolution(m, op, a, w, _accumulator(a)) if conv else None
    result = _matrix_product(m, a, w, _accumulator(a)) if product_of is None else product_of
    rank, axis = len(result.shape), 1 if conv else len(result.shape) - 1
    if op.scale is not None:
        result = m.binary("mul", result, m.along(given[op.scale], axis, rank))
    if op.bias is not None:
        result = m.binary("add", result, m.along(given[op.bias], axis, rank))
    if op.activation.data != "none":
        result = m.clamp(result, 0, 6 if op.activation.data == "relu6" else None)
    if op.thresholds is not None:
        return _counted(m, result, given[op.thresholds], axis)
    if op.multiplier is None:
        return result
    return _rescaled(
        m, result, given[op.multiplier], given[op.shift], given[op.zero_point],
        axis, op.low.value.data, op.high.value.data,
    )  # fmt: skip


# Quantisation.


def _quantize(m: Meaning, op: Any, a: Value, scale: Value, zero: Value) -> Value:
    rank, axis = len(a.shape), op.axis.value.data
    steps = m.binary("div", a, m.along(scale, axis, rank))
    steps = m.each(lambda x: m.algebra.rounded(x, F32), F32, steps)
    shifted = m.binary("add", steps, m.convert(m.along(zero, axis, rank), F32))
    held = m.clamp(shifted, op.low.value.data, op.high.value.data)
    return m.convert(held, zero.dtype)


def _dequantize(m: Meaning, op: Any, a: Value, scale: Value, zero: Value) -> Value:
    rank, axis = len(a.shape), op.axis.value.data
    wide, point = m.convert(a, I64), m.convert(m.along(zero, axis, rank), I64)
    real = m.convert(m.binary("sub", wide, point), F32)
    return m.binary("mul", real, m.along(scale, axis, rank))


def _rescaled(
    m: Meaning, a: Value, multiplier: Value, shift: Value, zero: Value,
    axis: int, low: int, high: int,
) -> Value:  # fmt: skip
    """clamp(⌊(x·multiplier + 2^(shift-1)) / 2^shift⌋ + zero, low, high), in i64."""
    rank, one = len(a.shape), m.scalar(1, I64)
    by = m.convert(m.along(shift, axis, rank), I64)
    scaled = m.binary("mul", m.convert(a, I64), m.convert(m.along(multiplier, axis, rank), I64))
    half = m.each(m.algebra.power_of_two, I64, m.binary("sub", by, one))
    floored = m.each(m.algebra.shift_right, I64, m.binary("add", scaled, half), by)
    shifted = m.binary("add", floored, m.convert(zero, I64))
    return m.convert(m.clamp(shifted, low, high), zero.dtype)


def _requantize(m: Meaning, op: Any, a: Value, by: Value, shift: Value, zero: Value) -> Value:
    bounds = op.low.value.data, op.high.value.data
    return _rescaled(m, a, by, shift, zero, op.axis.value.data, *bounds)


def _counted(m: Meaning, a: Value, thresholds: Value, axis: int) -> Value:
    """The number of thresholds [C, K] or [1, K] that are at most x."""
    rank, count = len(a.shape), thresholds.shape[1]
    dtype = I8 if count <= 127 else I32
    total = m.scalar(0, dtype)
    for k in range(count):
        column = Value(thresholds.dtype, thresholds.elements[:, k])
        reached = m.each(
            lambda t, x: m.algebra.compare("le", t, x, a.dtype),
            BOOL,
            m.along(column, axis, rank),
            a,
        )
        total = m.binary("add", total, m.convert(reached, dtype))
    return m.each(lambda x: x, dtype, m.binary("add", total, _zeros(m, a.shape, dtype)))


def _zeros(m: Meaning, shape: Sequence[int], dtype: DType) -> Value:
    return m.known(np.zeros(shape), dtype)


def _multi_threshold(m: Meaning, op: Any, a: Value, thresholds: Value) -> Value:
    return _counted(m, a, thresholds, op.axis.value.data)


def _batch_norm(m: Meaning, op: Any, a: Value, *vectors: Value) -> Value:
    names = dict(zip(op.operands[1:], (m.along(v, 1, len(a.shape)) for v in vectors), strict=True))
    epsilon = m.scalar(op.epsilon.value.data, a.dtype)
    spread = m.binary("add", names[op.variance], epsilon)
    root = m.each(lambda x: m.algebra.root(x, a.dtype), a.dtype, spread)
    centred = m.binary("div", m.binary("sub", a, names[op.mean]), root)
    return m.binary("add", m.binary("mul", centred, names[op.scale]), names[op.bias])


# Spikes.


def _delay(m: Meaning, op: Any, a: Value) -> list[Value]:
    """y[t] = x[t - d], zeros before; without `delays` and `initial`."""
    steps = op.steps.value.data
    pads = [(steps, 0), *[(0, 0)] * (len(a.shape) - 1)]
    whole = _padded(m, a, pads, m.algebra.literal(0, a.dtype)).elements
    late = [Value(a.dtype, whole[: a.shape[0]])]
    return late if op.final is None else [*late, Value(a.dtype, whole[a.shape[0] :])]


def _encode(m: Meaning, op: Any, a: Value) -> Value:
    assert op.scheme.data == "direct"
    shape = (op.timesteps.value.data, *a.shape)
    return Value(a.dtype, np.broadcast_to(a.elements, shape))


def _decode(m: Meaning, op: Any, a: Value) -> Value:
    """`rate`: spikes / T in f32; `membrane`: the last step or the largest."""
    steps = a.shape[0]
    if op.scheme.data == "rate":
        counted = m.convert(a, F32).elements

        def rate(index: tuple[int, ...]) -> Element:
            return _mean(m, [counted[(t, *index)] for t in range(steps)], steps, F32)

        return Value(F32, filled(a.shape[1:], rate))
    if op.readout.data == "last":
        return Value(a.dtype, a.elements[-1])
    assert op.readout.data == "max"

    def largest(index: tuple[int, ...]) -> Element:
        trace = [a.elements[(t, *index)] for t in range(steps)]
        return reduce(lambda x, y: m.algebra.maximum(x, y, a.dtype), trace)

    return Value(a.dtype, filled(a.shape[1:], largest))


def _spike_pool(m: Meaning, op: Any, a: Value) -> Value:
    """A spike wherever the window has one."""
    no, yes = m.algebra.literal(False, BOOL), m.algebra.literal(True, BOOL)

    def any_of(window: list[Any]) -> Element:
        held = [e for e in window if e is not None]
        return reduce(lambda x, y: m.algebra.where(x, yes, y), held, no)

    return Value(BOOL, _pooled(m, op, a, 3, any_of))


RULES: dict[str, Rule] = {
    "tensor.add": _arithmetic("add"),
    "tensor.sub": _arithmetic("sub"),
    "tensor.mul": _arithmetic("mul"),
    "tensor.div": _arithmetic("div"),
    "tensor.maximum": _choice("max"),
    "tensor.minimum": _choice("min"),
    "tensor.compare": _compare,
    "tensor.where": _where,
    "tensor.neg": _neg,
    "tensor.not": lambda m, op, a: m.each(m.algebra.negated, BOOL, a),
    "tensor.abs": _abs,
    "tensor.sign": _sign,
    "tensor.round": lambda m, op, a: m.each(lambda x: m.algebra.rounded(x, a.dtype), a.dtype, a),
    "tensor.relu": lambda m, op, a: m.clamp(a, 0, None),
    "tensor.relu6": lambda m, op, a: m.clamp(a, 0, 6),
    "tensor.hard_tanh": lambda m, op, a: m.clamp(a, -1, 1),
    "tensor.clamp": _clamp,
    "tensor.convert": lambda m, op, a: m.convert(a, dtype_of(op.result.type)),
    "tensor.permute": _moved(lambda op, a: a.transpose(op.perm.get_values())),
    "tensor.reshape_to": _moved(_reshape),
    "tensor.flatten": _moved(_flatten),
    "tensor.slice": _moved(_slice),
    "tensor.squeeze": _moved(lambda op, a: np.squeeze(a, tuple(op.axes.get_values()))),
    "tensor.unsqueeze": _moved(_unsqueeze),
    "tensor.expand": _moved(_expand),
    "tensor.pad_to": _pad,
    "tensor.concatenate": _concatenate,
    "tensor.split": _split,
    "tensor.reduce_sum": _reduce_sum,
    "tensor.reduce_mean": _reduce_mean,
    "tensor.reduce_max": _extreme("max"),
    "tensor.reduce_min": _extreme("min"),
    "tensor.argmax": _argmax,
    "tensor.max_pool": _max_pool,
    "tensor.avg_pool": _avg_pool,
    "tensor.global_avg_pool": _global_avg_pool,
    "tensor.linear": _linear,
    "tensor.matmul": _matmul,
    "tensor.conv": _conv,
    "tensor.quantize": _quantize,
    "tensor.dequantize": _dequantize,
    "tensor.requantize": _requantize,
    "tensor.multi_threshold": _multi_threshold,
    "tensor.batch_norm": _batch_norm,
    "ternary.matmul": _ternary_matmul,
    "ternary.linear": _fused,
    "ternary.conv": _fused,
    "spike.to_tensor": lambda m, op, a: m.convert(a, dtype_of(op.result.type)),
    "spike.from_tensor": lambda m, op, a: m.convert(a, BOOL),
    "spike.delay": _delay,
    "spike.encode": _encode,
    "spike.decode": _decode,
    "spike.max_pool": _spike_pool,
}
"""The meaning of each op, by its name."""
