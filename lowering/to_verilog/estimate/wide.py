"""Look-up tables of functions with more inputs than one has, behind multiplexers.

The inputs beyond those of a look-up table select between functions of the others; a selected
constant takes none. Not here: which functions there are (`mapping`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .families import Family
from .mapping import Cut
from .netlist import AND, XOR, Netlist


def tables_of(netlist: Netlist, node: int, cut: Cut, family: Family) -> int:
    """How many look-up tables give a node from the nodes of its cut.

    Tools select by any of the inputs: the mean of the first and the last.
    """
    most = family.tables[max(len(cut), 1) - 1]
    if most == 1 or node in netlist.whole:
        return most
    ascending = sorted(cut)
    selected = sum(_selected(netlist, node, p, family) for p in (ascending, ascending[::-1]))
    return min(most, -(-selected // 2) or 1)


def _selected(netlist: Netlist, node: int, pins: Sequence[int], family: Family) -> int:
    """How many functions the last of the pins select from, without constants."""
    part = (1 << (1 << family.inputs)) - 1
    table = _truth(netlist, node, pins)
    places = range(0, 1 << len(pins), 1 << family.inputs)
    return sum((table >> place & part) not in (0, part) for place in places)


def _truth(netlist: Netlist, node: int, pins: Sequence[int]) -> int:
    """A node for all numbers of its pins, the first of which is the lowest bit: a bit for each."""
    every = (1 << (1 << len(pins))) - 1
    known = {0: 0}
    for place, pin in enumerate(pins):
        half = 1 << place
        known[pin] = every // ((1 << half) + 1) << half

    def value(literal: int) -> int:
        below, inverted = divmod(literal, 2)
        if below not in known:
            a, b, *others = map(value, netlist.inputs[below])
            kind = netlist.kinds[below]
            if kind == AND:
                known[below] = a & b
            elif kind == XOR:
                known[below] = a ^ b
            else:
                known[below] = a & b | ~a & others[0]
        return known[below] ^ every * inverted

    return value(2 * node)
