"""Gates covered with look-up tables: of each gate the flattest cut, of those the cheapest.

The first round of Mishchenko, Cho, Chatterjee and Brayton 2007, "Combinational and sequential
mapping with priority cuts": rounds that choose again by area bring estimates no nearer to what
synthesis makes. Not here: what is covered (`estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from .families import Family
from .netlist import LEAF, Netlist

Cut = frozenset[int]

_KEPT = 2
"""Cuts of a gate that larger ones are made of."""


def cover(netlist: Netlist, roots: Iterable[int], family: Family) -> Mapping[int, Cut]:
    """Look-up tables that give the nodes `roots`; leaves among them need none.

    Returns:
        For the node that each table gives, the nodes that it takes.
    """
    wanted = {node for node in roots if netlist.kinds[node] != LEAF}
    needed, costs = set(wanted), (0, *family.costs)
    for node in reversed(range(len(netlist.kinds))):
        if node in needed:
            needed |= {literal >> 1 for literal in netlist.inputs[node]}
    # Gates are made after what they take.
    order = [node for node in sorted(needed) if netlist.kinds[node] != LEAF]
    uses = dict.fromkeys(wanted, 1)
    for node in order:
        for literal in netlist.inputs[node]:
            uses[literal >> 1] = uses.get(literal >> 1, 0) + 1
    cuts: dict[int, list[Cut]] = {}
    depths: dict[int, int] = {}
    flows: dict[int, float] = {}

    def measures(cut: Cut) -> tuple[int, float, int]:
        """Depth, area flow, what is left free."""
        flow = costs[len(cut)] + sum(flows.get(n, 0.0) for n in cut)
        return max((depths.get(n, 0) for n in cut), default=0), flow, -len(cut)

    for node in order:
        below = {literal >> 1 for literal in netlist.inputs[node] if literal > 1}
        choices = [(frozenset((n,)), *cuts.get(n, ())) for n in below]
        found = {frozenset[int]().union(*parts): None for parts in product(*choices)}
        found = [cut for cut in found if len(cut) <= family.merged]
        if node in netlist.whole:
            found = [netlist.whole[node]]
        ranked = sorted((*measures(cut), i) for i, cut in enumerate(found))
        depth, flow, *_ = ranked[0]
        cuts[node] = [found[i] for *_, i in ranked[:_KEPT]]
        depths[node], flows[node] = depth + 1, flow / uses[node]
    needed = set(wanted)
    for node in reversed(order):
        if node in needed:
            needed |= cuts[node][0]
    return {node: cuts[node][0] for node in order if node in needed}
