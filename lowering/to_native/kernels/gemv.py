"""GEMV, a matrix times a vector, on row-major weights: four rows, one field of a byte, at a time.

A field is cut out in place, without a shift: field p counts 4^p-fold, so its sums go to an
accumulator of their own, which is divided exactly in the end. Not here: more than a few rows of
activations (`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import BLOCK
from ..llvm.types import vector
from .code import Code, lanes
from .recipes import Recipe
from .scratch import Product


def write_rows(code: Code, product: Product, *, stored: bool) -> None:
    """Results of every row of activations."""
    recipe, kind, scratch = product.recipe, product.kind, product.scratch
    first, end = product.first, product.end
    blocks = code.lshr(code.add(product.ins, BLOCK - 1), 8)
    stride = code.mul(blocks, BLOCK // 4)
    count = recipe.gemv_rows
    together = code.sub(end, count - 1)
    span = code.sub(end, first)
    whole = code.add(first, code.sub(span, code.and_(span, count - 1)))

    def tile(rows: int, n: SSAValue, x: SSAValue, raw: SSAValue) -> None:
        pointers = [code.at(product.weights, code.mul(code.add(n, r), stride)) for r in range(rows)]
        sums = _products(code, recipe, pointers, x, stride, stored=stored)
        target = code.at(raw, n, i32)
        if rows == 4:
            code.store(sum_across(code, sums), target)
        else:
            for r, value in enumerate(sums):
                code.store(code.reduced("add", value), code.at(target, r, i32))

    with code.each(0, product.rows) as m:
        start = code.mul(m, kind.digits)
        with code.each(0, kind.digits) as d:
            x = scratch.row(code.add(start, d))
            raw = scratch.raw(code.mul(scratch.raw_stride(product.outs), d))
            with code.each(first, together, count) as n:
                tile(count, n, x, raw)
            if count > 1:
                with code.each(whole, end) as n:
                    tile(1, n, x, raw)
        product.finish(m, 1, first, end)


def _products(
    code: Code,
    recipe: Recipe,
    pointers: Sequence[SSAValue],
    x: SSAValue,
    stride: SSAValue,
    *,
    stored: bool,
) -> list[SSAValue]:
    """Lanes of partial sums of each row, Σ u·x."""
    width = recipe.width
    bytes_, total = vector(i8, width), vector(i32, recipe.lanes)
    ahead = code.mul(stride, len(pointers))
    zeros = [code.constant(0, total)] * (4 * len(pointers))
    with code.loop(0, stride, width, zeros) as group:
        j = group.index
        result = list(group.values)
        # Byte j of the 64 of a block stands beside byte j of each of its four planes.
        base = code.at(x, code.shl(j, 2))
        if width < 64:
            inside = code.and_(j, 63)
            base = code.at(base, code.mul(inside, -3))
        values = [code.load(code.at(base, 64 * p), bytes_) for p in range(4)]
        for r, pointer in enumerate(pointers):
            address = code.at(pointer, j)
            packed = code.load(address, bytes_)
            if len(pointers) > 1:
                code.prefetch(code.at(address, ahead))
            if stored:
                packed = recipe.recode(code, packed)
            for p in range(4):
                field = recipe.field(code, packed, p)
                result[4 * r + p] = recipe.dot(code, result[4 * r + p], field, values[p])
        group.values = result
    return [
        recipe.joined_fields(code, group.values[4 * r : 4 * r + 4]) for r in range(len(pointers))
    ]


def sum_across(code: Code, values: Sequence[SSAValue]) -> SSAValue:
    """Four vectors of int32 to one with the four sums of their lanes.

    Each 128-bit part is reduced for all four together, and the parts are added last.
    """
    count = lanes(values[0].type)
    parts = range(0, count, 4)
    low = [place for part in parts for i in (0, 1) for place in (part + i, count + part + i)]
    high = [place + 2 for place in low]
    pairs = [
        code.add(
            code.shuffle(values[i], values[i + 1], low),
            code.shuffle(values[i], values[i + 1], high),
        )
        for i in (0, 2)
    ]
    low = [place for part in parts for place in (part, part + 1, count + part, count + part + 1)]
    high = [place + 2 for place in low]
    a, b = pairs
    total = code.add(code.shuffle(a, b, low), code.shuffle(a, b, high))
    while lanes(total.type) > 4:
        total = code.add(*code.halves(total))
    return total
