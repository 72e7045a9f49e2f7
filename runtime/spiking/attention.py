"""Spiking self-attention without softmax: `spike.attention`, and a layer with projections."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError, check_choice, refuse
from ...ir.neurons.arithmetic import COMPARISONS, RESETS
from .config import SpikingConfig
from .neurons import make_neuron
from .normalization import TemporalBatchNorm
from .recording import is_recorded, record_attention
from .steps import State, Value
from .surrogate import SurrogateGradient

KINDS = ("ssa", "sdsa")


class SpikingAttention(nn.Module):
    """Attention on trains Q [T, N, L, D], K and V [T, N, S, D] without softmax; a train like Q.

    `ssa` (Zhou et al. 2023, Spikformer, eq. 5-6): for each of `heads` slices of D, x = scale·(Q Kᵀ
    V) is the current of a neuron at each place. `sdsa` (Yao et al. 2023, eq. 6): x = scale·Σ_L K⊗V,
    one current a channel, whose spikes mask Q. The neuron: v ← β·v + x/τ with β = 1 - 1/τ;
    s = [v ≥ θ]; then `reset` (`to_value` is to 0). The state v is float32, [N, L, D] for `ssa` and
    [N, 1, D] for `sdsa`.

    Sums are exact below 2^24, so that Q Kᵀ V is computed in the cheaper order: Q (Kᵀ V) takes
    memory that is linear in the number of tokens. With `torch.backends.cuda.matmul.allow_tf32`, a
    GPU rounds sums above 2^11.

    Args:
        kind: `ssa` or `sdsa`.
        heads: what D is divided into, by `ssa`.
        scale: 0.125 for `ssa` and 1 for `sdsa` by default.
        tau: τ, at least 1 step.
        threshold: θ.
        compare: `gt` or `ge`.
        reset: `subtract`, `to_value` or `none`.
        surrogate: a `SurrogateGradient` or its name.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self,
        kind: str = "ssa",
        heads: int = 1,
        *,
        scale: float | None = None,
        tau: float = 2.0,
        threshold: float = 0.5,
        compare: str = "ge",
        reset: str = "to_value",
        surrogate: SurrogateGradient | str = "fast_sigmoid",
    ) -> None:
        super().__init__()
        for what, value, allowed in (
            ("kind", kind, KINDS),
            ("compare", compare, COMPARISONS),
            ("reset", reset, RESETS),
        ):
            check_choice(what, value, allowed)
        refuse(heads < 1, f"heads: expected at least 1, got {heads}")
        refuse(not 1 <= tau < math.inf, f"tau: expected at least 1 step, got {tau}")
        self.kind, self.heads = kind, heads
        self.scale = (0.125 if kind == "ssa" else 1.0) if scale is None else scale
        if not (math.isfinite(self.scale) and math.isfinite(threshold)):
            raise OptionError(f"expected finite numbers, got scale {scale}, threshold {threshold}")
        self.tau, self.threshold = tau, threshold
        self.compare, self.reset = compare, reset
        self.surrogate = SurrogateGradient(surrogate) if isinstance(surrogate, str) else surrogate

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The train, of the query's type and shape, and the state after the last step.

        Args:
            query: spikes as floats [T, N, L, D].
            key: [T, N, S, D]; S = L for `sdsa`.
            value: like `key`.
            state: the state before the first step; zeros by default.

        Raises:
            OptionError: shapes or types that do not go together.
        """
        self._check(query, key, value)
        if is_recorded(self):
            return record_attention(self, query, key, value, state)
        # Under autocast products would be rounded to its type.
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = (train.to(torch.float32) for train in (query, key, value))
            sums = self._attend(q, k, v) if self.kind == "ssa" else (k * v).sum(2, keepdim=True)
            spikes, state = self._fire(sums * self.scale, state)
        spikes = spikes.to(query.dtype)
        return (spikes if self.kind == "ssa" else spikes * query), state

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Q Kᵀ V of each head, side by side again: [T, N, L, D]."""
        a, b, c = (self._split(x) for x in (q, k, v))
        is_short = b.shape[-2] <= b.shape[-1]
        x = (a @ b.mT) @ c if is_short else a @ (b.mT @ c)
        return x.transpose(2, 3).flatten(-2)

    def _split(self, x: Tensor) -> Tensor:
        """[T, N, tokens, D] as [T, N, heads, tokens, D / heads]."""
        return x.reshape(*x.shape[:3], self.heads, x.shape[3] // self.heads).transpose(2, 3)

    def _fire(self, currents: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        shape = currents.shape[1:]
        v = currents.new_zeros(shape) if state is None else state
        if v.shape != shape or v.dtype != torch.float32:
            raise OptionError(f"state: expected float32{list(shape)}, got {v.dtype}{list(v.shape)}")
        beta, tau, threshold = (
            torch.full((), number, dtype=torch.float32, device=v.device)
            for number in (1 - 1 / self.tau, self.tau, self.threshold)
        )
        trains: list[Tensor] = []
        for current in currents.unbind(0):
            v = beta * v + current / tau
            spikes = self.surrogate(v, threshold, self.compare)
            if self.reset == "subtract":
                v = v - threshold * spikes
            elif self.reset == "to_value":
                v = v * (1 - spikes)
            trains.append(spikes)
        return torch.stack(trains) if trains else currents, v

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        shapes = f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        if not all(x.is_floating_point() for x in (q, k, v)) or not q.dtype == k.dtype == v.dtype:
            raise OptionError(f"expected floats of one type, got {q.dtype}, {k.dtype}, {v.dtype}")
        fits = q.dim() == k.dim() == 4 and k.shape == v.shape
        fits = fits and q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3]
        if not fits or (self.kind == "sdsa" and q.shape != k.shape):
            raise OptionError(f"expected trains [T, N, tokens, channels] that fit, got {shapes}")
        if q.shape[3] % self.heads:
            raise OptionError(f"{self.heads} heads do not divide {q.shape[3]} channels")

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"{self.kind}, heads={self.heads}, scale={self.scale:g}, tau={self.tau:g}, "
            f"threshold={self.threshold:g}, compare={self.compare}, reset={self.reset}"
        )


class SpikingSelfAttention(nn.Module):
    """Self-attention of a train [T, N, L, D] with itself, as the SSA layer of Spikformer has it.

    Q, K and V are the spikes of neurons on tdBN of linear projections of the input (Zhou et al.
    2023, eq. 4); after `SpikingAttention` comes one more projection with tdBN and neurons.

    Args:
        channels: D.
        heads: what D is divided into, by `ssa`.
        kind: `ssa` or `sdsa`.
        config: the neurons of the projections; `timesteps` and `spike_encoding` are of no use here.
        neuron: parameters of these neurons, see `make_neuron`.

    Raises:
        OptionError: a value that is not allowed, or heads that do not divide the channels.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        kind: str = "ssa",
        *,
        config: SpikingConfig | None = None,
        neuron: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__()
        config = SpikingConfig() if config is None else config
        surrogate = SurrogateGradient(config.surrogate_gradient)
        self.attention = SpikingAttention(kind, heads, surrogate=surrogate)
        refuse(channels < 1 or channels % heads, f"{heads} heads do not divide {channels} channels")
        names = ("query", "key", "value", "output")
        self.projections = nn.ModuleDict(
            {name: nn.Linear(channels, channels, bias=False) for name in names}
        )
        self.norms = nn.ModuleDict(
            {
                name: TemporalBatchNorm(channels, threshold=config.threshold, axis=3)
                for name in names
            }
        )
        self.neurons = nn.ModuleDict(
            {name: make_neuron(config, **(neuron or {})) for name in names}
        )

    def forward(
        self, x: Tensor, state: tuple[State, ...] | None = None
    ) -> tuple[Tensor, tuple[State, ...]]:
        """The train [T, N, L, D], and the states after the last step.

        Args:
            x: spikes as floats [T, N, L, D].
            state: the states before the first step: of the neurons of query, key and value, of the
                attention, of the neurons of the output; zeros by default.

        Raises:
            OptionError: a shape or type that does not fit.
        """
        states = (None,) * 5 if state is None else state
        refuse(len(states) != 5, f"expected the states of 5 layers, got {len(states)}")
        query, after_query = self._project("query", x, states[0])
        key, after_key = self._project("key", x, states[1])
        value, after_value = self._project("value", x, states[2])
        before = None if states[3] is None else states[3][0]
        mixed, potential = self.attention(query, key, value, before)
        output, after_output = self._project("output", mixed, states[4])
        return output, (after_query, after_key, after_value, (potential,), after_output)

    def _project(self, name: str, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        current: Tensor = self.norms[name](self.projections[name](x))
        return self.neurons[name](current, state)
