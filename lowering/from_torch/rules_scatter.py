"""Rules of what ATen scatters: elements and whole rows, put at places or combined with others."""

from __future__ import annotations

import math

import torch
from torch import dtype
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.shape import SLICE_END
from ..problems import ProblemError, refuse
from .calls import Call, is_tensor
from .rules_index import beside, places_of
from .rules_shape import cut, expanded, fixed
from .sizes import Size, Sizes, is_free, static
from .torch_builder import Builder, Rule, element_type


def _scatter(reduction: str) -> Rule:
    def rule(e: Builder, call: Call) -> SSAValue:
        sizes, axis = e.sizes(call["index"]), call.axis(call.rank)
        if "value" in call:
            value = e.operand(call.operand("value"), call.value.dtype)
            updates = expanded(e, value, (), sizes)
        else:
            updates, count = beside(e, call["src"], call["index"], axis), sizes[axis]
            if count != e.sizes(call["src"])[axis]:
                updates = cut(e, updates, axis, 0, fixed(count))
        wanted = call.word("reduce", reduction)
        return _scattered(e, call, e.value(call["index"]), sizes, updates, wanted)

    return rule


def _by_rows(reduction: str) -> Rule:
    """`index_add` and its relatives: a scatter whose indices are the same for whole rows."""

    def rule(e: Builder, call: Call) -> SSAValue:
        if not call.rank:
            raise ProblemError("it writes to a number; use torch.where")
        axis, index = call.axis(call.rank), call["index"]
        (count,) = e.sizes(index) or (1,)
        rows = tuple(count if a == axis else size for a, size in enumerate(call.sizes))
        column = tuple(count if a == axis else 1 for a in range(call.rank))
        places = places_of(e, index, call.sizes[axis])
        ends = [-1 if a == axis else 1 for a in range(call.rank)]
        places = expanded(e, e.add(tensor.ReshapeToOp(places, ends)), column, rows)
        source = call.operand("value" if "value" in call else "source")
        updates = e.operand(source, call.value.dtype)
        if (alpha := call.number("alpha", 1)) != 1:
            updates = (Formula(e, updates) * alpha).value
        sizes = e.sizes(source) if is_tensor(source) else ()
        # A number alone may be one row of one element.
        updates = updates if sizes else expanded(e, updates, (), rows)
        return _scattered(e, call, places, rows, updates, call.word("reduce", reduction))

    return rule


def _scattered(
    e: Builder, call: Call, indices: SSAValue, sizes: Sizes, updates: SSAValue, wanted: str
) -> SSAValue:
    """`self` with updates of `sizes` at indices along an axis, put there or combined."""
    x, axis, element = e.value(call["self"]), call.axis(call.rank), element_type(call.value.dtype)
    region, rests = list(call.sizes), list[tuple[int, SSAValue]]()
    for place, (size, count) in enumerate(zip(call.sizes, sizes, strict=True)):
        if place != axis and size != count and wanted not in _GREATEST:
            (count,) = static([count], "sizes of indices")
            rests.append((place, cut(e, x, place, count, SLICE_END)))
            x, region[place] = cut(e, x, place, 0, count), count

    def put(there: SSAValue, value: SSAValue | float, kind: str = "add") -> SSAValue:
        if not isinstance(value, SSAValue):
            value = expanded(e, e.number(value, element), (), sizes)
        return e.add(tensor.ScatterElementsOp(there, indices, value, axis, kind))

    def whole(written: SSAValue) -> SSAValue:
        """With the rows that no index reaches."""
        for place, rest in reversed(rests):
            written = e.add(tensor.ConcatenateOp([written, rest], place))
        return written

    includes = call.flag("include_self", True)
    if wanted == "none" and call.rank == 1 and is_free(call.sizes[0]):
        return _at_places(e, x, call.sizes[0], indices, updates)
    if wanted == "none":
        return whole(put(x, updates, "none"))
    if wanted in _GREATEST:
        return _extremes(e, call, indices, sizes, updates, wanted)
    refuse(
        wanted == "mean" and not is_float(tensor_type(x)),
        "means of integers are not supported; use add",
    )
    total = put(x if includes else put(x, 0, "none"), updates)
    if wanted != "mean":
        return whole(total)
    ones = expanded(e, e.number(1, element), (), tuple(region))
    counts = put(ones if includes else put(ones, 0, "none"), 1)
    return whole((Formula(e, total) / Formula(e, counts)).value)


def _at_places(
    e: Builder, x: SSAValue, size: Size, indices: SSAValue, updates: SSAValue
) -> SSAValue:
    """x of a free size with updates at places that differ: each place looks at all of them."""
    places = Formula(e, e.arange(size)).of(tensor.UnsqueezeOp, axes=[1])
    is_here = Formula(e, indices).compare("eq", places)
    found = is_here.choose(Formula(e, updates), 0).of(tensor.ReduceSumOp, axes=[1])
    count = is_here.convert(i64).of(tensor.ReduceSumOp, axes=[1])
    return count.compare("eq", 0).choose(Formula(e, x), found).value


_GREATEST = ("amax", "amin", "prod")


def _extremes(
    e: Builder, call: Call, indices: SSAValue, own: Sizes, updates: SSAValue, wanted: str
) -> SSAValue:
    """The greatest, least or product of what each place takes: all places beside all updates."""
    axis, sizes = call.axis(call.rank), call.sizes
    if (*own[:axis], *own[axis + 1 :]) != (*sizes[:axis], *sizes[axis + 1 :]):
        raise ProblemError("its indices are fewer than the rows that it writes to; slice those")
    x, column = e.value(call["self"]), [-1, *[1] * (call.rank - axis - 1)]
    places = e.add(tensor.ReshapeToOp(e.arange(sizes[axis]), [*column[:1], 1, *column[1:]]))
    here, values = (
        Formula(e, e.add(tensor.UnsqueezeOp(value, [axis]))) for value in (indices, updates)
    )
    taken = here.compare("eq", Formula(e, places))
    least, greatest = _ends(call.value.dtype)
    kind, binary, start = {
        "amax": (tensor.ReduceMaxOp, tensor.MaximumOp, least),
        "amin": (tensor.ReduceMinOp, tensor.MinimumOp, greatest),
        "prod": (tensor.ReduceProdOp, tensor.MulOp, 1),
    }[wanted]
    most = taken.choose(values, start).of(kind, axes=[axis + 1])
    if call.flag("include_self", True):
        return most.of(binary, Formula(e, x)).value
    count = taken.convert(i64).of(tensor.ReduceMaxOp, axes=[axis + 1])
    return count.compare("eq", 1).choose(most, Formula(e, x)).value


def _ends(dtype: dtype) -> tuple[float, float]:
    """The least and the greatest number of a type."""
    if dtype.is_floating_point:
        return -math.inf, math.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


RULES: dict[str, Rule] = {
    "index_add": _by_rows("add"),
    "index_copy": _by_rows("none"),
    "index_fill": _by_rows("none"),
    "index_reduce": _by_rows("none"),
    "scatter": _scatter("none"),
    "scatter_add": _scatter("add"),
    "scatter_reduce": _scatter("add"),
}
"""By the name of the operator in the namespace `aten`."""
