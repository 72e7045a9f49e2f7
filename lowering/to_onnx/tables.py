"""Products with the rows of a table of narrow numbers, such as the embeddings of tokens.

The table is read as it is stored, some rows at a time: whole, it would be in memory as float32 too,
once for each size of the other side. Not here: products with other matrices (`linear`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...passes.fold_constants import FoldConstantsPass
from .graph import Element, Port, element_type
from .onnx_writer import Writer

SMALLEST = FoldConstantsPass.limit
"""Tables of fewer numbers are widened as a whole, which `fold-constants` does: products with 17 to
66 million numbers are then 1.2 to 2.5 times as quick, in 1.9 to 2.4 times the memory."""
_TOGETHER = 1 << 20
"""Numbers that are widened together: they stay in a processor's cache."""


def table_product(e: Writer, x: SSAValue, matrix: SSAValue) -> str | None:
    """x · Wᵀ for a W [rows, features] that is computed of stored tables; `None` for another one."""
    turned = matrix.owner
    ranks = tensor_type(x).get_num_dims(), tensor_type(matrix).get_num_dims()
    if not isinstance(turned, tensor.PermuteOp) or ranks[0] < 2 or ranks[1] != 2 or e.in_body:
        return None
    table, (features, rows) = turned.operand, tensor_type(matrix).get_shape()
    if isinstance(table.owner, tensor.ParameterOp) or rows * features < SMALLEST:
        return None
    given = e.value(x)
    rank, each = ranks[0], max(1, _TOGETHER // features)
    count = -(-rows // each)
    body, element = e.graph.child(), e.element(given)
    chosen = body.add_input(f"{e.hint}.numbers", Element.INT64)
    with e.writing(body):
        some = _some(e, table, rows, chosen)
        if some is None:
            return None
        turns = e.apply("Transpose", [e.cast(some, element)], perm=[1, 0])
        found = e.apply("MatMul", [given, turns])
    body.add_output(found, Port(body.new_name(f"{e.hint}.some"), element, (None,) * rank))
    numbers = np.minimum(np.arange(count * each), rows - 1).reshape(count, each)
    inputs, wishes = [e.constant(numbers, "rows")], [f"{e.hint}.blocks"]
    axes = {"num_scan_inputs": 1, "scan_output_axes": [rank - 1]}
    (blocks,) = e.graph.add_node("Scan", inputs, [element], wishes, axes, body=body)
    products = e.reshape_with_copies(blocks, [*[-2] * (rank - 1), count * each])
    return e.slice_axes(products, [0], [rows], [rank - 1], [1])


def _some(e: Writer, value: SSAValue, rows: int, chosen: str) -> str | None:
    """Chosen rows of what is computed of stored tables, each row of the same rows; else `None`."""
    op, type = value.owner, tensor_type(value)
    if type.get_shape()[:1] != (rows,):
        return None
    if isinstance(op, tensor.ParameterOp | tensor.ConstantOp):
        return e.node("Gather", [e.value(value), chosen], e.element(e.value(value)), axis=0)
    if not isinstance(op, tensor.ConvertOp | tensor.MulOp | tensor.FlattenOp):
        return None
    parts = [part for operand in op.operands if (part := _some(e, operand, rows, chosen))]
    ranks = {tensor_type(operand).get_num_dims() for operand in op.operands}
    if len(parts) < len(op.operands) or len(ranks) > 1:
        return None
    if isinstance(op, tensor.MulOp):
        return e.apply("Mul", parts)
    if isinstance(op, tensor.ConvertOp):
        return e.cast(parts[0], element_type(type.element_type))
    return e.reshape(parts[0], [-1, *type.get_shape()[1:]])
