"""Temporary tensors of small integers in small types: images that are widened for a sum alone.

Not here: constants, which are narrowed when they are written (`text`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i16
from xdsl.ir import Attribute, SSAValue

from ...dialects.shapes import bit_width
from ..to_native.program.nests import Access, Nest
from ..to_native.program.program import Step
from ..to_native.program.repetition import flat
from ..to_native.program.structured import NestStep
from ..to_native.program.views import Buffer, holder

_WIDEST = 64
_TYPES: Sequence[tuple[Attribute, int]] = ((i8, 8), (i16, 16))


def narrow(steps: Sequence[Step]) -> None:
    """Give temporary tensors the smallest type that holds all that loops write to them.

    Tensors that something else than loops touches keep theirs.
    """
    wide: set[Buffer] = set()
    nests = [step.nest for step in flat(steps) if isinstance(step, NestStep)]
    for step in flat(steps):
        for view in (*step.reads, *step.writes):
            if not isinstance(step, NestStep) or view.buffer.run is not None:
                wide.add(holder(view))
    bits = _Bits(wide)
    while any([bits.widen(nest) for nest in nests]):
        pass
    for buffer, needed in bits.known.items():
        width = bit_width(buffer.element)
        for element, size in _TYPES:
            if width is not None and needed <= size < width:
                buffer.element = element
                break


class _Bits:
    """The bits of a signed integer that holds all elements of a temporary tensor."""

    def __init__(self, wide: Collection[Buffer]) -> None:
        self.known: dict[Buffer, int] = {}
        self._wide = wide

    def widen(self, nest: Nest) -> bool:
        """Note what loops write; whether that is news."""
        news = False
        for value, a in zip(nest.results(), nest.writes, strict=True):
            buffer = a.view.buffer
            if self._follows(buffer):
                needed = _WIDEST if nest.reductions else self._of(value, nest.reads)
                news |= needed > self.known.get(buffer, -1)
                self.known[buffer] = max(needed, self.known.get(buffer, 0))
        return news

    def _follows(self, buffer: Buffer) -> bool:
        width = bit_width(buffer.element)
        workspace = buffer.place == "workspace" and buffer not in self._wide
        return workspace and width is not None and width > 1

    def _of(self, value: SSAValue, reads: Mapping[SSAValue, Access]) -> int:
        owner = value.owner
        if value in reads:
            buffer = reads[value].view.buffer
            own = bit_width(buffer.element) or _WIDEST
            if buffer.content is not None and buffer.content.dtype.kind in "iu":
                ends = (buffer.content.min(initial=0), buffer.content.max(initial=0))
                return max(_bits_of(int(number)) for number in ends)
            return self.known.get(buffer, 0) if self._follows(buffer) else own
        if isinstance(owner, arith.ExtSIOp):
            return bit_width(owner.input.type) or _WIDEST
        if isinstance(owner, arith.ExtUIOp):
            return 1 + (bit_width(owner.input.type) or _WIDEST)
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return _bits_of(owner.value.value.data)
        if isinstance(owner, arith.AddiOp | arith.SubiOp):
            # A state that a loop adds to holds whatever its type does.
            return min(_WIDEST, 1 + max(self._of(v, reads) for v in owner.operands))
        return _WIDEST


def _bits_of(number: int) -> int:
    """The bits of a signed integer that holds a number."""
    return 1 + (~number if number < 0 else number).bit_length()
