"""Gates covered with look-up tables: of each gate the cheapest cut that lengthens no longest path.

Two rounds of Mishchenko, Cho, Chatterjee and Brayton 2007, "Combinational and sequential mapping
with priority cuts": how flat all can be, then the least area flow that is as flat where it has to.
Not here: what is covered (`estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from .families import Family
from .netlist import LEAF, Netlist

Cut = frozenset[int]

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
    wanted = {node for node in roots if netlist.kinds[node] != LEAF}
    needed, costs = set(wanted), (0, *family.costs)
    for node in reversed(range(len(netlist.kinds))):
        if node in needed:
            needed |= {literal >> 1 for literal in netlist.inputs[node]}
    # Gates are made after what they take.
    order = [node for node in sorted(needed) if netlist.kinds[node] != LEAF]
    uses = [int(node in wanted) for node in range(len(netlist.kinds))]
    for node in order:
        for literal in netlist.inputs[node]:
            uses[literal >> 1] += 1
    cuts: dict[int, list[Cut]] = {}
    depths, levels, flows = [0] * len(uses), [0] * len(uses), [0.0] * len(uses)

    def measures(cut: Cut) -> tuple[int, float, int]:
        """Depth, area flow, what is left free."""
        flow = costs[len(cut)] + sum([flows[n] for n in cut])
        return max([depths[n] for n in cut], default=0), flow, -len(cut)

    for node in order:
        if node in netlist.whole:
            cuts[node] = [whole] = [netlist.whole[node]]
            depth, flow, _ = measures(whole)
            depths[node], flows[node] = depth + 1, flow / uses[node]
            levels[node] = 1 + max([levels[n] for n in whole], default=0)
            continue
        below = {literal >> 1 for literal in netlist.inputs[node] if literal > 1}
        choices = [(frozenset((n,)), *cuts.get(n, ())) for n in below]
        found = {frozenset[int]().union(*parts): None for parts in product(*choices)}
        found = [cut for cut in found if len(cut) <= family.widest]
        flattest = sorted((*measures(cut), i) for i, cut in enumerate(found))
        cheapest = sorted((flow, depth, free, i) for depth, flow, free, i in flattest)
        single = [i for *_, i in flattest if len(found[i]) <= family.inputs]
        level = {i: max([levels[n] for n in found[i]]) for i in single}
        single.sort(key=level.__getitem__)
        best = (*single[:_KEPT], flattest[0][-1], *(i for *_, i in cheapest[:_KEPT]))
        cuts[node] = [found[i] for i in dict.fromkeys(best)]
        levels[node], depths[node] = level[single[0]] + 1, flattest[0][0] + 1
        flows[node] = cheapest[0][0] / uses[node]
    limits = dict.fromkeys(wanted, max((depths[node] for node in wanted), default=0))
    tables: dict[int, Cut] = {}
    flat: dict[int, Cut] = {}
    needed = set(wanted)
    for node in reversed(order):
        if node in needed:
            flat[node] = cuts[node][0]
            needed |= cuts[node][0]
        if node in limits:
            below = limits[node] - 1
            cut, *others = cuts[node]
            if others:
                fitting = (cut for cut in cuts[node] if measures(cut)[0] <= below)
                cut = min(fitting, key=lambda cut: measures(cut)[1:])
            tables[node] = cut
            for n in cut:
                if limits.get(n, below) >= below:
                    limits[n] = below
    return tables, flat
