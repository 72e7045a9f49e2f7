"""Matrices of which few numbers are not zero, in compressed rows as SciPy's CSR and PyTorch's.

A parameter whose values are such a matrix stands in a store as three entries, NAME.indptr,
NAME.indices and NAME.data. Not here: what reads them without writing the zeros out
(`to_native.kernels.sparse_events`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .errors import ParameterError
from .store import ParameterStore

PARTS = ("indptr", "indices", "data")
MOST_DENSE = 1 << 28
"""Numbers of the largest matrix whose zeros are written out."""


class Sparse(Protocol):
    """What SciPy's sparse arrays and matrices have."""

    def tocsr(self) -> Any:
        """The same in compressed rows."""
        ...


def part_names(key: str) -> list[str]:
    """The entries of a store that hold the matrix `key`."""
    return [f"{key}.{part}" for part in PARTS]


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix [rows, columns] in compressed rows, each in any order; alike places add up.

    Attributes:
        shape: rows and columns.
        indptr: [rows + 1], where each row begins in the other two, and the last one ends.
        indices: int32, the columns of its numbers.
        data: its numbers.
    """

    shape: tuple[int, int]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Array

    def __post_init__(self) -> None:
        """Check what kernels rely on.

        Raises:
            ParameterError: rows that do not follow each other, or columns that do not exist.
        """
        rows, columns = self.shape
        ends, places, count = self.indptr, self.indices, len(self.data)
        ordered = len(ends) == rows + 1 and ends[0] == 0 and ends[-1] == count
        if not ordered or len(places) != count or bool((ends[1:] < ends[:-1]).any()):
            raise ParameterError(
                f"expected compressed rows of a matrix {list(self.shape)} with {count} numbers, "
                f"got {len(ends)} row bounds and {len(places)} columns that do not fit it"
            )
        if count and (places.min() < 0 or places.max() >= columns):
            raise ParameterError(
                f"expected columns from 0 to {columns - 1}, got some from {places.min()} to "
                f"{places.max()}"
            )
        if count and not np.isfinite([self.data.min(), self.data.max()]).all():
            raise ParameterError(
                "expected finite numbers: zeros that are left out times ∞ are none"
            )

    @staticmethod
    def read(store: ParameterStore, key: str, shape: tuple[int, ...]) -> SparseMatrix | None:
        """The matrix `key` of a store; `None` where it holds none.

        Raises:
            ParameterError: its entries are no such matrix.
        """
        names = part_names(key)
        if names[0] not in store or len(shape) != 2:
            return None
        indptr, indices, data = map(store.read, names)
        try:
            return SparseMatrix((shape[0], shape[1]), indptr, indices, data)
        except ParameterError as error:
            raise ParameterError(f"parameter '{key}': {error}") from None

    def dense(self) -> Array:
        """The matrix with its zeros; numbers of the same place are added up.

        Raises:
            ParameterError: it has more than `MOST_DENSE` numbers, or sums do not fit their type.
        """
        if prod(self.shape) > MOST_DENSE:
            raise ParameterError(
                f"a sparse matrix {list(self.shape)} has too many zeros to write them out; event-"
                "driven synapses of the simulator take it as it is"
            )
        dtype = self.data.dtype
        dense = np.zeros(self.shape, dtype if dtype.kind == "f" else np.int64)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        np.add.at(dense, (rows, self.indices), self.data)
        if (
            dense.size
            and dtype.kind != "f"
            and (dense.min() < np.iinfo(dtype).min or dense.max() > np.iinfo(dtype).max)
        ):
            raise ParameterError(f"several weights of a sparse matrix add up to no {dtype}")
        return dense.astype(dtype)


def sparse_parts(value: Any) -> tuple[Array, Array, Array] | None:
    """The row bounds, columns and numbers of a sparse matrix of SciPy or PyTorch, else `None`.

    The columns and numbers of compressed rows are not copied where columns are int32.
    """
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        parts = rows.indptr, rows.indices, rows.data
    elif "sparse" in str(getattr(value, "layout", "")) and value.dim() == 2:
        rows = value.detach().cpu().to_sparse_csr()
        parts = rows.crow_indices().numpy(), rows.col_indices().numpy(), rows.values().numpy()
    else:
        return None
    indptr, indices, data = (np.ascontiguousarray(part) for part in parts)
    if indices.size and indices.max() > np.iinfo(np.int32).max:
        raise ParameterError(f"expected at most 2**31 columns, got column {indices.max()}")
    return indptr.astype(np.int64), indices.astype(np.int32, copy=False), data
