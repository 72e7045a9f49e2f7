"""The neuron whose threshold rises with its own spikes: the torch side of `spike.adaptive_lif`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from .neuron import DECAY, GAIN, LEVEL, THRESHOLD, FiringNeuron, Spec, State, Value
from .surrogate import SurrogateGradient


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

    def _advance(
        self, values: Mapping[str, Tensor], x: Tensor, state: State
    ) -> tuple[Tensor, State]:
        v, adaptation = state
        raised = values["threshold"] + values["kappa"] * adaptation
        spikes, v = self._fire({**values, "threshold": raised}, self._leak(values, v, x))
        rho = values["rho"]
        return spikes, (v, rho * adaptation + (1 - rho) * spikes)
