"""The pass `fold-constants`: evaluate what depends on parameters and constants alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor, ternary
from ..dialects.elements import holds_nan
from ..dialects.inference import InferredOp, tensor_type
from ..dialects.parameters import Array, constant_value, module_of
from ..dialects.tensor.storage import INLINE_LIMIT
from ..dialects.ternary.types import is_trit
from ..ir.errors import TritonError, expect_from
from ..ir.locations import error_at
from .analysis.compile_time import (
    Literal,
    derived_key,
    evaluate,
    has_value,
    is_computation,
    is_literal,
    literal,
)
from .analysis.replacement import erase, insert_before


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluate pure ops on parameters and constants with the reference interpreter.

    Results of up to 64 elements, and splats, become `tensor.constant`; larger ones become entries
    of the parameter store, named after the parameter they come from and the last op (`fc1.weight`
    ternarized: `fc1.weight.trits`, packed). Only what the rest of the program uses is stored.

        %w = tensor.parameter "fc1.weight" : tensor<784x10xf32>
        %t, %s = ternary.ternarize %w {rule = "twn", scale = "channel", axis = 1 : i64} : …
        // becomes
        %t = ternary.parameter "fc1.weight.trits" : tensor<784x10x!ternary.trit>
        %s = tensor.constant dense<[0.25, …]> : tensor<10xf32>

    Trits that come from a parameter stay a parameter even if they are few, so that they keep their
    name. Stored entries are never overwritten: the float `fc1.weight` remains in the store in
    memory, and is left out of what `-o` writes once nothing names it.

    Ops stay where they are if the weights were never given, if a result holds NaN, or if it has
    more than `limit` elements.
    """

    name = "fold-constants"

    limit: int = 1 << 26
    """The largest number of elements that a result may have."""

    keep_packed: bool = False
    """Leave the unpacking of stored trits to the program: as floats they take 16 times the room."""

    keep_bytes: bool = False
    """Leave `tensor.dequantize` of stored integers: as floats bytes take 4 times the room."""

    def __post_init__(self) -> None:
        expect_from("fold-constants expects a limit", self.limit, 0)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold(op.walk(), self.limit, keep_packed=self.keep_packed, keep_bytes=self.keep_bytes)


def fold(
    ops: Iterable[Operation],
    limit: int = 1 << 26,
    *,
    keep_packed: bool = False,
    keep_bytes: bool = False,
) -> None:
    """Evaluate and replace those of `ops`, in program order, that depend on literals alone."""
    folding = _Folding(limit, keep_packed, keep_bytes)
    for op in ops:
        folding.visit(op)
    folding.replace()


class _Folding:
    """The values found so far; ops change in `replace` alone."""

    def __init__(self, limit: int, keep_packed: bool, keep_bytes: bool) -> None:
        self.limit = limit
        self.keep_packed = keep_packed
        self.keep_bytes = keep_bytes
        self.literals: dict[SSAValue, Literal] = {}
        self.folded: dict[SSAValue, InferredOp] = {}
        # Values that an op outside may still use; those that no longer can be are dropped.
        self.arrays: dict[SSAValue, Array] = {}
        self.uses: dict[SSAValue, int] = {}
        # The key of the first parameter behind a value, and values with a learned one behind them.
        self.origin: dict[SSAValue, str] = {}
        self.learned: set[SSAValue] = set()

    def visit(self, op: Operation) -> None:
        if is_literal(op):
            if has_value(op):
                self._visit_literal(op)
        elif is_computation(op) and all(
            v in self.literals or v in self.folded for v in op.operands
        ):
            self._visit_computation(op)

    def _visit_literal(self, op: Literal) -> None:
        self.literals[op.result] = op
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp):
            self.origin[op.result] = op.key.data
            if not (isinstance(op, tensor.ParameterOp) and op.buffer is not None):
                self.learned.add(op.result)

    def _visit_computation(self, op: InferredOp) -> None:
        if any(prod(tensor_type(r).get_shape()) > self.limit for r in op.results):
            return
        if self.keep_packed and _unpacks(op):
            return
        if self.keep_bytes and isinstance(op, tensor.DequantizeOp) and op.input in self.literals:
            return
        try:
            results = evaluate(op, [self._value(v) for v in op.operands])
        except TritonError as error:
            raise type(error)(error_at(op, str(error))) from None
        except ValueError:
            return  # undefined on these operands: no business of the compiler
        if any(holds_nan(array) for array in results):
            return
        origin = next((self.origin[v] for v in op.operands if v in self.origin), None)
        for result, array in zip(op.results, results, strict=True):
            self.folded[result] = op
            self.uses[result] = sum(1 for _ in result.uses)
            if self.uses[result]:
                self.arrays[result] = array
            if origin is not None:
                self.origin[result] = origin
            if any(v in self.learned for v in op.operands):
                self.learned.add(result)
        for operand in op.operands:
            if operand in self.folded:
                self.uses[operand] -= 1
                if not self.uses[operand]:
                    del self.arrays[operand]

    def _value(self, value: SSAValue) -> Array:
        if value in self.arrays:
            return self.arrays[value]
        array = constant_value(self.literals[value])
        assert array is not None
        return array

    def replace(self) -> None:
        """Put literals in the place of the folded values that are still used."""
        for value, array in self.arrays.items():
            op = self.folded[value]
            origin = self.origin.get(value)
            new = literal(
                module_of(op),
                derived_key(origin or "constant", value),
                array,
                tensor_type(value),
                buffer=origin is not None and value not in self.learned,
                keep_name=origin is not None and is_trit(tensor_type(value)),
            )
            insert_before(op, new)
            value.replace_all_uses_with(new.result)
        sources = {v.owner for op in self.folded.values() for v in op.operands}
        for op in reversed(dict.fromkeys(self.folded.values())):
            erase(op)
        for source in sources:
            if is_literal(source) and source.parent is not None and not source.result.first_use:
                erase(source)


def _unpacks(op: Operation) -> bool:
    """Whether an op makes numbers of more trits than stand inline."""
    return any(
        is_trit(tensor_type(v)) and prod(tensor_type(v).get_shape()) > INLINE_LIMIT
        for v in op.operands
    ) and not all(is_trit(tensor_type(r)) for r in op.results)
