"""Constants of small integers in small types: the int8 weights of integer models, above all.

Sums are of 32 bits, and so are the weights in front of them in the IR. Loops widen what they read
to the types of their bodies. Not here: tensors that something else than loops reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i8, i16, i32

from ....dialects.elements import numpy_dtype
from ....runtime.native.abi.interface import ALIGNMENT
from .program import Step
from .repetition import LoopStep
from .structured import NestStep
from .views import Buffer


def narrow_constants(steps: Sequence[Step]) -> None:
    """Give constants that only loops read the smallest type that holds all their integers."""
    read: dict[Buffer, bool] = {}
    for step in _flat(steps):
        for view in step.reads:
            loops = isinstance(step, NestStep)
            read[view.buffer] = loops and read.get(view.buffer, True)
    for buffer, by_loops_alone in read.items():
        if by_loops_alone and buffer.content is not None:
            _narrow(buffer, buffer.content)


def _narrow(buffer: Buffer, content: NDArray[Any]) -> None:
    # Fewer bytes than constants are aligned to take as much memory in any type.
    if content.dtype.kind != "i" or content.nbytes <= ALIGNMENT:
        return
    low, high = int(content.min()), int(content.max())
    for element in (i8, i16, i32):
        kind = np.iinfo(numpy_dtype(element).name)
        if kind.min <= low and high <= kind.max and kind.bits < 8 * content.itemsize:
            buffer.element, buffer.content = element, content.astype(kind.dtype)
            return


def _flat(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those that loops repeat too."""
    for step in steps:
        if isinstance(step, LoopStep):
            yield from _flat(step.repeated)
        else:
            yield step
