"""Where ONNX Runtime, and in one place `onnx.reference`, give other numbers than the standard.

Measured with version 1.31.1, without optimisations: on the standard's own tests of single nodes, on
integers at the ends of their types against NumPy, and for products of 8 bits by asking this
processor. Models that the runtime refuses are no business of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..to_onnx.engine import saturates

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from onnx.reference.op_run import OpRun

PRODUCTS = frozenset(
    {"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QGemm",
     "QLinearConv", "QLinearMatMul"}
)  # fmt: skip
"""Products of integers of 8 bits."""

SUMS = frozenset({"ReduceL1", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
"""Reductions that are computed in float64 and saturate, for integers of 32 and 64 bits."""


def runtime_fault(model: ModelProto) -> str | None:
    """Why ONNX Runtime is not asked what a model computes; `None` where it can be."""
    kinds = _kinds(model) if any(node.op_type in SUMS for node in _nodes(model)) else {}
    for node in _nodes(model):
        if node.op_type in SUMS and kinds.get(node.input[0]) in _WIDE:
            return f"its {node.op_type} of integers saturates"
        if node.op_type in PRODUCTS and saturates():
            return f"its {node.op_type} saturates between products on this processor"
        known = _FAULTS.get(node.op_type)
        if known is not None and (fault := known(node)) is not None:
            return f"its {node.op_type} is wrong {fault}"
    return None


_WIDE = {6, 7, 12, 13}
"""INT32, INT64, UINT32 and UINT64 of `TensorProto.DataType`."""


def _kinds(model: ModelProto) -> dict[str, int]:
    """The element types of the values whose types can be told, by name."""
    from onnx import shape_inference

    try:
        graph = shape_inference.infer_shapes(model).graph
    except (RuntimeError, ValueError):  # what does not fit together, or is too large
        graph = model.graph
    kinds = {
        info.name: int(info.type.tensor_type.elem_type)
        for info in (*graph.input, *graph.value_info, *graph.output)
    }
    return {**kinds, **{tensor.name: int(tensor.data_type) for tensor in graph.initializer}}


def mended_operators(model: ModelProto) -> list[type[OpRun]]:
    """Operators to put in the place of those of `onnx.reference` that are wrong.

    Its BatchNormalization of opsets 9 to 13 mixes in the statistics of the batch (onnx 1.23.2);
    that of opset 14 does not where it infers.
    """
    opset = next((entry.version for entry in model.opset_import if not entry.domain), 1)
    if not 9 <= opset < 14:
        return []
    from onnx.reference.ops.op_batch_normalization import BatchNormalization_14

    newer: Any = BatchNormalization_14

    def infer(self: Any, *inputs: Any, **attributes: Any) -> Any:
        return newer._run(self, *inputs, **{**attributes, "training_mode": 0})

    return [type("BatchNormalization", (newer,), {"op_domain": "", "_run": infer})]


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes, those of functions and of nested graphs too."""
    waiting = [*model.graph.node, *(node for f in model.functions for node in f.node)]
    while waiting:
        yield (node := waiting.pop())
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node


def _attention(node: NodeProto) -> str | None:
    tells = len(node.output) > 3 and node.output[3]
    return "about the products that it tells" if tells else None


def _resize(node: NodeProto) -> str | None:
    how = "coordinate_transformation_mode"
    aligned = any(a.name == how and a.s == b"align_corners" for a in node.attribute)
    scaled = len(node.input) > 2 and node.input[2]
    return "with aligned corners and scales" if aligned and scaled else None


_FAULTS: dict[str, Callable[[NodeProto], str | None]] = {
    "Attention": _attention,
    "MaxUnpool": lambda node: (
        "with a given shape" if len(node.input) > 2 and node.input[2] else None
    ),
    "Resize": _resize,
}
"""By operator what is wrong with a node; `None` for nothing."""
