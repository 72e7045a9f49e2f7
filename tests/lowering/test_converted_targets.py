"""Converted networks leave through every target and give what the interpreter gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.random_values import fill_parameters

PROGRAM = """
layer Net {
    let conv = Conv2d(1, 4, 3, padding=1)
    let conv2 = Conv2d(4, 6, 3, padding=1)
    let fc = Linear(96, 12)
    let head = Linear(12, 5)

    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        let a = max_pool2d(relu(conv(x)), 2)
        let b = relu(conv2(a))
        return head(relu(fc(flatten(b))))
    }
}
"""


@pytest.fixture(scope="module", params=["max_pool2d", "avg_pool2d", "signed"])
def converted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ModuleOp, NDArray[Any]]:
    """A spiking program of 4 steps, and images for it."""
    path: Path = tmp_path_factory.mktemp("net") / "net.tri"
    signed = request.param == "signed"
    path.write_text(PROGRAM.replace("max_pool2d", "avg_pool2d" if signed else request.param))
    images = np.random.default_rng(0).random((40, 1, 8, 8), np.float32)
    program = fill_parameters(import_tri(path), 3)
    return convert_to_snn(program, images, 4, signed=signed), images


def assert_agrees(found: Any, converted: tuple[ModuleOp, NDArray[Any]]) -> None:
    (wanted,) = run_module(converted[0], [converted[1]])
    assert np.ptp(wanted) > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_onnx(converted: tuple[ModuleOp, NDArray[Any]]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    files = compile_to_target(converted[0], "onnx").files
    session = runtime.InferenceSession(next(iter(files.values())))
    assert_agrees(session.run(None, {session.get_inputs()[0].name: converted[1]})[0], converted)


def test_pytorch(converted: tuple[ModuleOp, NDArray[Any]]) -> None:
    torch = pytest.importorskip("torch")
    from triton_dsl.lowering.to_pytorch.load import load_module

    module = load_module(compile_to_target(converted[0], "pytorch"))
    with torch.no_grad():
        assert_agrees(module(torch.from_numpy(converted[1])).numpy(), converted)


def test_tflite(converted: tuple[ModuleOp, NDArray[Any]]) -> None:
    pytest.importorskip("ai_edge_litert")
    assert_agrees(run_target(converted[0], "tflite", [converted[1]])[1][0], converted)


@pytest.mark.parametrize("spikes", ["event", "dense"])
def test_native(converted: tuple[ModuleOp, NDArray[Any]], spikes: str) -> None:
    pytest.importorskip("llvmlite")
    from triton_dsl.lowering.to_native.callables import native_program

    assert_agrees(native_program(converted[0], {"spikes": spikes})(converted[1]), converted)


def test_nir(tmp_path: Path) -> None:
    path = tmp_path / "net.tri"
    path.write_text(PROGRAM.replace("max_pool2d", "avg_pool2d"))
    images = np.random.default_rng(0).random((40, 1, 8, 8), np.float32)
    program = fill_parameters(import_tri(path), 3)
    module = convert_to_snn(program, images, 4, pools="before")
    (wanted,) = run_module(module, [images])
    apply_passes(module, "build-network{expose=true}")
    assert compile_to_target(module, "nir").files
    (found,) = run_module(module, [np.repeat(images[None], 4, axis=0)])
    np.testing.assert_allclose(found.mean(0), wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
