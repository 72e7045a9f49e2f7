"""The pass `hoist-synapses`: what can run over all steps at once leaves the loops over steps."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from ..dialects import spike, tensor
from ..dialects.inference import InferredOp, keep_result_types
from ..dialects.shapes import DYNAMIC
from ..dialects.spike.rebuild import rebuilt
from ..dialects.spike.types import dense_type, is_train
from ..dialects.traits import TakesSteps, has
from .analysis.replacement import erase, erase_unused, insert_before


@dataclass(frozen=True)
class HoistSynapsesPass(ModulePass):
    """Take out of `spike.recurrent` what does not depend on its feedback; do constant work once.

    1. An op in the body of `spike.recurrent` that does not depend on the feedback moves in front of
       it, where it runs over all steps at once: a matrix product for each step becomes one product.
       What the body needs of it becomes an input. A body without any use of the feedback in what it
       feeds back is no feedback at all: its ops take the place of the `spike.recurrent`.
    2. A synapse, pool or normalisation of `spike.encode{direct}`, the same numbers at every step,
       is computed for one step, and the result is repeated.

        %y = spike.recurrent %x : (!spike.train<?x?x8>) -> !spike.train<?x?x4> {
        ^bb0(%a: !spike.train<?x?x8>, %f: !spike.train<?x?x4>):
          %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
          %i = spike.linear %a, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
          …
        // becomes
        %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
        %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
        %y = spike.recurrent %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
        ^bb0(%a: tensor<?x?x4xf32>, %f: !spike.train<?x?x4>):
          …

    The same products of the same numbers are computed. Weights are not read.
    """

    name = "hoist-synapses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Outer bodies last: what leaves an inner one may leave those around it.
        for recurrent in reversed(list(op.walk())):
            if isinstance(recurrent, spike.RecurrentOp):
                _Hoisting(recurrent).run()
        for synapse in list(op.walk()):
            if has(synapse, TakesSteps):
                _once(synapse)


class _Hoisting:
    """One `spike.recurrent`; `outside` has the values outside that stand for those of the body."""

    def __init__(self, op: spike.RecurrentOp) -> None:
        self.op = op
        self.block = op.body.block
        self.outside: dict[SSAValue, SSAValue] = dict(zip(self.block.args, op.inputs, strict=False))
        self.fixed: set[SSAValue] = set()

    def run(self) -> None:
        """Move out what can be."""
        moved = [op for op in self.block.ops if self._moves(op)]
        if not moved:
            return
        end = self.block.last_op
        assert isinstance(end, spike.YieldOp)
        if end.operands[0] in self.outside:
            self._dissolve()
            return
        self._rebuild(moved, end)

    def _moves(self, op: Operation) -> bool:
        """Put a copy of `op` in front, if it does not depend on the feedback.

        What depends on no input (weights, and what is computed from them) is copied when an op
        that moves needs it.
        """
        if isinstance(op, spike.YieldOp) or not op.has_trait(Pure):
            return False
        if all(value in self.fixed for value in op.operands):
            self.fixed.update(op.results)
            return False
        if not all(value in self.outside or value in self.fixed for value in op.operands):
            return False
        self._copy(op)
        return True

    def _copy(self, op: Operation) -> None:
        for value in op.operands:
            if value not in self.outside:
                assert isinstance(value.owner, Operation)
                self._copy(value.owner)
        copy = op.clone(self.outside)
        insert_before(self.op, copy, op)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            self.outside[old] = new

    def _rebuild(self, moved: list[Operation], end: spike.YieldOp) -> None:
        """The op with what it still needs of the values outside as inputs."""
        for index, value in reversed(list(enumerate(end.operands))):
            if value in self.outside and not isinstance(value, BlockArgument):
                self.op.results[index].replace_all_uses_with(self.outside[value])
        used = [r for r in self.op.others if r.first_use is not None]
        live = [v for v, r in zip(end.operands[1:], self.op.others, strict=True) if r in used]
        end.operands = [end.operands[0], *live]
        inputs = list(self.op.inputs)
        for op in moved:
            for result in op.results:
                needed = [use for use in result.uses if use.operation not in moved]
                if needed:
                    argument = self.block.insert_arg(result.type, len(self.block.args) - 1)
                    argument.name_hint = result.name_hint
                    inputs.append(self.outside[result])
                    for use in needed:
                        use.operation.operands[use.index] = argument
        for op in reversed(moved):
            erase(op)
        erase_unused(list(self.block.ops)[:-1])
        leading = self._leading(inputs)
        for index in reversed(range(len(inputs))):
            if self.block.args[index].first_use is None and inputs[index] is not leading:
                self.block.erase_arg(self.block.args[index])
                del inputs[index]
        if leading is not None:
            self._put_first(inputs, leading)
        new = rebuilt(self.op, {"inputs": inputs}, {"others": [r.type for r in used]})
        insert_before(self.op, new, self.op)
        for old, result in zip((self.op.output, *used), new.results, strict=True):
            result.name_hint = old.name_hint
            old.replace_all_uses_with(result)
        erase(self.op)

    def _leading(self, inputs: list[SSAValue]) -> SSAValue | None:
        """The input that tells the sizes that the feedback does not know; it comes first.

        Its axes are those of the first input so far; `None` if it may be any.
        """
        shape = dense_type(self.op.feedback()).get_shape()
        unknown = [axis for axis, size in enumerate(shape) if size == DYNAMIC]
        first = inputs[0]
        if not unknown:
            used = any(argument.first_use is not None for argument in self.block.args[:-1])
            return None if used else first  # one input there must be
        if self.block.args[0].first_use is not None:
            return first
        for index, value in enumerate(inputs):
            if self.block.args[index].first_use is not None and _keeps(value, first, max(unknown)):
                return value
        return first

    def _put_first(self, inputs: list[SSAValue], value: SSAValue) -> None:
        """Make `value` the first input."""
        index = inputs.index(value)
        if index == 0:
            return
        old = self.block.args[index]
        argument = self.block.insert_arg(old.type, 0)
        argument.name_hint = old.name_hint
        old.replace_all_uses_with(argument)
        self.block.erase_arg(old)
        inputs.insert(0, inputs.pop(index))

    def _dissolve(self) -> None:
        """What is fed back does not depend on it: the rest sees it one step late."""
        end = self.block.last_op
        assert end is not None
        late = spike.DelayOp(self.outside[end.operands[0]], 1, initial=self.op.initial)
        insert_before(self.op, late, self.op)
        self.outside[self.op.feedback()] = late.output
        for op in self.block.ops:
            if op is not end and not all(result in self.outside for result in op.results):
                self._copy(op)
        for old, value in zip(self.op.results, end.operands, strict=True):
            old.replace_all_uses_with(self.outside[value])
        erase(self.op)
        erase_unused([late])


def _keeps(value: SSAValue, first: SSAValue, last_axis: int) -> bool:
    """Whether the axes of `value` up to `last_axis` are those of `first`, from which it comes."""
    while value is not first:
        op = value.owner
        if last_axis > 1 or not (
            has(op, TakesSteps) or isinstance(op, spike.NeuronOp | spike.DelayOp)
        ):
            return False
        if value is not op.results[0] or dense_type(op.operands[0]).get_num_dims() < 3:
            return False
        value = op.operands[0]
    return True


def _once(op: Operation) -> None:
    """Compute an op on `spike.encode{direct}` for one step, and repeat the result."""
    encode = op.operands[0].owner
    if not isinstance(encode, spike.EncodeOp) or encode.scheme.data != "direct":
        return
    assert encode.timesteps is not None
    steps = encode.timesteps.value.data
    if steps == 1:
        return
    one = spike.EncodeOp(encode.operand, "direct", 1)
    insert_before(op, one, encode)
    assert isinstance(op, InferredOp)
    copy = op.on_operands({op.operands[0]: one.result})
    insert_before(op, copy, op)
    value: SSAValue = copy.results[0]
    if is_train(value):
        dense = spike.ToTensorOp(value, i1)
        insert_before(op, dense, op)
        value = dense.result
    step = tensor.SqueezeOp(value, [0])
    insert_before(op, step, op)
    again = spike.EncodeOp(step.result, "direct", steps)
    insert_before(op, again, op)
    keep_result_types(again, op)
    again.result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(again.result)
    erase(op)
    erase_unused([encode])
