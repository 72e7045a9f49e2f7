"""Runs a model in ONNX Runtime, and compares it with the interpreter before it is written.

Models are run as users run them, with all optimisations that the runtime makes itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.errors import BackendError, LoweringError, TritonError
from ...runtime.engines import device_providers, open_session, run_session
from ..artifact import Artifact, write_artifact
from ..comparison import disagreement, products, sample_inputs
from ..engine import ArtifactEngine

EXACT_BYTES = {"session.x64quantprecision": "1"}
"""Entries with which ONNX Runtime stores INT8 weights as UINT8 where `byte_weights` would."""

MOST_PRODUCTS = 10**10
"""Programs with more multiplications are loaded, and not run."""


class OnnxEngine(ArtifactEngine):
    """An ONNX model in ONNX Runtime; a session is opened at the first run."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._sessions: dict[tuple[str, ...], Any] = {}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Engine.run`."""
        providers = device_providers()
        if providers not in self._sessions:
            if len(self.artifact.files) == 1:
                model = next(iter(self.artifact.files.values()))
                self._sessions[providers] = open_session(model, providers=providers)
            else:  # weights beside the model are found by the model's path
                with TemporaryDirectory() as folder:
                    path = write_artifact(self.artifact, Path(folder))[0]
                    self._sessions[providers] = open_session(path, providers=providers)
        self.name = f"onnxruntime {version('onnxruntime')}"
        return run_session(self._sessions[providers], inputs)


@cache
def saturates() -> bool:
    """Whether ONNX Runtime saturates products of UINT8 and INT8 on this processor."""
    from onnx import TensorProto, helper

    ports = [
        helper.make_tensor_value_info(name, kind, [2, 2])
        for name, kind in (
            ("x", TensorProto.UINT8),
            ("w", TensorProto.INT8),
            ("y", TensorProto.INT32),
        )
    ]
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "pairs", ports[:2], ports[2:])
    opsets = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    inputs = [np.full((2, 2), 255, np.uint8), np.full((2, 2), 127, np.int8)]
    return bool((run_session(open_session(model), inputs)[0] != 2 * 255 * 127).any())


def _opened(model: bytes, beside: Mapping[str, bytes]) -> Any:
    """A session for a model in memory; with files beside it, from files that are gone then."""
    if not beside:
        return open_session(model)
    with TemporaryDirectory() as folder:
        for name, data in {"model.onnx": model, **beside}.items():
            (Path(folder) / name).write_bytes(data)
        return open_session(Path(folder) / "model.onnx")


def self_check(
    model: bytes,
    beside: Mapping[str, bytes],
    module: ModuleOp,
    function: FuncOp,
    *,
    coarse: bool,
    inputs: Sequence[Array] | None = None,
) -> None:
    """Load the model in ONNX Runtime, run it there and in the interpreter, and compare.

    Nothing happens where ONNX Runtime is not installed. Large programs (`MOST_PRODUCTS`) are
    loaded alone, and so are those that take or give bfloat16, which NumPy does not pass on.

    Args:
        model: the file.
        beside: by name the files beside it.
        module: the program that was emitted.
        function: its entry.
        coarse: whether the file rounds more than the program.
        inputs: of the program; by default `sample_inputs`.

    Raises:
        LoweringError: ONNX Runtime refuses the model, or computes something else.
    """
    if find_spec("onnxruntime") is None:
        return
    try:
        session = _opened(model, beside)
    except BackendError as error:
        raise LoweringError(f"the self-check of the ONNX model failed: {error}") from None
    if products(function) > MOST_PRODUCTS:
        return
    inputs = sample_inputs(module, function) if inputs is None else inputs
    try:
        expected = run_module(module, inputs)
    except TritonError:
        return  # the sizes chosen here do not suit the program
    if any(array.dtype.name == "bfloat16" for array in (*inputs, *expected)):
        return
    try:
        actual = run_session(session, inputs)
    except BackendError as error:
        raise LoweringError(f"the self-check of the ONNX model failed: {error}") from None
    laid = [np.asarray(array) for array in actual]
    problem = disagreement(expected, laid, module, coarse=coarse)
    if problem is not None:
        raise LoweringError(
            f"the self-check of the ONNX model failed: {problem}; the option self-check=false "
            "writes it nevertheless"
        )
