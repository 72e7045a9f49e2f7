"""`precision=int8` and `dynamic-int8`: integer kernels, and results close to those of floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp, TensorType, i8

from triton_dsl import export_to_onnx
from triton_dsl.dialects import ternary as ternary_dialect
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target

Array = np.ndarray[Any, Any]


class Residual(nn.Module):
    """Convolutions with and without groups, a sum, pools, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.second = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(), nn.Conv2d(16, 16, 1)
        )
        self.pool = nn.MaxPool2d(2)
        self.hidden, self.last = nn.Linear(16, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = self.pool(torch.relu(self.second(x) + x)).mean((2, 3))
        return self.last(torch.relu(self.hidden(x)))


class Tokens(nn.Module):
    """Linear layers on rank 3."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(24, 48), nn.Linear(48, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (64, 3, 16, 16)),
    "tokens": (Tokens, (64, 5, 24)),
}


def ran(path: Path, x: Array) -> tuple[Array, Counter[str]]:
    """The result, and the operators after ONNX Runtime's own optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    optimized = path.with_name("optimized.onnx")
    options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    results: list[Any] = list(session.run(None, {session.get_inputs()[0].name: x}))
    return results[0], Counter(node.op_type for node in onnx.load(optimized).graph.node)


def off(found: Array, wanted: Array) -> float:
    """The size of the error over that of the result."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", CASES)
def test_int8_runs_on_integer_kernels(tmp_path: Path, name: str, opset: int) -> None:
    torch.manual_seed(0)
    make, shape = CASES[name]
    model, x = make().eval(), torch.randn(shape)
    np.savez(tmp_path / "samples.npz", x=x.numpy())
    path = export_to_onnx(
        model, tmp_path / "m.onnx", shape, precision="int8", opset_version=opset,
        calibration=tmp_path / "samples.npz",
    )  # fmt: skip
    found, kinds = ran(path, x.numpy())
    with torch.no_grad():
        assert off(found, model(x).numpy()) < 0.03
    assert not kinds.keys() & {"Conv", "MatMul", "Gemm", "FusedMatMul", "FusedConv"}
    if name == "residual":
        assert kinds["QLinearConv"] == 3
        assert kinds["QLinearAdd"] == 1
        assert kinds["QGemm"] == 2
        assert kinds["Relu"] == 0  # the grids clamp
    else:
        assert kinds["MatMulIntegerToFloat"] + kinds["QLinearMatMul"] == 2
    with torch.no_grad():
        (one,) = ran(path, x.numpy()[:1])[:1]
        assert off(one, model(x[:1]).numpy()) < 0.06


def test_weights_have_a_scale_a_channel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Tokens().eval(), torch.randn(8, 5, 24)
    with torch.no_grad():
        model.first.weight[0] *= 1000  # alone on a scale of its own
        model.first.bias.zero_()
    np.savez(tmp_path / "s.npz", x=x.numpy())
    path = export_to_onnx(
        model, tmp_path / "m.onnx", x.shape, precision="int8", calibration=tmp_path / "s.npz"
    )
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    levels, scale = stored["first.weight.levels"], stored["first.weight.scale"]
    assert levels.dtype == np.uint8 and scale.shape == (48,)  # too small to ask the processor
    levels = levels.astype(np.int16) - 128
    weight = model.first.weight.detach().numpy().T
    assert (np.abs(levels * scale - weight) <= scale * 0.5001).all()
    assert (np.abs(levels).max(axis=0) == 127).all()


def test_weights_of_seven_bits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Tokens().eval(), torch.randn(8, 5, 24)
    np.savez(tmp_path / "s.npz", x=x.numpy())
    cases: list[tuple[Any, Path | None]] = [
        ("int8", tmp_path / "s.npz"),
        ("dynamic-int8", None),
    ]
    for precision, calibration in cases:
        path = export_to_onnx(
            model, tmp_path / "m.onnx", x.shape, precision=precision, weight_bits=7,
            calibration=calibration,
        )  # fmt: skip
        stored = [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]
        matrices = [array for array in stored if array.ndim == 2]
        assert [array.shape for array in matrices] == [(24, 48), (48, 8)]
        assert all(array.dtype == np.int8 for array in matrices)
        assert all((np.abs(array).max(axis=0) == 63).all() for array in matrices)
        with torch.no_grad():
            assert off(ran(path, x.numpy())[0], model(x).numpy()) < 0.03


@pytest.mark.parametrize("name", CASES)
def test_dynamic_int8(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    make, shape = CASES[name]
    model, x = make().eval(), torch.randn(shape)
    path = export_to_onnx(model, tmp_path / "m.onnx", shape, precision="dynamic-int8")
    found, kinds = ran(path, x.numpy())
    with torch.no_grad():
        assert off(found, model(x).numpy()) < 0.03
    fused = kinds["DynamicQuantizeMatMul"] + kinds["MatMulIntegerToFloat"]
    assert fused + kinds["MatMulInteger"] == 2
    assert found.shape == (shape[0], *found.shape[1:])


TERNARY = """
layer Net {
    param w1: TernaryTensor[64, 48]
    param s1: Tensor[48]
    param b1: Tensor[48]
    param w2: TernaryTensor[48, 10]
    fn forward(x: Tensor[N, 64]) -> Tensor[N, 10] {
        return relu((x @ w1) * s1 + b1) @ w2
    }
}
"""


@pytest.fixture
def ternary() -> ModuleOp:
    random = np.random.default_rng(0)
    return import_tri(
        TERNARY,
        weights={
            "w1": random.integers(-1, 2, (64, 48)).astype(np.int8),
            "s1": random.random(48).astype(np.float32) + 0.5,
            "b1": random.standard_normal(48).astype(np.float32),
            "w2": random.integers(-1, 2, (48, 10)).astype(np.int8),
        },
    )


@pytest.mark.parametrize("precision", ["int8", "dynamic-int8"])
@pytest.mark.parametrize("opset", [13, 21])
def test_trits_stay_packed(ternary: ModuleOp, tmp_path: Path, precision: Any, opset: int) -> None:
    x = np.random.default_rng(1).standard_normal((200, 64)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=x)
    calibration = tmp_path / "s.npz" if precision == "int8" else None
    path = export_to_onnx(
        ternary, tmp_path / "m.onnx", precision=precision, calibration=calibration,
        opset_version=opset,
    )  # fmt: skip
    stored = {t.name: t for t in onnx.load(path).graph.initializer}
    assert len(stored["w1"].raw_data) == 64 * 48 // 4
    found, kinds = ran(path, x)
    (wanted,) = run_module(ternary, [x])
    assert off(found, wanted) < 0.02
    assert not kinds.keys() & {"MatMul", "Gemm", "FusedMatMul"}


def test_ranges_of_the_program_are_used(ternary: ModuleOp, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((200, 64)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=x)
    passes = f'canonicalize,fuse-linear,canonicalize,calibrate{{data="{tmp_path / "s.npz"}"}}'
    run_stages(ternary, [Stage("calibrate", passes)])
    data = compile_to_target(ternary, "onnx{precision=int8}").files
    model = onnx.load_from_string(next(iter(data.values())))
    assert "QuantizeLinear" in {node.op_type for node in model.graph.node}


def test_int8_without_ranges_is_refused(ternary: ModuleOp) -> None:
    with pytest.raises(LoweringError, match="precision=int8 takes its scales from samples"):
        compile_to_target(ternary, "onnx{precision=int8}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("weight-bits=4", "expects 7 or 8, got 4"),
        ('calibration="a.npz"', "belongs to precision=int8"),
        ("precision=dynamic-int8 form=fast", "give form=fast or a precision"),
        ("external-limit=-1", "expects 0 to"),
    ],
)
def test_options_that_do_not_fit(ternary: ModuleOp, options: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compile_to_target(ternary, f"onnx{{{options}}}")


def test_exact_integers_stay_exact(bench: Any) -> None:
    """Programs on integers have no floats to round, whatever the precision."""
    weight = np.random.default_rng(0).integers(-1, 2, (64, 10)).astype(np.int8)

    def body(add: Any, x: Any) -> Any:
        return add(ternary_dialect.LinearOp(x, add(ternary_dialect.ParameterOp("w", [64, 10]))))

    module = bench.build([TensorType(i8, [DYNAMIC, 64])], body, {"w": pack_trits(weight)})
    x = np.random.default_rng(0).integers(-128, 128, (5, 64)).astype(np.int8)
    data = bench.bytes_of(module, precision="dynamic-int8")
    np.testing.assert_array_equal(bench.run(data, [x])[0], x.astype(np.int32) @ weight)
