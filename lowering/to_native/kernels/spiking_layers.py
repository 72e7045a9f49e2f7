"""Functions of spiking layers: event-driven sums, neurons over time, and both in one loop.

- `write_neurons`: neurons over all steps of their currents, states in registers.
- `write_layer`: per sample the events of some steps, then for each block of columns, whose weights
  stay in the cache, the sums, scaled and biased, and the neurons of these steps: no current reaches
  memory beyond it. A synapse alone gives the sums.

Sizes of time and batch are told at run time, layers have sizes of their own in the code. Not here:
the sums (`events`), the models (`neuron_steps`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from xdsl.dialects import llvm
from xdsl.dialects.builtin import f64, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....runtime.native.abi.linear import round_up
from ..llvm.types import element, like, vector
from .code import POINTER, Code, Index
from .events import EventRows
from .neuron_steps import NeuronStep
from .recipes import Recipe

Spread = Literal["all", "channel"]

_ALIGNED = 64
_WIDE = 4
"""Registers of neurons that run side by side."""


@dataclass(frozen=True)
class Synapse:
    """Sums of events, and what follows them.

    Attributes:
        rows: the weights.
        result: the element type of the result.
        scale: whether there is a scale, and for what.
        bias: whether there is one, a number for each output.
    """

    rows: EventRows
    result: Attribute
    scale: Spread | None = None
    bias: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of an element of the result."""
        return 8 if self.result == f64 else 4

    @property
    def lanes(self) -> int:
        """Outputs that are finished at once."""
        return self.rows.recipe.width // self.bytes

    @property
    def finished(self) -> int:
        """Outputs that are finished, pads included."""
        return round_up(self.rows.outs, self.lanes)


@dataclass(frozen=True)
class _Memory:
    """Where things stand in the scratch memory of a layer: bytes from its start."""

    synapse: Synapse
    states: int = 0
    state_bytes: int = 4
    output_bytes: int = 0
    lists: int = 1

    @property
    def list_bytes(self) -> int:
        """Bytes of a list with its length."""
        return round_up(8 + self.synapse.rows.list_bytes, _ALIGNED)

    @property
    def sums(self) -> int:
        return self.lists * self.list_bytes

    @property
    def results(self) -> int:
        rows = self.synapse.rows
        return self.sums + round_up(rows.padded * rows.sum_bytes, _ALIGNED)

    def state(self, number: int) -> int:
        """The start of a state."""
        return self.results + self._output() + number * self.state_size

    @property
    def state_size(self) -> int:
        """Bytes of a state, pads included."""
        return round_up(self.synapse.finished * self.state_bytes, _ALIGNED)

    def _output(self) -> int:
        return round_up(self.synapse.finished * self.output_bytes, _ALIGNED)

    @property
    def size(self) -> int:
        return self.state(self.states)


class Finish:
    """Sums as results: converted, scaled, biased."""

    def __init__(
        self, code: Code, synapse: Synapse, scale: SSAValue | None, bias: SSAValue | None
    ) -> None:
        self._code = code
        self._synapse = synapse
        self._bias = bias
        self._kind = vector(synapse.result, synapse.lanes)
        self._scale = scale
        if scale is not None and synapse.scale == "all":
            self._scale = code.splat(code.load(scale, synapse.result), synapse.lanes)

    def result(self, sums: SSAValue, j: SSAValue) -> SSAValue:
        """The results of outputs j, j + 1, …"""
        code, synapse = self._code, self._synapse
        element = synapse.rows.element
        value = code.load(code.at(sums, j, element), vector(element, synapse.lanes))
        if element == i32 and synapse.result != i32:
            value = code.to_float(value, synapse.result)
        if self._scale is not None:
            value = code.fmul(value, self._at(self._scale, j))
        if self._bias is not None:
            bias = self._at(self._bias, j)
            value = code.add(value, bias) if synapse.result == i32 else code.fadd(value, bias)
        return value

    def _at(self, table: SSAValue, j: SSAValue) -> SSAValue:
        if table.type == self._kind:
            return table
        return self._code.load(self._code.at(table, j, self._synapse.result), self._kind)


def finish_of(code: Code, synapse: Synapse, scale: SSAValue, bias: SSAValue) -> Finish:
    tables = (scale if synapse.scale else None, bias if synapse.bias else None)
    return Finish(code, synapse, *tables)


class LayerArguments:
    """A function of a layer, and its arguments; without neurons the batch is 1.

    It is `name(x, weights, scale, bias, initial…, each…, y, final…, scratch, steps, batch)` for
    tensors [steps, batch, …] and states [batch, outs], where each of `each` is a table of the
    synapse; of a synapse alone `name(x, weights, scale, bias, y, scratch, rows)`.
    """

    def __init__(self, name: str, neuron: NeuronStep | None, *, initial: bool, final: bool) -> None:
        states, each, sizes = (0, 0, 1) if neuron is None else (neuron.states, len(neuron.each), 2)
        before, after = (states if flag else 0 for flag in (initial, final))
        self.code = Code(name, [POINTER] * (6 + before + each + after) + [i64] * sizes)
        arguments = iter(self.code.arguments)
        self.x, self.weights, self.scale, self.bias = islice(arguments, 4)
        self.starts, self.tables = [*islice(arguments, before)], [*islice(arguments, each)]
        self.y, self.ends = next(arguments), [*islice(arguments, after)]
        self.scratch, self.steps = islice(arguments, 2)
        self.batch = next(arguments, None) or self.code.constant(1)


def layer_scratch(synapse: Synapse, neuron: NeuronStep | None) -> int:
    """Bytes of scratch memory of `write_layer`."""
    return _layer_memory(synapse, neuron).size


def _layer_memory(synapse: Synapse, neuron: NeuronStep | None) -> _Memory:
    rows = synapse.rows
    if neuron is None:
        # Rows of weights that stay in the cache anyway need no lists of several steps.
        lists = rows.lists if rows.blocks > 1 else 1
        return _Memory(synapse, output_bytes=synapse.bytes, lists=lists)
    output = 1 if neuron.spikes else neuron.bytes
    return _Memory(synapse, neuron.states, neuron.bytes, output, rows.lists)


def write_layer(
    name: str,
    synapse: Synapse,
    neuron: NeuronStep | None = None,
    *,
    initial: bool = False,
    final: bool = False,
) -> llvm.FuncOp:
    """The function of a layer, or of a synapse alone; see `LayerArguments`."""
    memory = _layer_memory(synapse, neuron)
    rows, outs = synapse.rows, synapse.rows.outs
    of = LayerArguments(name, neuron, initial=initial, final=final)
    code, x, weights, y, scratch = of.code, of.x, of.weights, of.y, of.scratch
    steps, batch = of.steps, of.batch
    output_bytes, state_bytes = memory.output_bytes, outs * memory.state_bytes
    assert neuron is None or synapse.result == neuron.element
    element, kind = synapse.result, vector(synapse.result, synapse.lanes)
    events = rows.events(code)
    finish = finish_of(code, synapse, of.scale, of.bias)
    sums, results = code.at(scratch, memory.sums), code.at(scratch, memory.results)
    states = [code.at(scratch, memory.state(n)) for n in range(memory.states)]
    width = rows.block * rows.column

    def block(b: Index, columns: int, count: int, row: SSAValue, listed: SSAValue) -> None:
        """The sums and neurons of a block of `count` outputs for a row of spikes."""
        fired, first = code.load(listed, i64), code.mul(b, width)
        events.add_rows(weights, code.at(listed, 8), fired, sums, b, columns)
        whole = count % synapse.lanes == 0
        target = code.at(y, code.mul(row, outs * output_bytes))
        output = target if whole else results
        here = code.at(sums, code.sub(0, first), rows.element)
        end = code.add(first, round_up(count, synapse.lanes))
        with code.each(first, end, synapse.lanes) as j:
            if neuron is None:
                result = finish.result(here, j)
            else:
                places = [code.at(state, j, element) for state in states]
                each = {
                    which: code.load(code.at(table, j, element), kind)
                    for which, table in zip(neuron.each, of.tables, strict=True)
                }
                old = [code.load(at, kind) for at in places]
                result, new = neuron.step(code, each, finish.result(here, j), old)
                for value, at in zip(new, places, strict=True):
                    code.store(value, at)
            store_output(code, neuron, result, output, j)
        if not whole:
            place = code.mul(first, output_bytes)
            code.copy(code.at(target, place), code.at(output, place), count * output_bytes)

    with code.each(0, batch) as n:
        place = code.mul(n, state_bytes)
        if states and (synapse.finished != outs or not of.starts):
            code.clear(states[0], memory.state_size * memory.states)
        for start, state in zip(of.starts, states, strict=False):
            code.copy(state, code.at(start, place), state_bytes)
        with code.each(0, steps, memory.lists) as begin:
            end = code.minimum(code.add(begin, memory.lists), steps)

            @contextmanager
            def turn() -> Generator[tuple[SSAValue, SSAValue]]:
                with code.each(begin, end) as t:
                    listed = code.mul(code.sub(t, begin), memory.list_bytes)
                    yield code.add(code.mul(t, batch), n), code.at(scratch, listed)

            with turn() as (row, listed):
                source = code.at(x, code.mul(row, rows.ins))
                code.store(events.list_events(source, code.at(listed, 8), rows.ins), listed)
            done = rows.blocks - 1
            with code.each(0, done) as b, turn() as (row, listed):
                block(b, rows.block, width, row, listed)
            with turn() as (row, listed):
                block(done, rows.last, outs - done * width, row, listed)
        for end, state in zip(of.ends, states, strict=False):
            code.copy(code.at(end, place), state, state_bytes)
    return code.finish()


def store_output(
    code: Code, neuron: NeuronStep | None, value: SSAValue, output: SSAValue, j: Index
) -> None:
    """Store what a step, or a synapse, gives for outputs j, j + 1, …; spikes as bytes."""
    if neuron is None or not neuron.spikes:
        code.store(value, code.at(output, j, element(value.type)))
        return
    code.store(code.resize(value, like(value.type, i8), unsigned=True), code.at(output, j))


def write_neurons(
    name: str, recipe: Recipe, neuron: NeuronStep, *, initial: bool, final: bool
) -> llvm.FuncOp:
    """`name(x, initial…, each…, y, final…, steps, groups, count)`.

    Currents are [steps, groups, count], states [groups, count], and each of `each` has `count`
    numbers. Neurons run in registers side by side, a few, then one by one.
    """
    before, after = (neuron.states if flag else 0 for flag in (initial, final))
    lanes_of = max(1, recipe.width // neuron.bytes)
    element = neuron.element
    pointers = 1 + before + len(neuron.each) + 1 + after
    code = Code(name, [POINTER] * pointers + [i64] * 3)
    arguments = iter(code.arguments)
    x, starts = next(arguments), list(islice(arguments, before))
    tables = list(islice(arguments, len(neuron.each)))
    y, ends = next(arguments), list(islice(arguments, after))
    steps, groups, count = arguments
    across = code.mul(groups, count)
    with code.each(0, groups) as g:
        done = code.constant(0)
        for width in dict.fromkeys((_WIDE * lanes_of, lanes_of, 1)):
            kind = element if width == 1 else vector(element, width)
            end = code.and_(count, -width)
            with code.each(done, end, width) as j:
                place = code.add(code.mul(g, count), j)
                each = {
                    which: code.load(code.at(table, j, element), kind)
                    for which, table in zip(neuron.each, tables, strict=True)
                }
                zeros = [code.constant(0, kind)] * neuron.states
                old = [code.load(code.at(start, place, element), kind) for start in starts]
                with code.loop(0, steps, 1, old or zeros) as step:
                    here = code.add(code.mul(step.index, across), place)
                    current = code.load(code.at(x, here, element), kind)
                    value, step.values = neuron.step(code, each, current, step.values)
                    store_output(code, neuron, value, y, here)
                for value, state in zip(step.values, ends, strict=False):
                    code.store(value, code.at(state, place, element))
            done = end
    return code.finish()
