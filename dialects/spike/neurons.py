"""Neurons with a fixed threshold: integrate-and-fire, leaky, current-based, and the integrator.

Each runs over all steps of its input. Order within a step: decay and integrate, compare, fire,
reset. Neurons that adapt stand in `adaptive`; the shared rules in `neuron`, the models in
`ir.neurons`.
"""

from __future__ import annotations

from ...ir.neurons.fixed_threshold import CUBA_LIF, INTEGRATE_FIRE, LEAKY_INTEGRATOR, LIF
from .neuron import FiringOp, NeuronOp, neuron_definition


@neuron_definition(LIF)
class LifOp(FiringOp):
    """Leaky integrate-and-fire: v ← β·v + (1-β)·v_leak + g·i; s = [v ≥ θ]; then reset.

    β is `beta`, g `gain`, θ `threshold`. β = 1 - dt/τ (Euler) or exp(-dt/τ) (exact): whoever makes
    the op says which by the number. NIR's LIF (Pedersen et al. 2024, τ·v̇ = v_leak - v + R·i) is
    g = R·(1-β), `gt`, `to_value`; SpikingJelly's LIFNode with τ is β = 1 - 1/τ, g = 1/τ; snnTorch's
    Leaky is g = 1, `gt`; its `zero` is `to_value`, but its `subtract` takes θ off a step later.
    `reset`: `subtract` v ← v - θ·s, `to_value` v ← v_reset where s, `none`.

        %s = spike.lif %i {beta = 9.000000e-01 : f64}
             : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
    """


@neuron_definition(INTEGRATE_FIRE)
class IntegrateFireOp(FiringOp):
    """Integrate-and-fire without leak: v ← v + g·i; s = [v ≥ θ]; then reset.

    g is `gain`, θ `threshold`; `compare` and `reset` as for `spike.lif`. NIR's IF (v̇ = R·i) is
    g = R·dt, `gt`, `to_value`. On integer currents everything is exact integer arithmetic that
    wraps around, and parameters are whole numbers.

        %s = spike.integrate_fire %i {threshold = 7.000000e+00 : f64}
             : (tensor<32x?x256xi32>) -> !spike.train<32x?x256>
    """


@neuron_definition(CUBA_LIF)
class CubaLifOp(FiringOp):
    """Leaky integrate-and-fire on a synaptic current that decays by itself.

    c ← α·c + w·i; v ← β·v + (1-β)·v_leak + g·c with the new c; s = [v ≥ θ]; then reset of v.
    α is `alpha`, w `w_in`, the others as for `spike.lif`; the states are `c` and `v`. snnTorch's
    Synaptic is w = g = 1; NIR's CubaLIF (τ_syn·ċ = w·i - c, τ_mem·v̇ = v_leak - v + R·c) in Euler
    steps is α = 1 - dt/τ_syn, w = w_in·dt/τ_syn, β = 1 - dt/τ_mem, g = R·dt/τ_mem.

        %s = spike.cuba_lif %i {alpha = 8.000000e-01 : f64, beta = 9.000000e-01 : f64}
             : (tensor<32x?x256xf32>) -> !spike.train<32x?x256>
    """


@neuron_definition(LEAKY_INTEGRATOR)
class LeakyIntegratorOp(NeuronOp):
    """A neuron that never fires: v ← β·v + (1-β)·v_leak + g·i; the result is v after each step.

    β is `beta`, g `gain`; β = 1 is a plain integrator. NIR's LI (τ·v̇ = v_leak - v + R·i) in Euler
    steps is β = 1 - dt/τ, g = R·dt/τ; its CubaLI is two of them, one after the other.

        %v = spike.leaky_integrator %i {beta = 9.000000e-01 : f64}
             : (tensor<32x?x10xf32>) -> tensor<32x?x10xf32>
    """
