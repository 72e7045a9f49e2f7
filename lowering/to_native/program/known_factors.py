"""Sums of products of two integers: which arguments of a body both are, and known numbers.

Not here: what sums can be (`intervals`), by which instructions they are computed (`dots`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ....ir.arrays import Array
from .nests import Access, Nest


def factors_of(nest: Nest) -> tuple[SSAValue, SSAValue] | None:
    """The arguments that a body multiplies and adds up in 32 bits: an image, and what is known."""
    both = both_factors(nest)
    image = [v for v in both if _content(nest.reads[v]) is None]
    weights = [v for v in both if _content(nest.reads[v]) is not None]
    return (image[0], weights[0]) if image and weights else None


def both_factors(nest: Nest) -> Sequence[SSAValue]:
    """The two arguments that a body multiplies and adds up in 32 bits; none if it does not."""
    total = nest.results()[0].owner
    so_far = nest.output_arguments()[0]
    if not isinstance(total, arith.AddiOp) or total.result.type != i32:
        return ()
    products = [v.owner for v in total.operands if v is not so_far]
    if len(products) != 1 or not isinstance(products[0], arith.MuliOp):
        return ()
    arguments = {widened(v) for v in products[0].operands}
    return list(nest.reads) if arguments == set(nest.reads) and len(arguments) == 2 else ()


def widened(value: SSAValue) -> SSAValue:
    """What a value is made of by sign extension, if it is."""
    return value.owner.input if isinstance(value.owner, arith.ExtSIOp) else value


def _content(a: Access) -> Array | None:
    return a.view.buffer.content


def known_values(w: Access, sizes: Sequence[int], loops: Sequence[int]) -> Array | None:
    """Known integers in the order of loops, `None` where they stand in another way."""
    content, start = _content(w), w.offset.number
    strides = [w.strides[d].number for d in loops]
    if content is None or start is None or None in strides or w.panels:
        return None
    if start + sum((n - 1) * (s or 0) for n, s in zip(sizes, strides, strict=True)) >= content.size:
        return None
    steps = [(stride or 0) * content.itemsize for stride in strides]
    return np.array(np.lib.stride_tricks.as_strided(content[start:], sizes, steps))
