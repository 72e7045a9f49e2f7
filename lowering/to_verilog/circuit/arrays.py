"""Arrays whose elements are objects: a tensor's numbers on their way through a circuit.

Not here: what the elements are (`signals`), and what is computed with them (`circuit_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....dialects import tensor

Element = TypeVar("Element")

Objects = NDArray[np.object_]

Reduction = tensor.ReduceSumOp | tensor.ReduceMaxOp | tensor.ReduceMinOp


def array_of(flat: Sequence[object], shape: Sequence[int]) -> Objects:
    """Elements, in row-major order, as an array; objects stay whole, tuples among them."""
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(shape)


def along(values: Objects, rank: int, axis: int) -> Objects:
    """One value for each position on `axis`, or one for all, in a shape that broadcasts."""
    if values.ndim == 0:
        return values
    shape = [1] * rank
    shape[axis] = len(values)
    return values.reshape(shape)


def rows_along(rows: Sequence[Sequence[object]], rank: int, axis: int) -> Objects:
    """The same of whole rows, as thresholds of a channel; a single row is for all."""
    return along(array_of(list(rows), (len(rows),) if len(rows) > 1 else ()), rank, axis)


def over_axes(
    op: Reduction | tensor.ArgmaxOp, x: Objects, join: Callable[[Sequence[Element]], Element]
) -> Objects:
    """The result of a reduction whose rows `join` makes one element of."""
    given = (op.axis.value.data,) if isinstance(op, tensor.ArgmaxOp) else op.axes.get_values()
    axes = sorted({axis % x.ndim for axis in given})
    others = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*others, *axes).reshape(int(np.prod([x.shape[a] for a in others])), -1)
    keep = bool(op.keepdims.value.data)
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keep or a not in axes]
    return array_of([join(list(row)) for row in rows], shape)


def in_pairs(join: Callable[[Element, Element], Element], items: Sequence[Element]) -> Element:
    """All items joined, neighbours first: a tree of the least depth."""
    level = list(items)
    while len(level) > 1:
        pairs = [join(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]
