"""What is told of a program is that of its files: their populations, slices and synapses.

Spikes come from Lava and NEST, synapses from the arrays of the files, slices from sPyNNaker.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pynn_peers import cases as pynn
from sanafe_peer import cases as sanafe
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.neuromorphic.analysis import ComparisonFramework, EnergyAnalyzer
from triton_dsl.lowering.neuromorphic.backend import NeuromorphicBackend
from triton_dsl.lowering.neuromorphic.machines import Loihi2Backend, SpiNNakerBackend
from triton_dsl.lowering.placement.energy import EnergyMetrics
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_spinnaker import network as pynn_network
from triton_dsl.lowering.to_spinnaker.target import SCRIPT
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.pictures.machine import core_map

Array = NDArray[Any]
TESTS = Path(__file__).parents[2]


def of_part(energy: EnergyMetrics, name: str, population: str) -> float:
    """How often something happens in a population, in all samples."""
    own = np.array(energy.populations) == population
    return float(energy.events[name][own].sum()) * energy.drive.samples


def loaded(path: Path) -> Any:
    """A file that is in no package."""
    spec = importlib.util.spec_from_file_location(f"analysis_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def slices_of(artifact: Artifact, file: str) -> list[Any]:
    return json.loads(artifact.text(file))["slices"]


def told_slices(energy: EnergyMetrics) -> list[Any]:
    return json.loads(json.dumps(energy.placement.to_dict()))["slices"]


def test_loihi_is_told_by_its_files() -> None:
    """Lava's spikes, and weights of the artefact that are not 0."""
    case = loaded(TESTS / "lowering" / "to_loihi2" / "features.py")
    module, inputs = case.features(), case.inputs()
    artifact = compile_to_target(module, "loihi2")
    energy = EnergyAnalyzer("loihi2").analyze(module, inputs)
    assert energy.refused == "" and energy.steps == 40
    assert told_slices(energy) == slices_of(artifact, "cores.json")
    with np.load(TESTS / "lava_peer" / "recorded" / "features.npz") as file:
        edges, signed, out = (file[f"y{n}"] for n in range(3))
    for name, spikes in (("edges", edges), ("signed", signed), ("out", out)):
        assert of_part(energy, "spike", name) == np.count_nonzero(spikes)
        neurons = spikes[0, 0].size
        assert of_part(energy, "step", name) == spikes.shape[0] * spikes.shape[1] * neurons
    synapses = {
        name: np.count_nonzero(np.load(io.BytesIO(artifact.files[f"arrays/{name}.npy"])), axis=0)
        for name in ("out_weight", "far")
    }
    fired = np.count_nonzero(signed, axis=(0, 1))
    assert of_part(energy, "synapse", "out") == fired @ synapses["out_weight"] > 0
    assert of_part(energy, "synapse", "signed") >= (
        np.count_nonzero(edges, axis=(0, 1)).reshape(-1) @ synapses["far"]
    )


def test_feedback_and_changes_are_told_by_their_files() -> None:
    """Lava's spikes again, some signed and some graded, of populations that hear themselves."""
    case = loaded(TESTS / "lowering" / "to_loihi2" / "feedback.py")
    module, inputs = case.feedback(), case.inputs()
    artifact = compile_to_target(module, "loihi2")
    energy = EnergyAnalyzer("loihi2").analyze(module, inputs)
    assert energy.refused == ""
    assert told_slices(energy) == slices_of(artifact, "cores.json")
    with np.load(case.RECORDED) as file:
        first, other, out = (file[f"y{n}"] for n in range(3))
    for name, spikes in (("s", first), ("n", other), ("out", out)):
        assert of_part(energy, "spike", name) == np.count_nonzero(spikes) > 0
    fired = {
        name: np.count_nonzero(x, axis=(0, 1))
        for name, x in (("x", inputs[0]), ("s", first), ("n", other))
    }

    def synapses(key: str) -> Array:
        return np.count_nonzero(np.load(io.BytesIO(artifact.files[f"arrays/{key}.npy"])), axis=0)

    heard = {"WX": "x", "WR": "s", "WB": "n"}
    assert of_part(energy, "synapse", "s") == sum(
        fired[source] @ synapses(key) for key, source in heard.items()
    )
    assert of_part(energy, "synapse", "n") == fired["s"] @ synapses("WU")


def test_numbers_that_the_files_cut_are_told() -> None:
    module = converted("subtract")
    with pytest.warns(UserWarning, match=r"x: numbers up to 2 are cut at 1.*peak"):
        cut = EnergyAnalyzer("loihi2").analyze(module, [IMAGES[:2] * 2 / IMAGES[:2].max()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EnergyAnalyzer("loihi2").analyze(module, [IMAGES[:2]])
        whole = EnergyAnalyzer("loihi2", {"peak": 2.0}).analyze(
            module, [IMAGES[:2] * 2 / IMAGES[:2].max()]
        )
    assert whole.events["spike"].sum() > cut.events["spike"].sum()
    with pytest.raises(OptionError, match="peek"):
        EnergyAnalyzer("loihi2", {"peek": 2.0}).analyze(module, [IMAGES[:2]])


def test_spinnaker_is_told_by_its_files() -> None:
    """NEST's spikes, lists of synapses of the artefact, and sPyNNaker's slices."""
    recorded = json.loads((pynn.RECORDED / "spynnaker.json").read_text())
    for name, probes in {
        "layers": ["n1", "n2", "n3"],
        "convolutions": ["a", "p", "e", "o"],
    }.items():
        module, (x,) = pynn.CASES[name](), pynn.inputs_of(name)
        artifact = compile_to_target(module, "spinnaker")
        data = json.loads(artifact.text("network.json"))
        arrays = np.load(io.BytesIO(artifact.files["network.npz"]))
        energy = EnergyAnalyzer("spinnaker1").analyze(module, [x])
        assert energy.refused == ""
        assert told_slices(energy) == slices_of(artifact, "placement.json")
        slices: dict[str, list[list[int]]] = {}
        for part in energy.placement.slices:
            slices.setdefault(part.population, []).append([part.start, part.stop - 1])
        assert slices == recorded[name]["5"]
        shapes = {entry["name"]: entry["shape"] for entry in data["populations"]}
        given = data["inputs"][0]["name"]
        fired = {given: np.count_nonzero(x, axis=(0, 1)).reshape(-1)}
        if data["constants"]:
            fired["constants"] = np.full(len(data["constants"]), x.shape[0] * x.shape[1])
        with np.load(pynn.RECORDED / "nest.npz") as file:
            for index, population in enumerate(probes):
                size = int(np.prod(shapes[population]))
                bits = np.unpackbits(file[f"{name}.{index}"], count=x.shape[0] * x.shape[1] * size)
                fired[population] = bits.reshape(-1, size).sum(0, dtype=np.int64)
                assert of_part(energy, "spike", population) == fired[population].sum() > 0
        events = dict.fromkeys(shapes, 0)
        for entry in data["projections"]:
            sent = fired[entry["source"]][arrays[f"{entry['name']}.source"]]
            events[entry["target"]] += int(sent.sum())
        assert {p: of_part(energy, "synapse", p) for p in shapes} == pytest.approx(events)
        late = max(entry["offset"] for entry in data["populations"])
        assert energy.steps == pynn_network.START + len(x) + late
    assert f"START = {pynn_network.START} " in SCRIPT.read_text()


SOURCE = """
layer Images {
    let conv = Conv2d(1, 4, 3, padding=1)
    let fc = Linear(64, 12)
    let head = Linear(12, 5)
    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        return head(relu(fc(flatten(avg_pool2d(relu(conv(x)), 2)))))
    }
}
"""
IMAGES = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)


def converted(reset: str) -> ModuleOp:
    program = fill_parameters(import_tri(SOURCE), 3)
    return convert_to_snn(program, IMAGES, 6, pools="before", reset=reset)


@pytest.mark.parametrize(
    ("kind", "reset", "file", "host"),
    [
        (Loihi2Backend, "subtract", "cores.json", 0.0),
        (SpiNNakerBackend, "to_value", "placement.json", 4 * 22 * 22 * 8.6e-9),
    ],
)
def test_profile_core_map_and_artefact_agree(
    kind: type[NeuromorphicBackend],
    reset: str,
    file: str,
    host: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Converted, with a layer of numbers, means, pools, and constants that only the files have."""
    for name in ("TRITON_LAVA_PYTHON", "TRITON_SPYNNAKER", "TRITON_NEST"):
        monkeypatch.setenv(name, "/no/such/python")
    backend, module = kind(), converted(reset)
    compiled = backend.compile(module)
    with pytest.warns(UserWarning, match="runs the program"):
        results = backend.execute(backend.deploy(compiled), IMAGES[:4])
    metrics = backend.profile(results)
    assert metrics.refused == ""
    listed = slices_of(compiled.artifact, file)
    assert told_slices(metrics) == listed
    populations = [part["population"] for part in listed]
    assert metrics.populations[: len(listed)] == populations
    script = compiled.artifact.text("network.json" if reset == "to_value" else "network.py")
    for name in metrics.by_population:
        assert name in script
    np.testing.assert_array_equal(
        [int(count) for count in np.bincount([part["core"] for part in listed])],
        np.bincount(metrics.cores[metrics.cores >= 0]),
    )
    # Sums are the same whichever way they are added up: by term, by population, by core and off it.
    by_population = np.sum(list(metrics.by_population.values()), axis=0)
    np.testing.assert_allclose(by_population + metrics.idle, metrics.total)
    off = sum(x[metrics.cores < 0].sum(0) for x in metrics.joules.values())
    np.testing.assert_allclose(metrics.by_core.sum(0) + off, by_population)
    # What the host multiplies: SpiNNaker's first layer, 3·3 but for the rim of 8·8 images.
    np.testing.assert_allclose(metrics.host, host)
    analyzed = EnergyAnalyzer(metrics.device).analyze(module, [IMAGES[:4]])
    np.testing.assert_array_equal(analyzed.total, metrics.total)
    np.testing.assert_allclose(
        EnergyAnalyzer(metrics.device).samples(module, [IMAGES[:4]]).mean(0), metrics.total
    )
    figure: Any = core_map(metrics.placement)
    (shown,) = [part for part in figure.axes[0].collections if part.get_gid() == "core.map"]
    neurons = np.bincount([p["core"] for p in listed], [p["stop"] - p["start"] for p in listed])
    seen = shown.get_array().reshape(-1).compressed()
    assert sorted(seen[seen > 0]) == sorted(neurons)


def test_numbers_go_to_the_chip_at_each_step() -> None:
    """Three layers hear a step late each, so that six steps of the program are nine."""
    module = converted("subtract")
    drive = EnergyAnalyzer("loihi2").analyze(module, [IMAGES]).drive
    assert drive.samples == 20 and drive.steps == 6 + 3
    artifact = compile_to_target(module, "loihi2")
    assert "STEPS = 9" in artifact.text("network.py")
    assert drive.spikes["x"].shape == (9, 64)
    # Those that round to 0 in 8 bits are no messages.
    there = np.count_nonzero(np.rint(IMAGES * 255), axis=0).reshape(-1)
    np.testing.assert_array_equal(drive.spikes["x"], np.broadcast_to(there, (9, 64)))


def test_what_a_target_refuses_is_told_as_given() -> None:
    module = converted("subtract")
    energy = EnergyAnalyzer("spinnaker1").analyze(module, [IMAGES[:2]])
    assert "target 'spinnaker' does not take it: spike.integrate_fire does not reset to" in (
        energy.refused
    )
    case = sanafe.layers()
    compared = ComparisonFramework(["loihi2", "loihi1-kapohobay", "loihi2{neurons_per_core=64}"])
    told = compared.compare(case.module, case.inputs)
    assert [m.refused for m in told.machines] == ["", "", ""]
    loihi, _, apart = told.machines
    assert list(told.to_dict()["machines"]) == list(compared.devices)  # pyright: ignore
    assert apart.placement.cores == 8 and loihi.placement.cores == 1
    with pytest.raises(OptionError, match="needs a machine"):
        ComparisonFramework([]).compare(case.module, case.inputs)


def test_programs_that_no_machine_takes_are_refused() -> None:
    text = """
    func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x4> {
      %w = tensor.constant dense<1.0> : tensor<4x4xf32>
      %i = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
      %j = tensor.relu %i : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
      %s = spike.integrate_fire %j : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
      func.return %s : !spike.train<?x?x4>
    }"""
    with pytest.raises(UnsupportedError, match="is no synapse"):
        ComparisonFramework(["loihi2", "cpu"]).compare(
            parse_module(text), [np.ones((2, 1, 4), np.bool_)]
        )
