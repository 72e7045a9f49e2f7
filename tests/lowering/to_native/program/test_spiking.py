"""Spiking programs in machine code beside the interpreter, bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native.program import ConvertTernaryToLLVMPass

Array = NDArray[Any]
Compile = Callable[..., Any]

STEPS = 5


def program(
    arguments: str, body: str, results: Mapping[str, str], arrays: Mapping[str, Array]
) -> ModuleOp:
    """A module with `@forward` of this body."""
    types = ", ".join(results.values())
    text = (
        f"func.func @forward({arguments}) -> ({types}) {{\n{body}\n"
        f"func.return {', '.join(results)} : {types}\n}}"
    )
    module = parse_module(text)
    attach_store(module, ParameterStore.of(arrays))
    return module


def spikes(seed: int, *shape: int, activity: float = 0.4) -> Array:
    return np.random.default_rng(seed).random(shape) < activity


def random_weights(kind: str, ins: int, outs: int) -> Array:
    """Trits packed, small integers, or eighths of them, so that sums are exact."""
    rng = np.random.default_rng(ins)
    if kind == "trit":
        return pack_trits(rng.integers(-1, 2, (ins, outs)).astype(np.int8))
    weights = rng.integers(-9, 9, (ins, outs))
    dtype = {"i8": np.int8, "f32": np.float32, "f64": np.float64}[kind]
    return (weights if kind == "i8" else weights / 8).astype(dtype)


def network(kind: str, sizes: Sequence[int], neuron: str, steps: str, batch: str) -> ModuleOp:
    """Layers of synapses with a scale and neurons; gives all trains and last potentials."""
    weight, number = {"trit": "!ternary.trit"}.get(kind, kind), "f64" if kind == "f64" else "f32"
    dialect = "ternary" if kind == "trit" else "tensor"
    arrays: dict[str, Array] = {}
    lines: list[str] = []
    results: dict[str, str] = {}
    current = "%s"
    for n, (ins, outs) in enumerate(pairwise(sizes)):
        arrays[f"w{n}"] = random_weights(kind, ins, outs)
        given, train = (f"!spike.train<{steps}x{batch}x{count}>" for count in (ins, outs))
        dense, state = (
            f"tensor<{steps}x{batch}x{outs}x{number}>",
            f"tensor<{batch}x{outs}x{number}>",
        )
        lines += [
            f'%w{n} = {dialect}.parameter "w{n}" : tensor<{ins}x{outs}x{weight}>',
            f"%c{n} = tensor.constant dense<0.25> : tensor<{number}>",
            f"%i{n} = spike.linear {current}, %w{n} scale(%c{n} : tensor<{number}>) : {given}, "
            f"tensor<{ins}x{outs}x{weight}> -> {dense}",
            f"%o{n}, %v{n} = {neuron.format(i=f'%i{n}')} : ({dense}) -> ({train}, {state})",
        ]
        results |= {f"%o{n}": train, f"%v{n}": state}
        current = f"%o{n}"
    arguments = f"%s: !spike.train<{steps}x{batch}x{sizes[0]}>"
    return program(arguments, "\n".join(lines), results, arrays)


LIF = "spike.lif {i} {{beta = 0.9 : f64, v_leak = 0.1 : f64}}"


@pytest.mark.parametrize("kind", ["trit", "i8", "f32", "f64"])
def test_layers(kind: str, recipe: str, compile_module: Compile) -> None:
    module = network(kind, (37, 70, 3, 1), LIF, str(STEPS), "?")
    compiled = compile_module(module, recipe)
    for batch in (1, 3):
        found = compiled.check([spikes(batch, STEPS, batch, 37)], batch, rtol=0)
        assert 0 < found[0].mean() < 1
    compiled.check([np.zeros((STEPS, 2, 37), bool)], 2, rtol=0)
    compiled.check([np.ones((STEPS, 2, 37), bool)], 2, rtol=0)


def test_any_number_of_steps_of_one_sample(recipe: str, compile_module: Compile) -> None:
    compiled = compile_module(network("trit", (20, 33, 5), LIF, "?", "1"), recipe)
    for steps in (1, 7):
        compiled.check([spikes(steps, steps, 1, 20)], steps, rtol=0)


@pytest.mark.parametrize(("kind", "outs"), [("trit", 2100), ("i8", 600), ("f32", 150), ("f64", 70)])
def test_layers_of_several_blocks(
    kind: str, outs: int, recipe: str, compile_module: Compile
) -> None:
    """More weights than a cache holds, and more steps than are listed at once."""
    compiled = compile_module(network(kind, (1100, outs, 3), LIF, "70", "?"), recipe)
    found = compiled.check([spikes(0, 70, 2, 1100, activity=0.03)], 2, rtol=0)
    assert 0 < found[0].mean() < 1


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_of_several_panels_in_turns(kind: str, compile_module: Compile) -> None:
    """More samples than are taken at once, and more rows of spikes than are listed at once."""
    compiled = compile_module(network(kind, (900, 37, 3), LIF, "40", "?"), "generic")
    for batch in (1, 18):
        found = compiled.check([spikes(batch, 40, batch, 900, activity=0.03)], batch, rtol=0)
        assert 0 < found[0].mean() < 1


TRACE, TRAIN, STATE = "tensor<5x?x9xf32>", "!spike.train<5x?x9>", "tensor<?x9xf32>"
MODELS = {
    "lif": (
        "%o, %v = spike.lif %x initial(%a : STATE) beta(%e : tensor<9xf32>) {v_leak = 0.3 : f64, "
        'threshold = 0.4 : f64, compare = "gt", reset = "to_value", v_reset = 0.1 : f64, '
        "gain = 0.5 : f64}",
        1,
        True,
    ),
    "integrate_fire": ("%o, %v = spike.integrate_fire %x initial(%a : STATE)", 1, True),
    "cuba_lif": (
        "%o, %v:2 = spike.cuba_lif %x initial(%a, %b : STATE, STATE) threshold(%e : tensor<9xf32>) "
        '{alpha = 0.5 : f64, beta = 0.6 : f64, w_in = 1.5 : f64, reset = "none"}',
        2,
        True,
    ),
    "leaky_integrator": (
        "%o, %v = spike.leaky_integrator %x initial(%a : STATE) {beta = 0.5 : f64}",
        1,
        False,
    ),
    "adaptive_lif": (
        "%o, %v:2 = spike.adaptive_lif %x initial(%a, %b : STATE, STATE) rho(%e : tensor<9xf32>) "
        "{beta = 0.9 : f64, kappa = 0.8 : f64, threshold = 0.5 : f64}",
        2,
        True,
    ),
    "sigma_delta": (
        "%o, %v:4 = spike.sigma_delta %x initial(%a, %b, %a, %b : STATE, STATE, STATE, STATE) "
        "{threshold = 0.8 : f64, cumulative = true, bias = 0.1 : f64}",
        4,
        False,
    ),
}


@pytest.mark.parametrize("model", list(MODELS))
def test_neurons_on_traces(model: str, recipe: str, compile_module: Compile) -> None:
    text, states, fires = MODELS[model]
    output = TRAIN if fires else TRACE
    types = ", ".join([output, *[STATE] * states])
    body = '%e = tensor.parameter "e" : tensor<9xf32>\n'
    body += f"{text.replace('STATE', STATE)} : ({TRACE}) -> ({types})"
    values = ["%v"] if states == 1 else [f"%v#{n}" for n in range(states)]
    results = {"%o": output, **dict.fromkeys(values, STATE)}
    rng = np.random.default_rng(3)
    arrays = {"e": rng.random(9).astype(np.float32)}
    module = program(f"%x: {TRACE}, %a: {STATE}, %b: {STATE}", body, results, arrays)
    compiled = compile_module(module, recipe)
    for batch in (1, 15):
        x = rng.normal(size=(STEPS, batch, 9)).astype(np.float32)
        a, b = rng.normal(size=(2, batch, 9)).astype(np.float32)
        x[0, 0, :4] = np.nan, np.inf, -np.inf, -0.0
        a[0, 3] = -0.0
        compiled.check([x, a, b], batch, rtol=0)


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_integer_neurons_wrap_around(element: str, recipe: str, compile_module: Compile) -> None:
    trace, train, state = (
        f"tensor<5x?x7x{element}>",
        "!spike.train<5x?x7>",
        f"tensor<?x7x{element}>",
    )
    body = (
        f"%o, %v = spike.integrate_fire %x {{threshold = 90.0 : f64, gain = 3.0 : f64}} "
        f": ({trace}) -> ({train}, {state})"
    )
    compiled = compile_module(program(f"%x: {trace}", body, {"%o": train, "%v": state}, {}), recipe)
    dtype = np.dtype(element.replace("i", "int"))
    for batch in (1, 12):
        info = np.iinfo(dtype)
        x = np.random.default_rng(batch).integers(info.min, info.max, (STEPS, batch, 7), dtype)
        compiled.check([x], batch)


def test_images_have_neurons_with_parameters_of_a_channel(
    recipe: str, compile_module: Compile
) -> None:
    trace, train = "tensor<5x?x2x3x3xf32>", "!spike.train<5x?x2x3x3>"
    body = (
        '%e = tensor.parameter "e" : tensor<2x1x1xf32>\n'
        f"%o = spike.lif %x beta(%e : tensor<2x1x1xf32>) : ({trace}) -> {train}"
    )
    arrays = {"e": np.asarray([0.25, 0.75], np.float32).reshape(2, 1, 1)}
    compiled = compile_module(program(f"%x: {trace}", body, {"%o": train}, arrays), recipe)
    x = np.random.default_rng(0).normal(size=(STEPS, 3, 2, 3, 3)).astype(np.float32)
    compiled.check([x], 3)


def test_all_that_has_no_kernel_is_named_at_once() -> None:
    pytest.importorskip("llvmlite")
    body = (
        f'%r = spike.encode %x {{scheme = "phase", timesteps = 5 : i64}} : ({STATE}) -> {TRAIN}\n'
        f"%h = spike.lif %y {{beta = 0.5 : f64}} : (tensor<5x?x9xf16>) -> {TRAIN}"
    )
    module = program(f"%x: {STATE}, %y: tensor<5x?x9xf16>", body, {"%r": TRAIN, "%h": TRAIN}, {})
    with pytest.raises(UnsupportedError) as caught:
        ConvertTernaryToLLVMPass().apply(triton_context(), module)
    assert "spike.encode" in str(caught.value) and "spike.lif" in str(caught.value)
