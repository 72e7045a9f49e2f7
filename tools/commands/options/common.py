"""What several commands take: programs, weights, inputs, engines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    """An option with a value: what stands for that in the help, and what it is."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def flag(name: str, text: str, *names: str, **more: Any) -> Any:
    """An option that is given or not."""
    return typer.Option(name, *names, help=text, **more)


def number(text: str, least: float, most: float | None = None, *names: str, **more: Any) -> Any:
    """An option with a number from `least` to `most`."""
    return typer.Option(*names, min=least, max=most, metavar="N", help=text, **more)


# fmt: off
Program = Annotated[Path, typer.Argument(metavar="FILE",
    help="A .tri program, a .nir, .net, .onnx, .tflite or .pt2 model, a .tpk package, IR as .mlir.",
    show_default=False)]
Weights = Annotated[Path | None, option("FILE", "Weights: .safetensors, .npz, .pt or .pth.",
    "--weights", "-w")]
RandomWeights = Annotated[bool, flag("--random-weights",
    "Give parameters without values seeded random ones.")]
Layer = Annotated[str | None, option("NAME", "Entry layer. By default the last one in the file.")]
Dt = Annotated[float | None, option("SECONDS", "Seconds in a step, of a .nir graph.", "--dt")]
Rounding = Annotated[str | None, option("NAME",
    "Whose integers a .tflite file has: reference, xnnpack or once.", show_default="reference")]
Passes = Annotated[str, option("PIPELINE", "Passes to run first, such as 'fuse-linear'.",
    "--passes", "-p")]
Inputs = Annotated[Path | None, option("FILE",
    "Inputs: .npz, .safetensors or .npy; recorded spikes.", "--inputs", "-i")]
Samples = Annotated[int, number("Batch size of random inputs.", 1, 1_000_000)]
Device = Annotated[str, option("NAME",
    "What PyTorch and ONNX Runtime run on: auto, cpu, cuda or rocm.")]
Provider = Annotated[str | None, option("NAME", "The execution provider of ONNX Runtime.",
    show_default="that of --device")]
Seed = Annotated[int, number("Seed of random inputs.", 0)]
LanguageModel = Annotated[Path, typer.Argument(metavar="MODEL",
    help="A folder with config.json and .safetensors, or a .gguf file.", show_default=False)]
TokenizerFile = Annotated[Path | None, option("FILE", "A tokenizer.json.", "--tokenizer",
    show_default="that of the model")]
TextEngine = Annotated[str, option("TARGET",
    "native, onnx, pytorch or interpreter, with options; or transformers.", "--engine")]
Json = Annotated[bool, flag("--json", "Print JSON instead of tables.")]
Labels = Annotated[Path | None, option("FILE",
    "The class of each sample: .npy. Without, those of the float program are right.")]
Timesteps = Annotated[int, number(
    "Steps of random inputs with time first, where the program leaves them open.", 1, 1_000_000)]


@dataclass(frozen=True)
class OfProgram:
    """Options of commands that take a program and may change it first."""

    file: Program
    weights: Weights = None
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""


@dataclass(frozen=True)
class OnInputs(OfProgram):
    """Options of commands that run it."""

    random_weights: RandomWeights = False
    inputs: Inputs = None
    samples: Samples = 1
    seed: Seed = 0


@dataclass(frozen=True)
class OverTime(OnInputs):
    """Options of commands that run it so many steps."""

    timesteps: Timesteps = 16
