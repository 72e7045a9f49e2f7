"""Rules of views, joins, cuts, padding and lookups of ATen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_integer
from ...dialects.tensor.shape import SLICE_END
from .rules_elementwise import Rule
from .sizes import ProblemError, Sizes, is_free, size_of, static
from .torch_builder import Builder, Call, Known, array_of


def _view(e: Builder, call: Call) -> SSAValue:
    argument = call["self"]
    if call.value.dtype != argument.meta["val"].dtype:
        raise ProblemError("it reads the bits of one type as another")
    return e.reshape(e.value(argument), e.sizes(argument), call.sizes)


def _permute(e: Builder, call: Call) -> SSAValue:
    return e.permute(e.value(call["self"]), [axis % call.rank for axis in call["dims"]])


def _transpose(e: Builder, call: Call) -> SSAValue:
    perm = list(range(call.rank))
    a, b = call["dim0"] % call.rank, call["dim1"] % call.rank
    perm[a], perm[b] = perm[b], perm[a]
    return e.permute(e.value(call["self"]), perm)


def _t(e: Builder, call: Call) -> SSAValue:
    return e.permute(e.value(call["self"]), list(range(call.rank))[::-1])


def _squeeze(e: Builder, call: Call) -> SSAValue:
    sizes = e.sizes(call["self"])
    given: Any = call.get("dim", list(range(len(sizes))))
    chosen: list[int] = [*given] if isinstance(given, list | tuple) else [given]
    axes = {axis % max(len(sizes), 1) for axis in chosen}
    if "dim" in call.arguments and any(is_free(sizes[axis]) for axis in axes if sizes):
        raise ProblemError("it drops a free axis where that is 1; keep it, or fix its size")
    gone = sorted(axis for axis in axes if sizes[axis] == 1)
    x = e.value(call["self"])
    return e.add(tensor.SqueezeOp(x, gone)) if gone else x


def _unsqueeze(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.UnsqueezeOp(e.value(call["self"]), [call["dim"] % call.rank]))


def _expand(e: Builder, call: Call) -> SSAValue:
    given, wanted = e.sizes(call["self"]), call.sizes
    x = e.value(call["self"])
    lead = len(wanted) - len(given)
    if lead:
        x = e.add(tensor.UnsqueezeOp(x, list(range(lead))))
    before = (*[1] * lead, *given)
    target = [
        -1 if old == new or is_free(new) else new
        for old, new in zip(before, wanted, strict=True)
    ]  # fmt: skip
    if any(size != -1 for size in target):
        x = e.add(tensor.ExpandOp(x, target))
    stretched = tuple(
        new if old != new and is_free(new) else 1
        for old, new in zip(before, wanted, strict=True)
    )  # fmt: skip
    return e.spread(x, stretched)


def _repeat(e: Builder, call: Call) -> SSAValue:
    x, given = e.value(call["self"]), e.sizes(call["self"])
    repeats = static([size_of(n) for n in call["repeats"]], "repeats")
    given = (*[1] * (len(repeats) - len(given)), *given)
    x = e.reshape(x, e.sizes(call["self"]), given)
    for axis, count in enumerate(repeats):
        if count != 1:
            x = e.add(tensor.ConcatenateOp([x] * count, axis))
    return x


def cut(e: Builder, x: SSAValue, axis: int, start: int, end: int, step: int = 1) -> SSAValue:
    """x[start:end:step] along one axis."""
    rank = tensor_type(x).get_num_dims()
    starts, ends, steps = [0] * rank, [SLICE_END] * rank, [1] * rank
    starts[axis], ends[axis], steps[axis] = start, end, step
    return e.add(tensor.SliceOp(x, starts, ends, steps))


def _slice(e: Builder, call: Call) -> SSAValue:
    x, axis = e.value(call["self"]), call.get("dim", 0) % call.rank
    given = e.sizes(call["self"])
    if given == call.sizes and call.get("step", 1) == 1:
        return x
    start, end = size_of(call.get("start", 0)), size_of(call.get("end", SLICE_END))
    if is_free(end) and end == given[axis]:
        end = SLICE_END
    start, end = static([start, end], "bounds")
    return cut(e, x, axis, start, end, int(call.get("step", 1)))


def _select(e: Builder, call: Call) -> SSAValue:
    x = e.value(call["self"])
    axis = call["dim"] % (call.rank + 1)
    (index,) = static([size_of(call["index"])], "index")
    part = cut(e, x, axis, index, index + 1 if index != -1 else SLICE_END)
    return e.add(tensor.SqueezeOp(part, [axis]))


def _narrow(e: Builder, call: Call) -> SSAValue:
    start, length = static([size_of(call["start"]), size_of(call["length"])], "bounds")
    return cut(e, e.value(call["self"]), call["dim"] % call.rank, start, start + length)


def _concatenate(e: Builder, call: Call) -> SSAValue:
    parts = [
        e.operand(part, call.value.dtype)
        for part in call["tensors"]
        if len(e.sizes(part)) == call.rank
    ]
    return e.add(tensor.ConcatenateOp(parts, call.get("dim", 0) % call.rank))


def _stack(e: Builder, call: Call) -> SSAValue:
    axis = call.get("dim", 0) % call.rank
    parts = [
        e.add(tensor.UnsqueezeOp(e.operand(part, call.value.dtype), [axis]))
        for part in call["tensors"]
    ]
    return e.add(tensor.ConcatenateOp(parts, axis))


def _split(e: Builder, call: Call) -> list[Any]:
    """All operators that cut one axis; PyTorch has computed the sizes of the pieces."""
    axis = call.get("dim", 0) % len(e.sizes(call["self"]))
    pieces = call.node.meta["val"]
    sizes = static([size_of(piece.shape[axis]) for piece in pieces], "pieces")
    split = tensor.SplitOp(e.value(call["self"]), axis, sizes)
    e.add(split)
    return list(split.results)


def _unbind(e: Builder, call: Call) -> list[Any]:
    sizes = e.sizes(call["self"])
    axis = call.get("dim", 0) % len(sizes)
    (count,) = static([sizes[axis]], "size")
    split = tensor.SplitOp(e.value(call["self"]), axis, [1] * count)
    e.add(split)
    return [e.add(tensor.SqueezeOp(piece, [axis])) for piece in split.results]


def pads(e: Builder, x: SSAValue, amounts: Sequence[int], value: float) -> SSAValue:
    """Pad by `amounts`, PyTorch's pairs from the last axis on; negative ones cut."""
    rank = tensor_type(x).get_num_dims()
    low, high = [0] * rank, [0] * rank
    for pair in range(len(amounts) // 2):
        low[rank - 1 - pair], high[rank - 1 - pair] = amounts[2 * pair], amounts[2 * pair + 1]
    for axis in range(rank):
        if low[axis] < 0 or high[axis] < 0:
            end = high[axis] if high[axis] < 0 else SLICE_END
            x = cut(e, x, axis, max(-low[axis], 0), end)
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    return e.add(tensor.PadToOp(x, low, high, value)) if any((*low, *high)) else x


def _pad(e: Builder, call: Call) -> SSAValue:
    amounts = static([size_of(n) for n in call.get("pad", call.get("padding"))], "padding")
    mode = call.get("mode", "constant")
    for word, name in (("reflect", "reflection_pad"), ("replicate", "replication_pad")):
        if call.name.startswith(f"aten::{name}"):
            mode = word
    x = e.value(call["self"])
    if mode == "constant":
        return pads(e, x, amounts, float(call.get("value", 0.0)))
    sizes = e.sizes(call["self"])
    for pair in range(len(amounts) // 2):
        axis = len(sizes) - 1 - pair
        (size,) = static([sizes[axis]], "size")
        x = _pad_axis(e, x, axis, size, amounts[2 * pair], amounts[2 * pair + 1], mode)
    return x


def _pad_axis(
    e: Builder, x: SSAValue, axis: int, size: int, low: int, high: int, mode: str
) -> SSAValue:
    """Pads that repeat the tensor: rows of it, joined."""
    numpy_mode: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    if low < 0 or high < 0:
        raise ProblemError("it pads by less than nothing; slice it")
    places: list[int] = np.pad(np.arange(size), (low, high), numpy_mode).tolist()
    rows = {place: cut(e, x, axis, place, place + 1) for place in
            dict.fromkeys([*places[:low], *places[low + size :]])}  # fmt: skip
    parts = [*[rows[p] for p in places[:low]], x, *[rows[p] for p in places[low + size :]]]
    return e.add(tensor.ConcatenateOp(parts, axis)) if len(parts) > 1 else x


def _embedding(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.GatherRowsOp(e.value(call["weight"]), e.value(call["indices"])))


def gather(e: Builder, x: SSAValue, axis: int, indices: SSAValue) -> SSAValue:
    """Rows of x picked along `axis` by a vector of indices."""
    rank = tensor_type(x).get_num_dims()
    forth = [axis, *(a for a in range(rank) if a != axis)]
    rows = e.add(tensor.GatherRowsOp(e.permute(x, forth), indices))
    back = [forth.index(a) for a in range(rank)]
    return e.permute(rows, back)


def _index_select(e: Builder, call: Call) -> SSAValue:
    return gather(e, e.value(call["self"]), call["dim"] % call.rank, e.value(call["index"]))


def _index(e: Builder, call: Call) -> SSAValue:
    indices = list(call["indices"])
    given = [axis for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        raise ProblemError("it picks by several tensors of indices; pick along one axis")
    axis, node = given[0], indices[given[0]]
    x, index = e.value(call["self"]), e.value(node)
    if not is_integer(tensor_type(index)):
        raise ProblemError("the size of what a mask picks depends on values; use torch.where")
    known, sizes = e.known(node), e.sizes(call["self"])
    if known is not None and (array_of(known.tensor) < 0).any():
        (size,) = static([sizes[axis]], "size")
        index = e.array(array_of(known.tensor) % size, i64)
    elif known is None:
        size = e.number(_fixed(sizes[axis]), tensor_type(index).element_type)
        index = e.add(tensor.ModOp(index, size))
    if axis and len(e.sizes(node)) != 1:
        raise ProblemError("it picks by a matrix along an inner axis; move the axis to the front")
    return gather(e, x, axis, index) if axis else e.add(tensor.GatherRowsOp(x, index))


def _fixed(size: Any) -> int:
    return static([size], "size")[0]


def _flip(e: Builder, call: Call) -> SSAValue:
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    for axis in call["dims"]:
        (size,) = static([sizes[axis]], "size")
        x = gather(e, x, axis % call.rank, e.array(np.arange(size)[::-1], i64))
    return x


def _roll(e: Builder, call: Call) -> SSAValue:
    x, sizes = e.value(call["self"]), e.sizes(call["self"])
    if not call["dims"]:
        (size,) = static([math.prod(static(sizes, "sizes"))])
        x = e.add(tensor.ReshapeToOp(x, [size]))
        by = int(call["shifts"][0]) % size
        parts = [cut(e, x, 0, size - by, size), cut(e, x, 0, 0, size - by)]
        return e.reshape(e.add(tensor.ConcatenateOp(parts, 0)), (size,), sizes)
    for axis, shift in zip(call["dims"], call["shifts"], strict=True):
        size, by = static([sizes[axis], size_of(shift)], "size")
        axis = axis % call.rank
        if by % size:
            end = cut(e, x, axis, size - by % size, SLICE_END)
            x = e.add(tensor.ConcatenateOp([end, cut(e, x, axis, 0, size - by % size)], axis))
    return x


def _triangle(predicate: str) -> Rule:
    """`tril` and `triu`: zeros on the other side of a diagonal, column - row = `diagonal`."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, (rows, columns) = e.value(call["self"]), e.sizes(call["self"])[-2:]
        across = e.array(np.arange(static([columns], "columns")[0]), i32)
        if is_free(rows):
            same = e.add(tensor.CompareOp(x, x, "eq"))
            ones = e.add(tensor.WhereOp(same, *[e.number(1, i32)] * 2))
            down = e.add(tensor.CumsumOp(ones, call.rank - 2))
            diagonal = int(call.get("diagonal", 0)) - 1
        else:
            down = e.array(np.arange(static([rows])[0])[:, None], i32)
            diagonal = int(call.get("diagonal", 0))
        bound = e.add(tensor.AddOp(down, e.number(diagonal, i32)))
        kept = e.add(tensor.CompareOp(across, bound, predicate))
        return e.add(tensor.WhereOp(kept, x, e.number(0, tensor_type(x).element_type)))

    return rule


def _beside(e: Builder, argument: Any, index: Any, given: int) -> SSAValue:
    """A tensor cut to the sizes of indices along all axes but one."""
    x, sizes, wanted = e.value(argument), e.sizes(argument), e.sizes(index)
    for axis, (size, other) in enumerate(zip(sizes, wanted, strict=True)):
        if axis != given and size != other:
            x = cut(e, x, axis, 0, static([other], "sizes of indices")[0])
    return x


def _gather(e: Builder, call: Call) -> SSAValue:
    indices, axis = e.value(call["index"]), int(call["dim"])
    x = _beside(e, call["self"], call["index"], axis % call.rank)
    return e.add(tensor.GatherElementsOp(x, indices, axis))


def _scatter(reduction: str) -> Rule:
    def rule(e: Builder, call: Call) -> SSAValue:
        x, indices, axis = e.value(call["self"]), e.value(call["index"]), int(call["dim"])
        wanted = str(call.get("reduce", reduction))
        if wanted not in ("none", "add"):
            raise ProblemError(f"its reduction '{wanted}' is not supported; use add")
        if "value" in call.arguments:
            given = e.number(call["value"], tensor_type(x).element_type)
            shape = static(e.sizes(call["index"]), "sizes of indices")
            updates = e.add(tensor.ExpandOp(given, shape))
        else:
            updates = _beside(e, call["src"], call["index"], call.rank)
            (count,) = static([e.sizes(call["index"])[axis]], "size of indices")
            updates = cut(e, updates, axis % call.rank, 0, count)
        return e.add(tensor.ScatterElementsOp(x, indices, updates, axis, wanted))

    return rule


def _pixel_shuffle(e: Builder, call: Call) -> SSAValue:
    given, r = e.sizes(call["self"]), int(call["upscale_factor"])
    n, c, h, w = given
    static([c, h, w])
    apart: Sizes = (n, c // (r * r), r, r, h, w)
    x = e.reshape(e.value(call["self"]), given, apart)
    x = e.permute(x, [0, 1, 4, 2, 5, 3])
    return e.reshape(x, (n, c // (r * r), h, r, w, r), call.sizes)


def _pixel_unshuffle(e: Builder, call: Call) -> SSAValue:
    given, r = e.sizes(call["self"]), int(call["downscale_factor"])
    n, c, h, w = given
    static([c, h, w])
    x = e.reshape(e.value(call["self"]), given, (n, c, h // r, r, w // r, r))
    x = e.permute(x, [0, 1, 3, 5, 2, 4])
    return e.reshape(x, (n, c, r, r, h // r, w // r), call.sizes)


def _nearest(e: Builder, call: Call) -> SSAValue:
    image, wanted = call.get("self", call.get("input")), call.sizes
    given, x = e.sizes(image), e.value(image)
    for axis in range(2, call.rank):
        old, new = static([given[axis], wanted[axis]])
        if new % old:
            raise ProblemError(f"it makes {old} into {new} elements, no multiple of them")
        if new != old:
            here = (*wanted[:axis], old, *given[axis + 1 :])
            apart = (*here[: axis + 1], 1, *here[axis + 1 :])
            target = [-1] * len(apart)
            target[axis + 1] = new // old
            x = e.add(tensor.ExpandOp(e.reshape(x, here, apart), target))
            x = e.reshape(x, (*here[: axis + 1], new // old, *here[axis + 1 :]),
                          (*wanted[: axis + 1], *given[axis + 1 :]))  # fmt: skip
    return x


def spread_constant(value: Any) -> Any:
    """A rule for tensors of one value; `value` is the name of the argument, or a number."""

    def made(e: Builder, call: Call) -> Known:
        import torch

        number = value if isinstance(value, int | float) else call[value]
        if not isinstance(number, int | float):
            raise ProblemError("it fills a tensor with a size")
        sizes = call.sizes
        shape = [1 if is_free(size) else size for size in sizes]
        return Known(torch.full(shape, number, dtype=call.value.dtype), sizes)

    return made


def spread_expand(e: Builder, call: Call) -> Known | None:
    """An expansion of known values: the free axes are left at one element."""
    found = e.values.get(call["self"])
    if not isinstance(found, Known):
        return None
    sizes = call.sizes
    lead = [1] * (len(sizes) - len(found.sizes))
    shape = [1 if is_free(size) else size for size in sizes]
    values = found.tensor.reshape(*lead, *found.tensor.shape).expand(shape)
    is_stored = found.is_stored and values.shape == found.tensor.shape
    return Known(values, sizes, found.keys, is_stored)


SPREADING: dict[str, Any] = {
    "empty": spread_constant(0),
    "empty_like": spread_constant(0),
    "expand": spread_expand,
    "full": spread_constant("fill_value"),
    "full_like": spread_constant("fill_value"),
    "new_empty": spread_constant(0),
    "new_full": spread_constant("fill_value"),
    "new_ones": spread_constant(1),
    "new_zeros": spread_constant(0),
    "ones": spread_constant(1),
    "ones_like": spread_constant(1),
    "zeros": spread_constant(0),
    "zeros_like": spread_constant(0),
}
"""Operators whose values are known although sizes may be free; a function from builder and call."""

RULES: dict[str, Rule] = {
    "cat": _concatenate,
    "chunk": _split,
    "constant_pad_nd": _pad,
    "embedding": _embedding,
    "expand": _expand,
    "flatten": _view,
    "flip": _flip,
    "gather": _gather,
    "index": _index,
    "index_select": _index_select,
    "narrow": _narrow,
    "pad": _pad,
    "permute": _permute,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "reflection_pad1d": _pad,
    "reflection_pad2d": _pad,
    "repeat": _repeat,
    "replication_pad1d": _pad,
    "replication_pad2d": _pad,
    "reshape": _view,
    "roll": _roll,
    "scatter": _scatter("none"),
    "scatter_add": _scatter("add"),
    "select": _select,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "t": _t,
    "transpose": _transpose,
    "tril": _triangle("le"),
    "triu": _triangle("ge"),
    "unbind": _unbind,
    "unflatten": _view,
    "_unsafe_view": _view,
    "unsqueeze": _unsqueeze,
    "upsample_nearest1d": _nearest,
    "upsample_nearest2d": _nearest,
    "view": _view,
}
"""By the name of the operator in the namespace `aten`."""
