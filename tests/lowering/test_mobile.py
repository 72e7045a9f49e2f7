"""`optimize_for_mobile`: what each option changes in the file, and how the result is used."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.mobile import MobileModel, optimize_for_mobile
from triton_dsl.lowering.to_tflite import export_to_tflite
from triton_dsl.runtime import TernaryConv2d

Array = np.ndarray[Any, Any]
BACKENDS = ["onnx", "tflite"]
NO_STEPS = {
    "constant_folding": False, "dead_code_elimination": False, "operator_fusion": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 64, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    with torch.no_grad():
        model(torch.randn(16, 3, 16, 16))  # moves the statistics of the normalisation
    return model.eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def operators(model: MobileModel) -> Counter[str]:
    """How often each kind of operator is in the file, by its name without case and marks."""
    if model.backend == "onnx":
        import onnx

        nodes = onnx.load_from_string(model.model_bytes).graph.node
        return Counter(node.op_type.lower() for node in nodes)
    import ai_edge_litert.schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    made: Any = schema.ModelT.InitFromPackedBuf(model.model_bytes)
    kinds = [names[code.builtinCode].lower() for code in made.operatorCodes]
    return Counter(kinds[op.opcodeIndex] for op in made.subgraphs[0].operators)


def off(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).abs().max() / want.abs().max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_snippet_of_the_guide(
    backend: Any, network: nn.Module, images: torch.Tensor, tmp_path: Path
) -> None:
    optimized = optimize_for_mobile(
        network,
        input_shape=(1, 3, 16, 16),
        backend=backend,
        optimization_options={
            "constant_folding": True,
            "dead_code_elimination": True,
            "operator_fusion": True,
            "quantization": "dynamic",
        },
    )
    torch.save(optimized, tmp_path / "model_optimized.pth")
    loaded = torch.load(tmp_path / "model_optimized.pth", weights_only=False)
    want = network(images).detach()
    for batch in (1, 8):
        assert off(loaded(images[:batch]), want[:batch]) < 0.05
    path = loaded.save(tmp_path / f"model.{backend}")
    assert path.read_bytes() == optimized.model_bytes
    (array,) = [loaded(images.numpy())]
    assert isinstance(array, np.ndarray)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fusion_joins_normalisations_and_activations(
    backend: Any, network: nn.Module, images: torch.Tensor
) -> None:
    made = [
        optimize_for_mobile(network, images.shape, backend, {"operator_fusion": fused})
        for fused in (True, False)
    ]
    fused, apart = map(operators, made)
    assert fused.total() < apart.total()
    extra = {"onnx": {"batchnormalization": 1}, "tflite": {"mul": 1, "add": 1, "relu": 2}}[backend]
    assert apart - fused == Counter(extra)
    for model in made:
        assert off(model(images), network(images).detach()) < 1e-5


def program(build_module: Any) -> ModuleOp:
    """x + (a + b) beside itself: a constant sum, and the same sum twice."""

    def body(add: Any, x: Any) -> Any:
        a, b = (add(dense_constant(np.array([n, 2.0, 3.0], np.float32), f32)) for n in (1.0, 5.0))
        total = add(tensor.AddOp(a, b))
        twice = [add(tensor.MulOp(x, total)) for _ in range(2)]
        return add(tensor.SubOp(add(tensor.ExpOp(twice[0])), add(tensor.TanhOp(twice[1]))))

    return build_module([TensorType(f32, [DYNAMIC, 3])], body)


@pytest.mark.parametrize("backend", BACKENDS)
def test_folding_and_dead_code(backend: Any, build_module: Any) -> None:
    module = program(build_module)
    x = np.array([[0.1, -0.2, 0.3]], np.float32)
    (want,) = run_module(module, [x])
    for folded, clean in ((True, True), (False, True), (True, False), (False, False)):
        chosen = {"constant_folding": folded, "dead_code_elimination": clean}
        made = optimize_for_mobile(module, None, backend, chosen)
        found = operators(made)
        assert found["add"] == (0 if folded else 1)
        assert found["mul"] == (1 if clean else 2)
        np.testing.assert_allclose(made(x), want, 1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_quantization(backend: Any, network: nn.Module, images: torch.Tensor) -> None:
    want = network(images).detach()
    sizes: dict[Any, int] = {}
    for kind in (None, "dynamic", "static"):
        samples = [(images, torch.zeros(8))] if kind == "static" else None
        chosen = {"quantization": kind}
        made = optimize_for_mobile(network, images.shape, backend, chosen, calibration_data=samples)
        assert off(made(images), want) < (0.1 if kind else 1e-5)
        sizes[kind] = len(made.model_bytes)
    assert max(sizes["dynamic"], sizes["static"]) < 0.35 * sizes[None]


def test_arguments(network: nn.Module, images: torch.Tensor) -> None:
    for options, message in (
        ({"constant_foldin": True}, "did you mean 'constant_folding'"),
        ({"operator_fusion": "yes"}, "'operator_fusion' is true or false, got 'yes'"),
        ({"quantization": "int3"}, "quantization is dynamic, static or None, got 'int3'"),
        ({"quantization": "static"}, "quantization='static' and calibration_data go together"),
    ):
        with pytest.raises(OptionError, match=message):
            optimize_for_mobile(network, images.shape, "onnx", options)
    for backend, message in (
        ("coreml", "unknown target 'coreml'"),
        ("verilog", "target 'verilog' has no floats that could be rounded"),
    ):
        with pytest.raises(OptionError, match=message):
            optimize_for_mobile(network, images.shape, backend)
    with pytest.raises(OptionError, match="empty"):
        chosen = {"quantization": "static"}
        optimize_for_mobile(network, images.shape, "onnx", chosen, calibration_data=[])


def test_without_any_step(network: nn.Module, images: torch.Tensor) -> None:
    made = optimize_for_mobile(network, images.shape, "onnx", NO_STEPS)
    assert operators(made)["batchnormalization"] == 1
    assert repr(made) == f"MobileModel(backend='onnx', {len(made.model_bytes)} bytes)"


def test_trits_of_convolutions_take_two_bits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(TernaryConv2d(16, 64, 3, padding=1), nn.ReLU(), TernaryConv2d(64, 64, 3))
    mobile = optimize_for_mobile(model, (1, 16, 8, 8), "tflite")
    path = tmp_path / "small.tflite"
    export_to_tflite(model, path, input_shape=(1, 16, 8, 8), optimize_for_size=True)
    trits = sum(weight.numel() for weight in model.parameters() if weight.dim() == 4)
    assert trits / 4 < len(mobile.model_bytes) <= path.stat().st_size < trits / 4 + 8000
    x = torch.randn(1, 16, 8, 8)
    torch.testing.assert_close(mobile(x), model.eval()(x), rtol=1e-4, atol=1e-4)
