"""A convolution with its arguments in memory, alone (`conv_call`) and for a team (`conv_task`).

The units of all images are shared out evenly; a thread does its own from beginning to end in
scratch memory of its own, so that none waits for another. Every size of the team gives the same
bits. Not here: which runtime the team is of, products of matrices for such teams (`parallel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, i32, i64
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
from .code import POINTER, Code, function
from .conv import conv_functions, conv_image_bytes, conv_scratch_bytes
from .kernel import layer_epilogue
from .panel import write_tiles
from .parallel import declared
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
    call = _Call(recipe, kind, geometry)
    functions.append(function(CONV_CALL, [POINTER], call.alone))
    if parallel:
        functions += [declared(THREAD_NUMBER, i32), declared(TEAM_SIZE, i32)]
        functions.append(function(CONV_TASK, [POINTER], call.together))
    return ModuleOp(list[llvm.FuncOp](functions))


class _Call:
    """Writes the code."""

    def __init__(self, recipe: Recipe, kind: Kind, geometry: ConvGeometry) -> None:
        self._units = geometry.units
        self._scratch = conv_scratch_bytes(recipe, kind, geometry)
        self._bytes = conv_image_bytes(kind, geometry, layer_epilogue(kind))

    def alone(self, code: Code, arguments: Sequence[SSAValue]) -> None:
        """All units of all images."""
        values = _loaded(code, arguments[0])
        units = code.mul(values["batch"], code.constant(self._units))
        self._do(code, values, code.constant(0), units)

    def together(self, code: Code, arguments: Sequence[SSAValue]) -> None:
        """The share of this thread."""
        values = _loaded(code, arguments[0])
        thread = code.widen(code.ask(THREAD_NUMBER, i32), i64)
        count = code.widen(code.ask(TEAM_SIZE, i32), i64)
        units = code.mul(values["batch"], code.constant(self._units))
        first = code.udiv(code.mul(units, thread), count)
        end = code.udiv(code.mul(units, code.add(thread, code.constant(1))), count)
        own = code.mul(thread, code.constant(self._scratch))
        values["scratch"] = code.at(values["scratch"], own)
        self._do(code, values, first, end)

    def _do(self, code: Code, values: dict[str, SSAValue], first: SSAValue, end: SSAValue) -> None:
        """The units from `first` to `end`, those of all images counted one after the other."""
        none, units = code.constant(0), code.constant(self._units)
        read, written = (code.constant(size) for size in self._bytes)

        def image(b: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            before = code.mul(b, units)
            bounds = (
                code.maximum(code.sub(first, before), none),
                code.minimum(code.sub(end, before), units),
            )
            x = code.at(values["x"], code.mul(b, read))
            y = code.at(values["y"], code.mul(b, written))
            tables = (values["scale"], values["bias"], values["bias"], values["bias"])
            memory = values["scratch"]
            code.call(f"{_NAME}_image", x, values["weights"], y, memory, *tables, *bounds)
            return []

        def all_images() -> None:
            code.call(f"{_NAME}_begin", values["scratch"])
            last = code.udiv(code.sub(end, code.constant(1)), units)
            code.loop(code.udiv(first, units), code.add(last, code.constant(1)), 1, image)

        code.when(code.compare("slt", first, end), all_images)


def _loaded(code: Code, memory: SSAValue) -> dict[str, SSAValue]:
    return {
        name: code.load(code.at(memory, 8 * i), i64 if name == "batch" else POINTER)
        for i, name in enumerate(CONV_CALL_ARGUMENTS)
    }
