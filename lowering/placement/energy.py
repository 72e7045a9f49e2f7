"""Joules and seconds of a run on a machine: how often things happen, times what they cost.

Events come from the run (`drive`), who goes where from the placement, costs from the machine
(`costs`); each result is a range, from the least to the most that sources say. The terms are those
of Davies et al., Loihi, IEEE Micro 38(1), 2018, table 2, as SANA-FE (Boyle et al., IEEE TCAD, 2025)
counts them: synapses, neurons in each step, updates, spikes, messages, hops; besides idle power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import refuse
from .device import Device
from .device_file import load_device
from .placement import Placement
from .run import Drive

EVENTS = ("synapse", "step", "update", "spike", "message", "hop_x", "hop_y")
"""What is counted, by the names of costs."""

_TIMES = ("synapse", "step", "update", "spike", "send", "receive")
_BLOCK = 1 << 22
HOST = "cpu"
"""The machine that computes products before the first spikes."""


@dataclass(frozen=True, eq=False)
class EnergyMetrics:
    """What one sample takes, on average over those of a run.

    Attributes:
        drive: the run.
        placement: where its neurons stand.
        populations: of each part: the slices of the placement, then inputs that take no core.
        cores: of each part, -1 for no core, int [parts].
        events: by name how often in each part, f64 [parts].
        idle: J of the chips in use while the sample runs, least and most, f64 [2].
        host: J of products before the first spikes, on the machine `HOST`, f64 [2]; not in `total`.
        step_seconds: of an average step on the core that takes longest, f64 [2]; `None` where the
            machine has no such costs.
        seconds: of a sample, where the machine keeps to a clock by that; `None` as before.
        missing: costs of what happens that no public source has.
    """

    drive: Drive
    placement: Placement
    populations: Sequence[str]
    cores: Array
    events: Mapping[str, Array]
    idle: Array
    host: Array
    step_seconds: Array | None
    seconds: Array | None
    missing: Sequence[str]

    @property
    def device(self) -> Device:
        """The machine."""
        return self.placement.device

    @property
    def steps(self) -> int:
        """Of a sample, on the machine."""
        return self.drive.steps

    @property
    def refused(self) -> str:
        """Why these are the neurons of the program as given, and not those of a target's files."""
        return self.drive.refused

    @property
    def joules(self) -> dict[str, Array]:
        """J by event and part, f64 [parts, 2]."""
        costs = self.device.costs
        none = np.zeros(2)
        return {
            name: count[:, None] * (costs[name].range if name in costs else none)
            for name, count in self.events.items()
        }

    @property
    def terms(self) -> dict[str, Array]:
        """J by event, and `idle`, f64 [2]."""
        return {**{name: part.sum(0) for name, part in self.joules.items()}, "idle": self.idle}

    @property
    def total(self) -> Array:
        """J of the machine, f64 [2]."""
        return np.sum(list(self.terms.values()), axis=0)

    @property
    def by_population(self) -> dict[str, Array]:
        """J of what happens in each population and input, without idle power, f64 [2]."""
        parts, names = self._parts, np.array(self.populations)
        return {name: parts[names == name].sum(0) for name in dict.fromkeys(self.populations)}

    @property
    def by_core(self) -> Array:
        """J of what happens on each core, without idle power, f64 [cores, 2]."""
        on, parts = self.cores >= 0, self._parts
        count = int(self.cores.max(initial=-1)) + 1
        ends = [np.bincount(self.cores[on], parts[on, end], minlength=count) for end in (0, 1)]
        return np.stack(ends, 1)

    @property
    def _parts(self) -> Array:
        return np.sum(list(self.joules.values()), axis=0)

    @property
    def keeps_up(self) -> bool | None:
        """Whether the longest core ends its steps within the machine's clock, at the most that
        sources say; `None` where one of the two is not known."""
        clock = self.device.costs.get("real_time")
        if clock is None or self.step_seconds is None:
            return None
        return bool(self.step_seconds[1] <= clock.low)

    def to_dict(self) -> dict[str, object]:
        """What JSON has of it: ranges are [least, most], in J and s."""

        def listed(ranges: Mapping[str, Array]) -> dict[str, object]:
            return {name: value.tolist() for name, value in ranges.items()}

        def optional(value: Array | None) -> object:
            return None if value is None else value.tolist()

        return {
            "network": self.placement.network,
            "device": self.device.name,
            "title": self.device.title,
            "total": self.total.tolist(),
            "terms": listed(self.terms),
            "populations": listed(self.by_population),
            "cores": self.by_core.tolist(),
            "events": {name: float(count.sum()) for name, count in self.events.items()},
            "host": self.host.tolist(),
            "steps": self.steps,
            "step_seconds": optional(self.step_seconds),
            "seconds": optional(self.seconds),
            "keeps_up": self.keeps_up,
            "missing": list(self.missing),
            "refused": self.refused,
            "costs": {name: cost.to_dict() for name, cost in self.device.costs.items()},
        }


def energy_of(drive: Drive, placement: Placement) -> EnergyMetrics:
    """What a sample of a run takes on a machine.

    Args:
        drive: the run.
        placement: of its workload.

    Raises:
        OptionError: the run is of no sample.
    """
    refuse(not drive.samples, "joules of a sample need a sample at least; the inputs have none")
    device, runs = placement.device, drive.samples
    counted = _Events(drive, placement)
    events = {name: count / runs for name, count in counted.events.items()}
    if device["dense"]:
        events = {name: np.zeros_like(count) for name, count in events.items()}
        events["synapse"] = counted.dense + counted.inputs * drive.products
    host = np.zeros(2)
    if not device["dense"]:
        host = drive.products * load_device(HOST).costs["synapse"].range
    step_seconds = counted.step_seconds(runs * drive.steps)
    clock = device.costs.get("real_time")
    lasts = step_seconds
    if clock is not None:
        lasts = clock.range if lasts is None else np.maximum(lasts, clock.range)
    seconds = None if lasts is None else lasts * drive.steps
    watts = device.costs.get("chip_idle")
    idle = np.zeros(2)
    if watts is not None and seconds is not None:
        idle = watts.range * seconds * placement.chips
    happens = [name for name in EVENTS if events[name].any()]
    missing = [name for name in [*happens, "chip_idle"] if name not in device.costs]
    return EnergyMetrics(
        drive,
        placement,
        counted.populations,
        counted.cores,
        events,
        idle,
        host,
        step_seconds,
        seconds,
        [] if device["inclusive"] else missing,
    )


class _Events:
    """Counts over all samples of a run, by part; messages and hops where they are sent."""

    def __init__(self, drive: Drive, placement: Placement) -> None:
        self.drive, self.device = drive, placement.device
        own = [(p.population, p.start, p.stop, p.core) for p in placement.slices]
        placed = {name for name, *_ in own}
        others = [(n.name, 0, n.count, -1) for n in drive.workload.neurons if n.name not in placed]
        self.parts = [*own, *others]
        self.populations = [name for name, *_ in self.parts]
        self.cores: Array = np.array([core for *_, core in self.parts], np.int64)
        self.routers = _routers(placement)
        self.events = {name: np.zeros(len(self.parts)) for name in EVENTS}
        self.received = np.zeros(placement.cores)
        self.dense = np.zeros(len(self.parts))
        known = [neurons for neurons in drive.workload.neurons if neurons.is_input]
        first = (known or list(drive.workload.neurons))[0].name
        self.inputs = np.zeros(len(self.parts))
        self.inputs[self.populations.index(first)] = 1
        for index, (name, start, stop, _) in enumerate(self.parts):
            if name in drive.active:
                self.events["step"][index] = (stop - start) * drive.steps * drive.samples
                self.events["update"][index] = drive.active[name][start:stop].sum()
                self.events["spike"][index] = drive.spikes[name][:, start:stop].sum()
        for neurons in drive.workload.neurons:
            self._sent(neurons.name, neurons.count)

    def _of(self, name: str) -> list[int]:
        return [index for index, part in enumerate(self.parts) if part[0] == name]

    def _sent(self, name: str, count: int) -> None:
        """What the spikes of a population do, in blocks of its neurons."""
        ways = [way for way in self.drive.workload.synapses if way.source == name]
        fired = self.drive.spikes[name].sum(0)
        block = max(1, _BLOCK // max(1, len(self.received)))
        for start in range(0, count if ways else 0, block):
            stop = min(start + block, count)
            reached = np.zeros((stop - start, len(self.received)), np.bool_)
            for way in ways:
                targets = self._of(way.target)
                cuts = np.array([self.parts[index][1] for index in targets])
                synapses = way.connectivity.counts(start, stop, cuts)
                self.events["synapse"][targets] += fired[start:stop] @ synapses
                self.dense[targets] += synapses.sum(0)
                for column, index in enumerate(targets):
                    reached[:, self.cores[index]] |= synapses[:, column] > 0
            for index in self._of(name):
                low, high = max(start, self.parts[index][1]), min(stop, self.parts[index][2])
                if low < high:
                    self._messages(index, fired[low:high] @ reached[low - start : high - start])

    def _messages(self, index: int, sent: Array) -> None:
        """Messages from a part to each core."""
        self.received += sent
        self.events["message"][index] += sent.sum()
        core = int(self.cores[index])
        if core >= 0:
            x, y = self.device.steps(self.routers - self.routers[core])
            self.events["hop_x"][index] += sent @ x
            self.events["hop_y"][index] += sent @ y

    def step_seconds(self, steps: int) -> Array | None:
        """Of an average step, on the core that takes longest."""
        costs = self.device.costs
        if "synapse_time" not in costs:
            return None
        loads = dict(self.events, send=self.events["message"], receive=np.zeros(len(self.parts)))
        time = np.zeros((len(self.received), 2))
        on = self.cores >= 0
        for name in _TIMES:
            cost = costs.get(f"{name}_time")
            if cost is not None:
                load = np.bincount(self.cores[on], loads[name][on], minlength=len(time))
                load = self.received if name == "receive" else load
                time += load[:, None] * cost.range
        barrier = costs["barrier_time"].range if "barrier_time" in costs else np.zeros(2)
        return time.max(axis=0, initial=0.0) / max(1, steps) + barrier


def _routers(placement: Placement) -> Array:
    """Column and row of the router of each core, on the plane of all chips, int [cores, 2]."""
    device = placement.device
    places = np.zeros((placement.cores, 2), np.int64)
    columns, side = device.core_columns, max(1, device["tile_side"])
    for part in placement.slices:
        places[part.core] = part.x, part.y
        if columns:
            rows = -(-int(device.cores.max()) // columns)
            within = np.array([part.processor % columns, part.processor // columns])
            places[part.core] = (places[part.core] * (columns, rows) + within) // side
    return places
