"""Products of trains with weights that are known as calls of kernels with tables.

`convert-spike-to-tensor` makes a conversion of spikes to numbers and a product of it; here the
product reads the spikes themselves. Not here: synapses that add up what fires (`spiking`), the
kernel (`to_native.kernels.spike_tables`), all other nests of loops (`structured`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, f32, f64, i1, i8, i32
from xdsl.dialects.linalg import abstract_ops
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from ....dialects import spike, ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import constant_value
from ....dialects.shapes import DYNAMIC
from ....ir.arrays import Array
from ....passes.analysis.compile_time import defining_literal
from ....runtime.native.abi.sizes import ZERO, Size, product
from ..kernels.spike_tables import TableProduct, write_table_product
from . import products, structured
from .program import KernelStep, Planner, Program
from .views import Buffer

_LEAST_ROWS = 16
"""Rows from which on a table saves more than it takes."""


def generic(program: Program, op: abstract_ops.LinalgStructuredOperation) -> None:
    """A product of a train as a call, its conversion to numbers as nothing, others as loops."""
    result = op.results[0]
    uses = [use.operation for use in result.uses]
    if (weights := _weights(op)) is not None:
        _plan(program, op, weights)
    elif _train(result) is None or any(_weights(user) is None for user in uses):
        structured.generic(program, op)


def trits(program: Program, op: ternary.LinearOp | ternary.MatmulOp) -> None:
    """A product of a train with trits as a call, others as `products` says."""
    if (weights := _weights(op)) is not None:
        _plan(program, op, weights)
    else:
        products.RULES[type(op)](program, op)


def _train(value: SSAValue) -> SSAValue | None:
    """The truth values of a train that a value is as numbers."""
    op = value.owner
    if not isinstance(op, linalg.GenericOp) or len(op.inputs) != 1:
        return None
    source, maps = op.inputs[0], [m.data for m in op.get_indexing_maps()]
    first = op.body.block.first_op
    plain = maps[0] == maps[1] and isinstance(first, arith.ExtUIOp | arith.UIToFPOp)
    if not plain or tensor_type(source).element_type != i1 or len(op.body.block.ops) != 2:
        return None
    return source if isinstance(source.owner, spike.ToTensorOp) else None


def _weights(op: Operation) -> Array | None:
    """The weights of a product of a train that kernels take: finite floats, integers of 8 bits."""
    if not (_is_product(op) or _is_trit_product(op)):
        return None
    x, weight = op.operands[:2]
    literal, rows = defining_literal(weight), tensor_type(x).get_shape()[:-1]
    few = DYNAMIC not in rows and prod(rows) < _LEAST_ROWS
    if literal is None or few or _train(x) is None or isinstance(op.parent_op(), spike.ScanOp):
        return None
    values = constant_value(literal)
    if values is None or 0 in values.shape:
        return None
    if isinstance(tensor_type(x).element_type, AnyFloat):
        # A weight that is not finite reaches the sums without a spike too, as 0·∞.
        return values if bool(np.isfinite(values).all()) else None
    return values if values.min() >= -128 and values.max() <= 127 else None


def _is_trit_product(op: Operation) -> bool:
    """Whether an op gives the plain sums of a product with trits."""
    if not isinstance(op, ternary.LinearOp | ternary.MatmulOp) or len(op.operands) != 2:
        return False
    plain = not isinstance(op, ternary.LinearOp) or op.activation.data == "none"
    elements = [tensor_type(value).element_type for value in (op.input, op.results[0])]
    return plain and elements == [i8, i32]


def _is_product(op: Operation) -> bool:
    """Whether an op is the product of a matrix and rows of numbers that kernels take."""
    if not isinstance(op, linalg.GenericOp | linalg.MatmulOp) or len(op.inputs) != 2:
        return False
    if tensor_type(op.inputs[0]).element_type not in (f32, f64, i32) or op.get_num_loops() < 2:
        return False
    *places, column, inner = [AffineExpr.dimension(loop) for loop in range(op.get_num_loops())]
    maps = [list(m.data.results) for m in op.get_indexing_maps()]
    return maps == [[*places, inner], [inner, column], [*places, column]] and _sums(op)


def _sums(op: abstract_ops.LinalgStructuredOperation) -> bool:
    """Whether an op adds products to zeros."""
    start = structured.filled_with(op.outputs[0])
    kinds = [type(inner) for inner in op.regions[0].block.ops]
    floats, integers = (arith.MulfOp, arith.AddfOp), (arith.MuliOp, arith.AddiOp)
    if start is None or kinds not in ([*floats, linalg.YieldOp], [*integers, linalg.YieldOp]):
        return False
    return cast("IntegerAttr | FloatAttr", start.value).value.data == 0


def _plan(program: Program, op: Operation, weights: Array) -> None:
    train, element = _train(op.operands[0]), tensor_type(op.results[0]).element_type
    assert train is not None
    x = structured.packed(program, program.view(train))
    program.meet(x.sizes[-1], Size.of(len(weights)))
    shape = TableProduct(program.recipe, element, *weights.shape, trits=_is_trit_product(op))
    y = program.new(shape.element, (*x.sizes[:-1], Size.of(shape.outs)))
    program.views[op.results[0]] = y
    rows = product(x.sizes[:-1])
    if rows == ZERO:
        return
    name = program.kernel(shape, "spike_product")
    table = program.constant(shape.arranged(weights), shape.weight)
    memory = Buffer(i8, Size.of(shape.scratch))
    program.steps.append(KernelStep(name, [x, table], [y], [rows], memory))


def functions(program: Program) -> list[llvm.FuncOp]:
    """The kernels that the steps of a program call."""
    return [write_table_product(name, shape) for shape, name in program.kernels_of(TableProduct)]


RULES: Mapping[type[Operation], Planner] = {
    linalg.GenericOp: generic,
    linalg.MatmulOp: generic,
    ternary.LinearOp: trits,
    ternary.MatmulOp: trits,
}
"""For each op the function that plans it."""
