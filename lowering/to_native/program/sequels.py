"""What is stored of a tile: its sums, and what follows them element by element.

Few steps are written out for every vector; of many, sums wait on the stack and take turns. Not
here: which nests are joined (`fusion`), how sums come about (`reductions`, `dot_code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, SSAValue

from ....runtime.native.abi.sizes import ONE
from ..llvm.types import lanes as lanes_of
from ..llvm.types import width as bits_of
from .nests import Access, Behind
from .tile_values import TileValues
from .views import stored

Results = Mapping[tuple[int, int], SSAValue]
"""What the parts of a tile give: by row and piece."""

_MOST_UNROLLED = 64
"""Ops behind the sums of a tile that are written for each of them."""
_MOST_JOINED = 8
"""Lanes of sums, above which one instruction makes bytes of a register."""


class Sequels(TileValues):
    """Writes what is stored."""

    @cached_property
    def _rooms(self) -> dict[int, SSAValue]:
        """Memory on the stack, by its bytes."""
        return {}

    def store(self, results: Sequence[Results]) -> None:
        """Store the results of the tile, one map for each output."""
        behind = self.nest.behind
        for a, values in zip(self.nest.writes, results, strict=True):
            if behind is None:
                self._put(a, self._cut(values))
            elif len(values) * behind.work <= self.most_unrolled:
                self._put(a, self._followed(behind, self._cut(values)))
            else:
                self._follow_in_turn(a, behind, values)

    @property
    def most_unrolled(self) -> int:
        """Ops behind the sums of a tile that are written one after the other."""
        return _MOST_UNROLLED

    def _cut(self, values: Results) -> Results:
        """Results with as many lanes as the parts of the tile have."""
        return values

    def _put(self, a: Access, values: Results) -> None:
        vector = self.plan.vector
        for (j, c), value in self._joined(a, values).items():
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

    def _joined(self, a: Access, values: Results) -> Results:
        """Results of which two vectors that become bytes beside each other are one.

        Instructions that narrow take two registers, where they are not of 64 bytes.
        """
        lanes, vector = self.plan.lanes, self.plan.vector
        in_row = vector is not None and a.strides[vector] == ONE and not self.plan.across
        if not in_row or lanes > _MOST_JOINED or stored(a.view.element) != i8:
            return values
        joined = dict(values)
        for (j, c), value in values.items():
            other = None if c % 2 else values.get((j, c + 1))
            if other is not None and lanes_of(value.type) == lanes_of(other.type) == lanes:
                joined[j, c] = self.writer.shuffle(value, other, range(2 * lanes))
                del joined[j, c + 1]
        return joined

    def _follow_in_turn(self, a: Access, behind: Behind, sums: Results) -> None:
        """Many steps behind each sum, written once: sums wait on the stack."""
        writer, plan = self.writer, self.plan
        tile = self.rows, self.pieces
        count, slot = len(tile[1]), max(bytes_of(value.type) for value in sums.values())
        memory = self._room(len(sums) * slot)
        for (j, c), value in sums.items():
            writer.store(value, writer.at(memory, (j * count + c) * slot))

        def follow(line: SSAValue) -> None:
            values = {
                (0, c): writer.load(writer.at(line, c * slot), sums[0, c].type)
                for c in range(len(self.pieces))
            }
            self._put(a, self._followed(behind, self._cut(values)))

        self.rows = [0]
        is_even = all(piece.width == plan.lanes for piece in tile[1]) and not plan.across
        with writer.each(0, len(tile[0])) as j, self._moved(plan.rows, j):
            line = writer.at(memory, writer.mul(j, count * slot))
            if not is_even or count * behind.work <= 2 * _MOST_UNROLLED:
                follow(line)
            else:
                self.pieces = tile[1][:1]
                columns = writer.each(0, count * plan.lanes, plan.lanes)
                with columns as c, self._moved(plan.vector, c):
                    follow(writer.at(line, writer.mul(c, slot // plan.lanes)))
        self.rows, self.pieces = tile

    def _room(self, size: int) -> SSAValue:
        """Memory on the stack that tiles share."""
        known = next((memory for held, memory in self._rooms.items() if held >= size), None)
        if known is None:
            known = self._rooms[size] = self.writer.stack(size)
        return known

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


def bytes_of(type: Attribute) -> int:
    """Bytes of a number or a vector."""
    return bits_of(type) // 8 * (lanes_of(type) or 1)
