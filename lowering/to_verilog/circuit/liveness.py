"""Ops of a circuit that no output depends on, left out; and modules that nobody instantiates.

Registers that hold their own value keep each other in use, so that it is not enough to look for
results without users. Not here: what synthesis drops bit by bit (`to_verilog.estimate`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw
from xdsl.ir import Block, Operation, OpResult

from .circuit import COMMENT
from .modules import AnyModule


def live(modules: Sequence[AnyModule]) -> list[AnyModule]:
    """The modules that the last one needs, with the ops that their outputs depend on.

    Modules have no effect but their outputs. The comment of an op that goes is that of the next one
    that stays and has none.
    """
    named = {module.sym_name.data: module for module in modules}
    needed: set[AnyModule] = set()
    waiting = [modules[-1]]
    while waiting:
        module = waiting.pop()
        if module in needed:
            continue
        needed.add(module)
        if isinstance(module, hw.HWModuleOp):
            block = module.body.block
            _remove_dead(block)
            used = [op for op in block.ops if type(op) is hw.InstanceOp]
            waiting += [named[op.module_name.string_value()] for op in used]
    return [module for module in modules if module in needed]


def _remove_dead(block: Block) -> None:
    """Erase the ops that the last one does not depend on."""
    assert block.last_op is not None
    needed: set[Operation] = set()
    waiting = [block.last_op]
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [value.op for value in op.operands if type(value) is OpResult]
    comment = None
    dead: list[Operation] = []
    for op in block.ops:
        if op not in needed:
            comment = op.attributes.get(COMMENT, comment)
            dead.append(op)
        elif comment is not None and type(op) is not hw.ConstantOp:
            op.attributes.setdefault(COMMENT, comment)
            comment = None
    for op in dead:
        block.erase_op(op, safe_erase=False)
