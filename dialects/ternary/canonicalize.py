"""Canonicalisation patterns of the `ternary` dialect."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ..inference import tensor_type
from ..tensor.canonicalize import replace_with
from .linear import LinearOp, MatmulOp


class MatmulToLinear(RewritePattern):
    """A product with one weight matrix becomes the fused form, so that one op has one spelling."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter) -> None:
        input, weight = tensor_type(op.input), tensor_type(op.weight)
        if input.get_num_dims() >= 2 and weight.get_num_dims() == 2:
            linear = LinearOp(op.input, op.weight, scale=op.scale)
            replace_with(op, linear, rewriter)


def matmul_patterns() -> tuple[RewritePattern, ...]:
    """The patterns of `ternary.matmul`."""
    return (MatmulToLinear(),)
