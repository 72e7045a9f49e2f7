"""The pass `quantize-spike`: weights of synapses become i8 or trits, neurons integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i8
from xdsl.passes import ModulePass

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.spike.rebuild import rebuilt
from ...dialects.spike.types import is_train
from ...dialects.ternary.storage import RULES, SCALES
from ...ir.errors import OptionError, expect_from, expect_one_of
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.layers import Synapse, is_conv
from ..analysis.replacement import erase_unused, replace
from ..ternarize.ternarize import TernarizePass
from .integer_neurons import IntegerNeuron, new_value

WEIGHTS = ("int8", "ternary")


@dataclass(frozen=True)
class QuantizeSpikePass(ModulePass):
    """Give synapses of spikes i8 or ternary weights, and integrate-and-fire neurons integers.

    A float weight w becomes round(w/s), with one s for each output channel (or the tensor) such
    that the largest is 2^(bits-1) - 1; sums of spikes are exact in i32. Neurons that leak, and all
    else, get floats: s is the scale of the synapse. `spike.integrate_fire` that alone uses the
    synapse computes on the integers themselves, in units of s·gain: s is made a little larger, so
    that the threshold is a whole number of units; a bias and an initial state are rounded to units.
    Where it does not subtract its threshold, and resets to 0, no s needs changing.

        // quantize-spike, with a threshold of 1 and weights of 0.5 at most
        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
        %s = spike.integrate_fire %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
        // becomes
        %i = spike.linear %x, %w8 : !spike.train<?x?x8>, tensor<8x4xi8> -> tensor<?x?x4xi32>
        %s = spike.integrate_fire %i {threshold = 254.0 : f64}
             : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>

    `weights=ternary` makes trits, by the rules of `ternarize`, whose scale is not free: neurons
    become integers where the threshold is a whole number of units, or is not subtracted. The result
    is another network; weights that are not known (run `fold-constants` before) stay.

    Raises:
        OptionError: bits outside 2 to 8, unknown weights, scale or rule, or options that do not go
            with the weights.
    """

    name = "quantize-spike"
    approximate: ClassVar[bool] = True
    """The result is another one; checks of passes report by how much, and go on from it."""

    bits: int = 8
    """Bits of a weight, 2 to 8."""

    weights: str = "int8"
    """`int8`, or `ternary`."""

    scale: str = "channel"
    """`channel` (one factor an output channel) or `tensor`; for ternary weights `none` too."""

    rule: str | None = None
    """The rule of ternary weights, as of `ternarize`: `twn` or `absmean`."""

    integers: bool = True
    """Whether neurons become integers where they can."""

    def __post_init__(self) -> None:
        is_ternary = self.weights == "ternary"
        scales = SCALES if is_ternary else tuple(s for s in SCALES if s != "none")
        rules = tuple(rule for rule in RULES if rule != "fixed")
        expect_one_of("quantize-spike expects weights", self.weights, WEIGHTS)
        expect_one_of("quantize-spike expects scale", self.scale, scales)
        if self.rule is not None:
            expect_one_of("quantize-spike expects rule", self.rule, rules)
        expect_from("quantize-spike expects bits", self.bits, 2, 8)
        if self.rule is not None and not is_ternary:
            raise OptionError("quantize-spike takes a rule with weights=ternary alone")
        if self.bits != 8 and is_ternary:
            raise OptionError("quantize-spike takes bits with weights=int8 alone")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chosen = [inner for inner in op.walk() if isinstance(inner, Synapse) and _takes(inner)]
        if self.weights == "ternary":
            TernarizePass(rule=self.rule, scale=self.scale).ternarize(chosen)
        else:
            for synapse in chosen:
                self._quantize(synapse)
        if self.integers:
            for synapse in list(op.walk()):
                if isinstance(synapse, Synapse):
                    neuron = IntegerNeuron.of(synapse)
                    if neuron is not None:
                        neuron.take_units()
        erase_unused([inner for inner in op.walk() if is_literal(inner)])

    def _quantize(self, synapse: Synapse) -> None:
        weight = literal_value(synapse.weight)
        if weight is None:
            return
        most = 2 ** (self.bits - 1) - 1
        axes = tuple(range(1, weight.ndim)) if is_conv(synapse) else (0,)
        wide = weight.astype(np.float64)
        largest: Array = np.asarray(np.abs(wide).max(axis=axes, initial=0))
        if self.scale == "tensor":
            largest = np.full_like(largest, largest.max(initial=0))
        units: Array = np.where(largest > 0, largest, most) / most
        neuron = IntegerNeuron.of(synapse) if self.integers else None
        if neuron is not None and neuron.op.reset.data == "subtract":
            units = neuron.fitted(units)
        # The scale of the program is f32, and so are the units that weights are rounded to.
        units = units.astype(np.float32).astype(np.float64)
        column = (-1, *[1] * (weight.ndim - 1)) if is_conv(synapse) else (1, -1)
        rounded = np.clip(np.rint(wide / units.reshape(column)), -most, most).astype(np.int8)
        weights = new_value(synapse, "i8", rounded, i8)
        scale = new_value(synapse, "scale", units.astype(np.float32), f32)
        replace(synapse, rebuilt(synapse, {"weight": [weights], "scale": [scale]}))


def _takes(synapse: Synapse) -> bool:
    """Whether a synapse of spikes has float weights that are literals, and no scale."""
    return (
        is_train(synapse.input)
        and not isinstance(synapse.parent_op(), spike.LayerOp)
        and synapse.scale is None
        and tensor_type(synapse.weight).element_type == f32
        and isinstance(synapse.weight.owner, tensor.ParameterOp | tensor.ConstantOp)
    )
