"""Neurons that adapt: the torch side of `spike.adaptive_lif` and `spike.sigma_delta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...dialects.neuron_equations import Options
from ...ir.errors import OptionError
from .neuron import DECAY, GAIN, LEVEL, THRESHOLD, FiringNeuron, Neuron, Spec, Value
from .surrogate import COMPARISONS, SurrogateGradient

ACTIVATIONS = ("none", "relu")


class AdaptiveLifNeuron(FiringNeuron):
    """A leaky neuron whose threshold rises with its own spikes (Bellec et al. 2018, LSNN, eq. 1-3).

    v ← β·v + (1-β)·v_leak + g·i; Θ = θ + κ·a; s = [v ≥ Θ]; reset of v with Θ in the place of θ;
    last a ← ρ·a + (1-ρ)·s. The states are v and a. `detach_reset` leaves the gradient in a.

    Args:
        beta: β from 0 to 1.
        rho: ρ from 0 to 1.
        kappa: κ.

    The others, and errors, as for `LifNeuron`.
    """

    MODEL = "adaptive_lif"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {
        "beta": DECAY,
        "rho": DECAY,
        "kappa": Spec(),
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    }
    STATES: ClassVar[tuple[str, ...]] = ("v", "a")

    def __init__(
        self,
        beta: Value,
        rho: Value,
        kappa: Value,
        *,
        v_leak: Value | None = None,
        gain: Value | None = None,
        threshold: Value | None = None,
        v_reset: Value | None = None,
        compare: str = "ge",
        reset: str = "subtract",
        surrogate: SurrogateGradient | str = "fast_sigmoid",
        detach_reset: bool = False,
    ) -> None:
        parameters = {
            "beta": beta,
            "rho": rho,
            "kappa": kappa,
            "v_leak": v_leak,
            "gain": gain,
            "threshold": threshold,
            "v_reset": v_reset,
        }
        super().__init__(parameters, compare, reset, surrogate, detach_reset)


class SigmaDeltaNeuron(Neuron):
    """Sums what it receives and sends what changed, as graded spikes (Lava's SigmaDelta).

    σ ← σ + g·i; y = f(σ + b); δ = y - y_last + r; where |δ| ≥ θ (`cumulative`: where |e| ≥ θ after
    e ← e + δ) it sends δ, elsewhere 0; then r ← δ - sent, y_last ← y, and `cumulative` e ← 0 where
    it sent something. The output is what was sent, and its sum over time follows y within θ. The
    states are sigma, y, r and e, which stays 0 unless `cumulative`.

    Args:
        gain: g.
        bias: b.
        threshold: θ.
        compare: `gt` or `ge`.
        activation: f, `relu` or `none`.
        cumulative: see above.
        surrogate: a `SurrogateGradient` or its name, for whether something is sent.

    Raises:
        OptionError: a value that is not allowed.
    """

    MODEL = "sigma_delta"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {
        "gain": GAIN,
        "bias": LEVEL,
        "threshold": THRESHOLD,
    }
    STATES: ClassVar[tuple[str, ...]] = ("sigma", "y", "r", "e")

    def __init__(
        self,
        *,
        gain: Value | None = None,
        bias: Value | None = None,
        threshold: Value | None = None,
        compare: str = "ge",
        activation: str = "relu",
        cumulative: bool = False,
        surrogate: SurrogateGradient | str = "fast_sigmoid",
    ) -> None:
        for what, value, allowed in (
            ("compare", compare, COMPARISONS),
            ("activation", activation, ACTIVATIONS),
        ):
            if value not in allowed:
                raise OptionError(f"{what}: expected one of {', '.join(allowed)}, got {value!r}")
        super().__init__({"gain": gain, "bias": bias, "threshold": threshold})
        self.compare, self.activation, self.cumulative = compare, activation, cumulative
        self.surrogate = SurrogateGradient(surrogate) if isinstance(surrogate, str) else surrogate

    def options(self) -> Options:
        return Options(self.compare, activation=self.activation, cumulative=self.cumulative)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"{super().extra_repr()}, compare={self.compare}, activation={self.activation}, "
            f"cumulative={self.cumulative}, surrogate={self.surrogate.name}"
        )
