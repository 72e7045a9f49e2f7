"""`triton run`: a program on inputs, in the interpreter or a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...ir.errors import OptionError
from .options import Inputs, Json, Layer, Passes, Program, RandomWeights, Samples, Seed, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from ...ir.safe_write import PendingFiles
    from ...runtime.spiking.activity import Activity


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
    raster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the spikes of one sample: .png, .svg or .pdf."),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the membrane potentials of one sample."),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw histograms of the firing rates of each layer."),
    ] = None,
    accuracy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the accuracy against timesteps; with --labels."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The class of each sample, for --accuracy: .npy."),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="The sample that --raster and --traces draw.")
    ] = 0,
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16,
    samples: Samples = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run a program on inputs from a file, or on random ones.

    A spiking program in the interpreter also tells its spikes, firing rates and additions.

    Example: triton run model.tri -w model.safetensors -i digits.npz --engine onnx
    """
    from ...ir.safe_write import PendingFiles
    from ...lowering.models import import_model
    from ..console import print_json, progress, show, table
    from ..inputs import prepare
    from .spiking import Pictures, draw, facts, tables

    pictures = Pictures(raster, traces, rates, accuracy, labels, sample)
    pictures.check(engine, output)
    _keep_sources(output, file, inputs, weights, labels)
    with progress() as bar, PendingFiles() as pending:
        bar.add_task(f"Running {file}", total=None)
        module = import_model(file, weights=weights, layer=layer)
        module, arrays = prepare(
            module,
            passes=passes,
            inputs=inputs,
            samples=samples,
            seed=seed,
            fill=random_weights,
            timesteps=timesteps,
        )
        name, outputs, activity = _run(module, engine, arrays, traces is not None)
        shares = None
        if pictures.paths():
            assert activity is not None
            shares = draw(pictures, pending, module, arrays, activity)
        if output is not None:
            _save(pending, output, outputs)
    has_spikes = activity is not None and bool(activity.layers or activity.synapses)
    if json:
        report: dict[str, Any] = {
            "engine": name,
            "outputs": [
                {"shape": list(o.shape), "dtype": str(o.dtype), "values": o.tolist()}
                for o in outputs
            ],
        }
        if activity is not None and has_spikes:
            report["spiking"] = facts(activity)
        if shares is not None:
            report["accuracy"] = shares
        print_json(report)
        return
    rows = [
        (f"output {i}", "x".join(map(str, o.shape)) or "scalar", str(o.dtype), _range(o))
        for i, o in enumerate(outputs)
    ]
    show(table(f"{file} on {name}", ["output", "shape", "dtype", "minimum … maximum"], rows))
    for value in outputs:
        print(value)
    if activity is not None and has_spikes:
        show(*tables(activity))
    if shares is not None:
        print(f"accuracy after {len(shares)} steps: {shares[-1]:.4f}")


def _run(
    module: ModuleOp, engine: str, arrays: Sequence[Any], potentials: bool
) -> tuple[str, list[Any], Activity | None]:
    if engine == "interpreter":
        from ...runtime.spiking.activity import record
        from .spiking import lowered

        activity = record(lowered(module), arrays, potentials=potentials)
        return "the reference interpreter", list(activity.outputs), activity
    from ...lowering.engine import run_target

    name, outputs, _ = run_target(module, engine, arrays)
    return name, outputs, None


def _range(array: Any) -> str:
    return f"{array.min():.4g} … {array.max():.4g}" if array.size else "empty"


def _save(pending: PendingFiles, path: Path, outputs: Sequence[Any]) -> None:
    import io

    import numpy as np

    names = ["output"] if len(outputs) == 1 else [f"output{i}" for i in range(len(outputs))]
    buffer = io.BytesIO()
    np.savez(buffer, **dict(zip(names, outputs, strict=True)))
    path.parent.mkdir(parents=True, exist_ok=True)
    pending.add(path, buffer.getvalue())


def _keep_sources(output: Path | None, *sources: Path | None) -> None:
    if output is not None and any(
        s is not None and s.resolve() == output.resolve() for s in sources
    ):
        raise OptionError(f"'{output}' is read by this run; choose another output with -o")
