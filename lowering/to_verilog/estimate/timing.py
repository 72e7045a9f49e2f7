"""The longest path from register to register of a covered netlist.

Inputs and outputs of the circuit count as registers outside, as in a larger design. A net takes the
longer the more readers it has; how far they are is not known. Not here: the numbers (`families`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        readers: how many read each node.
    """

    netlist: Netlist
    tables: Mapping[int, Cut]
    family: Family
    readers: Sequence[int]

    def __post_init__(self) -> None:
        self.given: dict[int, Chain | Block] = {}
        for chain in self.netlist.chains:
            self.given |= {node: chain for node in (*chain.outputs, chain.top) if node >= 0}
        for block in self.netlist.blocks:
            self.given |= dict.fromkeys(block.outputs, block)
        known = self.family
        nets = {count: known.net + known.fanout * log2(max(1, count)) for count in {*self.readers}}
        self.nets = [nets[count] for count in self.readers]
        """What the way of each node to its readers takes."""
        self.times = [0.0, *[-1.0] * (len(self.readers) - 1)]
        """When each node has its value; negative before that is known."""
        self.arrivals = self.times.copy()
        """When each value is where it is read."""
        # What a node is made of has lower numbers.
        tables, times, arrivals = self.tables, self.times, self.arrivals
        arrives = arrivals.__getitem__
        for node, net in enumerate(self.nets):
            cut = tables.get(node)
            if cut is not None:
                wide = known.wide * max(0, len(cut) - known.inputs)
                time = max(map(arrives, cut), default=0.0) + known.lut + wide
            elif times[node] >= 0:
                continue
            elif node in self.given:
                self._compute(self.given[node], node)
                continue
            else:
                time = known.clock_to_q
            times[node], arrivals[node] = time, time + net

    def _set(self, node: int, time: float) -> None:
        self.times[node] = time
        self.arrivals[node] = time + self.nets[node]

    def periods(self) -> dict[int, float]:
        """For each group the least clock period of the paths that end in it."""
        longest: dict[int, float] = {}
        setup = self.family.setup

        def ends(group: int, literal: int, *, routed: bool) -> None:
            if literal > TRUE:
                time = setup + (self.arrivals if routed else self.times)[literal >> 1]
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

    def _compute(self, giver: Chain | Block, node: int) -> None:
        known = self.family
        if isinstance(giver, Chain):
            self._chain(giver)
        else:
            self._set(node, known.memory if giver.memories else known.clock_to_q + known.lut)

    def _chain(self, chain: Chain) -> None:
        known = self.family
        own = self.family.own_adder
        start = known.carry_start if own else known.carry_start - known.lut
        carry = self.times[chain.carry >> 1] if chain.carry > TRUE else 0.0
        block = known.carry_block
        numbers = zip(chain.first, chain.second, chain.outputs, strict=True)
        for i, (first, second, output) in enumerate(numbers):
            step = known.carry_bit if i < block else known.carry_pass / block
            entering = max(self._entering(first), self._entering(second))
            carry = max(carry + (step if i else 0.0), entering)
            if output >= 0:
                self._set(output, carry + start)
        if chain.top >= 0:
            self._set(chain.top, carry + start)

    def _entering(self, literal: int) -> float:
        """When a bit is at the chain; one without a look-up table before passes through one."""
        node = literal >> 1
        if literal <= TRUE:
            return 0.0
        if self.family.own_adder:
            return self.arrivals[node]
        return self.times[node] if node in self.tables else self.arrivals[node] + self.family.lut
