"""ONNX import of recurrent cells: `RNN`, `GRU`, `LSTM`.

The equations are those of the standard, version 14. Cells are unrolled over a known number of
steps; a free one is a loop, `spike.scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.ordering import turned
from ...passes.analysis.loop_body import scan_over
from ..problems import ProblemError, refuse
from .calls import tensor_of
from .onnx_builder import Builder, Call, Results, Rule
from .rules_activation import RULES as ACTIVATIONS
from .rules_linear import linear
from .sizes import Free, Size, ir_shape, static

LONGEST = 4096
"""A cell is unrolled over at most this many steps."""

_LINEAR = {"affine": {"alpha": 1.0, "beta": 0.0}, "scaledtanh": {"alpha": 1.0, "beta": 1.0}}
"""Activations that cells alone have, with their numbers."""

_NUMBERS = {"elu": 1, "hardsigmoid": 2, "leakyrelu": 1, "thresholdedrelu": 1, "affine": 2,
            "scaledtanh": 2}  # fmt: skip
"""How many numbers an activation takes; others take none."""

_RULES = {
    name.lower(): (name, ACTIVATIONS[name])
    for name in ("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign",
                 "Tanh", "ThresholdedRelu")
}  # fmt: skip


Activation = tuple[str, dict[str, float]]
"""The name of an activation, and its numbers."""


class Cell:
    """One direction of a recurrent node: weights of `gates` gates, activations, a limit.

    A ninth input, which ONNX does not have, is a projection [directions, out, hidden] of the state
    that an LSTM gives and goes on with (Sak et al. 2014, without peepholes).
    """

    def __init__(
        self, e: Builder, call: Call, direction: int, gates: int, kinds: list[str]
    ) -> None:
        self.e, self.call, self.gates = e, call, gates
        self.weight, self.recurrence = (self._transposed(call[i], direction) for i in (1, 2))
        self.out, size = e.shape(self.recurrence, "hidden size")
        self.hidden = size // gates
        self.projection = self._transposed(call[8], direction) if call.has(8) else None
        self.bias_x = self.bias_h = None
        if call.has(3):
            bias = self._row(call[3], direction)
            self.bias_x, self.bias_h = e.cut(bias, 0, 0, size), e.cut(bias, 0, size, 2 * size)
        self.direction = direction
        names, first = call.words("activations"), direction * len(kinds)
        chosen = _activations(call)[first : first + len(kinds)] or [(name, {}) for name in kinds]
        refuse(len(chosen) != len(kinds), f"its activations {names} are not as many as it has")
        self.activations = chosen

    def _row(self, value: SSAValue, direction: int) -> SSAValue:
        e = self.e
        row = e.add(tensor.SqueezeOp(e.cut(value, 0, direction, direction + 1), [0]))
        if direction and row in e.names:
            e.names[row] += "_reverse"  # as PyTorch calls it
        return row

    def _transposed(self, value: SSAValue, direction: int) -> SSAValue:
        return self.e.permute(self._row(value, direction), [1, 0])

    def limited(self, index: int, x: Formula) -> Formula:
        """An activation of a gate, after the limit."""
        clip = self.call.number("clip", None)
        return self.activate(index, x if clip is None else x.maximum(-clip).minimum(clip))

    def activate(self, index: int, x: Formula) -> Formula:
        """An activation."""
        name, numbers = self.activations[index]
        if name.lower() in _LINEAR:
            alpha, beta = ({**_LINEAR[name.lower()], **numbers}[k] for k in ("alpha", "beta"))
            is_affine = name.lower() == "affine"
            return x * alpha + beta if is_affine else (x * beta).of(tensor.TanhOp) * alpha
        kind, rule = _RULES[name.lower()]
        return Formula(self.e, tensor_of(rule(self.e, Call(kind, "", 22, [x.value], numbers))))

    def gate(self, x: SSAValue, index: int) -> SSAValue:
        """The part of one gate."""
        return self.e.cut(x, 1, index * self.hidden, (index + 1) * self.hidden)

    def from_input(self, x: SSAValue) -> SSAValue:
        """x · W + b, all gates."""
        return linear(self.e, x, self.weight, self.bias_x)

    def from_state(self, h: SSAValue) -> SSAValue:
        """h · R + b, all gates."""
        return linear(self.e, h, self.recurrence, self.bias_h)


Step = Callable[[Cell, SSAValue, list[SSAValue]], list[SSAValue]]


def _rnn(cell: Cell, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    total = cell.e.add(tensor.AddOp(cell.from_input(x), cell.from_state(state[0])))
    return [cell.limited(0, Formula(cell.e, total)).value]


def _gru(cell: Cell, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    e, h = cell.e, Formula(cell.e, state[0])
    from_x, from_h = cell.from_input(x), cell.from_state(state[0])

    def part(value: SSAValue, index: int) -> Formula:
        return Formula(e, cell.gate(value, index))

    update = cell.limited(0, part(from_x, 0) + part(from_h, 0))
    reset = cell.limited(0, part(from_x, 1) + part(from_h, 1))
    if cell.call.integer("linear_before_reset", 0):
        inner = part(from_x, 2) + reset * part(from_h, 2)
    else:
        again = cell.from_state((reset * h).value)
        inner = part(from_x, 2) + part(again, 2)
    new = cell.limited(1, inner)
    return [((1 - update) * new + update * h).value]


def lstm(cell: Cell, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    e, memory = cell.e, Formula(cell.e, state[1])
    total = e.add(tensor.AddOp(cell.from_input(x), cell.from_state(state[0])))
    peep: list[Formula | None] = [None] * 3
    if cell.call.has(7):
        rows = e.cut(cell.call[7], 0, cell.direction, cell.direction + 1)
        peep = [
            Formula(e, e.cut(rows, 1, i * cell.hidden, (i + 1) * cell.hidden)) for i in range(3)
        ]

    def part(index: int, hole: Formula | None, c: Formula) -> Formula:
        value = Formula(e, cell.gate(total, index))
        return value if hole is None else value + hole * c

    entry = cell.limited(0, part(0, peep[0], memory))
    coupled = cell.call.flag("input_forget", False)
    forget = 1 - entry if coupled else cell.limited(0, part(2, peep[2], memory))
    new = cell.limited(1, part(3, None, memory))
    memory = forget * memory + entry * new
    out = cell.limited(0, part(1, peep[1], memory))
    hidden = (out * cell.activate(2, memory)).value
    if cell.projection is not None:
        hidden = linear(e, hidden, cell.projection, None)
    return [hidden, memory.value]


def recurrent(step: Step, gates: int, kinds: list[str], states: int) -> Rule:
    """A rule for a recurrent node whose cell makes one step by `step`."""

    def rule(e: Builder, call: Call) -> Results:
        x, is_batch_first = call[0], call.flag("layout", False)
        x = e.permute(x, [1, 0, 2]) if is_batch_first else x
        lives = _lives(e, call, x)
        direction = call.text("direction", "forward")
        ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        refuse(direction not in ways, f"its direction '{direction}' is unknown")
        runs = [
            _run(
                e, Cell(e, call, index, gates, kinds), x, lives, back, step, states, is_batch_first
            )
            for index, back in enumerate(ways[direction])
        ]
        outputs = e.add(tensor.ConcatenateOp([run[0] for run in runs], 1))
        finals = [
            e.add(tensor.ConcatenateOp([run[1 + i] for run in runs], 0)) for i in range(states)
        ]
        if is_batch_first:
            outputs = e.permute(outputs, [2, 0, 1, 3])
            finals = [e.permute(value, [1, 0, 2]) for value in finals]
        return (outputs, *finals)[: max(call.outputs, 1)]

    return rule


def _activations(call: Call) -> list[Activation]:
    """The activations that a node names, each with its numbers, which stand in lists of their own.

    Raises:
        ProblemError: one is not known.
    """
    found: list[Activation] = []
    lists = {k: [*call.numbers(f"activation_{k}")] for k in ("alpha", "beta")}
    for name in call.words("activations"):
        if name.lower() not in _RULES and name.lower() not in _LINEAR:
            raise ProblemError(f"its activation '{name}' is not known")
        wanted = [*lists][: _NUMBERS.get(name.lower(), 0)]
        found.append((name, {k: lists[k].pop(0) for k in wanted if lists[k]}))
    return found


def _lives(e: Builder, call: Call, x: SSAValue) -> Formula | None:
    """Whether a step [steps, batch, 1] belongs to its sequence; `None` where all do."""
    steps = e.sizes(x)[0]
    if not call.has(4) or (e.is_known(call[4]) and (e.array(call[4]) == steps).all()):
        return None
    places = Formula(e, e.reshape(e.arange(steps), [steps, 1, 1]))
    lengths = e.reshape(e.convert(call[4], i64), [1, e.sizes(call[4])[0], 1])
    return places < Formula(e, lengths)


def _run(
    e: Builder, cell: Cell, x: SSAValue, lives: Formula | None, back: bool, step: Step,
    states: int, is_batch_first: bool,
) -> list[SSAValue]:  # fmt: skip
    index = cell.direction
    batch = e.sizes(x)[1]
    state: list[SSAValue] = []
    for place in range(states):
        initial = cell.call.optional(5 + place)
        if initial is None:
            zero = e.reshape(e.number(0, x), [1, 1])
            state.append(e.stretch(zero, (batch, cell.hidden if place else cell.out)))
            continue
        initial = e.permute(initial, [1, 0, 2]) if is_batch_first else initial
        state.append(e.add(tensor.SqueezeOp(e.cut(initial, 0, index, index + 1), [0])))
    if lives is None:
        outputs, state = all_steps(e, x, state, partial(step, cell), back=back)
    else:
        (width,) = static(e.sizes(x)[2:], "features")
        joined = e.add(tensor.ConcatenateOp([x, e.convert(lives.value, x)], 2))

        def stayed(row: SSAValue, before: list[SSAValue]) -> list[SSAValue]:
            alive = Formula(e, e.cut(row, 1, width)) > 0.5
            after = step(cell, e.cut(row, 1, 0, width), before)
            pairs = zip(after, before, strict=True)
            return [alive.choose(Formula(e, a), Formula(e, b)).value for a, b in pairs]

        outputs, state = all_steps(e, joined, state, stayed, back=back)
        outputs = lives.choose(Formula(e, outputs), 0).value
    outputs = e.add(tensor.UnsqueezeOp(outputs, [1]))
    return [outputs, *(e.add(tensor.UnsqueezeOp(value, [0])) for value in state)]


OneStep = Callable[[SSAValue, list[SSAValue]], list[SSAValue]]
"""The state after a step, from [batch, in] and the state before; its first value is given."""


def all_steps(
    e: Builder, x: SSAValue, state: list[SSAValue], step: OneStep, *, back: bool = False
) -> tuple[SSAValue, list[SSAValue]]:
    """A cell over all steps of x, [steps, batch, in]: outputs, [steps, batch, out]; last state.

    Raises:
        ProblemError: no steps, or more than are unrolled.
    """
    steps = e.sizes(x)[0]
    if isinstance(steps, Free):
        return _looped(e, x, state, step, back)
    refuse(not 1 <= steps <= LONGEST, f"it makes {steps} steps; cells are unrolled up to {LONGEST}")
    rows: list[SSAValue] = []
    for turn in reversed(range(steps)) if back else range(steps):
        part = e.add(tensor.SqueezeOp(e.cut(x, 0, turn, turn + 1), [0]))
        state = step(part, state)
        rows.append(e.add(tensor.UnsqueezeOp(state[0], [0])))
    ordered = rows[::-1] if back else rows
    return ordered[0] if steps == 1 else e.add(tensor.ConcatenateOp(ordered, 0)), state


def _looped(
    e: Builder, x: SSAValue, state: list[SSAValue], step: OneStep, back: bool
) -> tuple[SSAValue, list[SSAValue]]:
    """A loop over a free number of steps."""
    run = _turned(e, x) if back else e.real(x)
    state = [e.real(value) for value in state]
    sizes: list[Sequence[Size]] = [(1, *e.sizes(run)[1:]), *map(e.sizes, state)]
    element = tensor_type(run).element_type
    block = Block(arg_types=[TensorType(element, ir_shape(size)) for size in sizes])
    for argument, size in zip(block.args, sizes, strict=True):
        e.refine(argument, size)
    before = e.block.last_op
    part = e.add(tensor.SqueezeOp(block.args[0], [0]))
    after = step(part, list(block.args[1:]))
    output = e.add(tensor.UnsqueezeOp(after[0], [0]))
    # What does not depend on the step stays around the loop.
    inside: set[Operation] = set()
    op = e.block.first_op if before is None else before.next_op
    while op is not None:
        here, op = op, op.next_op
        if any(v.owner is block or v.owner in inside for v in here.operands):
            inside.add(here)
            here.detach()
            block.add_op(here)
    block.add_op(spike.YieldOp(*after, output))
    loop = scan_over([run], state, block)
    outputs, *last = e.add_all(loop)
    e.refine(outputs, (*e.sizes(run)[:2], sizes[1][1]))
    for value, size in zip(last, sizes[1:], strict=True):
        e.refine(value, size)
    return (_turned(e, outputs) if back else outputs), last


def _turned(e: Builder, x: SSAValue) -> SSAValue:
    return e.refine(turned(Formula(e, x), 0).value, e.sizes(x))


RULES: dict[str, Rule] = {
    "GRU": recurrent(_gru, 3, ["Sigmoid", "Tanh"], 1),
    "LSTM": recurrent(lstm, 4, ["Sigmoid", "Tanh", "Tanh"], 2),
    "RNN": recurrent(_rnn, 1, ["Tanh"], 1),
}
"""By the type of the operator."""
