"""The pass `lower-recurrent`: feedback as a loop over the steps.

`step_form` says what runs before the loop, in it and after it. Not here: the loop in memory
(`to_native.program`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.spike.types import is_train
from ..dialects.tensor.shape import SLICE_END
from ..ir.errors import LoweringError, UnsupportedError
from ..ir.locations import location_text
from .analysis.loop_body import loop_of
from .analysis.replacement import erase_unused, insert_before, replace_results
from .analysis.step_form import step_form


@dataclass(frozen=True)
class LowerRecurrentPass(ModulePass):
    """Make every `spike.recurrent` a `spike.scan`, a loop whose body is one step.

    What does not depend on the feedback runs before the loop, over all steps at once; states of
    neurons and delays in the body are carried from step to step. Every op gives the numbers that it
    gave before. Weights move into the body.

        %y = spike.recurrent %i : (tensor<32x?x4xf32>) -> !spike.train<32x?x4> {
             ^bb0(%x: tensor<32x?x4xf32>, %last: !spike.train<32x?x4>):
               …
               %s = spike.lif %c {beta = 0.9 : f64} : (tensor<32x?x4xf32>) -> !spike.train<32x?x4>
               spike.yield %s : !spike.train<32x?x4>
             }
        // becomes
        %y, %l, %v = spike.scan %i states(%no, %zero : tensor<i1>, tensor<f32>) : … {
             ^bb0(%x: tensor<1x?x4xf32>, %last: !spike.train<1x?x4>, %v: tensor<?x4xf32>):
               …
               %s, %w = spike.lif %c initial(%v : tensor<?x4xf32>) {beta = 0.9 : f64}
                        : (tensor<1x?x4xf32>) -> (!spike.train<1x?x4>, tensor<?x4xf32>)
               spike.yield %s, %w, %s : !spike.train<1x?x4>, tensor<?x4xf32>, !spike.train<1x?x4>
             }

    Raises:
        UnsupportedError: bodies with ops that cannot run step by step, all of them; the module is
            as it was.
    """

    name = "lower-recurrent"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        problems: list[tuple[str, str, str]] = []
        # Bodies of bodies run before the loop, or are a problem of the body around.
        loops = [inner for inner in op.walk() if isinstance(inner, spike.RecurrentOp)]
        for loop in loops:
            try:
                step_form(loop)
            except LoweringError as error:
                problems.append((loop.name, location_text(loop), str(error)))
        if problems:
            raise UnsupportedError("loops over steps", problems)
        while loops := [i for i in op.walk() if isinstance(i, spike.RecurrentOp)]:
            _lower(loops[0])


def _lower(op: spike.RecurrentOp) -> None:
    """Put a scan in the place of a recurrence, with what runs before and after."""
    form = step_form(op)
    values: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, op.inputs, strict=False))
    before = _copied(op, form.before, values)
    scan = loop_of(form, values, op, op.inputs[0])
    insert_before(op, scan)
    outputs, final = list(scan.outputs), list(scan.final)
    values.update(zip(form.stacked, outputs, strict=True))
    for value, state in form.last.items():
        values[value] = final[form.states.index(state)]
    _copied(op, form.after, values)
    for last in _last_steps(op.output):
        run = final[0]
        if is_train(run):
            dense = spike.ToTensorOp(run, i1)
            insert_before(last, dense)
            run = dense.result
        replace_results(last, [run])
    end = op.body.block.last_op
    assert end is not None
    replace_results(op, [values[value] for value in end.operands])
    erase_unused(before)


def _last_steps(run: SSAValue) -> list[tensor.SliceOp]:
    """The ops that take the last step of a run, as `expose-state` does of feedback."""
    slices: list[tensor.SliceOp] = []
    for use in list(run.uses):
        op = use.operation
        if isinstance(op, spike.ToTensorOp) and tensor_type(op.result).element_type == i1:
            slices += _last_steps(op.result)
        elif isinstance(op, tensor.SliceOp) and tensor_type(op.result).get_shape()[0] == 1:
            rest = tensor_type(op.result).get_num_dims() - 1
            starts, steps = op.starts.get_values(), op.steps.get_values()
            whole = all(end == SLICE_END for end in op.ends.get_values())
            if whole and starts == (-1, *[0] * rest) and set(steps) == {1}:
                slices.append(op)
    return slices


def _copied(
    anchor: Operation, ops: Sequence[Operation], values: dict[SSAValue, SSAValue]
) -> list[Operation]:
    """Copies of ops of the body in front of it; `values` learns their results."""
    copies: list[Operation] = []
    for op in ops:
        copies.append(op.clone(values))
        insert_before(anchor, copies[-1], op)
    return copies
