"""Delays that learn: a position in time with a slope while training, whole steps afterwards.

Dilated convolution with learnable spacings in time (Hammouamri, Khalfaoui-Hassani & Masquelier
2023, "Learning delays in spiking neural networks using dilated convolutions with learnable
spacings", eq. 6-8; Khalfaoui-Hassani et al. 2023). A delay d spreads an input over the delays
k = 0 … D by weights that add up to 1:

    Gaussian  c_k ∝ exp(-½·((k - d)/σ)²)        linear  c_k ∝ max(0, 1 - |k - d|)

σ is to shrink during training, from D/2 to 0.5 in the paper. In evaluation d is rounded: spikes
stay spikes, and frontends read `spike.delay`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError
from .recording import is_recorded, record_delay


class _Delays(nn.Module):
    """Delays that learn, in a shape, kept from 0 to `max_delay` steps."""

    def __init__(self, shape: tuple[int, ...], max_delay: int, sigma: float | None) -> None:
        super().__init__()
        if min(shape) < 1 or max_delay < 1 or not (sigma is None or 0 < sigma < math.inf):
            raise OptionError(
                f"expected sizes and max_delay from 1, and sigma above 0, got {list(shape)}, "
                f"{max_delay} and {sigma}"
            )
        self.max_delay, self.sigma = max_delay, sigma
        self.delay = nn.Parameter(torch.rand(shape) * max_delay)

    def steps(self) -> Tensor:
        """The delays as whole steps, int64; halves to even."""
        return self.delay.detach().clamp(0, self.max_delay).round().to(torch.int64)

    def kernel(self) -> Tensor:
        """c: the share of each delay from 0 to D, on a last axis."""
        # As the paper does, so that a delay at the end can come back.
        if bool(((self.delay < 0) | (self.delay > self.max_delay)).any()):
            with torch.no_grad():
                self.delay.clamp_(0, self.max_delay)
        places = torch.arange(self.max_delay + 1, device=self.delay.device)
        apart = places - self.delay[..., None]
        if self.sigma is None:
            # Between two places also where it is one of them, for a slope everywhere.
            left = self.delay.detach().floor().clamp(max=self.max_delay - 1)[..., None]
            return torch.where(places == left, 1 + apart, 0) + torch.where(
                places == left + 1, 1 - apart, 0
            )
        return torch.softmax(-0.5 * (apart / self.sigma) ** 2, -1)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"{list(self.delay.shape)}, max_delay={self.max_delay}, sigma={self.sigma}"

    def _with_past(self, x: Tensor, state: Tensor | None, dim: int, size: int) -> Tensor:
        if x.dim() < 3 or x.shape[2] != size or (dim and x.dim() != dim):
            raise OptionError(f"expected [T, N, {size}{'' if dim else ', …'}], got {list(x.shape)}")
        past = x.new_zeros((self.max_delay, *x.shape[1:])) if state is None else state
        if past.shape != (self.max_delay, *x.shape[1:]):
            raise OptionError(f"state: expected {self.max_delay} steps like the input's")
        return torch.cat([past, x])


class LearnableDelay(_Delays):
    """Delays each channel of a train: y[t, n, c, …] = Σ_k c_k(d_c)·x[t - k, n, c, …].

    The parameter `delay` is [channels], in steps, drawn from 0 to D.

    Args:
        channels: of the trains.
        max_delay: D in steps, from 1; delays are kept from 0 to D.
        sigma: σ in steps, above 0, an attribute to be changed; `None` interpolates linearly.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(self, channels: int, max_delay: int, sigma: float | None = None) -> None:
        super().__init__((channels,), max_delay, sigma)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The train [T, N, channels, …] delayed, and its last D steps.

        Args:
            x: floats.
            state: the D steps before the first one; zeros by default.

        Raises:
            OptionError: a shape that does not fit.
        """
        whole = self._with_past(x, state, 0, len(self.delay))
        places = (-1, *[1] * (x.dim() - 3))
        if not self.training:
            return delayed(x, self.steps().reshape(places), self.max_delay, state)
        y, steps = x.new_zeros(()), len(x)
        for k, share in enumerate(self.kernel().to(x.dtype).unbind(-1)):
            late = self.max_delay - k
            y = y + share.reshape(places) * whole[late : late + steps]
        return y, whole[steps:]


class DelayedLinear(_Delays):
    """A product with a delay for each synapse: y[t, n, j] = Σ_i w_ji Σ_k c_k(d_ji)·x[t - k, n, i].

    The parameters `weight` and `delay` are [outputs, inputs].

    Args:
        inputs, outputs: the neurons on either side.
        max_delay, sigma: see `LearnableDelay`.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self, inputs: int, outputs: int, max_delay: int, sigma: float | None = None
    ) -> None:
        super().__init__((outputs, inputs), max_delay, sigma)
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.kaiming_uniform_(self.weight, math.sqrt(5))

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The currents [T, N, outputs] of a train [T, N, inputs], and its last D steps."""
        whole = self._with_past(x, state, 3, self.weight.shape[1])
        if self.training:
            taps = (self.weight[..., None] * self.kernel()).flip(-1).to(x.dtype)
            return nn.functional.conv1d(whole.permute(1, 2, 0), taps).permute(2, 0, 1), whole[
                len(x) :
            ]
        steps, parts, after = self.steps(), list[Tensor](), x
        for step in range(self.max_delay + 1):
            late, after = delayed(x, torch.full((), step), self.max_delay, state)
            parts.append(nn.functional.linear(late, self.weight.where(steps == step, 0)))
        return sum(parts[1:], parts[0]), after


def delayed(x: Tensor, delays: Tensor, steps: int, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """`spike.delay`: the train [T, …] by whole steps from 0 to `steps`, and its last `steps`.

    Args:
        x: the train.
        delays: integers that broadcast to a step.
        steps: the most.
        state: the steps before the first; zeros by default.
    """
    if is_recorded():
        return record_delay(x, delays, steps, state)
    past = x.new_zeros((steps, *x.shape[1:])) if state is None else state
    whole = torch.cat([past, x])
    t = torch.arange(len(x), device=x.device).reshape(-1, *[1] * (x.dim() - 1))
    return whole.take_along_dim((t + steps - delays).expand_as(x), 0), whole[len(x) :]
