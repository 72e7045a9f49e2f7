"""Neurons of Loihi 2 in its fixed-point arithmetic, bit by bit as Lava's models `fixed_pt`.

Not here: their steps (`ir.neurons.loihi`), and how a network of floats comes to such numbers
(`lowering.to_loihi2`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import prop_def

from ...ir.neurons.loihi import LOIHI_LIF, LOIHI_TERNARY_LIF
from ..inference import fail, tensor_type
from .neuron import NeuronOp, check_choice, neuron_definition


class LoihiNeuronOp(NeuronOp, ABC):
    """What Loihi's neurons share: currents of i32, two states, and how v starts again."""

    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.input)
        if type.element_type != i32:
            fail(f"expects a current of i32, got {type}")
        check_choice("reset", self.reset.data)
        if self.reset.data == "none":
            fail("expects the reset 'to_value' or 'subtract', got 'none'")
        return super().infer()


@neuron_definition(LOIHI_LIF)
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


@neuron_definition(LOIHI_TERNARY_LIF)
class LoihiTernaryLifOp(LoihiNeuronOp):
    """The same with spikes of -1 and 1, as Lava's TernaryLIF in fixed point.

    u and v as for `spike.loihi_lif`; the result is 1 where v > 64·θ, -1 where v < 64·θ', else 0,
    graded spikes of i32; v starts again at 0, or with `subtract` loses the threshold that it
    passed. θ is `threshold`, θ' `threshold_low`, which is at most 0.

        %s = spike.loihi_ternary_lif %i
             {du = 4095.0 : f64, dv = 0.0 : f64, threshold = 9.0 : f64, threshold_low = -9.0 : f64}
             : (tensor<32x?x256xi32>) -> tensor<32x?x256xi32>
    """
