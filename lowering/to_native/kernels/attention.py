"""Attention of tokens to a cache of keys and values: see `abi.attention`.

Some heads of a group go through its keys together, two at a time, and through its values piece by
piece, so that each is read from memory once. Not here: projections (`panel`), rotary embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.attention import ATTENTION, HEADS, PIECE, Heads
from ..llvm.exponential import exp
from ..llvm.types import vector
from .code import POINTER, Code
from .parallel import PART_ARGUMENTS
from .recipes import Recipe

_Row = Sequence[SSAValue]
_LEAST = -3.0e38
_LINE = 64
"""Bytes that memory gives at once."""


def attention_module(recipe: Recipe, heads: Heads) -> ModuleOp:
    """The function `ATTENTION`, and one for each number of heads that go together."""
    per = heads.heads // heads.groups
    counts = [min(HEADS, per - first) for first in range(0, per, HEADS)]
    width = math.gcd(recipe.lanes, heads.head_dim)
    ones = {count: _together(f"attend_{count}", width, recipe, heads, count) for count in counts}
    code = Code(ATTENTION, PART_ARGUMENTS)
    memory, _, first, end, member = code.arguments
    queries, keys, values, results, scratch = (
        code.load(code.at(memory, 8 * n), POINTER) for n in range(5)
    )
    start, tokens, window, room = (code.load(code.at(memory, 8 * n), i64) for n in range(5, 9))
    rows = code.add(room, PIECE)
    scores = code.at(scratch, code.mul(member, code.mul(rows, HEADS)), f32)
    with code.each(first, end) as n:
        group = code.udiv(n, tokens)
        token = code.sub(n, code.mul(group, tokens))
        place = code.add(start, token)
        low = code.maximum(code.sub(code.add(place, 1), window), code.constant(0))
        high = code.add(place, 1)
        past = code.mul(code.mul(group, room), heads.head_dim)
        here = [code.at(held, past, f32) for held in (keys, values)]
        head = code.add(code.mul(token, heads.heads), code.mul(group, per))
        for number, count in enumerate(counts):
            chosen = code.mul(code.add(head, number * HEADS), heads.head_dim)
            query, result = (code.at(each, chosen, f32) for each in (queries, results))
            code.call(f"attend_{count}", query, *here, result, scores, rows, low, high)
    return ModuleOp([*ones.values(), code.finish()])


def _together(name: str, width: int, recipe: Recipe, heads: Heads, count: int) -> llvm.FuncOp:
    """A function for so many heads of one token, which stand together."""
    code = Code(name, [*[POINTER] * 5, *[i64] * 3])
    query, keys, values, result, scores, rows, low, high = code.arguments
    size = heads.head_dim
    lines = [code.at(scores, code.mul(rows, h), f32) for h in range(count)]
    queries = [code.at(query, h * size, f32) for h in range(count)]
    results = [code.at(result, h * size, f32) for h in range(count)]
    with code.each(low, high, 2) as place:
        both = [code.at(keys, code.mul(code.add(place, n), size), f32) for n in (0, 1)]
        for key in both:
            _ask_ahead(code, key, size)
        for n, totals in enumerate(_products(code, width, size, queries, both)):
            for line, total in zip(lines, totals, strict=True):
                scaled = code.fmul(total, 1 / math.sqrt(size))
                code.store(scaled, code.at(line, code.add(place, n), f32))
    for line in lines:
        _softmax(code, recipe.lanes, line, low, high)
    _means(code, recipe, width, size, lines, (values, low, high), results)
    return code.finish(linkage="internal")


def _products(code: Code, width: int, size: int, queries: _Row, keys: _Row) -> list[list[SSAValue]]:
    """The product of each query with each key."""
    wide = vector(f32, width)
    sums = [[code.constant(0.0, wide)] * len(queries) for _ in keys]
    for part in range(0, size, width):
        those = [code.load(code.at(key, part, f32), wide) for key in keys]
        for h, query in enumerate(queries):
            factor = code.load(code.at(query, part, f32), wide)
            for n, key in enumerate(those):
                sums[n][h] = code.overloaded("fmuladd", key, factor, sums[n][h])
    return [[code.across(total, code.fadd) for total in row] for row in sums]


def _ask_ahead(code: Code, row: SSAValue, size: int) -> None:
    """Ask memory for the row that comes a piece later."""
    for place in range(0, 4 * size, _LINE):
        code.prefetch(code.at(row, 4 * PIECE * size + place), 2)


def _softmax(code: Code, count: int, line: SSAValue, low: SSAValue, high: SSAValue) -> None:
    """Scores from `low` to `high` as shares, with zeros behind them up to a whole register."""
    wide = vector(f32, count)
    least = code.constant(_LEAST, wide)
    # The scores of a piece behind: what the last register has too many of, and the last pair.
    code.store(least, code.at(line, high, f32))

    def larger(x: SSAValue, y: SSAValue) -> SSAValue:
        return code.select(code.fcmp("ogt", x, y), x, y)

    with code.loop(low, high, count, [least]) as turn:
        found = code.load(code.at(line, turn.index, f32), wide)
        turn.values = [larger(found, turn.values[0])]
    most = code.splat(code.across(turn.values[0], larger), count)
    with code.loop(low, high, count, [code.constant(0.0, wide)]) as turn:
        place = code.at(line, turn.index, f32)
        power = exp(code, code.fsub(code.load(place, wide), most))
        code.store(power, place)
        turn.values = [code.fadd(turn.values[0], power)]
    total = code.splat(code.across(turn.values[0], code.fadd), count)
    with code.each(low, high, count) as index:
        place = code.at(line, index, f32)
        code.store(code.fdiv(code.load(place, wide), total), place)


def _means(
    code: Code,
    recipe: Recipe,
    width: int,
    size: int,
    lines: _Row,
    past: tuple[SSAValue, SSAValue, SSAValue],
    results: _Row,
) -> None:
    """Values weighted by their shares, piece by piece; sums of some columns stay in registers."""
    values, low, high = past
    wide = vector(f32, width)
    columns = width * max(1, recipe.sums // len(lines))
    for result in results:
        code.clear(result, 4 * size)
    with code.each(low, high, PIECE) as piece:
        stop = code.minimum(code.add(piece, PIECE), high)
        for first in range(0, size, columns):
            parts = range(first, min(first + columns, size), width)
            targets = [code.at(result, part, f32) for result in results for part in parts]
            sums = [code.load(target, wide) for target in targets]
            with code.loop(piece, stop, 1, sums) as turn:
                row = code.at(values, code.mul(turn.index, size), f32)
                if not first:
                    _ask_ahead(code, row, size)
                those = [code.load(code.at(row, part, f32), wide) for part in parts]
                shares = [
                    code.splat(code.load(code.at(line, turn.index, f32), f32), width)
                    for line in lines
                ]
                pairs = [(share, value) for share in shares for value in those]
                turn.values = [
                    code.overloaded("fmuladd", *pair, total)
                    for pair, total in zip(pairs, turn.values, strict=True)
                ]
            for target, total in zip(targets, turn.values, strict=True):
                code.store(total, target)
