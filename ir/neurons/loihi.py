"""Neurons of Loihi 2 in its fixed-point arithmetic, bit by bit as Lava's models `fixed_pt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .adaptive import sigma_delta
from .arithmetic import GeneralArithmetic, Result, Value
from .model import GAIN, NeuronModel, ParameterSpec

DECAY_BITS = 12
"""Bits of the decays; a decay of 2^12 leaves nothing."""

ALIGNMENT = 6
"""Places by which currents and thresholds are moved to the left of u and v."""

STATE_LIMIT = 2**23
"""u and v stay below it, with any sign."""

MOST_THRESHOLD = 2**17 - 1

# Generated modules carry the functions below without the constants above, so they say numbers.


def _decayed(a: GeneralArithmetic[Value], keep: Value, x: Value) -> Value:
    """sign(x)·⌊|x|·keep / 2^12⌋"""
    left = a.shifted(keep, a.magnitude(x), 12)
    return a.choose(a.reaches(x, a.number(0)), left, a.sub(a.number(0), left))


def _wrapped(a: GeneralArithmetic[Value], x: Value) -> Value:
    """Once around, where x leaves (-2^23, 2^23]."""
    above, fits = a.reaches(x, a.number(2**23 + 1)), a.reaches(x, a.number(1 - 2**23))
    low = a.choose(fits, x, a.add(x, a.number(2**24)))
    return a.choose(above, a.sub(x, a.number(2**24)), low)


def _clipped(a: GeneralArithmetic[Value], x: Value) -> Value:
    """x, at most 2^23 - 1 from 0."""
    low = a.sub(a.relu(a.add(x, a.number(2**23 - 1))), a.number(2**24 - 2))
    return a.sub(a.number(2**23 - 1), a.relu(a.sub(a.number(0), low)))


def _charged(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> tuple[Value, Value]:
    """u and v before v is compared."""
    u = _decayed(a, a.sub(a.number(4095), a.parameter("du")), states[0])
    u = _wrapped(a, a.add(u, a.mul(a.number(64), a.driven("gain", x))))
    v = _decayed(a, a.sub(a.number(4096), a.parameter("dv")), states[1])
    return u, _clipped(a, a.add(a.add(v, u), a.parameter("bias")))


def _after(a: GeneralArithmetic[Value], fired: Value, v: Value, level: Value) -> Value:
    """What the reset leaves."""
    return a.choose(fired, a.sub(v, level) if a.options.reset == "subtract" else a.number(0), v)


def loihi_lif(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """Lava's LIF, `PyLifModelBitAcc` of lava-nc 0.10."""
    u, v = _charged(a, x, states)
    level = a.mul(a.number(64), a.parameter("threshold"))
    fired = a.reaches(v, a.add(level, a.number(1)))
    return fired, (u, _after(a, fired, v, level))


def loihi_ternary_lif(
    a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]
) -> Result[Value]:
    """Lava's TernaryLIF, `PyTernLifModelFixed` of lava-nc 0.10."""
    u, v = _charged(a, x, states)
    high = a.mul(a.number(64), a.parameter("threshold"))
    low = a.mul(a.number(64), a.parameter("threshold_low"))
    below, above = a.reaches(a.sub(low, a.number(1)), v), a.reaches(v, a.add(high, a.number(1)))
    spikes = a.choose(below, a.number(-1), a.as_number(above))
    return spikes, (u, _after(a, above, _after(a, below, v, low), high))


def loihi_sigma_delta(
    a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]
) -> Result[Value]:
    """Lava's SigmaDelta, `PySigmaDeltaModelFixed` of lava-nc 0.10."""
    sent, after = sigma_delta(a, x, states)
    return a.shifted(a.number(1), sent, a.options.shift), after


_PARAMETERS: Mapping[str, ParameterSpec] = {
    "du": ParameterSpec(None, 0.0, 2**DECAY_BITS - 1),
    "dv": ParameterSpec(None, 0.0, 2**DECAY_BITS - 1),
    "bias": ParameterSpec(0.0, 1 - STATE_LIMIT, STATE_LIMIT - 1),
    "gain": GAIN,
    "threshold": ParameterSpec(None, 0.0, MOST_THRESHOLD),
}

LOIHI_LIF = NeuronModel(
    loihi_lif,
    "Loihi's leaky integrate-and-fire neurons.",
    _PARAMETERS,
    ("u", "v"),
    options=("reset",),
    on_floats=False,
    on_integers=True,
)
LOIHI_TERNARY_LIF = NeuronModel(
    loihi_ternary_lif,
    "The same with spikes of -1 and 1.",
    {**_PARAMETERS, "threshold_low": ParameterSpec(None, -MOST_THRESHOLD, 0.0)},
    ("u", "v"),
    options=("reset",),
    spikes=False,
    on_floats=False,
    on_integers=True,
)
LOIHI_SIGMA_DELTA = NeuronModel(
    loihi_sigma_delta,
    "Graded spikes of whole numbers: of sums of what comes in, changes alone are sent on.",
    {
        "gain": GAIN,
        "bias": ParameterSpec(0.0, 1 - STATE_LIMIT, STATE_LIMIT - 1),
        "threshold": ParameterSpec(1.0, 0.0, STATE_LIMIT - 1),
    },
    ("sigma", "y", "r", "e"),
    options=("activation", "cumulative", "shift"),
    spikes=False,
    on_floats=False,
    on_integers=True,
)
