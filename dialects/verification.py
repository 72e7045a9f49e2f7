"""Verifying a module between passes: of what was verified before, only what changed since.

Verification takes longer than most passes, and most passes change few ops; and circuits have
hundreds of thousands of gates, and machine code many instructions, that are all of a few kinds.
Not here: the checks themselves (`registry.verify_module`, which also looks at how blocks and values
hang together).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects import comb, hw, llvm, seq
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, ErasedSSAValue, Operation
from xdsl.traits import IsTerminator, SymbolOpInterface, SymbolUserOpInterface

from ..ir.errors import VerifyError
from ..ir.locations import error_at
from .fabric import Fabric
from .registry import verify_module, verify_order

_Key = tuple[Any, ...]

_SYMBOLS = SymbolOpInterface, SymbolUserOpInterface
_ALIKE = frozenset((
    *(*comb.Comb.operations, *seq.Seq.operations, *Fabric.operations, hw.ConstantOp),
    *(op for op in llvm.LLVM.operations if not any(isinstance(t, _SYMBOLS) for t in op.traits)),
))  # fmt: skip
"""Ops whose types, properties and places alone say whether they verify."""


class ChangeVerifier:
    """Verifies a module again and again: whole at first, then the ops that are not as they were.

    An op counts as changed with its place, its operands, any type of theirs or of its results, a
    property or an attribute. Ops with bodies, terminators and users of symbols look further and are
    verified each time.

        verify = ChangeVerifier()
        verify(module)   # after a pass
        verify(module)   # after the next one

    Raises:
        VerifyError: as `verify_module`.
    """

    def __init__(self) -> None:
        self._known: dict[Operation, _Key] | None = None
        self._kinds: set[_Key] = set()
        self._same: dict[_Key, list[Attribute]] = {}

    def __call__(self, module: ModuleOp) -> None:
        known = self._known
        seen = {op: _key(op) for op in module.walk()}
        if known is None:
            verify_module(module)
        else:
            for op, key in seen.items():
                if _looks_further(op) or known.get(op) != key:
                    self._verify(op)
            verify_order(module)
        self._known = seen

    def finish(self, module: ModuleOp) -> None:
        """Verify a module that this was called with last once more, as a whole.

        Hardware modules are left out: their ops were verified one by one, and how they hang
        together is what `to_verilog.circuit.structure` looks at.
        """
        hardware = any(isinstance(op, hw.HWModuleOp) for op in module.body.block.ops)
        if not hardware or self._known is None:
            verify_module(module)
            return
        for op in module.body.block.ops:
            if not isinstance(op, hw.HWModuleOp):
                _verify(op, nested=True)
        _verify(module)
        verify_order(module)

    def _verify(self, op: Operation) -> None:
        """Verify an op; of those that are alike the first."""
        if type(op) not in _ALIKE or not _in_its_place(op):
            _verify(op)
            return
        kind = (type(op), len(op.operands), *op.properties)
        parts = [*(value.type for value in (*op.operands, *op.results)), *op.properties.values()]
        # Most are the same objects, which is seen sooner than that they are equal.
        same = (*kind, *map(id, parts))
        if same not in self._same:
            if (key := (*kind, *parts)) not in self._kinds:
                _verify(op)
                self._kinds.add(key)
            self._same[same] = parts


def _key(op: Operation) -> _Key:
    operands = op.operands
    return (
        op.parent,
        *operands,
        *(value.type for value in operands),
        *(result.type for result in op.results),
        len(operands),
        dict(op.properties),
        dict(op.attributes),
    )


def _looks_further(op: Operation) -> bool:
    return bool(op.regions or op.successors) or _is_of_its_surroundings(type(op))


@cache
def _is_of_its_surroundings(kind: type[Operation]) -> bool:
    return any(
        kind.has_trait(trait, value_if_unregistered=False)
        for trait in (IsTerminator, SymbolUserOpInterface)
    )


def _in_its_place(op: Operation) -> bool:
    """Whether its operands are there, and it ends its block if it has to and else does not."""
    if (block := op.parent) is None or ErasedSSAValue in map(type, op.operands):
        return False
    if (op.next_op is None) != op.has_trait(IsTerminator):
        return False
    return all(successor.parent is block.parent for successor in op.successors)


def _verify(op: Operation, *, nested: bool = False) -> None:
    try:
        op.verify(verify_nested_ops=nested)
    except Exception as error:
        raise VerifyError(error_at(op, str(error))) from None
