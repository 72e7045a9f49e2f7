"""Matrices of trits in the layouts of `abi.linear`, always 2 bits a trit.

Not here: storage (`ir.trits`), packed matrices with a memory of their layouts
(`runtime.native.packed`), matrices that are stored with their columns outermost
(`runtime.native.columns`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ir.arrays import Array
from .linear import PANEL, STEP, Layout, round_up, row_bytes, weight_bytes
from .sparse import sparse_panels

Bytes = NDArray[np.uint8]
_SHIFTS = np.array([0, 2, 4, 6], np.uint8)


def weights_in(layout: Layout, trits: Array) -> Bytes:
    """The bytes of a matrix [outs, ins] with values in {-1, 0, 1} in one layout."""
    outs, ins = trits.shape
    if layout == "sparse":
        return sparse_panels(trits)
    content = _panels(trits) if layout == "panels" else _rows(trits, biased=layout == "rows")
    assert content.size == weight_bytes(layout, ins, outs)
    return content


def _codes(trits: Array, rows: int, columns: int, *, biased: bool) -> Bytes:
    outs, ins = trits.shape
    codes = np.full((rows, columns), 1 if biased else 0, np.uint8)
    codes[:outs, :ins] = trits + 1 if biased else np.where(trits < 0, 2, trits)
    return codes


def _rows(trits: Array, *, biased: bool) -> Bytes:
    outs, ins = trits.shape
    codes = _codes(trits, outs, 4 * row_bytes(ins), biased=biased)
    return np.bitwise_or.reduce(codes.reshape(-1, 4) << _SHIFTS, axis=1)


def _panels(trits: Array) -> Bytes:
    outs, ins = trits.shape
    panels, steps = round_up(outs, PANEL) // PANEL, round_up(ins, STEP) // STEP
    codes = _codes(trits, panels * PANEL, steps * STEP, biased=True)
    fields = codes.reshape(panels, 4, PANEL // 4, steps * STEP)
    joined = fields[:, 0] | fields[:, 1] << 2 | fields[:, 2] << 4 | fields[:, 3] << 6
    # The four values of a step are moved together: [panel, row, step, t] to [panel, step, row, t].
    return joined.view(np.uint32).swapaxes(1, 2).reshape(-1).view(np.uint8)
