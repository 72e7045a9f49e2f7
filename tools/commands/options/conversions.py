"""Options of commands that make another network of one, or say what it takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .common import Json, Labels, Layer, OverTime, Program, Weights, option


# fmt: off
@dataclass(frozen=True)
class Convert:
    """Convert a trained float program to spiking ones, and show what their accuracy costs.

    Nothing is trained and no label is needed. The table has the conversions that no other one beats
    in accuracy, steps and spikes, measured on the last fourth of the samples, which calibrate
    nothing. The chosen one is written: the most accurate, the nearest to the float program within a
    budget of spikes, or the one of an accuracy with the fewest spikes.

    Example: triton convert model.onnx --samples train.npy --budget 2000 -o spiking.mlir
    """

    file: Program
    samples: Annotated[Path, option("FILE",
        "Sample inputs: .npz, .safetensors or .npy; the first axis counts them.", "--samples", "-s",
        show_default=False)]
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    timesteps: Annotated[str, option("T,…", "The numbers of steps to try.")] = "1,2,4"
    price: Annotated[str | None, option("P,…",
        "The prices of spikes to try, as shares of the information in the result.")] = None
    budget: Annotated[float | None, option("SPIKES", "The most spikes a sample.")] = None
    accuracy: Annotated[float | None, option("SHARE", "The least accuracy, from 0 to 1.")] = None
    target: Annotated[str | None, option("TARGET", "Use what this target holds, such as nir.",
        "--target", "-t")] = None
    output: Annotated[Path | None, option("FILE", "Write the chosen program: .mlir.", "--output",
        "-o")] = None
    picture: Annotated[Path | None, option("FILE",
        "Draw accuracy against spikes: .png, .svg or .pdf.")] = None
    json: Json = False


@dataclass(frozen=True)
class Quantize:
    """Give a trained float program integers and few bits, layer by layer, without training.

    Weights of all layers get the bits that are asked for, activations 8. Where that loses too much
    on the last fourth of the samples, which calibrate nothing, the layers that lose most for what
    they save keep more bits. The table tells what each layer alone costs, and what it got.

    Example: triton quantize model.onnx --calibration train.npy --bits ternary -o integer.mlir
    """

    file: Program
    calibration: Annotated[Path, option("FILE",
        "Sample inputs: .npz, .safetensors or .npy; the first axis counts them.", "--calibration",
        "-s", show_default=False)]
    bits: Annotated[str, option("BITS", "Of weights: int8, int4 or ternary.")] = "int8"
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    drop: Annotated[float, option("POINTS", "The most accuracy to lose, in percent.")] = 1.0
    budget: Annotated[float | None, option("BITS",
        "The most bits of a weight on average, not a drop.")] = None
    keep: Annotated[list[str] | None, option("KEY",
        "A weight whose layer keeps more bits; repeatable.")] = None
    observer: Annotated[str, option("NAME",
        "How ranges follow from samples, as for calibrate.")] = "minmax"
    measure: Annotated[str | None, option("NAME", "What judges: classes, of the "
        "first result; or signal: how much of the variance of all results is kept (R²).",
        show_default="classes where there are two or more scores a sample, else signal")] = None
    output: Annotated[Path | None, option("FILE", "Write the program: .mlir.", "--output",
        "-o")] = None
    json: Json = False


@dataclass(frozen=True)
class Energy(OverTime):
    """Estimate what a spiking program takes on neuromorphic machines, and beside them.

    The program runs in the interpreter, for Loihi 2 and SpiNNaker as the files have it that are
    compiled for them; its spikes, synapses and the way of each message between cores are counted,
    times what they cost. Where sources differ both ends are told.

    Example: triton energy spiking.mlir -i digits.npz -d loihi2 -d spinnaker1
    """

    device: Annotated[list[str] | None, option("MACHINE",
        "A machine or the path of its .toml file; repeat for several.", "--device", "-d",
        show_default="Loihi 2, SpiNNaker 1 and 2, FPGA, CPU and GPU")] = None
    picture: Annotated[Path | None, option("FILE", "Draw it: .png, .svg or .pdf.")] = None
    core_map: Annotated[Path | None, option("FILE", "Draw the cores of the first machine.")] = None
    traffic: Annotated[Path | None, option("FILE", "Draw the spikes between them.")] = None
    timeline: Annotated[Path | None, option("FILE", "Draw the spikes of each step.")] = None
    json: Json = False
