"""The PyNN script gives our spikes in NEST, and sPyNNaker places it as we do.

What both gave is recorded in `tests/pynn_peers`; slow tests run them again, each in an environment
of its own. A virtual board of sPyNNaker places and loads, and runs nothing.
"""

import json
import math
import re
import sys
from typing import Any

import numpy as np
import pytest
from pynn_peers.cases import (
    BOARDS,
    CASES,
    RECORDED,
    filled,
    inputs_of,
    nest_results,
    network,
    spynnaker_slices,
)
from pynn_peers.environments import python_of

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import BackendError, LoweringError, OptionError, UnsupportedError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.targets import compile_to_target

Array = np.ndarray


def require(peer: str) -> None:
    if not python_of(peer).exists():
        pytest.skip(f"no {python_of(peer)}: python tests/pynn_peers/environments.py {peer}")


def same(wanted: Array, ours: Array) -> None:
    """Spikes are equal; potentials but for the last places of f32."""
    if ours.dtype == np.bool_:
        np.testing.assert_array_equal(wanted, ours)
    else:
        np.testing.assert_allclose(wanted, ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_spikes_that_nest_gave(name: str) -> None:
    with np.load(RECORDED / "nest.npz") as file:
        for index, ours in enumerate(run_module(CASES[name](), inputs_of(name))):
            wanted = file[f"{name}.{index}"]
            if ours.dtype == np.bool_:
                wanted = np.unpackbits(wanted, count=ours.size).reshape(ours.shape) != 0
                assert 0.1 < wanted.mean() < 0.9
            same(wanted, ours)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_spikes_that_nest_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("nest")
    monkeypatch.setenv("TRITON_NEST", str(python_of("nest")))
    ours = run_module(CASES[name](), inputs_of(name))
    for wanted, result in zip(nest_results(name), ours, strict=True):
        same(wanted, result)


def placement(artifact: Artifact) -> dict[str, Any]:
    return json.loads(artifact.text("placement.json"))


def slices(artifact: Artifact) -> dict[str, list[list[int]]]:
    """First and last neuron of each core by population."""
    placed: dict[str, list[list[int]]] = {}
    for part in placement(artifact)["slices"]:
        placed.setdefault(part["population"], []).append([part["start"], part["stop"] - 1])
    return placed


@pytest.mark.parametrize("version", BOARDS)
@pytest.mark.parametrize("name", CASES)
def test_the_cores_of_spynnaker(name: str, version: int) -> None:
    wanted = json.loads((RECORDED / "spynnaker.json").read_text())[name][str(version)]
    artifact = compile_to_target(CASES[name](), f"spinnaker{{device={BOARDS[version]}}}")
    assert slices(artifact) == wanted
    assert placement(artifact)["cores"] == sum(len(parts) for parts in wanted.values())


@pytest.mark.slow
@pytest.mark.parametrize("version", BOARDS)
@pytest.mark.parametrize("name", CASES)
def test_the_cores_of_a_virtual_board(name: str, version: int) -> None:
    require("spynnaker")
    recorded = json.loads((RECORDED / "spynnaker.json").read_text())[name][str(version)]
    assert spynnaker_slices(name, version) == recorded


def test_artefacts_are_the_same_each_time() -> None:
    first, second = (compile_to_target(CASES["mixed"](), "spinnaker") for _ in range(2))
    assert first.files == second.files
    assert set(first.files) == {"run.py", "network.json", "network.npz", "placement.json"}
    compile(first.text("run.py"), "run.py", "exec")


def test_a_leak_is_said_exactly() -> None:
    """τ of PyNN is -dt/ln β, and C makes SpiNNaker's input 1000/dt·R·(1-β) equal to 1."""
    artifact = compile_to_target(CASES["mixed"](), "spinnaker{step-ms=2.0}")
    (entry, *_) = json.loads(artifact.text("network.json"))["populations"]
    beta = float(np.float32(1 - 1e-3 / 1e-2))
    tau, cm = entry["parameters"]["tau_m"], entry["parameters"]["cm"]
    assert tau == pytest.approx(-2 / math.log(beta), rel=1e-12)
    assert 1000 / 2 * tau / cm * (1 - math.exp(-2 / tau)) == pytest.approx(1, rel=1e-12)
    assert entry["error"] < 0.01


NEURONS = {
    "subtract": (
        'model = "lif", parameters = {tau = 1.0e-2 : f64}, reset = "subtract"',
        "the reset 'subtract'",
    ),
    "cuba": (
        'model = "cuba_lif", parameters = {tau_syn = 1.0e-2 : f64, tau_mem = 1.0e-2 : f64}',
        "an exponential current",
    ),
    "adaptive": (
        'model = "adaptive_lif", parameters = {tau = 1.0e-2 : f64, '
        "tau_adaptation = 1.0e-2 : f64, kappa = 1.0 : f64}",
        "a threshold that adapts",
    ),
    "graded": ('model = "sigma_delta"', "graded spikes"),
    "low": (
        'model = "lif", parameters = {tau = 1.0e-2 : f64, v_threshold = -1.0 : f64}',
        "thresholds of 0 or less",
    ),
    "high": (
        'model = "lif", parameters = {tau = 1.0e-2 : f64, v_reset = 1.0 : f64}',
        "a reset to its threshold",
    ),
}


def test_everything_that_is_refused_is_said_at_once() -> None:
    populations = "\n".join(
        f"spike.population @{name} {{{text}, shape = array<i64: 2>}}"
        for name, (text, _) in NEURONS.items()
    )
    body = f"""
    spike.input @x {{shape = array<i64: 2>, signal = "current"}}
    {populations}
    spike.population @a {{model = "threshold", shape = array<i64: 2>,
        parameters = {{threshold = 0.5 : f64}}}}
    spike.population @b {{model = "threshold", shape = array<i64: 2>,
        parameters = {{threshold = 0.5 : f64}}}}
    spike.projection @xa @x -> @a {{connection = "one_to_one"}}
    spike.projection @ab @a -> @b {{connection = "one_to_one"}}
    spike.projection @ba @b -> @a {{connection = "one_to_one", delay = 1 : i64}}
    """
    with pytest.raises(UnsupportedError) as caught:
        compile_to_target(parse_module(f"spike.network @net dt = 1.0e-3 {{ {body} }}"), "spinnaker")
    told = "\n".join(reason for _, _, reason in caught.value.problems)
    for name, (_, reason) in NEURONS.items():
        assert re.search(f"@{name} has .*{reason}", told)
    assert "@x has numbers for an input" in told
    assert "@ab is in a cycle of 2 projections" in told and "@ba is" in told


def test_delays_beyond_the_slots() -> None:
    body = """
    spike.input @x {shape = array<i64: 2>}
    spike.population @a {model = "threshold", shape = array<i64: 2>,
        parameters = {threshold = 0.5 : f64}}
    spike.projection @xa @x -> @a {connection = "one_to_one", delay = 17 : i64}
    """
    with pytest.raises(UnsupportedError, match=r"@xa takes 17 steps.*16 slots"):
        compile_to_target(parse_module(f"spike.network @net dt = 1.0e-3 {{ {body} }}"), "spinnaker")


def test_neurons_without_a_leak_get_a_small_one() -> None:
    text = "spike.network @net dt = 1.0e-3 { spike.input @x {shape = array<i64: 2>}"
    text += ' spike.population @a {model = "integrate_fire", shape = array<i64: 2>} }'
    for options, leak in (("", 2**-12), ("{nest-only=true}", 0)):
        artifact = compile_to_target(parse_module(text), f"spinnaker{options}")
        (entry,) = json.loads(artifact.text("network.json"))["populations"]
        assert 1 - math.exp(-1 / entry["parameters"]["tau_m"]) == pytest.approx(leak, rel=1e-9)
        assert entry["error"] < 1e-4 or not leak


def test_wrong_options() -> None:
    module = CASES["mixed"]()
    with pytest.raises(OptionError, match="step-ms expects 0 to 1000, got 0"):
        compile_to_target(module, "spinnaker{step-ms=0.0}")
    with pytest.raises(OptionError, match="unknown device 'spinnaker3'"):
        compile_to_target(module, "spinnaker{device=spinnaker3}")
    with pytest.raises(OptionError, match=r"activity 'none\.npz'"):
        compile_to_target(module, 'spinnaker{activity="none.npz"}')
    with pytest.raises(LoweringError, match=r"one spike\.network, got 0"):
        compile_to_target(parse_module("func.func @forward() { func.return }"), "spinnaker")


def test_measured_activity_is_in_the_placement(tmp_path: Any) -> None:
    np.savez(tmp_path / "rates.npz", x=np.full(4, 0.5), h=np.full(3, 0.25))
    spec = {"activity": str(tmp_path / "rates.npz")}
    placed = placement(compile_to_target(CASES["mixed"](), "spinnaker", spec))
    # 4 inputs; 3 neurons to themselves, the thresholds and the output; 3 thresholds; constants.
    assert placed["traffic"]["within_cores"] == 3 * 0.25
    assert placed["traffic"]["between_cores"] == 4 * 0.5 + 2 * 3 * 0.25 + 3 + 1


def test_without_nest_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_NEST", sys.executable)
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(BackendError, match=r"pip install nest-simulator==3\.10\.0"):
        run_target(CASES["mixed"](), "spinnaker", inputs_of("mixed"))


def test_arguments_come_in_the_order_of_the_function() -> None:
    body = """
    %w = tensor.parameter "w" : tensor<2x2xf32>
    spike.input @x {shape = array<i64: 2>}
    spike.input @y {shape = array<i64: 2>}
    spike.population @a {model = "threshold", shape = array<i64: 2>,
        parameters = {threshold = 0.5 : f64}}
    spike.projection @xa @x -> @a weights(%w : tensor<2x2xf32>)
    spike.projection @ya @y -> @a weights(%w : tensor<2x2xf32>)
    spike.probe @s @a
    """
    text = network(body, {"q": (2,), "p": (2,)}, {"s": "!spike.train<?x?x2>"})
    text = text.replace("@net(%q, %p)", "@net(%p, %q)")
    module = filled(text, {"w": np.ones((2, 2), np.float32)})
    data = json.loads(compile_to_target(module, "spinnaker").text("network.json"))
    assert (data["arguments"], data["results"]) == (["y", "x"], ["s"])
