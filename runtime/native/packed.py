"""Ternary weight matrices in the layouts that native kernels read, always 2 bits a trit.

The layouts are defined in `abi.linear` and made in `abi.layouts`. Not here: storage files
(`ir.trits`, `ir.store`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import ParameterError
from ...ir.trits import pack_trits, packed_size, unpack_trits
from .abi.layouts import weights_in
from .abi.linear import BLOCK, MAX_INS, Layout
from .abi.sparse import worthwhile
from .columns import aligned

Packed = NDArray[np.uint8]


class PackedWeights:
    """An [outs, ins] matrix of trits, in each layout that was asked for.

    Made from packed trits (`ir.trits`), which are not copied: rows of a multiple of 256 trits can
    be read in place. Other layouts are made when first wanted, and kept: the bytes must stay as
    they are from then on.

    Attributes:
        outs, ins: the shape.
    """

    def __init__(self, packed: Packed, outs: int, ins: int) -> None:
        """Take packed trits of shape [outs, ins].

        Raises:
            ParameterError: wrong byte count or dtype, a reserved code, or rows that are too long.
        """
        if ins > MAX_INS:
            raise ParameterError(f"a row of {ins} trits is longer than a kernel takes ({MAX_INS})")
        if packed.dtype != np.uint8 or packed.size != packed_size((outs, ins)):
            raise ParameterError(
                f"expected uint8[{packed_size((outs, ins))}] for {outs}x{ins} packed trits, "
                f"got {packed.dtype}[{packed.size}]"
            )
        flat = np.ascontiguousarray(packed).reshape(-1)
        if bool(np.any(flat & (flat >> 1) & 0x55)):
            raise ParameterError("reserved trit code 0b11 in the weights; they are corrupt")
        self.outs = outs
        self.ins = ins
        self._packed = flat
        self._layouts: dict[Layout, Packed] = {}
        if ins % BLOCK == 0:
            self._layouts["stored"] = flat

    @staticmethod
    def of(trits: NDArray[np.generic]) -> PackedWeights:
        """Pack an [outs, ins] array with values in {-1, 0, 1}.

        Raises:
            ParameterError: another value, or an array that is not a matrix.
        """
        if trits.ndim != 2:
            raise ParameterError(f"expected a matrix of trits [outs, ins], got {trits.ndim} axes")
        outs, ins = trits.shape
        return PackedWeights(pack_trits(trits), outs, ins)

    @property
    def in_place(self) -> bool:
        """Whether the storage form can be read as it is."""
        return "stored" in self._layouts

    @property
    def bytes_held(self) -> int:
        """Bytes of all layouts made so far."""
        return sum(layout.nbytes for layout in self._layouts.values())

    def trits(self) -> NDArray[np.int8]:
        """The matrix as int8[outs, ins]."""
        return unpack_trits(self._packed, (self.outs, self.ins))

    def best_layout(self) -> Layout:
        """The quickest layout that is made of a copy: `sparse` or `panels`."""
        return "sparse" if worthwhile(self.trits()) else "panels"

    def layout(self, name: Layout) -> Packed:
        """The bytes of one layout; made on the first call."""
        known = self._layouts.get(name)
        if known is None:
            content = weights_in(name, self.trits())
            known = self._layouts[name] = aligned(content.size)
            known[...] = content
        return known
