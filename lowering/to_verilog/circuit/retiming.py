"""When each adder of a graph works, so that few bits wait in registers.

As soon as it can is not always best: where both operands wait anyway, for other users, the sum had
better be made late. Not here: the registers themselves (`circuit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....passes.adder_graph.graph import AdderGraph

SWEEPS = 8
"""The most times that all adders are looked at."""


def calm_cycles(
    graph: AdderGraph, widths: Sequence[int], ready: Sequence[int], *, held: bool
) -> list[int]:
    """For each value of a graph with a register behind each adder the cycle in which it is there.

    No result comes later than the last one would if every adder worked as soon as it can. Adders
    are moved while that saves registers, one by one, and together with all that only they use.

    Args:
        graph: with inputs and nodes.
        widths: the bits of each value.
        ready: the cycle in which each input is there.
        held: whether results that are there early wait in registers; else they cost one bit.
    """
    timing = _Timing(graph, widths, ready, held)
    for sweep in range(SWEEPS):
        nodes = range(graph.inputs, len(timing.cycles))
        moved = [timing.move_with_makers(node) for node in reversed(nodes)]
        moved += [timing.move(node) for node in (nodes if sweep % 2 else reversed(nodes))]
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

    def move_with_makers(self, node: int) -> bool:
        """Put a node and all that is made for it alone off, if then fewer bits wait."""
        most = min((self.cycles[user] - 1 for user in self.users[node]), default=self.end)
        slack = most - self.cycles[node]
        if slack < 1:
            return False
        makers = self._made_for(node)
        inside = set(makers)
        outside = {
            operand
            for maker in makers
            for operand in self.graph.nodes[maker - self.graph.inputs][:2]
            if operand not in inside
        }
        before = self._waiting(outside)
        weight = self.widths[node] if self.users[node] or self.held else 1
        saved: list[tuple[int, int]] = [(0, 0)]
        for delay in range(1, slack + 1):
            for maker in makers:
                self.cycles[maker] += 1
            saved.append((before - self._waiting(outside) + weight * delay, -delay))
        best = -max(saved)[1]
        for maker in makers:
            self.cycles[maker] -= slack - best
        return best > 0

    def _made_for(self, node: int) -> list[int]:
        """The node and, before it, those that reach nothing else."""
        nodes, waiting = {node}, [node]
        while waiting:
            for operand in self.graph.nodes[waiting.pop() - self.graph.inputs][:2]:
                alone = operand >= self.graph.inputs and operand not in self.outputs
                if alone and operand not in nodes and nodes.issuperset(self.users[operand]):
                    nodes.add(operand)
                    waiting.append(operand)
        return sorted(nodes)

    def _waiting(self, values: Iterable[int]) -> int:
        """The bits that wait of those values, all cycles together."""
        return sum(self.widths[v] * (self._needed(v, -1) - self.cycles[v]) for v in values)

    def _needed(self, value: int, but: int) -> int:
        """The last cycle in which anything but that node takes the value."""
        reads = [self.cycles[user] - 1 for user in self.users[value] if user != but]
        if value in self.outputs and self.held:
            reads.append(self.end)
        return max(reads, default=self.cycles[value])
