"""Reductions whose order does not matter: the op that adds one more value, and its neutral element.

Not here: reductions that must go in order, such as sums up to each place (`loops` runs them one by
one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects.shapes import bit_width
from ..linalg.linalg_builder import may_fuse
from ..linalg.scalars import integer_range, signed_bits
from .nests import Nest

_FLOATS: dict[type[Operation], float] = {
    arith.AddfOp: -0.0,
    arith.MulfOp: 1.0,
    arith.MaximumfOp: -math.inf,
    arith.MinimumfOp: math.inf,
}

_INTEGERS: dict[type[Operation], tuple[str, bool]] = {
    arith.AddiOp: ("zero", False),
    arith.MuliOp: ("one", False),
    arith.OrIOp: ("zero", False),
    arith.XOrIOp: ("zero", False),
    arith.AndIOp: ("ones", False),
    arith.MaxSIOp: ("least", False),
    arith.MinSIOp: ("most", False),
    arith.MaxUIOp: ("least", True),
    arith.MinUIOp: ("most", True),
}


@dataclass(frozen=True)
class Combiner:
    """How two parts of a reduction become one.

    Attributes:
        op: of the body; takes the value so far and one more, or the reverse.
        neutral: what changes nothing.
    """

    op: Operation
    neutral: int | float

    @property
    def repeats(self) -> bool:
        """Whether a value may be taken twice."""
        kind = type(self.op)
        return kind not in (arith.AddfOp, arith.MulfOp, arith.AddiOp, arith.MuliOp, arith.XOrIOp)


def combiners(nest: Nest) -> list[Combiner] | None:
    """One for each output; `None` if an output must be reduced in order."""
    candidates = [
        _combiner(result, so_far)
        for result, so_far in zip(nest.results(), nest.output_arguments(), strict=True)
    ]
    known = [combiner for combiner in candidates if combiner is not None]
    return known if len(known) == len(candidates) else None


def _combiner(result: SSAValue, so_far: SSAValue) -> Combiner | None:
    op = result.owner
    if not isinstance(op, Operation) or len(list(so_far.uses)) != 1 or len(list(result.uses)) != 1:
        return None
    if so_far not in op.operands or len(op.operands) != 2:
        return None
    neutral = _neutral(type(op), result.type)
    return None if neutral is None else Combiner(op, neutral)


def _neutral(kind: type[Operation], type: Attribute) -> int | float | None:
    if isinstance(type, AnyFloat):
        return _FLOATS.get(kind)
    bits = bit_width(type)
    if bits is None or kind not in _INTEGERS:
        return None
    name, unsigned = _INTEGERS[kind]
    least, most = integer_range(bits, unsigned=unsigned)
    values = {"zero": 0, "one": 1, "ones": -1, "least": least, "most": signed_bits(most, bits)}
    return values[name]


def fuse_products(nest: Nest) -> None:
    """Let LLVM add products without rounding them first, in the float sums of the body."""
    may_fuse(nest.body)
