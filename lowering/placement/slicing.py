"""Populations cut into slices that a core holds, and what flows between the slices.

A slice is a run of neurons of one population. Cuts begin at what neurons and synapses alone allow;
a slice that breaks a limit, once all is counted, is halved until none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import LoweringError
from .device import Device
from .workload import Synapses, Workload

_BLOCK = 1 << 22
"""Pairs of a neuron and a slice, or synapses, that are counted at once."""


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices of all populations and inputs, in order.

    Attributes:
        population: of each slice, an index into the neurons of the workload, int [slices].
        start: its first neuron, int [slices].
        stop: behind its last one, int [slices].
    """

    population: Array
    start: Array
    stop: Array

    @property
    def sizes(self) -> Array:
        """Neurons of each slice."""
        return self.stop - self.start

    def of(self, population: int) -> Array:
        """The indices of the slices of a population."""
        return np.flatnonzero(self.population == population)


class Flows(NamedTuple):
    """What goes from slice to slice, each pair of slices once for each projection.

    Attributes:
        source: the slice that spikes come from, int [pairs].
        target: the slice that they reach, int [pairs].
        synapses: between them, int [pairs].
        axons: neurons of the source that reach the target, int [pairs].
        spikes: that they send in a step, f64 [pairs].
        longest: most synapses of one of those neurons, int [pairs].
        kernel: different weights where synapses share them, else 0, int [pairs].
    """

    source: Array
    target: Array
    synapses: Array
    axons: Array
    spikes: Array
    longest: Array
    kernel: Array


@dataclass(frozen=True, eq=False)
class Loads:
    """What each slice needs, by resource.

    Attributes:
        neurons: int [slices].
        axons_in: neurons that reach it.
        axons_out: pairs of one of its neurons and a slice that it reaches.
        core_bytes: of the core's memory.
        chip_bytes: of the chip's memory.
    """

    neurons: Array
    axons_in: Array
    axons_out: Array
    core_bytes: Array
    chip_bytes: Array

    def limited(self, device: Device) -> dict[str, tuple[Array, int]]:
        """The resources of a core that the device limits, with the limits."""
        named = {name: getattr(self, name) for name in ("axons_in", "axons_out", "core_bytes")}
        return {name: (load, device[name]) for name, load in named.items() if device[name]}


def cut(work: Workload, device: Device) -> tuple[Slices, Flows, Loads]:
    """Slices that each fit on a core, what flows between them, and what they need.

    Raises:
        LoweringError: neurons that fit on no core by themselves, with the arithmetic.
    """
    cuts: list[Array] = [_first_cuts(work, i, device) for i in range(len(work.neurons))]
    flows: dict[str, Flows] = {}
    changed = set(range(len(cuts)))
    names = {part.name: index for index, part in enumerate(work.neurons)}
    while True:
        slices = _slices(work, cuts)
        offsets = np.cumsum([0, *(len(c) for c in cuts)])
        for part in work.synapses:
            ends = names[part.source], names[part.target]
            if changed & set(ends):
                rates = work.neurons[ends[0]].rates
                flows[part.name] = _flow(part, rates, cuts[ends[0]], cuts[ends[1]])
        joined = _joined(work.synapses, flows, names, offsets)
        loads = _loads(slices, joined, device)
        over = _over(loads, device) & _on_cores(work, slices, device)
        if not over.any():
            return slices, joined, loads
        alone = np.flatnonzero(over & (slices.sizes == 1))
        if len(alone):
            raise LoweringError(_too_large(work, device, slices, loads, alone))
        changed = set[int](slices.population[over].tolist())
        halves: Array = (slices.start + slices.stop) // 2
        for index in changed:
            cuts[index] = np.sort(
                np.append(cuts[index], halves[over & (slices.population == index)])
            )


def _on_cores(work: Workload, slices: Slices, device: Device) -> Array:
    """Which slices take a core: all but inputs that take none."""
    inputs = np.array([part.is_input for part in work.neurons], np.bool_)
    return ~inputs[slices.population] | (device["sources_per_core"] > 0)


def _first_cuts(work: Workload, index: int, device: Device) -> Array:
    """Where slices begin by numbers of neurons, and memory for neurons and their synapses."""
    part = work.neurons[index]
    if part.is_input:
        step = device["sources_per_core"] or part.count
        return np.arange(0, part.count, step)
    limit, most = device["neurons_per_core"], device["core_bytes"]
    if not most:
        return np.arange(0, part.count, limit)
    bytes_of = np.full(part.count, device["neuron_bytes"], np.int64)
    for edge in work.synapses:
        shared = device["shared_windows"] and edge.connectivity.kernel_weights
        if edge.target == part.name and not shared:
            bytes_of += edge.connectivity.fan_in * device["synapse_bytes"]
    total = np.concatenate([[0], np.cumsum(bytes_of)])
    cuts, start = [0], 0
    while True:
        full: int = total[start] + most
        stop = int(np.searchsorted(total, full, side="right")) - 1
        start = min(max(stop, start + 1), start + limit)
        if start >= part.count:
            return np.array(cuts)
        cuts.append(start)


def _slices(work: Workload, cuts: Sequence[Array]) -> Slices:
    counts = [len(c) for c in cuts]
    ends = [np.append(c[1:], part.count) for c, part in zip(cuts, work.neurons, strict=True)]
    population: Array = np.repeat(np.arange(len(cuts)), counts)
    return Slices(population, np.concatenate(cuts), np.concatenate(ends))


def _flow(part: Synapses, rates: Array, rows: Array, columns: Array) -> Flows:
    """What a projection brings from each slice of its source to each of its target."""
    ways = part.connectivity
    ends = np.append(rows[1:], ways.sources)
    per_source = max(len(columns), ways.synapses // ways.sources, 1)
    parts: list[Flows] = []
    first = 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and (ends[last] - rows[first]) * per_source <= _BLOCK:
            last += 1
        start, stop = int(rows[first]), int(ends[last - 1])
        counted, within = ways.counts(start, stop, columns), rows[first:last] - start
        reached = counted > 0
        axons = np.add.reduceat(reached, within, axis=0, dtype=np.int64)
        i, j = np.nonzero(axons)
        parts.append(
            Flows(
                i + first,
                j,
                np.add.reduceat(counted, within, axis=0, dtype=np.int64)[i, j],
                axons[i, j],
                np.add.reduceat(reached * rates[start:stop, None], within, axis=0)[i, j],
                np.maximum.reduceat(counted, within, axis=0)[i, j],
                np.full(len(i), ways.kernel_weights, np.int64),
            )
        )
        first = last
    return Flows(*map(np.concatenate, zip(*parts, strict=True)))


def _joined(
    synapses: Sequence[Synapses], flows: dict[str, Flows], names: dict[str, int], offsets: Array
) -> Flows:
    """The flows of all projections, between slices of all populations."""
    none = np.zeros(0, np.int64)
    whole = [Flows(none, none, none, none, np.zeros(0), none, none)]
    for part in synapses:
        of, first, last = flows[part.name], offsets[names[part.source]], offsets[names[part.target]]
        whole.append(of._replace(source=of.source + first, target=of.target + last))
    return Flows(*map(np.concatenate, zip(*whole, strict=True)))


def _loads(slices: Slices, flows: Flows, device: Device) -> Loads:
    count = len(slices.start)

    def per_slice(where: Array, values: Array) -> Array:
        return np.bincount(where, values, minlength=count).astype(np.int64)

    stored = flows.synapses
    if device["padded_rows"]:
        stored = flows.axons * flows.longest
    if device["shared_windows"]:
        stored = np.where(flows.kernel > 0, np.minimum(flows.kernel, stored), stored)
    held = stored * device["synapse_bytes"] + flows.axons * device["row_bytes"]
    axons_out = per_slice(flows.source, flows.axons)
    own = slices.sizes * device["neuron_bytes"] + axons_out * device["axon_out_bytes"]
    incoming = per_slice(flows.target, held)
    on_core = own + incoming if device["core_bytes"] else np.zeros_like(own)
    on_chip = incoming if device["chip_bytes"] else np.zeros_like(own)
    axons_in = per_slice(flows.target, flows.axons)
    return Loads(slices.sizes, axons_in, axons_out, on_core, on_chip)


def _over(loads: Loads, device: Device) -> Array:
    over = np.zeros(len(loads.neurons), np.bool_)
    for load, limit in loads.limited(device).values():
        over |= load > limit
    return over


def _too_large(work: Workload, device: Device, slices: Slices, loads: Loads, alone: Array) -> str:
    """What is wrong with neurons that no core holds, and into how many each would have to go."""
    lines: list[str] = []
    for index in alone[:10].tolist():
        name, neuron = work.neurons[int(slices.population[index])].name, int(slices.start[index])
        for resource, (load, limit) in loads.limited(device).items():
            if load[index] > limit:
                parts = -(-int(load[index]) // limit)
                side = "the cores that it reaches" if resource == "axons_out" else "its inputs"
                lines.append(
                    f"  @{name}, neuron {neuron}: {resource} {load[index]:,}, a core has {limit:,};"
                    f" share {side} among {parts} neurons"
                )
    more = f"\n  and {len(alone) - 10} more" if len(alone) > 10 else ""
    return (
        f"@{work.name} does not fit on '{device.name}': a core holds none of these neurons, even "
        "alone\n" + "\n".join(lines) + more
    )
