"""`spike.recurrent` as a loop: what runs before it, one step of its body, and what runs after it.

The body of `spike.recurrent` is a function on whole runs. A target that keeps the edge needs a
step of it: here are its ops on runs of one step, with what they remember as states. What does not
depend on the feedback runs before, for all steps at once. Not here: writing the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.inference import InferredOp
from ...dialects.shapes import DYNAMIC, ShapeError
from ...dialects.spike.rebuild import rebuilt
from ...dialects.spike.types import dense_type, like
from ...dialects.tensor.reduction import ReduceOp
from ...dialects.tensor.shape import SLICE_END
from ...dialects.traits import Elementwise, has
from ...ir.errors import LoweringError
from .time_axis import timed_operands


class Kind(Enum):
    """What a value of the body is."""

    FIXED = "the same at all steps"
    RUN = "known for all steps before the loop"
    STEP = "computed in the loop"
    LAST = "a state after the last step"


@dataclass(eq=False)
class CarriedState:
    """What a step leaves for the next.

    Attributes:
        argument: the state before a step, an argument of the block.
        initial: the value before the first step; `None` for zeros.
        after: the state after a step, in the block.
        has_time: whether its first axis is time, as that of the feedback; else it is the batch.
    """

    argument: BlockArgument
    initial: SSAValue | None
    after: SSAValue
    has_time: bool = False


@dataclass(eq=False)
class StepForm:
    """A recurrence as a loop over steps.

    Attributes:
        before: ops of the body that run before the loop, on whole runs.
        block: the ops of a step, on runs of one step.
        fixed: for arguments of the block, the values of the body that they are at all steps.
        slices: for arguments of the block, the runs of the body whose steps they are.
        states: the states; the first is the feedback, one step long.
        stacked: for results of all steps, the value in the block that is one step of it.
        after: ops of the body that run after the loop, on the last states.
        last: for values of the body, the state that they are after the last step.
    """

    before: list[Operation] = field(default_factory=list[Operation])
    block: Block = field(default_factory=Block)
    fixed: dict[BlockArgument, SSAValue] = field(default_factory=dict[BlockArgument, SSAValue])
    slices: dict[BlockArgument, SSAValue] = field(default_factory=dict[BlockArgument, SSAValue])
    states: list[CarriedState] = field(default_factory=list[CarriedState])
    stacked: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    after: list[Operation] = field(default_factory=list[Operation])
    last: dict[SSAValue, CarriedState] = field(default_factory=dict[SSAValue, CarriedState])


def step_form(op: spike.RecurrentOp) -> StepForm:
    """The loop of a recurrence, whose body stays as it is.

    Raises:
        LoweringError: an op of the body cannot run step by step; says which and why, one clause.
    """
    return _Splitter(op).run()


class StepWriter:
    """Writes the block of a `StepForm` op by op.

    Attributes:
        steps: the length of the runs.
        form: what is written.
        kinds: what each value outside of the block is.
        step: for values outside what stands for them in the block.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.form = StepForm()
        self.kinds: dict[SSAValue, Kind] = {}
        self.step: dict[SSAValue, SSAValue] = {}

    def put(self, op: Operation) -> None:
        """Add one step of an op to the block.

        Raises:
            LoweringError: it cannot run step by step; says why, one clause.
        """
        if isinstance(op, spike.RecurrentOp | spike.EncodeOp | spike.SimulateOp | spike.LayerOp):
            self.refuse(op, "it depends on the feedback")
        if _works_along_time(op):
            self.refuse(op, "it works along the axis of time")
        timed = timed_operands(op)
        for index, value in enumerate(op.operands):
            fixed = timed is not None and index not in timed
            if fixed and self.kinds[value] is Kind.RUN:
                self.refuse(op, "it takes a run where it wants one value for all steps")
            if not fixed and self.kinds[value] is Kind.FIXED and self._has_steps(op, value, timed):
                self.kinds[value] = Kind.RUN
        mapping = {value: self.in_step(value) for value in op.operands}
        new = self._carrying(op, op.clone(dict(mapping)))
        assert isinstance(new, InferredOp)
        self.form.block.add_op(new)
        try:
            types = new.infer()
        except ShapeError as error:
            self.refuse(op, f"on one step, {error}")
        for result, type in zip(tuple(new.results), types, strict=True):
            changed = Rewriter.replace_value_with_new_type(result, type)
            for state in self.form.states:
                state.after = changed if state.after is result else state.after
        for old, result in zip(op.results, new.results, strict=False):
            result.name_hint = old.name_hint
            if self.kinds.setdefault(old, Kind.STEP) is Kind.STEP:
                self.step[old] = result

    def _has_steps(self, op: Operation, value: SSAValue, timed: frozenset[int] | None) -> bool:
        """Whether a value that is known before the loop has a step for each of its steps."""
        shape = dense_type(value).get_shape()
        if timed is not None:
            return True
        rank = dense_type(op.results[0]).get_num_dims()
        known = has(op, Elementwise) and len(shape) == rank and bool(shape)
        return known and shape[0] == self.steps and shape[0] != 1

    def _carrying(self, op: Operation, new: Operation) -> Operation:
        """`new`, the copy of `op`, with its states going in and out, if they are its own."""
        if not isinstance(op, spike.NeuronOp | spike.DelayOp | spike.AttentionOp):
            return new
        assert isinstance(new, IRDLOperation)
        states = op.initial if isinstance(op, spike.NeuronOp) else _one(op.initial)
        kinds = {self.kinds[value] for value in states}
        if Kind.STEP in kinds:
            return new  # the state comes from the feedback, which carries it
        if Kind.RUN in kinds:
            self.refuse(op, "its initial state is a run")
        types = _state_types(op)
        if not types:
            return new
        arguments = [self.argument(type) for type in types]
        rebuilt_op = rebuilt(new, {"initial": arguments}, {"final": types})
        finals = list(rebuilt_op.results)[-len(types) :]
        outside = list(op.results)[1:]
        for index, argument in enumerate(arguments):
            initial = states[index] if states else None
            has_time = isinstance(op, spike.DelayOp)
            state = CarriedState(argument, initial, finals[index], has_time)
            self.form.states.append(state)
            if outside:
                self.kinds[outside[index]] = Kind.LAST
                self.form.last[outside[index]] = state
        return rebuilt_op

    def in_step(self, value: SSAValue) -> SSAValue:
        """What stands for a value of the body in the block."""
        if value not in self.step:
            is_run = self.kinds[value] is Kind.RUN
            argument = self.argument(self.one_step(value) if is_run else value.type)
            argument.name_hint = value.name_hint
            (self.form.slices if is_run else self.form.fixed)[argument] = value
            self.step[value] = argument
        return self.step[value]

    def argument(self, type: Attribute) -> BlockArgument:
        return self.form.block.insert_arg(type, len(self.form.block.args))

    def one_step(self, value: SSAValue) -> Attribute:
        return like(value, (1, *dense_type(value).get_shape()[1:]))

    def refuse(self, op: Operation, reason: str) -> NoReturn:
        raise LoweringError(f"'{op.name}' in the body cannot run step by step: {reason}")


class _Splitter(StepWriter):
    def __init__(self, op: spike.RecurrentOp) -> None:
        super().__init__(dense_type(op.feedback()).get_shape()[0])
        self.op = op
        self.body = op.body.block

    def run(self) -> StepForm:
        form, end = self.form, self.body.last_op
        assert end is not None
        feedback = self.op.feedback()
        for value in self.body.args:
            self.kinds[value] = Kind.RUN if self._is_run(value) else Kind.FIXED
        self.kinds[feedback] = Kind.STEP
        initial = self.op.initial
        argument = self.argument(self.one_step(feedback))
        self.step[feedback] = argument
        form.states.append(CarriedState(argument, initial, argument, has_time=True))
        for inner in self.body.ops:
            if inner is not end:
                self._place(inner)
        form.states[0].after = self.in_step(end.operands[0])
        for value in end.operands:
            if self.kinds[value] is Kind.STEP:
                form.stacked[value] = self.in_step(value)
        return form

    # Which values are runs.

    def _is_run(self, value: SSAValue) -> bool:
        """Whether an input of the recurrence, by its uses, is a run and no weight or the like."""
        shape = dense_type(value).get_shape()
        if not shape or (shape[0] != self.steps and DYNAMIC not in (shape[0], self.steps)):
            return False
        return any(self._takes_run(use.operation, use.index, value) for use in value.uses)

    def _takes_run(self, op: Operation, index: int, value: SSAValue) -> bool:
        timed = timed_operands(op)
        if timed is not None:
            return index in timed
        if isinstance(op, spike.YieldOp):
            return True
        if has(op, Elementwise):
            rank = dense_type(op.results[0]).get_num_dims()
            return dense_type(value).get_num_dims() == rank
        return any(
            self._takes_run(use.operation, use.index, result)
            for result in op.results
            for use in result.uses
        )

    # Where each op runs.

    def _place(self, op: Operation) -> None:
        kinds = {self.kinds[value] for value in op.operands}
        if Kind.LAST in kinds:
            if not kinds <= {Kind.LAST, Kind.FIXED}:
                self.refuse(op, "it mixes last states with runs")
            self._put(op, self.form.after, Kind.LAST)
        elif Kind.STEP in kinds or (Kind.RUN in kinds and not self._runs_whole(op)):
            self.put(op)
        else:
            makes_run = Kind.RUN in kinds or isinstance(op, spike.EncodeOp)
            self._put(op, self.form.before, Kind.RUN if makes_run else Kind.FIXED)

    def _put(self, op: Operation, place: list[Operation], kind: Kind) -> None:
        place.append(op)
        for index, value in enumerate(op.results):
            state = index > 0 and timed_operands(op) is not None
            self.kinds[value] = Kind.FIXED if state and kind is Kind.RUN else kind

    def _runs_whole(self, op: Operation) -> bool:
        """Whether an op on runs gives a run with the steps on the first axis."""
        runs = {i for i, value in enumerate(op.operands) if self.kinds[value] is Kind.RUN}
        timed = timed_operands(op)
        if timed is not None:
            return runs <= timed
        if not (has(op, Elementwise) or isinstance(op, spike.ToTensorOp | spike.FromTensorOp)):
            return False
        rank = dense_type(op.results[0]).get_num_dims()
        return all(dense_type(op.operands[i]).get_num_dims() == rank for i in runs)


def _works_along_time(op: Operation) -> bool:
    """Whether a tensor op may take a step of its result from other steps of its operands."""
    match op:
        case (
            tensor.ConcatenateOp()
            | tensor.SplitOp()
            | tensor.ArgmaxOp()
            | tensor.ArgminOp()
            | tensor.CumsumOp()
            | tensor.CumprodOp()
            | tensor.TopKOp()
            | tensor.GatherElementsOp()
            | tensor.ScatterElementsOp()
            | tensor.SoftmaxOp()
            | tensor.LogSoftmaxOp()
        ):
            return _is_first(op.axis.value.data, op.operands[0])
        case ReduceOp():
            return any(_is_first(axis, op.operand) for axis in op.axes.get_values())
        case tensor.PermuteOp():
            return op.perm.get_values()[0] != 0
        case tensor.FlattenOp():
            return _is_first(op.start.value.data, op.operand)
        case tensor.SliceOp():
            cut = (op.starts, op.ends, op.steps)
            return tuple(values.get_values()[0] for values in cut) != (0, SLICE_END, 1)
        case tensor.PadToOp():
            return any(values.get_values()[0] for values in (op.low, op.high))
        case tensor.EinsumOp() | tensor.GatherRowsOp():
            return True
        case _:
            return False


def _is_first(axis: int, value: SSAValue) -> bool:
    return axis % dense_type(value).get_num_dims() == 0


def _one(value: SSAValue | None) -> Sequence[SSAValue]:
    return () if value is None else (value,)


def _state_types(op: spike.NeuronOp | spike.DelayOp | spike.AttentionOp) -> list[Attribute]:
    shape = dense_type(op.operands[0]).get_shape()
    if isinstance(op, spike.NeuronOp):
        return [like(op.input, shape[1:])] * len(op.STATES)
    if isinstance(op, spike.DelayOp):
        steps = op.steps.value.data
        return [like(op.input, (steps, *shape[1:]))] if steps else []
    return [TensorType(f32, op.state_shape(shape))]
