"""Gates covered with look-up tables: of each gate the cheapest cut that lengthens no longest path.

Two rounds of Mishchenko, Cho, Chatterjee and Brayton 2007, "Combinational and sequential mapping
with priority cuts": how flat all can be, then the least area flow that is as flat where it has to.
A function of more inputs than a table has is several behind multiplexers: the inputs beyond select
between functions of the others, and a selected constant takes none. Not here: what is covered
(`estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from .families import Family
from .netlist import AND, LEAF, TABLE, TRUE, XOR, Netlist

Cut = frozenset[int]

Measured = tuple[int, float, int, int, Cut]
"""A cut behind its depth, its area flow, what it leaves free (less its inputs), and its number."""

_KEPT = 2
"""The cuts of a gate that larger ones are made of: the cheapest, those that are flattest by
look-up tables of full size, and the flattest of all."""


def cover(
    netlist: Netlist, roots: Iterable[int], family: Family
) -> tuple[Mapping[int, Cut], Mapping[int, Cut]]:
    """Look-up tables that give the nodes `roots`; leaves among them need none.

    Returns:
        For the node that each table gives, the nodes that it takes: of the cheapest tables that
        lengthen no longest path; and of the flattest, as tools have them that go by time.
    """
    kinds, inputs, whole = netlist.kinds, netlist.inputs, netlist.whole
    wanted = {node for node in roots if kinds[node] != LEAF}
    order, costs = _gates(netlist, wanted), (0, *family.costs)
    uses = [0] * len(kinds)
    for node in wanted:
        uses[node] = 1
    for node in order:
        for literal in inputs[node]:
            uses[literal >> 1] += 1
    cuts: dict[int, list[Measured]] = {}
    # Cuts that a node stands in for: itself, then those that it is made of.
    choices: dict[int, list[Cut]] = {}
    depths, levels, flows = [0] * len(uses), [0] * len(uses), [0.0] * len(uses)
    depth_of, level_of, flow_of = depths.__getitem__, levels.__getitem__, flows.__getitem__

    def choices_of(node: int) -> list[Cut]:
        """The cuts of a node in those of others: itself, then those that it is made of."""
        if node not in choices:
            choices[node] = [frozenset((node,)), *[cut[4] for cut in cuts.get(node, ())]]
        return choices[node]

    for node in order:
        cut = whole.get(node)
        if cut is not None and kinds[node] == TABLE:
            flow = costs[len(cut)] + sum(map(flow_of, cut))
            cuts[node] = [(0, flow, -len(cut), 0, cut)]
            flows[node] = flow / uses[node]
            continue
        if cut is not None:
            found = [cut]
        else:
            first, *others = {literal >> 1 for literal in inputs[node] if literal > 1}
            found = choices_of(first)
            for other in others:
                found = [a | b for a in found for b in choices_of(other)]
            found = [cut for cut in dict.fromkeys(found) if len(cut) <= family.widest]
        every: list[Measured] = []
        for i, cut in enumerate(found):
            size = len(cut)
            flow = costs[size] + sum(map(flow_of, cut))
            every.append((max(map(depth_of, cut), default=0), flow, -size, i, cut))
        if len(every) == 1:
            cheapest = kept = every
            level = {every[0][3]: max(map(level_of, every[0][4]), default=0)}
        else:
            every.sort()
            single = [cut for cut in every if -cut[2] <= family.inputs] or every
            level = {cut[3]: max(map(level_of, cut[4]), default=0) for cut in single}
            single.sort(key=lambda cut: level[cut[3]])
            cheapest = sorted(every, key=itemgetter(1))
            firsts = (*single[:_KEPT], every[0], *cheapest[:_KEPT])
            kept = [*{cut[3]: cut for cut in firsts}.values()]
        cuts[node] = kept
        levels[node], depths[node] = level[kept[0][3]] + 1, every[0][0] + 1
        flows[node] = cheapest[0][1] / uses[node]
    # Paths of synthesis begin behind tables that stay as they are, and end before them.
    longest = max(depths, default=0)
    limits = dict.fromkeys(wanted, longest)
    tables: dict[int, Cut] = {}
    flat: dict[int, Cut] = {}
    needed = set(wanted)

    def price(cut: Measured) -> float:
        """What a cut takes more: what is there already costs nothing."""
        return costs[-cut[2]] + sum(flows[n] for n in cut[4] if n not in limits)

    for node in reversed(order):
        if node in needed:
            flat[node] = cuts[node][0][4]
            needed |= flat[node]
        if node in limits:
            below = longest if kinds[node] == TABLE else limits[node] - 1
            best, *others = fitting = cuts[node]
            if others:
                fitting = [cut for cut in fitting if cut[0] <= below] or fitting
                best = min(fitting, key=lambda c: (price(c), c[2])) if fitting[1:] else fitting[0]
            tables[node] = cut = best[4]
            for n in cut:
                if limits.get(n, below) >= below:
                    limits[n] = below
    return tables, flat


def least_levels(netlist: Netlist, roots: Iterable[int], widest: int) -> int:
    """The levels of the longest path to `roots` where functions have at most `widest` inputs.

    As synthesis counts them before it looks at area: ROMs of logic are the gates that they are made
    of, and a level has as many gates as go into it.
    """
    levels: dict[int, int] = {}
    taken: dict[int, Cut] = {}
    for node in _gates(netlist, roots):
        if netlist.kinds[node] == TABLE:
            continue
        inputs = frozenset(literal >> 1 for literal in netlist.inputs[node] if literal > TRUE)
        level = max(levels.get(n, 0) for n in inputs)
        parts = [taken[n] if levels.get(n) == level else (n,) for n in inputs]
        together = frozenset[int]().union(*parts)
        if not level or len(together) > widest:
            level, together = level + 1, inputs
        levels[node], taken[node] = level, together
    return max(levels.values(), default=0)


def _gates(netlist: Netlist, roots: Iterable[int]) -> list[int]:
    """What is needed for `roots`, without leaves; gates are made after what they take."""
    needed = set(roots)
    inputs, kinds = netlist.inputs, netlist.kinds
    for node in reversed(range(len(kinds))):
        if node in needed and kinds[node] != LEAF:
            needed.update([literal >> 1 for literal in inputs[node]])
    return [node for node in sorted(needed) if kinds[node] != LEAF]


def tables_of(netlist: Netlist, node: int, cut: Cut, family: Family) -> int:
    """How many look-up tables give a node from the nodes of its cut.

    Tools select by any of the inputs: the mean of the first and the last.
    """
    if node in netlist.luts:
        return netlist.luts[node]
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
