"""A call of a kernel in generated code: its arguments, and where things stand in scratch memory.

The sizes are those of `abi.linear.scratch_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import BLOCK, GROUP, Kind
from .code import Code, Index
from .recipes import Recipe


class Scratch:
    """Sums (int32), scales (float32), prepared rows (int8), raw results of a tile (int32)."""

    def __init__(
        self, code: Code, memory: SSAValue, rows: SSAValue, ins: SSAValue, digits: int
    ) -> None:
        self._code = code
        self.count = code.mul(rows, digits)
        header = self._round(code.shl(self.count, 2), 64)
        self.stride = code.add(self._round(ins, BLOCK), 64)
        self._sums = memory
        self._scales = code.at(memory, header)
        self.prepared = code.at(self._scales, header)
        self._raw = code.at(self.prepared, code.mul(self.count, self.stride))

    def _round(self, value: SSAValue, multiple: int) -> SSAValue:
        code = self._code
        return code.and_(code.add(value, multiple - 1), -multiple)

    def sum(self, row: SSAValue) -> SSAValue:
        """The address of Σx of a digit row."""
        return self._code.at(self._sums, row, i32)

    def scale(self, row: SSAValue) -> SSAValue:
        """The address of the scale of a row."""
        return self._code.at(self._scales, row, f32)

    def row(self, row: SSAValue) -> SSAValue:
        """The address of a prepared digit row."""
        return self._code.at(self.prepared, self._code.mul(row, self.stride))

    def raw_stride(self, outs: SSAValue) -> SSAValue:
        """int32 results between raw rows."""
        return self._code.add(self._round(outs, GROUP), 16)

    def raw(self, column: Index) -> SSAValue:
        """The address of a column of the raw results."""
        return self._code.at(self._raw, column, i32)


class Finish(Protocol):
    """Writes the end of a kernel."""

    def __call__(
        self,
        m: SSAValue,
        count: Index,
        first: SSAValue,
        end: SSAValue,
        raw: tuple[SSAValue, Index] | None = None,
    ) -> None:
        """For the outputs from `first` to `end` of `count` rows from `m` on, not of their digits.

        `raw` is where the results of output 0 of the first row would stand, and the int32 from one
        digit row to the next; without, they stand in the scratch memory.
        """
        ...


@dataclass(frozen=True)
class Product:
    """What the code for one call of `compute` is written from.

    Attributes:
        recipe, kind: what the code is for.
        scratch: where prepared activations stand.
        weights, rows, ins, outs: arguments.
        first, end: the outputs wanted.
        finish: writes the end of the kernel, once the raw results stand where it reads them.
    """

    recipe: Recipe
    kind: Kind
    scratch: Scratch
    weights: SSAValue
    rows: SSAValue
    ins: SSAValue
    outs: SSAValue
    first: SSAValue
    end: SSAValue
    finish: Finish
