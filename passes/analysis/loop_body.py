"""What the body of a loop over steps takes from around it.

`spike.scan` hands its body what it reads: constants and parameters are copied in, other values are
fixed arguments. Not here: what a step is (`step_form`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ...dialects import spike


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
