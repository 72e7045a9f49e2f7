"""What tests of the PyTorch target share: the generated module against the interpreter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module

torch = pytest.importorskip("torch")

Array = NDArray[Any]
Weights = Mapping[str, Array]


def compile_text(text: str, values: Weights | None = None, **options: object) -> Artifact:
    """The artefact of textual IR with the given values of parameters."""
    module = parse_module(text, "model.mlir")
    attach_store(module, ParameterStore.of(values or {}))
    return compile_to_target(module, "pytorch", options)


KERNELS = "from triton_dsl.runtime."


def without_kernels(artifact: Artifact) -> Artifact:
    """The artefact as it runs where Triton DSL is not installed."""
    text = artifact.text().replace(KERNELS, "raise ImportError  # ")
    assert artifact.main_file is not None
    files = {**artifact.files, artifact.main_file: text.encode()}
    return Artifact(artifact.name, files, primary=artifact.primary)


def run_generated(artifact: Artifact, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Results of the generated module."""
    model = load_module(artifact)
    with torch.no_grad():
        results = model(*(torch.from_numpy(np.array(x)) for x in inputs))
    return tuple(r.numpy() for r in (results if isinstance(results, tuple) else (results,)))


def check_other_device(artifact: Artifact, inputs: Sequence[Array]) -> None:
    """The module runs where its parameters are: on `meta`, tensors left on the CPU are errors."""
    model = load_module(artifact).to("meta")
    with torch.no_grad():
        results = model(*(torch.from_numpy(np.array(x)).to("meta") for x in inputs))
    for result in results if isinstance(results, tuple) else (results,):
        assert result.device.type == "meta"


def check_style(source: str) -> None:
    """The source is what ruff makes of it, lints clean and stays within 100 columns."""
    ruff = shutil.which("ruff") or shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "format", "--isolated", "--line-length", "100", "--diff", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lint = [ruff, "check", "--isolated", "--line-length", "100", "--select", "E,F,W,I,B", "-"]
    done = subprocess.run(lint, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture(name="compile_text")
def compile_text_fixture() -> Callable[..., Artifact]:
    return compile_text


@pytest.fixture(name="without_kernels")
def without_kernels_fixture() -> Callable[[Artifact], Artifact]:
    return without_kernels


@pytest.fixture(name="check_style")
def check_style_fixture() -> Callable[[str], None]:
    return check_style


@pytest.fixture
def agree() -> Callable[..., Artifact]:
    """Run IR in the interpreter and as a generated module, and compare; the artefact."""

    def check(
        text: str,
        inputs: Sequence[Array],
        weights: Weights | None = None,
        *,
        tolerance: float = 2e-6,
        style: bool = True,
    ) -> Artifact:
        artifact = compile_text(text, weights)
        module = parse_module(text)
        attach_store(module, ParameterStore.of(weights or {}))
        expected = run_module(module, inputs)
        actual = run_generated(artifact, inputs)
        if KERNELS in artifact.text():
            actual += run_generated(without_kernels(artifact), inputs)
            expected += expected
        assert len(actual) == len(expected)
        for got, wanted in zip(actual, expected, strict=True):
            assert got.shape == wanted.shape
            assert got.dtype == wanted.dtype
            if wanted.dtype.kind == "f":
                scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
                np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale)
            else:
                np.testing.assert_array_equal(got, wanted)
        check_other_device(artifact, inputs)
        if style:
            check_style(artifact.text())
        return artifact

    return check
