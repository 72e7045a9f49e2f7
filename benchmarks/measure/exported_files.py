"""What stands in an exported file, and its engine: ONNX in ONNX Runtime, TFLite in LiteRT."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .rounds import Run

Array = NDArray[Any]


class Contents(NamedTuple):
    """Of a file: how many operators transpose, and the names of its constants."""

    transposes: int
    constants: frozenset[str]


def contents(path: Path) -> Contents:
    """Of an `.onnx` or `.tflite` file."""
    return _of_onnx(path) if path.suffix == ".onnx" else _of_tflite(path)


def runner(path: Path, x: Array, threads: int) -> Run:
    """The file as a function without arguments that computes once, on the given input."""
    return _in_onnx_runtime(path, x, threads) if path.suffix == ".onnx" else _in_litert(
        path, x, threads
    )  # fmt: skip


def names_kept(keys: Iterable[str], constants: frozenset[str]) -> float:
    """The share of `keys` that stand in the name of some constant."""
    wanted = list(keys)
    kept = sum(1 for key in wanted if any(key in name for name in constants))
    return kept / len(wanted) if wanted else 1.0


def _of_onnx(path: Path) -> Contents:
    import onnx

    graph = onnx.load(str(path)).graph
    count = sum(1 for node in graph.node if node.op_type == "Transpose")
    return Contents(count, frozenset(value.name for value in graph.initializer))


def _of_tflite(path: Path) -> Contents:
    import ai_edge_litert.schema_py_generated as generated  # pyright: ignore[reportMissingImports]

    schema: Any = generated
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    graph = model.subgraphs[0]
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    kind = schema.BuiltinOperator.TRANSPOSE
    count = sum(1 for op in graph.operators if codes[op.opcodeIndex] == kind)
    buffers = model.buffers
    names = [
        (tensor.name or b"").decode()
        for tensor in graph.tensors
        if buffers[tensor.buffer].data is not None or buffers[tensor.buffer].offset
    ]
    return Contents(count, frozenset(names))


def _in_onnx_runtime(path: Path, x: Array, threads: int) -> Run:
    import onnxruntime as installed

    runtime: Any = installed
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    fed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, fed)[0]


def _in_litert(path: Path, x: Array, threads: int) -> Run:
    from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingImports]

    interpreter: Any = Interpreter(model_path=str(path), num_threads=threads)
    port = interpreter.get_input_details()[0]
    if x.ndim == 4 and tuple(port["shape"][1:]) != x.shape[1:]:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    if tuple(port["shape"]) != x.shape:
        interpreter.resize_tensor_input(port["index"], x.shape)
    interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]

    def run() -> Array:
        interpreter.set_tensor(port["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return run
