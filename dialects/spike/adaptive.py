"""Neurons that adapt: `adaptive_lif` raises its threshold, `sigma_delta` sends changes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    prop_def,
)

from ..inference import fail
from ..shapes import AnyTensor
from .neuron import (
    COMPARISONS,
    DECAY,
    GAIN,
    LEVEL,
    THRESHOLD,
    FiringOp,
    NeuronOp,
    ParameterSpec,
    neuron_definition,
)

ACTIVATIONS = ("none", "relu")


@neuron_definition
class AdaptiveLifOp(FiringOp):
    """A leaky neuron whose threshold rises with its own spikes.

    As Bellec et al. 2018 (LSNN): v ← β·v + (1-β)·v_leak + g·i; Θ = θ + κ·a; s = [v ≥ Θ];
    `subtract` v ← v - Θ·s, `to_value` v ← v_reset where s, `none`; last a ← ρ·a + (1-ρ)·s. θ is
    `threshold`, κ `kappa`, ρ `rho`; the states are `v` and `a`.

        %s = spike.adaptive_lif %i {beta = 9.000000e-01 : f64, rho = 9.900000e-01 : f64,
             kappa = 1.800000e+00 : f64} : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
    """

    name = "spike.adaptive_lif"

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]] = {
        "beta": DECAY,
        "rho": DECAY,
        "kappa": ParameterSpec(),
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    }
    STATES: ClassVar[tuple[str, ...]] = ("v", "a")


@neuron_definition
class SigmaDeltaOp(NeuronOp):
    """Sums what it receives and sends what changed, as graded spikes (Lava's SigmaDelta).

    σ ← σ + g·i; y = f(σ + b); δ = y - y_last + r; where |δ| ≥ θ (`cumulative`: where |e| ≥ θ after
    e ← e + δ) it sends δ, elsewhere 0; then r ← δ - sent, y_last ← y, and `cumulative` e ← 0 where
    it sent something. f is `activation`: `none`, `relu`. b is `bias`, θ `threshold`; the result is
    a dense tensor of what was sent, and its sum over time follows y within θ. The states are
    `sigma`, `y`, `r` and `e` (which stays 0 unless `cumulative`).

        %d = spike.sigma_delta %i {threshold = 1.000000e-01 : f64}
             : (tensor<32x?x256xf32>) -> tensor<32x?x256xf32>
    """

    name = "spike.sigma_delta"

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]] = {
        "gain": GAIN,
        "bias": LEVEL,
        "threshold": THRESHOLD,
    }
    STATES: ClassVar[tuple[str, ...]] = ("sigma", "y", "r", "e")

    compare = prop_def(StringAttr, default_value=StringAttr("ge"))
    activation = prop_def(StringAttr, default_value=StringAttr("relu"))
    cumulative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def infer(self) -> Sequence[Attribute]:
        for what, value, allowed in (
            ("compare", self.compare.data, COMPARISONS),
            ("activation", self.activation.data, ACTIVATIONS),
        ):
            if value not in allowed:
                fail(f"expects {what} one of {', '.join(allowed)}, got '{value}'")
        return super().infer()

    def output_type(self, input: AnyTensor) -> Attribute:
        return input
