"""Train a classifier written in `.tri`, deploy it, and prove that every engine agrees.

What `digits.py` and `mnist.py` share. Training needs PyTorch, deployment ONNX Runtime too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress, TaskID
from rich.table import Table
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import import_model
from triton_dsl.targets import Stage, compile_to_target, load_module, run_stages, write_artifact

Array = NDArray[Any]

DEPLOY = "fold-constants,fuse-linear,fold-constants,canonicalize,cse,dce"
"""Latents to trits, normalisation into the products, what is then constant folded."""


@dataclass(frozen=True)
class Data:
    """Images `float32[N, 1, H, W]` in [0, 1] and labels `int64[N]`, split for training and test."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


@dataclass(frozen=True)
class Schedule:
    """How to train: AdamW with a one-cycle learning rate, straight-through gradients."""

    epochs: int
    batch: int = 64
    rate: float = 2e-2
    seed: int = 0
    shift: int = 0
    """Images are moved by up to this many pixels while training."""
    threads: int = 1
    """Of PyTorch; small networks are fastest with one."""


def train(
    source: Path, layer: str, data: Data, schedule: Schedule, progress: Progress
) -> dict[str, Array]:
    """Train one layer of a `.tri` file; its `state_dict`, ternary weights as float latents."""
    torch.manual_seed(schedule.seed)
    torch.set_num_threads(schedule.threads)
    program = import_model(source, layer=layer, trainable=True)
    module = load_module(compile_to_target(program, "pytorch"))
    initialise(module)
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    steps = schedule.epochs * (len(images) // schedule.batch)
    optimizer = torch.optim.AdamW(module.parameters(), lr=schedule.rate, weight_decay=1e-4)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.rate, total_steps=steps)
    generator = torch.Generator().manual_seed(schedule.seed)
    task: TaskID = progress.add_task(f"Training {layer}", total=steps)
    module.train()
    for _ in range(schedule.epochs):
        order = torch.randperm(len(images), generator=generator)
        for start in range(0, len(order) - schedule.batch + 1, schedule.batch):
            chosen = order[start : start + schedule.batch]
            batch = shifted(images[chosen], schedule.shift, generator)
            loss = nn.functional.cross_entropy(module(batch), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            rates.step()
            progress.advance(task)
    module.eval()
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}


def initialise(module: nn.Module) -> None:
    """Kaiming initialisation of matrices, ones and zeros for normalisation vectors."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            fan_in = parameter.shape[0] if parameter.ndim == 2 else parameter[0].numel()
            nn.init.normal_(parameter, std=(2 / fan_in) ** 0.5)
        else:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
    for name, buffer in module.named_buffers():
        buffer.fill_(1.0 if name.endswith("running_var") else 0.0)


def shifted(images: torch.Tensor, pixels: int, generator: torch.Generator) -> torch.Tensor:
    """The batch moved by one random offset of up to `pixels`, filled with black."""
    if not pixels:
        return images
    dy, dx = torch.randint(-pixels, pixels + 1, (2,), generator=generator).tolist()
    padded = nn.functional.pad(images, [pixels] * 4)
    height, width = images.shape[-2:]
    return padded[..., pixels + dy :, pixels + dx :][..., :height, :width]


def deploy(source: Path, layer: str, state: Mapping[str, Array]) -> ModuleOp:
    """The trained layer as IR with packed trits, normalisation folded into the products."""
    module = import_model(source, layer=layer, weights=state, trainable=True)
    run_stages(module, [Stage("deploy", DEPLOY)])
    return module


def quantize(module: ModuleOp, images: Array, folder: Path) -> ModuleOp:
    """An integer-only version of a deployed module, calibrated on `images`."""
    calibration = folder / "calibration.npz"
    np.savez(calibration, image=images)
    quantized = module.clone()
    passes = f'quantize-activations{{data="{calibration}"}},requantize,fold-constants,dce'
    run_stages(quantized, [Stage("quantize", passes)])
    return quantized


def write(module: ModuleOp, target: str, path: Path) -> int:
    """Compile to a target and write it; the number of bytes written."""
    paths = write_artifact(compile_to_target(module, target), path)
    return sum(p.stat().st_size for p in paths)


def accuracy(logits: Array, labels: Array) -> float:
    """The share of rows whose largest logit is at the label."""
    return float((logits.argmax(axis=1) == labels).mean())


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose first column names the row; the others stand at the right."""
    made = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        made.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    return made
