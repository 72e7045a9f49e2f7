"""Numbers as bits, and ops of `comb` as gates and carry chains.

A number is a list of literals, lowest bit first. What opens a carry chain follows the rules of
Yosys: low bits that need no adder are left out, narrow adders become logic later (`cleanup`). Not
here: which op reads what (`elaborate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import comb, hw
from xdsl.ir import Operation

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
        self._compared: dict[tuple[tuple[int, ...], ...], int] = {}

    def compute(self, op: Operation, operands: Sequence[Bits]) -> Bits | None:
        """The result of an op of `hw` or `comb`, or `None` where it is not known."""
        rule = _RULES.get(type(op))
        return None if rule is None else rule(self, op, operands)

    def added(self, a: Word, b: Word, invert: bool) -> Bits:
        """a + b, or a - b where `b` is inverted, in as many bits as each has."""
        words = (tuple(a), tuple(b))
        key = (words[0], words[1], (invert,))
        if not invert and words[1] < words[0]:
            key = (words[1], words[0], (invert,))
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = self._added(a, b, invert)
        return known

    def _added(self, a: Word, b: Word, invert: bool) -> Bits:
        carry = int(invert)
        second = [bit ^ carry for bit in b]
        result: Bits = []
        for low, other in zip(a, second, strict=True):
            if other == carry:
                result.append(low)
            elif low == carry:
                result.append(other)
            elif low == other and low <= TRUE:
                # Two equal constants say themselves what is carried.
                result.append(carry)
                carry = low
            else:
                break
        start, end = len(result), len(a)
        # Two numbers without a sign give one bit more than the longer one has.
        while not invert and end > start + 1 and a[end - 1] == a[end - 2] == FALSE:
            if not b[end - 1] == b[end - 2] == FALSE:
                break
            end -= 1
        if start < end:
            result += self.chain(a[start:end], second[start:end], carry)
        return result + [FALSE] * (len(a) - end)

    def chain(self, a: Word, b: Word, carry: int) -> Bits:
        """The sum of two numbers of the same width and a carry, as a new chain."""
        first, second = self._cells(a, b)
        outputs = self.netlist.leaves(len(a))
        self.netlist.chains.append(
            Chain(first, second, carry, [bit >> 1 for bit in outputs], -1, self.netlist.group)
        )
        return outputs

    def _cells(self, a: Word, b: Word) -> tuple[Bits, Bits]:
        if self.family.own_adder:
            return list(a), list(b)
        return [self.netlist.differ(x, y) for x, y in zip(a, b, strict=True)], list(a)

    def at_least(self, a: Word, b: Word, signed: bool, strictly: bool) -> int:
        """a >= b, or a > b."""
        key = (tuple(a), tuple(b), (signed, strictly))
        known = self._compared.get(key)
        if known is None:
            known = self._compared[key] = self._at_least(a, b, signed, strictly)
        return known

    def _at_least(self, a: Word, b: Word, signed: bool, strictly: bool) -> int:
        constant = all(x <= TRUE for x in a) or all(x <= TRUE for x in b)
        if (constant and len(a) <= self.family.inputs) or self.family.chained_compare:
            if signed:
                a, b = [*a[:-1], b[-1]], [*b[:-1], a[-1]]
            if constant and len(a) <= self.family.inputs:
                return self._ripple(a, b, strictly)
            return self._grouped(a, b, strictly)
        less = self._less(b, a, signed)
        return less if strictly else self.netlist.either(less, self.equal(a, b))

    def equal(self, a: Word, b: Word) -> int:
        """a = b."""
        net = self.netlist
        return net.all_of([net.differ(x, y) ^ 1 for x, y in zip(a, b, strict=True)])

    def _less(self, a: Word, b: Word, signed: bool) -> int:
        """a < b, by the carry out of a - b, and by its sign."""
        net = self.netlist
        second = [bit ^ 1 for bit in b]
        start = 0
        while start < len(a) - signed and TRUE in (a[start], second[start]):
            start += 1
        if start == len(a):
            return FALSE
        outputs = [-1] * (len(a) - start)
        top = net.leaf()
        result = top ^ 1
        if signed:
            sign = net.leaf()
            outputs[-1] = sign >> 1
            # The carry into the highest bit, as it would be read from the chain.
            carry = net.differ(sign, net.differ(a[-1], second[-1]))
            result = net.differ(top, net.differ(sign, carry))
        net.chains.append(
            Chain(list(a[start:]), second[start:], TRUE, outputs, top >> 1, net.group)
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


def _width(op: Operation) -> int:
    width = bit_width(op.results[0].type)
    assert width is not None
    return width


def _constant(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del gates, operands
    assert isinstance(op, hw.ConstantOp)
    value = op.value.value.data
    return [value >> i & 1 for i in range(_width(op))]


def _concat(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del gates, op
    return [bit for word in reversed(operands) for bit in word]


def _extract(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del gates
    assert isinstance(op, comb.ExtractOp)
    low = op.low_bit.value.data
    return operands[0][low : low + _width(op)]


def _replicate(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del gates
    return operands[0] * (_width(op) // len(operands[0]))


def _select(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del op
    (condition,), yes, no = operands
    net = gates.netlist
    result: Bits = []
    for one, other in zip(yes, no, strict=True):
        bit = net.choose(condition, one, other)
        if condition > TRUE and bit > TRUE and one != other:
            if one <= TRUE:
                net.selections[bit] = (condition, one, other)
            elif other <= TRUE:
                net.selections[bit] = (condition ^ 1, other, one)
        result.append(bit)
    return result


def _bitwise(name: str) -> Rule:
    def rule(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
        del op
        net = gates.netlist
        join = {"and": net.all_of, "or": net.any_of, "xor": net.parity}[name]
        return [join(bits) for bits in zip(*operands, strict=True)]

    return rule


def _parity(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del op
    return [gates.netlist.parity(operands[0])]


def _add(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del op
    total = operands[0]
    for word in operands[1:]:
        total = gates.added(total, word, invert=False)
    return total


def _sub(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    del op
    return gates.added(operands[0], operands[1], invert=True)


def _compare(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    assert isinstance(op, comb.ICmpOp)
    a, b = operands
    predicate = op.predicate.value.data
    if predicate < 2:
        return [gates.equal(a, b) ^ predicate]
    signed = predicate < 6
    # In order: less, at most, greater, at least.
    match (predicate - 2) % 4:
        case 0:
            return [gates.at_least(b, a, signed, strictly=True)]
        case 1:
            return [gates.at_least(b, a, signed, strictly=False)]
        case 2:
            return [gates.at_least(a, b, signed, strictly=True)]
        case _:
            return [gates.at_least(a, b, signed, strictly=False)]


def _multiply(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    """Shifted copies, added one after another."""
    width = _width(op)
    a, b = operands
    if len([bit for bit in a if bit <= TRUE]) > len([bit for bit in b if bit <= TRUE]):
        a, b = b, a
    net = gates.netlist
    total: Bits = [FALSE] * width
    for place, bit in enumerate(b):
        if bit != FALSE:
            row = [FALSE] * place + [net.both(bit, x) for x in a[: width - place]]
            total = gates.added(total, row, invert=False)
    return total


def _shift(gates: Gates, op: Operation, operands: Sequence[Bits]) -> Bits:
    value, amount = operands
    net = gates.netlist
    fill = value[-1] if isinstance(op, comb.ShrSOp) else FALSE
    left = isinstance(op, comb.ShlOp)
    width = len(value)
    for place, bit in enumerate(amount):
        step = min(1 << place, width)
        filled = [fill] * step
        moved = filled + value[: width - step] if left else value[step:] + filled
        value = [net.choose(bit, x, y) for x, y in zip(moved, value, strict=True)]
    return value


Rule = Callable[[Gates, Operation, Sequence[Bits]], Bits]

_RULES: dict[type[Operation], Rule] = {
    hw.ConstantOp: _constant,
    comb.ConcatOp: _concat,
    comb.ExtractOp: _extract,
    comb.ReplicateOp: _replicate,
    comb.MuxOp: _select,
    comb.AndOp: _bitwise("and"),
    comb.OrOp: _bitwise("or"),
    comb.XorOp: _bitwise("xor"),
    comb.ParityOp: _parity,
    comb.AddOp: _add,
    comb.SubOp: _sub,
    comb.MulOp: _multiply,
    comb.ICmpOp: _compare,
    comb.ShlOp: _shift,
    comb.ShrUOp: _shift,
    comb.ShrSOp: _shift,
}
