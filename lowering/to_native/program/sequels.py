"""What is stored of a tile: its sums, and what follows them element by element.

Not here: which nests are joined (`fusion`), how sums come about (`reductions`, `dot_code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from .nests import Access, Behind
from .sizes import ONE
from .tile_values import TileValues

Results = Mapping[tuple[int, int], SSAValue]
"""What the parts of a tile give: by row and piece."""


class Sequels(TileValues):
    """Writes what is stored."""

    def store(self, results: Sequence[Results]) -> None:
        """Store the results of the tile, one map for each output."""
        behind = self.nest.behind
        for a, values in zip(self.nest.writes, results, strict=True):
            cut = self._cut(values)
            self._put(a, cut if behind is None else self._followed(behind, cut))

    def _cut(self, values: Results) -> Results:
        """Results with as many lanes as the parts of the tile have."""
        return values

    def _put(self, a: Access, values: Results) -> None:
        vector = self.plan.vector
        for (j, c), value in values.items():
            low = a.view.buffer.low
            lowered = self.writer.sub(value, low) if low else value
            known = self.writer.storable(lowered, a.view.element)
            address = self.address(a, j, None if self.plan.across else c)
            width = None if self.plan.across else self.width(c)
            if width is None or vector is None or a.strides[vector] == ONE:
                self.writer.store(known, address)
            else:
                stride = self.writer.size(a.strides[vector])
                self.writer.scatter(known, address, stride, width)

    def _followed(self, behind: Behind, sums: Results) -> dict[tuple[int, int], SSAValue]:
        """What is stored in the place of sums."""
        results: dict[tuple[int, int], SSAValue] = {}
        for (j, c), value in sums.items():
            column = None if self.plan.across else c
            width = self.width(column)
            known = dict.fromkeys(behind.sums, value)
            for argument, a in behind.reads.items():
                moves = self.plan.vector is not None and a.depends_on(self.plan.vector)
                element = self._loaded(a, argument.type, j, column if moves else None)
                known[argument] = element if moves else self.writer.wide(element, width)
            for op in behind.body.ops:
                operands = [
                    self.writer.literal(v.owner, width)
                    if isinstance(v.owner, arith.ConstantOp)
                    else known[v]
                    for v in op.operands
                ]
                if isinstance(op, linalg.YieldOp):
                    results[j, c] = operands[0]
                elif not isinstance(op, arith.ConstantOp):
                    applied = self.writer.apply(op, operands, width)
                    known.update(zip(op.results, applied, strict=True))
        return results
