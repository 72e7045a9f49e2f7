"""ONNX import of bits: shifts, logic, and, by arithmetic, floats as integers and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, f64, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...ir.arrays import Array, Dtype
from ..problems import refuse
from .formats import UI8, Format
from .inputs import dtype_of_value, type_of_proto
from .onnx_builder import Builder, Call, Rule
from .rules_elementwise import binary, unary

UI64: Attribute = IntegerType(64, Signedness.UNSIGNED)


def _shift(e: Builder, call: Call) -> SSAValue:
    left = call.text("direction", "") == "LEFT"
    return e.add((tensor.ShiftLeftOp if left else tensor.ShiftRightOp)(call[0], call[1]))


# The bits of one type as another.


@dataclass(frozen=True)
class _Layout:
    """Where the parts of a floating-point number stand."""

    width: int
    mantissa: int

    @property
    def exponents(self) -> int:
        """How many exponents there are; the last one is that of infinity."""
        return 1 << (self.width - self.mantissa - 1)

    @property
    def bias(self) -> int:
        return self.exponents // 2 - 1

    def factors(self, sign: int) -> list[Array]:
        """2^(±(e - bias - mantissa)) for each exponent e, as two factors that do not overflow."""
        exponent = np.maximum(np.arange(self.exponents), 1) - self.bias - self.mantissa
        half = sign * exponent // 2
        return [np.ldexp(1.0, half), np.ldexp(1.0, sign * exponent - half)]


_LAYOUTS = {
    "float16": _Layout(16, 10),
    "bfloat16": _Layout(16, 7),
    "float32": _Layout(32, 23),
    "float64": _Layout(64, 52),
}


def _scaled(e: Builder, x: SSAValue, layout: _Layout, exponent: SSAValue, sign: int) -> SSAValue:
    for factors in layout.factors(sign):
        x = e.add(tensor.MulOp(x, e.add(tensor.GatherRowsOp(e.known(factors, f64), exponent))))
    return x


def _bits_of_float(e: Builder, x: SSAValue, layout: _Layout) -> SSAValue:
    """The bits of floats as `ui64`; those of NaN are the ones of the quiet NaN."""
    x = e.convert(x, f64)
    size = e.add(tensor.AbsOp(x))
    powers = np.arange(1, layout.exponents - 1) - layout.bias
    bounds = np.append(np.ldexp(1.0, powers), np.inf)
    exponent = counted_thresholds(e, size, bounds)
    infinite = e.add(tensor.CompareOp(size, e.number(np.inf, f64), "eq"))
    whole = _scaled(e, size, layout, exponent, -1)
    whole = e.add(tensor.WhereOp(infinite, e.number(2.0**layout.mantissa, f64), whole))
    place = e.add(tensor.MaximumOp(exponent, e.number(1, i32)))
    place = e.add(tensor.SubOp(e.convert(place, UI64), e.number(1, UI64)))
    place = e.add(tensor.MulOp(place, e.number(1 << layout.mantissa, UI64)))
    bits = e.add(tensor.AddOp(place, e.convert(whole, UI64)))
    signed = e.add(tensor.AddOp(bits, e.number(1 << (layout.width - 1), UI64)))
    bits = e.add(tensor.WhereOp(is_negative(e, x), signed, bits))
    nan = e.number((layout.exponents - 1 << layout.mantissa) + (1 << layout.mantissa - 1), UI64)
    return e.add(tensor.WhereOp(e.add(tensor.CompareOp(x, x, "ne")), nan, bits))


def _float_of_bits(e: Builder, bits: SSAValue, layout: _Layout) -> SSAValue:
    """The floats, as f64, that bits as `ui64` stand for."""
    half = e.number(1 << (layout.width - 1), UI64)
    negative = e.add(tensor.CompareOp(bits, half, "ge"))
    rest = e.add(tensor.ModOp(bits, half))
    one = e.number(1 << layout.mantissa, UI64)
    exponent = e.convert(e.add(tensor.DivOp(rest, one)), i32)
    part = e.add(tensor.ModOp(rest, one))
    normal = e.add(tensor.CompareOp(exponent, e.number(0, i32), "gt"))
    whole = e.add(tensor.WhereOp(normal, e.add(tensor.AddOp(part, one)), part))
    value = _scaled(e, e.convert(whole, f64), layout, exponent, 1)
    last = e.add(tensor.CompareOp(exponent, e.number(layout.exponents - 1, i32), "eq"))
    value = e.add(tensor.WhereOp(last, e.number(np.inf, f64), value))
    odd = e.add(tensor.AndOp(last, e.add(tensor.CompareOp(part, e.number(0, UI64), "gt"))))
    value = no_number(e, odd, value)
    return e.add(tensor.WhereOp(negative, e.add(tensor.NegOp(value)), value))


def counted_thresholds(e: Builder, x: SSAValue, thresholds: Array) -> SSAValue:
    """How many of the thresholds, ascending and of the elements of x, are at most x, as `i32`."""
    sizes = e.sizes(x)
    table = e.known(thresholds.reshape(1, -1), tensor_type(x).element_type)
    flat = x if sizes else e.reshape(x, [1])
    return e.convert(e.reshape(e.add(tensor.MultiThresholdOp(flat, table, axis=0)), sizes), i32)


def is_negative(e: Builder, x: SSAValue) -> SSAValue:
    """Where x < 0 or x is -0."""
    zero = e.number(0, x)
    turned = e.add(tensor.DivOp(e.number(1, x), x))
    below, turned = (e.add(tensor.CompareOp(v, zero, "lt")) for v in (x, turned))
    return e.add(tensor.OrOp(below, turned))


def no_number(e: Builder, condition: SSAValue, x: SSAValue) -> SSAValue:
    """NaN where the condition holds, else x."""
    divisor = e.add(tensor.WhereOp(condition, e.number(np.inf, x), e.number(1, x)))
    # inf/inf is NaN, and multiplying by 1/1 keeps every number, -0 too.
    return e.add(tensor.MulOp(x, e.add(tensor.DivOp(divisor, divisor))))


def _bit_cast(e: Builder, call: Call) -> SSAValue:
    x, (element, format) = call[0], type_of_proto(call.integer("to", 0))
    source = e.formats.get(x)
    target = numpy_dtype(element) if format is None else format.dtype
    have, wanted = _width(dtype_of_value(e, x), source), _width(target, format)
    refuse(have != wanted, f"it reads elements of {have} bits as those of {wanted}")
    if e.is_known(x) and source is None and format is None:
        return e.known(e.array(x).view(target))
    bits = _as_bits(e, x, source, have)
    if format is not None:
        codes = e.bare(bits) if bits == x else bits
        if not format.is_float and format.signed:
            half = e.number(1 << (wanted - 1), UI8)
            turned = e.add(tensor.AddOp(bits, e.number(256 - (1 << wanted), UI8)))
            high = e.add(tensor.CompareOp(bits, half, "ge"))
            codes = e.convert(e.add(tensor.WhereOp(high, turned, bits)), element)
        e.formats[codes] = format
        return codes
    if target.name in _LAYOUTS:
        floats = _float_of_bits(e, e.convert(bits, UI64), _LAYOUTS[target.name])
        return e.convert(floats, element)
    return e.convert(bits, element)


def _as_bits(e: Builder, x: SSAValue, format: Format | None, width: int) -> SSAValue:
    """The bits of x as an unsigned integer of at least `width` bits."""
    if format is not None:
        bits = e.convert(e.bare(x), UI8)
        if format.bits < 8 and format.signed and not format.is_float:
            bits = e.add(tensor.ModOp(bits, e.number(1 << format.bits, UI8)))
        return bits
    if is_float(tensor_type(x)):
        return _bits_of_float(e, x, _LAYOUTS[dtype_of_value(e, x).name])
    return e.convert(x, IntegerType(width, Signedness.UNSIGNED))


def _width(dtype: Dtype, format: Format | None) -> int:
    return 8 * dtype.itemsize if format is None else format.bits


RULES: dict[str, Rule] = {
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "BitwiseAnd": binary(tensor.AndOp),
    "BitwiseNot": unary(tensor.NotOp),
    "BitwiseOr": binary(tensor.OrOp),
    "BitwiseXor": binary(tensor.XorOp),
}
"""By the type of the operator."""
