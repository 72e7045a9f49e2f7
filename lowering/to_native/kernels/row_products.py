"""A table of rows times one vector, decoded in registers: see `abi.row_products`.

Two rows at a time share what they read of the vector, one of each half of the rows: memory is read
in two long streams, several times as fast as by rows next to each other. Not here: tables of trits
(`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, f16, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import DIGIT_BASE
from ....runtime.native.abi.row_products import BLOCKS, DIGITS, PAIR_BLOCK, ROWS, RowKind
from ..llvm.types import vector
from .code import POINTER, Code, lanes
from .parallel import PART_ARGUMENTS
from .recipes import Recipe, vnni_256

_Sums = Sequence[SSAValue]
_Pieces = Sequence[tuple[int, int, int]]


def row_products_module(recipe: Recipe, kind: RowKind) -> ModuleOp:
    """The function `ROWS` for rows of a kind."""
    code = Code(ROWS, PART_ARGUMENTS)
    memory, _, first, end, _ = code.arguments
    table, x, y = (code.load(code.at(memory, 8 * n), POINTER) for n in range(3))
    stride, values = (code.load(code.at(memory, 8 * n), i64) for n in (3, 4))
    write = _blocks if kind in BLOCKS else _floats
    half = code.lshr(code.sub(end, first), 1)
    middle = code.add(first, half)
    last = code.add(middle, half)
    for start, stop, places in ((first, middle, [0, half]), (last, end, [0])):
        with code.each(start, stop) as n:
            each = [code.add(n, place) for place in places]
            rows = [code.at(table, code.mul(place, stride)) for place in each]
            for place, total in zip(each, write(code, recipe, kind, rows, x, values), strict=True):
                code.store(total, code.at(y, place, f32))
    return ModuleOp([code.finish()])


def _floats(
    code: Code, recipe: Recipe, kind: RowKind, rows: _Sums, x: SSAValue, values: SSAValue
) -> list[SSAValue]:
    """Sums over rows of floats: whole blocks in lanes, what is left one by one."""
    wide, size = vector(f32, recipe.lanes), 4 if kind == "float32" else 2
    zeros = [code.constant(0.0, wide)] * (2 * len(rows))
    whole = code.and_(values, -PAIR_BLOCK)
    with code.loop(0, whole, PAIR_BLOCK, zeros) as turn:
        here = code.at(x, turn.index, f32)
        sums = list(turn.values)
        for place in range(0, PAIR_BLOCK, 2 * recipe.lanes):
            places = [place, place + recipe.lanes]
            if kind == "bfloat16":
                places = [place // 2, place // 2 + PAIR_BLOCK // 2]
            factors = [code.load(code.at(here, p, f32), wide) for p in places]
            for r, row in enumerate(rows):
                address = code.at(row, code.mul(code.add(turn.index, place), size))
                for p, lane in enumerate(_pair(code, recipe, kind, address)):
                    sum_ = sums[2 * r + p]
                    sums[2 * r + p] = code.overloaded("fmuladd", lane, factors[p], sum_)
        turn.values = sums
    pairs = [turn.values[2 * r : 2 * r + 2] for r in range(len(rows))]
    totals = [code.across(code.fadd(*pair), code.fadd) for pair in pairs]
    with code.loop(whole, values, 1, totals) as rest:
        factor = code.load(code.at(x, rest.index, f32), f32)
        found = [_one(code, kind, code.at(row, code.mul(rest.index, size))) for row in rows]
        both = zip(found, rest.values, strict=True)
        rest.values = [code.overloaded("fmuladd", v, factor, total) for v, total in both]
    return list(rest.values)


def _pair(code: Code, recipe: Recipe, kind: RowKind, address: SSAValue) -> list[SSAValue]:
    """Two registers of float32 out of as many values: for `bfloat16` those of even and odd places,
    else the first and the rest."""
    count = recipe.lanes
    if kind == "float32":
        return [code.load(code.at(address, 4 * count * n), vector(f32, count)) for n in (0, 1)]
    if kind == "float16":
        halves = [code.load(code.at(address, 2 * count * n), vector(f16, count)) for n in (0, 1)]
        return [code.extend(half, vector(f32, count)) for half in halves]
    both = code.load(address, vector(i32, count))
    return [
        code.bits(bits, vector(f32, count))
        for bits in (code.shl(both, 16), code.and_(both, -65536))
    ]


def _one(code: Code, kind: RowKind, address: SSAValue) -> SSAValue:
    if kind == "float32":
        return code.load(address, f32)
    if kind == "float16":
        return code.extend(code.load(address, f16), f32)
    return code.bits(code.shl(code.resize(code.load(address, i16), i32), 16), f32)


def _blocks(
    code: Code, recipe: Recipe, kind: RowKind, rows: _Sums, x: SSAValue, values: SSAValue
) -> list[SSAValue]:
    """Sums over rows of blocks of integers, of each digit apart until the end."""
    block = BLOCKS[kind]
    write, width = (_eights, min(recipe.width, 32)) if kind == "Q8_0" else (_sixes, recipe.width)
    wide = vector(f32, width // 4)
    zeros = [code.constant(0.0, wide)] * (DIGITS * len(rows))
    with code.loop(0, code.udiv(values, block.values), 1, zeros) as turn:
        here = code.at(x, code.mul(turn.index, block.prepared))
        part = code.load(code.at(here, block.scale), f32)
        blocks = [code.at(row, code.mul(turn.index, block.bytes)) for row in rows]
        sums = [sum_ for both in write(code, recipe, blocks, here) for sum_ in both]
        places = [code.at(b, 0 if kind == "Q8_0" else 208) for b in blocks]
        halves = [code.extend(code.load(place, f16), f32) for place in places]
        scales = [code.splat(code.fmul(half, part), lanes(wide)) for half in halves]
        turn.values = [
            code.overloaded("fmuladd", code.to_float(sum_), scales[n // DIGITS], turn.values[n])
            for n, sum_ in enumerate(sums)
        ]
    totals = list[SSAValue]()
    for r in range(len(rows)):
        high, low = turn.values[DIGITS * r : DIGITS * (r + 1)]
        whole = code.fadd(high, code.fmul(low, 1 / DIGIT_BASE))
        totals.append(code.across(whole, code.fadd))
    return totals


def _eights(code: Code, recipe: Recipe, blocks: _Sums, x: SSAValue) -> list[list[SSAValue]]:
    """Sums of each digit over a block of int8.

    Where products of bytes are exact for all codes, these are 128 more than the values; else they
    are magnitudes, and digits take the signs.
    """
    width = min(recipe.width, 32)
    bytes_, total = vector(i8, width), vector(i32, width // 4)
    dot = vnni_256 if recipe.width > width else recipe.dot
    sums = [[code.constant(0, total)] * DIGITS for _ in blocks]
    for place in range(0, 32, width):
        digits = [code.load(code.at(x, 32 * d + place), bytes_) for d in range(DIGITS)]
        for n, block in enumerate(blocks):
            values = code.load(code.at(block, 2 + place), bytes_)
            for d, digit in enumerate(digits):
                if recipe.signed:
                    sums[n][d] = dot(code, sums[n][d], values, digit)
                elif recipe.whole_bytes:
                    start = code.load(code.at(x, BLOCKS["Q8_0"].sums + 32 * d + place), total)
                    found = dot(code, start, code.xor(values, -128), digit)
                    sums[n][d] = code.add(sums[n][d], found)
                else:
                    negative = code.icmp("slt", values, 0)
                    codes = code.select(negative, code.sub(0, values), values)
                    signed = code.select(negative, code.sub(0, digit), digit)
                    sums[n][d] = dot(code, sums[n][d], codes, signed)
    return sums


def _sixes(code: Code, recipe: Recipe, blocks: _Sums, x: SSAValue) -> list[list[SSAValue]]:
    """Sums of each digit over a block of `Q6_K`, each value times the byte that scales it.

    Codes are 32 more than the values, for which sums of digits make up.
    """
    scales = [
        code.resize(code.load(code.at(block, 192), vector(i8, 16)), vector(i16, 16))
        for block in blocks
    ]
    places = [code.at(x, BLOCKS["Q6_K"].sums + 32 * d) for d in range(DIGITS)]
    offsets = [code.load(place, vector(i16, 16)) for place in places]
    sums = [[_offset(code, recipe, scale, each) for each in offsets] for scale in scales]
    for pieces in _pieces(recipe.width):
        half, offset, _ = pieces[0]
        for n, block in enumerate(blocks):
            codes = _codes(code, block, pieces)
            for pair in ((0, 1), (2, 3)):
                chosen = _scale_lanes(code, recipe, scales[n], pieces, pair)
                for d in range(DIGITS):
                    found = list[SSAValue]()
                    for k in pair:
                        at = code.at(x, 256 * d + 64 * k + 32 * half + offset)
                        digit, zero = code.load(at, codes[k].type), code.constant(0, codes[k].type)
                        found.append(recipe.dot(code, zero, codes[k], digit))
                    sums[n][d] = _scaled(code, recipe, sums[n][d], found, chosen)
    return sums


def _codes(code: Code, block: SSAValue, pieces: _Pieces) -> list[SSAValue]:
    """The codes of a register of each chunk, in fours."""

    def joined(place: int, each: int) -> SSAValue:
        parts = [
            code.load(code.at(block, place + each * h + o), vector(i32, n // 4))
            for h, o, n in pieces
        ]
        return code.joined(parts)

    lows, high = (joined(0, 64), joined(32, 64)), joined(128, 32)
    lower = [*lows, *(code.lshr(low, 4) for low in lows)]
    upper = [code.shl(high, 4), code.shl(high, 2), high, code.lshr(high, 2)]
    return [
        code.or_(code.and_(low, 0x0F0F0F0F), code.and_(up, 0x30303030))
        for low, up in zip(lower, upper, strict=True)
    ]


def _offset(code: Code, recipe: Recipe, scales: SSAValue, sums: SSAValue) -> SSAValue:
    """32 times the sum of 16 scales times as many sums, over some lanes."""
    if recipe.pack is None:
        wide = vector(i32, 16)
        products = code.mul(code.resize(scales, wide), code.resize(sums, wide))
    else:
        products = code.intrinsic("llvm.x86.avx2.pmadd.wd", [scales, sums], vector(i32, 8))
    while (count := lanes(products.type)) > recipe.lanes:
        products = code.add(*code.halves(products))
    if count < recipe.lanes:
        zero = code.constant(0, products.type)
        products = code.shuffle(products, zero, range(recipe.lanes))
    return code.shl(products, 5)


def _scaled(code: Code, recipe: Recipe, total: SSAValue, found: _Sums, scales: _Sums) -> SSAValue:
    """A total with sums of two chunks added, times their scales."""
    if recipe.words is None or recipe.pack is None:
        for sum_, scale in zip(found, scales, strict=True):
            total = code.add(total, code.mul(sum_, scale))
        return total
    # Sums of four products fit in 16 bits.
    return recipe.words(code, total, recipe.pack(code, *found), scales[0])


def _pieces(width: int) -> list[_Pieces]:
    """What a register holds of each chunk of 32 values: half of the block, first value, count."""
    if width == 64:
        return [[(0, 0, 32), (1, 0, 32)]]
    return [[(half, first, width)] for half in (0, 1) for first in range(0, 32, width)]


def _scale_lanes(
    code: Code, recipe: Recipe, scales: SSAValue, pieces: _Pieces, pair: tuple[int, int]
) -> list[SSAValue]:
    """The scales of the lanes of two chunks, as int32; or one register of words for both, in the
    order that sums are packed in."""
    starts = [(half, first + n) for half, first, count in pieces for n in range(0, count, 16)]
    which = [[8 * half + 2 * k + first // 16 for half, first in starts] for k in pair]
    if recipe.pack is None:
        wide = vector(i32, recipe.lanes)
        lanes_ = [[n for n in places for _ in range(4)] for places in which]
        return [code.resize(code.shuffle(scales, scales, places), wide) for places in lanes_]
    places = [n for both in zip(*which, strict=True) for n in both for _ in range(4)]
    return [code.shuffle(scales, scales, places)]
