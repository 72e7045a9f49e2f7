"""`fuse-linear` computes the same, with fewer ops; torch is asked where floats are recombined."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import parse_module

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Samples = Callable[..., list[NDArray[Any]]]

LINEAR = ("tensor<?x6xf32>", "tensor<?x4xf32>", "4")
CONV = ("tensor<?x2x6x6xf32>", "tensor<?x4x4x4xf32>", "4x1x1")
WINDOW = "strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>"

PRODUCTS = {
    "ternary.linear": (
        *LINEAR,
        '%w = ternary.parameter "w" : tensor<6x4x!ternary.trit>\n'
        "%0 = ternary.linear %x, %w"
        " : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>",
    ),
    "ternary.matmul": (
        *LINEAR,
        '%w = ternary.parameter "w" : tensor<6x4x!ternary.trit>\n'
        "%0 = ternary.matmul %x, %w"
        " : tensor<?x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4xf32>",
    ),
    "ternary.conv": (
        *CONV,
        '%w = ternary.parameter "w" : tensor<4x2x3x3x!ternary.trit>\n'
        f"%0 = ternary.conv %x, %w {{{WINDOW}}}"
        " : tensor<?x2x6x6xf32>, tensor<4x2x3x3x!ternary.trit> -> tensor<?x4x4x4xf32>",
    ),
    "tensor.matmul": (
        *LINEAR,
        '%w = tensor.parameter "w" : tensor<6x4xf32>\n'
        "%0 = tensor.matmul %x, %w : (tensor<?x6xf32>, tensor<6x4xf32>) -> tensor<?x4xf32>",
    ),
    "tensor.conv": (
        *CONV,
        '%w = tensor.parameter "w" : tensor<4x2x3x3xf32>\n'
        f"%0 = tensor.conv %x, %w {{{WINDOW}}}"
        " : (tensor<?x2x6x6xf32>, tensor<4x2x3x3xf32>) -> tensor<?x4x4x4xf32>",
    ),
}
"""For each product the types of input and result, the shape of a number a channel, and the IR."""

STEPS = ("add", "add_left", "sub", "mul", "mul_scalar", "div", "batch_norm", "relu", "relu6")


def program(product: str, steps: list[str]) -> str:
    """A product and what follows it."""
    x, y, vector, body = PRODUCTS[product]
    lines = [body]
    last = "%0"
    for index, step in enumerate(steps, 1):
        name = f"%s{index}"
        if step == "batch_norm":
            keys = ("g", "b", "m", "var")
            lines += [f'{name}{k} = tensor.parameter "bn{index}.{k}" : tensor<4xf32>' for k in keys]
            operands = ", ".join([last, *(f"{name}{k}" for k in keys)])
            types = ", ".join([y, *["tensor<4xf32>"] * 4])
            lines.append(f"{name} = tensor.batch_norm {operands} : ({types}) -> {y}")
        elif step.startswith("relu"):
            lines.append(f"{name} = tensor.{step} {last} : ({y}) -> {y}")
        else:
            op, _, form = step.partition("_")
            type = "tensor<f32>" if form == "scalar" else f"tensor<{vector}xf32>"
            lines.append(f'{name}c = tensor.parameter "c{index}.var" : {type}')
            pairs = [(last, y), (f"{name}c", type)]
            (lhs, lt), (rhs, rt) = reversed(pairs) if form == "left" else pairs
            lines.append(f"{name} = tensor.{op} {lhs}, {rhs} : ({lt}, {rt}) -> {y}")
        last = name
    body = "\n".join(lines)
    return f"func.func @forward(%x: {x}) -> {y} {{\n{body}\nfunc.return {last} : {y}\n}}"


@given(
    st.sampled_from(sorted(PRODUCTS)),
    st.lists(st.sampled_from(STEPS), max_size=6),
    st.booleans(),
    st.integers(0, 1000),
)
def test_fusion_computes_the_same(
    filled: Filled,
    apply_passes: Apply,
    samples: Samples,
    product: str,
    steps: list[str],
    exact: bool,
    seed: int,
) -> None:
    module = filled(program(product, steps), seed)
    inputs = samples(module, seed)
    before = run_module(module, inputs)[0]
    pipeline = f"fuse-linear{{exact={str(exact).lower()}}}"
    text = apply_passes(module, pipeline)
    after = run_module(module, inputs)[0]
    if exact:
        np.testing.assert_array_equal(after, before)
    else:
        size = np.abs(before).max() + 1
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=2e-5 * size)
    assert apply_passes(module, pipeline) == text


@given(
    st.sampled_from(["ternary.linear", "ternary.conv", "ternary.matmul"]),
    st.lists(st.sampled_from(STEPS[:7]), max_size=5),
    st.sampled_from(["relu", "relu6"]),
)
def test_all_that_can_be_fused_is(
    filled: Filled, apply_passes: Apply, product: str, steps: list[str], activation: str
) -> None:
    module = filled(program(product, [*steps, activation]))
    apply_passes(module, "fuse-linear,fold-constants")
    ops = [op.name for op in module.walk() if not op.name.endswith((".parameter", ".constant"))]
    fused = "ternary.conv" if product == "ternary.conv" else "ternary.linear"
    assert ops == ["builtin.module", "func.func", fused, "func.return"]


@pytest.mark.parametrize("product", ["tensor.conv", "ternary.conv"])
def test_batch_norm_against_torch(
    filled: Filled, apply_passes: Apply, samples: Samples, product: str
) -> None:
    import torch

    from triton_dsl.dialects.parameters import parameter_value, parameters

    module = filled(program(product, ["add", "batch_norm", "relu"]), 5)
    values = {
        op.key.data: torch.from_numpy(parameter_value(op).astype(np.float64))
        for op in parameters(module)
    }
    inputs = samples(module)
    apply_passes(module, "fuse-linear,fold-constants")
    assert not any(isinstance(op, tensor.BatchNormOp) for op in module.walk())
    x = torch.from_numpy(inputs[0].astype(np.float64))
    y = torch.nn.functional.conv2d(x, values["w"]) + values["c1.var"]
    mean, var, gain, bias = (values[f"bn2.{k}"] for k in ("m", "var", "g", "b"))
    expected = torch.nn.functional.batch_norm(y, mean, var, gain, bias).relu()
    np.testing.assert_allclose(run_module(module, inputs)[0], expected, rtol=1e-4, atol=1e-4)


def test_the_structure_does_not_depend_on_weights(filled: Filled, apply_passes: Apply) -> None:
    text = program("ternary.conv", ["add", "batch_norm", "relu"])
    without = apply_passes(parse_module(text), "fuse-linear")
    with_weights = filled(text)
    apply_passes(with_weights, "fuse-linear")
    del with_weights.attributes["tensor.parameters"]
    assert str(with_weights) == without


def test_locations_and_names_are_kept(filled: Filled, apply_passes: Apply) -> None:
    module = filled(program("ternary.matmul", ["add", "relu"]))
    before = {op.name: op.location for op in module.walk()}
    apply_passes(module, "fuse-linear")
    (fused,) = [op for op in module.walk() if op.name == "ternary.linear"]
    assert fused.location == before["ternary.matmul"]
    assert fused.results[0].name_hint == "s2"


def test_batch_norm_on_another_axis_stays(
    filled: Filled, apply_passes: Apply, samples: Samples
) -> None:
    """On [batch, time, channels] batch normalisation is over time, not channels."""
    vectors = "tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>"
    module = filled(
        f"""
        func.func @forward(%x: tensor<?x4x6xf32>) -> tensor<?x4x4xf32> {{
          %w = ternary.parameter "w" : tensor<6x4x!ternary.trit>
          %p = tensor.parameter "var" : tensor<4xf32>
          %0 = ternary.linear %x, %w
            : tensor<?x4x6xf32>, tensor<6x4x!ternary.trit> -> tensor<?x4x4xf32>
          %1 = tensor.batch_norm %0, %p, %p, %p, %p
            : (tensor<?x4x4xf32>, {vectors}) -> tensor<?x4x4xf32>
          func.return %1 : tensor<?x4x4xf32>
        }}
        """
    )
    inputs = samples(module)
    before = run_module(module, inputs)[0]
    assert "tensor.batch_norm" in apply_passes(module, "fuse-linear")
    np.testing.assert_array_equal(run_module(module, inputs)[0], before)


INTEGERS = """
func.func @forward(%x: tensor<?x6xi8>) -> tensor<?x4xi8> {{
  %w = ternary.parameter "w" : tensor<6x4x!ternary.trit>
  %b = tensor.parameter "b" : tensor<4xi32>
  %0 = ternary.linear %x, %w : tensor<?x6xi8>, tensor<6x4x!ternary.trit> -> tensor<?x4xi32>
  %1 = tensor.add %0, %b : (tensor<?x4xi32>, tensor<4xi32>) -> tensor<?x4xi32>
  {relu}
  {last}
  func.return %y : tensor<?x4xi8>
}}
"""
RELU = "%2 = tensor.relu %1 : (tensor<?x4xi32>) -> tensor<?x4xi32>"
THRESHOLDS = (
    '%t = tensor.parameter "t" : tensor<4x5xi32>\n'
    "%y = tensor.multi_threshold {0}, %t : (tensor<?x4xi32>, tensor<4x5xi32>) -> tensor<?x4xi8>"
)
REQUANTIZE = (
    '%m = tensor.parameter "m" : tensor<4xi32>\n'
    "%s = tensor.constant dense<5> : tensor<i32>\n%z = tensor.constant dense<-3> : tensor<i8>\n"
    "%y = tensor.requantize {0}, %m, %s, %z"
    " : (tensor<?x4xi32>, tensor<4xi32>, tensor<i32>, tensor<i8>) -> tensor<?x4xi8>"
)


@pytest.mark.parametrize("relu", ["", RELU])
@pytest.mark.parametrize("last", [THRESHOLDS, REQUANTIZE])
def test_integers_stay_exact(
    filled: Filled, apply_passes: Apply, samples: Samples, relu: str, last: str
) -> None:
    module = filled(INTEGERS.format(relu=relu, last=last.format("%2" if relu else "%1")))
    inputs = samples(module, batch=50)
    before = run_module(module, inputs)[0]
    assert len(np.unique(before)) > 3
    text = apply_passes(module, "fuse-linear")
    assert text.count("ternary.linear") == 1 and "tensor.add" not in text
    np.testing.assert_array_equal(run_module(module, inputs)[0], before)
    assert "b" in store_of(module)


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("step", ["add", "mul", "relu"])
def test_exact_fusion_keeps_every_rounding_of_narrow_floats(
    filled: Filled, apply_passes: Apply, samples: Samples, type: str, step: str
) -> None:
    text = program("ternary.linear", [step]).replace("f32", type)
    module = filled(text)
    inputs = samples(module, batch=200)
    before = run_module(module, inputs)[0]
    apply_passes(module, "fuse-linear{exact=true}")
    np.testing.assert_array_equal(run_module(module, inputs)[0], before)
    assert (f"tensor.{step}" in str(module)) == (step != "relu")
