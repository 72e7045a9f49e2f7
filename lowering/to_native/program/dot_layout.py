"""How large the tiles of sums of small products are, and how their weights lie in memory.

Not here: which sums they are (`dots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ....ir.arrays import Array
from ..kernels.recipes import Recipe

_MOST_ROWS, _MOST_COLUMNS = 16, 4
_TURN = 0.5
"""What a turn of the innermost loop costs beside products and loads, in cycles."""
_WIDENED = 0.25
"""What a load of weights costs besides where words are made of bytes."""
_AGAIN = 1.05
"""What code of its own for the last places of a row counts as where weights are few, beside the
time of a tile."""


def packed_weights(values: Array, width: int, group: int) -> Array:
    """Weights [outs, taps…] in panels of `width` outputs: taps, then outputs, then a group of taps.

    Outputs and the last taps are filled up by zeros.
    """
    outs, *outer, last = values.shape
    rest = int(np.prod(outer))
    padded = np.zeros((-(-outs // width) * width, rest, -(-last // group) * group), np.int16)
    padded[:outs, :, :last] = values.reshape(outs, rest, last)
    panels = padded.reshape(-1, width, rest, padded.shape[2] // group, group)
    return panels.transpose(0, 2, 3, 1, 4).reshape(-1)


def lane_weights(
    values: Array, taps: Sequence[tuple[int, int]], width: int
) -> tuple[Array, list[tuple[int, ...]]]:
    """Weights [outs, taps…] in panels of `width` outputs: fours of taps, then outputs, then a four.

    The taps of a four follow each other in the outermost loop, so that those of neighbouring places
    are the same. Also how far each tap of each four is from the first; void ones have weights of 0.
    """
    outs = values.shape[0]
    (count, step), *inner = taps
    fours = -(-count // 4)
    turned = np.moveaxis(values, 1, -1).reshape(outs, -1, count)
    padded = np.zeros((-(-outs // width) * width, turned.shape[1], 4 * fours), np.int8)
    padded[:outs, :, :count] = turned
    panels = padded.reshape(-1, width, turned.shape[1] * fours, 4).transpose(0, 2, 1, 3)
    further = [sum(p) for p in product(*(range(0, n * s, s) for n, s in inner))]
    distances = [
        tuple(place + step * min(first + t, count - 1) for t in range(4))
        for place in further
        for first in range(0, count, 4)
    ]
    return panels.reshape(-1), distances


def best_tile(
    recipe: Recipe, places: int | None, outs: int, *, few: bool = False
) -> tuple[int, int]:
    """Places of a tile, and vectors of outputs of each, that need the fewest instructions.

    Args:
        recipe: the instruction set.
        places: in a row, of which some make a tile; `None` if that is not known.
        outs: outputs.
        few: whether weights are so few that code counts beside them.
    """
    vectors = -(-outs // recipe.lanes)
    # Products stand in a register of their own before they are added.
    spare = not recipe.whole_bytes

    def cost(tile: tuple[int, int]) -> float:
        rows, columns = tile
        many = rows * 8 if places is None else places
        total = 0.0
        for height, times in ((rows, many // rows), (many % rows, 1)):
            for width, again in ((columns, vectors // columns), (vectors % columns, 1)):
                if height and width:
                    # One product or one load in a cycle; a sum takes four.
                    turn = max(height * width, height + width, 4)
                    total += times * again * (turn + _TURN + _WIDENED * width * spare)
        return total / many * (_AGAIN if few and many % rows else 1)

    tiles = [
        (rows, columns)
        for columns in range(1, min(vectors, _MOST_COLUMNS) + 1)
        for rows in range(1, _MOST_ROWS + 1)
        if rows * columns + columns + (rows if recipe.factors > 1 else 1) + spare
        <= recipe.registers
    ]
    return min(tiles, key=lambda tile: (cost(tile), tile))
