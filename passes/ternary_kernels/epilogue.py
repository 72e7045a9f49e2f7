"""The end of a kernel: raw sums of biased codes to results.

Σ u·x - Σ x is the product with trits, exactly. Float kinds join their digits, multiply by the scale
of the row and of the output, and add the bias. Not here: the sums themselves (`gemv`, `panel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from ...ir.native_abi import DIGIT_BASE, Kind
from .code import Code, vector
from .recipes import Recipe
from .scratch import Scratch


def write_epilogue(
    code: Code,
    recipe: Recipe,
    kind: Kind,
    scratch: Scratch,
    y: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
    rows: SSAValue,
    outs: SSAValue,
    bounds: tuple[SSAValue, SSAValue],
) -> None:
    """Write the results within `bounds` of every row."""
    first, end = bounds
    count = recipe.lanes
    whole = code.sub(end, code.and_(code.sub(end, first), code.constant(count - 1)))

    def row(m: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        digits = [
            code.add(code.mul(m, code.constant(kind.digits)), code.constant(d))
            for d in range(kind.digits)
        ]
        target = code.at(y, code.mul(m, outs), i32)
        raws = [scratch.raw(digit, outs) for digit in digits]
        sums = [code.load(scratch.sum(digit), i32) for digit in digits]
        row_scale = code.load(scratch.scale(m), f32) if kind.floating else None

        def results(wide: int):
            def spread(value: SSAValue) -> SSAValue:
                return code.splat(value, wide) if wide > 1 else value

            def of(element: Attribute) -> Attribute:
                return vector(element, wide) if wide > 1 else element

            spread_sums = [spread(value) for value in sums]
            spread_scale = None if row_scale is None else spread(row_scale)

            def body(n: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                values = [
                    code.sub(code.load(code.at(raw, n, i32), of(i32)), total)
                    for raw, total in zip(raws, spread_sums, strict=True)
                ]
                if spread_scale is None:
                    code.store(values[0], code.at(target, n, i32))
                    return []
                joined = code.to_float(values[-1])
                for value in reversed(values[:-1]):
                    lower = code.fmul(joined, code.constant(1 / DIGIT_BASE, of(f32)))
                    joined = code.fadd(code.to_float(value), lower)
                factor = code.load(code.at(scale, n, f32), of(f32))
                offset = code.load(code.at(bias, n, f32), of(f32))
                product = code.fmul(code.fmul(joined, spread_scale), factor)
                code.store(code.fadd(product, offset), code.at(target, n, f32))
                return []

            return body

        code.loop(first, whole, count, results(count))
        code.loop(whole, end, 1, results(1))
        return []

    code.loop(code.constant(0), rows, 1, row)
