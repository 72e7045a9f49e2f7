"""`place`: from a network and a machine to a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...dialects.spike import NetworkOp
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from .cores import Traffic, arranged, merged, packed, summed, traffic
from .device import Device
from .device_file import load_device
from .placement import Placement, Slice
from .routing import Routing, route
from .slicing import Flows, Loads, Slices, cut
from .workload import ActivityLike, Workload, workload_of


def place(
    network: NetworkOp | Workload,
    device: str | Path | Device,
    activity: ActivityLike | None = None,
    *,
    constraints: Mapping[str, object] | None = None,
) -> Placement:
    """Put a network on the cores and chips of a machine, such that few spikes go far.

    Populations are cut into slices that each fit on a core. Where the machine shares cores, slices
    that exchange most spikes are joined while they fit. Cores go to chips, and to places on a chip,
    such that spikes times hops are few; effort is bounded, and the same network gives the same
    placement.

    Args:
        network: whose parameters have values, or its `Workload`.
        device: a machine, its name, or the path of its file; see `device_names`.
        activity: measured spikes a neuron and step, by population and input; 1 where nothing is
            said. Of a `Workload` its own.
        constraints: other numbers of the machine, as `SpikingConfig.hardware_constraints`; the
            machine itself as `device` in it is used where `device` is empty.

    Raises:
        OptionError: no such machine, number or population.
        LoweringError: the network does not fit; with the arithmetic and what would.
    """
    constraints = constraints or {}
    machine = load_device(device or str(constraints.get("device", "")))
    machine = machine.with_constraints(constraints)
    work = network if isinstance(network, Workload) else workload_of(network, activity)
    slices, flows, loads = cut(work, machine)
    inside = _takes_core(work, machine)[slices.population]
    return _Planner(work, machine, slices, flows, loads, inside).placement()


def _takes_core(work: Workload, device: Device) -> Array:
    takes = device["sources_per_core"] > 0
    return np.array([takes or not part.is_input for part in work.neurons], np.bool_)


@dataclass(frozen=True, eq=False)
class _Planner:
    """What is known when slices are cut."""

    work: Workload
    device: Device
    slices: Slices
    flows: Flows
    loads: Loads
    inside: Array

    def placement(self) -> Placement:
        numbers = np.cumsum(self.inside) - 1
        within = self.inside[self.flows.source]
        source = numbers[self.flows.source[within]]
        target = numbers[self.flows.target[within]]
        core = self.cores(source, target, self.flows.spikes[within])
        count = int(core.max(initial=-1)) + 1
        pairs, spikes = summed(count, core[source], core[target], self.flows.spikes[within])
        between = traffic(count, *pairs, spikes)
        chips, chip, processor = self.chips(core, count, between)
        core_places = np.stack([chip, processor], 1)
        places = core_places[core]
        routing = None
        if self.device["routing_entries"]:
            own = self.slices.population[self.inside], self.slices.sizes[self.inside]
            hexagonal = self.device.grid == "hexagonal"
            routing = route(chips, hexagonal, *own, places, (source, target))
            self.check_routers(chips, routing)
        hops = self.hops(chips, core_places, *pairs)
        loads = {
            name: np.bincount(core, load[self.inside], minlength=count).astype(np.int64)
            for name, load in vars(self.loads).items()
        }
        used = np.unique(chip).tolist()
        return Placement(
            self.work.name,
            self.device,
            self.sliced(core, places, chips, routing),
            len({int(chips[c, 0]) for c in used}),
            loads,
            *pairs,
            spikes,
            hops,
            {c: int(routing.entries[c]) for c in used} if routing else {},
            {c: int(routing.merged[c]) for c in used} if routing else {},
            float(self.flows.spikes[~within].sum()),
        )

    def cores(self, source: Array, target: Array, spikes: Array) -> Array:
        """The core of each slice."""
        count = int(self.inside.sum())
        if not self.device.shared:
            return np.arange(count)
        limits = {"neurons": (self.loads.neurons, self.device["neurons_per_core"])}
        limits |= self.loads.limited(self.device)
        needs = np.stack([load[self.inside] for load, _ in limits.values()], 1)
        most = np.array([limit for _, limit in limits.values()], np.int64)
        core = merged(count, source, target, spikes, needs, most)
        if core.max(initial=-1) >= self.device.core_count:
            core = packed(core, needs, most)
        return core

    def chips(self, core: Array, count: int, between: Traffic) -> tuple[Array, Array, Array]:
        """The chips of the boards that are needed; the chip of each core and its number there."""
        per_board = int(self.device.usable_cores.sum())
        size = np.bincount(core, self.loads.chip_bytes[self.inside], minlength=count)
        space, most = self.device["chip_bytes"], max(1, self.device["boards"])
        by_memory = -(-int(size.sum()) // max(1, space * len(self.device.cores))) if space else 1
        boards = max(1, -(-count // max(1, per_board)), by_memory)
        if boards <= most and (not space or size.max(initial=0) <= space):
            # What does not go into so many boards, for memory that is left over, goes into more.
            for wider in range(boards, min(most, 2 * boards) + 1):
                chips = self.device.chips(wider)
                room = np.tile(self.device.usable_cores, wider)
                distance = self.chip_distance(chips)
                memory = np.full(len(chips), float(space)) if space else np.full(len(chips), np.inf)
                chip = arranged(between, room, distance, size, memory)
                if chip is not None:
                    return chips, chip, self.processors(chip, between)
        raise LoweringError(self.too_many(core, size, boards))

    def processors(self, chip: Array, between: Traffic) -> Array:
        """The number of each core within its chip, near to those that it exchanges spikes with."""
        processor = np.zeros(len(chip), np.int64)
        columns = self.device.core_columns
        for here in np.unique(chip).tolist():
            own = np.flatnonzero(chip == here)
            number = np.arange(len(own))
            if columns:
                room = int(self.device.usable_cores[here % len(self.device.cores)])
                spots = np.arange(room)
                grid: Array = np.stack([spots % columns, spots // columns], 1)
                distance: Array = np.abs(grid[:, None] - grid[None]).sum(2).astype(float)
                inner = _within(between, own, len(chip))
                none = np.zeros(len(own))
                ordered = arranged(inner, np.ones(room, np.int64), distance, none, np.ones(room))
                number = number if ordered is None else ordered
            processor[own] = number
            processor[own] += self.device["reserved_cores_per_chip"]
            if here % len(self.device.cores) == 0:
                processor[own] += self.device["reserved_cores_per_board"]
        return processor

    def chip_distance(self, chips: Array) -> Array:
        """Steps between chips, as `chip_hops` counts them."""
        x, y = self.device.steps(chips[:, None, 1:] - chips[None, :, 1:])
        return (x + y) * float(max(1, self.device["chip_hops"]))

    def hops(self, chips: Array, places: Array, source: Array, target: Array) -> Array:
        """Steps from core to core: between their chips, or on the grid of one chip."""
        steps = self.chip_distance(chips)[places[source, 0], places[target, 0]]
        columns = self.device.core_columns
        if columns:
            a, b = places[source, 1], places[target, 1]
            on_chip = np.abs(a % columns - b % columns) + np.abs(a // columns - b // columns)
            steps = steps + np.where(steps == 0, on_chip, 0)
        return steps.astype(np.int64)

    def check_routers(self, chips: Array, routing: Routing) -> None:
        """Refuse tables that no router holds."""
        limit, worst = self.device["routing_entries"], int(routing.merged.argmax())
        if routing.merged[worst] > limit:
            _, x, y = chips[worst].tolist()
            raise LoweringError(
                f"@{self.work.name} does not fit on '{self.device.name}': the router of chip "
                f"({x}, {y}) needs {int(routing.merged[worst]):,} entries, joined from "
                f"{int(routing.entries[worst]):,}, and has {limit:,}; "
                f"{int((routing.merged > limit).sum())} chips have too few. Make populations that "
                "reach only some of the others, or larger slices"
            )

    def sliced(
        self, core: Array, places: Array, chips: Array, routing: Routing | None
    ) -> list[Slice]:
        population: list[int] = self.slices.population.tolist()
        names = [part.name for part in self.work.neurons]
        own = np.flatnonzero(self.inside)
        return [
            Slice(
                names[population[index]],
                int(self.slices.start[index]),
                int(self.slices.stop[index]),
                int(core[i]),
                int(chips[places[i, 0], 0]),
                int(places[i, 0]),
                int(chips[places[i, 0], 1]),
                int(chips[places[i, 0], 2]),
                int(places[i, 1]),
                int(routing.keys[i]) if routing else 0,
                int(routing.masks[i]) if routing else 0,
            )
            for i, index in enumerate(own.tolist())
        ]

    def too_many(self, core: Array, size: Array, boards: int) -> str:
        """What there is, what is needed, and what would do."""
        device, most = self.device, max(1, self.device["boards"])
        names = [part.name for part in self.work.neurons]
        population = self.slices.population[self.inside]
        present: list[int] = np.unique(population).tolist()
        counts = {names[p]: len(np.unique(core[population == p])) for p in present}
        needed = ", ".join(f"@{name} {count:,}" for name, count in list(counts.items())[:12])
        needed += f" and {len(counts) - 12} more" if len(counts) > 12 else ""
        usable = int(device.usable_cores.sum())
        lines = [
            f"@{self.work.name} does not fit on '{device.name}': it takes "
            f"{int(core.max()) + 1:,} cores ({needed}), and there are {device.core_count:,} "
            f"({most} boards of {len(device.cores)} chips, {usable:,} cores a board)"
        ]
        space = device["chip_bytes"]
        if space and size.sum():
            lines.append(
                f"its synapses take {int(size.sum()):,} bytes, at most {int(size.max()):,} on a "
                f"core, and a chip has {space:,}"
            )
        if boards > most:
            lines.append(f"{boards} boards would hold it: boards={boards} in hardware_constraints")
            parts = _prefixes(counts, usable * most)
            if max(counts.values()) <= usable * most:
                shown = "; ".join(f"{', '.join('@' + n for n in part)}" for part in parts[:8])
                lines.append(f"or {len(parts)} parts, each on a machine of its own: {shown}")
        elif space and size.max(initial=0) > space:
            parts = -(-int(size.max()) // space)
            lines.append(f"slices of {parts} times fewer neurons would: neurons_per_core")
        return "; ".join(lines)


def _prefixes(counts: Mapping[str, int], room: int) -> list[list[str]]:
    """Runs of populations that each fit into so many cores, where no single one takes more."""
    parts: list[list[str]] = []
    free = 0
    for name, count in counts.items():
        if count > free or not parts:
            parts.append([])
            free = room
        parts[-1].append(name)
        free -= count
    return parts


def _within(between: Traffic, own: Array, count: int) -> Traffic:
    """The traffic among some items alone, numbered anew."""
    number = np.full(count, -1, np.int64)
    number[own] = np.arange(len(own))
    rows = [between.row(item) for item in own.tolist()]
    item = np.repeat(np.arange(len(own)), [len(other) for other, _ in rows])
    other, spikes = (np.concatenate(column) for column in zip(*rows, strict=True))
    kept = number[other] >= 0
    first = np.searchsorted(item[kept], np.arange(len(own) + 1))
    return Traffic(first, number[other[kept]], spikes[kept])
