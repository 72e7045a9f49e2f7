"""Rules of quantisation: the standard's, and those of qonnx and Brevitas."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i16, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ..from_torch.sizes import ProblemError
from .emitter import Call, Emitter, Rule, element_type
from .reading import require_onnx
from .rules_activation import Formula
from .rules_elementwise import truncated
from .rules_index import take

UI8 = IntegerType(8, Signedness.UNSIGNED)


def _spread(e: Emitter, vector: SSAValue, x: SSAValue, axis: int, block: int) -> SSAValue:
    """A scale or zero point shaped to broadcast with x."""
    rank = e.rank(x)
    if e.rank(vector) == 0 or (e.rank(vector) == 1 and e.sizes(vector) == (1,)):
        return e.reshape(vector, ())
    if e.rank(vector) == 1 and not block:
        return e.along(vector, axis % rank, rank)
    sizes = e.shape(x)
    if not block:
        (have,) = {*e.shape(vector)[axis : axis + 1 or None]}
        block = -(-sizes[axis] // have)
    places = np.arange(sizes[axis]) // block
    return take(e, vector, axis % rank, places)


def quantized(
    e: Emitter, x: SSAValue, scale: SSAValue, zero: SSAValue, axis: int = 1, block: int = 0
) -> SSAValue:
    """clamp(round(x/scale) + zero point), of the type of the zero point."""
    element = tensor_type(zero).element_type
    info = np.iinfo(numpy_dtype(element))
    simple = e.rank(scale) in (0, 1) and e.rank(zero) in (0, 1) and not block
    if tensor_type(scale).element_type == f32 and element in (i8, i16) and simple and e.rank(x):
        parts = [e.reshape(v, ()) if e.sizes(v) == (1,) else v for v in (scale, zero)]
        low, high = int(info.min), int(info.max)
        return e.add(tensor.QuantizeOp(e.convert(x, f32), *parts, axis=axis, low=low, high=high))
    wide = e.convert(x, f32)
    scale, zero = (_spread(e, e.convert(v, f32), x, axis, block) for v in (scale, zero))
    steps = (Formula(e, wide) / Formula(e, scale)).of(tensor.RoundOp) + Formula(e, zero)
    return e.convert(steps.maximum(int(info.min)).minimum(int(info.max)).value, element)


def _quantize(e: Emitter, call: Call) -> SSAValue:
    x, scale, zero = call[0], call[1], call.optional(2)
    if zero is None:
        dtype = np.dtype(np.uint8)
        if call.get("output_dtype", 0):
            dtype = np.dtype(
                require_onnx().helper.tensor_dtype_to_np_dtype(call.get("output_dtype"))
            )
        zero = e.number(0, element_type(dtype))
    if is_float(tensor_type(zero)):
        raise ProblemError("it quantizes to floats")
    axis = call.get("axis", 1)
    return quantized(e, x, scale, zero, axis, int(call.get("block_size", 0)))


def _dequantize(e: Emitter, call: Call) -> SSAValue:
    x, scale, zero = call[0], call[1], call.optional(2)
    if is_float(tensor_type(x)):
        raise ProblemError("its input is no integer")
    axis, block = call.get("axis", 1), int(call.get("block_size", 0))
    zero = e.number(0, x) if zero is None else zero
    simple = e.rank(scale) in (0, 1) and e.rank(zero) in (0, 1) and not block
    if (
        simple
        and e.rank(x)
        and tensor_type(scale).element_type == f32
        and tensor_type(x).element_type in (i8, i16, UI8)
    ):
        parts = [e.reshape(v, ()) if e.sizes(v) == (1,) else v for v in (scale, zero)]
        return e.add(tensor.DequantizeOp(x, *parts, axis=axis))
    factor = _spread(e, scale, x, axis, block)
    steps = e.add(tensor.SubOp(e.convert(x, i32), _spread(e, e.convert(zero, i32), x, axis, block)))
    return e.add(tensor.MulOp(e.convert(steps, factor), factor))


def _dynamic_quantize(e: Emitter, call: Call) -> Any:
    x = call[0]
    axes = list(range(e.rank(x)))
    top = Formula(e, e.add(tensor.ReduceMaxOp(x, axes))).maximum(0)
    low = Formula(e, e.add(tensor.ReduceMinOp(x, axes))).minimum(0)
    scale = (top - low) / 255
    flat = e.add(tensor.CompareOp(scale.value, e.number(0, f32), "eq"))
    safe = Formula(e, e.add(tensor.WhereOp(flat, e.number(1, f32), scale.value)))
    zero = (0 - low / safe).maximum(0).minimum(255).of(tensor.RoundOp)
    steps = (Formula(e, x) / safe).of(tensor.RoundOp) + zero
    made = e.convert(steps.maximum(0).minimum(255).value, UI8)
    return made, scale.value, e.convert(zero.value, UI8)


# qonnx and Brevitas.


def _rounded(e: Emitter, x: SSAValue, mode: str) -> SSAValue:
    up = e.add(tensor.NegOp(e.add(tensor.FloorOp(e.add(tensor.NegOp(x))))))
    if mode in ("ROUND", "HALF_EVEN"):
        return e.add(tensor.RoundOp(x))
    if mode in ("CEIL",):
        return up
    if mode == "FLOOR":
        return e.add(tensor.FloorOp(x))
    if mode in ("ROUND_TO_ZERO", "DOWN"):
        return truncated(e, x)
    size, sign = Formula(e, x).of(tensor.AbsOp), Formula(e, x).of(tensor.SignOp)
    if mode == "UP":
        return (sign * (0 - (0 - size).of(tensor.FloorOp))).value
    if mode == "HALF_UP":
        return (sign * (size + 0.5).of(tensor.FloorOp)).value
    if mode == "HALF_DOWN":
        return (sign * (0 - (0.5 - size).of(tensor.FloorOp))).value
    raise ProblemError(f"its rounding mode '{mode}' is unknown")


def _quant(e: Emitter, call: Call) -> SSAValue:
    """(clamp(round(x/scale + zero point)) - zero point)·scale of `bit_width` bits."""
    x, scale, zero = call[0], Formula(e, call[1]), Formula(e, call[2])
    bits = float(e.array(call[3], "bit width").reshape(-1)[0])
    signed, narrow = bool(call.get("signed", 1)), bool(call.get("narrow", 0))
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
    made = _rounded(e, steps.value, str(call.get("rounding_mode", "ROUND")).upper())
    return ((Formula(e, made) - zero) * scale).value


def _bipolar(e: Emitter, call: Call) -> SSAValue:
    """scale where x ≥ 0, else -scale."""
    x = call[0]
    positive = e.add(tensor.CompareOp(x, e.number(0, x), "ge"))
    signs = e.add(tensor.WhereOp(positive, e.number(1, x), e.number(-1, x)))
    return e.add(tensor.MulOp(signs, call[1]))


def _trunc(e: Emitter, call: Call) -> SSAValue:
    """qonnx's first `Trunc`: the highest bits of a quantised number."""
    if len(call.inputs) != 5:
        raise ProblemError("only the form with five inputs is known")
    x, scale, zero = (Formula(e, call[index]) for index in range(3))
    bits, kept = (float(e.array(call[index], "bit width").reshape(-1)[0]) for index in (3, 4))
    steps = (x / scale + zero).of(tensor.RoundOp) / 2.0 ** (bits - kept)
    made = _rounded(e, steps.value, str(call.get("rounding_mode", "FLOOR")).upper())
    return ((Formula(e, made) - zero) * scale).value


def _float_quant(e: Emitter, call: Call) -> SSAValue:
    """qonnx's `FloatQuant`: the nearest number of a small floating-point format, times scale."""
    x, scale = Formula(e, call[0]), Formula(e, call[1])
    exponent, mantissa, bias, top = (
        float(e.array(call[index], "format").reshape(-1)[0]) for index in range(2, 6)
    )
    del exponent
    if not call.get("saturation", 1) or not call.get("has_subnormal", 1):
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
    mode = str(call.get("rounding_mode", "ROUND")).upper()
    steps = Formula(e, _rounded(e, (y / step).value, mode))
    least = -top if call.get("signed", 1) else 0.0
    return ((steps * step).maximum(least).minimum(top) * scale).value


RULES: dict[str, Rule] = {
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QuantizeLinear": _quantize,
}
"""By the type of the operator."""

QONNX: dict[str, Rule] = {
    "BipolarQuant": _bipolar,
    "FloatQuant": _float_quant,
    "Quant": _quant,
    "Trunc": _trunc,
}
"""Operators of qonnx; earlier files have them in Brevitas' domain."""
