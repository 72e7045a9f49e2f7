"""Integer arithmetic in the place of float: against exact rationals, floats and real engines."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, TensorType

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.dialects.shapes import is_float
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)

Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]
Array = NDArray[Any]

MLP = """
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x10xf32> {
  %w1 = ternary.parameter "fc1.weight" : tensor<64x128x!ternary.trit>
  %s1 = tensor.parameter "fc1.scale" : tensor<128xf32>
  %b1 = tensor.parameter "fc1.bias" : tensor<128xf32>
  %p = ternary.linear %x, %w1 scale(%s1 : tensor<128xf32>) bias(%b1 : tensor<128xf32>)
       : tensor<?x64xf32>, tensor<64x128x!ternary.trit> -> tensor<?x128xf32>
  %h = tensor.relu %p : (tensor<?x128xf32>) -> tensor<?x128xf32>
  %w2 = ternary.parameter "fc2.weight" : tensor<128x10x!ternary.trit>
  %s2 = tensor.parameter "fc2.scale" : tensor<10xf32>
  %b2 = tensor.parameter "fc2.bias" : tensor<10xf32>
  %y = ternary.linear %h, %w2 scale(%s2 : tensor<10xf32>) bias(%b2 : tensor<10xf32>)
       : tensor<?x128xf32>, tensor<128x10x!ternary.trit> -> tensor<?x10xf32>
  func.return %y : tensor<?x10xf32>
}
"""

CNN = """
func.func @forward(%x: tensor<?x1x8x8xf32>) -> tensor<?x10xf32> {
  %w1 = ternary.parameter "conv1.weight" : tensor<16x1x3x3x!ternary.trit>
  %c1 = ternary.conv %x, %w1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
        dilation = array<i64: 1, 1>}
        : tensor<?x1x8x8xf32>, tensor<16x1x3x3x!ternary.trit> -> tensor<?x16x8x8xf32>
  %g1 = tensor.parameter "norm1.gamma" : tensor<16xf32>
  %b1 = tensor.parameter "norm1.beta" : tensor<16xf32>
  %m1 = tensor.parameter "norm1.mean" buffer : tensor<16xf32>
  %v1 = tensor.parameter "norm1.var" buffer : tensor<16xf32>
  %n1 = tensor.batch_norm %c1, %g1, %b1, %m1, %v1 : (tensor<?x16x8x8xf32>, tensor<16xf32>,
        tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<?x16x8x8xf32>
  %a1 = tensor.relu %n1 : (tensor<?x16x8x8xf32>) -> tensor<?x16x8x8xf32>
  %w2 = ternary.parameter "conv2.weight" : tensor<16x16x3x3x!ternary.trit>
  %s2 = tensor.parameter "conv2.scale" : tensor<16xf32>
  %c2 = ternary.conv %a1, %w2 scale(%s2 : tensor<16xf32>) {strides = array<i64: 1, 1>,
        padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
        : tensor<?x16x8x8xf32>, tensor<16x16x3x3x!ternary.trit> -> tensor<?x16x8x8xf32>
  %sum = tensor.add %c2, %a1
         : (tensor<?x16x8x8xf32>, tensor<?x16x8x8xf32>) -> tensor<?x16x8x8xf32>
  %a2 = tensor.relu %sum : (tensor<?x16x8x8xf32>) -> tensor<?x16x8x8xf32>
  %p2 = tensor.max_pool %a2 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
        padding = array<i64: 1, 1, 1, 1>} : (tensor<?x16x8x8xf32>) -> tensor<?x16x4x4xf32>
  %w3 = ternary.parameter "conv3.weight" : tensor<24x8x1x1x!ternary.trit>
  %b3 = tensor.parameter "conv3.bias" : tensor<24xf32>
  %c3 = ternary.conv %p2, %w3 bias(%b3 : tensor<24xf32>) {activation = "relu6", groups = 2 : i64,
        strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
        dilation = array<i64: 1, 1>}
        : tensor<?x16x4x4xf32>, tensor<24x8x1x1x!ternary.trit> -> tensor<?x24x4x4xf32>
  %both = tensor.concatenate %c3, %p2 {axis = 1 : i64}
          : (tensor<?x24x4x4xf32>, tensor<?x16x4x4xf32>) -> tensor<?x40x4x4xf32>
  %avg = tensor.avg_pool %both {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>,
         padding = array<i64: 1, 1, 1, 1>} : (tensor<?x40x4x4xf32>) -> tensor<?x40x4x4xf32>
  %all = tensor.global_avg_pool %avg : (tensor<?x40x4x4xf32>) -> tensor<?x40x1x1xf32>
  %flat = tensor.flatten %all : (tensor<?x40x1x1xf32>) -> tensor<?x40xf32>
  %w4 = ternary.parameter "fc.weight" : tensor<40x10x!ternary.trit>
  %b4 = tensor.parameter "fc.bias" : tensor<10xf32>
  %y = ternary.linear %flat, %w4 bias(%b4 : tensor<10xf32>)
       : tensor<?x40xf32>, tensor<40x10x!ternary.trit> -> tensor<?x10xf32>
  func.return %y : tensor<?x10xf32>
}
"""

SHAPES = {"mlp": (64,), "cnn": (1, 8, 8)}


def network(filled: Filled, name: str, seed: int) -> ModuleOp:
    rng = np.random.default_rng(seed)
    if name == "mlp":
        values = {
            "fc1.scale": rng.uniform(0.05, 0.2, 128).astype(np.float32),
            "fc2.scale": rng.uniform(0.05, 0.2, 10).astype(np.float32),
        }
        return filled(MLP, seed, values)
    values = {"conv2.scale": (rng.normal(size=16) * 0.1).astype(np.float32)}
    return filled(CNN, seed, values)


def integer_model(
    filled: Filled, apply_passes: ApplyPasses, name: str, seed: int, **options: Any
) -> tuple[ModuleOp, ModuleOp, Array]:
    """A float network, the integer one made of it, and the samples it was calibrated on."""
    module = network(filled, name, seed)
    x = np.random.default_rng(seed).normal(size=(300, *SHAPES[name])).astype(np.float32)
    integer = module.clone()
    given = QuantizeActivationsPass(**options)
    quantize(integer, calibrate(integer, [(x,)], given), given)
    apply_passes(integer, "requantize")
    return module, integer, x


def float_ops(module: ModuleOp) -> list[str]:
    """The ops that compute on floats."""
    return [
        op.name
        for op in module.walk()
        if op.name.startswith(("tensor.", "ternary."))
        and not isinstance(op, tensor.ConstantOp | tensor.ParameterOp | ternary.ParameterOp)
        and any(isinstance(r.type, TensorType) and is_float(r.type) for r in op.results)
    ]


VARIANTS = [{}, {"symmetric": False}, {"signed": False}, {"bits": 6, "observer": "mse"}]


@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_body_is_integer_and_agrees(
    filled: Filled, apply_passes: ApplyPasses, name: str, options: dict[str, Any]
) -> None:
    module, integer, x = integer_model(filled, apply_passes, name, 0, **options)
    assert float_ops(integer) == ["tensor.dequantize"]
    assert sum(isinstance(op, tensor.QuantizeOp) for op in integer.walk()) == 1
    (expected,), (actual,) = run_module(module, [x]), run_module(integer, [x])
    agreement = np.mean(expected.argmax(1) == actual.argmax(1))
    assert agreement >= (0.95 if "bits" not in options else 0.85)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("symmetric", [True, False])
def test_errors_stay_within_the_analytic_bound(
    filled: Filled, apply_passes: ApplyPasses, seed: int, symmetric: bool
) -> None:
    module = network(filled, "mlp", seed)
    x = np.random.default_rng(seed).normal(size=(300, 64)).astype(np.float32)
    given = QuantizeActivationsPass(symmetric=symmetric)
    ranges = calibrate(module, [(x,)], given)
    integer = module.clone()
    quantize(integer, ranges, given)
    apply_passes(integer, "requantize")
    steps = [
        given.grid(f"fc{i}.weight").quantization(ranges[f"fc{i}.weight"]).scale for i in (1, 2)
    ]
    values = {
        op.key.data: np.abs(array.astype(np.float64))
        for op in module.walk()
        if isinstance(op, tensor.ParameterOp | ternary.ParameterOp)
        and (array := literal_value(op.result)) is not None
    }
    # Rounding of the input; of the hidden values, where relu and the bounds only bring values
    # closer; and of the last bias. A step of the grid more where the zero point was rounded.
    ends = 0.0 if symmetric else 1.0
    first = (0.5 + ends) * steps[0] * values["fc1.weight"].sum(0) * values["fc1.scale"]
    hidden = first + (0.75 + ends) * steps[1]
    bound = (hidden @ values["fc2.weight"] + 0.5 * steps[1]) * values["fc2.scale"] + 1e-4
    (expected,), (actual,) = run_module(module, [x]), run_module(integer, [x])
    assert np.all(np.abs(actual - expected) <= bound)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", VARIANTS[0]),
        *(("cnn", each) for each in VARIANTS[:2]),
        *(pytest.param("cnn", each, marks=pytest.mark.slow) for each in VARIANTS[2:]),
    ],
    ids=str,
)
def test_real_engines_agree_bit_for_bit(
    filled: Filled, apply_passes: ApplyPasses, name: str, options: dict[str, Any]
) -> None:
    for engine in ("torch", "onnxruntime", "llvmlite", "ai_edge_litert"):
        pytest.importorskip(engine)
    from triton_dsl.tools.verify import verify_module as verify_on_engines

    _, integer, x = integer_model(filled, apply_passes, name, 1, **options)
    # Larger inputs than the calibrated ones reach every bound.
    rows = verify_on_engines(integer, [np.concatenate([x, 30 * x])])
    assert [row.target for row in rows] == ["pytorch", "onnx", "native", "tflite"]
    assert all(row.bit_exact for row in rows), rows


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_repetition_places_and_names(filled: Filled, apply_passes: ApplyPasses, name: str) -> None:
    _, integer, _ = integer_model(filled, apply_passes, name, 2)
    _, again, _ = integer_model(filled, apply_passes, name, 2)
    text = str(integer)
    assert str(again) == text
    assert apply_passes(integer, "requantize") == text
    for op in integer.walk():
        if op.name.startswith(("tensor.", "ternary.")):
            assert isinstance(op.location, FileLineColLoc), op
    assert "%y = tensor.dequantize" in text


def rescaled(apply_passes: ApplyPasses, body: str, inputs: list[Array]) -> tuple[Array, str]:
    """What `body` gives as integers, and the text of the integer program."""
    module = parse_module(body)
    text = apply_passes(module, "requantize")
    assert "tensor.quantize" not in text, text
    (result,) = run_module(module, inputs)
    return result, text


def exact_level(value: Fraction, step: float, zero: int, low: int, high: int) -> Fraction:
    """The real number that quantising rounds, cut to the grid."""
    return min(max(value / Fraction(step) + zero, Fraction(low)), Fraction(high))


scales = st.floats(-20, 0).map(lambda e: float(np.float32(2.0**e)))
offsets = st.floats(-200, 200, width=32)
EVERY_INTEGER = np.arange(-128, 128, dtype=np.int8)


def attribute(number: float) -> str:
    """An f32 as MLIR text, with enough digits to come back the same."""
    return f"dense<{np.float32(number):.9e}>"


@given(st.data(), st.sampled_from(["none", "relu", "relu6", "hard_tanh"]))
def test_one_term_is_within_a_step_of_the_exact_value(
    apply_passes: ApplyPasses, data: st.DataObject, activation: str
) -> None:
    step = data.draw(scales)
    scale = data.draw(scales)
    factor = data.draw(st.floats(-4, 4, width=32))
    offset = float(np.float32(data.draw(offsets) * step))
    zero = data.draw(st.integers(-128, 127))
    source_zero = data.draw(st.sampled_from([0, -128, 17]))
    low, high = data.draw(st.sampled_from([(-128, 127), (-127, 127), (0, 15), (-1, 1)]))
    zero = min(max(zero, low), high)
    clamp = (
        f"%c = tensor.{activation} %b : (tensor<?xf32>) -> tensor<?xf32>"
        if activation != "none"
        else "%c = tensor.neg %n : (tensor<?xf32>) -> tensor<?xf32>"
    )
    body = f"""
    func.func @forward(%x: tensor<?xi8>) -> tensor<?xi8> {{
      %s = tensor.constant {attribute(scale)} : tensor<f32>
      %f = tensor.constant {attribute(factor)} : tensor<f32>
      %o = tensor.constant {attribute(offset)} : tensor<f32>
      %t = tensor.constant {attribute(step)} : tensor<f32>
      %z = tensor.constant dense<{source_zero}> : tensor<i8>
      %zq = tensor.constant dense<{zero}> : tensor<i8>
      %d = tensor.dequantize %x, %s, %z {{axis = 0 : i64}}
           : (tensor<?xi8>, tensor<f32>, tensor<i8>) -> tensor<?xf32>
      %a = tensor.mul %d, %f : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
      %b = tensor.add %o, %a : (tensor<f32>, tensor<?xf32>) -> tensor<?xf32>
      %n = tensor.neg %b : (tensor<?xf32>) -> tensor<?xf32>
      {clamp}
      %q = tensor.quantize %c, %t, %zq {{axis = 0 : i64, low = {low} : i64, high = {high} : i64}}
           : (tensor<?xf32>, tensor<f32>, tensor<i8>) -> tensor<?xi8>
      func.return %q : tensor<?xi8>
    }}
    """
    result, _ = rescaled(apply_passes, body, [EVERY_INTEGER])
    bounds = {"relu": (0, 10**9), "relu6": (0, 6), "hard_tanh": (-1, 1)}
    # Terms that are millions of steps and cancel leave the common grid few extra bits.
    loss = Fraction(256 * scale * abs(factor) / step + abs(offset / step)) / 2**28
    least, most = bounds.get(activation, (-(10**9), 10**9))
    for integer, level in zip(EVERY_INTEGER.tolist(), result.tolist(), strict=True):
        value = (integer - source_zero) * Fraction(scale) * Fraction(factor) + Fraction(offset)
        value = min(max(value, Fraction(least)), Fraction(most))
        error = abs(level - exact_level(value, step, zero, low, high))
        assert error <= Fraction(3, 4) + Fraction(1, 1000) + loss


@given(st.lists(st.tuples(scales, st.sampled_from([1, -1])), min_size=2, max_size=4), scales)
def test_sums_are_within_a_step_of_the_exact_value(
    apply_passes: ApplyPasses, terms: list[tuple[float, int]], step: float
) -> None:
    names = [f"x{i}" for i in range(len(terms))]
    lines = ["%z = tensor.constant dense<0> : tensor<i8>"]
    for name, (scale, _) in zip(names, terms, strict=True):
        lines += [
            f"%s{name} = tensor.constant {attribute(scale)} : tensor<f32>",
            f"%d{name} = tensor.dequantize %{name}, %s{name}, %z {{axis = 0 : i64}}"
            " : (tensor<?xi8>, tensor<f32>, tensor<i8>) -> tensor<?xf32>",
        ]
    total = f"d{names[0]}"
    for name, (_, sign) in list(zip(names, terms, strict=True))[1:]:
        op = "add" if sign > 0 else "sub"
        lines.append(
            f"%t{name} = tensor.{op} %{total}, %d{name}"
            " : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"
        )
        total = f"t{name}"
    arguments = ", ".join(f"%{name}: tensor<?xi8>" for name in names)
    body = f"""
    func.func @forward({arguments}) -> tensor<?xi8> {{
      {chr(10).join(lines)}
      %t = tensor.constant {attribute(step)} : tensor<f32>
      %q = tensor.quantize %{total}, %t, %z {{axis = 0 : i64}}
           : (tensor<?xf32>, tensor<f32>, tensor<i8>) -> tensor<?xi8>
      func.return %q : tensor<?xi8>
    }}
    """
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, 100).astype(np.int8) for _ in terms]
    result, _ = rescaled(apply_passes, body, inputs)
    signs = [1, *(sign for _, sign in terms[1:])]
    for position, level in enumerate(result.tolist()):
        value = sum(
            sign * int(x[position]) * Fraction(scale)
            for x, sign, (scale, _) in zip(inputs, signs, terms, strict=True)
        )
        error = abs(level - exact_level(Fraction(value), step, 0, -128, 127))
        # With scales far above the step the common grid has fewer extra bits.
        loss = Fraction(sum(128 * scale for scale, _ in terms) / step) / 2**29 * len(terms)
        assert error <= Fraction(1, 2) + Fraction(1, 2**12) + loss


def test_unknown_weights_cannot_overflow(apply_passes: ApplyPasses) -> None:
    body = """
    func.func @forward(%x: tensor<?x3xi32>) -> tensor<?x3xi8> {
      %s = tensor.constant dense<[0.5, -0.25, 1.0e-9]> : tensor<3xf32>
      %b = tensor.constant dense<[1.0e7, 3.0, -1.0]> : tensor<3xf32>
      %t = tensor.constant dense<1.0> : tensor<f32>
      %z32 = tensor.constant dense<0> : tensor<i32>
      %z = tensor.constant dense<0> : tensor<i8>
      %d = tensor.dequantize %x, %s, %z32
           : (tensor<?x3xi32>, tensor<3xf32>, tensor<i32>) -> tensor<?x3xf32>
      %a = tensor.add %d, %b : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
      %q = tensor.quantize %a, %t, %z
           : (tensor<?x3xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3xi8>
      func.return %q : tensor<?x3xi8>
    }
    """
    edge = 2**31 - 1
    x = np.array(
        [[edge, edge, edge], [-edge - 1, -edge - 1, 0], [-(2 * 10**7), 12, edge]], np.int32
    )
    result, _ = rescaled(apply_passes, body, [x])
    np.testing.assert_array_equal(result, [[127, -128, 1], [-128, 127, -1], [0, 0, 1]])


def test_dead_channels_keep_their_bias(filled: Filled, apply_passes: ApplyPasses) -> None:
    weight = np.random.default_rng(0).integers(-1, 2, (64, 128)).astype(np.int8)
    weight[:, 5] = 0
    values = {"fc1.weight": weight, "fc1.scale": np.full(128, 0.1, np.float32)}
    values["fc1.scale"][5] = 0
    module = filled(MLP, 0, values)
    x = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
    integer = module.clone()
    quantize(integer, calibrate(integer, [(x,)]))
    text = apply_passes(integer, "requantize")
    assert text.count("ternary.linear") == 2 and "tensor.add" not in text
    (expected,), (actual,) = run_module(module, [x]), run_module(integer, [x])
    assert np.abs(actual - expected).max() < 0.05 * np.abs(expected).max()


def test_padded_means_of_shifted_integers(apply_passes: ApplyPasses) -> None:
    torch = pytest.importorskip("torch")
    body = """
    func.func @forward(%x: tensor<?x3x5x5xi8>) -> tensor<?x3x5x5xi8> {
      %s = tensor.constant dense<0.5> : tensor<f32>
      %t = tensor.constant dense<0.25> : tensor<f32>
      %z = tensor.constant dense<-128> : tensor<i8>
      %d = tensor.dequantize %x, %s, %z
           : (tensor<?x3x5x5xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3x5x5xf32>
      %m = tensor.avg_pool %d {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>,
           padding = array<i64: 1, 1, 1, 1>} : (tensor<?x3x5x5xf32>) -> tensor<?x3x5x5xf32>
      %q = tensor.quantize %m, %t, %z
           : (tensor<?x3x5x5xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3x5x5xi8>
      func.return %q : tensor<?x3x5x5xi8>
    }
    """
    x = np.random.default_rng(0).integers(-128, 128, (4, 3, 5, 5)).astype(np.int8)
    result, _ = rescaled(apply_passes, body, [x])
    real = torch.from_numpy((x.astype(np.float64) + 128) * 0.5)
    mean = torch.nn.functional.avg_pool2d(real, 3, 1, 1).numpy()
    exact = np.clip(mean / 0.25 - 128, -128, 127)
    assert np.abs(result - exact).max() <= 0.5 + 1e-6


def test_means_of_sums_and_parts_that_need_rounding(apply_passes: ApplyPasses) -> None:
    body = """
    func.func @forward(%x: tensor<?x3x4xi8>, %y: tensor<?x3x4xi8>) -> tensor<?x4xi8> {
      %s = tensor.constant dense<0.5> : tensor<f32>
      %t = tensor.constant dense<[[0.25], [0.5], [2.0]]> : tensor<3x1xf32>
      %z = tensor.constant dense<0> : tensor<i8>
      %a = tensor.dequantize %x, %s, %z
           : (tensor<?x3x4xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3x4xf32>
      %b = tensor.dequantize %y, %s, %z
           : (tensor<?x3x4xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3x4xf32>
      %c = tensor.mul %b, %t : (tensor<?x3x4xf32>, tensor<3x1xf32>) -> tensor<?x3x4xf32>
      %r = tensor.relu %c : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
      %sum = tensor.add %a, %r : (tensor<?x3x4xf32>, tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
      %m = tensor.reduce_mean %sum {axes = array<i64: 1>} : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
      %q = tensor.quantize %m, %s, %z : (tensor<?x4xf32>, tensor<f32>, tensor<i8>) -> tensor<?x4xi8>
      func.return %q : tensor<?x4xi8>
    }
    """
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, (20, 3, 4)).astype(np.int8) for _ in range(2))
    result, _ = rescaled(apply_passes, body, [x, y])
    relu = np.maximum(y * 0.5 * np.array([[0.25], [0.5], [2.0]]), 0)
    exact = np.clip((x * 0.5 + relu).mean(1) / 0.5, -128, 127)
    assert np.abs(result - exact).max() <= 0.5 + 2e-3


def test_moves_of_one_value_are_shared(apply_passes: ApplyPasses) -> None:
    body = """
    func.func @forward(%x: tensor<4x6xi8>) -> (tensor<4x2xi8>, tensor<4x4xi8>) {
      %s = tensor.constant dense<0.5> : tensor<f32>
      %z = tensor.constant dense<3> : tensor<i8>
      %d = tensor.dequantize %x, %s, %z
           : (tensor<4x6xi8>, tensor<f32>, tensor<i8>) -> tensor<4x6xf32>
      %p = tensor.pad_to %d {low = array<i64: 0, 0>, high = array<i64: 0, 0>, value = 0.0 : f64}
           : (tensor<4x6xf32>) -> tensor<4x6xf32>
      %a, %b = tensor.split %p {axis = 1 : i64, sizes = array<i64: 2, 4>}
               : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x4xf32>)
      %q = tensor.quantize %a, %s, %z : (tensor<4x2xf32>, tensor<f32>, tensor<i8>) -> tensor<4x2xi8>
      %r = tensor.quantize %b, %s, %z : (tensor<4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<4x4xi8>
      func.return %q, %r : tensor<4x2xi8>, tensor<4x4xi8>
    }
    """
    module = parse_module(body)
    text = apply_passes(module, "requantize")
    assert text.count("tensor.split") == 1 and "dequantize" not in text
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    q, r = run_module(module, [x])
    np.testing.assert_array_equal(np.concatenate([q, r], 1), x)
    verify_module(module)


def test_a_chain_deeper_than_the_stack_stays_in_float(
    filled: Filled, apply_passes: ApplyPasses
) -> None:
    type = "tensor<?x4xf32>"
    chain = "\n".join(
        f"%a{i + 1} = tensor.add %a{i}, %c : ({type}, tensor<f32>) -> {type}" for i in range(3000)
    )
    module = filled(f"""
func.func @forward(%q: tensor<?x4xi8>) -> tensor<?x4xi8> {{
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %c = tensor.constant dense<0.0078125> : tensor<f32>
  %a0 = tensor.dequantize %q, %s, %z : (tensor<?x4xi8>, tensor<f32>, tensor<i8>) -> {type}
  {chain}
  %y = tensor.quantize %a3000, %s, %z : ({type}, tensor<f32>, tensor<i8>) -> tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}}""")
    q = np.array([[-100, -1, 0, 60]], np.int8)
    apply_passes(module, "requantize")
    expected = np.clip(np.rint((q * 0.5 + 3000 / 128) / 0.5), -128, 127)
    np.testing.assert_array_equal(run_module(module, [q])[0], expected)


@pytest.mark.parametrize(("added", "factor"), [(0.0, 1e-4), (0.2, 1.0), (0.2, 1e3)])
def test_bounds_inside_of_sums_have_room(
    apply_passes: ApplyPasses, added: float, factor: float
) -> None:
    """What is rounded on the way is not cut, however far the result's grid reaches."""
    scale = float(np.float32(2 * 256 / 120 * factor))
    text = f"""
func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x1xi8> {{
  %w = ternary.constant [1, 1] : tensor<2x1x!ternary.trit>
  %p = ternary.linear %x, %w : tensor<?x2xi8>, tensor<2x1x!ternary.trit> -> tensor<?x1xi32>
  %two = tensor.constant dense<2.0> : tensor<f32>
  %none = tensor.constant dense<0> : tensor<i32>
  %a = tensor.dequantize %p, %two, %none
       : (tensor<?x1xi32>, tensor<f32>, tensor<i32>) -> tensor<?x1xf32>
  %r = tensor.relu %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %c = tensor.constant dense<{added}> : tensor<f32>
  %s = tensor.add %r, %c : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %q = tensor.relu %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %f = tensor.constant dense<{factor}> : tensor<f32>
  %m = tensor.mul %q, %f : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %t = tensor.constant dense<{scale}> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %y = tensor.quantize %m, %t, %z {{low = -127 : i64}}
       : (tensor<?x1xf32>, tensor<f32>, tensor<i8>) -> tensor<?x1xi8>
  func.return %y : tensor<?x1xi8>
}}"""
    module = parse_module(text)
    apply_passes(module, "requantize")
    assert float_ops(module) == []
    x = np.stack(np.meshgrid(*[np.arange(-128, 128)] * 2), axis=-1).reshape(-1, 2).astype(np.int8)
    real = (np.maximum(2.0 * x.sum(axis=1, dtype=np.int64), 0) + added) * factor / scale
    (found,) = run_module(module, [x])
    assert np.abs(found[:, 0] - np.clip(real, -127, 127)).max() <= 0.76
