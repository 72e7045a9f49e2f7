"""Sparsity facts about a ternary weight matrix, and how they are checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from ..shapes import integer, ints


@irdl_attr_definition
class SparsityAttr(ParametrizedAttribute):
    """What is known of the zeros of a weight, seen as a matrix of reduction x output channels.

    `nnz` is the number of nonzero trits; `dead_rows` and `dead_columns` list the rows (inputs) and
    columns (outputs) that are all zero; the matrix is cut into `block` tiles (rows, columns; the
    last ones may be smaller), and bit i of `zero_blocks` (hexadecimal, most significant first)
    says that tile i, row-major, is all zero.

        #ternary.sparsity<2 : i64, array<i64: 0>, array<i64>, array<i64: 4, 256>, "0">
    """

    name = "ternary.sparsity"

    nnz: IntegerAttr[IntegerType]
    dead_rows: DenseArrayBase[IntegerType]
    dead_columns: DenseArrayBase[IntegerType]
    block: DenseArrayBase[IntegerType]
    zero_blocks: StringAttr

    def verify(self) -> None:
        block = self.block.get_values()
        if len(block) != 2 or min(block) < 1:
            raise VerifyException(
                f"'{self.name}' expects two block sizes of at least 1, got {list(block)}"
            )
        digits = self.zero_blocks.data
        if not digits or not set(digits) <= set("0123456789abcdef"):
            raise VerifyException(
                f"'{self.name}' expects zero blocks as lower-case hexadecimal, got '{digits}'"
            )


DEFAULT_BLOCK = (4, 256)
"""Rows and columns of a tile: the smallest zero block that pays on a CPU with 512-bit vectors."""


def reduction_matrix(weight: NDArray[np.int8], *, conv: bool) -> NDArray[np.int8]:
    """`weight` as reduction x output channels: [in, out] as it is, OIHW as (I·H·W) x O."""
    return weight.reshape(weight.shape[0], -1).T if conv else weight


def measure_sparsity(
    matrix: NDArray[np.int8], block: tuple[int, int] = DEFAULT_BLOCK
) -> SparsityAttr:
    """The facts of a reduction x outputs matrix of trits."""
    nonzero = matrix != 0
    rows, columns = nonzero.shape
    row_starts = list(range(0, rows, block[0]))
    column_starts = list(range(0, columns, block[1]))
    if nonzero.size:
        tiles = np.logical_or.reduceat(
            np.logical_or.reduceat(nonzero, row_starts, axis=0), column_starts, axis=1
        )
    else:
        tiles = np.zeros((0, 0), dtype=bool)
    bits = np.packbits(~tiles.reshape(-1), bitorder="little")
    mask = int.from_bytes(bits.tobytes(), "little")
    return SparsityAttr(
        integer(int(nonzero.sum())),
        ints(np.flatnonzero(~nonzero.any(axis=1)).tolist()),
        ints(np.flatnonzero(~nonzero.any(axis=0)).tolist()),
        ints(block),
        StringAttr(f"{mask:x}"),
    )


def check_sparsity(op_name: str, facts: SparsityAttr, matrix: NDArray[np.int8]) -> None:
    """Compare recorded facts with the weights.

    Raises:
        VerifyException: a fact does not hold.
    """
    rows, columns = facts.block.get_values()
    actual = measure_sparsity(matrix, (rows, columns))
    for what in ("nnz", "dead_rows", "dead_columns", "zero_blocks"):
        if getattr(actual, what) != getattr(facts, what):
            raise VerifyException(
                f"'{op_name}' sparsity fact {what} is {getattr(facts, what)}, "
                f"the weights give {getattr(actual, what)}"
            )
