"""Attention of tokens to a cache of keys and values: see `abi.attention`.

Some tokens of groups go through the pieces of a cache together, first through all keys, then
through all values: memory is read once, in runs as long as they stand there. Heads of a group share
each load. Not here: projections (`panel`), rotary embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.attention import ATTENTION, HEADS, PIECE, TOGETHER, Heads
from ..llvm.exponential import exp
from ..llvm.hyperbolic import tanh
from ..llvm.types import vector
from .code import POINTER, Code, lanes
from .parallel import PART_ARGUMENTS
from .recipes import Recipe

_Row = Sequence[SSAValue]
_SCORES, _SHARES, _MEANS = "scores_{}", "shares", "means_{}"
_MEETING = [*[POINTER] * 4, *[i64] * 3]
"""Arguments of `scores` and `means` of so many heads: queries or results, float32 [heads,
head_dim]; keys or values of a piece, and those that will be read next; scores, float32 [heads,
rows], from the first place of the piece on; rows; the first place in it, and the end."""

_KEYS = 4
"""That meet queries at once."""
_LEAST = -3.0e38
_LINE = 64
"""Bytes that memory gives at once."""


class _Thing(NamedTuple):
    """A token of a group: where its queries begin, its scores, and the places that it sees."""

    number: SSAValue
    group: SSAValue
    vectors: SSAValue
    line: SSAValue
    low: SSAValue
    high: SSAValue


def attention_module(recipe: Recipe, sizes: Heads) -> ModuleOp:
    """The function `ATTENTION`, and what it calls for each number of heads that go together."""
    heads, groups, size, *_ = sizes
    per = heads // groups
    counts = {min(HEADS, per - first) for first in range(0, per, HEADS)}
    writers = _write_scores, _write_means
    ones = [write(recipe, sizes, count) for write in writers for count in sorted(counts)]
    code = Code(ATTENTION, PART_ARGUMENTS)
    memory, _, first, end, member = code.arguments
    queries, table, results, scratch = (
        code.load(code.at(memory, 8 * n), POINTER) for n in range(4)
    )
    start, tokens, window, pieces = (code.load(code.at(memory, 8 * n), i64) for n in range(4, 8))
    rows = code.mul(code.add(pieces, 1), PIECE)
    lines = code.at(scratch, code.mul(member, code.mul(rows, TOGETHER * per)), f32)

    def lowest(high: SSAValue) -> SSAValue:
        return code.maximum(code.sub(high, window), 0)

    def held(piece: SSAValue, group: SSAValue, part: int) -> SSAValue:
        return code.at(piece, code.mul(code.add(group, part * groups), PIECE * size), f32)

    with code.each(first, end, TOGETHER) as begin:
        stop = code.minimum(code.add(begin, TOGETHER), end)

        @contextmanager
        def things() -> Generator[_Thing]:
            """Loops over those from `begin` to `stop`."""
            with code.each(begin, stop) as n:
                group = code.udiv(n, tokens)
                token = code.sub(n, code.mul(group, tokens))
                head = code.add(code.mul(token, heads), code.mul(group, per))
                room = code.mul(code.sub(n, begin), code.mul(rows, per))
                high = code.add(code.add(start, token), 1)
                line = code.at(lines, room, f32)
                yield _Thing(n, group, code.mul(head, size), line, lowest(high), high)

        def meet(name: str, part: int, vectors: SSAValue) -> None:
            """Calls a function for each piece that one of them sees, each of them, some heads."""
            first, end = lowest(code.add(start, 1)), code.add(start, tokens)
            last = code.udiv(code.sub(end, 1), PIECE)
            with code.each(code.and_(first, -PIECE), end, PIECE) as place:
                number = code.udiv(place, PIECE)
                piece, following = (
                    code.load(code.at(table, n, i64), POINTER)
                    for n in (number, code.minimum(code.add(number, 1), last))
                )
                with things() as thing:
                    after = code.add(thing.number, 1)
                    more = code.icmp("slt", after, stop)
                    group = code.udiv(code.select(more, after, begin), tokens)
                    those = (
                        held(piece, thing.group, part),
                        held(code.select(more, piece, following), group, part),
                    )
                    low = code.maximum(code.sub(thing.low, place), 0)
                    high = code.minimum(code.sub(thing.high, place), PIECE)
                    for head in range(0, per, HEADS):
                        chosen = code.at(vectors, code.add(thing.vectors, head * size), f32)
                        line = code.at(thing.line, code.add(code.mul(rows, head), place), f32)
                        called = name.format(min(HEADS, per - head))
                        code.call(called, chosen, *those, line, rows, low, high)

        meet(_SCORES, 0, queries)
        with things() as thing:
            with code.each(0, per) as head:
                line = code.at(thing.line, code.mul(rows, head), f32)
                code.call(_SHARES, line, thing.low, thing.high)
            code.clear(code.at(results, thing.vectors, f32), 4 * per * size)
        meet(_MEANS, 1, results)
    return ModuleOp([*ones, _write_shares(recipe), code.finish()])


def _write_scores(recipe: Recipe, sizes: Heads, count: int) -> llvm.FuncOp:
    """Products of queries with keys, scaled and capped; of some keys around them too."""
    size, cap = sizes.head_dim, sizes.softcap
    scale = 1 / math.sqrt(size) if sizes.scale is None else sizes.scale
    code = Code(_SCORES.format(count), _MEETING)
    vectors, keys, later, scores, rows, low, high = code.arguments
    width = math.gcd(recipe.lanes, size)
    some = min(width, _KEYS)
    few = max(1, recipe.sums // some)
    with code.each(code.and_(low, -some), high, some) as place:
        those = [code.at(keys, code.mul(code.add(place, n), size), f32) for n in range(some)]
        for turn, first in enumerate(range(0, count, few)):
            some_heads = range(first, min(first + few, count))
            queries = [code.at(vectors, head * size, f32) for head in some_heads]
            each = some * size // -(-count // few)
            asked = code.at(later, code.add(code.mul(place, size), turn * each), f32), each
            totals = _products(code, width, size, queries, those, asked)
            for head, total in zip(some_heads, totals, strict=True):
                scaled = code.fmul(total, code.constant(scale / (cap or 1), total.type))
                if cap:
                    scaled = code.fmul(tanh(code, scaled), code.constant(cap, total.type))
                code.store(scaled, code.at(scores, code.add(code.mul(rows, head), place), f32))
    return code.finish(linkage="internal")


def _products(
    code: Code, width: int, size: int, queries: _Row, keys: _Row, asked: tuple[SSAValue, int]
) -> list[SSAValue]:
    """The products of each query with the keys, in one register; asks for so many numbers ahead."""
    wide, (ahead, count) = vector(f32, width), asked
    sums = [[code.constant(0.0, wide)] * len(keys) for _ in queries]
    for part in range(0, size, width):
        _ask_ahead(code, ahead, part * count // size, (part + width) * count // size)
        those = [code.load(code.at(key, part, f32), wide) for key in keys]
        for query, line in zip(queries, sums, strict=True):
            factor = code.load(code.at(query, part, f32), wide)
            line[:] = [
                code.overloaded("fmuladd", key, factor, total)
                for key, total in zip(those, line, strict=True)
            ]
    return [_totals(code, line) for line in sums]


def _totals(code: Code, sums: _Row) -> SSAValue:
    """The lanes of each register added, side by side: neighbours first, then halves.

    Neighbours in as many lanes as there are registers, which instructions reach quickest.
    """
    count, width = len(sums), lanes(sums[0].type)

    def joined(x: SSAValue, y: SSAValue, *chosen: Sequence[int]) -> SSAValue:
        return code.fadd(*(code.shuffle(x, y, places) for places in chosen))

    even, odd = (
        [at + of + n for at in range(0, width, count) for of in (0, width) for n in places]
        for places in (range(0, count, 2), range(1, count, 2))
    )
    while len(sums) > 1:
        sums = [joined(x, y, even, odd) for x, y in zip(sums[::2], sums[1::2], strict=True)]
    (total,) = sums
    while lanes(total.type) // 2 >= count:
        total = code.fadd(*code.halves(total))
    return total


def _ask_ahead(code: Code, base: SSAValue, first: int, end: int) -> None:
    """Ask memory for the lines that begin with these of some numbers."""
    for place in range(-(-4 * first // _LINE) * _LINE, 4 * end, _LINE):
        code.prefetch(code.at(base, place), 2)


def _write_shares(recipe: Recipe) -> llvm.FuncOp:
    """`shares(line, low, high)`: softmax of scores, with zeros behind up to a whole register."""
    code, count = Code(_SHARES, [POINTER, i64, i64]), recipe.lanes
    line, low, high = code.arguments
    wide = vector(f32, count)
    least = code.constant(_LEAST, wide)
    # Over what is behind: scores of the last keys, and what the last register has too many of.
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
    return code.finish(linkage="internal")


def _write_means(recipe: Recipe, sizes: Heads, count: int) -> llvm.FuncOp:
    """Add values, weighted by their shares, to results; some columns stay in registers."""
    size = sizes.head_dim
    code = Code(_MEANS.format(count), _MEETING)
    results, values, later, shares, rows, low, high = code.arguments
    width = math.gcd(recipe.lanes, size)
    wide = vector(f32, width)
    lines = [code.at(shares, code.mul(rows, head), f32) for head in range(count)]
    passes = -(-size // (width * max(1, recipe.sums // count)))
    columns = width * -(-size // (width * passes))
    for number, first in enumerate(range(0, size, columns)):
        parts = range(first, min(first + columns, size), width)
        targets = [
            code.at(results, head * size + part, f32) for head in range(count) for part in parts
        ]
        sums = [code.load(target, wide) for target in targets]
        with code.loop(low, high, 1, sums) as turn:
            row = code.at(values, code.mul(turn.index, size), f32)
            # Row after row, pass after pass, all of what comes next in its order.
            ahead = code.add(code.mul(turn.index, columns), number * PIECE * columns)
            _ask_ahead(code, code.at(later, ahead, f32), 0, columns)
            those = [code.load(code.at(row, part, f32), wide) for part in parts]
            factors = [
                code.splat(code.load(code.at(line, turn.index, f32), f32), width) for line in lines
            ]
            pairs = [(factor, value) for factor in factors for value in those]
            turn.values = [
                code.overloaded("fmuladd", *pair, total)
                for pair, total in zip(pairs, turn.values, strict=True)
            ]
        for target, total in zip(targets, turn.values, strict=True):
            code.store(total, target)
    return code.finish(linkage="internal")
