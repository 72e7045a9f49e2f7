"""How the tests of this folder emit models and run them in ONNX Runtime beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_onnx.target import OnnxOptions, OnnxTarget

Array = np.ndarray[Any, Any]


def onnx_bytes(module: ModuleOp, **options: Any) -> bytes:
    """The model as the emitter alone makes it, without any pass or check."""
    given: dict[str, Any] = {"self_check": False, **options}
    artifact = OnnxTarget().emit(module, OnnxOptions(**given))
    return artifact.files["model.onnx"]


def run_onnx(data: bytes, inputs: Sequence[Array], *, optimize: bool = True) -> list[Array]:
    """The outputs of a model in ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    results: list[Any] = list(session.run(None, dict(zip(names, inputs, strict=True))))
    return results


@dataclass(frozen=True)
class Bench:
    """What the tests of this folder build, run and compare models with; see `../conftest.py`."""

    build: Callable[..., ModuleOp]
    same: Callable[..., None]
    bytes_of = staticmethod(onnx_bytes)
    run = staticmethod(run_onnx)

    def check(
        self, module: ModuleOp, inputs: Sequence[Array], opset: int = 21, scale: float = 1.0
    ) -> bytes:
        """Emit, run in ONNX Runtime and compare with the interpreter; the model's bytes.

        Of the target's stages only the first is run, that decomposes what ONNX lacks.
        """
        work = module.clone()
        run_stages(work, OnnxTarget().stages(OnnxOptions(opset=opset))[:1])
        data = onnx_bytes(work, opset=opset)
        self.same(run_onnx(data, inputs), run_module(module, inputs), scale)
        return data


@pytest.fixture
def bench(build_module: Callable[..., ModuleOp], assert_same: Callable[..., None]) -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench(build_module, assert_same)


OPSETS = [
    opset if opset in (13, 18, 21) else pytest.param(opset, marks=pytest.mark.slow)
    for opset in range(13, 26)
]


@pytest.fixture(params=OPSETS)
def opset(request: pytest.FixtureRequest) -> int:
    """Each opset; all but three under `slow`."""
    return request.param
