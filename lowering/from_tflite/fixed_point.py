"""LiteRT's integer arithmetic in IR: factors as multiplier and shift, grids, ranges of activations.

LiteRT multiplies an i32 sum by a real factor m·2^-s, 31 bits of m (Jacob et al. 2018, section 2.2),
and its kernels round that in different ways. Most reference kernels round twice: x·m/2^31, halves
up, then the rest of the shift, halves away from zero. FULLY_CONNECTED rounds once, halves away from
zero. XNNPACK multiplies by a float32 and rounds once, halves to even; its sums of two tensors have
multipliers of 21 bits. `Builder.rounding` chooses among the reference kernels, XNNPACK where it has
a kernel, and one `tensor.requantize`, which rounds once, halves up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.fixed_point import fixed_points
from ...ir.arrays import Array
from ...ir.errors import TritonError
from ..problems import ProblemError, refuse
from ..to_tflite.multipliers import multiplier_of
from .model import Quantization
from .tflite_builder import Builder, Node

UI8: Attribute = IntegerType(8, Signedness.UNSIGNED)

LARGEST_SUM = (1 << 31) - 1
"""No i32 is larger."""

RANGES: dict[Attribute, tuple[int, int]] = {
    i8: (-128, 127),
    UI8: (0, 255),
    i16: (-32768, 32767),
    i32: (-(1 << 31), LARGEST_SUM),
}
"""The least and the greatest integer of each element type."""

RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
"""Fused activations by their number in the schema."""


def centred(e: Builder, x: SSAValue, scales: Quantization) -> SSAValue:
    """x minus its zero point, as i32."""
    wide = e.convert(x, i32)
    return wide if scales.zero == 0 else e.add(tensor.SubOp(wide, e.number(scales.zero, i32)))


def grid_range(element: Attribute) -> tuple[int, int]:
    """The least and the greatest integer of an element type.

    Raises:
        ProblemError: it does not stand for real numbers.
    """
    if element not in RANGES:
        raise ProblemError(f"elements of {element} do not stand for real numbers in LiteRT")
    return RANGES[element]


def activation_range(node: Node) -> tuple[int, int]:
    """The integers that a fused activation lets through."""
    low, high = grid_range(node.element)
    scales, kind = node.result_scales(), node.integer("fusedActivationFunction")

    def level(value: float) -> int:
        steps = np.float32(value) / np.float32(scales.scale[0])
        return scales.zero + int(np.floor(abs(steps) + 0.5) * np.sign(steps))

    if kind in (RELU, RELU6):
        low = max(low, scales.zero)
    if kind == RELU_N1_TO_1:
        low, high = max(low, level(-1)), min(high, level(1))
    if kind == RELU6:
        high = min(high, level(6))
    if kind not in (0, RELU, RELU_N1_TO_1, RELU6):
        raise ProblemError(f"its fused activation {kind} has no integer form")
    return low, high


def rescaled_in_floats(
    e: Builder,
    x: SSAValue,
    factors: Array,
    zero: int,
    element: Attribute,
    bounds: tuple[int, int],
    axis: int = 1,
    *,
    added: np.floating | None = None,
) -> SSAValue:
    """clamp(round(float32(x)·factor) + zero), halves to even, as XNNPACK does.

    `MlasRequantizeOutput` of ONNX Runtime and `xnn_init_qs8_*_conv_minmax_fp32_*` are the same.

    Args:
        x: i32.
        factors: float32, one or one for each place on `axis`.
        zero: the zero point of the result.
        element: of the result.
        bounds: of the result, zero point included.
        axis: of x.
        added: float32, to the product before it is rounded.
    """
    if factors.size == 1:
        scale = e.known(factors.reshape(()))
    else:
        scale = e.along(e.known(factors), axis, e.rank(x))
    scaled = e.add(tensor.MulOp(e.convert(x, f32), scale))
    if added is not None:
        scaled = e.add(tensor.AddOp(scaled, e.known(np.asarray(added, np.float32))))
    return _stepped(e, scaled, np.float32(1), zero, element, bounds)


def has_float_kernel(e: Builder, *elements: Attribute) -> bool:
    """Whether sums of products of such elements are rescaled as XNNPACK does."""
    return e.rounding == "xnnpack" and all(element in (i8, UI8) for element in elements)


def rescaled(
    e: Builder,
    x: SSAValue,
    factors: ArrayLike,
    zero: int,
    element: Attribute,
    bounds: tuple[int, int] | None = None,
    *,
    largest: int | None = None,
    axis: int = 1,
) -> SSAValue:
    """clamp(round(x·factor) + zero), rounded as LiteRT's reference kernels do.

    Args:
        x: i32.
        factors: one real factor, or one for each place on `axis`.
        zero: the zero point of the result.
        element: of the result.
        bounds: of the result, zero point included; by default those of the type.
        largest: no |x| is larger; given where the kernel rounds once, halves away from zero.
        axis: of x.
    """
    real = np.asarray(factors, np.float64)
    real = real.reshape(()) if real.size == 1 else real
    low, high = bounds if bounds is not None else grid_range(element)
    if e.rounding == "once":
        result = _once(e, x, real, zero, (low, high), element, axis)
    elif largest is not None:
        result = _away(e, x, real, zero, (low, high), element, axis, largest)
    else:
        result = multiplied(e, x, *multiplier_of(real), zero, (low, high), element, axis)
    return e.convert(result, element)


def _once(
    e: Builder, x: SSAValue, real: Array, zero: int, bounds: tuple[int, int], element: Attribute,
    axis: int,
) -> SSAValue:  # fmt: skip
    """One rounding, halves up."""
    multipliers, shifts = _fixed(real)
    return _requantized(e, x, multipliers, shifts, zero, element, bounds, axis)


def _fixed(real: Array) -> tuple[Array, Array]:
    try:
        return fixed_points(real)
    except TritonError as error:
        raise ProblemError(str(error)) from None


def _away(
    e: Builder, x: SSAValue, real: Array, zero: int, bounds: tuple[int, int], element: Attribute,
    axis: int, largest: int,
) -> SSAValue:  # fmt: skip
    """One rounding, halves away from zero.

    This differs from halves up for a negative x whose product is a half exactly, which takes
    |x| ≥ 2^(s-1) with m odd: for most scales no x is as large.
    """
    multipliers, shifts = _fixed(real)
    halves = (multipliers % 2 == 1) & (np.ldexp(1.0, shifts - 1) <= largest)
    if not halves.any():
        return _requantized(e, x, multipliers, shifts, zero, element, bounds, axis)
    sign, size = e.add(tensor.SignOp(x)), e.add(tensor.AbsOp(x))
    size = _requantized(e, size, multipliers, shifts, 0, i32, (0, 1 << 30), axis)
    steps = e.add(tensor.MulOp(size, sign))
    return clamped(e, e.add(tensor.AddOp(steps, e.number(zero, i32))), *bounds, element)


def multiplied(
    e: Builder, x: SSAValue, multipliers: Array, exponents: Array, zero: int,
    bounds: tuple[int, int], element: Attribute, axis: int = 1,
) -> SSAValue:  # fmt: skip
    """x·m/2^31 rounded, halves up, then divided by the rest, halves away from zero.

    i32 where a rescaling cannot be of `element`.
    """
    left, right = np.maximum(exponents, 0), np.maximum(-exponents, 0)
    refuse((left > 30).any(), "its scales differ by more than 2^30")
    if not right.any():
        return _requantized(e, x, multipliers, 31 - left, zero, element, bounds, axis)
    part = _requantized(e, x, multipliers, 31 - left, 0, i32, RANGES[i32], axis)
    negative = e.convert(e.add(tensor.CompareOp(part, e.number(0, i32), "lt")), i32)
    if not right.all():
        moves = e.known((right > 0).astype(np.int32), i32)
        negative = e.add(tensor.MulOp(negative, e.along(moves, axis, e.rank(x))))
    # A half less than zero moves below the half, and is rounded down.
    moved = e.add(tensor.SubOp(part, negative))
    ones = np.where(right > 0, 1, 2)
    return _requantized(e, moved, ones, np.maximum(right, 1), zero, element, bounds, axis)


def _requantized(
    e: Builder, x: SSAValue, multipliers: Array, shifts: Array, zero: int, element: Attribute,
    bounds: tuple[int, int], axis: int,
) -> SSAValue:  # fmt: skip
    """`tensor.requantize`; i32 where its result cannot be of `element`."""
    m, s = (e.known(np.asarray(values, np.int32), i32) for values in (multipliers, shifts))
    z = e.number(zero, element if element in (i8, i16) else i32)
    return e.add(tensor.RequantizeOp(x, m, s, z, axis=axis, low=bounds[0], high=bounds[1]))


def in_256ths(
    e: Builder, x: SSAValue, factor: np.floating, zero: int, element: Attribute
) -> SSAValue:
    """clamp(round(x·factor) + zero), the factor in 256ths, halves up: XNNPACK between two grids."""
    steps = e.number(int(np.rint(factor * 256)), i32)
    scaled = e.add(tensor.MulOp(x, steps))
    return shifted(e, scaled, 8, zero, element, grid_range(element))


def shifted(
    e: Builder, x: SSAValue, shift: int, zero: int, element: Attribute, bounds: tuple[int, int]
) -> SSAValue:
    """clamp(⌊x/2^shift + 1/2⌋ + zero)."""
    refuse(not 0 < shift < 31, "its scales differ by more than 2^9")
    result = _requantized(e, x, np.array(1), np.array(shift), zero, element, bounds, 1)
    return e.convert(result, element)


def clamped(e: Builder, x: SSAValue, low: int, high: int, element: Attribute) -> SSAValue:
    """Integers between bounds, as `element`."""
    above = e.add(tensor.MaximumOp(x, e.number(low, x)))
    return e.convert(e.add(tensor.MinimumOp(above, e.number(high, x))), element)


def rescaled_wide(
    e: Builder,
    x: SSAValue,
    factors: ArrayLike,
    bounds: tuple[int, int],
    element: Attribute,
    axis: int,
    *,
    bits: int,
) -> SSAValue:
    """The forms LiteRT has for i64 sums of 16-bit activations; zero points are 0.

    LiteRT asks for |x| < 2^47. With 16 `bits` of the multiplier x·m + 2^(s-1) then stays below
    2^63. With 32 the lower half of x is multiplied by itself: ⌊(h·2^16 + l)·m / 2^s⌋ is
    ⌊(h·m + ⌊l·m / 2^16⌋) / 2^(s-16)⌋.
    """
    full, exponents = multiplier_of(np.asarray(factors, np.float64).reshape(-1))
    if bits == 16:
        full = np.where(full < 0x7FFF0000, (full + (1 << 15)) >> 16, 0x7FFF)
    shifts = bits - 1 - exponents
    refuse((shifts < bits - 15).any() or (shifts > 62).any(), "its scales differ by more than 2^15")

    def along(values: Array) -> SSAValue:
        vector = e.known(values.astype(np.int64), i64)
        return e.reshape(vector, ()) if values.size == 1 else e.along(vector, axis, e.rank(x))

    def power(exponents: Array) -> SSAValue:
        return along(np.left_shift(np.int64(1), exponents))

    def floor(value: SSAValue, divisor: SSAValue) -> SSAValue:
        rest = e.add(tensor.ModOp(value, divisor))
        return e.add(tensor.DivOp(e.add(tensor.SubOp(value, rest)), divisor))

    multiplier, half = along(full), power(shifts - 1)
    if bits == 16:
        product = e.add(tensor.AddOp(e.add(tensor.MulOp(x, multiplier)), half))
        return clamped(e, floor(product, power(shifts)), *bounds, element)
    step = e.number(1 << 16, i64)
    high, low = floor(x, step), e.add(tensor.ModOp(x, step))
    lower = e.add(tensor.AddOp(e.add(tensor.MulOp(low, multiplier)), half))
    product = e.add(tensor.AddOp(e.add(tensor.MulOp(high, multiplier)), floor(lower, step)))
    return clamped(e, floor(product, power(shifts - 16)), *bounds, element)


# Between integers and real numbers.


def real_values(e: Builder, x: SSAValue, scales: Quantization) -> SSAValue:
    """scale·(x - zero point) in f32."""
    element = tensor_type(x).element_type
    rank = e.rank(x)
    if scales.is_per_axis:
        if not -rank <= scales.axis < rank or e.sizes(x)[scales.axis] != scales.scale.size:
            raise ProblemError("its scales do not fit an axis of the tensor")
        scale = e.known(scales.scale.astype(np.float32))
        zero = e.known(scales.zero_point.astype(np.int32), i32)
    else:
        scale = e.known(np.asarray(scales.scale[0], np.float32))
        zero = e.number(scales.zero, i32)
    axis = scales.axis % rank if rank else 0
    # One axis of the scale is enough for tensors of any rank.
    if rank and element in (i8, i16, i32, UI8):
        return e.add(tensor.DequantizeOp(x, scale, e.convert(zero, element), axis=axis))
    steps = e.add(tensor.SubOp(e.convert(x, i32), zero))
    return e.add(tensor.MulOp(e.convert(steps, f32), scale))


def quantized(e: Builder, x: SSAValue, scales: Quantization, element: Attribute) -> SSAValue:
    """clamp(round(x/scale) + zero point)."""
    low, high = grid_range(element)
    refuse(scales.is_per_axis or (scales.scale == 0).any(), "activations have one scale")
    return _stepped(e, e.convert(x, f32), scales.scale[0], scales.zero, element, (low, high))


def _stepped(
    e: Builder, x: SSAValue, step: np.floating, zero: int, element: Attribute,
    bounds: tuple[int, int],
) -> SSAValue:  # fmt: skip
    """clamp(round(x/step) + zero) for x of f32."""
    low, high = bounds
    scale = e.known(np.asarray(step, np.float32))
    if element in (i8, i16) and e.rank(x):
        start = e.number(zero, element)
        return e.add(tensor.QuantizeOp(x, scale, start, axis=0, low=low, high=high))
    steps = e.add(tensor.RoundOp(e.add(tensor.DivOp(x, scale))))
    shifted = e.add(tensor.AddOp(steps, e.number(zero, f32)))
    bounded = e.add(tensor.MaximumOp(shifted, e.number(low, f32)))
    return e.convert(e.add(tensor.MinimumOp(bounded, e.number(high, f32))), element)
