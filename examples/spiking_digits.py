"""Train a spiking transformer on handwritten digits, beside its twin without spikes.

Three networks learn scikit-learn's digits with `runtime.training`: a spiking perceptron, a
SpikeFormer (two blocks of spiking self-attention, 4 steps) trained with surrogate gradients, and a
vision transformer of the same shape with floats. Every fifth image is for the test, which training
never sees. Run: `python examples/spiking_digits.py [--seeds N]`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from digits import load_data
from rich.console import Console

from triton_dsl.runtime.models.vision_transformer import VisionTransformer
from triton_dsl.runtime.spiking.config import SpikingConfig
from triton_dsl.runtime.spiking.mlp import SpikingMLP
from triton_dsl.runtime.spiking.spikeformer import SpikeFormer
from triton_dsl.runtime.training.config import TrainingConfig
from triton_dsl.runtime.training.spiking_run import SpikingRun
from triton_dsl.runtime.training.trainer import Trainer
from triton_dsl.tools.console import table

SIZE, PATCH, CLASSES = (8, 8), 2, 10
STEPS = 4

Split = tuple[torch.Tensor, torch.Tensor]


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


def main() -> int:
    """Train all three for each seed; 0 when the SpikeFormer is within a point of its twin."""
    parser = argparse.ArgumentParser(description="Train spiking and other classifiers of digits.")
    parser.add_argument("--seeds", type=int, default=3)
    seeds: int = parser.parse_args().seeds
    # Small products are fastest in one thread.
    torch.set_num_threads(1)
    train, test = splits()
    means: dict[str, float] = {}
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
            parameters = sum(p.numel() for p in trainer.module.parameters())
        means[name] = statistics.mean(found)
        seconds = (time.monotonic() - started) / seeds
        each = "  ".join(f"{value:.2%}" for value in found)
        rows.append((name, parameters, f"{means[name]:.2%}", each, f"{seconds:.0f}"))
    console = Console(width=None if sys.stdout.isatty() else 120)
    columns = ["network", "parameters", "accuracy", f"of seeds 0 to {seeds - 1}", "seconds a seed"]
    console.print(table("digits, 360 test images", columns, rows))
    return 0 if means["SpikeFormer"] >= means["vision transformer"] - 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
