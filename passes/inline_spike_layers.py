"""The pass `inline-spike-layers`: the synapse and the neurons of a layer as ops of their own."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike
from .analysis.replacement import insert_before, replace_results


@dataclass(frozen=True)
class InlineSpikeLayersPass(ModulePass):
    """Put the body of every `spike.layer` in its place, for targets without a kernel for layers.

        %s = spike.layer %x, %w
             : (!spike.train<?x?x8>, tensor<8x4xf32>) -> !spike.train<?x?x4> {
        ^bb0(%a: !spike.train<?x?x8>, %b: tensor<8x4xf32>):
          %i = spike.linear %a, %b : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
          %o = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
          spike.yield %o : !spike.train<?x?x4>
        }
        // becomes
        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
        %s = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>

    Every bit of the results stays.
    """

    name = "inline-spike-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for layer in list(op.walk()):
            if isinstance(layer, spike.LayerOp):
                inline(layer)


def inline(layer: spike.LayerOp) -> None:
    """Put the body of a layer in its place."""
    block = layer.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, layer.inputs, strict=True))
    for op in (layer.synapse(), layer.neuron()):
        copy = op.clone(values)
        insert_before(layer, copy, op)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
        values.update(zip(op.results, copy.results, strict=True))
    end = block.last_op
    assert isinstance(end, Operation)
    replace_results(layer, [values[value] for value in end.operands])
