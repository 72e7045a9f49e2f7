"""PyTorch modules with ternary weights in one call, without training.

The pass that it runs is `ternarize{method=gptq}`, see docs/quantization.md.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ..ir.errors import OptionError
from ..ir.interpreter import entry_function
from ..passes.calibration.observation import Batch, loaded
from ..passes.ternarize.compensated_layers import RoundedWeights
from ..passes.ternarize.ternarize import TernarizePass
from .from_torch.importer import from_torch


def ternarize_module(
    module: nn.Module,
    loader: Iterable[Batch],
    *,
    options: TernarizePass | None = None,
    progress: bool = True,
) -> nn.Module:
    """A copy of a module, in evaluation mode, whose products have weights -s, 0 and +s.

    Trits, scales and biases are chosen layer after layer on the samples of `loader`, so that the
    module still gives what it gave; labels are not needed. `from_torch` reads the weights of the
    copy as trits, so that all targets take them. To train on, copy them into `TernaryLinear` and
    `TernaryConv2d`, which find the same trits and scales in them.

    Args:
        module: with products in `nn.Linear` and convolutions; it stays as it is.
        loader: batches of inputs, as for `passes.quantize_activations.calibrate.calibrate`: a
            `torch.utils.data.DataLoader`, for example. All samples are kept at once.
        options: which layers to leave out, and how hard to look; its `method` is not read.
        progress: show a bar on stderr when it is a terminal.

    Raises:
        OptionError: there are no samples; a weight is no `nn.Linear`'s or convolution's, or a layer
            whose bias is to be corrected is used several times.
        UnsupportedError: an operator of the module has no form in the IR.
        PassError: samples lead to infinite values or NaN.
        BackendError: PyTorch is missing.
    """
    batches = list(loader)
    if not batches:
        raise OptionError("ternarize_module needs at least one batch of samples")
    copied = copy.deepcopy(module).eval()
    program = from_torch(copied, _inputs(copied, batches[0]), recognize_ternary=False)
    chosen = options or TernarizePass()
    samples = loaded(entry_function(program, chosen.function), batches)
    compensated = chosen.compensate(program, samples, progress=progress)
    keys = [key for key, _ in compensated]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice and chosen.correct_bias:
        raise OptionError(
            f"the layers of {', '.join(twice)} are used several times, with one bias: "
            "give TernarizePass(correct_bias=False), or ternarize the program of from_torch"
        )
    for key, weights in compensated:
        _store(copied, key, weights)
    return copied


def _inputs(module: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
    """The first batch as example inputs: labels behind them are left out."""
    import inspect

    if not isinstance(batch, tuple | list):
        return (torch.as_tensor(batch),)
    parts = cast("Sequence[ArrayLike]", batch)
    wanted = inspect.signature(module.forward).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(p.kind in positional and p.default is p.empty for p in wanted)
    return tuple(torch.as_tensor(part) for part in parts[: max(needed, 1)])


def _store(module: nn.Module, key: str, weights: RoundedWeights) -> None:
    """Put a ternary weight into the layer that has the parameter `key`."""
    path, _, name = key.rpartition(".")
    owner = module.get_submodule(path)
    convolution = isinstance(owner, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    if name != "weight" or not (convolution or isinstance(owner, nn.Linear)):
        raise OptionError(
            f"'{key}' is the weight of no nn.Linear and no convolution: leave it out with "
            f"TernarizePass(skip=('{key}',)), or ternarize the program of from_torch"
        )
    trits = weights.levels if convolution else weights.levels.T
    scale = weights.scale.reshape(-1, *[1] * (trits.ndim - 1))
    weight = owner.weight
    with torch.no_grad():
        weight.copy_(torch.as_tensor(np.ascontiguousarray(trits * scale)))
        if weights.bias is not None:
            bias = torch.as_tensor(np.array(weights.bias)).to(weight)
            owner.bias = nn.Parameter(bias, requires_grad=weight.requires_grad)
