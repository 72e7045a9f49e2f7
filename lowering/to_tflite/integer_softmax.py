"""Writes the softmax of bytes that a program notes as LiteRT's, where it computes that.

`calibration.integer_softmax` finds it, and its arithmetic is said once, in
`lowering.from_tflite.byte_softmax`: it is written again for what the note says, and a program of
the same ops has the kernel.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.parameters import dense_constant
from ...dialects.tensor.formula import Formula
from ...ir.store import ParameterStore
from ...passes.calibration.integer_softmax import recorded_softmax
from ..from_tflite.byte_softmax import SHARE_BITS, softmax_by_reference, softmax_table
from ..ir_builder import Builder
from ..problems import ProblemError
from .activation import last
from .graph import Array
from .integer_grids import RANGES, Kernel, element_of, grid_of, node_for
from .integer_patterns import known
from .tflite_writer import Writer


def softmax(value: SSAValue) -> Kernel | None:
    """SOFTMAX of the reference kernel, along the last axis."""
    noted, y = recorded_softmax(value), grid_of(value)
    grid = None if noted is None else grid_of(noted.operand)
    if noted is None or y is None or grid is None:
        return None
    if (y.scale, y.zero_point) != (2.0**-SHARE_BITS, RANGES[element_of(value)][0]):
        return None
    x, beta = noted.operand, float(np.float32(noted.scale / grid.scale))
    try:
        table = softmax_table(grid.scale, beta)
    except ProblemError:
        return None
    block = Block(arg_types=[x.type])
    given = Formula(_Inline(block, ParameterStore.unsaved()), block.args[0])
    if not _is_same(value, softmax_by_reference(given, table).value, {given.value: x}):
        return None

    def write(e: Writer) -> None:
        operand, layout = last(e, x, -1)
        result = node_for(e, "SOFTMAX", [operand], value, operand.shape, beta=beta)
        e.bind(value, result, layout)

    return Kernel([x], write)


class _Inline(Builder):
    """Writes all constants as such, so that they can be read without a module."""

    def numbers(self, values: Array, element: Attribute, name: str = "constant") -> SSAValue:
        array = np.asarray(values).astype(numpy_dtype(element))
        return self.add(dense_constant(array, element))


def _is_same(value: SSAValue, written: SSAValue, seen: dict[SSAValue, SSAValue]) -> bool:
    """Whether a value is computed as a written one; `seen` has what stands for what already."""
    if written in seen:
        return seen[written] is value
    seen[written] = value
    if (numbers := known(written)) is not None:
        array = known(value)
        return array is not None and array.dtype == numbers.dtype and np.array_equal(array, numbers)
    op, other = value.owner, written.owner
    return (
        isinstance(other, Operation)
        and isinstance(op, type(other))
        and op.properties == other.properties
        and len(op.operands) == len(other.operands)
        and all(_is_same(*pair, seen) for pair in zip(op.operands, other.operands, strict=True))
    )
