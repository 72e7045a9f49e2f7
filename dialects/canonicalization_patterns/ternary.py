"""Canonicalisation patterns of the `ternary` dialect."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ..inference import replace_with, tensor_type
from ..ternary.linear import LinearOp, MatmulOp


class MatmulToLinear(RewritePattern):
    """A product with one weight matrix becomes the fused form, so that one op has one spelling."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter) -> None:
        input, weight = tensor_type(op.input), tensor_type(op.weight)
        if input.get_num_dims() >= 2 and weight.get_num_dims() == 2:
            linear = LinearOp(op.input, op.weight, scale=op.scale)
            replace_with(op, linear, rewriter)


def patterns_of(kind: type[Operation]) -> tuple[RewritePattern, ...]:
    """The patterns of one op."""
    return (MatmulToLinear(),) if kind is MatmulOp else ()
