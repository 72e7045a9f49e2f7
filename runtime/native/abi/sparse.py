"""Trit matrices in panels that leave out blocks of zeros: what they hold, and when they pay.

A block is 4 values of the reduction by 256 outputs (`#ternary.sparsity` has the same), and each
group of 256 outputs keeps its nonzero blocks only. The bytes of the layout `sparse`:

1. int32 starts[groups + 1]: the blocks of group g are those from starts[g] to starts[g + 1];
2. int32 offsets[blocks]: the place of the first of the 4 values in a row of activations;
3. for each group its four panels of 64 outputs, each of one step of 64 bytes a block, as in
   `panels` (`abi.linear`).

Each part starts at a multiple of 64 bytes. Not here: the kernel that reads them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ir.arrays import Array
from .linear import GROUP, PANEL, STEP, round_up

Bytes = NDArray[np.uint8]
_SHIFTS = np.array([0, 2, 4, 6], np.uint8)
_PAYS_BELOW, _PAYS_BELOW_FOR_MANY, _MANY_ROWS = 0.85, 0.75, 5
"""Share of kept blocks below which leaving out the others was quicker, by rows of activations."""
_LEAST_TRITS = 1 << 16


def kept_blocks(trits: Array) -> NDArray[np.bool_]:
    """Which blocks [groups, steps] of a matrix [outs, ins] have a trit that is not 0."""
    outs, ins = trits.shape
    groups, steps = round_up(outs, GROUP) // GROUP, round_up(ins, STEP) // STEP
    nonzero = np.zeros((groups * GROUP, steps * STEP), np.bool_)
    nonzero[:outs, :ins] = trits != 0
    return np.asarray(nonzero.reshape(groups, GROUP, steps, STEP).any(axis=(1, 3)))


def worthwhile(trits: Array, rows: int = 1) -> bool:
    """Whether the layout `sparse` is quicker than `panels` for a matrix [outs, ins].

    Args:
        trits: the matrix.
        rows: how many rows of activations a call has, most often.
    """
    if trits.size < _LEAST_TRITS:
        return False
    limit = _PAYS_BELOW_FOR_MANY if rows >= _MANY_ROWS else _PAYS_BELOW
    return bool(kept_blocks(trits).mean() < limit)


def sparse_panels(trits: Array) -> Bytes:
    """The bytes of a matrix [outs, ins] with values in {-1, 0, 1} in the layout `sparse`."""
    outs, ins = trits.shape
    groups, steps = round_up(outs, GROUP) // GROUP, round_up(ins, STEP) // STEP
    codes = np.ones((groups * GROUP, steps * STEP), np.uint8)
    codes[:outs, :ins] = trits + 1
    blocks_of_groups = kept_blocks(trits)
    starts = np.concatenate([[0], np.cumsum(blocks_of_groups.sum(axis=1))]).astype(np.int32)
    # [group, panel, p, row, step, t] to [group, panel, step, row, t, p]
    quarter = PANEL // 4
    split = codes.reshape(groups, GROUP // PANEL, 4, quarter, steps, STEP)
    fields = split.transpose(0, 1, 4, 3, 5, 2) << _SHIFTS
    packed = np.bitwise_or.reduce(fields, axis=-1)
    panels = [packed[g][:, blocks].reshape(-1) for g, blocks in enumerate(blocks_of_groups)]
    offsets = (np.nonzero(blocks_of_groups)[1] * STEP).astype(np.int32)
    return np.concatenate([_filled(starts), _filled(offsets), *panels])


def _filled(numbers: NDArray[np.int32]) -> Bytes:
    """The bytes of numbers, up to a multiple of 64."""
    result = np.zeros(round_up(numbers.nbytes, 64), np.uint8)
    result[: numbers.nbytes] = numbers.view(np.uint8)
    return result
