"""Networks that ONNX Runtime quantised to its own operators, as circuits with its integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import quantize_dynamic

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.lowering.to_verilog.stages import integer_stages
from triton_dsl.passes.streamline.streamline import STAYS
from triton_dsl.runtime.engines import open_session, run_session

from ..from_onnx.quantized_files import Node, quantized_file

PADS = {"pads": [1, 1, 0, 1]}
NETWORKS: dict[str, tuple[list[Node], list[int], list[int]]] = {
    "images": (
        [
            ("Conv", ["x", "w3,2,2,2", "b3"], "a", PADS),
            ("Relu", ["a"], "b", {}),
            ("Conv", ["b", "w3,1,3,3"], "c", {**PADS, "group": 3}),
            ("MaxPool", ["c"], "d", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("Flatten", ["d"], "e", {}),
            ("Gemm", ["e", "w9,3", "b3,"], "y", {}),
        ],
        [2, 4, 5],
        [3],
    ),
    "rows": (
        [
            ("Gemm", ["x", "w6,4", "b6"], "a", {"transB": 1}),
            ("LeakyRelu", ["a"], "b", {"alpha": 0.1}),
            ("MatMul", ["b", "w6,5"], "c", {}),
            ("Sigmoid", ["c"], "d", {}),
            ("Gemm", ["d", "w5,3", "b3"], "y", {}),
        ],
        [4],
        [3],
    ),
    "branches": (
        [
            ("Conv", ["x", "w3,2,1,1", "b3"], "a", {}),
            ("Relu", ["a"], "b", {}),
            ("Conv", ["x", "w2,2,3,3", "b2"], "c", {"pads": [1] * 4}),
            ("Conv", ["b", "w3,1,3,3"], "d", {"pads": [1] * 4, "group": 3}),
            ("Add", ["b", "d"], "e", {}),
            ("Concat", ["e", "c"], "f", {"axis": 1}),
            ("GlobalAveragePool", ["f"], "g", {}),
            ("Flatten", ["g"], "h", {}),
            ("Gemm", ["h", "w5,3", "b3,"], "y", {}),
        ],
        [2, 3, 4],
        [3],
    ),
}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    ("activations", "weights", "each"),
    [("u8", "s8", True), ("s8", "s8", False), ("u8", "u8", False)],
)
def test_all_that_is_quantised_is_integers(
    tmp_path: Path, kind: str, activations: str, weights: str, each: bool
) -> None:
    nodes, sizes, result = NETWORKS[kind]
    path = quantized_file(
        tmp_path, nodes, sizes, result, 3, activations, weights, each, "operators", reduced=True
    )
    x = np.random.default_rng(4).normal(size=[300, *sizes]).astype(np.float32)
    (wanted,) = run_session(open_session(path), [x])
    module = from_onnx(path)
    np.testing.assert_array_equal(run_module(module, [x])[0], wanted)
    run_stages(module, [s for s in integer_stages(VerilogOptions()) if s.name != "integers"])
    assert not any(STAYS in op.attributes for op in module.walk())
    assert len(np.unique(wanted)) > 20
    np.testing.assert_allclose(run_module(module, [x])[0], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k == "branches" else ()) for k in NETWORKS]
)
def test_circuits_have_the_integers(
    tmp_path: Path, kind: str, require_tool: Callable[[str, str], str]
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    nodes, sizes, result = NETWORKS[kind]
    path = quantized_file(tmp_path, nodes, sizes, result, 5, "u8", "s8", False, "operators", True)
    x = np.random.default_rng(6).normal(size=[20, *sizes]).astype(np.float32)
    (wanted,) = run_session(open_session(path), [x])
    _, (got,), _ = run_target(from_onnx(path), "verilog", [x])
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_what_is_quantised_while_it_runs_is_refused_by_its_node(tmp_path: Path) -> None:
    nodes, sizes, result = NETWORKS["rows"]
    quantized_file(tmp_path, nodes, sizes, result, 3, "u8", "s8", False)
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "dynamic.onnx")
    with pytest.raises(
        UnsupportedError, match=r'at "x_QuantizeLinear".*needs a quantiser'
    ) as error:
        compile_to_target(from_onnx(tmp_path / "dynamic.onnx"), "verilog")
    assert "matmul at" not in str(error.value)
