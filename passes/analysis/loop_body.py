"""What the body of a loop over steps takes from around it.

`spike.scan` hands its body what it reads: constants and parameters are copied in, other values are
fixed arguments. Not here: what a step is (`step_form`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ...dialects import spike
from ...dialects.elements import numpy_dtype
from ...dialects.parameters import dense_constant
from ...dialects.spike.types import dense_type, like
from .replacement import insert_before
from .step_form import CarriedState, StepForm


def loop_of(
    form: StepForm,
    values: Mapping[SSAValue, SSAValue],
    anchor: Operation,
    run: SSAValue | None = None,
) -> spike.ScanOp:
    """The loop over the block of a form, not yet inserted.

    Args:
        form: what a step is.
        values: for values of the form those that stand for them around the loop; others are there.
        anchor: the loop comes before it; zeros that states begin with are inserted there.
        run: says how many steps there are if no run goes in.
    """
    runs = [values.get(value, value) for value in form.slices.values()]
    arguments = [*form.slices, *(state.argument for state in form.states)]
    types = [argument.type for argument in arguments]
    if not runs:
        assert run is not None
        runs = [run]
        types.insert(0, like(run, (1, *dense_type(run).get_shape()[1:])))
    block = Block(arg_types=types)
    inside = list(block.args)[len(types) - len(arguments) :]
    moved: dict[SSAValue, SSAValue] = dict(zip(arguments, inside, strict=True))
    for old, new in zip(arguments, inside, strict=True):
        new.name_hint = old.name_hint
    moved.update((argument, values.get(value, value)) for argument, value in form.fixed.items())
    for inner in form.block.ops:
        copy = inner.clone(moved)
        copy.location = inner.location
        block.add_op(copy)
    yielded = [*(state.after for state in form.states), *form.stacked.values()]
    block.add_op(spike.YieldOp(*(moved[value] for value in yielded)))
    return scan_over(runs, [_initial(anchor, state, values) for state in form.states], block)


def _initial(
    anchor: Operation, state: CarriedState, values: Mapping[SSAValue, SSAValue]
) -> SSAValue:
    """What a state begins with; 0 where nothing is given."""
    if state.initial is not None:
        return values.get(state.initial, state.initial)
    element = dense_type(state.argument).element_type
    zero = dense_constant(np.zeros((), numpy_dtype(element)), element)
    insert_before(anchor, zero)
    return zero.result


def scan_over(runs: Sequence[SSAValue], states: Sequence[SSAValue], block: Block) -> spike.ScanOp:
    """A loop over a block that reads values around it.

    Args:
        runs: what has steps; the first arguments of the block are one step of each.
        states: before the first step; the arguments behind are those before a step.
        block: ends in `spike.yield`.
    """
    fixed: dict[SSAValue, SSAValue] = {}
    copies: dict[SSAValue, SSAValue] = {}
    for op in list(block.walk()):
        for index, value in enumerate(op.operands):
            if _is_inside(value, block):
                continue
            if is_known(value):
                op.operands[index] = _copied_in(block, value, copies)
                continue
            if value not in fixed:
                fixed[value] = block.insert_arg(value.type, len(runs) + len(fixed))
                fixed[value].name_hint = value.name_hint
            op.operands[index] = fixed[value]
    return spike.ScanOp(runs, list(fixed), states, block)


def is_known(value: SSAValue) -> bool:
    """Whether a value follows from parameters and constants alone."""
    owner = value.owner
    return (
        isinstance(owner, Operation)
        and owner.has_trait(Pure)
        and not owner.regions
        and all(is_known(operand) for operand in owner.operands)
    )


def _is_inside(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    while owner is not block:
        around = owner.parent_block() if isinstance(owner, Operation) else owner.parent_op()
        if around is None:
            return False
        owner = around
    return True


def _copied_in(block: Block, value: SSAValue, copies: dict[SSAValue, SSAValue]) -> SSAValue:
    """A value that follows from constants, computed at the start of a block."""
    owner = value.owner
    if value not in copies:
        assert isinstance(owner, Operation)
        for operand in owner.operands:
            _copied_in(block, operand, copies)
        last = next(reversed(copies.values())).owner if copies else None
        copy = owner.clone(copies)  # which adds its results
        copy.location = owner.location
        if isinstance(last, Operation):
            block.insert_op_after(copy, last)
        else:
            assert block.first_op is not None
            block.insert_op_before(copy, block.first_op)
    return copies[value]
