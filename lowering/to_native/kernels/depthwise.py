"""Depthwise convolutions: each output is one channel under its own window.

A channel becomes a grid of int16, int32 or float32; a vector holds results side by side, and each
trit is a factor for all of them. Integers are exact, floats are multiplied and added as float32
whatever the kind. Not here: convolutions with several channels a group (`conv`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import vector
from .code import POINTER, Code
from .conv_memory import ConvMemory
from .conv_planes import fill, pad_of, write_grid
from .conv_prepare import each_vector, readable
from .conv_windows import write_packed, write_windows


def grid_element(memory: ConvMemory) -> Attribute:
    """The numbers of a grid: those of a float kind stay floats."""
    if memory.kind.floating:
        return f32
    return i16 if memory.values.bytes == 2 else i32


def write_fill(code: Code, memory: ConvMemory, scratch: SSAValue) -> None:
    """The pads of the grid, which outlive the channels of a call."""
    target = code.at(scratch, memory.values_at)
    fill(code, target, memory.values.size, pad_of(memory, 0), memory.values.bytes)


def write_channel(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(x, scratch)` puts a channel into the grid."""
    g, grid, kind = memory.geometry, memory.values, memory.kind
    element = grid_element(memory)
    wide = vector(element, memory.lanes)
    code = Code(name, [POINTER] * 2)
    x, scratch = code.arguments
    x, _ = readable(code, memory, x, scratch, 1)
    if memory.grid_in_place:
        start = g.before[0] * grid.pitch + g.before[1]
        target, pitch = code.at(scratch, memory.values_at + start * grid.bytes), grid.pitch
    else:
        target, pitch = code.at(scratch, memory.loose_at), memory.runs.length

    with each_vector(code, memory, 0, memory.input_size) as (run, start, place):
        value = _read(code, memory, x, place, wide)
        there = code.add(code.mul(run, pitch), start)
        code.store(value, code.at(target, there, element))
    if not memory.grid_in_place:
        source, to = code.at(scratch, memory.loose_at), code.at(scratch, memory.values_at)
        pad = 0 if kind.floating else pad_of(memory, 0)
        write_grid(code, grid, source, to, wide, pad, 0, g.height)
    return code.finish()


def _read(
    code: Code, memory: ConvMemory, x: SSAValue, place: SSAValue, wide: Attribute
) -> SSAValue:
    """A vector of values, lowered by the offset of the kind."""
    kind = memory.kind
    if kind.floating:
        return code.load(code.at(x, place, f32), wide)
    element = IntegerType(8 * kind.bytes)
    value = code.load(code.at(x, place, element), vector(element, memory.lanes))
    if kind.offset and kind.bytes == 1:
        # As a signed byte, this is the unsigned one less 128.
        value = code.xor(value, -kind.offset)
    if value.type != wide:
        value = code.resize(value, wide)
    if kind.offset and kind.bytes > 1:
        value = code.sub(value, kind.offset)
    return value


def write_products(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(weights, scratch)` makes one output of the channel in the grid."""
    g, grid = memory.geometry, memory.values
    element = grid_element(memory)
    code = Code(name, [POINTER] * 2)
    weights, scratch = code.arguments
    factors: list[SSAValue] = []
    for tap in range(g.kernel[0] * g.kernel[1]):
        trit = code.resize(code.load(code.at(weights, tap), i8), i32)
        factors.append(code.to_float(trit) if element == f32 else code.resize(trit, element))
    source, target = code.at(scratch, memory.values_at), code.at(scratch, memory.spans_at)
    wide = vector(element, memory.lanes)
    write_windows(code, grid, source, target, wide, 0, grid.span, factors)
    if not grid.packed:
        packed = code.at(scratch, memory.results_at)
        write_packed(code, grid, target, packed, memory.recipe.lanes, 0, g.out_height)
    return code.finish()


def products_at(memory: ConvMemory) -> int:
    """Where `write_products` leaves the products of all places."""
    return memory.spans_at if memory.values.packed else memory.results_at
