"""Numbers as bits, and ops of `comb` as gates and carry chains.

A number is a list of literals, lowest bit first. What opens a carry chain follows the rules of
Yosys: low bits that need no adder are left out, narrow adders become logic. Not
here: which op reads what (`elaborate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from xdsl.dialects import comb, hw
from xdsl.ir import Operation

from ....dialects.fabric import INPUTS, BitsOp, RowOp
from ....dialects.shapes import bit_width
from .families import Family
from .netlist import FALSE, TRUE, Chain, Netlist

Bits = list[int]
Word = Sequence[int]


class Gates:
    """Makes gates of a netlist for a family."""

    def __init__(self, netlist: Netlist, family: Family) -> None:
        self.netlist = netlist
        self.family = family
        self._sums: dict[tuple[tuple[int, ...], ...], Bits] = {}

    def compute(self, op: Operation, operands: Sequence[Bits]) -> Bits | None:
        """The result of an op of `hw` or `comb`, or `None` where it is not known."""
        rule = _RULES.get(type(op))
        return None if rule is None else rule(self, op, operands)

    def added(self, a: Word, b: Word, invert: bool) -> Bits:
        """a + b, or a - b where `b` is inverted, in as many bits as each has; once."""
        key = (tuple(a), tuple(b), (invert,))
        if key not in self._sums:
            self._sums[key] = self._added(a, b, invert)
        return self._sums[key]

    def _added(self, a: Word, b: Word, invert: bool) -> Bits:
        if not invert and _own_bits(b) < _own_bits(a):
            # Yosys' `alumacc` takes the narrower number first: its bits go into the chain as well.
            a, b = b, a
        second = [bit ^ int(invert) for bit in b]
        result, carry = self._low(a, second, int(invert), mixed=False)
        start, end = len(result), len(a)
        # Two numbers without a sign give one bit more than the longer one has.
        while not invert and end > start + 1 and a[end - 1] == a[end - 2] == FALSE:
            if not b[end - 1] == b[end - 2] == FALSE:
                break
            end -= 1
        if start < end:
            result += self.chain(a[start:end], second[start:end], carry)
        return result + [FALSE] * (len(a) - end)

    def _low(self, a: Word, b: Word, carry: int, *, mixed: bool) -> tuple[Bits, int]:
        """The sums of low bits that need no adder, and what is carried out of them.

        Args:
            a, b: numbers of the same width.
            carry: into the lowest bit.
            mixed: whether a 0 and a 1 say, too, that the third bit is what is carried.
        """
        sums: Bits = []
        for pair in zip(a, b, strict=True):
            constants = sorted(bit for bit in (*pair, carry) if bit <= TRUE)
            if len(constants) < 2 or (len(constants) == 2 and not mixed and sum(constants) == 1):
                break
            sums.append(self.netlist.parity([*pair, carry]))
            third = len(constants) == 2 and sum(constants) == 1
            carry = max(*pair, carry) if third else constants[1]
        return sums, carry

    def chain(self, a: Word, b: Word, carry: int) -> Bits:
        """The sum of two numbers of the same width and a carry; if narrow, without a chain."""
        net, own = self.netlist, self.family.own_adder
        if len(a) < self.family.least_adder:
            result: Bits = []
            for x, y in zip(a, b, strict=True):
                differs = net.differ(x, y)
                result.append(net.differ(differs, carry))
                carry = net.choose(differs, carry, x)
            return result
        low, carry = self._low(a, b, carry, mixed=True) if self._is_single else ([], carry)
        a, b = a[len(low) :], b[len(low) :]
        first = list(a) if own else [net.differ(x, y) for x, y in zip(a, b, strict=True)]
        second, outputs = list(b if own else a), net.leaves(len(a))
        net.chains.append(Chain(first, second, carry, [bit >> 1 for bit in outputs], -1, net.group))
        return [*low, *outputs]

    @property
    def _is_single(self) -> bool:
        """Whether a carry cell has one bit: Yosys' `ice40_opt` leaves out those it can."""
        return self.family.carry_bits == 1

    def row(self, op: RowOp, x: Bits) -> Bits:
        """A row that synthesis leaves as it is: a look-up table a site, and the chain behind."""
        net, sites, carry = self.netlist, len(op.tables), x[-1]
        first: Bits = []
        chosen: Bits = []
        second, read_by_second = FALSE, op.second_inputs
        for site, (direct, linked) in enumerate(zip(*op.flags, strict=True)):
            pins = x[INPUTS * site : INPUTS * (site + 1)]
            if linked:
                pins[4 if direct else 5] = second
            first.append(net.table(pins))
            read = [pin for pin, asked in zip(pins, read_by_second[site], strict=True) if asked]
            second = net.table(read, luts=0)
            chosen.append(pins[4] if direct else second)
        if not op.is_chained:
            return [first[0], FALSE, second]
        sums, top = net.leaves(sites), net.leaf()
        outputs = [literal >> 1 for literal in sums]
        net.chains.append(Chain(first, chosen, carry, outputs, top >> 1, net.group))
        return [*sums, top, second]

    def at_least(self, a: Word, b: Word, signed: bool, strictly: bool) -> int:
        """a >= b, or a > b."""
        net, constant = self.netlist, all(x <= TRUE for x in a) or all(x <= TRUE for x in b)
        narrow = len(a) < self.family.least_adder or (constant and len(a) <= self.family.inputs)
        if narrow or self.family.chained_compare:
            if signed:
                a, b = [*a[:-1], b[-1]], [*b[:-1], a[-1]]
            if narrow:
                return self._ripple(a, b, strictly)
            return self._grouped(a, b, strictly)
        equal = self.equal(a, b)
        # Yosys' `alumacc` takes a constant first.
        if all(x <= TRUE for x in a):
            carried = self._less(a, b, signed) ^ 1
            result = net.both(carried, equal ^ 1) if strictly else net.either(carried, equal)
        else:
            carried = self._less(b, a, signed)
            result = carried if strictly else net.either(carried, equal)
        net.tie(result, carried, zip(a, b, strict=True))
        return result

    def equal(self, a: Word, b: Word) -> int:
        """a = b."""
        net = self.netlist
        return net.all_of([net.differ(x, y) ^ 1 for x, y in zip(a, b, strict=True)])

    def _less(self, a: Word, b: Word, signed: bool) -> int:
        """a < b, by the carry out of a - b, and by its sign."""
        net, second = self.netlist, [bit ^ 1 for bit in b]
        high = len(a) - signed
        low, carry = self._low(a[:high], second[:high], TRUE, mixed=self._is_single)
        start = len(low)
        if start == len(a):
            return carry ^ 1
        top, outputs = net.leaf(), [-1] * (len(a) - start)
        result, differs = top ^ 1, net.differ(a[-1], second[-1])
        if signed and self._is_single:
            # The sign, and what is carried into it, are in the table of the highest bit.
            result = net.differ(top, differs)
            net.whole[result >> 1] = frozenset(x >> 1 for x in (top, a[-1], second[-1]) if x > TRUE)
        elif signed:
            sign = net.leaf()
            outputs[-1] = sign >> 1
            # The carry into the highest bit, as it would be read from the chain.
            result = net.differ(top, net.differ(sign, net.differ(sign, differs)))
        net.chains.append(
            Chain(list(a[start:]), second[start:], carry, outputs, top >> 1, net.group)
        )
        return result

    def _ripple(self, a: Word, b: Word, strictly: bool) -> int:
        net = self.netlist
        result = FALSE if strictly else TRUE
        for x, y in zip(a, b, strict=True):
            result = net.either(net.both(x, y ^ 1), net.both(net.either(x, y ^ 1), result))
        return result

    def _grouped(self, a: Word, b: Word, strictly: bool) -> int:
        """As many bits as a look-up table takes say together: greater, or equal so far."""
        net = self.netlist
        groups: list[tuple[int, int]] = []
        budget, equal, greater = self.family.inputs, TRUE, FALSE
        for x, y in zip(reversed(a), reversed(b), strict=True):
            cost = (x > TRUE) + (y > TRUE)
            if budget < cost:
                groups.append((equal, greater))
                budget, equal, greater = self.family.inputs, TRUE, FALSE
            greater = net.either(greater, net.both(equal, net.both(x, y ^ 1)))
            equal = net.both(equal, net.differ(x, y) ^ 1)
            budget -= cost
        groups.append((equal, greater))
        groups.reverse()
        carry = FALSE if strictly else TRUE
        if len(groups) < self.family.least_adder:
            return self._ripple(a, b, strictly)
        top = net.leaf()
        first, second = [equal for equal, _ in groups], [greater for _, greater in groups]
        outputs = [-1] * len(first)
        net.chains.append(Chain(first, second, carry, outputs, top >> 1, net.group))
        return top

    def compare(self, a: Word, b: Word, predicate: int) -> int:
        """A comparison by its number in `comb.icmp`."""
        if predicate < 2:
            return self.equal(a, b) ^ predicate
        # In order: less, at most, greater, at least; of signed, then of unsigned numbers.
        signed, (greater, inclusive) = predicate < 6, divmod((predicate - 2) % 4, 2)
        first, second = (a, b) if greater else (b, a)
        return self.at_least(first, second, signed, strictly=not inclusive)


def _own_bits(word: Word) -> int:
    """The bits of a number without those that extend it by zeros or by its sign."""
    own = len(word)
    while own > 1 and word[own - 1] == (FALSE if word[-1] == FALSE else word[own - 2]):
        own -= 1
    return own


Rule = Callable[[Gates, Any, Sequence[Bits]], Bits]


def _width(op: Operation) -> int:
    return bit_width(op.results[0].type) or 0


def _columns(operands: Sequence[Bits], join: Callable[[Sequence[int]], int]) -> Bits:
    return [join(bits) for bits in zip(*operands, strict=True)]


def _extract(op: comb.ExtractOp, value: Bits) -> Bits:
    low = op.low_bit.value.data
    return value[low : low + _width(op)]


_RULES: dict[type[Operation], Rule] = {
    hw.ConstantOp: lambda g, op, x: [op.value.value.data >> i & 1 for i in range(_width(op))],
    BitsOp: lambda g, op, x: [x[number][place] for number, place in op.bits],
    RowOp: lambda g, op, x: g.row(op, [x[number][place] for number, place in op.bits]),
    comb.ConcatOp: lambda g, op, x: [bit for word in reversed(x) for bit in word],
    comb.ExtractOp: lambda g, op, x: _extract(op, x[0]),
    comb.ReplicateOp: lambda g, op, x: x[0] * (_width(op) // len(x[0])),
    comb.MuxOp: lambda g, op, x: [
        g.netlist.choose(x[0][0], *ways) for ways in zip(*x[1:], strict=True)
    ],
    comb.AndOp: lambda g, op, x: _columns(x, g.netlist.all_of),
    comb.OrOp: lambda g, op, x: _columns(x, g.netlist.any_of),
    comb.XorOp: lambda g, op, x: _columns(x, g.netlist.parity),
    comb.AddOp: lambda g, op, x: reduce(partial(g.added, invert=False), x),
    comb.SubOp: lambda g, op, x: g.added(x[0], x[1], invert=True),
    comb.ICmpOp: lambda g, op, x: [g.compare(x[0], x[1], op.predicate.value.data)],
}
