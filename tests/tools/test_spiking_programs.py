"""The tools on programs with spike trains: inputs from files, and which must agree bit for bit."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.tools.draws import random_arrays
from triton_dsl.tools.inputs import bind_inputs
from triton_dsl.tools.verify import is_integer_program

PROGRAM = """
func.func @forward(%s: !spike.train<5x?x4>) -> !spike.train<5x?x3> {{
  %w = tensor.constant dense<1> : tensor<4x3xi8>
  %i = spike.linear %s, %w : !spike.train<5x?x4>, tensor<4x3xi8> -> tensor<5x?x3xi32>
  {neuron}
  func.return %o : !spike.train<5x?x3>
}}"""

EXACT = "%o = spike.integrate_fire %i : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>"
FLOAT = """%f = tensor.convert %i : (tensor<5x?x3xi32>) -> tensor<5x?x3xf32>
  %o = spike.lif %f {beta = 0.9 : f64} : (tensor<5x?x3xf32>) -> !spike.train<5x?x3>"""


def program(neuron: str = EXACT) -> ModuleOp:
    return parse_module(PROGRAM.format(neuron=neuron))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float32])
def test_trains_come_from_files_of_any_number_type(dtype: Any) -> None:
    spikes = np.random.default_rng(0).random((5, 2, 4)) < 0.5
    (bound,) = bind_inputs(program(), {"s": spikes.astype(dtype)})
    assert bound.dtype == np.bool_
    np.testing.assert_array_equal(bound, spikes)


def test_inputs_that_are_no_trains_are_refused() -> None:
    with pytest.raises(OptionError, match=r"expected !spike\.train<5x\?x4>, got float64"):
        bind_inputs(program(), {"s": np.full((5, 2, 4), 0.5)})
    with pytest.raises(OptionError, match=r"expected !spike\.train<5x\?x4>, got bool\[4, 2, 4\]"):
        bind_inputs(program(), {"s": np.ones((4, 2, 4), bool)})


def test_random_trains() -> None:
    (spikes,) = random_arrays(program(), 3, 0)
    assert spikes.shape == (5, 3, 4) and spikes.dtype == np.bool_


def test_integer_neurons_must_agree_bit_for_bit() -> None:
    assert is_integer_program(program())
    assert not is_integer_program(program(FLOAT))
