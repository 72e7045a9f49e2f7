"""ONNX import of qonnx's and Brevitas' quantisers: numbers rounded to what few bits hold."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Rule

MOST_BITS = 64
"""Of a quantised number."""


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


def _one_number(e: Builder, call: Call, index: int, what: str) -> float:
    """A known input that is one number, whatever its shape."""
    values = np.unique(e.array(call[index], what).astype(np.float64))
    refuse(values.size != 1, f"its {what} is {values.size} different numbers, not one")
    return float(values[0])


def _bits(bits: float) -> float:
    if not 1 <= bits <= MOST_BITS:
        raise ProblemError(f"its bit width is {bits:g}, and not 1 to {MOST_BITS}")
    return bits


def _range(call: Call, bits: float, *, signed: bool, narrow: bool) -> tuple[float, float]:
    """The least and the greatest integer of so many bits."""
    signed, narrow = call.flag("signed", signed), call.flag("narrow", narrow)
    if signed:
        return -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def _quant(e: Builder, call: Call) -> SSAValue:
    """(clamp(round(x/scale + zero point)) - zero point)·scale of `bit_width` bits."""
    x, scale, zero = call[0], _number(e, call, 1), _number(e, call, 2)
    bits, signed = _bits(_one_number(e, call, 3, "bit width")), call.flag("signed", True)
    low, high = _range(call, bits, signed=True, narrow=False)
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
    """qonnx's `Trunc`: the highest bits of a quantised number.

    The first version says how many bits there were and are left, the second how many are left
    with which scale, and keeps the result in their range.
    """
    x, scale, zero = (_number(e, call, index) for index in range(3))
    steps = (x / scale + zero).of(tensor.RoundOp)
    mode = call.text("rounding_mode", "FLOOR").upper()
    if len(call.inputs) == 5:
        bits, left = (_bits(_one_number(e, call, index, "bit width")) for index in (3, 4))
        levels = _rounded(e, (steps / 2.0 ** (bits - left)).value, mode)
        return ((Formula(e, levels) - zero) * scale).value
    refuse(len(call.inputs) != 6, "only the forms with five and six inputs are known")
    ratio = _one_number(e, call, 4, "output scale") / _one_number(e, call, 1, "scale")
    refuse(not ratio > 0, "its output scale is no positive multiple of its scale")
    by = 2.0 ** round(np.log2(ratio))
    bits = _bits(_one_number(e, call, 5, "bit width"))
    low, high = _range(call, bits, signed=True, narrow=False)
    levels = _rounded(e, (steps / by).maximum(low).minimum(high).value, mode)
    return ((Formula(e, levels) - zero / by) * _number(e, call, 4)).value


def _multi_threshold(e: Builder, call: Call) -> SSAValue:
    """How many thresholds of its channel each number reaches, times a scale, plus a bias."""
    x = call[0]
    # qonnx takes rank 3 without a layout for channels last, and every other for channels second.
    layout = call.text("data_layout", "") or ("NWC" if e.rank(x) == 3 else "NC")
    axis = layout.index("C") if "C" in layout else 1
    counted = e.add(tensor.MultiThresholdOp(x, e.convert(call[1], x), axis=axis))
    levels = Formula(e, e.convert(counted, x))
    return (levels * call.number("out_scale", 1.0) + call.number("out_bias", 0.0)).value


def _quant_avg_pool(e: Builder, call: Call) -> SSAValue:
    """qonnx's `QuantAvgPool2d`: sums of windows of integers, without their lowest bits."""
    kernel, stride = call.integer("kernel", 1), call.integer("stride", 1)
    size = kernel * kernel
    given, left = (int(_bits(call.integer(name, 1))) for name in ("ibits", "obits"))
    lost = max((((1 << given) - 1) * size).bit_length() - left, 0)
    last = call.text("data_layout", "NCHW") == "NHWC"
    x = e.move_axis(call[0], -1, 1) if last else call[0]
    means = Formula(e, e.add(tensor.AvgPoolOp(x, [kernel] * 2, [stride] * 2, [0] * 4)))
    sums = (means * float(size)).of(tensor.RoundOp)
    result = (sums / 2.0**lost).of(tensor.FloorOp).value
    return e.move_axis(result, 1, -1) if last else result


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
    "IntQuant": _quant,
    "MultiThreshold": _multi_threshold,
    "Quant": _quant,
    "QuantAvgPool2d": _quant_avg_pool,
    "Trunc": _trunc,
}
"""Operators of qonnx; earlier files have them in Brevitas' domain."""
