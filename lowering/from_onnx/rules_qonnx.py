"""ONNX import of qonnx's and Brevitas' quantisers: numbers rounded to what few bits hold."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError
from .onnx_builder import Builder, Call, Rule


def _rounded(e: Builder, x: SSAValue, mode: str) -> SSAValue:
    if mode in ("ROUND", "HALF_EVEN"):
        return e.add(tensor.RoundOp(x))
    if mode in ("CEIL",):
        return e.add(tensor.CeilOp(x))
    if mode == "FLOOR":
        return e.add(tensor.FloorOp(x))
    if mode in ("ROUND_TO_ZERO", "DOWN"):
        return e.add(tensor.TruncOp(x))
    size, sign = Formula(e, x).of(tensor.AbsOp), Formula(e, x).of(tensor.SignOp)
    if mode == "UP":
        return (sign * size.of(tensor.CeilOp)).value
    if mode == "HALF_UP":
        return (sign * (size + 0.5).of(tensor.FloorOp)).value
    if mode == "HALF_DOWN":
        return (sign * (size - 0.5).of(tensor.CeilOp)).value
    raise ProblemError(f"its rounding mode '{mode}' is unknown")


def _number(e: Builder, call: Call, index: int) -> Formula:
    """An input of the type of the first one; files have integers for scales and zero points."""
    return Formula(e, e.convert(call[index], call[0]))


def _quant(e: Builder, call: Call) -> SSAValue:
    """(clamp(round(x/scale + zero point)) - zero point)·scale of `bit_width` bits."""
    x, scale, zero = call[0], _number(e, call, 1), _number(e, call, 2)
    bits = float(e.array(call[3], "bit width").reshape(-1)[0])
    signed, narrow = call.flag("signed", True), call.flag("narrow", False)
    if signed:
        low, high = -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    else:
        low, high = 0, 2**bits - 1 - narrow
    shifted = Formula(e, x) / scale + zero
    if signed and bits == 1:
        positive = e.add(tensor.CompareOp(shifted.value, e.number(0, x), "ge"))
        signs = e.add(tensor.WhereOp(positive, e.number(1, x), e.number(-1, x)))
        return ((Formula(e, signs) - zero) * scale).value
    steps = shifted.maximum(low).minimum(high)
    levels = _rounded(e, steps.value, call.text("rounding_mode", "ROUND").upper())
    return ((Formula(e, levels) - zero) * scale).value


def _bipolar(e: Builder, call: Call) -> SSAValue:
    """scale where x ≥ 0, else -scale."""
    x = call[0]
    positive = e.add(tensor.CompareOp(x, e.number(0, x), "ge"))
    signs = e.add(tensor.WhereOp(positive, e.number(1, x), e.number(-1, x)))
    return e.add(tensor.MulOp(signs, _number(e, call, 1).value))


def _trunc(e: Builder, call: Call) -> SSAValue:
    """qonnx's first `Trunc`: the highest bits of a quantised number."""
    if len(call.inputs) != 5:
        raise ProblemError("only the form with five inputs is known")
    x, scale, zero = (_number(e, call, index) for index in range(3))
    bits, left = (float(e.array(call[index], "bit width").reshape(-1)[0]) for index in (3, 4))
    steps = (x / scale + zero).of(tensor.RoundOp) / 2.0 ** (bits - left)
    levels = _rounded(e, steps.value, call.text("rounding_mode", "FLOOR").upper())
    return ((Formula(e, levels) - zero) * scale).value


def _float_quant(e: Builder, call: Call) -> SSAValue:
    """qonnx's `FloatQuant`: the nearest number of a small floating-point format, times scale."""
    x, scale = Formula(e, call[0]), _number(e, call, 1)
    exponent, mantissa, bias, top = (
        float(e.array(call[index], "format").reshape(-1)[0]) for index in range(2, 6)
    )
    del exponent
    if not call.integer("saturation", 1) or not call.integer("has_subnormal", 1):
        raise ProblemError("formats that overflow or lack subnormal numbers are not known")
    y = x / scale
    size = y.of(tensor.AbsOp).maximum(float(np.finfo(np.float32).tiny))
    power = (size.of(tensor.LogOp) * (1 / np.log(2))).of(tensor.FloorOp)
    # The logarithm may be off by a rounding: put the power right.
    two = e.number(2, call[0])

    def raised(exponent: Formula) -> Formula:
        return Formula(e, e.add(tensor.PowOp(two, exponent.value)))

    over = e.add(tensor.CompareOp(raised(power).value, size.value, "gt"))
    power = Formula(e, e.add(tensor.WhereOp(over, (power - 1).value, power.value)))
    under = e.add(tensor.CompareOp(raised(power + 1).value, size.value, "le"))
    power = Formula(e, e.add(tensor.WhereOp(under, (power + 1).value, power.value)))
    step = raised(power.maximum(1 - bias) - mantissa)
    mode = call.text("rounding_mode", "ROUND").upper()
    steps = Formula(e, _rounded(e, (y / step).value, mode))
    least = -top if call.integer("signed", 1) else 0.0
    return ((steps * step).maximum(least).minimum(top) * scale).value


QONNX: dict[str, Rule] = {
    "BipolarQuant": _bipolar,
    "FloatQuant": _float_quant,
    "Quant": _quant,
    "Trunc": _trunc,
}
"""Operators of qonnx; earlier files have them in Brevitas' domain."""
