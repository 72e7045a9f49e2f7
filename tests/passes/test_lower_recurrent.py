"""`lower-recurrent`: loops over steps give the bits of the recurrences that they come from."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.passes.expose_state import ExposeStatePass
from triton_dsl.passes.infer_shapes import InferShapesPass
from triton_dsl.passes.lower_recurrent import LowerRecurrentPass

Array = NDArray[Any]
RNG = np.random.default_rng(3)
ARRAYS = {
    "in": (RNG.integers(-8, 9, (6, 4)) / 8).astype(np.float32),
    "back": (RNG.integers(-8, 9, (4, 4)) / 8).astype(np.float32),
    "exact": RNG.integers(-9, 9, (4, 4)).astype(np.int8),
}

HEAD = "func.func @forward(%x: tensor<?x?x6xf32>) -> "
IN = """
  %w = tensor.parameter "in" : tensor<6x4xf32>
  %i = spike.linear %x, %w : tensor<?x?x6xf32>, tensor<6x4xf32> -> tensor<?x?x4xf32>"""
RUN, TRAIN = "tensor<?x?x4xf32>", "!spike.train<?x?x4>"

BODIES = {
    "lif": (
        TRAIN,
        f"""
    %r = tensor.parameter "back" : tensor<4x4xf32>
    %j = spike.linear %f, %r : {TRAIN}, tensor<4x4xf32> -> {RUN}
    %k = tensor.add %a, %j : ({RUN}, {RUN}) -> {RUN}
    %s = spike.lif %k {{beta = 0.75 : f64}} : ({RUN}) -> {TRAIN}
    spike.yield %s : {TRAIN}""",
    ),
    "integers": (
        TRAIN,
        f"""
    %r = tensor.parameter "exact" : tensor<4x4xi8>
    %c = tensor.constant dense<0.125> : tensor<f32>
    %j = spike.linear %f, %r scale(%c : tensor<f32>) : {TRAIN}, tensor<4x4xi8> -> {RUN}
    %k = tensor.add %a, %j : ({RUN}, {RUN}) -> {RUN}
    %s = spike.cuba_lif %k {{alpha = 0.5 : f64, beta = 0.75 : f64}} : ({RUN}) -> {TRAIN}
    spike.yield %s : {TRAIN}""",
    ),
    "graded, late": (
        RUN,
        f"""
    %h = tensor.constant dense<0.5> : tensor<f32>
    %d = spike.delay %f {{steps = 2 : i64}} : ({RUN}) -> {RUN}
    %e = tensor.mul %d, %h : ({RUN}, tensor<f32>) -> {RUN}
    %k = tensor.sub %a, %e : ({RUN}, {RUN}) -> {RUN}
    spike.yield %k : {RUN}""",
    ),
    "two layers": (
        TRAIN,
        f"""
    %r = tensor.parameter "back" : tensor<4x4xf32>
    %g = spike.to_tensor %f : ({TRAIN}) -> {RUN}
    %k = tensor.sub %a, %g : ({RUN}, {RUN}) -> {RUN}
    %s = spike.integrate_fire %k {{threshold = 0.5 : f64}} : ({RUN}) -> {TRAIN}
    %d = spike.delay %s {{steps = 1 : i64}} : ({TRAIN}) -> {TRAIN}
    %j = spike.linear %d, %r : {TRAIN}, tensor<4x4xf32> -> {RUN}
    %t = spike.adaptive_lif %j {{beta = 0.5 : f64, rho = 0.5 : f64, kappa = 0.5 : f64}}
        : ({RUN}) -> {TRAIN}
    spike.yield %t : {TRAIN}""",
    ),
    "input of the loop alone": (
        TRAIN,
        f"""
    %n = spike.to_tensor %f : ({TRAIN}) -> {RUN}
    %h = tensor.constant dense<0.75> : tensor<f32>
    %k = tensor.sub %h, %n : (tensor<f32>, {RUN}) -> {RUN}
    %s = spike.lif %k {{beta = 0.75 : f64}} : ({RUN}) -> {TRAIN}
    spike.yield %s : {TRAIN}""",
    ),
}


@cache
def program(name: str, states: bool = False) -> ModuleOp:
    result, body = BODIES[name]
    text = (
        f"{HEAD}{result} {{{IN}\n  %y = spike.recurrent %i : ({RUN}) -> {result} {{\n"
        f"  ^bb0(%a: {RUN}, %f: {result}):{body}\n  }}\n  func.return %y : {result}\n}}"
    )
    module = parse_module(text)
    attach_store(module, ParameterStore.of(ARRAYS))
    if states:
        ExposeStatePass().apply(triton_context(), module)
    return module


def lowered(module: ModuleOp) -> ModuleOp:
    work = module.clone()
    LowerRecurrentPass().apply(triton_context(), work)
    verify_module(work)
    names = [op.name for op in work.walk()]
    assert "spike.recurrent" not in names and "spike.scan" in names
    return work


def inputs(seed: int, *shape: int) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.integers(-8, 13, (*shape, 6)) / 8).astype(np.float32)


def same(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for have, want in zip(found, expected, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("name", list(BODIES))
@settings(max_examples=15)
@given(steps=st.integers(0, 9), batch=st.integers(1, 3), seed=st.integers(0, 1000))
def test_a_loop_is_the_recurrence(name: str, steps: int, batch: int, seed: int) -> None:
    x = inputs(seed, steps, batch)
    same(run_module(lowered(program(name)), [x]), run_module(program(name), [x]))


def started(name: str, batch: int) -> list[Array]:
    """States of zeros."""
    function = next(op for op in program(name, True).walk() if op.name == "func.func")
    types: Any = [argument.type for argument in function.regions[0].block.args[1:]]
    return [
        np.zeros(
            [batch if size < 0 else size for size in type.get_shape()],
            bool if str(type.element_type) == "i1" else np.float32,
        )
        for type in types
    ]


@pytest.mark.parametrize("name", list(BODIES))
@given(cut=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_a_run_in_two_parts(name: str, cut: int, seed: int) -> None:
    module, x = lowered(program(name, True)), inputs(seed, 7, 2)
    first = run_module(module, [x[:cut], *started(name, 2)])
    second = run_module(module, [x[cut:], *first[1:]])
    whole = run_module(program(name), [x])
    same([np.concatenate([first[0], second[0]])], whole)
    texts = [op.name for op in module.walk()]
    assert "tensor.slice" not in texts, "the last step is the state of the loop"


@cache
def compiled(name: str, recipe: str | None, steps: int | None) -> Callable[..., Any]:
    """In machine code, for so many steps and any samples, or the other way round."""
    work = parse_module(str(program(name)).replace("<?x?x", f"<{steps}x?x" if steps else "<?x1x"))
    attach_store(work, ParameterStore.of(ARRAYS))
    InferShapesPass().apply(triton_context(), work)
    return native_program(work, {} if recipe is None else {"recipe": recipe})


@pytest.mark.parametrize("recipe", [None, pytest.param("generic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(BODIES))
@settings(max_examples=8)
@given(batch=st.integers(1, 5), seed=st.integers(0, 1000))
def test_machine_code(name: str, recipe: str | None, batch: int, seed: int) -> None:
    pytest.importorskip("llvmlite")
    x = inputs(seed, 7, batch)
    same([compiled(name, recipe, 7)(x)], run_module(program(name), [x]))
    long = inputs(seed, 4 * batch, 1)
    same([compiled(name, recipe, None)(long)], run_module(program(name), [long]))


def test_all_bodies_without_a_loop_are_named() -> None:
    text = f"""{HEAD}({RUN}, {RUN}) {{{IN}
  %y = spike.recurrent %i : ({RUN}) -> {RUN} {{
  ^bb0(%a: {RUN}, %f: {RUN}):
    %k = tensor.softmax %f {{axis = 0 : i64}} : ({RUN}) -> {RUN}
    spike.yield %k : {RUN}
  }}
  %z = spike.recurrent %i : ({RUN}) -> {RUN} {{
  ^bb0(%a: {RUN}, %f: {RUN}):
    %k = tensor.cumsum %f {{axis = 0 : i64}} : ({RUN}) -> {RUN}
    spike.yield %k : {RUN}
  }}
  func.return %y, %z : {RUN}, {RUN}
}}"""
    module = parse_module(text)
    with pytest.raises(UnsupportedError, match=r"tensor\.softmax[\s\S]*tensor\.cumsum"):
        LowerRecurrentPass().apply(triton_context(), module)
    assert sum(isinstance(op, spike.RecurrentOp) for op in module.walk()) == 2
