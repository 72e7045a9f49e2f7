"""Compiles the function of a module: every op is planned, code is written.

Works on a copy, so that a module that is refused stays as it is. Not here: the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ....dialects.parameters import store_of
from ....dialects.spike.types import dense_type
from ....runtime.native.abi.interface import CONSTANTS
from ....runtime.native.abi.linear import Precision
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
from .planning import forward_of, plan_function, results
from .program import Planner, Program
from .schedule import schedule
from .sharing import share_memory
from .sizes import Size, least_batch
from .structured import NestStep
from .trace import Trace, counter, facts_of
from .winograd import use_winograd
from .writer import rules

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


class Compilation:
    """Compiles the function `@forward` of a module.

    Attributes:
        inputs, outputs: types of the tensors that go in and come out.
        sizes: of those that come out; known once it is compiled.
        least: the least batch, see `Interface.least`.
        held: names of arrays that are not the program's, and where in the constants the address of
            each shall stand.
        shared: outputs, and the inputs that they begin with, in the same memory.
        kept: bytes of memory that the first call fills.
        phases, apart: see `abi.phases`: things of each, and bytes of each thread.
        trace: of its steps for the batch that is to be traced; `None` without one.
    """

    def __init__(
        self,
        module: ModuleOp,
        recipe: Recipe,
        precision: Precision,
        batch: int | None = None,
        *,
        outside: bool = False,
        winograd: bool = True,
        together: bool = False,
        kept: bool = True,
        adds: bool = True,
    ) -> None:
        self._module = module
        self._copy = module.clone()
        self._recipe = recipe
        self._precision: Precision = precision
        function = forward_of(self._copy, "native")
        self.inputs: list[Attribute] = [dense_type(value) for value in function.args]
        self.sizes: list[tuple[Size, ...]] = []
        self.outputs: list[Attribute] = [dense_type(value) for value in results(function)]
        self.held: list[tuple[str, int]] = []
        self.shared: list[tuple[int, int]] = []
        self.trace: Trace | None = None
        self._function = function
        self._batch = batch
        self._outside = outside
        self._winograd = winograd
        self._together = together
        self.phases: list[int] = []
        self.apart = self.kept = self.least = 0
        self._keeps, self._adds = kept, adds

    def compile(self) -> list[Operation]:
        """The functions that take the place of the module's.

        Raises:
            UnsupportedError: names every op that cannot be compiled.
        """
        recipe, function = self._recipe, self._function
        program = Program(
            recipe,
            self._precision,
            function,
            RULES,
            rules(),
            "native",
            lambda nest: schedule(nest, recipe),
            blocked=True,
            outside=self._outside,
            keeps=self._keeps,
            adds=self._adds,
        )
        outputs = plan_function(program, self._copy)
        self.sizes = [view.sizes for view in outputs]
        self.least = least_batch(size for view in program.views.values() for size in view.sizes)
        if self._outside:
            self.shared = share_memory(program, outputs)
        fuse(program)
        use_literals([step for step in program.steps if isinstance(step, NestStep)])
        narrow_constants(program.steps)
        known = narrow_tensors(program)
        use_dots(program, known)
        if self._winograd:
            use_winograd(program, known)
        trit_constants.pack_trits(program)
        timer = None if self._batch is None else counter()
        assembly = Assembly(program, outputs, timer, together=self._together)
        functions, constants = assembly.write()
        self.phases, self.apart = [phase.things for phase in assembly.phases], assembly.apart
        self.kept = assembly.kept
        if self._batch is not None and assembly.times is not None:
            self.trace = Trace(
                assembly.times.buffer.offset.at(0),
                tuple(facts_of(program, step, self._batch) for step in program.steps),
                constants.size + assembly.kept + assembly.workspace.at(self._batch),
            )
        self.held = [
            (name, buffer.offset.at(0) + 8 * place)
            for buffer, names in program.tables.items()
            for place, name in enumerate(names)
        ]
        name = store_of(self._module).add(CONSTANTS, constants)
        _rename_constants(functions, name)
        kernels = [*products.functions(program), *bitplane_products.functions(program)]
        kernels += spiking.functions(program) + spike_products.functions(program)
        kernels += trit_constants.functions(program) + additions.functions(program)
        kernels += packed_factors.functions(program)
        memory = kept_memory(self.kept) if self.kept else []
        return [*_declarations(self._copy), *memory, *kernels, *functions]


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
