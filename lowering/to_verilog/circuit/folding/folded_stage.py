"""A folded product as a stage: registers for a beat, a ROM of weights, SIMD·PE cells, accumulators.

    step 0 …        inputs of a fold are chosen; the address of the weights goes out
    a step later    the weights are there; cells, a tree of adders a column
    after the tree  accumulators; they start from a ROM of constants, and double between digits
    then            the function of the sums (`activation`), into the last columns' place of the
                    result, where all move one place on

Not here: the numbers in the ROMs (`product`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from xdsl.ir import SSAValue

from .....passes.adder_graph.graph import width_of
from ..arrays import in_pairs
from ..bit_counts import ones_among
from ..pacing import Pacing
from ..signals import Signal, Wire
from ..stages.counters import Counter
from ..stages.stage import Layout, Stage
from .activation import applied
from .control import Beat, SteppedBody
from .product import FoldedProduct

_EVERY_LEVEL = Pacing()


def folded_stage(
    name: str,
    source: str,
    folded: FoldedProduct,
    *,
    pacing: Pacing = _EVERY_LEVEL,
    keep_beat: bool = True,
    beats: int = 1,
) -> Stage:
    """The stage of a folded product.

    Args:
        keep_beat: take a beat in one cycle and keep it. Otherwise the beat must stay at the input
            until it is taken, which is after the last step: registers are saved where the sender
            has nothing else to do.
    """
    product = folded.product
    input, output = (Layout(tuple(bounds), beats) for bounds in (product.inputs, product.outputs))
    body = SteppedBody(name, source, input, pacing, loadable=product.loadable)
    return _Writer(folded, body).stage(output, keep_beat=keep_beat)


@dataclass(frozen=True)
class _Phase:
    """Where in its column a step is, of cycle 0.

    Attributes:
        first: whether it is the column's first.
        doubles: whether it begins another digit of the weights.
        digit: which one, from 0 for the highest.
    """

    first: Wire
    doubles: Wire
    digit: Wire


class _Writer:
    def __init__(self, folded: FoldedProduct, body: SteppedBody) -> None:
        self.folded, self.product = folded, folded.product
        self.body, self.circuit = body, body.circuit

    def stage(self, output: Layout, *, keep_beat: bool) -> Stage:
        body = self.body
        in_ready, chosen, phase, last, words = self._front(keep_beat=keep_beat)
        sums = self._sums(chosen, words)
        sums, done = self._accumulated(sums, phase, last)
        results = applied(body, self.folded, sums, self.group)
        wires = [signal.wire for signal in results if signal.wire is not None]
        end = max((wire.cycle for wire in wires), default=sums[0].cycle)
        done = body.flags(done, end - sums[0].cycle, "done")
        data, at_end = self._gathered(results, done, end)
        at_once = self.folded.steps == 1
        return body.end(output, in_ready, done, at_end, data, at_once=at_once)

    def _front(self, *, keep_beat: bool) -> tuple[SSAValue, list[Wire], _Phase, SSAValue, Wire]:
        """Steps through the folds of a beat.

        Returns in_ready; and of cycle 0 the inputs chosen, where in its column a step is, whether a
        last one is there, and the weights.
        """
        body, folding = self.body, self.folded.folding
        groups, _ = self.folded.folds
        beat = body.beats(self.folded.cycles, keep_beat=keep_beat)
        group = body.counter(groups, beat.step, "fold_in", early=True)
        step = body.all_of(beat.step, group.last)
        digit = body.counter(self.product.digits, step, "digit", early=True)
        column_ends = body.all_of(group.last, digit.last)
        word = self._chosen(beat, group.value, column_ends)
        if self.product.counts_negative:
            bits = self.folded.lanes * folding.simd * self.product.width
            top = body.repeated(body.compare(digit.value, "eq", 0), bits)
            word = self.circuit.either(word, top)
        chosen = body.register(word, body.enable, "chosen")
        last = body.flag(body.all_of(beat.busy, column_ends), "last")
        phase = self._phase(group, digit, last)
        bits = self.folded.weight_bits * folding.pe * folding.simd
        words = body.rom(self.folded.weight_words(), bits, beat.index, "weights")
        size = self.product.width
        spread = self.circuit.pacing.after_spreading(folding.pe)
        inputs = [
            Wire(body.extract(chosen, i * size, size), 0, (1 << size) - 1, 0, spread)
            for i in range(self.folded.lanes * folding.simd)
        ]
        level = body.level_of(words, size)
        return beat.in_ready, inputs, phase, last, Wire(words, 0, (1 << bits) - 1, 0, level)

    def _phase(self, group: Counter, digit: Counter, last: SSAValue) -> _Phase:
        """Where a step is in its column, a step later."""
        body = self.body
        begins = body.constant(1, 1)
        if self.folded.folds[0] > 1:
            begins = body.compare(group.value, "eq", 0)
        if self.product.digits == 1:
            none = Wire(body.constant(0, 1), 0, 0)
            if self.folded.steps == 1:
                return _Phase(Wire(last, 0, 1), none, none)
            return _Phase(Wire(body.register(begins, body.enable, "first"), 0, 1), none, none)
        top = body.compare(digit.value, "eq", 0)
        first = body.register(body.all_of(begins, top), body.enable, "first")
        doubles = body.register(begins, body.enable, "doubles")
        number = body.register(digit.value, body.enable, "digit_of")
        return _Phase(Wire(first, 0, 1), Wire(doubles, 0, 1), Wire(number, 0, digit.count - 1))

    def _chosen(self, beat: Beat, group: SSAValue, column_ends: SSAValue) -> SSAValue:
        """The inputs of a group, as unsigned numbers, the first in the lowest bits."""
        circuit, width = self.circuit, self.product.width
        elements = self.body.elements(beat.data, self.product.inputs, width)
        elements.append(circuit.constant(0, width))
        selections: list[list[int]] = self.folded.selections.tolist()
        words = [self.body.joined([elements[place] for place in places]) for places in selections]
        word = self._picked(words, beat, group, column_ends)
        if not self.product.signed:
            return word
        count = self.folded.selections.shape[1]
        tops = sum(1 << (i * width + width - 1) for i in range(count))
        return circuit.either(word, circuit.constant(tops, count * width))

    def _picked(
        self, words: list[SSAValue], beat: Beat, group: SSAValue, column_ends: SSAValue
    ) -> SSAValue:
        """The selection of this step."""
        body, folded = self.body, self.folded
        if folded.product.groups == 1:
            return body.picked_by_tables(words, group)
        if folded.parts == 1 and folded.product.digits == 1:
            return body.picked_by_tables(words, beat.index)
        ends = body.all_of(beat.step, column_ends)
        part = body.counter(folded.parts, ends, "part", early=True)
        count = -(-folded.product.groups // folded.lanes)
        own = body.counter(count, body.all_of(ends, part.last), "own_group", early=True)
        groups = folded.folds[0]
        chosen = [
            body.picked_by_tables(words[start : start + groups], group)
            for start in range(0, len(words), groups)
        ]
        return body.picked(chosen, own.value)

    def _sums(self, chosen: list[Wire], words: Wire) -> list[Wire]:
        """For each column the sum of what its weights make of the inputs chosen."""
        sums: list[Wire] = []
        simd = self.folded.folding.simd
        for column in range(self.folded.folding.pe):
            lane = column // self.folded.own
            with self.circuit.element(column):
                cells = [
                    self._cell(wire, words, column * simd + i)
                    for i, wire in enumerate(chosen[lane * simd : (lane + 1) * simd])
                ]
                sums.append(self._total(cells))
        return sums

    def _cell(self, wire: Wire, weights: Wire, index: int) -> Wire:
        circuit = self.circuit
        # Cells are part of the look-up tables of the adders behind them, but for those of one bit,
        # which are counted by tables of their own.
        counted = wire.width == 1
        own = 2 * circuit.pacing.cost("mux", levels=0) if counted else 0
        cost = own or circuit.pacing.cost("add", wire.width + 1, levels=0)
        wire, weights = circuit.together([wire, weights], cost)
        if not self.product.is_ternary:
            value = self._bit_cell(wire, weights.value, index)
        else:
            value = self._trit_cell(wire, weights.value, index)
        return circuit.made(value, 0, wire.high, [wire, weights], own)

    def _trit_cell(self, wire: Wire, words: SSAValue, index: int) -> SSAValue:
        """An input, its inverse, or zero."""
        circuit = self.circuit
        counts, negative = (circuit.extract(words, 2 * index + i, 1) for i in range(2))
        counts, negative = (self.body.repeated(bit, wire.width) for bit in (counts, negative))
        signed = circuit.either(wire.value, negative)
        return circuit.all_of(signed, counts, name=circuit.name("cell"))

    def _bit_cell(self, wire: Wire, words: SSAValue, index: int) -> SSAValue:
        """An input where the bit of its weight is 1."""
        circuit = self.circuit
        bit = self.body.repeated(circuit.extract(words, index, 1), wire.width)
        return circuit.all_of(wire.value, bit, name=circuit.name("cell"))

    def _total(self, cells: list[Wire]) -> Wire:
        circuit = self.circuit
        if cells[0].width == 1 and len(cells) > 1:
            total = ones_among(circuit, cells).wire
            assert total is not None
            cells = [total]
        total = in_pairs(lambda a, b: circuit.added(a, b, 1, circuit.name("sum")), cells)
        most = self.folded.most_in_a_cycle * ((1 << self.product.width) - 1)
        high = min(total.high, max(most, 1))
        value = circuit.bits(total, width_of(0, high))
        return Wire(value, 0, high, total.cycle, total.level)

    def _accumulated(
        self, sums: list[Wire], phase: _Phase, last: SSAValue
    ) -> tuple[list[Wire], SSAValue]:
        """The accumulators, and the bit that says that they hold the sums of columns."""
        body, circuit = self.body, self.circuit
        cost = circuit.pacing.cost("add", self.product.sum_width)
        *sums, first, doubles, digit = circuit.together(
            [*sums, phase.first, phase.doubles, phase.digit], cost
        )
        phase = _Phase(first, doubles, digit)
        last = body.flags(last, sums[0].cycle, "last")
        width = self.product.sum_width
        step = body.all_of(last, body.enable)
        groups = self.folded.folds[1]
        group = Counter(body, groups, "group", early=True)
        following = body.select(step, group.step(step), group.value)
        self.group = Wire(group.value, 0, groups - 1, sums[0].cycle)
        size = width * self.folded.folding.pe
        starts = body.rom(self.folded.start_words(), size, following, "starts")
        results: list[Wire] = []
        for column, wire in enumerate(sums):
            start = circuit.extract(starts, column * width, width)
            with circuit.element(column):
                results.append(self._accumulator(wire, start, phase, width))
        return results, body.flag(last, "done")

    def _accumulator(self, wire: Wire, start: SSAValue, phase: _Phase, width: int) -> Wire:
        body, circuit = self.body, self.circuit
        bits = max(width, self.product.digits)
        value = (
            circuit.extract(wire.value, 0, bits) if wire.width > bits else circuit.bits(wire, bits)
        )
        total = body.state(bits, circuit.name("acc") or "acc")
        before = start
        if self.folded.steps > 1:
            start, lower = self._split_start(start, bits)
            before_it = total if lower is None else self._doubled(total, lower, phase, bits)
            before = body.select(phase.first.value, start, before_it)
        body.drive(total, circuit.add(before, value), body.enable)
        sums = total if bits == width else circuit.extract(total, 0, width)
        return Wire(sums, *self.product.sums, wire.cycle + 1)

    def _split_start(self, start: SSAValue, bits: int) -> tuple[SSAValue, SSAValue | None]:
        """What a column starts from at its highest digit, and the bits that come in later."""
        later = self.product.digits - 1
        if not later:
            return start, None
        # With zeros above: the sum is right in its own bits whatever is there.
        whole = self.body.extended(start, False, bits)
        upper = self.body.extract(whole, later, bits - later)
        return self.body.extended(upper, False, bits), self.body.extract(whole, 0, later)

    def _doubled(self, total: SSAValue, lower: SSAValue, phase: _Phase, bits: int) -> SSAValue:
        """The accumulator, doubled where a digit begins: the next bit of the start comes in."""
        body, later = self.body, self.product.digits - 1
        # The digit of number n ≥ 1 has the bit at the place later - n.
        incoming = [body.extract(lower, later - max(n, 1), 1) for n in range(later + 1)]
        bit = body.picked(incoming, phase.digit.value)
        doubled = body.joined([bit, body.extract(total, 0, bits - 1)])
        return body.select(phase.doubles.value, doubled, total)

    def _gathered(
        self, results: list[Signal], done: SSAValue, end: int
    ) -> tuple[SSAValue, SSAValue]:
        """The whole result, and whether its last group is on the way into it."""
        body = self.body
        step = body.all_of(done, body.enable)
        groups = self.folded.folds[1]
        group = body.counter(groups, step, "group_out", early=True)
        lanes: dict[tuple[int, ...], list[int]] = {}
        for lane, columns in enumerate(self.folded.columns.T):
            taking = tuple(np.flatnonzero(columns >= 0).tolist())
            lanes.setdefault(taking, []).append(lane)
        found: dict[int, SSAValue] = {}
        for taking, those in lanes.items():
            without = sorted({*range(groups)} - {*taking})
            here = step
            if without:
                asked = [body.compare(group.value, "eq", index) for index in without]
                here = body.all_of(step, body.inverse(body.any_of(*asked)))
            signals = {lane: results[lane] for lane in those}
            found |= self._moved_on(signals, taking, here, end)
        return body.joined([found[column] for column in sorted(found)]), group.last

    def _moved_on(
        self, signals: dict[int, Signal], taking: tuple[int, ...], here: SSAValue, end: int
    ) -> dict[int, SSAValue]:
        """The results of some lanes by column, in registers that each give the one before theirs.

        One enable is that of all of them: to know the place of each took a look-up table a group.

        Args:
            signals: what the lanes give.
            taking: the groups in which they have a column.
            here: whether they give one.
            end: the cycle of that.
        """
        body, circuit = self.body, self.circuit
        columns: list[list[int]] = self.folded.columns.tolist()
        widths = {
            lane: [width_of(*self.product.outputs[columns[group][lane]]) for group in taking]
            for lane in signals
        }
        coming = [
            circuit.constant(signal.offset, max(widths[lane]))
            if signal.wire is None
            else circuit.bits(circuit.at(signal.wire, end), max(widths[lane]))
            for lane, signal in signals.items()
        ]
        found: dict[int, SSAValue] = {}
        for place in reversed(range(len(taking))):
            # The results of the groups before come by here.
            sizes = [max(of_lane[: place + 1]) for of_lane in widths.values()]
            coming = [body.extended(x, False, n) for x, n in zip(coming, sizes, strict=True)]
            word = body.register(body.joined(coming), here, f"result_{taking[place]}")
            lows = list(accumulate([0, *sizes[:-1]]))
            coming = [body.extract(word, low, n) for low, n in zip(lows, sizes, strict=True)]
            for (lane, of_lane), value in zip(widths.items(), coming, strict=True):
                found[columns[taking[place]][lane]] = body.extended(value, False, of_lane[place])
        return found
