"""`export_to_onnx` and `optimize_onnx_model`: PyTorch modules and files from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import TensorType, f32, i1

from triton_dsl import export_to_onnx, optimize_onnx_model
from triton_dsl.dialects import tensor
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.to_onnx.engine import self_check

Array = np.ndarray[Any, Any]

SQUARES = [1, 4, 9, 16]


class Perceptron(nn.Module):
    """Two layers on an image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(36, 16), nn.Linear(16, 3)

    def forward(self, image: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(image.flatten(1))))


@pytest.fixture
def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return Perceptron().eval()


def run(path: Path, *inputs: Tensor) -> list[Array]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    arrays = [value.numpy() for value in inputs]
    results: list[Any] = list(session.run(None, dict(zip(names, arrays, strict=True))))
    return results


def sizes(port: onnx.ValueInfoProto) -> list[int | str]:
    return [size.dim_param or size.dim_value for size in port.type.tensor_type.shape.dim]


def assert_close(found: Array, module: nn.Module, *inputs: Tensor) -> None:
    with torch.no_grad():
        wanted = module(*inputs).numpy()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_the_first_axis_is_free_by_default(perceptron: nn.Module, tmp_path: Path) -> None:
    path = export_to_onnx(perceptron, tmp_path / "m.onnx", (1, 1, 6, 6))
    assert path == tmp_path / "m.onnx"
    graph = onnx.load(path).graph
    assert [sizes(port) for port in (*graph.input, *graph.output)] == [["N", 1, 6, 6], ["N", 3]]
    assert [port.name for port in (*graph.input, *graph.output)] == ["image", "output"]
    assert {t.name for t in graph.initializer} >= {"first.weight", "first.bias", "second.weight"}
    for n in (1, 5):
        x = torch.randn(n, 1, 6, 6)
        assert_close(run(path, x)[0], perceptron, x)


def test_names_and_axes_are_chosen(perceptron: nn.Module, tmp_path: Path) -> None:
    path = export_to_onnx(
        model=perceptron,
        output_path=str(tmp_path / "m.onnx"),
        input_shape=(1, 1, 6, 6),
        input_names=["pixels"],
        output_names=["logits"],
        opset_version=13,
        dynamic_axes={"pixels": {0: "batch_size"}, "logits": {0: "batch_size"}},
    )
    model = onnx.load(path)
    ports = [*model.graph.input, *model.graph.output]
    assert [(port.name, sizes(port)[0]) for port in ports] == [
        ("pixels", "batch_size"),
        ("logits", "batch_size"),
    ]
    assert model.opset_import[0].version == 13


def test_no_axis_is_free(perceptron: nn.Module, tmp_path: Path) -> None:
    path = export_to_onnx(perceptron, tmp_path / "m.onnx", (1, 1, 6, 6), dynamic_axes={})
    assert sizes(onnx.load(path).graph.input[0]) == [1, 1, 6, 6]
    x = torch.randn(1, 1, 6, 6)
    assert_close(run(path, x)[0], perceptron, x)


def test_axes_without_names(tmp_path: Path) -> None:
    class Sums(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return torch.relu(a).sum(1) + b

    inputs = (torch.randn(2, 4, 3), torch.randn(2, 3))
    path = export_to_onnx(
        Sums(), tmp_path / "m.onnx", example_inputs=inputs, input_names=["left", "right"],
        dynamic_axes={"left": [0, 1], "right": [0]},
    )  # fmt: skip
    assert [sizes(port) for port in onnx.load(path).graph.input] == [
        ["batch", "left_dim1", 3],
        ["batch", 3],
    ]
    others = (torch.randn(3, 5, 3), torch.randn(3, 3))
    assert_close(run(path, *others)[0], Sums(), *others)


def test_verbose_says_what_was_written(
    perceptron: nn.Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export_to_onnx(perceptron, tmp_path / "m.onnx", (1, 1, 6, 6), verbose=True)
    size = f"{path.stat().st_size:,}"
    assert capsys.readouterr().out == f"{path}: image → output, opset 21, {size} bytes\n"


def test_a_program_is_exported_too(perceptron: nn.Module, tmp_path: Path) -> None:
    program = from_torch(perceptron, torch.zeros(2, 1, 6, 6))
    before = str(program)
    path = export_to_onnx(program, tmp_path / "m.onnx", input_names=["x"])
    assert [port.name for port in onnx.load(path).graph.input] == ["x"]
    assert str(program) == before


def test_wrong_arguments(perceptron: nn.Module, tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    shape = (1, 1, 6, 6)
    with pytest.raises(OptionError, match="needs input_shape or example_inputs"):
        export_to_onnx(perceptron, out)
    with pytest.raises(OptionError, match="input_names: 'forward' takes image"):
        export_to_onnx(perceptron, out, shape, ["a", "b"], dynamic_axes={"a": [0]})
    with pytest.raises(OptionError, match="output_names: expected 1 different names for output"):
        export_to_onnx(perceptron, out, shape, output_names=["a", "b"])
    with pytest.raises(OptionError, match="no input or output 'picture'; there are image, output"):
        export_to_onnx(perceptron, out, shape, dynamic_axes={"picture": [0]})
    with pytest.raises(OptionError, match="13 to 25"):
        export_to_onnx(perceptron, out, shape, opset_version=11)
    program = from_torch(perceptron, torch.zeros(2, 1, 6, 6))
    with pytest.raises(OptionError, match="a program has its shapes"):
        export_to_onnx(program, out, shape)
    assert not out.exists()


@pytest.mark.slow
def test_the_example_of_the_api_reference(tmp_path: Path, monkeypatch: Any) -> None:
    from triton_dsl.runtime.models.resnet import ternary_resnet18

    torch.manual_seed(0)
    model = ternary_resnet18(num_classes=10).eval()
    monkeypatch.chdir(tmp_path)
    success = export_to_onnx(
        model=model,
        output_path=Path("resnet18_ternary.onnx"),
        input_shape=(1, 3, 32, 32),
        input_names=["image"],
        output_names=["logits"],
        opset_version=13,
        dynamic_axes={"image": {0: "batch_size"}, "logits": {0: "batch_size"}},
        verbose=True,
    )
    assert success
    onnx_model = onnx.load("resnet18_ternary.onnx")
    onnx.checker.check_model(onnx_model)
    session = onnxruntime.InferenceSession("resnet18_ternary.onnx")
    input_data = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    outputs: list[Any] = list(session.run(None, {"image": input_data}))
    assert_close(outputs[0], model, torch.from_numpy(input_data))
    optimize_onnx_model(
        input_path="resnet18_ternary.onnx",
        output_path="resnet18_ternary_optimized.onnx",
        optimization_level="all",
    )
    assert success.stat().st_size < 3_000_000
    optimized = Path("resnet18_ternary_optimized.onnx")
    assert optimized.stat().st_size < 3_000_000
    assert_close(
        run(optimized, torch.from_numpy(input_data))[0], model, torch.from_numpy(input_data)
    )


@pytest.mark.parametrize("opset", [13, 21])
def test_a_ternary_network_stays_small(tmp_path: Path, opset: int) -> None:
    from triton_dsl.runtime.models.small import TernaryMNISTNet

    torch.manual_seed(0)
    model = TernaryMNISTNet().eval()
    path = export_to_onnx(model, tmp_path / "m.onnx", (1, 1, 28, 28), opset_version=opset)
    x = torch.randn(3, 1, 28, 28)
    for level in ("basic", "extended", "all"):
        made = optimize_onnx_model(path, tmp_path / "o.onnx", level)
        assert_close(run(made, x)[0], model, x)
        assert made.stat().st_size < 70_000  # 234,752 trits take 58,688 bytes


def unfolded(path: Path) -> Path:
    """A model with an Identity, a Dropout and a product of constants."""
    helper = onnx.helper
    make = helper.make_node
    floats = onnx.TensorProto.FLOAT
    tensors = [
        onnx.numpy_helper.from_array(np.diag(np.array(SQUARES, np.float32) ** 0.5) * factor, name)
        for name, factor in (("a", np.float32(2)), ("b", np.float32(3)))
    ]
    graph = helper.make_graph(
        [
            make("MatMul", ["a", "b"], ["c"]),
            make("Identity", ["x"], ["x1"]),
            make("Dropout", ["x1"], ["x2"]),
            make("MatMul", ["x2", "c"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", floats, ["n", 4])],
        [helper.make_tensor_value_info("y", floats, ["n", 4])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("level", ["basic", "extended", "all"])
def test_other_models_are_optimised(tmp_path: Path, level: Any) -> None:
    source = unfolded(tmp_path / "a.onnx")
    path = optimize_onnx_model(source, tmp_path / "b.onnx", level)
    model = onnx.load(path)
    assert [node.op_type for node in model.graph.node] == ["MatMul"]
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [17]
    x = torch.randn(3, 4)
    np.testing.assert_allclose(run(path, x)[0], 6 * x.numpy() * np.array(SQUARES, np.float32), 1e-6)


def test_a_model_is_optimised_in_its_place(tmp_path: Path) -> None:
    source = unfolded(tmp_path / "a.onnx")
    assert optimize_onnx_model(source, source, "basic") == source
    assert len(onnx.load(source).graph.node) == 1
    assert list(tmp_path.iterdir()) == [source]


def test_what_the_ir_cannot_express_goes_through_the_runtime(tmp_path: Path) -> None:
    helper = onnx.helper
    floats, integers = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["a"]),
            helper.make_node("NonZero", ["a"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", floats, ["n"])],
        [helper.make_tensor_value_info("y", integers, [1, None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "a.onnx")
    path = optimize_onnx_model(tmp_path / "a.onnx", tmp_path / "b.onnx", "basic")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["NonZero"]


def test_pads_with_zeros_do_not_become_those_of_a_pool(tmp_path: Path) -> None:
    helper = onnx.helper
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "p"], ["h"]),
            helper.make_node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        "g",
        [helper.make_tensor_value_info("x", floats, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", floats, [1, 1, 3, 3])],
        [onnx.numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "p")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "a.onnx")
    path = optimize_onnx_model(tmp_path / "a.onnx", tmp_path / "b.onnx", "basic")
    found = run(path, torch.full((1, 1, 4, 4), -1.0))[0]
    assert found[0, 0].tolist() == [[0, 0, 0], [0, -1, 0], [0, 0, 0]]
    with pytest.raises(LoweringError, match="differs from the model before"):
        optimize_onnx_model(tmp_path / "a.onnx", tmp_path / "b.onnx", "all")


def test_optimisation_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected optimization_level one of basic"):
        optimize_onnx_model(tmp_path / "a.onnx", tmp_path / "b.onnx", "most")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="no such file"):
        optimize_onnx_model(tmp_path / "a.onnx", tmp_path / "b.onnx")


def test_the_self_check_finds_a_wrong_model(bench: Any) -> None:
    def body(add: Any, x: Any) -> Any:
        return add(tensor.ReluOp(x))

    def other(add: Any, x: Any) -> Any:
        return add(tensor.AbsOp(x))

    types = [TensorType(f32, [DYNAMIC, 4])]
    right, wrong = bench.build(types, body), bench.build(types, other)
    data = bench.bytes_of(wrong)
    function = right.body.block.first_op
    with pytest.raises(LoweringError, match="output 0 differs from the interpreter by"):
        self_check(data, {}, right, function, coarse=False)
    with pytest.raises(LoweringError, match="ONNX Runtime refuses the model"):
        self_check(b"nonsense", {}, right, function, coarse=False)
    self_check(bench.bytes_of(right), {}, right, function, coarse=False)


def test_the_self_check_runs_a_single_truth_value(bench: Any) -> None:
    module = bench.build([TensorType(i1, [])], lambda add, x: add(tensor.NotOp(x)))
    function = module.body.block.first_op
    self_check(bench.bytes_of(module), {}, module, function, coarse=False)
