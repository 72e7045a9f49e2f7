"""Neurons that adapt: `adaptive_lif` raises its threshold, `sigma_delta` sends changes alone."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.irdl import prop_def

from ...ir.neurons.adaptive import ADAPTIVE_LIF, SIGMA_DELTA
from .neuron import FiringOp, NeuronOp, neuron_definition


@neuron_definition(ADAPTIVE_LIF)
class AdaptiveLifOp(FiringOp):
    """A leaky neuron whose threshold rises with its own spikes.

    As Bellec et al. 2018 (LSNN): v ← β·v + (1-β)·v_leak + g·i; Θ = θ + κ·a; s = [v ≥ Θ];
    `subtract` v ← v - Θ·s, `to_value` v ← v_reset where s, `none`; last a ← ρ·a + (1-ρ)·s. θ is
    `threshold`, κ `kappa`, ρ `rho`; the states are `v` and `a`.

        %s = spike.adaptive_lif %i {beta = 9.000000e-01 : f64, rho = 9.900000e-01 : f64,
             kappa = 1.800000e+00 : f64} : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
    """


@neuron_definition(SIGMA_DELTA)
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

    compare = prop_def(StringAttr, default_value=StringAttr("ge"))
    activation = prop_def(StringAttr, default_value=StringAttr("relu"))
    cumulative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
