"""The least and the largest values of an argument's elements, noted where its maker is not seen.

A layer that was cut out of a program takes values that the program computes, and of which interval
analysis knows more than their types say. Not here: the cut (`to_verilog.layer_circuits`), and the
analysis (`to_verilog.circuit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ...dialects.parameters import Array, dense
from ..adder_graph import InputRange

BOUNDS = "verilog.bounds"
"""The attribute of an argument: `low` and `high` an element of a frame, and `range`."""


@dataclass(frozen=True, eq=False)
class ArgumentBounds:
    """What an argument can hold.

    Attributes:
        range: of all elements, by the op that makes the value: searches for adders start from it.
        low: int64 [elements of a frame, row-major], the least values.
        high: the largest ones.
    """

    range: InputRange
    low: Array
    high: Array

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The least and the largest value of each element."""
        return tuple(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def to_attribute(self) -> DictionaryAttr:
        """As an attribute."""
        ends = ArrayAttr([IntegerAttr(end, i64) for end in (self.range.low, self.range.high)])
        return DictionaryAttr(
            {"low": dense(self.low, i64), "high": dense(self.high, i64), "range": ends}
        )


def note_bounds(function: FuncOp, index: int, bounds: ArgumentBounds) -> None:
    """Note on an argument what it can hold."""
    attributes = function.arg_attrs
    noted = [DictionaryAttr({})] * len(function.args) if attributes is None else [*attributes]
    noted[index] = DictionaryAttr({**noted[index].data, BOUNDS: bounds.to_attribute()})
    function.arg_attrs = ArrayAttr(noted)


def noted_bounds(value: SSAValue) -> ArgumentBounds | None:
    """What was noted on an argument; `None` for all other values."""
    function = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return None
    assert isinstance(value, BlockArgument)
    noted = function.arg_attrs.data[value.index].data.get(BOUNDS)
    if not isinstance(noted, DictionaryAttr):
        return None
    low, high = (_values(noted, key) for key in ("low", "high"))
    ends = cast("ArrayAttr[IntegerAttr]", noted.data["range"])
    return ArgumentBounds(InputRange(*(end.value.data for end in ends)), low, high)


def _values(noted: DictionaryAttr, key: str) -> Array:
    values = cast("DenseIntOrFPElementsAttr", noted.data[key])
    return np.frombuffer(values.data.data, np.int64)
