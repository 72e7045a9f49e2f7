"""Small integers in small types: the int8 weights and activations of integer models, above all.

Sums are of 32 bits, and so are the factors in front of them in the IR. Loops widen what they read
to the types of their bodies, and narrow what they store. Not here: tensors that something else than
loops touches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, i8, i16, i32, i64

from ....dialects.elements import numpy_dtype
from ....ir.arrays import Array
from .intervals import Interval, intervals_of
from .program import Program, Step
from .repetition import LoopStep, flat
from .short_bodies import shorten
from .structured import NestStep
from .views import UI8, Buffer, element_bytes


def narrow_constants(steps: Sequence[Step]) -> None:
    """Give constants that only loops read the smallest type that holds all their integers."""
    read: dict[Buffer, bool] = {}
    for step in flat(steps):
        for view in step.reads:
            loops = isinstance(step, NestStep)
            read[view.buffer] = loops and read.get(view.buffer, True)
    for buffer, by_loops_alone in read.items():
        if by_loops_alone and buffer.content is not None:
            _narrow(buffer, buffer.content)


def _narrow(buffer: Buffer, content: Array) -> None:
    # A number alone is spread over a vector as it is.
    if content.dtype.kind != "i" or content.size <= 1:
        return
    element = narrowest(content)
    if element_bytes(element) < content.itemsize:
        buffer.element, buffer.content = element, content.astype(numpy_dtype(element))


def narrowest(values: Array) -> IntegerType:
    """The smallest type that holds integers."""
    low, high = int(values.min()), int(values.max())
    for element in (i8, i16, i32):
        kind = np.iinfo(numpy_dtype(element).name)
        if kind.min <= low and high <= kind.max:
            return element
    return i64


def narrow_tensors(program: Program) -> dict[Buffer, Interval]:
    """Give tensors that only loops touch the smallest type that holds all their integers.

    Returns:
        What those of which that is known can hold.
    """
    nests = [step for step in program.steps if isinstance(step, NestStep)]
    if any(isinstance(step, LoopStep) for step in program.steps):
        return {}
    elsewhere = {
        view.buffer
        for step in program.steps
        if not isinstance(step, NestStep)
        for view in (*step.reads, *step.writes)
    }
    known = intervals_of(nests)
    shorten(nests, known)
    own = {
        buffer: found
        for buffer, found in known.items()
        if buffer.place == "workspace" and buffer not in elsewhere
    }
    for buffer, (low, high) in own.items():
        if buffer.element not in (i16, i32):
            continue
        for element in (UI8, i8, i16):
            kind = np.iinfo(numpy_dtype(element).name)
            if kind.min <= low and high <= kind.max:
                buffer.element = element
                break
    return own
