"""A circuit bit by bit: gates with shared structure, registers, carry chains, and what stays whole.

A literal is a bit: twice the number of a node, plus one where the bit is inverted. Literals 0 and 1
are the constants. Not here: what becomes which gate (`gates`), look-up tables (`mapping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Join = Callable[[int, int], int]

FALSE = 0
TRUE = 1

LEAF, AND, XOR, MUX, TABLE = range(5)
"""Kinds of nodes: a leaf is an input, or what a register, a chain or a block gives; a table is a
look-up table that stays as it is."""


@dataclass(slots=True)
class Register:
    """One bit of a register.

    Attributes:
        data, enable, reset: literals; enable is `TRUE` and reset `FALSE` where there is none.
        clock: a literal too.
        output: its node.
        group: the layer.
        apart: whether it stays out of shift registers.
        begin: the literal that it is reset to.
        joined: whether the reset is a gate that synthesis makes for this register alone.
    """

    data: int
    enable: int
    reset: int
    clock: int
    output: int
    group: int
    apart: bool = False
    begin: int = FALSE
    joined: bool = False


@dataclass(slots=True)
class Chain:
    """A carry chain.

    Attributes:
        first, second: for each bit the literals that its cell takes: two bits to add; or, where a
            look-up table stands before the chain, whether the carry goes on and what it is else.
        carry: what goes in at the lowest bit.
        outputs: the nodes of the sum's bits; -1 for a bit that is not there.
        top: the node of the last carry, or -1.
        group: the layer.
    """

    first: list[int]
    second: list[int]
    carry: int
    outputs: list[int]
    top: int
    group: int


@dataclass(slots=True)
class Block:
    """Something that is counted as a whole: a memory, a module from elsewhere.

    Attributes:
        inputs: literals.
        outputs: nodes.
        group: the layer.
        memories: block memories that it takes.
        luts: look-up tables that it takes as memory.
    """

    inputs: list[int]
    outputs: list[int]
    group: int
    memories: int = 0
    luts: int = 0


@dataclass
class Netlist:
    """Nodes and what stands between them; equal gates are one node.

    Attributes:
        kinds: of each node.
        inputs: of each node, literals: two of `AND` and `XOR`; of `MUX` the condition, what is
            chosen where it is 1, and what where it is 0.
        groups: for each node the layer that made it first.
        whole: nodes that are one look-up table of those, whatever gates they are made of.
        luts: of nodes that stay as they are: none of the second output of a table, several of
            tables behind multiplexers.
        selections: for what is chosen between a constant and another bit, the condition of the
            constant, the constant, and the other bit.
        group: the layer of the nodes that are made now.
        ties: for a comparison of two numbers another one that differs where they are equal alone,
            and the pairs of their bits, between which both choose the same.
        in_fours: whether a selection from four is made of two functions of four bits.
    """

    kinds: list[int] = field(default_factory=lambda: [LEAF])
    inputs: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    groups: list[int] = field(default_factory=lambda: [0])
    registers: list[Register] = field(default_factory=list[Register])
    chains: list[Chain] = field(default_factory=list[Chain])
    blocks: list[Block] = field(default_factory=list[Block])
    outputs: list[int] = field(default_factory=list[int])
    whole: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    luts: dict[int, int] = field(default_factory=dict[int, int])
    selections: dict[int, tuple[int, int, int]] = field(
        default_factory=dict[int, tuple[int, int, int]]
    )
    ties: dict[int, tuple[int, set[tuple[int, int]]]] = field(
        default_factory=dict[int, tuple[int, set[tuple[int, int]]]]
    )
    group: int = 0
    in_fours: bool = False
    _known: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    _taken: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])

    def leaf(self) -> int:
        """The literal of a new leaf."""
        return self._new(LEAF, ())

    def leaves(self, count: int) -> list[int]:
        """The literals of so many new leaves."""
        return [self.leaf() for _ in range(count)]

    def _node(self, kind: int, inputs: tuple[int, ...]) -> int:
        key = (kind, *inputs)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new(kind, inputs)
        return known

    def _new(self, kind: int, inputs: tuple[int, ...]) -> int:
        self.kinds.append(kind)
        self.inputs.append(inputs)
        self.groups.append(self.group)
        return 2 * (len(self.kinds) - 1)

    def register(
        self,
        data: int,
        enable: int,
        clock: int,
        output: int | None = None,
        *,
        reset: int = FALSE,
        begin: int = FALSE,
        apart: bool = False,
    ) -> int:
        """What a register gives; constants need none, and equal registers are one."""
        key = data, enable, clock, reset, begin
        if output is None:
            if data <= TRUE and (reset == FALSE or data == begin):
                return data
            if key in self._taken:
                return self._taken[key]
            output = self.leaf()
        self._taken[key] = output
        group = self.group
        self.registers.append(
            Register(data, enable, reset, clock, output >> 1, group, apart, begin)
        )
        return output

    def table(self, inputs: Sequence[int], luts: int = 1) -> int:
        """The literal of a look-up table, or of several, that stays as it is."""
        nodes = frozenset([literal >> 1 for literal in inputs if literal > TRUE])
        literal = self._new(TABLE, tuple([2 * node for node in sorted(nodes)]))
        self.whole[literal >> 1] = nodes
        self.luts[literal >> 1] = luts
        return literal

    def both(self, a: int, b: int) -> int:
        """a AND b."""
        if a > b:
            a, b = b, a
        if a == FALSE or a == b ^ 1:
            return FALSE
        if a in (TRUE, b):
            return b
        for one, other in ((a, b), (b, a)):
            if not one & 1 and self.kinds[one >> 1] == AND:
                taken = self.inputs[one >> 1]
                if other in taken or other ^ 1 in taken:
                    return one if other in taken else FALSE
        return self._node(AND, (a, b))

    def either(self, a: int, b: int) -> int:
        """a OR b."""
        return self.both(a ^ 1, b ^ 1) ^ 1

    def differ(self, a: int, b: int) -> int:
        """a XOR b."""
        inverted = (a ^ b) & 1
        a, b = (a & ~1, b & ~1) if a < b else (b & ~1, a & ~1)
        if a == b:
            return inverted
        if a == FALSE:
            return b ^ inverted
        return self._node(XOR, (a, b)) ^ inverted

    def choose(self, condition: int, yes: int, no: int) -> int:
        """`yes` where the condition is 1, else `no`."""
        if condition <= TRUE:
            return yes if condition else no
        if yes == no:
            return yes
        if condition & 1:
            condition, yes, no = condition ^ 1, no, yes
        if condition in self.ties and (yes, no) in self.ties[condition][1]:
            return self.choose(self.ties[condition][0], yes, no)
        if yes ^ no == 1:
            return self.differ(condition, no)
        if yes <= TRUE or no <= TRUE or yes >> 1 == condition >> 1 or no >> 1 == condition >> 1:
            return self._simple_choice(condition, yes, no)
        inverted = no & 1
        key = (MUX, condition, yes ^ inverted, no ^ inverted)
        if self.in_fours and key not in self._known and self._is_one_of_four(yes, no):
            self._known[key] = self._one_of_four(condition, yes, no) ^ inverted
        return self._node(MUX, key[1:]) ^ inverted

    def _is_one_of_four(self, yes: int, no: int) -> bool:
        """Whether one bit selects both from bits that no gate gives.

        Tables that select from two have room for a gate, those that select from four have none.
        """
        nodes = yes >> 1, no >> 1
        if any(self.kinds[node] != MUX for node in nodes):
            return False
        (high, *some), (low, *others) = (self.inputs[node] for node in nodes)
        return high == low and all(self.kinds[way >> 1] == LEAF for way in (*some, *others))

    def _one_of_four(self, condition: int, yes: int, no: int) -> int:
        """A selection from four as abc makes it of tables of four inputs: of two, not three.

        The first gives what is chosen where the condition is 0, else which of the others is.
        """
        lower, *ways = self.inputs[yes >> 1]
        high, low = (way ^ yes & 1 for way in ways)
        first = self.choose(condition, lower, no)
        return self.choose(condition, self.choose(first, high, low), first)

    def tie(self, comparison: int, other: int, pairs: Iterable[tuple[int, int]]) -> None:
        """Let bits of two numbers be chosen by another comparison, see `ties`."""
        both_ways = {pair for a, b in pairs for pair in ((a, b), (b, a))}
        if comparison != other:
            sign = comparison & 1
            self.ties.setdefault(comparison ^ sign, (other ^ sign, both_ways))

    def known_choice(self, condition: int, yes: int, no: int) -> int | None:
        """A selection between two bits, if it is there."""
        if condition & 1:
            condition, yes, no = condition ^ 1, no, yes
        inverted = no & 1
        known = self._known.get((MUX, condition, yes ^ inverted, no ^ inverted))
        return None if known is None else known ^ inverted

    def _simple_choice(self, condition: int, yes: int, no: int) -> int:
        if yes >> 1 == condition >> 1:
            yes = TRUE if yes == condition else FALSE
        if no >> 1 == condition >> 1:
            no = FALSE if no == condition else TRUE
        one = self.both(condition, yes)
        result = self.either(one, self.both(condition ^ 1, no))
        if (yes <= TRUE) != (no <= TRUE):
            selection = (condition, yes, no) if yes <= TRUE else (condition ^ 1, no, yes)
            if result >> 1 > selection[2] >> 1:
                self.selections.setdefault(result, selection)
        return result

    def all_of(self, bits: Sequence[int]) -> int:
        """AND of any number of bits."""
        return self._tree(bits, self.both, TRUE)

    def any_of(self, bits: Sequence[int]) -> int:
        """OR of any number of bits."""
        return self.all_of([bit ^ 1 for bit in bits]) ^ 1

    def parity(self, bits: Sequence[int]) -> int:
        """XOR of any number of bits."""
        return self._tree(bits, self.differ, FALSE)

    def _tree(self, bits: Sequence[int], join: Join, empty: int) -> int:
        level = list(bits)
        while len(level) > 1:
            pairs = [join(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            level = pairs + ([level[-1]] if len(level) % 2 else [])
        return level[0] if level else empty

    def remove_dead(self) -> set[int]:
        """Leave out what no output depends on, with the high bits of sums that nobody reads.

        Returns:
            The nodes that are left.
        """
        needs: dict[int, Sequence[int]] = {
            r.output: (r.data, r.enable, r.reset) for r in self.registers
        }
        for block in self.blocks:
            needs |= dict.fromkeys(block.outputs, block.inputs)
        for chain in self.chains:
            taken = [chain.carry]
            for first, second, node in zip(chain.first, chain.second, chain.outputs, strict=True):
                taken += [first, second]
                if node >= 0:
                    needs[node], taken = taken, [2 * node]
            needs[chain.top] = taken
        seen, inputs = bytearray(len(self.kinds)), self.inputs
        stack = list({literal >> 1 for literal in self.outputs})
        for node in stack:
            seen[node] = 1
        for node in stack:
            for literal in needs.get(node) or inputs[node]:
                if not seen[literal >> 1]:
                    seen[literal >> 1] = 1
                    stack.append(literal >> 1)
        live = set(stack)
        self.registers = [r for r in self.registers if r.output in live]
        self.blocks = [b for b in self.blocks if not live.isdisjoint(b.outputs)]
        for chain in self.chains:
            if chain.top not in live:
                bits = sum(node in live for node in chain.outputs)
                chain.top = -1
                for part in (chain.first, chain.second, chain.outputs):
                    del part[bits:]
        self.chains = [chain for chain in self.chains if chain.first]
        return live
