"""Ops of `comb` and `seq`, made directly: circuits have hundreds of thousands of them.

The constructors of xDSL match each operand with a definition, which takes four times as long as
the op itself; verification between passes looks at what is made here. Not here: where ops go
(`circuit`, `stages.body`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from xdsl.dialects import comb, seq
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i32
from xdsl.ir import Operation, SSAValue

from ....dialects.shapes import bits_type

_AnyOp = TypeVar("_AnyOp", bound=Operation)


@cache
def _low_bit(place: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(place, i32)


@cache
def _segments(*sizes: int) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i32, sizes)


def alike(kind: type[_AnyOp], operands: Sequence[SSAValue]) -> _AnyOp:
    """An op whose operands and result are of one type, as `comb.add`."""
    return kind.create(operands=operands, result_types=[operands[0].type])


def extract(value: SSAValue, low_bit: int, width: int) -> comb.ExtractOp:
    """So many bits from `low_bit` on."""
    return comb.ExtractOp.create(
        operands=[value],
        result_types=[bits_type(width)],
        properties={"lowBit": _low_bit(low_bit)},
    )


def concat(parts: Sequence[SSAValue], width: int) -> comb.ConcatOp:
    """The parts side by side, the highest first; `width` is the bits of all."""
    return comb.ConcatOp.create(operands=parts, result_types=[bits_type(width)])


def replicate(bit: SSAValue, width: int) -> comb.ReplicateOp:
    """A value as often as makes so many bits."""
    return comb.ReplicateOp.create(operands=[bit], result_types=[bits_type(width)])


def mux(condition: SSAValue, yes: SSAValue, no: SSAValue) -> comb.MuxOp:
    """`yes` where the condition is 1, else `no`."""
    return comb.MuxOp.create(operands=[condition, yes, no], result_types=[yes.type])


def register(
    value: SSAValue, clock: SSAValue, reset: tuple[SSAValue, SSAValue] | None = None
) -> seq.CompRegOp:
    """What a value was at the last clock edge; with `reset` a condition and what it gives."""
    more = reset or ()
    return seq.CompRegOp.create(
        operands=[value, clock, *more],
        result_types=[value.type],
        attributes={"operandSegmentSizes": _segments(1, 1, *[bool(more)] * 2, 0)},
    )


def read_by(
    op: seq.CompRegOp,
) -> tuple[SSAValue, SSAValue, tuple[SSAValue, SSAValue] | None]:
    """What a register takes, its clock, and its reset with the value after it."""
    value, clock, *more = op.operands
    return value, clock, (more[0], more[1]) if len(more) > 1 else None
