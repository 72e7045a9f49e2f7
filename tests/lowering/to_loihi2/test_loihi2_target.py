"""The target `loihi2`: its files, what it refuses, and Lava on what it writes."""

from __future__ import annotations

import ast
import importlib.util
import json
import symtable
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.lowering.engine import engine_of, run_target
from triton_dsl.lowering.from_netx import import_netx
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import compile_to_target, get_target, read_options
from triton_dsl.lowering.to_loihi2.engine import Loihi2Engine
from triton_dsl.lowering.to_loihi2.network import RESERVED
from triton_dsl.lowering.to_loihi2.synapses import as_held
from triton_dsl.runtime import lava, pack_trits

HERE = Path(__file__).parent
RECORDED = Path(__file__).parents[2] / "lava_peer" / "recorded"


def load(name: str) -> Any:
    """A file beside this one, which is in no package."""
    spec = importlib.util.spec_from_file_location(f"loihi2_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FEATURES = load("features")
FEEDBACK = load("feedback")
PROGRAMS = {
    "features": (FEATURES.features, FEATURES.inputs),
    "feedback": (FEEDBACK.feedback, FEEDBACK.inputs),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("simulated", [False, True])
def test_the_program_is_what_lava_gave_for_its_script(name: str, simulated: bool) -> None:
    module, x = (make() for make in PROGRAMS[name])
    got = Loihi2Engine.of(module, get_target("loihi2"), {}).simulated(x) if simulated else None
    with np.load(RECORDED / f"{name}.npz") as recorded:
        for index, value in enumerate(got or run_module(module, x)):
            assert value.any()
            np.testing.assert_array_equal(value, recorded[f"y{index}"])


def test_feedback_is_read_and_written() -> None:
    artifact = compile_to_target(FEEDBACK.feedback(), "loihi2")
    script = artifact.text("network.py")
    for part in (
        "s.s_out.connect(WR.s_in)\n    WR.a_out.connect(s.a_in)",  # a step later
        'DelayDense(weights=load("WB"), max_delay=2,',  # of three steps one is the synapse's own
        "act_mode=ActivationMode.RELU, cum_error=False, state_exp=6",
    ):
        assert part in script
    placed = json.loads(artifact.text("cores.json"))
    assert {part["population"] for part in placed["slices"]} == {"s", "n", "hidden", "out"}


WORDS = {
    "ONES": "array<i64: 1, 1, 1>",
    "STARTS": "%2 = tensor.slice %fed {starts = array<i64:",
    "TURNED": "%turned = tensor.reshape_to %change {shape = array<i64: -3, -2, 4>}"
    " : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>\n  %came = spike.delay %turned",
    "FIRST": "%first3 = tensor.slice %other {starts = array<i64: 1, 0, 0>, ends = array<i64: "
    "9223372036854775807, 9223372036854775807, 3>, steps = array<i64: 1, 1, 1>}"
    " : (tensor<?x?x3xi32>) -> tensor<?x?x3xi32>\n  %m = spike.delay %first3",
}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("threshold = 1920.0", "threshold = 1921.0", "between multiples of 64"),
        ("%st, %n", "%st, %up", "whole populations or inputs"),
        ("%sum, %far", "%fed4, %far", "sum of products"),
        ("9223372036854775807, 7>, steps = array<i64: 1, 1, 1>", "1, 7>, steps = ONES", "a part"),
        ("%2 = tensor.slice %fed {starts = array<i64: 0, 0, 4>", "STARTS 0, 1, 4>", "a part"),
        ("%came = spike.delay %change", "TURNED", "reshaped over steps and samples"),
        ("%m = spike.delay %other", "FIRST", "a part"),
    ],
)
def test_feedback_that_the_chip_lacks_is_refused(old: str, new: str, reason: str) -> None:
    fed = "%fed4 = tensor.convert %1 : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>\n    %t = "
    text = FEEDBACK.PROGRAM.replace("%t = ", fed)
    assert old in text
    for word, meaning in WORDS.items():
        new = new.replace(word, meaning)
    with pytest.raises(UnsupportedError, match=reason):
        compile_to_target(FEEDBACK.feedback(text.replace(old, new)), "loihi2")


def test_activity_is_measured_within_feedback(tmp_path: Path) -> None:
    module, (spikes, changes) = FEEDBACK.feedback(), FEEDBACK.inputs(3)
    data = tmp_path / "data.npz"
    np.savez(data, x=spikes.swapaxes(0, 1), change=changes.swapaxes(0, 1))
    target = get_target("loihi2")
    driver = target.driver(module, read_options(target, {"data": str(data)}))
    assert driver is not None
    run = driver([spikes, changes])
    rates = {part.name: part.rates for part in run.workload.neurons}
    got = [(y != 0).mean((0, 1)) for y in run_module(module, [spikes, changes])]
    for name, expected in zip(["s", "n", "out"], got, strict=True):
        np.testing.assert_allclose(rates[name], expected)
        np.testing.assert_allclose(run.rates()[name], expected)


@pytest.mark.parametrize("make", [make for make, _ in PROGRAMS.values()])
def test_names_of_the_script_are_left_to_it(make: Any) -> None:
    module, script = make(), ""
    for name in RESERVED:
        entry_function(module, "forward").body.block.args[0].name_hint = name
        script = compile_to_target(module, "loihi2").text("network.py")
        assert f"{name}_1 = RingBuffer" in script
    table = symtable.symtable(script, "network.py", "exec")
    (build,) = (part for part in table.get_children() if part.get_name() == "build")
    assert {each.get_name() for each in build.get_symbols() if each.is_global()} < set(RESERVED)


def test_parts_that_nothing_joins_are_refused() -> None:
    text = """
func.func @forward(%x: tensor<?x?x2xi32>, %y: tensor<?x?x2xi32>)
    -> (tensor<?x?x2xi32>, tensor<?x?x2xi32>) {
  %a = spike.loihi_sigma_delta %x : (tensor<?x?x2xi32>) -> tensor<?x?x2xi32>
  %b = spike.loihi_sigma_delta %y : (tensor<?x?x2xi32>) -> tensor<?x?x2xi32>
  func.return %a, %b : tensor<?x?x2xi32>, tensor<?x?x2xi32>
}"""
    with pytest.raises(UnsupportedError, match="parts that nothing joins"):
        compile_to_target(parse_module(text), "loihi2")


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (compile_to_target(FEATURES.features(), "loihi2") for _ in range(2))
    assert first.files == second.files
    assert {"network.py", "arrays/far.npy"} <= set(first.files)
    ast.parse(first.text("network.py"))


def test_the_simulator_is_the_engine_without_lava(monkeypatch: Any) -> None:
    monkeypatch.setattr("triton_dsl.lowering.to_loihi2.engine.lava_python", lambda: None)
    x = FEATURES.inputs()
    name, got, size = run_target(FEATURES.features(), "loihi2", x)
    assert name == "Triton DSL's simulator of Loihi 2" and size > 0
    for one, other in zip(got, run_module(FEATURES.features(), x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("lava_here")
@pytest.mark.parametrize("program", PROGRAMS)
def test_lava_runs_the_script(program: str) -> None:
    """The folder as it is, in Lava itself: spikes, u and v."""
    module, x = PROGRAMS[program][0](), PROGRAMS[program][1](1)
    name, got, _ = run_target(module, "loihi2", x)
    assert name == "lava-nc 0.10.0 (fixed_pt)"
    for one, other in zip(got, run_module(module, x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("lava_here")
def test_a_network_of_lava_dl_in_lava(shared_data: Any) -> None:
    """A thousand steps: every spike, u and v of three layers."""
    from lava_peer.record import digest, trains

    path = shared_data.path("models", "netx", "mnist_784_128_64_10.net")
    artifact = compile_to_target(import_netx(path), "loihi2")
    got = lava.run_script(artifact.files, {"input": trains()[:, None]}, states=True)
    with np.load(RECORDED / "mnist.npz") as recorded:
        fired = np.packbits(got["layer2.spikes"][:, 0].astype(bool), axis=1)
        np.testing.assert_array_equal(fired, recorded["layer2.s"])
        for key in (f"layer{n}.{v}" for n in range(3) for v in "uv"):
            assert digest(got[key][:, 0]) == str(recorded[f"{key}.sha256"])


def test_netx_comes_back(shared_data: Any, tmp_path: Path) -> None:
    module = import_netx(shared_data.path("models", "netx", "mnist_784_128_64_10.net"))
    artifact = compile_to_target(module, "loihi2{form=netx}")
    again = compile_to_target(module, "loihi2", output=tmp_path / "a.net")
    assert artifact.files == again.files
    path = tmp_path / "a.net"
    path.write_bytes(next(iter(artifact.files.values())))
    x = np.random.default_rng(0).random((40, 2, 784)) < 0.1
    expected, got = (run_module(m, [x])[0] for m in (module, import_netx(path)))
    assert expected.any()
    np.testing.assert_array_equal(got, expected)
    assert compile_to_target(import_netx(path), "loihi2{form=netx}").files == {
        name: path.read_bytes() for name in ["a.net"]
    }


def test_netx_has_no_way_for_what_it_lacks() -> None:
    with pytest.raises(UnsupportedError, match="netx has one input, of spikes"):
        compile_to_target(FEATURES.features(), "loihi2{form=netx}")


def test_everything_that_is_refused_is_told_at_once() -> None:
    module = parse_module(
        """
func.func @forward(%x: tensor<?x?x4xf32>, %s: !spike.train<?x?x4>) -> tensor<?x?x4xi32> {
  %w = tensor.constant dense<1> : tensor<4x4xi8>
  %i = spike.linear %s, %w : !spike.train<?x?x4>, tensor<4x4xi8> -> tensor<?x?x4xi32>
  %n = spike.loihi_lif %i {du = 0.0 : f64, dv = 0.0 : f64, threshold = 1.0 : f64}
    : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>
  %y = spike.to_tensor %n : (!spike.train<?x?x4>) -> tensor<?x?x4xi32>
  %z = tensor.abs %y : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>
  func.return %z : tensor<?x?x4xi32>
}"""
    )
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(module, "loihi2")
    message = str(caught.value)
    for part in ("inputs are spikes, or currents of i32", "hears spikes 0 steps later", "abs"):
        assert part in message


def test_trains_of_the_language_are_inputs_and_results() -> None:
    """They are tensors of truth values at the edges of a program."""
    rng = np.random.default_rng(0)
    w = np.array([[1, -1, 0], [1, 1, 1], [0, 1, -1], [-1, 0, 1]])
    source = """layer Net {
    param w: TernaryTensor[4, 3]
    fn forward(s: SpikeTensor[T, N, 4]) -> SpikeTensor[T, N, 3] {
        return integrate_fire(s @ w, threshold=1.5, reset="subtract")
    }
}"""
    module = import_tri(source, weights={"w": pack_trits(w)})
    x = rng.random((40, 2, 4)) < 0.5
    v, expected = np.zeros((2, 3)), np.zeros((40, 2, 3), np.bool_)
    for step, before in enumerate(x[:-1], 1):  # what arrives came a step before
        v = v + before @ w
        expected[step] = v >= 1.5
        v -= 1.5 * expected[step]
    engine = engine_of(module, "loihi2")
    (spikes,) = engine.run([x])
    assert spikes.dtype == np.bool_ and 5 < spikes.sum() < spikes.size / 2
    np.testing.assert_array_equal(spikes, expected)


@pytest.mark.parametrize("threshold", ["64.0", "65.0"])
@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("%0 = tensor.abs %f : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>", "", "tensor.abs"),
        ("", "%1 = tensor.abs %i : (tensor<?x?x4xi32>) -> tensor<?x?x4xi32>", "tensor.abs"),
        ("", "%1 = tensor.sub %i, %i : TWO", "tensor.sub"),
    ],
)
def test_what_stands_between_neurons_is_named(
    before: str, after: str, named: str, threshold: str
) -> None:
    """Beside what is wrong with the neuron itself."""
    module = parse_module(
        f"""
func.func @forward(%s: !spike.train<?x?x4>) -> !spike.train<?x?x4> {{
  %w = tensor.constant dense<1> : tensor<4x4xi8>
  %d = spike.delay %s {{steps = 1 : i64}} : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
  %f = spike.to_tensor %d : (!spike.train<?x?x4>) -> tensor<?x?x4xi32>
  {before}
  %g = tensor.convert {"%0" if before else "%f"} : (tensor<?x?x4xi32>) -> tensor<?x?x4xi8>
  %i = spike.linear %g, %w : tensor<?x?x4xi8>, tensor<4x4xi8> -> tensor<?x?x4xi32>
  {after.replace("TWO", "(tensor<?x?x4xi32>, tensor<?x?x4xi32>) -> tensor<?x?x4xi32>")}
  %n = spike.loihi_lif {"%1" if after else "%i"} {{du = 0.0 : f64, dv = 0.0 : f64,
      threshold = {threshold} : f64}} : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>
  func.return %n : !spike.train<?x?x4>
}}"""
    )
    with pytest.raises(UnsupportedError, match=f"{named} at .*: is no part of a network"):
        compile_to_target(module, "loihi2")


@given(arrays(np.int64, (3, 4), elements=st.integers(-(2**16), 2**16)), st.integers(0, 8))
def test_weights_are_held_exactly_or_not_at_all(values: Any, places: int) -> None:
    values = (values >> places) << places
    held = as_held(values)
    mixed = bool((values < 0).any() and (values > 0).any())
    most = np.abs(values).max()
    if held is None:
        # Some exponent must be too small for the largest, or too large for the lowest bit.
        assert most > 127 and (mixed or most > 255)
        return
    np.testing.assert_array_equal(held.values, values)
    # What Lava's Dense does with eight bits, `truncate_weights` and `clip_weights`.
    clipped = np.clip(held.mantissa, -256 if mixed else -255, 255)
    truncated = (clipped >> 1) << 1 if mixed else clipped
    shift = held.exponent
    moved = truncated << shift if shift > 0 else truncated >> -shift
    np.testing.assert_array_equal(moved, values)
