"""A folded product as a stage: registers for a beat, a ROM of weights, SIMD·PE cells, accumulators.

    step 0 …        inputs of a fold are chosen; the address of the weights goes out
    a step later    the weights are there; cells, a tree of adders a column
    after the tree  accumulators; they start from a ROM of constants
    then            the function of the sums (`activation`), into the columns' place of the result

Not here: the numbers in the ROMs (`product`).
"""

from __future__ import annotations

from xdsl.dialects import comb
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ...adder_graph.graph import width_of
from ..compressors import compressed_sum
from ..memories import Style
from ..pacing import Pacing
from ..signals import Signal, Wire
from ..stages.stage import Layout, Stage
from .activation import applied
from .control import Beat, SteppedBody
from .product import FoldedProduct
from .timing import SteppedTiming


def folded_stage(
    name: str,
    source: str,
    folded: FoldedProduct,
    *,
    pipeline: Pacing | int = 1,
    keep_beat: bool = True,
    weights: Style | None = None,
    beats: int = 1,
) -> Stage:
    """The stage of a folded product.

    Args:
        name: of the module.
        source: what it is, in words.
        folded: the product.
        pipeline: where registers are wanted; nowhere is taken for after each level.
        keep_beat: take a beat in one cycle and keep it. Otherwise the beat must stay at the input
            until it is taken, which is after the last step: registers are saved where the sender
            has nothing else to do.
        weights: what the ROM of weights is made of; by its size when not given.
        beats: of a frame.
    """
    return _Writer(name, source, folded, pipeline, keep_beat, weights, beats).stage()


class _Writer:
    def __init__(
        self,
        name: str,
        source: str,
        folded: FoldedProduct,
        pipeline: Pacing | int,
        keep_beat: bool,
        weights: Style | None,
        beats: int,
    ) -> None:
        self.folded, self.product = folded, folded.product
        self.inputs = Layout(self.product.inputs, beats)
        self.outputs = Layout(tuple(self.product.outputs), beats)
        bits = self.inputs.width, self.outputs.width
        self.body = SteppedBody(name, source, bits, pipeline)
        self.circuit = self.body.circuit
        self.keep_beat = keep_beat
        self.weights: Style | None = weights

    def stage(self) -> Stage:
        body = self.body
        in_ready, chosen, first, last, words = self._front()
        sums = self._sums(chosen, words)
        sums, done = self._accumulated(sums, first, last)
        results = applied(body, self.folded, sums, self.group)
        wires = [signal.wire for signal in results if signal.wire is not None]
        end = max((wire.cycle for wire in wires), default=sums[0].cycle)
        done = body.flags(done, end - sums[0].cycle, "done")
        data, at_end = self._gathered(results, done, end)
        at_once = self.folded.folds[0] == 1
        module, parts = body.end(in_ready, done, at_end, data, at_once=at_once)
        return Stage(
            body.name,
            module,
            (self.inputs,),
            (self.outputs,),
            SteppedTiming(*self.folded.folds, end + 1, keep_beat=self.keep_beat, at_once=at_once),
            tuple(parts),
            (self.circuit.layer,),
        )

    def _front(self) -> tuple[SSAValue, list[Wire], Wire, SSAValue, SSAValue]:
        """Steps through the folds of a beat.

        Returns in_ready; and of cycle 0 the inputs chosen, whether they are the first of their
        column, whether a last one is there, and the weights.
        """
        body, folding = self.body, self.folded.folding
        groups, _ = self.folded.folds
        beat = body.beats(self.folded.cycles, keep_beat=self.keep_beat)
        group, _, last_group = body.numbered(groups, beat.step, "fold_in")
        chosen = body.kept(self._chosen(beat, group, last_group), body.enable, "chosen")
        last = body.flag(body.all_of(beat.busy, last_group), "last")
        first = last
        if groups > 1:
            first = body.kept(body.compare(group.value, "eq", 0), body.enable, "first")
        bits = 2 * folding.pe * folding.simd
        words = body.rom(
            self.folded.weight_words(), bits, beat.index.value, "weights", self.weights
        )
        size = self.product.width
        inputs = [
            Wire(body.extract(chosen, i * size, size), 0, (1 << size) - 1)
            for i in range(self.folded.lanes * folding.simd)
        ]
        return beat.in_ready, inputs, Wire(first, 0, 1), last, words

    def _chosen(self, beat: Beat, group: Wire, last_group: SSAValue) -> SSAValue:
        """The inputs of a group, as unsigned numbers, the first in the lowest bits."""
        circuit, width = self.circuit, self.product.width
        elements = self.body.elements(beat.data, self.product.inputs, width)
        elements.append(circuit.constant(0, width))
        selections: list[list[int]] = self.folded.selections.tolist()
        words = [self.body.joined([elements[place] for place in places]) for places in selections]
        word = self._picked(words, beat, group, last_group)
        if not self.product.signed:
            return word
        count = self.folded.selections.shape[1]
        tops = sum(1 << (i * width + width - 1) for i in range(count))
        return circuit.put(comb.XorOp([word, circuit.constant(tops, count * width)]))

    def _picked(
        self, words: list[SSAValue], beat: Beat, group: Wire, last_group: SSAValue
    ) -> SSAValue:
        """The selection of this step."""
        body, folded = self.body, self.folded
        if folded.product.groups == 1:
            return body.picked(words, group)
        if folded.parts == 1:
            return body.picked(words, beat.index)
        ends = body.all_of(beat.step, last_group)
        _, _, last_part = body.numbered(folded.parts, ends, "part")
        own, _, _ = body.numbered(folded.product.groups, body.all_of(ends, last_part), "own_group")
        groups = folded.folds[0]
        chosen = [
            body.picked(words[start : start + groups], group)
            for start in range(0, len(words), groups)
        ]
        return body.picked(chosen, own)

    def _sums(self, chosen: list[Wire], words: SSAValue) -> list[Wire]:
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

    def _cell(self, wire: Wire, words: SSAValue, index: int) -> Wire:
        circuit = self.circuit
        counts, negative = (circuit.extract(words, 2 * index + i, 1) for i in range(2))
        if wire.width > 1:
            type = IntegerType(wire.width)
            counts, negative = (
                circuit.put(comb.ReplicateOp(bit, type)) for bit in (counts, negative)
            )
        signed = circuit.put(comb.XorOp([wire.value, negative]))
        value = circuit.put(comb.AndOp([signed, counts]), circuit.name("cell"))
        circuit.layer.mux_bits += wire.width
        return Wire(value, 0, wire.high)

    def _total(self, cells: list[Wire]) -> Wire:
        circuit = self.circuit
        if cells[0].width == 1 and len(cells) > 1:
            total = compressed_sum(circuit, cells, []).wire
            assert total is not None
            cells = [total]
        while len(cells) > 1:
            pairs = zip(cells[::2], cells[1::2], strict=False)
            rest = cells[-1:] if len(cells) % 2 else []
            cells = [circuit.added(a, b, 1, circuit.name("sum")) for a, b in pairs] + rest
        (total,) = cells
        most = self.folded.most_in_a_cycle * ((1 << self.product.width) - 1)
        high = min(total.high, max(most, 1))
        value = circuit.bits(total, width_of(0, high))
        return Wire(value, 0, high, total.cycle, total.level)

    def _accumulated(
        self, sums: list[Wire], first: Wire, last: SSAValue
    ) -> tuple[list[Wire], SSAValue]:
        """The accumulators, and the bit that says that they hold the sums of columns."""
        body, circuit = self.body, self.circuit
        cost = circuit.pacing.cost("add", self.product.sum_width)
        *sums, first = circuit.together([*sums, first], cost)
        last = body.flags(last, sums[0].cycle, "last")
        width = self.product.sum_width
        step = body.all_of(last, body.enable)
        group, following, _ = body.numbered(self.folded.folds[1], step, "group")
        self.group = Wire(group.value, group.low, group.high, sums[0].cycle)
        size = width * self.folded.folding.pe
        starts = body.rom(self.folded.start_words(), size, following, "starts")
        results: list[Wire] = []
        for column, wire in enumerate(sums):
            start = circuit.extract(starts, column * width, width)
            with circuit.element(column):
                results.append(self._accumulator(wire, start, first, width))
        return results, body.flag(last, "done")

    def _accumulator(self, wire: Wire, start: SSAValue, first: Wire, width: int) -> Wire:
        circuit = self.circuit
        if wire.width > width:
            value = circuit.extract(wire.value, 0, width)
        else:
            value = circuit.bits(wire, width)
        name = circuit.name("acc")
        if self.folded.folds[0] == 1:
            total = circuit.register(circuit.put(comb.AddOp([start, value])), name)
        else:
            before = comb.MuxOp(first.value, start, start)
            added = circuit.put(comb.AddOp([circuit.put(before), value]))
            total = circuit.register(added, name)
            before.operands[2] = total
        circuit.layer.adders += 1
        circuit.layer.adder_bits += width
        circuit.layer.register_bits += width
        return Wire(total, *self.product.sums, wire.cycle + 1)

    def _gathered(
        self, results: list[Signal], done: SSAValue, end: int
    ) -> tuple[SSAValue, SSAValue]:
        """The whole result, and whether its last group is on the way into it."""
        body, circuit = self.body, self.circuit
        step = body.all_of(done, body.enable)
        _, groups = self.folded.folds
        group, _, at_end = body.numbered(groups, step, "group_out")
        parts: list[SSAValue] = []
        every: list[list[int]] = self.folded.columns.tolist()
        for index, columns in enumerate(every):
            here = step
            if groups > 1:
                here = body.all_of(step, body.compare(group.value, "eq", index))
            bounds = [self.product.outputs[column] for column in columns if column >= 0]
            values = [
                circuit.bits(circuit.at(signal.wire, end), width_of(*ends))
                if signal.wire is not None
                else circuit.constant(signal.offset, width_of(*ends))
                for signal, ends in zip(results, bounds, strict=False)
            ]
            parts.append(body.kept(self.body.joined(values), here, f"result_{index}"))
        return self.body.joined(parts), at_end
