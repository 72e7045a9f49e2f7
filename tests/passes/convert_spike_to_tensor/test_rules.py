"""Ops on trains taken apart: what they compute stays, in the interpreter and in machine code."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.dialects.spike.types import dense_type
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.passes.convert_spike_to_tensor import RULES, ConvertSpikeToTensorPass

Array = NDArray[Any]

RNG = np.random.default_rng(0)
ARRAYS: Mapping[str, Array] = {
    "conv.trit": pack_trits(RNG.integers(-1, 2, (6, 2, 3, 3)).astype(np.int8)),
    "conv.i8": RNG.integers(-9, 9, (6, 2, 3, 3)).astype(np.int8),
    "conv.f32": (RNG.integers(-8, 8, (6, 2, 3, 3)) / 8).astype(np.float32),
    "fc.trit": pack_trits(RNG.integers(-1, 2, (9, 5)).astype(np.int8)),
    "fc.i8": RNG.integers(-9, 9, (9, 5)).astype(np.int8),
    "fc.f32": (RNG.integers(-8, 8, (9, 5)) / 8).astype(np.float32),
    "delays": RNG.integers(0, 4, 9).astype(np.int64),
    "vector": RNG.normal(size=8).astype(np.float32),
    "variance": RNG.random(8).astype(np.float32),
    "scale": RNG.normal(size=5).astype(np.float32),
}

IMAGE, TRAIN, TRACE, STEP = (
    "!spike.train<4x?x2x6x6>",
    "!spike.train<4x?x9>",
    "tensor<4x?x9xf32>",
    "tensor<?x9xf32>",
)
WINDOW = (
    "{strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 1>, "
    "dilation = array<i64: 1, 1>, groups = 1 : i64}"
)
POOL = "{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>}"
TOKENS, MAPS = "!spike.train<4x?x5x8>", "tensor<4x?x8x3x3xf32>"


def weights(key: str, shape: str, kind: str) -> tuple[str, str, str]:
    """A parameter, its type, and the type of sums."""
    element = "!ternary.trit" if kind == "trit" else kind
    dialect, type = "ternary" if kind == "trit" else "tensor", f"tensor<{shape}x{element}>"
    return (
        f'%w = {dialect}.parameter "{key}.{kind}" : {type}\n',
        type,
        "f32" if kind == "f32" else "i32",
    )


def synapses() -> dict[str, tuple[str, str, dict[str, str]]]:
    cases: dict[str, tuple[str, str, dict[str, str]]] = {}
    for kind in ("trit", "i8", "f32"):
        text, type, sums = weights("conv", "6x2x3x3", kind)
        result = f"tensor<4x?x6x3x5x{sums}>"
        cases[f"conv of {kind}"] = (
            f"%s: {IMAGE}",
            f"{text}%i = spike.conv %s, %w {WINDOW} : {IMAGE}, {type} -> {result}",
            {"%i": result},
        )
        text, type, sums = weights("fc", "9x5", kind)
        result = f"tensor<4x?x5x{sums}>"
        cases[f"linear of {kind}"] = (
            f"%s: {TRAIN}",
            f"{text}%i = spike.linear %s, %w : {TRAIN}, {type} -> {result}",
            {"%i": result},
        )
        if kind == "f32":
            continue
        result = "tensor<4x?x5xf32>"
        cases[f"linear of {kind}, scaled"] = (
            f"%s: {TRAIN}",
            f'{text}%c = tensor.parameter "scale" : tensor<5xf32>\n'
            "%i = spike.linear %s, %w scale(%c : tensor<5xf32>) bias(%c : tensor<5xf32>) "
            f": {TRAIN}, {type} -> {result}",
            {"%i": result},
        )
    text, type, _ = weights("fc", "9x5", "trit")
    cases["linear of graded spikes"] = (
        "%s: tensor<4x?x9xi16>",
        f"{text}%i = spike.linear %s, %w : tensor<4x?x9xi16>, {type} -> tensor<4x?x5xi32>",
        {"%i": "tensor<4x?x5xi32>"},
    )
    return cases


CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    **synapses(),
    "max_pool": (
        f"%s: {IMAGE}",
        f"%p = spike.max_pool %s {POOL} : ({IMAGE}) -> !spike.train<4x?x2x3x3>",
        {"%p": "!spike.train<4x?x2x3x3>"},
    ),
    "avg_pool": (
        f"%s: {IMAGE}",
        f"%p = spike.avg_pool %s {POOL} : ({IMAGE}) -> tensor<4x?x2x3x3xf32>",
        {"%p": "tensor<4x?x2x3x3xf32>"},
    ),
    "delay": (
        f"%s: {TRAIN}, %x: {TRACE}, %b: !spike.train<3x?x9>",
        f"""%a, %fa = spike.delay %s initial(%b : !spike.train<3x?x9>) {{steps = 3 : i64}}
            : ({TRAIN}) -> ({TRAIN}, !spike.train<3x?x9>)
        %d = tensor.parameter "delays" : tensor<9xi64>
        %e = spike.delay %s delays(%d : tensor<9xi64>) {{steps = 3 : i64}} : ({TRAIN}) -> {TRAIN}
        %c = spike.delay %x {{steps = 5 : i64}} : ({TRACE}) -> {TRACE}""",
        {"%a": TRAIN, "%fa": "!spike.train<3x?x9>", "%e": TRAIN, "%c": TRACE},
    ),
    "decode": (
        f"%s: {TRAIN}, %x: {TRACE}",
        f"""%a = spike.decode %s {{scheme = "rate"}} : ({TRAIN}) -> {STEP}
        %b = spike.decode %s {{scheme = "first_spike"}} : ({TRAIN}) -> {STEP}
        %c = spike.decode %x {{scheme = "membrane", readout = "last"}} : ({TRACE}) -> {STEP}
        %d = spike.decode %x {{scheme = "membrane", readout = "max"}} : ({TRACE}) -> {STEP}
        %e = spike.decode %x {{scheme = "membrane", readout = "mean"}} : ({TRACE}) -> {STEP}""",
        dict.fromkeys(("%a", "%b", "%c", "%d", "%e"), STEP),
    ),
    "encode": (
        f"%x: {STEP}, %y: {TRACE}, %e: tensor<i64>",
        f"""%a = spike.encode %x {{scheme = "direct", timesteps = 4 : i64}} : ({STEP}) -> {TRACE}
        %b = spike.encode %x {{scheme = "regular", timesteps = 4 : i64}} : ({STEP}) -> {TRAIN}
        %c = spike.encode %x {{scheme = "latency", timesteps = 4 : i64, threshold = 0.2 : f64}}
            : ({STEP}) -> {TRAIN}
        %d = spike.encode %x {{scheme = "phase", timesteps = 4 : i64, start = 1 : i64}}
            : ({STEP}) -> {TRAIN}
        %f = spike.encode %y {{scheme = "delta", threshold = 0.2 : f64}} : ({TRACE}) -> {TRAIN}""",
        {"%a": TRACE, **dict.fromkeys(("%b", "%c", "%d", "%f"), TRAIN)},
    ),
    "batch_norm": (
        f"%x: {MAPS}",
        f"""%v = tensor.parameter "vector" : tensor<8xf32>
        %p = tensor.parameter "variance" : tensor<8xf32>
        %y = spike.batch_norm %x, %v, %v, %v, %p {{kind = "tdbn", threshold = 0.5 : f64}} : ({MAPS},
            tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> {MAPS}""",
        {"%y": MAPS},
    ),
    "attention": (
        f"%q: {TOKENS}, %k: {TOKENS}, %v: {TOKENS}",
        f"""%o = spike.attention %q, %k, %v {{kind = "ssa", heads = 2 : i64}}
            : ({TOKENS}, {TOKENS}, {TOKENS}) -> {TOKENS}
        %r = spike.attention %q, %k, %v {{kind = "sdsa"}}
            : ({TOKENS}, {TOKENS}, {TOKENS}) -> {TOKENS}""",
        {"%o": TOKENS, "%r": TOKENS},
    ),
    "conversions": (
        f"%s: {TRAIN}, %x: {TRACE}",
        f"""%a = spike.to_tensor %s : ({TRAIN}) -> {TRACE}
        %b = spike.from_tensor %x : ({TRACE}) -> {TRAIN}""",
        {"%a": TRACE, "%b": TRAIN},
    ),
}


def module_of(name: str) -> ModuleOp:
    arguments, body, results = CASES[name]
    types = ", ".join(results.values())
    module = parse_module(
        f"func.func @forward({arguments}) -> ({types}) {{\n{body}\n"
        f"func.return {', '.join(results)} : {types}\n}}"
    )
    attach_store(module, ParameterStore.of(ARRAYS))
    return module


def inputs_of(module: ModuleOp, batch: int, seed: int, activity: float = 0.4) -> list[Array]:
    """Random trains; floats around [0, 1]; small integers."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in entry_function(module, "forward").args:
        type = dense_type(argument)
        shape, dtype = (
            [batch if n < 0 else n for n in type.get_shape()],
            numpy_dtype(type.element_type),
        )
        if dtype == np.bool_:
            arrays.append(rng.random(shape) < activity)
        elif dtype.kind == "i":
            arrays.append(rng.integers(0, 50, shape).astype(dtype))
        else:
            arrays.append((rng.random(shape) * 1.2 - 0.1).astype(dtype))
    return arrays


def agree(found: list[Array], expected: list[Array]) -> None:
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("products", ["dense", "event"])
@settings(max_examples=15)
@given(batch=st.integers(1, 4), seed=st.integers(0, 1000), activity=st.sampled_from([0, 0.3, 1]))
def test_what_ops_compute_stays(
    name: str, products: str, batch: int, seed: int, activity: float
) -> None:
    module = module_of(name)
    lowered = module.clone()
    ConvertSpikeToTensorPass(products).apply(triton_context(), lowered)
    verify_module(lowered)
    inputs = inputs_of(module, batch, seed, activity)
    agree(list(run_module(lowered, inputs)), list(run_module(module, inputs)))


@cache
def coded(scheme: str, steps: int, period: int) -> tuple[ModuleOp, ModuleOp]:
    """A program that counts earlier steps, and what the pass makes of it."""
    given = "" if scheme == "regular" else f", period = {period} : i64"
    module = parse_module(
        "func.func @forward(%x: tensor<?x3xf64>, %e: tensor<i64>) "
        f"-> !spike.train<{steps}x?x3> {{\n"
        f'%s = spike.encode %x elapsed(%e : tensor<i64>) {{scheme = "{scheme}", '
        f"timesteps = {steps} : i64, start = 3 : i64{given}}} : (tensor<?x3xf64>) -> "
        f"!spike.train<{steps}x?x3>\nfunc.return %s : !spike.train<{steps}x?x3>\n}}"
    )
    lowered = module.clone()
    ConvertSpikeToTensorPass().apply(triton_context(), lowered)
    verify_module(lowered)
    assert not any(isinstance(op, spike.EncodeOp) for op in lowered.walk())
    return module, lowered


@settings(max_examples=40)
@given(
    scheme=st.sampled_from(["phase", "regular", "latency"]),
    steps=st.sampled_from([1, 7, 64, 65, 200]),
    period=st.sampled_from([1, 8, 31]),
    elapsed=st.integers(0, 2**40),
    x=st.lists(st.floats(-0.5, 1.5, width=16), min_size=3, max_size=3),
)
def test_codes_count_earlier_steps(
    scheme: str, steps: int, period: int, elapsed: int, x: list[float]
) -> None:
    module, lowered = coded(scheme, steps, period)
    inputs = [np.array([x]), np.asarray(elapsed, np.int64)]
    agree(list(run_module(lowered, inputs)), list(run_module(module, inputs)))


@pytest.mark.parametrize("scheme", ["phase", "regular", "latency"])
def test_native_code_counts_earlier_steps(scheme: str) -> None:
    pytest.importorskip("llvmlite")
    module, _ = coded(scheme, 65, 31)
    for choice in ({}, {"recipe": "generic"}):
        program = native_program(module, choice)
        for elapsed in (0, 1, 30, 2**40 + 7):
            x = np.random.default_rng(elapsed).random((4, 3))
            inputs = [x, np.asarray(elapsed, np.int64)]
            agree(program.run(inputs), list(run_module(module, inputs)))


@pytest.mark.parametrize("name", list(CASES))
def test_native_code_computes_the_same(name: str) -> None:
    pytest.importorskip("llvmlite")
    module = module_of(name)
    for choice in ({"spikes": "event"}, {"spikes": "dense", "recipe": "generic"}):
        program = native_program(module, choice)
        for batch in (1, 3):
            inputs = inputs_of(module, batch, batch)
            agree(program.run(inputs), list(run_module(module, inputs)))


@pytest.mark.parametrize("name", [name for name in CASES if name != "conversions"])
def test_nothing_but_neurons_and_event_driven_synapses_stay(name: str) -> None:
    module = module_of(name)
    ConvertSpikeToTensorPass("dense").apply(triton_context(), module)
    left = {type(op) for op in module.walk() if type(op) in RULES}
    assert left <= {spike.ToTensorOp, spike.FromTensorOp}


def test_events_keep_synapses_of_trains_alone() -> None:
    module = module_of("linear of trit")
    ConvertSpikeToTensorPass("event").apply(triton_context(), module)
    assert any(isinstance(op, spike.LinearOp) for op in module.walk())
    module = module_of("linear of graded spikes")
    ConvertSpikeToTensorPass("event").apply(triton_context(), module)
    assert not any(isinstance(op, spike.LinearOp) for op in module.walk())


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("linear of")])
def test_sums_keep_bare_synapses_and_all_bits_of_integers(name: str) -> None:
    module = module_of(name)
    inputs = inputs_of(module, 2, 0)
    expected = list(run_module(module, inputs))
    ConvertSpikeToTensorPass("sums").apply(triton_context(), module)
    for op in module.walk():
        assert not isinstance(op, spike.LinearOp) or (op.scale is None and op.bias is None)
    agree(list(run_module(module, inputs)), expected)


def test_unknown_products_are_refused() -> None:
    with pytest.raises(
        OptionError, match="products=dense or products=event or products=sums, got 'both'"
    ):
        ConvertSpikeToTensorPass("both")


def test_layers_stay_whole() -> None:
    text = """func.func @forward(%x: !spike.train<4x?x9>) -> !spike.train<4x?x5> {
      %w = ternary.parameter "fc.trit" : tensor<9x5x!ternary.trit>
      %s = spike.layer %x, %w
           : (!spike.train<4x?x9>, tensor<9x5x!ternary.trit>) -> !spike.train<4x?x5> {
      ^bb0(%a: !spike.train<4x?x9>, %b: tensor<9x5x!ternary.trit>):
        %i = spike.linear %a, %b
             : !spike.train<4x?x9>, tensor<9x5x!ternary.trit> -> tensor<4x?x5xi32>
        %o = spike.integrate_fire %i : (tensor<4x?x5xi32>) -> !spike.train<4x?x5>
        spike.yield %o : !spike.train<4x?x5>
      }
      func.return %s : !spike.train<4x?x5>
    }"""
    module = parse_module(text)
    before = str(module)
    ConvertSpikeToTensorPass().apply(triton_context(), module)
    verify_module(module)
    assert str(module) == before
