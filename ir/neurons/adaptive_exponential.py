"""The adaptive exponential integrate-and-fire neuron."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import GeneralArithmetic, Result, Value
from .model import GAIN, NeuronModel, ParameterSpec


def adaptive_exponential(
    a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]
) -> Result[Value]:
    """Euler steps of C v' = g_l (delta e^((v - v_t) / delta) - (v - e_l)) - w + gain x."""
    v, w = states
    above = a.sub(v, a.parameter("e_l"))
    bend = a.div(a.sub(v, a.parameter("v_t")), a.parameter("delta"))
    leak = a.times("g_l", a.sub(a.times("delta", a.exp(bend)), above))
    current = a.add(a.sub(leak, w), a.driven("gain", x))
    adapted = a.div(a.sub(a.times("a", above), w), a.parameter("tau_w"))
    v = a.add(v, a.times("dt", a.div(current, a.parameter("capacity"))))
    w = a.add(w, a.times("dt", adapted))
    spikes = a.reaches(v, a.parameter("threshold"))
    v = a.least(v, a.parameter("threshold"))  # it may be infinite where it spikes
    w = a.choose(spikes, a.add(w, a.parameter("b")), w)
    return spikes, (a.choose(spikes, a.parameter("v_reset"), v), w)


ADAPTIVE_EXPONENTIAL = NeuronModel(
    adaptive_exponential,
    "Adaptive exponential neurons; mV, ms, nS, pA and pF.",
    {
        "a": ParameterSpec(4.0),
        "b": ParameterSpec(80.5),
        "capacity": ParameterSpec(281.0, 0.0),
        "g_l": ParameterSpec(30.0),
        "e_l": ParameterSpec(-70.6),
        "v_t": ParameterSpec(-50.4),
        "delta": ParameterSpec(2.0, 0.0),
        "tau_w": ParameterSpec(144.0, 0.0),
        "dt": ParameterSpec(0.1, 0.0),
        "gain": GAIN,
        "threshold": ParameterSpec(20.0),
        "v_reset": ParameterSpec(-70.6),
    },
    ("v", "w"),
    doc="""The adaptive exponential neuron of Brette and Gerstner (2005), in Euler steps.

v ← v + dt/C·(g_l·(Δ·exp((v - v_t)/Δ) - (v - e_l)) - w + g·i) and
w ← w + dt/τ_w·(a·(v - e_l) - w), both with the old v and w; where v ≥ θ it spikes, v ← v_reset
and w ← w + b. Units are mV, ms, nS, pA and pF; C is `capacity`, Δ `delta`, g `gain`, θ
`threshold`. The states are `v` and `w`, which are 0 unless `initial` says otherwise (e_l and 0
at rest). Defaults are those of the paper. Exponentials differ between engines in the last bit.

    %s = spike.adaptive_exponential %i {dt = 1.000000e-01 : f64}
         : (tensor<100x?x256xf32>) -> !spike.train<100x?x256>
""",
)
