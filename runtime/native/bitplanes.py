"""Products of a matrix of trits or bits by a matrix of trits, on NumPy arrays, by native kernels.

The right-hand matrix is brought into the kernels' layout once (`PackedColumns`), the left-hand one
on every call, a few rows at a time. Not here: how the kernels are made; whoever joins the two sides
gives a `BitplaneProvider` (`to_native.matmul` does). For a few rows, `ternary_linear` is
quicker.
"""

from __future__ import annotations

from ctypes import c_int64, c_void_p
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from ...ir.errors import BackendError, OptionError, ParameterError
from ...ir.trits import packed_size
from .abi.bitplanes import (
    OCTET,
    PACK_COLUMNS_ARGUMENTS,
    PRODUCT_ARGUMENTS,
    VALUES,
    Operand,
    Sizes,
    Values,
)
from .abi.linear import PANEL, round_up
from .columns import aligned
from .jit import Library
from .memory import Memory
from .threads import WORTH_A_THREAD, share, split

_BITS_A_BYTE = 8
"""Products of bits that take about as long as one of int8."""
_SIGNATURES: dict[str, list[type[Any]]] = {
    "pack_columns": [c_void_p] * 2 + [c_int64] * 4,
    "product": [c_void_p] * 5 + [c_int64] * 6,
}
assert [len(a) for a in (PACK_COLUMNS_ARGUMENTS, PRODUCT_ARGUMENTS)] == [
    len(signature) for signature in _SIGNATURES.values()
]


class BitplaneProvider(Protocol):
    """Gives the compiled kernels for one kind of left-hand operand."""

    def __call__(self, operand: Operand) -> Library: ...


class BitplaneKernels:
    """The functions of a provider, bound when they are first wanted, and their layout.

    Attributes:
        sizes: of the layout; it depends on the steps of a sum that are looked up at once.
        provider: of their libraries.
    """

    def __init__(self, group: int, provider: BitplaneProvider) -> None:
        self.sizes = Sizes(group)
        self.provider = provider
        self._bound: dict[tuple[Operand, str], Any] = {}

    def __call__(self, operand: Operand, name: str) -> Any:
        """The function `bitplanes_OPERAND_NAME`."""
        known = self._bound.get((operand, name))
        if known is None:
            full = f"bitplanes_{operand}_{name}"
            known = self.provider(operand).function(full, _SIGNATURES[name])
            self._bound[operand, name] = known
        return known


_MEMORY = Memory()


class PackedColumns:
    """A matrix of trits [ins, outs] in the layout that kernels on bit planes read.

    Attributes:
        ins, outs: the shape.
        kernels: those whose layout it is.
    """

    def __init__(self, trits: Array, kernels: BitplaneKernels, *, check: bool = True) -> None:
        """Pack an array with values in {-1, 0, 1}.

        Args:
            trits: [ins, outs], integers.
            kernels: what multiplies by it.
            check: look at every value; without, other values give wrong products.

        Raises:
            ParameterError: no matrix of integers, or another value.
        """
        values = _integers(trits, "trits", check)
        if values.ndim != 2:
            raise ParameterError(f"expected a matrix of trits [ins, outs], got {values.ndim} axes")
        self.ins, self.outs = values.shape
        self.kernels = kernels
        self._codes = aligned(kernels.sizes.codes(self.ins, self.outs))
        panels = round_up(self.outs, PANEL) // PANEL
        pack = kernels("trits", "pack_columns")
        pack(values.ctypes.data, self._codes.ctypes.data, self.ins, self.outs, 0, panels)
        self._bases: dict[Values, NDArray[np.int32]] = {}

    @staticmethod
    def of_packed(
        packed: NDArray[np.uint8], ins: int, outs: int, kernels: BitplaneKernels
    ) -> PackedColumns:
        """Take packed trits (`ir.trits`) of shape [ins, outs].

        Raises:
            ParameterError: wrong byte count or dtype, or a reserved code.
        """
        if packed.dtype != np.uint8 or packed.size != packed_size((ins, outs)):
            raise ParameterError(
                f"expected uint8[{packed_size((ins, outs))}] for {ins}x{outs} packed trits, "
                f"got {packed.dtype}[{packed.size}]"
            )
        flat = packed.reshape(-1)
        if bool(np.any(flat & (flat >> 1) & 0x55)):
            raise ParameterError("reserved trit code 0b11 in the weights; they are corrupt")
        trits = _FOUR_TRITS[flat].reshape(-1)[: ins * outs].reshape(ins, outs)
        return PackedColumns(trits, kernels, check=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the layout."""
        return self._codes.nbytes

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The layout itself."""
        return self._codes

    def base(self, values: Values) -> NDArray[np.int32]:
        """What is added to the counts of each column, see `abi.bitplanes`."""
        known = self._bases.get(values)
        if known is None:
            width = round_up(self.outs, PANEL)
            known = np.full(width, -self.kernels.sizes.padded(self.ins), np.int32)
            if values != "trits":
                # Rows of no bits and of all bits count the negative and the positive trits.
                ends = np.repeat(np.array([[0], [1]], np.int8), self.ins, axis=1)
                counts = np.empty((2, self.outs), np.int32)
                _multiply(ends, self, "bits", np.zeros(width, np.int32), counts, 1)
                known[: self.outs] = -counts[0] if values == "bits" else -counts.sum(axis=0)
            self._bases[values] = known
        return known


def bitplane_matmul(
    a: Array,
    b: PackedColumns,
    *,
    values: Values = "trits",
    threads: int = 1,
    check: bool = True,
) -> NDArray[np.int32]:
    """The exact product a · b as int32.

    Args:
        a: [..., ins], integers or bools.
        b: trits [ins, outs].
        values: what `a` holds: `trits` {-1, 0, 1}, `bits` {0, 1}, `signs` {-1, 1}.
        threads: most threads that the call uses.
        check: look at every value of `a`; without, other values give wrong products.

    Raises:
        ParameterError: other values in `a`, or no integers.
        OptionError: a wrong thread count.
        BackendError: a last axis that does not fit.
    """
    if threads < 1:
        raise OptionError(f"threads must be at least 1, not {threads}")
    rows = _integers(a, values, check)
    if rows.ndim == 0 or rows.shape[-1] != b.ins:
        raise BackendError(f"expected an operand [..., {b.ins}], got {list(rows.shape)}")
    y = np.empty((*rows.shape[:-1], b.outs), np.int32)
    if b.ins == 0:
        y[...] = 0
    elif y.size:
        factor = VALUES[values][1]
        flat = rows.reshape(prod(rows.shape[:-1]), b.ins)
        _multiply(flat, b, values, b.base(values), y, factor, threads)
    return y


def _multiply(
    a: NDArray[np.int8],
    b: PackedColumns,
    values: Values,
    base: NDArray[np.int32],
    y: NDArray[np.int32],
    factor: int,
    threads: int = 1,
) -> None:
    """Write factor · counts + base to `y`; nothing is empty."""
    operand = VALUES[values][0]
    kernels, ins, outs = b.kernels, b.ins, b.outs
    product = kernels(operand, "product")
    size = kernels.sizes.product_scratch(operand, ins, outs)
    rows = a.shape[0]
    x, codes, bases, result = (array.ctypes.data for array in (a, b.codes, base, y))

    def work(first: int, end: int) -> None:
        scratch = _MEMORY.of(size)
        product(x, codes, bases, result, scratch, factor, rows, ins, outs, first, end)

    parts = max(1, min(threads, rows * ins * outs // (_BITS_A_BYTE * WORTH_A_THREAD)))
    share(work, split(round_up(rows, OCTET) // OCTET, parts))


def _integers(array: Array, values: Values, check: bool) -> NDArray[np.int8]:
    """The array as int8, contiguous."""
    if array.dtype == np.bool_:
        array = array.view(np.int8)
    elif array.dtype.kind not in "iu":
        raise ParameterError(f"expected integers or bools as {values}, got {array.dtype}")
    elif check and array.size:
        low = 0 if values == "bits" else -1
        least, most = int(array.min()), int(array.max())
        if least < low or most > 1 or (values == "signs" and not array.all()):
            allowed = {"trits": "-1, 0, 1", "bits": "0, 1", "signs": "-1, 1"}[values]
            raise ParameterError(f"expected {values} in {{{allowed}}}, got {least} … {most}")
    return array.astype(np.int8, order="C", copy=False)


def _four_trits() -> NDArray[np.int8]:
    codes = np.arange(256)[:, None] >> np.array([0, 2, 4, 6]) & 3
    return np.array([0, 1, -1, 0], np.int8)[codes]


_FOUR_TRITS = _four_trits()
"""The trits of each byte of the storage form."""
