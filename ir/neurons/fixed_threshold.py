"""Neurons with a fixed threshold: leaky or not, on a current, on integers, and the integrator."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import Arithmetic, GeneralArithmetic, Result, Value
from .model import FIRES, GAIN, LEVEL, THRESHOLD, NeuronModel, decay


def lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = beta v + (1 - beta) v_leak + gain x."""
    v = a.add(a.leak(states[0]), a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


def integrate_fire(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = v + gain x, on integers too."""
    v = a.add(states[0], a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


def cuba_lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky neuron on the current c = alpha c + w_in x."""
    current, v = cuba(a, x, states)
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (current, v)


def cuba(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> tuple[Value, Value]:
    """The current c and the potential v of a neuron on a current."""
    current = a.add(a.times("alpha", states[0]), a.driven("w_in", x))
    return current, a.add(a.leak(states[1]), a.times("gain", current))


def leaky_integrator(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = beta v + (1 - beta) v_leak + gain x, which is the output."""
    v = a.add(a.leak(states[0]), a.driven("gain", x))
    return v, (v,)


def cuba_integrator(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky integrator of a decaying current (NIR's CubaLI)."""
    current, v = cuba(a, x, states)
    return v, (current, v)


def integer_lif(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """On integers: v = floor(decay v / 2^shift) + gain x."""
    v = a.add(a.shifted(a.parameter("decay"), states[0], a.options.shift), a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


LIF = NeuronModel(
    lif,
    "Leaky integrate-and-fire neurons; tau in steps.",
    {"beta": decay("tau"), "v_leak": LEVEL, "gain": GAIN, "threshold": THRESHOLD, "v_reset": LEVEL},
    ("v",),
    options=FIRES,
    kernels=True,
)
INTEGRATE_FIRE = NeuronModel(
    integrate_fire,
    "Integrate-and-fire neurons without leak.",
    {"gain": GAIN, "threshold": THRESHOLD, "v_reset": LEVEL},
    ("v",),
    options=FIRES,
    on_integers=True,
    kernels=True,
)
CUBA_LIF = NeuronModel(
    cuba_lif,
    "Current-based leaky integrate-and-fire neurons.",
    {
        "alpha": decay("tau_syn"),
        "beta": decay("tau_mem"),
        "w_in": GAIN,
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    },
    ("c", "v"),
    options=FIRES,
    kernels=True,
)
LEAKY_INTEGRATOR = NeuronModel(
    leaky_integrator,
    "The membrane trace of leaky neurons that never fire.",
    {"beta": decay("tau"), "v_leak": LEVEL, "gain": GAIN},
    ("v",),
    spikes=False,
    kernels=True,
)
INTEGER_LIF = NeuronModel(
    integer_lif,
    "Leaky integrate-and-fire neurons on integers.",
    {"decay": decay("tau"), "gain": GAIN, "threshold": THRESHOLD, "v_reset": LEVEL},
    ("v",),
    options=(*FIRES, "shift"),
    on_floats=False,
    on_integers=True,
)
CUBA_INTEGRATOR = NeuronModel(
    cuba_integrator,
    "The membrane trace of leaky neurons on a decaying current; populations have it alone.",
    {
        "alpha": decay("tau_syn"),
        "beta": decay("tau_mem"),
        "w_in": GAIN,
        "v_leak": LEVEL,
        "gain": GAIN,
    },
    ("c", "v"),
    spikes=False,
    kernels=True,
)
