"""Networks for MNIST that the benchmarks of circuits train, and their integer programs.

Not here: how large and how fast the circuits are (`benchmarks/fpga.py`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits

Array = NDArray[Any]

INK = 128
"""Pixels of at least so much are 1."""

SHIFTS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""How images are moved while training, in pixels; most stay where they are."""


@dataclass(frozen=True)
class Digits:
    """MNIST: images uint8 [N, 28, 28] and labels int64 [N]."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


def read_digits(folder: Path) -> Digits:
    """The four idx files of a folder."""
    parts = [
        _idx(folder / f"{name}.gz")
        for name in (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
    ]
    return Digits(parts[0], parts[1].astype(np.int64), parts[2], parts[3].astype(np.int64))


def _idx(path: Path) -> Array:
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape.tolist())


def bits(images: Array) -> Array:
    """Images as single bits: uint8 [N, 784]."""
    return (images.reshape(len(images), -1) >= INK).astype(np.uint8)


@dataclass(frozen=True)
class Recipe:
    """A network of look-up tables and its training.

    Attributes:
        hidden: neurons.
        fan_in: pixels of a neuron; six, and it is one look-up table.
        votes: neurons that count for or against a class.
        epochs: of training.
        rate: the greatest learning rate.
        seed: of weights, order and shifts.
    """

    hidden: int = 800
    fan_in: int = 6
    votes: int = 70
    epochs: int = 20
    rate: float = 0.01
    seed: int = 0

    def votes_at(self, epoch: int) -> int:
        """All neurons vote at first, so that all of them learn; from 60 % of the epochs on, few."""
        way = min(1.0, epoch / (0.6 * self.epochs))
        return round(self.hidden * (self.votes / self.hidden) ** way)

    def fan_in_at(self, epoch: int) -> int:
        """Four times the fan-in at first, in the same way."""
        return round(self.fan_in * 4 ** (1 - min(1.0, epoch / (0.6 * self.epochs))))


@dataclass(frozen=True)
class Votes:
    """A trained network on bits: class k has Σ output[:, k] · [bits · hidden ≥ threshold] + bias.

    Attributes:
        hidden: trits [784, H].
        thresholds: integers [H].
        output: trits [H, 10].
        bias: integers [10].
    """

    hidden: Array
    thresholds: Array
    output: Array
    bias: Array

    def classes(self, x: Array) -> Array:
        """By NumPy, of bits [N, 784]; sums so small are exact in float32."""
        fires = x.astype(np.float32) @ self.hidden.astype(np.float32) >= self.thresholds
        votes = fires.astype(np.float32) @ self.output.astype(np.float32)
        return (votes + self.bias).argmax(1)

    def program(self) -> ModuleOp:
        """The integer program, from bits as `ui8` [N, 784] to classes."""
        pixels, hidden = self.hidden.shape
        module = parse_module(_PROGRAM.format(k=pixels, h=hidden, c=len(self.bias)))
        arrays = {
            "hidden.weight": pack_trits(self.hidden.astype(np.int8)),
            "hidden.thresholds": self.thresholds.astype(np.int32)[:, None],
            "output.weight": pack_trits(self.output.astype(np.int8)),
            "output.bias": self.bias.astype(np.int32),
        }
        attach_store(module, ParameterStore.of(arrays))
        return module


_PROGRAM = """builtin.module @digits {{
func.func @forward(%x: tensor<?x{k}xui8>) -> tensor<?xi64> {{
  %w1 = ternary.parameter "hidden.weight" : tensor<{k}x{h}x!ternary.trit>
  %t1 = tensor.parameter "hidden.thresholds" : tensor<{h}x1xi32>
  %w2 = ternary.parameter "output.weight" : tensor<{h}x{c}x!ternary.trit>
  %b2 = tensor.parameter "output.bias" : tensor<{c}xi32>
  %s = ternary.matmul %x, %w1
     : tensor<?x{k}xui8>, tensor<{k}x{h}x!ternary.trit> -> tensor<?x{h}xi32>
  %f = tensor.multi_threshold %s, %t1 : (tensor<?x{h}xi32>, tensor<{h}x1xi32>) -> tensor<?x{h}xi8>
  %v = ternary.matmul %f, %w2
     : tensor<?x{h}xi8>, tensor<{h}x{c}x!ternary.trit> -> tensor<?x{c}xi32>
  %p = tensor.add %v, %b2 : (tensor<?x{c}xi32>, tensor<{c}xi32>) -> tensor<?x{c}xi32>
  %y = tensor.argmax %p : (tensor<?x{c}xi32>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}}
}}"""


def train_votes(data: Digits, recipe: Recipe, each: Callable[[int], None]) -> Votes:
    """Train a network of look-up tables in PyTorch, on one thread.

    Neurons are ternary with a fixed fan-in, normalised, and 1 from 0 upward (surrogate gradient
    arctan). Normalisation and step become one integer threshold; neurons that no class asks are
    left out. The fan-in falls while training: a neuron that nothing asks would not learn.

    Args:
        data: the training images; those of the test are not looked at.
        recipe: sizes and schedule.
        each: called with the number of each epoch that is over.
    """
    import torch
    from torch import nn

    from triton_dsl.runtime.layers import TernaryLinear
    from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)
    images = torch.from_numpy(bits(data.train_images)).view(-1, 28, 28)
    labels = torch.from_numpy(data.train_labels)
    inked = images.flatten(1).float().mean(0) > 0.002
    moved = torch.stack([torch.roll(images, s, (1, 2)).flatten(1)[:, inked] for s in SHIFTS])
    fire, zero = SurrogateGradient("arctan", 1.0), torch.zeros(())
    hidden = TernaryLinear(
        int(inked.sum()), recipe.hidden, False, scale="none", fan_in=recipe.fan_in
    )
    norm = nn.BatchNorm1d(recipe.hidden)
    output = TernaryLinear(recipe.hidden, 10, False, scale="none", fan_in=recipe.votes)
    for layer in (hidden, output):
        nn.init.normal_(layer.weight, std=0.1)
    bias, gain = nn.Parameter(torch.zeros(10)), nn.Parameter(torch.ones(()))
    trained = [*hidden.parameters(), *norm.parameters(), *output.parameters(), gain]
    groups = [{"params": trained}, {"params": [bias]}]
    rates = [recipe.rate, 3 * recipe.rate]
    optimizer = torch.optim.Adam(groups, lr=recipe.rate, foreach=True)
    batch = 256
    steps = recipe.epochs * (len(labels) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps)
    for epoch in range(recipe.epochs):
        hidden.fan_in, output.fan_in = recipe.fan_in_at(epoch), recipe.votes_at(epoch)
        scale = output.fan_in**-0.5
        order = torch.randperm(len(labels))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start : start + batch]
            shift = torch.randint(1, len(SHIFTS), (batch,)) * (torch.rand(batch) < 0.5)
            with torch.autocast("cpu", torch.bfloat16):
                sums = hidden(moved[shift, chosen].to(torch.bfloat16)).float()
                votes = output(fire(norm(sums), zero)).float()
            whole = bias + (bias.round() - bias).detach()
            loss = nn.functional.cross_entropy((votes + whole) * (gain * scale), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        each(epoch)
    trits = np.zeros((784, recipe.hidden), np.int8)
    trits[inked.numpy()] = hidden.get_ternary_weights().T.numpy()
    slope, shift_, mean, variance = (
        value.detach().double().numpy()
        for value in (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        if value is not None
    )
    direction = np.where(slope < 0, -1, 1)
    least = direction * (mean - shift_ * np.sqrt(variance + norm.eps) / slope)
    votes = output.get_ternary_weights().T.numpy().astype(np.int8)
    voting = votes.any(axis=1)
    return Votes(
        (trits * direction.astype(np.int8))[:, voting],
        np.clip(np.ceil(least), -recipe.fan_in, recipe.fan_in + 1).astype(np.int32)[voting],
        votes[voting],
        bias.detach().round().numpy().astype(np.int32),
    )
