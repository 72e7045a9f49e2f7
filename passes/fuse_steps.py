"""The pass `fuse-steps`: layer after layer of all steps becomes step after step of all layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp, TensorType, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.parameters import dense_constant
from ..dialects.shapes import DYNAMIC, ints
from ..dialects.spike.types import dense_type
from ..dialects.tensor.ordering import CumulativeOp
from ..dialects.tensor.shape import SLICE_END
from ..dialects.traits import Elementwise, has
from ..ir.errors import LoweringError
from .analysis.loop_body import loop_of
from .analysis.replacement import erase_unused, insert_before
from .analysis.step_form import CarriedState, Kind, StepWriter
from .analysis.time_axis import keeps_first_axis, timed_operands

MOST_DELAY = 16
"""Steps of a delay that the loop keeps, each as a state."""


@dataclass(frozen=True)
class FuseStepsPass(ModulePass):
    """Run the layers of a spiking network in one loop over the steps.

    Neurons, synapses and what works on each step between them become the body of one `spike.scan`,
    so that one step of their values stands in memory and not a run of all steps; sums, means, the
    last step of a run and what a delay holds are kept as states. It wants sizes that are known.
    Runs that an op needs whole are results of the loop, and what follows them may become a loop of
    its own.

        %s = spike.lif %i {beta = 0.9 : f64} : (tensor<8x1x4xf32>) -> !spike.train<8x1x4>
        %j = spike.linear %s, %w : !spike.train<8x1x4>, tensor<4x2xf32> -> tensor<8x1x2xf32>
        %y = tensor.reduce_sum %j {axes = array<i64: 0>} : (tensor<8x1x2xf32>) -> tensor<1x2xf32>
        // becomes
        %v, %z = spike.scan %i states(%zero, %zero : tensor<f32>, tensor<f32>) : … {
             ^bb0(%a: tensor<1x1x4xf32>, %before: tensor<1x4xf32>, %sum: tensor<1x1x2xf32>):
               %s, %after = spike.lif %a initial(%before : tensor<1x4xf32>) {beta = 0.9 : f64}
                    : (tensor<1x1x4xf32>) -> (!spike.train<1x1x4>, tensor<1x4xf32>)
               %j = spike.linear %s, %w
                    : !spike.train<1x1x4>, tensor<4x2xf32> -> tensor<1x1x2xf32>
               %k = tensor.add %sum, %j
                    : (tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
               spike.yield %after, %k : tensor<1x4xf32>, tensor<1x1x2xf32>
             }
        %y = tensor.squeeze %z {axes = array<i64: 0>} : (tensor<1x1x2xf32>) -> tensor<1x2xf32>

    Every op gives the numbers that it gave before; sums over the steps are added in their order.
    """

    name = "fuse-steps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp) and function.body.blocks:
                block = function.body.block
                for neuron in list(block.ops):
                    if isinstance(neuron, spike.IntegrateFireOp | spike.LifOp):
                        _start_alone(neuron)
                    elif isinstance(neuron, tensor.SliceOp):
                        _delay(neuron)
                    elif isinstance(neuron, tensor.FlattenOp):
                        _keep_steps(neuron)
                erase_unused([op for op in block.ops if op.results])
                excluded: set[Operation] = set()
                while (region := _region(block, excluded)) is not None:
                    region.replace()


def _start_alone(neuron: spike.NeuronOp) -> None:
    """Initial potentials that take their shape alone from the first current: constants.

    A clamp to one number is that number but for NaN, and a current that is not a number makes the
    potential none at the first step, however it began.
    """
    for index, operand in enumerate(neuron.operands):
        if operand in neuron.initial and (value := _alone(operand, neuron.input)) is not None:
            neuron.operands[index] = value


def _alone(value: SSAValue, current: SSAValue) -> SSAValue | None:
    """A value with constants for clamps of the first step of a run; `None` if there are none."""
    op = value.owner
    if isinstance(op, tensor.ClampOp) and _is_first_step(op.operand, current):
        type, level = tensor_type(value), op.min
        if level is None or level != op.max or DYNAMIC in type.get_shape():
            return None
        full = np.full(type.get_shape(), level.value.data, numpy_dtype(type.element_type))
        constant = dense_constant(full, type.element_type)
        insert_before(op, constant)
        return constant.result
    if not has(op, Elementwise):
        return None
    parts = {x: y for x in op.operands if (y := _alone(x, current)) is not None}
    if not parts:
        return None
    copy = op.clone(dict(parts))
    insert_before(op, copy)
    return copy.results[0]


def _is_first_step(value: SSAValue, run: SSAValue) -> bool:
    """Whether a value is the first step of a run, without the axis of time."""
    squeeze = value.owner
    if not isinstance(squeeze, tensor.SqueezeOp) or squeeze.axes.get_values() != (0,):
        return False
    cut = squeeze.operand.owner
    if not isinstance(cut, tensor.SliceOp) or cut.operand is not run:
        return False
    step = tensor_type(cut.result).get_shape()
    return step == (1, *tensor_type(run).get_shape()[1:]) and cut.starts.get_values()[0] == 0


def _delay(cut: tensor.SliceOp) -> None:
    """A run that is padded in front and cut behind: a delay."""
    pad = cut.operand.owner
    if not isinstance(pad, tensor.PadToOp) or pad.value.value.data:
        return
    run = tensor_type(pad.operand).get_shape()
    late = pad.low.get_values()[0]
    is_cut = cut.starts.get_values()[0] == 0 and {*cut.steps.get_values()} == {1}
    if (
        is_cut
        and 0 < late <= MOST_DELAY
        and tensor_type(pad.result).get_shape() == (run[0] + late, *run[1:])
        and tensor_type(cut.result).get_shape() == run
        and not any(pad.low.get_values()[1:])
        and DYNAMIC not in run
    ):
        delay = spike.DelayOp(pad.operand, late)
        insert_before(cut, delay, cut)
        cut.result.replace_all_uses_with(delay.output)


def _keep_steps(flat: tensor.FlattenOp) -> None:
    """Steps of one sample that become samples: the first axis stays as it is."""
    before, after = (tensor_type(x).get_shape() for x in (flat.operand, flat.result))
    if flat.start.value.data == 0 and before[:1] == after[:1] and DYNAMIC not in before:
        moved = tensor.ReshapeToOp(flat.operand, [-2, *after[1:]])
        insert_before(flat, moved, flat)
        flat.result.replace_all_uses_with(moved.result)


def _is_plain(op: spike.DelayOp) -> bool:
    """Whether a delay is the same for all, and short, from zeros."""
    plain = op.delays is None and op.initial is None and op.final is None
    return plain and 0 < op.steps.value.data <= MOST_DELAY


def _is_counted(op: Operation) -> bool:
    """Whether an op encodes numbers that stay, each step by its number."""
    return isinstance(op, spike.EncodeOp) and op.scheme.data not in ("delta", "direct")


def _is_along_steps(op: Operation) -> bool:
    """Whether an op adds up or multiplies the steps so far."""
    return isinstance(op, CumulativeOp) and op.position == 0


def _region(block: Block, excluded: set[Operation]) -> _Region | None:
    """Ops of a block that become one loop; `None` if there are none with neurons."""
    before: set[Operation] = set()
    while True:
        ops = [op for op in block.ops if op not in excluded]
        neurons = [op for op in ops if isinstance(op, spike.NeuronOp)]
        lengths = (dense_type(neuron.input).get_shape()[0] for neuron in neurons)
        steps = next((length for length in lengths if length not in (DYNAMIC, 0, 1)), None)
        if steps is None:
            return None
        region = _Region(steps, excluded, before)
        try:
            region.take(block)
        except _RefusedError as error:
            excluded.add(error.op)
            continue
        if in_the_way := region.in_the_way(block):
            before |= in_the_way
        elif any(isinstance(op, spike.NeuronOp) for op in region.inside):
            return region
        else:
            return None


class _RefusedError(LoweringError):
    """An op cannot run step by step."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op.name)
        self.op = op


@dataclass
class _Total:
    """What is left of a run: the sum, mean or last step.

    Attributes:
        op: gives it.
        state: has it after the last step, with an axis of time.
        divisor: of a mean.
    """

    op: Operation
    state: CarriedState
    divisor: int = 1


class _Region(StepWriter):
    """Ops that become one loop.

    Attributes:
        excluded: ops that cannot run step by step.
        before: ops that run before the loop, if they take nothing that it gives.
        inside: the ops, in their order.
        late: ops behind the loop, as they take what it gives.
        totals: what is left of runs.
    """

    def __init__(self, steps: int, excluded: set[Operation], before: set[Operation]) -> None:
        super().__init__(steps)
        self.excluded = excluded
        self.before = before
        self.inside: list[Operation] = []
        self.late: list[Operation] = []
        self.totals: list[_Total] = []

    # Which ops

    def take(self, block: Block) -> None:
        """Place each op of a block.

        Raises:
            _RefusedError: one must be left out.
        """
        early = self._early(block)
        for op in block.ops:
            kinds = {self.kinds.setdefault(value, Kind.FIXED) for value in op.operands}
            if op is block.last_op:
                continue
            if Kind.LAST in kinds or not (Kind.STEP in kinds or op in early):
                is_late = Kind.LAST in kinds
                self.late += [op] * is_late
                self.kinds.update(dict.fromkeys(op.results, Kind.LAST if is_late else Kind.FIXED))
            elif (total := self._total(op)) is not None:
                self.inside.append(op)
                self.totals.append(total)
                self.kinds.update(dict.fromkeys(op.results, Kind.LAST))
            elif op not in self.excluded and self._by_steps(op):
                self._put(op)
            else:
                self.late.append(op)
                self.kinds.update(dict.fromkeys(op.results, Kind.LAST))

    def _early(self, block: Block) -> set[Operation]:
        """Ops on runs that are known before the loop, and that the loop can compute."""
        found: set[Operation] = set()
        out = self.excluded | self.before
        for op in reversed(list(block.ops)):
            if op in out or not op.results or not self._is_run(op.results[0]):
                continue
            handed = isinstance(
                op, spike.ToTensorOp | spike.FromTensorOp | spike.DelayOp | spike.EncodeOp
            )
            if timed_operands(op) is not None and not handed:
                found.add(op)
            elif has(op, Elementwise) or handed:
                users = [use.operation for use in op.results[0].uses]
                is_run = any(map(self._is_run, op.operands)) or _is_counted(op)
                if users and found.issuperset(users) and is_run:
                    found.add(op)
        return found

    def in_the_way(self, block: Block) -> set[Operation]:
        """Ops that the loop computes without need, and for which a neuron comes behind it."""
        neurons = {op for op in block.ops if isinstance(op, spike.NeuronOp)}
        late = neurons.intersection(self.late) - self.excluded
        needed: set[Operation] = {op for op in late if self._is_run(op.results[0])}
        for op in reversed(list(block.ops)):
            if op not in neurons and any(
                use.operation in needed for v in op.results for use in v.uses
            ):
                needed.add(op)
        free: set[Operation] = set()
        for op in self.inside:
            given = {value.owner for value in op.operands}.intersection(self.inside)
            if op not in neurons and given <= free:
                free.add(op)
        return free & needed

    def _is_run(self, value: SSAValue) -> bool:
        if not isinstance(value.type, TensorType | spike.TrainType):
            return False
        shape = dense_type(value).get_shape()
        return bool(shape) and shape[0] == self.steps and DYNAMIC not in shape

    def _by_steps(self, op: Operation) -> bool:
        """Whether each step of a result comes from the same one of what the loop computes."""
        if not all(map(self._is_run, op.results[:1])) or op.regions:
            return False
        steps = {i for i, value in enumerate(op.operands) if self.kinds[value] is Kind.STEP}
        if not all(self._is_run(op.operands[i]) for i in steps):
            return False
        timed = timed_operands(op)
        if timed is not None:
            return steps <= timed
        if _is_along_steps(op):
            return steps == {0}
        return all(keeps_first_axis(op, i) for i in steps)

    def _put(self, op: Operation) -> None:
        if isinstance(op, tensor.ReshapeToOp):
            # The first axis as that of the operand, which holds for one step, too.
            op.shape = ints([-2, *dense_type(op.result).get_shape()[1:]])
        if isinstance(op, spike.DelayOp) and _is_plain(op):
            self._late(op)
            return
        if isinstance(op, spike.EncodeOp) and _is_counted(op):
            self._code(op)
            return
        if isinstance(op, CumulativeOp) and _is_along_steps(op):
            self._running(op)
            return
        try:
            self.put(op)
        except LoweringError:
            raise _RefusedError(op) from None
        self.inside.append(op)
        for value in op.results[:1]:
            if self.step[value].type != self.one_step(value):
                raise _RefusedError(op)

    def _late(self, op: spike.DelayOp) -> None:
        """A delay as states, each of which is the one behind it a step later."""
        if self.kinds[op.input] is Kind.FIXED:
            self.kinds[op.input] = Kind.RUN
        value = self.in_step(op.input)
        for _ in range(op.steps.value.data):
            argument = self.argument(value.type)
            self.form.states.append(CarriedState(argument, None, value, has_time=True))
            value = argument
        self._computed(op, value)

    def _code(self, op: spike.EncodeOp) -> None:
        """A step of a code, which is told how many steps came before."""
        elapsed = self.argument(TensorType(i64, []))
        one = dense_constant(np.asarray(1), i64)
        after = tensor.AddOp(elapsed, one.result)
        code = spike.EncodeOp(
            self.in_step(op.operand),
            op.scheme.data,
            1,
            start=op.start.value.data,
            period=op.steps_in_period() if op.scheme.data in ("latency", "phase") else None,
            threshold=None if op.threshold is None else op.threshold.value.data,
            seed=None if op.seed is None else op.seed.value.data,
            elapsed=elapsed,
        )
        self.form.block.add_ops([one, after, code])
        self.form.states.append(CarriedState(elapsed, op.elapsed, after.result))
        self._computed(op, code.result)

    def _running(self, op: CumulativeOp) -> None:
        """A sum or product of the steps so far."""
        step = self.in_step(op.operand)
        argument = self.argument(step.type)
        after = op.STEP(argument, step)
        self.form.block.add_op(after)
        element = tensor_type(op.result).element_type
        # What changes no number, not even -0.
        start = np.asarray(op.START or -0.0).astype(numpy_dtype(element))
        constant = dense_constant(start, element)
        insert_before(op, constant)
        self.form.states.append(CarriedState(argument, constant.result, after.result, True))
        self._computed(op, after.result)

    def _computed(self, op: Operation, step: SSAValue) -> None:
        """Note what a step of the result of an op is."""
        self.step[op.results[0]] = step
        self.kinds[op.results[0]] = Kind.STEP
        self.inside.append(op)

    # What is left of runs

    def _total(self, op: Operation) -> _Total | None:
        """A sum, mean or last step as a state of the loop."""
        if isinstance(op, tensor.SliceOp):
            ends = [op.ends.get_values()[0], *op.steps.get_values()]
            rest = dense_type(op.operand).get_shape()[1:]
            is_last = op.starts.get_values()[0] in (-1, self.steps - 1)
            is_last = is_last and ends[0] in (SLICE_END, self.steps) and set(ends[1:]) == {1}
            if not is_last or dense_type(op.result).get_shape() != (1, *rest):
                return None
            return _Total(op, self._state(op.operand, is_sum=False))
        if not isinstance(op, tensor.ReduceSumOp | tensor.ReduceMeanOp):
            return None
        type = tensor_type(op.operand)
        dtype = numpy_dtype(type.element_type)
        # Half floats are added in wider ones.
        exact = dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize >= 4)
        if op.axes.get_values() != (0,) or not exact:
            return None
        divisor = self.steps if isinstance(op, tensor.ReduceMeanOp) else 1
        return _Total(op, self._state(op.operand, is_sum=True), divisor)

    def _state(self, run: SSAValue, *, is_sum: bool) -> CarriedState:
        """The sum of the steps of a run so far, or the last one."""
        after = self.in_step(run)
        argument = self.argument(after.type)
        if is_sum:
            add = tensor.AddOp(argument, after)
            self.form.block.add_op(add)
            after = add.result
        state = CarriedState(argument, None, after, has_time=True)
        self.form.states.append(state)
        return state

    # The loop

    def replace(self) -> None:
        """Put the loop in the place of the ops."""
        anchor, inside = self.inside[-1], {*self.inside}
        block = anchor.parent
        assert block is not None
        computed = [result for op in self.inside for result in op.results]
        for value in computed:
            is_step = self.kinds[value] is Kind.STEP
            if is_step and any(use.operation not in inside for use in value.uses):
                self.form.stacked[value] = self.step[value]
        # Where the loop reads no run, this one tells how many steps there are.
        counted = dense_constant(np.zeros(self.steps, np.int8), i8)
        if not self.form.slices:
            insert_before(anchor, counted)
        loop = loop_of(self.form, {}, anchor, counted.result)
        insert_before(anchor, loop)
        values: dict[SSAValue, SSAValue] = dict(zip(self.form.stacked, loop.outputs, strict=True))
        final = dict(zip(self.form.states, loop.final, strict=True))
        values.update((value, final[state]) for value, state in self.form.last.items())
        values.update((t.op.results[0], _left(anchor, t, final[t.state])) for t in self.totals)
        late = {*self.late}
        for op in list(block.ops):
            if op is anchor:
                break
            if op in late:
                op.detach()
                block.insert_op_before(op, anchor)
        for value in computed:
            if value in values:
                values[value].name_hint = value.name_hint
                value.replace_all_uses_with(values[value])
        erase_unused(self.inside)


def _left(anchor: Operation, total: _Total, last: SSAValue) -> SSAValue:
    """What is left of a run, of a state after the last step."""
    op = total.op
    if total.divisor != 1:
        element = tensor_type(last).element_type
        divisor = dense_constant(np.asarray(total.divisor, numpy_dtype(element)), element)
        insert_before(anchor, divisor)
        mean = tensor.DivOp(last, divisor.result)
        insert_before(anchor, mean, op)
        last = mean.result
    if isinstance(op, tensor.SliceOp) or op.properties["keepdims"] == BoolAttr.from_bool(True):
        return last
    squeeze = tensor.SqueezeOp(last, [0])
    insert_before(anchor, squeeze, op)
    return squeeze.result
