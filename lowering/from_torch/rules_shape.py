"""Rules of views, concatenation, slices and padding of ATen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

import numpy as np
import torch
from sympy import Expr
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.ordering import turned
from ...dialects.tensor.shape import SLICE_END
from ..ir_builder import padded
from ..problems import ProblemError, refuse
from .calls import Call, fake_tensor
from .sizes import (
    Size,
    Sizes,
    depends_on_values,
    is_free,
    is_node,
    product,
    size_of,
    sizes_of,
    static,
)
from .torch_builder import Builder, Known, Rule, element_type, refined


def _view(e: Builder, call: Call) -> SSAValue:
    node = call["self"]
    refuse(call.value.dtype != fake_tensor(node).dtype, "it reads the bits of one type as another")
    return e.reshape(e.value(node), e.sizes(node), call.sizes)


def _transpose(e: Builder, call: Call) -> SSAValue:
    a, b = call.axis(call.rank, "dim0"), call.axis(call.rank, "dim1")
    perm = [{a: b, b: a}.get(axis, axis) for axis in range(call.rank)]
    return e.permute(e.value(call["self"]), perm)


def _move(e: Builder, call: Call) -> SSAValue:
    """`movedim`: some axes get other places, the rest keeps its order."""
    rank = call.rank
    old, new = ([a % rank for a in call.integers(name)] for name in ("source", "destination"))
    rest = iter([axis for axis in range(rank) if axis not in old])
    moved = dict(zip(new, old, strict=True))
    perm = [moved[place] if place in moved else next(rest) for place in range(rank)]
    return e.permute(e.value(call["self"]), perm)


def _squeeze(e: Builder, call: Call) -> SSAValue:
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    axes = [axis % max(len(sizes), 1) for axis in call.integers("dim")]
    if any(is_free(sizes[axis]) for axis in axes if sizes):
        raise ProblemError("it drops a free axis where that is 1; keep it, or fix its size")
    single = [
        axis for axis, size in enumerate(sizes)
        if size == 1 and (axis in axes or "dim" not in call)
    ]  # fmt: skip
    return e.add(tensor.SqueezeOp(x, single)) if single else x


def _expand(e: Builder, call: Call) -> SSAValue:
    return expanded(e, e.value(call["self"]), e.sizes(call["self"]), call.sizes)


def expanded(e: Builder, x: SSAValue, sizes: Sizes, wanted: Sizes) -> SSAValue:
    """x of the sizes `sizes`, repeated to those that are wanted."""
    lead = len(wanted) - len(sizes)
    if lead:
        x = e.add(tensor.UnsqueezeOp(x, list(range(lead))))
    pairs = list(zip((*[1] * lead, *sizes), wanted, strict=True))
    target = [-1 if is_free(new) or old == new else new for old, new in pairs]
    if any(size != -1 for size in target):
        x = e.add(tensor.ExpandOp(x, target))
    return e.spread(x, tuple(new if is_free(new) and old != new else 1 for old, new in pairs))


def _repeat(e: Builder, call: Call) -> SSAValue:
    sizes, repeats = (
        e.sizes(call["self"]),
        sizes_of(cast("Sequence[int]", call.arguments["repeats"])),
    )
    whole = (*[1] * (len(repeats) - len(sizes)), *sizes)
    x = e.reshape(e.value(call["self"]), sizes, whole)
    for axis, count in enumerate(repeats):
        before, behind = whole[:axis], whole[axis + 1 :]
        if is_free(count):
            x = e.add(tensor.UnsqueezeOp(x, [axis]))
            several = (*before, count, *whole[axis:])
            x = expanded(e, x, (*before, 1, *whole[axis:]), several)
            whole = (*before, product((count, whole[axis])), *behind)
            x = e.reshape(x, several, whole)
        elif count != 1:
            x = e.add(tensor.ConcatenateOp([x] * count, axis))
            whole = (*before, product((count, whole[axis])), *behind)
    return x


def repeat_interleave(e: Builder, call: Call) -> SSAValue:
    """Each element as often in a row."""
    x, sizes, repeats = e.value(call["self"]), e.sizes(call["self"]), call.integer("repeats")
    axis = call.axis(call.rank) if "dim" in call else len(sizes) - 1
    return interleaved(e, x, sizes, axis, repeats, call.sizes)


def interleaved(
    e: Builder, x: SSAValue, sizes: Sizes, axis: int, repeats: int, wanted: Sizes
) -> SSAValue:
    """x of the sizes `sizes`, each element along an axis so often in a row, as `wanted`."""
    if repeats != 1:
        x = e.add(tensor.UnsqueezeOp(x, [axis + 1]))
        x = e.add(tensor.ConcatenateOp([x] * repeats, axis + 1))
        sizes = (*sizes[: axis + 1], repeats, *sizes[axis + 1 :])
    return e.reshape(x, sizes, wanted)


def cut(e: Builder, x: SSAValue, axis: int, start: int, end: int, step: int = 1) -> SSAValue:
    """x[start:end:step] along one axis."""
    return Formula(e, x).cut(axis, start, end, step).value


def _slice(e: Builder, call: Call) -> SSAValue:
    x, axis, step = e.value(call["self"]), call.axis(call.rank, default=0), call.integer("step", 1)
    sizes = e.sizes(call["self"])
    if sizes == call.sizes and step == 1:
        return x
    size = sizes[axis]
    start, end = (_place(call.size(*bound), size) for bound in (("start", 0), ("end", SLICE_END)))
    if not is_free(start) and not is_free(end):
        return cut(e, x, axis, start, end, step)
    places = Formula(e, e.arange(call.sizes[axis])) * step + Formula(e, e.number(start, i64))
    return e.gather(x, axis, places.value)


def _place(place: Size, size: Size) -> Size:
    """A place along an axis of a free size, counted from its end where that is fixed."""
    if not is_free(place):
        return place
    behind = cast("Expr", size) - cast("Expr", place)
    if not behind.is_number:
        return place
    return -int(behind) if behind > 0 else SLICE_END


def _select(e: Builder, call: Call) -> SSAValue:
    axis, sizes = call.axis(call.rank + 1), e.sizes(call["self"])
    index = _place(call.size("index"), sizes[axis])
    if is_free(index):
        place = e.number(index, i64)
        if depends_on_values(index):
            place = e.add(tensor.ModOp(place, e.number(sizes[axis], i64)))
        return e.gather(e.value(call["self"]), axis, place)
    end = index + 1 if index != -1 else SLICE_END
    part = refined(
        cut(e, e.value(call["self"]), axis, index, end), (*sizes[:axis], 1, *sizes[axis + 1 :])
    )
    return e.add(tensor.SqueezeOp(part, [axis]))


def read(e: Builder, call: Call) -> SSAValue:
    """`aten::item`: the element of a tensor, which stands for a number from then on."""
    one = e.add(tensor.ReshapeToOp(e.value(call["self"]), []))
    e.read[size_of(call.node)] = one
    return one


def _narrow(e: Builder, call: Call) -> SSAValue:
    start, length = call.integer("start"), call.integer("length")
    return cut(e, e.value(call["self"]), call.axis(call.rank), start, start + length)


def _concatenate(e: Builder, call: Call) -> SSAValue:
    parts = [
        e.operand(part, call.value.dtype)
        for part in call.tensors("tensors")
        if len(e.sizes(part)) == call.rank
    ]
    return e.add(tensor.ConcatenateOp(parts, call.axis(call.rank, default=0)))


def _stack(e: Builder, call: Call) -> SSAValue:
    axis = call.axis(call.rank, default=0)
    parts = [
        e.add(tensor.UnsqueezeOp(e.operand(part, call.value.dtype), [axis]))
        for part in call.tensors("tensors")
    ]
    return e.add(tensor.ConcatenateOp(parts, axis))


def split(e: Builder, x: SSAValue, axis: int, sizes: Sequence[int]) -> Sequence[SSAValue]:
    """Pieces of x of these sizes along one axis."""
    op = tensor.SplitOp(x, axis, sizes)
    e.add(op)
    return op.results


def _split(e: Builder, call: Call) -> Sequence[SSAValue]:
    """All operators that cut one axis; PyTorch has computed the sizes of the pieces."""
    axis = call.axis(len(e.sizes(call["self"])), default=0)
    pieces = static(sizes_of(piece.shape[axis] for piece in call.values), "pieces")
    return split(e, e.value(call["self"]), axis, pieces)


def _unbind(e: Builder, call: Call) -> list[SSAValue]:
    sizes = e.sizes(call["self"])
    axis = call.axis(len(sizes), default=0)
    pieces = split(e, e.value(call["self"]), axis, [1] * fixed(sizes[axis]))
    return [e.add(tensor.SqueezeOp(piece, [axis])) for piece in pieces]


def pads(e: Builder, x: SSAValue, amounts: Sequence[int], value: float) -> SSAValue:
    """Pad by `amounts`, PyTorch's pairs from the last axis on; negative ones cut."""
    rank = tensor_type(x).get_num_dims()
    low, high = [0] * rank, [0] * rank
    for pair in range(len(amounts) // 2):
        low[rank - 1 - pair], high[rank - 1 - pair] = amounts[2 * pair], amounts[2 * pair + 1]
    return padded(e, x, low, high, value)


_REPEATING: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}
"""What NumPy calls the pads that repeat the tensor."""


def _pad(e: Builder, call: Call) -> SSAValue:
    amounts = call.integers("pad" if "pad" in call else "padding")
    mode = call.word("mode", "constant")
    for word, name in (("reflect", "reflection_pad"), ("replicate", "replication_pad")):
        if call.name.startswith(f"aten::{name}"):
            mode = word
    x = e.value(call["self"])
    if mode == "constant":
        return pads(e, x, amounts, call.number("value", 0.0))
    sizes = e.sizes(call["self"])
    for pair in range(len(amounts) // 2):
        axis = len(sizes) - 1 - pair
        x = _pad_axis(e, x, axis, fixed(sizes[axis]), amounts[2 * pair : 2 * pair + 2], mode)
    return x


def _pad_axis(
    e: Builder, x: SSAValue, axis: int, size: int, amounts: Sequence[int], mode: str
) -> SSAValue:
    """Pads that repeat the tensor: rows of it, joined; negative ones cut.

    Reflected and replicated are also rows that are cut off, repeated only those that stay.
    """
    start, end = max(-amounts[0], 0), size - max(-amounts[1], 0)
    refuse(start >= end, "it cuts everything off")
    low, high = (max(amount, 0) for amount in amounts)
    kept = np.arange(start, end) if mode == "circular" else np.arange(size)
    places: list[int] = np.pad(kept, (low, high), _REPEATING[mode]).tolist()
    if mode != "circular":
        places = places[start : len(places) - (size - end)]
    before, after = places[:low], places[low + end - start :]
    rows = {place: cut(e, x, axis, place, place + 1) for place in dict.fromkeys([*before, *after])}
    middle = x if (start, end) == (0, size) else cut(e, x, axis, start, end)
    parts = [*[rows[p] for p in before], middle, *[rows[p] for p in after]]
    return e.add(tensor.ConcatenateOp(parts, axis)) if len(parts) > 1 else middle


def _arange(e: Builder, call: Call) -> SSAValue:
    """Counting up to a size that is free; other ends are known."""
    element = element_type(call.value.dtype)
    steps = Formula(e, e.convert(e.arange(call.sizes[0]), element))
    start, step = (
        call.number(name, default) if isinstance(call.arguments.get(name), float)
        else call.size(name, default)
        for name, default in (("start", 0), ("step", 1))
    )  # fmt: skip
    steps = steps if step == 1 else steps * Formula(e, e.number(step, element))
    return (steps if start == 0 else steps + Formula(e, e.number(start, element))).value


def _difference(e: Builder, call: Call) -> SSAValue:
    """What each element is more than the one before."""
    axis = call.axis(call.rank, default=-1)
    ends = [call.optional(name) for name in ("prepend", "self", "append")]
    parts = [e.operand(part, call.value.dtype) for part in ends if part is not None]
    x = e.add(tensor.ConcatenateOp(parts, axis)) if len(parts) > 1 else parts[0]
    for _ in range(call.integer("n", 1)):
        later, earlier = cut(e, x, axis, 1, SLICE_END), cut(e, x, axis, 0, -1)
        is_truth = tensor_type(x).element_type == i1
        x = e.add((tensor.XorOp if is_truth else tensor.SubOp)(later, earlier))
    return x


def _fill(e: Builder, call: Call) -> SSAValue:
    """One value, a number or a tensor of rank 0, at every place."""
    value = e.operand(call.operand("value"), call.value.dtype)
    return expanded(e, value, (), call.sizes)


def _copy(e: Builder, call: Call) -> SSAValue:
    source = e.operand(call["src"], call.value.dtype)
    return expanded(e, source, e.sizes(call["src"]), call.sizes)


def fixed(size: Size) -> int:
    return static([size], "size")[0]


def _flip(e: Builder, call: Call) -> SSAValue:
    x = Formula(e, e.value(call["self"]))
    for axis in call.integers("dims") if call.rank else ():
        x = turned(x, axis % call.rank)
    return x.value


def _rolled(e: Builder, x: SSAValue, axis: int, size: int, by: int) -> SSAValue:
    end = cut(e, x, axis, size - by, SLICE_END)
    return e.add(tensor.ConcatenateOp([end, cut(e, x, axis, 0, size - by)], axis))


def _roll(e: Builder, call: Call) -> SSAValue:
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    axes, shifts = call.integers("dims"), call.integers("shifts")
    if not axes:
        size = math.prod(static(sizes, "sizes"))
        flat = e.add(tensor.ReshapeToOp(x, [size]))
        return e.reshape(_rolled(e, flat, 0, size, shifts[0] % size), (size,), sizes)
    for axis, shift in zip(axes, shifts, strict=True):
        size = fixed(sizes[axis])
        if shift % size:
            x = _rolled(e, x, axis % call.rank, size, shift % size)
    return x


def _triangle(predicate: str) -> Rule:
    """`tril` and `triu`: zeros on the other side of a diagonal, column - row = `diagonal`."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, (rows, columns) = e.value(call["self"]), e.sizes(call["self"])[-2:]
        across, down = (e.arange(size) for size in (columns, rows))
        down = e.add(tensor.UnsqueezeOp(down, [1]))
        bound = e.add(tensor.AddOp(down, e.number(call.integer("diagonal", 0), i64)))
        inside = e.add(tensor.CompareOp(across, bound, predicate))
        return e.add(tensor.WhereOp(inside, x, e.number(0, tensor_type(x).element_type)))

    return rule


def _pixel_shuffle(e: Builder, call: Call) -> SSAValue:
    sizes, r = e.sizes(call["self"]), call.integer("upscale_factor")
    c, h, w = static(sizes[1:], "image")
    n, c = sizes[0], c // (r * r)
    x = e.reshape(e.value(call["self"]), sizes, (n, c, r, r, h, w))
    x = e.permute(x, [0, 1, 4, 2, 5, 3])
    return e.reshape(x, (n, c, h, r, w, r), call.sizes)


def _pixel_unshuffle(e: Builder, call: Call) -> SSAValue:
    sizes, r = e.sizes(call["self"]), call.integer("downscale_factor")
    c, h, w = static(sizes[1:], "image")
    n, h, w = sizes[0], h // r, w // r
    x = e.reshape(e.value(call["self"]), sizes, (n, c, h, r, w, r))
    x = e.permute(x, [0, 1, 3, 5, 2, 4])
    return e.reshape(x, (n, c, r, r, h, w), call.sizes)


SpreadRule: TypeAlias = Callable[[Builder, Call], Known | None]


def _filled(value: str | float) -> SpreadRule:
    """A rule for tensors of one value; `value` is the name of the argument, or a number."""

    def rule(e: Builder, call: Call) -> Known:
        number = call.operand(value) if isinstance(value, str) else value
        if is_node(number):
            raise ProblemError("it fills a tensor with a size")
        shape = [1 if is_free(size) else size for size in call.sizes]
        return Known(torch.full(shape, number, dtype=call.value.dtype), call.sizes)

    return rule


def _spread_expand(e: Builder, call: Call) -> Known | None:
    """An expansion of known values: the free axes are left at one element."""
    known = e.values.get(call["self"])
    if not isinstance(known, Known):
        return None
    lead = [1] * (len(call.sizes) - len(known.sizes))
    shape = [1 if is_free(size) else size for size in call.sizes]
    values = known.tensor.reshape(*lead, *known.tensor.shape).expand(shape)
    is_stored = known.is_stored and values.shape == known.tensor.shape
    return Known(values, call.sizes, known.keys, is_stored)


SPREADING: dict[str, SpreadRule] = {
    "expand": _spread_expand,
    **dict.fromkeys(("full", "full_like", "new_full"), _filled("fill_value")),
    **dict.fromkeys(("new_ones", "ones", "ones_like"), _filled(1)),
    **dict.fromkeys(
        ("empty", "empty_like", "new_empty", "new_zeros", "zero", "zeros", "zeros_like"), _filled(0)
    ),
}
"""Operators whose values are known although sizes may be free; a function from builder and call."""

RULES: dict[str, Rule] = {
    "arange": _arange,
    **dict.fromkeys(("broadcast_to", "expand", "expand_as"), _expand),
    **dict.fromkeys(("cat", "concat"), _concatenate),
    **dict.fromkeys(("chunk", "split", "split_with_sizes"), _split),
    "copy": _copy,
    "diff": _difference,
    "fill": _fill,
    "flip": _flip,
    **dict.fromkeys(("moveaxis", "movedim"), _move),
    "item": read,
    "narrow": _narrow,
    **dict.fromkeys(
        ("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
         "replication_pad2d"), _pad),
    "permute": lambda e, call: e.permute(
        e.value(call["self"]), [axis % call.rank for axis in call.integers("dims")]
    ),
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "repeat": _repeat,
    "roll": _roll,
    "select": _select,
    "slice": _slice,
    "squeeze": _squeeze,
    "stack": _stack,
    "t": lambda e, call: e.permute(e.value(call["self"]), list(range(call.rank))[::-1]),
    **dict.fromkeys(("swapdims", "transpose"), _transpose),
    "tril": _triangle("le"),
    "triu": _triangle("ge"),
    "unbind": _unbind,
    "unsqueeze": lambda e, call: e.add(
        tensor.UnsqueezeOp(e.value(call["self"]), [call.axis(call.rank)])
    ),
    **dict.fromkeys(
        ("flatten", "reshape", "reshape_as", "unflatten", "_unsafe_view", "view", "view_as"), _view
    ),
}  # fmt: skip
"""By the name of the operator in the namespace `aten`."""
