"""The pass `split-layers`: a layer of each part of a result that is only cut into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor, ternary
from ..dialects.inference import tensor_type
from ..dialects.shapes import DYNAMIC, axis_index
from .analysis.compile_time import ParameterOp, literal, literal_value
from .analysis.layers import Layer, channel_count, is_conv, is_layer, options_of, rebuilt, weight_of
from .analysis.replacement import erase, insert_before, replace_results


@dataclass(frozen=True)
class SplitLayersPass(ModulePass):
    """Make several layers of a linear one whose result is only cut into parts, a part each.

    So the queries, keys and values of attention come from layers of their own: each part has a
    range, and once it is quantised a grid, of its own, and nothing is computed for other parts.

        %y = ternary.linear %x, %w : tensor<?x8xf32>, tensor<8x12x!ternary.trit> -> tensor<?x12xf32>
        %h = tensor.reshape_to %y {shape = array<i64: -2, 6, 2>} : …
        %p = tensor.permute %h {perm = array<i64: 1, 0, 2>} : …
        %q, %k = tensor.split %p {axis = 0 : i64, sizes = array<i64: 4, 2>} : …
        // becomes, with the first 8 and the last 4 columns of %w
        %0 = ternary.linear %x, %wq : tensor<?x8xf32>, tensor<8x8x!ternary.trit> -> tensor<?x8xf32>
        %1 = tensor.reshape_to %0 {shape = array<i64: -2, 4, 2>} : …
        %q = tensor.permute %1 {perm = array<i64: 1, 0, 2>} : …
        …

    Reshapes and permutations may stand between the layer and the cut, as long as each part is made
    of whole channels that follow each other. The results stay the same.
    """

    name = "split-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, tensor.SplitOp):
                _split(op, inner)


def _split(module: ModuleOp, op: tensor.SplitOp) -> None:
    moves = _moves_before(op.operand)
    value = moves[0].operands[0] if moves else op.operand
    layer = value.owner
    if not is_layer(layer) or is_conv(layer) or not value.has_one_use() or not _is_known(layer):
        return
    along = axis_index(op.axis.value.data, tensor_type(op.operand).get_num_dims())
    if _channels_behind(value, moves) != along:
        return
    sizes = op.sizes.get_values()
    edges = np.cumsum([0, *sizes]) * (channel_count(layer) // sum(sizes))
    results: list[SSAValue] = []
    for (start, end), size in zip(pairwise(edges.tolist()), sizes, strict=True):
        part: Operation = _columns(module, op, layer, start, end)
        insert_before(op, part, layer)
        for move in moves:
            part = _moved(move, part.results[0], size)
            insert_before(op, part, move)
        results.append(part.results[0])
    replace_results(op, results)
    for done in (*reversed(moves), layer):
        erase(done)


def _moves_before(value: SSAValue) -> list[Operation]:
    """A reshape and permutations that a value is made by, which nothing else reads."""
    moves: list[Operation] = []
    while value.has_one_use() and isinstance(value.owner, tensor.PermuteOp):
        moves.insert(0, value.owner)
        value = value.owner.operand
    if value.has_one_use() and isinstance(value.owner, tensor.ReshapeToOp):
        moves.insert(0, value.owner)
    return moves


def _is_known(layer: Layer) -> bool:
    """Whether all numbers of a layer are known, and it has its channels on an axis of its own."""
    known = (weight_of(layer), *options_of(layer).values())
    return all(literal_value(v) is not None for v in known)


def _channels_behind(value: SSAValue, moves: Sequence[Operation]) -> int | None:
    """The axis that the channels of a layer become behind moves, the outermost if several; `None`
    where a reshape does something else."""
    shape = tensor_type(value).get_shape()
    axis = len(shape) - 1
    for move in moves:
        if isinstance(move, tensor.PermuteOp):
            axis = list(move.perm.get_values()).index(axis)
            continue
        after = tensor_type(move.results[0]).get_shape()
        if after[:axis] != shape[:axis] or DYNAMIC in after[axis:]:
            return None
        if prod(after[axis:]) != shape[axis]:
            return None
    return axis


def _moved(move: Operation, value: SSAValue, size: int) -> Operation:
    """A reshape or a permutation of one part."""
    if isinstance(move, tensor.PermuteOp):
        return tensor.PermuteOp(value, move.perm.get_values())
    assert isinstance(move, tensor.ReshapeToOp)
    shape = list(move.shape.get_values())
    shape[tensor_type(value).get_num_dims() - 1] = size
    return tensor.ReshapeToOp(value, shape)


def _columns(module: ModuleOp, op: Operation, layer: Layer, start: int, end: int) -> Operation:
    """The layer of some channels."""
    channels = channel_count(layer)

    def cut(value: SSAValue) -> SSAValue:
        values, type = literal_value(value), tensor_type(value)
        assert values is not None
        axis = values.ndim - 1 if value is weight_of(layer) else 0
        if not values.ndim or values.shape[axis] != channels:
            return value
        part = np.take(values, range(start, end), axis)
        key = value.owner.key.data if isinstance(value.owner, ParameterOp) else "part"
        new = literal(module, key, part, TensorType(type.element_type, part.shape))
        insert_before(op, new, layer)
        return new.results[0]

    changed: dict[str, object] = {n: cut(value) for n, value in options_of(layer).items()}
    if isinstance(layer, ternary.FusedOp):
        changed["sparsity"] = None  # it counts the zeros of the whole weight
    new = rebuilt(layer, weight=cut(weight_of(layer)), **changed)
    new.attributes.update(layer.attributes)
    return new
