"""How stored integers stand for real numbers: `tensor.scale`, `tensor.zero_point` of values.

A value with a grid holds integers q that stand for scale·(q - zero point). On an argument or result
of a function the attributes are among its own; on an op they are about its one result. They change
nothing that is computed: a program with grids computes on integers what it does without them.
Whoever replaces an op may leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

SCALE = "tensor.scale"
ZERO_POINT = "tensor.zero_point"


@dataclass(frozen=True)
class Grid:
    """x = scale·(q - zero_point).

    Attributes:
        scale: a number above 0 that float32 holds.
        zero_point: the integer that stands for 0.
    """

    scale: float
    zero_point: int

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes that record it."""
        return {
            SCALE: FloatAttr(float(np.float32(self.scale)), f32),
            ZERO_POINT: IntegerAttr(self.zero_point, i64),
        }


def record_grid(op: Operation, grid: Grid) -> None:
    """Record the grid of an op's one result, unless it has one."""
    if len(op.results) == 1 and SCALE not in op.attributes:
        op.attributes.update(grid.attributes)


def recorded_grid(value: SSAValue) -> Grid | None:
    """The grid recorded for a value; `None` where there is none."""
    if isinstance(value, BlockArgument):
        function = value.block.parent_op()
        if not isinstance(function, FuncOp) or function.arg_attrs is None:
            return None
        if function.body.blocks.first is not value.block:
            return None
        return _grid(function.arg_attrs.data[value.index].data)
    owner = value.owner
    if not isinstance(owner, Operation) or len(owner.results) != 1:
        return None
    return _grid(owner.attributes)


def _grid(attributes: Mapping[str, Attribute]) -> Grid | None:
    scale, zero = attributes.get(SCALE), attributes.get(ZERO_POINT)
    if not isinstance(scale, FloatAttr) or not isinstance(zero, IntegerAttr):
        return None
    grid = Grid(float(np.float32(scale.value.data)), zero.value.data)
    return grid if 0 < grid.scale < np.inf else None
