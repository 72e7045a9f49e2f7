"""A convolution with its arguments in memory, whole (`conv_call`) and in parts (`conv_part`).

Threads take units of all images; a thread does its own from beginning to end in scratch memory of
its own, so that none waits for another. Every number of threads gives the same bits. Not here: who
takes which units (`runtime.native`), products of matrices (`parallel`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....runtime.native.abi.conv import ConvGeometry
from ....runtime.native.abi.linear import Kind
from ....runtime.native.abi.parallel import CONV_CALL, CONV_CALL_ARGUMENTS, CONV_PART
from .code import POINTER, Code
from .conv import conv_functions, conv_image_bytes, conv_scratch_bytes
from .kernel import layer_epilogue
from .panel import write_tiles
from .parallel import PART_ARGUMENTS, loaded
from .recipes import Recipe

_NAME = "conv"


def conv_module(recipe: Recipe, kind: Kind, geometry: ConvGeometry) -> ModuleOp:
    """The functions `conv_call` and `conv_part`, see `abi.parallel`.

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
    code = Code(CONV_PART, PART_ARGUMENTS)
    values = loaded(code, CONV_CALL_ARGUMENTS)
    _, _, first, end, member = code.arguments
    own = code.mul(member, conv_scratch_bytes(recipe, kind, geometry))
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
