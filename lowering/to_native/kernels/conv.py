"""Convolutions with trit weights, one group of functions for each layer of a program.

A layer's geometry is part of its code; how many images there are is told at run time. The caller
puts `panel.write_tiles` into the module once, and for each layer the functions of `conv_functions`.
It then calls

    <name>(x, weights, y, scratch, scale, bias, table, shift, batch)

- `x` [batch, channels, height, width] and `y` [batch, outs, …] are contiguous and of any alignment;
  their elements are those of the kind and of `Epilogue.result`.
- `weights` are those of `abi.conv.conv_weights`.
- `scratch` has `conv_scratch_bytes` and is aligned to 64. Nothing is kept in it from call to call.
- the other pointers are as for `linear` (`kernel`), with the same correction of the bias.

The work of a call can be shared out in units of `ConvGeometry.units` for each image; every unit
reads what it needs of the image by itself, so that those who work on them need not wait for each
other (`parallel`).

Nothing of an image is copied once for each tap: tiles read windows in place. Float images are
rounded to int8, or split in three digits, with one scale an image. Not here: what is done in each
step (`conv_prepare`, `conv_planes`, `conv_windows`, `conv_tiles`, `conv_results`, `depthwise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ....ir.errors import OptionError
from ....runtime.native.abi.conv import ConvGeometry
from ....runtime.native.abi.linear import TABLES, Kind
from ..llvm.types import vector
from . import depthwise
from .code import POINTER, Code, Index
from .conv_memory import ConvMemory
from .conv_planes import fill, pad_of, write_grid, write_pads, write_plane
from .conv_prepare import write_prepare, write_scale
from .conv_results import write_finish_rows, write_turn
from .conv_tiles import write_strip
from .conv_windows import write_packed, write_windows
from .epilogue import Epilogue
from .recipes import Recipe

CONV_ARGUMENTS = ("x", "weights", "y", "scratch", *TABLES, "batch")
"""`<name>`: eight pointers, one int64."""
IMAGE_ARGUMENTS = (*CONV_ARGUMENTS[:-1], "first", "end")
"""`<name>_image`: the same pointers, for one image; two int64, the units to do. Call
`<name>_begin(scratch)` first."""


def conv_scratch_bytes(recipe: Recipe, kind: Kind, geometry: ConvGeometry) -> int:
    """Bytes of scratch memory; as many for any number of images."""
    return ConvMemory(recipe, kind, geometry).bytes


def conv_image_bytes(kind: Kind, geometry: ConvGeometry, epilogue: Epilogue) -> tuple[int, int]:
    """Bytes of an image, and of its result."""
    read = geometry.channels * geometry.pixels * kind.bytes
    return read, geometry.outs * geometry.places * epilogue.result(kind).size


def conv_functions(
    recipe: Recipe, kind: Kind, geometry: ConvGeometry, epilogue: Epilogue, name: str
) -> list[llvm.FuncOp]:
    """The function `name` and those that it calls, besides tiles.

    Raises:
        OptionError: a geometry that is not `supported`, or steps that the sums of the
            kind do not have.
    """
    if not geometry.supported:
        raise OptionError(f"no kernel for a convolution of this geometry: {geometry}")
    epilogue.check(kind)
    memory = ConvMemory(recipe, kind, geometry)
    finish = write_finish_rows(
        recipe, kind, epilogue, geometry.outs, geometry.places, f"{name}_finish"
    )
    layer = (
        _Depthwise(memory, epilogue, name) if geometry.depthwise else _Tiled(memory, epilogue, name)
    )
    return [*layer.parts(), finish, *layer.write()]


class _Layer(ABC):
    """The function of a layer: what is done for each image."""

    def __init__(self, memory: ConvMemory, epilogue: Epilogue, name: str) -> None:
        self.memory = memory
        self.name = name
        self.epilogue = epilogue
        self._result = epilogue.result(memory.kind).size

    def write(self) -> list[llvm.FuncOp]:
        """The functions that are called from outside."""
        begin = Code(f"{self.name}_begin", [POINTER])
        self.begin(begin, begin.arguments[0])
        image = Code(f"{self.name}_image", [POINTER] * 8 + [i64] * 2)
        self.image(image, dict(zip(IMAGE_ARGUMENTS, image.arguments, strict=True)))
        code = Code(self.name, [POINTER] * 8 + [i64])
        x, weights, y, scratch, *tables, batch = code.arguments
        g = self.memory.geometry
        code.call(f"{self.name}_begin", scratch)
        read, written = conv_image_bytes(self.memory.kind, g, self.epilogue)
        with code.each(0, batch) as b:
            places = code.at(x, code.mul(b, read)), weights, code.at(y, code.mul(b, written))
            code.call(f"{self.name}_image", *places, scratch, *tables, 0, g.units)
        return [begin.finish(), image.finish(), code.finish()]

    @abstractmethod
    def parts(self) -> list[llvm.FuncOp]:
        """The functions that are called, but for `finish`."""

    @abstractmethod
    def begin(self, code: Code, scratch: SSAValue) -> None:
        """What is done once a call."""

    @abstractmethod
    def image(self, code: Code, arguments: dict[str, SSAValue]) -> None:
        """What is done for units of an image, see `IMAGE_ARGUMENTS`."""

    def finish(
        self,
        code: Code,
        arguments: dict[str, SSAValue],
        products: SSAValue,
        stride: int,
        first: SSAValue,
        outs: int,
        place: Index,
        count: Index,
    ) -> None:
        """Bring products of some outputs, `count` places from `place` on, to the result."""
        start = code.add(code.mul(first, self.memory.geometry.places), place)
        target = code.at(arguments["y"], code.mul(start, self._result))
        tables = [arguments[name] for name in TABLES]
        code.call(f"{self.name}_finish", products, target, *tables, first, outs, count, stride)


class _Depthwise(_Layer):
    """A channel at a time, from its grid straight to results."""

    def parts(self) -> list[llvm.FuncOp]:
        return [
            depthwise.write_channel(self.memory, f"{self.name}_channel"),
            depthwise.write_products(self.memory, f"{self.name}_products"),
        ]

    def begin(self, code: Code, scratch: SSAValue) -> None:
        depthwise.write_fill(code, self.memory, scratch)

    def image(self, code: Code, arguments: dict[str, SSAValue]) -> None:
        memory, scratch = self.memory, arguments["scratch"]
        g = memory.geometry
        taps = g.kernel[0] * g.kernel[1]
        with code.each(arguments["first"], arguments["end"]) as c:
            source = code.mul(c, g.pixels * memory.kind.bytes)
            source = code.at(arguments["x"], source)
            code.call(f"{self.name}_channel", source, scratch)
            with code.each(0, g.group_outs) as m:
                n = code.add(code.mul(c, g.group_outs), m)
                weights = code.at(arguments["weights"], code.mul(n, taps))
                code.call(f"{self.name}_products", weights, scratch)
                products = code.at(scratch, depthwise.products_at(memory))
                self.finish(code, arguments, products, g.places, n, 1, 0, g.places)


class _Tiled(_Layer):
    """A group at a time: its planes and sums, then results block by block."""

    def parts(self) -> list[llvm.FuncOp]:
        memory, name = self.memory, self.name
        functions = [
            write_prepare(memory, f"{name}_prepare"),
            self._write_arrange(),
            write_strip(memory, f"{name}_strip"),
            write_turn(memory, f"{name}_turn"),
        ]
        if memory.kind.floating:
            functions.append(write_scale(memory, f"{name}_scale"))
        return functions

    def _write_arrange(self) -> llvm.FuncOp:
        """`<name>_arrange(scratch, low, high, first, end)`: planes as tiles read them, and sums.

        From the rows `low` to `high` of the image come the sums of the windows of the rows `first`
        to `end` of the result, or columns in both cases.
        """
        memory, g = self.memory, self.memory.geometry
        kind = vector(i32, memory.recipe.lanes)
        code = Code(f"{self.name}_arrange", [POINTER] + [i64] * 4)
        scratch, low, high, first, end = code.arguments
        images, rows, start, stop = (low, high), (first, end), first, end
        if memory.by_columns:
            images = rows = (0, 1)
        else:
            pitch = memory.sums.pitch
            start, stop = code.mul(first, pitch), code.mul(end, pitch)
            stop = code.sub(stop, pitch - g.out_width)
        if not memory.plane_in_place:
            write_plane(code, memory, scratch, *images)
        if memory.single:
            return code.finish()
        for d in range(memory.kind.digits):
            grid = code.at(scratch, memory.sums_at + d * memory.sums_size)
            if not memory.grid_in_place:
                loose = code.at(scratch, memory.loose_sums_at + d * memory.loose_sums_size)
                write_grid(code, memory.sums, loose, grid, kind, self._pad(d), *images)
            spans = code.at(scratch, memory.spans_at + d * memory.spans_size)
            write_windows(code, memory.sums, grid, spans, kind, start, stop)
            if not memory.sums.packed:
                packed = code.at(scratch, memory.windows_at + d * memory.windows_size)
                write_packed(code, memory.sums, spans, packed, memory.recipe.lanes, *rows)
        return code.finish()

    def _pad(self, digit: int) -> int:
        """Σ over the channels of a pad."""
        return pad_of(self.memory, digit) * self.memory.geometry.group_channels

    def begin(self, code: Code, scratch: SSAValue) -> None:
        memory = self.memory
        write_pads(code, memory, scratch)
        for d in range(memory.kind.digits):
            target = code.at(scratch, memory.sums_at + d * memory.sums_size)
            fill(code, target, memory.sums_size, self._pad(d), memory.sums.bytes)

    def image(self, code: Code, arguments: dict[str, SSAValue]) -> None:
        memory, scratch, x = self.memory, arguments["scratch"], arguments["x"]
        g = memory.geometry
        bounds = self._bounds(code, arguments)
        inputs = self._inputs(code, *bounds)
        if memory.kind.floating:
            code.call(f"{self.name}_scale", x, scratch)
        channels = g.group_channels * g.pixels * memory.kind.bytes
        with code.each(0, g.groups) as index:
            here = code.at(x, code.mul(index, channels))
            code.call(f"{self.name}_prepare", here, scratch, *inputs)
            code.call(f"{self.name}_arrange", scratch, *inputs, *bounds)
            weights = code.at(arguments["weights"], code.mul(index, g.panel_bytes))
            first = code.mul(index, g.group_outs)
            self._blocks(code, arguments, weights, first, *bounds)

    def _bounds(self, code: Code, arguments: dict[str, SSAValue]) -> tuple[SSAValue, SSAValue]:
        """The rows of the result, or columns, that are in the units to do."""
        g = self.memory.geometry
        end = code.mul(arguments["end"], g.unit)
        end = code.minimum(end, g.out_width if self.memory.by_columns else g.out_height)
        return code.mul(arguments["first"], g.unit), end

    def _inputs(self, code: Code, first: SSAValue, end: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The rows of the image, or columns, that these see."""
        g, axis = self.memory.geometry, int(self.memory.by_columns)
        stride, before = g.strides[axis], g.before[axis]
        span = g.dilation[axis] * (g.kernel[axis] - 1) + 1
        low = code.maximum(code.sub(code.mul(first, stride), before), 0)
        high = code.add(code.sub(code.mul(end, stride), before), span - stride)
        return low, code.minimum(high, self.memory.input_size)

    def _blocks(
        self,
        code: Code,
        arguments: dict[str, SSAValue],
        weights: SSAValue,
        output: SSAValue,
        first: SSAValue,
        end: SSAValue,
    ) -> None:
        """The results of one group, whose first output is `output`: rows or columns."""
        memory, scratch = self.memory, arguments["scratch"]
        g = memory.geometry
        height, width = memory.block
        turned = code.at(scratch, memory.turned_at)

        def finish(place: SSAValue, count: SSAValue) -> None:
            code.call(f"{self.name}_turn", scratch, self._sums(code, scratch, place), count)
            self.finish(
                code, arguments, turned, memory.turned_stride, output, g.group_outs, place, count
            )

        def pieces(r: Index, start: Index, stop: Index) -> None:
            with code.each(start, stop, width) as column:
                count = code.minimum(width, code.sub(stop, column))
                code.call(f"{self.name}_strip", weights, scratch, r, column, count, 0)
                finish(code.add(code.mul(r, g.out_width), column), count)

        if memory.by_columns:
            pieces(0, first, end)
            return
        if width < g.out_width:
            with code.each(first, end, height) as r:
                pieces(r, 0, g.out_width)
            return
        with code.each(first, end, height) as start:
            stop = code.minimum(code.add(start, height), end)
            with code.each(start, stop) as r:
                place = code.mul(code.sub(r, start), g.out_width)
                code.call(f"{self.name}_strip", weights, scratch, r, 0, g.out_width, place)
            rows = code.mul(code.sub(stop, start), g.out_width)
            finish(code.mul(start, g.out_width), rows)

    def _sums(self, code: Code, scratch: SSAValue, place: SSAValue) -> SSAValue:
        """Where Σx over the windows from `place` on stand, for the first digit."""
        memory = self.memory
        if memory.single:
            base = memory.sums_at
        else:
            base = memory.spans_at if memory.sums.packed else memory.windows_at
        return code.at(code.at(scratch, base), place, i32)
