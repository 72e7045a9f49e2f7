"""A convolution with its arguments in memory, alone (`conv_call`) and for a team (`conv_task`).

The units of all images are shared out evenly; a thread does its own from beginning to end in
scratch memory of its own, so that none waits for another. Every size of the team gives the same
bits. Not here: which runtime the team is of, products of matrices for such teams (`parallel`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from ....runtime.native.abi.conv import ConvGeometry
from ....runtime.native.abi.linear import Kind
from ....runtime.native.abi.parallel import (
    CONV_CALL,
    CONV_CALL_ARGUMENTS,
    CONV_TASK,
    TEAM_SIZE,
    THREAD_NUMBER,
)
from .code import POINTER, Code
from .conv import conv_functions, conv_image_bytes, conv_scratch_bytes
from .kernel import layer_epilogue
from .panel import write_tiles
from .parallel import Member, declared, loaded
from .recipes import Recipe

_NAME = "conv"


def conv_module(recipe: Recipe, kind: Kind, geometry: ConvGeometry, *, parallel: bool) -> ModuleOp:
    """The functions `conv_call`, and `conv_task` if asked for, see `abi.parallel`.

    What follows the products is a scale and a bias for each output if they are floats, else
    nothing.

    Raises:
        OptionError: a geometry that is not `supported`.
    """
    functions = [] if geometry.depthwise else write_tiles(recipe, 1)
    functions += conv_functions(recipe, kind, geometry, layer_epilogue(kind), _NAME)
    sizes = conv_image_bytes(kind, geometry, layer_epilogue(kind))
    alone = Code(CONV_CALL, [POINTER])
    values = loaded(alone, CONV_CALL_ARGUMENTS)
    units = alone.mul(values["batch"], geometry.units)
    _write_units(alone, geometry.units, sizes, values, alone.constant(0), units)
    functions.append(alone.finish())
    if parallel:
        functions += [declared(THREAD_NUMBER, i32), declared(TEAM_SIZE, i32)]
        code = Code(CONV_TASK, [POINTER])
        values, member = loaded(code, CONV_CALL_ARGUMENTS), Member(code)
        first, end = member.share(code.mul(values["batch"], geometry.units))
        own = code.mul(member.number, conv_scratch_bytes(recipe, kind, geometry))
        values["scratch"] = code.at(values["scratch"], own)
        _write_units(code, geometry.units, sizes, values, first, end)
        functions.append(code.finish())
    return ModuleOp(list[llvm.FuncOp](functions))


def _write_units(
    code: Code,
    units: int,
    sizes: tuple[int, int],
    values: dict[str, SSAValue],
    first: SSAValue,
    end: SSAValue,
) -> None:
    """The units from `first` to `end`, `units` of each image, counted one after the other.

    `sizes` are the bytes of an image and of its result.
    """
    read, written = sizes
    with code.when(code.icmp("slt", first, end)):
        code.call(f"{_NAME}_begin", values["scratch"])
        last = code.udiv(code.sub(end, 1), units)
        with code.each(code.udiv(first, units), code.add(last, 1)) as b:
            before = code.mul(b, units)
            start = code.maximum(code.sub(first, before), 0)
            stop = code.minimum(code.sub(end, before), units)
            x = code.at(values["x"], code.mul(b, read))
            y = code.at(values["y"], code.mul(b, written))
            places = (x, values["weights"], y, values["scratch"])
            tables = (values["scale"], values["bias"], values["bias"], values["bias"])
            code.call(f"{_NAME}_image", *places, *tables, start, stop)
