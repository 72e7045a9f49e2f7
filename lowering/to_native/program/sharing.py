"""Outputs that begin with an input, as a cache that grows: both can stand in the same memory.

The copy of the input is left out then. Not here: the memory, which is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.native.abi.sizes import ONE, ZERO, product
from .program import Program, Step
from .structured import NestStep
from .views import View


def share_memory(program: Program, outputs: Sequence[View]) -> list[tuple[int, int]]:
    """Leave out the copies of whole inputs to the start of outputs; which outputs and inputs.

    Args:
        program: which is planned.
        outputs: its results.
    """
    pairs: list[tuple[int, int]] = []
    for number, output in enumerate(outputs):
        for step in program.steps:
            source = _copied(step, output)
            if source is not None and source not in [taken for _, taken in pairs]:
                program.steps.remove(step)
                pairs.append((number, source))
                break
    return pairs


def _copied(step: Step, output: View) -> int | None:
    """The input that a step copies, whole, to the first elements of an output."""
    if not isinstance(step, NestStep) or output.buffer.place != "output" or not output.whole:
        return None
    nest = step.nest
    if not nest.is_copy:
        return None
    (read,), (write,) = nest.reads.values(), nest.writes
    source = read.view.buffer
    if write.view.buffer is not output.buffer or source.place != "input":
        return None
    axes = [axis for axis, size in enumerate(nest.sizes) if size != ONE]
    alike = all(read.strides[axis] == write.strides[axis] for axis in axes)
    starts = read.offset == write.offset == ZERO
    whole = product(nest.sizes) == source.count and read.view.contiguous
    return source.number if alike and starts and whole else None
