"""The pass `skip-zeros`: leave out what zero weights make superfluous."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ...dialects import ternary
from ...dialects.ternary.sparsity import DEFAULT_BLOCK, measure_sparsity
from ...dialects.ternary.sparsity import reduction_matrix as matrix_of
from ...ir.errors import OptionError, expect_one_of
from ..analysis.compile_time import is_literal, literal_value
from ..analysis.replacement import erase
from .channel_edges import channel_edges, prune_channels

FORM_ATTRIBUTE = "ternary.form"
"""The attribute that proposes a form of the weight to the targets."""

BLOCK_SPARSE = "block_sparse"
"""Its value where zero blocks are worth skipping."""

CHOICES = ("auto", "blocks", "never")


@dataclass(frozen=True)
class SkipZerosPass(ModulePass):
    """Remove dead channels, record where the zeros are, and mark weights worth a sparse form.

    1. An output channel with zero weights alone is constant: what the constant contributes goes
       into the bias of the next layer. An output channel that the next layer multiplies by zeros
       alone is not needed. Both are removed, with the rows or columns of both layers, again and
       again until none is left. Between the layers there may be activations and other element-wise
       ops, pools, `flatten`, batch normalisation and (re)quantisation; several layers may read.
    2. Every fused ternary op gets `#ternary.sparsity` facts about its weight.
    3. The op is marked `ternary.form = "block_sparse"` where skipping zero blocks pays.

        // fc1 has a column of zeros, so the third channel is relu(0.5) for every input
        %h = ternary.linear %x, %w1 bias(%b1 : tensor<3xf32>) {activation = "relu"}
             : tensor<?x8xf32>, tensor<8x3x!ternary.trit> -> tensor<?x3xf32>
        %y = ternary.linear %h, %w2
             : tensor<?x3xf32>, tensor<3x4x!ternary.trit> -> tensor<?x4xf32>
        // becomes
        %h = ternary.linear %x, %w1 bias(%b1 : tensor<2xf32>)
             {activation = "relu", sparsity = #ternary.sparsity<…>}
             : tensor<?x8xf32>, tensor<8x2x!ternary.trit> -> tensor<?x2xf32>
        %y = ternary.linear %h, %w2 bias(%b2 : tensor<4xf32>) {sparsity = #ternary.sparsity<…>}
             : tensor<?x2xf32>, tensor<2x4x!ternary.trit> -> tensor<?x4xf32>

    Integer programs compute the same bits. Floats may round differently where a constant that is
    not zero moves into a bias; and a removed channel no longer turns an infinity into NaN.

    The cost rule: on a CPU, skipping 4x256 blocks of zeros makes a product 1.55 times as fast with
    50 % of them zero and 2.66 times with 75 %; zeros scattered singly lose below 99 %. So a weight
    is marked when at least `min_share` of it lies in zero blocks. The mark changes no meaning.

    Layers whose values are not known (weights never given, or still to be folded: run
    `fold-constants` before) are left alone, and so are the channels between two float layers.
    """

    name = "skip-zeros"

    block: tuple[int, ...] = DEFAULT_BLOCK
    """Rows and columns of the blocks that are recorded, and skipped when all zero."""

    sparse: str = "auto"
    """`auto` marks by the cost rule, `blocks` where any block is zero, `never` nowhere."""

    min_share: float | int = 0.5
    """The share of a weight in zero blocks from which `auto` marks it."""

    prune: bool = True
    """Whether to remove channels; `false` leaves shapes as they are."""

    def __post_init__(self) -> None:
        if len(self.block) != 2 or min(self.block) < 1:
            raise OptionError(f"skip-zeros expects block=ROWS,COLUMNS, got {list(self.block)}")
        expect_one_of("skip-zeros expects sparse", self.sparse, CHOICES)
        if not 0 <= self.min_share <= 1:
            raise OptionError(f"skip-zeros expects min-share in [0, 1], got {self.min_share}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.prune:
            _prune(op)
        for fused in op.walk():
            if isinstance(fused, ternary.FusedOp):
                self._record(fused)

    def _record(self, op: ternary.FusedOp) -> None:
        weight = literal_value(op.weight)
        if weight is None:
            return
        rows, columns = self.block
        matrix = matrix_of(weight, conv=isinstance(op, ternary.ConvOp))
        op.sparsity = measure_sparsity(matrix, (rows, columns))
        share = zero_block_share(matrix, (rows, columns))
        if (self.sparse == "auto" and share >= self.min_share) or (
            self.sparse == "blocks" and share > 0
        ):
            op.attributes[FORM_ATTRIBUTE] = StringAttr(BLOCK_SPARSE)
        else:
            op.attributes.pop(FORM_ATTRIBUTE, None)


def _prune(module: ModuleOp) -> None:
    layers, edges = channel_edges(module)
    if not prune_channels(edges):
        return
    before = [op for op in module.walk() if is_literal(op)]
    leaving = {edge.source: edge for edge in edges}
    for layer in layers:
        layer.commit()
        if layer in leaving:
            leaving[layer].commit_steps()
    for op in before:
        if op.result.first_use is None:
            erase(op)


def zero_block_share(matrix: NDArray[np.int8], block: tuple[int, int]) -> float:
    """The share of the elements of `matrix` that lie in blocks of zeros."""
    if not matrix.size:
        return 0.0
    rows, columns = matrix.shape
    row_starts = np.asarray(range(0, rows, block[0]), np.intp)
    column_starts = np.asarray(range(0, columns, block[1]), np.intp)
    used = np.logical_or.reduceat(matrix != 0, row_starts, axis=0)
    used = np.logical_or.reduceat(used, column_starts, axis=1)
    heights = np.minimum(block[0], rows - row_starts)
    widths = np.minimum(block[1], columns - column_starts)
    return float((heights[:, None] * widths)[~used].sum() / matrix.size)
