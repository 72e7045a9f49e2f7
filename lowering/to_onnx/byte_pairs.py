"""Sums and products of two tensors of bytes, element by element, each with its rescaling.

`DequantizeLinear`, `Add` or `Mul`, and `QuantizeLinear` in a row are one kernel of ONNX Runtime on
bytes. They are written where all 65,536 pairs of bytes give the program's byte in each form that
this kernel has, and as single operators; `rescaling` finds their factors. Not here: products with
weights (`byte_products`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ..to_tflite import integer_patterns as patterns
from .byte_levels import centred, grid_of, levels, signed, unsigned
from .byte_steps import factor_of, rescaled_sums, within
from .byte_weights import SHIFT
from .graph import Array, Element
from .onnx_writer import Writer
from .rescaling import factor_of_product, factors_of


class _Side(NamedTuple):
    """An operand: bytes, their zero point, what each becomes, and by about what factor."""

    x: SSAValue
    zero: int
    terms: Array
    factor: float


class _Result(NamedTuple):
    """The levels for all pairs of bytes from -128 on, [256, 256], their zero point and bounds."""

    table: Array
    zero: int
    bounds: tuple[int, int]


def byte_sum(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the sum of two tensors of bytes that ends in `op`; whether it could be."""
    if tensor_type(op.result).element_type != i8:
        return False
    scaled = patterns.rescaled(op.result)
    added = None if scaled is None else scaled.source.owner
    if scaled is None or not isinstance(added, tensor.AddOp | tensor.SubOp):
        return False
    sides = _sides(added, _rescaled)
    if sides is None or scaled.multipliers.size != 1:
        return False
    table = rescaled_sums(scaled, _joint(added, sides))
    result = _Result(table, scaled.zero, scaled.bounds)
    return _write_sum(e, op, added, sides, result, float(factor_of(scaled)[0]))


def float_sum(e: Writer, op: tensor.QuantizeOp) -> bool:
    """Write the sum of two dequantised tensors that `op` quantises; whether it was one."""
    added, grid = op.input.owner, grid_of(op)
    if grid is None or not isinstance(added, tensor.AddOp | tensor.SubOp):
        return False
    sides = _sides(added, _restored)
    return sides is not None and _write_sum(
        e, op, added, sides, _quantized(op, _joint(added, sides)), 1 / grid[0]
    )


def byte_times(e: Writer, op: tensor.QuantizeOp) -> bool:
    """Write the product of two tensors of bytes that `op` quantises; whether it was one.

    It is one of dequantised numbers, or of integers that are rescaled in floats.
    """
    scaled, grid = patterns.scaled_in_floats(op.result), grid_of(op)
    product = op.input.owner if scaled is None or scaled.added else scaled.source.owner
    if grid is None or not isinstance(product, tensor.MulOp):
        return False
    sides = _sides(product, _restored if scaled is None else _whole)
    if sides is None or (scaled is not None and scaled.scales.size != 1):
        return False
    factor = 1.0 if scaled is None else float(scaled.scales.astype(np.float32)[0])
    result = _quantized(op, sides[0].terms.T * sides[1].terms * np.float32(factor))
    zeros = (sides[0].zero, sides[1].zero, result.zero)
    about = sides[0].factor * sides[1].factor * factor / grid[0]
    found = factor_of_product(result.table, zeros, about)
    if found is not None:
        _write(e, op, "Mul", sides, (float(found), 1.0), zeros, result.bounds)
    elif scaled is not None:  # floats hold it, so that what rounds is what the program rounds
        parts = [centred(e, e.value(side.x), side.zero) for side in sides]
        steps = e.apply("Mul", [e.apply("Mul", parts), e.scalar(factor, Element.FLOAT)])
        made = levels(e, steps, np.array(result.zero + SHIFT, np.uint8))
        e.bind(op.result, signed(e, within(e, made, result.bounds)))
    return found is not None or scaled is not None


def _write_sum(
    e: Writer,
    op: tensor.QuantizeOp | tensor.RequantizeOp,
    added: tensor.AddOp | tensor.SubOp,
    sides: Sequence[_Side],
    result: _Result,
    factor: float,
) -> bool:
    """Write a sum that is rescaled by about `factor`; whether there are floats that give it."""
    sign = 1 if isinstance(added, tensor.AddOp) else -1
    about = np.array([sides[0].factor, sign * sides[1].factor]) * factor
    found = factors_of(result.table, result.zero, (sides[0].zero, sides[1].zero), about)
    if found is None:
        return False
    # The kernel that ONNX Runtime makes of DequantizeLinear and Add it does not make of Sub.
    second = found.factors[1] if found.joined else -found.factors[1]
    kind = "Add" if found.joined else "Sub"
    _write(e, op, kind, sides, (float(found.factors[0]), float(second)), found.zeros, result.bounds)
    return True


def _write(
    e: Writer,
    op: tensor.QuantizeOp | tensor.RequantizeOp,
    kind: str,
    sides: Sequence[_Side],
    factors: tuple[float, float],
    zeros: tuple[int, int, int],
    bounds: tuple[int, int],
) -> None:
    """DequantizeLinear by two factors, an operator, and QuantizeLinear by 1."""
    terms = [
        e.node("DequantizeLinear", [unsigned(e, e.value(side.x)), factor, point], Element.FLOAT)
        for side, value, zero in zip(sides, factors, zeros, strict=False)
        for factor in [e.scalar(value, Element.FLOAT)]
        for point in [e.constant(np.array(zero + SHIFT, np.uint8), "zero_point")]
    ]
    made = levels(e, e.apply(kind, terms), np.array(zeros[2] + SHIFT, np.uint8))
    e.bind(op.result, signed(e, within(e, made, bounds)))


def _quantized(op: tensor.QuantizeOp, x: Array) -> _Result:
    """What `op` makes of numbers."""
    scale, zero = (np.asarray(patterns.known(v)).reshape(()) for v in (op.scale, op.zero_point))
    table = op.compute(x.astype(np.float32), scale, zero).astype(np.int64)
    return _Result(table, int(zero), (op.low.value.data, op.high.value.data))


def _joint(added: tensor.AddOp | tensor.SubOp, sides: Sequence[_Side]) -> Array:
    """The sums, or differences, of all pairs of bytes."""
    first, second = sides[0].terms.T, sides[1].terms
    return first + second if isinstance(added, tensor.AddOp) else first - second


def _sides(
    op: tensor.AddOp | tensor.SubOp | tensor.MulOp, side: Callable[[SSAValue], _Side | None]
) -> list[_Side] | None:
    """Both operands, if both are tensors of bytes."""
    found = [one for value in (op.lhs, op.rhs) if (one := side(value)) is not None]
    return found if len(found) == 2 else None


def _rescaled(value: SSAValue) -> _Side | None:
    """Bytes less their zero point, times a number, rescaled or not."""
    part = patterns.rescaled(value)
    inner = patterns.times(value if part is None else part.source)
    if inner is None or tensor_type(inner[0]).element_type != i8:
        return None
    x, zero, number = inner
    terms = _less(zero) * np.int64(number)
    if part is None:
        return _Side(x, zero, terms, number)
    if part.zero or part.multipliers.size != 1:
        return None
    return _Side(x, zero, rescaled_sums(part, terms), float(factor_of(part)[0]) * number)


def _whole(value: SSAValue) -> _Side | None:
    """Bytes less their zero point, as floats."""
    inner = patterns.centred(value)
    if inner is None or tensor_type(inner[0]).element_type != i8:
        return None
    return _Side(*inner, _less(inner[1]).astype(np.float32), 1.0)


def _restored(value: SSAValue) -> _Side | None:
    """Dequantised bytes."""
    op = value.owner
    if not isinstance(op, tensor.DequantizeOp) or (grid := grid_of(op)) is None:
        return None
    scale, zero = grid
    return _Side(op.input, zero, _less(zero).astype(np.float32) * np.float32(scale), scale)


def _less(zero: int) -> Array:
    """All bytes less a zero point, [1, 256]."""
    return (np.arange(-SHIFT, SHIFT) - zero)[None, :]
