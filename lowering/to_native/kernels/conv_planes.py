"""Pads around images, and images torn apart so that windows with strides or dilation lie straight.

Not here: how images become bytes or numbers (`conv_prepare`, `depthwise`), sums of windows
(`conv_windows`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i1, i8
from xdsl.ir import Attribute, SSAValue

from .code import Code, element_of, lanes, vector
from .conv_memory import ConvMemory, Grid

_MOST_SHUFFLED = 4
"""Greater strides are taken apart a number at a time."""


def fill(code: Code, target: SSAValue, size: int, value: int, bytes: int) -> None:
    """Put a number of so many bytes everywhere in a grid of `size` bytes, a multiple of 64."""
    filling = code.constant(value, vector(IntegerType(8 * bytes), 64 // bytes))

    def step(i: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        code.store(filling, code.at(target, i))
        return []

    code.loop(code.constant(0), code.constant(size), 64, step)


def write_pads(code: Code, memory: ConvMemory, scratch: SSAValue) -> None:
    """The pads of the planes, digits of the number 0; they outlive the images of a call."""
    if not memory.padded and memory.geometry.dilation[1] == 1:
        return
    plane, g = memory.plane, memory.geometry
    for d in range(memory.kind.digits):
        base = code.at(scratch, memory.plane_at + d * memory.plane_size)
        byte = pad_of(memory, d) & 255
        if g.dilation[1] > 1:
            _set(code, base, memory.plane_size, byte)
            continue
        size = g.stored_channels
        left, right = g.before[1] * size, g.after[1] * size
        top = g.before[0] * plane.pitch + left
        _set(code, base, top, byte)
        between = code.at(base, top + g.width * size)
        if left + right:

            def row(
                r: SSAValue,
                _: Sequence[SSAValue],
                between: SSAValue = between,
                count: int = left + right,
                byte: int = byte,
            ) -> list[SSAValue]:
                here = code.at(between, code.mul(r, code.constant(plane.pitch)))
                _set(code, here, count, byte)
                return []

            code.loop(code.constant(0), code.constant(g.height - 1), 1, row)
        end = (g.before[0] + g.height) * plane.pitch - right
        _set(code, code.at(base, end), memory.plane_size - end, byte)


def pad_of(memory: ConvMemory, digit: int) -> int:
    """What the number 0 has as a digit: only the lowest is lowered by an offset."""
    return -memory.kind.offset if digit == 0 else 0


def _set(code: Code, target: SSAValue, size: int, byte: int) -> None:
    if size == 0:
        return
    value, count = code.constant(byte - 256 if byte > 127 else byte, i8), code.constant(size)
    code.effect("llvm.memset.p0.i64", target, value, count, code.constant(0, i1))


def write_plane(
    code: Code, memory: ConvMemory, scratch: SSAValue, low: SSAValue, high: SSAValue
) -> None:
    """The rows from `low` to `high` of loose images of bytes to their places in the planes."""
    plane, g = memory.plane, memory.geometry
    size, turns = g.stored_channels, g.dilation[1]
    for d in range(memory.kind.digits):
        source = code.at(scratch, memory.loose_at + d * memory.loose_size)
        target = code.at(scratch, memory.plane_at + d * memory.plane_size)
        target = code.at(target, g.before[0] * plane.pitch)

        def row(
            r: SSAValue, _: Sequence[SSAValue], source: SSAValue = source, target: SSAValue = target
        ) -> list[SSAValue]:
            line = code.at(source, code.mul(r, code.constant(g.width * size)))
            to = code.at(target, code.mul(r, code.constant(plane.pitch)))
            if turns == 1:
                to = code.at(to, g.before[1] * size)
                code.copy(to, line, code.constant(g.width * size))
                return []
            for turn in range(turns):
                first = (turn - g.before[1]) % turns
                place = turn * plane.columns + (first + g.before[1]) // turns
                pieces = (
                    code.at(line, first * size),
                    code.at(to, place * size),
                    len(range(first, g.width, turns)),
                )
                _spread(code, *pieces, turns * size, size)
            return []

        code.loop(low, high, 1, row)


def _spread(
    code: Code, source: SSAValue, target: SSAValue, count: int, pitch: int, size: int
) -> None:
    """Bring `count` pieces of `size` bytes, which stand `pitch` bytes apart, together."""

    def step(j: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        here = code.at(source, code.mul(j, code.constant(pitch)))
        code.copy(code.at(target, code.mul(j, code.constant(size))), here, code.constant(size))
        return []

    code.loop(code.constant(0), code.constant(count), 1, step)


def write_grid(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    kind: Attribute,
    pad: int,
    low: SSAValue,
    high: SSAValue,
) -> None:
    """The rows from `low` to `high` of a loose image of numbers to their places in a grid.

    Whole vectors of the type `kind` are stored: what goes beyond a row is a pad, or is stored
    later.
    """
    g, element = grid.geometry, element_of(kind)
    assert element is not None
    tall, wide = g.strides

    def row(r: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        line = code.at(source, code.mul(r, code.constant(g.width)), element)
        padded = code.add(r, code.constant(g.before[0]))
        down = code.udiv(padded, code.constant(tall))
        part = code.mul(code.sub(padded, code.mul(down, code.constant(tall))), code.constant(wide))
        place = code.add(
            code.mul(part, code.constant(grid.part)), code.mul(down, code.constant(grid.pitch))
        )
        to = code.at(target, place, element)
        for turn in range(wide):
            first = (turn - g.before[1]) % wide
            start = turn * grid.part + (first + g.before[1]) // wide
            here, there = code.at(line, first, element), code.at(to, start, element)
            count = len(range(first, g.width, wide))
            if wide > _MOST_SHUFFLED:
                _spread(code, here, there, count, wide * grid.bytes, grid.bytes)
            else:
                _bring(code, here, there, count, wide, kind, pad)
        return []

    code.loop(low, high, 1, row)


def _bring(
    code: Code, source: SSAValue, target: SSAValue, count: int, wide: int, kind: Attribute, pad: int
) -> None:
    """Every number `wide` apart to follow each other, a vector at a time, with pads behind."""
    width, element = lanes(kind), element_of(kind)
    assert element is not None

    def take(at: SSAValue) -> SSAValue:
        place = code.at(source, code.mul(at, code.constant(wide)), element)
        values = code.load(place, vector(element, wide * width))
        return code.shuffle(values, values, range(0, wide * width, wide)) if wide > 1 else values

    def step(at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        code.store(take(at), code.at(target, at, element))
        return []

    rest = count % width
    code.loop(code.constant(0), code.constant(count - rest), width, step)
    if rest:
        at = code.constant(count - rest)
        places = [j if j < rest else width + j for j in range(width)]
        kept = code.shuffle(take(at), code.constant(pad, kind), places)
        code.store(kept, code.at(target, at, element))
