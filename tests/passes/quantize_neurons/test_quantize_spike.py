"""`quantize-spike`: integers where they are exact, and weights within half a unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.quantize_neurons.quantize_spike import QuantizeSpikePass

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]


def network(neuron: str, bias: bool = False, each: str = "") -> str:
    more = "bias(%b : tensor<4xf32>) " if bias else ""
    return f"""
func.func @forward(%x: !spike.train<?x?x6>) -> !spike.train<?x?x4> {{
  %w = tensor.parameter "w" : tensor<6x4xf32>
  %b = tensor.parameter "b" : tensor<4xf32>
  %t = tensor.parameter "t" : tensor<4xf32>
  %v = tensor.parameter "v" : tensor<1x4xf32>
  %i = spike.linear %x, %w {more}: !spike.train<?x?x6>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %s = spike.{neuron.partition(" ")[0]} %i {each} {neuron.partition(" ")[2]}
      : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s : !spike.train<?x?x4>
}}"""


def neurons(module: ModuleOp) -> spike.NeuronOp:
    return next(op for op in module.walk() if isinstance(op, spike.NeuronOp))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    reset=st.sampled_from(["subtract", "to_value", "none"]),
    compare=st.sampled_from(["gt", "ge"]),
    bias=st.booleans(),
    scale=st.sampled_from(["channel", "tensor"]),
)
def test_weights_on_the_grid_give_the_same_spikes_on_integers(
    filled: Filled, apply_passes: ApplyPasses, seed: int, reset: str, compare: str, bias: bool,
    scale: str,
) -> None:  # fmt: skip
    """Weights that are whole multiples of a unit, the largest 127 of them, stay as they are."""
    rng = np.random.default_rng(seed)
    unit = 2.0 ** rng.integers(-6, 0, 1 if scale == "tensor" else 4)
    w = rng.integers(-127, 128, (6, 4))
    w[rng.integers(0, 6)] = 127
    values = {
        "w": (w * unit).astype(np.float32),
        "b": (rng.integers(-20, 60, 4) * unit).astype(np.float32),
        "t": (rng.integers(1, 400, 4) * unit).astype(np.float32),
        "v": (rng.integers(-50, 50, (1, 4)) * unit).astype(np.float32),
    }
    each = "initial(%v : tensor<1x4xf32>) threshold(%t : tensor<4xf32>)"
    properties = f'{{reset = "{reset}", compare = "{compare}"}}'
    module = filled(network(f"integrate_fire {properties}", bias, each), values=values)
    x = rng.random((20, 2, 6)) < 0.4
    (expected,) = run_module(module, [x])
    text = apply_passes(module, f"quantize-spike{{scale={scale}}}")
    assert "xf32" not in text and "tensor<6x4xi8>" in text
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("reset", ["subtract", "none"])
def test_any_weights_are_within_half_a_unit(
    filled: Filled, apply_passes: ApplyPasses, bits: int, reset: str
) -> None:
    rng = np.random.default_rng(bits)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    threshold, gain = 2.7, 0.5
    properties = f'{{threshold = {threshold} : f64, gain = {gain} : f64, reset = "{reset}"}}'
    module = filled(network(f"integrate_fire {properties}"), values={"w": w})
    apply_passes(module, f"quantize-spike{{bits={bits}}}")
    neuron, synapse = neurons(module), neurons(module).input.owner
    assert isinstance(neuron, spike.IntegrateFireOp) and isinstance(synapse, spike.LinearOp)
    if "f32" in str(synapse.result.type):
        assert bits == 2 and reset == "subtract"  # a threshold below one unit of coarse weights
        return
    x = np.eye(6, dtype=bool)[:, None]
    most = 2 ** (bits - 1) - 1
    q = _weights(module)
    assert q.dtype == np.int8 and abs(q).max() <= most
    level = neuron.parameter("threshold")
    counts = literal_value(level) if isinstance(level, SSAValue) else np.full(4, level)
    assert counts is not None
    if reset == "subtract":
        units = threshold / (gain * counts.astype(np.float64))
    else:
        units = np.abs(w).max(axis=0) / most
        np.testing.assert_array_equal(counts, np.ceil(threshold / (gain * units)))
    assert (np.abs(q * units - w) <= 0.501 * units).all()
    # The spikes are those of integer arithmetic.
    x = rng.random((15, 3, 6)) < 0.5
    v = np.zeros((3, 4), np.int64)
    (found,) = run_module(module, [x])
    for t in range(15):
        v = v + x[t].astype(np.int64) @ q
        fired = v >= counts
        np.testing.assert_array_equal(found[t], fired)
        v = np.where(fired & (reset == "subtract"), v - counts.astype(np.int64), v)


def _weights(module: ModuleOp) -> Array:
    synapse = next(op for op in module.walk() if isinstance(op, spike.LinearOp))
    found = literal_value(synapse.weight)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "neuron",
    ["lif {beta = 0.75 : f64}", "integrate_fire {v_reset = 0.3 : f64, reset = 'to_value'}"],
)
def test_other_neurons_get_floats(filled: Filled, apply_passes: ApplyPasses, neuron: str) -> None:
    """Sums of i8 weights times a scale: the float program with the weights that these are."""
    text = network(neuron.replace("'", '"'), bias=True)
    rng = np.random.default_rng(3)
    w = rng.normal(size=(6, 4)).astype(np.float32)
    module = filled(text, values={"w": w})
    apply_passes(module, "quantize-spike")
    synapse = next(op for op in module.walk() if isinstance(op, spike.LinearOp))
    assert str(synapse.result.type) == "tensor<?x?x4xf32>" and synapse.scale is not None
    q = _weights(module)
    units = (np.abs(w).max(axis=0) / 127).astype(np.float32)
    np.testing.assert_array_equal(q, np.rint(w.astype(np.float64) / units))
    x = rng.random((20, 2, 6)) < 0.5
    near = filled(text, values={"w": (q * units).astype(np.float32)})
    same = run_module(module, [x])[0] == run_module(near, [x])[0]
    assert same.mean() > 0.99  # but for roundings at the threshold


@pytest.mark.parametrize("reset", ["subtract", "to_value", "none"])
def test_ternary_weights(filled: Filled, apply_passes: ApplyPasses, reset: str) -> None:
    """Neurons count trits where the threshold need not be a whole number of the scale."""
    rng = np.random.default_rng(4)
    values = {"w": rng.normal(size=(6, 4)).astype(np.float32)}
    text = network(f'integrate_fire {{reset = "{reset}", threshold = 1.3 : f64}}')
    module = filled(text, values=values)
    found = apply_passes(module, "quantize-spike{weights=ternary rule=twn}")
    assert "tensor<6x4x!ternary.trit>" in found
    assert ("xi32" in found) == (reset != "subtract")
    floats = filled(text, values=values)
    apply_passes(floats, "quantize-spike{weights=ternary rule=twn integers=false}")
    x = rng.random((20, 2, 6)) < 0.5
    np.testing.assert_array_equal(run_module(module, [x])[0], run_module(floats, [x])[0])


def test_convolutions_and_thresholds_of_channels(filled: Filled, apply_passes: ApplyPasses) -> None:
    text = """
func.func @forward(%x: !spike.train<?x?x2x4x4>) -> !spike.train<?x?x3x4x4> {
  %w = tensor.parameter "w" : tensor<3x2x3x3xf32>
  %t = tensor.parameter "t" : tensor<3x1x1xf32>
  %i = spike.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}
      : !spike.train<?x?x2x4x4>, tensor<3x2x3x3xf32> -> tensor<?x?x3x4x4xf32>
  %s = spike.integrate_fire %i threshold(%t : tensor<3x1x1xf32>)
      : (tensor<?x?x3x4x4xf32>) -> !spike.train<?x?x3x4x4>
  func.return %s : !spike.train<?x?x3x4x4>
}"""
    rng = np.random.default_rng(0)
    w = rng.integers(-127, 128, (3, 2, 3, 3))
    w[:, 0, 0, 0] = 127
    values = {
        "w": (w / 64).astype(np.float32),
        "t": np.array([100, 300, 77], np.float32).reshape(3, 1, 1) / 64,
    }
    module = filled(text, values=values)
    x = rng.random((10, 2, 2, 4, 4)) < 0.3
    (expected,) = run_module(module, [x])
    found = apply_passes(module, "quantize-spike")
    assert "tensor<3x1x1xi32>" in found and "xf32" not in found and expected.any()
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


def test_unknown_weights_and_graded_inputs_stay(filled: Filled, apply_passes: ApplyPasses) -> None:
    text = """
func.func @forward(%x: tensor<?x?x6xf32>, %w: tensor<4x4xf32>) -> !spike.train<?x?x4> {
  %u = tensor.parameter "u" : tensor<6x4xf32>
  %i = spike.linear %x, %u : tensor<?x?x6xf32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %s = spike.integrate_fire %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  %j = spike.linear %s, %w : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
  %t = spike.integrate_fire %j : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %t : !spike.train<?x?x4>
}"""
    module = filled(text)
    before = str(module)
    assert apply_passes(module, "quantize-spike") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 9}, "expects bits from 2 to 8, got 9"),
        ({"weights": "int4"}, "expects weights one of int8, ternary, got 'int4'"),
        ({"scale": "none"}, "expects scale one of tensor, channel, got 'none'"),
        ({"rule": "twn"}, "takes a rule with weights=ternary alone"),
        ({"weights": "ternary", "bits": 4}, "takes bits with weights=int8 alone"),
        ({"weights": "ternary", "rule": "x"}, "expects rule one of twn, absmean, got 'x'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        QuantizeSpikePass(**options)
