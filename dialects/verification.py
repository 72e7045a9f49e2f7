"""Verifying a module between passes: of what was verified before, only what changed since.

Verification takes longer than most passes, and most passes change few ops. Not here: the checks
themselves (`registry.verify_module`, which also looks at how blocks and values hang together, and
which whoever takes the module at the end calls).
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, SymbolUserOpInterface

from ..ir.errors import VerifyError
from ..ir.locations import error_at
from .registry import verify_module, verify_order

_Key = tuple[Any, ...]


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

    def __call__(self, module: ModuleOp) -> None:
        known = self._known
        seen = {op: _key(op) for op in module.walk()}
        if known is None:
            verify_module(module)
        else:
            for op, key in seen.items():
                if _looks_further(op) or known.get(op) != key:
                    _verify(op)
            verify_order(module)
        self._known = seen


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


def _verify(op: Operation) -> None:
    try:
        op.verify(verify_nested_ops=False)
    except Exception as error:
        raise VerifyError(error_at(op, str(error))) from None
