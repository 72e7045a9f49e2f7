"""The first greedy phase on large matrices: pairs of inputs, one bit a column, in NumPy."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

Step = tuple[int, int, int]
"""(a, b, sign): a new input, input a + sign·input b, in all columns that hold that pair."""


def share_pairs(
    matrix: NDArray[np.int8],
    least: int,
    choice: str,
    random: Random,
    max_depth: int | None = None,
) -> tuple[list[Step], NDArray[np.int8], int]:
    """Take the signed pair of inputs that the most columns hold, again and again.

    A row is two bits a column, and the pairs of a row with all earlier ones are counted by a few
    vector operations. No table of pairs is kept: a bucket queue holds for each row an upper bound
    of its best count, which only falls, and a row is counted again when its bound is the largest.

    Time O(C · R · N / 64) for R rows in the end and C counts of a row, of which each finds a step
    or lowers a bound. Memory N / 4 bytes a row.

    Args:
        matrix: int8 [K, N] of -1, 0 and 1.
        least: the fewest columns of a pair that is worth a step.
        choice: among equally frequent partners the `first`, a `small` one (fewest columns left, so
            fewest other partners) or a `random` one.
        random: the source for `random`.
        max_depth: the depth that every column must be able to keep to (see `Factoring`).

    Returns:
        The steps (the i-th makes row K + i); what is left, int8 [K + steps, N]; the work done, in
        units of about a microsecond.
    """
    count: int = matrix.shape[0]
    columns: int = matrix.shape[1]
    words = max(1, -(-columns // 64))
    rows = _packed(matrix, words)
    swap = np.r_[words : 2 * words, 0:words]
    depths = None if max_depth is None else _Depths(matrix, max_depth, words)
    buckets: list[list[int]] = [[] for _ in range(columns + 1)]
    for i in range(count):
        buckets[int(np.count_nonzero(matrix[i]))].append(i)
    steps: list[Step] = []
    work = 0
    top = columns
    while top >= least:
        if not buckets[top]:
            top -= 1
            continue
        i = buckets[top].pop()
        row = rows[:, i].copy()
        wanted = row[:, None] if depths is None else depths.allowed(row, i)
        equal = _counts(rows[:, :i], wanted)
        opposite = _counts(rows[:, :i], wanted[swap])
        best = np.maximum(equal, opposite)
        work += 15 + words * i // 700 + (0 if depths is None else 30 + words * i // 200)
        most = int(best.max()) if i else 0
        if most < top:
            buckets[most].append(i)
            continue
        j = _chosen(rows, best, most, choice, random)
        other = rows[:, j].copy()
        sign = 1 if equal[j] == most else -1
        common = row & (other if sign > 0 else other[swap])
        if depths is not None:
            common &= depths.allowed(row, i)[:, j]
            depths.merge(i, j, common)
        covered = common | common[swap]
        if count == rows.shape[1]:
            rows = np.concatenate([rows, np.zeros_like(rows)], axis=1)
        rows[:, i] = row & ~covered
        rows[:, j] = other & ~covered
        rows[:, count] = common
        buckets[top] += [i, count]
        steps.append((i, j, sign))
        count += 1
    return steps, _unpacked(rows[:, :count], columns), work


def _chosen(
    rows: NDArray[np.uint64], best: NDArray[np.uint16], most: int, choice: str, random: Random
) -> int:
    if choice == "first":
        return int(best.argmax())
    places = np.flatnonzero(best == most)
    if choice == "random":
        return int(places[random.randrange(len(places))])
    return int(places[np.bitwise_count(rows[:, places]).sum(axis=0).argmin()])


def _counts(rows: NDArray[np.uint64], row: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """How many bits each column of `rows` [2·words, n] has in common with `row` [2·words, n|1]."""
    return np.bitwise_count(rows & row).sum(axis=0, dtype=np.uint16)


class _Depths:
    """The depth of each row, and for each column Σ 2^depth of its rows: at most 2^max_depth."""

    def __init__(self, matrix: NDArray[np.int8], max_depth: int, words: int) -> None:
        self.words = words
        self.depth = np.zeros(len(matrix), np.intp)
        self.count = len(matrix)
        self.load = np.count_nonzero(matrix, axis=0).astype(np.int64)
        self.limit = 1 << max_depth

    def allowed(self, row: NDArray[np.uint64], i: int) -> NDArray[np.uint64]:
        """Row i for each earlier row, without the columns that a pair of both would overfill."""
        weights = 1 << np.arange(int(self.depth[: self.count].max()) + 1, dtype=np.int64)
        mine = 1 << int(self.depth[i])
        more = 2 * np.maximum(weights, mine) - weights - mine
        bits = np.zeros((len(weights), 64 * self.words), np.uint8)
        bits[:, : len(self.load)] = self.load + more[:, None] <= self.limit
        masks = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
        return (row & np.concatenate([masks, masks], axis=1)).T[:, self.depth[:i]]

    def merge(self, i: int, j: int, common: NDArray[np.uint64]) -> None:
        """Note a new row in the place of i and j in the columns `common`."""
        x, y = int(self.depth[i]), int(self.depth[j])
        both = common[: self.words] | common[self.words :]
        columns = np.unpackbits(both.view(np.uint8), bitorder="little")[: len(self.load)]
        self.load += columns.astype(np.int64) * ((2 << max(x, y)) - (1 << x) - (1 << y))
        if self.count == len(self.depth):
            self.depth = np.concatenate([self.depth, np.zeros_like(self.depth)])
        self.depth[self.count] = 1 + max(x, y)
        self.count += 1


def _packed(matrix: NDArray[np.int8], words: int) -> NDArray[np.uint64]:
    """uint64 [2·words, K]: for each row the words of its ones, then those of its minus ones."""
    count, columns = matrix.shape
    bits = np.zeros((2, count, 64 * words), np.uint8)
    bits[0, :, :columns] = matrix > 0
    bits[1, :, :columns] = matrix < 0
    packed = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)
    return np.ascontiguousarray(np.concatenate([packed[0], packed[1]], axis=1).T)


def _unpacked(rows: NDArray[np.uint64], columns: int) -> NDArray[np.int8]:
    words = rows.shape[0] // 2
    bytes = np.ascontiguousarray(rows.T).view(np.uint8).reshape(-1, 2, 8 * words)
    bits = np.unpackbits(bytes, axis=2, bitorder="little")[:, :, :columns].view(np.int8)
    return bits[:, 0] - bits[:, 1]
