"""Signed spikes against their equations in NumPy, and conversions with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.conversion import run_spiking
from triton_dsl.lowering.engine import run_target
from triton_dsl.passes.convert_ann_to_snn import (
    ArchitectureValidator,
    ConvertAnnToSnnPass,
    convert,
    search,
)
from triton_dsl.passes.convert_ann_to_snn.signed import simulate_signed

Filled = Callable[..., ModuleOp]
Array = NDArray[Any]


def told(values: Array, threshold: Array, timesteps: int) -> tuple[Array, Array]:
    """What neurons that get a value whole at the first step tell of it, and their spikes.

    Coarse to fine: the nearest multiple of each quantum in turn, by -1, 0 or 1 of it.
    """
    first = threshold / sum(2.0**-t for t in range(timesteps))
    y, spikes = np.zeros(values.shape), np.zeros(values.shape, int)
    for t in range(timesteps):
        quantum = first * 2.0**-t
        up = values - y >= quantum / 2
        down = (y - values >= quantum / 2) & (y >= quantum / 2)
        y = y + np.where(up, quantum, 0) - np.where(down, quantum, 0)
        spikes += up | down
    return y, spikes


@pytest.mark.parametrize("timesteps", [2, 3, 5])
def test_the_spikes_of_a_layer_are_those_of_the_equations(filled: Filled, timesteps: int) -> None:
    # Thresholds are quantum sums, and inputs multiples of 1/64, so that everything is exact.
    whole = sum(2.0**-t for t in range(timesteps))
    module = filled(
        f"""
    func.func @forward(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {{
      %y = tensor.relu %x {{spike.threshold = dense<[{whole}, {2 * whole}, {4 * whole}]>
          : tensor<3xf64>}} : (tensor<?x3xf32>) -> tensor<?x3xf32>
      func.return %y : tensor<?x3xf32>
    }}"""
    )
    x = (np.random.default_rng(timesteps).integers(-64, 300, (200, 3)) / 64).astype(np.float32)
    options = ConvertAnnToSnnPass(timesteps=timesteps, signed=True, correct="bias")
    # The result is shifted to the mean on the samples; on others too.
    convert(module, options, [(x,)])
    verify_module(module)
    counts: list[int] = []
    (found,) = run_module(
        module,
        [x],
        observer=lambda op, _, r: (
            counts.append(int(r[0].sum())) if isinstance(op, spike.IntegrateFireOp) else None
        ),
    )
    y, spikes = told(x.astype(np.float64), whole * np.array([1.0, 2.0, 4.0]), timesteps)
    shift = (np.maximum(x, 0) - y).mean(0)
    np.testing.assert_allclose(found, y + shift, rtol=0, atol=1e-5)
    assert sum(counts) == spikes.sum() and len(counts) == 2 * timesteps - 1
    theta = whole * np.array([1.0, 2.0, 4.0])
    current = np.zeros((timesteps, *x.shape))
    current[0] = timesteps * x
    said, fired = simulate_signed(current, theta)
    np.testing.assert_array_equal(fired, spikes)
    np.testing.assert_allclose(said * theta / whole, y, atol=1e-12)


@given(
    st.integers(2, 6),
    st.sampled_from([0.0, 0.25, 0.5]),
    st.integers(0, 2**32 - 1),
)
def test_a_spike_pays_for_itself(timesteps: int, margin: float, seed: int) -> None:
    """It takes more off the square of what is left than a margin at the last step stands for."""
    first, last = 1 / sum(2.0**-t for t in range(timesteps)), 2.0 ** (1 - timesteps)
    values = np.random.default_rng(seed).normal(0.4, 0.5, 300)
    y, spikes = np.zeros(values.shape), np.zeros(values.shape, int)
    for t in range(timesteps):
        q, cost = first * 2.0**-t, 2 * margin * (first * last) ** 2
        gains = [(values - y) ** 2 - (values - y - s * q) ** 2 for s in (1, -1)]
        up = gains[0] >= cost
        down = (gains[1] >= cost) & (y > 0)
        y = y + np.where(up, q, 0) - np.where(down, q, 0)
        spikes += up | down
    current = np.zeros((timesteps, 300))
    current[0] = timesteps * values
    said, fired = simulate_signed(current, np.array(1.0), margin=margin)
    np.testing.assert_allclose(said * first, y, atol=1e-12)
    np.testing.assert_array_equal(fired, spikes)


BRANCHES = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<6x16xf32>
  %v = tensor.parameter "v" : tensor<16x16xf32>
  %u = tensor.parameter "u" : tensor<32x4xf32>
  %a = tensor.matmul %x, %w : (tensor<?x6xf32>, tensor<6x16xf32>) -> tensor<?x16xf32>
  %b = tensor.relu %a : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %c = tensor.matmul %b, %v : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %d = tensor.add %c, %b : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %e = tensor.relu6 %d : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %f = tensor.concatenate %e, %b {axis = 1 : i64}
      : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x32xf32>
  %y = tensor.matmul %f, %u : (tensor<?x32xf32>, tensor<32x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


def test_signed_spikes_are_nearer_in_few_steps(filled: Filled) -> None:
    rng = np.random.default_rng(0)
    values = {
        key: (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)
        for key, shape in {"w": (6, 16), "v": (16, 16), "u": (32, 4)}.items()
    }
    x, fresh = (rng.normal(size=(400, 6)).astype(np.float32) for _ in range(2))
    (wanted,) = run_module(filled(BRANCHES, values=values), [fresh])
    errors: list[float] = []
    for signed in (False, True):
        before = filled(BRANCHES, values=values)
        module = before.clone()
        convert(module, ConvertAnnToSnnPass(timesteps=4, signed=signed, price=0), [(x,)])
        verify_module(module)
        (found,) = run_module(module, [fresh])
        errors.append(float(((found - wanted) ** 2).mean() / wanted.var()))
        findings = ArchitectureValidator().compare(before, module)
        assert [f.ok for f in findings if f.subject == "populations of neurons"] == [True]
    assert errors[1] < 0.6 * errors[0] < 0.06


def test_late_spikes_that_tell_little_are_left_out(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With margins, fewer spikes bring a result as near, in another engine too."""
    rng = np.random.default_rng(0)
    values = {
        key: (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)
        for key, shape in {"w": (6, 16), "v": (16, 16), "u": (32, 4)}.items()
    }
    x, fresh = (rng.normal(size=(400, 6)).astype(np.float32) for _ in range(2))
    before = filled(BRANCHES, values=values)
    (wanted,) = run_module(before, [fresh])

    def converted(price: float) -> tuple[ModuleOp, float, float]:
        module = before.clone()
        convert(module, ConvertAnnToSnnPass(timesteps=4, signed=True, price=price), [(x,)])
        run = run_spiking(module, [fresh])
        error = float(((run.results[0] - wanted) ** 2).mean() / wanted.var())
        return module, error, float(run.total.mean())

    module, error, spikes = converted(0.3)
    (found,) = run_module(module, [fresh])
    _, (there,), _ = run_target(module, "onnx", [fresh])
    np.testing.assert_allclose(there, found, rtol=1e-3, atol=1e-3)
    monkeypatch.setattr(search, "MARGINS", (0.0,))
    front = [converted(price)[1:] for price in (0.3, 1, 3, 10)]
    as_near = [more for other, more in front if other < 1.1 * error]
    assert as_near and min(as_near) > 1.1 * spikes


@pytest.mark.parametrize("signed", [False, True])
def test_attention_keeps_plain_spikes(filled: Filled, signed: bool) -> None:
    module = filled("""
    func.func @forward(%x: tensor<?x3x8xf32>) -> tensor<?x3x2xf32> {
      %w = tensor.parameter "w" : tensor<8x8xf32>
      %u = tensor.parameter "u" : tensor<8x2xf32>
      %a = tensor.matmul %x, %w : (tensor<?x3x8xf32>, tensor<8x8xf32>) -> tensor<?x3x8xf32>
      %b = tensor.relu %a : (tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
      %c = tensor.scaled_dot_product_attention %b, %b, %b
          : (tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
      %y = tensor.matmul %c, %u : (tensor<?x3x8xf32>, tensor<8x2xf32>) -> tensor<?x3x2xf32>
      func.return %y : tensor<?x3x2xf32>
    }""")
    x = np.random.default_rng(0).random((40, 3, 8)).astype(np.float32)
    convert(module, ConvertAnnToSnnPass(timesteps=4, signed=signed), [(x,)])
    verify_module(module)
    assert "spike.attention" in str(module) and np.isfinite(run_module(module, [x])[0]).all()


def test_signed_spikes_need_some_steps() -> None:
    for timesteps in (1, 17):
        with pytest.raises(OptionError, match="timesteps from 2 to 16 for signed spikes"):
            ConvertAnnToSnnPass(timesteps=timesteps, signed=True)


MAXIMUM = """
func.func @forward(%x: tensor<?x2x4x4xf32>) -> tensor<?x2x2x2xf32> {
  %h = tensor.relu %x : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %s = tensor.sub %h, %h : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %a = tensor.add %s, %h : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %g = tensor.relu6 %a : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %y = tensor.max_pool %g {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>} : (tensor<?x2x4x4xf32>) -> tensor<?x2x2x2xf32>
  func.return %y : tensor<?x2x2x2xf32>
}"""


def test_a_maximum_is_taken_of_potentials() -> None:
    module = parse_module(MAXIMUM)
    x = np.random.default_rng(0).uniform(-1, 9, (60, 2, 4, 4)).astype(np.float32)
    (wanted,) = run_module(module, [x])
    convert(module, ConvertAnnToSnnPass(timesteps=8, signed=True, price=0), [(x,)])
    verify_module(module)
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, wanted, atol=0.5)


def test_signed_trains_have_no_maximum() -> None:
    """`pools=before` leaves neurons before the pool, whose spikes would be what it takes."""
    module, x = parse_module(MAXIMUM), np.ones((20, 2, 4, 4), np.float32)
    with pytest.raises(UnsupportedError, match="convert without signed ones"):
        convert(module, ConvertAnnToSnnPass(timesteps=4, signed=True, pools="before"), [(x,)])
