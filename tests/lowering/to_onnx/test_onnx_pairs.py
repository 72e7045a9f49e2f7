"""Files in pairs of Quantize and Dequantize leave as they came: as small, and the same bits.

The files are made by ONNX Runtime's own quantiser, and it says what they give.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.from_onnx.importer import from_onnx
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_onnx.byte_weights import fits
from triton_dsl.lowering.to_onnx.engine import EXACT_BYTES
from triton_dsl.runtime.engines import open_session, run_session

from ..from_onnx.quantized_files import Node, quantized_file

NETWORKS = ("images", "rows", "attention")


def network(kind: str, random: np.random.Generator) -> tuple[list[Node], list[int], list[int]]:
    """Nodes of a float network, names of weights being their sizes; sizes of input and result."""
    relu, pads = "Relu", {"pads": [1, 1, 1, 1]}
    if kind == "rows":
        nodes: list[Node] = [
            ("Gemm", ["x", "w64,96", "b96"], "a", {}),
            (relu, ["a"], "b", {}),
            ("MatMul", ["b", "w96,96"], "c", {}),
            ("Add", ["c", "b96,"], "d", {}),
            ("Sigmoid", ["d"], "e", {}),
            ("Mul", ["e", "b"], "f", {}),
            ("Gemm", ["f", "w10,96", "b10"], "y", {"transB": 1}),
        ]
        return nodes, [64], [10]
    if kind == "attention":
        nodes = [
            ("MatMul", ["x", "w32,32"], "q", {}),
            ("MatMul", ["x", "w32,32,"], "k", {}),
            ("Transpose", ["k"], "t", {"perm": [0, 2, 1]}),
            ("MatMul", ["q", "t"], "s", {}),
            ("Softmax", ["s"], "p", {"axis": -1}),
            ("MatMul", ["p", "x"], "y", {}),
        ]
        return nodes, [6, 32], [6, 32]
    strides = {"strides": [int(random.integers(1, 3))] * 2}
    nodes = [
        ("Conv", ["x", "w16,3,3,3", "b16"], "a", pads),
        (relu, ["a"], "b", {}),
        ("Conv", ["b", "w16,1,3,3", "b16,"], "c", {**pads, "group": 16}),
        ("Conv", ["c", "w16,16,1,1"], "d", {}),
        ("Add", ["b", "d"], "e", {}),
        ("MaxPool", ["e"], "f", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", ["f", "w24,16,3,3", "b24"], "g", {**pads, **strides}),
        ("Clip", ["g", "v0", "v6"], "h", {}),
        ("Concat", ["h", "h"], "i", {"axis": 1}),
        ("GlobalAveragePool", ["i"], "j", {}),
        ("Flatten", ["j"], "k", {}),
        ("Gemm", ["k", "w48,10", "b10"], "y", {}),
    ]
    return nodes, [3, 10, 10], [10]


def quantized(
    folder: Path, kind: str, activations: str, weights: str, each: bool
) -> tuple[Any, ...]:
    """The file, and an input."""
    seed = len(kind) + 7 * each
    nodes, sizes, result = network(kind, np.random.default_rng(seed))
    path = quantized_file(folder, nodes, sizes, result, seed, activations, weights, each)
    return path, np.random.default_rng(seed + 1).normal(size=[5, *sizes]).astype(np.float32)


def exported(module: ModuleOp) -> bytes:
    """The file of a program."""
    (data,) = compile_to_target(module, "onnx").files.values()
    return data


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    ("activations", "weights", "each"),
    [("u8", "s8", False), ("u8", "u8", False), ("s8", "s8", True), ("u8", "s8", True)],
)
def test_they_leave_as_they_came(
    tmp_path: Path, kind: str, activations: str, weights: str, each: bool
) -> None:
    path, x = quantized(tmp_path, kind, activations, weights, each)
    data = exported(from_onnx(path))
    assert len(data) <= 1.05 * path.stat().st_size
    before = run_session(open_session(path, entries=EXACT_BYTES), [x])
    after = run_session(open_session(data), [x])
    assert len(np.unique(before[0])) > 10
    np.testing.assert_array_equal(after[0], before[0])
    model = onnx.load_from_string(data)
    large = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    large = {name: array for name, array in large.items() if array.ndim > 1}
    assert large and all(array.dtype.itemsize == 1 for array in large.values())
    restored = {node.input[0]: node.output[0] for node in model.graph.node if node.input}
    convolved = {node.input[1] for node in model.graph.node if node.op_type == "Conv"}
    asked = {node.input[0] for node in model.graph.node if node.op_type == "int8.weight"}
    for name, array in large.items():  # no processor saturates
        axis = 0 if restored[name] in convolved else 1
        assert array.dtype == np.uint8 or fits(array, axis) != (name in asked)


@pytest.mark.parametrize(
    ("kind", "activations", "weights", "growth"),
    [
        ("images", "u16", "s8", 1.05),
        ("attention", "u16", "s8", 1.05),
        ("rows", "s16", "s16", 1.05),
        ("rows", "u8", "s4", 2.1),  # 4 bits leave as 8
        ("rows", "u8", "u4", 2.1),
    ],
)
def test_integers_of_other_widths_stay_integers(
    tmp_path: Path, kind: str, activations: str, weights: str, growth: float
) -> None:
    path, x = quantized(tmp_path, kind, activations, weights, True)
    data = exported(from_onnx(path))
    assert len(data) <= growth * path.stat().st_size
    before = run_session(open_session(path, entries=EXACT_BYTES), [x])
    np.testing.assert_array_equal(run_session(open_session(data), [x])[0], before[0])
    stored = onnx.load_from_string(data).graph.initializer
    floats = [i.name for i in stored if i.data_type == onnx.TensorProto.FLOAT and len(i.dims) > 1]
    assert not floats


@pytest.mark.parametrize(
    ("kind", "weights", "each"),
    [("images", "s8", True), ("rows", "s8", False), ("attention", "s8", False),
     ("attention", "u8", True)],
)  # fmt: skip
def test_operators_of_the_runtime_stay_integers(
    tmp_path: Path, kind: str, weights: str, each: bool
) -> None:
    """Bytes stay bytes in what selects them, and products of them are the standard's."""
    nodes, sizes, result = network(kind, np.random.default_rng(3))
    path = quantized_file(
        tmp_path, nodes, sizes, result, 3, "u8", weights, each, "operators", reduced=True
    )
    x = np.random.default_rng(4).normal(size=[5, *sizes]).astype(np.float32)
    data = exported(from_onnx(path))
    (before,), (after,) = (run_session(open_session(file), [x]) for file in (path, data))
    step = np.diff(np.unique(before)).min()
    assert np.abs(after - before).max() <= 1.01 * step  # beside a half of what is no product
    kinds = Counter(node.op_type for node in onnx.load_from_string(data).graph.node)
    assert kinds["Conv"] + kinds["MatMul"] + kinds["Gemm"] == 0


FLOATS = """
func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = tensor.constant dense<1.000000e-01> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i8>
  %w = tensor.constant dense<0.3> : tensor<8x8xf32>
  %q = tensor.quantize %x, %s, %z : (tensor<?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<?x8xi8>
  %r = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x8xf32>
  %y = tensor.matmul %r, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""


def test_products_by_floats_stay_floats() -> None:
    model = onnx.load_from_string(exported(parse_module(FLOATS)))
    assert "DequantizeLinear" not in [node.op_type for node in model.graph.node]
