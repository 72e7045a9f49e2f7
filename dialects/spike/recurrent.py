"""Feedback: `spike.recurrent` runs a body that sees its own result of the step before."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    opt_operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail
from ..shapes import compatible
from .body import BodyOp, YieldOp
from .synapses import SIGNAL
from .types import like, time_first


@irdl_op_definition
class RecurrentOp(BodyOp):
    """y = body(inputs, feedback) with feedback[t] = y[t-1], a unit delay; before it `initial` or 0.

    The body is a function on whole runs: its arguments are the inputs, then the feedback, which has
    the type of y, the first value that it yields. Further yielded values (final states) are further
    results. The ops of the body must be pure and causal: what they give at a step depends on that
    step and those before, so that the equation has one solution, which a target finds step by step.
    Unknown sizes of y are those of the first input on the same axis.

        %y = spike.recurrent %i, %w
             : (tensor<32x?x4xf32>, tensor<4x4xf32>) -> !spike.train<32x?x4> {
             ^bb0(%x: tensor<32x?x4xf32>, %r: tensor<4x4xf32>, %last: !spike.train<32x?x4>):
               %f = spike.linear %last, %r
                    : !spike.train<32x?x4>, tensor<4x4xf32> -> tensor<32x?x4xf32>
               %c = tensor.add %x, %f
                    : (tensor<32x?x4xf32>, tensor<32x?x4xf32>) -> tensor<32x?x4xf32>
               %s = spike.lif %c {beta = 9.000000e-01 : f64}
                    : (tensor<32x?x4xf32>) -> !spike.train<32x?x4>
               spike.yield %s : !spike.train<32x?x4>
             }
    """

    name = "spike.recurrent"

    inputs = var_operand_def(SIGNAL)
    initial = opt_operand_def(SIGNAL)
    output = result_def(SIGNAL)
    others = var_result_def(SIGNAL)

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$inputs (`initial` `(` $initial^ `:` type($initial) `)`)? attr-dict "
        "`:` functional-type($inputs, results) $body"
    )

    def __init__(
        self,
        inputs: Sequence[Value],
        body: Region | Block,
        *,
        initial: Value | None = None,
    ) -> None:
        region = Region(body) if isinstance(body, Block) else body
        end = region.block.last_op
        types = [] if end is None else [value.type for value in end.operands]
        if not types:
            raise VerifyException(f"'{self.name}' expects a body that ends in spike.yield")
        IRDLOperation.__init__(
            self,
            operands=[inputs, initial],
            result_types=[types[0], types[1:]],
            regions=[region],
        )

    def infer(self) -> Sequence[Attribute]:
        block = self.body.block
        end = block.last_op
        if not isinstance(end, YieldOp) or not end.operands:
            fail("expects a body that ends in spike.yield with at least one value")
        if not self.inputs:
            fail("expects at least one input")
        yielded = [value.type for value in end.operands]
        time_first(end.operands[0])
        time_first(self.inputs[0])
        wanted = [*(value.type for value in self.inputs), yielded[0]]
        if len(block.args) != len(wanted):
            fail(f"expects a body of {len(wanted)} arguments, got {len(block.args)}")
        for index, (argument, type) in enumerate(zip(block.args, wanted, strict=True)):
            if not compatible(argument.type, type):
                what = "the feedback" if argument is block.args[-1] else f"argument {index}"
                fail(f"expects {what} of the body as {type}, got {argument.type}")
        if self.initial is not None:
            step = like(end.operands[0], (1, *time_first(end.operands[0]).get_shape()[1:]))
            if not compatible(self.initial.type, step):
                fail(f"expects one initial step as {step}, got {self.initial.type}")
        for op in block.ops:
            if op is not end and not op.has_trait(Pure):
                fail(f"expects pure ops in its body, got '{op.name}'")
        return yielded

    def feedback(self) -> SSAValue:
        """The argument of the body that holds y of the step before."""
        return self.body.block.args[-1]
