"""Train a spiking network to tell in which of four directions a bar moves before an event camera.

The events are generated: the front edge of the bar makes pixels brighter, the back edge darker, and
pixels fire by chance. Sensors are 16x16, recordings 100 ms long. Training draws other noise and
shifts in each epoch by the transforms of tonic. Run: `python examples/moving_bars.py [--seed N]`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from tonic import transforms
from torch import Tensor, nn

from triton_dsl.spiking import EventDataset, SpikingConfig, SpikingMLP
from triton_dsl.training import SpikingRun, Trainer, TrainingConfig

SIZE, STEPS, STEP = 16, 20, 5000
SENSOR = (SIZE, SIZE, 2)
DIRECTIONS = ("right", "left", "down", "up")
EVENT = np.dtype([("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", np.bool_)])


def recording(direction: int, rng: np.random.Generator) -> Any:
    """The events of a bar, two to four pixels wide, which crosses a part of the sensor."""
    start, length = int(rng.integers(0, 6)), int(rng.integers(8, 11))
    begin, width = int(rng.integers(0, 7)), int(rng.integers(2, 5))
    times = np.sort(rng.integers(0, STEPS * STEP, length))
    rows: list[tuple[int, int, int, bool]] = []
    for k, t in enumerate(times):
        for edge, brighter in ((start + k, True), (start + k - width, False)):
            along = edge if direction % 2 == 0 else SIZE - 1 - edge
            for across in range(begin, begin + 8):
                if 0 <= along < SIZE and rng.random() < 0.8:
                    x, y = (along, across) if direction < 2 else (across, along)
                    rows.append((x, y, int(t + rng.integers(0, 2000)), brighter))
    for x, y, t, p in zip(
        *rng.integers(0, SIZE, (2, 20)),
        rng.integers(0, STEPS * STEP, 20),
        rng.integers(0, 2, 20),
        strict=True,
    ):
        rows.append((int(x), int(y), int(t), bool(p)))
    return np.sort(np.array(rows, EVENT), order="t")


def recordings(count: int, seed: int) -> list[tuple[Any, int]]:
    """Events and directions, as many of each direction."""
    rng = np.random.default_rng(seed)
    return [(recording(k % 4, rng), k % 4) for k in range(count)]


class Network(nn.Module):
    """Pixels as rows, a hidden layer of current-based neurons, a membrane for each direction."""

    def __init__(self) -> None:
        super().__init__()
        config = SpikingConfig(STEPS, neuron_model="CubaLIF", surrogate_gradient="arctan")
        self.layers = SpikingMLP([2 * SIZE * SIZE, 128, 4], config, readout="membrane")

    def forward(self, train: Tensor, state: Any = None) -> Any:
        """Membranes [T, N, 4] and states, of trains [T, N, 2, rows, columns]."""
        return self.layers(train.flatten(2), state)


def accuracy(seed: int = 0, epochs: int = 12) -> float:
    """Of a network after training, on recordings that it has not seen."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    noise = transforms.Compose([
        transforms.DropEvent(p=0.1),
        transforms.SpatialJitter(SENSOR, var_x=0.3, var_y=0.3, clip_outliers=True),
    ])  # fmt: skip
    span: dict[str, Any] = {"sensor_size": SENSOR, "steps": STEPS, "dt": STEP, "start": 0}
    training = EventDataset(recordings(800, 2 * seed), transform=noise, **span)
    test = EventDataset(recordings(400, 2 * seed + 1), **span)
    settings = TrainingConfig(
        epochs=epochs, batch_size=32, learning_rate=3e-3, schedule="one_cycle", device="cpu",
        seed=seed, keep_best=False,
    )  # fmt: skip
    run = SpikingRun(encoding="recorded", decoding="mean")
    trainer = Trainer(Network(), settings, spiking=run)
    trainer.fit(training)
    return trainer.evaluate(test)["accuracy"]


def main() -> int:
    """Train and tell; 0 when nine of ten recordings are told right."""
    parser = argparse.ArgumentParser(description="Train a network on generated event data.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    share = accuracy(given.seed)
    print(f"{share:.1%} of 400 directions right, in {time.monotonic() - started:.0f} s")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    raise SystemExit(main())
