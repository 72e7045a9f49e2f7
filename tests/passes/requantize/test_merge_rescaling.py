"""Merged rescalings: the same integers as the chain that they stand for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.passes.requantize.merge_rescaling import MergeRescalingPass
from triton_dsl.passes.requantize.rescaling_fit import Fit, fit_rescaling

Array = NDArray[Any]


def computed(fit: Fit, x: Array) -> Array:
    """The formula of `Fit`, in whole numbers of any size."""
    columns: list[list[int]] = []
    for c in range(x.shape[1]):
        scaled = [(int(n) << fit.places) + fit.biases[c] for n in x[:, c]]
        half = 1 << (fit.shifts[c] - 1)
        raw = [(n * fit.multipliers[c] + half) >> fit.shifts[c] for n in scaled]
        columns.append([min(max(y + fit.zero_point, fit.low), fit.high) for y in raw])
    return np.array(columns).T


def gemmlowp(x: Array, multiplier: int, exponent: int, zero: int) -> Array:
    """Two roundings: a doubling high multiplication, then a shift with halves away from zero."""
    high = (x.astype(object) * multiplier + (1 << 30)) >> 31
    half = 1 << (exponent - 1)
    rounded = np.array(
        [(n + half) >> exponent if n >= 0 else -((-n + half) >> exponent) for n in high.reshape(-1)]
    ).reshape(x.shape)
    return np.clip(rounded + zero, -128, 127).astype(np.int64)


@settings(max_examples=30, deadline=None)
@example(multipliers=[1359514674, -1510897544], exponents=[6, 8], bound=200_000)
@given(
    multipliers=st.lists(st.integers(1 << 30, (1 << 31) - 1), min_size=2, max_size=2),
    exponents=st.lists(st.integers(4, 9), min_size=2, max_size=2),
    bound=st.integers(200, 400_000),
)
def test_two_roundings_are_one_where_results_are_not_negative(
    multipliers: list[int], exponents: list[int], bound: int
) -> None:
    def function(x: Array) -> Array:
        columns = [gemmlowp(x[:, c], multipliers[c], exponents[c], -128) for c in range(x.shape[1])]
        return np.stack(columns, axis=1)

    fit = fit_rescaling(function, np.array([bound, bound]), 4096)
    if fit is None:
        return
    assert (np.abs(fit.multipliers) < 2**31).all()
    assert (bound << fit.places) + max(map(abs, fit.biases)) < 2**31
    x = np.arange(-bound, bound + 1, max(1, bound // 20_000))[:, None].repeat(2, axis=1)
    assert np.array_equal(computed(fit, x), function(x))


def test_a_rescaling_as_in_files_is_found() -> None:
    def function(x: Array) -> Array:
        return gemmlowp(x, 1359514674, 7, -128)

    assert fit_rescaling(function, np.array([300_000]), 4096) is not None


def test_steps_of_uneven_width_have_no_rescaling() -> None:
    edges = np.array([0, 1, 2, 100, 101, 500])
    fit = fit_rescaling(lambda x: (x[:, :, None] >= edges).sum(2), np.array([600]), 4096)
    assert fit is None


CHAIN = """
func.func @forward(%x: tensor<?x3x4x1xi8>) -> tensor<?x2x4x1xi32> {{
  %w = tensor.constant dense<[[[[31]], [[-50]], [[90]]], [[[-7]], [[64]], [[127]]]]>
       : tensor<2x3x1x1xi32>
  %b = tensor.constant dense<[[[250]], [[-999]]]> : tensor<2x1x1xi32>
  %m = tensor.constant dense<[1359514674, {second}]> : tensor<2xi32>
  %s = tensor.constant dense<31> : tensor<2xi32>
  %zero = tensor.constant dense<0> : tensor<i32>
  %one = tensor.constant dense<1> : tensor<2xi32>
  %e = tensor.constant dense<[5, 7]> : tensor<2xi32>
  %z = tensor.constant dense<{zero}> : tensor<i8>
  %z32 = tensor.constant dense<{zero}> : tensor<i32>
  %wide = tensor.convert %x : (tensor<?x3x4x1xi8>) -> tensor<?x3x4x1xi32>
  %c = tensor.conv %wide, %w {{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>}}
       : (tensor<?x3x4x1xi32>, tensor<2x3x1x1xi32>) -> tensor<?x2x4x1xi32>
  %p = tensor.add %c, %b : (tensor<?x2x4x1xi32>, tensor<2x1x1xi32>) -> tensor<?x2x4x1xi32>
  %a = tensor.requantize %p, %m, %s, %zero {{low = -2147483648 : i64, high = 2147483647 : i64}}
       : (tensor<?x2x4x1xi32>, tensor<2xi32>, tensor<2xi32>, tensor<i32>) -> tensor<?x2x4x1xi32>
  %n = tensor.compare %a, %zero {{predicate = "lt"}}
       : (tensor<?x2x4x1xi32>, tensor<i32>) -> tensor<?x2x4x1xi1>
  %k = tensor.convert %n : (tensor<?x2x4x1xi1>) -> tensor<?x2x4x1xi32>
  %d = tensor.sub %a, %k : (tensor<?x2x4x1xi32>, tensor<?x2x4x1xi32>) -> tensor<?x2x4x1xi32>
  %q = tensor.requantize %d, %one, %e, %z
       : (tensor<?x2x4x1xi32>, tensor<2xi32>, tensor<2xi32>, tensor<i8>) -> tensor<?x2x4x1xi8>
  %t = tensor.convert %q : (tensor<?x2x4x1xi8>) -> tensor<?x2x4x1xi32>
  %y = tensor.sub %t, %z32 : (tensor<?x2x4x1xi32>, tensor<i32>) -> tensor<?x2x4x1xi32>
  func.return %y : tensor<?x2x4x1xi32>
}}"""


def merged(module: ModuleOp) -> int:
    """How many rescalings are left."""
    MergeRescalingPass().apply(Context(), module)
    module.verify()
    return sum(isinstance(op, tensor.RequantizeOp) for op in module.walk())


@settings(max_examples=12, deadline=None)
@example(second=1510897544, zero=-128, seed=0)
@example(second=-1510897544, zero=-128, seed=1)
@given(
    second=st.integers(1 << 30, (1 << 31) - 1),
    zero=st.integers(-128, 127),
    seed=st.integers(0, 100),
)
def test_a_program_computes_what_it_did(second: int, zero: int, seed: int) -> None:
    module = parse_module(CHAIN.format(second=second, zero=zero))
    x = np.random.default_rng(seed).integers(-128, 128, (300, 3, 4, 1)).astype(np.int8)
    (wanted,) = run_module(module, [x])
    left = merged(module)
    (found,) = run_module(module, [x])
    assert np.array_equal(found, wanted)
    if zero == -128:
        assert left == 1


def test_numbers_along_two_axes_are_left_alone() -> None:
    text = (
        CHAIN.format(second=1510897544, zero=-128)
        .replace(
            "%b = tensor.constant dense<[[[250]], [[-999]]]> : tensor<2x1x1xi32>",
            "%b = tensor.constant dense<[[[1], [2], [3], [4]], [[5], [6], [7], [8]]]>"
            " : tensor<2x4x1xi32>",
        )
        .replace(
            "tensor<2x1x1xi32>) -> tensor<?x2x4x1xi32>", "tensor<2x4x1xi32>) -> tensor<?x2x4x1xi32>"
        )
    )
    assert merged(parse_module(text)) == 2


WRAPPING = """
func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x1x{type}> {{
  %w = ternary.constant [1, 1] : tensor<2x1x!ternary.trit>
  %r = ternary.linear %x, %w : tensor<?x2xi8>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  %m = tensor.constant dense<{multiplier}> : tensor<i32>
  %s = tensor.constant dense<6> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i32>
  %a = tensor.requantize %r, %m, %s, %z {{low = -2147483648 : i64, high = 2147483647 : i64}}
       : (tensor<?x1xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x1xi32>
  {last}
  func.return %y : tensor<?x1x{type}>
}}"""

NARROWED = """
  %b = tensor.convert %a : (tensor<?x1xi32>) -> tensor<?x1xi8>
  %c = tensor.constant dense<127> : tensor<i8>
  %y = tensor.add %b, %c : (tensor<?x1xi8>, tensor<i8>) -> tensor<?x1xi8>"""

COMPARED = """
  %y = tensor.compare %a, %m {predicate = "lt"} : (tensor<?x1xi32>, tensor<i32>) -> tensor<?x1xi1>
"""

UNSIGNED = """
  %b = tensor.relu %a : (tensor<?x1xi32>) -> tensor<?x1xi32>
  %y = tensor.convert %b : (tensor<?x1xi32>) -> tensor<?x1xui8>"""


@pytest.mark.parametrize(
    ("type", "last", "numpy"),
    [
        ("i8", NARROWED, lambda a, m: a.astype(np.int8) + np.int8(127)),
        ("i1", COMPARED, lambda a, m: a < m),
        ("ui8", UNSIGNED, lambda a, m: np.maximum(a, 0).astype(np.uint8)),
    ],
    ids=["wraps around", "truth values", "unsigned"],
)
@pytest.mark.parametrize("multiplier", [1, 25, 40])
def test_what_no_rescaling_computes_stays(
    type: str, last: str, numpy: Callable[[Array, int], Array], multiplier: int
) -> None:
    """Steps that wrap around rise and fall; a rescaling gives no truth values, nor 200 in i8."""
    module = parse_module(WRAPPING.format(type=type, last=last, multiplier=multiplier))
    x = np.stack(np.meshgrid(*[np.arange(-128, 128)] * 2), axis=-1).reshape(-1, 2).astype(np.int8)
    merged(module)
    (found,) = run_module(module, [x])
    raw = (x.astype(np.int64).sum(axis=1, keepdims=True) * multiplier + 32) >> 6
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, numpy(raw, multiplier))
