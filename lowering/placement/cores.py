"""Slices put on cores, and cores on places: least spikes times hops, with bounded effort.

Both go by the same picture: items with traffic between them, and places that hold some. Not here:
what an item needs (`slicing`), and where chips stand (`device`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array

MOST_MERGES = 1_000_000
EFFORT = 2_000_000_000
"""Numbers that refinement changes at most: some seconds."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Spikes a step between items, both ways in one number, as rows of a sparse matrix.

    Attributes:
        first: where the row of each item begins, int [items + 1].
        other: the items that it exchanges spikes with, int [entries].
        spikes: how many, f64 [entries].
    """

    first: Array
    other: Array
    spikes: Array

    @property
    def items(self) -> int:
        """Their number."""
        return len(self.first) - 1

    def row(self, item: int) -> tuple[Array, Array]:
        """The items that an item exchanges spikes with, and how many spikes."""
        within = slice(self.first[item], self.first[item + 1])
        return self.other[within], self.spikes[within]


def summed(
    items: int, source: Array, target: Array, spikes: Array
) -> tuple[tuple[Array, Array], Array]:
    """Pairs of items, each once and in order, and the spikes between them."""
    keys, place = np.unique(source * items + target, return_inverse=True)
    return np.divmod(keys, max(1, items)), np.bincount(place, spikes, minlength=len(keys))


def traffic(items: int, source: Array, target: Array, spikes: Array) -> Traffic:
    """Traffic between items, of pairs in any order; what stays within one is left out."""
    apart = source != target
    ends = source[apart], target[apart]
    both, back = np.concatenate(ends), np.concatenate(ends[::-1])
    (rows, other), each = summed(items, both, back, np.tile(spikes[apart], 2))
    return Traffic(np.searchsorted(rows, np.arange(items + 1)), other, each)


def merged(
    items: int, source: Array, target: Array, spikes: Array, loads: Array, limits: Array
) -> Array:
    """Items joined while they fit, those that exchange most spikes first (as Kruskal's trees).

    Args:
        items: their number.
        source: one item of each pair, int [pairs].
        target: the other one.
        spikes: that they exchange.
        loads: what each item needs of each resource, int [items, resources].
        limits: what there is of each, int [resources].

    Returns:
        The group of each item, numbered in the order of their first items.
    """
    fits = (source != target) & (loads[source] + loads[target] <= limits).all(1)
    pairs = np.flatnonzero(fits)
    order = pairs[np.argsort(-spikes[pairs], kind="stable")][:MOST_MERGES]
    parent, held = list(range(items)), loads.copy()

    def root(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for a, b in zip(source[order].tolist(), target[order].tolist(), strict=True):
        a, b = sorted((root(a), root(b)))
        if a != b and (held[a] + held[b] <= limits).all():
            parent[b] = a
            held[a] += held[b]
    roots = np.array([root(item) for item in range(items)], np.int64)
    return np.unique(roots, return_inverse=True)[1]


def packed(groups: Array, loads: Array, limits: Array) -> Array:
    """Groups joined by first fit, whatever they exchange: as few cores as that gives.

    Args and result as for `merged`; `groups` is what it gave.
    """
    count = int(groups.max(initial=-1)) + 1
    needs = np.stack([np.bincount(groups, column, minlength=count) for column in loads.T], 1)
    free, core = np.zeros((0, len(limits))), np.zeros(count, np.int64)
    for group in np.argsort(-(needs / np.maximum(limits, 1)).max(1), kind="stable").tolist():
        fitting = np.flatnonzero((free >= needs[group]).all(1))
        if len(fitting):
            core[group] = fitting[0]
        else:
            core[group], free = len(free), np.concatenate([free, limits[None].astype(float)])
        free[core[group]] -= needs[group]
    _, first, inverse = np.unique(core[groups], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def arranged(
    between: Traffic, room: Array, distance: Array, size: Array, space: Array
) -> Array | None:
    """Items on places such that few spikes go far.

    Two starts, in the order of items and by attraction, then moves and exchanges that gain most.

    Args:
        between: spikes between items.
        room: items that each place takes, int [places].
        distance: hops between places, [places, places].
        size: memory of each item.
        space: memory of each place.

    Returns:
        The place of each item; `None` where they do not fit.
    """
    order = _walk(distance, room)
    starts = [
        start
        for attracted in (False, True)
        for start in [_filled(between, room, order, size, space, attracted)]
        if start is not None
    ]
    if not starts:
        return None
    best = min(starts, key=lambda place: cost(between, place, distance))
    return _refined(between, best, room, distance, size, space)


def cost(between: Traffic, place: Array, distance: Array) -> float:
    """Spikes times hops of a step."""
    items = np.repeat(np.arange(between.items), np.diff(between.first))
    return float(between.spikes @ distance[place[items], place[between.other]]) / 2


def _walk(distance: Array, room: Array) -> list[int]:
    """Places with room, each the nearest one to that before, and among these to the first."""
    free = np.flatnonzero(room > 0)
    if not len(free):
        return []
    walk = [int(free[0])]
    left = np.ones(len(room), np.bool_) & (room > 0)
    left[walk[0]] = False
    while left.any():
        rest = np.flatnonzero(left)
        keys = np.lexsort((rest, distance[walk[0], rest], distance[walk[-1], rest]))
        walk.append(int(rest[keys[0]]))
        left[walk[-1]] = False
    return walk


def _filled(
    between: Traffic, room: Array, order: list[int], size: Array, space: Array, attracted: bool
) -> Array | None:
    """Place after place filled up, with the next item or that which is attracted most."""
    place = np.full(between.items, -1, np.int64)
    pull, waiting = np.zeros(between.items), np.ones(between.items, np.bool_)
    for here in order:
        left, memory = int(room[here]), space[here]
        pull *= 1e-3  # places before count where nothing here decides
        while left and waiting.any():
            fitting = waiting & (size <= memory)
            if not fitting.any():
                break
            item = int(np.argmax(np.where(fitting, pull, -1.0) if attracted else fitting))
            place[item], waiting[item] = here, False
            left, memory = left - 1, memory - size[item]
            others, spikes = between.row(item)
            pull[others] += spikes
    return None if waiting.any() else place


def _refined(
    between: Traffic, place: Array, room: Array, distance: Array, size: Array, space: Array
) -> Array:
    """Moves to free room, and exchanges, as long as they gain and effort is left."""
    items, places = between.items, len(room)
    effort = EFFORT - items * places * places
    if places == 1 or not items or effort <= 0:
        return place
    place = place.copy()
    rows = np.repeat(np.arange(items), np.diff(between.first))
    keys = rows * places + place[between.other]
    pulls = np.bincount(keys, between.spikes, minlength=items * places).reshape(items, places)
    costs = pulls @ distance
    free = room - np.bincount(place, minlength=places)
    memory = space - np.bincount(place, size, minlength=places)
    improved = True
    while improved and effort > 0:
        improved = False
        gains = costs[np.arange(items), place] - costs.min(1)
        effort -= items * places
        for item in np.argsort(-gains, kind="stable").tolist():
            here = place[item]
            gain = costs[item, here] - costs[item]
            there = int(np.argmax(gain))
            if gain[there] <= 1e-9 * (1 + costs[item, here]) or effort <= 0:
                continue
            moves = [(item, there)]
            if not (free[there] and size[item] <= memory[there]):
                fits = (place == there) & (size >= size[item] - memory[there])
                fits &= size <= size[item] + memory[here]
                partners = np.flatnonzero(fits)
                effort -= items
                if not len(partners):
                    continue
                others, spikes = between.row(item)
                shared = np.zeros(items)
                shared[others] = spikes
                exchange = costs[partners, there] - costs[partners, here] + gain[there]
                exchange -= 2 * shared[partners] * distance[here, there]
                best = int(np.argmax(exchange))
                if exchange[best] <= 1e-9 * (1 + costs[item, here]):
                    continue
                moves.append((int(partners[best]), int(here)))
            for moved, to in moves:
                others, spikes = between.row(moved)
                costs[others] += spikes[:, None] * (distance[to] - distance[place[moved]])
                free[to], free[place[moved]] = free[to] - 1, free[place[moved]] + 1
                memory[to], memory[place[moved]] = (
                    memory[to] - size[moved],
                    memory[place[moved]] + size[moved],
                )
                place[moved] = to
                effort -= len(others) * places
            improved = True
    return place
