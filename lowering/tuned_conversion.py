"""A network of PyTorch that is trained on for few steps and converted, in one call.

Not here: conversion without labels (`conversion`), and the staircases that are trained
(`runtime.spiking.qcfs`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..dialects.parameters import Array
from ..ir.errors import OptionError
from ..passes.balance_thresholds import ThresholdCalibrator
from .conversion import convert_to_snn
from .models import import_model
from .targets import compile_to_target
from .to_pytorch.load import load_module

if TYPE_CHECKING:
    from torch import Tensor, nn


def spiking_module(network: nn.Module, samples: Tensor, timesteps: int = 4) -> nn.Module:
    """A network of PyTorch as a spiking module of PyTorch that learns, converted without labels.

    It takes what the network takes and gives what it gives, and its spikes have slopes for
    training (`to_pytorch`). `runtime.training.HybridTrainer` finds this by its entry point.

    Args:
        network: stays as it is.
        samples: inputs to calibrate with, [count, …].
        timesteps: T.

    Raises:
        UnsupportedError: the network cannot be imported or converted.
    """
    from torch import nn

    program = import_model(network, example_inputs=(samples[:2],))
    spiking = convert_to_snn(program, samples.numpy(), timesteps)
    module: nn.Module = load_module(compile_to_target(spiking, "pytorch"))
    # Weights that the conversion fitted are constants of the program.
    for layer in list(module.modules()):
        for name, value in list(layer.named_buffers(recurse=False)):
            if value.is_floating_point() and value.dim() > 1:
                delattr(layer, name)
                layer.register_parameter(name, nn.Parameter(value))
    return module


FIRST = 1024
"""The most samples from which thresholds begin."""


def fine_tune_to_snn(
    network: nn.Module,
    samples: Array,
    labels: Array,
    timesteps: int = 4,
    *,
    epochs: int = 2,
    rate: float = 3e-4,
    batch: int = 128,
    seed: int = 0,
    correct: str = "bias",
    **options: Any,
) -> ModuleOp:
    """A spiking program of a network whose ReLUs were trained as staircases of T levels.

    The network is copied, trained on with the thresholds of its neurons (Bu et al. 2022, "Optimal
    ANN-SNN conversion"), and converted with them. The same seed gives the same program.

    Args:
        network: with a `ReLU` or `ReLU6` of its own for each activation; it stays as it is.
        samples: inputs [count, …], f32.
        labels: the class of each sample, whole numbers [count].
        timesteps: T.
        epochs: how often the samples are gone through.
        rate: of Adam, which falls to 0.
        batch: samples of a step of training.
        seed: of their order.
        correct: as for `convert_to_snn`; fitted weights would undo some of the training.
        options: others of `convert_to_snn`.

    Raises:
        OptionError: labels that do not fit, a ReLU that runs several times, or no ReLU.
        TritonError: see `convert_to_snn`.
    """
    import torch

    from ..runtime.spiking.qcfs import (
        fine_tune,
        replace_relus,
        replace_staircases,
        trained_thresholds,
    )

    if labels.dtype.kind not in "iu" or labels.shape != samples.shape[:1]:
        raise OptionError(
            f"expected {len(samples)} labels as whole numbers, got {labels.dtype}{[*labels.shape]}"
        )
    tuned = copy.deepcopy(network)
    x, y = (
        torch.from_numpy(np.ascontiguousarray(samples)),
        torch.from_numpy(labels.astype(np.int64)),
    )
    order = np.random.default_rng(seed)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for chosen in np.array_split(order.permutation(len(x)), -(-len(x) // batch)):
            yield x[chosen], y[chosen]

    few = np.ascontiguousarray(samples[:FIRST])
    calibrator = ThresholdCalibrator(timesteps=timesteps)
    begin = calibrator.calibrate(import_model(tuned.eval(), example_inputs=x[:2]), [(few,)])
    activations = replace_relus(tuned, x[:FIRST], levels=timesteps)
    for activation, threshold in zip(activations, begin, strict=True):
        activation.threshold.data.fill_(float(threshold))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fine_tune(tuned, batches, epochs=epochs, rate=rate)
    thresholds = trained_thresholds(activations)
    replace_staircases(tuned)
    program = import_model(tuned, example_inputs=x[:2])
    calibrator.annotate(program, thresholds)
    return convert_to_snn(program, samples, timesteps, correct=correct, **options)
