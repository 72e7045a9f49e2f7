"""Keys of spikes, and what the routers of a machine hold for them.

As on SpiNNaker: a packet carries the key of its neuron, the router of a chip compares it with
masked keys and sends it on to links and cores; without a match it goes straight on. Trees are
shortest paths, found by networkx. Not here: what any tool chain makes of its own routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import LoweringError

if TYPE_CHECKING:
    from networkx import Graph

KEY_BITS = 32
"""Of a packet (Furber et al., The SpiNNaker project, Proc. IEEE 102(5), 2014)."""

_LINKS = {(1, 0): 0, (1, 1): 1, (0, 1): 2, (-1, 0): 3, (-1, -1): 4, (0, -1): 5}
_MIXED = np.int64(-1)


@dataclass(frozen=True, eq=False)
class Routing:
    """Keys, and entries of routers.

    Attributes:
        keys: the first key of each slice, int [slices].
        masks: of the keys of each slice, int [slices].
        entries: of the router of each chip, one for each slice that does not go straight on, int
            [chips].
        merged: the same where entries of a population are joined that send to the same places.
    """

    keys: Array
    masks: Array
    entries: Array
    merged: Array


def keys_of(population: Array, sizes: Array) -> tuple[Array, Array]:
    """First key and mask of each slice: each population has a block, each slice a part of it.

    Args:
        population: of each slice, ascending, int [slices].
        sizes: neurons of each slice, int [slices].

    Raises:
        LoweringError: there are not so many keys.
    """
    names, first, counts = np.unique(population, return_index=True, return_counts=True)
    bits = _bits(np.maximum.reduceat(sizes, first)) if len(sizes) else np.zeros(0, np.int64)
    blocks = bits + _bits(counts)
    base = np.zeros(len(names), np.int64)
    order = np.argsort(-blocks, kind="stable")  # larger ones first: every block is aligned
    base[order] = np.concatenate([[0], np.cumsum(1 << blocks[order])[:-1]])
    if (1 << blocks).sum() > 1 << KEY_BITS:
        raise LoweringError(
            f"the keys of {int(sizes.sum()):,} neurons take {int((1 << blocks).sum()):,} numbers, "
            f"{KEY_BITS} bits have {1 << KEY_BITS:,}; give populations of sizes near powers of two"
        )
    index = np.searchsorted(names, population)
    keys = base[index] + ((np.arange(len(sizes)) - first[index]) << bits[index])
    return keys, ((1 << KEY_BITS) - 1) & ~((1 << bits[index]) - 1)


def _bits(sizes: Array) -> Array:
    """Bits that tell so many things apart."""
    return np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)


def machine_graph(chips: Array, hexagonal: bool) -> Graph[int]:
    """The chips as a graph of networkx, by their numbers.

    Args:
        chips: board, x and y of each, int [chips, 3].
        hexagonal: whether each has six neighbours, or four.
    """
    import networkx as nx

    graph: Graph[int] = nx.Graph()
    at = {(x, y): index for index, (_, x, y) in enumerate(chips.tolist())}
    for (x, y), index in at.items():
        graph.add_node(index)
        for dx, dy in ((1, 0), (0, 1), (1, 1))[: 3 if hexagonal else 2]:
            if (x + dx, y + dy) in at:
                graph.add_edge(index, at[x + dx, y + dy])
    return graph


def route(
    chips: Array,
    hexagonal: bool,
    population: Array,
    sizes: Array,
    places: Array,
    pairs: tuple[Array, Array],
) -> Routing:
    """Keys of slices, and entries of routers.

    Args:
        chips: board, x and y of each, int [chips, 3].
        hexagonal: how they are joined, see `machine_graph`.
        population: of each slice, ascending, int [slices].
        sizes: neurons of each slice.
        places: chip and core within the chip of each slice, int [slices, 2].
        pairs: source and target slices that exchange spikes.
    """
    import networkx as nx

    keys, masks = keys_of(population, sizes)
    graph, slices = machine_graph(chips, hexagonal), len(sizes)
    names = np.random.default_rng(0).integers(1, 1 << 44, int(places[:, 1].max(initial=0)) + 1)
    width = len(names) * len(chips)
    target = places[pairs[1], 0] * len(names) + places[pairs[1], 1]
    reached = np.unique(pairs[0] * width + target)
    # The set of cores that a slice reaches on a chip, told by a sum of their names.
    source, core = reached // width, reached % width
    where = source * len(chips) + core // len(names)
    local = np.bincount(where, names[core % len(names)], minlength=slices * len(chips))
    local = local.astype(np.int64).reshape(slices, len(chips))
    routes, straight = np.zeros_like(local), np.zeros(local.shape, np.bool_)
    for start in np.unique(places[:, 0]).tolist():
        mine = np.flatnonzero(places[:, 0] == start)
        tree = list(nx.bfs_edges(graph, start))
        needed, links = local[mine] > 0, np.zeros((len(mine), len(chips)), np.int64)
        incoming = np.zeros(len(chips), np.int64)
        for before, after in reversed(tree):
            dx, dy = (chips[after, 1:] - chips[before, 1:]).tolist()
            incoming[after] = 1 << _LINKS[dx, dy]
            links[:, before] |= np.where(needed[:, after], incoming[after], 0)
            needed[:, before] |= needed[:, after]
        routes[mine] = np.where(needed, local[mine] * 64 + links, 0)
        straight[mine] = needed & (local[mine] == 0) & (links == incoming) & (incoming > 0)
    entries = ((routes > 0) & ~straight).sum(0)
    merged = sum(
        (_merged(routes[own], straight[own]) for own in _runs(population)),
        np.zeros(len(chips), np.int64),
    )
    return Routing(keys, masks, entries, merged)


def _runs(population: Array) -> list[Array]:
    _, first = np.unique(population, return_index=True)
    return np.split(np.arange(len(population)), first[1:]) if len(population) else []


def _merged(routes: Array, straight: Array) -> Array:
    """Entries of a population on each chip: aligned blocks of keys that all go the same way."""
    depth = int(_bits(np.array([len(routes)]))[0])
    padding = ((0, (1 << depth) - len(routes)), (0, 0))
    way, entry = np.pad(routes, padding), np.pad((routes > 0) & ~straight, padding)
    count = entry.astype(np.int64)
    for _ in range(depth):
        left, right = way[::2], way[1::2]
        same = ((left == right) | (left == 0) | (right == 0)) & (left != _MIXED) & (right != _MIXED)
        entry = entry[::2] | entry[1::2]
        count = np.where(same, entry, count[::2] + count[1::2])
        way = np.where(same, np.maximum(left, right), _MIXED)
    return count[0]
