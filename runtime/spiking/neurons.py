"""Neurons of PyTorch: the layers of the models that `ir.neurons` declares.

The torch side of the ops of the same names: the same equations in the same order of operations, so
that equal currents give equal spikes. What they share stands in `neuron`, layers in `mlp` and
`attention`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...ir import neurons
from ...ir.errors import OptionError
from ...ir.neurons.adaptive import ADAPTIVE_LIF, SIGMA_DELTA
from ...ir.neurons.adaptive_exponential import ADAPTIVE_EXPONENTIAL
from ...ir.neurons.fixed_threshold import CUBA_LIF, INTEGRATE_FIRE, LEAKY_INTEGRATOR, LIF
from ...ir.neurons.izhikevich import IZHIKEVICH
from ...ir.neurons.refractory import REFRACTORY_LIF
from .config import SpikingConfig
from .neuron import FiringNeuron, Neuron
from .steps import Value
from .surrogate import SurrogateGradient


class LifNeuron(FiringNeuron, model=LIF):
    """Leaky integrate-and-fire: v ← β·v + (1-β)·v_leak + g·i; s = [v ≥ θ]; then reset.

    β is `beta`, from 0 to 1, such as 1 - dt/τ (Euler) or exp(-dt/τ) (exact); g is `gain`, θ
    `threshold`.
    """


class IntegrateFireNeuron(FiringNeuron, model=INTEGRATE_FIRE):
    """Integrate-and-fire without leak: v ← v + g·i; s = [v ≥ θ]; then reset.

    Integer currents are computed exactly, and wrap around; parameters must then be whole numbers,
    and there is no gradient.
    """


class CubaLifNeuron(FiringNeuron, model=CUBA_LIF):
    """Leaky integrate-and-fire on a synaptic current with its own decay.

    c ← α·c + w·i; v ← β·v + (1-β)·v_leak + g·c with the new c; s = [v ≥ θ]; then reset of v. α is
    `alpha`, w `w_in`; the states are c and v.
    """


class LeakyIntegrator(Neuron, model=LEAKY_INTEGRATOR):
    """A neuron that never fires: v ← β·v + (1-β)·v_leak + g·i; the output is v after each step."""


class AdaptiveLifNeuron(FiringNeuron, model=ADAPTIVE_LIF):
    """A leaky neuron whose threshold rises with its own spikes (Bellec et al. 2018, LSNN, eq. 1-3).

    v ← β·v + (1-β)·v_leak + g·i; Θ = θ + κ·a; s = [v ≥ Θ]; reset of v with Θ in the place of θ;
    last a ← ρ·a + (1-ρ)·s. The arguments without a name are β, ρ and κ, the states v and a.
    `detach_reset` leaves the gradient in a.
    """


class SigmaDeltaNeuron(Neuron, model=SIGMA_DELTA):
    """Sums what it receives and sends what changed, as graded spikes (Lava's SigmaDelta).

    σ ← σ + g·i; y = f(σ + b); δ = y - y_last + r; where |δ| ≥ θ (`cumulative`: where |e| ≥ θ after
    e ← e + δ) it sends δ, elsewhere 0; then r ← δ - sent, y_last ← y, and `cumulative` e ← 0 where
    it sent something. b is `bias`, f the `activation`, `relu` or `none`. The output is what was
    sent, and its sum over time follows y within θ. The states are sigma, y, r and e, which stays 0
    unless `cumulative`. `surrogate` is for whether something is sent.
    """


class RefractoryLifNeuron(FiringNeuron, model=REFRACTORY_LIF):
    """A leaky neuron that neither integrates nor fires for `period` steps after a spike.

    Its equations are those of `spike.refractory_lif`; the states are v and n, the steps left.
    """


class IzhikevichNeuron(Neuron, model=IZHIKEVICH):
    """Izhikevich's neuron; see `spike.izhikevich`. The states are v in mV and u."""


class AdaptiveExponentialNeuron(Neuron, model=ADAPTIVE_EXPONENTIAL):
    """The adaptive exponential neuron; see `spike.adaptive_exponential`. The states are v and w."""


def _layers() -> dict[str, type[Neuron]]:
    """The layers of all models on floats; those that have no class here get one."""
    named = [kind for base in (Neuron, FiringNeuron) for kind in base.__subclasses__()]
    layers = {kind.MODEL.name: kind for kind in named if hasattr(kind, "MODEL")}
    for name, model in neurons.MODELS.items():
        if name not in layers and model.on_floats:
            base = FiringNeuron if "reset" in model.options else Neuron
            fields = {"__doc__": model.doc, "__module__": __name__}
            kind = type(f"{model.title}Neuron", (base,), fields, model=model)
            layers[name] = cast("type[Neuron]", kind)
    return layers


MODELS: Mapping[str, type[Neuron]] = _layers()
"""The neurons by their models."""


def make_neuron(config: SpikingConfig, **parameters: Value) -> FiringNeuron:
    """The neuron that `config` names, with its threshold and surrogate gradient.

    Args:
        config: which neuron.
        parameters: of the neuron, by name; decays as `neuron.DECAYS` has them.

    Raises:
        OptionError: a parameter that the neuron does not have, or a value that is not allowed.
    """
    kinds: dict[str, type[FiringNeuron]] = {
        "LIF": LifNeuron,
        "IF": IntegrateFireNeuron,
        "CubaLIF": CubaLifNeuron,
        "AdaptiveLIF": AdaptiveLifNeuron,
    }
    kind = kinds[config.neuron_model]
    unknown = sorted(set(parameters) - set(kind.PARAMETERS))
    if unknown:
        raise OptionError(
            f"the neuron {config.neuron_model} has no {', '.join(unknown)}; "
            f"expected some of {', '.join(kind.PARAMETERS)}"
        )
    arguments: dict[str, Value] = {"threshold": config.threshold, **parameters}
    reset = "to_value" if "v_reset" in parameters else "subtract"
    surrogate = SurrogateGradient(config.surrogate_gradient)
    build: type = kind
    return build(**arguments, reset=reset, surrogate=surrogate)
