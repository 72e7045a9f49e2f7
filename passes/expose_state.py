"""The pass `expose-state`: what spiking ops keep from step to step as arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.parameters import dense_constant
from ..dialects.shapes import AnyTensor, integer, with_shape
from ..dialects.spike.rebuild import rebuilt
from ..dialects.spike.types import dense_type, is_train
from ..dialects.tensor.shape import SLICE_END
from ..ir.errors import PassError
from ..ir.interpreter import entry_function
from ..ir.locations import error_at
from ..ir.value_names import NAME_ATTRIBUTE
from .analysis.replacement import erase, insert_before

STATES_ATTRIBUTE = "spike.states"
"""The attribute of a function that counts its last arguments, and results, that are states."""


_COUNTING = ("rate", "regular", "latency", "phase")
"""Encodings that count their steps."""

_Stateful: TypeAlias = (
    spike.NeuronOp | spike.DelayOp | spike.AttentionOp | spike.EncodeOp | spike.RecurrentOp
)


@dataclass(frozen=True)
class ExposeStatePass(ModulePass):
    """Give the entry function the states of its spiking ops as arguments and results.

    For every neuron, `spike.delay`, `spike.recurrent`, `spike.attention` and `spike.encode` (the
    steps that it counted, or its previous values), also inside `spike.recurrent` and `spike.layer`,
    the function gets a last argument with the state before its first step, and a last result with
    that after its last, in program order, both with the `tensor.name` `state.<what>.<n>`. A caller
    starts with zeros and hands the results of one call to the next: calls with T1 and T2 steps give
    the bits of one call with T1 + T2.

        func.func @forward(%i: tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
          %s = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
          func.return %s : !spike.train<?x?x4>
        }
        // becomes
        func.func @forward(%i: tensor<?x?x4xf32>, %v: tensor<?x4xf32> {tensor.name = "state.v.0"})
            -> (!spike.train<?x?x4>, tensor<?x4xf32> {tensor.name = "state.v.0"})
            attributes {spike.states = 1 : i64} {
          %s, %w = spike.lif %i initial(%v : tensor<?x4xf32>) {beta = 0.9 : f64}
              : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
          func.return %s, %w : !spike.train<?x?x4>, tensor<?x4xf32>
        }

    States are plain tensors: of trains truth values. Where the program states an initial state, one
    more state of the type `tensor<i1>`, `state.started.<n>`, chooses between it and what is handed
    over. A state that comes from the feedback of `spike.recurrent` is carried by it. The period of
    `latency` and `phase` codes is written down, as it must not depend on how many steps a call has.
    The function's attribute `spike.states` counts the states; with it the pass does nothing.

    Raises:
        PassError: the function runs networks (`lower-network` comes first), or calls functions that
            have states.
        TritonError: there is no such function.
    """

    name = "expose-state"

    function: str = "forward"
    """The name of the function."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op, self.function)
        if STATES_ATTRIBUTE in function.attributes:
            return
        _check(op, function)
        end = function.body.block.last_op
        if not isinstance(end, ReturnOp):
            raise PassError(error_at(function, "expects a function that ends in func.return"))
        exposure = _Exposure(function.body.block, 0)
        exposure.run()
        states = exposure.states
        types = [*(value.type for value in end.operands), *(s.final.type for s in states)]
        end.operands = [*end.operands, *(state.final for state in states)]
        names = [f"state.{state.what}.{index}" for index, state in enumerate(states)]
        _name(function, names)
        for state, name in zip(states, names, strict=True):
            state.argument.name_hint = name.replace(".", "_")
        function.update_function_type()
        assert list(function.function_type.outputs) == types
        function.attributes[STATES_ATTRIBUTE] = integer(len(states))


def state_count(function: FuncOp) -> int:
    """How many of the last arguments, and results, of a function are states."""
    count = function.attributes.get(STATES_ATTRIBUTE)
    return count.value.data if isinstance(count, IntegerAttr) else 0


def _check(module: ModuleOp, function: FuncOp) -> None:
    """Refuse networks, and calls of functions with states."""
    stateful = {
        f.sym_name.data
        for f in module.walk()
        if isinstance(f, FuncOp) and any(isinstance(op, _Stateful) for op in f.walk())
    }
    for op in function.walk():
        if isinstance(op, spike.SimulateOp):
            raise PassError(error_at(op, "keeps its states to itself; run lower-network first"))
        if isinstance(op, CallOp) and op.callee.string_value() in stateful:
            raise PassError(error_at(op, f"calls {op.callee}, which has states; inline it first"))


def _name(function: FuncOp, names: Sequence[str]) -> None:
    """Name the last arguments and results, which have no attributes yet."""
    added = [DictionaryAttr({NAME_ATTRIBUTE: StringAttr(name)}) for name in names]
    if not added:
        return
    outputs = len(function.function_type.outputs)
    for field, count in (("arg_attrs", len(function.args) - len(names)), ("res_attrs", outputs)):
        attributes = function.properties.get(field)
        entries = list(cast("ArrayAttr[Attribute]", attributes)) if attributes is not None else []
        entries += [DictionaryAttr({})] * (count - len(entries))
        function.properties[field] = ArrayAttr([*entries, *added])


@dataclass(frozen=True)
class _State:
    """A state inside one block: the value before the first step, and that after the last."""

    what: str
    argument: BlockArgument
    final: SSAValue


@dataclass(frozen=True)
class _Begin:
    """A state that was added: its argument, and the value that the op begins with."""

    argument: BlockArgument
    value: SSAValue


class _Exposure:
    """What the ops of one block keep, as arguments of the block and values at its end."""

    def __init__(self, block: Block, after: int) -> None:
        """States become arguments before the last `after` ones."""
        self.block = block
        self.after = after
        self.states: list[_State] = []
        self.started: BlockArgument | None = None

    def run(self) -> None:
        """Rewrite all ops of the block; `states` are in the order of their arguments then."""
        for op in list(self.block.ops):
            if isinstance(op, spike.RecurrentOp):
                self._recurrent(op)
            elif isinstance(op, spike.LayerOp):
                self._layer(op)
            elif isinstance(op, spike.NeuronOp):
                self._neuron(op)
            elif isinstance(op, spike.AttentionOp):
                self._attention(op)
            elif isinstance(op, spike.DelayOp) and op.steps.value.data > 0:
                self._delay(op)
            elif isinstance(op, spike.EncodeOp) and op.scheme.data in _COUNTING:
                self._count(op)
            elif isinstance(op, spike.EncodeOp) and op.scheme.data == "delta":
                self._previous(op)
        self.states.sort(key=lambda state: state.argument.index)

    def _argument(self, type: Attribute) -> BlockArgument:
        return self.block.insert_arg(type, len(self.block.args) - self.after)

    def _initial(self, type: AnyTensor, initial: SSAValue | None, op: Operation) -> _Begin:
        """A new state of `type`: its argument, and the value with which `op` begins."""
        argument = self._argument(type)
        if initial is None:
            return _Begin(argument, argument)
        dense = initial
        if is_train(initial):
            dense = _before(op, spike.ToTensorOp(initial, i1))
        chosen = _before(op, tensor.WhereOp(self._flag(op), argument, dense))
        return _Begin(argument, chosen)

    def _flag(self, op: Operation) -> SSAValue:
        """Whether earlier calls ran; one state for all."""
        if self.started is None:
            self.started = self._argument(TensorType(i1, []))
            if isinstance(self.block.parent_op(), FuncOp):
                yes = _before(op, dense_constant(np.asarray(True), i1))
                self.states.append(_State("started", self.started, yes))
        return self.started

    def _neuron(self, op: spike.NeuronOp) -> None:
        if any(self._comes_from_feedback(value) for value in op.initial):
            return
        type = tensor_type(op.input)
        step = TensorType(type.element_type, type.get_shape()[1:])
        initial = op.initial or [None] * len(op.STATES)
        begins = [self._initial(step, value, op) for value in initial]
        new = rebuilt(
            op,
            {"initial": [begin.value for begin in begins]},
            {"final": [step] * len(begins)},
        )
        self._replace(op, new)
        for name, begin, final in zip(op.STATES, begins, new.final, strict=True):
            self.states.append(_State(name, begin.argument, final))

    def _attention(self, op: spike.AttentionOp) -> None:
        if op.initial is not None and self._comes_from_feedback(op.initial):
            return
        step = TensorType(f32, op.state_shape(dense_type(op.query).get_shape()))
        begin = self._initial(step, op.initial, op)
        new = rebuilt(op, {"initial": [begin.value]}, {"final": [step]})
        self._replace(op, new)
        assert new.final is not None
        self.states.append(_State("v", begin.argument, new.final))

    def _delay(self, op: spike.DelayOp) -> None:
        if op.initial is not None and self._comes_from_feedback(op.initial):
            return
        begin = self._signal(op.input, op.steps.value.data, op.initial, op)
        new = rebuilt(op, {"initial": [begin.value]}, {"final": [begin.value.type]})
        self._replace(op, new)
        assert new.final is not None
        final = _after(new, spike.ToTensorOp(new.final, i1)) if is_train(new.final) else new.final
        self.states.append(_State("delay", begin.argument, final))

    def _count(self, op: spike.EncodeOp) -> None:
        if op.elapsed is not None:
            return
        assert op.timesteps is not None
        argument = self._argument(TensorType(i64, []))
        steps = _before(op, dense_constant(np.asarray(op.timesteps.value.data), i64))
        total = _before(op, tensor.AddOp(argument, steps))
        periodic = op.scheme.data in ("latency", "phase")
        period = integer(op.steps_in_period() or 1) if periodic else None
        self._replace(op, rebuilt(op, {"elapsed": [argument]}, properties={"period": period}))
        self.states.append(_State("elapsed", argument, total))

    def _previous(self, op: spike.EncodeOp) -> None:
        type = tensor_type(op.operand)
        step = TensorType(type.element_type, type.get_shape()[1:])
        begin = self._initial(step, op.previous, op)
        new = rebuilt(op, {"previous": [begin.value]})
        self._replace(op, new)
        last = _last_step(new.operand, new)
        final = _after(last.owner, tensor.SqueezeOp(last, [0]))
        self.states.append(_State("previous", begin.argument, final))

    def _layer(self, op: spike.LayerOp) -> None:
        neuron, inputs = op.neuron(), dict(zip(op.body.block.args, op.inputs, strict=True))
        outside = [inputs[value] for value in neuron.initial if isinstance(value, BlockArgument)]
        if any(self._comes_from_feedback(value) for value in outside):
            return
        type = tensor_type(neuron.input)
        step = TensorType(type.element_type, type.get_shape()[1:])
        states = len(neuron.STATES)
        begins = [self._initial(step, value, op) for value in outside or [None] * states]
        count = len(op.body.block.args)
        initial = [op.body.block.insert_arg(step, count + index) for index in range(states)]
        new_neuron = rebuilt(neuron, {"initial": initial}, {"final": [step] * states})
        self._replace(neuron, new_neuron)
        end = op.body.block.last_op
        assert end is not None
        end.operands = list(new_neuron.results)
        new = rebuilt(
            op,
            {"inputs": [*op.inputs, *(begin.value for begin in begins)]},
            {"outputs": [value.type for value in new_neuron.results]},
        )
        self._replace(op, new)
        for name, begin, final in zip(neuron.STATES, begins, new.outputs[1:], strict=True):
            self.states.append(_State(name, begin.argument, final))

    def _recurrent(self, op: spike.RecurrentOp) -> None:
        """Feedback is a state; those of the body are further inputs and results."""
        inner = _Exposure(op.body.block, 1)
        inner.run()
        feedback = self._feedback(op)
        inputs: list[SSAValue] = list(op.inputs)
        outer: dict[SSAValue, BlockArgument] = {}
        for argument in op.body.block.args[len(inputs) : -1]:
            if argument is inner.started:
                inputs.append(self._flag(op))
            else:
                outer[argument] = self._argument(argument.type)
                inputs.append(outer[argument])
        end, finals = op.body.block.last_op, [state.final for state in inner.states]
        assert end is not None
        end.operands = [*end.operands, *finals]
        new = rebuilt(
            op,
            {"inputs": inputs} | ({} if feedback is None else {"initial": [feedback.value]}),
            {"others": [value.type for value in (*op.others, *finals)]},
        )
        self._replace(op, new)
        if feedback is not None:
            last = _last_step(new.output, new)
            self.states.append(_State("feedback", feedback.argument, last))
        results = new.others[len(new.others) - len(finals) :]
        for state, final in zip(inner.states, results, strict=True):
            self.states.append(_State(state.what, outer[state.argument], final))

    def _feedback(self, op: spike.RecurrentOp) -> _Begin | None:
        """The state of the unit delay: what the body gave at the last step."""
        if op.initial is not None and self._comes_from_feedback(op.initial):
            return None
        return self._signal(op.output, 1, op.initial, op)

    def _signal(
        self, signal: SSAValue, steps: int, initial: SSAValue | None, op: Operation
    ) -> _Begin:
        """A new state of `steps` steps of `signal`, spikes or not."""
        dense = dense_type(signal)
        type = TensorType(dense.element_type, (steps, *dense.get_shape()[1:]))
        begin = self._initial(type, initial, op)
        if not is_train(signal):
            return begin
        return _Begin(begin.argument, _before(op, spike.FromTensorOp(begin.value)))

    def _comes_from_feedback(self, value: SSAValue) -> bool:
        """Whether a value of a body depends on the feedback."""
        around = self.block.parent_op()
        if not isinstance(around, spike.RecurrentOp):
            return False
        if isinstance(value, BlockArgument):
            return value is around.feedback()
        owner = value.owner
        return isinstance(owner, Operation) and any(
            self._comes_from_feedback(operand) for operand in owner.operands
        )

    def _replace(self, old: Operation, new: Operation) -> None:
        insert_before(old, new, old)
        for before, after in zip(old.results, new.results, strict=False):
            before.replace_all_uses_with(after)
        erase(old)


def _last_step(value: SSAValue, op: Operation) -> SSAValue:
    """The last step of `value`, [1, …] of a plain tensor, computed after `op`."""
    anchor = op
    if is_train(value):
        value = _after(anchor, spike.ToTensorOp(value, i1))
        assert isinstance(value.owner, Operation)
        anchor = value.owner
    type = tensor_type(value)
    rest = [0] * (type.get_num_dims() - 1)
    last = _after(
        anchor,
        tensor.SliceOp(value, [-1, *rest], [SLICE_END] * (len(rest) + 1), [1] * (len(rest) + 1)),
    )
    # The inferred type knows no size where the number of steps is not known.
    return Rewriter.replace_value_with_new_type(last, with_shape(type, (1, *type.get_shape()[1:])))


def _before(anchor: Operation, op: Operation) -> SSAValue:
    """Insert `op` before `anchor`; its result."""
    insert_before(anchor, op)
    return op.results[0]


def _after(anchor: Operation | Block, op: Operation) -> SSAValue:
    """Insert `op` after the op `anchor`; its result."""
    assert isinstance(anchor, Operation) and anchor.next_op is not None
    insert_before(anchor.next_op, op, anchor)
    return op.results[0]
