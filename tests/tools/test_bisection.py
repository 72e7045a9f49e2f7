"""Beginnings of programs, and the search for the first one that is wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.tools.bisection import beginning, body_ops, first_wrong, live_values

TEXT = """
func.func @forward(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = tensor.constant dense<2.0> : tensor<f32>
  %d = tensor.exp %c : (tensor<f32>) -> tensor<f32>
  %a = tensor.mul %x, %d : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = tensor.relu %y : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = tensor.sub %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = tensor.add %s, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}"""
X, Y = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)


def test_a_beginning_gives_what_the_rest_needs() -> None:
    module = parse_module(TEXT)
    scaled, kept = X * np.exp(np.float32(2)), np.maximum(Y, 0)
    for count, wanted in ((3, [scaled]), (4, [scaled, kept]), (5, [kept, scaled - kept])):
        part = beginning(module, count)
        verify_module(part)
        assert len(live_values(module, count)) == len(wanted)
        for got, want in zip(run_module(part, [X, Y]), wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-6)
    assert str(module) == str(parse_module(TEXT))


def test_the_whole_program_and_constants_alone() -> None:
    module = parse_module(TEXT)
    assert str(beginning(module, len(body_ops(module)))) == str(module)
    assert live_values(module, 2) == []


@given(st.integers(1, 60), st.data())
def test_the_first_wrong_one_is_found(count: int, data: st.DataObject) -> None:
    """Where some cannot be judged, the answer is the next one that can be."""
    first = data.draw(st.integers(1, count))
    unknown = data.draw(st.sets(st.integers(1, count - 1)) if count > 1 else st.just(set[int]()))
    asked: list[int] = []

    def is_wrong(place: int) -> bool | None:
        asked.append(place)
        return None if place in unknown else place >= first

    found = first_wrong(count, is_wrong)
    assert found == min(n for n in range(first, count + 1) if n not in unknown or n == count)
    if not unknown:
        assert len(asked) <= count.bit_length()
