"""Neurons of Loihi 2 in its fixed-point arithmetic, bit by bit as Lava's models `fixed_pt`.

Not here: their steps (`ir.neurons.loihi`), and how a network of floats comes to such numbers
(`lowering.to_loihi2`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, StringAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import prop_def

from ...ir.neurons.loihi import LOIHI_LIF, LOIHI_SIGMA_DELTA, LOIHI_TERNARY_LIF
from ..inference import fail, tensor_type
from .neuron import NeuronOp, check_choice, neuron_definition


class LoihiNeuronOp(NeuronOp, ABC):
    """What Loihi's neurons share: currents of i32."""

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.input)
        if type.element_type != i32:
            fail(f"expects a current of i32, got {type}")
        return super().infer()


class LoihiFiringOp(LoihiNeuronOp, ABC):
    """Those with two states: how v starts again."""

    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))

    def infer(self) -> Sequence[Attribute]:
        check_choice("reset", self.reset.data)
        if self.reset.data == "none":
            fail("expects the reset 'to_value' or 'subtract', got 'none'")
        return super().infer()


@neuron_definition(LOIHI_LIF)
class LoihiLifOp(LoihiFiringOp):
    """Loihi's leaky integrate-and-fire in its 24 bits, as Lava's LIF in fixed point.

    u ← dec(u, du + 1) + 64·g·i, once around where it leaves ±2^23;
    v ← dec(v, dv) + u + bias, at most 2^23 - 1 from 0; s = [v > 64·θ]; then v ← 0 where s, or with
    the `reset` `subtract` v - 64·θ, which Lava lacks. dec(x, d) = sign(x)·⌊|x|·(4096 - d) / 4096⌋.
    θ is `threshold`, of 17 bits; `du` and `dv` have 12; `bias` is bias_mant·2^bias_exp; g is
    `gain`, with which weights of 8 bits stand for larger ones. All parameters are whole numbers.

        %s = spike.loihi_lif %i {du = 409.0 : f64, dv = 410.0 : f64, threshold = 64.0 : f64}
             : (tensor<32x?x256xi32>) -> !spike.train<32x?x256>
    """


@neuron_definition(LOIHI_TERNARY_LIF)
class LoihiTernaryLifOp(LoihiFiringOp):
    """The same with spikes of -1 and 1, as Lava's TernaryLIF in fixed point.

    u and v as for `spike.loihi_lif`; the result is 1 where v > 64·θ, -1 where v < 64·θ', else 0,
    graded spikes of i32; v starts again at 0, or with `subtract` loses the threshold that it
    passed. θ is `threshold`, θ' `threshold_low`, which is at most 0.

        %s = spike.loihi_ternary_lif %i
             {du = 4095.0 : f64, dv = 0.0 : f64, threshold = 9.0 : f64, threshold_low = -9.0 : f64}
             : (tensor<32x?x256xi32>) -> tensor<32x?x256xi32>
    """


@neuron_definition(LOIHI_SIGMA_DELTA)
class LoihiSigmaDeltaOp(LoihiNeuronOp):
    """`spike.sigma_delta` in whole numbers, as Lava's SigmaDelta in fixed point.

    The step is that of `spike.sigma_delta` on i32; what is sent is ⌊δ / 2^shift⌋, so that states
    have `shift` places that messages lack (Lava's `state_exp`). `bias` and `threshold` are in units
    of the states.

        %d = spike.loihi_sigma_delta %i {threshold = 640.0 : f64, shift = 6 : i64}
             : (tensor<32x?x256xi32>) -> tensor<32x?x256xi32>
    """

    activation = prop_def(StringAttr, default_value=StringAttr("relu"))
    cumulative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
