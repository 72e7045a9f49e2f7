"""How many vectors loops take at once."""

from typing import Any

import pytest
from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.lowering.to_native.program.nests import Access, mapping
from triton_dsl.lowering.to_native.program.schedule import schedule
from triton_dsl.lowering.to_native.program.views import Buffer, whole_view
from triton_dsl.runtime.native.abi.sizes import ONE, ZERO, Size


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize(
    ("op", "vectors", "columns"),
    [(math.ErfOp, 40, 4), (math.ExpOp, 4, 4), (math.ExpOp, 3, 3), (arith.NegfOp, 40, 1)],
)
def test_formulas_take_turns(recipe: Any, op: Any, vectors: int, columns: int) -> None:
    size = Size.of(vectors * recipe.lanes)
    body = Block(arg_types=[f32, f32])
    builder = Builder(InsertPoint.at_end(body))
    builder.insert(linalg.YieldOp(builder.insert(op(body.args[0])).results[0]))
    x, y = (Access(whole_view(Buffer(f32, size), [size]), ZERO, (ONE,)) for _ in range(2))
    plan = schedule(mapping((size,), {body.args[0]: x}, (y,), body), recipe)
    assert (plan.vector, plan.columns, plan.row_count) == (0, columns, 1)
