"""Rules of what counts elements: histograms, the most frequent element, places of what holds.

Each compares all elements with all that is counted. Not here: running counts (`rules_running`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError
from .calls import Call, is_tensor
from .rules_shape import repeat_interleave
from .sizes import Size, is_free, product, static
from .torch_builder import Builder, Rule, array_of, element_type


def _flat(e: Builder, x: SSAValue) -> Formula:
    return Formula(e, e.add(tensor.ReshapeToOp(x, [-1])))


def _total(e: Builder, held: Formula, call: Call, weights: Formula | None = None) -> SSAValue:
    """How often each column holds, or what those weigh together."""
    element = element_type(call.value.dtype)
    counted = held.convert(element)
    if weights is not None:
        counted = counted * weights.convert(element).of(tensor.UnsqueezeOp, axes=[1])
    return counted.of(tensor.ReduceSumOp, axes=[0]).value


def _bincount(e: Builder, call: Call) -> SSAValue:
    """How often 0, 1, … are there; see `known_sizes` for how many of them there are."""
    (count,) = call.sizes
    if is_free(count):
        raise ProblemError("the size of its result depends on values; give it a 'minlength'")
    x = _flat(e, e.value(call["self"])).convert(i64).of(tensor.UnsqueezeOp, axes=[1])
    numbers = x.array(np.arange(count))
    weights = _flat(e, e.value(call["weights"])) if "weights" in call else None
    return _total(e, x.compare("eq", numbers), call, weights)


def _histogram(e: Builder, call: Call) -> SSAValue:
    """Bins of one width; the last one has its upper end too."""
    x, bins = _flat(e, e.value(call["self"])), call.integer("bins")
    low, high = call.number("min", 0), call.number("max", 0)
    least, most = x.number(low), x.number(high)
    if low == high:
        if not low:
            least, most = x.of(tensor.ReduceMinOp, axes=[0]), x.of(tensor.ReduceMaxOp, axes=[0])
        is_one = least.compare("eq", most)
        least, most = is_one.choose(least - 1, least), is_one.choose(most + 1, most)
    within = (x < least).of(tensor.OrOp, x > most).of(tensor.NotOp)
    place = ((x - least) / (most - least) * bins).of(tensor.FloorOp).minimum(bins - 1)
    there = within.choose(place, -1).of(tensor.UnsqueezeOp, axes=[1])
    return _total(e, there.compare("eq", there.array(np.arange(bins))), call)


def _most_frequent(e: Builder, call: Call) -> list[SSAValue]:
    """`mode`: of elements that are as frequent the least, and the last place of it."""
    x, axis = Formula(e, e.value(call["self"])), call.axis(len(e.sizes(call["self"])), default=-1)
    if not e.sizes(call["self"]):
        return [x.value, e.number(0, i64)]
    kept = {"axes": [axis], "keepdims": True}
    own, others = (x.of(tensor.UnsqueezeOp, axes=[axis + after]) for after in (1, 0))
    count = own.compare("eq", others).convert(i64).of(tensor.ReduceSumOp, axes=[axis + 1])
    is_most = count.compare("eq", count.of(tensor.ReduceMaxOp, **kept))
    bound = (
        x.number(math.inf) if is_float(tensor_type(x.value)) else x.of(tensor.ReduceMaxOp, **kept)
    )
    value = is_most.choose(x, bound).of(tensor.ReduceMinOp, **kept)
    places = Formula(e, e.arange(e.sizes(call["self"])[axis]))
    places = places.of(tensor.ReshapeToOp, shape=[-1, *[1] * (x.rank - axis - 1)])
    last = x.compare("eq", value).choose(places, -1).of(tensor.ReduceMaxOp, **kept)
    results = [value, last]
    if not call.flag("keepdim"):
        results = [result.of(tensor.SqueezeOp, axes=[axis]) for result in results]
    return [result.value for result in results]


def _held_places(e: Builder, call: Call) -> SSAValue:
    """`nonzero_static`: where elements are not 0, one a row, and rows of one number behind."""
    x, sizes, count = e.value(call["self"]), e.sizes(call["self"]), call.integer("size")
    held = _flat(e, x)
    held = held if held.element == i1 else held.compare("ne", 0)
    places = _taken(e, held.convert(i64).of(tensor.CumsumOp, axis=0), count)
    columns = list[Formula]()

    def number(size: Size) -> Formula:
        return Formula(e, e.number(size, i64))

    for axis, size in enumerate(sizes):
        column = places / number(product(sizes[axis + 1 :])) % number(size)
        is_there = places < number(product(sizes))
        column = is_there.choose(column, call.integer("fill_value"))
        columns.append(column.of(tensor.UnsqueezeOp, axes=[1]))
    return e.add(tensor.ConcatenateOp([column.value for column in columns], 1))


def _taken(e: Builder, ends: Formula, count: int) -> Formula:
    """For 0, 1, … below `count` how many of the rising `ends` are not above it."""
    wanted = ends.array(np.arange(count)[:, None])
    above = ends.of(tensor.UnsqueezeOp, axes=[0]) > wanted
    return above.of(tensor.NotOp).convert(i64).of(tensor.ReduceSumOp, axes=[1])


def _repeated_places(e: Builder, call: Call) -> SSAValue:
    """0, 1, … each as often as `repeats` says, so many as the result has along that axis."""
    known = e.known(call["repeats"])
    if known is not None:
        counts = array_of(known.tensor)
        return e.numbers(np.repeat(np.arange(counts.size), counts), i64)
    ends = Formula(e, e.value(call["repeats"])).convert(i64).of(tensor.CumsumOp, axis=0)
    count = call.sizes[call.axis(call.rank) if "dim" in call else 0]
    return _taken(e, ends, static([count], "number of elements")[0]).value


def _repeat_interleave(e: Builder, call: Call) -> SSAValue:
    """Each element as often in a row as a number or a tensor says."""
    if not is_tensor(call.arguments["repeats"]):
        return repeat_interleave(e, call)
    if "self" not in call:
        return _repeated_places(e, call)
    x, axis = e.value(call["self"]), call.axis(call.rank) if "dim" in call else 0
    x = x if "dim" in call else _flat(e, x).value
    return e.gather(x, axis, _repeated_places(e, call))


def _put(e: Builder, call: Call) -> SSAValue:
    """Elements at places of the tensor in one row."""
    x = _flat(e, e.value(call["self"]))
    size = product(e.sizes(call["self"]))
    places = _flat(e, e.value(call["index"])).convert(i64) % Formula(e, e.number(size, i64))
    source = _flat(e, e.operand(call["source"], call.value.dtype))
    kind = "add" if call.flag("accumulate") else "none"
    written = tensor.ScatterElementsOp(x.value, places.value, source.value, 0, kind)
    return e.reshape(e.add(written), (size,), call.sizes)


def _greatest_divisor(e: Builder, call: Call) -> Formula:
    """Euclid's algorithm, as many steps as the worst pair of numbers takes."""
    dtype = call.value.dtype
    a, b = (abs(Formula(e, e.operand(call.operand(name), dtype))) for name in ("self", "other"))
    # Consecutive Fibonacci numbers take the most: Lamé 1844.
    for _ in range(int(math.log(torch.iinfo(dtype).max * math.sqrt(5), (1 + math.sqrt(5)) / 2))):
        is_done = b.compare("eq", 0)
        a, b = is_done.choose(a, b), is_done.choose(b, a % is_done.choose(b + 1, b))
    return a


def _least_multiple(e: Builder, call: Call) -> SSAValue:
    divisor = _greatest_divisor(e, call)
    dtype = call.value.dtype
    a, b = (Formula(e, e.operand(call.operand(name), dtype)) for name in ("self", "other"))
    return abs(a / divisor.maximum(1) * b).value


RULES: dict[str, Rule] = {
    "bincount": _bincount,
    "gcd": lambda e, call: _greatest_divisor(e, call).value,
    "histc": _histogram,
    "lcm": _least_multiple,
    "mode": _most_frequent,
    "nonzero_static": _held_places,
    "put": _put,
    "repeat_interleave": _repeat_interleave,
}
"""By the name of the operator in the namespace `aten`."""
