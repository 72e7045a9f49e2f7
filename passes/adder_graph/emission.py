"""From a factoring to a graph of two-input adders, as flat as its sharing allows."""

from __future__ import annotations

import heapq

from .factoring import SINKS, SOURCES, Factoring
from .graph import AdderGraph, Node

Signed = tuple[int, int]
"""A value of the graph and its sign."""


class _Adders:
    """The graph under construction: hash-consed nodes with their depths and numbers of inputs."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.nodes: list[Node] = []
        self.known: dict[tuple[int, int, int], int] = {}
        self.depth = [0] * inputs
        self.size = [1] * inputs

    def rank(self, term: Signed) -> tuple[int, int, int, int]:
        """The order in which terms are added up."""
        value, sign = term
        return (self.depth[value], self.size[value], value, sign)

    def add(self, x: Signed, y: Signed) -> Signed:
        """x + y; a difference is always positive minus negative."""
        (a, s), (b, t) = x, y
        if (s == t and a > b) or s < t:
            a, b, s, t = b, a, t, s
        key = (a, b, s * t)
        if key not in self.known:
            self.known[key] = self.inputs + len(self.nodes)
            self.nodes.append((a, b, s * t, 0))
            self.depth.append(1 + max(self.depth[a], self.depth[b]))
            self.size.append(self.size[a] + self.size[b])
        return self.known[key], s

    def total(self, terms: list[Signed]) -> Signed:
        """The sum of all terms, least first (Huffman's tree): the least depth there is."""
        heap = [(*self.rank(term), term) for term in terms]
        heapq.heapify(heap)
        while len(heap) > 1:
            x = heapq.heappop(heap)[-1]
            y = heapq.heappop(heap)[-1]
            term = self.add(x, y)
            heapq.heappush(heap, (*self.rank(term), term))
        return heap[0][-1]


def emit(factoring: Factoring) -> AdderGraph:
    """The adders of a factoring.

    A sum used once is dissolved into its user; every sum that remains is one Huffman tree over its
    terms, by depth, then by the number of inputs in a term.
    Time O(E log E), memory O(E) for E edges of the network.
    """
    sums = _sums(factoring)
    shift = len(factoring.terms[SOURCES])
    outputs = range(shift, shift + factoring.outputs)
    order = [
        *range(factoring.inputs, shift),
        *range(shift + len(factoring.terms[SINKS]) - 1, shift - 1, -1),
    ]
    uses = [0] * (shift + len(factoring.terms[SINKS]))
    for node in reversed(order):
        if node in outputs:
            uses[node] += 2
        if uses[node]:
            for term, _ in sums[node]:
                uses[term] += 1
    adders = _Adders(factoring.inputs)
    flat: list[list[Signed]] = [[(i, 1)] for i in range(factoring.inputs)]
    flat += [[] for _ in range(len(uses) - factoring.inputs)]
    for node in order:
        if not uses[node]:
            continue
        terms = [(value, s * sign) for term, sign in sums[node] for value, s in flat[term]]
        flat[node] = [adders.total(terms)] if uses[node] > 1 and terms else terms
    results = tuple(flat[node][0] if flat[node] else (0, 0) for node in outputs)
    return AdderGraph(factoring.inputs, tuple(adders.nodes), results)


def _sums(factoring: Factoring) -> list[list[Signed]]:
    """For each source, then each sink, the terms that it is the sum of; inputs have none."""
    sources, sinks = factoring.terms
    sums: list[list[Signed]] = [[] for _ in sources]
    sums += [sorted(sink.items()) for sink in sinks]
    source, sink = factoring.inputs, len(sources) + factoring.outputs
    for side, a, b, sign in factoring.steps:
        if side == SOURCES:
            sums[source] = [(a, 1), (b, sign)]
            source += 1
        else:
            sums[len(sources) + a].append((sink, 1))
            sums[len(sources) + b].append((sink, sign))
            sink += 1
    return sums
