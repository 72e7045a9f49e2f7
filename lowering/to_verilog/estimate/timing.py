"""The longest path from register to register of a covered netlist.

Inputs and outputs of the circuit count as registers outside, as in a larger design. A net takes the
longer the more readers it has; how far they are is not known. Not here: the numbers (`families`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from .families import Family
from .mapping import Cut
from .netlist import TRUE, Block, Chain, Netlist


@dataclass
class Timing:
    """When each node has its value, in nanoseconds after the clock edge.

    Attributes:
        netlist: cleaned up.
        tables: what covers it.
        family: of devices.
        readers: of each node.
    """

    netlist: Netlist
    tables: Mapping[int, Cut]
    family: Family
    readers: Mapping[int, int]

    def __post_init__(self) -> None:
        self.given: dict[int, Chain | Block] = {}
        for chain in self.netlist.chains:
            self.given |= {node: chain for node in (*chain.outputs, chain.top) if node >= 0}
        for block in self.netlist.blocks:
            self.given |= dict.fromkeys(block.outputs, block)
        self.times: dict[int, float] = {0: 0.0}
        self.nets: dict[int, float] = {}
        # What a node is made of has lower numbers.
        for node in range(1, len(self.netlist.kinds)):
            if node not in self.times:
                self._compute(node)

    def periods(self) -> dict[int, float]:
        """For each group the least clock period of the paths that end in it."""
        longest: dict[int, float] = {}
        setup = self.family.setup

        def ends(group: int, literal: int, *, routed: bool) -> None:
            if literal > TRUE:
                node = literal >> 1
                time = self.times[node] + setup + (self._net(node) if routed else 0.0)
                longest[group] = max(longest.get(group, 0.0), time)

        for register in self.netlist.registers:
            near = register.data >> 1 in self.tables or register.data >> 1 in self.given
            ends(register.group, register.data, routed=not near)
            for control in (register.enable, register.reset):
                ends(register.group, control, routed=True)
        for block in self.netlist.blocks:
            for literal in block.inputs:
                ends(block.group, literal, routed=True)
        for literal in self.netlist.outputs:
            if literal > TRUE:
                ends(self.netlist.groups[literal >> 1], literal, routed=False)
        return longest

    def _compute(self, node: int) -> None:
        times, known = self.times, self.family
        if node in self.tables:
            cut = self.tables[node]
            wide = known.wide * max(0, len(cut) - known.inputs)
            last = max([times[n] + self._net(n) for n in cut], default=0.0)
            times[node] = last + known.lut + wide
            return
        match self.given.get(node):
            case Chain() as chain:
                self._chain(chain)
            case Block() as block:
                times[node] = known.memory if block.memories else known.clock_to_q + known.lut
            case _:
                times[node] = known.clock_to_q

    def _chain(self, chain: Chain) -> None:
        known = self.family
        own = self.family.own_adder
        start = known.carry_start if own else known.carry_start - known.lut
        carry = self.times[chain.carry >> 1] if chain.carry > TRUE else 0.0
        for i, pair in enumerate(zip(chain.first, chain.second, strict=True)):
            entering = [self._entering(literal) for literal in pair if literal > TRUE]
            block = known.carry_block
            step = known.carry_bit if i < block else known.carry_pass / block
            carry = max(carry + (step if i else 0.0), *entering, 0.0)
            if chain.outputs[i] >= 0:
                self.times[chain.outputs[i]] = carry + start
        if chain.top >= 0:
            self.times[chain.top] = carry + start

    def _entering(self, literal: int) -> float:
        """When a bit is at the chain; one without a look-up table before passes through one."""
        node = literal >> 1
        if self.family.own_adder:
            return self.times[node] + self._net(node)
        if node in self.tables:
            return self.times[node]
        return self.times[node] + self._net(node) + self.family.lut

    def _net(self, node: int) -> float:
        readers = self.readers[node]
        if readers not in self.nets:
            self.nets[readers] = self.family.net + self.family.fanout * log2(max(1, readers))
        return self.nets[readers]
