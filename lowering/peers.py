"""Other engines on the same network, on one thread, for whoever compares times with ours.

A model that came as an ONNX or TFLite file runs as it came; else what our targets make of it runs.
Not here: whether results agree (`tools.verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..ir.arrays import Array
from ..ir.errors import TritonError, first_line
from .engine import engine_of
from .targets import compile_to_target

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdsl.dialects.builtin import ModuleOp

_LEAST_ROUNDS = 3


def peer_times(
    module: ModuleOp, inputs: Sequence[Array], source: Path | None = None, seconds: float = 1.0
) -> dict[str, float | str]:
    """The shortest call of each engine that is installed in seconds, or why there is none.

    Args:
        module: the network.
        inputs: in order.
        source: the file that it came from.
        seconds: how long to measure each.
    """
    found: dict[str, float | str] = {}
    for name, (library, run) in _PEERS.items():
        if find_spec(library) is None:
            continue
        try:
            with run(module, inputs, source) as call:
                found[name] = _shortest(call, seconds)
        except TritonError as error:
            found[name] = first_line(error)
        except (RuntimeError, ValueError, TypeError) as error:  # of the engine
            found[name] = f"{name} refuses it: {first_line(error)}"
    return found


def _shortest(call: Callable[[], object], seconds: float) -> float:
    call()
    start, shortest, rounds = perf_counter(), float("inf"), 0
    while rounds < _LEAST_ROUNDS or perf_counter() - start < seconds:
        before = perf_counter()
        call()
        shortest, rounds = min(shortest, perf_counter() - before), rounds + 1
    return shortest


def _file(module: ModuleOp, target: str, source: Path | None) -> bytes:
    if source is not None and source.suffix == f".{target}":
        return source.read_bytes()
    artifact = compile_to_target(module, target, {"self_check": False})
    assert artifact.primary is not None
    return artifact.files[artifact.primary]


@contextmanager
def _onnxruntime(
    module: ModuleOp, inputs: Sequence[Array], source: Path | None
) -> Generator[Callable[[], object]]:
    from ..runtime.engines import open_session, run_session

    one = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    session = open_session(_file(module, "onnx", source), configure=one)
    run_session(session, inputs)  # tells what it refuses
    fed = {port.name: x for port, x in zip(session.get_inputs(), inputs, strict=True)}
    yield lambda: session.run(None, fed)


@contextmanager
def _litert(
    module: ModuleOp, inputs: Sequence[Array], source: Path | None
) -> Generator[Callable[[], object]]:
    from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
        Interpreter,
    )

    interpreter: Any = Interpreter(model_content=_file(module, "tflite", source), num_threads=1)
    ports = interpreter.get_input_details()
    for port, x in zip(ports, inputs, strict=True):
        if tuple(port["shape"]) != x.shape:
            interpreter.resize_tensor_input(port["index"], x.shape)
    interpreter.allocate_tensors()
    for port, x in zip(ports, inputs, strict=True):
        interpreter.set_tensor(port["index"], x)
    yield interpreter.invoke


@contextmanager
def _torch(
    module: ModuleOp, inputs: Sequence[Array], source: Path | None
) -> Generator[Callable[[], object]]:
    del source
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        engine = engine_of(module, "pytorch")
        yield lambda: engine.run(inputs)
    finally:
        torch.set_num_threads(threads)


_PEERS = {
    "ONNX Runtime": ("onnxruntime", _onnxruntime),
    "LiteRT": ("ai_edge_litert", _litert),
    "PyTorch": ("torch", _torch),
}
"""By name: what has to be installed, and what runs a network."""
