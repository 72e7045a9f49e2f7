"""Sums of products of integers with known ones: which arguments of a body both are, the numbers.

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
    total = nest.results()[0].owner
    so_far = nest.output_arguments()[0]
    if not isinstance(total, arith.AddiOp) or total.result.type != i32:
        return None
    products = [v.owner for v in total.operands if v is not so_far]
    if len(products) != 1 or not isinstance(products[0], arith.MuliOp):
        return None
    arguments = [_widened(v) for v in products[0].operands]
    image = [v for v in arguments if v in nest.reads and _content(nest.reads[v]) is None]
    weights = [v for v in arguments if v in nest.reads and _content(nest.reads[v]) is not None]
    if len(image) != 1 or len(weights) != 1 or len(nest.reads) != 2:
        return None
    return image[0], weights[0]


def _widened(value: SSAValue) -> SSAValue:
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
