"""Compiles the function of a module: every op is planned, code is written.

Works on a copy, so that a module that is refused stays as it is. Not here: the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ....dialects.parameters import store_of
from ....runtime.native.abi.interface import CONSTANTS, TensorInterface
from ....runtime.native.abi.linear import Precision
from ....runtime.native.abi.sizes import needs_of
from ..interface import INTERFACE_ATTRIBUTE, NOTE_ATTRIBUTE, interface_of
from ..kept import kept_memory
from ..kernels.recipes import Recipe
from . import (
    additions,
    bitplane_products,
    packed_factors,
    padding,
    products,
    random_spikes,
    shapes,
    spike_products,
    spiking,
    structured,
    trit_constants,
)
from .assembly import Assembly
from .dots import use_dots
from .fusion import fuse
from .literals import use_literals
from .narrowing import narrow_constants, narrow_tensors
from .planning import forward_of, plan_function
from .program import Planner, Program
from .schedule import schedule
from .sharing import share_memory
from .structured import NestStep
from .trace import TRACE_ATTRIBUTE, Trace, counter, facts_of
from .views import View
from .winograd import use_winograd
from .writer import rules

if TYPE_CHECKING:
    from . import ConvertTernaryToLLVMPass

RULES: Mapping[type[Operation], Planner] = {
    **shapes.RULES,
    **structured.RULES,
    **padding.RULES,
    **products.RULES,
    **spike_products.RULES,
    **spiking.RULES,
    **random_spikes.RULES,
}
"""For each op the function that plans it."""


def compiled(
    module: ModuleOp, recipe: Recipe, options: ConvertTernaryToLLVMPass
) -> list[Operation]:
    """The functions that take the place of a module's.

    The module gets the constants, and the interface of the program is noted on it, and what its
    steps do, if they are to be traced.

    Args:
        module: with a function `@forward`; it stays as it is where that cannot be compiled.
        recipe: the instruction set.
        options: the others.

    Raises:
        UnsupportedError: names every op that cannot be compiled.
    """
    copy = module.clone()
    function = forward_of(copy, "native")
    interface = interface_of(module, function, recipe.name)
    program = Program(
        recipe,
        cast("Precision", options.precision),
        function,
        RULES,
        rules(),
        "native",
        lambda nest: schedule(nest, recipe),
        blocked=True,
        outside=options.outside,
        free=len(interface.names),
        keeps=options.kept,
        adds=options.additions,
    )
    outputs = plan_function(program, copy, [x.shape for x in interface.inputs])
    sizes = (size for view in program.views.values() for size in view.sizes)
    needs = needs_of([*program.needs, *sizes])
    shared = share_memory(program, outputs) if options.outside else []
    fuse(program)
    use_literals([step for step in program.steps if isinstance(step, NestStep)])
    narrow_constants(program.steps)
    known = narrow_tensors(program)
    use_dots(program, known)
    if options.winograd:
        use_winograd(program, known)
        narrow_constants(program.steps)  # weights of tiles as they came
    trit_constants.pack_trits(program)
    timer = counter() if options.trace else None
    assembly = Assembly(program, outputs, timer, together=options.together)
    functions, constants = assembly.write()
    if assembly.times is not None:
        trace = Trace(
            assembly.times.buffer.offset.at(0),
            tuple(facts_of(program, step, *options.trace) for step in program.steps),
            constants.size + assembly.kept + assembly.workspace.at(*options.trace),
        )
        module.attributes[TRACE_ATTRIBUTE] = StringAttr(trace.to_json())
    held = [
        (name, buffer.offset.at(0) + 8 * place)
        for buffer, names in program.tables.items()
        for place, name in enumerate(names)
    ]
    interface = replace(
        interface,
        outputs=tuple(map(_sized, interface.outputs, outputs)),
        held=tuple(held),
        shared=tuple(shared),
        phases=tuple(phase.things for phase in assembly.phases),
        apart=assembly.apart,
        kept=assembly.kept,
        needs=tuple(needs),
        equal=tuple(program.equal),
    )
    module.attributes.pop(NOTE_ATTRIBUTE, None)
    module.attributes[INTERFACE_ATTRIBUTE] = StringAttr(interface.to_json())
    name = store_of(module).add(CONSTANTS, constants)
    _rename_constants(functions, name)
    kernels = [*products.functions(program), *bitplane_products.functions(program)]
    kernels += spiking.functions(program) + spike_products.functions(program)
    kernels += trit_constants.functions(program) + additions.functions(program)
    kernels += packed_factors.functions(program)
    memory = kept_memory(assembly.kept) if assembly.kept else []
    return [*_declarations(copy), *memory, *kernels, *functions]


def _sized(output: TensorInterface, view: View) -> TensorInterface:
    """An output with the sizes that it has in memory."""
    return replace(output, shape=view.sizes)


def _declarations(module: ModuleOp) -> list[Operation]:
    """The functions of the C library that loops call."""
    return [
        llvm.FuncOp(
            f.sym_name,
            llvm.LLVMFunctionType(list(f.function_type.inputs), f.function_type.outputs.data[0]),
            llvm.LinkageAttr("external"),
        )
        for f in module.ops
        if isinstance(f, FuncOp) and f.is_declaration and f.function_type.outputs.data
    ]


def _rename_constants(functions: list[llvm.FuncOp], name: str) -> None:
    """State the name that the store gave to the constants."""
    if name == CONSTANTS:
        return
    for function in functions:
        attributes = function.arg_attrs
        if attributes is None:
            continue
        function.arg_attrs = ArrayAttr(
            type(entry)(
                {
                    key: StringAttr(name) if value == StringAttr(CONSTANTS) else value
                    for key, value in entry.data.items()
                }
            )
            for entry in attributes
        )
