"""`optimize-adder-graph` changes no bit of an integer program and leaves float products alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import parameter_value, parameters
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.adder_graph import InputRange
from triton_dsl.passes.adder_graph.optimize_adder_graph import OptimizeAdderGraphPass, input_range

pytestmark = pytest.mark.usefixtures("whole_searches")

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]
Samples = Callable[..., list[Array]]

PASS = "optimize-adder-graph{time-budget=0.002}"

STEPS = {
    "none": ("", ""),
    "relu": ("", 'activation = "relu"'),
    "thresholds": ("thresholds(%t : tensor<{n}x3xi32>)", 'activation = "none"'),
    "requantize": (
        "multiplier(%m : tensor<{n}xi32>) shift(%s : tensor<i32>) zero_point(%z : tensor<i8>)",
        'activation = "relu", low = -8 : i64, high = 7 : i64',
    ),
}
RESULTS = {"none": "i32", "relu": "i32", "thresholds": "i8", "requantize": "i8"}


def linear(k: int, n: int, bias: bool, after: str, element: str, batch: str) -> str:
    operands, properties = STEPS[after]
    first = f"bias(%b : tensor<{n}xi32>) " if bias else ""
    return f"""
func.func @forward(%x: tensor<{batch}{k}x{element}>) -> tensor<{batch}{n}x{RESULTS[after]}> {{
  %w = ternary.parameter "fc.weight" : tensor<{k}x{n}x!ternary.trit>
  %b = tensor.parameter "fc.bias" : tensor<{n}xi32>
  %t = tensor.parameter "t" : tensor<{n}x3xi32>
  %m = tensor.parameter "m" : tensor<{n}xi32>
  %s = tensor.constant dense<3> : tensor<i32>
  %z = tensor.constant dense<1> : tensor<i8>
  %y = ternary.linear %x, %w {first}{operands.format(n=n)} {{{properties}}}
       : tensor<{batch}{k}x{element}>, tensor<{k}x{n}x!ternary.trit>
       -> tensor<{batch}{n}x{RESULTS[after]}>
  func.return %y : tensor<{batch}{n}x{RESULTS[after]}>
}}"""


def sorted_thresholds(n: int) -> Array:
    return np.sort(np.random.default_rng(0).integers(-200, 200, (n, 3)).astype(np.int32), axis=1)


@given(
    k=st.integers(1, 9),
    n=st.integers(1, 9),
    bias=st.booleans(),
    after=st.sampled_from(list(STEPS)),
    element=st.sampled_from(["i8", "ui8", "i16", "i32", "!ternary.trit"]),
    batch=st.sampled_from(["?x", "?x2x"]),
    seed=st.integers(0, 99),
)
def test_same_bits(
    filled: Filled,
    apply_passes: Apply,
    samples: Samples,
    k: int,
    n: int,
    bias: bool,
    after: str,
    element: str,
    batch: str,
    seed: int,
) -> None:
    text = linear(k, n, bias, after, element, batch)
    module = filled(text, seed, {"t": sorted_thresholds(n)})
    inputs = samples(module, seed)
    before = run_module(module, inputs)
    (weight,) = (parameter_value(p) for p in parameters(module) if p.key.data == "fc.weight")
    apply_passes(module, PASS)
    ops = [op for op in module.walk() if op.dialect_name() == "ternary"]
    (graph,) = ops
    assert isinstance(graph, ternary.AdderGraphOp)
    assert np.array_equal(graph.matrix(), weight)
    (after_,) = run_module(module, inputs)
    assert after_.dtype == before[0].dtype
    assert np.array_equal(after_, before[0])


def test_matmul_of_a_vector(filled: Filled, apply_passes: Apply, samples: Samples) -> None:
    module = filled(
        """
func.func @forward(%x: tensor<6xi8>) -> tensor<4xi32> {
  %w = ternary.parameter "w" : tensor<6x4x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<6xi8>, tensor<6x4x!ternary.trit> -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}"""
    )
    inputs = samples(module)
    before = run_module(module, inputs)
    text = apply_passes(module, PASS)
    assert 'ternary.weight = "w"' in text and "ternary.parameter" not in text
    assert np.array_equal(run_module(module, inputs)[0], before[0])


LEFT_ALONE = {
    "floats": """
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %w = ternary.parameter "w" : tensor<4x2x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x4xf32>, tensor<4x2x!ternary.trit> -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}""",
    "batched weight": """
func.func @forward(%x: tensor<3x2x4xi8>) -> tensor<3x2x2xi32> {
  %w = ternary.parameter "w" : tensor<3x4x2x!ternary.trit>
  %y = ternary.matmul %x, %w
       : tensor<3x2x4xi8>, tensor<3x4x2x!ternary.trit> -> tensor<3x2x2xi32>
  func.return %y : tensor<3x2x2xi32>
}""",
    "weight from outside": """
func.func @forward(%x: tensor<?x4xi8>, %w: tensor<4x2x!ternary.trit>) -> tensor<?x2xi32> {
  %y = ternary.linear %x, %w : tensor<?x4xi8>, tensor<4x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}""",
    "convolution": """
func.func @forward(%x: tensor<?x1x3x3xi8>) -> tensor<?x2x2x2xi32> {
  %w = ternary.parameter "w" : tensor<2x1x2x2x!ternary.trit>
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x1x3x3xi8>, tensor<2x1x2x2x!ternary.trit> -> tensor<?x2x2x2xi32>
  func.return %y : tensor<?x2x2x2xi32>
}""",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_left_alone(filled: Filled, apply_passes: Apply, what: str) -> None:
    module = filled(LEFT_ALONE[what])
    before = str(module)
    assert apply_passes(module, PASS) == before


def test_without_weights_nothing_changes(apply_passes: Apply) -> None:
    module = parse_module(linear(3, 2, False, "none", "i8", "?x"))
    before = str(module)
    assert apply_passes(module, PASS) == before


def test_shared_weight_stays_for_its_other_user(filled: Filled, apply_passes: Apply) -> None:
    module = filled(
        """
func.func @forward(%x: tensor<?x4xi8>, %f: tensor<?x4xf32>)
    -> (tensor<?x2xi32>, tensor<?x2xf32>) {
  %w = ternary.parameter "w" : tensor<4x2x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x4xi8>, tensor<4x2x!ternary.trit> -> tensor<?x2xi32>
  %g = ternary.linear %f, %w : tensor<?x4xf32>, tensor<4x2x!ternary.trit> -> tensor<?x2xf32>
  func.return %y, %g : tensor<?x2xi32>, tensor<?x2xf32>
}"""
    )
    text = apply_passes(module, PASS)
    assert "ternary.adder_graph %x" in text and "ternary.linear %f, %w" in text


RANGES = {
    "%x": (-128, 127),
    "%u": (0, 255),
    "%i": (0, 1),
    "%trits": (-1, 1),
    "%counts": (0, 3),
    "%moved": (-8, 7),
}


@pytest.mark.parametrize("name", RANGES)
def test_input_range(name: str) -> None:
    module = parse_module(
        """
func.func @forward(%x: tensor<2x4xi8>, %u: tensor<2x4xui8>, %i: tensor<2x4xi1>,
                   %trits: tensor<2x4x!ternary.trit>, %f: tensor<2x4xf32>,
                   %t: tensor<1x3xi8>, %scale: tensor<f32>, %zero: tensor<i8>) {
  %counts = tensor.multi_threshold %x, %t : (tensor<2x4xi8>, tensor<1x3xi8>) -> tensor<2x4xi8>
  %q = tensor.quantize %f, %scale, %zero {low = -8 : i64, high = 7 : i64}
       : (tensor<2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4xi8>
  %moved = tensor.permute %q {perm = array<i64: 1, 0>} : (tensor<2x4xi8>) -> tensor<4x2xi8>
  func.return
}"""
    )
    results = [value for op in module.walk() for value in op.results]
    arguments = [
        value for op in module.walk() for r in op.regions for b in r.blocks for value in b.args
    ]
    (value,) = (v for v in (*results, *arguments) if v.name_hint == name[1:])
    assert input_range(value) == InputRange(*RANGES[name])


@pytest.mark.parametrize(
    "options",
    [
        {"cost": "area"},
        {"max_depth": -1},
        {"time_budget": -1},
        {"time_budget": float("inf")},
        {"time_budget": float("nan")},
        {"input_bits": 0},
        {"input_bits": 33},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        OptimizeAdderGraphPass(**options)


def test_depth_that_no_graph_has(filled: Filled, apply_passes: Apply) -> None:
    values = {"fc.weight": np.ones((9, 2), np.int8)}
    module = filled(linear(9, 2, False, "none", "i8", "?x"), 0, values)
    with pytest.raises(OptionError, match="9 nonzeros needs 4"):
        apply_passes(module, "optimize-adder-graph{max-depth=3}")
