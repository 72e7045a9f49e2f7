"""Matrices of linear layers as files hold them, [outs, ins]: their trits and scales.

Four forms of a ternary matrix: bytes of Hugging Face's BitNet, floats that training rounds as
BitNet b1.58 does (`absmean`), floats that are trits times a scale, and codes of GGUF files. One
matrix is in memory as floats at a time. Not here: which form a file has (`folder`, `gguf_file`).
"""

from __future__ import annotations

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ..ternary_weights import recognize


def unpacked_bitnet(packed: Array, what: str) -> Array:
    """Trits int8 [outs, ins] from uint8 [outs / 4, ins] of Hugging Face's BitNet.

    Row r holds rows r, r + outs / 4, … of the matrix, two bits each, as trit + 1.

    Raises:
        SourceError: other bytes.
    """
    if packed.ndim != 2 or packed.dtype != np.uint8:
        raise SourceError(
            f"{what}: expected packed trits, uint8 [outs / 4, ins], got {_said(packed)}"
        )
    codes = np.concatenate([packed >> 2 * i & 3 for i in range(4)])
    if (codes == 3).any():
        raise SourceError(f"{what}: a packed trit has the code 3; the file is corrupt")
    return codes.astype(np.int8) - np.int8(1)


def rounded(weight: Array, what: str) -> tuple[Array, Array]:
    """Trits [outs, ins] and their scale [1] as training rounds them: round(w / mean |w|), mean |w|.

    Ma et al. 2024, eq. 1 to 3; a mean below 1e-5 counts as that.
    """
    values = _floats(weight, what)
    mean = np.float32(max(np.abs(values).mean(dtype=np.float64), 1e-5))
    factor = np.float32(1) / mean
    trits = np.clip(np.rint(values * factor), -1, 1).astype(np.int8)
    return trits, np.array([1 / factor], np.float32)


def recognized(weight: Array, what: str) -> tuple[Array, Array] | None:
    """Trits [outs, ins] and a scale for each output, where the values are such; else `None`."""
    found = recognize(_floats(weight, what))
    if found is None:
        return None
    scale = np.float32(1) if found.scale is None else found.scale
    return found.trits, np.broadcast_to(scale, len(weight)).astype(np.float32)


def dense_columns(weight: Array, what: str) -> Array:
    """Floats [outs, ins] as float32 [ins, outs]."""
    return np.ascontiguousarray(_floats(weight, what).T)


def _floats(weight: Array, what: str) -> Array:
    if weight.dtype.kind in "iubcOSU" or weight.ndim != 2:
        raise SourceError(f"{what}: expected a matrix of floats, got {_said(weight)}")
    return weight.astype(np.float32)


def _said(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"
