"""Element-wise ops that no pass has heard of pass through every pass, untouched and correct.

They are defined here, with the traits that hold for them and what they compute, and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass

from triton_dsl.dialects import interpret
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.meaning import mapped
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.dialects.spike.types import dense_type
from triton_dsl.dialects.tensor.elementwise import BinaryOp, FloatUnaryOp, UnaryOp
from triton_dsl.dialects.traits import Idempotent, Increasing
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes import PASSES
from triton_dsl.passes.universe import UNIVERSE
from triton_dsl.tools.rounding import carried
from triton_dsl.tools.verify import is_integer_program

Array = NDArray[Any]


@irdl_op_definition
class CubeOp(FloatUnaryOp):
    """y = x³."""

    name = "tensor.dummy_cube"
    traits = traits_def(Increasing())
    compute = mapped(lambda x: x * x * x)


@irdl_op_definition
class HalfOp(UnaryOp):
    """y = ⌊x/2⌋, of integers too."""

    name = "tensor.dummy_half"
    traits = traits_def(Increasing())
    compute = mapped(lambda x: np.floor_divide(x, x.dtype.type(2)))


@irdl_op_definition
class CeilTenOp(FloatUnaryOp):
    """y = the multiple of 10 that follows x."""

    name = "tensor.dummy_ceil_ten"
    traits = traits_def(Idempotent())
    compute = mapped(lambda x: np.ceil(x / 10) * 10)


@irdl_op_definition
class GapOp(BinaryOp):
    """z = |x - y|."""

    name = "tensor.dummy_gap"
    compute = mapped(lambda x, y: np.abs(x - y))


DUMMIES: tuple[Any, ...] = (CubeOp, HalfOp, CeilTenOp, GapOp)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interpreter knows the ops while a test runs."""
    for kind in DUMMIES:
        monkeypatch.setitem(interpret.RULES, kind, kind.compute)
    vars(interpret)["_functions"].cache_clear()
    yield
    vars(interpret)["_functions"].cache_clear()


def parsed(text: str) -> ModuleOp:
    context = triton_context()
    for kind in DUMMIES:
        context.load_op(kind)
    return parse_module(text, ctx=context)


def constant(name: str, values: Any, element: str) -> str:
    array = np.asarray(values)
    shape = "".join(f"{size}x" for size in array.shape)
    return f"%{name} = tensor.constant dense<{array.tolist()}> : tensor<{shape}{element}>\n"


rng = np.random.default_rng(3)
WEIGHT = np.round(rng.normal(size=(6, 4)), 2)
WEIGHT[:, 1] = 0

LAYERS = f"""func.func @forward(%x: tensor<5x6xf32>) -> tensor<5x3xf32> {{
  {constant("w", WEIGHT, "f32")}{constant("v", np.round(rng.normal(size=(4, 3)), 2), "f32")}
  {constant("b", [0.5, -1.5, 2.0, 0.25], "f32")}{constant("y1", [1.0, 0.0, -1.0], "f32")}
  %h = tensor.linear %x, %w, %b
     : (tensor<5x6xf32>, tensor<6x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %r = tensor.relu %h : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %c = tensor.dummy_cube %r : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %y = tensor.linear %c, %v : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %z = tensor.dummy_gap %y, %y1 : (tensor<5x3xf32>, tensor<3xf32>) -> tensor<5x3xf32>
  func.return %z : tensor<5x3xf32>
}}"""
"""A channel without weights, a batch that is fixed, and functions between."""

TRITS = "tensor<6x4x!ternary.trit>"
LEVELS = f"""func.func @forward(%x: tensor<?x6xi8>) -> tensor<?x3xf32> {{
  {constant("zero", 0, "i8")}
  %w = ternary.constant {np.sign(WEIGHT).astype(int).ravel().tolist()} : {TRITS}
  %v = ternary.constant {rng.integers(-1, 2, 12).tolist()} : tensor<4x3x!ternary.trit>
  {constant("t", [-9.0, 1.0, 8.0, 0.5], "f32")}{constant("one", 1.0, "f32")}
  {constant("minus", -1.0, "f32")}
  %s = tensor.dequantize %x, %one, %zero
     : (tensor<?x6xi8>, tensor<f32>, tensor<i8>) -> tensor<?x6xf32>
  %h = ternary.linear %s, %w : tensor<?x6xf32>, {TRITS} -> tensor<?x4xf32>
  %c = tensor.dummy_cube %h : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %p = tensor.compare %c, %t {{predicate = "ge"}}
     : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  %a = tensor.where %p, %one, %minus
     : (tensor<?x4xi1>, tensor<f32>, tensor<f32>) -> tensor<?x4xf32>
  %y = ternary.linear %a, %v
     : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}}"""
"""A function of the sums of a product whose results are two levels."""

INTEGERS = f"""func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x2xi32> {{
  {constant("w", [[10, -5], [2, 7]], "i32")}{constant("m", 1500000000, "i32")}
  {constant("first", 31, "i32")}{constant("zero", 0, "i32")}{constant("one", 1, "i32")}
  {constant("low", -60, "i32")}
  %c = tensor.convert %x : (tensor<?x2xi8>) -> tensor<?x2xi32>
  %s = tensor.matmul %c, %w : (tensor<?x2xi32>, tensor<2x2xi32>) -> tensor<?x2xi32>
  %a = tensor.requantize %s, %m, %first, %zero {{low = -2147483648 : i64, high = 2147483647 : i64}}
     : (tensor<?x2xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x2xi32>
  %h = tensor.dummy_half %a : (tensor<?x2xi32>) -> tensor<?x2xi32>
  %y = tensor.maximum %h, %low : (tensor<?x2xi32>, tensor<i32>) -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}}"""
"""A chain of steps on integers."""

CHANNELS = """func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x2xi32> {
  %w1 = ternary.constant [1, 1, 0, 0, 1, 0, -1, 0, 0, 0, 1, 0] : tensor<4x3x!ternary.trit>
  %b1 = tensor.constant dense<[1, 2, 3]> : tensor<3xi32>
  %w2 = ternary.constant [0, 0, 1, -1, 1, -1] : tensor<3x2x!ternary.trit>
  %s = ternary.linear %x, %w1 bias(%b1 : tensor<3xi32>) {activation = "relu"}
     : tensor<?x4xi8>, tensor<4x3x!ternary.trit> -> tensor<?x3xi32>
  %h = tensor.dummy_half %s : (tensor<?x3xi32>) -> tensor<?x3xi32>
  %c = tensor.clamp %h {min = -128.0 : f64, max = 127.0 : f64}
     : (tensor<?x3xi32>) -> tensor<?x3xi32>
  %q = tensor.convert %c : (tensor<?x3xi32>) -> tensor<?x3xi8>
  %y = ternary.linear %q, %w2
     : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}"""
"""A channel that is a constant, and one that nobody needs."""

RECURRENT = f"""func.func @forward(%x: tensor<7x?x4xf32>) -> tensor<7x?x4xf32> {{
  %y = spike.recurrent %x : (tensor<7x?x4xf32>) -> !spike.train<7x?x4> {{
  ^bb0(%a: tensor<7x?x4xf32>, %f: !spike.train<7x?x4>):
    {constant("r", rng.integers(-2, 3, (4, 4)) / 4, "f32")}
    %i = tensor.dummy_cube %a : (tensor<7x?x4xf32>) -> tensor<7x?x4xf32>
    %j = spike.linear %f, %r : !spike.train<7x?x4>, tensor<4x4xf32> -> tensor<7x?x4xf32>
    %k = tensor.dummy_gap %i, %j
       : (tensor<7x?x4xf32>, tensor<7x?x4xf32>) -> tensor<7x?x4xf32>
    %s = spike.lif %k {{beta = 0.5 : f64}} : (tensor<7x?x4xf32>) -> !spike.train<7x?x4>
    spike.yield %s : !spike.train<7x?x4>
  }}
  %z = spike.to_tensor %y : (!spike.train<7x?x4>) -> tensor<7x?x4xf32>
  func.return %z : tensor<7x?x4xf32>
}}"""
"""Functions of what comes in and of what is fed back."""

PROGRAMS: dict[str, tuple[str, Array]] = {
    "layers": (LAYERS, rng.normal(size=(5, 6)).astype(np.float32)),
    "levels": (LEVELS, rng.integers(-3, 4, (64, 6)).astype(np.int8)),
    "channels": (CHANNELS, rng.integers(-128, 128, (64, 4)).astype(np.int8)),
    "integers": (INTEGERS, rng.integers(-128, 128, (64, 2)).astype(np.int8)),
    "recurrent": (RECURRENT, rng.normal(size=(7, 3, 4)).astype(np.float32)),
}

ROUNDED = {"normalize-weights": 1e-5}
"""Passes whose results are rounded elsewhere, and how far they may differ."""

REFUSING = (
    "build-network", "convert-ann-to-snn", "convert-func-to-llvm", "convert-tensor-to-linalg",
    "convert-ternary-to-hw", "convert-ternary-to-llvm",
)  # fmt: skip
"""Passes that leave the dialect, or want neurons: they say in words what they cannot take."""


def a_pass(name: str, samples: Path) -> ModulePass:
    if name == "canonicalize":
        return CanonicalizePass()
    kind = UNIVERSE.all_passes[name]()
    names = [field.name for field in dataclasses.fields(kind)]
    options = {"data": str(samples)} if "data" in names else {}
    if name == "ternarize":  # by its rules; samples are for another method
        options = {}
    return kind(**options)


def dummies(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("tensor.dummy")]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", sorted({*PASSES, "canonicalize"}))
def test_it_passes_through(name: str, program: str, tmp_path: Path) -> None:
    text, x = PROGRAMS[program]
    # Files of samples have them first, whatever axis the program has them on.
    np.savez(tmp_path / "samples.npz", x=x.swapaxes(0, 1) if program == "recurrent" else x)
    before = parsed(text)
    expected = run_module(before, [x])
    current = a_pass(name, tmp_path / "samples.npz")
    module = before.clone()
    try:
        current.apply(Context(), module)
    except TritonError:
        assert name in REFUSING
        return
    if name == "convert-tensor-to-linalg":
        assert set(dummies(module)) == set(dummies(before))  # no one has a rule for it
        return
    verify_module(module)
    states = [zeros(each, x) for each in entry_function(module, "forward").args[1:]]
    results = run_module(module, [x, *states])[: len(expected)]
    for result, wanted in zip(results, expected, strict=True):
        if getattr(current, "approximate", False):
            assert result.shape == wanted.shape
        else:
            bound = ROUNDED.get(name, 0.0)
            np.testing.assert_allclose(result, wanted, rtol=bound, atol=bound)


def zeros(state: SSAValue, x: Array) -> Array:
    """What a state begins with, of the batch of `x`."""
    type = dense_type(state)
    shape = [x.shape[1] if size == DYNAMIC else size for size in type.get_shape()]
    return np.zeros(shape, numpy_dtype(type.element_type))


def changed(name: str, text: str) -> tuple[ModuleOp, str]:
    module = parsed(text)
    a_pass(name, Path()).apply(Context(), module)
    verify_module(module)
    return module, str(module)


def test_a_batch_becomes_free() -> None:
    _, text = changed("free-batch", LAYERS)
    assert "dummy_cube %r : (tensor<?x4xf32>) -> tensor<?x4xf32>" in text
    assert "dummy_gap %y, %y1 : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>" in text


def test_channels_go_through() -> None:
    _, text = changed("skip-zeros", CHANNELS)
    assert "dummy_half %s : (tensor<?x1xi32>) -> tensor<?x1xi32>" in text


def test_levels_become_thresholds() -> None:
    module, text = changed("streamline", LEVELS)
    assert "tensor.multi_threshold" in text and not dummies(module)
    x = PROGRAMS["levels"][1]
    (result,), (expected,) = run_module(module, [x]), run_module(parsed(LEVELS), [x])
    np.testing.assert_array_equal(result, expected)


def test_a_step_joins_a_chain() -> None:
    module, text = changed("merge-rescaling", INTEGERS)
    assert text.count("tensor.requantize") == 1 and not dummies(module)


@pytest.mark.parametrize("name", ["hoist-synapses", "lower-recurrent"])
def test_what_needs_no_feedback_runs_before_the_loop(name: str) -> None:
    module, _ = changed(name, RECURRENT)
    outside = [op.name for op in entry_function(module, "forward").body.block.ops]
    assert "tensor.dummy_cube" in outside and "tensor.dummy_gap" not in outside


def test_its_pattern_is_that_of_the_trait() -> None:
    text = """func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = tensor.dummy_ceil_ten %x : (tensor<4xf32>) -> tensor<4xf32>
      %b = tensor.dummy_ceil_ten %a : (tensor<4xf32>) -> tensor<4xf32>
      func.return %b : tensor<4xf32>
    }"""
    module, _ = changed("canonicalize", text)
    assert dummies(module) == ["tensor.dummy_ceil_ten"]


def test_roundings_count_where_it_has_them() -> None:
    module = parsed(LAYERS)
    exact, bounds = run_module(module, [x := PROGRAMS["layers"][1]]), [0.0]
    assert carried(module, [x], exact, bounds)[0].largest > 0
    assert not is_integer_program(module)
