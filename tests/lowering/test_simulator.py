"""Simulators beside the interpreter: engines, slices, samples, threads, saved states."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, OptionError, ParameterError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_nir import import_nir
from triton_dsl.lowering.simulator import simulator
from triton_dsl.runtime.spiking.simulator import Engine, Simulator

pytest.importorskip("llvmlite")

Array = NDArray[Any]
SIZES = (23, 40, 7)
NEURONS = (
    "spike.cuba_lif {i} {{alpha = 0.5 : f64, beta = 0.75 : f64}}",
    'spike.lif {i} {{beta = 0.5 : f64, reset = "to_value"}}',
)


def network(weights: str = "trit", steps: str = "?", batch: str = "?") -> ModuleOp:
    """Two layers with a delay between; gives the trains of both."""
    rng = np.random.default_rng(5)
    arrays: dict[str, Array] = {}
    lines: list[str] = []
    current = "%s"
    for n, (ins, outs) in enumerate(pairwise(SIZES)):
        trits = rng.integers(-1, 2, (ins, outs)).astype(np.int8)
        exact = weights == "trit"
        arrays[f"w{n}"] = pack_trits(trits) if exact else (trits / 4).astype(np.float32)
        dialect, element = ("ternary", "!ternary.trit") if exact else ("tensor", "f32")
        train, dense = f"!spike.train<{steps}x{batch}x{{}}>", f"tensor<{steps}x{batch}x{outs}xf32>"
        given, made = train.format(ins), train.format(outs)
        scale = f" scale(%c{n} : tensor<f32>)" if exact else ""
        lines += [
            f'%w{n} = {dialect}.parameter "w{n}" : tensor<{ins}x{outs}x{element}>',
            f"%c{n} = tensor.constant dense<0.25> : tensor<f32>",
            f"%i{n} = spike.linear {current}, %w{n}{scale} : {given}, "
            f"tensor<{ins}x{outs}x{element}> -> {dense}",
            f"%o{n} = {NEURONS[n].format(i=f'%i{n}')} : ({dense}) -> {made}",
            f"%d{n} = spike.delay %o{n} {{steps = 2 : i64}} : ({made}) -> {made}",
        ]
        current = f"%d{n}"
    types = ", ".join(f"!spike.train<{steps}x{batch}x{outs}>" for outs in SIZES[1:])
    module = parse_module(
        f"func.func @forward(%s: !spike.train<{steps}x{batch}x{SIZES[0]}>) -> ({types}) {{\n"
        + "\n".join(lines)
        + f"\nfunc.return %o0, %d1 : {types}\n}}"
    )
    attach_store(module, ParameterStore.of(arrays))
    return module


def spikes(steps: int, batch: int, activity: float = 0.4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((steps, batch, SIZES[0])) < activity


def agree(found: list[Array], expected: list[Array]) -> None:
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, int], Simulator]:
    """Simulators by engine and threads."""
    engines: tuple[Engine, ...] = ("event", "dense", "auto")
    return {(e, n): simulator(network(), e, threads=n) for n, e in enumerate(engines, 1)}


@settings(max_examples=20)
@given(
    which=st.sampled_from([("event", 1), ("dense", 2), ("auto", 3)]),
    batch=st.sampled_from([1, 2, 5]),
    cuts=st.lists(st.sampled_from([1, 2]), min_size=1, max_size=4),
    activity=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_slices_give_the_bits_of_one_run(
    made: dict[tuple[str, int], Simulator],
    which: tuple[str, int],
    batch: int,
    cuts: list[int],
    activity: float,
    seed: int,
) -> None:
    runner = made[which]
    x = spikes(sum(cuts), batch, activity, seed)
    expected = list(run_module(network(), [x]))
    bounds = list(pairwise([0, *np.cumsum(cuts).tolist()]))
    runner.reset()
    parts = [runner.run([x[first:end]]) for first, end in bounds]
    agree([np.concatenate(outputs) for outputs in zip(*parts, strict=True)], expected)
    assert runner.steps == len(x)
    runner.reset()
    agree(runner.run([x], slice_steps=2), expected)


def test_steps_that_the_program_fixes() -> None:
    runner = simulator(network(steps="4"), threads=2)
    x = spikes(12, 3)
    agree(runner.run([x]), list(run_module(network(), [x])))
    with pytest.raises(BackendError, match="runs 4 steps a call, got 6"):
        runner.run([x[:6]])


def test_a_run_of_no_steps_gives_none() -> None:
    runner = simulator(network())
    assert [y.shape for y in runner.run([spikes(0, 3)])] == [(0, 3, n) for n in SIZES[1:]]
    agree(runner.run([spikes(4, 3)]), list(run_module(network(), [spikes(4, 3)])))


def test_samples_that_the_program_fixes() -> None:
    runner = simulator(network(batch="2"), threads=2)
    x = spikes(9, 2)
    agree(runner.run([x], slice_steps=4), list(run_module(network(), [x])))


def test_states_are_saved_and_loaded(tmp_path: Path) -> None:
    x = spikes(10, 3)
    expected = list(run_module(network(), [x]))
    first = simulator(network(), "event")
    begun = first.run([x[:6]])
    first.save(tmp_path / "state.safetensors")
    second = simulator(network(), "dense")
    second.load(tmp_path / "state.safetensors")
    assert second.steps == 6 and sorted(second.state) == sorted(first.state)
    rest = second.run([x[6:]])
    agree([np.concatenate(pair) for pair in zip(begun, rest, strict=True)], expected)
    other = simulator(network(weights="f32", batch="2"))
    with pytest.raises(ParameterError, match="expected"):
        other.load(tmp_path / "state.safetensors")


def test_the_same_state_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        runner = simulator(network(), "event")
        runner(spikes(3, 2))
        runner.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_floats_are_summed_by_events_alone() -> None:
    runner = simulator(network(weights="f32"))
    x = spikes(6, 2, 0.9)
    for _ in range(3):
        runner.reset()
        agree(runner.run([x]), list(run_module(network(weights="f32"), [x])))
        assert runner.used == "event"


@pytest.mark.parametrize("engine", ["event", "dense"])
def test_slices_of_rounded_sums_give_the_bits_of_one_run(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    module = network(weights="f32")
    arrays = {f"w{n}": rng.normal(size=size) / 3 for n, size in enumerate(pairwise(SIZES))}
    attach_store(module, ParameterStore.of({k: v.astype("f4") for k, v in arrays.items()}))
    x = spikes(40, 5)
    whole = simulator(module, engine).run([x])
    assert 0.01 < whole[1].mean() < 0.99
    for threads, most in ((1, 1), (2, 3), (3, 40)):
        agree(simulator(module, engine, threads=threads).run([x], slice_steps=most), whole)
    agree(simulator(module, engine).run([x[:, 1:2]]), [y[:, 1:2] for y in whole])


@pytest.mark.parametrize("engine", ["event", "dense"])
def test_a_weight_that_is_infinite_reaches_every_sum(engine: Engine) -> None:
    """0·∞ is no number, so a neuron that has such a weight is silent but where all inputs fire."""
    weight = np.array([[np.inf, 1, 0.5], [1, 0.25, 0.5], [-np.inf, 1, 1]], np.float32)
    module = parse_module("""
func.func @forward(%s: !spike.train<?x?x3>) -> !spike.train<?x?x3> {
  %w = tensor.parameter "w" : tensor<3x3xf32>
  %i = spike.linear %s, %w : !spike.train<?x?x3>, tensor<3x3xf32> -> tensor<?x?x3xf32>
  %o = spike.integrate_fire %i : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  func.return %o : !spike.train<?x?x3>
}""")
    attach_store(module, ParameterStore.of({"w": np.ascontiguousarray(weight.T)}))
    x = np.random.default_rng(0).random((40, 5, 3)) < 0.6
    x[:, 0] = True
    v, wanted = np.zeros((5, 3)), np.zeros((40, 5, 3), bool)
    with np.errstate(invalid="ignore"):
        for t in range(40):
            v = v + (x[t, :, None, :] * weight.astype(np.float64)).sum(-1)
            wanted[t] = v >= 1
            v = np.where(wanted[t], v - 1, v)
        np.testing.assert_array_equal(simulator(module, engine)(x), wanted)
    assert wanted[:, 0, 0].all() and wanted[:, 1:, 1].any()


@pytest.mark.parametrize("engine", ["event", "dense"])
@pytest.mark.parametrize("scale", [np.inf, -np.inf])
@pytest.mark.parametrize("size", ["", "3x"])
def test_a_scale_that_is_infinite_stays_behind_sums(
    engine: Engine, scale: float, size: str
) -> None:
    """∞·Σ: silent inputs must not meet the scale within the sum, as 0·∞."""
    weight = np.array([[0.5, 1, -0.5], [1, 0.25, 0.5], [-0.25, -1, 1]], np.float32)
    module = parse_module(f"""
func.func @forward(%s: !spike.train<?x?x3>) -> !spike.train<?x?x3> {{
  %w = tensor.parameter "w" : tensor<3x3xf32>
  %c = tensor.parameter "c" : tensor<{size}f32>
  %i = spike.linear %s, %w scale(%c : tensor<{size}f32>)
    : !spike.train<?x?x3>, tensor<3x3xf32> -> tensor<?x?x3xf32>
  %o = spike.lif %i {{beta = 0.5 : f64, reset = "to_value"}}
    : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  func.return %o : !spike.train<?x?x3>
}}""")
    scales = np.full((3,) if size else (), scale, np.float32)
    if size:
        scales[1:] = 1
    attach_store(module, ParameterStore.of({"w": weight, "c": scales}))
    x = np.random.default_rng(0).random((30, 40, 3)) < 0.4
    v, wanted = np.zeros((40, 3)), np.zeros((30, 40, 3), bool)
    with np.errstate(invalid="ignore"):
        for t in range(30):
            v = 0.5 * v + scales * (x[t] @ weight)
            wanted[t] = v >= 1
            v = np.where(wanted[t], 0, v)
        np.testing.assert_array_equal(simulator(module, engine)(x), wanted)
    assert wanted[..., 0].any()


def test_both_engines_are_tried_where_much_fires() -> None:
    runner = simulator(network())
    used: set[str] = set()
    for _ in range(2):
        runner.reset()
        runner(spikes(6, 2, 0.9))
        used.add(runner.used)
    assert used == {"event", "dense"}
    runner.reset()
    runner(spikes(6, 2, 0.01))
    assert runner.used == "event"


def test_decoded_outputs_are_over_a_whole_call() -> None:
    module = parse_module(
        """
        func.func @forward(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
          %i = spike.encode %x {scheme = "direct", timesteps = 6 : i64}
              : (tensor<?x3xf32>) -> tensor<6x?x3xf32>
          %s = spike.lif %i {beta = 0.5 : f64} : (tensor<6x?x3xf32>) -> !spike.train<6x?x3>
          %y = spike.decode %s {scheme = "rate"} : (!spike.train<6x?x3>) -> tensor<?x3xf32>
          func.return %y : tensor<?x3xf32>
        }"""
    )
    runner = simulator(module, threads=2)
    x = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    np.testing.assert_array_equal(runner(x), run_module(module, [x])[0])
    assert runner.steps == 6
    assert not np.array_equal(runner(x), run_module(module, [x])[0])


def test_errors() -> None:
    with pytest.raises(OptionError, match="expected engine auto, event, dense, got 'fast'"):
        simulator(network(), "fast")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="threads must be at least 1"):
        simulator(network(), threads=0)
    runner = simulator(network(), "event")
    runner(spikes(3, 2))
    with pytest.raises(BackendError, match=r"the state is of 2 sample\(s\), the inputs of 3"):
        runner(spikes(3, 3))
    with pytest.raises(BackendError, match=r"takes 1 input\(s\), got 2"):
        runner(spikes(3, 2), spikes(3, 2))
    with pytest.raises(BackendError):
        runner(spikes(3, 2).astype(np.float32))
    with pytest.raises(OptionError, match="slice_steps"):
        runner.run([spikes(3, 2)], slice_steps=0)


PUBLISHED = (
    Path(__file__).resolve().parents[3]
    / "shared"
    / "data"
    / "models"
    / "nir"
    / "braille_noDelay_bias_zero.nir"
)

CODED = """
func.func @forward(%x: tensor<?x9xf32>) -> !spike.train<STEPSx?x4> {
  %w = tensor.constant dense<0.25> : tensor<9x4xf32>
  %s = spike.encode %x {scheme = "SCHEME", timesteps = STEPS : i64EXTRA}
      : (tensor<?x9xf32>) -> !spike.train<STEPSx?x9>
  %i = spike.linear %s, %w : !spike.train<STEPSx?x9>, tensor<9x4xf32> -> tensor<STEPSx?x4xf32>
  %o = spike.lif %i {beta = 0.5 : f64} : (tensor<STEPSx?x4xf32>) -> !spike.train<STEPSx?x4>
  func.return %o : !spike.train<STEPSx?x4>
}
"""


@pytest.mark.parametrize(
    ("scheme", "extra"),
    [("rate", ", seed = 3 : i64"), ("phase", ", period = 5 : i64"), ("regular", "")],
)
def test_codes_go_on_where_the_last_call_ended(scheme: str, extra: str) -> None:
    text = CODED.replace("SCHEME", scheme).replace("EXTRA", extra)
    runner, x = (
        simulator(parse_module(text.replace("STEPS", "6")), threads=2),
        np.random.default_rng(4).random((3, 9)),
    )
    parts = [runner.run([x.astype(np.float32)])[0] for _ in range(3)]
    whole = parse_module(text.replace("STEPS", "18"))
    agree([np.concatenate(parts)], list(run_module(whole, [x.astype(np.float32)])))
    assert runner.steps == 18


def feedback(inputs: str) -> ModuleOp:
    """A layer that sees itself one step late, of trains or currents."""
    recurrence = """
  %y = spike.recurrent %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
  ^bb0(%a: tensor<?x?x4xf32>, %f: !spike.train<?x?x4>):
    %r = tensor.constant dense<-0.375> : tensor<4x4xf32>
    %j = spike.linear %f, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %k = tensor.add %a, %j : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %s = spike.lif %k {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  func.return %y : !spike.train<?x?x4>
}"""
    return parse_module(
        f"func.func @forward(%x: {inputs}) -> !spike.train<?x?x4> {{\n"
        "  %w = tensor.constant dense<0.25> : tensor<23x4xf32>\n"
        f"  %i = spike.linear %x, %w : {inputs}, tensor<23x4xf32> -> tensor<?x?x4xf32>{recurrence}"
    )


@pytest.mark.parametrize("inputs", ["!spike.train<?x?x23>", "tensor<?x?x23xf32>"])
def test_feedback_of_any_length(inputs: str) -> None:
    module = feedback(inputs)
    runner = simulator(module, threads=2)
    for batch in (3, 1):
        x: Array = spikes(9, batch)
        x = x if "train" in inputs else x.astype(np.float32)
        runner.reset()
        agree(runner.run([x], slice_steps=4), list(run_module(module, [x])))


def test_a_published_recurrent_network() -> None:
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} is absent")
    module = import_nir(PUBLISHED)
    x = (np.random.default_rng(0).random((20, 2, 12)) < 0.3).astype(np.float32)
    expected = list(run_module(module, [x]))
    assert 0.05 < expected[0].mean() < 0.95
    runner = simulator(module, threads=2)
    agree(runner.run([x], slice_steps=8), expected)
    runner.reset()
    agree(runner.run([x[:, :1]]), [expected[0][:, :1]])
