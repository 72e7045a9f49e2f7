"""Verifying a module between passes: of what was verified before, only what changed since.

Verification takes longer than most passes, and most passes change few ops; and circuits have
hundreds of thousands of gates that are all of a few kinds. Not here: the checks themselves
(`registry.verify_module`, which also looks at how blocks and values hang together).
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import ErasedSSAValue, Operation, SSAValue
from xdsl.traits import IsTerminator, SymbolUserOpInterface

from ..ir.errors import VerifyError
from ..ir.locations import error_at
from .registry import verify_module, verify_order

_Key = tuple[Any, ...]

_GATES = frozenset((*comb.Comb.operations, *seq.Seq.operations, hw.ConstantOp))
"""Ops whose types and properties alone say whether they verify."""


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
        self._gates: set[_Key] = set()

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

        Insides of hardware modules are left out: their ops were verified one by one, and how they
        hang together is what `to_verilog.circuit.structure` looks at.
        """
        hardware = any(isinstance(op, hw.HWModuleOp) for op in module.body.block.ops)
        if not hardware or self._known is None:
            verify_module(module)
            return
        for op in module.body.block.ops:
            _verify(op, nested=not isinstance(op, hw.HWModuleOp))
        _verify(module)
        verify_order(module)

    def _verify(self, op: Operation) -> None:
        """Verify an op; of gates that are alike the first."""
        if type(op) not in _GATES or op.next_op is None or not all(map(_is_there, op.operands)):
            _verify(op)
            return
        types = (value.type for value in (*op.operands, *op.results))
        key = (type(op), len(op.operands), *types, *op.properties.items())
        if key not in self._gates:
            _verify(op)
            self._gates.add(key)


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
    return bool(
        op.regions
        or op.successors
        or op.has_trait(IsTerminator, value_if_unregistered=False)
        or op.has_trait(SymbolUserOpInterface, value_if_unregistered=False)
    )


def _is_there(value: SSAValue) -> bool:
    return not isinstance(value, ErasedSSAValue)


def _verify(op: Operation, *, nested: bool = False) -> None:
    try:
        op.verify(verify_nested_ops=nested)
    except Exception as error:
        raise VerifyError(error_at(op, str(error))) from None
