"""Joules of runs on machines: as SANA-FE says, as counted by hand, additive and linear."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from sanafe_peer import cases
from sanafe_peer.environment import make, python

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError, OptionError, UnsupportedError
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.placement import (
    Neurons,
    Synapses,
    Workload,
    load_device,
    place,
)
from triton_dsl.lowering.placement.connectivity import Connectivity, Dense
from triton_dsl.lowering.placement.costs import COSTS
from triton_dsl.lowering.placement.drive import drive_of
from triton_dsl.lowering.placement.energy import EVENTS, energy_of
from triton_dsl.lowering.placement.run import Drive
from triton_dsl.runtime.random_values import fill_parameters

Array = NDArray[Any]


def close(found: dict[str, float], told: dict[str, float], most: float) -> None:
    for stage, value in found.items():
        assert abs(value / told[f"energy.{stage}"] - 1) < most, stage


def test_a_spiking_network_takes_what_sanafe_says() -> None:
    told = json.loads(cases.RECORDED.read_text())["layers"]
    energy, placement = cases.ours(cases.layers())
    assert placement.cores > 32 and energy.events["hop_y"].sum() > 0
    close(cases.stages(energy), told, 0.001)
    assert energy.step_seconds is not None and energy.seconds is not None
    assert abs(energy.seconds[1] / told["sim_time"] - 1) < 0.1
    np.testing.assert_allclose(energy.seconds, energy.step_seconds * 20)


def test_neurons_under_currents_take_what_sanafe_says() -> None:
    energy, _ = cases.ours(cases.currents())
    close(cases.stages(energy), json.loads(cases.RECORDED.read_text())["currents"], 0.002)
    assert energy.events["hop_x"].sum() > 0


def digits(shared_data: Any) -> cases.Case:
    images, train = (shared_data.digits(x).reshape(-1, 784) for x in ("t10k", "train"))
    return cases.digits(images[:20], train[:256], shared_data.network("mlp"))


def test_the_host_multiplies_images_by_weights(shared_data: Any) -> None:
    energy, placement = cases.ours(digits(shared_data))
    assert placement.cores == 23 and energy.events["hop_x"].sum() > 0
    products = 784 * 256 * load_device("cpu").costs["synapse"].low
    np.testing.assert_allclose(energy.host, products)


@pytest.mark.slow
def test_sanafe_still_says_so(shared_data: Any) -> None:
    if "TRITON_SANAFE" not in os.environ:
        make()
    assert python().exists()
    recorded = json.loads(cases.RECORDED.read_text())
    for name, case in {"layers": cases.layers(), "currents": cases.currents()}.items():
        told = cases.sanafe(case, cases.ours(case)[1])
        assert told == pytest.approx(recorded[name], rel=1e-6)
    # A converted network is compared as it is converted now, so it has no record to grow old.
    converted = digits(shared_data)
    energy, placement = cases.ours(converted)
    close(cases.stages(energy), cases.sanafe(converted, placement), 0.01)


MACHINE = """
[machine]
title = "a small machine"
shared = {shared}
chips = 4
columns = 2
cores = 8
core_columns = 4
[numbers]
neurons_per_core = 5
sources_per_core = {sources}
tile_side = {side}
[costs]
"""


@st.composite
def drives(draw: st.DrawFn) -> Drive:
    """A random network, with neurons that hear themselves, and random spikes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=4))
    steps, samples = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    names = [f"n{i}" for i in range(len(sizes))]
    spikes = {
        n: rng.integers(0, samples + 1, (steps, size)) for n, size in zip(names, sizes, strict=True)
    }
    neurons = [
        Neurons(n, size, spikes[n].mean(0) / samples, i == 0)
        for i, (n, size) in enumerate(zip(names, sizes, strict=True))
    ]
    ends = [(a, b) for a in range(len(sizes)) for b in range(1, len(sizes)) if rng.random() < 0.7]
    synapses = [
        Synapses(f"s{a}{b}", f"n{a}", f"n{b}", Dense(rng.random((sizes[a], sizes[b])) < 0.4))
        for a, b in ends
    ]
    active = {
        n: rng.integers(0, steps * samples + 1, size)
        for n, size in zip(names[1:], sizes[1:], strict=True)
    }
    work = Workload("net", neurons, synapses)
    return Drive(work, spikes, active, samples, steps, None, float(rng.integers(0, 9)))


@settings(deadline=None)
@given(drives(), st.booleans(), st.sampled_from([0, 4]), st.sampled_from([0, 2]))
def test_events_are_those_of_single_synapses(
    tmp_path_factory: pytest.TempPathFactory, drive: Drive, shared: bool, sources: int, side: int
) -> None:
    path = tmp_path_factory.mktemp("device") / "machine.toml"
    costs = "\n".join(
        f'{name} = {{value = [1.0, 2.0], unit = "{unit}", source = "none", year = 2026}}'
        for name, (unit, _) in COSTS.items()
    )
    text = MACHINE.format(shared=str(shared).lower(), sources=sources, side=side)
    path.write_text(text + costs)
    placement = place(drive.workload, path)
    energy = energy_of(drive, placement)
    homes: dict[tuple[str, int], tuple[int, int, int]] = {}
    for part in placement.slices:
        column, row = part.x * 4 + part.processor % 4, part.y * 2 + part.processor // 4
        side_of = max(1, side)
        for neuron in range(part.start, part.stop):
            homes[part.population, neuron] = part.core, column // side_of, row // side_of
    expected = dict.fromkeys(EVENTS, 0.0)
    for neurons in drive.workload.neurons:
        for neuron in range(neurons.count):
            fired = float(drive.spikes[neurons.name][:, neuron].sum())
            reached: set[tuple[int, int, int]] = set()
            for way in drive.workload.synapses:
                if way.source == neurons.name:
                    assert isinstance(way.connectivity, Dense)
                    targets = np.flatnonzero(way.connectivity.mask[neuron]).tolist()
                    expected["synapse"] += fired * len(targets)
                    reached |= {homes[way.target, target] for target in targets}
            expected["message"] += fired * len(reached)
            home = homes.get((neurons.name, neuron))
            for _, x, y in reached if home else ():
                assert home is not None
                expected["hop_x"] += fired * abs(x - home[1])
                expected["hop_y"] += fired * abs(y - home[2])
            if not neurons.is_input:
                expected["spike"] += fired
                expected["step"] += drive.steps * drive.samples
                expected["update"] += float(drive.active[neurons.name][neuron])
    found = {name: float(count.sum()) * drive.samples for name, count in energy.events.items()}
    assert found == pytest.approx(expected)
    assert energy.missing == []
    # Costs are 1 to 2 of each: all joules are events, by whatever they are added up.
    events = sum(expected.values()) / drive.samples
    for parts in (energy.joules, energy.by_population):
        whole = np.sum([x.reshape(-1, 2).sum(0) for x in parts.values()], axis=0)
        np.testing.assert_allclose(whole, [events, 2 * events], atol=1e-9)
    np.testing.assert_allclose(energy.total - energy.idle, [events, 2 * events], atol=1e-9)
    outside = energy.joules
    off = np.sum([x[energy.cores < 0].sum(0) for x in outside.values()], axis=0)
    np.testing.assert_allclose(energy.by_core.sum(0) + off, [events, 2 * events], atol=1e-9)
    assert energy.seconds is not None
    np.testing.assert_allclose(energy.idle, energy.seconds * [1, 2] * placement.chips)
    # Twice the spikes are twice the joules of what spikes do.
    doubled = replace(drive, spikes={name: 2 * x for name, x in drive.spikes.items()})
    more = energy_of(doubled, placement)
    for name in EVENTS:
        factor = 1 if name in ("step", "update") else 2
        np.testing.assert_allclose(more.events[name], factor * energy.events[name])


def test_costs_of_another_machine_say_so() -> None:
    own, other = load_device("loihi2").costs, load_device("loihi1-kapohobay").costs
    assert own.keys() == other.keys()
    for name, cost in own.items():
        assert cost.source.startswith(other[name].source) and "(of Loihi 1, " in cost.source
        np.testing.assert_array_equal(cost.range, other[name].range)


def test_sources_that_differ_are_a_range() -> None:
    """Sharp et al. 2012, abstract: 43 nJ a postsynaptic potential, 100 nJ a neuron and ms."""
    costs = load_device("spinnaker1").costs
    np.testing.assert_allclose(costs["synapse"].range, [8e-9, 43e-9])
    np.testing.assert_allclose(costs["step"].range, [26e-9, 100e-9])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("synapses = 3", "cost 'synapses' is unknown.*'synapse'"),
        ("synapse = 3", "expects a number of at least 0"),
        ('synapse = {value = [2, 1], unit = "J", source = "x", year = 1}', r"\[2, 1\]"),
        ('synapse = {value = -1, unit = "J", source = "x", year = 1}', "at least 0"),
        ('synapse = {value = 1, unit = "pJ", source = "x", year = 1}', 'expects unit = "J"'),
        ('synapse = {value = 1, unit = "J", year = 1}', "a source and its year"),
    ],
)
def test_costs_that_are_none(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"[machine]\ncores = 1\n[numbers]\nneurons_per_core = 1\n[costs]\n{line}\n")
    with pytest.raises(OptionError, match=message):
        load_device(path)
    path.write_text('[machine]\ncores = 1\ncosts_of = "../x"\n[numbers]\nneurons_per_core = 1')
    with pytest.raises(OptionError, match="costs_of expects one of"):
        load_device(path)


CONVOLUTIONS = """
layer Net {
    let conv = Conv2d(1, 4, 3, padding=1)
    let conv2 = Conv2d(4, 6, 3, padding=1)
    let head = Linear(24, 5)
    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        let a = avg_pool2d(relu(conv(x)), 2)
        return head(flatten(avg_pool2d(relu(conv2(a)), 2)))
    }
}
"""


def edges(ways: Connectivity) -> Array:
    mask = np.zeros((ways.sources, ways.targets), np.bool_)
    mask[ways.edges(0, ways.sources)] = True
    return mask


def test_pools_and_readouts_are_synapses() -> None:
    images = np.random.default_rng(0).random((20, 1, 8, 8)).astype(np.float32)
    program = fill_parameters(import_tri(CONVOLUTIONS), 1)
    module = convert_to_snn(program, images, 4, pools="before")
    drive = drive_of(module, [images[:3]])
    first, second, readout = drive.workload.neurons
    assert (first.count, second.count, readout.count) == (256, 96, 5)
    assert not (first.is_input or second.is_input or readout.is_input)
    assert drive.products == 64 * 4 * 9
    inner, outer = (edges(way.connectivity) for way in drive.workload.synapses)
    # A neuron of the first layer reaches what is next to its pooled place, in all six channels.
    at = inner.reshape(4, 4, 2, 4, 2, 6, 4, 4)
    assert (at == at[:, :, :1, :, :1]).all()
    reached = at[:, 1, 0, 2, 0].reshape(4, 6, 4, 4)
    assert reached[:, :, :3, 1:].mean() > 0.4
    assert not reached[:, :, 3].any() and not reached[..., 0].any()
    assert outer.any(1).reshape(6, 16).all(1).any() and drive.spikes[first.name].shape == (4, 256)
    assert energy_of(drive, place(drive.workload, "cpu")).events["synapse"].sum() == (
        64 * 4 * 9 + inner.sum() + outer.sum()
    )


def test_what_is_no_network_of_spikes_is_refused() -> None:
    text = (
        "func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }"
    )
    with pytest.raises(LoweringError, match="no spiking neurons"):
        drive_of(parse_module(text), [np.zeros(2, np.float32)])
    text = """
    func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x4> {
      %w = tensor.constant dense<1.0> : tensor<4x4xf32>
      %i = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
      %j = tensor.relu %i : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
      %s = spike.integrate_fire %j : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
      func.return %s : !spike.train<?x?x4>
    }"""
    with pytest.raises(UnsupportedError, match=r"tensor\.relu.*is no synapse"):
        drive_of(parse_module(text), [np.ones((2, 1, 4), np.bool_)])
