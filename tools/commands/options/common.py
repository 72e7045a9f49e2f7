"""What several commands take: programs, weights, inputs, engines."""

from pathlib import Path
from typing import Annotated

import typer

Program = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .tri program, a .nir, .net, .onnx, .tflite or .pt2 model, a .tpk package, a .mlir.",
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
Dt = Annotated[
    float | None,
    typer.Option("--dt", metavar="SECONDS", help="Seconds in a step, of a .nir graph."),
]
Rounding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Whose integers a .tflite file has: reference, xnnpack or once.",
        show_default="reference",
    ),
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
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="What PyTorch and ONNX Runtime run on: auto, cpu, cuda or rocm."
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The execution provider of ONNX Runtime.",
        show_default="that of --device",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random inputs.")]
LanguageModel = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A folder with config.json and .safetensors, or a .gguf file.",
        show_default=False,
    ),
]
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="A tokenizer.json.", show_default="that of the folder"
    ),
]
TextEngine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="TARGET",
        help="native, onnx, pytorch or interpreter, with options; or transformers.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The class of each sample: .npy. Without, those of the float program are right.",
    ),
]
