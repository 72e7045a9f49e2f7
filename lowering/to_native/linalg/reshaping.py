"""Row-major reshapes as `tensor.collapse_shape` and `tensor.expand_shape`.

Both only merge or cut axes that stand side by side. `reshape` finds the finest groups of axes with
equal products, collapses each to one axis, and expands that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import SSAValue

from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC, with_shape
from .linalg_builder import LinalgBuilder, Size, Step, element, static_shape
from .scalars import Number

Group = tuple[list[int], list[int]]
"""Positions of axes before and after that hold the same elements."""


def reshape(builder: LinalgBuilder, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
    """`value` in the shape `sizes`, of as many elements.

    Sizes known at run time alone agree where they are the same value (`LinalgBuilder.with_sizes`).
    """
    source = builder.sizes(value)
    groups = split_into_groups(source, sizes)
    if not source and sizes:
        return _wrapped(builder, value, len(sizes))
    if not sizes:
        ones = with_shape(tensor_type(value), [1] * len(source))
        return _collapse(builder, builder.cast_to(value, ones), [], []) if source else value
    if any(_count_free(sizes[axis] for axis in after) > 1 for _, after in groups):
        return _reshape_freely(builder, value, sizes)
    joined = [_product_or_dynamic([sizes[axis] for axis in after]) for _, after in groups]
    merged = [_product_or_dynamic([source[axis] for axis in before]) for before, _ in groups]
    if len(groups) < len(source):
        value = builder.cast_to(value, with_shape(tensor_type(value), static_shape(source)))
        value = _collapse(builder, value, [before for before, _ in groups], merged)
    value = builder.cast_to(value, with_shape(tensor_type(value), joined))
    if len(groups) < len(sizes):
        value = _expand(builder, value, [after for _, after in groups], sizes)
    return builder.with_sizes(value, sizes)


def reduce(
    builder: LinalgBuilder,
    value: SSAValue,
    axes: Sequence[int],
    step: Step,
    start: Number,
    *,
    keepdims: bool,
) -> SSAValue:
    """`LinalgBuilder.reduce`; with `keepdims` the axes stay, of size 1."""
    result = builder.reduce(value, axes, step, start)
    if not keepdims:
        return result
    sizes = builder.sizes(value)
    for axis in axes:
        sizes[axis] = 1
    return reshape(builder, result, sizes)


def split_into_groups(source: Sequence[Size], target: Sequence[Size]) -> list[Group]:
    """Match axes from both ends; what is left in the middle is one group.

    Every axis is in one group; a group lacks axes on one side only if that side has none at all.
    """
    front = _matches(source, target)
    used_source = sum(len(before) for before, _ in front)
    used_target = sum(len(after) for _, after in front)
    rest_source, rest_target = source[used_source:], target[used_target:]
    back = _matches(rest_source[::-1], rest_target[::-1])
    count_source, count_target = len(source), len(target)
    back = [
        ([count_source - 1 - a for a in before][::-1], [count_target - 1 - a for a in after][::-1])
        for before, after in back
    ][::-1]
    left_source = count_source - sum(len(before) for before, _ in back)
    left_target = count_target - sum(len(after) for _, after in back)
    middle = (list(range(used_source, left_source)), list(range(used_target, left_target)))
    groups = [*front, middle, *back]
    return _merge_one_sided(groups)


def _matches(source: Sequence[Size], target: Sequence[Size]) -> list[Group]:
    """Groups from the front on, each as small as can be, as far as they are known to agree."""
    groups: list[Group] = []
    done_source = done_target = 0
    while True:
        i, j = done_source, done_target
        while i < len(source) and j < len(target):
            before, after = source[done_source : i + 1], target[done_target : j + 1]
            if _same_product(before, after):
                groups.append((list(range(done_source, i + 1)), list(range(done_target, j + 1))))
                done_source, done_target = i + 1, j + 1
                break
            if _number(before) < _number(after) or not _covers(before, after):
                i += 1
            else:
                j += 1
        else:
            return groups


def _number(sizes: Sequence[Size]) -> int:
    result = 1
    for size in sizes:
        result *= size if isinstance(size, int) else 1
    return result


def _free(sizes: Sequence[Size]) -> Counter[SSAValue]:
    return Counter(size for size in sizes if isinstance(size, SSAValue))


def _covers(before: Sequence[Size], after: Sequence[Size]) -> bool:
    return _free(after) <= _free(before)


def _same_product(before: Sequence[Size], after: Sequence[Size]) -> bool:
    return _number(before) == _number(after) and _free(before) == _free(after)


def _merge_one_sided(groups: list[Group]) -> list[Group]:
    """Give axes that face none (of size 1, or beside a size 0) to the group next to them."""
    result: list[Group] = []
    pending: Group = ([], [])
    for before, after in groups:
        before, after = pending[0] + before, pending[1] + after
        pending = ([], [])
        if before and after:
            result.append((before, after))
        elif result:
            result[-1] = (result[-1][0] + before, result[-1][1] + after)
        else:
            pending = (before, after)
    if any(pending):
        result.append(pending)
    return result


def _count_free(sizes: Iterable[Size]) -> int:
    return sum(isinstance(size, SSAValue) for size in sizes)


def _wrapped(builder: LinalgBuilder, scalar: SSAValue, count: int) -> SSAValue:
    """A scalar with `count` axes of size 1. xDSL has no `expand_shape` of a scalar."""
    number = builder.insert(upstream.ExtractOp(scalar, [], element(scalar)))
    type = with_shape(tensor_type(scalar), [1] * count)
    return builder.insert(upstream.FromElementsOp(number, result_type=type))


def _reshape_freely(builder: LinalgBuilder, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
    """By `tensor.reshape`: `expand_shape` cuts an axis into one unknown size at most."""
    shape = builder.insert(upstream.FromElementsOp(*(builder.size_value(size) for size in sizes)))
    type = with_shape(tensor_type(value), static_shape(sizes))
    return builder.with_sizes(builder.insert(upstream.ReshapeOp(value, shape, type)), sizes)


def _product_or_dynamic(sizes: Sequence[Size]) -> int:
    return DYNAMIC if _count_free(sizes) else _number(sizes)


def _reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(axis, i64) for axis in group) for group in groups)


def _collapse(
    builder: LinalgBuilder, value: SSAValue, groups: Sequence[Sequence[int]], shape: Sequence[int]
) -> SSAValue:
    return builder.insert(
        upstream.CollapseShapeOp.build(
            operands=[value],
            properties={"reassociation": _reassociation(groups)},
            result_types=[with_shape(tensor_type(value), shape)],
        )
    )


def _expand(
    builder: LinalgBuilder, value: SSAValue, groups: Sequence[Sequence[int]], sizes: Sequence[Size]
) -> SSAValue:
    static = static_shape(sizes)
    return builder.insert(
        upstream.ExpandShapeOp(
            value,
            [size for size in sizes if isinstance(size, SSAValue)],
            _reassociation(groups),
            static,
            TensorType(element(value), static),
        )
    )
