"""The functions on spikes that generated modules call, as they are copied into generated files.

As `library`, which says how: this file is read as text. Runs have time first. Spikes are ones among
zeros, of any type: floats where gradients are to flow.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import torch

    from ...runtime.spiking.steps import rounded, run_steps
    from ...runtime.spiking.threefry import draw_words
    from .library import ternary_linear, unpack_once

    TensorArithmetic = cast("Any", None)
    """That of `runtime.spiking.steps`."""
    OPTIONS = cast("dict[str, Any]", None)
    """The defaults of `ir.neurons.arithmetic.Options`."""
    neurons = cast("Any", None)
    """The neurons of Triton DSL, which generated files import where it is installed."""


def soft_spikes(v: torch.Tensor, threshold: torch.Tensor, compare: str) -> torch.Tensor:
    """Where v reaches the threshold.

    Backward, a spike has the slope of the fast sigmoid u / (1 + 25 |u|) with u = v - threshold.
    """
    spikes = (v > threshold if compare == "gt" else v >= threshold).to(v.dtype)
    if v.is_floating_point() and (v.requires_grad or threshold.requires_grad):
        u = v - threshold
        soft = u / (1 + 25 * u.abs())
        spikes = spikes + (soft - soft.detach())
    return spikes


def run_neuron(
    step: Callable[..., Any],
    x: torch.Tensor,
    state: tuple[torch.Tensor, ...] | None = None,
    *,
    states: int = 1,
    **settings: Any,
) -> tuple[torch.Tensor, ...]:
    """A neuron of which `step` is a step, over all steps of x: what it gives, and its states.

    Triton DSL's neurons run where they are installed; but they check tensors, which no compiler can
    follow.
    """
    given = any(isinstance(value, torch.Tensor) for value in settings.values())
    models = getattr(neurons, "MODELS", {})  # none where it is not installed
    if step.__name__ in models and not (given and torch.compiler.is_compiling()):
        outputs, after = models[step.__name__](**settings)(x, state)
        return (outputs, *after)
    options = {name: settings.pop(name, default) for name, default in OPTIONS.items()}
    values = {name: rounded(value, x) for name, value in settings.items()}
    arithmetic = TensorArithmetic(SimpleNamespace(**options), values, soft_spikes)
    first = (x.new_zeros(x.shape[1:]),) * states if state is None else state
    outputs, after = run_steps(step, arithmetic, x, first)
    return (outputs, *after)


def multiply_ternary_spikes(
    spikes: torch.Tensor, packed: torch.Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> torch.Tensor:
    """s · W for spikes s, W in packed bytes: sums without rounding, as floats of `dtype`."""
    if ternary_linear is not None and not spikes.requires_grad:
        return ternary_linear(spikes.to(torch.int8), packed, shape[1]).to(dtype)
    return torch.matmul(spikes.to(dtype), unpack_once(packed, shape, dtype=dtype))


def round_sums(sums: torch.Tensor) -> torch.Tensor:
    """Sums of whole numbers as whole numbers, whichever way a convolution computed them."""
    return sums if sums.requires_grad else sums.round()


def delay_each(
    x: torch.Tensor, delays: torch.Tensor, steps: int, before: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """x later by a delay of each neuron, at most `steps`; and the last `steps` steps of x."""
    first = x.new_zeros((steps, *x.shape[1:])) if before is None else before.to(x.dtype)
    whole = torch.cat([first, x])
    t = torch.arange(steps, steps + x.shape[0], device=x.device)
    places = t.reshape(-1, *[1] * (x.dim() - 1)) - delays
    return torch.gather(whole, 0, places.expand(x.shape)), whole[x.shape[0] :]


def encode_rate(
    x: torch.Tensor, timesteps: int, start: int, elapsed: torch.Tensor | int = 0, *, seed: int
) -> torch.Tensor:
    """Random spikes with the probability x, the same for the same seed."""
    steps = torch.arange(start, start + timesteps, device=x.device) + elapsed
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    words, _ = draw_words(seed, steps.reshape(-1, *[1] * x.dim()), places)
    return words.double() * 2.0**-32 < x.double()
