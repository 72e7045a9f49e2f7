"""From sums to results [outs, places]: digits joined, channels outermost, steps of an epilogue.

Not here: the sums (`conv_tiles`, `depthwise`), the steps themselves (`epilogue`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import TABLES, Kind, round_up
from ..llvm.types import vector
from .code import POINTER, Code
from .conv_memory import ConvMemory
from .conv_prepare import transpose
from .epilogue import Epilogue, Lanes, Steps
from .recipes import Recipe

FINISH_ROWS_ARGUMENTS = ("products", "y", *TABLES, "first", "outs", "count", "stride")
"""`finish`: six pointers, four int64. `products` [outs, stride] and `y` start at output `first` and
at the same place, of `count`."""


def write_turn(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """`name(scratch, sums, count)`, two pointers, one int64.

    The raw sums of `count` places, whose Σx start at `sums`, become products in the rows of turned
    results.
    """
    g, kind, wide = memory.geometry, memory.kind, memory.recipe.lanes
    apart = memory.turned_stride
    code = Code(name, [POINTER] * 2 + [i64])
    scratch, sums, count = code.arguments
    lanes = Lanes(code, wide)
    scale = None
    if kind.floating:
        scale = lanes.spread(code.load(code.at(scratch, memory.scale_at), f32))
    sums_size = memory.sums_size if memory.single else _windows_size(memory)
    with code.each(0, count, 4) as first:
        raw = code.at(scratch, memory.raw_at)
        raw = code.at(raw, code.mul(first, memory.raw_stride), i32)
        line = code.at(sums, first, i32)
        totals = [
            [
                lanes.spread(code.load(code.at(line, 4 * i + d * sums_size), i32))
                for d in range(kind.digits)
            ]
            for i in range(4)
        ]
        target = code.at(code.at(scratch, memory.turned_at), first, i32)
        outs = code.constant(round_up(g.group_outs, wide))
        with code.each(0, outs, wide) as n:
            rows: list[SSAValue] = []
            for i in range(4):
                here = code.at(raw, 4 * i * memory.raw_stride)
                digits = [
                    code.sub(lanes.load(code.at(here, d * memory.raw_size), n, i32), totals[i][d])
                    for d in range(kind.digits)
                ]
                joined = lanes.integers(digits) if scale is None else lanes.floats(digits, scale)
                rows.append(code.bits(joined, vector(i32, wide)))
            there = code.at(target, code.mul(n, apart), i32)
            for i, register in enumerate(transpose(code, rows, wide)):
                for j in range(0, wide, 4):
                    part = code.shuffle(register, register, range(j, j + 4))
                    code.store(part, code.at(there, 4 * apart * (j + i)))
    return code.finish()


def _windows_size(memory: ConvMemory) -> int:
    return memory.spans_size if memory.sums.packed else memory.windows_size


def write_finish_rows(
    recipe: Recipe, kind: Kind, epilogue: Epilogue, outs: int, places: int, name: str
) -> llvm.FuncOp:
    """The function `name`, see `FINISH_ROWS_ARGUMENTS`.

    Args:
        recipe: the instruction set.
        kind: of the activations.
        epilogue: what follows the product.
        outs: outputs of the whole result.
        places: of one output of the whole result.
        name: of the function.
    """
    width = epilogue.result(kind).size
    element = f32 if kind.floating else i32
    code = Code(name, [POINTER] * 6 + [i64] * 4)
    arguments: dict[str, SSAValue] = dict(zip(FINISH_ROWS_ARGUMENTS, code.arguments, strict=True))
    steps = Steps(code, kind, epilogue, arguments, outs)
    count, none = arguments["count"], code.constant(0)
    last = code.sub(count, recipe.lanes)
    enough = code.icmp("sge", last, none)
    spans = (recipe.lanes, code.select(enough, count, none)), (1, code.select(enough, none, count))
    with code.each(0, arguments["outs"]) as o:
        n = code.add(arguments["first"], o)
        source = code.at(arguments["products"], code.mul(o, arguments["stride"]), i32)
        target = code.at(arguments["y"], code.mul(o, places * width))
        for wide, end in spans:
            lanes = Lanes(code, wide, single=True)
            with code.each(0, end, wide) as i:
                # The last vector may overlap the one before.
                here = code.minimum(i, last) if wide > 1 else i
                value = steps.apply(lanes, lanes.load(source, here, element), n)
                code.store(value, code.at(target, here, IntegerType(8 * width)))
    return code.finish()
