"""The C library's `fmod` as a function of the module, exact for all operands.

x = m·2^a and y = n·2^b with integers m, n: the remainder is (m·2^(a - b) mod n)·2^b, with as many
powers of two at a time as an i64 holds beside the digits. `frem` would call the library.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.dialects.llvm import FuncOp, URemOp
from xdsl.ir import Attribute, SSAValue

from ..kernels.code import Code
from .floating import format_of
from .types import integers, width

PREFIX = "triton_"
"""In front of the library's name."""


def fmod_function(type: Attribute) -> FuncOp:
    """`triton_fmod` of f64 or `triton_fmodf` of f32: x - trunc(x / y)·y, with the sign of x."""
    form, bits, kind = format_of(type), width(type), integers(type)
    code = Code(f"{PREFIX}fmod{'f' if bits == 32 else ''}", [type, type])
    x, y = code.arguments
    step, infinity = 63 - form.digits, (2 * form.bias + 1) << form.digits

    def magnitude(value: SSAValue) -> SSAValue:
        """The bits without the sign."""
        return code.and_(
            code.resize(code.bits(value, kind), i64, unsigned=True), (1 << bits - 1) - 1
        )

    def parts(size: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The integer, and its exponent, which is that of the least normal number or more."""
        exponent, fraction = code.lshr(size, form.digits), code.and_(size, (1 << form.digits) - 1)
        normal = code.icmp("ne", exponent, 0)
        whole = code.select(normal, code.or_(fraction, 1 << form.digits), fraction)
        return whole, code.select(normal, exponent, 1)

    a, b = magnitude(x), magnitude(y)
    bad = code.or_(code.icmp("uge", a, infinity), code.icmp("ugt", b, infinity))
    bad = code.or_(bad, code.icmp("eq", b, 0))
    divides = code.and_(code.icmp("uge", a, b), code.not_(bad))
    # A loop of one turn at most is a branch that gives a value.
    with code.loop(0, code.resize(divides, i64, unsigned=True), 1, [x]) as once:
        (m, p), (n, q) = parts(a), parts(b)
        far = code.sub(p, q)
        with code.loop(0, far, step, [code.insert(URemOp(m, n))]) as turn:
            more = code.minimum(code.sub(far, turn.index), step)
            turn.values = [code.insert(URemOp(code.shl(turn.values[0], more), n))]
        result, exponent = code.to_float(turn.values[0], type), code.sub(q, form.bias + form.digits)
        half = code.ashr(exponent, 1)
        for power in half, code.sub(exponent, half):
            factor = code.shl(code.add(power, form.bias), form.digits)
            result = code.fmul(result, code.bits(code.resize(factor, kind), type))
        once.values = [code.copysign(result, x)]
    product = code.fmul(x, y)
    nan = code.fdiv(product, product)
    return code.finish(code.select(bad, nan, once.values[0]), linkage="internal")
