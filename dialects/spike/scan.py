"""`spike.scan`: a loop over the steps of runs, with what a step leaves for the next."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    var_operand_def,
    var_result_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import Value, fail
from ..shapes import DYNAMIC, compatible
from ..traits import Elementwise, has
from .body import BodyOp, YieldOp
from .coding import FromTensorOp, ToTensorOp
from .synapses import SIGNAL
from .types import dense_type, like, time_first


@irdl_op_definition
class ScanOp(BodyOp):
    """For each step: y, states = body(the step of each run, the same `fixed` values, states).

    The arguments of the body are one step of each run, [1, …], then the fixed values, then the
    states, which begin with `states` and are after each step what the body yields first. What it
    yields further are runs of one step; the results are these one after the other, then the states
    after the last step. An initial state may be a scalar, for each place of the state; its unknown
    sizes are those of a step of the first run, or that of the batch where it has other axes.
    `lower-recurrent` makes it of `spike.recurrent`, `convert-spike-to-tensor` of neurons, for
    targets with a loop.

        %y, %v = spike.scan %i states(%zero : tensor<f32>)
             : (tensor<32x?x4xf32>) -> (!spike.train<32x?x4>), (tensor<?x4xf32>) {
             ^bb0(%x: tensor<1x?x4xf32>, %before: tensor<?x4xf32>):
               %s, %after = spike.lif %x initial(%before : tensor<?x4xf32>) {beta = 0.9 : f64}
                    : (tensor<1x?x4xf32>) -> (!spike.train<1x?x4>, tensor<?x4xf32>)
               spike.yield %after, %s : tensor<?x4xf32>, !spike.train<1x?x4>
             }
    """

    name = "spike.scan"

    runs = var_operand_def(SIGNAL)
    fixed = var_operand_def(SIGNAL)
    states = var_operand_def(SIGNAL)
    outputs = var_result_def(SIGNAL)
    final = var_result_def(SIGNAL)

    irdl_options = (
        ParsePropInAttrDict(),
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
    )
    assembly_format = (
        "$runs (`fixed` `(` $fixed^ `:` type($fixed) `)`)? "
        "(`states` `(` $states^ `:` type($states) `)`)? attr-dict "
        "`:` `(` type($runs) `)` `->` `(` type($outputs) `)` `,` `(` type($final) `)` $body"
    )

    def __init__(
        self,
        runs: Sequence[Value],
        fixed: Sequence[Value],
        states: Sequence[Value],
        body: Block,
    ) -> None:
        end = body.last_op
        yielded = [] if end is None else list(end.operands)
        steps = time_first(SSAValue.get(runs[0])).get_shape()[0] if runs else DYNAMIC
        first = len(runs) + len(fixed)
        IRDLOperation.__init__(
            self,
            operands=[runs, fixed, states],
            result_types=[
                [_lasting(value, steps) for value in yielded[len(states) :]],
                [argument.type for argument in body.args[first:]],
            ],
            regions=[Region(body)],
        )

    def arguments(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue]]:
        """The arguments of the body: steps of the runs, fixed values, states."""
        args = self.body.block.args
        first = len(self.runs)
        second = first + len(self.fixed)
        return args[:first], args[first:second], args[second:]

    def source_axis(self, state: SSAValue, axis: int) -> int:
        """The axis of the first run whose size an unknown one of a state is."""
        shape, run = dense_type(state).get_shape(), dense_type(self.runs[0]).get_num_dims()
        if len(shape) == run - 1:
            return axis + 1
        has_time = len(shape) == run and shape[0] == 1
        return axis if has_time else 1

    def is_elementwise(self) -> bool:
        """Whether the body works on each element alone: constants, conversions, arithmetic."""
        return all(
            not op.operands
            or isinstance(op, ToTensorOp | FromTensorOp | YieldOp)
            or has(op, Elementwise)
            for op in self.body.block.ops
        )

    def yielded(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        """What the body yields: states, steps of the outputs."""
        end = self.body.block.last_op
        assert isinstance(end, Operation)
        return end.operands[: len(self.states)], end.operands[len(self.states) :]

    def infer(self) -> Sequence[Attribute]:
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            fail("expects a body that ends in spike.yield")
        if not self.runs:
            fail("expects at least one run")
        wanted = len(self.runs) + len(self.fixed) + len(self.states)
        if len(block.args) != wanted:
            fail(f"expects a body of {wanted} arguments, got {len(block.args)}")
        if len(block.last_op.operands) < len(self.states):
            fail(f"expects to yield {len(self.states)} states at least")
        steps, fixed, states = self.arguments()
        for argument, value in zip(steps, self.runs, strict=True):
            _check(argument, like(value, (1, *time_first(value).get_shape()[1:])), "a step")
        for argument, value in zip(fixed, self.fixed, strict=True):
            _check(argument, value.type, "a fixed value")
        after, outputs = self.yielded()
        for argument, value, result in zip(states, self.states, after, strict=True):
            have, outer = dense_type(argument), dense_type(value)
            scalar = outer.element_type == have.element_type and not outer.get_shape()
            if not scalar and not compatible(outer, have):
                fail(f"expects a state that begins as {argument.type} or a scalar of it")
            _check(argument, result.type, "a state")
        for value in outputs:
            if time_first(value).get_shape()[0] not in (1, DYNAMIC):
                fail(f"expects to yield runs of one step, got {value.type}")
        count = time_first(self.runs[0]).get_shape()[0]
        return [
            *(_lasting(value, count) for value in outputs),
            *(argument.type for argument in states),
        ]


def _lasting(value: SSAValue, steps: int) -> Attribute:
    """The type of a run of which `value` is one step."""
    return like(value, (steps, *time_first(value).get_shape()[1:]))


def _check(argument: SSAValue, type: Attribute, what: str) -> None:
    if not compatible(argument.type, type):
        fail(f"expects {what} in the body as {type}, got {argument.type}")
