"""How much of a device a circuit takes, by module and by layer, without synthesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import hw
from xdsl.dialects.builtin import ModuleOp

from ....ir.collection import rare_collection
from ....ir.errors import LoweringError
from .elaborate import Part, elaborate
from .families import Family, family_of
from .mapping import Cut, cover, least_levels, tables_of
from .netlist import FALSE, LEAF, TABLE, TRUE, Chain, Netlist
from .registers import (
    infer_resets,
    merged_controls,
    resets_inverted,
    shift_registers,
    shift_size,
)
from .timing import Timing


@dataclass(frozen=True)
class Resources:
    """What a circuit takes.

    Attributes:
        luts: look-up tables, of all uses.
        shift_luts: of those, shift registers.
        memory_luts: of those, memories.
        flip_flops: registers, one a bit.
        carry_bits: bits of carry chains.
        carries: carry cells: `CARRY8`, `CARRY4`, `CCU2C`, `SB_CARRY`.
        block_memories: blocks.
        cells: of families with one look-up table and one register a cell; 0 of others.
    """

    luts: int = 0
    shift_luts: int = 0
    memory_luts: int = 0
    flip_flops: int = 0
    carry_bits: int = 0
    carries: int = 0
    block_memories: int = 0
    cells: int = 0

    def __add__(self, other: Resources) -> Resources:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Resources(**sums)


@dataclass(frozen=True)
class Estimate:
    """The size of a circuit.

    Attributes:
        family: that it was estimated for.
        total: everything.
        parts: of each module and layer that takes something, in the order of the circuit. Gates
            that layers share are counted where they came first.
        periods: for each of them the least clock period of the paths that end in it, in ns.
    """

    family: Family
    total: Resources
    parts: Mapping[Part, Resources]
    periods: Mapping[Part, float]

    @property
    def period(self) -> float:
        """The least clock period, in nanoseconds."""
        return max(self.periods.values(), default=0.0)

    @property
    def frequency(self) -> float:
        """The highest clock frequency, in MHz; 0 where nothing has to be waited for."""
        return 1e3 / self.period if self.period else 0.0

    def sums(self, of: Literal["layer", "module"]) -> dict[str, Resources]:
        """By module, or by layer of the program; what belongs to none is under an empty name."""
        sums: dict[str, Resources] = {}
        for part, size in self.parts.items():
            name: str = getattr(part, of)
            sums[name] = sums.get(name, Resources()) + size
        return sums


def estimate(module: ModuleOp, grade: str = "ultrascale+", top: str | None = None) -> Estimate:
    """How large a circuit is, and how fast it may run.

    Args:
        module: holds modules of `hw`, `comb` and `seq`.
        grade: of the devices, see `families.FAMILIES`.
        top: the symbol of the outermost one; by default the last that no other one uses.

    Raises:
        OptionError: no such grade.
        LoweringError: no such module, or none at all.
        UnsupportedError: ops whose size is not known.
    """
    family, outermost = family_of(grade), _top(module, top)
    with rare_collection():
        netlist, parts = elaborate(module, outermost, family)
        live = netlist.remove_dead()
        by_tables = [literal for node in live for literal in netlist.inputs[node]]
        uses = _readers(netlist, np.array(reading(netlist, family) + by_tables, np.int64) >> 1)
        infer_resets(netlist, Counter(dict(enumerate(uses))), gated=family.gated_reset)
        return _Count(netlist, parts, family).result()


def _top(module: ModuleOp, name: str | None) -> hw.HWModuleOp:
    hardware = [op for op in module.body.block.ops if isinstance(op, hw.HWModuleOp)]
    used = {
        op.module_name.string_value()
        for m in hardware
        for op in m.body.block.ops
        if type(op) is hw.InstanceOp
    }
    for op in reversed(hardware):
        if op.sym_name.data == name or (name is None and op.sym_name.data not in used):
            return op
    raise LoweringError(
        f"the module has no hw.module {'' if name is None else f'@{name} '}to estimate; "
        "run convert-ternary-to-hw first"
    )


class _Count:
    """Counts what is in a netlist that has been cleaned up."""

    def __init__(self, netlist: Netlist, parts: Sequence[Part], family: Family) -> None:
        self.netlist, self.parts, self.family = netlist, parts, family
        self.counts: list[Counter[str]] = [Counter() for _ in self.parts]
        # What look-up tables, inverters, registers or inputs have to give.
        self.read = reading(netlist, family)
        self.roots = {literal for literal in self.read if literal > TRUE}
        wanted = {literal >> 1 for literal in self.roots}
        self.tables, self.flat = cover(self.netlist, wanted, family)
        self.used = self._uses(self.tables)
        self.merged, self.needless = merged_controls(self.netlist, self.tables, self.used, family)

    def result(self) -> Estimate:
        self._tables()
        self._inverters()
        self._registers()
        self._chains()
        self._blocks()
        if self.family.paired:
            self._cells()
        sizes = {
            part: Resources(**counts)
            for part, counts in zip(self.parts, self.counts, strict=True)
            if any(counts.values())
        }
        timing = Timing(self.netlist, self.flat, self.family, self._uses(self.flat))
        periods = {self.parts[group]: time for group, time in timing.periods().items()}
        return Estimate(self.family, sum(sizes.values(), Resources()), sizes, periods)

    def _tables(self) -> None:
        groups, kinds, copies = self.netlist.groups, self.netlist.kinds, self._copies()
        for node, cut in self.tables.items():
            if node in self.needless:
                continue
            # A site of a row that is the same whatever comes in is a table too.
            luts = tables_of(self.netlist, node, cut, self.family) * max(copies[node], 1)
            self.counts[groups[node]]["luts"] += luts
        for literal in self.roots:
            # A bit that is wanted as it is and inverted takes an inverter.
            inverted = literal & 1
            if inverted and (literal ^ 1 in self.roots or kinds[literal >> 1] == LEAF):
                self.counts[groups[literal >> 1]]["luts"] += 1

    def _copies(self) -> Counter[int]:
        """Of tables at the end of longest paths how many abc makes: one for each register alone."""
        joined = Counter(
            register.reset >> 1
            for register in self.netlist.registers
            if register.joined and register.output not in self.merged
        )
        if not joined:
            return joined
        ends = {literal >> 1 for literal in self.roots}
        longest = least_levels(self.netlist, ends, len(self.family.tables))
        levels: dict[int, int] = {}
        for node in sorted(self.tables):
            if self.netlist.kinds[node] != TABLE:
                levels[node] = 1 + max((levels.get(n, 0) for n in self.tables[node]), default=0)
        return Counter({n: count for n, count in joined.items() if levels.get(n, 0) >= longest})

    def _inverters(self) -> None:
        """Count the inverters of registers that an inverted signal resets, as `aresetn` does.

        Yosys lets the register take the signal as it is, and then gives each one its own inverter.
        """
        for register in self.netlist.registers:
            is_own = resets_inverted(self.netlist, register, self.family)
            if is_own and register.output not in self.merged:
                self.counts[register.group]["luts"] += 1

    def _registers(self) -> None:
        registers = self.netlist.registers
        for register in registers:
            self.counts[register.group]["flip_flops"] += 1
        if not self.family.shift_registers:
            return
        for sequence in shift_registers(self.netlist, self.used):
            luts, rest = shift_size(len(sequence))
            count = self.counts[sequence[-1].group]
            count["luts"] += luts
            count["shift_luts"] += luts
            for register in sequence[rest:]:
                self.counts[register.group]["flip_flops"] -= 1

    def _uses(self, tables: Mapping[int, Cut]) -> list[int]:
        """How often each node is read by something in the device."""
        by_tables = np.array([node for cut in tables.values() for node in cut], np.int64)
        return _readers(
            self.netlist, np.concatenate([np.array(self.read, np.int64) >> 1, by_tables])
        )

    def _chains(self) -> None:
        of_cell = self.family.carry_bits
        readers = {pin: node for node, cut in self.tables.items() for pin in cut}
        for chain in self.netlist.chains:
            bits, count = len(chain.first), self.counts[chain.group]
            count["carry_bits"] += bits
            # The last carry of single cells, if nobody reads it, needs none.
            cells = bits - (chain.top < 0) if of_cell == 1 else -(-bits // of_cell)
            count["carries"] += cells
            if self.family.own_adder:
                sums = sum(output >= 0 for output in chain.outputs)
                count["luts"] += sums if of_cell == 1 else cells * of_cell
                count["luts"] -= self._merged_sums(chain, readers) if of_cell == 1 else 0

    def _merged_sums(self, chain: Chain, readers: dict[int, int]) -> int:
        """How many tables Yosys' `opt_lut` merges with the tables of sums.

        They are what alone reads a sum and, before a last bit that no carry cell reads, what gives
        a number's bit to it alone. Three inputs of a table beside a carry cell are the cell's.

        Args:
            readers: for a node one of the tables that read it; merged ones are taken out.
        """
        merged, carried = 0, chain.carry > TRUE
        last = len(chain.first) - 1 if chain.top < 0 else -1
        numbers = zip(chain.first, chain.second, chain.outputs, strict=True)
        for place, (first, second, output) in enumerate(numbers):
            read = {first >> 1, second >> 1} - {0}
            taken = len(read) + carried if place == last else 3
            given = [node for node in read if place == last and self.used[node] == 1]
            tables = [(node, self.tables[node]) for node in given if node in self.tables]
            reader = readers.get(output, -1)
            if self.used[output] == 1 and reader >= 0:
                tables.append((reader, self.tables[reader]))
            for node, cut in tables:
                more = taken - 1 + len(cut - read)
                if node not in self.netlist.whole and more <= self.family.inputs:
                    merged, taken, read = merged + 1, more, read | cut
                    readers |= dict.fromkeys(cut, -1)
            carried = True
        return merged

    def _cells(self) -> None:
        """Tables with the registers that take them, other registers, and carries without a sum.

        As nextpnr-ice40 packs them: such a carry shares its cell with a table of at most two inputs
        that gives a bit of it; what comes from elsewhere into a chain enters by a cell of its own.
        """
        summed = {node for chain in self.netlist.chains for node in chain.outputs}
        for register in self.netlist.registers:
            node = register.data >> 1
            is_own = node in self.tables or node in summed
            if not is_own or register.data & 1 or self.used[node] > 1:
                self.counts[register.group]["cells"] += 1
        taken: set[int] = set()
        for chain in self.netlist.chains:
            count = self.counts[chain.group]
            count["cells"] += chain.carry > TRUE
            bits = chain.outputs if chain.top >= 0 else chain.outputs[:-1]
            for first, second, output in zip(chain.first, chain.second, bits, strict=False):
                if output < 0:
                    shared = next((x for x in (first, second) if self._is_small(x, taken)), None)
                    if shared is None:
                        count["cells"] += 1
                    else:
                        taken.add(shared)
        for count in self.counts:
            count["cells"] += count["luts"]

    def _is_small(self, literal: int, taken: set[int]) -> bool:
        """Whether a table of at most two inputs, without a carry in its cell, gives a bit."""
        if literal <= TRUE or literal in taken:
            return False
        given = self.netlist.kinds[literal >> 1] == LEAF
        if literal & 1 and (given or literal ^ 1 in self.roots):
            return True
        return len(self.tables.get(literal >> 1, range(3))) < 3

    def _blocks(self) -> None:
        for block in self.netlist.blocks:
            count = self.counts[block.group]
            count["block_memories"] += block.memories
            count["luts"] += block.luts
            count["memory_luts"] += block.luts


def _readers(netlist: Netlist, nodes: NDArray[np.int64]) -> list[int]:
    """How often each node of a netlist is among some."""
    counts: list[int] = np.bincount(nodes, minlength=len(netlist.kinds)).tolist()
    return counts


def reading(netlist: Netlist, family: Family) -> list[int]:
    """Literals that something other than a look-up table takes, once for each that takes it."""
    literals: list[int] = list(netlist.outputs)
    for register in netlist.registers:
        literals.append(register.data)
        if register.enable != TRUE:
            literals.append(register.enable)
        if register.reset != FALSE:
            # An inverter of the register's own is none of the look-up tables.
            literals.append(register.reset ^ resets_inverted(netlist, register, family))
    for chain in netlist.chains:
        literals += chain.first
        literals += [x & ~1 for x in chain.second] if family.inverts else chain.second
        literals.append(chain.carry)
    for block in netlist.blocks:
        literals += block.inputs
    return literals
