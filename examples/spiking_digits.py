"""Train a spiking transformer on handwritten digits, beside its twin without spikes.

Three networks learn scikit-learn's digits with `runtime.training`: a spiking perceptron, a
SpikeFormer (two blocks of spiking self-attention, 4 steps) trained with surrogate gradients, and a
vision transformer of the same shape with floats. Every fifth image is for the test, which training
never sees. The first SpikeFormer is then compiled to ONNX and compared in ONNX Runtime. Run:
`python examples/spiking_digits.py [--seeds N] [OUTPUT FOLDER]`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
from classification import table, write
from digits import load_data
from rich.console import Console
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import UnsupportedError, from_torch
from triton_dsl.runtime import VisionTransformer, run_onnx
from triton_dsl.spiking import SpikeFormer, SpikingConfig, SpikingMLP, decode, encode
from triton_dsl.targets import Stage, compile_to_target, run_stages
from triton_dsl.training import SpikingRun, Trainer, TrainingConfig

SIZE, PATCH, CLASSES = (8, 8), 2, 10
STEPS = 4

Split = tuple[Tensor, Tensor]


def settings(epochs: int, rate: float, seed: int) -> TrainingConfig:
    """AdamW with a one-cycle learning rate; the last epoch's weights are kept."""
    return TrainingConfig(
        epochs=epochs,
        batch_size=64,
        drop_last=True,
        learning_rate=rate,
        weight_decay=0.01,
        schedule="one_cycle",
        label_smoothing=0.05,
        keep_best=False,
        device="cpu",
        seed=seed,
    )


def perceptron(seed: int) -> Trainer:
    """A spiking 64-128-10 perceptron; pixels are currents, classes the mean potentials."""
    config = SpikingConfig(STEPS, spike_encoding="direct", surrogate_gradient="arctan")
    network = SpikingMLP([64, 128, 10], config, readout="membrane")
    return Trainer(network, settings(30, 1e-2, seed), spiking=SpikingRun.of(config, "mean"))


def spikeformer(seed: int, epochs: int = 12) -> Trainer:
    """Two blocks of four heads and 64 channels on 16 patches of 2x2 pixels."""
    network = SpikeFormer(SIZE, PATCH, CLASSES)
    run = SpikingRun(STEPS, "direct", "mean")
    return Trainer(network, settings(epochs, 1e-2, seed), spiking=run)


def twin(seed: int, epochs: int = 40) -> Trainer:
    """The same shape with softmax, layer normalisation and ReLU."""
    return Trainer(VisionTransformer(SIZE, PATCH, CLASSES), settings(epochs, 2e-3, seed))


NETWORKS = {
    "spiking perceptron": perceptron,
    "SpikeFormer": spikeformer,
    "vision transformer": twin,
}


def splits() -> tuple[Split, Split]:
    """Images [N, 1, 8, 8] and labels for training and for the test."""
    data = load_data()
    return (
        (torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)),
        (torch.from_numpy(data.test_images), torch.from_numpy(data.test_labels)),
    )


def rows_of_pixels(split: Split) -> Split:
    """Images as rows, for perceptrons."""
    return split[0].flatten(1), split[1]


class Classifier(nn.Module):
    """A SpikeFormer from still images [N, 1, 8, 8] to logits [N, classes]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Each image is the current of all steps; logits are the means over them."""
        trace, _ = self.network(encode(images, "direct", STEPS))
        return decode(trace, "membrane", "mean")


class Compared(NamedTuple):
    """A network in ONNX Runtime beside PyTorch.

    Attributes:
        bytes: of the ONNX file.
        difference: the largest one of two logits.
        agreement: the share of images with the same class.
    """

    bytes: int
    difference: float
    agreement: float


def compile_network(network: nn.Module, images: Tensor) -> ModuleOp:
    """The trained network as IR of the dialect `spike`, simplified."""
    module = from_torch(Classifier(network).eval(), images[:2])
    run_stages(module, [Stage("simplify", "canonicalize,cse,dce")])
    return module


def compare(network: nn.Module, module: ModuleOp, images: Tensor, path: Path) -> Compared:
    """Write `module` as ONNX and run it on `images`, beside the network that it came from."""
    size = write(module, "onnx", path)
    (found,) = run_onnx(path, [images.numpy()])
    with torch.no_grad():
        expected = Classifier(network).eval()(images).numpy()
    agreement = float((found.argmax(1) == expected.argmax(1)).mean())
    return Compared(size, float(abs(found - expected).max()), agreement)


def refusal_of_nir(module: ModuleOp) -> str:
    """Why the attention of `module` has no place in a NIR file; empty when it has one."""
    try:
        compile_to_target(module.clone(), "nir")
    except UnsupportedError as error:
        reasons = [reason for name, _, reason in error.problems if name == "spike.attention"]
        return f"spike.attention, {len(reasons)} times: {reasons[0]}" if reasons else str(error)
    return ""


def main() -> int:
    """Train and compile; 0 when the SpikeFormer is within a point of its twin and engines agree."""
    parser = argparse.ArgumentParser(description="Train spiking and other classifiers of digits.")
    parser.add_argument("folder", nargs="?", default="build/spiking_digits",
                        help="where files are written")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="how often each network is trained")
    given = parser.parse_args()
    seeds: int = given.seeds
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Small products are fastest in one thread.
    torch.set_num_threads(1)
    train, test = splits()
    means: dict[str, float] = {}
    first: nn.Module | None = None
    rows: list[tuple[object, ...]] = []
    for name, make in NETWORKS.items():
        is_flat = make is perceptron
        started, found, parameters = time.monotonic(), list[float](), 0
        for seed in range(seeds):
            torch.manual_seed(seed)
            trainer = make(seed)
            trainer.fit(rows_of_pixels(train) if is_flat else train)
            measured = trainer.evaluate(rows_of_pixels(test) if is_flat else test)
            found.append(measured["accuracy"])
            if make is spikeformer and first is None:
                first = trainer.module
            parameters = sum(p.numel() for p in trainer.module.parameters())
        means[name] = statistics.mean(found)
        seconds = (time.monotonic() - started) / seeds
        each = "  ".join(f"{value:.2%}" for value in found)
        rows.append((name, parameters, f"{means[name]:.2%}", each, f"{seconds:.0f}"))
    console = Console(width=None if sys.stdout.isatty() else 120)
    columns = ["network", "parameters", "accuracy", f"of seeds 0 to {seeds - 1}", "seconds a seed"]
    console.print(table("digits, 360 test images", columns, rows))
    assert first is not None
    module = compile_network(first, test[0])
    result = compare(first, module, test[0], folder / "spikeformer.onnx")
    console.print(
        f"SpikeFormer in ONNX Runtime: {result.agreement:.2%} of the classes of PyTorch, logits "
        f"within {result.difference:.1e}, {result.bytes:,} bytes in {folder.resolve()}"
    )
    console.print(f"NIR refuses {refusal_of_nir(module)}")
    agrees = result.agreement >= 0.99
    return 0 if agrees and means["SpikeFormer"] >= means["vision transformer"] - 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
