"""Large weights that stay narrow: tables of half precision, trits while a file is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import TensorType, f32

from triton_dsl.dialects import ternary
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_onnx import tables
from triton_dsl.lowering.to_onnx.target import OnnxOptions, OnnxTarget

TABLE = """layer Words {{
    let words = TokenEmbedding({}, 48, "{}", 3, 2)
    fn forward(tokens: Tensor<int64>[N, T]) {{ return words.logits(words(tokens)) }}
}}"""


@pytest.mark.parametrize("rows", [37, 40])
@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16, np.int8])
def test_rows_of_a_table_are_widened_some_at_a_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch, rows: int, kind: Any, opset: int
) -> None:
    rng = np.random.default_rng(rows)
    weights = {"words.weight": rng.standard_normal((rows, 48)).astype(kind)}
    wide = weights["words.weight"].astype(np.float64)
    if kind is np.int8:
        weights = {
            "words.weight": rng.integers(-32, 32, (rows, 3, 2, 8)).astype(kind),
            "words.scale": rng.integers(-128, 128, (rows, 3, 2, 1)).astype(kind),
            "words.factor": rng.uniform(-1e-3, 1e-3, (rows, 3, 1, 1)).astype(np.float16),
        }
        levels, scales, factors = (v.astype(np.float64) for v in weights.values())
        wide = (levels * scales * factors).reshape(rows, 48)
    text = TABLE.format(rows, np.dtype(kind).name)
    module = import_tri(text, weights=weights)
    monkeypatch.setattr(tables, "SMALLEST", 1)
    monkeypatch.setattr(tables, "_TOGETHER", 8 * 48)
    options = OnnxOptions(opset=opset, self_check=False)
    (data,) = OnnxTarget().emit(module, options).files.values()
    kinds = Counter(node.op_type for node in onnx.load_from_string(data).graph.node)
    assert kinds["Scan"] == 1 and kinds["Transpose"] == 0
    for shape in ((2, 3), (1, 1), (3, 0)):
        tokens = rng.integers(0, rows, shape)
        (found,) = bench.run(data, [tokens])
        assert found.shape == (*shape, rows)
        np.testing.assert_allclose(found, wide[tokens] @ wide.T, 1e-4, 1e-4)
    monkeypatch.setattr(tables, "SMALLEST", 1 << 20)
    (data,) = OnnxTarget().emit(module, options).files.values()
    assert "Scan" not in {node.op_type for node in onnx.load_from_string(data).graph.node}


OTHERS = """layer Others {
    param weight: Tensor<float16>[6, 4]
    fn forward(x: Tensor[2, N, 4]) -> Tensor[2, N, 6] {
        let turned = x @ transpose(x, -2, -1)
        return (turned @ x) @ transpose(cast(weight, dtype="float32") * 0.5)
    }
}"""


def test_what_is_no_table_is_multiplied_whole(
    bench: Any, monkeypatch: pytest.MonkeyPatch, opset: int
) -> None:
    """A table times a number, and a stack of matrices that are turned."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, 4)).astype(np.float16)
    module = import_tri(OTHERS, weights={"weight": weight})
    monkeypatch.setattr(tables, "SMALLEST", 1)
    options = OnnxOptions(opset=opset, self_check=False)
    (data,) = OnnxTarget().emit(module, options).files.values()
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    (found,) = bench.run(data, [x])
    expected = x @ x.transpose(0, 2, 1) @ x @ weight.astype(np.float64).T * 0.5
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


PEAK = """
import sys, onnxruntime
def most():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) << 10
before = most()
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print(most() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory is read from /proc")
def test_trits_take_little_while_a_file_is_loaded(bench: Any, tmp_path: Path) -> None:
    size = 2048
    rng = np.random.default_rng(0)
    packed = {f"w{n}": pack_trits(rng.integers(-1, 2, (size, size))) for n in range(4)}

    def body(add: Any, x: Any) -> Any:
        for name in packed:
            x = add(ternary.MatmulOp(x, add(ternary.ParameterOp(name, (size, size)))))
        return x

    module = bench.build([TensorType(f32, (1, size))], body, packed)
    (tmp_path / "trits.onnx").write_bytes(bench.bytes_of(module))
    command = [sys.executable, "-c", PEAK, str(tmp_path / "trits.onnx")]
    taken = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert taken < 20 * 4 * size**2  # bytes for each; eight of them are the floats that run
