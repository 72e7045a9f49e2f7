"""`spike.scan`: a loop over steps, as text, as computed, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError

PROGRAM = """
func.func @forward(%x: tensor<?x?x3xf32>, %k: tensor<3xf32>, %n: tensor<?x3xf32>)
    -> (tensor<?x?x3xf32>, tensor<?x?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  %zero = tensor.constant dense<0.0> : tensor<f32>
  %y, %z, %a, %b = spike.scan %x fixed(%k : tensor<3xf32>)
      states(%n, %zero : tensor<?x3xf32>, tensor<f32>)
      : (tensor<?x?x3xf32>) -> (tensor<?x?x3xf32>, tensor<?x?x3xf32>),
        (tensor<?x3xf32>, tensor<?x3xf32>) {
  ^bb0(%i: tensor<1x?x3xf32>, %f: tensor<3xf32>, %s: tensor<?x3xf32>, %t: tensor<?x3xf32>):
    %m = tensor.mul %s, %f : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
    %p = tensor.squeeze %i {axes = array<i64: 0>} : (tensor<1x?x3xf32>) -> tensor<?x3xf32>
    %q = tensor.add %m, %p : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
    %u = tensor.unsqueeze %t {axes = array<i64: 0>} : (tensor<?x3xf32>) -> tensor<1x?x3xf32>
    spike.yield %q, %s, %i, %u : tensor<?x3xf32>, tensor<?x3xf32>, tensor<1x?x3xf32>,
        tensor<1x?x3xf32>
  }
  func.return %y, %z, %a, %b : tensor<?x?x3xf32>, tensor<?x?x3xf32>, tensor<?x3xf32>,
      tensor<?x3xf32>
}
"""
MODULE = parse_module(PROGRAM)


@given(steps=st.integers(0, 6), seed=st.integers(0, 1000))
def test_states_go_from_step_to_step(steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, k, n = (rng.integers(-4, 5, size).astype(np.float32) for size in ((steps, 2, 3), 3, (2, 3)))
    y, z, a, b = run_module(MODULE, [x, k, n])
    s, t, before = n, np.zeros_like(n), []
    for step in x:
        before.append(t)
        s, t = s * k + step, s
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, np.reshape(before, (steps, 2, 3)))
    np.testing.assert_array_equal(a, s)
    np.testing.assert_array_equal(b, t)


def test_the_text_is_read_again() -> None:
    text = str(MODULE)
    assert str(parse_module(text)) == text


SUM = """
func.func @forward(%x: tensor<7x2xf32>, %k: tensor<3xf32>, %n: tensor<2xf32>) -> tensor<7x2xf32> {
  %y, %a = spike.scan %x fixed(%k : tensor<3xf32>) states(%n : tensor<2xf32>)
      : (tensor<7x2xf32>) -> (tensor<7x2xf32>), (tensor<2xf32>) {
  ^bb0(%i: tensor<1x2xf32>, %f: tensor<3xf32>, %s: tensor<2xf32>):
    %c = tensor.constant dense<1.0> : tensor<4xf32>
    spike.yield %s, %i : tensor<2xf32>, tensor<1x2xf32>
  }
  func.return %y : tensor<7x2xf32>
}
"""
STEP, STATE = "spike.yield %s, %i : tensor<2xf32>, tensor<1x2xf32>", "states(%n : tensor<2xf32>)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (STEP, "spike.yield %s, %s : tensor<2xf32>, tensor<2xf32>", "expects to yield runs of one"),
        (STEP, "spike.yield %c, %i : tensor<4xf32>, tensor<1x2xf32>", "expects a state in the bod"),
        (STATE, "states(%k : tensor<3xf32>)", "expects a state that begins as"),
        ("%f: tensor<3xf32>", "%f: tensor<4xf32>", "expects a fixed value in the body as"),
        ("%f: tensor<3xf32>, ", "", "expects a body of 3 arguments, got 2"),
        ("fixed(%k : tensor<3xf32>) ", "", "expects a body of 2 arguments, got 3"),
        ("-> (tensor<7x2xf32>), (", "-> (tensor<6x2xf32>), (", "6x2"),
    ],
)
def test_ill_formed_loops_are_refused(old: str, new: str, message: str) -> None:
    parse_module(SUM)
    assert SUM.count(old) == 1
    with pytest.raises(TritonError, match=message):
        parse_module(SUM.replace(old, new))
