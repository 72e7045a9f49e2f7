"""`quantize-neurons`: integers that stand for the floats they come from."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.quantize_neurons.quantize_neurons import INTEGER_FORMS, QuantizeNeuronsPass

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]

NETWORK = """
func.func @forward(%x: !spike.train<12x?x6>) -> (!spike.train<12x?x4>, tensor<?x4xf32>) {{
  %w = tensor.parameter "w" : tensor<6x4xi8>
  %s = tensor.parameter "s" : tensor<4xf32>
  %b = tensor.parameter "b" : tensor<4xf32>
  %i = spike.linear %x, %w scale(%s : tensor<4xf32>) bias(%b : tensor<4xf32>)
       : !spike.train<12x?x6>, tensor<6x4xi8> -> tensor<12x?x4xf32>
  %t = spike.{neuron} : (tensor<12x?x4xf32>) -> !spike.train<12x?x4>
  %y = spike.decode %i {{scheme = "membrane", readout = "{readout}"}}
       : (tensor<12x?x4xf32>) -> tensor<?x4xf32>
  func.return %t, %y : !spike.train<12x?x4>, tensor<?x4xf32>
}}"""


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32),
    model=st.sampled_from(["lif", "integrate_fire", "refractory_lif"]),
    reset=st.sampled_from(["subtract", "to_value", "none"]),
    compare=st.sampled_from(["gt", "ge"]),
    readout=st.sampled_from(["mean", "last", "max"]),
)
def test_whole_numbers_stay_what_they_are(
    filled: Filled,
    apply_passes: ApplyPasses,
    seed: int,
    model: str,
    reset: str,
    compare: str,
    readout: str,
) -> None:
    """Decays by halves of potentials that are even: floats and integers do the same."""
    rng = np.random.default_rng(seed)
    unit = 2.0 ** rng.integers(-4, 1, 4)
    options = f'threshold = 4.0 : f64, reset = "{reset}", compare = "{compare}"'
    options += "" if model == "integrate_fire" else ", beta = 0.5 : f64"
    options += ", period = 2.0 : f64" if model == "refractory_lif" else ""
    values = {
        "w": rng.integers(-9, 20, (6, 4)).astype(np.int8),
        "s": unit.astype(np.float32),
        "b": (rng.integers(-3, 4, 4) * unit).astype(np.float32),
    }
    text = NETWORK.format(neuron=f"{model} %i {{{options}}}", readout=readout)
    module = filled(text, values=values)
    x = rng.random((12, 3, 6)) < 0.4
    expected = run_module(module, [x])
    after = apply_passes(module, "quantize-neurons{fraction=15}")
    found = next(op for op in module.walk() if isinstance(op, spike.NeuronOp))
    assert found.name == f"spike.{INTEGER_FORMS[model]}"
    assert "tensor<12x?x4xf32>" not in after
    actual = run_module(module, [x])
    assert np.array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-6)


def test_any_leak_is_near(filled: Filled, apply_passes: ApplyPasses) -> None:
    rng = np.random.default_rng(1)
    values = {
        "w": rng.integers(-60, 128, (6, 4)).astype(np.int8),
        "s": (rng.random(4) * 0.01 + 0.002).astype(np.float32),
        "b": rng.normal(scale=0.05, size=4).astype(np.float32),
    }
    text = NETWORK.format(neuron="lif %i {beta = 0.87 : f64}", readout="mean")
    module = filled(text, values=values)
    x = rng.random((12, 100, 6)) < 0.4
    expected = run_module(module, [x])
    apply_passes(module, "quantize-neurons{fraction=6 decay-bits=10}")
    actual = run_module(module, [x])
    assert (actual[0] == expected[0]).mean() > 0.98
    assert 0.05 < expected[0].mean() < 0.95
    np.testing.assert_allclose(actual[1], expected[1], atol=0.51 * values["s"].max() * 1.01)


@pytest.mark.parametrize(
    "neuron",
    [
        "lif %i {beta = 0.5 : f64, v_leak = 1.0 : f64}",
        "cuba_lif %i {alpha = 0.5 : f64, beta = 0.5 : f64}",
        "lif %i {beta = 0.5 : f64, gain = -1.0 : f64}",
    ],
)
def test_other_neurons_stay(filled: Filled, apply_passes: ApplyPasses, neuron: str) -> None:
    text = NETWORK.format(neuron=neuron, readout="mean")
    ones = np.ones(4, np.float32)
    module = filled(text, values={"w": np.ones((6, 4), np.int8), "s": ones, "b": ones})
    assert f"spike.{neuron.partition(' ')[0]} %i" in apply_passes(module, "quantize-neurons")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fraction": 16}, "expects fraction from 0 to 15, got 16"),
        ({"decay_bits": 0}, "expects decay-bits from 1 to 15, got 0"),
    ],
)
def test_options_are_checked(options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        QuantizeNeuronsPass(**options)
