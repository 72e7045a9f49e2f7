"""A neuron that rests after a spike."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import GeneralArithmetic, Result, Value
from .model import FIRES, GAIN, LEVEL, THRESHOLD, NeuronModel, ParameterSpec, decay


def refractory_lif(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky neuron that neither integrates nor fires for `period` steps after a spike."""
    v, wait = states
    free = a.is_zero(wait)
    v = a.choose(free, a.add(a.leak(v), a.driven("gain", x)), v)
    spikes = a.both(free, a.reaches(v, a.parameter("threshold")))
    v = a.after(spikes, v, a.parameter("threshold"))
    return spikes, (v, a.choose(spikes, a.parameter("period"), a.relu(a.sub(wait, a.number(1.0)))))


REFRACTORY_LIF = NeuronModel(
    refractory_lif,
    "Leaky neurons that rest for `period` steps after a spike.",
    {
        "beta": decay("tau"),
        "period": ParameterSpec(None, 0.0, usual=5.0),
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    },
    ("v", "n"),
    options=(*FIRES, "shift"),
    on_integers=True,
    doc="""A leaky neuron that rests for p steps after each spike: it neither integrates nor fires.

Where n = 0: v ← β·v + (1-β)·v_leak + g·i; s = [v ≥ θ and n = 0]; then the reset of
`spike.lif`, and n ← p where s, else max(n - 1, 0). p is `period`, a whole number of steps; the
states are `v` and `n`. A refractory period as in norse's LIFRefrac and Brian2's
`unless refractory`. On integers all is exact and wraps around; with a `shift`, β is a whole
number of 2^-shift, β·v is rounded down, and `v_leak` is 0.

    %s = spike.refractory_lif %i {beta = 9.000000e-01 : f64, period = 3.000000e+00 : f64}
         : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
""",
)
