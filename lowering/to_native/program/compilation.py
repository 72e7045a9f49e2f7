"""Compiles the function of a module: calls are inlined, every op is planned, code is written.

Works on a copy, so that a module that is refused stays as it is. Not here: the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import abstract_ops
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ....dialects import spike
from ....dialects.parameters import store_of
from ....dialects.shapes import DYNAMIC
from ....dialects.spike.types import dense_type, is_train
from ....ir.errors import UnsupportedError
from ....ir.locations import location_text
from ....passes.analysis.replacement import erase_unused
from ....runtime.native.abi.interface import CONSTANTS, FORWARD
from ....runtime.native.abi.linear import Precision
from ..kernels.recipes import Recipe
from . import (
    bitplane_products,
    convolutions,
    products,
    random_spikes,
    shapes,
    spike_products,
    spiking,
    structured,
)
from .assembly import Assembly
from .inlining import inline_calls
from .nests import RefusedError
from .program import Planner, Program, sizes_of
from .repetition import Repetition
from .sizes import BATCH, product
from .views import Buffer, View, whole_view

RULES: Mapping[type[Operation], Planner] = {
    **shapes.RULES,
    **structured.RULES,
    **spike_products.RULES,
    **products.RULES,
    **convolutions.RULES,
    **spiking.RULES,
    **random_spikes.RULES,
}
"""For each op the function that plans it."""

DIMENSIONS = "tensor.dimensions"
"""The argument attribute with the names of the sizes."""

_LEADING = "the first axis"
_TIME, _BATCH = "the steps", "the batch"


class Compilation:
    """Compiles the function `@forward` of a module.

    Attributes:
        inputs, outputs: types of the tensors that go in and come out.
        held: names of arrays that are not the program's, and where in the constants the address of
            each shall stand.
    """

    def __init__(self, module: ModuleOp, recipe: Recipe, precision: Precision) -> None:
        self._module = module
        self._copy = module.clone()
        self._recipe = recipe
        self._precision: Precision = precision
        function = forward_of(self._copy)
        self.inputs: list[Attribute] = [dense_type(value) for value in function.args]
        self.outputs: list[Attribute] = [dense_type(value) for value in _results(function)]
        self.held: list[tuple[str, int]] = []
        self._function = function

    def compile(self) -> list[Operation]:
        """The functions that take the place of the module's.

        Raises:
            UnsupportedError: names every op that cannot be compiled.
        """
        function = self._function
        inline_calls(self._copy, function)
        erase_unused([op for op in function.body.block.ops if op.results])
        order = {op: position for position, op in enumerate(_ops(function.body.block))}
        program = Program(self._recipe, self._precision, function, order)
        problems: list[tuple[str, str, str]] = []
        self._arguments(program, problems)
        _plan_all(program, function.body.block, problems)
        if problems:
            raise UnsupportedError("native", problems)
        end = function.body.block.last_op
        assert end is not None
        outputs = [_returned(program, value, n) for n, value in enumerate(end.operands)]
        functions, constants = Assembly(program, outputs).write()
        self.held = [
            (name, buffer.offset.at(0) + 8 * place)
            for buffer, names in program.tables.items()
            for place, name in enumerate(names)
        ]
        name = store_of(self._module).add(CONSTANTS, constants)
        _rename_constants(functions, name)
        kernels = [*products.functions(program), *bitplane_products.functions(program)]
        kernels += convolutions.functions(program, kernels)
        kernels += spiking.functions(program) + spike_products.functions(program)
        return [*_declarations(self._copy), *kernels, *functions]

    def _arguments(self, program: Program, problems: list[tuple[str, str, str]]) -> None:
        """Views of the arguments; all sizes that are not known must be one."""
        function = self._function
        names = free_sizes(function)
        if len(names) > 1:
            shown = ", ".join(names)
            reason = (
                f"has several free sizes ({shown}), and only one, the batch, can stay free; give "
                "the others with 'infer-shapes{timesteps=… batch=…}'"
            )
            problems.append((function.name, location_text(function), reason))
        for number, argument in enumerate(function.args):
            sizes = sizes_of(argument, BATCH)
            element = dense_type(argument).element_type
            buffer = Buffer(element, product(sizes), "input", number)
            program.views[argument] = whole_view(buffer, sizes)


def _ops(block: Block) -> Iterator[Operation]:
    """The ops of a block, those of the bodies of loops after the loop."""
    for op in block.ops:
        yield op
        if isinstance(op, spike.ScanOp):
            yield from _ops(op.body.block)


def _plan_all(program: Program, block: Block, problems: list[tuple[str, str, str]]) -> bool:
    """Plan the ops of a block; whether that goes well."""
    broken: set[SSAValue] = set()
    known = len(problems)
    for op in block.ops:
        if isinstance(op, ReturnOp | spike.YieldOp):
            continue
        if not broken.isdisjoint(op.operands):
            broken.update(op.results)
        elif isinstance(op, spike.ScanOp):
            if not _plan_loop(program, op, problems):
                broken.update(op.results)
        elif (reason := _planned(program, op)) is not None:
            problems.append((op.name, location_text(op), reason))
            broken.update(op.results)
    return len(problems) == known


def _plan_loop(program: Program, op: spike.ScanOp, problems: list[tuple[str, str, str]]) -> bool:
    """Plan a loop over steps, its body included; whether that goes well."""
    try:
        loop = Repetition(program, op)
        if not _plan_all(program, op.body.block, problems):
            return False
        loop.finish()
    except RefusedError as error:
        problems.append((op.name, location_text(op), str(error)))
        return False
    return True


def _planned(program: Program, op: Operation) -> str | None:
    """Plan an op; why that cannot be, if so."""
    rule = RULES.get(type(op))
    known = len(program.steps)
    if rule is None:
        return "has no form in memory"
    try:
        if isinstance(op, abstract_ops.LinalgStructuredOperation):
            refusal = structured.check_body(op)
            if refusal is not None:
                return refusal
        rule(program, op)
        for step in program.steps[known:]:
            step.location = op.location
    except RefusedError as error:
        return str(error)
    except VerifyException as error:
        return f"has types that cannot stand in memory: {error}"
    return None


def forward_of(module: ModuleOp) -> FuncOp:
    """The function to compile.

    Raises:
        UnsupportedError: there is none, or it has several blocks.
    """
    for function in module.ops:
        if isinstance(function, FuncOp) and function.sym_name.data == FORWARD:
            if function.is_declaration or len(function.body.blocks) != 1:
                break
            return function
    reason = f"has no function @{FORWARD} of one block"
    raise UnsupportedError("native", [("builtin.module", location_text(module), reason)])


def _results(function: FuncOp) -> Sequence[SSAValue]:
    """What a function returns."""
    end = function.body.block.last_op
    assert end is not None
    return end.operands


def free_sizes(function: FuncOp) -> list[str]:
    """The names of the sizes that are not known; sizes of leading axes without name are one."""
    names: dict[str, None] = {}
    leading: dict[str, None] = {}
    spiking = any(op.dialect_name() == "spike" for op in function.walk())
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    for number, argument in enumerate(function.args):
        dimensions = attributes[number].data.get(DIMENSIONS) if number < len(attributes) else None
        shape = dense_type(argument).get_shape()
        # Time comes first in trains and traces, then the batch, which comes first elsewhere.
        timed = is_train(argument) or (spiking and DYNAMIC in shape[1:2])
        plain = (_TIME, _BATCH) if timed else (_LEADING,)
        for axis, size in enumerate(shape):
            if size != DYNAMIC:
                continue
            name = plain[axis] if axis < len(plain) else f"axis {axis} of argument {number}"
            if isinstance(dimensions, ArrayAttr):
                word = cast("ArrayAttr[Attribute]", dimensions).data[axis]
                name = word.data if isinstance(word, StringAttr) else str(word)
            names[name] = None
            if axis < len(plain):
                leading[name] = None
    if len(leading) > 1:
        names.pop(_LEADING, None)
    return list(names)


def _returned(program: Program, value: SSAValue, number: int) -> View:
    """Make a value the output of that number."""
    view = program.view(value)
    buffer = view.buffer
    if buffer.place == "workspace" and view.whole:
        buffer.place, buffer.number = "output", number
        return view
    output = Buffer(view.element, product(view.sizes), "output", number)
    target = whole_view(output, view.sizes)
    structured.add_copy(program, view, target)
    return target


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
