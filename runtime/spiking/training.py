"""Training through time in less memory: a network run in chunks of time, recomputed backward.

Backpropagation through time keeps what every step computed. Here only the states between chunks are
kept; what a chunk computed is computed again when its gradient is taken (Chen et al. 2016,
"Training deep nets with sublinear memory cost"; Gruslys et al. 2016). With chunks of about √T steps
memory grows like √T, and the work of the forward pass is done twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import checkpoint as checkpointing

from ...ir.errors import OptionError, check_choice, refuse
from .normalization import TemporalBatchNorm

REDUCTIONS = ("stack", "sum", "mean", "last")

_TENSOR = object()

_OVER_STEPS = (
    TemporalBatchNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
)


def run_in_chunks(
    network: Callable[[Tensor, Any], tuple[Tensor, Any]],
    inputs: Tensor | Callable[[int, int], Tensor],
    timesteps: int | None = None,
    *,
    state: Any = None,
    chunk: int | None = None,
    reduce: str = "stack",
    checkpoint: bool = True,
) -> tuple[Tensor, Any]:
    """What `network` gives on `inputs`, run in chunks of time; its states after the last step.

    Gradients are those of one run over all steps, up to the rounding of sums. What is stacked, and
    inputs given as a tensor, take memory in proportion to T all the same: give a function and
    another `reduce` where that matters.

    Args:
        network: `network(x, state)` is the outputs and the states after them; `None` is its own
            first state. A module of this package, or a function. The same arguments must give the
            same result; PyTorch's own random numbers are repeated.
        inputs: [T, …], or a function `inputs(start, steps)` that gives steps `start` to
            `start + steps` of it, the same each time, such as `encode` with `start` does.
        timesteps: T, where `inputs` is a function.
        state: the states before the first step, tensors in tuples and lists.
        chunk: steps a chunk, by default ⌈√T⌉.
        reduce: `stack` gives [T, …]; `sum`, `mean` and `last` give one value over time.
        checkpoint: recompute in the backward pass; without it the chunks are only run in turn.

    Raises:
        OptionError: a value that is not allowed, or batch normalisation in training, whose
            statistics are over all steps: call `eval()` on it first.
    """
    total = _timesteps(inputs, timesteps)
    size = math.isqrt(total - 1) + 1 if chunk is None else chunk
    refuse(size < 1, f"chunk: expected at least 1 step, got {size}")
    check_choice("reduce", reduce, REDUCTIONS)
    _check_network(network)

    def run(start: int, part: Tensor | None, shape: Any, *values: Tensor) -> tuple[Tensor, Any]:
        steps = min(size, total - start)
        x = inputs(start, steps) if part is None and callable(inputs) else part
        assert isinstance(x, Tensor)
        output, state = network(x, _with_tensors(shape, iter(values)))
        if reduce == "last":
            output = output[-1]
        return (output if reduce in ("stack", "last") else output.sum(0)), state

    library: Any = checkpointing
    outputs: list[Tensor] = []
    for start in range(0, total, size):
        part = inputs[start : start + size] if isinstance(inputs, Tensor) else None
        # Tensors that are arguments themselves are seen by autograd's hooks, inside of others not.
        arguments = (start, part, _with_tensors(state, None), *_tensors(state))
        if checkpoint and torch.is_grad_enabled():
            output, state = library.checkpoint(run, *arguments, use_reentrant=False)
        else:
            output, state = run(*arguments)
        # Only what is asked for is kept.
        if reduce == "stack" or not outputs:
            outputs.append(output)
        else:
            outputs[0] = output if reduce == "last" else outputs[0] + output
    if reduce == "stack":
        return torch.cat(outputs), state
    return (outputs[0] / total if reduce == "mean" else outputs[0]), state


def _tensors(state: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples and lists, in order."""
    if isinstance(state, Tensor):
        yield state
    elif type(state) in (tuple, list):
        for part in state:
            yield from _tensors(part)


def _with_tensors(state: Any, values: Iterator[Tensor] | None) -> Any:
    """`state` with the next of `values` in the place of each tensor or its mark; else marks."""
    if isinstance(state, Tensor) or state is _TENSOR:
        return _TENSOR if values is None else next(values)
    if type(state) in (tuple, list):
        return type(state)(_with_tensors(part, values) for part in state)
    return state


def _timesteps(inputs: Tensor | Callable[[int, int], Tensor], timesteps: int | None) -> int:
    if isinstance(inputs, Tensor):
        if timesteps is not None:
            raise OptionError("timesteps belongs to inputs that are a function")
        timesteps = inputs.shape[0] if inputs.dim() else 0
    if timesteps is None or timesteps < 1:
        raise OptionError(f"timesteps: expected at least 1, got {timesteps}")
    return timesteps


def _check_network(network: object) -> None:
    if not isinstance(network, nn.Module):
        return
    for name, module in cast(Any, network).named_modules():
        if isinstance(module, _OVER_STEPS) and module.training:
            raise OptionError(
                f"'{name}' normalises by statistics over all steps, which chunks do not see; "
                "call eval() on it, or run without chunks"
            )
