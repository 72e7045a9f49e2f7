"""`triton run`: a program on inputs, in the interpreter or a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Inputs, Json, Layer, Passes, Program, RandomWeights, Samples, Seed, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(
    file: Program,
    inputs: Inputs = None,
    weights: Weights = None,
    random_weights: RandomWeights = False,
    layer: Layer = None,
    passes: Passes = "",
    engine: Annotated[
        str,
        typer.Option(metavar="NAME", help="'interpreter', or a target such as onnx or native."),
    ] = "interpreter",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the outputs as .npz."),
    ] = None,
    samples: Samples = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run a program on inputs from a file, or on random ones.

    Example: triton run model.tri -w model.safetensors -i digits.npz --engine onnx
    """
    from ..console import print_json, progress, show, table
    from ..inputs import load_module, prepare

    with progress() as bar:
        bar.add_task(f"Running {file}", total=None)
        module = load_module(file, weights=weights, layer=layer)
        module, arrays = prepare(
            module,
            passes=passes,
            inputs=inputs,
            samples=samples,
            seed=seed,
            fill=random_weights,
        )
        name, outputs = _run(module, engine, arrays)
    if output is not None:
        _save(output, outputs)
    if json:
        print_json({
            "engine": name,
            "outputs": [
                {"shape": list(o.shape), "dtype": str(o.dtype), "values": o.tolist()}
                for o in outputs
            ],
        })  # fmt: skip
        return
    rows = [
        (f"output {i}", "x".join(map(str, o.shape)) or "scalar", str(o.dtype), _range(o))
        for i, o in enumerate(outputs)
    ]
    show(table(f"{file} on {name}", ["output", "shape", "dtype", "minimum … maximum"], rows))
    for value in outputs:
        print(value)


def _run(module: Any, engine: str, arrays: Sequence[Any]) -> tuple[str, list[Any]]:
    if engine == "interpreter":
        from ...dialects.interpret import run_module

        return "the reference interpreter", list(run_module(module, arrays))
    from ..verify import run_target

    name, outputs, _ = run_target(module, engine, arrays)
    return name, outputs


def _range(array: Any) -> str:
    return f"{array.min():.4g} … {array.max():.4g}" if array.size else "empty"


def _save(path: Path, outputs: Sequence[Any]) -> None:
    import io

    import numpy as np

    from ...lowering.artifact import Artifact, write_artifact

    names = ["output"] if len(outputs) == 1 else [f"output{i}" for i in range(len(outputs))]
    buffer = io.BytesIO()
    np.savez(buffer, **dict(zip(names, outputs, strict=True)))
    write_artifact(Artifact(path.stem, {path.name: buffer.getvalue()}), path)
