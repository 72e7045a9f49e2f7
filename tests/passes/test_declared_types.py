"""Declared result types may know more sizes than inferred ones, or fewer; rewrites keep them."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.instrument import run_passes
from triton_dsl.ir.pipeline import parse_pipeline
from triton_dsl.passes.universe import everything

TRITS = "%w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>"


def transformed(text: str, pipeline: str) -> ModuleOp:
    module = parse_module(text)
    run_passes(triton_context(), module, parse_pipeline(pipeline, everything().all_passes))
    verify_module(module)
    return module


@pytest.mark.parametrize(
    ("pipeline", "input", "result", "body"),
    [
        (
            "canonicalize",
            "?xf32",
            "4xf32",
            """%0 = tensor.relu %x : (tensor<?xf32>) -> tensor<?xf32>
            %y = tensor.relu %0 : (tensor<?xf32>) -> tensor<4xf32>""",
        ),
        (
            "canonicalize",
            "?xf32",
            "4xf32",
            """%0 = tensor.neg %x : (tensor<?xf32>) -> tensor<?xf32>
            %y = tensor.neg %0 : (tensor<?xf32>) -> tensor<4xf32>""",
        ),
        (
            "canonicalize",
            "?x3xf32",
            "3x4xf32",
            """%0 = tensor.reshape_to %x {shape = array<i64: 12>}
              : (tensor<?x3xf32>) -> tensor<12xf32>
            %y = tensor.reshape_to %0 {shape = array<i64: -1, 4>}
              : (tensor<12xf32>) -> tensor<3x4xf32>""",
        ),
        (
            "canonicalize",
            "?x?x2xf32",
            "2x3x4xf32",
            """%0 = tensor.permute %x {perm = array<i64: 2, 1, 0>}
              : (tensor<?x?x2xf32>) -> tensor<2x?x?xf32>
            %y = tensor.permute %0 {perm = array<i64: 0, 2, 1>}
              : (tensor<2x?x?xf32>) -> tensor<2x3x4xf32>""",
        ),
        (
            "canonicalize",
            "?x2xf32",
            "3x2xf32",
            f"""{TRITS}
            %y = ternary.matmul %x, %w
              : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<3x2xf32>""",
        ),
        (
            "fuse-linear",
            "?x2xf32",
            "3x2xf32",
            f"""{TRITS}
            %0 = ternary.matmul %x, %w
              : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
            %y = tensor.relu %0 : (tensor<?x2xf32>) -> tensor<3x2xf32>""",
        ),
        (
            "fuse-linear",
            "3x2xf32",
            "?x2xf32",
            f"""{TRITS}
            %0 = ternary.matmul %x, %w
              : tensor<3x2xf32>, tensor<2x2x!ternary.trit> -> tensor<3x2xf32>
            %y = tensor.relu %0 : (tensor<3x2xf32>) -> tensor<?x2xf32>""",
        ),
        (
            "ternarize",
            "?x2xf32",
            "3x2xf32",
            """%w = tensor.parameter "w" : tensor<2x2xf32>
            %y = tensor.matmul %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>""",
        ),
    ],
)
def test_a_rewrite_keeps_the_declared_type(
    pipeline: str, input: str, result: str, body: str
) -> None:
    transformed(
        f"""func.func @forward(%x: tensor<{input}>) -> tensor<{result}> {{
          {body}
          func.return %y : tensor<{result}>
        }}""",
        pipeline,
    )


def test_a_neutral_constant_may_still_stretch_an_unknown_size() -> None:
    module = transformed(
        """func.func @forward(%x: tensor<?xf32>) -> tensor<?xf32> {
          %zeros = tensor.constant dense<-0.0> : tensor<5xf32>
          %y = tensor.add %x, %zeros : (tensor<?xf32>, tensor<5xf32>) -> tensor<?xf32>
          func.return %y : tensor<?xf32>
        }""",
        "canonicalize",
    )
    (y,) = run_module(module, [np.array([2.0], np.float32)])
    assert y.tolist() == [2.0] * 5


def test_a_neutral_constant_of_a_known_size_goes() -> None:
    module = transformed(
        """func.func @forward(%x: tensor<?x5xf32>) -> tensor<?x5xf32> {
          %ones = tensor.constant dense<1.0> : tensor<1x5xf32>
          %y = tensor.mul %x, %ones : (tensor<?x5xf32>, tensor<1x5xf32>) -> tensor<?x5xf32>
          func.return %y : tensor<?x5xf32>
        }""",
        "canonicalize",
    )
    assert "tensor.mul" not in str(module)


def test_the_fused_spelling_keeps_attributes() -> None:
    module = transformed(
        f"""func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {{
          {TRITS}
          %y = ternary.matmul %x, %w {{ternary.form = "block_sparse"}}
            : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
          func.return %y : tensor<?x2xf32>
        }}""",
        "canonicalize",
    )
    assert 'ternary.form = "block_sparse"' in str(module)
