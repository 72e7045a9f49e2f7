"""ONNX import of casts between element types, also those that the IR holds in bytes."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import bit_width, is_float
from ..problems import refuse
from .formats import ROUND_MODES, UI8, Format, rounding
from .inputs import type_of_proto, type_of_value
from .onnx_builder import Builder, Call, Rule
from .rules_bits import counted_thresholds, is_negative, no_number


def _cast(e: Builder, call: Call) -> SSAValue:
    from onnx import TensorProto

    to = call.attributes.get("to")
    number = TensorProto.DataType.Value(to) if isinstance(to, str) else call.integer("to", 0)
    return _converted(e, call, *type_of_proto(number))


def _converted(e: Builder, call: Call, element: Attribute, format: Format | None) -> SSAValue:
    mode = call.text("round_mode", "up")
    refuse(mode not in ROUND_MODES, f"its round_mode '{mode}' is unknown")
    saturate = call.flag("saturate", True)
    return cast(e, call[0], element, format, saturate=saturate, mode=mode)


def cast(
    e: Builder,
    x: SSAValue,
    element: Attribute,
    format: Format | None = None,
    *,
    saturate: bool = True,
    mode: str = "up",
) -> SSAValue:
    """x with other elements; sums that were integers all along are those again.

    Integers of fewer than 8 bits keep their lowest bits. Floats of 8 and fewer bits are rounded to
    the nearest, ties to even; `saturate` and `mode` are those of the operator `Cast`.
    """
    source = e.formats.get(x)
    if source is not None and source == format:
        return x
    x = numbers(e, x)
    if format is not None and format.is_float:
        return encoded(e, x, format, saturate=saturate, mode=mode)
    if format is not None:
        return _narrowed(e, x, format)
    if x in e.exact and element == i32:
        return e.exact[x]
    result = e.convert(x, element)
    return e.bare(x) if result is x and x in e.formats else result


def numbers(e: Builder, x: SSAValue) -> SSAValue:
    """The values of x as elements that can be computed with: those of codes as `f32`."""
    format = e.formats.get(x)
    if format is None or not format.is_float:
        return x
    values = format.values()
    odd = np.isnan(values)
    codes = e.codes(x)
    table = e.known(np.where(odd, 1, values).astype(np.float32))
    floats = e.add(tensor.GatherRowsOp(table, codes))
    if not odd.any():
        return floats
    which = e.known(odd.astype(np.int8))
    is_odd = e.add(tensor.GatherRowsOp(which, codes))
    return no_number(e, e.add(tensor.CompareOp(is_odd, e.number(0, is_odd), "ne")), floats)


def encoded(
    e: Builder, x: SSAValue, format: Format, *, saturate: bool = True, mode: str = "up"
) -> SSAValue:
    """The codes of numbers; see `cast`. The sign of NaN is lost."""
    width = bit_width(tensor_type(x).element_type)
    wide = tensor_type(x).element_type == f64 or (width is not None and width > 16)
    x = e.convert(x, f64 if wide else f32)
    table = rounding(format, numpy_dtype(tensor_type(x).element_type), saturate, mode)
    size = e.add(tensor.AbsOp(x))
    code = counted_thresholds(e, size, table.thresholds)
    count = code

    def instead(condition: SSAValue, other: SSAValue) -> SSAValue:
        return e.add(tensor.WhereOp(condition, other, code))

    if table.sign:
        if table.zero_has_sign:
            negative = is_negative(e, x)
        else:
            some = e.add(tensor.CompareOp(count, e.number(0, i32), "gt"))
            below = e.add(tensor.CompareOp(x, e.number(0, x), "lt"))
            negative = e.add(tensor.AndOp(below, some))
        code = instead(negative, e.add(tensor.AddOp(code, e.number(table.sign, i32))))
    nan = e.number(format.nan, i32)
    if table.above is not None and not table.zero_has_sign:
        code = instead(e.add(tensor.CompareOp(count, e.number(table.above, i32), "eq")), nan)
    if table.least is not None:
        code = instead(e.add(tensor.CompareOp(size, e.number(table.least, x), "lt")), nan)
    code = instead(e.add(tensor.CompareOp(x, x, "ne")), nan)
    result = e.convert(code, UI8)
    e.formats[result] = format
    return result


def _narrowed(e: Builder, x: SSAValue, format: Format) -> SSAValue:
    """The lowest bits of integers; floats are cut to integers first."""
    if is_float(tensor_type(x)):
        x = e.convert(x, i32)
    x = e.convert(x, format.element)
    count = 1 << format.bits
    rest = e.add(tensor.ModOp(x, e.number(count, x)))
    if format.signed:
        high = e.add(tensor.CompareOp(rest, e.number(count // 2, x), "ge"))
        lower = e.add(tensor.SubOp(rest, e.number(count, x)))
        rest = e.add(tensor.WhereOp(high, lower, rest))
    e.formats[rest] = format
    return rest


RULES: dict[str, Rule] = {
    "Cast": _cast,
    "CastLike": lambda e, call: _converted(e, call, *type_of_value(e, call[1])),
}
"""By the type of the operator."""
