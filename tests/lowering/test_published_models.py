"""Each published file through every target: the same predictions, or one clear refusal.

Digits where the model reads digits; spectrograms-like noise, and noise, for the others.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import LoweringError, PassError, UnsupportedError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.options import parse_options
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.target import NativeOptions
from triton_dsl.runtime.native.program import load_program
from triton_dsl.tools.native import program_content
from triton_dsl.tools.verify import run_artifact

Array = NDArray[Any]

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

FILES = {
    "mnist-conv-opset8.onnx": 1.0,
    "TFC_1W1A.onnx": 1 / 255,
    "dense_big_keras.onnx": None,
    "three_layer_pytorch.onnx": None,
    "kws_ref_model.tflite": None,
    "kws_ref_model_float32.tflite": None,
}
"""Models, and what a pixel is worth in those that read digits."""

SHAPES = {"three_layer_pytorch.onnx": {"0": ("N", 16)}}
"""A file that states the size of its whole data set."""

SOFTWARE = ("onnx", "pytorch", "tflite", "native")

CIRCUITS = ("TFC_1W1A.onnx",)
"""What becomes a circuit."""


@cache
def imported(name: str) -> ModuleOp:
    kind = name.rpartition(".")[2]
    path = SHARED / "models" / kind / name
    if not path.exists():
        pytest.skip(f"'{path}' is absent: the shared data are not on this machine")
    if name in SHAPES:
        return from_onnx(path, shapes=SHAPES[name])
    return from_onnx(path) if kind == "onnx" else from_tflite(path)


@cache
def digits() -> tuple[Array, Array]:
    """All test images [10000, 28, 28] and their classes."""
    folder = SHARED / "mnist"
    images = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28)
    return pixels, np.frombuffer(labels, np.uint8, offset=8)


def samples(name: str, count: int) -> list[Array]:
    """Inputs of a model, one at a time."""
    (argument,) = entry_function(imported(name), "forward").args
    type: Any = argument.type
    shape = [1 if size == DYNAMIC else size for size in type.get_shape()]
    worth = FILES[name]
    if worth is not None:
        pixels = digits()[0][:count].astype(np.float32) * np.float32(worth)
        return [image.reshape(shape) for image in pixels]
    noise = np.random.default_rng(5).standard_normal((count, *shape)).astype(np.float32)
    if "kws" in name:
        noise = np.cumsum(noise, axis=2) / 3
    whole = str(type.element_type) == "i8"
    return list(np.clip(np.rint(20 * noise), -128, 127).astype(np.int8) if whole else noise)


def runner(name: str, target: str) -> Callable[[Array], Array]:
    """The model on an engine of the target."""
    module = imported(name)
    if target == "native":
        program = load_program(program_content(module, parse_options(NativeOptions, "native", {})))
        return lambda x: program.run([x])[0]
    artifact = compile_to_target(module, target)
    return lambda x: run_artifact(target, artifact, [x])[1][0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "target", ["onnx", "tflite", *(pytest.param(t, marks=pytest.mark.slow) for t in SOFTWARE[1::2])]
)
def test_software_predicts_the_same(name: str, target: str) -> None:
    run = runner(name, target)
    for x in samples(name, 8):
        (want,), got = run_module(imported(name), [x]), run(x)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.argmax() == want.argmax()
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, atol=1e-3 * max(1.0, float(np.abs(want).max())))
        else:
            assert np.abs(got.astype(int) - want).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "percent"), [("mnist-conv-opset8.onnx", 98.91), ("TFC_1W1A.onnx", 92.96)]
)
def test_accuracy_on_all_digits(name: str, percent: float) -> None:
    """What the file reaches, from the file that we make of it."""
    run = runner(name, "native")
    classes = np.array([run(x).argmax() for x in samples(name, 10_000)])
    assert round(100 * float((classes == digits()[1]).mean()), 2) == percent


@pytest.mark.parametrize("name", [name for name in FILES if name not in CIRCUITS])
@pytest.mark.parametrize("target", ["verilog", "nir"])
def test_refusals_name_every_op(name: str, target: str) -> None:
    with pytest.raises((LoweringError, PassError)) as caught:
        compile_to_target(imported(name), target)
    assert isinstance(caught.value, UnsupportedError)
    assert len(caught.value.problems) > 1 and f"target '{target}' cannot" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_predict_the_same(name: str, require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    run = runner(name, "verilog")
    for x in samples(name, 3):
        (want,), got = run_module(imported(name), [x]), run(x)
        assert got.argmax() == want.argmax()
        np.testing.assert_allclose(got, want, atol=1e-4)
