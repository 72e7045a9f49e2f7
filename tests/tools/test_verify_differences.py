"""Faults of importers and targets: `triton verify` fails, and says at which op they begin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import i32

from triton_dsl import from_torch
from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_onnx.onnx_operators import RULES
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.from_tflite import tflite_operators as tflite_rules
from triton_dsl.lowering.from_torch.torch_operators import RULES as TORCH_RULES
from triton_dsl.lowering.sources.source import NoEngine
from triton_dsl.lowering.to_onnx import elementwise
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.cli import main
from triton_dsl.tools.draws import EDGE, ORDINARY, draw
from triton_dsl.tools.verify import verify_module

Patch = pytest.MonkeyPatch
TFLITE = Path(__file__).resolve().parents[1] / "lowering" / "from_tflite" / "converted"


def save(path: Path, nodes: list[Any], kinds: tuple[int, int], size: int, **arrays: Any) -> Path:
    """A model of x [N, size] and y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kinds[0], ["N", size])],
        [helper.make_tensor_value_info("y", kinds[1], None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return path


@pytest.mark.parametrize(("dtype", "kind"), [(np.int64, 7), (np.uint32, 12)])
def test_wide_integers_that_wrap_at_32_bits(
    dtype: Any, kind: int, tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs are large enough by themselves to see it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Cast", ["z"], ["y"], to=TensorProto.DOUBLE),
    ]
    w = np.array([[1], [1]], dtype)
    path = save(tmp_path / "m.onnx", nodes, (kind, TensorProto.DOUBLE), 2, w=w)
    right = RULES["MatMul"]

    def wraps(e: Any, call: Any) -> Any:
        return e.convert(right(e, call), i32)

    monkeypatch.setitem(RULES, "MatMul", wraps)
    assert main(["verify", str(path), "--json"]) == 1
    source, *rows = json.loads(capsys.readouterr().out)
    assert source["engine"].startswith("onnxruntime")
    assert {row["target"] for row in rows} > {"interpreter", "pytorch", "onnx"}
    assert not any(row["agrees"] for row in rows) and all(row["exact_required"] for row in rows)
    first = rows[0]["first_difference"]
    assert first["place"].startswith("'z' (") and first["expected_by"] == source["engine"]
    assert all(row["first_difference"] == first for row in rows)
    assert main(["verify", str(path), "-t", "onnx"]) == 1
    shown = capsys.readouterr()
    assert "expected values" in shown.out and "DIFFERS (integer program)" in shown.out
    assert "first difference at" in shown.err and "of 'z' (" in shown.err


def test_the_first_node_that_is_wrong_is_told(tmp_path: Path, monkeypatch: Patch) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("LeakyRelu", ["a"], ["b"], name="leak", alpha=0.2),
        helper.make_node("Exp", ["b"], ["y"], name="end"),
    ]
    path = save(tmp_path / "m.onnx", nodes, (1, 1), 4, w=weight)
    right = RULES["LeakyRelu"]

    def forgets(e: Any, call: Any) -> Any:
        return right(e, type(call)(**{**vars(call), "attributes": {}}))

    monkeypatch.setitem(RULES, "LeakyRelu", forgets)
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    rows = verify_module(from_onnx(path), [x], ["onnx"], source=path)
    found = rows[1].first_difference
    assert found is not None and rows[2].first_difference == found
    assert found.place == f"'leak' ({path}:2:1)" and found.result == "f32[3,4]"
    assert found.operands[0] == "f32[3,4]" and found.unseen == ()
    # LeakyRelu with the slope of the standard's default, by hand.
    a = x @ weight
    wrong = np.abs(np.minimum(a, 0)) * (0.2 - 0.01)
    assert found.index == np.unravel_index(wrong.argmax(), wrong.shape)
    assert found.expected == pytest.approx(0.2 * a[found.index], rel=1e-4)
    assert found.actual == pytest.approx(0.01 * a[found.index], rel=1e-4)
    assert found.max_abs == pytest.approx(wrong.max(), rel=1e-4)
    (_, row) = verify_module(from_onnx(path), [x], [], source=path, trace=False)
    assert not row.agrees and row.first_difference is None


def test_a_node_without_an_op_is_named_before_the_difference(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="dropped"),
        helper.make_node("Neg", ["a"], ["y"], name="seen"),
    ]
    path = save(tmp_path / "m.onnx", nodes, (1, 1), 4)
    monkeypatch.setitem(RULES, "Relu", lambda e, call: call[0])
    x = -np.ones((2, 4), np.float32)
    _, row = verify_module(from_onnx(path), [x], [], source=path)
    found = row.first_difference
    assert found is not None and found.place.startswith("'seen'") and found.unseen == ("'dropped'",)


def test_a_fault_of_the_tflite_importer(monkeypatch: Patch) -> None:
    path = TFLITE / "resnet.float32.tflite"
    right = tflite_rules.rule_for

    def faulty(kind: str, *, integers: bool) -> Any:
        rule = right(kind, integers=integers)
        if kind != "ADD" or rule is None:
            return rule

        def doubled(e: Any, node: Any) -> Any:
            result: Any = rule(e, node)
            return e.add(tensor.AddOp(result, result))

        return doubled

    monkeypatch.setattr("triton_dsl.lowering.from_tflite.importer.rule_for", faulty)
    module = from_tflite(path)
    (argument,) = module.body.block.first_op.args  # pyright: ignore
    shape = [2 if size < 0 else size for size in argument.type.get_shape()]  # pyright: ignore
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    _, row = verify_module(module, [x], [], source=path)
    found = row.first_difference
    assert not row.agrees and found is not None and found.op == "tensor.add"
    assert found.actual == pytest.approx(2 * found.expected, rel=1e-3)


def test_a_fault_of_the_pytorch_importer(monkeypatch: Patch) -> None:
    torch: Any = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            h = self.inner(x)
            h = torch.nn.functional.elu(h, alpha=0.5)
            return h.exp()

    right = TORCH_RULES["aten::elu"]

    def forgets(e: Any, call: Any) -> Any:
        return right(e, type(call)(call.node, call.name, {**call.arguments, "alpha": 1}))

    monkeypatch.setitem(TORCH_RULES, "aten::elu", forgets)
    net = Net()
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    _, row = verify_module(from_torch(net, torch.zeros(2, 4)), [x], [], source=net)
    found = row.first_difference
    assert not row.agrees and found is not None
    lines = Path(__file__).read_text("utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "functional.elu(h" in text)
    assert f"{Path(__file__).name}:{line}:" in found.place


PROGRAM = """
func.func @forward(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %a = tensor.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %b = tensor.relu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %c = tensor.sub %a, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %d = tensor.tanh %c : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %e = tensor.mul %d, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %e, %a : tensor<?x4xf32>, tensor<?x4xf32>
}"""


def test_the_first_op_that_a_target_computes_otherwise(monkeypatch: Patch) -> None:
    monkeypatch.setitem(elementwise.BINARY, tensor.SubOp, "Add")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    rows = verify_module(parse_module(PROGRAM, "p.mlir"), [x], ["onnx", "pytorch"])
    found = rows[0].first_difference
    assert not rows[0].agrees and rows[1].agrees and rows[1].first_difference is None
    assert found is not None and (found.op, found.place) == ("tensor.sub", "p.mlir:5:3")
    assert found.operands == ("f32[3,4]", "f32[3,4]") and found.expected_by == "interpreter"
    a, b = np.exp(x), np.maximum(x, 0)
    assert found.index == np.unravel_index(b.argmax(), b.shape)
    assert found.expected == pytest.approx((a - b)[found.index], rel=1e-5)
    assert found.actual == pytest.approx((a + b)[found.index], rel=1e-5)


def test_a_file_that_fails_its_own_check_differs(monkeypatch: Patch) -> None:
    """It is no target that cannot express the program, which would be left out."""
    monkeypatch.setitem(elementwise.BINARY, tensor.SubOp, "Add")
    x = np.ones((3, 4), np.float32)
    refused: list[str] = []
    rows = verify_module(parse_module(PROGRAM), [x], on_refusal=lambda t, e: refused.append(t))
    assert not refused and [row.target for row in rows if not row.agrees] == ["onnx"]


STEPS = """
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x8xf32> {
  %w = tensor.parameter "w" : tensor<64x8xf32>
  %s = tensor.constant dense<0.01> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %h = tensor.matmul %x, %w : (tensor<?x64xf32>, tensor<64x8xf32>) -> tensor<?x8xf32>
  %q = tensor.quantize %h, %s, %z : (tensor<?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<?x8xi8>
  %y = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}"""


class Told(NoEngine):
    """An engine that gives what it is told to."""

    def __init__(self, value: Any) -> None:
        super().__init__("")
        self.value = value

    def run(self, inputs: Any) -> Any:
        self.engine = "told"
        return [self.value]


def test_another_step_where_a_float_is_rounded_is_no_fault() -> None:
    """Of 160,000 sums some fall on another step where the terms are added one by one."""
    module = fill_parameters(parse_module(STEPS), 0)
    x = np.random.default_rng(0).standard_normal((20_000, 64)).astype(np.float32)
    total = np.zeros((20_000, 8), np.float32)
    for column, weights in zip(x.T, store_of(module).read("w"), strict=True):
        total += column[:, None] * weights
    added = np.clip(np.rint(total / np.float32(0.01)), -128, 127) * np.float32(0.01)
    _, row = verify_module(module, [x], [], source=Told(added))
    assert row.max_abs == pytest.approx(0.01) and row.agrees and "roundings" in row.note
    # Weights that are wrong by a little move more sums than roundings do, though each by one step.
    (moved,) = run_module(module, [x * np.float32(1 + 5e-4)])
    _, row = verify_module(module, [x], [], source=Told(moved))
    assert row.max_abs == pytest.approx(0.01, rel=1e-4) and not row.agrees


def test_zeros_of_both_signs_are_equal_in_programs_of_integers() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}""")
    x = np.array([-0.0, 0.0, -1.0, 1.0], np.float32)
    rows = verify_module(module, [x])
    assert all(row.agrees and row.exact_required for row in rows)


def test_inputs_outside_the_range_of_a_circuit_are_left_out(
    require_tool: Callable[[str, str], str],
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    module = parse_module("""
func.func @forward(%x: tensor<?x3xi32>) -> tensor<?x2xi32> {
  %w = ternary.constant [1, 0, -1, 1, 1, -1] : tensor<3x2x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x3xi32>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}""")
    kinds = [draw(module, kind, 8, 0) or [] for kind in (ORDINARY, EDGE)]
    (row,) = verify_module(module, kinds[0], ["verilog{input-bits=8}"], more_inputs=kinds[1:])
    assert row.agrees and "not run on all inputs: input 'x' element 0 is -2147483648" in row.note
