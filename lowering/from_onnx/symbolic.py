"""Ops of the IR on tensors of sizes, some of them free: what shape arithmetic of a model does.

Not here: ops on known numbers, which the reference interpreter computes (`builder`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.interpret import RULES
from ...dialects.shapes import is_integer
from ...dialects.traits import MovesElements, has
from ...ir.arrays import Array
from ..problems import ProblemError
from .sizes import Free, Size, product


class NoSizeError(ProblemError):
    """What an op makes of sizes is no size: only the program itself can compute it."""


def compute(op: Operation, operands: Sequence[Array]) -> Array:
    """The result of `op` on tables of sizes.

    Raises:
        NoSizeError: sizes do not stay sizes under it.
        ProblemError: it computes a size that has no form.
    """
    tables = [t if t.dtype.kind in "Ob" else _as_objects(t) for t in operands]
    if isinstance(op, tensor.ConvertOp) and is_integer(tensor_type(op.result)):
        return tables[0]
    is_reduction = isinstance(op, tensor.ReduceSumOp | tensor.ReduceProdOp)
    if is_reduction and len(op.axes.get_values()) == tables[0].ndim:
        elements: list[Size] = tables[0].reshape(-1).tolist()
        reduced = sum(elements) if isinstance(op, tensor.ReduceSumOp) else product(elements)
        return _like(reduced, tensor_type(op.result).get_shape())
    if isinstance(op, tensor.CompareOp):
        return _compared(op, *np.broadcast_arrays(*tables))
    if isinstance(op, tensor.GatherRowsOp):
        return np.asarray(tables[0][tables[1].astype(np.int64)], object)
    if has(op, MovesElements):
        return np.asarray(RULES[type(op)](op, *tables), object)
    function = _FUNCTIONS.get(type(op))
    if function is None:
        raise NoSizeError(f"it computes '{op.name}' of free sizes")
    spread = np.broadcast_arrays(*tables)
    pairs = zip(*(table.reshape(-1) for table in spread), strict=True)
    result = np.empty(spread[0].size, object)
    for index, values in enumerate(pairs):
        result[index] = function(*values)
    return result.reshape(spread[0].shape)


def total(sizes: tuple[Size, ...]) -> Array:
    """The product of sizes as a table of rank 0."""
    return _like(product(sizes), ())


def _as_objects(table: Array) -> Array:
    objects = np.empty(table.size, object)
    for index, value in enumerate(table.reshape(-1).tolist()):
        objects[index] = int(value)
    return objects.reshape(table.shape)


def _like(value: Size, shape: tuple[int, ...]) -> Array:
    table = np.empty(1, object)
    table[0] = value
    return table.reshape(shape)


def _compared(op: tensor.CompareOp, lhs: Array, rhs: Array) -> Array:
    """Whether sizes are equal, where that is the same for every value of the free ones."""
    predicate = op.predicate.data
    if predicate not in ("eq", "ne"):
        raise NoSizeError("it orders free sizes")
    equal = np.zeros(lhs.size, np.bool_)
    for index, (a, b) in enumerate(zip(lhs.reshape(-1), rhs.reshape(-1), strict=True)):
        numbers = [size for size in (a, b) if not isinstance(size, Free)]
        if a != b and len(numbers) < 2 and any(n > 0 for n in numbers):
            raise ProblemError(f"it compares the sizes {a} and {b}; fix them")
        equal[index] = (a == b) == (predicate == "eq")
    return equal.reshape(lhs.shape)


def _divide(a: Size, b: Size) -> Size:
    if isinstance(a, Free):
        return a // b
    if isinstance(b, Free):
        raise ProblemError(f"it divides the size {a} by {b}; fix these sizes")
    return int(a / b) if b else 0


def _negated(a: Size) -> Size:
    return -a


def _greatest(a: Size, b: Size) -> Size:
    """The greater of two sizes; a free one is at least 1."""
    if a == b:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    for free, fixed in ((a, b), (b, a)):
        if isinstance(free, Free) and isinstance(fixed, int) and fixed <= 1:
            return free
    raise ProblemError(f"it compares the sizes {a} and {b}; fix them")


def _choose(condition: bool, a: Size, b: Size) -> Size:
    return a if condition else b


_FUNCTIONS: dict[type[Operation], Callable[..., Size]] = {
    tensor.AddOp: operator.add,
    tensor.SubOp: operator.sub,
    tensor.MulOp: operator.mul,
    tensor.DivOp: _divide,
    tensor.NegOp: _negated,
    tensor.MaximumOp: _greatest,
    tensor.WhereOp: _choose,
}
