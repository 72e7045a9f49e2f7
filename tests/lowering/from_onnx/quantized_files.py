"""Networks that ONNX Runtime's own quantiser quantised, in pairs or by its operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

Array = np.ndarray[Any, Any]
Node = tuple[str, list[str], str, dict[str, Any]]
"""Operator, inputs, output, attributes. `w3,4`, `b3` and `v6` are weights 3 by 4, 3 addends, 6."""

TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8, "u16": QuantType.QUInt16,
         "s16": QuantType.QInt16, "s4": QuantType.QInt4, "u4": QuantType.QUInt4}  # fmt: skip
FORMS = {"pairs": QuantFormat.QDQ, "operators": QuantFormat.QOperator}


class Samples(CalibrationDataReader):
    """Samples of the input `x`."""

    def __init__(self, x: Array) -> None:
        self.samples: Iterator[dict[str, Array]] = iter([{"x": x}])

    def get_next(self) -> Any:
        return next(self.samples, None)


def quantized_file(
    folder: Path, nodes: Sequence[Node], sizes: Sequence[int], result: Sequence[int], seed: int,
    activations: str, weights: str, each: bool, form: str = "pairs", reduced: bool = False,
) -> Path:  # fmt: skip
    """The quantised file of a network from `x` to `y`.

    Args:
        folder: where files go.
        nodes: the float network.
        sizes: of the input, behind the batch.
        result: sizes of the result.
        seed: of weights and samples.
        activations: their type, of `TYPES`.
        weights: the type of the weights.
        each: whether output channels have scales of their own.
        form: of `FORMS`.
        reduced: whether weights have 7 bits, whose sums no processor saturates.
    """
    random = np.random.default_rng(seed)
    stored: dict[str, Array] = {}
    for name in (name for node in nodes for name in node[1]):
        if name[0] in "wbv" and len(name) > 1:
            shape = [int(size) for size in name[1:].split(",") if size]
            values = random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
            stored[name] = np.array(shape[0] if name[0] == "v" else values, np.float32)
    x = random.normal(size=[8, *sizes]).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], **more) for op, inputs, out, more in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *sizes])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", *result])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, folder / "float.onnx")
    quantize_static(
        folder / "float.onnx", folder / "q.onnx", Samples(x), per_channel=each,
        quant_format=FORMS[form], reduce_range=reduced,
        activation_type=TYPES[activations], weight_type=TYPES[weights],
    )  # fmt: skip
    return folder / "q.onnx"
