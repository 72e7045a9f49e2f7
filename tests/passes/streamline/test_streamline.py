"""Networks with quantisers in float as integers: the float program says what must come out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzz.quantised_networks import Network, Product, Quant, computed, onnx_model, samples_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block

from triton_dsl.dialects import tensor
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, dense_constant
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import is_float
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.from_onnx import from_onnx
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.passes.analysis.layers import is_layer
from triton_dsl.passes.streamline import level_functions
from triton_dsl.passes.streamline.input_quantizers import quantizer
from triton_dsl.passes.streamline.level_functions import NoFunctionError, uniform_levels
from triton_dsl.passes.streamline.level_products import weight_grid
from triton_dsl.passes.streamline.streamline import STAYS, StreamlinePass, undecided_sums

from ...lowering.from_onnx.zoo_models import Graph


def streamlined(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    StreamlinePass().apply(Context(), copy)
    copy.verify()
    return copy


def float_layers(module: ModuleOp) -> int:
    return sum(is_layer(op) and is_float(tensor_type(op.results[0])) for op in module.walk())


LAYER = """func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x3xf32> {{
  %one = tensor.constant dense<1.0> : tensor<f32>
  %minus = tensor.constant dense<-1.0> : tensor<f32>
  %zero = tensor.constant dense<0.0> : tensor<f32>
  %i = tensor.compare %x, %zero {{predicate = "{input}"}}
     : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xi1>
  %s = tensor.where %i, %one, %minus : (tensor<?x6xi1>, tensor<f32>, tensor<f32>) -> tensor<?x6xf32>
  %w = ternary.constant {first} : tensor<6x4x!ternary.trit>
  %p = ternary.linear %s, %w : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>
  %a = tensor.constant dense<{scale}> : tensor<4xf32>
  %b = tensor.constant dense<{bias}> : tensor<4xf32>
  %m = tensor.mul %p, %a : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %n = tensor.add %m, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %c = tensor.clamp %n {{min = -2.0 : f64, max = {most}.0 : f64}}
     : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = tensor.round %c : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %v = ternary.constant {second} : tensor<4x3x!ternary.trit>
  %y = ternary.linear %r, %v : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}}"""


def test_padding_of_unsigned_bytes() -> None:
    """Their 0 is at -128 of 8 bits with a sign: what is padded with it needs more bits."""
    block = Product(1, "w", 3, (2, 2), (1, 1), (1, 0, 1, 1), (1, 1), norm="scale")
    blocks = (block, Product(2, "v", 2, (1, 1), (1, 1), (0,) * 4, (1, 1)))
    network = Network(5, ("net", "x", "y"), (2, 3, 4), None, Quant(8, signed=False), blocks)
    blocks = (replace(block, act=Quant(3, scale=8.0)), blocks[1])
    network = replace(network, blocks=blocks)
    module = from_onnx(onnx_model(network))
    run_stages(
        module, [Stage("simple", "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce")]
    )
    made = streamlined(module)
    assert float_layers(made) == 0
    x = samples_of(network, 6)
    np.testing.assert_array_equal(run_module(made, [x])[0], computed(network, x)[0])


PRODUCT = """func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x3xf32> {
  %one = tensor.constant dense<1.0> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %r = tensor.dequantize %x, %one, %z
     : (tensor<?x2xi8>, tensor<f32>, tensor<i8>) -> tensor<?x2xf32>
  %w = ternary.constant [1, -1, 0, 1, 1, 1] : tensor<2x3x!ternary.trit>
  %p = ternary.linear %r, %w : tensor<?x2xf32>, tensor<2x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %p : tensor<?x3xf32>
}"""


def test_a_result_without_integers_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_functions, "MOST_POINTS", 1000)
    made = streamlined(parse_module(PRODUCT))
    (reason,) = [op.attributes[STAYS] for op in made.walk() if STAYS in op.attributes]
    assert "its input has 512 values in each of 3 channels, which is too many" in str(reason)


QUARTERS = st.integers(-12, 12).map(lambda n: n / 4)


@settings(max_examples=25, deadline=None)
@given(
    input=st.sampled_from(["ge", "gt"]),
    first=st.lists(st.integers(-1, 1), min_size=24, max_size=24),
    second=st.lists(st.integers(-1, 1), min_size=12, max_size=12),
    scale=st.lists(QUARTERS, min_size=4, max_size=4),
    bias=st.lists(QUARTERS, min_size=4, max_size=4),
    most=st.integers(0, 5),
)
@example(  # the levels -2 and 1, whose steps of 3 do not hold 0
    input="ge",
    first=[0] * 21 + [1, 0, 0],
    second=[0] * 11 + [1],
    scale=[0, 1.5, 0, 0],
    bias=[0.75, 0, 0.75, 0.75],
    most=1,
)
@example(  # the levels -2, 1 and 2
    input="ge",
    first=[0] * 21 + [1, 0, 0],
    second=[0] * 11 + [1],
    scale=[0, 1.5, 0, 0],
    bias=[0.75, 0, 1.5, -2.5],
    most=2,
)
def test_the_same_numbers_for_every_input(input: str, most: int, **values: Any) -> None:
    """All 64 signs of the inputs; also channels that fall, never change, or are always 0."""
    module = parse_module(LAYER.format(input=input, most=most, **values))
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T
    tiny = np.finfo(np.float32).smallest_subnormal
    x = np.concatenate([signs, np.zeros((1, 6)), signs[::9] * tiny]).astype(np.float32)
    (want,), (got,) = run_module(module, [x]), run_module(streamlined(module), [x])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("scale", [1 / 255, 0.3 / 127, 0.0171])
@pytest.mark.parametrize(("low", "number"), [(0.0, 255), (-128.0, 255), (-5.0, 31)])
def test_rounded_levels_are_evenly_spaced(scale: float, low: float, number: int) -> None:
    """Of n·scale in f32, the least distance of two is too small to count 255 steps by."""
    levels = (np.arange(number + 1, dtype=np.float32) + np.float32(low)) * np.float32(scale)
    found = uniform_levels(levels[np.random.default_rng(0).permutation(number + 1)])
    assert found is not None
    step, lowest, count = found
    assert (lowest, count) == (levels[0], number)
    assert step == pytest.approx(scale, 1e-6)


def test_levels_may_be_some_of_evenly_spaced_ones() -> None:
    """Of n·0.0171 with distances 3 and 4 the step is no distance of two."""
    places = np.array([-70, -66, -63, -59, 0, 3, 4 * 30])
    found = uniform_levels(places.astype(np.float32) * np.float32(0.0171))
    assert found is not None
    assert found[2] == 190
    assert found[0] == pytest.approx(0.0171, 1e-6)


def test_uneven_levels_are_none() -> None:
    assert uniform_levels(np.array([0, 1, np.sqrt(2)], np.float32)) is None
    assert uniform_levels(np.array([0, 1, 300], np.float32)) is None


MEANS = """func.func @forward(%x: tensor<?x1x8x8xi8>) -> tensor<?x1x4x4xi8> {{
  %s = tensor.constant dense<{scale}> : tensor<f32>
  %z = tensor.constant dense<-3> : tensor<i8>
  %r = tensor.dequantize %x, %s, %z
     : (tensor<?x1x8x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x1x8x8xf32>
  %m = tensor.avg_pool %r {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
       padding = array<i64: 0, 0, 0, 0>}} : (tensor<?x1x8x8xf32>) -> tensor<?x1x4x4xf32>
  %q = tensor.quantize %m, %s, %z
     : (tensor<?x1x4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<?x1x4x4xi8>
  func.return %q : tensor<?x1x4x4xi8>
}}"""


@pytest.mark.parametrize(("scale", "exact"), [(0.0137, False), (0.1, False), (0.01171875, True)])
def test_means_at_a_half_are_told(scale: float, exact: bool) -> None:
    """Where f32 holds all sums, they are the program's; else only sums at a half may differ."""
    module = parse_module(MEANS.format(scale=scale))
    made = streamlined(module)
    x = np.random.default_rng(0).integers(-128, 128, (500, 1, 8, 8)).astype(np.int8)
    (want,), (got,) = run_module(module, [x]), run_module(made, [x])
    sums = (x.astype(int) + 3).reshape(-1, 1, 4, 2, 4, 2).sum(axis=(3, 5))
    differ = want != got
    assert not differ[sums % 4 != 2].any()
    assert np.abs(want.astype(int) - got).max() <= 1
    told = undecided_sums(made)
    assert differ.any() == bool(told) == (not exact)
    assert all((mean["undecided"], mean["sums"]) == (255, 1021) for mean in told)


@pytest.mark.parametrize(("weight", "step", "exact"), [(0.1, 0.11, False), (0.125, 0.25, True)])
def test_products_at_a_half_are_told(weight: float, step: float, exact: bool) -> None:
    """11 · 0.25 · 0.1 is half a step more than 2 · 0.11: floats decide by the order of the sum."""
    g = Graph(0)
    x = g.node("MatMul", g.quant("x", 4, 0.25), g.weight((24, 3), 4, weight))
    module = from_onnx(g.model(["N", 24], g.quant(x, 6, step)))
    made = streamlined(module)
    x = np.random.default_rng(0).uniform(-2, 2, (2000, 24)).astype(np.float32)
    (want,), (got,) = run_module(module, [x]), run_module(made, [x])
    steps = np.abs(want - got) / step
    assert (steps > 0.5).any() != exact
    assert steps.max() < 1.5
    told = undecided_sums(made)
    assert bool(told) != exact
    assert all(0 < sums["undecided"] < sums["sums"] / 10 for sums in told)


THRESHOLDS = """func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x3xf32> {
  %t = tensor.constant dense<[[-0.5, 0.5, 1.5]]> : tensor<1x3xf32>
  %n = tensor.multi_threshold %x, %t : (tensor<?x2xf32>, tensor<1x3xf32>) -> tensor<?x2xi8>
  %f = tensor.convert %n : (tensor<?x2xi8>) -> tensor<?x2xf32>
  %w = ternary.constant [1, -1, 0, 1, 1, 1] : tensor<2x3x!ternary.trit>
  %p = ternary.linear %f, %w : tensor<?x2xf32>, tensor<2x3x!ternary.trit> -> tensor<?x3xf32>
  %u = tensor.constant dense<[[-1.0, 2.0], [0.0, 0.0], [3.0, 5.0]]> : tensor<3x2xf32>
  %m = tensor.multi_threshold %p, %u : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x3xi8>
  %g = tensor.convert %m : (tensor<?x3xi8>) -> tensor<?x3xf32>
  %v = ternary.constant [1, 0, 1, 1, -1, 0, 0, 1, 1] : tensor<3x3x!ternary.trit>
  %y = ternary.linear %g, %v : tensor<?x3xf32>, tensor<3x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}"""


def test_counted_thresholds_of_floats() -> None:
    """As FINN has activations: an even one of the input is a quantiser."""
    module = parse_module(THRESHOLDS)
    made = streamlined(module)
    assert float_layers(made) == 0
    x = np.array(np.meshgrid(*[np.arange(-2, 5) / 2] * 2)).reshape(2, -1).T.astype(np.float32)
    x += np.float32(0.1)
    (want,), (got,) = run_module(module, [x]), run_module(made, [x])
    np.testing.assert_array_equal(got, want)


WIDE = """func.func @forward(%x: tensor<?x{inputs}xi8>) -> tensor<?x{outputs}xf32> {{
  %one = tensor.constant dense<1.0> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %r = tensor.dequantize %x, %one, %z
     : (tensor<?x{inputs}xi8>, tensor<f32>, tensor<i8>) -> tensor<?x{inputs}xf32>
  %w = tensor.parameter "w" : tensor<{inputs}x{outputs}xf32>
  %p = tensor.linear %r, %w
     : (tensor<?x{inputs}xf32>, tensor<{inputs}x{outputs}xf32>) -> tensor<?x{outputs}xf32>
  %s = tensor.constant dense<0.0078125> : tensor<f32>
  %m = tensor.mul %p, %s : (tensor<?x{outputs}xf32>, tensor<f32>) -> tensor<?x{outputs}xf32>
  %c = tensor.clamp %m {{min = -3.0 : f64, max = 4.0 : f64}}
     : (tensor<?x{outputs}xf32>) -> tensor<?x{outputs}xf32>
  %f = tensor.floor %c : (tensor<?x{outputs}xf32>) -> tensor<?x{outputs}xf32>
  %v = tensor.parameter "v" : tensor<{outputs}x{outputs}xf32>
  %y = tensor.linear %f, %v
     : (tensor<?x{outputs}xf32>, tensor<{outputs}x{outputs}xf32>) -> tensor<?x{outputs}xf32>
  func.return %y : tensor<?x{outputs}xf32>
}}"""


@pytest.mark.parametrize("channels", [3, 300])
def test_layers_with_many_sums_in_many_channels(channels: int) -> None:
    """As wide as in MobileNets: 120,000 sums in each of 300 channels, in several pieces."""
    rng = np.random.default_rng(0)
    first = rng.integers(-8, 8, (128, channels)).astype(np.float32)
    second = rng.integers(-7, 8, (channels, channels)).astype(np.float32)
    module = parse_module(WIDE.format(inputs=128, outputs=channels))
    attach_store(module, ParameterStore.of({"w": first, "v": second}))
    made = streamlined(module)
    assert float_layers(made) == 0
    x = rng.integers(-128, 128, (40, 128)).astype(np.int8)
    levels = np.floor(np.clip(x.astype(np.float64) @ first / 128, -3, 4))
    np.testing.assert_array_equal(run_module(made, [x])[0], levels @ second)


def test_uneven_thresholds_of_an_input_stay_thresholds() -> None:
    module = parse_module(THRESHOLDS.replace("-0.5, 0.5, 1.5", "-0.5, 0.2, 1.5"))
    made = streamlined(module)
    assert float_layers(made) == 0
    (type, *_) = [tensor_type(value) for value in entry_function(module, "forward").args]
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, [40, *type.get_shape()[1:]]).astype(np.float32)
    np.testing.assert_array_equal(run_module(made, [x])[0], run_module(module, [x])[0])


def test_no_float_product_is_left() -> None:
    values = {"first": [1, -1] * 12, "second": [1, 0, -1] * 4}
    text = LAYER.format(input="ge", most=3, scale=[1.5, -0.5, 2.0, 1.0], bias=[0.25] * 4, **values)
    module = parse_module(text)
    assert float_layers(module) == 2
    made = streamlined(module)
    assert float_layers(made) == 0
    names = [op.name for op in made.walk() if op.name.startswith(("tensor.", "ternary."))]
    kept = [name for name in names if "constant" not in name]
    assert kept[:5] == [
        "tensor.sign", "tensor.quantize", "ternary.linear", "tensor.multi_threshold",
        "ternary.linear",
    ]  # fmt: skip
    assert kept[-1] == "tensor.dequantize"


@pytest.mark.parametrize("last", ["softmax", "exp"])
def test_what_has_no_integers_takes_floats_of_them(last: str) -> None:
    text = f"""func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {{
      %zero = tensor.constant dense<0.0> : tensor<f32>
      %c = tensor.compare %x, %zero {{predicate = "ge"}}
         : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xi1>
      %s = tensor.convert %c : (tensor<?x6xi1>) -> tensor<?x6xf32>
      %w = ternary.constant {[1, -1] * 12} : tensor<6x4x!ternary.trit>
      %p = ternary.linear %s, %w : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>
      %y = tensor.{last} %p : (tensor<?x4xf32>) -> tensor<?x4xf32>
      func.return %y : tensor<?x4xf32>
    }}"""
    module = parse_module(text)
    made = streamlined(module)
    assert float_layers(made) == 0
    x = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    np.testing.assert_array_equal(run_module(made, [x])[0], run_module(module, [x])[0])
    reasons = [op.attributes[STAYS] for op in made.walk() if STAYS in op.attributes]
    assert len(reasons) == 1


def test_sums_that_would_wrap_around_stay_on_floats() -> None:
    """Of 2^24 int8: the least needs 32 bits and a sign, as the largest of i32 has."""
    size = 1 << 24
    text = f"""func.func @forward(%x: tensor<?x{size}xi8>) -> tensor<?x1xf32> {{
      %one = tensor.constant dense<1.0> : tensor<f32>
      %zero = tensor.constant dense<0> : tensor<i8>
      %f = tensor.dequantize %x, %one, %zero
         : (tensor<?x{size}xi8>, tensor<f32>, tensor<i8>) -> tensor<?x{size}xf32>
      %s = tensor.reduce_sum %f {{axes = array<i64: 1>, keepdims = true}}
         : (tensor<?x{size}xf32>) -> tensor<?x1xf32>
      %w = ternary.constant [1] : tensor<1x1x!ternary.trit>
      %p = ternary.linear %s, %w : tensor<?x1xf32>, tensor<1x1x!ternary.trit> -> tensor<?x1xf32>
      func.return %p : tensor<?x1xf32>
    }}"""
    made = streamlined(parse_module(text))
    (total,) = [op for op in made.walk() if op.name == "tensor.reduce_sum"]
    assert is_float(tensor_type(total.results[0]))
    assert "no 32 bits" in str(total.attributes[STAYS])


FLOAT_INPUT = f"""func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x4xf32> {{
  %w = ternary.constant {[1, -1] * 12} : tensor<6x4x!ternary.trit>
  %p = ternary.linear %x, %w : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>
  func.return %p : tensor<?x4xf32>
}}"""


def test_a_float_input_that_nobody_quantises_stays() -> None:
    made = streamlined(parse_module(FLOAT_INPUT))
    (layer,) = [op for op in made.walk() if is_layer(op)]
    assert "needs a quantiser" in str(layer.attributes.pop(STAYS))
    assert str(made) == str(parse_module(FLOAT_INPUT))


def _of_halves(graph: Graph, x: str) -> str:
    """Multiples of 1/2 from -4 to 3.5."""
    return graph.quant(x, 4, 0.5, narrow=False)


def test_networks_without_a_layer() -> None:
    graph = Graph()
    means = graph.node("AveragePool", _of_halves(graph, "x"), kernel_shape=[2, 2], strides=[2, 2])
    module = from_onnx(graph.model(["N", 2, 4, 4], _of_halves(graph, means)))
    made = streamlined(module)
    x = np.random.default_rng(4).normal(size=(9, 2, 4, 4)).astype(np.float32) * 3
    halves = np.clip(np.rint(x * 2), -8, 7).reshape(9, 2, 2, 2, 2, 2).mean(axis=(3, 5))
    np.testing.assert_array_equal(run_module(made, [x])[0], np.rint(halves) / 2)
    assert not any(isinstance(op, tensor.RoundOp | tensor.AvgPoolOp) for op in made.walk())


@pytest.mark.parametrize("fill", [0.0, -1.0, 100.0])
def test_known_places_and_pads_go_along(fill: float) -> None:
    graph = Graph()
    picked = graph.node("Gather", _of_halves(graph, "x"), graph.constant([2, 0, 0]), axis=2)
    pads = graph.constant(np.array([0, 0, 1, 0, 1, 0]))
    padded = graph.node("Pad", picked, pads, graph.constant(np.array(fill)))
    module = from_onnx(graph.model(["N", 2, 3], padded))
    made = streamlined(module)
    x = np.random.default_rng(5).normal(size=(9, 2, 3)).astype(np.float32) * 3
    halves = (np.clip(np.rint(x * 2), -8, 7) / 2)[:, :, [2, 0, 0]]
    expected = np.pad(halves, [(0, 0), (0, 1), (1, 0)], constant_values=fill)
    np.testing.assert_array_equal(run_module(made, [x])[0], expected)
    assert [op.name for op in made.walk()][-2] == "tensor.dequantize"


def test_an_input_may_be_stated() -> None:
    module = parse_module(FLOAT_INPUT)
    made = module.clone()
    StreamlinePass(inputs="x:int4*0.5").apply(Context(), made)
    assert float_layers(made) == 0
    x = np.random.default_rng(1).integers(-8, 8, (9, 6)).astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(run_module(made, [x])[0], run_module(module, [x])[0])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("y:int8", "no argument is called 'y'; there are x"),
        ("x", "'' is no type"),
        ("x:int4;x:uint3", "'x' is stated twice"),
        ("x:int9", "'int9' is no type"),
        ("x:int1", "'int1' is no type"),
        ("x:int8*0", "is no type"),
        ("x:int8*1e99", "is no type"),
        ("x:int8*-1", "is no type"),
    ],
)
def test_what_is_stated_wrongly_is_an_error(inputs: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        StreamlinePass(inputs=inputs).apply(Context(), parse_module(FLOAT_INPUT))


WEIGHTS = st.integers(-127, 127)


@settings(max_examples=40, deadline=None)
@given(
    integers=st.lists(WEIGHTS, min_size=12, max_size=12),
    scales=st.lists(st.floats(2.0**-12, 4.0, width=32), min_size=4, max_size=4),
    shared=st.booleans(),
)
@example(integers=[2, 5] * 6, scales=[0.1] * 4, shared=True)
@example(integers=[0] * 12, scales=[0.1] * 4, shared=False)
@example(integers=[127, -126] * 6, scales=[0.1, 0.3, 1 / 3, 2.0], shared=False)
def test_scales_of_weights_are_found(integers: Any, scales: Any, shared: bool) -> None:
    """Whole numbers times a scale, one or one a channel, rounded to f32: what comes back."""
    whole = np.reshape(integers, (3, 4))
    scale = np.float32(scales[0]) if shared else np.array(scales, np.float32)
    values = whole.astype(np.float32) * scale
    block = Block(arg_types=[TensorType(f32, [1, 3])])
    block.add_op(weight := dense_constant(values, f32))
    block.add_op(layer := tensor.LinearOp(block.args[0], weight.result))
    grid = weight_grid(layer)
    assert np.abs(grid.integers).max() <= 127
    np.testing.assert_allclose(grid.integers * grid.scale, values, rtol=3e-7)


def test_weights_of_any_size_are_on_no_grid() -> None:
    values = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    block = Block(arg_types=[TensorType(f32, [1, 8])])
    block.add_op(weight := dense_constant(values, f32))
    block.add_op(layer := tensor.LinearOp(block.args[0], weight.result))
    with pytest.raises(NoFunctionError, match="evenly spaced"):
        weight_grid(layer)


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(2.0**-10, 8.0, width=32),
    zero=st.integers(-20, 20),
    number=st.integers(1, 15),
)
def test_quantisers_of_inputs_are_found(scale: float, zero: int, number: int) -> None:
    """Any quantiser is found again from its levels and their distance."""

    def counts(x: Any) -> Any:
        with np.errstate(all="ignore"):
            steps = np.rint(x / np.float32(scale)) + np.float32(zero)
        return np.clip(steps.astype(np.float64), 0, number).astype(np.int64)

    found = quantizer(counts, number, scale)
    assert found is not None
    step, shift, of_sign = found
    assert not of_sign
    rng = np.random.default_rng(number)
    x = (rng.uniform(-2, number + 2, 4000) * scale - zero * scale).astype(np.float32)
    got = np.clip(np.rint(x / np.float32(step)) + shift, 0, number)
    np.testing.assert_array_equal(got, counts(x))


@pytest.mark.parametrize("factor", [1.0, 0.1, 1 / 255])
@pytest.mark.parametrize("reached", [np.greater, np.greater_equal])
def test_a_step_at_zero_needs_no_subnormal_scale(reached: Any, factor: float) -> None:
    """Products that become 0 move the step to a subnormal number; normal ones are kept."""
    info = np.finfo(np.float32)
    ends = np.array([info.tiny, 0.1, 1.0, 9.0, info.max], np.float32)
    x = np.concatenate([-ends, ends, [0.0, -0.0]]).astype(np.float32)

    def counts(x: Any) -> Any:
        return reached(x * np.float32(factor), 0).astype(np.int64)

    found = quantizer(counts, 1, None)
    assert found is not None
    assert found.scale >= info.tiny
    got = np.clip(np.rint(np.sign(x) / np.float32(found.scale)) + found.zero_point, 0, 1)
    np.testing.assert_array_equal(got, x > 0 if reached is np.greater else x >= 0)
    if factor == 1.0:
        least = np.array([-1, 1], np.float32) * info.smallest_subnormal
        got = np.clip(np.rint(np.sign(least)) + found.zero_point, 0, 1)
        np.testing.assert_array_equal(got, [0, 1])


def test_steps_of_any_size_are_no_quantiser() -> None:
    edges = np.array([0.0, 1.0, 5.0], np.float32)

    def counts(x: Any) -> Any:
        return np.searchsorted(edges, x, side="right")

    assert quantizer(counts, 3, None) is None


def test_the_pass_has_a_name_in_pipelines() -> None:
    module = parse_module(
        LAYER.format(input="ge", most=1, first=[1] * 24, second=[1] * 12, scale=[1.0] * 4,
                     bias=[0.0] * 4)
    )  # fmt: skip
    run_stages(module, [Stage("all", "streamline,canonicalize,cse,dce")])
    assert float_layers(module) == 0
