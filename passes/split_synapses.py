"""The pass `split-synapses`: products of trains side by side become sums of products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.shapes import DYNAMIC
from .analysis.compile_time import literal_value
from .analysis.replacement import erase_unused, replace_results
from .fuse_pools import added, stored_weights


@dataclass(frozen=True)
class SplitSynapsesPass(ModulePass):
    """Make a sum of products of the product of weights with several trains side by side.

    Neurons of chips hear populations, each by weights of its own, and no joined ones. The rows of
    the weights that read a train are those of its product:

        %j = tensor.concatenate %a, %b {axis = 2 : i64}
             : (tensor<4x?x3xi1>, tensor<4x?x5xi1>) -> tensor<4x?x8xi1>
        %s = spike.from_tensor %j : (tensor<4x?x8xi1>) -> !spike.train<4x?x8>
        %i = spike.linear %s, %w : !spike.train<4x?x8>, tensor<8x2xf32> -> tensor<4x?x2xf32>
        // becomes
        %p = spike.linear %a', %v : !spike.train<4x?x3>, tensor<3x2xf32> -> tensor<4x?x2xf32>
        %q = spike.linear %b', %u : !spike.train<4x?x5>, tensor<5x2xf32> -> tensor<4x?x2xf32>
        %i = tensor.add %p, %q

    Channels side by side may be flattened before a `spike.linear`. The results stay what they were,
    up to the order of sums. Grouped convolutions, and weights that are computed, stay as they are.
    """

    name = "split-synapses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, spike.LinearOp):
                _split(inner, 0)
            elif isinstance(inner, spike.ConvOp) and inner.groups.value.data == 1:
                _split(inner, 1)


def _split(op: spike.LinearOp | spike.ConvOp, axis: int) -> None:
    """Split a product whose weights count inputs along `axis`."""
    whole, weights = op.input.owner, literal_value(op.weight)
    if not isinstance(whole, spike.FromTensorOp) or weights is None:
        return
    type, passed = tensor_type(whole.operand), list[Operation]([whole])
    joined, is_flat = whole.operand.owner, False
    if (isinstance(joined, tensor.FlattenOp) and joined.start.value.data == 2) or (
        isinstance(joined, tensor.ReshapeToOp) and joined.shape.get_values()[:2] == (-2, -3)
    ):
        passed.append(joined)
        joined, is_flat = joined.operand.owner, True
    if not isinstance(joined, tensor.ConcatenateOp) or joined.axis.value.data != 2:
        return
    if type.get_num_dims() != 3 if isinstance(op, spike.LinearOp) else is_flat:
        return
    shapes = [tensor_type(part).get_shape() for part in joined.inputs]
    if any(DYNAMIC in (shape[2:] if is_flat else shape[2:3]) for shape in shapes):
        return
    counts = [prod(shape[2:]) if is_flat else shape[2] for shape in shapes]
    if sum(counts) != weights.shape[axis]:
        return
    ends = np.cumsum(counts)[:-1]
    terms = list[SSAValue]()
    for part, values in zip(joined.inputs, np.split(weights, ends, axis), strict=True):
        if is_flat:
            part = added(op, tensor.ReshapeToOp(part, [-2, -3, len(values)]))
        train = added(op, spike.FromTensorOp(part))
        bias = None if terms else op.bias
        stored = stored_weights(op, values, f"{len(terms)}")
        term = (
            spike.LinearOp(train, stored, scale=op.scale, bias=bias)
            if isinstance(op, spike.LinearOp)
            else spike.ConvOp(train, stored, scale=op.scale, bias=bias, **op.window)
        )
        terms.append(added(op, term))
    replace_results(op, [reduce(lambda total, term: added(op, tensor.AddOp(total, term)), terms)])
    erase_unused([joined, *reversed(passed)])
