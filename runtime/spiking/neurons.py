"""Neurons with a state that goes in and comes out: LIF, IF, current-based LIF, leaky integrator.

The torch side of `spike.lif`, `spike.integrate_fire`, `spike.cuba_lif` and
`spike.leaky_integrator`: the same equations in the same order of operations, so that equal currents
give equal spikes. What they share stands in `neuron`, neurons that adapt in `adaptive`, layers in
`mlp` and `attention`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ...dialects import spike
from ...ir.errors import OptionError
from .adaptive import AdaptiveLifNeuron, SigmaDeltaNeuron
from .config import SpikingConfig
from .neuron import DECAY, GAIN, LEVEL, THRESHOLD, FiringNeuron, Neuron, Spec, Value
from .surrogate import SurrogateGradient

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


class LifNeuron(FiringNeuron):
    """Leaky integrate-and-fire: v ← β·v + (1-β)·v_leak + g·i; s = [v ≥ θ]; then reset.

    Args:
        beta: β from 0 to 1, such as 1 - dt/τ (Euler) or exp(-dt/τ) (exact).
        v_leak: the potential without current.
        gain: g.
        threshold: θ.
        v_reset: of the reset `to_value`, 0 by default.
        compare: see `FiringNeuron`.
        reset: see `FiringNeuron`.
        surrogate: a `SurrogateGradient` or its name.
        detach_reset: keep gradients out of the reset.

    Raises:
        OptionError: a value that is not allowed.
    """

    MODEL = "lif"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {
        "beta": DECAY,
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    }
    STATES: ClassVar[tuple[str, ...]] = ("v",)

    def __init__(
        self,
        beta: Value,
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
            "v_leak": v_leak,
            "gain": gain,
            "threshold": threshold,
            "v_reset": v_reset,
        }
        super().__init__(parameters, compare, reset, surrogate, detach_reset)


class IntegrateFireNeuron(FiringNeuron):
    """Integrate-and-fire without leak: v ← v + g·i; s = [v ≥ θ]; then reset.

    Integer currents are computed exactly, and wrap around; parameters must then be whole numbers,
    and there is no gradient. Arguments and errors as for `LifNeuron`.
    """

    MODEL = "integrate_fire"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    }
    STATES: ClassVar[tuple[str, ...]] = ("v",)

    def __init__(
        self,
        *,
        gain: Value | None = None,
        threshold: Value | None = None,
        v_reset: Value | None = None,
        compare: str = "ge",
        reset: str = "subtract",
        surrogate: SurrogateGradient | str = "fast_sigmoid",
        detach_reset: bool = False,
    ) -> None:
        parameters = {"gain": gain, "threshold": threshold, "v_reset": v_reset}
        super().__init__(parameters, compare, reset, surrogate, detach_reset)

    def _check_current(self, x: Tensor) -> None:
        if x.dtype not in _INTEGERS or x.dim() < 1:
            super()._check_current(x)
            return
        limits = torch.iinfo(x.dtype)
        for name in self.PARAMETERS:
            value: Value = getattr(self, name)
            if isinstance(value, Tensor):
                if value.dtype != x.dtype:
                    raise OptionError(f"{name}: expected {x.dtype}, got {value.dtype}")
            elif value != int(value) or not limits.min <= value <= limits.max:
                raise OptionError(f"{name}: expected a whole number of {x.dtype}, got {value:g}")


class CubaLifNeuron(FiringNeuron):
    """Leaky integrate-and-fire on a synaptic current with its own decay.

    c ← α·c + w·i; v ← β·v + (1-β)·v_leak + g·c with the new c; s = [v ≥ θ]; then reset of v. The
    states are c and v.

    Args:
        alpha: α from 0 to 1.
        beta: β from 0 to 1.
        w_in: w.

    The others, and errors, as for `LifNeuron`.
    """

    MODEL = "cuba_lif"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {
        "alpha": DECAY,
        "beta": DECAY,
        "w_in": GAIN,
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    }
    STATES: ClassVar[tuple[str, ...]] = ("c", "v")

    def __init__(
        self,
        alpha: Value,
        beta: Value,
        *,
        w_in: Value | None = None,
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
            "alpha": alpha,
            "beta": beta,
            "w_in": w_in,
            "v_leak": v_leak,
            "gain": gain,
            "threshold": threshold,
            "v_reset": v_reset,
        }
        super().__init__(parameters, compare, reset, surrogate, detach_reset)


class LeakyIntegrator(Neuron):
    """A neuron that never fires: v ← β·v + (1-β)·v_leak + g·i; the output is v after each step.

    Arguments and errors as for `LifNeuron`.
    """

    MODEL = "leaky_integrator"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = {"beta": DECAY, "v_leak": LEVEL, "gain": GAIN}
    STATES: ClassVar[tuple[str, ...]] = ("v",)

    def __init__(
        self, beta: Value, *, v_leak: Value | None = None, gain: Value | None = None
    ) -> None:
        super().__init__({"beta": beta, "v_leak": v_leak, "gain": gain})


def _specs(op: type[spike.NeuronOp]) -> Mapping[str, Spec]:
    return {name: Spec(s.default, s.low, s.high) for name, s in op.PARAMETERS.items()}


class RefractoryLifNeuron(FiringNeuron):
    """A leaky neuron that neither integrates nor fires for some steps after a spike.

    Its equations are those of `spike.refractory_lif`; the states are v and n, the steps left.

    Args:
        beta: β from 0 to 1.
        period: how many steps it rests, a whole number.

    The others, and errors, as for `LifNeuron`.
    """

    MODEL = "refractory_lif"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = _specs(spike.RefractoryLifOp)
    STATES: ClassVar[tuple[str, ...]] = spike.RefractoryLifOp.STATES

    def __init__(
        self,
        beta: Value,
        period: Value,
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
            "period": period,
            "v_leak": v_leak,
            "gain": gain,
            "threshold": threshold,
            "v_reset": v_reset,
        }
        super().__init__(parameters, compare, reset, surrogate, detach_reset)


class _BiologicalNeuron(Neuron):
    """A neuron with its own reset.

    Args:
        surrogate: a `SurrogateGradient` or its name.
        parameters: those of the op, by name.

    Raises:
        OptionError: a value or a name that is not allowed.
    """

    def __init__(
        self, *, surrogate: SurrogateGradient | str = "fast_sigmoid", **parameters: Value
    ) -> None:
        if unknown := sorted(set(parameters) - set(self.PARAMETERS)):
            raise OptionError(
                f"{type(self).__name__} has no {', '.join(unknown)}; "
                f"expected some of {', '.join(self.PARAMETERS)}"
            )
        super().__init__({name: parameters.get(name) for name in self.PARAMETERS})
        self.surrogate = SurrogateGradient(surrogate) if isinstance(surrogate, str) else surrogate


class IzhikevichNeuron(_BiologicalNeuron):
    """Izhikevich's neuron; see `spike.izhikevich`. The states are v in mV and u."""

    MODEL = "izhikevich"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = _specs(spike.IzhikevichOp)
    STATES: ClassVar[tuple[str, ...]] = spike.IzhikevichOp.STATES


class AdaptiveExponentialNeuron(_BiologicalNeuron):
    """The adaptive exponential neuron; see `spike.adaptive_exponential`. The states are v and w."""

    MODEL = "adaptive_exponential"
    PARAMETERS: ClassVar[Mapping[str, Spec]] = _specs(spike.AdaptiveExponentialOp)
    STATES: ClassVar[tuple[str, ...]] = spike.AdaptiveExponentialOp.STATES


MODELS: Mapping[str, type[Neuron]] = {
    kind.MODEL: kind
    for kind in (
        LifNeuron,
        IntegrateFireNeuron,
        CubaLifNeuron,
        LeakyIntegrator,
        AdaptiveLifNeuron,
        SigmaDeltaNeuron,
        RefractoryLifNeuron,
        IzhikevichNeuron,
        AdaptiveExponentialNeuron,
    )
}
"""The neurons by their models."""

DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "LIF": {"beta": 0.9},
    "IF": {},
    "CubaLIF": {"alpha": 0.8, "beta": 0.9},
    "AdaptiveLIF": {"beta": 0.9, "rho": 0.99, "kappa": 1.8},
}
"""What `make_neuron` takes for parameters without a default where they are not given."""


def make_neuron(config: SpikingConfig, **parameters: Value) -> FiringNeuron:
    """The neuron that `config` names, with its threshold and surrogate gradient.

    Args:
        config: which neuron.
        parameters: of the neuron, by name; those of `DEFAULTS` where needed.

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
    arguments: dict[str, Value] = {
        "threshold": config.threshold,
        **DEFAULTS[config.neuron_model],
        **parameters,
    }
    reset = "to_value" if "v_reset" in parameters else "subtract"
    surrogate = SurrogateGradient(config.surrogate_gradient)
    build: type = kind
    return build(**arguments, reset=reset, surrogate=surrogate)
