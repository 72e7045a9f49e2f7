"""Row-wise programs: whether each row of the batch is computed apart, and how much work it is.

A value is "rows" when its leading axis is k times the batch, outermost, and each block of k depends
on one row of the inputs alone. An op that this file does not know makes the answer no, which costs
speed in several threads and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ...dialects.tensor.shape import SLICE_END
from ...dialects.traits import Elementwise, TakesSamples, WorksAlong, has

Rule = Callable[[Operation, list[int | None]], int | None]
"""Given an op and the factor k of each operand (`None` without batch): the factor of its results,
`None` if they are no rows."""


def is_row_wise(function: func.FuncOp) -> bool:
    """Whether every result of the function is rows."""
    factors: dict[SSAValue, int | None] = {}
    for argument in function.args:
        if is_train(argument):
            return False
        shape = tensor_type(argument).get_shape()
        if DYNAMIC in shape[1:]:
            return False
        factors[argument] = 1 if shape[:1] == (DYNAMIC,) else None
    for op in function.body.block.ops:
        operands = [factors.get(operand) for operand in op.operands]
        if isinstance(op, func.ReturnOp):
            return bool(operands) and None not in operands
        factor: int | None = None
        if any(k is not None for k in operands):
            rule = _rule_of(op)
            factor = None if rule is None else rule(op, operands)
            if factor is None or any(not _leads(result) for result in op.results):
                return False
        factors.update(dict.fromkeys(op.results, factor))
    return False


def work_of_row(function: func.FuncOp) -> int:
    """Multiplications for one row of the batch, about: each element of another op counts one."""
    total = 0
    for op in function.body.block.ops:
        if isinstance(op, _STORED | func.ReturnOp) or not op.results:
            continue
        elements = sum(_elements(result) for result in op.results)
        total += elements * _terms(op)
    return total


_STORED = tensor.ParameterOp | tensor.ConstantOp | ternary.ParameterOp | ternary.ConstantOp


def _terms(op: Operation) -> int:
    """How many products are summed in one element of the result."""
    if isinstance(op, tensor.ConvOp | ternary.ConvOp):
        return prod(tensor_type(op.operands[1]).get_shape()[1:])
    if isinstance(op, tensor.MatmulOp | tensor.LinearOp | ternary.MatmulOp | ternary.LinearOp):
        return max(1, tensor_type(op.operands[0]).get_shape()[-1])
    return 1


def _elements(value: SSAValue) -> int:
    return prod(1 if size == DYNAMIC else size for size in dense_type(value).get_shape())


def _leads(value: SSAValue) -> bool:
    shape = dense_type(value).get_shape()
    return shape[:1] == (DYNAMIC,) and DYNAMIC not in shape[1:]


def _rule_of(op: Operation) -> Rule | None:
    rule = _RULES.get(type(op))
    if rule is not None:
        return rule
    traits = ((Elementwise, _aligned), (WorksAlong, _along), (TakesSamples, _first))
    return next((rule for trait, rule in traits if has(op, trait)), None)


def _aligned(op: Operation, factors: list[int | None]) -> int | None:
    """Element by element: what is no rows must not reach the leading axis."""
    rank = tensor_type(op.results[0]).get_num_dims()
    factor: int | None = None
    for operand, k in zip(op.operands, factors, strict=True):
        shape = tensor_type(operand).get_shape()
        if k is None:
            if len(shape) == rank and shape[0] != 1:
                return None
        elif len(shape) != rank or factor not in (None, k):
            return None
        else:
            factor = k
    return factor


def _first(op: Operation, factors: list[int | None]) -> int | None:
    """Rows come in by the first operand alone, and its leading axis stays."""
    return factors[0] if all(k is None for k in factors[1:]) else None


def _channels(op: Operation, factors: list[int | None]) -> int | None:
    """Vectors of channels stand on `axis`, which must not be the leading one."""
    axis = getattr(op, "axis", None)
    rank = tensor_type(op.operands[0]).get_num_dims()
    vectors = any(tensor_type(value).get_num_dims() for value in op.operands[1:])
    if vectors and axis is not None and axis.value.data % rank == 0:
        return None
    return _first(op, factors)


def _along(op: Operation, factors: list[int | None]) -> int | None:
    """Along one axis or some, none of them the leading one."""
    along = op.get_trait(WorksAlong)
    assert along is not None
    rank = tensor_type(op.operands[0]).get_num_dims()
    return None if any(axis % rank == 0 for axis in along.axes(op)) else _first(op, factors)


def _trailing(op: Operation, factors: list[int | None]) -> int | None:
    """Normalised over the axes of the scale."""
    input, scale = (tensor_type(value).get_num_dims() for value in op.operands[:2])
    return _first(op, factors) if scale < input else None


def _product(op: Operation, factors: list[int | None]) -> int | None:
    ranks = [tensor_type(value).get_num_dims() for value in op.operands]
    if any(k is not None for k in factors[2:]):
        return None
    if factors[1] is None:
        shape = tensor_type(op.operands[1]).get_shape()
        over = ranks[1] == ranks[0] > 2 and shape[0] != 1
        return factors[0] if 2 <= ranks[0] >= ranks[1] and not over else None
    return _aligned(op, factors) if min(ranks[:2]) >= 3 else None


def _attention(op: Operation, factors: list[int | None]) -> int | None:
    return _aligned(op, factors) if tensor_type(op.operands[0]).get_num_dims() >= 3 else None


def _joined(op: Operation, factors: list[int | None]) -> int | None:
    assert isinstance(op, tensor.ConcatenateOp | tensor.SplitOp)
    rank = tensor_type(op.operands[0]).get_num_dims()
    same = len(set(factors)) == 1
    return factors[0] if same and op.axis.value.data % rank else None


def _moved(op: Operation, factors: list[int | None]) -> int | None:
    """Ops on axes: the leading one must stay where and what it is."""
    rank = tensor_type(op.operands[0]).get_num_dims()
    match op:
        case tensor.PermuteOp():
            stays = op.perm.get_values()[0] == 0
        case tensor.SliceOp():
            bounds = (p.get_values()[0] for p in (op.starts, op.ends, op.steps))
            stays = tuple(bounds) == (0, SLICE_END, 1)
        case tensor.PadToOp():
            stays = op.low.get_values()[0] == op.high.get_values()[0] == 0
        case tensor.SqueezeOp():
            stays = all(axis % rank for axis in op.axes.get_values())
        case tensor.UnsqueezeOp():
            axes = op.axes.get_values()
            stays = all(axis % (rank + len(axes)) for axis in axes)
        case tensor.ExpandOp():
            target = op.shape.get_values()
            stays = len(target) == rank and target[0] == -1
        case _:
            return None
    return factors[0] if stays else None


def _reshaped(op: Operation, factors: list[int | None]) -> int | None:
    """The elements of a row stay together in any shape whose leading axis holds whole rows."""
    before, after = (
        tensor_type(value).get_shape()[1:] for value in (op.operands[0], op.results[0])
    )
    if factors[0] is None or DYNAMIC in (*before, *after) or not prod(after):
        return None
    factor, rest = divmod(factors[0] * prod(before), prod(after))
    return factor if factor and not rest else None


def _gathered(op: Operation, factors: list[int | None]) -> int | None:
    return factors[1] if factors[0] is None else None


_RULES: dict[type[Operation], Rule] = {
    tensor.ConcatenateOp: _joined,
    tensor.ConvOp: _first,
    tensor.DequantizeOp: _channels,
    tensor.ExpandOp: _moved,
    tensor.FlattenOp: _reshaped,
    tensor.GatherRowsOp: _gathered,
    tensor.LayerNormOp: _trailing,
    tensor.LinearOp: _first,
    tensor.MatmulOp: _product,
    tensor.MultiThresholdOp: _channels,
    tensor.PadToOp: _moved,
    tensor.PermuteOp: _moved,
    tensor.QuantizeOp: _channels,
    tensor.RequantizeOp: _channels,
    tensor.ReshapeToOp: _reshaped,
    tensor.RmsNormOp: _trailing,
    tensor.ScaledDotProductAttentionOp: _attention,
    tensor.SliceOp: _moved,
    tensor.SplitOp: _joined,
    tensor.SqueezeOp: _moved,
    tensor.UnsqueezeOp: _moved,
    ternary.ConvOp: _first,
    ternary.LinearOp: _first,
    ternary.MatmulOp: _product,
}
"""Ops whose class alone does not say what becomes of rows."""
