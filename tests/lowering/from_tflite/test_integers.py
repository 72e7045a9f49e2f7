"""Integers on grids: bit for bit what LiteRT's reference kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i64
from xdsl.ir import Block

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_onnx.assembly import assembled
from triton_dsl.lowering.from_tflite import from_tflite
from triton_dsl.lowering.from_tflite.fixed_point import RANGES, rescaled
from triton_dsl.lowering.from_tflite.tflite_builder import Builder
from triton_dsl.lowering.sources.tflite import TFLiteSource
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_tflite.graph import Element
from triton_dsl.passes.calibration.integer_softmax import SOFTMAX, record_softmax
from triton_dsl.passes.expose_logits import left_out

IMAGE = (8, 5, 5, 6)
TYPES = {"int8": (Element.INT8, 3), "uint8": (Element.UINT8, 120), "int16": (Element.INT16, 0)}
SCALES = [0.0123, 2.0**-4]
"""One like those of trained models, and one whose products are halves exactly."""


def ints(values: Any) -> Any:
    """Whole numbers as the file stores them."""
    return np.array(values, np.int32)


@pytest.fixture(params=TYPES)
def kind(request: pytest.FixtureRequest) -> tuple[Element, int]:
    """An element type and a zero point."""
    return TYPES[request.param]


@pytest.mark.parametrize("sizes", [(10, 13), (3, 2), (5, 5), (1, 9)])
@pytest.mark.parametrize("centres", ["corner", "alignCorners", "halfPixelCenters"])
@pytest.mark.parametrize("name", ["int8", "int16"])
def test_new_sizes(bench: Any, name: str, sizes: tuple[int, int], centres: str) -> None:
    """Between neighbours, by weights of 10 bits."""
    element, zero = TYPES[name]
    how = bench.grid(0.02, zero)
    x = bench.tensor("x", (2, 5, 6, 3), element, how)
    y = bench.tensor("y", (2, *sizes, 3), element, how)
    options = {centre: centre == centres for centre in ("alignCorners", "halfPixelCenters")}
    bench.check("RESIZE_BILINEAR", [x, bench.constant(ints(sizes))], y, **options)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("op", ["ADD", "MUL", "SUB"])
def test_arithmetic(bench: Any, kind: tuple[Element, int], op: str, scale: float) -> None:
    element, zero = kind
    grids = [bench.grid(s, zero) for s in (scale, scale * 0.7, scale * 2.1)]
    x, y, z = (bench.tensor(n, IMAGE, element, g) for n, g in zip("xyz", grids, strict=True))
    for activation in (0, 1, 3):
        bench.check(op, [x, y], z, fusedActivationFunction=activation)


@pytest.mark.parametrize("scale", SCALES)
def test_regridding_and_cut_off_functions(
    bench: Any, kind: tuple[Element, int], scale: float
) -> None:
    element, zero = kind
    x = bench.tensor("x", IMAGE, element, bench.grid(scale, zero))
    y = bench.tensor("y", IMAGE, element, bench.grid(scale * 1.37, zero))
    for op in ("QUANTIZE", "RELU", "RELU6"):
        bench.check(op, [x], y)
    bench.check("LEAKY_RELU", [x], y, alpha=0.1)
    bench.check("DEQUANTIZE", [x], bench.tensor("y", IMAGE))
    bench.check("QUANTIZE", [bench.tensor("x", IMAGE)], y)


@pytest.mark.parametrize("op", ["GELU", "HARD_SWISH", "LOGISTIC", "SOFTMAX", "TANH"])
@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_functions_by_tables_and_floats(bench: Any, name: str, op: str) -> None:
    element, zero = TYPES[name]
    low = -128 if element is Element.INT8 else 0
    grids = {"LOGISTIC": bench.grid(1 / 256, low), "SOFTMAX": bench.grid(1 / 256, low),
             "TANH": bench.grid(1 / 128, low + 128)}  # fmt: skip
    x = bench.tensor("x", IMAGE, element, bench.grid(0.03, zero))
    y = bench.tensor("y", IMAGE, element, grids.get(op, bench.grid(0.031, zero)))
    bench.check(op, [x], y, steps=1, **({"beta": 1.0} if op == "SOFTMAX" else {}))


# A factor of the operand, its scale, how many numbers there are to choose from.
SOFTMAXES = [(1.0, 0.03, 2), (0.7, 0.3, 10), (1.0, 0.11, 197), (1.0, 1e-4, 512), (1.3, 0.02, 5000)]


def softmaxes(bench: Any, element: Element, beta: float, scale: float, shape: Any) -> Any:
    """The file of one SOFTMAX, and numbers for it around the middle."""
    low, zero = (-128, 3) if element is Element.INT8 else (0, 120)
    x = bench.tensor("x", shape, element, bench.grid(scale, zero))
    y = bench.tensor("y", shape, element, bench.grid(1 / 256, low))
    given = np.random.default_rng(3).normal(low + 128, 40, shape)
    given = np.clip(np.rint(given), low, low + 255).astype(element.dtype)
    return bench.one_operator("SOFTMAX", [x], [y], {"beta": beta}), given


@pytest.mark.parametrize("rounding", ["reference", "xnnpack"])
@pytest.mark.parametrize(("beta", "scale", "width"), SOFTMAXES)
def test_softmax_of_8_bits_is_that_of_each_kernel(
    bench: Any, rounding: Any, beta: float, scale: float, width: int
) -> None:
    element = Element.UINT8 if width == 10 else Element.INT8
    data, given = softmaxes(bench, element, beta, scale, (1_000_000 // width, width))
    (want,) = bench.litert(data, [given], reference=rounding == "reference")
    module = from_tflite(data, rounding=rounding)
    np.testing.assert_array_equal(run_module(module, [given])[0], want)
    _, (got,), _ = run_target(module, "onnx", [given])
    np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["reference", "xnnpack"])
@pytest.mark.parametrize(("beta", "scale", "width"), SOFTMAXES)
def test_softmax_of_8_bits_as_machine_code(
    bench: Any, rounding: Any, beta: float, scale: float, width: int
) -> None:
    """In floats each processor adds up in an order of its own: it decides only at a half."""
    data, given = softmaxes(bench, Element.INT8, beta, scale, (1_000_000 // width, width))
    (want,) = bench.litert(data, [given], reference=rounding == "reference")
    powers = np.exp(given * (float(np.float32(scale)) * beta))
    steps = 256 * powers / powers.sum(1, keepdims=True)
    half = np.abs(steps % 1 - 0.5) <= steps * 2.0**-19
    for target in ("native", "pytorch"):
        _, (got,), _ = run_target(from_tflite(data, rounding=rounding), target, [given])
        off = np.abs(got.astype(int) - want)
        assert off.max() <= (rounding == "xnnpack")
        assert half[off != 0].all()


@pytest.mark.parametrize("element", [Element.INT8, Element.UINT8])
@pytest.mark.parametrize(("beta", "scale", "width"), [(1.0, 0.1, 2), (0.7, 1e-3, 5), (1.0, 5.0, 5)])
@pytest.mark.parametrize("integers", ["kernels", "exact"])
def test_softmax_of_8_bits_comes_back(
    bench: Any, element: Element, beta: float, scale: float, width: int, integers: str
) -> None:
    data, given = softmaxes(bench, element, beta, scale, (3, 2, width))
    made = compile_to_target(from_tflite(data), "tflite", {"integers": integers})
    (file,) = made.files.values()
    for reference in (True, False):
        (want,) = bench.litert(data, [given], reference=reference)
        np.testing.assert_array_equal(bench.litert(file, [given], reference=reference)[0], want)
    assert len(file) < 2 * len(data)


@pytest.mark.parametrize("rounding", ["reference", "xnnpack"])
@pytest.mark.parametrize("element", [Element.INT8, Element.UINT8])
def test_softmax_of_8_bits_is_left_out_at_the_end(
    bench: Any, rounding: Any, element: Element
) -> None:
    data, given = softmaxes(bench, element, 0.7, 0.03, (20, 10))
    module = from_tflite(data, rounding=rounding)
    passes = "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce,expose-logits,dce"
    run_stages(module, [Stage("logits", passes)])
    assert np.array_equal(run_module(module, [given])[0], given)
    ((dequantize, softmax, quantize),) = left_out(module)
    assert softmax == {"op": "tensor.softmax", "axis": 1}
    real = dequantize["scale"] * (given.astype(float) - dequantize["zero_point"])
    shares = np.exp(real) / np.exp(real).sum(1, keepdims=True)
    levels = np.rint(shares / quantize["scale"]) + quantize["zero_point"]
    levels = levels.clip(quantize["low"], quantize["high"])
    (want,) = bench.litert(data, [given], reference=rounding == "reference")
    assert np.abs(levels - want).max() <= 1


@pytest.mark.parametrize("number", [1010580540, 1515870810])
def test_other_arithmetic_is_no_softmax(bench: Any, number: int) -> None:
    """With another number nothing else in LiteRT computes it."""
    module = from_tflite(softmaxes(bench, Element.INT8, 1.0, 0.1, (3, 5))[0])
    constants = [op for op in module.walk() if isinstance(op, tensor.ConstantOp)]
    changed = next(op for op in constants if number in op.value.get_values())
    changed.value = dense_constant(np.array(number + 1), i64).value
    with pytest.raises(UnsupportedError, match="LiteRT has no MUL kernel for FLOAT64"):
        compile_to_target(module, "tflite")


def test_a_note_of_another_scale_makes_no_softmax(bench: Any) -> None:
    """What a program notes finds a softmax; its arithmetic says whether LiteRT has it."""
    module = from_tflite(softmaxes(bench, Element.INT8, 1.0, 0.1, (3, 5))[0])
    (noted,) = (op for op in module.walk() if SOFTMAX in op.attributes)
    record_softmax(noted, 0.11, 0)
    with pytest.raises(UnsupportedError, match="LiteRT has no MUL kernel for FLOAT64"):
        compile_to_target(module, "tflite")


ALL = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)


@pytest.mark.parametrize("scale", [2.3e-4, 2.0**-12, 2.0**-11, 7.1e-5])
@pytest.mark.parametrize("op", ["EXP", "GELU", "LOG", "LOGISTIC", "RSQRT", "SQRT", "TANH"])
def test_functions_of_all_numbers_of_16_bits(bench: Any, op: str, scale: float) -> None:
    steps = {"LOGISTIC": 2.0**-15, "TANH": 2.0**-15, "RSQRT": scale**-0.5 / 40000, "LOG": 4e-4}
    given = ALL[ALL >= 0] if op in ("RSQRT", "SQRT") else ALL
    x = bench.tensor("x", given.shape, Element.INT16, bench.grid(scale))
    y = bench.tensor("y", given.shape, Element.INT16, bench.grid(steps.get(op, scale * 0.83)))
    bench.check(op, [x], y, given=[given], approximate=scale == 2.0**-12)


@pytest.mark.parametrize(("scale", "width"), [(2.3e-4, 5), (2.0**-12, 1), (7.1e-5, 700)])
def test_softmax_of_16_bits_on_every_engine(bench: Any, scale: float, width: int) -> None:
    shape = (30, width)
    x = bench.tensor("x", shape, Element.INT16, bench.grid(scale))
    y = bench.tensor("y", shape, Element.INT16, bench.grid(2.0**-15))
    bench.check("SOFTMAX", [x], y, beta=1.3)
    data = bench.one_operator("SOFTMAX", [x], [y], {"beta": 1.3})
    given = bench.values(x, 7)
    (expected,) = bench.litert(data, [given])
    for target in ("native", "onnx", "tflite"):
        _, (got,), _ = run_target(from_tflite(data), target, [given])
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(5))
def test_functions_of_8_bits_in_fixed_point(bench: Any, seed: int) -> None:
    random, i8 = np.random.default_rng(seed), Element.INT8
    steps = np.arange(-128, 128, dtype=np.int8)

    def grid(least: float, most: float, zero: int | None = None) -> Any:
        centre = int(random.integers(-60, 60)) if zero is None else zero
        return bench.grid(random.uniform(least, most), centre)

    def port(name: str, how: Any) -> Any:
        return bench.tensor(name, steps.shape, i8, how)

    positive = [port("x", grid(1e-3, 0.1, -128)), port("y", grid(4e-3, 0.1, -128))]
    bench.check("RSQRT", positive[:1], positive[1], given=[steps])
    both = [port("x", grid(0.01, 0.1)), port("y", grid(0.01, 0.1))]
    bench.check("HARD_SWISH", both[:1], both[1], given=[steps])
    square = port("z", grid(0.01, 0.4, -128))
    bench.check("SQUARED_DIFFERENCE", both, square, given=[steps, random.permutation(steps)])


@pytest.mark.parametrize("scale", [0.031, 0.0078125])
@pytest.mark.parametrize(("name", "low"), [("int8", -128), ("int16", 0)])
def test_square_roots_are_rounded_down(bench: Any, name: str, low: int, scale: float) -> None:
    element, _ = TYPES[name]
    x = bench.tensor("x", IMAGE, element, bench.grid(scale, low))
    y = bench.tensor("y", IMAGE, element, bench.grid(scale / 3, low))
    steps = np.arange(np.prod(IMAGE)).reshape(IMAGE) % 256 + low
    bench.check("SQRT", [x], y, given=[steps.astype(name)])


@pytest.mark.parametrize("scale", SCALES)
def test_means(bench: Any, kind: tuple[Element, int], scale: float) -> None:
    element, zero = kind
    x = bench.tensor("x", IMAGE, element, bench.grid(scale, zero))
    for axes, shape in (([1, 2], (8, 1, 1, 6)), ([3], (8, 5, 5, 1)), ([1], (8, 1, 5, 6))):
        y = bench.tensor("y", shape, element, bench.grid(scale / 2, zero))
        bench.check("MEAN", [x, bench.constant(ints(axes))], y, keepDims=True)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("window", [(2, 3), (3, 3), (4, 4), (5, 5)])
def test_pools(
    bench: Any, kind: tuple[Element, int], window: tuple[int, int], padding: int
) -> None:
    element, zero = kind
    how = bench.grid(0.1, zero)
    size = [3, 3] if padding == 0 else [(5 - n) // 2 + 1 for n in window]
    y = bench.tensor("y", (8, *size, 6), element, how)
    options = {"strideH": 2, "strideW": 2, "filterHeight": window[0], "filterWidth": window[1]}
    for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        bench.check(op, [bench.tensor("x", IMAGE, element, how)], y, padding=padding, **options)


def weights(bench: Any, element: Element, shape: tuple[int, ...], axis: int) -> Any:
    """A weight for activations of `element`: one scale a channel, or one and a zero point."""
    random = np.random.default_rng(3)
    if element is Element.UINT8:
        values = random.integers(0, 256, shape).astype(np.uint8)
        return bench.constant(values, how=bench.grid(0.005, 99))
    scale = np.linspace(0.001, 0.01, shape[axis])
    values = random.integers(-127, 128, shape).astype(np.int8)
    return bench.constant(values, how=bench.grid(scale, 0, axis))


def biased(bench: Any, x: Any, weight: Any, count: int) -> Any:
    """A bias: of 64 bits for activations of 16."""
    numbers = np.random.default_rng(4).integers(-1000, 1000, count)
    wide = Element.INT64 if x.element is Element.INT16 else Element.INT32
    scale = weight.quantization.scale * x.quantization.scale
    return bench.constant(numbers.astype(wide.dtype), how=bench.grid(scale))


PLAIN = {"dilationWFactor": 1, "dilationHFactor": 1, "padding": 0, "strideW": 2, "strideH": 2}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_convolutions(bench: Any, kind: tuple[Element, int], scale: float, activation: int) -> None:
    element, zero = kind
    x = bench.tensor("x", IMAGE, element, bench.grid(scale, zero))
    fine = bench.grid(0.001 if element is Element.INT16 else 0.05, zero)
    options = {**PLAIN, "fusedActivationFunction": activation}
    w = weights(bench, element, (7, 3, 3, 6), 0)
    y = bench.tensor("y", (8, 3, 3, 7), element, fine)
    bench.check("CONV_2D", [x, w, biased(bench, x, w, 7)], y, **options)
    w = weights(bench, element, (1, 3, 3, 6), 3)
    y = bench.tensor("y", (8, 3, 3, 6), element, fine)
    bench.check("DEPTHWISE_CONV_2D", [x, w, biased(bench, x, w, 6)], y, depthMultiplier=1,
                **options)  # fmt: skip


def test_transposed_convolutions(bench: Any, kind: tuple[Element, int]) -> None:
    element, zero = kind
    fine = bench.grid(0.001 if element is Element.INT16 else 0.05, zero)
    x = bench.tensor("x", IMAGE, element, bench.grid(0.0123, zero))
    w = weights(bench, element, (7, 3, 3, 6), 0)
    sizes = bench.constant(ints([8, 10, 10, 7]))
    y = bench.tensor("y", (8, 10, 10, 7), element, fine)
    bench.check("TRANSPOSE_CONV", [sizes, w, x, biased(bench, x, w, 7)], y, padding=0,
                strideW=2, strideH=2)  # fmt: skip


@pytest.mark.parametrize("scale", SCALES)
def test_fully_connected_layers(bench: Any, kind: tuple[Element, int], scale: float) -> None:
    element, zero = kind
    x = bench.tensor("x", (40, 150), element, bench.grid(scale, zero))
    random = np.random.default_rng(5)
    for how, low, high in (
        (bench.grid(0.005, 99 if element is Element.UINT8 else 0), -127, 128),
        (bench.grid(2.0**-6, 99 if element is Element.UINT8 else 0), -3, 4),
    ):
        numbers = random.integers(low, high, (9, 150))
        if element is Element.UINT8:
            numbers = np.abs(numbers)
        stored = Element.UINT8 if element is Element.UINT8 else Element.INT8
        w = bench.constant(numbers.astype(stored.dtype), stored, how)
        y = bench.tensor("y", (40, 9), element, bench.grid(0.25, zero))
        bench.check("FULLY_CONNECTED", [x, w, biased(bench, x, w, 9)], y, keepNumDims=False)


@pytest.mark.parametrize("element", [Element.INT4, Element.INT2])
@pytest.mark.parametrize("name", ["int8", "int16"])
def test_weights_of_less_than_a_byte(bench: Any, name: str, element: Element) -> None:
    outer, zero = TYPES[name]
    most = 7 if element is Element.INT4 else 1
    numbers = np.random.default_rng(6).integers(-most, most + 1, (7, 64)).astype(np.int8)
    w = bench.constant(numbers, element, bench.grid(0.005))
    x = bench.tensor("x", (8, 64), outer, bench.grid(0.03, zero))
    y = bench.tensor("y", (8, 7), outer, bench.grid(0.05, zero))
    module = bench.check("FULLY_CONNECTED", [x, w, biased(bench, x, w, 7)], y,
                         keepNumDims=False)  # fmt: skip
    assert ("ternary.linear" in str(module)) == (element is Element.INT2)


def test_moves_keep_integers_as_they_are(bench: Any, kind: tuple[Element, int]) -> None:
    element, zero = kind
    how = bench.grid(0.0123, zero)
    x, y = (bench.tensor(n, IMAGE, element, how) for n in "xy")
    bench.check("CONCATENATION", [x, y], bench.tensor("z", (8, 5, 5, 12), element, how), axis=3)
    bench.check("MAXIMUM", [x, y], bench.tensor("z", IMAGE, element, how))
    pads = bench.constant(ints([[0, 0], [1, 2], [0, 1], [0, 0]]))
    bench.check("PAD", [x, pads], bench.tensor("z", (8, 8, 6, 6), element, how))


def test_products_of_two_computed_matrices(bench: Any) -> None:
    i8 = Element.INT8
    x = bench.tensor("x", (2, 5, 7), i8, bench.grid(0.0123, 3))
    y = bench.tensor("y", (2, 7, 4), i8, bench.grid(0.02, -5))
    z = bench.tensor("z", (2, 5, 4), i8, bench.grid(0.1, 1))
    bench.check("BATCH_MATMUL", [x, y], z, adjX=False, adjY=False)
    fine = [
        bench.tensor(name, shape, Element.INT16, bench.grid(scale))
        for name, shape, scale in (
            ("x", (2, 5, 7), 1e-4),
            ("y", (2, 7, 4), 3e-4),
            ("z", (2, 5, 4), 1e-3),
        )
    ]
    bench.check("BATCH_MATMUL", fine[:2], fine[2], adjX=False, adjY=False)


def test_comparisons_are_of_the_real_numbers(bench: Any) -> None:
    i8 = Element.INT8
    x = bench.tensor("x", IMAGE, i8, bench.grid(0.0123, 3))
    y = bench.tensor("y", IMAGE, i8, bench.grid(0.031, -9))
    bench.check("LESS", [x, y], bench.tensor("z", IMAGE, Element.BOOL))


@pytest.mark.parametrize("op", ["CONV_2D", "FULLY_CONNECTED"])
def test_rounding_once_is_one_op_and_at_most_a_step_off(bench: Any, op: str) -> None:
    i8 = Element.INT8
    x = bench.tensor("x", (64, 1, 1, 30), i8, bench.grid(0.0123, 3))
    shape = (9, 1, 1, 30) if op == "CONV_2D" else (9, 30)
    w = weights(bench, i8, shape, 0)
    sizes = (64, 1, 1, 9) if op == "CONV_2D" else (64, 9)
    y = bench.tensor("y", sizes, i8, bench.grid(0.05, 2))
    options = PLAIN if op == "CONV_2D" else {"keepNumDims": False}
    data = bench.one_operator(op, [x, w, biased(bench, x, w, 9)], [y], options)
    given_ = [bench.values(x)]
    module = from_tflite(data, rounding="once")
    assert str(module).count("tensor.requantize") == 1 and "tensor.sign" not in str(module)
    (got,) = run_module(module, given_)
    for reference in (True, False):
        (want,) = bench.litert(data, given_, reference=reference)
        assert np.abs(got.astype(int) - want).max() <= 1


# The arithmetic itself, beside whole numbers of any size.


def rounded_away(value: int, shift: int) -> int:
    """value / 2^shift, halves away from zero."""
    half = (1 << shift) >> 1
    return (abs(value) + half >> shift) * (1 if value >= 0 else -1)


def two_steps(x: int, multiplier: int, exponent: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT."""
    part = ((x << max(exponent, 0)) * multiplier + (1 << 30)) >> 31
    return rounded_away(part, max(-exponent, 0))


@settings(max_examples=60)
@given(
    st.lists(st.floats(2.0**-20, 8), min_size=1, max_size=4),
    st.lists(st.integers(-(2**27), 2**27), min_size=1, max_size=8),
    st.integers(-20, 20),
)
def test_rescaling_is_exact(factors: list[float], numbers: list[int], zero: int) -> None:
    from xdsl.dialects.builtin import UnknownLoc, i8, i32

    e = Builder(Block(), ParameterStore.unsaved())
    x = e.argument((len(numbers), len(factors)), i32)
    made = rescaled(e, x, factors, zero, i8, (-100, 90))
    module = assembled(e, "m", [("x", x)], [("y", made)], UnknownLoc())
    given_ = np.broadcast_to(np.array(numbers, np.int32)[:, None], (len(numbers), len(factors)))
    (got,) = run_module(module, [np.ascontiguousarray(given_)])
    for column, factor in enumerate(factors):
        mantissa, exponent = np.frexp(factor)
        multiplier = int(np.floor(mantissa * 2**31 + 0.5))
        if multiplier == 1 << 31:
            multiplier, exponent = multiplier >> 1, exponent + 1
        for row, number in enumerate(numbers):
            want = two_steps(number, multiplier, int(exponent)) + zero
            assert got[row, column] == min(max(want, -100), 90)
    assert RANGES[i8] == (-128, 127)


def test_trits_below_a_bias_beyond_32_bits(bench: Any) -> None:
    """Sums of 64 bits, which a scale brings back: FULLY_CONNECTED and CONV_2D of int16."""
    x = bench.tensor("x", (3, 5, 5, 2), Element.INT16, bench.grid(0.01))
    trits = np.random.default_rng(7).integers(-1, 2, (4, 2, 2, 2)).astype(np.int8)
    bias = np.array([1 << 33, -(1 << 34), 3, (1 << 32) + 5], np.int64)

    def layer(weight: Any, like: Any, shape: tuple[int, ...]) -> tuple[list[Any], Any]:
        w = bench.constant(weight, how=bench.grid(np.full(4, 0.45), 0, 0))
        added = bench.constant(bias, how=bench.grid(np.full(4, 0.0045)))
        return [like, w, added], bench.tensor("y", shape, Element.INT16, bench.grid(4000.0))

    inputs, y = layer(trits, x, (3, 4, 4, 4))
    module = bench.check(
        "CONV_2D", inputs, y, **{**PLAIN, "padding": 1, "strideW": 1, "strideH": 1}
    )
    assert any(op.name == "ternary.conv" for op in module.walk())
    rows = bench.tensor("x", (3, 8), Element.INT16, bench.grid(0.01))
    inputs, y = layer(trits.reshape(4, 8), rows, (3, 4))
    module = bench.check("FULLY_CONNECTED", inputs, y, keepNumDims=False)
    assert any(op.name == "ternary.linear" for op in module.walk())


@pytest.mark.parametrize("biased", [False, True])
def test_rows_by_computed_rows_of_16_bits(bench: Any, biased: bool) -> None:
    """Sums beyond 32 bits, by a multiplier of 16."""
    x, w = (bench.tensor(n, (7, 9), Element.INT16, bench.grid(6e-5)) for n in "xw")
    y = bench.tensor("y", (7, 7), Element.INT16, bench.grid(1.79e-4))
    bias = bench.constant(np.arange(7, dtype=np.int32) * 10**6, how=bench.grid(3.6e-9))
    bench.check("FULLY_CONNECTED", [x, w, *[bias][:biased]], y, keepNumDims=False)


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_sums_are_those_of_kernels_that_are_right(bench: Any, name: str) -> None:
    element, zero = TYPES[name]
    x = bench.tensor("x", (2, 4, 6), element, bench.grid(0.017, zero))
    y = bench.tensor("y", (2, 6), element, bench.grid(0.025, zero))
    axes = bench.constant(ints([1]))
    bench.check("SUM", [x, axes], y, reference=False, keepDims=False)
    source = TFLiteSource(bench.one_operator("SUM", [x, axes], [y], {"keepDims": False}))
    (got,) = source.run([bench.values(x)])
    assert "built-in" in source.engine
    (expected,) = run_module(from_tflite(source.data), [bench.values(x)])
    np.testing.assert_array_equal(got, expected)
