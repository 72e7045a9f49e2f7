"""What a model of neurons declares: its step, parameters, states and options.

All else derives from it: the op of `spike` with its text and checks, what computes it (interpreter,
targets, circuits), the layer that learns and the function of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .arithmetic import Options, Step


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a neuron model.

    Attributes:
        default: its value where none is given; `None` if it must be given.
        low: the least number allowed.
        high: the greatest number allowed.
        tau: the time constant of which it is what is left after a step, where it is a decay.
        usual: its value in programs that do not say it, where there is no default: that of `tau`
            in steps.
    """

    default: float | None = None
    low: float = float("-inf")
    high: float = float("inf")
    tau: str = ""
    usual: float = 0.0


def decay(tau: str, usual: float = 2.0) -> ParameterSpec:
    """What is left of a state after a step, for the time constant `tau`, `usual` steps long."""
    return ParameterSpec(None, 0.0, 1.0, tau, usual)


GAIN = ParameterSpec(1.0)
LEVEL = ParameterSpec(0.0)
THRESHOLD = ParameterSpec(1.0)

FIRES = ("reset", "compare")
"""The options of a neuron that fires at its threshold, and is reset there."""


@dataclass(frozen=True)
class NeuronModel:
    """A model of neurons.

    Attributes:
        step: what it does in a step; its name is that of the model.
        summary: what its function of the language gives, a sentence.
        parameters: by name, in the order of operands.
        states: in order.
        options: those of `Options` that it has.
        doc: what it is, with its equations and an example, where its op has no class of its own.
        spikes: whether it gives spikes; else numbers.
        on_floats: whether it is defined on floats.
        on_integers: whether it is defined on integers.
        kernels: whether its step needs an `Arithmetic` alone, not a `GeneralArithmetic`.
    """

    step: Step
    summary: str
    parameters: Mapping[str, ParameterSpec]
    states: tuple[str, ...]
    options: tuple[str, ...] = ()
    doc: str = ""
    spikes: bool = True
    on_floats: bool = True
    on_integers: bool = False
    kernels: bool = False

    @property
    def name(self) -> str:
        """What it is called everywhere."""
        return self.step.__name__

    def highest(self, spec: ParameterSpec, options: Options) -> float:
        """The greatest number that a parameter may be: of a decay, 1 in units of 2^-shift."""
        return spec.high * 2**options.shift if spec.tau else spec.high

    @property
    def title(self) -> str:
        """How the names of its classes begin."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def input_factor(self) -> str:
        """The parameter that multiplies the input, before anything else is done with it."""
        return "w_in" if "w_in" in self.parameters else "gain"
