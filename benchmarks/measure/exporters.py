"""Exporters of PyTorch modules, each run as a program in the environment that has it.

    python exporters.py EXPORTER NETWORK FOLDER ROUNDS

exports the network `ROUNDS` times into `FOLDER` and prints JSON, in seconds of processor time,
children included: `imports` for `import torch` and a small network, whose export loads what the
exporter, PyTorch and the engine load late; then `seconds` of each round, the first of which finds
the caches of this network empty; and `file`; or `error`. An exporter is told the sample that its
manual asks for; the batch is free where it can be.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a program in an environment without the package
    sys.path.insert(0, str(Path(__file__).parents[1]))

from measure.networks import example, network, small_network


def _ours(target: str) -> Callable[[Any, Any, Path], None]:
    def export(module: Any, x: Any, path: Path) -> None:
        from triton_dsl.lowering.compile_model import compile_model

        compile_model(module, target, example_inputs=x).save(path)

    return export


def _dynamo(module: Any, x: Any, path: Path) -> None:
    import torch

    shapes = ({0: torch.export.Dim("batch")},)
    options: Any = {"dynamo": True, "dynamic_shapes": shapes, "verbose": False}
    # An example batch of one would be taken for a constant.
    torch.onnx.export(module, (torch.cat([x, x]),), path, external_data=False, **options)


def _legacy(module: Any, x: Any, path: Path) -> None:
    import torch

    axes = {"x": {0: "batch"}}
    torch.onnx.export(module, (x,), path, dynamo=False, input_names=["x"], dynamic_axes=axes)


def _litert_torch(module: Any, x: Any, path: Path) -> None:
    import litert_torch  # pyright: ignore[reportMissingImports]

    litert: Any = litert_torch
    litert.convert(module, (x,)).export(str(path))


def _onnx2tf(_module: Any, _x: Any, path: Path) -> None:
    import onnx2tf  # pyright: ignore[reportMissingImports]

    tool: Any = onnx2tf
    given = path.with_suffix(".given.onnx")
    folder = path.with_suffix("")
    tool.convert(input_onnx_file_path=str(given), output_folder_path=str(folder), non_verbose=True)
    next(folder.glob("*_float32.tflite")).replace(path)


EXPORTERS: dict[str, tuple[str, tuple[str, ...], Callable[[Any, Any, Path], None]]] = {
    "ours onnx": ("onnx", ("triton_dsl", "onnx"), _ours("onnx")),
    "torch.onnx": ("onnx", ("onnxscript",), _dynamo),
    "torch.onnx legacy": ("onnx", ("onnx",), _legacy),
    "ours tflite": ("tflite", ("triton_dsl", "flatbuffers"), _ours("tflite")),
    "litert-torch": ("tflite", ("litert_torch",), _litert_torch),
    "onnx2tf": ("tflite", ("onnx2tf",), _onnx2tf),
}
"""By name: what it writes, the libraries it needs, and how it is called."""


def file_name(exporter: str, name: str) -> str:
    """The file that an exporter writes."""
    return f"{name} {exporter}".replace(" ", "_") + f".{EXPORTERS[exporter][0]}"


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _exported(exporter: str, name: str, folder: Path, rounds: int) -> dict[str, Any]:
    start = _processor_seconds()
    import torch

    torch.set_num_threads(1)
    _, _, export = EXPORTERS[exporter]
    path = folder / file_name(exporter, name)
    given = path.with_suffix(".given.onnx")
    if exporter == "onnx2tf":
        _legacy(*small_network(), given)
    export(*small_network(), path)
    imports = _processor_seconds() - start
    module, x = network(name), example(name, 1)
    if exporter == "onnx2tf":
        _legacy(module, x, given)
    seconds: list[float] = []
    for _ in range(rounds):
        start = _processor_seconds()
        export(module, x, path)
        seconds.append(_processor_seconds() - start)
    return {"file": str(path), "imports": imports, "seconds": seconds}


def main(exporter: str, name: str, folder: str, rounds: str) -> None:
    """Export and print what became of it, and nothing else."""
    warnings.simplefilter("ignore")
    with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stdout(nothing):
        try:
            found = _exported(exporter, name, Path(folder), int(rounds))
        except Exception as error:  # whatever a tool raises is a result of the benchmark
            text = str(error).strip().splitlines()
            found = {"error": f"{type(error).__name__}: {text[0] if text else ''}"[:200]}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
