"""Sums of single bits, by compressors: six bits of one weight become three, in a LUT each.

For inputs of one bit this takes fewer LUTs than any shared graph of adders that is known, as adders
of few bits waste theirs on carries. Dadda 1965 for the idea, with 6:3 counters for LUTs of six
inputs. Not here: which layers are summed so (`rules`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import comb
from xdsl.ir import SSAValue

from ..adder_graph.graph import width_of
from .circuit import Circuit
from .signals import Signal, Wire

Heap = list[list[Wire]]
"""For each weight 2^i the bits of that weight."""


def compressed_sum(circuit: Circuit, plus: Sequence[Wire], minus: Sequence[Wire]) -> Signal:
    """The number of ones in `plus`, less that in `minus`; each is one bit.

    -b = ~b - 1: the bits of `minus` go in inverted, which costs nothing in a LUT, and their number
    is the offset of the signal.
    """
    bits = [*plus, *(_inverted(circuit, wire) for wire in minus)]
    if not bits:
        return Signal.constant(0)
    heap: Heap = [bits]
    while max(len(column) for column in heap) > 2:
        heap = _compressed(circuit, heap)
    return Signal(_added(circuit, heap, len(bits)), 1, -len(minus))


def luts_of(count: int) -> int:
    """The LUTs that the sum of so many bits takes."""
    heights, luts = [count], 0
    while max(heights) > 2:
        after = [0] * (len(heights) + 2)
        for weight, height in enumerate(heights):
            for size in _groups(height):
                outputs = _outputs(size)
                luts += outputs if size > 1 else 0
                for place in range(outputs):
                    after[weight + place] += 1
        heights = after[: max(i for i, height in enumerate(after) if height) + 1]
    twos = [i for i, height in enumerate(heights) if height == 2]
    return luts + (count.bit_length() - twos[0] if twos else 0)


def _groups(height: int) -> list[int]:
    """How the bits of one weight are taken together: six, or three to five; pairs wait."""
    groups = [6] * (height // 6)
    rest = height % 6
    return groups + ([rest] if rest > 2 else [1] * rest)


def _outputs(size: int) -> int:
    return size.bit_length()


def _compressed(circuit: Circuit, heap: Heap) -> Heap:
    """The heap after one level of compressors."""
    after: Heap = [[] for _ in range(len(heap) + 2)]
    for weight, column in enumerate(heap):
        taken = 0
        # The bits that came first wait least.
        ordered = sorted(column, key=lambda wire: (wire.cycle, wire.level))
        for size in _groups(len(column)):
            group = ordered[taken : taken + size]
            taken += size
            for place, wire in enumerate(group if size == 1 else _counted(circuit, group)):
                after[weight + place].append(wire)
    while not after[-1]:
        after.pop()
    return after


def _counted(circuit: Circuit, group: Sequence[Wire]) -> list[Wire]:
    """How many of three to six bits are 1, lowest bit first."""
    wires = circuit.together(group)
    values = [wire.value for wire in wires]
    low, *carries = _full(circuit, values[:3])
    if len(values) > 3:
        other, *more = _full(circuit, values[3:])
        low, last = _full(circuit, [low, other])
        carries += [*more, last]
    found = [low, *(carries if len(carries) == 1 else _full(circuit, carries))]
    circuit.layer.compressor_bits += len(found)
    return [circuit.made(value, 0, 1, wires, 1) for value in found]


def _full(circuit: Circuit, bits: Sequence[SSAValue]) -> list[SSAValue]:
    """The sum and the carry of two or three bits; of one, that bit."""
    if len(bits) == 1:
        return list(bits)
    total = circuit.put(comb.XorOp(list(bits)), circuit.name("xor"))
    if len(bits) == 2:
        return [total, circuit.put(comb.AndOp(list(bits)), circuit.name("both"))]
    a, b, c = bits
    pairs = [circuit.put(comb.AndOp([x, y])) for x, y in ((a, b), (a, c), (b, c))]
    return [total, circuit.put(comb.OrOp(pairs), circuit.name("most"))]


def _inverted(circuit: Circuit, wire: Wire) -> Wire:
    value = circuit.put(comb.XorOp([wire.value, circuit.constant(1, 1)]), circuit.name("not"))
    return Wire(value, 0, 1, wire.cycle, wire.level)


def _added(circuit: Circuit, heap: Heap, most: int) -> Wire:
    """The sum of a heap of at most two bits a weight, which is at most `most`."""
    rows = [[column[row] if row < len(column) else None for column in heap] for row in range(2)]
    first, second = (_number(circuit, row) for row in rows)
    assert first is not None
    total = first if second is None else circuit.added(first, second, 1, circuit.name("acc"))
    value = circuit.bits(total, width_of(0, most))
    return Wire(value, 0, most, total.cycle, total.level)


def _number(circuit: Circuit, row: Sequence[Wire | None]) -> Wire | None:
    """Bits of rising weights as one number; where there is none, 0."""
    known = [wire for wire in row if wire is not None]
    if not known:
        return None
    top = max(i for i, wire in enumerate(row) if wire is not None)
    together = circuit.together(known, 0)
    wires = iter(together)
    zero = circuit.constant(0, 1)
    bits = [zero if wire is None else next(wires).value for wire in row[: top + 1]]
    return circuit.gathered(bits, together)
