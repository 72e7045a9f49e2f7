"""Arithmetic on uint16, uint32 and uint64 as arithmetic on int64, which PyTorch has kernels of.

For these types PyTorch 2.13 moves, multiplies, converts and compares for equality, and has bitwise
and, or and exclusive or. Results are cut to their type, which is arithmetic modulo 2ⁿ; what is no
such arithmetic on uint64 is refused where it stands (`forward`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import with_element
from ...dialects.tensor.reduction import ArgOp, ReduceOp
from ...dialects.traits import Elementwise, has

_ON_BITS = (tensor.MulOp, tensor.AndOp, tensor.OrOp, tensor.XorOp, tensor.WhereOp)
_OF_MANY = (ReduceOp, tensor.CumulativeOp, ArgOp, tensor.MatmulOp, tensor.TopKOp)
_AT_PLACES = (tensor.GatherElementsOp, tensor.ScatterElementsOp)
_MODULAR = (tensor.AddOp, tensor.SubOp, tensor.NegOp, tensor.NotOp, tensor.ShiftLeftOp)
_SUMS = (tensor.ReduceSumOp, tensor.ReduceProdOp, tensor.CumulativeOp, tensor.MatmulOp)


def widen_unsigned(module: ModuleOp) -> None:
    """Put arithmetic on int64 in the place of what PyTorch has no kernels of."""
    for op in [op for op in module.walk() if lacks_kernel(op)]:
        kinds = set(map(wide_unsigned, op.operands))
        if np.dtype(np.uint64) not in kinds or _is_modular(op):
            _widen(op)


def lacks_kernel(op: Operation) -> bool:
    """Whether an op is on wide unsigned integers, and none that PyTorch has for these."""
    if not any(map(wide_unsigned, op.operands)):
        return False
    is_equality = isinstance(op, tensor.CompareOp) and op.predicate.data in ("eq", "ne")
    if is_equality or isinstance(op, (*_ON_BITS, tensor.ConvertOp)):
        return False
    return has(op, Elementwise) or isinstance(op, (*_OF_MANY, *_AT_PLACES))


def _is_modular(op: Operation) -> bool:
    """Whether the bits of a result follow from as many bits of the operands, signed or not."""
    return isinstance(op, (*_MODULAR, *_SUMS, *_AT_PLACES))


def wide_unsigned(value: SSAValue) -> np.dtype[Any] | None:
    """The type of a tensor's elements where these are unsigned and more than a byte."""
    if not isinstance(value.type, TensorType):
        return None
    kind = numpy_dtype(tensor_type(value).element_type)
    return kind if kind.kind == "u" and kind.itemsize > 1 else None


def _widen(op: Operation) -> None:
    place = InsertPoint.before(op)

    def converted(value: SSAValue) -> SSAValue:
        if wide_unsigned(value) is None:
            return value
        made = tensor.ConvertOp(value, i64)
        Rewriter.insert_op(made, place)
        return made.result

    wide = type(op).create(
        operands=[converted(value) for value in op.operands],
        result_types=[
            with_element(tensor_type(r), i64) if wide_unsigned(r) else r.type for r in op.results
        ],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    wide.location = op.location
    results: list[SSAValue] = []
    made: list[Operation] = [wide]
    for old, new in zip(op.results, wide.results, strict=True):
        new.name_hint = old.name_hint
        if new.type != old.type:
            cut = tensor.ConvertOp(new, tensor_type(old).element_type)
            made.append(cut)
            new = cut.result
        results.append(new)
    Rewriter.replace_op(op, made, results)
