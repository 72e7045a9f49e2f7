"""Stages that take several steps a beat: flags, counters, ROMs, and a result that waits.

Such a stage takes a step in each clock cycle in which its enable is 1. It stands still only when
a part of a result is there while the result before has not been taken. Not here: what is computed
in the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from .....dialects.fabric import BitsOp, RowOp
from .....dialects.shapes import bit_width
from .....passes.adder_graph.graph import width_of
from .. import ops
from ..circuit import Circuit
from ..memories import Memory
from ..pacing import Pacing
from ..signals import Wire
from ..stages.body import StageBody, load_sizes
from ..stages.stage import Layout, Stage

_FEW = 8
"""So many words synthesis selects from by as few tables as rows would take."""

_ONE_OF_FOUR = sum((n >> (n >> 4) & 1) << n for n in range(64))
"""The table of the bit 0 to 3 that bits 4 and 5 are the number of."""


@dataclass(frozen=True)
class Beat:
    """The beat that a stage works on.

    Attributes:
        data: its bits, while `busy`.
        busy: whether there is one.
        step: whether the stage goes on to its next step with it.
        index: of the step.
        at_end: whether that is the last one.
        in_ready: whether the sender's beat is taken.
    """

    data: SSAValue
    busy: SSAValue
    step: SSAValue
    index: SSAValue
    at_end: SSAValue
    in_ready: SSAValue


class SteppedBody(StageBody):
    """A stage of one input and one output, while it is written.

    Args:
        pacing: where registers are wanted; nowhere is taken for after each level.
        loadable: whether the words of ROMs can be loaded: then they are RAMs.

    Attributes:
        enable: 1 in the cycles in which the stage takes a step.
        circuit: arithmetic that takes these steps.
        memories: those that it uses, by symbol.
    """

    def __init__(
        self,
        name: str,
        source: str,
        input: Layout,
        pacing: Pacing,
        *,
        loadable: bool = False,
    ) -> None:
        super().__init__(input)
        self.name, self.source = name, source
        (self.data,), (self.valid,), (self.ready,) = self.in_data, self.in_valid, self.out_ready
        one = self.constant(1, 1)
        self._waits = self.inverse(self.ready)
        # Registers need the enable first; what it depends on is known last. It is no inverted
        # signal: Yosys would give each register an inverter of its own.
        self._free = ops.alike(comb.OrOp, [one, one])
        self.enable = self.put(self._free, "enable")
        paced = pacing or replace(pacing, levels=1)
        self.circuit = Circuit(self.block, self.clock, self.enable, paced)
        self.circuit.begin(name, source)
        self.memories: dict[str, Memory] = {}
        self._loadable = loadable
        self._loads: list[tuple[Memory, Operation]] = []

    def beats(self, steps: int, *, keep_beat: bool) -> Beat:
        """Take beats, and count the steps of each.

        Args:
            steps: of a beat.
            keep_beat: whether a beat is taken before its first step, into registers; else it is
                taken with its last one, and stays at the input until then.
        """
        busy = self.state(1, "busy", 0) if keep_beat else self.valid
        step = self.all_of(busy, self.enable, name="step")
        fold = self.counter(steps, step, "fold", early=True)
        index, at_end = fold.value, fold.last
        if not keep_beat:
            return Beat(self.data, busy, step, index, at_end, self.all_of(self.enable, at_end))
        free = self.any_of(self.inverse(busy), at_end)
        in_ready = self.all_of(self.enable, free, name="free")
        arrives = self.all_of(self.valid, in_ready, name="taken")
        goes_on = self.inverse(self.all_of(at_end, self.enable))
        self.drive(busy, self.any_of(arrives, self.all_of(busy, goes_on)))
        # With one that is not valid too: fewer bits decide.
        beat = self.register(self.data, in_ready, "beat")
        return Beat(beat, busy, step, index, at_end, in_ready)

    def elements(
        self, beat: SSAValue, bounds: Sequence[tuple[int, int]], width: int
    ) -> list[SSAValue]:
        """The elements of a beat, all of one width."""
        values: list[SSAValue] = []
        low = 0
        for ends in bounds:
            bits = width_of(*ends)
            if ends[0] == ends[1]:
                values.append(self.circuit.constant(ends[0], width))
            else:
                wire = Wire(self.extract(beat, low, bits), *ends)
                values.append(self.circuit.bits(wire, width))
            low += bits
        return values

    def picked_by_tables(self, words: Sequence[SSAValue], index: SSAValue) -> SSAValue:
        """The word of a number, of many by look-up tables that synthesis leaves as they are.

        A row alone selects from four, where the family has rows. Synthesis looks for the flattest
        tree of functions of up to nine inputs, which takes up to four times as many tables.
        """
        place, bits = 0, bit_width(words[0].type) or 1
        by_rows = len(words) > _FEW and self.circuit.pacing.has_rows()
        none = self.constant(0, 1)
        while by_rows and len(words) > 4:
            chosen = list[SSAValue]()
            whole = len(words) // 4 * 4
            for first in range(0, whole, 4):
                four, sites = words[first : first + 4], list[tuple[SSAValue, int]]()
                for bit in range(bits):
                    pins = [*((word, bit) for word in four), (index, place), (index, place + 1)]
                    row = RowOp(pins, (none, 0), [_ONE_OF_FOUR], [0], [0])
                    sites.append((self.put(row), 0))
                chosen.append(self.put(BitsOp(sites)))
            if whole < len(words):
                low = self.extract(index, place, 2)
                chosen.append(self.picked(words[whole:], low))
            words, place = chosen, place + 2
        if place:
            index = self.extract(index, place, (bit_width(index.type) or 1) - place)
        return self.picked(words, index)

    def picked(self, words: Sequence[SSAValue], index: SSAValue) -> SSAValue:
        """The word of a number, by a tree of selections."""
        for place in range(bit_width(index.type) or 1):
            if len(words) == 1:
                break
            bit = self.extract(index, place, 1)
            pairs = zip(words[::2], words[1::2], strict=False)
            chosen = [self.select(bit, high, low) for low, high in pairs]
            words = [*chosen, *words[2 * len(chosen) :]]
        return words[0]

    def counted(self, bits: Sequence[SSAValue]) -> SSAValue:
        """How many bits are 1, when no 1 follows a 0."""
        if len(bits) < 2:
            return bits[0] if bits else self.constant(0, 1)
        half = 1 << (len(bits).bit_length() - 1)
        places = half.bit_length() - 1
        above, below = (
            self.extended(self.counted(part), False, places)
            for part in (bits[half:], bits[: half - 1])
        )
        return self.joined([self.select(bits[half - 1], above, below), bits[half - 1]])

    def flag(self, value: SSAValue, name: str) -> SSAValue:
        """The bit one step later, 0 after a reset."""
        return self.register(value, self.enable, name, 0)

    def flags(self, value: SSAValue, steps: int, name: str) -> SSAValue:
        """The bit so many steps later."""
        for step in range(steps):
            value = self.flag(value, f"{name}_{step + 1}")
        return value

    def rom(self, words: Sequence[int], width: int, address: SSAValue, name: str) -> SSAValue:
        """The word of an address, a step later; equal words that stay need no memory."""
        if len(set(words)) == 1 and not self._loadable:
            return self.constant(words[0], width)
        rom = self.circuit.pacing.areas.rom(len(words), width)
        style = "block" if rom.blocks else "distributed"
        read = [self.enable, address]
        if self._loadable:
            own = name.removeprefix(f"{self.name}_")
            label = f"{self.name}_{len(self._loads)}_{own}"
            memory = Memory.loadable(label, words, width, style)
            unknown = [self.constant(0, bits) for bits in (1, memory.address_width, width)]
            read = [*unknown, *read]
        else:
            memory = Memory.rom(words, width, style)
        self.memories[memory.symbol] = memory
        word = self.memory(memory, name, read)
        if self._loadable:
            assert isinstance(word.owner, Operation)
            self._loads.append((memory, word.owner))
        return word

    def _load(self) -> list[Memory]:
        """Let words come in by ports; the memories."""
        memories = [memory for memory, _ in self._loads]
        if memories:
            ports = self.load_ports(len(memories), *load_sizes(memories))
            for index, (memory, op) in enumerate(self._loads):
                lows, bits = (index, 0, 0), (1, memory.address_width, memory.width)
                for place, (port, low, size) in enumerate(zip(ports, lows, bits, strict=True), 1):
                    op.operands[place] = self._port_bits(port, low, size)
        return memories

    def _port_bits(self, port: SSAValue, low: int, bits: int) -> SSAValue:
        """Some bits of a port, before all other ops."""
        if low == 0 and bits == bit_width(port.type):
            return port
        op = comb.ExtractOp(port, IntegerAttr(low, 32), IntegerType(bits))
        assert self.block.first_op is not None
        self.block.insert_op_before(op, self.block.first_op)
        return op.result

    def level_of(self, word: SSAValue, readers: int) -> float:
        """When a word is there after the clock edge, in the unit of `Pacing`.

        Args:
            word: of a register or a ROM.
            readers: of each of its bits.
        """
        pacing = self.circuit.pacing
        memory = word.owner
        if isinstance(memory, hw.InstanceOp):
            declared = self.memories[memory.module_name.string_value()]
            if declared.style == "block":
                return pacing.after_memory(readers)
        return pacing.after_spreading(readers)

    def end(
        self,
        output: Layout,
        in_ready: SSAValue,
        done: SSAValue,
        last: SSAValue,
        data: SSAValue,
        *,
        at_once: bool,
    ) -> Stage:
        """The stage.

        Args:
            in_ready: whether a beat is taken.
            done: whether a part of a result is there, from a register.
            last: whether it is the last part; a step later the result is whole.
            data: the result, from registers.
            at_once: whether parts may come in each step: then a result that leaves makes room for
                one in the same cycle, and `out_ready` reaches `in_ready` without a register.
        """
        result = self.state(1, "result_valid", 0)
        more = self.all_of(done, last, self.enable)
        following = self.any_of(more, self.all_of(result, self._waits))
        self.drive(result, following)
        if at_once:
            self._free.operands = [self.inverse(done), self.inverse(result), self.ready]
        else:
            self._enable_ahead(done, following)
        return self._whole(output, (in_ready, data, result))

    def _enable_ahead(self, done: SSAValue, result: SSAValue) -> None:
        """Make the enable a register, which has no logic before its many readers.

        Args:
            done: a register, whether a part of a result is there.
            result: whether one waits in the next cycle.
        """
        register = done.owner
        assert isinstance(register, seq.CompRegOp)
        enable = self.state(1, "enable", 1)
        self.enable.replace_all_uses_with(enable)
        self.drive(enable, self.inverse(self.all_of(register.input, result)))
        self.block.erase_op(self._free)
        self.enable = enable

    def end_with(
        self, output: Layout, in_ready: SSAValue, result: SSAValue, data: SSAValue
    ) -> Stage:
        """The stage where `data` is whole in the one step in which `result` is 1, a register.

        The stage stands still until it is taken.
        """
        self._free.operands = [self.inverse(result), self.ready]
        return self._whole(output, (in_ready, data, result))

    def _whole(self, output: Layout, handshake: tuple[SSAValue, SSAValue, SSAValue]) -> Stage:
        """The stage, with the memories that it uses."""
        parts = [self.memories[symbol].declaration() for symbol in sorted(self.memories)]
        return self.stage(self.name, self.source, output, handshake, parts, self._load())
