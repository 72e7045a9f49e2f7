"""Images [channels, height, width] to int8 planes with the channels of a place together.

Four channels of a vector of places make one register of int32: a byte for each. Four such registers
are transposed so that 16 channels of a place are stored at once; Σ over the channels of a place
comes from the same registers. Not here: pads, and images whose rows are torn apart (`conv_planes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from .code import POINTER, Code, function, suffix, vector
from .conv_memory import ConvMemory
from .float_digits import MAGNITUDE_BITS, float_digits, float_scale

_LOWER_DIGITS = 0x808080
"""The lower three digits of an int32 are bytes lowered by 128; this, added before, carries."""
_TOGETHER = 16
"""Channels that are stored at once."""


def each_vector(
    code: Code,
    memory: ConvMemory,
    low: SSAValue,
    high: SSAValue,
    body: Callable[[SSAValue, SSAValue, SSAValue], None],
) -> None:
    """Do `body(run, start, place)` for each vector: its run, its place there and in the image.

    Vectors hold the rows of the image from `low` to `high`, or its columns where results are shared
    out by columns; what else they hold is right as well.
    """
    runs = memory.runs
    last = code.constant(max(runs.length - runs.lanes, 0))
    first, end = code.constant(0), code.constant(runs.length)
    if runs.count == 1:
        each = code.constant(1 if memory.by_columns else memory.geometry.width)
        first, end = code.mul(low, each), code.mul(high, each)
        low, high = code.constant(0), code.constant(1)

    def run(r: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        before = code.mul(r, code.constant(runs.length))

        def at(place: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            start = code.minimum(place, last)
            body(r, start, code.add(before, start))
            return []

        code.loop(first, end, runs.lanes, at)
        return []

    code.loop(low, high, 1, run)


def readable(
    code: Code, memory: ConvMemory, x: SSAValue, scratch: SSAValue, channels: int
) -> tuple[SSAValue, int]:
    """Where vectors of `channels` channels can be read, and places from channel to channel."""
    g, size = memory.geometry, memory.kind.bytes
    if not memory.runs.short:
        return x, g.pixels
    copied = code.at(scratch, memory.source_at)

    def copy(c: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        target = code.at(copied, code.mul(c, code.constant(memory.lanes * size)))
        source = code.at(x, code.mul(c, code.constant(g.pixels * size)))
        code.copy(target, source, code.constant(g.pixels * size))
        return []

    code.loop(code.constant(0), code.constant(channels), 1, copy)
    return copied, memory.lanes


def write_scale(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(x, scratch)` puts the scale of an image, and its inverse, in scratch."""

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        x, scratch = arguments
        g, lanes = memory.geometry, memory.recipe.lanes
        size = g.channels * g.pixels
        whole = code.constant(size - size % lanes)

        def largest(kind: Attribute) -> Callable[..., list[SSAValue]]:
            mask = code.constant(MAGNITUDE_BITS, kind)

            def step(i: SSAValue, best: Sequence[SSAValue]) -> list[SSAValue]:
                value = code.load(code.at(x, i, f32), kind)
                return [code.maximum(best[0], code.and_(value, mask))]

            return step

        wide = vector(i32, lanes)
        zero = code.constant(0, wide)
        best = code.loop(code.constant(0), whole, lanes, largest(wide), [zero])[0]
        bits = code.intrinsic(f"llvm.vector.reduce.smax.{suffix(wide)}", [best], i32)
        bits = code.loop(whole, code.constant(size), 1, largest(i32), [bits])[0]
        target = code.at(scratch, memory.scale_at)
        for i, value in enumerate(float_scale(code, bits, memory.kind.digits)):
            code.store(value, code.at(target, 4 * i))

    return function(name, [POINTER] * 2, body)


def write_prepare(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(x, scratch, low, high)` prepares the channels of one group, which start at `x`.

    See `each_vector` for `low` and `high`, two int64.
    """

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        x, scratch, low, high = arguments
        x, pitch = readable(code, memory, x, scratch, memory.geometry.group_channels)
        _Prepare(code, memory, x, pitch, scratch).write(low, high)

    return function(name, [POINTER] * 2 + [i64] * 2, body)


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

        def body(run: SSAValue, start: SSAValue, place: SSAValue) -> None:
            targets = self._targets(run, start)
            sums = [code.constant(0, self._integers)] * self._digits

            def together(c: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
                return self._channels(c, _TOGETHER, place, targets, sums)

            if whole:
                end = code.constant(whole)
                sums = code.loop(code.constant(0), end, _TOGETHER, together, sums)
            if channels > whole:
                rest = code.constant(whole)
                sums = self._channels(rest, channels - whole, place, targets, sums)
            for total, target in zip(sums, self._sum_targets(run, start), strict=True):
                code.store(total, target)

        each_vector(code, self._memory, low, high, body)

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
        offset = code.add(code.mul(run, code.constant(pitch)), code.mul(start, code.constant(size)))
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
        place = code.add(code.mul(run, code.constant(pitch)), start)
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
            packed = self._quad(code.add(first, code.constant(q)), min(4, count - q), place)
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
            channel = code.add(first, code.constant(c))
            at = code.add(code.mul(channel, code.constant(self._pitch)), place)
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
            value = code.widen(value, wide)
        if kind.offset:
            value = code.xor(value, code.constant(kind.offset, wide))
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
                values = code.narrow(values, vector(narrow[size], self._lanes))
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
