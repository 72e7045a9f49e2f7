"""Izhikevich's neuron of two equations."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import GeneralArithmetic, Result, Value
from .model import GAIN, NeuronModel, ParameterSpec


def izhikevich(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """Euler steps of v' = 0.04 v^2 + 5 v + 140 - u + gain x and u' = a (b v - u)."""
    v, u = states
    square = a.mul(a.add(a.mul(a.number(0.04), v), a.number(5.0)), v)
    change = a.add(a.sub(a.add(square, a.number(140.0)), u), a.driven("gain", x))
    recovery = a.times("a", a.sub(a.times("b", v), u))
    v, u = a.add(v, a.times("dt", change)), a.add(u, a.times("dt", recovery))
    spikes = a.reaches(v, a.parameter("threshold"))
    u = a.choose(spikes, a.add(u, a.parameter("d")), u)
    return spikes, (a.choose(spikes, a.parameter("c"), v), u)


IZHIKEVICH = NeuronModel(
    izhikevich,
    "Izhikevich's neurons of two equations; potentials in mV, dt in ms.",
    {
        "a": ParameterSpec(0.02),
        "b": ParameterSpec(0.2),
        "c": ParameterSpec(-65.0),
        "d": ParameterSpec(8.0),
        "dt": ParameterSpec(1.0, 0.0),
        "gain": GAIN,
        "threshold": ParameterSpec(30.0),
    },
    ("v", "u"),
    doc="""Izhikevich's neuron (2003), which spikes, bursts or chatters by its parameters.

v ← v + dt·((0.04·v + 5)·v + 140 - u + g·i) and u ← u + dt·a·(b·v - u), both with the old v and
u; where v ≥ θ it spikes, v ← c and u ← u + d. v is in mV, dt in ms; g is `gain`, θ `threshold`;
the states are `v` and `u`, which are 0 unless `initial` says otherwise (c and b·c at rest).

    %s = spike.izhikevich %i {d = 6.000000e+00 : f64}
         : (tensor<100x?x256xf32>) -> !spike.train<100x?x256>
""",
)
