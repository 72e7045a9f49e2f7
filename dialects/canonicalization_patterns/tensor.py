"""Canonicalisation patterns of the `tensor` dialect: identities that hold for every value."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from .. import traits
from ..inference import replace_with, tensor_type
from ..shapes import DYNAMIC, Shape
from ..tensor import elementwise, shape
from ..tensor.storage import ConstantOp

_RIGHT_NEUTRAL: dict[type[Operation], int] = {
    elementwise.AddOp: 0,
    elementwise.SubOp: 0,
    elementwise.MulOp: 1,
    elementwise.DivOp: 1,
}
_LEFT_NEUTRAL: dict[type[Operation], int] = {elementwise.AddOp: 0, elementwise.MulOp: 1}
"""Neutral elements. x + 0 turns -0.0 into 0.0: on floats the neutral element of `add` is -0.0."""


class Idempotent(RewritePattern):
    """f(f(x)) becomes f(x)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        (operand,) = op.operands
        if type(operand.owner) is type(op) and operand.type == op.results[0].type:
            rewriter.replace(op, [], [operand])


class Involution(RewritePattern):
    """f(f(x)) becomes x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if isinstance(inner, type(op)) and inner.operands[0].type == op.results[0].type:
            rewriter.replace(op, [], [inner.operands[0]])


class NeutralElement(RewritePattern):
    """x ∘ e becomes x where e is a splat of the neutral element and the shape stays."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, elementwise.BinaryOp):
            return
        for value, other, table in (
            (op.lhs, op.rhs, _RIGHT_NEUTRAL),
            (op.rhs, op.lhs, _LEFT_NEUTRAL),
        ):
            neutral = table.get(type(op))
            if (
                neutral is not None
                and value.type == op.result.type
                and not _may_stretch(value, other)
                and _is_splat(other, neutral, op)
            ):
                rewriter.replace(op, [], [value])
                return


def _may_stretch(value: SSAValue, other: SSAValue) -> bool:
    """Whether broadcasting against `other` may repeat an axis of `value` whose size is `?`."""
    shape, against = tensor_type(value).get_shape(), tensor_type(other).get_shape()
    pairs = zip(reversed(shape), reversed(against), strict=False)
    return any(size == DYNAMIC and facing != 1 for size, facing in pairs)


def _is_splat(value: SSAValue, number: int, op: Operation) -> bool:
    if not isinstance(value.owner, ConstantOp):
        return False
    data = value.owner.value
    if not len(data) or not data.is_splat():
        return False
    element = data.get_values()[0]
    if isinstance(element, float) and number == 0:
        wanted = 0.0 if isinstance(op, elementwise.SubOp) else -0.0
        return str(element) == str(wanted)
    return element == number


class SameShape(RewritePattern):
    """A shape change that keeps the shape and the order of elements becomes its operand.

    Sizes that are not known may change behind `?`, but for the one that a reshape leaves over.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if len(op.operands) != 1 or len(op.results) != 1:
            return
        type = op.results[0].type
        same = isinstance(type, TensorType) and type.has_static_shape()
        if isinstance(op, shape.PermuteOp):
            perm = op.perm.get_values()
            same = list(perm) == list(range(len(perm)))
        elif isinstance(op, shape.SliceOp):
            same = same and all(s == 1 for s in op.steps.get_values())
        elif isinstance(op, shape.ReshapeToOp):
            same = same or _keeps_free_size(op)
        if same and op.operands[0].type == type:
            rewriter.replace(op, [], [op.operands[0]])


def _keeps_free_size(op: shape.ReshapeToOp) -> bool:
    """Whether one size is left over: it stays what it was where all the others do."""
    sizes = tensor_type(op.result).get_shape()
    if sizes.count(DYNAMIC) != 1 or 0 in sizes:
        return False
    free = sizes.index(DYNAMIC)
    return op.shape.get_values()[free] in (-1, -2 - free)


class MergePermutes(RewritePattern):
    """permute(permute(x, p), q) becomes permute(x, p∘q)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: shape.PermuteOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.operand.owner, shape.PermuteOp):
            first = inner.perm.get_values()
            perm = [first[axis] for axis in op.perm.get_values()]
            replace_with(op, shape.PermuteOp(inner.operand, perm), rewriter)


class MergeReshapes(RewritePattern):
    """A reshape to a static shape (or with one free size) skips the reshape before it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: shape.ReshapeToOp, rewriter: PatternRewriter) -> None:
        inner = op.operand.owner
        if isinstance(inner, shape.ReshapeToOp | shape.FlattenOp) and all(
            size >= -1 for size in op.shape.get_values()
        ):
            merged = shape.ReshapeToOp(inner.operand, op.shape.get_values())
            replace_with(op, merged, rewriter)


class SplitBeforePermute(RewritePattern):
    """reshape(permute(reshape(x))) that splits axes becomes permute(reshape(x)).

    So what attention cuts into heads is reshaped once and moved once, however it was written.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: shape.ReshapeToOp, rewriter: PatternRewriter) -> None:
        moved = op.operand.owner
        if not isinstance(moved, shape.PermuteOp) or not op.operand.has_one_use():
            return
        inner = moved.operand.owner
        if not isinstance(inner, shape.ReshapeToOp) or not moved.operand.has_one_use():
            return
        before, after = (tensor_type(v).get_shape() for v in (op.operand, op.result))
        groups = _splits(before, after)
        if groups is None:
            return
        perm = list(moved.perm.get_values())
        places = [perm.index(axis) for axis in range(len(perm))]
        sizes = [size for place in places for size in groups[place]]
        starts = [sum(len(groups[p]) for p in places[:axis]) for axis in range(len(perm))]
        order = [starts[a] + i for a, group in zip(perm, groups, strict=True)
                 for i in range(len(group))]  # fmt: skip
        whole = shape.ReshapeToOp(inner.operand, [max(size, -1) for size in sizes])
        whole.location = inner.location
        rewriter.insert(whole)
        replace_with(op, shape.PermuteOp(whole.result, order), rewriter)


def _splits(before: Shape, after: Shape) -> list[list[int]] | None:
    """The axes of `after` that each axis of `before` is cut into; `None` for other reshapes."""
    free = before.count(DYNAMIC)
    if len(after) <= len(before) or free != after.count(DYNAMIC) or free > 1:
        return None
    if min((size for size in (*before, *after) if size != DYNAMIC), default=2) < 2:
        return None
    left, rest = list(after), list(before)
    first: list[list[int]] = []
    last: list[list[int]] = []
    while rest and rest[0] != DYNAMIC:
        first.append(_taken(left, rest.pop(0), 0))
    while rest and rest[-1] != DYNAMIC:
        last.insert(0, _taken(left, rest.pop(), -1))
    groups = [*first, *([left] if rest else []), *last]
    return groups if all(groups) and (rest or not left) else None


def _taken(sizes: list[int], whole: int, end: int) -> list[int]:
    """Sizes from one end of a list whose product is `whole`, removed from it; none for others."""
    sizes_left: list[int] = []
    while sizes and sizes[end] != DYNAMIC and prod(sizes_left) < whole:
        sizes_left.insert(0 if end else len(sizes_left), sizes.pop(end))
    return sizes_left if prod(sizes_left) == whole else []


def patterns_of(kind: type[Operation]) -> tuple[RewritePattern, ...]:
    """The patterns of one op."""
    if kind.has_trait(traits.Idempotent):
        return (Idempotent(),)
    if kind.has_trait(traits.Involution):
        return (Involution(),)
    if kind in _RIGHT_NEUTRAL:
        return (NeutralElement(),)
    if issubclass(kind, shape.ShapeOp):
        return (SameShape(), *_OF_SHAPES.get(kind, ()))
    return ()


_OF_SHAPES: dict[type[Operation], tuple[RewritePattern, ...]] = {
    shape.PermuteOp: (MergePermutes(),),
    shape.ReshapeToOp: (MergeReshapes(), SplitBeforePermute()),
}
