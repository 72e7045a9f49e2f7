"""Event-driven sums with weights that stand without their zeros (`ir.sparse_matrix`).

The weights of an input that fires are added one by one to the sums of their outputs, in the order
of the inputs. The three arrays of a matrix are not the program's: a table holds their addresses.

Not here: which inputs fire, weights in whole rows (`events`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32, f64, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from .code import POINTER, Code, Index
from .events import EventRows, Events

_AHEAD = 8
"""Events ahead of its use a row is asked for."""
_LINES = 8
"""Lines of columns that are asked for: 128 of them, and a quarter as many of numbers."""
_LINE = 64


@dataclass(frozen=True)
class SparseRows(EventRows):
    """Weights [ins, outs] in compressed rows; see `EventRows`."""

    @property
    def column(self) -> int:
        """Outputs whose sums are finished at once."""
        return self.recipe.width

    @property
    def block(self) -> int:
        """All columns: a row of weights is read once."""
        return self.columns

    @property
    def row_bytes(self) -> int:
        """Bytes of the bound of a row."""
        return 8

    @property
    def lists(self) -> int:
        """Steps whose events are listed at once."""
        return 1

    @property
    def weight(self) -> Attribute:
        """The type of a weight."""
        return {"f32": f32, "f64": f64}.get(self.kind, i8)

    def events(self, code: Code) -> SparseEvents:
        """Writes the code for rows of one matrix."""
        return SparseEvents(code, self)


class SparseEvents(Events):
    """Writes the code for the rows of one matrix."""

    def __init__(self, code: Code, rows: SparseRows) -> None:
        super().__init__(code, rows)
        self._sparse = rows

    def add_rows(
        self,
        weights: SSAValue,
        events: SSAValue,
        count: SSAValue,
        sums: SSAValue,
        block: Index,
        columns: int,
    ) -> None:
        """Put Σ of the rows in a list into `sums`; see `Events.add_rows`.

        Args:
            weights: address of the addresses of row bounds, columns and numbers.
            events: address of the list.
            count: of its entries.
            sums: address of all sums.
            block: 0.
            columns: all of them.
        """
        code, rows = self._code, self._sparse
        bounds, places, numbers = (
            code.load(code.at(weights, 8 * part), POINTER) for part in range(3)
        )
        code.clear(sums, rows.padded * rows.sum_bytes)
        last = code.sub(count, 1)
        with code.each(0, count) as e:
            ahead = code.load(code.at(events, code.minimum(code.add(e, _AHEAD), last), i64), i64)
            start = code.load(code.at(bounds, ahead), i64)
            for line in range(_LINES):
                code.prefetch(code.at(code.at(places, start, i32), line * _LINE))
            for line in range(_LINES // 4):
                code.prefetch(code.at(code.at(numbers, start, rows.weight), line * _LINE))
            bound = code.at(bounds, code.load(code.at(events, e, i64), i64))
            first, end = code.load(bound, i64), code.load(code.at(bound, 8), i64)
            with code.each(first, end) as k:
                column = code.resize(code.load(code.at(places, k, i32), i32), i64, unsigned=True)
                number = code.load(code.at(numbers, k, rows.weight), rows.weight)
                place = code.at(sums, column, rows.element)
                total = code.load(place, rows.element)
                if rows.element == i32:
                    code.store(code.add(total, code.resize(number, i32)), place)
                else:
                    code.store(code.fadd(total, number), place)
