"""A float product of two activations, once both are integers: exact sums, and their scale.

What attention does around such products goes on integers too, as far as it is exact there: the
largest score of a row is taken off, and shares of a row are added up.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ..analysis.compile_time import literal, literal_value
from ..analysis.magnitude import type_magnitude
from ..analysis.replacement import erase, insert_before, replace_results
from .integer_forms import ACCUMULATOR_LIMIT


def is_of_activations(op: object) -> TypeGuard[tensor.MatmulOp]:
    """Whether `op` multiplies two matrices of f32, none of them known."""
    if not isinstance(op, tensor.MatmulOp) or tensor_type(op.lhs).element_type != f32:
        return False
    return all(tensor_type(v).get_num_dims() > 1 and literal_value(v) is None for v in op.operands)


def make_integer(
    module: ModuleOp, op: tensor.MatmulOp, lhs: tensor.DequantizeOp, rhs: tensor.DequantizeOp
) -> None:
    """Multiply the integers behind the operands, if all sums are sure to fit an i32."""
    terms = tensor_type(op.lhs).get_shape()[-1]
    zeros = [int(_number(side.zero_point)) for side in (lhs, rhs)]
    sizes = [type_magnitude(side.input) + abs(z) for side, z in zip((lhs, rhs), zeros, strict=True)]
    if terms == DYNAMIC or terms * sizes[0] * sizes[1] > ACCUMULATOR_LIMIT:
        return
    factor = _factor_behind(op)
    scale = _number(lhs.scale) * _number(rhs.scale) * (1.0 if factor is None else factor[1])
    if not 0 < np.float32(scale) < np.inf:
        return
    writer = _Writer(module, op)
    wide = [writer.centred(side, z) for side, z in zip((lhs, rhs), zeros, strict=True)]
    sums = writer.add(tensor.MatmulOp(*wide))
    for use in list(lhs.result.uses):
        if isinstance(use.operation, tensor.ReduceSumOp):
            _add_integers(module, use.operation, lhs, zeros[0])
    last = op if factor is None else factor[0]
    below = _below_largest(last.results[0])
    if below is None:
        replace_results(last, [writer.restored(sums, scale)])
        return
    largest, difference = below
    most = writer.add(tensor.ReduceMaxOp(sums, largest.axes.get_values(), keepdims=True))
    replace_results(difference, [writer.restored(writer.add(tensor.SubOp(sums, most)), scale)])
    for done in dict.fromkeys((largest, last, op)):
        erase(done)


class _Writer:
    """Inserts ops in front of one."""

    def __init__(self, module: ModuleOp, anchor: Operation) -> None:
        self._module = module
        self._anchor = anchor

    def add(self, op: Operation) -> SSAValue:
        insert_before(self._anchor, op)
        return op.results[0]

    def number(self, name: str, value: float, element: Attribute) -> SSAValue:
        array = np.array(value, numpy_dtype(element))
        return self.add(literal(self._module, name, array, TensorType(element, [])))

    def centred(self, side: tensor.DequantizeOp, zero: int) -> SSAValue:
        """The integers of an operand, less their zero point."""
        value = self.add(tensor.ConvertOp(side.input, i32))
        return self.add(tensor.SubOp(value, self.number("zero", zero, i32))) if zero else value

    def restored(self, integers: SSAValue, scale: float) -> SSAValue:
        """What integers stand for."""
        factor, zero = self.number("scale", scale, f32), self.number("zero", 0, i32)
        return self.add(tensor.DequantizeOp(integers, factor, zero))


def _number(value: SSAValue) -> float:
    known = literal_value(value)
    assert known is not None
    return float(known)


def _factor_behind(op: tensor.MatmulOp) -> tuple[tensor.MulOp, float] | None:
    """The product by a known number that alone reads a product, and the number."""
    times = next(iter(op.result.uses)).operation if op.result.has_one_use() else None
    if not isinstance(times, tensor.MulOp):
        return None
    known = [v for v in map(literal_value, times.operands) if v is not None]
    return (times, float(known[0])) if len(known) == 1 and not known[0].ndim else None


def _below_largest(scores: SSAValue) -> tuple[tensor.ReduceMaxOp, tensor.SubOp] | None:
    """The largest of each row, and how far scores are above it, where nothing else is asked."""
    users = [use.operation for use in scores.uses]
    largest = [op for op in users if isinstance(op, tensor.ReduceMaxOp)]
    others = [op for op in users if isinstance(op, tensor.SubOp)]
    if len(users) != 2 or len(largest) != 1 or len(others) != 1:
        return None
    (most,), (difference,) = largest, others
    fits = difference.rhs is most.result and most.result.has_one_use()
    return (most, difference) if fits and most.keepdims.value.data else None


def _add_integers(
    module: ModuleOp, op: tensor.ReduceSumOp, side: tensor.DequantizeOp, zero: int
) -> None:
    """A sum of what integers stand for, as that of the integers."""
    writer = _Writer(module, op)
    axes, keepdims = op.axes.get_values(), bool(op.keepdims.value.data)
    integers = writer.centred(side, zero)
    total = writer.add(tensor.ReduceSumOp(integers, axes, keepdims=keepdims))
    replace_results(op, [writer.restored(total, _number(side.scale))])
