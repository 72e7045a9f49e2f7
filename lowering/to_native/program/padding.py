"""`tensor.pad` in memory: the inside is copied, or stands there at once; what is around is filled.

Not here: what makes the inside (`structured`).
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.ir import Operation

from ....runtime.native.abi.sizes import ONE, ZERO, Size
from .nests import RefusedError
from .operand_axes import axes_in_row
from .program import Padded, Planner, Program
from .structured import add_copy, add_fill


def pad(program: Program, op: upstream.PadOp) -> None:
    """`tensor.pad`: what is around is filled, the inside copied."""
    low, high = op.static_low.get_values(), op.static_high.get_values()
    end = op.region.block.last_op
    number = None if end is None else end.operands[0].owner
    if op.low or op.high or not isinstance(number, arith.ConstantOp):
        raise RefusedError("pads with a number or by sizes that are computed")
    source = program.view(op.source)
    known = program.padded.pop(op.source, None)
    if known is not None and (known.low, known.high) == (low, high):
        program.views[op.result] = known.view
        _fill_around(program, known, number)
        return
    sizes = [size + Size.of(a + b) for size, a, b in zip(source.sizes, low, high, strict=True)]
    order = source.order if program.blocked else None
    axes = (axes_in_row(program, use.operation, op.result) for use in op.result.uses)
    last = next(filter(None, axes), None)
    if last is not None:
        order = [*(axis for axis in range(source.rank) if axis not in last), *last]
    target = program.new(source.element, sizes, order)
    program.views[op.result] = target
    _fill_around(program, Padded(target, low, high), number)
    inside = target.cut([Size.of(a) for a in low], source.sizes, [ONE] * source.rank)
    add_copy(program, source, inside)


def _fill_around(program: Program, padded: Padded, number: arith.ConstantOp) -> None:
    """Put a number in every element around a tensor.

    What is behind a row and what is before the next one lie together, and are filled at once.
    """
    view, low, high = padded
    offsets, sizes = [ZERO] * view.rank, list(view.sizes)

    def fill(axis: int, start: Size, count: int, rows: int | None = None) -> None:
        """Some of an axis; where `rows` are given that it makes, from the one before these on."""
        first, counts = [*offsets], [*sizes]
        first[axis], counts[axis] = start, Size.of(count)
        if rows is not None:
            first[rows], counts[rows] = first[rows] - ONE, counts[rows] + ONE
        add_fill(program, view.cut(first, counts, [ONE] * view.rank), number)

    order = view.order or [*range(view.rank)]
    for outer, axis in zip([None, *order], order, strict=False):
        before, behind = low[axis], high[axis]
        inside = sizes[axis] - Size.of(before + behind)
        if outer is not None and _are_rows(padded, outer, axis):
            fill(axis, Size.of(before) + inside, behind + before, outer)
        else:
            for start, count in (ZERO, before), (Size.of(before) + inside, behind):
                if count:
                    fill(axis, start, count)
        offsets[axis], sizes[axis] = Size.of(before), inside


def _are_rows(padded: Padded, outer: int, axis: int) -> bool:
    """Whether an axis makes rows that follow each other, with room around them and between them."""
    view, low, high = padded
    follow = view.strides[outer] == view.strides[axis] * view.sizes[axis]
    return follow and min(low[axis], high[axis], low[outer], high[outer]) > 0


RULES: dict[type[Operation], Planner] = {upstream.PadOp: pad}
