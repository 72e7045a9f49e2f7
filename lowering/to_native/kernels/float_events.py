"""Layers of float weights, event-driven: panels of weights that stay in the first-level cache.

The events of some hundred rows of spikes are listed, each as the place of a row of weights in its
panel. Then panel by panel four rows of spikes at once add up their rows of weights in registers, in
the order of the inputs; the lists of the four are made equally long with a row of zeros, which
changes no sum, since none that begins with +0 is -0. At last neurons step over the sums.

Not here: weights of trits and int8, those without zeros (`spiking_layers`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import reduce

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import f32, f64, i16, i64
from xdsl.ir import Attribute, SSAValue

from ....ir.arrays import Array
from ....runtime.native.abi.linear import round_up
from ..llvm.types import vector
from .code import Index
from .events import FIRST, EventRows
from .neuron_steps import NeuronStep
from .spiking_layers import LayerArguments, Synapse, finish_of, store_output

_PANEL_BYTES = 26 << 10
_ROW_BYTES = _LINE = 64
TOGETHER = 4
"""Rows of spikes that are summed side by side: a group, whose lists are in words of 64 bits."""
_ROWS, _SAMPLES = 512, 16
"""Rows of spikes whose events are listed at once, and samples that they are of at most."""
_GROUPS = _ROWS // TOGETHER
_HEAD = 8 * TOGETHER
"""Bytes before the lists of a group: their lengths."""


class FloatRows(EventRows):
    """Weights [ins, outs] in panels [columns, parts, inputs of a part and zeros, column]."""

    @property
    def element(self) -> Attribute:
        """The type of a weight and of a sum."""
        return f64 if self.kind == "f64" else f32

    @property
    def entry(self) -> Attribute:
        """The type of an event in a list: bytes from the start of a panel."""
        return i16

    @property
    def lanes(self) -> int:
        """Outputs in a register."""
        return self.recipe.width // self.sum_bytes

    @property
    def column(self) -> int:
        """Outputs of a panel."""
        return self.row_bytes // self.sum_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a panel."""
        return max(_ROW_BYTES, self.recipe.width)

    @property
    def parts(self) -> int:
        """Panels one above the other."""
        return -(-self.ins // self.part)

    @property
    def part(self) -> int:
        """Inputs of a panel."""
        most = _PANEL_BYTES // self.row_bytes
        return round_up(-(-self.ins // -(-self.ins // most)), self.recipe.width)

    @property
    def last_part(self) -> int:
        """Inputs of the lowest panel."""
        return self.ins - (self.parts - 1) * self.part

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel with its row of zeros."""
        return (self.part + 1) * self.row_bytes

    @property
    def lists_together(self) -> int:
        """Rows of spikes that are summed side by side."""
        return TOGETHER

    @property
    def list_bytes(self) -> int:
        """Memory for the lists of a group for a part; entries past the last may be written."""
        return _HEAD + TOGETHER * round_up(2 * (self.part + 2 * FIRST), 8)

    def arranged(self, weights: Array) -> Array:
        """The panels of weights [ins, outs]."""
        outside = (
            (0, self.parts * self.part - self.ins),
            (0, self.padded - weights.shape[1]),
        )
        parts = np.pad(weights, outside).reshape(self.parts, self.part, -1, self.column)
        panels = np.pad(parts, ((0, 0), (0, 1), (0, 0), (0, 0)))
        return np.ascontiguousarray(panels.transpose(2, 0, 1, 3)).reshape(-1)


class _Memory:
    """Where things stand in scratch memory: bytes from its start."""

    def __init__(self, rows: FloatRows, states: int) -> None:
        lists = rows.parts * _GROUPS * rows.list_bytes
        self.sums = round_up(lists, _ROW_BYTES)
        self.output = self.sums + _ROWS * rows.row_bytes
        self.states = self.output + rows.row_bytes
        self.sample = rows.padded * rows.sum_bytes
        """Bytes of a state of a sample."""
        self.state = _SAMPLES * self.sample
        self.size = self.states + states * self.state


def float_scratch(synapse: Synapse, neuron: NeuronStep | None) -> int:
    """Bytes of scratch memory of `write_float_layer`."""
    return _memory(synapse, neuron).size


def _memory(synapse: Synapse, neuron: NeuronStep | None) -> _Memory:
    assert isinstance(synapse.rows, FloatRows)
    return _Memory(synapse.rows, 0 if neuron is None else neuron.states)


def write_float_layer(
    name: str,
    synapse: Synapse,
    neuron: NeuronStep | None = None,
    *,
    initial: bool = False,
    final: bool = False,
) -> llvm.FuncOp:
    """See `spiking_layers.LayerArguments`."""
    of = LayerArguments(name, neuron, initial=initial, final=final)
    _Writer(of, synapse, neuron).write(of)
    return of.code.finish()


class _Writer:
    """Writes the parts of a layer."""

    def __init__(self, of: LayerArguments, synapse: Synapse, neuron: NeuronStep | None) -> None:
        assert isinstance(synapse.rows, FloatRows)
        self._code = code = of.code
        self._synapse, self._rows = synapse, synapse.rows
        self._neuron = neuron
        self._x, self._weights, self._batch = of.x, of.weights, of.batch
        self._finish = finish_of(code, synapse, of.scale, of.bias)
        self._tables, self._y, self._lists = of.tables, of.y, of.scratch
        self._events = synapse.rows.events(code)
        self._memory = _memory(synapse, neuron)
        self._sums = code.at(of.scratch, self._memory.sums)
        self._output = code.at(of.scratch, self._memory.output)
        count = 0 if neuron is None else neuron.states
        self._states = [
            code.at(of.scratch, self._memory.states + n * self._memory.state) for n in range(count)
        ]
        self._register = vector(synapse.rows.element, synapse.rows.lanes)

    def write(self, of: LayerArguments) -> None:
        """The layer: some samples, some of their steps, panel by panel."""
        code, rows, memory = self._code, self._rows, self._memory
        size, steps, batch = rows.outs * rows.sum_bytes, of.steps, of.batch
        with code.each(0, batch, _SAMPLES) as self._first:
            self._samples = code.minimum(code.sub(batch, self._first), _SAMPLES)

            def places(outside: SSAValue, state: SSAValue) -> Generator[tuple[SSAValue, SSAValue]]:
                with code.each(0, self._samples) as n:
                    sample = code.add(self._first, n)
                    yield (
                        code.at(outside, code.mul(sample, size)),
                        code.at(state, code.mul(n, memory.sample)),
                    )

            for state in self._states:
                code.clear(state, code.mul(self._samples, memory.sample))
            for start, state in zip(of.starts, self._states, strict=False):
                for source, target in places(start, state):
                    code.copy(target, source, size)
            together = code.udiv(code.constant(_ROWS), self._samples)
            turns = code.udiv(code.add(steps, code.sub(together, 1)), together)
            with code.each(0, turns) as turn:
                self._begin = code.mul(turn, together)
                self._end = code.minimum(code.add(self._begin, together), steps)
                count = code.mul(code.sub(self._end, self._begin), self._samples)
                self._groups = code.udiv(code.add(count, TOGETHER - 1), TOGETHER)
                self._list_all()
                last = rows.columns - 1
                with code.each(0, last) as p:
                    self._panel(p, rows.column)
                self._panel(code.constant(last), rows.outs - last * rows.column)
            for end, state in zip(of.ends, self._states, strict=False):
                for target, source in places(end, state):
                    code.copy(target, source, size)

    @contextmanager
    def _samples_of(self, t: SSAValue) -> Generator[tuple[SSAValue, SSAValue]]:
        """A loop over the samples: the row of spikes in memory, and its number among those here."""
        code = self._code
        done = code.mul(code.sub(t, self._begin), self._samples)
        with code.each(0, self._samples) as n:
            row = code.add(code.add(code.mul(t, self._batch), self._first), n)
            yield row, code.add(done, n)

    def _group(self, part: Index, group: Index) -> SSAValue:
        """Where the lists of a group stand."""
        code = self._code
        number = code.add(code.mul(part, _GROUPS), group)
        return code.at(self._lists, code.mul(number, self._rows.list_bytes))

    def _list_all(self) -> None:
        """List the events of all rows of spikes, equally many for each of a group."""
        code, rows = self._code, self._rows
        nothing = code.constant(rows.part * rows.row_bytes, i16)

        def listed(part: Index, ins: int) -> None:
            last = self._group(part, code.sub(self._groups, 1))
            code.clear(last, _HEAD)
            with code.each(self._begin, self._end) as t, self._samples_of(t) as (row, number):
                source = code.at(self._x, code.mul(row, rows.ins))
                source = code.at(source, code.mul(part, rows.part))
                group = self._group(part, code.lshr(number, TOGETHER.bit_length() - 1))
                member = code.and_(number, TOGETHER - 1)
                target = code.at(code.at(group, _HEAD), member, i16)
                count = self._events.list_events(source, target, ins)
                code.store(count, code.at(group, member, i64))
            with code.each(0, self._groups) as g:
                group = self._group(part, g)
                places = [code.at(group, n, i64) for n in range(TOGETHER)]
                counts = [code.load(place, i64) for place in places]
                most = reduce(code.maximum, counts)
                for n, count in enumerate(counts):
                    with code.each(count, most) as e:
                        place = code.add(code.mul(e, TOGETHER), n)
                        code.store(nothing, code.at(code.at(group, _HEAD), place, i16))
                code.store(most, group)

        if rows.parts > 1:
            with code.each(0, rows.parts - 1) as part:
                listed(part, rows.part)
        listed(rows.parts - 1, rows.last_part)

    def _panel(self, p: SSAValue, outs: int) -> None:
        """The sums of a panel's outputs, and what follows them."""
        code, rows = self._code, self._rows
        registers = -(-outs // rows.lanes)
        code.clear(self._sums, code.mul(self._groups, TOGETHER * rows.row_bytes))
        lines = code.add(code.udiv(code.constant(rows.panel_bytes // _LINE), self._groups), 1)
        with code.each(0, rows.parts) as part, code.each(0, self._groups) as group:
            number = code.add(code.mul(p, rows.parts), part)
            panel = code.at(self._weights, code.mul(number, rows.panel_bytes))
            # The next panel, a piece for each group.
            ahead = code.at(panel, code.mul(code.mul(group, lines), _LINE))
            with code.each(0, lines) as line:
                place = code.at(ahead, code.mul(line, _LINE))
                code.prefetch(code.at(place, rows.panel_bytes), 2)
            self._add(panel, part, group, registers)
        if self._neuron is None:
            with code.each(self._begin, self._end) as t, self._samples_of(t) as (row, number):
                self._give(p, outs, row, number)
        else:
            self._step(self._neuron, p, outs)

    def _add(self, panel: SSAValue, part: SSAValue, g: SSAValue, registers: int) -> None:
        """Add to the sums of a group of rows of spikes what a panel has for them."""
        code, rows, width = self._code, self._rows, self._rows.recipe.width
        group = self._group(part, g)
        line = code.at(self._sums, code.mul(g, TOGETHER * rows.row_bytes))
        places = [
            code.at(line, n * rows.row_bytes + r * width)
            for n in range(TOGETHER)
            for r in range(registers)
        ]
        totals = [code.load(place, self._register) for place in places]
        with code.loop(0, code.load(group, i64), 1, totals) as event:
            word = code.load(code.at(code.at(group, _HEAD), event.index, i64), i64)
            sums: list[SSAValue] = []
            for n in range(TOGETHER):
                offset = code.and_(code.lshr(word, 16 * n), 0xFFFF)
                row = code.at(panel, offset)
                for r in range(registers):
                    value = code.load(code.at(row, r * width), self._register)
                    sums.append(code.fadd(event.values[n * registers + r], value))
            event.values = sums
        for total, place in zip(event.values, places, strict=True):
            code.store(total, place)

    def _sums_of(self, p: SSAValue, number: SSAValue) -> SSAValue:
        """Where the sums of a row of spikes would start if all outputs had theirs there."""
        code, rows = self._code, self._rows
        line = code.at(self._sums, code.mul(number, rows.row_bytes))
        return code.at(line, code.mul(p, -rows.row_bytes))

    def _give(self, p: SSAValue, outs: int, row: SSAValue, number: SSAValue) -> None:
        """The results of a row of spikes."""
        code, rows = self._code, self._rows
        first = code.mul(p, rows.column)
        for r in range(-(-outs // rows.lanes)):
            j = code.add(first, r * rows.lanes)
            value = self._finish.result(self._sums_of(p, number), j)
            self._store(value, row, j, min(rows.lanes, outs - r * rows.lanes))

    def _store(self, value: SSAValue, row: SSAValue, j: SSAValue, outs: int) -> None:
        """Store what outputs j, j + 1, … give."""
        code, rows, neuron = self._code, self._rows, self._neuron
        size = 1 if neuron is not None and neuron.spikes else rows.sum_bytes
        place = code.add(code.mul(row, rows.outs), j)
        target = code.at(self._y, code.mul(place, size))
        whole = outs == rows.lanes
        store_output(code, neuron, value, target if whole else self._output, 0)
        if not whole:
            code.copy(target, self._output, outs * size)

    def _step(self, neuron: NeuronStep, p: SSAValue, outs: int) -> None:
        """Neurons over the steps, sample by sample, with their states in registers."""
        code, rows, memory = self._code, self._rows, self._memory
        lanes, registers = rows.lanes, -(-outs // rows.lanes)
        places = [code.add(code.mul(p, rows.column), r * lanes) for r in range(registers)]
        each = [
            {
                which: code.load(code.at(table, j, neuron.element), self._register)
                for which, table in zip(neuron.each, self._tables, strict=True)
            }
            for j in places
        ]
        with code.each(0, self._samples) as n:
            sample = code.mul(n, memory.sample)
            held = [
                code.at(code.at(state, sample), j, neuron.element)
                for j in places
                for state in self._states
            ]
            states = [code.load(place, self._register) for place in held]
            with code.loop(self._begin, self._end, 1, states) as step:
                done = code.mul(code.sub(step.index, self._begin), self._samples)
                row = code.add(code.add(code.mul(step.index, self._batch), self._first), n)
                sums = self._sums_of(p, code.add(done, n))
                after: list[SSAValue] = []
                for r, j in enumerate(places):
                    old = step.values[r * neuron.states : (r + 1) * neuron.states]
                    current = self._finish.result(sums, j)
                    value, new = neuron.step(code, each[r], current, old)
                    after += new
                    self._store(value, row, j, min(lanes, outs - r * lanes))
                step.values = after
            for value, place in zip(step.values, held, strict=True):
                code.store(value, place)
