"""Integer models that come in and leave: bytes, times and results, beside the file that came.

A TFLite file runs in LiteRT and as our ONNX in ONNX Runtime, in each of `FORMS`; an ONNX file comes
back as ONNX. Both become native objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.table import Table

from triton_dsl import compile_model
from triton_dsl.ir.errors import TritonError

from .exported_files import Array, runner
from .rounds import Contender, take_turns

HEADS = ("file, B", "ONNX, B", "of file", "time there, µs", "as ONNX, µs", "ratio",
         "largest difference", "object, B", "of file")  # fmt: skip


FORMS: dict[str, dict[str, Any]] = {
    "reference": {},
    "xnnpack": {"rounding": "xnnpack"},
}
"""Of a TFLite file: arguments of `compile_model` for ONNX."""


def integer_table(paths: Sequence[Path], threads: int, turns: int) -> Table:
    """A row a file and form: sizes, times of the fastest round, how far results are apart."""
    table = Table(title="Integer models that come in and leave", title_justify="left")
    table.add_column("file")
    table.add_column("form")
    for head in HEADS:
        table.add_column(head, justify="right")
    for path in paths:
        forms = FORMS if path.suffix == ".tflite" else {"": {}}
        for form, arguments in forms.items():
            table.add_row(path.name, form, *_row(path, arguments, threads, turns))
    return table


def _row(path: Path, arguments: dict[str, Any], threads: int, turns: int) -> list[str]:
    size, x = path.stat().st_size, sample_of(path)
    with TemporaryDirectory() as folder:
        file, code = Path(folder, "model.onnx"), Path(folder, "model.o")
        try:
            compile_model(path, "onnx", **arguments).save(file)
        except TritonError as error:
            return [str(size), str(error).splitlines()[0]]
        before, after = (runner(p, x, threads) for p in (path, file))
        difference = np.abs(before().astype(np.float64) - after()).max()
        runs = [
            Contender(name, run, run, threads=threads)
            for name, run in (("before", before), ("after", after))
        ]
        take_turns(runs, turns)
        fastest = [min(run.seconds) * 1e6 for run in runs]
        cells = [str(size), str(file.stat().st_size), f"{file.stat().st_size / size:.2f}"]
        cells += [f"{time:.0f}" for time in fastest]
        cells += [f"{fastest[1] / fastest[0]:.2f}", f"{difference:.3g}"]
        rounding = arguments.get("rounding")
        try:
            compile_model(path, backend="native", rounding=rounding).save(code)
        except TritonError as error:
            return [*cells, str(error).splitlines()[0]]
        return [*cells, str(code.stat().st_size), f"{code.stat().st_size / size:.2f}"]


def sample_of(path: Path) -> Array:
    """One sample for the first input, of all integers or of floats around 0."""
    if path.suffix == ".onnx":
        import onnxruntime as installed

        runtime: Any = installed
        port = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        given = port.get_inputs()[0]
        shape = [size if isinstance(size, int) else 1 for size in given.shape]
        names = {"float": "float32", "double": "float64"}
        name = given.type.removeprefix("tensor(").removesuffix(")")
        dtype: np.dtype[Any] = np.dtype(names.get(name, name))
    else:
        from ai_edge_litert.interpreter import (  # pyright: ignore[reportMissingImports]
            Interpreter,
        )

        interpreter: Any = Interpreter(model_path=str(path))
        port = interpreter.get_input_details()[0]
        shape, dtype = [*port["shape"]], np.dtype(port["dtype"])
    random = np.random.default_rng(0)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype.name)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)
