"""Every op: the generated module computes what the interpreter says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.ternary import TernarizeOp
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_pytorch.module_source import RULES
from triton_dsl.passes.convert_spike_to_tensor import RULES as SPIKING
from triton_dsl.passes.decompose import DECOMPOSED

Array = NDArray[Any]
RNG = np.random.default_rng(7)

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "!ternary.trit": np.int8,
}


def random_array(type_text: str, rng: np.random.Generator = RNG) -> Array:
    """Values for a tensor type; `?` is 3."""
    *sizes, element = type_text.removeprefix("tensor<").removesuffix(">").split("x")
    shape = [3 if size == "?" else int(size) for size in sizes]
    dtype: np.dtype[Any] = np.dtype(DTYPES[element])
    if element == "!ternary.trit":
        return rng.integers(-1, 2, shape).astype(np.int8)
    if dtype.kind == "f":
        return (rng.standard_normal(shape) * 2).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def op_text(line: str) -> tuple[str, list[str]]:
    """`op {attributes} : operand types -> result types` as a function, and its argument types."""
    head, types = re.split(r" : (?=tensor<)", line, maxsplit=1)
    operands, results = types.rsplit(" -> ", 1)
    operand_types = re.findall(r"tensor<[^>]*>", operands)
    result_types = re.findall(r"tensor<[^>]*>", results)
    arguments = ", ".join(f"%a{i} : {t}" for i, t in enumerate(operand_types))
    name, _, attributes = head.partition(" ")
    names = ", ".join(f"%a{i}" for i in range(len(operand_types)))
    outs = ", ".join(f"%r{i}" for i in range(len(result_types)))
    returned = ", ".join(result_types)
    text = f"""
func.func @forward({arguments}) -> ({returned}) {{
  {outs} = {name} {names} {attributes} : ({", ".join(operand_types)}) -> ({returned})
  func.return {outs} : {returned}
}}
"""
    return text, operand_types


BINARY = "tensor.{name} : tensor<?x5x{element}>, tensor<5x{element}> -> tensor<?x5x{element}>"

LINES = [
    line
    for line in Path(__file__).with_name("ops.txt").read_text().splitlines()
    if not line.startswith("#")
]


Agree = Callable[..., Any]

ELEMENTS = st.sampled_from(["f32", "i8", "i32", "i64"])


def test_table_has_a_rule_for_every_op() -> None:
    stored = {tensor.ParameterOp, tensor.ConstantOp, ternary.ParameterOp, ternary.ConstantOp}
    graph = {spike.NetworkOp, spike.InputOp, spike.PopulationOp, spike.ProjectionOp, spike.ProbeOp}
    lowered = {*graph, spike.SimulateOp, spike.LayerOp, spike.RecurrentOp, spike.YieldOp}
    stays = {spike.DelayOp, spike.EncodeOp, spike.ToTensorOp, spike.FromTensorOp}
    spiking = set(spike.Spike.operations) - lowered - (SPIKING.keys() - stays)
    expected = {*tensor.OPERATIONS, *ternary.Ternary.operations, *spiking}
    assert expected - set(DECOMPOSED) == (RULES.keys() | stored) - set(DECOMPOSED)


@pytest.mark.parametrize("line", LINES)
def test_op(line: str, agree: Agree) -> None:
    text, types = op_text(line)
    arrays = [random_array(t) for t in types]
    half = "f16" in line
    style = "f64" not in line and "i64" not in types[0]
    agree(text, arrays, tolerance=4e-3 if half else 2e-6, style=style)


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_op_on_positive_numbers(name: str, agree: Agree) -> None:
    text, types = op_text(f"tensor.{name} : tensor<?x5xf32> -> tensor<?x5xf32>")
    agree(text, [np.abs(random_array(types[0])) + 0.01])


@pytest.mark.parametrize("element", ["f32", "i8", "i32", "i64"])
@pytest.mark.parametrize("name", ["div", "mod"])
def test_division(name: str, element: str, agree: Agree) -> None:
    text, types = op_text(BINARY.format(name=name, element=element))
    x, y = (random_array(t) for t in types)
    agree(text, [x // 2 if element[0] == "i" else x, np.where(y == 0, 3, y).astype(y.dtype)])


def test_power(agree: Agree) -> None:
    text, types = op_text(BINARY.format(name="pow", element="f32"))
    agree(text, [np.abs(random_array(types[0])) + 0.1, random_array(types[1])], tolerance=1e-5)


@pytest.mark.parametrize("index", ["i8", "i64"])
@pytest.mark.parametrize("table", ["f32", "i8"])
def test_gather_rows(index: str, table: str, agree: Agree) -> None:
    text, _ = op_text(
        f"tensor.gather_rows : tensor<9x4x{table}>, tensor<?x5x{index}> -> tensor<?x5x4x{table}>"
    )
    indices = RNG.integers(0, 9, (3, 5)).astype(DTYPES[index])
    agree(text, [random_array(f"tensor<9x4x{table}>"), indices])


def test_unpack(agree: Agree) -> None:
    text, _ = op_text("ternary.unpack : tensor<4xui8> -> tensor<3x5x!ternary.trit>")
    agree(text, [pack_trits(random_array("tensor<3x5x!ternary.trit>"))])


@pytest.mark.parametrize("element", ["i1", "i8", "i32", "i64"])
def test_floats_out_of_range_saturate(element: str, agree: Agree) -> None:
    text, _ = op_text(f"tensor.convert : tensor<9xf32> -> tensor<9x{element}>")
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 2.0**31, -(2.0**63), 2.9]
    agree(text, [np.array(values, np.float32)])


@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
@pytest.mark.parametrize("channels", ["", "4x"])
def test_quantize_and_back(element: str, channels: str, agree: Agree) -> None:
    scale, zero = f"tensor<{channels}f32>", f"tensor<{channels}{element}>"
    bits = int(element[1:]) - 1
    low, high = -(2**bits), 2**bits - 1
    text, types = op_text(
        f"tensor.quantize {{low = {low} : i64, high = {high} : i64}} : "
        f"tensor<?x4x5xf32>, {scale}, {zero} -> tensor<?x4x5x{element}>"
    )
    x = random_array(types[0]) * 50
    x[0, 0, :3] = [np.nan, np.inf, -np.inf]
    step = np.abs(random_array(scale)) + np.float32(0.1)
    point = np.asarray(random_array(zero) // 16)
    agree(text, [x, step, point])
    text, _ = op_text(
        f"tensor.dequantize : tensor<?x4x5x{element}>, {scale}, {zero} -> tensor<?x4x5xf32>"
    )
    agree(text, [random_array(f"tensor<?x4x5x{element}>"), step, point], tolerance=0)


def test_halves_go_to_even(agree: Agree) -> None:
    text, _ = op_text(
        "tensor.quantize {axis = 0 : i64} : tensor<6xf32>, tensor<f32>, tensor<i8> -> tensor<6xi8>"
    )
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 200], np.float32)
    agree(text, [x, np.array(1, np.float32), np.array(0, np.int8)])


def test_one_number_is_quantised(agree: Agree) -> None:
    text, _ = op_text("tensor.quantize : tensor<f32>, tensor<f32>, tensor<i8> -> tensor<i8>")
    agree(text, [np.array(7.2, np.float32), np.array(0.5, np.float32), np.array(3, np.int8)])


@pytest.mark.parametrize("channels", ["", "4x"])
def test_requantize(channels: str, agree: Agree) -> None:
    vector = f"tensor<{channels}i32>"
    text, types = op_text(
        "tensor.requantize {low = -100 : i64, high = 127 : i64} : "
        f"tensor<?x4x5xi32>, {vector}, {vector}, tensor<i8> -> tensor<?x4x5xi8>"
    )
    shape = () if not channels else (4,)
    for shift in (1, 31, 62):
        multiplier = RNG.integers(1, 2**31 - 1, shape).astype(np.int32)
        x = random_array(types[0])
        agree(text, [x, multiplier, np.full(shape, shift, np.int32), np.array(3, np.int8)])


NORM = """
func.func @forward(%x : tensor<?x3x4xf32>) -> tensor<?x3x4xf32> {
  %s = tensor.parameter "bn.weight" : tensor<3xf32>
  %b = tensor.parameter "bn.bias" : tensor<3xf32>
  %m = tensor.parameter "bn.running_mean" buffer : tensor<3xf32>
  %v = tensor.parameter "bn.running_var" buffer : tensor<3xf32>
  %y = tensor.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-3 : f64}
    : (tensor<?x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> tensor<?x3x4xf32>
  func.return %y : tensor<?x3x4xf32>
}
"""


def test_batch_norm(agree: Agree) -> None:
    names = ("weight", "bias", "running_mean")
    weights = {f"bn.{n}": random_array("tensor<3xf32>") for n in names}
    weights["bn.running_var"] = np.abs(random_array("tensor<3xf32>")) + 0.1
    agree(NORM, [random_array("tensor<?x3x4xf32>")], weights, tolerance=1e-5)


@pytest.mark.parametrize(
    ("scale", "bias"), [("8x", None), ("8x", "8x"), ("5x8x", None), ("1x", None), ("8x", "1x")]
)
def test_layer_norm(scale: str, bias: str | None, agree: Agree) -> None:
    s = f"tensor<{scale}f32>"
    b = f"tensor<{bias or '8x'}f32>"
    clause = f"bias(%b : {b})" if bias else ""
    text = f"""
func.func @forward(%x : tensor<?x5x8xf32>, %s : {s}, %b : {b}) -> tensor<?x5x8xf32> {{
  %y = tensor.layer_norm %x, %s {clause} {{epsilon = 1.0e-5 : f64}}
    : tensor<?x5x8xf32>, {s} -> tensor<?x5x8xf32>
  func.return %y : tensor<?x5x8xf32>
}}
"""
    agree(text, [random_array(t) for t in ("tensor<?x5x8xf32>", s, b)])


@pytest.mark.parametrize("rule", ["twn", "absmean", "fixed"])
@pytest.mark.parametrize("scale", ["none", "tensor", "channel"])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_ternarize(rule: str, scale: str, element: str, agree: Agree) -> None:
    second = {"none": "", "tensor": f"tensor<{element}>", "channel": f"tensor<4x{element}>"}[scale]
    threshold = ", threshold = 0.3 : f64" if rule == "fixed" else ""
    results = ", ".join(["tensor<6x4x!ternary.trit>", *([second] if second else [])])
    names = "%t, %s" if second else "%t"
    text = f"""
func.func @forward(%x : tensor<6x4x{element}>) -> ({results}) {{
  {names} = ternary.ternarize %x {{rule = "{rule}", scale = "{scale}", axis = 1 : i64{threshold}}}
    : (tensor<6x4x{element}>) -> ({results})
  func.return {names} : {results}
}}
"""
    x = random_array(f"tensor<6x4x{element}>")
    agree(text, [x], tolerance=1e-3 if element == "f16" else 2e-6)
    agree(text, [np.zeros_like(x)])


def test_ternarize_has_signs_for_infinities_and_none_for_nan(agree: Agree) -> None:
    text = """
func.func @forward(%x : tensor<4xf32>) -> tensor<4x!ternary.trit> {
  %t = ternary.ternarize %x {rule = "fixed", threshold = 0.5 : f64}
    : (tensor<4xf32>) -> (tensor<4x!ternary.trit>)
  func.return %t : tensor<4x!ternary.trit>
}
"""
    agree(text, [np.array([np.inf, -np.inf, np.nan, 0.7], np.float32)])


def summed(element: str) -> str:
    """The type of sums of trits times `f32`, `f64` or signed integers of a type."""
    return element if element in ("f32", "f64", "i64") else "i32"


def fused(kind: str, element: str, options: str) -> str:
    """A function with one `ternary.linear` or `ternary.conv` and its optional operands."""
    accumulator = summed(element)
    shapes = {
        "linear": ("?x8", "8x4", "?x4", ""),
        "conv": (
            "?x2x5x6",
            "4x1x3x2",
            "?x4x2x7",
            "strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 1>, "
            "dilation = array<i64: 1, 1>, groups = 2 : i64",
        ),
    }
    x, w, y, window = shapes[kind]
    vectors = {
        "scale": f"tensor<4x{element}>",
        "bias": f"tensor<4x{accumulator}>",
        "thresholds": f"tensor<4x3x{accumulator}>",
        "multiplier": "tensor<4xi32>",
        "shift": "tensor<i32>",
        "zero_point": "tensor<i8>",
    }
    given = [name for name in vectors if name in options.split()]
    attributes = [window] if window else []
    if "multiplier" in given:
        attributes.append("low = -128 : i64, high = 127 : i64")
    activation = next((a for a in ("relu6", "relu") if a in options.split()), "none")
    attributes.append(f'activation = "{activation}"')
    out = "i8" if {"thresholds", "multiplier"} & set(given) else accumulator
    arguments = "".join(f", %{n} : {vectors[n]}" for n in given)
    clauses = " ".join(f"{n}(%{n} : {vectors[n]})" for n in given)
    return f"""
func.func @forward(%x : tensor<{x}x{element}>{arguments}) -> tensor<{y}x{out}> {{
  %w = ternary.parameter "layer.weight" : tensor<{w}x!ternary.trit>
  %y = ternary.{kind} %x, %w {clauses} {{{", ".join(attributes)}}}
    : tensor<{x}x{element}>, tensor<{w}x!ternary.trit> -> tensor<{y}x{out}>
  func.return %y : tensor<{y}x{out}>
}}
"""


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize(
    ("element", "options"),
    [
        ("f32", ""),
        ("f32", "bias"),
        ("f32", "scale"),
        ("f32", "scale bias relu"),
        ("f32", "bias relu6"),
        ("f64", "scale bias relu6 thresholds"),
        ("i8", ""),
        ("i8", "bias relu"),
        ("i8", "bias relu thresholds"),
        ("i8", "bias multiplier shift zero_point"),
        ("i32", "bias relu multiplier shift zero_point"),
        ("i64", "bias"),
        ("i64", "bias relu thresholds"),
        ("!ternary.trit", ""),
    ],
)
def test_fused_products(kind: str, element: str, options: str, agree: Agree) -> None:
    text = fused(kind, element, options)
    signature = text.split(") -> ", maxsplit=1)[0]
    types = re.findall(r"%(\w+) : (tensor<[^>]*>)", signature)
    inputs = [random_array(t) for _, t in types]
    for index, (name, _) in enumerate(types):
        if name == "shift":
            inputs[index] = np.array(33, np.int32)
    trits = RNG.integers(-1, 2, (8, 4) if kind == "linear" else (4, 1, 3, 2))
    agree(text, inputs, {"layer.weight": pack_trits(trits)})


@pytest.mark.parametrize(
    ("element", "scale"),
    [("f32", "tensor<4xf32>"), ("f32", "tensor<f32>"), ("f32", None), ("i8", None)],
)
def test_ternary_convolutions_of_signals(element: str, scale: str | None, agree: Agree) -> None:
    out = "i32" if element == "i8" else element
    clause = f"scale(%s : {scale})" if scale else ""
    argument = f", %s : {scale}" if scale else ""
    text = f"""
func.func @forward(%x : tensor<?x6x9x{element}>{argument}) -> tensor<?x4x5x{out}> {{
  %w = ternary.parameter "w" : tensor<4x3x3x!ternary.trit>
  %y = ternary.conv %x, %w {clause} {{strides = array<i64: 2>, padding = array<i64: 2, 1>,
    dilation = array<i64: 1>, groups = 2 : i64, activation = "none"}}
    : tensor<?x6x9x{element}>, tensor<4x3x3x!ternary.trit> -> tensor<?x4x5x{out}>
  func.return %y : tensor<?x4x5x{out}>
}}
"""
    inputs = [random_array(f"tensor<2x6x9x{element}>"), *([random_array(scale)] if scale else [])]
    artifact = agree(text, inputs, {"w": pack_trits(RNG.integers(-1, 2, (4, 3, 3)))})
    assert "ternary_conv2d = None" in artifact.text()


@pytest.mark.parametrize(
    "line",
    [
        "ternary.matmul %a, %w : tensor<2x?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<2x?x4xf32>",
        "ternary.matmul %a, %w scale(%s : tensor<4xf32>) "
        ": tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>",
        "ternary.matmul %a, %w : tensor<8xf32>, tensor<8x4x!ternary.trit> -> tensor<4xf32>",
        "ternary.matmul %a, %w : tensor<8xi8>, tensor<8x4x!ternary.trit> -> tensor<4xi32>",
        "ternary.matmul %a, %w "
        ": tensor<3x8x!ternary.trit>, tensor<8x4x!ternary.trit> -> tensor<3x4xi32>",
    ],
)
def test_ternary_matmul(line: str, agree: Agree) -> None:
    operand, _, result = re.findall(r"tensor<[^>]*>", line.partition(") :")[2] or line)[-3:]
    text = f"""
func.func @forward(%a : {operand}, %s : tensor<4xf32>) -> {result} {{
  %w = ternary.parameter "w" : tensor<8x4x!ternary.trit>
  %y = {line}
  func.return %y : {result}
}}
"""
    trits = random_array("tensor<8x4x!ternary.trit>")
    agree(text, [random_array(operand), random_array("tensor<4xf32>")], {"w": pack_trits(trits)})


def test_constants(agree: Agree) -> None:
    text = """
func.func @forward(%x : tensor<?x4xf32>, %n : tensor<?x4xi8>)
    -> (tensor<?x4xf32>, tensor<?x4xi8>, tensor<?x2xf32>, tensor<4xf32>, tensor<?x4xf32>) {
  %c = tensor.constant dense<-0.1> : tensor<f32>
  %i = tensor.constant dense<-7> : tensor<i8>
  %v = tensor.constant dense<[1.0, 2.0, 3.0, 4.5]> : tensor<4xf32>
  %o = tensor.constant dense<1.5> : tensor<100xf32>
  %t = ternary.constant [1, 0, -1, 1, 0, 1, 1, -1] : tensor<4x2x!ternary.trit>
  %s = tensor.slice %o {starts = array<i64: 0>, ends = array<i64: 4>, steps = array<i64: 1>}
    : (tensor<100xf32>) -> tensor<4xf32>
  %0 = tensor.mul %x, %c : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = tensor.sub %c, %0 : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = tensor.add %1, %v : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %3 = tensor.maximum %n, %i : (tensor<?x4xi8>, tensor<i8>) -> tensor<?x4xi8>
  %4 = ternary.matmul %2, %t : tensor<?x4xf32>, tensor<4x2x!ternary.trit> -> tensor<?x2xf32>
  %5 = tensor.mul %c, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %6 = tensor.pow %2, %5 : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %7 = tensor.abs %6 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %2, %3, %4, %s, %0
    : tensor<?x4xf32>, tensor<?x4xi8>, tensor<?x2xf32>, tensor<4xf32>, tensor<?x4xf32>
}
"""
    agree(text, [random_array("tensor<?x4xf32>"), random_array("tensor<?x4xi8>")])


def test_random_trits_are_refused(compile_text: Callable[..., Any]) -> None:
    from triton_dsl.ir.errors import UnsupportedError

    text = """
func.func @forward(%x : tensor<4xf32>) -> tensor<4x!ternary.trit> {
  %t = ternary.ternarize %x {mode = "stochastic", seed = 3 : i64}
    : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return %t : tensor<4x!ternary.trit>
}
"""
    assert TernarizeOp in RULES
    with pytest.raises(UnsupportedError, match="run 'fold-constants' first"):
        compile_text(text)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_convolutions_of_any_shape(data: st.DataObject, agree: Agree) -> None:
    draw = data.draw
    small = st.integers(1, 3)
    spatial, groups, element = draw(small.filter(lambda n: n < 3)), draw(small), draw(ELEMENTS)
    kernel = draw(st.tuples(*[small] * spatial))
    strides, dilation = draw(st.tuples(*[small] * spatial)), draw(st.tuples(*[small] * spatial))
    padding = draw(st.tuples(*[st.integers(0, 2)] * (2 * spatial)))
    sizes = [k * 3 + draw(st.integers(0, 3)) for k in kernel]
    channels, outputs = groups * draw(small), groups * draw(small)
    out = [
        (n + padding[a] + padding[spatial + a] - dilation[a] * (kernel[a] - 1) - 1) // strides[a]
        + 1
        for a, n in enumerate(sizes)
    ]
    x = f"tensor<{'x'.join(map(str, [2, channels, *sizes]))}x{element}>"
    w = "x".join(map(str, [outputs, channels // groups, *kernel]))
    y = "x".join(map(str, [2, outputs, *out]))
    dense = draw(st.booleans())
    weight = f"tensor<{w}x{element}>" if dense else f"tensor<{w}x!ternary.trit>"
    result = element if dense else summed(element)
    ints = ", ".join(
        f"{name} = array<i64: {', '.join(map(str, values))}>"
        for name, values in (("strides", strides), ("padding", padding), ("dilation", dilation))
    )
    operands = f"({x}, {weight}) -> " if dense else f"{x}, {weight} -> "
    text = f"""
func.func @forward(%x : {x}, %w : {weight}) -> tensor<{y}x{result}> {{
  %y = {"tensor" if dense else "ternary"}.conv %x, %w {{{ints}, groups = {groups} : i64}}
    : {operands}tensor<{y}x{result}>
  func.return %y : tensor<{y}x{result}>
}}
"""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    agree(text, [random_array(x, rng), random_array(weight, rng)], style=False, tolerance=1e-5)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_matrix_products_of_any_shape(data: st.DataObject, agree: Agree) -> None:
    draw = data.draw
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    rows, inner, columns = (draw(st.integers(1, 9)) for _ in range(3))
    element = draw(ELEMENTS)
    x = f"tensor<{'x'.join(map(str, [*batch, rows, inner]))}x{element}>"
    result = summed(element)
    y = f"tensor<{'x'.join(map(str, [*batch, rows, columns]))}x{result}>"
    weight = f"tensor<{inner}x{columns}x!ternary.trit>"
    text = f"""
func.func @forward(%x : {x}) -> {y} {{
  %w = ternary.parameter "w" : {weight}
  %y = ternary.matmul %x, %w : {x}, {weight} -> {y}
  func.return %y : {y}
}}
"""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    trits = random_array(weight, rng)
    agree(text, [random_array(x, rng)], {"w": pack_trits(trits)}, style=False, tolerance=1e-5)


def test_wide_integer_convolution_of_an_empty_batch(agree: Agree) -> None:
    text = """
func.func @forward(%x : tensor<?x4x5xi32>, %w : tensor<6x2x3xi32>) -> tensor<?x6x3xi32> {
  %y = tensor.conv %x, %w {groups = 2 : i64, strides = array<i64: 1>, padding = array<i64: 0, 0>,
    dilation = array<i64: 1>} : (tensor<?x4x5xi32>, tensor<6x2x3xi32>) -> tensor<?x6x3xi32>
  func.return %y : tensor<?x6x3xi32>
}
"""
    agree(text, [np.zeros((0, 4, 5), np.int32), np.ones((6, 2, 3), np.int32)])


def test_truth_values_of_no_element(agree: Agree) -> None:
    text = """
func.func @forward(%x : tensor<?x0xi1>) -> (tensor<?xi1>, tensor<?x1xi1>) {
  %y = tensor.reduce_min %x {axes = array<i64: 1>, keepdims = false}
    : (tensor<?x0xi1>) -> tensor<?xi1>
  %z = tensor.reduce_max %x {axes = array<i64: 1>, keepdims = true}
    : (tensor<?x0xi1>) -> tensor<?x1xi1>
  func.return %y, %z : tensor<?xi1>, tensor<?x1xi1>
}
"""
    agree(text, [np.zeros((3, 0), np.bool_)])


def test_scalars_of_the_program_are_refused() -> None:
    from triton_dsl.dialects.registry import parse_module
    from triton_dsl.dialects.shapes import ShapeError
    from triton_dsl.lowering.targets import compile_to_target

    text = "func.func @forward(%n: i32, %x: tensor<3xf32>) -> i32 {func.return %n : i32}"
    with pytest.raises(ShapeError, match="expects a tensor or a spike train, got i32"):
        compile_to_target(parse_module(text), "pytorch")
