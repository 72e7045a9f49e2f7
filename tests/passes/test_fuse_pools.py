"""`fuse-pools` computes the same, and leaves what it cannot fuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module

Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]

pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
pads = st.tuples(*[st.integers(0, 2)] * 4)


def ints(values: Any) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def window(size: int, kernel: int, stride: int, before: int, after: int, spread: int = 1) -> int:
    return (size + before + after - (kernel - 1) * spread - 1) // stride + 1


@settings(max_examples=30)
@given(
    sizes=st.tuples(st.integers(6, 9), st.integers(6, 9)),
    pool=st.tuples(pair, pair, pads),
    conv=st.tuples(pair, pair, pads, st.tuples(st.integers(1, 2), st.integers(1, 2))),
    groups=st.sampled_from([1, 2]),
    seed=st.integers(0, 1000),
)
def test_convolutions_behind_pools(
    filled: Filled,
    apply_passes: ApplyPasses,
    sizes: Any,
    pool: Any,
    conv: Any,
    groups: int,
    seed: int,
) -> None:
    kernel, moves, edges = pool
    taps, strides, zeros, spread = conv
    edges = [min(edge, kernel[a % 2] // 2) for a, edge in enumerate(edges)]
    middle = [window(sizes[a], kernel[a], moves[a], edges[a], edges[2 + a]) for a in (0, 1)]
    assume(min(middle) > 0)
    last = [
        window(middle[a], taps[a], strides[a], zeros[a], zeros[2 + a], spread[a]) for a in (0, 1)
    ]
    assume(min(last) > 0)
    shapes = ["x".join(map(str, shape)) for shape in (sizes, middle, last, taps)]
    weight = f"tensor<6x{4 // groups}x{shapes[3]}xf32>"
    module = filled(
        f"""
    func.func @forward(%x: !spike.train<3x?x4x{shapes[0]}>) -> tensor<3x?x6x{shapes[2]}xf32> {{
      %w = tensor.parameter "w" : {weight}
      %b = tensor.parameter "b" : tensor<6xf32>
      %m = spike.avg_pool %x {{kernel = {ints(kernel)}, strides = {ints(moves)},
          padding = {ints(edges)}}} : (!spike.train<3x?x4x{shapes[0]}>)
          -> tensor<3x?x4x{shapes[1]}xf32>
      %y = spike.conv %m, %w bias(%b : tensor<6xf32>) {{strides = {ints(strides)},
          padding = {ints(zeros)}, dilation = {ints(spread)}, groups = {groups} : i64}}
          : tensor<3x?x4x{shapes[1]}xf32>, {weight} -> tensor<3x?x6x{shapes[2]}xf32>
      func.return %y : tensor<3x?x6x{shapes[2]}xf32>
    }}"""
    )
    x = np.random.default_rng(seed).random((3, 2, 4, *sizes)) < 0.4
    (expected,) = run_module(module, [x])
    text = apply_passes(module, "fuse-pools")
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    plain = (
        kernel == moves
        and not any(edges)
        and not any(s % k for s, k in zip(sizes, kernel, strict=True))
    )
    assert not plain or "avg_pool" not in text


@settings(max_examples=20)
@given(pool=st.tuples(pair, pair, pads), size=st.integers(3, 7), seed=st.integers(0, 1000))
def test_dense_layers_behind_pools(
    filled: Filled, apply_passes: ApplyPasses, pool: Any, size: int, seed: int
) -> None:
    kernel, moves, edges = pool
    edges = [min(edge, kernel[a % 2] // 2) for a, edge in enumerate(edges)]
    h, w = (window(size, kernel[a], moves[a], edges[a], edges[2 + a]) for a in (0, 1))
    assume(min(h, w) > 0)
    module = filled(
        f"""
    func.func @forward(%x: !spike.train<3x?x2x{size}x{size}>) -> tensor<3x?x5xf32> {{
      %w = tensor.parameter "w" : tensor<{2 * h * w}x5xf32>
      %m = spike.avg_pool %x {{kernel = {ints(kernel)}, strides = {ints(moves)},
          padding = {ints(edges)}}} : (!spike.train<3x?x2x{size}x{size}>)
          -> tensor<3x?x2x{h}x{w}xf32>
      %f = tensor.flatten %m {{start = 2 : i64, end = 4 : i64}}
          : (tensor<3x?x2x{h}x{w}xf32>) -> tensor<3x?x{2 * h * w}xf32>
      %y = spike.linear %f, %w
          : tensor<3x?x{2 * h * w}xf32>, tensor<{2 * h * w}x5xf32> -> tensor<3x?x5xf32>
      func.return %y : tensor<3x?x5xf32>
    }}"""
    )
    x = np.random.default_rng(seed).random((3, 2, 2, size, size)) < 0.4
    (expected,) = run_module(module, [x])
    assert "avg_pool" not in apply_passes(module, "fuse-pools")
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("pool", "second"),
    [
        ("count_include_pad = false, padding = array<i64: 1, 1, 1, 1>", False),
        ("padding = array<i64: 0, 0, 0, 0>", True),
    ],
)
def test_what_stays(filled: Filled, apply_passes: ApplyPasses, pool: str, second: bool) -> None:
    """Means without pads, and pools that something else reads."""
    size = 3 if "1, 1" in pool else 2
    type, result = f"tensor<3x?x2x{size}x{size}xf32>", f"tensor<3x?x5x{size}x{size}xf32>"
    module = filled(f"""
    func.func @forward(%x: !spike.train<3x?x2x4x4>) -> ({result}, {type}) {{
      %w = tensor.parameter "w" : tensor<5x2x1x1xf32>
      %m = spike.avg_pool %x {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, {pool}}}
          : (!spike.train<3x?x2x4x4>) -> {type}
      %y = spike.conv %m, %w {{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
          dilation = array<i64: 1, 1>}} : {type}, tensor<5x2x1x1xf32> -> {result}
      func.return %y, %m : {result}, {type}
    }}""")
    x = np.random.default_rng(0).random((3, 2, 2, 4, 4)) < 0.4
    expected = run_module(module, [x])
    assert "avg_pool" in apply_passes(module, "fuse-pools")
    for one, other in zip(run_module(module, [x]), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
