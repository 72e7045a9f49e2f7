"""Grids on values: recorded, printed, read back; what is none is left alone."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from triton_dsl.dialects.registry import parse_module
from triton_dsl.passes.calibration.stored_grids import Grid, record_grid, recorded_grid

TEXT = """
func.func @forward(%x: tensor<4xi8> {{tensor.scale = {scale} : f32, tensor.zero_point = 3 : i64}})
    -> tensor<4xi32> {{
  %y = tensor.convert %x : (tensor<4xi8>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}}"""


def values(module: ModuleOp) -> tuple[SSAValue, SSAValue]:
    function = next(op for op in module.walk() if op.name == "func.func")
    block = function.regions[0].block
    assert block.first_op is not None
    return block.args[0], block.first_op.results[0]


def test_grids_come_back_from_text() -> None:
    x, y = values(parse_module(TEXT.format(scale="0.1"), "model.mlir"))
    assert recorded_grid(x) == Grid(0.10000000149011612, 3)
    assert recorded_grid(y) is None
    assert not isinstance(y.owner, type(x.owner))
    record_grid(y.owner, Grid(0.5, -128))  # pyright: ignore[reportArgumentType]
    record_grid(y.owner, Grid(0.25, 0))  # pyright: ignore[reportArgumentType]
    module = y.owner.parent_op().parent_op()  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    _, again = values(parse_module(str(module), "model.mlir"))
    assert recorded_grid(again) == Grid(0.5, -128), "the first one stays"


@pytest.mark.parametrize("scale", ["0.0", "-1.0", "0x7FC00000", "0x7F800000"])
def test_scales_that_cannot_be_are_no_grid(scale: str) -> None:
    x, _ = values(parse_module(TEXT.format(scale=scale), "model.mlir"))
    assert recorded_grid(x) is None
