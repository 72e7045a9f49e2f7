"""The functions on spikes that generated modules call, as they are copied into generated files.

As `library`, which says how: this file is read as text. Runs have time first. Spikes are ones among
zeros, of any type: floats where gradients are to flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import torch

    from ...runtime.spiking.threefry import draw_words
    from .library import ternary_linear, unpack_once

    lif = cast("Any", None)
    """A step of `ir.neurons`, whose functions generated files carry too."""
    TensorArithmetic = cast("Any", None)
    """That of `runtime.spiking.neuron`, which they carry too."""
    neurons = cast("Any", None)
    """The neurons of Triton DSL, which generated files import where it is installed."""


def number(x: torch.Tensor, value: torch.Tensor | float) -> torch.Tensor:
    """`value` rounded to the type of `x`, in the type a step of it is computed in."""
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    return widen(value.to(x.dtype))


def widen(x: torch.Tensor) -> torch.Tensor:
    """Halves as float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def run_steps(
    advance: Callable[..., tuple[torch.Tensor, ...]],
    x: torch.Tensor,
    state: Sequence[torch.Tensor] | None,
    count: int,
) -> tuple[torch.Tensor, ...]:
    """What `advance(step, *state)` gives first, of all steps, and the `count` states it leaves."""
    states = [x.new_zeros(x.shape[1:])] * count if state is None else list(state)
    outputs: list[torch.Tensor] = []
    for step in x.unbind(0):
        output, *after = advance(widen(step), *map(widen, states))
        states = [value.to(x.dtype) for value in after]
        outputs.append(output.to(x.dtype))
    return (torch.stack(outputs) if outputs else x.clone(), *states)


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


OPTIONS: dict[str, Any] = {
    "compare": "ge",
    "reset": "subtract",
    "activation": "relu",
    "cumulative": False,
    "shift": 0,
}


def run_neuron(
    step: Callable[..., Any],
    x: torch.Tensor,
    state: Sequence[torch.Tensor] | None = None,
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
        neuron = models[step.__name__](**settings)
        outputs, after = neuron(x, None if state is None else tuple(state))
        return (outputs, *after)
    options = {name: settings.pop(name, default) for name, default in OPTIONS.items()}
    values = {name: number(x, value) for name, value in settings.items()}
    arithmetic = TensorArithmetic(SimpleNamespace(**options), values, soft_spikes)

    def advance(current: torch.Tensor, *before: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output, after = step(arithmetic, current, before)
        return (output, *after)

    return run_steps(advance, x, state, states)


def multiply_ternary_spikes(
    spikes: torch.Tensor, packed: torch.Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> torch.Tensor:
    """s · W for spikes s, W in packed bytes: sums without rounding, as `dtype`."""
    if ternary_linear is not None and not spikes.requires_grad:
        return ternary_linear(spikes.to(torch.int8), packed, shape[1]).to(dtype)
    wide = dtype if dtype.is_floating_point else torch.float32
    return torch.matmul(spikes.to(wide), unpack_once(packed, shape, dtype=wide)).to(dtype)


def round_sums(sums: torch.Tensor) -> torch.Tensor:
    """Sums of whole numbers as whole numbers, whichever way a convolution computed them."""
    return sums if sums.requires_grad else sums.round()


def delay_steps(
    x: torch.Tensor,
    steps: int,
    before: torch.Tensor | None = None,
    delays: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x later by `steps`, or by each neuron's of `delays`; and the last `steps` steps of x."""
    first = x.new_zeros((steps, *x.shape[1:])) if before is None else before.to(x.dtype)
    whole = torch.cat([first, x])
    if delays is None:
        return whole[: x.shape[0]], whole[x.shape[0] :]
    t = torch.arange(x.shape[0], device=x.device).reshape(-1, *[1] * (x.dim() - 1))
    places = (t + steps - delays).expand(x.shape)
    return torch.gather(whole, 0, places), whole[x.shape[0] :]


def normalize_channels(
    x: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    axis: int,
    epsilon: float,
    factor: float = 1.0,
) -> torch.Tensor:
    """(x - mean) / sqrt(variance + epsilon) * factor * scale + bias for each channel."""
    shape = [-1 if a == axis else 1 for a in range(x.dim())]
    scale, bias, mean, variance = (widen(v).reshape(shape) for v in (scale, bias, mean, variance))
    result = (widen(x) - mean) / torch.sqrt(variance + epsilon)
    result = result if factor == 1.0 else result * factor
    return (result * scale + bias).to(x.dtype)


def attend_spikes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    state: Sequence[torch.Tensor] | None = None,
    *,
    kind: str,
    heads: int,
    scale: float,
    tau: float,
    **settings: Any,
) -> tuple[torch.Tensor, ...]:
    """Attention of spikes [T, N, tokens, channels] with a LIF neuron in place of the softmax."""
    query, key, value = query.float(), key.float(), value.float()
    if kind == "ssa":
        shape = (*query.shape[:3], heads, -1)
        query = query.reshape(shape).transpose(2, 3)
        key, value = (x.reshape(*x.shape[:3], heads, -1).transpose(2, 3) for x in (key, value))
        sums = torch.matmul(torch.matmul(query, key.transpose(-1, -2)), value)
        sums = sums.transpose(2, 3).flatten(-2)
    else:
        sums = (key * value).sum(2, keepdim=True)
    current = sums * scale / number(sums, tau)
    spikes, v = run_neuron(lif, current, state, beta=1 - 1 / tau, **settings)
    return spikes if kind == "ssa" else spikes * query, v


def count_steps(
    x: torch.Tensor, timesteps: int, start: int, elapsed: torch.Tensor | int
) -> torch.Tensor:
    """The numbers of the steps, laid along time before the axes of x."""
    steps = torch.arange(start, start + timesteps, device=x.device) + elapsed
    return steps.reshape(-1, *[1] * x.dim())


def encode_rate(
    x: torch.Tensor, timesteps: int, start: int, elapsed: torch.Tensor | int = 0, *, seed: int
) -> torch.Tensor:
    """Random spikes with the probability x, the same for the same seed."""
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    words, _ = draw_words(seed, count_steps(x, timesteps, start, elapsed), places)
    return words.double() * 2.0**-32 < x.double()


def encode_regular(
    x: torch.Tensor, timesteps: int, start: int, elapsed: torch.Tensor | int = 0
) -> torch.Tensor:
    """Evenly spaced spikes, a share x of the steps."""
    share, t = x.double().clamp(0, 1), count_steps(x, timesteps, start, elapsed)
    return torch.floor((t + 1) * share) > torch.floor(t * share)


def encode_latency(
    x: torch.Tensor,
    timesteps: int,
    start: int,
    elapsed: torch.Tensor | int = 0,
    *,
    period: int,
    threshold: float | None = None,
) -> torch.Tensor:
    """One spike, the earlier the larger x is; none below the threshold."""
    late = torch.round((period - 1) * (1 - x.double().clamp(0, 1)))
    spikes = count_steps(x, timesteps, start, elapsed) == late
    if threshold is None:
        return spikes
    return spikes & (widen(x) >= number(widen(x), threshold))


def encode_phase(
    x: torch.Tensor,
    timesteps: int,
    start: int,
    elapsed: torch.Tensor | int = 0,
    *,
    period: int,
) -> torch.Tensor:
    """The binary digits of x, the largest first, again in each period."""
    share = torch.nan_to_num(x.double().clamp(0, 1))
    digits = torch.floor(share * 2**period).clamp(max=2**period - 1).to(torch.int64)
    phase = count_steps(x, timesteps, start, elapsed) % period
    return (digits >> (period - 1 - phase)) & 1 == 1


def encode_delta(
    x: torch.Tensor, threshold: float, previous: torch.Tensor | None = None
) -> torch.Tensor:
    """Where x [T, …] rises by the threshold from one step to the next."""
    before = torch.zeros_like(x[:1]) if previous is None else previous.unsqueeze(0)
    rises = widen(x) - widen(torch.cat([before, x])[:-1])
    return rises >= number(rises, threshold)


def decode_rate(spikes: torch.Tensor) -> torch.Tensor:
    """The share of steps with a spike."""
    return spikes.float().sum(0) / spikes.shape[0]


def decode_first_spike(spikes: torch.Tensor) -> torch.Tensor:
    """(T - t) / T for the first spike at t, 0 without one."""
    steps = spikes.shape[0]
    left = torch.arange(steps, 0, -1, device=spikes.device).reshape(-1, *[1] * (spikes.dim() - 1))
    return ((spikes != 0) * left).amax(0).float() / steps
