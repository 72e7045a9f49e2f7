"""Batch normalisation by the statistics of a whole batch whose rows are in several processes.

`nn.SyncBatchNorm` knows GPUs alone, and not `TemporalBatchNorm`. Here the function that all of them
call is replaced while a block runs; the modules stay as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..spiking.normalization import TemporalBatchNorm
from .distributed import Processes

_SIGNATURE = inspect.signature(functional.batch_norm)


def has_batch_norm(module: nn.Module) -> bool:
    """Whether statistics of a batch are part of `module`."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, TemporalBatchNorm)
    return any(isinstance(part, kinds) for part in module.modules())


class GlobalBatchNorm(TorchFunctionMode):
    """While active, `batch_norm` in training takes its statistics over the rows of all processes.

    All processes must call it equally often, in the same order, a process without rows too.
    Statistics are computed in float32 where rows are float16 or bfloat16.
    """

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self.processes = processes

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replaces `batch_norm`; all other functions run as they are."""
        if func is functional.batch_norm:
            bound = _SIGNATURE.bind(*args, **(kwargs or {}))
            bound.apply_defaults()
            if bound.arguments["training"]:
                return self._normalise(**bound.arguments)
        return func(*args, **(kwargs or {}))

    def _normalise(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        training: bool,
        momentum: float,
        eps: float,
    ) -> Tensor:
        x = input.to(torch.float32) if input.dtype in (torch.float16, torch.bfloat16) else input
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        rows = x.new_full((1,), x.numel() // max(1, x.shape[1]))
        # The mean first and deviations from it then: the difference of squares would cancel.
        sums = self._sum(torch.cat([x.sum(axes), rows]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean.reshape(shape)
        variance = self._sum((centred * centred).sum(axes)) / count
        with torch.no_grad():
            if running_mean is not None:
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            if running_var is not None:
                # Of a single value the variance is 0, and not 0/0.
                unbiased = variance * (count / (count - 1).clamp(min=1))
                running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        y = centred * (variance + eps).rsqrt().reshape(shape)
        if weight is not None:
            y = y * weight.reshape(shape)
        if bias is not None:
            y = y + bias.reshape(shape)
        return y.to(input.dtype)

    def _sum(self, values: Tensor) -> Tensor:
        differentiable: Any = _Sum
        return differentiable.apply(values, self.processes)


class _Sum(torch.autograd.Function):
    """The sum over processes; its gradient is the sum of all processes' gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, processes: Processes) -> Tensor:
        ctx.processes = processes
        return processes.sum(values.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        processes = cast(Processes, ctx.processes)
        return processes.sum(gradients[0].clone().contiguous()), None
