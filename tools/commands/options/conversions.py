"""Options of commands that make another network of one, or say what it takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .common import (
    Dt,
    Inputs,
    Json,
    Labels,
    Layer,
    Passes,
    Program,
    RandomWeights,
    Samples,
    Seed,
    Weights,
)


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
    samples: Annotated[
        Path,
        typer.Option(
            "--samples",
            "-s",
            metavar="FILE",
            help="Sample inputs: .npz, .safetensors or .npy; the first axis counts them.",
            show_default=False,
        ),
    ]
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    timesteps: Annotated[str, typer.Option(metavar="T,…", help="The numbers of steps to try.")] = (
        "1,2,4"
    )
    price: Annotated[
        str | None,
        typer.Option(
            metavar="P,…",
            help="The prices of spikes to try, as shares of the information in the result.",
        ),
    ] = None
    budget: Annotated[
        float | None, typer.Option(metavar="SPIKES", help="The most spikes a sample.")
    ] = None
    accuracy: Annotated[
        float | None, typer.Option(metavar="SHARE", help="The least accuracy, from 0 to 1.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Use what this target holds, such as nir."
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the chosen program: .mlir."),
    ] = None
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw accuracy against spikes: .png, .svg or .pdf."),
    ] = None
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
    calibration: Annotated[
        Path,
        typer.Option(
            "--calibration",
            "-s",
            metavar="FILE",
            help="Sample inputs: .npz, .safetensors or .npy; the first axis counts them.",
            show_default=False,
        ),
    ]
    bits: Annotated[
        str, typer.Option(metavar="BITS", help="Of weights: int8, int4 or ternary.")
    ] = "int8"
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    drop: Annotated[
        float, typer.Option(metavar="POINTS", help="The most accuracy to lose, in percent.")
    ] = 1.0
    budget: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="The most bits of a weight on average, not a drop."),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A weight whose layer keeps more bits; repeatable."),
    ] = None
    observer: Annotated[
        str,
        typer.Option(metavar="NAME", help="How ranges follow from samples, as for calibrate."),
    ] = "minmax"
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the program: .mlir."),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Energy:
    """Estimate what a spiking program takes on neuromorphic machines, and beside them.

    The program runs in the interpreter, for Loihi 2 and SpiNNaker as the files have it that are
    compiled for them; its spikes, synapses and the way of each message between cores are counted,
    times what they cost. Where sources differ both ends are told.

    Example: triton energy spiking.mlir -i digits.npz -d loihi2 -d spinnaker1
    """

    file: Program
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            "-d",
            metavar="MACHINE",
            help="A machine or the path of its .toml file; repeat for several.",
            show_default="Loihi 2, SpiNNaker 1 and 2, FPGA, CPU and GPU",
        ),
    ] = None
    inputs: Inputs = None
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16
    samples: Samples = 1
    seed: Seed = 0
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")
    ] = None
    core_map: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the cores of the first machine.")
    ] = None
    traffic: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the spikes between them.")
    ] = None
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the spikes of each step.")
    ] = None
    json: Json = False
