"""`TemporalBatchNorm`: batch normalisation with statistics over batch and time, tdBN or plain."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...ir.errors import OptionError, check_choice
from .recording import is_recorded, record_batch_norm
from .steps import wide_type

KINDS = ("shared", "tdbn")


class TemporalBatchNorm(nn.Module):
    """y = f·(x - mean)/√(var + ε)·weight + bias a channel, statistics over all other axes.

    `tdbn`: f = α·θ, threshold-dependent (Zheng et al. 2021, "Going deeper with directly-trained
    larger spiking neural networks", eq. 9-11), so that currents stand right to the threshold;
    `shared`: f = 1. In training, mean and variance are those of the batch, and running ones are
    kept as `nn.BatchNorm1d` keeps them; else the running ones are taken, in the order of operations
    of `spike.batch_norm`. The state dictionary is that of `nn.BatchNorm1d`. float16 and bfloat16
    compute in float32.

    Args:
        channels: the number of channels.
        kind: `tdbn` or `shared`.
        alpha: α of `tdbn`.
        threshold: θ of `tdbn`.
        axis: the axis of the channels, 2 in [T, N, C, …]; not 0.
        epsilon: ε.
        momentum: the part of the batch in the running statistics.

    Raises:
        OptionError: a value that is not allowed.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        channels: int,
        kind: str = "tdbn",
        *,
        alpha: float = 1.0,
        threshold: float = 1.0,
        axis: int = 2,
        epsilon: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        check_choice("kind", kind, KINDS)
        if kind == "shared" and (alpha, threshold) != (1.0, 1.0):
            raise OptionError("alpha and threshold belong to the kind 'tdbn'")
        if channels < 1 or axis == 0 or not (0 < epsilon < math.inf and 0 <= momentum <= 1):
            raise OptionError(
                "expected at least one channel, an axis other than 0, epsilon above 0 and momentum "
                f"from 0 to 1, got {channels}, {axis}, {epsilon}, {momentum}"
            )
        if not (math.isfinite(alpha) and math.isfinite(threshold)):
            raise OptionError(f"expected finite alpha and threshold, got {alpha}, {threshold}")
        self.channels, self.kind, self.axis = channels, kind, axis
        self.alpha, self.threshold = alpha, threshold
        self.epsilon, self.momentum = epsilon, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """The normalised `x`, floats with time first and the channels on `axis`; like `x`.

        Raises:
            OptionError: another type, too few axes, or another number of channels.
        """
        if not x.is_floating_point() or not -x.dim() < self.axis < x.dim():
            raise OptionError(
                f"expected floats with channels on axis {self.axis}, got {x.dtype}{list(x.shape)}"
            )
        if x.shape[self.axis] != self.channels:
            raise OptionError(
                f"expected {self.channels} channels on axis {self.axis}, got {list(x.shape)}"
            )
        if is_recorded(self) and not self.training:
            return record_batch_norm(self, x)
        wide = x.to(wide_type(x.dtype))
        return (self._of_batch(wide) if self.training else self._of_run(wide)).to(x.dtype)

    def _of_batch(self, x: Tensor) -> Tensor:
        self.num_batches_tracked.add_(1)
        # PyTorch wants the running statistics in the type of the input.
        mean, variance = self.running_mean.to(x.dtype), self.running_var.to(x.dtype)
        normalised = functional.batch_norm(
            x.movedim(self.axis, 1),
            mean,
            variance,
            (self.weight * (self.alpha * self.threshold)).to(x.dtype),
            self.bias.to(x.dtype),
            training=True,
            momentum=self.momentum,
            eps=self.epsilon,
        )
        if mean is not self.running_mean:
            self.running_mean.copy_(mean)
            self.running_var.copy_(variance)
        return normalised.movedim(1, self.axis)

    def _of_run(self, x: Tensor) -> Tensor:
        shape = [1] * x.dim()
        shape[self.axis] = self.channels
        weight, bias, mean, variance = (
            value.to(x.dtype).reshape(shape)
            for value in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        y = (x - mean) / (variance + self.epsilon).sqrt()
        if self.kind == "tdbn":
            y = y * (self.alpha * self.threshold)
        return y * weight + bias

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        shown = f"{self.channels}, {self.kind}, axis={self.axis}, eps={self.epsilon:g}"
        if self.kind == "tdbn":
            shown += f", alpha={self.alpha:g}, threshold={self.threshold:g}"
        return shown
