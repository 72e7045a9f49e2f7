"""Small convolutional networks that are trained here, and the images that they are trained on.

Nothing here needs the package, so that converters of other environments read the same networks.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .networks import network as shipped
from .scenes import scenes
from .shapes import shapes

if TYPE_CHECKING:
    from torch import Tensor, nn

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

SETS = ("mnist", "shapes", "scenes")

NETWORKS = ("pools", "deep", "residual", "resnet8")

BATCH = 100
RATE = 4e-3
EPOCHS = {"mnist": 2, "shapes": 4, "scenes": 10}

DRAWN = {"shapes": (shapes, 40_000), "scenes": (scenes, 25_000)}
"""Sets that are drawn, and how many images there are to train on."""


class Set(NamedTuple):
    """Images [N, channels, height, width] from 0 to 1 and their classes, to train and to test."""

    train: Images
    train_labels: Labels
    test: Images
    test_labels: Labels


def images_of(name: str, folder: Path, cache: Path) -> Set:
    """A set of images.

    Args:
        name: one of `SETS`.
        folder: of the idx files of MNIST.
        cache: where drawn images are kept.
    """
    if name == "mnist":
        train, train_labels, test, test_labels = (
            _idx(folder / f"{part}-ubyte.gz")
            for part in (
                *("train-images-idx3", "train-labels-idx1"),
                *("t10k-images-idx3", "t10k-labels-idx1"),
            )
        )
        return Set(
            _pixels(train),
            train_labels.astype(np.int64),
            _pixels(test),
            test_labels.astype(np.int64),
        )
    path = cache / f"{name}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draw, count = DRAWN[name]
        np.savez(path, *draw(count, 0), *draw(10_000, 1))
    with np.load(path) as kept:
        return Set(*(kept[f"arr_{index}"] for index in range(4)))


def _pixels(images: NDArray[np.uint8]) -> Images:
    """Bytes [N, 28, 28] as numbers from 0 to 1."""
    return images[:, None].astype(np.float32) / np.float32(255)


def _idx(path: Path) -> NDArray[np.uint8]:
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, ">u4", content[3], 4).astype(int)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def network(name: str) -> nn.Module:
    """One of `NETWORKS` with new weights; for images [N, 1, 28, 28], `resnet8` for scenes."""
    from torch import nn

    def conv(inputs: int, outputs: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [layer, nn.BatchNorm2d(outputs)]

    def pool() -> nn.Module:
        return nn.AvgPool2d(2)

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *conv(channels, channels), nn.ReLU(), *conv(channels, channels)
            )
            self.end = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.end(self.body(x) + x)

    if name == "resnet8":
        return shipped(name).train()
    if name == "pools":
        return nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), pool()),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), pool()),
            *(nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
    if name == "deep":
        return nn.Sequential(
            *(*conv(1, 16), nn.ReLU(), pool()),
            *(*conv(16, 24), nn.ReLU(), *conv(24, 24), nn.ReLU(), pool()),
            *(*conv(24, 48), nn.ReLU(), nn.AvgPool2d(7), nn.Flatten(), nn.Linear(48, 10)),
        )
    return nn.Sequential(
        *(*conv(1, 16), nn.ReLU(), pool(), Block(16)),
        *(*conv(16, 32), nn.ReLU(), pool(), Block(32)),
        *(nn.AvgPool2d(7), nn.Flatten(), nn.Linear(32, 10)),
    )


def trained(name: str, images: Set, of: str, seed: int, cache: Path) -> nn.Module:
    """A network trained on a set with a seed, in evaluation mode; from the cache if it is there."""
    import torch

    torch.manual_seed(seed)
    module = network(name)
    path = cache / f"{name}-{of}-{seed}.pt"
    if path.exists():
        module.load_state_dict(torch.load(path, weights_only=True))
        return module.eval()
    x, y = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    epochs = EPOCHS[of]
    optimiser = torch.optim.AdamW(module.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, epochs=epochs, steps_per_epoch=len(x) // BATCH
    )
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(BATCH)[: len(x) // BATCH]:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[chosen]), y[chosen]).backward()
            optimiser.step()
            schedule.step()
    cache.mkdir(parents=True, exist_ok=True)
    torch.save(module.state_dict(), path)
    return module.eval()


def calibration(images: Set, seed: int, count: int = 2000) -> Images:
    """Training images that a converter may look at, without their classes."""
    order = np.random.default_rng(seed).permutation(len(images.train))
    return images.train[np.sort(order[:count])]
