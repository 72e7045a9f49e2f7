"""Ops of `spike` on every engine, spike for spike beside the interpreter, also in two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.stages import Stage, run_stages
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_pytorch.load import load_module
from triton_dsl.runtime.engines import run_onnx, run_torch

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
Run = Callable[[Sequence[Array]], list[Array]]

STEPS, BATCH, PLACES = 7, 3, 5


def module_of(text: str, values: dict[str, Array] | None = None) -> ModuleOp:
    module = parse_module(text, "model.mlir")
    attach_store(module, ParameterStore.of(values or {}))
    return module


def without_package(artifact: Artifact) -> Artifact:
    """The artefact as it runs where Triton DSL is not installed."""
    text = artifact.text().replace("from triton_dsl.", "raise ImportError  # ")
    assert artifact.main_file is not None
    files = {**artifact.files, artifact.main_file: text.encode()}
    return Artifact(artifact.name, files, primary=artifact.primary)


def engines_of(module: ModuleOp) -> list[Run]:
    """The program in ONNX Runtime, and in PyTorch with and without the package's own code."""
    model = compile_to_target(module.clone(), "onnx").files["model.onnx"]
    generated = compile_to_target(module.clone(), "pytorch")
    networks = [load_module(generated), load_module(without_package(generated))]
    runs: list[Run] = [lambda inputs: run_onnx(model, inputs)]
    return [*runs, *(lambda inputs, n=n: run_torch(n, inputs) for n in networks)]


def same(text: str, inputs: Sequence[Array], values: dict[str, Array] | None = None) -> None:
    """Compile, run, and compare every bit but the sign of zeros."""
    module = module_of(text, values)
    expected = run_module(module, inputs)
    for run in engines_of(module):
        equal(run(inputs), expected)


def equal(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def in_two_runs(text: str, inputs: Sequence[Array], timed: Sequence[int], cut: int) -> None:
    """One run, and two runs of the program with its states exposed, give the same bits.

    Args:
        timed: which inputs have time first.
        cut: how many steps the first run has.
    """
    module = module_of(text)
    whole = run_module(module, inputs)
    run_stages(module, [Stage("states", "expose-state")])
    types = list(entry_function(module, "forward").function_type.inputs)[len(inputs) :]
    assert types
    for run in engines_of(module):
        states = [zeros(type) for type in types]
        outputs: list[list[Array]] = []
        for part in (slice(0, cut), slice(cut, None)):
            some = [x[part] if i in timed else x for i, x in enumerate(inputs)]
            made = run([*some, *states])
            outputs.append(made[: len(whole)])
            states = made[len(whole) :]
        equal([np.concatenate(pair) for pair in zip(*outputs, strict=True)], whole)


def zeros(type: Attribute) -> Array:
    """Zeros of a tensor type, whose unknown size is that of the batch."""
    assert isa(type, TensorType)
    sizes = [BATCH if size == DYNAMIC else size for size in type.get_shape()]
    return np.zeros(sizes, numpy_dtype(type.element_type))


def dyadic(rng: np.random.Generator, *shape: int, bits: int = 4) -> Array:
    """Multiples of 2^-bits between -2 and 2: sums of them are exact in any order."""
    return (rng.integers(-2 << bits, 2 << bits, shape) / (1 << bits)).astype(np.float32)


# Neurons.

NUMBERS = st.sampled_from([0.0, 0.125, 0.5, 0.7, 0.9, 1.0])
LEVELS = st.sampled_from([-0.5, 0.0, 0.3, 1.0])
GAINS = st.sampled_from([0.5, 1.0, 1.7])
DRAWN = {
    "lif": {"beta": NUMBERS},
    "integrate_fire": {},
    "cuba_lif": {"alpha": NUMBERS, "beta": NUMBERS},
    "adaptive_lif": {"beta": NUMBERS, "rho": NUMBERS, "kappa": LEVELS},
}
STATES = {"lif": 1, "integrate_fire": 1, "cuba_lif": 2, "adaptive_lif": 2}
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@st.composite
def neurons(draw: st.DrawFn) -> tuple[str, str, int]:
    """A firing neuron with any settings: its op up to the type, its element and its states."""
    model = draw(st.sampled_from(sorted(DRAWN)))
    numbers = {name: draw(values) for name, values in DRAWN[model].items()}
    numbers["gain"] = draw(GAINS)
    if model != "integrate_fire":
        numbers["v_leak"] = draw(LEVELS)
    reset = draw(st.sampled_from(["subtract", "to_value", "none"]))
    if reset == "to_value":
        numbers["v_reset"] = draw(LEVELS)
    each = "threshold(%t : tensor<5xEL>) " if draw(st.booleans()) else ""
    if not each:
        numbers["threshold"] = draw(st.sampled_from([0.5, 1.0, 1.3]))
    shown = ", ".join(f"{name} = {value:e} : f64" for name, value in numbers.items())
    compare = draw(st.sampled_from(["gt", "ge"]))
    element = draw(st.sampled_from(sorted(DTYPES)))
    op = f'spike.{model} %x {each}{{{shown}, compare = "{compare}", reset = "{reset}"}}'
    return op.replace("EL", element), element, STATES[model]


@settings(max_examples=40, deadline=None)
@given(neurons(), st.booleans(), st.integers(0, 2**32 - 1))
def test_neurons_with_any_settings(neuron: tuple[str, str, int], free: bool, seed: int) -> None:
    op, element, count = neuron
    batch = "?" if free else str(BATCH)
    names = [f"%v{i}" for i in range(count)]
    state, run = f"tensor<{batch}x5x{element}>", f"tensor<7x{batch}x5x{element}>"
    types = ", ".join([f"!spike.train<7x{batch}x5>", *[state] * count])
    text = f"""
func.func @forward(%x: {run}, %t: tensor<5x{element}>) -> ({types}) {{
  %s, {", ".join(names)} = {op} : ({run}) -> ({types})
  func.return %s, {", ".join(names)} : {types}
}}"""
    rng = np.random.default_rng(seed)
    x = dyadic(rng, STEPS, BATCH, PLACES).astype(DTYPES[element])
    t = rng.choice([0.25, 0.5, 1.0], PLACES).astype(DTYPES[element])
    same(text, [x, t])


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["gt", "ge"]),
    st.sampled_from(["none", "relu"]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_sigma_delta(compare: str, activation: str, cumulative: bool, seed: int) -> None:
    text = f"""
func.func @forward(%x: tensor<?x3x5xf32>) -> (tensor<?x3x5xf32>, tensor<3x5xf32>,
    tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>) {{
  %s, %a, %b, %c, %d = spike.sigma_delta %x {{compare = "{compare}", threshold = 7.5e-01 : f64,
    bias = 2.5e-01 : f64, activation = "{activation}", cumulative = {str(cumulative).lower()}}}
    : (tensor<?x3x5xf32>) -> (tensor<?x3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>,
    tensor<3x5xf32>, tensor<3x5xf32>)
  func.return %s, %a, %b, %c, %d : tensor<?x3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>,
    tensor<3x5xf32>, tensor<3x5xf32>
}}"""
    same(text, [dyadic(np.random.default_rng(seed), STEPS, 3, 5)])


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_integrate_fire_on_integers_wraps_around(element: str) -> None:
    text = f"""
func.func @forward(%x: tensor<7x?x5x{element}>) -> (!spike.train<7x?x5>, tensor<?x5x{element}>) {{
  %s, %v = spike.integrate_fire %x {{threshold = 9.0 : f64, gain = 3.0 : f64}}
    : (tensor<7x?x5x{element}>) -> (!spike.train<7x?x5>, tensor<?x5x{element}>)
  func.return %s, %v : !spike.train<7x?x5>, tensor<?x5x{element}>
}}"""
    dtype = np.dtype(f"int{element[1:]}")
    x = np.random.default_rng(1).integers(-90, 90, (7, 3, 5)).astype(dtype)
    x[2] = np.iinfo(dtype).max
    same(text, [x])


@pytest.mark.parametrize(
    "op",
    [
        "spike.lif %x {beta = 0.9 : f64}",
        "spike.cuba_lif %x {alpha = 0.8 : f64, beta = 0.9 : f64}",
        "spike.adaptive_lif %x {beta = 0.9 : f64, rho = 0.99 : f64, kappa = 1.8 : f64}",
        "spike.integrate_fire %x {threshold = 1.5 : f64}",
    ],
)
@pytest.mark.parametrize("cut", [1, 4])
def test_neurons_in_two_runs(op: str, cut: int) -> None:
    text = f"""
func.func @forward(%x: tensor<?x?x5xf32>) -> !spike.train<?x?x5> {{
  %s = {op} : (tensor<?x?x5xf32>) -> !spike.train<?x?x5>
  func.return %s : !spike.train<?x?x5>
}}"""
    in_two_runs(text, [dyadic(np.random.default_rng(2), 7, 3, 5)], [0], cut)


def test_leaky_integrator_in_two_runs() -> None:
    text = """
func.func @forward(%x: tensor<?x?x5xf32>) -> tensor<?x?x5xf32> {
  %s = spike.leaky_integrator %x {beta = 0.9 : f64, v_leak = 0.5 : f64}
    : (tensor<?x?x5xf32>) -> tensor<?x?x5xf32>
  func.return %s : tensor<?x?x5xf32>
}"""
    in_two_runs(text, [dyadic(np.random.default_rng(3), 7, 3, 5)], [0], 3)


# Coding.


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["rate", "regular", "latency", "phase"]),
    st.integers(0, 9),
    st.sampled_from([None, 1, 3, 7]),
    st.booleans(),
    st.integers(0, 2**62),
)
def test_encoders(scheme: str, start: int, period: int | None, free: bool, seed: int) -> None:
    settings_of = {"timesteps": f"{STEPS} : i64", "start": f"{start} : i64"}
    if scheme == "rate":
        settings_of["seed"] = f"{seed} : i64"
    elif scheme != "regular" and period is not None:
        settings_of["period"] = f"{period} : i64"
    if scheme == "latency" and seed % 2:
        settings_of["threshold"] = "0.3 : f64"
    shown = ", ".join(f"{name} = {value}" for name, value in settings_of.items())
    batch = "?" if free else "3"
    text = f"""
func.func @forward(%x: tensor<{batch}x5xf32>, %e: tensor<i64>) -> !spike.train<7x{batch}x5> {{
  %s = spike.encode %x elapsed(%e : tensor<i64>) {{scheme = "{scheme}", {shown}}}
    : (tensor<{batch}x5xf32>) -> !spike.train<7x{batch}x5>
  func.return %s : !spike.train<7x{batch}x5>
}}"""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-0.2, 1.2, (3, 5)).astype(np.float32)
    x[0, :4] = [0.0, 1.0, 0.5, np.nan]
    same(text, [x, np.array(seed % 5)])


def test_direct_and_delta() -> None:
    text = """
func.func @forward(%x: tensor<?x5xf32>, %r: tensor<?x?x5xf32>)
    -> (tensor<7x?x5xf32>, !spike.train<?x?x5>) {
  %a = spike.encode %x {scheme = "direct", timesteps = 7 : i64}
    : (tensor<?x5xf32>) -> tensor<7x?x5xf32>
  %b = spike.encode %r {scheme = "delta", threshold = 0.5 : f64}
    : (tensor<?x?x5xf32>) -> !spike.train<?x?x5>
  func.return %a, %b : tensor<7x?x5xf32>, !spike.train<?x?x5>
}"""
    rng = np.random.default_rng(4)
    same(text, [dyadic(rng, 3, 5), dyadic(rng, 7, 3, 5)])


@pytest.mark.parametrize(
    "op",
    [
        '{scheme = "rate", timesteps = 7 : i64, seed = 3 : i64}',
        '{scheme = "phase", timesteps = 7 : i64, period = 3 : i64}',
    ],
)
def test_encoders_count_the_steps_of_earlier_runs(op: str) -> None:
    text = f"""
func.func @forward(%x: tensor<?x5xf32>) -> !spike.train<7x?x5> {{
  %s = spike.encode %x {op} : (tensor<?x5xf32>) -> !spike.train<7x?x5>
  func.return %s : !spike.train<7x?x5>
}}"""
    module = module_of(text)
    run_stages(module, [Stage("states", "expose-state")])
    x = np.random.default_rng(5).uniform(0, 1, (3, 5)).astype(np.float32)
    longer = module_of(text.replace("timesteps = 7", "timesteps = 14").replace("<7x", "<14x"))
    for run in engines_of(module):
        first, elapsed = run([x, np.array(0)])
        second, _ = run([x, elapsed])
        equal([np.concatenate([first, second])], run_module(longer, [x]))


@pytest.mark.parametrize("shape", ["7x3x5", "?x?x5"])
def test_decoders(shape: str) -> None:
    step = shape.partition("x")[2]
    text = f"""
func.func @forward(%s: !spike.train<{shape}>, %v: tensor<{shape}xf32>) -> (tensor<{step}xf32>,
    tensor<{step}xf32>, tensor<{step}xf32>, tensor<{step}xf32>, tensor<{step}xf32>) {{
  %a = spike.decode %s {{scheme = "rate"}} : (!spike.train<{shape}>) -> tensor<{step}xf32>
  %b = spike.decode %s {{scheme = "first_spike"}} : (!spike.train<{shape}>) -> tensor<{step}xf32>
  %c = spike.decode %v {{scheme = "membrane", readout = "last"}}
    : (tensor<{shape}xf32>) -> tensor<{step}xf32>
  %d = spike.decode %v {{scheme = "membrane", readout = "max"}}
    : (tensor<{shape}xf32>) -> tensor<{step}xf32>
  %e = spike.decode %v {{scheme = "membrane", readout = "mean"}}
    : (tensor<{shape}xf32>) -> tensor<{step}xf32>
  func.return %a, %b, %c, %d, %e : tensor<{step}xf32>, tensor<{step}xf32>, tensor<{step}xf32>,
    tensor<{step}xf32>, tensor<{step}xf32>
}}"""
    rng = np.random.default_rng(6)
    same(text, [rng.random((7, 3, 5)) < 0.2, dyadic(rng, 7, 3, 5)])


# Synapses.

WEIGHTS = {
    "f32": "tensor<5x4xf32>",
    "f16": "tensor<5x4xf16>",
    "f64": "tensor<5x4xf64>",
    "i8": "tensor<5x4xi8>",
    "trit": "tensor<5x4x!ternary.trit>",
}


def weights(rng: np.random.Generator, kind: str, *shape: int) -> Array:
    if kind == "trit":
        return rng.integers(-1, 2, shape).astype(np.int8)
    if kind == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return dyadic(rng, *shape).astype(DTYPES[kind])


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(WEIGHTS)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["train", "float", "integer"]),
    st.integers(0, 2**32 - 1),
)
def test_linear(kind: str, scaled: bool, biased: bool, signal: str, seed: int) -> None:
    exact = kind in ("i8", "trit")
    if signal == "integer" and not exact:
        signal = "float"
    if signal == "float" and kind == "i8":
        signal = "integer"
    floats = "f32" if kind == "trit" else kind
    given = {"train": "!spike.train<7x?x5>", "integer": "tensor<7x?x5xi16>"}.get(
        signal, f"tensor<7x?x5x{floats}>"
    )
    element = "i32" if exact and signal != "float" else floats
    options = ""
    if scaled:
        scale = "f32" if element == "i32" else element
        options += f" scale(%s : tensor<4x{scale}>)"
        element = scale
    bias = f"tensor<4x{element}>"
    options += f" bias(%b : {bias})" if biased else ""
    text = f"""
func.func @forward(%x: {given}, %w: {WEIGHTS[kind]}, %s: tensor<4x{floats if not exact else "f32"}>,
    %b: {bias}) -> tensor<7x?x4x{element}> {{
  %y = spike.linear %x, %w{options} : {given}, {WEIGHTS[kind]} -> tensor<7x?x4x{element}>
  func.return %y : tensor<7x?x4x{element}>
}}"""
    rng = np.random.default_rng(seed)
    inputs = {
        "train": rng.random((7, 3, 5)) < 0.5,
        "integer": rng.integers(-(2**15), 2**15, (7, 3, 5)).astype(np.int16),
    }
    dtype = np.int32 if element == "i32" else DTYPES[element]
    same(
        text,
        [
            inputs.get(signal, dyadic(rng, 7, 3, 5).astype(DTYPES.get(floats, np.float32))),
            weights(rng, kind, 5, 4),
            rng.choice([0.5, 1.0, 2.0], 4).astype(DTYPES["f32" if exact else floats]),
            rng.integers(-9, 9, 4).astype(dtype),
        ],
    )


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["f32", "i8", "trit"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["3x4x6x5", "?x4x6x5", "?x4x?x5"]),
    st.integers(0, 2**32 - 1),
)
def test_conv(kind: str, scaled: bool, biased: bool, image: str, seed: int) -> None:
    exact = kind in ("i8", "trit")
    element = "f32" if not exact or scaled else "i32"
    weight = f"tensor<6x2x3x3x{'!ternary.trit' if kind == 'trit' else kind}>"
    height = "?" if image.count("?") > 1 else "3"
    result = f"tensor<7x{image[0]}x6x{height}x2x{element}>"
    options = " scale(%s : tensor<6xf32>)" if scaled else ""
    options += f" bias(%b : tensor<6x{element}>)" if biased else ""
    text = f"""
func.func @forward(%x: !spike.train<7x{image}>, %w: {weight}, %s: tensor<6xf32>,
    %b: tensor<6x{element}>) -> {result} {{
  %y = spike.conv %x, %w{options} {{strides = array<i64: 2, 2>,
    padding = array<i64: 1, 0, 0, 1>, dilation = array<i64: 1, 1>, groups = 2 : i64}}
    : !spike.train<7x{image}>, {weight} -> {result}
  func.return %y : {result}
}}"""
    rng = np.random.default_rng(seed)
    spikes = rng.random((7, 3, 4, 6, 5)) < 0.5
    scale = rng.choice([0.5, 2.0], 6).astype(np.float32)
    bias = rng.integers(-9, 9, 6).astype(np.float32 if element == "f32" else np.int32)
    same(text, [spikes, weights(rng, kind, 6, 2, 3, 3), scale, bias])


def test_a_batch_of_none() -> None:
    text = """
func.func @forward(%x: !spike.train<?x?x2x4x4>, %w: tensor<3x2x3x3xi8>)
    -> (!spike.train<?x?x3x2x2>, tensor<?x3x2x2xf32>) {
  %c = spike.conv %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>,
    dilation = array<i64: 1, 1>} : !spike.train<?x?x2x4x4>, tensor<3x2x3x3xi8>
    -> tensor<?x?x3x2x2xi32>
  %s = spike.integrate_fire %c {threshold = 9.0 : f64}
    : (tensor<?x?x3x2x2xi32>) -> !spike.train<?x?x3x2x2>
  %y = spike.decode %s {scheme = "rate"} : (!spike.train<?x?x3x2x2>) -> tensor<?x3x2x2xf32>
  func.return %s, %y : !spike.train<?x?x3x2x2>, tensor<?x3x2x2xf32>
}"""
    weights_of = np.ones((3, 2, 3, 3), np.int8)
    for batch in (0, 1):
        same(text, [np.ones((4, batch, 2, 4, 4), np.bool_), weights_of])


@pytest.mark.parametrize("counted", ["true", "false"])
@pytest.mark.parametrize("batch", ["3", "?"])
def test_pools(counted: str, batch: str) -> None:
    text = f"""
func.func @forward(%x: !spike.train<7x{batch}x4x6x5>)
    -> (tensor<7x{batch}x4x3x3xf32>, !spike.train<7x{batch}x4x3x3>) {{
  %a = spike.avg_pool %x {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 0, 0, 1>, count_include_pad = {counted}}}
    : (!spike.train<7x{batch}x4x6x5>) -> tensor<7x{batch}x4x3x3xf32>
  %m = spike.max_pool %x {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    padding = array<i64: 0, 0, 0, 1>}}
    : (!spike.train<7x{batch}x4x6x5>) -> !spike.train<7x{batch}x4x3x3>
  func.return %a, %m : tensor<7x{batch}x4x3x3xf32>, !spike.train<7x{batch}x4x3x3>
}}"""
    same(text, [np.random.default_rng(8).random((7, 3, 4, 6, 5)) < 0.3])


@pytest.mark.parametrize("signal", ["!spike.train<?x?x5>", "tensor<?x?x5xf32>"])
@pytest.mark.parametrize("each", [False, True])
def test_delay_in_two_runs(signal: str, each: bool) -> None:
    delays = "delays(%d : tensor<5xi64>) " if each else ""
    text = f"""
func.func @forward(%x: {signal}, %d: tensor<5xi64>) -> {signal} {{
  %y = spike.delay %x {delays}{{steps = 3 : i64}} : ({signal}) -> {signal}
  func.return %y : {signal}
}}"""
    rng = np.random.default_rng(9)
    train = rng.random((7, 3, 5)) < 0.5
    x = train if "train" in signal else dyadic(rng, 7, 3, 5)
    inputs = [x, np.array([0, 3, 1, 2, 0])]
    same(text, inputs)
    in_two_runs(text, inputs, [0], 2)


@pytest.mark.parametrize("kind", ['"shared"', '"tdbn", alpha = 0.5 : f64, threshold = 0.75 : f64'])
def test_batch_norm(kind: str) -> None:
    text = f"""
func.func @forward(%x: tensor<7x?x4x5xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>,
    %v: tensor<4xf32>) -> tensor<7x?x4x5xf32> {{
  %y = spike.batch_norm %x, %s, %b, %m, %v {{kind = {kind}}} : (tensor<7x?x4x5xf32>, tensor<4xf32>,
    tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<7x?x4x5xf32>
  func.return %y : tensor<7x?x4x5xf32>
}}"""
    rng = np.random.default_rng(10)
    variance = rng.uniform(0.5, 2, 4).astype(np.float32)
    same(text, [dyadic(rng, 7, 3, 4, 5), *(dyadic(rng, 4) for _ in range(3)), variance])


# Attention and feedback.


@pytest.mark.parametrize("kind", ["ssa", "sdsa"])
@pytest.mark.parametrize("shape", ["?x3x6x4", "7x?x?x4"])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention(kind: str, shape: str, heads: int) -> None:
    train = f"!spike.train<{shape}>"
    text = f"""
func.func @forward(%q: {train}, %k: {train}, %v: {train}) -> {train} {{
  %s = spike.attention %q, %k, %v {{kind = "{kind}", heads = {heads} : i64}}
    : ({train}, {train}, {train}) -> {train}
  func.return %s : {train}
}}"""
    rng = np.random.default_rng(11)
    inputs = [rng.random((7, 3, 6, 4)) < 0.5 for _ in range(3)]
    same(text, inputs)
    if shape[0] == "?":
        in_two_runs(text, inputs, [0, 1, 2], 3)


RECURRENT = """
func.func @forward(%i: tensor<SIZES>, %w: tensor<4x4xf32>) -> (!spike.train<TRAIN>, tensor<SIZES>) {
  %y, %c = spike.recurrent %i, %w
      : (tensor<SIZES>, tensor<4x4xf32>) -> (!spike.train<TRAIN>, tensor<SIZES>) {
    ^bb0(%x: tensor<SIZES>, %r: tensor<4x4xf32>, %last: !spike.train<TRAIN>):
      %late = spike.delay %last {steps = 1 : i64} : (!spike.train<TRAIN>) -> !spike.train<TRAIN>
      %f = spike.linear %late, %r : !spike.train<TRAIN>, tensor<4x4xf32> -> tensor<SIZES>
      %smooth = spike.leaky_integrator %x {beta = 0.5 : f64} : (tensor<SIZES>) -> tensor<SIZES>
      %c = tensor.add %smooth, %f : (tensor<SIZES>, tensor<SIZES>) -> tensor<SIZES>
      %s = spike.lif %c {beta = 9.0e-01 : f64} : (tensor<SIZES>) -> !spike.train<TRAIN>
      spike.yield %s, %c : !spike.train<TRAIN>, tensor<SIZES>
  }
  func.return %y, %c : !spike.train<TRAIN>, tensor<SIZES>
}"""


@pytest.mark.parametrize("sizes", ["7x?x4xf32", "?x?x4xf32", "4x3x4xf32", "?x3x4xf32"])
def test_feedback(sizes: str) -> None:
    text = RECURRENT.replace("SIZES", sizes).replace("TRAIN", sizes.removesuffix("xf32"))
    rng = np.random.default_rng(12)
    steps = 4 if sizes[0] == "4" else 7
    inputs = [dyadic(rng, steps, 3, 4), dyadic(rng, 4, 4)]
    same(text, inputs)
    if sizes[0] == "?":
        in_two_runs(text, inputs, [0], 3)


def test_feedback_of_trits() -> None:
    text = """
func.func @forward(%i: tensor<7x?x4xi32>) -> !spike.train<7x?x4> {
  %y = spike.recurrent %i : (tensor<7x?x4xi32>) -> !spike.train<7x?x4> {
    ^bb0(%x: tensor<7x?x4xi32>, %last: !spike.train<7x?x4>):
      %w = ternary.parameter "w" : tensor<4x4x!ternary.trit>
      %f = spike.linear %last, %w : !spike.train<7x?x4>, tensor<4x4x!ternary.trit>
        -> tensor<7x?x4xi32>
      %c = tensor.add %x, %f : (tensor<7x?x4xi32>, tensor<7x?x4xi32>) -> tensor<7x?x4xi32>
      %s = spike.integrate_fire %c {threshold = 5.0 : f64}
        : (tensor<7x?x4xi32>) -> !spike.train<7x?x4>
      spike.yield %s : !spike.train<7x?x4>
  }
  func.return %y : !spike.train<7x?x4>
}"""
    rng = np.random.default_rng(13)
    stored = pack_trits(rng.integers(-1, 2, (4, 4)).astype(np.int8))
    same(text, [rng.integers(-3, 6, (7, 3, 4)).astype(np.int32)], {"w": stored})


# Whole networks.


def test_simulated_networks_and_layers() -> None:
    text = """
builtin.module {
  spike.network @net dt = 1.0e-03 {
    %w = tensor.constant dense<[[1.5, 0.5], [0.25, 1.0], [0.75, -0.5]]> : tensor<3x2xf32>
    %i = tensor.constant dense<[[0.0, -1.0], [-1.0, 0.5]]> : tensor<2x2xf32>
    spike.input @pixels {shape = array<i64: 3>}
    spike.population @out {model = "lif", shape = array<i64: 2>, parameters = {tau = 4.0e-03 : f64,
      r = 4.0 : f64}}
    spike.projection @fc @pixels -> @out weights(%w : tensor<3x2xf32>)
    spike.projection @inhibit @out -> @out weights(%i : tensor<2x2xf32>) {delay = 2 : i64}
    spike.probe @spikes @out
    spike.probe @potential @out {variable = "v"}
  }
  func.func @forward(%x: !spike.train<12x?x3>) -> (!spike.train<12x?x2>, tensor<12x?x2xf32>) {
    %o, %v = spike.simulate @net(%x)
      : (!spike.train<12x?x3>) -> (!spike.train<12x?x2>, tensor<12x?x2xf32>)
    func.return %o, %v : !spike.train<12x?x2>, tensor<12x?x2xf32>
  }
}"""
    same(text, [np.random.default_rng(15).random((12, 3, 3)) < 0.5])


def test_layers_of_the_fused_form() -> None:
    text = """
func.func @forward(%x: !spike.train<7x?x5>, %w: tensor<5x4xf32>) -> !spike.train<7x?x4> {
  %s = spike.layer %x, %w : (!spike.train<7x?x5>, tensor<5x4xf32>) -> !spike.train<7x?x4> {
    ^bb0(%a: !spike.train<7x?x5>, %b: tensor<5x4xf32>):
      %i = spike.linear %a, %b : !spike.train<7x?x5>, tensor<5x4xf32> -> tensor<7x?x4xf32>
      %o = spike.lif %i {beta = 0.5 : f64} : (tensor<7x?x4xf32>) -> !spike.train<7x?x4>
      spike.yield %o : !spike.train<7x?x4>
  }
  func.return %s : !spike.train<7x?x4>
}"""
    rng = np.random.default_rng(16)
    same(text, [rng.random((7, 3, 5)) < 0.5, dyadic(rng, 5, 4)])


@pytest.mark.parametrize("compare", ["ge", "gt"])
@pytest.mark.parametrize("reset", ["subtract", "to_value", "none"])
def test_integer_lif(compare: str, reset: str) -> None:
    """Its product of 64 bits has kernels nowhere: it is made of ops in a loop."""
    text = f"""
func.func @forward(%x: tensor<7x?x5xi32>, %d: tensor<5xi32>)
    -> (!spike.train<7x?x5>, tensor<?x5xi32>) {{
  %s, %v = spike.integer_lif %x decay(%d : tensor<5xi32>) {{shift = 15 : i64, threshold = 4.0 : f64,
    compare = "{compare}", reset = "{reset}"}}
    : (tensor<7x?x5xi32>) -> (!spike.train<7x?x5>, tensor<?x5xi32>)
  func.return %s, %v : !spike.train<7x?x5>, tensor<?x5xi32>
}}"""
    rng = np.random.default_rng(18)
    x = rng.integers(-60, 90, (7, 3, 5)).astype(np.int32)
    x[3] = rng.choice([-(2**31), 2**31 - 1], (3, 5))
    inputs = [x, np.array([0, 1, 2**14, 2**15 - 1, 2**15], np.int32)]
    same(text, inputs)
    module = module_of(text)
    equal(run_target(module, "native", inputs)[1], run_module(module, inputs))


def test_a_state_with_other_axes_than_what_comes_in() -> None:
    """Its unknown size is the batch, not what stands in its place in a step."""
    text = """
func.func @forward(%x: tensor<4x?x3xf32>) -> !spike.train<4x?x3> {
  %y = spike.recurrent %x : (tensor<4x?x3xf32>) -> !spike.train<4x?x3> {
   ^bb0(%a: tensor<4x?x3xf32>, %last: !spike.train<4x?x3>):
     %n = spike.to_tensor %last : (!spike.train<4x?x3>) -> tensor<4x?x3xf32>
     %e = tensor.sub %a, %n : (tensor<4x?x3xf32>, tensor<4x?x3xf32>) -> tensor<4x?x3xf32>
     %u = tensor.unsqueeze %e {axes = array<i64: 2>} : (tensor<4x?x3xf32>) -> tensor<4x?x1x3xf32>
     %s = spike.lif %u {beta = 0.5 : f64} : (tensor<4x?x1x3xf32>) -> !spike.train<4x?x1x3>
     %d = spike.to_tensor %s : (!spike.train<4x?x1x3>) -> tensor<4x?x1x3xi1>
     %q = tensor.squeeze %d {axes = array<i64: 2>} : (tensor<4x?x1x3xi1>) -> tensor<4x?x3xi1>
     %t = spike.from_tensor %q : (tensor<4x?x3xi1>) -> !spike.train<4x?x3>
     spike.yield %t : !spike.train<4x?x3>
  }
  func.return %y : !spike.train<4x?x3>
}"""
    x = (np.random.default_rng(21).integers(-4, 24, (4, 5, 3)) / 8).astype(np.float32)
    same(text, [x])
    module = module_of(text)
    expected = run_module(module, [x])
    for target in ("tflite", "native"):
        equal([np.asarray(run_target(module, target, [x])[1][0], np.bool_)], expected)


def test_a_loop_of_neurons_with_several_free_sizes_is_the_neurons() -> None:
    text = """
func.func @forward(%x: tensor<?x?x?xf32>) -> (!spike.train<?x?x?>, tensor<?x?xf32>) {
  %s, %v = spike.lif %x {beta = 0.5 : f64} : (tensor<?x?x?xf32>)
    -> (!spike.train<?x?x?>, tensor<?x?xf32>)
  func.return %s, %v : !spike.train<?x?x?>, tensor<?x?xf32>
}"""
    inputs = [dyadic(np.random.default_rng(22), 6, 2, 3)]
    same(text, inputs)
    module = module_of(text)
    expected = run_module(module, inputs)
    run_stages(module, [Stage("loops", "convert-spike-to-tensor{neurons=loop}")])
    equal(run_module(module, inputs), expected)
