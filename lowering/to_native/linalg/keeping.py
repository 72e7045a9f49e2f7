"""Ops that stay as they are among lowered ones: their types, and casts where types differ.

Not here: which products stay (`to_native.ternary_products`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects import ternary
from ....dialects.ternary.linear import OPTIONS
from ....passes.analysis.compile_time import is_literal
from ....passes.analysis.replacement import erase, insert_before
from .linalg_builder import LinalgBuilder
from .signature import is_unsigned_tensor, lowered_type

_BARE = (*OPTIONS, "low", "high", "sparsity")


def split_products(
    function: FuncOp, taken: Callable[[Operation], bool]
) -> dict[Operation, SSAValue]:
    """Put the bare product before an op of which kernels take no more than that; the products."""
    products: dict[Operation, SSAValue] = {}
    for op in list(function.walk()):
        if not isinstance(op, ternary.FusedOp) or taken(op):
            continue
        bare = op.rebuild(**dict.fromkeys(_BARE), activation="none")
        insert_before(op, bare)
        if taken(bare):
            products[op] = bare.result
        else:
            erase(bare)
    return products


def is_spiking(op: Operation) -> bool:
    """Whether an op is one of `spike`."""
    return op.dialect_name() == "spike"


class Keeper:
    """Knows the ops that stay, and the types that their operands had.

    Args:
        ops: of a function.
        taken: whether a product with trits stays.
    """

    def __init__(self, ops: Sequence[Operation], taken: Callable[[Operation], bool]) -> None:
        self._types: dict[Operation, list[Attribute]] = {
            op: [operand.type for operand in op.operands]
            for op in ops
            if is_literal(op) or taken(op) or is_spiking(op)
        }

    def keeps(self, op: Operation) -> bool:
        """Whether an op stays."""
        return op in self._types

    def keep(self, builder: LinalgBuilder, op: Operation) -> None:
        """Give an op operands of the types that it had; later ops see lowered results."""
        for position, type in enumerate(self._types[op]):
            operand = op.operands[position]
            if operand.type != type:
                op.operands[position] = _as_before(builder, operand, type)
        for result in op.results:
            lowered = lowered_type(result.type)
            if lowered == result.type:
                continue
            cast = UnrealizedConversionCastOp.get([result], [lowered])
            cast.location = op.location
            block = op.parent
            assert block is not None
            block.insert_op_after(cast, op)
            value = cast.results[0]
            if is_unsigned_tensor(result.type):
                builder.unsigned.add(value)
            result.replace_uses_with_if(value, lambda use, cast=cast: use.operation is not cast)


def _as_before(builder: LinalgBuilder, value: SSAValue, type: Attribute) -> SSAValue:
    """A lowered value as one of the type that an op has; the original where there is one."""
    owner = value.owner
    if isinstance(owner, UnrealizedConversionCastOp) and owner.inputs[0].type == type:
        return owner.inputs[0]
    return builder.insert(UnrealizedConversionCastOp.get([value], [type]))
