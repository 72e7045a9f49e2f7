"""When each adder of a graph works, so that few bits wait in registers.

As soon as it can is not always best: where both operands wait anyway, for other users, the sum had
better be made late. Not here: the registers themselves (`circuit`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..adder_graph.graph import AdderGraph

SWEEPS = 8
"""The most times that all adders are looked at."""


def calm_cycles(
    graph: AdderGraph, widths: Sequence[int], ready: Sequence[int], *, held: bool
) -> list[int]:
    """For each value of a graph with a register behind each adder the cycle in which it is there.

    No result comes later than the last one would if every adder worked as soon as it can. Adders
    are moved one by one while that saves registers; each sweep takes time linear in the graph and
    its depth.

    Args:
        graph: with inputs and nodes.
        widths: the bits of each value.
        ready: the cycle in which each input is there.
        held: whether results that are there early wait in registers; else they cost one bit.
    """
    timing = _Timing(graph, widths, ready, held)
    for sweep in range(SWEEPS):
        nodes = range(graph.inputs, len(timing.cycles))
        moved = [timing.move(node) for node in (nodes if sweep % 2 else reversed(nodes))]
        if not any(moved):
            break
    return timing.cycles


class _Timing:
    def __init__(
        self, graph: AdderGraph, widths: Sequence[int], ready: Sequence[int], held: bool
    ) -> None:
        self.graph = graph
        self.widths = widths
        self.held = held
        self.cycles = list(ready)
        self.users: list[list[int]] = [[] for _ in widths]
        for node, (a, b, _, _) in enumerate(graph.nodes, graph.inputs):
            self.cycles.append(1 + max(self.cycles[a], self.cycles[b]))
            for operand in {a, b}:
                self.users[operand].append(node)
        self.outputs = {value for value, sign in graph.outputs if sign}
        self.end = max((self.cycles[value] for value in self.outputs), default=0)

    def move(self, node: int) -> bool:
        """Give a node the cycle in which the fewest bits wait; whether that is another one."""
        a, b = self.graph.nodes[node - self.graph.inputs][:2]
        least = 1 + max(self.cycles[a], self.cycles[b])
        most = min((self.cycles[user] - 1 for user in self.users[node]), default=self.end)
        if least >= most:
            return False
        others = {operand: self._needed(operand, node) for operand in (a, b)}
        weight = self.widths[node] if self.users[node] or self.held else 1

        def bits(cycle: int) -> int:
            waiting = (self.widths[v] * max(needed, cycle - 1) for v, needed in others.items())
            return sum(waiting) - weight * cycle

        best = min(range(least, most + 1), key=bits)
        if bits(best) == bits(self.cycles[node]):
            return False
        self.cycles[node] = best
        return True

    def _needed(self, value: int, but: int) -> int:
        """The last cycle in which anything but that node takes the value."""
        taken = [self.cycles[user] - 1 for user in self.users[value] if user != but]
        if value in self.outputs and self.held:
            taken.append(self.end)
        return max(taken, default=self.cycles[value])
