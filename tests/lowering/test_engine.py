"""Engines that targets name: what they run is compared with NumPy, and plug-ins bring their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering import targets
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.engine import ArtifactEngine, engine_of, run_artifact, run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.target import Target
from triton_dsl.lowering.targets import compile_to_target, register_target
from triton_dsl.tools.verify import verify_module

RequireTool = Callable[[str, str], str]

RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(-1, 2, (12, 5)).astype(np.int8)
X = RNG.integers(-100, 100, (1, 12)).astype(np.int8)


def product() -> ModuleOp:
    """A product of integers and trits, which every engine computes exactly."""
    return import_tri(
        "layer L { param w: TernaryTensor[12, 5]\n"
        "fn forward(x: Tensor<int8>[1, 12]) -> Tensor<int32>[1, 5] { return x @ w } }",
        weights={"w": WEIGHTS},
    )


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("pytorch", "torch"),
        ("onnx{opset=17}", "onnxruntime"),
        ("native", "native"),
        ("tflite", "litert"),
        ("verilog", ""),
    ],
)
def test_a_target_names_its_engine(target: str, name: str, require_tool: RequireTool) -> None:
    if target == "verilog":
        require_tool("iverilog", "apt-get install iverilog")
    found, (y,), size = run_target(product(), target, [X])
    assert found.startswith(name) and found != "none" and size > 0
    np.testing.assert_array_equal(y, X.astype(np.int64) @ WEIGHTS)


def test_a_target_without_an_engine_is_refused() -> None:
    with pytest.raises(OptionError, match="target 'nir' has no engine"):
        engine_of(product(), "nir")
    with pytest.raises(OptionError, match="the engine of target 'native' compiles"):
        run_artifact("native", compile_to_target(product(), "native{form=object}"), [X])


class ArrayEngine(ArtifactEngine):
    """Runs the artefacts of the target below."""

    name = "arrays"

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        weights = np.frombuffer(self.artifact.files["w"], np.int8).reshape(12, 5)
        return [inputs[0].astype(np.int32) @ weights.astype(np.int32)]


class ArrayTarget(Target):
    """The weights of `product` as bytes, plus a number."""

    name = "array"
    description = "bytes"
    engine = ArrayEngine
    added = 0

    def emit(self, module: ModuleOp, options: Any) -> Artifact:
        return Artifact("array", {"w": (WEIGHTS + self.added).astype(np.int8).tobytes()})


class WrongTarget(ArrayTarget):
    """The same with other weights."""

    name = "wrong"
    added = 1


@pytest.fixture
def plugins() -> Iterator[None]:
    register_target("array", ArrayTarget)
    register_target("wrong", WrongTarget)
    yield
    targets._registered.clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("plugins")
def test_a_target_from_outside_brings_its_engine() -> None:
    rows = verify_module(product(), [X], ["array", "wrong"], trace=False)
    assert [(row.engine, row.agrees, row.bytes) for row in rows] == [
        ("arrays", True, 60),
        ("arrays", False, 60),
    ]


def test_a_target_takes_the_path_of_a_program(tmp_path: Path) -> None:
    path = tmp_path / "relu.tri"
    path.write_text("layer L { fn forward(x: Tensor[N, 5]) -> Tensor[N, 5] { return relu(x) } }")
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    for model in (path, str(path)):
        _, (result,), _ = run_target(model, "onnx", [x])
        np.testing.assert_array_equal(result, np.maximum(x, 0))
        assert (
            compile_to_target(model, "onnx").files
            == compile_to_target(import_tri(path), "onnx").files
        )


def test_a_target_runs_a_module_of_pytorch() -> None:
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    _, (result,), _ = run_target(torch.nn.Tanh(), "onnx", [x])
    np.testing.assert_allclose(result, np.tanh(x.astype(np.float64)), rtol=1e-6)
    with pytest.raises(OptionError, match="needs input_shape or example_inputs"):
        compile_to_target(torch.nn.Tanh(), "onnx")
