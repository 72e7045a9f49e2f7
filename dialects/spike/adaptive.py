"""Neurons that adapt: `adaptive_lif` raises its threshold, `sigma_delta` sends changes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, Float64Type, FloatAttr, StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail
from ..shapes import AnyTensor
from .neuron import (
    COMPARISONS,
    DECAY,
    GAIN,
    LEVEL,
    THRESHOLD,
    FiringOp,
    NeuronOp,
    Parameter,
    ParameterSpec,
    neuron_format,
)

ACTIVATIONS = ("none", "relu")


@irdl_op_definition
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

    input = operand_def(TensorType)
    initial = var_operand_def(TensorType)
    beta_values = opt_operand_def(TensorType)
    rho_values = opt_operand_def(TensorType)
    kappa_values = opt_operand_def(TensorType)
    v_leak_values = opt_operand_def(TensorType)
    gain_values = opt_operand_def(TensorType)
    threshold_values = opt_operand_def(TensorType)
    v_reset_values = opt_operand_def(TensorType)
    beta = opt_prop_def(FloatAttr[Float64Type])
    rho = opt_prop_def(FloatAttr[Float64Type])
    kappa = opt_prop_def(FloatAttr[Float64Type])
    v_leak = opt_prop_def(FloatAttr[Float64Type])
    gain = opt_prop_def(FloatAttr[Float64Type])
    threshold = opt_prop_def(FloatAttr[Float64Type])
    v_reset = opt_prop_def(FloatAttr[Float64Type])

    assembly_format = neuron_format(*PARAMETERS)

    def __init__(
        self,
        input: Value,
        beta: Parameter,
        rho: Parameter,
        kappa: Parameter,
        *,
        v_leak: Parameter | None = None,
        gain: Parameter | None = None,
        threshold: Parameter | None = None,
        v_reset: Parameter | None = None,
        compare: str = "ge",
        reset: str = "subtract",
        initial: Sequence[Value] = (),
        final: bool = False,
    ) -> None:
        parameters = {
            "beta": beta,
            "rho": rho,
            "kappa": kappa,
            "v_leak": v_leak,
            "gain": gain,
            "threshold": threshold,
            "v_reset": v_reset,
        }
        self.build_firing(input, parameters, initial, final, compare, reset)


@irdl_op_definition
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

    input = operand_def(TensorType)
    initial = var_operand_def(TensorType)
    gain_values = opt_operand_def(TensorType)
    bias_values = opt_operand_def(TensorType)
    threshold_values = opt_operand_def(TensorType)
    gain = opt_prop_def(FloatAttr[Float64Type])
    bias = opt_prop_def(FloatAttr[Float64Type])
    threshold = opt_prop_def(FloatAttr[Float64Type])
    compare = prop_def(StringAttr, default_value=StringAttr("ge"))
    activation = prop_def(StringAttr, default_value=StringAttr("relu"))
    cumulative = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = neuron_format(*PARAMETERS)

    def __init__(
        self,
        input: Value,
        *,
        gain: Parameter | None = None,
        bias: Parameter | None = None,
        threshold: Parameter | None = None,
        compare: str = "ge",
        activation: str = "relu",
        cumulative: bool = False,
        initial: Sequence[Value] = (),
        final: bool = False,
    ) -> None:
        self.build_neuron(
            input,
            {"gain": gain, "bias": bias, "threshold": threshold},
            initial,
            final,
            {
                "compare": StringAttr(compare),
                "activation": StringAttr(activation),
                "cumulative": BoolAttr.from_bool(cumulative),
            },
        )

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
