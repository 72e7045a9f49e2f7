"""The stage that makes windows of an image: line buffers, padding, strides, dilation.

The pixels go through a delay line with a tap for each place of the window. Slots of the delay line
are the positions of a raster that is as wide as the wider of image and result, so that all rows are
equally long; for the usual convolution it is the image itself and a pixel comes in every cycle.
A tap beyond the border of the image holds some other pixel, or the next frame's: it is replaced by
the padding. The last windows of a frame leave while the next frame comes in, or without it: then
the delay line moves on by itself.

Not here: the sizes of windows (`window_shape`), what is computed on one (`arithmetic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.ir import SSAValue

from .....passes.adder_graph.graph import width_of
from ..memories import Memory
from ..pacing import Pacing
from .body import StageBody
from .counters import Counter, clog2
from .stage import Layout, Stage
from .window_shape import Pair, WindowShape

_REGISTERED_DELAY = 2
"""Delays of so many slots are registers; longer ones are a RAM."""


def window_layout(
    shape: WindowShape, input: Layout, padding: Sequence[int], pacing: Pacing
) -> Layout:
    """The elements of windows: rows of taps, taps of a row, channels."""
    bounds: list[Pair] = []
    for y, x in product(range(shape.kernel[0]), range(shape.kernel[1])):
        inside = shape.always_inside(0, y) and shape.always_inside(1, x)
        bounds += [
            (low, high) if inside else (min(low, pad), max(high, pad))
            for (low, high), pad in zip(input.bounds, padding, strict=True)
        ]
    padded = any(not shape.always_inside(a, t) for a in (0, 1) for t in range(shape.kernel[a]))
    level = pacing.after_selection(max(shape.kernel) * input.width) if padded else 0
    return Layout(tuple(bounds), shape.result[0] * shape.result[1], level)


def window_stage(
    name: str, shape: WindowShape, input: Layout, padding: Sequence[int], pacing: Pacing
) -> Stage:
    """The windows of an image, one a beat, in row-major order.

    Args:
        input: one pixel a beat.
        padding: for each channel the number that stands beyond the border.
        pacing: with a clock, what the handshake and the padding wait for are registers.
    """
    output = window_layout(shape, input, padding, pacing)
    writer = _Window(shape, input, output, padding, early=pacing.clock is not None)
    handshake = writer.handshake()
    kernel, size = (f"{n[0]}x{n[1]}" for n in (shape.kernel, shape.size))
    parts = [memory.declaration() for memory in dict.fromkeys(writer.memories)]
    comment = f"{kernel} windows of frames of {size} positions, by line buffers"
    return writer.body.stage(name, comment, output, handshake, parts)


@dataclass
class _Window:
    shape: WindowShape
    input: Layout
    output: Layout
    padding: Sequence[int]
    early: bool

    def __post_init__(self) -> None:
        self.body = StageBody(self.input)
        self.memories: list[Memory] = []
        self.line_slots = self.shape.dilation[0] * self.shape.raster[1]
        self.at: Counter | None = None
        self.y, self.x = (
            Counter(self.body, count, name, early=self.early)
            for count, name in zip(self.shape.raster, "yx", strict=True)
        )

    def handshake(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """`in_ready`, the windows, and whether one is there."""
        body, shape = self.body, self.shape
        valid = body.state(1, "valid", 0)
        free = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
        ready, go, active = self._slots(free)
        body.drive(valid, body.all_of(go, active, self._wanted(go, active)), free)
        taps = self._taps(go)
        inside = self._all_inside(go)
        places = product(range(shape.kernel[0]), range(shape.kernel[1]))
        parts = [
            self._padded(index, taps[y][x], inside[y, x]) for index, (y, x) in enumerate(places)
        ]
        return ready, body.joined(parts), valid

    def _slots(self, free: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """`in_ready`, whether a slot passes, and whether it has a window."""
        body, shape = self.body, self.shape
        (rows, columns), lag = shape.raster, shape.lag
        in_x = Counter(body, columns, "in_x", early=self.early)
        in_y = Counter(body, rows, "in_y", early=self.early)
        start = body.all_of(in_y.is_at(0), in_x.is_at(0), name="start")
        pixel = body.all_of(
            *in_y.within(shape.margin[0], shape.size[0]),
            *in_x.within(shape.margin[1], shape.size[1]),
            name="pixel",
        )
        needs = body.any_of(pixel, start) if shape.margin != (0, 0) else pixel
        has = body.any_of(body.in_valid[0], body.inverse(needs))
        entered = body.all_of(free, has, name="entered")
        ready = body.all_of(free, pixel)
        before = divmod(lag - 1, columns)
        reached = body.all_of(in_y.is_at(before[0]), in_x.is_at(before[1])) if lag else start
        in_x.step(entered)
        in_y.step(self._both(in_x.last, has, free))
        if not lag:
            return ready, entered, body.constant(1, 1)
        # After the last slot of a frame, until its last window.
        some = body.state(1, "some", 0)
        flush = body.all_of(free, start, some, body.inverse(body.in_valid[0]), name="flush")
        go = body.any_of(entered, flush, name="go")
        ends = body.all_of(has if self.early else entered, in_x.last, in_y.last, name="ends")
        following = ends
        if lag > 1:
            lasts = [at.last for at in (self.x, self.y)[: 1 + (lag > columns)]]
            left = body.inverse(body.all_of(*lasts))
            following = body.any_of(ends, body.all_of(some, left))
        body.drive(some, following, go)
        filled = body.state(1, "filled", 0)
        full = body.all_of(body.inverse(ends), body.any_of(filled, reached))
        body.drive(filled, full, entered)
        return ready, go, body.any_of(some, filled, name="active")

    def _wanted(self, go: SSAValue, active: SSAValue) -> SSAValue:
        """Whether the window at stride 1 belongs to the result; its row and column go on."""
        body, x, y = self.body, self.x, self.y
        step = body.all_of(go, active)
        below = self._both(x.last, active, go)
        wanted = [*self._phase(1, x, step), *self._phase(0, y, below)]
        x.step(step)
        y.step(below)
        return body.all_of(*wanted, name="wanted")

    def _both(self, condition: SSAValue, ready: SSAValue, moves: SSAValue) -> SSAValue:
        """Whether a slot passes, of which `moves` is known last, and a condition holds."""
        body = self.body
        if self.early:
            return body.all_of(body.all_of(ready, condition), moves)
        return body.all_of(body.all_of(moves, ready), condition)

    def _phase(self, axis: int, at: Counter, step: SSAValue) -> list[SSAValue]:
        """Bits that say whether a window at this row (column) belongs to the result."""
        body, stride = self.body, self.shape.strides[axis]
        bound = (self.shape.result[axis] - 1) * stride + 1
        bits = at.within(0, bound)
        if stride == 1 or bound == 1:
            return bits
        phase = body.state(clog2(stride), f"{'yx'[axis]}_phase", 0)
        again = body.any_of(body.compare(phase, "eq", stride - 1), at.last)
        following = body.select(again, body.constant(0, clog2(stride)), body.add(phase, 1))
        body.drive(phase, following, step)
        return [*bits, body.compare(phase, "eq", 0)]

    def _all_inside(self, go: SSAValue) -> dict[Pair, SSAValue | None]:
        """For each tap whether it is in the image, from registers; `None` if always."""
        body = self.body
        sides = [self._inside(0, self.y), self._inside(1, self.x)]
        registers: dict[str, SSAValue] = {}

        def register(name: str, bits: Sequence[SSAValue]) -> SSAValue:
            if name not in registers:
                registers[name] = body.register(body.all_of(*bits), go, f"{name}_inside")
            return registers[name]

        inside: dict[Pair, SSAValue | None] = {}
        for (y, row), (x, column) in product(enumerate(sides[0]), enumerate(sides[1])):
            named = {f"y{y}": row, f"x{x}": column}
            asked = {name: bits for name, bits in named.items() if bits is not None}
            bits = [bit for part in asked.values() for bit in part]
            inside[y, x] = register("_".join(asked), bits) if asked else None
        return inside

    def _inside(self, axis: int, at: Counter) -> list[list[SSAValue] | None]:
        """For each tap of an axis bits that say whether it is in the image; `None` if always."""
        shape = self.shape
        every: list[list[SSAValue] | None] = []
        for tap in range(shape.kernel[axis]):
            if shape.always_inside(axis, tap):
                every.append(None)
                continue
            first = shape.low[axis] - tap * shape.dilation[axis]
            every.append(at.compared(first, shape.size[axis]))
        return every

    def _taps(self, go: SSAValue) -> list[list[SSAValue]]:
        """The pixel at each tap, rows from above."""
        body, shape = self.body, self.shape
        (rows, columns), right = shape.kernel, shape.dilation[1]
        if rows > 1 and self.line_slots > _REGISTERED_DELAY:
            self.at = body.counter(self.line_slots - 1, go, "line_at")
        lines = [body.in_data[0]]
        for row in reversed(range(rows - 1)):
            lines.append(self._delayed(lines[-1], go, f"line_{row}"))
        taps: list[list[SSAValue]] = []
        for row, line in enumerate(reversed(lines)):
            places: list[SSAValue] = []
            value = line
            for place in range((columns - 1) * right + 1):
                value = body.register(value, go, f"tap_{row}_{place}")
                if place % right == 0:
                    places.append(value)
            taps.append(places[::-1])
        return taps

    def _delayed(self, value: SSAValue, go: SSAValue, name: str) -> SSAValue:
        """The value of a row of taps earlier."""
        body, slots = self.body, self.line_slots
        if self.at is None:
            for index in range(slots):
                value = body.register(value, go, f"{name}_{index}")
            return value
        memory = Memory.ram(slots - 1, self.input.width)
        self.memories.append(memory)
        return body.memory(memory, name, [go, self.at.value, value, go, self.at.value])

    def _padded(self, index: int, pixel: SSAValue, condition: SSAValue | None) -> SSAValue:
        """One tap's channels as the output has them: padding beyond the border."""
        body = self.body
        channels = len(self.input.bounds)
        bounds = self.output.bounds[index * channels : (index + 1) * channels]
        resized = self._resized(pixel, bounds)
        if condition is None:
            return resized
        beyond = Layout(tuple(bounds))
        number = sum(
            (pad % (1 << width)) << place
            for pad, width, place in zip(self.padding, beyond.widths, beyond.places, strict=False)
        )
        return body.either_of(condition, resized, body.constant(number, beyond.width))

    def _resized(self, pixel: SSAValue, bounds: Sequence[Pair]) -> SSAValue:
        """A pixel with its channels in the bits that other bounds need."""
        body = self.body
        widths = [width_of(*bound) for bound in bounds]
        if widths == self.input.widths:
            return pixel
        return body.joined(
            [body.widened(pixel, self.input, index, want) for index, want in enumerate(bounds)]
        )
