"""Products with the rows of a table of narrow floats, such as the embeddings of tokens.

The table is read as it is stored, some rows at a time: whole, it would be in memory as float32 too,
once for each size of the other side. Not here: products with other matrices (`linear`).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...passes.fold_constants import FoldConstantsPass
from .graph import Element, Port
from .onnx_writer import Writer

SMALLEST = FoldConstantsPass.limit
"""Tables of fewer numbers are widened as a whole, which `fold-constants` does: products with 17 to
66 million numbers are then 1.2 to 2.5 times as quick, in 1.9 to 2.4 times the memory."""
_TOGETHER = 1 << 20
"""Numbers that are widened together: they stay in a processor's cache."""


def table_product(e: Writer, x: SSAValue, matrix: SSAValue) -> str | None:
    """x · Wᵀ for a stored W [rows, features] of narrower floats; `None` where it is no such one."""
    turned = matrix.owner
    if not isinstance(turned, tensor.PermuteOp) or tensor_type(x).get_num_dims() < 2:
        return None
    widened = turned.operand.owner
    if not isinstance(widened, tensor.ConvertOp) or e.in_body:
        return None
    stored = widened.operand.owner
    if not isinstance(stored, tensor.ParameterOp):
        return None
    rows, features = tensor_type(stored.result).get_shape()
    table, given = e.value(stored.result), e.value(x)
    narrow = Element.FLOAT16, Element.BFLOAT16
    if rows * features < SMALLEST or e.element(table) not in narrow:
        return None
    rank, each = tensor_type(x).get_num_dims(), max(1, _TOGETHER // features)
    count = -(-rows // each)
    numbers = np.minimum(np.arange(count * each), rows - 1).reshape(count, each)
    body, element = e.graph.child(), e.element(given)
    chosen = body.add_input(f"{e.hint}.numbers", Element.INT64)
    with e.writing(body):
        some = e.cast(e.node("Gather", [table, chosen], e.element(table), axis=0), element)
        found = e.apply("MatMul", [given, e.apply("Transpose", [some], perm=[1, 0])])
    body.add_output(found, Port(body.new_name(f"{e.hint}.some"), element, (None,) * rank))
    inputs, wishes = [e.constant(numbers, "rows")], [f"{e.hint}.blocks"]
    axes = {"num_scan_inputs": 1, "scan_output_axes": [rank - 1]}
    (blocks,) = e.graph.add_node("Scan", inputs, [element], wishes, axes, body=body)
    products = e.reshape_with_copies(blocks, [*[-2] * (rank - 1), count * each])
    return e.slice_axes(products, [0], [rows], [rank - 1], [1])
