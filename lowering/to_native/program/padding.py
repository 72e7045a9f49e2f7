"""`tensor.pad` in memory: the inside is copied, or stands there at once; what is around is filled.

Not here: what makes the inside (`structured`).
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.ir import Operation

from .nests import RefusedError
from .operand_axes import row_axis
from .program import Padded, Planner, Program
from .sizes import ONE, ZERO, Size
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
    axes = [row_axis(program, use.operation, op.result) for use in op.result.uses]
    last = next((axis for axis in axes if axis is not None), None)
    if last is not None:
        order = [*(axis for axis in range(source.rank) if axis != last), last]
    target = program.new(source.element, sizes, order)
    program.views[op.result] = target
    _fill_around(program, Padded(target, low, high), number)
    inside = target.cut([Size.of(a) for a in low], source.sizes, [ONE] * source.rank)
    add_copy(program, source, inside)


def _fill_around(program: Program, padded: Padded, number: arith.ConstantOp) -> None:
    """Put a number in every element around a tensor."""
    view, low, high = padded
    offsets, sizes = [ZERO] * view.rank, list(view.sizes)
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        inside = sizes[axis] - Size.of(before + behind)
        for start, count in (ZERO, before), (Size.of(before) + inside, behind):
            if count:
                offsets[axis], sizes[axis] = start, Size.of(count)
                add_fill(program, view.cut(offsets, sizes, [ONE] * view.rank), number)
        offsets[axis], sizes[axis] = Size.of(before), inside


RULES: dict[type[Operation], Planner] = {upstream.PadOp: pad}
