"""Operators between DequantizeLinear and QuantizeLinear become one kernel on bytes.

What ONNX Runtime computes of the file that comes in, operator by operator, is what our file must
give, whose operators it joins to kernels with a rounding of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.engines import open_session, run_session

ALL = [
    array.reshape(1, 1, 256, 256).astype(np.int8)
    for array in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij")
]
"""Two images in which each pair of bytes meets."""

BOTH = {"Add", "Sub", "Mul", "Concat"}
PLAIN: dict[str, Any] = {
    "configure": {"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}
}
grids = st.tuples(st.floats(2**-9, 0.125, width=32), st.integers(-128, 127))
Grid = tuple[float, int]


def source(op: str, grids: tuple[Grid, Grid, Grid], **attributes: Any) -> bytes:
    """One operator between pairs of INT8."""
    stored = {f"s{n}": np.float32(scale) for n, (scale, _) in enumerate(grids)}
    stored |= {f"z{n}": np.int8(zero) for n, (_, zero) in enumerate(grids)}
    names = ["x0", "x1"][: 2 if op in BOTH else 1]
    nodes = [
        helper.make_node("DequantizeLinear", [f"x{n}", f"s{n}", f"z{n}"], [f"r{n}"])
        for n in range(len(names))
    ]
    nodes += [
        helper.make_node(op, [f"r{n}" for n in range(len(names))], ["f"], **attributes),
        helper.make_node("QuantizeLinear", ["f", "s2", "z2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.INT8, [1, 1, 256, 256]) for n in names],
        [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def exported(model: bytes) -> bytes:
    (data,) = compile_to_target(from_onnx(model), "onnx", {"self_check": False}).files.values()
    return data


def compare(model: bytes, inputs: list[Any]) -> bytes:
    """Every byte as ONNX Runtime gives it without joining; our file."""
    (wanted,) = run_session(open_session(model, **PLAIN), inputs)
    ours = exported(model)
    for options in (PLAIN, dict[str, Any]()):
        (got,) = run_session(open_session(ours, **options), inputs)
        np.testing.assert_array_equal(got, wanted)
    return ours


def kinds(model: bytes, folder: Path) -> set[str]:
    """The operators that ONNX Runtime makes of a file."""
    path = folder / "optimized.onnx"
    open_session(model, configure={"optimized_model_filepath": str(path)})
    return {node.op_type for node in onnx.load(path).graph.node}


@settings(max_examples=8)
@given(st.sampled_from(["Add", "Sub", "Mul"]), grids, grids, grids)
def test_two_tensors(op: str, first: Grid, second: Grid, third: Grid) -> None:
    compare(source(op, (first, second, third)), ALL)


@pytest.mark.parametrize(
    ("op", "attributes", "kernel"),
    [
        ("Add", {}, "QLinearAdd"),
        ("Mul", {}, "QLinearMul"),
        ("Concat", {"axis": 1}, "QLinearConcat"),
        ("Sigmoid", {}, "QLinearSigmoid"),
        ("LeakyRelu", {"alpha": 0.2}, "QLinearLeakyRelu"),
        ("AveragePool", {"kernel_shape": [1, 3]}, "QLinearAveragePool"),
    ],
)
def test_what_becomes_one_kernel(op: str, attributes: Any, kernel: str, tmp_path: Path) -> None:
    model = source(op, ((0.0431, 11), (0.0267, -3), (0.00813, -99)), **attributes)
    ours = compare(model, ALL[: 2 if op in BOTH else 1])
    assert {kernel} == {kind for kind in kinds(ours, tmp_path) if kind.startswith("QLinear")}


def test_means_of_images_become_one_kernel(tmp_path: Path) -> None:
    model = source("GlobalAveragePool", ((0.043, 11), (1, 0), (0.0081, -99)))
    rng = np.random.default_rng(0)
    assert "QLinearGlobalAveragePool" in kinds(exported(model), tmp_path)
    for low in (-128, -40, 20, 100):
        image = rng.integers(low, 128, ALL[0].shape).astype(np.int8)
        compare(model, [image])
