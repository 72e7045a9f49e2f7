"""Verifying a module between passes: of what was verified before, only what changed since.

Verification takes longer than most passes, and most passes change few ops; and circuits have
hundreds of thousands of gates, and machine code many instructions, that are all of a few kinds.
Not here: the checks themselves (`registry.verify_module`, which also looks at how blocks and values
hang together).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from xdsl.dialects import comb, hw, llvm, seq
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation, SSAValue
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    SymbolOpInterface,
    SymbolUserOpInterface,
)

from ..ir.errors import VerifyError
from ..ir.locations import error_at
from ..ir.walking import all_ops
from .fabric import BitsOp, Fabric, RowOp
from .registry import verify_module, verify_order

_Key = tuple[Any, ...]

_SYMBOLS = SymbolOpInterface, SymbolUserOpInterface
_ALIKE = frozenset((
    *(*comb.Comb.operations, *seq.Seq.operations, *Fabric.operations, hw.ConstantOp),
    *(op for op in llvm.LLVM.operations if not any(isinstance(t, _SYMBOLS) for t in op.traits)),
))  # fmt: skip
"""Ops whose types, properties and places alone say whether they verify."""

_SCOPES = frozenset((FuncOp, ModuleOp))
"""Ops whose traits alone look into them."""


class ChangeVerifier:
    """Verifies a module again and again: whole at first, then the ops that are not as they were.

    An op counts as changed with its place, its operands, any type of theirs or of its results, a
    property or an attribute. Ops with bodies, terminators and users of symbols look further and are
    verified each time; of functions and modules that did not change, what their traits ask.

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
        if known is None:
            verify_module(module)
        seen: dict[Operation, _Key] = {}
        for op in all_ops(module):
            if type(op) in _ALIKE:
                if known is not None:
                    self._verify_alike(op)
                continue
            seen[op] = key = _key(op)
            if known is None:
                continue
            if known.get(op) != key:
                _verify(op)
            elif type(op) in _SCOPES:
                _verify_scope(op)
            elif _looks_further(op):
                _verify(op)
        if known is not None:
            verify_order(module)
        self._known = seen

    def finish(self, module: ModuleOp) -> None:
        """Verify a module that this was called with last once more, as a whole.

        Hardware modules are left out: their ops were verified one by one, and how they hang
        together is what `to_verilog.circuit.structure` looks at. Machine code is compared with
        what verified, and LLVM looks at it again.
        """
        if self._known is None:
            verify_module(module)
            return
        for op in module.body.block.ops:
            if isinstance(op, llvm.FuncOp):
                for inner in all_ops(op):
                    (self._verify_alike if type(inner) in _ALIKE else _verify)(inner)
            elif not isinstance(op, hw.HWModuleOp):
                _verify(op, nested=True)
        _verify_scope(module)
        verify_order(module)

    def _verify_alike(self, op: Operation) -> None:
        """Verify an op unless one like it was: this takes no longer than to see a change."""
        operands, properties = tuple(op.operands), op.properties
        if not _in_its_place(op, operands):
            _verify(op)
            return
        if isinstance(op, BitsOp | RowOp) and _picks_well(op):
            return
        kind = (type(op), len(operands), *properties)
        parts = [*[value.type for value in (*operands, *op.results)], *properties.values()]
        # Most are the same objects, which is seen sooner than that they are equal.
        same = (*kind, *map(id, parts))
        if same not in self._same:
            if (key := (*kind, *parts)) not in self._kinds:
                _verify(op)
                self._kinds.add(key)
            self._same[same] = parts


def _key(op: Operation) -> _Key:
    operands = op.operands
    entries = (region.first_block for region in op.regions) if type(op) in _SCOPES else ()
    return (
        op.parent,
        *(None if entry is None else entry.arg_types for entry in entries),
        *operands,
        *(value.type for value in operands),
        *(result.type for result in op.results),
        len(operands),
        dict(op.properties),
        dict(op.attributes),
    )


def _picks_well(op: BitsOp | RowOp) -> bool:
    """Whether an op verifies, all of it: few pick the same bits as another one."""
    arrays = op.properties.values()
    if len(arrays) != len(op.get_irdl_definition().properties):
        return False
    are_arrays = all(type(a) is DenseArrayBase and a.elt_type is i64 for a in arrays)
    return are_arrays and not op.fault


def _looks_further(op: Operation) -> bool:
    kind = type(op)
    return bool(op.regions or op.successors) or _ends_blocks(kind) or _has_symbols(kind)


@cache
def _ends_blocks(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator, value_if_unregistered=False)


@cache
def _has_symbols(kind: type[Operation]) -> bool:
    return kind.has_trait(SymbolUserOpInterface, value_if_unregistered=False)


def _in_its_place(op: Operation, operands: Sequence[SSAValue]) -> bool:
    """Whether its operands are there, and it ends its block if it has to and else does not."""
    if (block := op.parent) is None or ErasedSSAValue in map(type, operands):
        return False
    ends = _ends_blocks(type(op))
    if (op.next_op is None) != ends:
        return False
    return not ends or all(successor.parent is block.parent for successor in op.successors)


def _verify_scope(op: Operation) -> None:
    """Verify what traits of a function or module ask of what stands in it."""
    try:
        for trait in op.traits:
            if not isinstance(trait, IsolatedFromAbove):
                trait.verify(op)
    except Exception as error:
        raise VerifyError(error_at(op, str(error))) from None
    if _may_use_others(op):
        _verify(op)


def _may_use_others(scope: Operation) -> bool:
    """Whether an op in `scope` uses a value of a block that was not seen in it.

    As `IsolatedFromAbove` has it, without the way from each value to the op.
    """
    seen, used = set[Block](), set[Block | None]()
    blocks = [block for region in scope.regions for block in region.blocks]
    for block in blocks:
        seen.add(block)
        op = block.first_op
        while op is not None:
            for operand in op.operands:
                owner = operand.owner
                home = owner if isinstance(owner, Block) else owner.parent
                if home is not block:
                    used.add(home)
            if op.regions and not _is_isolated(type(op)):
                blocks += [inner for region in op.regions for inner in region.blocks]
            op = op.next_op
    return not used <= seen


@cache
def _is_isolated(kind: type[Operation]) -> bool:
    return kind.has_trait(IsolatedFromAbove, value_if_unregistered=False)


def _verify(op: Operation, *, nested: bool = False) -> None:
    try:
        op.verify(verify_nested_ops=nested)
    except Exception as error:
        raise VerifyError(error_at(op, str(error))) from None
