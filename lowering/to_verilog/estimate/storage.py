"""Memories as gates, registers, look-up tables used as memory, or blocks.

Not here: what a memory is (`to_verilog.circuit.memories`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw

from ..circuit.memories import Memory, memory_of
from .families import Family
from .netlist import FALSE, TRUE, Block, Netlist, Register

Bits = list[int]

BLOCK = "block"
DISTRIBUTED = "distributed"
"""Kinds of `Block` for memories; the size stands behind: `block 512x36`."""


class Storage:
    """Puts memories into a netlist."""

    def __init__(self, netlist: Netlist, family: Family) -> None:
        self.netlist = netlist
        self.family = family
        self._read: dict[tuple[int, int, int], int] = {}
        # Multiplexers behind look-up tables join those of a ROM.
        self._widest = family.rom_inputs

    def memory(
        self,
        declaration: hw.HWModuleExternOp,
        operands: Sequence[Bits],
        outputs: Bits | None = None,
    ) -> Bits:
        """What a memory gives; operands as its declaration orders them.

        Args:
            declaration: of the memory.
            operands: for each input its bits.
            outputs: leaves that stand for what a RAM gives, where it depends on that itself.
        """
        memory = memory_of(declaration)
        assert memory is not None
        if memory.kind == "rom":
            return self._rom(memory, operands)
        return self._ram(memory, operands, outputs or self.netlist.leaves(memory.width))

    def _rom(self, memory: Memory, operands: Sequence[Bits]) -> Bits:
        (clock,), (enable,), address = operands
        words = memory.contents
        if memory.style == "block":
            return self._block_rom(memory, [clock, enable, *address])
        result: Bits = []
        for bit in range(memory.width):
            column = [word >> bit & 1 for word in words]
            # Behind the last word the printed ROM gives it again.
            column += column[-1:] * ((1 << len(address)) - len(column))
            data = self._looked_up(column, address)
            self._as_one_table(data, column, address)
            result.append(self._read_once(data, enable, clock))
        return result

    def _block_rom(self, memory: Memory, inputs: Bits) -> Bits:
        """Blocks for the bits that are not the same in all words."""
        same = (1 << memory.width) - 1
        for word in memory.contents:
            same &= ~(word ^ memory.contents[0])
        outputs = [
            memory.contents[0] >> bit & 1 if same >> bit & 1 else self.netlist.leaf()
            for bit in range(memory.width)
        ]
        self._whole(BLOCK, memory, inputs, [output for output in outputs if output > TRUE])
        return outputs

    def _ram(self, memory: Memory, operands: Sequence[Bits], outputs: Bits) -> Bits:
        (clock,), (write,), to, word, (read,), address = operands
        style = memory.made_of(in_tables=self.family.distributed_bits > 0)
        blocks = style == "block"
        if style != "registers":
            kind = BLOCK if blocks else DISTRIBUTED
            inputs = [clock, write, *to, *word, read, *address]
            if blocks:
                return self._whole(kind, memory, inputs, outputs)
            data = self._whole(kind, memory, inputs, self.netlist.leaves(memory.width))
            for bit, output in zip(data, outputs, strict=True):
                self._take(bit, read, clock, output)
            return outputs
        rows: list[Bits] = []
        for index in range(memory.depth):
            chosen = self.netlist.all_of(
                [bit if index >> i & 1 else bit ^ 1 for i, bit in enumerate(to)]
            )
            enable = self.netlist.both(write, chosen)
            rows.append([self._register(bit, enable, clock) for bit in word])
        columns = [self._looked_up([row[i] for row in rows], address) for i in range(memory.width)]
        for bit, output in zip(columns, outputs, strict=True):
            self._take(bit, read, clock, output)
        return outputs

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
        if 1 < len(needed) <= self._widest and data >> 1 not in needed:
            self.netlist.whole[data >> 1] = frozenset(needed)

    def _read_once(self, data: int, enable: int, clock: int) -> int:
        """The register of a bit of a ROM; equal columns have one."""
        key = (data, enable, clock)
        if key not in self._read:
            self._read[key] = self._register(data, enable, clock)
        return self._read[key]

    def _register(self, data: int, enable: int, clock: int) -> int:
        if data <= TRUE:
            return data
        output = self.netlist.leaf()
        self._take(data, enable, clock, output)
        return output

    def _take(self, data: int, enable: int, clock: int, output: int) -> None:
        """Let a register give `output`."""
        group = self.netlist.group
        self.netlist.registers.append(
            Register(data, enable, FALSE, clock, FALSE, output >> 1, group)
        )

    def _whole(self, kind: str, memory: Memory, inputs: Bits, outputs: Bits) -> Bits:
        name = f"{kind} {memory.depth}x{len(outputs)}"
        nodes = [bit >> 1 for bit in outputs]
        self.netlist.blocks.append(Block(name, inputs, nodes, self.netlist.group))
        return outputs


def memory_tables(depth: int, width: int, family: Family) -> int:
    """How many look-up tables a distributed memory takes."""
    if family.distributed_bits == 16:
        # Four bits of 16 words in four look-up tables, and two more for the port that writes.
        return -(-depth // 16) * -(-width // 4) * 6
    tables, bits = (8, 7) if family.name == "ultrascale+" else (4, 3)
    return -(-depth // 64) * -(-width // (bits if depth > 32 else 2 * bits)) * tables
