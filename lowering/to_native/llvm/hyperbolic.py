"""tanh x: near zero x + x³·P(x²), else 1 - 2 / (e^2|x| + 1).

After W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), chapter 13. P
is the polynomial through its values at Chebyshev's points, computed with 60 digits.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from .exponential import one_more_than_exp
from .floating import at_most, below, format_of
from .llvm_builder import LlvmBuilder

_SINGLE = (
    -0.3333333432674408,
    0.13333304226398468,
    -0.053959257900714874,
    0.02176891826093197,
    -0.008343945257365704,
    0.002292744815349579,
)
_DOUBLE = (
    -0.3333333333333333,
    0.13333333333333042,
    -0.05396825396789699,
    0.021869488519008305,
    -0.008863235103240878,
    0.0035921217511549622,
    -0.0014557754120478055,
    0.0005896606577757043,
    -0.0002375906496055562,
    9.257116129556769e-05,
    -3.12011014257974e-05,
    6.485163482793113e-06,
)
_SMALL = 0.625
_ONE_FROM = {True: 10.0, False: 20.0}
"""For f32 and f64 where tanh x is 1."""


def tanh(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """tanh x of f32 or f64."""
    form = format_of(x.type)
    size = e.fabs(x)
    square = e.fmul(x, x)
    series = e.polynomial(square, _SINGLE if form.type == f32 else _DOUBLE)
    near = e.fmuladd(e.fmul(square, size), series, size)
    limited = at_most(e, size, _ONE_FROM[form.type == f32])
    power = one_more_than_exp(e, e.fadd(limited, limited))
    far = e.fsub(e.constant(1.0, x.type), e.fdiv(e.constant(2.0, x.type), power))
    return e.copysign(e.select(below(e, size, _SMALL), near, far), x)
