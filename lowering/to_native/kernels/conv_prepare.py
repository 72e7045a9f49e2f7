"""Images [channels, height, width] to int8 planes with the channels of a place together.

Four channels of a vector of places make one register of int32: a byte for each. Four such registers
are transposed so that 16 channels of a place are stored at once; Σ over the channels of a place
comes from the same registers. Not here: pads, and images whose rows are torn apart (`conv_planes`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue

from ..llvm.types import vector
from .code import POINTER, Code, Index
from .conv_memory import ConvMemory
from .float_digits import MAGNITUDE_BITS, float_digits, float_scale

_LOWER_DIGITS = 0x808080
"""The lower three digits of an int32 are bytes lowered by 128; this, added before, carries."""
_TOGETHER = 16
"""Channels that are stored at once."""


@contextmanager
def each_vector(
    code: Code, memory: ConvMemory, low: Index, high: Index
) -> Generator[tuple[SSAValue, SSAValue, SSAValue]]:
    """Loops over the vectors of an image: the run of each, its place there and in the image.

    Vectors hold the rows of the image from `low` to `high`, or its columns where results are shared
    out by columns; what else they hold is right as well.
    """
    runs = memory.runs
    first, end = code.constant(0), code.constant(runs.length)
    if runs.count == 1:
        each = code.constant(1 if memory.by_columns else memory.geometry.width)
        first, end = code.mul(low, each), code.mul(high, each)
        low, high = 0, 1
    with code.each(low, high) as run:
        before = code.mul(run, runs.length)
        with code.each(first, end, runs.lanes) as place:
            start = code.minimum(place, max(runs.length - runs.lanes, 0))
            yield run, start, code.add(before, start)


def readable(
    code: Code, memory: ConvMemory, x: SSAValue, scratch: SSAValue, channels: int
) -> tuple[SSAValue, int]:
    """Where vectors of `channels` channels can be read, and places from channel to channel."""
    g, size = memory.geometry, memory.kind.bytes
    if not memory.runs.short:
        return x, g.pixels
    copied = code.at(scratch, memory.source_at)
    with code.each(0, channels) as c:
        target = code.at(copied, code.mul(c, memory.lanes * size))
        source = code.at(x, code.mul(c, g.pixels * size))
        code.copy(target, source, g.pixels * size)
    return copied, memory.lanes


def write_scale(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(x, scratch)` puts the scale of an image, and its inverse, in scratch."""
    code = Code(name, [POINTER] * 2)
    x, scratch = code.arguments
    g, lanes = memory.geometry, memory.recipe.lanes
    size = g.channels * g.pixels
    whole = size - size % lanes

    best: SSAValue = code.constant(0, vector(i32, lanes))
    for kind, start, end, step in (best.type, 0, whole, lanes), (i32, whole, size, 1):
        if kind == i32:
            best = code.reduced("smax", best)
        with code.loop(start, end, step, [best]) as largest:
            magnitude = code.and_(code.load(code.at(x, largest.index, f32), kind), MAGNITUDE_BITS)
            largest.values = [code.maximum(largest.values[0], magnitude)]
        (best,) = largest.values
    target = code.at(scratch, memory.scale_at)
    for i, value in enumerate(float_scale(code, best, memory.kind.digits)):
        code.store(value, code.at(target, 4 * i))
    return code.finish()


def write_prepare(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(x, scratch, low, high)` prepares the channels of one group, which start at `x`.

    See `each_vector` for `low` and `high`, two int64.
    """
    code = Code(name, [POINTER] * 2 + [i64] * 2)
    x, scratch, low, high = code.arguments
    x, pitch = readable(code, memory, x, scratch, memory.geometry.group_channels)
    _Prepare(code, memory, x, pitch, scratch).write(low, high)
    return code.finish()


class _Prepare:
    """Writes the code."""

    def __init__(
        self, code: Code, memory: ConvMemory, x: SSAValue, pitch: int, scratch: SSAValue
    ) -> None:
        self._code = code
        self._memory = memory
        self._x = x
        self._pitch = pitch
        self._scratch = scratch
        self._lanes = memory.lanes
        self._integers = vector(i32, self._lanes)
        self._digits = memory.kind.digits
        self._factor = None
        if memory.kind.floating:
            inverse = code.load(code.at(scratch, memory.scale_at + 4), f32)
            self._factor = code.splat(inverse, self._lanes)

    def write(self, low: SSAValue, high: SSAValue) -> None:
        code, channels = self._code, self._memory.geometry.group_channels
        whole = channels - channels % _TOGETHER

        with each_vector(code, self._memory, low, high) as (run, start, place):
            targets = self._targets(run, start)
            sums: Sequence[SSAValue] = [code.constant(0, self._integers)] * self._digits
            if whole:
                with code.loop(0, whole, _TOGETHER, sums) as turn:
                    turn.values = self._channels(turn.index, _TOGETHER, place, targets, turn.values)
                sums = turn.values
            if channels > whole:
                rest = code.constant(whole)
                sums = self._channels(rest, channels - whole, place, targets, sums)
            for total, target in zip(sums, self._sum_targets(run, start), strict=True):
                code.store(total, target)

    def _targets(self, run: SSAValue, start: SSAValue) -> list[SSAValue]:
        """Where the place `start` of a run goes, for each digit."""
        code, memory, plane = self._code, self._memory, self._memory.plane
        g = memory.geometry
        size = g.stored_channels
        if memory.plane_in_place:
            base = memory.plane_at + g.before[0] * plane.pitch + g.before[1] * size
            pitch, apart = plane.pitch, memory.plane_size
        else:
            base, pitch, apart = memory.loose_at, memory.runs.length * size, memory.loose_size
        offset = code.add(code.mul(run, pitch), code.mul(start, size))
        line = code.at(self._scratch, offset)
        return [code.at(line, base + d * apart) for d in range(self._digits)]

    def _sum_targets(self, run: SSAValue, start: SSAValue) -> list[SSAValue]:
        code, memory, grid = self._code, self._memory, self._memory.sums
        g = memory.geometry
        if memory.grid_in_place:
            base = memory.sums_at + 4 * (g.before[0] * grid.pitch + g.before[1])
            pitch, apart = grid.pitch, memory.sums_size
        else:
            base, pitch, apart = memory.loose_sums_at, memory.runs.length, memory.loose_sums_size
        place = code.add(code.mul(run, pitch), start)
        line = code.at(self._scratch, place, i32)
        return [code.at(line, base + d * apart) for d in range(self._digits)]

    def _channels(
        self,
        first: SSAValue,
        count: int,
        place: SSAValue,
        targets: Sequence[SSAValue],
        sums: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Store `count` channels, up to 16, of a vector of places; give the sums."""
        code, recipe = self._code, self._memory.recipe
        ones = code.constant(1, vector(i8, recipe.width))
        quads: list[list[SSAValue]] = [[] for _ in range(self._digits)]
        result = list(sums)
        for q in range(0, count, 4):
            packed = self._quad(code.add(first, q), min(4, count - q), place)
            for d, values in enumerate(packed):
                quads[d].append(values)
                bytes_ = code.bits(values, vector(i8, recipe.width))
                result[d] = recipe.dot(code, result[d], ones, bytes_)
        for target, registers in zip(targets, quads, strict=True):
            self._store(code.at(target, first), registers)
        return result

    def _quad(self, first: SSAValue, count: int, place: SSAValue) -> list[SSAValue]:
        """Up to four channels in the bytes of each int32, for each digit."""
        code, size = self._code, self._memory.kind.bytes
        bytes_: list[list[SSAValue]] = [[] for _ in range(self._digits)]
        for c in range(count):
            channel = code.add(first, c)
            at = code.add(code.mul(channel, self._pitch), place)
            for d, byte in enumerate(self._read(code.at(self._x, at, IntegerType(8 * size)))):
                bytes_[d].append(code.shl(byte, 8 * c) if c else byte)
        result: list[SSAValue] = []
        for parts in bytes_:
            total = parts[0]
            for part in parts[1:]:
                total = code.or_(total, part)
            result.append(total)
        return result

    def _read(self, address: SSAValue) -> list[SSAValue]:
        """The digits of a vector of values, each as the low byte of an int32, the rest zeros."""
        code, kind, wide = self._code, self._memory.kind, self._integers
        low = code.constant(255, wide)
        if self._factor is not None:
            scaled = code.fmul(code.load(address, vector(f32, self._lanes)), self._factor)
            digits = float_digits(code, scaled, kind.digits)
            return [code.and_(digit, low) for digit in digits]
        value = code.load(address, vector(IntegerType(8 * kind.bytes), self._lanes))
        if kind.bytes < 4:
            value = code.resize(value, wide)
        if kind.offset:
            value = code.xor(value, kind.offset)
        elif kind.bytes == 4:
            carry = code.constant(_LOWER_DIGITS, wide)
            value = code.xor(code.add(value, carry), carry)
        digits = [value, *(code.lshr(value, 8 * d) for d in range(1, kind.digits))]
        return [code.and_(digit, low) for digit in digits]

    def _store(self, target: SSAValue, quads: Sequence[SSAValue]) -> None:
        """Store up to 16 channels of a vector of places, exactly those."""
        code, size = self._code, self._memory.geometry.stored_channels
        if size <= 4:
            narrow: dict[int, IntegerType] = {1: i8, 2: i16}
            values = quads[0]
            if size < 4:
                values = code.resize(values, vector(narrow[size], self._lanes))
            code.store(values, target)
            return
        if len(quads) == 1:
            for p in range(self._lanes):
                one = code.shuffle(quads[0], quads[0], [p])
                code.store(one, code.at(target, p * size))
            return
        zero = code.constant(0, self._integers)
        turned = transpose(code, [*quads, *[zero] * (4 - len(quads))], self._lanes)
        for p in range(self._lanes):
            for first, count in {2: [(0, 2)], 3: [(0, 2), (2, 1)], 4: [(0, 4)]}[len(quads)]:
                lane = 4 * (p // 4) + first
                register = turned[p % 4]
                part = code.shuffle(register, register, range(lane, lane + count))
                code.store(part, code.at(target, p * size + 4 * first))


def transpose(code: Code, rows: Sequence[SSAValue], lanes: int) -> list[SSAValue]:
    """Four registers of int32, [4, lanes]: lanes 4j to 4j + 3 of result i hold column 4j + i."""

    def merge(a: SSAValue, b: SSAValue, places: Sequence[int]) -> SSAValue:
        """In each four lanes, these of `a` (0 to 3) and `b` (4 to 7)."""
        chosen = [
            4 * block + place if place < 4 else lanes + 4 * block + place - 4
            for block in range(lanes // 4)
            for place in places
        ]
        return code.shuffle(a, b, chosen)

    a, b, c, d = rows
    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    ab, cd = (
        [merge(a, b, half) for half in (low, high)],
        [merge(c, d, half) for half in (low, high)],
    )
    first, second = (0, 1, 4, 5), (2, 3, 6, 7)
    return [merge(ab[i // 2], cd[i // 2], second if i % 2 else first) for i in range(4)]
