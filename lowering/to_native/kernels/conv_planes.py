"""Pads around images, and images torn apart so that windows with strides or dilation lie straight.

Not here: how images become bytes or numbers (`conv_prepare`, `depthwise`), sums of windows
(`conv_windows`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import element as element_of
from ..llvm.types import vector
from .code import Code, Index, lanes
from .conv_memory import ConvMemory, Grid

_MOST_SHUFFLED = 4
"""Greater strides are taken apart a number at a time."""


def fill(code: Code, target: SSAValue, size: int, value: int, bytes: int) -> None:
    """Put a number of so many bytes everywhere in a grid of `size` bytes, a multiple of 64."""
    filling = code.constant(value, vector(IntegerType(8 * bytes), 64 // bytes))
    with code.each(0, size, 64) as i:
        code.store(filling, code.at(target, i))


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
            with code.each(0, g.height - 1) as r:
                _set(code, code.at(between, code.mul(r, plane.pitch)), left + right, byte)
        end = (g.before[0] + g.height) * plane.pitch - right
        _set(code, code.at(base, end), memory.plane_size - end, byte)


def pad_of(memory: ConvMemory, digit: int) -> int:
    """What the number 0 has as a digit: only the lowest is lowered by an offset."""
    return -memory.kind.offset if digit == 0 else 0


def _set(code: Code, target: SSAValue, size: int, byte: int) -> None:
    if size:
        code.clear(target, size, byte)


def write_plane(code: Code, memory: ConvMemory, scratch: SSAValue, low: Index, high: Index) -> None:
    """The rows from `low` to `high` of loose images of bytes to their places in the planes."""
    plane, g = memory.plane, memory.geometry
    size, turns = g.stored_channels, g.dilation[1]
    for d in range(memory.kind.digits):
        source = code.at(scratch, memory.loose_at + d * memory.loose_size)
        target = code.at(scratch, memory.plane_at + d * memory.plane_size)
        target = code.at(target, g.before[0] * plane.pitch)
        with code.each(low, high) as r:
            line = code.at(source, code.mul(r, g.width * size))
            to = code.at(target, code.mul(r, plane.pitch))
            if turns == 1:
                code.copy(code.at(to, g.before[1] * size), line, g.width * size)
                continue
            for turn in range(turns):
                first = (turn - g.before[1]) % turns
                place = turn * plane.columns + (first + g.before[1]) // turns
                here, there = code.at(line, first * size), code.at(to, place * size)
                count = len(range(first, g.width, turns))
                _spread(code, here, there, count, turns * size, size)


def _spread(
    code: Code, source: SSAValue, target: SSAValue, count: int, pitch: int, size: int
) -> None:
    """Bring `count` pieces of `size` bytes, which stand `pitch` bytes apart, together."""
    with code.each(0, count) as j:
        here = code.at(source, code.mul(j, pitch))
        code.copy(code.at(target, code.mul(j, size)), here, size)


def write_grid(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    kind: Attribute,
    pad: int,
    low: Index,
    high: Index,
) -> None:
    """The rows from `low` to `high` of a loose image of numbers to their places in a grid.

    Whole vectors of the type `kind` are stored: what goes beyond a row is a pad, or is stored
    later.
    """
    g, element = grid.geometry, element_of(kind)
    tall, wide = g.strides
    with code.each(low, high) as r:
        line = code.at(source, code.mul(r, g.width), element)
        padded = code.add(r, g.before[0])
        down = code.udiv(padded, tall)
        part = code.mul(code.sub(padded, code.mul(down, tall)), wide)
        place = code.add(code.mul(part, grid.part), code.mul(down, grid.pitch))
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


def _bring(
    code: Code, source: SSAValue, target: SSAValue, count: int, wide: int, kind: Attribute, pad: int
) -> None:
    """Every number `wide` apart to follow each other, a vector at a time, with pads behind."""
    width, element = lanes(kind), element_of(kind)

    def take(at: SSAValue) -> SSAValue:
        place = code.at(source, code.mul(at, wide), element)
        values = code.load(place, vector(element, wide * width))
        return code.shuffle(values, values, range(0, wide * width, wide)) if wide > 1 else values

    rest = count % width
    with code.each(0, count - rest, width) as at:
        code.store(take(at), code.at(target, at, element))
    if rest:
        at = code.constant(count - rest)
        places = [j if j < rest else width + j for j in range(width)]
        padded = code.shuffle(take(at), code.constant(pad, kind), places)
        code.store(padded, code.at(target, at, element))
