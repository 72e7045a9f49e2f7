"""Converted programs against the float programs, and against equations of the neurons in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.ir.errors import PassError, UnsupportedError
from triton_dsl.passes.balance_thresholds import ThresholdCalibrator, balance
from triton_dsl.passes.convert_ann_to_snn import (
    ArchitectureValidator,
    Conversion,
    ConvertAnnToSnnPass,
    LayerConverter,
    Signal,
    convert,
)
from triton_dsl.passes.normalize_weights import normalize

Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

WINDOW = (
    "{strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, "
    "dilation = array<i64: 1, 1>, groups = %d : i64}"
)
MLP = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x3xf32> {
  %w = tensor.parameter "w" : tensor<6x8xf32>
  %b = tensor.parameter "b" : tensor<8xf32>
  %v = tensor.parameter "v" : tensor<8x3xf32>
  %c = tensor.parameter "c" : tensor<3xf32>
  %z = tensor.linear %x, %w, %b
      : (tensor<?x6xf32>, tensor<6x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %h = tensor.relu %z : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = tensor.linear %h, %v, %c
      : (tensor<?x8xf32>, tensor<8x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""

# A residual block with batch normalisation, a bounded and a clamped activation, a split, groups,
# a concatenation of parts of different thresholds, max and average pools, and a softmax at the end.
RESIDUAL = f"""
func.func @forward(%x: tensor<?x3x8x8xf32>) -> tensor<?x5xf32> {{
  %w0 = tensor.parameter "w0" : tensor<8x3x3x3xf32>
  %w1 = tensor.parameter "w1" : tensor<8x4x3x3xf32>
  %s = tensor.parameter "s" : tensor<8xf32>
  %b = tensor.parameter "b" : tensor<8xf32>
  %m = tensor.parameter "m" : tensor<8xf32>
  %v = tensor.parameter "var" : tensor<8xf32>
  %w2 = tensor.parameter "w2" : tensor<4x4x3x3xf32>
  %wl = tensor.parameter "wl" : tensor<32x5xf32>
  %z0 = tensor.conv %x, %w0 {WINDOW % 1}
      : (tensor<?x3x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<?x8x8x8xf32>
  %h0 = tensor.relu %z0 : (tensor<?x8x8x8xf32>) -> tensor<?x8x8x8xf32>
  %z1 = tensor.conv %h0, %w1 {WINDOW % 2}
      : (tensor<?x8x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<?x8x8x8xf32>
  %n1 = tensor.batch_norm %z1, %s, %b, %m, %v {{epsilon = 1.0e-5 : f64}}
      : (tensor<?x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
      -> tensor<?x8x8x8xf32>
  %r1 = tensor.add %n1, %h0 : (tensor<?x8x8x8xf32>, tensor<?x8x8x8xf32>) -> tensor<?x8x8x8xf32>
  %h1 = tensor.relu6 %r1 : (tensor<?x8x8x8xf32>) -> tensor<?x8x8x8xf32>
  %a, %d = tensor.split %h1 {{axis = 1 : i64, sizes = array<i64: 4, 4>}}
      : (tensor<?x8x8x8xf32>) -> (tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>)
  %z2 = tensor.conv %a, %w2 {WINDOW % 1}
      : (tensor<?x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<?x4x8x8xf32>
  %h2 = tensor.clamp %z2 {{min = 0.0 : f64, max = 2.0 : f64}}
      : (tensor<?x4x8x8xf32>) -> tensor<?x4x8x8xf32>
  %j = tensor.concatenate %d, %h2, %h0 {{axis = 1 : i64}}
      : (tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>, tensor<?x8x8x8xf32>) -> tensor<?x16x8x8xf32>
  %p = tensor.max_pool %j {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>}} : (tensor<?x16x8x8xf32>) -> tensor<?x16x4x4xf32>
  %q = tensor.avg_pool %p {{kernel = array<i64: 2, 4>, strides = array<i64: 2, 4>,
      padding = array<i64: 0, 0, 0, 0>}} : (tensor<?x16x4x4xf32>) -> tensor<?x16x2x1xf32>
  %f = tensor.flatten %q : (tensor<?x16x2x1xf32>) -> tensor<?x32xf32>
  %y = tensor.matmul %f, %wl : (tensor<?x32xf32>, tensor<32x5xf32>) -> tensor<?x5xf32>
  %o = tensor.softmax %y : (tensor<?x5xf32>) -> tensor<?x5xf32>
  func.return %o : tensor<?x5xf32>
}}
"""


def options(timesteps: int, **given: Any) -> ConvertAnnToSnnPass:
    return ConvertAnnToSnnPass(timesteps=timesteps, **given)


def plain(timesteps: int) -> ConvertAnnToSnnPass:
    return options(timesteps, correct="none")


def inputs(*shape: int, seed: int = 5) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def small_weights(filled: Filled, text: str, seed: int = 0) -> ModuleOp:
    """Values stay near 1: normal weights over the root of their number of inputs."""
    module = filled(text, seed)
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for op in module.walk():
        if isinstance(op, tensor.ParameterOp):
            shape = tensor_type(op.result).get_shape()
            fan = float(np.prod(shape[1:] if len(shape) == 4 else shape[:1]))
            values[op.key.data] = (rng.normal(size=shape) / fan**0.5).astype(np.float32)
            if op.key.data == "var":
                values["var"] = np.abs(values["var"]) + np.float32(0.5)
    return filled(text, seed, values=values)


def thresholds(module: ModuleOp, x: Array, **given: Any) -> None:
    balance(module, [(x,)], ThresholdCalibrator(**given))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.sampled_from(["layer", "channel"]), st.integers(0, 1000))
def test_one_hidden_layer_is_the_clipped_floor(
    filled: Filled, timesteps: int, per: str, seed: int
) -> None:
    # At a constant current z an integrator that starts at θ/2 fires clamp(⌊zT/θ + ½⌋, 0, T) times.
    # Weights and inputs are small multiples of 1/8, so that sums are exact.
    rng = np.random.default_rng(seed)
    shapes = {"w": (6, 8), "b": (8,), "v": (8, 3), "c": (3,)}
    values = {k: (rng.integers(-8, 9, s) / 8).astype(np.float32) for k, s in shapes.items()}
    x = (rng.integers(0, 9, (7, 6)) / 8).astype(np.float32)
    module = filled(MLP, values=values)
    shape = (8,) if per == "channel" else ()
    theta = rng.integers(1, 17, shape) / 4
    ThresholdCalibrator(per=per).annotate(module, [theta])
    converted = convert(module, plain(timesteps))
    verify_module(module)
    z = x.astype(np.float64) @ values["w"] + values["b"]
    fired = np.clip(np.floor(z * timesteps / theta + 0.5), 0, timesteps)
    expected = (fired * theta / timesteps) @ values["v"] + values["c"]
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert converted.neurons == 1


@pytest.mark.parametrize("per", ["layer", "channel"])
def test_a_residual_network_comes_near_with_many_steps(filled: Filled, per: str) -> None:
    x = inputs(8, 3, 8, 8)
    errors: list[float] = []
    for timesteps in (8, 128):
        module = small_weights(filled, RESIDUAL)
        (expected,) = run_module(module, [x])
        thresholds(module, x, timesteps=timesteps, per=per)
        converted = convert(module, plain(timesteps))
        verify_module(module)
        (found,) = run_module(module, [x])
        errors.append(float(np.abs(found - expected).max()))
        assert converted.neurons == 3 and not converted.remarks
    assert errors[1] < 0.005 < errors[0]


def test_corrections_bring_the_means_together(filled: Filled) -> None:
    x, fresh = inputs(64, 3, 8, 8), inputs(64, 3, 8, 8, seed=6)
    text = RESIDUAL.replace("func.return %o", "func.return %y")
    distances: dict[str, float] = {}
    for name, chosen in (
        ("none", plain(4)),
        ("bias", options(4, correct="bias")),
        ("weights", options(4)),
    ):
        module = small_weights(filled, text)
        (expected,) = run_module(module, [fresh])
        thresholds(module, x, timesteps=4)
        convert(module, chosen, [(x[:40],), (x[40:],)])
        verify_module(module)
        (found,) = run_module(module, [fresh])
        distances[name] = float(((found - expected) ** 2).mean())
        if name != "none":
            # On the samples themselves the means are equal.
            (target,) = run_module(small_weights(filled, text), [x])
            (on_samples,) = run_module(module, [x])
            np.testing.assert_allclose(on_samples.mean(0), target.mean(0), atol=1e-4)
    assert distances["weights"] < distances["bias"] < distances["none"]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.booleans())
def test_max_pooling_takes_the_largest_count(seed: int, timesteps: int, padded: bool) -> None:
    height = 3 if padded else 2
    module = parse_module(f"""
    func.func @forward(%x: tensor<?x2x4x4xf32>) -> tensor<?x2x{height}x2xf32> {{
      %h = tensor.relu %x {{spike.threshold = dense<1.0> : tensor<f64>}}
          : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
      %y = tensor.max_pool %h {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
          padding = array<i64: {"1, 0, 1, 0" if padded else "0, 0, 0, 0"}>}}
          : (tensor<?x2x4x4xf32>) -> tensor<?x2x{height}x2xf32>
      func.return %y : tensor<?x2x{height}x2xf32>
    }}""")
    x = np.random.default_rng(seed).uniform(-0.5, 1.2, (3, 2, 4, 4)).astype(np.float32)
    counts = np.zeros(x.shape)
    v = np.full(x.shape, np.float32(0.5))
    for _ in range(timesteps):
        v = v + x
        counts += v >= 1
        v = np.where(v >= 1, v - np.float32(1), v)
    if padded:
        counts = np.pad(counts, [(0, 0), (0, 0), (1, 1), (0, 0)])
    windows = counts.reshape(3, 2, height, 2, 2, 2)
    convert(module, plain(timesteps))
    verify_module(module)
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, windows.max((3, 5)) / timesteps, rtol=1e-6)


def test_normalised_weights_compute_the_same(filled: Filled) -> None:
    x = inputs(16, 3, 8, 8)
    module = small_weights(filled, RESIDUAL)
    (expected,) = run_module(module, [x])
    scales = normalize(module, [(x,)], percentile=100)
    verify_module(module)
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(scales) == 3 and all(scale > 0 for scale in scales)
    again = normalize(module, [(x,)], percentile=100)
    np.testing.assert_allclose(again, 1.0, rtol=1e-5)


def test_ternary_layers_keep_their_trits(filled: Filled) -> None:
    module = filled("""
    func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x2xf32> {
      %w = ternary.parameter "w" : tensor<6x7x!ternary.trit>
      %v = ternary.parameter "v" : tensor<7x5x!ternary.trit>
      %u = ternary.parameter "u" : tensor<5x2x!ternary.trit>
      %s = tensor.constant dense<0.25> : tensor<f32>
      %h = ternary.linear %x, %w scale(%s : tensor<f32>) {activation = "relu",
          spike.threshold = dense<2.0> : tensor<f64>}
          : tensor<?x6xf32>, tensor<6x7x!ternary.trit> -> tensor<?x7xf32>
      %g = ternary.linear %h, %v {activation = "relu6"}
          : tensor<?x7xf32>, tensor<7x5x!ternary.trit> -> tensor<?x5xf32>
      %y = ternary.linear %g, %u : tensor<?x5xf32>, tensor<5x2x!ternary.trit> -> tensor<?x2xf32>
      func.return %y : tensor<?x2xf32>
    }""")
    x = np.random.default_rng(1).uniform(0, 1, (9, 6)).astype(np.float32)
    (expected,) = run_module(module, [x])
    convert(module, plain(512))
    verify_module(module)
    (found,) = run_module(module, [x])
    np.testing.assert_allclose(found, expected, atol=0.1)
    synapses = [op for op in module.walk() if isinstance(op, spike.LinearOp)]
    assert [str(tensor_type(op.weight).element_type) for op in synapses] == ["!ternary.trit"] * 2


UNSUPPORTED = """
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %h = tensor.relu %x {spike.threshold = dense<1.0> : tensor<f64>}
      : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %g = tensor.abs %h : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = tensor.relu %g {spike.threshold = dense<2.0> : tensor<f64>}
      : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""


def test_what_is_refused_stays_as_it_was() -> None:
    module = parse_module(UNSUPPORTED)
    before = str(module)
    with pytest.raises(UnsupportedError) as caught:
        convert(module, plain(4))
    assert [name for name, _, _ in caught.value.problems] == ["tensor.abs"]
    assert str(module) == before


def test_a_rule_can_be_added() -> None:
    converter = LayerConverter()

    @converter.register(tensor.AbsOp)
    def _(state: Conversion, op: tensor.AbsOp) -> Sequence[Signal]:
        # Spikes that are worth something positive are their own absolute value.
        return [state.signals[op.operand]]

    module = parse_module(UNSUPPORTED)
    convert(module, plain(4), converter=converter)
    verify_module(module)
    x = np.array([[0.75, -1.0]], np.float32)
    np.testing.assert_allclose(run_module(module, [x])[0], [[0.75, 0.0]])


@pytest.mark.parametrize("shape", ["dense<[1.0, 2.0, 3.0]> : tensor<3xf64>", "1.0 : f64"])
def test_malformed_thresholds_are_refused(shape: str) -> None:
    module = parse_module(UNSUPPORTED.replace("dense<1.0> : tensor<f64>", shape, 1))
    with pytest.raises(PassError, match=r"spike\.threshold"):
        convert(module, plain(4))


def test_the_validator_tells_what_becomes_of_each_op(filled: Filled) -> None:
    validator = ArchitectureValidator()
    float_program = small_weights(filled, RESIDUAL)
    findings = validator.check(float_program)
    assert all(finding.ok for finding in findings)
    told = {finding.subject: finding.result for finding in findings}
    assert told["tensor.relu6"] == "integrate-and-fire neurons"
    assert findings[0].result == "once, before the first step"
    refused = validator.check(parse_module(UNSUPPORTED))
    assert [finding.subject for finding in refused if not finding.ok] == ["tensor.abs"]
    assert "problem" in validator.table(refused)

    converted = float_program.clone()
    thresholds(converted, inputs(4, 3, 8, 8), timesteps=4)
    convert(converted, plain(4))
    assert all(finding.ok for finding in validator.compare(float_program, converted))
    other = small_weights(filled, MLP)
    assert not all(finding.ok for finding in validator.compare(other, converted))


@pytest.mark.parametrize(
    ("method", "expected"),
    [("max", 4.0), ("percentile", 2.0), ("qcfs", 2.0), ("mse", 2.0)],
)
def test_calibration_methods(method: str, expected: float) -> None:
    # 1000 activations of 2 and one of 4: at one step 2 is best for the squared error.
    module = parse_module(
        """func.func @forward(%x: tensor<?x1xf32>) -> tensor<?x1xf32> {
          %y = tensor.relu %x : (tensor<?x1xf32>) -> tensor<?x1xf32>
          func.return %y : tensor<?x1xf32>
        }"""
    )
    x = np.concatenate([np.full((1000, 1), 2.0), np.full((1, 1), 4.0)]).astype(np.float32)
    calibrator = ThresholdCalibrator(method, timesteps=1, percentile=50)
    (found,) = calibrator.calibrate(module, [(x,)])
    assert found == pytest.approx(expected, rel=0.05)


def test_thresholds_by_channel_have_the_shape_of_worth(filled: Filled) -> None:
    module = small_weights(filled, RESIDUAL)
    found = ThresholdCalibrator(per="channel").calibrate(module, [(inputs(4, 3, 8, 8),)])
    assert [array.shape for array in found] == [(8, 1, 1), (8, 1, 1), (4, 1, 1)]
    assert (found[1] <= 6).all() and (found[2] <= 2).all()
