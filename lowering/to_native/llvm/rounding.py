"""Floats to whole numbers by additions, where the processor has no instruction for it.

Adding 2^d to a number below it, d being the digits of the format, rounds to the nearest even
integer; the other ways follow from that one by a comparison. What is 2^d or more is whole. Signs of
zeros are kept. See J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", section 10.2.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from .floating import format_of
from .llvm_builder import LlvmBuilder


def round_even(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """To the nearest integer, halves to the even one."""
    limit = math.ldexp(1, format_of(x.type).digits)
    magnitude = e.fabs(x)
    rounded = e.fsub(e.fadd(magnitude, limit), limit)
    return e.select(e.fcmp("olt", magnitude, limit), e.copysign(rounded, x), x)


def floor(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """To the greatest integer that is not above."""
    near = round_even(e, x)
    moved = e.select(e.fcmp("ogt", near, x), e.fsub(near, 1.0), near)
    return e.copysign(moved, x)


def ceil(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """To the least integer that is not below."""
    near = round_even(e, x)
    moved = e.select(e.fcmp("olt", near, x), e.fadd(near, 1.0), near)
    return e.copysign(moved, x)


def trunc(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """To the next integer toward zero."""
    return e.copysign(floor(e, e.fabs(x)), x)


def round_away(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """To the nearest integer, halves away from zero."""
    magnitude = e.fabs(x)
    whole = floor(e, magnitude)
    far = e.fcmp("oge", e.fsub(magnitude, whole), 0.5)
    return e.copysign(e.select(far, e.fadd(whole, 1.0), whole), x)
