"""Tensors of bytes on their way from layer to layer: INT8 in the program, UINT8 in the file.

ONNX Runtime has its quick kernels for UINT8. Both forms of a tensor are written, and what nobody
reads falls away with the graph's unused nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ..to_tflite import integer_patterns as patterns
from .byte_weights import SHIFT
from .graph import Array, Element, element_of_array
from .onnx_writer import Rule, Writer


def levels(e: Writer, name: str, zero: Array) -> str:
    """Floats rounded, halves to even, plus a zero point, within the bounds of its type."""
    inputs = [name, e.scalar(1, Element.FLOAT), e.constant(zero, "zero_point")]
    return e.node("QuantizeLinear", inputs, element_of_array(zero))


def unsigned(e: Writer, name: str) -> str:
    """INT8 as UINT8, 128 more; once for each tensor."""
    if name not in e.unsigned:
        e.unsigned[name] = levels(e, e.cast(name, Element.FLOAT), np.array(SHIFT, np.uint8))
    return e.unsigned[name]


def centred(e: Writer, name: str, zero: int) -> str:
    """INT8 less its zero point, as FLOAT; once for each tensor."""
    if (name, zero) not in e.centred:
        result = e.cast(unsigned(e, name), Element.FLOAT)
        if zero != -SHIFT:
            result = e.apply("Sub", [result, e.scalar(zero + SHIFT, Element.FLOAT)])
        e.centred[name, zero] = result
    return e.centred[name, zero]


def signed(e: Writer, name: str) -> str:
    """UINT8 as INT8, 128 less."""
    zero = e.constant(np.array(SHIFT, np.uint8), "zero_point")
    inputs = [name, e.scalar(1, Element.FLOAT), zero]
    result = e.same(e.node("DequantizeLinear", inputs, Element.FLOAT), Element.INT8)
    e.unsigned[result] = name
    return result


def byte_table(e: Writer, op: tensor.GatherRowsOp) -> bool:
    """Write the look-up of all values of bytes in a known table, by UINT8; whether it is one."""
    place, table = patterns.centred(op.indices), patterns.known(op.table)
    if place is None or table is None or not (_is_i8(place[0]) and _is_i8(op.result)):
        return False
    x, least = place
    if table.shape != (2 * SHIFT,) or least != -SHIFT:
        return False
    moved = e.constant((table.astype(np.int16) + SHIFT).astype(np.uint8), "table")
    places = e.cast(unsigned(e, e.value(x)), Element.INT32)
    e.bind(op.result, signed(e, e.node("Gather", [moved, places], Element.UINT8, axis=0)))
    return True


def grid_of(op: tensor.QuantizeOp | tensor.DequantizeOp) -> tuple[float, int] | None:
    """The known scale and zero point of a tensor of bytes, which has one of each."""
    parts = [patterns.known(value) for value in (op.scale, op.zero_point)]
    if not _is_i8(op.zero_point) or any(part is None or part.size != 1 for part in parts):
        return None
    if isinstance(op, tensor.DequantizeOp) and not _is_i8(op.input):
        return None
    scale, zero = (np.asarray(part).reshape(-1)[0] for part in parts)
    return (float(scale), int(zero)) if scale > 0 else None


def on_levels(e: Writer, op: Operation, rule: Rule) -> None:
    """Write an op that selects elements once more, on the UINT8 forms of its INT8 operands."""
    names = {value: e.value(value) for value in op.operands if _is_i8(value)}
    computed = all(isinstance(value.owner, Operation) for value in names)
    if not names or not computed or not all(name in e.unsigned for name in names.values()):
        return
    others = {value: e.unsigned[name] for value, name in names.items()}
    made = _written_on(e, op, rule, others)
    e.unsigned.update((e.value(v), name) for v, name in made.items() if _is_i8(v))


JOINED = (
    *(tensor.SigmoidOp, tensor.LeakyReluOp, tensor.ConcatenateOp),
    *(tensor.AvgPoolOp, tensor.GlobalAvgPoolOp),
)
"""What ONNX Runtime joins with the DequantizeLinear before it and the QuantizeLinear behind it to
one operator: a table of its own float function for each byte, or a mean, whose last bits hang on
the order of its sum anyway."""


def on_bytes(e: Writer, op: Operation, rule: Rule) -> None:
    """Write an op between pairs once more, for the runtime to join: see `Writer.joined`."""
    (result,), others = op.results, dict[SSAValue, str]()
    readers = [use.operation for use in result.uses if isinstance(use.operation, tensor.QuantizeOp)]
    if not any(map(grid_of, readers)):
        return
    for value in op.operands:
        source = value.owner
        if not isinstance(source, tensor.DequantizeOp) or (grid := grid_of(source)) is None:
            return
        scale, zero = grid
        inputs = [unsigned(e, e.value(source.input)), e.scalar(scale, Element.FLOAT),
                  e.constant(np.array(zero + SHIFT, np.uint8), "zero_point")]  # fmt: skip
        others[value] = e.node("DequantizeLinear", inputs, Element.FLOAT)
    e.joined.update(_written_on(e, op, rule, others))


def _written_on(
    e: Writer, op: Operation, rule: Rule, others: Mapping[SSAValue, str]
) -> Mapping[SSAValue, str]:
    """Write an op on other tensors than those of its operands; those of its results."""
    before = {value: e.value(value) for value in (*others, *op.results)}
    for value, name in others.items():
        e.bind_input(value, name)
    rule(e, op)
    made: dict[SSAValue, str] = {value: e.value(value) for value in op.results}
    for value, name in before.items():
        e.bind_input(value, name)
    return made


def _is_i8(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and tensor_type(value).element_type == i8
