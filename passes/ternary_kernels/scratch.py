"""Where things stand in the scratch memory of a call, as addresses in generated code.

The sizes are those of `ir.native_abi.scratch_bytes`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...ir.native_abi import BLOCK, PANEL
from .code import Code


class Scratch:
    """Sums (int32), scales (float32), prepared rows (int8), raw results (int32)."""

    def __init__(
        self, code: Code, memory: SSAValue, rows: SSAValue, ins: SSAValue, digits: int
    ) -> None:
        self._code = code
        self.count = code.mul(rows, code.constant(digits))
        header = self._round(code.shl(self.count, 2), 64)
        self.stride = code.add(self._round(ins, BLOCK), code.constant(64))
        self._sums = memory
        self._scales = code.at(memory, header)
        self.prepared = code.at(self._scales, header)
        self._raw = code.at(self.prepared, code.mul(self.count, self.stride))

    def _round(self, value: SSAValue, multiple: int) -> SSAValue:
        code = self._code
        return code.and_(code.add(value, code.constant(multiple - 1)), code.constant(-multiple))

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
        """int32 results of a raw row."""
        return self._round(outs, PANEL)

    def raw(self, row: SSAValue, outs: SSAValue) -> SSAValue:
        """The address of the raw results of a digit row."""
        start = self._code.mul(row, self.raw_stride(outs))
        return self._code.at(self._raw, start, i32)
