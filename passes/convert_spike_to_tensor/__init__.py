"""The pass `convert-spike-to-tensor`: ops on trains as ops on tensors of truth values.

`synapses`, `coding` and `neurons` hold the rules, `tensor_builder` what they build with. Not here:
networks (`lower-network`), layers (`inline-spike-layers`) and event-driven synapses, which stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ...dialects import spike
from ...ir.errors import OptionError
from ..analysis.event_products import event_kind
from ..analysis.replacement import replace_results
from . import coding, neurons, synapses
from .tensor_builder import Builder, Values

Rule = Callable[[Builder, Any], "Values | None"]
"""What takes the place of an op's results; `None` if it stays."""

RULES: Mapping[type[Operation], Rule] = {
    spike.LinearOp: synapses.linear,
    spike.ConvOp: synapses.conv,
    spike.AvgPoolOp: synapses.avg_pool,
    spike.MaxPoolOp: synapses.max_pool,
    spike.DelayOp: synapses.delay,
    spike.BatchNormOp: synapses.batch_norm,
    spike.AttentionOp: synapses.attention,
    spike.ToTensorOp: coding.to_tensor,
    spike.FromTensorOp: coding.from_tensor,
    spike.DecodeOp: coding.decode,
    spike.EncodeOp: coding.encode,
}
"""For each op the function that builds what takes its place."""

CHOICES = {
    "products": ("dense", "event", "sums"),
    "neurons": ("stay", "loop"),
    "resets": ("choice", "product"),
    "spikes": ("bits", "floats"),
}
"""The values of each option."""


@dataclass(frozen=True)
class ConvertSpikeToTensorPass(ModulePass):
    """Make ops on spike trains ops on tensors, between trains of neurons and tensors.

    Every bit of the results stays, but for sums of floats, which have no fixed order.

    What stays as it is: neurons, by default; `spike.layer`, `spike.recurrent`, `spike.scan`;
    `spike.to_tensor` to and `spike.from_tensor` from truth values, which do nothing; random spikes
    (`spike.encode` by `rate`).

        %i = spike.linear %s, %w
             : !spike.train<32x?x784>, tensor<784x10x!ternary.trit> -> tensor<32x?x10xi32>
        // becomes, with products=dense
        %t = spike.to_tensor %s : (!spike.train<32x?x784>) -> tensor<32x?x784xi1>
        %b = tensor.convert %t : (tensor<32x?x784xi1>) -> tensor<32x?x784xi8>
        %i = ternary.matmul %b, %w
             : (tensor<32x?x784xi8>, tensor<784x10x!ternary.trit>) -> tensor<32x?x10xi32>

    Raises:
        OptionError: unknown products.
    """

    name = "convert-spike-to-tensor"

    products: str = "dense"
    """`dense`: synapses become products with all inputs. `event`: synapses of trains with known
    weights stay, for kernels that add up the weights of the inputs that fire. `sums`: the same,
    but scale and bias become ops behind them."""

    neurons: str = "stay"
    """`loop`: a neuron is a `spike.scan` whose body has its equations."""

    resets: str = "choice"
    """What a reset by subtraction is in such a loop: a `choice` of v or v - θ, or v - θ·s, which is
    the same and in some engines faster, by `product`."""

    spikes: str = "bits"
    """What spikes are between trains. `floats`: numbers of f32, by which an engine that trains
    finds gradients, also through exact sums and where they only move; halves are summed in f32."""

    keep: tuple[str, ...] = ()
    """The models of neurons that stay in any case, `lif` and `cuba_lif` say."""

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                wanted = " or ".join(f"{name}={choice}" for choice in choices)
                raise OptionError(f"{self.name} expects {wanted}, got '{value}'")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            rule = self._rule(inner)
            if rule is None or isinstance(inner.parent_op(), spike.LayerOp):
                continue
            values = rule(Builder(inner, self.spikes == "floats"), inner)
            if values is not None:
                replace_results(inner, values)
        for inner in list(op.walk()) if self.neurons == "loop" else ():
            if (
                isinstance(inner, spike.NeuronOp)
                and inner.MODEL.name not in self.keep
                and not isinstance(inner.parent_op(), spike.LayerOp)
            ):
                product = self.resets == "product"
                replace_results(inner, neurons.neuron(Builder(inner), inner, product))

    def _rule(self, op: Operation) -> Rule | None:
        """What takes an op apart; `None` if it stays."""
        if self.products == "dense" or not isinstance(op, spike.LinearOp) or not event_kind(op):
            return RULES.get(type(op))
        bare = op.scale is None and op.bias is None
        return None if bare or self.products == "event" else synapses.summed
