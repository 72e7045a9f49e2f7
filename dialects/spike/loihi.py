"""Neurons of Loihi 2 in its fixed-point arithmetic, bit by bit as Lava's models `fixed_pt`.

Not here: how a network of floats comes to such numbers (`lowering.to_loihi2`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import prop_def

from ..inference import fail, tensor_type
from ..neuron_equations import GeneralArithmetic, Result, Value
from ..shapes import AnyTensor
from .neuron import GAIN, NeuronOp, ParameterSpec, check_firing, neuron_definition

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


_PARAMETERS: Mapping[str, ParameterSpec] = {
    "du": ParameterSpec(None, 0.0, 2**DECAY_BITS - 1),
    "dv": ParameterSpec(None, 0.0, 2**DECAY_BITS - 1),
    "bias": ParameterSpec(0.0, 1 - STATE_LIMIT, STATE_LIMIT - 1),
    "gain": GAIN,
    "threshold": ParameterSpec(None, 0.0, MOST_THRESHOLD),
}


class LoihiNeuronOp(NeuronOp, ABC):
    """What Loihi's neurons share: currents of i32, two states, and how v starts again."""

    STATES: ClassVar[tuple[str, ...]] = ("u", "v")
    ON_INTEGERS: ClassVar[bool] = True

    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.input)
        if type.element_type != i32:
            fail(f"expects a current of i32, got {type}")
        check_firing("ge", self.reset.data)
        if self.reset.data == "none":
            fail("expects the reset 'to_value' or 'subtract', got 'none'")
        return super().infer()


@neuron_definition
class LoihiLifOp(LoihiNeuronOp):
    """Loihi's leaky integrate-and-fire in its 24 bits, as Lava's LIF in fixed point.

    u ← dec(u, du + 1) + 64·g·i, once around where it leaves ±2^23;
    v ← dec(v, dv) + u + bias, at most 2^23 - 1 from 0; s = [v > 64·θ]; then v ← 0 where s, or with
    the `reset` `subtract` v - 64·θ, which Lava lacks. dec(x, d) = sign(x)·⌊|x|·(4096 - d) / 4096⌋.
    θ is `threshold`, of 17 bits; `du` and `dv` have 12; `bias` is bias_mant·2^bias_exp; g is
    `gain`, with which weights of 8 bits stand for larger ones. All parameters are whole numbers.

        %s = spike.loihi_lif %i {du = 409.0 : f64, dv = 410.0 : f64, threshold = 64.0 : f64}
             : (tensor<32x?x256xi32>) -> !spike.train<32x?x256>
    """

    name = "spike.loihi_lif"

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]] = _PARAMETERS
    STEP = staticmethod(loihi_lif)


@neuron_definition
class LoihiTernaryLifOp(LoihiNeuronOp):
    """The same with spikes of -1 and 1, as Lava's TernaryLIF in fixed point.

    u and v as for `spike.loihi_lif`; the result is 1 where v > 64·θ, -1 where v < 64·θ', else 0,
    graded spikes of i32; v starts again at 0, or with `subtract` loses the threshold that it
    passed. θ is `threshold`, θ' `threshold_low`, which is at most 0.

        %s = spike.loihi_ternary_lif %i
             {du = 4095.0 : f64, dv = 0.0 : f64, threshold = 9.0 : f64, threshold_low = -9.0 : f64}
             : (tensor<32x?x256xi32>) -> tensor<32x?x256xi32>
    """

    name = "spike.loihi_ternary_lif"

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]] = {
        **_PARAMETERS,
        "threshold_low": ParameterSpec(None, -MOST_THRESHOLD, 0.0),
    }
    STEP = staticmethod(loihi_ternary_lif)

    def output_type(self, input: AnyTensor) -> Attribute:
        return input
