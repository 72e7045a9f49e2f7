"""Finds LiteRT's softmax of bytes in a program that writes it out.

The arithmetic is said once, in `lowering.from_tflite.byte_softmax`: it is written again for the
type of the result, and a program of the same ops has the kernel, if its table is that of some
factor of the operand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.parameters import dense_constant
from ...dialects.tensor.formula import Formula
from ...ir.store import ParameterStore
from ..from_tflite.byte_softmax import SHARE_BITS, softmax_by_reference, softmax_table
from ..ir_builder import Builder
from ..problems import ProblemError
from .activation import last
from .graph import Array
from .integer_grids import RANGES, Kernel, element_of, grid_of, node_for
from .integer_patterns import known
from .tflite_writer import Writer

_PLACE = np.zeros(256, np.int32)
"""What stands for the table."""


def softmax(value: SSAValue) -> Kernel | None:
    """SOFTMAX of the reference kernel, along the last axis."""
    y, least = grid_of(value), RANGES[element_of(value)][0]
    if y is None or (y.scale, y.zero_point) != (2.0**-SHARE_BITS, least):
        return None
    block = Block(arg_types=[value.type])
    e = _Inline(block, ParameterStore.unsaved())
    found = _Comparison()
    if not found.is_same(value, softmax_by_reference(Formula(e, block.args[0]), _PLACE).value):
        return None
    x = found.operand
    grid = None if x is None else grid_of(x)
    beta = None if grid is None else _factor(grid.scale, found.table)
    if x is None or beta is None:
        return None

    def write(e: Writer) -> None:
        operand, layout = last(e, x, -1)
        result = node_for(e, "SOFTMAX", [operand], value, operand.shape, beta=beta)
        e.bind(value, result, layout)

    return Kernel([x], write)


def _factor(scale: float, table: Array) -> float | None:
    """The factor of the operand with which LiteRT has this table; 1 where it may be."""
    second = table[1] / table[0] if table[0] else 0.0
    told = -np.log(second) / scale if 0 < second < 1 else 1.0
    near = [np.float32(round(told, digits)) for digits in range(8)]
    for beta in (1.0, *map(float, near)):
        try:
            given = softmax_table(scale, beta)
        except ProblemError:
            continue
        if np.array_equal(given, table):
            return beta
    return None


class _Inline(Builder):
    """Writes all constants as such, so that they can be read without a module."""

    def numbers(self, values: Array, element: Attribute, name: str = "constant") -> SSAValue:
        array = np.asarray(values).astype(numpy_dtype(element))
        return self.add(dense_constant(array, element))


@dataclass
class _Comparison:
    """Compares a program with a written one that has an argument and `_PLACE`.

    Attributes:
        operand: what the program has for the argument.
        table: what it has for the place.
    """

    operand: SSAValue | None = None
    table: Array = field(default_factory=lambda: _PLACE)
    _seen: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def is_same(self, value: SSAValue, written: SSAValue) -> bool:
        """Whether a value is computed as the written one."""
        if written in self._seen:
            return self._seen[written] is value
        self._seen[written] = value
        if isinstance(written, BlockArgument):
            self.operand = value
            return value.type == written.type
        if (numbers := known(written)) is not None:
            return self._is_same_constant(known(value), numbers)
        op, other = value.owner, written.owner
        assert isinstance(other, Operation)
        return (
            isinstance(op, type(other))
            and op.properties == other.properties
            and len(op.operands) == len(other.operands)
            and all(map(self.is_same, op.operands, other.operands))
        )

    def _is_same_constant(self, array: Array | None, numbers: Array) -> bool:
        if array is None or array.shape != numbers.shape or array.dtype != numbers.dtype:
            return False
        if np.array_equal(numbers, _PLACE):
            self.table = array
            return True
        return np.array_equal(array, numbers)
