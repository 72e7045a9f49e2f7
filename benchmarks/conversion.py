"""Conversion of trained float networks to spiking ones, beside other converters.

    python benchmarks/conversion.py --models FOLDER --data FOLDER [--networks mnist_mlp,mnist_cnn]
        [--timesteps 1,2,4,8,16] [--calibration 2000] [--images 10000] [--seeds 0] [--json]

FOLDER of the models holds `mnist_mlp.safetensors` (Flatten, Linear 784-256, ReLU, Linear 256-10)
and `mnist_cnn.safetensors` (Conv 1-16 3x3, ReLU, AvgPool 2, Conv 16-32 3x3, ReLU, AvgPool 2,
Flatten, Linear 1568-128, ReLU, Linear 128-10), with the names of `torch.nn.Sequential`; FOLDER of
the data holds MNIST as idx files. Calibration looks at training images alone, without their labels,
and nothing is trained. Accuracy is over the first `--images` test images; spikes are those of
hidden neurons, a test image; ours are means over draws of the calibration images. Ours runs on the
reference interpreter. SpikingJelly and Sinabs join when they are installed (`pip install
spikingjelly sinabs`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from measure.converters import installed_converters
from numpy.typing import NDArray
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from triton_dsl.dialects import tensor
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.store import ParameterStore, read_arrays
from triton_dsl.lowering.conversion import convert_to_snn, run_spiking

Arrays = Mapping[str, NDArray[np.float32]]

LAYERS: dict[str, tuple[str, ...]] = {
    "mnist_mlp": ("flatten", "linear", "relu", "linear"),
    "mnist_cnn": (
        *("conv", "relu", "pool", "conv", "relu", "pool"),
        *("flatten", "linear", "relu", "linear"),
    ),
}
"""The layers of each network, in the order of its `torch.nn.Sequential`."""

SIGNED_STEPS = range(2, 9)
"""The T at which signed spikes are measured too."""


@dataclass(frozen=True)
class Figure:
    """One row: a converter on a network at one T.

    Attributes:
        network: the name of the network.
        converter: who converted.
        timesteps: T; 0 for the float network.
        accuracy: in percent.
        spikes: of hidden neurons, a test image.
        seconds: to convert and calibrate.
    """

    network: str
    converter: str
    timesteps: int
    accuracy: float
    spikes: float
    seconds: float


def program(layers: Sequence[str], arrays: Arrays) -> ModuleOp:
    """The float program of a sequential network on images [N, 1, 28, 28]."""
    block = Block(arg_types=[TensorType(f32, [DYNAMIC, 1, 28, 28])])
    store: dict[str, NDArray[np.float32]] = {}

    def parameter(key: str, values: NDArray[np.float32]) -> tensor.ParameterOp:
        store[key] = np.ascontiguousarray(values)
        return tensor.ParameterOp(key, TensorType(f32, values.shape))

    value: SSAValue = block.args[0]
    with ImplicitBuilder(block):
        for index, layer in enumerate(layers):
            weight, bias = f"{index}.weight", f"{index}.bias"
            if layer == "flatten":
                value = tensor.FlattenOp(value).result
            elif layer == "relu":
                value = tensor.ReluOp(value).result
            elif layer == "pool":
                value = tensor.AvgPoolOp(value, [2, 2]).result
            elif layer == "linear":
                w, b = parameter(weight, arrays[weight].T), parameter(bias, arrays[bias])
                value = tensor.LinearOp(value, w, b).result
            else:
                w, b = parameter(weight, arrays[weight]), parameter(bias, arrays[bias])
                value = tensor.ConvOp(value, w, b, padding=[1, 1, 1, 1]).result
        ReturnOp(value)
    entry = FuncOp("forward", ([block.args[0].type], [value.type]), Region(block))
    module = ModuleOp([entry])
    attach_store(module, ParameterStore.of(store))
    return module


def torch_module(layers: Sequence[str], arrays: Arrays) -> Any:
    """The same network as a `torch.nn.Sequential`."""
    import torch
    from torch import nn

    made: list[nn.Module] = []
    for index, layer in enumerate(layers):
        shape = arrays[key].shape if (key := f"{index}.weight") in arrays else (0, 0, 0)
        match layer:
            case "flatten":
                made.append(nn.Flatten())
            case "relu":
                made.append(nn.ReLU())
            case "pool":
                made.append(nn.AvgPool2d(2))
            case "linear":
                made.append(nn.Linear(shape[1], shape[0]))
            case _:
                made.append(nn.Conv2d(shape[1], shape[0], shape[2], padding=1))
    module = nn.Sequential(*made)
    module.load_state_dict({key: torch.tensor(values) for key, values in arrays.items()})
    return module.eval()


def idx(path: Path) -> NDArray[np.uint8]:
    """The array of a gzipped idx file of bytes."""
    data = gzip.decompress(path.read_bytes())
    rank = data[3]
    shape = np.frombuffer(data, ">u4", rank, 4).astype(int)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def images(folder: Path, name: str) -> NDArray[np.float32]:
    """Images [N, 1, 28, 28] from 0 to 1."""
    return (idx(folder / f"{name}-images-idx3-ubyte.gz")[:, None] / np.float32(255)).astype(
        np.float32
    )


def measure(options: argparse.Namespace, name: str) -> Iterator[Figure]:
    """All rows of one network."""
    arrays: Arrays = read_arrays(Path(options.models) / f"{name}.safetensors")
    folder = Path(options.data)
    test = images(folder, "t10k")[: options.images]
    labels = idx(folder / "t10k-labels-idx1-ubyte.gz")[: options.images]
    training = images(folder, "train")
    draws = [
        training[
            np.sort(np.random.default_rng(seed).permutation(len(training))[: options.calibration])
        ]
        for seed in options.seeds
    ]
    float_program = program(LAYERS[name], arrays)
    (scores,) = run_spiking(float_program, [test]).results
    yield Figure(name, "float", 0, 100 * float(np.mean(scores.argmax(1) == labels)), 0.0, 0.0)
    for timesteps in options.timesteps:
        for signed in (False, True) if timesteps in SIGNED_STEPS else (False,):
            figures: list[tuple[float, float, float]] = []
            for calibration in draws:
                started = perf_counter()
                spiking = convert_to_snn(float_program, calibration, timesteps, signed=signed)
                seconds = perf_counter() - started
                run = run_spiking(spiking, [test])
                accuracy = 100 * float(np.mean(run.results[0].argmax(1) == labels))
                figures.append((accuracy, float(run.total.mean()), seconds))
            accuracy, spikes, seconds = (float(mean) for mean in np.mean(figures, axis=0))
            ours = "ours, signed" if signed else "ours"
            yield Figure(name, ours, timesteps, accuracy, spikes, seconds)
    if options.ours:
        return
    started = perf_counter()
    for converter, peer in installed_converters(torch_module(LAYERS[name], arrays), draws[0]):
        seconds = perf_counter() - started
        for timesteps in options.timesteps:
            found, spikes = peer(test, timesteps)
            accuracy = 100 * float(np.mean(found == labels))
            yield Figure(name, converter, timesteps, accuracy, spikes, seconds)
        started = perf_counter()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", required=True, help="folder of the float networks")
    parser.add_argument("--data", required=True, help="folder of MNIST")
    parser.add_argument("--networks", default=",".join(LAYERS))
    parser.add_argument("--timesteps", default="1,2,4,8,16")
    parser.add_argument("--calibration", type=int, default=2000)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--seeds", default="0", help="draws of the training images that calibrate")
    parser.add_argument("--ours", action="store_true", help="leave out other converters")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    options.timesteps = [int(part) for part in options.timesteps.split(",")]
    options.seeds = [int(part) for part in options.seeds.split(",")]
    rows: list[Figure] = []
    for name in options.networks.split(","):
        for row in measure(options, name):
            rows.append(row)
            if not options.json:
                steps = f"T={row.timesteps}" if row.timesteps else ""
                print(
                    f"{row.network:10s} {row.converter:32s} {steps:5s} {row.accuracy:6.2f} %"
                    f" {row.spikes:9.1f} spikes {row.seconds:6.1f} s",
                    flush=True,
                )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
