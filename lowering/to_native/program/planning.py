"""Plans the function of a module: calls are inlined, the rule of every op says what it does.

Not here: the rules, which are the caller's, and code of what was planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import abstract_ops
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ....dialects import spike
from ....dialects.spike.types import dense_type
from ....ir.errors import UnsupportedError
from ....ir.locations import location_text
from ....passes.analysis.replacement import erase_unused
from ....runtime.native.abi.interface import FORWARD
from ....runtime.native.abi.sizes import Size, product
from . import structured
from .conv_costs import is_known
from .inlining import inline_calls
from .nests import RefusedError
from .program import Program, sizes_of
from .repetition import Repetition
from .views import Buffer, View, whole_view


def plan_function(
    program: Program, module: ModuleOp, arguments: Sequence[Sequence[Size]]
) -> list[View]:
    """Plan the function of a program; where its results stand.

    Args:
        program: nothing is known of it yet.
        module: that the function stands in. Both are changed.
        arguments: the sizes of its arguments, as far as their types leave them free.

    Raises:
        UnsupportedError: names every op that cannot be compiled.
    """
    function = program.function
    inline_calls(module, function)
    erase_unused([op for op in function.body.block.ops if op.results])
    _known_first(function.body.block)
    program.order = {op: position for position, op in enumerate(_ops(function.body.block))}
    problems: list[tuple[str, str, str]] = []
    for number, (argument, free) in enumerate(zip(function.args, arguments, strict=True)):
        sizes = sizes_of(argument, free)
        buffer = Buffer(dense_type(argument).element_type, product(sizes), "input", number)
        program.views[argument] = whole_view(buffer, sizes)
    _plan_all(program, function.body.block, problems)
    if problems:
        raise UnsupportedError(program.target, problems)
    return [_returned(program, value, n) for n, value in enumerate(results(function))]


def _known_first(block: Block) -> None:
    """Move what is known before the program runs to the front: whoever plans what comes in may ask
    what it meets."""
    known = [op for op in block.ops if any(is_known(value) for value in op.results)]
    for op in known:
        op.detach()
    assert block.first_op is not None  # what returns results
    block.insert_ops_before(known, block.first_op)


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
    rule = program.rules.get(type(op))
    known = len(program.steps)
    if rule is None:
        return "has no form in memory"
    try:
        if isinstance(op, abstract_ops.LinalgStructuredOperation):
            refusal = structured.check_body(program, op)
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


def forward_of(module: ModuleOp, target: str) -> FuncOp:
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
    raise UnsupportedError(target, [("builtin.module", location_text(module), reason)])


def results(function: FuncOp) -> Sequence[SSAValue]:
    """What a function returns."""
    end = function.body.block.last_op
    assert end is not None
    return end.operands


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
