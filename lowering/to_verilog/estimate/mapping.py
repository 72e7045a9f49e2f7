"""Gates covered with look-up tables: priority cuts, chosen by the area that they lead to.

After Mishchenko, Cho, Chatterjee and Brayton 2007, "Combinational and sequential mapping with
priority cuts": each gate keeps the few best sets of nodes that determine it. No path gets longer
than the longest one has to be; within that, area flow decides, and later rounds know how often each
node is used. Not here: what has to be covered (`estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .families import Family
from .netlist import LEAF, Netlist

Cut = frozenset[int]

_KEPT = 4
"""Cuts of a gate that are looked at further."""

_ROUNDS = 3
"""How often cuts are chosen, each time with the uses that the last choice gave."""


@dataclass
class Cover:
    """Look-up tables.

    Attributes:
        tables: for the node that each gives, the nodes that it takes.
        order: the nodes of `tables`, each after those that it takes.
    """

    tables: dict[int, Cut]
    order: list[int]


def cover(netlist: Netlist, roots: Iterable[int], family: Family) -> Cover:
    """Look-up tables that give the nodes `roots`; leaves among them need none."""
    wanted = {node for node in roots if netlist.kinds[node] != LEAF}
    order = _ordered(netlist, wanted)
    cuts = _Cuts(netlist, family, wanted, order)
    for _ in range(_ROUNDS):
        cuts.choose()
    return cuts.cover()


def _ordered(netlist: Netlist, roots: Iterable[int]) -> list[int]:
    """The gates that roots depend on, each after its inputs."""
    kinds, inputs = netlist.kinds, netlist.inputs
    order: list[int] = []
    state: dict[int, bool] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in state:
                stack.pop()
                if not state[node]:
                    state[node] = True
                    order.append(node)
                continue
            state[node] = False
            for literal in inputs[node]:
                below = literal >> 1
                if kinds[below] != LEAF and below not in state:
                    stack.append(below)
    return order


class _Cuts:
    """The cuts of every gate, and which is chosen."""

    def __init__(self, netlist: Netlist, family: Family, roots: set[int], order: list[int]) -> None:
        self.roots = roots
        self.order = order
        self.costs = (0, *family.costs)
        self.widest = family.merged
        self.flow = [0.0] * len(netlist.kinds)
        self.depth = [0] * len(netlist.kinds)
        self.best: dict[int, Cut] = {}
        self.uses = self._fanouts(netlist)
        self.found: dict[int, list[Cut]] = {}
        self._enumerate(netlist)
        # Of a function of leaves that no other one takes there is nothing to choose.
        self.open = [
            node
            for node in order
            if node not in roots or self.depth[node] > 1 or self.uses[node] > 1
        ]
        self.longest = max((self.depth[node] for node in roots), default=0)

    def _fanouts(self, netlist: Netlist) -> dict[int, float]:
        uses = dict.fromkeys(self.roots, 1.0)
        for node in self.order:
            for literal in netlist.inputs[node]:
                uses[literal >> 1] = uses.get(literal >> 1, 0.0) + 1
        return uses

    def _enumerate(self, netlist: Netlist) -> None:
        """Find cuts from the leaves on: of each gate the shallow ones, then the small ones."""
        kinds, widest = netlist.kinds, self.widest
        for node in self.order:
            below = [literal >> 1 for literal in netlist.inputs[node] if literal > 1]
            if all([kinds[n] == LEAF for n in below]):
                self.found[node] = [frozenset(below)]
                self.best[node] = self.found[node][0]
                self.depth[node] = 1
                self.flow[node] = self.costs[len(below)] / self.uses[node]
                continue
            merged: set[Cut] = {frozenset()}
            if node in netlist.whole:
                merged, below = {netlist.whole[node]}, []
            for n in below:
                choices = (*self.found.get(n, ()), frozenset((n,)))
                merged = {
                    union
                    for cut in merged
                    for other in choices
                    if len(union := cut | other) <= widest
                }
            cuts = list(merged)
            ranked = sorted((*self._measures(cut), i) for i, cut in enumerate(cuts))
            flattest = min(ranked, key=_shallow)
            best = ranked[:_KEPT]
            if flattest not in best:
                best[-1] = flattest
            self.found[node] = [cuts[i] for *_, i in best]
            self.best[node] = cuts[flattest[-1]]
            self.depth[node] = flattest[2]
            self.flow[node] = ranked[0][0] / self.uses[node]

    def _measures(self, cut: Cut) -> tuple[float, int, int]:
        """Area flow, size, depth."""
        size = len(cut)
        area = self.costs[size] + sum(map(self.flow.__getitem__, cut))
        return area, size, 1 + max(map(self.depth.__getitem__, cut), default=0)

    def choose(self) -> None:
        """Choose again, knowing the uses of each node, and how deep it may be."""
        allowed = dict.fromkeys(self.roots, self.longest)
        uses = dict.fromkeys(self.roots, 1)
        for node in reversed(self.open):
            if node in allowed:
                limit = allowed[node] - 1
                for n in self.best[node]:
                    uses[n] = uses.get(n, 0) + 1
                    allowed[n] = min(allowed.get(n, limit), limit)
        for node in self.open:
            cuts = self.found[node]
            if len(cuts) == 1:
                area, _, depth = self._measures(cuts[0])
            else:
                limit = allowed.get(node, self.longest)
                ranked = [(*self._measures(cut), i) for i, cut in enumerate(cuts)]
                fitting = [entry for entry in ranked if entry[2] <= limit]
                area, _, depth, i = min(fitting) if fitting else min(ranked, key=_shallow)
                self.best[node] = cuts[i]
            self.depth[node] = depth
            # What was chosen before weighs less than what the gates say.
            self.uses[node] = (2 * self.uses[node] + uses.get(node, 0)) / 3
            self.flow[node] = area / max(1.0, self.uses[node])

    def cover(self) -> Cover:
        """The tables of the last choice."""
        needed = set(self.roots)
        for node in reversed(self.order):
            if node in needed:
                needed.update(self.best[node])
        order = [node for node in self.order if node in needed]
        return Cover({node: self.best[node] for node in order}, order)


def _shallow(measures: tuple[float, int, int, int]) -> tuple[int, float]:
    return measures[2], measures[0]
