"""Memories as gates, registers, look-up tables used as memory, or blocks.

Not here: what a memory is (`to_verilog.circuit.memories`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..circuit.memories import Memory, Style
from ..circuit.rom_tables import AddressBit, Choice, Part, Table, parts_in, rom_parts
from .areas import memory_tables
from .families import Family, block_memories
from .netlist import FALSE, TRUE, Block, Netlist

Bits = list[int]


class Storage:
    """Puts memories into a netlist."""

    def __init__(self, netlist: Netlist, family: Family) -> None:
        self.netlist = netlist
        self.family = family

    def written(self, memory: Memory) -> slice:
        """Which inputs say what bits are alike in all words: what is written into registers."""
        is_plain = memory.kind == "ram" and not memory.contents
        return slice(3, 4) if is_plain and self._style(memory) == "registers" else slice(0)

    def outputs(self, memory: Memory, word: Bits | None = None) -> Bits:
        """What a memory gives; bits of a ROM that are the same in all words are constants.

        Args:
            memory: which one.
            word: what is written into its registers, if that is known.
        """
        if memory.kind == "ram":
            given = {bit: bit if bit <= TRUE else self.netlist.leaf() for bit in word or ()}
            return [given[bit] for bit in word or ()] or self._read_later(memory)
        known = {(0,) * memory.depth: FALSE, (1,) * memory.depth: TRUE}
        columns = [tuple(word >> i & 1 for word in memory.contents) for i in range(memory.width)]
        for column in columns:
            known[column] = known[column] if column in known else self.netlist.leaf()
        return [known[column] for column in columns]

    def connect(self, memory: Memory, operands: Sequence[Bits], outputs: Bits) -> None:
        """Put a memory behind what it gives.

        Args:
            memory: which one.
            operands: for each input, as its declaration orders them, its bits.
            outputs: as `outputs` said.
        """
        if self.is_block(memory):
            if self._is_late(memory):
                operands, outputs = self._written_later(operands, outputs)
            inputs = [bit for word in operands for bit in word]
            given = sorted({*outputs} - {FALSE, TRUE})
            count = block_memories(memory.depth, len(given), self.family.block_widths)
            self._whole(inputs, given, memories=count)
            return
        clock, enable, data = self._read(memory, operands)
        for output, bit in dict(zip(outputs, data, strict=True)).items():
            if output > TRUE:
                self.netlist.register(bit, enable, clock, output)

    def _is_late(self, memory: Memory) -> bool:
        """Whether a block is written a cycle later, as it gives no old word in the same one."""
        is_asked = memory.kind == "ram" and not memory.apart and self.family.reads_new
        return is_asked and self.is_block(memory)

    def _read_later(self, memory: Memory) -> Bits:
        """What a RAM gives: where it is written late, what is not written yet, or its word."""
        net = self.netlist
        if not self._is_late(memory):
            return net.leaves(memory.width)
        is_new = net.leaf()
        return [net.choose(is_new, net.leaf(), net.leaf()) for _ in range(memory.width)]

    def _written_later(
        self, operands: Sequence[Bits], outputs: Bits
    ) -> tuple[Sequence[Bits], Bits]:
        """What a block takes and gives that is written a cycle later: `emulate_read_first`."""
        net = self.netlist
        (clock,), (write,), to, word, (enable,), address = operands
        late = [[net.register(bit, TRUE, clock) for bit in bits] for bits in ([write], to, word)]
        (writes,), place, written = late
        same = [net.differ(x, y) ^ 1 for x, y in zip(place, address, strict=True)]
        choices = [net.inputs[bit >> 1] for bit in outputs]
        net.register(net.all_of([writes, *same]), enable, clock, choices[0][0])
        for bit, (_, new, _) in zip(written, choices, strict=True):
            net.register(bit, enable, clock, new)
        later = [[clock], [writes], place, written, [enable], address]
        return later, [old for _, _, old in choices]

    def rom(self, memory: Memory, operands: Sequence[Bits]) -> Bits:
        """What a ROM of logic gives."""
        clock, enable, data = self._read(memory, operands)
        return [self.netlist.register(bit, enable, clock) for bit in data]

    def is_block(self, memory: Memory) -> bool:
        """Whether a memory is made of blocks."""
        return self._style(memory) == "block"

    def _style(self, memory: Memory) -> Style:
        return memory.made_of(in_tables=self.family.distributed_bits > 0)

    def _read(self, memory: Memory, operands: Sequence[Bits]) -> tuple[int, int, Bits]:
        """The clock and the enable of what a memory is read into, and the word it takes."""
        if memory.kind == "rom":
            (clock,), (enable,), address = operands
            stored = self._in_tables if self.family.macro else self._in_gates
            return clock, enable, stored(memory, address)
        (clock,), (write,), to, word, (enable,), address = operands
        if self._style(memory) == "distributed":
            data = self.netlist.leaves(memory.width)
            luts = memory_tables(memory.depth, memory.width, self.family)
            self._whole([clock, write, *to, *word, *address], data, luts=luts)
            return clock, enable, data
        return clock, enable, self._chosen(memory.depth, write, to, word, clock, address)

    def _in_tables(self, memory: Memory, address: Bits) -> Bits:
        """The word at an address of a ROM, of the tables that its text has."""
        known: dict[Part, int] = {}
        counted: set[Part] = set()

        def literal(part: Part) -> int:
            if part not in known:
                known[part] = made(part)
            return known[part]

        def made(part: Part) -> int:
            match part:
                case bool():
                    return int(part)
                case AddressBit(place):
                    return address[place]
                case Table(pins, table):
                    bits = [literal(pin) for pin in pins]
                    if part.is_shared:
                        column = [table >> i & 1 for i in range(1 << len(pins))]
                        return self._looked_up(column, bits)
                    return self.netlist.table(bits)
                case Choice():
                    below = set(parts_in(part))
                    tables = {p for p in below if isinstance(p, Table)} - counted
                    counted.update(tables)
                    bits = [address[p.place] for p in below if isinstance(p, AddressBit)]
                    return self.netlist.table(bits, luts=len(tables))

        return [literal(part) for part in rom_parts(memory.contents, memory.width)]

    def _in_gates(self, memory: Memory, address: Bits) -> Bits:
        """The word at an address of a ROM that synthesis makes gates of."""
        found: Bits = []
        for bit in range(memory.width):
            column = [word >> bit & 1 for word in memory.contents]
            # Behind the last word the printed ROM gives it again.
            column += column[-1:] * ((1 << len(address)) - len(column))
            found.append(self._looked_up(column, address))
            self._as_one_table(found[-1], column, address)
        return found

    def _chosen(
        self, depth: int, write: int, to: Bits, word: Bits, clock: int, address: Bits
    ) -> Bits:
        """The word at an address of a RAM in registers."""
        net, rows = self.netlist, list[Bits]()
        for index in range(depth):
            chosen = [bit if index >> i & 1 else bit ^ 1 for i, bit in enumerate(to)]
            enable, row = net.all_of([write, *chosen]), net.leaves(len(word))
            for bit, output in zip(word, row, strict=True):
                self.netlist.register(bit, enable, clock, output)
            rows.append(row)
        return [self._looked_up(column, address) for column in zip(*rows, strict=True)]

    def _looked_up(self, column: Sequence[int], address: Bits) -> int:
        """The bit at an address; what stands behind the last one does not matter."""
        level = list(column)
        for bit in address:
            if len(level) % 2:
                level.append(level[-1])
            level = [
                self.netlist.choose(bit, level[i + 1], level[i]) for i in range(0, len(level), 2)
            ]
        return level[0]

    def _as_one_table(self, data: int, column: Sequence[int], address: Bits) -> None:
        """Let a function of few bits of the address be one look-up table, shared with nothing."""
        needed = {
            bit >> 1
            for i, bit in enumerate(address)
            if bit > TRUE
            and any(value != column[place ^ 1 << i] for place, value in enumerate(column))
        }
        if 1 < len(needed) <= len(self.family.tables) and data >> 1 not in needed:
            self.netlist.whole[data >> 1] = frozenset(needed)

    def _whole(self, inputs: Bits, outputs: Bits, *, memories: int = 0, luts: int = 0) -> None:
        nodes = [bit >> 1 for bit in outputs]
        self.netlist.blocks.append(Block(inputs, nodes, self.netlist.group, memories, luts))
