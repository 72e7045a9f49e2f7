"""The pass `decompose`: ops become simpler ones where whoever takes the program lacks them.

What an op is made of stands on the op itself (its method `decompose`, see `dialects.tensor`). What
a target takes, its table of rules says: `decomposition` makes the options of the pass from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects import tensor, ternary
from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.meaning import Array
from ..dialects.parameters import dense_constant, module_of, store_of
from ..dialects.tensor.formula import Formula
from ..dialects.tensor.storage import INLINE_LIMIT
from ..dialects.traits import BitExact, has
from .analysis.replacement import erase, insert_before, replace_results

DECOMPOSED: tuple[type[Operation], ...] = tuple(
    kind for kind in (*tensor.OPERATIONS, *ternary.Ternary.operations) if hasattr(kind, "decompose")
)
"""The ops that are made of simpler ones."""


FLOATS = (f16, bf16, f32, f64)
INTEGERS = (
    *(i1, i8, i16, i32, i64),
    *(IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64)),
)
"""The types of elements for which a target is asked."""


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Rewrite ops that have a decomposition into those they are made of, until all are legal.

    Formulas compute in the type of the elements, and in f32 for f16 and bf16, which are rounded
    once an op; ops that are exact stay in theirs. An op stays that has no decomposition, or none
    for its elements.

        // decompose{legal=tensor.floor}
        %y = tensor.ceil %x : (tensor<4xf32>) -> tensor<4xf32>
        // becomes
        %0 = tensor.neg %x : (tensor<4xf32>) -> tensor<4xf32>
        %1 = tensor.floor %0 : (tensor<4xf32>) -> tensor<4xf32>
        %y = tensor.neg %1 : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "decompose"

    legal: tuple[str, ...] = ()
    """The ops that stay, as `tensor.sin`, or `tensor.sin:f32` for elements of one type."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        legal = frozenset(self.legal)
        open_ = [inner for inner in op.walk() if isinstance(inner, DECOMPOSED)]
        while open_:
            current = open_.pop()
            element = tensor_type(current.operands[0]).element_type
            if legal.isdisjoint({current.name, f"{current.name}:{element}"}):
                open_ += decompose_op(current)


@cache
def decomposition(takes: Callable[..., bool], *version: int) -> str:
    """The pass with its options for a target.

    Args:
        takes: whether it has the op for elements of a type, both of which it is given; a function
            that stands in a file, as what it says is kept.
        version: what else it is given.
    """
    legal: list[str] = []
    for kind in DECOMPOSED:
        of_floats = issubclass(kind, tensor.FloatUnaryOp | tensor.PredicateOp)
        elements = FLOATS if of_floats else (*FLOATS, *INTEGERS)
        own = [element for element in elements if takes(kind, element, *version)]
        whole = len(own) == len(elements)
        legal += [kind.name] if whole else [f"{kind.name}:{element}" for element in own]
    return f"decompose{{legal={','.join(sorted(legal))}}}" if legal else "decompose"


class _Writer:
    """Inserts ops in the place of one."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self.written: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        insert_before(self._op, op)
        self.written.append(op)
        return op.results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        return self.numbers(np.asarray(value), element)

    def numbers(self, values: Array, element: Attribute) -> SSAValue:
        array = np.ascontiguousarray(np.asarray(values).astype(numpy_dtype(element)))
        array = array.reshape(np.shape(values))
        if array.size <= INLINE_LIMIT:
            return self.add(dense_constant(array, element))
        key = store_of(module_of(self._op)).add("decomposed", array)
        type = TensorType(element, array.shape)
        return self.add(tensor.ParameterOp(key, type, buffer=True))


def decompose_op(op: Operation) -> list[Operation]:
    """Write what an op is made of in its place; the ops among it that may have to go on."""
    writer = _Writer(op)
    given = (Formula(writer, value) for value in op.operands)
    operands = [*given] if has(op, BitExact) else [_widened(formula) for formula in given]
    parts = cast("Formula | tuple[Formula, ...] | None", cast(Any, op).decompose(*operands))
    if parts is None:
        for written in reversed(writer.written):
            erase(written)
        return []
    formulas = parts if isinstance(parts, tuple) else (parts,)
    results: list[SSAValue] = []
    for formula, result in zip(formulas, op.results, strict=True):
        value = formula.convert(tensor_type(result).element_type).value
        same = value.type == result.type  # users rely on the declared one
        results.append(value if same else Rewriter.replace_value_with_new_type(value, result.type))
    last = writer.written[-1]
    for name, value in op.attributes.items():
        last.attributes.setdefault(name, value)
    replace_results(op, results)
    return [each for each in writer.written if isinstance(each, DECOMPOSED)]


def _widened(formula: Formula) -> Formula:
    half = isinstance(formula.element, Float16Type | BFloat16Type)
    return formula.convert(f32) if half else formula
