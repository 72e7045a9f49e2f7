"""The pass `expand-attention`: attention as two products, what softmax divides by behind them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import tensor
from ..dialects.inference import tensor_type
from .analysis.replacement import erase, insert_before, replace
from .decompose import decompose_op


@dataclass(frozen=True)
class ExpandAttentionPass(ModulePass):
    """Write attention out, and divide by the sums of softmax behind the product with the values.

    softmax(x)·V = (e·V) / Σe with e = exp(x - max x), which goes from 0 to 1 and has a 1 in every
    row: on a grid of 8 bits each share of a row is within 1/510 of the largest one, however long
    the row is (`quantize-activations{products=true}`).

        %o = tensor.scaled_dot_product_attention %q, %k, %v
        // becomes
        %x = tensor.mul (tensor.matmul %q, %kt), %s
        %m = tensor.reduce_max %x {axes = array<i64: 3>, keepdims = true}
        %d = tensor.sub %x, %m
        %e = tensor.exp %d
        %t = tensor.reduce_sum %e {axes = array<i64: 3>, keepdims = true}
        %p = tensor.matmul %e, %v
        %o = tensor.div %p, %t

    A `tensor.softmax` along the last axis is taken apart where products alone read it, from the
    left. The results stay what they were, up to rounding. Softmax of 16-bit floats stays.
    """

    name = "expand-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, tensor.ScaledDotProductAttentionOp):
                decompose_op(inner)
        for inner in list(op.walk()):
            if isinstance(inner, tensor.SoftmaxOp) and _is_of_shares(inner):
                _divide_behind(inner)


def _is_of_shares(op: tensor.SoftmaxOp) -> bool:
    """Whether nothing but products reads a softmax, along the axis that they add up."""
    type = tensor_type(op.result)
    last = op.axis.value.data in (-1, type.get_num_dims() - 1)
    uses = list(op.result.uses)
    by_rows = all(isinstance(use.operation, tensor.MatmulOp) and not use.index for use in uses)
    columns = all(tensor_type(use.operation.operands[-1]).get_num_dims() > 1 for use in uses)
    return last and bool(uses) and by_rows and columns and type.element_type in (f32, f64)


def _divide_behind(op: tensor.SoftmaxOp) -> None:
    def add(new: Operation) -> SSAValue:
        insert_before(op, new)
        return new.results[0]

    axes = [tensor_type(op.operand).get_num_dims() - 1]
    most = add(tensor.ReduceMaxOp(op.operand, axes, keepdims=True))
    shares = add(tensor.ExpOp(add(tensor.SubOp(op.operand, most))))
    total = add(tensor.ReduceSumOp(shares, axes, keepdims=True))
    for use in list(op.result.uses):
        product = use.operation
        mixed = tensor.MatmulOp(shares, product.operands[1])
        insert_before(product, mixed)
        replace(product, tensor.DivOp(mixed, total))
    erase(op)
