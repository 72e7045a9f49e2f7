"""A spiking layer as one op: `spike.layer` holds a synapse and the neurons that it feeds."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Region
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail
from ..shapes import compatible
from .body import BodyOp, YieldOp
from .neuron import NeuronOp
from .synapses import SIGNAL, ConvOp, LinearOp
from .types import TrainType


@irdl_op_definition
class LayerOp(BodyOp):
    """One synapse and the neurons on its result, for targets that have both as one kernel.

    The meaning is that of the body: a `spike.linear` or `spike.conv`, then one neuron whose input
    is the synapse's result, then `spike.yield` of the neuron's results. The arguments of the body
    are the inputs. `fuse-spike` makes layers, `inline-spike-layers` takes them apart again.

        %s = spike.layer %x, %w
             : (!spike.train<32x?x784>, tensor<784x10xf32>) -> !spike.train<32x?x10> {
             ^bb0(%a: !spike.train<32x?x784>, %b: tensor<784x10xf32>):
               %i = spike.linear %a, %b
                    : !spike.train<32x?x784>, tensor<784x10xf32> -> tensor<32x?x10xf32>
               %o = spike.lif %i {beta = 9.000000e-01 : f64}
                    : (tensor<32x?x10xf32>) -> !spike.train<32x?x10>
               spike.yield %o : !spike.train<32x?x10>
             }
    """

    name = "spike.layer"

    inputs = var_operand_def(SIGNAL)
    outputs = var_result_def(BaseAttr(TrainType) | BaseAttr(TensorType))

    assembly_format = "$inputs attr-dict-with-keyword `:` functional-type($inputs, results) $body"

    def __init__(self, inputs: Sequence[Value], body: Region | Block) -> None:
        region = Region(body) if isinstance(body, Block) else body
        end = region.block.last_op
        if end is None or not end.operands:
            raise VerifyException(f"'{self.name}' expects a body that ends in spike.yield")
        IRDLOperation.__init__(
            self,
            operands=[inputs],
            result_types=[[value.type for value in end.operands]],
            regions=[region],
        )

    def synapse(self) -> LinearOp | ConvOp:
        """The synapse of the body."""
        first = self.body.block.first_op
        assert isinstance(first, LinearOp | ConvOp)
        return first

    def neuron(self) -> NeuronOp:
        """The neurons of the body."""
        second = self.synapse().next_op
        assert isinstance(second, NeuronOp)
        return second

    def infer(self) -> Sequence[Attribute]:
        block = self.body.block
        names = [op.name for op in block.ops]
        ops = list(block.ops)
        if not (
            len(ops) == 3
            and isinstance(ops[0], LinearOp | ConvOp)
            and isinstance(ops[1], NeuronOp)
            and isinstance(ops[2], YieldOp)
        ):
            fail(f"expects a body of a synapse, a neuron and spike.yield, got {', '.join(names)}")
        if ops[1].input is not ops[0].result:
            fail(f"expects the synapse's result as the input of '{ops[1].name}'")
        if list(ops[2].operands) != list(ops[1].results):
            fail(f"expects to yield the results of '{ops[1].name}', all of them in order")
        if len(block.args) != len(self.inputs):
            fail(f"expects a body of {len(self.inputs)} arguments, got {len(block.args)}")
        for index, (argument, value) in enumerate(zip(block.args, self.inputs, strict=True)):
            if not compatible(argument.type, value.type):
                fail(f"expects argument {index} of the body as {value.type}, got {argument.type}")
        return [value.type for value in ops[2].operands]
