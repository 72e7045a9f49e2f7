"""Networks on machines: every neuron once, within every capacity, with what flows where."""

import ast
import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.spike import NetworkOp
from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.lowering.placement import (
    Neurons,
    Placement,
    Synapses,
    Workload,
    cores,
    device_names,
    device_text,
    load_device,
    place,
)
from triton_dsl.lowering.placement.connectivity import Dense
from triton_dsl.lowering.placement.costs import COSTS
from triton_dsl.lowering.placement.device import LAYOUT, NUMBERS
from triton_dsl.lowering.placement.device_file import FOLDER
from triton_dsl.runtime.spiking.config import SpikingConfig


def network(masks: list[np.ndarray], rates: float = 0.25, inputs: bool = True) -> Workload:
    """Layers, each with a mask to the next."""
    sizes = [len(masks[0]), *(mask.shape[1] for mask in masks)]
    neurons = [
        Neurons(f"n{i}", size, np.full(size, rates), inputs and i == 0)
        for i, size in enumerate(sizes)
    ]
    synapses = [
        Synapses(f"s{i}", f"n{i}", f"n{i + 1}", Dense(mask)) for i, mask in enumerate(masks)
    ]
    return Workload("net", neurons, synapses)


def full(*sizes: int, inputs: bool = True) -> Workload:
    return network([np.ones(pair, np.bool_) for pair in itertools.pairwise(sizes)], inputs=inputs)


MACHINE = """
[machine]
title = "a small machine"
grid = "{grid}"
shared = {shared}
chips = {chips}
columns = 2
cores = {cores}
[numbers]
boards = {boards}
neurons_per_core = {neurons}
sources_per_core = {sources}
core_bytes = {core_bytes}
axons_in = {axons_in}
axons_out = {axons_out}
synapse_bytes = 1
neuron_bytes = 2
row_bytes = 1
"""
DEFAULTS: dict[str, Any] = {
    "grid": "rectangular", "shared": "true", "chips": 4, "cores": 8, "boards": 1, "neurons": 8,
    "sources": 0, "core_bytes": 0, "axons_in": 0, "axons_out": 0,
}  # fmt: skip


def machine(folder: Path, **values: Any) -> Path:
    path = folder / "small.toml"
    path.write_text(MACHINE.format(**{**DEFAULTS, **values}))
    return path


def cores_of(placement: Placement, work: Workload) -> dict[str, np.ndarray]:
    """The core of every neuron; -1 where it has none."""
    cores = {part.name: np.full(part.count, -1) for part in work.neurons}
    for part in placement.slices:
        assert (cores[part.population][part.start : part.stop] == -1).all()
        cores[part.population][part.start : part.stop] = part.core
    return cores


def check(placement: Placement, work: Workload) -> None:
    """Recount loads and traffic neuron by neuron, and hold them against the limits."""
    device, cores = placement.device, cores_of(placement, work)
    for part in work.neurons:
        assert ((cores[part.name] >= 0) | (part.is_input and not device["sources_per_core"])).all()
    spikes: dict[tuple[int, int], float] = {}
    outside = 0.0
    axons_in = np.zeros(placement.cores)
    synapses = np.zeros(placement.cores)
    for edge in work.synapses:
        rates = next(part.rates for part in work.neurons if part.name == edge.source)
        for neuron in range(edge.connectivity.sources):
            _, targets = edge.connectivity.edges(neuron, neuron + 1)
            reached = cores[edge.target][targets]
            np.add.at(synapses, reached, 1)
            for core in set(reached.tolist()):
                axons_in[core] += 1
                here = int(cores[edge.source][neuron])
                if here < 0:
                    outside += rates[neuron]
                else:
                    spikes[here, core] = spikes.get((here, core), 0) + rates[neuron]
    neurons = np.zeros(placement.cores)
    for part in work.neurons:
        if not part.is_input:
            np.add.at(neurons, cores[part.name], 1)
    assert (neurons <= device["neurons_per_core"]).all()
    if device["axons_in"]:
        assert (axons_in <= device["axons_in"]).all()
    if device["core_bytes"]:
        needed = neurons * device["neuron_bytes"] + synapses * device["synapse_bytes"]
        assert (needed + axons_in * device["row_bytes"] <= device["core_bytes"]).all()
    pairs = zip(placement.source.tolist(), placement.target.tolist(), strict=True)
    got = dict(zip(pairs, placement.spikes.tolist(), strict=True))
    assert got.keys() == spikes.keys()
    # Slices on one core, and projections, each count a neuron once.
    whole = len({(p.population, p.core) for p in placement.slices}) == len(placement.slices)
    if whole and len(work.synapses) == 1:
        assert got == pytest.approx(spikes)
        assert placement.input_spikes == pytest.approx(outside)
    seats = {(part.chip, part.processor) for part in placement.slices}
    assert len(seats) == placement.cores
    for chip in {part.chip for part in placement.slices}:
        room = device.usable_cores[chip % len(device.cores)]
        assert sum(seat[0] == chip for seat in seats) <= room


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_every_neuron_stands_once_within_the_limits(
    sizes: list[int], seed: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    work = network([rng.random(pair) < 0.5 for pair in itertools.pairwise(sizes)])
    path = machine(
        tmp_path_factory.mktemp("device"),
        shared=data.draw(st.sampled_from(["true", "false"])),
        neurons=data.draw(st.integers(3, 8)),
        sources=data.draw(st.sampled_from([0, 5])),
        axons_in=data.draw(st.sampled_from([0, 24])),
        core_bytes=data.draw(st.sampled_from([0, 60])),
        boards=2,
    )
    placement = place(work, path)
    check(placement, work)
    assert json.loads(json.dumps(placement.to_dict())) == place(work, path).to_dict()


def test_slices_of_a_core_are_full(tmp_path: Path) -> None:
    placement = place(full(4, 20), machine(tmp_path))
    assert [(part.start, part.stop) for part in placement.of("n1")] == [(0, 8), (8, 16), (16, 20)]
    assert placement.of("n0") == []
    assert placement.traffic["from_inputs"] == 0.25 * 4 * 3


def test_memory_cuts_slices(tmp_path: Path) -> None:
    """A neuron takes 2 bytes and 10 synapses, and each of the 10 inputs one byte more a core."""
    placement = place(full(10, 8), machine(tmp_path, core_bytes=10 + 3 * 12))
    assert max(part.neurons for part in placement.slices) == 3
    assert placement.core_loads["core_bytes"].max() <= 46


def test_what_talks_stands_on_one_core(tmp_path: Path) -> None:
    """Two pairs of populations, of which only one exchanges many spikes."""
    ones = np.ones((4, 4), np.bool_)
    rates = {"a": 1, "b": 9, "c": 1, "d": 1}
    neurons = [Neurons(name, 4, np.full(4, rate)) for name, rate in rates.items()]
    ways = [("a", "b"), ("b", "c"), ("c", "d")]
    work = Workload("net", neurons, [Synapses(a + b, a, b, Dense(ones)) for a, b in ways])
    placement = place(work, machine(tmp_path))
    core = {part.population: part.core for part in placement.slices}
    assert core["b"] == core["c"] and placement.cores == 3
    assert placement.traffic["within_cores"] == 36


def test_chips_take_what_belongs_together() -> None:
    """Four chains in an order that mixes them: a chip of 16 cores each, hardly any spikes between.

    networkx counts what has to cross: each chain is a part of the graph of populations.
    """
    count, chains = 16, 4
    neurons = [Neurons(f"{c}.{i}", 256, np.ones(256)) for i in range(count) for c in range(chains)]
    eye = Dense(np.eye(256, dtype=np.bool_))
    synapses = [
        Synapses(f"{c}.{i}s", f"{c}.{i}", f"{c}.{i + 1}", eye)
        for i in range(count - 1)
        for c in range(chains)
    ]
    work = Workload("net", neurons, synapses)
    assert nx.number_weakly_connected_components(work.graph()) == chains
    placement = place(work, "spinnaker1")
    chips = {part.population: part.chip for part in placement.slices}
    crossing = [edge for edge in synapses if chips[edge.source] != chips[edge.target]]
    assert len(crossing) <= chains
    assert placement.traffic["between_chips"] == 256 * len(crossing)


def test_no_effort_is_left_for_networks_that_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They stand where the first try puts them, without a table of all items and places."""
    rng = np.random.default_rng(0)
    work = network([rng.random((400, 600)) < 0.02, rng.random((600, 500)) < 0.02], inputs=False)
    limits = {"neurons_per_core": 10, "boards": 1}
    refined = place(work, "spinnaker1", constraints=limits)
    monkeypatch.setattr(cores, "EFFORT", 0)
    first = place(work, "spinnaker1", constraints=limits)
    check(first, work)
    assert first.traffic["hops"] > refined.traffic["hops"]
    assert first.cores == refined.cores == 150


def test_several_boards_and_their_limit() -> None:
    work = full(1, 256 * 800, inputs=True)
    placement = place(work, "spinnaker1")
    assert (placement.cores, placement.boards) == (801, 2)
    with pytest.raises(LoweringError, match=r"takes 801 cores \(@n0 1, @n1 800\).* 759 .*boards=2"):
        place(work, "spinnaker1", constraints={"boards": 1})


def test_what_does_not_fit_is_said_with_the_arithmetic(tmp_path: Path) -> None:
    with pytest.raises(
        LoweringError,
        match=r"@n1, neuron 0: core_bytes 22, a core has 20; share its inputs among 2",
    ):
        place(full(10, 4), machine(tmp_path, core_bytes=20))
    with pytest.raises(LoweringError, match=r"axons_out 6, a core has 5"):
        place(full(3, 3, 48), machine(tmp_path, axons_out=5))
    with pytest.raises(LoweringError, match="2 parts, each on a machine of its own: @n1; @n2"):
        place(full(1, 160, 160), machine(tmp_path))
    with pytest.raises(LoweringError, match=r"2 boards would hold it: boards=2[^;]*$"):
        place(full(1, 300), machine(tmp_path))


def test_hardware_constraints() -> None:
    config = SpikingConfig(hardware_constraints={"device": "loihi2", "neurons_per_core": 100})
    placement = place(full(10, 256), "", constraints=config.hardware_constraints)
    assert placement.device.name == "loihi2"
    assert [part.neurons for part in placement.slices] == [100, 100, 56]
    wide = place(
        full(10, 600),
        "loihi2",
        constraints={"chips": 2, "cores_per_chip": 3, "neurons_per_core": 100},
    )
    assert wide.chips == 2 and wide.cores == 6
    with pytest.raises(OptionError, match=r"unknown limit 'neuron_per_core'.*'neurons_per_core'"):
        place(full(1, 1), "loihi2", constraints={"neuron_per_core": 1})
    with pytest.raises(OptionError, match="whole number of at least 1, got -1"):
        place(full(1, 1), "loihi2", constraints={"boards": -1})


def test_a_machine_and_its_limits_in_one_text() -> None:
    limits = {"neurons_per_core": 100, "cores_per_chip": 3, "device": "loihi2"}
    text = device_text("loihi2", limits)
    assert text == "loihi2{neurons_per_core=100 cores_per_chip=3}"
    first, second = place(full(10, 256), text), place(full(10, 256), "", constraints=limits)
    assert first.to_dict() == second.to_dict() and first.cores == 3
    again = device_text("loihi2{chips=4 neurons-per-core=8}", limits)
    assert again == "loihi2{chips=4 neurons_per_core=100 cores_per_chip=3}"
    assert load_device(again).core_count == 12
    for wrong in ("loihi2{chip=4}", "loihi2{chips=4,5}", "loihi2{chips", "loihi2{chips=4}x"):
        with pytest.raises(OptionError, match="chip"):
            load_device(wrong)


def test_a_machine_like_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[machine]\nlike = "loihi2"\ncores = 3\n[numbers]\nneurons_per_core = 7\n')
    mine, other = load_device(path), load_device("loihi2")
    assert (mine.title, mine.core_count, mine["neurons_per_core"]) == ("mine", 3, 7)
    assert mine.numbers == {**other.numbers, "neurons_per_core": 7}
    assert mine.sources["neurons_per_core"] == "the user's file"
    assert mine.costs == other.costs and mine.core_columns == other.core_columns
    path.write_text('[machine]\nlike = "../x"\n')
    with pytest.raises(OptionError, match="like expects one of"):
        load_device(path)


def test_keys_and_entries() -> None:
    """One population whose two slices feed one core: two entries, joined to one."""
    placement = place(full(512, 200, inputs=False), "spinnaker1")
    a, b = placement.of("n0")
    assert (b.key - a.key, a.mask & 0xFF, a.mask | 0xFF) == (256, 0, 0xFFFFFFFF)
    assert placement.entries == {0: 2} and placement.merged_entries == {0: 1}
    blocks = sorted((part.key, part.key + (~part.mask & 0xFFFFFFFF)) for part in placement.slices)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(blocks))


def test_routers_are_limited() -> None:
    """Populations of one neuron that each reach other cores."""
    count = 60
    neurons = [Neurons(f"{i}", 1, np.ones(1)) for i in range(count)]
    one = Dense(np.ones((1, 1), np.bool_))
    synapses = [Synapses(f"{i}s", f"{i}", f"{(7 * i + 3) % count}", one) for i in range(count)]
    work = Workload("net", neurons, synapses)
    assert max(place(work, "spinnaker1").merged_entries.values()) > 9
    with pytest.raises(LoweringError, match=r"router of chip \(\d, \d\) needs \d+ entries.*has 9"):
        place(work, "spinnaker1", constraints={"routing_entries": 9})


@pytest.mark.parametrize("name", device_names())
def test_every_number_of_a_machine_has_a_unit_a_source_and_a_year(name: str) -> None:
    """In the file itself, so that no default of the reader stands in for one."""
    file = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    assert file.keys() <= {"machine", "numbers", "costs"}
    tables = {"machine": file["machine"], **file.get("numbers", {}), **file.get("costs", {})}
    for key, table in tables.items():
        assert isinstance(table, dict), f"{key} is a number alone"
        assert len(table["source"]) > 10 and type(table["year"]) is int, key
        assert 2000 < table["year"] < 2027, key
    for key in file.get("numbers", {}):
        unit, what = NUMBERS[key]
        assert unit and what
    for key, cost in file.get("costs", {}).items():
        assert cost["unit"] == COSTS[key][0]
    device = load_device(name)
    assert device.core_count > 0 and device.title and device.costs
    assert device.sources.keys() == {*device.numbers, LAYOUT}
    assert "the user's file" not in device.sources.values()


def test_code_has_no_joules_of_its_own() -> None:
    """What things cost stands in the files of machines, and nowhere in the code."""
    numbers = [
        (path.name, node.value)
        for path in sorted(FOLDER.parent.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and type(node.value) is float
    ]
    # What moves of a placement must gain, and how attraction fades: no unit.
    assert {value for _, value in numbers} <= {0.0, -1.0, 1.0, 1e-9, 1e-3}, numbers


def test_boards_have_their_cores() -> None:
    assert load_device("spinnaker1").cores.sum() == 856
    assert load_device("spin2-48node").cores.sum() == 7331


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[machine]\ncores = 4", "neurons_per_core of at least 1"),
        ("machine = 3", r"expects a table \[machine\]"),
        ("[machine]\ncores = 4\n[number]\nboards = 3", "unknown entry 'number'.*'numbers'"),
        ("[machine]\ncores = 4\nshared = 'yes'", "shared expects true or false, got 'yes'"),
        ("[machine]\ncores = 4\ntitle = 3", "title expects a text, got 3"),
        ("[machine]\ncores = 0", "cores expects a whole number of at least 1"),
        ("[machine]\nchips = 5000\ncores = 4", "at most 4,096 chips, got 5,000"),
        ("[machine]\ncores = 4\n[numbers]\nneurons_per_core = 0", "of at least 1, got 0"),
        ("[machine]\ncore = 4", "unknown entry 'core'.*'cores'"),
        ("[machine]\ncores = 4\n[numbers]\nneurons = 3", "unknown number 'neurons'"),
        ("[machine]\npositions = [[0, 0]]", r"positions expects \[x, y, cores\]"),
        ("[machine]\npositions = [[0, 0, 4], [0, 0, 4]]", "two chips at one place"),
        ("[machine]\ngrid = 'round'\ncores = 1", "grid expects one of rectangular, hexagonal"),
        ("[machine", "device '.*bad.toml'"),
    ],
)
def test_descriptions_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(OptionError, match=message):
        load_device(tmp_path / "bad.toml")
    with pytest.raises(OptionError, match="unknown device 'loihi3'"):
        load_device("loihi3")
    with pytest.raises(OptionError, match=r"there is no file 'loihi3\.toml'"):
        load_device("loihi3.toml")


@pytest.mark.parametrize("name", ["boards", "neurons_per_core", "chips", "cores_per_chip"])
def test_machines_of_nothing(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} expects a whole number of at least 1, got 0"):
        load_device(f"loihi2{{{name}=0}}")
    with pytest.raises(OptionError, match="at most 4,096 chips"):
        load_device("loihi2{chips=99999}")


def test_a_machine_like_another_takes_its_costs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    own = 'synapse = {value = 1.0, unit = "J", source = "measured", year = 2026}'
    path.write_text(f'[machine]\nlike = "spinnaker1"\n[costs]\n{own}\n')
    mine, other = load_device(path).costs, load_device("spinnaker1").costs
    assert mine["synapse"].low == 1.0 and mine["step"] == other["step"]
    path.write_text('[machine]\nlike = "spinnaker1"\ncosts_of = "none"\n')
    assert load_device(path).costs == {} and load_device(path).target == "spinnaker"


NETWORK = """
spike.network @net dt = 1.0e-3 {
  %w = tensor.constant dense<[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]> : tensor<3x2xf32>
  spike.input @x {shape = array<i64: 3>}
  spike.population @y {model = "integrate_fire", shape = array<i64: 2>}
  spike.projection @p @x -> @y weights(%w : tensor<3x2xf32>)
  spike.projection @r @y -> @y {connection = "one_to_one", delay = 1 : i64}
}
"""


def test_a_network_of_the_dialect_with_measured_activity() -> None:
    (op,) = parse_module(NETWORK).body.block.ops
    assert isinstance(op, NetworkOp)
    activity: dict[str, Any] = {"x": np.array([1.0, 2.0, 4.0]), "y": 0.5}
    placement = place(op, "loihi2", activity)
    assert placement.traffic == {
        "within_cores": 1.0, "between_cores": 0.0, "between_chips": 0.0, "hops": 0.0,
        "from_inputs": 7.0,
    }  # fmt: skip
    apart = place(op, "loihi2", activity, constraints={"neurons_per_core": 1})
    assert apart.cores == 2 and apart.traffic["from_inputs"] == 1 + 2 + 4 + 4
    assert apart.graph().number_of_nodes() == 2
    with pytest.raises(OptionError, match="activity: there is no 'z'"):
        place(op, "loihi2", {"z": 1.0})
    with pytest.raises(OptionError, match="expects 1 or 3 rates"):
        place(op, "loihi2", {"x": np.ones(2)})
