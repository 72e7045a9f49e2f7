"""What a program notes of a softmax of bytes that it writes out: `tensor.softmax`.

The note is on the op of the result, and says how the bytes stand for real numbers. Their order is
that of the bytes whose largest is taken first. Like a grid (`stored_grids`) it changes nothing that
is computed, and whoever replaces the op may leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...ir.attribute_data import data_of, dictionary_of

SOFTMAX = "tensor.softmax"


@dataclass(frozen=True)
class IntegerSoftmax:
    """A softmax along the last axis.

    Attributes:
        last: the op of the result.
        operand: the bytes that it reads.
        scale: what a step of these bytes stands for.
        steps: the same in real numbers, as `expose-logits` notes it.
    """

    last: Operation
    operand: SSAValue
    scale: float
    steps: list[dict[str, object]]


def record_softmax(op: Operation, scale: float, zero_point: int) -> None:
    """Note that an op gives 256 times the softmax of scale·(q - zero_point), from the least on."""
    op.attributes[SOFTMAX] = dictionary_of({"scale": scale, "zero_point": zero_point})


def recorded_softmax(value: SSAValue) -> IntegerSoftmax | None:
    """The softmax that a value is the result of; `None` where none is noted."""
    op = value.owner
    if not isinstance(op, Operation) or (noted := op.attributes.get(SOFTMAX)) is None:
        return None
    operand = _operand(op)
    kind = tensor_type(value)
    if operand is None or operand.type != kind:
        return None
    dtype = numpy_dtype(kind.element_type)
    low = -128 if dtype.kind == "i" else 0
    grid = data_of(noted)
    steps: list[dict[str, object]] = [
        {"op": "tensor.dequantize", **grid},
        {"op": "tensor.softmax", "axis": kind.get_num_dims() - 1},
        {
            "op": "tensor.quantize",
            "dtype": dtype.name,
            "scale": 1 / 256,
            "zero_point": low,
            "low": low,
            "high": low + 255,
        },
    ]
    return IntegerSoftmax(op, operand, grid["scale"], steps)


def _operand(op: Operation) -> SSAValue | None:
    """The bytes whose largest, along the last axis, is nearest before an op."""
    level, seen = [op], {op}
    while level:
        for found in level:
            if isinstance(found, tensor.ReduceMaxOp):
                wide = found.operands[0]
                before = wide.owner
                return before.operand if isinstance(before, tensor.ConvertOp) else wide
        owners = [value.owner for found in level for value in found.operands]
        level = [o for o in dict.fromkeys(owners) if isinstance(o, Operation) and o not in seen]
        seen.update(level)
    return None
