"""Integers to floats and back: exact where the float can hold the integer, else rounded once.

xDSL translates one conversion, of signed integers to floats. Unsigned ones are extended, or
computed in halves; floats become integers by `llvm.fptosi.sat` and `llvm.fptoui.sat`, which give
the nearest integer where the result would be undefined, and 0 for NaN.
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, SSAValue

from .half import extend_float, truncate_float
from .llvm_builder import LlvmBuilder
from .types import computed_in, element, integers, is_half, like, suffix, width

_SPLIT = 11
"""i64 has so many bits more than the significand of f64."""


def from_signed(e: LlvmBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    """A signed integer as a float, in the `llvm` type of `target`."""
    if is_half(target):
        return truncate_float(e, _sticky(e, x, unsigned=False), target)
    return _from_signed(e, x, target)


def from_unsigned(e: LlvmBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    """An unsigned integer as a float, in the `llvm` type of `target`."""
    if is_half(target):
        return truncate_float(e, _sticky(e, x, unsigned=True), target)
    bits = width(x.type)
    if bits < 32:
        return _from_signed(e, e.resize(x, integers(x.type, 32), unsigned=True), target)
    if bits < 64 and element(target) == f64:
        return _from_signed(e, e.resize(x, integers(x.type, 64), unsigned=True), target)
    if bits <= 32:
        return _from_halves(e, x, 16, target)
    if bits < 64:
        return _from_signed(e, e.resize(x, integers(x.type, 64), unsigned=True), target)
    # The bit that is shifted out must still tell that there was something.
    halved = e.or_(e.lshr(x, 1), e.and_(x, 1))
    doubled = _from_signed(e, halved, target)
    large = e.icmp("slt", x, 0)
    return e.select(large, e.fadd(doubled, doubled), _from_signed(e, x, target))


def _from_signed(e: LlvmBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    return e.insert(llvm.SIToFPOp(x, target))


def _from_halves(e: LlvmBuilder, x: SSAValue, half: int, target: Attribute) -> SSAValue:
    """Both halves are exact: the sum rounds once."""
    high = _from_signed(e, e.lshr(x, half), target)
    low = _from_signed(e, e.and_(x, (1 << half) - 1), target)
    return e.fadd(e.fmul(high, float(1 << half)), low)


def _sticky(e: LlvmBuilder, x: SSAValue, *, unsigned: bool) -> SSAValue:
    """An integer as f64, rounded to odd if it must be: still right when rounded again."""
    bits = width(x.type)
    double = like(x.type, f64)
    if bits < 64:
        wide = integers(x.type, 32 if bits + unsigned <= 32 else 64)
        return _from_signed(e, e.resize(x, wide, unsigned=unsigned), double)
    lost = e.icmp("ne", e.and_(x, (1 << _SPLIT) - 1), 0)
    mark = e.insert(llvm.ZExtOp(lost, x.type))
    shifted = (e.lshr if unsigned else e.ashr)(x, _SPLIT)
    rounded = e.fmul(_from_signed(e, e.or_(shifted, mark), double), float(1 << _SPLIT))
    # Below 2^53 the conversion itself is exact.
    limit = 1 << 53
    exact = e.icmp("ult", e.add(x, limit), 2 * limit)
    if unsigned:
        exact = e.icmp("ult", x, limit)
    return e.select(exact, _from_signed(e, x, double), rounded)


def to_integer(
    e: LlvmBuilder, x: SSAValue, source: Attribute, target: Attribute, *, unsigned: bool
) -> SSAValue:
    """A float of the type `source` as an integer, toward zero.

    What does not fit gives the nearest integer that does, NaN gives 0.
    """
    x = extend_float(e, x, source, computed_in(source))
    name = f"llvm.fpto{'ui' if unsigned else 'si'}.sat.{suffix(target)}.{suffix(x.type)}"
    return e.intrinsic(name, [x], target)
