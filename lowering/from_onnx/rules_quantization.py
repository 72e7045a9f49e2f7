"""ONNX import of the standard's quantisation. Not here: qonnx and Brevitas (`rules_qonnx`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.formula import Formula
from ..problems import refuse
from .calls import element_type
from .formats import UI8
from .inputs import type_of_proto, type_of_value
from .onnx_builder import Builder, Call, Results, Rule
from .rules_conversion import encoded, numbers
from .rules_index import take
from .values import Levels

UI16: Attribute = IntegerType(16, Signedness.UNSIGNED)

_UNSIGNED = (UI8, UI16)
"""What becomes signed integers, by half of the range less."""


def spread(e: Builder, vector: SSAValue, x: SSAValue, axis: int, block: int) -> SSAValue:
    """A scale or zero point shaped to broadcast with x."""
    rank = e.rank(x)
    if e.rank(vector) == 0 or (e.rank(vector) == 1 and e.sizes(vector) == (1,)):
        return e.reshape(vector, ())
    if e.rank(vector) == 1 and not block:
        return e.along(vector, axis % rank, rank)
    if e.rank(vector) == rank and e.sizes(vector)[axis] == 1:
        return vector
    sizes = e.shape(x)
    if not block:
        (have,) = {*e.shape(vector)[axis : axis + 1 or None]}
        block = -(-sizes[axis] // have)
    places = np.arange(sizes[axis]) // block
    return take(e, vector, axis % rank, places)


def quantized(
    e: Builder,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue,
    axis: int = 1,
    block: int = 0,
    computed_in: Attribute | None = None,
    bounds: tuple[int, int] | None = None,
) -> SSAValue:
    """clamp(round(x/scale) + zero point), of the type of the zero point; that of integers.

    It is clamped to `bounds`, by default all that the type holds.
    """
    element, format = type_of_value(e, zero)
    info = np.iinfo(numpy_dtype(element))
    whole = (int(info.min), int(info.max)) if format is None else format.bounds
    low, high = bounds or whole
    simple = e.rank(scale) in (0, 1) and e.rank(zero) in (0, 1) and not block
    single = tensor_type(scale).element_type == f32 and computed_in in (None, f32)
    if single and element in (i8, i16) and simple and e.rank(x):
        parts = [e.reshape(v, ()) if e.sizes(v) == (1,) else v for v in (scale, zero)]
        levels = e.add(tensor.QuantizeOp(e.convert(x, f32), *parts, axis=axis, low=low, high=high))
    elif (
        single and element in _UNSIGNED and format is None and simple and e.rank(x)
        and e.is_known(zero)
    ):  # fmt: skip
        half = int(info.max) // 2 + 1
        parts = [
            e.reshape(v, ()) if e.sizes(v) == (1,) else v for v in (scale, signed_zero(e, zero))
        ]
        ends = {"low": low - half, "high": high - half}
        signed = e.add(tensor.QuantizeOp(e.convert(x, f32), *parts, axis=axis, **ends))
        wide = e.add(tensor.AddOp(e.convert(signed, i32), e.number(half, i32)))
        levels = e.convert(wide, element)
        e.signed[levels] = signed
    else:
        steps = _divided(e, x, scale, axis, block, computed_in).of(tensor.RoundOp)
        steps = Formula(e, e.convert(steps.value, f32))
        steps = steps + Formula(e, spread(e, e.convert(zero, f32), x, axis, block))
        levels = e.convert(steps.maximum(low).minimum(high).value, element)
    if format is not None:
        e.formats[levels] = format
    return levels


def signed_zero(e: Builder, zero: SSAValue) -> SSAValue:
    """A known zero point of unsigned integers as that of signed ones."""
    levels = e.arrays[zero]
    half = np.iinfo(levels.dtype).max // 2 + 1
    signed = np.dtype(f"int{8 * levels.itemsize}")
    return e.known((levels.astype(np.int64) - half).astype(signed), element_type(signed))


def requantized(
    e: Builder, sums: SSAValue, scales: Sequence[SSAValue], scale: SSAValue, zero: SSAValue
) -> SSAValue:
    """Integer sums as integers of `scale`; `scales`, of the operands, broadcast with the sums.

    One factor takes the sums there, as ONNX Runtime does it: at halves the order of the
    operations shows.
    """
    factor = Formula(e, scales[0])
    for each in scales[1:]:
        factor = factor * Formula(e, each)
    factor = factor / Formula(e, spread(e, scale, sums, 1, 0))
    steps = Formula(e, e.convert(sums, f32)) * Formula(e, e.convert(factor.value, f32))
    return quantized(e, steps.value, e.number(1, f32), zero)


def _divided(
    e: Builder, x: SSAValue, scale: SSAValue, axis: int, block: int, element: Attribute | None
) -> Formula:
    """x/scale, in `element` or in the type of the scale."""
    scale = numbers(e, scale)
    if element is None:
        element = tensor_type(scale).element_type if is_float(tensor_type(scale)) else f32
    factor = spread(e, e.convert(scale, element), x, axis, block)
    return Formula(e, e.convert(x, element)) / Formula(e, factor)


def _is_zero(e: Builder, zero: SSAValue) -> bool:
    """Whether a zero point is known to be 0; adding it would turn -0 into 0."""
    return zero in e.arrays and not e.arrays[zero].any()


def _quantize(e: Builder, call: Call) -> SSAValue:
    x, scale, zero = call[0], call[1], call.optional(2)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    output_dtype, wide = (call.integer(name, 0) for name in ("output_dtype", "precision"))
    if zero is not None:
        element, format = type_of_value(e, zero)
    else:
        element, format = type_of_proto(output_dtype) if output_dtype else (UI8, None)
    computed_in = type_of_proto(wide)[0] if wide else None
    if format is not None and format.is_float:
        steps = _divided(e, x, scale, axis, block, computed_in)
        if zero is not None and not _is_zero(e, zero):
            shift = e.convert(numbers(e, zero), steps.value)
            steps = steps + Formula(e, spread(e, shift, x, axis, block))
        return encoded(e, steps.value, format, saturate=call.flag("saturate", True))
    refuse(numpy_dtype(element).kind not in "iu", "it quantizes to floats")
    if zero is None:
        zero = e.number(0, element)
        if format is not None:
            e.formats[zero] = format
    return quantized(e, x, scale, zero, axis, block, computed_in)


def _dequantize(e: Builder, call: Call) -> SSAValue:
    x, scale, zero = call[0], numbers(e, call[1]), call.optional(2)
    refuse(is_float(tensor_type(x)), "its input is no integer")
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    wanted = call.integer("output_dtype", 0)
    result = type_of_proto(wanted)[0] if wanted else tensor_type(scale).element_type
    codes = (format := e.formats.get(x)) is not None and format.is_float
    none = zero is None or _is_zero(e, zero)
    x = numbers(e, x)
    zero = e.number(0, x) if zero is None else numbers(e, zero)
    simple = e.rank(scale) in (0, 1) and e.rank(zero) in (0, 1) and not block
    if (
        simple
        and e.rank(x)
        and tensor_type(scale).element_type == result == f32
        and (tensor_type(x).element_type in (i8, i16, i32, UI8) or x in e.signed)
    ):
        if x in e.signed and e.is_known(zero):
            x, zero = e.signed[x], signed_zero(e, zero)
        parts = [e.reshape(v, ()) if e.sizes(v) == (1,) else v for v in (scale, zero)]
        floats = e.add(tensor.DequantizeOp(x, *parts, axis=axis))
        if e.is_known(floats) and not codes and all(map(e.is_known, parts)):
            e.levels[floats] = Levels(x, parts[0], parts[1], axis)
        return floats
    exact = f32 if codes else i32
    steps = e.convert(x, exact)
    if not none:
        shift = spread(e, e.convert(zero, exact), x, axis, block)
        steps = e.add(tensor.SubOp(steps, shift))
    # Scales of 8 bits are powers of two that only wider floats than half precision hold.
    wide = f32 if codes else result
    factor = spread(e, e.convert(scale, wide), x, axis, block)
    return e.convert(e.add(tensor.MulOp(e.convert(steps, wide), factor)), result)


def _dynamic_quantize(e: Builder, call: Call) -> Results:
    x = call[0]
    axes = list(range(e.rank(x)))
    top = Formula(e, e.add(tensor.ReduceMaxOp(x, axes))).maximum(0)
    low = Formula(e, e.add(tensor.ReduceMinOp(x, axes))).minimum(0)
    scale = (top - low) / 255
    flat = e.add(tensor.CompareOp(scale.value, e.number(0, f32), "eq"))
    safe = Formula(e, e.add(tensor.WhereOp(flat, e.number(1, f32), scale.value)))
    zero = (0 - low / safe).maximum(0).minimum(255).of(tensor.RoundOp)
    steps = (Formula(e, x) / safe).of(tensor.RoundOp) + zero
    levels = e.convert(steps.maximum(0).minimum(255).value, UI8)
    return levels, scale.value, e.convert(zero.value, UI8)


RULES: dict[str, Rule] = {
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QuantizeLinear": _quantize,
}
"""By the type of the operator."""
