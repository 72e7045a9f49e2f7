"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Program = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .tri program, a .nir graph, an .onnx or .tflite model, or IR in a .mlir file.",
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", "-w", metavar="FILE", help="Weights: .safetensors, .npz, .pt or .pth."
    ),
]
RandomWeights = Annotated[
    bool,
    typer.Option("--random-weights", help="Give parameters without values seeded random ones."),
]
Layer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Entry layer. By default the last one in the file."),
]
Passes = Annotated[
    str,
    typer.Option(
        "--passes", "-p", metavar="PIPELINE", help="Passes to run first, such as 'fuse-linear'."
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        "-i",
        metavar="FILE",
        help="Inputs: .npz, .safetensors or .npy; recorded spikes.",
    ),
]
Samples = Annotated[int, typer.Option(min=1, max=1_000_000, help="Batch size of random inputs.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random inputs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
