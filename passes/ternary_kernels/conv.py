"""Convolutions with trit weights, one group of functions for each layer of a program.

A layer's geometry is part of its code; how many images there are is told at run time. The caller
puts `panel.write_tiles` into the module once, and for each layer the functions of `conv_functions`.
It then calls

    <name>(x, weights, y, scratch, scale, bias, table, shift, batch)

- `x` [batch, channels, height, width] and `y` [batch, outs, …] are contiguous and of any alignment;
  their elements are those of the kind and of `Epilogue.result`.
- `weights` are those of `ir.native_conv.conv_weights`.
- `scratch` has `conv_scratch_bytes` and is aligned to 64. Nothing is kept in it from call to call.
- the other pointers are as for `linear` (`kernel`), with the same correction of the bias.

Nothing of an image is copied once for each tap: tiles read windows in place. Float images are
rounded to int8, or split in three digits, with one scale an image. Not here: what is done in each
step (`conv_prepare`, `conv_planes`, `conv_windows`, `conv_tiles`, `conv_results`, `depthwise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ...ir.errors import OptionError
from ...ir.native_abi import Kind
from ...ir.native_conv import ConvGeometry
from . import depthwise
from .code import POINTER, Code, function, vector
from .conv_memory import ConvMemory
from .conv_planes import fill, pad_of, write_grid, write_pads, write_plane
from .conv_prepare import write_prepare, write_scale
from .conv_results import write_finish_rows, write_turn
from .conv_tiles import write_strip
from .conv_windows import write_packed, write_windows
from .epilogue import Epilogue
from .recipes import Recipe

CONV_ARGUMENTS = (
    "x",
    "weights",
    "y",
    "scratch",
    "scale",
    "bias",
    "table",
    "shift",
    "batch",
)
"""`<name>`: eight pointers, one int64."""


def conv_scratch_bytes(recipe: Recipe, kind: Kind, geometry: ConvGeometry) -> int:
    """Bytes of scratch memory; as many for any number of images."""
    return ConvMemory(recipe, kind, geometry).bytes


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
    return [*layer.parts(), finish, layer.write()]


class _Layer(ABC):
    """The function of a layer: what is done for each image."""

    def __init__(self, memory: ConvMemory, epilogue: Epilogue, name: str) -> None:
        self.memory = memory
        self.name = name
        self._result = epilogue.result(memory.kind).size

    def write(self) -> llvm.FuncOp:
        """The function."""

        def body(code: Code, arguments: Sequence[SSAValue]) -> None:
            given: dict[str, SSAValue] = dict(zip(CONV_ARGUMENTS, arguments, strict=True))
            g = self.memory.geometry
            self.begin(code, given)
            read = code.constant(g.channels * g.pixels * self.memory.kind.bytes)
            written = code.constant(g.outs * g.places * self._result)

            def image(b: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                x = code.at(given["x"], code.mul(b, read))
                y = code.at(given["y"], code.mul(b, written))
                self.image(code, given, x, y)
                return []

            code.loop(code.constant(0), given["batch"], 1, image)

        return function(self.name, [POINTER] * 8 + [i64], body)

    @abstractmethod
    def parts(self) -> list[llvm.FuncOp]:
        """The functions that are called, but for `finish`."""

    @abstractmethod
    def begin(self, code: Code, given: dict[str, SSAValue]) -> None:
        """What is done once a call."""

    @abstractmethod
    def image(self, code: Code, given: dict[str, SSAValue], x: SSAValue, y: SSAValue) -> None:
        """What is done for each image."""

    def finish(
        self,
        code: Code,
        given: dict[str, SSAValue],
        products: SSAValue,
        stride: int,
        y: SSAValue,
        first: SSAValue,
        outs: int,
        place: SSAValue,
        count: SSAValue,
    ) -> None:
        """Bring products of some outputs, `count` places from `place` on, to the image `y`."""
        start = code.add(code.mul(first, code.constant(self.memory.geometry.places)), place)
        target = code.at(y, code.mul(start, code.constant(self._result)))
        tables = [given[name] for name in ("scale", "bias", "table", "shift")]
        numbers = (first, code.constant(outs), count, code.constant(stride))
        code.call(f"{self.name}_finish", products, target, *tables, *numbers)


class _Depthwise(_Layer):
    """A channel at a time, from its grid straight to results."""

    def parts(self) -> list[llvm.FuncOp]:
        return [
            depthwise.write_channel(self.memory, f"{self.name}_channel"),
            depthwise.write_products(self.memory, f"{self.name}_products"),
        ]

    def begin(self, code: Code, given: dict[str, SSAValue]) -> None:
        depthwise.write_fill(code, self.memory, given["scratch"])

    def image(self, code: Code, given: dict[str, SSAValue], x: SSAValue, y: SSAValue) -> None:
        memory, scratch = self.memory, given["scratch"]
        g = memory.geometry
        taps = g.kernel[0] * g.kernel[1]

        def channel(c: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            source = code.at(x, code.mul(c, code.constant(g.pixels * memory.kind.bytes)))
            code.call(f"{self.name}_channel", source, scratch)

            def output(m: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                n = code.add(code.mul(c, code.constant(g.group_outs)), m)
                weights = code.at(given["weights"], code.mul(n, code.constant(taps)))
                code.call(f"{self.name}_products", weights, scratch)
                products = code.at(scratch, depthwise.products_at(memory))
                none, all_ = code.constant(0), code.constant(g.places)
                self.finish(code, given, products, g.places, y, n, 1, none, all_)
                return []

            code.loop(code.constant(0), code.constant(g.group_outs), 1, output)
            return []

        code.loop(code.constant(0), code.constant(g.groups), 1, channel)


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
        """`<name>_arrange(scratch)`: planes as tiles read them, and the sums of windows."""
        memory = self.memory
        kind = vector(i32, memory.recipe.lanes)

        def body(code: Code, arguments: Sequence[SSAValue]) -> None:
            (scratch,) = arguments
            if not memory.plane_in_place:
                write_plane(code, memory, scratch)
            if memory.single:
                return
            for d in range(memory.kind.digits):
                grid = code.at(scratch, memory.sums_at + d * memory.sums_size)
                if not memory.grid_in_place:
                    loose = code.at(scratch, memory.loose_sums_at + d * memory.loose_sums_size)
                    write_grid(code, memory.sums, loose, grid, kind, self._pad(d))
                spans = code.at(scratch, memory.spans_at + d * memory.spans_size)
                write_windows(code, memory.sums, grid, spans, kind)
                if not memory.sums.packed:
                    packed = code.at(scratch, memory.windows_at + d * memory.windows_size)
                    write_packed(code, memory.sums, spans, packed, memory.recipe.lanes)

        return function(f"{self.name}_arrange", [POINTER], body)

    def _pad(self, digit: int) -> int:
        """Σ over the channels of a pad."""
        return pad_of(self.memory, digit) * self.memory.geometry.group_channels

    def begin(self, code: Code, given: dict[str, SSAValue]) -> None:
        memory = self.memory
        write_pads(code, memory, given["scratch"])
        for d in range(memory.kind.digits):
            target = code.at(given["scratch"], memory.sums_at + d * memory.sums_size)
            fill(code, target, memory.sums_size, self._pad(d), memory.sums.bytes)

    def image(self, code: Code, given: dict[str, SSAValue], x: SSAValue, y: SSAValue) -> None:
        memory, scratch = self.memory, given["scratch"]
        g = memory.geometry
        if memory.kind.floating:
            code.call(f"{self.name}_scale", x, scratch)
        channels = code.constant(g.group_channels * g.pixels * memory.kind.bytes)

        def group(index: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            code.call(f"{self.name}_prepare", code.at(x, code.mul(index, channels)), scratch)
            code.call(f"{self.name}_arrange", scratch)
            weights = code.at(given["weights"], code.mul(index, code.constant(g.panel_bytes)))
            self._blocks(code, given, weights, y, code.mul(index, code.constant(g.group_outs)))
            return []

        code.loop(code.constant(0), code.constant(g.groups), 1, group)

    def _blocks(
        self,
        code: Code,
        given: dict[str, SSAValue],
        weights: SSAValue,
        y: SSAValue,
        first: SSAValue,
    ) -> None:
        """The results of one group, whose first output is `first`."""
        memory, scratch, zero = self.memory, given["scratch"], code.constant(0)
        g = memory.geometry
        height, width = memory.block
        turned = code.at(scratch, memory.turned_at)

        def end(place: SSAValue, count: SSAValue) -> None:
            code.call(f"{self.name}_turn", scratch, self._sums(code, scratch, place), count)
            self.finish(
                code, given, turned, memory.turned_stride, y, first, g.group_outs, place, count
            )

        def rows(start: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            stop = code.minimum(code.add(start, code.constant(height)), code.constant(g.out_height))
            columns = code.constant(g.out_width)

            def row(r: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                place = code.mul(code.sub(r, start), columns)
                code.call(f"{self.name}_strip", weights, scratch, r, zero, columns, place)
                return []

            code.loop(start, stop, 1, row)
            end(code.mul(start, columns), code.mul(code.sub(stop, start), columns))
            return []

        def pieces(r: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            columns = code.constant(g.out_width)

            def piece(column: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                count = code.minimum(code.constant(width), code.sub(columns, column))
                code.call(f"{self.name}_strip", weights, scratch, r, column, count, zero)
                end(code.add(code.mul(r, columns), column), count)
                return []

            code.loop(zero, columns, width, piece)
            return []

        body = rows if width == g.out_width else pieces
        code.loop(zero, code.constant(g.out_height), height, body)

    def _sums(self, code: Code, scratch: SSAValue, place: SSAValue) -> SSAValue:
        """Where Σx over the windows from `place` on stand, for the first digit."""
        memory = self.memory
        if memory.single:
            base = memory.sums_at
        else:
            base = memory.spans_at if memory.sums.packed else memory.windows_at
        return code.at(code.at(scratch, base), place, i32)
